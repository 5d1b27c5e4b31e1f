/*
 * The state that the transports of one rhrun share, and the gates: sshd drops connections at random once ten are not
 * yet logged in (MaxStartups 10:30:100), so at most eight logins run at the same time per host:port.
 */
#include "internal.h"

#include "ssh.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const uint8_t rhrun_agent_x86_64[], rhrun_agent_aarch64[];
extern const uint64_t rhrun_agent_x86_64_size, rhrun_agent_aarch64_size;

struct pool_gate {
    struct pool_gate *next;
    struct transport_pool *pool;
    uint32_t inside;
    struct gate_ticket *waiting, **tail;
    char name[];
};

struct transport_pool *transport_pool_create(struct loop *loop, const struct transport_pool_options *options)
{
    static const struct transport_pool_options none = {0};
    if (!options)
        options = &none;
    struct transport_pool *pool = xcalloc(1, sizeof(*pool));
    pool->loop = loop;
    pool->run_dir = options->run_dir ? xstrdup(options->run_dir) : NULL;
    pool->allow_prompt = options->allow_prompt;
    pool->logins_max = options->logins_max ? options->logins_max : 8;
    pool->retries = options->retries ? options->retries : 6;
    pool->local_memfd = -1;
    transport_pool_set_agent(pool, "x86_64", rhrun_agent_x86_64, (size_t)rhrun_agent_x86_64_size);
    transport_pool_set_agent(pool, "aarch64", rhrun_agent_aarch64, (size_t)rhrun_agent_aarch64_size);
    return pool;
}

void transport_pool_destroy(struct transport_pool *pool)
{
    if (!pool)
        return;
    gates_destroy(pool);
    addresses_destroy(pool);
    ssh_shared_destroy(pool);
    if (pool->local_memfd >= 0)
        close(pool->local_memfd);
    if (pool->local_file)
        unlink(pool->local_file);
    if (pool->run_dir_made)
        rmdir(pool->run_dir);
    free(pool->local_file);
    free(pool->run_dir);
    free(pool);
}

void transport_pool_set_agent(struct transport_pool *pool, const char *arch, const void *data, size_t size)
{
    size_t i = 0;
    while (i < pool->agent_count && strcmp(pool->agents[i].arch, arch) != 0)
        i++;
    if (i == ARRAY_LEN(pool->agents))
        return;
    if (i == pool->agent_count)
        pool->agent_count++;
    snprintf(pool->agents[i].arch, sizeof(pool->agents[i].arch), "%s", arch);
    pool->agents[i].data = data;
    pool->agents[i].size = size;
}

const struct agent_binary *pool_agent(const struct transport_pool *pool, const char *arch)
{
    for (size_t i = 0; i < pool->agent_count; i++)
        if (pool->agents[i].size && strcmp(pool->agents[i].arch, arch) == 0)
            return &pool->agents[i];
    return NULL;
}

int pool_run_dir(struct transport_pool *pool, struct error *err)
{
    if (pool->run_dir_made)
        return 0;
    if (pool->run_dir) { /* given by the caller: made if needed, but not ours to remove */
        struct stat st;
        if (stat(pool->run_dir, &st) == 0)
            return 0;
        return mkdir_p(pool->run_dir, 0700, err);
    }
    /* Short: a socket below it must fit into 108 bytes. */
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (!base || base[0] != '/' || strlen(base) > 60 || access(base, W_OK) != 0)
        base = "/tmp";
    char *path = xasprintf("%s/rhrun-XXXXXX", base);
    if (!mkdtemp(path)) {
        int saved = errno;
        error_errno(err, ERROR_IO, saved, "cannot create a folder in \"%s\"", base);
        free(path);
        return -1;
    }
    pool->run_dir = path;
    pool->run_dir_made = true;
    return 0;
}

/* ---- gates ---- */

bool gate_enter(struct transport_pool *pool, struct gate_ticket *ticket, const char *host, uint32_t port,
                void (*granted)(void *arg), void *arg)
{
    char *name = xasprintf("%s:%u", host, port);
    struct pool_gate *gate = pool->gates;
    while (gate && strcmp(gate->name, name) != 0)
        gate = gate->next;
    if (!gate) {
        gate = xcalloc(1, sizeof(*gate) + strlen(name) + 1);
        memcpy(gate->name, name, strlen(name) + 1);
        gate->pool = pool;
        gate->tail = &gate->waiting;
        gate->next = pool->gates;
        pool->gates = gate;
    }
    free(name);
    ticket->gate = gate;
    ticket->granted = granted;
    ticket->arg = arg;
    ticket->next = NULL;
    ticket->inside = gate->inside < pool->logins_max;
    if (ticket->inside) {
        gate->inside++;
    } else {
        *gate->tail = ticket;
        gate->tail = &ticket->next;
    }
    return ticket->inside;
}

void gate_leave(struct gate_ticket *ticket)
{
    struct pool_gate *gate = ticket->gate;
    if (!gate)
        return;
    ticket->gate = NULL;
    if (!ticket->inside) {
        struct gate_ticket **at = &gate->waiting;
        while (*at != ticket)
            at = &(*at)->next;
        *at = ticket->next;
        if (!*at)
            gate->tail = at;
        return;
    }
    ticket->inside = false;
    gate->inside--;
    struct gate_ticket *first = gate->waiting;
    if (!first || gate->inside >= gate->pool->logins_max)
        return;
    gate->waiting = first->next;
    if (!gate->waiting)
        gate->tail = &gate->waiting;
    first->inside = true;
    gate->inside++;
    first->granted(first->arg);
}

void gates_destroy(struct transport_pool *pool)
{
    while (pool->gates) {
        struct pool_gate *gate = pool->gates;
        pool->gates = gate->next;
        free(gate);
    }
}
