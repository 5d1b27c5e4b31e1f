/* A commit of another repository as a tree. Its objects go to the store unchanged. */
#include "remote.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STILL_MS = 60000, END_MS = 5000, ATTRIBUTES_MAX = 1 << 20, MEMORY_MAX = 1 << 16 };

void remote_drop(struct remote_job *job)
{
    (void)pthread_mutex_lock(&job->lock);
    bool last = --job->owners == 0;
    (void)pthread_mutex_unlock(&job->lock);
    if (!last)
        return;
    (void)pthread_cond_destroy(&job->changed);
    (void)pthread_mutex_destroy(&job->lock);
    buf_free(&job->notes);
    free(job->dir);
    free(job->url);
    free(job->ref);
    free(job->real_url);
    free(job);
}

char *remote_memory(const char *url, const char *ref)
{
    CLEANUP(cleanup_free) char *text = xasprintf("%s\n%s", url, ref ? ref : "HEAD");
    char hex[65];
    digest_sha256_hex(text, strlen(text), hex);
    return xstrndup(hex, TREE_ID_LEN);
}

static int url_check(const char *url, struct error *err)
{
    if (!*url || *url == '-' || strpbrk(url, "\n\r"))
        return error_set(err, ERROR_SPEC, "\"%s\" is not a git URL", url);
    const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
    const char *at = memchr(host, '@', strcspn(host, "/"));
    struct remote_ssh parts;
    bool ssh = remote_ssh_parse(url, &parts);
    if (ssh)
        remote_ssh_free(&parts);
    if (!scheme || !at || (ssh && !memchr(host, ':', (size_t)(at - host))))
        return 0;
    (void)error_set(err, ERROR_SPEC, "the git URL of \"%s\" has credentials in it, which would be kept in the spec",
                    at + 1);
    error_hint(err, "leave them out: %s",
               ssh ? "a key is used (ssh-agent, ~/.ssh/config)" : "`git credential fill` is asked for them");
    return -1;
}

/* ---- the thread, and how long to wait for it ---- */

static uint64_t still_ns(void)
{
    const char *text = getenv("RHRUN_TEST_FETCH_STILL_MS"); /* test hook */
    uint64_t ms;
    return (text && parse_u64(text, &ms) ? ms : STILL_MS) * 1000000u;
}

static void wait_until(struct remote_job *job, uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    (void)pthread_cond_timedwait(&job->changed, &job->lock, &t);
}

/* -1: err says why; job->err is the thread's, which may live on. */
static int job_run(struct remote_job *job, struct error *err)
{
    sigset_t all, before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the other threads */
    job->owners = 2;
    int rc = pthread_create(&thread, NULL, remote_work, job);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        job->owners = 1;
        return error_errno(err, ERROR_INTERNAL, rc, "could not start a thread");
    }
    (void)pthread_mutex_lock(&job->lock);
    uint64_t still = still_ns();
    while (!job->done && mono_ns() < job->moved_ns + still)
        wait_until(job, job->moved_ns + still);
    bool in_time = job->done;
    job->abandoned = !in_time; /* it stops at its next step, if that ever comes */
    if (job->abandoned && job->child) {
        (void)kill(-job->child, SIGKILL); /* kills its whole session; then there will be a next step */
        uint64_t until = mono_ns() + (uint64_t)END_MS * 1000000u;
        while (!job->done && mono_ns() < until)
            wait_until(job, until);
    }
    bool ended = job->done;
    (void)pthread_mutex_unlock(&job->lock);
    (void)(ended ? pthread_join(thread, NULL) : pthread_detach(thread));
    if (!in_time)
        return error_set(err, ERROR_INFRA, "could not fetch from \"%s\": nothing came from it for %llu seconds",
                         job->url, (unsigned long long)(still / 1000000000u));
    if (job->err.code == ERROR_NONE)
        return 0;
    if (err)
        *err = job->err;
    return -1;
}

static struct remote_job *job_create(struct tree_store *s, const char *url, const char *ref)
{
    struct remote_job *job = xcalloc(1, sizeof *job);
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&job->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&job->lock, NULL);
    job->dir = xstrdup(s->dir);
    job->url = xstrdup(url);
    job->ref = ref ? xstrdup(ref) : NULL;
    job->real_url = remote_instead(s->repository, url);
    job->owners = 1;
    job->moved_ns = mono_ns();
    return job;
}

/* ---- remembered refs ---- */

static char *memory_path(const struct tree_store *s, const char *name)
{
    return xasprintf("%s/fetched/%s", s->dir, name);
}

/* False: nothing is remembered, or the store no longer has everything. */
static bool recall(struct tree_store *s, const char *name, struct arena *arena, struct tree **ret,
                   char ret_commit[TREE_ID_LEN + 1], const char **ret_notes)
{
    enum { COMMIT_AND_TREE = 2 * TREE_ID_LEN + 2 };
    CLEANUP(cleanup_free) char *path = memory_path(s, name);
    struct buf text = {0};
    char id[TREE_ID_LEN + 1];
    uint8_t oid[TREE_OID_SIZE];
    bool found = false;
    if (file_read(path, MEMORY_MAX, &text, NULL) == 0 && text.len >= COMMIT_AND_TREE && text.data[TREE_ID_LEN] == ' ' &&
        text.data[COMMIT_AND_TREE - 1] == '\n') {
        text.data[TREE_ID_LEN] = text.data[COMMIT_AND_TREE - 1] = 0;
        memcpy(id, text.data + TREE_ID_LEN + 1, sizeof id);
        found = hex_decode(text.data, oid, sizeof oid) && tree_load(s, id, arena, ret);
        if (found) {
            memcpy(ret_commit, text.data, TREE_ID_LEN + 1);
            *ret_notes = arena_strndup(arena, text.data + COMMIT_AND_TREE, text.len - COMMIT_AND_TREE);
        }
    }
    buf_free(&text);
    return found;
}

