/* The thread of a fetch: asks the remote what it has, finds what `ref` means there, gets the objects. It has a handle
 * of its own on the repository, so nothing of the store is shared with the caller but the files. */
#include "remote.h"

#include <ctype.h>
#include <git2.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_ID_MIN = 4, NEAREST_FROM = 5000 };

struct remote_pick {
    const char *name; /* the full name of a ref there; NULL: the id itself is asked for */
    git_oid id;       /* of the ref (maybe of a tag), or all of it */
    bool everything;  /* a short id: only with all branches and tags here can it be known */
};

bool remote_moved(struct remote_job *job)
{
    (void)pthread_mutex_lock(&job->lock);
    job->moved_ns = mono_ns();
    bool go_on = !job->abandoned;
    (void)pthread_mutex_unlock(&job->lock);
    return go_on;
}

static int on_progress(const git_indexer_progress *stats, void *job)
{
    (void)stats;
    return remote_moved(job) ? 0 : GIT_EUSER;
}

static int on_sideband(const char *text, int len, void *job)
{
    (void)text;
    (void)len;
    return remote_moved(job) ? 0 : GIT_EUSER;
}

static void callbacks_set(struct remote_job *job, git_remote_callbacks *c)
{
    c->transfer_progress = on_progress;
    c->sideband_progress = on_sideband;
    c->credentials = remote_credential;
    c->certificate_check = remote_certificate;
    c->transport = remote_transport;
    c->payload = job;
}

static int connect_to(struct remote_job *job, git_remote *remote)
{
    git_remote_callbacks callbacks;
    git_proxy_options proxy;
    (void)git_remote_init_callbacks(&callbacks, GIT_REMOTE_CALLBACKS_VERSION);
    (void)git_proxy_options_init(&proxy, GIT_PROXY_OPTIONS_VERSION);
    callbacks_set(job, &callbacks);
    proxy.type = GIT_PROXY_AUTO;
    return git_remote_connect(remote, GIT_DIRECTION_FETCH, &callbacks, &proxy, NULL);
}

/* ---- what the caller can do about it ---- */

static int unreachable(struct remote_job *job, const char *what)
{
    const char *text = job->err.text;
    (void)tree_git_error(&job->err, ERROR_INFRA, "could not %s \"%s\"", what, job->url);
    if (strstr(text, "unsupported URL protocol") && !strstr(job->url, "://")) /* it took a path for no repository */
        return error_set(&job->err, ERROR_INFRA, "there is no git repository at \"%s\"", job->url);
    struct remote_ssh ssh = {.host = NULL};
    if (strstr(text, "Host key verification failed")) {
        if (remote_ssh_parse(job->url, &ssh))
            error_hint(&job->err,
                       "its host key is unknown or has changed: compare it with what its owner says (ssh%s%s %s), then "
                       "accept it once by hand, or remove an old one with ssh-keygen -R",
                       ssh.port ? " -p " : "", ssh.port ? ssh.port : "", ssh.host);
        remote_ssh_free(&ssh);
    } else if (strstr(text, "Permission denied")) {
        error_hint(&job->err, "%s",
                   "nothing can be asked here: load the key into ssh-agent (ssh-add KEY), or name one without a "
                   "passphrase in ~/.ssh/config (IdentityFile)");
    } else if (strstr(text, "certificate")) {
        error_hint(&job->err, "%s", "GIT_SSL_CAINFO=FILE names the certificates to trust");
    } else if (strstr(text, "credentials") || strstr(text, "authentication")) {
        error_hint(&job->err, "%s", "set up a credential helper for git (git config credential.helper), or use ssh");
    }
    return -1;
}

/* ---- what ref means ---- */

static const git_remote_head *head_named(const git_remote_head **heads, size_t count, const char *prefix,
                                         const char *name)
{
    size_t len = strlen(prefix);
    for (size_t i = 0; i < count; i++)
        if (strncmp(heads[i]->name, prefix, len) == 0 && strcmp(heads[i]->name + len, name) == 0)
            return heads[i];
    return NULL;
}

static bool is_id(const char *ref)
{
    size_t n = 0;
    while (isxdigit((unsigned char)ref[n]) && !isupper((unsigned char)ref[n]))
        n++;
    return !ref[n] && n >= SHORT_ID_MIN && n <= TREE_ID_LEN;
}

