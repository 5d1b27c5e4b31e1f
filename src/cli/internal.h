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

/* One option; `id` is what the parsed values are asked by. */
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
    struct error *told;                /* the last that was printed */
    const char *error_lines;           /* more of the error that is printed last, whole lines; NULL = none */
    bool color_out, color_err;
    uint32_t alternative;              /* of any_of, with which specs are read; 0 = none was rented */
    struct spec_checker *checker;      /* NULL: one spec is read, or a few */
    const char *expected_plan;         /* cli_plan refuses plans with other hashes; NULL: none */
    int argc;
    char **argv;
    const struct cli_build *build;
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

/* In the folder of a run: gc has removed its logs. */
#define CLI_LOGS_GONE "logs-removed"

/* parse.c */
int cli_parse(struct cli *c, int argc, char **argv, struct error *err);
const struct cli_option *cli_option_find(enum cli_option_id id);
const struct cli_command *cli_command_find(const char *name); /* also by an alias ("ps"); NULL: there is none */
bool cli_command_has(const struct cli_command *cmd, enum cli_option_id id);
void cli_help(const struct cli *c, const struct cli_command *cmd, FILE *to);

/* complete.c: what may stand for the last word of a command line, as lines of candidate, TAB, what it is; or ":specs",
 * ":files", ":dirs" for files that the shell is to find. words: those behind `rhrun`, the one that is typed last. */
void cli_complete(struct arena *arena, const char *const *words, size_t count, struct buf *ret);
/* What the usage says of the word with this number, as bits of kinds; 0: it has none there. Words that are typed as
 * they stand there ("torchrun") are given to `literal`, which may be NULL. */
unsigned cli_usage_kinds(const char *usage, size_t at, void (*literal)(void *arg, const char *word), void *arg);

/* version.c: prints what this program is and what it is made of. 0 */
int cli_version(const struct cli *c);

/* common.c */
void cli_print_error(const struct cli *c, const struct error *err);  /* "rhrun: text" and "hint: ..." on stderr */
const char *cli_quoted(struct cli *c, const char *word); /* for the shell: of a command in a hint; in c->arena */
int cli_fail(const struct cli *c, const struct error *err); /* the same; returns the exit status */
void cli_print_diagnostics(const struct cli *c, const struct diagnostics *d);
struct spec_overrides cli_overrides(struct cli *c); /* --set, -p, --on and the words after -- */
void cli_add_value(struct cli *c, enum cli_option_id id, const char *value); /* as if the option were given again */
/* The overrides that a run was started with become those of the command; what was given with it counts more. */
void cli_take_overrides(struct cli *c, const struct state_run *run);
/* Loads a spec with the command line's overrides; prints faults. 0, or the exit status 2. Of any_of: with the
 * alternative that was rented, where the job has a cluster. */
int cli_load_spec(struct cli *c, const char *path, struct spec **ret);
/* Of any_of, where nothing is rented: with the alternative that the job's open run, or its latest, was planned with; so
 * that what is done is known to be done. */
int cli_load_planned_spec(struct cli *c, const char *path, struct spec **ret);
/* Of the ssh configurations that hosts name: does none of them need --trust? Else -1, with a hint. `offline`: that
 * is another way on. */
int cli_check_trust(const struct cli *c, const struct roster *roster, bool offline, struct error *err);
/* adopt.c: --adopt. 0, or the exit status. */
int cli_adopt(struct cli *c, const char *spec_path);
char *cli_owner_name(struct arena *arena); /* user@host */
/* Whose machines they are, at a provider: lower case, digits and "-", which every provider takes as a label. */
const char *cli_rent_owner(struct arena *arena);
void cli_time(uint64_t wall, char ret[32]);            /* "2026-11-20 14:02:33" local */
void cli_duration(uint64_t ms, char ret[32]);          /* "340 ms", "12.3 s", "3 m 20 s", "2 h 5 m" */
struct sources;
/* Compiles the plan of a spec; prints faults. 0, or an exit status. sources NULL: of a spec whose trees do not matter,
 * as nothing is started; the keys are not those of a run then. */
