/* rhrun schema, help; the table of commands. */
#include "internal.h"

#include "rhrun/provider.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct cli_command cmd_init_command, cmd_run_command, cmd_validate_command, cmd_plan_command,
    cmd_runs_command, cmd_status_command, cmd_show_command, cmd_logs_command, cmd_attach_command, cmd_cancel_command,
    cmd_result_command, cmd_completion_command, cmd_import_command, cmd_doctor_command, cmd_prices_command,
    cmd_down_command, cmd_ssh_command, cmd_exec_command, cmd_up_command, cmd_clusters_command, cmd_gc_command,
    cmd_metrics_command, cmd_apply_command, cmd_watch_command, cmd_report_command, cmd_rerun_command, cmd_diff_command;
extern const char rhrun_events_schema[], rhrun_plan_schema[], rhrun_apply_schema[];

static int cmd_schema(struct cli *c)
{
    const char *which = c->word_count ? c->words[0] : "job";
    struct error err = ERROR_INIT;
    size_t len;
    if (strcmp(which, "job") == 0) {
        fputs(spec_schema_text(), stdout);
    } else if (strcmp(which, "events") == 0) {
        fputs(rhrun_events_schema, stdout);
    } else if (strcmp(which, "plan") == 0) {
        fputs(rhrun_plan_schema, stdout);
    } else if (strcmp(which, "apply") == 0) {
        fputs(rhrun_apply_schema, stdout);
    } else if (strcmp(which, "lock") == 0) {
        fputs(spec_lock_schema_text(), stdout);
    } else if (strcmp(which, "provider") == 0) {
        fputs(provider_schema_text(&len), stdout);
    } else {
        error_set(&err, ERROR_USAGE, "there is no schema \"%s\"", which);
        error_hint(&err, "job, events, plan, apply, lock or provider");
        cli_print_error(c, &err);
        return 2;
    }
    return 0;
}

static const enum cli_option_id no_options[] = {OPT_COUNT};
static const struct cli_command cmd_schema_command = {"schema",
                                                      "[job|events|plan|apply|lock|provider]",
                                                      "Print the JSON Schema of specs, events, plans, ...",
                                                      NULL,
                                                      no_options,
                                                      0,
                                                      1,
                                                      false,
                                                      cmd_schema};

/* ---- help and the table ---- */

static int cmd_help(struct cli *c)
{
    const struct cli_command *cmd = c->command;
    struct error err = ERROR_INIT;
    if (c->word_count)
        cmd = cli_command_find(c->words[0]);
    if (!cmd) {
        error_set(&err, ERROR_USAGE, "there is no command \"%s\"", c->words[0]);
        cli_print_error(c, &err);
        return 2;
    }
    if (c->argc < 2) {
        cli_help(c, cmd, stderr);
        return 2;
    }
    cli_help(c, cmd, stdout);
    return 0;
}

static const struct cli_command cmd_help_command = {"help", "[COMMAND]", "Show help", NULL,    no_options,
                                                    0,      1,           false,       cmd_help};

/* clang-format off */ /* a line each */
const struct cli_command *const cli_commands[] = {
    &cmd_run_command,
    &cmd_init_command,
    &cmd_rerun_command,
    &cmd_validate_command,
    &cmd_plan_command,
    &cmd_apply_command,
    &cmd_watch_command,
    &cmd_show_command,
    &cmd_runs_command,
    &cmd_status_command,
    &cmd_logs_command,
    &cmd_attach_command,
    &cmd_cancel_command,
    &cmd_up_command,
    &cmd_down_command,
    &cmd_clusters_command,
    &cmd_gc_command,
    &cmd_ssh_command,
    &cmd_exec_command,
    &cmd_result_command,
    &cmd_metrics_command,
    &cmd_diff_command,
    &cmd_report_command,
    &cmd_doctor_command,
    &cmd_prices_command,
    &cmd_schema_command,
    &cmd_import_command,
    &cmd_completion_command,
    &cmd_help_command,
    NULL,
};
/* clang-format on */

int cli_main(int argc, char **argv, const struct cli_build *build)
{
    struct error err = ERROR_INIT, told = ERROR_INIT;
    struct cli c = {.program = "rhrun", .arena = arena_create(), .told = &told, .build = build};
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool plain = (no_color && *no_color) || !term || !*term || strcmp(term, "dumb") == 0;
    c.color_out = isatty(1) && !plain;
    c.color_err = isatty(2) && !plain;
    int rc;
    if (cli_parse(&c, argc, argv, &err) < 0) {
        rc = cli_fail(&c, &err);
    } else {
        if (c.given[OPT_NO_COLOR])
            c.color_out = c.color_err = false;
        if (c.given[OPT_VERSION]) {
            rc = cli_version(&c);
        } else if (c.given[OPT_HELP]) {
            cli_help(&c, c.command, stdout);
            rc = 0;
        } else {
            rc = c.command->run(&c);
        }
    }
    if (fflush(stdout) != 0 && rc == 0)
        rc = 3;
    for (size_t i = 0; i < OPT_COUNT; i++)
        free(c.values[i]);
    free(c.words);
    arena_destroy(c.arena);
    return rc;
}
