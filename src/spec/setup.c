/*
 * Set-up: `packages`, `requirements` and the list `setup` become one list of items. An item has exactly one key that
 * says its kind, and fields of that kind; an item without a name is named after its content.
 */
#include "internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static const struct expr_rules at_load = {.scope = SCOPE_LOAD};

#define BIT(item) (1u << (item))
enum { PIPS = BIT(ITEM_PIP) | BIT(ITEM_REQUIREMENTS) };

static const char *const kinds[] = {
    [ITEM_RUN] = "run",   [ITEM_PIP] = "pip",     [ITEM_REQUIREMENTS] = "requirements",
    [ITEM_APT] = "apt",   [ITEM_CONDA] = "conda", [ITEM_GIT] = "git",
    [ITEM_COPY] = "copy",
};
static const struct {
    const char *key;
    unsigned items; /* 0: all kinds */
} fields[] = {
    {"name", 0},
    {"on", 0},
    {"retry", 0},
    {"timeout", 0},
    {"inputs", BIT(ITEM_RUN)},
    {"creates", BIT(ITEM_RUN)},
    {"on_unknown", BIT(ITEM_RUN)},
    {"upgrade", PIPS},
    {"editable", BIT(ITEM_PIP)},
    {"index_url", PIPS},
    {"extra_index_url", PIPS},
    {"find_links", PIPS},
    {"options", PIPS | BIT(ITEM_APT) | BIT(ITEM_CONDA)},
    {"channels", BIT(ITEM_CONDA)},
    {"ref", BIT(ITEM_GIT)},
    {"to", BIT(ITEM_GIT) | BIT(ITEM_COPY)},
};

/* ---- common to all items ---- */

