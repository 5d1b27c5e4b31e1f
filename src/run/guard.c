/* Files that a node's files never replace. See guard.h. */
#include "guard.h"

#include "rhrun/journal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct kept {
    char *path; /* absolute; links are resolved as far as the path exists */
    const char *why;
    bool state;
};
struct guard {
    struct kept *items;
    size_t count, cap;
};

static const char of_spec[] = "rhrun reads its spec from there", of_state[] = "rhrun keeps its own state there",
                  of_login[] = "the spec names it for logging in", of_secret[] = "the spec names it for a secret",
                  of_lock[] = "it is a lock file of the spec";

/* Takes ownership of path. */
static void add(struct guard *g, char *path, const char *why)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->items[i].path, path) == 0) {
            free(path);
            return;
        }
    if (g->count == g->cap) {
        g->cap = g->cap ? g->cap * 2 : 16;
        g->items = xreallocarray(g->items, g->cap, sizeof *g->items);
    }
    g->items[g->count++] = (struct kept){path_clean(path), why, why == of_state};
}

/* The path with the links of its folder resolved, but not its last name; if the folder does not exist, the path
 * itself. */
static char *named(const char *path)
{
    const char *slash = strrchr(path, '/');
    CLEANUP(cleanup_free) char *dir = xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
    CLEANUP(cleanup_free) char *real = realpath(dir, NULL);
    return real ? xasprintf("%s/%s", real, slash + 1) : xstrdup(path);
}

/* Keeps the path as it is named and, if it is a link, the file to which it leads. */
static void keep(struct guard *g, const char *path, const char *why)
{
    if (!path || *path != '/')
        return;
    char *real = realpath(path, NULL);
    add(g, named(path), why);
    if (real)
        add(g, real, why);
}

static void keep_below(struct guard *g, const char *dir, const char *name, const char *why)
{
    CLEANUP(cleanup_free) char *path = name && *name == '/' ? xstrdup(name) : xasprintf("%s/%s", dir, name ? name : "");
    if (name && *name && !str_starts(name, "~"))
        keep(g, path, why);
}

/* Each file in the folder may be a link to a file elsewhere. */
static void keep_clusters(struct guard *g, const struct spec *spec)
{
    CLEANUP(cleanup_free) char *folder = xasprintf("%s/clusters", spec->dir);
    keep(g, folder, of_spec);
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            keep_below(g, folder, e->d_name, of_spec);
    if (dir)
        closedir(dir);
}

static void keep_host(struct guard *g, const struct spec_host *h)
{
    keep(g, h->identity_file, of_login);
    keep(g, h->known_hosts, of_login);
    keep(g, h->ssh_config, of_login);
}

static void keep_hostfile(struct guard *g, const struct spec *spec, const struct doc_node *node)
{
    const struct doc_node *cluster = node ? doc_get(node, "cluster") : NULL;
    const char *file = cluster && cluster->type == DOC_OBJECT ? doc_get_string(cluster, "hostfile", NULL) : NULL;
    if (file)
        keep_below(g, spec->dir, file, of_spec);
}

static void keep_lock(struct guard *g, const char *spec_path)
{
    const char *slash = strrchr(spec_path, '/'), *dot = strrchr(spec_path, '.');
    size_t stem = dot && slash && dot > slash + 1 ? (size_t)(dot - spec_path) : strlen(spec_path);
    CLEANUP(cleanup_free) char *lock = xasprintf("%.*s.lock.yaml", (int)stem, spec_path);
    CLEANUP(cleanup_free) char *short_lock = xasprintf("%.*s.lock", (int)stem, spec_path);
    keep(g, lock, of_lock);
    keep(g, short_lock, of_lock);
}

static void keep_spec(struct guard *g, const struct plan *plan)
{
    const struct spec *spec = plan->spec;
    char *here = getcwd(NULL, 0);
    CLEANUP(cleanup_free)
    char *given = spec->path && *spec->path != '/' && here ? xasprintf("%s/%s", here, spec->path)
                  : spec->path                             ? xstrdup(spec->path)
                                                           : NULL;
    free(here);
    keep(g, given, of_spec);
    keep(g, spec->real_path, of_spec);
    if (given && *given == '/')
        keep_lock(g, given);
    if (spec->real_path)
        keep_lock(g, spec->real_path);
    if (spec->dir)
        keep_clusters(g, spec);
    if (spec->doc && spec->dir)
        keep_hostfile(g, spec, spec->doc->root);
    for (uint32_t i = 0; i < roster_count(plan->roster); i++)
        keep_host(g, roster_host(plan->roster, i));
    for (size_t i = 0; i < spec->secret_count && spec->dir; i++) {
        keep(g, spec->secrets[i].file, of_secret);
        for (size_t k = 0; k < spec->secrets[i].command.count; k++)
            if (spec->secrets[i].command.items[k].text && strlen(spec->secrets[i].command.items[k].text) < 4096)
                keep_below(g, spec->dir, spec->secrets[i].command.items[k].text, of_secret);
    }
}

struct guard *guard_create(const struct plan *plan)
{
    struct guard *g = xcalloc(1, sizeof *g);
    struct error err = ERROR_INIT;
    CLEANUP(cleanup_free) char *state = journal_home(&err), *self = realpath("/proc/self/exe", NULL);
    if (state)
        keep_below(g, state, "jobs", of_state);
    keep(g, self, "it is rhrun itself");
    keep_spec(g, plan);
    return g;
}

void guard_free(struct guard *g)
{
    for (size_t i = 0; g && i < g->count; i++)
        free(g->items[i].path);
    if (g)
        free(g->items);
    free(g);
}

/* ".git" as git reads it on file systems that drop dots and spaces at the end of a name, or have short names. */
static bool is_git(const char *name, size_t len)
{
    while (len > 0 && (name[len - 1] == '.' || name[len - 1] == ' '))
        len--;
    return (len == 4 && strncasecmp(name, ".git", 4) == 0) || (len == 5 && strncasecmp(name, "git~1", 5) == 0);
}

const char *guard_forbids(const struct guard *g, const char *to, const char *path, enum guard_what what, bool own)
{
    for (const char *p = path; *p; p += *p == '/') {
        size_t n = strcspn(p, "/");
        if (is_git(p, n))
            return "git reads what lies in a folder .git";
        if (n >= 7 && strncasecmp(p, ".rhrun-", 7) == 0)
            return "rhrun's own files have such names";
        p += n;
    }
    CLEANUP(cleanup_free) char *real = realpath(to, NULL);
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", real ? real : to, path);
    size_t full_len = strlen(path_clean(full));
    for (size_t i = 0; i < g->count; i++) {
        const struct kept *k = &g->items[i];
        size_t len = strlen(k->path), least = len < full_len ? len : full_len;
        if ((own && k->state) || strncasecmp(k->path, full, least) != 0)
            continue;
        bool below = full_len == len || (full_len > len && full[len] == '/');
        bool above = len > full_len && k->path[full_len] == '/'; /* as a folder, this path exists already */
        if (below || (above && what != GUARD_FOLDER))
            return k->why;
    }
    return NULL;
}
