/*
 * ready: when a role counts as ready. A port or a command is checked on the role's nodes, by a RUN that ends well once
 * the check succeeds; a line of output is found by the controller, which sees all output.
 */
#include "launch.h"

#include <string.h>

struct ready { /* item */
    uint32_t role;
    const struct plan_step *launch;
};

/* $1 is the port in hexadecimal: /proc/net/tcp and tcp6 list sockets that listen with state 0A. */
static const char look_for_port[] =
    "until grep -qiE \"^ *[0-9]+: [0-9A-F]+:$1 [0-9A-F]+:0000 0A \" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do\n"
    "    sleep 0.1 2>/dev/null || sleep 1\n"
    "done\n";
/* $1 is the command, $2 the shell that runs it. */
static const char try_command[] = "until \"$2\" -e -c \"$1\" rhrun >/dev/null 2>&1 </dev/null; do\n"
                                  "    sleep 0.2 2>/dev/null || sleep 1\n"
                                  "done\n";

int step_ready_plan(struct plan_builder *b, const struct spec *spec, uint32_t role, const struct plan_step *launch,
                    struct plan_step **ret, struct error *err)
{
    static const char *const words[] = {[READY_PORT] = "port", [READY_LOG] = "log", [READY_COMMAND] = "command"};
    const struct spec_ready *ready = &spec->roles[role].ready;
    const struct expr_role *placed = &plan_placed_of(b)[role];
    struct arena *arena = plan_arena(b);
    bool log = ready->kind == READY_LOG;
    struct ready *item = arena_alloc(arena, sizeof *item);
    const char *title = arena_printf(arena, "%s %s", words[ready->kind], ready->what.text);
    struct plan_step *s = plan_add(b, log ? &step_kind_ready_log : &step_kind_ready,
                                   arena_printf(arena, "ready:%s", spec->roles[role].name), step_title(arena, title));
    *item = (struct ready){role, launch};
    s->item = item;
    s->role = &spec->roles[role];
    s->timeout_ms = ready->timeout_ms;
    s->sidecar = spec->roles[role].sidecar;
    plan_on_nodes(b, s, placed->nodes, placed->node_count);
    plan_wait(b, s, launch, true);
    if (log) {
        struct plan_watch *watch = arena_alloc(arena, sizeof *watch);
        *watch = (struct plan_watch){ready->what.text, launch->id, role};
        s->watch = watch;
    }
    *ret = s;
    plan_input_after(b, s, launch);
    return plan_input_text(b, s, words[ready->kind], &ready->what,
                           ready->kind == READY_COMMAND ? EXPR_SHELL : EXPR_PLAIN, err);
}

static int command_words(const struct plan *plan, const struct step_bind *bind, const struct spec_ready *ready,
                         struct arena *arena, const char **ret_first, const char **ret_second, struct error *err)
{
    const struct wire_facts *facts = bind->nodes ? bind->nodes[bind->node].facts : NULL;
    uint32_t port = 0;
    *ret_second = facts && facts->shell && *facts->shell ? facts->shell : "sh";
    if (ready->kind == READY_COMMAND)
        return step_expand_node(plan, bind, &ready->what, EXPR_SHELL, arena, ret_first, err);
    parse_u32(ready->what.text, &port);
    *ret_first = arena_printf(arena, "%04X", port);
    return 0;
}

static int ready_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                       struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct ready *item = step->item;
    const struct spec_role *role = &plan->spec->roles[item->role];
    struct step_env env = {.arena = arena};
    const struct spec_env **late; /* variables that need a worker are for the workers */
    const char *cwd, *first, *second;
    step_run_init(plan, step, arena, ret_run);
    if (step_expand_node(plan, bind, &role->entrypoint.cwd, EXPR_PLAIN, arena, &cwd, err) < 0 ||
        step_home(bind, cwd, arena, &cwd, err) < 0 ||
        step_run_env(plan, bind, STEP_ENV_ROLE | STEP_ENV_ENTRY, &env, &late, err) < 0 ||
        step_python_env(plan, bind, arena, ret_run, &env, err) < 0 ||
        command_words(plan, bind, &role->ready, arena, &first, &second, err) < 0)
        return -1;
    step_run_own_env(bind, true, &env);
    step_run_secrets(bind, arena, ret_run);
    ret_run->env = env.list;
    ret_run->cwd = arena_strdup(arena, cwd);
    ret_run->timeout_ms = role->ready.timeout_ms;
    step_run_argv(ret_run, arena,
                  (const char *const[]){"sh", "-c", role->ready.kind == READY_PORT ? look_for_port : try_command,
                                        "rhrun", first, second, NULL});
    return 0;
}

const struct step_kind step_kind_ready = {
    .name = "ready", .version = 1, .phase = PHASE_LAUNCH, .asks = true, .build = ready_build};
const struct step_kind step_kind_ready_log = {.name = "ready-log", .version = 1, .phase = PHASE_LAUNCH, .asks = true};
