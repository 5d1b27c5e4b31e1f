/* cli's private parts: options, commands, and what several commands share. */
#ifndef RHRUN_CLI_INTERNAL_H
#define RHRUN_CLI_INTERNAL_H

#include "rhrun/cli.h"
#include "rhrun/journal.h"
#include "rhrun/plan.h"
#include "rhrun/run.h"
#include "rhrun/step.h"
#include "rhrun/spec.h"

/* One option; `id` is what the parsed values are asked by. */
enum cli_option_id {
    OPT_HELP, OPT_VERSION, OPT_JSON, OPT_QUIET, OPT_VERBOSE, OPT_NO_COLOR, OPT_NO_PREFIX, OPT_YES,
    OPT_SET, OPT_PARAM, OPT_ON, OPT_AGAIN, OPT_FRESH, OPT_FROM, OPT_DETACH, OPT_DETACHED_FD, OPT_TAKE_OVER, OPT_REPLACE,
    OPT_SCHEMA, OPT_EXIT_CODE, OPT_OFFLINE, OPT_OUTPUT, OPT_FOLLOW, OPT_RANK, OPT_STEP, OPT_NODE, OPT_RUN, OPT_LIMIT,
    OPT_EVENTS, OPT_COUNT
};
struct cli_option {
    enum cli_option_id id;
    char letter;         /* 0 = none */
    const char *name;    /* without -- */
    const char *value;   /* metavar, NULL = a switch */
    const char *help;
    bool many;           /* may be given several times */
    bool hidden;
};

struct cli {
    const struct cli_command *command;
    const char *program;
    bool given[OPT_COUNT];
    const char *value[OPT_COUNT];      /* the last one */
    const char **values[OPT_COUNT];    /* all, for `many` */
    size_t value_count[OPT_COUNT];
    const char **words;                /* positional */
    size_t word_count;
    const char *const *args;           /* behind -- */
    size_t arg_count;
    bool has_args;
    struct arena *arena;
    bool color_out, color_err;
    int argc;
    char **argv;
};

struct cli_command {
    const char *name;
    const char *usage;   /* behind the name: "SPEC [-- ARG...]" */
    const char *summary; /* one line */
    const char *detail;  /* paragraphs for `rhrun NAME --help`, or NULL */
    const enum cli_option_id *options; /* OPT_COUNT-terminated; the common ones need not be named */
    size_t words_min, words_max;
    bool takes_args;     /* allows `-- ARG...` */
    int (*run)(struct cli *c);
};
extern const struct cli_command *const cli_commands[]; /* NULL-terminated */
extern const struct cli_option cli_options[];
extern const size_t cli_option_count;

/* parse.c */
int cli_parse(struct cli *c, int argc, char **argv, struct error *err);
const struct cli_option *cli_option_find(enum cli_option_id id);
bool cli_command_has(const struct cli_command *cmd, enum cli_option_id id);
void cli_help(const struct cli *c, const struct cli_command *cmd, FILE *to);

/* common.c */
void cli_print_error(const struct cli *c, const struct error *err);  /* "rhrun: text" and "hint: ..." on stderr */
void cli_print_diagnostics(const struct cli *c, const struct diagnostics *d);
/* Loads a spec with the command line's overrides; prints faults. 0, or the exit status 2. */
int cli_load_spec(struct cli *c, const char *path, struct spec **ret);
char *cli_owner_name(struct arena *arena); /* user@host */
void cli_time(uint64_t wall, char ret[32]);            /* "2026-11-20 14:02:33" local */
void cli_duration(uint64_t ms, char ret[32]);          /* "340 ms", "12.3 s", "3 m 20 s", "2 h 5 m" */
/* The run that a word means: id, unique prefix, "last", or a spec file. Opens its journal for reading.
 * ret_run points into the journal's state. */
int cli_find_run(struct cli *c, const char *word, struct journal **ret_journal, const struct state_run **ret_run, struct error *err);
int cli_find_job(struct cli *c, const char *spec_path, struct journal **ret_journal, struct error *err);
/* Compiles the plan of a spec; prints faults. */
int cli_plan(struct cli *c, struct spec *spec, struct plan **ret);
/* Is the latest run of the variant done with this plan, so that nothing is to be done? */
const struct state_run *cli_done_run(const struct state *state, const struct plan *plan);
void cli_run_options(struct cli *c, struct run_options *o); /* from options and test hooks in the environment */

/* show_run.c: what a run prints while it runs */
struct cli_printer;
enum cli_printer_kind { PRINTER_PLAIN, PRINTER_JSON, PRINTER_LIVE };
struct cli_printer *cli_printer_create(struct cli *c, enum cli_printer_kind kind, struct loop *loop, const struct plan *plan);
void cli_printer_set_run(struct cli_printer *p, struct run *r);
struct run_observer cli_printer_observer(struct cli_printer *p);
void cli_printer_mute(struct cli_printer *p); /* the terminal is gone */
void cli_printer_end(struct cli_printer *p);  /* final state on the screen, cursor restored */
void cli_printer_destroy(struct cli_printer *p);
/* Writes one output line with its prefix (or raw), to stdout or stderr. */
void cli_print_line(const struct cli *c, const struct plan *plan, const struct run_line *line);

/* live.c: the live view on a terminal */
struct live;
struct live *live_create(struct cli *c, struct loop *loop, const struct plan *plan);
void live_set_run(struct live *l, struct run *r);
void live_changed(struct live *l);
void live_print_above(struct live *l, void (*print)(void *arg), void *arg); /* clears the view, prints, redraws */
void live_end(struct live *l);
void live_destroy(struct live *l);

/* logs.c: printing what is in the log files */
struct cli_logs {
    const char *step;      /* NULL = the launch, or everything with all */
    bool all;
    bool has_rank;
    uint32_t rank;
    bool has_node;
    uint32_t node;
    bool follow, json, raw;
};
int cli_logs_print(struct cli *c, struct journal *j, const char *run, const struct cli_logs *what, int *ret_status, struct error *err);

#endif
