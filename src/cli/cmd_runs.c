/* rhrun runs: the runs of all jobs, or of one spec; rhrun status: one run in detail; rhrun show: a spec as rhrun reads it, or a run. */
#include "renting.h"

#include <stdlib.h>
#include <string.h>

struct row {
    char *job, *id, *variant, *spec;
    const char *status, *options;
    int32_t exit_status;
    uint64_t opened_ms, closed_ms;
    uint32_t nodes, restarts;
};

static void add_rows(struct cli *c, struct journal *j, const struct cli_choice *choice, struct row **rows,
                     size_t *count)
{
    const struct state *s = journal_state(j);
    *rows = xreallocarray(*rows, *count + s->run_count + 1, sizeof **rows);
    for (size_t i = 0; i < s->run_count; i++) {
        const struct state_run *r = &s->runs[i];
        if (!cli_chosen(choice, r))
            continue;
        (*rows)[(*count)++] = (struct row){arena_strdup(c->arena, journal_job_name(j)),
                                           arena_strdup(c->arena, r->id),
                                           arena_strdup(c->arena, r->variant),
                                           arena_strdup(c->arena, r->spec_path),
                                           cli_run_word(j, r),
                                           cli_options_of(c, r),
                                           r->exit_status,
                                           r->opened_ms,
                                           r->closed_ms,
                                           r->node_count,
                                           r->restarts};
    }
}

static int newest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->opened_ms < y->opened_ms ? 1 : x->opened_ms > y->opened_ms ? -1 : 0;
}

static void print_rows(struct cli *c, const struct row *rows, size_t count)
{
    struct buf b = {0};
    if (c->given[OPT_JSON]) {
        buf_putc(&b, '[');
        for (size_t i = 0; i < count; i++) {
            buf_puts(&b, i ? ",{" : "{");
            cli_json_string(&b, "run", rows[i].id);
            cli_json_string(&b, "job", rows[i].job);
            cli_json_string(&b, "status", rows[i].status);
            cli_json_string(&b, "variant", rows[i].variant);
            cli_json_string(&b, "spec", rows[i].spec);
            cli_json_string(&b, "options", rows[i].options);
            buf_printf(&b, ",\"exit_status\":%d,\"opened_ms\":%llu,\"closed_ms\":%llu,\"nodes\":%u,\"restarts\":%u}",
                       rows[i].exit_status, (unsigned long long)rows[i].opened_ms,
                       (unsigned long long)rows[i].closed_ms, rows[i].nodes, rows[i].restarts);
        }
        buf_puts(&b, "]\n");
    } else if (count == 0) {
        fprintf(stderr, "rhrun: nothing was run yet\n");
    } else {
        buf_printf(&b, "%-16s  %-20s  %-10s  %-19s  %9s  %5s  %s\n", "RUN", "JOB", "STATUS", "STARTED", "TOOK", "NODES",
                   "OPTIONS");
        for (size_t i = 0; i < count; i++) {
            char when[32], took[32] = "-";
            cli_time(rows[i].opened_ms, when);
            if (rows[i].closed_ms)
                cli_duration(rows[i].closed_ms - rows[i].opened_ms, took);
            buf_printf(&b, "%-16s  %-20.20s  %-10s  %-19s  %9s  %5u%s%s\n", rows[i].id, rows[i].job, rows[i].status,
                       when, took, rows[i].nodes, *rows[i].options ? "  " : "", rows[i].options);
        }
    }
    fwrite(b.data ? b.data : "", 1, b.len, stdout);
    buf_free(&b);
}

static int runs_of_spec(struct cli *c, struct row **rows, size_t *count, struct error *err)
{
    struct cli_choice choice;
    struct journal *j;
    if (cli_find_job(c, c->words[0], &j, &choice, err) < 0)
        return -1;
    add_rows(c, j, &choice, rows, count);
    int rc = *count == 0 ? cli_none_chosen(c, &choice, j, err) : 0;
    journal_close(j);
    return rc;
}

static int runs_of_all(struct cli *c, struct row **rows, size_t *count, struct error *err)
{
    struct journal_job *jobs;
    size_t job_count;
    if (cli_chooses(c))
        return cli_nothing_to_choose(err);
    if (journal_jobs(&jobs, &job_count, err) < 0)
        return -1;
    for (size_t i = 0; i < job_count; i++) {
        struct journal *j;
        struct error unreadable = ERROR_INIT;
        if (journal_open_read(jobs[i].id, &j, &unreadable) < 0) {
            fprintf(stderr, "rhrun: warning: %s\n", unreadable.text);
            continue;
        }
        add_rows(c, j, NULL, rows, count);
        journal_close(j);
    }
    journal_jobs_free(jobs, job_count);
    return 0;
}

