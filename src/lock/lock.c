/* The lock of a run, made from the events between the journal's first and the run's end. */
#include "rhrun/lock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct list { /* the packages of a Python, from an INSTALLED that has the list */
    const char *digest;
    const struct doc_node *found; /* NULL: it cannot be read */
};

struct gather {
    struct arena *arena;
    const char *run;
    struct state *state; /* as of the run's end */
    bool there, over;
    const char *spec_text, *owner, *version, *origin;
    const struct doc_node *made; /* NULL: an older journal */
    const struct doc_node *places;
    struct list *lists;
    size_t list_count, list_cap;
    uint64_t closed_ms;
};

/* ---- reading ---- */

static const struct doc_node *read_json(struct arena *a, const char *text, enum doc_type type)
{
    struct doc *doc;
    struct diagnostics d = {0};
    bool good = text && doc_load_text("journal", text, strlen(text), DOC_FORMAT_JSON, a, &doc, &d, NULL) == 0;
    diagnostics_free(&d);
    return good && doc->root->type == type ? doc->root : NULL;
}

static void take_list(struct gather *g, const struct event_installed *e)
{
    if (!e->found_json)
        return;
    if (g->list_count == g->list_cap) {
        g->list_cap = g->list_cap ? 2 * g->list_cap : 16;
        g->lists = xreallocarray(g->lists, g->list_cap, sizeof *g->lists);
    }
    g->lists[g->list_count++] =
        (struct list){arena_strdup(g->arena, e->digest), read_json(g->arena, e->found_json, DOC_OBJECT)};
}

static void take_asked(struct gather *g, const struct event_asked *asked)
{
    g->spec_text = arena_strdup(g->arena, asked->spec_text);
    g->owner = arena_strdup(g->arena, asked->owner_name);
    g->version = arena_strdup(g->arena, asked->version);
}

static bool take_event(void *arg, const struct event *e)
{
    struct gather *g = arg;
    bool ours = str_eq(e->run, g->run);
    if (g->over && e->type == EVENT_RUN_OPENED)
        return false; /* events that belong to the run's end, such as METRICS, may follow it */
    if (g->over && !ours && e->type != EVENT_RUN_REOPENED)
        return true;
    state_apply(g->state, e);
    if (e->type == EVENT_INSTALLED)
        take_list(g, &e->installed);
    if (!ours)
        return true;
    if (e->type == EVENT_RUN_OPENED) {
        g->there = true;
        take_asked(g, &e->opened.asked);
        g->made = read_json(g->arena, e->opened.made_of, DOC_OBJECT);
    } else if (e->type == EVENT_RUN_REOPENED) {
        g->over = false;
        take_asked(g, &e->reopened);
    } else if (e->type == EVENT_STARTED && e->started.bind_json) {
        const struct doc_node *bind = read_json(g->arena, e->started.bind_json, DOC_OBJECT);
        g->places = bind ? bind : g->places;
    } else if (e->type == EVENT_RUN_CLOSED) {
        g->over = true;
    }
    return true;
}

/* ---- putting together ---- */

static void put_text(struct arena *a, struct doc_node *to, const char *key, const char *text)
{
    if (text && *text)
        doc_set(a, to, key, doc_new_string(a, text));
}

static void put_number(struct arena *a, struct doc_node *to, const char *key, const struct doc_node *from)
{
    int64_t n = doc_get_int(from, key, -1);
    if (n > 0)
        doc_set(a, to, key, doc_new_int(a, n));
}

