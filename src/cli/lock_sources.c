/* The trees of a rerun, by the ids in its lock: from a snapshot store, of the job or the rerun; else from the folders
 * here, if these still have the same files (a clone at the commit). */
#include "internal.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

enum { STORES_MAX = 10000 };

/* ---- in a store ---- */

static const struct doc_node *tree_node(const struct spec *spec, const char *name)
{
    const struct doc_node *trees = doc_get(spec->lock->root, "trees");
    for (size_t i = 0; i < trees->count; i++)
        if (str_eq(doc_get_string(trees->items[i], "name", NULL), name))
            return trees->items[i];
    return NULL;
}

/* *ret stays NULL if the run had none with that name. */
static int load(struct sources *s, const char *name, const char *to, const struct tree **ret, struct error *err)
{
    const struct doc_node *node = tree_node(s->spec, name);
    struct tree *tree;
    if (!node)
        return 0;
    if (tree_load_whole(s->store, doc_get_text(node, "id", ""), s->arena, &tree, err) < 0) {
        error_prefix(err, "%s", name);
        return -1;
    }
    s->items[s->count++] = (struct source_tree){.name = name,
                                                .from = doc_get_text(node, "from", ""),
                                                .commit = doc_get_string(node, "commit", NULL),
                                                .to = to,
                                                .tree = tree,
                                                .notes = ""};
    *ret = tree;
    return 0;
}

/* Fails for a source that the spec has and the lock lacks: the lock was edited by hand, or comes from an older
 * journal. */
static int need(const char *name, const struct tree *tree, struct error *err)
{
    if (tree)
        return 0;
    error_set(err, ERROR_SPEC, "the lock does not have the files of %s", name);
    error_hint(err, "the lock is of a run before rhrun kept these, or it was edited by hand");
    return -1;
}

static int load_all(struct sources *s, struct error *err)
{
    const struct spec *spec = s->spec;
    struct arena *a = s->arena;
    const struct tree **files = arena_array(a, spec->file_count + 1, sizeof(struct tree *));
    const struct tree **copies = arena_array(a, spec->setup_count + 1, sizeof(struct tree *));
    const struct tree **restores = arena_array(a, spec->output_count * spec->nnodes + 1, sizeof(struct tree *));
    s->count = 0;
    if (spec->has_workdir &&
        (load(s, "workdir", NULL, &s->plan.workdir, err) < 0 || need("workdir", s->plan.workdir, err) < 0))
        return -1;
    for (size_t i = 0; i < spec->file_count; i++)
        if (load(s, spec->files[i].name, spec->files[i].to.text, &files[i], err) < 0 ||
            need(spec->files[i].name, files[i], err) < 0)
            return -1;
    for (size_t i = 0; i < spec->setup_count; i++)
        if (spec->setup[i].item == ITEM_COPY &&
            (load(s, spec->setup[i].name, spec->setup[i].to.text, &copies[i], err) < 0 ||
             need(spec->setup[i].name, copies[i], err) < 0))
            return -1;
    for (size_t i = 0; i < spec->output_count; i++)
        for (uint32_t n = 0; n < spec->nnodes; n++) {
            const char *name = arena_printf(a, "restore:%s:%u", spec->outputs[i].name, n);
            if (spec->outputs[i].restore &&
                load(s, name, spec->outputs[i].from.text, &restores[i * spec->nnodes + n], err) < 0)
                return -1;
        }
    s->plan.files = files;
    s->plan.copies = copies;
    s->plan.restores = restores;
    s->plan.commit = s->count > 0 && spec->has_workdir ? s->items[0].commit : NULL;
    return 0;
}

/* -1 and err: there is no store in that folder, or it lacks something. */
static int from_store(struct sources *s, const char *dir, struct error *err)
{
    if (access(dir, F_OK) < 0)
        return error_set(err, ERROR_IO, "there is no snapshot store \"%s\"", dir);
    if (tree_store_open(dir, &s->store, err) < 0)
        return -1;
    if (load_all(s, err) == 0)
        return 0;
    tree_store_close(s->store);
    s->store = NULL;
    return -1;
}

static bool is_store(const char *name)
{
    return str_ends(name, ".git") && *name != '.';
}

/* The folders that may have the files of a run: the store of its job first, then those of all other jobs, as the run
 * may have been a rerun, then those of bundles. */
static int find_stores(struct arena *a, const char *job, const char ***ret, size_t *ret_count, struct error *err)
{
    struct journal_job *jobs = NULL;
    size_t count = 0, n = 0;
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home || journal_jobs(&jobs, &count, err) < 0)
        return -1;
    const char **dirs = arena_array(a, count + STORES_MAX + 1, sizeof *dirs);
    dirs[n++] = arena_printf(a, "%s/jobs/%s/tree.git", home, job);
    for (size_t i = 0; i < count; i++)
        dirs[n++] = arena_printf(a, "%s/jobs/%s/tree.git", home, jobs[i].id);
    journal_jobs_free(jobs, count);
    DIR *dir = opendir(arena_printf(a, "%s/reruns", home));
    for (struct dirent *e; dir && n < count + STORES_MAX && (e = readdir(dir));)
        if (is_store(e->d_name))
            dirs[n++] = arena_printf(a, "%s/reruns/%s", home, e->d_name);
    if (dir)
        closedir(dir);
    *ret = dirs;
    *ret_count = n;
    return 0;
}

