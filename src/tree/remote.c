/* A commit of another repository as a tree. Its objects go to the store as they come. */
#include "remote.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STILL_MS = 60000, END_MS = 5000, ATTRIBUTES_MAX = 1 << 20 };

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
    free(job);
}

char *remote_memory(const char *url, const char *ref)
{
    CLEANUP(cleanup_free) char *text = xasprintf("%s\n%s", url, ref ? ref : "HEAD");
    char hex[65];
    digest_sha256_hex(text, strlen(text), hex);
    return xasprintf("refs/fetched/%.40s", hex);
}

static int url_check(const char *url, struct error *err)
{
    if (!*url || *url == '-' || strpbrk(url, "\n\r"))
        return error_set(err, ERROR_SPEC, "\"%s\" is no git URL", url);
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

/* ---- the thread, and how long it is waited for ---- */

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

static int job_run(struct remote_job *job, struct error *err)
{
    sigset_t all, before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the other threads */
    int rc = pthread_create(&thread, NULL, remote_work, job);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        job->owners--;
        return error_errno(err, ERROR_INTERNAL, rc, "could not start a thread");
    }
    (void)pthread_mutex_lock(&job->lock);
    uint64_t still = still_ns();
    while (!job->done && mono_ns() < job->moved_ns + still)
        wait_until(job, job->moved_ns + still);
    bool in_time = job->done;
    job->abandoned = !in_time; /* it stops at its next step, if there is one */
    if (job->abandoned && job->child) {
        (void)kill(-job->child, SIGKILL); /* a session of its own: what it started too. Then there is a next step */
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

static int fetch(struct tree_store *s, const char *url, const char *ref, char ret_commit[TREE_ID_LEN + 1],
                 struct buf *notes, struct error *err)
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
    job->owners = 2;
    job->moved_ns = mono_ns();
    int rc = job_run(job, err);
    if (rc == 0) {
        memcpy(ret_commit, job->commit, sizeof job->commit);
        if (job->notes.len)
            buf_append(notes, job->notes.data, job->notes.len);
    }
    remote_drop(job);
    return rc;
}

/* ---- without a network ---- */

static bool commit_here(struct tree_store *s, const char *id)
{
    git_oid oid;
    git_commit *commit = NULL;
    bool here = git_oid_fromstr(&oid, id) == 0 && git_commit_lookup(&commit, s->repository, &oid) == 0;
    git_commit_free(commit);
    return here;
}

static int remembered(struct tree_store *s, const char *url, const char *ref, char ret_commit[TREE_ID_LEN + 1],
                      struct error *err)
{
    CLEANUP(cleanup_free) char *name = remote_memory(url, ref);
    git_oid id;
    if (git_reference_name_to_id(&id, s->repository, name) < 0) {
        (void)error_set(err, ERROR_INFRA, "\"%s\" of \"%s\" was never fetched, and this is offline", ref ? ref : "HEAD",
                        url);
        error_hint(err, "%s", "leave --offline out once");
        return -1;
    }
    (void)git_oid_tostr(ret_commit, TREE_ID_LEN + 1, &id);
    return 0;
}

/* ---- the commit's tree ---- */

static int tree_of(struct tree_store *s, const char *commit, char ret_id[TREE_ID_LEN + 1], struct error *err)
{
    git_oid id;
    git_commit *c = NULL;
    if (git_oid_fromstr(&id, commit) < 0 || git_commit_lookup(&c, s->repository, &id) < 0)
        return tree_git_error(err, ERROR_IO, "could not read commit %s", commit);
    (void)git_oid_tostr(ret_id, TREE_ID_LEN + 1, git_commit_tree_id(c));
    git_commit_free(c);
    return 0;
}

/* A tree with submodules or old forms of modes is stored again as its files alone are: the id says what is there. */
static int store_again(struct tree_store *s, struct tree *t, struct error *err)
{
    struct tree_batch *batch;
    if (tree_batch_begin(s, 0, 0, &batch, err) < 0)
        return -1;
    if (tree_id(t->files, t->count, batch, t->id, err) < 0) {
        tree_batch_abort(batch);
        return -1;
    }
    return tree_batch_end(batch, err);
}

/* Files kept elsewhere (git LFS): here are only their pointers. */
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

int tree_fetch(struct tree_store *s, const char *url, const char *ref, bool offline, struct arena *arena,
               struct tree **ret, char ret_commit[TREE_ID_LEN + 1], const char **ret_notes, struct error *err)
{
    char commit[TREE_ID_LEN + 1], id[TREE_ID_LEN + 1];
    uint8_t oid[TREE_OID_SIZE];
    struct buf notes = {0}, listed = {0};
    struct error why = ERROR_INIT;
    if (url_check(url, err) < 0 || tree_store_git(s, err) < 0)
        return -1;
    if (ref && hex_decode(ref, oid, sizeof oid) && commit_here(s, ref))
        memcpy(commit, ref, sizeof commit);
    else if ((offline ? remembered(s, url, ref, commit, err) : fetch(s, url, ref, commit, &notes, err)) < 0)
        return -1;
    int rc = tree_of(s, commit, id, err);
    struct tree *t = NULL;
    bool same = true;
    if (rc == 0) {
        enum tree_found found = tree_list(s, id, arena, &t, &same, &listed, &why);
        if (found != TREE_FOUND) {
            rc = error_set(err, why.code ? why.code : ERROR_IO, "commit %s of \"%s\" cannot be used: %s", commit, url,
                           why.code ? why.text : "a part of it is missing in the snapshot store");
            if (found == TREE_MISSING)
                error_hint(err, "remove \"%s\": it is made again", s->dir);
        }
    }
    if (rc == 0 && !same)
        rc = store_again(s, t, err);
    if (rc == 0) {
        note_lfs(s, t, &notes);
        if (listed.len)
            buf_append(&notes, listed.data, listed.len);
        while (notes.len && notes.data[notes.len - 1] == '\n')
            notes.data[--notes.len] = 0;
        *ret = t;
        memcpy(ret_commit, commit, sizeof commit);
        *ret_notes = notes.len ? arena_strndup(arena, notes.data, notes.len) : "";
    }
    buf_free(&notes);
    buf_free(&listed);
    return rc;
}
