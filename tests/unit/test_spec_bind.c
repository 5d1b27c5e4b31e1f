/* Parts of the typed spec that its normalised document does not show: identity, names, links, arguments with types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../src/spec/internal.h"

static char top[PATH_MAX];
static struct arena *arena;
static struct diagnostics diagnostics;

static int set_up(void **state)
{
    (void)state;
    char made[] = "/tmp/test_spec_bind.XXXXXX";
    if (!mkdtemp(made) || !realpath(made, top))
        return -1;
    arena = arena_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[PATH_MAX + 16];
    diagnostics_free(&diagnostics);
    diagnostics = (struct diagnostics){0};
    arena_destroy(arena);
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

static const char *put(const char *name, const char *text)
{
    struct error err = ERROR_INIT;
    const char *path = arena_printf(arena, "%s/%s", top, name);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, &err), 0);
    return path;
}

/* The spec, or NULL; *ret_fault is the first fault then. */
static struct spec *try_load(const char *text, const struct spec_overrides *over, const char **ret_fault)
{
    struct spec *spec = NULL;
    struct error err = ERROR_INIT;
    diagnostics_free(&diagnostics);
    diagnostics = (struct diagnostics){0};
    int rc = spec_load(put("job.yaml", text), over, arena, &spec, &diagnostics, &err);
    *ret_fault = diagnostics.errors > 0 ? arena_strdup(arena, diagnostics.items[0].message) : err.text;
    return rc == 0 ? spec : NULL;
}

static struct spec *load(const char *text)
{
    const char *why;
    struct spec *spec = try_load(text, NULL, &why);
    if (!spec)
        fail_msg("%s: %s", text, why);
    return spec;
}

/* ---- renting ---- */

static void test_rented(void **state)
{
    (void)state;
    struct spec *spec =
        load("cluster: {instance: 'A100:8', provider: [gcp, aws], use_spot: prefer, disk: 1.5TB, max_price: 4.25,"
             " max_hours: 0.25, down: {idle: 90s}, user: me, container: x}\n"
             "distributed: {nnodes: 3}\nentrypoint: {run: x}\n");
    const struct spec_rent *r = spec->rent;
    assert_non_null(r);
    assert_string_equal(r->instance, "A100:8");
    assert_int_equal(r->provider_count, 2);
    assert_string_equal(r->providers[0], "gcp");
    assert_int_equal(r->provider_places[1].column, 47);
    assert_int_equal(r->spot, SPOT_PREFER);
    assert_int_equal(r->disk_gb, 1500);
    assert_true(r->max_price == 4250000 && r->max_ms == 900000);
    assert_true(r->down == DOWN_IDLE && r->idle_ms == 90000);
    assert_true(r->at.max_price.source && !r->at.regions.source);
    assert_true(spec->placement == PLACEMENT_HOSTS && spec->nnodes == 3 && spec->host_count == 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(spec->hosts[i].transport, SPEC_TRANSPORT_RENTED);
        assert_string_equal(spec->hosts[i].name, arena_printf(arena, "node-%u", i));
        assert_string_equal(spec->hosts[i].user, "me");
        assert_string_equal(spec->hosts[i].container->image, "x");
    }
}

/* There is a limit without max_hours too; only `none` removes it. */
static void test_rented_ends(void **state)
{
    (void)state;
    struct spec *spec = load("cluster: {instance: 'A100:8'}\nentrypoint: {run: x}\n");
    assert_true(spec->rent->max_ms == UINT64_C(24) * 3600000 && spec->rent->down == DOWN_ALWAYS);
    assert_int_equal(spec->host_count, 1);
    assert_null(spec->hosts[0].user);
    spec = load("cluster: {provider: docker, max_hours: none}\nentrypoint: {run: x}\n");
    assert_true(spec->rent->max_ms == 0 && !spec->rent->instance);
}

