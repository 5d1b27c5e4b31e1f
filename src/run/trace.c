/* Writes down everything that passes between the core and its hands: see trace.h. Each line is one write, so that the
 * trace of a process that was killed has whole lines. */
#include "trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static bool is_traced(const struct run *r)
{
    return r->hands->trace_fd >= 0;
}

static void write_line(int fd, struct buf *b)
{
    buf_putc(b, '\n');
    if (write_all(fd, b->data, b->len) < 0)
        abort(); /* a trace is for a test, and half a trace is worse than none */
    buf_free(b);
}

/* A blank and the text as a JSON string; NULL: the word null. */
static void put_text(struct buf *b, const char *text)
{
    buf_putc(b, ' ');
    if (text)
        buf_json_string(b, text, strlen(text));
    else
        buf_puts(b, "null");
}

static void put_hex(struct buf *b, const void *data, size_t len)
{
    buf_puts(b, len ? " " : " -");
    for (size_t i = 0; i < len; i++)
        buf_printf(b, "%02x", ((const unsigned char *)data)[i]);
}

static void put_error(struct buf *b, const struct error *err)
{
    buf_printf(b, " %d %d", (int)err->code, (int)err->why);
    put_text(b, err->text);
    put_text(b, err->hint);
}

void trace(const struct run *r, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    if (!is_traced(r))
        return;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    write_line(r->hands->trace_fd, &b);
}

void trace_text(const struct run *r, const char *what, const char *text)
{
    struct buf b = {0};
    if (!is_traced(r))
        return;
    buf_puts(&b, what);
    put_text(&b, text);
    write_line(r->hands->trace_fd, &b);
}

void trace_untraced(const struct run *r, const char *what)
{
    trace_text(r, "untraced", what);
}

/* ---- the first lines, with which a player begins ---- */

static void put_member(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, "%s\"%s\":", b->data[b->len - 1] == '{' ? "" : ",", key);
    if (value)
        buf_json_string(b, value, strlen(value));
    else
        buf_puts(b, "null");
}

static void put_list(struct buf *b, const char *key, const char *const *items, size_t count)
{
    buf_printf(b, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        buf_puts(b, i ? "," : "");
        buf_json_string(b, items[i], strlen(items[i]));
    }
    buf_putc(b, ']');
}

static void put_spec(struct buf *b, const struct spec *spec)
{
    const char **params = xcalloc(spec->param_count + 1, sizeof *params);
    size_t count = 0;
    for (size_t i = 0; i < spec->param_count; i++)
        if (spec->params[i].given)
            params[count++] = xasprintf("%s=%s", spec->params[i].name, spec->params[i].value);
    buf_puts(b, "spec {");
    put_member(b, "path", spec->path);
    put_member(b, "real_path", spec->real_path);
    put_member(b, "origin", spec->origin);
    put_member(b, "variant", spec->variant);
    put_member(b, "on", spec->on);
    put_list(b, "sets", spec->sets, spec->set_count);
    put_list(b, "params", params, count);
    put_list(b, "args", spec->args, spec->arg_count);
    put_member(b, "text", spec->doc ? spec->doc->source.text : "");
    buf_putc(b, '}');
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)params[i]);
    free(params);
}

static void put_options(struct buf *b, const struct run_options *o)
{
    buf_printf(b,
               "options {\"mode\":%d,\"flags\":%" PRIu32 ",\"take_over\":%s,\"replace\":%s,\"reconnect_ms\":%" PRIu64
               ",\"late_ms\":%" PRIu64 ",\"join_ms\":%" PRIu64,
               (int)o->mode, o->flags, o->take_over ? "true" : "false", o->replace ? "true" : "false", o->reconnect_ms,
               o->late_ms, o->join_ms);
    put_member(b, "from_step", o->from_step);
    put_member(b, "owner_name", o->owner_name);
    buf_putc(b, '}');
}

static void write_plan(int fd, const struct plan *plan)
{
    struct buf b = {0};
    buf_printf(&b, "plan %s %s", plan->hash, plan->job_hash);
    write_line(fd, &b);
    for (size_t i = 0; i < plan->step_count; i++) {
        buf_printf(&b, "step %zu", i);
        put_text(&b, plan->steps[i].name);
        buf_printf(&b, " %s", plan->steps[i].key);
        write_line(fd, &b);
    }
}

static bool write_event(void *arg, const struct event *e)
{
    struct buf b = {0};
    buf_puts(&b, "event ");
    event_to_json(e, &b);
    write_line(*(const int *)arg, &b);
    return true;
}

