/*
 * Rules for a provider file that the schema cannot express: templates name only inputs of their operation, paths are
 * JSON pointers or XPaths, nothing occurs twice. All faults are reported, each at its place.
 */
#include "internal.h"

#include <string.h>

struct checking {
    const struct provider *p;
    struct diagnostics *d;
    enum provider_operation operation;
    size_t step; /* values that earlier steps extract may be named */
    bool good;
    bool unread; /* a note says that XPaths are not checked */
};

enum { NAMES_MAX = 128 };

static void fault(struct checking *c, const struct doc_node *node, const char *fmt, ...) FORMAT(3, 4);
static void fault(struct checking *c, const struct doc_node *node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diagnostics_addv(c->d, SEVERITY_ERROR, node->place, fmt, ap);
    va_end(ap);
    c->good = false;
}

static void add_keys(const struct doc_node *object, const char **names, size_t *count)
{
    for (size_t i = 0; object && i < object->count && *count < NAMES_MAX; i++)
        names[(*count)++] = object->members[i].key;
}

static void add_extracted(const struct provider *p, enum provider_operation o, size_t steps, const char **names,
                          size_t *count)
{
    for (size_t i = 0; i < steps && i < p->operations[o].count; i++)
        add_keys(doc_get(p->operations[o].steps[i].node, "extract"), names, count);
}

/* All names that may be used here, NULL-terminated. */
static void known_names(const struct checking *c, const char *names[NAMES_MAX + 1])
{
    size_t count = 0;
    for (const char *const *input = provider_inputs(c->operation); *input; input++)
        names[count++] = *input;
    add_keys(doc_get(c->p->root, "public"), names, &count);
    if (c->operation != PROVIDER_PREPARE)
        add_extracted(c->p, PROVIDER_PREPARE, PROVIDER_STEPS_MAX, names, &count);
    if (c->operation == PROVIDER_POLL)
        add_extracted(c->p, PROVIDER_CREATE, PROVIDER_STEPS_MAX, names, &count);
    add_extracted(c->p, c->operation, c->step, names, &count);
    names[count] = NULL;
}

static void check_name(struct checking *c, const struct doc_node *node, const char *name)
{
    const char *names[NAMES_MAX + 1];
    known_names(c, names);
    if (word_index(names, name) >= 0)
        return;
    const char *near = str_nearest(name, names);
    c->good = false;
    struct diagnostic *item = diagnostics_add(c->d, SEVERITY_ERROR, node->place, "%s has no input \"%s\"",
                                              provider_operation_name(c->operation), name);
    if (near)
        diagnostic_hint(item, "did you mean %s?", near);
}

static void check_text(struct checking *c, const struct doc_node *node)
{
    const char *at = node->text, *end = at + node->text_len;
    struct piece piece;
    char why[160];
    int rc;
    while ((rc = piece_next(&at, end, &piece, why)) > 0)
        if (piece.name[0])
            check_name(c, node, piece.name);
    if (rc < 0)
        fault(c, node, "%s", why);
}

static void check_template(struct checking *c, const struct doc_node *node)
{
    if (!node)
        return;
    if (node->type == DOC_STRING)
        check_text(c, node);
    for (size_t i = 0; node->type == DOC_ARRAY && i < node->count; i++)
        check_template(c, node->items[i]);
    const struct doc_node *when = node->type == DOC_OBJECT ? doc_get(node, "$when") : NULL;
    if (when) {
        if (when->type != DOC_STRING || node->count != 2 || !doc_get(node, "$value"))
            fault(c, node, "$when goes with $value and nothing else: {$when: NAME, $value: ...}");
        else
            check_name(c, when, when->text);
        check_template(c, doc_get(node, "$value"));
        return;
    }
    for (size_t i = 0; node->type == DOC_OBJECT && i < node->count; i++) {
        const struct doc_member *m = &node->members[i];
        if (strchr(m->key, '$'))
            fault(c, m->value, "a key is not a template: \"%s\"", m->key);
        check_template(c, m->value);
    }
}

/* The file is not at fault if this machine lacks libxml2. */
static bool can_check(struct checking *c, const struct doc_node *path)
{
    struct error err = ERROR_INIT;
    bool can = xml_open(&err) == 0;
    struct diagnostic *told = NULL;
    if (!can && !c->unread)
        told = diagnostics_add(c->d, SEVERITY_WARNING, path->place, "XPaths are not checked: %s", err.text);
    if (told)
        told->hint = xstrdup(err.hint);
    c->unread = !can;
    return can;
}

