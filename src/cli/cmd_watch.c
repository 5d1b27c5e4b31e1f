/*
 * rhrun watch: applies a branch, commit after commit, in one process.
 *
 *   watches/ID/lock          held while a process watches this branch of this repository
 *   watches/ID/status.json   the last applied commit and its result: a kill -9 loses nothing
 *
 * If the repository is on this machine, the result is also in a note of the commit (refs/notes/rhrun).
 */
#include "apply.h"

#include "rhrun/doc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EVERY_MS = 60000, EVERY_MIN_MS = 100, PAUSE_MAX_MS = 3600 * 1000, STATUS_MAX = 64 << 20 };

struct watch_branch {
    struct cli *c;
    struct loop *loop;
    struct loop_timer *timer;
    const char *repository, *origin, *below, *ref; /* below: the folder that is applied; ref NULL = HEAD */
    const char *dir;
    bool local;                  /* the repository is on this machine: it gets notes */
    uint64_t every_ms, pause_ms; /* pause_ms: until a failed commit is tried again */
    uint64_t again_ms;           /* monotonic: earliest next try */
    uint32_t parallel;
    int lock;
    int interrupted;            /* the signal */
    char done[TREE_ID_LEN + 1]; /* the commit that needs no more work; "" = none */
    char seen[TREE_ID_LEN + 1]; /* the commit that was applied last */
    /* of a fetch, on a thread */
    struct cli sub;
    struct apply a;
    const char *base;
    struct error err;
    bool fetched;
    int fetch_rc;
};

static void say(const struct watch_branch *w, const char *fmt, ...) FORMAT(2, 3);
static void say(const struct watch_branch *w, const char *fmt, ...)
{
    va_list ap;
    char when[32];
    if (w->c->given[OPT_QUIET])
        return;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    str_printable(text);
    cli_time(wall_ms(), when);
    fprintf(stderr, "rhrun: %s: %s\n", when, text);
}

/* ---- stored state ---- */

static void put_status(struct watch_branch *w, const char *state, int exit_status, const struct buf *result)
{
    struct buf b = {0};
    struct error err = ERROR_INIT;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/status.json", w->dir);
    buf_puts(&b, "{\"version\":1");
    cli_json_string(&b, "repository", w->repository);
    cli_json_string(&b, "branch", w->ref);
    cli_json_string(&b, "commit", w->a.commit);
    cli_json_string(&b, "state", state);
    buf_printf(&b, ",\"exit_status\":%d,\"time_ms\":%llu,\"result\":%.*s}\n", exit_status,
               (unsigned long long)wall_ms(), result ? (int)strcspn(result->data, "\n") : 4,
               result ? result->data : "null");
    if (file_write_atomic(path, b.data, b.len, 0600, &err) < 0)
        cli_print_error(w->c, &err);
    buf_free(&b);
}

/* The commit that was applied completely. A commit that was only begun, or failed, is applied again. */
static void take_status(struct watch_branch *w)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/status.json", w->dir);
    struct buf text = {0};
    struct diagnostics d = {0};
    struct doc *doc;
    struct arena *arena = arena_create();
    if (file_read(path, STATUS_MAX, &text, NULL) == 0 &&
        doc_load_text(path, text.data ? text.data : "", text.len, DOC_FORMAT_JSON, arena, &doc, &d, NULL) == 0) {
        const char *commit = doc_get_string(doc->root, "commit", "");
        if (str_eq(doc_get_string(doc->root, "state", ""), "done") && str_is_hex(commit, TREE_ID_LEN))
            memcpy(w->done, commit, sizeof w->done);
    }
    diagnostics_free(&d);
    buf_free(&text);
    arena_destroy(arena);
}

static void put_note(struct watch_branch *w, const struct buf *result)
{
    struct error err = ERROR_INIT;
    struct tree_repo *repo = w->local ? tree_repo_open(w->repository, &err) : NULL;
    if (repo && tree_repo_note(repo, w->a.commit, result->data, &err) < 0)
        say(w, "%s; the status is in %s/status.json", err.text, w->dir);
    tree_repo_close(repo);
}

/* ---- one commit ---- */

static int apply_commit(struct watch_branch *w)
{
    struct apply *a = &w->a;
    const char *words[] = {w->below};
    say(w, "commit %.12s", a->commit);
    put_status(w, "applying", 0, NULL);
    int rc = apply_gather(a, w->base, words, 1);
    if (rc == 0)
        rc = apply_set(a);
    if (a->interrupted)
        w->interrupted = a->interrupted;
    apply_show(a, rc);
    fflush(stdout);
    struct buf result = {0};
    apply_put_json(&result, a, rc);
    if (!w->interrupted) { /* else it stays "applying": the next watch continues it */
        put_status(w, rc ? "failed" : "done", rc, &result);
        put_note(w, &result);
    }
    buf_free(&result);
    return rc;
}

