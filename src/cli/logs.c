/* Log files to the terminal. What was started one after the other (set-up, each generation of the launch, the epilog)
 * is printed one after the other; within that, the records of several attempts are merged by the time at which they
 * were read. Nothing is held but one record per file, so a log may be larger than memory. */
#include "internal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    CHUNK = WIRE_SPOOL_HEADER + WIRE_SPOOL_DATA_MAX,
    OPEN_MAX_FILES = 256,
    POLL_MS = 100,
    HANDOVER_MS = 3000,
    NAMES_MAX = 512,
    ROLES_MAX = 64
};

struct stream {
    char *path, *step, *host;
    char attempt[WIRE_ID_LEN + 1];
    uint32_t node, group, generation;
    int fd;
    bool have, dry;  /* head is a record that waits; there was none at the last look */
    uint64_t offset; /* of the next record's header */
    struct wire_spool head;
    struct watch *watch;
};
struct group { /* what was started together: streams of a lower group are printed first */
    uint32_t generation;
    char *reason; /* of a restart */
    bool said;
};
struct role { /* its workers: numbers first to first + count - 1 */
    char name[64];
    uint32_t first, count;
};
struct follower {
    struct cli *c;
    const struct cli_logs *what;
    struct journal *j;
    const char *run;
    struct out *out;
    struct stream *streams;
    size_t count, open_count;
    struct group *groups;
    size_t group_count;
    struct role roles[ROLES_MAX];
    size_t role_count;
    uint32_t in_group;                /* whose records are being printed */
    char *reason;                     /* of the restart that comes next */
    uint64_t after;                   /* events seen */
    struct stream *current;           /* whose lines the watch gives out */
    const char *names[NAMES_MAX + 1]; /* of steps that were started, for the nearest one */
    size_t name_count;
    uint8_t chunk[CHUNK];
};

static void say(struct follower *f, const char *fmt, ...) FORMAT(2, 3);
static void say(struct follower *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    if (!f->what->raw && !f->what->json && !f->c->given[OPT_QUIET])
        out_printf(f->out, 2, "rhrun: %s\n", text);
}

/* ---- lines ---- */

static bool is_launch(const struct stream *s)
{
    return s->generation > 0 && str_starts(s->step, "launch");
}

static struct cli_worker worker_of(const struct follower *f, const struct stream *s, uint32_t rank)
{
    struct cli_worker worker = {is_launch(s) ? "default" : NULL, rank};
    for (size_t i = 0; worker.role && i < f->role_count; i++)
        if (rank >= f->roles[i].first && rank - f->roles[i].first < f->roles[i].count) {
            worker.role = f->roles[i].name;
            worker.role_rank = rank - f->roles[i].first;
        }
    return worker;
}

/* What the generation's event says of roles. */
static void take_roles(struct follower *f, const char *bind_json)
{
    struct arena *arena = arena_create();
    struct diagnostics ignored = {0};
    struct doc *doc;
    f->role_count = 0;
    if (doc_load_text("bind", bind_json, strlen(bind_json), DOC_FORMAT_JSON, arena, &doc, &ignored, NULL) == 0) {
        const struct doc_node *roles = doc_get(doc->root, "roles");
        for (size_t i = 0; roles && roles->type == DOC_ARRAY && i < roles->count && i < ROLES_MAX; i++) {
            struct role *r = &f->roles[f->role_count++];
            *r = (struct role){.first = (uint32_t)doc_get_int(roles->items[i], "first", 0),
                               .count = (uint32_t)doc_get_int(roles->items[i], "count", 0)};
            snprintf(r->name, sizeof r->name, "%s", doc_get_string(roles->items[i], "name", "?"));
        }
    }
    diagnostics_free(&ignored);
    arena_destroy(arena);
}

