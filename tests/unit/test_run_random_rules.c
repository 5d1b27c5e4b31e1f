/*
 * run: failure rules under random faults: controllers that are killed and started again over nodes whose workers print and
 * end as rules match it, and that are lost, preempted, rebooted, until the job is done. Whatever happens:
 *   - a rule counts at most `times` times in a run, and each of its events has one less left than the one before;
 *   - a generation has one verdict (beside it only that a node is lost which the next one needs), restarts follow from
 *     theirs, those of max_restarts are no more than that, and after `fail` nothing starts again in that run;
 *   - a worker's end is ignored once; what is ignored stops nobody, and is no reason for another generation;
 *   - it comes to an end, done, and nothing runs any more.
 */
#include "dice.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 80, NODES = 3, EACH = 2, CONTROLLERS_MAX = 150, GENERATIONS_MAX = 400, ATTEMPTS_MAX = 1500 };
enum rule { CORRECTED, BROKEN, SPARED, AGAIN, FATAL, PREEMPTED, LOST, RULES };

struct generation {
    char run[17];
    uint32_t number;
    bool disturbed; /* an event in it may be ignored by a rule, or by nobody */
};
struct world {
    struct sim_job *job;
    struct dice dice;
    struct generation generations[GENERATIONS_MAX];
    size_t generation_count;
    struct {
        char id[WIRE_ID_LEN + 1];
        size_t generation;
    } attempts[ATTEMPTS_MAX];
    size_t attempt_count;
    bool spill;    /* it happened between generations, so perhaps in the next one */
    uint64_t told; /* the number of the last reported event */
    struct loop_timer *tick;
    uint32_t away[NODES]; /* ticks until it can be reached again */
};

static void disturb(struct world *w)
{
    if (w->generation_count > 0)
        w->generations[w->generation_count - 1].disturbed = true;
    w->spill = true;
}

/* ---- what the nodes see ---- */

static size_t generation_of(struct world *w, const struct wire_run *run)
{
    const struct state_cell *cell = state_cell_by_attempt(journal_state(w->job->journal), run->attempt);
    if (!cell)
        dice_violated(&w->dice, "an attempt is started that the journal does not have");
    struct generation *last = w->generation_count > 0 ? &w->generations[w->generation_count - 1] : NULL;
    if (last && strcmp(last->run, cell->run) == 0 && last->number == cell->generation)
        return w->generation_count - 1;
    if (last && strcmp(last->run, cell->run) == 0 && !last->disturbed)
        dice_violated(&w->dice, "generation %u without a reason", cell->generation);
    assert_true(w->generation_count < GENERATIONS_MAX);
    struct generation *g = &w->generations[w->generation_count++];
    snprintf(g->run, sizeof g->run, "%s", cell->run);
    g->number = cell->generation;
    g->disturbed = w->spill;
    w->spill = false;
    return w->generation_count - 1;
}

static void program(void *arg, uint32_t node, const struct wire_run *run, uint32_t nth, struct sim_program *ret)
{
    struct world *w = arg;
    size_t at = generation_of(w, run);
    struct generation *g = &w->generations[at];
    (void)nth;
    assert_true(w->attempt_count < ATTEMPTS_MAX);
    snprintf(w->attempts[w->attempt_count].id, sizeof w->attempts[0].id, "%s", run->attempt);
    w->attempts[w->attempt_count++].generation = at;
    ret->turns = (uint32_t)(dice_next(&w->dice) % 40);
    if (dice_chance(&w->dice, 30))
        ret->worker_status = 3;
    if (dice_chance(&w->dice, 25))
        ret->output = "corrected\n";
    else if (dice_fault(&w->dice, 8))
        ret->output = "broken\n";
    if (dice_fault(&w->dice, 8))
        ret->status = 4;
    else if (dice_fault(&w->dice, 4))
        ret->status = 7;
    else if (dice_fault(&w->dice, 2))
        ret->status = 5;
    else if (dice_fault(&w->dice, 3))
        ret->lost = true;
    bool broken = ret->output && strcmp(ret->output, "broken\n") == 0;
    g->disturbed = g->disturbed || broken || ret->status || ret->lost;
    dice_say(&w->dice, "  node %u starts %.6s of generation %u: %u turns%s, status %d%s%s", node, run->attempt,
             g->number, ret->turns, ret->lost ? ", lost" : "", ret->status,
             ret->worker_status ? ", one ends with 3" : "", broken ? ", broken" : "");
}

