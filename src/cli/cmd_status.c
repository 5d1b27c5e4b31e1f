/* rhrun status: one run in detail. Nodes on which a step has the same state form one group: "build  ok 31: 0-28,30-31;
 * running 1: n29 for 15 s". */
#include "points.h"
#include "renting.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POINTS_SHOWN = 20, NAMES_SHOWN = 12, WATCH_MS = 500, STEP_WIDTH = 20, CAUSE_MAX = 160 };

struct view { /* what is to be printed */
    struct cli *c;
    struct journal *j;
    const struct state_run *run;
    const char *const *plan; /* the present steps of the spec, in order, ended by NULL */
};

/* ---- the steps, in the order of the plan ---- */

static const char *const *plan_steps(struct cli *c, const struct state_run *run)
{
    const char **names = arena_array(c->arena, 1, sizeof *names);
    struct spec *spec;
    struct plan *plan;
    struct diagnostics ignored = {0};
    struct error none = ERROR_INIT;
    struct spec_overrides o = cli_overrides(c), was = run_overrides(run, c->arena);
    o.sets = was.sets;
    o.set_count = was.set_count;
    o.params = was.params;
    o.param_count = was.param_count;
    o.on = was.on;
    o.args = was.args;
    o.arg_count = was.arg_count;
    if (run->spec_path && spec_load(run->spec_path, &o, c->arena, &spec, &ignored, &none) == 0 &&
        plan_compile(spec, roster_create(spec, c->arena), step_kinds, NULL, NULL, c->arena, &plan, &none) == 0) {
        names = arena_array(c->arena, plan->step_count + 1, sizeof *names);
        for (size_t i = 0; i < plan->step_count; i++)
            names[i] = plan->steps[i].name;
    }
    diagnostics_free(&ignored);
    return names;
}

struct step { /* with cells */
    const char *name;
    size_t place; /* index in the plan; past the end: the spec has it no more */
    uint64_t seq; /* of its first attempt */
    size_t count;
};

static bool is_before(const struct step *a, const struct step *b)
{
    return a->place != b->place ? a->place < b->place : a->seq < b->seq;
}

static bool is_shown(const struct view *v, const struct state_cell *cell)
{
    return (!*cell->scope || !v->run->variant || str_eq(cell->scope, v->run->variant)) && !cli_is_point_cell(cell);
}

static struct step *steps_of(const struct view *v, size_t *ret_count)
{
    const struct state *s = journal_state(v->j);
    struct step *steps = NULL;
    size_t count = 0;
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *cell = &s->cells[i];
        size_t at = 0;
        if (!is_shown(v, cell))
            continue;
        while (at < count && strcmp(steps[at].name, cell->step) != 0)
            at++;
        if (at == count) {
            steps = xreallocarray(steps, ++count, sizeof *steps);
            steps[at] = (struct step){.name = cell->step, .seq = cell->seq};
            while (v->plan[steps[at].place] && strcmp(v->plan[steps[at].place], cell->step) != 0)
                steps[at].place++;
        }
        steps[at].seq = cell->seq < steps[at].seq ? cell->seq : steps[at].seq;
        steps[at].count++;
    }
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && is_before(&steps[k], &steps[k - 1]); k--) {
            const struct step other = steps[k];
            steps[k] = steps[k - 1];
            steps[k - 1] = other;
        }
    *ret_count = count;
    return steps;
}

/* A cell has only the latest attempt: a later run of the variant overwrites the attempt of this run. */
static const char *whose_cell(const struct state *s, const struct state_run *run, const struct state_cell *cell)
{
    const struct state_run *other = state_run_find(s, cell->run);
    return str_eq(cell->run, run->id)                   ? ""
           : other && other->opened_ms > run->opened_ms ? "  (later run)"
                                                        : "  (earlier run)";
}

/* The run is open, and repeats what an earlier one did: the earlier attempt does not count for it. */
static bool is_to_do(const struct state_run *run, const struct state_cell *cell)
{
    return run->status == RUN_OPEN && !str_eq(cell->run, run->id) &&
           (cell->voided || (cell->generation > 0 && (run->flags & RUN_FLAGS_ANEW)));
}