static void on_line(void *arg, const struct watch_line *line)
{
    struct follower *f = arg;
    const struct stream *s = f->current;
    bool bare = f->c->given[OPT_NO_PREFIX] && line->stream != WIRE_STREAM_NOTE;
    int fd = line->stream == WIRE_STREAM_OUT ? 1 : 2;
    struct buf b = {0};
    const struct cli_worker worker = worker_of(f, s, line->rank);
    if (f->what->has_rank && line->rank != f->what->rank)
        return;
    if (line->returned && line->len == 0)
        return; /* a progress bar's way to begin */
    if (f->what->json) {
        cli_json_output(&b, f->run, s->step, s->attempt, s->node, &worker, line);
        out_put(f->out, 1, b.data, b.len);
        buf_free(&b);
        return;
    }
    if (!bare)
        cli_line_prefix(&b, fd == 1 ? f->c->color_out : f->c->color_err, &worker, s->step, s->host, line->rank);
    buf_append(&b, line->text, line->len);
    if (bare && line->open && f->count == 1)
        out_put_open(f->out, fd, b.data ? b.data : "", b.len);
    else
        buf_putc(&b, '\n');
    if (!(bare && line->open && f->count == 1))
        out_put(f->out, fd, b.data, b.len);
    buf_free(&b);
}

/* ---- which attempts ---- */

static bool wanted(const struct follower *f, const char *step, uint32_t node, bool launch)
{
    if (f->what->has_node && node != f->what->node)
        return false;
    if (f->what->step)
        return strcmp(step, f->what->step) == 0;
    return f->what->all || launch;
}

static void add_stream(struct follower *f, const char *run, const char *step, const char *attempt, uint32_t node,
                       uint32_t generation)
{
    const struct state *st = journal_state(f->j);
    const char *host = node < st->node_count ? st->nodes[node].host : NULL;
    f->streams = xreallocarray(f->streams, f->count + 1, sizeof *f->streams);
    struct stream *s = &f->streams[f->count++];
    *s = (struct stream){.path = xasprintf("%s/runs/%s/%s.spool", journal_path(f->j), run, attempt),
                         .step = xstrdup(step),
                         .host = xstrdup(host ? host : "?"),
                         .node = node,
                         .group = (uint32_t)f->group_count - 1,
                         .generation = generation,
                         .fd = -1};
    snprintf(s->attempt, sizeof s->attempt, "%s", attempt);
    s->watch = watch_create(on_line, f);
}

static void remember_name(struct follower *f, const char *name)
{
    for (size_t i = 0; i < f->name_count; i++)
        if (strcmp(f->names[i], name) == 0)
            return;
    if (f->name_count < NAMES_MAX)
        f->names[f->name_count++] = arena_strdup(f->c->arena, name);
}

static void take_started(struct follower *f, const struct event *e)
{
    if (e->bind_json)
        take_roles(f, e->bind_json);
    if (f->group_count == 0 || f->groups[f->group_count - 1].generation != e->generation) {
        f->groups = xreallocarray(f->groups, f->group_count + 1, sizeof *f->groups);
        f->groups[f->group_count++] = (struct group){e->generation, f->reason, false};
        f->reason = NULL;
    }
    for (uint32_t i = 0; i < e->attempt_count; i++) {
        const struct event_attempt *a = &e->attempts[i];
        remember_name(f, a->step);
        if (wanted(f, a->step, a->node, e->generation > 0 && str_starts(a->step, "launch")))
            add_stream(f, f->run, a->step, a->attempt, a->node, e->generation);
    }
}

/* attach says what the controller says, too. */
static void tell(struct follower *f, const struct event *e)
{
    struct buf b = {0};
    if (f->what->json) {
        event_to_json(e, &b);
        buf_putc(&b, '\n');
        out_put(f->out, 1, b.data, b.len);
    } else if (e->type == EVENT_NOTE && e->reason) {
        const struct state *st = journal_state(f->j);
        const char *host =
            e->node < st->node_count && !str_starts(e->reason, "node \"") ? st->nodes[e->node].host : NULL;
        say(f, "%s%s%s", host ? host : "", host ? ": " : "", e->reason);
    } else if (e->type == EVENT_RULE) {
        plain_rule(&b, NULL, e);
        say(f, "%s", b.data);
    } else if (e->type == EVENT_CANCELLING) {
        say(f, "stopping: %s", e->reason ? e->reason : "on request");
    } else if (e->type == EVENT_FINISHED && plain_step_failed(e->outcome) && f->group_count > 0 &&
               e->node < journal_state(f->j)->node_count) {
        const char *host = journal_state(f->j)->nodes[e->node].host;
        if (!f->groups[f->group_count - 1].generation) /* a restart or the end of the run tells of the launch */
            say(f, "%s: failed on %s", e->step, host ? host : "?");
    }
    buf_free(&b);
}

