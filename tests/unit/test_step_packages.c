/* step: files for a node and installations there: files, the venv, items of set-up, functions, outputs. */
#include "rhrun/step.h"
#include "plan_spec.h"
#include "run_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a job with a working directory, held in memory ---- */

struct content {
    const char *path, *text;
};
static struct scene {
    struct arena *arena;
    struct spec spec;
    struct spec_host hosts[2];
    struct spec_node wishes[2];
    struct spec_step items[4];
    struct spec_file files[1];
    struct spec_output outputs[2];
    struct spec_param params[2];
    struct content contents[16]; /* of the working directory; sorted */
    struct tree *trees[4];
    struct plan_sources sources;
} scene;

static struct tree *make_tree(const struct content *contents, size_t count)
{
    struct tree *t = arena_alloc(scene.arena, sizeof *t);
    struct tree_file *files = arena_array(scene.arena, count + 1, sizeof *files);
    struct buf all = {0};
    char hex[65];
    for (size_t i = 0; i < count; i++) {
        uint8_t digest[32];
        digest_sha256(contents[i].text, strlen(contents[i].text), digest);
        files[i] =
            (struct tree_file){.path = contents[i].path, .mode = TREE_MODE_FILE, .size = strlen(contents[i].text)};
        memcpy(files[i].oid, digest, TREE_OID_SIZE);
        t->bytes += files[i].size;
        buf_printf(&all, "%s %s\n", contents[i].path, contents[i].text);
    }
    digest_sha256_hex(all.data ? all.data : "", all.len, hex);
    memcpy(t->id, hex, TREE_ID_LEN);
    t->files = files;
    t->count = count;
    buf_free(&all);
    return t;
}

static size_t content_count(void)
{
    size_t n = 0;
    while (n < ARRAY_LEN(scene.contents) && scene.contents[n].path)
        n++;
    return n;
}

static void set_content(const char *path, const char *text)
{
    for (size_t i = 0; i < content_count(); i++)
        if (str_eq(scene.contents[i].path, path)) {
            scene.contents[i].text = text;
            return;
        }
    fail_msg("no %s", path);
}

static int read_content(void *arg, const char *path, struct buf *ret, struct error *err)
{
    (void)arg;
    for (size_t i = 0; i < content_count(); i++)
        if (str_eq(scene.contents[i].path, path)) {
            buf_puts(ret, scene.contents[i].text);
            return 0;
        }
    return error_set(err, ERROR_SPEC, "there is no file \"%s\" in the working directory", path);
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.arena = arena_create();
    static const struct content contents[] = {
        {"env.sh", "export A=1"},
        {"pkg/pyproject.toml", "[project]"},
        {"pkg/src/a.py", "a"},
        {"requirements.txt", "torch==2.1 # pinned\n-r sub/more.txt\n"},
        {"sub/more.txt", "-c limits.txt\nnumpy\n"},
        {"sub/limits.txt", "numpy<2\n"},
        {"train.py", "print(1)"},
    };
    memcpy(scene.contents, contents, sizeof contents);
    scene.hosts[0] = (struct spec_host){.name = "gpu1"};
    scene.hosts[1] = (struct spec_host){.name = "user@gpu2"};
    scene.params[0] = (struct spec_param){.name = "lr", .type = SPEC_NUMBER, .value = "1e-3"};
    scene.params[1] = (struct spec_param){.name = "tag", .type = SPEC_STRING, .value = "007"};
    scene.items[0] = (struct spec_step){.name = "requirements.txt",
                                        .item = ITEM_REQUIREMENTS,
                                        .file = text("requirements.txt"),
                                        .extra_index_url = TEXTS("https://index/simple")};
    scene.items[1] = (struct spec_step){
        .name = "pip-1", .item = ITEM_PIP, .packages = TEXTS("transformers[torch]>=4", "wandb"), .upgrade = true};
    scene.items[2] =
        (struct spec_step){.name = "kernels", .run = text("make"), .inputs = TEXTS("pkg/**"), .creates = text("k.so")};
    scene.items[3] = (struct spec_step){.name = "build", .run = text("./build")};
    scene.outputs[0] = (struct spec_output){
        .name = "outputs-1", .from = text("out/"), .to = text("results/"), .restore = true, .on = ON_ALL};
    scene.outputs[1] = (struct spec_output){
        .name = "outputs-2", .from = text("@base/log*"), .to = text("/tmp/${{ node.rank }}"), .on = ON_FIRST};
    scene.spec = (struct spec){.path = "job.yaml",
                               .dir = "/home/me/job",
                               .name = "train",
                               .job_id = "aaaabbbbccccdddd",
                               .variant = "0123456789abcdef",
                               .placement = PLACEMENT_HOSTS,
                               .hosts = scene.hosts,
                               .host_count = 2,
                               .nodes = scene.wishes,
                               .node_count = 2,
                               .params = scene.params,
                               .param_count = 2,
                               .setup = scene.items,
                               .setup_count = 4,
                               .outputs = scene.outputs,
                               .output_count = 2,
                               .nnodes = 2,
                               .has_workdir = true,
                               .activate = text("source ./env.sh; PATH=/x:$PATH")};
    scene.spec.python.system_site_packages = true;
    scene.spec.entrypoint = (struct spec_entrypoint){.kind = ENTRY_SCRIPT, .target = text("train.py")};
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(scene.arena);
    return 0;
}