static int cmd_runs(struct cli *c)
{
    struct error err = ERROR_INIT;
    struct row *rows = NULL;
    size_t count = 0;
    uint64_t limit = SIZE_MAX;
    int rc = 0;
    if (c->given[OPT_LIMIT] && !parse_u64(c->value[OPT_LIMIT], &limit))
        rc = error_set(&err, ERROR_USAGE, "--limit: \"%s\" is no number", c->value[OPT_LIMIT]);
    else
        rc = c->word_count ? runs_of_spec(c, &rows, &count, &err) : runs_of_all(c, &rows, &count, &err);
    if (rc == 0) {
        if (count)
            qsort(rows, count, sizeof *rows, newest_first);
        print_rows(c, rows, count < limit ? count : (size_t)limit);
    } else {
        rc = cli_fail(c, &err);
    }
    free(rows);
    return rc;
}

static const enum cli_option_id runs_options[] = {OPT_LIMIT, OPT_SET, OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_runs_command = {
    "runs",
    "[SPEC [-- ARG...]]",
    "List the runs, newest first",
    "With a spec, its runs; -p, --set and the words behind -- choose among them.",
    runs_options,
    0,
    1,
    true,
    cmd_runs};

/* ---- status ---- */

/* A cell holds the latest attempt: what another run of the variant did since stands in place of what this one did. */
static const char *whose_cell(const struct state *s, const struct state_run *run, const struct state_cell *cell)
{
    const struct state_run *other = state_run_find(s, cell->run);
    return str_eq(cell->run, run->id)                   ? ""
           : other && other->opened_ms > run->opened_ms ? "  (later run)"
                                                        : "  (earlier run)";
}

static void status_cells(const struct state *s, const struct state_run *run, struct buf *b, bool json)
{
    bool first = true;
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *cell = &s->cells[i];
        if (*cell->scope && run->variant && !str_eq(cell->scope, run->variant))
            continue;
        if (json) {
            buf_puts(b, first ? "{" : ",{");
            cli_json_string(b, "step", cell->step);
            cli_json_string(b, "outcome", cell->outcome == OUTCOME_NONE ? "running" : outcome_name(cell->outcome));
            cli_json_string(b, "run", cell->run);
            cli_json_string(b, "attempt", cell->attempt);
            cli_json_string(b, "key", cell->key);
            cli_json_string(b, "host", cell->node < s->node_count ? s->nodes[cell->node].host : NULL);
            buf_printf(b,
                       ",\"node\":%u,\"generation\":%u,\"settled\":%s,\"started_ms\":%llu,\"finished_ms\":%llu,\"log_"
                       "bytes\":%llu,\"dropped_bytes\":%llu",
                       cell->node, cell->generation, cell->settled ? "true" : "false",
                       (unsigned long long)cell->started_ms, (unsigned long long)cell->finished_ms,
                       (unsigned long long)cell->log_bytes, (unsigned long long)cell->dropped_bytes);
            cli_json_string(b, "dropped_by", cell->dropped_by);
            buf_putc(b, '}');
        } else {
            char took[32] = "";
            if (cell->finished_ms)
                cli_duration(cell->finished_ms - cell->started_ms, took);
            const char *host = cell->node < s->node_count ? s->nodes[cell->node].host : NULL;
            buf_printf(b, "  %-20s  %-20s  %-11s  %9s%s\n", cell->step, host ? host : "-",
                       cell->outcome == OUTCOME_NONE ? "running" : outcome_name(cell->outcome), took,
                       whose_cell(s, run, cell));
            if (cell->dropped_bytes) {
                buf_puts(b, "    ");
                plain_dropped(b, cell->step, host ? host : "-", cell->dropped_bytes, cell->dropped_by);
                buf_putc(b, '\n');
            }
        }
        first = false;
    }
}

/* What it was started with, from any folder; NULL: the journal does not say. */
static const char *command_of(struct cli *c, const struct state_run *run)
{
    struct spec_overrides o = run_overrides(run, c->arena);
    return run->spec_path ? run_command_line(NULL, run->spec_path, &o, c->arena) : NULL;
}

/* What is rented for the job now. */
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

