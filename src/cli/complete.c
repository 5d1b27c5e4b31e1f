/* Candidates for the end of a command line. The kinds of word that a command takes are read from its usage, so a new
 * command needs nothing here. Only candidates are printed: if something is wrong, there are none, and no error. */
#include "points.h"
#include "renting.h"

#include "rhrun/provider.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 50, VALUES_MAX = 1000, SPEC_BYTES_MAX = 4 << 20, USAGE_MAX = 256 };

/* Kinds of word, as bits. */
enum kind {
    KIND_SPEC = 1,
    KIND_RUN = 2,
    KIND_FILE = 4,
    KIND_DIR = 8,
    KIND_CLUSTER = 16,
    KIND_NODE = 32,
    KIND_METRIC = 64,
    KIND_SHELL = 128,
    KIND_COMMAND = 256,
    KIND_JOB = 512,
    KIND_OTHER = 1024, /* unknown */
};
static const struct {
    const char *word; /* in a usage */
    unsigned kinds;
} usage_words[] = {{"SPEC", KIND_SPEC},         {"RUN", KIND_RUN | KIND_JOB | KIND_SPEC},
                   {"JOB", KIND_JOB},           {"A", KIND_RUN | KIND_SPEC},
                   {"B", KIND_RUN | KIND_SPEC}, {"DOC", KIND_FILE},
                   {"LOCK", KIND_FILE},         {"BUNDLE", KIND_FILE},
                   {"GLOB", KIND_FILE},         {"PLAN", KIND_FILE},
                   {"FILE", KIND_FILE},         {"DIR", KIND_DIR},
                   {"REPO", KIND_DIR},          {"CLUSTER", KIND_CLUSTER},
                   {"NODE", KIND_NODE},         {"METRIC", KIND_METRIC},
                   {"SHELL", KIND_SHELL},       {"COMMAND", KIND_COMMAND},
                   {"MACHINE", KIND_OTHER}};

struct complete {
    struct arena *arena;
    struct cli line;    /* the words before */
    const char *cur;    /* the typed part of the word */
    const char *before; /* the beginning that every candidate shares: "--step=" */
    struct buf *to;
};

/* ---- candidates ---- */

/* `fmt` describes it. A control character in either would look like another line or column. */
static void FORMAT(3, 4) offer(struct complete *p, const char *value, const char *fmt, ...)
{
    const size_t len = strlen(p->before);
    if (strncmp(p->cur, p->before, len) != 0 || !str_starts(value, p->cur + len) || !str_is_printable(value))
        return;
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    buf_putc(&text, 0);
    str_printable(text.data);
    buf_printf(p->to, "%s%s\t%s\n", p->before, value, text.data);
    buf_free(&text);
}

static void offer_commands(struct complete *p)
{
    for (size_t i = 0; cli_commands[i]; i++)
        offer(p, cli_commands[i]->name, "%s", cli_commands[i]->summary);
}

static void offer_options(struct complete *p)
{
    const struct cli_command *cmd = p->line.command;
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct cli_option *o = &cli_options[i];
        if (o->hidden || !(cli_command_has(cmd, o->id) || o->id == OPT_VERSION) || (p->line.given[o->id] && !o->many))
            continue;
        CLEANUP(cleanup_free) char *name = xasprintf("--%s", o->name);
        offer(p, name, "%s", o->help);
        CLEANUP(cleanup_free) char *letter = o->letter ? xasprintf("-%c", o->letter) : NULL;
        if (letter)
            offer(p, letter, "%s", o->help);
    }
}

/* ---- runs ---- */

struct row {
    const char *id, *job, *word, *options;
    uint64_t opened_ms;
};

static int newest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->opened_ms < y->opened_ms ? 1 : x->opened_ms > y->opened_ms ? -1 : 0;
}

