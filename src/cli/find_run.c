/* Which run a word means: an id, the beginning of one, "last", the name of a job, or a spec file; then the options
 * choose among its runs. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LISTED_MAX = 20 };

bool cli_chooses(const struct cli *c)
{
    return c->given[OPT_PARAM] || c->given[OPT_SET] || c->has_args;
}

int cli_nothing_to_choose(struct error *err)
{
    error_set(err, ERROR_USAGE, "-p, --set and words after -- choose among the runs of a spec, but no spec is named");
    error_hint(err, "give the spec file instead of a run, or leave them out; rhrun runs lists all runs");
    return -1;
}

const char *cli_run_word(const struct journal *j, const struct state_run *run)
{
    pid_t pid;
    return run->status != RUN_OPEN         ? run_status_name(run->status)
           : journal_holder(j, &pid, NULL) ? "running"
                                           : "unfinished";
}

/* ---- options as words ---- */

static const char *words_of(const struct spec_overrides *o, bool args, struct arena *arena)
{
    struct buf b = {0};
    run_put_options(&b, o);
    if (args)
        buf_puts(&b, b.len ? " --" : "--");
    for (size_t i = 0; i < o->arg_count; i++) {
        buf_putc(&b, ' ');
        buf_shell_quote(&b, o->args[i]);
    }
    const char *text = b.len ? arena_strdup(arena, b.data) : "";
    buf_free(&b);
    if (str_is_printable(text))
        return text;
    char *shown = arena_strdup(arena, text); /* for a terminal: without the control characters of a value */
    for (char *p = shown; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    return shown;
}

const char *cli_options_of(struct cli *c, const struct state_run *run)
{
    struct spec_overrides o = run_overrides(run, c->arena);
    return words_of(&o, o.arg_count > 0, c->arena);
}

const char *cli_other_options_of(struct cli *c, const struct state_run *run)
{
    struct spec_overrides o = run_overrides(run, c->arena);
    o.param_count = 0;
    return words_of(&o, o.arg_count > 0, c->arena);
}

/* ---- the runs of a spec ---- */

static bool is_of_name(const char *set)
{
    return str_starts(set, "name="); /* it already chose the job */
}

bool cli_chosen(const struct cli_choice *choice, const struct state_run *run)
{
    if (!choice)
        return true;
    if (choice->variant && !str_eq(choice->variant, run->variant))
        return false;
    for (size_t i = 0; i < choice->set_count; i++) {
        bool has = is_of_name(choice->sets[i]);
        for (size_t k = 0; !has && run->sets && k < run->set_count; k++)
            has = strcmp(run->sets[k], choice->sets[i]) == 0;
        if (!has)
            return false;
    }
    return true;
}

static bool listed_before(const struct state *s, size_t at, struct cli *c, const char *words)
{
    for (size_t i = at + 1; i < s->run_count; i++)
        if (strcmp(cli_options_of(c, &s->runs[i]), words) == 0)
            return true;
    return false;
}

/* The latest run with each set of options, the newest first. */
static const char *list_of(struct cli *c, struct journal *j)
{
    const struct state *s = journal_state(j);
    struct buf b = {0};
    unsigned listed = 0, left = 0;
    for (size_t i = s->run_count; i-- > 0;) {
        const char *words = cli_options_of(c, &s->runs[i]);
        if (listed_before(s, i, c, words))
            continue;
        if (listed++ < LISTED_MAX)
            buf_printf(&b, "  run %s (%s): %s\n", s->runs[i].id, cli_run_word(j, &s->runs[i]),
                       *words ? words : "without options");
        else
            left++;
    }
    if (left)
        buf_printf(&b, "  and %u more, with other options\n", left);
    const char *text = b.len ? arena_strdup(c->arena, b.data) : NULL;
    buf_free(&b);
    return text;
}

int cli_none_chosen(struct cli *c, const struct cli_choice *choice, struct journal *j, struct error *err)
{
    if (!cli_chooses(c) || journal_state(j)->run_count == 0)
        return error_set(err, ERROR_USAGE, "\"%s\" was never run", choice->spec_path);
    struct spec_overrides o = cli_overrides(c);
    o.on = NULL;
    error_set(err, ERROR_USAGE, "\"%s\" was never run with %s; the latest with other options:", choice->spec_path,
              words_of(&o, c->has_args, c->arena));
    error_hint(err, "a run can be named by its id; without options, the spec means its latest run");
    c->error_lines = list_of(c, j);
    return -1;
}

int cli_find_job(struct cli *c, const char *spec_path, struct journal **ret_journal, struct cli_choice *ret,
                 struct error *err)
{
    struct spec_overrides o = cli_overrides(c);
    o.identity_only = true;
    if (!c->has_args)
        o.args = NULL;
    struct diagnostics d = {0};
    struct spec *spec;
    char id[17];
    int rc = spec_load(spec_path, &o, c->arena, &spec, &d, err);
    if (rc < 0 && d.count > 0)
        cli_print_diagnostics(c, &d);
    diagnostics_free(&d);
    if (rc < 0)
        return -1;
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), id);
    if (journal_open_read(id, ret_journal, err) < 0) {
        if (err->why == ERROR_WHY_ABSENT)
            error_set(err, ERROR_USAGE, "\"%s\" was never run", spec_path);
        return -1;
    }
    *ret = (struct cli_choice){spec_path, spec->variant, o.sets, o.set_count};
    return 0;
}

