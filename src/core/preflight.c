/* Preflight: decides when a launch is checked before it begins, and what follows from the findings. src/run/preflight.c
 * checks the nodes. Preflight is done again before a later generation if a node has restarted, or was replaced or set
 * up again. */
#include "internal.h"

#include <stdlib.h>

struct preflight_state {
    uint64_t asked, awaited; /* tokens: of the last question; of the question that is not answered yet, 0 = none */
    bool done;
    bool lost;            /* a question may have been lost with its connection, or with a node that is left out */
    bool setup_changed;   /* since preflight was done */
    char *(*machines)[2]; /* per node: its boot and install ids when preflight was last done */
    /* the node, plus 1, if the question is whether that node may join; 0 = the question is about the whole launch */
    uint32_t joiner;
};

static const struct spec_preflight *spec_of(const struct run *r)
{
    return &r->plan->spec->distributed.preflight;
}

/* False: the job has no `distributed`. Only doctor checks such a job, and only for its interpreters. */
static bool is_distributed(const struct run *r)
{
    return r->plan->spec->distributed.present;
}

static bool is_wanted(const struct run *r)
{
    const struct spec_preflight *w = spec_of(r);
    if (!is_distributed(r))
        return r->options.mode == RUN_LOOK;
    return !(w->no_ports && w->no_clocks && w->no_disk && w->no_gpus && w->no_versions);
}

/* ---- which machines were checked ---- */

static bool is_same(const struct launch *l, uint32_t node)
{
    char *const *seen = l->preflight->machines[node];
    const struct wire_facts *f = l->run->lanes[node].facts;
    return !f || (seen[0] && str_eq(seen[0], f->boot_id) && str_eq(seen[1], f->install));
}

static void remember_machines(struct launch *l)
{
    struct run *r = l->run;
    struct preflight_state *p = l->preflight;
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

/* Whether the node is asked. A node that is left out or cannot be reached is not. */
static bool is_asked(const struct lane *lane)
{
    return !lane->left_out && lane->state != LANE_FAILED;
}

static bool has_changed(const struct launch *l)
{
    const struct run *r = l->run;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (is_asked(&r->lanes[n]) && !is_same(l, n))
            return true;
    return l->preflight->setup_changed;
}

/* ---- questions ---- */

static void prepare(struct launch *l)
{
    if (l->preflight)
        return;
    l->preflight = xcalloc(1, sizeof *l->preflight);
    l->preflight->machines = xcalloc(l->run->plan->node_count, sizeof *l->preflight->machines);
    /* a controller continues the run: its present machines count as checked */
    if (l->generation > 0 && !launch_is_adopted(l)) {
        l->preflight->done = true;
        remember_machines(l);
    }
}

static void ask(struct launch *l)
{
    struct run *r = l->run;
    struct preflight_state *p = l->preflight;
    run_set_stage(r, STAGE_PREFLIGHT);
    p->lost = false;
    p->joiner = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        p->lost = p->lost || (is_asked(&r->lanes[n]) && !presence_is_here(r->lanes[n].presence));
    p->awaited = ++p->asked;
    run_effect(r, &(struct effect){.kind = EFFECT_PREFLIGHT, .token = p->awaited});
}

bool preflight_begin(struct launch *l)
{
    if (!is_wanted(l->run))
        return false;
    prepare(l);
    if (l->preflight->done && !has_changed(l))
        return false;
    ask(l);
    return true;
}

void preflight_again(struct launch *l)
{
    if (l->preflight->lost)
        ask(l);
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

bool preflight_joins(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    uint32_t member;
    if (!is_wanted(r) || spec_of(r)->no_versions)
        return false;
    prepare(l);
    struct preflight_state *p = l->preflight;
    if (p->joiner || !find_member(r, &member))
        return true; /* nodes join one after another */
    p->joiner = node + 1;
    p->awaited = ++p->asked;
    run_effect(r, &(struct effect){.kind = EFFECT_PREFLIGHT_JOIN, .node = node, .member = member, .token = p->awaited});
    return true;
}

void preflight_lost(struct launch *l)
{
    struct preflight_state *p = l->preflight;
    if (!p)
        return;
    const uint32_t joiner = p->joiner;
    p->lost = true;
    if (!joiner)
        return;
    p->joiner = 0;
    p->awaited = 0;
    elastic_wait(l, joiner - 1);
}

void preflight_setup_changed(struct launch *l)
{
    if (l->preflight)
        l->preflight->setup_changed = true;
}

/* ---- what was found ---- */

/* With MIN:MAX nodes: leaves out the nodes that cannot take part, if enough others can. True: all of them were left
 * out. */
static bool is_spared(struct launch *l, const struct run_finding *f)
{
    struct error err = ERROR_INIT;
    bool all = true;
    error_set(&err, f->code, "%s", f->text);
    for (uint32_t i = 0; i < f->node_count; i++)
        all = all && elastic_bar(l, f->nodes[i], &err);
    return all;
}

static void take_of_joiner(struct launch *l, const struct input *in)
{
    const uint32_t node = l->preflight->joiner - 1;
    struct error err = ERROR_INIT;
    l->preflight->joiner = 0;
    for (size_t i = 0; i < in->finding_count; i++) {
        const struct run_finding *f = &in->findings[i];
        if (f->code == ERROR_NONE)
            run_note(l->run, EVENT_NODE_NONE, "%s; %s", f->text, f->cure);
        else if (!err.code)
            error_set(&err, f->code, "%s", f->text);
    }
    if (err.code)
        elastic_bar(l, node, &err);
    else
        elastic_checked(l, node);
    elastic_join(l); /* other nodes may be waiting to join */
}

/* Prints notes for findings that are only notes. The first finding that keeps the job from running fails the run. */
static void take_of_launch(struct launch *l, const struct input *in)
{
    struct run *r = l->run;
    const struct run_finding *first = NULL;
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < in->finding_count; i++) {
        const struct run_finding *f = &in->findings[i];
        if (f->code != ERROR_NONE && is_spared(l, f))
            continue;
        if (f->code != ERROR_NONE && !first)
            first = f;
        else
            run_note(r, EVENT_NODE_NONE, "%s; %s", f->text, f->cure);
    }
    if (!first) {
        run_due(r, DUE_PROLOG);
        return;
    }
    error_set(&err, first->code, "%s", first->text);
    error_hint(&err, "%s", first->cure);
    run_fail(r, first->code == ERROR_JOB ? RUN_FAILED : RUN_INFRA, &err);
}

void preflight_take(struct launch *l, const struct input *in)
{
    struct run *r = l->run;
    struct preflight_state *p = l->preflight;
    if (!p || in->token != p->awaited || run_is_stopping(r))
        return;
    p->awaited = 0;
    if (p->joiner) {
        take_of_joiner(l, in);
        return;
    }
    if (r->stage != STAGE_PREFLIGHT)
        return;
    if (in->port_taken) {
        run_due(r, DUE_PORT);
        return;
    }
    p->done = true;
    remember_machines(l);
    if (r->options.mode == RUN_LOOK)
        run_look_end(r);
    else
        take_of_launch(l, in);
}

void preflight_free(struct launch *l)
{
    struct preflight_state *p = l->preflight;
    for (uint32_t n = 0; p && n < l->run->plan->node_count; n++) {
        free(p->machines[n][0]);
        free(p->machines[n][1]);
    }
    if (p)
        free(p->machines);
    free(p);
}
