/* A plan as JSON: schema/plan.schema.json describes it. Nodes with the same verdict for the same reason are one range. */
#include "internal.h"

#include <string.h>

enum { PLAN_FORMAT_VERSION = 1 };

static void put_string(struct buf *b, const char *name, const char *value)
{
    buf_printf(b, "\"%s\":", name);
    if (value)
        buf_json_string(b, value, strlen(value));
    else
        buf_puts(b, "null");
}

static const char *phase_name(enum plan_phase phase)
{
    switch (phase) {
    case PHASE_POINT:
        return "point";
    case PHASE_SETUP:
        return "setup";
    case PHASE_PROLOG:
        return "prolog";
    case PHASE_LAUNCH:
        return "launch";
    case PHASE_EPILOG:
        return "epilog";
    case PHASE_OUTPUTS:
        break;
    }
    return "outputs";
}

static void put_nodes(const struct plan *plan, struct buf *b)
{
    uint32_t rank = 0;
    buf_puts(b, "\"nodes\":[");
    for (uint32_t n = 0; n < plan->node_count; n++) {
        buf_printf(b, "%s{\"node\":%u,", n ? "," : "", n);
        put_string(b, "name", roster_name(plan->roster, n));
        if (plan->spec->distributed.present && plan->nproc[n])
            buf_printf(b, ",\"nproc\":%u", plan->nproc[n]);
        if (plan->ranks && plan->spec->role_count == 0)
            buf_printf(b, ",\"first_rank\":%u", rank);
        rank += plan->nproc[n];
        buf_putc(b, '}');
    }
    buf_puts(b, "]");
}

static void put_role_places(const struct plan *plan, uint32_t role, struct buf *b)
{
    const char *comma = "";
    buf_puts(b, ",\"places\":[");
    for (uint32_t i = 0; i < plan->place_count; i++) {
        const struct plan_place *p = &plan->places[i];
        if (p->role != role)
            continue;
        buf_printf(b, "%s{\"node\":%u", comma, p->node);
        if (p->count)
            buf_printf(b, ",\"count\":%u", p->count);
        if (plan->roles && plan->spec->roles[role].world != WORLD_NONE)
            buf_printf(b, ",\"first_rank\":%u", p->rank);
        buf_putc(b, '}');
        comma = ",";
    }
    buf_puts(b, "]}");
}

static void put_roles(const struct plan *plan, struct buf *b)
{
    static const char *const worlds[] = {"job", "own", "none"};
    buf_puts(b, ",\"roles\":[");
    for (uint32_t i = 0; i < plan->spec->role_count; i++) {
        const struct spec_role *s = &plan->spec->roles[i];
        buf_puts(b, i ? ",{" : "{");
        put_string(b, "name", s->name);
        buf_putc(b, ',');
        put_string(b, "world", worlds[s->world]);
        if (plan->roles || s->counted)
            buf_printf(b, ",\"count\":%u", plan->roles ? plan->roles[i].count : s->count);
        put_role_places(plan, i, b);
    }
    buf_putc(b, ']');
}

static void put_inputs(const struct plan_step *s, struct buf *b)
{
    buf_puts(b, "\"inputs\":{");
    for (size_t i = 0; i < s->input_count; i++) {
        if (i)
            buf_putc(b, ',');
        buf_json_string(b, s->inputs[i].name, strlen(s->inputs[i].name));
        buf_putc(b, ':');
        buf_json_string(b, s->inputs[i].value, strlen(s->inputs[i].value));
    }
    buf_putc(b, '}');
}

static bool same(const struct plan_decision *a, const struct plan_decision *b)
{
    return a->verdict == b->verdict && str_eq(a->reason, b->reason);
}

static void put_verdicts(const struct plan *plan, const struct plan_step *s, const struct plan_decision *row,
                         uint64_t *counts, struct buf *b)
{
    static const struct plan_decision to_run = {VERDICT_RUN, NULL};
    const char *comma = "";
    buf_puts(b, "\"verdicts\":[");
    for (uint32_t n = 0; n < plan->node_count; n++) {
        if (!s->on[n])
            continue;
        uint32_t first = n;
        const struct plan_decision *d = row ? &row[n] : &to_run;
        while (n + 1 < plan->node_count && s->on[n + 1] && (!row || same(d, &row[n + 1])))
            n++;
        counts[d->verdict] += n - first + 1;
        buf_printf(b, "%s{\"first_node\":%u,\"last_node\":%u,", comma, first, n);
        put_string(b, "verdict", verdict_name(d->verdict));
        if (d->reason) {
            buf_putc(b, ',');
            put_string(b, "reason", d->reason);
        }
        buf_putc(b, '}');
        comma = ",";
    }
    buf_putc(b, ']');
}

static void put_step(const struct plan *plan, const struct plan_step *s, const struct plan_decision *row,
                     uint64_t *counts, struct buf *b)
{
    buf_putc(b, '{');
    put_string(b, "name", s->name);
    buf_putc(b, ',');
    put_string(b, "kind", s->kind->name);
    buf_putc(b, ',');
    put_string(b, "phase", phase_name(s->kind->phase));
    buf_putc(b, ',');
    if (s->role) {
        put_string(b, "role", s->role->name);
        buf_putc(b, ',');
    }
    put_string(b, "title", s->title);
    buf_putc(b, ',');
    if (s->command) {
        put_string(b, "command", s->command);
        buf_putc(b, ',');
    }
    put_string(b, "key", s->key);
    buf_putc(b, ',');
    put_inputs(s, b);
    buf_putc(b, ',');
    put_verdicts(plan, s, row, counts, b);
    if (s->hint) {
        buf_putc(b, ',');
        put_string(b, "hint", s->hint);
    }
    buf_putc(b, '}');
}

void plan_format_json(const struct plan *plan, const struct plan_decision *decisions, struct buf *ret)
{
    uint64_t counts[VERDICT_NOT_NEEDED + 1] = {0};
    buf_printf(ret, "{\"version\":%d,", PLAN_FORMAT_VERSION);
    put_string(ret, "job", plan->spec->name);
    buf_putc(ret, ',');
    put_string(ret, "spec", plan->spec->path);
    buf_putc(ret, ',');
    put_string(ret, "variant", plan->spec->variant);
    buf_putc(ret, ',');
    put_string(ret, "hash", plan->hash);
    buf_printf(ret, ",\"distributed\":%s,\"ranks_known\":%s,", plan->spec->distributed.present ? "true" : "false",
               plan->ranks_known ? "true" : "false");
    if (plan->ranks_known)
        buf_printf(ret, "\"world_size\":%u,", plan->world_size);
    put_nodes(plan, ret);
    if (plan->spec->role_count > 0)
        put_roles(plan, ret);
    if (plan->rent)
        format_rent_json(plan, decisions, ret);
    if (plan->points)
        format_points_json(plan, ret);
    buf_puts(ret, ",\"steps\":[");
    for (size_t i = 0; i < (plan->points ? plan->points[0].launch : plan->step_count); i++) {
        if (i)
            buf_putc(ret, ',');
        put_step(plan, &plan->steps[i], decisions ? decisions + i * plan->node_count : NULL, counts, ret);
    }
    buf_puts(ret, "],\"summary\":{");
    for (unsigned v = 0; v <= VERDICT_NOT_NEEDED; v++) {
        buf_printf(ret, "%s\"%s\":%llu", v ? "," : "", verdict_name((enum verdict)v), (unsigned long long)counts[v]);
    }
    buf_puts(ret, "}}\n");
}
