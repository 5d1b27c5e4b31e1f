/* The forms of `instance`: "A100:8", "A100|A100-80GB:8", "cpu:8+ memory:32+", or a provider's own type. */
#include "internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { WORD_MAX = CATALOG_REQUEST_MAX, MORE_MAX = 1 << 20 };
static const char forms[] =
    "forms: A100:8, \"A100|A100-80GB:8\", cpu:8+, \"cpu:8+ memory:32+\", p4d.24xlarge; rhrun prices lists the machines";

struct parser {
    const struct catalog *c;
    struct arena *arena;
    struct catalog_request *request;
    struct error *err;
    bool accelerators, vcpus, memory; /* whether there was a word for it */
};

/* ---- suggestions ---- */

/* All names of accelerators, NULL-terminated. */
static const char **accelerator_names(const struct catalog *c, struct arena *arena, size_t more, size_t *ret_count)
{
    const char **names = arena_array(arena, c->accelerators.count + c->count + more + 1, sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < c->accelerators.count; i++)
        names[n++] = c->accelerators.items[i].name;
    for (size_t i = 0; i < c->count; i++)
        if (c->rows[i].accelerator)
            names[n++] = c->rows[i].accelerator;
    *ret_count = n;
    return names;
}

static int unknown_accelerator(const struct parser *p, const char *name)
{
    size_t n;
    const char *near = str_nearest(name, accelerator_names(p->c, p->arena, 0, &n));
    error_set(p->err, ERROR_USAGE, "there is no accelerator \"%s\"", name);
    if (near)
        error_hint(p->err, "did you mean %s?", near);
    else
        error_hint(p->err, "%s", forms);
    return -1;
}

/* A word without a count: a name, or a provider's type; only of `provider` if that is not NULL. */
static int unknown_word(const struct parser *p, const char *provider, const char *word)
{
    size_t n = 0;
    const char **names = provider ? arena_array(p->arena, p->c->count + 1, sizeof *names)
                                  : accelerator_names(p->c, p->arena, p->c->count, &n);
    for (size_t i = 0; i < p->c->count; i++)
        if (!provider || str_eq(p->c->rows[i].provider, provider))
            names[n++] = p->c->rows[i].instance_type;
    const char *near = str_nearest(word, names);
    if (provider)
        error_set(p->err, ERROR_USAGE, "the catalog has no \"%s\" of %s", word, provider);
    else
        error_set(p->err, ERROR_USAGE, "\"%s\" is neither an accelerator nor a provider's type that the catalog has",
                  word);
    if (near)
        error_hint(p->err, "did you mean %s?", near);
    else
        error_hint(p->err, "%s", forms);
    return -1;
}

/* ---- numbers ---- */

/* "8" or "8+"; false: neither. */
static bool amount(const char *text, bool *ret_or_more, uint64_t *ret_micro)
{
    char number[24];
    size_t len = strlen(text);
    bool or_more = len && text[len - 1] == '+';
    len -= or_more;
    if (len >= sizeof number)
        return false;
    memcpy(number, text, len);
    number[len] = 0;
    if (!catalog_parse_usd(number, ret_micro) || *ret_micro == 0 || *ret_micro > MORE_MAX * UINT64_C(1000000))
        return false;
    *ret_or_more = or_more;
    return true;
}

static int parse_vcpus(struct parser *p, const char *text)
{
    uint64_t micro;
    if (p->vcpus)
        return error_set(p->err, ERROR_USAGE, "\"%s\" says cpu twice", p->request->text);
    if (!amount(text, &p->request->vcpus_or_more, &micro) || micro % 1000000) {
        error_set(p->err, ERROR_USAGE, "cpu: \"%s\" is not a whole number of vCPUs above 0", text);
        error_hint(p->err, "cpu:8 is exactly 8, cpu:8+ is 8 or more");
        return -1;
    }
    p->vcpus = true;
    p->request->vcpus = (uint32_t)(micro / 1000000);
    return 0;
}

static int parse_memory(struct parser *p, const char *text)
{
    uint64_t micro;
    if (p->memory)
        return error_set(p->err, ERROR_USAGE, "\"%s\" says memory twice", p->request->text);
    if (!amount(text, &p->request->memory_or_more, &micro)) {
        error_set(p->err, ERROR_USAGE, "memory: \"%s\" is not a number of GiB above 0", text);
        error_hint(p->err, "memory:32 is exactly 32 GiB, memory:32+ is that or more");
        return -1;
    }
    p->memory = true;
    p->request->memory_mib = (micro * 1024 + 500000) / 1000000;
    return 0;
}

static int parse_count(struct parser *p, const char *name, const char *text)
{
    uint64_t micro;
    bool or_more = false;
    if (strchr(text, '|')) {
        error_set(p->err, ERROR_USAGE, "\"%s\" has several counts", p->request->text);
        error_hint(p->err, "one count is for all names: \"A100|H100:8\"; use any_of in the spec for different counts");
        return -1;
    }
    if (!amount(text, &or_more, &micro) || micro % 1000000 || or_more) {
        error_set(p->err, ERROR_USAGE, "%s: \"%s\" is not a count of accelerators of one machine", name, text);
        error_hint(p->err, or_more ? "a count of accelerators is exact" : "a whole number above 0: A100:8");
        return -1;
    }
    p->request->count = (uint32_t)(micro / 1000000);
    return 0;
}

