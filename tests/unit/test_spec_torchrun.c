/* The table of torchrun's flags against torch's own (tests/fixtures/torchrun), the schema and docs/torchrun.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rhrun/spec.h"

static const unsigned versions[] = {113, 200, 201, 202, 203, 204, 205, 206, 207,
                                    208, 209, 210, 211, 212, 213, 214, 215};

static char *read_all(const char *path)
{
    struct buf b = {0};
    struct error err = ERROR_INIT;
    if (file_read(path, 4 << 20, &b, &err) < 0)
        fail_msg("%s", err.text);
    return buf_steal(&b);
}

static char *version_text(unsigned version)
{
    return xasprintf("%u.%u", version / 100, version % 100);
}

struct option {
    char name[64], letter[8], kind[8], env[8], otherwise[64];
};

/* The options of a version; their number. */
static size_t options_of(unsigned version, struct option *ret, size_t max)
{
    CLEANUP(cleanup_free) char *number = version_text(version);
    CLEANUP(cleanup_free) char *path = xasprintf("%s/torchrun/%s.txt", FIXTURES, number);
    CLEANUP(cleanup_free) char *text = read_all(path);
    size_t count = 0;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct option *o = &ret[count];
        if (*line == '#')
            continue;
        assert_int_equal(sscanf(line, "%63s %7s %7s %7s %63s", o->name, o->letter, o->kind, o->env, o->otherwise), 5);
        assert_true(++count < max);
    }
    return count;
}

static const struct option *find(const struct option *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

static void test_versions(void **state)
{
    (void)state;
    for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
        struct option list[64];
        size_t count = options_of(versions[v], list, ARRAY_LEN(list));
        assert_true(count >= 20);
        for (size_t i = 0; i < count; i++) {
            const struct torchrun_flag *f = torchrun_flag_find(list[i].name, strlen(list[i].name));
            if (!f || f->since > versions[v])
                fail_msg("torch %u has --%s, the table says since %u", versions[v], list[i].name, f ? f->since : 0);
            assert_int_equal(f->letter, list[i].letter[0] == '-' ? 0 : list[i].letter[0]);
            assert_int_equal(f->type == TORCHRUN_BOOLEAN, strcmp(list[i].kind, "flag") == 0);
            assert_int_equal(f->env, strcmp(list[i].env, "env") == 0);
        }
        for (const struct torchrun_flag *f = torchrun_flags; f->name; f++)
            if (f->since <= versions[v] && !find(list, count, f->name))
                fail_msg("torch %u has no --%s, the table says since %u", versions[v], f->name, f->since);
    }
}

static void test_find(void **state)
{
    (void)state;
    assert_string_equal(torchrun_flag_find("nproc-per-node", 14)->name, "nproc_per_node");
    assert_string_equal(torchrun_flag_find("rdzv_id=x", 7)->name, "rdzv_id");
    assert_null(torchrun_flag_find("rdzv", 4));
    assert_null(torchrun_flag_find("rdzv_ids", 8));
}

/* Torch's newest default, if it is one value of a command line, is the schema's default. */
static void check_default(const struct doc_node *key, const struct torchrun_flag *f, const struct option *newest)
{
    const struct doc_node *otherwise = doc_get(key, "default");
    bool plain = f->type != TORCHRUN_SIGNALS && f->type != TORCHRUN_BOOLEAN && strcmp(f->name, "nnodes") != 0;
    if (f->origin != TORCHRUN_GIVEN || !plain || strcmp(newest->otherwise, "-") == 0)
        return;
    if (!otherwise || strcmp(otherwise->text, newest->otherwise) != 0)
        fail_msg("--%s: torch's default is %s, the schema has %s", f->name, newest->otherwise,
                 otherwise ? otherwise->text : "none");
    assert_string_equal(f->otherwise, newest->otherwise);
}

static void check_choices(const struct doc_node *key, const struct torchrun_flag *f)
{
    const struct doc_node *list = doc_get(key, "enum");
    size_t count = 0;
    for (; f->choices[count]; count++)
        assert_string_equal(list->items[count]->text, f->choices[count]);
    assert_int_equal(count, list->count);
}

static void test_schema(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    struct diagnostics diagnostics = {0};
    struct error err = ERROR_INIT;
    struct option newest[64];
    struct doc *doc;
    const char *text = spec_schema_text();
    size_t count = options_of(215, newest, ARRAY_LEN(newest)), keys = 0;
    assert_int_equal(doc_load_text("schema", text, strlen(text), DOC_FORMAT_JSON, arena, &doc, &diagnostics, &err), 0);
    const struct doc_node *properties = doc_get_path(doc->root, "/properties/distributed/properties");
    for (const struct torchrun_flag *f = torchrun_flags; f->name; f++) {
        const struct doc_node *key = doc_get(properties, f->name);
        bool wanted = f->origin == TORCHRUN_GIVEN || f->origin == TORCHRUN_COMPUTED;
        if (wanted != (key != NULL))
            fail_msg("distributed.%s is %sin the schema", f->name, key ? "" : "not ");
        keys += wanted;
        if (!key)
            continue;
        check_default(key, f, find(newest, count, f->name));
        if (f->choices)
            check_choices(key, f);
    }
    assert_int_equal(properties->count, keys + 5); /* launcher, launcher_args, devices, cpu_affinity, preflight */
    const struct doc_node *launchers = doc_get(doc_get(properties, "launcher"), "enum");
    for (size_t i = 0; i < launchers->count; i++)
        assert_string_equal(launchers->items[i]->text, spec_launchers[i]);
    assert_null(spec_launchers[launchers->count]);
    diagnostics_free(&diagnostics);
    arena_destroy(arena);
}

static void test_page(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *page = read_all(SOURCE_ROOT "/docs/torchrun.md");
    for (const struct torchrun_flag *f = torchrun_flags; f->name; f++) {
        bool keyed = f->origin == TORCHRUN_GIVEN || f->origin == TORCHRUN_COMPUTED;
        CLEANUP(cleanup_free) char *since = version_text(f->since);
        CLEANUP(cleanup_free)
        char *begin =
            keyed ? xasprintf("\n| `--%s` | `%s` | ", f->name, f->name) : xasprintf("\n| `--%s` | none | ", f->name);
        CLEANUP(cleanup_free) char *end = xasprintf(" | %s |\n", since);
        const char *row = strstr(page, begin);
        if (!row)
            fail_msg("docs/torchrun.md has no row that begins with %s", begin + 1);
        const char *line_end = strchr(row + 1, '\n') + 1;
        if (strncmp(line_end - strlen(end), end, strlen(end)) != 0)
            fail_msg("docs/torchrun.md: the row of --%s does not end with%s", f->name, end);
        const char *cell = row + strlen(begin);
        CLEANUP(cleanup_free)
        char *shown = !*f->otherwise              ? xstrdup("none")
                      : strchr(f->otherwise, ' ') ? xstrdup(f->otherwise)
                                                  : xasprintf("`%s`", f->otherwise);
        if (strncmp(cell, shown, strlen(shown)) != 0)
            fail_msg("docs/torchrun.md: the default of --%s is not %s", f->name, shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