/* Only instance and provider make a spec rent. */
static void test_nothing_is_rented(void **state)
{
    (void)state;
    static const char *const clusters[] = {
        "cluster: local\n",          "",
        "cluster: {hosts: [a]}\n",   "cluster: {hosts: [a], use_spot: false}\n",
        "cluster: {container: x}\n", "params: {i: ''}\ncluster: {container: x, instance: '${{ params.i }}'}\n"};
    for (size_t i = 0; i < ARRAY_LEN(clusters); i++)
        assert_null(load(arena_printf(arena, "%sentrypoint: {run: x}\n", clusters[i]))->rent);
}

/* ---- identity ---- */

static void test_job_id(void **state)
{
    (void)state;
    char id[17];
    spec_job_id("train", "https://host/x.git#job.yaml", id); /* printf 'train\0https://...' | sha256sum */
    assert_string_equal(id, "617ff23e68ec49ff");
    struct spec *spec = load("name: a\nentrypoint: {run: x}\n");
    spec_job_id("a", spec->origin, id);
    assert_string_equal(spec->job_id, id);
    struct spec_overrides only = {.identity_only = true};
    const char *why;
    struct spec *named = try_load("name: a\nentrypoint: {}\n", &only, &why);
    assert_non_null(named);
    assert_string_equal(named->job_id, id);
}

static void test_in_place(void **state)
{
    (void)state;
    struct spec *spec = load("distributed: {nnodes: 2}\nentrypoint: {run: x}\n");
    assert_true(spec_in_place(spec) && spec->placement == PLACEMENT_HERE && !spec->has_workdir);
    assert_string_equal(spec->hosts[1].work_dir, top);
    spec = load("workdir: .\ndistributed: {nnodes: 2}\nentrypoint: {run: x}\n");
    assert_true(!spec_in_place(spec) && spec->placement == PLACEMENT_HERE && spec->has_workdir);
    assert_int_equal(spec->host_count, 2);
    assert_null(spec->hosts[0].work_dir);
    assert_null(spec->hosts[1].work_dir);
    assert_string_equal(spec->workdir.path, top);
    spec = load("workdir: .\ncluster: {hosts: [a]}\nentrypoint: {run: x}\n");
    assert_true(!spec_in_place(spec) && spec->placement == PLACEMENT_HOSTS);
}

/* ---- items ---- */

static void expect_names(const char *text, const char *expected)
{
    struct spec *spec = load(text);
    struct buf b = {0};
    for (size_t i = 0; i < spec->setup_count; i++)
        buf_printf(&b, "%s%s", i ? " " : "", spec->setup[i].name);
    assert_string_equal(b.data, expected);
    buf_free(&b);
}

static void test_names_stay(void **state)
{
    (void)state;
    put("requirements.txt", "torch\n");
    expect_names("packages: [torch]\nsetup: [{apt: git}, {run: make}]\nentrypoint: {run: x}\n",
                 "pip:torch apt:git run-2");
    expect_names("packages: [numpy, torch==2]\nrequirements: requirements.txt\nsetup: [{apt: git}, {run: make}]\n"
                 "entrypoint: {run: x}\n",
                 "pip:numpy requirements.txt apt:git run-2");
    expect_names("packages: [torch, torch --pre, torch]\nsetup: [{name: 'pip:torch', run: x}]\nentrypoint: {run: x}\n",
                 "pip:torch-2 pip:torch-3 pip:torch-4 pip:torch");
    expect_names("packages: [torch, torch --pre, 'pip:torch-2']\nentrypoint: {run: x}\n",
                 "pip:torch pip:torch-2 pip:torch-2-2");
    expect_names("setup: [{git: 'git@host:a/b c.git'}, {git: /srv/x.git/}]\nentrypoint: {run: x}\n", "git:b_c git:x");
    expect_names("setup: [{run: x, creates: a}, {pip: './a b'}]\nentrypoint: {run: x}\n", "run-1 pip:./a");
}

