/* rhrun result [RUN]: the return value of the job's function, from the file of each rank that was brought home. */
#include "points.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESULT_MAX = 1 << 30 };

struct ranks {
    uint32_t *items;
    size_t count;
};

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static struct ranks ranks_in(const char *folder)
{
    struct ranks r = {0};
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        uint32_t rank;
        if (!str_ends(e->d_name, ".json"))
            continue;
        CLEANUP(cleanup_free) char *number = xstrndup(e->d_name, strlen(e->d_name) - strlen(".json"));
        if (!parse_u32(number, &rank))
            continue;
        r.items = xreallocarray(r.items, r.count + 1, sizeof *r.items);
        r.items[r.count++] = rank;
    }
    if (dir)
        closedir(dir);
    if (r.count)
        qsort(r.items, r.count, sizeof *r.items, by_number);
    return r;
}

/* ---- why there is none ---- */

struct question {
    struct arena *arena;
    const char *run;
    bool function;
};

/* The spec as the run was opened with; --set changes are not in it, so use it only for wording. */
static bool look_for_function(void *arg, const struct event *e)
{
    struct question *q = arg;
    struct doc *doc;
    struct diagnostics d = {0};
    if (e->type != EVENT_RUN_OPENED || !str_eq(e->run, q->run) || !e->opened.asked.spec_text)
        return true;
    q->function = doc_load_text("spec", e->opened.asked.spec_text, strlen(e->opened.asked.spec_text), DOC_FORMAT_YAML,
                                q->arena, &doc, &d, NULL) < 0 ||
                  doc_get_path(doc->root, "/entrypoint/function") != NULL;
    diagnostics_free(&d);
    return false;
}

static int why_not(struct cli *c, struct journal *j, const struct state_run *run, struct error *err)
{
    struct question q = {.arena = c->arena, .run = run->id, .function = true};
    if (journal_each(j, 0, look_for_function, &q, err) < 0)
        return -1;
    if (!q.function) {
        error_set(err, ERROR_USAGE, "run %s called no function, so it has no result", run->id);
        error_hint(err, "entrypoint: {function: \"module:name\"} has one; rhrun logs %s prints the output", run->id);
    } else if (run->status == RUN_OPEN) {
        error_set(err, ERROR_JOB, "run %s has not finished", run->id);
        error_hint(err, "rhrun attach %s waits for its end", run->id);
    } else if (run->status != RUN_DONE) {
        error_set(err, ERROR_JOB, "run %s has no result: %s%s%s", run->id, run_status_name(run->status),
                  run->message ? ": " : "", run->message ? run->message : "");
    } else {
        error_set(err, ERROR_IO, "the result of run %s is not in the state directory", run->id);
    }
    return -1;
}

/* ---- printing ---- */

static int put_value(const char *folder, uint32_t rank, struct buf *ret, struct error *err)
{
    struct buf text = {0};
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%u.json", folder, rank);
    if (file_read(path, RESULT_MAX, &text, err) < 0)
        return -1;
    while (text.len && strchr(" \t\r\n", text.data[text.len - 1]))
        text.len--;
    buf_append(ret, text.data, text.len);
    buf_free(&text);
    return 0;
}

static int put_all(const char *folder, const struct ranks *ranks, struct buf *ret, struct error *err)
{
    buf_putc(ret, '{');
    for (size_t i = 0; i < ranks->count; i++) {
        buf_printf(ret, "%s\"%u\":", i ? "," : "", ranks->items[i]);
        if (put_value(folder, ranks->items[i], ret, err) < 0)
            return -1;
    }
    buf_putc(ret, '}');
    return 0;
}

static int put_one(const char *folder, const struct ranks *ranks, const struct state_run *run, uint32_t rank,
                   struct buf *ret, struct error *err)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i] == rank)
            return put_value(folder, rank, ret, err);
    error_set(err, ERROR_USAGE, "run %s has no result of rank %u", run->id, rank);
    if (ranks->count == 1)
        error_hint(err, "there is one of rank %u", ranks->items[0]);
    else
        error_hint(err, "there are %zu, of rank %u to %u", ranks->count, ranks->items[0],
                   ranks->items[ranks->count - 1]);
    return -1;
}

/* The value of a point of a sweep, from the run that did it; false: there is none. */
static bool put_point(struct cli *c, struct journal *j, const struct cli_point *p, uint32_t rank, struct buf *ret)
{
    struct error none = ERROR_INIT;
    if (!p->cell || (p->state != POINT_IS_DONE && p->state != POINT_IS_KEPT))
        return false;
    CLEANUP(cleanup_free)
    char *folder = xasprintf("%s/runs/%s/points/%s/result", journal_path(j), p->cell->run, p->id);
    struct ranks ranks = ranks_in(folder);
    const size_t before = ret->len;
    bool there = false;
    for (size_t i = 0; i < ranks.count && !c->given[OPT_ALL]; i++)
        there = there || (ranks.items[i] == rank && put_value(folder, rank, ret, &none) == 0);
    if (c->given[OPT_ALL] && ranks.count > 0)
        there = put_all(folder, &ranks, ret, &none) == 0;
    free(ranks.items);
    if (!there && ret->data)
        ret->data[ret->len = before] = 0;
    return there;
}

