/* rhrun up, clusters: rented machines. */
#include "renting.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- up ---- */

static void on_signal(void *arg, int signum)
{
    (void)signum;
    renting_interrupt(arg);
}

static void put_machines(const struct fleet_ledger *l, struct buf *b)
{
    for (uint32_t i = 0; i < l->slot_count; i++) {
        if (l->slots[i].machine == FLEET_NONE)
            continue;
        const struct fleet_machine *m = &l->machines[l->slots[i].machine];
        buf_printf(b, "  node %u  %s %s%s%.40s%s%s\n", i, m->provider, m->region, m->region[0] ? " " : "", m->id,
                   m->address && m->address[0] ? "  " : "", m->address ? m->address : "");
    }
}

static void say_up(struct cli *c, const struct fleet_ledger *l)
{
    struct buf b = {0};
    char when[32];
    put_machines(l, &b);
    cli_time(l->wanted.deadline_ms, when);
    if (!c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: cluster %s is up%s%s\n%s  to give it back: rhrun down %s\n", l->wanted.id,
                l->wanted.deadline_ms ? ", until " : "", l->wanted.deadline_ms ? when : "", b.data ? b.data : "",
                l->wanted.id);
    buf_free(&b);
}

static int up(struct cli *c, struct spec *spec, struct loop *loop, struct error *err)
{
    struct renting r;
    struct journal *journal = NULL;
    char job[17];
    renting_begin(&r, c, loop);
    struct loop_signal *interrupt = loop_signal_create(loop, SIGINT, on_signal, &r, NULL);
    struct loop_signal *term = loop_signal_create(loop, SIGTERM, on_signal, &r, NULL);
    struct loop_signal *hangup = renting_hold_on(loop);
    struct roster *roster = roster_create(spec, c->arena);
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), job);
    /* With the job's lock, no run and no other `up` rents for it meanwhile. */
    int rc = journal_open(loop, spec_id_name(spec), spec_id_origin(spec), cli_owner_name(c->arena), &journal, err);
    if (rc == 0)
        rc = renting_reconcile(&r, job, false, err);
    if (rc == 0)
        rc = renting_up(&r, spec, roster, job, NULL, err);
    if (rc == 0)
        say_up(c, rent_ledger(r.cluster));
    renting_end(&r);
    journal_close(journal);
    loop_signal_destroy(interrupt);
    loop_signal_destroy(term);
    loop_signal_destroy(hangup);
    return rc;
}

static int cmd_up(struct cli *c)
{
    struct spec *spec;
    struct error err = ERROR_INIT;
    int rc = cli_load_spec(c, c->words[0], &spec);
    if (rc)
        return rc;
    if (spec->rent && spec->rent->cluster) {
        error_set(&err, ERROR_SPEC, "\"%s\" rents no machines: it uses those of cluster %s", spec->path,
                  spec->rent->cluster);
        error_hint(&err, "use rhrun up with the spec that rents that cluster");
        return cli_fail(c, &err);
    }
    if (!spec->rent) {
        error_set(&err, ERROR_SPEC, "\"%s\" rents no machines", spec->path);
        error_hint(&err, "cluster.instance, or cluster.provider, says which machines to rent");
        return cli_fail(c, &err);
    }
    struct loop *loop = loop_create();
    rc = up(c, spec, loop, &err) < 0 ? cli_fail(c, &err) : 0;
    loop_destroy(loop);
    return rc;
}

/* ---- clusters ---- */

static const char *held_text(const struct fleet_ledger *l, struct arena *arena)
{
    return l->held_by ? arena_printf(arena, "held by %s", l->held_by) : "";
}

static uint32_t machines_left(const struct fleet_ledger *l)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < l->machine_count; i++)
        left += l->machines[i].state != FLEET_MACHINE_GONE;
    for (uint32_t i = 0; i < l->order_count; i++)
        left += l->orders[i].closed ? 0 : l->orders[i].count - l->orders[i].machines;
    return left;
}

static void put_cluster(struct cli *c, const struct fleet_ledger *l, struct buf *b)
{
    char until[32];
    const struct fleet_wanted *w = &l->wanted;
    const uint64_t now = wall_ms();
    buf_printf(b, "%s  %s  %s  %u machine%s  ", w->id, w->name, fleet_stage_name(l->stage), machines_left(l),
               machines_left(l) == 1 ? "" : "s");
    renting_put_usd(b, fleet_rate(l));
    buf_puts(b, " an hour, ");
    renting_put_usd(b, fleet_cost(l, now));
    buf_puts(b, " so far");
    cli_time(w->deadline_ms, until);
    if (w->deadline_ms)
        buf_printf(b, ", until %s", until);
    const char *held = held_text(l, c->arena);
    buf_printf(b, "%s%s\n", held[0] ? ", " : "", held);
    if (l->stage != FLEET_STAGE_OVER)
        put_machines(l, b);
}

