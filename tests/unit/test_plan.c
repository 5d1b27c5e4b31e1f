/* plan: file patterns, input files, keys, rank tables, verdicts with their reasons, node sets. */
#include "../../src/plan/internal.h"
#include "plan_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a kind of step for tests: its inputs are in the table below ---- */

static const struct step_kind test_setup, test_launch;
static struct scene {
    struct spec spec;
    struct spec_host hosts[8];
    struct spec_node wishes[8];
    struct spec_step items[4];
    const char *values[4]; /* the input "run" of each set-up step */
    enum { AFTER_PREVIOUS, AFTER_NOTHING, AFTER_ALL } edges[4];
    bool sources_input; /* all source files of the spec's folder as one input */
    struct plan_sources sources;
    bool reversed; /* inputs added in the other order */
    size_t count;
    struct arena *arena;
} scene;

static int setup_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    for (size_t i = 0; i < scene.count; i++) {
        struct plan_step *s = plan_add(b, &test_setup, spec->setup[i].name, "title");
        plan_on_all(b, s);
        if (scene.reversed)
            plan_input(b, s, "env X", "1");
        plan_input(b, s, "run", scene.values[i]);
        if (!scene.reversed)
            plan_input(b, s, "env X", "1");
        if (i && scene.edges[i] == AFTER_PREVIOUS)
            plan_input_after(b, s, plan_at(b, i - 1));
        if (scene.edges[i] == AFTER_ALL)
            plan_input_after_all(b, s, NULL);
        if (scene.sources_input && plan_input_sources(b, s, spec->dir, "sources", err) < 0)
            return -1;
        if (spec->setup[i].inputs.count &&
            (scene.sources.workdir ? plan_input_tree_files(b, s, &spec->setup[i].inputs, err)
                                   : plan_input_files(b, s, spec->dir, &spec->setup[i].inputs, err)) < 0)
            return -1;
    }
    return 0;
}

static int launch_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    (void)err;
    struct plan_step *before = spec->setup_count ? plan_at(b, spec->setup_count - 1) : NULL;
    struct plan_step *s = plan_add(b, &test_launch, "launch", "go");
    plan_on_all(b, s);
    if (before)
        plan_input_after(b, s, before);
    return 0;
}

static const struct step_kind test_setup = {
    .name = "test", .version = 1, .phase = PHASE_SETUP, .cached = true, .plan = setup_plan};
static const struct step_kind test_launch = {
    .name = "launch", .version = 1, .phase = PHASE_LAUNCH, .plan = launch_plan};
static const struct step_kind *const kinds[] = {&test_setup, &test_launch, NULL};

static int begin(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const char *const hosts[] = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"};
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.arena = arena_create();
    scene.spec = (struct spec){.path = "job.yaml", .dir = "/", .name = "job", .variant = "0123456789abcdef"};
    scene.spec.placement = PLACEMENT_HOSTS;
    scene.spec.hosts = scene.hosts;
    scene.spec.nodes = scene.wishes;
    scene.spec.host_count = scene.spec.node_count = ARRAY_LEN(scene.hosts);
    scene.spec.setup = scene.items;
    scene.spec.nnodes = 2;
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        scene.hosts[i].name = hosts[i];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        scene.items[i].name = names[i];
        scene.values[i] = "make";
    }
    scene.count = 2;
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(scene.arena);
    return 0;
}

static struct plan *compile(const struct plan_facts *facts)
{
    struct plan *plan = NULL;
    struct error err = ERROR_INIT;
    scene.spec.setup_count = scene.count;
    if (plan_compile(&scene.spec, roster_create(&scene.spec, scene.arena), kinds, &scene.sources, facts, scene.arena,
                     &plan, &err) < 0)
        fail_msg("%s", err.text);
    return plan;
}

static void refuse(const struct plan_facts *facts, const char *want)
{
    struct plan *plan = NULL;
    struct error err = ERROR_INIT;
    scene.spec.setup_count = scene.count;
    assert_int_equal(plan_compile(&scene.spec, roster_create(&scene.spec, scene.arena), kinds, NULL, facts, scene.arena,
                                  &plan, &err),
                     -1);
    assert_string_equal(err.text, want);
    assert_null(plan);
}

