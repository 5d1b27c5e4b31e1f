/* rhrun diff: the differences between two runs, or locks: inputs and results. */
#include "diffing.h"

#include <string.h>

enum { TEXT_MAX = 64 << 20 }; /* bytes of all files' lines; beyond that, files are only named */

static struct diff_rows *section(struct cli *c, struct diff *d, const char *name)
{
    struct diff_section *s = &d->sections[d->section_count++];
    *s = (struct diff_section){.name = name, .rows = {.arena = c->arena}};
    return &s->rows;
}

/* ---- params and spec ---- */

static const struct doc_node *only_point(const struct doc_node *lock)
{
    const struct doc_node *points = doc_get(lock, "points");
    return points && points->count == 1 && !doc_get(points->items[0], "name") ? points->items[0] : NULL;
}

static void diff_params(struct diff_rows *rows, const struct doc_node *a, const struct doc_node *b)
{
    const struct doc_node *x = only_point(a), *y = only_point(b);
    if (!x || !y) {
        diff_docs(rows, "points", doc_get(a, "points"), doc_get(b, "points"));
        return;
    }
    diff_docs(rows, "", doc_get(x, "params"), doc_get(y, "params"));
    diff_docs(rows, "args", doc_get(x, "args"), doc_get(y, "args"));
}

/* The spec without the values of its params, which have a section of their own. */
static const struct doc_node *spec_of(struct arena *a, const struct doc_node *lock)
{
    const struct doc_node *resolved = doc_get_path(lock, "/spec/resolved");
    struct doc_node *spec = resolved && resolved->type == DOC_OBJECT ? doc_clone(a, resolved) : NULL;
    const struct doc_node *params = doc_get(spec, "params");
    for (size_t i = 0; params && params->type == DOC_OBJECT && i < params->count; i++)
        if (params->members[i].value->type == DOC_OBJECT)
            doc_remove(params->members[i].value, "default");
    return spec;
}

/* ---- packages ---- */

/* A package in a few words: enough to tell two packages of one name apart. */
static const char *package_words(struct arena *a, const struct doc_node *p)
{
    struct buf b = {0};
    static const char *const froms[] = {"url", "folder"};
    buf_puts(&b, doc_get_text(p, "version", "?"));
    for (size_t i = 0; i < ARRAY_LEN(froms); i++)
        if (doc_get_string(p, froms[i], NULL))
            buf_printf(&b, " from %s", doc_get_string(p, froms[i], ""));
    if (doc_get_bool(p, "editable", false))
        buf_puts(&b, ", editable");
    if (doc_get_string(p, "sha256", NULL))
        buf_printf(&b, ", sha256 %.12s", doc_get_string(p, "sha256", ""));
    const char *text = arena_strdup(a, b.data);
    buf_free(&b);
    return text;
}

/* By node and role: {"node 0": {"python": "3.11.2", "torch": "2.1.0", ...}}. */
static struct doc_node *packages_of(struct arena *a, const struct doc_node *lock)
{
    const struct doc_node *installs = doc_get(lock, "installs");
    struct doc_node *all = doc_new_object(a);
    for (size_t i = 0; installs && i < installs->count; i++) {
        const struct doc_node *one = installs->items[i], *nodes = doc_get(one, "nodes"),
                              *list = doc_get(one, "packages");
        struct doc_node *names = doc_new_object(a);
        const char *role = doc_get_string(one, "role", NULL);
        const char *python = doc_get_string(one, "python", NULL);
        if (python)
            doc_set(a, names, "python",
                    doc_new_string(a, arena_printf(a, "%s %s", doc_get_string(one, "implementation", ""), python)));
        for (size_t k = 0; list && k < list->count; k++)
            doc_set(a, names, doc_get_string(list->items[k], "name", "?"),
                    doc_new_string(a, package_words(a, list->items[k])));
        for (size_t k = 0; nodes && k < nodes->count; k++)
            doc_set(a, all,
                    arena_printf(a, "node %s%s%s", nodes->items[k]->text, role ? " of role " : "", role ? role : ""),
                    names); /* shared: it is only read */
    }
    return all;
}

