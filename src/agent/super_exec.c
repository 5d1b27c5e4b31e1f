/*
 * One worker's process, from fork to exec. A failure in the child is sent with its errno through a close-on-exec pipe,
 * so "could not be started" is never mistaken for an exit status.
 */
#include "super.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Runs the user's script ($1) in this same shell, then writes its environment: both after the last line and in an EXIT
 * trap, because the script may `exit 0` early, or set a trap of its own. */
static const char capture_script[] = "__rhrun_s=$1 __rhrun_e=$2 __rhrun_o=$3\n"
                                     "shift 3\n"
                                     "trap '[ \"$?\" = 0 ] && \"$__rhrun_e\" -0 >|\"$__rhrun_o\"' EXIT\n"
                                     "eval \"$__rhrun_s\"\n"
                                     "__rhrun_r=$?\n"
                                     "[ \"$__rhrun_r\" = 0 ] && \"$__rhrun_e\" -0 >|\"$__rhrun_o\"\n"
                                     "exit \"$__rhrun_r\"\n";

int exec_open_cwd(const struct supervise *s)
{
    const char *cwd = s->run->cwd ? s->run->cwd : "";
    CLEANUP(cleanup_free)
    char *path = *cwd == '/' ? xstrdup(cwd) : *cwd ? xasprintf("%s/%s", s->work_dir, cwd) : xstrdup(s->work_dir);
    if (*cwd != '/' && s->own_dir) /* rhrun makes the working directory, but no folder in it */
        mkdir_p(s->work_dir, 0700, NULL);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static _Noreturn void fault(const struct exec_plan *plan, uint32_t index, enum wire_cause cause, int errnum)
{
    struct exec_fault f;
    memset(&f, 0, sizeof f);
    f.index = index;
    f.cause = (uint8_t)cause;
    f.errnum = errnum;
    ssize_t n = write(plan->fault_fd, &f, sizeof f); /* less than PIPE_BUF, so all of it or nothing */
    (void)n;
    _exit(127);
}

/* As execvp does, but with the PATH of the worker's environment. */
static int exec_lookup(char **argv, char **envp, const char *path)
{
    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, envp);
        return errno;
    }
    int errnum = ENOENT;
    char file[PATH_MAX];
    for (const char *p = path;; p++) {
        size_t len = strcspn(p, ":");
        int n = len ? snprintf(file, sizeof file, "%.*s/%s", (int)len, p, argv[0])
                    : snprintf(file, sizeof file, "%s", argv[0]);
        if (*argv[0] && n > 0 && (size_t)n < sizeof file) {
            execve(file, argv, envp);
            if (errno == EACCES || (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG && errno != ELOOP))
                errnum = errno;
            if (errno != EACCES && errnum != ENOENT && errnum != EACCES)
                return errnum;
        }
        p += len;
        if (!*p)
            return errnum;
    }
}

static void default_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int i = 1; i < 65; i++)
        if (i != SIGKILL && i != SIGSTOP)
            sigaction(i, &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void bind_cpus(const struct exec_plan *plan, uint32_t index)
{
    const struct wire_run *run = plan->s->run;
    struct cpus cpus = {{0}};
    struct cpus_wish wish = {run->cpus, index, run->worker_count, environment_get(plan->env, "CUDA_VISIBLE_DEVICES"),
                             ""};
    if (run->cpus != WIRE_CPUS_BLOCK) {
        wish.index = run->workers[index].local_rank;
        for (uint32_t i = 0; i < run->worker_count; i++)
            if (run->workers[i].local_rank >= wish.count)
                wish.count = run->workers[i].local_rank + 1;
    }
    if (sched_getaffinity(0, sizeof cpus, (cpu_set_t *)(void *)&cpus) >= 0 && cpus_choose(&wish, &cpus))
        sched_setaffinity(0, sizeof cpus, (cpu_set_t *)(void *)&cpus);
}

static _Noreturn void child(const struct exec_plan *plan, uint32_t index, int out_fd, int err_fd)
{
    const struct supervise *s = plan->s;
    const struct wire_worker *w = &s->run->workers[index];
    struct rlimit files = {(rlim_t)plan->nofile_soft, (rlim_t)plan->nofile_hard};
    prlimit(0, RLIMIT_NOFILE, &files, NULL);
    setsid(); /* `kill 0` in a worker must reach its own processes only */
    if (dup2(plan->null_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0 || fchdir(plan->cwd_fd) < 0)
        fault(plan, index, WIRE_CAUSE_SETUP, errno);
    struct environment env;
    environment_copy(&env, plan->env);
    for (uint32_t i = 0; i < w->env.count; i++)
        environment_set(&env, w->env.items[i]);
    if (plan->error_env)
        environment_set(&env, plan->error_env);
    environment_path_first(&env, s->run->path_first);
    if (s->run->cpus)
        bind_cpus(plan, index);
    char cwd[PATH_MAX];
    if (getcwd(cwd, sizeof cwd))
        environment_set(&env, xasprintf("PWD=%s", cwd));
    struct wire_strings argv = {xcalloc((size_t)w->argv.count + 16, sizeof *argv.items), 0};
    if (w->shell) {
        const char *base = strrchr(s->shell, '/');
        base = base ? base + 1 : s->shell;
        argv.items[argv.count++] = xstrdup(base);
        bool bash = str_eq(base, "bash");
        if (bash) /* under sshd, bash would read ~/.bashrc even with -c */
            argv.items[argv.count++] = xstrdup("--norc");
        argv.items[argv.count++] = xstrdup("-e");
        if (bash) {
            argv.items[argv.count++] = xstrdup("-o");
            argv.items[argv.count++] = xstrdup("pipefail");
        }
        argv.items[argv.count++] = xstrdup("-c");
        if (plan->capture_fd >= 0 && index == 0) {
            argv.items[argv.count++] = xstrdup(capture_script);
            argv.items[argv.count++] = xstrdup("rhrun"); /* $0 */
            argv.items[argv.count++] = w->argv.items[0];
            argv.items[argv.count++] = xstrdup(access("/usr/bin/env", X_OK) == 0 ? "/usr/bin/env" : "env");
            /* by path, not by an inherited descriptor: the script's daemons must not hold it, and the
             * script may use any number itself */
            argv.items[argv.count++] = xasprintf("/proc/%ld/fd/%d", (long)getppid(), plan->capture_fd);
        } else {
            argv.items[argv.count++] = w->argv.items[0];
            argv.items[argv.count++] = xstrdup("rhrun");
        }
        for (uint32_t i = 1; i < w->argv.count; i++)
            argv.items[argv.count++] = w->argv.items[i];
    } else {
        for (uint32_t i = 0; i < w->argv.count; i++)
            argv.items[argv.count++] = w->argv.items[i];
    }
    default_signals();
    if (w->shell) {
        execve(s->shell, argv.items, env.items);
        fault(plan, index, WIRE_CAUSE_EXEC, errno);
    }
    const char *path = environment_get(&env, "PATH");
    fault(plan, index, WIRE_CAUSE_EXEC, exec_lookup(argv.items, env.items, path ? path : DEFAULT_PATH));
}

pid_t exec_worker(const struct exec_plan *plan, uint32_t index, int out_fd, int err_fd)
{
    pid_t pid = fork();
    if (pid == 0)
        child(plan, index, out_fd, err_fd);
    return pid;
}
