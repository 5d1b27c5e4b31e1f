/* Replaying events. Beside the arrays of the header there is a private index: interned strings (a job of 1,000 nodes
 * names the same step, key and inputs 1,000 times), two hash tables over the cells, each node's chain of cells, and
 * what the open run voids. */
#include "internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Open addressing, linear probing; a power of two slots, at most 3/4 full. Nothing is removed: an attempt that was
 * replaced in its cell stays until the table grows; comparing with the cell detects it. */
struct slot {
    uint32_t hash;
    uint32_t item; /* index + 1; 0 = free */
};
struct table {
    struct slot *slots;
    size_t size, used;
};
struct index {
    struct table cells, attempts, strings;
    const char **texts; /* the interned strings, by item */
    size_t text_count, text_cap;
    uint32_t *node_first; /* by node: cell + 1, 0 = none */
    uint32_t *cell_next;  /* by cell: the next cell of its node + 1 */
    size_t node_cap;
    const char *const *voids; /* of the open run */
    uint32_t void_count;
    size_t voided; /* cells with the mark */
};

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t hash_text(uint64_t h, const char *s, size_t len)
{
    for (; len >= 8; len -= 8, s += 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = mix(h ^ w);
    }
    uint64_t w = 0;
    memcpy(&w, s, len);
    return mix(h ^ w ^ (uint64_t)len << 56);
}

static uint32_t hash_cell(const char *scope, const char *step, uint32_t node)
{
    return (uint32_t)hash_text(hash_text(node, scope, strlen(scope)), step, strlen(step));
}

static void table_put(struct table *t, uint32_t hash, uint32_t item)
{
    size_t i = hash & (t->size - 1);
    while (t->slots[i].item)
        i = (i + 1) & (t->size - 1);
    t->slots[i] = (struct slot){hash, item};
    t->used++;
}

static bool table_full(const struct table *t)
{
    return t->used >= t->size / 4 * 3;
}

/* Empties it, with room for twice `live` items. */
static void table_renew(struct table *t, size_t live)
{
    free(t->slots);
    t->size = 64;
    while (t->size / 4 * 3 < live * 2)
        t->size *= 2;
    t->slots = xcalloc(t->size, sizeof *t->slots);
    t->used = 0;
}

/* The text if it was kept before, or NULL. */
static const char *kept(const struct state *s, const char *text, uint32_t hash)
{
    const struct index *x = s->index;
    for (size_t i = hash & (x->strings.size - 1); x->strings.slots[i].item; i = (i + 1) & (x->strings.size - 1)) {
        const char *known = x->texts[x->strings.slots[i].item - 1];
        if (x->strings.slots[i].hash == hash && strcmp(known, text) == 0)
            return known;
    }
    return NULL;
}

static const char *keep(struct state *s, const char *text)
{
    if (!text)
        return NULL;
    struct index *x = s->index;
    size_t len = strlen(text);
    uint32_t hash = (uint32_t)hash_text(0, text, len);
    const char *known = kept(s, text, hash);
    if (known)
        return known;
    if (x->text_count == x->text_cap) {
        x->text_cap = x->text_cap ? x->text_cap * 2 : 64;
        x->texts = xreallocarray(x->texts, x->text_cap, sizeof *x->texts);
    }
    x->texts[x->text_count++] = arena_strndup(s->arena, text, len);
    if (table_full(&x->strings)) {
        table_renew(&x->strings, x->text_count);
        for (size_t i = 0; i + 1 < x->text_count; i++)
            table_put(&x->strings, (uint32_t)hash_text(0, x->texts[i], strlen(x->texts[i])), (uint32_t)i + 1);
    }
    table_put(&x->strings, hash, (uint32_t)x->text_count);
    return x->texts[x->text_count - 1];
}

static const char *const *keep_all(struct state *s, const char *const *texts, uint32_t count)
{
    const char **kept = texts ? arena_array(s->arena, count, sizeof *kept) : NULL;
    for (uint32_t i = 0; i < count; i++)
        kept[i] = keep(s, texts[i]);
    return kept;
}