/* What can be rented for a spec that rents; faults of its wish are printed, and the exit status returned. */
int cli_offers(struct cli *c, const struct spec *spec, struct rent_offers *ret);
/* The same for a plan; those without credentials are left out, as they would be, and nobody is asked. */
const struct plan_rent *cli_plan_rent(struct cli *c, struct rent_offers *o);
int cli_plan(struct cli *c, struct spec *spec, const struct roster *roster, const struct sources *sources,
             struct plan **ret);
/* Is the latest run of the variant done with this plan, so that nothing is to be done? */
const struct state_run *cli_done_run(const struct state *state, const struct plan *plan);
struct session *cli_session(struct cli *c, struct loop *loop, struct journal *journal); /* journal: or NULL */
void cli_run_options(struct cli *c, struct run_options *o); /* from options and test hooks in the environment */

/* limits.c: has this process what an event loop and one node take? To be asked before loop_create. */
/* Removes the containers that the job with this id has on its hosts: all, and says how many; or those that end with the
 * run (down: always). What could not be removed is told. 0, or exit status 3. */
int cli_containers_down(struct cli *c, const struct roster *roster, const char *job, bool all);
int cli_check_limits(struct error *err);

/* locks.c. What a run is made of, for its RUN_OPENED: in the command's arena. store: has the
 * plan's trees, or NULL; rented: the cluster's ledger, or NULL. */
struct fleet_ledger;
const char *cli_made_of(struct cli *c, const struct plan *plan, struct tree_store *store,
                        const struct fleet_ledger *rented);
/* Prints the lock of a run. 0, or an exit status. */
int cli_show_lock(struct cli *c, const char *word);
/* run --lock: writes the lock of the job's latest run beside the spec. 0, or an exit status. */
int cli_write_lock(struct cli *c, const struct spec *spec);
/* run --locked: have the sources the ids that the lock says? 0, or exit status 2, and what differs was told. */
int cli_check_trees(struct cli *c, const struct spec *spec, const struct sources *s);

/* lock_sources.c: as cli_sources, of a spec that is a lock: from the snapshot stores, or from the folders that the spec
 * names, where these still have the same files. */
int cli_lock_sources(struct cli *c, const struct spec *spec, const struct roster *roster, struct sources **ret);
/* The trees of a lock, in its order, and the store that has them all, which the caller closes. */
int cli_lock_trees(struct cli *c, const struct doc_node *lock, struct tree_store **ret_store, const struct tree ***ret,
                   size_t *ret_count, struct error *err);
/* bundle.c: show RUN --bundle FILE; and for rerun: takes a bundle in, and gives the path of its lock. */
int cli_write_bundle(struct cli *c, const char *word, const char *path);
int cli_read_bundle(struct cli *c, const char *path, const char **ret_lock, struct error *err);
/* sources.c, for it: as they are here. */
int cli_scan_sources(struct cli *c, const struct spec *spec, const struct roster *roster, bool stored,
                     struct sources **ret, struct error *err);

/* cmd_rerun.c, of a spec that is a lock. Before anything starts: tells what cannot be as it was. 0, or exit status 2
 * with --strict. Then, once it is done: tells how it differs from the run that was repeated. */
int cli_rerun_check(struct cli *c, const struct spec *spec, const struct roster *roster, struct plan *plan);
void cli_rerun_compare(struct cli *c, const struct spec *spec);
extern const struct cli_command cmd_run_command, cmd_plan_command;

/* find_run.c. Of a spec file's runs, those that -p, --set and the words after -- name: of the variant that `run` would
 * take with these params and words, where there are any, and started with each --set. */