static bool take_event(void *arg, const struct event *e)
{
    struct follower *f = arg;
    f->after = e->seq;
    if (!str_eq(e->run, f->run))
        return true;
    if (e->type == EVENT_STARTED)
        take_started(f, e);
    if (e->type == EVENT_RESTART || e->type == EVENT_REISSUE) {
        free(f->reason);
        f->reason = xasprintf("%s%s%s", e->type == EVENT_RESTART ? "restarted" : "launched again",
                              e->reason ? ": " : "", e->reason ? e->reason : "");
    }
    if (f->what->events)
        tell(f, e);
    return true;
}

/* A step that this run kept: its output is with the run that did it. */
static void take_kept(struct follower *f)
{
    const struct state *st = journal_state(f->j);
    const char *from = NULL;
    for (size_t i = 0; i < st->cell_count; i++) {
        const struct state_cell *cell = &st->cells[i];
        remember_name(f, cell->step);
        if (!cell->run || !cell->attempt || str_eq(cell->run, f->run) || !wanted(f, cell->step, cell->node, false))
            continue;
        if (!from) {
            f->groups = xreallocarray(f->groups, f->group_count + 1, sizeof *f->groups);
            f->groups[f->group_count++] = (struct group){0, NULL, true};
        }
        add_stream(f, cell->run, cell->step, cell->attempt, cell->node, cell->generation);
        from = cell->run;
    }
    if (from)
        say(f, "%s was kept; this is its output in run %s", f->what->step, from);
}

/* ---- reading ---- */

