/* step: the kinds' inputs and the exact RUN messages that they build, out of one spec that uses all of them. */
#include "rhrun/schema.h"
#include "rhrun/step.h"
#include "plan_spec.h"
#include "run_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct scene {
    struct arena *arena;
    struct spec spec;
    struct spec_host hosts[3];
    struct spec_node wishes[3];
    struct spec_param params[1];
    struct spec_env env[3], entry_env[3];
    struct spec_step items[3];
    struct spec_secret secrets[2];
} scene;

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    struct spec *s = &scene.spec;
    scene.arena = arena_create();
    scene.hosts[0] = (struct spec_host){.name = "gpu1"};
    scene.hosts[1] = (struct spec_host){.name = "gpu2"};
    scene.hosts[2] = (struct spec_host){.name = "gpu3"};
    scene.params[0] = (struct spec_param){.name = "lr", .type = SPEC_NUMBER, .value = "1e-3"};
    scene.env[0] = (struct spec_env){.name = "HF_HOME", .value = text("/data/hf")};
    scene.env[1] =
        (struct spec_env){.name = "WANDB_PROJECT", .value = text("from the ${{ caller"), .from_caller = true};
    scene.env[2] = (struct spec_env){.name = "DEBUG", .value = text("0")};
    scene.entry_env[0] = (struct spec_env){.name = "DEBUG", .value = text("1")};
    scene.entry_env[1] = (struct spec_env){.name = "SEED", .value = text("${{ rank + 100 }}")};
    scene.entry_env[2] = (struct spec_env){.name = "WHERE", .value = text("${{ node.name }}")};
    scene.items[0] = (struct spec_step){.name = "deps",
                                        .run = text("pip install -r requirements.txt\necho done"),
                                        .creates = text("deps.ok"),
                                        .retry_times = 2,
                                        .retry_backoff_ms = 500,
                                        .timeout_ms = 60000};
    scene.items[1] =
        (struct spec_step){.name = "kernels", .run = text("make -C kernels"), .inputs = TEXTS("kernels/**")};
    scene.items[2] = (struct spec_step){.name = "data", .run = text("./fetch ${{ params.lr }}"), .on = ON_FIRST};
    scene.secrets[0] = (struct spec_secret){.name = "HF_TOKEN", .value = "s3cret"};
    scene.secrets[1] = (struct spec_secret){.name = "OTHER", .value = "geheim", .to = "RENAMED"};
    *s = (struct spec){.path = "job.yaml",
                       .dir = "/home/me/job",
                       .name = "train",
                       .variant = "0123456789abcdef",
                       .placement = PLACEMENT_HOSTS,
                       .hosts = scene.hosts,
                       .host_count = 3,
                       .nodes = scene.wishes,
                       .node_count = 3,
                       .params = scene.params,
                       .param_count = 1,
                       .env = scene.env,
                       .env_count = 3,
                       .setup = scene.items,
                       .setup_count = 3,
                       .nnodes = 2,
                       .secrets = scene.secrets,
                       .secret_count = 2,
                       .activate = text("module load cuda/12")};
    s->distributed = (struct spec_distributed){
        .present = true, .nnodes = 2, .nproc = {NPROC_COUNT, 2}, .launcher = LAUNCHER_NATIVE, .max_restarts = 3};
    s->entrypoint = (struct spec_entrypoint){.kind = ENTRY_SCRIPT,
                                             .target = text("train.py"),
                                             .args = TEXTS("--lr", "${{ params.lr }}", "--out", "out dir/${{ rank }}"),
                                             .env = scene.entry_env,
                                             .env_count = 3,
                                             .timeout_ms = 3600000,
                                             .prolog = text("date"),
                                             .epilog = text("sync")};
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(scene.arena);
    return 0;
}

static struct plan *compile(void)
{
    struct plan *plan = NULL;
    struct error err = ERROR_INIT;
    if (plan_compile(&scene.spec, roster_create(&scene.spec, scene.arena), step_kinds, NULL, NULL, scene.arena, &plan,
                     &err) < 0)
        fail_msg("%s", err.text);
    return plan;
}

static const struct plan_step *step(const struct plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (str_eq(plan->steps[i].name, name))
            return &plan->steps[i];
    fail_msg("no step %s", name);
    return NULL;
}

