/*
 * One operation at a provider: first the token that its requests need, then its steps in order, with all pages of each;
 * an operation that the provider carries out later is polled until it is done. `provider` describes the requests and
 * judges the replies.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGES_MAX = 400,
    POLLS_MAX = 600,
    POLL_MS = 1000,
    BUSY_MS = 20,
    MACHINES_MAX = 10000,
    OFFERS_MAX = 100000,
};

struct exchange {
    struct account *account;
    struct arena *arena;
    enum provider_operation operation;
    struct doc_node *values; /* inputs and extracted values */
    size_t step, pages, polls;
    const char *page;
    bool polling; /* waiting for an operation that the provider still carries out */
    bool asks_token;
    bool sent;           /* a request has left */
    bool local;          /* the request goes to a program of this machine */
    bool renewed;        /* after a refusal the credentials were looked for again */
    uint32_t generation; /* of the credentials of the last request */
    struct provider_machine *machines;
    size_t machine_count, machine_cap;
    struct provider_offer *offers;
    size_t offer_count, offer_cap;
    struct http_call *call;
    struct loop_timer *timer;
    void (*done)(void *arg, const struct exchange_answer *answer);
    void *arg;
};

void exchange_end(struct exchange *e)
{
    if (!e)
        return;
    if (e->call)
        http_cancel(e->call);
    loop_timer_destroy(e->timer);
    free(e->machines);
    free(e->offers);
    arena_destroy(e->arena);
    free(e);
}

static void answer(struct exchange *e, struct exchange_answer a)
{
    a.step = e->step;
    a.unsent = !e->sent;
    a.values = e->values;
    a.machines = e->machines;
    a.machine_count = e->machine_count;
    a.offers = e->offers;
    a.offer_count = e->offer_count;
    if (a.class != PROVIDER_CLASS_NONE && !a.text)
        a.text = provider_class_name(a.class);
    e->done(e->arg, &a);
    exchange_end(e);
}

/* Nothing was sent: this machine's own fault. */
static void refuse(struct exchange *e, enum provider_class class, const struct error *err)
{
    CLEANUP(cleanup_free) char *text = err->hint[0] ? xasprintf("%s (%s)", err->text, err->hint) : xstrdup(err->text);
    answer(e, (struct exchange_answer){.class = class, .scope = PROVIDER_SCOPE_PROVIDER, .text = text});
}

static struct provider_ask ask_of(const struct exchange *e)
{
    return (struct provider_ask){.operation = e->polling ? PROVIDER_POLL : e->operation,
                                 .step = e->polling ? 0 : e->step,
                                 .inputs = e->values,
                                 .credentials = account_secrets(e->account),
                                 .page = e->page,
                                 .access_token = e->account->token};
}

static void next(void *arg);

static void soon(struct exchange *e, uint64_t ms)
{
    loop_timer_start(e->timer, ms);
}

static void keep_values(struct exchange *e, const struct doc_node *values)
{
    for (size_t i = 0; i < values->count; i++)
        doc_set(e->arena, e->values, values->members[i].key, values->members[i].value);
}

static bool keep_machines(struct exchange *e, const struct provider_result *r)
{
    if (r->machine_count > MACHINES_MAX - e->machine_count)
        return false;
    if (e->machine_count + r->machine_count > e->machine_cap) {
        e->machine_cap = 2 * e->machine_cap + r->machine_count;
        e->machines = xreallocarray(e->machines, e->machine_cap, sizeof *e->machines);
    }
    for (size_t i = 0; i < r->machine_count; i++)
        e->machines[e->machine_count++] = r->machines[i];
    return true;
}

static bool keep_offers(struct exchange *e, const struct provider_result *r)
{
    if (r->offer_count > OFFERS_MAX - e->offer_count)
        return false;
    if (e->offer_count + r->offer_count > e->offer_cap) {
        e->offer_cap = 2 * e->offer_cap + r->offer_count;
        e->offers = xreallocarray(e->offers, e->offer_cap, sizeof *e->offers);
    }
    for (size_t i = 0; i < r->offer_count; i++)
        e->offers[e->offer_count++] = r->offers[i];
    return true;
}

static void endless(struct exchange *e, const char *what)
{
    answer(e, (struct exchange_answer){
                  .class = PROVIDER_CLASS_TRANSIENT, .scope = PROVIDER_SCOPE_REGION, .text = what, .unsure = true});
}

static void step_done(struct exchange *e, const struct provider_result *r)
{
    keep_values(e, r->values);
    if (!keep_machines(e, r)) {
        endless(e, "the provider shows more machines than anybody has");
        return;
    }
    if (!keep_offers(e, r)) {
        endless(e, "the provider shows more offers than there can be");
        return;
    }
    e->page = r->next;
    if (r->next && ++e->pages >= PAGES_MAX) {
        endless(e, "the provider's list does not end");
        return;
    }
    if (!r->next) {
        e->polling = false;
        e->polls = 0;
        e->step++;
    }
    soon(e, 0);
}