static const char *word_of(const struct state_cell *cell)
{
    return cell->outcome == OUTCOME_NONE ? "running" : outcome_name(cell->outcome);
}

static uint64_t time_of(const struct state_cell *cell)
{
    const uint64_t to = cell->finished_ms ? cell->finished_ms : wall_ms();
    return to > cell->started_ms ? to - cell->started_ms : 0;
}

static const char *host_of(const struct state *s, uint32_t node)
{
    return node < s->node_count && s->nodes[node].host ? s->nodes[node].host : "-";
}

static void put_dropped(const struct view *v, const char *step, struct buf *b)
{
    const struct state *s = journal_state(v->j);
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *cell = &s->cells[i];
        if (!is_shown(v, cell) || strcmp(cell->step, step) != 0 || !cell->dropped_bytes)
            continue;
        buf_puts(b, "    ");
        plain_dropped(b, cell->step, host_of(s, cell->node), cell->dropped_bytes, cell->dropped_by);
        buf_putc(b, '\n');
    }
}

/* ---- groups ---- */

struct group {                     /* of nodes on which a step has the same state */
    const struct state_cell *cell; /* of one of them */
    const char *whose;
    char cause[CAUSE_MAX];
    uint32_t *nodes;
    size_t count;
    uint64_t longest_ms;
    bool to_do; /* to be done, whatever an earlier run did there */
};

static void put_group(const struct view *v, const struct group *g, bool alone, struct buf *b)
{
    const struct state *s = journal_state(v->j);
    char took[32];
    const bool ok = g->cell->outcome == OUTCOME_OK && !g->to_do, runs = g->cell->outcome == OUTCOME_NONE;
    const bool all = g->count == v->run->node_count;
    cli_duration(g->longest_ms, took);
    buf_puts(b, g->to_do ? "to do" : word_of(g->cell));
    if (v->run->node_count > 1)
        buf_printf(b, " %zu", g->count);
    if (ok)
        buf_printf(b, " in %s", took);
    if (v->run->node_count > 1 && !(all && alone)) {
        buf_puts(b, ": ");
        if (ok) {
            cli_put_numbers(b, g->nodes, g->count);
        } else {
            const char **names = xcalloc(g->count, sizeof *names);
            for (size_t i = 0; i < g->count; i++)
                names[i] = host_of(s, g->nodes[i]);
            cli_put_names(b, names, g->count, NAMES_SHOWN);
            free(names);
        }
    }
    if (!ok && !g->to_do)
        buf_printf(b, " %s %s", runs ? "for" : "after", took);
    buf_printf(b, "%s%s%s", *g->cause ? ": " : "", g->cause, g->whose);
}

static int by_node(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Groups that ended well come first, then running ones; those to do come last. */
static int in_order(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    static const int ranks[] = {[OUTCOME_OK] = -2, [OUTCOME_NONE] = -1, [OUTCOME_NOT_STARTED] = 0};
    const int p = x->to_do ? 1 : ranks[x->cell->outcome], q = y->to_do ? 1 : ranks[y->cell->outcome];
    return p != q ? p - q : x->nodes[0] < y->nodes[0] ? -1 : x->nodes[0] > y->nodes[0];
}

static void put_step(const struct view *v, const struct step *step, int width, struct buf *b)
{
    const struct state *s = journal_state(v->j);
    struct group *groups = NULL;
    size_t count = 0;
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *cell = &s->cells[i];
        char cause[CAUSE_MAX] = "";
        size_t at = 0;
        if (!is_shown(v, cell) || strcmp(cell->step, step->name) != 0)
            continue;
        const bool to_do = is_to_do(v->run, cell);
        const enum outcome outcome = to_do ? OUTCOME_NOT_STARTED : cell->outcome;
        const char *whose = to_do ? "" : whose_cell(s, v->run, cell);
        if (plain_step_failed(outcome))
            run_cause_text(cell->outcome, cell->cause, cell->cause_value, cause, sizeof cause);
        while (at < count && (groups[at].to_do != to_do || (!to_do && groups[at].cell->outcome != cell->outcome) ||
                              strcmp(groups[at].whose, whose) != 0 || strcmp(groups[at].cause, cause) != 0))
            at++;
        if (at == count) {
            groups = xreallocarray(groups, ++count, sizeof *groups);
            groups[at] = (struct group){.cell = cell, .whose = whose, .to_do = to_do};
            memcpy(groups[at].cause, cause, sizeof cause);
            groups[at].nodes = xcalloc(step->count, sizeof(uint32_t));
        }
        const uint64_t took = time_of(cell);
        groups[at].longest_ms = took > groups[at].longest_ms ? took : groups[at].longest_ms;
        groups[at].nodes[groups[at].count++] = cell->node;
    }
    for (size_t i = 0; i < count; i++)
        qsort(groups[i].nodes, groups[i].count, sizeof(uint32_t), by_node);
    if (count)
        qsort(groups, count, sizeof *groups, in_order);
    buf_printf(b, "  %-*s", width, step->name);
    for (size_t i = 0; i < count; i++) {
        buf_puts(b, i ? "; " : "  ");
        put_group(v, &groups[i], count == 1, b);
        free(groups[i].nodes);
    }
    buf_putc(b, '\n');
    free(groups);
}