struct cli_choice {
    const char *spec_path;
    const char *variant;     /* NULL: any */
    const char *const *sets; /* each was given to the run, too */
    size_t set_count;
};
/* The run that a word means: id, unique prefix, "last", the name of a job or a spec file, whose latest it is of those
 * that the options choose. Opens its journal for reading. ret_run points into the journal's state. */
int cli_find_run(struct cli *c, const char *word, struct journal **ret_journal, const struct state_run **ret_run,
                 struct error *err);
/* The same, for what goes on with a run by its spec: with a run that is named, -p and --set are no choice, but replace
 * what it was started with. */
int cli_find_run_over(struct cli *c, const char *word, struct journal **ret_journal, const struct state_run **ret_run,
                      struct error *err);
/* The job that a spec file or the name of a job means, and which of its runs the options choose. */
int cli_find_history(struct cli *c, const char *word, struct journal **ret_journal, struct cli_choice *ret,
                     struct error *err);
int cli_find_job(struct cli *c, const char *spec_path, struct journal **ret_journal, struct cli_choice *ret,
                 struct error *err);
bool cli_is_spec_word(const char *word); /* is it a spec file, not a run? */
bool cli_chosen(const struct cli_choice *choice, const struct state_run *run);
/* The error that none was chosen, with those that there are. */
int cli_none_chosen(struct cli *c, const struct cli_choice *choice, struct journal *j, struct error *err);
bool cli_chooses(const struct cli *c);       /* was -p, --set or -- given? */
int cli_nothing_to_choose(struct error *err); /* the error that they were, and no spec file */
/* The options that a run was started with, as words for a shell; "" = none. */
const char *cli_options_of(struct cli *c, const struct state_run *run);
const char *cli_other_options_of(struct cli *c, const struct state_run *run); /* without its params */
/* "running", "unfinished", or its status */
const char *cli_run_word(const struct journal *j, const struct state_run *run);

/* sources.c: the trees that the plan of a spec reads */
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
    struct tree_store *store; /* of the job; NULL = there is nothing to bring */
    struct source_tree *items;
    size_t count;
    bool stored;              /* contents are in the store */
    const char *inward;       /* an output whose files come into the workdir itself, or NULL */
    const struct spec *spec;  /* private, as is the arena */
    struct arena *arena;
};
/* stored: contents are kept in the job's store, from which nodes get them; else only ids are known. Prints faults; 0,
 * or an exit status. The store is the caller's while it runs a plan of these sources. */
/* (private to sources.c and lock_sources.c) */
struct sources *sources_new(struct cli *c, const struct spec *spec, bool stored);
int cli_sources(struct cli *c, const struct spec *spec, const struct roster *roster, bool stored, struct sources **ret);
void cli_sources_close(struct sources *s); /* takes NULL */

/* patience.c: says the text on the terminal when what is between the two calls takes longer than a moment */
struct patience;
struct patience *patience_begin(const struct cli *c, const char *text); /* NULL: nobody is to be told */
/* What the text tells of: counted by a scan of files, shown as it goes. Takes NULL. */
struct tree_progress *patience_progress(struct patience *p);
void patience_end(struct patience *p);                                  /* takes NULL */

/* detached.c. Starts the same command line once more, without a terminal: its exit status. */
int cli_spawn_detached(struct cli *c);
/* Starts a controller without a terminal that goes on with an open run, by its spec and the overrides of
 * `c`. 0 once it has begun; else its exit status, what is wrong was said. */
int cli_resume_detached(const struct cli *c, const char *run, const char *spec_path, pid_t *ret_pid);

/* show_files.c: what is in the sources */
void cli_size(uint64_t bytes, char ret[32]); /* "0 bytes", "12.3 kB", "1.4 GB" */
/* A path with what no terminal or reader of lines should get escaped, as a quoted string; else as it is. */
void cli_put_path(struct buf *b, const char *path);
/* Warns of a large working directory, of one that outputs go to, and what the scans left out. */
void cli_warn_sources(const struct cli *c, const struct sources *s);
void cli_format_files(const struct sources *s, bool json, struct buf *ret); /* plan --files */

