/* The command lines of the launchers: complete, by node, from a spec's text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rhrun/step.h"

struct scene {
    struct arena *arena;
    struct spec *spec;
    struct plan *plan;
    const char *nonce;
    char path[64];
};

static const char head[] = "name: x\ncluster: {hosts: [{host: a, address: 10.0.0.1}, {host: b, address: 10.0.0.2}]}\n";

static int load(struct scene *s, const char *top, const char *rest, struct error *err)
{
    struct diagnostics diagnostics = {0};
    CLEANUP(cleanup_free) char *text = xasprintf("%s%s\n", top, rest);
    *s = (struct scene){.arena = arena_create()};
    snprintf(s->path, sizeof s->path, "/tmp/launchers-%d.yaml", (int)getpid());
    assert_int_equal(file_write_atomic(s->path, text, strlen(text), 0600, err), 0);
    if (spec_load(s->path, NULL, s->arena, &s->spec, &diagnostics, err) < 0) {
        struct buf b = {0};
        diagnostics_format(&diagnostics, false, &b);
        fail_msg("%s", b.data);
    }
    unlink(s->path);
    static const struct plan_facts facts[2] = {{true, 4, 2}, {true, 4, 2}};
    return plan_compile(s->spec, roster_create(s->spec, s->arena), step_kinds, NULL, facts, s->arena, &s->plan, err);
}

static struct wire_facts node_facts[2] = {
    {.python = (char *)"/usr/bin/python3",
     .work_dir = (char *)"/w",
     .home = (char *)"/h",
     .base_dir = (char *)"/b",
     .shell = (char *)"/bin/bash"},
    {.python = (char *)"/usr/bin/python3",
     .work_dir = (char *)"/w",
     .home = (char *)"/h",
     .base_dir = (char *)"/b",
     .shell = (char *)"/bin/sh"},
};

static int build(const struct scene *s, uint32_t node, struct wire_run *ret, struct error *err)
{
    static struct step_node nodes[2] = {{&node_facts[0], "a", "10.0.0.1"}, {&node_facts[1], "b", "10.0.0.2"}};
    const struct step_bind bind = {.spec = s->spec,
                                   .node = node,
                                   .nodes = nodes,
                                   .run_id = "r1",
                                   .owner = "o",
                                   .nonce = s->nonce,
                                   .generation = 2,
                                   .master_address = "10.0.0.1",
                                   .master_port = 4711,
                                   .work = "w"};
    for (size_t i = 0; i < s->plan->step_count; i++)
        if (s->plan->steps[i].kind->phase == PHASE_LAUNCH)
            return step_build(s->plan, &s->plan->steps[i], &bind, s->arena, ret, err);
    return error_set(err, ERROR_INTERNAL, "no launch");
}

/* The words, one blank between; Python's own text as <text>. */
static char *words_of(const struct wire_run *run)
{
    struct buf b = {0};
    assert_int_equal(run->worker_count, 1);
    const struct wire_strings *argv = &run->workers[0].argv;
    for (uint32_t i = 0; i < argv->count; i++)
        buf_printf(&b, "%s%s", i ? " " : "", strchr(argv->items[i], '\n') ? "<text>" : argv->items[i]);
    return buf_steal(&b);
}

static void check(const char *rest, uint32_t node, const char *want)
{
    struct scene s;
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    if (load(&s, head, rest, &err) < 0 || build(&s, node, &run, &err) < 0)
        fail_msg("%s", err.text);
    CLEANUP(cleanup_free) char *got = words_of(&run);
    assert_string_equal(got, want);
    assert_int_equal(run.workers[0].rank, WIRE_NO_RANK);
    arena_destroy(s.arena);
}

static bool has(const struct wire_strings *list, const char *item)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

#define RUN_MODULE "/usr/bin/python3 -m torch.distributed.run "
#define RUN_MARKED "/usr/bin/python3 -c <text> " /* rank 0 may be anywhere: rank0.py is before it */

