/* What is rented for a plan, as text and as JSON: the offers in order, their costs, and the remaining risk. */
#include "internal.h"

#include "rhrun/catalog.h"

#include <stdlib.h>
#include <string.h>

enum { OFFER_LINES = 8, CELLS = 5, HOUR_MS = 3600000, OF_EACH = 2 /* alternatives: lines at least */ };

/* ---- money ---- */

/* The cost of a cluster until its end; false: it has no end, or no known price. */
static bool cost_until_end(const struct plan *plan, const struct plan_offer *o, uint64_t *ret)
{
    uint64_t ms = plan->spec->rent->max_ms;
    if (ms == 0 || o->unpriced)
        return false;
    *ret = (uint64_t)((long double)o->price * (long double)ms / HOUR_MS + 0.5L);
    return true;
}

/* "3.06", rounded up to a hundredth of a cent: nobody pays more than was shown. */
static const char *usd(uint64_t micro, char ret[32])
{
    catalog_format_usd((micro + 99) / 100 * 100, 2, ret);
    return ret;
}

/* Rounded up to a cent. */
static const char *bill(uint64_t micro, char ret[32])
{
    catalog_format_usd((micro + 9999) / 10000 * 10000, 2, ret);
    return ret;
}

static const char *hours(uint64_t ms, char ret[32])
{
    catalog_format_usd((ms * 1000 + 3599) / 3600, 0, ret);
    return ret;
}

static const struct plan_offer *dearest(const struct plan_rent *r)
{
    const struct plan_offer *most = NULL;
    for (size_t i = 0; i < r->offer_count; i++)
        if (!r->offers[i].unpriced && (!most || r->offers[i].price > most->price))
            most = &r->offers[i];
    return most;
}

/* ---- the step ---- */

static void put_title(const struct plan *plan, struct buf *b)
{
    const struct plan_rent *r = plan->rent;
    if (r->there || r->offer_count == 0)
        return;
    const struct plan_offer *o = &r->offers[0];
    CLEANUP(cleanup_free) char *title = xasprintf("%s %s%s", o->provider, o->type, o->spot ? ", spot" : "");
    format_clean(b, title, 32);
}

void format_rent_step(const struct plan *plan, const struct plan_decision *decisions, bool colour, size_t name_width,
                      struct buf *b)
{
    enum verdict v = plan_rent_verdict(plan, decisions);
    CLEANUP(cleanup_free) char *nodes = xasprintf("%u node%s", plan->node_count, plan->node_count == 1 ? "" : "s");
    format_verdict(b, v, colour);
    buf_printf(b, "%-*s  %-14s  ", (int)name_width, "rent", nodes);
    if (v == VERDICT_RUN)
        put_title(plan, b);
    while (b->len && b->data[b->len - 1] == ' ')
        b->data[--b->len] = 0;
    buf_putc(b, '\n');
}

/* ---- the offers ---- */

/* The sources of prices, each once: `first` has one offer of each source; `of` has the number of each offer's source,
 * from 1; 0: the offer is free. */
struct origins {
    size_t *of, *first, count;
};

static struct origins origins_of(const struct plan_rent *r, const size_t *shown, size_t lines)
{
    struct origins o = {.of = xcalloc(lines + 1, sizeof *o.of), .first = xcalloc(lines + 1, sizeof *o.first)};
    for (size_t i = 0; i < lines; i++) {
        const struct plan_offer *offer = &r->offers[shown[i]];
        size_t k = 0;
        while (k < o.count && !str_eq(r->offers[o.first[k]].source, offer->source))
            k++;
        if (offer->free)
            continue;
        if (k == o.count)
            o.first[o.count++] = shown[i];
        o.of[i] = k + 1;
    }
    return o;
}

static bool has_alternatives(const struct plan *plan)
{
    return plan->spec->rent->alternative_count > 0;
}

