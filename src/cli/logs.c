/* Prints log files. Attempts that followed each other (set-up, each generation of the launch, the epilog) are printed
 * in that order; within each of these groups, the records of several attempts are merged by the time at which they were
 * read. Memory holds only one record per file, so a log may be larger than memory. */
#include "points.h"

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
    NAMES_MAX = 512
};

struct stream {
    char *path, *step, *label, *host; /* label: for people: the name of a point */
    char attempt[WIRE_ID_LEN + 1];
    uint32_t node, group, generation;
    int fd;
    bool have, dry;   /* head is a waiting record; there was none at the last look */
    uint64_t offset;  /* of the next record's header */
    uint64_t from;    /* where the watch began */
    uint64_t seen_to; /* lines up to here were shown before */
    struct wire_spool head;
    struct watch *watch;
};
struct group { /* started together: streams of a lower group are printed first */
    uint32_t generation;
    char *reason; /* of a restart */
    bool said;
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
    struct cli_roles roles;
    uint32_t in_group;                /* the group that is being printed */
    char *reason;                     /* of the next restart */
    uint64_t after;                   /* events read */
    struct shown *shown;              /* NULL: the place is not recorded */
    uint64_t told;                    /* events up to this one were shown before */
    uint64_t kept_lines;              /* of `shown`, at the last save */
    bool again;                       /* shown before: read again only for lines that began there */
    bool interruptible;               /* signals are blocked and polled */
    bool ranked;                      /* workers of points have ranks */
    bool any;                         /* bytes of the requested rank were printed */
    uint32_t ranks;                   /* one more than the highest rank with output */
    struct logs_tail *tail;           /* the last lines so far; NULL: lines are printed as they come */
    struct stream *current;           /* the stream whose lines the watch gives out */
    const char *names[NAMES_MAX + 1]; /* of started steps, for suggestions */
    size_t name_count;
    struct buf ports; /* lines of `status`, already printed */
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

/* All existing output was read: prints its last lines; later lines are printed as they come. */
static void tail_end(struct follower *f)
{
    struct logs_tail *t = f->tail;
    if (!t)
        return;
    f->tail = NULL;
    if (f->what->tail_by_itself && logs_tail_seen(t) > f->what->tail)
        say(f, "the last %zu of %llu lines; --tail all prints every one", f->what->tail,
            (unsigned long long)logs_tail_seen(t));
    logs_tail_put(t, f->out);
    logs_tail_destroy(t);
}

static bool is_launch(const struct stream *s)
{
    return step_is_launch(s->step);
}

static struct cli_worker worker_of(const struct follower *f, const struct stream *s, uint32_t rank)
{
    if (str_starts(s->step, "point:"))
        return (struct cli_worker){f->ranked ? s->label : NULL, rank};
    return is_launch(s) ? cli_roles_worker(&f->roles, rank) : (struct cli_worker){.role_rank = rank};
}

/* "2026-11-23 20:14:03.120 " */
static void put_time(struct buf *b, uint64_t ms)
{
    char when[32];
    cli_time(ms, when);
    buf_printf(b, "%s.%03u ", when, (unsigned)(ms % 1000));
}

static bool is_asked_for(const struct follower *f, const struct watch_line *line)
{
    const struct cli_logs *what = f->what;
    return (!what->has_rank || line->rank == what->rank) && (!line->returned || line->len > 0) &&
           line->wall_ms >= what->since_ms &&
           (!what->grep || regex_match(what->grep, line->text, line->len) == REGEX_YES);
}

static void on_line(void *arg, const struct watch_line *line)
{
    struct follower *f = arg;
    const struct stream *s = f->current;
    const bool bare = (f->c->given[OPT_NO_PREFIX] || f->what->bare) && line->stream != WIRE_STREAM_NOTE;
    const bool open = bare && line->open && f->count == 1 && !f->tail && !f->what->timestamps && !f->what->json;
    int fd = line->stream == WIRE_STREAM_OUT && (is_launch(s) || !f->what->events) ? 1 : 2; /* as during the run */
    struct buf b = {0};
    if (f->again || !is_asked_for(f, line)) /* a bar begins with a bare carriage return */
        return;
    const struct cli_worker worker = worker_of(f, s, line->rank);
    f->any = true;
    if (f->shown)
        f->shown->lines++;
    if (f->what->json) {
        cli_json_output(&b, f->run, s->step, s->attempt, s->node, &worker, line);
        fd = 1;
    } else {
        if (f->what->timestamps)
            put_time(&b, line->wall_ms);
        if (!bare)
            cli_line_prefix(&b, fd == 1 ? f->c->color_out : f->c->color_err, &worker, s->label, s->host, line->rank);
        buf_append(&b, line->text, line->len);
        if (!open)
            buf_putc(&b, '\n');
    }
    if (open)
        out_put_open(f->out, fd, b.data ? b.data : "", b.len);
    else if (f->tail)
        logs_tail_add(f->tail, fd, &b);
    else
        out_put(f->out, fd, b.data, b.len);
    buf_free(&b);
}

/* ---- which attempts ---- */

static bool is_of_points(const struct cli_points *points, const char *step)
{
    for (size_t i = 0; str_starts(step, "point:") && i < points->count; i++)
        if (strcmp(points->items[i].step, step) == 0)
            return true;
    return false;
}

static bool wanted(const struct follower *f, const char *step, uint32_t node, bool launch)
{
    if (f->what->has_node && node != f->what->node)
        return false;
    if (f->what->points)
        return is_of_points(f->what->points, step);
    if (f->what->step)
        return strcmp(step, f->what->step) == 0;
    if (f->what->events && step_is_around(step))
        return true;
    return f->what->all || launch;
}

static void add_stream(struct follower *f, const char *run, const char *step, const char *label, const char *attempt,
                       uint32_t node, uint32_t generation)
{
    const struct state *st = journal_state(f->j);
    const char *host = node < st->node_count ? st->nodes[node].host : NULL;
    f->streams = xreallocarray(f->streams, f->count + 1, sizeof *f->streams);
    struct stream *s = &f->streams[f->count++];
    *s = (struct stream){.path = xasprintf("%s/runs/%s/%s.spool", journal_path(f->j), run, attempt),
                         .step = xstrdup(step),
                         .label = xstrdup(label ? label : step),
                         .host = xstrdup(host ? host : "?"),
                         .node = node,
                         .group = (uint32_t)f->group_count - 1,
                         .generation = generation,
                         .fd = -1};
    snprintf(s->attempt, sizeof s->attempt, "%s", attempt);
    s->watch = watch_create(on_line, f);
    const struct shown_place *place = f->shown ? shown_find(f->shown, attempt) : NULL;
    if (!place)
        return;
    s->offset = s->from = place->from;
    s->seen_to = place->to;
    f->groups[s->group].said = true;
}

static void remember_name(struct follower *f, const char *name)
{
    for (size_t i = 0; i < f->name_count; i++)
        if (strcmp(f->names[i], name) == 0)
            return;
    if (f->name_count < NAMES_MAX)
        f->names[f->name_count++] = arena_strdup(f->c->arena, name);
}

static void take_started(struct follower *f, const struct event_started *started)
{
    if (started->bind_json)
        cli_roles_take(&f->roles, started->bind_json);
    if (f->group_count == 0 || f->groups[f->group_count - 1].generation != started->generation) {
        f->groups = xreallocarray(f->groups, f->group_count + 1, sizeof *f->groups);
        f->groups[f->group_count++] = (struct group){started->generation, f->reason, false};
        f->reason = NULL;
    }
    for (uint32_t i = 0; i < started->attempt_count; i++) {
        const struct event_attempt *a = &started->attempts[i];
        remember_name(f, a->step);
        if (wanted(f, a->step, a->node, step_is_launch(a->step)))
            add_stream(f, f->run, a->step, a->point, a->attempt, a->node, started->generation);
    }
}

/* attach also prints the controller's notes. */
static void tell(struct follower *f, const struct event *e)
{
    struct buf b = {0};
    if (f->what->json) {
        event_to_json(e, &b);
        buf_putc(&b, '\n');
        out_put(f->out, 1, b.data, b.len);
    } else if (e->type == EVENT_NOTE && e->note.reason) {
        const struct state *st = journal_state(f->j);
        const struct event_note *note = &e->note;
        bool named = note->node < st->node_count && !str_starts(note->reason, "node \"");
        const char *host = named ? st->nodes[note->node].host : NULL;
        say(f, "%s%s%s", host ? host : "", host ? ": " : "", note->reason);
    } else if (e->type == EVENT_RULE) {
        plain_rule(&b, NULL, &e->rule);
        say(f, "%s", b.data);
    } else if (e->type == EVENT_CANCELLING) {
        say(f, "stopping: %s", e->cancelling.reason ? e->cancelling.reason : "on request");
    } else if (e->type == EVENT_FINISHED && plain_step_failed(e->finished.outcome) && f->group_count > 0 &&
               e->finished.node < journal_state(f->j)->node_count) {
        const char *host = journal_state(f->j)->nodes[e->finished.node].host;
        if (!f->groups[f->group_count - 1].generation) /* a restart, or the end of the run, is about the launch */
            say(f, "%s: failed on %s", e->finished.step, host ? host : "?");
    }
    buf_free(&b);
}

/* The forwarded ports whose lines `status` did not have at the last look. */
static void tell_ports(struct follower *f, const struct state_run *run)
{
    struct buf now = {0};
    status_ports(f->j, run, false, &now);
    for (const char *line = now.data, *end; line && *line; line = end) {
        end = strchr(line, '\n') + 1;
        CLEANUP(cleanup_free) char *whole = xasprintf("%.*s", (int)(end - line), line);
        if (!f->ports.data || !strstr(f->ports.data, whole))
            say(f, "%.*s", (int)(end - line) - 3, line + 2);
    }
    if (now.len) {
        buf_free(&f->ports);
        f->ports = now;
    }
}

static void take_restart(struct follower *f, const char *what, const char *reason)
{
    free(f->reason);
    f->reason = xasprintf("%s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

/* Whether lines of points name their worker, as during the run. */
static bool has_ranks(const struct event_opened *opened)
{
    struct arena *arena = arena_create();
    struct diagnostics ignored = {0};
    struct doc *doc;
    const char *text = opened->asked.spec_text ? opened->asked.spec_text : "";
    bool ranked = doc_load_text("spec", text, strlen(text), DOC_FORMAT_YAML, arena, &doc, &ignored, NULL) == 0 &&
                  doc->root->type == DOC_OBJECT && doc_get(doc->root, "distributed");
    for (uint32_t i = 0; i < opened->asked.set_count; i++)
        ranked = ranked || str_starts(opened->asked.sets[i], "distributed");
    diagnostics_free(&ignored);
    arena_destroy(arena);
    return ranked;
}

static bool take_event(void *arg, const struct event *e)
{
    struct follower *f = arg;
    f->after = e->seq;
    if (!str_eq(e->run, f->run))
        return true;
    if (e->type == EVENT_RUN_OPENED && e->opened.point_count)
        f->ranked = has_ranks(&e->opened);
    if (e->type == EVENT_STARTED)
        take_started(f, &e->started);
    if (e->type == EVENT_RESTART)
        take_restart(f, "restarted", e->restart.reason);
    if (e->type == EVENT_REISSUE)
        take_restart(f, "launched again", e->reissue.reason);
    if (f->what->events && e->seq > f->told)
        tell(f, e);
    return true;
}

/* This run kept the step: its output is with the run that did it. */
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
        add_stream(f, cell->run, cell->step, cell->point, cell->attempt, cell->node, cell->generation);
        from = cell->run;
    }
    if (from)
        say(f, "%s was kept; this is its output in run %s", f->what->step, from);
}

/* Points that the user chose and that this run did not do. */
static void take_kept_points(struct follower *f)
{
    const struct cli_points *points = f->what->points;
    for (size_t i = 0; i < points->count; i++) {
        const struct cli_point *p = &points->items[i];
        bool has = !p->cell || str_eq(p->cell->run, f->run);
        for (size_t k = 0; k < f->count && !has; k++)
            has = strcmp(f->streams[k].step, p->step) == 0;
        if (has)
            continue;
        if (f->group_count == 0) {
            f->groups = xcalloc(1, sizeof *f->groups);
            f->groups[f->group_count++] = (struct group){0, NULL, true};
        }
        say(f, "point %s: this is its output in run %s", p->name, p->cell->run);
        for (uint32_t k = 0; k < p->launch.count; k++) {
            const struct state_cell *part = p->launch.parts[k];
            if (!f->what->has_node || part->node == f->what->node)
                add_stream(f, part->run, p->step, p->name, part->attempt, part->node, part->generation);
        }
    }
}

/* ---- reading ---- */

/* With many nodes there are many files: past a limit each is opened for one read only. */
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
    if (s->head.rank != WIRE_NO_RANK && s->head.rank >= f->ranks)
        f->ranks = s->head.rank + 1;
    if (f->what->raw) {
        bool wrote = s->head.stream == WIRE_STREAM_OUT || s->head.stream == WIRE_STREAM_ERR;
        if (f->what->has_rank ? wrote && s->head.rank == f->what->rank : s->head.stream != WIRE_STREAM_END) {
            out_put(f->out, s->head.stream == WIRE_STREAM_OUT ? 1 : 2, (char *)f->chunk + WIRE_SPOOL_HEADER,
                    s->head.len);
            f->any = true;
        }
        return;
    }
    f->current = s;
    uint64_t began = s->offset - len;
    size_t past = s->seen_to <= began ? 0 : s->seen_to - began < len ? (size_t)(s->seen_to - began) : len;
    f->again = true;
    watch_feed(s->watch, f->chunk, past);
    f->again = false;
    watch_feed(s->watch, f->chunk + past, len - past);
}