void nodes_of(struct load *l, const struct doc_node *node, enum spec_on_kind *kind, uint32_t **ret_nodes,
              size_t *ret_count)
{
    if (node && node->type == DOC_STRING && strcmp(node->text, "first") == 0)
        *kind = ON_FIRST;
    if (node && node->type == DOC_STRING && strcmp(node->text, "all") == 0)
        *kind = ON_ALL;
    if (!is_array(node))
        return;
    *kind = ON_LIST;
    *ret_nodes = arena_array(l->arena, node->count, sizeof **ret_nodes);
    for (size_t i = 0; i < node->count; i++) {
        int64_t n;
        if (!doc_is_integer(node->items[i], &n) || n < 0 || n >= SPEC_HOSTS_MAX)
            continue;
        uint32_t nodes = l->spec->nnodes;
        if (nodes > 0 && !l->hosts_failed && (uint64_t)n >= nodes) {
            struct diagnostic *d = fault(l, place_of(node->items[i]), "no node %u: the job has %u node%s", (uint32_t)n,
                                         nodes, nodes == 1 ? "" : "s");
            diagnostic_expected(d, nodes == 1 ? "node 0" : "a node from 0 to %u", nodes - 1);
        }
        (*ret_nodes)[(*ret_count)++] = (uint32_t)n;
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
    n = doc_get_int(retry, "times", 0);
    s->retry_times = n < 0 || n > 100 ? 0 : (uint32_t)n;
    duration_of(l, retry, "backoff", &s->retry_backoff_ms);
}

static void bind_common(struct load *l, struct spec_step *s, const struct doc_node *item)
{
    s->retry_backoff_ms = 1000;
    if (!is_object(item))
        return;
    nodes_of(l, doc_get(item, "on"), &s->on, &s->on_nodes, &s->on_count);
    bind_retry(l, s, doc_get(item, "retry"));
    duration_of(l, item, "timeout", &s->timeout_ms);
}

/* ---- the kinds ---- */

static void bind_run(struct load *l, struct spec_step *s, const struct doc_node *item)
{
    const struct doc_node *inputs = doc_get(item, "inputs");
    s->run = checked(l, doc_get(item, "run"), &on_node, true);
    s->creates = checked(l, doc_get(item, "creates"), &on_node, false);
    s->on_unknown_fail = str_eq(doc_get_string(item, "on_unknown", NULL), "fail");
    if (!is_array(inputs))
        return;
    s->has_inputs = true;
    s->inputs.items = arena_array(l->arena, inputs->count, sizeof *s->inputs.items);
    for (size_t i = 0; i < inputs->count; i++)
        if (is_scalar(inputs->items[i]))
            s->inputs.items[s->inputs.count++] = checked(l, inputs->items[i], &at_load, false);
}

/* A single text is as after "pip:" in `packages`, options included; a list has one package per item. */
static void bind_packages(struct load *l, struct spec_step *s, const struct doc_node *node)
{
    if (is_array(node)) {
        s->packages = texts_now(l, node, false);
        for (size_t i = 0; s->item == ITEM_PIP && i < s->packages.count; i++)
            check_requirement(l, &s->packages.items[i]);
        if (node->count == 0)
            diagnostic_expected(fault(l, place_of(node), "%s names no package", kinds[s->item]), "a package");
    } else if (is_scalar(node)) {
        struct spec_text text = text_now(l, node);
        if (text.text)
            package_words(l, s, &text);
    }
}

static void append(struct load *l, struct spec_texts *list, struct spec_texts more)
{
    size_t cap = 0;
    struct spec_texts all = {0};
    for (size_t i = 0; i < list->count; i++)
        texts_add(l, &all, &cap, list->items[i]);
    for (size_t i = 0; i < more.count; i++)
        texts_add(l, &all, &cap, more.items[i]);
    *list = all;
}

static struct spec_text file_of(struct load *l, const struct doc_node *node)
{
    struct spec_text file = text_now(l, node);
    while (file.text && str_starts(file.text, "./") && file.text[2])
        file.text += 2;
    return file;
}

static void bind_install(struct load *l, struct spec_step *s, const struct doc_node *item)
{
    const struct doc_node *node = doc_get(item, kinds[s->item]);
    if (s->item == ITEM_REQUIREMENTS)
        s->file = file_of(l, node);
    else
        bind_packages(l, s, node);
    s->upgrade = doc_get_bool(item, "upgrade", false);
    s->editable = doc_get_bool(item, "editable", s->editable);
    s->index_url = text_now(l, doc_get(item, "index_url"));
    s->extra_index_url = texts_now(l, doc_get(item, "extra_index_url"), false);
    s->find_links = texts_now(l, doc_get(item, "find_links"), false);
    append(l, &s->options, texts_now(l, doc_get(item, "options"), true));
    append(l, &s->channels, texts_now(l, doc_get(item, "channels"), false));
}

static const char *last_part(struct load *l, const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t at = end;
    while (at > 0 && path[at - 1] != '/')
        at--;
    return end > at ? arena_strndup(l->arena, path + at, end - at) : "files";
}

static const char *source_name(struct load *l, const struct spec_source *s)
{
    return s->path ? last_part(l, s->path) : s->url.text ? repository_name(l, s->url.text) : "files";
}

static void bind_place(struct load *l, struct spec_step *s, const struct doc_node *item)
{
    const struct doc_node *to = doc_get(item, "to");
    const char *name;
    if (s->item == ITEM_GIT) {
        s->url = text_now(l, doc_get(item, "git"));
        s->ref = text_now(l, doc_get(item, "ref"));
        check_repository(l, &s->url, &s->ref);
        name = s->url.text ? repository_name(l, s->url.text) : "repository";
    } else {
        source_of(l, doc_get(item, "copy"), false, &s->source);
        name = source_name(l, &s->source);
    }
    s->to = to ? checked(l, to, &on_node, false) : (struct spec_text){.text = name, .place = s->place};
    check_node_path(l, &s->to, "to");
}

/* ---- faults of one item ---- */

static void refuse_in(struct load *l, const struct spec_texts *list, const char *hint)
{
    for (size_t i = 0; i < list->count; i++)
        refuse_credentials(l, &list->items[i], hint);
}

static void check_addresses(struct load *l, const struct spec_step *s)
{
    static const char *const index = "secrets: [{name: INDEX_URL, to: PIP_INDEX_URL}] gives pip the whole address";
    static const char *const extra =
        "secrets: [{name: EXTRA_INDEX_URL, to: PIP_EXTRA_INDEX_URL}] gives pip the whole address";
    static const char *const links = "secrets: [{name: FIND_LINKS, to: PIP_FIND_LINKS}] gives pip the whole address";
    static const char *const package = "use an ssh address, or ~/.netrc on the nodes (files: can put it there)";
    refuse_credentials(l, &s->index_url, index);
    refuse_in(l, &s->extra_index_url, extra);
    refuse_in(l, &s->find_links, links);
    refuse_in(l, &s->options, extra);
    refuse_in(l, &s->packages, package);
    refuse_in(l, &s->channels, "use the node's .condarc");
}

/* The content of a requirements file is part of the plan, so the file must be one of the job's own. */
static void check_file(struct load *l, const struct spec_text *file)
{
    if (*file->text != '/' && *file->text != '~' && !path_leaves(file->text))
        return;
    diagnostic_hint(
        fault(l, file->place, "the requirements file \"%s\" is outside the working directory", file->text),
        "workdir sends a folder of this machine; a file of the node is {pip: PACKAGE, options: [-r, FILE]}");
}

static void check_paths(struct load *l, const struct spec_step *s)
{
    size_t local = 0;
    if (s->file.text)
        check_file(l, &s->file);
    for (size_t i = 0; i < s->packages.count; i++)
        local += *s->packages.items[i].text == '.' || *s->packages.items[i].text == '/';
    if (s->editable && s->packages.count > 0 && local < s->packages.count)
        diagnostic_hint(fault(l, s->place, "only a package in the working directory can be editable"),
                        "an item with pip: ./ or pip: ./PATH; others get an item of their own");
}

/* Which items the field belongs to, as words: "pip and requirements items". */
static const char *owners(struct load *l, unsigned items)
{
    struct buf b = {0};
    for (unsigned i = 0, left = items; i < ARRAY_LEN(kinds); i++) {
        if (!(items & BIT(i)))
            continue;
        left &= ~BIT(i);
        buf_printf(&b, "%s%s", b.len == 0 ? "" : left ? ", " : " and ", kinds[i]);
    }
    const char *words = arena_strdup(l->arena, b.data ? b.data : "");
    buf_free(&b);
    return words;
}

static void check_fields(struct load *l, const struct doc_node *item, enum spec_item kind)
{
    for (size_t i = 0; i < item->count; i++)
        for (size_t f = 0; f < ARRAY_LEN(fields); f++)
            if (fields[f].items && !(fields[f].items & BIT(kind)) && strcmp(item->members[i].key, fields[f].key) == 0)
                diagnostic_hint(
                    fault(l, item->members[i].key_place, "%s has no key \"%s\"", kinds[kind], fields[f].key),
                    "it belongs to %s", owners(l, fields[f].items));
}

/* Exactly one of the kinds; false if none is given. */
static bool find_kind(struct load *l, const struct doc_node *item, enum spec_item *ret)
{
    const struct doc_member *found = NULL;
    bool strange = false; /* a key that the schema does not know either: probably a misspelt kind */
    for (size_t i = 0; i < item->count; i++) {
        const struct doc_member *m = &item->members[i];
        bool is_kind = false, is_field = false;
        for (size_t f = 0; f < ARRAY_LEN(fields); f++)
            is_field |= strcmp(m->key, fields[f].key) == 0;
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
            if (strcmp(m->key, kinds[k]) != 0)
                continue;
            is_kind = true;
            if (found) {
                diagnostic_expected(fault(l, m->key_place, "one item has both %s and %s", found->key, m->key),
                                    "one item for each, in order");
                note(l, found->key_place, "%s is here", found->key);
                continue;
            }
            found = m;
            *ret = (enum spec_item)k;
        }
        strange |= !is_kind && !is_field;
    }
    if (!found && !strange)
        diagnostic_expected(fault(l, place_of(item), "this item names nothing to do"),
                            "exactly one of run, pip, requirements, apt, conda, git and copy");
    return found != NULL;
}