/* Which offers are shown: the first ones, and some of each alternative. */
static size_t shown_of(const struct plan *plan, bool verbose, size_t *ret)
{
    const struct plan_rent *r = plan->rent;
    const size_t alternatives = plan->spec->rent->alternative_count;
    size_t most = OFFER_LINES, lines = 0, of_this = 0;
    if (verbose || r->offer_count <= OFFER_LINES + 1)
        most = r->offer_count;
    else if (alternatives > 1)
        most = alternatives * OF_EACH > OFFER_LINES ? OF_EACH : OFFER_LINES / alternatives;
    for (size_t i = 0; i < r->offer_count; i++) {
        of_this = i > 0 && r->offers[i].alternative == r->offers[i - 1].alternative ? of_this + 1 : 0;
        if (of_this < most)
            ret[lines++] = i;
    }
    return lines;
}

static void put_place(const struct plan_offer *o, struct buf *b)
{
    bool within = str_starts(o->zone, o->region); /* us-east-1a shows its region */
    buf_printf(b, "%s%s%s", within && *o->zone ? o->zone : o->region, *o->zone && !within ? "/" : "",
               *o->zone && !within ? o->zone : "");
}

static void put_cells(const struct plan *plan, size_t at, struct buf cells[CELLS])
{
    const struct plan_rent *r = plan->rent;
    const struct plan_offer *o = &r->offers[at];
    char text[32];
    uint64_t cost;
    buf_puts(&cells[0], o->provider);
    put_place(o, &cells[1]);
    if (has_alternatives(plan))
        buf_printf(&cells[2], "%u × ", o->nodes);
    buf_printf(&cells[2], "%s%s", o->type, o->spot ? ", spot" : "");
    buf_printf(&cells[3], "%s%s", o->at_most ? "<=" : "", o->unpriced ? "?" : o->free ? "0" : usd(o->price, text));
    if (cost_until_end(plan, o, &cost))
        buf_printf(&cells[4], "%s%s", o->at_most ? "<=" : "", o->free ? "0" : bill(cost, text));
    else
        buf_puts(&cells[4], "?");
}

static void put_age(const struct plan_rent *r, const struct plan_offer *o, struct buf *b)
{
    if (o->free)
        buf_printf(b, "  %7s", "-");
    else if (!o->as_of_day)
        buf_printf(b, "  %7s", "?");
    else
        buf_printf(b, "  %5u d", r->today > o->as_of_day ? r->today - o->as_of_day : 0);
}

/* The "×" is one column but two bytes. */
static int width_of(const struct buf *cell)
{
    int width = 0;
    for (size_t i = 0; i < cell->len; i++)
        width += ((unsigned char)cell->data[i] & 0xc0) != 0x80;
    return width;
}

static void put_cell(const struct buf *cell, int width, bool left, struct buf *b)
{
    const int blanks = width - width_of(cell);
    buf_printf(b, "%*s%s%*s", left ? 0 : blanks, "", cell->data ? cell->data : "", left ? blanks : 0, "");
}

static void put_table(const struct plan *plan, const struct origins *origins, const size_t *shown, size_t lines,
                      struct buf *b)
{
    const bool any_of = has_alternatives(plan);
    const struct plan_rent *r = plan->rent;
    bool ends = plan->spec->rent->max_ms > 0;
    char text[32];
    int widths[CELLS] = {8, 6, 4, 5, 0};
    CLEANUP(cleanup_free) char *end = xasprintf("IN %s H", hours(plan->spec->rent->max_ms, text));
    struct buf(*cells)[CELLS] = xcalloc(lines + 1, sizeof *cells);
    widths[4] = (int)strlen(end);
    for (size_t i = 0; i < lines; i++) {
        put_cells(plan, shown[i], cells[i]);
        for (size_t k = 0; k < CELLS; k++)
            widths[k] = width_of(&cells[i][k]) > widths[k] ? width_of(&cells[i][k]) : widths[k];
    }
    buf_printf(b, "    %s%-*s  %-*s  %-*s  %*s", any_of ? " #  " : "", widths[0], "PROVIDER", widths[1], "REGION",
               widths[2], "TYPE", widths[3], "USD/H");
    buf_printf(b, ends ? "  %*s      AGE\n" : "      AGE\n", widths[4], end);
    for (size_t i = 0; i < lines; i++) {
        buf_puts(b, "    ");
        if (any_of)
            buf_printf(b, "%2u  ", r->offers[shown[i]].alternative);
        for (size_t k = 0; k < CELLS; k++) {
            buf_puts(b, k > 0 && (k < CELLS - 1 || ends) ? "  " : "");
            if (k < CELLS - 1 || ends)
                put_cell(&cells[i][k], widths[k], k < 3, b);
            buf_free(&cells[i][k]);
        }
        put_age(r, &r->offers[shown[i]], b);
        if (origins->of[i])
            buf_printf(b, " [%zu]", origins->of[i]);
        buf_putc(b, '\n');
    }
    free(cells);
}