static void end_lines(struct follower *f, uint32_t before_group)
{
    for (size_t i = 0; i < f->count && !f->what->raw; i++) {
        f->current = &f->streams[i];
        if (f->streams[i].group < before_group)
            watch_end(f->streams[i].watch);
    }
}

/* Writes everything, and records how far it was shown. */
static void keep_place(struct follower *f)
{
    out_flush(f->out);
    if (!f->shown)
        return;
    if (shown_hung_up()) {
        shown_step_back(f->shown);
        return;
    }
    for (size_t i = 0; i < f->count; i++) {
        struct stream *s = &f->streams[i];
        if (s->offset > 0 && s->offset >= s->seen_to)
            shown_set(f->shown, s->attempt, s->from + watch_open_from(s->watch), s->offset);
    }
    f->shown->events = f->after > f->told ? f->after : f->told;
    f->kept_lines = f->shown->lines;
    shown_freeze(f->shown);
    shown_save(f->shown);
}

static void keep_place_now_and_then(struct follower *f)
{
    bool news = f->shown && (f->shown->lines != f->kept_lines || f->shown->events < f->after);
    if (news && shown_wait_ms(f->shown) == 0)
        keep_place(f);
}

static void say_group(struct follower *f, uint32_t index)
{
    struct group *g = &f->groups[index];
    if (f->in_group == index)
        return;
    end_lines(f, index); /* earlier groups have ended: first print their lines without an end */
    f->in_group = index;
    if (!g->said && g->generation > 1 && !f->tail)
        say(f, "---- launch generation %u: %s ----", g->generation, g->reason ? g->reason : "launched again");
    g->said = true;
}

