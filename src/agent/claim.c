/*
 * Which attempts may be live, and whether a new one may begin: under the job's lock, while our epoch counts.
 */
#include "server.h"

#include <string.h>

bool server_fenced(struct server *s)
{
    struct error err = ERROR_INIT;
    uint64_t epoch;
    if (s->closing)
        return true;
    if (ledger_epoch(&s->ledger, &epoch, &err) < 0) {
        out_fault(&s->out, "", "%s", err.text);
        s->closing = true;
        s->exit_status = 1;
        return true;
    }
    if (epoch == s->ledger.epoch)
        return false;
    char *owner, *name;
    ledger_owner(&s->ledger, s->arena, &owner, &name);
    size_t frame = wire_begin(&s->out.control, WIRE_FENCED);
    wire_put_u64(&s->out.control, epoch);
    wire_put_string(&s->out.control, name);
    wire_end(&s->out.control, frame);
    s->closing = true;
    return true;
}

bool server_begin(struct server *s, const char *attempt)
{
    struct error err = ERROR_INIT;
    if (ledger_lock(&s->ledger, &err) < 0) {
        out_fault(&s->out, attempt, "%s", err.text);
        return false;
    }
    if (!server_fenced(s))
        return true;
    ledger_unlock(&s->ledger);
    return false;
}

/* ---- which attempts may be live ---- */

void server_claimed(struct server *s, const char *attempt, const char *slot)
{
    if (s->live_count == s->live_cap) {
        s->live_cap = s->live_cap ? 2 * s->live_cap : 8;
        s->live = xreallocarray(s->live, s->live_cap, sizeof *s->live);
    }
    struct live *l = &s->live[s->live_count++];
    snprintf(l->attempt, sizeof l->attempt, "%s", attempt);
    snprintf(l->slot, sizeof l->slot, "%s", slot);
}

/* Claimed, but its agent or supervisor died before any worker was started: the same as no claim. This holds for this
 * boot only: for another boot's claim, data in the page cache may have been lost. */
bool server_never_started(const struct ledger *l, int dir_fd, struct status *status)
{
    if (status->state != WIRE_STATE_CLAIMED || status->start_mono_ns || status_alive(dir_fd))
        return false;
    /* first the lock, then the state, which nobody can write any more */
    return ledger_status(dir_fd, status) && status->state == WIRE_STATE_CLAIMED && !status->start_mono_ns &&
           status_is_of_boot(status, l->boot_id);
}

static bool live_scan(void *context, const char *attempt, int dir_fd)
{
    static struct status status;
    struct server *s = context;
    if (!ledger_status(dir_fd, &status))
        return true;
    if (status.sequence > s->sequence)
        s->sequence = status.sequence;
    if (status.state == WIRE_STATE_CLAIMED) {
        status.slot[sizeof status.slot - 1] = 0;
        server_claimed(s, attempt, status.slot);
    }
    return true;
}

bool server_live(struct server *s, const char *attempt)
{
    static struct status status;
    struct error err = ERROR_INIT;
    CLEANUP(cleanup_close) int dir_fd = ledger_attempt(&s->ledger, attempt);
    if (dir_fd < 0 || !ledger_status(dir_fd, &status) || status.state != WIRE_STATE_CLAIMED)
        return false;
    if (status_alive(dir_fd))
        return true;
    if (server_never_started(&s->ledger, dir_fd, &status))
        return false;
    int rc = status_mark_lost(dir_fd, attempt, &err);
    if (rc < 0)
        out_fault(&s->out, attempt, "%s", err.text);
    return rc > 0;
}

/* The live attempt in a slot, or NULL; s->sequence is known afterwards. Under the lock. */
static const struct live *live_in_slot(struct server *s, const char *slot)
{
    if (!s->live_known)
        ledger_each(&s->ledger, live_scan, s);
    s->live_known = true;
    for (size_t i = 0; i < s->live_count;) {
        if (strcmp(s->live[i].slot, slot) != 0) {
            i++;
        } else if (server_live(s, s->live[i].attempt)) {
            return &s->live[i];
        } else {
            s->live[i] = s->live[--s->live_count];
        }
    }
    return NULL;
}

/* If the attempt's folder exists, its record is sent and the attempt is attached. False: the folder was only left by a
 * claim that started nothing, and was removed. */
static bool known(struct server *s, const char *attempt, struct arena *scratch)
{
    static struct status status;
    struct error err = ERROR_INIT;
    struct wire_record record;
    CLEANUP(cleanup_close) int dir_fd = ledger_attempt(&s->ledger, attempt);
    if (dir_fd < 0)
        return false;
    bool claimed = ledger_status(dir_fd, &status);
    if (claimed ? server_never_started(&s->ledger, dir_fd, &status) : !status_alive(dir_fd)) {
        struct stream *stream = stream_find(&s->streams, attempt);
        if (stream)
            stream_detach(&s->streams, stream);
        if (ledger_forget(&s->ledger, attempt, &err) == 0)
            return false;
        out_fault(&s->out, attempt, "%s", err.text);
        return true;
    }
    if (stream_record(&s->ledger, attempt, dir_fd, scratch, &record, &err) < 0 ||
        (!stream_find(&s->streams, attempt) && stream_attach(&s->streams, &s->ledger, attempt, 0, &err) < 0))
        out_fault(&s->out, attempt, "%s", err.text);
    else
        wire_put_record(&s->out.control, WIRE_RECORD, &record);
    return true;
}

bool server_claimable(struct server *s, const char *attempt, const char *slot, struct arena *scratch)
{
    if (known(s, attempt, scratch))
        return false;
    const struct live *other = live_in_slot(s, slot);
    if (!other)
        return true;
    size_t frame = wire_begin(&s->out.control, WIRE_BUSY);
    wire_put_string(&s->out.control, attempt);
    wire_put_string(&s->out.control, other->attempt);
    wire_put_string(&s->out.control, slot);
    wire_end(&s->out.control, frame);
    return false;
}
