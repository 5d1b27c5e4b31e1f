/* Failure rules that matched, and metrics: as lines of a run, and in `status`. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { METRICS_MAX = 100 };

void plain_rule(struct buf *b, const struct plan *plan, const struct event_rule *rule)
{
    const struct spec *spec = plan ? plan->spec : NULL;
    bool known = spec && rule->rule <= spec->rule_count && str_eq(spec->rules[rule->rule - 1].id, rule->rule_id);
    if (known)
        buf_printf(b, "%s: %s", spec->rules[rule->rule - 1].text, spec_actions[rule->action]);
    else
        buf_printf(b, "rule %u: %s", rule->rule, spec_actions[rule->action]);
    if (rule->reason)
        buf_printf(b, ", since %s", rule->reason);
    if (rule->left != EVENT_UNBOUNDED)
        buf_printf(b, " (%u time%s left)", rule->left, rule->left == 1 ? "" : "s");
}

/* ---- the latest metrics, each of the lowest rank that has it ---- */

struct shown_metrics {
    struct shown_metric {
        char *name, value[32];
        uint32_t rank;
    } items[METRICS_MAX];
    size_t count;
};

void shown_metrics_take(struct shown_metrics **m, const struct event_metrics *values)
{
    if (!*m)
        *m = xcalloc(1, sizeof **m);
    for (uint32_t i = 0; i < values->count; i++) {
        const struct event_metric *v = &values->items[i];
        struct shown_metric *s = NULL;
        for (size_t k = 0; k < (*m)->count && !s; k++)
            if (strcmp((*m)->items[k].name, v->name) == 0)
                s = &(*m)->items[k];
        if (!s && (*m)->count < METRICS_MAX) {
            s = &(*m)->items[(*m)->count++];
            *s = (struct shown_metric){.name = xstrdup(v->name), .rank = WIRE_NO_RANK};
        }
        if (!s || v->rank > s->rank)
            continue;
        s->rank = v->rank;
        snprintf(s->value, sizeof s->value, "%s", v->value);
    }
}

void shown_metrics_put(const struct shown_metrics *m, struct buf *b)
{
    for (size_t i = 0; m && i < m->count; i++) {
        const struct shown_metric *s = &m->items[i];
        buf_printf(b, "%s%s %s", i ? ", " : "", s->name, s->value);
        if (s->rank != 0 && s->rank != WIRE_NO_RANK)
            buf_printf(b, " (rank %u)", s->rank);
    }
}

void shown_metrics_free(struct shown_metrics *m)
{
    for (size_t i = 0; m && i < m->count; i++)
        free(m->items[i].name);
    free(m);
}

/* ---- status ---- */

void status_rules_json(const struct state_run *run, struct buf *b)
{
    buf_puts(b, ",\"rules\":[");
    for (uint32_t i = 0; i < run->rule_count; i++) {
        const struct state_rule *r = &run->rules[i];
        buf_printf(b, "%s{\"rule\":%u", i ? "," : "", r->number);
        cli_json_string(b, "action", r->action);
        buf_printf(b, ",\"times\":%u", r->times);
        cli_json_string(b, "reason", r->reason);
        buf_putc(b, '}');
    }
    buf_puts(b, "],\"metrics\":[");
    for (uint32_t i = 0; i < run->metric_count; i++) {
        const struct state_metric *m = &run->metrics[i];
        bool number = strspn(m->value, "0123456789+-.e") == strlen(m->value);
        buf_puts(b, i ? ",{" : "{");
        cli_json_string(b, "name", m->name);
        if (m->rank != WIRE_NO_RANK)
            buf_printf(b, ",\"rank\":%u", m->rank);
        buf_printf(b, number ? ",\"value\":%s" : ",\"value\":\"%s\"", m->value); /* nan, inf */
        buf_printf(b, ",\"count\":%llu,\"time_ms\":%llu}", (unsigned long long)m->count,
                   (unsigned long long)m->time_ms);
    }
    buf_putc(b, ']');
}

static void put_metric(const struct state_run *run, uint32_t first, struct buf *b)
{
    const struct state_metric *lowest = &run->metrics[first], *least = lowest, *most = lowest;
    uint32_t ranks = 0;
    for (uint32_t i = first; i < run->metric_count; i++) {
        const struct state_metric *m = &run->metrics[i];
        if (strcmp(m->name, lowest->name) != 0)
            continue;
        ranks++;
        double v = strtod(m->value, NULL);
        lowest = m->rank < lowest->rank ? m : lowest;
        least = v < strtod(least->value, NULL) ? m : least;
        most = v > strtod(most->value, NULL) ? m : most;
    }
    buf_printf(b, "  %s: %s", lowest->name, lowest->value);
    if (lowest->rank != WIRE_NO_RANK && ranks > 1)
        buf_printf(b, " (rank %u), %s to %s over %u ranks", lowest->rank, least->value, most->value, ranks);
    buf_putc(b, '\n');
}

static bool told_before(const struct state_run *run, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(run->metrics[k].name, run->metrics[i].name) == 0)
            return true;
    return false;
}

void status_metrics(const struct state_run *run, struct buf *b)
{
    for (uint32_t i = 0; i < run->metric_count; i++) {
        const struct state_metric *lowest = &run->metrics[i];
        if (told_before(run, i))
            continue;
        for (uint32_t k = i; k < run->metric_count; k++)
            if (strcmp(run->metrics[k].name, lowest->name) == 0 && run->metrics[k].rank < lowest->rank)
                lowest = &run->metrics[k];
        buf_printf(b, "%s%s %s", b->len ? ", " : "", lowest->name, lowest->value);
    }
}

void status_rules(const struct state_run *run, struct buf *b)
{
    for (uint32_t i = 0; i < run->rule_count; i++) {
        const struct state_rule *r = &run->rules[i];
        buf_printf(b, "  rule %u: %s, %u time%s; the last: %s\n", r->number, r->action, r->times,
                   r->times == 1 ? "" : "s", r->reason ? r->reason : "?");
    }
    for (uint32_t i = 0; i < run->metric_count; i++)
        if (!told_before(run, i))
            put_metric(run, i, b);
}
