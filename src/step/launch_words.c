/* The command lines that rhrun itself starts. */
#include "launch.h"

static void add_word(struct wire_strings *argv, struct arena *arena, const char *word)
{
    argv->items[argv->count++] = arena_strdup(arena, word);
}

/* For a role: the environment of its workers overrides the node's. */
static bool sets_path(const struct launch *l)
{
    for (size_t i = 0; l->role && i < l->role->env_count; i++)
        if (str_eq(l->role->env[i].name, "PATH"))
            return true;
    for (size_t i = 0; l->role && i < l->entry->env_count; i++)
        if (str_eq(l->entry->env[i].name, "PATH"))
            return true;
    return false;
}

/* The venv's Python or the interpreter that the spec names; else the absolute path of the node's python3, unless the
 * job changes PATH. */
int launch_python(const struct launch *l, const struct step_env *env, const char **ret, struct error *err)
{
    const struct step_node *n = l->bind->nodes ? &l->bind->nodes[l->bind->node] : NULL;
    bool own_path = *l->run->env_in || step_env_has(env, "PATH") || sets_path(l);
    if (step_python_program(l->plan, l->bind, l->arena, ret, err) < 0)
        return -1;
    if (str_eq(*ret, "python3") && !own_path && n && n->facts && n->facts->python && *n->facts->python)
        *ret = n->facts->python;
    return 0;
}

/* A script is relative to the working directory, and the process starts in cwd. */
static const char *script_path(const struct launch *l, const char *script)
{
    const struct step_node *n = l->bind->nodes ? &l->bind->nodes[l->bind->node] : NULL;
    if (*script == '/' || !*l->run->cwd || !n || !n->facts || !n->facts->work_dir)
        return *script == '-' ? arena_printf(l->arena, "./%s", script) : script; /* not an option of python */
    return arena_printf(l->arena, "%s/%s", n->facts->work_dir, script);
}

static enum expr_status add_texts(const struct launch *l, const struct step_worker *w, const struct spec_texts *texts,
                                  struct wire_strings *argv, struct error *err)
{
    for (size_t i = 0; i < texts->count; i++) {
        const char *value;
        enum expr_status status = step_expand(l->plan, l->bind, w, &texts->items[i], EXPR_PLAIN, l->arena, &value, err);
        if (status != EXPR_OK)
            return status;
        add_word(argv, l->arena, value);
    }
    return EXPR_OK;
}

enum expr_status launch_argv(const struct launch *l, const struct step_env *env, const struct step_worker *w,
                             struct wire_strings *ret, struct error *err)
{
    const struct spec_entrypoint *entry = l->entry;
    struct wire_strings argv = {arena_array(l->arena, entry->args.count + entry->command.count + 4, sizeof(char *)), 0};
    const char *target = "", *python = "";
    bool is_command = entry->kind == ENTRY_COMMAND || entry->kind == ENTRY_RUN;
    if (!is_command && launch_python(l, env, &python, err) < 0)
        return EXPR_FAILED;
    if (entry->kind != ENTRY_COMMAND) {
        enum expr_mode mode = entry->kind == ENTRY_RUN ? EXPR_SHELL : EXPR_PLAIN;
        enum expr_status status = step_expand(l->plan, l->bind, w, &entry->target, mode, l->arena, &target, err);
        if (status != EXPR_OK)
            return status;
    }
    switch (entry->kind) {
    case ENTRY_SCRIPT:
    case ENTRY_MODULE:
        add_word(&argv, l->arena, python);
        add_word(&argv, l->arena, "-u");
        if (entry->kind == ENTRY_MODULE)
            add_word(&argv, l->arena, "-m");
        if (entry->kind == ENTRY_SCRIPT && step_home(l->bind, target, l->arena, &target, err) < 0)
            return EXPR_FAILED;
        add_word(&argv, l->arena, entry->kind == ENTRY_MODULE ? target : script_path(l, target));
        break;
    case ENTRY_COMMAND: {
        enum expr_status status = add_texts(l, w, &entry->command, &argv, err);
        const char *program = argv.count > 0 ? argv.items[0] : "";
        if (status == EXPR_OK && step_home(l->bind, program, l->arena, &program, err) < 0)
            status = EXPR_FAILED;
        if (status != EXPR_OK)
            return status;
        if (argv.count > 0)
            argv.items[0] = arena_strdup(l->arena, program);
        break;
    }
    case ENTRY_RUN:
        add_word(&argv, l->arena, target);
        break;
    case ENTRY_FUNCTION: /* its arguments are in each worker's environment */
        add_word(&argv, l->arena, python);
        add_word(&argv, l->arena, "-u");
        add_word(&argv, l->arena, "-c");
        add_word(&argv, l->arena, rhrun_step_call);
        *ret = argv;
        return EXPR_OK;
    }
    enum expr_status status = add_texts(l, w, &entry->args, &argv, err);
    if (status == EXPR_OK)
        *ret = argv;
    return status;
}

/* In the same way as the agent starts shell text. */
static void add_shell(const struct launch *l, struct wire_strings *argv)
{
    const struct step_node *n = l->bind->nodes ? &l->bind->nodes[l->bind->node] : NULL;
    const char *shell = n && n->facts && n->facts->shell && *n->facts->shell ? n->facts->shell : "sh";
    add_word(argv, l->arena, shell);
    if (str_ends(shell, "bash")) {
        add_word(argv, l->arena, "--norc");
        add_word(argv, l->arena, "-o");
        add_word(argv, l->arena, "pipefail");
    }
    add_word(argv, l->arena, "-e");
    add_word(argv, l->arena, "-c");
}

enum expr_status launch_program(const struct launch *l, const struct step_env *env, struct wire_strings *ret,
                                struct error *err)
{
    struct wire_strings words;
    enum expr_status status = launch_argv(l, env, NULL, &words, err);
    if (status != EXPR_OK)
        return status;
    uint32_t python = l->entry->kind == ENTRY_SCRIPT ? 2 : l->entry->kind == ENTRY_MODULE ? 3 : 0; /* python -u -m */
    struct wire_strings argv = {arena_array(l->arena, words.count + 8, sizeof(char *)), 0};
    if (l->entry->kind == ENTRY_RUN)
        add_shell(l, &argv);
    for (uint32_t i = python; i < words.count; i++) {
        argv.items[argv.count++] = words.items[i];
        if (i == 0 && l->entry->kind == ENTRY_RUN)
            add_word(&argv, l->arena, "rhrun"); /* $0 */
    }
    *ret = argv;
    return EXPR_OK;
}
