/* Checks the place where the workers meet: one node listens there, and the nodes whose workers meet there connect, a
 * hundred at a time. */
#include "preflight.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 100,    /* between two batches the port's queue is emptied */
    PORT_TRIES = 5, /* how often to ask for another port, if a free one is taken meanwhile */
};

/* ---- the meetings ---- */

/* "HOST:PORT", "[::1]:PORT", ":PORT". */
static bool split(struct launch *l, const char *endpoint, struct meeting *m)
{
    const char *colon = strrchr(endpoint, ':');
    if (!colon || !parse_u32(colon + 1, &m->port) || m->port == 0 || m->port > UINT16_MAX)
        return false;
    bool brackets = *endpoint == '[' && colon > endpoint + 1 && colon[-1] == ']';
    m->address = arena_strndup(preflight_of(l)->arena, endpoint + brackets, (size_t)(colon - endpoint) - 2 * brackets);
    return true;
}

/* Where the job's workers meet. False: rhrun does not know. If the spec gives a c10d endpoint, torch itself decides
 * which node holds the store; a server of etcd runs before the launch. */
static bool find_endpoint(struct launch *l, struct meeting *m)
{
    struct run *r = l->run;
    const struct spec_distributed *d = &r->plan->spec->distributed;
    const struct spec_text *endpoint = spec_flag_value(d, "rdzv_endpoint");
    const struct spec_text *backend = spec_flag_value(d, "rdzv_backend");
    *m = (struct meeting){
        .master = r->plan->master, .port = l->master_port, .address = l->master_addr, .given = d->master_port != 0};
    if (spec_flag_value(d, "standalone") || spec_flag_value(d, "master_addr"))
        return false;
    if (!endpoint)
        return true;
    if (endpoint->has_expr || !split(l, endpoint->text, m))
        return false;
    m->given = true;
    m->outside = backend && str_starts(backend->text, "etcd");
    if (!*m->address)
        m->address = l->master_addr;
    else if (!m->outside)
        return false;
    return true;
}

/* The nodes with workers in a world: that of the role, or (NULL) the job's. NULL: there are none. */
static const bool *those_in(struct launch *l, const struct spec_role *role)
{
    struct run *r = l->run;
    const struct spec *spec = r->plan->spec;
    bool *nodes = preflight_nodes(l), any = false;
    for (size_t i = 0; i < spec->place_count; i++) {
        const struct spec_role *its = &spec->roles[spec->places[i].role];
        if ((role ? its != role : its->world != WORLD_JOB) || !preflight_asks(l, spec->places[i].node))
            continue;
        nodes[spec->places[i].node] = any = true;
    }
    for (uint32_t n = 0; n < r->plan->node_count && spec->role_count == 0; n++) {
        nodes[n] = preflight_asks(l, n);
        any = any || nodes[n];
    }
    return any ? nodes : NULL;
}

static void add(struct launch *l, struct meeting m)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    bool alone = !preflight_several(r) && !m.given; /* the port was just found free */
    m.nodes = those_in(l, m.role);
    if (alone || !m.nodes || m.port == 0 || (!m.outside && !preflight_asks(l, m.master)))
        return;
    m.to.port = m.port;
    if (inet_pton(AF_INET, m.address, m.to.address) == 1)
        m.to.len = 4;
    else if (inet_pton(AF_INET6, m.address, m.to.address) == 1)
        m.to.len = 16;
    m.by_name = m.to.len == 0;
    p->meetings[p->meeting_count++] = m;
}

void preflight_plan_meetings(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    const struct spec *spec = r->plan->spec;
    struct meeting m;
    p->meetings = arena_array(p->arena, spec->role_count + 1, sizeof *p->meetings);
    p->meeting_count = p->met = 0;
    if (preflight_spec(r)->no_ports)
        return;
    if (find_endpoint(l, &m))
        add(l, m);
    for (size_t i = 0; i < spec->role_count && r->plan->roles; i++)
        if (spec->roles[i].world == WORLD_OWN && l->role_ports[i])
            add(l, (struct meeting){.role = &spec->roles[i],
                                    .given = spec->roles[i].master_port != 0,
                                    .master = r->plan->roles[i].master,
                                    .port = l->role_ports[i],
                                    .address = r->hands->nodes[r->plan->roles[i].master].address});
}

