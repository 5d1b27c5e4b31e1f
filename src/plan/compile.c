/*
 * From a spec to steps with keys. The kinds define the steps; this file makes names unique, brings inputs into
 * canonical form, and computes the keys and the plan's hash. A step's key is computed when a later step chains to it,
 * so its inputs are complete by then.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- canonical text ---- */

static void put_counted(struct buf *b, const char *s)
{
    buf_printf(b, "%zu:", strlen(s));
    buf_puts(b, s);
}

static int by_name(const void *a, const void *b)
{
    const struct plan_input *x = *(const struct plan_input *const *)a, *y = *(const struct plan_input *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->value, y->value);
}

/* An edge identifies its step by the step's key; the name is only for the reason, so renaming a step makes no other
 * step stale. */
static const char *name_in_key(const char *name)
{
    return str_starts(name, "after ") ? "after" : name;
}

void builder_seal(struct plan_builder *b, struct plan_step *s)
{
    if (s->key)
        return;
    const struct plan_input **sorted = xcalloc(s->input_count + 1, sizeof *sorted);
    for (size_t i = 0; i < s->input_count; i++)
        sorted[i] = &s->inputs[i];
    qsort(sorted, s->input_count, sizeof *sorted, by_name);
    struct buf text = {0};
    buf_printf(&text, "rhrun step 1\n%s %u\n", s->kind->name, s->kind->version);
    for (size_t i = 0; i < s->input_count; i++) {
        put_counted(&text, name_in_key(sorted[i]->name));
        put_counted(&text, sorted[i]->value);
    }
    char *key = arena_alloc(b->arena, 65);
    digest_sha256_hex(text.data, text.len, key);
    s->key = key;
    buf_free(&text);
    free(sorted);
}

/* ---- for step kinds ---- */

struct arena *plan_arena(struct plan_builder *b)
{
    return b->arena;
}

const struct plan_sources *plan_sources_of(struct plan_builder *b)
{
    return b->plan->sources;
}

const struct spec *plan_spec_of(struct plan_builder *b)
{
    return b->plan->spec;
}

const struct expr_role *plan_placed_of(struct plan_builder *b)
{
    return b->plan->placed;
}

void plan_wait(struct plan_builder *b, struct plan_step *s, const struct plan_step *other, bool started)
{
    struct plan_wait *waits = arena_array(b->arena, s->wait_count + 1, sizeof *waits);
    if (s->wait_count)
        memcpy(waits, s->waits, s->wait_count * sizeof *waits);
    waits[s->wait_count++] = (struct plan_wait){other->id, started};
    s->waits = waits;
}

struct plan_step *plan_at(struct plan_builder *b, size_t i)
{
    return i < b->count ? b->steps[i] : NULL;
}

static void check_name(struct plan_builder *b, const char *name)
{
    if (b->failed.code)
        return;
    if (!*name || strlen(name) > PLAN_NAME_MAX) {
        error_set(&b->failed, ERROR_SPEC, "the name of step \"%.40s\" has more than %d bytes", name, PLAN_NAME_MAX);
        return;
    }
    for (size_t i = 0; i < b->count; i++)
        if (str_eq(b->steps[i]->name, name)) {
            error_set(&b->failed, ERROR_SPEC, "two steps are named \"%s\"", name);
            error_hint(&b->failed, "give the item of `setup` another name; sync, activate, python, prolog, launch, "
                                   "epilog, result, files-N, restore-N and outputs-N are names of rhrun's own steps");
            return;
        }
}

struct plan_step *plan_add(struct plan_builder *b, const struct step_kind *kind, const char *name, const char *title)
{
    if (b->count >= PLAN_STEPS_MAX && !b->failed.code)
        error_set(&b->failed, ERROR_SPEC, "%s: the job has more than %d steps, with \"%.100s\"", b->plan->spec->path,
                  PLAN_STEPS_MAX, name);
    check_name(b, name);
    if (b->count == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 16;
        b->steps = xreallocarray(b->steps, b->cap, sizeof *b->steps);
        b->input_caps = xreallocarray(b->input_caps, b->cap, sizeof *b->input_caps);
        b->reach = xreallocarray(b->reach, b->cap, sizeof *b->reach);
    }
    const struct spec *spec = b->plan->spec;
    bool setup = kind->phase == PHASE_SETUP;
    struct plan_step *s = arena_alloc(b->arena, sizeof *s);
    s->id = (uint32_t)b->count;
    s->kind = kind;
    s->name = arena_strdup(b->arena, name);
    s->label = s->name;
    s->title = arena_strdup(b->arena, title ? title : "");
    s->slot = setup ? arena_printf(b->arena, "setup:%s", name) : s->name;
    s->scope = setup && spec_in_place(spec) ? "" : spec->variant;
    b->input_caps[b->count] = 0;
    b->reach[b->count] = NULL;
    b->steps[b->count++] = s;
    if (!kind->sync && !kind->fetch && b->containers)
        plan_input(b, s, "container", b->containers);
    return s;
}

