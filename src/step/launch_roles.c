/*
 * A launch of several roles. Roles without special needs start together, as one step with the workers of all of them. A
 * role that waits, is waited for, is a sidecar, or has its own world or set-up is a separate step. All these steps have
 * the same inputs, so a launch is redone as a whole.
 */
#include "launch.h"

#include <ctype.h>
#include <string.h>

bool step_is_launch(const char *name)
{
    size_t len = strlen(step_kind_launch.name);
    return (str_starts(name, step_kind_launch.name) && (!name[len] || name[len] == ':')) || str_starts(name, "point:");
}

/* ---- which roles start together ---- */

static bool same_text(const struct spec_text *a, const struct spec_text *b)
{
    return str_eq(a->text ? a->text : "", b->text ? b->text : "");
}

static bool awaits_ready(const struct spec *spec, uint32_t role)
{
    for (size_t i = 0; i < spec->role_count; i++)
        for (size_t k = 0; k < spec->roles[i].after_count; k++)
            if (spec->roles[i].after[k].role == role && spec->roles[i].after[k].ready)
                return true;
    return false;
}

static bool is_awaited(const struct spec *spec, uint32_t role)
{
    for (size_t i = 0; i < spec->role_count; i++)
        for (size_t k = 0; k < spec->roles[i].after_count; k++)
            if (spec->roles[i].after[k].role == role)
                return true;
    return false;
}

/* `first` is the first of the roles that start together, or NULL. A RUN has one folder, one Python and one time
 * limit. */
static bool is_apart(const struct spec *spec, uint32_t role, const struct spec_role *first)
{
    const struct spec_role *r = &spec->roles[role];
    return r->after_count > 0 || r->sidecar || r->world == WORLD_OWN || r->own_setup || is_awaited(spec, role) ||
           (first && (!same_text(&r->entrypoint.cwd, &first->entrypoint.cwd) ||
                      r->entrypoint.timeout_ms != first->entrypoint.timeout_ms));
}

/* ---- inputs ---- */

static const char *workers_text(struct arena *arena, const struct spec_role *r)
{
    return r->nnodes ? arena_printf(arena, "%u nodes with %s", r->nnodes, launch_nproc_text(arena, &r->nproc))
                     : arena_printf(arena, "%u", r->count);
}

static void input_place(struct plan_builder *b, struct plan_step *s, const struct spec *spec, const struct spec_role *r,
                        const char *prefix)
{
    static const char *const worlds[] = {"job", "own", "none"};
    struct arena *arena = plan_arena(b);
    struct buf text = {0};
    plan_input(b, s, arena_printf(arena, "%sworkers", prefix), workers_text(arena, r));
    plan_input(b, s, arena_printf(arena, "%sworld", prefix), worlds[r->world]);
    if (r->peer != SPEC_NO_ROLE)
        plan_input(b, s, arena_printf(arena, "%speer", prefix),
                   arena_printf(arena, "%s by %s", spec->roles[r->peer].name, r->by == BY_STRIDE ? "stride" : "block"));
    for (size_t i = 0; i < r->node_count; i++)
        buf_printf(&text, "%s%u", i ? "," : "", r->nodes[i]);
    if (text.len)
        plan_input(b, s, arena_printf(arena, "%snodes", prefix), text.data);
    buf_clear(&text);
    for (size_t i = 0; i < r->after_count; i++)
        buf_printf(&text, "%s%s %s", i ? ", " : "", spec->roles[r->after[i].role].name,
                   r->after[i].ready ? "ready" : "done");
    if (text.len)
        plan_input(b, s, arena_printf(arena, "%safter", prefix), text.data);
    if (r->sidecar)
        plan_input(b, s, arena_printf(arena, "%ssidecar", prefix), "true");
    buf_free(&text);
}

static bool is_setup(struct plan_builder *b, const struct plan_step *s, const struct plan_step *earlier)
{
    (void)b;
    (void)s;
    return earlier->kind->phase != PHASE_LAUNCH && !earlier->kind->restores;
}

static int input_roles(struct plan_builder *b, struct plan_step *s, const struct spec *spec, struct error *err)
{
    struct arena *arena = plan_arena(b);
    launch_input_layout(b, s, spec);
    if (step_input_env(b, s, "env", spec->env, spec->env_count, err) < 0)
        return -1;
    for (size_t i = 0; i < spec->role_count; i++) {
        const struct spec_role *r = &spec->roles[i];
        const char *prefix = arena_printf(arena, "%s.", r->name);
        input_place(b, s, spec, r, prefix);
        if (launch_input_entry(b, s, prefix, r, err) < 0 ||
            step_input_env(b, s, arena_printf(arena, "%senv", prefix), r->env, r->env_count, err) < 0 ||
            step_input_env(b, s, arena_printf(arena, "%sentrypoint.env", prefix), r->entrypoint.env,
                           r->entrypoint.env_count, err) < 0) {
            error_prefix(err, "role \"%s\"", r->name);
            return -1;
        }
    }
    plan_input_after_all(b, s, is_setup);
    return 0;
}

