/* catalog's private parts: the CSV reader, the table of accelerators, the rows of one file. */
#ifndef RHRUN_CATALOG_INTERNAL_H
#define RHRUN_CATALOG_INTERNAL_H

#include "rhrun/catalog.h"

/* ---- csv.c: RFC 4180, with places and limits ---- */
enum { CSV_FIELDS_MAX = 32 };
struct csv {
    const struct source *source;
    size_t at;
    uint32_t line, column; /* of `at` */
};
struct csv_field {
    const char *text; /* printable UTF-8 of at most CATALOG_FIELD_MAX bytes */
    struct place place;
};
struct csv_record {
    struct csv_field fields[CSV_FIELDS_MAX];
    size_t count;
    struct place place; /* of its first field */
};
enum csv_result { CSV_END, CSV_RECORD, CSV_FAULT };
void csv_begin(struct csv *csv, const struct source *source); /* behind a byte order mark */
/* The next record that is not an empty line; its texts are in the arena. CSV_FAULT: the record was skipped, d says why,
 * and the next call continues with the next line. */
enum csv_result csv_next(struct csv *csv, struct arena *arena, enum severity severity, struct csv_record *ret,
                         struct diagnostics *d);

/* ---- accelerators.c ---- */
struct accelerator {
    const char *name;
    uint64_t memory_mib;
    const char **also; /* names that a request for this one includes */
    const char **aliases;
    size_t also_count, alias_count;
};
struct accelerators {
    struct accelerator *items;
    size_t count;
};
void accelerators_read(struct accelerators *ret, struct arena *arena, struct diagnostics *d); /* the built-in table */
const struct accelerator *accelerators_find(const struct accelerators *a, const char *name); /* any of its names */
bool accelerator_same(const char *a, const char *b); /* whether they are one name; case, blanks, '-' and '_' do not
                                                        count */

/* ---- catalog.c ---- */
struct catalog {
    struct arena *arena;
    struct accelerators accelerators;
    struct catalog_row *rows;
    size_t count, cap;
    uint32_t *slots; /* row + 1 by provider, region, zone and type; 0 = free */
    size_t slot_count; /* a power of two */
};
struct catalog *catalog_create(struct arena *arena, struct diagnostics *d); /* without a row */
void catalog_put(struct catalog *c, const struct catalog_row *row); /* adds it, or replaces */

/* ---- read.c ---- */
struct catalog_file {
    const struct source *source;
    enum catalog_layer layer;
    const char *provider; /* the only one that its rows may name; NULL = any */
    const char *name;     /* for the rows; NULL = built in */
};
/* Puts its rows into the catalog, except refused ones. Returns how many, or -1: the header is faulty. */
long catalog_read(struct catalog *c, const struct catalog_file *file, enum severity severity, struct diagnostics *d);
void catalog_write_header(struct buf *b);
void catalog_write_row(struct buf *b, const struct catalog_row *row);

#endif
