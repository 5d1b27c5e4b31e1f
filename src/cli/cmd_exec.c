/*
 * rhrun exec: one command on a node, in the same environment as a set-up step.
 *
 * The connection is that of rhrun ssh. The command line there is constant: a few words that read a script from stdin,
 * up to a line that no value can contain, and run it. So no value of the spec, and no secret, is in argv. The rest of
 * stdin belongs to the command. From a pipe a shell reads byte by byte up to each line end, so none of it is lost.
 */
#include "login.h"

#include "rhrun/container.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { TAG_BYTES = 16, CHUNK = 64 << 10, SIGNAL_BASE = 128 };

#define FAIL "__rhrun_fail() { printf 'rhrun: error: %s\\n' \"$1\" >&2; exit 3; }\n"

/* The environment that a step left there is a file of "NAME=value" entries, each ended by a zero byte. A shell cannot
 * hold zero bytes, so od prints all bytes in octal and printf restores them. This environment replaces the shell's own.
 * Variables whose names are invalid in a shell (bash functions) go through `env`. */
static const char read_environment[] =
    "__rhrun_o=$(od -An -v -to1 \"$__rhrun_f\" | tr -d '\\n' | sed 's/ 000/:/g;s/ /\\\\/g' | tr : '\\n')\n"
    "__rhrun_n=$(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p')\n"
    "for __rhrun_v in $__rhrun_n; do (unset \"$__rhrun_v\") 2>/dev/null && unset \"$__rhrun_v\"; done\n"
    "while IFS= read -r __rhrun_v; do\n"
    "    [ -n \"$__rhrun_v\" ] || continue\n"
    "    __rhrun_v=$(printf \"$__rhrun_v.\")\n"
    "    __rhrun_v=${__rhrun_v%.}\n"
    "    case ${__rhrun_v%%=*} in\n"
    "    '' | [0-9]* | *[!A-Za-z0-9_]* | SHELLOPTS | BASHOPTS | UID | EUID | PPID | IFS) set -- \"$@\" \"$__rhrun_v\" "
    ";;\n"
    "    *) export \"$__rhrun_v\" ;;\n"
    "    esac\n"
    "done <<__RHRUN_END\n"
    "$__rhrun_o\n"
    "__RHRUN_END\n";

static void put_line(struct buf *b, const char *before, const char *value, const char *behind)
{
    buf_puts(b, before);
    buf_shell_quote(b, value);
    buf_puts(b, behind);
}

/* The job's folder on the machine is the one whose id is the install id: other machines may share the base folder. */
static void put_left_environment(struct buf *b, const struct login *l, const struct login_facts *f, const char *name)
{
    put_line(b, "__rhrun_i=", f->install, "\n__rhrun_f=\n");
    put_line(b, "for __rhrun_d in ", f->base_dir, "/m/*; do\n");
    buf_puts(b, "    __rhrun_l=\n    read -r __rhrun_l <\"$__rhrun_d/install\" || :\n");
    buf_printf(b, "    [ \"$__rhrun_l\" != \"$__rhrun_i\" ] || __rhrun_f=$__rhrun_d/jobs/%s/env/%s\n", l->job, name);
    buf_puts(b, "done 2>/dev/null\n[ -r \"$__rhrun_f\" ] || __rhrun_fail "
                "'what activate, or the conda environment, leaves is not there: run the job first, it sets the node "
                "up'\n");
    buf_puts(b, read_environment);
}

static void put_assignments(struct buf *b, const struct wire_strings *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const size_t len = strcspn(list->items[i], "=");
        buf_printf(b, "export %.*s=", (int)len, list->items[i]); /* names in the spec are valid shell names */
        buf_shell_quote(b, list->items[i] + len + (list->items[i][len] == '='));
        buf_putc(b, '\n');
    }
}

/* One word is a shell command, as for ssh; several words are a program and its arguments. */
static void put_command(struct buf *b, const struct login *l)
{
    buf_puts(b, "__rhrun_n=$#\n");
    if (l->arg_count == 1) {
        put_line(b, "__rhrun_t=", l->args[0], "\n");
        buf_puts(b, "if command -v bash >/dev/null 2>&1; then set -- \"$@\" bash --norc -c \"$__rhrun_t\" rhrun\n"
                    "else set -- \"$@\" sh -c \"$__rhrun_t\" rhrun; fi\n");
    } else {
        buf_puts(b, "set -- \"$@\"");
        for (size_t i = 0; i < l->arg_count; i++)
            put_line(b, " ", l->args[i], "");
        buf_putc(b, '\n');
    }
    buf_puts(b, "[ \"$__rhrun_n\" = 0 ] || exec env \"$@\"\nexec \"$@\"\n");
}