static void offer_runs(struct complete *p)
{
    struct journal_job *jobs = NULL;
    struct row *rows = NULL;
    size_t job_count = 0, count = 0;
    struct error err = ERROR_INIT;
    if (journal_jobs(&jobs, &job_count, &err) < 0)
        return;
    for (size_t i = 0; i < job_count; i++) {
        struct journal *j;
        if (journal_open_read(jobs[i].id, &j, &err) < 0)
            continue;
        const struct state *s = journal_state(j);
        rows = xreallocarray(rows, count + s->run_count + 1, sizeof *rows);
        for (size_t k = 0; k < s->run_count; k++)
            rows[count++] =
                (struct row){arena_strdup(p->arena, s->runs[k].id), arena_strdup(p->arena, jobs[i].name),
                             cli_run_word(j, &s->runs[k]), cli_options_of(&p->line, &s->runs[k]), s->runs[k].opened_ms};
        journal_close(j);
    }
    journal_jobs_free(jobs, job_count);
    if (count) {
        qsort(rows, count, sizeof *rows, newest_first);
        offer(p, "last", "the latest run: %s, %s", rows[0].job, rows[0].word);
    }
    for (size_t i = 0; i < count && i < RUNS_MAX; i++) {
        char when[32];
        cli_time(rows[i].opened_ms, when);
        offer(p, rows[i].id, "%s, %s, %s%s%s", rows[i].job, rows[i].word, when, *rows[i].options ? ", " : "",
              rows[i].options);
    }
    free(rows);
}