/* One point's value; for several points a list, each with its point; null for a missing value. */
static int print_points(struct cli *c, struct journal *j, const struct state_run *run, const struct cli_points *points,
                        uint32_t rank, struct error *err)
{
    struct buf b = {0};
    size_t found = 0;
    const bool one = points->chosen && points->count == 1;
    buf_puts(&b, one ? "" : "[");
    for (size_t i = 0; i < points->count; i++) {
        const struct cli_point *p = &points->items[i];
        if (!one) {
            buf_puts(&b, i ? ",\n {" : "{");
            cli_json_string(&b, "point", p->name);
            cli_json_string(&b, "id", p->id);
            buf_printf(&b, ",\"params\":%s", p->params);
            cli_json_string(&b, "state", cli_point_state_name(p->state));
            buf_puts(&b, ",\"result\":");
        }
        const bool there = put_point(c, j, p, rank, &b);
        found += there;
        if (!there)
            buf_puts(&b, "null");
        buf_puts(&b, one ? "" : "}");
    }
    buf_puts(&b, one ? "\n" : "]\n");
    int rc = 0;
    if (found > 0)
        fwrite(b.data, 1, b.len, stdout);
    else if (one && points->items[0].state != POINT_IS_DONE && points->items[0].state != POINT_IS_KEPT)
        rc = error_set(err, ERROR_JOB, "point %s has no result: it is %s", points->items[0].name,
                       cli_point_state_name(points->items[0].state));
    else if (run->status == RUN_DONE && c->given[OPT_RANK])
        rc = error_set(err, ERROR_USAGE, "no point has a result of rank %u", rank);
    else
        rc = why_not(c, j, run, err);
    buf_free(&b);
    return rc;
}

static int print_result(struct cli *c, struct journal *j, const struct state_run *run, uint32_t rank, struct error *err)
{
    struct cli_points points;
    if (cli_points(c, j, run, &points, err) < 0)
        return -1;
    if (points.count > 0)
        return print_points(c, j, run, &points, rank, err);
    CLEANUP(cleanup_free) char *folder = xasprintf("%s/runs/%s/result", journal_path(j), run->id);
    struct ranks ranks = ranks_in(folder);
    struct buf text = {0};
    int rc;
    if (ranks.count == 0)
        rc = why_not(c, j, run, err);
    else if (c->given[OPT_ALL])
        rc = put_all(folder, &ranks, &text, err);
    else
        rc = put_one(folder, &ranks, run, rank, &text, err);
    if (rc == 0) {
        buf_putc(&text, '\n');
        fwrite(text.data, 1, text.len, stdout);
    }
    buf_free(&text);
    free(ranks.items);
    return rc;
}

static int cmd_result(struct cli *c)
{
    struct journal *j = NULL;
    const struct state_run *run;
    struct error err = ERROR_INIT;
    uint32_t rank = 0;
    int rc = 0;
    if (c->given[OPT_RANK] && !parse_u32(c->value[OPT_RANK], &rank))
        rc = error_set(&err, ERROR_USAGE, "--rank: \"%s\" is not a number", c->value[OPT_RANK]);
    else if (c->given[OPT_RANK] && c->given[OPT_ALL])
        rc = error_set(&err, ERROR_USAGE, "--rank and --all exclude each other");
    else
        rc = cli_find_run(c, c->word_count ? c->words[0] : "last", &j, &run, &err);
    if (rc == 0) {
        rc = print_result(c, j, run, rank, &err);
        journal_close(j);
    }
    if (rc == 0)
        return 0;
    return cli_fail(c, &err);
}

static const enum cli_option_id options[] = {OPT_RANK, OPT_ALL, OPT_POINT, OPT_SET, OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_result_command = {
    "result",
    "[RUN]",
    "Print what the job's function returned, as JSON",
    "RUN is an id, a unique prefix, last (the default), or a spec file; with a spec\n"
    "file -p, --set and the words after -- choose one of its runs. Prints the value\n"
    "of rank 0; --all prints an object with the value of every rank. For a sweep: a\n"
    "list of its points with their values; --point NAME, or -p with a param of the\n"
    "sweep, gives the value of one. Exit status 1 if the run has not finished or has\n"
    "failed.",
    options,
    0,
    1,
    true,
    cmd_result};
