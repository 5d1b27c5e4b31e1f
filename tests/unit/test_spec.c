/*
 * spec by golden fixtures: tests/fixtures/spec/CASE/ holds job.yaml, maybe `options` (one word of the command
 * line a line: --set a=b, -p x=1, --on local, -- ARG) and expected.txt: the exact diagnostics, or the
 * normalised document. RHRUN_UPDATE_FIXTURES=1 writes expected.txt instead of comparing it.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rhrun/spec.h"

enum { WORDS_MAX = 64 };

struct options {
    const char *sets[WORDS_MAX], *params[WORDS_MAX], *args[WORDS_MAX];
    struct spec_overrides over;
};

static void read_options(struct options *o, char *text)
{
    o->over = (struct spec_overrides){.sets = o->sets, .params = o->params, .args = o->args};
    bool behind = false;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (behind) {
            o->args[o->over.arg_count++] = line;
        } else if (str_starts(line, "--set ")) {
            o->sets[o->over.set_count++] = line + 6;
        } else if (str_starts(line, "-p ")) {
            o->params[o->over.param_count++] = line + 3;
        } else if (str_starts(line, "--on ")) {
            o->over.on = line + 5;
        } else {
            assert_string_equal(line, "--");
            behind = true;
        }
        assert_true(o->over.arg_count < WORDS_MAX && o->over.set_count < WORDS_MAX && o->over.param_count < WORDS_MAX);
    }
}

/* The points, as comments after the normalised document. */
static void put_points(const struct spec_sweep *sweep, struct buf *ret)
{
    for (size_t i = 0; sweep && i < sweep->point_count; i++) {
        const struct spec_point *p = &sweep->points[i];
        buf_printf(ret, "# %s %s %s\n", p->id, p->name, p->params_json);
    }
}

/* The result of the case, as text; `here` appears as <here>, so that no fixture has a path of this machine. */
static char *outcome(const struct spec_overrides *over, const char *here)
{
    struct arena *arena = arena_create();
    struct diagnostics diagnostics = {0};
    struct error err = ERROR_INIT;
    struct spec *spec = NULL;
    struct buf raw = {0}, out = {0};
    int rc = spec_load("job.yaml", over, arena, &spec, &diagnostics, &err);
    assert_int_equal(rc == 0, diagnostics.errors == 0);
    diagnostics_format(&diagnostics, false, &raw);
    if (rc == 0) {
        doc_to_yaml(spec->resolved, &raw);
        put_points(spec->sweep, &raw);
    } else {
        buf_printf(&raw, "%s\n", err.text);
    }
    assert_int_equal(err.code, rc == 0 ? ERROR_NONE : ERROR_SPEC);
    const char *p = raw.data;
    for (const char *hit; (hit = strstr(p, here)); p = hit + strlen(here)) {
        buf_append(&out, p, (size_t)(hit - p));
        buf_puts(&out, "<here>");
    }
    buf_puts(&out, p);
    buf_free(&raw);
    diagnostics_free(&diagnostics);
    arena_destroy(arena);
    return buf_steal(&out);
}

/* The normalised document means the same: read as a spec next to the same files, it is its own normalised document. */
static void check_again(const char *name, const char *here, const char *normalised, const struct spec_overrides *over)
{
    char dir[] = "/tmp/test_spec.XXXXXX", command[8192];
    bool open = strstr(normalised, "${{ args }}") != NULL; /* else the ARGs are in it */
    struct spec_overrides args = {.args = over->args, .arg_count = open ? over->arg_count : 0};
    struct error err = ERROR_INIT;
    struct buf text = {0};
    for (const char *hit; (hit = strstr(normalised, "<here>")); normalised = hit + 6) {
        buf_append(&text, normalised, (size_t)(hit - normalised));
        buf_puts(&text, here);
    }
    buf_puts(&text, normalised);
    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof command, "cp -r '%s/.' %s", here, dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(file_write_atomic("job.yaml", text.data, text.len, 0644, &err), 0);
    char *again = outcome(&args, "/nowhere");
    if (strcmp(again, text.data) != 0)
        fail_msg("%s: its normalised document is another one when read:\n%s", name, again);
    free(again);
    buf_free(&text);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static bool run_case(const char *name)
{
    struct buf options_text = {0}, expected = {0};
    struct options options = {0};
    struct error err = ERROR_INIT;
    char here[4096];
    assert_int_equal(chdir(FIXTURES "/spec"), 0);
    assert_int_equal(chdir(name), 0);
    assert_non_null(getcwd(here, sizeof here));
    if (access("options", F_OK) == 0)
        assert_int_equal(file_read("options", 1 << 16, &options_text, &err), 0);
    else
        buf_puts(&options_text, "");
    read_options(&options, options_text.data);
    char *got = outcome(&options.over, here);
    bool same = true;
    if (getenv("RHRUN_UPDATE_FIXTURES")) {
        assert_int_equal(file_write_atomic("expected.txt", got, strlen(got), 0644, &err), 0);
    } else {
        same = file_read("expected.txt", 1 << 20, &expected, &err) == 0 && strcmp(expected.data, got) == 0;
        if (!same)
            print_error("--- %s: expected\n%s+++ got\n%s\n", name,
                        expected.data ? expected.data : "(no expected.txt)\n", got);
    }
    if (!strstr(got, "job.yaml: "))
        check_again(name, here, got, &options.over);
    free(got);
    buf_free(&expected);
    buf_free(&options_text);
    return same;
}

static void test_fixtures(void **state)
{
    (void)state;
    setenv("HOME", "/home/somebody", 1);
    setenv("FROM_CALLER", "of the caller", 1);
    unsetenv("NOT_SET");
    DIR *dir = opendir(FIXTURES "/spec");
    size_t cases = 0, failed = 0;
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        cases++;
        failed += !run_case(e->d_name);
    }
    closedir(dir);
    assert_true(cases >= 20);
    assert_int_equal(failed, 0);
}

