/* rhrun down: gives rented machines back, and ends the containers of a job on its hosts. */
#include "renting.h"

#include "rhrun/container.h"
#include "rhrun/transport.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAID_MAX = 4096 };

struct down;
struct ending { /* of one container */
    struct down *of;
    struct transport *transport;
    struct buf said;
    enum { LEFT, REMOVED, WAS_GONE } is;
};
struct down {
    struct cli *c;
    struct loop *loop;
    struct ending *items;
    size_t count, left;
};

static void on_data(void *arg, const uint8_t *data, size_t len)
{
    struct ending *e = arg;
    if (e->said.len + len <= SAID_MAX)
        buf_append(&e->said, data, len);
}

static bool has_line(const char *text, const char *line)
{
    for (const char *p = text; (p = strstr(p, line)); p++)
        if ((p == text || p[-1] == '\n') && (p[strlen(line)] == '\n' || p[strlen(line)] == '\r'))
            return true;
    return false;
}

static void on_closed(void *arg, const struct error *err, enum transport_phase phase)
{
    struct ending *e = arg;
    const char *said = e->said.data ? e->said.data : "";
    (void)phase;
    e->is = has_line(said, CONTAINER_GONE) ? REMOVED : has_line(said, CONTAINER_WAS_GONE) ? WAS_GONE : LEFT;
    if (e->is == LEFT)
        cli_print_error(e->of->c, err);
    if (--e->of->left == 0)
        loop_stop(e->of->loop);
}

static void begin(struct down *d, struct transport_pool *pool, const struct container_place *place)
{
    static const struct transport_callbacks callbacks = {.data = on_data, .closed = on_closed};
    struct ending *e = &d->items[d->count++];
    struct transport_host host;
    struct buf text = {0};
    *e = (struct ending){.of = d};
    run_reach(place->host, place->node, &host);
    container_down(place, &text);
    host.command = text.data;
    d->left++;
    e->transport = transport_open(pool, &host, &callbacks, e);
    buf_free(&text);
}

static bool goes_down(const struct spec_host *host, bool all)
{
    bool there = host->transport != SPEC_TRANSPORT_RENTED; /* else it is gone with its machine, or never existed */
    return there && host->container && (all || host->container->down);
}

static bool some_go_down(const struct roster *roster, bool all)
{
    for (uint32_t i = 0; i < roster_count(roster); i++)
        if (goes_down(roster_host(roster, i), all))
            return true;
    return false;
}

int cli_containers_down(struct cli *c, const struct roster *roster, const char *job, bool all)
{
    if (!some_go_down(roster, all))
        return 0;
    uint32_t count = roster_count(roster);
    struct down d = {.c = c, .loop = loop_create(), .items = xcalloc((size_t)count + 1, sizeof *d.items)};
    const struct transport_pool_options o = {.allow_prompt = isatty(0) && !c->given[OPT_DETACHED_FD]};
    struct transport_pool *pool = transport_pool_create(d.loop, &o);
    size_t removed = 0, left = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct container_place place = {roster_host(roster, i), job, i};
        if (goes_down(place.host, all))
            begin(&d, pool, &place);
    }
    loop_run(d.loop);
    for (size_t i = 0; i < d.count; i++) {
        removed += d.items[i].is == REMOVED;
        left += d.items[i].is == LEFT;
        transport_close(d.items[i].transport);
        buf_free(&d.items[i].said);
    }
    if (all && left == 0 && !c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: %zu container%s removed\n", removed, removed == 1 ? "" : "s");
    transport_pool_destroy(pool);
    loop_destroy(d.loop);
    free(d.items);
    return left ? 3 : 0;
}

/* ---- rented machines ---- */

static void on_signal(void *arg, int signum)
{
    (void)signum;
    renting_interrupt(arg);
}

static int one_down(struct renting *r, const char *id, struct error *err)
{
    struct fleet_ledger *l;
    if (rent_read(id, &l, err) < 0)
        return -1;
    const char *name = arena_strdup(r->c->arena, l->wanted.name ? l->wanted.name : id);
    const bool over = (l->stage == FLEET_STAGE_OVER || l->stage == FLEET_STAGE_NONE) && !rent_has_rest(id);
    fleet_ledger_destroy(l);
    if (over) {
        if (!r->quiet && !r->c->given[OPT_ALL])
            fprintf(stderr, "rhrun: cluster %s has ended already: nothing to give back\n", id);
        return 0;
    }
    int rc = renting_open(r, id, name, err);
    if (rc == 0) {
        if (r->c->given[OPT_YES])
            rent_trust(r->cluster);
        rent_down(r->cluster, "rhrun down");
        rc = renting_wait_gone(r, err);
    }
    if (rc < 0 && err->code == ERROR_HELD)
        error_hint(err, "end the run first: rhrun cancel");
    renting_close(r);
    return rc;
}