/* ---- patterns ---- */

static void test_glob(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool match;
    } cases[] = {
        {"a.c", "a.c", true},
        {"*.c", "a.c", true},
        {"*.c", "src/a.c", false},
        {"src/*.c", "src/a.c", true},
        {"src/**", "src/a/b.c", true},
        {"src/**", "src", false},
        {"**", "x", true},
        {"**/a.c", "a.c", true},
        {"**/a.c", "x/y/a.c", true},
        {"**/a.c", "x/y/b.c", false},
        {"a/**/z", "a/z", true},
        {"a/**/z", "a/b/c/z", true},
        {"a/**/z", "a/b/c/zz", false},
        {"**/x/**/y", "1/x/2/x/3/y", true},
        {"**/x/y", "x/x/y", true},
        {"**/x/y", "x/y/x", false},
        {"[ab].c", "b.c", true},
        {"?.c", "bb.c", false},
        {"**/**/a", "a", true},
        {"a/*/c", "a/b/c", true},
        {"a/*/c", "a/b/b/c", false},
        {".*", ".env", true},
        {"*", ".env", true},
        {"a/**/b/**/c", "a/b/b/c/b/c", true},
        {"a/**/b/c", "a/b/b/c/b", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (glob_match(cases[i].pattern, cases[i].path) != cases[i].match)
            fail_msg("%s against %s", cases[i].pattern, cases[i].path);
    bool star;
    assert_true(glob_may_enter("src/*/x.c", "src/a", &star));
    assert_false(star);
    assert_false(glob_may_enter("src/*/x.c", "lib", &star));
    assert_false(glob_may_enter("src/x.c", "src/x.c", &star));
    assert_true(glob_may_enter("src/**", "src/a/b/c", &star));
    assert_true(star);
}

/* ---- input files ---- */

static char folder[64];

static void put_file(const char *path, const char *data)
{
    char full[256];
    struct error err = ERROR_INIT;
    snprintf(full, sizeof full, "%s/%s", folder, path);
    char *slash = strrchr(full, '/');
    *slash = 0;
    assert_int_equal(mkdir_p(full, 0755, &err), 0);
    *slash = '/';
    assert_int_equal(file_write_atomic(full, data, strlen(data), 0644, &err), 0);
}

static int begin_files(void **state)
{
    begin(state);
    strcpy(folder, "/tmp/rhrun-test-plan-XXXXXX");
    assert_non_null(mkdtemp(folder));
    scene.spec.dir = folder;
    scene.spec.placement = PLACEMENT_HERE;
    scene.count = 1;
    put_file("src/a.c", "int a;");
    put_file("src/deep/b.c", "int b;");
    put_file("src/.git/config", "noise");
    put_file("other.txt", "x");
    return 0;
}

static int end_files(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    return end(state);
}

static const char *changed_since(const struct plan_step *old, const struct plan_step *now)
{
    return plan_changed_inputs(now, plan_inputs_json(old, scene.arena), scene.arena);
}

static void test_files(void **state)
{
    (void)state;
    scene.items[0].inputs = TEXTS("./src/**/*.c");
    const struct plan_step *first = &compile(NULL)->steps[0];
    assert_int_equal(first->input_count, 4); /* run, env X, two files */
    assert_string_equal(first->inputs[2].name, "inputs src/a.c");
    assert_string_equal(first->inputs[3].name, "inputs src/deep/b.c");
    assert_string_equal(first->inputs[2].value, /* printf 'int a;' | sha256sum */
                        "sha256:68ee7ca0e099b2c45f613f363e4911edbf3f696a3569f0ca666d433db8503c90");
}

static void test_files_change(void **state)
{
    (void)state;
    scene.items[0].inputs = TEXTS("src");
    const struct plan_step *first = &compile(NULL)->steps[0];
    assert_string_equal(compile(NULL)->steps[0].key, first->key);
    put_file("other.txt", "not an input");
    put_file("src/.git/config", "more noise");
    assert_string_equal(compile(NULL)->steps[0].key, first->key);

    put_file("src/a.c", "int a2;");
    const struct plan_step *second = &compile(NULL)->steps[0];
    assert_string_not_equal(second->key, first->key);
    assert_string_equal(changed_since(first, second), "inputs src/a.c");

    put_file("src/new.c", "");
    assert_string_equal(changed_since(second, &compile(NULL)->steps[0]), "inputs src/new.c");
}

static void test_files_never_stale_by_itself(void **state)
{
    (void)state;
    scene.items[0].inputs = TEXTS("**");
    scene.items[0].creates = text("./out");
    const struct plan_step *first = &compile(NULL)->steps[0];
    put_file("out/result", "made by the step");
    put_file("job.yaml", "the spec");
    assert_string_equal(compile(NULL)->steps[0].key, first->key);
    put_file("outside", "an input");
    assert_string_not_equal(compile(NULL)->steps[0].key, first->key);
}

static void test_files_none(void **state)
{
    (void)state;
    scene.items[0].inputs = TEXTS("nothing/**");
    const struct plan_step *s = &compile(NULL)->steps[0];
    assert_string_equal(s->inputs[2].name, "inputs nothing/**");
    assert_string_equal(s->inputs[2].value, "none");
    assert_string_equal(s->hint, "the input pattern \"nothing/**\" matches no file");
    scene.items[0].inputs = TEXTS("a/../../x");
    refuse(NULL, "step \"a\": the input pattern \"a/../../x\" leaves the working directory");
}

static void test_files_many(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i <= PLAN_FILES_NAMED; i++) {
        snprintf(name, sizeof name, "data/%d", i);
        put_file(name, "x");
    }
    scene.items[0].inputs = TEXTS("data/**", "src/*.c");
    const struct plan_step *first = &compile(NULL)->steps[0];
    assert_int_equal(first->input_count, 4); /* one per pattern now */
    put_file("data/7", "y");
    assert_string_equal(changed_since(first, &compile(NULL)->steps[0]), "inputs data/**");
}

