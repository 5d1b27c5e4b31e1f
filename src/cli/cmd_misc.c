/* rhrun schema, doctor, help; the table of commands. */
#include "internal.h"

#include <libssh2.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct cli_command cmd_run_command, cmd_validate_command, cmd_plan_command, cmd_runs_command,
    cmd_status_command, cmd_show_command, cmd_logs_command, cmd_attach_command, cmd_cancel_command, cmd_result_command,
    cmd_completion_command, cmd_import_command;
extern const char rhrun_events_schema[], rhrun_plan_schema[];

static int cmd_schema(struct cli *c)
{
    const char *which = c->word_count ? c->words[0] : "job";
    struct error err = ERROR_INIT;
    if (strcmp(which, "job") == 0) {
        fputs(spec_schema_text(), stdout);
    } else if (strcmp(which, "events") == 0) {
        fputs(rhrun_events_schema, stdout);
    } else if (strcmp(which, "plan") == 0) {
        fputs(rhrun_plan_schema, stdout);
    } else {
        error_set(&err, ERROR_USAGE, "there is no schema \"%s\"", which);
        error_hint(&err, "job, events or plan");
        cli_print_error(c, &err);
        return 2;
    }
    return 0;
}

static const enum cli_option_id no_options[] = {OPT_COUNT};
static const struct cli_command cmd_schema_command = {
    "schema", "[job|events|plan]", "Print the JSON Schema of specs, events or plans", NULL, no_options, 0, 1,
    false,    cmd_schema};

/* ---- doctor ---- */

struct finding {
    const char *what, *state, *text; /* state: ok, warning, error */
};
struct findings {
    struct finding items[1024];
    size_t count;
};

static void find(struct findings *f, const char *what, const char *state, const char *text)
{
    if (f->count < ARRAY_LEN(f->items))
        f->items[f->count++] = (struct finding){what, state, text};
}

static const char *program_path(struct arena *arena, const char *name)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        char *full = arena_printf(arena, "%.*s/%s", (int)len, path, name);
        if (access(full, X_OK) == 0)
            return full;
        path += len + (path[len] == ':');
    }
    return NULL;
}

static void check_here(struct cli *c, struct findings *f)
{
    struct error err = ERROR_INIT;
    char *home = journal_home(&err);
    find(f, "rhrun", "ok",
         arena_printf(c->arena, "%s; libssh2 %s, SQLite %s", RHRUN_VERSION, libssh2_version(0), sqlite3_libversion()));
    if (!home)
        find(f, "state directory", "error", arena_strdup(c->arena, err.text));
    else if (access(home, W_OK) < 0)
        find(f, "state directory", "error", arena_printf(c->arena, "%s cannot be written", home));
    else
        find(f, "state directory", "ok", arena_strdup(c->arena, home));
    free(home);
    static const char *const programs[][2] = {
        {"ssh", "without it ~/.ssh/config is not read and transport: openssh cannot be used"},
        {"ssh-agent", "without it keys with a passphrase and RSA keys cannot be used"},
        {"ssh-add", "without it keys with a passphrase and RSA keys cannot be used"}};
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        const char *path = program_path(c->arena, programs[i][0]);
        find(f, programs[i][0], path ? "ok" : "warning",
             path ? path : arena_printf(c->arena, "not found: %s (Debian: openssh-client)", programs[i][1]));
    }
    if (getenv("SSH_AUTH_SOCK"))
        find(f, "your ssh-agent", access(getenv("SSH_AUTH_SOCK"), R_OK) == 0 ? "ok" : "warning",
             getenv("SSH_AUTH_SOCK"));
}

static void on_finished(void *arg)
{
    loop_stop(arg);
}

