/* The first cause of a failure, and how messages describe it. */
#include "internal.h"
#include "rules.h"

#include <string.h>

bool cause_offer(struct cause *best, const struct cause *c)
{
    if (best->step && c->at_ns > best->at_ns)
        /* the same instant is the same failure: a record, which comes later, has more facts than the END in the
         * output */
        return false;
    *best = *c;
    return true;
}

bool cause_has_rank(const struct run *r, const struct plan_step *step, uint32_t rank, enum outcome outcome)
{
    return step->kind->ranked && r->plan->spec->distributed.present && rank != WIRE_NO_RANK &&
           outcome != OUTCOME_UNKNOWN;
}

struct cause *cause_of(struct run *r, const struct plan_step *step)
{
    struct launch *l = launch_of(r, step);
    return l ? &l->cause : &r->cause;
}

void cause_tell(struct run *r)
{
    const struct cause *c = run_launch(r)->cause.step ? &run_launch(r)->cause : &r->cause;
    struct run_result *res = &r->result;
    if (!c->step)
        return;
    res->has_cause = true;
    res->cause_step = c->step->name;
    res->cause_node = arena_strdup(r->arena, r->lanes[c->node].name);
    res->cause = c->cause;
    res->cause_value = c->value;
    res->cause_rank = c->rank;
    res->cause_has_rank = c->has_rank;
    res->cause_generation = c->generation;
    res->cause_tail = c->tail;
}

/* ---- in words ---- */

void run_cause_text(enum outcome outcome, uint32_t cause, int32_t value, char *ret, size_t size)
{
    if (outcome == OUTCOME_UNKNOWN)
        snprintf(ret, size, "its outcome is unknown (its supervisor or its node died)");
    else if (outcome == OUTCOME_TIMED_OUT)
        snprintf(ret, size, "timed out");
    else if (cause == WIRE_CAUSE_EXIT)
        snprintf(ret, size, "exit status %d", value);
    else if (cause == WIRE_CAUSE_SIGNAL)
        snprintf(ret, size, "killed by signal %d (%s)", value, strsignal(value));
    else if (cause == WIRE_CAUSE_EXEC)
        snprintf(ret, size, "could not be started: %s", strerror(value));
    else if (cause == WIRE_CAUSE_CREATES)
        snprintf(ret, size, "it ended well, but what it `creates` does not exist");
    else if (cause == WIRE_CAUSE_SETUP)
        snprintf(ret, size, "its directory or environment could not be prepared: %s", strerror(value));
    else if (cause == WIRE_CAUSE_PREEMPTED && value == 0)
        snprintf(ret, size, "preempted: the provider takes the machine back");
    else if (cause == WIRE_CAUSE_PREEMPTED)
        snprintf(ret, size, "preempted: told to end by signal %d (%s), not by rhrun", value, strsignal(value));
    else if (outcome == OUTCOME_STOPPED)
        snprintf(ret, size, "stopped");
    else
        snprintf(ret, size, "failed");
}

/* The step whose output shows the cause. If a role was not ready in time, the reason is in the role's own output: the
 * step that checks whether the role is ready prints nothing. */
static const char *cause_output(const struct launch *l)
{
    const struct run *r = l->run;
    const struct plan_step *s = l->cause.step;
    return s->kind->asks && s->wait_count > 0 ? r->plan->steps[s->waits[0].step].name : s->name;
}

/* "rank 3", or with roles "server[1] (rank 3)". */
const char *launch_worker_words(const struct run *r, uint32_t worker, char *ret, size_t size)
{
    uint32_t role_rank;
    const char *role = plan_role_of(r->plan, worker, &role_rank);
    if (!r->plan->roles)
        snprintf(ret, size, "rank %u", worker);
    else if (worker < r->plan->world_size)
        snprintf(ret, size, "%s[%u] (rank %u)", role, role_rank, worker);
    else
        snprintf(ret, size, "%s[%u]", role, role_rank);
    return ret;
}

/* What failed, and the text of the worker's error file, which the agent has put at the end of the tail. */
static void cause_words(const struct launch *l, char *ret, size_t size)
{
    static const char note[] = "rhrun: " WIRE_ERROR_NOTE;
    const struct cause *c = &l->cause;
    const char *line = NULL;
    run_cause_text(c->outcome, c->cause, c->value, ret, size);
    if (c->words)
        snprintf(ret, size, "%s", c->words);
    for (const char *p = c->tail; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
        line = p;
    size_t len = strlen(ret);
    if (line && str_starts(line, note))
        snprintf(ret + len, size - len, ": %.*s", (int)strcspn(line + strlen(note), "\n"), line + strlen(note));
}

bool launch_preempted(const struct launch *l)
{
    return l->cause.step && l->cause.outcome == OUTCOME_FAILED && l->cause.cause == WIRE_CAUSE_PREEMPTED;
}

void launch_failure(struct launch *l)
{
    struct run *r = l->run;
    struct run_result *res = &r->result;
    const enum error_code code = launch_preempted(l) ? ERROR_INFRA : ERROR_JOB;
    char what[480], worker[80];
    const struct cause *c = &l->cause;
    if (!c->step) {
        error_set(&res->error, ERROR_JOB, "the job failed");
        return;
    }
    cause_words(l, what, sizeof what);
    const char *name = r->lanes[c->node].name;
    if (c->outcome == OUTCOME_TIMED_OUT && c->step->timeout_ms)
        snprintf(what, sizeof what, "timed out after %.1f s", (double)c->step->timeout_ms / 1000);
    if (c->has_rank)
        error_set(&res->error, code, "%s on node \"%s\": %s", launch_worker_words(r, c->rank, worker, sizeof worker),
                  name, what);
    else
        error_set(&res->error, code, "%s on node \"%s\": %s", c->step->name, name, what);
    if (rules_words(l))
        error_set(&res->error, code, "%s", rules_words(l));
    const struct state_run *run = run_recorded(r);
    if (run && run->restarts > 0)
        error_prefix(&res->error, "after %u restart%s", run->restarts, run->restarts == 1 ? "" : "s");
    const struct plan_step *launch = launch_step(l, PHASE_LAUNCH);
    if (launch_preempted(l) && c->value == 0)
        error_hint(&res->error, "the same command starts the launch again; a failure rule does so by itself");
    else if (launch_preempted(l))
        error_hint(&res->error, "once the machine is back, the same command starts the launch again");
    else if (c->has_rank)
        error_hint(&res->error, "its output: rhrun logs %s --rank %u", r->id, c->rank);
    else if (c->step == launch)
        error_hint(&res->error, "its output: rhrun logs %s", r->id);
    else
        error_hint(&res->error, "its output: rhrun logs %s --step %s", r->id, cause_output(l));
}

char *launch_cause(const struct launch *l)
{
    const struct run *r = l->run;
    const struct cause *c = &l->cause;
    char what[480], worker[80];
    if (!c->step)
        return xstrdup("a worker failed");
    const char *name = r->lanes[c->node].name;
    cause_words(l, what, sizeof what);
    if (c->has_rank)
        return xasprintf("%s on node \"%s\": %s", launch_worker_words(r, c->rank, worker, sizeof worker), name, what);
    return xasprintf("node \"%s\": %s", name, what);
}