static void test_files_of_a_tree(void **state)
{
    (void)state;
    static struct tree_file files[] = {
        {.path = "data/x", .oid = {0xab}}, {.path = "src/a.c", .oid = {1}}, {.path = "src/b.h"}};
    static const struct tree tree = {.files = files, .count = ARRAY_LEN(files)};
    scene.sources.workdir = &tree; /* not the files in the spec's folder */
    scene.items[0].inputs = TEXTS("**/*.c", "data");
    const struct plan_step *s = &compile(NULL)->steps[0];
    assert_int_equal(s->input_count, 4);
    assert_string_equal(s->inputs[2].name, "inputs data/x");
    assert_string_equal(s->inputs[2].value, "ab00000000000000000000000000000000000000");
    assert_string_equal(s->inputs[3].name, "inputs src/a.c");
}

/* Files that building a package leaves behind do not change it. */
static void test_sources(void **state)
{
    (void)state;
    scene.sources_input = true;
    const struct plan_step *first = &compile(NULL)->steps[0];
    assert_int_equal(first->input_count, 3);
    put_file("build/lib/a.py", "x");
    put_file("src/job.egg-info/PKG-INFO", "x");
    put_file("src/__pycache__/a.pyc", "x");
    assert_string_equal(compile(NULL)->steps[0].key, first->key);
    put_file("src/c.c", "x");
    assert_string_equal(changed_since(first, &compile(NULL)->steps[0]), "sources");
}

/* ---- keys ---- */

/* The names of a step's edges: "a c". */
static const char *edges(const struct plan_step *s)
{
    struct buf b = {0};
    for (size_t i = 0; i < s->input_count; i++)
        if (str_starts(s->inputs[i].name, "after "))
            buf_printf(&b, "%s%s", b.len ? " " : "", s->inputs[i].name + strlen("after "));
    const char *ret = arena_strdup(scene.arena, b.data ? b.data : "");
    buf_free(&b);
    return ret;
}