static int cmd_status(struct cli *c)
{
    struct journal *j;
    const struct state_run *run;
    struct error err = ERROR_INIT;
    char when[32], took[32];
    if (cli_find_run(c, c->word_count ? c->words[0] : "last", &j, &run, &err) < 0)
        return cli_fail(c, &err);
    pid_t pid = 0;
    char *holder = NULL;
    bool live = run->status == RUN_OPEN && journal_holder(j, &pid, &holder);
    const char *command = command_of(c, run);
    const char *word = run->status == RUN_OPEN ? live ? "running" : "unfinished" : run_status_name(run->status);
    struct buf b = {0};
    cli_time(run->opened_ms, when);
    cli_duration((run->closed_ms ? run->closed_ms : wall_ms()) - run->opened_ms, took);
    if (c->given[OPT_JSON]) {
        buf_putc(&b, '{');
        cli_json_string(&b, "run", run->id);
        cli_json_string(&b, "job", journal_job_name(j));
        cli_json_string(&b, "origin", journal_origin(j));
        cli_json_string(&b, "status", word);
        cli_json_string(&b, "message", run->message);
        cli_json_string(&b, "variant", run->variant);
        cli_json_string(&b, "spec", run->spec_path);
        cli_json_string(&b, "command", command);
        buf_printf(&b,
                   ",\"exit_status\":%d,\"opened_ms\":%llu,\"closed_ms\":%llu,\"nodes\":%u,\"restarts\":%u,"
                   "\"generation\":%u,\"controller_pid\":%d,\"steps\":[",
                   run->exit_status, (unsigned long long)run->opened_ms, (unsigned long long)run->closed_ms,
                   run->node_count, run->restarts, run->generation, live ? (int)pid : 0);
        status_cells(journal_state(j), run, &b, true);
        buf_putc(&b, ']');
        status_rules_json(run, &b);
        buf_puts(&b, "}\n");
    } else {
        bool more = run->message && !str_eq(run->message, word);
        buf_printf(&b, "run %s of %s: %s%s%s\n", run->id, journal_job_name(j), word, more ? ": " : "",
                   more ? run->message : "");
        buf_printf(&b, "  started %s, %s %s, %u node%s", when, run->closed_ms ? "took" : "for", took, run->node_count,
                   run->node_count == 1 ? "" : "s");
        if (run->restarts)
            buf_printf(&b, ", %u restart%s", run->restarts, run->restarts == 1 ? "" : "s");
        buf_putc(&b, '\n');
        if (command)
            buf_printf(&b, "  command: %s\n", command);
        if (live)
            buf_printf(&b, "  controller: pid %d (%s)\n", (int)pid, holder ? holder : "?");
        else if (run->status == RUN_OPEN)
            buf_printf(&b, "  no controller: that command goes on with it, or rhrun attach %s in the background\n",
                       run->id);
        status_cluster(c, journal_job(j), &b);
        status_rules(run, &b);
        status_cells(journal_state(j), run, &b, false);
    }
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    free(holder);
    journal_close(j);
    return 0;
}

static const enum cli_option_id status_options[] = {OPT_SET, OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_status_command = {
    "status",
    "[RUN]",
    "Show one run: its steps on its nodes",
    "RUN is an id, a unique prefix, last (the default), or a spec file, of whose runs\n"
    "-p, --set and the words behind -- choose one.",
    status_options,
    0,
    1,
    true,
    cmd_status};

/* ---- show ---- */

static bool print_event(void *arg, const struct event *e)
{
    const char *run = arg;
    if (!str_eq(e->run, run))
        return true;
    struct buf b = {0};
    event_to_json(e, &b);
    printf("%s\n", b.data);
    buf_free(&b);
    return true;
}

static int show_run(struct cli *c)
{
    struct journal *j;
    const struct state_run *run;
    struct error err = ERROR_INIT;
    if (cli_find_run(c, c->words[0], &j, &run, &err) < 0)
        return cli_fail(c, &err);
    CLEANUP(cleanup_free) char *id = xstrdup(run->id);
    int rc = journal_each(j, 0, print_event, id, &err);
    if (rc < 0)
        cli_print_error(c, &err);
    journal_close(j);
    return rc < 0 ? 3 : 0;
}

static int cmd_show(struct cli *c)
{
    const char *w = c->words[0];
    struct spec *spec;
    bool file = strchr(w, '/') || str_ends(w, ".yaml") || str_ends(w, ".yml") || str_ends(w, ".json");
    if (!file || c->given[OPT_EVENTS])
        return show_run(c);
    int rc = cli_load_spec(c, w, &spec);
    if (rc)
        return rc;
    struct buf b = {0};
    if (c->given[OPT_JSON]) {
        doc_to_json(spec->resolved, DOC_JSON_PRETTY, &b);
        buf_putc(&b, '\n');
    } else {
        doc_to_yaml(spec->resolved, &b);
    }
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    return 0;
}

static const enum cli_option_id show_options[] = {OPT_SET, OPT_PARAM, OPT_ON, OPT_EVENTS, OPT_COUNT};
const struct cli_command cmd_show_command = {
    "show",
    "SPEC|RUN",
    "Show a spec with everything filled in, or a run's events",
    "A spec is printed as rhrun understands it: overrides applied, defaults filled\n"
    "in. Of a run, its journal's events are printed as NDJSON.",
    show_options,
    1,
    1,
    true,
    cmd_show};
