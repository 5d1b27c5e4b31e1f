/*
 * Checks of `validate` beyond the rules of a spec: mistakes that need a process to find (shell text that bash refuses),
 * and possible mistakes that are none on another machine, or may be intended (warnings).
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BASH_SAYS_MAX = 8192, BASH_TEXTS_MAX = 200, BASH_TIMEOUT_MS = 5000 };

void here_check_ssh_file(struct load *l, const char *key, struct place place, const char *written, const char *path)
{
    const bool config = str_eq(key, "ssh_config");
    if (!l->over->thorough || access(path, F_OK) == 0 || l->spec->lock)
        return;
    struct diagnostic *d = diagnostics_add(l->diagnostics, SEVERITY_WARNING, place,
                                           "there is no %s \"%s\" on this machine", config ? key : "key", written);
    const char *near = near_path(l, path, false), *slash = strrchr(written, '/');
    if (near)
        diagnostic_hint(d, "did you mean %.*s%s?", slash ? (int)(slash + 1 - written) : 0, written, near);
    else
        diagnostic_hint(d, "%s",
                        config ? "without ssh_config ssh's own configuration counts; none: no configuration"
                               : "without identity_file the keys of ssh's own configuration are tried");
}

/* ---- ~ ---- */

/* Finds "~" and "~/..." in text that no shell expands. */
static void check_tilde(struct load *l, const struct spec_text *text, const char *key, const char *hint)
{
    const struct expr_context ctx = {.spec = l->spec};
    const char *value = NULL;
    if (!text->text || expr_expand(text, EXPR_PLAIN, &ctx, true, l->arena, &value, NULL) != EXPR_OK)
        return;
    if (*value != '~' || (value[1] && value[1] != '/'))
        return;
    struct diagnostic *d = diagnostics_add(l->diagnostics, SEVERITY_WARNING, text->place,
                                           "nothing expands the ~ of \"%s\" in %s", value, key);
    diagnostic_hint(d, "%s", hint);
}

static void check_env(struct load *l, const struct spec_env *env, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!env[i].from_caller)
            check_tilde(l, &env[i].value, "env",
                        "write the whole path, or export the variable in activate, which is shell text");
}

static void check_tildes(struct load *l, const struct spec_entrypoint *e)
{
    static const char hint[] = "write the whole path, or use run: TEXT, in which the node's shell expands it";
    for (size_t i = 0; e->kind != ENTRY_FUNCTION && i < e->args.count; i++)
        check_tilde(l, &e->args.items[i], "args", hint);
    for (size_t i = 1; i < e->command.count; i++)
        check_tilde(l, &e->command.items[i], "command", hint);
    check_env(l, e->env, e->env_count);
}

/* ---- shell text ---- */

/* The text with a stand-in for each expression; NULL if that is not possible. */
static const char *with_values(struct load *l, const struct spec_text *text)
{
    const struct spec at =
        l->spec->sweep && l->spec->sweep->point_count ? spec_at_point(l->spec, &l->spec->sweep->points[0]) : *l->spec;
    const struct expr_context ctx = {.spec = &at,
                                     .has_node = true,
                                     .node_name = "x",
                                     .node_address = "x",
                                     .has_rank = true,
                                     .world_size = 1,
                                     .local_world_size = 1,
                                     .role = "x",
                                     .role_size = 1,
                                     .has_peer = true,
                                     .peer_address = "x",
                                     .run = "x",
                                     .point_dir = "/x"};
    const char *value = NULL;
    struct error err = ERROR_INIT;
    return expr_expand(text, EXPR_SHELL, &ctx, false, l->arena, &value, &err) == EXPR_OK ? value : NULL;
}

/* Reads at most BASH_SAYS_MAX bytes; a process that prints more, or nothing for a long time, is killed. */
static void read_says(int fd, pid_t pid, struct buf *says)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char chunk[1024];
    ssize_t n = 1;
    while (n > 0 && says->len < BASH_SAYS_MAX) {
        if (poll(&p, 1, BASH_TIMEOUT_MS) == 0)
            break;
        n = read(fd, chunk, sizeof chunk);
        if (n > 0)
            buf_append(says, chunk, (size_t)n);
    }
    if (n != 0)
        kill(pid, SIGKILL);
}

/* Whether every line has only words that no shell could refuse, as in most specs: then no process is needed. */
static bool is_plain_words(const char *text)
{
    static const char *const reserved[] = {"if",   "then", "else",     "elif",  "fi",    "case",
                                           "esac", "for",  "select",   "while", "until", "do",
                                           "done", "in",   "function", "time",  "coproc"};
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+%@-";
    while (*text) {
        const size_t blank = strspn(text, " \t\n"), len = strspn(text + blank, plain);
        const char *word = text + blank;
        text = word + len;
        if (*text && !strchr(" \t\n", *text))
            return false;
        for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
            if (strlen(reserved[i]) == len && memcmp(word, reserved[i], len) == 0)
                return false;
    }
    return true;
}

/* Runs bash with its standard input from the file (NULL: none). Returns its exit status, or -1 if there is no bash or
 * it does not end; its output is appended to says. */
