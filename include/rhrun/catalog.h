/*
 * catalog: which machines can be rented, what they cost, and which of them suit a request.
 *
 * A catalog is the rows of CSV files, in three layers: what is built in (catalog/seed.csv), what was asked of a
 * provider (one file each in the cache folder), and the user's own file. A row of a later layer, or a later row of the
 * same file, stands in place of one of the same provider, region, zone and instance type.
 *
 * Prices that others collect are dirty: sentinels, spot prices of 0, one name for two cards. So a row is refused, with
 * its place and the reason, unless all of it holds; nothing is repaired. A row that is refused is not used, and of the
 * user's file it is an error, since the row that it was to replace would be used instead.
 *
 * A file is CSV as RFC 4180 says (quotes, CRLF or LF, perhaps a byte order mark). The first line names the columns, in
 * any order: all of
 *     provider region instance_type accelerator count vcpus memory_gib price_usd_hour spot_usd_hour source as_of
 * and, if wanted, zone and gpu_memory_gib (of one accelerator). An empty value is one that nobody knows. The reader is
 * our own, of a hundred lines: it has to know the place of each field, and to bound each length; libcsv does neither.
 *
 * Names of accelerators are canonical (catalog/accelerators.csv: name, memory of one, other names); case, blanks, '-'
 * and '_' do not count. Variants are names of their own: A100 has 40 GB, and A100-80GB is another. A name that is in no
 * table is what it is, in upper case.
 *
 * Everything is exact and has one order: money is whole millionths of a dollar per hour. No clock, no network. All
 * results live in the arena that they were made with.
 */
#ifndef RHRUN_CATALOG_H
#define RHRUN_CATALOG_H

#include "rhrun/base.h"

enum {
    CATALOG_FILE_MAX = 32 << 20,
    CATALOG_ROWS_MAX = 100000, /* of one file */
    CATALOG_FIELD_MAX = 255,   /* bytes */
    CATALOG_FILES_MAX = 64,    /* refreshed ones that are read */
    CATALOG_REQUEST_MAX = 255, /* bytes */
    CATALOG_NAMES_MAX = 16,    /* accelerators of one request */
};

/* ---- the catalog ---- */
enum catalog_layer { CATALOG_BUILT_IN, CATALOG_REFRESHED, CATALOG_USER };
struct catalog_row {
    const char *provider, *region, *instance_type;
    const char *zone;        /* "" = any of the region */
    const char *accelerator; /* canonical; NULL = none */
    uint32_t count;          /* accelerators of the machine */
    uint32_t vcpus;          /* 0 = not known, as in all that follows */
    uint64_t memory_mib, gpu_memory_mib;
    uint64_t price_microusd, spot_microusd; /* per hour */
    uint32_t as_of_day;                     /* days since 1970-01-01 */
    const char *source;                     /* "" = not known */
    enum catalog_layer layer;
    const char *file;                       /* NULL = built in */
};
struct catalog;
/* Where the layers are; NULL = there is none. */
struct catalog_places {
    const char *cache_dir; /* $XDG_CACHE_HOME/rhrun/catalog, or below ~/.cache */
    const char *user_file; /* $XDG_CONFIG_HOME/rhrun/catalog.csv, or below ~/.config */
};
struct catalog_places catalog_places(struct arena *arena); /* by the environment */
/* Reads all layers; what is not there is no fault. Faults of refreshed files are warnings. -1 and err when the user's
 * file has faults (in d) or cannot be read. d may refer to the arena. */
int catalog_load(const struct catalog_places *places, struct arena *arena, struct catalog **ret, struct diagnostics *d,
                 struct error *err);
const struct catalog_row *catalog_rows(const struct catalog *c, size_t *ret_count);
/* The canonical name of an accelerator that the table or a row names, or NULL. */
const char *catalog_accelerator(const struct catalog *c, const char *name);
/* The same of a name that is told with a form ("SXM5"; NULL: none) and the memory of one ("80"; NULL: not told): A100
 * with 80 GB is A100-80GB, and H100 with the form PCIe is H100-PCIE. A name that nobody knows stays as it is. */
