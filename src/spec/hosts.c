/*
 * The hosts of one cluster, over SSH: from the spec, from clusters/NAME.yaml or from a hostfile. Or placeholders, if
 * the machines are rented (rent.c). Each host gets the cluster's values unless it has its own; paths become absolute.
 */
#include "internal.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cluster {
    struct load *l;
    const struct doc_node *node; /* the object */
    const char *dir;             /* base of relative paths on this machine */
    struct spec_host defaults;
    struct host_list *list;
};

/* A string member with its expressions expanded, or NULL. */
static const char *string_of(struct load *l, const struct doc_node *object, const char *key)
{
    struct spec_text text = text_of(doc_get(object, key));
    return text.text ? expand_now(l, &text) : NULL;
}

static enum spec_transport transport_of(const struct doc_node *object, enum spec_transport otherwise)
{
    const char *word = doc_get_string(object, "transport", NULL);
    if (!word)
        return otherwise;
    return strcmp(word, "ssh") == 0       ? SPEC_TRANSPORT_SSH
           : strcmp(word, "openssh") == 0 ? SPEC_TRANSPORT_OPENSSH
                                          : SPEC_TRANSPORT_AUTO;
}

/* A word that may go on ssh's command line: no blank, no control character, not mistaken for an option. */
static bool is_word(const char *s)
{
    if (!*s || *s == '-' || !str_is_printable(s))
        return false;
    for (; *s; s++)
        if (*s == ' ' || strchr("'\"\\`$;&|<>(){}*?!,/=", *s))
            return false;
    return true;
}

/* What ssh -J accepts: "none", or [user@]host[:port] separated by commas, also as ssh://... */
static bool is_jump(const char *s)
{
    for (;; s++) {
        size_t len = strcspn(s, ",");
        CLEANUP(cleanup_free) char *hop = xstrndup(s, len);
        const char *from = str_starts(hop, "ssh://") ? hop + 6 : hop, *at = strrchr(from, '@');
        if (!is_word(from) || (at && !is_word(at + 1)))
            return false;
        s += len;
        if (!*s)
            return true;
    }
}

/* A path may have blanks, but not the quote character that encloses it for ssh. */
static bool is_file_name(const char *s)
{
    return *s && str_is_printable(s) && !strchr(s, '"');
}

/* As string_of, for text that reaches ssh's command line or a terminal. */
static const char *fitting(struct cluster *c, const struct doc_node *object, const char *key,
                           bool (*fits)(const char *s), const char *what)
{
    const char *own = string_of(c->l, object, key);
    if (!own || fits(own))
        return own;
    diagnostic_expected(fault(c->l, place_of(doc_get(object, key)), "\"%s\" is not %s", own, what),
                        "no control characters, and nothing that ssh or a shell would interpret");
    c->list->failed = true;
    return NULL;
}

/* A file of this machine; faults name its key. Something else than a file is refused, because its readers would
 * block. */
static const char *file_of(struct cluster *c, const struct doc_node *object, const char *key)
{
    const char *written = fitting(c, object, key, is_file_name, "a file's name");
    if (!written || (str_eq(key, "ssh_config") && str_eq(written, "none")))
        return written;
    const char *path = path_here(c->l, c->dir, written);
    file_check(c->l, place_of(doc_get(object, key)), path);
    if (str_eq(key, "identity_file") || str_eq(key, "ssh_config"))
        here_check_ssh_file(c->l, key, place_of(doc_get(object, key)), written, path);
    return path;
}

/* The keys that a cluster and a host share: the host's own win. */
static void read_common(struct cluster *c, const struct doc_node *object, struct spec_host *h)
{
    const char *own;
    int64_t port = doc_get_int(object, "port", 0);
    if (port > 0 && port <= UINT16_MAX)
        h->port = (uint32_t)port;
    if ((own = fitting(c, object, "user", is_word, "a user name")))
        h->user = own;
    if ((own = fitting(c, object, "proxy_jump", is_jump, "a host to go through")))
        h->proxy_jump = own;
    if ((own = file_of(c, object, "identity_file")))
        h->identity_file = own;
    if ((own = file_of(c, object, "known_hosts")))
        h->known_hosts = own;
    if ((own = file_of(c, object, "ssh_config")))
        h->ssh_config = own;
    h->transport = transport_of(object, h->transport);
}