/* Neighbouring items of `packages` with the same pip options are one command, which resolves them together. */
static void test_neighbours(void **state)
{
    (void)state;
    put("pyproject.toml", "[project]\nname = 'x'\n");
    struct spec *spec =
        load("packages: [pandas, tabulate, ./, 'a --pre', {pip: [b, c], options: --pre}, {pip: d, name: own}, e,\n"
             "           'apt:git', f, {pip: g, upgrade: true}, {pip: h, on: first}, i]\n"
             "setup: [{pip: j}, {pip: k}]\nentrypoint: {run: x}\n");
    static const char *const expected[] = {
        "pandas tabulate ./", "a b c", "d", "e", "git", "f", "g", "h", "i", "j", "k"};
    assert_int_equal(spec->setup_count, ARRAY_LEN(expected));
    for (size_t i = 0; i < spec->setup_count; i++) {
        struct buf b = {0};
        for (size_t k = 0; k < spec->setup[i].packages.count; k++)
            buf_printf(&b, "%s%s", k ? " " : "", spec->setup[i].packages.items[k].text);
        assert_string_equal(b.data, expected[i]);
        buf_free(&b);
    }
    /* One command's packages go to the node in one variable. */
    struct buf many = {0};
    buf_puts(&many, "packages: [");
    for (int i = 0; i < 4000; i++)
        buf_printf(&many, "package-%06d,", i);
    buf_puts(&many, "]\nentrypoint: {run: x}\n");
    assert_int_equal(load(many.data)->setup_count, 2);
    buf_free(&many);
}

static void test_many_items(void **state)
{
    (void)state;
    struct buf b = {0};
    const char *why;
    buf_puts(&b, "packages: [");
    for (int i = 0; i < 9000; i++)
        buf_puts(&b, "apt:same,");
    buf_puts(&b, "]\nsetup: [");
    for (int i = 0; i < 1000; i++)
        buf_puts(&b, "{pip: same},");
    size_t len = b.len;
    buf_puts(&b, "]\nentrypoint: {run: x}\n");
    struct spec *spec = load(b.data);
    assert_int_equal(spec->setup_count, 10000);
    assert_string_equal(spec->setup[8999].name, "apt:same-9000");
    assert_string_equal(spec->setup[9999].name, "pip:same-1000");
    b.len = len;
    buf_puts(&b, "{run: one too many}]\nentrypoint: {run: x}\n");
    assert_null(try_load(b.data, NULL, &why));
    assert_string_equal(why, "set-up has 10001 items with those of roles, and at most 10000 are allowed");
    buf_free(&b);
}

static void test_python_default(void **state)
{
    (void)state;
    struct spec *spec = load("entrypoint: {run: x}\n");
    assert_string_equal(spec->python.interpreter.text, "python3");
    assert_true(spec->python.venv == VENV_AUTO && spec->python.system_site_packages && !spec->python.conda.text);
    spec = load("python: {conda: train}\nentrypoint: {run: x}\n");
    assert_string_equal(spec->python.conda.text, "train");
}

/* ---- paths ---- */

static void test_links(void **state)
{
    (void)state;
    assert_int_equal(mkdir(arena_printf(arena, "%s/real", top), 0755), 0);
    put("real/file", "x");
    assert_int_equal(symlink("real", arena_printf(arena, "%s/link", top)), 0);
    assert_int_equal(symlink("real/file", arena_printf(arena, "%s/name", top)), 0);
    struct spec *spec = load("workdir: ./link/\nfiles: [{from: link/../name, to: ~/x}, {from: link/file, to: y}]\n"
                             "entrypoint: {run: x}\n");
    assert_string_equal(spec->workdir.path, arena_printf(arena, "%s/real", top));
    assert_string_equal(spec->files[0].source.path, arena_printf(arena, "%s/name", top));
    assert_string_equal(spec->files[1].source.path, arena_printf(arena, "%s/real/file", top));
    assert_string_equal(spec->files[1].name, "files-2");
}

