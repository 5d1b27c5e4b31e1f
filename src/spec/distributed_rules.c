/*
 * Rules across the keys of `distributed`: keys that a launcher does not know, and values that torchrun would silently
 * accept and then ignore, or wait for until it times out.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static const struct doc_node *key(const struct load *l, const char *name)
{
    return doc_get(doc_get(l->root, "distributed"), name);
}

static bool given(const struct load *l, const char *name)
{
    return key(l, name) != NULL;
}

static struct diagnostic *fault_at(struct load *l, const char *name, const char *fmt, ...) FORMAT(3, 4);
static struct diagnostic *fault_at(struct load *l, const char *name, const char *fmt, ...)
{
    const struct doc_node *node = doc_get(l->root, "distributed");
    const struct doc_member *m = doc_get_member(node, name, strlen(name));
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *message = xvasprintf(fmt, ap);
    va_end(ap);
    return fault(l, m ? place_of(m->value) : place_of(node), "%s", message);
}

/* ---- which launcher knows which key ---- */

static const char *const common[] = {"nnodes",      "nproc_per_node", "launcher", "max_restarts",
                                     "master_port", "preflight",      NULL};
static const char *const of_native[] = {"devices",
                                        "cpu_affinity",
                                        "numa_binding",
                                        "log_dir",
                                        "redirects",
                                        "tee",
                                        "local_ranks_filter",
                                        "shutdown_timeout",
                                        "virtual_local_rank",
                                        NULL};
static const char *const of_accelerate[] = {
    "launcher_args", "rdzv_backend", "rdzv_conf", "monitor_interval", "role", "log_dir", "tee", "devices", NULL};

