/* step: a role's own set-up, python, files and outputs: which steps exist, on which nodes, with which keys, and their
 * RUN messages. */
#include "rhrun/step.h"
#include "plan_spec.h"
#include "run_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "loaded_plan.h"

static struct arena *arena;
static char dir[] = "/tmp/test_step_role_setup.XXXXXX";

/* a and b have a set-up of their own and share node 1; c has the job's, on node 3. */
static const char job[] = "name: job\n"
                          "cluster: {hosts: [n0, n1, n2, n3]}\n"
                          "workdir: tree\n"
                          "packages: [one]\n"
                          "setup: [{name: make, run: make}]\n"
                          "files: [{from: data, to: data/}]\n"
                          "env: {X: top, Y: top}\n"
                          "roles:\n"
                          "  a:\n"
                          "    nnodes: 2\n"
                          "    nodes: [0, 1]\n"
                          "    packages: [two]\n"
                          "    env: {X: \"of a\", LATE: \"${{ role_rank }}\"}\n"
                          "    outputs: [{from: out/, to: got/, nodes: all}]\n"
                          "    ready: {command: check}\n"
                          "  b:\n"
                          "    nnodes: 2\n"
                          "    nodes: [1, 2]\n"
                          "    python: {interpreter: python3.11, system_site_packages: false}\n"
                          "    files: [{from: data, to: mine/}]\n"
                          "    after: {a: ready}\n"
                          "    setup: [{name: build, run: build, on: first}, {name: last, run: last, on: [2]}]\n"
                          "  c: {nodes: [3]}\n"
                          "  nobody: {count: 0, packages: [three], files: [{from: data, to: x/}], outputs: [x/]}\n"
                          "entrypoint: {run: go}\n";

static struct plan *compile(const char *text)
{
    return compile_spec(arena, load_text(arena, text), NULL);
}