static struct plan *try_compile(struct error *err)
{
    struct plan *plan = NULL;
    scene.sources.workdir = scene.spec.has_workdir ? make_tree(scene.contents, content_count()) : NULL;
    scene.sources.read = read_content;
    return plan_compile(&scene.spec, roster_create(&scene.spec, scene.arena), step_kinds, &scene.sources, NULL,
                        scene.arena, &plan, err) < 0
               ? NULL
               : plan;
}

static struct plan *compile(void)
{
    struct error err = ERROR_INIT;
    struct plan *plan = try_compile(&err);
    if (!plan)
        fail_msg("%s", err.text);
    return plan;
}

static const struct plan_step *find(const struct plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (str_eq(plan->steps[i].name, name))
            return &plan->steps[i];
    return NULL;
}

static const struct plan_step *step(const struct plan *plan, const char *name)
{
    const struct plan_step *s = find(plan, name);
    if (!s)
        fail_msg("no step %s", name);
    return s;
}

static struct wire_facts facts = {.base_dir = (char *)"/root/.rhrun",
                                  .home = (char *)"/root",
                                  .work_dir = (char *)"/root/.rhrun/work/aaaabbbbccccdddd/w1",
                                  .python = (char *)"/usr/bin/python3.11"};

static struct step_bind bind_to(uint32_t node)
{
    static struct step_node nodes[2];
    nodes[0] = (struct step_node){&facts, NULL, "10.0.0.1"};
    nodes[1] = (struct step_node){&facts, NULL, "10.0.0.2"};
    return (struct step_bind){.spec = &scene.spec,
                              .node = node,
                              .nodes = nodes,
                              .run_id = "00aa00aa00aa00aa",
                              .generation = 2,
                              .master_address = "10.0.0.1",
                              .work = "w1",
                              .result_dir = "/state/result"};
}

