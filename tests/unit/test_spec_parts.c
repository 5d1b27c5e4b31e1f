/* Parts of spec that no fixture shows: splitting like shlex, origins of specs, reading secrets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../src/spec/internal.h"

static char *join(const char *const *words, size_t count)
{
    struct buf b = {0};
    buf_puts(&b, "");
    for (size_t i = 0; i < count; i++)
        buf_printf(&b, "<%s>", words[i]);
    return buf_steal(&b);
}

/* Expected values come from Python 3's shlex.split. */
static void test_shlex(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words; /* words NULL: a fault */
    } cases[] = {
        {"", ""},
        {"  \t\n ", ""},
        {"a b\tc\nd", "<a><b><c><d>"},
        {"'a b' \"c d\"", "<a b><c d>"},
        {"'' \"\"", "<><>"},
        {"a'b'\"c\"d", "<abcd>"},
        {"a\\ b \\'", "<a b><'>"},
        {"'a\\b'", "<a\\b>"},
        {"\"a\\b \\\" \\\\ \\$ \\'\"", "<a\\b \" \\ \\$ \\'>"},
        {"\"it's\" 'q\"q'", "<it's><q\"q>"},
        {"$HOME `x` *;|&", "<$HOME><`x`><*;|&>"},
        {"a # b", "<a><#><b>"},
        {"\xc3\xa9 x", "<\xc3\xa9><x>"},
        {"'a", NULL},
        {"\"a", NULL},
        {"a\\", NULL},
        /* ours: an expression is one piece */
        {"--x ${{ params.a + 'b c' }} y", "<--x><${{ params.a + 'b c' }}><y>"},
        {"\"${{ 'a' }} b\" ${{ x", "<${{ 'a' }} b><${{><x>"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena *arena = arena_create();
        const char **words = NULL;
        size_t count = 0;
        struct error err = ERROR_INIT;
        int rc = shlex_split(cases[i].text, arena, &words, &count, &err);
        assert_int_equal(rc, cases[i].words ? 0 : -1);
        if (rc == 0) {
            char *got = join(words, count);
            assert_string_equal(got, cases[i].words);
            free(got);
        }
        arena_destroy(arena);
    }
}

/* ---- origin ---- */

static char top[64];

static void put(const char *path, const char *text)
{
    char full[256];
    struct error err = ERROR_INIT;
    snprintf(full, sizeof full, "%s/%s", top, path);
    char *slash = strrchr(full, '/');
    *slash = 0;
    assert_int_equal(mkdir_p(full, 0755, &err), 0);
    *slash = '/';
    assert_int_equal(file_write_atomic(full, text, strlen(text), 0644, &err), 0);
}

static int make_top(void **state)
{
    (void)state;
    strcpy(top, "/tmp/test_spec_parts.XXXXXX");
    return mkdtemp(top) ? 0 : -1;
}

static int remove_top(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

static void expect_origin(const char *path, const char *expected)
{
    struct arena *arena = arena_create();
    char full[256];
    snprintf(full, sizeof full, "%s/%s", top, path);
    const char *got = origin_find(full, arena);
    assert_string_equal(got, expected ? expected : full);
    arena_destroy(arena);
}

static void test_origin(void **state)
{
    (void)state;
    put("plain/job.yaml", "");
    expect_origin("plain/job.yaml", NULL);
    put("repo/.git/config", "[core]\n\tbare = false\n");
    expect_origin("repo/job.yaml", NULL);
    put("repo/.git/config",
        "[remote \"up\"]\n\turl = https://up/x.git\n[remote \"origin\"]\n\turl = https://host/x.git # c\n");
    expect_origin("repo/job.yaml", "https://host/x.git#job.yaml");
    expect_origin("repo/a/b/job.yaml", "https://host/x.git#a/b/job.yaml");
    put("repo/.git/config", "[remote \"up\"]\n  URL=\"git@up:x y.git\"\n[branch \"b\"]\n\turl = no\n");
    expect_origin("repo/job.yaml", "git@up:x y.git#job.yaml");
    static const char *const urls[][2] = {
        {"https://user:token@host/x.git", "https://host/x.git#job.yaml"},
        {"https://token@host:8443/x.git", "https://host:8443/x.git#job.yaml"},
        {"https://a@b:c@host/x@y.git", "https://host/x@y.git#job.yaml"},
        {"ssh://git:secret@host:22/x.git", "ssh://git@host:22/x.git#job.yaml"},
        {"ssh://git@host/x.git", "ssh://git@host/x.git#job.yaml"},
        {"git@host:x.git", "git@host:x.git#job.yaml"},
        {"../x.git", "../x.git#job.yaml"},
    };
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        char config[256];
        snprintf(config, sizeof config, "[remote \"origin\"]\n\turl = %s\n", urls[i][0]);
        put("repo/.git/config", config);
        expect_origin("repo/job.yaml", urls[i][1]);
    }
    /* a worktree: .git is a file, and its own folder names the common one */
    put("main/.git/config", "[remote \"origin\"]\n\turl = https://host/main.git\n");
    put("main/.git/worktrees/w/commondir", "../..\n");
    put("tree/.git", "gitdir: ../main/.git/worktrees/w\n");
    expect_origin("tree/sub/job.yaml", "https://host/main.git#sub/job.yaml");
    /* a submodule: .git is a file, and its folder has the config */
    put("main/.git/modules/s/config", "[remote \"origin\"]\n\turl = https://host/s.git\n");
    put("main/s/.git", "gitdir: ../.git/modules/s\n");
    expect_origin("main/s/job.yaml", "https://host/s.git#job.yaml");
    put("broken/.git", "no such thing\n");
    expect_origin("broken/job.yaml", NULL);
}

