/* Members of JSON objects, and NDJSON lines that are not events of the journal: output, progress, the result. */
#include "internal.h"

#include <string.h>

static void put_key(struct buf *b, const char *key)
{
    buf_printf(b, "%s\"%s\":", b->len > 0 && b->data[b->len - 1] == '{' ? "" : ",", key);
}

void cli_json_text(struct buf *b, const char *key, const char *text, size_t len)
{
    put_key(b, key);
    buf_json_string(b, text, len);
}

void cli_json_string(struct buf *b, const char *key, const char *value)
{
    if (value) {
        cli_json_text(b, key, value, strlen(value));
        return;
    }
    put_key(b, key);
    buf_puts(b, "null");
}

/* Left out if there is none. */
static void put_string(struct buf *b, const char *key, const char *value)
{
    if (value)
        cli_json_string(b, key, value);
}

static void begin(struct buf *b, const char *type, uint64_t time_ms, const char *run)
{
    buf_printf(b, "{\"type\":\"%s\",\"time_ms\":%llu", type, (unsigned long long)time_ms);
    put_string(b, "run", run && run[0] ? run : NULL);
}

void cli_json_output(struct buf *b, const char *run, const char *step, const char *attempt, uint32_t node,
                     const struct cli_worker *worker, const struct watch_line *line)
{
    static const char *const names[] = {
        [WIRE_STREAM_OUT] = "out", [WIRE_STREAM_ERR] = "err", [WIRE_STREAM_NOTE] = "note"};
    begin(b, "output", line->wall_ms, run);
    put_string(b, "step", step);
    put_string(b, "attempt", attempt);
    put_string(b, "role", worker->role);
    buf_printf(b, ",\"node\":%u", node);
    if (line->rank != WIRE_NO_RANK)
        buf_printf(b, ",\"rank\":%u", line->rank);
    if (line->rank != WIRE_NO_RANK && worker->role)
        buf_printf(b, ",\"role_rank\":%u", worker->role_rank);
    buf_printf(b, ",\"stream\":\"%s\",\"text\":",
               line->stream < ARRAY_LEN(names) && names[line->stream] ? names[line->stream] : "note");
    buf_json_string(b, line->text, line->len);
    buf_puts(b, "}\n");
}

void cli_json_progress(struct buf *b, const char *run, const struct plan_step *step, const struct run_counts *n,
                       const struct run_transfer *t)
{
    begin(b, "progress", wall_ms(), run);
    put_string(b, "step", step->name);
    buf_printf(b, ",\"nodes_done\":%u,\"nodes_running\":%u,\"nodes_failed\":%u,\"nodes_total\":%u", n->done + n->kept,
               n->running, n->failed, n->total);
    if (t->files_total)
        buf_printf(b, ",\"files_done\":%llu,\"files_total\":%llu,\"bytes_done\":%llu,\"bytes_total\":%llu",
                   (unsigned long long)t->files_done, (unsigned long long)t->files_total,
                   (unsigned long long)t->bytes_done, (unsigned long long)t->bytes_total);
    buf_puts(b, "}\n");
}

void cli_json_result(struct buf *b, const char *run, const char *status, int exit_status, const struct error *err,
                     const struct run_result *res)
{
    static const char *const causes[] = {
        [WIRE_CAUSE_EXIT] = "exit",       [WIRE_CAUSE_SIGNAL] = "signal", [WIRE_CAUSE_EXEC] = "exec",
        [WIRE_CAUSE_CREATES] = "creates", [WIRE_CAUSE_SETUP] = "setup",   [WIRE_CAUSE_PREEMPTED] = "preempted"};
    begin(b, "result", wall_ms(), run);
    put_string(b, "status", status);
    buf_printf(b, ",\"exit_status\":%d", exit_status);
    if (err && err->code != ERROR_NONE) {
        put_string(b, "error", err->text);
        put_string(b, "code", error_code_name(err->code));
        put_string(b, "hint", err->hint[0] ? err->hint : NULL);
    }
    if (res && res->has_cause && exit_status != 0) {
        buf_puts(b, ",\"cause\":{");
        put_string(b, "step", res->cause_step);
        put_string(b, "host", res->cause_node);
        put_string(b, "kind", res->cause < ARRAY_LEN(causes) && causes[res->cause] ? causes[res->cause] : "other");
        buf_printf(b, ",\"value\":%d", res->cause_value);
        if (res->cause_has_rank)
            buf_printf(b, ",\"rank\":%u", res->cause_rank);
        if (res->cause_generation)
            buf_printf(b, ",\"generation\":%u", res->cause_generation);
        put_string(b, "tail", res->cause_tail);
        buf_putc(b, '}');
    }
    buf_puts(b, "}\n");
}

void cli_json_error(struct buf *b, const struct error *err)
{
    buf_putc(b, '{');
    put_string(b, "error", err->text);
    put_string(b, "code", error_code_name(err->code));
    put_string(b, "hint", err->hint[0] ? err->hint : NULL);
    buf_puts(b, "}\n");
}
