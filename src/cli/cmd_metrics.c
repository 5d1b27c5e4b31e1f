/* rhrun metrics: the numbers that a run's workers printed, as a table of series or one by one. */
#include "points.h"
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 40, POINT_WIDTH = 40 };

struct row { /* the values of one metric that one worker printed in one generation */
    uint32_t metric, generation, rank;
    const char *point; /* in the series' arena; the same pointer in all its values */
    char role[64];
    uint64_t count, first_step, last_step;
    double first, last, lowest, highest; /* lowest, highest: without NaN */
};
struct table {
    struct cli *c;
    const struct series *s;
    const char *run;
    struct row *rows;
    size_t count, cap, latest;
    bool has_rank;
    uint32_t rank;
};

/* ---- a table ---- */

static struct row *row_of(struct table *t, const struct series_point *p)
{
    for (size_t i = 0; i < t->count; i++) { /* usually the same row as before, or the next one */
        struct row *r = &t->rows[(t->latest + i) % t->count];
        if (r->metric == p->metric && r->rank == p->rank && r->generation == p->generation && r->point == p->point) {
            t->latest = (size_t)(r - t->rows);
            return r;
        }
    }
    if (t->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 16;
        t->rows = xreallocarray(t->rows, t->cap, sizeof *t->rows);
    }
    t->latest = t->count++;
    struct row *r = &t->rows[t->latest];
    *r = (struct row){.metric = p->metric,
                      .generation = p->generation,
                      .rank = p->rank,
                      .point = p->point,
                      .first_step = p->step,
                      .first = p->value,
                      .lowest = NAN,
                      .highest = NAN};
    snprintf(r->role, sizeof r->role, "%s", p->role);
    return r;
}

static void add_to_table(void *arg, const struct series_point *p)
{
    struct table *t = arg;
    if (t->has_rank && p->rank != t->rank)
        return;
    struct row *r = row_of(t, p);
    r->count++;
    r->last = p->value;
    r->last_step = p->step;
    if (!(r->lowest <= p->value)) /* true for the first value too */
        r->lowest = isnan(p->value) ? r->lowest : p->value;
    if (!(r->highest >= p->value))
        r->highest = isnan(p->value) ? r->highest : p->value;
}