struct state *state_create(void)
{
    struct state *s = xcalloc(1, sizeof *s);
    struct index *x = xcalloc(1, sizeof *x);
    s->arena = arena_create();
    s->index = x;
    table_renew(&x->cells, 0);
    table_renew(&x->attempts, 0);
    table_renew(&x->strings, 0);
    return s;
}

void state_destroy(struct state *s)
{
    if (!s)
        return;
    struct index *x = s->index;
    free(x->cells.slots);
    free(x->attempts.slots);
    free(x->strings.slots);
    free(x->texts);
    free(x->node_first);
    free(x->cell_next);
    free(x);
    free(s->cells);
    free(s->nodes);
    free(s->runs);
    arena_destroy(s->arena);
    free(s);
}

/* ---- finding ---- */

static struct state_cell *cell_find(const struct state *s, const char *scope, const char *step, uint32_t node)
{
    const struct table *t = &((const struct index *)s->index)->cells;
    uint32_t hash = hash_cell(scope, step, node);
    for (size_t i = hash & (t->size - 1); t->slots[i].item; i = (i + 1) & (t->size - 1)) {
        struct state_cell *c = &s->cells[t->slots[i].item - 1];
        if (t->slots[i].hash == hash && c->node == node && strcmp(c->step, step) == 0 && strcmp(c->scope, scope) == 0)
            return c;
    }
    return NULL;
}

const struct state_cell *state_cell_find(const struct state *s, const char *scope, const char *step, uint32_t node)
{
    return cell_find(s, scope, step, node);
}

const struct state_cell *state_cell_by_attempt(const struct state *s, const char *attempt)
{
    const struct table *t = &((const struct index *)s->index)->attempts;
    uint32_t hash = (uint32_t)hash_text(0, attempt, strlen(attempt));
    for (size_t i = hash & (t->size - 1); t->slots[i].item; i = (i + 1) & (t->size - 1)) {
        const struct state_cell *c = &s->cells[t->slots[i].item - 1];
        if (t->slots[i].hash == hash && strcmp(c->attempt, attempt) == 0)
            return c;
    }
    return NULL;
}

/* Interned strings live as long as the state, and an attempt's random id equals no other string. */
bool state_knows_attempt(const struct state *s, const char *attempt)
{
    return kept(s, attempt, (uint32_t)hash_text(0, attempt, strlen(attempt))) != NULL;
}

static struct state_run *run_find(const struct state *s, const char *id)
{
    for (size_t i = s->run_count; id && i-- > 0;)
        if (strcmp(s->runs[i].id, id) == 0)
            return &s->runs[i];
    return NULL;
}

const struct state_run *state_run_find(const struct state *s, const char *id)
{
    return run_find(s, id);
}

/* ---- applying ---- */

static struct state_node *node_at(struct state *s, uint32_t node)
{
    struct index *x = s->index;
    if (node >= x->node_cap) {
        size_t cap = x->node_cap ? x->node_cap : 8;
        while (cap <= node)
            cap *= 2;
        s->nodes = xreallocarray(s->nodes, cap, sizeof *s->nodes);
        x->node_first = xreallocarray(x->node_first, cap, sizeof *x->node_first);
        memset(s->nodes + x->node_cap, 0, (cap - x->node_cap) * sizeof *s->nodes);
        memset(x->node_first + x->node_cap, 0, (cap - x->node_cap) * sizeof *x->node_first);
        x->node_cap = cap;
    }
    if (node >= s->node_count)
        s->node_count = (size_t)node + 1;
    return &s->nodes[node];
}