/* ---- steps ---- */

static int describe(struct plan_builder *b, const struct spec *spec, const struct step_part *part, struct plan_step *s,
                    struct error *err)
{
    struct buf command = {0}, title = {0};
    int rc = 0;
    for (size_t i = 0; i < part->count && rc == 0; i++) {
        const struct spec_role *r = &spec->roles[part->roles[i]];
        struct buf words = {0};
        buf_puts(&title, i ? ", " : "");
        if (r->counted)
            buf_printf(&title, "%u ", r->count);
        buf_puts(&title, r->name);
        rc = launch_describe(b, r, &words, err);
        buf_printf(&command, "%s%s: %s", i ? "\n" : "", r->name, words.data ? words.data : "");
        buf_free(&words);
    }
    s->title = arena_strdup(plan_arena(b), title.data);
    s->command = arena_strdup(plan_arena(b), command.data);
    buf_free(&command);
    buf_free(&title);
    return rc;
}

/* NULL when its roles have no workers, or after an error. */
static struct plan_step *add_part(struct plan_builder *b, const struct spec *spec, const char *name,
                                  const struct step_part *part, int *ret_rc, struct error *err)
{
    const struct expr_role *placed = plan_placed_of(b);
    struct arena *arena = plan_arena(b);
    size_t count = 0;
    for (size_t i = 0; i < part->count; i++)
        count += placed[part->roles[i]].node_count;
    if (count == 0)
        return NULL;
    uint32_t *nodes = arena_array(arena, count, sizeof *nodes);
    count = 0;
    for (size_t i = 0; i < part->count; i++)
        for (uint32_t n = 0; n < placed[part->roles[i]].node_count; n++)
            nodes[count++] = placed[part->roles[i]].nodes[n];
    struct plan_step *s = plan_add(b, &step_kind_launch, name, "");
    s->item = part;
    s->role = part->role;
    plan_on_nodes(b, s, nodes, count);
    s->timeout_ms = spec->roles[part->roles[0]].entrypoint.timeout_ms;
    s->sidecar = spec->roles[part->roles[0]].sidecar;
    plan_input(b, s, "part", name);
    *ret_rc = describe(b, spec, part, s, err) < 0 || input_roles(b, s, spec, err) < 0 ? -1 : 0;
    return s;
}

static struct step_part *part_create(struct arena *arena, size_t room)
{
    struct step_part *part = arena_alloc(arena, sizeof *part);
    part->roles = arena_array(arena, room, sizeof *part->roles);
    return part;
}

static void wait_for_others(struct plan_builder *b, const struct spec *spec, struct plan_step *const *steps,
                            struct plan_step *const *ready)
{
    for (size_t i = 0; i < spec->role_count; i++)
        for (size_t k = 0; steps[i] && k < spec->roles[i].after_count; k++) {
            const struct spec_after *after = &spec->roles[i].after[k];
            const struct plan_step *other = after->ready ? ready[after->role] : steps[after->role];
            if (other) /* otherwise the role has no workers */
                plan_wait(b, steps[i], other, false);
        }
}

int launch_plan_roles(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    struct arena *arena = plan_arena(b);
    struct plan_step **steps = arena_array(arena, spec->role_count, sizeof *steps);
    struct plan_step **ready = arena_array(arena, spec->role_count, sizeof *ready);
    struct step_part *together = part_create(arena, spec->role_count);
    const struct spec_role *first = NULL;
    bool *apart = arena_array(arena, spec->role_count, sizeof *apart);
    int rc = 0;
    for (uint32_t i = 0; i < spec->role_count; i++) {
        apart[i] = is_apart(spec, i, first);
        if (apart[i] || plan_placed_of(b)[i].node_count == 0)
            continue;
        first = first ? first : &spec->roles[i];
        together->roles[together->count++] = i;
    }
    add_part(b, spec, step_kind_launch.name, together, &rc, err);
    for (uint32_t i = 0; i < spec->role_count && rc == 0; i++) {
        struct step_part *alone = part_create(arena, 1);
        alone->roles[alone->count++] = i;
        alone->role = &spec->roles[i];
        if (apart[i])
            steps[i] = add_part(b, spec, arena_printf(arena, "%s:%s", step_kind_launch.name, spec->roles[i].name),
                                alone, &rc, err);
    }
    for (uint32_t i = 0; i < spec->role_count && rc == 0; i++)
        if (steps[i] && spec->roles[i].ready.kind != READY_NO && awaits_ready(spec, i))
            rc = step_ready_plan(b, spec, i, steps[i], &ready[i], err);
    if (rc == 0)
        wait_for_others(b, spec, steps, ready);
    return rc;
}