static int by_metric(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    const int point = strcmp(x->point ? x->point : "", y->point ? y->point : "");
    if (x->metric != y->metric)
        return x->metric < y->metric ? -1 : 1;
    if (point != 0)
        return point;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void put_row(const struct table *t, const struct row *r, int width, int points, bool generations)
{
    char number[4][MATCH_NUMBER_MAX], rank[16] = "-", steps[48];
    const double of[4] = {r->first, r->last, r->lowest, r->highest};
    for (size_t i = 0; i < 4; i++)
        snprintf(number[i], sizeof number[i], "%.6g", of[i]);
    if (r->rank != WIRE_NO_RANK)
        snprintf(rank, sizeof rank, "%u", r->rank);
    snprintf(steps, sizeof steps, "%llu-%llu", (unsigned long long)r->first_step, (unsigned long long)r->last_step);
    printf("%-*s ", width, t->s->metrics[r->metric].name);
    if (points)
        printf("%-*.*s ", points, points, r->point ? r->point : "-");
    if (generations)
        printf("%3u ", r->generation);
    printf("%5s %7llu %13s %11s %11s %11s %11s\n", rank, (unsigned long long)r->count, steps, number[0], number[1],
           number[2], number[3]);
}

static void print_table(struct table *t)
{
    int width = 6, points = 0;
    bool generations = false;
    if (t->count)
        qsort(t->rows, t->count, sizeof *t->rows, by_metric);
    for (size_t i = 0; i < t->count; i++) {
        const int len = (int)strlen(t->s->metrics[t->rows[i].metric].name);
        width = len > width && len < 40 ? len : width;
        generations |= t->rows[i].generation > 1;
        const int named = t->rows[i].point ? (int)strlen(t->rows[i].point) : 0;
        points = named > points ? named : points;
    }
    points = points > POINT_WIDTH ? POINT_WIDTH : points && points < 5 ? 5 : points;
    const size_t shown = t->c->given[OPT_ALL] || t->count <= ROWS_MAX ? t->count : ROWS_MAX;
    if (shown > 0)
        printf("%-*s %-*s%s%5s %7s %13s %11s %11s %11s %11s\n", width, "METRIC", points ? points + 1 : 0,
               points ? "POINT" : "", generations ? "GEN " : "", "RANK", "VALUES", "STEPS", "FIRST", "LAST", "LOWEST",
               "HIGHEST");
    for (size_t i = 0; i < shown; i++)
        put_row(t, &t->rows[i], width, points, generations);
    if (shown < t->count && !t->c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: %zu more series: --all shows them, --rank R those of one rank\n", t->count - shown);
}

/* ---- one by one ---- */

/* The last field of a line; a name may have commas, and quotes around it. */
static void put_csv_text(const char *text)
{
    if (text)
        putchar('"');
    for (const char *p = text; p && *p; p++)
        printf(*p == '"' ? "\"%c" : "%c", *p);
    puts(text ? "\"" : "");
}

static void put_csv(void *arg, const struct series_point *p)
{
    struct table *t = arg;
    char value[MATCH_NUMBER_MAX], rank[16] = "";
    if (t->has_rank && p->rank != t->rank)
        return;
    match_number_text(p->value, value);
    if (p->rank != WIRE_NO_RANK)
        snprintf(rank, sizeof rank, "%u", p->rank);
    printf("%s,%u,%s,%s,%u,%llu,%llu,%s,", t->s->metrics[p->metric].name, p->generation, p->role, rank, p->node,
           (unsigned long long)p->step, (unsigned long long)p->time_ms, value);
    put_csv_text(p->point);
}

static void put_json(void *arg, const struct series_point *p)
{
    struct table *t = arg;
    char value[MATCH_NUMBER_MAX];
    struct buf b = {0};
    if (t->has_rank && p->rank != t->rank)
        return;
    match_number_text(p->value, value);
    const bool number = isfinite(p->value);
    buf_putc(&b, '{');
    cli_json_string(&b, "run", t->run);
    cli_json_string(&b, "metric", t->s->metrics[p->metric].name);
    if (p->point)
        cli_json_string(&b, "point", p->point);
    buf_printf(&b, ",\"generation\":%u", p->generation);
    cli_json_string(&b, "role", p->role);
    if (p->rank != WIRE_NO_RANK)
        buf_printf(&b, ",\"rank\":%u", p->rank);
    buf_printf(&b, ",\"node\":%u,\"step\":%llu,\"time_ms\":%llu", p->node, (unsigned long long)p->step,
               (unsigned long long)p->time_ms);
    buf_printf(&b, number ? ",\"value\":%s}\n" : ",\"value\":\"%s\"}\n", value);
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

/* ---- selection ---- */

static int choose(struct cli *c, const struct series *s, const bool **ret, struct error *err)
{
    bool *wanted = arena_array(c->arena, s->count + 1, sizeof *wanted);
    const char **names = arena_array(c->arena, s->count + 1, sizeof *names);
    for (size_t i = 0; i < s->count; i++)
        names[i] = s->metrics[i].name;
    *ret = c->word_count > 1 ? wanted : NULL;
    if (s->count == 0) {
        error_set(err, ERROR_USAGE, "the spec of run %s has no metrics", s->run);
        error_hint(err, "metrics: [{name: loss, pattern: 'loss=(?<value>\\S+)'}] takes effect in later runs");
        return -1;
    }
    for (size_t i = 1; i < c->word_count; i++) {
        size_t at = 0;
        while (at < s->count && strcmp(names[at], c->words[i]) != 0)
            at++;
        if (at < s->count) {
            wanted[at] = true;
            continue;
        }
        const char *near = str_nearest(c->words[i], names);
        error_set(err, ERROR_USAGE, "run %s has no metric \"%s\"", s->run, c->words[i]);
        if (near)
            error_hint(err, "did you mean %s?", near);
        return -1;
    }
    return 0;
}

/* --point, and -p of swept params. */
static int choose_points(struct cli *c, struct journal *j, const struct state_run *run, struct series *s,
                         struct error *err)
{
    struct cli_points points;
    if (cli_points(c, j, run, &points, err) < 0)
        return -1;
    if (!points.chosen)
        return 0;
    const char **names = arena_array(c->arena, points.count + 1, sizeof *names);
    for (size_t i = 0; i < points.count; i++)
        names[i] = points.items[i].name;
    series_choose(s, names, points.count);
    return 0;
}

static int print(struct cli *c, struct journal *j, const struct state_run *run, struct error *err)
{
    struct series s;
    const bool *wanted;
    struct table t = {.c = c, .s = &s, .has_rank = c->given[OPT_RANK]};
    if (t.has_rank && !parse_u32(c->value[OPT_RANK], &t.rank))
        return error_set(err, ERROR_USAGE, "--rank: \"%s\" is not a number", c->value[OPT_RANK]);
    if (c->given[OPT_CSV] && c->given[OPT_JSON])
        return error_set(err, ERROR_USAGE, "--csv and --json are two forms of the same output: give one of them");
    if (series_open(j, run, c->arena, &s, err) < 0 || choose(c, &s, &wanted, err) < 0 ||
        choose_points(c, j, run, &s, err) < 0)
        return -1;
    t.run = s.run;
    if (!str_eq(s.run, run->id) && !c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: the launch was kept; these are the values of run %s\n", s.run);
    if (c->given[OPT_CSV])
        printf("metric,generation,role,rank,node,step,time_ms,value,point\n");
    const bool table = !c->given[OPT_CSV] && !c->given[OPT_JSON];
    int rc = series_read(&s, wanted, table ? add_to_table : c->given[OPT_CSV] ? put_csv : put_json, &t, err);
    if (rc == 0 && table)
        print_table(&t);
    if (rc == 0 && table && t.count == 0 && !c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: no worker of run %s has printed a line with a metric\n", s.run);
    free(t.rows);
    return rc;
}

static int cmd_metrics(struct cli *c)
{
    struct journal *j;
    const struct state_run *run;
    struct error err = ERROR_INIT;
    if (cli_find_run(c, c->word_count ? c->words[0] : "last", &j, &run, &err) < 0)
        return cli_fail(c, &err);
    int rc = print(c, j, run, &err);
    journal_close(j);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

static const enum cli_option_id metrics_options[] = {OPT_CSV, OPT_RANK,  OPT_POINT, OPT_ALL,
                                                     OPT_SET, OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_metrics_command = {
    "metrics",
    "[RUN [METRIC...]]",
    "Print the numbers that the workers of a run printed",
    "RUN is as for logs. Prints a row for each metric, generation and rank, and in a\n"
    "sweep for each point: the number of values, their steps, the first, last, lowest\n"
    "and highest. --csv and --json print each value with its step and time, from the\n"
    "logs of the run. A pattern's group (?<step>...) gives the step; without that\n"
    "group the values are numbered.",
    metrics_options,
    0,
    101,
    true,
    cmd_metrics};
