/* Machines and pages in replies. Invalid values are dropped field by field; a machine without an id is an error. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static bool in_list(const struct doc_node *list, const char *word)
{
    for (size_t i = 0; list && i < list->count; i++)
        if (str_eq(list->items[i]->text, word))
            return true;
    return false;
}

/* An address is passed to ssh: only characters of addresses and names, and not an option. */
static const char *only_address(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.:-";
    return text && text[0] != '-' && strlen(text) <= 253 && strspn(text, plain) == strlen(text) ? text : NULL;
}

static const char *only_port(const char *text)
{
    uint32_t port;
    return text && parse_u32(text, &port) && port >= 1 && port <= 65535 ? text : NULL;
}

static const char *field(const struct answer *a, struct spot spot, const char *name)
{
    const struct doc_node *how = doc_get(doc_get(doc_get(a->fill->provider->root, "machine"), "extract"), name);
    const char *text = extract_text(a, how, spot);
    return text && str_is_printable(text) ? text : NULL;
}

static void name_group(const struct answer *a, struct regex *re, const char *name, const char *group, const char **ret)
{
    size_t at, len;
    int number = *ret ? -1 : regex_group(re, group);
    if (number >= 0 && regex_span(re, number, &at, &len) && len)
        *ret = arena_strndup(a->arena, name + at, len);
}

/* Without tags, the name has their values. */
static void read_name(const struct answer *a, struct provider_machine *m)
{
    struct regex *re = a->fill->provider->name_pattern;
    if (!re || !m->name || regex_match(re, m->name, strlen(m->name)) != REGEX_YES)
        return;
    name_group(a, re, m->name, "run", &m->run);
    name_group(a, re, m->name, "node", &m->node);
    name_group(a, re, m->name, "owner", &m->owner);
    name_group(a, re, m->name, "expires", &m->expires);
    const char *given = NULL;
    name_group(a, re, m->name, "name", &given);
    m->name = given ? given : m->name;
}

static const char *by_name(const struct provider_machine *m, const char *name)
{
    return str_eq(name, "public_ip")    ? m->public_ip
           : str_eq(name, "private_ip") ? m->private_ip
           : str_eq(name, "port")       ? m->port
           : str_eq(name, "zone")       ? m->zone
           : str_eq(name, "name")       ? m->name
                                        : m->id;
}

static enum provider_state state_of(const struct doc_node *rules, const struct provider_machine *m)
{
    const struct doc_node *needs = doc_get(rules, "needs");
    if (in_list(doc_get(rules, "gone"), m->status))
        return PROVIDER_STATE_GONE;
    if (in_list(doc_get(rules, "failed"), m->status))
        return PROVIDER_STATE_FAILED;
    if (!in_list(doc_get(rules, "ready"), m->status))
        return PROVIDER_STATE_COMING;
    for (size_t i = 0; needs && i < needs->count; i++)
        if (!by_name(m, needs->items[i]->text))
            return PROVIDER_STATE_COMING;
    return PROVIDER_STATE_READY;
}

static bool machine_read(const struct answer *a, struct spot spot, struct provider_machine *m)
{
    m->id = field(a, spot, "id");
    m->name = field(a, spot, "name");
    m->status = field(a, spot, "status");
    m->reason = field(a, spot, "reason");
    m->public_ip = only_address(field(a, spot, "public_ip"));
    m->private_ip = only_address(field(a, spot, "private_ip"));
    m->port = only_port(field(a, spot, "port"));
    m->zone = field(a, spot, "zone");
    m->type = field(a, spot, "type");
    m->run = field(a, spot, "run");
    m->node = field(a, spot, "node");
    m->owner = field(a, spot, "owner");
    m->expires = field(a, spot, "expires");
    m->price = field(a, spot, "price");
    read_name(a, m);
    m->state = state_of(doc_get(a->fill->provider->root, "machine"), m);
    return m->id != NULL;
}

/* A tag has the run id unchanged, or in the form that labels allow. */
static bool run_is(const struct provider_machine *m, const struct doc_node *run)
{
    struct buf safe = {0};
    if (!run || !m->run)
        return false;
    buf_append(&safe, run->text, run->text_len);
    filter_label_safe(&safe);
    bool is = str_eq(m->run, run->text) || str_eq(m->run, safe.data);
    buf_free(&safe);
    return is;
}