/* ---- one host ---- */

/* Only IPv6 addresses have more than one colon; lines of other files (/etc/group) have them too. */
static bool is_address(const char *host)
{
    size_t len = strspn(host, "0123456789abcdefABCDEF:.");
    return !strchr(host, ':') || !host[len] || (host[len] == '%' && host[len + 1]);
}

/* "host", "user@host", "user@host:port", "[address]:port" into h; missing parts stay unchanged. */
static bool parse_host(struct load *l, const char *text, struct spec_host *h)
{
    const char *at = strrchr(text, '@');
    if (at) {
        h->user = arena_strndup(l->arena, text, (size_t)(at - text));
        text = at + 1;
    }
    const char *colon = strchr(text, ':'), *port = NULL;
    if (*text == '[') {
        const char *close = strchr(text, ']');
        if (!close || (close[1] && close[1] != ':'))
            return false;
        h->host = arena_strndup(l->arena, text + 1, (size_t)(close - text - 1));
        port = close[1] ? close + 2 : NULL;
    } else if (colon && !strchr(colon + 1, ':')) {
        h->host = arena_strndup(l->arena, text, (size_t)(colon - text));
        port = colon + 1;
    } else {
        h->host = arena_strdup(l->arena, text); /* a name, or a bare IPv6 address */
    }
    if (port && (!parse_u32(port, &h->port) || h->port == 0 || h->port > UINT16_MAX))
        return false;
    return is_word(h->host) && is_address(h->host) && (!at || is_word(h->user));
}

static void add_host(struct cluster *c, const struct host_entry *e)
{
    struct host_list *list = c->list;
    if (list->count == list->cap) {
        list->cap = list->cap ? list->cap * 2 : 16;
        struct host_entry *items = arena_array(c->l->arena, list->cap, sizeof *items);
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
    }
    list->items[list->count++] = *e;
}

static void add_text(struct cluster *c, const char *text, struct place place)
{
    struct host_entry e = {.host = c->defaults, .wish.place = place};
    e.host.name = arena_strdup(c->l->arena, text);
    if (!parse_host(c->l, text, &e.host)) {
        struct diagnostic *d = place.source && place.source->hidden ? fault(c->l, place, "the line is not a host")
                                                                    : fault(c->l, place, "\"%s\" is not a host", text);
        diagnostic_expected(d, "host, user@host or user@host:port");
        c->list->failed = true;
    } else if (strcmp(e.host.host, "local") == 0) {
        diagnostic_hint(fault(c->l, place, "\"local\" is not a host"),
                        "for this machine write cluster: local; for SSH to it, localhost");
        c->list->failed = true;
    } else {
        add_host(c, &e);
    }
}

/* A host that is reached over SSH. */
static bool read_ssh(struct cluster *c, const struct doc_node *item, struct spec_host *h)
{
    struct load *l = c->l;
    struct spec_text text = text_of(doc_get(item, "host"));
    const char *host = text.text ? expand_now(l, &text) : NULL;
    if (!doc_get(item, "host"))
        diagnostic_expected(fault(l, place_of(item), "the host has neither host nor exec"),
                            "host: NAME, or exec: [PROGRAM, WORD, ...]");
    if (!host)
        return false;
    *h = c->defaults;
    if (!parse_host(l, host, h) || strcmp(h->host, "local") == 0) {
        diagnostic_expected(fault(l, text.place, "\"%s\" is not a host", host), "a name or an address");
        return false;
    }
    read_common(c, item, h);
    const char *user = doc_get_text(item, "user", NULL), *port = doc_get_text(item, "port", NULL);
    const char *written = arena_printf(l->arena, "%s%s%s%s%s", user ? user : "", user ? "@" : "", host, port ? ":" : "",
                                       port ? port : "");
    h->name = doc_get_text(item, "name", written);
    return true;
}

