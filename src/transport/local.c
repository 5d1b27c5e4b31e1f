/*
 * local: the embedded agent as a child of this process. It is executed from a memory file, made once
 * per pool; where that is not possible, from a temporary file.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Where the agent can be executed from; NULL after transport_fail. */
static const char *agent_path(struct transport *t, char *out, size_t size)
{
    struct transport_pool *pool = t->pool;
    struct error err = ERROR_INIT;
    struct utsname machine;
    uname(&machine);
    const struct agent_binary *agent = pool_agent(pool, machine.machine);
    if (!agent) {
        transport_failf(t, ERROR_INFRA, "build rhrun on this machine", "there is no agent for its machine type \"%s\"",
                        machine.machine);
        return NULL;
    }
    /* An interpreter would find the memory file closed: scripts (in tests) need a real file. */
    bool script = agent->size > 2 && memcmp(agent->data, "#!", 2) == 0;
    if (pool->local_memfd < 0 && !pool->local_file && !script) {
        int fd = memfd_create("rhrun-agent", MFD_CLOEXEC);
        if (fd >= 0 && write_all(fd, agent->data, agent->size) == 0)
            pool->local_memfd = fd;
        else if (fd >= 0)
            close(fd);
    }
    if (pool->local_memfd >= 0) {
        snprintf(out, size, "/proc/self/fd/%d", pool->local_memfd);
        if (access(out, X_OK) == 0)
            return out;
    }
    if (!pool->local_file) {
        if (pool_run_dir(pool, &err) != 0)
            goto fail;
        char *path = xasprintf("%s/agent", pool->run_dir);
        if (file_write_atomic(path, agent->data, agent->size, 0700, &err) != 0) {
            free(path);
            goto fail;
        }
        pool->local_file = path;
    }
    return pool->local_file;
fail:
    transport_failf(t, ERROR_IO, err.hint, "%s", err.text);
    return NULL;
}

static void ended(struct transport *t, int status, int sig, const char *error_text)
{
    if (*error_text)
        transport_ended(t, error_text);
    else if (sig)
        transport_failf(t, ERROR_INFRA, "", "the agent was killed by signal %d", sig);
    else if (status > 0)
        transport_failf(t, ERROR_INFRA, "", "the agent ended with status %d", status);
    else
        transport_ended(t, "");
}

static void local_open(struct transport *t)
{
    char buffer[64];
    snprintf(t->digest, sizeof(t->digest), "local:%u", t->host.local_index);
    transport_set_phase(t, TRANSPORT_AGENT);
    if (t->host.command) {
        const char *const argv[] = {"/bin/sh", "-c", t->host.command, NULL};
        t->impl = child_stream_start(t, NULL, argv, NULL, ended);
        if (t->impl)
            transport_started(t);
        return;
    }
    const char *path = agent_path(t, buffer, sizeof(buffer));
    if (!path)
        return;
    const char *const argv[] = {"rhrun-agent", NULL};
    t->impl = child_stream_start(t, path, argv, NULL, ended);
    if (t->impl)
        transport_started(t);
}

static void local_flush(struct transport *t)
{
    if (t->impl)
        child_stream_flush(t->impl);
}

static void local_close(struct transport *t)
{
    child_stream_destroy(t->impl);
    t->impl = NULL;
}

static bool local_again(struct transport *t)
{
    (void)t;
    return false;
}

const struct transport_ops transport_local_ops = {
    .kind = TRANSPORT_LOCAL,
    .name = "local",
    .open = local_open,
    .flush = local_flush,
    .close = local_close,
    .again = local_again,
};
