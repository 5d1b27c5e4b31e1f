/*
 * A plan as text for people: a line per step and verdict, reasons below it, then ranks, the command and hints. At most
 * WIDTH columns if names allow it. Text from the spec is shown without control characters, so that a spec cannot
 * control the terminal.
 */
#include "internal.h"

#include <string.h>

enum {
    WIDTH = 80,
    NAME_WIDTH = 20,
    NODES_WIDTH = 14,
    VERDICT_WIDTH = 10,
    GROUPS_MAX = 8,
    RANK_LINES = 16,
    ROLE_LINES = 4,
    HINT_NAMES = 3
};

struct group { /* nodes of one step with the same verdict for the same reason */
    struct plan_decision decision;
    uint32_t count;
    bool *on;
};

/* ---- pieces ---- */

static bool is_start(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t columns(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += is_start(*s);
    return n;
}

size_t format_clean(struct buf *b, const char *s, size_t width)
{
    bool cut = columns(s) > width;
    size_t room = cut && width > 3 ? width - 3 : width, n = 0;
    for (; *s; s++) {
        if (is_start(*s) && n++ == room) {
            n--;
            break;
        }
        unsigned char c = (unsigned char)*s;
        buf_putc(b, c < 32 || c == 127 ? ' ' : *s);
    }
    if (cut && width > 3) {
        buf_puts(b, "...");
        n += 3;
    }
    return n;
}

static void put_column(struct buf *b, const char *s, size_t width)
{
    size_t n = columns(s);
    format_clean(b, s, n > width ? SIZE_MAX : width);
    buf_printf(b, "%*s", (int)(n < width ? width - n : 0), "");
    buf_puts(b, "  ");
}

/* A name in full; but of a long path only the end: "...generation/requirements.txt". */
static void put_name(struct buf *b, const char *name, size_t width)
{
    size_t n = columns(name);
    if (n <= width || !strchr(name, '/')) {
        put_column(b, name, width);
        return;
    }
    for (size_t skip = n - (width - 3); skip > 0 || !is_start(*name); name++)
        skip -= is_start(*name);
    CLEANUP(cleanup_free) char *end = xasprintf("...%s", name);
    put_column(b, end, width);
}

/* Text of several lines, each indented. */
static void put_block(struct buf *b, const char *s, const char *indent)
{
    while (*s) {
        size_t len = strcspn(s, "\n");
        CLEANUP(cleanup_free) char *line = xstrndup(s, len);
        buf_puts(b, indent);
        format_clean(b, line, SIZE_MAX);
        buf_putc(b, '\n');
        s += len + (s[len] == '\n');
    }
}

void plan_node_set(const struct plan *plan, const bool *on, struct buf *ret)
{
    uint32_t count = 0, last = 0;
    for (uint32_t i = 0; i < plan->node_count; i++)
        if (on[i]) {
            count++;
            last = i;
        }
    if (count == 1) {
        buf_puts(ret, roster_name(plan->roster, last));
        return;
    }
    const char *comma = "";
    for (uint32_t i = 0; i < plan->node_count; i++) {
        if (!on[i])
            continue;
        uint32_t from = i;
        while (i + 1 < plan->node_count && on[i + 1])
            i++;
        buf_printf(ret, i > from ? "%s%u-%u" : "%s%u", comma, from, i);
        comma = ",";
    }
}

/* ---- steps ---- */

static const char *verdict_colour(enum verdict v)
{
    switch (v) {
    case VERDICT_KEEP:
        return "32";
    case VERDICT_RUN:
    case VERDICT_AGAIN:
        return "33";
    case VERDICT_VERIFY:
    case VERDICT_DEPENDS:
        return "36";
    case VERDICT_NOT_NEEDED:
        break;
    }
    return "2";
}

void format_verdict(struct buf *b, enum verdict v, bool colour)
{
    const char *name = v == VERDICT_DEPENDS ? "depends" : verdict_name(v);
    buf_puts(b, "  ");
    if (colour)
        buf_printf(b, "\033[%sm", verdict_colour(v));
    buf_printf(b, "%-*s", VERDICT_WIDTH, name);
    if (colour)
        buf_puts(b, "\033[0m");
    buf_puts(b, "  ");
}

static size_t group_nodes(const struct plan *plan, const struct plan_step *s, const struct plan_decision *row,
                          struct group *groups, struct arena *arena, uint32_t *ret_rest)
{
    size_t count = 0;
    *ret_rest = 0;
    for (uint32_t n = 0; n < plan->node_count; n++) {
        if (!s->on[n])
            continue;
        struct plan_decision d = row ? row[n] : (struct plan_decision){VERDICT_RUN, NULL};
        size_t g = 0;
        while (g < count && (groups[g].decision.verdict != d.verdict || !str_eq(groups[g].decision.reason, d.reason)))
            g++;
        if (g == GROUPS_MAX) {
            ++*ret_rest;
            continue;
        }
        if (g == count) {
            groups[count++] = (struct group){.decision = d, .on = arena_array(arena, plan->node_count, sizeof(bool))};
        }
        groups[g].on[n] = true;
        groups[g].count++;
    }
    return count;
}

static void put_reason(struct buf *b, const struct plan_decision *d)
{
    const char *also = d->verdict == VERDICT_DEPENDS ? "only the node can tell: " : "";
    if (d->reason) {
        buf_printf(b, "%*s%s", VERDICT_WIDTH + 6, "", also);
        format_clean(b, d->reason, SIZE_MAX);
        buf_putc(b, '\n');
    }
}

static bool is_to_do(const struct plan_decision *d)
{
    return !d || d->verdict == VERDICT_RUN || d->verdict == VERDICT_AGAIN || d->verdict == VERDICT_VERIFY ||
           d->verdict == VERDICT_DEPENDS;
}

/* "after make on node-0": the last item with `on` that must be done first on some node other than the step's own. */
static void put_held(const struct plan *plan, const struct plan_step *s, const struct plan_decision *row,
                     const struct plan_decision *decisions, struct arena *arena, struct buf *b)
{
    uint32_t todo = 0, only = 0; /* among the step's nodes */
    for (uint32_t n = 0; n < plan->node_count; n++)
        if (s->on[n] && is_to_do(row ? &row[n] : NULL)) {
            todo++;
            only = n;
        }
    for (size_t i = s->item_of_setup && todo ? s->id : 0; i-- > 0;) {
        const struct plan_step *before = &plan->steps[i];
        const struct plan_decision *its = decisions ? decisions + i * plan->node_count : NULL;
        uint32_t count = 0, last = 0;
        if (!before->holds_back || before->role != s->role || (todo == 1 && before->on_count == 1 && before->on[only]))
            continue;
        bool *on = arena_array(arena, plan->node_count, sizeof *on);
        for (uint32_t n = 0; n < plan->node_count; n++)
            if (before->on[n] && is_to_do(its ? &its[n] : NULL)) {
                on[n] = true;
                count++;
                last = n;
            }
        if (count == 0 || (count == 1 && todo == 1 && only == last)) /* it waits for that one anyway */
            continue;
        buf_printf(b, "%*safter ", VERDICT_WIDTH + 6, "");
        format_clean(b, before->name, SIZE_MAX);
        buf_puts(b, count > 1 ? " on nodes " : " on ");
        struct buf nodes = {0};
        plan_node_set(plan, on, &nodes);
        format_clean(b, nodes.data, SIZE_MAX);
        buf_putc(b, '\n');
        buf_free(&nodes);
        return;
    }
}

static void put_step(const struct plan *plan, const struct plan_step *s, const struct plan_decision *decisions,
                     bool colour, bool verbose, size_t name_width, struct arena *arena, struct buf *b)
{
    const struct plan_decision *row = decisions ? decisions + s->id * plan->node_count : NULL;
    struct group groups[GROUPS_MAX];
    uint32_t rest;
    size_t count = group_nodes(plan, s, row, groups, arena, &rest);
    for (size_t g = 0; g < count; g++) {
        struct buf nodes = {0};
        plan_node_set(plan, groups[g].on, &nodes);
        format_verdict(b, groups[g].decision.verdict, colour);
        put_name(b, s->name, name_width);
        if (columns(nodes.data) > NODES_WIDTH) {
            buf_clear(&nodes);
            buf_printf(&nodes, "%u node%s", groups[g].count, groups[g].count == 1 ? "" : "s");
        }
        put_column(b, nodes.data, NODES_WIDTH);
        format_clean(b, s->title, WIDTH - (VERDICT_WIDTH + 8 + name_width + NODES_WIDTH));
        while (b->len && b->data[b->len - 1] == ' ')
            b->data[--b->len] = 0;
        buf_putc(b, '\n');
        put_reason(b, &groups[g].decision);
        buf_free(&nodes);
    }
    if (rest)
        buf_printf(b, "%*sand %u more nodes for other reasons\n", VERDICT_WIDTH + 6, "", rest);
    put_held(plan, s, row, decisions, arena, b);
    if (!verbose)
        return;
    buf_printf(b, "%*skey %s\n", VERDICT_WIDTH + 6, "", s->key);
    for (size_t i = 0; i < s->input_count; i++) {
        buf_printf(b, "%*s", VERDICT_WIDTH + 8, "");
        format_clean(b, s->inputs[i].name, SIZE_MAX);
        buf_puts(b, " = ");
        format_clean(b, s->inputs[i].value, SIZE_MAX);
        buf_putc(b, '\n');
    }
}

/* ---- after the steps ---- */

static void put_range(struct buf *b, const char *word, uint32_t first, uint32_t count)
{
    buf_printf(b, count > 1 ? "%s %u-%u" : "%s %u", word, first, first + count - 1);
}

static void put_role(const struct plan *plan, uint32_t role, bool verbose, struct buf *b)
{
    const struct spec_role *s = &plan->spec->roles[role];
    const struct plan_role *r = &plan->roles[role];
    const char *word = s->world == WORLD_NONE ? "worker" : "rank";
    uint32_t shown = 0, nodes = plan->placed[role].node_count;
    buf_printf(b, "    %s: ", r->name);
    if (r->count == 0)
        buf_puts(b, "no workers");
    else
        put_range(b, word, r->rank, r->count);
    buf_puts(b, s->world == WORLD_OWN                ? ", in a world of its own"
                : s->world == WORLD_NONE && r->count ? ", without ranks"
                                                     : "");
    if (s->peer != SPEC_NO_ROLE && r->count > 0)
        buf_printf(b, ", peers %s by %s", plan->roles[s->peer].name, s->by == BY_STRIDE ? "stride" : "block");
    buf_puts(b, s->sidecar ? ", sidecar\n" : "\n");
    for (uint32_t i = 0; i < plan->place_count; i++) {
        const struct plan_place *p = &plan->places[i];
        if (p->role != role)
            continue;
        if (shown == ROLE_LINES && !verbose && nodes > ROLE_LINES + 1) {
            buf_printf(b, "      and on %u more nodes\n", nodes - shown);
            return;
        }
        buf_puts(b, "      ");
        put_range(b, word, p->rank, p->count);
        buf_printf(b, " on node %u (", p->node);
        format_clean(b, roster_name(plan->roster, p->node), SIZE_MAX);
        buf_puts(b, ")\n");
        shown++;
    }
}

static void put_roles(const struct plan *plan, bool verbose, struct buf *b)
{
    if (!plan->ranks_known) {
        buf_puts(b, "\n  ranks: known once the nodes have reported their CPUs and GPUs\n");
        return;
    }
    buf_printf(b, "\n  %u rank%s", plan->world_size, plan->world_size == 1 ? "" : "s");
    if (plan->worker_count > plan->world_size)
        buf_printf(b, ", %u worker%s outside of their world", plan->worker_count - plan->world_size,
                   plan->worker_count - plan->world_size == 1 ? "" : "s");
    buf_putc(b, '\n');
    for (uint32_t i = 0; i < plan->spec->role_count; i++)
        put_role(plan, i, verbose, b);
}

static void put_ranks(const struct plan *plan, bool verbose, struct buf *b)
{
    if (!plan->spec->distributed.present || plan->points)
        return;
    if (plan->spec->role_count > 0) {
        put_roles(plan, verbose, b);
        return;
    }
    if (!plan->ranks_known) {
        bool own = plan->spec->distributed.launcher == LAUNCHER_TORCHRUN || plan->world_size > 0;
        buf_printf(b, "\n  ranks: %s\n",
                   own ? "given by torchrun when its nodes have met"
                       : "known once the nodes have reported their CPUs and GPUs");
        return;
    }
    buf_printf(b, "\n  %u ranks\n", plan->world_size);
    uint32_t rank = 0;
    for (uint32_t n = 0; n < plan->node_count; n++) {
        if (n == RANK_LINES && !verbose && plan->node_count > RANK_LINES + 1) {
            buf_printf(b, "    rank %u-%u on %u more nodes\n", rank, plan->world_size - 1, plan->node_count - n);
            return;
        }
        uint32_t last = rank + plan->nproc[n] - 1;
        buf_printf(b, last > rank ? "    rank %u-%u" : "    rank %u", rank, last);
        buf_printf(b, " on node %u (", n);
        format_clean(b, roster_name(plan->roster, n), SIZE_MAX);
        buf_puts(b, ")\n");
        rank = last + 1;
    }
}

static bool starts(const struct plan *plan, const struct plan_step *s, const struct plan_decision *row)
{
    for (uint32_t n = 0; n < plan->node_count; n++)
        if (s->on[n] && is_to_do(row ? &row[n] : NULL))
            return true;
    return false;
}

/* The launch's command always; those of other steps if asked for, or if the title does not show everything. */
static void put_commands(const struct plan *plan, const struct plan_decision *decisions, bool verbose, struct buf *b)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *s = &plan->steps[i];
        const struct plan_decision *row = decisions ? decisions + i * plan->node_count : NULL;
        const bool first = plan->points && s->id == plan->points[0].launch;
        if (!s->command || (!first && (!starts(plan, s, row) || (!verbose && s->kind->phase != PHASE_LAUNCH))))
            continue;
        buf_putc(b, '\n');
        buf_puts(b, "  ");
        if (first)
            buf_puts(b, "point ");
        format_clean(b, first ? plan->points[0].point->name : s->name, SIZE_MAX);
        buf_puts(b, " starts\n");
        put_block(b, s->command, "    ");
    }
}

