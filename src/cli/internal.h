/* cli's private parts: options, commands, and what several commands share. */
#ifndef RHRUN_CLI_INTERNAL_H
#define RHRUN_CLI_INTERNAL_H

#include "rhrun/cli.h"
#include "rhrun/journal.h"
#include "rhrun/lock.h"
#include "rhrun/offers.h"
#include "rhrun/plan.h"
#include "rhrun/run.h"
#include "rhrun/step.h"
#include "rhrun/spec.h"
#include "rhrun/tree.h"

/* One option; its parsed values are looked up by `id`. */
enum cli_option_id {
    OPT_HELP, OPT_VERSION, OPT_JSON, OPT_QUIET, OPT_VERBOSE, OPT_NO_COLOR, OPT_NO_PREFIX, OPT_YES,
    OPT_SET, OPT_PARAM, OPT_ON, OPT_AGAIN, OPT_FRESH, OPT_FROM, OPT_DETACH, OPT_DETACHED_FD, OPT_TAKE_OVER, OPT_REPLACE,
    OPT_SCHEMA, OPT_EXIT_CODE, OPT_OFFLINE, OPT_OUTPUT, OPT_FOLLOW, OPT_RANK, OPT_STEP, OPT_NODE, OPT_LIMIT,
    OPT_EVENTS, OPT_POINT, OPT_POINTS, OPT_FILES, OPT_ALL, OPT_FROM_START, OPT_RESUME, OPT_TRUST,
    OPT_PARALLEL, OPT_DRY_RUN, OPT_REQUIRE_CLEAN, OPT_AT, OPT_PRUNE, OPT_BRANCH, OPT_EVERY, OPT_ADOPT,
    OPT_SPOT, OPT_REGION, OPT_PROVIDER, OPT_REFRESH, OPT_RATE, OPT_CSV, OPT_LOCK, OPT_LOCKED,
    OPT_STRICT, OPT_BUNDLE, OPT_WATCH, OPT_TAIL, OPT_SINCE, OPT_TIMESTAMPS, OPT_GREP,
    OPT_HOSTS, OPT_TORCHRUN, OPT_FUNCTION, OPT_OLDER_THAN, OPT_COUNT
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
    const char *const *args;           /* after -- */
    size_t arg_count;
    bool has_args;
    struct arena *arena;
    struct error *told;                /* the last error that was printed */
    const char *error_lines;           /* more whole lines of the error that is printed last; NULL = none */
    bool color_out, color_err;
    uint32_t alternative;              /* the alternative of any_of that specs are read with; 0 = none was rented */
    struct spec_checker *checker;      /* NULL: the command reads one spec, or a few */
    const char *expected_plan;         /* cli_plan refuses a plan with another hash; NULL: any plan will do */
    int argc;
    char **argv;
    const struct cli_build *build;
};

struct cli_command {
    const char *name;
    const char *usage;   /* after the name: "SPEC [-- ARG...]" */
    const char *summary; /* one line */
    const char *detail;  /* paragraphs for `rhrun NAME --help`, or NULL */
    const enum cli_option_id *options; /* OPT_COUNT-terminated, without the common ones */
    size_t words_min, words_max;
    bool takes_args;     /* `-- ARG...` is allowed */
    int (*run)(struct cli *c);
};
extern const struct cli_command *const cli_commands[]; /* NULL-terminated */
extern const struct cli_option cli_options[];
extern const size_t cli_option_count;

/* In the folder of a run: marks that gc has removed its logs. */
#define CLI_LOGS_GONE "logs-removed"

/* parse.c */
int cli_parse(struct cli *c, int argc, char **argv, struct error *err);
const struct cli_option *cli_option_find(enum cli_option_id id);
const struct cli_command *cli_command_find(const char *name); /* also by an alias ("ps"); NULL: there is none */
bool cli_command_has(const struct cli_command *cmd, enum cli_option_id id);
void cli_help(const struct cli *c, const struct cli_command *cmd, FILE *to);

/* complete.c: candidates for the last word of a command line, as lines of candidate, TAB, description; or ":specs",
 * ":files", ":dirs" for files that the shell finds itself. words: the words after `rhrun`; the last one is being
 * typed. */
void cli_complete(struct arena *arena, const char *const *words, size_t count, struct buf *ret);
/* What the usage says about the word with this number, as bits of kinds; 0: the usage has no such word. A literal word
 * of the usage ("torchrun") goes to `literal`, which may be NULL. */
