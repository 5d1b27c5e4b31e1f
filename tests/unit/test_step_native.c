/* launcher native: the node's work for its workers: devices, log files, CPUs, the time to stop. */
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
};

static const struct plan_facts facts[2] = {{true, 4, 4}, {true, 4, 4}};

static int load(struct scene *s, const char *text, struct error *err)
{
    struct diagnostics diagnostics = {0};
    char path[64];
    *s = (struct scene){.arena = arena_create()};
    snprintf(path, sizeof path, "/tmp/native-%d.yaml", (int)getpid());
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, err), 0);
    if (spec_load(path, NULL, s->arena, &s->spec, &diagnostics, err) < 0) {
        struct buf b = {0};
        diagnostics_format(&diagnostics, false, &b);
        fail_msg("%s", b.data);
    }
    unlink(path);
    return plan_compile(s->spec, roster_create(s->spec, s->arena), step_kinds, NULL, facts, s->arena, &s->plan, err);
}

static int build(const struct scene *s, uint32_t node, struct wire_run *ret, struct error *err)
{
    static struct wire_facts of_node = {.work_dir = (char *)"/w", .home = (char *)"/h", .base_dir = (char *)"/b"};
    static struct step_node nodes[2] = {{&of_node, "a", "10.0.0.1"}, {&of_node, "b", "10.0.0.2"}};
    const struct step_bind bind = {.spec = s->spec,
                                   .node = node,
                                   .nodes = nodes,
                                   .run_id = "r1",
                                   .generation = 2,
                                   .restart_count = 1,
                                   .master_address = "10.0.0.1",
                                   .master_port = 4711,
                                   .work = "w"};
    for (size_t i = 0; i < s->plan->step_count; i++)
        if (s->plan->steps[i].kind->phase == PHASE_LAUNCH)
            return step_build(s->plan, &s->plan->steps[i], &bind, s->arena, ret, err);
    return error_set(err, ERROR_INTERNAL, "no launch");
}