/* Whether the workers meet there over a network. */
static bool is_apart(const struct run *r, const struct meeting *m)
{
    return m->outside || preflight_several(r);
}

static struct meeting *at_hand(struct launch *l)
{
    return &preflight_of(l)->meetings[preflight_of(l)->met - 1];
}

/* ---- an address that is a name ---- */

struct lookup {
    struct launch *launch;
    struct loop_work *work;
    char *name;
    struct node_endpoint found;
};

static void lookup_free(void *arg)
{
    struct lookup *u = arg;
    free(u->name);
    free(u);
}

static void look_up(void *arg)
{
    struct lookup *u = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *list = NULL;
    if (getaddrinfo(u->name, NULL, &hints, &list) != 0)
        return;
    if (list->ai_family == AF_INET) {
        u->found.len = 4;
        memcpy(u->found.address, &((struct sockaddr_in *)(void *)list->ai_addr)->sin_addr, 4);
    } else if (list->ai_family == AF_INET6) {
        u->found.len = 16;
        memcpy(u->found.address, &((struct sockaddr_in6 *)(void *)list->ai_addr)->sin6_addr, 16);
    }
    freeaddrinfo(list);
}

static void looked_up(void *arg)
{
    struct lookup *u = arg;
    struct launch *l = u->launch;
    struct meeting *m = at_hand(l);
    preflight_of(l)->lookup = NULL;
    memcpy(m->to.address, u->found.address, sizeof m->to.address);
    m->to.len = u->found.len;
    lookup_free(u);
    if (l->run->stage == STAGE_PREFLIGHT && !run_is_stopping(l->run))
        preflight_answered(l);
}

static void begin_lookup(struct launch *l, const char *name)
{
    struct lookup *u = xcalloc(1, sizeof *u);
    *u = (struct lookup){.launch = l, .name = xstrdup(name)};
    u->work = loop_work(l->run->hands->session->loop, look_up, looked_up, u);
    preflight_of(l)->lookup = u;
    preflight_of(l)->left++;
}

void preflight_end_lookup(struct launch *l)
{
    if (preflight_of(l)->lookup)
        loop_work_detach(preflight_of(l)->lookup->work, lookup_free);
    preflight_of(l)->lookup = NULL;
}

/* ---- findings ---- */

static const char *where(struct launch *l, const struct meeting *m)
{
    return m->role ? arena_printf(preflight_of(l)->arena, "where the workers of role %s are to meet", m->role->name)
                   : "where the workers are to meet";
}

/* An address that is a name was looked up on this machine. The nodes may find another address for the name, so a
 * finding is only a note then. */
static void check_reached(struct launch *l, const struct meeting *m)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    bool *lost = preflight_nodes(l);
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
        preflight_find(l, "ports", m->by_name ? ERROR_NONE : ERROR_INFRA, lost,
                       "start etcd there, or open the way to it; preflight: off launches all the same",
                       "%s cannot reach port %u at %s, %s: %s", preflight_names(l, lost), m->port, at, where(l, m),
                       strerror((int)errnum));
        return;
    }
    cure = arena_printf(p->arena,
                        "open the ports between the nodes, or give the address by which they reach each other: "
                        "hosts: [{host: %s, address: ADDRESS}]; preflight: off launches all the same",
                        roster_host(r->plan->roster, m->master)->host);
    preflight_find(l, "ports", m->by_name ? ERROR_NONE : ERROR_INFRA, lost, cure,
                   "%s cannot reach port %u of %s at %s, %s: %s", preflight_names(l, lost), m->port,
                   preflight_name(l, m->master), at, where(l, m), strerror((int)errnum));
}

static void check_name(struct launch *l, const struct meeting *m)
{
    bool *nodes = preflight_nodes(l);
    nodes[m->master] = !m->outside;
    preflight_find(l, "ports", ERROR_NONE, nodes, "rhrun tries a numeric address before the launch",
                   "the address \"%s\"%s%s is not known here: rhrun did not try whether the nodes reach it", m->address,
                   m->outside ? ", " : " of ", m->outside ? where(l, m) : preflight_name(l, m->master));
}

