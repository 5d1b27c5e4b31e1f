/* gc: the parts of the state directory that nothing needs any more. It enters folders one by one, follows no link, and
 * enters only folders of this user. */
#include "gcing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOT_THERE = -1, LEFT_BEHIND_MS = 3600 * 1000, TREES_MAX = 100000 };

/* ---- folders ---- */

/* Opens `at`. -1: it does not exist, is a link, or belongs to another user. */
static int enter(int at, const char *name)
{
    struct stat st;
    const int fd = at == NOT_THERE ? -1 : openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (at >= 0)
        close(at);
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_uid != geteuid())) {
        close(fd);
        return -1;
    }
    return fd;
}

static int enter_run(const char *job, const char *run)
{
    CLEANUP(cleanup_free) char *home = journal_home(NULL);
    return home ? enter(enter(enter(enter(enter(AT_FDCWD, home), "jobs"), job), "runs"), run) : -1;
}

/* "NAME.PID.tmp" of a process that has ended, at least an hour old. */
static bool is_left_behind(const struct gc *g, const char *name, const struct stat *st)
{
    uint32_t pid;
    if (!str_ends(name, ".tmp"))
        return false;
    CLEANUP(cleanup_free) char *stem = xstrndup(name, strlen(name) - strlen(".tmp"));
    const char *dot = strrchr(stem, '.');
    return dot && parse_u32(dot + 1, &pid) && pid > 1 && pid < INT32_MAX && kill((pid_t)pid, 0) < 0 && errno == ESRCH &&
           (uint64_t)st->st_mtime * 1000 + LEFT_BEHIND_MS < g->now_ms;
}

/* ---- logs ---- */

struct of_job { /* from its journal */
    struct gc *g;
    const struct state *state;
    uint64_t bytes, files, runs, newest_ms;
    bool really;
};

uint64_t gc_run_used(const struct state_run *run)
{
    return run->closed_ms > run->opened_ms ? run->closed_ms : run->opened_ms;
}

bool gc_run_kept(const struct gc *g, const struct state *s, const struct state_run *run)
{
    const struct state_run *done = NULL;
    for (size_t i = s->run_count; i-- > 0 && !done;)
        done = s->runs[i].status == RUN_DONE ? &s->runs[i] : NULL;
    return run->status == RUN_OPEN || run == done || run == &s->runs[s->run_count - 1] || state_run_left(s, run->id) ||
           !gc_is_old(g, gc_run_used(run));
}

/* If one of the newest runs kept a step, the step's log is with the run that did it. */
static bool log_is_kept(const struct of_job *o, const char *name)
{
    char attempt[64] = "";
    const struct state *s = o->state;
    snprintf(attempt, sizeof attempt, "%.*s", (int)(strlen(name) - strlen(".spool")), name);
    const struct state_cell *cell = state_cell_by_attempt(s, attempt);
    if (!cell || !str_eq(cell->attempt, attempt))
        return false;
    for (size_t i = s->run_count; i-- > 0;)
        if (gc_run_kept(o->g, s, &s->runs[i]) && (!*cell->scope || str_eq(cell->scope, s->runs[i].variant)))
            return true;
    return false;
}

/* Before the first log is removed: commands that look for logs then say why there are none. */
static bool mark_gone(int fd)
{
    const int mark = openat(fd, CLI_LOGS_GONE, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (mark >= 0)
        close(mark);
    return mark >= 0;
}

/* The logs of a run, and files that dead processes left there. */
static int run_logs(struct of_job *o, const char *job, const struct state_run *run, struct error *err)
{
    const int fd = enter_run(job, run->id);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const bool kept = gc_run_kept(o->g, o->state, run);
    bool marked = false;
    uint64_t files = 0;
    int rc = 0;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        struct stat st;
        const bool log = (str_ends(e->d_name, ".spool") && !kept && !log_is_kept(o, e->d_name)) ||
                         (!kept && str_eq(e->d_name, "shown"));
        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
            !(log || is_left_behind(o->g, e->d_name, &st)))
            continue;
        if (o->really && log && !marked && !(marked = mark_gone(fd)))
            rc = error_errno(err, ERROR_IO, errno, "could not write to the folder of run %s", run->id);
        else if (o->really && unlinkat(fd, e->d_name, 0) < 0 && errno != ENOENT)
            rc = error_errno(err, ERROR_IO, errno, "could not remove \"%s\" of run %s", e->d_name, run->id);
        files++;
        o->bytes += (uint64_t)st.st_blocks * 512;
    }
    closedir(dir);
    o->files += files;
    o->runs += files > 0;
    if (files && gc_run_used(run) > o->newest_ms)
        o->newest_ms = gc_run_used(run);
    return rc;
}