static struct state_cell *cell_create(struct state *s, const char *scope, const char *step, uint32_t node)
{
    struct index *x = s->index;
    if (s->cell_count == s->cell_cap) {
        s->cell_cap = s->cell_cap ? s->cell_cap * 2 : 32;
        s->cells = xreallocarray(s->cells, s->cell_cap, sizeof *s->cells);
        x->cell_next = xreallocarray(x->cell_next, s->cell_cap, sizeof *x->cell_next);
    }
    struct state_cell *c = &s->cells[s->cell_count++];
    *c = (struct state_cell){.scope = keep(s, scope), .step = keep(s, step), .node = node};
    x->cell_next[s->cell_count - 1] = x->node_first[node];
    x->node_first[node] = (uint32_t)s->cell_count;
    if (table_full(&x->cells)) {
        table_renew(&x->cells, s->cell_count);
        for (size_t i = 0; i + 1 < s->cell_count; i++)
            table_put(&x->cells, hash_cell(s->cells[i].scope, s->cells[i].step, s->cells[i].node), (uint32_t)i + 1);
    }
    table_put(&x->cells, hash_cell(scope, step, node), (uint32_t)s->cell_count);
    return c;
}

static void attempt_index(struct state *s, const struct state_cell *c)
{
    struct index *x = s->index;
    if (table_full(&x->attempts)) {
        table_renew(&x->attempts, s->cell_count);
        for (size_t i = 0; i < s->cell_count; i++)
            if (s->cells[i].attempt)
                table_put(&x->attempts, (uint32_t)hash_text(0, s->cells[i].attempt, strlen(s->cells[i].attempt)),
                          (uint32_t)i + 1);
        return; /* c is among them */
    }
    table_put(&x->attempts, (uint32_t)hash_text(0, c->attempt, strlen(c->attempt)), (uint32_t)(c - s->cells) + 1);
}

static void cell_void(struct state *s, struct state_cell *c, bool voided)
{
    struct index *x = s->index;
    if (c->voided != voided)
        x->voided += voided ? 1 : SIZE_MAX; /* minus one */
    c->voided = voided;
}

/* Is (scope, step) one of the open run's "scope\tstep"? */
static bool is_voided(const struct state *s, const char *scope, const char *step)
{
    const struct index *x = s->index;
    size_t n = strlen(scope);
    for (uint32_t i = 0; i < x->void_count; i++)
        if (strncmp(x->voids[i], scope, n) == 0 && x->voids[i][n] == '\t' && strcmp(x->voids[i] + n + 1, step) == 0)
            return true;
    return false;
}

/* Fills a cell for one attempt of that launch generation, bound to the node's present machine. */
static struct state_cell *cell_begin(struct state *s, const struct event *e, const struct event_attempt *a,
                                     uint32_t generation)
{
    const struct state_node *n = node_at(s, a->node);
    struct state_cell *c = cell_find(s, a->scope, a->step, a->node);
    if (!c)
        c = cell_create(s, a->scope, a->step, a->node);
    bool voided = c->voided;
    const struct state_run *r = run_find(s, e->run);
    uint32_t failures = str_eq(c->run, e->run) ? c->failures : 0;
    const bool adopted = e->type == EVENT_FINISHED || e->started.adopted;
    *c = (struct state_cell){
        .scope = c->scope,
        .step = c->step,
        .node = a->node,
        .run = keep(s, e->run),
        .attempt = adopted ? arena_strdup(s->arena, a->attempt) : keep(s, a->attempt), /* state_knows_attempt */
        .key = keep(s, a->key),
        .inputs = keep(s, a->inputs),
        .point = keep(s, a->point),
        .params = keep(s, a->params),
        .place = a->place,
        .parts = a->parts,
        .tries = a->tries,
        .install = n->install,
        .boot_id = n->boot_id,
        .voided = voided,
        .generation = generation,
        .after = r ? r->begun : 0,
        .failures = failures,
        .seq = e->seq,
        .adopted = adopted,
        .seen = a->seen,
        .started_ms = e->time_ms,
    };
    attempt_index(s, c);
    return c;
}

