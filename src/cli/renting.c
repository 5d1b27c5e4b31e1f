/* A rented cluster, for commands: opening it, waiting for it, printing about it. */
#include "renting.h"

#include "rhrun/catalog.h"
#include "rhrun/transport.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK_MS = 15000 };

void renting_put_usd(struct buf *b, uint64_t microusd)
{
    char text[32];
    catalog_format_usd(microusd, 2, text);
    buf_printf(b, "$%s", text);
}

void renting_begin(struct renting *r, struct cli *c, struct loop *loop)
{
    *r = (struct renting){.c = c, .loop = loop, .quiet = c->given[OPT_QUIET] || c->given[OPT_JSON]};
}

void renting_end(struct renting *r)
{
    renting_close(r);
    rent_destroy(r->rent);
    transport_pool_destroy(r->pool);
    r->rent = NULL;
    r->pool = NULL;
}

/* ---- messages ---- */

static void say(const struct renting *r, const struct buf *text, bool fault)
{
    if (!r->quiet || fault)
        renting_say(r, "%s", text->data);
}

static void put_offer(struct buf *b, const struct fleet_offer *o)
{
    buf_printf(b, "%u × %s at %s%s%s%s", o->nodes, o->type, o->provider, o->region[0] ? " " : "", o->region,
               o->spot ? ", spot" : "");
    if (o->unpriced) {
        buf_puts(b, ", at an unknown price");
    } else if (o->price) {
        buf_puts(b, ", ");
        renting_put_usd(b, o->price * o->nodes);
        buf_puts(b, " an hour");
    }
}

static const char *why(const struct fleet_effect *e)
{
    return e->text ? e->text : provider_class_name(e->fault);
}

static void told_finished(struct renting *r, const struct fleet_effect *e)
{
    const struct fleet_ledger *l = rent_ledger(r->cluster);
    struct buf b = {0};
    r->finished = true;
    r->how = e->how;
    r->left = e->left;
    if (e->how == FLEET_HOW_FAILED) {
        const bool ours = e->fault == PROVIDER_CLASS_AUTH || e->fault == PROVIDER_CLASS_INVALID;
        error_set(&r->fault, ours ? ERROR_USAGE : ERROR_INFRA, "the machines could not be rented: %s", why(e));
    }
    if (e->left == 0 && l->machine_count > 0) {
        buf_printf(&b, "cluster %s: all of its machines are gone", l->wanted.id);
        if (fleet_cost(l, wall_ms()) > 0) {
            buf_puts(&b, "; it has cost ");
            renting_put_usd(&b, fleet_cost(l, wall_ms()));
        }
        say(r, &b, false);
    }
    buf_free(&b);
}

static void put_time(struct buf *b, uint64_t at_ms)
{
    char when[32];
    cli_time(at_ms, when);
    buf_puts(b, when);
}

static void tell(struct renting *r, const struct fleet_effect *e, struct buf *b)
{
    char took[32];
    switch (e->tell) {
    case FLEET_TELL_TRYING:
        buf_puts(b, "renting ");
        put_offer(b, e->offer);
        break;
    case FLEET_TELL_WAITING:
        cli_duration(e->wait_ms, took);
        buf_printf(b, "%s is asked for again in %s: %s", e->order->name, took, why(e));
        break;
    case FLEET_TELL_RETREAT:
        buf_puts(b, "could not rent ");
        put_offer(b, e->offer);
        buf_printf(b, ": %s; its machines are given back, then the next offer is tried", why(e));
        break;
    case FLEET_TELL_READY:
        cli_duration(wall_ms() - (r->machines[e->slot].asked_ms ? r->machines[e->slot].asked_ms : r->began_ms), took);
        buf_printf(b, "node %u is %s %.40s%s%s, ready after %s", e->slot, e->machine->provider, e->machine->id,
                   e->address[0] ? " at " : "", e->address, took);
        break;
    case FLEET_TELL_LOST:
        buf_printf(b, "the machine of node %u is gone: %s", e->slot, e->text ? e->text : "it ended by itself");
        break;
    case FLEET_TELL_UNREPLACED:
        buf_printf(b, "no other machine could be rented for node %u: %s", e->slot, why(e));
        break;
    case FLEET_TELL_NOTICE:
        if (e->slot == FLEET_NONE)
            buf_puts(b, "max_hours are over at ");
        else
            buf_printf(b, "the provider takes the machine of node %u back at ", e->slot);
        put_time(b, e->at_ms);
        break;
    case FLEET_TELL_REFUSED:
        buf_printf(b, "another machine answers at %s, the address of %s: it is not used", e->address, e->machine->id);
        break;
    case FLEET_TELL_DEARER:
        fleet_dearer_text(e, b);
        break;
    case FLEET_TELL_LEFT:
        fleet_left_text(e, b);
        break;
    case FLEET_TELL_COMPLETE:
    case FLEET_TELL_FINISHED:
        break;
    }
}