/* out.c: text to stdout and stderr in few writes, in order. What is put waits until the loop's next turn, and is
 * written by a thread then: a reader that is slow, or stands still, does not hold up the loop. Of what it leaves unread
 * 4 MiB are in memory, the rest in a file without a name in TMPDIR (/var/tmp). */
struct out;
struct out *out_create(struct loop *loop); /* loop may be NULL: no thread; only out_flush and full buffers write */
void out_put(struct out *o, int fd, const char *text, size_t len);
/* A part of a line: what another source puts next gets a line end first, where both go to one place. */
void out_put_open(struct out *o, int fd, const char *text, size_t len);
void out_printf(struct out *o, int fd, const char *fmt, ...) FORMAT(3, 4);
void out_flush(struct out *o);   /* hands over what was put; without a loop: writes it */
bool out_drain(struct out *o);   /* until all is written; false: the reader has taken nothing for 2 s */
void out_finish(struct out *o);  /* the same however long it takes; Ctrl-C, TERM and HUP then end the program */
uint64_t out_mark(const struct out *o);          /* a mark behind all that was put */
bool out_passed(struct out *o, uint64_t mark);   /* what stands before the mark is written */
void out_destroy(struct out *o); /* out_finish before; takes NULL */

/* names.c: "n3, n5-n28 and 4 more": at most so many names or ranges */
void cli_put_names(struct buf *b, const char *const *names, size_t count, size_t most);
void cli_put_numbers(struct buf *b, const uint32_t *numbers, size_t count); /* "0-28,30-31"; they ascend */

/* faults.c: nodes that could not be reached, by cause, the most nodes first */
struct cli_fault {
    const char *cause, *hint; /* hint: of the first of them, "" = none */
    const char **names;
    size_t count;
    uint32_t first; /* node */
};
size_t cli_faults(const struct run *r, const struct plan *plan, struct arena *arena, struct cli_fault **ret);
void cli_put_fault(struct buf *b, const struct cli_fault *f, uint32_t nodes); /* "2 of 8 nodes: no answer: n3, n5" */
/* Where the error tells of a node that could not be reached, and there are more of them: it tells of all, and what does
 * not fit is in c->error_lines. */
void cli_group_faults(struct cli *c, const struct run *r, const struct plan *plan, struct error *err);

/* progress.c: the latest line of each stream of each worker that ended with a carriage return. */
struct progress {
    const struct plan_step *step;
    const char *node_name;
    uint32_t node, rank;
    uint8_t stream;
    bool active;       /* such a line stands, and nothing ended it yet */
    bool waits;        /* it was not printed yet, and is within a second */
    bool drawn;        /* it was not printed yet: the live view shows it until something ends it */
    uint64_t shown_ms; /* when one was printed last, 0 = never */
    uint64_t serial;   /* number of this stream's last line among all lines, from 1 */
    uint64_t wall_ms;
    struct buf text;
    struct buf prefix; /* of its lines, once made */
    struct trace_source *traced; /* of traces.c */
};
struct progress_table {
    struct progress **items; /* by step, rank, node, stream */
    size_t count;
    struct progress *last; /* found last */
    uint64_t serial;       /* lines seen */
};
struct progress *progress_of(struct progress_table *t, const struct run_line *line);
void progress_end(struct progress *s); /* it stands no more, and is not printed */
void progress_clear(struct progress_table *t);
struct speed { /* of a step's transfer */
    uint64_t at_ms, bytes;
    double per_second;
};
/* "about 12 s left", "about 2 h 05 m left" */
void cli_left(uint64_t ms, char ret[48]);
/* Bytes per second, called now and then with all bytes so far; 0 = not known yet. */
double speed_of(struct speed *s, uint64_t bytes);

