/* rhrun logs, attach, cancel: what concerns a run that is or was under way. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int number(struct cli *c, enum cli_option_id id, uint32_t *ret, struct error *err)
{
    if (c->given[id] && !parse_u32(c->value[id], ret))
        return error_set(err, ERROR_USAGE, "--%s: \"%s\" is no number", cli_option_find(id)->name, c->value[id]);
    return 0;
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
    if (number(c, OPT_RANK, &what.rank, &err) < 0 || number(c, OPT_NODE, &what.node, &err) < 0)
        return cli_fail(c, &err);
    what.raw = (what.has_rank || (what.step && what.has_node)) && !what.json;
    if (cli_find_run(c, c->word_count ? c->words[0] : "last", &j, &run, &err) < 0)
        return cli_fail(c, &err);
    CLEANUP(cleanup_free) char *id = xstrdup(run->id);
    struct cli_logs_end end = {0};
    int rc = cli_logs_print(c, j, id, &what, &end, &err);
    journal_close(j);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

static const enum cli_option_id logs_options[] = {OPT_FOLLOW,    OPT_RANK, OPT_STEP,  OPT_NODE,
                                                  OPT_NO_PREFIX, OPT_SET,  OPT_PARAM, OPT_COUNT};
const struct cli_command cmd_logs_command = {
    "logs",
    "[RUN]",
    "Print the workers' output of a run",
    "RUN is an id, a unique prefix, last (the default), or a spec file, of whose runs\n"
    "-p, --set and the words behind -- choose one. Without options: the launch, all\n"
    "its generations in order. --step NAME: the output of that step, --verbose: of\n"
    "every step. --rank R, or --step NAME with --node N: the bytes as they were\n"
    "written, stdout to stdout, stderr to stderr. A terminal gets text and colours\n"
    "only, no other control characters. -f goes on until the run ends; Ctrl-C ends\n"
    "only that (exit status 0).",
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

/* The controller was killed, or this machine restarted: another one goes on, once. */
static int on_alone(void *arg)
{
    struct attached *a = arg;
    struct error err = ERROR_INIT;
    const struct state_run *run = state_run_find(journal_state(a->journal), a->run);
    const char *path = run && run->spec_path ? run->spec_path : "";
    if (a->resumed) {
        error_set(&err, ERROR_INFRA, "the controller of run %s has ended, and the run is not at its end", a->run);
        error_hint(&err, "what it said: %s/controller.log; rhrun %s goes on", journal_path(a->journal), path);
        return cli_fail(a->c, &err);
    }
    a->resumed = true;
    cli_take_overrides(a->c, run);
    pid_t pid = 0;
    int rc = cli_resume_detached(a->c, a->run, path, &pid);
    if (rc == 0 && a->talk)
        fprintf(stderr, "rhrun: run %s had no controller any more; one goes on with it now (pid %d)\n", a->run,
                (int)pid);
    if (rc == 0 || journal_holder(a->journal, NULL, NULL) || journal_refresh(a->journal, NULL) < 0)
        return 0; /* or another one was faster */
    run = state_run_find(journal_state(a->journal), a->run);
    if (!run || run->status != RUN_OPEN)
        return 0;
    error_set(&err, ERROR_INFRA, "run %s has no controller any more, and none could go on with it", a->run);
    error_hint(&err, "what runs on its nodes runs on; to stop it: rhrun cancel %s", a->run);
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
    "Prints the output that was not shown yet and what comes, and exits with the\n"
    "job's status, or 0 when Ctrl-C ended the following. It begins where the terminal\n"
    "stopped that showed the run last; --from-start, and --json, show everything. An\n"
    "open run whose controller was killed gets another one, in the background.",
    attach_options,
    0,
    1,
    true,
    cmd_attach};

/* ---- cancel ---- */

