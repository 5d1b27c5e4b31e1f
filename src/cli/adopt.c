/* rhrun run --adopt JOB SPEC: a job that was renamed, or whose spec moved, continues with its former history. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED_MAX = 20 };

/* By its id, or by its name if only one job has it. */
static int find_job(struct cli *c, const char *word, const struct journal_job *jobs, size_t count,
                    const struct journal_job **ret, struct error *err)
{
    const char **names = arena_array(c->arena, count + 1, sizeof *names);
    struct buf lines = {0};
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        names[i] = jobs[i].name;
        if (str_eq(jobs[i].id, word)) {
            *ret = &jobs[i];
            found = 1;
            break;
        }
        if (!str_eq(jobs[i].name, word))
            continue;
        *ret = &jobs[i];
        if (found++ < LISTED_MAX)
            buf_printf(&lines, "  %s  %s\n", jobs[i].id, jobs[i].origin);
    }
    if (found > 1)
        c->error_lines = arena_strdup(c->arena, lines.data);
    buf_free(&lines);
    if (found == 1)
        return 0;
    const char *near = str_nearest(word, names);
    if (found)
        error_set(err, ERROR_USAGE, "--adopt: %zu jobs are named \"%s\":", found, word);
    else
        error_set(err, ERROR_USAGE, "--adopt: there is no job \"%s\" in this state directory", word);
    if (found)
        error_hint(err, "name one by its id");
    else if (near)
        error_hint(err, "did you mean %s?", near);
    else
        error_hint(err, "rhrun runs lists the jobs");
    return -1;
}

/* The spec's own job must have no history that would be hidden. */
static int check_new(const char *id, const struct spec *spec, struct error *err)
{
    struct journal *j;
    struct error none = ERROR_INIT;
    if (journal_open_read(id, &j, &none) < 0) {
        if (none.why == ERROR_WHY_ABSENT)
            return 0;
        *err = none;
        return -1;
    }
    const size_t runs = journal_state(j)->run_count;
    journal_close(j);
    return runs ? error_set(err, ERROR_USAGE, "--adopt: job \"%s\" of \"%s\" has %zu run%s of its own", spec->name,
                            spec->path, runs, runs == 1 ? "" : "s")
                : 0;
}

static int adopt(struct cli *c, const struct spec *spec, const struct journal_job *job, struct error *err)
{
    const char *name, *origin, *now_name = spec->name, *now_origin = spec->origin;
    char id[17], now[17];
    struct journal *j;
    if (journal_identity_of(job, c->arena, &name, &origin, err) < 0)
        return -1;
    journal_job_id(spec->name, spec->origin, id);
    /* If the history moved elsewhere, the same command brings it back: the state of the spec's job does not matter
     * then. */
    if (journal_identity(spec->name, spec->origin, c->arena, &now_name, &now_origin, NULL) == 0) {
        journal_job_id(now_name, now_origin, now);
        if (str_eq(now, job->id) && str_eq(job->name, spec->name) && str_eq(job->origin, spec->origin))
            return 0; /* done before */
    }
    if (!str_eq(id, job->id) && check_new(id, spec, err) < 0)
        return -1;
    if (journal_open(NULL, name, origin, cli_owner_name(c->arena), &j, err) < 0)
        return -1;
    int rc = journal_adopt(j, name, origin, spec->name, spec->origin, err);
    journal_close(j);
    if (rc == 0 && !c->given[OPT_QUIET] && !c->given[OPT_JSON])
        fprintf(stderr, "rhrun: \"%s\" continues the history of \"%s\"\n", spec->name, job->name);
    return rc;
}

int cli_adopt(struct cli *c, const char *spec_path)
{
    struct spec_overrides o = cli_overrides(c);
    struct diagnostics d = {0};
    struct spec *spec;
    struct journal_job *jobs = NULL;
    const struct journal_job *job = NULL;
    size_t count = 0;
    struct error err = ERROR_INIT;
    o.identity_only = true;
    o.identity = NULL;
    int rc = spec_load(spec_path, &o, c->arena, &spec, &d, &err);
    if (rc < 0 && d.count > 0)
        cli_print_diagnostics(c, &d);
    diagnostics_free(&d);
    signal(SIGUSR1, SIG_IGN); /* it may come while this process holds the job's lock */
    if (rc == 0)
        rc = journal_jobs(&jobs, &count, &err);
    if (rc == 0) {
        const char *word = c->value[OPT_ADOPT], *id = journal_adopted(spec->name, spec->origin, word, c->arena);
        rc = find_job(c, id ? id : word, jobs, count, &job, &err); /* id: the same command, repeated */
    }
    if (rc == 0)
        rc = adopt(c, spec, job, &err);
    journal_jobs_free(jobs, count);
    return rc < 0 ? cli_fail(c, &err) : 0;
}