/* traces.c: one bug on many ranks is shown once */
struct traces;
struct traces_sink {
    uint64_t (*put)(void *arg, struct progress *of, const struct watch_line *line); /* prints it; returns its serial */
    void (*name)(void *arg, const struct progress *of, struct buf *b); /* the worker's, as before its lines */
    void (*say)(void *arg, const struct buf *line);
    void *arg;
};
struct traces *traces_create(const struct traces_sink *sink);
/* True: the line is held, and printed later if it is to be. Lines of stderr of a worker of a launch. */
bool traces_take(struct traces *t, struct progress *of, const struct watch_line *line);
bool traces_look(struct traces *t);       /* prints what is due; true: look again soon */
bool traces_hold(const struct traces *t); /* is there anything that may still be printed? */
void traces_end(struct traces *t);        /* prints all there is, and tells who ended alike */
void traces_forget(struct traces *t);     /* a new generation: nothing was shown of it. Before progress_clear, too */
/* Is the latest traceback of that worker, or one that is alike, still among the latest lines, of which serial is the
 * last? */
bool traces_has_shown(const struct traces *t, const char *step, const char *node_name, uint32_t rank, uint64_t serial);
void traces_destroy(struct traces *t);    /* takes NULL; before progress_clear */

/* workers.c: how lines name the worker that they are of */
/* Of a worker of the launch: the role, and its number in it. role NULL: the step is no launch. */
struct cli_worker {
    const char *role;
    uint32_t role_rank;
};
/* The roles of a launch, as the event of its generation has them. */
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
bool cli_is_work(const struct plan_step *step); /* are its lines the job's own: of the launch, or of a point? */
/* "default[3]@gpu1:" or "prepare@gpu1:", coloured by rank. */
void cli_line_prefix(struct buf *b, bool color, const struct cli_worker *worker, const char *step,
                     const char *node_name, uint32_t rank);

/* show_json.c: members of an object, behind a comma where one is due */
void cli_json_text(struct buf *b, const char *key, const char *text, size_t len);
void cli_json_string(struct buf *b, const char *key, const char *value); /* NULL: null */
/* Lines of --json that are no events of the journal (schema/events.schema.json). */
void cli_json_output(struct buf *b, const char *run, const char *step, const char *attempt, uint32_t node,
                     const struct cli_worker *worker, const struct watch_line *line);
void cli_json_progress(struct buf *b, const char *run, const struct plan_step *step, const struct run_counts *n,
                       const struct run_transfer *t);
void cli_json_port(struct buf *b, const char *run, const struct run_port *port);
/* The last line of `run --json` and `attach --json`. res may be NULL; err NULL or ERROR_NONE: nothing went wrong. */
/* What a command prints with --json that came to nothing: {"error", "code", "hint"}. */
void cli_json_error(struct buf *b, const struct error *err);
void cli_json_result(struct buf *b, const char *run, const char *status, int exit_status, const struct error *err,
                     const struct run_result *res);

/* printer.c: what a run prints while it runs. How, is chosen here: as lines, as the live view or as NDJSON, see
 * printer.h. */
struct cli_printer;
/* detach: the key d of the live view was pressed. */
struct cli_printer *cli_printer_create(struct cli *c, struct loop *loop, const struct plan *plan,
                                       void (*detach)(void *arg), void *detach_arg);
void cli_printer_set_run(struct cli_printer *p, struct run *r);
struct run_observer cli_printer_observer(struct cli_printer *p);
/* From here on what was shown is kept for whoever shows the rest. */
void cli_printer_keep_place(struct cli_printer *p, struct journal *journal);
void cli_printer_background(struct cli_printer *p); /* plain lines without the workers' output from here on */
void cli_printer_stopping(struct cli_printer *p);   /* a signal came: says so, and what the next one does */
/* Final state on the screen, terminal as it was, everything written. */
enum cli_printer_end { PRINTER_SUMMARY, PRINTER_DETACHED };
void cli_printer_end(struct cli_printer *p, enum cli_printer_end how);
/* Do the last lines that were printed hold the end of that worker's output, so that it need not be repeated? */
bool cli_printer_has_shown(const struct cli_printer *p, const char *step, const char *node_name, uint32_t rank);
void cli_printer_destroy(struct cli_printer *p);

