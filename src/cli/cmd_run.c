/* rhrun [run] SPEC: runs the job until it is done. */
#include "renting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_HELD = 4 };
enum { DEADLINE_GRACE_MS = 120000, DEADLINE_SHARE = 10 /* at most this part of max_hours */ };

struct controller {
    struct cli *c;
    struct loop *loop;
    struct spec *spec;
    struct roster *roster;
    struct sources *sources;
    struct plan *plan;
    struct journal *journal;
    struct session *session;
    struct run *run;
    struct renting renting; /* if the spec rents machines */
    struct cli_printer *printer;
    struct loop_signal *signals[4];
    bool detach_wanted;
    bool uses;                   /* the machines exist, and are used */
    bool replanned;              /* the machines were rented by this process, for another plan */
    struct loop_timer *deadline; /* of the machines */
    bool leaves;                 /* the run is over, and its machines are given back */
    bool open;                   /* the last run is left open */
    bool ended;                  /* the last run is closed, not left open */
    uint32_t rented;             /* the rented alternative of any_of, if the plan is for another one; else 0 */
    int detached_fd;             /* of a background controller: it reports its start there */
};

static void on_finished(void *arg)
{
    struct controller *s = arg;
    loop_stop(s->loop);
}

/* The output of a controller without a terminal goes to the job's folder. */
static void redirect_to_log(struct controller *s)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/controller.log", journal_path(s->journal));
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    fflush(NULL);
    dup2(fd, 1);
    dup2(fd, 2);
    close(fd);
}

static bool takes_cancel(struct controller *s)
{
    bool cancel = false;
    for (char *what; (what = journal_take_request(s->journal)) != NULL; free(what))
        cancel = cancel || strcmp(what, "cancel") == 0;
    return cancel;
}

/* Outside events: Ctrl-C, kill, the end of the terminal, requests of other commands. */
static void on_signal(void *arg, int signum)
{
    struct controller *s = arg;
    if (!s->run || s->leaves) {
        if (signum == SIGINT || signum == SIGTERM || (signum == SIGUSR1 && takes_cancel(s)))
            renting_interrupt(&s->renting);
        return;
    }
    if (signum == SIGHUP) { /* the terminal is gone: continue without it */
        if (s->printer)
            cli_printer_background(s->printer);
        redirect_to_log(s);
        return;
    }
    if (signum != SIGUSR1) {
        if (s->printer)
            cli_printer_stopping(s->printer);
        run_ask_stop(s->run, signum);
        return;
    }
    if (takes_cancel(s))
        run_ask_stop(s->run, SIGTERM);
}

/* The key d: this process lets go, and a controller without a terminal takes over. */
static void on_detach_key(void *arg)
{
    struct controller *s = arg;
    s->detach_wanted = true;
    run_ask_detach(s->run);
}