const char *catalog_accelerator_called(const struct catalog *c, const char *name, const char *form,
                                       const char *memory_gib, struct arena *arena);
/* What is worth saying of a name that others use otherwise ("A100 is the one of 40 GB; others are asked for by their
 * own names: A100-80GB"), or NULL. */
const char *catalog_accelerator_note(const struct catalog *c, const char *canonical, struct arena *arena);
/* Puts a provider's refreshed prices, CSV text as above, there as one step. regions: only rows of these count, and
 * what was there of others stays; none = all. Rows that are refused are warnings in d and left out. -1, and the file
 * that was there stays as it was, when the header is faulty, no row is left, or it could not be written. ret_rows: how
 * many new ones there are; may be NULL. */
struct catalog_regions {
    const char *const *items; /* case does not matter */
    size_t count;
};
int catalog_replace(const char *cache_dir, const char *provider, const char *text, size_t len,
                    struct catalog_regions regions, struct arena *arena, size_t *ret_rows, struct diagnostics *d,
                    struct error *err);
void catalog_csv_field(struct buf *b, const char *text); /* appends it, quoted where it has to be */

/* ---- requests: what `instance` of a spec, and `rhrun prices`, may say ---- */
struct catalog_request {
    const char *text;          /* as it was given */
    const char *provider;      /* of PROVIDER:TYPE, or NULL */
    const char *instance_type; /* NULL: by what the machine has */
    const char *accelerators[CATALOG_NAMES_MAX]; /* any of these; canonical, with those that count as one of them */
    size_t accelerator_count;  /* 0: a machine that has none */
    uint32_t count;            /* how many of them a machine has */
    uint32_t vcpus;            /* 0 = any, as memory */
    uint64_t memory_mib;
    bool vcpus_or_more, memory_or_more; /* else exactly so much */
};
/*
 *     A100:8    A100    A100|A100-80GB:8    cpu:8+    cpu:8+ memory:32+    H100:8 memory:1000+
 *     p4d.24xlarge    aws:p4d.24xlarge
 * COUNT is per machine and 1 where there is none; memory is in GiB. What is a name of an accelerator is taken for one
 * first. -1 and ERROR_USAGE with the name that was meant, where one is near.
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
    bool spot_bounded; /* a row without a spot price has a spot offer, too: it costs the price on demand at most */
    const char *const *regions; /* case does not matter; none = any */
    size_t region_count;
    const char *const *providers; /* in the user's order; none = all ("cheapest") */
    size_t provider_count;
    uint64_t max_microusd; /* per hour for all nodes; 0 = no limit. What costs nobody knows how much is above it */
};
struct catalog_offer {
    const struct catalog_row *row;
    bool spot;
    bool at_most;            /* of spot_bounded: the spot price is not known, and this is the one on demand */
    uint64_t price_microusd; /* of one machine per hour; 0 = not known */
    uint64_t total_microusd; /* of all nodes */
};
/* The offers in the order in which to try them: by price, then the newer data, then the user's order of providers, then
 * names. Unknown prices come last. -1 and ERROR_USAGE when there are none: err says which condition leaves none, and
 * what there is without it. */
int catalog_offers(const struct catalog *c, const struct catalog_query *query, struct arena *arena,
                   struct catalog_offer **ret, size_t *ret_count, struct error *err);

/* ---- values ---- */
/* "4", "21.957642": a decimal number, no sign, no exponent, below 10^9; rounded to millionths. */
bool catalog_parse_usd(const char *text, uint64_t *ret_microusd);
void catalog_format_usd(uint64_t microusd, unsigned min_decimals, char ret[32]); /* "3.06", "0.067011" */
bool catalog_parse_date(const char *text, uint32_t *ret_day); /* "2026-07-20", of 2000 to 2199 */
void catalog_format_date(uint32_t day, char ret[32]);

#endif
