/* The thread of a fetch: asks the remote for its refs, and gets the objects of the commit that `ref` means there. It
 * has its own handle on the repository, so it shares only the store's files with the caller. */
#include "remote.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>

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
    job->why = ERROR_WHY_NONE;
    proxy.type = GIT_PROXY_AUTO;
    return git_remote_connect(remote, GIT_DIRECTION_FETCH, &callbacks, &proxy, NULL);
}

/* ---- the cause, for callers ---- */

/* rc: from libgit2; it is all that is known if libgit2 failed before it called us. */
static enum error_why cause(const struct remote_job *job, int rc)
{
    return job->why                 ? job->why
           : rc == GIT_EAUTH        ? ERROR_WHY_CREDENTIALS
           : rc == GIT_ECERTIFICATE ? ERROR_WHY_CERTIFICATE
                                    : ERROR_WHY_NONE;
}

static void hint(struct remote_job *job)
{
    struct remote_ssh ssh = {.host = NULL};
    switch (job->err.why) {
    case ERROR_WHY_HOST_KEY:
        if (remote_ssh_parse(job->url, &ssh))
            error_hint(&job->err,
                       "its host key is unknown or has changed: compare it with the one that its owner gives (ssh%s%s "
                       "%s), then "
                       "accept it once by hand, or remove an old one with ssh-keygen -R",
                       ssh.port ? " -p " : "", ssh.port ? ssh.port : "", ssh.host);
        remote_ssh_free(&ssh);
        break;
    case ERROR_WHY_LOGIN:
        error_hint(
            &job->err, "%s",
            "rhrun cannot ask for a passphrase here: load the key into ssh-agent (ssh-add KEY), or name one without a "
            "passphrase in ~/.ssh/config (IdentityFile)");
        break;
    case ERROR_WHY_CERTIFICATE:
        error_hint(&job->err, "%s", "GIT_SSL_CAINFO=FILE names the certificates to trust");
        break;
    case ERROR_WHY_CREDENTIALS:
        error_hint(&job->err, "%s", "set up a credential helper for git (git config credential.helper), or use ssh");
        break;
    case ERROR_WHY_NONE:
    case ERROR_WHY_DISK_FULL:
    case ERROR_WHY_ABSENT:
    case ERROR_WHY_OWNER:
        break;
    }
}

static int unreachable(struct remote_job *job, int rc, const char *what)
{
    (void)tree_git_error(&job->err, ERROR_INFRA, "could not %s \"%s\"", what, job->url);
    error_why(&job->err, cause(job, rc));
    hint(job);
    return -1;
}

/* ---- downloading ---- */

static int download(struct remote_job *job, git_remote *remote, char **specs, size_t count)
{
    git_fetch_options options;
    (void)git_fetch_options_init(&options, GIT_FETCH_OPTIONS_VERSION);
    callbacks_set(job, &options.callbacks);
    job->why = ERROR_WHY_NONE;
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
    int rc = download(job, remote, specs, ARRAY_LEN(specs));
    return rc < 0 ? unreachable(job, rc, "fetch from") : 0;
}

/* A server may refuse a commit that no ref names; a ref may still lead to it. */
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
    rc = git_remote_connected(remote) ? 0 : connect_to(job, remote);
    if (rc < 0)
        return unreachable(job, rc, "reach");
    return download_all(job, remote);
}

/* Keeps our own ref, so that the next fetch from there can tell which objects we have. */
static int keep(struct remote_job *job, git_repository *repository)
{
    CLEANUP(cleanup_free)
    char *memory = remote_memory(job->url, job->ref), *name = xasprintf("refs/fetched/%s", memory);
    git_reference *kept = NULL;
    git_oid id;
    int rc = git_oid_fromstr(&id, job->commit);
    if (rc == 0)
        rc = git_reference_create(&kept, repository, name, &id, 1, NULL);
    git_reference_free(kept);
    return rc < 0 ? tree_git_error(&job->err, ERROR_IO, "could not write to \"%s/refs\"", job->dir) : 0;
}

static int fetch(struct remote_job *job, git_repository *repository, git_remote *remote)
{
    const git_remote_head **heads;
    size_t count;
    struct remote_pick p;
    int rc = connect_to(job, remote);
    if (rc == 0)
        rc = git_remote_ls(&heads, &count, remote);
    if (rc < 0)
        return unreachable(job, rc, "reach");
    struct remote_ref *refs = xcalloc(count + 1, sizeof *refs);
    for (size_t i = 0; i < count; i++)
        refs[i] = (struct remote_ref){.name = heads[i]->name, .id = heads[i]->oid};
    rc = remote_pick(job, refs, count, &p);
    CLEANUP(cleanup_free)
    char *name = rc == 0 && p.name ? xstrdup(p.name) : NULL; /* the list is freed by the next connection */
    free(refs);
    if (rc < 0)
        return -1;
    git_odb *odb = NULL;
    bool there = !p.prefix && git_repository_odb(&odb, repository) == 0 && git_odb_exists(odb, &p.id);
    git_odb_free(odb);
    if (!there) {
        char *specs[] = {name};
        if (name)
            rc = download(job, remote, specs, 1);
        if (name && rc < 0)
            return unreachable(job, rc, "fetch from");
        if (!name)
            rc = p.prefix ? download_all(job, remote) : download_id(job, repository, remote, &p.id);
    }
    return rc < 0 || remote_peel(job, repository, &p) < 0 ? -1 : keep(job, repository);
}

/* Which CA certificates count: the user's, else those that libgit2 was built with; but a static program was built
 * elsewhere. */
static void trust(git_repository *repository)
{
    git_config *config = NULL;
    CLEANUP(cleanup_free) char *found = RHRUN_STATIC ? system_ca_file("") : NULL;
    const char *file = getenv("GIT_SSL_CAINFO");
    if (!file)
        file = getenv("SSL_CERT_FILE");
    if (git_repository_config_snapshot(&config, repository) == 0 && !file &&
        git_config_get_string(&file, config, "http.sslCAInfo") < 0)
        file = NULL;
    if (!file)
        file = found;
    if (file && *file)
        (void)git_libgit2_opts(GIT_OPT_SET_SSL_CERT_LOCATIONS, file, NULL);
    git_config_free(config);
}

static int remote_create(struct remote_job *job, git_repository *repository, git_remote **ret)
{
    trust(repository);
    git_remote_create_options options;
    (void)git_remote_create_options_init(&options, GIT_REMOTE_CREATE_OPTIONS_VERSION);
    options.repository = repository;
    options.flags = GIT_REMOTE_CREATE_SKIP_INSTEADOF | GIT_REMOTE_CREATE_SKIP_DEFAULT_FETCHSPEC;
    return git_remote_create_with_opts(ret, job->real_url, &options);
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
        (void)tree_git_error(&job->err, ERROR_SPEC, "\"%s\" is not a git URL", job->url);
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