static int every_down(struct renting *r, struct error *err)
{
    const char *const *ids;
    int rc = 0;
    if (journal_clusters(r->c->arena, &ids, err) < 0)
        return -1;
    for (; *ids; ids++) {
        struct error why = ERROR_INIT;
        if (one_down(r, *ids, &why) == 0 || why.why == ERROR_WHY_ABSENT)
            continue;
        cli_print_error(r->c, &why);
        rc = error_set(err, why.code, "not all clusters could be given back");
    }
    return rc;
}

/* id NULL: all clusters. */
static int clusters_down(struct cli *c, const char *id)
{
    struct renting r;
    struct error err = ERROR_INIT;
    struct loop *loop = loop_create();
    renting_begin(&r, c, loop);
    struct loop_signal *interrupt = loop_signal_create(loop, SIGINT, on_signal, &r, NULL);
    struct loop_signal *term = loop_signal_create(loop, SIGTERM, on_signal, &r, NULL);
    struct loop_signal *hangup = renting_hold_on(loop);
    int rc = (id ? one_down(&r, id, &err) : every_down(&r, &err)) < 0 ? cli_fail(c, &err) : 0;
    renting_end(&r);
    loop_signal_destroy(interrupt);
    loop_signal_destroy(term);
    loop_signal_destroy(hangup);
    loop_destroy(loop);
    return rc;
}

/* Fails if a run may be active on the machines: -1 and err. */
static int check_idle(const char *job, struct error *err)
{
    struct journal *j;
    if (journal_open_read(job, &j, err) < 0)
        return err->why == ERROR_WHY_ABSENT ? 0 : -1;
    const struct state_run *open = state_run_open(journal_state(j));
    int rc = 0;
    if (open && journal_holder(j, NULL, NULL)) {
        rc = error_set(err, ERROR_HELD, "run %s of this job goes on in the containers", open->id);
        error_hint(err, "wait until it ends, or stop it first: rhrun cancel %s", open->id);
    }
    journal_close(j);
    return rc;
}

static int job_down(struct cli *c, struct spec *spec)
{
    struct error err = ERROR_INIT;
    char job[17];
    const char *id = NULL;
    const struct roster *roster = roster_create(spec, c->arena);
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), job);
    if (spec->rent && spec->rent->cluster) {
        error_set(&err, ERROR_SPEC, "the job has rented nothing: it uses cluster %s, which others may use, too",
                  spec->rent->cluster);
        error_hint(&err, "rhrun down %s gives that back", cli_quoted(c, spec->rent->cluster));
        return cli_fail(c, &err);
    }
    if (spec->rent) { /* a container on a rented machine goes with it */
        if (renting_find(job, c->arena, &id, &err) < 0)
            return cli_fail(c, &err);
        if (id)
            return clusters_down(c, id);
        if (!c->given[OPT_QUIET])
            fprintf(stderr, "rhrun: no machines are rented for the job: nothing to give back\n");
        return 0;
    }
    if (!some_go_down(roster, true)) {
        if (!c->given[OPT_QUIET])
            fprintf(stderr, "rhrun: the job has no containers: nothing to remove\n");
        return 0;
    }
    if (check_idle(job, &err) < 0 || cli_check_limits(&err) < 0)
        return cli_fail(c, &err);
    return cli_containers_down(c, roster, job, true);
}

static int cmd_down(struct cli *c)
{
    struct spec *spec;
    struct error err = ERROR_INIT;
    const char *id;
    if (c->given[OPT_ALL] != (c->word_count == 0)) {
        error_set(&err, ERROR_USAGE,
                  c->word_count ? "--all and a name contradict each other" : "down needs a SPEC, a cluster, or --all");
        error_hint(&err, "rhrun clusters lists them");
        return cli_fail(c, &err);
    }
    if (c->given[OPT_ALL])
        return clusters_down(c, NULL);
    if (renting_named(c, c->words[0], &id, &err) < 0)
        return cli_fail(c, &err);
    if (id)
        return clusters_down(c, id);
    int rc = cli_load_spec(c, c->words[0], &spec);
    return rc ? rc : job_down(c, spec);
}

static const enum cli_option_id options[] = {OPT_SET, OPT_PARAM, OPT_ON, OPT_ALL, OPT_YES, OPT_COUNT};
const struct cli_command cmd_down_command = {
    "down",
    "SPEC|CLUSTER|--all",
    "Give back rented machines; remove a job's containers",
    "Deletes rented machines until the provider shows that they are gone. Credentials\n"
    "other than those with which they were rented prove nothing, unless they show one\n"
    "of the machines, or --yes says that they belong to the same account. The content\n"
    "of a container is lost, so set-up runs again the next time; the job's ledger,\n"
    "working directory and home folders are on the hosts and stay.\n"
    "Exit status 3: a host could not be reached, a runtime refused, or a machine\n"
    "could not be proven gone; rhrun down again does the rest.",
    options,
    0,
    1,
    true,
    cmd_down};
