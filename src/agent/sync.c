/*
 * The transfer of a tree to this node: claimed like a run, but done by this process as frames come in. The changes of
 * each frame are in the index at the end of the turn, so the next transfer goes on from there.
 */
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    LOCK_WAIT_MS = 10000,
    LOCK_POLL_MS = 10,
    LOOK_MS = 20,           /* at most this long per turn, because PING must be answered */
    STATE_FILES = 2048,     /* in one SYNC_STATE */
    STATE_SIZE = 128 << 10, /* of their paths */
    PARTS_MAX = 1024,
};

/* ---- the end ---- */

static void release(struct sync *y)
{
    sync_file_close(y);
    dirs_leave(&y->dirs, 0);
    int *fds[] = {&y->status_fd, &y->lock_fd, &y->stage_fd, &y->root_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        cleanup_close(fds[i]);
        *fds[i] = -1;
    }
    tree_close(&y->tree);
    arena_destroy(y->arena);
    y->arena = NULL;
    y->phase = SYNC_NONE;
}

static void finish(struct server *s, bool stopped, enum wire_cause cause, int errnum, const char *tail)
{
    struct sync *y = &s->sync;
    struct error err = ERROR_INIT;
    sync_file_close(y);
    tree_flush(&y->tree, &err); /* if this fails, only more files are sent again */
    if (status_finish(y->status_fd, stopped, cause, errnum, tail, &err) < 0)
        out_fault(&s->out, y->attempt, "%s", err.text);
    release(y);
    struct stream *stream = stream_find(&s->streams, y->attempt);
    if (stream)
        stream->ready = stream->check = true;
}

/* The format says what failed and on what; the reason comes from errnum. */
FORMAT(3, 4) static void fail(struct server *s, int errnum, const char *fmt, ...)
{
    bool full = errnum == ENOSPC || errnum == EDQUOT;
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *what = xvasprintf(fmt, ap);
    va_end(ap);
    CLEANUP(cleanup_free)
    char *tail = xasprintf("%s%s: %s", full ? "no space left on the node: " : "", what, strerror(errnum));
    finish(s, false, WIRE_CAUSE_SETUP, errnum, tail);
}

static void fail_file(struct server *s, const char *path)
{
    int errnum = errno;
    CLEANUP(cleanup_free) char *copy = xstrdup(path); /* it may be in memory that is freed here */
    if (errnum == EISDIR)
        fail(s, errnum, "a folder with other files is in the way of \"%s\" (in \"%s\")", copy, s->sync.tree.path);
    else
        fail(s, errnum, "could not write \"%s\" in \"%s\"", copy, s->sync.tree.path);
}

bool sync_signal(struct server *s, const char *attempt)
{
    if (s->sync.phase == SYNC_NONE || strcmp(s->sync.attempt, attempt) != 0)
        return false;
    finish(s, true, WIRE_CAUSE_NONE, 0, "");
    return true;
}

/* ---- the beginning ---- */