static bool hint_said_before(const struct plan *plan, size_t step)
{
    for (size_t i = 0; i < step; i++)
        if (str_eq(plan->steps[i].hint, plan->steps[step].hint))
            return true;
    return false;
}

/* Each hint once, with its steps. */
static void put_hints(const struct plan *plan, struct buf *b)
{
    const char *before = "\n";
    for (size_t i = 0; i < plan->step_count; i++) {
        const char *hint = plan->steps[i].hint;
        size_t count = 0;
        if (!hint || hint_said_before(plan, i))
            continue;
        buf_printf(b, "%s  hint: ", before);
        for (size_t k = i; k < plan->step_count; k++) {
            if (!str_eq(plan->steps[k].hint, hint) || count++ >= HINT_NAMES)
                continue;
            buf_puts(b, count > 1 ? ", " : "");
            format_clean(b, plan->steps[k].name, SIZE_MAX);
        }
        if (count > HINT_NAMES)
            buf_printf(b, " and %zu more", count - HINT_NAMES);
        buf_puts(b, ": ");
        format_clean(b, hint, SIZE_MAX);
        buf_putc(b, '\n');
        before = "";
    }
}

/* The number of steps, without those of points. */
static size_t format_steps(const struct plan *plan)
{
    return plan->points ? plan->points[0].launch : plan->step_count;
}