static void check_listening(struct launch *l, const struct meeting *m, uint32_t errnum, const char *who)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    if (!m->given && errnum == EADDRINUSE && ++p->tries < PORT_TRIES) {
        p->again = true;
        return;
    }
    bool *nodes = preflight_nodes(l);
    nodes[m->master] = true;
    bool endpoint = !m->role && spec_flag_value(&r->plan->spec->distributed, "rdzv_endpoint");
    const char *cure =
        endpoint ? "end the process that has it, name another port, or leave rdzv_endpoint out: a free one is taken"
        : errnum == EACCES ? "ports below 1024 are for root; master_port: 0 takes a free one"
        : *who             ? "end it, or take a free port: master_port: 0"
                           : "ss -ltnp there says which process has it; master_port: 0 takes a free one";
    preflight_find(l, "ports", ERROR_INFRA, nodes, cure, "port %u on %s, %s, is not available: %s%s%s", m->port,
                   preflight_name(l, m->master), where(l, m), strerror((int)errnum), *who ? " by process " : "", who);
}

/* ---- one meeting after the other ---- */

static void probe(struct launch *l, uint32_t node, enum wire_probe what, const struct node_endpoint *to)
{
    struct run *r = l->run;
    uint32_t timeout_ms = preflight_spec(r)->timeout_ms;
    node_probe(lane_hands(&r->lanes[node])->node, preflight_token(l, 0), what, to,
               what != WIRE_PROBE_CONNECT ? 0
               : timeout_ms               ? timeout_ms
                                          : CONNECT_MS);
    preflight_of(l)->left++;
}

static void listen_there(struct launch *l, const struct meeting *m)
{
    preflight_of(l)->meet = MEET_LISTENING;
    probe(l, m->master, WIRE_PROBE_LISTEN, &(struct node_endpoint){.port = m->port});
}

static void end(struct launch *l, const struct meeting *m)
{
    preflight_of(l)->meet = MEET_ENDING;
    if (!m->outside)
        probe(l, m->master, WIRE_PROBE_END, &(struct node_endpoint){0});
}

bool preflight_meet(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    if (p->met == p->meeting_count)
        return false;
    const struct meeting *m = &p->meetings[p->met++];
    p->next = 0;
    p->refused = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        p->asked[n].errnum = 0;
    if (m->outside)
        p->meet = MEET_LISTENING; /* the server listens already */
    else
        listen_there(l, m);
    if (m->by_name && is_apart(r, m))
        begin_lookup(l, m->address);
    return true;
}

static void connect_batch(struct launch *l, const struct meeting *m)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    p->meet = MEET_CONNECTING;
    for (uint32_t k = 0; k < BATCH && p->next < r->plan->node_count; p->next++)
        if (m->nodes[p->next]) {
            probe(l, p->next, WIRE_PROBE_CONNECT, &m->to);
            k++;
        }
}

bool preflight_go_on(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    const struct meeting *m = at_hand(l);
    bool connects = m->to.len > 0 && is_apart(r, m) && !p->refused;
    switch (p->meet) {
    case MEET_LISTENING:
        if (connects)
            connect_batch(l, m);
        else
            end(l, m);
        return true;
    case MEET_CONNECTING:
        if (p->next == r->plan->node_count)
            end(l, m);
        else if (m->outside)
            connect_batch(l, m);
        else
            listen_there(l, m); /* this empties the port's queue */
        return true;
    case MEET_ENDING:
        p->meet = MEET_NOT;
        if (connects)
            check_reached(l, m);
        else if (m->by_name && m->to.len == 0 && is_apart(r, m))
            check_name(l, m);
        return false;
    case MEET_NOT:
        break;
    }
    return false;
}

void preflight_take_probed(struct launch *l, uint32_t node, uint32_t errnum, const char *who)
{
    struct preflight *p = preflight_of(l);
    if (p->meet == MEET_CONNECTING) {
        p->asked[node].errnum = errnum;
    } else if (p->meet == MEET_LISTENING && errnum) {
        p->refused = true;
        check_listening(l, at_hand(l), errnum, who);
    }
}