/* Everything that the script does there before the command. */
static void put_script(struct buf *b, const struct login *l, const struct login_facts *f, const struct wire_run *run,
                       const char *folder)
{
    buf_puts(b, FAIL);
    put_line(b, "cd ", folder, " 2>/dev/null || ");
    put_line(b, "__rhrun_fail ", "the working directory is not there any more: run the job, it brings it", "\n");
    buf_puts(b, "set --\n");
    if (*run->env_in)
        put_left_environment(b, l, f, run->env_in);
    for (uint32_t i = 0; i < run->unset.count; i++)
        buf_printf(b, "unset %s\n", run->unset.items[i]);
    put_assignments(b, &run->env);
    put_assignments(b, &run->secrets);
    if (*run->path_first) {
        put_line(b, "__rhrun_p=", run->path_first, "\n");
        buf_puts(
            b, "case $PATH: in \"$__rhrun_p\":*) ;; *) PATH=$__rhrun_p:${PATH:-/usr/local/bin:/usr/bin:/bin} ;; esac\n"
               "export PATH\n");
    }
    buf_puts(b, "export PWD\n");
    put_command(b, l);
}

/* ---- the way there ---- */

static void bind_nodes(struct cli *c, const struct login *l, const struct plan *plan, struct step_bind *bind)
{
    struct step_node *nodes = arena_array(c->arena, plan->node_count, sizeof *nodes);
    for (uint32_t i = 0; i < plan->node_count; i++) {
        const struct spec_host *host = roster_host(l->roster, i);
        const struct login_facts f = login_facts(c, l, i);
        struct wire_facts *facts = arena_alloc(c->arena, sizeof *facts);
        *facts = (struct wire_facts){.home = arena_strdup(c->arena, f.home),
                                     .base_dir = arena_strdup(c->arena, f.base_dir),
                                     .work_dir = arena_strdup(c->arena, f.work_dir)};
        const char *address = host->address                             ? host->address
                              : f.address                               ? f.address
                              : host->transport == SPEC_TRANSPORT_LOCAL ? "127.0.0.1"
                                                                        : host->host;
        nodes[i] = (struct step_node){facts, host->name, address};
    }
    bind->nodes = nodes;
}

/* The working directory of the chosen run: the last run there may have had other params. */
static const char *folder_of(struct cli *c, const struct login *l, const struct login_facts *f)
{
    const char *slash = f->work_dir ? strrchr(f->work_dir, '/') : NULL;
    return l->host->work_dir ? l->host->work_dir
                             : arena_printf(c->arena, "%.*s/%s", (int)(slash - f->work_dir), f->work_dir, l->work);
}

static int never_there(struct cli *c, const struct login *l, struct error *err)
{
    error_set(err, ERROR_USAGE, "the job was never set up on node \"%s\"", l->host->name);
    error_hint(err, "rhrun %s first: it sets the job up on its nodes", cli_quoted(c, l->spec->path));
    return -1;
}

static int make_script(struct cli *c, struct login *l, struct buf *ret, struct error *err)
{
    struct sources *sources = NULL;
    struct plan *plan;
    struct wire_run run;
    const struct login_facts f = login_facts(c, l, l->node);
    if (!f.install || !f.work_dir || !f.base_dir || !l->work)
        return never_there(c, l, err);
    int rc = cli_sources(c, l->spec, l->roster, false, &sources);
    if (rc == 0)
        rc = cli_plan(c, l->spec, l->roster, sources, &plan);
    if (rc == 0 && l->node >= plan->node_count)
        rc = never_there(c, l, err);
    if (rc == 0 && spec_resolve_secrets(l->spec, c->arena, err) < 0)
        rc = -1;
    if (rc == 0) {
        struct step_bind bind = {.spec = l->spec,
                                 .node = l->node,
                                 .run_id = l->run,
                                 .job_id = l->job,
                                 .work = l->work,
                                 .secrets = l->spec->secrets,
                                 .secret_count = l->spec->secret_count};
        bind_nodes(c, l, plan, &bind);
        rc = step_surroundings(plan, &bind, c->arena, &run, err);
    }
    if (rc == 0)
        put_script(ret, l, &f, &run, folder_of(c, l, &f));
    cli_sources_close(sources);
    return rc;
}

/* Reads lines up to the tag and runs them; input that ends before the tag is no script. One line, for all kinds of
 * shells. */
static const char *first_words(struct cli *c, const char *tag)
{
    return arena_printf(
        c->arena,
        "__rhrun_n=$(printf \"\\nx\");__rhrun_n=${__rhrun_n%%x};__rhrun_e=;while IFS= read -r __rhrun_l;"
        "do [ \"$__rhrun_l\" = %s ]&&break;__rhrun_e=\"$__rhrun_e$__rhrun_l$__rhrun_n\";done;"
        "[ \"$__rhrun_l\" = %s ]||exit 255;eval \"$__rhrun_e\"",
        tag, tag);
}

/* ---- stdin: the script, then our stdin ---- */

struct pass {
    pid_t child;
    int to, signals; /* its stdin, -1 once that is closed; SIGCHLD and signals that end us */
    bool more;       /* our stdin has not ended */
    int status;
    bool ended;
    struct buf out; /* bytes for the child; those from `at` on are not written yet */
    size_t at;
};

static void close_to(struct pass *p)
{
    close(base_steal_fd(&p->to));
    p->more = false;
    p->out.len = p->at = 0;
}

