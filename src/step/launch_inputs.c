/* An entrypoint in the plan: its inputs, and its command as one would type it. */
#include "launch.h"

#include <string.h>

const char *launch_nproc_text(struct arena *arena, const struct spec_nproc *np)
{
    switch (np->kind) {
    case NPROC_COUNT:
        return arena_printf(arena, "%u", np->count);
    case NPROC_CPU:
        return "cpu";
    case NPROC_GPU:
        return "gpu";
    case NPROC_XPU:
        return "xpu";
    case NPROC_AUTO:
        break;
    }
    return "auto";
}

/* As given in the spec, not as resolved: "4", or "gpu; 1: 2" if the second node has another number. */
void launch_input_layout(struct plan_builder *b, struct plan_step *s, const struct spec *spec)
{
    struct arena *arena = plan_arena(b);
    struct buf text = {0};
    plan_input(b, s, "nnodes", arena_printf(arena, "%u", spec->distributed.nnodes));
    if (spec->role_count == 0 || spec->distributed.has_nproc)
        buf_puts(&text, launch_nproc_text(arena, &spec->distributed.nproc));
    for (uint32_t i = 0; i < spec->nnodes && i < spec->node_count; i++)
        if (spec->nodes[i].has_nproc)
            buf_printf(&text, "; %u: %s", i, launch_nproc_text(arena, &spec->nodes[i].nproc));
    plan_input(b, s, "nproc_per_node", text.data ? text.data : "");
    buf_free(&text);
    for (size_t i = 0; i < spec->distributed.flag_count && spec_has_ranks(&spec->distributed); i++) {
        const struct spec_flag *f = &spec->distributed.flags[i]; /* native's are plain text */
        if (f->flag->keyed)
            plan_input(b, s, f->flag->name, f->flag->type == TORCHRUN_BOOLEAN ? "true" : f->value.text);
    }
}

static bool is_created(struct plan_builder *b, const struct spec *spec, const char *path)
{
    for (size_t i = 0; i < spec->setup_count; i++) {
        const char *creates;
        struct error ignored = ERROR_INIT;
        if (plan_expand(b, &spec->setup[i].creates, EXPR_PLAIN, &creates, &ignored) == 0 && str_eq(creates, path))
            return true;
    }
    return false;
}

/* In place, an edited script changes the launch. Not a script that set-up makes: its step is in the chain. */
static void input_script(struct plan_builder *b, struct plan_step *s, const struct spec *spec, const char *path)
{
    char hex[65];
    if (!spec_in_place(spec) || strstr(path, "${{") || is_created(b, spec, path))
        return;
    const char *full = *path == '/' ? path : arena_printf(plan_arena(b), "%s/%s", spec->dir, path);
    struct error ignored = ERROR_INIT; /* it does not exist yet: the launch will report that */
    bool there = digest_sha256_file(full, hex, &ignored) == 0;
    plan_input(b, s, arena_printf(plan_arena(b), "content of %s", path),
               there ? arena_printf(plan_arena(b), "sha256:%s", hex) : "none");
}

/* With their types: 3 and "3" are different arguments. */
static int input_call(struct plan_builder *b, struct plan_step *s, const char *prefix,
                      const struct spec_entrypoint *entry, struct error *err)
{
    const struct step_call call = {{.spec = plan_spec_of(b)}, entry, true, plan_arena(b)};
    struct buf args = {0}, kwargs = {0};
    int rc = -1;
    if (step_call_args(&call, &args, err) == EXPR_OK && step_call_kwargs(&call, &kwargs, err) == EXPR_OK) {
        plan_input(b, s, arena_printf(plan_arena(b), "%sargs", prefix), args.data);
        plan_input(b, s, arena_printf(plan_arena(b), "%skwargs", prefix), kwargs.data);
        rc = 0;
    }
    buf_free(&args);
    buf_free(&kwargs);
    return rc;
}