static void ended(void *arg, uint32_t node, const struct wire_record *r)
{
    struct world *w = arg;
    dice_say(&w->dice, "  node %u: %.6s ended: state %u, cause %u, value %d%s", node, r->attempt, r->state, r->cause,
             r->value, r->stop_requested ? ", stopped" : "");
    for (size_t i = 0; i < w->attempt_count; i++)
        if (strcmp(w->attempts[i].id, r->attempt) == 0 && r->stop_requested &&
            !w->generations[w->attempts[i].generation].disturbed)
            dice_violated(&w->dice, "node %u is stopped, and nothing failed", node);
}

static enum sim_fault frame(void *arg, uint32_t node, enum wire_type type, const char *slot)
{
    struct world *w = arg;
    (void)slot;
    return dice_frame(&w->dice, node, type, 2, 0);
}

/* ---- what happens by itself ---- */

static void on_tick(void *arg)
{
    struct world *w = arg;
    for (uint32_t n = 0; n < NODES; n++) {
        if (w->away[n] > 0 && --w->away[n] == 0)
            sim_away(w->job->net, n, false);
        if (w->away[n] > 0 && !loop_timer_active(w->tick))
            loop_timer_start(w->tick, 1);
    }
}

static void accident(struct world *w)
{
    uint32_t node = (uint32_t)(dice_next(&w->dice) % NODES);
    struct sim_net *net = w->job->net;
    if (dice_chance(&w->dice, 20)) {
        sim_drop(net, node);
        return;
    }
    if (!dice_fault(&w->dice, 60))
        return;
    disturb(w);
    switch (dice_next(&w->dice) % 4) {
    case 0:
        dice_say(&w->dice, "  node %u reboots", node);
        sim_reboot(net, node, dice_next(&w->dice));
        break;
    case 1:
        dice_say(&w->dice, "  the supervisor on node %u is killed", node);
        sim_lose(net, node, "launch");
        break;
    case 2:
        dice_say(&w->dice, "  node %u is preempted", node);
        sim_preempt(net, node, "launch", dice_chance(&w->dice, 50));
        if (dice_chance(&w->dice, 50))
            break;
        sim_preempt(net, node, "launch", true);
        sim_reboot(net, node, dice_next(&w->dice));
        break;
    default:
        w->away[node] = 20 + (uint32_t)(dice_next(&w->dice) % 200);
        dice_say(&w->dice, "  node %u is away for %u ms", node, w->away[node]);
        sim_away(net, node, true);
        on_tick(w);
    }
}

static void bring_back(struct world *w)
{
    for (uint32_t n = 0; n < NODES; n++) {
        sim_away(w->job->net, n, false);
        w->away[n] = 0;
    }
}

/* A machine under load may be slow to answer. */
static bool on_durable(void *arg, const struct event *e)
{
    struct world *w = arg;
    if (e->seq <= w->told)
        return true;
    w->told = e->seq;
    dice_say_event(&w->dice, e);
    if (e->type == EVENT_RULE && e->rule.rule == LOST + 1)
        disturb(w);
    return true;
}

static void on_event(struct sim_job *job, const struct event *e)
{
    struct world *w = job->arg;
    on_durable(w, e);
    if (dice_fault(&w->dice, 5)) {
        dice_say(&w->dice, "  killed at this event");
        sim_cut(job->net);
    }
}

static bool cut(struct sim_job *job)
{
    struct world *w = job->arg;
    if (!sim_is_cut(job->net) && dice_chance(&w->dice, 6))
        accident(w);
    if (!sim_is_cut(job->net) && dice_chance(&w->dice, 10) && dice_fault(&w->dice, 1)) {
        dice_say(&w->dice, "  interrupted");
        disturb(w);
        run_interrupt(job->run, SIGINT);
    }
    return sim_is_cut(job->net);
}

/* ---- the journal, in the end ---- */

struct audit {
    struct world *w;
    char run[17];
    uint32_t used[RULES], generation, verdict_of, verdict_rule, counted;
    enum spec_action verdict;
    struct state_ignored ignored[NODES * EACH];
    uint32_t ignored_count, ignored_of;
};