/* ---- building: the environment ---- */

static const char *address_of(const struct launch *l, uint32_t node)
{
    return l->bind->nodes ? l->bind->nodes[node].address : NULL;
}

const char *step_role_addrs(const struct plan *plan, uint32_t role, const struct step_node *nodes, struct arena *arena)
{
    const struct expr_role *placed = &plan->placed[role];
    struct buf list = {0};
    for (uint32_t i = 0; nodes && i < placed->node_count && list.len <= STEP_ADDRS_MAX; i++) {
        const char *address = nodes[placed->nodes[i]].address;
        buf_printf(&list, "%s%s", i ? "," : "", address ? address : "");
    }
    const char *ret = arena_strdup(arena, list.len && list.len <= STEP_ADDRS_MAX ? list.data : "");
    buf_free(&list);
    return ret;
}

/* Variables about all roles; lists of addresses as far as all of them together fit. */
static void set_roles(const struct launch *l, struct step_env *env)
{
    const struct plan *plan = l->plan;
    size_t room = STEP_ADDRS_MAX;
    for (uint32_t i = 0; i < plan->spec->role_count; i++) {
        const struct plan_role *r = &plan->roles[i];
        char *name = arena_strdup(l->arena, r->name);
        for (char *p = name; *p; p++)
            *p = (char)toupper((unsigned char)*p);
        launch_set_number(env, arena_printf(l->arena, "RHRUN_ROLE_%s_COUNT", name), r->count);
        if (r->count > 0 && plan->spec->roles[i].world == WORLD_JOB)
            step_env_set(env, arena_printf(l->arena, "RHRUN_ROLE_%s_RANKS", name),
                         r->count > 1 ? arena_printf(l->arena, "%u-%u", r->rank, r->rank + r->count - 1)
                                      : arena_printf(l->arena, "%u", r->rank));
        const char *addrs =
            l->bind->role_addrs ? l->bind->role_addrs[i] : step_role_addrs(plan, i, l->bind->nodes, l->arena);
        size_t len = strlen(addrs);
        if (len > 0 && len <= room) {
            step_env_set(env, arena_printf(l->arena, "RHRUN_ROLE_%s_ADDRS", name), addrs);
            room -= len;
        }
    }
}

/* Removes variables inherited from the process that started rhrun's agent: a worker without ranks would take them for
 * its own. */
static void unset_inherited(const struct launch *l)
{
    static const char *const names[] = {
        "PET_*",      "TORCHELASTIC_*",   "RANK",      "LOCAL_RANK", "WORLD_SIZE",      "LOCAL_WORLD_SIZE",
        "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK",  "ROLE_WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        step_run_unset(l->run, l->arena, names[i]);
}

/* ---- building: a worker ---- */

static void find_peer(const struct launch *l, const struct plan_place *p, struct step_worker *w)
{
    const struct plan *plan = l->plan;
    const struct spec_role *role = &plan->spec->roles[p->role];
    if (role->peer == SPEC_NO_ROLE)
        return;
    const struct plan_role *peers = &plan->roles[role->peer];
    if (peers->count == 0)
        return;
    uint32_t index = spec_peer_of(role->by, w->role_rank, plan->roles[p->role].count, peers->count);
    w->has_peer = true;
    w->peer_rank = peers->rank + index;
    w->peer_address = address_of(l, plan->ranks[peers->worker + index].node);
}

static int set_own(const struct launch *l, const struct step_worker *w, const struct spec_env *list, size_t count,
                   struct step_env *env, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = list[i].value.text ? list[i].value.text : "";
        if (!list[i].from_caller &&
            step_expand(l->plan, l->bind, w, &list[i].value, EXPR_PLAIN, l->arena, &value, err) != EXPR_OK) {
            error_prefix(err, "role \"%s\": env %s", w->role, list[i].name);
            return -1;
        }
        step_env_set(env, list[i].name, value);
    }
    return 0;
}

