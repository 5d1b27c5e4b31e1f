/* Failure rules while a launch runs: the questions to state_decide, and what follows from its answers. See rules.h. */
#include "internal.h"
#include "rules.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_MAX = 400, CANDIDATES_MAX = 1000 };
#define NO_RULE UINT32_MAX

struct rank_of { /* a worker, by node and rank; a launcher has no rank */
    uint32_t node, rank;
};
/* A matching line that was printed after the generation had failed: it counts if its worker failed first. */
struct candidate {
    struct rank_of of;
    const struct plan_step *step;
    uint32_t rule;
    char *text;
};
struct rules {
    struct launch *launch;
    const struct spec *spec;
    struct metrics *metrics; /* NULL: the spec has none */
    struct matcher *matcher; /* NULL: there are no patterns */
    size_t pattern_count;
    uint32_t *rule_of, *metric_of; /* per pattern: the index of its rule or metric, or NO_RULE */
    /* [role * patterns]: the pattern applies to the role's lines. The last row is for workers without a role */
    bool *wanted;
    uint32_t *used; /* per rule: how often it applied in this run; filled in for each decision */
    bool has_ends;  /* some rule has a pattern together with a status or signal */
    /* the present line */
    bool *hits; /* by rule */
    bool hit;
    struct rank_of line_of;
    /* the present generation */
    bool active, quiet; /* quiet: the lines are read again and were seen before */
    /* [worker * rules]: the worker printed a matching line; launchers come after the workers, by node */
    bool *seen;
    size_t seen_workers;
    struct candidate *candidates;
    size_t candidate_count;
    bool condemned; /* a worker failed, and no rule ignores its end */
};

/* ---- made and freed ---- */

static void on_hit(void *arg, const struct match_hit *hit)
{
    struct rules *x = arg;
    if (x->metric_of[hit->pattern] != NO_RULE) {
        metrics_add(x->metrics, x->metric_of[hit->pattern], hit->line->rank, hit->value);
        return;
    }
    x->hits[x->rule_of[hit->pattern]] = true;
    x->hit = true;
}

static void on_limit(void *arg, uint32_t pattern, const struct watch_line *line)
{
    struct rules *x = arg;
    uint32_t metric = x->metric_of[pattern];
    (void)line;
    if (x->quiet)
        return;
    run_note(x->launch->run, x->line_of.node,
             "the pattern of %s takes too long over a line, which counts as not matching",
             metric != NO_RULE ? x->spec->metrics[metric].name : x->spec->rules[x->rule_of[pattern]].text);
}

static void add_pattern(struct rules *x, struct match_pattern *patterns, uint32_t rule, uint32_t metric)
{
    const struct spec_rule *r = rule != NO_RULE ? &x->spec->rules[rule] : NULL;
    const struct spec_metric *m = r ? NULL : &x->spec->metrics[metric];
    size_t i = x->pattern_count++, roles = x->spec->role_count + 1, all = x->spec->rule_count + x->spec->metric_count;
    uint32_t role = r ? r->role : m->role;
    x->rule_of[i] = rule;
    x->metric_of[i] = metric;
    patterns[i] = (struct match_pattern){.pattern = r ? r->pattern.text : m->pattern.text,
                                         .streams = MATCH_OUT | MATCH_ERR,
                                         .value = m != NULL,
                                         .has_rank = m && m->has_rank,
                                         .rank = m ? m->rank : 0};
    if (r)
        patterns[i].streams =
            (uint8_t)((r->streams & RULE_STDOUT ? MATCH_OUT : 0) | (r->streams & RULE_STDERR ? MATCH_ERR : 0));
    for (size_t k = 0; k < roles; k++)
        x->wanted[k * all + i] = role == SPEC_NO_ROLE || role == k;
}