/* show_plain.c: rhrun's own lines, without line end; nothing when there is nothing to say */
/* show_rules.c. A rule that counted, by its text where the plan has it (NULL: none at hand). */
/* "launch on gpu-3: 8.8 MB of its output were dropped (the node's disk was full)" */
void plain_dropped(struct buf *b, const char *step, const char *host, uint64_t bytes, const char *by);
/* a line, where there was any */
void plain_warn_dropped(struct buf *b, const struct plan *plan, const struct event *e);
void plain_rule(struct buf *b, const struct plan *plan, const struct event_rule *rule);
struct shown_metrics;
void shown_metrics_take(struct shown_metrics **m, const struct event_metrics *values);
void shown_metrics_put(const struct shown_metrics *m, struct buf *b); /* "loss 0.25, speed 312" */
void shown_metrics_free(struct shown_metrics *m);
void status_rules(const struct state_run *run, struct buf *b);
void status_metrics(const struct state_run *run, struct buf *b); /* "loss 0.25, speed 312": of the lowest ranks */
void status_rules_json(const struct state_run *run, struct buf *b); /* ,"rules":[...],"metrics":[...] */
void plain_event(struct buf *b, const struct plan *plan, const struct event *e, uint32_t restarts);
uint32_t cli_step_workers(const struct plan *plan, const struct plan_step *step); /* that a step of the launch starts */
void plain_step(struct buf *b, const struct plan *plan, const struct plan_step *step, const struct run_counts *n,
                const uint8_t *outcomes);
void plain_transfer(struct buf *b, const struct run_transfer *t); /* "12.3 of 90.0 MB, 120 of 9000 files" */
bool plain_step_failed(enum outcome o); /* by itself, not stopped because another one failed */

/* show_ports.c */
struct canvas;
/* "port 6006 of gpu1 (tensorboard): 127.0.0.1:6006"; nothing where there is nothing to say */
void plain_port(struct buf *b, const struct run_port *p);
/* On at most so many lines of the live view; returns how many. v NULL: draws none. */
unsigned live_ports(struct canvas *v, const struct run *r, unsigned lines);
/* Of a run that has a controller: lines, or a member of an object behind a comma. */
void status_ports(struct cli *c, const struct journal *j, const struct state_run *run, bool json, struct buf *b);
/* Lines of the ports that are new since the last call. last: of the caller, who frees it. */
void attach_ports(const struct journal *j, const struct state_run *run, struct buf *last, struct buf *ret_lines);

/* By options and descriptors: a live view needs a terminal in the foreground, and stdout there too or in a file. */
bool cli_has_view(const struct cli *c);

/* live.c: the live view on a terminal */
struct live;
struct live *live_create(struct cli *c, struct loop *loop, const struct plan *plan,
                         const struct progress_table *progress,
                         const uint8_t *outcomes /* [step * node_count + node], enum outcome of the last attempt */);
void live_on_detach(struct live *l, void (*fn)(void *arg), void *arg);
void live_set_run(struct live *l, struct run *r);
void live_heard(struct live *l, const struct run_line *line); /* every line, before it is printed or not */
void live_above(struct live *l, const char *text, size_t len); /* whole lines, written above the view with its next
                                                                  frame */
bool live_flush(struct live *l); /* a frame now; false: the terminal takes none */
void live_status(struct live *l, const char *text);            /* what is said below the view instead of the keys */
void live_end(struct live *l, bool summary);                   /* the view stays as it is, or goes */
void live_destroy(struct live *l);                             /* takes NULL */