/* A line of `run --json`: only while no run writes lines. */
static void tell_json(const struct renting *r, const struct fleet_effect *e, const char *text)
{
    static const char *const words[] = {"trying",     "waiting", "retreat", "ready",  "complete", "lost",
                                        "unreplaced", "notice",  "refused", "dearer", "left",     "finished"};
    const struct fleet_ledger *l = rent_ledger(r->cluster);
    struct buf b = {0};
    buf_printf(&b, "{\"type\":\"cluster\",\"time_ms\":%llu,\"cluster\":\"%s\",\"what\":\"%s\"",
               (unsigned long long)wall_ms(), l->wanted.id, words[e->tell]);
    cli_json_string(&b, "text", text);
    if (e->machine) {
        if (e->slot != FLEET_NONE)
            buf_printf(&b, ",\"node\":%u", e->slot);
        cli_json_string(&b, "provider", e->machine->provider);
        cli_json_string(&b, "region", e->machine->region);
        cli_json_string(&b, "machine", e->machine->id);
        cli_json_string(&b, "address", e->address);
    }
    buf_printf(&b, ",\"usd_per_hour\":%.6f,\"usd_so_far\":%.6f}\n", (double)fleet_rate(l) / 1e6,
               (double)fleet_cost(l, wall_ms()) / 1e6);
    fwrite(b.data, 1, b.len, stdout);
    fflush(stdout);
    buf_free(&b);
}

static bool is_fault(enum fleet_tell t)
{
    return t == FLEET_TELL_LEFT || t == FLEET_TELL_REFUSED || t == FLEET_TELL_UNREPLACED || t == FLEET_TELL_DEARER;
}

static void on_told(void *arg, const struct fleet_effect *e)
{
    struct renting *r = arg;
    struct buf b = {0};
    if (e->tell == FLEET_TELL_FINISHED)
        told_finished(r, e);
    if (e->tell == FLEET_TELL_COMPLETE)
        r->complete = true;
    r->seen += e->tell == FLEET_TELL_READY;
    r->lost_count += e->tell == FLEET_TELL_LOST;
    tell(r, e, &b);
    if (b.len && !r->json)
        say(r, &b, is_fault(e->tell));
    renting_machine_told(r, e);
    if (r->json && r->waits)
        tell_json(r, e, b.len ? b.data : NULL);
    buf_free(&b);
    if (r->notice && e->tell == FLEET_TELL_NOTICE && e->slot == FLEET_NONE)
        r->notice(r->arg, e->at_ms);
    if (r->waits && (e->tell == FLEET_TELL_COMPLETE || e->tell == FLEET_TELL_READY || e->tell == FLEET_TELL_LOST ||
                     e->tell == FLEET_TELL_UNREPLACED || e->tell == FLEET_TELL_FINISHED))
        loop_stop(r->loop);
}

