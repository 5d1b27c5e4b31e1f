/* The launch of a point on several nodes: its cells, one per node, combined into one. */
#include "points.h"

#include <string.h>

/* For each metric the value of the first part that has it: that part has the lowest ranks. NULL: no metrics. */
static const char *metrics_of(const struct cli_launch *l, struct arena *arena)
{
    struct doc_node *all = doc_new_object(arena);
    struct buf b = {0};
    for (uint32_t i = 0; i < l->count; i++) {
        const char *json = l->parts[i]->metrics;
        struct diagnostics ignored = {0};
        struct doc *doc;
        if (json && doc_load_text("metrics", json, strlen(json), DOC_FORMAT_JSON, arena, &doc, &ignored, NULL) == 0 &&
            doc->root->type == DOC_OBJECT)
            for (size_t k = 0; k < doc->root->count; k++)
                if (!doc_get(all, doc->root->members[k].key))
                    doc_set(arena, all, doc->root->members[k].key, doc->root->members[k].value);
        diagnostics_free(&ignored);
    }
    if (all->count)
        doc_to_json(all, DOC_JSON_PLAIN, &b);
    const char *json = all->count ? arena_strdup(arena, b.data) : NULL;
    buf_free(&b);
    return json;
}

/* A running part keeps the launch running. Else an unknown outcome comes before a failure, as it may have caused the
 * failure; and the first failure before the parts that were stopped because of it. */
static const struct state_cell *part_that_counts(const struct cli_launch *l)
{
    const struct state_cell *open = NULL, *unknown = NULL, *failed = NULL, *stopped = NULL;
    for (uint32_t i = 0; i < l->count; i++) {
        const struct state_cell *c = l->parts[i];
        const bool fails = c->outcome == OUTCOME_FAILED || c->outcome == OUTCOME_TIMED_OUT;
        if (c->outcome == OUTCOME_NONE)
            open = open ? open : c;
        else if (c->outcome == OUTCOME_UNKNOWN && !c->was_ok)
            unknown = unknown ? unknown : c;
        else if (fails && (!failed || c->finished_ms < failed->finished_ms))
            failed = c;
        else if (!fails && c->outcome != OUTCOME_OK && !c->was_ok)
            stopped = stopped ? stopped : c;
    }
    return open ? open : unknown ? unknown : failed ? failed : stopped;
}

struct cli_launch cli_launch_of(const struct state *s, const struct state_cell *cell, struct arena *arena)
{
    const uint32_t most = cell->parts > 1 ? (uint32_t)s->node_count : 1;
    const struct state_cell **parts = arena_array(arena, (size_t)most + 1, sizeof *parts);
    struct cli_launch l = {.whole = cell, .parts = parts};
    for (uint32_t n = 0; n < most && cell->parts > 1; n++) {
        const struct state_cell *c = state_cell_find(s, cell->scope, cell->step, n);
        if (c && c->seq == cell->seq)
            parts[l.count++] = c;
    }
    if (cell->parts <= 1) {
        parts[l.count++] = cell;
        return l;
    }
    struct state_cell *whole = arena_alloc(arena, sizeof *whole);
    const struct state_cell *bad = part_that_counts(&l);
    *whole = *parts[0];
    whole->log_bytes = 0;
    for (uint32_t i = 0; i < l.count; i++) {
        whole->finished_ms = parts[i]->finished_ms > whole->finished_ms ? parts[i]->finished_ms : whole->finished_ms;
        whole->log_bytes += parts[i]->log_bytes;
    }
    whole->outcome = bad ? bad->outcome : OUTCOME_OK;
    whole->was_ok = false;
    if (bad) {
        whole->cause = bad->cause;
        whole->cause_rank = bad->cause_rank;
        whole->cause_value = bad->cause_value;
        whole->tail = bad->tail;
    }
    if (whole->outcome == OUTCOME_NONE)
        whole->finished_ms = 0;
    whole->metrics = metrics_of(&l, arena);
    l.whole = whole;
    return l;
}