/* ---- accelerators ---- */

static bool add_name(struct catalog_request *request, const char *name)
{
    for (size_t i = 0; i < request->accelerator_count; i++)
        if (str_eq(request->accelerators[i], name))
            return true;
    if (request->accelerator_count == CATALOG_NAMES_MAX)
        return false;
    request->accelerators[request->accelerator_count++] = name;
    return true;
}

/* Takes a name, and the names that count as it. */
static int add_accelerator(struct parser *p, const char *name)
{
    const char *canonical = catalog_accelerator(p->c, name);
    if (!canonical)
        return unknown_accelerator(p, name);
    const struct accelerator *known = accelerators_find(&p->c->accelerators, canonical);
    bool room = add_name(p->request, canonical);
    for (size_t i = 0; known && i < known->also_count; i++)
        room &= add_name(p->request, known->also[i]);
    return room ? 0
                : error_set(p->err, ERROR_USAGE, "\"%s\" names more than %d accelerators", p->request->text,
                            CATALOG_NAMES_MAX);
}

static int parse_accelerators(struct parser *p, char *word)
{
    char *count = strchr(word, ':');
    if (p->accelerators)
        return error_set(p->err, ERROR_USAGE, "\"%s\" names accelerators twice: alternatives are one word, A100|H100:8",
                         p->request->text);
    p->accelerators = true;
    p->request->count = 1;
    if (count)
        *count++ = 0;
    for (char *name = word, *bar; name; name = bar) {
        if ((bar = strchr(name, '|')))
            *bar++ = 0;
        if (!*name)
            return error_set(p->err, ERROR_USAGE, "\"%s\" has an empty name of an accelerator", p->request->text);
        if (!count && !bar && name == word && !catalog_accelerator(p->c, name))
            return unknown_word(p, NULL, name);
        if (add_accelerator(p, name) < 0)
            return -1;
    }
    return count ? parse_count(p, word, count) : 0;
}

/* ---- a provider's own type ---- */

static bool find_type(struct parser *p, const char *provider, const char *type)
{
    for (size_t i = 0; i < p->c->count; i++) {
        const struct catalog_row *row = &p->c->rows[i];
        if (strcasecmp(row->instance_type, type) == 0 && (!provider || str_eq(row->provider, provider))) {
            p->request->instance_type = row->instance_type;
            p->request->provider = provider ? row->provider : NULL;
            return true;
        }
    }
    return false;
}

/* PROVIDER:TYPE. 0, -1, or 1: the text does not begin with a provider. */
static int parse_provider_type(struct parser *p, const char *text)
{
    size_t len = strcspn(text, ":");
    if (!text[len])
        return 1;
    const char *provider = NULL;
    for (size_t i = 0; i < p->c->count && !provider; i++)
        if (strlen(p->c->rows[i].provider) == len && strncasecmp(p->c->rows[i].provider, text, len) == 0)
            provider = p->c->rows[i].provider;
    if (!provider)
        return 1;
    return find_type(p, provider, text + len + 1) ? 0 : unknown_word(p, provider, text + len + 1);
}

static int parse_words(struct parser *p, const char *text)
{
    char word[WORD_MAX + 1];
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t len = strcspn(text, " ");
        memcpy(word, text, len);
        word[len] = 0;
        text += len;
        int rc = strncasecmp(word, "cpu:", 4) == 0      ? parse_vcpus(p, word + 4)
                 : strncasecmp(word, "memory:", 7) == 0 ? parse_memory(p, word + 7)
                                                        : parse_accelerators(p, word);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int catalog_request_parse(const struct catalog *c, const char *text, struct arena *arena, struct catalog_request *ret,
                          struct error *err)
{
    size_t len = strlen(text);
    struct catalog_request request = {0};
    struct parser p = {.c = c, .arena = arena, .request = &request, .err = err};
    if (len > CATALOG_REQUEST_MAX)
        return error_set(err, ERROR_USAGE, "an instance of %zu bytes; it has at most %d", len, CATALOG_REQUEST_MAX);
    request.text = arena_strdup(arena, text);
    if (!text[strspn(text, " ")]) {
        error_set(err, ERROR_USAGE, "an instance is empty");
        error_hint(err, "%s", forms);
        return -1;
    }
    const char *name = catalog_accelerator(c, text); /* even a name with blanks: "NVIDIA A100 80GB PCIe" */
    int rc = 0;
    if (name) {
        request.count = 1;
        rc = add_accelerator(&p, name);
    } else if (!find_type(&p, NULL, text)) {
        rc = parse_provider_type(&p, text);
        if (rc == 1)
            rc = parse_words(&p, text);
    }
    if (rc == 0)
        *ret = request;
    return rc;
}
