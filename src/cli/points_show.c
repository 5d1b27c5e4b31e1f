/* The points of a sweep in words, and as JSON: for status and runs. */
#include "points.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_WIDTH_MAX = 40, HOST_WIDTH_MAX = 20, CAUSE_MAX = 160 };

bool cli_is_point_cell(const struct state_cell *cell)
{
    return cell->point || str_starts(cell->step, "point:");
}

/* Padded, or cut, to columns. */
static void put_field(struct buf *b, const char *text, unsigned width)
{
    const unsigned has = text_width(text, strlen(text));
    if (has <= width) {
        buf_printf(b, "%s%*s  ", text, (int)(width - has), "");
        return;
    }
    size_t len = strlen(text);
    while (len > 0 && (text_width(text, len) >= width || ((unsigned char)text[len] & 0xc0) == 0x80))
        len--;
    buf_append(b, text, len);
    buf_printf(b, "~%*s  ", (int)(width - 1 - text_width(text, len)), "");
}

static const char *name_of(const struct state *s, uint32_t node)
{
    return node < s->node_count && s->nodes[node].host ? s->nodes[node].host : "-";
}

static const char *host_of(const struct state *s, const struct cli_point *p)
{
    return p->cell ? name_of(s, p->cell->node) : "-";
}

/* All its nodes, rank 0's first; heap. */
static char *hosts_of(const struct state *s, const struct cli_point *p)
{
    struct buf b = {0};
    for (uint32_t i = 0; i < p->launch.count; i++)
        buf_printf(&b, "%s%s", i ? "," : "", name_of(s, p->launch.parts[i]->node));
    return b.data ? b.data : xstrdup("-");
}

/* Whether the latest launch began; a waiting point has none yet. */
static bool has_begun(const struct cli_point *p)
{
    return p->cell && p->state != POINT_IS_WAITING;
}

static uint64_t time_of(const struct cli_point *p)
{
    const uint64_t to = p->cell->finished_ms ? p->cell->finished_ms : wall_ms();
    return to > p->cell->started_ms ? to - p->cell->started_ms : 0;
}

static void widths_of(const struct state *s, const struct cli_points *p, size_t count, unsigned *ret_name,
                      unsigned *ret_host)
{
    *ret_name = 5;
    *ret_host = 4;
    for (size_t i = 0; i < count; i++) {
        CLEANUP(cleanup_free) char *host = hosts_of(s, &p->items[i]);
        const unsigned name = text_width(p->items[i].name, strlen(p->items[i].name));
        const unsigned wide = text_width(host, strlen(host));
        *ret_name = name > *ret_name ? name : *ret_name;
        *ret_host = wide > *ret_host ? wide : *ret_host;
    }
    *ret_name = *ret_name > NAME_WIDTH_MAX ? NAME_WIDTH_MAX : *ret_name;
    *ret_host = *ret_host > HOST_WIDTH_MAX ? HOST_WIDTH_MAX : *ret_host;
}

void cli_points_counts(const struct cli_points *p, struct buf *b)
{
    const size_t done = p->counts[POINT_IS_DONE] + p->counts[POINT_IS_KEPT];
    static const enum cli_point_state listed[] = {POINT_IS_RUNNING, POINT_HAS_FAILED, POINT_IS_WAITING};
    buf_printf(b, "%zu of %zu points done", done, p->count);
    if (p->counts[POINT_IS_KEPT])
        buf_printf(b, " (%zu kept)", p->counts[POINT_IS_KEPT]);
    for (size_t i = 0; i < ARRAY_LEN(listed); i++)
        if (p->counts[listed[i]])
            buf_printf(b, ", %zu %s", p->counts[listed[i]], cli_point_state_name(listed[i]));
}

/* {"loss":0.25,"acc":0.5} as "loss 0.25, acc 0.5". */
static void put_metrics(struct buf *b, const char *json)
{
    struct arena *arena = arena_create();
    struct diagnostics ignored = {0};
    struct doc *doc;
    if (json && doc_load_text("metrics", json, strlen(json), DOC_FORMAT_JSON, arena, &doc, &ignored, NULL) == 0 &&
        doc->root->type == DOC_OBJECT)
        for (size_t i = 0; i < doc->root->count; i++)
            buf_printf(b, "%s%s %s", i ? ", " : "", doc->root->members[i].key, doc->root->members[i].value->text);
    diagnostics_free(&ignored);
    arena_destroy(arena);
}