static int run_bash(char *const *argv, FILE *file, struct buf *says)
{
    CLEANUP(cleanup_free) char *path = xasprintf("PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    char *const env[] = {path, (char[]){"LC_ALL=C"}, NULL}; /* no BASH_ENV, no functions */
    CLEANUP(cleanup_close) int in = -1;
    CLEANUP(cleanup_close) int out = -1;
    int fds[2], status = -1, rc;
    if (pipe2(fds, O_CLOEXEC) != 0)
        return -1;
    in = fds[0];
    out = fds[1];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (file)
        posix_spawn_file_actions_adddup2(&actions, fileno(file), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    cleanup_close(&out);
    out = -1;
    if (rc != 0)
        return -1;
    read_says(in, pid, says);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

/* The output of `bash -n` for the text. Returns its exit status, or -1 if there is no suitable bash: versions before 4
 * refuse text that nodes accept. */
static int ask_bash(const char *text, struct buf *says)
{
    const bool extglob = strstr(text, "extglob") != NULL; /* with -n bash does not run the shopt that enables it */
    char *const plain[] = {(char[]){"bash"}, (char[]){"-n"}, (char[]){"/dev/stdin"}, NULL};
    char *const with_extglob[] = {(char[]){"bash"}, (char[]){"-O"},         (char[]){"extglob"},
                                  (char[]){"-n"},   (char[]){"/dev/stdin"}, NULL};
    char *const version[] = {(char[]){"bash"}, (char[]){"-c"}, (char[]){"[ \"${BASH_VERSINFO[0]}\" -ge 4 ]"}, NULL};
    FILE *file = tmpfile();
    int status = -1;
    if (!file)
        return -1;
    if (fputs(text, file) >= 0 && fflush(file) == 0 && lseek(fileno(file), 0, SEEK_SET) == 0)
        status = run_bash(extglob ? with_extglob : plain, file, says);
    fclose(file);
    struct buf none = {0};
    if (status > 0 && run_bash(version, NULL, &none) != 0)
        status = -1;
    buf_free(&none);
    return status;
}

/* The place of a line of a literal block ("|"), else of the whole value. */
static struct place line_of(const struct spec_text *text, unsigned line)
{
    struct place place = text->place;
    const char *first = place.source ? source_byte(place.source, place.line, place.column) : NULL;
    const char *at = line && first && *first == '|' ? source_byte(place.source, place.line + line, 1) : NULL;
    if (!at || place.line + line >= place.end_line + 1)
        return place;
    const size_t blank = strspn(at, " \t"), len = strcspn(at + blank, "\n");
    place.line += line;
    place.column = (uint32_t)blank + 1;
    place.end_line = place.line;
    place.end_column = place.column;
    struct place end = place;
    place_advance(&end, at + blank, at + blank + len);
    place.end_column = end.column;
    return place;
}

static void check_shell(struct load *l, const struct spec_text *text, unsigned *asked)
{
    const char *value = text->text && *asked < BASH_TEXTS_MAX ? with_values(l, text) : NULL;
    struct buf says = {0};
    if (!value || is_plain_words(value))
        return;
    ++*asked;
    buf_puts(&says, "");
    if (ask_bash(value, &says) > 0) {
        buf_putc(&says, 0);
        unsigned lines = 1, number = 0;
        for (const char *p = value; *p; p++)
            lines += *p == '\n' && p[1];
        const char *line = strstr(says.data, "line "), *colon = line ? strchr(line, ':') : NULL;
        if (line)
            number = (unsigned)strtoul(line + 5, NULL, 10);
        if (number > lines) /* the end of the text */
            number = 0;
        const char *why = colon ? colon + 1 + strspn(colon + 1, " ") : says.data;
        const struct place place = line_of(text, number);
        struct diagnostic *d = fault(l, place, "bash cannot read this: %.*s", (int)strcspn(why, "\n"), why);
        if (number > 1 && place.line == text->place.line)
            diagnostic_hint(d, "the fault is in line %u of the text", number);
    }
    buf_free(&says);
}

static void check_shells(struct load *l)
{
    const struct spec *spec = l->spec;
    unsigned asked = 0;
    check_shell(l, &spec->activate, &asked);
    for (size_t i = 0; i < spec->setup_count; i++)
        if (spec->setup[i].item == ITEM_RUN)
            check_shell(l, &spec->setup[i].run, &asked);
    check_shell(l, &spec->entrypoint.prolog, &asked);
    check_shell(l, &spec->entrypoint.epilog, &asked);
    if (spec->entrypoint.kind == ENTRY_RUN)
        check_shell(l, &spec->entrypoint.target, &asked);
    for (size_t i = 0; i < spec->role_count; i++) {
        const struct spec_role *role = &spec->roles[i];
        if (role->entrypoint.kind == ENTRY_RUN)
            check_shell(l, &role->entrypoint.target, &asked);
        if (role->ready.kind == READY_COMMAND)
            check_shell(l, &role->ready.what, &asked);
    }
}

void here_check(struct load *l)
{
    const struct spec *spec = l->spec;
    if (!l->over->thorough || l->diagnostics->errors > 0)
        return;
    check_tildes(l, &spec->entrypoint);
    check_env(l, spec->env, spec->env_count);
    for (size_t i = 0; i < spec->role_count; i++) {
        check_env(l, spec->roles[i].env, spec->roles[i].env_count);
        check_tildes(l, &spec->roles[i].entrypoint);
    }
    check_shells(l);
}
