/* apply: what is printed about a set: lines while it runs, one table or JSON at the end, and the exit status. */
#include "apply.h"

#include <stdlib.h>
#include <string.h>

const char *apply_did_name(enum apply_did d)
{
    switch (d) {
    case APPLY_TO_DO:
        return "to do";
    case APPLY_UP_TO_DATE:
        return "up to date";
    case APPLY_RAN:
        return "ran";
    case APPLY_ELSEWHERE:
        return "ran elsewhere";
    case APPLY_FAILED:
        return "failed";
    case APPLY_STOPPED:
        return "stopped";
    case APPLY_INVALID:
        return "invalid";
    }
    return "?";
}

void apply_say(struct apply *a, const char *fmt, ...)
{
    va_list ap;
    if (a->quiet)
        return;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    str_printable(text);
    fprintf(stderr, "rhrun: %s\n", text);
}

/* A failed job counts more than one that may succeed at the next try. */
int apply_exit_status(const struct apply *a)
{
    enum { EXIT_INFRA = 3 };
    int rc = 0;
    bool to_do = false;
    if (a->interrupted)
        return 128 + a->interrupted;
    for (size_t i = 0; i < a->count; i++) {
        const struct apply_job *job = &a->jobs[i];
        to_do = to_do || job->did == APPLY_TO_DO;
        if (job->did == APPLY_FAILED || job->did == APPLY_STOPPED)
            rc = rc == 1 || job->exit_status != EXIT_INFRA ? 1 : EXIT_INFRA; /* 2 is for sets in which no job began */
    }
    for (size_t i = 0; i < a->removed_count; i++)
        rc = rc ? rc : a->removed[i].exit_status;
    return rc == 0 && to_do && a->c->given[OPT_DRY_RUN] && a->c->given[OPT_EXIT_CODE] ? 10 : rc;
}

/* ---- the table ---- */

static size_t widest(const struct apply *a)
{
    size_t width = 3;
    for (size_t i = 0; i < a->count; i++) {
        const char *name = a->jobs[i].name ? a->jobs[i].name : a->jobs[i].path;
        const size_t len = text_width(name, strlen(name));
        width = len > width ? len : width;
    }
    for (size_t i = 0; i < a->removed_count; i++) {
        const size_t len = text_width(a->removed[i].name, strlen(a->removed[i].name));
        width = len > width ? len : width;
    }
    return width < 40 ? width : 40;
}

static void put_name(struct buf *b, const char *name, size_t width)
{
    CLEANUP(cleanup_free) char *text = xstrdup(name);
    str_printable(text);
    buf_puts(b, text);
    for (size_t n = text_width(text, strlen(text)); n < width; n++)
        buf_putc(b, ' ');
}

static void put_row(struct buf *b, const struct apply_job *job, size_t width)
{
    char took[32] = "-";
    if (job->did != APPLY_UP_TO_DATE && job->did != APPLY_TO_DO && job->did != APPLY_INVALID)
        cli_duration(job->took_ms, took);
    put_name(b, job->name ? job->name : job->path, width);
    buf_printf(b, "  %-13s  %9s  %-16s", apply_did_name(job->did), took, job->run[0] ? job->run : "-");
    if (job->why) {
        CLEANUP(cleanup_free) char *why = xstrdup(job->why);
        str_printable(why);
        buf_printf(b, "  %.200s", why);
    }
    while (b->len && b->data[b->len - 1] == ' ')
        b->data[--b->len] = 0;
    buf_putc(b, '\n');
}

static void put_summary(struct buf *b, const struct apply *a)
{
    size_t counts[APPLY_INVALID + 1] = {0};
    for (size_t i = 0; i < a->count; i++)
        counts[a->jobs[i].did]++;
    buf_printf(b, "%zu spec%s", a->count, a->count == 1 ? "" : "s");
    if (a->commit)
        buf_printf(b, " at commit %.12s", a->commit);
    const char *between = ": ";
    for (size_t d = 0; d <= APPLY_INVALID; d++) {
        if (!counts[d])
            continue;
        buf_printf(b, "%s%zu %s", between, counts[d], apply_did_name((enum apply_did)d));
        between = ", ";
    }
    if (a->removed_count)
        buf_printf(b, "%s%zu removed", between, a->removed_count);
    buf_putc(b, '\n');
}

static void put_table(struct buf *b, const struct apply *a)
{
    const size_t width = widest(a);
    if (a->count || a->removed_count) {
        put_name(b, "JOB", width);
        buf_printf(b, "  %-13s  %9s  %s\n", "RESULT", "TOOK", "RUN");
    }
    for (size_t i = 0; i < a->count; i++)
        put_row(b, &a->jobs[i], width);
    for (size_t i = 0; i < a->removed_count; i++) {
        put_name(b, a->removed[i].name, width);
        buf_printf(b, "  %-13s  %9s  %-16s  %s\n", "removed", "-", "-", a->removed[i].what);
    }
    put_summary(b, a);
}

/* ---- JSON ---- */

static void put_json_job(struct buf *b, const struct apply_job *job)
{
    buf_putc(b, '{');
    cli_json_string(b, "spec", job->path);
    cli_json_string(b, "job", job->name);
    cli_json_string(b, "id", job->job_id);
    cli_json_string(b, "variant", job->variant);
    cli_json_string(b, "result", apply_did_name(job->did));
    cli_json_string(b, "run", job->run[0] ? job->run : NULL);
    buf_printf(b, ",\"exit_status\":%d,\"took_ms\":%llu", job->exit_status, (unsigned long long)job->took_ms);
    cli_json_string(b, "why", job->why);
    buf_putc(b, '}');
}

void apply_put_json(struct buf *b, const struct apply *a, int exit_status)
{
    buf_puts(b, "{\"version\":1");
    cli_json_string(b, "commit", a->commit);
    buf_printf(b, ",\"dry_run\":%s,\"exit_status\":%d,\"jobs\":[", a->c->given[OPT_DRY_RUN] ? "true" : "false",
               exit_status);
    for (size_t i = 0; i < a->count; i++) {
        buf_puts(b, i ? "," : "");
        put_json_job(b, &a->jobs[i]);
    }
    buf_puts(b, "],\"removed\":[");
    for (size_t i = 0; i < a->removed_count; i++) {
        buf_puts(b, i ? ",{" : "{");
        cli_json_string(b, "job", a->removed[i].name);
        cli_json_string(b, "id", a->removed[i].job_id);
        cli_json_string(b, "origin", a->removed[i].origin);
        cli_json_string(b, "what", a->removed[i].what);
        buf_putc(b, '}');
    }
    buf_puts(b, "]}\n");
}

void apply_show(const struct apply *a, int exit_status)
{
    struct buf b = {0};
    if (a->c->given[OPT_JSON])
        apply_put_json(&b, a, exit_status);
    else
        put_table(&b, a);
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}