/* Begins once the tree is ours alone. */
static void look_begin(struct server *s)
{
    struct sync *y = &s->sync;
    struct error err = ERROR_INIT;
    uint64_t now = mono_ns();
    ssize_t n = pwrite(y->status_fd, &now, sizeof now, offsetof(struct status, start_mono_ns));
    (void)n; /* its blocks are allocated */
    errno = 0;
    if ((str_eq(y->tree.path, s->ledger.work_dir) ? ledger_work_dir(&s->ledger, &err)
                                                  : mkdir_p(y->tree.path, 0755, &err)) < 0 ||
        tree_read(&y->tree, y->distrust, &err) < 0) {
        int errnum = errno ? errno : EIO;
        finish(s, false, WIRE_CAUSE_SETUP, errnum, ledger_reason(&s->ledger, &err, y->arena));
        return;
    }
    y->root_fd = y->dirs.root_fd = open(y->tree.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (y->root_fd < 0 || sync_stage_open(y, false) < 0) {
        fail(s, errno, "could not prepare folder \"%s\"", y->tree.path);
        return;
    }
    y->cursor = 0;
    y->phase = SYNC_LOOKING;
}

/* Nothing was done under the claim: undoes it. */
static void give_up(struct server *s, const char *text)
{
    struct error err = ERROR_INIT;
    struct stream *stream = stream_find(&s->streams, s->sync.attempt);
    out_fault(&s->out, s->sync.attempt, "%s", text);
    if (stream)
        stream_detach(&s->streams, stream);
    ledger_forget(&s->ledger, s->sync.attempt, &err);
    release(&s->sync);
}

static void try_lock(struct server *s)
{
    struct sync *y = &s->sync;
    struct error err = ERROR_INIT;
    if (flock(y->lock_fd, LOCK_EX | LOCK_NB) == 0) {
        look_begin(s);
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
        error_errno(&err, ERROR_INFRA, errno, "cannot lock \"%s\"", y->tree.dir);
        give_up(s, err.text);
    } else if (mono_ns() > y->deadline_ns) {
        error_set(&err, ERROR_INFRA, "could not lock \"%s\": another transfer to \"%s\" is running", y->tree.dir,
                  y->tree.path);
        give_up(s, err.text);
    }
}

static uint64_t lock_wait_ms(void)
{
    uint64_t ms = LOCK_WAIT_MS;
    const char *hook = getenv("RHRUN_TEST_TREE_WAIT_MS");
    if (hook)
        parse_u64(hook, &ms);
    return ms;
}

/* Under the job's lock: claims. */
static int claim(struct server *s, const struct wire_sync *m, struct error *err)
{
    struct sync *y = &s->sync;
    struct ledger *l = &s->ledger;
    const struct wire_run run = {.attempt = m->attempt, .slot = m->slot, .key = m->key};
    CLEANUP(cleanup_close) int dir_fd = -1;
    y->file.fd = y->status_fd = y->lock_fd = y->stage_fd = y->root_fd = -1;
    y->arena = arena_create();
    tree_open(&y->tree, l, m->name, m->root, y->arena);
    if (mkdir_p(y->tree.dir, 0700, err) < 0)
        return -1;
    y->lock_fd = open(arena_printf(y->arena, "%s/lock", y->tree.dir), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (y->lock_fd < 0)
        return error_errno(err, ERROR_INFRA, errno, "cannot lock \"%s\"", y->tree.dir);
    if (status_create(l->a_fd, &run, l->variant, l->place, ++s->sequence, &dir_fd, &y->status_fd, err) < 0)
        return -1;
    server_claimed(s, m->attempt, m->slot);
    snprintf(y->attempt, sizeof y->attempt, "%s", m->attempt);
    snprintf(y->id, sizeof y->id, "%s", m->tree);
    y->missing = m->flags & WIRE_SYNC_MISSING;
    y->distrust = m->flags & WIRE_SYNC_DISTRUST;
    y->changed = false;
    umask(y->umask = umask(0));
    y->deadline_ns = mono_ns() + lock_wait_ms() * 1000000u;
    y->phase = SYNC_WAITING;
    return stream_attach(&s->streams, l, m->attempt, 0, err);
}

static void begin(struct server *s, const struct wire_sync *m, struct arena *scratch)
{
    struct error err = ERROR_INIT;
    if (!server_begin(s, m->attempt))
        return;
    if (!server_claimable(s, m->attempt, m->slot, scratch)) {
        /* answered */
    } else if (s->sync.phase != SYNC_NONE) {
        out_fault(&s->out, m->attempt, "another transfer is running: attempt %s", s->sync.attempt);
    } else if (claim(s, m, &err) < 0) {
        out_fault(&s->out, m->attempt, "%s", ledger_reason(&s->ledger, &err, scratch));
        ledger_forget(&s->ledger, m->attempt, &err);
        release(&s->sync);
    } else {
        try_lock(s);
    }
    ledger_unlock(&s->ledger);
}

/* ---- the present files ---- */

/* 1: the file exists, unchanged; 0: it does not; -1: not known (errno). */
static int entry_look(struct sync *y, const struct tree_entry *e)
{
    const char *name;
    struct stat st;
    if (e->flags & ENTRY_GONE)
        return 0;
    int fd = dirs_enter(&y->dirs, e->path, &name, NULL, NULL);
    bool found = fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!found && !sync_is_absent(errno) && errno != EACCES)
        return -1;
    return y->missing ? found : !(e->flags & ENTRY_ANY) && tree_entry_there(&y->tree, e, found ? &st : NULL);
}

static void put_parts(struct sync *y, struct wire_sync_state *m)
{
    int fd = y->stage_fd < 0 ? -1 : openat(y->stage_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && m->part_count < PARTS_MAX && (e = readdir(dir));) {
        struct stat st;
        uint8_t *oid = arena_alloc(y->arena, WIRE_OID_SIZE);
        if (hex_decode(e->d_name, oid, WIRE_OID_SIZE) && fstatat(fd, e->d_name, &st, 0) == 0 && st.st_size > 0)
            m->parts[m->part_count++] = (struct wire_sync_part){oid, (uint64_t)st.st_size};
    }
    if (dir)
        closedir(dir);
}

/* all: lists every file, even if a complete tree is known. */
static void put_state(struct server *s, bool all)
{
    struct sync *y = &s->sync;
    struct arena *arena = arena_create();
    struct wire_sync_state m = {.attempt = y->attempt,
                                .base = all ? NULL : y->tree.id,
                                .files = arena_array(arena, STATE_FILES, sizeof *m.files),
                                .parts = arena_array(arena, PARTS_MAX, sizeof *m.parts)};
    bool base = !all && *y->tree.id;
    size_t size = 0;
    for (uint32_t i = 0; i < y->tree.count; i++) {
        const struct tree_entry *e = &y->tree.entries[i];
        bool there = !(e->flags & ENTRY_GONE);
        if (base ? !(there ? e->flags & ENTRY_NEW : e->flags & ENTRY_BASE) : !there)
            continue;
        m.files[m.file_count++] =
            (struct wire_sync_file){(char *)(uintptr_t)e->path, there ? e->oid : NULL, there ? e->mode : 0};
        size += strlen(e->path);
        if (m.file_count == STATE_FILES || size > STATE_SIZE) {
            wire_put_sync_state(&s->out.control, &m);
            m.file_count = 0;
            size = 0;
        }
    }
    m.last = 1;
    put_parts(y, &m);
    wire_put_sync_state(&s->out.control, &m);
    arena_destroy(arena);
}

static void look(struct server *s)
{
    struct sync *y = &s->sync;
    uint64_t end = mono_ns() + LOOK_MS * UINT64_C(1000000);
    for (; y->cursor < y->tree.count; y->cursor++) {
        struct tree_entry *e = &y->tree.entries[y->cursor];
        int there = entry_look(y, e);
        if (there < 0) {
            fail(s, errno, "could not look at \"%s\" in \"%s\"", e->path, y->tree.path);
            return;
        }
        if (!there) {
            e->flags |= ENTRY_GONE;
            y->changed = true;
        }
        if (y->cursor % 64 == 63 && mono_ns() > end) {
            y->cursor++;
            return;
        }
    }
    y->phase = SYNC_OPEN;
    put_state(s, false);
}

/* ---- the end of a good transfer ---- */

/* Removes files that may not have survived and were not sent again: they belong to no tree any more. */
static int remove_stale(struct server *s)
{
    struct tree *t = &s->sync.tree;
    for (uint32_t i = 0; i < t->count && !s->sync.missing; i++)
        if ((t->entries[i].flags & ENTRY_STALE) && sync_file_remove(&s->sync, &t->entries[i]) < 0) {
            fail_file(s, t->entries[i].path);
            return -1;
        }
    return 0;
}

static void complete(struct server *s)
{
    struct sync *y = &s->sync;
    struct error err = ERROR_INIT;
    if (y->file.open) {
        fail(s, EPROTO, "the transfer ended within \"%s\"", y->file.path);
        return;
    }
    if (remove_stale(s) < 0)
        return;
    if ((y->changed || y->tree.touched || y->tree.added.len || strcmp(y->tree.id, y->id) != 0) &&
        tree_commit(&y->tree, y->id, &err) < 0) {
        int errnum = errno;
        finish(s, false, WIRE_CAUSE_SETUP, errnum, ledger_reason(&s->ledger, &err, y->arena));
        return;
    }
    buf_clear(&y->tree.added);
    sync_stage_clear(y);
    finish(s, false, WIRE_CAUSE_NONE, 0, "");
}

/* ---- frames ---- */

/* Whether this frame belongs to the current transfer. Frames after a failure are dropped silently. */
static bool is_open(struct server *s, enum wire_type type, const char *attempt)
{
    if (s->sync.phase == SYNC_OPEN && strcmp(s->sync.attempt, attempt) == 0)
        return true;
    if ((type == WIRE_SYNC_END || type == WIRE_SYNC_ALL) && strcmp(s->sync.attempt, attempt) != 0)
        out_fault(&s->out, attempt, "attempt %s is no transfer of this connection", attempt);
    return false;
}

static bool file(struct server *s, struct wire_in *in)
{
    struct wire_file f;
    if (!wire_get_file(in, &f))
        return false;
    if (is_open(s, WIRE_FILE, f.attempt) && sync_file_put(&s->sync, &f) < 0)
        fail_file(s, f.path);
    return true;
}

static bool file_data(struct server *s, struct wire_in *in)
{
    uint32_t len;
    const char *attempt = wire_get_string(in);
    const uint8_t *data = wire_get_bytes(in, &len);
    if (!wire_in_done(in) || len > WIRE_FILE_MAX)
        return false;
    if (!is_open(s, WIRE_FILE_DATA, attempt))
        return true;
    if (!s->sync.file.open)
        fail(s, EPROTO, "file data without a file");
    else if (sync_file_more(&s->sync, data, len) < 0)
        fail_file(s, s->sync.file.path);
    return true;
}

static bool remove_files(struct server *s, struct wire_in *in)
{
    const char *attempt = wire_get_string(in);
    struct wire_strings paths = wire_get_strings(in);
    if (!wire_in_done(in))
        return false;
    for (uint32_t i = 0; i < paths.count; i++)
        if (!wire_tree_path_valid(paths.items[i]))
            return false;
    for (uint32_t i = 0; i < paths.count && is_open(s, WIRE_REMOVE, attempt); i++) {
        struct tree_entry *e = tree_find(&s->sync.tree, paths.items[i]);
        if (e && sync_file_remove(&s->sync, e) < 0)
            fail_file(s, paths.items[i]);
    }
    return true;
}

bool sync_request(struct server *s, enum wire_type type, struct wire_in *in, struct arena *scratch)
{
    struct wire_sync m;
    if (s->ledger.read_only) {
        out_fault(&s->out, "", "this connection only reads: no transfer to the node");
        return true;
    }
    if (type == WIRE_FILE)
        return file(s, in);
    if (type == WIRE_FILE_DATA)
        return file_data(s, in);
    if (type == WIRE_REMOVE)
        return remove_files(s, in);
    if (type == WIRE_SYNC) {
        if (!wire_get_sync(in, &m))
            return false;
        begin(s, &m, scratch);
        return true;
    }
    const char *attempt = wire_get_string(in);
    if (!wire_in_done(in))
        return false;
    if (!is_open(s, type, attempt))
        return true;
    if (type == WIRE_SYNC_ALL)
        put_state(s, true);
    else
        complete(s);
    return true;
}

void sync_turn(struct server *s)
{
    struct error err = ERROR_INIT;
    if (s->sync.phase == SYNC_WAITING)
        try_lock(s);
    if (s->sync.phase == SYNC_LOOKING)
        look(s);
    if (s->sync.phase == SYNC_OPEN && tree_flush(&s->sync.tree, &err) < 0) {
        int errnum = errno;
        finish(s, false, WIRE_CAUSE_SETUP, errnum, ledger_reason(&s->ledger, &err, s->sync.arena));
    }
}

int sync_wait_ms(const struct server *s, int wait_ms)
{
    int most = s->sync.phase == SYNC_WAITING ? LOCK_POLL_MS : s->sync.phase == SYNC_LOOKING ? 0 : wait_ms;
    return wait_ms < 0 || most < wait_ms ? most : wait_ms;
}