static int all_logs(struct of_job *o, const char *job, struct error *err)
{
    for (size_t i = 0; i < o->state->run_count; i++)
        if (run_logs(o, job, &o->state->runs[i], err) < 0)
            return -1;
    return 0;
}

/* ---- snapshots ---- */

struct wanted {
    struct gc *g;
    struct journal *journal;
    struct arena *arena;
    const char **trees;
    size_t count, whole, cap;
    bool unknown; /* a kept run does not say which files it was made of */
};

static bool is_newest(const struct state *s, const struct state_run *run)
{
    return run == &s->runs[s->run_count - 1] || run->status == RUN_OPEN;
}

static bool take_opened(void *arg, const struct event *e)
{
    struct wanted *w = arg;
    const struct state *s = journal_state(w->journal);
    const struct state_run *run = e->type == EVENT_RUN_OPENED ? state_run_find(s, e->run) : NULL;
    struct diagnostics d = {0};
    struct doc *doc = NULL;
    if (!run || !gc_run_kept(w->g, s, run))
        return true;
    const char *made = e->opened.made_of;
    if (!made || doc_load_text("made of", made, strlen(made), DOC_FORMAT_JSON, w->arena, &doc, &d, NULL) < 0)
        w->unknown = true;
    diagnostics_free(&d);
    const struct doc_node *trees = doc ? doc_get(doc->root, "trees") : NULL;
    for (size_t i = 0; trees && trees->type == DOC_ARRAY && i < trees->count; i++) {
        const char *id = doc_get_string(trees->items[i], "id", "");
        if (w->count == w->cap) {
            w->cap = w->cap ? 2 * w->cap : 64;
            w->trees = xreallocarray(w->trees, w->cap, sizeof *w->trees);
        }
        w->unknown = w->unknown || !str_is_hex(id, TREE_ID_LEN) || w->count == TREES_MAX;
        w->trees[w->count++] = arena_strdup(w->arena, id);
        if (is_newest(s, run)) { /* to the front */
            const char *other = w->trees[w->whole];
            w->trees[w->whole++] = w->trees[w->count - 1];
            w->trees[w->count - 1] = other;
        }
    }
    return !w->unknown;
}

static int snapshots(struct gc *g, struct journal *j, bool really, struct tree_swept *ret, struct error *err)
{
    struct wanted w = {.g = g, .journal = j, .arena = arena_create()};
    CLEANUP(cleanup_free) char *store = xasprintf("%s/tree.git", journal_path(j));
    CLEANUP(cleanup_free) char *head = xasprintf("%s/HEAD", store);
    int rc = 0;
    *ret = (struct tree_swept){0};
    if (access(head, F_OK) == 0 && journal_state(j)->run_count > 0) {
        rc = journal_each(j, 0, take_opened, &w, err);
        if (rc == 0 && !w.unknown)
            rc = tree_store_sweep(store, w.trees, w.count, w.whole, really, ret, err);
    }
    free(w.trees);
    arena_destroy(w.arena);
    return rc;
}

/* ---- jobs ---- */

static void find_in_job(struct gc *g, const struct journal_job *job)
{
    struct journal *j;
    struct error err = ERROR_INIT;
    struct tree_swept swept;
    if (journal_open_read(job->id, &j, &err) < 0) {
        gc_tell(g, &err);
        return;
    }
    const char *id = arena_strdup(g->c->arena, job->id), *of = arena_strdup(g->c->arena, job->name);
    const char *path = arena_strdup(g->c->arena, journal_path(j));
    struct of_job o = {.g = g, .state = journal_state(j)};
    struct gc_item item = {.job = id, .of = of, .path = path};
    if (!journal_holder(j, NULL, NULL)) {
        if (all_logs(&o, id, &err) < 0)
            gc_tell(g, &err);
        item.kind = GC_LOGS;
        item.count = o.runs;
        item.used_ms = o.newest_ms;
        item.bytes = o.bytes;
        if (o.files)
            gc_add(g, &item);
        item = (struct gc_item){.kind = GC_SNAPSHOTS, .job = id, .of = of};
        if (snapshots(g, j, false, &swept, &err) < 0 && err.code != ERROR_HELD)
            gc_tell(g, &err);
        item.path = arena_printf(g->c->arena, "%s/tree.git", path);
        item.count = swept.files;
        item.bytes = swept.bytes;
        if (swept.files)
            gc_add(g, &item);
    }
    journal_close(j);
}

