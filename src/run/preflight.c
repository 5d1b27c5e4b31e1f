/*
 * Before the first launch over several nodes, in parallel and in a few round trips: does every node reach the port where
 * the workers will meet, and do the nodes agree in what makes a launch fail in ways that are hard to read? What keeps the
 * job from running ends the run before anything starts; the rest is noted.
 *
 * A question is lost with its connection: then all of it is asked again (preflight_again), and answers to an older round
 * count for nothing.
 */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 100, /* nodes that connect at a time: the port's queue is emptied between */
    CONNECT_MS = 3000,
    PORT_TRIES = 5, /* a free port that is taken meanwhile */
    SKEW_MS = 5000,
    DISK_MIN = 1000000000,
    NAMES_MAX = 3, /* of nodes, in a message */
    VERSION_MAX = 40,
};
#define PREFLIGHT_TOKEN (UINT64_C(1) << 63) /* of GLOB: below it round << 8, and the pattern */

enum phase { IDLE, LISTENING, CONNECTING, ENDING };

struct asked { /* of one node */
    uint32_t errnum;
    char torch[VERSION_MAX]; /* "" = none was found */
    uint8_t pattern;         /* that it was found by */
};
struct preflight {
    enum phase phase;
    uint32_t round, left, next, tries; /* left: answers that are awaited; next: node of the next batch */
    bool done, told, again;            /* again: the port is taken, another one is asked for */
    bool lost;                         /* a question of this round, with its connection */
    struct node_endpoint endpoint;
    struct asked *asked;
    struct error error;
};

/* ---- words ---- */

/* "node "b"", "nodes "b", "c", "d" and 5 more" of those with wanted. */
static void put_names(struct run *r, const bool *wanted, struct buf *ret)
{
    uint32_t count = 0, shown = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        count += wanted[n];
    buf_puts(ret, count == 1 ? "node " : "nodes ");
    for (uint32_t n = 0; n < r->plan->node_count && shown < NAMES_MAX; n++)
        if (wanted[n])
            buf_printf(ret, "%s\"%s\"", shown++ ? ", " : "", node_name(r->lanes[n].node));
    if (count > NAMES_MAX)
        buf_printf(ret, " and %u more", count - NAMES_MAX);
}

static const char *name_of(const struct run *r, uint32_t node)
{
    return node_name(r->lanes[node].node);
}

/* ---- what the facts say ---- */

static int64_t wall_offset_ms(const struct lane *lane)
{
    const struct wire_facts *f = node_facts(lane->node);
    return (int64_t)f->wall_ms - ((int64_t)f->mono_ns + lane->clock_ns) / 1000000;
}

static void check_clocks(struct run *r)
{
    uint32_t slow = 0, fast = 0;
    for (uint32_t n = 1; n < r->plan->node_count; n++) {
        if (r->lanes[n].left_out)
            continue;
        if (wall_offset_ms(&r->lanes[n]) < wall_offset_ms(&r->lanes[slow]))
            slow = n;
        if (wall_offset_ms(&r->lanes[n]) > wall_offset_ms(&r->lanes[fast]))
            fast = n;
    }
    int64_t apart = wall_offset_ms(&r->lanes[fast]) - wall_offset_ms(&r->lanes[slow]);
    if (apart > SKEW_MS)
        run_note(r, slow, "its clock is %.0f s behind that of node \"%s\": set them (timedatectl set-ntp true)",
                 (double)apart / 1000, name_of(r, fast));
}

static bool counts_gpus(const struct spec_nproc *n)
{
    return n->kind == NPROC_GPU || n->kind == NPROC_AUTO;
}

/* The first node that differs from node 0 is named; one note for each thing. */
static void check_equal(struct run *r)
{
    const struct wire_facts *a = node_facts(r->lanes[0].node);
    bool gpus = false, models = false, driver = false, python = false;
    for (uint32_t n = 1; n < r->plan->node_count; n++) {
        if (r->lanes[n].left_out)
            continue;
        const struct wire_facts *f = node_facts(r->lanes[n].node);
        const struct spec_host *host = &r->plan->spec->hosts[n];
        if (!gpus && f->gpu_count != a->gpu_count && !host->has_nproc &&
            counts_gpus(&r->plan->spec->distributed.nproc)) {
            gpus = true;
            run_note(r, n, "%u GPU%s are here and %u on node \"%s\": the workers are not spread evenly", f->gpu_count,
                     f->gpu_count == 1 ? "" : "s", a->gpu_count, name_of(r, 0));
        } else if (!models && f->gpu_count == a->gpu_count && !str_eq(f->gpus, a->gpus)) {
            models = true;
            run_note(r, n, "its GPUs (%.*s) are others than those of node \"%s\" (%.*s)", (int)strcspn(f->gpus, "\n"),
                     f->gpus, name_of(r, 0), (int)strcspn(a->gpus, "\n"), a->gpus);
        }
        if (!driver && f->gpu_count > 0 && a->gpu_count > 0 && !str_eq(f->gpu_driver, a->gpu_driver)) {
            driver = true;
            run_note(r, n, "another GPU driver than on node \"%s\": %s, and there %s", name_of(r, 0), f->gpu_driver,
                     a->gpu_driver);
        }
        if (!python && f->python_version[0] && a->python_version[0] && !str_eq(f->python_version, a->python_version)) {
            python = true;
            run_note(r, n, "python3 is %s here and %s on node \"%s\"", f->python_version, a->python_version,
                     name_of(r, 0));
        }
    }
}

