/*
 * Reads the values of secrets from the environment, a file, or the standard output of a program on the user's machine.
 * Values go to the arena and nowhere else; no message has one.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void drop_newline(struct buf *value)
{
    if (value->len > 0 && value->data[value->len - 1] == '\n')
        value->data[--value->len] = 0;
}

static int read_pipe(int fd, struct buf *out, struct error *err)
{
    char chunk[4096];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, ERROR_IO, errno, "cannot read its output");
        if (n == 0)
            break;
        if (out->len + (size_t)n > SPEC_SECRET_MAX_BYTES)
            return error_set(err, ERROR_SPEC, "its output is larger than %d bytes", SPEC_SECRET_MAX_BYTES);
        buf_append(out, chunk, (size_t)n);
    }
    explicit_bzero(chunk, sizeof chunk);
    return 0;
}

static int run_command(const struct spec *spec, const struct spec_secret *s, struct buf *out, struct error *err)
{
    char **argv = xcalloc(s->command.count + 1, sizeof *argv);
    for (size_t i = 0; i < s->command.count; i++)
        argv[i] = xstrdup(s->command.items[i].text);
    int fds[2] = {-1, -1}, status = 0, result = -1, rc;
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (pipe2(fds, O_CLOEXEC) != 0) {
        error_errno(err, ERROR_IO, errno, "cannot open a pipe");
        goto out;
    }
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addchdir_np(&actions, spec->dir);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    if (rc != 0) {
        error_errno(err, ERROR_SPEC, rc, "cannot start \"%s\"", argv[0]);
        goto out;
    }
    close(fds[1]);
    fds[1] = -1;
    result = read_pipe(fds[0], out, err);
    close(fds[0]); /* a program that still writes gets EPIPE, so the wait below ends */
    fds[0] = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (result == 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        result = error_set(err, ERROR_SPEC, "\"%s\" ended with exit status %d", argv[0], WEXITSTATUS(status));
    else if (result == 0 && WIFSIGNALED(status))
        result = error_set(err, ERROR_SPEC, "\"%s\" was ended by signal %d", argv[0], WTERMSIG(status));
out:
    cleanup_close(&fds[0]);
    cleanup_close(&fds[1]);
    posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 0; i < s->command.count; i++)
        free(argv[i]);
    free(argv);
    return result;
}

static int read_value(const struct spec *spec, const struct spec_secret *s, struct buf *value, struct error *err)
{
    if (s->command.count > 0) {
        if (run_command(spec, s, value, err) != 0)
            return -1;
    } else if (s->file) {
        if (file_read(s->file, SPEC_SECRET_MAX_BYTES, value, err) != 0)
            return -1;
    } else {
        const char *found = getenv(s->name);
        if (!found) {
            error_set(err, ERROR_SPEC, "not set in your environment");
            error_hint(err, "export %s=VALUE, or give the secret a file or a command", s->name);
            return -1;
        }
        buf_puts(value, found);
        return 0;
    }
    drop_newline(value);
    if (memchr(value->data ? value->data : "", 0, value->len))
        return error_set(err, ERROR_SPEC, "the value holds a NUL byte, which no environment variable can");
    return 0;
}

int spec_resolve_secrets(struct spec *spec, struct arena *arena, struct error *err)
{
    for (size_t i = 0; i < spec->secret_count; i++) {
        struct spec_secret *s = &spec->secrets[i];
        struct buf value = {0};
        struct error why = ERROR_INIT;
        int rc = read_value(spec, s, &value, &why);
        if (rc == 0)
            s->value = arena_strndup(arena, value.len > 0 ? value.data : "", value.len);
        if (value.data)
            explicit_bzero(value.data, value.cap);
        buf_free(&value);
        if (rc != 0 && !s->optional) {
            error_prefix(&why, "secret \"%s\"", s->name);
            why.code = ERROR_SPEC;
            if (err)
                *err = why;
            return -1;
        }
    }
    return 0;
}
