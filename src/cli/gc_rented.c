/* gc: gives back machines that nobody uses any more, and machines that no ledger knows. */
#include "gcing.h"
#include "renting.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 30, ROUND_MS = 2000, TOGETHER_MAX = 10000 };

struct giving {
    struct cli *c;
    struct loop *loop;
    struct renting renting;
    uint32_t done, todo, left; /* clusters; machines that no ledger knows */
    /* of a sweep */
    struct rent_sweep *sweep;
    struct loop_timer *pause;
    const char *provider, *region;
    const char *owner;
    struct provider_machine *orphans;
    size_t orphan_count, next;
    uint32_t rounds;
    struct error fault;
};

static void on_signal(void *arg, int signum)
{
    struct giving *g = arg;
    (void)signum;
    error_set(&g->fault, ERROR_INTERRUPTED, "interrupted");
    renting_interrupt(&g->renting);
    loop_stop(g->loop);
}

/* ---- clusters of this machine ---- */

static int one_cluster(struct giving *g, const char *id, struct error *err)
{
    struct fleet_ledger *l;
    if (rent_is_over(id))
        return 0;
    if (rent_read(id, &l, err) < 0)
        return -1;
    const enum deed deed = renting_deed(l);
    const bool over = renting_ends(l, deed);
    const char *name = arena_strdup(g->c->arena, l->wanted.name);
    const char *stage = fleet_stage_name(l->stage);
    fleet_ledger_destroy(l);
    if (deed == DEED_NONE)
        return 0;
    if (!g->c->given[OPT_YES]) {
        g->todo += over;
        if (over && !g->c->given[OPT_QUIET])
            fprintf(stderr, "rhrun: cluster %s (%s, %s) is to be given back\n", id, name, stage);
        return 0;
    }
    if (renting_do(&g->renting, id, name, deed, err) == 0) {
        g->done += over;
        return 0;
    }
    if (err->code != ERROR_HELD)
        return -1;
    if (g->c->given[OPT_VERBOSE])
        fprintf(stderr, "rhrun: cluster %s is in use\n", id);
    return 0;
}

static int all_clusters(struct giving *g, struct error *err)
{
    const char *const *ids;
    int rc = 0;
    if (journal_clusters(g->c->arena, &ids, err) < 0)
        return -1;
    for (; *ids && g->fault.code == ERROR_NONE; ids++) {
        struct error why = ERROR_INIT;
        if (one_cluster(g, *ids, &why) == 0 || why.why == ERROR_WHY_ABSENT)
            continue;
        cli_print_error(g->c, &why);
        rc = error_set(err, why.code, "not all could be given back");
    }
    return rc;
}

/* ---- machines that no ledger knows ---- */

enum known { UNKNOWN, KNOWN, UNREADABLE /* it may be in use: only machines past their time are deleted */ };

static enum known known_of(const char *run)
{
    struct fleet_ledger *l;
    struct error err = ERROR_INIT;
    if (rent_read(run, &l, &err) < 0)
        return err.why == ERROR_WHY_ABSENT || err.code == ERROR_USAGE ? UNKNOWN : UNREADABLE;
    const bool known = l->stage != FLEET_STAGE_OVER && l->stage != FLEET_STAGE_NONE;
    fleet_ledger_destroy(l);
    return known ? KNOWN : UNKNOWN;
}

static bool is_expired(const struct provider_machine *m)
{
    uint64_t at_s;
    return m->expires && parse_u64(m->expires, &at_s) && at_s > 0 && at_s * 1000 < wall_ms();
}

static const char *text(struct giving *g, const char *s)
{
    char *copy = arena_strdup(g->c->arena, s ? s : "");
    str_printable(copy);
    return copy;
}

static void keep_orphan(struct giving *g, const struct provider_machine *m)
{
    struct provider_machine *o = &g->orphans[g->orphan_count++];
    *o = (struct provider_machine){.id = text(g, m->id),
                                   .name = m->name ? text(g, m->name) : NULL,
                                   .zone = m->zone ? text(g, m->zone) : NULL,
                                   .run = m->run ? text(g, m->run) : NULL,
                                   .owner = m->owner ? text(g, m->owner) : NULL,
                                   .expires = m->expires ? text(g, m->expires) : NULL};
}