/* A host that a program on this machine connects to. */
static bool read_exec(struct cluster *c, const struct doc_node *item, struct spec_host *h)
{
    static const char *const of_ssh[] = {"host",       "user",        "port",       "identity_file",
                                         "proxy_jump", "known_hosts", "ssh_config", "transport"};
    struct load *l = c->l;
    struct doc_member *exec = doc_get_member(item, "exec", 4);
    struct spec_texts words = texts_now(l, exec->value, false);
    struct buf text = {0};
    for (size_t i = 0; i < ARRAY_LEN(of_ssh); i++) {
        struct doc_member *m = doc_get_member(item, of_ssh[i], strlen(of_ssh[i]));
        if (!m)
            continue;
        diagnostic_hint(
            fault(l, m->key_place, "%s beside exec: the program alone says how the host is reached", of_ssh[i]),
            "leave it out, or make it part of exec");
        note(l, exec->key_place, "exec is here");
        return false;
    }
    if (!doc_get(item, "name")) {
        diagnostic_hint(fault(l, exec->key_place, "a host with exec needs a name"), "name: what messages call it");
        return false;
    }
    if (!is_array(exec->value) || words.count == 0 || words.count < exec->value->count)
        return false; /* the schema says it, or the expression did */
    if (!words.items[0].text[0]) {
        diagnostic_expected(fault(l, words.items[0].place, "exec begins with an empty word"), "a program");
        return false;
    }
    const char **argv = arena_array(l->arena, words.count + 1, sizeof *argv);
    for (size_t i = 0; i < words.count; i++) {
        argv[i] = words.items[i].text;
        if (i > 0)
            buf_putc(&text, ' ');
        if (i == 0 && strchr(argv[0], '/'))
            argv[0] = path_here(l, c->dir, argv[0]);
        buf_shell_quote(&text, argv[i]);
    }
    *h = (struct spec_host){.name = doc_get_text(item, "name", ""),
                            .exec = argv,
                            .exec_text = arena_strdup(l->arena, text.data),
                            .transport = SPEC_TRANSPORT_COMMAND,
                            .container = c->defaults.container};
    h->host = h->name;
    buf_free(&text);
    return true;
}

static void add_object(struct cluster *c, const struct doc_node *item)
{
    struct host_entry e = {.wish.place = place_of(item)};
    if (!(doc_get(item, "exec") ? read_exec : read_ssh)(c, item, &e.host)) {
        c->list->failed = true;
        return;
    }
    e.host.address = fitting(c, item, "address", is_word, "an address");
    e.wish.has_nproc = nproc_of(doc_get(item, "nproc_per_node"), &e.wish.nproc);
    e.wish.devices = devices_of(c->l, doc_get(item, "devices"));
    add_host(c, &e);
}

static void read_hostfile(struct cluster *c, const char *written, struct place place)
{
    struct load *l = c->l;
    struct buf text = {0};
    struct error err = ERROR_INIT;
    const char *path = path_here(l, c->dir, written);
    c->list->failed = true;
    if (file_read(path, SPEC_FILE_MAX_BYTES, &text, &err) != 0) {
        fault(l, place, "%s", err.text);
        return;
    }
    struct source *source = arena_alloc(l->arena, sizeof *source);
    *source = (struct source){.name = written,
                              .text = arena_strndup(l->arena, text.len > 0 ? text.data : "", text.len),
                              .len = text.len,
                              .hidden = "the host cannot be used"}; /* any file may be named as a hostfile, so none is
                                                                       shown */
    buf_free(&text);
    size_t errors = l->diagnostics->errors;
    const char *p = source->text;
    for (uint32_t line = 1; *p && c->list->count <= SPEC_HOSTS_MAX; line++) {
        size_t len = strcspn(p, "\n"), from = strspn(p, " \t\r"), to = strcspn(p, "#\n");
        while (to > from && isspace((unsigned char)p[to - 1]))
            to--;
        struct place at = {.source = source,
                           .line = line,
                           .column = (uint32_t)from + 1,
                           .end_line = line,
                           .end_column = (uint32_t)to + 1};
        if (to > from)
            add_text(c, arena_strndup(l->arena, p + from, to - from), at);
        p += len + (p[len] == '\n');
    }
    c->list->failed = l->diagnostics->errors > errors;
    if (c->list->count == 0 && !c->list->failed) {
        c->list->failed = true;
        fault(l, place, "\"%s\" lists no host", written);
    }
}

