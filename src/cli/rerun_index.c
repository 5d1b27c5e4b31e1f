/* Checks whether an index still has the packages of a lock, on a node before anything starts there: index.py, run by
 * the Python that the job's Python is made from. A package that cannot be checked is reported; set-up then shows
 * whether it is there. */
#include "rerun.h"
#include "rhrun/run.h"
#include "rhrun/transport.h"

#include <stdlib.h>
#include <string.h>

extern const char rhrun_cli_index[];

enum { SAID_MAX = 1 << 20, ASK_MS = 70000 };

struct ask {
    struct rerun_look *look;
    struct loop *loop;
    const char *node;
    bool asked, failed;
};

static struct doc_node *texts_of(struct arena *a, const struct spec_texts *list, bool *plain)
{
    struct doc_node *ret = doc_new_array(a);
    for (size_t i = 0; i < list->count; i++) {
        *plain = *plain && !list->items[i].has_expr;
        doc_append(a, ret, doc_new_string(a, list->items[i].text));
    }
    return ret;
}

/* [[name, version], ...] of "name==version"; a package from an address is left out, as it is in no index. */
static struct doc_node *packages_of(struct arena *a, const struct spec_step *s)
{
    struct doc_node *ret = doc_new_array(a);
    for (size_t i = 0; i < s->packages.count; i++) {
        const char *text = s->packages.items[i].text, *equal = strstr(text, "==");
        if (!equal || strstr(text, " @ "))
            continue;
        struct doc_node *one = doc_new_array(a);
        doc_append(a, one, doc_new_stringn(a, text, (size_t)(equal - text)));
        doc_append(a, one, doc_new_string(a, equal + 2));
        doc_append(a, ret, one);
    }
    return ret;
}

static bool is_of_pip(const char *name)
{
    return str_starts(name, "PIP_") || str_ends(name, "_proxy") || str_ends(name, "_PROXY");
}

/* The spec's env and secrets for pip and for proxies. A secret from a file or a command is read only when it is needed,
 * so it is left out. */
static struct doc_node *env_of(struct arena *a, const struct spec *spec, bool *plain)
{
    struct doc_node *ret = doc_new_object(a);
    for (size_t i = 0; i < spec->env_count; i++) {
        const struct spec_env *e = &spec->env[i];
        if (!is_of_pip(e->name))
            continue;
        *plain = *plain && !e->value.has_expr;
        if (e->value.text)
            doc_set(a, ret, e->name, doc_new_string(a, e->value.text));
    }
    for (size_t i = 0; i < spec->secret_count; i++) {
        const struct spec_secret *s = &spec->secrets[i];
        const char *to = s->to ? s->to : s->name, *value = getenv(s->name);
        if (!is_of_pip(to))
            continue;
        *plain = *plain && value && !s->file && s->command.count == 0;
        if (value)
            doc_set(a, ret, to, doc_new_string(a, value));
    }
    return ret;
}

/* The program, after its data; NULL: its data is known on the node only. */
static const char *program(struct arena *a, const struct spec *spec, const struct spec_step *s,
                           const struct doc_node *packages)
{
    bool plain = !s->index_url.has_expr;
    struct doc_node *item = doc_new_object(a);
    struct buf json = {0}, text = {0};
    doc_set(a, item, "packages", doc_clone(a, packages));
    if (s->index_url.text)
        doc_set(a, item, "index_url", doc_new_string(a, s->index_url.text));
    doc_set(a, item, "extra_index_url", texts_of(a, &s->extra_index_url, &plain));
    doc_set(a, item, "find_links", texts_of(a, &s->find_links, &plain));
    doc_set(a, item, "options", texts_of(a, &s->options, &plain));
    doc_set(a, item, "env", env_of(a, spec, &plain));
    doc_to_json(item, DOC_JSON_PLAIN, &json);
    buf_puts(&text, "import json\nitem = json.loads(");
    buf_json_string(&text, json.data, json.len);
    buf_printf(&text, ")\n%s", rhrun_cli_index);
    const char *ret = plain ? arena_strdup(a, text.data) : NULL;
    buf_free(&json);
    buf_free(&text);
    return ret;
}

