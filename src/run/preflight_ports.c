/* Where the workers meet: one node listens there, those that come connect, a hundred at a time. */
#include "preflight.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 100,    /* the port's queue is emptied between */
    PORT_TRIES = 5, /* a free port that is taken meanwhile */
};

/* ---- which there are ---- */

/* "HOST:PORT", "[::1]:PORT", ":PORT". */
static bool split(struct run *r, const char *endpoint, struct meeting *m)
{
    const char *colon = strrchr(endpoint, ':');
    if (!colon || !parse_u32(colon + 1, &m->port) || m->port == 0 || m->port > UINT16_MAX)
        return false;
    bool brackets = *endpoint == '[' && colon > endpoint + 1 && colon[-1] == ']';
    m->address =
        arena_strndup(run_launch(r)->preflight->arena, endpoint + brackets, (size_t)(colon - endpoint) - 2 * brackets);
    return true;
}

/* Where the job's workers meet, as far as rhrun knows it. Who holds the store of a c10d endpoint that is given is torch's
 * own matter; a server of etcd is there before. */
static bool find_endpoint(struct run *r, struct meeting *m)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    const struct spec_text *endpoint = spec_flag_value(d, "rdzv_endpoint");
    const struct spec_text *backend = spec_flag_value(d, "rdzv_backend");
    *m = (struct meeting){.master = r->plan->master,
                          .port = run_launch(r)->master_port,
                          .address = run_launch(r)->master_addr,
                          .given = d->master_port != 0};
    if (spec_flag_value(d, "standalone") || spec_flag_value(d, "master_addr"))
        return false;
    if (!endpoint)
        return true;
    if (endpoint->has_expr || !split(r, endpoint->text, m))
        return false;
    m->given = true;
    m->outside = backend && str_starts(backend->text, "etcd");
    if (!*m->address)
        m->address = run_launch(r)->master_addr;
    else if (!m->outside)
        return false;
    return true;
}

/* Those with workers in a world: of the role with its own, or (NULL) the job's. */
static const bool *those_in(struct run *r, const struct spec_role *role)
{
    const struct spec *spec = r->plan->spec;
    bool *nodes = preflight_nodes(r), any = false;
    for (size_t i = 0; i < spec->place_count; i++) {
        const struct spec_role *its = &spec->roles[spec->places[i].role];
        if ((role ? its != role : its->world != WORLD_JOB) || !preflight_asks(r, spec->places[i].node))
            continue;
        nodes[spec->places[i].node] = any = true;
    }
    for (uint32_t n = 0; n < r->plan->node_count && spec->role_count == 0; n++) {
        nodes[n] = preflight_asks(r, n);
        any = any || nodes[n];
    }
    return any ? nodes : NULL;
}

static void add(struct run *r, struct meeting m)
{
    struct preflight *p = run_launch(r)->preflight;
    bool alone = !preflight_several(r) && !m.given; /* it was just found free */
    m.nodes = those_in(r, m.role);
    if (alone || !m.nodes || m.port == 0 || (!m.outside && !preflight_asks(r, m.master)))
        return;
    m.to.port = m.port;
    if (inet_pton(AF_INET, m.address, m.to.address) == 1)
        m.to.len = 4;
    else if (inet_pton(AF_INET6, m.address, m.to.address) == 1)
        m.to.len = 16;
    m.by_name = m.to.len == 0;
    p->meetings[p->meeting_count++] = m;
}

void preflight_plan_meetings(struct run *r)
{
    struct preflight *p = run_launch(r)->preflight;
    const struct spec *spec = r->plan->spec;
    struct meeting m;
    p->meetings = arena_array(p->arena, spec->role_count + 1, sizeof *p->meetings);
    p->meeting_count = p->met = 0;
    if (preflight_spec(r)->no_ports)
        return;
    if (find_endpoint(r, &m))
        add(r, m);
    for (size_t i = 0; i < spec->role_count && r->plan->roles; i++)
        if (spec->roles[i].world == WORLD_OWN && run_launch(r)->role_ports[i])
            add(r, (struct meeting){.role = &spec->roles[i],
                                    .given = spec->roles[i].master_port != 0,
                                    .master = r->plan->roles[i].master,
                                    .port = run_launch(r)->role_ports[i],
                                    .address = r->nodes[r->plan->roles[i].master].address});
}

/* Do those that come there come over a network? */
static bool is_apart(const struct run *r, const struct meeting *m)
{
    return m->outside || preflight_several(r);
}