static bool bind_item(struct load *l, struct spec_step *s, const struct doc_node *item)
{
    size_t errors = l->diagnostics->errors;
    s->place = place_of(item);
    bind_common(l, s, item);
    if (!is_object(item)) {
        if (!package_of(l, item, s))
            return false;
    } else if (!find_kind(l, item, &s->item)) {
        return false;
    } else {
        check_fields(l, item, s->item);
        if (s->item == ITEM_RUN)
            bind_run(l, s, item);
        else if (s->item == ITEM_GIT || s->item == ITEM_COPY)
            bind_place(l, s, item);
        else
            bind_install(l, s, item);
    }
    if (l->diagnostics->errors > errors)
        return true; /* it gets a name all the same */
    check_addresses(l, s);
    check_paths(l, s);
    return true;
}

/* ---- names ---- */

/* "torch" from "torch[x]>=2", "y" from "git+https://host/x/y.git@v1", "./src" from "./src[dev]". */
static const char *package_name(struct load *l, const char *text)
{
    size_t n = strcspn(text, " ;<>=!~@[,(");
    for (size_t i = 1; str_ends(text, ".whl") && i < n; i++) /* torch-2.1-py3-none-any.whl */
        if (text[i] == '-' && isdigit((unsigned char)text[i + 1]))
            return last_part(l, arena_strndup(l->arena, text, i));
    if (n == 0)
        return text;
    if (!strstr(text, "://") || n < (size_t)(strstr(text, "://") - text))
        return arena_strndup(l->arena, text, n);
    const char *host = strstr(text, "://") + 3, *at = strrchr(host, '@');
    return repository_name(l, at && strchr(host, '/') && at > strchr(host, '/')
                                  ? arena_strndup(l->arena, text, (size_t)(at - text))
                                  : text);
}

