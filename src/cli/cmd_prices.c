/* rhrun prices: what the catalog knows about machines for rent. */
#include "internal.h"

#include "rhrun/catalog.h"

#include <stdlib.h>
#include <string.h>

/* ---- selection ---- */

/* A list of all machines shows the cheapest of each kind: by accelerator and count, or by vCPUs and memory. */
static int compare_kind(const struct catalog_row *x, const struct catalog_row *y)
{
    if (!x->accelerator != !y->accelerator)
        return x->accelerator ? -1 : 1;
    int by = x->accelerator ? strcmp(x->accelerator, y->accelerator) : 0;
    if (by || x->count != y->count)
        return by ? by : x->count < y->count ? -1 : 1;
    if (x->accelerator)
        return 0;
    if (x->vcpus != y->vcpus)
        return x->vcpus < y->vcpus ? -1 : 1;
    return x->memory_mib < y->memory_mib ? -1 : x->memory_mib > y->memory_mib;
}

/* The rows are in one array, sorted by price. */
static int by_kind(const void *left, const void *right)
{
    const struct catalog_offer *const *a = left, *const *b = right;
    int by = compare_kind((*a)->row, (*b)->row);
    return by ? by : *a < *b ? -1 : *a > *b;
}

static size_t cheapest_of_each(const struct catalog_offer **offers, size_t count)
{
    size_t kept = 0;
    qsort(offers, count, sizeof *offers, by_kind);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare_kind(offers[kept - 1]->row, offers[i]->row) != 0)
            offers[kept++] = offers[i];
    return kept;
}

/* ---- as JSON ---- */

static void json_number(struct buf *b, const char *key, uint64_t micro)
{
    char text[32] = "null";
    if (micro)
        catalog_format_usd(micro, 0, text);
    buf_printf(b, ",\"%s\":%s", key, text);
}

static uint64_t gib(uint64_t mib)
{
    return mib * 1000000 / 1024;
}

static const char *or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static const char *const layer_names[] = {"built-in", "refreshed", "user"};

static void put_json(struct buf *b, const struct catalog_offer *const *offers, size_t count)
{
    buf_putc(b, '[');
    for (size_t i = 0; i < count; i++) {
        const struct catalog_offer *o = offers[i];
        const struct catalog_row *row = o->row;
        char date[32];
        catalog_format_date(row->as_of_day, date);
        buf_puts(b, i ? ",{" : "{");
        cli_json_string(b, "provider", row->provider);
        cli_json_string(b, "region", row->region);
        cli_json_string(b, "zone", or_null(row->zone));
        cli_json_string(b, "instance_type", row->instance_type);
        cli_json_string(b, "accelerator", row->accelerator);
        buf_printf(b, ",\"count\":%u", row->count);
        json_number(b, "vcpus", row->vcpus * UINT64_C(1000000));
        json_number(b, "memory_gib", gib(row->memory_mib));
        json_number(b, "gpu_memory_gib", gib(row->gpu_memory_mib));
        json_number(b, "price_usd_hour", row->price_microusd);
        json_number(b, "spot_usd_hour", row->spot_microusd);
        json_number(b, "usd_hour_per_accelerator", row->count ? o->price_microusd / row->count : 0);
        cli_json_string(b, "as_of", row->as_of_day ? date : NULL);
        cli_json_string(b, "source", or_null(row->source));
        cli_json_string(b, "layer", layer_names[row->layer]);
        cli_json_string(b, "file", row->file);
        buf_putc(b, '}');
    }
    buf_puts(b, "]\n");
}

/* ---- as a table ---- */

enum { CELLS = 11, TEXT_COLUMNS = 4 };
static const char *const titles[CELLS] = {"PROVIDER", "REGION", "TYPE",   "ACCELERATOR", "VCPUS", "GIB",
                                          "USD/H",    "SPOT/H", "EACH/H", "AGE",         "SOURCE"};

/* The sources of the prices, each once: the table has their numbers. */
struct origins {
    const char **items;
    size_t count;
};