static void put_header(const struct plan *plan, const struct plan_decision *decisions, struct buf *b)
{
    const struct spec *spec = plan->spec;
    size_t todo = points_to_do(plan), steps = format_steps(plan);
    for (size_t i = 0; i < steps; i++)
        todo += starts(plan, &plan->steps[i], decisions ? decisions + i * plan->node_count : NULL);
    if (plan->rent) {
        steps++;
        todo += plan_rent_verdict(plan, decisions) == VERDICT_RUN;
    }
    format_clean(b, spec->name, SIZE_MAX);
    if (spec->path) {
        buf_puts(b, " (");
        format_clean(b, spec->path, SIZE_MAX);
        buf_puts(b, ")");
    }
    buf_printf(b, ": %zu step%s", steps, steps == 1 ? "" : "s");
    if (plan->points)
        buf_printf(b, " and %u point%s", plan->point_count, plan->point_count == 1 ? "" : "s");
    buf_printf(b, " on %u node%s, ", plan->node_count, plan->node_count == 1 ? "" : "s");
    if (todo)
        buf_printf(b, "%zu to do\n\n", todo);
    else
        buf_puts(b, "nothing to do\n\n");
}

void plan_format(const struct plan *plan, const struct plan_decision *decisions, bool colour, bool verbose,
                 struct buf *ret)
{
    size_t name_width = 6;
    struct arena *arena = arena_create();
    const size_t steps = format_steps(plan);
    for (size_t i = 0; i < steps; i++) {
        size_t n = columns(plan->steps[i].name);
        if (n > name_width)
            name_width = n < NAME_WIDTH ? n : NAME_WIDTH;
    }
    put_header(plan, decisions, ret);
    if (plan->rent)
        format_rent_step(plan, decisions, colour, name_width, ret);
    for (size_t i = 0; i < steps; i++) {
        put_step(plan, &plan->steps[i], decisions, colour, verbose, name_width, arena, ret);
        arena_reset(arena);
    }
    if (plan->points)
        format_points(plan, colour, verbose, ret);
    if (plan->rent && plan_rent_verdict(plan, decisions) == VERDICT_RUN)
        format_rent_offers(plan, verbose, ret);
    put_ranks(plan, verbose, ret);
    put_commands(plan, decisions, verbose, ret);
    put_hints(plan, ret);
    arena_destroy(arena);
}
