/* Shared by the kinds: inputs and titles while planning; environments and expressions while building. */
#include "internal.h"

#include <ctype.h>
#include <string.h>

/* ---- planning ---- */

static int input_variable(struct plan_builder *b, struct plan_step *s, const char *prefix, const struct spec_env *env,
                          struct error *err)
{
    const char *name = arena_printf(plan_arena(b), "%s %s", prefix, env->name);
    const char *value = env->value.text ? env->value.text : "";
    char hex[65];
    if (!env->from_caller)
        return plan_input_text(b, s, name, &env->value, EXPR_PLAIN, err);
    digest_sha256_hex(value, strlen(value), hex);
    plan_input(b, s, name, arena_printf(plan_arena(b), "sha256:%s", hex));
    return 0;
}

int step_input_env(struct plan_builder *b, struct plan_step *s, const char *prefix, const struct spec_env *env,
                   size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (input_variable(b, s, prefix, &env[i], err) < 0)
            return -1;
    return 0;
}

bool step_sets(const struct spec_env *env, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(env[i].name, name))
            return true;
    return false;
}

int step_input_item_env(struct plan_builder *b, struct plan_step *s, const struct spec_role *role, struct error *err)
{
    const struct spec *spec = plan_spec_of(b);
    for (size_t i = 0; i < spec->env_count; i++)
        if (!(role && step_sets(role->env, role->env_count, spec->env[i].name)) &&
            input_variable(b, s, "env", &spec->env[i], err) < 0)
            return -1;
    return role ? step_input_env(b, s, "env", role->env, role->env_count, err) : 0;
}

int step_input_texts(struct plan_builder *b, struct plan_step *s, const char *name, const struct spec_texts *texts,
                     struct error *err)
{
    struct buf json = {0};
    int rc = 0;
    buf_putc(&json, '[');
    for (size_t i = 0; i < texts->count && rc == 0; i++) {
        const char *value;
        rc = plan_expand(b, &texts->items[i], EXPR_PLAIN, &value, err);
        if (i)
            buf_putc(&json, ',');
        if (rc == 0)
            buf_json_string(&json, value, strlen(value));
    }
    buf_putc(&json, ']');
    if (rc == 0)
        plan_input(b, s, name, json.data);
    buf_free(&json);
    return rc;
}

/* Whether s uses the result of an earlier step on its nodes: not a result of another role, nor the job's Python if s
 * has its own. */
static bool finds(struct plan_builder *b, const struct plan_step *s, const struct plan_step *earlier)
{
    if (earlier->role == s->role)
        return true;
    return !earlier->role && !earlier->kind->is_python && plan_share_node(b, s, earlier);
}

static bool counts(struct plan_builder *b, const struct plan_step *s, const struct plan_step *earlier)
{
    if (earlier->kind->restores) /* restored files are results of the launch, not inputs */
        return false;
    return s->kind->phase != PHASE_SETUP || finds(b, s, earlier);
}

void step_input_after_all(struct plan_builder *b, struct plan_step *s)
{
    plan_input_after_all(b, s, counts);
}

static bool makes_env(struct plan_builder *b, const struct plan_step *s, const struct plan_step *earlier)
{
    return earlier->kind->makes_env && finds(b, s, earlier);
}

void step_input_after_env(struct plan_builder *b, struct plan_step *s)
{
    plan_input_after_all(b, s, makes_env);
}

const char *step_title(struct arena *arena, const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strcspn(text, "\n"), rest = len + strspn(text + len, " \t\r\n");
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    return arena_printf(arena, "%.*s%s", (int)(len > 400 ? 400 : len), text, text[rest] || len > 400 ? " ..." : "");
}

/* ---- environments ---- */

static bool names(const char *assignment, const char *name, size_t len)
{
    return strncmp(assignment, name, len) == 0 && assignment[len] == '=';
}

const char *step_env_get(const struct step_env *e, const char *name)
{
    size_t len = strlen(name);
    for (uint32_t i = 0; i < e->list.count; i++)
        if (names(e->list.items[i], name, len))
            return e->list.items[i] + len + 1;
    return NULL;
}

bool step_env_has(const struct step_env *e, const char *name)
{
    return step_env_get(e, name) != NULL;
}

void step_env_set(struct step_env *e, const char *name, const char *value)
{
    char *assignment = arena_printf(e->arena, "%s=%s", name, value);
    size_t len = strlen(name);
    for (uint32_t i = 0; i < e->list.count; i++)
        if (names(e->list.items[i], name, len)) {
            e->list.items[i] = assignment;
            return;
        }
    if (e->list.count == e->cap) {
        uint32_t wider = e->cap ? 2 * e->cap : 16;
        char **items = arena_array(e->arena, wider, sizeof *items);
        if (e->list.count)
            memcpy(items, e->list.items, e->list.count * sizeof *items);
        e->list.items = items;
        e->cap = wider;
    }
    e->list.items[e->list.count++] = assignment;
}