static size_t origin_of(struct cli *c, struct origins *o, const struct catalog_row *row)
{
    const char *file = row->file ? row->file : "built in", *text = file;
    if (*row->source)
        text = arena_printf(c->arena, "%s (%s)", row->source, file);
    for (size_t i = 0; i < o->count; i++)
        if (str_eq(o->items[i], text))
            return i + 1;
    o->items = xreallocarray(o->items, o->count + 1, sizeof *o->items);
    o->items[o->count++] = text;
    return o->count;
}

static const char *usd(struct cli *c, uint64_t micro)
{
    char text[32] = "-";
    if (micro)
        catalog_format_usd((micro + 50) / 100 * 100, 4, text); /* to a hundredth of a cent */
    return arena_strdup(c->arena, text);
}

static const char *number(struct cli *c, uint64_t micro)
{
    char text[32] = "-";
    if (micro)
        catalog_format_usd((micro + 50000) / 100000 * 100000, 0, text);
    return arena_strdup(c->arena, text);
}

static const char *age(struct cli *c, uint32_t day)
{
    uint64_t today = wall_ms() / 86400000;
    if (!day)
        return "?";
    return arena_printf(c->arena, "%llu d", (unsigned long long)(today > day ? today - day : 0));
}

static void fill(struct cli *c, const struct catalog_offer *o, struct origins *origins, const char *cells[CELLS])
{
    const struct catalog_row *row = o->row;
    cells[0] = row->provider;
    cells[1] = !*row->zone                          ? row->region
               : str_starts(row->zone, row->region) ? row->zone
                                                    : arena_printf(c->arena, "%s/%s", row->region, row->zone);
    cells[2] = row->instance_type;
    cells[3] = row->accelerator ? arena_printf(c->arena, "%s:%u", row->accelerator, row->count) : "-";
    cells[4] = number(c, row->vcpus * UINT64_C(1000000));
    cells[5] = number(c, gib(row->memory_mib));
    cells[6] = usd(c, row->price_microusd);
    cells[7] = usd(c, row->spot_microusd);
    cells[8] = usd(c, row->count ? o->price_microusd / row->count : 0);
    cells[9] = age(c, row->as_of_day);
    cells[10] = arena_printf(c->arena, "[%zu]", origin_of(c, origins, row));
}

static void put_line(struct buf *b, const char *const cells[CELLS], const int widths[CELLS])
{
    for (int i = 0; i < CELLS; i++)
        buf_printf(b, "%s%*s", i ? "  " : "", i < TEXT_COLUMNS ? -widths[i] : widths[i], cells[i]);
    buf_putc(b, '\n');
}

static void put_table(struct cli *c, struct buf *b, const struct catalog_offer *const *offers, size_t count)
{
    const char *(*cells)[CELLS] = arena_array(c->arena, count + 1, sizeof *cells);
    struct origins origins = {0};
    int widths[CELLS] = {0};
    memcpy(cells[0], titles, sizeof titles);
    for (size_t i = 0; i < count; i++)
        fill(c, offers[i], &origins, cells[i + 1]);
    for (size_t i = 0; i <= count; i++)
        for (int j = 0; j < CELLS; j++)
            if ((int)text_width(cells[i][j], strlen(cells[i][j])) > widths[j])
                widths[j] = (int)text_width(cells[i][j], strlen(cells[i][j]));
    for (size_t i = 0; i <= count; i++)
        put_line(b, cells[i], widths);
    buf_putc(b, '\n');
    for (size_t i = 0; i < origins.count; i++)
        buf_printf(b, "[%zu] %s\n", i + 1, origins.items[i]);
    free(origins.items);
}

/* Notes on names that other tools use differently. */
static void put_notes(struct cli *c, struct buf *b, const struct catalog *catalog, const struct catalog_request *r)
{
    for (size_t i = 0; i < r->accelerator_count; i++) {
        const char *note = catalog_accelerator_note(catalog, r->accelerators[i], c->arena);
        if (note)
            buf_printf(b, "note: %s\n", note);
    }
}

/* ---- the command ---- */