/* After each failure the pauses grow; faults in the specs themselves are not retried, as time does not change them. */
static void after(struct watch_branch *w, int rc)
{
    if (!str_eq(w->a.commit, w->seen))
        w->pause_ms = w->every_ms;
    memcpy(w->seen, w->a.commit, sizeof w->seen);
    if (rc == 0 || rc == 2)
        memcpy(w->done, w->a.commit, sizeof w->done);
    if (w->interrupted || rc == 0)
        return;
    char pause[32];
    cli_duration(w->pause_ms, pause);
    if (rc == 2)
        say(w, "commit %.12s cannot be applied (exit status 2): waiting for the next one", w->a.commit);
    else
        say(w, "commit %.12s: exit status %d; it is tried again in %s", w->a.commit, rc, pause);
    w->again_ms = loop_now_ms(w->loop) + w->pause_ms;
    w->pause_ms = 2 * w->pause_ms < PAUSE_MAX_MS ? 2 * w->pause_ms : PAUSE_MAX_MS;
}

/* ---- the loop ---- */

static void fetch(void *arg)
{
    struct watch_branch *w = arg;
    w->fetch_rc = apply_checkout(&w->a, w->repository, w->origin, w->ref, &w->base, &w->err);
}

static void on_fetched(void *arg)
{
    struct watch_branch *w = arg;
    w->fetched = true;
    loop_stop(w->loop);
}

static void on_signal(void *arg, int signum)
{
    struct watch_branch *w = arg;
    w->interrupted = signum;
    loop_stop(w->loop);
}

static void on_time(void *arg)
{
    loop_stop(((struct watch_branch *)arg)->loop);
}

/* The loop does not run while specs are planned. */
static int asked_to_stop(void *arg)
{
    struct watch_branch *w = arg;
    loop_turn(w->loop, false);
    return w->interrupted;
}

/* False: a signal came during a fetch; its thread is not waited for. */
static bool round_of(struct watch_branch *w)
{
    w->sub = *w->c;
    w->sub.arena = arena_create();
    w->sub.given[OPT_AT] = true;
    w->a = (struct apply){.c = &w->sub,
                          .since_ms = wall_ms(),
                          .quiet = w->c->given[OPT_QUIET],
                          .parallel = w->parallel,
                          .term_leaves = true,
                          .asked_to_stop = asked_to_stop,
                          .asked_arg = w,
                          .null_fd = -1};
    w->err = (struct error)ERROR_INIT;
    w->fetched = false;
    loop_work(w->loop, fetch, on_fetched, w);
    loop_run(w->loop);
    if (!w->fetched)
        return false;
    if (w->interrupted) {
        /* nothing was begun */
    } else if (w->fetch_rc < 0) {
        say(w, "%s; tried again in a while", w->err.text);
        if (w->err.hint[0])
            say(w, "hint: %s", w->err.hint);
    } else if (!str_eq(w->a.commit, w->done) &&
               (!str_eq(w->a.commit, w->seen) || loop_now_ms(w->loop) >= w->again_ms)) {
        after(w, apply_commit(w));
    }
    apply_free(&w->a);
    arena_destroy(w->sub.arena);
    return true;
}

static int watch_it(struct watch_branch *w)
{
    w->loop = loop_create();
    w->timer = loop_timer_create(w->loop, on_time, w);
    struct loop_signal *interrupt = loop_signal_create(w->loop, SIGINT, on_signal, w, NULL);
    struct loop_signal *term = loop_signal_create(w->loop, SIGTERM, on_signal, w, NULL);
    while (!w->interrupted) {
        if (!round_of(w)) {
            say(w, "stopped");
            fflush(NULL);
            _exit(128 + w->interrupted); /* the thread still uses what a normal exit would free */
        }
        if (!w->interrupted) {
            loop_timer_start(w->timer, w->every_ms);
            loop_run(w->loop);
        }
    }
    say(w, "stopped");
    loop_signal_destroy(interrupt);
    loop_signal_destroy(term);
    loop_timer_destroy(w->timer);
    loop_destroy(w->loop);
    return 128 + w->interrupted;
}

/* ---- the command ---- */