/* ---- expressions ---- */

static const char *address_of(const void *nodes, uint32_t node)
{
    return nodes ? ((const struct step_node *)nodes)[node].address : NULL;
}

struct expr_context step_context(const struct plan *plan, const struct step_bind *bind,
                                 const struct step_worker *worker)
{
    const struct step_node *n = bind->nodes ? &bind->nodes[bind->node] : NULL;
    const char *name = n && n->host ? n->host : roster_name(plan->roster, bind->node);
    struct expr_context ctx = {.spec = plan->spec,
                               .has_node = true,
                               .node_rank = bind->node,
                               .node_name = name,
                               .node_address = n && n->address ? n->address : name,
                               .run = bind->run_id,
                               .point_dir = bind->point_dir};
    ctx.roles = plan->placed;
    ctx.address_of = address_of;
    ctx.address_arg = bind->nodes;
    if (worker) {
        ctx.role = worker->role;
        ctx.role_rank = worker->role_rank;
        ctx.role_size = worker->role_size;
        ctx.has_peer = worker->has_peer;
        ctx.peer_rank = worker->peer_rank;
        ctx.peer_address = worker->peer_address;
        ctx.has_rank = worker->ranked;
        ctx.rank = worker->rank;
        ctx.local_rank = worker->local_rank;
        ctx.world_size = worker->world_size;
        ctx.local_world_size = worker->local_world_size;
    }
    return ctx;
}

enum expr_status step_expand(const struct plan *plan, const struct step_bind *bind, const struct step_worker *worker,
                             const struct spec_text *text, enum expr_mode mode, struct arena *arena, const char **ret,
                             struct error *err)
{
    if (!text->text || !text->has_expr) {
        *ret = text->text ? text->text : "";
        return EXPR_OK;
    }
    const struct expr_context ctx = step_context(plan, bind, worker);
    enum expr_status status = expr_expand(text, mode, &ctx, false, arena, ret, err);
    if (status == EXPR_FAILED && text->place.source)
        error_prefix(err, "%s:%u:%u", text->place.source->name, text->place.line, text->place.column);
    return status;
}

int step_expand_node(const struct plan *plan, const struct step_bind *bind, const struct spec_text *text,
                     enum expr_mode mode, struct arena *arena, const char **ret, struct error *err)
{
    switch (step_expand(plan, bind, NULL, text, mode, arena, ret, err)) {
    case EXPR_OK:
        return 0;
    case EXPR_FAILED:
        return -1;
    case EXPR_LATE:
        break;
    }
    return error_set(err, ERROR_SPEC, "line %u: \"%.80s\" uses a rank, but there is none here", text->place.line,
                     text->text);
}

/* ---- RUN messages ---- */

void step_run_init(const struct plan *plan, const struct plan_step *step, struct arena *arena, struct wire_run *ret_run)
{
    bool activated = plan->spec->activate.text && *plan->spec->activate.text;
    *ret_run = (struct wire_run){
        .slot = arena_strdup(arena, step->slot),
        .attempt = arena_strdup(arena, ""),
        .key = arena_strdup(arena, step->key),
        .kind = WIRE_KIND_STEP,
        .log_dir = arena_strdup(arena, ""),
        .cwd = arena_strdup(arena, ""),
        .env_in = arena_strdup(arena, activated ? STEP_ENVIRONMENT : ""),
        .env_out = arena_strdup(arena, ""),
        .creates = arena_strdup(arena, ""),
        .path_first = arena_strdup(arena, ""),
        .grace_ms = STEP_GRACE_MS,
        .log_limit_bytes = plan->spec->log_limit_bytes ? plan->spec->log_limit_bytes : SPEC_LOG_LIMIT,
    };
}

void step_run_secrets(const struct step_bind *bind, struct arena *arena, struct wire_run *run)
{
    struct step_env env = {.arena = arena};
    for (size_t i = 0; i < bind->secret_count; i++) {
        const struct spec_secret *s = &bind->secrets[i];
        if (s->value)
            step_env_set(&env, s->to ? s->to : s->name, s->value);
    }
    run->secrets = env.list;
}

void step_run_unset(struct wire_run *run, struct arena *arena, const char *name)
{
    char **items = arena_array(arena, run->unset.count + 1, sizeof *items);
    if (run->unset.count)
        memcpy(items, run->unset.items, run->unset.count * sizeof *items);
    items[run->unset.count++] = arena_strdup(arena, name);
    run->unset.items = items;
}