static void test_static(void **state)
{
    (void)state;
    check("distributed: {launcher: torchrun, nproc_per_node: 2, max_restarts: 3}\n"
          "entrypoint: {module: m, args: [--x, 1 2]}",
          1,
          RUN_MODULE
          "--nnodes=2 --nproc_per_node=2 --max_restarts=0 --rdzv_backend=static --rdzv_id=r1-2 --node_rank=1 "
          "--master_addr=10.0.0.1 --master_port=4711 --module -- m --x 1 2");
    check(
        "distributed: {launcher: torchrun, nproc_per_node: gpu, master_addr: 'fe80::1', rdzv_id: \"n-${{ run.id }}\"}\n"
        "entrypoint: {command: [./p, \"${{ node.rank }}\"]}",
        0,
        RUN_MODULE
        "--nnodes=2 --nproc_per_node=gpu --max_restarts=0 --rdzv_backend=static --rdzv_id=n-r1 --node_rank=0 "
        "--master_addr=[fe80::1] --master_port=4711 --no_python -- ./p 0");
}

static void test_c10d(void **state)
{
    (void)state;
    check("distributed: {launcher: torchrun, nnodes: 1:2, rdzv_backend: c10d, max_restarts: 3,\n"
          "  rdzv_conf: {join_timeout: 5}, launcher_args: [--new, a b]}\n"
          "entrypoint: {script: /t.py}",
          0,
          RUN_MARKED "--nnodes=1:2 --nproc_per_node=1 --max_restarts=3 --rdzv_conf=is_host=1,join_timeout=5 "
                     "--rdzv_backend=c10d --rdzv_id=r1-2 --rdzv_endpoint=10.0.0.1:4711 --new a b -- /t.py");
    check("distributed: {launcher: torchrun, rdzv_backend: c10d, rdzv_endpoint: ':99'}\nentrypoint: {script: /t.py}", 1,
          RUN_MARKED "--nnodes=2 --nproc_per_node=1 --max_restarts=0 --rdzv_conf=is_host=0 --rdzv_backend=c10d "
                     "--rdzv_id=r1-2 --rdzv_endpoint=10.0.0.1:99 -- /t.py");
    check("distributed: {launcher: torchrun, rdzv_backend: etcd-v2, rdzv_endpoint: 'e:2379'}\n"
          "entrypoint: {script: /t.py}",
          1,
          RUN_MARKED "--nnodes=2 --nproc_per_node=1 --max_restarts=0 --rdzv_backend=etcd-v2 --rdzv_id=r1-2 "
                     "--rdzv_endpoint=e:2379 -- /t.py");
    check(
        "distributed: {launcher: torchrun, nnodes: 1, standalone: true, max_restarts: 1}\nentrypoint: {script: /t.py}",
        0, RUN_MODULE "--nnodes=1 --nproc_per_node=1 --max_restarts=1 --standalone -- /t.py");
}

static void test_every_flag(void **state)
{
    (void)state;
    check(
        "workdir: /tmp\n"
        "distributed: {launcher: torchrun, monitor_interval: 0.5, start_method: fork, event_log_handler: console,\n"
        "  role: r, run_path: true, log_dir: l, redirects: 0:1, tee: 3, log_line_prefix_template: \"[${rank}]\",\n"
        "  local_ranks_filter: [0], duplicate_stdout_filters: [\"a,b\", c], duplicate_stderr_filters: [e],\n"
        "  local_addr: \"${{ node.address }}\", logs_specs: s, numa_binding: node,\n"
        "  signals_to_handle: [SIGTERM, SIGUSR1], shutdown_timeout: 9, virtual_local_rank: true}\n"
        "setup: [{run: touch t.py}]\n"
        "entrypoint: {script: t.py}",
        1,
        "/usr/bin/python3 -c <text> 11 --event_log_handler=208 --log_line_prefix_template=214 --local_ranks_filter=203 "
        "--duplicate_stdout_filters=210 --duplicate_stderr_filters=210 --local_addr=200 --logs_specs=203 "
        "--numa_binding=209 --signals_to_handle=210 --shutdown_timeout=212 --virtual_local_rank=210 "
        "-m torch.distributed.run --nnodes=2 --nproc_per_node=1 --max_restarts=0 --rdzv_backend=static --rdzv_id=r1-2 "
        "--node_rank=1 "
        "--master_addr=10.0.0.1 --master_port=4711 --monitor_interval=0.5 --start_method=fork "
        "--event_log_handler=console --role=r --run_path --log_dir=l --redirects=0:1 --tee=3 "
        "--log_line_prefix_template=[${rank}] --local_ranks_filter=0 --duplicate_stdout_filters=a,,b,c "
        "--duplicate_stderr_filters=e --logs_specs=s --numa_binding=node --signals_to_handle=SIGTERM,SIGUSR1 "
        "--shutdown_timeout=9 --virtual_local_rank -- /w/t.py");
}