static void test_fewest_edges(void **state)
{
    (void)state;
    scene.count = 4;
    scene.edges[2] = AFTER_NOTHING;
    scene.edges[3] = AFTER_ALL;
    assert_string_equal(edges(&compile(NULL)->steps[3]), "b c"); /* b comes after a, and stands for it */
    scene.edges[1] = AFTER_NOTHING;
    assert_string_equal(edges(&compile(NULL)->steps[3]), "a b c");
    scene.edges[2] = AFTER_ALL;
    struct plan *before = compile(NULL);
    assert_string_equal(edges(&before->steps[3]), "c");
    scene.values[0] = "make all"; /* it reaches through */
    assert_string_not_equal(compile(NULL)->steps[3].key, before->steps[3].key);
}

static void test_keys(void **state)
{
    (void)state;
    struct plan *first = compile(NULL);
    scene.reversed = true;
    struct plan *second = compile(NULL);
    assert_string_equal(first->hash, second->hash); /* the order of inputs does not count */
    scene.items[0].name = "renamed";
    struct plan *renamed = compile(NULL);
    assert_string_equal(first->steps[1].key, renamed->steps[1].key);
    assert_string_equal(first->hash, renamed->hash);
    scene.values[0] = "make all";
    struct plan *third = compile(NULL);
    for (size_t i = 0; i < 3; i++) /* keys chain */
        assert_string_not_equal(first->steps[i].key, third->steps[i].key);
    assert_string_not_equal(first->hash, third->hash);
    scene.values[0] = "make";
    scene.values[1] = "make it";
    struct plan *fourth = compile(NULL);
    assert_string_equal(first->steps[0].key, fourth->steps[0].key);
    assert_string_not_equal(first->steps[1].key, fourth->steps[1].key);
    scene.spec.nnodes = 3;
    assert_string_not_equal(compile(NULL)->hash, fourth->hash);
}

static void test_long_values(void **state)
{
    (void)state;
    scene.values[0] = "0123456789012345678901234567890123456789012345678901234567890123"; /* 64 */
    assert_string_equal(compile(NULL)->steps[0].inputs[0].value, scene.values[0]);
    scene.values[0] = "01234567890123456789012345678901234567890123456789012345678901234"; /* 65 */
    const char *value = compile(NULL)->steps[0].inputs[0].value;
    assert_true(str_starts(value, "sha256:"));
    assert_int_equal(strlen(value), 71);
}

static void test_names(void **state)
{
    (void)state;
    scene.items[1].name = "a";
    refuse(NULL, "two steps are named \"a\"");
    scene.items[1].name = "launch";
    refuse(NULL, "two steps are named \"launch\"");
}

/* ---- ranks ---- */

static void test_ranks(void **state)
{
    (void)state;
    scene.spec.nnodes = 3;
    scene.spec.distributed = (struct spec_distributed){.present = true, .nnodes = 3, .nproc = {NPROC_AUTO, 0}};
    scene.wishes[1].has_nproc = true;
    scene.wishes[1].nproc = (struct spec_nproc){NPROC_COUNT, 1};
    struct plan *plan = compile(NULL);
    assert_false(plan->ranks_known);
    assert_int_equal(plan->nproc[1], 1);
    const struct plan_facts facts[] = {{true, 3, 0}, {true, 64, 8}, {true, 64, 2}};
    struct error err = ERROR_INIT;
    assert_int_equal(plan_bind_ranks(plan, facts, scene.arena, &err), 0);
    assert_true(plan->ranks_known);
    static const struct plan_rank want[] = {{0, 0, 0, 0, 0}, {1, 0, 1, 0, 1}, {2, 0, 2, 0, 2},
                                            {3, 1, 0, 0, 3}, {4, 2, 0, 0, 4}, {5, 2, 1, 0, 5}};
    assert_int_equal(plan->world_size, ARRAY_LEN(want));
    assert_memory_equal(plan->ranks, want, sizeof want);
    struct buf text_of = {0};
    plan_format(plan, NULL, false, false, &text_of);
    assert_non_null(strstr(text_of.data, "  6 ranks\n    rank 0-2 on node 0 (h0)\n    rank 3 on node 1 (h1)\n"
                                         "    rank 4-5 on node 2 (h2)\n"));
    buf_free(&text_of);
}

