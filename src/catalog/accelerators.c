/* The table of accelerators: canonical names, memory, other names. It is data: catalog/accelerators.csv. */
#include "internal.h"

#include <ctype.h>
#include <string.h>

extern const char rhrun_catalog_accelerators[];
extern const uint64_t rhrun_catalog_accelerators_size;

static const char *skip(const char *s)
{
    while (*s == ' ' || *s == '-' || *s == '_')
        s++;
    return s;
}

bool accelerator_same(const char *a, const char *b)
{
    for (a = skip(a), b = skip(b); *a && *b; a = skip(a + 1), b = skip(b + 1))
        if (toupper((unsigned char)*a) != toupper((unsigned char)*b))
            return false;
    return *a == *b;
}

/* "A|B" as a list. */
static const char **split(struct arena *arena, const char *text, size_t *ret_count)
{
    size_t n = *text ? 1 : 0;
    for (const char *p = text; *p; p++)
        n += *p == '|';
    const char **list = arena_array(arena, n, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        size_t len = strcspn(text, "|");
        list[i] = arena_strndup(arena, text, len);
        text += len + (text[len] == '|');
    }
    *ret_count = n;
    return list;
}

void accelerators_read(struct accelerators *ret, struct arena *arena, struct diagnostics *d)
{
    struct source *source = arena_alloc(arena, sizeof *source);
    *source = (struct source){.name = "catalog/accelerators.csv",
                              .text = rhrun_catalog_accelerators,
                              .len = (size_t)rhrun_catalog_accelerators_size};
    size_t lines = 0;
    for (size_t i = 0; i < source->len; i++)
        lines += source->text[i] == '\n';
    ret->items = arena_array(arena, lines + 1, sizeof *ret->items);
    ret->count = 0;
    struct csv csv;
    struct csv_record r;
    bool header = true;
    csv_begin(&csv, source);
    for (enum csv_result got; (got = csv_next(&csv, arena, SEVERITY_ERROR, &r, d)) != CSV_END; header = false) {
        uint64_t gib;
        if (header || got == CSV_FAULT)
            continue;
        if (r.count != 4 || !parse_u64(r.fields[1].text, &gib)) {
            diagnostics_add(d, SEVERITY_ERROR, r.place, "not a line of the table of accelerators");
            continue;
        }
        struct accelerator *a = &ret->items[ret->count++];
        a->name = r.fields[0].text;
        a->memory_mib = gib << 10;
        a->also = split(arena, r.fields[2].text, &a->also_count);
        a->aliases = split(arena, r.fields[3].text, &a->alias_count);
    }
}

const struct accelerator *accelerators_find(const struct accelerators *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++) {
        if (accelerator_same(a->items[i].name, name))
            return &a->items[i];
        for (size_t j = 0; j < a->items[i].alias_count; j++)
            if (accelerator_same(a->items[i].aliases[j], name))
                return &a->items[i];
    }
    return NULL;
}

const char *catalog_accelerator(const struct catalog *c, const char *name)
{
    const struct accelerator *known = accelerators_find(&c->accelerators, name);
    if (known)
        return known->name;
    for (size_t i = 0; *name && i < c->count; i++)
        if (c->rows[i].accelerator && accelerator_same(c->rows[i].accelerator, name))
            return c->rows[i].accelerator;
    return NULL;
}

/* Vendors subtract the memory that error correction needs. */
static bool has_memory(const struct accelerator *a, uint64_t gib)
{
    return a->memory_mib >= (gib << 10) - (gib << 10) / 10 && a->memory_mib <= (gib << 10) + (gib << 10) / 10;
}

const char *catalog_accelerator_called(const struct catalog *c, const char *name, const char *form,
                                       const char *memory_gib, struct arena *arena)
{
    const struct accelerators *all = &c->accelerators;
    const struct accelerator *known = NULL;
    uint64_t gib;
    if (form)
        known = accelerators_find(all, arena_printf(arena, "%s %s", name, form));
    if (!known)
        known = accelerators_find(all, name);
    if (!known)
        return name;
    if (!memory_gib || !parse_u64(memory_gib, &gib) || gib > UINT32_MAX || has_memory(known, gib))
        return known->name;
    for (size_t i = 0; i < all->count; i++) {
        const struct accelerator *other = &all->items[i];
        const size_t len = strlen(known->name);
        if (str_starts(other->name, known->name) && other->name[len] == '-' && str_ends(other->name, "GB") &&
            has_memory(other, gib))
            return other->name;
    }
    return known->name;
}

const char *catalog_accelerator_note(const struct catalog *c, const char *canonical, struct arena *arena)
{
    const struct accelerator *known = accelerators_find(&c->accelerators, canonical);
    if (!known)
        return NULL;
    struct buf others = {0};
    size_t count = 0, len = strlen(known->name);
    for (size_t i = 0; i < c->accelerators.count; i++) {
        const char *name = c->accelerators.items[i].name;
        bool taken = false;
        for (size_t j = 0; j < known->also_count; j++)
            taken |= str_eq(known->also[j], name);
        if (!taken && str_starts(name, known->name) && name[len] == '-')
            buf_printf(&others, "%s%s", count++ ? ", " : "", name);
    }
    const char *note = NULL;
    if (count)
        note = arena_printf(arena, "%s means the one with %u GB; the others have names of their own: %s", known->name,
                            (unsigned)(known->memory_mib >> 10), others.data);
    buf_free(&others);
    return note;
}
