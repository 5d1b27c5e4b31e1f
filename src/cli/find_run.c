/* Which run a word means: an id, the beginning of one, "last", or a spec file, of whose runs the options choose. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTED_MAX = 20 };

bool cli_chooses(const struct cli *c)
{
    return c->given[OPT_PARAM] || c->given[OPT_SET] || c->has_args;
}

int cli_nothing_to_choose(struct error *err)
{
    error_set(err, ERROR_USAGE, "-p, --set and words behind -- choose among the runs of a spec, and none is named");
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
    char *shown = arena_strdup(arena, text); /* on a terminal: no control character of a value */
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

/* ---- the runs of a spec ---- */

static bool is_of_name(const char *set)
{
    return str_starts(set, "name="); /* it chose the job already */
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

/* The latest run of each set of options, the latest first. */
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
    journal_job_id(spec->name, spec->origin, id);
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

/* ---- by id ---- */

/* Looks for the run in one job; keeps the journal in *best when it has a better match. */
static void match_runs(struct journal *j, const char *word, struct journal **best, const struct state_run **ret_run,
                       unsigned *matches)
{
    const struct state *s = journal_state(j);
    bool last = strcmp(word, "last") == 0, kept = false;
    for (size_t i = 0; i < s->run_count; i++) {
        const struct state_run *r = &s->runs[i];
        bool hit = last ? !*ret_run || r->opened_ms >= (*ret_run)->opened_ms : str_starts(r->id, word);
        if (!hit)
            continue;
        *matches += last ? 0 : 1;
        *ret_run = r;
        kept = true;
    }
    if (!kept) {
        journal_close(j);
        return;
    }
    journal_close(*best);
    *best = j;
}

static int find_by_id(const char *word, struct journal **ret_journal, const struct state_run **ret_run,
                      struct error *err)
{
    struct journal_job *jobs = NULL;
    size_t count = 0;
    unsigned matches = 0;
    if (journal_jobs(&jobs, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct journal *j;
        struct error unreadable = ERROR_INIT;
        if (journal_open_read(jobs[i].id, &j, &unreadable) < 0)
            fprintf(stderr, "rhrun: warning: %s\n", unreadable.text);
        else
            match_runs(j, word, ret_journal, ret_run, &matches);
    }
    journal_jobs_free(jobs, count);
    if (matches > 1) {
        journal_close(*ret_journal);
        return error_set(err, ERROR_USAGE, "\"%s\" fits %u runs: give more of the id", word, matches);
    }
    if (!*ret_run) {
        error_set(err, ERROR_USAGE, strcmp(word, "last") == 0 ? "nothing was run yet" : "there is no run \"%s\"", word);
        error_hint(err, "rhrun runs lists them");
        return -1;
    }
    return 0;
}

static int find_run(struct cli *c, const char *word, bool over, struct journal **ret_journal,
                    const struct state_run **ret_run, struct error *err)
{
    *ret_journal = NULL;
    *ret_run = NULL;
    if (strchr(word, '/') || str_ends(word, ".yaml") || str_ends(word, ".yml") || str_ends(word, ".json") ||
        access(word, F_OK) == 0)
        return latest_chosen(c, word, ret_journal, ret_run, err);
    if (over ? c->has_args : cli_chooses(c))
        return cli_nothing_to_choose(err);
    return find_by_id(word, ret_journal, ret_run, err);
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