static void check_disks(struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = node_facts(r->lanes[n].node);
        if (!r->lanes[n].left_out && f->disk_free_bytes < DISK_MIN)
            run_note(r, n, "only %.2f GB are free at %s", (double)f->disk_free_bytes / 1e9, f->base_dir);
    }
}

/* ---- torch ---- */

static bool uses_torch(const struct run *r)
{
    const struct spec *spec = r->plan->spec;
    enum spec_entry_kind kind = spec->entrypoint.kind;
    return spec->distributed.launcher != LAUNCHER_NATIVE || spec->role_count > 0 || kind == ENTRY_SCRIPT ||
           kind == ENTRY_MODULE || kind == ENTRY_FUNCTION;
}

static void ask_torch(struct run *r)
{
    struct preflight *p = r->preflight;
    struct arena *arena = arena_create();
    for (uint32_t n = 0; n < r->plan->node_count && uses_torch(r); n++) {
        if (r->lanes[n].left_out)
            continue;
        const char *patterns[STEP_PATTERNS_MAX];
        const struct step_bind bind = run_bind(r, n);
        size_t count = step_package_patterns(r->plan, &bind, "torch", arena, patterns);
        for (size_t i = 0; i < count; i++, p->left++)
            node_glob(r->lanes[n].node, PREFLIGHT_TOKEN | (uint64_t)p->round << 8 | i, patterns[i]);
        arena_reset(arena);
    }
    arena_destroy(arena);
}

/* ".../torch-2.12.0+cpu.dist-info/METADATA"; torch-x-1.0 is another package, but pip writes that torch_x. */
static void take_version(struct asked *a, uint8_t pattern, const char *path)
{
    const char *at = strstr(path, "torch-"), *end = at ? strstr(at, ".dist-info/") : NULL;
    if (!end || (at > path && at[-1] != '/') || (*a->torch && a->pattern <= pattern))
        return;
    at += strlen("torch-");
    snprintf(a->torch, sizeof a->torch, "%.*s", (int)(end - at), at);
    a->pattern = pattern;
}

/* "2.12" */
static size_t release_len(const char *version)
{
    size_t len = strcspn(version, ".");
    return version[len] ? len + 1 + strspn(version + len + 1, "0123456789") : len;
}

static void check_torch(struct run *r)
{
    const struct asked *all = r->preflight->asked, *other = NULL;
    uint32_t first = UINT32_MAX;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        if (!*all[n].torch)
            continue;
        if (first == UINT32_MAX)
            first = n;
        size_t len = release_len(all[n].torch);
        if (len != release_len(all[first].torch) || strncmp(all[n].torch, all[first].torch, len) != 0) {
            error_set(&r->preflight->error, ERROR_JOB, "torch is %s on node \"%s\" and %s on node \"%s\"",
                      all[first].torch, name_of(r, first), all[n].torch, name_of(r, n));
            error_hint(&r->preflight->error,
                       "packages: [\"torch==%.*s.*\"] installs one version on all nodes; "
                       "preflight: off launches all the same",
                       (int)release_len(all[first].torch), all[first].torch);
            return;
        }
        if (!other && !str_eq(all[n].torch, all[first].torch))
            other = &all[n];
    }
    for (uint32_t n = 0; n < r->plan->node_count && first != UINT32_MAX; n++) {
        if (&all[n] == other)
            run_note(r, n, "torch is %s here and %s on node \"%s\"", other->torch, all[first].torch, name_of(r, first));
        if (!*all[n].torch && !r->lanes[n].left_out) {
            run_note(r, n, "torch was not found here, and on node \"%s\" it is %s", name_of(r, first),
                     all[first].torch);
            return;
        }
    }
}

