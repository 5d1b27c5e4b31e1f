/* A sweep's points in a plan's text and JSON. */
#include "internal.h"

#include <string.h>

enum { POINTS_SHOWN = 10 };

uint32_t points_to_do(const struct plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->point_count; i++)
        count += !plan->points[i].recorded;
    return count;
}

void format_points(const struct plan *plan, bool colour, bool verbose, struct buf *b)
{
    const uint32_t todo = points_to_do(plan), nodes = plan->points[0].own->node_count;
    uint32_t shown = 0, k = 0;
    format_verdict(b, todo ? VERDICT_RUN : VERDICT_KEEP, colour);
    buf_printf(b, "%u of %u point%s%s", todo ? todo : plan->point_count, plan->point_count,
               plan->point_count == 1 ? "" : "s", todo && todo < plan->point_count ? "; the others are done" : "");
    if (nodes > 1)
        buf_printf(b, "; each takes %u nodes", nodes);
    buf_putc(b, '\n');
    for (uint32_t i = 0; i < plan->point_count; i++) {
        if (plan->points[i].recorded && !verbose)
            continue;
        if (k++ >= POINTS_SHOWN && !verbose)
            continue;
        shown++;
        buf_puts(b, "    ");
        format_verdict(b, plan->points[i].recorded ? VERDICT_KEEP : VERDICT_RUN, colour);
        format_clean(b, plan->points[i].point->name, SIZE_MAX);
        if (plan->points[i].launched && !plan->points[i].recorded)
            buf_puts(b, ": only its files are fetched");
        if (plan->points[i].reason) {
            buf_puts(b, ": ");
            format_clean(b, plan->points[i].reason, SIZE_MAX);
        }
        buf_putc(b, '\n');
    }
    if (!verbose && todo > shown)
        buf_printf(b, "    and %u more (--verbose names them)\n", todo - shown);
}

void format_points_json(const struct plan *plan, struct buf *b)
{
    buf_puts(b, ",\"points\":[");
    for (uint32_t i = 0; i < plan->point_count; i++) {
        const struct plan_point *p = &plan->points[i];
        buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
        buf_json_string(b, p->point->name, strlen(p->point->name));
        buf_printf(b, ",\"id\":\"%s\",\"params\":%s,\"verdict\":\"%s\"", p->point->id, p->point->params_json,
                   p->recorded   ? verdict_name(VERDICT_KEEP)
                   : p->launched ? "fetch"
                                 : verdict_name(VERDICT_RUN));
        if (p->reason) {
            buf_puts(b, ",\"reason\":");
            buf_json_string(b, p->reason, strlen(p->reason));
        }
        buf_putc(b, '}');
    }
    buf_putc(b, ']');
}