static void test_path_leaves(void **state)
{
    (void)state;
    static const char *const inside[] = {"",    ".",   "a",    "a/..", "./a/../b", "a/b/../..", "..a",
                                         "a..", "/..", "~/..", "...",  "a//..",    ".a/.."};
    static const char *const outside[] = {"..", "../a", "a/../..", "./..", ".//..", "a/../../a", "a/b/../../.."};
    for (size_t i = 0; i < ARRAY_LEN(inside); i++)
        if (path_leaves(inside[i]))
            fail_msg("\"%s\" does not lead out", inside[i]);
    for (size_t i = 0; i < ARRAY_LEN(outside); i++)
        if (!path_leaves(outside[i]))
            fail_msg("\"%s\" leads out", outside[i]);
}

/* ---- arguments of a function ---- */

static const char *const pass_through[] = {"a b", "${{ params.n }}", ""};
static const struct spec_overrides with_args = {.args = pass_through, .arg_count = ARRAY_LEN(pass_through)};

static const char *expanded(const struct doc_node *node, const struct expr_context *ctx, bool keep_late)
{
    struct doc_node *out = NULL;
    struct error err = ERROR_INIT;
    struct buf json = {0};
    enum expr_status status = expr_expand_doc(node, ctx, keep_late, arena, &out, &err);
    if (status != EXPR_OK)
        return arena_printf(arena, "%s: %s", status == EXPR_LATE ? "late" : "failed", err.text);
    doc_to_json(out, DOC_JSON_PLAIN, &json);
    const char *text = arena_strdup(arena, json.data);
    buf_free(&json);
    return text;
}

