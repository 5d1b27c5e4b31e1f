/*
 * local: the embedded agent as a child of this process. It is executed from a memory file, made once per pool; if that
 * is not possible, from a temporary file. As with logins to a host, the number of agents that are starting and have not
 * answered yet is limited: hundreds at once would only delay each other.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

struct local {
    struct transport *t;
    struct child_stream *stream;
    struct gate_ticket ticket;
};

/* The path to execute the agent from; NULL after transport_fail. */
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

static void spawn(struct local *l)
{
    struct transport *t = l->t;
    char buffer[64];
    transport_set_phase(t, TRANSPORT_AGENT);
    if (t->host.wrap && !t->host.command) {
        struct buf script = {0};
        start_command(t, &script);
        const char *const argv[] = {"/bin/sh", "-c", script.data, NULL};
        l->stream = child_stream_start(t, NULL, argv, NULL, ended);
        buf_free(&script);
    } else if (t->host.command) {
        const char *const argv[] = {"/bin/sh", "-c", t->host.command, NULL};
        l->stream = child_stream_start(t, NULL, argv, NULL, ended);
    } else {
        const char *path = agent_path(t, buffer, sizeof(buffer));
        const char *const argv[] = {"rhrun-agent", NULL};
        l->stream = path ? child_stream_start(t, path, argv, NULL, ended) : NULL;
    }
    if (l->stream)
        transport_started(t);
}

static void granted(void *arg)
{
    struct local *l = arg;
    transport_enter(l->t);
    if (!transport_stopped(l->t))
        spawn(l);
    transport_leave(l->t);
}

static void local_open(struct transport *t)
{
    struct local *l = xcalloc(1, sizeof(*l));
    l->t = t;
    t->impl = l;
    snprintf(t->digest, sizeof(t->digest), "local:%u", t->host.local_index);
    transport_set_phase(t, TRANSPORT_QUEUED);
    if (t->host.command || gate_enter(t->pool, &l->ticket, "local", 0, granted, l))
        spawn(l);
}

static void local_flush(struct transport *t)
{
    struct local *l = t->impl;
    if (l && l->stream)
        child_stream_flush(l->stream);
}

static void local_answered(struct transport *t)
{
    struct local *l = t->impl;
    if (l)
        gate_leave(&l->ticket);
}

static void local_close(struct transport *t)
{
    struct local *l = t->impl;
    if (!l)
        return;
    t->impl = NULL;
    child_stream_destroy(l->stream);
    gate_leave(&l->ticket);
    free(l);
}

static bool local_again(struct transport *t)
{
    if (t->host.wrap)
        transport_switch(t, t->ops); /* a new one, in the next turn */
    return t->host.wrap != NULL;
}

const struct transport_ops transport_local_ops = {
    .kind = TRANSPORT_LOCAL,
    .name = "local",
    .open = local_open,
    .flush = local_flush,
    .close = local_close,
    .answered = local_answered,
    .again = local_again,
};
