/*
 * Preflight: what is looked at before a launch, in parallel and in a few round trips. Does every node reach the port
 * where the workers will meet, and do the nodes agree in what makes a launch fail in ways that are hard to read? What
 * keeps the job from running ends the run before anything starts; the rest is noted. Preflight is done again before a
 * later generation where a node has restarted, was replaced or set up anew since.
 *
 * A question is lost with its connection. Then all questions are asked again (preflight_again), and answers to an older
 * round count for nothing.
 */
#include "preflight.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 3 /* nodes that a message names */ };
#define PREFLIGHT_TOKEN (UINT64_C(1) << 63) /* of a GLOB or PING; below it: round << 24, and the question */
#define QUESTION_MASK ((UINT64_C(1) << 24) - 1)

/* ---- findings ---- */

bool *preflight_nodes(struct launch *l)
{
    struct run *r = l->run;
    return arena_array(l->preflight->arena, r->plan->node_count, sizeof(bool));
}

const char *preflight_names(struct launch *l, const bool *nodes)
{
    struct run *r = l->run;
    struct buf b = {0};
    uint32_t count = 0, shown = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        count += nodes[n];
    buf_puts(&b, count == 1 ? "node " : "nodes ");
    uint32_t most = count == NAMES_MAX + 1 ? count : NAMES_MAX; /* "and 1 more" would be no shorter */
    for (uint32_t n = 0; n < r->plan->node_count && shown < most; n++)
        if (nodes[n])
            buf_printf(&b, "%s\"%s\"", !shown++ ? "" : shown == count ? " and " : ", ", r->lanes[n].name);
    if (count > most)
        buf_printf(&b, " and %u more", count - most);
    const char *ret = arena_strdup(l->preflight->arena, b.data);
    buf_free(&b);
    return ret;
}

const char *preflight_name(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    return arena_printf(l->preflight->arena, "node \"%s\"", r->lanes[node].name);
}

void preflight_find(struct launch *l, const char *what, enum error_code code, const bool *nodes, const char *cure,
                    const char *fmt, ...)
{
    struct run *r = l->run;
    struct preflight *p = l->preflight;
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
    enum { VALUES_MAX = 4 }; /* that the user is told of; there may be as many as nodes */
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
    const struct preflight *p = run_launch(r)->preflight;
    *ret_count = p ? p->finding_count : 0;
    return p ? p->findings : NULL;
}

/* ---- which machines were looked at ---- */

static bool is_same(const struct launch *l, uint32_t node)
{
    const struct run *r = l->run;
    char *const *seen = l->preflight->machines[node];
    const struct wire_facts *f = r->lanes[node].facts;
    return !f || (seen[0] && str_eq(seen[0], f->boot_id) && str_eq(seen[1], f->install));
}

static void remember_machines(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = l->preflight;
    p->setup_changed = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = r->lanes[n].facts;
        if (!f || is_same(l, n))
            continue;
        free(p->machines[n][0]);
        free(p->machines[n][1]);
        p->machines[n][0] = xstrdup(f->boot_id);
        p->machines[n][1] = xstrdup(f->install);
    }
}

static bool has_changed(const struct launch *l)
{
    const struct run *r = l->run;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (preflight_asks(l, n) && !is_same(l, n))
            return true;
    return l->preflight->setup_changed;
}

/* ---- rounds ---- */

uint64_t preflight_token(const struct launch *l, uint32_t question)
{
    return PREFLIGHT_TOKEN | (uint64_t)l->preflight->round << 24 | question;
}

/* Is this the token of a question of this round whose answer is awaited? */
static bool awaits(const struct launch *l, uint64_t token)
{
    const struct run *r = l->run;
    return l->preflight && (r->stage == STAGE_PREFLIGHT || l->preflight->joiner) && !run_is_stopping(r) &&
           (token & ~QUESTION_MASK) == (preflight_token(l, 0) & ~QUESTION_MASK);
}

/* Leaves out those of MIN:MAX nodes that cannot take part, if enough others can. True: all of them. */
static bool spared(struct launch *l, const struct run_finding *f)
{
    struct error err = ERROR_INIT;
    bool all = true;
    error_set(&err, f->code, "%s", f->text);
    for (uint32_t i = 0; i < f->node_count; i++)
        all = all && tell_bar(l, f->nodes[i], &err);
    return all;
}

/* Notes what is only to be noted. Returns the first finding that keeps the job from running; NULL = none does. */
static const struct run_finding *tell(struct launch *l)
{
    struct run *r = l->run;
    const struct preflight *p = l->preflight;
    const struct run_finding *first = NULL;
    for (size_t i = 0; i < p->finding_count; i++) {
        const struct run_finding *f = &p->findings[i];
        if (f->code != ERROR_NONE && spared(l, f))
            continue;
        if (f->code != ERROR_NONE && !first)
            first = f;
        else
            tell_note(r, EVENT_NODE_NONE, "%s; %s", f->text, f->cure);
    }
    return first;
}

static void finish_joiner(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = l->preflight;
    uint32_t node = p->joiner - 1;
    struct error err = ERROR_INIT;
    preflight_check_versions(l);
    p->joiner = 0;
    for (size_t i = 0; i < p->finding_count; i++) {
        const struct run_finding *f = &p->findings[i];
        if (f->code == ERROR_NONE)
            tell_note(r, EVENT_NODE_NONE, "%s; %s", f->text, f->cure);
        else if (!err.code)
            error_set(&err, f->code, "%s", f->text);
    }
    if (err.code)
        tell_bar(l, node, &err);
    else
        tell_checked(l, node);
    tell_join(l); /* other nodes may wait for their turn to join */
}

