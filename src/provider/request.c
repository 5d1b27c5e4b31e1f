/* From a step and inputs to a request. */
#include "internal.h"

#include <string.h>

static const char *credential(const struct provider_ask *ask, const struct doc_node *auth, const char *role)
{
    const char *name = doc_get_string(auth, role, NULL);
    return name ? credential_value(ask->credentials, name) : NULL;
}

static int header_text_good(const struct filling *f, const char *name, const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < 32 || value[i] == 127)
            return error_set(f->err, ERROR_SPEC, "%s: the header \"%s\" cannot hold a control character",
                             f->provider->facts.name, name);
    return len > URL_MAX
               ? error_set(f->err, ERROR_SPEC, "%s: the header \"%s\" is too long", f->provider->facts.name, name)
               : 0;
}

static int fill_sigv4(const struct filling *f, const struct doc_node *auth, struct provider_auth *ret)
{
    struct doc_node *region = NULL;
    if (template_fill(f, doc_get(auth, "region"), &region) < 0)
        return -1;
    ret->user = credential_value(f->ask->credentials, "access_key");
    ret->value = credential_value(f->ask->credentials, "secret_key");
    ret->session = credential_value(f->ask->credentials, "session_token");
    ret->service = doc_get_string(auth, "service", "");
    ret->region = region ? region->text : "";
    return 0;
}

static int fill_auth(const struct filling *f, struct provider_auth *ret)
{
    static const char *const kinds[] = {"none", "bearer", "basic", "header", "sigv4", "oauth2", "mtls", NULL};
    static const enum provider_auth_kind of[] = {PROVIDER_AUTH_NONE,   PROVIDER_AUTH_BEARER, PROVIDER_AUTH_BASIC,
                                                 PROVIDER_AUTH_HEADER, PROVIDER_AUTH_SIGV4,  PROVIDER_AUTH_BEARER,
                                                 PROVIDER_AUTH_MTLS};
    const struct provider_credentials *c = f->ask->credentials;
    if (!c)
        return 0;
    const char *kind = doc_get_string(c->auth, "kind", "none");
    ret->kind = of[word_index(kinds, kind)];
    if (str_eq(kind, "oauth2")) {
        ret->value = f->ask->access_token;
        if (!ret->value) {
            error_set(f->err, ERROR_SPEC, "%s: there is no access token yet", f->provider->facts.name);
            return error_why(f->err, ERROR_WHY_CREDENTIALS);
        }
    } else if (ret->kind == PROVIDER_AUTH_SIGV4) {
        if (fill_sigv4(f, c->auth, ret) < 0)
            return -1;
    } else if (ret->kind == PROVIDER_AUTH_MTLS) {
        ret->certificate = credential_value(c, "certificate");
        ret->key = credential_value(c, "key");
        ret->ca = credential_value(c, "ca");
    } else {
        ret->header = doc_get_string(c->auth, "header", NULL);
        ret->user = credential(f->ask, c->auth, "user");
        ret->value = credential(f->ask, c->auth, ret->kind == PROVIDER_AUTH_BASIC ? "password" : "value");
    }
    /* A secret with a line feed would be two headers. */
    return ret->value && ret->kind != PROVIDER_AUTH_MTLS
               ? header_text_good(f, ret->header ? ret->header : "authorization", ret->value, strlen(ret->value))
               : 0;
}

static void add_header(struct provider_request *r, const char *name, const char *value)
{
    r->headers[r->header_count++] = (struct provider_header){name, value};
}

static int fill_headers(const struct filling *f, const struct step *step, const char *type, struct provider_request *r)
{
    const struct doc_node *headers = doc_get(step->node, "headers");
    r->headers = arena_array(f->arena, (headers ? headers->count : 0) + 2, sizeof *r->headers);
    add_header(r, "accept", step->reply == BODY_XML ? "application/xml" : "application/json");
    if (type)
        add_header(r, "content-type", type);
    for (size_t i = 0; headers && i < headers->count; i++) {
        struct doc_node *value;
        const char *name = headers->members[i].key;
        if (template_fill(f, headers->members[i].value, &value) < 0)
            return -1;
        if (value && header_text_good(f, name, value->text, value->text_len) < 0)
            return -1;
        if (value)
            add_header(r, name, value->text);
    }
    return 0;
}

static int fill_json(const struct filling *f, const struct doc_node *node, struct buf *body)
{
    struct doc_node *value;
    if (template_fill(f, node, &value) < 0)
        return -1;
    if (value && !node_is_utf8(value))
        return error_set(f->err, ERROR_SPEC, "%s: %s: a value is not UTF-8, which JSON cannot hold",
                         f->provider->facts.name, provider_operation_name(f->ask->operation));
    if (value)
        doc_to_json(value, DOC_JSON_PLAIN, body);
    return body->len > BODY_MAX
               ? error_set(f->err, ERROR_SPEC, "%s: %s: the request is larger than %u bytes", f->provider->facts.name,
                           provider_operation_name(f->ask->operation), BODY_MAX)
               : 0;
}

/* The page's parameter goes where the other parameters are: query or form. */
static void put_page(const struct filling *f, const struct step *step, struct doc_node *query, struct doc_node *form)
{
    const char *param = doc_get_string(doc_get(step->node, "page"), "param", NULL);
    struct doc_node *there = form ? form : query;
    if (param && f->ask->page)
        doc_set(f->arena, there, param, doc_new_string(f->arena, f->ask->page));
}