/* list keeps machines of this run, sweep those of any run, however the provider applied the request's filter. */
static bool machine_wanted(const struct answer *a, const struct provider_machine *m)
{
    switch (a->fill->ask->operation) {
    case PROVIDER_LIST:
        return run_is(m, input_find(a->fill, "run"));
    case PROVIDER_SWEEP:
        return m->run != NULL;
    case PROVIDER_PREPARE:
    case PROVIDER_CREATE:
    case PROVIDER_GET:
    case PROVIDER_DELETE:
    case PROVIDER_POLL:
    case PROVIDER_KEY_CREATE:
    case PROVIDER_KEY_LIST:
    case PROVIDER_KEY_DELETE:
    case PROVIDER_STOCK:
    case PROVIDER_CLEANUP:
    case PROVIDER_OPERATIONS:
        break;
    }
    return true;
}

struct spots {
    struct spot *items;
    size_t count;
};

static const char too_many[] = "the reply has too many machines";
static const char nothing[] = "the reply has no machine, or no list of machines, where one should be";

/* NULL, or what is wrong. A missing list is not an empty list: a machine that is in no list would never be given
 * back. */
static const char *put_spots(const struct doc_node *list, struct spots *to)
{
    if (!list || list->type != DOC_ARRAY)
        return nothing;
    for (size_t i = 0; i < list->count; i++) {
        if (to->count == PROVIDER_ITEMS_MAX)
            return too_many;
        to->items[to->count++] = (struct spot){list->items[i], NULL};
    }
    return NULL;
}

/* Lists inside the items of a list or mapping; some items have none. */
static const char *find_each(const struct answer *a, const struct doc_node *how, struct spots *to)
{
    const struct doc_node *outer = doc_get_path(a->json, doc_get_string(how, "in", ""));
    const char *each = doc_get_string(how, "each", ""), *fault = NULL;
    for (size_t i = 0; outer && i < outer->count && !fault; i++) {
        const struct doc_node *item = outer->type == DOC_ARRAY ? outer->items[i] : outer->members[i].value;
        const struct doc_node *list = doc_get_path(item, each);
        fault = list ? put_spots(list, to) : NULL;
    }
    return fault;
}

static const char *find_xml(const struct answer *a, const char *path, struct spots *to)
{
    void **nodes = xcalloc(PROVIDER_ITEMS_MAX, sizeof *nodes);
    size_t found = xml_nodes(a->xml, xml_root(a->xml), path, nodes, PROVIDER_ITEMS_MAX);
    for (size_t i = 0; found != SIZE_MAX && i < found; i++)
        to->items[to->count++] = (struct spot){NULL, nodes[i]};
    free(nodes);
    return found == SIZE_MAX ? too_many : NULL;
}

static const char *find_spots(const struct answer *a, const struct step *step, struct spots *to)
{
    const struct doc_node *one = doc_get(step->node, "machine"), *many = doc_get(step->node, "machines");
    const struct doc_node *how = one ? one : many;
    if (how->type != DOC_STRING)
        return find_each(a, how, to);
    if (a->xml) {
        const char *fault = find_xml(a, how->text, to);
        return one && !to->count && !fault ? nothing : fault;
    }
    const struct doc_node *found = doc_get_path(a->json, how->text);
    if (!one)
        return put_spots(found, to);
    if (!found || found->type != DOC_OBJECT)
        return nothing;
    to->items[to->count++] = (struct spot){found, NULL};
    return NULL;
}

const char *machines_read(const struct answer *a, const struct step *step, struct provider_result *result)
{
    if (!doc_get(step->node, "machine") && !doc_get(step->node, "machines"))
        return NULL;
    struct spots spots = {xcalloc(PROVIDER_ITEMS_MAX, sizeof *spots.items), 0};
    const char *fault = find_spots(a, step, &spots);
    result->machines = arena_array(a->arena, spots.count + 1, sizeof *result->machines);
    result->machine_count = 0;
    for (size_t i = 0; i < spots.count && !fault; i++) {
        struct provider_machine *m = &result->machines[result->machine_count];
        memset(m, 0, sizeof *m);
        if (!machine_read(a, spots.items[i], m))
            fault = "a machine in the reply has no id";
        else if (machine_wanted(a, m))
            result->machine_count++;
    }
    free(spots.items);
    return fault;
}

/* ---- pages ---- */

bool page_read(const struct answer *a, const struct doc_node *page, struct provider_result *result)
{
    const char *next = page ? extract_text(a, doc_get(page, "at"), answer_top(a)) : NULL;
    struct filling quiet = *a->fill;
    if (!next)
        return true;
    quiet.err = NULL;
    const char *base = str_eq(doc_get_string(page, "kind", ""), "next_url") ? url_base(&quiet) : NULL;
    /* The next request carries the credentials, so it must go to the same server. */
    if (str_eq(doc_get_string(page, "kind", ""), "next_url") && (!base || !url_same_origin(base, next)))
        return false;
    if (str_eq(a->fill->ask->page, next)) /* the same page again */
        return false;
    result->next = next;
    return true;
}
