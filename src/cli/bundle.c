/* A run in one file (tree.h, struct tree_bundle): its lock, files, events, logs and results. */
#include "internal.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_MAX = 64 << 20, FILES_MAX = 100000, ALL_MAX = 1 << 30 };

struct bundle {
    struct cli *c;
    struct journal *journal;
    const char *run;
    struct tree_bundle_file *files;
    size_t count, cap;
    uint64_t bytes;
    struct buf events;
};

/* From here on the text belongs to the bundle. */
static void add(struct bundle *b, const char *path, struct buf *text)
{
    if (b->count == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 64;
        b->files = xreallocarray(b->files, b->cap, sizeof *b->files);
    }
    size_t len = text->len;
    b->bytes += len;
    char *data = buf_steal(text);
    b->files[b->count++] = (struct tree_bundle_file){arena_strdup(b->c->arena, path), data ? data : xstrdup(""), len};
}

/* The workers' output, without the spool's frames. */
static void put_output(const struct buf *spool, struct buf *ret)
{
    const uint8_t *at = (const uint8_t *)spool->data;
    size_t left = spool->len;
    struct wire_spool head;
    while (left >= WIRE_SPOOL_HEADER && wire_spool_get(at, &head) && head.len <= left - WIRE_SPOOL_HEADER) {
        if (head.stream == WIRE_STREAM_OUT || head.stream == WIRE_STREAM_ERR || head.stream == WIRE_STREAM_NOTE)
            buf_append(ret, at + WIRE_SPOOL_HEADER, head.len);
        at += WIRE_SPOOL_HEADER + head.len;
        left -= WIRE_SPOOL_HEADER + head.len;
    }
}

/* "launch@gpu1.log"; for an attempt that another one replaced "ATTEMPT.log". */
static const char *log_name(struct bundle *b, const char *file)
{
    struct arena *a = b->c->arena;
    const char *attempt = arena_strndup(a, file, strlen(file) - strlen(".spool"));
    const struct state *s = journal_state(b->journal);
    const struct state_cell *cell = state_cell_by_attempt(s, attempt);
    if (!cell)
        return arena_printf(a, "logs/%s.log", attempt);
    const char *host = cell->node < s->node_count ? s->nodes[cell->node].host : NULL;
    char *name = arena_printf(a, "%.80s@%.80s-%u.%s.log", cell->step, host ? host : "node", cell->node,
                              arena_strndup(a, attempt, 8));
    for (char *p = name; *p; p++)
        if (*p == '/' || (unsigned char)*p < 0x21)
            *p = '_';
    return arena_printf(a, "logs/%s", name);
}

static int add_file(struct bundle *b, const char *folder, const char *name, bool spool, struct error *err)
{
    struct buf raw = {0}, text = {0};
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", folder, name);
    if (b->count >= FILES_MAX || b->bytes > ALL_MAX)
        return error_set(err, ERROR_USAGE, "the logs and results of run %s are too much for a bundle: more than %u GiB",
                         b->run, ALL_MAX >> 30);
    if (file_read(path, LOG_MAX, &raw, err) < 0) {
        buf_printf(&text, "%s, so it is left out of the bundle\n", err->text);
        *err = (struct error)ERROR_INIT;
    } else if (spool) {
        put_output(&raw, &text);
    } else {
        buf_append(&text, raw.data ? raw.data : "", raw.len);
    }
    buf_free(&raw);
    add(b, spool ? log_name(b, name) : arena_printf(b->c->arena, "result/%s", name), &text);
    return 0;
}

static int add_folder(struct bundle *b, const char *folder, const char *ending, struct error *err)
{
    DIR *dir = opendir(folder);
    int rc = 0;
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));)
        if (*e->d_name != '.' && str_ends(e->d_name, ending))
            rc = add_file(b, folder, e->d_name, str_eq(ending, ".spool"), err);
    if (dir)
        closedir(dir);
    return rc;
}

static bool take_event(void *arg, const struct event *e)
{
    struct bundle *b = arg;
    if (str_eq(e->run, b->run)) {
        event_to_json(e, &b->events);
        buf_putc(&b->events, '\n');
    }
    return true;
}

