/* The state of each node's machine in a rented cluster. A cluster that an earlier process left may have lost machines
 * since: before a run begins, each machine is looked at, and a lost one is replaced. */
#include "renting.h"

#include <string.h>

enum {
    SEEN_MS = 60000,   /* if a provider cannot be asked, nothing waits longer */
    REPLACE_TRIES = 3, /* per node and process, until a machine gets ready */
};

static void say_replacing(const struct renting *r, uint32_t node)
{
    if (!r->quiet)
        renting_say(r, "renting another machine for node %u", node);
}

bool renting_replace(struct renting *r, uint32_t node, const char *text)
{
    struct renting_machine *m = &r->machines[node];
    if (m->tries >= REPLACE_TRIES || r->finished || r->failed) {
        m->is = MACHINE_NONE;
        return false;
    }
    m->tries++;
    m->is = MACHINE_AWAITED;
    m->asked_ms = wall_ms();
    say_replacing(r, node);
    rent_replace(r->cluster, node, text);
    return true;
}

static void told_lost(struct renting *r, uint32_t node, const char *text)
{
    struct renting_machine *m = &r->machines[node];
    const bool awaited = m->is == MACHINE_AWAITED;
    if ((r->replaces || awaited) && renting_replace(r, node, text))
        return;
    m->is = MACHINE_NONE;
    void (*tell)(void *arg, uint32_t node) = awaited ? r->unreplaced : r->lost;
    if (tell)
        tell(r->arg, node);
}

static void told_ready(struct renting *r, uint32_t node)
{
    struct renting_machine *m = &r->machines[node];
    const bool awaited = m->is == MACHINE_AWAITED;
    m->is = MACHINE_SEEN;
    m->tries = 0;
    if (awaited && !r->replaces && r->replaced)
        r->replaced(r->arg, node);
}

static void told_unreplaced(struct renting *r, uint32_t node, const char *why)
{
    struct renting_machine *m = &r->machines[node];
    m->is = MACHINE_NONE;
    snprintf(m->why, sizeof m->why, "%s", why);
    if (!r->replaces && r->unreplaced)
        r->unreplaced(r->arg, node);
}

/* The cluster has ended: no more replacements come. */
static void told_finished(struct renting *r)
{
    for (uint32_t i = 0; i < FLEET_NODES_MAX; i++)
        if (r->machines[i].is == MACHINE_AWAITED)
            told_unreplaced(r, i, "its cluster has ended");
}

void renting_machine_told(struct renting *r, const struct fleet_effect *e)
{
    switch (e->tell) {
    case FLEET_TELL_READY:
        if (e->slot < FLEET_NODES_MAX)
            told_ready(r, e->slot);
        break;
    case FLEET_TELL_LOST:
        told_lost(r, e->slot, e->text);
        break;
    case FLEET_TELL_UNREPLACED:
        told_unreplaced(r, e->slot, e->text ? e->text : provider_class_name(e->fault));
        break;
    case FLEET_TELL_FINISHED:
        told_finished(r);
        break;
    case FLEET_TELL_TRYING:
    case FLEET_TELL_WAITING:
    case FLEET_TELL_RETREAT:
    case FLEET_TELL_COMPLETE:
    case FLEET_TELL_NOTICE:
    case FLEET_TELL_REFUSED:
    case FLEET_TELL_DEARER:
    case FLEET_TELL_LEFT:
        break;
    }
}

static void enough(void *arg)
{
    struct renting *r = arg;
    r->asked_enough = true;
    loop_stop(r->loop);
}

/* Whether the node's state is known. A machine that the ledger has as ready counts if the provider has not answered for
 * too long. */
static bool is_known(const struct renting *r, uint32_t node)
{
    const struct fleet_slot *slot = &rent_ledger(r->cluster)->slots[node];
    switch (r->machines[node].is) {
    case MACHINE_SEEN:
    case MACHINE_NONE:
        return true;
    case MACHINE_AWAITED:
        return false;
    case MACHINE_UNSEEN:
        break;
    }
    return r->asked_enough && slot->state == FLEET_SLOT_READY;
}

static bool all_known(const struct renting *r)
{
    const struct fleet_ledger *l = rent_ledger(r->cluster);
    for (uint32_t i = 0; i < l->slot_count; i++)
        if (!is_known(r, i))
            return false;
    return true;
}

static void wait_all(struct renting *r)
{
    struct loop_timer *timer = loop_timer_create(r->loop, enough, r);
    r->asked_enough = false;
    r->settles = true;
    loop_timer_start(timer, SEEN_MS);
    renting_view_begin(r);
    while (!r->finished && !r->failed && !r->interrupted && !all_known(r))
        renting_run_loop(r);
    renting_view_end(r);
    loop_timer_destroy(timer);
    r->settles = false;
}

/* Reports what happens to the other machines, and what the same command does next. */
static void hint(const struct renting *r, struct error *err)
{
    const struct fleet_wanted *w = &rent_ledger(r->cluster)->wanted;
    if (w->down == FLEET_DOWN_ALWAYS && r->held)
        error_hint(err, "the same command tries again, and rents all machines again");
    else
        error_hint(err, "the same command tries again; rhrun down %s gives back the machines that exist", w->id);
}

static int check_all(struct renting *r, struct error *err)
{
    const struct fleet_ledger *l = rent_ledger(r->cluster);
    for (uint32_t i = 0; i < l->slot_count; i++) {
        const struct renting_machine *m = &r->machines[i];
        if (m->is == MACHINE_UNSEEN && !r->quiet)
            renting_say(r, "warning: the provider does not say whether the machine of node %u is there", i);
        if (m->is != MACHINE_NONE)
            continue;
        error_set(err, ERROR_INFRA, "the machine of node %u is gone, and no other could be rented for it%s%s", i,
                  m->why[0] ? ": " : "", m->why);
        hint(r, err);
        return -1;
    }
    return 0;
}

int renting_wait_machines(struct renting *r, struct error *err)
{
    wait_all(r);
    if (r->failed || r->finished) {
        *err = r->fault;
        if (err->code == ERROR_NONE)
            error_set(err, ERROR_INFRA, "cluster %s ended before all of its machines were seen", r->id);
        return -1;
    }
    if (!r->interrupted)
        return check_all(r, err);
    error_set(err, ERROR_INTERRUPTED, "interrupted while looking for a machine");
    hint(r, err);
    return -1;
}

int renting_look(struct cli *c, const char *job_id, struct roster *roster, const char **ret_id, struct error *err)
{
    struct fleet_ledger *l;
    if (renting_find(job_id, c->arena, ret_id, err) < 0 || (*ret_id && rent_read(*ret_id, &l, err) < 0))
        return -1;
    if (!*ret_id)
        return 0;
    int rc = renting_roster(l, c->arena, roster, err);
    fleet_ledger_destroy(l);
    return rc;
}