/* ---- all hosts ---- */

static int compare_hosts(const void *left, const void *right)
{
    const struct host_entry *const *pa = left, *const *pb = right;
    const struct spec_host *a = &(*pa)->host, *b = &(*pb)->host;
    if (a->exec && b->exec)
        return strcmp(a->exec_text, b->exec_text);
    int d = a->exec || b->exec ? (a->exec != NULL) - (b->exec != NULL) : strcmp(a->host, b->host);
    if (d == 0)
        d = strcmp(a->user ? a->user : "", b->user ? b->user : "");
    if (d == 0)
        d = (a->port > b->port) - (a->port < b->port);
    return d;
}

static int compare_names(const void *left, const void *right)
{
    const struct host_entry *const *a = left, *const *b = right;
    return strcmp((*a)->host.name, (*b)->host.name);
}

static int by_address(const void *left, const void *right)
{
    const struct host_entry *const *a = left, *const *b = right;
    return (*a > *b) - (*a < *b);
}

void hosts_check_twice(struct load *l, struct host_list *list, bool names)
{
    int (*compare)(const void *, const void *) = names ? compare_names : compare_hosts;
    const struct host_entry **sorted = xcalloc(list->count + 1, sizeof *sorted);
    for (size_t i = 0; i < list->count; i++)
        sorted[i] = &list->items[i];
    qsort(sorted, list->count, sizeof *sorted, compare);
    for (size_t i = 0, end; i < list->count; i = end) {
        for (end = i + 1; end < list->count && compare(&sorted[i], &sorted[end]) == 0; end++)
            ;
        qsort(sorted + i, end - i, sizeof *sorted, by_address);
        for (size_t j = i + 1; j < end; j++) {
            struct place place = sorted[j]->wish.place;
            if (!place.source || !place.source->hidden)
                fault(l, place, "host \"%s\" %s", sorted[j]->host.name,
                      names ? "has the name of another host" : "is listed twice");
            else if (names)
                fault(l, place, "the host has the name of another host");
            else
                fault(l, place, "the host is listed twice");
            note(l, sorted[i]->wish.place, "it is here too");
            list->failed = true;
        }
    }
    free(sorted);
}

static void no_hosts(struct load *l, const struct doc_node *node)
{
    if (doc_get(node, "slurm"))
        return; /* reported as a key of a later version */
    diagnostic_hint(fault(l, place_of(node), "cluster has no hosts"),
                    "list them in hosts or hostfile, or give --on user@host,...; instance says which machine to rent");
}

static void bind_object(struct load *l, const struct doc_node *node, const char *dir, struct host_list *list)
{
    struct cluster c = {.l = l, .node = node, .dir = dir, .list = list};
    read_common(&c, node, &c.defaults);
    list->failed = !container_bind(l, node, &c.defaults.container) || list->failed;
    if (doc_get(node, "any_of")) { /* in the job's own cluster any_of was removed before */
        diagnostic_hint(fault(l, place_of(doc_get(node, "any_of")), "any_of is only for the cluster of the job itself"),
                        "write it in cluster of the spec");
        list->failed = true;
        return;
    }
    if (rent_is_wished(node)) {
        rent_bind(l, node, &c.defaults, list);
        return;
    }
    bool good = rent_check_none(l, node);
    list->failed = list->failed || !good;
    const struct doc_node *hosts = doc_get(node, "hosts");
    struct doc_member *file = doc_get_member(node, "hostfile", 8), *given = doc_get_member(node, "hosts", 5);
    if (file && given) {
        struct diagnostic *d = fault(l, file->key_place, "cluster has both hosts and hostfile");
        diagnostic_expected(d, "one of them");
        note(l, given->key_place, "hosts is here");
        list->failed = true;
    }
    if (!file && !given) {
        list->failed = true;
        if (good)
            no_hosts(l, node);
        return;
    }
    if (is_array(hosts)) {
        for (size_t i = 0; i < hosts->count && i < SPEC_HOSTS_MAX; i++) {
            struct spec_text text = text_of(hosts->items[i]);
            const char *expanded = text.text ? expand_now(l, &text) : NULL;
            if (is_object(hosts->items[i]))
                add_object(&c, hosts->items[i]);
            else if (expanded)
                add_text(&c, expanded, place_of(hosts->items[i]));
            else
                list->failed = true;
        }
    } else if (file && is_scalar(file->value)) {
        const char *path = string_of(l, node, "hostfile");
        list->failed = true;
        if (path)
            read_hostfile(&c, path, place_of(file->value));
    } else {
        list->failed = true;
    }
    if (list->count > SPEC_HOSTS_MAX) {
        fault(l, place_of(file ? file->value : node), "more than %d hosts", SPEC_HOSTS_MAX);
        list->failed = true;
    }
    hosts_check_twice(l, list, false);
}

