/* rhrun runs: the runs of all jobs, or of one; rhrun show: a spec as rhrun reads it, or a run. */
#include "points.h"
#include "renting.h"

#include <stdlib.h>
#include <string.h>

struct row {
    char *job, *id, *variant, *spec;
    const char *status, *options;
    int32_t exit_status;
    uint64_t opened_ms, closed_ms;
    uint32_t nodes, restarts;
    uint32_t points, points_done;                       /* of its sweep */
    bool rented;                                        /* its job rented machines */
    uint64_t cost;                                      /* micro-USD */
    const char *params, *params_json, *result, *others; /* "": none; others: options except params */
};
enum { RESULT_WIDTH = 40, RESULT_MAX = 4096 };

/* {"lr":0.3,"model":"gpt2"} as "lr=0.3 model=gpt2", each quoted for the shell. */
static const char *params_of(struct cli *c, const struct state_run *r)
{
    struct diagnostics ignored = {0};
    struct doc *doc;
    struct buf b = {0};
    const char *text = r->params_json ? r->params_json : "";
    if (*text && doc_load_text("params", text, strlen(text), DOC_FORMAT_JSON, c->arena, &doc, &ignored, NULL) == 0 &&
        doc->root->type == DOC_OBJECT)
        for (size_t i = 0; i < doc->root->count; i++) {
            const char *value = doc->root->members[i].value->text;
            CLEANUP(cleanup_free) char *word = xasprintf("%s=%s", doc->root->members[i].key, value ? value : "");
            buf_puts(&b, b.len ? " " : "");
            buf_shell_quote(&b, word);
        }
    diagnostics_free(&ignored);
    char *ret = arena_strdup(c->arena, b.data ? b.data : "");
    buf_free(&b);
    str_printable(ret);
    return ret;
}

/* The result of the run in a few words: its function's return value, else its last metrics; if it failed, why. */
static const char *result_of(struct cli *c, const struct journal *j, const struct state_run *r)
{
    struct buf b = {0};
    struct error none = ERROR_INIT;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/runs/%s/result/0.json", journal_path(j), r->id);
    if (r->status != RUN_DONE && r->status != RUN_OPEN)
        buf_puts(&b, r->message && !str_eq(r->message, run_status_name(r->status)) ? r->message : "");
    else if (file_read(path, RESULT_MAX, &b, &none) < 0)
        status_metrics(r, &b);
    while (b.len && strchr(" \t\r\n", b.data[b.len - 1]))
        b.data[--b.len] = 0;
    char *ret = arena_strdup(c->arena, b.data ? b.data : "");
    buf_free(&b);
    str_printable(ret);
    return ret;
}

/* A run that ended well has all points done, including those with repeated or earlier launches. */
static uint32_t points_done(const struct state_run *r)
{
    const uint32_t done = r->kept_count + r->points_ok;
    return r->status == RUN_DONE || done > r->point_count ? r->point_count : done;
}

static void add_rows(struct cli *c, struct journal *j, const struct cli_choice *choice, struct row **rows,
                     size_t *count)
{
    const struct state *s = journal_state(j);
    *rows = xreallocarray(*rows, *count + s->run_count + 1, sizeof **rows);
    uint64_t *costs = xcalloc(s->run_count + 1, sizeof *costs);
    const bool rented = cli_run_costs(c, journal_job(j), s, costs);
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
                                           r->restarts,
                                           r->point_count,
                                           points_done(r),
                                           rented,
                                           costs[i],
                                           params_of(c, r),
                                           arena_strdup(c->arena, r->params_json ? r->params_json : ""),
                                           result_of(c, j, r),
                                           cli_other_options_of(c, r)};
    }
    free(costs);
}

static int newest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->opened_ms < y->opened_ms ? 1 : x->opened_ms > y->opened_ms ? -1 : 0;
}

/* A result that is longer than its column is cut, but never within a number. */
static void put_result(struct buf *b, const char *text)
{
    struct canvas v = {.columns = RESULT_WIDTH + 1};
    canvas_put(&v, "", text, strlen(text));
    buf_append(b, v.text.data ? v.text.data : "", v.text.len);
    const unsigned width = text_width(v.text.data ? v.text.data : "", v.text.len);
    canvas_free(&v);
    buf_printf(b, "%*s", (int)(width < RESULT_WIDTH ? RESULT_WIDTH - width : 0), "");
}

static void put_row(const struct row *r, bool sweeps, bool rented, bool results, struct buf *b)
{
    char when[32], took[32] = "-", points[32] = "-";
    struct buf cost = {0};
    cli_time(r->opened_ms, when);
    if (r->closed_ms)
        cli_duration(r->closed_ms - r->opened_ms, took);
    else if (str_eq(r->status, "running"))
        cli_duration(wall_ms() - r->opened_ms, took);
    buf_printf(b, "%-16s  %-20.20s  %-10s  %-19s  %9s  %5u", r->id, r->job, r->status, when, took, r->nodes);
    if (r->points)
        snprintf(points, sizeof points, "%u/%u", r->points_done, r->points);
    if (sweeps)
        buf_printf(b, "  %11s", points);
    if (r->rented)
        renting_put_usd(&cost, (r->cost + 9999) / 10000 * 10000);
    if (rented)
        buf_printf(b, "  %9s", cost.data ? cost.data : "-");
    buf_puts(b, results ? "  " : "");
    if (results)
        put_result(b, r->result);
    buf_printf(b, "  %s%s%s", r->params, *r->params && *r->others ? "  " : "", r->others);
    while (b->len && b->data[b->len - 1] == ' ')
        b->data[--b->len] = 0;
    buf_putc(b, '\n');
    buf_free(&cost);
}

