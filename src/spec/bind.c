/* Binding the entrypoint: the tree's values as typed data, expressions checked. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* The names that the entrypoint's texts may use: ranks only if rhrun starts the ranks itself. */
static struct expr_rules of_launch(const struct load *l)
{
    return (struct expr_rules){.scope = spec_has_ranks(&l->spec->distributed) ? SCOPE_RANK : SCOPE_NODE, .point = true};
}

static const char *const forms[] = {
    [ENTRY_SCRIPT] = "script", [ENTRY_MODULE] = "module",     [ENTRY_COMMAND] = "command",
    [ENTRY_RUN] = "run",       [ENTRY_FUNCTION] = "function",
};

bool is_args_item(const char *text)
{
    if (!str_starts(text, "${{"))
        return false;
    const char *p = text + 3 + strspn(text + 3, " \t\n");
    if (!str_starts(p, "args"))
        return false;
    return strcmp(p + 4 + strspn(p + 4, " \t\n"), "}}") == 0;
}

static bool mentions_args(const char *text)
{
    for (; text && (text = strstr(text, "${{")); text += 3) {
        size_t span = expr_span(text);
        CLEANUP(cleanup_free) char *one = xstrndup(text, span);
        if (span > 0 && is_args_item(one))
            return true;
    }
    return false;
}

struct list {
    struct load *l;
    const struct expr_rules *rules;
    struct spec_texts texts;
    size_t cap;
    bool spliced; /* ${{ args }} stood in it */
};

static void add_text(struct list *list, struct spec_text text)
{
    texts_add(list->l, &list->texts, &list->cap, text);
}

static void add_pass_through(struct list *list)
{
    const struct spec *spec = list->l->spec;
    for (size_t i = 0; i < spec->arg_count; i++)
        add_text(list, (struct spec_text){.text = spec->args[i]});
    list->spliced = true;
}

static void add_item(struct list *list, struct spec_text text, size_t first)
{
    struct expr_rules rules = *list->rules;
    rules.args = true;
    rules.first = first;
    expr_check_rules(&text, list->l->spec, &rules, false, list->l->diagnostics);
    if (text.has_expr && is_args_item(text.text))
        add_pass_through(list);
    else
        add_text(list, text);
}

/* Adds the items of an array, or the words of one string. */
static void add_all(struct list *list, const struct doc_node *node)
{
    struct load *l = list->l;
    if (is_array(node))
        for (size_t i = 0; i < node->count; i++)
            if (is_scalar(node->items[i]))
                add_item(list, text_of(node->items[i]), 0);
    if (!node || node->type != DOC_STRING)
        return;
    const char **words = NULL;
    size_t count = 0, first = 0;
    struct error err = ERROR_INIT;
    if (shlex_split(node->text, l->arena, &words, &count, &err) != 0) {
        fault(l, place_of(node), "args cannot be split: %s", err.text);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct spec_text word = {.text = words[i], .place = node->place, .has_expr = strstr(words[i], "${{") != NULL};
        add_item(list, word, first);
        for (const char *p = words[i]; (p = strstr(p, "${{")); p += 3)
            first++;
    }
}

static void check_size(struct load *l, const struct spec_entrypoint *e)
{
    size_t bytes = 0;
    for (size_t i = 0; i < e->args.count; i++)
        bytes += strlen(e->args.items[i].text) + 1;
    for (size_t i = 0; i < e->command.count; i++)
        bytes += strlen(e->command.items[i].text) + 1;
    if (bytes > SPEC_ARGS_MAX_BYTES)
        fault(l, e->place, "the arguments have %zu bytes together, more than %d", bytes, SPEC_ARGS_MAX_BYTES);
}

/* The form: exactly one of five keys; if there are more, all their places are shown. */
static bool bind_form(struct load *l, struct spec_entrypoint *e, const struct doc_node *node)
{
    const struct doc_member *found = NULL;
    for (size_t i = 0; i < node->count; i++) {
        const struct doc_member *m = &node->members[i];
        for (size_t f = 0; f < ARRAY_LEN(forms); f++) {
            if (strcmp(m->key, forms[f]) != 0)
                continue;
            if (found) {
                struct diagnostic *d = fault(l, m->key_place, "entrypoint has both %s and %s", found->key, m->key);
                diagnostic_expected(d, "exactly one of script, module, command, run and function");
                note(l, found->key_place, "%s is here", found->key);
                continue;
            }
            found = m;
            e->kind = (enum spec_entry_kind)f;
        }
    }
    if (!found)
        diagnostic_expected(fault(l, place_of(node), "entrypoint names nothing to run"),
                            "exactly one of script, module, command, run and function");
    return found != NULL;
}