static void put_sources(const struct plan_rent *r, const struct origins *origins, struct buf *b)
{
    for (size_t i = 0; i < origins->count; i++) {
        const char *source = r->offers[origins->first[i]].source;
        buf_printf(b, "    [%zu] ", i + 1);
        format_clean(b, *source ? source : "its source is not known", SIZE_MAX);
        buf_putc(b, '\n');
    }
}

/* What it costs at most, and when the machines are given back. */
static void put_end(const struct plan *plan, struct buf *b)
{
    const struct spec_rent *w = plan->spec->rent;
    const struct plan_offer *most = dearest(plan->rent);
    char text[32], each[32];
    uint64_t cost;
    if (w->max_ms == 0)
        buf_puts(b, "    no end: the machines cost money until they are given back (max_hours is none)\n");
    else if (most && cost_until_end(plan, most, &cost) && cost > 0)
        buf_printf(b, "    worst case: %s USD, the most expensive offer for all %s h\n", bill(cost, text),
                   hours(w->max_ms, each));
    buf_puts(b, "    given back: ");
    if (w->down == DOWN_ALWAYS)
        buf_puts(b, "with the end of the run");
    else if (w->down == DOWN_NEVER)
        buf_puts(b, "only by rhrun down");
    else if (w->idle_ms % 60000 == 0)
        buf_printf(b, "once no run has used them for %llu min", (unsigned long long)w->idle_ms / 60000);
    else
        buf_printf(b, "once no run has used them for %llu s", (unsigned long long)(w->idle_ms + 999) / 1000);
    if (w->max_ms)
        buf_printf(b, "%s after %s h at the latest", w->down == DOWN_NEVER ? ", or" : ",", hours(w->max_ms, each));
    buf_putc(b, '\n');
}

static void put_lessors(const struct plan *plan, struct buf *b)
{
    const struct plan_rent *r = plan->rent;
    for (size_t i = 0; i < r->provider_count; i++) {
        const struct plan_lessor *p = &r->providers[i];
        buf_printf(b, "    %s%s: ", p->left_out ? "without " : "if this machine dies, ", p->name);
        format_clean(b,
                     p->left_out                     ? p->left_out
                     : plan->spec->rent->max_ms == 0 ? "nothing ends the machines there, as max_hours is none"
                                                     : p->risk,
                     SIZE_MAX);
        buf_putc(b, '\n');
    }
    if (r->missing)
        buf_puts(b, "    nothing can be rented now:\n");
    for (size_t i = 0; i < r->provider_count && r->missing; i++) {
        if (!r->providers[i].missing || r->providers[i].left_out)
            continue;
        buf_puts(b, "      ");
        format_clean(b, r->providers[i].missing, SIZE_MAX);
        buf_putc(b, '\n');
    }
}

static void put_heading(const struct plan *plan, struct buf *b)
{
    buf_puts(b, "\n  rent tries in this order");
    if (has_alternatives(plan))
        buf_puts(b, " (#: number in any_of; prices are for all nodes)");
    else if (plan->node_count > 1)
        buf_printf(b, " (prices are for all %u nodes)", plan->node_count);
    buf_putc(b, '\n');
}