/* At a terminal the child gets the same signals as we do; a signal sent to us alone is passed on. */
static void take_signal(struct pass *p)
{
    struct signalfd_siginfo s;
    while (read(p->signals, &s, sizeof s) == (ssize_t)sizeof s)
        if (s.ssi_signo != SIGCHLD && s.ssi_code <= 0)
            kill(p->child, (int)s.ssi_signo);
    p->ended = p->ended || waitpid(p->child, &p->status, WNOHANG) == p->child;
}

/* Never blocks: signals must be handled while nobody reads. */
static void write_on(struct pass *p)
{
    const ssize_t n = write(p->to, p->out.data + p->at, p->out.len - p->at);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        close_to(p);
    else if (n > 0 && (p->at += (size_t)n) == p->out.len)
        p->out.len = p->at = 0;
    if (p->to >= 0 && p->at == p->out.len && !p->more)
        close_to(p);
}

static void take_stdin(struct pass *p)
{
    buf_reserve(&p->out, CHUNK);
    const ssize_t n = read(0, p->out.data, CHUNK);
    if (n > 0)
        p->out.len = (size_t)n;
    else if (n == 0 || errno != EINTR)
        close_to(p);
}

static int wait_for_end(struct pass *p)
{
    while (!p->ended) {
        const bool full = p->at < p->out.len;
        struct pollfd fds[] = {
            {p->signals, POLLIN, 0}, {p->to, full ? POLLOUT : 0, 0}, {p->more && !full ? 0 : -1, POLLIN, 0}};
        if (poll(fds, ARRAY_LEN(fds), -1) < 0)
            continue;
        if (fds[0].revents)
            take_signal(p);
        if (fds[1].revents & (POLLERR | POLLNVAL)) /* the reader is gone */
            close_to(p);
        else if (fds[1].revents)
            write_on(p);
        else if (fds[2].revents)
            take_stdin(p);
    }
    return WIFSIGNALED(p->status) ? SIGNAL_BASE + WTERMSIG(p->status) : WEXITSTATUS(p->status);
}

/* Runs argv with `in` as its stdin and with the signal settings that we started with. */
static int start(const char *const *argv, int in, const sigset_t *mask, pid_t *ret)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, 0);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, mask);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int rc = posix_spawnp(ret, argv[0], &files, &attr, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return rc;
}

/* Runs argv with the script and then our stdin; returns its exit status. */
static int run_there(struct cli *c, const char *const *argv, const struct buf *head)
{
    static const int list[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct error err = ERROR_INIT;
    struct pass p = {.to = -1, .more = true};
    sigset_t ours, before;
    int ends[2];
    sigemptyset(&ours);
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        sigaddset(&ours, list[i]);
    sigprocmask(SIG_BLOCK, &ours, &before);
    signal(SIGPIPE, SIG_IGN);
    p.signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    int rc = p.signals < 0 || pipe2(ends, O_CLOEXEC) < 0 ? errno : 0;
    if (rc == 0) {
        p.to = ends[1];
        rc = start(argv, ends[0], &before, &p.child);
        close(ends[0]);
    }
    if (rc) {
        error_errno(&err, ERROR_INFRA, rc, "cannot run %s", argv[0]);
        rc = cli_fail(c, &err);
    } else {
        buf_append(&p.out, head->data, head->len);
        fcntl(p.to, F_SETFL, O_NONBLOCK);
        rc = wait_for_end(&p);
    }
    if (p.to >= 0)
        close(p.to);
    if (p.signals >= 0)
        close(p.signals);
    buf_free(&p.out);
    return rc;
}

static int cmd_exec(struct cli *c)
{
    struct error err = ERROR_INIT;
    struct login l;
    struct buf head = {0};
    char tag[2 * TAG_BYTES + 1];
    if (c->arg_count == 0) {
        error_set(&err, ERROR_USAGE, "exec: no command was given");
        error_hint(&err, "the command goes after --: rhrun exec SPEC -- python -V; rhrun ssh SPEC opens a shell");
        return cli_fail(c, &err);
    }
    int rc = login_find(c, true, &l);
    if (rc)
        return rc;
    rc = make_script(c, &l, &head, &err);
    if (rc < 0)
        rc = cli_fail(c, &err);
    if (rc == 0) {
        const struct container_place place = {l.host, l.job, l.node};
        random_hex(tag, TAG_BYTES);
        buf_printf(&head, "%s\n", tag);
        rc = run_there(c, login_argv(c, &place, NULL, first_words(c, tag), false), &head);
    }
    buf_free(&head);
    return rc;
}

static const enum cli_option_id options[] = {OPT_SET, OPT_PARAM, OPT_ON, OPT_COUNT};
const struct cli_command cmd_exec_command = {
    "exec",
    "SPEC|RUN [NODE] -- COMMAND...",
    "One command on a node, in the job's environment",
    "NODE is a name or a number, by default the first. COMMAND finds what a step of\n"
    "set-up finds: the working directory, what activate left, the job's venv, env and\n"
    "secrets; no ranks. One word is a text for a shell, several are a program and its\n"
    "arguments. Where the job has a container, inside of it. stdin, stdout, stderr\n"
    "and the exit status are the command's; 255: ssh did not get there.",
    options,
    1,
    2,
    true,
    cmd_exec};
