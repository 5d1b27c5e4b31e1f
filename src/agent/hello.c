/*
 * HELLO: whose job is it? Decided and recorded under the job's lock, so two controllers get two different epochs
 * and the older one's agent finds itself fenced.
 */
#include "internal.h"

#include <string.h>

struct holder {
    char slot[sizeof((struct status *)0)->slot];
};

static bool find_live(void *context, const char *attempt, int dir_fd)
{
    static struct status status;
    struct holder *holder = context;
    (void)attempt;
    if (!ledger_status(dir_fd, &status) || status.state != WIRE_STATE_CLAIMED || !status_alive(dir_fd))
        return true;
    status.slot[sizeof status.slot - 1] = 0;
    snprintf(holder->slot, sizeof holder->slot, "%s", *status.slot ? status.slot : "?");
    return false;
}

/* Why the job is held by `owner`, in buf: "connection", a live attempt's slot, or "" if it is not held. */
static void held_by(struct ledger *l, const char *owner, struct holder *ret)
{
    ret->slot[0] = 0;
    if (ledger_connected(l, owner))
        snprintf(ret->slot, sizeof ret->slot, "connection");
    else
        ledger_each(l, find_live, ret);
}

/* Under the lock. */
static int own(struct ledger *l, const struct wire_hello *h, struct arena *arena, struct buf *out, struct error *err)
{
    char *owner, *name;
    uint64_t epoch;
    if (ledger_epoch(l, &epoch, err) < 0)
        return -1;
    ledger_owner(l, arena, &owner, &name);
    /* The owner's old agent may still serve a dead connection: the new epoch ends that agent. */
    bool same = str_eq(owner, l->owner);
    if (!same && *owner && h->mode == WIRE_OWN) {
        struct holder holder;
        held_by(l, owner, &holder);
        if (*holder.slot) {
            size_t frame = wire_begin(out, WIRE_HELD);
            wire_put_string(out, name);
            wire_put_string(out, holder.slot);
            wire_put_u64(out, epoch);
            wire_end(out, frame);
            return 0;
        }
    }
    /* The owner first: if the disk is full this fails, and then nobody is fenced. */
    if ((!same && ledger_owner_set(l, l->owner, h->owner_name, err) < 0) || ledger_epoch_set(l, epoch + 1, err) < 0 ||
        ledger_connect(l, err) < 0)
        return -1;
    return 1;
}

int hello_answer(struct ledger *l, const struct wire_hello *h, struct arena *arena, struct buf *out, struct error *err)
{
    if (ledger_open(l, h, arena, err) < 0)
        return -1;
    int rc;
    if (l->read_only) {
        rc = ledger_epoch(l, &l->epoch, err) < 0 ? -1 : 1;
    } else {
        rc = ledger_lock(l, err);
        if (rc == 0) {
            rc = own(l, h, arena, out, err);
            ledger_unlock(l);
        }
    }
    if (rc <= 0) {
        ledger_close(l);
        return rc;
    }
    struct wire_facts facts;
    memset(&facts, 0, sizeof facts);
    facts_read(l->base, arena, &facts);
    facts.version = WIRE_VERSION;
    facts.epoch = l->epoch;
    facts.install = l->install;
    facts.boot_id = l->boot_id;
    facts.container = l->container;
    facts.home_id = l->home_id;
    facts.base_dir = l->base;
    facts.work_dir = l->work_dir;
    l->shell = facts.shell;
    wire_put_facts(out, &facts);
    return 1;
}
