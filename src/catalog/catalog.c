/* The layers of a catalog, and where they are. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern const char rhrun_catalog_seed[];
extern const uint64_t rhrun_catalog_seed_size;

/* ---- rows by their key ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (unsigned char)*text) * 1099511628211u; /* FNV-1a, the NUL included */
    while (*text++);
    return hash;
}

static uint64_t hash_row(const struct catalog_row *row)
{
    uint64_t hash = hash_text(14695981039346656037u, row->provider);
    hash = hash_text(hash, row->region);
    hash = hash_text(hash, row->zone);
    return hash_text(hash, row->instance_type);
}

static bool same_machine(const struct catalog_row *a, const struct catalog_row *b)
{
    return str_eq(a->instance_type, b->instance_type) && str_eq(a->provider, b->provider) &&
           str_eq(a->region, b->region) && str_eq(a->zone, b->zone);
}

/* The slot of that machine, or the free slot for it. */
static uint32_t *slot_of(const struct catalog *c, const struct catalog_row *row)
{
    size_t i = (size_t)hash_row(row) & (c->slot_count - 1);
    while (c->slots[i] && !same_machine(&c->rows[c->slots[i] - 1], row))
        i = (i + 1) & (c->slot_count - 1);
    return &c->slots[i];
}

static void grow(struct catalog *c)
{
    size_t cap = c->cap ? c->cap * 2 : 128;
    struct catalog_row *rows = arena_array(c->arena, cap, sizeof *rows);
    if (c->count)
        memcpy(rows, c->rows, c->count * sizeof *rows);
    c->rows = rows;
    c->cap = cap;
    c->slot_count = cap * 2;
    c->slots = arena_array(c->arena, c->slot_count, sizeof *c->slots);
    for (size_t i = 0; i < c->count; i++)
        *slot_of(c, &rows[i]) = (uint32_t)i + 1;
}

void catalog_put(struct catalog *c, const struct catalog_row *row)
{
    if (c->count == c->cap)
        grow(c);
    uint32_t *slot = slot_of(c, row);
    if (!*slot)
        *slot = (uint32_t)++c->count;
    c->rows[*slot - 1] = *row;
}

const struct catalog_row *catalog_rows(const struct catalog *c, size_t *ret_count)
{
    *ret_count = c->count;
    return c->rows;
}

struct catalog *catalog_create(struct arena *arena, struct diagnostics *d)
{
    struct catalog *c = arena_alloc(arena, sizeof *c);
    c->arena = arena;
    accelerators_read(&c->accelerators, arena, d);
    return c;
}

/* ---- places ---- */

/* XDG base directories: a relative path is ignored. */
static const char *below(struct arena *arena, const char *variable, const char *fallback, const char *name)
{
    const char *dir = getenv(variable);
    if (dir && *dir == '/')
        return arena_printf(arena, "%s/%s", dir, name);
    dir = getenv("HOME");
    if (!dir || *dir != '/') {
        const struct passwd *pw = getpwuid(getuid());
        dir = pw ? pw->pw_dir : NULL;
    }
    return dir && *dir == '/' ? arena_printf(arena, "%s/%s/%s", dir, fallback, name) : NULL;
}

struct catalog_places catalog_places(struct arena *arena)
{
    return (struct catalog_places){below(arena, "XDG_CACHE_HOME", ".cache", "rhrun/catalog"),
                                   below(arena, "XDG_CONFIG_HOME", ".config", "rhrun/catalog.csv")};
}

/* ---- layers ---- */

static const struct source *make_source(struct arena *arena, const char *name, const char *text, size_t len)
{
    struct source *s = arena_alloc(arena, sizeof *s);
    *s = (struct source){.name = name, .text = text, .len = len};
    return s;
}

/* NULL and err; ret_absent: the file does not exist, which is no fault. */
static const struct source *read_source(struct arena *arena, const char *path, bool *ret_absent, struct error *err)
{
    struct buf text = {0};
    errno = 0;
    int rc = file_read(path, CATALOG_FILE_MAX, &text, err);
    *ret_absent = rc < 0 && (errno == ENOENT || errno == ENOTDIR);
    const struct source *s = NULL;
    if (rc == 0)
        s = make_source(arena, arena_strdup(arena, path), arena_strndup(arena, text.data ? text.data : "", text.len),
                        text.len);
    buf_free(&text);
    return s;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The providers that have a file PROVIDER.csv in the folder: the first ones by name, whatever order the folder has. */
static size_t refreshed_providers(struct arena *arena, const char *folder, const char *names[CATALOG_FILES_MAX],
                                  bool *ret_more)
{
    size_t count = 0;
    const char *all[CATALOG_FILES_MAX + 1];
    DIR *dir = opendir(folder);
    *ret_more = false;
    if (!dir)
        return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.' || !str_ends(e->d_name, ".csv"))
            continue;
        all[count++] = arena_strndup(arena, e->d_name, strlen(e->d_name) - 4);
        qsort(all, count, sizeof *all, by_name);
        *ret_more |= count > CATALOG_FILES_MAX;
        count -= count > CATALOG_FILES_MAX;
    }
    closedir(dir);
    memcpy(names, all, count * sizeof *names);
    return count;
}

