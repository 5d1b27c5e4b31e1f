/* The options with which a run was started, as words that make its spec the same again, and how they differ from the
 * options with which the spec was loaded now. */
#include "internal.h"

#include <string.h>

enum { SURPLUS_MAX = 150, COMMAND_MAX = 160 }; /* characters: of the options in a message, of a command in a hint */

/* NULL: the journal has no such JSON, or it is damaged. */
static const struct doc_node *read_json(const char *name, const char *json, enum doc_type type, struct arena *arena)
{
    struct doc *doc;
    struct diagnostics d = {0};
    bool good = json && doc_load_text(name, json, strlen(json), DOC_FORMAT_JSON, arena, &doc, &d, NULL) == 0;
    diagnostics_free(&d);
    return good && doc->root->type == type ? doc->root : NULL;
}

struct spec_overrides run_overrides(const struct state_run *run, struct arena *arena)
{
    struct spec_overrides o = {.on = run->on, .sets = run->sets, .set_count = run->set_count};
    const struct doc_node *params = read_json("params", run->params_json, DOC_OBJECT, arena);
    const struct doc_node *args = read_json("args", run->args_json, DOC_ARRAY, arena);
    const char **texts = arena_array(arena, params ? params->count : 0, sizeof *texts);
    for (size_t i = 0; params && i < params->count; i++)
        texts[o.param_count++] = arena_printf(arena, "%s=%s", params->members[i].key, params->members[i].value->text);
    o.params = texts;
    texts = arena_array(arena, args ? args->count : 0, sizeof *texts);
    for (size_t i = 0; args && i < args->count; i++)
        texts[o.arg_count++] = args->items[i]->text;
    o.args = texts;
    return o;
}

/* ---- as words ---- */

static void put_option(struct buf *b, const char *option, const char *value)
{
    buf_puts(b, b->len ? " " : "");
    buf_puts(b, option);
    buf_putc(b, ' ');
    buf_shell_quote(b, value);
}

void run_put_options(struct buf *b, const struct spec_overrides *o)
{
    if (o->on)
        put_option(b, "--on", o->on);
    for (size_t i = 0; i < o->set_count; i++)
        put_option(b, "--set", o->sets[i]);
    for (size_t i = 0; i < o->param_count; i++)
        put_option(b, "-p", o->params[i]);
}

static void put_args(struct buf *b, const struct spec_overrides *o)
{
    if (o->arg_count > 0)
        buf_puts(b, b->len ? " --" : "--");
    for (size_t i = 0; i < o->arg_count; i++) {
        buf_putc(b, ' ');
        buf_shell_quote(b, o->args[i]);
    }
}

char *run_command_line(const char *command, const char *spec_path, const struct spec_overrides *o, struct arena *arena)
{
    struct buf b = {0};
    buf_puts(&b, "rhrun");
    if (command)
        buf_printf(&b, " %s", command);
    buf_putc(&b, ' ');
    buf_shell_quote(&b, spec_path);
    run_put_options(&b, o);
    put_args(&b, o);
    char *text = arena_strdup(arena, b.data);
    buf_free(&b);
    return text;
}

/* ---- what differs ---- */

/* The params as NAME=VALUE: those that were given; with `all`, also those with their default. */
static const char **params_of(const struct spec *spec, bool all, struct arena *arena, size_t *ret_count)
{
    const char **texts = arena_array(arena, spec->param_count, sizeof *texts);
    size_t count = 0;
    for (size_t i = 0; i < spec->param_count; i++) {
        const struct spec_param *p = &spec->params[i];
        const char *value = p->swept ? p->chosen : p->value;
        if (value && (all || p->given || p->chosen))
            texts[count++] = arena_printf(arena, "%s=%s", p->name, value);
    }
    *ret_count = count;
    return texts;
}

static bool has(const char *const *items, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(items[i], text) == 0)
            return true;
    return false;
}

static bool same_args(const struct spec_overrides *a, const struct spec_overrides *b)
{
    bool same = a->arg_count == b->arg_count;
    for (size_t i = 0; same && i < a->arg_count; i++)
        same = strcmp(a->args[i], b->args[i]) == 0;
    return same;
}

/* The options that a has and b does not have. */
static const char *surplus(const struct spec_overrides *a, const struct spec_overrides *b, struct arena *arena)
{
    struct buf text = {0};
    if (a->on && !str_eq(a->on, b->on))
        put_option(&text, "--on", a->on);
    for (size_t i = 0; i < a->set_count; i++)
        if (!has(b->sets, b->set_count, a->sets[i]))
            put_option(&text, "--set", a->sets[i]);
    for (size_t i = 0; i < a->param_count; i++)
        if (!has(b->params, b->param_count, a->params[i]))
            put_option(&text, "-p", a->params[i]);
    if (!same_args(a, b))
        put_args(&text, a);
    char *kept =
        arena_printf(arena, "%.*s%s", SURPLUS_MAX, text.data ? text.data : "", text.len > SURPLUS_MAX ? "..." : "");
    buf_free(&text);
    return kept;
}

const char *overrides_difference(const struct spec *spec, const struct state_run *run, struct arena *arena)
{
    if (!run->sets)
        return NULL;
    struct spec_overrides theirs = run_overrides(run, arena);
    struct spec_overrides ours = {.on = spec->on, .sets = spec->sets, .set_count = spec->set_count};
    ours.args = spec->args;
    ours.arg_count = spec->arg_count;
    ours.params = params_of(spec, true, arena, &ours.param_count);
    const char *with = surplus(&theirs, &ours, arena);
    ours.params = params_of(spec, false, arena, &ours.param_count);
    const char *without = surplus(&ours, &theirs, arena);
    if (!*with && !*without)
        return NULL;
    return arena_printf(arena, "it was started with%s %s%s%s", *with ? "" : "out", *with ? with : without,
                        *with && *without ? ", not with " : "", *with ? without : "");
}

/* ---- ways to continue ---- */

void overrides_hint(const struct spec *spec, const struct state_run *run, struct arena *arena, struct error *err)
{
    struct spec_overrides o = run_overrides(run, arena);
    size_t all_count, given_count;
    const char **all = params_of(spec, true, arena, &all_count);
    const char **given = params_of(spec, false, arena, &given_count);
    const char **wanted = arena_array(arena, o.param_count, sizeof *wanted);
    size_t count = 0;
    for (size_t i = 0; i < o.param_count; i++) /* a value that is the default now need not be typed */
        if (!has(all, all_count, o.params[i]) || has(given, given_count, o.params[i]))
            wanted[count++] = o.params[i];
    o.params = wanted;
    o.param_count = count;
    const char *path = !run->spec_path || str_eq(spec->real_path, run->spec_path) ? spec->path : run->spec_path;
    const char *line = run_command_line(NULL, path, &o, arena);
    if (strlen(line) > COMMAND_MAX || !str_is_printable(line))
        line = arena_printf(arena, "see rhrun status %s", run->id);
    error_hint(
        err, "rhrun attach %s continues it, rhrun cancel %s stops it, --replace starts this one; as it was started: %s",
        run->id, run->id, line);
}