/* As the table of flags has it, "2.5.1" is 205; 0 = not to be read. */
static uint32_t version_of(const char *text)
{
    unsigned major, minor;
    return sscanf(text, "%3u.%2u", &major, &minor) == 2 ? major * 100 + minor : 0;
}

static bool is_xpu(const struct run *r, uint32_t node)
{
    const struct spec_host *host = &r->plan->spec->hosts[node];
    return (host->has_nproc ? host->nproc.kind : r->plan->spec->distributed.nproc.kind) == NPROC_XPU;
}

/* The newest of the flags decides. Where no version was found, the launcher itself says so when it starts. */
static bool lacks_flag(struct run *r, uint32_t node)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    const struct asked *a = &r->preflight->asked[node];
    uint32_t have = version_of(a->torch), since = 0;
    const char *name = NULL;
    for (size_t i = 0; i < d->flag_count; i++)
        if (d->flags[i].flag->since > TORCHRUN_OLDEST && d->flags[i].flag->since > since) {
            since = d->flags[i].flag->since;
            name = d->flags[i].flag->name;
        }
    if (is_xpu(r, node) && since < TORCHRUN_XPU) {
        since = TORCHRUN_XPU;
        name = "nproc_per_node=xpu";
    }
    if (!have || have >= since)
        return false;
    error_set(&r->preflight->error, ERROR_JOB, "node \"%s\": torch %s does not have --%s; it came with %u.%u",
              name_of(r, node), a->torch, name, since / 100, since % 100);
    error_hint(&r->preflight->error, "packages: [\"torch>=%u.%u\"] installs one that has it; or leave the key out",
               since / 100, since % 100);
    return true;
}

static void check_flags(struct run *r)
{
    if (r->plan->spec->distributed.launcher != LAUNCHER_TORCHRUN)
        return;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (lacks_flag(r, n))
            return;
}

/* ---- the port ---- */

/* Where rhrun decides where the workers meet. */
static bool has_port(const struct run *r)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    return d->launcher != LAUNCHER_MPIRUN && !spec_flag_value(d, "rdzv_endpoint") &&
           !spec_flag_value(d, "standalone") && !spec_flag_value(d, "master_addr") && r->master_port > 0;
}

static void set_endpoint(struct run *r)
{
    struct node_endpoint *e = &r->preflight->endpoint;
    *e = (struct node_endpoint){.port = r->master_port};
    if (inet_pton(AF_INET, r->master_addr, e->address) == 1)
        e->len = 4;
    else if (inet_pton(AF_INET6, r->master_addr, e->address) == 1)
        e->len = 16;
}

static void probe(struct run *r, uint32_t node, enum wire_probe what)
{
    struct preflight *p = r->preflight;
    static const struct node_endpoint none;
    struct node_endpoint listen = {.port = p->endpoint.port};
    node_probe(r->lanes[node].node, p->round, what,
               what == WIRE_PROBE_CONNECT  ? &p->endpoint
               : what == WIRE_PROBE_LISTEN ? &listen
                                           : &none,
               what == WIRE_PROBE_CONNECT ? CONNECT_MS : 0);
    p->left++;
}

static void check_reached(struct run *r)
{
    struct preflight *p = r->preflight;
    struct buf names = {0};
    CLEANUP(cleanup_free) bool *lost = xcalloc(r->plan->node_count, sizeof *lost);
    uint32_t errnum = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        lost[n] = p->asked[n].errnum != 0;
        errnum = errnum ? errnum : p->asked[n].errnum;
    }
    if (!errnum)
        return;
    put_names(r, lost, &names);
    error_set(&p->error, ERROR_INFRA, "%s cannot reach port %u of node \"%s\" at %s, where the workers are to meet: %s",
              names.data, r->master_port, name_of(r, r->plan->master), r->master_addr, strerror((int)errnum));
    error_hint(&p->error,
               "open the ports between the nodes, or say by what address they reach each other: hosts: [{host: "
               "%s, address: ADDRESS}]; preflight: off launches all the same",
               r->plan->spec->hosts[r->plan->master].host);
    buf_free(&names);
}

static void check_port(struct run *r, uint32_t errnum)
{
    struct preflight *p = r->preflight;
    if (r->plan->spec->distributed.master_port == 0 && errnum == EADDRINUSE && ++p->tries < PORT_TRIES) {
        p->again = true;
        return;
    }
    error_set(&p->error, ERROR_INFRA, "port %u on node \"%s\", where the workers are to meet, cannot be had: %s",
              r->master_port, name_of(r, r->plan->master), strerror((int)errnum));
    error_hint(&p->error, "ss -ltnp there says who has it; master_port: 0 takes a free one");
}