/* err: what the job's own store lacks. */
static int from_stores(struct sources *s, struct error *err)
{
    const char **dirs;
    size_t count;
    struct error ignored = ERROR_INIT;
    if (find_stores(s->arena, doc_get_text(doc_get(s->spec->lock->root, "job"), "id", ""), &dirs, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (from_store(s, dirs[i], i == 0 ? err : &ignored) == 0)
            return 0;
    return -1;
}

/* ---- in the folders ---- */

static int check_ids(const struct spec *spec, const struct sources *s, struct error *err)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct source_tree *item = &s->items[i];
        const struct doc_node *node = tree_node(spec, item->name);
        const char *was = node ? doc_get_text(node, "id", "") : NULL;
        if (str_starts(item->name, "restore of ") || str_eq(was, item->tree->id))
            continue;
        return error_set(err, ERROR_SPEC, "the files of %s are tree %s here, the lock has %s", item->name,
                         item->tree->id, was ? was : "none");
    }
    return 0;
}

int cli_check_trees(struct cli *c, const struct spec *spec, const struct sources *s)
{
    struct error err = ERROR_INIT;
    if (check_ids(spec, s, &err) == 0)
        return 0;
    error_hint(&err, "rhrun rerun takes the files of the lock; rhrun run --lock writes a new lock");
    return cli_fail(c, &err);
}

static int from_folders(struct cli *c, const struct spec *spec, const struct roster *roster, struct sources **ret,
                        struct error *err)
{
    struct sources *s;
    if (cli_scan_sources(c, spec, roster, true, &s, err) < 0)
        return -1;
    if (check_ids(spec, s, err) == 0) {
        *ret = s;
        return 0;
    }
    cli_sources_close(s);
    return -1;
}

static int say_missing(struct cli *c, const struct spec *spec, const struct error *store, const struct error *folder)
{
    struct error err = *store;
    const char *commit = doc_get_text(doc_get(spec->lock->root, "git"), "commit", NULL);
    bool dirty = doc_get_bool(doc_get(spec->lock->root, "git"), "dirty", false);
    c->error_lines = arena_printf(c->arena, "  and %s\n", folder->text);
    error_prefix(&err, "the files of run %s cannot be restored", spec->lock->run);
    if (commit && !dirty)
        error_hint(&err, "git checkout %s in a clone brings them back, with the lock beside the spec", commit);
    else
        error_hint(&err, "rhrun show RUN --bundle FILE, on the machine where the run was made, includes them");
    err.code = ERROR_SPEC;
    return cli_fail(c, &err);
}

int cli_lock_sources(struct cli *c, const struct spec *spec, const struct roster *roster, struct sources **ret)
{
    struct error own = ERROR_INIT, then = ERROR_INIT, here = ERROR_INIT;
    struct sources *s = sources_new(c, spec, true);
    if (doc_get(spec->lock->root, "trees")->count == 0 && !spec->has_workdir && spec->file_count == 0) {
        *ret = s;
        return load_all(s, &own) == 0 ? 0 : cli_fail(c, &own);
    }
    if (from_stores(s, &then) == 0) {
        *ret = s;
        return 0;
    }
    cli_sources_close(s);
    if (from_folders(c, spec, roster, ret, &here) == 0)
        return 0;
    return say_missing(c, spec, &then, &here);
}

static int load_trees(struct cli *c, const char *dir, const struct doc_node *nodes, struct tree_store **ret,
                      const struct tree **trees, struct error *err)
{
    if (nodes->count > 0 && access(dir, F_OK) < 0)
        return error_set(err, ERROR_IO, "there is no snapshot store \"%s\"", dir);
    int rc = tree_store_open(dir, ret, err);
    for (size_t i = 0; rc == 0 && i < nodes->count; i++) {
        struct tree *tree = NULL;
        rc = tree_load_whole(*ret, doc_get_text(nodes->items[i], "id", ""), c->arena, &tree, err);
        trees[i] = tree;
        if (rc < 0)
            tree_store_close(*ret);
    }
    return rc;
}

int cli_lock_trees(struct cli *c, const struct doc_node *lock, struct tree_store **ret_store, const struct tree ***ret,
                   size_t *ret_count, struct error *err)
{
    const struct doc_node *nodes = doc_get(lock, "trees");
    const struct tree **trees = arena_array(c->arena, nodes->count + 1, sizeof(struct tree *));
    struct error ignored = ERROR_INIT;
    struct tree_store *store = NULL;
    const char **dirs;
    size_t count;
    int rc = -1;
    if (find_stores(c->arena, doc_get_text(doc_get(lock, "job"), "id", ""), &dirs, &count, err) < 0)
        return -1;
    for (size_t i = 0; rc < 0 && i < count; i++)
        rc = load_trees(c, dirs[i], nodes, &store, trees, i == 0 ? err : &ignored);
    if (rc == 0)
        *ret_store = store;
    *ret = trees;
    *ret_count = nodes->count;
    return rc;
}