static bool is_to_go(const struct giving *g, const struct provider_machine *m, enum known known)
{
    return str_eq(m->owner, g->owner) && (is_expired(m) || (g->c->given[OPT_ALL] && known == UNKNOWN));
}

static void say_orphan(struct giving *g, const struct provider_machine *m, enum known known)
{
    const bool ours = str_eq(m->owner, g->owner);
    fprintf(stderr, "rhrun: %s %s %s (run %s, of %s%s): %s%s\n", g->provider, g->region, text(g, m->id),
            text(g, m->run), m->owner ? text(g, m->owner) : "?", is_expired(m) ? ", past its time" : "",
            known == UNREADABLE ? "its ledger here cannot be read" : "it is in no ledger here",
            !ours                   ? "; it belongs to another owner"
            : is_to_go(g, m, known) ? ""
            : known == UNREADABLE   ? "; its time is not over, so it is left alone"
                                    : "; its time is not over: --all deletes it, too");
}

static void next_delete(struct giving *g);
static void begin_sweep(void *arg);

static void on_swept(void *arg, const struct provider_machine *machines, size_t count, const struct error *err)
{
    struct giving *g = arg;
    g->sweep = NULL;
    if (err) {
        g->fault = *err;
        loop_stop(g->loop);
        return;
    }
    g->orphan_count = g->next = 0;
    g->orphans = arena_array(g->c->arena, count + 1, sizeof *g->orphans);
    for (size_t i = 0; i < count && i < TOGETHER_MAX; i++) {
        const struct provider_machine *m = &machines[i];
        const enum known known = m->run ? known_of(m->run) : KNOWN;
        if (!m->id || m->state == PROVIDER_STATE_GONE || known == KNOWN)
            continue;
        if (g->rounds == 0)
            say_orphan(g, m, known);
        if (is_to_go(g, m, known))
            keep_orphan(g, m);
    }
    g->left = (uint32_t)g->orphan_count;
    if (g->orphan_count == 0 || !g->c->given[OPT_YES] || ++g->rounds > ROUNDS_MAX)
        loop_stop(g->loop);
    else
        next_delete(g);
}

static void on_deleted(void *arg, const struct provider_machine *machines, size_t count, const struct error *err)
{
    struct giving *g = arg;
    (void)machines, (void)count;
    g->sweep = NULL;
    if (err && g->rounds == 1)
        cli_print_error(g->c, err);
    g->next++;
    next_delete(g);
}

/* Deletes until the list shows none. */
static void next_delete(struct giving *g)
{
    if (g->next < g->orphan_count)
        g->sweep = rent_delete(g->renting.rent, g->provider, g->region, &g->orphans[g->next], on_deleted, g);
    else
        loop_timer_start(g->pause, ROUND_MS);
}

static void begin_sweep(void *arg)
{
    struct giving *g = arg;
    g->sweep = rent_sweep(g->renting.rent, g->provider, g->region, on_swept, g);
}

static int sweep(struct giving *g, const char *provider, const char *region, struct error *err)
{
    g->provider = provider;
    g->region = region;
    g->rounds = 0;
    loop_timer_start(g->pause, 0);
    loop_run(g->loop);
    rent_sweep_end(g->sweep);
    g->sweep = NULL;
    loop_timer_stop(g->pause);
    *err = g->fault;
    if (err->code != ERROR_INTERRUPTED)
        g->fault = (struct error)ERROR_INIT;
    if (err->code != ERROR_NONE && !region[0] && !err->hint[0])
        error_hint(err, "if the provider has regions, --region names one; it can be given more than once");
    if (err->code != ERROR_NONE)
        return -1;
    if (g->c->given[OPT_YES] && g->left > 0)
        return error_set(err, ERROR_INFRA, "%s %s: %u machine%s may still be there", provider, region, g->left,
                         g->left == 1 ? "" : "s");
    g->todo += g->c->given[OPT_YES] ? 0 : g->left;
    return 0;
}

static void add_region(struct giving *g, const char **regions, size_t *count, const char *region)
{
    for (size_t i = 0; i < *count; i++)
        if (str_eq(regions[i], region))
            return;
    if (*count < 100)
        regions[(*count)++] = arena_strdup(g->c->arena, region);
}