static void test_ranks_refused(void **state)
{
    (void)state;
    const struct plan_facts facts[] = {{true, 4, 2}, {true, 4, 0}};
    scene.spec.distributed = (struct spec_distributed){.present = true, .nnodes = 2, .nproc = {NPROC_GPU, 0}};
    refuse(facts, "node \"h1\": nproc_per_node is gpu, and no GPU was found there");
    scene.spec.distributed.nproc = (struct spec_nproc){NPROC_COUNT, 5000};
    refuse(NULL, "node \"h0\": 5000 workers, but 1 to 4096 are possible on a node");
    scene.spec.nnodes = 9;
    refuse(NULL, "the job needs 9 nodes, and the spec names 8 hosts");
}

static void test_no_ranks(void **state)
{
    (void)state;
    struct plan *plan = compile(NULL);
    assert_true(plan->ranks_known);
    assert_null(plan->ranks);
    assert_int_equal(plan->nproc[0], 1);
    assert_int_equal(plan->nproc[1], 0);
}

/* ---- verdicts ---- */

static struct plan_record recorded(const struct plan_step *s)
{
    return (struct plan_record){.present = true,
                                .ok = true,
                                .verified = true,
                                .key = s->key,
                                .inputs = plan_inputs_json(s, scene.arena),
                                .when = "2026-11-20 14:02"};
}

static struct plan_record record_set[16];
static struct plan_decision decisions[16];

/* All steps recorded as done, except that the launch is to be run. */
static struct plan *decide_begin(void)
{
    struct plan *plan = compile(NULL);
    memset(record_set, 0, sizeof record_set);
    for (size_t i = 0; i + 1 < plan->step_count; i++)
        for (uint32_t n = 0; n < plan->node_count; n++)
            record_set[i * plan->node_count + n] = recorded(&plan->steps[i]);
    return plan;
}

static void expect(const struct plan *plan, size_t at, enum verdict verdict, const char *reason)
{
    plan_decide(plan, record_set, true, scene.arena, decisions);
    if (decisions[at].verdict != verdict || !str_eq(decisions[at].reason, reason))
        fail_msg("cell %zu: %s, %s", at, verdict_name(decisions[at].verdict),
                 decisions[at].reason ? decisions[at].reason : "no reason");
}

static void test_decide_one(void **state)
{
    (void)state;
    struct plan *plan = decide_begin();
    struct plan_record *r = &record_set[1], good = *r;
    expect(plan, 1, VERDICT_KEEP, NULL);
    r->present = false;
    expect(plan, 1, VERDICT_RUN, NULL);
    *r = good;
    r->voided = true;
    r->why_not = "voided by --fresh";
    expect(plan, 1, VERDICT_AGAIN, "voided by --fresh");
    *r = good;
    r->unknown = true;
    r->ok = false;
    expect(plan, 1, VERDICT_AGAIN, "its outcome is unknown (2026-11-20 14:02)");
    *r = good;
    r->ok = false;
    r->ended = "exit status 2";
    expect(plan, 1, VERDICT_AGAIN, "ended with exit status 2 (2026-11-20 14:02)");
    *r = good;
    r->contradicted = true;
    r->why_not = "the node is a new machine";
    expect(plan, 1, VERDICT_AGAIN, "the node is a new machine");
    expect(plan, 3, VERDICT_KEEP, NULL); /* same key: an earlier step that runs again is no reason */
    *r = good;
    r->verified = false;
    expect(plan, 1, VERDICT_DEPENDS, "the node could not be asked");
    *r = good;
    r->live = true;
    r->ok = false;
    expect(plan, 1, VERDICT_KEEP, "it is running now");
}

/* For every record: a step that runs again has a reason, and a step that is known to have run is never said to run for
 * the first time. */
