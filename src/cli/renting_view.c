/* The view on a terminal while machines are awaited: the rented machines, and a line for each node, drawn in place.
 * Messages are written above it and stay. */
#include "renting.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_MS = 300, /* a shorter wait is not worth a view */
    TICK_MS = 100,
    NAME_WIDTH = 8, /* "node 123" */
    STATE_WIDTH = 10,
    TOLD_USD = 10000, /* micro-USD: a cent; a smaller cost is not worth the digits */
    ROWS_MIN = 8
};

struct renting_view {
    struct renting *renting;
    struct loop_timer *timer;
    struct loop_signal *resumed;
    struct canvas now, shown;
    struct buf above;
    bool utf8;
};

struct row { /* of a node */
    const char *state, *style;
    enum { ROW_WAITS, ROW_ON_ITS_WAY, ROW_READY, ROW_BAD } mark;
    const struct fleet_machine *machine; /* NULL: none yet */
    const struct fleet_order *order;     /* likewise */
    uint64_t from_ms, to_ms;             /* 0: no time is shown; to 0: it is still running */
};

/* ---- a node ---- */

static struct row row_of_machine(const struct fleet_machine *m)
{
    switch (m->state) {
    case FLEET_MACHINE_CREATED:
        return (struct row){.state = "created", .style = "", .mark = ROW_ON_ITS_WAY};
    case FLEET_MACHINE_READY:
        return (struct row){.state = "ready", .style = "", .mark = ROW_READY};
    case FLEET_MACHINE_RETURNING:
        return (struct row){.state = "deleted", .style = "33", .mark = ROW_ON_ITS_WAY};
    case FLEET_MACHINE_GONE:
        break;
    }
    return (struct row){.state = "gone", .style = "2", .mark = ROW_WAITS};
}

static struct row row_of(const struct fleet_ledger *l, uint32_t node)
{
    const struct fleet_slot *s = &l->slots[node];
    const struct fleet_machine *m = s->machine == FLEET_NONE ? NULL : &l->machines[s->machine];
    const struct fleet_order *o = s->order == FLEET_NONE ? NULL : &l->orders[s->order];
    struct row row = {.state = "waiting", .style = "2", .mark = ROW_WAITS};
    if (m)
        row = row_of_machine(m);
    else if (o && !o->closed)
        row = (struct row){.state = "asked", .style = "", .mark = ROW_ON_ITS_WAY};
    if (s->state == FLEET_SLOT_LOST && l->stage == FLEET_STAGE_COMPLETE)
        row = (struct row){.state = "lost", .style = "31", .mark = ROW_BAD};
    else if (s->state == FLEET_SLOT_ANEW && m && m->state != FLEET_MACHINE_CREATED)
        row = (struct row){.state = "replaced", .style = "33", .mark = ROW_ON_ITS_WAY};
    row.machine = m;
    row.order = o;
    row.from_ms = o ? o->time_ms : m ? m->created_ms : 0;
    row.to_ms = !m                                ? 0
                : m->state == FLEET_MACHINE_GONE  ? m->gone_ms
                : m->state == FLEET_MACHINE_READY ? m->ready_ms
                                                  : 0;
    return row;
}