/* live_attempts.c: the attempts that run, in the live view */
struct live_attempts;
struct canvas;
struct live_attempts *live_attempts_create(const struct plan *plan, size_t steps); /* of the first so many steps */
void live_attempts_heard(struct live_attempts *a, const struct run_line *line);
size_t live_attempts_look(struct live_attempts *a, const struct run *r); /* how many are worth a line now */
/* Those on at most so many lines; the last line names those that have no line of their own. */
void live_attempts_draw(const struct live_attempts *a, struct canvas *v, size_t lines);
void live_attempts_destroy(struct live_attempts *a);

/* live_metrics.c: the last values of the spec's metrics, in at most so many lines of the view. A number is never cut:
 * what does not fit is counted. Returns the lines that are needed, 0 = there are no values; v NULL: draws none. */
unsigned live_metrics(struct canvas *v, const struct run *r, const struct spec *spec, unsigned columns, unsigned lines);

/* live_points.c: the points of a sweep on at most so many lines; returns how many. v NULL: nothing is drawn. */
struct canvas;
unsigned live_points(struct canvas *v, const struct run *r, const struct plan *plan, unsigned lines, bool final);

/* canvas.c: lines of text that fit a width */
struct canvas {
    struct buf text;     /* lines with escape sequences, each ended by \n */
    unsigned columns;    /* a line has fewer */
    unsigned used;       /* of the present line */
    unsigned *widths;    /* of the finished lines */
    unsigned lines, cap;
    bool color, utf8;
};
void canvas_clear(struct canvas *v, unsigned columns);
void canvas_put(struct canvas *v, const char *style, const char *text, size_t len); /* style: "1", "31", "" */
void canvas_printf(struct canvas *v, const char *style, const char *fmt, ...) FORMAT(3, 4);
void canvas_time(struct canvas *v, const char *style, uint64_t ms); /* steady: tenths only while they can be read */
/* cut and padded to a width */
void canvas_field(struct canvas *v, const char *style, const char *text, unsigned width);
unsigned canvas_left(const struct canvas *v); /* columns that are free on this line */
void canvas_end_line(struct canvas *v);
/* One write to the terminal: `above`, which is then empty, and `now` over what is shown. They change places. */
void canvas_show(struct canvas *now, struct canvas *shown, struct buf *above);
void canvas_free(struct canvas *v);
unsigned text_width(const char *text, size_t len); /* columns it takes on a terminal */
/* A worker's line for the screen: colours stay, other escape sequences and control characters go. */
void text_for_screen(struct buf *b, const char *text, size_t len, bool color);

/* screen.c: the same for text that comes in pieces. Line ends stay, and no colour goes beyond one. Zero-filled at first
 * but for color and returns. */
struct screen {
    enum { SCREEN_TEXT, SCREEN_ESC, SCREEN_CSI, SCREEN_STRING } at;
    bool color;   /* colours pass */
    bool returns; /* so do carriage returns */
    bool styled;  /* a colour is on */
    bool odd;     /* the sequence is no colour, whatever its last byte is */
    unsigned char held[64]; /* the beginning of a character, or of a colour */
    size_t held_len, wanted;
};
void screen_put(struct screen *s, struct buf *b, const char *text, size_t len);
void screen_end(struct screen *s, struct buf *b); /* a colour that is on is put out */

/* term.c: the terminal's modes */
struct term;
struct term *term_create(struct loop *loop, void (*key)(void *arg, char c), void (*resumed)(void *arg), void *arg);
void term_acquire(struct term *t); /* again: nothing */
void term_release(struct term *t);
bool term_has_keys(const struct term *t);
void term_destroy(struct term *t); /* takes NULL */
bool term_foreground(void);
bool term_utf8(void); /* by the locale */
void term_size(unsigned *ret_columns, unsigned *ret_rows);