/* Prints new trouble; repeated trouble is printed once. */
static void on_trouble(void *arg, const char *provider, const char *region, const char *text)
{
    struct renting *r = arg;
    char now[sizeof r->troubled];
    snprintf(now, sizeof now, "%s%s%s: %s", provider, region[0] ? " " : "", region, text);
    if (str_eq(now, r->troubled))
        return;
    snprintf(r->troubled, sizeof r->troubled, "%s", now);
    renting_say(r, "warning: %s; it is tried again", now);
}

static void on_failed(void *arg, const struct error *err)
{
    struct renting *r = arg;
    r->failed = true;
    r->fault = *err;
    error_hint(&r->fault, "machines may still be rented: rhrun clusters shows them, rhrun gc --yes gives them back");
    if (r->waits)
        loop_stop(r->loop);
    else
        cli_print_error(r->c, &r->fault);
}

/* ---- opening, waiting ---- */

int renting_connect(struct renting *r, struct error *err)
{
    const struct transport_pool_options o = {.allow_prompt = false};
    if (r->rent)
        return 0;
    r->pool = transport_pool_create(r->loop, &o);
    r->rent = rent_create(r->loop, r->pool, err);
    return r->rent ? 0 : -1;
}

int renting_open(struct renting *r, const char *id, const char *name, struct error *err)
{
    static const struct rent_observer observer = {.told = on_told, .trouble = on_trouble, .failed = on_failed};
    if (renting_connect(r, err) < 0)
        return -1;
    r->complete = r->finished = r->failed = false;
    r->seen = r->lost_count = 0;
    if (!r->machines) /* too many for a stack */
        r->machines = arena_array(r->c->arena, FLEET_NODES_MAX, sizeof *r->machines);
    memset(r->machines, 0, FLEET_NODES_MAX * sizeof *r->machines);
    r->held = false;
    r->left = 0;
    r->began_ms = wall_ms();
    r->fault = (struct error)ERROR_INIT;
    snprintf(r->id, sizeof r->id, "%s", id);
    return rent_open(r->rent, id, name, &observer, r, &r->cluster, err);
}

void renting_close(struct renting *r)
{
    renting_view_end(r);
    rent_close(r->cluster);
    r->cluster = NULL;
}

void renting_run_loop(struct renting *r)
{
    r->waits = true;
    loop_run(r->loop);
    r->waits = false;
}

int renting_wait(struct renting *r, struct error *err)
{
    renting_view_begin(r);
    while (!r->complete && !r->finished && !r->failed)
        renting_run_loop(r);
    renting_view_end(r);
    if (r->complete && !r->finished && !r->failed)
        return 0;
    *err = r->fault;
    if (r->fault.code == ERROR_NONE && r->interrupted)
        error_set(err, ERROR_INTERRUPTED, "interrupted while the machines were rented");
    else if (r->fault.code == ERROR_NONE)
        error_set(err, ERROR_INFRA, "cluster %s ended before all of its machines were ready", r->id);
    return -1;
}

int renting_wait_gone(struct renting *r, struct error *err)
{
    renting_view_begin(r);
    while (!r->finished && !r->failed)
        renting_run_loop(r);
    renting_view_end(r);
    if (r->failed) {
        *err = r->fault;
        return -1;
    }
    if (r->left == 0)
        return 0;
    error_set(err, ERROR_INFRA, "cluster %s: %u machine%s may still be there", r->id, r->left, r->left == 1 ? "" : "s");
    error_hint(err, "they may still cost money; rhrun gc tries again");
    return -1;
}

void renting_interrupt(struct renting *r)
{
    if (!r->cluster || r->finished)
        return;
    if (r->interrupted) {
        error_set(&r->fault, ERROR_INTERRUPTED, "let go of cluster %s, which may have machines", r->id);
        error_hint(&r->fault, "rhrun gc gives them back");
        r->failed = true;
        loop_stop(r->loop);
        return;
    }
    r->interrupted = true;
    if (r->settles || r->borrowed) { /* `down` decides what happens to them */
        loop_stop(r->loop);
        return;
    }
    if (!r->quiet)
        renting_say(r, "interrupted: the machines are given back; Ctrl-C again lets go of them");
    rent_down(r->cluster, "interrupted");
}

