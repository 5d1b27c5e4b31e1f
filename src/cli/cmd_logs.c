/* rhrun logs, attach, cancel: commands for a run that is, or was, in progress. */
#include "points.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAIL_MAX = 1000000, TAIL_BY_ITSELF = 20 };

static int number(struct cli *c, enum cli_option_id id, uint32_t *ret, struct error *err)
{
    if (c->given[id] && !parse_u32(c->value[id], ret))
        return error_set(err, ERROR_USAGE, "--%s: \"%s\" is not a number", cli_option_find(id)->name, c->value[id]);
    return 0;
}

/* "10m": that long ago; or a date, with or without a time. */
static int read_since(const char *text, uint64_t *ret, struct error *err)
{
    static const char *const forms[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
                                        "%Y-%m-%d"};
    uint64_t ms;
    if (parse_duration_ms(text, &ms)) {
        const uint64_t now = wall_ms();
        *ret = now > ms ? now - ms : 0;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(text, forms[i], &tm);
        const time_t at = end && !*end ? mktime(&tm) : -1;
        if (at >= 0) {
            *ret = (uint64_t)at * 1000;
            return 0;
        }
    }
    error_set(err, ERROR_USAGE, "--since: \"%s\" is not a time", text);
    error_hint(err, "10m, 2h, 2026-01-31, \"2026-01-31 08:00\", 2026-01-31T08:00:30");
    return -1;
}

/* Which lines to print: --tail, --since, --grep. */
static int read_filters(struct cli *c, struct cli_logs *what, struct error *err)
{
    const char *tail = c->value[OPT_TAIL], *pattern = c->value[OPT_GREP];
    uint32_t lines = 0;
    struct regex_fault fault;
    what->timestamps = c->given[OPT_TIMESTAMPS];
    if (tail && strcmp(tail, "all") != 0) {
        if (!parse_u32(tail, &lines) || lines == 0 || lines > TAIL_MAX)
            return error_set(err, ERROR_USAGE, "--tail: \"%s\" is neither a number from 1 to %d nor all", tail,
                             TAIL_MAX);
        what->tail = lines;
    }
    if (c->given[OPT_SINCE] && read_since(c->value[OPT_SINCE], &what->since_ms, err) < 0)
        return -1;
    if (pattern && !(what->grep = regex_create(pattern, strlen(pattern), &fault)))
        return error_set(err, ERROR_USAGE, "--grep: %s, at character %zu of \"%s\"", fault.text, fault.at + 1, pattern);
    return 0;
}

/* A number, or the name of one of the run's nodes. */
static int read_node(struct cli *c, const struct state *s, const struct state_run *run, uint32_t *ret,
                     struct error *err)
{
    const char *word = c->value[OPT_NODE];
    const bool number = parse_u32(word, ret);
    if (number && *ret < run->node_count)
        return 0;
    for (uint32_t n = 0; n < run->node_count && n < s->node_count && !number; n++)
        if (str_eq(s->nodes[n].host, word)) {
            *ret = n;
            return 0;
        }
    error_set(err, ERROR_USAGE, "run %s has no node \"%s\"", run->id, word);
    const char **names = arena_array(c->arena, run->node_count + 1, sizeof *names);
    for (uint32_t n = 0; n < run->node_count; n++)
        names[n] = n < s->node_count && s->nodes[n].host ? s->nodes[n].host : "?";
    cli_hint_nodes(err, names, run->node_count);
    return -1;
}

static int print_logs(struct cli *c, struct journal *j, const struct state_run *run, struct cli_logs *what,
                      struct error *err)
{
    CLEANUP(cleanup_free) char *id = xstrdup(run->id);
    struct cli_logs_end end = {0};
    struct cli_points points;
    if (what->has_node && read_node(c, journal_state(j), run, &what->node, err) < 0)
        return -1;
    if (cli_points(c, j, run, &points, err) < 0)
        return -1;
    if (points.chosen)
        what->points = &points;
    CLEANUP(cleanup_free) char *gone = xasprintf("%s/runs/%s/" CLI_LOGS_GONE, journal_path(j), id);
    if (access(gone, F_OK) == 0)
        fprintf(stderr, "rhrun: logs of run %s were removed by rhrun gc\n", id);
    return cli_logs_print(c, j, id, what, &end, err);
}

