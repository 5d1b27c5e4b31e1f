/* Replaces the packages that the spec asks for by those of a lock: exactly these versions, without dependencies,
 * because the lock has them all. And moves a rerun's outputs, so that they do not overwrite those of the run that it
 * repeats. */
#include "internal.h"

#include <string.h>

struct pin {
    struct load *l;
    const struct spec_role *role; /* whose Python */
    struct spec_step *out;
    size_t count;
};

static bool installs(const struct spec_step *s, const struct spec_role *role)
{
    return s->role == role && (s->item == ITEM_PIP || s->item == ITEM_REQUIREMENTS);
}

static bool is_of(const struct doc_node *entry, const struct spec_role *role)
{
    return str_eq(doc_get_string(entry, "role", NULL), role ? role->name : NULL);
}

static void add_text(struct load *l, struct spec_texts *list, const char *text)
{
    size_t cap = list->count;
    for (size_t i = 0; i < list->count; i++)
        if (*text != '-' && str_eq(list->items[i].text, text))
            return;
    texts_add(l, list, &cap, (struct spec_text){.text = text});
}

/* All places where the spec's items look for packages. */
static void take_options(struct pin *p, struct spec_step *to)
{
    const struct spec *spec = p->l->spec;
    for (size_t i = 0; i < spec->setup_count; i++) {
        const struct spec_step *s = &spec->setup[i];
        if (!installs(s, p->role))
            continue;
        to->place = to->place.source ? to->place : s->place;
        to->timeout_ms = s->timeout_ms > to->timeout_ms ? s->timeout_ms : to->timeout_ms;
        to->retry_times = s->retry_times > to->retry_times ? s->retry_times : to->retry_times;
        if (!to->index_url.text)
            to->index_url = s->index_url;
        else if (s->index_url.text && !str_eq(s->index_url.text, to->index_url.text))
            add_text(p->l, &to->extra_index_url, s->index_url.text);
        for (size_t k = 0; k < s->extra_index_url.count; k++)
            add_text(p->l, &to->extra_index_url, s->extra_index_url.items[k].text);
        for (size_t k = 0; k < s->find_links.count; k++)
            add_text(p->l, &to->find_links, s->find_links.items[k].text);
        for (size_t k = 0; k < s->options.count; k++)
            add_text(p->l, &to->options, s->options.items[k].text);
    }
    add_text(p->l, &to->options, "--no-deps");
}

/* The requirement for pip; NULL: rhrun does not install the package. pip itself belongs to the venv. */
static const char *requirement(struct load *l, const struct doc_node *package)
{
    const char *name = doc_get_text(package, "name", ""), *version = doc_get_text(package, "version", "");
    const char *url = doc_get_string(package, "url", NULL), *digest = doc_get_string(package, "sha256", NULL);
    if (doc_get_bool(package, "system", false) || doc_get(package, "folder") || strcmp(name, "pip") == 0)
        return NULL;
    if (!url)
        return arena_printf(l->arena, "%s==%s", name, version);
    bool mark = digest && !strchr(url, '#') && !strstr(url, "+");
    return arena_printf(l->arena, "%s @ %s%s%s", name, url, mark ? "#sha256=" : "", mark ? digest : "");
}

enum what { INDEX, FOLDERS, EDITABLE };

static const char *wanted(struct load *l, const struct doc_node *package, enum what what)
{
    const char *folder = doc_get_string(package, "folder", NULL);
    if (what == INDEX)
        return requirement(l, package);
    if (!folder || doc_get_bool(package, "editable", false) != (what == EDITABLE))
        return NULL;
    return strcmp(folder, ".") == 0 ? "./" : arena_printf(l->arena, "./%s", folder);
}

static void set_nodes(struct load *l, struct spec_step *s, const struct doc_node *entry, bool only)
{
    const struct doc_node *nodes = doc_get(entry, "nodes");
    if (only)
        return;
    s->on = ON_LIST;
    s->on_nodes = arena_array(l->arena, nodes->count + 1, sizeof *s->on_nodes);
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->items[i]->integer < l->spec->nnodes)
            s->on_nodes[s->on_count++] = (uint32_t)nodes->items[i]->integer;
}