void plan_on_all(struct plan_builder *b, struct plan_step *s)
{
    s->on = b->all;
    s->on_count = b->plan->node_count;
}

void plan_on_nodes(struct plan_builder *b, struct plan_step *s, const uint32_t *nodes, size_t count)
{
    uint32_t n = b->plan->node_count;
    bool *on = arena_array(b->arena, (size_t)n + 1, sizeof *on);
    s->on_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (nodes[i] >= n && !b->failed.code)
            error_set(&b->failed, ERROR_SPEC, "step \"%s\" is to run on node %u, but there are only %u", s->name,
                      nodes[i], n);
        if (nodes[i] < n && !on[nodes[i]]) {
            on[nodes[i]] = true;
            s->on_count++;
        }
    }
    s->on = on;
}

void plan_input(struct plan_builder *b, struct plan_step *s, const char *name, const char *value)
{
    size_t *cap = &b->input_caps[s->id];
    if (s->input_count == *cap) { /* the old copies in the arena are smaller than the new array */
        size_t wider = *cap ? 2 * *cap : 8;
        struct plan_input *inputs = arena_array(b->arena, wider, sizeof *inputs);
        if (s->input_count)
            memcpy(inputs, s->inputs, s->input_count * sizeof *inputs);
        s->inputs = inputs;
        *cap = wider;
    }
    const char *kept;
    if (strlen(value) > PLAN_VALUE_MAX && !(str_starts(value, "sha256:") && strlen(value) == 71)) {
        char hex[65];
        digest_sha256_hex(value, strlen(value), hex);
        kept = arena_printf(b->arena, "sha256:%s", hex);
    } else {
        kept = arena_strdup(b->arena, value);
    }
    s->inputs[s->input_count++] = (struct plan_input){arena_strdup(b->arena, name), kept};
}

int plan_expand(struct plan_builder *b, const struct spec_text *text, enum expr_mode mode, const char **ret,
                struct error *err)
{
    if (!text->text || !text->has_expr) {
        *ret = text->text ? text->text : "";
        return 0;
    }
    struct expr_context ctx = {.spec = b->plan->spec};
    if (expr_expand(text, mode, &ctx, true, b->arena, ret, err) == EXPR_OK)
        return 0;
    const struct place *p = &text->place;
    if (p->source)
        error_prefix(err, "%s:%u:%u", p->source->name, p->line, p->column);
    return -1;
}

int plan_input_text(struct plan_builder *b, struct plan_step *s, const char *name, const struct spec_text *text,
                    enum expr_mode mode, struct error *err)
{
    const char *value;
    if (plan_expand(b, text, mode, &value, err) < 0)
        return -1;
    plan_input(b, s, name, value);
    return 0;
}

static void merge_reach(const struct plan_builder *b, uint64_t *into, uint32_t earlier)
{
    const uint64_t *from = b->reach[earlier];
    for (size_t i = 0; from && i <= earlier / 64; i++)
        into[i] |= from[i];
    into[earlier / 64] |= UINT64_C(1) << earlier % 64;
}

void plan_input_after(struct plan_builder *b, struct plan_step *s, const struct plan_step *earlier)
{
    struct plan_step *e = b->steps[earlier->id];
    if (!b->reach[s->id])
        b->reach[s->id] = arena_array(b->arena, s->id / 64 + 1, sizeof **b->reach);
    merge_reach(b, b->reach[s->id], e->id);
    builder_seal(b, e);
    const char *value = arena_printf(b->arena, "sha256:%s", e->key);
    plan_input(b, s, arena_printf(b->arena, "after %s", e->name), value);
}

bool plan_share_node(struct plan_builder *b, const struct plan_step *s, const struct plan_step *other)
{
    for (uint32_t n = 0; n < b->plan->node_count; n++)
        if ((!s->on || s->on[n]) && (!other->on || other->on[n]))
            return true;
    return false;
}

void plan_input_after_all(struct plan_builder *b, struct plan_step *s,
                          bool (*counts)(struct plan_builder *b, const struct plan_step *s,
                                         const struct plan_step *earlier))
{
    uint64_t *reached = xcalloc(s->id / 64 + 1, sizeof *reached);
    bool *edge = xcalloc((size_t)s->id + 1, sizeof *edge);
    for (uint32_t i = s->id; i-- > 0;) {
        if (reached[i / 64] >> i % 64 & 1 || (counts && !counts(b, s, b->steps[i])))
            continue;
        edge[i] = true;
        merge_reach(b, reached, i);
    }
    for (uint32_t i = 0; i < s->id; i++)
        if (edge[i])
            plan_input_after(b, s, b->steps[i]);
    free(reached);
    free(edge);
}

