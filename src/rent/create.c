/*
 * What a create needs, once for each provider and region: networks and the like (prepare) and the key at the provider.
 * Then the create itself. And the removal of these when no machine is left (cleanup, the key).
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUSY_MS = 20,
    CLEANUP_TRIES = 12,
    CLEANUP_PAUSE_MS = 500,
    CLEANUP_PAUSE_MAX_MS = 10000,
    FOREVER_S = 100 * 86400 /* the longest life that providers are told */
};

enum site_state { SITE_NEW, SITE_BUSY, SITE_READY };
struct site { /* a region of a provider, for one cluster */
    struct site *next;
    struct rent_cluster *cluster;
    struct account *account;
    struct arena *arena;
    const char *region;
    enum site_state state;
    enum provider_operation at; /* BUSY: prepare, key_list, key_create */
    bool pull;
    struct doc_node *values; /* values extracted so far */
    uint64_t late_ms;        /* until then a request with an unknown outcome may still be carried out; the loop's
                                clock */
    struct exchange *exchange;
    /* of cleanup */
    uint32_t tries;
    struct loop_timer *timer;
    bool clean;
    void (*cleaned)(struct rent_cluster *c);
};
struct going { /* a create whose later steps are still to be sent */
    struct going *next;
    char *id;
    struct exchange *exchange;
};

static struct site *site_of(struct rent_cluster *c, struct account *account, const char *region)
{
    for (struct site *p = c->sites; p; p = p->next)
        if (p->account == account && str_eq(p->region, region))
            return p;
    struct site *p = xcalloc(1, sizeof *p);
    p->cluster = c;
    p->account = account;
    p->arena = arena_create();
    p->region = arena_strdup(p->arena, region);
    p->next = c->sites;
    c->sites = p;
    return p;
}

void sites_free(struct rent_cluster *c)
{
    for (struct site *p = c->sites, *after; p; p = after) {
        after = p->next;
        exchange_end(p->exchange);
        loop_timer_destroy(p->timer);
        arena_destroy(p->arena);
        free(p);
    }
    for (struct going *g = c->going, *after; g; g = after) {
        after = g->next;
        exchange_end(g->exchange);
        free(g->id);
        free(g);
    }
}

static struct doc_node *site_inputs(struct site *p, const char *zone)
{
    struct rent_cluster *c = p->cluster;
    struct doc_node *in = cluster_inputs(c, p->region, zone, p->arena);
    const struct fleet_wanted *w = &rent_ledger(c)->wanted;
    const struct provider_facts *facts = p->account->provider ? provider_facts(p->account->provider) : NULL;
    put_text(p->arena, in, "image", w->image ? w->image : facts ? facts->image : NULL);
    put_text(p->arena, in, "user", facts ? cluster_user(rent_ledger(c), facts) : NULL);
    put_text(p->arena, in, "key_name", arena_printf(p->arena, "rhrun-%s", w->id));
    struct error none = ERROR_INIT;
    const struct rent_keys *keys = facts && str_eq(facts->connect, "ssh") ? cluster_keys(c, &none) : NULL;
    put_text(p->arena, in, "public_key", keys ? rent_login_public(keys) : NULL);
    char drawn[17];
    random_hex(drawn, 8);
    put_text(p->arena, in, "unique", drawn);
    if (p->pull)
        doc_set(p->arena, in, "pull", doc_new_bool(p->arena, true));
    return in;
}

static void add_values(struct arena *a, struct doc_node *in, const struct doc_node *values)
{
    for (size_t i = 0; values && i < values->count; i++)
        doc_set(a, in, values->members[i].key, values->members[i].value);
}

/* ---- creating ---- */

static void created(struct job *j, const struct exchange_answer *a)
{
    const char **ids = arena_array(j->arena, a->machine_count + 2, sizeof *ids);
    uint64_t *prices = arena_array(j->arena, a->machine_count + 2, sizeof *prices);
    uint32_t count = 0;
    for (size_t i = 0; i < a->machine_count; i++) {
        if (!a->machines[i].id)
            continue;
        prices[count] = told_price(&a->machines[i]);
        ids[count++] = a->machines[i].id;
    }
    const struct doc_node *id = doc_get(a->values, "id");
    if (count == 0 && id && id->text_len)
        ids[count++] = id->text;
    const struct fleet_input in = {.kind = FLEET_INPUT_CREATED,
                                   .name = j->name,
                                   .ids = ids,
                                   .prices = prices,
                                   .id_count = count,
                                   .fault = a->class,
                                   .scope = a->scope,
                                   .unsure = a->unsure,
                                   .unsent = a->unsent,
                                   .retry_after_ms = a->retry_after_ms,
                                   .text = a->text};
    job_answer(j, &in);
}