/* ---- clusters/NAME.yaml ---- */

/* The name of a file that may have been meant, or NULL. */
static const char *near_cluster(struct load *l, const char *name)
{
    const char *names[258] = {NULL};
    size_t n = 0;
    DIR *dir = opendir(arena_printf(l->arena, "%s/clusters", l->spec->dir));
    for (struct dirent *e; dir && n < 256 && (e = readdir(dir));)
        if (str_ends(e->d_name, ".yaml"))
            names[n++] = arena_strndup(l->arena, e->d_name, strlen(e->d_name) - 5);
    if (dir)
        closedir(dir);
    names[n++] = "local";
    return str_nearest(name, names);
}

/* There is no file of that name: it is a rented cluster, unless another file was probably meant. */
static bool is_rented(struct load *l, const char *path, const char *name)
{
    const struct spec_overrides *o = l->over;
    if (!o->knows_rented || access(path, F_OK) == 0)
        return false;
    return !near_cluster(l, name) || (o->is_rented && o->is_rented(o->arg, name));
}

static void hint_clusters(struct load *l, struct diagnostic *d, const char *name)
{
    const char *near = near_cluster(l, name);
    if (near)
        diagnostic_hint(d, "did you mean %s?", near);
    else
        diagnostic_hint(d, "a host on its own is given as hosts: [%s], or --on %s,", name, name);
}

static void bind_named(struct load *l, const struct doc_node *node, struct host_list *list)
{
    list->failed = true;
    if (!name_is_valid(node->text)) {
        diagnostic_expected(fault(l, place_of(node), "\"%s\" is not the name of a cluster", node->text),
                            "local, the name of a file in clusters/, or a mapping with hosts");
        return;
    }
    struct doc *doc;
    struct error err = ERROR_INIT;
    const char *path = arena_printf(l->arena, "%s/clusters/%s.yaml", l->spec->dir, node->text);
    size_t errors = l->diagnostics->errors;
    if (is_rented(l, path, node->text)) {
        list->failed = false;
        rent_bind_cluster(l, node, list);
        return;
    }
    const char *home = l->spec->doc->source.hidden ? "" : l->spec->dir; /* "": nothing of it may be quoted */
    if (doc_load_below(path, home, DOC_FORMAT_YAML, l->arena, &doc, l->diagnostics, &err) != 0) {
        if (l->diagnostics->errors == errors)
            hint_clusters(l, fault(l, place_of(node), "no cluster \"%s\": %s", node->text, err.text), node->text);
        return;
    }
    doc_hidden_says(doc, "the value here is not valid in a cluster");
    doc_refuse_nul(doc->root, l->diagnostics);
    schema_check_cluster(l, doc->root);
    if (!is_object(doc->root))
        return;
    list->failed = false;
    cluster_drop_empty(l, doc->root);
    bind_object(l, doc->root, arena_printf(l->arena, "%s/clusters", l->spec->dir), list);
}

void hosts_of(struct load *l, const struct doc_node *node, struct host_list *ret)
{
    *ret = (struct host_list){0};
    if (node->type == DOC_STRING)
        bind_named(l, node, ret);
    else if (is_object(node))
        bind_object(l, node, l->spec->dir, ret);
    else
        ret->failed = true;
}