static void add_item(struct pin *p, const struct doc_node *entry, enum what what, bool only)
{
    static const char *const names[] = {"locked:pip", "locked:folders", "locked:editable"};
    struct load *l = p->l;
    const struct doc_node *packages = doc_get(entry, "packages");
    struct spec_step s = {.role = p->role, .item = ITEM_PIP, .retry_backoff_ms = 1000, .editable = what == EDITABLE};
    for (size_t i = 0; i < packages->count; i++) {
        const char *text = wanted(l, packages->items[i], what);
        if (text)
            add_text(l, &s.packages, text);
    }
    if (s.packages.count == 0)
        return;
    take_options(p, &s);
    set_nodes(l, &s, entry, only);
    const char *name = role_step_name(l, p->role, names[what]);
    size_t same = 0;
    for (size_t i = 0; i < p->count; i++)
        same += p->out[i].name && str_starts(p->out[i].name, name);
    s.name = same ? arena_printf(l->arena, "%s-%zu", name, same + 1) : name;
    p->out[p->count++] = s;
}

static void add_items(struct pin *p, const struct doc_node *installs_list, enum what what)
{
    size_t entries = 0;
    for (size_t i = 0; i < installs_list->count; i++)
        entries += is_of(installs_list->items[i], p->role);
    for (size_t i = 0; i < installs_list->count; i++)
        if (is_of(installs_list->items[i], p->role))
            add_item(p, installs_list->items[i], what, entries == 1);
}

/* The packages take the place of the first item that installs; packages built from folders take the place of the
 * last. */
static void pin_one(struct load *l, const struct spec_role *role, const struct doc_node *list)
{
    struct spec *spec = l->spec;
    size_t first = SIZE_MAX, last = 0, known = 0;
    for (size_t i = 0; i < list->count; i++)
        known += is_of(list->items[i], role);
    for (size_t i = 0; i < spec->setup_count; i++)
        if (installs(&spec->setup[i], role)) {
            first = first == SIZE_MAX ? i : first;
            last = i;
        }
    if (!known || first == SIZE_MAX)
        return; /* the packages are not known: the user of the rerun is told */
    struct pin p = {
        .l = l, .role = role, .out = arena_array(l->arena, spec->setup_count + 3 * known + 1, sizeof *p.out)};
    for (size_t i = 0; i < spec->setup_count; i++) {
        if (i == first)
            add_items(&p, list, INDEX);
        if (!installs(&spec->setup[i], role))
            p.out[p.count++] = spec->setup[i];
        if (i == last) {
            add_items(&p, list, FOLDERS);
            add_items(&p, list, EDITABLE);
        }
    }
    spec->setup = p.out;
    spec->setup_count = p.count;
    struct spec_python *python = NULL; /* a venv as in the run, although nothing may be left to install */
    for (size_t i = 0; role && i < spec->role_count; i++)
        python = &spec->roles[i] == role ? &spec->roles[i].python : python;
    python = role ? python : &spec->python;
    if (python && python->venv == VENV_AUTO && !python->conda.text)
        python->venv = VENV_TRUE;
}

/* Keeps the files of the repeated run. */
static void move_outputs(struct load *l)
{
    for (size_t i = 0; i < l->spec->output_count; i++) {
        struct spec_output *o = &l->spec->outputs[i];
        if (o->to.text && *o->to.text != '/' && *o->to.text != '~' && !o->in_place)
            o->to.text = arena_printf(l->arena, "rerun-%.8s/%s", l->spec->lock->run, o->to.text);
    }
}

void lock_pin(struct load *l)
{
    const struct doc_node *list = doc_get(l->spec->lock->root, "installs");
    pin_one(l, NULL, list);
    for (size_t i = 0; i < l->spec->role_count; i++)
        if (l->spec->roles[i].own_setup)
            pin_one(l, &l->spec->roles[i], list);
    if (l->spec->lock->repeats)
        move_outputs(l);
}