struct rules *rules_create(struct launch *l)
{
    struct run *r = l->run;
    const struct spec *spec = r->plan->spec;
    size_t all = spec->rule_count + spec->metric_count;
    if (all == 0 || r->options.mode != RUN_EXECUTE)
        return NULL;
    struct rules *x = xcalloc(1, sizeof *x);
    struct match_pattern *patterns = xcalloc(all, sizeof *patterns);
    x->launch = l;
    x->spec = spec;
    x->rule_of = xcalloc(all, sizeof *x->rule_of);
    x->metric_of = xcalloc(all, sizeof *x->metric_of);
    x->wanted = xcalloc(all * (spec->role_count + 1), sizeof *x->wanted);
    x->used = xcalloc(spec->rule_count + 1, sizeof *x->used);
    x->hits = xcalloc(spec->rule_count + 1, sizeof *x->hits);
    for (uint32_t i = 0; i < spec->rule_count; i++) {
        if (spec->rules[i].pattern.text)
            add_pattern(x, patterns, i, NO_RULE);
        x->has_ends = x->has_ends || (spec->rules[i].pattern.text &&
                                      (spec->rules[i].status_count > 0 || spec->rules[i].signal_count > 0));
    }
    for (uint32_t i = 0; i < spec->metric_count; i++)
        add_pattern(x, patterns, NO_RULE, i);
    if (x->pattern_count > 0)
        x->matcher = matcher_create(patterns, x->pattern_count, on_hit, on_limit, x);
    if (spec->metric_count > 0)
        x->metrics = metrics_create(r);
    free(patterns);
    return x;
}

static void forget_generation(struct rules *x)
{
    for (size_t i = 0; i < x->candidate_count; i++)
        free(x->candidates[i].text);
    free(x->seen);
    x->seen = NULL;
    x->candidate_count = 0;
    x->condemned = false;
}

void rules_destroy(struct rules *x)
{
    if (!x)
        return;
    forget_generation(x);
    metrics_destroy(x->metrics);
    matcher_destroy(x->matcher);
    free(x->rule_of);
    free(x->metric_of);
    free(x->wanted);
    free(x->used);
    free(x->hits);
    free(x->candidates);
    free(x);
}

/* ---- workers and lines, in words ---- */

static uint32_t role_of(const struct rules *x, struct rank_of of)
{
    const struct plan *plan = x->launch->run->plan;
    return x->spec->role_count > 0 && plan->ranks && of.rank < plan->worker_count ? plan->ranks[of.rank].role
                                                                                  : SPEC_NO_ROLE;
}

static char *who(const struct rules *x, struct rank_of of)
{
    const struct run *r = x->launch->run;
    const char *node = r->lanes[of.node].name;
    if (of.rank == WIRE_NO_RANK || !x->spec->distributed.present)
        return xasprintf("node \"%s\"", node);
    char worker[80];
    return xasprintf("%s on node \"%s\"", launch_worker_words(r, of.rank, worker, sizeof worker), node);
}

/* As much of a line as an event holds: without control characters and colours. */
static char *clean(const char *text, size_t len)
{
    struct buf b = {0};
    for (size_t i = 0; i < len && b.len < LINE_MAX; i++) {
        if (text[i] == '\033' && i + 1 < len && text[i + 1] == '[') {
            for (i += 2; i < len && !((unsigned char)text[i] >= '@' && (unsigned char)text[i] <= '~');)
                i++;
            continue;
        }
        if ((unsigned char)text[i] >= ' ' && text[i] != 0x7F)
            buf_putc(&b, text[i]);
        else if (text[i] == '\t')
            buf_putc(&b, ' ');
    }
    if (b.len == LINE_MAX) { /* do not cut within a character */
        while (b.len > 0 && ((unsigned char)b.data[b.len - 1] & 0xc0) == 0x80)
            b.len--;
        b.len -= b.len > 0;
        buf_puts(&b, "...");
    }
    return b.data ? buf_steal(&b) : xstrdup("");
}

/* ---- counting ---- */

uint32_t rules_restarts_left(const struct launch *l)
{
    const struct state_run *run = run_recorded(l->run);
    uint32_t max = spec_restarts(&l->run->plan->spec->distributed);
    uint32_t counted = run ? run->restarts - run->own_restarts : 0;
    return counted < max ? max - counted : 0;
}

static struct state_decision decide(const struct rules *x, const struct state_happening *what)
{
    struct state_decision d;
    state_rules_used(run_recorded(x->launch->run), x->spec->rules, x->spec->rule_count, x->used);
    state_decide(x->spec->rules, x->spec->rule_count, x->used, rules_restarts_left(x->launch), what, &d);
    return d;
}

/* The rule applies: appends its event, before anything that follows from it. generation: the event's; 0: it concerns a
 * node alone, and is no verdict. */