static const char *derived_name(struct load *l, const struct spec_step *s, size_t number)
{
    const char *first = s->packages.count > 0 ? s->packages.items[0].text : "none";
    switch (s->item) {
    case ITEM_RUN:
        return arena_printf(l->arena, "run-%zu", number);
    case ITEM_PIP:
    case ITEM_APT:
    case ITEM_CONDA:
        return arena_printf(l->arena, "%s:%s", kinds[s->item], package_name(l, first));
    case ITEM_REQUIREMENTS:
        first = s->file.text ? s->file.text : "requirements";
        return first;
    case ITEM_GIT:
        return arena_printf(l->arena, "git:%s", s->url.text ? repository_name(l, s->url.text) : "repository");
    case ITEM_COPY:
        break;
    }
    return arena_printf(l->arena, "copy:%s", source_name(l, &s->source));
}

/* A word for messages, logs and options: no blanks or shell characters, at most 80 bytes. */
static const char *clean(struct load *l, const char *name)
{
    char *word = arena_strndup(l->arena, name, strnlen(name, 80));
    for (char *p = word; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_.-+:/", *p))
            *p = '_';
    return word;
}

/* Whether rhrun itself has, or may have, a step with that name. */
static bool is_reserved(const struct load *l, const char *name)
{
    static const char *const reserved[] = {"activate", "python", "sync",   "restore", "prolog",
                                           "launch",   "epilog", "result", NULL};
    static const char *const numbered[] = {"files-", "outputs-", "restore-", NULL};
    bool taken = false;
    for (size_t i = 0; i < l->spec->role_count; i++) {
        const char *role = l->spec->roles[i].name;
        size_t len = strlen(role);
        taken |= (str_starts(name, "launch:") && strcmp(name + 7, role) == 0) ||
                 (str_starts(name, "ready:") && strcmp(name + 6, role) == 0);
        if (str_starts(name, role) && name[len] == ':') /* the role's own */
            name += len + 1;
    }
    for (const char *const *r = reserved; *r; r++)
        taken |= strcmp(*r, name) == 0;
    for (const char *const *n = numbered; *n; n++) {
        size_t len = strlen(*n);
        taken |= str_starts(name, *n) && name[len] && strspn(name + len, "0123456789") == strlen(name + len);
    }
    return taken;
}

struct item {
    const struct doc_node *node;
    size_t number; /* in its list, from 1 */
};

static void name_given(struct load *l, struct doc_node *taken, size_t i, const struct item *items)
{
    const struct doc_node *node = is_object(items[i].node) ? doc_get(items[i].node, "name") : NULL;
    struct spec_step *s = &l->spec->setup[i];
    if (!node || node->type != DOC_STRING)
        return;
    s->name = role_step_name(l, s->role, node->text);
    if (is_reserved(l, s->name))
        diagnostic_hint(fault(l, place_of(node), "a set-up step cannot be named \"%s\"", node->text),
                        "rhrun has a step of that name itself");
    int64_t other = doc_get_int(taken, s->name, -1);
    if (other < 0) {
        doc_set(l->arena, taken, s->name, doc_new_int(l->arena, (int64_t)i));
        return;
    }
    fault(l, place_of(node), "two set-up steps are named \"%s\"", s->name);
    note(l, place_of(doc_get(items[other].node, "name")), "the first one is here");
}

/* Given names first, so that none of them must yield to a derived name. */
static void name_items(struct load *l, const struct item *items)
{
    struct spec *spec = l->spec;
    struct doc_node *taken = doc_new_object(l->arena), *next = doc_new_object(l->arena);
    for (size_t i = 0; i < spec->setup_count; i++)
        name_given(l, taken, i, items);
    for (size_t i = 0; i < spec->setup_count; i++) {
        if (spec->setup[i].name)
            continue;
        const char *word = clean(l, derived_name(l, &spec->setup[i], items[i].number));
        const char *base = role_step_name(l, spec->setup[i].role, word), *name = base;
        int64_t n = doc_get_int(next, base, 2);
        while (doc_get(taken, name) || is_reserved(l, name))
            name = arena_printf(l->arena, "%s-%" PRId64, base, n++);
        if (name != base)
            doc_set(l->arena, next, base, doc_new_int(l->arena, n));
        spec->setup[i].name = name;
        doc_set(l->arena, taken, name, doc_new_int(l->arena, (int64_t)i));
    }
}

/* ---- the list ---- */

static size_t count_of(const struct doc_node *node)
{
    return is_array(node) ? node->count : is_scalar(node) ? 1 : 0;
}

static bool bind_requirements(struct load *l, struct spec_step *s, const struct doc_node *node)
{
    s->item = ITEM_REQUIREMENTS;
    s->place = place_of(node);
    s->retry_backoff_ms = 1000;
    s->file = file_of(l, node);
    check_paths(l, s);
    return s->file.text != NULL;
}

static void bind_list(struct load *l, const struct spec_role *role, const char *key, struct item *items)
{
    struct spec *spec = l->spec;
    const struct doc_node *list = role_value(l, role, key);
    bool short_forms = strcmp(key, "packages") == 0, files = strcmp(key, "requirements") == 0;
    bool own = !role || doc_get(role_doc(l, role), key), joinable = false;
    for (size_t i = 0; role && own && is_array(list) && i < list->count; i++)
        role_check_nodes(l, role, doc_get(list->items[i], "on"));
    for (size_t i = 0; i < count_of(list); i++) {
        const struct doc_node *item = is_array(list) ? list->items[i] : list;
        struct spec_step *s = &spec->setup[spec->setup_count];
        if (!is_object(item) && !((short_forms || files) && is_scalar(item)))
            continue;
        *s = (struct spec_step){.role = role};
        bool good = files ? bind_requirements(l, s, item) : bind_item(l, s, item);
        if (!good || !(own || role_keep_nodes(l, role, s)))
            continue;
        bool named = is_object(item) && doc_get(item, "name");
        s->unordered = short_forms || files;
        if (!short_forms || named || !joinable || !package_join(l, s - 1, s))
            items[spec->setup_count++] = (struct item){item, i + 1};
        joinable = !named;
    }
}

/* The lists of a set-up, the job's or a role's, in the order in which their items are done. */
static const char *const list_keys[] = {"packages", "requirements", "setup"};

static size_t count_all(struct load *l, const struct spec_role *role)
{
    size_t total = 0;
    for (size_t i = 0; i < ARRAY_LEN(list_keys); i++)
        total += count_of(role_value(l, role, list_keys[i]));
    return total;
}

/* The first item beyond the limit. NULL: the lists have at most `left` items, and their number is subtracted from
 * it. */
static const struct doc_node *beyond(struct load *l, const struct spec_role *role, size_t *left)
{
    for (size_t i = 0; i < ARRAY_LEN(list_keys); i++) {
        const struct doc_node *list = role_value(l, role, list_keys[i]);
        size_t count = count_of(list);
        if (count > *left)
            return is_array(list) ? list->items[*left] : list;
        *left -= count;
    }
    return NULL;
}

static void too_many(struct load *l, size_t total)
{
    size_t left = SPEC_STEPS_MAX;
    const struct doc_node *item = beyond(l, NULL, &left);
    for (size_t i = 0; !item && i < l->spec->role_count; i++)
        item = l->spec->roles[i].own_setup ? beyond(l, &l->spec->roles[i], &left) : NULL;
    fault(l, place_of(item ? item : l->root), "set-up has %zu items with those of roles, and at most %d are allowed",
          total, SPEC_STEPS_MAX);
}

static void bind_all(struct load *l, const struct spec_role *role, struct item *items)
{
    for (size_t i = 0; i < ARRAY_LEN(list_keys); i++)
        bind_list(l, role, list_keys[i], items);
}

void setup_bind(struct load *l)
{
    struct spec *spec = l->spec;
    size_t total = count_all(l, NULL);
    spec->activate = checked(l, doc_get(l->root, "activate"), &on_node, true);
    const char *limit = doc_get_string(l->root, "log_limit", "");
    spec->log_limit_bytes = size_bytes(limit);
    if (*limit && spec->log_limit_bytes < SPEC_LOG_LIMIT_MIN)
        fault(l, place_of(doc_get(l->root, "log_limit")), "log_limit can be 1MB at least");
    for (size_t i = 0; i < spec->role_count; i++)
        total += spec->roles[i].own_setup ? count_all(l, &spec->roles[i]) : 0;
    if (total > SPEC_STEPS_MAX) {
        bool told = false; /* reported by the schema */
        for (size_t i = 0; i < ARRAY_LEN(list_keys); i++)
            told = told || count_of(doc_get(l->root, list_keys[i])) > SPEC_STEPS_MAX;
        if (!told)
            too_many(l, total);
        return;
    }
    struct item *items = arena_array(l->arena, total + 1, sizeof *items);
    spec->setup = arena_array(l->arena, total + 1, sizeof *spec->setup);
    bind_all(l, NULL, items);
    for (size_t i = 0; i < spec->role_count; i++)
        if (spec->roles[i].own_setup)
            bind_all(l, &spec->roles[i], items);
    name_items(l, items);
}