static void audit_rule(struct audit *a, const struct event *e)
{
    const struct dice *dice = &a->w->dice;
    const struct spec_rule *rule = &a->w->job->spec.rules[e->rule.rule - 1];
    uint32_t used = ++a->used[e->rule.rule - 1];
    if (strcmp(rule->id, e->rule.rule_id) != 0 || rule->action != e->rule.action)
        dice_violated(dice, "event %llu is of no rule", (unsigned long long)e->seq);
    if (e->rule.left != (rule->has_times ? rule->times - used : EVENT_UNBOUNDED) ||
        (rule->has_times && used > rule->times))
        dice_violated(dice, "rule %u counts for the %u. time, and %u are left of %u", e->rule.rule, used, e->rule.left,
                      rule->times);
    if (rule->action == RULE_IGNORE && !e->rule.line) {
        a->ignored_count = a->ignored_of == e->rule.generation ? a->ignored_count : 0;
        a->ignored_of = e->rule.generation;
        for (uint32_t i = 0; i < a->ignored_count; i++)
            if (a->ignored[i].node == e->rule.node && a->ignored[i].rank == e->rule.cause_rank)
                dice_violated(dice, "the end of rank %u is ignored twice", e->rule.cause_rank);
        a->ignored[a->ignored_count++] = (struct state_ignored){e->rule.node, e->rule.cause_rank};
    }
    if (rule->action == RULE_IGNORE)
        return;
    bool second = a->verdict_of == e->rule.generation;
    if (second && (e->rule.rule != LOST + 1 || a->verdict != RULE_RESTART))
        dice_violated(dice, "generation %u has a second verdict, by rule %u", e->rule.generation, e->rule.rule);
    if (second)
        return;
    a->verdict_of = e->rule.generation;
    a->verdict = rule->action;
    a->verdict_rule = e->rule.rule;
}

static void audit_restart(struct audit *a, const struct event *e)
{
    const struct dice *dice = &a->w->dice;
    bool own = e->restart.rule && a->w->job->spec.rules[e->restart.rule - 1].has_times;
    bool judged = a->verdict_of > 0 && a->verdict_of == e->restart.generation - 1;
    if (e->restart.generation != a->generation + 1)
        dice_violated(dice, "restart to generation %u after %u", e->restart.generation, a->generation);
    if (judged ? e->restart.rule != a->verdict_rule || a->verdict != RULE_RESTART : e->restart.rule != 0)
        dice_violated(dice, "restart to generation %u by rule %u", e->restart.generation, e->restart.rule);
    a->counted += !e->restart.uncounted;
    if (e->restart.uncounted != own || a->counted > a->w->job->spec.distributed.max_restarts)
        dice_violated(dice, "restart to generation %u: %u counted", e->restart.generation, a->counted);
}

static bool audit_event(void *arg, const struct event *e)
{
    struct audit *a = arg;
    if (e->run && strcmp(e->run, a->run) != 0) {
        *a = (struct audit){.w = a->w};
        snprintf(a->run, sizeof a->run, "%s", e->run);
    }
    if (e->type == EVENT_RULE)
        audit_rule(a, e);
    else if (e->type == EVENT_RESTART)
        audit_restart(a, e);
    if (e->type == EVENT_STARTED && e->started.generation) {
        if (a->verdict_of > 0 && (a->verdict == RULE_FAIL || a->verdict_of >= e->started.generation))
            dice_violated(&a->w->dice, "generation %u starts after a verdict", e->started.generation);
        a->generation = e->started.generation;
    }
    return true;
}

/* ---- one seed ---- */

