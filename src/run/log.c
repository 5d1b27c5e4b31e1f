/* The controller's copy of an attempt's spool. Bytes are written as they come. Complete portions are synced on the pool
 * and only then acknowledged, so that the node frees no bytes that a power cut here could lose. */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* how often output may be missing: once for each loss of the state directory, and for each controller that resumes
     * after it */
    GAPS_MAX = 16,
    SLACK_BYTES = 64 << 20, /* for notes, and for output that was on its way */
};

/* Whether the line is shown. Output that local_ranks_filter leaves out is in the log all the same. */
static bool is_shown(const struct run_log *log, const struct watch_line *line)
{
    const struct plan *plan = log->run->plan;
    const struct spec_distributed *d = &plan->spec->distributed;
    const struct spec_text *filter = spec_flag_value(d, "local_ranks_filter");
    if (!filter || d->launcher != LAUNCHER_NATIVE || log->step->kind->phase != PHASE_LAUNCH || !plan->ranks ||
        line->rank >= plan->worker_count || line->stream == WIRE_STREAM_NOTE)
        return true;
    for (const char *p = filter->text; *p; p += strcspn(p, ","), p += *p == ',')
        if (strtoul(p, NULL, 10) == plan->ranks[line->rank].local_rank)
            return true;
    return false;
}

static void on_line(void *arg, const struct watch_line *line)
{
    struct run_log *log = arg;
    struct run *r = log->run;
    struct run_line out = {log->step, log->node, r->lanes[log->node].name, line};
    if (log->past)
        return;
    struct launch *launch = launch_of(r, log->step);
    if (launch && launch->rules)
        trace_line(log, "line", line);
    if (launch)
        rules_line(launch, log->step, log->node, line);
    if (log->step->kind->phase == PHASE_POINT)
        point_line(r, log->step, log->node, line);
    if (r->options.observer.line && !log->quiet && is_shown(log, line))
        r->options.observer.line(r->options.observer.arg, &out);
}

static void on_end(void *arg, const struct wire_worker_end *end)
{
    struct run_log *log = arg;
    struct launch *launch = launch_of(log->run, log->step);
    if (!launch || log->past)
        return;
    trace_end(log, end);
    rules_end(launch, log->step, log->node, end);
}

static void on_ready_line(void *arg, const struct watch_line *line)
{
    struct run_log *log = arg;
    trace_line(log, "ready", line);
    ready_line(log->run, log->step, log->node, line);
}

/* After a restart of the controller: the lines in the file were given out before, but the last of them may be continued
 * by the bytes that come next. */
static void catch_up(struct run_log *log)
{
    uint8_t chunk[65536];
    log->past = true;
    for (uint64_t at = 0; at < log->size;) {
        ssize_t n = pread(log->fd, chunk, sizeof chunk, (off_t)at);
        if (n <= 0)
            break;
        watch_feed(log->watch, chunk, (size_t)n);
        if (log->ready)
            watch_feed(log->ready, chunk, (size_t)n);
        at += (uint64_t)n;
    }
    log->past = false;
}

/* Tells the observer up to which offset it has all lines. */
static void tell_place(struct run_log *log)
{
    const struct run_observer *o = &log->run->options.observer;
    if (o->place && log->size > log->base)
        o->place(o->arg, log->step, log->attempt, watch_open_from(log->watch), log->size - log->base);
}

static struct run_log *open_log(struct run *r, const struct plan_step *step, uint32_t node, const char *attempt)
{
    struct run_log *log = xcalloc(1, sizeof *log);
    log->run = r;
    log->step = step;
    log->node = node;
    memcpy(log->attempt, attempt, sizeof log->attempt);
    log->fd = -1;
    log->watch = watch_create(on_line, log);
    watch_on_end(log->watch, on_end);
    log->ready = ready_wanted(r, step, node) ? watch_create(on_ready_line, log) : NULL;
    struct error err = ERROR_INIT;
    const struct state_cell *cell = state_cell_by_attempt(r->state, attempt);
    CLEANUP(cleanup_free)
    char *dir = journal_run_dir(r->hands->session->journal, cell && cell->run ? cell->run : r->id, &err);
    if (!dir)
        return log;
    log->path = xasprintf("%s/%s.spool", dir, attempt);
    int fd = open(log->path, O_RDWR | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        log->fd = fd;
        log->size = log->durable = (uint64_t)st.st_size;
        catch_up(log);
    }
    return log;
}

struct run_log *log_open(struct run *r, const struct plan_step *step, uint32_t node, const char *attempt)
{
    trace(r, "> log_open %" PRIu32 " %" PRIu32 " %s", step->id, node, attempt);
    struct run_log *log = open_log(r, step, node, attempt);
    trace(r, "= %" PRIu64, log->size);
    return log;
}

void log_close(struct run_log *log)
{
    if (!log)
        return;
    if (log->syncing) { /* the pool still uses the log: sync_done frees it */
        log->run = NULL;
        return;
    }
    if (log->fd >= 0)
        close(log->fd);
    watch_destroy(log->watch);
    watch_destroy(log->ready);
    free(log->path);
    free(log);
}