static void read_refreshed(struct catalog *c, const char *folder, struct diagnostics *d)
{
    const char *names[CATALOG_FILES_MAX];
    bool more;
    size_t count = refreshed_providers(c->arena, folder, names, &more);
    if (more)
        diagnostics_add(d, SEVERITY_WARNING, (struct place){0},
                        "\"%s\" has more than %d files of prices; only the first are read", folder, CATALOG_FILES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct error err = ERROR_INIT;
        bool absent;
        const char *path = arena_printf(c->arena, "%s/%s.csv", folder, names[i]);
        const struct source *s = read_source(c->arena, path, &absent, &err);
        if (!s && !absent)
            diagnostics_add(d, SEVERITY_WARNING, (struct place){0}, "refreshed prices of %s are left out: %s", names[i],
                            err.text);
        if (s)
            catalog_read(c, &(struct catalog_file){s, CATALOG_REFRESHED, names[i], s->name}, SEVERITY_WARNING, d);
    }
}

static int read_user(struct catalog *c, const char *path, struct diagnostics *d, struct error *err)
{
    bool absent;
    const struct source *s = read_source(c->arena, path, &absent, err);
    if (!s)
        return absent ? 0 : -1;
    size_t before = d->errors;
    catalog_read(c, &(struct catalog_file){s, CATALOG_USER, NULL, s->name}, SEVERITY_ERROR, d);
    if (d->errors == before)
        return 0;
    size_t faults = d->errors - before;
    return error_set(err, ERROR_SPEC, "%s: %zu fault%s in your prices", path, faults, faults == 1 ? "" : "s");
}

int catalog_load(const struct catalog_places *places, struct arena *arena, struct catalog **ret, struct diagnostics *d,
                 struct error *err)
{
    struct catalog *c = catalog_create(arena, d);
    const struct source *seed =
        make_source(arena, "catalog/seed.csv", rhrun_catalog_seed, (size_t)rhrun_catalog_seed_size);
    catalog_read(c, &(struct catalog_file){seed, CATALOG_BUILT_IN, NULL, NULL}, SEVERITY_WARNING, d);
    if (places->cache_dir)
        read_refreshed(c, places->cache_dir, d);
    struct error found = ERROR_INIT;
    if (places->user_file && read_user(c, places->user_file, d, &found) < 0) {
        if (err)
            *err = found;
        return -1;
    }
    *ret = c;
    return 0;
}

static bool is_among(const struct catalog_regions *regions, const char *region)
{
    for (size_t i = 0; i < regions->count; i++)
        if (strcasecmp(regions->items[i], region) == 0)
            return true;
    return regions->count == 0;
}

/* Appends the rows of the present file for other regions. */
static void put_others(struct buf *out, const char *path, const char *provider, const struct catalog_regions *regions,
                       struct arena *arena)
{
    struct diagnostics ignored = {0};
    struct error err = ERROR_INIT;
    bool absent;
    const struct source *s = regions->count ? read_source(arena, path, &absent, &err) : NULL;
    if (!s)
        return;
    struct catalog *c = catalog_create(arena, &ignored);
    catalog_read(c, &(struct catalog_file){s, CATALOG_REFRESHED, provider, NULL}, SEVERITY_WARNING, &ignored);
    for (size_t i = 0; i < c->count; i++)
        if (!is_among(regions, c->rows[i].region))
            catalog_write_row(out, &c->rows[i]);
    diagnostics_free(&ignored);
}

static int write_rows(const char *cache_dir, const char *path, const struct buf *out, struct error *err)
{
    if (mkdir_p(cache_dir, 0700, err) < 0)
        return -1;
    return file_write_atomic(path, out->data, out->len, 0600, err);
}

int catalog_replace(const char *cache_dir, const char *provider, const char *text, size_t len,
                    struct catalog_regions regions, struct arena *arena, size_t *ret_rows, struct diagnostics *d,
                    struct error *err)
{
    struct catalog *c = catalog_create(arena, d);
    const char *path = arena_printf(arena, "%s/%s.csv", cache_dir, provider);
    const struct source *s =
        make_source(arena, arena_printf(arena, "prices of %s", provider), arena_strndup(arena, text, len), len);
    size_t rows = 0;
    if (strchr(provider, '/') || *provider == '.' || !*provider)
        return error_set(err, ERROR_INTERNAL, "\"%s\" is not the name of a provider", provider);
    if (len > CATALOG_FILE_MAX)
        return error_set(err, ERROR_INFRA, "%s answers with prices of %zu bytes; at most %d are accepted", provider,
                         len, CATALOG_FILE_MAX);
    const long read =
        catalog_read(c, &(struct catalog_file){s, CATALOG_REFRESHED, provider, NULL}, SEVERITY_WARNING, d);
    struct buf out = {0};
    catalog_write_header(&out);
    for (size_t i = 0; read > 0 && i < c->count; i++)
        if (is_among(&regions, c->rows[i].region)) {
            catalog_write_row(&out, &c->rows[i]);
            rows++;
        }
    if (rows == 0) {
        buf_free(&out);
        error_set(err, ERROR_INFRA, "%s gave no price that can be used%s", provider,
                  read > 0 ? " for these regions" : "");
        error_hint(err, "the old prices stay");
        return -1;
    }
    put_others(&out, path, provider, &regions, arena);
    int rc = write_rows(cache_dir, path, &out, err);
    buf_free(&out);
    if (rc == 0 && ret_rows)
        *ret_rows = rows;
    return rc;
}