/* Under the job's lock, by the present state of the journal. */
static int remove_in_job(struct gc *g, struct gc_item *item, struct error *err)
{
    struct journal *j;
    struct tree_swept swept;
    const int lock =
        journal_hold(item->job, item->of, arena_printf(g->c->arena, "%s: gc", cli_owner_name(g->c->arena)), err);
    if (lock < 0)
        return -1;
    int rc = journal_open_read(item->job, &j, err);
    if (rc == 0 && item->kind == GC_LOGS) {
        struct of_job o = {.g = g, .state = journal_state(j), .really = true};
        rc = all_logs(&o, item->job, err);
        item->bytes = o.bytes;
        item->count = o.runs;
    } else if (rc == 0) {
        rc = snapshots(g, j, true, &swept, err);
        item->bytes = swept.bytes;
        item->count = swept.files;
    }
    if (rc == 0)
        journal_close(j);
    journal_let_go(lock);
    return rc;
}

/* ---- bundles that `rerun BUNDLE` unpacked ---- */

static uint64_t blocks_below(const char *path, unsigned depth)
{
    uint64_t sum = 0;
    struct stat st;
    DIR *dir = depth < 8 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        CLEANUP(cleanup_free) char *file = xasprintf("%s/%s", path, e->d_name);
        if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || lstat(file, &st) < 0)
            continue;
        sum += (uint64_t)st.st_blocks * 512 + (S_ISDIR(st.st_mode) ? blocks_below(file, depth + 1) : 0);
    }
    if (dir)
        closedir(dir);
    return sum;
}

/* Whether an unfinished run was started from this lock. */
static bool is_run_from(const struct journal_job *jobs, size_t count, const char *lock)
{
    bool is = false;
    for (size_t i = 0; i < count && !is; i++) {
        struct journal *j;
        if (journal_open_read(jobs[i].id, &j, NULL) < 0)
            return true; /* it is not known */
        const struct state_run *open = state_run_open(journal_state(j));
        is = open && str_eq(open->spec_path, lock);
        journal_close(j);
    }
    return is;
}

static void find_bundles(struct gc *g, const struct journal_job *jobs, size_t count)
{
    struct arena *a = g->c->arena;
    CLEANUP(cleanup_free) char *home = journal_home(NULL);
    const char *folder = arena_printf(a, "%s/reruns", home ? home : "");
    DIR *dir = home ? opendir(folder) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        if (!str_starts(e->d_name, "bundle-") || !str_ends(e->d_name, ".git"))
            continue;
        const char *path = arena_printf(a, "%s/%s", folder, e->d_name);
        const char *lock = arena_printf(a, "%.*s.lock.yaml", (int)(strlen(path) - strlen(".git")), path);
        if (lstat(lock, &st) < 0 && lstat(path, &st) < 0)
            continue;
        const uint64_t used = (uint64_t)st.st_mtime * 1000;
        if (gc_is_old(g, used) && !is_run_from(jobs, count, lock))
            gc_add(g,
                   &(struct gc_item){
                       .kind = GC_BUNDLE, .path = path, .count = 1, .used_ms = used, .bytes = blocks_below(path, 0)});
    }
    if (dir)
        closedir(dir);
}

static int remove_bundle(struct gc *g, const struct gc_item *item, struct error *err)
{
    struct journal_job *jobs = NULL;
    size_t count = 0;
    struct stat st;
    const char *lock =
        arena_printf(g->c->arena, "%.*s.lock.yaml", (int)(strlen(item->path) - strlen(".git")), item->path);
    int rc = journal_jobs(&jobs, &count, err);
    if (rc == 0 &&
        (is_run_from(jobs, count, lock) || (lstat(lock, &st) == 0 && !gc_is_old(g, (uint64_t)st.st_mtime * 1000))))
        rc = error_set(err, ERROR_HELD, "a rerun continues from it");
    if (rc == 0)
        rc = tree_store_remove(item->path, err);
    if (rc == 0 && unlink(lock) < 0 && errno != ENOENT)
        rc = error_errno(err, ERROR_IO, errno, "could not remove \"%s\"", lock);
    journal_jobs_free(jobs, count);
    return rc;
}

/* ---- everything ---- */

void gc_find_here(struct gc *g)
{
    struct journal_job *jobs = NULL;
    size_t count = 0;
    struct error err = ERROR_INIT;
    if (journal_jobs(&jobs, &count, &err) < 0)
        gc_tell(g, &err);
    for (size_t i = 0; i < count; i++)
        if (!g->only || str_eq(g->only, jobs[i].id))
            find_in_job(g, &jobs[i]);
    if (!g->only)
        find_bundles(g, jobs, count);
    journal_jobs_free(jobs, count);
}

void gc_remove_here(struct gc *g, struct gc_item *item)
{
    struct error err = ERROR_INIT;
    const int rc = item->kind == GC_BUNDLE ? remove_bundle(g, item, &err) : remove_in_job(g, item, &err);
    if (rc == 0)
        item->state = GC_REMOVED;
    else
        gc_leave(g, item, &err);
}