static void make_job(struct world *w)
{
    static const struct sim_script callbacks = {.program = program, .frame = frame, .ended = ended};
    static uint32_t three[] = {3}, four[] = {4}, five[] = {5};
    struct sim_script script = callbacks;
    script.arg = w;
    struct sim_job *job = w->job = sim_job_create(NODES, &script);
    const struct spec_rule rules[RULES] = {
        [CORRECTED] = {.id = "corrected", .pattern = {.text = "^corrected$"}, .action = RULE_IGNORE, .has_times = true},
        [BROKEN] = {.id = "broken", .pattern = {.text = "^broken$"}, .action = RULE_RESTART, .has_times = true},
        [SPARED] = {.id = "spared", .statuses = three, .status_count = 1, .action = RULE_IGNORE},
        [AGAIN] = {.id = "again", .statuses = four, .status_count = 1, .action = RULE_RESTART},
        [FATAL] = {.id = "fatal", .statuses = five, .status_count = 1, .action = RULE_FAIL},
        [PREEMPTED] = {.id = "preempted", .subject = RULE_PREEMPTED, .action = RULE_RESTART, .has_times = true},
        [LOST] = {.id = "lost", .subject = RULE_NODE_LOST, .action = RULE_RESTART, .has_times = true},
    };
    job->spec.rules = arena_array(job->arena, RULES, sizeof *rules);
    job->spec.rule_count = RULES;
    for (size_t i = 0; i < RULES; i++) {
        struct spec_rule *r = &job->spec.rules[i];
        *r = rules[i];
        r->role = SPEC_NO_ROLE;
        r->streams = RULE_STDOUT | RULE_STDERR;
        r->text = arena_printf(job->arena, "rule %zu", i + 1);
        r->times = r->has_times ? 1 + (uint32_t)(dice_next(&w->dice) % 4) : 0;
        r->backoff_factor = 2;
        if (r->action == RULE_RESTART && dice_chance(&w->dice, 40)) {
            r->backoff_ms = 1 + dice_next(&w->dice) % 20;
            r->backoff_max_ms = 30;
        }
    }
    job->spec.distributed.nproc.count = EACH;
    job->spec.distributed.max_restarts = (uint32_t)(dice_next(&w->dice) % 4);
    w->tick = loop_timer_create(job->loop, on_tick, w);
    job->liveness_ms = job->hello_ms = 100;
    job->reconnect_ms = 60;
    job->on_event = on_event;
    job->arg = w;
}

static bool one_controller(struct world *w)
{
    struct sim_job *job = w->job;
    dice_say(&w->dice, "controller %u", ++w->dice.controllers);
    if (w->dice.controllers > 1)
        sim_job_each(job, on_durable, w); /* a kill leaves unreported events */
    if (sim_job_is_done(job))
        return true;
    if (sim_job_start(job, RUN_EXECUTE, 0) < 0)
        dice_violated(&w->dice, "could not start: %s", job->result.error.text);
    if (sim_job_turns(job, cut)) {
        sim_job_kill(job, dice_next(&w->dice));
        for (uint64_t turns = dice_next(&w->dice) % 8; turns > 0; turns--) /* programs continue meanwhile */
            sim_turn(job->net);
        if (dice_chance(&w->dice, 30))
            accident(w);
        return false;
    }
    sim_job_close(job);
    bring_back(w); /* the next start waits for it */
    int rc = job->result.exit_status;
    dice_say(&w->dice, "exit status %d: %s", rc, job->result.error.text);
    if (rc != 0 && rc != 1 && rc != 3 && rc != 130)
        dice_violated(&w->dice, "exit status %d: %s", rc, job->result.error.text);
    if ((rc == 0) != (job->result.status == RUN_DONE) || (rc != 0 && !job->result.error.text[0]))
        dice_violated(&w->dice, "exit status %d does not fit run status %d", rc, job->result.status);
    if (rc == 1 && w->generation_count > 0 && !w->generations[w->generation_count - 1].disturbed)
        dice_violated(&w->dice, "it failed, and nothing happened: %s", job->result.error.text);
    return rc == 0;
}

static void run_seed(const struct dice *dice)
{
    struct world *w = xcalloc(1, sizeof *w);
    w->dice = *dice;
    w->dice.faults = (uint32_t)(dice_next(&w->dice) % 30);
    dice_say(&w->dice, "seed %llu: %u faults", (unsigned long long)dice->seed, w->dice.faults);
    make_job(w);
    while (!one_controller(w))
        if (w->dice.controllers > CONTROLLERS_MAX)
            dice_violated(&w->dice, "not done after %u controllers", w->dice.controllers);
    if (sim_live(w->job->net) > 0)
        dice_violated(&w->dice, "done, but %zu program(s) run", sim_live(w->job->net));
    struct audit a = {.w = w};
    sim_job_each(w->job, audit_event, &a);
    loop_timer_destroy(w->tick);
    sim_job_destroy(w->job);
    buf_free(&w->dice.log);
    free(w);
}

static void test_random_rules(void **unused)
{
    (void)unused;
    dice_seeds(SEEDS, run_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