/* ---- secrets ---- */

static int resolve(struct spec_secret *secret, struct arena *arena, struct error *err)
{
    struct spec spec = {.dir = top, .secrets = secret, .secret_count = 1};
    *err = (struct error)ERROR_INIT;
    return spec_resolve_secrets(&spec, arena, err);
}

static void test_secrets(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    struct error err;
    char file[128];
    struct spec_text echo[] = {{.text = "sh"}, {.text = "-c"}, {.text = "pwd; printf 'two\\n\\n'"}};
    struct spec_text bad[] = {{.text = "sh"}, {.text = "-c"}, {.text = "echo t0p; exit 3"}};
    struct spec_text gone[] = {{.text = "/nonexistent/program"}};
    setenv("TEST_SECRET", "v\n", 1);
    unsetenv("TEST_SECRET_GONE");
    struct spec_secret s = {.name = "TEST_SECRET"};
    assert_int_equal(resolve(&s, arena, &err), 0);
    assert_string_equal(s.value, "v\n"); /* as it is in the environment */
    put("token", "abc\n\n");
    snprintf(file, sizeof file, "%s/token", top);
    s = (struct spec_secret){.name = "F", .file = file};
    assert_int_equal(resolve(&s, arena, &err), 0);
    assert_string_equal(s.value, "abc\n"); /* one newline dropped */
    s = (struct spec_secret){.name = "C", .command = {echo, 3}};
    assert_int_equal(resolve(&s, arena, &err), 0);
    snprintf(file, sizeof file, "%s\ntwo\n", top);
    assert_string_equal(s.value, file);
    s = (struct spec_secret){.name = "B", .command = {bad, 3}};
    assert_int_equal(resolve(&s, arena, &err), -1);
    assert_string_equal(err.text, "secret \"B\": \"sh\" ended with exit status 3");
    assert_null(strstr(err.text, "t0p"));
    s = (struct spec_secret){.name = "G", .command = {gone, 1}};
    assert_int_equal(resolve(&s, arena, &err), -1);
    s = (struct spec_secret){.name = "TEST_SECRET_GONE"};
    assert_int_equal(resolve(&s, arena, &err), -1);
    assert_int_equal(err.code, ERROR_SPEC);
    assert_string_equal(err.text, "secret \"TEST_SECRET_GONE\": not set in your environment");
    assert_non_null(strstr(err.hint, "export"));
    s.optional = true;
    assert_int_equal(resolve(&s, arena, &err), 0);
    assert_null(s.value);
    arena_destroy(arena);
}

/* ---- schema and reference ---- */

/* Parts of the schema that only narrow keys which are described elsewhere. */
static bool narrows(const char *keyword)
{
    return str_eq(keyword, "if") || str_eq(keyword, "then") || str_eq(keyword, "else") || str_eq(keyword, "not");
}

