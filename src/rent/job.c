/* An effect of fleet that takes time, from the request to the input that answers it. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { BUSY_MS = 20 /* the pause before asking again whether a program has printed the credentials */ };

void job_end(struct job *j)
{
    exchange_end(j->exchange);
    meet_end(j->meet);
    loop_timer_destroy(j->later);
    *j->link = j->next;
    if (j->next)
        j->next->link = j->link;
    arena_destroy(j->arena);
    free(j);
}

void job_answer(struct job *j, const struct fleet_input *input)
{
    cluster_give(j->cluster, input);
    job_end(j);
}

void put_text(struct arena *a, struct doc_node *object, const char *key, const char *value)
{
    if (value && value[0])
        doc_set(a, object, key, doc_new_string(a, value));
}

void put_number(struct arena *a, struct doc_node *object, const char *key, uint64_t value)
{
    doc_set(a, object, key, doc_new_int(a, (int64_t)value));
}

struct doc_node *cluster_inputs(const struct rent_cluster *c, const char *region, const char *zone, struct arena *arena)
{
    const struct fleet_wanted *w = &rent_ledger(c)->wanted;
    struct doc_node *in = doc_new_object(arena);
    put_text(arena, in, "run", w->id);
    put_text(arena, in, "cluster", w->id);
    put_text(arena, in, "owner", w->owner);
    put_text(arena, in, "region", region);
    put_text(arena, in, "zone", zone);
    put_number(arena, in, "expires", w->deadline_ms / 1000);
    return in;
}

static void say_trouble(const struct job *j, const struct exchange_answer *a)
{
    const struct rent_cluster *c = j->cluster;
    if (a->class != PROVIDER_CLASS_NONE && a->class != PROVIDER_CLASS_NOTFOUND && c->observer.trouble)
        c->observer.trouble(c->arg, j->provider, j->region, a->text);
}

uint64_t told_price(const struct provider_machine *m)
{
    uint64_t micro;
    if (!m->price || !catalog_parse_usd(m->price, &micro))
        return 0;
    return micro < FLEET_TOLD_PRICE_MAX ? micro : FLEET_TOLD_PRICE_MAX;
}

/* ---- lists ---- */

static struct fleet_item item_of(struct arena *a, const struct provider_machine *m, const char *region,
                                 const char *connect)
{
    const char *address = str_eq(connect, "docker") ? m->private_ip : m->public_ip ? m->public_ip : m->private_ip;
    if (address && m->port && !str_eq(m->port, "22"))
        address = arena_printf(a, strchr(address, ':') ? "[%s]:%s" : "%s:%s", address, m->port);
    return (struct fleet_item){.run = m->run,
                               .id = m->id,
                               .name = m->name,
                               .region = region,
                               .state = m->state,
                               .address = address,
                               .price = told_price(m)};
}

/* Asked after the list was handled: unwanted machines are being given back by then, so nothing is begun with them. */
static bool is_awaited(const struct rent_cluster *c, const char *provider, const char *id)
{
    const struct fleet_ledger *l = rent_ledger(c);
    for (uint32_t i = 0; i < l->machine_count && !c->failed; i++)
        if (str_eq(l->machines[i].id, id) && str_eq(l->machines[i].provider, provider))
            return l->machines[i].state == FLEET_MACHINE_CREATED;
    return false;
}

/* With changed credentials, a list counts only if it shows something of the cluster. */
static bool is_of_the_account(struct job *j, const struct exchange_answer *a)
{
    struct rent_cluster *c = j->cluster;
    bool shown = c->trusts;
    if (a->class != PROVIDER_CLASS_NONE || pin_fits(c, j->account))
        return true;
    for (size_t i = 0; i < a->machine_count; i++)
        shown = shown || str_eq(a->machines[i].run, rent_ledger(c)->wanted.id);
    return shown && pin_renew(c, j->account, NULL) == 0;
}