static void offer_jobs(struct complete *p, bool by_name)
{
    struct journal_job *jobs = NULL;
    size_t count = 0;
    struct error err = ERROR_INIT;
    if (journal_jobs(&jobs, &count, &err) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (!by_name)
            offer(p, jobs[i].id, "%s, %s", jobs[i].name, jobs[i].origin);
        else if (i == 0 || strcmp(jobs[i].name, jobs[i - 1].name) != 0) /* by name: equal ones are neighbours */
            offer(p, jobs[i].name, "job of %s", jobs[i].origin);
    journal_jobs_free(jobs, count);
}

static void offer_clusters(struct complete *p)
{
    const char *const *ids;
    struct error err = ERROR_INIT;
    if (journal_clusters(p->arena, &ids, &err) < 0)
        return;
    for (; *ids; ids++) {
        struct fleet_ledger *l;
        if (rent_is_over(*ids) || rent_read(*ids, &l, &err) < 0)
            continue;
        offer(p, *ids, "%s, %s", l->wanted.name, fleet_stage_name(l->stage));
        fleet_ledger_destroy(l);
    }
}

/* ---- parts of the spec, or run, that the line names ---- */

static const char *spec_word(const struct complete *p)
{
    const char *word = p->line.word_count ? p->line.words[0] : NULL;
    return word && cli_is_spec_word(word) ? word : NULL;
}

static struct doc *spec_doc(const struct complete *p)
{
    const char *path = spec_word(p);
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct doc *doc = NULL;
    if (path && doc_load_file(path, DOC_FORMAT_AUTO, p->arena, &doc, &d, &err) < 0)
        doc = NULL;
    diagnostics_free(&d);
    return doc;
}

/* NULL: there is none, or it has faults. Starts nothing. */
static struct spec *spec_of(struct complete *p)
{
    const char *path = spec_word(p);
    struct spec_overrides o = cli_overrides(&p->line);
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct spec *spec = NULL;
    if (path && spec_load(path, &o, p->arena, &spec, &d, &err) < 0)
        spec = NULL;
    diagnostics_free(&d);
    return spec;
}

/* NULL: the line names none, or there is none. The caller closes the journal. */
static const struct state_run *run_of(struct complete *p, struct journal **ret_journal)
{
    const struct state_run *run;
    struct error err = ERROR_INIT;
    const char *word = p->line.word_count ? p->line.words[0] : "last";
    if (cli_find_run(&p->line, word, ret_journal, &run, &err) < 0)
        return NULL;
    return run;
}

static bool takes_runs(const struct complete *p)
{
    return strstr(p->line.command->usage, "RUN") != NULL;
}

static void offer_steps(struct complete *p)
{
    struct journal *j;
    struct error err = ERROR_INIT;
    if (takes_runs(p)) {
        const struct state_run *run = run_of(p, &j);
        if (!run)
            return;
        const struct state *s = journal_state(j);
        for (size_t i = 0; i < s->cell_count; i++) {
            const struct state_cell *cell = &s->cells[i];
            bool first = !cli_is_point_cell(cell) && (!*cell->scope || str_eq(cell->scope, run->variant));
            for (size_t k = 0; k < i && first; k++)
                first = strcmp(s->cells[k].step, cell->step) != 0 || !str_eq(s->cells[k].scope, cell->scope);
            if (first)
                offer(p, cell->step, "%s", cell->outcome == OUTCOME_NONE ? "running" : outcome_name(cell->outcome));
        }
        journal_close(j);
        return;
    }
    struct spec *spec = spec_of(p);
    struct plan *plan;
    if (!spec || plan_compile(spec, roster_create(spec, p->arena), step_kinds, NULL, NULL, p->arena, &plan, &err) < 0)
        return;
    for (size_t i = 0; i < plan->step_count; i++)
        if (!str_starts(plan->steps[i].name, "point:"))
            offer(p, plan->steps[i].name, "%s", plan->steps[i].title);
}

/* by_number: by number, as --node takes them; else by name. */
static void offer_nodes(struct complete *p, bool by_number)
{
    struct journal *j;
    const struct state_run *run = takes_runs(p) ? run_of(p, &j) : NULL;
    struct spec *spec = run ? NULL : spec_of(p);
    const struct roster *roster = spec ? roster_create(spec, p->arena) : NULL;
    const uint32_t count = run ? run->node_count : roster ? roster_count(roster) : 0;
    for (uint32_t i = 0; i < count; i++) {
        char number[16];
        const char *name = roster                             ? roster_name(roster, i)
                           : i < journal_state(j)->node_count ? journal_state(j)->nodes[i].host
                                                              : NULL;
        snprintf(number, sizeof number, "%u", i);
        if (by_number)
            offer(p, number, "%s", name ? name : "a node");
        else if (name)
            offer(p, name, "node %u", i);
    }
    if (run)
        journal_close(j);
}

/* From the text of the file alone: other parts may have faults. */
static const struct spec_sweep *sweep_of(struct complete *p)
{
    struct buf text = {0};
    const struct spec_sweep *s = NULL;
    struct spec_overrides none = {0};
    struct error err = ERROR_INIT;
    if (spec_word(p) && file_read(spec_word(p), SPEC_BYTES_MAX, &text, &err) == 0)
        s = spec_sweep_of(arena_strdup(p->arena, text.data ? text.data : ""), &none, p->arena);
    buf_free(&text);
    return s;
}

static void offer_points(struct complete *p)
{
    const struct spec_sweep *s = sweep_of(p);
    for (size_t i = 0; s && i < s->all_count; i++)
        offer(p, s->all[i].name, "point %u of the sweep", s->all[i].index + 1);
    struct journal *j;
    if (s || !takes_runs(p))
        return;
    struct cli_points points;
    struct error err = ERROR_INIT;
    const struct state_run *run = run_of(p, &j);
    if (run && cli_points(&p->line, j, run, &points, &err) == 0)
        for (size_t i = 0; i < points.count; i++)
            offer(p, points.items[i].name, "%s", cli_point_state_name(points.items[i].state));
    if (run)
        journal_close(j);
}

/* False: it is not swept. */
static bool offer_swept_values(struct complete *p, const char *name)
{
    const struct spec_sweep *s = sweep_of(p);
    bool any = false;
    for (size_t i = 0; s && i < s->all_count && i < VALUES_MAX; i++)
        for (size_t k = 0; k < s->all[i].param_count; k++) {
            const struct spec_param *param = &s->all[i].params[k];
            bool first = param->swept && strcmp(param->name, name) == 0;
            any = any || first;
            for (size_t m = 0; m < i && first; m++)
                first = strcmp(s->all[m].params[k].value, param->value) != 0;
            if (first)
                offer(p, param->value, "a value of the sweep");
        }
    return any;
}

/* NAME= first; after it the values. */
static void offer_params(struct complete *p)
{
    struct doc *doc = spec_doc(p);
    const struct doc_node *params = doc ? doc_get(doc->root, "params") : NULL;
    const char *typed = p->cur + strlen(p->before), *equals = strchr(typed, '=');
    for (size_t i = 0; params && params->type == DOC_OBJECT && i < params->count; i++) {
        const struct doc_node *value = params->members[i].value, *values = doc_get(value, "enum");
        const char *name = params->members[i].key;
        const bool whole = value->type == DOC_OBJECT;
        const char *text = whole ? doc_get_text(value, "default", NULL) : value->text;
        const char *told = whole ? doc_get_string(value, "description", NULL) : NULL;
        if (!equals) {
            offer(p, arena_printf(p->arena, "%s=", name), "%s%s%s%s", told ? told : "", told ? "; " : "",
                  text ? "default " : "no default", text ? text : "");
            continue;
        }
        if (strncmp(typed, name, (size_t)(equals - typed)) != 0 || name[equals - typed])
            continue;
        p->before = arena_printf(p->arena, "%s%s=", p->before, name);
        const bool boolean = whole ? str_eq(doc_get_string(value, "type", NULL), "boolean") : value->type == DOC_BOOL;
        for (size_t k = 0; values && values->type == DOC_ARRAY && k < values->count; k++)
            offer(p, values->items[k]->text, "%s", str_eq(values->items[k]->text, text) ? "the default" : "");
        if (boolean) {
            offer(p, "true", "%s", str_eq(text, "true") ? "the default" : "");
            offer(p, "false", "%s", str_eq(text, "false") ? "the default" : "");
        }
        const bool swept = offer_swept_values(p, name);
        if (text && !values && !boolean && !swept)
            offer(p, text, "the default");
        return;
    }
}

/* The top-level keys of a spec. */
static void offer_keys(struct complete *p)
{
    struct doc *doc = spec_doc(p);
    for (size_t i = 0; doc && doc->root->type == DOC_OBJECT && i < doc->root->count; i++) {
        const struct doc_member *m = &doc->root->members[i];
        offer(p, arena_printf(p->arena, "%s%s", m->key, m->value->type == DOC_OBJECT ? "." : "="), "%s",
              doc_type_words(m->value->type));
    }
}

static void offer_metrics(struct complete *p)
{
    struct journal *j;
    struct doc *doc = spec_doc(p);
    const struct doc_node *metrics = doc ? doc_get(doc->root, "metrics") : NULL;
    for (size_t i = 0; metrics && metrics->type == DOC_ARRAY && i < metrics->count; i++)
        offer(p, doc_get_text(metrics->items[i], "name", ""), "a metric of the spec");
    if (doc)
        return;
    const struct state_run *run = run_of(p, &j);
    if (!run)
        return;
    for (uint32_t i = 0; i < run->metric_count; i++) {
        bool first = true;
        for (uint32_t k = 0; k < i && first; k++)
            first = !str_eq(run->metrics[k].name, run->metrics[i].name);
        if (first)
            offer(p, run->metrics[i].name, "a metric of the run");
    }
    journal_close(j);
}

/* ---- kinds of word ---- */

static unsigned kinds_of(const char *word, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(usage_words); i++)
        if (strlen(usage_words[i].word) == len && memcmp(usage_words[i].word, word, len) == 0)
            return usage_words[i].kinds;
    return 0;
}