static bool wants_pull(const struct job *j, const struct exchange_answer *a)
{
    return a->class == PROVIDER_CLASS_INVALID && a->step == 0 && !j->pulled &&
           str_eq(provider_facts(j->account->provider)->connect, "docker");
}

static void on_created(void *arg, const struct exchange_answer *a)
{
    struct job *j = arg;
    j->exchange = NULL;
    if (!wants_pull(j, a)) {
        created(j, a);
        return;
    }
    struct site *p = site_of(j->cluster, j->account, j->region);
    j->pulled = p->pull = true;
    if (p->state == SITE_READY)
        p->state = SITE_NEW;
    create_begin(j);
}

/* A token of 32 hex digits, as the UUID that some providers want. */
static const char *uuid_of(struct arena *a, const char *token)
{
    return strlen(token) < 32
               ? token
               : arena_printf(a, "%.8s-%.4s-%.4s-%.4s-%.12s", token, token + 8, token + 12, token + 16, token + 20);
}

/* The machine's first instructions. -1 and err: they cannot be given to it. */
static int put_user_data(struct job *j, struct doc_node *in, struct error *err)
{
    struct rent_cluster *c = j->cluster;
    const struct fleet_wanted *w = &rent_ledger(c)->wanted;
    const struct provider_facts *facts = provider_facts(j->account->provider);
    struct buf private = {0}, public = {0}, text = {0};
    if (!str_eq(facts->connect, "ssh"))
        return 0;
    const struct rent_keys *keys = cluster_keys(c, err);
    if (!keys)
        return -1;
    if (facts->user_data_max == 0)
        return 0;
    rent_host_key(keys, j->order.name, &public, &private);
    const struct bootstrap b = {.user = cluster_user(rent_ledger(c), facts),
                                .public_key = rent_login_public(keys),
                                .host_key_private = private.data,
                                .host_key_public = public.data,
                                .token = j->order.token,
                                .expires_s = w->deadline_ms / 1000,
                                .idle_s = w->down == FLEET_DOWN_IDLE ? w->idle_ms / 1000 : 0,
                                .deadline = facts->deadline,
                                .billing_when_stopped = facts->billing_when_stopped};
    int rc = bootstrap_text(&b, facts->user_data_max, &text, err);
    if (rc == 0)
        put_text(j->arena, in, "user_data", text.data);
    explicit_bzero(private.data, private.len);
    buf_free(&private);
    buf_free(&public);
    buf_free(&text);
    return rc;
}

static void refuse_create(struct job *j, const struct error *err)
{
    const struct exchange_answer a = {.class = PROVIDER_CLASS_INVALID,
                                      .scope = PROVIDER_SCOPE_PROVIDER,
                                      .text = err->text,
                                      .unsent = true,
                                      .values = doc_new_object(j->arena)};
    created(j, &a);
}

static void send_create(struct job *j, struct site *p)
{
    struct error err = ERROR_INIT;
    struct rent_cluster *c = j->cluster;
    const struct fleet_wanted *w = &rent_ledger(c)->wanted;
    const struct fleet_offer *o = j->offer;
    const struct provider_facts *facts = provider_facts(j->account->provider);
    struct arena *a = j->arena;
    struct doc_node *in = site_inputs(p, o->zone);
    const uint64_t now = wall_ms();
    const uint64_t left_s = w->deadline_ms == 0 ? FOREVER_S : w->deadline_ms > now ? (w->deadline_ms - now) / 1000 : 1;
    add_values(a, in, p->values);
    put_text(a, in, "name", j->order.name);
    put_text(a, in, "token", uuid_of(a, j->order.token));
    put_text(a, in, "type", o->type);
    if (o->gpu && !w->image && facts->image_gpu)
        put_text(a, in, "image", facts->image_gpu);
    if (o->gpu_count)
        put_number(a, in, "gpu_count", o->gpu_count);
    if (j->order.count == 1)
        put_number(a, in, "node", j->order.slot);
    put_number(a, in, "count", j->order.count);
    put_number(a, in, "max_seconds", left_s ? left_s : 1);
    if (w->disk_gb)
        put_number(a, in, "disk_gb", w->disk_gb);
    if (o->spot)
        doc_set(a, in, "spot", doc_new_bool(a, true));
    if (o->spot && w->max_price) { /* a spot machine's price changes while it runs */
        const uint64_t each = w->max_price / o->nodes;
        put_text(
            a, in, "max_price",
            arena_printf(a, "%llu.%06llu", (unsigned long long)(each / MICRO), (unsigned long long)(each % MICRO)));
    }
    if (put_user_data(j, in, &err) < 0) {
        refuse_create(j, &err);
        return;
    }
    const struct exchange_ask ask = {.operation = PROVIDER_CREATE, .inputs = in};
    j->exchange = exchange_begin(j->account, &ask, on_created, j);
}

