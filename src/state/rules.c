/* Which failure rule applies. Pure: from what happened and how often each rule has applied before. */
#include "rhrun/state.h"

#include <string.h>

static bool contains(const uint32_t *items, size_t count, uint32_t n)
{
    for (size_t i = 0; i < count; i++)
        if (items[i] == n)
            return true;
    return false;
}

static bool matches(const struct spec_rule *r, size_t i, const struct state_happening *what)
{
    bool of_end = r->status_count > 0 || r->signal_count > 0;
    if (r->subject != what->subject)
        return false;
    if (what->subject != RULE_WORKER)
        return true;
    if (what->must_count && r->action == RULE_IGNORE)
        return false;
    if (r->role != SPEC_NO_ROLE && r->role != what->role)
        return false;
    if (what->is_line)
        return r->pattern.text && !of_end && what->seen && what->seen[i];
    if (r->pattern.text && (!of_end || !what->seen || !what->seen[i]))
        return false;
    return !of_end || (what->status && contains(r->statuses, r->status_count, what->status)) ||
           (what->signal && contains(r->signals, r->signal_count, what->signal));
}

static uint64_t backoff(const struct spec_rule *r, uint32_t used)
{
    double ms = (double)r->backoff_ms;
    for (uint32_t i = 0; i < used && ms < (double)r->backoff_max_ms; i++)
        ms *= r->backoff_factor;
    return ms < (double)r->backoff_max_ms ? (uint64_t)ms : r->backoff_max_ms;
}

void state_decide(const struct spec_rule *rules, size_t count, const uint32_t *used, uint32_t restarts_left,
                  const struct state_happening *what, struct state_decision *ret)
{
    for (size_t i = 0; i < count; i++) {
        const struct spec_rule *r = &rules[i];
        if (!matches(r, i, what) || (r->has_times && used[i] >= r->times) ||
            (spec_starts_again(r->action) && !r->has_times && restarts_left == 0))
            continue;
        *ret = (struct state_decision){.rule = (uint32_t)i,
                                       .action = r->action,
                                       .own = r->has_times,
                                       .used = used[i] + 1,
                                       .left = r->has_times ? r->times - used[i] - 1 : EVENT_UNBOUNDED,
                                       .backoff_ms = spec_starts_again(r->action) ? backoff(r, used[i]) : 0};
        return;
    }
    *ret = (struct state_decision){.rule = UINT32_MAX, .left = EVENT_UNBOUNDED};
    bool fails = what->subject != RULE_WORKER || restarts_left == 0;
    ret->action = what->is_line ? RULE_IGNORE : fails ? RULE_FAIL : RULE_RESTART;
}

void state_rules_used(const struct state_run *run, const struct spec_rule *rules, size_t count, uint32_t *ret)
{
    for (size_t i = 0; i < count; i++) {
        ret[i] = 0;
        for (uint32_t k = 0; run && k < run->rule_count; k++)
            if (strcmp(run->rules[k].id, rules[i].id) == 0)
                ret[i] = run->rules[k].times;
    }
}