static void apply_run_opened(struct state *s, const struct event *e)
{
    struct index *x = s->index;
    const struct event_opened *o = &e->opened;
    if (state_run_open(s)) {
        s->runs[s->run_count - 1].status = RUN_SUPERSEDED;
        s->runs[s->run_count - 1].closed_ms = e->time_ms;
    }
    if (s->run_count == s->run_cap) {
        s->run_cap = s->run_cap ? s->run_cap * 2 : 8;
        s->runs = xreallocarray(s->runs, s->run_cap, sizeof *s->runs);
    }
    s->runs[s->run_count++] = (struct state_run){
        .id = keep(s, e->run),
        .variant = keep(s, o->variant),
        .spec_path = keep(s, o->asked.spec_path),
        .spec_hash = keep(s, o->asked.spec_hash),
        .plan_hash = keep(s, o->asked.plan_hash),
        .job_hash = keep(s, o->job_hash),
        .params_json = keep(s, o->params_json),
        .args_json = keep(s, o->args_json),
        .from_step = keep(s, o->from_step),
        .work = keep(s, o->work),
        .on = keep(s, o->asked.on),
        .sets = keep_all(s, o->asked.sets, o->asked.set_count),
        .set_count = o->asked.set_count,
        .kept = keep_all(s, o->kept, o->kept_count),
        .kept_count = o->kept_count,
        .point_count = o->point_count < SPEC_POINTS_MAX ? (uint32_t)o->point_count : SPEC_POINTS_MAX,
        .flags = o->flags,
        .node_count = o->node_count,
        .opened_ms = e->time_ms,
    };
    if (o->node_count)
        node_at(s, o->node_count - 1);
    for (size_t i = 0; x->voided && i < s->cell_count; i++)
        cell_void(s, &s->cells[i], false);
    x->voids = keep_all(s, o->voids, o->void_count);
    x->void_count = o->void_count;
    for (size_t i = 0; x->void_count && i < s->cell_count; i++)
        if (is_voided(s, s->cells[i].scope, s->cells[i].step))
            cell_void(s, &s->cells[i], true);
}

static void apply_node_bound(struct state *s, const struct event *e)
{
    const struct event_bound *b = &e->bound;
    const struct index *x = s->index;
    struct state_node *n = node_at(s, b->node);
    if (!str_eq(n->install, b->install)) /* another machine */
        n->installed = NULL;
    n->host = keep(s, b->host);
    n->install = keep(s, b->install);
    n->boot_id = keep(s, b->boot_id);
    n->facts_json = keep(s, b->facts_json);
    n->bound_ms = e->time_ms;
    struct state_run *r = b->work ? run_find(s, e->run) : NULL;
    if (r)
        r->work = keep(s, b->work);
    for (uint32_t i = x->node_first[b->node]; i; i = x->cell_next[i - 1]) {
        struct state_cell *c = &s->cells[i - 1];
        if (!c->settled && (c->outcome == OUTCOME_OK || c->outcome == OUTCOME_NONE) &&
            !str_eq(c->boot_id, n->boot_id)) {
            c->was_ok = c->outcome == OUTCOME_OK;
            c->outcome = OUTCOME_UNKNOWN;
        }
    }
}

static void apply_started(struct state *s, const struct event *e)
{
    const struct event_started *started = &e->started;
    for (uint32_t i = 0; i < started->attempt_count; i++)
        cell_void(s, cell_begin(s, e, &started->attempts[i], started->generation), false);
    struct state_run *r = run_find(s, e->run);
    if (r && started->generation > r->generation)
        r->generation = started->generation;
    if (r && started->generation > r->begun)
        r->begun = started->generation;
    if (r && started->generation && !started->joins)
        r->own_generation = r->generation;
    if (r && started->bind_json)
        r->bind_json = keep(s, started->bind_json);
}

/* Of a point's launch: have all parts ended well? */
static bool is_last_part(const struct state *s, const struct state_cell *cell)
{
    uint64_t good = 0;
    for (uint32_t n = 0; cell->parts > 1 && n < s->node_count; n++) {
        const struct state_cell *c = cell_find(s, cell->scope, cell->step, n);
        good += c && c->seq == cell->seq && c->outcome == OUTCOME_OK;
    }
    return cell->parts <= 1 || good == cell->parts;
}

