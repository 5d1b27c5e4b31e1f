/* A controller without a terminal: a second rhrun, which continues after the first one has ended. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A second rhrun in its own session becomes the controller. argv begins with three places, which this function fills. 0
 * once it has begun, with the run's id; else its exit status, and no id. */
static int spawn(const struct cli *c, const char **argv, char ret_id[64], pid_t *ret_pid)
{
    struct error err = ERROR_INIT;
    int fds[2];
    ret_id[0] = 0;
    if (pipe(fds) < 0) {
        error_errno(&err, ERROR_INFRA, errno, "could not start a controller in the background");
        cli_print_error(c, &err);
        return 3;
    }
    argv[0] = "rhrun";
    argv[1] = "--detached-fd";
    argv[2] = "3";
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setsid();
        int null = open("/dev/null", O_RDWR);
        int out = dup(fds[1]);
        dup2(null, 0);
        dup2(null, 1);
        if (out != 3)
            dup2(out, 3);
        for (int fd = 4; fd < 64; fd++)
            close(fd);
        execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid < 0) {
        error_errno(&err, ERROR_INFRA, errno, "could not start a controller in the background");
        cli_print_error(c, &err);
    }
    close(fds[1]);
    ssize_t len = pid > 0 ? read(fds[0], ret_id, 63) : -1;
    close(fds[0]);
    if (len <= 0) {
        int status = 0;
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    }
    ret_id[len] = 0;
    ret_id[strcspn(ret_id, "\n")] = 0;
    *ret_pid = pid;
    return 0;
}

/* --detach, and the key d: the same command line again. */
int cli_spawn_detached(struct cli *c)
{
    const char **argv = xcalloc((size_t)c->argc + 4, sizeof *argv);
    size_t n = 3;
    char id[64];
    pid_t pid;
    for (int i = 1; i < c->argc; i++) {
        if (strcmp(c->argv[i], "--") == 0) {
            while (i < c->argc)
                argv[n++] = c->argv[i++];
            break;
        }
        if (strcmp(c->argv[i], "--detach") != 0 && strcmp(c->argv[i], "-d") != 0)
            argv[n++] = c->argv[i];
    }
    int rc = spawn(c, argv, id, &pid);
    free(argv);
    if (!id[0])
        return rc;
    if (c->given[OPT_JSON])
        printf("{\"type\":\"detached\",\"run\":\"%s\",\"pid\":%d}\n", id, (int)pid);
    else if (!c->given[OPT_QUIET])
        fprintf(stderr,
                "rhrun: run %s goes on without a terminal (controller pid %d):\n"
                "  it starts what is left to do, restarts failures and collects output\n"
                "  follow: rhrun attach %s   stop: rhrun cancel %s\n"
                "  if this machine dies, the nodes finish the steps that run and start nothing new\n",
                id, (int)pid, id, id);
    return 0;
}

static size_t put_options(const struct cli *c, enum cli_option_id id, const char **argv, size_t n)
{
    for (size_t i = 0; i < c->value_count[id]; i++) {
        argv[n++] = arena_printf(c->arena, "--%s", cli_option_find(id)->name);
        argv[n++] = c->values[id][i];
    }
    return n;
}

int cli_resume_detached(const struct cli *c, const char *run, const char *spec_path, pid_t *ret_pid)
{
    size_t most = 16 + 2 * c->value_count[OPT_SET] + 2 * c->value_count[OPT_PARAM] + c->arg_count, n = 3;
    const char **argv = arena_array(c->arena, most, sizeof *argv);
    char id[64];
    argv[n++] = "--resume";
    argv[n++] = run;
    n = put_options(c, OPT_SET, argv, n);
    n = put_options(c, OPT_PARAM, argv, n);
    if (c->value[OPT_ON]) {
        argv[n++] = "--on";
        argv[n++] = c->value[OPT_ON];
    }
    argv[n++] = "run";
    argv[n++] = spec_path;
    if (c->arg_count > 0)
        argv[n++] = "--";
    for (size_t i = 0; i < c->arg_count; i++)
        argv[n++] = c->args[i];
    return spawn(c, argv, id, ret_pid);
}