static struct meeting *at_hand(struct run *r)
{
    return &run_launch(r)->preflight->meetings[run_launch(r)->preflight->met - 1];
}

/* ---- an address that is a name ---- */

struct lookup {
    struct run *run;
    struct loop_work *work;
    char *name;
    struct node_endpoint found;
};

static void lookup_free(void *arg)
{
    struct lookup *l = arg;
    free(l->name);
    free(l);
}

static void look_up(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *list = NULL;
    if (getaddrinfo(l->name, NULL, &hints, &list) != 0)
        return;
    if (list->ai_family == AF_INET) {
        l->found.len = 4;
        memcpy(l->found.address, &((struct sockaddr_in *)(void *)list->ai_addr)->sin_addr, 4);
    } else if (list->ai_family == AF_INET6) {
        l->found.len = 16;
        memcpy(l->found.address, &((struct sockaddr_in6 *)(void *)list->ai_addr)->sin6_addr, 16);
    }
    freeaddrinfo(list);
}

static void looked_up(void *arg)
{
    struct lookup *l = arg;
    struct run *r = l->run;
    struct meeting *m = at_hand(r);
    run_launch(r)->preflight->lookup = NULL;
    memcpy(m->to.address, l->found.address, sizeof m->to.address);
    m->to.len = l->found.len;
    lookup_free(l);
    if (r->stage == STAGE_PREFLIGHT && !run_is_stopping(r))
        preflight_answered(r);
}

static void begin_lookup(struct run *r, const char *name)
{
    struct lookup *l = xcalloc(1, sizeof *l);
    *l = (struct lookup){.run = r, .name = xstrdup(name)};
    l->work = loop_work(r->loop, look_up, looked_up, l);
    run_launch(r)->preflight->lookup = l;
    run_launch(r)->preflight->left++;
}

void preflight_end_lookup(struct run *r)
{
    if (run_launch(r)->preflight->lookup)
        loop_work_detach(run_launch(r)->preflight->lookup->work, lookup_free);
    run_launch(r)->preflight->lookup = NULL;
}

/* ---- what is found ---- */

static const char *where(struct run *r, const struct meeting *m)
{
    return m->role ? arena_printf(run_launch(r)->preflight->arena, "where the workers of role %s are to meet",
                                  m->role->name)
                   : "where the workers are to meet";
}

/* As it is here: the nodes may know the name by another address, so it is no more than a note then. */
static void check_reached(struct run *r, const struct meeting *m)
{
    struct preflight *p = run_launch(r)->preflight;
    bool *lost = preflight_nodes(r);
    uint32_t errnum = 0;
    char text[INET6_ADDRSTRLEN] = "";
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        lost[n] = m->nodes[n] && p->asked[n].errnum != 0;
        errnum = errnum ? errnum : lost[n] ? p->asked[n].errnum : 0;
    }
    if (!errnum)
        return;
    const char *at = m->address, *cure;
    if (m->by_name)
        at = arena_printf(p->arena, "%s, which %s is here",
                          inet_ntop(m->to.len == 4 ? AF_INET : AF_INET6, m->to.address, text, sizeof text), m->address);
    if (m->outside) {
        preflight_find(r, "ports", m->by_name ? ERROR_NONE : ERROR_INFRA, lost,
                       "start etcd there, or open the way to it; preflight: off launches all the same",
                       "%s cannot reach port %u at %s, %s: %s", preflight_names(r, lost), m->port, at, where(r, m),
                       strerror((int)errnum));
        return;
    }
    cure = arena_printf(p->arena,
                        "open the ports between the nodes, or say by what address they reach each other: "
                        "hosts: [{host: %s, address: ADDRESS}]; preflight: off launches all the same",
                        roster_host(r->plan->roster, m->master)->host);
    preflight_find(r, "ports", m->by_name ? ERROR_NONE : ERROR_INFRA, lost, cure,
                   "%s cannot reach port %u of %s at %s, %s: %s", preflight_names(r, lost), m->port,
                   preflight_name(r, m->master), at, where(r, m), strerror((int)errnum));
}

static void check_name(struct run *r, const struct meeting *m)
{
    bool *nodes = preflight_nodes(r);
    nodes[m->master] = !m->outside;
    preflight_find(r, "ports", ERROR_NONE, nodes, "an address in numbers is tried before the launch",
                   "the address \"%s\"%s%s is not known here: whether the nodes reach it was not tried", m->address,
                   m->outside ? ", " : " of ", m->outside ? where(r, m) : preflight_name(r, m->master));
}