/* A path, which may name a folder of the repository too, or a URL. */
static int find_repository(struct watch_branch *w, const char *word, struct error *err)
{
    struct arena *arena = w->c->arena;
    struct stat st;
    CLEANUP(cleanup_free) char *cwd = getcwd(NULL, 0);
    const bool url = strstr(word, "://") || (strchr(word, ':') && stat(word, &st) < 0);
    w->below = ".";
    if (url && !str_starts(word, "file:///")) {
        w->repository = word;
        w->origin = spec_url_origin(word, arena);
        return 0;
    }
    word = str_starts(word, "file://") ? word + strlen("file://") : word;
    CLEANUP(cleanup_free)
    char *path = path_clean(*word == '/' ? xstrdup(word) : xasprintf("%s/%s", cwd ? cwd : "", word));
    struct tree_repo *repo = tree_repo_open(path, err);
    if (!repo)
        return -1;
    w->local = true;
    w->repository = arena_strdup(arena, tree_repo_root(repo));
    w->origin = spec_repository_origin(w->repository, tree_repo_bare(repo), arena);
    if (*tree_repo_below(repo))
        w->below = arena_strdup(arena, tree_repo_below(repo));
    tree_repo_close(repo);
    return 0;
}

static int take_lock(struct watch_branch *w, struct error *err)
{
    char hex[65], text[300] = "";
    struct arena *arena = w->c->arena;
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home)
        return -1;
    const char *what = arena_printf(arena, "%s\n%s\n%s", w->repository, w->ref ? w->ref : "HEAD", w->below);
    digest_sha256_hex(what, strlen(what), hex);
    w->dir = arena_printf(arena, "%s/watches/%.16s", home, hex);
    if (mkdir_p(w->dir, 0700, err) < 0)
        return -1;
    const char *file = arena_printf(arena, "%s/lock", w->dir);
    w->lock = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (w->lock < 0)
        return error_errno(err, ERROR_IO, errno, "could not open \"%s\"", file);
    if (flock(w->lock, LOCK_EX | LOCK_NB) < 0) {
        if (pread(w->lock, text, sizeof text - 1, 0) > 0)
            text[strcspn(text, "\n")] = 0;
        str_printable(text);
        return error_set(err, ERROR_HELD, "\"%s\" is watched already, by %s", w->repository,
                         *text ? text : "another rhrun");
    }
    const char *mine = arena_printf(arena, "process %d of %.200s\n", (int)getpid(), cli_owner_name(arena));
    if (ftruncate(w->lock, 0) < 0 || pwrite(w->lock, mine, strlen(mine), 0) < 0)
        return error_errno(err, ERROR_IO, errno, "could not write \"%s\"", file);
    return 0;
}

static int times_of(struct watch_branch *w, struct error *err)
{
    const char *every = w->c->value[OPT_EVERY];
    w->every_ms = EVERY_MS;
    if (every && (!parse_duration_ms(every, &w->every_ms) || w->every_ms < EVERY_MIN_MS || w->every_ms > PAUSE_MAX_MS))
        return error_set(err, ERROR_USAGE, "--every: \"%s\" is not a time from 100ms to 1h", every);
    return 0;
}

static int cmd_watch(struct cli *c)
{
    struct watch_branch w = {.c = c, .ref = c->value[OPT_BRANCH], .lock = -1};
    struct error err = ERROR_INIT;
    int rc = apply_parallel(c, &w.parallel);
    if (rc)
        return rc;
    if (times_of(&w, &err) < 0 || find_repository(&w, c->words[0], &err) < 0 || cli_check_limits(&err) < 0 ||
        take_lock(&w, &err) < 0)
        return cli_fail(c, &err);
    take_status(&w);
    signal(SIGPIPE, SIG_IGN);
    say(&w, "watching %s of %s", w.ref ? w.ref : "HEAD", w.repository);
    rc = watch_it(&w);
    close(w.lock);
    return rc;
}

static const enum cli_option_id options[] = {OPT_BRANCH, OPT_EVERY, OPT_PARALLEL, OPT_PRUNE, OPT_YES, OPT_COUNT};
const struct cli_command cmd_watch_command = {
    "watch",
    "REPO",
    "Apply each new commit of a branch, one after another",
    "Looks at the branch again and again, and applies each new commit as apply --at\n"
    "does. The result is in status.json in the state directory, and in a note of the\n"
    "commit (git notes --ref=rhrun show) if the repository is on this machine. REPO\n"
    "is a URL, or the path of a clone, of a bare clone, or of a folder in one. A\n"
    "fetch that fails is tried again; so is a commit that failed, after pauses that\n"
    "grow, but not a commit that cannot be applied at all (exit status 2). Ctrl-C\n"
    "stops the running jobs in an orderly way; TERM leaves them running, and the next\n"
    "watch continues with the commit, as after a kill -9.",
    options,
    1,
    1,
    false,
    cmd_watch};