void format_rent_offers(const struct plan *plan, bool verbose, struct buf *b)
{
    const struct plan_rent *r = plan->rent;
    const struct spec_rent *w = plan->spec->rent;
    if (r->offer_count == 0)
        return;
    size_t *shown = xcalloc(r->offer_count + 1, sizeof *shown);
    const size_t lines = shown_of(plan, verbose, shown);
    put_heading(plan, b);
    struct origins origins = origins_of(r, shown, lines);
    put_table(plan, &origins, shown, lines, b);
    if (r->offer_count + r->cut > lines)
        buf_printf(b, "    and %zu more\n", r->offer_count + r->cut - lines);
    put_sources(r, &origins, b);
    free(origins.of);
    free(origins.first);
    free(shown);
    if (w->alternative_count > 1)
        buf_printf(b, "    this plan is for alternative %u; a run that rents another one makes a new plan\n",
                   w->alternative);
    put_end(plan, b);
    put_lessors(plan, b);
}

/* ---- JSON ---- */

static void json_string(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, ",\"%s\":", key);
    if (value && *value)
        buf_json_string(b, value, strlen(value));
    else
        buf_puts(b, "null");
}

static void json_usd(struct buf *b, const char *key, bool known, uint64_t micro)
{
    char text[32] = "null";
    if (known)
        catalog_format_usd(micro, 0, text);
    buf_printf(b, ",\"%s\":%s", key, text);
}

static void json_offer(const struct plan *plan, const struct plan_offer *o, struct buf *b)
{
    char day[32];
    uint64_t cost = 0;
    bool ends = cost_until_end(plan, o, &cost);
    buf_puts(b, "{\"provider\":");
    buf_json_string(b, o->provider, strlen(o->provider));
    json_string(b, "region", o->region);
    json_string(b, "zone", o->zone);
    json_string(b, "type", o->type);
    buf_printf(b, ",\"nodes\":%u", o->nodes);
    buf_printf(b, o->alternative ? ",\"alternative\":%u" : ",\"alternative\":null", o->alternative);
    buf_printf(b, ",\"spot\":%s,\"at_most\":%s", o->spot ? "true" : "false", o->at_most ? "true" : "false");
    json_usd(b, "usd_hour", !o->unpriced, o->price);
    json_usd(b, "usd_until_end", ends, cost);
    catalog_format_date(o->as_of_day, day);
    json_string(b, "as_of", o->as_of_day ? day : NULL);
    json_string(b, "source", o->source);
    buf_putc(b, '}');
}

void format_rent_json(const struct plan *plan, const struct plan_decision *decisions, struct buf *b)
{
    static const char *const downs[] = {[DOWN_ALWAYS] = "always", [DOWN_NEVER] = "never", [DOWN_IDLE] = "idle"};
    const struct plan_rent *r = plan->rent;
    const struct spec_rent *w = plan->spec->rent;
    const struct plan_offer *most = dearest(r);
    uint64_t cost = 0;
    bool ends = most && cost_until_end(plan, most, &cost);
    buf_printf(b, ",\"rent\":{\"verdict\":\"%s\",\"nodes\":%u", verdict_name(plan_rent_verdict(plan, decisions)),
               plan->node_count);
    buf_printf(b, w->alternative ? ",\"alternative\":%u" : ",\"alternative\":null", w->alternative);
    json_usd(b, "max_hours", w->max_ms > 0, (w->max_ms * 1000 + 3599) / 3600);
    json_usd(b, "max_price", w->max_price > 0, w->max_price);
    json_usd(b, "worst_case_usd", ends, cost);
    json_string(b, "down", downs[w->down]);
    if (w->down == DOWN_IDLE)
        json_usd(b, "idle_seconds", true, w->idle_ms * 1000);
    json_string(b, "missing", r->missing);
    buf_puts(b, ",\"offers\":[");
    for (size_t i = 0; i < r->offer_count; i++) {
        buf_puts(b, i ? "," : "");
        json_offer(plan, &r->offers[i], b);
    }
    buf_printf(b, "],\"more\":%zu,\"providers\":[", r->cut);
    for (size_t i = 0; i < r->provider_count; i++) {
        buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
        buf_json_string(b, r->providers[i].name, strlen(r->providers[i].name));
        json_string(b, "title", r->providers[i].title);
        json_string(b, "risk", r->providers[i].risk);
        json_string(b, "left_out", r->providers[i].left_out);
        buf_putc(b, '}');
    }
    buf_puts(b, "]}");
}
