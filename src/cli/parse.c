/* Parses the command line by the tables: options anywhere, `--` ends them; an unknown word gets the nearest name as a
 * hint. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cli_option cli_options[] = {
    {OPT_HELP, 'h', "help", NULL, "this text", false, false},
    {OPT_VERSION, 'V', "version", NULL, "the version", false, false},
    {OPT_JSON, 0, "json", NULL, "machine-readable output on stdout", false, false},
    {OPT_QUIET, 'q', "quiet", NULL, "only errors and the workers' output", false, false},
    {OPT_VERBOSE, 'v', "verbose", NULL, "also the output of set-up steps, more detail", false, false},
    {OPT_NO_COLOR, 0, "no-color", NULL, "no colours (NO_COLOR does the same)", false, false},
    {OPT_NO_PREFIX, 0, "no-prefix", NULL, "workers' output without role[rank]@node", false, false},
    {OPT_YES, 'y', "yes", NULL, "answer yes to every question", false, false},
    {OPT_SET, 0, "set", "PATH=VALUE", "override a value of the spec (a.b=VALUE)", true, false},
    {OPT_PARAM, 'p', "param", "NAME=VALUE", "set a param", true, false},
    {OPT_ON, 0, "on", "WHERE", "run on local, a cluster NAME, or user@host,...", false, false},
    {OPT_ADOPT, 0, "adopt", "JOB", "take over the history of job JOB", false, false},
    {OPT_AGAIN, 0, "again", NULL, "launch again, keep the set-up", false, false},
    {OPT_FRESH, 0, "fresh", NULL, "a new working directory, everything again", false, false},
    {OPT_FROM, 0, "from", "STEP", "do this step and its dependents again", false, false},
    {OPT_DETACH, 'd', "detach", NULL, "go on in the background", false, false},
    {OPT_DETACHED_FD, 0, "detached-fd", "FD", "", false, true},
    {OPT_TAKE_OVER, 0, "take-over", NULL, "take the job over from another controller", false, false},
    {OPT_REPLACE, 0, "replace", NULL, "stop a live run of an older spec, start this one", false, false},
    {OPT_SCHEMA, 0, "schema", "FILE", "check against this schema, not the job schema", false, false},
    {OPT_EXIT_CODE, 0, "exit-code", NULL, "exit 10 when there is work to do", false, false},
    {OPT_TRUST, 0, "trust", NULL, "run programs that the spec's ssh_config names", false, false},
    {OPT_OFFLINE, 0, "offline", NULL, "do not ask the nodes", false, false},
    {OPT_OUTPUT, 'o', "output", "FILE", "save the plan, or the list of --files", false, false},
    {OPT_FOLLOW, 'f', "follow", NULL, "go on until the run ends", false, false},
    {OPT_RANK, 0, "rank", "R", "only this rank; logs: byte for byte", false, false},
    {OPT_POINT, 0, "point", "NAME", "only this point of the sweep (its name or id)", false, false},
    {OPT_POINTS, 0, "points", NULL, "a line for each point of sweeps", false, false},
    {OPT_STEP, 0, "step", "NAME", "only this step", false, false},
    {OPT_NODE, 0, "node", "N", "only this node (its number or name)", false, false},
    {OPT_TAIL, 0, "tail", "N", "only the last N lines (all: every line)", false, false},
    {OPT_SINCE, 0, "since", "T", "only lines since T: 10m ago, \"2026-01-31 08:00\"", false, false},
    {OPT_TIMESTAMPS, 0, "timestamps", NULL, "each line with the time when it was read", false, false},
    {OPT_GREP, 0, "grep", "PATTERN", "only lines that this pattern (PCRE2) matches", false, false},
    {OPT_WATCH, 0, "watch", NULL, "refresh the output until the run has ended", false, false},
    {OPT_LIMIT, 'n', "limit", "N", "list at most N", false, false},
    {OPT_EVENTS, 0, "events", NULL, "the events of the run as NDJSON", false, false},
    {OPT_FILES, 0, "files", NULL, "list the files that would be sent", false, false},
    {OPT_ALL, 0, "all", NULL, "every rank, cluster, series, or point", false, false},
    {OPT_PARALLEL, 0, "parallel", "N", "N jobs at once (default 4)", false, false},
    {OPT_DRY_RUN, 0, "dry-run", NULL, "say what would be done, start nothing", false, false},
    {OPT_REQUIRE_CLEAN, 0, "require-clean", NULL, "refuse a tree with uncommitted changes", false, false},
    {OPT_AT, 0, "at", "REV", "this commit, branch or tag instead of the files", false, false},
    {OPT_BRANCH, 0, "branch", "B", "this branch, not the default one", false, false},
    {OPT_EVERY, 0, "every", "TIME", "look at this interval (default 1m)", false, false},
    {OPT_PRUNE, 0, "prune", NULL, "give back machines of jobs whose specs are gone", false, false},
    {OPT_SPOT, 0, "spot", NULL, "sort by spot price; only machines that have one", false, false},
    {OPT_REGION, 0, "region", "R", "only in this region; may be repeated", true, false},
    {OPT_PROVIDER, 0, "provider", "P", "only at this provider; may be repeated", true, false},
    {OPT_REFRESH, 0, "refresh", NULL, "ask the providers for their prices first", false, false},
    {OPT_RATE, 0, "rate", "EUR=USD", "one unit of a currency in US dollars", true, false},
    {OPT_CSV, 0, "csv", NULL, "each value as a line of CSV", false, false},
    {OPT_LOCK, 0, "lock", NULL, "print the lock of a run; rhrun run: write it", false, false},
    {OPT_BUNDLE, 0, "bundle", "FILE", "write all that a rerun elsewhere needs to FILE", false, false},
    {OPT_LOCKED, 0, "locked", NULL, "run only if all is as in NAME.lock.yaml", false, false},
    {OPT_STRICT, 0, "strict", NULL, "start nothing unless everything can be as it was", false, false},
    {OPT_FROM_START, 0, "from-start", NULL, "also show lines that were shown before", false, false},
    {OPT_HOSTS, 0, "hosts", "HOST,...", "machines: user@host, or names in ~/.ssh/config", false, false},
    {OPT_TORCHRUN, 0, "torchrun", NULL, "a spec for a script that runs under torchrun", false, false},
    {OPT_FUNCTION, 0, "function", NULL, "a spec for a Python function", false, false},
    {OPT_OLDER_THAN, 0, "older-than", "TIME", "only what was unused for TIME (default 30d)", false, false},
    {OPT_RESUME, 0, "resume", "RUN", "", false, true},
};
const size_t cli_option_count = ARRAY_LEN(cli_options);

static const enum cli_option_id common[] = {OPT_HELP, OPT_JSON, OPT_QUIET, OPT_VERBOSE, OPT_NO_COLOR, OPT_COUNT};

const struct cli_option *cli_option_find(enum cli_option_id id)
{
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_options[i].id == id)
            return &cli_options[i];
    return NULL;
}

static bool in_list(const enum cli_option_id *list, enum cli_option_id id)
{
    for (; list && *list != OPT_COUNT; list++)
        if (*list == id)
            return true;
    return false;
}

bool cli_command_has(const struct cli_command *cmd, enum cli_option_id id)
{
    return in_list(common, id) || in_list(cmd->options, id);
}

/* Names that people know from other programs. */
static const char *const aliases[][2] = {
    {"ps", "runs"}, {"ls", "runs"}, {"list", "runs"}, {"stop", "cancel"}, {"version", "help"}};

