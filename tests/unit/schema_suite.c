/*
 * schema_suite DIR: runs the cases of the official JSON Schema test suite (files of groups of {schema,
 * tests}) through the validator. Prints each case that fails and a last line "N passed, M failed"; exits 1
 * on any failure, and when no case ran.
 */
#include "rhrun/schema.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

struct totals {
    size_t passed, failed;
};

static void print_faults(const struct diagnostics *d)
{
    struct buf text = {0};
    diagnostics_format(d, false, &text);
    if (text.len > 0)
        fputs(text.data, stdout);
    buf_free(&text);
}

static void run_group(const char *file, const struct doc_node *group, const struct schema_document *remotes,
                      size_t remote_count, struct arena *arena, struct totals *totals)
{
    const struct doc_node *tests = doc_get(group, "tests");
    const char *title = doc_get_string(group, "description", "?");
    struct diagnostics faults = {0};
    struct error err = ERROR_INIT;
    struct schema *schema = NULL;
    if (!tests || !doc_get(group, "schema")) {
        printf("%s: %s: no tests or no schema\n", file, title);
        totals->failed++;
        return;
    }
    if (schema_compile_with(doc_get(group, "schema"), remotes, remote_count, arena, &schema, &faults, &err) < 0) {
        printf("%s: %s: %s\n", file, title, err.text);
        print_faults(&faults);
        totals->failed += tests->count;
        diagnostics_free(&faults);
        return;
    }
    for (size_t i = 0; i < tests->count; i++) {
        const struct doc_node *test = tests->items[i], *data = doc_get(test, "data");
        bool valid = doc_get_bool(test, "valid", false);
        struct diagnostics d = {0};
        bool got = schema_validate(schema, data, &d), quiet = schema_validate(schema, data, NULL);
        bool consistent = got == quiet && got == (d.errors == 0);
        if (got == valid && consistent) {
            totals->passed++;
        } else {
            printf("%s: %s: %s: %s\n", file, title, doc_get_string(test, "description", "?"),
                   consistent ? got ? "is accepted" : "is refused"
                              : "is judged differently with and without diagnostics");
            print_faults(&d);
            totals->failed++;
        }
        diagnostics_free(&d);
    }
    diagnostics_free(&faults);
    schema_destroy(schema);
}

static const struct doc_node *load(const char *path, struct arena *arena)
{
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct doc *doc = NULL;
    if (doc_load_file(path, DOC_FORMAT_JSON, arena, &doc, &d, &err) < 0) {
        printf("%s\n", err.text);
        print_faults(&d);
    }
    diagnostics_free(&d);
    return doc ? doc->root : NULL;
}

int main(int argc, char **argv)
{
    struct totals totals = {0, 0};
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    if (!dir) {
        fprintf(stderr, "usage: schema_suite DIR\n");
        return 2;
    }
    struct arena *arena = arena_create();
    struct schema_document remote = {"http://localhost:1234/draft2020-12/extendible-dynamic-ref.json",
                                     load(FIXTURES "/schema-remotes/extendible-dynamic-ref.json", arena)};
    for (struct dirent *e; (e = readdir(dir));) {
        if (!str_ends(e->d_name, ".json"))
            continue;
        char *path = xasprintf("%s/%s", argv[1], e->d_name);
        const struct doc_node *groups = load(path, arena);
        if (!groups)
            totals.failed++;
        for (size_t i = 0; groups && i < groups->count; i++)
            run_group(e->d_name, groups->items[i], &remote, remote.root ? 1 : 0, arena, &totals);
        free(path);
    }
    closedir(dir);
    arena_destroy(arena);
    printf("%zu passed, %zu failed\n", totals.passed, totals.failed);
    return totals.failed > 0 || totals.passed == 0;
}
