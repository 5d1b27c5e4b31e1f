/* tree_list: scans a folder and prints the tree, for tests that compare it with git's view and for timing it.
 *   tree_list [-s] [-r TIMES] [-x EXCLUDE] [-i INCLUDE] [-l LEAVE_OUT] STORE PATH
 * Prints "ID\0", then "MODE OID SIZE\tPATH\0" for each file; notes and times go to stderr. -s: contents go to the store. */
#include "rhrun/tree.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATTERNS_MAX = 64 };

struct patterns {
    const char *items[PATTERNS_MAX];
    size_t count;
};

static void add(struct patterns *p, const char *text)
{
    if (p->count == PATTERNS_MAX)
        abort();
    p->items[p->count++] = text;
}

static void print(const struct tree *t)
{
    printf("%s%c", t->id, 0);
    for (size_t i = 0; i < t->count; i++) {
        const struct tree_file *f = &t->files[i];
        char oid[TREE_ID_LEN + 1] = "";
        for (size_t n = 0; n < TREE_ID_LEN; n++)
            oid[n] = "0123456789abcdef"[f->oid[n / 2] >> (n % 2 ? 0 : 4) & 15];
        printf("%06o %s %llu\t%s%c", f->mode, oid, (unsigned long long)f->size, f->path, 0);
    }
}

static int scan_once(const char *store, const struct tree_scan *scan, bool last, bool timed)
{
    struct error err = ERROR_INIT;
    struct tree_store *s = NULL;
    struct arena *arena = arena_create();
    struct tree *t = NULL;
    const char *notes = "";
    uint64_t start = mono_ns();
    int rc = tree_store_open(store, &s, &err);
    if (rc == 0)
        rc = tree_scan(s, scan, arena, &t, &notes, &err);
    if (rc)
        fprintf(stderr, "%s\n%s%s", err.text, err.hint, *err.hint ? "\n" : "");
    else if (timed)
        fprintf(stderr, "%.2f ms, %zu files\n", (double)(mono_ns() - start) / 1e6, t->count);
    else if (*notes)
        fprintf(stderr, "%s\n", notes);
    if (rc == 0 && last)
        print(t);
    tree_store_close(s);
    arena_destroy(arena);
    return rc;
}

int main(int argc, char **argv)
{
    struct patterns exclude = {0}, include = {0}, leave_out = {0};
    struct tree_scan scan = {0};
    uint32_t times = 0;
    int option;
    while ((option = getopt(argc, argv, "sr:x:i:l:")) != -1) {
        if (option == 's')
            scan.store = true;
        else if (option == 'r' ? !parse_u32(optarg, &times) : !strchr("xil", option))
            return 2;
        else if (option != 'r')
            add(option == 'x' ? &exclude : option == 'i' ? &include : &leave_out, optarg);
    }
    if (argc - optind != 2)
        return 2;
    scan.path = argv[optind + 1];
    scan.exclude = exclude.items;
    scan.exclude_count = exclude.count;
    scan.include = include.items;
    scan.include_count = include.count;
    scan.leave_out = leave_out.items;
    scan.leave_out_count = leave_out.count;
    for (uint32_t i = 0; i < times; i++)
        if (scan_once(argv[optind], &scan, false, true))
            return 1;
    return scan_once(argv[optind], &scan, true, false) ? 1 : 0;
}