/* Not by host: a job may move between hosts with the same container. */
static const char *containers_of(const struct plan *plan, struct arena *arena)
{
    const struct spec_container *last = NULL;
    struct buf b = {0};
    for (uint32_t n = 0; n < plan->node_count; n++) {
        const struct spec_container *c = roster_host(plan->roster, n)->container;
        if (c && c != last && (!b.len || !strstr(b.data, c->text)))
            buf_puts(&b, c->text);
        last = c;
    }
    const char *text = b.len ? arena_strdup(arena, b.data) : NULL;
    buf_free(&b);
    return text;
}

/* ---- the whole ---- */

/* Everything that determines the launch's result: keys, and where the steps run. */
static const char *hash_steps(const struct plan *plan, enum plan_phase last, struct arena *arena)
{
    struct buf text = {0};
    buf_printf(&text, "rhrun plan 1\n%u\n", plan->node_count);
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *s = &plan->steps[i];
        if (s->kind->phase > last)
            continue;
        buf_printf(&text, "%s ", s->key);
        if (s->on_count == plan->node_count)
            buf_puts(&text, "all");
        else
            for (uint32_t n = 0; n < plan->node_count; n++)
                if (s->on[n])
                    buf_printf(&text, "%u,", n);
        buf_putc(&text, '\n');
    }
    char *hash = arena_alloc(arena, 65);
    digest_sha256_hex(text.data, text.len, hash);
    buf_free(&text);
    return hash;
}

int builder_ask(struct plan_builder *b, const struct step_kind *const *kinds, struct error *err)
{
    for (; *kinds; kinds++) {
        if (b->part != PART_ALL && ((*kinds)->phase == PHASE_SETUP) != (b->part == PART_SETUP))
            continue;
        if ((*kinds)->plan && (*kinds)->plan(b, b->plan->spec, err) < 0)
            return -1;
        if (b->failed.code) {
            if (err)
                *err = b->failed;
            return -1;
        }
    }
    return 0;
}

void builder_free(struct plan_builder *b)
{
    free(b->steps);
    free(b->input_caps);
    free(b->reach);
}

int plan_compile(const struct spec *spec, const struct roster *roster, const struct step_kind *const *kinds,
                 const struct plan_sources *sources, const struct plan_facts *facts, struct arena *arena,
                 struct plan **ret_plan, struct error *err)
{
    static const struct plan_sources no_sources = {0};
    if (spec->nnodes == 0 || spec->nnodes > roster_count(roster))
        return error_set(err, ERROR_SPEC, "the job needs %u nodes, and the spec names %u hosts", spec->nnodes,
                         roster_count(roster));
    struct plan *plan = arena_alloc(arena, sizeof *plan);
    plan->spec = spec;
    plan->roster = roster;
    plan->arena = arena;
    plan->sources = sources ? sources : &no_sources;
    plan->node_count = spec->nnodes;
    plan->nproc = arena_array(arena, plan->node_count, sizeof *plan->nproc);
    struct plan_builder b = {.plan = plan, .arena = arena, .part = spec->sweep ? PART_SETUP : PART_ALL};
    b.all = arena_array(arena, plan->node_count, sizeof *b.all);
    memset(b.all, true, plan->node_count);

    b.containers = containers_of(plan, arena);
    ranks_of_roles_place(plan, arena);
    /* 1. the kinds add their steps, in the table's order */
    int rc = builder_ask(&b, kinds, err);
    /* 2. the steps move to their final place, phase by phase in that order, and get their keys */
    if (rc == 0) {
        plan->step_count = b.count;
        plan->steps = arena_array(arena, b.count + 1, sizeof *plan->steps);
        for (size_t i = 0; i < b.count; i++) {
            if (!b.steps[i]->on)
                plan_on_all(&b, b.steps[i]);
            builder_seal(&b, b.steps[i]);
            plan->steps[i] = *b.steps[i];
        }
        /* 3. each point of a sweep adds its own */
        if (spec->sweep)
            rc = points_compile(&b, kinds, err);
        /* 4. the hashes of the whole plan */
        plan->hash = hash_steps(plan, PHASE_OUTPUTS, arena);
        plan->job_hash = hash_steps(plan, PHASE_EPILOG, arena);
    }
    builder_free(&b);
    /* 5. the rank table, as far as counts are known */
    if (rc < 0 || (!spec->sweep && plan_bind_ranks(plan, facts, arena, err) < 0))
        return -1;
    *ret_plan = plan;
    return 0;
}