static void put_text_member(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, ",\"%s\":", key);
    if (value)
        buf_json_string(b, value, strlen(value));
    else
        buf_puts(b, "null");
}

static void put_json(const struct fleet_ledger *l, struct buf *b)
{
    static const char *const states[] = {"created", "ready", "returning", "gone"};
    const struct fleet_wanted *w = &l->wanted;
    buf_printf(b, "{\"id\":\"%s\"", w->id);
    put_text_member(b, "name", w->name);
    put_text_member(b, "stage", fleet_stage_name(l->stage));
    put_text_member(b, "held_by", l->held_by);
    buf_printf(b, ",\"usd_per_hour\":%.6f,\"usd_so_far\":%.6f", (double)fleet_rate(l) / 1e6,
               (double)fleet_cost(l, wall_ms()) / 1e6);
    buf_printf(b, ",\"deadline_ms\":%llu,\"machines\":[", (unsigned long long)w->deadline_ms);
    for (uint32_t i = 0; i < l->machine_count; i++) {
        const struct fleet_machine *m = &l->machines[i];
        buf_printf(b, "%s{\"state\":\"%s\"", i ? "," : "", states[m->state]);
        if (m->slot == FLEET_NONE)
            buf_puts(b, ",\"node\":null");
        else
            buf_printf(b, ",\"node\":%u", m->slot);
        put_text_member(b, "provider", m->provider);
        put_text_member(b, "region", m->region);
        put_text_member(b, "machine", m->id);
        put_text_member(b, "name", m->name);
        put_text_member(b, "address", m->address);
        buf_puts(b, "}");
    }
    buf_puts(b, "]}");
}

static int each_cluster(struct cli *c, struct buf *b, size_t *ret_count, struct error *err)
{
    const char *const *ids;
    size_t count = 0, unreadable = 0;
    if (journal_clusters(c->arena, &ids, err) < 0)
        return -1;
    for (; *ids; ids++) {
        struct fleet_ledger *l;
        struct error why = ERROR_INIT;
        if (rent_read(*ids, &l, &why) < 0) {
            if (why.why == ERROR_WHY_ABSENT) /* its rhrun was killed before the first event: nothing was rented */
                continue;
            cli_print_error(c, &why);
            unreadable++;
            continue;
        }
        if (l->stage != FLEET_STAGE_NONE && (c->given[OPT_ALL] || l->stage != FLEET_STAGE_OVER)) {
            if (c->given[OPT_JSON] && count > 0)
                buf_putc(b, ',');
            if (c->given[OPT_JSON])
                put_json(l, b);
            else
                put_cluster(c, l, b);
            count++;
        }
        fleet_ledger_destroy(l);
    }
    *ret_count = count;
    return unreadable
               ? error_set(err, ERROR_IO, "%zu ledger%s could not be read", unreadable, unreadable == 1 ? "" : "s")
               : 0;
}

static int cmd_clusters(struct cli *c)
{
    struct error err = ERROR_INIT;
    struct buf b = {0};
    size_t count = 0;
    int rc = each_cluster(c, &b, &count, &err);
    if (c->given[OPT_JSON])
        printf("[%s]\n", b.data ? b.data : "");
    else if (count > 0)
        fputs(b.data, stdout);
    else if (rc == 0 && !c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: no machines are rented%s\n", c->given[OPT_ALL] ? "" : " (--all shows earlier ones)");
    buf_free(&b);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

static const enum cli_option_id up_options[] = {OPT_SET, OPT_PARAM, OPT_ON, OPT_YES, OPT_COUNT};
const struct cli_command cmd_up_command = {
    "up",
    "SPEC",
    "Rent the job's machines, and keep them",
    "The next run of the job uses them. The time limits of the spec (max_hours, down)\n"
    "count from now on; rhrun down gives the machines back. After a crash, run this\n"
    "again: it finds the machines that exist. After Ctrl-C, machines that were begun\n"
    "are given back.",
    up_options,
    1,
    1,
    true,
    cmd_up};
static const enum cli_option_id clusters_options[] = {OPT_ALL, OPT_COUNT};
const struct cli_command cmd_clusters_command = {
    "clusters",
    "",
    "List rented machines, with what they cost",
    "Reads the ledgers of this machine and asks no provider. With --all also lists\n"
    "machines that were given back.",
    clusters_options,
    0,
    0,
    false,
    cmd_clusters};
