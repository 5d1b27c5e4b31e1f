#include "dice.h"
#include "seeds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint64_t dice_next(struct dice *d)
{
    uint64_t z = d->rng += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

bool dice_chance(struct dice *d, unsigned percent)
{
    return dice_next(d) % 100 < percent;
}

bool dice_fault(struct dice *d, unsigned percent)
{
    if (d->faults == 0 || !dice_chance(d, percent))
        return false;
    d->faults--;
    return true;
}

enum sim_fault dice_frame(struct dice *d, uint32_t node, enum wire_type type, unsigned percent, unsigned freeze)
{
    static const enum sim_fault kinds[] = {SIM_DROP_BEFORE, SIM_DROP_AFTER, SIM_CUT_BEFORE, SIM_CUT_AFTER};
    if (!dice_fault(d, percent))
        return SIM_PASS;
    enum sim_fault f = freeze && dice_chance(d, freeze) ? SIM_FREEZE : kinds[dice_next(d) % ARRAY_LEN(kinds)];
    dice_say(d, "  fault %d at frame %d on node %u", f, type, node);
    return f;
}

void dice_say(struct dice *d, const char *fmt, ...)
{
    va_list ap;
    size_t from = d->log.len;
    va_start(ap, fmt);
    buf_vprintf(&d->log, fmt, ap);
    va_end(ap);
    buf_putc(&d->log, '\n');
    if (d->verbose)
        fputs(d->log.data + from, stderr);
}

void dice_say_event(struct dice *d, const struct event *e)
{
    struct buf text = {0};
    sim_event_text(e, &text);
    dice_say(d, "%llu %s", (unsigned long long)e->seq, text.data);
    buf_free(&text);
}

void dice_violated(const struct dice *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    fprintf(stderr, "what happened (the thread that commits makes each time a little different):\n%s", d->log.data);
    fail_msg("seed %llu: %s", (unsigned long long)d->seed, text);
}

void dice_seeds(uint64_t count, void (*one)(const struct dice *dice))
{
    uint64_t first = seeds_first();
    count = seeds_count(count);
    for (uint64_t seed = first; seed < first + count; seed++) {
        const struct dice dice = {
            .seed = seed, .rng = seed * 0x2545F4914F6CDD1Du, .verbose = getenv("RHRUN_RANDOM_VERBOSE") != NULL};
        one(&dice);
    }
}