static int no_such_ref(struct remote_job *job, const git_remote_head **heads, size_t count)
{
    if (!job->ref)
        return error_set(&job->err, ERROR_SPEC, "\"%s\" has no HEAD: it has no commit yet, or its HEAD names no branch",
                         job->url);
    const char **names = xcalloc(count + 1, sizeof *names);
    size_t n = 0;
    bool full = str_starts(job->ref, "refs/");
    for (size_t i = 0; i < count && n < NEAREST_FROM; i++) {
        const char *name = heads[i]->name;
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

static int pick(struct remote_job *job, const git_remote_head **heads, size_t count, struct remote_pick *ret)
{
    const char *ref = job->ref;
    const git_remote_head *found;
    if (!ref)
        found = head_named(heads, count, "", "HEAD");
    else if (str_starts(ref, "refs/") || str_eq(ref, "HEAD"))
        found = head_named(heads, count, "", ref);
    else
        found = head_named(heads, count, "refs/heads/", ref);
    if (!found && ref) {
        found = head_named(heads, count, "refs/tags/", ref);
        if (!found)
            found = head_named(heads, count, "refs/", ref);
    } else if (found && ref && head_named(heads, count, "refs/tags/", ref)) {
        buf_printf(&job->notes, "\"%s\" is a branch and a tag there: the branch was taken (refs/tags/%s is the tag)\n",
                   ref, ref);
    }
    *ret = (struct remote_pick){.name = found ? found->name : NULL};
    if (found) {
        ret->id = found->oid;
        return 0;
    }
    if (!ref || !is_id(ref))
        return no_such_ref(job, heads, count);
    ret->everything = strlen(ref) < TREE_ID_LEN;
    return ret->everything ? 0 : git_oid_fromstr(&ret->id, ref);
}

/* ---- getting it ---- */

static int download(struct remote_job *job, git_remote *remote, char **specs, size_t count)
{
    git_fetch_options options;
    (void)git_fetch_options_init(&options, GIT_FETCH_OPTIONS_VERSION);
    callbacks_set(job, &options.callbacks);
    options.download_tags = GIT_REMOTE_DOWNLOAD_TAGS_NONE;
    options.update_fetchhead = 0;
    options.proxy_opts.type = GIT_PROXY_AUTO;
    git_strarray list = {.strings = specs, .count = count};
    return git_remote_download(remote, &list, &options);
}

static int download_all(struct remote_job *job, git_remote *remote)
{
    char heads[] = "+refs/heads/*:refs/heads/*", tags[] = "+refs/tags/*:refs/tags/*"; /* download sets no refs here */
    char *specs[] = {heads, tags};
    return download(job, remote, specs, ARRAY_LEN(specs)) < 0 ? unreachable(job, "fetch from") : 0;
}

/* A server may refuse a commit that no ref names: then it may still be below one. */
static int download_id(struct remote_job *job, git_repository *repository, git_remote *remote, const git_oid *id)
{
    char hex[TREE_ID_LEN + 1];
    char *specs[] = {git_oid_tostr(hex, sizeof hex, id)};
    git_odb *odb = NULL;
    int rc = download(job, remote, specs, 1);
    bool there = rc == 0 && git_repository_odb(&odb, repository) == 0 && git_odb_exists(odb, id);
    git_odb_free(odb);
    if (there)
        return 0;
    if (!git_remote_connected(remote) && connect_to(job, remote) < 0)
        return unreachable(job, "reach");
    return download_all(job, remote);
}

/* The commit that it is, now that its objects are here; tags are followed. */
static int settle(struct remote_job *job, git_repository *repository, const struct remote_pick *p)
{
    git_object *object = NULL, *commit = NULL;
    int rc;
    if (p->everything) {
        git_oid prefix;
        rc = git_oid_fromstrn(&prefix, job->ref, strlen(job->ref));
        rc = rc < 0 ? rc : git_object_lookup_prefix(&object, repository, &prefix, strlen(job->ref), GIT_OBJECT_COMMIT);
    } else {
        rc = git_object_lookup(&object, repository, &p->id, GIT_OBJECT_ANY);
    }
    const char *ref = job->ref ? job->ref : "HEAD";
    if (rc == GIT_EAMBIGUOUS)
        (void)error_set(&job->err, ERROR_SPEC, "\"%s\" is the beginning of more than one id: give more of it", ref);
    else if (rc == GIT_ENOTFOUND)
        (void)error_set(&job->err, ERROR_SPEC, "\"%s\" has no branch, tag or commit \"%s\"", job->url, ref);
    else if (rc < 0)
        (void)tree_git_error(&job->err, ERROR_IO, "could not read \"%s\" of \"%s\"", ref, job->url);
    else if ((rc = git_object_peel(&commit, object, GIT_OBJECT_COMMIT)) < 0)
        (void)error_set(&job->err, ERROR_SPEC, "\"%s\" of \"%s\" is no commit", ref, job->url);
    else
        (void)git_oid_tostr(job->commit, sizeof job->commit, git_object_id(commit));
    if (rc == 0) {
        CLEANUP(cleanup_free) char *name = remote_memory(job->url, job->ref);
        git_reference *memory = NULL;
        if (git_reference_create(&memory, repository, name, git_object_id(commit), 1, NULL) < 0)
            rc = tree_git_error(&job->err, ERROR_IO, "could not write to \"%s/refs\"", job->dir);
        git_reference_free(memory);
    }
    git_object_free(object);
    git_object_free(commit);
    return rc < 0 ? -1 : 0;
}

static int fetch(struct remote_job *job, git_repository *repository, git_remote *remote)
{
    const git_remote_head **heads;
    size_t count;
    struct remote_pick p;
    if (connect_to(job, remote) < 0 || git_remote_ls(&heads, &count, remote) < 0)
        return unreachable(job, "reach");
    if (pick(job, heads, count, &p) < 0)
        return -1;
    CLEANUP(cleanup_free) char *name = p.name ? xstrdup(p.name) : NULL; /* the list goes when it connects again */
    git_odb *odb = NULL;
    bool there = !p.everything && git_repository_odb(&odb, repository) == 0 && git_odb_exists(odb, &p.id);
    git_odb_free(odb);
    if (!there) {
        char *specs[] = {name};
        int rc = p.everything ? download_all(job, remote)
                 : !name      ? download_id(job, repository, remote, &p.id)
                              : download(job, remote, specs, 1);
        if (rc < 0)
            return name ? unreachable(job, "fetch from") : rc;
    }
    return settle(job, repository, &p);
}

/* url.BASE.insteadOf of the user's configuration: the longest beginning counts. (libgit2 has this too, but its 1.5
 * leaks memory for each entry of the configuration.) */
static char *url_instead(git_repository *repository, const char *url)
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

/* Whose certificates count: what the user says, else what libgit2 was built with. */
static void trust(git_repository *repository)
{
    git_config *config = NULL;
    const char *file = getenv("GIT_SSL_CAINFO");
    if (!file)
        file = getenv("SSL_CERT_FILE");
    if (git_repository_config_snapshot(&config, repository) == 0 && !file &&
        git_config_get_string(&file, config, "http.sslCAInfo") < 0)
        file = NULL;
    if (file && *file)
        (void)git_libgit2_opts(GIT_OPT_SET_SSL_CERT_LOCATIONS, file, NULL);
    git_config_free(config);
}

static int remote_create(struct remote_job *job, git_repository *repository, git_remote **ret)
{
    CLEANUP(cleanup_free) char *url = url_instead(repository, job->url);
    trust(repository);
    git_remote_create_options options;
    (void)git_remote_create_options_init(&options, GIT_REMOTE_CREATE_OPTIONS_VERSION);
    options.repository = repository;
    options.flags = GIT_REMOTE_CREATE_SKIP_INSTEADOF | GIT_REMOTE_CREATE_SKIP_DEFAULT_FETCHSPEC;
    return git_remote_create_with_opts(ret, url, &options);
}

void *remote_work(void *arg)
{
    struct remote_job *job = arg;
    git_repository *repository = NULL;
    git_remote *remote = NULL;
    if (git_libgit2_init() < 0)
        (void)tree_git_error(&job->err, ERROR_IO, "could not start libgit2");
    else if (git_repository_open_ext(&repository, job->dir, GIT_REPOSITORY_OPEN_NO_SEARCH | GIT_REPOSITORY_OPEN_BARE,
                                     NULL) < 0)
        (void)tree_git_error(&job->err, ERROR_IO, "could not open the snapshot store \"%s\"", job->dir);
    else if (remote_create(job, repository, &remote) < 0)
        (void)tree_git_error(&job->err, ERROR_SPEC, "\"%s\" is no git URL", job->url);
    else
        (void)fetch(job, repository, remote);
    git_remote_free(remote);
    git_repository_free(repository);
    git_libgit2_shutdown();
    (void)pthread_mutex_lock(&job->lock);
    job->done = true;
    (void)pthread_cond_signal(&job->changed);
    (void)pthread_mutex_unlock(&job->lock);
    remote_drop(job);
    return NULL;
}
