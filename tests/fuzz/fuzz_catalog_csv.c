/*
 * Any bytes as a file of prices: the rows that are taken hold what the header of the module says, each fault has a
 * place in the text, and what is written of the rows is read again as it was, without a fault.
 */
#include "../../src/catalog/internal.h"
#include "scene.h"

static long read_text(struct catalog *c, const struct source *source, struct diagnostics *d)
{
    return catalog_read(c, &(struct catalog_file){source, CATALOG_USER, NULL, "fuzz"}, SEVERITY_ERROR, d);
}

static void check_row(const struct catalog_row *row)
{
    bool named = *row->provider && *row->region && *row->instance_type && str_is_printable(row->instance_type);
    bool spot = !row->spot_microusd || row->spot_microusd < row->price_microusd;
    uint64_t limit = row->count ? UINT64_C(60000000) * row->count : UINT64_C(1000000000);
    if (!named || !spot || row->price_microusd >= limit || (row->accelerator != NULL) != (row->count > 0))
        abort();
}

static void check_places(const struct diagnostics *d, const struct source *source)
{
    size_t lines = 1;
    for (size_t i = 0; i < source->len; i++)
        lines += source->text[i] == '\n';
    for (size_t i = 0; i < d->count; i++)
        if (d->items[i].place.line < 1 || d->items[i].place.line > lines || d->items[i].place.column < 1 ||
            d->items[i].place.end_column <= d->items[i].place.column)
            abort();
    struct buf text = {0};
    diagnostics_format(d, false, &text);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_create();
    struct diagnostics d = {0}, again = {0};
    struct source source = {.name = "fuzz", .text = arena_strndup(arena, (const char *)data, size), .len = size};
    struct catalog *c = catalog_create(arena, &d), *other = catalog_create(arena, &d);
    long put = read_text(c, &source, &d);
    if ((put < 0 && (c->count || !d.count)) || (put >= 0 && c->count > (size_t)put))
        abort();
    check_places(&d, &source);
    struct buf out = {0};
    catalog_write_header(&out);
    for (size_t i = 0; i < c->count; i++) {
        check_row(&c->rows[i]);
        catalog_write_row(&out, &c->rows[i]);
    }
    struct source written = {.name = "written", .text = out.data, .len = out.len};
    if (read_text(other, &written, &again) != (long)c->count || again.count || other->count != c->count)
        abort();
    for (size_t i = 0; i < c->count; i++) {
        const struct catalog_row *x = &c->rows[i], *y = &other->rows[i];
        if (!str_eq(x->instance_type, y->instance_type) || !str_eq(x->accelerator, y->accelerator) ||
            !str_eq(x->source, y->source) || x->price_microusd != y->price_microusd || x->as_of_day != y->as_of_day ||
            x->spot_microusd != y->spot_microusd || x->vcpus != y->vcpus || x->count != y->count)
            abort();
    }
    buf_free(&out);
    diagnostics_free(&d);
    diagnostics_free(&again);
    arena_destroy(arena);
    return 0;
}
