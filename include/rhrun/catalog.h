/*
 * catalog: which machines can be rented, what they cost, and which of them suit a request.
 *
 * A catalog is the rows of CSV files, in three layers: the built-in file (catalog/seed.csv), prices fetched from
 * providers (a file for each in the cache folder), and the user's own file. A row of a later layer, or a later row of
 * the same file, replaces a row with the same provider, region, zone and instance type.
 *
 * Collected prices are dirty: sentinel values, spot prices of 0, one name for two cards. So a row with any fault is
 * refused, with its place and the reason; nothing is repaired. A refused row is not used. In the user's file it is an
 * error, because otherwise the row that it should replace would be used.
 *
 * A file is CSV as in RFC 4180 (quotes, CRLF or LF, an optional byte order mark). The first line names the columns, in
 * any order: all of
 *     provider region instance_type accelerator count vcpus memory_gib price_usd_hour spot_usd_hour source as_of
 * and optionally zone and gpu_memory_gib (of one accelerator). An empty value means "not known". The reader is our own
 * hundred lines, because it must know the place of each field and bound each length; libcsv does neither.
 *
 * Names of accelerators are made canonical by catalog/accelerators.csv (name, memory of one, other names), ignoring
 * case, blanks, '-' and '_'. Variants have their own names: A100 is the one with 40 GB; the other is A100-80GB. A name
 * that is not in the table stays, in upper case.
 *
 * Results are exact and in a fixed order: money is in whole millionths of a dollar per hour. No clock, no network. All
 * results live in the arena that the caller passed.
 */
#ifndef RHRUN_CATALOG_H
#define RHRUN_CATALOG_H

#include "rhrun/base.h"

enum {
    CATALOG_FILE_MAX = 32 << 20,
    CATALOG_ROWS_MAX = 100000, /* of one file */
    CATALOG_FIELD_MAX = 255,   /* bytes */
    CATALOG_FILES_MAX = 64,    /* refreshed files that are read */
    CATALOG_REQUEST_MAX = 255, /* bytes */
    CATALOG_NAMES_MAX = 16,    /* accelerators of one request */
};

/* ---- the catalog ---- */
enum catalog_layer { CATALOG_BUILT_IN, CATALOG_REFRESHED, CATALOG_USER };
struct catalog_row {
    const char *provider, *region, *instance_type;
    const char *zone;        /* "" = any of the region */
    const char *accelerator; /* canonical; NULL = none */
    uint32_t count;          /* accelerators in one machine */
    uint32_t vcpus;          /* 0 = not known, here and in all fields below */
    uint64_t memory_mib, gpu_memory_mib;
    uint64_t price_microusd, spot_microusd; /* per hour */
    uint32_t as_of_day;                     /* days since 1970-01-01 */
    const char *source;                     /* "" = not known */
    enum catalog_layer layer;
    const char *file;                       /* NULL = built in */
};
struct catalog;
/* Where the layers are; NULL = there is no such layer. */
struct catalog_places {
    const char *cache_dir; /* $XDG_CACHE_HOME/rhrun/catalog, or below ~/.cache */
    const char *user_file; /* $XDG_CONFIG_HOME/rhrun/catalog.csv, or below ~/.config */
};
struct catalog_places catalog_places(struct arena *arena); /* from the environment */
/* Reads all layers; a missing file is no fault. Faults in refreshed files are warnings. -1 and err when the user's file
 * has faults (in d) or cannot be read. d may point into the arena. */
int catalog_load(const struct catalog_places *places, struct arena *arena, struct catalog **ret, struct diagnostics *d,
                 struct error *err);
const struct catalog_row *catalog_rows(const struct catalog *c, size_t *ret_count);
/* The canonical name of an accelerator that the table or a row has, or NULL. */
const char *catalog_accelerator(const struct catalog *c, const char *name);
/* The same for a provider's name with a form ("SXM5"; NULL: none) and the GB of one accelerator ("80"; NULL: not
 * known): A100 with 80 GB is A100-80GB, and H100 with the form PCIe is H100-PCIE. An unknown name stays as it is. */
const char *catalog_accelerator_called(const struct catalog *c, const char *name, const char *form,
                                       const char *memory_gib, struct arena *arena);
/* A note for people about a name that is ambiguous elsewhere ("A100 is the one of 40 GB; others are asked for by their
 * own names: A100-80GB"), or NULL. */
