/* The parts of a run's lock in a report: the origin of its files and packages, and which rank was on which node. */
#include "reporting.h"
#include "rhrun/lock.h"

#include <stdlib.h>
#include <string.h>

enum { PACKAGES_MAX = 5000, NODES_SHOWN = 8, TREES_SHOWN = 20 };

const char *report_without_login(struct arena *arena, const char *text)
{
    const char *host = text ? strstr(text, "://") : NULL;
    const char *at = host ? memchr(host + 3, '@', strcspn(host + 3, "/")) : NULL;
    return at ? arena_printf(arena, "%.*s%s", (int)(host + 3 - text), text, at + 1) : text;
}

static void add(struct gathering *g, const char *name, const char *value)
{
    if (value && *value && g->provenance_count < REPORT_PROVENANCE_MAX)
        g->provenance[g->provenance_count++] = (struct report_pair){name, value};
}

/* ---- files ---- */

static void take_git(struct gathering *g, const struct doc_node *git)
{
    const char *branch = git ? doc_get_string(git, "branch", NULL) : NULL;
    const bool known = git && doc_get(git, "dirty");
    if (!git)
        return;
    add(g, "commit",
        arena_printf(g->arena, "%s%s%s%s", doc_get_string(git, "commit", "?"), branch ? " on " : "",
                     branch ? branch : "",
                     known && doc_get_bool(git, "dirty", false) ? ", with changes that were not committed" : ""));
}

static void take_trees(struct gathering *g, const struct doc_node *trees)
{
    for (size_t i = 0; trees && i < trees->count && i < TREES_SHOWN; i++) {
        const struct doc_node *t = trees->items[i];
        const char *commit = doc_get_string(t, "commit", NULL);
        const char *from = report_without_login(g->arena, doc_get_string(t, "from", NULL));
        add(g, arena_printf(g->arena, "files of %s", doc_get_string(t, "name", "?")),
            arena_printf(g->arena, "tree %s%s%s%s%s, %lld file%s", doc_get_string(t, "id", "?"), from ? " from " : "",
                         from ? from : "", commit ? " at " : "", commit ? commit : "",
                         (long long)doc_get_int(t, "files", 0), doc_get_int(t, "files", 0) == 1 ? "" : "s"));
    }
}

static void take_rented(struct gathering *g, const struct doc_node *rented)
{
    if (!rented)
        return;
    add(g, "rented",
        arena_printf(g->arena, "%s %s%s%s%s, %s USD an hour", doc_get_string(rented, "provider", "?"),
                     doc_get_string(rented, "type", "?"), doc_get_bool(rented, "spot", false) ? ", spot" : "",
                     doc_get(rented, "region") ? ", " : "", doc_get_string(rented, "region", ""),
                     doc_get_text(rented, "usd_per_hour", "?")));
}

static void take_images(struct gathering *g, const struct doc_node *hosts)
{
    const char *before = NULL;
    for (size_t i = 0; hosts && i < hosts->count; i++) {
        const char *image = doc_get_string(hosts->items[i], "image", NULL);
        if (image && !str_eq(image, before))
            add(g, "container image", image);
        before = image ? image : before;
    }
}

/* ---- packages ---- */

/* "role trainer, node 0, 1, 2"; NULL: one Python, the same on all nodes. */
static const char *where_of(struct gathering *g, const struct doc_node *install, bool alone)
{
    const struct doc_node *nodes = doc_get(install, "nodes");
    const char *role = doc_get_string(install, "role", NULL);
    struct buf b = {0};
    if (alone)
        return NULL;
    if (role)
        buf_printf(&b, "%s, ", role);
    for (size_t i = 0; nodes && i < nodes->count && i < NODES_SHOWN; i++)
        buf_printf(&b, "%s%s", i ? ", " : nodes->count > 1 ? "nodes " : "node ", nodes->items[i]->text);
    if (nodes && nodes->count > NODES_SHOWN)
        buf_printf(&b, " and %zu more", nodes->count - NODES_SHOWN);
    const char *text = arena_strdup(g->arena, b.data ? b.data : "");
    buf_free(&b);
    return text;
}

static void take_packages(struct gathering *g, const struct doc_node *installs)
{
    size_t count = 0, all = 0;
    for (size_t i = 0; installs && i < installs->count; i++) {
        const struct doc_node *list = doc_get(installs->items[i], "packages");
        all += list ? list->count : 0;
    }
    struct report_package *packages = arena_array(g->arena, all + 1, sizeof *packages);
    for (size_t i = 0; installs && i < installs->count; i++) {
        const struct doc_node *install = installs->items[i], *list = doc_get(install, "packages");
        const char *where = where_of(g, install, installs->count == 1);
        add(g, where ? arena_printf(g->arena, "Python of %s", where) : "Python",
            doc_get_string(install, "python", NULL));
        for (size_t k = 0; list && k < list->count && count < PACKAGES_MAX; k++) {
            const struct doc_node *p = list->items[k];
            const char *from = doc_get_string(p, "url", doc_get_string(p, "folder", NULL));
            packages[count++] =
                (struct report_package){doc_get_string(p, "name", "?"), doc_get_string(p, "version", "?"),
                                        report_without_login(g->arena, from), where, doc_get_bool(p, "system", false)};
        }
    }
    g->ret->packages = packages;
    g->ret->package_count = count;
    g->ret->packages_left_out = all - count;
}

void report_gather_lock(struct gathering *g)
{
    struct error err = ERROR_INIT;
    struct doc_node *lock;
    if (lock_of_run(g->journal, g->run->id, g->arena, &lock, &err) < 0)
        return; /* the page shows the rest */
    take_git(g, doc_get(lock, "git"));
    take_trees(g, doc_get(lock, "trees"));
    take_rented(g, doc_get(lock, "rented"));
    take_images(g, doc_get(lock, "hosts"));
    take_packages(g, doc_get(lock, "installs"));
    add(g, "repeats run", doc_get_path(lock, "/run/rerun_of") ? doc_get_path(lock, "/run/rerun_of")->text : NULL);
    g->placed = doc_get(lock, "ranks");
}

/* ---- ranks ---- */

void report_each_placed(const struct gathering *g, void (*placed)(void *arg, uint32_t rank, uint32_t node), void *arg)
{
    uint32_t given = 0;
    for (size_t i = 0; g->placed && i < g->placed->count; i++) {
        const struct doc_node *p = g->placed->items[i];
        const char *role = doc_get_string(p, "role", NULL);
        uint32_t first = (uint32_t)doc_get_int(p, "first", 0);
        for (size_t k = 0; role && k < g->roles.count; k++)
            if (strcmp(g->roles.items[k].name, role) == 0)
                first += g->roles.items[k].first;
        for (int64_t k = 0; k < doc_get_int(p, "count", 0) && given < REPORT_RANKS_MAX; k++, given++)
            placed(arg, first + (uint32_t)k, (uint32_t)doc_get_int(p, "node", 0));
    }
}