static void test_every_verdict_has_its_reason(void **state)
{
    (void)state;
    struct plan *plan = decide_begin();
    size_t cells = plan->step_count * plan->node_count, seen[VERDICT_NOT_NEEDED + 1] = {0};
    uint32_t dice = 1;
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < cells; i++) {
            const struct plan_step *s = &plan->steps[i / plan->node_count];
            struct plan_record r = recorded(s);
            uint32_t d = dice = dice * 1664525u + 1013904223u;
            r.present = d >> 8 & 3;
            r.ok = d >> 10 & 3;
            r.unknown = !r.ok && (d >> 12 & 1);
            r.live = !r.ok && !r.unknown && (d >> 13 & 1);
            r.voided = (d >> 14 & 15) == 0;
            r.verified = d >> 18 & 3;
            r.unasked = (d >> 20 & 7) == 0;
            r.contradicted = !r.verified && (d >> 23 & 1);
            r.why_not = d >> 24 & 1 ? "why not" : NULL;
            r.key = (d >> 25 & 3) ? s->key : "another";
            r.inputs = d >> 27 & 1 ? r.inputs : d >> 28 & 1 ? "{}" : NULL;
            r.when = d >> 29 & 1 ? r.when : NULL;
            r.fetch = (d >> 30 & 3) == 0;
            record_set[i] = r;
        }
        plan_decide(plan, record_set, round & 1, scene.arena, decisions);
        for (size_t i = 0; i < cells; i++) {
            const struct plan_decision *out = &decisions[i];
            bool needs =
                out->verdict == VERDICT_AGAIN || out->verdict == VERDICT_VERIFY || out->verdict == VERDICT_DEPENDS;
            seen[out->verdict]++;
            if (needs && (!out->reason || !*out->reason))
                fail_msg("round %d, cell %zu: %s without a reason", round, i, verdict_name(out->verdict));
            if (out->verdict == VERDICT_RUN && record_set[i].present)
                fail_msg("round %d, cell %zu has run before", round, i);
        }
    }
    assert_true(seen[VERDICT_KEEP] && seen[VERDICT_RUN] && seen[VERDICT_AGAIN] && seen[VERDICT_DEPENDS] &&
                seen[VERDICT_NOT_NEEDED]);
}

static void test_decide_changes(void **state)
{
    (void)state;
    struct plan *old = decide_begin();
    (void)old;
    scene.values[0] = "make all";
    struct plan *plan = compile(NULL);
    expect(plan, 0, VERDICT_AGAIN, "`run` changed");
    expect(plan, 2, VERDICT_AGAIN, "after a (which runs again)");
    record_set[0] = recorded(&plan->steps[0]); /* a ran again meanwhile on node 0 */
    expect(plan, 0, VERDICT_KEEP, NULL);
    expect(plan, 2, VERDICT_AGAIN, "after a, which changed");
    record_set[1].inputs = NULL;
    expect(plan, 1, VERDICT_AGAIN, "its inputs changed");
}