static int gather(struct bundle *b, const struct doc_node *lock, struct error *err)
{
    struct buf text = {0};
    CLEANUP(cleanup_free) char *logs = xasprintf("%s/runs/%s", journal_path(b->journal), b->run);
    CLEANUP(cleanup_free) char *results = xasprintf("%s/result", logs);
    lock_write(lock, false, &text);
    add(b, "lock.yaml", &text);
    if (journal_each(b->journal, 0, take_event, b, err) < 0)
        return -1;
    add(b, "events.ndjson", &b->events);
    return add_folder(b, logs, ".spool", err) < 0 ? -1 : add_folder(b, results, ".json", err);
}

int cli_write_bundle(struct cli *c, const char *word, const char *path)
{
    struct bundle b = {.c = c};
    struct error err = ERROR_INIT;
    struct tree_store *store = NULL;
    struct doc_node *lock;
    const struct state_run *run;
    const struct tree **trees;
    size_t count;
    char size[32];
    if (cli_find_run(c, word, &b.journal, &run, &err) < 0)
        return cli_fail(c, &err);
    b.run = arena_strdup(c->arena, run->id);
    int rc = lock_of_run(b.journal, b.run, c->arena, &lock, &err);
    if (rc == 0)
        rc = cli_lock_trees(c, lock, &store, &trees, &count, &err);
    if (rc == 0)
        rc = gather(&b, lock, &err);
    if (rc == 0) {
        const struct tree_bundle what = {trees, count, b.files, b.count,
                                         arena_printf(c->arena, "run %s of %s\n", b.run, journal_job_name(b.journal))};
        rc = tree_bundle_write(store, &what, path, &err);
    }
    if (rc == 0 && !c->given[OPT_QUIET]) {
        cli_size(b.bytes, size);
        fprintf(stderr, "rhrun: %s: run %s, %zu tree%s of files, %s of lock, logs and results\n", path, b.run, count,
                count == 1 ? "" : "s", size);
    }
    for (size_t i = 0; i < b.count; i++)
        free((void *)(uintptr_t)b.files[i].data);
    free(b.files);
    buf_free(&b.events);
    tree_store_close(store);
    journal_close(b.journal);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

/* If the spec's folder does not exist here (another machine), the current folder takes its place: outputs go there.
 * Other faults of the lock are reported when it is loaded. */
static void place_lock(struct cli *c, const char *name, struct buf *text)
{
    struct diagnostics d = {0};
    struct doc *doc;
    char here[PATH_MAX];
    bool read = text->len > 0 && getcwd(here, sizeof here) &&
                doc_load_text(name, text->data, text->len, DOC_FORMAT_YAML, c->arena, &doc, &d, NULL) == 0;
    struct doc_node *spec = read ? doc_get(doc->root, "spec") : NULL;
    const char *path = doc_get_text(spec, "path", "/job.yaml"), *base = strrchr(path, '/');
    diagnostics_free(&d);
    if (!spec || spec->type != DOC_OBJECT ||
        (base > path && access(arena_strndup(c->arena, path, (size_t)(base - path)), F_OK) == 0))
        return;
    doc_set(c->arena, spec, "path",
            doc_new_string(c->arena, arena_printf(c->arena, "%s/%s", here, base ? base + 1 : path)));
    buf_clear(text);
    lock_write(doc->root, false, text);
}

/* The store and the lock are named by the bundle's digest, so the same bundle is found again. */
int cli_read_bundle(struct cli *c, const char *path, const char **ret_lock, struct error *err)
{
    struct tree_store *store = NULL;
    struct buf text = {0};
    char hex[65];
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home || digest_sha256_file(path, hex, err) < 0)
        return -1;
    const char *stem = arena_printf(c->arena, "%s/reruns/bundle-%.16s", home, hex);
    const char *dir = arena_printf(c->arena, "%s.git", stem), *lock = arena_printf(c->arena, "%s.lock.yaml", stem);
    int rc = tree_store_open(dir, &store, err);
    if (rc == 0)
        rc = tree_bundle_read(store, path, "lock.yaml", LOCK_MAX_BYTES, &text, err);
    if (rc == 0)
        place_lock(c, path, &text);
    if (rc == 0)
        rc = file_write_atomic(lock, text.data ? text.data : "", text.len, 0600, err);
    tree_store_close(store);
    buf_free(&text);
    *ret_lock = lock;
    return rc;
}