static struct wire_run build(const struct plan *plan, const char *step, uint32_t node)
{
    static struct wire_facts facts = {.python = (char *)"/usr/bin/python3",
                                      .python_version = (char *)"3.12",
                                      .work_dir = (char *)"/w",
                                      .home = (char *)"/h",
                                      .base_dir = (char *)"/b"};
    struct step_node *nodes = arena_array(arena, plan->node_count, sizeof *nodes);
    for (uint32_t i = 0; i < plan->node_count; i++)
        nodes[i] = (struct step_node){.facts = &facts, .address = arena_printf(arena, "10.0.0.%u", i)};
    const struct step_bind bind = {.spec = plan->spec,
                                   .node = node,
                                   .nodes = nodes,
                                   .run_id = "00aa00aa00aa00aa",
                                   .generation = 1,
                                   .master_address = "10.0.0.0",
                                   .master_port = 29500,
                                   .work = "w"};
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    const struct plan_step *s = step_named(plan, step);
    assert_non_null(s);
    if (step_build(plan, s, &bind, arena, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static const char *value_of(const struct wire_strings *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (str_starts(list->items[i], name) && list->items[i][strlen(name)] == '=')
            return list->items[i] + strlen(name) + 1;
    return NULL;
}

static const char *venv_of(const struct plan *plan, const char *role)
{
    return arena_printf(arena, "/b/venv/%s%s%s", plan->spec->job_id, *role ? "." : "", role);
}

/* ---- which steps, where ---- */

static void test_steps(void **state)
{
    (void)state;
    const struct plan *plan = compile(job);
    struct buf text = {0};
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *s = &plan->steps[i];
        const char *comma = " < ";
        buf_printf(&text, "%s on ", s->name);
        plan_node_set(plan, s->on, &text);
        for (size_t k = 0; k < s->input_count; k++)
            if (str_starts(s->inputs[k].name, "after ")) {
                buf_printf(&text, "%s%s", comma, s->inputs[k].name + strlen("after "));
                comma = ", ";
            }
        buf_putc(&text, '\n');
    }
    assert_string_equal(text.data, "sync on 0-3\n"
                                   "files-1 on 0-1,3\n"
                                   "b:files-1 on 1-2\n"
                                   "python on n3\n"
                                   "a:python on 0-1\n"
                                   "b:python on 1-2\n"
                                   "pip:one on n3 < python\n"
                                   "make on n3 < sync, files-1, pip:one\n"
                                   "a:pip:two on 0-1 < a:python\n"
                                   "a:make on 0-1 < sync, files-1, a:pip:two\n"
                                   "b:pip:one on 1-2 < b:python\n"
                                   "b:build on n1 < sync, files-1, b:files-1, b:pip:one\n"
                                   "b:last on n2 < b:build\n"
                                   "launch on n3 < make, a:make, b:last\n"
                                   "launch:a on 0-1 < make, a:make, b:last\n"
                                   "launch:b on 1-2 < make, a:make, b:last\n"
                                   "ready:a on 0-1 < launch:a\n"
                                   "a:outputs-1 on 0-1\n");
    buf_free(&text);
    struct buf json = {0};
    plan_format_json(plan, NULL, &json);
    assert_non_null(strstr(json.data, "\"name\":\"a:pip:two\",\"kind\":\"pip\",\"phase\":\"setup\",\"role\":\"a\","));
    assert_null(strstr(json.data, "\"name\":\"make\",\"kind\":\"run\",\"phase\":\"setup\",\"role\""));
    buf_free(&json);
}

/* If the job's set-up is on a node of the role, the role's comes after it; all on one node here. */
static void test_shared_node(void **state)
{
    (void)state;
    const struct plan *plan =
        compile("setup: [{name: make, run: make}]\n"
                "roles: {a: {setup: [{name: x, run: x}]}, b: {setup: [{name: y, run: y}]}, c: {}}\n"
                "entrypoint: {run: go}\n");
    const struct plan_step *x = step_named(plan, "a:x"), *y = step_named(plan, "b:y");
    assert_string_equal(x->inputs[x->input_count - 1].name, "after make");
    assert_string_equal(y->inputs[y->input_count - 1].name, "after make");
    assert_true(step_named(plan, "make")->id < x->id && x->id < y->id);
}

/* ---- keys ---- */

/* The names of set-up steps whose keys an edit changes, and of new ones. */
static const char *changed(const char *from, const char *to)
{
    const struct plan *before = compile(job), *after = compile(text_with(arena, job, from, to));
    struct buf names = {0};
    for (size_t i = 0; i < after->step_count; i++) {
        const struct plan_step *is = &after->steps[i], *was = step_named(before, is->name);
        bool same = was && str_eq(was->key, is->key);
        if (is->kind->phase == PHASE_SETUP && !same)
            buf_printf(&names, "%s%s", names.len ? " " : "", is->name);
        if (is->kind->phase == PHASE_LAUNCH && same)
            fail_msg("%s: %s has the same key", to, is->name);
    }
    const char *ret = arena_strdup(arena, names.data ? names.data : "");
    buf_free(&names);
    return ret;
}

static void test_keys(void **state)
{
    (void)state;
    assert_string_equal(changed("[two]", "[two, four]"), "a:pip:two a:make");
    assert_string_equal(changed("X: \"of a\"", "X: other"), "a:make");
    assert_string_equal(changed("python3.11", "python3.12"), "b:python b:pip:one b:build b:last");
    assert_string_equal(changed("run: build", "run: built"), "b:build b:last");
    assert_string_equal(changed("to: mine/", "to: other/"), "b:files-1 b:build b:last");
    /* b has the top level's packages, a the top level's setup */
    assert_string_equal(changed("[one]", "[five]"), "pip:five make b:pip:five b:build b:last");
    assert_string_equal(changed("run: make", "run: made"), "make a:make");
    assert_string_equal(changed("Y: top", "Y: other"), "make a:make b:build b:last");
}

static void test_looks_again(void **state)
{
    (void)state;
    const struct plan *plan = compile("packages: [one]\n"
                                      "roles:\n"
                                      "  a: {packages: [two, three --pre]}\n"
                                      "  b: {python: {venv: false}, packages: [four]}\n"
                                      "  c: {python: {venv: false}, packages: [five]}\n"
                                      "  d: {}\n"
                                      "entrypoint: {run: go}\n");
    static const struct {
        const char *first, *later;
        bool again;
    } cases[] = {
        {"a:pip:two", "a:pip:three", true}, {"pip:one", "a:pip:two", false},    {"pip:one", "b:pip:four", false},
        {"a:pip:two", "b:pip:four", false}, {"b:pip:four", "c:pip:five", true}, /* the node's own */
        {"python", "a:pip:two", false},     {"python", "pip:one", true},        {"a:python", "a:pip:three", true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (plan_looks_again(plan, step_named(plan, cases[i].first), step_named(plan, cases[i].later)) !=
            cases[i].again)
            fail_msg("%s, then %s", cases[i].first, cases[i].later);
}

static void test_from(void **state)
{
    static const char *const cases[][2] = {{"a:pip:two", "a:pip:two a:make"},
                                           {"b:files-1", "b:files-1 b:python b:pip:one b:build b:last"},
                                           {"make", "make a:pip:two a:make b:pip:one b:build b:last"},
                                           {"launch:a", ""}};
    (void)state;
    const struct plan *plan = compile(job);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf names = {0};
        for (size_t k = 0; k < plan->step_count; k++)
            if (plan->steps[k].kind->phase == PHASE_SETUP && plan_is_from(plan, cases[i][0], &plan->steps[k]))
                buf_printf(&names, "%s%s", names.len ? " " : "", plan->steps[k].name);
        assert_string_equal(names.data ? names.data : "", cases[i][1]);
        assert_true(plan_is_from(plan, cases[i][0], step_named(plan, "launch:b")));
        buf_free(&names);
    }
    assert_false(plan_is_from(plan, "b:no", step_named(plan, "launch:b")));
}

/* ---- RUN messages ---- */

static void test_python(void **state)
{
    (void)state;
    const struct plan *plan = compile(job);
    struct wire_run run = build(plan, "python", 3);
    assert_string_equal(value_of(&run.env, "RHRUN_VENV"), venv_of(plan, ""));
    run = build(plan, "b:python", 1);
    assert_string_equal(run.slot, "setup:b:python");
    assert_string_equal(value_of(&run.env, "RHRUN_VENV"), venv_of(plan, "b"));
    assert_string_equal(value_of(&run.env, "RHRUN_PYTHON"), "python3.11");
    assert_string_equal(value_of(&run.env, "RHRUN_SYSTEM"), "0");
    run = build(plan, "a:pip:two", 1);
    assert_string_equal(run.workers[0].argv.items[0], arena_printf(arena, "%s/bin/python", venv_of(plan, "a")));
    assert_true(str_starts(run.creates, arena_printf(arena, "%s/.rhrun/", venv_of(plan, "a"))));
    static const struct {
        const char *step;
        uint32_t node;
        const char *venv;
    } cases[] = {{"make", 3, ""},      {"a:make", 1, "a"},   {"b:build", 1, "b"}, {"launch", 3, ""},
                 {"launch:a", 1, "a"}, {"launch:b", 1, "b"}, {"ready:a", 0, "a"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        run = build(plan, cases[i].step, cases[i].node);
        const char *venv = venv_of(plan, cases[i].venv);
        assert_string_equal(run.path_first, arena_printf(arena, "%s/bin", venv));
        assert_string_equal(value_of(&run.env, "VIRTUAL_ENV"), venv);
    }
}

static void test_env(void **state)
{
    (void)state;
    const struct plan *plan = compile(job);
    struct wire_run run = build(plan, "a:make", 0);
    assert_string_equal(value_of(&run.env, "X"), "of a");
    assert_string_equal(value_of(&run.env, "Y"), "top");
    assert_null(value_of(&run.env, "LATE"));
    run = build(plan, "make", 3);
    assert_string_equal(value_of(&run.env, "X"), "top");
    run = build(plan, "ready:a", 0);
    assert_string_equal(value_of(&run.env, "X"), "of a");
    run = build(plan, "launch:a", 1);
    assert_string_equal(value_of(&run.workers[0].env, "LATE"), "1");
    assert_string_equal(value_of(&run.workers[0].env, "RANK"), "1");
}

static void test_conda(void **state)
{
    (void)state;
    const struct plan *plan = compile("python: {conda: base}\n"
                                      "roles: {a: {python: {conda: other}}, b: {}}\n"
                                      "entrypoint: {run: go}\n");
    assert_string_equal(build(plan, "python", 0).env_out, "python");
    struct wire_run run = build(plan, "a:python", 0);
    assert_string_equal(run.env_out, "python.a");
    assert_string_equal(value_of(&run.env, "RHRUN_CONDA"), "other");
    assert_string_equal(build(plan, "launch:a", 0).env_in, "python.a");
    assert_string_equal(build(plan, "launch", 0).env_in, "python");
}

/* Around the launch on every node: the job's Python, or that of the first role if the node lacks the job's. */
static void test_prolog(void **state)
{
    (void)state;
    const struct plan *plan = compile(text_with(arena, job, "entrypoint: {", "entrypoint: {prolog: before, "));
    static const char *const venvs[] = {"a", "a", "b", ""};
    for (uint32_t n = 0; n < ARRAY_LEN(venvs); n++) {
        struct wire_run run = build(plan, "prolog", n);
        assert_string_equal(value_of(&run.env, "VIRTUAL_ENV"), venv_of(plan, venvs[n]));
        assert_string_equal(value_of(&run.env, "X"), "top");
    }
}

static const char *first_pattern(const struct plan *plan, const char *role)
{
    static struct wire_facts facts = {
        .python = (char *)"/usr/bin/python3", .python_version = (char *)"3.12", .base_dir = (char *)"/b"};
    const struct step_node nodes[] = {
        {&facts, NULL, NULL}, {&facts, NULL, NULL}, {&facts, NULL, NULL}, {&facts, NULL, NULL}};
    struct step_bind bind = {.spec = plan->spec, .nodes = nodes, .work = "w"};
    const char *patterns[STEP_PATTERNS_MAX];
    for (size_t i = 0; i < plan->spec->role_count; i++)
        if (str_eq(plan->spec->roles[i].name, role))
            bind.role = &plan->spec->roles[i];
    assert_true(step_package_patterns(plan, &bind, "torch", arena, patterns) > 0);
    return patterns[0];
}

static void test_package_patterns(void **state)
{
    static const char below[] = "/lib/python3.*/site-packages/torch-*.dist-info/METADATA";
    (void)state;
    const struct plan *plan = compile(job);
    assert_string_equal(first_pattern(plan, "a"), arena_printf(arena, "%s%s", venv_of(plan, "a"), below));
    assert_string_equal(first_pattern(plan, "c"), arena_printf(arena, "%s%s", venv_of(plan, ""), below));
}

/* ---- outputs ---- */

static void test_outputs(void **state)
{
    (void)state;
    const struct plan *plan = compile(text_with(arena, job, "nodes: all}]",
                                                "nodes: all}, {from: log, to: got/}, "
                                                "{from: x/, to: got/, restore: true}]"));
    const struct plan_step *all = step_named(plan, "a:outputs-1"), *first = step_named(plan, "a:outputs-2");
    struct step_fetch fetch = {0};
    struct error err = ERROR_INIT;
    const char *to = arena_printf(arena, "%s/got", plan->spec->dir);
    struct step_bind bind = {.spec = plan->spec, .node = 1, .work = "w"};
    assert_int_equal(all->kind->fetch(plan, all, &bind, arena, &fetch, &err), 0);
    assert_string_equal(fetch.to, arena_printf(arena, "%s/n1", to));
    assert_true(first->on[0] && first->on_count == 1);
    bind.node = 0;
    assert_int_equal(first->kind->fetch(plan, first, &bind, arena, &fetch, &err), 0);
    assert_string_equal(fetch.to, to);
    const struct plan_step *restore = step_named(plan, "a:restore-3");
    assert_true(restore->on[0] && restore->on_count == 1);
    plan = compile(text_with(arena, job, "nnodes: 2\n    nodes: [0, 1]", "nnodes: 1\n    nodes: [0]"));
    all = step_named(plan, "a:outputs-1");
    assert_int_equal(all->kind->fetch(plan, all, &bind, arena, &fetch, &err), 0);
    assert_string_equal(fetch.to, to); /* one node, no folder of its own */
}

static int begin(void **state)
{
    (void)state;
    arena = arena_create();
    return mkdtemp(dir) && chdir(dir) == 0 && system("mkdir tree && echo 1 >data") == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(arena);
    return folder_leave(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),   cmocka_unit_test(test_shared_node), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_python),  cmocka_unit_test(test_looks_again), cmocka_unit_test(test_env),
        cmocka_unit_test(test_conda),   cmocka_unit_test(test_prolog),      cmocka_unit_test(test_package_patterns),
        cmocka_unit_test(test_outputs), cmocka_unit_test(test_from),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