static void step_pending(struct exchange *e, const struct provider_result *r)
{
    keep_values(e, r->values);
    if (!provider_has(e->account->provider, PROVIDER_POLL) || ++e->polls > POLLS_MAX) {
        endless(e, "the provider does not finish it");
        return;
    }
    e->polling = true;
    const uint64_t every = provider_facts(e->account->provider)->poll_ms;
    const uint64_t pause = every ? every : POLL_MS;
    soon(e, r->retry_after_ms > pause ? r->retry_after_ms : pause);
}

static const char *words_of(struct exchange *e, const struct provider_result *r, const char *failure)
{
    const char *code = r->code && r->code[0] ? r->code : NULL;
    const char *message = r->message && r->message[0] ? r->message : NULL;
    if (failure && !message)
        return failure;
    if (code && message && !strstr(message, code))
        return arena_printf(e->arena, "%s: %s", code, message);
    return message ? message : code ? code : provider_class_name(r->class);
}

static void step_failed(struct exchange *e, const struct provider_result *r, const char *failure)
{
    keep_values(e, r->values);
    answer(e, (struct exchange_answer){.class = r->class,
                                       .scope = r->scope,
                                       .text = words_of(e, r, failure),
                                       .unsure = r->unsure,
                                       .retry_after_ms = r->retry_after_ms});
}

static struct provider_reply reply_of(struct exchange *e, const struct http_reply *reply,
                                      const struct http_failure *failure)
{
    struct provider_reply r = {.now_s = wall_ms() / 1000};
    if (failure) {
        r.unsent = !failure->sent;
        return r;
    }
    struct provider_header *headers = arena_array(e->arena, reply->header_count + 1, sizeof *headers);
    for (size_t i = 0; i < reply->header_count; i++)
        headers[i] = (struct provider_header){arena_strdup(e->arena, reply->headers[i].name),
                                              arena_strdup(e->arena, reply->headers[i].value)};
    r.status = reply->status;
    r.headers = headers;
    r.header_count = reply->header_count;
    r.body = arena_strndup(e->arena, reply->body, reply->body_len);
    r.body_len = reply->body_len;
    return r;
}

/* A refused request did nothing, so it can be sent again. */
static bool may_renew(struct exchange *e)
{
    if (e->renewed || !account_renew(e->account, e->generation))
        return false;
    return e->renewed = true;
}

static void take_token(struct exchange *e, const struct provider_reply *reply, const char *failure)
{
    const char *token;
    uint64_t life_s;
    struct error err = ERROR_INIT;
    e->asks_token = false;
    if (!failure && provider_token_reply(e->account->provider, account_secrets(e->account), reply, e->arena, &token,
                                         &life_s, &err) == 0) {
        account_set_token(e->account, token, life_s);
        soon(e, 0);
        return;
    }
    const bool refused = !failure && reply->status >= 400 && reply->status < 500;
    if (refused && may_renew(e)) {
        soon(e, 0);
        return;
    }
    answer(e, (struct exchange_answer){.class = refused ? PROVIDER_CLASS_AUTH : PROVIDER_CLASS_TRANSIENT,
                                       .scope = PROVIDER_SCOPE_PROVIDER,
                                       .text = failure ? failure : err.text});
}

static void on_reply(void *arg, const struct http_reply *reply, const struct http_failure *failure)
{
    struct exchange *e = arg;
    e->call = NULL;
    e->sent = e->sent || (!e->asks_token && (!failure || failure->sent));
    const struct provider_reply r = reply_of(e, reply, failure);
    const char *words = failure ? arena_strdup(e->arena, failure->error.text) : NULL;
    if (e->asks_token) {
        take_token(e, &r, words);
        return;
    }
    if (failure && e->local && failure->phase == HTTP_PHASE_CONNECT) { /* the program does not run, so waiting does not
                                                                          help */
        answer(e, (struct exchange_answer){
                      .class = PROVIDER_CLASS_INVALID, .scope = PROVIDER_SCOPE_PROVIDER, .text = words});
        return;
    }
    const struct provider_ask ask = ask_of(e);
    struct provider_result result;
    provider_reply(e->account->provider, &ask, &r, e->arena, &result);
    switch (result.outcome) {
    case PROVIDER_DONE:
        step_done(e, &result);
        break;
    case PROVIDER_PENDING:
        step_pending(e, &result);
        break;
    case PROVIDER_FAILED:
        if (result.class == PROVIDER_CLASS_AUTH && may_renew(e)) {
            soon(e, 0);
            break;
        }
        step_failed(e, &result, words);
        break;
    }
}