/* The regions of --region, else those in which this machine had a cluster. */
static size_t regions_of(struct giving *g, const char *provider, const char **regions)
{
    const char *const *ids;
    struct cli *c = g->c;
    size_t count = 0;
    for (size_t i = 0; i < c->value_count[OPT_REGION]; i++)
        add_region(g, regions, &count, c->values[OPT_REGION][i]);
    if (count == 0 && journal_clusters(c->arena, &ids, NULL) == 0)
        for (; *ids; ids++) {
            struct fleet_ledger *l;
            if (rent_read(*ids, &l, NULL) < 0)
                continue;
            for (uint32_t i = 0; i < l->order_count; i++)
                if (str_eq(l->wanted.offers[l->orders[i].offer].provider, provider))
                    add_region(g, regions, &count, l->wanted.offers[l->orders[i].offer].region);
            fleet_ledger_destroy(l);
        }
    if (count == 0)
        regions[count++] = "";
    return count;
}

/* Without --region, names the regions that are asked: machines may be in others. */
static void say_regions(const struct giving *g, const char *provider, const char *const *regions, size_t count)
{
    struct buf b = {0};
    for (size_t i = 0; i < count; i++)
        buf_printf(&b, "%s%s", i ? ", " : "", regions[i]);
    if (b.len && !g->c->value_count[OPT_REGION] && !g->c->given[OPT_QUIET])
        fprintf(stderr,
                "rhrun: %s is asked in the regions where this machine had clusters: %s; --region names others\n",
                provider, b.data);
    buf_free(&b);
}

/* Asks all providers, even if one fails. */
static int sweeps(struct giving *g, struct error *err)
{
    struct cli *c = g->c;
    const char *regions[100];
    int rc = 0;
    if (!c->value_count[OPT_PROVIDER])
        return 0;
    g->pause = loop_timer_create(g->loop, begin_sweep, g);
    if (renting_connect(&g->renting, err) < 0)
        return -1;
    for (size_t i = 0; i < c->value_count[OPT_PROVIDER]; i++) {
        const char *provider = c->values[OPT_PROVIDER][i];
        const size_t count = regions_of(g, provider, regions);
        say_regions(g, provider, regions, count);
        for (size_t k = 0; k < count && g->fault.code == ERROR_NONE; k++) {
            struct error why = ERROR_INIT;
            if (sweep(g, provider, regions[k], &why) == 0)
                continue;
            if (rc < 0)
                cli_print_error(c, err);
            *err = why;
            rc = -1;
        }
    }
    return rc;
}

int gc_rented(struct cli *c, uint32_t *ret_todo, struct error *err)
{
    struct giving g = {.c = c, .loop = loop_create(), .owner = cli_rent_owner(c->arena)};
    renting_begin(&g.renting, c, g.loop);
    struct loop_signal *interrupt = loop_signal_create(g.loop, SIGINT, on_signal, &g, NULL);
    struct loop_signal *term = loop_signal_create(g.loop, SIGTERM, on_signal, &g, NULL);
    struct loop_signal *hangup = renting_hold_on(g.loop);
    int rc = all_clusters(&g, err);
    struct error why = ERROR_INIT;
    if (g.fault.code == ERROR_NONE && sweeps(&g, &why) < 0) {
        *err = why;
        rc = -1;
    }
    if (rc == 0 && !c->given[OPT_QUIET] && !c->given[OPT_YES])
        fprintf(stderr, g.todo ? "rhrun: %u to give back: rhrun gc --yes does it\n" : "rhrun: nothing to give back\n",
                g.todo);
    if (rc == 0 && !c->given[OPT_QUIET] && c->given[OPT_YES] && g.done == 0 && !c->value_count[OPT_PROVIDER])
        fprintf(stderr, "rhrun: nothing to give back\n");
    renting_end(&g.renting);
    loop_timer_destroy(g.pause);
    loop_signal_destroy(interrupt);
    loop_signal_destroy(term);
    loop_signal_destroy(hangup);
    loop_destroy(g.loop);
    *ret_todo = g.todo;
    return rc;
}
