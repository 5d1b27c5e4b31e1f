/* The object of a run: created from a plan and a state, begun, and freed. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static void on_away(void *arg)
{
    struct lane *lane = arg;
    rules_node_lost(run_launch(lane->run), lane, false);
}

/* One launch, of all steps after set-up. */
static void create_launches(struct run *r)
{
    r->launch_count = 1;
    r->launches = arena_array(r->arena, r->launch_count, sizeof *r->launches);
    struct launch *l = r->launches;
    l->run = r;
    l->end_step = r->plan->step_count;
    while (l->first_step < l->end_step && r->plan->steps[l->first_step].kind->phase <= PHASE_POINT)
        l->first_step++;
    l->role_ports = arena_array(r->arena, r->plan->spec->role_count + 1, sizeof *l->role_ports);
    l->late = alarm_create(r, elastic_on_late, l);
    l->pause = alarm_create(r, launch_on_pause, l);
    l->rules = rules_create(l);
}

static void destroy_launches(struct run *r)
{
    for (struct launch *l = r->launches; l < r->launches + r->launch_count; l++) {
        alarm_destroy(l->late);
        alarm_destroy(l->pause);
        rules_destroy(l->rules);
        outputs_free(l);
        preflight_free(l);
    }
}

static void create_lane(struct run *r, uint32_t i)
{
    struct lane *lane = &r->lanes[i];
    lane->run = r;
    lane->index = i;
    lane->name = roster_name(r->plan->roster, i);
    lane->arena = arena_create();
    lane->creates = arena_array(r->arena, r->plan->step_count + 1, 1);
    lane->trees = arena_array(r->arena, r->plan->step_count + 1, 1);
    if (rules_await_nodes(run_launch(r))) /* a rule decides what follows when a node stays away */
        lane->away = alarm_create(r, on_away, lane);
}

struct run *core_create(struct hands *hands, const struct run_options *options, const struct state *state,
                        void (*finished)(void *arg), void *arg)
{
    struct run *r = xcalloc(1, sizeof *r);
    r->hands = hands;
    r->options = *options;
    r->plan = options->plan;
    r->state = state;
    r->finished = finished;
    r->arg = arg;
    r->arena = arena_create();
    r->tasks = xcalloc(r->plan->step_count * r->plan->node_count + 1, sizeof *r->tasks);
    r->done = xcalloc(r->plan->step_count + 1, sizeof *r->done);
    r->lanes = xcalloc(r->plan->node_count, sizeof *r->lanes);
    r->touched = xcalloc(r->plan->node_count, sizeof *r->touched);
    r->unheard = r->plan->node_count;
    r->noted = arena_array(r->arena, r->plan->step_count + 1, sizeof *r->noted);
    r->voids = arena_array(r->arena, r->plan->step_count + 1, sizeof *r->voids);
    r->stop_deadline = alarm_create(r, run_on_stop_deadline, r);
    r->finisher = alarm_create(r, run_on_finisher, r);
    r->turn = alarm_create(r, run_turn, r);
    create_launches(r);
    points_create(r);
    for (uint32_t i = 0; i < r->plan->node_count; i++)
        create_lane(r, i);
    return r;
}

void core_begin(struct run *r)
{
    const bool over = points_all_over(r); /* nothing is needed from any node */
    for (uint32_t i = 0; i < r->plan->node_count && !over; i++)
        if (reopen_passes_by(r, i))
            lane_pass_by(&r->lanes[i]);
        else
            run_effect(r, &(struct effect){.kind = EFFECT_CONNECT, .node = i});
    if (r->fetch_only || over) /* there may be no node to wait for */
        run_due(r, DUE_BARRIER);
    if (r->options.mode == RUN_CANCEL)
        run_interrupt(r, 0);
}

void core_destroy(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count * r->plan->node_count; i++) {
        alarm_destroy(r->tasks[i].retry);
        log_close(r->tasks[i].log);
        ready_forget(r, &r->plan->steps[i / r->plan->node_count], (uint32_t)(i % r->plan->node_count));
    }
    for (uint32_t i = 0; i < r->plan->node_count; i++) {
        struct lane *lane = &r->lanes[i];
        alarm_destroy(lane->away);
        elastic_free(lane);
        arena_destroy(lane->arena);
        free(lane->records);
        free(lane->patches);
        free(lane->orphans);
    }
    free(r->holders);
    alarm_destroy(r->stop_deadline);
    alarm_destroy(r->finisher);
    alarm_destroy(r->turn);
    destroy_launches(r);
    points_destroy(r);
    free(r->tasks);
    free(r->done);
    free(r->lanes);
    free(r->touched);
    free(r->machines);
    durable_free(r);
    arena_destroy(r->arena);
    free(r);
}
