/*
 * Preflight: the checks before a launch, in parallel and in a few round trips. They check that every node can reach the
 * port where the workers will meet, and that the nodes agree in things that otherwise make a launch fail in ways that
 * are hard to understand. The core gets the findings (INPUT_FINDINGS); it decides when to check, and what follows
 * (src/core/preflight.c). A question is lost with its connection. Then the core asks for a new round, and answers to an
 * older round are ignored.
 */
#include "preflight.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 3 /* how many nodes a message names */ };
#define PREFLIGHT_TOKEN (UINT64_C(1) << 63) /* of a GLOB or PING; the lower bits: round << 24, and the question */
#define QUESTION_MASK ((UINT64_C(1) << 24) - 1)

/* ---- findings ---- */

bool *preflight_nodes(struct launch *l)
{
    struct run *r = l->run;
    return arena_array(preflight_of(l)->arena, r->plan->node_count, sizeof(bool));
}

const char *preflight_names(struct launch *l, const bool *nodes)
{
    struct run *r = l->run;
    struct buf b = {0};
    uint32_t count = 0, shown = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        count += nodes[n];
    buf_puts(&b, count == 1 ? "node " : "nodes ");
    uint32_t most = count == NAMES_MAX + 1 ? count : NAMES_MAX; /* "and 1 more" would not be shorter */
    for (uint32_t n = 0; n < r->plan->node_count && shown < most; n++)
        if (nodes[n])
            buf_printf(&b, "%s\"%s\"", !shown++ ? "" : shown == count ? " and " : ", ", r->lanes[n].name);
    if (count > most)
        buf_printf(&b, " and %u more", count - most);
    const char *ret = arena_strdup(preflight_of(l)->arena, b.data);
    buf_free(&b);
    return ret;
}

const char *preflight_name(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    return arena_printf(preflight_of(l)->arena, "node \"%s\"", r->lanes[node].name);
}

void preflight_find(struct launch *l, const char *what, enum error_code code, const bool *nodes, const char *cure,
                    const char *fmt, ...)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    if (p->finding_count == p->finding_cap) {
        p->finding_cap = p->finding_cap ? 2 * p->finding_cap : 8;
        p->findings = xreallocarray(p->findings, p->finding_cap, sizeof *p->findings);
    }
    uint32_t *list = arena_array(p->arena, r->plan->node_count, sizeof *list), count = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (nodes[n])
            list[count++] = n;
    p->findings[p->finding_count++] = (struct run_finding){.what = what,
                                                           .code = code,
                                                           .nodes = list,
                                                           .node_count = count,
                                                           .text = arena_strdup(p->arena, text),
                                                           .cure = arena_strdup(p->arena, cure)};
}

bool preflight_compare(struct launch *l, const struct preflight_thing *t)
{
    struct run *r = l->run;
    enum { VALUES_MAX = 4 }; /* values that the findings show; there may be as many as nodes */
    const char *const *shown = t->shown ? t->shown : t->values;
    bool *told = preflight_nodes(l), all = true;
    uint32_t first = UINT32_MAX, values = 0;
    for (uint32_t n = 0; n < r->plan->node_count && values < VALUES_MAX; n++) {
        if (!t->values[n] || told[n])
            continue;
        bool *same = preflight_nodes(l);
        for (uint32_t k = n; k < r->plan->node_count; k++)
            if (t->values[k] && str_eq(t->values[k], t->values[n]))
                same[k] = told[k] = true;
        if (values++ == 0) {
            first = n;
            continue;
        }
        all = false;
        preflight_find(l, t->what, t->code, same, t->cure, "%s %s on %s and %s on %s", t->thing, shown[first],
                       preflight_name(l, first), shown[n], preflight_names(l, same));
    }
    return all;
}

const struct run_finding *run_findings(const struct run *r, size_t *ret_count)
{
    const struct preflight *p = r->hands->preflight;
    *ret_count = p ? p->finding_count : 0;
    return p ? p->findings : NULL;
}

/* ---- rounds ---- */

uint64_t preflight_token(const struct launch *l, uint32_t question)
{
    return PREFLIGHT_TOKEN | (uint64_t)preflight_of(l)->round << 24 | question;
}

