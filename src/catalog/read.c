/* The rows of one file: the meaning of columns, and the rules for values. A row with a fault is refused. */
#include "internal.h"

#include <ctype.h>
#include <string.h>

enum column {
    COL_PROVIDER,
    COL_REGION,
    COL_ZONE,
    COL_TYPE,
    COL_ACCELERATOR,
    COL_COUNT,
    COL_VCPUS,
    COL_MEMORY,
    COL_GPU_MEMORY,
    COL_PRICE,
    COL_SPOT,
    COL_SOURCE,
    COL_AS_OF,
    COLUMNS
};
static const char *const column_names[COLUMNS + 1] = {
    "provider",   "region",         "zone",           "instance_type", "accelerator", "count", "vcpus",
    "memory_gib", "gpu_memory_gib", "price_usd_hour", "spot_usd_hour", "source",      "as_of", NULL};

#define USD(dollars) ((uint64_t)(dollars)*1000000)
static const uint64_t price_per_accelerator_limit = USD(60); /* a higher price is a sentinel, such as TPU rows of 700 */
static const uint64_t price_limit = USD(1000);               /* of a machine without accelerators */
enum {
    COUNT_LIMIT = 1024,
    VCPUS_LIMIT = 16384,
    MEMORY_GIB_LIMIT = 1 << 20,
    GPU_MEMORY_GIB_LIMIT = 4096,
    NAME_MAX_LEN = 64
};

struct reader {
    struct catalog *c;
    const struct catalog_file *file;
    enum severity severity;
    struct diagnostics *d;
    int at[COLUMNS]; /* field of each column; -1 = the file has none */
    const struct csv_record *record;
    bool good;                        /* no fault in the record so far */
    char name[CATALOG_FIELD_MAX + 1]; /* the last accelerator that was looked up, with its result */
    const struct accelerator *known;
};

static const char *text_of(const struct reader *r, enum column column)
{
    return r->at[column] < 0 ? "" : r->record->fields[r->at[column]].text;
}

/* Refuses the record for one of its values. */
FORMAT(3, 4)
static struct diagnostic *refuse(struct reader *r, enum column column, const char *fmt, ...)
{
    struct place place = r->at[column] < 0 ? r->record->place : r->record->fields[r->at[column]].place;
    va_list ap;
    r->good = false;
    va_start(ap, fmt);
    struct diagnostic *item = diagnostics_addv(r->d, r->severity, place, fmt, ap);
    va_end(ap);
    return item;
}

/* ---- the header ---- */

static bool header_column(struct reader *r, const struct csv_record *header, size_t i)
{
    const struct csv_field *f = &header->fields[i];
    int column = 0;
    while (column < COLUMNS && !str_eq(column_names[column], f->text))
        column++;
    if (column == COLUMNS) {
        struct diagnostic *item = diagnostics_add(r->d, r->severity, f->place, "unknown column \"%s\"", f->text);
        const char *near = str_nearest(f->text, column_names);
        if (near)
            diagnostic_hint(item, "did you mean %s?", near);
        return false;
    }
    if (r->at[column] >= 0) {
        diagnostics_add(r->d, r->severity, f->place, "column \"%s\" appears twice", f->text);
        return false;
    }
    r->at[column] = (int)i;
    return true;
}

static bool read_header(struct reader *r, const struct csv_record *header)
{
    bool good = true;
    for (size_t i = 0; i < COLUMNS; i++)
        r->at[i] = -1;
    for (size_t i = 0; i < header->count; i++)
        good &= header_column(r, header, i);
    struct buf missing = {0};
    for (int i = 0; i < COLUMNS; i++)
        if (r->at[i] < 0 && i != COL_ZONE && i != COL_GPU_MEMORY)
            buf_printf(&missing, "%s%s", missing.len ? ", " : "", column_names[i]);
    if (good && missing.len) {
        struct diagnostic *item =
            diagnostics_add(r->d, r->severity, header->place, "columns are missing: %s", missing.data);
        diagnostic_hint(item, "the first line names the columns; leave a value empty if you do not know it");
        good = false;
    }
    buf_free(&missing);
    return good;
}

/* ---- values ---- */

static const char *name_of(struct reader *r, enum column column, bool needed)
{
    const char *text = text_of(r, column);
    if (needed && !*text)
        refuse(r, column, "%s is empty", column_names[column]);
    else if (strlen(text) > NAME_MAX_LEN)
        refuse(r, column, "%s of %zu bytes; it has at most %d", column_names[column], strlen(text), NAME_MAX_LEN);
    else if (*text && (text[0] == ' ' || text[strlen(text) - 1] == ' '))
        refuse(r, column, "%s \"%s\" begins or ends with a blank", column_names[column], text);
    return text;
}

