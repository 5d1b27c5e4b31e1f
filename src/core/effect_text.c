/* Writes an effect in the form of a line of a trace. */
#include "internal.h"

#include <inttypes.h>
#include <string.h>

static void put_text(struct buf *b, const char *text)
{
    buf_putc(b, ' ');
    if (text)
        buf_json_string(b, text, strlen(text));
    else
        buf_puts(b, "null");
}

void effect_text(const struct effect *e, struct buf *ret)
{
    static const char *const names[] = {"connect",   "greet",     "give_up",        "replace", "refuse",
                                        "attach",    "signal",    "judge_good",     "settle",  "forget",
                                        "ask_port",  "preflight", "preflight_join", "fetch",   "fetch_stop",
                                        "ask_rank0", "look"};
    buf_printf(ret, "%" PRIu32 " %s", e->node, names[e->kind]);
    if (e->kind == EFFECT_GREET)
        put_text(ret, e->work);
    if (e->kind == EFFECT_REFUSE)
        put_text(ret, e->error->text);
    if (e->attempt)
        put_text(ret, e->attempt);
    if (e->kind == EFFECT_ATTACH)
        buf_printf(ret, " %" PRIu64, e->offset);
    if (e->kind == EFFECT_SIGNAL)
        buf_printf(ret, " %d %" PRIu32, (int)e->signal, e->grace_ms);
    if (e->step)
        buf_printf(ret, " %" PRIu32, e->step->id);
    if (e->kind == EFFECT_PREFLIGHT_JOIN)
        buf_printf(ret, " %" PRIu32 " %" PRIu64, e->member, e->token);
    if (e->kind == EFFECT_FETCH)
        buf_printf(ret, " %d", e->periodic);
    if (e->kind == EFFECT_ASK_PORT || e->kind == EFFECT_PREFLIGHT || e->kind == EFFECT_ASK_RANK0 ||
        e->kind == EFFECT_LOOK)
        buf_printf(ret, " %" PRIu64, e->token);
    for (uint32_t i = 0; e->kind == EFFECT_FORGET && i < e->attempts->count; i++)
        put_text(ret, e->attempts->items[i]);
}
