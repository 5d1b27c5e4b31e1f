/* The legal transitions: of the ledger's states (apply.c refuses an event whose transition is not in a table here), and
 * of this process's view of a create. A transition of a view that is not in its table is a bug in rhrun and ends the
 * program. */
#include "internal.h"

#include <stdlib.h>

#define BIT(x) (1u << (x))

bool stage_may(enum fleet_stage from, enum fleet_stage to)
{
    static const unsigned legal[] = {
        [FLEET_STAGE_NONE] = BIT(FLEET_STAGE_RENTING),
        [FLEET_STAGE_RENTING] = BIT(FLEET_STAGE_RETREATING) | BIT(FLEET_STAGE_COMPLETE) | BIT(FLEET_STAGE_ENDING),
        [FLEET_STAGE_RETREATING] = BIT(FLEET_STAGE_RENTING) | BIT(FLEET_STAGE_ENDING),
        [FLEET_STAGE_COMPLETE] = BIT(FLEET_STAGE_ENDING),
        [FLEET_STAGE_ENDING] = BIT(FLEET_STAGE_OVER),
        [FLEET_STAGE_OVER] = 0,
    };
    return legal[from] & BIT(to);
}

bool slot_may(enum fleet_slot_state from, enum fleet_slot_state to)
{
    static const unsigned legal[] = {
        [FLEET_SLOT_OPEN] = BIT(FLEET_SLOT_ORDERED),
        [FLEET_SLOT_ORDERED] = BIT(FLEET_SLOT_MADE) | BIT(FLEET_SLOT_LOST) | BIT(FLEET_SLOT_ANEW),
        [FLEET_SLOT_MADE] = BIT(FLEET_SLOT_READY) | BIT(FLEET_SLOT_LOST) | BIT(FLEET_SLOT_ANEW),
        [FLEET_SLOT_READY] = BIT(FLEET_SLOT_LOST) | BIT(FLEET_SLOT_ANEW),
        [FLEET_SLOT_LOST] = BIT(FLEET_SLOT_ANEW),
        [FLEET_SLOT_ANEW] = BIT(FLEET_SLOT_ORDERED) | BIT(FLEET_SLOT_LOST),
    };
    return legal[from] & BIT(to);
}

bool machine_may(enum fleet_machine_state from, enum fleet_machine_state to)
{
    static const unsigned legal[] = {
        [FLEET_MACHINE_CREATED] = BIT(FLEET_MACHINE_READY) | BIT(FLEET_MACHINE_RETURNING) | BIT(FLEET_MACHINE_GONE),
        [FLEET_MACHINE_READY] = BIT(FLEET_MACHINE_READY) /* it has another address */ | BIT(FLEET_MACHINE_RETURNING) |
                                BIT(FLEET_MACHINE_GONE),
        [FLEET_MACHINE_RETURNING] = BIT(FLEET_MACHINE_GONE),
        [FLEET_MACHINE_GONE] = BIT(FLEET_MACHINE_RETURNING), /* the list shows it again */
    };
    return legal[from] & BIT(to);
}

void order_set(struct fleet *f, uint32_t order, enum order_state to)
{
    static const unsigned legal[] = {
        [ORDER_INTENDED] = BIT(ORDER_SENT) | BIT(ORDER_DOUBT) /* replayed */ | BIT(ORDER_CLOSED),
        [ORDER_SENT] = BIT(ORDER_WAITING) | BIT(ORDER_DOUBT) | BIT(ORDER_CLOSED),
        [ORDER_WAITING] = BIT(ORDER_SENT) | BIT(ORDER_CLOSED),
        [ORDER_DOUBT] = BIT(ORDER_SENT) | BIT(ORDER_CLOSED),
        [ORDER_CLOSED] = 0,
    };
    struct order_view *v = &f->orders[order];
    if (!(legal[v->state] & BIT(to)))
        abort();
    v->state = to;
    v->since_ms = f->now.mono_ms;
    v->absences = 0;
    f->decided++;
}

/* ---- requests ---- */

void ask_sent(struct fleet *f, struct ask *a)
{
    a->state = ASK_SENT;
    a->sent_ms = f->now.mono_ms;
}

void ask_answered(struct fleet *f, struct ask *a, bool good, uint64_t next_ms)
{
    a->state = ASK_IDLE;
    a->faults = good ? 0 : a->faults + 1;
    a->next_ms = f->now.mono_ms + (good ? next_ms : pause_ms(a->faults, next_ms));
}

bool ask_may(struct fleet *f, struct ask *a)
{
    return has_come(f, a->state == ASK_SENT ? a->sent_ms + FLEET_ASK_MS : a->next_ms);
}