static void count_for(struct rules *x, const struct state_decision *d, uint32_t generation, struct rank_of of,
                      const char *reason, const char *line, const struct awaited *then)
{
    const struct spec_rule *rule = &x->spec->rules[d->rule];
    struct event e = {.type = EVENT_RULE,
                      .rule = {.generation = generation,
                               .rule = d->rule + 1,
                               .rule_id = rule->id,
                               .action = d->action,
                               .node = of.node,
                               .cause_rank = of.rank,
                               .reason = reason,
                               .line = line,
                               .left = d->left,
                               .backoff_ms = d->backoff_ms}};
    if (then)
        run_append_then(x->launch->run, &e, *then);
    else
        run_append(x->launch->run, &e);
}

static void count(struct rules *x, const struct state_decision *d, struct rank_of of, const char *reason,
                  const char *line, const struct awaited *then)
{
    count_for(x, d, x->launch->generation, of, reason, line, then);
}

/* ---- verdicts ---- */

static enum spec_subject subject(const struct rules *x, const struct state_decision *d)
{
    return d->rule == NO_RULE ? RULE_WORKER : x->spec->rules[d->rule].subject;
}

/* A rule's verdict on the present generation, whichever controller gave it; NULL: there is none yet. */
static const struct state_verdict *verdict_of(const struct launch *l)
{
    const struct state_run *run = run_recorded(l->run);
    return l->rules && run && run->verdict.generation && run->verdict.generation == l->generation ? &run->verdict
                                                                                                  : NULL;
}

/* The decision as it was made: the spec's rules may have been edited since. */
static struct state_decision decision_of(const struct rules *x, const struct state_verdict *v)
{
    const struct state_run *run = run_recorded(x->launch->run);
    struct state_decision d = {.rule = NO_RULE,
                               .action = v->action,
                               .own = v->left != EVENT_UNBOUNDED,
                               .left = v->left,
                               .backoff_ms = v->backoff_ms};
    for (uint32_t i = 0; i < x->spec->rule_count; i++)
        for (uint32_t k = 0; k < run->rule_count; k++)
            if (run->rules[k].number == v->rule && str_eq(run->rules[k].id, x->spec->rules[i].id))
                d.rule = i;
    return d;
}

bool rules_condemned(const struct launch *l)
{
    return l->rules && (l->rules->condemned || verdict_of(l));
}

static const char *words(const struct rules *x, const struct state_decision *d, const char *what)
{
    return arena_printf(x->launch->run->arena, "%s (%s: %s)", what, x->spec->rules[d->rule].text,
                        spec_actions[d->action]);
}

const char *rules_words(const struct launch *l)
{
    const struct state_verdict *v = verdict_of(l);
    /* the launch starts again: a failure meanwhile has another cause */
    if (!v || run_recorded(l->run)->generation > l->generation)
        return NULL;
    const struct state_decision d = decision_of(l->rules, v);
    const char *what = v->reason ? v->reason : "a worker failed";
    return d.rule != NO_RULE ? words(l->rules, &d, what)
                             : arena_printf(l->run->arena, "%s (rule %u: %s)", what, v->rule, spec_actions[v->action]);
}

/* A rule has decided what follows before all workers have ended: from now on its reason is the first cause. */
static void set_cause(struct rules *x, const struct state_decision *d, const struct plan_step *step, struct rank_of of,
                      const char *line)
{
    struct launch *l = x->launch;
    struct run *r = l->run;
    const struct cause cause = {.step = step,
                                .node = of.node,
                                .at_ns = 0, /* before all others */
                                .outcome = OUTCOME_FAILED,
                                .cause = subject(x, d) == RULE_PREEMPTED ? WIRE_CAUSE_PREEMPTED : WIRE_CAUSE_NONE,
                                .rank = of.rank,
                                .has_rank = of.rank != WIRE_NO_RANK && x->spec->distributed.present,
                                .generation = l->generation,
                                .tail = arena_strdup(r->arena, line ? line : "")};
    cause_offer(&l->cause, &cause);
}

void rules_lost_for_good(struct launch *l, uint32_t node, const char *words)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INFRA, "%s", words);
    error_hint(&err, "its workers may still run there: the next run stops them");
    run_fail(l->run, RUN_FAILED, &err);
    run_effect(l->run, &(struct effect){.kind = EFFECT_GIVE_UP, .node = node}); /* the others waited long enough */
}