static bool in(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static bool knows(enum spec_launcher launcher, const char *name)
{
    if (in(common, name))
        return true;
    switch (launcher) {
    case LAUNCHER_NATIVE:
        return in(of_native, name);
    case LAUNCHER_TORCHRUN:
        return !str_eq(name, "cpu_affinity");
    case LAUNCHER_ACCELERATE:
        return in(of_accelerate, name);
    case LAUNCHER_DEEPSPEED:
    case LAUNCHER_MPIRUN:
        break;
    }
    return str_eq(name, "launcher_args");
}

static void check_known(struct load *l)
{
    const struct doc_node *node = doc_get(l->root, "distributed");
    enum spec_launcher launcher = l->spec->distributed.launcher;
    for (size_t i = 0; i < node->count; i++) {
        const char *name = node->members[i].key;
        bool any = false;
        struct buf others = {0};
        for (int other = 0; spec_launchers[other]; other++)
            if (knows((enum spec_launcher)other, name) &&
                (in(common, name) || in(of_native, name) || torchrun_flag_find(name, strlen(name)) ||
                 str_eq(name, "launcher_args"))) {
                buf_printf(&others, "%s%s", any ? " or " : "", spec_launchers[other]);
                any = true;
            }
        if (any && !knows(launcher, name))
            diagnostic_hint(
                fault(l, node->members[i].key_place, "launcher %s has no %s", spec_launchers[launcher], name),
                "launcher: %s has it", others.data);
        buf_free(&others);
    }
}

/* ---- what a launcher can start ---- */

static bool has_xpu(const struct load *l, struct place *ret)
{
    const struct spec *spec = l->spec;
    *ret = spec->distributed.place;
    if (spec->distributed.nproc.kind == NPROC_XPU) {
        *ret = place_of(key(l, "nproc_per_node"));
        return true;
    }
    for (size_t i = 0; i < spec->node_count; i++)
        if (spec->nodes[i].has_nproc && spec->nodes[i].nproc.kind == NPROC_XPU) {
            *ret = spec->nodes[i].place;
            return true;
        }
    return false;
}

static void check_launcher(struct load *l)
{
    const struct spec_distributed *d = &l->spec->distributed;
    const char *name = spec_launchers[d->launcher];
    struct place place;
    if (has_xpu(l, &place) && d->launcher != LAUNCHER_TORCHRUN)
        diagnostic_hint(fault(l, place, "nproc_per_node is xpu, which only torchrun can count"),
                        "launcher: torchrun, or a number");
    if (d->min_nodes != d->nnodes && d->launcher != LAUNCHER_TORCHRUN)
        diagnostic_hint(fault_at(l, "nnodes", "launcher %s starts on a fixed number of nodes", name),
                        "launcher: torchrun with rdzv_backend: c10d, or one number");
}

/* If the counts are numbers in the spec they are compared now, otherwise once the nodes have reported them. */
static void check_equal(struct load *l)
{
    const struct spec *spec = l->spec;
    const struct spec_distributed *d = &spec->distributed;
    if (d->launcher != LAUNCHER_ACCELERATE && d->launcher != LAUNCHER_DEEPSPEED)
        return;
    const struct spec_nproc *first = NULL;
    for (uint32_t i = 0; i < spec->nnodes && i < spec->node_count; i++) {
        struct place place = spec->nodes[i].place;
        const struct spec_nproc *n = spec_nproc(spec, i);
        if (!first)
            first = n;
        if (n->kind != NPROC_COUNT || first->kind != NPROC_COUNT || n->count == first->count)
            continue;
        diagnostic_hint(fault(l, place.source ? place : d->place,
                              "launcher %s has the same number of workers on every node, but node \"%s\" has %u and "
                              "node \"%s\" has %u",
                              spec_launchers[d->launcher], spec->hosts[0].name, first->count, spec->hosts[i].name,
                              n->count),
                        "launcher: native, torchrun and mpirun take any number per host");
        return;
    }
}

/* An argument that rhrun passes itself would be passed twice; the last one wins, so the plan would be wrong. */
static void check_args(struct load *l)
{
    static const char *const of_launcher[][10] = {
        [LAUNCHER_TORCHRUN] = {"--nnodes", "--nproc_per_node", "--node_rank", "--max_restarts", "--master_addr",
                               "--master_port", "--rdzv_endpoint", "--rdzv_id"},
        [LAUNCHER_ACCELERATE] = {"--num_machines", "--num_processes", "--machine_rank", "--max_restarts",
                                 "--main_process_ip", "--main_process_port"},
        [LAUNCHER_DEEPSPEED] = {"--world_info", "--node_rank", "--master_addr", "--master_port"},
        [LAUNCHER_MPIRUN] = {"-n", "-np", "--np", "-H", "-host", "--host", "-hostfile", "--hostfile", "--machinefile"},
    };
    const struct doc_node *args = key(l, "launcher_args");
    enum spec_launcher launcher = l->spec->distributed.launcher;
    for (size_t i = 0; is_array(args) && i < args->count && launcher != LAUNCHER_NATIVE; i++) {
        const char *text = is_scalar(args->items[i]) ? args->items[i]->text : "";
        CLEANUP(cleanup_free) char *word = xstrndup(text, strcspn(text, "="));
        for (char *p = word; *p; p++)
            *p = *p == '-' && p > word + 1 ? '_' : *p;
        if (in(of_launcher[launcher], word))
            diagnostic_hint(
                fault(l, place_of(args->items[i]), "launcher_args cannot have %s: rhrun passes it itself", word),
                "the keys of distributed and the hosts determine the layout");
    }
}

/* ---- rendezvous ---- */

static const char *const conf_dynamic[] = {
    "join_timeout",        "last_call_timeout",      "close_timeout", "heartbeat_timeout",
    "keep_alive_interval", "keep_alive_max_attempt", "read_timeout",  NULL};
static const char *const conf_c10d[] = {"is_host", "store_type", NULL};
static const char *const conf_static[] = {"timeout", NULL};
static const char *const conf_etcd_v2[] = {"protocol", "ssl_cert", "ssl_cert_key", "ca_cert", NULL};
static const char *const conf_etcd[] = {
    "timeout", "last_call_timeout", "protocol", "etcd_prefix", "cacert", "cert", "key", NULL};
static const char *const no_conf[] = {NULL};

/* Torch reads its times and counts with int(), and accepts none below 1 (the old etcd: below 0). */
static void check_conf_value(struct load *l, const struct doc_member *m, uint32_t least)
{
    uint32_t n;
    const char *text = is_scalar(m->value) ? m->value->text : NULL;
    bool number = str_ends(m->key, "timeout") || str_starts(m->key, "keep_alive_");
    if (number && text && *text && !strchr(text, ',') && !strstr(text, "${{") && (!parse_u32(text, &n) || n < least))
        diagnostic_expected(fault(l, place_of(m->value), "\"%s\" cannot be %s", m->key, text), "an integer from %u",
                            least);
}

static const char *const *own_conf(const char *backend)
{
    return str_eq(backend, "c10d")      ? conf_c10d
           : str_eq(backend, "etcd-v2") ? conf_etcd_v2
           : str_eq(backend, "static")  ? conf_static
                                        : conf_etcd;
}

static const char *const *more_conf(const char *backend)
{
    return str_eq(backend, "c10d") || str_eq(backend, "etcd-v2") ? conf_dynamic : no_conf;
}

bool spec_rdzv_takes(const char *backend, const char *setting, const char **ret_near)
{
    const char *const *own = own_conf(backend), *const *more = more_conf(backend);
    const char *near = str_nearest(setting, own);
    *ret_near = near ? near : str_nearest(setting, more);
    return in(own, setting) || in(more, setting);
}

static void check_conf(struct load *l, const char *backend)
{
    const struct doc_node *conf = key(l, "rdzv_conf");
    bool c10d = strcmp(backend, "c10d") == 0;
    for (size_t i = 0; is_object(conf) && i < conf->count; i++) {
        const struct doc_member *m = &conf->members[i];
        const char *near;
        if (strcmp(m->key, "is_host") == 0 && c10d && l->spec->distributed.nnodes > 1) {
            diagnostic_hint(fault(l, m->key_place, "is_host cannot be the same on all nodes"),
                            "rhrun sets is_host itself, unless rdzv_endpoint names another host");
        } else if (!spec_rdzv_takes(backend, m->key, &near)) {
            struct diagnostic *d = fault(l, m->key_place, "rdzv_backend %s has no setting \"%s\"", backend, m->key);
            if (near)
                diagnostic_hint(d, "did you mean %s?", near);
            else
                diagnostic_hint(d, "torchrun would ignore the setting; launcher_args: [--rdzv_conf, TEXT] passes "
                                   "settings that rhrun does not know");
        } else {
            check_conf_value(l, m, str_eq(backend, "etcd") ? 0 : 1);
        }
    }
}

/* torch takes the port when it starts; 0 would be a different port on each node. */
static void check_endpoint(struct load *l)
{
    const struct doc_node *node = key(l, "rdzv_endpoint");
    const char *text = node && node->type == DOC_STRING ? node->text : "", *colon = strrchr(text, ':');
    uint32_t port;
    if (!colon || strstr(text, "${{") || text[strlen(text) - 1] == ']')
        return;
    if (!parse_u32(colon + 1, &port) || port < 1 || port > UINT16_MAX)
        diagnostic_expected(fault_at(l, "rdzv_endpoint", "rdzv_endpoint has no port: \"%s\"", text),
                            "HOST:PORT, or :PORT for the first node");
}

static void check_static(struct load *l)
{
    const struct spec_distributed *d = &l->spec->distributed;
    if (given(l, "rdzv_endpoint"))
        diagnostic_hint(fault_at(l, "rdzv_endpoint", "rdzv_backend static meets at master_addr and master_port"),
                        "rdzv_backend: c10d, or master_addr and master_port");
    if (d->min_nodes != d->nnodes)
        diagnostic_hint(
            fault_at(l, "nnodes", "rdzv_backend static waits for %u nodes, whatever the smaller number is", d->nnodes),
            "rdzv_backend: c10d");
}

static void check_dynamic(struct load *l, const char *backend)
{
    bool c10d = strcmp(backend, "c10d") == 0;
    check_endpoint(l);
    if (given(l, "master_addr"))
        diagnostic_hint(fault_at(l, "master_addr", "torchrun ignores master_addr with rdzv_backend %s", backend),
                        "rdzv_endpoint: HOST:PORT says where the nodes meet");
    if (l->spec->distributed.master_port > 0 && (given(l, "rdzv_endpoint") || !c10d))
        diagnostic_hint(fault_at(l, "master_port", "torchrun ignores master_port with rdzv_backend %s%s", backend,
                                 c10d ? " and rdzv_endpoint" : ""),
                        "rdzv_endpoint: HOST:PORT says where the nodes meet");
    if (!c10d && !given(l, "rdzv_endpoint"))
        diagnostic_hint(
            fault_at(l, "rdzv_backend", "rdzv_backend %s needs rdzv_endpoint, the address of etcd", backend),
            "rdzv_endpoint: HOST:2379");
}

static void check_standalone(struct load *l)
{
    static const char *const replaced[] = {"rdzv_backend", "rdzv_endpoint", "rdzv_id", "master_addr"};
    const struct spec_distributed *d = &l->spec->distributed;
    if (d->master_port > 0)
        fault_at(l, "master_port", "torchrun ignores master_port with standalone");
    for (size_t i = 0; i < ARRAY_LEN(replaced); i++)
        if (given(l, replaced[i]))
            fault_at(l, replaced[i], "torchrun ignores %s with standalone", replaced[i]);
    if (d->nnodes > 1)
        diagnostic_hint(fault_at(l, given(l, "nnodes") ? "nnodes" : "standalone",
                                 "standalone is for one node, and there are %u: each would train alone", d->nnodes),
                        "nnodes: 1, or no standalone");
}

static void check_rendezvous(struct load *l)
{
    const struct spec_distributed *d = &l->spec->distributed;
    const char *backend = doc_get_string(doc_get(l->root, "distributed"), "rdzv_backend", "static");
    static const char *const backends[] = {"static", "c10d", "etcd", "etcd-v2", NULL};
    if (!in(backends, backend))
        return; /* told by the schema */
    if (spec_flag_value(d, "standalone")) {
        check_standalone(l);
        check_conf(l, "c10d");
        return;
    }
    if (strcmp(backend, "static") == 0)
        check_static(l);
    else if (d->launcher == LAUNCHER_TORCHRUN)
        check_dynamic(l, backend);
    check_conf(l, backend);
    if (d->launcher == LAUNCHER_ACCELERATE && *backend == 'e')
        diagnostic_hint(
            fault_at(l, "rdzv_backend", "the workers of accelerate meet on the first node, never through etcd"),
            "rdzv_backend: static or c10d");
}

/* ---- what has no effect ---- */

/* The most workers that a node may have, or 0 if that is not known yet. */
static uint32_t workers_at_most(const struct spec *spec)
{
    const struct spec_nproc *n = &spec->distributed.nproc;
    for (size_t i = 0; i < spec->node_count; i++)
        if (spec->nodes[i].has_nproc)
            return 0;
    return n->kind == NPROC_COUNT ? n->count : 0;
}

static void check_local_rank(struct load *l, const struct doc_node *node, int64_t rank)
{
    uint32_t count = workers_at_most(l->spec);
    if (count > 0 && rank >= count)
        fault(l, place_of(node), "there is no local rank %lld: nproc_per_node is %u", (long long)rank, count);
}

/* "0:1,5:2": an entry for a rank that does not exist would have no effect. */
static void check_streams(struct load *l, const char *name)
{
    const struct doc_node *node = key(l, name);
    const char *p = node && node->type == DOC_STRING ? node->text : NULL;
    for (; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (p[0] >= '0' && p[0] <= '9' && p[1] == ':')
            check_local_rank(l, node, p[0] - '0');
}

static void check_logs(struct load *l)
{
    static const char *const of_tee[] = {"duplicate_stdout_filters", "duplicate_stderr_filters",
                                         "log_line_prefix_template"};
    const struct spec_distributed *d = &l->spec->distributed;
    const struct doc_node *ranks = key(l, "local_ranks_filter");
    const struct spec_text *dir = spec_flag_value(d, "log_dir");
    for (size_t i = 0; i < ARRAY_LEN(of_tee); i++)
        if (given(l, of_tee[i]) && !given(l, "tee"))
            diagnostic_hint(fault_at(l, of_tee[i], "torchrun ignores %s without tee", of_tee[i]), "tee: 3");
    if (dir && strcmp(dir->text, "/dev/null") == 0 && (given(l, "tee") || given(l, "redirects")))
        fault_at(l, "log_dir", "with log_dir /dev/null %s does nothing with %s", spec_launchers[d->launcher],
                 given(l, "tee") ? "tee" : "redirects");
    for (size_t i = 0; is_array(ranks) && i < ranks->count; i++) {
        int64_t rank;
        if (doc_is_integer(ranks->items[i], &rank))
            check_local_rank(l, ranks->items[i], rank);
    }
    check_streams(l, "redirects");
    check_streams(l, "tee");
}

/* If both numbers are in the spec; otherwise once the nodes have reported them. */
static void check_devices(struct load *l)
{
    const struct spec *spec = l->spec;
    const struct spec_distributed *d = &spec->distributed;
    bool known = knows(d->launcher, "devices");
    for (uint32_t i = 0; i < spec->nnodes && i < spec->node_count; i++) {
        const struct spec_node *own = &spec->nodes[i];
        const struct spec_nproc *n = spec_nproc(spec, i);
        const struct spec_devices *devices = spec_devices(spec, i);
        struct place place = own->place.source ? own->place : d->place;
        if (own->devices.list && !known) {
            diagnostic_hint(fault(l, place, "launcher %s has no devices", spec_launchers[d->launcher]),
                            "launcher: native, torchrun or accelerate has it");
            return;
        }
        if (d->launcher == LAUNCHER_NATIVE && spec_flag_value(d, "virtual_local_rank") && devices->list &&
            n->kind == NPROC_COUNT && n->count > devices->count) {
            fault(l, place, "node \"%s\" has %u workers and %u device%s, but with virtual_local_rank each has its own",
                  spec->hosts[i].name, n->count, devices->count, devices->count == 1 ? "" : "s");
            return;
        }
    }
}

static void check_cpus(struct load *l)
{
    if (l->spec->distributed.cpu_blocks && given(l, "numa_binding"))
        diagnostic_hint(fault_at(l, "cpu_affinity", "numa_binding and cpu_affinity cannot both bind the workers"),
                        "leave one of them out");
}

static void check_entry(struct load *l)
{
    const struct spec_distributed *d = &l->spec->distributed;
    bool run_path = spec_flag_value(d, "run_path") != NULL;
    if (given(l, "start_method") && !run_path)
        diagnostic_hint(fault_at(l, "start_method", "torchrun ignores start_method without run_path"),
                        "run_path: true runs the script in torch's own interpreter");
    if (run_path && l->spec->entrypoint.place.source && l->spec->entrypoint.kind != ENTRY_SCRIPT)
        fault_at(l, "run_path", "run_path is for entrypoint.script only");
}

void distributed_check(struct load *l)
{
    if (!in(spec_launchers, doc_get_string(doc_get(l->root, "distributed"), "launcher", "native")))
        return; /* told by the schema */
    check_known(l);
    check_launcher(l);
    check_equal(l);
    check_args(l);
    enum spec_launcher launcher = l->spec->distributed.launcher;
    if (launcher == LAUNCHER_TORCHRUN || launcher == LAUNCHER_ACCELERATE)
        check_rendezvous(l);
    if (launcher == LAUNCHER_TORCHRUN || launcher == LAUNCHER_NATIVE)
        check_logs(l);
    if (launcher == LAUNCHER_TORCHRUN)
        check_entry(l);
    check_devices(l);
    check_cpus(l);
}