/* ---- one after the other ---- */

static void connect_batch(struct run *r)
{
    struct preflight *p = r->preflight;
    p->phase = CONNECTING;
    for (uint32_t k = 0; k < BATCH && p->next < r->plan->node_count; k++, p->next++)
        if (!r->lanes[p->next].left_out)
            probe(r, p->next, WIRE_PROBE_CONNECT);
}

static void finish(struct run *r)
{
    struct preflight *p = r->preflight;
    p->phase = IDLE;
    if (p->again) {
        p->again = false;
        launch_ask_port(r);
        return;
    }
    check_reached(r);
    if (!p->error.code)
        check_flags(r);
    if (!p->error.code)
        check_torch(r);
    p->done = true;
    if (p->error.code)
        run_fail(r, p->error.code == ERROR_JOB ? RUN_FAILED : RUN_INFRA, &p->error);
    else
        launch_go_on(r);
}

/* All that was asked so far is answered. */
static void advance(struct run *r)
{
    struct preflight *p = r->preflight;
    bool connects = p->endpoint.len > 0 && !r->plan->spec->this_machine;
    if (p->phase == LISTENING && connects && !p->error.code && !p->again) {
        connect_batch(r);
        if (p->left == 0)
            advance(r);
    } else if (p->phase == CONNECTING && p->next < r->plan->node_count) {
        p->phase = LISTENING;
        probe(r, r->plan->master, WIRE_PROBE_LISTEN);
    } else if (p->phase == LISTENING || p->phase == CONNECTING) {
        p->phase = ENDING;
        probe(r, r->plan->master, WIRE_PROBE_END);
    } else {
        finish(r);
    }
}

static void answered(struct run *r)
{
    if (--r->preflight->left == 0)
        advance(r);
}

void preflight_probed(struct lane *lane, uint64_t token, uint32_t errnum)
{
    struct run *r = lane->run;
    struct preflight *p = r->preflight;
    if (!p || r->stage != STAGE_PREFLIGHT || token != p->round || r->failing || r->cancelling)
        return;
    if (p->phase == CONNECTING)
        p->asked[lane->index].errnum = errnum;
    else if (p->phase == LISTENING && errnum)
        check_port(r, errnum);
    answered(r);
}

bool preflight_entries(struct lane *lane, const struct wire_entries *e)
{
    struct run *r = lane->run;
    struct preflight *p = r->preflight;
    if (!(e->token & PREFLIGHT_TOKEN))
        return false;
    if (!p || r->stage != STAGE_PREFLIGHT || (e->token & ~PREFLIGHT_TOKEN) >> 8 != p->round || r->failing ||
        r->cancelling)
        return true;
    for (uint32_t i = 0; i < e->entry_count && !e->error[0]; i++)
        take_version(&p->asked[lane->index], (uint8_t)e->token, e->entries[i].path);
    if (e->last || e->error[0])
        answered(r);
    return true;
}

static void ask(struct run *r)
{
    struct preflight *p = r->preflight;
    r->stage = STAGE_PREFLIGHT;
    p->round++;
    p->phase = IDLE;
    p->left = 1; /* until all is asked */
    p->next = 0;
    p->lost = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        p->lost = p->lost || (!r->lanes[n].left_out && node_state(r->lanes[n].node) != NODE_READY);
    p->error = (struct error)ERROR_INIT;
    memset(p->asked, 0, r->plan->node_count * sizeof *p->asked);
    ask_torch(r);
    if (has_port(r)) {
        set_endpoint(r);
        p->phase = LISTENING;
        probe(r, r->plan->master, WIRE_PROBE_LISTEN);
    }
    answered(r);
}

bool preflight_begin(struct run *r)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    if (!d->present || d->no_preflight || r->plan->node_count < 2 || r->generation > 0)
        return false;
    if (!r->preflight) {
        r->preflight = xcalloc(1, sizeof *r->preflight);
        r->preflight->asked = xcalloc(r->plan->node_count, sizeof *r->preflight->asked);
    }
    if (r->preflight->done)
        return false;
    if (!r->preflight->told && !r->plan->spec->this_machine) {
        check_clocks(r);
        check_equal(r);
        check_disks(r);
    }
    r->preflight->told = true;
    ask(r);
    return true;
}

void preflight_lost(struct run *r)
{
    if (r->preflight)
        r->preflight->lost = true;
}

void preflight_again(struct run *r)
{
    if (r->preflight->lost)
        ask(r);
}

void preflight_free(struct run *r)
{
    if (r->preflight)
        free(r->preflight->asked);
    free(r->preflight);
}