/* A rule decides fail or restart while workers still run. */
static void give_verdict(struct rules *x, const struct state_decision *d, const struct plan_step *step,
                         struct rank_of of, const char *what, const char *line)
{
    struct launch *l = x->launch;
    set_cause(x, d, step, of, line);
    if (subject(x, d) != RULE_NODE_LOST || d->action != RULE_FAIL) {
        const enum follow then =
            subject(x, d) == RULE_NODE_LOST && d->action == RULE_REPLACE ? FOLLOW_REPLACE : FOLLOW_CONDEMN;
        count(x, d, of, what, line, &(struct awaited){.follow = then, .launch = l, .node = of.node});
        return;
    }
    count(x, d, of, what, line,
          &(struct awaited){.follow = FOLLOW_FAIL, .launch = l, .node = of.node, .words = words(x, d, what)});
}

/* ---- generations ---- */

static void read_again(struct rules *x, const struct plan_step *step, uint32_t node)
{
    struct run *r = x->launch->run;
    struct run_task *t = run_task(r, step, node);
    if (!step->kind->ranked || !step->on[node] || t->state == TASK_PENDING || !t->attempt[0])
        return;
    struct run_log *log = t->log ? t->log : log_open(r, step, node, t->attempt);
    log_again(log);
    if (!t->log)
        log_close(log);
}