static void listed(void *arg, const struct exchange_answer *answer)
{
    struct job *j = arg;
    struct rent_cluster *c = j->cluster;
    const struct exchange_answer nothing = {
        .class = PROVIDER_CLASS_AUTH, .scope = PROVIDER_SCOPE_PROVIDER, .text = pin_text(c, j->arena)};
    const struct exchange_answer *a = is_of_the_account(j, answer) ? answer : &nothing;
    j->exchange = NULL;
    say_trouble(j, a);
    struct fleet_input in = {.kind = FLEET_INPUT_LISTED,
                             .number = j->number,
                             .fault = a->class,
                             .scope = a->scope,
                             .text = a->text,
                             .unsure = a->unsure,
                             .retry_after_ms = a->retry_after_ms};
    if (a->class == PROVIDER_CLASS_NONE) {
        const char *connect = provider_facts(j->account->provider)->connect;
        struct fleet_item *items = arena_array(j->arena, a->machine_count + 1, sizeof *items);
        for (size_t i = 0; i < a->machine_count; i++)
            items[i] = item_of(j->arena, &a->machines[i], j->region, connect);
        in.items = items;
        in.item_count = a->machine_count;
    }
    cluster_give(c, &in);
    for (size_t i = 0; i < in.item_count; i++)
        if (in.items[i].state == PROVIDER_STATE_COMING && is_awaited(c, j->provider, in.items[i].id))
            create_go_on(c, j->account, j->region, &a->machines[i]);
    job_end(j);
}

static void list(struct job *j)
{
    const struct exchange_ask ask = {.operation = PROVIDER_LIST,
                                     .inputs = cluster_inputs(j->cluster, j->region, NULL, j->arena)};
    j->exchange = exchange_begin(j->account, &ask, listed, j);
}

/* ---- giving back ---- */

static void deleted(void *arg, const struct exchange_answer *a)
{
    struct job *j = arg;
    j->exchange = NULL;
    say_trouble(j, a);
    job_answer(j, &(struct fleet_input){.kind = FLEET_INPUT_DELETED,
                                        .provider = j->provider,
                                        .id = j->id,
                                        .fault = a->class,
                                        .scope = a->scope,
                                        .text = a->text,
                                        .unsure = a->unsure,
                                        .retry_after_ms = a->retry_after_ms});
}

static const struct fleet_offer *offer_of(const struct rent_cluster *c, uint32_t order)
{
    const struct fleet_ledger *l = rent_ledger(c);
    return order == FLEET_NONE ? NULL : &l->wanted.offers[l->orders[order].offer];
}

/* With changed credentials, deletes wait until a list has shown that the account is the same, because a deleted machine
 * is in no list. */
static void send_delete(void *arg)
{
    struct job *j = arg;
    struct rent_cluster *c = j->cluster;
    const enum account_state state = account_look(j->account);
    if (state == ACCOUNT_BUSY) {
        loop_timer_start(j->later, BUSY_MS);
    } else if (state == ACCOUNT_READY && !c->trusts && !pin_fits(c, j->account)) {
        const struct exchange_answer a = {
            .class = PROVIDER_CLASS_TRANSIENT, .scope = PROVIDER_SCOPE_PROVIDER, .text = pin_text(c, j->arena)};
        deleted(j, &a);
    } else {
        const struct exchange_ask ask = {.operation = PROVIDER_DELETE, .inputs = j->inputs};
        j->exchange = exchange_begin(j->account, &ask, deleted, j);
    }
}

static void delete (struct job *j, const struct fleet_machine *m)
{
    const struct fleet_offer *offer = offer_of(j->cluster, m->order);
    j->inputs = cluster_inputs(j->cluster, j->region, offer ? offer->zone : NULL, j->arena);
    put_text(j->arena, j->inputs, "id", m->id);
    put_text(j->arena, j->inputs, "name", m->name);
    create_drop(j->cluster, m->id);
    j->later = loop_timer_create(j->cluster->rent->loop, send_delete, j);
    loop_timer_start(j->later, 0);
}

/* ---- meeting ---- */