static struct wire_run built(struct scene *s, const char *distributed, uint32_t node)
{
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    CLEANUP(cleanup_free)
    char *text = xasprintf("name: x\ncluster: {hosts: [{host: a, devices: [2, 3]}, b]}\n"
                           "distributed: {%s}\nentrypoint: {command: [p]}\n",
                           distributed);
    if (load(s, text, &err) < 0 || build(s, node, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static const char *value(const struct wire_strings *env, const char *name)
{
    size_t len = strlen(name);
    for (uint32_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
            return env->items[i] + len + 1;
    return "(none)";
}

static void test_nothing_asked(void **state)
{
    (void)state;
    struct scene s;
    struct wire_run run = built(&s, "nproc_per_node: 2", 1);
    assert_int_equal(run.flags, WIRE_RUN_ERROR_FILES | WIRE_RUN_ENDS);
    assert_int_equal(run.cpus, WIRE_CPUS_ALL);
    assert_string_equal(run.log_dir, "");
    assert_int_equal(run.grace_ms, STEP_GRACE_MS);
    assert_int_equal(run.workers[0].files | run.workers[1].files, 0);
    assert_string_equal(value(&run.env, "CUDA_VISIBLE_DEVICES"), "(none)");
    arena_destroy(s.arena);
}

static void test_devices(void **state)
{
    (void)state;
    struct scene s;
    struct wire_run run = built(&s, "nproc_per_node: gpu, devices: [0, 1, 3]", 0);
    assert_int_equal(run.worker_count, 2); /* its own list, counted */
    assert_string_equal(value(&run.env, "CUDA_VISIBLE_DEVICES"), "2,3");
    assert_string_equal(value(&run.workers[1].env, "LOCAL_RANK"), "1");
    assert_string_equal(value(&run.workers[1].env, "CUDA_VISIBLE_DEVICES"), "(none)");
    arena_destroy(s.arena);
    run = built(&s, "nproc_per_node: auto, devices: [0, 1, 3], virtual_local_rank: true", 1);
    assert_int_equal(run.worker_count, 3);
    assert_string_equal(value(&run.workers[2].env, "RANK"), "4");
    assert_string_equal(value(&run.workers[2].env, "LOCAL_RANK"), "0");
    assert_string_equal(value(&run.workers[2].env, "CUDA_VISIBLE_DEVICES"), "3");
    arena_destroy(s.arena);
}

static void test_virtual_without_a_list(void **state)
{
    (void)state;
    struct scene s;
    struct wire_run run = built(&s, "nproc_per_node: 2, virtual_local_rank: true", 1);
    assert_string_equal(value(&run.workers[1].env, "CUDA_VISIBLE_DEVICES"), "1");
    arena_destroy(s.arena);
    run = built(&s, "nproc_per_node: 2, virtual_local_rank: true}\nenv: {CUDA_VISIBLE_DEVICES: 'GPU-a,GPU-b'", 1);
    assert_string_equal(value(&run.workers[1].env, "CUDA_VISIBLE_DEVICES"), "GPU-b");
    arena_destroy(s.arena);
}

static void test_too_few_devices(void **state)
{
    (void)state;
    struct scene s;
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(load(&s,
                          "name: x\nenv: {CUDA_VISIBLE_DEVICES: '5'}\n"
                          "distributed: {nproc_per_node: 2, virtual_local_rank: true}\nentrypoint: {command: [p]}\n",
                          &err),
                     0);
    assert_int_equal(build(&s, 0, &run, &err), -1);
    assert_non_null(strstr(err.text, "worker 1 of node \"local\" has no device in \"5\""));
    arena_destroy(s.arena);
}

/* More devices than exist are found once the node has reported, or now that its facts are known. */
/* One line per node as long as that fits a string of the wire, whatever becomes of RHRUN_NODE_ADDRS; one for this
 * machine. */
static void test_hosts(void **state)
{
    (void)state;
    enum { MANY = 60000 };
    struct arena *arena = arena_create();
    struct spec_host *hosts = arena_array(arena, MANY, sizeof *hosts);
    struct step_node *nodes = arena_array(arena, MANY, sizeof *nodes);
    uint32_t *nproc = arena_array(arena, MANY, sizeof *nproc);
    struct spec spec = {.placement = PLACEMENT_HOSTS, .hosts = hosts, .host_count = MANY};
    struct plan plan = {
        .spec = &spec, .roster = roster_create(&spec, arena), .nproc = nproc, .world_size = 5, .node_count = 3};
    for (uint32_t i = 0; i < MANY; i++) {
        nodes[i].address = "10.100.100.100";
        hosts[i].host = "host";
        nproc[i] = 8;
    }
    nodes[1].address = NULL;
    nproc[2] = 0; /* torchrun counts */
    assert_string_equal(step_hosts(&plan, nodes, arena), "10.100.100.100 slots=8\nhost slots=8\n10.100.100.100\n");
    spec.role_count = 1; /* roles with ranks are elsewhere */
    assert_string_equal(step_hosts(&plan, nodes, arena), "10.100.100.100 slots=8\nhost slots=8\n");
    assert_string_equal(step_hosts(&plan, NULL, arena), "");
    plan.node_count = 20000;
    assert_string_equal(step_node_addrs(nodes, plan.node_count, arena), "");
    assert_int_equal(strlen(step_hosts(&plan, nodes, arena)), 19998 * 23 + 13);
    plan.node_count = MANY;
    assert_string_equal(step_hosts(&plan, nodes, arena), "");
    spec.placement = PLACEMENT_HERE;
    assert_string_equal(step_hosts(&plan, nodes, arena), "127.0.0.1 slots=5\n");
    arena_destroy(arena);
}

static void test_a_device_that_is_not_there(void **state)
{
    (void)state;
    struct scene s;
    struct error err = ERROR_INIT;
    assert_int_equal(
        load(&s, "name: x\ndistributed: {nproc_per_node: gpu, devices: [0, 7]}\nentrypoint: {command: [p]}\n", &err),
        -1);
    assert_non_null(strstr(err.text, "devices has GPU 7, but there are 4"));
    arena_destroy(s.arena);
}

static void test_files(void **state)
{
    (void)state;
    struct scene s;
    struct wire_run run =
        built(&s, "nproc_per_node: 3, log_dir: 'l-${{ node.rank }}', redirects: '0:1,2:3', tee: '1:2,2:1'", 1);
    assert_string_equal(run.log_dir, "/w/l-1/r1/attempt_1");
    assert_int_equal(run.workers[0].files, WIRE_KEEP_OUT | WIRE_HIDE_OUT);
    assert_int_equal(run.workers[1].files, WIRE_KEEP_ERR);
    assert_int_equal(run.workers[2].files, WIRE_KEEP_OUT | WIRE_KEEP_ERR | WIRE_HIDE_ERR); /* tee wins, as in torch */
    arena_destroy(s.arena);
    run = built(&s, "nproc_per_node: 2, tee: 3, shutdown_timeout: 12, cpu_affinity: block", 0);
    assert_string_equal(run.log_dir, "/b/logs/r1/attempt_1");
    assert_int_equal(run.workers[1].files, WIRE_KEEP_OUT | WIRE_KEEP_ERR);
    assert_int_equal(run.grace_ms, 12000);
    assert_int_equal(run.flags, WIRE_RUN_ERROR_FILES | WIRE_RUN_ENDS);
    assert_int_equal(run.cpus, WIRE_CPUS_BLOCK);
    arena_destroy(s.arena);
    for (uint8_t i = WIRE_CPUS_NODE; i <= WIRE_CPUS_CORE_COMPLEX; i++) {
        static const char *const modes[] = {"node", "socket", "exclusive", "core-complex"};
        CLEANUP(cleanup_free) char *text = xasprintf("numa_binding: %s", modes[i - WIRE_CPUS_NODE]);
        assert_int_equal(built(&s, text, 0).cpus, i);
        arena_destroy(s.arena);
    }
    run = built(&s, "log_dir: /dev/null", 0);
    assert_string_equal(run.log_dir, "");
    arena_destroy(s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_asked),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_virtual_without_a_list),
        cmocka_unit_test(test_too_few_devices),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_a_device_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