unsigned cli_usage_kinds(const char *usage, size_t at, void (*literal)(void *arg, const char *word), void *arg);

/* version.c: prints the program's version and those of its libraries. 0 */
int cli_version(const struct cli *c);

/* common.c */
void cli_print_error(const struct cli *c, const struct error *err);  /* "rhrun: text" and "hint: ..." on stderr */
const char *cli_quoted(struct cli *c, const char *word); /* for the shell, in a hint; in c->arena */
int cli_fail(const struct cli *c, const struct error *err); /* prints it; returns the exit status */
void cli_print_diagnostics(const struct cli *c, const struct diagnostics *d);
struct spec_overrides cli_overrides(struct cli *c); /* --set, -p, --on and the words after -- */
void cli_add_value(struct cli *c, enum cli_option_id id, const char *value); /* as if the option were given again */
/* The overrides of an earlier run become those of the command; overrides given with the command take precedence. */
void cli_take_overrides(struct cli *c, const struct state_run *run);
/* Loads a spec with the command line's overrides; prints faults. 0, or the exit status 2. With any_of: the alternative
 * that was rented, if the job has a cluster. */
int cli_load_spec(struct cli *c, const char *path, struct spec **ret);
/* With any_of, if nothing is rented: the alternative that the job's open run, or its latest run, was planned with.
 * Otherwise finished work would not be recognized. */
int cli_load_planned_spec(struct cli *c, const char *path, struct spec **ret);
/* 0 if no ssh configuration that the hosts name needs --trust; else -1, with a hint. `offline`: another option to
 * suggest. */
int cli_check_trust(const struct cli *c, const struct roster *roster, bool offline, struct error *err);
/* adopt.c: --adopt. 0, or the exit status. */
int cli_adopt(struct cli *c, const char *spec_path);
char *cli_owner_name(struct arena *arena); /* user@host */
/* The owner label of machines at a provider: lower case, digits and "-", which every provider accepts in a label. */
const char *cli_rent_owner(struct arena *arena);
void cli_time(uint64_t wall, char ret[32]);            /* "2026-11-20 14:02:33" local */
void cli_duration(uint64_t ms, char ret[32]);          /* "340 ms", "12.3 s", "3 m 20 s", "2 h 5 m" */
struct sources;
/* Finds the offers for a spec that rents. If the request has faults, prints them and returns the exit status. */
int cli_offers(struct cli *c, const struct spec *spec, struct rent_offers *ret);
/* The same for a plan. Providers without credentials are left out, as at renting; no provider is asked. */
const struct plan_rent *cli_plan_rent(struct cli *c, struct rent_offers *o);
/* Compiles the plan of a spec; prints faults. 0, or an exit status. sources NULL: for a plan that starts nothing;
 * its keys are not those of a run. */
int cli_plan(struct cli *c, struct spec *spec, const struct roster *roster, const struct sources *sources,
             struct plan **ret);
/* The latest run of the variant if it is done with this plan, so that nothing is to be done; else NULL. */
const struct state_run *cli_done_run(const struct state *state, const struct plan *plan);
struct session *cli_session(struct cli *c, struct loop *loop, struct journal *journal); /* journal: or NULL */
void cli_run_options(struct cli *c, struct run_options *o); /* from options and test hooks in the environment */

/* Removes containers of the job with this id on its hosts: all, with a line that counts them; or those that end with
 * the run (down: always). Prints those that could not be removed. 0, or exit status 3. */
int cli_containers_down(struct cli *c, const struct roster *roster, const char *job, bool all);
/* limits.c: checks that this process has enough descriptors and threads for an event loop and one node. Call it before
 * loop_create. */
int cli_check_limits(struct error *err);

/* locks.c. What a run is made of, for its RUN_OPENED; in the command's arena. store: has the plan's trees, or NULL;
 * rented: the cluster's ledger, or NULL. */
struct fleet_ledger;
const char *cli_made_of(struct cli *c, const struct plan *plan, struct tree_store *store,
                        const struct fleet_ledger *rented);
/* Prints the lock of a run. 0, or an exit status. */
int cli_show_lock(struct cli *c, const char *word);
/* run --lock: writes the lock of the job's latest run beside the spec. 0, or an exit status. */
int cli_write_lock(struct cli *c, const struct spec *spec);
/* run --locked: checks that the sources have the ids of the lock. 0, or exit status 2 after printing the
 * differences. */
