/* rhrun report: runs as one HTML page that needs no network. */
#include "reporting.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct found { /* a requested run */
    struct journal *journal;
    const struct state_run *run;
};

static int write_page(struct cli *c, const struct buf *page, struct error *err)
{
    const char *to = c->value[OPT_OUTPUT];
    if (!to || strcmp(to, "-") == 0) {
        fwrite(page->data, 1, page->len, stdout);
        return 0;
    }
    if (file_write_atomic(to, page->data, page->len, 0600, err) < 0)
        return -1;
    if (!c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: %s: %.1f MB, for a browser\n", to, (double)page->len / 1e6);
    return 0;
}

static int find_all(struct cli *c, struct found *found, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *word = c->word_count ? c->words[i] : "last";
        if (cli_find_run(c, word, &found[i].journal, &found[i].run, err) < 0)
            return -1;
        for (size_t k = 0; k < i; k++)
            if (str_eq(found[k].run->id, found[i].run->id))
                return error_set(err, ERROR_USAGE, "\"%s\" is run %s, which was named before", word, found[i].run->id);
    }
    return 0;
}

static int gather(struct cli *c, const struct found *found, struct report_run *runs, size_t count, struct error *err)
{
    size_t left = REPORT_LOGS_MAX;
    for (size_t i = 0; i < count; i++) {
        struct gathering *g = arena_alloc(c->arena, sizeof *g);
        const size_t share = left / (count - i); /* space that one run does not need goes to the next ones */
        size_t budget = share;
        if (report_gather_run(c, found[i].journal, found[i].run, g, &runs[i], err) < 0)
            return -1;
        report_gather_logs(g, &budget);
        left -= share - budget;
        if (report_gather_curves(g, REPORT_CURVES_MAX / count, err) < 0)
            return -1;
    }
    return 0;
}

static int make(struct cli *c, size_t count, struct error *err)
{
    struct found *found = arena_array(c->arena, count, sizeof *found);
    struct report_run *runs = arena_array(c->arena, count, sizeof *runs);
    const struct report report = {RHRUN_VERSION, wall_ms(), runs, count};
    struct buf page = {0};
    int rc = find_all(c, found, count, err);
    if (rc == 0)
        rc = gather(c, found, runs, count, err);
    if (rc == 0) {
        if (c->given[OPT_JSON])
            report_json(&report, &page);
        else
            report_page(&report, &page);
        rc = write_page(c, &page, err);
    }
    for (size_t i = 0; i < count; i++) {
        report_free_logs(&runs[i]);
        report_free_curves(&runs[i]);
        journal_close(found[i].journal);
    }
    buf_free(&page);
    return rc;
}

static int cmd_report(struct cli *c)
{
    struct error err = ERROR_INIT;
    if (!c->given[OPT_OUTPUT] && !c->given[OPT_JSON] && isatty(1)) {
        error_set(&err, ERROR_USAGE, "the page would go to a terminal");
        error_hint(&err, "rhrun report %s -o report.html", cli_quoted(c, c->word_count ? c->words[0] : "last"));
        return cli_fail(c, &err);
    }
    return make(c, c->word_count ? c->word_count : 1, &err) < 0 ? cli_fail(c, &err) : 0;
}

static const enum cli_option_id report_options[] = {OPT_OUTPUT, OPT_SET, OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_report_command = {
    "report",
    "[RUN...]",
    "Write one HTML page about runs that needs no network",
    "RUN is as for logs; several runs are overlaid and compared. The page has the\n"
    "steps on each node over time, ranks, metrics as curves, failures with their\n"
    "cause, excerpts of logs with a search, and the provenance of each run. It shows\n"
    "text of logs, so -o writes a file that only its owner can read. --json prints\n"
    "only the data of the page.",
    report_options,
    0,
    REPORT_RUNS_MAX,
    true,
    cmd_report};
