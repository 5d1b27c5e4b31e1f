/* The turn: handles an input, then runs the passes in order until none adds anything new. A pass may append an event,
 * which is applied at once, or request an effect; no pass calls another. The order follows the life of a cluster:
 * creates, machines, nodes, the cluster as a whole, and finally the lists that all of these need. */
#include "internal.h"

#include <stdlib.h>

enum { ROUNDS_MAX = 1000 };

struct fleet *fleet_create(void)
{
    struct fleet *f = xcalloc(1, sizeof *f);
    f->ledger = fleet_ledger_create();
    f->wake_ms = UINT64_MAX;
    return f;
}

void fleet_destroy(struct fleet *f)
{
    if (!f)
        return;
    fleet_ledger_destroy(f->ledger);
    free(f->orders);
    free(f->machines);
    free(f->sites);
    free(f->effects);
    free(f->effects_of);
    free(f);
}

int fleet_replay(struct fleet *f, const struct fleet_event *e, struct error *err)
{
    if (fleet_apply(f->ledger, e, err) < 0)
        return -1;
    f->durable = e->seq;
    return 0;
}

void fleet_want(struct fleet *f, struct fleet_effect e)
{
    if (f->effect_count == f->effect_cap) {
        f->effect_cap = f->effect_cap ? 2 * f->effect_cap : 16;
        f->effects = xreallocarray(f->effects, f->effect_cap, sizeof *f->effects);
        f->effects_of = xreallocarray(f->effects_of, f->effect_cap, sizeof *f->effects_of);
    }
    f->effects_of[f->effect_count] = (struct effect_of){
        .order = e.order ? (uint32_t)(e.order - f->ledger->orders) : FLEET_NONE,
        .machine = e.machine ? (uint32_t)(e.machine - f->ledger->machines) : FLEET_NONE,
    };
    f->effects[f->effect_count++] = e;
    f->decided++;
}

void fleet_append(struct fleet *f, struct fleet_event e)
{
    struct fleet_event *kept = arena_alloc(f->ledger->arena, sizeof *kept);
    e.seq = f->ledger->seq + 1;
    e.time_ms = f->now.wall_ms;
    event_copy(f->ledger->arena, &e);
    if (fleet_apply(f->ledger, &e, NULL) < 0)
        abort();
    if (e.type == FLEET_WANTED)
        e.wanted.offers = f->ledger->wanted.offers;
    *kept = e;
    fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_APPEND, .event = kept});
    views_follow(f, kept);
}

void wake_at(struct fleet *f, uint64_t mono_ms)
{
    if (mono_ms < f->wake_ms)
        f->wake_ms = mono_ms;
}

bool has_come(struct fleet *f, uint64_t mono_ms)
{
    if (mono_ms <= f->now.mono_ms)
        return true;
    wake_at(f, mono_ms);
    return false;
}

bool is_durable(const struct fleet *f, uint64_t seq)
{
    return seq <= f->durable;
}

uint64_t pause_ms(uint32_t faults, uint64_t retry_after_ms)
{
    const uint32_t doublings = faults == 0 ? 0 : faults - 1;
    const uint64_t own = doublings < 6 ? (uint64_t)FLEET_AGAIN_MS << doublings : FLEET_AGAIN_MAX_MS;
    const uint64_t ms = own < FLEET_AGAIN_MAX_MS ? own : FLEET_AGAIN_MAX_MS;
    const uint64_t asked = retry_after_ms < FLEET_RETRY_AFTER_MAX_MS ? retry_after_ms : FLEET_RETRY_AFTER_MAX_MS;
    return asked > ms ? asked : ms;
}

static void see_stage(struct fleet *f)
{
    if (f->stage_seq == f->ledger->stage_seq)
        return;
    f->stage_seq = f->ledger->stage_seq;
    f->stage_ms = f->now.mono_ms;
    for (uint32_t i = 0; i < f->site_count && f->ledger->stage == FLEET_STAGE_ENDING;
         i++) { /* the final lists come after this */
        f->sites[i].clean = 0;
        if (f->sites[i].quiet_ms < f->now.mono_ms)
            f->sites[i].quiet_ms = f->now.mono_ms;
    }
}

static void one_round(struct fleet *f)
{
    f->wake_ms = UINT64_MAX;
    see_stage(f);
    orders_pass(f);
    machines_pass(f);
    slots_pass(f);
    cluster_pass(f);
    looks_pass(f);
}

static void settle_effects(struct fleet *f)
{
    for (size_t i = 0; i < f->effect_count; i++) {
        const struct effect_of *of = &f->effects_of[i];
        f->effects[i].order = of->order == FLEET_NONE ? NULL : &f->ledger->orders[of->order];
        f->effects[i].machine = of->machine == FLEET_NONE ? NULL : &f->ledger->machines[of->machine];
    }
}

void fleet_take(struct fleet *f, const struct fleet_input *in, struct fleet_clock now)
{
    f->effect_count = 0;
    f->now = now;
    if (in->kind == FLEET_INPUT_START && !f->started)
        views_begin(f);
    if (!f->started)
        return;
    inputs_take(f, in);
    uint64_t before = UINT64_MAX;
    for (unsigned round = 0; before != f->decided && !f->finished; round++) {
        if (round == ROUNDS_MAX)
            abort();
        before = f->decided;
        one_round(f);
    }
    if (f->finished)
        f->wake_ms = UINT64_MAX;
    settle_effects(f);
}

const struct fleet_effect *fleet_effects(const struct fleet *f, size_t *ret_count)
{
    *ret_count = f->effect_count;
    return f->effects;
}

uint64_t fleet_wake_ms(const struct fleet *f)
{
    return f->wake_ms;
}

const struct fleet_ledger *fleet_ledger_of(const struct fleet *f)
{
    return f->ledger;
}