static int load(struct cli *c, struct catalog **ret, struct error *err)
{
    struct catalog_places places = catalog_places(c->arena);
    struct diagnostics d = {0};
    int rc = catalog_load(&places, c->arena, ret, &d, err);
    struct buf text = {0};
    diagnostics_format(&d, c->color_err, &text);
    if (text.len && !(c->given[OPT_QUIET] && rc == 0))
        fwrite(text.data, 1, text.len, stderr);
    buf_free(&text);
    diagnostics_free(&d);
    return rc;
}

static int find(struct cli *c, struct buf *b, struct error *err)
{
    struct catalog *catalog;
    struct catalog_request request;
    struct catalog_query query = {.nodes = 1,
                                  .spot = c->given[OPT_SPOT] ? CATALOG_SPOT : CATALOG_ON_DEMAND,
                                  .regions = c->values[OPT_REGION],
                                  .region_count = c->value_count[OPT_REGION],
                                  .providers = c->values[OPT_PROVIDER],
                                  .provider_count = c->value_count[OPT_PROVIDER]};
    struct catalog_offer *offers;
    size_t count;
    uint64_t limit = UINT64_MAX;
    if (c->given[OPT_LIMIT] && !parse_u64(c->value[OPT_LIMIT], &limit))
        return error_set(err, ERROR_USAGE, "--limit: \"%s\" is not a number", c->value[OPT_LIMIT]);
    if (load(c, &catalog, err) < 0)
        return -1;
    if (c->word_count) {
        if (catalog_request_parse(catalog, c->words[0], c->arena, &request, err) < 0)
            return -1;
        query.request = &request;
    }
    if (catalog_offers(catalog, &query, c->arena, &offers, &count, err) < 0)
        return -1;
    const struct catalog_offer **shown = arena_array(c->arena, count, sizeof *shown);
    for (size_t i = 0; i < count; i++)
        shown[i] = &offers[i];
    if (!query.request)
        count = cheapest_of_each(shown, count);
    if (count > limit)
        count = (size_t)limit;
    if (c->given[OPT_JSON])
        put_json(b, shown, count);
    else
        put_table(c, b, shown, count);
    if (!c->given[OPT_JSON] && query.request)
        put_notes(c, b, catalog, query.request);
    return 0;
}

static int cmd_prices(struct cli *c)
{
    struct error err = ERROR_INIT, refresh = ERROR_INIT;
    struct buf b = {0};
    int rc;
    if (c->given[OPT_RATE] && !c->given[OPT_REFRESH]) {
        error_set(&err, ERROR_USAGE, "--rate is for --refresh: the stored prices are in US dollars");
        return cli_fail(c, &err);
    }
    if (c->given[OPT_REFRESH] && cli_refresh_prices(c, &refresh) < 0)
        return cli_fail(c, &refresh);
    rc = find(c, &b, &err);
    if (rc < 0)
        rc = cli_fail(c, &err);
    else
        fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    return refresh.code != ERROR_NONE ? cli_fail(c, &refresh) : rc;
}

static const enum cli_option_id prices_options[] = {OPT_SPOT,    OPT_REGION, OPT_PROVIDER, OPT_LIMIT,
                                                    OPT_REFRESH, OPT_RATE,   OPT_COUNT};
const struct cli_command cmd_prices_command = {
    "prices",
    "[MACHINE]",
    "List machines that can be rented, cheapest first",
    "MACHINE is what you want: A100:8 (accelerators of one machine),\n"
    "\"A100|A100-80GB:8\", cpu:8+, \"cpu:8+ memory:32+\" (GiB), or a provider's own type\n"
    "such as p4d.24xlarge. Without MACHINE, lists the cheapest machine of each kind.\n"
    "Asks no provider: the prices are those of the catalog, with their age. Your own\n"
    "prices go into ~/.config/rhrun/catalog.csv. Rents nothing. With --refresh, first\n"
    "asks the providers that publish prices and for which there are credentials here,\n"
    "and keeps the answers. Exit status 3: a provider failed; its old prices stay.",
    prices_options,
    0,
    1,
    false,
    cmd_prices};