int cli_check_trees(struct cli *c, const struct spec *spec, const struct sources *s);

/* lock_sources.c: as cli_sources, for a spec that is a lock: from the snapshot stores, or from the folders that the
 * spec names if these still have the same files. */
int cli_lock_sources(struct cli *c, const struct spec *spec, const struct roster *roster, struct sources **ret);
/* The trees of a lock, in its order, and the store that has them all; the caller closes it. */
int cli_lock_trees(struct cli *c, const struct doc_node *lock, struct tree_store **ret_store, const struct tree ***ret,
                   size_t *ret_count, struct error *err);
/* bundle.c: show RUN --bundle FILE; and for rerun: unpacks a bundle and returns the path of its lock. */
int cli_write_bundle(struct cli *c, const char *word, const char *path);
int cli_read_bundle(struct cli *c, const char *path, const char **ret_lock, struct error *err);
/* sources.c, for cli_sources: scans the files that are here. */
int cli_scan_sources(struct cli *c, const struct spec *spec, const struct roster *roster, bool stored,
                     struct sources **ret, struct error *err);

/* cmd_rerun.c, for a spec that is a lock. Before anything starts: prints what cannot be as it was. 0, or exit status 2
 * with --strict. After the run: prints how it differs from the run that was repeated. */
int cli_rerun_check(struct cli *c, const struct spec *spec, const struct roster *roster, struct plan *plan);
void cli_rerun_compare(struct cli *c, const struct spec *spec);
extern const struct cli_command cmd_run_command, cmd_plan_command;

/* find_run.c. Which runs of a spec file -p, --set and the words after -- choose: the variant that `run` would take with
 * these params and words, if any are given, started with each --set. */
struct cli_choice {
    const char *spec_path;
    const char *variant;     /* NULL: any */
    const char *const *sets; /* each was given to the run too */
    size_t set_count;
};
/* The run that a word means: an id, a unique prefix, "last", or the name of a job or a spec file: then its latest run
 * that the options choose. Opens its journal for reading. ret_run points into the journal's state. */
int cli_find_run(struct cli *c, const char *word, struct journal **ret_journal, const struct state_run **ret_run,
                 struct error *err);
/* The same, for a command that continues a run by its spec: if the word names a run, -p and --set do not choose; they
 * replace the options of that run. */
int cli_find_run_over(struct cli *c, const char *word, struct journal **ret_journal, const struct state_run **ret_run,
                      struct error *err);
/* The job that a spec file or a job's name means, and which of its runs the options choose. */
int cli_find_history(struct cli *c, const char *word, struct journal **ret_journal, struct cli_choice *ret,
                     struct error *err);
int cli_find_job(struct cli *c, const char *spec_path, struct journal **ret_journal, struct cli_choice *ret,
                 struct error *err);
bool cli_is_spec_word(const char *word); /* a spec file, not a run */
bool cli_chosen(const struct cli_choice *choice, const struct state_run *run);
/* The error that no run matches the options, with a list of the existing runs. */
int cli_none_chosen(struct cli *c, const struct cli_choice *choice, struct journal *j, struct error *err);
bool cli_chooses(const struct cli *c);       /* whether -p, --set or -- was given */
int cli_nothing_to_choose(struct error *err); /* the error that options were given without a spec file */
/* The options that a run was started with, as words for the shell; "" = none. */
const char *cli_options_of(struct cli *c, const struct state_run *run);
const char *cli_other_options_of(struct cli *c, const struct state_run *run); /* without its params */
/* "running", "unfinished", or its status */
const char *cli_run_word(const struct journal *j, const struct state_run *run);

/* sources.c: the trees that a spec's plan reads */
struct source_tree {
    const char *name;   /* "workdir", "files-1", the name of a copy's item, "restore of outputs-1" */
    const char *from;   /* path here, or the repository's URL */
    const char *commit; /* of a repository, else NULL */
    const char *to;     /* node path as written; NULL = the working directory */
    const struct tree *tree;
    const char *notes;  /* of the scan: one per line, "" = none */
};
struct sources {
    struct plan_sources plan;
    struct tree_store *store; /* of the job; NULL = there are no files to send */
    struct source_tree *items;
    size_t count;
    bool stored;              /* contents are in the store */
    const char *inward;       /* an output whose files go into the workdir itself, or NULL */
    const struct spec *spec;  /* private, as is the arena */
    struct arena *arena;
};
struct sources *sources_new(struct cli *c, const struct spec *spec, bool stored); /* for sources.c and lock_sources.c */
/* stored: contents are kept in the job's store, from which nodes get them; else only ids are known. Prints faults; 0,
 * or an exit status. The caller holds the store while it runs a plan of these sources. */