static void set_ranks(const struct launch *l, const struct plan_place *p, const struct step_worker *w,
                      struct step_env *env)
{
    const struct plan_role *r = &l->plan->roles[p->role];
    bool own = l->role->world == WORLD_OWN;
    const char *master = own ? address_of(l, r->master) : l->bind->master_address;
    const struct launch_world world = {w->world_size,
                                       w->local_world_size,
                                       p->group,
                                       p->group_count,
                                       master ? master : "127.0.0.1",
                                       own && l->bind->role_ports ? l->bind->role_ports[p->role]
                                                                  : l->bind->master_port};
    if (w->ranked) {
        launch_set_world(l, &world, env);
        launch_set_number(env, "RANK", w->rank);
    }
    step_env_set(env, "ROLE_NAME", w->role);
    launch_set_number(env, "ROLE_RANK", w->role_rank);
    launch_set_number(env, "ROLE_WORLD_SIZE", w->role_size);
    if (!w->has_peer)
        return;
    launch_set_number(env, "RHRUN_PEER_RANK", w->peer_rank);
    if (w->peer_address)
        step_env_set(env, "RHRUN_PEER_ADDR", w->peer_address);
}

static int make_worker(const struct launch *l, const struct plan_place *p, uint32_t index,
                       const struct step_env *node_env, struct wire_worker *ret, struct error *err)
{
    const struct plan_role *r = &l->plan->roles[p->role];
    struct step_env env = {.arena = l->arena};
    struct step_worker w = {.number = p->worker + index,
                            .ranked = l->role->world != WORLD_NONE,
                            .rank = p->rank + index,
                            .local_rank = p->local_rank + index,
                            .world_size = r->world_size,
                            .local_world_size = p->local_world_size,
                            .role = r->name,
                            .role_rank = p->role_rank + index,
                            .role_size = r->count};
    find_peer(l, p, &w);
    if (w.ranked && launch_set_local(l, node_env, w.local_rank, &env, err) < 0)
        return -1;
    if (set_own(l, &w, l->role->env, l->role->env_count, &env, err) < 0 ||
        set_own(l, &w, l->entry->env, l->entry->env_count, &env, err) < 0)
        return -1;
    set_ranks(l, p, &w, &env);
    if (launch_set_call(l, &w, &env, err) != EXPR_OK || launch_argv(l, node_env, &w, &ret->argv, err) != EXPR_OK)
        return -1;
    ret->rank = w.number;
    ret->local_rank = w.local_rank;
    ret->shell = l->entry->kind == ENTRY_RUN;
    ret->env = env.list;
    return 0;
}

/* ---- building: the message ---- */

/* Folders of log files are named by local ranks: workers without ranks come after those with ranks, and a role that
 * starts by itself has its own folder. */
static int set_files(const struct launch *l, const struct step_part *part, struct error *err)
{
    uint32_t next = l->plan->nproc[l->bind->node];
    for (uint32_t i = 0; i < l->run->worker_count; i++) {
        struct wire_worker *w = &l->run->workers[i];
        if (l->plan->spec->roles[l->plan->ranks[w->rank].role].world == WORLD_NONE)
            w->local_rank = next++;
    }
    if (launch_set_files(l, err) < 0)
        return -1;
    if (*l->run->log_dir && part->role)
        l->run->log_dir = arena_printf(l->arena, "%s/%s", l->run->log_dir, part->role->name);
    return 0;
}

int launch_build_roles(struct launch *l, const struct plan_step *step, struct step_env *env, struct error *err)
{
    const struct plan *plan = l->plan;
    const struct step_part *part = step->item;
    uint32_t count = 0;
    if (!plan->ranks_known || !l->bind->master_address)
        return error_set(err, ERROR_INTERNAL, "the rank table or the master's address is not known");
    for (size_t i = 0; i < part->count; i++) {
        const struct plan_place *p = plan_place_of(plan, part->roles[i], l->bind->node);
        count += p ? p->count : 0;
    }
    launch_set_defaults(l, env, plan->nproc[l->bind->node] > count ? plan->nproc[l->bind->node] : count);
    launch_set_number(env, "RHRUN_NODE_RANK", l->bind->node);
    launch_set_addresses(l, env);
    launch_set_devices(l, env);
    set_roles(l, env);
    unset_inherited(l);
    l->run->env = env->list;
    l->run->workers = arena_array(l->arena, (size_t)count + 1, sizeof *l->run->workers);
    for (size_t i = 0; i < part->count; i++) {
        const struct plan_place *p = plan_place_of(plan, part->roles[i], l->bind->node);
        l->role = &plan->spec->roles[part->roles[i]];
        l->entry = &l->role->entrypoint;
        for (uint32_t k = 0; p && k < p->count; k++)
            if (make_worker(l, p, k, env, &l->run->workers[l->run->worker_count++], err) < 0)
                return -1;
    }
    return set_files(l, part, err);
}
