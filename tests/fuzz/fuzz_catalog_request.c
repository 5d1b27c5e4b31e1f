/*
 * Any text as a request for a machine: it is refused with a reason that a terminal may get, or it has offers that suit
 * it (the same for its text in lower case), or the error says why it has none.
 */
#include "../../src/catalog/internal.h"
#include "scene.h"

#include <ctype.h>

static struct arena *arena;
static struct catalog *catalog;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    arena = arena_create();
    if (catalog_load(&(struct catalog_places){NULL, NULL}, arena, &catalog, &d, &err) < 0 || d.count)
        abort();
    return 0;
}

static void check_error(const struct error *err)
{
    if (err->code != ERROR_USAGE || !*err->text || !str_is_printable(err->text) || !str_is_printable(err->hint))
        abort();
}

static void check_offers(const struct catalog_request *r, struct arena *scratch, uint8_t flags)
{
    struct catalog_offer *offers;
    size_t count;
    struct error err = ERROR_INIT;
    struct catalog_query query = {.request = r, .nodes = flags >> 4, .spot = (enum catalog_spot)(flags % 3)};
    query.max_microusd = flags & 8 ? 5000000 : 0;
    if (catalog_offers(catalog, &query, scratch, &offers, &count, &err) < 0) {
        check_error(&err);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct catalog_row *row = offers[i].row;
        bool named = r->instance_type ? true : r->accelerator_count == 0 && row->count == 0;
        for (size_t j = 0; j < r->accelerator_count; j++)
            named |= str_eq(row->accelerator, r->accelerators[j]) && row->count == r->count;
        if (!named || row->vcpus < r->vcpus || row->memory_mib < r->memory_mib ||
            (query.max_microusd && offers[i].total_microusd > query.max_microusd))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene_input in = {data, size};
    struct arena *scratch = arena_create();
    uint8_t flags = scene_byte(&in);
    char *text = arena_strndup(scratch, (const char *)in.p, strnlen((const char *)in.p, in.left));
    struct catalog_request r, same;
    struct error err = ERROR_INIT;
    int rc = catalog_request_parse(catalog, text, scratch, &r, &err);
    if (rc < 0)
        check_error(&err);
    else
        check_offers(&r, scratch, flags);
    for (char *p = text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (catalog_request_parse(catalog, text, scratch, &same, &err) != rc)
        abort();
    if (rc == 0 && (!str_eq(r.instance_type, same.instance_type) || r.accelerator_count != same.accelerator_count ||
                    r.count != same.count || r.vcpus != same.vcpus || r.memory_mib != same.memory_mib))
        abort();
    arena_destroy(scratch);
    return 0;
}