const char *catalog_accelerator_note(const struct catalog *c, const char *canonical, struct arena *arena);
/* Replaces a provider's file in the cache folder by new prices (CSV text as above), atomically. regions: take only rows
 * of these regions, and keep the old rows of all others; none = all regions. Refused rows are left out, each with a
 * warning in d. -1 when the header is faulty, no row is left, or the file cannot be written; then the old file stays.
 * ret_rows: how many new rows there are; may be NULL. */
struct catalog_regions {
    const char *const *items; /* case does not matter */
    size_t count;
};
int catalog_replace(const char *cache_dir, const char *provider, const char *text, size_t len,
                    struct catalog_regions regions, struct arena *arena, size_t *ret_rows, struct diagnostics *d,
                    struct error *err);
void catalog_csv_field(struct buf *b, const char *text); /* appends text, quoted if needed */

/* ---- requests: what `instance` of a spec, and `rhrun prices`, may say ---- */
struct catalog_request {
    const char *text;          /* as it was given */
    const char *provider;      /* the PROVIDER of PROVIDER:TYPE, or NULL */
    const char *instance_type; /* NULL: chosen by accelerators, vcpus and memory */
    const char *accelerators[CATALOG_NAMES_MAX]; /* any of these; canonical, including names that count as one of
                                                    them */
    size_t accelerator_count;  /* 0: a machine without accelerators */
    uint32_t count;            /* accelerators per machine */
    uint32_t vcpus;            /* 0 = any; the same for memory_mib */
    uint64_t memory_mib;
    bool vcpus_or_more, memory_or_more; /* else exactly this much */
};
/*
 *     A100:8    A100    A100|A100-80GB:8    cpu:8+    cpu:8+ memory:32+    H100:8 memory:1000+
 *     p4d.24xlarge    aws:p4d.24xlarge
 * COUNT is per machine, 1 by default; memory is in GiB. A word that can be an accelerator or an instance type is taken
 * as an accelerator. -1 and ERROR_USAGE, with the nearest known name if there is one.
 */
int catalog_request_parse(const struct catalog *c, const char *text, struct arena *arena, struct catalog_request *ret,
                          struct error *err);

/* ---- offers ---- */
enum catalog_spot {
    CATALOG_ON_DEMAND,
    CATALOG_SPOT,        /* only where a spot price is known */
    CATALOG_SPOT_PREFER, /* all spot offers, then those on demand */
};
struct catalog_query {
    const struct catalog_request *request; /* NULL: every machine */
    uint32_t nodes;                        /* at least 1 */
    enum catalog_spot spot;
    bool spot_bounded; /* a row without a spot price gives a spot offer too, at the on-demand price, which it never
                          exceeds */
    const char *const *regions; /* case does not matter; none = any */
    size_t region_count;
    const char *const *providers; /* in the user's order; none = all ("cheapest") */
    size_t provider_count;
    uint64_t max_microusd; /* per hour for all nodes; 0 = no limit. An unknown price counts as above the limit */
};
struct catalog_offer {
    const struct catalog_row *row;
    bool spot;
    bool at_most;            /* from spot_bounded: the spot price is not known; this is the on-demand price */
    uint64_t price_microusd; /* of one machine per hour; 0 = not known */
    uint64_t total_microusd; /* of all nodes */
};
/* The offers in the order in which to try them: by price, then newer data first, then the user's order of providers,
 * then names. Unknown prices come last. -1 and ERROR_USAGE when there are none: err says which condition excludes the
 * last offers, and which offers exist without that condition. */
int catalog_offers(const struct catalog *c, const struct catalog_query *query, struct arena *arena,
                   struct catalog_offer **ret, size_t *ret_count, struct error *err);

/* ---- values ---- */
/* "4", "21.957642": a decimal number, no sign, no exponent, below 10^9; rounded to millionths. */
bool catalog_parse_usd(const char *text, uint64_t *ret_microusd);
void catalog_format_usd(uint64_t microusd, unsigned min_decimals, char ret[32]); /* "3.06", "0.067011" */
bool catalog_parse_date(const char *text, uint32_t *ret_day); /* such as "2026-07-20"; years 2000 to 2199 */
void catalog_format_date(uint32_t day, char ret[32]);

#endif
