/* Carries out the effects of the core: on nodes, on the journal, and with timers. See effects.h. */
#include "trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

void run_effect(struct run *r, const struct effect *e)
{
    struct lane *lane = &r->lanes[e->node];
    struct node *n = lane_hands(lane)->node;
    trace_effect(r, e);
    switch (e->kind) {
    case EFFECT_CONNECT:
        lane_set_presence(lane, PRESENCE_COMING);
        lane->facts = NULL;
        node_connect(n);
        break;
    case EFFECT_GREET:
        if (presence_is_here(lane->presence))
            lane_set_presence(lane, PRESENCE_COMING);
        lane->facts = NULL;
        node_greet_anew(n, e->work, e->trees);
        break;
    case EFFECT_GIVE_UP:
        node_give_up(n);
        break;
    case EFFECT_REPLACE:
        run_stop_moving(lane);
        node_park(n);
        if (r->options.machines.replace)
            r->options.machines.replace(r->options.machines.arg, e->node);
        else
            node_give_up(n);
        break;
    case EFFECT_REFUSE:
        node_refuse(n, e->error);
        break;
    case EFFECT_ATTACH:
        installed_ask(lane, false);
        node_attach(n, e->attempt, e->offset);
        break;
    case EFFECT_SIGNAL:
        node_signal(n, e->attempt, e->signal, e->grace_ms);
        break;
    case EFFECT_JUDGE_GOOD:
        node_judge(n, e->attempt, WIRE_VERDICT_GOOD);
        break;
    case EFFECT_SETTLE:
        node_settle(n, e->node + 1);
        break;
    case EFFECT_FORGET:
        node_forget(n, e->attempts);
        break;
    case EFFECT_ASK_PORT:
        node_ping(n, e->token);
        break;
    case EFFECT_PREFLIGHT:
        preflight_look(run_launch(r), e->token);
        break;
    case EFFECT_PREFLIGHT_JOIN:
        preflight_look_at(run_launch(r), e->node, e->member, e->token);
        break;
    case EFFECT_FETCH:
        fetch_start(lane, e->step, e->periodic);
        break;
    case EFFECT_FETCH_STOP:
        fetch_stop(lane, e->step);
        break;
    case EFFECT_ASK_RANK0:
        rank0_ask(lane, e->token);
        break;
    case EFFECT_LOOK:
        rank0_look(lane, e->step, e->token);
        break;
    }
}

void run_signal(struct run *r, uint32_t node, const char *attempt, enum wire_signal signal, uint32_t grace_ms)
{
    run_effect(r, &(struct effect){
                      .kind = EFFECT_SIGNAL, .node = node, .attempt = attempt, .signal = signal, .grace_ms = grace_ms});
}

void run_refuse(struct lane *lane, const struct error *err)
{
    run_effect(lane->run, &(struct effect){.kind = EFFECT_REFUSE, .node = lane->index, .error = err});
}

/* ---- clocks and chance ---- */

uint64_t run_wall_ms(const struct run *r)
{
    uint64_t now = wall_ms();
    trace(r, "> wall %" PRIu64, now);
    return now;
}

uint64_t run_mono_ns(const struct run *r)
{
    uint64_t now = mono_ns();
    trace(r, "> mono %" PRIu64, now);
    return now;
}

void run_chance(struct run *r, char *ret, size_t bytes)
{
    random_hex(ret, bytes);
    trace(r, "> chance %s", ret);
}

/* ---- alarms ---- */

struct alarm {
    struct run *run;
    struct loop *loop;
    struct loop_timer *timer;
    void (*fn)(void *arg);
    void *arg;
    uint64_t at_ms;  /* loop time */
    uint32_t number; /* its number in a trace */
};

static void on_time(void *arg)
{
    const struct alarm *a = arg;
    struct run *r = a->run;
    trace(r, "< alarm %" PRIu32, a->number);
    a->fn(a->arg); /* fn may destroy the alarm */
    ports_look(r);
}

struct alarm *alarm_create(struct run *r, void (*fn)(void *arg), void *arg)
{
    struct alarm *a = xcalloc(1, sizeof *a);
    *a = (struct alarm){.run = r, .loop = r->hands->session->loop, .fn = fn, .arg = arg, .number = r->hands->alarms++};
    a->timer = loop_timer_create(a->loop, on_time, a);
    trace(r, "> alarm_new %" PRIu32, a->number);
    return a;
}

void alarm_destroy(struct alarm *a)
{
    if (a)
        loop_timer_destroy(a->timer);
    free(a);
}

void alarm_set(struct alarm *a, uint64_t after_ms)
{
    trace(a->run, "> alarm_set %" PRIu32 " %" PRIu64, a->number, after_ms);
    a->at_ms = loop_now_ms(a->loop) + after_ms;
    loop_timer_start(a->timer, after_ms);
}

void alarm_clear(struct alarm *a)
{
    trace(a->run, "> alarm_clear %" PRIu32, a->number);
    loop_timer_stop(a->timer);
}

bool alarm_is_set(const struct alarm *a)
{
    return loop_timer_active(a->timer);
}

uint64_t alarm_left_ms(const struct alarm *a)
{
    uint64_t now = loop_now_ms(a->loop);
    return alarm_is_set(a) && a->at_ms > now ? a->at_ms - now : 0;
}

/* ---- events ---- */

struct append {
    struct append *prev, *next;
    struct run *run;
    char *json; /* for the observer; NULL if there is none */
    uint64_t seq;
};

void run_append_free(struct append *a)
{
    if (a->prev)
        a->prev->next = a->next;
    else
        a->run->hands->appends = a->next;
    if (a->next)
        a->next->prev = a->prev;
    free(a->json);
    free(a);
}

static void on_durable(void *arg)
{
    struct append *ctx = arg;
    struct run *r = ctx->run;
    if (ctx->json) {
        struct arena *arena = arena_create();
        struct event e = {0};
        if (event_from_json(ctx->json, strlen(ctx->json), arena, &e, NULL) == 0)
            r->options.observer.event(r->options.observer.arg, &e);
        arena_destroy(arena);
    }
    const struct input in = {.kind = INPUT_DURABLE, .seq = ctx->seq};
    run_append_free(ctx);
    trace_input(r, &in);
    core_take(r, &in);
}

void run_append(struct run *r, struct event *e)
{
    struct append *ctx = xmalloc(sizeof *ctx);
    *ctx = (struct append){NULL, r->hands->appends, r, NULL, 0};
    if (r->hands->appends)
        r->hands->appends->prev = ctx;
    r->hands->appends = ctx;
    e->run = r->id;
    e->time_ms = wall_ms();
    e->seq = ctx->seq = r->state->last_seq + 1;
    trace_event(r, e);
    if (r->options.observer.event) {
        struct buf json = {0};
        event_to_json(e, &json);
        ctx->json = buf_steal(&json);
    }
    journal_append(r->hands->session->journal, e, on_durable, ctx);
}

char *run_dir(const struct run *r, struct error *err)
{
    return journal_run_dir(r->hands->session->journal, r->id, err);
}