/* 0, or 3: there are nodes on which the run may still be at work. */
static int cancelled_everywhere(struct cli *c, const struct state *s, const char *id)
{
    if (!state_run_left(s, id))
        return 0;
    if (!c->given[OPT_QUIET])
        fprintf(stderr, "  hint: what runs there goes on until then; once it can be reached again: rhrun cancel %s\n",
                id);
    return 3;
}

/* With a live controller: ask it, and wait until it has closed the run. -1: it went away without that. */
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
        if (journal_refresh(j, &err) < 0) /* after the look at the holder: it may have closed the run before it ended */
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

/* Without one: become the controller for as long as it takes to stop what is left on the nodes. */
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
    if (journal_open(loop, spec->name, spec->origin, cli_owner_name(c->arena), &journal, &err) < 0)
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
    bool left = !open && state_run_left(journal_state(j), id); /* another run's controller stops what it finds there */
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
    "TERM, a grace time, KILL. With no live controller, it goes to the nodes itself.\n"
    "Exit status 3: nodes that it names were not reached; cancel again does the rest.",
    cancel_options,
    0,
    1,
    true,
    cmd_cancel};

/* ---- completion ---- */

static void words_of(const struct cli_command *cmd, FILE *to)
{
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_command_has(cmd, cli_options[i].id) && !cli_options[i].hidden)
            fprintf(to, " --%s", cli_options[i].name);
}

static int cmd_completion(struct cli *c)
{
    const char *shell = c->words[0];
    if (strcmp(shell, "bash") == 0 || strcmp(shell, "zsh") == 0) {
        if (strcmp(shell, "zsh") == 0)
            printf("#compdef rhrun\nautoload -U +X bashcompinit && bashcompinit\n");
        printf("_rhrun() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words\n  COMPREPLY=()\n  if [ \"$COMP_CWORD\" = 1 ] "
               "&& [ \"${cur#-}\" = \"$cur\" ]; then\n"
               "    COMPREPLY=($(compgen -W \"");
        for (size_t i = 0; cli_commands[i]; i++)
            printf("%s%s", i ? " " : "", cli_commands[i]->name);
        printf("\" -- \"$cur\") $(compgen -f -X '!*.y*ml' -- \"$cur\") $(compgen -d -- \"$cur\"))\n    return\n  fi\n  "
               "case ${COMP_WORDS[1]} in\n");
        for (size_t i = 0; cli_commands[i]; i++) {
            printf("    %s) words='", cli_commands[i]->name);
            words_of(cli_commands[i], stdout);
            printf("' ;;\n");
        }
        printf("    *) words='");
        words_of(cli_commands[0], stdout);
        printf(
            "' ;;\n  esac\n  if [ \"${cur#-}\" != \"$cur\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"));\n"
            "  else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n}\ncomplete -o filenames -F _rhrun rhrun\n");
        return 0;
    }
    if (strcmp(shell, "fish") == 0) {
        for (size_t i = 0; cli_commands[i]; i++) {
            printf("complete -c rhrun -n __fish_use_subcommand -a %s -d '%s'\n", cli_commands[i]->name,
                   cli_commands[i]->summary);
            for (size_t k = 0; k < cli_option_count; k++)
                if (cli_command_has(cli_commands[i], cli_options[k].id) && !cli_options[k].hidden)
                    printf("complete -c rhrun -n '__fish_seen_subcommand_from %s' -l %s%s -d '%s'\n",
                           cli_commands[i]->name, cli_options[k].name, cli_options[k].value ? " -r" : "",
                           cli_options[k].help);
        }
        return 0;
    }
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_USAGE, "there is no completion for \"%s\"", shell);
    error_hint(&err, "bash, zsh or fish");
    return cli_fail(c, &err);
}

static const enum cli_option_id completion_options[] = {OPT_COUNT};
const struct cli_command cmd_completion_command = {"completion",
                                                   "SHELL",
                                                   "Print a completion script for bash, zsh or fish",
                                                   "For bash: source <(rhrun completion bash)",
                                                   completion_options,
                                                   1,
                                                   1,
                                                   false,
                                                   cmd_completion};