/* ---- clusters that were left ---- */

enum deed renting_deed(const struct fleet_ledger *l)
{
    switch (l->stage) {
    case FLEET_STAGE_RENTING:
    case FLEET_STAGE_RETREATING:
        return DEED_DOWN;
    case FLEET_STAGE_COMPLETE:
        if (l->wanted.deadline_ms && wall_ms() >= l->wanted.deadline_ms)
            return DEED_GO_ON;
        return l->held_by ? DEED_FREE : l->freed_ms ? DEED_GO_ON : DEED_NONE;
    case FLEET_STAGE_ENDING:
        return DEED_GO_ON;
    case FLEET_STAGE_NONE:
    case FLEET_STAGE_OVER:
        break;
    }
    return rent_has_rest(l->wanted.id ? l->wanted.id : "") ? DEED_GO_ON : DEED_NONE;
}

bool renting_ends(const struct fleet_ledger *l, enum deed deed)
{
    const uint64_t now = wall_ms();
    const struct fleet_wanted *w = &l->wanted;
    if (deed == DEED_NONE || l->stage != FLEET_STAGE_COMPLETE)
        return deed != DEED_NONE;
    return (w->deadline_ms && now >= w->deadline_ms) || w->down == FLEET_DOWN_ALWAYS ||
           (w->down == FLEET_DOWN_IDLE && l->freed_ms && now >= l->freed_ms + w->idle_ms);
}

int renting_do(struct renting *r, const char *id, const char *name, enum deed deed, struct error *err)
{
    if (renting_open(r, id, name, err) < 0)
        return -1;
    if (deed == DEED_DOWN)
        rent_down(r->cluster, "the rhrun that rented it has ended");
    else if (deed == DEED_FREE)
        rent_free(r->cluster);
    int rc = rent_sync(r->cluster, err);
    if (rc == 0 && rent_ledger(r->cluster)->stage != FLEET_STAGE_COMPLETE)
        rc = renting_wait_gone(r, err);
    renting_close(r);
    return rc;
}

static bool renting_is_past(const struct fleet_ledger *l)
{
    return l->wanted.deadline_ms && wall_ms() >= l->wanted.deadline_ms;
}

static void say_left_alone(const struct renting *r, const char *id, const char *name)
{
    if (!r->quiet)
        fprintf(stderr,
                "rhrun: warning: cluster %s of job \"%s\" is still rented, and no rhrun works with it: its own command "
                "continues it, rhrun down %s gives it back\n",
                id, name, id);
}

int renting_reconcile(struct renting *r, const char *job, bool own, struct error *err)
{
    const char *const *ids;
    if (journal_clusters(r->c->arena, &ids, err) < 0)
        return -1;
    for (; *ids && !r->interrupted; ids++) {
        struct fleet_ledger *l;
        struct error why = ERROR_INIT;
        const bool of_job = strncmp(*ids, job, RENT_JOB_PREFIX) == 0;
        if (rent_is_over(*ids))
            continue;
        if (rent_read(*ids, &l, &why) < 0) {
            if (why.why != ERROR_WHY_ABSENT)
                cli_print_error(r->c, &why);
            continue;
        }
        const enum deed deed = renting_deed(l);
        const char *name = arena_strdup(r->c->arena, l->wanted.name);
        const bool in_use = deed == DEED_FREE && !of_job && !renting_is_past(l);
        const bool spared = of_job && !own && l->stage != FLEET_STAGE_OVER; /* an over one cannot be used */
        fleet_ledger_destroy(l);
        if (spared)
            continue;
        if (in_use)
            say_left_alone(r, *ids, name);
        else if (deed != DEED_NONE && renting_do(r, *ids, name, deed, &why) < 0 && why.code != ERROR_HELD)
            cli_print_error(r->c, &why);
    }
    return 0;
}

/* ---- the cluster of a job ---- */