/* ---- Ctrl-C only detaches: signals are blocked and polled ---- */

static void take_signals(sigset_t *ret)
{
    static const int list[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(ret);
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        sigaddset(ret, list[i]);
}

/* The signal that came within that time, SIGHUP also if the reader is gone; 0: none. */
static int interrupted(const struct follower *f, long ms)
{
    sigset_t set;
    struct timespec pause = {0, ms * 1000000};
    take_signals(&set);
    int signum = sigtimedwait(&set, NULL, &pause);
    return signum > 0 ? signum : f->shown && shown_hung_up() ? SIGHUP : 0;
}

/* All records so far. Not 0: a signal asks to end. */
static int drain(struct follower *f)
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
            return 0;
        int signum = turn % 64 == 63 && f->interruptible ? interrupted(f, 0) : 0;
        if (signum)
            return signum;
        if (turn % 64 == 63)
            keep_place_now_and_then(f);
        say_group(f, best->group);
        print_record(f, best);
    }
}

static void finish(struct follower *f)
{
    for (size_t i = 0; i < f->count; i++) {
        struct stream *s = &f->streams[i];
        watch_destroy(s->watch);
        if (s->fd >= 0)
            close(s->fd);
        free(s->path);
        free(s->step);
        free(s->label);
        free(s->host);
    }
    for (size_t i = 0; i < f->group_count; i++)
        free(f->groups[i].reason);
    free(f->groups);
    free(f->reason);
    buf_free(&f->ports);
    free(f->streams);
    shown_close(f->shown);
    out_destroy(f->out);
    logs_tail_destroy(f->tail);
    free(f);
}