static void check_path(struct checking *c, const struct doc_node *node, bool xml)
{
    if (!node || node->type != DOC_STRING)
        return;
    if (xml && !can_check(c, node))
        return;
    if (xml && !xml_path_good(node->text))
        fault(c, node, "\"%s\" is not an XPath", node->text);
    if (!xml && node->text[0] && node->text[0] != '/')
        fault(c, node, "\"%s\" is not a JSON pointer: it begins with /", node->text);
}

static void check_extract(struct checking *c, const struct doc_node *how, bool xml)
{
    for (size_t i = 0; i < many_count(how); i++) {
        const struct doc_node *one = one_of_many(how, i);
        check_path(c, one, xml);
        if (one->type != DOC_OBJECT)
            continue;
        check_path(c, doc_get(one, "in"), false);
        check_path(c, doc_get(one, "get"), xml);
        check_path(c, doc_get(one, "least"), false);
        const struct doc_node *where = doc_get(one, "where");
        if (xml && (doc_get(one, "in") || where || doc_get(one, "has") || doc_get(one, "least")))
            fault(c, one, "in, where, has and least are for JSON: an XPath can say the same by itself");
        if (doc_get(one, "least") && !doc_get(one, "in"))
            fault(c, one, "least chooses among the items of a list, which `in` names");
        for (size_t k = 0; where && k < where->count; k++)
            check_template(c, where->members[k].value);
    }
}

static void check_extracts(struct checking *c, const struct doc_node *object, bool xml)
{
    for (size_t i = 0; object && i < object->count; i++)
        check_extract(c, object->members[i].value, xml);
}

static void check_predicate(struct checking *c, const struct doc_node *predicate, bool xml)
{
    static const char *const keys[] = {"value", "present", "missing"};
    for (size_t i = 0; predicate && i < ARRAY_LEN(keys); i++)
        if (doc_get(predicate, keys[i]))
            check_extract(c, doc_get(predicate, keys[i]), xml);
}

static void check_body(struct checking *c, const struct step *step)
{
    const struct doc_node *json = doc_get(step->node, "json"), *form = doc_get(step->node, "form");
    if (json && form)
        fault(c, form, "a request has one body: json or form");
    if ((json || form) && (str_eq(step->method, "GET")))
        fault(c, json ? json : form, "a GET has no body: its parameters belong in query");
    check_template(c, json);
    check_template(c, form);
}

static void check_offers(struct checking *c, const struct step *step)
{
    static const char *const pointers[] = {"in",           "type",        "price", "spot_price", "regions", "region",
                                           "region_price", "accelerator", "count", "vcpus",      "memory",  "only"};
    const struct doc_node *offers = doc_get(step->node, "offers"), *where = doc_get(offers, "where");
    if (!offers)
        return;
    if (step->reply == BODY_XML)
        fault(c, offers, "offers are read from JSON only");
    for (size_t i = 0; i < ARRAY_LEN(pointers); i++)
        check_path(c, doc_get(offers, pointers[i]), false);
    for (size_t i = 0; where && i < where->count; i++)
        check_template(c, where->members[i].value);
    if (doc_get(offers, "region_price") && !doc_get(offers, "regions"))
        fault(c, doc_get(offers, "region_price"), "region_price is a path from an item of regions, which are not here");
    if (step->accelerator_pattern && regex_group(step->accelerator_pattern, "name") < 0)
        fault(c, doc_get(offers, "accelerator_pattern"), "the pattern has no group (?<name>...)");
}

static void check_step(struct checking *c, const struct step *step)
{
    const struct doc_node *node = step->node, *page = doc_get(node, "page"), *machines = doc_get(node, "machines");
    bool xml = step->reply == BODY_XML;
    check_template(c, step->path);
    check_template(c, doc_get(node, "query"));
    check_template(c, doc_get(node, "headers"));
    check_body(c, step);
    for (size_t i = 0; i < 2; i++) {
        const struct doc_node *name = doc_get(node, i ? "unless" : "when");
        if (name)
            check_name(c, name, name->text);
    }
    check_predicate(c, doc_get(node, "ok_when"), xml);
    check_predicate(c, doc_get(node, "fail_when"), xml);
    check_predicate(c, doc_get(node, "done_when"), xml);
    check_extracts(c, doc_get(node, "extract"), xml);
    check_path(c, doc_get(node, "machine"), xml);
    check_path(c, machines, xml);
    check_offers(c, step);
    if (page)
        check_extract(c, doc_get(page, "at"), xml);
    if (doc_get(node, "done_when") && c->operation != PROVIDER_POLL && !provider_has(c->p, PROVIDER_POLL))
        fault(c, doc_get(node, "done_when"), "done_when needs an operation poll, which is missing");
    if (doc_get(node, "done_when") && !doc_get(doc_get(node, "extract"), "operation"))
        fault(c, doc_get(node, "done_when"), "done_when needs the operation's name: extract: {operation: ...}");
}