int cli_sources(struct cli *c, const struct spec *spec, const struct roster *roster, bool stored, struct sources **ret);
void cli_sources_close(struct sources *s); /* takes NULL */

/* patience.c: shows the text on the terminal if the work between the two calls takes longer than a moment */
struct patience;
struct patience *patience_begin(const struct cli *c, const char *text); /* NULL: there is no terminal to show it on */
/* The counters of a scan of files, shown after the text as the scan goes on. Takes NULL. */
struct tree_progress *patience_progress(struct patience *p);
void patience_end(struct patience *p);                                  /* takes NULL */

/* detached.c. Starts the same command line again, without a terminal; returns its exit status. */
int cli_spawn_detached(struct cli *c);
/* Starts a controller without a terminal that continues an open run, by its spec and the overrides of `c`. 0 once it
 * has begun; else its exit status, after its error was printed. */
int cli_resume_detached(const struct cli *c, const char *run, const char *spec_path, pid_t *ret_pid);

/* show_files.c: the files in the sources */
void cli_size(uint64_t bytes, char ret[32]); /* "0 bytes", "12.3 kB", "1.4 GB" */
/* A path; if it has characters that a terminal or a line reader should not get, as a quoted string with escapes. */
void cli_put_path(struct buf *b, const char *path);
/* Warns of a large working directory, of one that outputs go to, and of files that the scans left out. */
void cli_warn_sources(const struct cli *c, const struct sources *s);
void cli_format_files(const struct sources *s, bool json, struct buf *ret); /* plan --files */

/* out.c: text to stdout and stderr in few writes, in order. Text waits until the loop's next turn, and a thread writes
 * it: a reader that is slow or has stopped does not hold up the loop. Of unread text 4 MiB stay in memory; the rest is
 * in an unnamed file in TMPDIR (/var/tmp). */
struct out;
struct out *out_create(struct loop *loop); /* loop may be NULL: no thread; only out_flush and full buffers write */
void out_put(struct out *o, int fd, const char *text, size_t len);
/* A part of a line. If both descriptors go to one place, text from another source gets a line end first. */
void out_put_open(struct out *o, int fd, const char *text, size_t len);
void out_printf(struct out *o, int fd, const char *fmt, ...) FORMAT(3, 4);
void out_flush(struct out *o);   /* hands over all text so far; without a loop: writes it */
bool out_drain(struct out *o);   /* until all is written; false: the reader has taken nothing for 2 s */
void out_finish(struct out *o);  /* the same, without a time limit; Ctrl-C, TERM and HUP then end the program */
uint64_t out_mark(const struct out *o);          /* a mark after all text so far */
bool out_passed(struct out *o, uint64_t mark);   /* all text before the mark is written */
void out_destroy(struct out *o); /* call out_finish first; takes NULL */

/* names.c: "n3, n5-n28 and 4 more": at most `most` names or ranges */
void cli_put_names(struct buf *b, const char *const *names, size_t count, size_t most);
/* After an error about a node that does not exist: which nodes exist, at least one. */
void cli_hint_nodes(struct error *err, const char *const *names, uint32_t count);
void cli_put_numbers(struct buf *b, const uint32_t *numbers, size_t count); /* "0-28,30-31"; they ascend */

/* faults.c: unreachable nodes, by cause, the cause with the most nodes first */
struct cli_fault {
    const char *cause, *hint; /* hint: of the first node, "" = none */
    const char **names;
    size_t count;
    uint32_t first; /* node */
};
size_t cli_faults(const struct run *r, const struct plan *plan, struct arena *arena, struct cli_fault **ret);
void cli_put_fault(struct buf *b, const struct cli_fault *f, uint32_t nodes); /* "2 of 8 nodes: no answer: n3, n5" */
/* If the error is about an unreachable node and there are more of them, makes it tell of all; lines that do not fit go
 * to c->error_lines. */
void cli_group_faults(struct cli *c, const struct run *r, const struct plan *plan, struct error *err);