static void apply_finished(struct state *s, const struct event *e)
{
    const struct event_finished *f = &e->finished;
    struct state_cell *c = cell_find(s, f->scope, f->step, f->node);
    bool known = c && str_eq(c->attempt, f->attempt);
    uint64_t began = e->time_ms > f->duration_ms ? e->time_ms - f->duration_ms : 0;
    if (f->adopted && !(known && str_eq(c->run, e->run))) { /* it belongs to this run from now on, whichever run began
                                                               it */
        const struct event_attempt a = {.scope = f->scope,
                                        .step = f->step,
                                        .attempt = f->attempt,
                                        .key = f->key,
                                        .inputs = f->inputs,
                                        .point = known ? c->point : NULL,
                                        .params = known ? c->params : NULL,
                                        .node = f->node};
        began = known ? c->started_ms : began;
        bool is_new = !c;
        c = cell_begin(s, e, &a, f->generation);
        c->started_ms = began;
        if (is_new) /* found on the node after the run decided to redo this step */
            cell_void(s, c, is_voided(s, f->scope, f->step));
        struct state_run *r = run_find(s, e->run);
        if (r && f->generation > r->generation)
            r->generation = f->generation;
        if (r && f->generation > r->begun)
            r->begun = f->generation;
    } else if (f->adopted) { /* it was found alive */
        c->started_ms = began;
    }
    if (!c || !str_eq(c->attempt, f->attempt))
        return;
    const struct state_node *n = node_at(s, f->node);
    if (str_eq(c->install, n->install))
        c->boot_id = n->boot_id; /* the record was read in this boot, whenever the attempt ran */
    struct state_run *run = run_find(s, e->run);
    const bool was_ok = c->outcome == OUTCOME_OK;
    c->failures += f->outcome == OUTCOME_FAILED || f->outcome == OUTCOME_TIMED_OUT;
    c->outcome = f->outcome;
    if (run && !was_ok && f->outcome == OUTCOME_OK && str_starts(f->step, "point:") && is_last_part(s, c))
        run->points_ok++;
    c->settled = c->was_ok = false;
    c->finished_ms = e->time_ms;
    c->log_bytes = f->log_bytes;
    c->dropped_bytes = f->dropped_bytes;
    c->dropped_by = keep(s, f->dropped_by);
    c->cause = f->cause;
    c->cause_rank = f->cause_rank;
    c->cause_value = f->cause_value;
    c->tail = arena_strdup(s->arena, f->tail);
    c->metrics = arena_strdup(s->arena, f->metrics);
}

static void apply_settled(struct state *s, const struct event *e)
{
    const struct event_settled *settled = &e->settled;
    const struct index *x = s->index;
    const struct state_node *n = node_at(s, settled->node);
    const char *boot_id = settled->boot_id ? settled->boot_id : n->boot_id;
    for (uint32_t i = x->node_first[settled->node]; i; i = x->cell_next[i - 1]) {
        struct state_cell *c = &s->cells[i - 1];
        if (c->outcome == OUTCOME_OK && str_eq(c->install, n->install) && str_eq(c->boot_id, boot_id))
            c->settled = true;
    }
}

/* 0: the generation after the latest. */
static void begin_generation(struct state_run *r, uint32_t generation)
{
    if (!generation)
        r->generation++;
    else if (generation > r->generation)
        r->generation = generation;
    r->own_generation = r->generation;
}

static void apply_restart(struct state *s, const struct event *e)
{
    struct state_run *r = run_find(s, e->run);
    if (!r || r->status != RUN_OPEN)
        return;
    r->restarts++;
    r->own_restarts += e->restart.uncounted;
    r->resume_ms = e->restart.backoff_ms ? e->time_ms + e->restart.backoff_ms : 0;
    begin_generation(r, e->restart.generation);
}

