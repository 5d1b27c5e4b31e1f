/* The hands of a core that plays a trace: each compares the request with the recorded one, and gives the recorded
 * answer. */
#include "core_replay.h"

#include <inttypes.h>
#include <stdlib.h>

static struct replay *replay_of(const struct run *r)
{
    return r->hands->replay;
}

/* ---- nodes ---- */

void run_effect(struct run *r, const struct effect *e)
{
    struct buf b = {0};
    struct lane *lane = &r->lanes[e->node];
    buf_puts(&b, "> effect ");
    effect_text(e, &b);
    const char *more = replay_ask(replay_of(r), "%s", b.data);
    if (more && *more) {
        replay_of(r)->at--;
        replay_differs(replay_of(r), b.data);
    }
    buf_free(&b);
    if (e->kind == EFFECT_CONNECT || (e->kind == EFFECT_GREET && presence_is_here(lane->presence)))
        lane_set_presence(lane, PRESENCE_COMING);
    if (e->kind == EFFECT_CONNECT || e->kind == EFFECT_GREET)
        lane->facts = NULL;
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

/* As src/run/send.c does for a step that runs a program. */
static void send_task(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct run_task *t = run_task(r, step, node);
    if (!lane_is_ready(&r->lanes[node]))
        return;
    if (step->watch) {
        ready_begin(r, step, node);
        return;
    }
    if (t->state == TASK_RUNNING) {
        if (!t->log)
            t->log = log_open(r, step, node, t->attempt);
        task_mark_sent(&r->lanes[node], t);
    }
}

void task_send(struct run *r, const struct plan_step *step, uint32_t node)
{
    replay_ask(replay_of(r), "> send %" PRIu32 " %" PRIu32 " %s", step->id, node, run_task(r, step, node)->attempt);
    send_task(r, step, node);
    replay_told(replay_of(r));
}

/* ---- clocks and chance ---- */

static uint64_t time_of(const struct run *r, const char *clock)
{
    const char *answer = replay_ask(replay_of(r), "> %s", clock);
    return answer ? strtoull(answer, NULL, 10) : 0;
}

uint64_t run_wall_ms(const struct run *r)
{
    return time_of(r, "wall");
}

uint64_t run_mono_ns(const struct run *r)
{
    return time_of(r, "mono");
}

void run_chance(struct run *r, char *ret, size_t digits)
{
    const char *answer = replay_ask(replay_of(r), "> chance");
    memset(ret, '0', 2 * digits);
    ret[2 * digits] = 0;
    if (answer && strlen(answer) == 2 * digits)
        memcpy(ret, answer, 2 * digits);
}

/* ---- alarms ---- */

struct alarm {
    struct hands *hands;
    void (*fn)(void *arg);
    void *arg;
    size_t number;
    bool set;
};

struct alarm *alarm_create(struct run *r, void (*fn)(void *arg), void *arg)
{
    struct hands *h = r->hands;
    struct alarm *a = xmalloc(sizeof *a);
    *a = (struct alarm){h, fn, arg, h->alarm_count, false};
    replay_ask(h->replay, "> alarm_new %zu", a->number);
    if (h->alarm_count == h->alarm_cap) {
        h->alarm_cap = h->alarm_cap ? 2 * h->alarm_cap : 16;
        h->alarms = xreallocarray(h->alarms, h->alarm_cap, sizeof(struct alarm *));
    }
    return h->alarms[h->alarm_count++] = a;
}

void alarm_destroy(struct alarm *a)
{
    if (a)
        a->hands->alarms[a->number] = NULL;
    free(a);
}

void alarm_set(struct alarm *a, uint64_t after_ms)
{
    replay_ask(a->hands->replay, "> alarm_set %zu %" PRIu64, a->number, after_ms);
    a->set = true;
}

void alarm_clear(struct alarm *a)
{
    replay_ask(a->hands->replay, "> alarm_clear %zu", a->number);
    a->set = false;
}

bool alarm_is_set(const struct alarm *a)
{
    return a->set;
}

uint64_t alarm_left_ms(const struct alarm *a)
{
    (void)a; /* for code that only looks at a run */
    return 0;
}

void replay_alarm(struct replay *p, const char *verb, uint64_t number)
{
    struct hands *h = p->hands;
    struct alarm *a = number < h->alarm_count ? h->alarms[number] : NULL;
    bool fires = strcmp(verb, "fire") == 0;
    if (!a || (fires && !a->set)) {
        p->at--;
        replay_differs(p, "no such alarm is set");
        return;
    }
    a->set = strcmp(verb, "set") == 0;
    if (fires)
        a->fn(a->arg);
}

/* ---- events ---- */

/* Parts that depend on rhrun's version, on messages of the hands, or on how keys are made. */
static void take_over(struct event *e, const struct event *then)
{
    e->time_ms = then->time_ms;
    if (e->type != then->type)
        return;
    if (e->type == EVENT_RUN_OPENED || e->type == EVENT_RUN_REOPENED) {
        struct event_asked *asked = e->type == EVENT_RUN_OPENED ? &e->opened.asked : &e->reopened;
        const struct event_asked *was = e->type == EVENT_RUN_OPENED ? &then->opened.asked : &then->reopened;
        asked->version = was->version;
        asked->spec_hash = was->spec_hash;
    }
    if (e->type == EVENT_RUN_OPENED)
        e->opened.made_of = then->opened.made_of;
    if (e->type == EVENT_NODE_BOUND)
        e->bound.facts_json = then->bound.facts_json;
    if (e->type == EVENT_FINISHED)
        e->finished.inputs = then->finished.inputs;
    for (uint32_t i = 0; e->type == EVENT_STARTED && i < e->started.attempt_count && i < then->started.attempt_count;
         i++)
        ((struct event_attempt *)(uintptr_t)e->started.attempts)[i].inputs = then->started.attempts[i].inputs;
}

/* As events are written today: a recorded event lacks fields that were added since. */
static bool is_event(const struct event *then, const struct buf *came)
{
    struct buf text = {0};
    buf_puts(&text, "> event ");
    event_to_json(then, &text);
    bool same = strcmp(text.data, came->data) == 0;
    buf_free(&text);
    return same;
}

void run_append(struct run *r, struct event *e)
{
    struct hands *h = r->hands;
    struct buf text = {0};
    const char *line = replay_peek(h->replay);
    while (line && str_starts(line, "> event ") && strstr(line, "\"type\":\"metrics\"") && e->type != EVENT_METRICS) {
        h->replay->at++;
        replay_own_event(h->replay, replay_event(h->replay, line));
        line = replay_peek(h->replay);
    }
    e->run = r->id;
    e->seq = r->state->last_seq + 1;
    struct event *then = line && str_starts(line, "> event ") ? replay_event(h->replay, line) : NULL;
    buf_puts(&text, "> event ");
    if (then)
        take_over(e, then);
    event_to_json(e, &text);
    if (then && is_event(then, &text))
        h->replay->at++;
    else
        replay_differs(h->replay, text.data);
    buf_free(&text);
    state_apply(h->state, e);
}

void replay_own_event(struct replay *p, const struct event *e)
{
    if (!replay_stands(p))
        state_apply(p->hands->state, e);
}

/* ---- logs ---- */

struct run_log *log_open(struct run *r, const struct plan_step *step, uint32_t node, const char *attempt)
{
    struct replay_log *log = xcalloc(1, sizeof *log);
    log->log = (struct run_log){.run = r, .step = step, .node = node, .fd = -1};
    snprintf(log->log.attempt, sizeof log->log.attempt, "%s", attempt);
    log->next = r->hands->logs;
    r->hands->logs = log;
    replay_ask(replay_of(r), "> log_open %" PRIu32 " %" PRIu32 " %s", step->id, node, attempt);
    const char *size = replay_told(replay_of(r));
    log->log.size = size ? strtoull(size, NULL, 10) : 0;
    return &log->log;
}

void log_close(struct run_log *log)
{
    if (!log)
        return;
    struct replay_log **at = &log->run->hands->logs, *found;
    while (&(*at)->log != log)
        at = &(*at)->next;
    found = *at;
    *at = found->next;
    free(found);
}

void log_end(struct run_log *log)
{
    if (!log)
        return;
    replay_ask(replay_of(log->run), "> log_end %s", log->attempt);
    replay_told(replay_of(log->run));
}

void log_again(struct run_log *log)
{
    replay_ask(replay_of(log->run), "> log_again %s", log->attempt);
    replay_told(replay_of(log->run));
}

bool run_is_stranger(struct run *r, const char *attempt)
{
    const char *answer = replay_ask(replay_of(r), "> stranger %s", attempt);
    return answer && strcmp(answer, "1") == 0;
}

/* ---- without a place in a trace ---- */

const char *overrides_difference(const struct spec *spec, const struct state_run *run, struct arena *arena)
{
    (void)spec, (void)run, (void)arena;
    return NULL;
}

void run_facts_json(const struct wire_facts *facts, struct buf *ret)
{
    (void)facts;
    buf_puts(ret, "{}"); /* the recorded answer is in take_over */
}

int room_say(struct lane *lane, uint64_t size, struct error *err)
{
    lane->said_bytes += size;
    return lane->said_bytes <= LANE_SAID_MAX ? 0 : error_set(err, ERROR_PROTOCOL, "it says too much");
}

struct metrics *metrics_create(struct run *r)
{
    (void)r;
    return NULL;
}

void replay_hands_free(struct hands *h)
{
    if (h->run)
        core_destroy(h->run);
    state_destroy(h->state);
    free(h->alarms);
    free(h);
}