static void met(struct job *j, const char *host_key, const char *fault)
{
    job_answer(j, &(struct fleet_input){.kind = FLEET_INPUT_MET,
                                        .provider = j->provider,
                                        .id = j->id,
                                        .host_key = host_key,
                                        .fault = fault ? PROVIDER_CLASS_TRANSIENT : PROVIDER_CLASS_NONE,
                                        .text = fault});
}

static void on_meet(void *arg, bool ours, const char *host_key, const struct error *err)
{
    if (err)
        met(arg, NULL, err->text);
    else
        met(arg, host_key, ours ? NULL : "another machine answers at its address");
}

/* The machine must have the host key that was made for its intent, and its token; or, if it could not be given user
 * data, the key that it showed at the first contact. */
static int meet_by_ssh(struct job *j, struct error *err)
{
    struct rent_cluster *c = j->cluster;
    const struct provider_facts *facts = provider_facts(j->account->provider);
    const struct rent_keys *keys = cluster_keys(c, err);
    struct transport_host host;
    struct buf key = {0};
    if (!keys)
        return -1;
    if (facts->user_data_max > 0)
        rent_host_key(keys, j->intent, &key, NULL);
    const struct rent_door door = {.machine = j->id,
                                   .address = j->address,
                                   .user = cluster_user(rent_ledger(c), facts),
                                   .host_key = facts->user_data_max > 0 ? key.data : j->host_key};
    int rc = rent_door(keys, &door, j->arena, &host, err);
    buf_free(&key);
    if (rc == 0)
        j->meet =
            meet_begin(c->rent->loop, c->rent->pool, &host, facts->user_data_max > 0 ? j->token : NULL, on_meet, j);
    return rc;
}

static void meet(void *arg)
{
    struct job *j = arg;
    struct error err = ERROR_INIT;
    if (!j->account->provider)
        met(j, NULL, j->account->fault.text);
    else if (str_eq(provider_facts(j->account->provider)->connect, "docker"))
        met(j, "", NULL); /* the engine leads to this container only: it runs, so it is met */
    else if (meet_by_ssh(j, &err) < 0)
        met(j, NULL, err.text);
}

static void meet_later(struct job *j, const struct fleet_machine *m)
{
    const struct fleet_ledger *l = rent_ledger(j->cluster);
    j->intent = arena_strdup(j->arena, m->order == FLEET_NONE ? m->name : l->orders[m->order].name);
    j->token = m->order == FLEET_NONE ? NULL : arena_strdup(j->arena, l->orders[m->order].token);
    j->host_key = arena_strdup(j->arena, m->host_key);
    j->later = loop_timer_create(j->cluster->rent->loop, meet, j);
    loop_timer_start(j->later, 0);
}

struct job *job_begin(struct rent_cluster *c, const struct fleet_effect *e)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->cluster = c;
    j->arena = arena_create();
    j->kind = e->kind;
    j->number = e->number;
    j->offer = e->offer;
    j->provider = arena_strdup(j->arena, e->offer ? e->offer->provider : e->provider);
    j->region = arena_strdup(j->arena, e->offer ? e->offer->region : e->region);
    j->address = arena_strdup(j->arena, e->address);
    j->id = e->machine ? arena_strdup(j->arena, e->machine->id) : NULL;
    j->name = e->machine ? arena_strdup(j->arena, e->machine->name) : NULL;
    j->account = account_of(c->rent, j->provider);
    j->link = &c->jobs;
    while (*j->link)
        j->link = &(*j->link)->next;
    *j->link = j;
    if (e->kind == FLEET_EFFECT_CREATE) {
        j->order = *e->order;
        j->name = arena_strdup(j->arena, e->order->name);
        create_begin(j);
    } else if (e->kind == FLEET_EFFECT_LIST) {
        list(j);
    } else if (e->kind == FLEET_EFFECT_DELETE) {
        delete (j, e->machine);
    } else {
        meet_later(j, e->machine);
    }
    return j;
}
