/* How to reach a machine. */
#include "internal.h"

#include <string.h>

static const char *exec_text(const char *const *argv, struct arena *arena)
{
    struct buf b = {0};
    for (size_t i = 0; argv[i]; i++) {
        if (i > 0)
            buf_putc(&b, ' ');
        buf_shell_quote(&b, argv[i]);
    }
    const char *text = arena_strdup(arena, b.data);
    buf_free(&b);
    return text;
}

static void by_engine(const struct fleet_machine *m, struct arena *arena, struct spec_host *ret)
{
    const char **argv = arena_array(arena, 6, sizeof *argv);
    argv[0] = "docker";
    argv[1] = "exec";
    argv[2] = "-i";
    argv[3] = arena_strdup(arena, m->id);
    argv[4] = "/bin/sh";
    *ret = (struct spec_host){.host = arena_strdup(arena, m->name),
                              .exec = argv,
                              .exec_text = exec_text(argv, arena),
                              .address = arena_strdup(arena, m->address),
                              .transport = SPEC_TRANSPORT_COMMAND};
}

/* The ledger has pinned the host key. */
static int by_ssh(const struct fleet_machine *m, const char *user, const struct rent_keys *keys, struct arena *arena,
                  struct spec_host *ret, struct error *err)
{
    const struct rent_door door = {.machine = m->id, .address = m->address, .user = user, .host_key = m->host_key};
    struct transport_host host;
    if (rent_door(keys, &door, arena, &host, err) < 0)
        return -1;
    *ret = (struct spec_host){.host = host.name,
                              .user = host.user,
                              .port = host.port,
                              .identity_file = host.identity_file,
                              .proxy_jump = host.proxy_jump,
                              .known_hosts = host.known_hosts,
                              .ssh_config = host.ssh_config,
                              .transport = SPEC_TRANSPORT_AUTO,
                              .booting = true};
    return 0;
}

struct reached { /* what the machines of one ledger have in common */
    const struct fleet_ledger *ledger;
    const char *folder;
    struct provider *provider; /* of the previous machine */
    struct rent_keys *keys;
};

/* If a machine belongs to no order, it is not known whether it is a spot machine. */
static bool may_be_taken(const struct fleet_ledger *l, const struct fleet_machine *m)
{
    return m->order == FLEET_NONE || l->wanted.offers[l->orders[m->order].offer].spot;
}

static int host_of(struct reached *r, const struct fleet_machine *m, struct arena *arena, struct spec_host *ret,
                   struct error *err)
{
    struct diagnostics d = {0};
    if (!r->provider || !str_eq(provider_facts(r->provider)->name, m->provider)) {
        provider_destroy(r->provider);
        r->provider = NULL;
        const int rc = provider_load(m->provider, arena, &r->provider, &d, err);
        diagnostics_free(&d);
        if (rc < 0)
            return -1;
    }
    const struct provider_facts *facts = provider_facts(r->provider);
    int rc = 0;
    if (str_eq(facts->connect, "docker"))
        by_engine(m, arena, ret);
    else if (r->keys || (r->keys = rent_keys_open(r->folder, err)))
        rc = by_ssh(m, cluster_user(r->ledger, facts), r->keys, arena, ret, err);
    else
        rc = -1;
    if (rc == 0 && facts->notice.address && may_be_taken(r->ledger, m))
        ret->notice = memcpy(arena_alloc(arena, sizeof facts->notice), &facts->notice, sizeof facts->notice);
    return rc;
}

int rent_hosts(const struct fleet_ledger *l, struct arena *arena, struct spec_host **ret, struct error *err)
{
    CLEANUP(cleanup_free) char *folder = rent_folder(l->wanted.id, err);
    struct reached r = {.ledger = l, .folder = folder};
    struct spec_host *hosts = arena_array(arena, (size_t)l->slot_count + 1, sizeof *hosts);
    int rc = folder ? 0 : -1;
    for (uint32_t i = 0; i < l->slot_count && rc == 0; i++) {
        const uint32_t machine = l->slots[i].machine;
        hosts[i] = (struct spec_host){0};
        if (machine != FLEET_NONE && l->machines[machine].state == FLEET_MACHINE_READY)
            rc = host_of(&r, &l->machines[machine], arena, &hosts[i], err);
    }
    provider_destroy(r.provider);
    rent_keys_close(r.keys);
    *ret = hosts;
    return rc;
}