static int fill_body(const struct filling *f, const struct step *step, struct doc_node *query, struct buf *body,
                     const char **ret_type)
{
    const struct doc_node *json = doc_get(step->node, "json"), *form = doc_get(step->node, "form");
    struct doc_node *fields = NULL;
    if (form && template_fill(f, form, &fields) < 0)
        return -1;
    put_page(f, step, query, fields);
    *ret_type = form ? "application/x-www-form-urlencoded" : json ? "application/json" : NULL;
    if (fields)
        return encode_form(fields, body, f->err);
    return json ? fill_json(f, json, body) : 0;
}

static int fill_url(const struct filling *f, const struct step *step, const struct doc_node *query, struct buf *url)
{
    const struct doc_node *page = doc_get(step->node, "page");
    if (!f->ask->page || !str_eq(doc_get_string(page, "kind", ""), "next_url"))
        return url_build(f, step, query, url);
    const char *base = url_base(f);
    if (!base)
        return -1;
    if (!url_same_origin(base, f->ask->page))
        return error_set(f->err, ERROR_PROTOCOL, "%s: the next page is at another host", f->provider->facts.name);
    buf_puts(url, f->ask->page);
    return 0;
}

static bool only_asks(enum provider_operation operation)
{
    return operation == PROVIDER_GET || operation == PROVIDER_LIST || operation == PROVIDER_SWEEP ||
           operation == PROVIDER_POLL || operation == PROVIDER_KEY_LIST || operation == PROVIDER_STOCK;
}

static void set_group(const struct filling *f, const struct step *step, struct provider_request *r)
{
    const struct doc_node *throttle = doc_get(f->provider->root, "throttle");
    const char *group = doc_get_string(step->node, "group", provider_operation_name(f->ask->operation));
    r->group = doc_get(throttle, group) ? group : "default";
    r->interval_ms = duration_ms(doc_get(throttle, r->group), 0);
}

/* Values that are too long for the provider are found before anything is sent. */
static int check_lengths(const struct filling *f)
{
    const struct provider_facts *facts = &f->provider->facts;
    const struct doc_node *name = input_find(f, "name"), *data = input_find(f, "user_data");
    if (f->ask->operation != PROVIDER_CREATE)
        return 0;
    if (name && name->text_len > facts->name_max)
        return error_set(f->err, ERROR_SPEC, "%s: a machine's name has at most %u bytes; \"%.80s\" has %zu",
                         facts->name, facts->name_max, name->text, name->text_len);
    if (data && facts->user_data_max && data->text_len > facts->user_data_max)
        return error_set(f->err, ERROR_SPEC, "%s: user data has at most %llu bytes; these are %zu", facts->name,
                         (unsigned long long)facts->user_data_max, data->text_len);
    return 0;
}

/* No request is sent whose reply could not be read: the reply might be a machine. */
static int check_reader(const struct filling *f, const struct step *step)
{
    return step->reply == BODY_XML ? xml_open(f->err) : 0;
}

static int describe(const struct filling *f, const struct step *step, struct provider_request *r, struct buf *url,
                    struct buf *body)
{
    struct doc_node *query;
    const char *type;
    if (check_reader(f, step) < 0 || check_lengths(f) < 0 || template_fill(f, doc_get(step->node, "query"), &query) < 0)
        return -1;
    if (!query)
        query = doc_new_object(f->arena);
    if (fill_body(f, step, query, body, &type) < 0 || fill_url(f, step, query, url) < 0 ||
        fill_headers(f, step, type, r) < 0 || fill_auth(f, &r->auth) < 0)
        return -1;
    r->method = step->method;
    r->repeatable = only_asks(f->ask->operation) || str_eq(step->method, "GET");
    r->url = arena_strndup(f->arena, url->data, url->len);
    r->socket = f->provider->socket;
    if (type) {
        r->body = arena_strndup(f->arena, body->data ? body->data : "", body->len);
        r->body_len = body->len;
    }
    set_group(f, step, r);
    return 0;
}

int provider_request(const struct provider *provider, const struct provider_ask *ask, struct arena *arena,
                     struct provider_request *ret_request, struct error *err)
{
    struct error unused = ERROR_INIT;
    const struct filling f = {provider, ask, arena, err ? err : &unused};
    struct provider_request r = {0};
    struct buf url = {0}, body = {0};
    if (ask->step >= provider_steps(provider, ask->operation))
        return error_set(err, ERROR_SPEC, "%s has no operation \"%s\" of %zu steps", provider->facts.name,
                         provider_operation_name(ask->operation), ask->step + 1);
    int rc = describe(&f, &provider->operations[ask->operation].steps[ask->step], &r, &url, &body);
    if (rc == 0)
        *ret_request = r;
    buf_free(&url);
    buf_free(&body);
    return rc;
}

bool provider_step_due(const struct provider *provider, const struct provider_ask *ask)
{
    const struct filling f = {provider, ask, NULL, NULL};
    const struct doc_node *step = provider->operations[ask->operation].steps[ask->step].node;
    const char *when = doc_get_string(step, "when", NULL), *unless = doc_get_string(step, "unless", NULL);
    return (!when || input_given(&f, when)) && (!unless || !input_given(&f, unless));
}
