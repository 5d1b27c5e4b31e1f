/*
 * The class of an error: by the rules of the step, then those of the file, then HTTP's own meaning. A code must match
 * as a whole, a text in part. Headers say when to retry.
 */
#include "internal.h"

#include <string.h>
#include <time.h>

enum { RETRY_MAX_S = 3600 };

static int compile(const struct doc_node *text, bool whole, struct arena *arena, struct regex **ret,
                   struct diagnostics *d)
{
    struct regex_fault fault;
    const char *pattern = !text ? NULL : whole ? arena_printf(arena, "\\A(?:%s)\\z", text->text) : text->text;
    *ret = NULL;
    if (!pattern)
        return 0;
    *ret = regex_create(pattern, strlen(pattern), &fault);
    if (*ret)
        return 0;
    diagnostics_add(d, SEVERITY_ERROR, text->place, "the pattern is faulty: %s", fault.text);
    return -1;
}

int rules_compile(const struct doc_node *list, struct arena *arena, struct rules *ret, struct diagnostics *d)
{
    int rc = 0;
    size_t count = list ? list->count : 0;
    ret->items = arena_array(arena, count + 1, sizeof *ret->items);
    ret->count = count;
    for (size_t i = 0; i < count; i++) {
        struct error_rule *rule = &ret->items[i];
        rule->node = list->items[i];
        if (compile(doc_get(rule->node, "code"), true, arena, &rule->code, d) < 0 ||
            compile(doc_get(rule->node, "text"), false, arena, &rule->text, d) < 0)
            rc = -1;
    }
    return rc;
}

void rules_free(struct rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        regex_destroy(rules->items[i].code);
        regex_destroy(rules->items[i].text);
    }
    rules->count = 0;
}

static bool status_fits(const struct doc_node *status, int is)
{
    for (size_t i = 0; status && i < many_count(status); i++)
        if (one_of_many(status, i)->integer == is)
            return true;
    return !status;
}

static bool pattern_fits(struct regex *re, const char *text)
{
    return !re || (text && regex_match(re, text, strlen(text)) == REGEX_YES);
}

/* Only the provider's own words prove that a thing does not exist: a gateway has pages with status 404, too. */
static bool believed(const struct error_rule *rule, bool read)
{
    return read || rule->code || rule->text || !str_eq(doc_get_string(rule->node, "class", ""), "notfound");
}

static bool rules_ask(const struct rules *rules, const struct provider_reply *reply, bool read,
                      struct provider_result *result)
{
    for (size_t i = 0; i < rules->count; i++) {
        const struct error_rule *rule = &rules->items[i];
        if (!believed(rule, read) || !status_fits(doc_get(rule->node, "status"), reply->status) ||
            !pattern_fits(rule->code, result->code) || !pattern_fits(rule->text, result->message))
            continue;
        const char *scope = doc_get_string(rule->node, "scope", NULL);
        result->class = (enum provider_class)word_index(class_names, doc_get_string(rule->node, "class", "transient"));
        result->scope = scope ? (enum provider_scope)word_index(scope_names, scope) : PROVIDER_SCOPE_NONE;
        if (!result->retry_after_ms)
            result->retry_after_ms = duration_ms(doc_get(rule->node, "retry_after"), 0);
        return true;
    }
    return false;
}

/* For errors without a rule: HTTP's own meaning, else transient, and after some tries another region. A 404 that is not
 * in the provider's own form (a gateway's page) does not prove that a machine is gone. */
static void by_status(int status, bool read, struct provider_result *result)
{
    result->class = status == 401 || status == 403 ? PROVIDER_CLASS_AUTH
                    : status == 402                ? PROVIDER_CLASS_BUDGET
                    : status == 429                ? PROVIDER_CLASS_THROTTLED
                    : status == 404 && read        ? PROVIDER_CLASS_NOTFOUND
                                                   : PROVIDER_CLASS_TRANSIENT;
    result->scope = result->class == PROVIDER_CLASS_AUTH || result->class == PROVIDER_CLASS_BUDGET
                        ? PROVIDER_SCOPE_PROVIDER
                    : result->class == PROVIDER_CLASS_TRANSIENT ? PROVIDER_SCOPE_REGION
                                                                : PROVIDER_SCOPE_NONE;
}