static int latest_chosen(struct cli *c, const char *spec_path, struct journal **ret_journal,
                         const struct state_run **ret_run, struct error *err)
{
    struct cli_choice choice;
    struct journal *j;
    if (cli_find_job(c, spec_path, &j, &choice, err) < 0)
        return -1;
    const struct state *s = journal_state(j);
    for (size_t i = s->run_count; i-- > 0;)
        if (cli_chosen(&choice, &s->runs[i])) {
            *ret_run = &s->runs[i];
            *ret_journal = j;
            return 0;
        }
    cli_none_chosen(c, &choice, j, err);
    journal_close(j);
    return -1;
}

/* ---- by id, or by the name of a job ---- */

/* The possible meanings of a word; the first that matches counts. A rerun is a job of its own; its spec is a lock, and
 * it has the name of the job that it repeats. That name means the rerun only if there is no other job with it. */
enum meaning { MEANS_ID, MEANS_JOB, MEANS_RERUN, MEANS_PREFIX, MEANINGS };
struct found {
    struct journal *journal;
    const struct state_run *run; /* the latest */
    unsigned count;              /* how many runs, or jobs, match the word */
    const char *specs[2];        /* of the first two */
};
struct search {
    const char *word;
    struct arena *arena;
    struct found found[MEANINGS];
    struct journal **journals; /* those in which something was found */
    size_t journal_count;
    const char **jobs; /* the names of all jobs, ended by NULL */
    size_t job_count;
};

static void take(struct search *s, enum meaning m, struct journal *j, const struct state_run *run)
{
    struct found *f = &s->found[m];
    if (f->count < ARRAY_LEN(f->specs))
        f->specs[f->count] = arena_strdup(s->arena, run->spec_path ? run->spec_path : run->id);
    f->count++;
    if (f->run && f->run->opened_ms > run->opened_ms)
        return;
    f->journal = j;
    f->run = run;
}

static unsigned found_so_far(const struct search *s)
{
    unsigned count = 0;
    for (size_t m = 0; m < MEANINGS; m++)
        count += s->found[m].count;
    return count;
}

static void look(struct search *s, struct journal *j)
{
    const struct state *state = journal_state(j);
    const bool last = strcmp(s->word, "last") == 0;
    const unsigned before = found_so_far(s);
    for (size_t i = 0; i < state->run_count; i++) {
        const struct state_run *r = &state->runs[i];
        if (strcmp(r->id, s->word) == 0)
            take(s, MEANS_ID, j, r);
        else if (last || str_starts(r->id, s->word))
            take(s, MEANS_PREFIX, j, r);
    }
    if (!last && state->run_count > 0 && str_eq(journal_job_name(j), s->word)) {
        const struct state_run *r = &state->runs[state->run_count - 1];
        take(s, r->spec_path && str_ends(r->spec_path, ".lock.yaml") ? MEANS_RERUN : MEANS_JOB, j, r);
    }
    if (found_so_far(s) == before) {
        journal_close(j);
        return;
    }
    s->journals = xreallocarray(s->journals, s->journal_count + 1, sizeof(struct journal *));
    s->journals[s->journal_count++] = j;
}

static int search_jobs(struct search *s, struct error *err)
{
    struct journal_job *jobs = NULL;
    size_t count = 0;
    if (journal_jobs(&jobs, &count, err) < 0)
        return -1;
    s->jobs = arena_array(s->arena, count + 1, sizeof *s->jobs);
    for (size_t i = 0; i < count; i++) {
        struct journal *j;
        struct error unreadable = ERROR_INIT;
        if (journal_open_read(jobs[i].id, &j, &unreadable) < 0) {
            fprintf(stderr, "rhrun: warning: %s\n", unreadable.text);
            continue;
        }
        if (journal_job_name(j))
            s->jobs[s->job_count++] = arena_strdup(s->arena, journal_job_name(j));
        look(s, j);
    }
    journal_jobs_free(jobs, count);
    return 0;
}