/* ---- identity ---- */

struct identity {
    char hash[65], variant[17];
};

static struct identity identity_of(const char *name, const struct spec_overrides *over)
{
    struct arena *arena = arena_create();
    struct diagnostics diagnostics = {0};
    struct error err = ERROR_INIT;
    struct spec *spec = NULL;
    struct identity id;
    assert_int_equal(chdir(FIXTURES "/spec"), 0);
    assert_int_equal(chdir(name), 0);
    assert_int_equal(spec_load("job.yaml", over, arena, &spec, &diagnostics, &err), 0);
    assert_int_equal(strlen(spec->hash), 64);
    assert_int_equal(strlen(spec->variant), 16);
    memcpy(id.hash, spec->hash, sizeof id.hash);
    memcpy(id.variant, spec->variant, sizeof id.variant);
    diagnostics_free(&diagnostics);
    arena_destroy(arena);
    return id;
}

static void test_identity(void **state)
{
    (void)state;
    const char *const steps[] = {"steps=7"}, *const args[] = {"a", "b"}, *const joined[] = {"a b"};
    const char *const set[] = {"setup.0.run=other"};
    struct identity plain = identity_of("params", NULL), again = identity_of("params", NULL);
    assert_memory_equal(&plain, &again, sizeof plain);
    struct identity param = identity_of("params", &(struct spec_overrides){.params = steps, .param_count = 1});
    struct identity two = identity_of("params", &(struct spec_overrides){.args = args, .arg_count = 2});
    struct identity one = identity_of("params", &(struct spec_overrides){.args = joined, .arg_count = 1});
    struct identity edited = identity_of("params", &(struct spec_overrides){.sets = set, .set_count = 1});
    assert_string_not_equal(plain.variant, param.variant);
    assert_string_not_equal(plain.variant, two.variant);
    assert_string_not_equal(one.variant, two.variant);
    assert_string_equal(plain.variant, edited.variant); /* an edit is the same job */
    assert_string_not_equal(plain.hash, edited.hash);
    assert_string_not_equal(plain.hash, param.hash);
    assert_string_not_equal(one.hash, two.hash);
}

/* ---- limits ---- */

static size_t faults_with(const char *text, const struct spec_overrides *overrides, char *ret_first, size_t size)
{
    struct arena *arena = arena_create();
    struct diagnostics diagnostics = {0};
    struct spec *spec = NULL;
    char path[] = "/tmp/test_spec.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
    close(fd);
    spec_load(path, overrides, arena, &spec, &diagnostics, NULL);
    unlink(path);
    size_t count = diagnostics.errors;
    snprintf(ret_first, size, "%s", count > 0 ? diagnostics.items[0].message : "");
    diagnostics_free(&diagnostics);
    arena_destroy(arena);
    return count;
}

static size_t faults_of(const char *text, char *ret_first, size_t size)
{
    return faults_with(text, NULL, ret_first, size);
}

static void test_too_many_sets(void **state)
{
    (void)state;
    char first[256];
    const char *sets[SPEC_SETS_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(sets); i++)
        sets[i] = "env.A=1";
    struct spec_overrides o = {.sets = sets, .set_count = SPEC_SETS_MAX};
    assert_int_equal(faults_with("entrypoint: {run: x}\n", &o, first, sizeof first), 0);
    o.set_count++;
    assert_int_equal(faults_with("entrypoint: {run: x}\n", &o, first, sizeof first), 1);
    assert_string_equal(first, "more than 1024 times --set");
}

static void test_limits(void **state)
{
    (void)state;
    char first[256];
    struct buf b = {0};
    buf_puts(&b, "setup:\n");
    for (int i = 0; i < 10001; i++)
        buf_puts(&b, "- {run: 'true'}\n");
    buf_puts(&b, "entrypoint: {run: 'true'}\n");
    assert_int_equal(faults_of(b.data, first, sizeof first), 1);
    assert_non_null(strstr(first, "setup"));
    buf_clear(&b);
    buf_puts(&b, "cluster: {hosts: [");
    for (int i = 0; i < 100001; i++)
        buf_printf(&b, "h%d,", i);
    buf_puts(&b, "]}\nentrypoint: {run: 'true'}\n");
    assert_int_not_equal(faults_of(b.data, first, sizeof first), 0);
    assert_non_null(strstr(first, "hosts"));
    buf_clear(&b);
    buf_puts(&b, "entrypoint: {command: [x, ");
    for (int i = 0; i < 1100; i++)
        buf_printf(&b, "%01000d,", i);
    buf_puts(&b, "]}\n");
    assert_int_equal(faults_of(b.data, first, sizeof first), 1);
    assert_non_null(strstr(first, "more than 1048576"));
    assert_int_equal(faults_of("distributed: {nproc_per_node: 4097}\nentrypoint: {run: x}\n", first, sizeof first), 1);
    assert_int_equal(faults_of("distributed: {nproc_per_node: 4096}\nentrypoint: {run: x}\n", first, sizeof first), 0);
    assert_int_equal(faults_of("entrypoint: {command: [\"a\\0b\"]}\n", first, sizeof first), 1);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_too_many_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