const struct cli_command *cli_command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (strcmp(aliases[i][0], name) == 0)
            name = aliases[i][1];
    for (size_t i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

static int unknown_option(const struct cli_command *cmd, const char *word, struct error *err)
{
    const char *names[OPT_COUNT + 1];
    size_t n = 0;
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_command_has(cmd, cli_options[i].id) && !cli_options[i].hidden)
            names[n++] = cli_options[i].name;
    names[n] = NULL;
    CLEANUP(cleanup_free) char *bare = xstrdup(word + strspn(word, "-"));
    bare[strcspn(bare, "=")] = 0;
    const char *near = str_nearest(bare, names);
    error_set(err, ERROR_USAGE, "unknown option \"%s\" of %s", word, cmd->name);
    if (near)
        error_hint(err, "did you mean --%s?", near);
    else if (cmd->takes_args)
        error_hint(err, "arguments of the program go after --: rhrun %s SPEC -- %s", cmd->name, word);
    else
        error_hint(err, "rhrun %s --help lists the options", cmd->name);
    return -1;
}

static void set_value(struct cli *c, const struct cli_option *o, const char *value)
{
    c->given[o->id] = true;
    c->value[o->id] = value;
    if (!o->many)
        return;
    c->values[o->id] = xreallocarray(c->values[o->id], c->value_count[o->id] + 1, sizeof(char *));
    c->values[o->id][c->value_count[o->id]++] = value;
}