static void sync_work(void *arg)
{
    struct run_log *log = arg;
    log->sync_errno = fdatasync(log->fd) < 0 ? errno : 0;
}

static void sync_done(void *arg)
{
    struct run_log *log = arg;
    log->syncing = false;
    if (!log->run) {
        log_close(log);
        return;
    }
    if (log->sync_errno) { /* the output is not durable here, so it is not acknowledged and the node keeps it */
        struct error err = ERROR_INIT;
        trace_untraced(log->run, "a log cannot be written");
        error_errno(&err, ERROR_IO, log->sync_errno, "could not bring the log \"%s\" to the disk", log->path);
        run_fail(log->run, RUN_INFRA, &err);
        return;
    }
    log->durable = log->acked;
    node_ack(lane_hands(&log->run->lanes[log->node])->node, log->attempt, log->acked);
}

static void acknowledge(struct run_log *log)
{
    if (log->syncing || log->size - log->acked < ACK_BYTES)
        return;
    log->acked = log->size;
    log->syncing = true;
    loop_work(log->run->hands->session->loop, sync_work, sync_done, log);
}

/* Whether a spool can have sent this. The node keeps a limited amount of output that is not acknowledged, and frees
 * bytes only at the beginning: so a spool has no more bytes than that, and no holes further on. */
static bool is_spool(const struct run_log *log, uint64_t offset, struct error *err)
{
    const struct run *r = log->run;
    if (offset > log->size && log->gaps >= GAPS_MAX)
        return !error_set(err, ERROR_PROTOCOL, "node \"%s\": %s: it leaves out output again and again",
                          r->lanes[log->node].name, log->step->name);
    /* or the default limit: the attempt may have begun before the spec set a lower one */
    uint64_t limit = r->plan->spec->log_limit_bytes;
    limit = limit > SPEC_LOG_LIMIT ? limit : SPEC_LOG_LIMIT;
    if (offset <= log->size && log->size - log->durable > limit + SLACK_BYTES)
        return !error_set(err, ERROR_PROTOCOL, "node \"%s\": %s: it sends more output than it can have kept",
                          r->lanes[log->node].name, log->step->name);
    return true;
}

/* Writes in a loop: a disk that becomes full takes a part of the data without an error, and the error comes with the
 * rest. */
static bool write_at(int fd, const uint8_t *data, size_t len, off_t at)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
        at += n;
    }
    return true;
}

void log_output(struct run_log *log, uint64_t offset, const uint8_t *data, uint32_t len)
{
    struct run *r = log->run;
    struct error refused = ERROR_INIT;
    if (offset + len < len || offset + len <= log->size || log->failed)
        return;
    if (!is_spool(log, offset, &refused)) {
        node_refuse(lane_hands(&r->lanes[log->node])->node, &refused);
        return;
    }
    if (offset < log->size) {
        data += log->size - offset;
        len -= (uint32_t)(log->size - offset);
        offset = log->size;
    }
    if (log->fd < 0 && log->path)
        log->fd = open(log->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (offset > log->size) { /* the node has freed output that is no longer here (the state directory was lost) */
        tell_note(r, log->node, "%s: %llu bytes of earlier output are gone", log->step->name,
                  (unsigned long long)(offset - log->size));
        log->gaps++;
        log->base += offset - log->size;
        log->size = log->durable = offset;
    }
    if (log->fd < 0 || !write_at(log->fd, data, len, (off_t)(offset - log->base))) {
        struct error err = ERROR_INIT;
        error_errno(&err, ERROR_IO, errno ? errno : EIO, "could not write the log \"%s\"", log->path ? log->path : "?");
        error_hint(&err, "the rest stays on the node: make room and run the same command again");
        log->failed = true;
        trace_untraced(r, "a log cannot be written");
        run_fail(r, RUN_INFRA, &err);
        return;
    }
    log->size += len;
    trace(r, "< log %s %" PRIu64, log->attempt, log->size);
    if (!room_keeps(&r->lanes[log->node], log->path, len))
        return;
    watch_feed(log->watch, data, len);
    if (log->ready)
        watch_feed(log->ready, data, len);
    tell_place(log);
    acknowledge(log);
}

/* All lines so far go to the rules by a new watch, which then takes the old one's place. */
void log_again(struct run_log *log)
{
    uint8_t chunk[65536];
    trace(log->run, "> log_again %s", log->attempt);
    struct watch *again = watch_create(on_line, log);
    watch_on_end(again, on_end);
    log->quiet = true;
    for (uint64_t at = 0, all = log->size - log->base; log->fd >= 0 && at < all;) {
        ssize_t n = pread(log->fd, chunk, all - at < sizeof chunk ? (size_t)(all - at) : sizeof chunk, (off_t)at);
        if (n <= 0)
            break;
        watch_feed(again, chunk, (size_t)n);
        at += (uint64_t)n;
    }
    log->quiet = false;
    watch_destroy(log->watch);
    log->watch = again;
    trace(log->run, "=");
}

void log_end(struct run_log *log)
{
    if (!log)
        return;
    trace(log->run, "> log_end %s", log->attempt);
    watch_end(log->watch);
    if (log->ready)
        watch_end(log->ready);
    trace(log->run, "=");
    tell_place(log);
}
