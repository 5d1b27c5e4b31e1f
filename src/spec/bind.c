/* Binding set-up, distributed and the entrypoint: the tree's values as typed data, expressions checked. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static const struct expr_rules on_node = {.scope = SCOPE_NODE};
static const struct expr_rules at_load = {.scope = SCOPE_LOAD};

static struct spec_text checked(struct load *l, const struct doc_node *node, const struct expr_rules *rules, bool shell)
{
    struct spec_text text = text_of(node);
    expr_check_rules(&text, l->spec, rules, shell, l->diagnostics);
    return text;
}

/* What the entrypoint's texts may name: without `distributed` its process has no rank. */
static struct expr_rules of_launch(const struct load *l)
{
    return (struct expr_rules){.scope = l->spec->distributed.present ? SCOPE_RANK : SCOPE_NODE};
}

static uint32_t bounded(const struct doc_node *object, const char *key, int64_t otherwise, int64_t max)
{
    int64_t n = doc_get_int(object, key, otherwise);
    return n < 0 || n > max ? (uint32_t)otherwise : (uint32_t)n;
}

void distributed_bind(struct load *l)
{
    const struct doc_node *node = doc_get(l->root, "distributed");
    struct spec_distributed *d = &l->spec->distributed;
    d->nproc = (struct spec_nproc){.kind = NPROC_COUNT, .count = 1};
    d->launcher = "native";
    if (!is_object(node))
        return;
    d->present = true;
    d->place = place_of(node);
    d->nnodes = bounded(node, "nnodes", 0, SPEC_HOSTS_MAX);
    if (d->nnodes > 0)
        l->nnodes = doc_get(node, "nnodes");
    nproc_of(doc_get(node, "nproc_per_node"), &d->nproc);
    d->max_restarts = bounded(node, "max_restarts", 0, 1000);
    d->master_port = bounded(node, "master_port", 0, UINT16_MAX);
}

/* ---- set-up ---- */

static void bind_on(struct load *l, struct spec_step *s, const struct doc_node *on)
{
    if (on && on->type == DOC_STRING && strcmp(on->text, "first") == 0)
        s->on = ON_FIRST;
    if (!is_array(on))
        return;
    s->on = ON_LIST;
    s->on_nodes = arena_array(l->arena, on->count, sizeof *s->on_nodes);
    for (size_t i = 0; i < on->count; i++) {
        int64_t n;
        if (!doc_is_integer(on->items[i], &n) || n < 0 || n >= SPEC_HOSTS_MAX)
            continue;
        uint32_t nodes = l->spec->nnodes;
        if (nodes > 0 && !l->hosts_failed && (uint64_t)n >= nodes) {
            struct diagnostic *d = fault(l, place_of(on->items[i]), "no node %u: the job has %u node%s", (uint32_t)n,
                                         nodes, nodes == 1 ? "" : "s");
            diagnostic_expected(d, nodes == 1 ? "node 0" : "a node from 0 to %u", nodes - 1);
        }
        s->on_nodes[s->on_count++] = (uint32_t)n;
    }
}

static void bind_retry(struct load *l, struct spec_step *s, const struct doc_node *retry)
{
    int64_t n;
    s->retry_backoff_ms = 1000;
    if (doc_is_integer(retry, &n) && n >= 0 && n <= 100)
        s->retry_times = (uint32_t)n;
    if (!is_object(retry))
        return;
    s->retry_times = bounded(retry, "times", 0, 100);
    duration_of(l, retry, "backoff", &s->retry_backoff_ms);
}

static void bind_step(struct load *l, struct spec_step *s, const struct doc_node *item)
{
    const struct doc_node *inputs = doc_get(item, "inputs");
    s->place = place_of(item);
    s->run = checked(l, doc_get(item, "run"), &on_node, true);
    s->creates = checked(l, doc_get(item, "creates"), &on_node, false);
    if (is_array(inputs)) {
        s->inputs.items = arena_array(l->arena, inputs->count, sizeof *s->inputs.items);
        for (size_t i = 0; i < inputs->count; i++)
            if (is_scalar(inputs->items[i]))
                s->inputs.items[s->inputs.count++] = checked(l, inputs->items[i], &at_load, false);
    }
    bind_on(l, s, doc_get(item, "on"));
    bind_retry(l, s, doc_get(item, "retry"));
    s->on_unknown_fail = str_eq(doc_get_string(item, "on_unknown", NULL), "fail");
    duration_of(l, item, "timeout", &s->timeout_ms);
}

static int by_name(const void *left, const void *right)
{
    const struct spec_step *const *pa = left, *const *pb = right;
    int d = strcmp((*pa)->name, (*pb)->name);
    return d ? d : (*pa > *pb) - (*pa < *pb);
}

static void check_name(struct load *l, const struct spec_step *s, const struct doc_node *item)
{
    static const char *const reserved[] = {"activate", "prolog", "launch", "epilog", NULL};
    for (const char *const *r = reserved; *r; r++)
        if (strcmp(*r, s->name) == 0)
            diagnostic_hint(fault(l, place_of(doc_get(item, "name")), "a set-up step cannot be named \"%s\"", s->name),
                            "rhrun has a step of that name itself");
}