/* shown.c: how far people have seen the workers' output of a run, kept beside its logs, for whoever shows the rest */
struct shown_place { /* in an attempt's log file: all lines up to `to` were shown, but those without an end; see
                        run_observer */
    char attempt[WIRE_ID_LEN + 1];
    uint64_t from, to;
};
struct shown {
    uint64_t events;       /* seq of the last event that was told */
    uint64_t lines, at_ms; /* how many were shown, and when the last one was */
    struct shown_place *places;
    size_t count;
    char *path;            /* private, as is what follows */
    uint32_t *slots;       /* of places, by attempt; 0 = free */
    size_t slot_count;     /* a power of two */
    struct buf next, saved, before; /* what is to be written, what the file holds, what it held before that */
    uint64_t saved_ms, lines_saved;
};
/* from_start: as if nothing had been shown yet. */
struct shown *shown_open(const struct journal *j, const char *run, bool from_start);
void shown_close(struct shown *s); /* does not save; takes NULL */
const struct shown_place *shown_find(const struct shown *s, const char *attempt); /* NULL: nothing of it was shown */
void shown_set(struct shown *s, const char *attempt, uint64_t from, uint64_t to);
void shown_freeze(struct shown *s); /* what is known now is what shown_save writes, once that is on the screen */
void shown_save(struct shown *s);
uint64_t shown_wait_ms(const struct shown *s); /* until the next saving, when something new was shown */
/* Instead of saving, when the terminal or reader is gone: back by a second, as what was on its way is lost. */
void shown_step_back(struct shown *s);
bool shown_hung_up(void);    /* is it gone? */
bool shown_to_nobody(void);  /* stdout goes to /dev/null */

/* logs_tail.c: the last lines, of at most so many */
struct logs_tail;
struct logs_tail *logs_tail_create(size_t size);
void logs_tail_add(struct logs_tail *t, int fd, const struct buf *text);
uint64_t logs_tail_seen(const struct logs_tail *t); /* how many were added */
void logs_tail_put(const struct logs_tail *t, struct out *out);
void logs_tail_destroy(struct logs_tail *t); /* takes NULL */

/* logs.c: printing what is in the log files */
struct cli_points;
struct cli_logs {
    const char *step;      /* NULL = the launch, or everything with all */
    const struct cli_points *points; /* of a sweep: NULL = all; else these alone, those that are kept in the run that
                                        did them */
    bool all;
    bool has_rank;
    uint32_t rank;
    bool has_node;
    uint32_t node;
    struct regex *grep;    /* only lines in which it matches; NULL: all */
    uint64_t since_ms;     /* only lines from then on, by the nodes' clocks */
    bool timestamps, bare; /* each line begins with its time; lines of workers have no prefix */
    size_t tail;           /* of what is there when it begins, only the last so many lines; 0: all */
    bool tail_by_itself;   /* nobody has asked for that: says so */
    bool follow;           /* until the run ends; SIGINT and SIGTERM end only the following */
    bool raw;              /* the bytes, not lines */
    bool json;
    bool events;           /* also what the controller did and noted */
    bool on;               /* from where the last one stopped who showed it; how far this goes is kept, too */
    bool from_start;       /* with `on`: all the same from the beginning */
    /* The run has no controller any more. 0: there is one again; else the exit status, the reason was said. NULL: that
     * is an error. */
    int (*alone)(void *arg);
    void *alone_arg;
};
struct cli_logs_end {
    int exit_status;       /* the run's, once it has ended; or what `alone` returned */
    int interrupted;       /* the signal that ended it, or 0 */
    bool left_alone;       /* `alone` ended it */
};
int cli_logs_print(struct cli *c, struct journal *j, const char *run, const struct cli_logs *what,
                   struct cli_logs_end *ret, struct error *err);

/* ---- alternatives.c: cluster.any_of ---- */
/* The alternative that was rented, or that the latest run was planned with; 0: there is none. */
uint32_t alternative_of_cluster(struct cli *c, const struct spec *spec);
uint32_t alternative_of_run(struct cli *c, const char *path, const struct spec *spec);

/* ---- refresh.c ---- */
/* Asks the providers for their prices. -1 and err: none was asked. 1 and err: not all could be had; each was told. */
int cli_refresh_prices(struct cli *c, struct error *err);

#endif