static void not_asked(struct ask *ask, const char *why)
{
    if (!ask->failed)
        rerun_note(ask->look, "node %s: cannot find out whether the index still has the packages: %s", ask->node, why);
    ask->failed = true;
}

static void take_line(struct ask *ask, char *line)
{
    char *name = strchr(line, ' '), *version = name ? strchr(name + 1, ' ') : NULL;
    if (!name)
        return;
    *name++ = 0;
    if (strcmp(line, "asked") == 0)
        ask->asked = true;
    else if (strcmp(line, "unknown") == 0)
        not_asked(ask, name);
    else if (version && strcmp(line, "missing") == 0)
        rerun_say(ask->look, "node %s: the index does not have %s any more, for the Python there", ask->node, name);
    else if (version && strcmp(line, "yanked") == 0)
        rerun_say(ask->look, "node %s: yanked from the index: %s", ask->node, name);
}

static void on_said(void *arg, const struct loop_capture_result *result)
{
    struct ask *ask = arg;
    CLEANUP(cleanup_free) char *text = xstrdup(result->out);
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        take_line(ask, line);
    }
    if (!ask->asked && !ask->failed) {
        const char *last = result->error_text ? strrchr(result->error_text, '\n') : NULL;
        last = last ? last + 1 : result->error_text;
        not_asked(ask, result->timed_out ? "no answer in time" : last && *last ? last : "no answer");
    }
    loop_stop(ask->loop);
}

/* A command for /bin/sh there: the interpreter, which reads its program from stdin. */
static const char *shell_text(struct arena *a, const char *interpreter)
{
    struct buf b = {0};
    buf_puts(&b, "p=");
    buf_shell_quote(&b, interpreter);
    buf_puts(&b, ";case $p in \"~/\"*)p=$HOME/${p#??};;esac;command -v \"$p\" >/dev/null||"
                 "{ echo \"unknown there is no $p\";exit 0; };exec \"$p\" -");
    const char *text = arena_strdup(a, b.data);
    buf_free(&b);
    return text;
}

static uint32_t node_of(const struct spec *spec, const struct spec_step *s)
{
    CLEANUP(cleanup_free) bool *on = xcalloc((size_t)spec->nnodes + 1, sizeof *on);
    uint32_t n = 0;
    if (s->on == ON_LIST && s->on_count > 0)
        return s->on_nodes[0];
    spec_setup_nodes(spec, s->role, on);
    while (n + 1 < spec->nnodes && !on[n])
        n++;
    return n;
}

static void ask_for(struct rerun_look *l, const struct spec_step *s, const struct roster *roster)
{
    struct arena *a = l->c->arena;
    const uint32_t node = node_of(l->spec, s);
    const struct spec_host *host = roster_host(roster, node);
    const struct spec_python *python = s->role ? &s->role->python : &l->spec->python;
    const struct doc_node *packages = packages_of(a, s);
    struct ask ask = {.look = l, .node = roster_name(roster, node)};
    struct transport_host reach;
    struct error err = ERROR_INIT;
    if (packages->count == 0)
        return;
    const char *input = program(a, l->spec, s, packages);
    if (host->container)
        not_asked(&ask, "the job's container is made when the job is run");
    else if (python->conda.text)
        not_asked(&ask, "the Python is conda's");
    else if (!input || python->interpreter.has_expr || l->spec->activate.text)
        not_asked(&ask, "their source is known only once set-up is done");
    if (ask.failed)
        return;
    run_reach(host, node, &reach);
    const char *word = python->interpreter.text && *python->interpreter.text ? python->interpreter.text : "python3";
    const char *const *argv = transport_login(&reach, false, shell_text(a, word), a);
    ask.loop = loop_create();
    if (loop_capture(ask.loop, argv, NULL, input, SAID_MAX, ASK_MS, on_said, &ask, &err))
        loop_run(ask.loop);
    else
        not_asked(&ask, err.text);
    loop_destroy(ask.loop);
}

void rerun_ask_index(struct rerun_look *l, const struct roster *roster)
{
    for (size_t i = 0; i < l->spec->setup_count; i++) {
        const struct spec_step *s = &l->spec->setup[i];
        if (s->item == ITEM_PIP && strstr(s->name, "locked:pip"))
            ask_for(l, s, roster);
    }
}
