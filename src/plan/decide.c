/*
 * What each (step, node) needs, judged by its record. Pure. Reasons are made once per recorded key of a step, not once
 * per node, because a record's key stands for its inputs.
 */
#include "internal.h"

#include <string.h>

enum { REASONS_MAX = 16 }; /* how many distinct recorded keys of a step are cached */

struct reason {
    const char *key, *text;
    const char *again;             /* the reason instead, if the earlier step runs again */
    const struct plan_step *after; /* that earlier step, or NULL */
};
struct decider {
    const struct plan *plan;
    const struct plan_record *records;
    struct plan_decision *out;
    bool online;
    struct arena *arena;
    struct reason reasons[REASONS_MAX]; /* of the step at hand */
    size_t reason_count;
};

static size_t cell(const struct decider *d, size_t step, uint32_t node)
{
    return step * d->plan->node_count + node;
}

/* ---- reasons ---- */

static const char *with_time(struct decider *d, const char *text, const char *when)
{
    return when && *when ? arena_printf(d->arena, "%s (%s)", text, when) : text;
}

static const struct plan_step *find_step(const struct plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (str_eq(plan->steps[i].name, name))
            return &plan->steps[i];
    return NULL;
}

static const struct reason *change(struct decider *d, const struct plan_step *s, const struct plan_record *r)
{
    const char *after;
    for (size_t i = 0; i < d->reason_count; i++)
        if (str_eq(d->reasons[i].key, r->key))
            return &d->reasons[i];
    struct reason *slot = &d->reasons[d->reason_count < REASONS_MAX ? d->reason_count++ : REASONS_MAX - 1];
    *slot = (struct reason){.key = r->key, .text = plan_change_reason(s, r->inputs, &after, d->arena)};
    if (after) {
        slot->after = find_step(d->plan, after);
        slot->text = arena_printf(d->arena, "after %s, which changed", after);
        slot->again = arena_printf(d->arena, "after %s (which runs again)", after);
    }
    return slot;
}

static const char *change_reason(struct decider *d, const struct plan_step *s, const struct plan_record *r,
                                 uint32_t node)
{
    const struct reason *reason = change(d, s, r);
    if (!reason->after)
        return reason->text;
    enum verdict v = d->out[cell(d, reason->after->id, node)].verdict; /* it comes before s: decided already */
    return v == VERDICT_RUN || v == VERDICT_AGAIN ? reason->again : reason->text;
}

static const char *end_reason(struct decider *d, const struct plan_step *s, const struct plan_record *r)
{
    if (r->unknown)
        return with_time(
            d, s->on_unknown_fail ? "its outcome is unknown, and `on_unknown` is fail" : "its outcome is unknown",
            r->when);
    return with_time(d, r->ended ? arena_printf(d->arena, "ended with %s", r->ended) : "did not end well", r->when);
}

const char *plan_point_reason(const struct plan *plan, uint32_t point, const struct plan_record *record,
                              struct arena *arena)
{
    const struct plan_step *launch = &plan->steps[plan->points[point].launch];
    struct decider d = {.plan = plan, .arena = arena};
    if (!record->ok && !record->live)
        return record->unknown ? end_reason(&d, launch, record) : with_time(&d, record->ended, record->when);
    return str_eq(record->key, launch->key) ? NULL : change(&d, launch, record)->text;
}

/* The same text for all nodes, because nodes with equal reasons are shown together. */
static const char *verify_reason(struct decider *d, const struct plan_step *first, bool again)
{
    return arena_printf(d->arena, "%s runs%s, which may change what it installed", first->name, again ? " again" : "");
}

bool plan_chains(const struct plan *plan, const struct plan_step *later, const struct plan_step *step)
{
    for (size_t i = 0; i < later->input_count; i++) {
        const char *name = later->inputs[i].name;
        if (!str_starts(name, "after "))
            continue;
        const struct plan_step *before = find_step(plan, name + strlen("after "));
        if (before == step || (before && before->id > step->id && plan_chains(plan, before, step)))
            return true;
    }
    return false;
}

bool plan_looks_again(const struct plan *plan, const struct plan_step *step, const struct plan_step *later)
{
    if (later->id <= step->id || !later->kind->cached || !str_eq(later->python, step->python))
        return false;
    return (step->kind->verify && later->kind->verify) || (step->kind->renews && plan_chains(plan, later, step));
}

bool plan_is_from(const struct plan *plan, const char *from, const struct plan_step *step)
{
    const struct plan_step *first = from ? find_step(plan, from) : NULL;
    for (size_t i = 0; !first && from && i < plan->step_count; i++) {
        const struct step_kind *kind = plan->steps[i].kind;
        if (kind->ranked && str_eq(kind->name, from)) /* "launch": with roles there is one for each */
            first = &plan->steps[i];
    }
    if (!first || step->id < first->id)
        return false;
    return !first->role || step->role == first->role || step->kind->phase != PHASE_SETUP;
}