/* Whether this is the token of a question of the present round, and preflight still goes on. */
static bool awaits(const struct launch *l, uint64_t token)
{
    const struct run *r = l->run;
    return preflight_of(l) && (r->stage == STAGE_PREFLIGHT || preflight_of(l)->joiner) && !run_is_stopping(r) &&
           (token & ~QUESTION_MASK) == (preflight_token(l, 0) & ~QUESTION_MASK);
}

/* All questions are answered: gives the findings to the core. */
static void on_over(void *arg)
{
    struct launch *l = arg;
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    const bool taken = p->again;
    p->again = false;
    if (!taken && !p->joiner && preflight_of_launch(r))
        preflight_check_facts(l);
    if (!taken)
        preflight_check_versions(l);
    const struct input in = {.kind = INPUT_FINDINGS,
                             .token = p->token,
                             .port_taken = taken,
                             .findings = p->findings,
                             .finding_count = taken ? 0 : p->finding_count};
    trace_input(r, &in);
    core_take(r, &in);
}

void preflight_answered(struct launch *l)
{
    struct preflight *p = preflight_of(l);
    while (--p->left == 0) {
        p->left = 1; /* one more, until all is asked */
        if (p->meet != MEET_NOT && preflight_go_on(l))
            continue;
        if (!p->again && preflight_meet(l))
            continue;
        loop_timer_start(p->over, 0);
        return;
    }
}

void preflight_probed(struct launch *l, struct lane *lane, uint64_t token, uint32_t errnum, const char *who)
{
    if (!awaits(l, token))
        return;
    preflight_take_probed(l, lane->index, errnum, who);
    preflight_answered(l);
}

bool preflight_ponged(struct launch *l, struct lane *lane, uint64_t token, uint64_t wall)
{
    if (!(token & PREFLIGHT_TOKEN))
        return false;
    if (!awaits(l, token))
        return true;
    struct asked *a = &preflight_of(l)->asked[lane->index];
    uint64_t now = mono_ns();
    a->clock_known = true;
    a->unsure_ms = (int64_t)((now - a->pinged_ns) / 2000000) + 1; /* + 1: both sides round down */
    a->clock_ms = (int64_t)wall - (int64_t)(a->pinged_ns / 1000000) - a->unsure_ms;
    preflight_answered(l);
    return true;
}

bool preflight_entries(struct launch *l, struct lane *lane, const struct wire_entries *e)
{
    if (!(e->token & PREFLIGHT_TOKEN))
        return false;
    if (!awaits(l, e->token))
        return true;
    if (!e->error[0])
        preflight_take_entries(l, lane->index, e->token & QUESTION_MASK, e);
    if (e->last || e->error[0])
        preflight_answered(l);
    return true;
}

static struct preflight *begin_round(struct launch *l, uint64_t token)
{
    struct hands *h = l->run->hands;
    if (!h->preflight) {
        h->preflight = xcalloc(1, sizeof *h->preflight);
        h->preflight->arena = arena_create();
        h->preflight->over = loop_timer_create(h->session->loop, on_over, l);
    }
    struct preflight *p = h->preflight;
    preflight_end_lookup(l);
    loop_timer_stop(p->over);
    arena_reset(p->arena);
    p->round++;
    p->token = token;
    p->left = 1; /* one more, until all is asked */
    p->meet = MEET_NOT;
    p->again = false;
    p->joiner = 0;
    p->finding_count = p->meeting_count = p->met = 0;
    p->asked = arena_array(p->arena, l->run->plan->node_count, sizeof *p->asked);
    return p;
}

void preflight_look(struct launch *l, uint64_t token)
{
    begin_round(l, token);
    preflight_ask_pythons(l);
    if (preflight_of_launch(l->run)) {
        preflight_ask_clocks(l);
        preflight_plan_meetings(l);
        preflight_meet(l);
    }
    preflight_answered(l);
}

void preflight_look_at(struct launch *l, uint32_t node, uint32_t member, uint64_t token)
{
    struct preflight *p = begin_round(l, token);
    p->joiner = node + 1;
    p->member = member;
    preflight_ask_pythons(l);
    preflight_answered(l);
}

void preflight_forget(struct launch *l)
{
    struct hands *h = l->run->hands;
    struct preflight *p = h->preflight;
    if (!p)
        return;
    preflight_end_lookup(l);
    loop_timer_destroy(p->over);
    free(p->findings);
    arena_destroy(p->arena);
    free(p);
    h->preflight = NULL;
}