static void test_environment(void **state)
{
    (void)state;
    struct scene s;
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(load(&s, head,
                          "distributed: {launcher: torchrun, rdzv_backend: c10d, max_restarts: 1,"
                          " shutdown_timeout: 20}\nentrypoint: {module: m}",
                          &err),
                     0);
    assert_int_equal(build(&s, 1, &run, &err), 0);
    assert_true(has(&run.env, "PET_LOCAL_ADDR=10.0.0.2"));
    assert_true(has(&run.env, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"));
    assert_true(has(&run.env, "RHRUN_NODE_RANK=1"));
    assert_true(has(&run.env, "RHRUN_NODE_ADDRS=10.0.0.1,10.0.0.2"));
    bool marked = false;
    for (uint32_t i = 0; i < run.env.count; i++)
        marked =
            marked || (str_starts(run.env.items[i], "RHRUN_RANK0=/") && str_ends(run.env.items[i], "/r1-2/rank0.1"));
    assert_true(marked);
    assert_true(has(&run.unset, "PET_*"));
    assert_true(has(&run.unset, "TORCHELASTIC_*"));
    assert_true(has(&run.unset, "MASTER_ADDR"));
    assert_int_equal(run.grace_ms, STEP_GRACE_MS + 20000);
    for (uint32_t i = 0; i < run.env.count; i++)
        assert_true(strncmp(run.env.items[i], "RANK=", 5) != 0 && strncmp(run.env.items[i], "OMP_", 4) != 0);
    arena_destroy(s.arena);
    assert_int_equal(load(&s, head,
                          "env: {TORCH_DISABLE_SHARE_RDZV_TCP_STORE: '0'}\n"
                          "distributed: {launcher: torchrun, rdzv_backend: c10d, max_restarts: 1}\n"
                          "entrypoint: {module: m}",
                          &err),
                     0);
    assert_int_equal(build(&s, 1, &run, &err), 0);
    assert_true(has(&run.env, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=0"));
    assert_false(has(&run.env, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"));
    arena_destroy(s.arena);
}

static void test_accelerate(void **state)
{
    (void)state;
    check("distributed: {launcher: accelerate, nproc_per_node: gpu, rdzv_backend: c10d, max_restarts: 2, tee: 3, role: "
          "r,\n"
          "  launcher_args: [--mixed_precision, bf16]}\nentrypoint: {module: m, args: [1]}",
          1,
          "/usr/bin/python3 -c <text> --num_machines=2 --num_processes=4 --machine_rank=1 --main_process_ip=10.0.0.1 "
          "--main_process_port=4711 --rdzv_backend=c10d --rdzv_conf=is_host=0 --max_restarts=2 --multi_gpu --role=r "
          "--tee=3 --mixed_precision bf16 --module -- m 1");
    check("distributed: {launcher: accelerate, nnodes: 1, launcher_args: [--use-deepspeed]}\n"
          "entrypoint: {script: /t.py}",
          0,
          "/usr/bin/python3 -c <text> --num_machines=1 --num_processes=1 --machine_rank=0 --main_process_ip=10.0.0.1 "
          "--main_process_port=4711 --rdzv_backend=static --max_restarts=0 --deepspeed_multinode_launcher standard "
          "--use-deepspeed -- /t.py");
}

static void test_deepspeed(void **state)
{
    (void)state; /* {"node-0": [0, 1], "node-1": [0, 1]} */
    check("distributed: {launcher: deepspeed, nproc_per_node: 2, launcher_args: [--no_local_rank]}\n"
          "entrypoint: {script: /t.py, args: [--a]}",
          1,
          "/usr/bin/python3 -m deepspeed.launcher.launch "
          "--world_info=eyJub2RlLTAiOiBbMCwgMV0sICJub2RlLTEiOiBbMCwgMV19 --node_rank=1 --master_addr=10.0.0.1 "
          "--master_port=4711 --no_local_rank -- /t.py --a");
}

static void test_unequal(void **state)
{
    (void)state;
    struct scene s;
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(
        load(&s, head, "distributed: {launcher: deepspeed, nproc_per_node: gpu}\nentrypoint: {module: m}", &err), 0);
    s.plan->nproc[1] = 3; /* reported by the second node */
    assert_int_equal(build(&s, 0, &run, &err), -1);
    assert_non_null(strstr(err.text, "node \"a\" has 2 and node \"b\" has 3"));
    arena_destroy(s.arena);
}

#define SHELL_TEXT                      \
    "\n"                                \
    "  run: |\n"                        \
    "    echo \"$1\" ${{ params.p }}\n" \
    "    exit\n"                        \
    "  args: [\"a  b\"]"
#define PARAM "params: {p: {default: \"it's; x\"}}\n"

/* The words of the shell, its text, $0 and the arguments. */
static void check_shell(const char *launcher, uint32_t node, uint32_t words)
{
    static const char *const bash[] = {"/bin/bash", "--norc", "-o", "pipefail", "-e", "-c"}, *const sh[] = {"/bin/sh",
                                                                                                            "-e", "-c"};
    struct scene s;
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    CLEANUP(cleanup_free)
    char *rest = xasprintf(PARAM "distributed: {launcher: %s}\nentrypoint:" SHELL_TEXT, launcher);
    if (load(&s, head, rest, &err) < 0 || build(&s, node, &run, &err) < 0)
        fail_msg("%s", err.text);
    const struct wire_strings *argv = &run.workers[0].argv;
    const char *const *shell = node ? sh : bash;
    uint32_t n = node ? ARRAY_LEN(sh) : ARRAY_LEN(bash);
    assert_int_equal(argv->count, words + n + 3);
    for (uint32_t i = 0; i < n; i++)
        assert_string_equal(argv->items[words + i], shell[i]);
    assert_string_equal(argv->items[words + n], "echo \"$1\" 'it'\\''s; x'\nexit\n");
    assert_string_equal(argv->items[words + n + 1], "rhrun");
    assert_string_equal(argv->items[words + n + 2], "a  b");
    assert_int_equal(run.workers[0].shell, 0);
    arena_destroy(s.arena);
}

static void test_shell_text(void **state)
{
    (void)state;
    check_shell("torchrun", 0, 13);
    check_shell("torchrun", 1, 13);
    check_shell("accelerate", 1, 13);
    check_shell("deepspeed", 1, 10);
    check_shell("mpirun", 0, 13);
    check_shell("mpirun", 1, 8);
}

static void test_function(void **state)
{
    (void)state;
    check("distributed: {launcher: torchrun}\nentrypoint: {function: 'm:f'}", 0,
          RUN_MODULE
          "--nnodes=2 --nproc_per_node=1 --max_restarts=0 --rdzv_backend=static --rdzv_id=r1-2 --node_rank=0 "
          "--master_addr=10.0.0.1 --master_port=4711 --no_python -- /usr/bin/python3 -u -c <text>");
    check(
        "distributed: {launcher: deepspeed}\nentrypoint: {function: 'm:f'}", 1,
        "/usr/bin/python3 -m deepspeed.launcher.launch --world_info=eyJub2RlLTAiOiBbMF0sICJub2RlLTEiOiBbMF19 "
        "--node_rank=1 --master_addr=10.0.0.1 --master_port=4711 --no_python --no_local_rank -- /usr/bin/python3 -u -c "
        "<text>");
    struct scene s;
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    const char *spec = "distributed: {launcher: mpirun}\nentrypoint: {function: 'm:f', args: [3]}";
    if (load(&s, head, spec, &err) < 0 || build(&s, 1, &run, &err) < 0)
        fail_msg("%s", err.text);
    CLEANUP(cleanup_free)
    char *want =
        xasprintf("RHRUN_CALL={\"module\":\"m\",\"function\":\"f\",\"result\":\"/b/result/%s/r1-2\",\"rank\":\"RANK\","
                  "\"args\":[3],\"kwargs\":{}}",
                  s.spec->job_id ? s.spec->job_id : "x");
    assert_true(has(&run.env, want));
    assert_true(s.plan->steps[s.plan->step_count - 2].on[1]);
    arena_destroy(s.arena);
}

static void test_mpirun(void **state)
{
    (void)state;
    struct scene s, again;
    struct wire_run run = {0}, other = {0};
    struct error err = ERROR_INIT;
    const char *spec = "distributed: {launcher: mpirun, nproc_per_node: 2, launcher_args: [--report-bindings]}\n"
                       "entrypoint: {module: m}";
    check(spec, 0,
          "/usr/bin/python3 -c <text> 2 10.0.0.1 4711 <text> 6 mpirun -np 4 --host localhost:2,node-1:2 "
          "--report-bindings /usr/bin/python3 -u -m m");
    check(spec, 1, "/usr/bin/python3 -c <text> 2 10.0.0.1 4711 <text> 0 /usr/bin/python3 -u -m m");
    assert_int_equal(load(&s, head, spec, &err), 0);
    assert_int_equal(build(&s, 0, &run, &err), 0);
    assert_int_equal(build(&s, 1, &other, &err), 0);
    assert_true(has(&run.env, "OMPI_ALLOW_RUN_AS_ROOT=1"));
    assert_true(has(&other.env, "RHRUN_NODE_RANK=1"));
    assert_int_equal(run.secrets.count, 1); /* one token for all nodes, and no word of a command line */
    assert_string_equal(run.secrets.items[0], other.secrets.items[0]);
    assert_int_equal(strlen(run.secrets.items[0]), strlen("RHRUN_MPI_TOKEN=") + 64);
    s.nonce = "another launch";
    assert_int_equal(build(&s, 0, &other, &err), 0);
    assert_string_not_equal(run.secrets.items[0], other.secrets.items[0]);
    for (size_t i = 0; i < s.plan->step_count; i++)
        if (s.plan->steps[i].kind->phase == PHASE_LAUNCH)
            assert_true(s.plan->steps[i].on[0] && s.plan->steps[i].on[1]);
    const char *one = "name: x\n";
    if (load(&again, one, "distributed: {launcher: mpirun, nnodes: 2, nproc_per_node: 2}\nentrypoint: {command: [p]}",
             &err) < 0 ||
        build(&again, 0, &run, &err) < 0)
        fail_msg("%s", err.text);
    CLEANUP(cleanup_free) char *words = words_of(&run);
    assert_string_equal(words, "mpirun -np 4 --host localhost:4 /bin/sh -c <text> rhrun p");
    const struct plan_step *launch = &again.plan->steps[again.plan->step_count - 1];
    assert_string_equal(
        launch->command,
        "mpirun -np 4 --host localhost:4 /bin/sh -c <RANK and the like, of what Open MPI says> rhrun p");
    assert_true(launch->on[0]);
    assert_false(launch->on[1]);
    arena_destroy(again.arena);
    arena_destroy(s.arena);
}

/* The rendezvous and the logging are in no key; options that change the result are. */
static void test_keys(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        bool changes;
    } cases[] = {
        {"rdzv_id: x", false},       {"monitor_interval: 1", false},
        {"log_dir: d", false},       {"tee: 3", false},
        {"max_restarts: 3", false},  {"master_port: 5", false},
        {"local_addr: x", false},    {"rdzv_conf: {timeout: 5}", false},
        {"role: r", true},           {"virtual_local_rank: true", true},
        {"nproc_per_node: 2", true}, {"launcher_args: [x]", true},
    };
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scene a, b;
        CLEANUP(cleanup_free)
        char *with = xasprintf("distributed: {launcher: torchrun, %s}\nentrypoint: {module: m}", cases[i].key);
        assert_int_equal(load(&a, head, "distributed: {launcher: torchrun}\nentrypoint: {module: m}", &err), 0);
        assert_int_equal(load(&b, head, with, &err), 0);
        bool same = strcmp(a.plan->hash, b.plan->hash) == 0;
        if (same == cases[i].changes)
            fail_msg("%s", cases[i].key);
        arena_destroy(a.arena);
        arena_destroy(b.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_static),      cmocka_unit_test(test_c10d),       cmocka_unit_test(test_every_flag),
        cmocka_unit_test(test_environment), cmocka_unit_test(test_accelerate), cmocka_unit_test(test_deepspeed),
        cmocka_unit_test(test_unequal),     cmocka_unit_test(test_mpirun),     cmocka_unit_test(test_function),
        cmocka_unit_test(test_shell_text),  cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