/* ---- before the create ---- */

/* The file `cleanup`, durable before anything is made that cleanup removes. It is empty while the answer to such a
 * request is unknown, and has one byte once all answers have come. */
static int note_cleanup(struct rent_cluster *c, struct error *err)
{
    CLEANUP(cleanup_free) char *file = xasprintf("%s/cleanup", c->folder);
    CLEANUP(cleanup_close) int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    CLEANUP(cleanup_close) int folder = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0 || folder < 0 || fsync(folder) < 0)
        return error_errno(err, ERROR_IO, errno, "could not write \"%s\"", file);
    return 0;
}

/* If this is lost, the next process only waits longer. */
static void note_answers(const struct rent_cluster *c)
{
    CLEANUP(cleanup_free) char *file = xasprintf("%s/cleanup", c->folder);
    CLEANUP(cleanup_close) int fd = open(file, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    bool all = fd >= 0 && !c->may_be_prepared;
    for (const struct site *p = c->sites; p; p = p->next)
        all = all && p->state != SITE_BUSY && p->late_ms == 0;
    if (all && write(fd, ".", 1) < 0)
        return;
}

bool cleanup_may_be_late(const struct rent_cluster *c)
{
    struct stat st;
    CLEANUP(cleanup_free) char *file = xasprintf("%s/cleanup", c->folder);
    return stat(file, &st) == 0 && st.st_size == 0;
}

static uint64_t late_of(const struct site *p)
{
    const uint64_t ms = p->account->provider ? provider_facts(p->account->provider)->late_ms : 0;
    return ms ? ms : FLEET_LATE_MS;
}

bool cleanup_is_due(const struct rent_cluster *c)
{
    CLEANUP(cleanup_free) char *file = xasprintf("%s/cleanup", c->folder);
    return access(file, F_OK) == 0;
}

/* Continues all creates that wait for the site; after a fault, the fault is their answer. */
static void site_settled(struct site *p, const struct exchange_answer *fault)
{
    struct job *after;
    for (struct job *j = p->cluster->jobs; j; j = after) {
        after = j->next;
        if (j->kind != FLEET_EFFECT_CREATE || !j->waits || j->account != p->account || !str_eq(j->region, p->region))
            continue;
        j->waits = false;
        if (fault)
            created(j, fault);
        else
            send_create(j, p);
    }
}

static void site_next(struct site *p);

static void on_prepared(void *arg, const struct exchange_answer *a)
{
    struct site *p = arg;
    p->exchange = NULL;
    if (a->unsure)
        p->late_ms = loop_now_ms(p->cluster->rent->loop) + late_of(p);
    if (a->class == PROVIDER_CLASS_EXISTS && p->at == PROVIDER_KEY_CREATE) {
        p->at = PROVIDER_KEY_LIST; /* somebody was faster; by its name the key is ours */
    } else if (a->class != PROVIDER_CLASS_NONE) {
        p->state = SITE_NEW;
        struct exchange_answer fault = *a;
        fault.unsure = false; /* this step makes no machine */
        fault.unsent = true;
        fault.values = doc_new_object(p->arena);
        site_settled(p, &fault);
        return;
    } else {
        struct doc_node *told = doc_clone(p->arena, a->values);
        if (!p->values)
            p->values = doc_new_object(p->arena);
        add_values(p->arena, p->values, told);
        p->at = p->at == PROVIDER_PREPARE                                  ? PROVIDER_KEY_LIST
                : p->at == PROVIDER_KEY_LIST && !doc_get(p->values, "key") ? PROVIDER_KEY_CREATE
                                                                           : PROVIDER_OPERATIONS;
    }
    site_next(p);
}

/* The next of prepare, key_list, key_create that the provider has. */
static void site_next(struct site *p)
{
    const struct provider *provider = p->account->provider;
    if (p->at == PROVIDER_PREPARE && !provider_has(provider, PROVIDER_PREPARE))
        p->at = PROVIDER_KEY_LIST;
    if (p->at == PROVIDER_KEY_LIST && !provider_has(provider, PROVIDER_KEY_LIST))
        p->at = PROVIDER_KEY_CREATE;
    if (p->at == PROVIDER_KEY_CREATE && !provider_has(provider, PROVIDER_KEY_CREATE))
        p->at = PROVIDER_OPERATIONS;
    if (p->at == PROVIDER_OPERATIONS) {
        p->state = SITE_READY;
        note_answers(p->cluster);
        site_settled(p, NULL);
        return;
    }
    struct doc_node *in = site_inputs(p, NULL);
    add_values(p->arena, in, p->values);
    const struct exchange_ask ask = {.operation = p->at, .inputs = in};
    p->exchange = exchange_begin(p->account, &ask, on_prepared, p);
}

/* A cluster stays in one account. If there are no credentials, the first request says so. */
static int keep_account(struct job *j, struct error *err)
{
    struct rent_cluster *c = j->cluster;
    if (account_look(j->account) != ACCOUNT_READY)
        return 0;
    if (!c->trusts && !pin_fits(c, j->account))
        return error_set(err, ERROR_USAGE, "%s", pin_text(c, j->arena));
    return pin_keep(c, j->account, err);
}

static void begin_later(void *arg)
{
    struct job *j = arg;
    struct error err = ERROR_INIT;
    struct site *p = site_of(j->cluster, j->account, j->region);
    if (!j->account->provider) {
        refuse_create(j, &j->account->fault);
        return;
    }
    if (account_look(j->account) == ACCOUNT_BUSY) {
        loop_timer_start(j->later, BUSY_MS);
        return;
    }
    if (keep_account(j, &err) < 0) {
        refuse_create(j, &err);
        return;
    }
    if (p->state == SITE_READY) {
        send_create(j, p);
        return;
    }
    if (p->state == SITE_BUSY) {
        j->waits = true;
        return;
    }
    if (note_cleanup(j->cluster, &err) < 0) {
        refuse_create(j, &err);
        return;
    }
    j->waits = true;
    p->state = SITE_BUSY;
    p->at = PROVIDER_PREPARE;
    site_next(p);
}

void create_begin(struct job *j)
{
    if (!j->later)
        j->later = loop_timer_create(j->cluster->rent->loop, begin_later, j);
    loop_timer_start(j->later, 0);
}

/* ---- a create that an earlier process did not finish ---- */

static void went_on(void *arg, const struct exchange_answer *a)
{
    struct going *g = arg;
    g->exchange = NULL;
    if (a->class != PROVIDER_CLASS_NONE) { /* the next list begins it again */
        free(g->id);
        g->id = NULL;
    }
}

void create_go_on(struct rent_cluster *c, struct account *account, const char *region, const struct provider_machine *m)
{
    if (provider_steps(account->provider, PROVIDER_CREATE) < 2)
        return;
    for (const struct job *j = c->jobs; j; j = j->next)
        if (j->kind == FLEET_EFFECT_CREATE && str_eq(j->name, m->name))
            return;
    struct going *g = c->going, *unused = NULL;
    for (; g && !str_eq(g->id, m->id); g = g->next)
        if (!g->id)
            unused = g;
    if (g)
        return;
    g = unused ? unused : xcalloc(1, sizeof *g);
    if (!unused) {
        g->next = c->going;
        c->going = g;
    }
    g->id = xstrdup(m->id);
    struct arena *arena = arena_create();
    struct doc_node *in = cluster_inputs(c, region, m->zone, arena);
    put_text(arena, in, "id", m->id);
    put_text(arena, in, "name", m->name);
    const struct exchange_ask ask = {.operation = PROVIDER_CREATE, .from_step = 1, .inputs = in};
    g->exchange = exchange_begin(account, &ask, went_on, g);
    arena_destroy(arena);
}

void create_drop(struct rent_cluster *c, const char *id)
{
    for (struct going *g = c->going; g; g = g->next) {
        if (!g->id || !str_eq(g->id, id))
            continue;
        exchange_end(g->exchange);
        g->exchange = NULL;
        free(g->id);
        g->id = NULL;
    }
}

/* ---- cleanup ---- */

static void clean_next(void *arg);

static void all_clean(struct rent_cluster *c, void (*cleaned)(struct rent_cluster *c))
{
    bool clean = true;
    for (const struct site *p = c->sites; p; p = p->next) {
        if (p->exchange || (p->timer && loop_timer_active(p->timer)))
            return;
        clean = clean && p->clean;
    }
    CLEANUP(cleanup_free) char *file = xasprintf("%s/cleanup", c->folder);
    if (clean)
        unlink(file);
    cleaned(c);
}

static void on_clean(void *arg, const struct exchange_answer *a)
{
    struct site *p = arg;
    p->exchange = NULL;
    if (a->class == PROVIDER_CLASS_NONE || a->class == PROVIDER_CLASS_NOTFOUND) {
        if (p->at == PROVIDER_KEY_LIST && doc_get(a->values, "key")) {
            p->values = doc_clone(p->arena, a->values);
            p->at = PROVIDER_KEY_DELETE;
        } else if (p->at == PROVIDER_CLEANUP) {
            p->at = PROVIDER_KEY_LIST;
        } else {
            p->at = PROVIDER_OPERATIONS;
        }
        loop_timer_start(p->timer, 0);
        return;
    }
    const bool again =
        (a->class == PROVIDER_CLASS_TRANSIENT || a->class == PROVIDER_CLASS_THROTTLED) && ++p->tries < CLEANUP_TRIES;
    uint64_t pause =
        a->retry_after_ms ? a->retry_after_ms : (uint64_t)CLEANUP_PAUSE_MS << (p->tries < 5 ? p->tries : 5);
    if (again)
        loop_timer_start(p->timer, pause < CLEANUP_PAUSE_MAX_MS ? pause : CLEANUP_PAUSE_MAX_MS);
    else
        all_clean(p->cluster, p->cleaned);
}

static void clean_next(void *arg)
{
    struct site *p = arg;
    const struct provider *provider = p->account->provider;
    if (p->at == PROVIDER_CLEANUP && !provider_has(provider, PROVIDER_CLEANUP))
        p->at = PROVIDER_KEY_LIST;
    if (p->at == PROVIDER_KEY_LIST &&
        !(provider_has(provider, PROVIDER_KEY_LIST) && provider_has(provider, PROVIDER_KEY_DELETE)))
        p->at = PROVIDER_OPERATIONS;
    if (p->at == PROVIDER_OPERATIONS) {
        p->clean = true;
        all_clean(p->cluster, p->cleaned);
        return;
    }
    struct doc_node *in = site_inputs(p, NULL);
    add_values(p->arena, in, p->values);
    const struct exchange_ask ask = {.operation = p->at, .inputs = in};
    p->exchange = exchange_begin(p->account, &ask, on_clean, p);
}

/* Waits first for requests that the provider may still carry out: otherwise things would be made after they were
 * removed. */
static uint64_t pause_of(const struct site *p)
{
    const struct rent_cluster *c = p->cluster;
    const uint64_t now = loop_now_ms(c->rent->loop), inherited = c->may_be_prepared ? c->opened_ms + late_of(p) : 0;
    const uint64_t at = p->late_ms > inherited ? p->late_ms : inherited;
    return at > now ? at - now : 0;
}

void cleanup_begin(struct rent_cluster *c, void (*cleaned)(struct rent_cluster *c))
{
    const struct fleet_ledger *l = rent_ledger(c);
    for (uint32_t i = 0; i < l->order_count; i++) {
        const struct fleet_offer *o = &l->wanted.offers[l->orders[i].offer];
        site_of(c, account_of(c->rent, o->provider), o->region);
    }
    size_t begun = 0;
    for (struct site *p = c->sites; p; p = p->next) {
        if (!p->account->provider)
            continue;
        p->cleaned = cleaned;
        p->at = PROVIDER_CLEANUP;
        p->timer = loop_timer_create(c->rent->loop, clean_next, p);
        loop_timer_start(p->timer, pause_of(p));
        begun++;
    }
    if (begun == 0)
        cleaned(c);
}