static int remember(const struct tree_store *s, const char *name, const char *commit, const struct tree *t,
                    const char *notes, struct error *err)
{
    CLEANUP(cleanup_free) char *folder = memory_path(s, ""), *path = memory_path(s, name);
    CLEANUP(cleanup_free) char *text = xasprintf("%s %s\n%s", commit, t->id, notes);
    return mkdir_p(folder, 0700, err) < 0 ? -1 : file_write_atomic(path, text, strlen(text), 0600, err);
}

/* ---- the commit's tree ---- */

static int tree_of(git_repository *repository, const char *commit, char ret_id[TREE_ID_LEN + 1], struct error *err)
{
    git_oid id;
    git_commit *c = NULL;
    if (git_oid_fromstr(&id, commit) < 0 || git_commit_lookup(&c, repository, &id) < 0)
        return tree_git_error(err, ERROR_IO, "could not read commit %s", commit);
    (void)git_oid_tostr(ret_id, TREE_ID_LEN + 1, git_commit_tree_id(c));
    git_commit_free(c);
    return 0;
}

/* Notes files in git LFS, of which the tree has only pointers. */
static void note_lfs(struct tree_store *s, const struct tree *t, struct buf *notes)
{
    const struct tree_file *f = tree_find(t, ".gitattributes");
    struct tree_reader r;
    if (!f || f->size > ATTRIBUTES_MAX || tree_open(s, f, &r, NULL) < 0)
        return;
    if (memmem(r.data, (size_t)r.size, "filter=lfs", strlen("filter=lfs")))
        buf_puts(notes, "it keeps files with git LFS: their contents are not fetched, only LFS's pointers to them\n");
    tree_done(&r);
}

/* Brings the files of the commit from the store `from` to the store s (which may be the same). */
static int bring(struct tree_store *s, struct tree_store *from, const struct remote_job *job, struct arena *arena,
                 struct tree **ret, struct buf *notes, struct error *err)
{
    char id[TREE_ID_LEN + 1];
    struct tree *t;
    bool same;
    struct error why = ERROR_INIT;
    if (tree_of(from->repository, job->commit, id, err) < 0)
        return -1;
    enum tree_found found = tree_list(from, id, arena, &t, &same, notes, &why);
    if (found != TREE_FOUND)
        (void)error_set(err, why.code ? why.code : ERROR_IO, "%s", why.code ? why.text : "a part of it is missing");
    if (found != TREE_FOUND || remote_copy(from, s, t, err) < 0) {
        error_prefix(err, "commit %s of \"%s\" cannot be used", job->commit, job->url);
        if (from == s && found != TREE_DAMAGED)
            error_hint(err, "remove \"%s\": it is made again", s->dir);
        return -1;
    }
    note_lfs(s, t, notes);
    *ret = t;
    return 0;
}

static int get(struct tree_store *s, struct remote_job *job, struct arena *arena, struct tree **ret,
               const char **ret_notes, struct error *err)
{
    CLEANUP(cleanup_free) char *path = remote_local_path(job->real_url);
    struct tree_store local = {.dir = NULL};
    struct buf notes = {0};
    int rc = path ? remote_local_open(job, path, &local) : job_run(job, err);
    if (rc < 0) {
        if (path && err)
            *err = job->err;
    } else if (!recall(s, job->commit, arena, ret, job->commit, ret_notes)) {
        rc = bring(s, path ? &local : s, job, arena, ret, &notes, err);
        while (notes.len && notes.data[notes.len - 1] == '\n')
            notes.data[--notes.len] = 0;
        *ret_notes = notes.len ? arena_strndup(arena, notes.data, notes.len) : "";
        if (rc == 0)
            rc = remember(s, job->commit, job->commit, *ret, *ret_notes, err);
    }
    if (rc == 0) {
        CLEANUP(cleanup_free) char *name = remote_memory(job->url, job->ref);
        rc = remember(s, name, job->commit, *ret, *ret_notes, err);
    }
    remote_local_close(&local);
    buf_free(&notes);
    return rc;
}

int tree_fetch(struct tree_store *s, const char *url, const char *ref, bool offline, struct arena *arena,
               struct tree **ret, char ret_commit[TREE_ID_LEN + 1], const char **ret_notes, struct error *err)
{
    uint8_t oid[TREE_OID_SIZE];
    CLEANUP(cleanup_free) char *name = remote_memory(url, ref);
    if (url_check(url, err) < 0)
        return -1;
    if (ref && hex_decode(ref, oid, sizeof oid) && recall(s, ref, arena, ret, ret_commit, ret_notes))
        return 0;
    if (offline) {
        if (recall(s, name, arena, ret, ret_commit, ret_notes))
            return 0;
        (void)error_set(err, ERROR_INFRA, "\"%s\" of \"%s\" was never fetched, and this is offline", ref ? ref : "HEAD",
                        url);
        error_hint(err, "%s", "leave --offline out once");
        return -1;
    }
    if (tree_store_git(s, err) < 0)
        return -1;
    struct remote_job *job = job_create(s, url, ref);
    struct tree *t;
    const char *notes;
    int rc = get(s, job, arena, &t, &notes, err);
    if (rc == 0) {
        *ret = t;
        memcpy(ret_commit, job->commit, sizeof job->commit);
        if (job->notes.len && !*notes)
            job->notes.data[--job->notes.len] = 0; /* lines, without a newline after the last */
        *ret_notes = job->notes.len ? arena_printf(arena, "%s%s", job->notes.data, notes) : notes;
    }
    remote_drop(job);
    return rc;
}
