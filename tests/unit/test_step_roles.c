/* step: roles: the places of their workers, their ranks and peers, and the RUN messages of each node. */
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

enum { NODES_MAX = 9, CASES = 400 };

static struct arena *arena;
static char dir[] = "/tmp/test_step_roles.XXXXXX";

static struct spec *load(const char *text)
{
    return load_text(arena, text);
}

static struct plan *compile(const struct spec *spec, const struct plan_facts *facts)
{
    return compile_spec(arena, spec, facts);
}

static const struct step_node *addresses(uint32_t count)
{
    struct step_node *nodes = arena_array(arena, count, sizeof *nodes);
    for (uint32_t i = 0; i < count; i++)
        nodes[i].address = arena_printf(arena, "10.0.0.%u", i);
    return nodes;
}

static struct wire_run build(const struct plan *plan, const char *step, uint32_t node, const uint32_t *ports)
{
    struct step_bind bind = {.spec = plan->spec,
                             .node = node,
                             .nodes = addresses(plan->node_count),
                             .run_id = "00aa00aa00aa00aa",
                             .generation = 1,
                             .master_address = "10.0.0.0",
                             .master_port = 29500,
                             .role_ports = ports,
                             .work = "w"};
    struct wire_run run = {0};
    struct error err = ERROR_INIT;
    if (step_build(plan, step_named(plan, step), &bind, arena, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static const char *env_of(const struct wire_worker *w, const char *name)
{
    for (uint32_t i = 0; i < w->env.count; i++)
        if (str_starts(w->env.items[i], name) && w->env.items[i][strlen(name)] == '=')
            return w->env.items[i] + strlen(name) + 1;
    return NULL;
}

static uint32_t number_of(const struct wire_worker *w, const char *name)
{
    uint32_t n = UINT32_MAX;
    const char *text = env_of(w, name);
    assert_non_null(text);
    assert_true(parse_u32(text, &n));
    return n;
}

/* ---- PyTorch's layout of RPC parameter servers ---- */

struct layout {
    uint32_t t, ct, s, cs, nodes, room; /* room 0: none given */
};

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static struct layout draw(uint64_t seed)
{
    struct layout l = {0};
    l.s = below(&seed, 4);
    l.cs = below(&seed, 4);
    if (l.s + l.cs == 0)
        l.s = 1;
    l.t = l.s * (1 + below(&seed, 5));
    l.ct = l.cs * (1 + below(&seed, 5));
    l.nodes = 1 + below(&seed, NODES_MAX);
    uint32_t total = l.t + l.ct + l.s + l.cs + 1;
    l.room = below(&seed, 2) ? (total + l.nodes - 1) / l.nodes + below(&seed, 3) : 0;
    return l;
}

static const char *role_of(const struct layout *l, uint32_t rank)
{
    return rank < l->t                          ? "trainer"
           : rank < l->t + l->ct                ? "cuda_trainer"
           : rank < l->t + l->ct + l->s         ? "server"
           : rank < l->t + l->ct + l->s + l->cs ? "cuda_server"
                                                : "master";
}

/* get_server_rank and get_cuda_server_rank of benchmarks/distributed/rpc/parameter_server/launcher.py */
static uint32_t server_of(const struct layout *l, uint32_t rank)
{
    return rank < l->t ? rank / (l->t / l->s) + l->t + l->ct : (rank - l->t) / (l->ct / l->cs) + l->t + l->ct + l->s;
}

static void check_worker(const struct layout *l, const struct plan *plan, uint32_t node, const struct wire_worker *w)
{
    uint32_t rank = number_of(w, "RANK");
    const struct plan_rank *entry = &plan->ranks[rank];
    assert_int_equal(w->rank, rank);
    assert_string_equal(env_of(w, "ROLE_NAME"), role_of(l, rank));
    assert_int_equal(number_of(w, "WORLD_SIZE"), l->t + l->ct + l->s + l->cs + 1);
    assert_int_equal(entry->node, node);
    assert_int_equal(entry->local_rank, number_of(w, "LOCAL_RANK"));
    assert_int_equal(entry->role_rank, number_of(w, "ROLE_RANK"));
    if (rank >= l->t + l->ct) {
        assert_null(env_of(w, "RHRUN_PEER_RANK"));
        return;
    }
    uint32_t peer = number_of(w, "RHRUN_PEER_RANK");
    assert_int_equal(peer, server_of(l, rank));
    assert_string_equal(env_of(w, "RHRUN_PEER_ADDR"), arena_printf(arena, "10.0.0.%u", plan->ranks[peer].node));
}

static void check_layout(const struct layout *l)
{
    const char *text = arena_printf(arena,
                                    "distributed: {nnodes: %u%s}\n"
                                    "roles:\n"
                                    "  trainer: {count: %u, %s}\n"
                                    "  cuda_trainer: {count: %u, %s}\n"
                                    "  server: {count: %u}\n"
                                    "  cuda_server: {count: %u}\n"
                                    "  master: {}\n"
                                    "entrypoint: {command: [true]}\n",
                                    l->nodes, l->room ? arena_printf(arena, ", nproc_per_node: %u", l->room) : "", l->t,
                                    l->s ? "peer: server" : "nodes: [0]", l->ct,
                                    l->cs ? "peer: cuda_server" : "nodes: [0]", l->s, l->cs);
    const struct plan *plan = compile(load(text), NULL);
    uint32_t world = l->t + l->ct + l->s + l->cs + 1, seen = 0, groups = 0;
    assert_true(plan->ranks_known);
    assert_int_equal(plan->world_size, world);
    assert_int_equal(plan->worker_count, world);
    assert_int_equal(plan->master, plan->ranks[0].node);
    const struct plan_step *launch = step_named(plan, "launch");
    for (uint32_t n = 0; n < l->nodes; n++) {
        assert_int_equal(launch->on[n], plan->nproc[n] > 0);
        if (!launch->on[n])
            continue;
        struct wire_run run = build(plan, "launch", n, NULL);
        assert_true(!l->room || run.worker_count <= l->room);
        assert_true(l->room || run.worker_count <= (world + l->nodes - 1) / l->nodes);
        assert_int_equal(run.worker_count, plan->nproc[n]);
        for (uint32_t i = 0; i < run.worker_count; i++) {
            const struct wire_worker *w = &run.workers[i];
            check_worker(l, plan, n, w);
            assert_int_equal(number_of(w, "LOCAL_RANK"), i); /* in the order of ranks, each once */
            assert_int_equal(number_of(w, "LOCAL_WORLD_SIZE"), run.worker_count);
            assert_int_equal(number_of(w, "GROUP_RANK"), groups);
        }
        seen += run.worker_count;
        groups++;
    }
    assert_int_equal(seen, world);
}

static void test_parameter_servers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct layout l = draw(seed * 7919 + 1);
        check_layout(&l);
        arena_reset(arena);
    }
}

static void test_peers(void **state)
{
    (void)state;
    for (uint32_t count = 1; count < 40; count++)
        for (uint32_t peers = 1; peers < 20; peers++) {
            uint32_t used[20] = {0}, last = 0;
            for (uint32_t i = 0; i < count; i++) {
                uint32_t peer = spec_peer_of(BY_BLOCK, i, count, peers);
                assert_true(peer < peers && peer >= last); /* neighbours share one */
                last = peer;
                used[peer]++;
                assert_int_equal(spec_peer_of(BY_STRIDE, i, count, peers), i % peers);
            }
            for (uint32_t p = 0; p < peers; p++) /* as even as can be */
                assert_true(used[p] == count / peers || used[p] == (count + peers - 1) / peers);
        }
}

/* ---- places of workers ---- */

/* "a 0:2 1:2 b 1:1" */
static void expect_places(const char *roles, const char *want)
{
    struct buf text = {0};
    const struct plan *plan = compile(load(arena_printf(arena, "%s\nentrypoint: {command: [true]}\n", roles)), NULL);
    for (uint32_t i = 0; i < plan->place_count; i++) {
        const struct plan_place *p = &plan->places[i];
        if (i == 0 || plan->places[i - 1].role != p->role)
            buf_printf(&text, "%s%s", i ? " " : "", plan->spec->roles[p->role].name);
        buf_printf(&text, " %u:%u", p->node, p->count);
    }
    assert_string_equal(text.data, want);
    buf_free(&text);
}

static void test_places(void **state)
{
    (void)state;
    expect_places("roles: {a: {count: 5}, b: {}}", "a 0:5 b 0:1");
    expect_places("distributed: {nnodes: 3}\nroles: {a: {count: 5}, b: {count: 2}}", "a 0:3 1:2 b 1:1 2:1");
    expect_places("distributed: {nnodes: 3, nproc_per_node: 4}\nroles: {a: {count: 5}, b: {count: 2}}",
                  "a 0:4 1:1 b 1:2");
    expect_places("distributed: {nnodes: 3}\nroles: {a: {nnodes: 2, nproc_per_node: 4}, b: {count: 3}}",
                  "a 0:4 1:4 b 2:3");
    expect_places("distributed: {nnodes: 3}\nroles: {b: {count: 3}, a: {nnodes: 2, nproc_per_node: 4}}",
                  "b 2:3 a 0:4 1:4");
    expect_places("distributed: {nnodes: 2}\nroles: {a: {nnodes: 2, nproc_per_node: 4}, b: {count: 3}}",
                  "a 0:4 1:4 b 0:2 1:1");
    expect_places("distributed: {nnodes: 3}\nroles: {a: {nnodes: 1}, b: {nnodes: 1, nodes: [0, 1]}, c: {nnodes: 2}}",
                  "a 0:1 b 1:1 c 0:1 2:1");
    expect_places(
        "distributed: {nnodes: 2, nproc_per_node: 2}\nroles: {a: {nnodes: 2, nproc_per_node: 1}, b: {count: 2}, c: "
        "{count: 3, world: none}}",
        "a 0:1 1:1 b 0:1 1:1 c 0:2 1:1");
    expect_places("distributed: {nnodes: 4}\nroles: {a: {count: 4, nodes: [3, 1]}, b: {count: 4}}",
                  "a 1:2 3:2 b 0:1 1:1 2:1 3:1");
    expect_places("distributed: {nnodes: 2}\nroles: {a: {count: 0}, b: {nnodes: 2, nproc_per_node: 2, world: own}}",
                  "b 0:2 1:2");
    expect_places(
        "cluster: {hosts: [{host: x, nproc_per_node: 1}, {host: y, nproc_per_node: 3}, z]}\nroles: {a: {count: 6}}",
        "a 0:1 1:3 2:2"); /* two each; the one without room on x goes to the next node with room */
    expect_places(
        "cluster: {hosts: [x, y]}\nroles: {a: {count: 4, cluster: {hosts: [u, v]}}, b: {count: 3}, c: {nnodes: "
        "1, cluster: {hosts: [v, y]}}}",
        "a 2:2 3:2 b 0:3 c 1:1"); /* y belongs to the job and to c */
    expect_places("roles: {a: {count: 3, cluster: {hosts: [u, v]}}, b: {cluster: {hosts: [w, u]}, nodes: [2]}}",
                  "a 0:2 1:1 b 2:1");
}

/* ---- late facts ---- */

static void test_counts_of_nodes(void **state)
{
    (void)state;
    const struct spec *spec = load("distributed: {nnodes: 3}\n"
                                   "require: [roles.a.count % 2 == 0]\n"
                                   "roles: {a: {nnodes: 2, nproc_per_node: gpu, peer: b}, b: {count: 2}}\n"
                                   "entrypoint: {command: [echo, \"${{ roles.a.count }}\"]}\n");
    struct plan *plan = compile(spec, NULL);
    assert_false(plan->ranks_known);
    assert_null(plan->roles);
    assert_int_equal(plan->placed[0].node_count, 2);
    assert_true(step_named(plan, "launch")->on[2]);
    const char *key = step_named(plan, "launch")->key;
    struct plan_facts facts[] = {{true, 8, 4}, {true, 8, 2}, {true, 8, 0}};
    struct error err = ERROR_INIT;
    assert_int_equal(plan_bind_ranks(plan, facts, arena, &err), 0);
    assert_int_equal(plan->world_size, 8);
    assert_int_equal(plan->roles[1].rank, 6);
    assert_string_equal(step_named(compile(spec, facts), "launch")->key, key);
    struct wire_run run = build(plan, "launch", 1, NULL);
    assert_int_equal(run.worker_count, 2);
    assert_string_equal(run.workers[0].argv.items[1], "6");
    assert_int_equal(number_of(&run.workers[0], "RHRUN_PEER_RANK"), 7);
    facts[1].gpus = 1;
    assert_int_equal(plan_bind_ranks(plan, facts, arena, &err), -1);
    assert_string_equal(err.text, "job.yaml:2:11: required: 5 % 2 == 0: roles.a.count is 5");
    facts[1].gpus = 0;
    err = (struct error)ERROR_INIT;
    assert_int_equal(plan_bind_ranks(plan, facts, arena, &err), -1);
    assert_string_equal(err.text, "role \"a\": node \"local-1\": nproc_per_node is gpu, and no GPU was found there");
    assert_int_equal(plan_check_node(plan, 1, &facts[1], &err), -1);
    assert_int_equal(plan_check_node(plan, 0, &facts[0], &err), 0);
    plan = compile(load("distributed: {nnodes: 1, nproc_per_node: 3}\n"
                        "roles: {b: {count: 2}, a: {nnodes: 1, nproc_per_node: gpu, world: none}}\n"
                        "entrypoint: {command: [true]}\n"),
                   facts);
    assert_int_equal(plan->worker_count, 6);
    plan = compile(load("distributed: {nnodes: 1, nproc_per_node: 3}\n"
                        "roles: {a: {nnodes: 1, nproc_per_node: gpu}}\n"
                        "entrypoint: {command: [true]}\n"),
                   NULL);
    err = (struct error)ERROR_INIT;
    assert_int_equal(plan_bind_ranks(plan, facts, arena, &err), -1);
    assert_string_equal(err.text, "node \"local\": the roles place 4 workers there, but the node has room for 3");
}

/* Room that the nodes report: unknown before that. */
static void expect_room(const char *nproc, struct plan_facts facts, const char *fault)
{
    struct error err = ERROR_INIT;
    const char *text = arena_printf(arena,
                                    "distributed: {nproc_per_node: %s}\n"
                                    "roles: {a: {count: 2}, b: {count: 1, world: own}, c: {count: 9, world: none}}\n"
                                    "entrypoint: {command: [true]}\n",
                                    nproc);
    struct plan *plan = compile(load(text), NULL);
    assert_true(plan->ranks_known);
    assert_int_equal(plan_bind_ranks(plan, &facts, arena, &err), fault ? -1 : 0);
    assert_string_equal(err.text, fault ? fault : "");
    assert_int_equal(plan_check_node(plan, 0, &facts, &err), fault ? -1 : 0);
}

static void test_room(void **state)
{
    (void)state;
    expect_room("cpu", (struct plan_facts){true, 3, 0}, NULL);
    expect_room("cpu", (struct plan_facts){false, 0, 0}, NULL);
    expect_room("cpu", (struct plan_facts){true, 2, 8},
                "node \"local\": the roles place 3 workers there, but the node has room for 2");
    expect_room("gpu", (struct plan_facts){true, 64, 3}, NULL);
    expect_room("gpu", (struct plan_facts){true, 64, 2},
                "node \"local\": the roles place 3 workers there, but the node has room for 2");
    expect_room("gpu", (struct plan_facts){true, 64, 0},
                "node \"local\": nproc_per_node is gpu, and no GPU was found there");
    expect_room("auto", (struct plan_facts){true, 3, 0}, NULL);
    expect_room("auto", (struct plan_facts){true, 64, 1},
                "node \"local\": the roles place 3 workers there, but the node has room for 1");
}

/* ---- steps ---- */

static const char all_roles[] =
    "distributed: {nnodes: 2, nproc_per_node: 4, max_restarts: 1}\n"
    "env: {SHARED: top}\n"
    "roles:\n"
    "  data: {world: none, entrypoint: {run: make data}}\n"
    "  cache: {world: none, nodes: [1], sidecar: true, ready: {port: 6379, timeout: 9s}, entrypoint: {command: "
    "[redis-server]}}\n"
    "  server: {count: 2, ready: {log: up}, env: {SHARED: \"${{ role }}\"}}\n"
    "  eval: {count: 2, nodes: [1], world: own, peer: {role: server, by: stride}}\n"
    "  trainer: {count: 2, peer: server, after: {data: done, cache: ready, server: ready}, entrypoint: {args: "
    "[\"${{ peer.rank }}\", \"${{ roles.server.nodes[0].address }}\"], env: {A: \"${{ rank }}\"}}}\n"
    "  helper: {world: none}\n"
    "  none: {count: 0, after: {data: done}}\n"
    "  master: {entrypoint: {script: master.py, timeout: 0}}\n"
    "entrypoint: {script: train.py, args: [x], env: {A: top, B: \"${{ role_rank }}\"}}\n";

static void put_file(const char *name)
{
    struct error err = ERROR_INIT;
    assert_int_equal(file_write_atomic(name, "", 0, 0644, &err), 0);
}

static void test_steps(void **state)
{
    (void)state;
    put_file("train.py");
    put_file("master.py");
    const struct plan *plan = compile(load(all_roles), NULL);
    struct buf text = {0};
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *s = &plan->steps[i];
        buf_printf(&text, "%s on ", s->name);
        plan_node_set(plan, s->on, &text);
        for (size_t k = 0; k < s->wait_count; k++)
            buf_printf(&text, "%s%s%s", k ? ", " : " after ", plan->steps[s->waits[k].step].name,
                       s->waits[k].started ? " began" : "");
        buf_printf(&text, "%s%s: %s\n", s->sidecar ? " sidecar" : "", s->watch ? " watch" : "", s->title);
    }
    assert_string_equal(text.data, "launch on local-1: 1 helper, 1 master\n"
                                   "launch:data on local-0: 1 data\n"
                                   "launch:cache on local-1 sidecar: 1 cache\n"
                                   "launch:server on local-0: 2 server\n"
                                   "launch:eval on local-1: 2 eval\n"
                                   "launch:trainer on local-0 after launch:data, ready:cache, ready:server: 2 trainer\n"
                                   "ready:cache on local-1 after launch:cache began sidecar: port 6379\n"
                                   "ready:server on local-0 after launch:server began watch: log up\n");
    buf_free(&text);
    static const uint32_t ports[] = {0, 0, 0, 4242, 0, 0, 0, 0};
    const struct wire_run runs[] = {build(plan, "launch", 1, ports), build(plan, "launch:trainer", 0, ports),
                                    build(plan, "launch:eval", 1, ports), build(plan, "ready:cache", 1, ports)};
    assert_true(golden("roles/launch.txt", run_text(arena, &runs[0])));
    assert_true(golden("roles/trainer.txt", run_text(arena, &runs[1])));
    assert_true(golden("roles/eval.txt", run_text(arena, &runs[2])));
    assert_true(golden("roles/ready.txt", run_text(arena, &runs[3])));
    struct buf shown = {0}, json = {0};
    plan_format(plan, NULL, false, false, &shown);
    plan_format_json(plan, NULL, &json);
    assert_true(golden("roles/plan.txt", shown.data));
    assert_non_null(strstr(json.data,
                           "{\"name\":\"eval\",\"world\":\"own\",\"count\":2,\"places\":[{\"node\":1,\"count\":2,"
                           "\"first_rank\":0}]}"));
    buf_free(&shown);
    buf_free(&json);
}