static void watch_signals(struct controller *s)
{
    static const int list[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        s->signals[i] = loop_signal_create(s->loop, list[i], on_signal, s, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* --json ends with one such line in every case. */
static void say_json_result(struct cli *c, const char *run, const char *status, int exit_status,
                            const struct error *err, const struct run_result *res)
{
    struct buf b = {0};
    if (c->given[OPT_JSON]) {
        cli_json_result(&b, run, status, exit_status, err, res);
        fwrite(b.data, 1, b.len, stdout);
        fflush(stdout);
    }
    buf_free(&b);
}

/* An end before there was a run. */
static int fail(struct cli *c, const struct error *err, int exit_status)
{
    if (c->given[OPT_JSON])
        say_json_result(c, NULL, NULL, exit_status, err, NULL);
    else
        cli_print_error(c, err);
    return exit_status;
}

/* The hosts are no input of the job, so other hosts alone do not make it stale; but people need to know. */
static void say_other_hosts(const struct controller *s)
{
    const struct state *state = journal_state(s->journal);
    for (uint32_t n = 0; n < s->plan->node_count && n < state->node_count; n++) {
        const char *was = state->nodes[n].host, *is = roster_name(s->roster, n);
        if (!was || str_eq(was, is))
            continue;
        fprintf(stderr, "  it was done on %s%s, not on %s: --again launches it there\n", was,
                n + 1 < s->plan->node_count ? ", ..." : "", is);
        return;
    }
}

/* The given command, with the option that launches again: "rhrun job.yaml -p lr=7 --again". */
static const char *command_again(struct controller *s)
{
    struct cli *c = s->c;
    const struct spec_overrides o = cli_overrides(c);
    const char *line = run_command_line(o.arg_count > 0 ? "run --again" : NULL, s->spec->path, &o, c->arena);
    return !str_is_printable(line) ? "the same command with --again"
           : o.arg_count > 0       ? line
                                   : arena_printf(c->arena, "%s --again", line);
}

static void say_nothing_to_do(struct controller *s, const struct state_run *done, const struct run_result *res)
{
    char when[32];
    struct cli *c = s->c;
    cli_time(done->closed_ms, when);
    if (c->given[OPT_JSON]) {
        printf("{\"type\":\"nothing_to_do\",\"run\":\"%s\",\"since_ms\":%llu,\"verified_nodes\":%u,\"unverified_"
               "nodes\":%u}\n",
               done->id, (unsigned long long)done->closed_ms, res->verified_nodes, res->unverified_nodes);
        say_json_result(c, done->id, run_status_name(RUN_DONE), 0, NULL, NULL);
        return;
    }
    if (res->unverified_nodes > 0 && !s->spec->rent && !c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: warning: the set-up could not be verified on %u of %u nodes: %s\n",
                res->unverified_nodes, res->unverified_nodes + res->verified_nodes,
                res->unverified_reason ? res->unverified_reason : "?");
    if (!c->given[OPT_QUIET])
        fprintf(stderr,
                "rhrun: nothing to do: done since %s (run %s)%s\n  to launch it again: %s; to do everything again: "
                "--fresh\n",
                when, done->id, res->unverified_nodes ? "" : ", set-up verified on every node", command_again(s));
    if (!c->given[OPT_QUIET] && !s->spec->rent)
        say_other_hosts(s);
}

static const char *label_of(const struct plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (strcmp(plan->steps[i].name, name) == 0)
            return plan->steps[i].label;
    return name;
}

/* What went wrong, with the last lines of the worker that failed first unless they are on the screen already. */
static void say_result(struct controller *s, int rc)
{
    const struct run_result *res = run_result(s->run);
    struct cli *c = s->c;
    struct error err = res->error;
    cli_group_faults(c, s->run, s->plan, &err);
    if (c->given[OPT_JSON]) {
        say_json_result(c, run_id(s->run), run_status_name(res->status), rc, &err, res);
        return;
    }
    if (res->error.code == ERROR_NONE)
        return;
    if (res->has_cause && res->status == RUN_FAILED && res->cause_tail && res->cause_tail[0] && !c->given[OPT_QUIET] &&
        !cli_printer_has_shown(s->printer, res->cause_step, res->cause_node, res->cause_rank)) {
        fprintf(stderr, "rhrun: last lines of %s", label_of(s->plan, res->cause_step));
        if (res->cause_has_rank)
            fprintf(stderr, ", rank %u,", res->cause_rank);
        fprintf(stderr, " on %s:\n%s%s", res->cause_node, res->cause_tail, str_ends(res->cause_tail, "\n") ? "" : "\n");
    }
    cli_print_error(c, &err);
}

/* ---- rented machines under a run ---- */

static void on_node_lost(void *arg, uint32_t node)
{
    struct controller *s = arg;
    if (!s->leaves)
        rent_look(s->renting.cluster, node);
}

static void on_replace(void *arg, uint32_t node)
{
    struct controller *s = arg;
    if (!renting_replace(&s->renting, node, "replace_node"))
        run_machine_none(s->run, node);
}

static void on_machine_lost(void *arg, uint32_t node)
{
    struct controller *s = arg;
    if (s->run)
        run_machine_gone(s->run, node);
}

static void on_unreplaced(void *arg, uint32_t node)
{
    struct controller *s = arg;
    if (s->run)
        run_machine_none(s->run, node);
}

static void on_replaced(void *arg, uint32_t node)
{
    struct controller *s = arg;
    struct error err = ERROR_INIT;
    if (!s->run)
        return;
    if (renting_roster(rent_ledger(s->renting.cluster), s->c->arena, s->roster, &err) == 0) {
        run_machine_new(s->run, node);
        return;
    }
    cli_print_error(s->c, &err);
    run_machine_none(s->run, node);
}

static int execute(struct controller *s, enum run_mode mode, uint32_t flags, bool *ret_started)
{
    struct cli *c = s->c;
    struct run_options o = {.mode = mode, .plan = s->plan, .store = s->sources ? s->sources->store : NULL};
    struct error err = ERROR_INIT;
    cli_run_options(c, &o);
    if (mode == RUN_EXECUTE)
        o.made_of = cli_made_of(c, s->plan, o.store, s->renting.cluster ? rent_ledger(s->renting.cluster) : NULL);
    o.flags = flags | (o.flags & RUN_FLAG_DETACH);
    if (!(flags & RUN_FLAG_FROM))
        o.from_step = NULL;
    if (s->printer && mode == RUN_EXECUTE)
        o.observer = cli_printer_observer(s->printer);
    if (s->renting.cluster)
        o.machines = (struct run_machines){.lost = on_node_lost, .replace = on_replace, .arg = s};
    s->run = run_create(s->session, &o, on_finished, s);
    if (s->printer && mode == RUN_EXECUTE)
        cli_printer_set_run(s->printer, s->run);
    *ret_started = run_start(s->run, &err) == 0;
    if (!*ret_started)
        return fail(c, &err, cli_exit_status(&err));
    if (s->detached_fd >= 0 && mode == RUN_EXECUTE) {
        struct error sync_err = ERROR_INIT;
        journal_sync(s->journal, &sync_err);
        CLEANUP(cleanup_free) char *line = xasprintf("%s\n", run_id(s->run));
        write_all(s->detached_fd, line, strlen(line));
        close(base_steal_fd(&s->detached_fd));
    }
    loop_run(s->loop);
    return run_result(s->run)->exit_status;
}

static void end_run(struct controller *s)
{
    if (s->printer)
        cli_printer_set_run(s->printer, NULL);
    run_destroy(s->run);
    s->run = NULL;
}

/* A run that was killed after its end may have left machines. */
static void give_back_left(struct controller *s)
{
    struct error err = ERROR_INIT;
    char job[17];
    journal_job_id(spec_id_name(s->spec), spec_id_origin(s->spec), job);
    renting_begin(&s->renting, s->c, s->loop);
    if (renting_reconcile(&s->renting, job, true, &err) < 0)
        cli_print_error(s->c, &err);
}

/* Verifies a job that is done; the nodes' answers change only the wording. Rented machines are not asked: they may be
 * gone, and their work is done. */
static int verify(struct controller *s, const struct state_run *done)
{
    bool started;
    if (s->spec->rent) {
        give_back_left(s);
        say_nothing_to_do(s, done, &(struct run_result){.unverified_nodes = s->plan->node_count});
        return 0;
    }
    int rc = execute(s, RUN_VERIFY, 0, &started);
    if (rc == 0)
        say_nothing_to_do(s, done, run_result(s->run));
    end_run(s);
    return rc;
}

/* Read only if something will be started: a finished job needs no secrets. */
static int need_secrets(struct controller *s)
{
    struct error err = ERROR_INIT;
    if (spec_resolve_secrets(s->spec, s->c->arena, &err) == 0)
        return 0;
    fail(s->c, &err, 2);
    return -1;
}

/* One run, with its final lines. another: a second run follows if this one is done. */
static int bring_to_end(struct controller *s, uint32_t flags, bool another)
{
    bool started;
    int rc = execute(s, RUN_EXECUTE, flags, &started);
    const struct run_result *res = run_result(s->run);
    s->ended = started && res->status != RUN_OPEN;
    s->open = started && res->status == RUN_OPEN;
    s->detach_wanted = s->detach_wanted && res->status == RUN_OPEN && res->error.code == ERROR_NONE;
    cli_printer_end(s->printer, s->detach_wanted ? PRINTER_DETACHED : PRINTER_SUMMARY);
    if (started && !s->detach_wanted && !(another && rc == 0))
        say_result(s, rc);
    return rc;
}

/* First shows the output of an unfinished run that nobody has seen; from then on output is shown as it comes. */
static int show_missed(struct controller *s, const char *run)
{
    struct cli *c = s->c;
    struct error err = ERROR_INIT;
    struct cli_logs_end end = {0};
    const struct cli_logs what = {.events = true, .all = c->given[OPT_VERBOSE], .on = true};
    if (c->given[OPT_JSON] || c->given[OPT_DETACHED_FD])
        return 0;
    CLEANUP(cleanup_free) char *id = xstrdup(run);
    int rc = cli_logs_print(c, s->journal, id, &what, &end, &err);
    if (end.interrupted)
        raise(end.interrupted);
    return rc < 0 || end.interrupted ? -1 : 0;
}

/* Early enough to bring home the outputs, but not so early that most of a short limit goes to that. */
static void on_deadline(void *arg)
{
    struct controller *s = arg;
    if (!s->run || s->leaves)
        return;
    if (!s->c->given[OPT_QUIET] && !s->c->given[OPT_JSON])
        fprintf(stderr, "rhrun: max_hours are over: the run is stopped, and its machines are given back\n");
    run_ask_stop(s->run, SIGTERM);
}

static void on_notice(void *arg, uint64_t at_ms)
{
    struct controller *s = arg;
    const struct spec_rent *w = s->spec->rent;
    const uint64_t now = wall_ms(), left = at_ms > now ? at_ms - now : 0;
    const uint64_t whole = w->cluster ? DEADLINE_GRACE_MS * DEADLINE_SHARE : w->max_ms;
    const uint64_t grace = whole / DEADLINE_SHARE < DEADLINE_GRACE_MS ? whole / DEADLINE_SHARE : DEADLINE_GRACE_MS;
    if (!s->deadline)
        s->deadline = loop_timer_create(s->loop, on_deadline, s);
    loop_timer_start(s->deadline, left > grace ? left - grace : 0);
}

/* After this the machines that the spec rents are there. */
static int rent_machines(struct controller *s, bool fetch)
{
    struct cli *c = s->c;
    struct error err = ERROR_INIT;
    char job[17];
    const char *id;
    if (!s->spec->rent)
        return 0;
    journal_job_id(spec_id_name(s->spec), spec_id_origin(s->spec), job);
    renting_begin(&s->renting, c, s->loop);
    s->renting.lost = on_machine_lost;
    s->renting.replaced = on_replaced;
    s->renting.unreplaced = on_unreplaced;
    s->renting.json = c->given[OPT_JSON];
    s->renting.notice = on_notice;
    s->renting.arg = s;
    if (renting_reconcile(&s->renting, job, false, &err) < 0)
        return fail(c, &err, cli_exit_status(&err));
    if (fetch && !s->spec->rent->cluster && renting_find(job, c->arena, &id, &err) == 0 && !id) {
        error_set(&err, ERROR_USAGE, "the machines that have the files of the changed `outputs` were given back");
        error_hint(&err, "rhrun %s --again rents machines, and launches it there", cli_quoted(c, s->spec->path));
        return fail(c, &err, 2);
    }
    const char *by = arena_printf(c->arena, "%s, process %d", cli_owner_name(c->arena), (int)getpid());
    s->renting.quiet = s->renting.quiet || s->replanned;
    s->renting.json = s->renting.json && !s->replanned;
    if ((s->spec->rent->cluster ? renting_borrow(&s->renting, s->spec, s->roster, by, &err)
                                : renting_up(&s->renting, s->spec, s->roster, job, by, &err)) < 0)
        return fail(c, &err, cli_exit_status(&err));
    s->renting.quiet = c->given[OPT_QUIET] || c->given[OPT_JSON];
    s->renting.json = c->given[OPT_JSON];
    const uint32_t rented = renting_alternative(rent_ledger(s->renting.cluster));
    s->rented = rented != s->spec->rent->alternative && !s->spec->rent->cluster ? rented : 0;
    s->uses = !s->rented;
    return 0;
}

/* Gives the machines back, unless another process continues the run. */
static int leave_machines(struct controller *s, int rc)
{
    struct error err = ERROR_INIT;
    if (!s->renting.cluster || s->detach_wanted || (rc && s->renting.failed)) /* that was printed */
        return rc;
    s->renting.json = false; /* the result must be the last line */
    s->leaves = true;        /* the run's last events are still being written: it is destroyed after the journal */
    if (s->open && !renting_has_lost(&s->renting, cli_owner_name(s->c->arena)) && s->renting.cluster) {
        renting_say_kept(&s->renting);
        return rc;
    }
    if (renting_leave(&s->renting, &err) == 0) {
        if (rent_ledger(s->renting.cluster)->stage == FLEET_STAGE_COMPLETE)
            renting_say_stay(&s->renting, s->c);
        return rc;
    }
    cli_print_error(s->c, &err);
    return rc ? rc : cli_exit_status(&err);
}

static int do_job(struct controller *s)
{
    struct cli *c = s->c;
    uint32_t flags = (c->given[OPT_AGAIN] ? RUN_FLAG_AGAIN : 0u) | (c->given[OPT_FRESH] ? RUN_FLAG_FRESH : 0u) |
                     (c->given[OPT_FROM] ? RUN_FLAG_FROM : 0u) | (c->given[OPT_REPLACE] ? RUN_FLAG_REPLACE : 0u);
    const struct state *state = journal_state(s->journal);
    const struct state_run *done = cli_done_run(state, s->plan);
    const struct state_run *open = run_unfinished(state, s->plan);
    bool wants_new = flags & RUN_FLAGS_ANEW;
    if (done && !wants_new)
        return verify(s, done);
    bool fetch = run_fetchable(state, s->plan) && !wants_new && !open;
    if (!fetch && need_secrets(s) < 0)
        return 2;
    cli_warn_sources(c, s->sources);
    int rc = rent_machines(s, fetch);
    if (rc || s->rented)
        return rc;
    if (open && wants_new && (open->flags & flags & RUN_FLAGS_ANEW) == (flags & RUN_FLAGS_ANEW))
        wants_new = false; /* the unfinished run was opened with the same flags */
    if (open && !c->given[OPT_QUIET] && !c->given[OPT_JSON])
        fprintf(stderr, "rhrun: resuming run %s%s\n", open->id, wants_new ? "; the options apply to the next run" : "");
    if (!open || show_missed(s, open->id) == 0)
        cli_printer_keep_place(s->printer, s->journal);
    bool another = open && wants_new;
    rc = bring_to_end(s, flags, another);
    if (another && rc == 0 && !s->detach_wanted) {
        end_run(s);
        rc = bring_to_end(s, flags, false);
    }
    return rc;
}

/* --replace with a live controller: asks it to stop, and waits. A run with the same plan is not replaced. */
static int stop_older(struct controller *s, struct error *err)
{
    char id[17];
    struct journal *j;
    journal_job_id(spec_id_name(s->spec), spec_id_origin(s->spec), id);
    if (journal_open_read(id, &j, err) < 0)
        return err->why == ERROR_WHY_ABSENT ? 0 : -1; /* never run */
    const struct state_run *open = state_run_open(journal_state(j));
    int rc = 0;
    if (open && journal_holder(j, NULL, NULL) && !run_unfinished(journal_state(j), s->plan)) {
        if (!s->c->given[OPT_QUIET] && !s->c->given[OPT_JSON])
            fprintf(stderr, "rhrun: stopping run %s, which has another spec\n", open->id);
        rc = journal_request(j, "cancel", err);
        if (rc < 0 && err->why == ERROR_WHY_ABSENT)
            rc = 0; /* it has just ended by itself */
        while (rc == 0 && journal_holder(j, NULL, NULL)) {
            struct timespec pause = {0, 20000000};
            nanosleep(&pause, NULL);
        }
    }
    journal_close(j);
    return rc;
}

/* For attach: continues that run or does nothing. */
static int check_resume(struct controller *s, struct error *err)
{
    const char *wanted = s->c->value[OPT_RESUME];
    const struct state_run *open = state_run_open(journal_state(s->journal));
    if (!open || !str_eq(open->id, wanted))
        return error_set(err, ERROR_USAGE, "run %s of this job is not open any more", wanted);
    if (run_unfinished(journal_state(s->journal), s->plan))
        return spec_resolve_secrets(s->spec, s->c->arena, err);
    error_set(err, ERROR_USAGE, "\"%s\", or a file that it names, has changed since run %s was started", s->spec->path,
              wanted);
    struct spec_overrides o = run_overrides(open, s->c->arena);
    const char *line = run_command_line("plan", s->spec->path, &o, s->c->arena);
    if (strlen(line) < sizeof err->hint / 2 && str_is_printable(line))
        error_hint(err, "what changed: %s", line);
    else
        error_hint(err, "rhrun plan says what changed, with the options that rhrun status %s names", wanted);
    return -1;
}

static int open_session(struct controller *s, struct error *err)
{
    struct cli *c = s->c;
    if (cli_check_limits(err) < 0)
        return -1;
    s->loop = loop_create();
    struct error none = ERROR_INIT;
    if (s->c->given[OPT_REPLACE] && stop_older(s, &none) < 0) {
        *err = none;
        return -1;
    }
    watch_signals(s);
    if (journal_open(s->loop, spec_id_name(s->spec), spec_id_origin(s->spec), cli_owner_name(c->arena), &s->journal,
                     err) < 0)
        return -1;
    s->session = cli_session(c, s->loop, s->journal);
    if (c->given[OPT_RESUME] && check_resume(s, err) < 0)
        return -1;
    if (s->detached_fd >= 0)
        redirect_to_log(s);
    return 0;
}

static void close_session(struct controller *s)
{
    run_destroy(s->run);
    renting_end(&s->renting);
    loop_timer_destroy(s->deadline);
    session_destroy(s->session);
    cli_printer_destroy(s->printer);
    journal_close(s->journal);
    cli_sources_close(s->sources);
    for (size_t i = 0; i < ARRAY_LEN(s->signals); i++)
        loop_signal_destroy(s->signals[i]);
    loop_destroy(s->loop);
}

/* Removes containers with down: always. The job is still locked, so no other run starts in them meanwhile. */
static int remove_containers(struct controller *s, int rc)
{
    char job[17];
    end_run(s);
    journal_job_id(spec_id_name(s->spec), spec_id_origin(s->spec), job);
    int failed = cli_containers_down(s->c, s->roster, job, false);
    return rc ? rc : failed;
}

/* Before there is a session: the spec and its plan. */
static int prepare(struct controller *s)
{
    struct cli *c = s->c;
    int rc = c->given[OPT_ADOPT] ? cli_adopt(c, c->words[0]) : 0;
    if (rc == 0)
        rc = cli_load_planned_spec(c, c->words[0], &s->spec);
    if (rc == 0) {
        s->roster = roster_create(s->spec, c->arena);
        rc = cli_sources(c, s->spec, s->roster, true, &s->sources);
    }
    if (rc == 0)
        rc = cli_plan(c, s->spec, s->roster, s->sources, &s->plan);
    if (rc == 0 && s->spec->lock)
        rc = s->spec->lock->repeats ? cli_rerun_check(c, s->spec, s->roster, s->plan)
                                    : cli_check_trees(c, s->spec, s->sources);
    if (rc) {
        cli_sources_close(s->sources);
        s->sources = NULL;
        say_json_result(c, NULL, NULL, rc, c->told, NULL);
    }
    return rc;
}

static int in_session(struct controller *s)
{
    struct cli *c = s->c;
    struct error err = ERROR_INIT;
    int rc;
    if (open_session(s, &err) < 0) {
        rc = fail(c, &err, cli_exit_status(&err));
    } else {
        s->printer = cli_printer_create(c, s->loop, s->plan, on_detach_key, s);
        rc = do_job(s);
        if (s->ended)
            rc = remove_containers(s, rc);
        if (!s->rented)
            rc = leave_machines(s, rc);
    }
    close_session(s); /* unlocks the job, so that a background controller can take over */
    return rc;
}

/* The rented alternative of any_of is not the plan's: plan again, as a process does that starts now and finds these
 * machines. The cluster's ledger names the alternative, so a kill changes nothing. */
static void plan_anew(struct controller *s)
{
    struct cli *c = s->c;
    c->alternative = s->rented;
    if (!c->given[OPT_QUIET] && !c->given[OPT_JSON])
        fprintf(stderr, "rhrun: alternative %u of any_of is rented: the job is planned for it\n", s->rented);
    *s = (struct controller){.c = c, .detached_fd = s->detached_fd, .replanned = true};
}

/* The plan failed, so the machines that were rented for it are given back. */
static void give_back_unplanned(const struct controller *s)
{
    struct spec *spec;
    struct controller end = {.c = s->c, .loop = loop_create()};
    if (cli_load_spec(s->c, s->c->words[0], &spec) == 0) {
        end.spec = spec;
        give_back_left(&end);
        renting_end(&end.renting);
    }
    loop_destroy(end.loop);
}

static int cmd_run(struct cli *c)
{
    struct controller s = {.c = c, .detached_fd = -1};
    uint32_t fd;
    if (c->given[OPT_DRY_RUN]) {
        c->command = &cmd_plan_command;
        return c->command->run(c);
    }
    int rc = prepare(&s);
    if (rc)
        return rc;
    if (c->given[OPT_DETACH] && !c->given[OPT_DETACHED_FD]) {
        rc = need_secrets(&s) < 0 ? 2 : 0;
        cli_sources_close(s.sources);
        return rc ? rc : cli_spawn_detached(c);
    }
    if (c->given[OPT_DETACHED_FD] && parse_u32(c->value[OPT_DETACHED_FD], &fd)) {
        s.detached_fd = (int)fd;
        fcntl(s.detached_fd, F_SETFD, FD_CLOEXEC);
    }
    rc = in_session(&s);
    while (rc == 0 && s.rented) {
        plan_anew(&s);
        rc = prepare(&s);
        if (rc == 0)
            rc = in_session(&s);
        if (rc && rc != EXIT_HELD && !s.uses)
            give_back_unplanned(&s);
    }
    if (rc == 0 && !s.detach_wanted && s.spec->lock)
        cli_rerun_compare(c, s.spec);
    if (rc == 0 && !s.detach_wanted && c->given[OPT_LOCK])
        rc = cli_write_lock(c, s.spec);
    return s.detach_wanted ? cli_spawn_detached(c) : rc;
}

static const enum cli_option_id options[] = {OPT_SET,     OPT_PARAM,     OPT_ON,          OPT_AGAIN,  OPT_FRESH,
                                             OPT_FROM,    OPT_DETACH,    OPT_DETACHED_FD, OPT_ADOPT,  OPT_TAKE_OVER,
                                             OPT_REPLACE, OPT_NO_PREFIX, OPT_YES,         OPT_RESUME, OPT_LOCK,
                                             OPT_LOCKED,  OPT_POINT,     OPT_DRY_RUN,     OPT_COUNT};
const struct cli_command cmd_run_command = {
    "run",
    "SPEC [-- ARG...]",
    "Run the job until it is done: check, plan, do what is missing",
    "Finished steps are kept: run the same command again after a crash or an edit,\n"
    "and it does only what is missing or has changed. An unfinished run is resumed.\n"
    "ARGs after -- are appended to the entrypoint's arguments. Ctrl-C stops the job\n"
    "in an orderly way; a second Ctrl-C kills at once. In the live view, d leaves the\n"
    "job running without the terminal; so do --detach and closing the terminal\n"
    "(SIGHUP). --dry-run shows the plan, as rhrun plan does.",
    options,
    1,
    1,
    true,
    cmd_run};