/* A change that all nodes share is printed once. */
static void diff_packages(struct diff_rows *rows, const struct doc_node *a, const struct doc_node *b)
{
    struct arena *arena = rows->arena;
    const struct doc_node *x = packages_of(arena, a), *y = packages_of(arena, b);
    const struct doc_node *first_x = NULL, *first_y = NULL;
    bool alike = x->count == y->count && x->count > 0;
    for (size_t i = 0; i < x->count && alike; i++) {
        const struct doc_node *other = doc_get(y, x->members[i].key);
        first_x = first_x ? first_x : x->members[i].value;
        first_y = first_y ? first_y : other;
        alike = other && doc_equal(first_x, x->members[i].value) && doc_equal(first_y, other);
    }
    diff_docs(rows, "", alike ? first_x : x, alike ? first_y : y);
}

/* ---- code ---- */

static const char *tree_id(const struct diff_side *s, const char *name)
{
    const struct doc_node *trees = doc_get(s->lock, "trees");
    for (size_t i = 0; trees && i < trees->count; i++)
        if (str_eq(doc_get_string(trees->items[i], "name", NULL), name))
            return doc_get_string(trees->items[i], "id", NULL);
    return NULL;
}

static void read_file(struct cli *c, const struct diff *d, struct diff_file *f, size_t *left)
{
    struct buf text = {0};
    struct error err = ERROR_INIT;
    if (*left == 0)
        f->fault = "too much to show: only the names of files from here on";
    else if (tree_change_text(d->a->store, d->b->store, f->change, &text, &err) < 0)
        f->fault = arena_strdup(c->arena, err.text);
    f->text = arena_strndup(c->arena, text.data ? text.data : "", text.len);
    *left -= text.len < *left ? text.len : *left;
    buf_free(&text);
}

static void read_files(struct cli *c, const struct diff *d, struct diff_tree *t)
{
    size_t left = TEXT_MAX;
    struct tree *a, *b;
    struct tree_change *changes;
    t->has_a = d->a->store && tree_load(d->a->store, t->a, c->arena, &a);
    t->has_b = d->b->store && tree_load(d->b->store, t->b, c->arena, &b);
    if (!t->has_a || !t->has_b)
        return;
    tree_changes(a, b, c->arena, &changes, &t->count);
    t->files = arena_array(c->arena, t->count, sizeof *t->files);
    for (size_t i = 0; i < t->count; i++) {
        t->files[i].change = &changes[i];
        read_file(c, d, &t->files[i], &left);
    }
}

static void add_tree(struct cli *c, struct diff *d, const char *name)
{
    struct diff_tree t = {.name = name, .a = tree_id(d->a, name), .b = tree_id(d->b, name)};
    if (str_eq(t.a, t.b))
        return;
    if (t.a && t.b)
        read_files(c, d, &t);
    d->trees[d->tree_count++] = t;
}

/* A folder that is restored on several nodes has a tree for each; their names say which. */
static void diff_code(struct cli *c, struct diff *d)
{
    const struct doc_node *a = doc_get(d->a->lock, "trees"), *b = doc_get(d->b->lock, "trees");
    d->trees = arena_array(c->arena, (a ? a->count : 0) + (b ? b->count : 0), sizeof *d->trees);
    for (size_t i = 0; a && i < a->count; i++)
        if (doc_get_string(a->items[i], "name", NULL))
            add_tree(c, d, doc_get_string(a->items[i], "name", NULL));
    for (size_t i = 0; b && i < b->count; i++) {
        const char *name = doc_get_string(b->items[i], "name", NULL);
        if (name && !tree_id(d->a, name))
            add_tree(c, d, name);
    }
}

/* ---- all ---- */

