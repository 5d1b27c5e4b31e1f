/* What the job uses on a node, and what is fetched from it: `python` and `outputs`. */
#include "internal.h"

#include <string.h>
#include <strings.h>

/* ---- python ---- */

static void bind_venv(struct load *l, struct spec_python *p, const struct doc_node *node)
{
    if (!is_scalar(node) || strcmp(node->text, "auto") == 0)
        return;
    if (node->type == DOC_BOOL) {
        p->venv = node->boolean ? VENV_TRUE : VENV_FALSE;
        return;
    }
    static const char *const no[] = {"none",  "no",   "off",
                                     "never", "null", NULL}; /* YAML 1.2 core has them as strings */
    for (const char *const *word = no; *word; word++)
        if (strcasecmp(node->text, *word) == 0) {
            diagnostic_hint(fault(l, place_of(node), "\"%s\" would be a venv in a folder of that name", node->text),
                            "venv: false for none; ./%s for the folder", node->text);
            return;
        }
    p->venv = VENV_PATH;
    p->venv_path = checked(l, node, &on_node, false);
    check_node_path(l, &p->venv_path, "venv");
}

static void bind_object(struct load *l, struct spec_python *p, const struct doc_node *node)
{
    const struct doc_member *venv = doc_get_member(node, "venv", 4), *conda = doc_get_member(node, "conda", 5);
    const struct doc_node *interpreter = doc_get(node, "interpreter");
    if (is_scalar(interpreter))
        p->interpreter = checked(l, interpreter, &on_node, false);
    bind_venv(l, p, venv ? venv->value : NULL);
    p->system_site_packages = doc_get_bool(node, "system_site_packages", true);
    p->conda = checked(l, conda ? conda->value : NULL, &on_node, false);
    if (p->conda.text && (p->venv == VENV_TRUE || p->venv == VENV_PATH)) {
        diagnostic_hint(fault(l, conda->key_place, "both venv and conda are given"),
                        "a conda environment takes the place of a venv: leave venv out");
        note(l, venv->key_place, "venv is here");
    }
    if (p->conda.text && interpreter)
        diagnostic_hint(fault(l, conda->key_place, "both interpreter and conda are given"),
                        "the interpreter is that of the conda environment: leave interpreter out");
}

static void bind_python(struct load *l, const struct doc_node *node, struct spec_python *p)
{
    *p = (struct spec_python){.interpreter = {.text = "python3"}, .venv = VENV_AUTO, .system_site_packages = true};
    if (!node)
        return;
    p->place = place_of(node);
    if (is_object(node))
        bind_object(l, p, node);
    else if (is_scalar(node))
        p->interpreter = checked(l, node, &on_node, false);
    const char *text = p->interpreter.text;
    if (strchr(text, '/') ? *text != '~' : !strpbrk(text, " \t\n"))
        return;
    if (*text == '~' && text[1] == '/')
        return;
    diagnostic_expected(fault(l, p->interpreter.place, "\"%s\" is not an interpreter", text),
                        "a program's name such as python3.11, or its path, without arguments");
}

static struct doc_node *as_object(struct load *l, const struct doc_node *node)
{
    if (is_object(node))
        return doc_clone(l->arena, node);
    struct doc_node *object = doc_new_object(l->arena);
    if (is_scalar(node))
        doc_set(l->arena, object, "interpreter", doc_clone(l->arena, node));
    return object;
}

/* The role's python merged over the top level's. A conda environment and an interpreter with its venv exclude each
 * other: only those of the top level's keys are taken that fit the role's. */
static const struct doc_node *merged_python(struct load *l, const struct doc_node *own)
{
    struct doc_node *node = as_object(l, doc_get(l->root, "python")), *over = as_object(l, own);
    if (doc_get(over, "conda")) {
        doc_remove(node, "interpreter");
        doc_remove(node, "venv");
    } else if (doc_get(over, "interpreter") || doc_get(over, "venv")) {
        doc_remove(node, "conda");
    }
    merge_over(l, node, over);
    node->place = place_of(own);
    return node;
}

void python_bind(struct load *l)
{
    struct spec *spec = l->spec;
    bind_python(l, doc_get(l->root, "python"), &spec->python);
    for (size_t i = 0; i < spec->role_count; i++) {
        struct spec_role *r = &spec->roles[i];
        const struct doc_node *own = doc_get(role_doc(l, r), "python");
        if (own)
            bind_python(l, merged_python(l, own), &r->python);
        else if (r->own_setup)
            r->python = spec->python;
    }
}

/* ---- outputs ---- */

static bool has_wildcard(const char *s)
{
    return strpbrk(s, "*?[") != NULL;
}