/* A usage is read from the left: "RUN|LOCK [NODE] [-- ARG...]" */
unsigned cli_usage_kinds(const char *usage, size_t at, void (*literal)(void *arg, const char *word), void *arg)
{
    char text[USAGE_MAX];
    unsigned kinds = 0;
    size_t number = 0;
    snprintf(text, sizeof text, "%s", usage);
    for (char *end, *word = strtok_r(text, " []", &end); word; word = strtok_r(NULL, " []", &end)) {
        if (strcmp(word, "--") == 0 || word[0] == '|')
            break;
        const bool more = strstr(word, "...") != NULL;
        kinds = 0;
        for (char *part = word; *part; part += strcspn(part, "|"), part += *part == '|') {
            size_t len = strcspn(part, "|");
            if (len > 3 && strncmp(part + len - 3, "...", 3) == 0)
                len -= 3;
            kinds |= kinds_of(part, len);
            CLEANUP(cleanup_free) char *same = xstrndup(part, len);
            if (literal && (number == at || more) && same[0] >= 'a' && same[0] <= 'z')
                literal(arg, same);
        }
        if (number++ == at || more)
            return kinds;
    }
    return 0;
}

static void offer_literal(void *arg, const char *word)
{
    offer(arg, word, "%s", "");
}

/* The shell completes files itself. */
static void ask_for_files(struct complete *p, unsigned kinds)
{
    const char *what = kinds & KIND_FILE ? "files" : kinds & KIND_SPEC ? "specs" : kinds & KIND_DIR ? "dirs" : NULL;
    if (what)
        buf_printf(p->to, ":%s\n", what);
}