/* progress.c: the latest line of each stream of each worker that a carriage return ended. */
struct progress {
    const struct plan_step *step;
    const char *node_name;
    uint32_t node, rank;
    uint8_t stream;
    bool active;       /* there is such a line, and nothing has ended it yet */
    bool waits;        /* it is not printed yet, but will be within a second */
    bool drawn;        /* it is not printed yet: the live view shows it until something ends it */
    uint64_t shown_ms; /* when one was last printed, 0 = never */
    uint64_t serial;   /* number of this stream's last line among all lines, from 1 */
    uint64_t wall_ms;
    struct buf text;
    struct buf prefix; /* of its lines, once it is made */
    struct trace_source *traced; /* of traces.c */
};
struct progress_table {
    struct progress **items; /* by step, rank, node, stream */
    size_t count;
    struct progress *last; /* the latest result of a search */
    uint64_t serial;       /* lines seen */
};
struct progress *progress_of(struct progress_table *t, const struct run_line *line);
void progress_end(struct progress *s); /* the line is over, and is not printed */
void progress_clear(struct progress_table *t);
struct speed { /* of a step's transfer */
    uint64_t at_ms, bytes;
    double per_second;
};
/* "about 12 s left", "about 2 h 05 m left" */
void cli_left(uint64_t ms, char ret[48]);
/* Bytes per second, called now and then with the total so far; 0 = not known yet. */
double speed_of(struct speed *s, uint64_t bytes);

/* traces.c: an error that many ranks share is shown once */
struct traces;
struct traces_sink {
    uint64_t (*put)(void *arg, struct progress *of, const struct watch_line *line); /* prints it; returns its serial */
    void (*name)(void *arg, const struct progress *of, struct buf *b); /* the worker's name, as before its lines */
    void (*say)(void *arg, const struct buf *line);
    void *arg;
};
struct traces *traces_create(const struct traces_sink *sink);
/* True: the line is held, and printed later if needed. For stderr lines of a launch's workers. */
bool traces_take(struct traces *t, struct progress *of, const struct watch_line *line);
bool traces_look(struct traces *t);       /* prints what is due; true: call it again soon */
bool traces_hold(const struct traces *t); /* whether anything may still be printed */
void traces_end(struct traces *t);        /* prints all that is held, and names the workers that ended alike */
void traces_forget(struct traces *t);     /* a new generation: none of it was shown. Before progress_clear */
/* Whether that worker's latest traceback, or one like it, is still among the latest lines; serial: that of the last
 * line. */
bool traces_has_shown(const struct traces *t, const char *step, const char *node_name, uint32_t rank, uint64_t serial);
void traces_destroy(struct traces *t);    /* takes NULL; call it before progress_clear */

/* workers.c: how lines name their worker */
/* A worker of the launch: its role, and its number in the role. role NULL: the step is no launch. */
struct cli_worker {
    const char *role;
    uint32_t role_rank;
};
/* The roles of a launch, from the event of its generation. */
enum { CLI_ROLES_MAX = 64 };
struct cli_roles {
    struct cli_role { /* its workers: numbers first to first + count - 1 */
        char name[64];
        uint32_t first, count;
    } items[CLI_ROLES_MAX];
    size_t count;
};
void cli_roles_take(struct cli_roles *ret, const char *bind_json); /* of event_started */
struct cli_worker cli_roles_worker(const struct cli_roles *roles, uint32_t worker);
struct cli_worker cli_worker_of(const struct plan *plan, const struct plan_step *step, uint32_t rank);
bool cli_is_work(const struct plan_step *step); /* whether its lines are the job's own: of the launch, or of a point */
/* "default[3]@gpu1:" or "prepare@gpu1:", coloured by rank. */
void cli_line_prefix(struct buf *b, bool color, const struct cli_worker *worker, const char *step,
                     const char *node_name, uint32_t rank);

/* show_json.c: members of an object, after a comma if one is due */
void cli_json_text(struct buf *b, const char *key, const char *text, size_t len);
void cli_json_string(struct buf *b, const char *key, const char *value); /* NULL: null */
/* Lines of --json that are not events of the journal (schema/events.schema.json). */
void cli_json_output(struct buf *b, const char *run, const char *step, const char *attempt, uint32_t node,
                     const struct cli_worker *worker, const struct watch_line *line);
void cli_json_progress(struct buf *b, const char *run, const struct plan_step *step, const struct run_counts *n,
                       const struct run_transfer *t);
