/* Shared by the tests of the catalog: rows from text, and the text of refusals. */
#ifndef RHRUN_TEST_CATALOG_SCENE_H
#define RHRUN_TEST_CATALOG_SCENE_H

#include "../../src/catalog/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER                                                                                                         \
    "provider,region,instance_type,accelerator,count,vcpus,memory_gib,price_usd_hour,spot_usd_hour,source,as_of\n"

struct scene {
    struct arena *arena;
    struct catalog *c;
    struct diagnostics d;
    struct source source;
    struct error err;
};

static inline void scene_open(struct scene *s)
{
    *s = (struct scene){.arena = arena_create()};
    s->c = catalog_create(s->arena, &s->d);
    assert_int_equal(s->d.count, 0);
}

static inline void scene_close(struct scene *s)
{
    diagnostics_free(&s->d);
    arena_destroy(s->arena);
}

static inline long scene_read_bytes(struct scene *s, const char *text, size_t len)
{
    s->source = (struct source){.name = "test.csv", .text = arena_strndup(s->arena, text, len), .len = len};
    struct catalog_file file = {&s->source, CATALOG_USER, NULL, "test.csv"};
    return catalog_read(s->c, &file, SEVERITY_ERROR, &s->d);
}

static inline long scene_read(struct scene *s, const char *text)
{
    return scene_read_bytes(s, text, strlen(text));
}

/* A catalog of these rows; none may be refused. */
static inline void scene_rows(struct scene *s, const char *rows)
{
    CLEANUP(cleanup_free) char *text = xasprintf("%s%s", HEADER, rows);
    scene_open(s);
    scene_read(s, text);
    if (s->d.count)
        fail_msg("%s", s->d.items[0].message);
}

static inline const struct catalog_row *scene_find(const struct scene *s, const char *type)
{
    for (size_t i = 0; i < s->c->count; i++)
        if (str_eq(s->c->rows[i].instance_type, type))
            return &s->c->rows[i];
    return NULL;
}

#endif
