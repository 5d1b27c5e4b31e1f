/*
 * --set and --on: changes to the tree before it is checked, so that a value on the command line is checked against the
 * same schema as one in the file. Faults point into the option's own text.
 */
#include "internal.h"

#include <string.h>
#include <unistd.h>

enum { SET_DEPTH_MAX = 16 };

/* ---- --set a.b=VALUE ---- */

/* The whole text as an unquoted scalar ("echo # hi" has no comment), or a flow or quoted value. */
static struct doc_node *read_value(struct load *l, const char *path, const char *text)
{
    if (*text && strchr("[{\"'", *text)) {
        struct doc *doc;
        if (doc_load_text(arena_printf(l->arena, "--set %s", path), text, strlen(text), DOC_FORMAT_YAML, l->arena, &doc,
                          l->diagnostics, NULL) != 0)
            return NULL;
        return doc->root;
    }
    struct doc_node *node = doc_new_plain(l->arena, text);
    node->place = option_place(l, arena_printf(l->arena, "--set %s", path), text, 0, strlen(text));
    return node;
}

struct setting {
    struct load *l;
    const char *text; /* "a.b=VALUE" */
    struct place place;
    struct doc_node *value;
};

static void set_failed(struct setting *s, size_t at, size_t end, const char *message, const char *hint)
{
    struct diagnostic *d = fault(s->l, option_place(s->l, "--set", s->text, at, end), "%s", message);
    if (hint)
        diagnostic_hint(d, "%s", hint);
}

static void put_member(struct setting *s, struct doc_node *object, const char *key, struct doc_node *value, size_t at)
{
    doc_set(s->l->arena, object, key, value);
    struct doc_member *m = doc_get_member(object, key, strlen(key));
    m->key_place = option_place(s->l, "--set", s->text, at, at + strlen(key));
}

/* The child of node for a path's word, made where it is missing; NULL after a fault. */
static struct doc_node *step_into(struct setting *s, struct doc_node *node, const char *word, size_t at)
{
    struct arena *arena = s->l->arena;
    size_t end = at + strlen(word);
    if (is_object(node)) {
        struct doc_node *child = doc_get(node, word);
        if (!child || child->type == DOC_NULL) {
            child = doc_new_object(arena);
            child->place = option_place(s->l, "--set", s->text, at, end);
            put_member(s, node, word, child, at);
        }
        return child;
    }
    uint64_t i;
    if (is_array(node) && parse_u64(word, &i) && i < node->count)
        return node->items[i];
    if (is_array(node))
        set_failed(s, at, end, arena_printf(arena, "no item \"%s\" in a list of %zu", word, node->count),
                   "items count from 0");
    else
        set_failed(s, at, end, arena_printf(arena, "\"%s\" cannot be set below %s", word, doc_type_words(node->type)),
                   NULL);
    return NULL;
}

static void set_last(struct setting *s, struct doc_node *node, const char *word, size_t at)
{
    uint64_t i;
    size_t end = at + strlen(word);
    struct arena *arena = s->l->arena;
    if (is_object(node))
        put_member(s, node, word, s->value, at);
    else if (is_array(node) && parse_u64(word, &i) && i < node->count)
        node->items[i] = s->value;
    else if (is_array(node) && parse_u64(word, &i) && i == node->count)
        doc_append(arena, node, s->value);
    else if (is_array(node))
        set_failed(s, at, end, arena_printf(arena, "no item \"%s\" in a list of %zu", word, node->count),
                   "items count from 0; the number after the last item appends one");
    else
        set_failed(s, at, end, arena_printf(arena, "\"%s\" cannot be set below %s", word, doc_type_words(node->type)),
                   NULL);
}

static void apply_set(struct load *l, const char *text)
{
    struct setting s = {.l = l, .text = text};
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    if (!equals || len == 0) {
        set_failed(&s, 0, strlen(text), "an override needs a path and a value", "--set distributed.nnodes=2");
        return;
    }
    const char *path = arena_strndup(l->arena, text, len);
    s.value = read_value(l, path, equals + 1);
    if (!s.value)
        return;
    struct doc_node *node = l->root;
    size_t at = 0;
    for (unsigned depth = 0; node; depth++) {
        size_t n = strcspn(path + at, ".");
        const char *word = arena_strndup(l->arena, path + at, n);
        if (n == 0) {
            set_failed(&s, at, at + 1, "a name is missing in the path", "--set a.b=VALUE");
            return;
        }
        if (depth == SET_DEPTH_MAX) {
            set_failed(&s, at, len, "the path is too deep", "at most 16 names");
            return;
        }
        if (!path[at + n]) {
            set_last(&s, node, word, at);
            return;
        }
        node = step_into(&s, node, word, at);
        at += n + 1;
    }
}

/* ---- --on ---- */

static bool cluster_file_exists(struct load *l, const char *name)
{
    return access(arena_printf(l->arena, "%s/clusters/%s.yaml", l->spec->dir, name), F_OK) == 0;
}

/* Replaces cluster.hosts, or the keys of renting, by the hosts; the settings for the login (user, identity_file, ...)
 * stay. */
static void replace_hosts(struct load *l, const char *on)
{
    struct doc_node *cluster = doc_get(l->root, "cluster");
    struct doc_node *hosts = doc_new_array(l->arena);
    hosts->place = option_place(l, "--on", on, 0, strlen(on));
    for (size_t at = 0; on[at];) {
        size_t n = strcspn(on + at, ",");
        if (n > 0) {
            struct doc_node *host = doc_new_stringn(l->arena, on + at, n);
            host->place = option_place(l, "--on", on, at, at + n);
            doc_append(l->arena, hosts, host);
        }
        at += n + (on[at + n] == ',');
    }
    if (!is_object(cluster)) {
        cluster = doc_new_object(l->arena);
        cluster->place = hosts->place;
        doc_set(l->arena, l->root, "cluster", cluster);
    }
    doc_remove(cluster, "hostfile");
    rent_remove(cluster);
    doc_set(l->arena, cluster, "hosts", hosts);
}

static void apply_on(struct load *l, const char *on)
{
    struct place place = option_place(l, "--on", on, 0, strlen(on));
    struct doc_node *roles = doc_get(l->root, "roles");
    if (!*on) {
        diagnostic_expected(fault(l, place, "--on is empty"), "local, the name of a cluster, or user@host,...");
        return;
    }
    for (size_t i = 0; is_object(roles) && i < roles->count; i++)
        if (is_object(roles->members[i].value))
            doc_remove(roles->members[i].value, "cluster");
    bool host = strpbrk(on, "@,:.") || strcmp(on, "localhost") == 0;
    if (host && !cluster_file_exists(l, on)) {
        replace_hosts(l, on);
        return;
    }
    struct doc_node *name = doc_new_string(l->arena, on);
    name->place = place;
    doc_set(l->arena, l->root, "cluster", name);
}

void overrides_apply(struct load *l)
{
    if (!is_object(l->root))
        return;
    if (l->over->set_count > SPEC_SETS_MAX) {
        const char *past = l->over->sets[SPEC_SETS_MAX];
        fault(l, option_place(l, "--set", past, 0, strlen(past)), "more than %d times --set", (int)SPEC_SETS_MAX);
        return;
    }
    for (size_t i = 0; i < l->over->set_count; i++)
        apply_set(l, l->over->sets[i]);
    if (l->over->on)
        apply_on(l, l->over->on);
}