/* Columns that are empty for all runs are left out. */
static void put_table(const struct row *rows, size_t count, struct buf *b)
{
    bool rented = false, sweeps = false, results = false;
    for (size_t i = 0; i < count; i++) {
        rented = rented || rows[i].rented;
        sweeps = sweeps || rows[i].points;
        results = results || *rows[i].result;
    }
    buf_printf(b, "%-16s  %-20s  %-10s  %-19s  %9s  %5s  ", "RUN", "JOB", "STATUS", "STARTED", "TOOK", "NODES");
    if (sweeps)
        buf_printf(b, "%11s  ", "POINTS");
    if (rented)
        buf_printf(b, "%9s  ", "COST");
    if (results)
        buf_printf(b, "%-*s  ", RESULT_WIDTH, "RESULT");
    buf_puts(b, "PARAMS, OPTIONS\n");
    for (size_t i = 0; i < count; i++)
        put_row(&rows[i], sweeps, rented, results, b);
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
            buf_printf(&b, ",\"params\":%s", *rows[i].params_json ? rows[i].params_json : "{}");
            cli_json_string(&b, "result", *rows[i].result ? rows[i].result : NULL);
            buf_printf(&b, ",\"exit_status\":%d,\"opened_ms\":%llu,\"closed_ms\":%llu,\"nodes\":%u,\"restarts\":%u",
                       rows[i].exit_status, (unsigned long long)rows[i].opened_ms,
                       (unsigned long long)rows[i].closed_ms, rows[i].nodes, rows[i].restarts);
            if (rows[i].points)
                buf_printf(&b, ",\"points\":%u,\"points_done\":%u", rows[i].points, rows[i].points_done);
            if (rows[i].rented)
                buf_printf(&b, ",\"usd\":%.6f}", (double)rows[i].cost / 1e6);
            else
                buf_puts(&b, ",\"usd\":null}");
        }
        buf_puts(&b, "]\n");
    } else if (count == 0) {
        fprintf(stderr, "rhrun: nothing was run yet\n");
    } else {
        put_table(rows, count, &b);
    }
    fwrite(b.data ? b.data : "", 1, b.len, stdout);
    buf_free(&b);
}

static int runs_of_spec(struct cli *c, struct row **rows, size_t *count, struct error *err)
{
    struct cli_choice choice;
    struct journal *j;
    if (cli_find_history(c, c->words[0], &j, &choice, err) < 0)
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

/* --points: the points of one run, or of a spec as its latest run left them. */
static int list_points(struct cli *c)
{
    struct journal *j;
    const struct state_run *run;
    struct error err = ERROR_INIT;
    struct cli_points points;
    struct buf b = {0};
    if (cli_find_run(c, c->word_count ? c->words[0] : "last", &j, &run, &err) < 0)
        return cli_fail(c, &err);
    int rc = cli_points(c, j, run, &points, &err);
    if (rc == 0 && points.count == 0)
        rc = error_set(&err, ERROR_USAGE, "run %s has no sweep, so no points", run->id);
    if (rc == 0 && c->given[OPT_JSON])
        cli_points_json(journal_state(j), &points, &b);
    else if (rc == 0)
        cli_points_list(journal_state(j), &points, &b);
    if (rc == 0)
        printf("%s%s", b.data, c->given[OPT_JSON] ? "\n" : "");
    buf_free(&b);
    journal_close(j);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

static int cmd_runs(struct cli *c)
{
    struct error err = ERROR_INIT;
    if (c->given[OPT_POINTS])
        return list_points(c);
    struct row *rows = NULL;
    size_t count = 0;
    uint64_t limit = SIZE_MAX;
    int rc = 0;
    if (c->given[OPT_LIMIT] && !parse_u64(c->value[OPT_LIMIT], &limit))
        rc = error_set(&err, ERROR_USAGE, "--limit: \"%s\" is not a number", c->value[OPT_LIMIT]);
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

static const enum cli_option_id runs_options[] = {OPT_LIMIT, OPT_POINTS, OPT_SET, OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_runs_command = {
    "runs",
    "[SPEC|JOB [-- ARG...] | --points RUN]",
    "List the runs, newest first",
    "With a spec, or the name of a job, lists its runs; -p, --set and the words\n"
    "after -- choose among them. RESULT is what the job's function returned, or else\n"
    "its last metrics; for a run that failed, the reason.\n"
    "--points: a line for each point of the last run, or of the given run or spec.",
    runs_options,
    0,
    1,
    true,
    cmd_runs};

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
    if (c->given[OPT_BUNDLE])
        return cli_write_bundle(c, w, c->value[OPT_BUNDLE]);
    if (c->given[OPT_LOCK])
        return cli_show_lock(c, w);
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

static const enum cli_option_id show_options[] = {OPT_SET,  OPT_PARAM,  OPT_ON,   OPT_EVENTS,
                                                  OPT_LOCK, OPT_BUNDLE, OPT_COUNT};
const struct cli_command cmd_show_command = {
    "show",
    "SPEC|RUN",
    "Show a spec with everything filled in, or a run's events or lock",
    "Prints a spec as rhrun understands it, with overrides applied and defaults\n"
    "filled in; for a run, its journal's events as NDJSON. --lock prints exactly what\n"
    "the run, or the spec's latest run, ran from, as YAML (--json: as JSON). --bundle\n"
    "writes a git bundle with lock, files, logs and results, for rhrun rerun FILE on\n"
    "another machine.",
    show_options,
    1,
    1,
    true,
    cmd_show};