static void put_end(struct buf *b, const struct state_run *run, const struct cli_point *p)
{
    char cause[CAUSE_MAX];
    const size_t before = b->len;
    if (p->state == POINT_HAS_FAILED && plain_step_failed(p->cell->outcome)) {
        run_cause_text(p->cell->outcome, p->cell->cause, p->cell->cause_value, cause, sizeof cause);
        buf_puts(b, cause);
    } else if (p->state == POINT_HAS_FAILED) {
        buf_puts(b, "its files could not be fetched");
    }
    if (p->cell && p->cell->metrics && has_begun(p)) {
        buf_puts(b, b->len > before ? "; " : "");
        put_metrics(b, p->cell->metrics);
    }
    if (has_begun(p) && p->state != POINT_IS_KEPT && !str_eq(p->cell->run, run->id))
        buf_printf(b, "%s(run %s)", b->len > before ? "  " : "", p->cell->run);
}

void cli_points_table(const struct state *s, const struct state_run *run, const struct cli_points *p, size_t most,
                      struct buf *b)
{
    const size_t count = p->count < most ? p->count : most;
    unsigned name, host;
    widths_of(s, p, count, &name, &host);
    buf_puts(b, "  ");
    put_field(b, "POINT", name);
    buf_puts(b, "STATE    ");
    put_field(b, "NODE", host);
    buf_puts(b, "     TIME\n");
    for (size_t i = 0; i < count; i++) {
        const struct cli_point *at = &p->items[i];
        char took[32] = "-";
        if (has_begun(at))
            cli_duration(time_of(at), took);
        buf_puts(b, "  ");
        put_field(b, at->name, name);
        buf_printf(b, "%-7s  ", cli_point_state_name(at->state));
        CLEANUP(cleanup_free) char *hosts = hosts_of(s, at);
        put_field(b, has_begun(at) ? hosts : "-", host);
        buf_printf(b, "%9s  ", took);
        put_end(b, run, at);
        while (b->len && b->data[b->len - 1] == ' ')
            b->data[--b->len] = 0;
        buf_putc(b, '\n');
    }
    if (count < p->count)
        buf_printf(b, "  and %zu more (--all lists them)\n", p->count - count);
    if (p->best)
        buf_printf(b, "  best: %s, %s %s\n", p->best, p->metric, p->value);
}

void cli_points_list(const struct state *s, const struct cli_points *p, struct buf *b)
{
    unsigned name, host;
    widths_of(s, p, p->count, &name, &host);
    put_field(b, "POINT", name);
    buf_printf(b, "%-7s  %-16s  ", "STATE", "RUN");
    put_field(b, "NODE", host);
    buf_printf(b, "%9s  PARAMS\n", "TIME");
    for (size_t i = 0; i < p->count; i++) {
        const struct cli_point *at = &p->items[i];
        char took[32] = "-";
        if (has_begun(at))
            cli_duration(time_of(at), took);
        put_field(b, at->name, name);
        buf_printf(b, "%-7s  %-16s  ", cli_point_state_name(at->state), has_begun(at) ? at->cell->run : "-");
        CLEANUP(cleanup_free) char *hosts = hosts_of(s, at);
        put_field(b, has_begun(at) ? hosts : "-", host);
        buf_printf(b, "%9s  %s\n", took, at->params);
    }
}

void cli_points_json(const struct state *s, const struct cli_points *p, struct buf *b)
{
    buf_putc(b, '[');
    for (size_t i = 0; i < p->count; i++) {
        const struct cli_point *at = &p->items[i];
        const struct state_cell *cell = has_begun(at) ? at->cell : NULL;
        char cause[CAUSE_MAX];
        buf_puts(b, i ? ",{" : "{");
        cli_json_string(b, "point", at->name);
        cli_json_string(b, "id", at->id);
        cli_json_string(b, "state", cli_point_state_name(at->state));
        buf_printf(b, ",\"params\":%s", at->params);
        cli_json_string(b, "run", cell ? cell->run : NULL);
        cli_json_string(b, "host", cell ? host_of(s, at) : NULL);
        if (cell)
            buf_printf(b, ",\"node\":%u,\"place\":%llu,\"started_ms\":%llu,\"finished_ms\":%llu", cell->node,
                       (unsigned long long)cell->place, (unsigned long long)cell->started_ms,
                       (unsigned long long)cell->finished_ms);
        if (cell && at->launch.count > 1) { /* a single one is `host` */
            buf_puts(b, ",\"hosts\":[");
            for (uint32_t k = 0; k < at->launch.count; k++) {
                const char *host = name_of(s, at->launch.parts[k]->node);
                buf_puts(b, k ? "," : "");
                buf_json_string(b, host, strlen(host));
            }
            buf_putc(b, ']');
        }
        if (cell && plain_step_failed(cell->outcome)) {
            run_cause_text(cell->outcome, cell->cause, cell->cause_value, cause, sizeof cause);
            cli_json_string(b, "cause", cause);
        }
        buf_puts(b, str_eq(p->best, at->name) ? ",\"best\":true" : "");
        buf_printf(b, ",\"metrics\":%s}", cell && cell->metrics ? cell->metrics : "{}");
    }
    buf_putc(b, ']');
}