int renting_find(const char *job_id, struct arena *arena, const char **ret_id, struct error *err)
{
    const char *const *ids;
    *ret_id = NULL;
    if (journal_clusters(arena, &ids, err) < 0)
        return -1;
    for (; *ids && !*ret_id; ids++) {
        struct fleet_ledger *l;
        struct error why = ERROR_INIT;
        if (strncmp(*ids, job_id, RENT_JOB_PREFIX) != 0 || rent_is_over(*ids))
            continue;
        if (rent_read(*ids, &l, &why) < 0) {
            if (why.why == ERROR_WHY_ABSENT)
                continue;
            *err = why;
            return -1;
        }
        if (l->stage != FLEET_STAGE_OVER && l->stage != FLEET_STAGE_NONE)
            *ret_id = *ids;
        fleet_ledger_destroy(l);
    }
    return 0;
}

int renting_named(struct cli *c, const char *word, const char **ret_id, struct error *err)
{
    const char *const *ids;
    *ret_id = NULL;
    if (journal_clusters(c->arena, &ids, err) < 0)
        return -1;
    for (; *ids; ids++) {
        struct fleet_ledger *l;
        struct error why = ERROR_INIT;
        if (rent_read(*ids, &l, &why) < 0) {
            if (strcmp(*ids, word) == 0) {
                *err = why;
                return -1;
            }
            if (why.why != ERROR_WHY_ABSENT) /* another cluster's error: no reason not to give this one back */
                cli_print_error(c, &why);
            continue;
        }
        const bool is_id = strcmp(*ids, word) == 0,
                   there = l->stage != FLEET_STAGE_OVER && l->stage != FLEET_STAGE_NONE;
        const bool is_name = there && str_eq(l->wanted.name, word);
        fleet_ledger_destroy(l);
        if (is_name && *ret_id) {
            error_set(err, ERROR_USAGE, "there is more than one cluster \"%s\"", word);
            error_hint(err, "rhrun clusters shows their ids, which can be given instead");
            return -1;
        }
        if (is_id || is_name)
            *ret_id = *ids;
        if (is_id)
            break;
    }
    return 0;
}

static void put_what(struct buf *b, const struct spec_rent *w, uint32_t nodes)
{
    buf_printf(b, "%u × %s", nodes, w->instance ? w->instance : "any");
    for (size_t i = 0; i < w->provider_count; i++)
        buf_printf(b, "%s%s", i ? "|" : " at ", w->providers[i]);
    for (size_t i = 0; i < w->region_count; i++)
        buf_printf(b, "%s%s", i ? "|" : " in ", w->regions[i]);
    buf_puts(b, w->spot == SPOT_ONLY ? " spot" : w->spot == SPOT_PREFER ? " prefer-spot" : "");
}

/* The same text for every alternative; a long text ends with a digest, so that it stays unique. */
static const char *what_of(const struct spec_rent *w, uint32_t nodes, struct arena *arena)
{
    struct buf b = {0};
    if (w->alternative_count == 0)
        put_what(&b, w, nodes);
    for (size_t i = 0; i < w->alternative_count; i++) {
        buf_puts(&b, i ? " or " : "");
        put_what(&b, &w->alternatives[i], w->alternatives[i].nodes);
    }
    if (w->image)
        buf_printf(&b, " image %s", w->image);
    if (w->disk_gb)
        buf_printf(&b, " disk %uGB", w->disk_gb);
    if (b.len > FLEET_TEXT_MAX) {
        char digest[65];
        digest_sha256_hex(b.data, b.len, digest);
        snprintf(b.data + FLEET_TEXT_MAX - 20, 21, "... %.16s", digest);
    }
    str_printable(b.data);
    const char *ret = arena_strdup(arena, b.data);
    buf_free(&b);
    return ret;
}

/* The offer that costs most, of all that may be rented; an unknown price counts as the highest. NULL: none costs
 * anything. */