void cli_json_port(struct buf *b, const char *run, const struct run_port *port);
/* What a command prints with --json when it failed: {"error", "code", "hint"}. */
void cli_json_error(struct buf *b, const struct error *err);
/* The last line of `run --json` and `attach --json`. res may be NULL; err NULL or ERROR_NONE: no error. */
void cli_json_result(struct buf *b, const char *run, const char *status, int exit_status, const struct error *err,
                     const struct run_result *res);

/* printer.c: what a run prints while it runs: lines, the live view or NDJSON, see printer.h. printer.c chooses
 * which. */
struct cli_printer;
/* detach: called when d is pressed in the live view. */
struct cli_printer *cli_printer_create(struct cli *c, struct loop *loop, const struct plan *plan,
                                       void (*detach)(void *arg), void *detach_arg);
void cli_printer_set_run(struct cli_printer *p, struct run *r);
struct run_observer cli_printer_observer(struct cli_printer *p);
/* From here on, records how far the output was shown, for a later command that shows the rest. */
void cli_printer_keep_place(struct cli_printer *p, struct journal *journal);
void cli_printer_background(struct cli_printer *p); /* plain lines without the workers' output from here on */
void cli_printer_stopping(struct cli_printer *p);   /* a signal came: prints that, and what the next one does */
/* Final state on the screen, the terminal restored, everything written. */
enum cli_printer_end { PRINTER_SUMMARY, PRINTER_DETACHED };
void cli_printer_end(struct cli_printer *p, enum cli_printer_end how);
/* Whether the last printed lines hold the end of that worker's output, so that it need not be repeated. */
bool cli_printer_has_shown(const struct cli_printer *p, const char *step, const char *node_name, uint32_t rank);
void cli_printer_destroy(struct cli_printer *p);

/* show_plain.c: rhrun's own lines, without a line end; nothing if there is nothing to say */
/* show_rules.c. A rule that matched, by its text if the plan has it (NULL: no plan at hand). */
/* "launch on gpu-3: 8.8 MB of its output were dropped (the node's disk was full)" */
void plain_dropped(struct buf *b, const char *step, const char *host, uint64_t bytes, const char *by);
/* a line, if there was any */
void plain_warn_dropped(struct buf *b, const struct plan *plan, const struct event *e);
void plain_rule(struct buf *b, const struct plan *plan, const struct event_rule *rule);
struct shown_metrics;
void shown_metrics_take(struct shown_metrics **m, const struct event_metrics *values);
void shown_metrics_put(const struct shown_metrics *m, struct buf *b); /* "loss 0.25, speed 312" */
void shown_metrics_free(struct shown_metrics *m);
void status_rules(const struct state_run *run, struct buf *b);
void status_metrics(const struct state_run *run, struct buf *b); /* "loss 0.25": of the lowest ranks */
void status_rules_json(const struct state_run *run, struct buf *b); /* ,"rules":[...],"metrics":[...] */
void plain_event(struct buf *b, const struct plan *plan, const struct event *e, uint32_t restarts);
uint32_t cli_step_workers(const struct plan *plan, const struct plan_step *step); /* started by a launch step */
void plain_step(struct buf *b, const struct plan *plan, const struct plan_step *step, const struct run_counts *n,
                const uint8_t *outcomes);
void plain_transfer(struct buf *b, const struct run_transfer *t); /* "12.3 of 90.0 MB, 120 of 9000 files" */
bool plain_step_failed(enum outcome o); /* it failed by itself, and was not stopped because another step failed */

/* show_ports.c */
struct canvas;
/* "port 6006 of gpu1 (tensorboard): 127.0.0.1:6006"; nothing if there is nothing to say */
void plain_port(struct buf *b, const struct run_port *p);
/* On at most `lines` lines of the live view; returns how many. v NULL: draws none. */
unsigned live_ports(struct canvas *v, const struct run *r, unsigned lines);
/* For a run with a controller: lines that begin with two blanks, or a member of an object after a comma. */
void status_ports(const struct journal *j, const struct state_run *run, bool json, struct buf *b);

/* By options and descriptors: a live view needs a terminal in the foreground; stdout goes there too, or to a file. */
bool cli_has_view(const struct cli *c);

/* live.c: the live view on a terminal */
struct live;
struct live *live_create(struct cli *c, struct loop *loop, const struct plan *plan,
                         const struct progress_table *progress,
                         const uint8_t *outcomes /* [step * node_count + node], enum outcome of the last attempt */);