void step_run_unset_secrets(const struct step_bind *bind, struct arena *arena, struct wire_run *run)
{
    for (size_t i = 0; i < bind->secret_count; i++) {
        step_run_unset(run, arena, bind->secrets[i].name);
        if (bind->secrets[i].to)
            step_run_unset(run, arena, bind->secrets[i].to);
    }
}

static int put_env(const struct plan *plan, const struct step_bind *bind, const struct spec_env *e,
                   struct step_env *env, bool *ret_late, struct error *err)
{
    const char *value = e->value.text ? e->value.text : "";
    enum expr_status status = EXPR_OK;
    if (!e->from_caller) /* values from the caller's environment are data */
        status = step_expand(plan, bind, NULL, &e->value, EXPR_PLAIN, env->arena, &value, err);
    *ret_late = status == EXPR_LATE;
    if (status == EXPR_FAILED) {
        error_prefix(err, "env %s", e->name);
        return -1;
    }
    if (status == EXPR_OK)
        step_env_set(env, e->name, value);
    return 0;
}

struct layer {
    const struct spec_env *list;
    size_t count;
};
enum { LAYERS_MAX = 3 };

static bool is_overridden(const struct layer *layers, size_t i, const char *name)
{
    for (i++; i < LAYERS_MAX; i++)
        if (step_sets(layers[i].list, layers[i].count, name))
            return true;
    return false;
}

int step_run_env(const struct plan *plan, const struct step_bind *bind, unsigned layers, struct step_env *env,
                 const struct spec_env ***ret_late, struct error *err)
{
    const struct spec *spec = plan->spec;
    const struct spec_role *role = bind->role;
    const struct spec_entrypoint *entry = role ? &role->entrypoint : &spec->entrypoint;
    struct layer all[LAYERS_MAX] = {{spec->env, spec->env_count}};
    if (role && layers & STEP_ENV_ROLE)
        all[1] = (struct layer){role->env, role->env_count};
    if (layers & STEP_ENV_ENTRY)
        all[2] = (struct layer){entry->env, entry->env_count};
    size_t late_count = 0;
    const struct spec_env **late =
        arena_array(env->arena, all[0].count + all[1].count + all[2].count + 1, sizeof *late);
    for (size_t i = 0; i < LAYERS_MAX; i++)
        for (size_t k = 0; k < all[i].count; k++) {
            const struct spec_env *e = &all[i].list[k];
            bool is_late;
            if (is_overridden(all, i, e->name))
                continue;
            if (put_env(plan, bind, e, env, &is_late, err) < 0)
                return -1;
            if (is_late && !ret_late && i == 0)
                return error_set(err, ERROR_SPEC, "env %s uses a rank, but there is none here", e->name);
            if (is_late)
                late[late_count++] = e;
        }
    if (ret_late)
        *ret_late = late;
    return 0;
}

const char *step_round(const struct step_bind *bind, struct arena *arena)
{
    const char *of = bind->point && bind->launch ? bind->launch : bind->run_id ? bind->run_id : "run";
    return arena_printf(arena, "%s-%u", of, bind->generation);
}

void step_run_own_env(const struct step_bind *bind, bool node_rank, struct step_env *env)
{
    if (bind->run_id)
        step_env_set(env, "RHRUN_RUN_ID", bind->run_id);
    if (bind->job_id)
        step_env_set(env, "RHRUN_JOB_ID", bind->job_id);
    if (bind->point_dir) /* the node makes the folder: wire.h */
        step_env_set(env, "RHRUN_POINT_DIR", bind->point_dir);
    if (bind->point) {
        step_env_set(env, "RHRUN_POINT", bind->point->name);
        step_env_set(env, "RHRUN_POINT_ID", bind->point->id);
    }
    if (node_rank) /* a launch sets it itself, and only if there are ranks */
        step_env_set(env, "RHRUN_NODE_RANK", arena_printf(env->arena, "%u", bind->node));
}

int step_run_shell(const struct plan *plan, const struct step_bind *bind, const struct spec_text *text,
                   struct arena *arena, struct wire_run *run, struct error *err)
{
    const char *script;
    if (step_expand_node(plan, bind, text, EXPR_SHELL, arena, &script, err) < 0)
        return -1;
    struct wire_worker *worker = arena_alloc(arena, sizeof *worker);
    worker->shell = 1;
    worker->argv.items = arena_array(arena, 1, sizeof *worker->argv.items);
    worker->argv.items[0] = arena_strdup(arena, script);
    worker->argv.count = 1;
    run->workers = worker;
    run->worker_count = 1;
    return 0;
}