static int cmd_logs(struct cli *c)
{
    struct journal *j;
    const struct state_run *run;
    struct error err = ERROR_INIT;
    struct cli_logs what = {.step = c->value[OPT_STEP],
                            .follow = c->given[OPT_FOLLOW],
                            .json = c->given[OPT_JSON],
                            .all = c->given[OPT_VERBOSE],
                            .has_rank = c->given[OPT_RANK],
                            .has_node = c->given[OPT_NODE]};
    int rc = number(c, OPT_RANK, &what.rank, &err);
    if (rc == 0)
        rc = read_filters(c, &what, &err);
    const bool of_one = (what.has_rank || (what.step && what.has_node)) && !what.json;
    what.raw = of_one && !what.tail && !what.since_ms && !what.grep && !what.timestamps;
    what.bare = of_one && !what.raw;
    if (what.follow && !what.raw && !what.json && !c->given[OPT_TAIL] && !what.since_ms && isatty(1)) {
        what.tail = TAIL_BY_ITSELF;
        what.tail_by_itself = true;
    }
    if (rc == 0)
        rc = cli_find_run(c, c->word_count ? c->words[0] : "last", &j, &run, &err);
    if (rc == 0) {
        rc = print_logs(c, j, run, &what, &err);
        journal_close(j);
    }
    regex_destroy(what.grep);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

static const enum cli_option_id logs_options[] = {OPT_FOLLOW, OPT_TAIL,  OPT_SINCE, OPT_TIMESTAMPS, OPT_GREP,
                                                  OPT_RANK,   OPT_STEP,  OPT_POINT, OPT_NODE,       OPT_NO_PREFIX,
                                                  OPT_SET,    OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_logs_command = {
    "logs",
    "[RUN]",
    "Print the workers' output of a run",
    "RUN is an id, a unique prefix, last (the default), the name of a job, or a spec\n"
    "file; with a spec file -p, --set and the words after -- choose one of its runs.\n"
    "Without options: the launch, all its generations in order. --step NAME: the\n"
    "output of that step, --verbose: of every step. --point NAME, or -p NAME=VALUE\n"
    "with a param of the sweep: these points, even if an earlier run did them.\n"
    "--rank R, or --step NAME with --node N: the bytes as they were written, stdout\n"
    "to stdout, stderr to stderr; with --tail, --since, --grep or --timestamps the\n"
    "lines. A terminal gets only text and colours, no other control characters. -f\n"
    "goes on until the run ends, on a terminal from the last 20 lines on; Ctrl-C ends\n"
    "only the following (exit status 0).",
    logs_options,
    0,
    1,
    true,
    cmd_logs};

/* ---- attach ---- */

static void print_result(const struct state_run *run)
{
    struct buf b = {0};
    struct error err = ERROR_INIT;
    if (run->message)
        error_set(&err, ERROR_JOB, "%s", run->message);
    cli_json_result(&b, run->id, run_status_name(run->status), run->exit_status, &err, NULL);
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

struct attached {
    struct cli *c;
    struct journal *journal;
    const char *run;
    bool talk, resumed;
};

/* The controller was killed, or this machine restarted: starts another one, once. */
static int on_alone(void *arg)
{
    struct attached *a = arg;
    struct error err = ERROR_INIT;
    const struct state_run *run = state_run_find(journal_state(a->journal), a->run);
    const char *path = run && run->spec_path ? run->spec_path : "";
    if (a->resumed) {
        error_set(&err, ERROR_INFRA, "the controller of run %s has ended, but the run has not", a->run);
        error_hint(&err, "its messages: cat %s/controller.log; rhrun %s goes on",
                   cli_quoted(a->c, journal_path(a->journal)), cli_quoted(a->c, path));
        return cli_fail(a->c, &err);
    }
    a->resumed = true;
    cli_take_overrides(a->c, run);
    pid_t pid = 0;
    int rc = cli_resume_detached(a->c, a->run, path, &pid);
    if (rc == 0 && a->talk)
        fprintf(stderr, "rhrun: run %s had no controller any more; a new one continues it now (pid %d)\n", a->run,
                (int)pid);
    if (rc == 0 || journal_holder(a->journal, NULL, NULL) || journal_refresh(a->journal, NULL) < 0)
        return 0; /* or another process was faster */
    run = state_run_find(journal_state(a->journal), a->run);
    if (!run || run->status != RUN_OPEN)
        return 0;
    error_set(&err, ERROR_INFRA, "run %s has no controller any more, and no new one could continue it", a->run);
    error_hint(&err, "its processes on the nodes go on; this stops them: rhrun cancel %s", a->run);
    cli_print_error(a->c, &err);
    return rc;
}

static int cmd_attach(struct cli *c)
{
    struct journal *j;
    const struct state_run *run;
    struct error err = ERROR_INIT;
    struct cli_logs_end end = {0};
    if (cli_find_run_over(c, c->word_count ? c->words[0] : "last", &j, &run, &err) < 0)
        return cli_fail(c, &err);
    CLEANUP(cleanup_free) char *id = xstrdup(run->id);
    bool json = c->given[OPT_JSON], talk = !c->given[OPT_QUIET] && !json;
    struct attached attached = {c, j, id, talk, false};
    if (talk && run->status == RUN_OPEN)
        fprintf(stderr, "rhrun: attached to run %s; Ctrl-C detaches, the job goes on\n", id);
    struct cli_logs what = {.follow = true,
                            .events = true,
                            .json = json,
                            .all = c->given[OPT_VERBOSE],
                            .on = !json,
                            .from_start = c->given[OPT_FROM_START],
                            .alone = on_alone,
                            .alone_arg = &attached};
    int rc = cli_logs_print(c, j, id, &what, &end, &err);
    const struct state_run *now = state_run_find(journal_state(j), id);
    bool ended = rc == 0 && now && !end.interrupted && !end.left_alone;
    if (rc == 0 && end.interrupted && talk)
        fprintf(stderr, "rhrun: detached from run %s; it goes on\n", id);
    else if (ended && talk) {
        const char *word = run_status_name(now->status);
        bool more = now->message && !str_eq(now->message, word);
        fprintf(stderr, "rhrun: run %s: %s%s%s\n", id, word, more ? ": " : "", more ? now->message : "");
    } else if (ended && json)
        print_result(now);
    journal_close(j);
    return rc < 0 ? cli_fail(c, &err) : end.interrupted ? 0 : end.exit_status;
}

static const enum cli_option_id attach_options[] = {OPT_FROM_START, OPT_NO_PREFIX, OPT_SET,
                                                    OPT_PARAM,      OPT_ON,        OPT_COUNT};
const struct cli_command cmd_attach_command = {
    "attach",
    "[RUN]",
    "Follow a run to its end; Ctrl-C only detaches",
    "Prints the output that was not shown yet, and new output until the run ends, and\n"
    "exits with the job's status, or with 0 if Ctrl-C ended the following. Begins\n"
    "where the last terminal stopped that showed the run; --from-start and --json\n"
    "show everything. An open run whose controller was killed gets a new controller,\n"
    "in the background.",
    attach_options,
    0,
    1,
    true,
    cmd_attach};

/* ---- cancel ---- */

/* 0, or 3: the run may still be active on some nodes. */
static int cancelled_everywhere(struct cli *c, const struct state *s, const char *id)
{
    if (!state_run_left(s, id))
        return 0;
    if (!c->given[OPT_QUIET])
        fprintf(stderr, "  hint: the processes there go on until then; once it can be reached again: rhrun cancel %s\n",
                id);
    return 3;
}

/* With a live controller: asks it to stop, and waits until it has closed the run. -1: it ended without closing the
 * run. */
static int ask_controller(struct cli *c, struct journal *j, const char *id)
{
    struct error err = ERROR_INIT;
    if (journal_request(j, "cancel", &err) < 0)
        return err.why == ERROR_WHY_ABSENT ? -1 : cli_fail(c, &err);
    for (;;) {
        const struct state_run *run = state_run_find(journal_state(j), id);
        if (!run || run->status != RUN_OPEN) {
            if (!c->given[OPT_QUIET])
                fprintf(stderr, "rhrun: run %s: %s\n", id,
                        run && run->message ? run->message
                        : run               ? run_status_name(run->status)
                                            : "gone");
            return cancelled_everywhere(c, journal_state(j), id);
        }
        bool held = journal_holder(j, NULL, NULL);
        struct timespec pause = {0, held ? 50000000 : 0};
        nanosleep(&pause, NULL);
        if (journal_refresh(j, &err) < 0) /* after asking for the holder: it may close the run just before it ends */
            return cli_fail(c, &err);
        run = state_run_find(journal_state(j), id);
        if (!held && run && run->status == RUN_OPEN)
            return -1;
    }
}

static void on_finished(void *arg)
{
    loop_stop(arg);
}

/* Without one: becomes the controller for as long as it takes to stop the processes on the nodes. */
static int cancel_alone(struct cli *c, const char *spec_path)
{
    struct spec *spec;
    struct plan *plan;
    struct error err = ERROR_INIT;
    struct journal *journal;
    int rc = cli_load_spec(c, spec_path, &spec);
    if (rc == 0)
        rc = cli_plan(c, spec, roster_create(spec, c->arena), NULL, &plan);
    if (rc)
        return rc;
    if (cli_check_limits(&err) < 0)
        return cli_fail(c, &err);
    struct loop *loop = loop_create();
    signal(SIGUSR1, SIG_IGN);
    if (journal_open(loop, spec_id_name(spec), spec_id_origin(spec), cli_owner_name(c->arena), &journal, &err) < 0)
        return cli_fail(c, &err);
    struct run_options o = {.mode = RUN_CANCEL, .plan = plan};
    cli_run_options(c, &o);
    struct session *session = cli_session(c, loop, journal);
    struct run *r = run_create(session, &o, on_finished, loop);
    if (run_start(r, &err) < 0) {
        rc = cli_fail(c, &err);
    } else {
        loop_run(loop);
        fprintf(stderr, "rhrun: run %s: %s\n", run_id(r), run_result(r)->error.text);
        rc = cancelled_everywhere(c, journal_state(journal), run_id(r));
    }
    run_destroy(r);
    session_destroy(session);
    journal_close(journal);
    loop_destroy(loop);
    return rc;
}

static int cmd_cancel(struct cli *c)
{
    struct journal *j;
    const struct state_run *run;
    struct error err = ERROR_INIT;
    if (cli_find_run_over(c, c->word_count ? c->words[0] : "last", &j, &run, &err) < 0)
        return cli_fail(c, &err);
    CLEANUP(cleanup_free) char *id = xstrdup(run->id);
    CLEANUP(cleanup_free) char *path = run->spec_path ? xstrdup(run->spec_path) : NULL;
    const struct state_run *open = state_run_open(journal_state(j));
    bool left = !open && state_run_left(journal_state(j), id); /* another run's controller stops them */
    if (run->status != RUN_OPEN && !left) {
        if (!c->given[OPT_QUIET])
            fprintf(stderr, "rhrun: run %s has ended already (%s)\n", id, run_status_name(run->status));
        journal_close(j);
        return 0;
    }
    int rc = open && journal_holder(j, NULL, NULL) ? ask_controller(c, j, id) : -1;
    if (rc >= 0) {
        journal_close(j);
        return rc;
    }
    cli_take_overrides(c, state_run_find(journal_state(j), id));
    journal_close(j);
    return cancel_alone(c, path ? path : "");
}

static const enum cli_option_id cancel_options[] = {OPT_TAKE_OVER, OPT_SET, OPT_PARAM, OPT_ON, OPT_COUNT};
const struct cli_command cmd_cancel_command = {
    "cancel",
    "[RUN]",
    "Stop a run: every process of every rank on every node",
    "Sends TERM, waits a grace time, then sends KILL. If the run has no controller,\n"
    "connects to the nodes itself. Exit status 3: it could not reach the nodes that\n"
    "it names; rhrun cancel again does the rest.",
    cancel_options,
    0,
    1,
    true,
    cmd_cancel};