static void check_nodes(struct cli *c, struct plan *plan, struct findings *f)
{
    struct loop *loop = loop_create();
    struct run_options o = {.mode = RUN_LOOK, .plan = plan};
    struct error err = ERROR_INIT;
    cli_run_options(c, &o);
    struct run *r = run_create(loop, &o, on_finished, loop);
    if (run_start(r, &err) < 0) {
        find(f, "nodes", "error", arena_strdup(c->arena, err.text));
        return;
    }
    loop_run(loop);
    for (uint32_t n = 0; n < plan->node_count; n++) {
        struct run_node_view v;
        run_node(r, n, &v);
        const char *what = arena_printf(c->arena, "node %u (%s)", n, v.name);
        if (!v.facts || v.state == NODE_FAILED) {
            find(f, what, "error", arena_strdup(c->arena, v.error ? v.error : "no answer"));
            continue;
        }
        int64_t skew = (int64_t)(wall_ms() - v.facts->wall_ms);
        bool low = v.facts->disk_free_bytes<(1u << 30), off = skew> 5000 || skew < -5000;
        find(f, what, low || off ? "warning" : "ok",
             arena_printf(c->arena, "%s, %s %s, %u cpus, %.1f GiB memory, %.1f GiB free disk%s, %u gpu%s, python %s%s",
                          v.facts->os, v.facts->arch, v.facts->kernel, v.facts->cpus,
                          (double)v.facts->memory_bytes / (1u << 30), (double)v.facts->disk_free_bytes / (1u << 30),
                          low ? " (low)" : "", v.facts->gpu_count, v.facts->gpu_count == 1 ? "" : "s",
                          v.facts->python[0] ? v.facts->python_version[0] ? v.facts->python_version : v.facts->python
                                             : "none",
                          off ? ", its clock differs by over 5 s" : ""));
    }
    run_destroy(r);
    loop_destroy(loop);
}

static int cmd_doctor(struct cli *c)
{
    static struct findings f;
    struct spec *spec;
    struct plan *plan;
    bool bad = false;
    check_here(c, &f);
    if (c->word_count) {
        int rc = cli_load_spec(c, c->words[0], &spec);
        if (rc == 0)
            rc = cli_plan(c, spec, NULL, &plan);
        if (rc)
            return rc;
        check_nodes(c, plan, &f);
    }
    struct buf b = {0};
    if (c->given[OPT_JSON])
        buf_putc(&b, '[');
    for (size_t i = 0; i < f.count; i++) {
        const struct finding *x = &f.items[i];
        bad = bad || strcmp(x->state, "error") == 0;
        if (c->given[OPT_JSON]) {
            buf_printf(&b, "%s{\"what\":", i ? "," : "");
            buf_json_string(&b, x->what, strlen(x->what));
            buf_printf(&b, ",\"state\":\"%s\",\"text\":", x->state);
            buf_json_string(&b, x->text, strlen(x->text));
            buf_putc(&b, '}');
        } else {
            buf_printf(&b, "%-7s  %s: %s\n", x->state, x->what, x->text);
        }
    }
    if (c->given[OPT_JSON])
        buf_puts(&b, "]\n");
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    return bad ? 3 : 0;
}

static const enum cli_option_id doctor_options[] = {OPT_SET, OPT_PARAM, OPT_ON, OPT_COUNT};
static const struct cli_command cmd_doctor_command = {
    "doctor",
    "[SPEC]",
    "Check this machine, and with a SPEC its nodes",
    "Exit status 0, or 3 when something would keep a job from running.",
    doctor_options,
    0,
    1,
    false,
    cmd_doctor};

/* ---- help and the table ---- */

static int cmd_help(struct cli *c)
{
    const struct cli_command *cmd = c->command;
    struct error err = ERROR_INIT;
    if (c->word_count) {
        cmd = NULL;
        for (size_t i = 0; cli_commands[i]; i++)
            if (strcmp(cli_commands[i]->name, c->words[0]) == 0)
                cmd = cli_commands[i];
    }
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

const struct cli_command *const cli_commands[] = {
    &cmd_run_command,    &cmd_validate_command,   &cmd_plan_command,   &cmd_show_command,
    &cmd_runs_command,   &cmd_status_command,     &cmd_logs_command,   &cmd_attach_command,
    &cmd_cancel_command, &cmd_result_command,     &cmd_doctor_command, &cmd_schema_command,
    &cmd_import_command, &cmd_completion_command, &cmd_help_command,   NULL,
};

int cli_main(int argc, char **argv)
{
    struct cli c = {.program = "rhrun", .arena = arena_create()};
    struct error err = ERROR_INIT;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool plain = (no_color && *no_color) || !term || !*term || strcmp(term, "dumb") == 0;
    c.color_out = isatty(1) && !plain;
    c.color_err = isatty(2) && !plain;
    int rc;
    if (cli_parse(&c, argc, argv, &err) < 0) {
        cli_print_error(&c, &err);
        rc = cli_exit_status(&err);
    } else {
        if (c.given[OPT_NO_COLOR])
            c.color_out = c.color_err = false;
        if (c.given[OPT_VERSION]) {
            printf("rhrun %s\n", RHRUN_VERSION);
            rc = 0;
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