static void check_listening(struct run *r, const struct meeting *m, uint32_t errnum, const char *who)
{
    struct preflight *p = run_launch(r)->preflight;
    if (!m->given && errnum == EADDRINUSE && ++p->tries < PORT_TRIES) {
        p->again = true;
        return;
    }
    bool *nodes = preflight_nodes(r);
    nodes[m->master] = true;
    bool endpoint = !m->role && spec_flag_value(&r->plan->spec->distributed, "rdzv_endpoint");
    const char *cure = endpoint ? "end what has it, name another port, or leave rdzv_endpoint out: a free one is taken"
                       : errnum == EACCES ? "ports below 1024 are for root; master_port: 0 takes a free one"
                       : *who             ? "end it, or take a free port: master_port: 0"
                                          : "ss -ltnp there says who has it; master_port: 0 takes a free one";
    preflight_find(r, "ports", ERROR_INFRA, nodes, cure, "port %u on %s, %s, cannot be had: %s%s%s", m->port,
                   preflight_name(r, m->master), where(r, m), strerror((int)errnum), *who ? " by process " : "", who);
}

/* ---- one after the other ---- */

static void probe(struct run *r, uint32_t node, enum wire_probe what, const struct node_endpoint *to)
{
    uint32_t timeout_ms = preflight_spec(r)->timeout_ms;
    node_probe(r->lanes[node].node, preflight_token(r, 0), what, to,
               what != WIRE_PROBE_CONNECT ? 0
               : timeout_ms               ? timeout_ms
                                          : CONNECT_MS);
    run_launch(r)->preflight->left++;
}

static void listen_there(struct run *r, const struct meeting *m)
{
    run_launch(r)->preflight->meet = MEET_LISTENING;
    probe(r, m->master, WIRE_PROBE_LISTEN, &(struct node_endpoint){.port = m->port});
}

static void end(struct run *r, const struct meeting *m)
{
    run_launch(r)->preflight->meet = MEET_ENDING;
    if (!m->outside)
        probe(r, m->master, WIRE_PROBE_END, &(struct node_endpoint){0});
}

bool preflight_meet(struct run *r)
{
    struct preflight *p = run_launch(r)->preflight;
    if (p->met == p->meeting_count)
        return false;
    const struct meeting *m = &p->meetings[p->met++];
    p->next = 0;
    p->refused = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        p->asked[n].errnum = 0;
    if (m->outside)
        p->meet = MEET_LISTENING; /* the server does */
    else
        listen_there(r, m);
    if (m->by_name && is_apart(r, m))
        begin_lookup(r, m->address);
    return true;
}

static void connect_batch(struct run *r, const struct meeting *m)
{
    struct preflight *p = run_launch(r)->preflight;
    p->meet = MEET_CONNECTING;
    for (uint32_t k = 0; k < BATCH && p->next < r->plan->node_count; p->next++)
        if (m->nodes[p->next]) {
            probe(r, p->next, WIRE_PROBE_CONNECT, &m->to);
            k++;
        }
}

bool preflight_go_on(struct run *r)
{
    struct preflight *p = run_launch(r)->preflight;
    const struct meeting *m = at_hand(r);
    bool connects = m->to.len > 0 && is_apart(r, m) && !p->refused;
    switch (p->meet) {
    case MEET_LISTENING:
        if (connects)
            connect_batch(r, m);
        else
            end(r, m);
        return true;
    case MEET_CONNECTING:
        if (p->next == r->plan->node_count)
            end(r, m);
        else if (m->outside)
            connect_batch(r, m);
        else
            listen_there(r, m); /* which empties its queue */
        return true;
    case MEET_ENDING:
        p->meet = MEET_NOT;
        if (connects)
            check_reached(r, m);
        else if (m->by_name && m->to.len == 0 && is_apart(r, m))
            check_name(r, m);
        return false;
    case MEET_NOT:
        break;
    }
    return false;
}

void preflight_take_probed(struct run *r, uint32_t node, uint32_t errnum, const char *who)
{
    struct preflight *p = run_launch(r)->preflight;
    if (p->meet == MEET_CONNECTING) {
        p->asked[node].errnum = errnum;
    } else if (p->meet == MEET_LISTENING && errnum) {
        p->refused = true;
        check_listening(r, at_hand(r), errnum, who);
    }
}