static void finish(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = l->preflight;
    struct error err = ERROR_INIT;
    if (p->joiner) {
        finish_joiner(l);
        return;
    }
    if (p->again) {
        p->again = false;
        tell_due(r, DUE_PORT);
        return;
    }
    if (preflight_of_launch(r))
        preflight_check_facts(l);
    preflight_check_versions(l);
    p->done = true;
    remember_machines(l);
    if (r->options.mode == RUN_LOOK) {
        run_look_end(r);
        return;
    }
    const struct run_finding *bad = tell(l);
    if (!bad) {
        tell_due(r, DUE_PROLOG);
        return;
    }
    error_set(&err, bad->code, "%s", bad->text);
    error_hint(&err, "%s", bad->cure);
    tell_fail(r, bad->code == ERROR_JOB ? RUN_FAILED : RUN_INFRA, &err);
}

void preflight_answered(struct launch *l)
{
    struct preflight *p = l->preflight;
    while (--p->left == 0) {
        p->left = 1; /* one more, until all is asked */
        if (p->meet != MEET_NOT && preflight_go_on(l))
            continue;
        if (!p->again && preflight_meet(l))
            continue;
        finish(l);
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
    struct asked *a = &l->preflight->asked[lane->index];
    uint64_t now = mono_ns();
    a->clock_known = true;
    a->unsure_ms = (int64_t)((now - a->pinged_ns) / 2000000) + 1; /* + 1: both sides cut off fractions */
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

static void begin_round(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = l->preflight;
    preflight_end_lookup(l);
    arena_reset(p->arena);
    p->round++;
    p->left = 1; /* one more, until all is asked */
    p->meet = MEET_NOT;
    p->lost = false;
    p->joiner = 0;
    p->finding_count = p->meeting_count = p->met = 0;
    p->asked = arena_array(p->arena, r->plan->node_count, sizeof *p->asked);
}

static void ask(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = l->preflight;
    tell_stage(r, STAGE_PREFLIGHT);
    begin_round(l);
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        p->lost = p->lost || (preflight_asks(l, n) && !presence_is_here(r->lanes[n].presence));
    preflight_ask_pythons(l);
    if (preflight_of_launch(r)) {
        preflight_ask_clocks(l);
        preflight_plan_meetings(l);
        preflight_meet(l);
    }
    preflight_answered(l);
}

static bool wanted(const struct run *r)
{
    const struct spec_preflight *w = preflight_spec(r);
    if (!preflight_of_launch(r))
        return r->options.mode == RUN_LOOK;
    return !(w->no_ports && w->no_clocks && w->no_disk && w->no_gpus && w->no_versions);
}

static void prepare(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = l->preflight;
    if (p)
        return;
    p = l->preflight = xcalloc(1, sizeof *p);
    p->arena = arena_create();
    p->machines = xcalloc(r->plan->node_count, sizeof *p->machines);
    /* a controller takes the run up: the machines of now count as looked at */
    if (l->generation > 0 && !launch_is_adopted(l)) {
        p->done = true;
        remember_machines(l);
    }
}

static bool find_member(const struct run *r, uint32_t *ret)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (!r->lanes[n].left_out && presence_is_here(r->lanes[n].presence)) {
            *ret = n;
            return true;
        }
    return false;
}

static bool joins(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    if (!wanted(r) || preflight_spec(r)->no_versions)
        return false;
    prepare(l);
    struct preflight *p = l->preflight;
    if (p->joiner || !find_member(r, &p->member))
        return true; /* nodes join one after the other */
    begin_round(l);
    p->joiner = node + 1;
    preflight_ask_pythons(l);
    if (--p->left == 0)
        p->joiner = 0; /* there is nothing to ask */
    return p->joiner;
}

bool preflight_joins(struct launch *l, uint32_t node)
{
    trace(l->run, "> preflight_joins %u", node);
    return trace_answer(l->run, joins(l, node));
}

static bool begin(struct launch *l)
{
    struct run *r = l->run;
    if (!wanted(r))
        return false;
    prepare(l);
    struct preflight *p = l->preflight;
    if (p->done && !has_changed(l))
        return false;
    ask(l);
    return true;
}

bool preflight_begin(struct launch *l)
{
    trace(l->run, "> preflight_begin");
    return trace_answer(l->run, begin(l));
}

void preflight_forget(struct launch *l)
{
    if (!l->preflight)
        return;
    l->preflight->lost = true;
    uint32_t joiner = l->preflight->joiner;
    l->preflight->joiner = 0;
    if (joiner)
        tell_wait(l, joiner - 1);
}

void preflight_lost(struct launch *l)
{
    trace(l->run, "> preflight_lost");
    preflight_forget(l);
    trace(l->run, "=");
}

void preflight_setup_changed(struct launch *l)
{
    if (l->preflight)
        l->preflight->setup_changed = true;
}

void preflight_again(struct launch *l)
{
    trace(l->run, "> preflight_again");
    if (l->preflight->lost)
        ask(l);
    trace(l->run, "=");
}

void preflight_free(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = l->preflight;
    if (!p)
        return;
    preflight_end_lookup(l);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        free(p->machines[n][0]);
        free(p->machines[n][1]);
    }
    free(p->machines);
    free(p->findings);
    arena_destroy(p->arena);
    free(p);
    l->preflight = NULL;
}