void rules_begin(struct launch *l)
{
    struct run *r = l->run;
    struct rules *x = l->rules;
    if (!x || (x->active && parts_begun(l))) /* the rules have seen all of this generation */
        return;
    forget_generation(x);
    x->seen_workers = (size_t)r->plan->worker_count + r->plan->node_count;
    if (x->has_ends)
        x->seen = xcalloc(x->seen_workers * x->spec->rule_count + 1, sizeof *x->seen);
    if (x->metrics)
        metrics_begin(x->metrics);
    const struct state_verdict *v = verdict_of(l);
    if (v && v->node < r->plan->node_count) {
        const struct state_decision d = decision_of(x, v);
        set_cause(x, &d, launch_step(l, PHASE_LAUNCH), (struct rank_of){v->node, v->rank}, v->line);
    } else if (!v && l->cause.step) {
        l->cause.at_ns = UINT64_MAX; /* the journal does not say when it was; the logs do */
    }
    x->active = x->quiet = true;
    for (size_t i = l->first_step; i < l->end_step; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            read_again(x, &r->plan->steps[i], n);
    x->quiet = false;
    if (l->cause.at_ns == UINT64_MAX)
        l->cause.at_ns = 0;
}

/* ---- lines ---- */

static bool *seen_by(struct rules *x, struct rank_of of)
{
    const struct plan *plan = x->launch->run->plan;
    size_t worker = of.rank < plan->worker_count ? of.rank : (size_t)plan->worker_count + of.node;
    return x->seen && worker < x->seen_workers ? x->seen + worker * x->spec->rule_count : NULL;
}

static void add_candidate(struct rules *x, const struct plan_step *step, struct rank_of of, uint32_t rule, char *text)
{
    if (x->candidate_count == CANDIDATES_MAX) {
        free(text);
        return;
    }
    x->candidates = xreallocarray(x->candidates, x->candidate_count + 1, sizeof *x->candidates);
    x->candidates[x->candidate_count++] = (struct candidate){of, step, rule, text};
}

static void line_hit(struct rules *x, const struct plan_step *step, const struct watch_line *line)
{
    struct launch *l = x->launch;
    struct rank_of of = x->line_of;
    bool *seen = seen_by(x, of);
    for (size_t i = 0; seen && i < x->spec->rule_count; i++)
        seen[i] = seen[i] || x->hits[i];
    const struct state_happening what = {.is_line = true, .role = role_of(x, of), .seen = x->hits};
    struct state_decision d = decide(x, &what);
    if (d.rule == NO_RULE || (d.action == RULE_IGNORE && (!d.own || x->quiet)) || verdict_of(l))
        return;
    char *text = clean(line->text, line->len);
    if (d.action != RULE_IGNORE && (l->state == LAUNCH_CONDEMNED || x->condemned)) {
        add_candidate(x, step, of, d.rule, text);
        return;
    }
    CLEANUP(cleanup_free) char *name = who(x, of);
    CLEANUP(cleanup_free) char *reason = xasprintf("%s printed \"%s\"", name, text);
    if (d.action == RULE_IGNORE)
        count(x, &d, of, reason, text, NULL);
    else
        give_verdict(x, &d, step, of, reason, text);
    free(text);
}

void rules_line(struct launch *l, const struct plan_step *step, uint32_t node, const struct watch_line *line)
{
    struct rules *x = l->rules;
    if (!x || !x->active || !x->matcher || !step->kind->ranked || line->stream == WIRE_STREAM_NOTE)
        return;
    x->line_of = (struct rank_of){node, line->rank};
    uint32_t role = role_of(x, x->line_of);
    size_t row = role == SPEC_NO_ROLE ? x->spec->role_count : role;
    matcher_line(x->matcher, line, x->wanted + row * (x->spec->rule_count + x->spec->metric_count));
    if (!x->hit)
        return;
    x->hit = false;
    line_hit(x, step, line);
    memset(x->hits, 0, x->spec->rule_count * sizeof *x->hits);
}

/* ---- ends ---- */

static bool has_ignored(const struct rules *x)
{
    const struct state_run *run = run_recorded(x->launch->run);
    return run && run->ignored_count > 0 && run->ignored_generation == x->launch->generation;
}

static bool is_ignored(const struct rules *x, struct rank_of of)
{
    const struct state_run *run = run_recorded(x->launch->run);
    for (size_t i = 0; has_ignored(x) && i < run->ignored_count; i++)
        if (run->ignored[i].node == of.node && run->ignored[i].rank == of.rank)
            return true;
    return false;
}

static struct state_happening end_happening(struct rules *x, struct rank_of of, uint32_t cause, int32_t value)
{
    return (struct state_happening){.subject = cause == WIRE_CAUSE_PREEMPTED ? RULE_PREEMPTED : RULE_WORKER,
                                    .role = role_of(x, of),
                                    .must_count = cause != WIRE_CAUSE_EXIT && cause != WIRE_CAUSE_SIGNAL,
                                    .status = cause == WIRE_CAUSE_EXIT ? (uint32_t)value : 0,
                                    .signal = cause == WIRE_CAUSE_SIGNAL ? (uint32_t)value : 0,
                                    .seen = seen_by(x, of)};
}

void rules_end(struct launch *l, const struct plan_step *step, uint32_t node, const struct wire_worker_end *end)
{
    struct rules *x = l->rules;
    const struct rank_of of = {node, end->rank};
    char what[160];
    /* there are no rules: the other nodes are stopped at once, before this node's part has ended */
    if (!x || x->spec->rule_count == 0) {
        if (end->cause == WIRE_CAUSE_PREEMPTED) /* the node's record may never come */
            attempt_cause(l, step, node, end);
        launch_condemn(l);
        return;
    }
    if (!x->active || is_ignored(x, of))
        return;
    const struct state_happening happening = end_happening(x, of, end->cause, end->value);
    const struct state_decision d = decide(x, &happening);
    /* the rule is chosen when all have ended, because another worker may have failed first */
    if (d.action != RULE_IGNORE) {
        x->condemned = true;
        attempt_cause(l, step, node, end);
        launch_condemn(l);
        return;
    }
    run_cause_text(OUTCOME_FAILED, end->cause, end->value, what, sizeof what);
    CLEANUP(cleanup_free) char *name = who(x, of);
    CLEANUP(cleanup_free) char *reason = xasprintf("%s: %s", name, what);
    count(x, &d, of, reason, NULL, NULL);
}

struct wire_record rules_judge(struct launch *l, const struct plan_step *step, uint32_t node,
                               const struct wire_record *record)
{
    struct rules *x = l->rules;
    struct wire_record ret = *record;
    const struct wire_worker_end *first = NULL;
    bool any = false;
    if (x && step->kind->ranked && !x->active && l->generation > 0)
        rules_begin(l); /* the part ended before this controller knew the whole launch */
    if (x && step->kind->ranked)
        metrics_flush(x->metrics);
    if (record->verdict == WIRE_VERDICT_GOOD) { /* by these rules, or by those of an earlier controller */
        ret.cause = WIRE_CAUSE_NONE;
        ret.value = 0;
        return ret;
    }
    if (!x || !has_ignored(x) || !step->kind->ranked || record->state != WIRE_STATE_ENDED || record->timed_out ||
        record->stop_requested)
        return ret;
    for (uint32_t i = 0; i < record->worker_count; i++) {
        const struct wire_worker_end *w = &record->workers[i];
        bool ignored = is_ignored(x, (struct rank_of){node, w->rank});
        any = any || ignored;
        if (w->cause != WIRE_CAUSE_NONE && !ignored && (!first || w->end_mono_ns < first->end_mono_ns))
            first = w;
    }
    if (!any || record->cause == WIRE_CAUSE_CREATES || record->cause == WIRE_CAUSE_PREEMPTED)
        return ret;
    ret.cause = first ? first->cause : WIRE_CAUSE_NONE;
    ret.value = first ? first->value : 0;
    if (first) {
        ret.cause_rank = first->rank;
        ret.cause_mono_ns = first->end_mono_ns;
    }
    return ret;
}

bool rules_speak(struct launch *l, uint32_t node, enum outcome outcome, uint32_t cause, int32_t value)
{
    struct rules *x = l->rules;
    if (!x || x->spec->rule_count == 0)
        return false;
    struct state_happening what = end_happening(x, (struct rank_of){node, WIRE_NO_RANK}, cause, value);
    what.must_count = what.must_count || outcome == OUTCOME_UNKNOWN;
    return decide(x, &what).rule != NO_RULE;
}

/* ---- what follows ---- */

/* The rule that applies to the first cause, by a line that its worker printed, or by the end of that worker. */
static struct state_decision judge_cause(struct rules *x, char **ret_line)
{
    struct launch *l = x->launch;
    const struct cause *cause = &l->cause;
    const struct rank_of of = {cause->node, cause->rank};
    bool unknown = !cause->step || cause->outcome == OUTCOME_UNKNOWN;
    for (size_t i = 0; !unknown && !launch_preempted(l) && i < x->candidate_count; i++) {
        const struct candidate *c = &x->candidates[i];
        if (c->of.node != of.node || c->of.rank != of.rank)
            continue;
        bool *hits = xcalloc(x->spec->rule_count, sizeof *hits);
        hits[c->rule] = true;
        const struct state_happening line = {.is_line = true, .role = role_of(x, of), .seen = hits};
        struct state_decision d = decide(x, &line);
        free(hits);
        if (d.rule == NO_RULE)
            continue;
        *ret_line = c->text;
        return d;
    }
    struct state_happening what = unknown ? (struct state_happening){.must_count = true, .role = SPEC_NO_ROLE}
                                          : end_happening(x, of, cause->cause, cause->value);
    what.must_count = true; /* an end that a rule ignores was ignored when it happened */
    return decide(x, &what);
}

bool rules_restart(struct launch *l, struct event_restart *ret)
{
    struct rules *x = l->rules;
    struct state_decision d = {.rule = NO_RULE, .left = EVENT_UNBOUNDED};
    char *line = NULL;
    if (x)
        metrics_flush(x->metrics);
    bool timed_out = l->cause.step && l->cause.outcome == OUTCOME_TIMED_OUT;
    bool final = timed_out || launch_preempted(l);
    CLEANUP(cleanup_free) char *what = launch_cause(l);
    const struct state_verdict *v = verdict_of(l);
    if (v) {
        d = decision_of(x, v);
    } else if (timed_out || !x || x->spec->rule_count == 0) {
        d.action = final || rules_restarts_left(l) == 0 ? RULE_FAIL : RULE_RESTART;
    } else {
        d = judge_cause(x, &line);
        if (d.rule != NO_RULE) {
            const struct rank_of of = {l->cause.node, l->cause.rank};
            count(x, &d, of, what, line, NULL);
        }
    }
    if (!spec_starts_again(d.action))
        return false;
    const char *reason = rules_words(l);
    *ret = (struct event_restart){.generation = l->generation + 1,
                                  .reason = xstrdup(reason ? reason : what),
                                  .rule = d.rule == NO_RULE ? 0 : d.rule + 1,
                                  .uncounted = d.own,
                                  .backoff_ms = d.backoff_ms};
    return true;
}

/* ---- nodes ---- */

bool rules_await_nodes(const struct launch *l)
{
    for (size_t i = 0; l->rules && i < l->rules->spec->rule_count; i++)
        if (l->rules->spec->rules[i].subject == RULE_NODE_LOST)
            return true;
    return false;
}

/* Whether the launch will start again, whatever happens to this node: its attempts have ended or are being stopped.
 * False if the generation of the last RESTART has begun: another controller may have left it running or done. */
static bool starts_again(const struct launch *l)
{
    const struct state_verdict *v = verdict_of(l);
    const struct state_run *run = run_recorded(l->run);
    return v ? spec_starts_again(v->action) : run && run->restarts > 0 && run->generation > run->begun;
}

static bool is_of_lost(const struct rules *x, const struct state_verdict *v)
{
    const struct state_decision d = decision_of(x, v);
    return subject(x, &d) == RULE_NODE_LOST;
}

/* Whether the rule only replaces the node: the launch does not need it, or has not begun, so no generation fails. Such
 * rules have a budget of their own, because no restart is counted. */
static bool replaces_alone(struct launch *l, struct lane *lane, const struct state_decision *d)
{
    const struct run *r = l->run;
    struct error err = ERROR_INIT;
    if (d->rule == NO_RULE || d->action != RULE_REPLACE || !d->own)
        return false;
    error_set(&err, ERROR_INFRA, "node \"%s\" is lost", lane->name);
    return lane->left_out || (r->stage <= STAGE_PREFLIGHT && !parts_begun(l)) || elastic_spare(l, lane->index, &err);
}

/* Whether the decision about the lost node was made already. */
static bool is_awaited(const struct rules *x, const struct lane *lane, const struct state_verdict *v, bool vanished)
{
    return lane->replacing || (v && is_of_lost(x, v) && v->action == RULE_RESTART && !vanished);
}

void rules_node_lost(struct launch *l, struct lane *lane, bool vanished)
{
    struct run *r = l->run;
    struct rules *x = l->rules;
    const struct state_happening what = {.subject = RULE_NODE_LOST, .role = SPEC_NO_ROLE};
    const struct rank_of of = {lane->index, WIRE_NO_RANK};
    const struct awaited then = {.follow = FOLLOW_REPLACE, .launch = l, .node = lane->index};
    struct state_decision d = {.rule = NO_RULE};
    const struct state_verdict *v = verdict_of(l);
    bool again = x && x->active && starts_again(l);
    if (x && is_awaited(x, lane, again ? v : NULL, vanished))
        return;
    if (x && rules_replace(l, lane)) { /* that was decided, but its outputs were to be fetched first */
        lane_replace(lane);
        return;
    }
    if (x && !run_is_stopping(r))
        d = decide(x, &what);
    CLEANUP(cleanup_free) char *reason = xasprintf("node \"%s\" is lost", lane->name);
    if (replaces_alone(l, lane, &d)) {
        count_for(x, &d, 0, of, reason, NULL, &then);
        return;
    }
    bool asked = again || (x && x->active && r->stage == STAGE_LAUNCH && !v);
    bool in_vain = d.action == RULE_RESTART && vanished, unbounded = again && d.action == RULE_REPLACE && !d.own;
    if (!asked || d.rule == NO_RULE || in_vain || unbounded || lane->left_out || run_is_stopping(r)) {
        run_effect(r, &(struct effect){.kind = EFFECT_GIVE_UP, .node = lane->index});
        return;
    }
    if (again && spec_starts_again(d.action))
        count(x, &d, of, reason, NULL, d.action == RULE_REPLACE ? &then : NULL);
    else
        give_verdict(x, &d, launch_step(l, PHASE_LAUNCH), of, reason, NULL);
    if (d.action == RULE_RESTART)
        run_note(r, lane->index, "all workers start again once the node is back");
}

bool rules_replace(const struct launch *l, const struct lane *lane)
{
    const struct run *r = l->run;
    const struct state_verdict *v = verdict_of(l);
    if (!v || v->action != RULE_REPLACE || lane->replacing)
        return false;
    for (size_t i = l->first_step; i < l->end_step; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        const struct state_cell *c = step->kind->phase == PHASE_LAUNCH && step->on[lane->index]
                                         ? state_cell_find(r->state, step->scope, step->name, lane->index)
                                         : NULL;
        bool meant = c && (v->node == lane->index || c->cause == WIRE_CAUSE_PREEMPTED);
        if (meant && str_eq(c->run, r->id) && c->generation == l->generation && !lane_is_elsewhere(lane, c))
            return true;
    }
    return false;
}