int launch_input_entry(struct plan_builder *b, struct plan_step *s, const char *prefix, const struct spec_role *role,
                       struct error *err)
{
    static const char *const names[] = {"script", "module", "command", "run", "function"};
    const struct spec *spec = plan_spec_of(b);
    const struct spec_entrypoint *entry = role ? &role->entrypoint : &spec->entrypoint;
    struct arena *arena = plan_arena(b);
    const char *name = arena_printf(arena, "%s%s", prefix, names[entry->kind]), *path;
    if (entry->kind == ENTRY_COMMAND) {
        if (step_input_texts(b, s, name, &entry->command, err) < 0)
            return -1;
    } else if (plan_input_text(b, s, name, &entry->target, entry->kind == ENTRY_RUN ? EXPR_SHELL : EXPR_PLAIN, err) <
               0) {
        return -1;
    }
    if (entry->kind == ENTRY_SCRIPT) {
        if (plan_expand(b, &entry->target, EXPR_PLAIN, &path, err) < 0)
            return -1;
        input_script(b, s, spec, path);
    }
    bool python = entry->kind == ENTRY_SCRIPT || entry->kind == ENTRY_MODULE || entry->kind == ENTRY_FUNCTION;
    const struct spec_text *interpreter = step_interpreter(spec, role);
    if (python && step_python_kind(spec, role) == PYTHON_PLAIN && !str_eq(interpreter->text, "python3") &&
        plan_input_text(b, s, arena_printf(arena, "%sinterpreter", prefix), interpreter, EXPR_PLAIN, err) < 0)
        return -1;
    if (entry->cwd.text &&
        plan_input_text(b, s, arena_printf(arena, "%scwd", prefix), &entry->cwd, EXPR_PLAIN, err) < 0)
        return -1;
    if (entry->kind == ENTRY_FUNCTION)
        return input_call(b, s, prefix, entry, err);
    return step_input_texts(b, s, arena_printf(arena, "%sargs", prefix), &entry->args, err);
}

static int put_words(struct plan_builder *b, const struct spec_texts *texts, struct buf *ret, struct error *err)
{
    for (size_t i = 0; i < texts->count; i++) {
        const char *value;
        if (plan_expand(b, &texts->items[i], EXPR_PLAIN, &value, err) < 0)
            return -1;
        if (ret->len)
            buf_putc(ret, ' ');
        buf_shell_quote(ret, value);
    }
    return 0;
}

int launch_describe(struct plan_builder *b, const struct spec_role *role, struct buf *ret, struct error *err)
{
    const struct spec_entrypoint *entry = role ? &role->entrypoint : &plan_spec_of(b)->entrypoint;
    struct spec_texts target = {(struct spec_text *)&entry->target, 1};
    if (step_launcher_describe(b, plan_spec_of(b), ret, err) < 0)
        return -1;
    bool launcher = ret->len > 0;
    switch (entry->kind) {
    case ENTRY_SCRIPT:
        if (!launcher)
            buf_printf(ret, "%s -u", step_python_text(b, role));
        break;
    case ENTRY_MODULE:
        if (!launcher)
            buf_printf(ret, "%s -u -m", step_python_text(b, role));
        break;
    case ENTRY_FUNCTION:
        buf_puts(ret, launcher ? " call" : "call");
        return put_words(b, &target, ret, err);
    case ENTRY_COMMAND:
        return put_words(b, &entry->command, ret, err) < 0 ? -1 : put_words(b, &entry->args, ret, err);
    case ENTRY_RUN: {
        const char *text;
        if (plan_expand(b, &entry->target, EXPR_SHELL, &text, err) < 0)
            return -1;
        buf_puts(ret, launcher ? " bash -c " : "");
        if (launcher)
            buf_shell_quote(ret, text);
        else
            buf_puts(ret, text);
        return 0;
    }
    }
    return put_words(b, &target, ret, err) < 0 ? -1 : put_words(b, &entry->args, ret, err);
}