void live_on_detach(struct live *l, void (*fn)(void *arg), void *arg);
void live_set_run(struct live *l, struct run *r);
void live_heard(struct live *l, const struct run_line *line); /* each line, whether it is printed later or not */
void live_above(struct live *l, const char *text, size_t len); /* whole lines, written above the view with its next
                                                                  frame */
bool live_flush(struct live *l); /* draws a frame now; false: the terminal accepts none */
void live_status(struct live *l, const char *text);            /* a text below the view, in place of the keys */
void live_end(struct live *l, bool summary);                   /* the view stays on the screen, or is removed */
void live_destroy(struct live *l);                             /* takes NULL */

/* live_attempts.c: the running attempts, in the live view */
struct live_attempts;
struct canvas;
struct live_attempts *live_attempts_create(const struct plan *plan, size_t steps); /* of the first `steps` steps */
void live_attempts_heard(struct live_attempts *a, const struct run_line *line);
size_t live_attempts_look(struct live_attempts *a, const struct run *r); /* how many deserve a line now */
/* Draws them on at most `lines` lines; the last line names the attempts without a line of their own. */
void live_attempts_draw(const struct live_attempts *a, struct canvas *v, size_t lines);
void live_attempts_destroy(struct live_attempts *a);

/* live_metrics.c: the last values of the spec's metrics, in at most `most` lines of the view. A number is never cut;
 * values that do not fit are counted. Returns the lines that it needs, 0 = there are no values; v NULL: draws none. */
unsigned live_metrics(struct canvas *v, const struct run *r, const struct spec *spec, unsigned columns, unsigned lines);

/* live_points.c: the points of a sweep on at most `most` lines; returns how many. v NULL: draws none. */
struct canvas;
unsigned live_points(struct canvas *v, const struct run *r, const struct plan *plan, unsigned lines, bool final);

/* canvas.c: lines of text that fit a width */
struct canvas {
    struct buf text;     /* lines with escape sequences, each ended by \n */
    unsigned columns;    /* a line has fewer */
    unsigned used;       /* columns of the present line */
    unsigned *widths;    /* of the finished lines */
    unsigned lines, cap;
    bool color, utf8;
};
void canvas_clear(struct canvas *v, unsigned columns);
void canvas_put(struct canvas *v, const char *style, const char *text, size_t len); /* style: "1", "31", "" */
void canvas_printf(struct canvas *v, const char *style, const char *fmt, ...) FORMAT(3, 4);
void canvas_time(struct canvas *v, const char *style, uint64_t ms); /* stable: tenths only while readable */
/* cut and padded to a width */
void canvas_field(struct canvas *v, const char *style, const char *text, unsigned width);
unsigned canvas_left(const struct canvas *v); /* free columns on this line */
void canvas_end_line(struct canvas *v);
/* One write to the terminal: `above`, which is emptied, and `now` over the shown frame. `now` and `shown` swap. */
void canvas_show(struct canvas *now, struct canvas *shown, struct buf *above);
void canvas_free(struct canvas *v);
unsigned text_width(const char *text, size_t len); /* columns on a terminal */
/* A worker's line for the screen: colours stay; other escape sequences and control characters are removed. */
void text_for_screen(struct buf *b, const char *text, size_t len, bool color);

/* screen.c: the same for text in pieces. Line ends stay, and no colour extends past one. Zero-filled at first except
 * for color and returns. */
struct screen {
    enum { SCREEN_TEXT, SCREEN_ESC, SCREEN_CSI, SCREEN_STRING } at;
    bool color;   /* colours pass */
    bool returns; /* carriage returns pass too */
    bool styled;  /* a colour is on */
    bool odd;     /* the sequence is no colour, whatever its last byte */
    unsigned char held[64]; /* the beginning of a character, or of a colour */
    size_t held_len, wanted;
};
void screen_put(struct screen *s, struct buf *b, const char *text, size_t len);
void screen_end(struct screen *s, struct buf *b); /* turns off a colour that is on */

/* term.c: the terminal's modes */
struct term;
struct term *term_create(struct loop *loop, void (*key)(void *arg, char c), void (*resumed)(void *arg), void *arg);
void term_acquire(struct term *t); /* a second call does nothing */
void term_release(struct term *t);
bool term_has_keys(const struct term *t);
void term_destroy(struct term *t); /* takes NULL */
bool term_foreground(void);
bool term_utf8(void); /* by the locale */
void term_size(unsigned *ret_columns, unsigned *ret_rows);