static void refuse_args(struct load *l, const struct spec_entrypoint *e)
{
    const char *first = l->spec->args[0];
    diagnostic_hint(fault(l, option_place(l, "--", first, 0, strlen(first)),
                          "there are ARGs after --, but the function does not take ${{ args }}"),
                    "args: [\"${{ args }}\"] makes them positional, kwargs: {NAME: \"${{ args }}\"} a list");
    note(l, e->place, "the function is called here");
}

/* For node paths that may begin with ~: refuses ~user, because nodes do not look up other users' homes. */
static void check_home(struct load *l, const struct spec_text *text, const char *key)
{
    if (text->text && *text->text == '~' && text->text[1] && text->text[1] != '/')
        diagnostic_expected(fault(l, text->place, "\"%s\" cannot be \"%s\"", key, text->text),
                            "a path relative to the working directory, an absolute one, or ~/ and a path");
}

bool entrypoint_of(struct load *l, const struct doc_node *node, const struct expr_rules *rules,
                   struct spec_entrypoint *e)
{
    struct expr_rules in_run = *rules;
    in_run.args_in_shell = true;
    e->place = place_of(node);
    bool has_form = bind_form(l, e, node);
    const struct doc_node *target = has_form ? doc_get(node, forms[e->kind]) : NULL;
    struct list command = {.l = l, .rules = rules}, args = {.l = l, .rules = rules};
    if (e->kind == ENTRY_COMMAND && is_array(target))
        add_all(&command, target);
    else if (e->kind != ENTRY_COMMAND)
        e->target = checked(l, target, e->kind == ENTRY_RUN ? &in_run : rules, e->kind == ENTRY_RUN);
    add_all(&args, doc_get(node, "args"));
    bool spliced = command.spliced || args.spliced || (e->kind == ENTRY_RUN && mentions_args(e->target.text));
    spliced |= function_bind(l, e, node, rules);
    if (!spliced && l->spec->role_count == 0 && (!has_form || e->kind != ENTRY_FUNCTION))
        add_pass_through(&args);
    else if (!spliced && l->spec->role_count == 0 && l->spec->arg_count > 0)
        refuse_args(l, e);
    e->command = command.texts;
    e->args = args.texts;
    check_size(l, e);
    e->env = env_list(l, doc_get(node, "env"), &e->env_count);
    for (size_t i = 0; i < e->env_count; i++)
        expr_check_rules(&e->env[i].value, l->spec, rules, false, l->diagnostics);
    e->cwd = checked(l, doc_get(node, "cwd"), &on_node_at_point, false);
    check_home(l, &e->cwd, "cwd");
    if (e->kind == ENTRY_SCRIPT)
        check_home(l, &e->target, "script");
    if (e->kind == ENTRY_COMMAND && e->command.count > 0)
        check_home(l, &e->command.items[0], "command");
    duration_of(l, node, "timeout", &e->timeout_ms);
    return spliced;
}

/* With roles, the roles have the programs and everything that belongs to a program: each merges this entrypoint with
 * its own. */
void entrypoint_bind(struct load *l)
{
    const struct doc_node *node = doc_get(l->root, "entrypoint");
    struct spec_entrypoint *e = &l->spec->entrypoint;
    if (!is_object(node))
        return;
    const struct expr_rules rules = of_launch(l);
    if (l->spec->role_count == 0) {
        entrypoint_of(l, node, &rules, e);
    } else {
        e->place = place_of(node);
        e->env = env_list(l, doc_get(node, "env"), &e->env_count);
    }
    e->prolog = checked(l, doc_get(node, "prolog"), &on_node, true);
    e->epilog = checked(l, doc_get(node, "epilog"), &on_node, true);
    e->always = doc_get_bool(node, "always", false);
}