static void check_keys(const struct doc_node *node, const char *reference, size_t *count)
{
    const struct doc_node *properties = doc_get(node, "properties");
    for (size_t i = 0; properties && i < properties->count; i++) {
        const struct doc_member *m = &properties->members[i];
        CLEANUP(cleanup_free) char *cell = xasprintf("| `%s` |", m->key);
        if (!strstr(reference, cell))
            fail_msg("docs/spec.md has no row for \"%s\"", m->key);
        if (!doc_get_string(m->value, "description", NULL) && !doc_get(m->value, "$ref"))
            fail_msg("no description for \"%s\"", m->key);
        if (!doc_get(m->value, "examples"))
            fail_msg("no examples for \"%s\"", m->key);
        ++*count;
    }
    for (size_t i = 0; node && node->type == DOC_OBJECT && i < node->count; i++)
        if (node->members[i].value->type == DOC_OBJECT && !narrows(node->members[i].key))
            check_keys(node->members[i].value, reference, count);
}

/* Whether the schema has `key` as a property somewhere. */
static bool has_key(const struct doc_node *node, const char *key)
{
    if (!node || node->type != DOC_OBJECT)
        return false;
    if (doc_get(doc_get(node, "properties"), key))
        return true;
    for (size_t i = 0; i < node->count; i++)
        if (has_key(node->members[i].value, key))
            return true;
    return false;
}

extern const char rhrun_job_schema_packed[];

/* Specs are checked against the schema without the parts for people: the packing works on its text. */
static bool same_but_words(const struct doc_node *full, const struct doc_node *packed)
{
    size_t at = 0;
    if (full->type != packed->type || full->text_len != packed->text_len ||
        (full->text && memcmp(full->text, packed->text, full->text_len) != 0) || full->boolean != packed->boolean)
        return false;
    for (size_t i = 0; full->type == DOC_ARRAY && i < full->count; i++)
        if (i >= packed->count || !same_but_words(full->items[i], packed->items[i]))
            return false;
    for (size_t i = 0; full->type == DOC_OBJECT && i < full->count; i++) {
        const struct doc_member *m = &full->members[i];
        const bool words = str_eq(m->key, "description") || str_eq(m->key, "$comment");
        if (words && m->value->type == DOC_STRING)
            continue;
        if (at >= packed->count || !str_eq(m->key, packed->members[at].key) ||
            !same_but_words(m->value, packed->members[at].value))
            return false;
        at++;
    }
    return full->type == DOC_OBJECT ? at == packed->count : full->count == packed->count;
}

static void test_packed_schema(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    struct diagnostics diagnostics = {0};
    struct error err = ERROR_INIT;
    struct doc *full = NULL, *packed = NULL;
    const char *text = spec_schema_text();
    assert_int_equal(doc_load_text("full", text, strlen(text), DOC_FORMAT_JSON, arena, &full, &diagnostics, &err), 0);
    text = rhrun_job_schema_packed;
    assert_int_equal(doc_load_text("packed", text, strlen(text), DOC_FORMAT_JSON, arena, &packed, &diagnostics, &err),
                     0);
    assert_true(same_but_words(full->root, packed->root));
    assert_null(strstr(text, "\"description\": \""));
    diagnostics_free(&diagnostics);
    arena_destroy(arena);
}

static void test_reference(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    struct diagnostics diagnostics = {0};
    struct error err = ERROR_INIT;
    struct doc *doc = NULL;
    struct buf reference = {0};
    size_t in_schema = 0, rows = 0;
    const char *text = spec_schema_text();
    assert_int_equal(doc_load_text("schema", text, strlen(text), DOC_FORMAT_JSON, arena, &doc, &diagnostics, &err), 0);
    assert_int_equal(file_read(SOURCE_ROOT "/docs/spec.md", 1 << 20, &reference, &err), 0);
    check_keys(doc->root, reference.data, &in_schema);
    assert_true(in_schema > 50);
    /* and every row of a key table is a key of the schema */
    for (const char *p = reference.data; (p = strstr(p, "\n| `")); p++) {
        const char *name = p + 4, *end = strchr(name, '`');
        CLEANUP(cleanup_free) char *key = xstrndup(name, (size_t)(end - name));
        if (strspn(key, "abcdefghijklmnopqrstuvwxyz_") != strlen(key) || !str_starts(end, "` |"))
            continue;
        rows++;
        if (!has_key(doc->root, key))
            fail_msg("docs/spec.md has a row for \"%s\", the schema no such key", key);
    }
    assert_true(rows >= 50);
    buf_free(&reference);
    diagnostics_free(&diagnostics);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shlex),
        cmocka_unit_test_setup_teardown(test_origin, make_top, remove_top),
        cmocka_unit_test_setup_teardown(test_secrets, make_top, remove_top),
        cmocka_unit_test(test_packed_schema),
        cmocka_unit_test(test_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
