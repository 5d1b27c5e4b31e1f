/* Requests and results of provider as documents, for tests that compare them. */
#ifndef RHRUN_TEST_PROVIDER_WORDS_H
#define RHRUN_TEST_PROVIDER_WORDS_H

#include "rhrun/provider.h"

#include <stdlib.h>

static inline void put(struct arena *a, struct doc_node *object, const char *key, const char *text)
{
    if (text)
        doc_set(a, object, key, doc_new_string(a, text));
}

static inline const char *auth_text(struct arena *a, const struct provider_auth *auth)
{
    static const char *const kinds[] = {"none", "bearer", "basic", "header", "sigv4", "mtls"};
    struct buf text = {0};
    buf_puts(&text, kinds[auth->kind]);
    const char *parts[] = {auth->header, auth->user, auth->value, auth->service, auth->region, auth->session};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i])
            buf_printf(&text, " %s", parts[i]);
    char *ret = arena_strdup(a, text.data);
    buf_free(&text);
    return ret;
}

static inline struct doc_node *request_doc(struct arena *a, const struct provider_request *r, bool json)
{
    struct doc_node *ret = doc_new_object(a);
    struct doc *body;
    struct diagnostics d = {0};
    put(a, ret, "method", r->method);
    put(a, ret, "url", r->url);
    put(a, ret, "socket", r->socket);
    put(a, ret, "auth", auth_text(a, &r->auth));
    put(a, ret, "group", r->group);
    doc_set(a, ret, "repeatable", doc_new_bool(a, r->repeatable));
    doc_set(a, ret, "interval_ms", doc_new_int(a, (int64_t)r->interval_ms));
    if (r->body && json) {
        if (doc_load_text("body", r->body, r->body_len, DOC_FORMAT_JSON, a, &body, &d, NULL) < 0)
            abort();
        doc_set(a, ret, "json", body->root);
    } else if (r->body) {
        put(a, ret, "form", r->body);
    }
    return ret;
}

static inline struct doc_node *machine_doc(struct arena *a, const struct provider_machine *m)
{
    static const char *const states[] = {"coming", "ready", "failed", "gone"};
    struct doc_node *ret = doc_new_object(a);
    put(a, ret, "id", m->id);
    put(a, ret, "name", m->name);
    put(a, ret, "status", m->status);
    put(a, ret, "reason", m->reason);
    put(a, ret, "public_ip", m->public_ip);
    put(a, ret, "private_ip", m->private_ip);
    put(a, ret, "port", m->port);
    put(a, ret, "zone", m->zone);
    put(a, ret, "type", m->type);
    put(a, ret, "run", m->run);
    put(a, ret, "node", m->node);
    put(a, ret, "owner", m->owner);
    put(a, ret, "expires", m->expires);
    put(a, ret, "price", m->price);
    put(a, ret, "state", states[m->state]);
    return ret;
}

static inline struct doc_node *result_doc(struct arena *a, const struct provider_result *r)
{
    static const char *const outcomes[] = {"done", "pending", "failed"};
    struct doc_node *ret = doc_new_object(a), *machines = doc_new_array(a), *offers = doc_new_array(a);
    put(a, ret, "outcome", outcomes[r->outcome]);
    if (r->outcome == PROVIDER_FAILED) {
        put(a, ret, "class", provider_class_name(r->class));
        put(a, ret, "scope", provider_scope_name(r->scope));
    }
    put(a, ret, "code", r->code);
    put(a, ret, "message", r->message);
    put(a, ret, "next", r->next);
    doc_set(a, ret, "values", r->values);
    doc_set(a, ret, "unsure", doc_new_bool(a, r->unsure));
    doc_set(a, ret, "retry_after_ms", doc_new_int(a, (int64_t)r->retry_after_ms));
    for (size_t i = 0; i < r->machine_count; i++)
        doc_append(a, machines, machine_doc(a, &r->machines[i]));
    for (size_t i = 0; i < r->offer_count; i++) {
        struct doc_node *offer = doc_new_object(a);
        put(a, offer, "type", r->offers[i].type);
        put(a, offer, "region", r->offers[i].region);
        put(a, offer, "price", r->offers[i].price);
        put(a, offer, "spot_price", r->offers[i].spot_price);
        put(a, offer, "accelerator", r->offers[i].accelerator);
        put(a, offer, "accelerator_form", r->offers[i].accelerator_form);
        put(a, offer, "gpu_memory_gib", r->offers[i].gpu_memory_gib);
        put(a, offer, "count", r->offers[i].count);
        put(a, offer, "vcpus", r->offers[i].vcpus);
        put(a, offer, "memory_gib", r->offers[i].memory_gib);
        doc_append(a, offers, offer);
    }
    doc_set(a, ret, "machines", machines);
    doc_set(a, ret, "offers", offers);
    return ret;
}

#endif