/* ---- passes ---- */

static struct plan_decision decide_one(struct decider *d, const struct plan_step *s, const struct plan_record *r,
                                       uint32_t node)
{
    bool launch = s->kind->phase == PHASE_LAUNCH;
    if (r->voided)
        return (struct plan_decision){VERDICT_AGAIN,
                                      r->why_not ? r->why_not : "requested by --again, --fresh or --from"};
    if (!r->present && r->unasked)
        return (struct plan_decision){VERDICT_DEPENDS, "the node could not be asked"};
    if (!r->present)
        return (struct plan_decision){VERDICT_RUN, NULL};
    if (!str_eq(r->key, s->key) && (r->ok || r->live))
        return (struct plan_decision){VERDICT_AGAIN, change_reason(d, s, r, node)};
    if (r->live)
        return (struct plan_decision){VERDICT_KEEP, "it is running now"};
    if (r->unknown || !r->ok)
        return (struct plan_decision){VERDICT_AGAIN, end_reason(d, s, r)};
    if (r->contradicted)
        return (struct plan_decision){VERDICT_AGAIN, r->why_not ? r->why_not : "the node's ledger has no record of it"};
    if (r->verified || launch) /* a launch's result counts even when its node is gone */
        return (struct plan_decision){VERDICT_KEEP, NULL};
    return (struct plan_decision){VERDICT_DEPENDS,
                                  d->online ? "the node could not be asked" : "the node was not asked"};
}

static void pass_records(struct decider *d)
{
    static const struct plan_record nothing = {0};
    for (size_t i = 0; i < d->plan->step_count; i++) {
        const struct plan_step *s = &d->plan->steps[i];
        d->reason_count = 0;
        for (uint32_t n = 0; n < d->plan->node_count; n++) {
            size_t at = cell(d, i, n);
            if (!s->on[n])
                d->out[at] = (struct plan_decision){VERDICT_NOT_NEEDED, NULL};
            else
                d->out[at] = decide_one(d, s, d->records ? &d->records[at] : &nothing, n);
        }
    }
}

static bool is_around(const struct plan_step *s) /* it belongs to the launch and runs whenever the launch does */
{
    return s->kind->phase != PHASE_SETUP && s->kind->phase != PHASE_LAUNCH;
}

/* The launch runs, so its prolog and epilog run too, whatever their records say. */
static void pass_around(struct decider *d)
{
    for (size_t i = 0; i < d->plan->step_count; i++)
        for (uint32_t n = 0; n < d->plan->node_count && is_around(&d->plan->steps[i]); n++)
            if (d->out[cell(d, i, n)].verdict == VERDICT_KEEP || d->out[cell(d, i, n)].verdict == VERDICT_DEPENDS)
                d->out[cell(d, i, n)] = (struct plan_decision){VERDICT_AGAIN, "the launch runs again"};
}

static bool is_live(const struct decider *d, size_t at)
{
    return d->records && d->records[at].live;
}

enum launch_is { LAUNCH_TO_RUN, LAUNCH_LIVE, LAUNCH_KEPT };

/* The first step of the launch, and the first of its nodes, that is not kept. */
static const struct plan_step *launch_to_run(struct decider *d, uint32_t *ret_node, bool *ret_live)
{
    *ret_live = false;
    for (size_t i = 0; i < d->plan->step_count; i++) {
        const struct plan_step *s = &d->plan->steps[i];
        for (uint32_t n = 0; s->kind->phase == PHASE_LAUNCH && n < d->plan->node_count; n++) {
            *ret_node = n;
            *ret_live = *ret_live || (s->on[n] && is_live(d, cell(d, i, n)));
            if (s->on[n] && d->out[cell(d, i, n)].verdict != VERDICT_KEEP)
                return s;
        }
    }
    return NULL;
}

/* While a launch is alive, its steps that are not kept may just not have started yet: parts start one after the
 * other. */
static bool awaits(const struct decider *d)
{
    bool live = false;
    for (size_t i = 0; i < d->plan->step_count; i++)
        for (uint32_t n = 0; n < d->plan->node_count; n++) {
            const struct plan_step *s = &d->plan->steps[i];
            size_t at = cell(d, i, n);
            if (s->kind->phase != PHASE_LAUNCH || !s->on[n])
                continue;
            live = live || is_live(d, at);
            if (d->out[at].verdict != VERDICT_KEEP && (d->out[at].verdict != VERDICT_RUN || s->wait_count == 0))
                return false;
        }
    return live;
}