static const char *provider_of(struct reader *r)
{
    const char *text = name_of(r, COL_PROVIDER, true), *only = r->file->provider;
    if (text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")])
        refuse(r, COL_PROVIDER, "provider \"%s\" has characters other than a-z, 0-9 and '-'", text);
    else if (only && *text && !str_eq(text, only))
        refuse(r, COL_PROVIDER, "a row of \"%s\" in the file of %s", text, only);
    return text;
}

/* A decimal number in millionths; 0 = empty: not known. A given number must be above 0. */
static uint64_t number_of(struct reader *r, enum column column)
{
    const char *text = text_of(r, column);
    uint64_t micro = 0;
    if (!*text)
        return 0;
    if (!catalog_parse_usd(text, &micro))
        refuse(r, column, "%s \"%s\" is not a decimal number", column_names[column], text);
    else if (micro == 0 && column != COL_COUNT)
        diagnostic_hint(refuse(r, column, "%s is 0", column_names[column]),
                        "leave the field empty if you do not know the value");
    return micro;
}

static uint32_t whole_of(struct reader *r, enum column column, uint32_t limit)
{
    uint64_t micro = number_of(r, column);
    if (micro % USD(1) || micro > USD(limit)) {
        refuse(r, column, "%s \"%s\" is not a whole number up to %u", column_names[column], text_of(r, column), limit);
        return 0;
    }
    return (uint32_t)(micro / USD(1));
}

static uint64_t mib_of(struct reader *r, enum column column, uint32_t limit_gib)
{
    uint64_t micro = number_of(r, column);
    if (micro > USD(limit_gib)) {
        refuse(r, column, "%s \"%s\" is more than %u", column_names[column], text_of(r, column), limit_gib);
        return 0;
    }
    return (micro * 1024 + USD(1) / 2) / USD(1);
}

/* Empty or 0; false also for a faulty count that was reported already. */
static bool count_is_none(const struct reader *r)
{
    uint64_t micro;
    const char *text = text_of(r, COL_COUNT);
    return !*text || (catalog_parse_usd(text, &micro) && micro == 0);
}

/* The canonical name, or NULL. */
static const char *accelerator_of(struct reader *r, struct catalog_row *row)
{
    const char *text = name_of(r, COL_ACCELERATOR, false);
    if (!*text) {
        if (row->count)
            refuse(r, COL_ACCELERATOR, "%u accelerators without a name", row->count);
        return NULL;
    }
    if (!row->count) {
        if (count_is_none(r))
            refuse(r, COL_COUNT, "accelerator \"%s\" without a count", text);
        return NULL;
    }
    if (!str_eq(r->name, text)) {
        snprintf(r->name, sizeof r->name, "%s", text);
        r->known = accelerators_find(&r->c->accelerators, text);
    }
    const struct accelerator *known = r->known;
    if (!known) {
        char *name = arena_strdup(r->c->arena, text);
        for (char *p = name; *p; p++)
            *p = *p == ' ' || *p == '_' ? '-' : (char)toupper((unsigned char)*p);
        if (name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")] || !isalnum((unsigned char)*name))
            refuse(r, COL_ACCELERATOR, "accelerator \"%s\" is not a name: letters, digits, '.' and '-'", text);
        return name;
    }
    uint64_t has = row->gpu_memory_mib, is = known->memory_mib;
    if (has && (has > is + is / 10 || has < is - is / 10)) { /* vendors subtract what error correction needs */
        struct diagnostic *item = refuse(r, COL_GPU_MEMORY, "an accelerator with %s GiB, and %s has %u",
                                         text_of(r, COL_GPU_MEMORY), known->name, (unsigned)(is >> 10));
        diagnostic_hint(item, "variants have names of their own: %s-%sGB, say", known->name,
                        text_of(r, COL_GPU_MEMORY));
    }
    return known->name;
}

static void prices_of(struct reader *r, struct catalog_row *row)
{
    row->price_microusd = number_of(r, COL_PRICE);
    row->spot_microusd = number_of(r, COL_SPOT);
    uint64_t limit = row->count ? price_per_accelerator_limit * row->count : price_limit;
    char text[32];
    catalog_format_usd(row->count ? price_per_accelerator_limit : price_limit, 0, text);
    if (row->price_microusd >= limit) {
        refuse(r, COL_PRICE, "a price of %s is not a real price: it is %s or more %s", text_of(r, COL_PRICE), text,
               row->count ? "for each accelerator" : "for a machine without accelerators");
    } else if (row->spot_microusd && row->price_microusd && row->spot_microusd >= row->price_microusd) {
        struct diagnostic *item = refuse(r, COL_SPOT, "a spot price of %s is not below the price, which is %s",
                                         text_of(r, COL_SPOT), text_of(r, COL_PRICE));
        diagnostic_hint(item, "leave the field empty if there is no spot price");
    } else if (row->spot_microusd && !*text_of(r, COL_PRICE)) {
        refuse(r, COL_SPOT, "a spot price without a price");
    }
}

static uint32_t as_of_day(struct reader *r)
{
    const char *text = text_of(r, COL_AS_OF);
    uint32_t day = 0;
    if (*text && !catalog_parse_date(text, &day))
        refuse(r, COL_AS_OF, "as_of \"%s\" is not a date (YYYY-MM-DD)", text);
    return day;
}

/* ---- rows ---- */

/* A copy that lives as long as the catalog; neighbouring rows mostly have the same text. */
static const char *keep(struct catalog *c, const char *text, const char *before)
{
    return str_eq(text, before) ? before : *text ? arena_strdup(c->arena, text) : "";
}

static void put_row(struct reader *r, struct catalog_row *row)
{
    struct catalog *c = r->c;
    static const struct catalog_row none;
    const struct catalog_row *before = c->count ? &c->rows[c->count - 1] : &none;
    row->provider = keep(c, row->provider, before->provider);
    row->region = keep(c, row->region, before->region);
    row->zone = keep(c, row->zone, before->zone);
    row->instance_type = keep(c, row->instance_type, before->instance_type);
    row->source = keep(c, text_of(r, COL_SOURCE), before->source);
    row->layer = r->file->layer;
    row->file = r->file->name;
    catalog_put(c, row);
}

static bool read_row(struct reader *r, const struct csv_record *record, size_t columns)
{
    struct catalog_row row = {0};
    r->record = record;
    r->good = true;
    if (record->count != columns) {
        diagnostics_add(r->d, r->severity, record->place, "a row of %zu fields, and the first line has %zu",
                        record->count, columns);
        return false;
    }
    row.provider = provider_of(r);
    row.region = name_of(r, COL_REGION, true);
    row.zone = name_of(r, COL_ZONE, false);
    row.instance_type = name_of(r, COL_TYPE, true);
    row.count = whole_of(r, COL_COUNT, COUNT_LIMIT);
    row.vcpus = whole_of(r, COL_VCPUS, VCPUS_LIMIT);
    row.memory_mib = mib_of(r, COL_MEMORY, MEMORY_GIB_LIMIT);
    row.gpu_memory_mib = mib_of(r, COL_GPU_MEMORY, GPU_MEMORY_GIB_LIMIT);
    row.accelerator = accelerator_of(r, &row);
    prices_of(r, &row);
    row.as_of_day = as_of_day(r);
    if (r->good)
        put_row(r, &row);
    return r->good;
}

long catalog_read(struct catalog *c, const struct catalog_file *file, enum severity severity, struct diagnostics *d)
{
    struct reader r = {.c = c, .file = file, .severity = severity, .d = d};
    struct arena *scratch = arena_create();
    struct csv csv;
    struct csv_record record;
    long put = -1;
    size_t columns = 0, rows = 0;
    csv_begin(&csv, file->source);
    for (;;) {
        arena_reset(scratch);
        enum csv_result got = csv_next(&csv, scratch, severity, &record, d);
        if (got == CSV_END) {
            if (columns == 0)
                diagnostics_add(d, severity, (struct place){file->source, 1, 1, 1, 2}, "the file is empty");
            break;
        }
        if (columns == 0) {
            if (got == CSV_FAULT || !read_header(&r, &record))
                break;
            columns = record.count;
            put = 0;
            continue;
        }
        if (++rows > CATALOG_ROWS_MAX) {
            diagnostics_add(d, severity, (struct place){file->source, csv.line, 1, csv.line, 2},
                            "more than %d rows; the rest is left out", CATALOG_ROWS_MAX);
            break;
        }
        put += got == CSV_RECORD && read_row(&r, &record, columns);
    }
    arena_destroy(scratch);
    return put;
}

/* ---- writing ---- */

void catalog_write_header(struct buf *b)
{
    for (int i = 0; i < COLUMNS; i++)
        buf_printf(b, "%s%s", i ? "," : "", column_names[i]);
    buf_putc(b, '\n');
}

/* In millionths; 0 is empty. */
static void put_number(struct buf *b, uint64_t micro)
{
    char text[32] = "";
    if (micro)
        catalog_format_usd(micro, 0, text);
    buf_printf(b, ",%s", text);
}

void catalog_write_row(struct buf *b, const struct catalog_row *row)
{
    char date[32] = "";
    const char *const names[] = {row->provider, row->region, row->zone, row->instance_type,
                                 row->accelerator ? row->accelerator : ""};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        buf_puts(b, i ? "," : "");
        catalog_csv_field(b, names[i]);
    }
    buf_printf(b, ",%u", row->count);
    put_number(b, USD(row->vcpus));
    put_number(b, row->memory_mib * USD(1) / 1024);
    put_number(b, row->gpu_memory_mib * USD(1) / 1024);
    put_number(b, row->price_microusd);
    put_number(b, row->spot_microusd);
    buf_putc(b, ',');
    catalog_csv_field(b, row->source);
    if (row->as_of_day)
        catalog_format_date(row->as_of_day, date);
    buf_printf(b, ",%s\n", date);
}