/* Names are unique; a step without one is called run-N by its position. */
static void name_steps(struct load *l, const struct doc_node *list)
{
    struct spec *spec = l->spec;
    const struct spec_step **sorted = xcalloc(spec->setup_count + 1, sizeof *sorted);
    for (size_t i = 0; i < spec->setup_count; i++) {
        spec->setup[i].name = doc_get_string(list->items[i], "name", NULL);
        if (spec->setup[i].name)
            check_name(l, &spec->setup[i], list->items[i]);
        else
            spec->setup[i].name = arena_printf(l->arena, "run-%zu", i + 1);
        sorted[i] = &spec->setup[i];
    }
    qsort(sorted, spec->setup_count, sizeof *sorted, by_name);
    size_t first = 0;
    for (size_t i = 1; i < spec->setup_count; i++) {
        if (strcmp(sorted[i]->name, sorted[first]->name) != 0) {
            first = i;
            continue;
        }
        const struct doc_node *own = doc_get(list->items[sorted[i] - spec->setup], "name");
        const struct doc_node *other = doc_get(list->items[sorted[first] - spec->setup], "name");
        fault(l, own ? place_of(own) : sorted[i]->place, "two set-up steps are named \"%s\"", sorted[i]->name);
        note(l, other ? place_of(other) : sorted[first]->place,
             other ? "the first one is here" : "the step that has this name by its position is here");
    }
    free(sorted);
}

void setup_bind(struct load *l)
{
    const struct doc_node *list = doc_get(l->root, "setup");
    struct spec *spec = l->spec;
    spec->activate = checked(l, doc_get(l->root, "activate"), &on_node, true);
    if (!is_array(list) || list->count > SPEC_STEPS_MAX)
        return;
    spec->setup = arena_array(l->arena, list->count, sizeof *spec->setup);
    spec->setup_count = list->count;
    for (size_t i = 0; i < list->count; i++)
        bind_step(l, &spec->setup[i], list->items[i]);
    name_steps(l, list);
}

/* ---- the entrypoint ---- */

/* Whether the text is one expression, `args`, and nothing else. */
static bool is_args_item(const char *text)
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
    struct spec_texts texts;
    size_t cap;
    bool spliced; /* ${{ args }} stood in it */
};

static void add_text(struct list *list, struct spec_text text)
{
    struct spec_texts *t = &list->texts;
    if (t->count == list->cap) {
        list->cap = list->cap ? list->cap * 2 : 16;
        struct spec_text *items = arena_array(list->l->arena, list->cap, sizeof *items);
        if (t->count > 0)
            memcpy(items, t->items, t->count * sizeof *items);
        t->items = items;
    }
    t->items[t->count++] = text;
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
    struct expr_rules rules = of_launch(list->l);
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

/* The form: exactly one of four keys; all places are shown when there are more. */
static bool bind_form(struct load *l, struct spec_entrypoint *e, const struct doc_node *node)
{
    static const char *const forms[] = {"script", "module", "command", "run"};
    static const char *const later[] = {"function", NULL};
    const struct doc_member *found = NULL;
    for (size_t i = 0; i < node->count; i++) {
        const struct doc_member *m = &node->members[i];
        for (size_t f = 0; f < ARRAY_LEN(forms); f++) {
            if (strcmp(m->key, forms[f]) != 0)
                continue;
            if (found) {
                struct diagnostic *d = fault(l, m->key_place, "entrypoint has both %s and %s", found->key, m->key);
                diagnostic_expected(d, "exactly one of script, module, command and run");
                note(l, found->key_place, "%s is here", found->key);
                continue;
            }
            found = m;
            e->kind = (enum spec_entry_kind)f;
        }
    }
    if (!found && !doc_get(node, later[0]))
        diagnostic_expected(fault(l, place_of(node), "entrypoint says nothing to run"),
                            "exactly one of script, module, command and run");
    return found != NULL;
}

void entrypoint_bind(struct load *l)
{
    static const char *const keys[] = {"script", "module", "command", "run"};
    const struct doc_node *node = doc_get(l->root, "entrypoint");
    struct spec_entrypoint *e = &l->spec->entrypoint;
    if (!is_object(node))
        return;
    e->place = place_of(node);
    const struct expr_rules rules = of_launch(l);
    struct expr_rules in_run = rules;
    in_run.args_in_shell = true;
    bool has_form = bind_form(l, e, node);
    const struct doc_node *target = has_form ? doc_get(node, keys[e->kind]) : NULL;
    struct list command = {.l = l}, args = {.l = l};
    if (e->kind == ENTRY_COMMAND && is_array(target))
        add_all(&command, target);
    else if (e->kind != ENTRY_COMMAND)
        e->target = checked(l, target, e->kind == ENTRY_RUN ? &in_run : &rules, e->kind == ENTRY_RUN);
    add_all(&args, doc_get(node, "args"));
    bool spliced = command.spliced || args.spliced || (e->kind == ENTRY_RUN && mentions_args(e->target.text));
    if (!spliced)
        add_pass_through(&args);
    e->command = command.texts;
    e->args = args.texts;
    check_size(l, e);
    e->env = env_list(l, doc_get(node, "env"), &e->env_count);
    for (size_t i = 0; i < e->env_count; i++)
        expr_check_rules(&e->env[i].value, l->spec, &rules, false, l->diagnostics);
    e->cwd = checked(l, doc_get(node, "cwd"), &on_node, false);
    e->prolog = checked(l, doc_get(node, "prolog"), &on_node, true);
    e->epilog = checked(l, doc_get(node, "epilog"), &on_node, true);
    duration_of(l, node, "timeout", &e->timeout_ms);
    e->always = doc_get_bool(node, "always", false);
}