static void test_arguments(void **state)
{
    (void)state;
    static const struct {
        const char *value, *json;
    } cases[] = {
        {"3", "3"},
        {"'3'", "\"3\""},
        {"1e-3", "1e-3"},
        {"0x10", "16"},
        {"yes", "\"yes\""},
        {"true", "true"},
        {"null", "null"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"\"${{ params.n }}\"", "3"},
        {"\"${{params.n*2-1}}\"", "5"},
        {"\"${{ params.rate }}\"", "1e-3"},
        {"\"${{ params.flag }}\"", "true"},
        {"\"${{ !params.flag || params.n > 2 }}\"", "true"},
        {"\"${{ params.text }}\"", "\"7\""},
        {"\"${{ params.n }} \"", "\"3 \""},
        {"\"${{ params.n }}${{ params.n }}\"", "\"33\""},
        {"\"${{ '${{' }}\"", "\"${{\""},
        {"[\"${{ params.n }}\", [\"${{ params.flag }}\", {a: \"${{ job.name }}\"}], null]",
         "[3,[true,{\"a\":\"j\"}],null]"},
        {"\"${{ args }}\"", "[\"a b\",\"${{ params.n }}\",\"\"]"},
        {"[1, \"${{ args }}\", 2]", "[1,\"a b\",\"${{ params.n }}\",\"\",2]"},
        {"[]", "[]"},
        {"{}", "{}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *why,
            *text = arena_printf(arena,
                                 "name: j\nparams: {n: 3, rate: 1e-3, flag: true, text: '7'}\n"
                                 "entrypoint:\n  function: a:b\n  args: ['${{ args }}']\n  kwargs: {v: %s}\n",
                                 cases[i].value);
        struct spec *spec = try_load(text, &with_args, &why);
        if (!spec)
            fail_msg("%s: %s", cases[i].value, why);
        struct expr_context ctx = {.spec = spec};
        assert_string_equal(expanded(doc_get(spec->entrypoint.kwargs, "v"), &ctx, false), cases[i].json);
        assert_string_equal(expanded(spec->entrypoint.positional, &ctx, false), "[\"a b\",\"${{ params.n }}\",\"\"]");
    }
}

static void test_positional(void **state)
{
    (void)state;
    const char *why;
    struct spec *spec = try_load("params: {n: 3}\nentrypoint:\n  function: a:b\n"
                                 "  args: [1, '1', 0.5, \"${{ params.n }}\", \"${{ args }}\", false]\n",
                                 &with_args, &why);
    struct expr_context ctx = {.spec = spec};
    assert_non_null(spec);
    assert_string_equal(expanded(spec->entrypoint.positional, &ctx, false),
                        "[1,\"1\",0.5,3,\"a b\",\"${{ params.n }}\",\"\",false]");
    assert_int_equal(spec->entrypoint.args.count, 8);
    assert_null(spec->entrypoint.kwargs);
    spec = try_load("params: {n: 3}\nentrypoint:\n  function: a:b\n  args: \"1 'b c' ${{ params.n }} ${{ args }}\"\n",
                    &with_args, &why);
    assert_non_null(spec);
    ctx.spec = spec;
    assert_string_equal(expanded(spec->entrypoint.positional, &ctx, false),
                        "[\"1\",\"b c\",3,\"a b\",\"${{ params.n }}\",\"\"]");
    spec = load("entrypoint: {function: a:b}\n");
    ctx.spec = spec;
    assert_string_equal(expanded(spec->entrypoint.positional, &ctx, false), "[]");
}

static void test_late_arguments(void **state)
{
    (void)state;
    struct spec *spec =
        load("params: {n: 3}\ndistributed: {nproc_per_node: 2}\nentrypoint:\n  function: a:b\n"
             "  kwargs: {r: \"${{ rank }}\", t: \"${{ params.n + rank }} x\", n: \"${{ 6 / rank }}\"}\n");
    struct expr_context ctx = {.spec = spec};
    assert_string_equal(expanded(spec->entrypoint.kwargs, &ctx, true),
                        "{\"r\":\"${{ rank }}\",\"t\":\"${{ 3 + rank }} x\",\"n\":\"${{ 6 / rank }}\"}");
    assert_true(str_starts(expanded(spec->entrypoint.kwargs, &ctx, false), "late: "));
    ctx.has_rank = true;
    ctx.rank = 2;
    assert_string_equal(expanded(spec->entrypoint.kwargs, &ctx, false), "{\"r\":2,\"t\":\"5 x\",\"n\":3}");
    ctx.rank = 0;
    const char *got = expanded(spec->entrypoint.kwargs, &ctx, false);
    assert_true(str_starts(got, "failed: "));
    assert_non_null(strstr(got, "job.yaml:5:"));
    assert_non_null(strstr(got, "division by zero"));
}

static void test_arguments_are_bounded(void **state)
{
    (void)state;
    struct buf b = {0};
    const char *why;
    buf_puts(&b, "entrypoint:\n  function: a:b\n  args: [x]\n  kwargs: {x: [");
    for (int i = 0; i < 90; i++)
        buf_printf(&b, "'%01000d',", i);
    size_t len = b.len;
    buf_puts(&b, "]}\n");
    load(b.data);
    b.len = len;
    for (int i = 0; i < 9; i++)
        buf_printf(&b, "'%01000d',", i);
    buf_puts(&b, "]}\n");
    assert_null(try_load(b.data, NULL, &why));
    assert_true(str_starts(why, "the function's arguments have 99"));
    buf_free(&b);
}

/* ---- outputs ---- */

static void test_outputs_in_place(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        bool in_place;
    } cases[] = {
        {"out/", "out", true},
        {"./x/..//out/", "out/.", true},
        {"logs/*.json", "logs/", true},
        {"*.txt", ".", true},
        {"a/b*", "a", true},
        {"out/", "results", false},
        {"out/", "../out", false},
        {"logs/*.json", "logs/json", false},
        {"~/out/", "out", false},
        {"out", "ou", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int workdir = 0; workdir < 2; workdir++) {
            struct spec *spec = load(arena_printf(arena, "%soutputs: {from: '%s', to: %s}\nentrypoint: {run: x}\n",
                                                  workdir ? "workdir: .\n" : "", cases[i].from, cases[i].to));
            if (spec->outputs[0].in_place != (cases[i].in_place && !workdir))
                fail_msg("%s to %s, workdir %d", cases[i].from, cases[i].to, workdir);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rented, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rented_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_is_rented, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_job_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_in_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_neighbours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_items, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_python_default, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_path_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_positional, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_arguments_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_outputs_in_place, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