static int decide(struct cli *c, const struct search *s, const struct found **ret, bool *ret_job, struct error *err)
{
    enum meaning m = MEANS_ID;
    while (m < MEANS_PREFIX && s->found[m].count == 0)
        m++;
    const struct found *f = &s->found[m];
    *ret_job = m == MEANS_JOB || m == MEANS_RERUN;
    *ret = f;
    if (f->count == 0 && strcmp(s->word, "last") == 0)
        return error_set(err, ERROR_USAGE, "nothing was run yet");
    if (f->count == 0) {
        error_set(err, ERROR_USAGE, "there is no run and no job \"%s\"", s->word);
        const char *near = s->job_count ? str_nearest(s->word, s->jobs) : NULL;
        if (near)
            error_hint(err, "did you mean %s? rhrun runs lists all", cli_quoted(c, near));
        else
            error_hint(err, "rhrun runs lists them");
        return -1;
    }
    if (*ret_job && f->count > 1) {
        error_set(err, ERROR_USAGE, "%u jobs have the name \"%s\"", f->count, s->word);
        error_hint(err, "name the spec file: %s, %s%s", cli_quoted(c, f->specs[0]), cli_quoted(c, f->specs[1]),
                   f->count > 2 ? ", ..." : "");
        return -1;
    }
    if (m == MEANS_PREFIX && f->count > 1 && strcmp(s->word, "last") != 0)
        return error_set(err, ERROR_USAGE, "\"%s\" fits %u runs: give more of the id", s->word, f->count);
    return 0;
}

/* ret_job: the word is the name of a job, and the run is its latest. */
static int find_by_word(struct cli *c, const char *word, struct journal **ret_journal, const struct state_run **ret_run,
                        bool *ret_job, struct error *err)
{
    struct search s = {.word = word, .arena = c->arena};
    const struct found *f = NULL;
    int rc = search_jobs(&s, err);
    if (rc == 0)
        rc = decide(c, &s, &f, ret_job, err);
    for (size_t i = 0; i < s.journal_count; i++)
        if (rc < 0 || s.journals[i] != f->journal)
            journal_close(s.journals[i]);
    free(s.journals);
    if (rc < 0)
        return -1;
    *ret_journal = f->journal;
    *ret_run = f->run;
    return 0;
}

bool cli_is_spec_word(const char *word)
{
    struct stat st;
    return strchr(word, '/') || str_ends(word, ".yaml") || str_ends(word, ".yml") || str_ends(word, ".json") ||
           (stat(word, &st) == 0 && !S_ISDIR(st.st_mode));
}

static int find_run(struct cli *c, const char *word, bool over, struct journal **ret_journal,
                    const struct state_run **ret_run, struct error *err)
{
    bool job = false;
    *ret_journal = NULL;
    *ret_run = NULL;
    if (cli_is_spec_word(word))
        return latest_chosen(c, word, ret_journal, ret_run, err);
    if (find_by_word(c, word, ret_journal, ret_run, &job, err) < 0)
        return -1;
    if (!(over ? c->has_args : cli_chooses(c)))
        return 0;
    const char *spec = job && (*ret_run)->spec_path ? arena_strdup(c->arena, (*ret_run)->spec_path) : NULL;
    journal_close(*ret_journal);
    return spec ? latest_chosen(c, spec, ret_journal, ret_run, err) : cli_nothing_to_choose(err);
}

int cli_find_run(struct cli *c, const char *word, struct journal **ret_journal, const struct state_run **ret_run,
                 struct error *err)
{
    return find_run(c, word, false, ret_journal, ret_run, err);
}

int cli_find_run_over(struct cli *c, const char *word, struct journal **ret_journal, const struct state_run **ret_run,
                      struct error *err)
{
    return find_run(c, word, true, ret_journal, ret_run, err);
}

int cli_find_history(struct cli *c, const char *word, struct journal **ret_journal, struct cli_choice *ret,
                     struct error *err)
{
    const struct state_run *run;
    bool job = false;
    if (cli_is_spec_word(word))
        return cli_find_job(c, word, ret_journal, ret, err);
    if (find_by_word(c, word, ret_journal, &run, &job, err) < 0)
        return -1;
    const char *spec = arena_strdup(c->arena, run->spec_path);
    if (job && !cli_chooses(c)) {
        *ret = (struct cli_choice){.spec_path = word};
        return 0;
    }
    journal_close(*ret_journal);
    if (job && spec)
        return cli_find_job(c, spec, ret_journal, ret, err);
    error_set(err, ERROR_USAGE, "\"%s\" is a run, but a spec file or the name of a job is needed", word);
    error_hint(err, "rhrun status %s shows that run", cli_quoted(c, word));
    return -1;
}