static void apply_reissue(struct state *s, const struct event *e)
{
    struct state_run *r = run_find(s, e->run);
    if (r && r->status == RUN_OPEN)
        begin_generation(r, e->reissue.generation);
}

static void add_ignored(struct state *s, struct state_run *r, const struct event_rule *counted)
{
    if (counted->generation != r->ignored_generation)
        r->ignored_count = 0;
    r->ignored_generation = counted->generation;
    if ((r->ignored_count & (r->ignored_count - 1)) == 0) {
        struct state_ignored *more = arena_array(s->arena, r->ignored_count ? r->ignored_count * 2u : 1, sizeof *more);
        if (r->ignored_count)
            memcpy(more, r->ignored, r->ignored_count * sizeof *more);
        r->ignored = more;
    }
    r->ignored[r->ignored_count++] = (struct state_ignored){counted->node, counted->cause_rank};
}

static void apply_rule(struct state *s, const struct event *e)
{
    const struct event_rule *counted = &e->rule;
    struct state_run *r = run_find(s, e->run);
    struct state_rule *rule = NULL;
    if (!r || r->status != RUN_OPEN)
        return;
    const char *id = keep(s, counted->rule_id);
    for (uint32_t i = 0; i < r->rule_count; i++)
        if (r->rules[i].id == id)
            rule = &r->rules[i];
    if (!rule) { /* grown one by one: a spec has at most SPEC_RULES_MAX */
        struct state_rule *more = arena_array(s->arena, r->rule_count + 1u, sizeof *more);
        if (r->rule_count)
            memcpy(more, r->rules, r->rule_count * sizeof *more);
        r->rules = more;
        rule = &more[r->rule_count++];
        *rule = (struct state_rule){.id = id};
    }
    rule->number = counted->rule;
    rule->times++;
    rule->action = spec_actions[counted->action];
    rule->reason = keep(s, counted->reason);
    if (counted->action == RULE_IGNORE && !counted->line)
        add_ignored(s, r, counted);
    if (counted->action == RULE_IGNORE || counted->generation == 0 ||
        (r->verdict.generation && r->verdict.generation >= counted->generation))
        return;
    r->verdict = (struct state_verdict){.generation = counted->generation,
                                        .rule = counted->rule,
                                        .left = counted->left,
                                        .node = counted->node,
                                        .rank = counted->cause_rank,
                                        .action = counted->action,
                                        .reason = rule->reason,
                                        .line = keep(s, counted->line),
                                        .backoff_ms = counted->backoff_ms};
}

/* Events have their values in one order, so the wanted metric usually follows the last one found. */
static struct state_metric *metric_at(struct state *s, struct state_run *r, const char *name, uint32_t rank,
                                      uint32_t *from)
{
    for (uint32_t i = 0, k = *from; i < r->metric_count; i++, k++) {
        if (k >= r->metric_count)
            k = 0;
        if (r->metrics[k].rank == rank && r->metrics[k].name == name) {
            *from = k + 1;
            return &r->metrics[k];
        }
    }
    if (r->metric_count >= EVENT_METRICS_MAX)
        return NULL;
    if ((r->metric_count & (r->metric_count - 1)) == 0) { /* old copies are freed with the arena */
        struct state_metric *more = arena_array(s->arena, r->metric_count ? r->metric_count * 2u : 1, sizeof *more);
        if (r->metric_count)
            memcpy(more, r->metrics, r->metric_count * sizeof *more);
        r->metrics = more;
    }
    r->metrics[r->metric_count] = (struct state_metric){.name = name, .rank = rank};
    *from = r->metric_count + 1;
    return &r->metrics[r->metric_count++];
}