/* --all: each node on a line of its own. */
static void put_cells(const struct view *v, const struct step *step, int width, struct buf *b)
{
    const struct state *s = journal_state(v->j);
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *cell = &s->cells[i];
        char took[32];
        if (!is_shown(v, cell) || strcmp(cell->step, step->name) != 0)
            continue;
        if (is_to_do(v->run, cell)) {
            buf_printf(b, "  %-*s  %-20s  to do\n", width, cell->step, host_of(s, cell->node));
            continue;
        }
        cli_duration(time_of(cell), took);
        buf_printf(b, "  %-*s  %-20s  %-11s  %9s%s\n", width, cell->step, host_of(s, cell->node), word_of(cell), took,
                   whose_cell(s, v->run, cell));
    }
}

static void put_steps(const struct view *v, struct buf *b)
{
    size_t count;
    struct step *steps = steps_of(v, &count);
    int width = 0;
    for (size_t i = 0; i < count; i++) {
        const int len = (int)strlen(steps[i].name);
        width = len > width ? len : width;
    }
    width = width > 2 * STEP_WIDTH ? 2 * STEP_WIDTH : width;
    for (size_t i = 0; i < count; i++) {
        if (v->c->given[OPT_ALL])
            put_cells(v, &steps[i], width, b);
        else
            put_step(v, &steps[i], width, b);
        put_dropped(v, steps[i].name, b);
    }
    free(steps);
}

static void put_cells_json(const struct view *v, struct buf *b)
{
    const struct state *s = journal_state(v->j);
    bool first = true;
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *cell = &s->cells[i];
        if (*cell->scope && v->run->variant && !str_eq(cell->scope, v->run->variant))
            continue;
        buf_puts(b, first ? "{" : ",{");
        cli_json_string(b, "step", cell->step);
        cli_json_string(b, "outcome", word_of(cell));
        cli_json_string(b, "run", cell->run);
        cli_json_string(b, "attempt", cell->attempt);
        cli_json_string(b, "key", cell->key);
        cli_json_string(b, "host", cell->node < s->node_count ? s->nodes[cell->node].host : NULL);
        buf_printf(b,
                   ",\"node\":%u,\"generation\":%u,\"settled\":%s,\"started_ms\":%llu,\"finished_ms\":%llu,\"log_"
                   "bytes\":%llu,\"dropped_bytes\":%llu",
                   cell->node, cell->generation, cell->settled ? "true" : "false", (unsigned long long)cell->started_ms,
                   (unsigned long long)cell->finished_ms, (unsigned long long)cell->log_bytes,
                   (unsigned long long)cell->dropped_bytes);
        cli_json_string(b, "dropped_by", cell->dropped_by);
        buf_putc(b, '}');
        first = false;
    }
}

/* ---- the whole ---- */