static const struct cli_option *by_name(const struct cli_command *cmd, const char *name, size_t len)
{
    for (size_t i = 0; i < cli_option_count; i++)
        if (strlen(cli_options[i].name) == len && memcmp(cli_options[i].name, name, len) == 0 &&
            cli_command_has(cmd, cli_options[i].id))
            return &cli_options[i];
    return NULL;
}

static const struct cli_option *by_letter(const struct cli_command *cmd, char letter)
{
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_options[i].letter == letter && letter && cli_command_has(cmd, cli_options[i].id))
            return &cli_options[i];
    return NULL;
}

/* One option word at argv[*i]; may take the next word as its value. */
static int parse_option(struct cli *c, int argc, char **argv, int *i, struct error *err)
{
    const char *word = argv[*i];
    const struct cli_option *o;
    const char *value = NULL;
    if (word[1] == '-') {
        size_t len = strcspn(word + 2, "=");
        o = by_name(c->command, word + 2, len);
        if (o && word[2 + len] == '=')
            value = word + 3 + len;
        if (o && value && !o->value)
            return error_set(err, ERROR_USAGE, "--%s takes no value", o->name);
    } else {
        o = by_letter(c->command, word[1]);
        if (o && o->value && word[2])
            value = word + 2 + (word[2] == '=');
        else if (o && word[2]) { /* -qv: each letter a switch */
            for (const char *p = word + 1; *p; p++) {
                const struct cli_option *one = by_letter(c->command, *p);
                if (!one || one->value)
                    return unknown_option(c->command, word, err);
                set_value(c, one, NULL);
            }
            return 0;
        }
    }
    if (!o)
        return unknown_option(c->command, word, err);
    if (o->value && !value) {
        if (*i + 1 >= argc)
            return error_set(err, ERROR_USAGE, "%s needs a value (%s)", word, o->value);
        value = argv[++*i];
    }
    if (value && strchr(o->value, '=') && !strchr(value, '='))
        return error_set(err, ERROR_USAGE, "--%s: \"%s\" is not of the form %s", o->name, value, o->value);
    set_value(c, o, value);
    return 0;
}

/* Before the command is known: whether this option word takes the next word as its value. */
static bool takes_next(const char *word)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct cli_option *o = &cli_options[i];
        bool is_long = word[1] == '-' && strcmp(word + 2, o->name) == 0;
        bool is_short = word[1] != '-' && o->letter && word[1] == o->letter && !word[2];
        if (is_long || is_short)
            return o->value != NULL;
    }
    return false;
}

static int pick_command(struct cli *c, int argc, char **argv, int *ret_first, struct error *err)
{
    int first = 1;
    const char *word = NULL;
    for (; first < argc && strcmp(argv[first], "--") != 0;
         first++) { /* rhrun --json job.yaml: the command is the first word */
        if (argv[first][0] != '-') {
            word = argv[first];
            break;
        }
        first += takes_next(argv[first]) ? 1 : 0;
    }
    c->command = word ? cli_command_find(word) : NULL;
    *ret_first = first;
    if (c->command || !word)
        return 0;
    c->command = cli_command_find("run");
    *ret_first = -1; /* the word is a SPEC */
    if (strchr(word, '.') || strchr(word, '/') || access(word, F_OK) == 0)
        return 0;
    const char *names[64];
    size_t n = 0;
    for (size_t i = 0; cli_commands[i] && n < 63; i++)
        names[n++] = cli_commands[i]->name;
    names[n] = NULL;
    const char *near = str_nearest(word, names);
    error_set(err, ERROR_USAGE, "\"%s\" is neither a command nor a spec file", word);
    if (near)
        error_hint(err, "did you mean rhrun %s?", near);
    else
        error_hint(err, "rhrun --help lists the commands");
    return -1;
}