static void apply_metrics(struct state *s, const struct event *e)
{
    const struct event_metrics *values = &e->metrics;
    struct state_run *r = run_find(s, e->run);
    uint32_t from = 0;
    for (uint32_t i = 0; r && i < values->count; i++) {
        struct state_metric *m = metric_at(s, r, keep(s, values->items[i].name), values->items[i].rank, &from);
        if (!m)
            return;
        snprintf(m->value, sizeof m->value, "%s", values->items[i].value);
        m->count = values->items[i].count;
        m->time_ms = e->time_ms;
    }
}

static void apply_run_reopened(struct state *s, const struct event *e)
{
    const struct event_asked *asked = &e->reopened;
    struct state_run *r = run_find(s, e->run);
    if (!r || (r->status != RUN_OPEN && state_run_open(s)))
        return;
    r->status = RUN_OPEN;
    r->fetching = true;
    r->cancelling = false;
    r->closed_ms = 0;
    r->exit_status = 0;
    r->message = NULL;
    r->spec_path = asked->spec_path ? keep(s, asked->spec_path) : r->spec_path;
    r->spec_hash = asked->spec_hash ? keep(s, asked->spec_hash) : r->spec_hash;
    r->plan_hash = asked->plan_hash ? keep(s, asked->plan_hash) : r->plan_hash;
    r->on = keep(s, asked->on);
    r->sets = keep_all(s, asked->sets, asked->set_count);
    r->set_count = asked->set_count;
}

static void apply_cancelling(struct state *s, const struct event *e)
{
    struct state_run *r = run_find(s, e->run);
    if (r && r->status == RUN_OPEN)
        r->cancelling = true;
}

static void apply_run_closed(struct state *s, const struct event *e)
{
    const struct event_closed *closed = &e->closed;
    struct state_run *r = run_find(s, e->run);
    if (r && r->status == RUN_CANCELLED && closed->status == RUN_CANCELLED)
        r->message = keep(s, closed->reason);
    if (!r || r->status != RUN_OPEN)
        return;
    r->status = closed->status;
    r->exit_status = closed->exit_status;
    r->message = keep(s, closed->reason);
    r->closed_ms = e->time_ms;
}

void state_apply(struct state *s, const struct event *e)
{
    assert(e->run || e->type == EVENT_NOTE);
    if (e->seq > s->last_seq)
        s->last_seq = e->seq;
    switch (e->type) {
    case EVENT_RUN_OPENED:
        assert(e->opened.node_count <= EVENT_NODE_MAX);
        apply_run_opened(s, e);
        break;
    case EVENT_NODE_BOUND:
        assert(e->bound.node < EVENT_NODE_MAX && e->bound.install && e->bound.boot_id);
        apply_node_bound(s, e);
        break;
    case EVENT_STARTED:
        apply_started(s, e);
        break;
    case EVENT_FINISHED:
        assert(e->finished.node < EVENT_NODE_MAX && e->finished.scope && e->finished.step && e->finished.attempt);
        assert(e->finished.outcome != OUTCOME_NONE);
        apply_finished(s, e);
        break;
    case EVENT_SETTLED:
        assert(e->settled.node < EVENT_NODE_MAX);
        apply_settled(s, e);
        break;
    case EVENT_RESTART:
        apply_restart(s, e);
        break;
    case EVENT_REISSUE:
        apply_reissue(s, e);
        break;
    case EVENT_CANCELLING:
        apply_cancelling(s, e);
        break;
    case EVENT_RUN_CLOSED:
        apply_run_closed(s, e);
        break;
    case EVENT_RUN_REOPENED:
        apply_run_reopened(s, e);
        break;
    case EVENT_RULE:
        assert(e->rule.rule && e->rule.rule_id);
        apply_rule(s, e);
        break;
    case EVENT_METRICS:
        apply_metrics(s, e);
        break;
    case EVENT_INSTALLED:
        assert(e->installed.node < EVENT_NODE_MAX && e->installed.digest);
        installed_apply(s->arena, node_at(s, e->installed.node), keep(s, e->installed.role),
                        keep(s, e->installed.digest));
        break;
    case EVENT_NOTE:
        break;
    }
}