/* ---- building, and the message as text ---- */

static const char *as_text(const struct wire_run *r)
{
    return run_text(scene.arena, r);
}

static struct wire_facts facts = {.python = (char *)"/usr/bin/python3.11", .work_dir = (char *)"/root/.rhrun/w"};

static struct step_bind bind_to(uint32_t node)
{
    static struct step_node nodes[3];
    static const char *const addresses[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
    for (size_t i = 0; i < 3; i++)
        nodes[i] = (struct step_node){&facts, scene.hosts[i].name, addresses[i]};
    return (struct step_bind){.spec = &scene.spec,
                              .node = node,
                              .nodes = nodes,
                              .run_id = "00aa00aa00aa00aa",
                              .generation = 4,
                              .restart_count = 1,
                              .master_address = "10.0.0.1",
                              .master_port = 29500,
                              .secrets = scene.secrets,
                              .secret_count = 2};
}

static struct wire_run build(const char *name, uint32_t node)
{
    struct wire_run run;
    struct error err = ERROR_INIT;
    const struct plan *plan = compile();
    struct step_bind bind = bind_to(node);
    if (step_build(plan, step(plan, name), &bind, scene.arena, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static void refuse(const char *name, const char *want)
{
    struct wire_run run;
    struct error err = ERROR_INIT;
    const struct plan *plan = compile();
    struct step_bind bind = bind_to(0);
    assert_int_equal(step_build(plan, step(plan, name), &bind, scene.arena, &run, &err), -1);
    assert_string_equal(err.text, want);
}

static void test_launch_two_by_two(void **state)
{
    (void)state;
    struct wire_run first = build("launch", 0), second = build("launch", 1);
    assert_true(golden("launch-2x2/node-0.txt", as_text(&first)));
    assert_true(golden("launch-2x2/node-1.txt", as_text(&second)));
}

static void test_launch_unequal(void **state)
{
    (void)state;
    scene.wishes[0].has_nproc = true;
    scene.wishes[0].nproc = (struct spec_nproc){NPROC_COUNT, 3};
    struct wire_run run = build("launch", 1);
    assert_int_equal(run.worker_count, 2);
    assert_int_equal(run.workers[1].rank, 4);
    assert_int_equal(run.workers[1].local_rank, 1);
    assert_non_null(strstr(as_text(&run), "env WORLD_SIZE=5\n"));
}

static void test_set_up(void **state)
{
    (void)state;
    struct wire_run activate = build("activate", 0), deps = build("deps", 1), prolog = build("prolog", 0);
    assert_true(golden("set-up/activate.txt", as_text(&activate)));
    assert_true(golden("set-up/deps.txt", as_text(&deps)));
    assert_true(golden("set-up/prolog.txt", as_text(&prolog)));
}

static void test_plain(void **state)
{
    (void)state;
    memset(&scene.spec.distributed, 0, sizeof scene.spec.distributed);
    scene.spec.activate = text(NULL);
    scene.spec.entrypoint.env_count = 1;
    scene.spec.entrypoint.args = TEXTS("a b", "$HOME");
    scene.spec.entrypoint.cwd = text("sub");
    struct wire_run run = build("launch", 0);
    assert_true(golden("plain/script.txt", as_text(&run)));
    scene.spec.entrypoint.kind = ENTRY_RUN;
    scene.spec.entrypoint.target = text("echo \"$1\"");
    run = build("launch", 0);
    assert_true(golden("plain/run.txt", as_text(&run)));
    scene.spec.entrypoint.kind = ENTRY_MODULE;
    scene.spec.entrypoint.target = text("pkg.main");
    assert_string_equal(build("launch", 0).workers[0].argv.items[2], "-m");
    scene.spec.entrypoint.kind = ENTRY_COMMAND;
    scene.spec.entrypoint.command = TEXTS("./tool", "-x");
    run = build("launch", 0);
    assert_int_equal(run.workers[0].argv.count, 4);
    assert_string_equal(run.workers[0].argv.items[0], "./tool");
    assert_string_equal(run.workers[0].argv.items[3], "$HOME");
    assert_int_equal(run.workers[0].shell, 0);
}

static void test_python_of_the_job(void **state)
{
    (void)state;
    scene.spec.activate = text(NULL);
    assert_string_equal(build("launch", 0).workers[0].argv.items[0], "/usr/bin/python3.11");
    scene.env[2] = (struct spec_env){.name = "PATH", .value = text("/venv/bin:/usr/bin")};
    assert_string_equal(build("launch", 0).workers[0].argv.items[0], "python3");
}

static void test_refused(void **state)
{
    (void)state;
    scene.spec.entrypoint.cwd = text("out/${{ rank }}");
    refuse("launch", "step \"launch\": line 0: \"out/${{ rank }}\" uses a rank, but there is none here");
    scene.spec.entrypoint.cwd = text(NULL);
    memset(&scene.spec.distributed, 0, sizeof scene.spec.distributed);
    refuse("launch", "step \"launch\": job.yaml: the entrypoint uses a rank, but without `distributed` there is none");
}

static void test_defaults_yield(void **state)
{
    (void)state;
    scene.env[2] = (struct spec_env){.name = "OMP_NUM_THREADS", .value = text("8")};
    scene.entry_env[0] = (struct spec_env){.name = "PYTHONUNBUFFERED", .value = text("")};
    const struct wire_strings defaults = build("launch", 0).env_default;
    assert_int_equal(defaults.count, 1);
    assert_string_equal(defaults.items[0], "TORCH_NCCL_ASYNC_ERROR_HANDLING=1");
}

/* ---- keys ---- */

static void test_golden_keys(void **state)
{
    (void)state;
    struct buf b = {0};
    const struct plan *plan = compile();
    buf_printf(&b, "plan %s\n", plan->hash);
    for (size_t i = 0; i < plan->step_count; i++)
        buf_printf(&b, "%s %s\n  %s\n", plan->steps[i].name, plan->steps[i].key,
                   plan_inputs_json(&plan->steps[i], scene.arena));
    assert_true(golden("keys/keys.txt", b.data));
    buf_free(&b);
}

/* Each change, the step that is checked, and the reason that must name (NULL: its key stays). */
static void test_each_input(void **state)
{
    (void)state;
    struct {
        const char *name, *want;
        struct spec_text *text;
        const char *value;
    } cases[] = {
        {"activate", "activate", &scene.spec.activate, "module load cuda/13"},
        {"activate", "env HF_HOME", &scene.env[0].value, "/elsewhere"},
        {"kernels", "env WANDB_PROJECT, after activate", &scene.env[1].value, "another"},
        {"deps", "run", &scene.items[0].run, "pip install torch"},
        {"deps", "creates", &scene.items[0].creates, "other.ok"},
        {"kernels", "run", &scene.items[1].run, "make"},
        {"data", "after deps", &scene.items[0].run, "pip install torch"},
        {"data", "after kernels", &scene.items[1].run, "make"},
        {"kernels", NULL, &scene.items[0].run, "pip install torch"},
        {"prolog", "prolog", &scene.spec.entrypoint.prolog, "uptime"},
        {"launch", "after prolog", &scene.spec.entrypoint.prolog, "uptime"},
        {"launch", "script", &scene.spec.entrypoint.target, "other.py"},
        {"launch", "args", &scene.spec.entrypoint.args.items[3], "elsewhere"},
        {"launch", "entrypoint.env SEED", &scene.entry_env[1].value, "${{ rank + 200 }}"},
        {"launch", "cwd", &scene.spec.entrypoint.cwd, "sub"},
        {"deps", NULL, &scene.entry_env[1].value, "${{ rank + 200 }}"},
        {"epilog", "epilog", &scene.spec.entrypoint.epilog, "true"},
        {"launch", NULL, &scene.spec.entrypoint.epilog, "true"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct plan *before = compile();
        struct spec_text saved = *cases[i].text;
        *cases[i].text = text(cases[i].value);
        const struct plan *after = compile();
        *cases[i].text = saved;
        const struct plan_step *old = step(before, cases[i].name), *now = step(after, cases[i].name);
        const char *names = plan_changed_inputs(now, plan_inputs_json(old, scene.arena), scene.arena);
        if (!cases[i].want ? names != NULL : !names || !strstr(names, cases[i].want))
            fail_msg("case %zu, %s: %s", i, cases[i].name, names ? names : "no change");
        assert_int_equal(str_eq(old->key, now->key), cases[i].want == NULL);
        assert_string_not_equal(before->hash, after->hash);
    }
}

static void test_params_and_layout(void **state)
{
    (void)state;
    const struct plan *before = compile();
    scene.params[0].value = "1e-4";
    const struct plan *after = compile();
    assert_string_equal(step(before, "deps")->key, step(after, "deps")->key);
    assert_string_not_equal(step(before, "data")->key, step(after, "data")->key);
    const char *names =
        plan_changed_inputs(step(after, "launch"), plan_inputs_json(step(before, "launch"), scene.arena), scene.arena);
    assert_true(str_starts(names, "args, after "));
    scene.params[0].value = "1e-3";
    scene.wishes[1].has_nproc = true;
    scene.wishes[1].nproc = (struct spec_nproc){NPROC_COUNT, 1};
    after = compile();
    names =
        plan_changed_inputs(step(after, "launch"), plan_inputs_json(step(before, "launch"), scene.arena), scene.arena);
    assert_string_equal(names, "nproc_per_node");
}

static void test_not_in_keys(void **state)
{
    (void)state;
    const struct plan *before = compile();
    scene.spec.distributed.max_restarts = 9;
    scene.spec.distributed.master_port = 1234;
    scene.spec.entrypoint.timeout_ms = 1;
    scene.items[0].timeout_ms = 1;
    scene.items[0].retry_times = 9;
    scene.secrets[0].value = "another";
    scene.hosts[0].name = "somewhere-else";
    scene.hosts[0].port = 2222;
    assert_string_equal(before->hash, compile()->hash);
}

static void test_scopes(void **state)
{
    (void)state;
    const struct plan *plan = compile();
    assert_string_equal(step(plan, "deps")->scope, "0123456789abcdef");
    assert_string_equal(step(plan, "deps")->slot, "setup:deps");
    assert_string_equal(step(plan, "deps")->creates, "deps.ok");
    assert_int_equal(step(plan, "data")->on_count, 1);
    scene.spec.placement = PLACEMENT_HERE;
    scene.spec.dir = "/nonexistent";
    scene.spec.setup_count = 1;
    plan = compile();
    assert_string_equal(step(plan, "deps")->scope, "");
    assert_string_equal(step(plan, "launch")->scope, "0123456789abcdef");
    assert_string_equal(step(plan, "launch")->slot, "launch");
}

static void test_caller_values_are_digested(void **state)
{
    (void)state;
    assert_null(strstr(plan_inputs_json(step(compile(), "deps"), scene.arena), "from the"));
}

/* ---- a plan as people and programs see it ---- */

/* The JSON form conforms to its schema. */
static void check_schema(const char *json)
{
    struct doc *schema_doc, *doc = NULL;
    struct schema *schema = NULL;
    struct error err = ERROR_INIT;
    struct diagnostics faults = {0};
    struct buf said = {0};
    if (doc_load_file(SOURCE_ROOT "/schema/plan.schema.json", DOC_FORMAT_JSON, scene.arena, &schema_doc, &faults,
                      &err) < 0 ||
        schema_compile(schema_doc->root, scene.arena, &schema, &faults, &err) < 0 ||
        doc_load_text("plan", json, strlen(json), DOC_FORMAT_JSON, scene.arena, &doc, &faults, &err) < 0)
        fail_msg("%s", err.text);
    bool valid = schema_validate(schema, doc->root, &faults);
    diagnostics_format(&faults, false, &said);
    schema_destroy(schema);
    if (!valid)
        fail_msg("%s", said.data);
    buf_free(&said);
    diagnostics_free(&faults);
}

static void test_format(void **state)
{
    (void)state;
    struct plan_record records[16] = {0};
    struct plan_decision decisions[16];
    struct plan *before = compile();
    for (size_t i = 0; i < 4 * 2; i++)
        records[i] = (struct plan_record){.present = true,
                                          .ok = true,
                                          .verified = i != 5,
                                          .key = before->steps[i / 2].key,
                                          .inputs = plan_inputs_json(&before->steps[i / 2], scene.arena)};
    records[1].ok = false;
    records[1].ended = "exit status 2";
    records[1].when = "2026-11-20 14:02";
    scene.items[0].run = text("pip install torch \033[31m");
    struct plan *plan = compile();
    struct buf b = {0};
    plan_decide(plan, records, true, scene.arena, decisions);
    plan_format(plan, decisions, false, false, &b);
    assert_true(golden("format/plan.txt", b.data));
    buf_clear(&b);
    plan_format(plan, decisions, true, true, &b);
    assert_true(golden("format/plan-verbose.txt", b.data));
    buf_clear(&b);
    plan_format_json(plan, decisions, &b);
    assert_true(golden("format/plan.json", b.data));
    check_schema(b.data);
    buf_free(&b);
}

/* ---- from a spec file: tests/fixtures/plan/CASE/job.yaml to plan.txt ---- */

static void from_file(const char *name)
{
    char folder[512], file[128], before[512];
    struct error err = ERROR_INIT;
    struct diagnostics faults = {0};
    struct spec_overrides overrides = {0};
    struct spec *spec = NULL;
    struct plan *plan = NULL;
    struct buf b = {0};
    snprintf(folder, sizeof folder, "%s/plan/%s", FIXTURES, name);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    if (spec_load("job.yaml", &overrides, scene.arena, &spec, &faults, &err) < 0) {
        diagnostics_format(&faults, false, &b);
        fail_msg("%s\n%s", err.text, b.data ? b.data : "");
    }
    if (plan_compile(spec, roster_create(spec, scene.arena), step_kinds, NULL, NULL, scene.arena, &plan, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(chdir(before), 0);
    plan_format(plan, NULL, false, true, &b);
    snprintf(file, sizeof file, "%s/plan.txt", name);
    assert_true(golden(file, b.data));
    buf_clear(&b);
    plan_format_json(plan, NULL, &b);
    check_schema(b.data);
    buf_free(&b);
    diagnostics_free(&faults);
}

static void test_from_files(void **state)
{
    (void)state;
    from_file("two-nodes-local");
    from_file("hosts");
}

/* ---- kinds ---- */

static void test_kinds_say_what_they_are(void **state)
{
    (void)state;
    unsigned pythons = 0, workdirs = 0, restores = 0;
    for (size_t i = 0; step_kinds[i]; i++) {
        const struct step_kind *k = step_kinds[i];
        bool of_setup = k->brings || k->is_workdir || k->is_python || k->uses_python || k->makes_env || k->restores;
        assert_true(!of_setup || k->phase == PHASE_SETUP);
        assert_true(!k->is_python || (k->makes_env && !k->uses_python));
        assert_true(!k->uses_python || k->verify);
        assert_true((k->brings != BRINGS_TREE && !k->is_workdir && !k->restores) || k->sync);
        assert_true((k->brings != BRINGS_CLONE && k->brings != BRINGS_ANY) || k->build);
        assert_true(!k->is_workdir + !k->restores + !k->brings >= 2); /* at most one of them */
        assert_int_equal(step_is_around(k->name), k->phase == PHASE_PROLOG || k->phase == PHASE_EPILOG);
        assert_int_equal(step_is_launch(k->name), k->ranked);
        pythons += k->is_python;
        workdirs += k->is_workdir;
        restores += k->restores;
    }
    assert_int_equal(pythons, 1);
    assert_int_equal(workdirs, 1);
    assert_int_equal(restores, 1);
    assert_true(step_is_launch("launch:ps") && !step_is_launch("launches") && !step_is_around("prolog:ps"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_say_what_they_are),
        cmocka_unit_test_setup_teardown(test_launch_two_by_two, begin, end),
        cmocka_unit_test_setup_teardown(test_launch_unequal, begin, end),
        cmocka_unit_test_setup_teardown(test_set_up, begin, end),
        cmocka_unit_test_setup_teardown(test_plain, begin, end),
        cmocka_unit_test_setup_teardown(test_python_of_the_job, begin, end),
        cmocka_unit_test_setup_teardown(test_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_defaults_yield, begin, end),
        cmocka_unit_test_setup_teardown(test_golden_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_each_input, begin, end),
        cmocka_unit_test_setup_teardown(test_params_and_layout, begin, end),
        cmocka_unit_test_setup_teardown(test_not_in_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_scopes, begin, end),
        cmocka_unit_test_setup_teardown(test_caller_values_are_digested, begin, end),
        cmocka_unit_test_setup_teardown(test_format, begin, end),
        cmocka_unit_test_setup_teardown(test_from_files, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