static void diff_outcome(struct cli *c, struct diff *d)
{
    struct diff_rows *rows = section(c, d, "outcome");
    diff_docs(rows, "status", doc_get_path(d->a->lock, "/run/status"), doc_get_path(d->b->lock, "/run/status"));
    diff_docs(section(c, d, "metrics"), "", d->a->metrics, d->b->metrics);
    diff_docs(section(c, d, "results"), "", d->a->results, d->b->results);
    d->durations_a = d->a->durations;
    d->durations_b = d->b->durations;
}

/* Without the diff of uncommitted changes: the files are compared instead. */
static const struct doc_node *git_of(struct arena *a, const struct doc_node *lock)
{
    static const char *const keys[] = {"commit", "branch", "dirty"};
    const struct doc_node *git = doc_get(lock, "git");
    struct doc_node *ret = git ? doc_new_object(a) : NULL;
    for (size_t i = 0; git && i < ARRAY_LEN(keys); i++)
        if (doc_get(git, keys[i]))
            doc_set(a, ret, keys[i], doc_clone(a, doc_get(git, keys[i])));
    return ret;
}

static void compare(struct cli *c, struct diff *d)
{
    static const char *const hosts[] = {"hosts", "ranks", "rented"};
    const struct doc_node *a = d->a->lock, *b = d->b->lock;
    diff_params(section(c, d, "params"), a, b);
    diff_docs(section(c, d, "spec"), "", spec_of(c->arena, a), spec_of(c->arena, b));
    diff_docs(section(c, d, "git"), "", git_of(c->arena, a), git_of(c->arena, b));
    diff_packages(section(c, d, "packages"), a, b);
    struct diff_rows *rows = section(c, d, "hosts");
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        diff_docs(rows, hosts[i], doc_get(a, hosts[i]), doc_get(b, hosts[i]));
    diff_docs(section(c, d, "env"), "", doc_get(a, "env"), doc_get(b, "env"));
    diff_docs(section(c, d, "programs"), "", doc_get(a, "made_by"), doc_get(b, "made_by"));
    diff_code(c, d);
    if (d->a->is_run && d->b->is_run)
        diff_outcome(c, d);
    d->differs = d->tree_count > 0;
    for (size_t i = 0; i < d->section_count; i++)
        d->differs = d->differs || d->sections[i].rows.count > 0;
}

static int cmd_diff(struct cli *c)
{
    struct diff_side a = {0}, b = {0};
    struct error err = ERROR_INIT;
    struct diff d = {.a = &a, .b = &b};
    struct buf text = {0};
    int rc = diff_side_open(c, c->words[0], &a, &err);
    if (rc == 0)
        rc = diff_side_open(c, c->words[1], &b, &err);
    if (rc < 0) {
        cli_fail(c, &err);
    } else {
        compare(c, &d);
        if (c->given[OPT_JSON])
            diff_put_json(&d, &text);
        else if (!c->given[OPT_QUIET])
            diff_put_text(c, &d, &text);
    }
    if (text.len > 0)
        fwrite(text.data, 1, text.len, stdout);
    buf_free(&text);
    diff_side_close(&a);
    diff_side_close(&b);
    return rc < 0 ? 2 : d.differs;
}

static const enum cli_option_id diff_options[] = {OPT_SET, OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_diff_command = {
    "diff",
    "A B",
    "What differs between two runs, or locks",
    "A and B are runs (an id, its beginning, or last), specs (their latest run), or\n"
    "files of locks; RUN:POINT is one point of a sweep, by its name or id. Compares\n"
    "the inputs: params, spec, the commit, the files in the form of git diff,\n"
    "packages, hosts, values of env from the caller; and for two runs also the\n"
    "outcome: status, metrics, results. Exit status: 0 nothing differs, 1 something\n"
    "does, 2 the two could not be compared. Durations of steps are shown, but do not\n"
    "count. -p and --set choose among the runs of a spec.\n",
    diff_options,
    2,
    2,
    false,
    cmd_diff};