int cli_parse(struct cli *c, int argc, char **argv, struct error *err)
{
    int command_at = -1;
    c->argc = argc;
    c->argv = argv;
    c->words = xcalloc((size_t)argc + 1, sizeof *c->words);
    if (pick_command(c, argc, argv, &command_at, err) < 0)
        return -1;
    if (command_at > 0 && command_at < argc)
        c->given[OPT_VERSION] = strcmp(argv[command_at], "version") == 0;
    if (!c->command) {
        c->command = cli_command_find("help");
        command_at = -1;
    }
    for (int i = 1; i < argc; i++) {
        if (i == command_at)
            continue;
        if (strcmp(argv[i], "--") == 0) {
            c->has_args = true;
            c->args = (const char *const *)&argv[i + 1];
            c->arg_count = (size_t)(argc - i - 1);
            break;
        }
        if (argv[i][0] != '-' || argv[i][1] == 0)
            c->words[c->word_count++] = argv[i];
        else if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0)
            c->given[OPT_VERSION] = true;
        else if (parse_option(c, argc, argv, &i, err) < 0)
            return -1;
    }
    if (c->given[OPT_HELP] || c->given[OPT_VERSION])
        return 0;
    if (c->has_args && !c->command->takes_args)
        return error_set(err, ERROR_USAGE, "rhrun %s takes no arguments after --", c->command->name);
    if (c->word_count < c->command->words_min || c->word_count > c->command->words_max) {
        error_set(err, ERROR_USAGE,
                  c->word_count < c->command->words_min ? "rhrun %s: too few words" : "rhrun %s: too many words",
                  c->command->name);
        error_hint(err, "usage: rhrun %s %s", c->command->name, c->command->usage);
        return -1;
    }
    return 0;
}

static void help_option(const struct cli_option *o, FILE *to)
{
    char left[64];
    if (o->letter)
        snprintf(left, sizeof left, "-%c, --%s%s%s", o->letter, o->name, o->value ? " " : "", o->value ? o->value : "");
    else
        snprintf(left, sizeof left, "    --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    fprintf(to, "  %-28s %s\n", left, o->help);
}

static void help_aliases(const struct cli_command *cmd, FILE *to)
{
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (strcmp(aliases[i][1], cmd->name) == 0) {
            fprintf(to, "%s rhrun %s", any ? "," : "Also:", aliases[i][0]);
            any = true;
        }
    if (any)
        fputs(".\n", to);
}

void cli_help(const struct cli *c, const struct cli_command *cmd, FILE *to)
{
    (void)c;
    if (strcmp(cmd->name, "help") != 0) {
        fprintf(to, "usage: rhrun %s %s\n\n%s.\n", cmd->name, cmd->usage, cmd->summary);
        help_aliases(cmd, to);
        if (cmd->detail)
            fprintf(to, "\n%s\n", cmd->detail);
        fprintf(to, "\noptions:\n");
        for (size_t i = 0; i < cli_option_count; i++)
            if (cli_command_has(cmd, cli_options[i].id) && !cli_options[i].hidden)
                help_option(&cli_options[i], to);
        return;
    }
    fprintf(to, "usage: rhrun SPEC [OPTIONS] [-- ARG...]\n       rhrun COMMAND ...\n\n"
                "Runs the job that a YAML file describes, step by step; what is done is kept.\n\ncommands:\n");
    for (size_t i = 0; cli_commands[i]; i++)
        fprintf(to, "  %-12s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fprintf(to, "\nrhrun COMMAND --help says more. Exit status: 0 done, 1 the job failed, 2 usage\n"
                "or invalid spec, 3 infrastructure, 4 held by another run, 10 plan --exit-code:\n"
                "work to do, 130/143 interrupted.\n");
}