static struct http_auth auth_of(const struct provider_auth *a)
{
    switch (a->kind) {
    case PROVIDER_AUTH_BEARER:
        return (struct http_auth){.kind = HTTP_AUTH_BEARER, .secret = a->value};
    case PROVIDER_AUTH_BASIC:
        return (struct http_auth){.kind = HTTP_AUTH_BASIC, .name = a->user, .secret = a->value};
    case PROVIDER_AUTH_HEADER:
        return (struct http_auth){.kind = HTTP_AUTH_HEADER, .name = a->header, .secret = a->value};
    case PROVIDER_AUTH_SIGV4:
        return (struct http_auth){.kind = HTTP_AUTH_SIGV4,
                                  .name = a->user,
                                  .secret = a->value,
                                  .session = a->session,
                                  .region = a->region,
                                  .service = a->service};
    case PROVIDER_AUTH_MTLS:
    case PROVIDER_AUTH_NONE:
        break;
    }
    return (struct http_auth){.kind = HTTP_AUTH_NONE};
}

static void send(struct exchange *e, const struct provider_request *r)
{
    struct error err = ERROR_INIT;
    struct http_header *headers = arena_array(e->arena, r->header_count + 1, sizeof *headers);
    for (size_t i = 0; i < r->header_count; i++)
        headers[i] = (struct http_header){r->headers[i].name, r->headers[i].value};
    const struct http_request request = {.method = r->method,
                                         .url = r->url,
                                         .unix_socket = r->socket,
                                         .repeatable = r->repeatable,
                                         .headers = headers,
                                         .header_count = r->header_count,
                                         .body = r->body_len ? r->body : NULL,
                                         .body_len = r->body_len,
                                         .auth = auth_of(&r->auth),
                                         .ca_file = r->auth.ca,
                                         .cert_file = r->auth.certificate,
                                         .key_file = r->auth.key,
                                         .reply_max = PROVIDER_REPLY_MAX,
                                         .group = r->group,
                                         .interval_ms = r->interval_ms};
    e->local = r->socket != NULL;
    e->generation = e->account->generation;
    e->call = http_send(e->account->rent->http, &request, NULL, on_reply, e, &err);
    if (!e->call)
        refuse(e, PROVIDER_CLASS_INVALID, &err);
}

static void ask_token(struct exchange *e)
{
    struct provider_request r;
    struct error err = ERROR_INIT;
    e->asks_token = true;
    if (provider_token_request(e->account->provider, e->account->credentials, wall_ms() / 1000, e->arena, &r, &err) < 0)
        refuse(e, PROVIDER_CLASS_AUTH, &err);
    else
        send(e, &r);
}

/* The next request, or the end. */
static void next(void *arg)
{
    struct exchange *e = arg;
    struct account *s = e->account;
    struct provider_request r;
    struct error err = ERROR_INIT;
    switch (account_look(s)) {
    case ACCOUNT_BUSY:
        soon(e, BUSY_MS);
        return;
    case ACCOUNT_FAULT:
        refuse(e, s->provider ? PROVIDER_CLASS_AUTH : PROVIDER_CLASS_INVALID, &s->fault);
        return;
    case ACCOUNT_READY:
        break;
    }
    struct provider_ask ask = ask_of(e);
    while (!e->polling && ask.step < provider_steps(s->provider, e->operation) && !provider_step_due(s->provider, &ask))
        ask.step = ++e->step;
    if (!e->polling && ask.step >= provider_steps(s->provider, e->operation)) {
        answer(e, (struct exchange_answer){.class = PROVIDER_CLASS_NONE});
    } else if (provider_wants_token(s->provider, s->credentials) && !account_has_token(s)) {
        ask_token(e);
    } else if (provider_request(s->provider, &ask, e->arena, &r, &err) < 0) {
        refuse(e, PROVIDER_CLASS_INVALID, &err);
    } else {
        send(e, &r);
    }
}

struct exchange *exchange_begin(struct account *s, const struct exchange_ask *ask,
                                void (*done)(void *arg, const struct exchange_answer *answer), void *arg)
{
    struct exchange *e = xcalloc(1, sizeof *e);
    e->account = s;
    e->arena = arena_create();
    e->operation = ask->operation;
    e->step = ask->from_step;
    e->values = ask->inputs ? doc_clone(e->arena, ask->inputs) : doc_new_object(e->arena);
    e->done = done;
    e->arg = arg;
    e->timer = loop_timer_create(s->rent->loop, next, e);
    soon(e, 0);
    return e;
}