/* The command that it was started with, for any folder; NULL: the journal does not say. */
static const char *command_of(struct cli *c, const struct state_run *run)
{
    struct spec_overrides o = run_overrides(run, c->arena);
    return run->spec_path ? run_command_line(NULL, run->spec_path, &o, c->arena) : NULL;
}

/* The job's rented machines now. */
static void status_cluster(struct cli *c, const char *job, struct buf *b)
{
    struct error none = ERROR_INIT;
    struct fleet_ledger *l;
    const char *id;
    if (renting_find(job, c->arena, &id, &none) < 0 || !id || rent_read(id, &l, &none) < 0)
        return;
    buf_printf(b, "  cluster %s: %s, ", id, fleet_stage_name(l->stage));
    renting_put_usd(b, fleet_rate(l));
    buf_puts(b, " an hour, ");
    renting_put_usd(b, fleet_cost(l, wall_ms()));
    buf_puts(b, " so far\n");
    fleet_ledger_destroy(l);
}

static void put_json(const struct view *v, const struct cli_points *points, const char *word, pid_t pid, struct buf *b)
{
    const struct state_run *run = v->run;
    buf_putc(b, '{');
    cli_json_string(b, "run", run->id);
    cli_json_string(b, "job", journal_job_name(v->j));
    cli_json_string(b, "origin", journal_origin(v->j));
    cli_json_string(b, "status", word);
    cli_json_string(b, "message", run->message);
    cli_json_string(b, "variant", run->variant);
    cli_json_string(b, "spec", run->spec_path);
    cli_json_string(b, "command", command_of(v->c, run));
    buf_printf(b,
               ",\"exit_status\":%d,\"opened_ms\":%llu,\"closed_ms\":%llu,\"nodes\":%u,\"restarts\":%u,"
               "\"generation\":%u,\"controller_pid\":%d,\"steps\":[",
               run->exit_status, (unsigned long long)run->opened_ms, (unsigned long long)run->closed_ms,
               run->node_count, run->restarts, run->generation, (int)pid);
    put_cells_json(v, b);
    buf_putc(b, ']');
    if (run->point_count) {
        buf_puts(b, ",\"points\":");
        cli_points_json(journal_state(v->j), points, b);
    }
    status_rules_json(run, b);
    status_ports(v->j, run, true, b);
    buf_puts(b, "}\n");
}

static void put_text(const struct view *v, const struct cli_points *points, const char *word, pid_t pid,
                     const char *holder, struct buf *b)
{
    const struct state_run *run = v->run;
    const char *command = command_of(v->c, run);
    const bool more = run->message && !str_eq(run->message, word);
    char when[32], took[32];
    cli_time(run->opened_ms, when);
    cli_duration((run->closed_ms ? run->closed_ms : wall_ms()) - run->opened_ms, took);
    buf_printf(b, "run %s of %s: %s%s%s\n", run->id, journal_job_name(v->j), word, more ? ": " : "",
               more ? run->message : "");
    buf_printf(b, "  started %s, %s %s, %u node%s", when, run->closed_ms ? "took" : "for", took, run->node_count,
               run->node_count == 1 ? "" : "s");
    if (run->restarts)
        buf_printf(b, ", %u restart%s", run->restarts, run->restarts == 1 ? "" : "s");
    buf_putc(b, '\n');
    if (command)
        buf_printf(b, "  command: %s\n", command);
    if (pid)
        buf_printf(b, "  controller: pid %d (%s)\n", (int)pid, holder ? holder : "?");
    else if (run->status == RUN_OPEN)
        buf_printf(b, "  no controller: that command continues the run, or rhrun attach %s in the background\n",
                   run->id);
    status_cluster(v->c, journal_job(v->j), b);
    status_ports(v->j, run, false, b);
    status_rules(run, b);
    put_steps(v, b);
    if (points->count) {
        buf_puts(b, "  ");
        cli_points_counts(points, b);
        buf_putc(b, '\n');
        cli_points_table(journal_state(v->j), run, points, v->c->given[OPT_ALL] ? SIZE_MAX : POINTS_SHOWN, b);
    }
}