/* A launch starts on all of its nodes or on none, and all of its steps do. */
static enum launch_is pass_launch(struct decider *d)
{
    uint32_t first;
    bool live;
    const struct plan_step *step = launch_to_run(d, &first, &live);
    if (!step)
        return live ? LAUNCH_LIVE : LAUNCH_KEPT;
    if (awaits(d))
        return LAUNCH_LIVE;
    const char *reason = arena_printf(d->arena, "it runs again on \"%s\"", roster_name(d->plan->roster, first));
    const char *part = arena_printf(d->arena, "%s runs again", step->name);
    for (size_t i = 0; i < d->plan->step_count; i++) {
        const struct plan_step *s = &d->plan->steps[i];
        for (uint32_t n = 0; s->kind->phase == PHASE_LAUNCH && n < d->plan->node_count; n++)
            if (s->on[n] && d->out[cell(d, i, n)].verdict == VERDICT_KEEP)
                d->out[cell(d, i, n)] = (struct plan_decision){VERDICT_AGAIN, s == step ? reason : part};
    }
    return LAUNCH_TO_RUN;
}

static bool has_launch(const struct plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind->phase == PHASE_LAUNCH)
            return true;
    return false;
}

/* If the launch's result is kept, its prolog and epilog need not run, and its set-up need not exist. While the launch
 * runs, its prolog is over. */
static void pass_not_needed(struct decider *d, enum launch_is launch)
{
    for (size_t i = 0; i < d->plan->step_count; i++) {
        enum plan_phase phase = d->plan->steps[i].kind->phase;
        if (phase == PHASE_LAUNCH || (launch == LAUNCH_LIVE && phase != PHASE_PROLOG))
            continue;
        for (uint32_t n = 0; n < d->plan->node_count; n++) {
            size_t at = cell(d, i, n);
            bool asked_for = d->records && (d->records[at].voided || (d->records[at].fetch && phase == PHASE_OUTPUTS));
            bool kept = d->out[at].verdict == VERDICT_KEEP && !is_around(&d->plan->steps[i]);
            if (!kept && !asked_for)
                d->out[at] = (struct plan_decision){VERDICT_NOT_NEEDED, NULL};
        }
    }
}

/* An installation may change the packages of a later one, so the later one is checked again. Not the other way
 * round. */
static void pass_verify(struct decider *d)
{
    for (uint32_t n = 0; n < d->plan->node_count; n++) {
        const struct plan_step *first = NULL, *renewed = NULL;
        bool again = false;
        for (size_t i = 0; i < d->plan->step_count; i++) {
            const struct plan_step *s = &d->plan->steps[i];
            struct plan_decision *out = &d->out[cell(d, i, n)];
            bool runs = out->verdict == VERDICT_RUN || out->verdict == VERDICT_AGAIN;
            if (!s->on[n] || is_live(d, cell(d, i, n)))
                continue;
            if (runs && s->kind->renews)
                renewed = s;
            if (runs && s->kind->verify && !first) {
                first = s;
                again = out->verdict == VERDICT_AGAIN;
            }
            if (out->verdict != VERDICT_KEEP)
                continue;
            if (renewed && plan_looks_again(d->plan, renewed, s))
                *out = (struct plan_decision){VERDICT_AGAIN, arena_printf(d->arena, "%s is made again", renewed->name)};
            else if (first && plan_looks_again(d->plan, first, s))
                *out = (struct plan_decision){VERDICT_VERIFY, verify_reason(d, first, again)};
        }
    }
}

void plan_decide(const struct plan *plan, const struct plan_record *records, bool online, struct arena *arena,
                 struct plan_decision *ret_decisions)
{
    struct decider d = {.plan = plan, .records = records, .out = ret_decisions, .online = online, .arena = arena};
    /* 1. every (step, node) by its own record */
    pass_records(&d);
    /* 2. a launch runs again everywhere when it does anywhere */
    enum launch_is launch = has_launch(plan)                          ? pass_launch(&d)
                            : plan->points && points_to_do(plan) == 0 ? LAUNCH_KEPT
                                                                      : LAUNCH_TO_RUN;
    /* 3. a kept launch makes the rest unnecessary */
    if (launch != LAUNCH_TO_RUN)
        pass_not_needed(&d, launch);
    else
        pass_around(&d);
    /* 4. installations after one that runs are checked again */
    pass_verify(&d);
}

enum verdict plan_rent_verdict(const struct plan *plan, const struct plan_decision *decisions)
{
    if (plan->rent->there)
        return VERDICT_KEEP;
    for (size_t i = 0; i < plan->step_count; i++)
        for (uint32_t n = 0; n < plan->node_count; n++) {
            enum verdict v = decisions ? decisions[i * plan->node_count + n].verdict : VERDICT_RUN;
            if (plan->steps[i].on[n] && v != VERDICT_KEEP && v != VERDICT_NOT_NEEDED)
                return VERDICT_RUN;
        }
    return VERDICT_NOT_NEEDED;
}

const char *verdict_name(enum verdict v)
{
    switch (v) {
    case VERDICT_KEEP:
        return "keep";
    case VERDICT_RUN:
        return "run";
    case VERDICT_AGAIN:
        return "run again";
    case VERDICT_VERIFY:
        return "verify";
    case VERDICT_DEPENDS:
        return "depends on the node";
    case VERDICT_NOT_NEEDED:
        break;
    }
    return "not needed";
}
