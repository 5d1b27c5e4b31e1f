/* The meaning of a ref: its match among a repository's refs, and the commit that it leads to. */
#include "remote.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_ID_MIN = 4, NEAREST_FROM = 5000 };

static const struct remote_ref *ref_named(const struct remote_ref *refs, size_t count, const char *prefix,
                                          const char *name)
{
    size_t len = strlen(prefix);
    for (size_t i = 0; i < count; i++)
        if (strncmp(refs[i].name, prefix, len) == 0 && strcmp(refs[i].name + len, name) == 0)
            return &refs[i];
    return NULL;
}

static bool is_id(const char *ref)
{
    size_t n = 0;
    while (isxdigit((unsigned char)ref[n]) && !isupper((unsigned char)ref[n]))
        n++;
    return !ref[n] && n >= SHORT_ID_MIN && n <= TREE_ID_LEN;
}

static int no_such_ref(struct remote_job *job, const struct remote_ref *refs, size_t count)
{
    if (!job->ref)
        return error_set(&job->err, ERROR_SPEC, "\"%s\" has no HEAD: it has no commit yet, or its HEAD names no branch",
                         job->url);
    const char **names = xcalloc(count + 1, sizeof *names);
    size_t n = 0;
    bool full = str_starts(job->ref, "refs/");
    for (size_t i = 0; i < count && n < NEAREST_FROM; i++) {
        const char *name = refs[i].name;
        if (str_ends(name, "^{}") || str_eq(name, "HEAD"))
            continue;
        if (!full && str_starts(name, "refs/heads/"))
            name += strlen("refs/heads/");
        else if (!full && str_starts(name, "refs/tags/"))
            name += strlen("refs/tags/");
        names[n++] = name;
    }
    const char *near = str_nearest(job->ref, names);
    (void)error_set(&job->err, ERROR_SPEC, "\"%s\" has no branch, tag or commit \"%s\"", job->url, job->ref);
    if (near)
        error_hint(&job->err, "did you mean %s?", near);
    free(names);
    return -1;
}

int remote_pick(struct remote_job *job, const struct remote_ref *refs, size_t count, struct remote_pick *ret)
{
    const char *ref = job->ref;
    const struct remote_ref *found;
    if (!ref)
        found = ref_named(refs, count, "", "HEAD");
    else if (str_starts(ref, "refs/") || str_eq(ref, "HEAD"))
        found = ref_named(refs, count, "", ref);
    else
        found = ref_named(refs, count, "refs/heads/", ref);
    if (!found && ref) {
        found = ref_named(refs, count, "refs/tags/", ref);
        if (!found)
            found = ref_named(refs, count, "refs/", ref);
    } else if (found && ref && ref_named(refs, count, "refs/tags/", ref)) {
        buf_printf(&job->notes, "\"%s\" is a branch and a tag there: the branch was taken (refs/tags/%s is the tag)\n",
                   ref, ref);
    }
    *ret = (struct remote_pick){.name = found ? found->name : NULL};
    if (found) {
        ret->id = found->id;
        return 0;
    }
    if (!ref || !is_id(ref))
        return no_such_ref(job, refs, count);
    ret->prefix = strlen(ref) < TREE_ID_LEN;
    return ret->prefix ? 0 : git_oid_fromstr(&ret->id, ref);
}

int remote_peel(struct remote_job *job, git_repository *repository, const struct remote_pick *p)
{
    git_object *object = NULL, *commit = NULL;
    git_oid prefix;
    const char *ref = job->ref ? job->ref : "HEAD";
    int rc;
    if (!p->prefix)
        rc = git_object_lookup(&object, repository, &p->id, GIT_OBJECT_ANY);
    else if ((rc = git_oid_fromstrn(&prefix, ref, strlen(ref))) == 0)
        rc = git_object_lookup_prefix(&object, repository, &prefix, strlen(ref), GIT_OBJECT_COMMIT);
    if (rc == GIT_EAMBIGUOUS)
        (void)error_set(&job->err, ERROR_SPEC, "\"%s\" is the beginning of more than one id: give more of it", ref);
    else if (rc == GIT_ENOTFOUND)
        (void)error_set(&job->err, ERROR_SPEC, "\"%s\" has no branch, tag or commit \"%s\"", job->url, ref);
    else if (rc < 0)
        (void)tree_git_error(&job->err, ERROR_IO, "could not read \"%s\" of \"%s\"", ref, job->url);
    else if ((rc = git_object_peel(&commit, object, GIT_OBJECT_COMMIT)) < 0)
        (void)error_set(&job->err, ERROR_SPEC, "\"%s\" of \"%s\" is not a commit", ref, job->url);
    else
        (void)git_oid_tostr(job->commit, sizeof job->commit, git_object_id(commit));
    git_object_free(object);
    git_object_free(commit);
    return rc < 0 ? -1 : 0;
}

/* url.BASE.insteadOf of the user's configuration: the longest prefix wins. (libgit2 has this too, but its 1.5 leaks
 * memory for each entry of the configuration.) */
char *remote_instead(git_repository *repository, const char *url)
{
    git_config *config = NULL;
    git_config_iterator *all = NULL;
    git_config_entry *e;
    char *base = NULL;
    size_t longest = 0;
    if (git_repository_config_snapshot(&config, repository) == 0 && git_config_iterator_new(&all, config) == 0) {
        while (git_config_next(&e, all) == 0) {
            size_t len = e->value ? strlen(e->value) : 0;
            if (len <= longest || !str_starts(e->name, "url.") || !str_ends(e->name, ".insteadof") ||
                !str_starts(url, e->value))
                continue;
            longest = len;
            free(base);
            base = xstrndup(e->name + strlen("url."), strlen(e->name) - strlen("url.") - strlen(".insteadof"));
        }
    }
    git_config_iterator_free(all);
    git_config_free(config);
    char *instead = xasprintf("%s%s", base ? base : "", url + longest);
    free(base);
    return instead;
}