static void test_change_reasons(void **state)
{
    (void)state;
    const struct plan_step *s = &compile(NULL)->steps[1]; /* run, env X, after a */
    const char *after, *edge = s->inputs[2].value;
    char json[512];
    static const struct {
        const char *format, *reason, *after, *names;
    } cases[] = {
        {"{\"run\":\"make\",\"env X\":\"2\",\"after a\":\"%s\"}", "env X changed", NULL, "env X"},
        {"{\"run\":\"old\",\"env X\":\"2\",\"after a\":\"\"}", "`run` and env X changed", NULL, "run, env X, after a"},
        {"{\"run\":\"make\",\"after a\":\"%s\"}", "env X is new", NULL, "env X"},
        {"{\"run\":\"make\",\"env X\":\"1\",\"env Y\":\"1\",\"after a\":\"%s\"}", "env Y is gone", NULL, "env Y"},
        {"{\"run\":\"make\",\"env X\":\"1\",\"after old\":\"%s\"}", "its inputs changed", NULL, NULL},
        {"{\"run\":\"make\",\"env X\":\"1\",\"after a\":\"x\"}", "the steps before it changed", "a", "after a"},
        {"{\"p\":\"\",\"q\":\"\",\"env X\":\"\",\"after a\":\"%s\"}", "`run`, env X, `p` and 1 more changed", NULL,
         "run, env X, p, q"},
        {"not json", "its inputs changed", NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *hole = strstr(cases[i].format, "%s");
        if (hole)
            snprintf(json, sizeof json, "%.*s%s%s", (int)(hole - cases[i].format), cases[i].format, edge, hole + 2);
        else
            snprintf(json, sizeof json, "%s", cases[i].format);
        assert_string_equal(plan_change_reason(s, json, &after, scene.arena), cases[i].reason);
        assert_true(str_eq(after, cases[i].after));
        assert_true(str_eq(plan_changed_inputs(s, json, scene.arena), cases[i].names));
    }
}

static void test_decide_launch(void **state)
{
    (void)state;
    struct plan *plan = decide_begin();
    record_set[4] = recorded(&plan->steps[2]);
    record_set[4].verified = false; /* its result counts even when the node is gone */
    expect(plan, 4, VERDICT_AGAIN, "it runs again on \"h1\"");
    expect(plan, 5, VERDICT_RUN, NULL);
    record_set[5] = record_set[4];
    record_set[0].contradicted = true;
    record_set[1].present = false;
    record_set[2].verified = false;
    expect(plan, 4, VERDICT_KEEP, NULL);
    expect(plan, 0, VERDICT_NOT_NEEDED, NULL);
    expect(plan, 1, VERDICT_NOT_NEEDED, NULL);
    expect(plan, 2, VERDICT_NOT_NEEDED, NULL);
    expect(plan, 3, VERDICT_KEEP, NULL);
    record_set[5].live = true; /* not over: missing outputs are still missing */
    record_set[5].ok = false;
    expect(plan, 1, VERDICT_RUN, NULL);
}

static void test_node_set(void **state)
{
    (void)state;
    scene.spec.nnodes = 8;
    struct plan *plan = compile(NULL);
    static const struct {
        const char *bits, *want;
    } cases[] = {
        {"11111111", "0-7"}, {"11110001", "0-3,7"}, {"00100000", "h2"}, {"10101000", "0,2,4"}, {"00000000", ""}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool on[8];
        struct buf b = {0};
        for (size_t n = 0; n < 8; n++)
            on[n] = cases[i].bits[n] == '1';
        plan_node_set(plan, on, &b);
        assert_string_equal(b.data ? b.data : "", cases[i].want);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glob),
        cmocka_unit_test_setup_teardown(test_files, begin_files, end_files),
        cmocka_unit_test_setup_teardown(test_files_change, begin_files, end_files),
        cmocka_unit_test_setup_teardown(test_files_never_stale_by_itself, begin_files, end_files),
        cmocka_unit_test_setup_teardown(test_files_none, begin_files, end_files),
        cmocka_unit_test_setup_teardown(test_files_many, begin_files, end_files),
        cmocka_unit_test_setup_teardown(test_files_of_a_tree, begin_files, end_files),
        cmocka_unit_test_setup_teardown(test_sources, begin_files, end_files),
        cmocka_unit_test_setup_teardown(test_fewest_edges, begin, end),
        cmocka_unit_test_setup_teardown(test_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_long_values, begin, end),
        cmocka_unit_test_setup_teardown(test_names, begin, end),
        cmocka_unit_test_setup_teardown(test_ranks, begin, end),
        cmocka_unit_test_setup_teardown(test_ranks_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_no_ranks, begin, end),
        cmocka_unit_test_setup_teardown(test_decide_one, begin, end),
        cmocka_unit_test_setup_teardown(test_every_verdict_has_its_reason, begin, end),
        cmocka_unit_test_setup_teardown(test_decide_changes, begin, end),
        cmocka_unit_test_setup_teardown(test_change_reasons, begin, end),
        cmocka_unit_test_setup_teardown(test_decide_launch, begin, end),
        cmocka_unit_test_setup_teardown(test_node_set, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