/* The default for `to`: for a folder the same name, for a pattern the folder before it. */
static const char *default_to(struct load *l, const char *from)
{
    if (*from == '/' || *from == '~' || *from == '@' || strstr(from, "${{"))
        return NULL;
    if (!has_wildcard(from))
        return str_ends(from, "/") ? from : NULL;
    size_t at = strcspn(from, "*?[");
    while (at > 0 && from[at - 1] != '/')
        at--;
    return at > 0 ? arena_strndup(l->arena, from, at) : "./";
}

static void report_no_to(struct load *l, const struct spec_text *from)
{
    struct diagnostic *d = fault(l, from->place, "no folder on this machine is given for \"%s\"", from->text);
    if (strchr("/~@", *from->text) || from->has_expr)
        diagnostic_hint(d, "{from: \"%s\", to: FOLDER}", from->text);
    else
        diagnostic_hint(d, "a folder ends in / (%s/); a file needs to: {from: %s, to: FOLDER}", from->text, from->text);
}

static struct spec_text home_expanded(struct load *l, struct spec_text text)
{
    if (text.text && str_starts(text.text, "~/"))
        text.text = path_here(l, l->spec->dir, text.text);
    return text;
}

/* Replaces `role` in a role's output now: the expression is not about a worker, and the step has none. */
static struct spec_text for_role(struct load *l, const struct spec_role *role, const struct doc_node *node)
{
    const struct expr_rules rules = {.scope = SCOPE_NODE, .role = role != NULL, .point = true};
    const struct expr_context ctx = {.spec = l->spec, .role = role ? role->name : NULL};
    struct spec_text text = checked(l, node, &rules, false);
    struct error err = ERROR_INIT;
    if (role && text.has_expr && expr_expand(&text, EXPR_PLAIN, &ctx, true, l->arena, &text.text, &err) == EXPR_OK)
        text.has_expr = strstr(text.text, "${{") != NULL;
    return text;
}

static void bind_output(struct load *l, const struct spec_role *role, const struct doc_node *item, size_t number)
{
    struct spec_output *o = &l->spec->outputs[l->spec->output_count];
    const struct doc_node *from = is_object(item) ? doc_get(item, "from") : item;
    const struct doc_node *to = is_object(item) ? doc_get(item, "to") : NULL;
    *o = (struct spec_output){.role = role, .on = ON_FIRST, .place = place_of(item)};
    o->name = role_step_name(l, role, arena_printf(l->arena, "outputs-%zu", number));
    l->spec->output_count++;
    o->from = for_role(l, role, from);
    if (!o->from.text || !*o->from.text)
        return;
    check_node_path(l, &o->from, "from");
    o->required = !has_wildcard(o->from.text);
    o->to = to ? home_expanded(l, for_role(l, role, to))
               : (struct spec_text){.text = default_to(l, o->from.text), .place = o->from.place};
    if (!to && !o->to.text)
        report_no_to(l, &o->from);
    if (!is_object(item))
        return;
    o->when = str_eq(doc_get_string(item, "when", NULL), "success") ? WHEN_SUCCESS : WHEN_ALWAYS;
    duration_of(l, item, "every", &o->every_ms);
    o->required = doc_get_bool(item, "required", o->required);
    o->max_bytes = size_bytes(doc_get_string(item, "max_size", ""));
    o->restore = doc_get_bool(item, "restore", false);
    nodes_of(l, doc_get(item, "nodes"), &o->on, &o->on_nodes, &o->on_count);
    if (role)
        role_check_nodes(l, role, doc_get(item, "nodes"));
}

static size_t count_outputs(const struct doc_node *node)
{
    return is_array(node) ? node->count : is_object(node) || is_scalar(node) ? 1 : 0;
}

static void bind_outputs(struct load *l, const struct spec_role *role, const struct doc_node *node)
{
    for (size_t i = 0, number = 0; i < count_outputs(node); i++) {
        const struct doc_node *item = is_array(node) ? node->items[i] : node;
        if (is_object(item) || (item->type == DOC_STRING && item->text_len > 0))
            bind_output(l, role, item, ++number);
    }
}

void outputs_bind(struct load *l)
{
    struct spec *spec = l->spec;
    const struct doc_node *node = doc_get(l->root, "outputs");
    size_t count = count_outputs(node);
    for (size_t i = 0; i < spec->role_count; i++)
        count += count_outputs(doc_get(role_doc(l, &spec->roles[i]), "outputs"));
    spec->outputs = arena_array(l->arena, count + 1, sizeof *spec->outputs);
    bind_outputs(l, NULL, node);
    for (size_t i = 0; i < spec->role_count; i++)
        bind_outputs(l, &spec->roles[i], doc_get(role_doc(l, &spec->roles[i]), "outputs"));
}