static void offer_word(struct complete *p)
{
    const struct cli *line = &p->line;
    const unsigned kinds = cli_usage_kinds(line->command->usage, line->word_count, offer_literal, p);
    if (kinds & KIND_RUN)
        offer_runs(p);
    if (kinds & KIND_JOB)
        offer_jobs(p, true);
    if (kinds & KIND_CLUSTER)
        offer_clusters(p);
    if (kinds & KIND_NODE)
        offer_nodes(p, false);
    if (kinds & KIND_METRIC)
        offer_metrics(p);
    if (kinds & KIND_COMMAND)
        offer_commands(p);
    for (const char *const *shell = (const char *const[]){"bash", "zsh", "fish", NULL}; kinds & KIND_SHELL && *shell;
         shell++)
        offer(p, *shell, "%s", "");
    ask_for_files(p, kinds);
}

static void offer_providers(struct complete *p)
{
    for (const char *const *name = provider_list(p->arena); *name; name++)
        offer(p, *name, "%s", "a provider of machines");
}

static void offer_value(struct complete *p, enum cli_option_id id)
{
    if (id == OPT_PARAM)
        offer_params(p);
    else if (id == OPT_SET)
        offer_keys(p);
    else if (id == OPT_STEP || id == OPT_FROM)
        offer_steps(p);
    else if (id == OPT_NODE)
        offer_nodes(p, true);
    else if (id == OPT_POINT)
        offer_points(p);
    else if (id == OPT_ADOPT)
        offer_jobs(p, false);
    else if (id == OPT_PROVIDER)
        offer_providers(p);
    else if (id == OPT_ON)
        offer(p, "local", "%s", "this machine"), offer_clusters(p);
    else if (id == OPT_OUTPUT || id == OPT_BUNDLE || id == OPT_SCHEMA)
        ask_for_files(p, KIND_FILE);
}

/* The option whose value is being typed, or NULL: `word` is "--step=ab", or the value after "--step" or "-p". */
static const struct cli_option *option_of(const struct cli_command *cmd, const char *word, bool with_value)
{
    const size_t len = strcspn(word, "=");
    if (word[0] != '-' || (word[len] == '=') != with_value)
        return NULL;
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct cli_option *o = &cli_options[i];
        const bool is_letter = !with_value && o->letter && word[1] == o->letter && !word[2];
        const bool is_name = word[1] == '-' && strlen(o->name) == len - 2 && memcmp(o->name, word + 2, len - 2) == 0;
        if (o->value && cli_command_has(cmd, o->id) && (is_letter || is_name))
            return o;
    }
    return NULL;
}

void cli_complete(struct arena *arena, const char *const *words, size_t count, struct buf *ret)
{
    struct complete p = {.arena = arena, .cur = count ? words[count - 1] : "", .before = "", .to = ret};
    struct error ignored = ERROR_INIT;
    char **argv = arena_array(arena, count + 2, sizeof *argv);
    int argc = 0;
    argv[argc++] = arena_strdup(arena, "rhrun");
    for (size_t i = 0; i + 1 < count; i++)
        argv[argc++] = arena_strdup(arena, words[i]);
    const struct cli_option *o = NULL;
    p.line = (struct cli){.program = "rhrun", .arena = arena};
    (void)cli_parse(&p.line, argc, argv, &ignored); /* too few words, or a value that is still to be typed */
    const bool nothing = argc == 1 || !p.line.command ||
                         (p.line.word_count == 0 && str_eq(p.line.command->name, "help") && !str_eq(argv[1], "help"));
    if (p.line.has_args) {
        buf_puts(ret, ":files\n");
    } else if (!nothing && (o = option_of(p.line.command, argv[argc - 1], false))) {
        offer_value(&p, o->id);
    } else if (p.line.command && (o = option_of(p.line.command, p.cur, true))) {
        p.before = arena_printf(arena, "--%s=", o->name);
        offer_value(&p, o->id);
    } else if (p.cur[0] == '-') {
        if (nothing)
            p.line.command = &cmd_run_command;
        offer_options(&p);
    } else if (nothing) {
        offer_commands(&p);
        ask_for_files(&p, KIND_SPEC);
    } else {
        offer_word(&p);
    }
    for (size_t i = 0; i < OPT_COUNT; i++)
        free(p.line.values[i]);
    free(p.line.words);
}