static int put_status(const struct view *v, struct buf *b, struct error *err)
{
    struct cli_points points;
    if (cli_points(v->c, v->j, v->run, &points, err) < 0)
        return -1;
    cli_points_sort(&points);
    pid_t pid = 0;
    char *holder = NULL;
    if (v->run->status != RUN_OPEN || !journal_holder(v->j, &pid, &holder))
        pid = 0;
    if (v->c->given[OPT_JSON])
        put_json(v, &points, cli_run_word(v->j, v->run), pid, b);
    else
        put_text(v, &points, cli_run_word(v->j, v->run), pid, holder, b);
    free(holder);
    return 0;
}

/* ---- --watch ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signum)
{
    (void)signum;
    interrupted = 1;
}

/* The first line, with the run's state, and the last lines that fit, drawn over the previous ones. */
static void draw(struct canvas *now, struct canvas *shown, const struct buf *text)
{
    unsigned columns, rows, lines = 0, line = 0;
    struct buf none = {0};
    term_size(&columns, &rows);
    canvas_clear(now, columns);
    now->utf8 = term_utf8();
    for (size_t i = 0; i < text->len; i++)
        lines += text->data[i] == '\n';
    for (const char *at = text->data, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        if (line++ > 0 && line + rows <= lines + 2)
            continue;
        canvas_put(now, "", at, (size_t)(end - at));
        canvas_end_line(now);
    }
    canvas_show(now, shown, &none);
}

/* Prints again after each change, until the run has ended or Ctrl-C. */
static int watch(struct view *v, struct error *err)
{
    const bool screen = isatty(1) && isatty(2) && !v->c->given[OPT_JSON];
    const struct sigaction act = {.sa_handler = on_interrupt};
    CLEANUP(cleanup_free) char *id = xstrdup(v->run->id);
    struct canvas now = {0}, shown = {0};
    struct buf text = {0};
    uint64_t seen = UINT64_MAX;
    int rc = 0;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    while (rc == 0) {
        buf_clear(&text);
        rc = put_status(v, &text, err);
        const uint64_t seq = journal_state(v->j)->last_seq;
        const bool news = rc == 0 && (screen || seq != seen); /* in a file there is no line just because time passes */
        if (news && screen) {
            draw(&now, &shown, &text);
        } else if (news) {
            fwrite(text.data, 1, text.len, stdout);
            fflush(stdout);
        }
        seen = seq;
        if (rc < 0 || interrupted || v->run->status != RUN_OPEN)
            break;
        const struct timespec pause = {0, WATCH_MS * 1000000};
        nanosleep(&pause, NULL);
        rc = journal_refresh(v->j, err);
        v->run = state_run_find(journal_state(v->j), id);
        if (!v->run)
            break;
    }
    canvas_free(&now);
    canvas_free(&shown);
    buf_free(&text);
    return rc;
}

static int cmd_status(struct cli *c)
{
    struct view v = {.c = c};
    struct error err = ERROR_INIT;
    if (cli_find_run(c, c->word_count ? c->words[0] : "last", &v.j, &v.run, &err) < 0)
        return cli_fail(c, &err);
    v.plan = plan_steps(c, v.run);
    struct buf b = {0};
    const int rc = c->given[OPT_WATCH] ? watch(&v, &err) : put_status(&v, &b, &err);
    fwrite(b.data ? b.data : "", 1, b.len, stdout);
    buf_free(&b);
    journal_close(v.j);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

static const enum cli_option_id status_options[] = {OPT_WATCH, OPT_POINT, OPT_ALL, OPT_SET, OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_status_command = {
    "status",
    "[RUN]",
    "Show one run: its steps on its nodes",
    "RUN is an id, a unique prefix, last (the default), the name of a job, or a spec\n"
    "file; with a spec file -p, --set and the words after -- choose one of its runs.\n"
    "Each step is one line, which counts the nodes on which the step is in the same\n"
    "state, and gives numbers of nodes where it ended well; --all: a line for each\n"
    "node. --watch refreshes the output until the run has ended. For a sweep: a table\n"
    "of its points, failed and running points first, at most 20 without --all;\n"
    "--point, and -p with a param of the sweep, choose among them.",
    status_options,
    0,
    1,
    true,
    cmd_status};