static const struct fleet_offer *dearest(const struct rent_offers *offers)
{
    const struct fleet_offer *most = NULL;
    for (size_t i = 0; i < offers->count; i++) {
        const struct fleet_offer *o = &offers->items[i];
        if (!o->price && !o->unpriced)
            continue;
        if (!most || (!most->unpriced && (o->unpriced || o->price * o->nodes > most->price * most->nodes)))
            most = o;
    }
    return most;
}

/* Without a price limit in the spec, spending money needs a confirmation: also for the later offers, which are rented
 * if the first is not available. */
static int check_price(const struct renting *r, const struct spec_rent *w, const struct rent_offers *offers,
                       struct error *err)
{
    const struct fleet_offer *first = &offers->items[0], *most = dearest(offers);
    struct buf b = {0};
    char answer[16] = "";
    if (r->c->given[OPT_YES] || w->max_price || !most)
        return 0;
    put_offer(&b, first);
    if (most != first && (most->unpriced || most->price * most->nodes > first->price * first->nodes)) {
        buf_puts(&b, "; if that is not available others, up to ");
        put_offer(&b, most);
    }
    if (isatty(0) && isatty(2) && !r->c->given[OPT_JSON]) {
        fprintf(stderr, "rhrun: rent %s? [y/N] ", b.data);
        if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y')) {
            buf_free(&b);
            return 0;
        }
    }
    error_set(err, ERROR_USAGE, "nothing is rented without a yes: %s", b.data);
    error_hint(err, "give cluster.max_price (USD per hour for all nodes) in the spec, or --yes");
    buf_free(&b);
    return -1;
}

static int want(struct renting *r, const struct spec *spec, const struct roster *roster, const char *what,
                const char *job_id, struct error *err)
{
    char id[21];
    const struct spec_rent *w = spec->rent;
    struct arena *arena = r->c->arena;
    struct rent_offers offers;
    struct diagnostics d = {0};
    int rc = rent_offers(w, spec->nnodes, arena, &offers, &d, err);
    if (d.count > 0 && (rc < 0 || !r->quiet))
        cli_print_diagnostics(r->c, &d);
    diagnostics_free(&d);
    if (rc < 0 || rent_credentials_check(&offers, arena, err) < 0 || check_price(r, w, &offers, err) < 0)
        return -1;
    rent_new_id(job_id, id);
    const struct fleet_wanted wanted = {.id = id,
                                        .name = spec->name,
                                        .owner = cli_rent_owner(arena),
                                        .what = what,
                                        .image = w->image,
                                        .user = roster_host(roster, 0)->user,
                                        .disk_gb = w->disk_gb,
                                        .deadline_ms = w->max_ms ? wall_ms() + w->max_ms : 0,
                                        .max_price = w->max_price,
                                        .down = w->down == DOWN_ALWAYS  ? FLEET_DOWN_ALWAYS
                                                : w->down == DOWN_NEVER ? FLEET_DOWN_NEVER
                                                                        : FLEET_DOWN_IDLE,
                                        .idle_ms = w->idle_ms,
                                        .offers = offers.items,
                                        .offer_count = (uint32_t)offers.count};
    if (fleet_wanted_check(&wanted, err) < 0 || renting_open(r, id, spec->name, err) < 0)
        return -1;
    rent_want(r->cluster, &wanted);
    return 0;
}

int renting_roster(const struct fleet_ledger *l, struct arena *arena, struct roster *roster, struct error *err)
{
    struct spec_host *hosts;
    if (rent_hosts(l, arena, &hosts, err) < 0)
        return -1;
    for (uint32_t i = 0; i < l->slot_count && i < roster_count(roster); i++) {
        const struct spec_host *placeholder = roster_host(roster, i);
        if (!hosts[i].host)
            continue;
        hosts[i].name = placeholder->name;
        hosts[i].container = placeholder->container;
        roster_put(roster, i, &hosts[i]);
    }
    return 0;
}