/* A launch is redone as a whole: a change to one of its steps changes all. */
static void test_keys(void **state)
{
    static const char *const changes[][2] = {
        {"make data", "make more data"},    {"count: 2, nodes: [1]", "count: 2, nodes: [0]"},
        {"by: stride", "by: block"},        {"server: {count: 2", "server: {count: 3"},
        {"SHARED: top", "SHARED: other"},   {"data: done, ", ""},
        {"A: \"${{ rank }}\"", "A: \"1\""}, {"world: own", "world: job"}};
    static const char *const same[][2] = {{"ready: {log: up}", "ready: {log: down}"},
                                          {"timeout: 9s", "timeout: 8s"},
                                          {"max_restarts: 1", "max_restarts: 2"}};
    (void)state;
    const struct plan *before = compile(load(all_roles), NULL);
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        const struct plan *after = compile(load(text_with(arena, all_roles, changes[i][0], changes[i][1])), NULL);
        for (size_t k = 0; k < before->step_count; k++) {
            const struct plan_step *was = &before->steps[k], *is = step_named(after, was->name);
            if (was->kind->ranked && is && str_eq(is->key, was->key))
                fail_msg("%s: %s has the same key", changes[i][1], was->name);
        }
        assert_string_not_equal(after->hash, before->hash);
    }
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        assert_string_equal(
            step_named(compile(load(text_with(arena, all_roles, same[i][0], same[i][1])), NULL), "launch")->key,
            step_named(before, "launch")->key);
}

static int begin(void **state)
{
    (void)state;
    arena = arena_create();
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
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
        cmocka_unit_test(test_parameter_servers),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_counts_of_nodes),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