static void put_mark(struct renting_view *v, const struct row *row)
{
    static const char *const braille[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    static const char *const ascii[] = {"|", "/", "-", "\\"};
    const size_t spin = (size_t)((wall_ms() - v->renting->began_ms) / TICK_MS);
    const char *mark = " ", *style = "";
    switch (row->mark) {
    case ROW_WAITS:
        break;
    case ROW_ON_ITS_WAY:
        mark = v->utf8 ? braille[spin % ARRAY_LEN(braille)] : ascii[spin % ARRAY_LEN(ascii)];
        style = "36";
        break;
    case ROW_READY:
        mark = v->utf8 ? "✓" : "+";
        style = "32";
        break;
    case ROW_BAD:
        mark = v->utf8 ? "✗" : "x";
        style = "31";
        break;
    }
    canvas_put(&v->now, "", " ", 1);
    canvas_put(&v->now, style, mark, strlen(mark));
    canvas_put(&v->now, "", " ", 1);
}

static void put_usd(struct renting_view *v, const char *style, uint64_t microusd, const char *behind)
{
    struct buf b = {0};
    renting_put_usd(&b, microusd);
    canvas_printf(&v->now, style, "%s%s", b.data, behind);
    buf_free(&b);
}

static void draw_row(struct renting_view *v, const struct fleet_ledger *l, uint32_t node, uint64_t now)
{
    const struct row row = row_of(l, node);
    const struct fleet_machine *m = row.machine;
    /* of the remaining columns, an IPv4 address with its port needs 21 */
    const unsigned left = v->now.columns > 60 ? v->now.columns - 60 : 0;
    const unsigned machine_width = left < 8 ? 0 : left > 32 ? 32 : left, address_width = v->now.columns < 50 ? 0 : 21;
    char name[24];
    snprintf(name, sizeof name, "node %u", node);
    put_mark(v, &row);
    canvas_field(&v->now, row.mark == ROW_ON_ITS_WAY ? "1" : "", name, NAME_WIDTH);
    canvas_put(&v->now, "", "  ", 2);
    canvas_field(&v->now, row.style, row.state, STATE_WIDTH);
    if (machine_width) {
        canvas_put(&v->now, "", "  ", 2);
        canvas_field(&v->now, "", m ? m->id : "", machine_width);
    }
    if (address_width) {
        canvas_put(&v->now, "", "  ", 2);
        canvas_field(&v->now, "", m && m->address ? m->address : "", address_width);
    }
    if (row.from_ms) {
        const uint64_t to_ms = row.to_ms ? row.to_ms : now;
        canvas_put(&v->now, "", "  ", 2);
        canvas_time(&v->now, "2", to_ms > row.from_ms ? to_ms - row.from_ms : 0);
    }
    canvas_end_line(&v->now);
}

/* ---- all of them ---- */

static const char *stage_words(const struct renting *r, const struct fleet_ledger *l)
{
    switch (l->stage) {
    case FLEET_STAGE_NONE:
    case FLEET_STAGE_RENTING:
        break;
    case FLEET_STAGE_RETREATING:
        return "giving back what there is of";
    case FLEET_STAGE_COMPLETE:
        return r->settles ? "looking for" : "rented:";
    case FLEET_STAGE_ENDING:
    case FLEET_STAGE_OVER:
        return "giving back";
    }
    return "renting";
}

static void draw_head(struct renting_view *v, const struct fleet_ledger *l, uint64_t now)
{
    const struct renting *r = v->renting;
    unsigned ready = 0;
    for (uint32_t i = 0; i < l->slot_count; i++)
        ready += l->slots[i].state == FLEET_SLOT_READY;
    canvas_printf(&v->now, "1", "%s", stage_words(r, l));
    if (l->offer != FLEET_NONE && l->wanted.offers) {
        const struct fleet_offer *o = &l->wanted.offers[l->offer];
        canvas_printf(&v->now, "", " %u %s %s at %s%s%s%s", o->nodes, v->utf8 ? "×" : "x", o->type, o->provider,
                      o->region[0] ? " " : "", o->region, o->spot ? ", spot" : "");
    } else {
        canvas_put(&v->now, "", " machines", 9);
    }
    if (l->stage == FLEET_STAGE_RENTING && l->slot_count > 1)
        canvas_printf(&v->now, "", "  %u of %u ready", ready, l->slot_count);
    canvas_put(&v->now, "", "  ", 2);
    canvas_time(&v->now, "2", now > r->began_ms ? now - r->began_ms : 0);
    if (fleet_cost(l, now) >= TOLD_USD) {
        canvas_put(&v->now, "", "  ", 2);
        put_usd(v, "2", fleet_cost(l, now), " so far");
    }
    canvas_end_line(&v->now);
}

/* Whether it is awaited. Awaited nodes come first if there is no room for all. */
static bool is_awaited(const struct fleet_ledger *l, uint32_t node)
{
    const struct row row = row_of(l, node);
    return l->stage >= FLEET_STAGE_ENDING ? row.mark != ROW_WAITS : row.mark != ROW_READY;
}

static void draw_nodes(struct renting_view *v, const struct fleet_ledger *l, unsigned room, uint64_t now)
{
    const bool all = l->slot_count <= room;
    unsigned drawn = 0;
    for (int pass = all ? 1 : 0; pass < 2; pass++)
        for (uint32_t i = 0; i < l->slot_count && (all || drawn + 1 < room); i++)
            if (all || is_awaited(l, i) == (pass == 0)) {
                draw_row(v, l, i, now);
                drawn++;
            }
    if (drawn < l->slot_count) {
        canvas_printf(&v->now, "2", "   and %u more", l->slot_count - drawn);
        canvas_end_line(&v->now);
    }
}

static void draw(struct renting_view *v)
{
    const struct renting *r = v->renting;
    const struct fleet_ledger *l = rent_ledger(r->cluster);
    const uint64_t now = wall_ms();
    unsigned columns, rows;
    term_size(&columns, &rows);
    const unsigned half = rows / 2 > ROWS_MIN ? rows / 2 : ROWS_MIN, most = rows > 4 ? rows - 1 : 3;
    canvas_clear(&v->now, columns);
    v->now.color = r->c->color_err;
    v->now.utf8 = v->utf8;
    draw_head(v, l, now);
    draw_nodes(v, l, (half < most ? half : most) - 2, now);
    canvas_put(&v->now, "", "  ", 2);
    canvas_printf(&v->now, r->interrupted ? "33" : "2", "%s",
                  r->interrupted                   ? "Ctrl-C again lets go of the machines"
                  : l->stage >= FLEET_STAGE_ENDING ? "until the provider shows that none is left"
                  : r->settles                     ? "Ctrl-C ends the command"
                                                   : "Ctrl-C gives the machines back");
    canvas_end_line(&v->now);
}

static void frame(struct renting_view *v)
{
    if (term_foreground()) {
        draw(v);
    } else { /* in the background: lines only, as another program uses the terminal */
        canvas_clear(&v->now, 80);
        canvas_clear(&v->shown, 80);
    }
    canvas_show(&v->now, &v->shown, &v->above);
}

static void on_timer(void *arg)
{
    struct renting_view *v = arg;
    frame(v);
    loop_timer_start(v->timer, TICK_MS);
}

static void on_resumed(void *arg, int signum)
{
    struct renting_view *v = arg;
    (void)signum;
    canvas_clear(&v->shown, 80); /* the shell has written over it */
}

void renting_view_begin(struct renting *r)
{
    if (r->view || r->quiet || r->json || !r->cluster || !cli_has_view(r->c))
        return;
    struct renting_view *v = xcalloc(1, sizeof *v);
    *v = (struct renting_view){.renting = r, .utf8 = term_utf8()};
    v->timer = loop_timer_create(r->loop, on_timer, v);
    v->resumed = loop_signal_create(r->loop, SIGCONT, on_resumed, v, NULL);
    loop_timer_start(v->timer, FIRST_MS);
    r->view = v;
}

void renting_view_end(struct renting *r)
{
    struct renting_view *v = r->view;
    if (!v)
        return;
    r->view = NULL;
    canvas_clear(&v->now, 80);
    if (v->shown.lines > 0 || v->above.len > 0)
        canvas_show(&v->now, &v->shown, &v->above);
    loop_timer_destroy(v->timer);
    loop_signal_destroy(v->resumed);
    canvas_free(&v->now);
    canvas_free(&v->shown);
    buf_free(&v->above);
    free(v);
}

void renting_say(const struct renting *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    if (!r->view || r->view->shown.lines == 0) {
        fprintf(stderr, "rhrun: %s\n", text);
        return;
    }
    buf_printf(&r->view->above, "rhrun: %s\n", text);
    frame(r->view);
}
