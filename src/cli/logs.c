/* Log files to the terminal: the records of several attempts merged by the time at which they were read. */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READ_CHUNK = 256 << 10 };

struct stream {
    char *path, *step, *host;
    char attempt[WIRE_ID_LEN + 1];
    uint32_t node;
    bool launch;
    int fd;
    uint64_t offset;         /* of the next record's header */
    bool have;               /* head is a record that waits */
    struct wire_spool head;
    struct watch *watch;
};
struct follower {
    struct cli *c;
    const struct cli_logs *what;
    struct journal *j;
    const char *run;
    struct stream *streams;
    size_t count;
    uint64_t after;          /* events seen */
    uint32_t generation;
    struct stream *current;  /* whose lines the watch gives out */
    uint8_t *chunk;
};

static void put_prefixed(const struct follower *f, const struct stream *s, const struct watch_line *line)
{
    FILE *to = line->stream == WIRE_STREAM_ERR ? stderr : stdout;
    if (f->what->json) {
        struct buf b = {0};
        buf_printf(&b, "{\"type\":\"output\",\"step\":\"%s\",\"node\":%u,\"rank\":%u,\"stream\":\"%s\",\"time_ms\":%llu,\"text\":", s->step, s->node,
                   line->rank, line->stream == WIRE_STREAM_ERR ? "stderr" : line->stream == WIRE_STREAM_OUT ? "stdout" : "note", (unsigned long long)line->wall_ms);
        buf_json_string(&b, line->text, line->len);
        buf_puts(&b, "}\n");
        fwrite(b.data, 1, b.len, stdout);
        buf_free(&b);
        return;
    }
    if (!f->c->given[OPT_NO_PREFIX]) {
        if (s->launch)
            fprintf(to, "default[%u]@%s: ", line->rank, s->host);
        else
            fprintf(to, "%s@%s: ", s->step, s->host);
    }
    fwrite(line->text, 1, line->len, to);
    fputc('\n', to);
}

static void on_line(void *arg, const struct watch_line *line)
{
    struct follower *f = arg;
    if (!f->what->has_rank || line->rank == f->what->rank)
        put_prefixed(f, f->current, line);
}

static bool wanted(const struct follower *f, const char *step, uint32_t node, bool launch)
{
    if (f->what->has_node && node != f->what->node)
        return false;
    if (f->what->step)
        return strcmp(step, f->what->step) == 0;
    return f->what->all || launch;
}

static bool take_event(void *arg, const struct event *e)
{
    struct follower *f = arg;
    f->after = e->seq;
    if (e->type != EVENT_STARTED || !str_eq(e->run, f->run))
        return true;
    for (uint32_t i = 0; i < e->attempt_count; i++) {
        const struct event_attempt *a = &e->attempts[i];
        if (!wanted(f, a->step, a->node, e->generation > 0))
            continue;
        f->streams = xreallocarray(f->streams, f->count + 1, sizeof *f->streams);
        struct stream *s = &f->streams[f->count++];
        const struct state *st = journal_state(f->j);
        const char *host = a->node < st->node_count ? st->nodes[a->node].host : NULL;
        *s = (struct stream){.path = xasprintf("%s/runs/%s/%s.spool", journal_path(f->j), f->run, a->attempt), .step = xstrdup(a->step),
                             .host = xstrdup(host ? host : "?"), .node = a->node, .launch = e->generation > 0, .fd = -1};
        snprintf(s->attempt, sizeof s->attempt, "%s", a->attempt);
        s->watch = watch_create(on_line, f);
    }
    return true;
}

static void look_ahead(struct stream *s)
{
    uint8_t header[WIRE_SPOOL_HEADER];
    struct stat st;
    if (s->have)
        return;
    if (s->fd < 0)
        s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || pread(s->fd, header, sizeof header, (off_t)s->offset) != (ssize_t)sizeof header || !wire_spool_get(header, &s->head))
        return;
    s->have = fstat(s->fd, &st) == 0 && (uint64_t)st.st_size >= s->offset + WIRE_SPOOL_HEADER + s->head.len;
}

static void print_record(struct follower *f, struct stream *s)
{
    ssize_t n = pread(s->fd, f->chunk, WIRE_SPOOL_HEADER + s->head.len, (off_t)s->offset);
    if (n == (ssize_t)(WIRE_SPOOL_HEADER + s->head.len)) {
        bool mine = !f->what->has_rank || s->head.rank == f->what->rank;
        if (f->what->raw && mine) {
            FILE *to = s->head.stream == WIRE_STREAM_ERR ? stderr : stdout;
            if (s->head.stream != WIRE_STREAM_NOTE)
                fwrite(f->chunk + WIRE_SPOOL_HEADER, 1, s->head.len, to);
        } else if (!f->what->raw) {
            f->current = s;
            watch_feed(s->watch, f->chunk, (size_t)n);
        }
    }
    s->offset += WIRE_SPOOL_HEADER + s->head.len;
    s->have = false;
}

/* All records that are there, earliest first. */
static void drain(struct follower *f)
{
    for (;;) {
        struct stream *best = NULL;
        for (size_t i = 0; i < f->count; i++) {
            look_ahead(&f->streams[i]);
            if (f->streams[i].have && (!best || f->streams[i].head.wall_ms < best->head.wall_ms))
                best = &f->streams[i];
        }
        if (!best)
            return;
        print_record(f, best);
    }
}

static void finish(struct follower *f)
{
    for (size_t i = 0; i < f->count; i++) {
        struct stream *s = &f->streams[i];
        f->current = s;
        if (!f->what->raw)
            watch_end(s->watch);
        watch_destroy(s->watch);
        if (s->fd >= 0)
            close(s->fd);
        free(s->path);
        free(s->step);
        free(s->host);
    }
    free(f->streams);
    free(f->chunk);
    fflush(stdout);
}

int cli_logs_print(struct cli *c, struct journal *j, const char *run, const struct cli_logs *what, int *ret_status, struct error *err)
{
    struct follower f = {.c = c, .what = what, .j = j, .run = run, .chunk = xmalloc(READ_CHUNK)};
    int rc = 0;
    for (;;) {
        const struct state_run *r = state_run_find(journal_state(j), run);
        bool over = !r || r->status != RUN_OPEN;
        if (ret_status && r)
            *ret_status = r->exit_status;
        rc = journal_each(j, f.after, take_event, &f, err);
        if (rc < 0)
            break;
        drain(&f);
        fflush(stdout);
        if (!what->follow || over)
            break;
        if (!journal_holder(j, NULL, NULL)) {
            error_set(err, ERROR_INFRA, "run %s has no controller any more", run);
            error_hint(err, "run its spec again: it is resumed");
            rc = -1;
            break;
        }
        struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
        if (journal_refresh(j, err) < 0) {
            rc = -1;
            break;
        }
    }
    finish(&f);
    return rc;
}