/* ---- to the end ---- */

static int unknown_step(const struct follower *f, struct error *err)
{
    const char *near = str_nearest(f->what->step, f->names);
    error_set(err, ERROR_USAGE, "run %s started no step \"%s\"", f->run, f->what->step);
    if (near)
        error_hint(err, "did you mean %s?", near);
    return -1;
}

/* The run is open, and has had no controller for a while. */
static int left_alone(struct follower *f, struct cli_logs_end *ret, struct error *err)
{
    if (!f->what->alone) {
        error_set(err, ERROR_INFRA, "run %s has no controller any more", f->run);
        error_hint(err, "rhrun attach %s starts one that continues it; so does the spec again", f->run);
        return -1;
    }
    keep_place(f);
    ret->exit_status = f->what->alone(f->what->alone_arg);
    ret->left_alone = ret->exit_status != 0;
    return 0;
}

/* Until the run has ended. During a handover there is no controller for a moment. */
static int follow(struct follower *f, struct cli_logs_end *ret, struct error *err)
{
    uint64_t alone_since = 0;
    bool first = true;
    for (;;) {
        const struct state_run *r = state_run_find(journal_state(f->j), f->run);
        bool over = !r || r->status != RUN_OPEN;
        uint64_t now = mono_ns() / 1000000;
        if (r)
            ret->exit_status = r->exit_status;
        if (journal_each(f->j, f->after, take_event, f, err) < 0)
            return -1;
        if (f->what->points && first)
            take_kept_points(f);
        first = false;
        if (r && f->what->events && !f->what->json)
            tell_ports(f, r);
        if (f->what->step && f->count == 0 && (over || !f->what->follow)) {
            take_kept(f);
            if (f->count == 0)
                return unknown_step(f, err);
        }
        ret->interrupted = drain(f);
        if (ret->interrupted)
            return 0;
        if (over || (!f->what->follow && !f->what->on))
            end_lines(f, UINT32_MAX);
        tail_end(f);
        out_flush(f->out);
        keep_place_now_and_then(f);
        if (!f->what->follow || over)
            return 0;
        alone_since = journal_holder(f->j, NULL, NULL) ? 0 : alone_since ? alone_since : now;
        if (alone_since && now - alone_since > HANDOVER_MS) {
            if (left_alone(f, ret, err) < 0 || ret->left_alone)
                return ret->left_alone ? 0 : -1;
            alone_since = 0;
        }
        ret->interrupted = interrupted(f, POLL_MS);
        if (ret->interrupted)
            return 0;
        if (journal_refresh(f->j, err) < 0)
            return -1;
    }
}