/* "2026-11-23T16:40:11Z" */
static const char *when(struct arena *a, uint64_t ms)
{
    time_t t = (time_t)(ms / 1000);
    struct tm tm;
    char text[32];
    if (!ms || !gmtime_r(&t, &tm) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
        return NULL;
    return arena_strdup(a, text);
}

static struct doc_node *clone_of(struct arena *a, const struct doc_node *from, const char *key)
{
    const struct doc_node *node = doc_get(from, key);
    return node ? doc_clone(a, node) : NULL;
}

static void put_clone(struct arena *a, struct doc_node *to, const char *key, const struct doc_node *from)
{
    struct doc_node *node = clone_of(a, from, key);
    if (node)
        doc_set(a, to, key, node);
}

static struct doc_node *run_node(const struct gather *g, const struct state_run *run)
{
    struct arena *a = g->arena;
    struct doc_node *one = doc_new_object(a);
    put_text(a, one, "id", run->id);
    put_text(a, one, "status", run_status_name(run->status));
    doc_set(a, one, "opened", doc_new_string(a, run->opened_ms ? when(a, run->opened_ms) : ""));
    put_text(a, one, "closed", when(a, run->closed_ms));
    put_text(a, one, "by", g->owner);
    put_text(a, one, "rerun_of", doc_get_string(g->made, "rerun_of", NULL));
    return one;
}

static struct doc_node *made_by_node(const struct gather *g)
{
    struct doc_node *one = doc_new_object(g->arena);
    doc_set(g->arena, one, "rhrun", doc_new_string(g->arena, g->version ? g->version : ""));
    put_number(g->arena, one, "agent", g->made);
    return one;
}

static struct doc_node *job_node(const struct gather *g, const struct journal *j, const struct state_run *run)
{
    struct arena *a = g->arena;
    struct doc_node *one = doc_new_object(a);
    doc_set(a, one, "name", doc_new_string(a, journal_job_name(j)));
    put_text(a, one, "id", journal_job(j));
    put_text(a, one, "origin", journal_origin(j));
    put_text(a, one, "variant", run->variant);
    return one;
}

static struct doc_node *spec_node(const struct gather *g, const struct state_run *run)
{
    struct arena *a = g->arena;
    struct doc_node *one = doc_new_object(a), *sets = doc_new_array(a);
    put_text(a, one, "path", run->spec_path);
    put_text(a, one, "hash", run->spec_hash);
    for (uint32_t i = 0; run->sets && i < run->set_count; i++)
        doc_append(a, sets, doc_new_string(a, run->sets[i]));
    if (sets->count > 0)
        doc_set(a, one, "sets", sets);
    put_text(a, one, "on", run->on);
    doc_set(a, one, "text", doc_new_string(a, g->spec_text ? g->spec_text : ""));
    put_clone(a, one, "resolved", g->made);
    return one;
}

/* Numbers in params are texts, as written. */
static struct doc_node *point_node(struct arena *a, const char *name, const struct doc_node *given,
                                   const struct doc_node *args)
{
    struct doc_node *one = doc_new_object(a), *params = doc_new_object(a);
    put_text(a, one, "name", name);
    for (size_t i = 0; given && given->type == DOC_OBJECT && i < given->count; i++)
        if (given->members[i].value->text)
            doc_set(a, params, given->members[i].key, doc_new_string(a, given->members[i].value->text));
    doc_set(a, one, "params", params);
    doc_set(a, one, "args", args ? doc_clone(a, args) : doc_new_array(a));
    return one;
}

static struct doc_node *points_node(const struct gather *g, const struct state_run *run)
{
    struct arena *a = g->arena;
    struct doc_node *points = doc_new_array(a);
    const struct doc_node *args = read_json(a, run->args_json, DOC_ARRAY), *swept = doc_get(g->made, "points");
    for (size_t i = 0; swept && swept->type == DOC_ARRAY && i < swept->count; i++)
        doc_append(
            a, points,
            point_node(a, doc_get_string(swept->items[i], "name", NULL), doc_get(swept->items[i], "params"), args));
    if (points->count == 0)
        doc_append(a, points, point_node(a, NULL, read_json(a, run->params_json, DOC_OBJECT), args));
    return points;
}

static const struct doc_node *found_of(const struct gather *g, const char *digest)
{
    for (size_t i = 0; i < g->list_count; i++)
        if (str_eq(g->lists[i].digest, digest))
            return g->lists[i].found;
    return NULL;
}

/* Nodes with the same list in the same role's Python make one entry. */
static struct doc_node *installs_node(const struct gather *g, const struct state_run *run)
{
    struct arena *a = g->arena;
    struct doc_node *installs = doc_new_array(a), *entries = doc_new_object(a);
    for (uint32_t n = 0; n < g->state->node_count && n < run->node_count; n++)
        for (const struct state_installed *i = g->state->nodes[n].installed; i; i = i->next) {
            const char *key = arena_printf(a, "%s %s", i->digest, i->role ? i->role : "");
            struct doc_node *one = doc_get(entries, key);
            const struct doc_node *found = found_of(g, i->digest);
            if (!one && found && doc_get(found, "packages")) {
                one = doc_new_object(a);
                doc_set(a, one, "nodes", doc_new_array(a));
                put_text(a, one, "role", i->role);
                put_clone(a, one, "python", found);
                put_clone(a, one, "implementation", found);
                put_clone(a, one, "packages", found);
                doc_set(a, entries, key, one);
                doc_append(a, installs, one);
            }
            if (one)
                doc_append(a, doc_get(one, "nodes"), doc_new_int(a, n));
        }
    return installs;
}

static struct doc_node *lines_node(struct arena *a, const char *text)
{
    struct doc_node *list = doc_new_array(a);
    for (; text && *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strcspn(text, "\n") > 0)
            doc_append(a, list, doc_new_stringn(a, text, strcspn(text, "\n")));
    return list;
}

static struct doc_node *host_node(const struct gather *g, uint32_t n)
{
    static const char *const texts[] = {"hostname", "os", "kernel", "arch", "cpu"};
    struct arena *a = g->arena;
    const struct state_node *node = &g->state->nodes[n];
    const struct doc_node *facts = read_json(a, node->facts_json, DOC_OBJECT), *images = doc_get(g->made, "images");
    struct doc_node *one = doc_new_object(a), *gpus = lines_node(a, doc_get_string(facts, "gpus", NULL));
    doc_set(a, one, "node", doc_new_int(a, n));
    put_text(a, one, "name", node->host);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        put_text(a, one, texts[i], doc_get_string(facts, texts[i], NULL));
    put_number(a, one, "cpus", facts);
    put_number(a, one, "memory_bytes", facts);
    if (gpus->count > 0)
        doc_set(a, one, "gpus", gpus);
    put_text(a, one, "gpu_driver", doc_get_string(facts, "gpu_driver", NULL));
    put_text(a, one, "python", doc_get_string(facts, "python_version", NULL));
    put_text(a, one, "container", doc_get_string(facts, "container", NULL));
    if (images && n < images->count)
        put_text(a, one, "image", images->items[n]->text);
    put_text(a, one, "image_id", doc_get_string(facts, "image", NULL));
    put_text(a, one, "image_digest", doc_get_string(facts, "image_digest", NULL));
    return one;
}

/* From the places of bind_json: role, node, first, count. */
static struct doc_node *ranks_node(const struct gather *g)
{
    struct arena *a = g->arena;
    struct doc_node *ranks = doc_new_array(a);
    const struct doc_node *places = doc_get(g->places, "places"), *roles = doc_get(g->places, "roles");
    for (size_t i = 0; places && places->type == DOC_ARRAY && i < places->count; i++) {
        const struct doc_node *p = places->items[i];
        int64_t n[4];
        bool good = p->type == DOC_ARRAY && p->count == ARRAY_LEN(n);
        for (size_t k = 0; good && k < ARRAY_LEN(n); k++)
            good = doc_is_integer(p->items[k], &n[k]) && n[k] >= 0;
        if (!good)
            continue;
        struct doc_node *one = doc_new_object(a);
        if (roles && roles->type == DOC_ARRAY && (size_t)n[0] < roles->count)
            put_text(a, one, "role", doc_get_string(roles->items[n[0]], "name", NULL));
        doc_set(a, one, "node", doc_new_int(a, n[1]));
        doc_set(a, one, "first", doc_new_int(a, n[2]));
        doc_set(a, one, "count", doc_new_int(a, n[3]));
        doc_append(a, ranks, one);
    }
    return ranks;
}

static struct doc_node *lock_node(const struct gather *g, const struct journal *j, const struct state_run *run)
{
    struct arena *a = g->arena;
    struct doc_node *lock = doc_new_object(a), *hosts = doc_new_array(a), *ranks = ranks_node(g);
    struct doc_node *trees = clone_of(a, g->made, "trees");
    doc_set(a, lock, "lock", doc_new_int(a, LOCK_FORMAT));
    doc_set(a, lock, "run", run_node(g, run));
    doc_set(a, lock, "made_by", made_by_node(g));
    doc_set(a, lock, "job", job_node(g, j, run));
    doc_set(a, lock, "spec", spec_node(g, run));
    doc_set(a, lock, "points", points_node(g, run));
    put_clone(a, lock, "git", g->made);
    doc_set(a, lock, "trees", trees ? trees : doc_new_array(a));
    doc_set(a, lock, "installs", installs_node(g, run));
    for (uint32_t n = 0; n < g->state->node_count && n < run->node_count; n++)
        doc_append(a, hosts, host_node(g, n));
    doc_set(a, lock, "hosts", hosts);
    if (ranks->count > 0)
        doc_set(a, lock, "ranks", ranks);
    put_clone(a, lock, "env", g->made);
    put_clone(a, lock, "rented", g->made);
    return lock;
}

int lock_of_run(struct journal *j, const char *run, struct arena *arena, struct doc_node **ret, struct error *err)
{
    struct gather g = {.arena = arena, .run = run, .state = state_create()};
    int rc = journal_each(j, 0, take_event, &g, err);
    const struct state_run *found = rc == 0 ? state_run_find(g.state, run) : NULL;
    if (rc == 0 && (!found || !g.there))
        rc = error_set(err, ERROR_USAGE, "there is no run \"%s\"", run);
    if (rc == 0)
        *ret = lock_node(&g, j, found);
    free(g.lists);
    state_destroy(g.state);
    return rc;
}

/* ---- files ---- */

int lock_load(const char *path, struct arena *arena, struct doc **ret, struct diagnostics *diagnostics,
              struct error *err)
{
    struct doc *doc;
    if (doc_load_file(path, DOC_FORMAT_AUTO, arena, &doc, diagnostics, err) != 0)
        return -1;
    doc_hidden_says(doc, "the value here is not valid in a lock");
    if (spec_check_lock(doc, arena, diagnostics, err) < 0)
        return -1;
    *ret = doc;
    return 0;
}

void lock_write(const struct doc_node *lock, bool json, struct buf *ret)
{
    if (json) {
        doc_to_json(lock, DOC_JSON_PRETTY, ret);
        buf_putc(ret, '\n');
        return;
    }
    buf_puts(ret, "# What run ");
    buf_puts(ret, doc_get_string(doc_get(lock, "run"), "id", "?"));
    buf_puts(ret, " ran from: rhrun rerun takes this file. rhrun schema lock says what its keys mean.\n");
    doc_to_yaml(lock, ret);
}
