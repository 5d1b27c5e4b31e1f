/* A repository on this machine: nothing needs to be fetched. Its refs and objects are read in place, and only the files
 * of the one commit are copied. */
#include "remote.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOT_OURS = -36 /* GIT_EOWNER, in the headers since libgit2 1.4.3 */ };

char *remote_local_path(const char *url)
{
    struct remote_ssh ssh;
    if (str_starts(url, "file://")) /* "file://HOST/": only this host is meant */
        return xstrdup(strchr(url + strlen("file://"), '/') ? strchr(url + strlen("file://"), '/') : "");
    if (strstr(url, "://"))
        return NULL;
    if (remote_ssh_parse(url, &ssh)) {
        remote_ssh_free(&ssh);
        return NULL;
    }
    return xstrdup(url);
}

static struct remote_ref *refs_of(git_repository *repository, git_strarray *names, size_t *ret_count)
{
    static const char head[] = "HEAD";
    if (git_reference_list(names, repository) < 0)
        *names = (git_strarray){.count = 0};
    struct remote_ref *refs = xcalloc(names->count + 1, sizeof *refs);
    size_t n = 0;
    for (size_t i = 0; i <= names->count; i++) {
        const char *name = i < names->count ? names->strings[i] : head;
        if (git_reference_name_to_id(&refs[n].id, repository, name) == 0)
            refs[n++].name = name;
    }
    *ret_count = n;
    return refs;
}

int remote_local_open(struct remote_job *job, const char *path, struct tree_store *ret_from)
{
    struct tree_store from = {.dir = NULL};
    *ret_from = from;
    if (git_folder_check(path, &job->err) < 0)
        return -1;
    int rc = git_repository_open_ext(&from.repository, path, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL);
    if (rc == GIT_ENOTFOUND)
        return error_set(&job->err, ERROR_INFRA, "there is no git repository at \"%s\"", job->url);
    if (rc < 0) {
        (void)tree_git_error(&job->err, ERROR_INFRA, "could not open \"%s\"", job->url);
        if (rc == NOT_OURS) {
            error_why(&job->err, ERROR_WHY_OWNER);
            struct buf word = {0};
            buf_shell_quote(&word, path);
            error_hint(&job->err, "git config --global --add safe.directory %s", word.data);
            buf_free(&word);
        }
        return -1;
    }
    const char *common = git_repository_commondir(from.repository);
    from.dir = xstrndup(common, strlen(common) - str_ends(common, "/"));
    *ret_from = from;
    if (git_repository_odb(&ret_from->odb, from.repository) < 0)
        return tree_git_error(&job->err, ERROR_INFRA, "could not open the objects of \"%s\"", job->url);
    git_strarray names;
    size_t count;
    struct remote_pick p;
    struct remote_ref *refs = refs_of(from.repository, &names, &count);
    rc = remote_pick(job, refs, count, &p);
    free(refs);
    git_strarray_dispose(&names);
    return rc < 0 ? -1 : remote_peel(job, from.repository, &p);
}

void remote_local_close(struct tree_store *from)
{
    git_odb_free(from->odb);
    git_repository_free(from->repository);
    tree_packs_free(from);
    free(from->dir);
    *from = (struct tree_store){.dir = NULL};
}