/* It ends by its own rules as soon as it is opened: its time is over, or it was freed and `down` ends it. */
static bool is_spent(const struct fleet_ledger *l)
{
    const struct fleet_wanted *w = &l->wanted;
    const uint64_t now = wall_ms();
    return l->stage == FLEET_STAGE_ENDING || (w->deadline_ms && now >= w->deadline_ms) ||
           (l->freed_ms && w->down == FLEET_DOWN_ALWAYS) ||
           (l->freed_ms && w->down == FLEET_DOWN_IDLE && now >= l->freed_ms + w->idle_ms);
}

/* Continues with the existing cluster; *ret: it can be used. */
static int reuse(struct renting *r, const char *id, const struct spec *spec, const char *what, bool *ret,
                 struct error *err)
{
    *ret = false;
    if (renting_open(r, id, spec->name, err) < 0)
        return -1;
    const struct fleet_ledger *l = rent_ledger(r->cluster);
    if (is_spent(l)) { /* first it must be gone, then another one is rented */
        rent_begin(r->cluster);
        if (renting_wait_gone(r, err) < 0)
            return -1;
        renting_close(r);
        return 0;
    }
    if (!str_eq(l->wanted.what, what)) {
        error_set(err, ERROR_SPEC, "the job has a cluster of another kind: %s has %s, and the spec wants %s", id,
                  l->wanted.what ? l->wanted.what : "?", what);
        error_hint(err, "rhrun down %s gives it back; the next run rents a new one", id);
        return -1;
    }
    if (renting_check_holder(l, spec, r->c->arena, err) < 0)
        return -1;
    *ret = true;
    return 0;
}

int renting_up(struct renting *r, const struct spec *spec, struct roster *roster, const char *job_id, const char *by,
               struct error *err)
{
    const char *id, *what = what_of(spec->rent, spec->nnodes, r->c->arena);
    bool there = false;
    if (renting_find(job_id, r->c->arena, &id, err) < 0 || (id && reuse(r, id, spec, what, &there, err) < 0))
        return -1;
    if (!there && want(r, spec, roster, what, job_id, err) < 0)
        return -1;
    r->held = by != NULL;
    if (by)
        rent_hold(r->cluster, by);
    else
        rent_begin(r->cluster);
    r->replaces = true;
    int rc = renting_wait(r, err);
    if (rc == 0)
        rc = renting_wait_machines(r, err);
    r->replaces = false;
    return rc < 0 ? -1 : renting_roster(rent_ledger(r->cluster), r->c->arena, roster, err);
}

static void time_is_over(void *arg)
{
    struct renting *r = arg;
    r->asked_enough = true;
    loop_stop(r->loop);
}

/* Opens the ledger anew, as the next process would, so that every machine is looked at. */
bool renting_has_lost(struct renting *r, const char *by)
{
    struct error err = ERROR_INIT;
    const struct fleet_wanted *w = &rent_ledger(r->cluster)->wanted;
    const char *id = arena_strdup(r->c->arena, w->id), *name = arena_strdup(r->c->arena, w->name);
    const bool quiet = r->quiet;
    renting_close(r);
    if (renting_open(r, id, name, &err) < 0) {
        cli_print_error(r->c, &err);
        return false;
    }
    r->quiet = true; /* ready machines were reported before */
    struct loop_timer *timer = loop_timer_create(r->loop, time_is_over, r);
    r->asked_enough = false;
    loop_timer_start(timer, ASK_MS);
    rent_hold(r->cluster, by);
    while (!r->asked_enough && !r->finished && !r->failed &&
           r->seen + r->lost_count < rent_ledger(r->cluster)->slot_count)
        renting_run_loop(r);
    loop_timer_destroy(timer);
    r->quiet = quiet;
    return r->lost_count > 0;
}

int renting_leave(struct renting *r, struct error *err)
{
    if (!r->cluster)
        return 0;
    if (r->failed) {
        *err = r->fault;
        return -1;
    }
    rent_free(r->cluster);
    if (rent_sync(r->cluster, err) < 0)
        return -1;
    return rent_ledger(r->cluster)->stage == FLEET_STAGE_COMPLETE ? 0 : renting_wait_gone(r, err);
}