/* Names that auth uses must be credentials of every source without its own auth. */
static void check_auth(struct checking *c, const struct doc_node *auth, const struct doc_node *source)
{
    static const char *const roles[] = {"value", "user", "password"};
    const struct doc_node *keys = doc_get(source, "env") ? doc_get(source, "env") : doc_get(source, "keys");
    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        const struct doc_node *name = doc_get(auth, roles[i]);
        if (name && !doc_get(keys, name->text))
            fault(c, source, "auth uses the credential \"%s\", which this source does not have", name->text);
    }
}

static void check_credentials(struct checking *c)
{
    const struct doc_node *auth = doc_get(c->p->root, "auth"), *list = doc_get(c->p->root, "credentials");
    if (!list && !str_eq(doc_get_string(auth, "kind", ""), "none"))
        fault(c, auth, "auth needs credentials, but the file does not say where they are");
    for (size_t i = 0; list && i < list->count; i++) {
        const struct doc_node *own = doc_get(list->items[i], "auth");
        check_auth(c, own ? own : auth, list->items[i]);
    }
}

static void check_file(struct checking *c)
{
    const struct doc_node *root = c->p->root, *error = doc_get(root, "error"), *machine = doc_get(root, "machine");
    bool xml = str_eq(doc_get_string(root, "reply", "json"), "xml");
    const struct doc_node *base = doc_get(root, "base");
    c->operation = PROVIDER_SWEEP;
    if (!base && !doc_get(root, "socket"))
        fault(c, root, "a provider has an address: base, or socket");
    check_template(c, base);
    check_template(c, doc_get(doc_get(root, "auth"), "region"));
    check_extracts(c, error, xml);
    check_extracts(c, doc_get(machine, "extract"), xml);
    check_credentials(c);
}

static bool names_id(const struct doc_node *step)
{
    return doc_get(step, "machine") || doc_get(step, "machines") || doc_get(doc_get(step, "extract"), "id");
}

/* A machine that cannot be found by name or list would never be given back. */
static void check_found_again(struct checking *c)
{
    static const enum provider_operation lists[] = {PROVIDER_LIST, PROVIDER_SWEEP};
    const struct doc_node *machine = doc_get(c->p->root, "machine");
    const struct operation *create = &c->p->operations[PROVIDER_CREATE], *get = &c->p->operations[PROVIDER_GET];
    bool id = false;
    for (size_t i = 0; i < create->count; i++)
        id |= names_id(create->steps[i].node);
    if (!id)
        fault(c, create->steps[0].node, "create does not say which id the machine has: extract: {id: ...}, or machine");
    if (!doc_get(get->steps[get->count - 1].node, "machine"))
        fault(c, get->steps[get->count - 1].node, "get does not say where the machine is: machine");
    for (size_t o = 0; o < ARRAY_LEN(lists); o++)
        for (size_t i = 0; i < c->p->operations[lists[o]].count; i++)
            if (!doc_get(c->p->operations[lists[o]].steps[i].node, "machines"))
                fault(c, c->p->operations[lists[o]].steps[i].node,
                      "a list does not say where the machines are: machines");
    if (!doc_get(doc_get(machine, "extract"), "run") &&
        (!c->p->name_pattern || regex_group(c->p->name_pattern, "run") < 0))
        fault(c, machine,
              "nothing says which run a machine belongs to: extract: {run: ...}, or name_pattern with (?<run>...)");
}

bool provider_check(const struct provider *p, struct diagnostics *d)
{
    struct checking c = {.p = p, .d = d, .good = true};
    check_file(&c);
    check_found_again(&c);
    for (int o = 0; o < PROVIDER_OPERATIONS; o++)
        for (size_t i = 0; i < p->operations[o].count; i++) {
            c.operation = (enum provider_operation)o;
            c.step = i;
            check_step(&c, &p->operations[o].steps[i]);
        }
    return c.good;
}
