/* Attempts that are not in this journal: those of another controller, with a state directory of its own. Each reading
 * of the journal begins where the last one ended, and happens only on demand: when a node's latest attempt of a step is
 * not the one recorded here. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

struct known {
    char (*ids)[WIRE_ID_LEN + 1]; /* sorted */
    size_t count, capacity;
    uint64_t sequence; /* of the last event that was read */
};

static void know(struct known *k, const char *attempt)
{
    if (!attempt || strlen(attempt) != WIRE_ID_LEN)
        return;
    if (k->count == k->capacity) {
        k->capacity = k->capacity ? 2 * k->capacity : 64;
        k->ids = xreallocarray(k->ids, k->capacity, sizeof *k->ids);
    }
    memcpy(k->ids[k->count++], attempt, WIRE_ID_LEN + 1);
}

static bool read_event(void *arg, const struct event *e)
{
    struct known *k = arg;
    k->sequence = e->seq;
    if (e->type == EVENT_FINISHED)
        know(k, e->finished.attempt);
    for (uint32_t i = 0; e->type == EVENT_STARTED && i < e->started.attempt_count; i++)
        know(k, e->started.attempts[i].attempt);
    return true;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, WIRE_ID_LEN + 1);
}

static bool is_stranger(struct run *r, const char *attempt)
{
    char id[WIRE_ID_LEN + 1] = "";
    if (!r->hands->known)
        r->hands->known = xcalloc(1, sizeof *r->hands->known);
    struct known *k = r->hands->known;
    const size_t had = k->count;
    if (strlen(attempt) != WIRE_ID_LEN || !r->hands->session->journal ||
        journal_each(r->hands->session->journal, k->sequence, read_event, k, NULL) < 0)
        return false;
    if (k->count != had)
        qsort(k->ids, k->count, sizeof *k->ids, compare);
    memcpy(id, attempt, sizeof id);
    return !k->count || !bsearch(id, k->ids, k->count, sizeof *k->ids, compare);
}

bool run_is_stranger(struct run *r, const char *attempt)
{
    bool answer = is_stranger(r, attempt);
    trace(r, "> stranger %s %d", attempt, answer);
    return answer;
}

void run_forget_known(struct run *r)
{
    if (r->hands->known)
        free(r->hands->known->ids);
    free(r->hands->known);
}