static enum provider_scope usual_scope(enum provider_class class)
{
    switch (class) {
    case PROVIDER_CLASS_AUTH:
    case PROVIDER_CLASS_BUDGET:
        return PROVIDER_SCOPE_PROVIDER;
    case PROVIDER_CLASS_QUOTA:
    case PROVIDER_CLASS_CAPACITY:
    case PROVIDER_CLASS_TRANSIENT:
        return PROVIDER_SCOPE_REGION;
    case PROVIDER_CLASS_INVALID:
        return PROVIDER_SCOPE_RUN;
    case PROVIDER_CLASS_NONE:
    case PROVIDER_CLASS_EXISTS:
    case PROVIDER_CLASS_NOTFOUND:
    case PROVIDER_CLASS_THROTTLED:
        break;
    }
    return PROVIDER_SCOPE_NONE;
}

/* For a person: one line, bounded, without secrets. */
static const char *told(const struct answer *a, const char *text)
{
    if (!text)
        return NULL;
    size_t len = strlen(text), max = PROVIDER_TEXT_MAX;
    char *copy = arena_strdup(a->arena, text);
    if (a->fill->ask->credentials)
        provider_redact(a->fill->ask->credentials, copy);
    redact_text(copy, a->fill->ask->access_token);
    len = strlen(copy);
    while (len > max && max > 0 && ((unsigned char)copy[max] & 0xc0) == 0x80)
        max--;
    copy[len > max ? max : len] = 0;
    str_printable(copy);
    return copy;
}

/* A body in the wrong format may still say why in words, unless it is an HTML page. */
static const char *raw_text(const struct answer *a)
{
    const struct provider_reply *r = a->reply;
    size_t len = r->body_len < TEXT_MAX ? r->body_len : TEXT_MAX;
    if (!len || memchr(r->body, 0, len) || r->body[0] == '<' || r->body[0] == '{' || !text_is_utf8(r->body, len))
        return NULL;
    while (len && (r->body[len - 1] == '\n' || r->body[len - 1] == '\r'))
        len--;
    return arena_strndup(a->arena, r->body, len);
}

void error_judge(const struct answer *a, const struct step *step, struct provider_result *result)
{
    const struct provider *p = a->fill->provider;
    const struct doc_node *where = doc_get(p->root, "error");
    struct spot top = answer_top(a);
    bool read = a->json || a->xml;
    result->outcome = PROVIDER_FAILED;
    result->code = read ? extract_text(a, doc_get(where, "code"), top) : NULL;
    result->message = read ? extract_text(a, doc_get(where, "message"), top) : raw_text(a);
    result->retry_after_ms = retry_after_ms(a);
    if (!rules_ask(&step->errors, a->reply, read, result) && !rules_ask(&p->errors, a->reply, read, result))
        by_status(a->reply->status, read, result);
    else if (result->scope == PROVIDER_SCOPE_NONE)
        result->scope = usual_scope(result->class);
    result->code = told(a, result->code);
    result->message = told(a, result->message);
    result->unsure = (a->reply->status == 0 && !a->reply->unsent) || a->reply->status == 408 || a->reply->status >= 500;
}

/* ---- when to retry ---- */

static uint64_t until(uint64_t then_s, uint64_t now_s)
{
    uint64_t wait = now_s && then_s > now_s ? then_s - now_s : 0;
    return (wait > RETRY_MAX_S ? RETRY_MAX_S : wait) * 1000;
}

uint64_t retry_after_ms(const struct answer *a)
{
    const char *text = reply_header(a->reply, "retry-after");
    const char *reset_name = doc_get_string(a->fill->provider->root, "reset_header", NULL);
    uint64_t number;
    struct tm when = {0};
    if (text && parse_u64(text, &number))
        return (number > RETRY_MAX_S ? RETRY_MAX_S : number) * 1000;
    if (text && strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &when))
        return until((uint64_t)timegm(&when), a->reply->now_s);
    const char *reset = reset_name && a->reply->status == 429 ? reply_header(a->reply, reset_name) : NULL;
    return reset && parse_u64(reset, &number) ? until(number, a->reply->now_s) : 0;
}