/* Many nodes have many files: beyond a number each is opened for one read only. */
static ssize_t read_at(struct follower *f, struct stream *s, void *to, size_t len, uint64_t *ret_size)
{
    struct stat st;
    if (s->fd < 0) {
        s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
        f->open_count += s->fd >= 0;
    }
    if (s->fd < 0)
        return -1;
    ssize_t n = pread(s->fd, to, len, (off_t)s->offset);
    if (ret_size)
        *ret_size = fstat(s->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (f->open_count > OPEN_MAX_FILES) {
        close(base_steal_fd(&s->fd));
        f->open_count--;
    }
    return n;
}

static void look_ahead(struct follower *f, struct stream *s)
{
    uint8_t header[WIRE_SPOOL_HEADER];
    uint64_t size;
    if (s->have || s->dry)
        return;
    s->dry = true;
    if (read_at(f, s, header, sizeof header, &size) != (ssize_t)sizeof header || !wire_spool_get(header, &s->head) ||
        s->head.len > WIRE_SPOOL_DATA_MAX)
        return;
    s->have = size >= s->offset + WIRE_SPOOL_HEADER + s->head.len;
    s->dry = !s->have;
}

static void print_record(struct follower *f, struct stream *s)
{
    size_t len = WIRE_SPOOL_HEADER + s->head.len;
    ssize_t n = read_at(f, s, f->chunk, len, NULL);
    s->have = false;
    s->offset += len;
    if (n != (ssize_t)len)
        return;
    if (f->what->raw) {
        if (!f->what->has_rank ||
            s->head.rank == f->what->rank) /* a marker for what was dropped is none of the worker's bytes */
            out_put(f->out, s->head.stream == WIRE_STREAM_OUT ? 1 : 2, (char *)f->chunk + WIRE_SPOOL_HEADER,
                    s->head.len);
        return;
    }
    f->current = s;
    watch_feed(s->watch, f->chunk, len);
}

static void end_stream(struct follower *f, struct stream *s)
{
    f->current = s;
    if (!f->what->raw)
        watch_end(s->watch);
    watch_destroy(s->watch);
    if (s->fd >= 0) {
        close(base_steal_fd(&s->fd));
        f->open_count--;
    }
}

static void say_group(struct follower *f, uint32_t index)
{
    struct group *g = &f->groups[index];
    if (f->in_group == index)
        return;
    for (uint32_t i = 0; i < f->count && !f->what->raw;
         i++) { /* what came before has ended: its lines without an end come first */
        f->current = &f->streams[i];
        if (f->streams[i].group < index)
            watch_end(f->streams[i].watch);
    }
    f->in_group = index;
    if (!g->said && g->generation > 1)
        say(f, "---- launch generation %u: %s ----", g->generation, g->reason ? g->reason : "launched again");
    g->said = true;
}

/* All records that are there. False: a signal asks to end. */
static bool drain(struct follower *f, bool (*interrupted)(void))
{
    for (size_t i = 0; i < f->count; i++)
        f->streams[i].dry = false;
    for (unsigned turn = 0;; turn++) {
        struct stream *best = NULL;
        for (size_t i = 0; i < f->count; i++) {
            struct stream *s = &f->streams[i];
            look_ahead(f, s);
            if (s->have &&
                (!best || s->group < best->group || (s->group == best->group && s->head.wall_ms < best->head.wall_ms)))
                best = s;
        }
        if (!best)
            return true;
        if (turn % 64 == 63 && interrupted && interrupted())
            return false;
        say_group(f, best->group);
        print_record(f, best);
    }
}

static void finish(struct follower *f)
{
    for (size_t i = 0; i < f->count; i++) {
        struct stream *s = &f->streams[i];
        end_stream(f, s);
        free(s->path);
        free(s->step);
        free(s->host);
    }
    for (size_t i = 0; i < f->group_count; i++)
        free(f->groups[i].reason);
    free(f->groups);
    free(f->reason);
    free(f->streams);
    out_destroy(f->out);
}

/* ---- Ctrl-C only detaches: the signal is blocked and asked for ---- */

static bool wait_interrupt(long ms)
{
    sigset_t set;
    struct timespec pause = {0, ms * 1000000};
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return sigtimedwait(&set, NULL, &pause) > 0;
}

static bool interrupted_now(void)
{
    return wait_interrupt(0);
}

static int unknown_step(const struct follower *f, struct error *err)
{
    const char *near = str_nearest(f->what->step, f->names);
    error_set(err, ERROR_USAGE, "run %s started no step \"%s\"", f->run, f->what->step);
    if (near)
        error_hint(err, "did you mean %s?", near);
    return -1;
}

/* Until the run has ended. A controller that hands over to another one is away for a moment. */
static int follow(struct follower *f, struct cli_logs_end *ret, struct error *err)
{
    uint64_t alone_since = 0;
    for (;;) {
        const struct state_run *r = state_run_find(journal_state(f->j), f->run);
        bool over = !r || r->status != RUN_OPEN;
        uint64_t now = mono_ns() / 1000000;
        if (r)
            ret->exit_status = r->exit_status;
        if (journal_each(f->j, f->after, take_event, f, err) < 0)
            return -1;
        if (f->what->step && f->count == 0 && (over || !f->what->follow)) {
            take_kept(f);
            if (f->count == 0)
                return unknown_step(f, err);
        }
        if (!drain(f, f->what->follow ? interrupted_now : NULL)) {
            ret->interrupted = true;
            return 0;
        }
        out_flush(f->out);
        if (!f->what->follow || over)
            return 0;
        alone_since = journal_holder(f->j, NULL, NULL) ? 0 : alone_since ? alone_since : now;
        if (alone_since && now - alone_since > HANDOVER_MS) {
            error_set(err, ERROR_INFRA, "run %s has no controller any more", f->run);
            error_hint(err, "run its spec again: it is resumed");
            return -1;
        }
        if (wait_interrupt(POLL_MS)) {
            ret->interrupted = true;
            return 0;
        }
        if (journal_refresh(f->j, err) < 0)
            return -1;
    }
}

int cli_logs_print(struct cli *c, struct journal *j, const char *run, const struct cli_logs *what,
                   struct cli_logs_end *ret, struct error *err)
{
    struct follower *f = xcalloc(1, sizeof *f);
    sigset_t set, old;
    f->c = c;
    f->what = what;
    f->j = j;
    f->run = run;
    f->out = out_create(NULL);
    f->in_group = UINT32_MAX;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (what->follow)
        sigprocmask(SIG_BLOCK, &set, &old);
    int rc = follow(f, ret, err);
    finish(f);
    free(f);
    if (what->follow)
        sigprocmask(SIG_SETMASK, &old, NULL);
    return rc;
}