/* The lines of two processes would make no sense in one file, so the second process gets a file of its own. */
static int open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    CLEANUP(cleanup_free) char *own = xasprintf("%s.%d", path, (int)getpid());
    return open(own, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

int trace_open(const struct hands *h, const struct run_options *o)
{
    const char *path = getenv("RHRUN_TEST_TRACE");
    struct buf b = {0};
    if (!path || !h->session->journal || (o->mode != RUN_EXECUTE && o->mode != RUN_CANCEL))
        return -1;
    int fd = open_file(path);
    if (fd < 0)
        return -1;
    buf_puts(&b, "trace 1 " RHRUN_VERSION);
    write_line(fd, &b);
    put_spec(&b, o->plan->spec);
    write_line(fd, &b);
    put_options(&b, o);
    write_line(fd, &b);
    write_plan(fd, o->plan);
    if (journal_sync(h->session->journal, NULL) == 0)
        journal_each(h->session->journal, 0, write_event, &fd, NULL);
    return fd;
}

void trace_close(const struct run *r)
{
    const struct run_result *result = &r->result;
    struct buf b = {0};
    if (!is_traced(r))
        return;
    buf_printf(&b, "end %s %d", run_status_name(result->status), result->exit_status);
    put_text(&b, result->error.code == ERROR_NONE ? "" : result->error.text);
    write_line(r->hands->trace_fd, &b);
    close(base_steal_fd(&r->hands->trace_fd));
}

/* ---- the lines of what happens ---- */

static void put_input(struct buf *b, const struct input *in)
{
    struct buf frame = {0};
    switch (in->kind) {
    case INPUT_READY:
        wire_put_facts(&frame, in->facts);
        buf_printf(b, " ready %d", in->again);
        break;
    case INPUT_LOST:
    case INPUT_GONE:
        buf_puts(b, in->kind == INPUT_LOST ? " lost" : " gone");
        put_error(b, in->error);
        return;
    case INPUT_RECORD:
    case INPUT_ENDED:
        wire_put_record(&frame, WIRE_RECORD, in->record);
        buf_puts(b, in->kind == INPUT_RECORD ? " record" : " ended");
        break;
    case INPUT_PATCHED:
        wire_put_patched(&frame, in->state);
        buf_puts(b, " patched");
        break;
    case INPUT_VANISHED:
        buf_puts(b, " vanished");
        return;
    case INPUT_MACHINE:
        buf_puts(b, " machine");
        return;
    case INPUT_LISTED:
        buf_puts(b, " listed");
        return;
    case INPUT_CHECKED:
        buf_puts(b, " checked");
        put_hex(b, in->exists, in->count);
        return;
    case INPUT_STARTED:
        buf_puts(b, " started");
        put_text(b, in->attempt);
        return;
    case INPUT_BUSY:
        buf_puts(b, " busy");
        put_text(b, in->attempt);
        put_text(b, in->live);
        put_text(b, in->slot);
        return;
    case INPUT_SETTLED:
        buf_puts(b, " settled");
        put_text(b, in->text);
        return;
    case INPUT_FAULT:
        buf_puts(b, " fault");
        put_text(b, in->attempt);
        put_text(b, in->text);
        return;
    case INPUT_DURABLE:
        buf_printf(b, " durable %" PRIu64, in->seq);
        return;
    case INPUT_PORT:
        buf_printf(b, " port %" PRIu64 " %" PRIu32, in->token, in->port);
        return;
    case INPUT_FINDINGS:
        buf_printf(b, " findings %" PRIu64 " %d %zu", in->token, in->port_taken, in->finding_count);
        return;
    case INPUT_FETCHED:
        buf_printf(b, " fetched %" PRIu32 " %d %d %" PRIu64 " %" PRIu64, in->step->id, (int)in->how, in->periodic,
                   in->files, in->bytes);
        put_error(b, in->error);
        return;
    case INPUT_RANK0:
        buf_printf(b, " rank0 %" PRIu64 " %" PRIu64, in->token, in->at_ns);
        return;
    case INPUT_INSTALLED:
        buf_puts(b, " installed");
        put_text(b, in->slot);
        put_text(b, in->text);
        return;
    case INPUT_LOOKED:
        buf_printf(b, " looked %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64, in->step->id, in->token, in->files,
                   in->sum);
        return;
    }
    put_hex(b, frame.data, frame.len);
    buf_free(&frame);
}

/* One line per finding, before the line of the input that has them. */
static void write_findings(const struct run *r, const struct input *in)
{
    for (size_t i = 0; i < in->finding_count; i++) {
        const struct run_finding *f = &in->findings[i];
        struct buf b = {0};
        buf_printf(&b, "finding %d", (int)f->code);
        put_text(&b, f->text);
        put_text(&b, f->cure);
        for (uint32_t n = 0; n < f->node_count; n++)
            buf_printf(&b, "%s%" PRIu32, n ? "," : " ", f->nodes[n]);
        write_line(r->hands->trace_fd, &b);
    }
}

void trace_input(const struct run *r, const struct input *in)
{
    struct buf b = {0};
    if (!is_traced(r))
        return;
    write_findings(r, in);
    buf_printf(&b, "< take %" PRIu32, in->node);
    put_input(&b, in);
    write_line(r->hands->trace_fd, &b);
}

void trace_effect(const struct run *r, const struct effect *e)
{
    struct buf b = {0};
    if (!is_traced(r))
        return;
    buf_puts(&b, "> effect ");
    effect_text(e, &b);
    write_line(r->hands->trace_fd, &b);
}

void trace_event(const struct run *r, const struct event *e)
{
    struct buf b = {0};
    if (!is_traced(r))
        return;
    buf_puts(&b, "> event ");
    event_to_json(e, &b);
    write_line(r->hands->trace_fd, &b);
}

void trace_line(const struct run_log *log, const char *what, const struct watch_line *line)
{
    struct buf b = {0};
    if (!is_traced(log->run))
        return;
    buf_printf(&b, "< %s %" PRIu32 " %" PRIu32 " %" PRIu32 " %u %" PRIu64, what, log->step->id, log->node, line->rank,
               line->stream, line->wall_ms);
    put_hex(&b, line->text, line->len);
    write_line(log->run->hands->trace_fd, &b);
}

void trace_end(const struct run_log *log, const struct wire_worker_end *end)
{
    trace(log->run, "< worker_end %" PRIu32 " %" PRIu32 " %" PRIu32 " %u %" PRId32 " %" PRIu64, log->step->id,
          log->node, end->rank, end->cause, end->value, end->end_mono_ns);
}

/* ---- what the hands tell the core by a function of the core ---- */

void tell_note(struct run *r, uint32_t node, const char *fmt, ...)
{
    char what[32];
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    snprintf(what, sizeof what, "< note %" PRIu32, node);
    trace_text(r, what, text);
    run_note(r, node, "%s", text);
}