static const char *built(const struct plan *plan, const char *name, uint32_t node)
{
    struct wire_run run;
    struct error err = ERROR_INIT;
    struct step_bind bind = bind_to(node);
    if (step_build(plan, step(plan, name), &bind, scene.arena, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run_text(scene.arena, &run);
}

/* "the job's Python is VERSION-OR-PATTERN; torch may be at ...", as known for node 0. */
static const char *known(const char *given_version)
{
    const char *patterns[STEP_PATTERNS_MAX], *pattern, *text;
    const struct plan *plan = compile();
    struct step_bind bind = bind_to(0);
    facts.python_version = (char *)(uintptr_t)given_version;
    const char *version = step_python_version(plan, &bind, scene.arena, &pattern);
    text = arena_strdup(scene.arena, version ? version : pattern ? pattern : "unknown");
    size_t count = step_package_patterns(plan, &bind, "torch", scene.arena, patterns);
    for (size_t i = 0; i < count; i++)
        text = arena_printf(scene.arena, "%s\n%.*s", text,
                            (int)(strstr(patterns[i], "-packages/torch-*") - patterns[i]), patterns[i]);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no %s in\n%s", part, text);
}

/* ---- the plan ---- */

static void test_order_and_inputs(void **state)
{
    (void)state;
    struct buf b = {0};
    scene.files[0] = (struct spec_file){.name = "files-1", .source = {.path = "/etc/hostname"}, .to = text("~/x/host")};
    scene.spec.files = scene.files;
    scene.spec.file_count = 1;
    scene.trees[0] = make_tree(&(struct content){"hostname", "h"}, 1);
    scene.sources.files = (const struct tree *const *)scene.trees;
    scene.sources.commit = "89abcdef0123456789abcdef0123456789abcdef";
    const struct plan *plan = compile();
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *s = &plan->steps[i];
        buf_printf(&b, "%s (%s): %s\n  scope \"%s\"%s, creates %s, tree %s in %s\n  %s\n", s->name, s->kind->name,
                   s->title, s->scope, s->shared ? ", shared" : "", s->creates ? s->creates : "-",
                   s->tree_name ? s->tree_name : "-", s->tree_root ? s->tree_root : "-",
                   plan_inputs_json(s, scene.arena));
        if (s->hint)
            buf_printf(&b, "  hint: %s\n", s->hint);
    }
    assert_true(golden("packages/plan.txt", b.data));
    buf_free(&b);
}

/* Which steps get another key after a change. */
static const char *changed(const struct plan *before, const struct plan *after)
{
    struct buf b = {0};
    for (size_t i = 0; i < after->step_count; i++) {
        const struct plan_step *old = find(before, after->steps[i].name);
        if (!old || !str_eq(old->key, after->steps[i].key))
            buf_printf(&b, "%s%s", b.len ? " " : "", after->steps[i].name);
    }
    const char *ret = arena_strdup(scene.arena, b.data ? b.data : "");
    buf_free(&b);
    return ret;
}

static void test_what_an_edit_changes(void **state)
{
    (void)state;
    static const struct {
        const char *path, *text, *want;
    } cases[] = {
        {"train.py", "print(2)", "sync build launch"},
        {"env.sh", "export A=2", "sync activate python requirements.txt pip-1 kernels build launch"},
        {"requirements.txt", "torch==2.2\n", "sync requirements.txt build launch"},
        {"sub/limits.txt", "numpy<3\n", "sync requirements.txt build launch"},
        {"pkg/src/a.py", "b", "sync kernels build launch"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct plan *before = compile();
        struct content saved[ARRAY_LEN(scene.contents)];
        memcpy(saved, scene.contents, sizeof saved);
        set_content(cases[i].path, cases[i].text);
        assert_string_equal(changed(before, compile()), cases[i].want);
        memcpy(scene.contents, saved, sizeof saved);
    }
    const struct plan *before = compile();
    scene.items[1].upgrade = false;
    assert_string_equal(changed(before, compile()), "pip-1 build launch");
    scene.items[1].upgrade = true;
    scene.spec.python.interpreter = text("python3.12");
    assert_string_equal(changed(before, compile()), "python requirements.txt pip-1 kernels build launch");
    scene.spec.python.interpreter = text(NULL);
    scene.outputs[1].from = text("elsewhere/");
    assert_string_equal(changed(before, compile()), "outputs-2");
    assert_string_not_equal(before->hash, compile()->hash);
}

static void test_packages_of_the_tree(void **state)
{
    (void)state;
    scene.items[1].packages = TEXTS("./pkg[dev]");
    const struct plan *whole = compile();
    assert_string_equal(step(whole, "pip-1")->creates, "@base/venv/aaaabbbbccccdddd/.rhrun/pip-1.json");
    set_content("pkg/src/a.py", "edited");
    assert_string_equal(changed(whole, compile()), "sync pip-1 kernels build launch");
    scene.items[1].editable = true;
    const struct plan *editable = compile();
    assert_string_equal(step(editable, "pip-1")->scope, "0123456789abcdef"); /* variants must not share it */
    assert_string_equal(step(editable, "pip-1")->creates,
                        "@base/venv/aaaabbbbccccdddd-0123456789abcdef/.rhrun/pip-1.json");
    set_content("pkg/src/a.py", "edited again");
    assert_string_equal(changed(editable, compile()), "sync kernels build launch");
    set_content("pkg/pyproject.toml", "[project.new]");
    assert_string_equal(changed(editable, compile()), "sync pip-1 kernels build launch");
}

static void refused(const char *want)
{
    struct error err = ERROR_INIT;
    assert_null(try_compile(&err));
    assert_string_equal(err.text, want);
}

static void test_refused(void **state)
{
    (void)state;
    struct source source = {.name = "job.yaml"};
    scene.items[0].file.text = "missing.txt";
    scene.items[0].file.place = (struct place){.source = &source, .line = 7, .column = 3};
    refused("job.yaml:7:3: there is no file \"missing.txt\" in the working directory");
    scene.items[0].file.text = "requirements.txt";
    set_content("sub/more.txt", "-r ../../up.txt\n");
    refused("job.yaml:7:3: sub/more.txt, line 1: a file that it includes is outside of the working directory");
    set_content("sub/more.txt", "./sub\n");
    refused("job.yaml:7:3: \"requirements.txt\" names a folder that is not a package: it has no pyproject.toml, "
            "setup.py or "
            "setup.cfg");
    set_content("sub/more.txt", "-r more.txt\n-r ../requirements.txt\n"); /* a circle is not rhrun's problem */
    (void)compile();
}

static void test_which_python(void **state)
{
    (void)state;
    scene.spec.setup_count = 0;
    assert_null(find(compile(), "python")); /* auto: nothing is installed */
    scene.spec.python.venv = VENV_TRUE;
    assert_string_equal(step(compile(), "python")->scope, "");
    scene.spec.python.venv = VENV_PATH;
    scene.spec.python.venv_path = text("/data/venv");
    assert_string_equal(step(compile(), "python")->creates, "/data/venv/bin/python");
    assert_false(step(compile(), "python")->shared);
    scene.spec.setup_count = 2;
    scene.spec.python.venv = VENV_FALSE;
    const struct plan *plan = compile();
    assert_null(find(plan, "python"));
    assert_string_equal(step(plan, "pip-1")->creates, "@base/pip/aaaabbbbccccdddd/pip-1.json");
}

/* ---- sent data ---- */

static void test_runs(void **state)
{
    (void)state;
    const struct plan *plan = compile();
    assert_true(golden("packages/python.txt", built(plan, "python", 1)));
    assert_true(golden("packages/requirements.txt", built(plan, "requirements.txt", 0)));
    assert_true(golden("packages/kernels.txt", built(plan, "kernels", 0)));
    assert_true(golden("packages/launch.txt", built(plan, "launch", 0)));
}

static void test_other_items(void **state)
{
    (void)state;
    scene.spec.python.conda = text("ml");
    scene.items[0] = (struct spec_step){
        .name = "apt-1", .item = ITEM_APT, .packages = TEXTS("git", "jq=1.6"), .options = TEXTS("-t", "stable")};
    scene.items[1] = (struct spec_step){
        .name = "conda-1", .item = ITEM_CONDA, .packages = TEXTS("numpy"), .channels = TEXTS("conda-forge")};
    scene.items[2] = (struct spec_step){.name = "git-1",
                                        .item = ITEM_GIT,
                                        .url = text("https://host/x/tool.git"),
                                        .ref = text("v1"),
                                        .to = text("~/t/")};
    scene.items[3] = (struct spec_step){.name = "git-2", .item = ITEM_GIT, .url = text("git@host:x/tool")};
    const struct plan *plan = compile();
    assert_true(golden("packages/conda-env.txt", built(plan, "python", 0)));
    assert_true(golden("packages/conda.txt", built(plan, "conda-1", 0)));
    assert_true(golden("packages/apt.txt", built(plan, "apt-1", 0)));
    assert_true(golden("packages/git.txt", built(plan, "git-1", 0)));
    has(built(plan, "git-2", 0), "env RHRUN_TO=/root/.rhrun/work/aaaabbbbccccdddd/w1/tool\n");
    assert_string_equal(step(plan, "git-2")->creates, "tool/.git");
    has(built(plan, "launch", 0), "env_in python\n");
    assert_string_equal(step(plan, "apt-1")->scope, "");
    scene.items[3].url = text("--upload-pack=x");
    refused("item \"git-2\": \"--upload-pack=x\" is not the address of a repository");
}

static void test_interpreter_without_venv(void **state)
{
    (void)state;
    scene.spec.setup_count = 0;
    scene.spec.activate = text(NULL);
    has(built(compile(), "launch", 0), "arg /usr/bin/python3.11\n");
    const struct plan *before = compile();
    scene.spec.python.interpreter = text("python3.12");
    has(built(compile(), "launch", 0), "arg python3.12\n");
    assert_string_equal(changed(before, compile()), "launch");
}

/* ---- a function ---- */

static struct doc_node *load(const char *yaml)
{
    struct doc *doc;
    struct error err = ERROR_INIT;
    struct diagnostics faults = {0};
    if (doc_load_text("kwargs", yaml, strlen(yaml), DOC_FORMAT_YAML, scene.arena, &doc, &faults, &err) < 0)
        fail_msg("%s", err.text);
    diagnostics_free(&faults);
    return doc->root;
}

static void test_function(void **state)
{
    (void)state;
    scene.spec.entrypoint = (struct spec_entrypoint){
        .kind = ENTRY_FUNCTION,
        .target = text("my.mod:train"),
        .args = TEXTS("x ${{ params.tag }}", "1", "true", "${{ params.lr }}"),
        .positional = load("['x ${{ params.tag }}', 1, true, '${{ params.lr }}', '${{ args }}']"),
        .kwargs = load("lr: '${{ params.lr }}'\ntag: '${{ params.tag }}'\ntwice: '${{ rank * 2 }}'\n"
                       "text: 'r${{ rank }}'\nnested: [1e-3, true, null, {a: b}]\n")};
    scene.spec.distributed = (struct spec_distributed){.present = true, .nnodes = 2, .nproc = {NPROC_COUNT, 2}};
    const struct plan *plan = compile();
    assert_true(golden("packages/function.txt", built(plan, "launch", 1)));
    has(plan_inputs_json(step(plan, "launch"), scene.arena), "\"kwargs\":\"sha256:");
    scene.params[0].value = "1e-4";
    assert_string_equal(changed(plan, compile()), "launch");
    plan = compile();
    scene.spec.entrypoint.positional = load("['x ${{ params.tag }}', '1', true, '${{ params.lr }}', '${{ args }}']");
    assert_string_equal(changed(plan, compile()), "launch"); /* text is another argument than a number */
    plan = compile();

    struct step_fetch fetch;
    struct error err = ERROR_INIT;
    struct step_bind bind = bind_to(1);
    const struct plan_step *result = step(plan, "result");
    assert_int_equal(result->kind->fetch(plan, result, &bind, scene.arena, &fetch, &err), 0);
    assert_string_equal(fetch.from, "@base/result/aaaabbbbccccdddd/00aa00aa00aa00aa-2/[0-9]*.json");
    assert_string_equal(fetch.to, "/state/result");
    assert_true(fetch.required);
    assert_int_equal(result->on_count, 2);
}

static void test_function_refused(void **state)
{
    (void)state;
    struct wire_run run;
    struct error err = ERROR_INIT;
    scene.spec.entrypoint = (struct spec_entrypoint){.kind = ENTRY_FUNCTION, .target = text("train")};
    const struct plan *plan = compile();
    struct step_bind bind = bind_to(0);
    assert_int_equal(step_build(plan, step(plan, "launch"), &bind, scene.arena, &run, &err), -1);
    assert_string_equal(err.text, "step \"launch\": \"train\" does not name a function: \"module:function\"");
}

/* ---- files to and from nodes ---- */

static struct step_sync synced(const struct plan *plan, const char *name, uint32_t node)
{
    struct step_sync sync;
    struct error err = ERROR_INIT;
    struct step_bind bind = bind_to(node);
    const struct plan_step *s = step(plan, name);
    if (s->kind->sync(plan, s, &bind, scene.arena, &sync, &err) < 0)
        fail_msg("%s", err.text);
    return sync;
}

static void test_places(void **state)
{
    (void)state;
    static const struct {
        const char *source, *to, *root, *file;
    } cases[] = {
        {"/etc/hostname", "data/h.txt", "data", "h.txt"},
        {"/etc/hostname", "h.txt", "", "h.txt"},
        {"/etc/hostname", "data/", "data", "hostname"},
        {"/etc/hostname", "~/h", "~/", "h"},
        {"/etc/hostname", "/h", "/", "h"},
        {"/etc/hostname", "@base/h", "@base/", "h"},
        {"/etc", "./data/", "data", "hostname"},
        {"/etc", ".", "", "hostname"},
        {"/etc", "~/", "~/", "hostname"},
        {"/etc", "on-${{ node.rank }}", "on-1", "hostname"},
    };
    scene.spec.setup_count = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        scene.files[0] =
            (struct spec_file){.name = "files-1", .source = {.path = cases[i].source}, .to = text(cases[i].to)};
        scene.spec.files = scene.files;
        scene.spec.file_count = 1;
        scene.trees[0] = make_tree(&(struct content){"hostname", "h"}, 1);
        scene.sources.files = (const struct tree *const *)scene.trees;
        struct step_sync sync = synced(compile(), "files-1", 1);
        assert_string_equal(sync.root, cases[i].root);
        assert_string_equal(sync.tree->files[0].path, cases[i].file);
        assert_string_equal(sync.tree->id, scene.trees[0]->id);
        assert_false(sync.missing);
        bool relative = !strchr("~/@", *cases[i].root) || !*cases[i].root;
        assert_int_equal(str_ends(sync.name, "-w1"), relative);
    }
    assert_string_equal(synced(compile(), "sync", 0).name, "work-w1");
}

static void test_restore(void **state)
{
    (void)state;
    scene.trees[0] = make_tree(&(struct content){"model.bin", "m"}, 1);
    scene.trees[1] = NULL;
    const struct plan *empty = compile();
    scene.sources.restores = (const struct tree *const *)scene.trees;
    const struct plan *plan = compile();
    assert_string_equal(empty->hash, plan->hash); /* files that came home make nothing stale */
    struct step_sync first = synced(plan, "restore-1", 0), second = synced(plan, "restore-1", 1);
    assert_true(first.missing && second.missing);
    assert_string_equal(first.root, "out");
    assert_string_equal(first.tree->files[0].path, "model.bin");
    assert_int_equal(second.tree->count, 0);
    assert_null(find(plan, "restore-2"));
    scene.outputs[0].from = text("out/model.bin");
    assert_string_equal(synced(compile(), "restore-1", 0).root, "out");
    scene.outputs[0].from = text("out/*/x");
    assert_string_equal(synced(compile(), "restore-1", 0).root, "out");
    scene.outputs[0].from = text("*.bin");
    assert_string_equal(synced(compile(), "restore-1", 0).root, "");
}

static void test_outputs(void **state)
{
    (void)state;
    struct step_fetch fetch;
    struct error err = ERROR_INIT;
    struct step_bind bind = bind_to(1);
    const struct plan *plan = compile();
    const struct plan_step *s = step(plan, "outputs-1");
    assert_int_equal(s->kind->fetch(plan, s, &bind, scene.arena, &fetch, &err), 0);
    assert_string_equal(fetch.from, "out/");
    assert_string_equal(fetch.to, "/home/me/job/results/user@gpu2");
    s = step(plan, "outputs-2");
    bind = bind_to(0);
    assert_int_equal(s->kind->fetch(plan, s, &bind, scene.arena, &fetch, &err), 0);
    assert_string_equal(fetch.to, "/tmp/0");
    assert_int_equal(s->on_count, 1);
}

/* ---- verdicts ---- */

static void test_verify(void **state)
{
    (void)state;
    struct plan_record records[32] = {0};
    struct plan_decision decisions[32];
    scene.spec.nnodes = 1;
    const struct plan *before = compile();
    for (size_t i = 0; i < before->step_count; i++)
        if (before->steps[i].kind->cached)
            records[i] = (struct plan_record){.present = true,
                                              .ok = true,
                                              .verified = true,
                                              .key = before->steps[i].key,
                                              .inputs = plan_inputs_json(&before->steps[i], scene.arena)};
    set_content("requirements.txt", "torch==2.2\n-r sub/more.txt\n");
    const struct plan *plan = compile();
    plan_decide(plan, records, true, scene.arena, decisions);
    const struct plan_decision *pip = &decisions[step(plan, "pip-1")->id];
    assert_int_equal(decisions[step(plan, "python")->id].verdict, VERDICT_KEEP);
    assert_string_equal(decisions[step(plan, "requirements.txt")->id].reason, "content of requirements.txt changed");
    assert_int_equal(pip->verdict, VERDICT_VERIFY);
    assert_string_equal(pip->reason, "requirements.txt runs again, which may change what it installed");
    assert_int_equal(decisions[step(plan, "kernels")->id].verdict, VERDICT_KEEP);
    struct buf b = {0};
    plan_format(plan, decisions, false, false, &b);
    assert_true(golden("packages/verify.txt", b.data));
    buf_free(&b);
}

/* If a venv is gone, the packages in it are gone too, whichever step installed them. */
static void test_a_venv_made_anew(void **state)
{
    (void)state;
    const struct plan *plan = compile();
    static const struct {
        const char *step;
        bool again;
    } cases[] = {{"requirements.txt", true}, {"pip-1", true},      {"kernels", true}, {"build", true}, {"sync", false},
                 {"activate", false},        {"restore-1", false}, {"launch", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(plan_looks_again(plan, step(plan, "python"), step(plan, cases[i].step)), cases[i].again);
    assert_true(plan_looks_again(plan, step(plan, "requirements.txt"), step(plan, "pip-1")));
    assert_false(plan_looks_again(plan, step(plan, "requirements.txt"), step(plan, "build")));
    assert_false(plan_looks_again(plan, step(plan, "pip-1"), step(plan, "requirements.txt")));
}

/* Unknown facts are not guessed: a version that is not the workers' own would prevent their launch. */
static void test_where_torch_may_be(void **state)
{
    (void)state;
    scene.spec.setup_count = 0;
    assert_string_equal(known("3.11"), "unknown"); /* activate may choose another one */
    scene.spec.activate = (struct spec_text){0};
    facts.python = (char *)(uintptr_t) "/usr/bin/python3";
    assert_string_equal(known("3.11"), "3.11\n~/.local/lib/python3.11/site\n/usr/local/lib/python3.11/dist\n"
                                       "/usr/lib/python3.11/site\n/usr/lib/python3/dist");
    scene.spec.python.interpreter = text("/opt/py/bin/python3.9");
    assert_string_equal(known("3.11"),
                        "3.9\n~/.local/lib/python3.9/site\n/opt/py/lib/python3.9/site\n/opt/py/lib/python3/dist");
    scene.spec.python.interpreter = text("/opt/py/bin/python");
    assert_string_equal(known("3.11"), "/opt/py/bin/python\n/opt/py/lib/python3.*/site\n/opt/py/lib/python3/dist");
    scene.spec.python.interpreter = text("python3.12");
    assert_string_equal(known("3.11"), "unknown");
    scene.spec.python.interpreter = (struct spec_text){0};
    struct spec_env env = {.name = "PATH", .value = text("/x:/bin")};
    scene.spec.env = &env;
    scene.spec.env_count = 1;
    assert_string_equal(known("3.11"), "unknown");
    scene.spec.env_count = 0;
    scene.spec.python.venv = VENV_TRUE;
    assert_string_equal(known("3.11"), "/root/.rhrun/venv/aaaabbbbccccdddd/bin/python3.*\n"
                                       "/root/.rhrun/venv/aaaabbbbccccdddd/lib/python3.*/site\n"
                                       "~/.local/lib/python3.11/site\n/usr/local/lib/python3.11/dist\n"
                                       "/usr/lib/python3.11/site\n/usr/lib/python3/dist");
    scene.spec.python.system_site_packages = false;
    assert_string_equal(known("3.11"), "/root/.rhrun/venv/aaaabbbbccccdddd/bin/python3.*\n"
                                       "/root/.rhrun/venv/aaaabbbbccccdddd/lib/python3.*/site");
    scene.spec.python.conda = text("ml");
    assert_string_equal(known("3.11"), "/root/.rhrun/conda/aaaabbbbccccdddd-0123456789abcdef/bin/python3.*\n"
                                       "/root/.rhrun/conda/aaaabbbbccccdddd-0123456789abcdef/lib/python3.*/site");
    facts.python = (char *)(uintptr_t) "/usr/bin/python3.11";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_and_inputs, begin, end),
        cmocka_unit_test_setup_teardown(test_what_an_edit_changes, begin, end),
        cmocka_unit_test_setup_teardown(test_packages_of_the_tree, begin, end),
        cmocka_unit_test_setup_teardown(test_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_which_python, begin, end),
        cmocka_unit_test_setup_teardown(test_runs, begin, end),
        cmocka_unit_test_setup_teardown(test_other_items, begin, end),
        cmocka_unit_test_setup_teardown(test_interpreter_without_venv, begin, end),
        cmocka_unit_test_setup_teardown(test_where_torch_may_be, begin, end),
        cmocka_unit_test_setup_teardown(test_function, begin, end),
        cmocka_unit_test_setup_teardown(test_function_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_places, begin, end),
        cmocka_unit_test_setup_teardown(test_restore, begin, end),
        cmocka_unit_test_setup_teardown(test_outputs, begin, end),
        cmocka_unit_test_setup_teardown(test_verify, begin, end),
        cmocka_unit_test_setup_teardown(test_a_venv_made_anew, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