/* A rank of the run may have been silent; any other rank is an error. */
static int nothing_of_rank(struct follower *f, struct error *err)
{
    const uint32_t rank = f->what->rank;
    uint32_t count = f->ranks;
    for (size_t i = 0; i < f->roles.count; i++) {
        const uint32_t end = f->roles.items[i].first + f->roles.items[i].count;
        count = end > count ? end : count;
    }
    if (rank < count || count == 0) {
        if (!f->c->given[OPT_QUIET])
            out_printf(f->out, 2, "rhrun: there is no %soutput of rank %u in run %s\n",
                       f->what->grep || f->what->since_ms ? "such " : "", rank, f->run);
        return 0;
    }
    error_set(err, ERROR_USAGE, "run %s has no rank %u", f->run, rank);
    if (count == 1)
        error_hint(err, "there is only rank 0");
    else
        error_hint(err, "there are ranks 0 to %u", count - 1);
    return -1;
}

static void go_on(struct follower *f)
{
    char when[32];
    f->shown = shown_to_nobody() ? NULL : shown_open(f->j, f->run, f->what->from_start);
    if (!f->shown)
        return;
    f->told = f->shown->events;
    f->kept_lines = f->shown->lines;
    cli_time(f->shown->at_ms, when);
    if (f->shown->lines > 0 && f->what->follow)
        say(f, "%llu line%s, until %s, %s shown before; --from-start shows %s again",
            (unsigned long long)f->shown->lines, f->shown->lines == 1 ? "" : "s", when,
            f->shown->lines == 1 ? "was" : "were", f->shown->lines == 1 ? "it" : "them");
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
    f->interruptible = what->follow || what->on;
    f->tail = what->tail ? logs_tail_create(what->tail) : NULL;
    take_signals(&set);
    if (f->interruptible)
        sigprocmask(SIG_BLOCK, &set, &old);
    if (what->on) {
        signal(SIGPIPE, SIG_IGN); /* shown_hung_up finds out that the reader is gone */
        go_on(f);
    }
    int rc = follow(f, ret, err);
    if (rc == 0 && what->has_rank && !f->any && !ret->interrupted)
        rc = nothing_of_rank(f, err);
    keep_place(f);
    if (f->interruptible)
        sigprocmask(SIG_SETMASK, &old, NULL);
    finish(f);
    return rc;
}