/* shown.c: how far a person has seen the workers' output of a run, stored beside its logs, for a command that shows the
 * rest */
struct shown_place { /* in an attempt's log file: all lines up to `to` were shown, except lines without an end; see
                        run_observer */
    char attempt[WIRE_ID_LEN + 1];
    uint64_t from, to;
};
struct shown {
    uint64_t events;       /* seq of the last event that was shown */
    uint64_t lines, at_ms; /* the number of shown lines, and when the last one was shown */
    struct shown_place *places;
    size_t count;
    char *path;            /* private, as are the following fields */
    uint32_t *slots;       /* of places, by attempt; 0 = free */
    size_t slot_count;     /* a power of two */
    struct buf next, saved, before; /* to be written, in the file, and in the file before that */
    uint64_t saved_ms, lines_saved;
};
/* from_start: as if nothing had been shown yet. */
struct shown *shown_open(const struct journal *j, const char *run, bool from_start);
void shown_close(struct shown *s); /* does not save; takes NULL */
const struct shown_place *shown_find(const struct shown *s, const char *attempt); /* NULL: nothing of it was shown */
void shown_set(struct shown *s, const char *attempt, uint64_t from, uint64_t to);
void shown_freeze(struct shown *s); /* shown_save writes the present state, once that output is on the screen */
void shown_save(struct shown *s);
uint64_t shown_wait_ms(const struct shown *s); /* until the next save, if something new was shown */
/* In place of saving, when the terminal or reader is gone: goes back by a second, as output on its way is lost. */
void shown_step_back(struct shown *s);
bool shown_hung_up(void);    /* whether the terminal or reader is gone */
bool shown_to_nobody(void);  /* stdout goes to /dev/null */

/* logs_tail.c: the last lines, at most a given number */
struct logs_tail;
struct logs_tail *logs_tail_create(size_t size);
void logs_tail_add(struct logs_tail *t, int fd, const struct buf *text);
uint64_t logs_tail_seen(const struct logs_tail *t); /* the number of lines added */
void logs_tail_put(const struct logs_tail *t, struct out *out);
void logs_tail_destroy(struct logs_tail *t); /* takes NULL */

/* logs.c: prints the contents of log files */
struct cli_points;
struct cli_logs {
    const char *step;      /* NULL = the launch; with all, everything */
    const struct cli_points *points; /* of a sweep: NULL = all; else only these; a point that the run kept is read in
                                        the run that did it */
    bool all;
    bool has_rank;
    uint32_t rank;
    bool has_node;
    uint32_t node;
    struct regex *grep;    /* only matching lines; NULL: all */
    uint64_t since_ms;     /* only lines from then on, by the nodes' clocks */
    bool timestamps, bare; /* each line begins with its time; workers' lines have no prefix */
    size_t tail;           /* only that many of the last lines that exist at the start; 0: all */
    bool tail_by_itself;   /* the limit is a default: a line says so */
    bool follow;           /* until the run ends; SIGINT and SIGTERM end only the following */
    bool raw;              /* the bytes, not lines */
    bool json;
    bool events;           /* also the controller's actions and notes */
    bool on;               /* starts where the last such command stopped, and records how far this one goes */
    bool from_start;       /* with `on`: from the beginning all the same */
    /* Called when the run has no controller any more. 0: there is one again; else the exit status, after the reason was
     * printed. NULL: that is an error. */
    int (*alone)(void *arg);
    void *alone_arg;
};
struct cli_logs_end {
    int exit_status;       /* of the run, once it has ended; or the result of `alone` */
    int interrupted;       /* the signal that ended it, or 0 */
    bool left_alone;       /* `alone` ended it */
};
int cli_logs_print(struct cli *c, struct journal *j, const char *run, const struct cli_logs *what,
                   struct cli_logs_end *ret, struct error *err);

/* ---- alternatives.c: cluster.any_of ---- */
/* The alternative that was rented, or that the latest run was planned with; 0: none. */
uint32_t alternative_of_cluster(struct cli *c, const struct spec *spec);
uint32_t alternative_of_run(struct cli *c, const char *path, const struct spec *spec);

/* ---- refresh.c ---- */
/* Asks the providers for their prices. -1 and err: none was asked. 1 and err: some failed; each failure was printed. */
int cli_refresh_prices(struct cli *c, struct error *err);

#endif
