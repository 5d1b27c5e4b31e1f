/*
 * A plan as a file: `plan -o` writes it, and `apply FILE` compares it with the present state. It is one JSON object
 * that begins with "rhrun_plan": the options of the plan and, under "is", the facts that it is based on, in sections of
 * texts: each difference there is a change since then. The file has no secret: for values that steps read it has
 * digests; from the command line it has the typed text.
 */
#include "saved_plan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FORMAT = 1, MOVED_MAX = 20 };
static const char begins[] = "{\"rhrun_plan\":";

/* The sections, in the order in which changes are reported. */
static const char *const sections[] = {"spec", "params", "args", "trees", "hosts", "steps", "verdicts", "offers"};

/* ---- writing ---- */

struct saving {
    struct arena *arena;
    struct doc_node *is;
};

static struct doc_node *text_node(struct saving *s, const char *text)
{
    return text ? doc_new_string(s->arena, text) : doc_new_null(s->arena);
}

static struct doc_node *section(struct saving *s, const char *name)
{
    struct doc_node *node = doc_get(s->is, name);
    if (node)
        return node;
    doc_set(s->arena, s->is, name, doc_new_object(s->arena));
    return doc_get(s->is, name);
}

static void put(struct saving *s, const char *name, const char *key, const char *value)
{
    doc_set(s->arena, section(s, name), key, text_node(s, value ? value : ""));
}

static const char *number(struct saving *s, size_t n)
{
    return arena_printf(s->arena, "%zu", n);
}

/* "gpu1", and its address if the name does not say all. */
static const char *host_text(struct saving *s, const struct spec_host *h)
{
    struct buf b = {0};
    if (h->work_dir || h->exec_text || !h->host)
        return h->exec_text ? arena_printf(s->arena, "%s (%s)", h->name, h->exec_text) : h->name;
    if (h->user)
        buf_printf(&b, "%s@", h->user);
    buf_puts(&b, h->host);
    if (h->port)
        buf_printf(&b, ":%u", h->port);
    const char *text = str_eq(b.data, h->name) || str_eq(h->host, "localhost")
                           ? h->name
                           : arena_printf(s->arena, "%s (%s)", h->name, b.data);
    buf_free(&b);
    return text;
}

static void put_hosts(struct saving *s, const struct plan *plan)
{
    for (uint32_t n = 0; n < plan->node_count; n++)
        put(s, "hosts", number(s, n), host_text(s, roster_host(plan->roster, n)));
}

/* A letter for each node: "kk-r". */
static char letter_of(enum verdict v)
{
    static const char letters[] = {[VERDICT_KEEP] = 'k',   [VERDICT_RUN] = 'r',     [VERDICT_AGAIN] = 'a',
                                   [VERDICT_VERIFY] = 'v', [VERDICT_DEPENDS] = 'd', [VERDICT_NOT_NEEDED] = 'n'};
    return letters[v];
}

static const char *word_of(char letter)
{
    for (enum verdict v = VERDICT_KEEP; v <= VERDICT_NOT_NEEDED; v++)
        if (letter_of(v) == letter)
            return verdict_name(v);
    return "nothing";
}

static void put_steps(struct saving *s, const struct plan *plan, const struct plan_decision *decisions)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        char *verdicts = arena_alloc(s->arena, plan->node_count + 1u);
        for (uint32_t n = 0; n < plan->node_count; n++)
            verdicts[n] = step->on[n] ? letter_of(decisions[i * plan->node_count + n].verdict) : '-';
        put(s, "steps", step->name, step->key);
        put(s, "verdicts", step->name, verdicts);
    }
}

static void put_offers(struct saving *s, const struct plan_rent *rent)
{
    for (size_t i = 0; rent && i < rent->offer_count; i++) {
        const struct plan_offer *o = &rent->offers[i];
        put(s, "offers", number(s, i + 1),
            o->unpriced ? arena_printf(s->arena, "%s %s %s, no price known", o->provider, o->region, o->type)
                        : arena_printf(s->arena, "%s %s %s%s, %.4f USD an hour", o->provider, o->region, o->type,
                                       o->spot ? " (spot)" : "", (double)o->price / 1e6));
    }
}

static struct doc_node *list_of(struct saving *s, const char *const *items, size_t count)
{
    struct doc_node *list = doc_new_array(s->arena);
    for (size_t i = 0; i < count; i++)
        doc_append(s->arena, list, doc_new_string(s->arena, items[i]));
    return list;
}

void saved_plan_put(struct cli *c, const struct plan *plan, const struct plan_decision *decisions,
                    const struct sources *sources, struct buf *ret)
{
    const struct spec *spec = plan->spec;
    struct arena *a = c->arena;
    struct saving s = {a, doc_new_object(a)};
    struct doc_node *root = doc_new_object(a), *asked = doc_new_object(a);
    put(&s, "spec", "hash", spec->hash);
    put(&s, "spec", "job", spec->job_id);
    for (size_t i = 0; i < spec->param_count; i++)
        put(&s, "params", spec->params[i].name, spec->params[i].value);
    for (size_t i = 0; i < spec->arg_count; i++)
        put(&s, "args", number(&s, i + 1), spec->args[i]);
    for (size_t i = 0; i < sources->count; i++)
        put(&s, "trees", sources->items[i].name, sources->items[i].tree->id);
    put_hosts(&s, plan);
    put_steps(&s, plan, decisions);
    put_offers(&s, plan->rent);
    doc_set(a, asked, "spec", text_node(&s, c->words[0]));
    doc_set(a, asked, "path", text_node(&s, spec->real_path));
    doc_set(a, asked, "on", text_node(&s, c->value[OPT_ON]));
    doc_set(a, asked, "set", list_of(&s, c->values[OPT_SET], c->value_count[OPT_SET]));
    doc_set(a, asked, "param", list_of(&s, c->values[OPT_PARAM], c->value_count[OPT_PARAM]));
    doc_set(a, asked, "args", c->has_args ? list_of(&s, c->args, c->arg_count) : doc_new_null(a));
    doc_set(a, asked, "again", doc_new_bool(a, c->given[OPT_AGAIN]));
    doc_set(a, asked, "fresh", doc_new_bool(a, c->given[OPT_FRESH]));
    doc_set(a, asked, "from", text_node(&s, c->value[OPT_FROM]));
    doc_set(a, asked, "offline", doc_new_bool(a, c->given[OPT_OFFLINE]));
    doc_set(a, root, "rhrun_plan", doc_new_int(a, FORMAT));
    doc_set(a, root, "version", doc_new_string(a, RHRUN_VERSION));
    doc_set(a, root, "job", doc_new_string(a, spec->name));
    doc_set(a, root, "made_ms", doc_new_int(a, (int64_t)wall_ms()));
    doc_set(a, root, "made_by", doc_new_string(a, cli_owner_name(a)));
    doc_set(a, root, "plan_hash", doc_new_string(a, plan->hash));
    doc_set(a, root, "asked", asked);
    doc_set(a, root, "is", s.is);
    doc_to_json(root, DOC_JSON_PLAIN, ret);
    buf_putc(ret, '\n');
}

/* ---- reading ---- */

bool saved_plan_is(const char *path)
{
    char head[sizeof begins];
    int fd = file_open(path, NULL, NULL);
    const ssize_t n = fd < 0 ? 0 : read(fd, head, sizeof begins - 1);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)sizeof begins - 1 && memcmp(head, begins, sizeof begins - 1) == 0;
}

static int damaged(const char *path, const char *what, struct error *err)
{
    error_set(err, ERROR_USAGE, "\"%s\" is not a saved plan that can be used: %s", path, what);
    struct buf word = {0};
    buf_shell_quote(&word, path);
    error_hint(err, "make it again: rhrun plan -o %s SPEC", word.data);
    buf_free(&word);
    return -1;
}

static bool are_texts(const struct doc_node *node, enum doc_type type)
{
    if (!node || node->type != type)
        return false;
    for (size_t i = 0; i < node->count; i++)
        if ((type == DOC_ARRAY ? node->items[i] : node->members[i].value)->type != DOC_STRING)
            return false;
    return true;
}

static bool is_whole(const struct doc_node *root)
{
    const struct doc_node *asked = doc_get(root, "asked"), *is = doc_get(root, "is"), *args = doc_get(asked, "args");
    if (!doc_get_string(asked, "spec", NULL) || !doc_get_string(asked, "path", NULL) ||
        !doc_get_string(root, "plan_hash", NULL) || !is || is->type != DOC_OBJECT ||
        !are_texts(doc_get(asked, "set"), DOC_ARRAY) || !are_texts(doc_get(asked, "param"), DOC_ARRAY) ||
        (args && args->type != DOC_NULL && !are_texts(args, DOC_ARRAY)))
        return false;
    for (size_t i = 0; i < is->count; i++)
        if (!are_texts(is->members[i].value, DOC_OBJECT))
            return false;
    return true;
}

static int read_text(const char *name, const char *text, size_t len, struct arena *arena, const struct doc_node **ret,
                     struct error *err)
{
    struct diagnostics d = {0};
    struct doc *doc;
    struct error why = ERROR_INIT;
    int rc = doc_load_text(name, text, len, DOC_FORMAT_JSON, arena, &doc, &d, &why);
    if (rc == 0 && !doc_refuse_nul(doc->root, &d))
        rc = -1;
    diagnostics_free(&d);
    if (rc < 0)
        return damaged(name, "it is cut off, or was changed by hand", err);
    const int64_t format = doc_get_int(doc->root, "rhrun_plan", 0);
    if (format != FORMAT)
        return damaged(name, "it was made by another version of rhrun", err);
    if (!is_whole(doc->root))
        return damaged(name, "something is missing in it", err);
    *ret = doc->root;
    return 0;
}

int saved_plan_read(const char *path, struct arena *arena, const struct doc_node **ret, struct error *err)
{
    struct buf text = {0};
    int rc = file_read(path, DOC_MAX_BYTES, &text, err);
    if (rc == 0)
        rc = read_text(path, arena_strndup(arena, text.data ? text.data : "", text.len), text.len, arena, ret, err);
    buf_free(&text);
    return rc;
}

static void take_list(struct cli *c, enum cli_option_id id, const struct doc_node *list)
{
    free(c->values[id]);
    c->values[id] = xcalloc(list->count + 1, sizeof(char *));
    c->value_count[id] = list->count;
    c->given[id] = list->count > 0;
    for (size_t i = 0; i < list->count; i++)
        c->values[id][i] = list->items[i]->text;
}

void saved_plan_take(struct cli *c, const struct doc_node *saved)
{
    const struct doc_node *asked = doc_get(saved, "asked"), *args = doc_get(asked, "args");
    const char *spec = doc_get_string(asked, "spec", NULL);
    take_list(c, OPT_SET, doc_get(asked, "set"));
    take_list(c, OPT_PARAM, doc_get(asked, "param"));
    c->value[OPT_ON] = doc_get_string(asked, "on", NULL);
    c->given[OPT_ON] = c->value[OPT_ON] != NULL;
    c->value[OPT_FROM] = doc_get_string(asked, "from", NULL);
    c->given[OPT_FROM] = c->value[OPT_FROM] != NULL;
    c->given[OPT_AGAIN] = doc_get_bool(asked, "again", false);
    c->given[OPT_FRESH] = doc_get_bool(asked, "fresh", false);
    c->given[OPT_OFFLINE] = doc_get_bool(asked, "offline", false);
    c->words[0] = access(spec, F_OK) == 0 ? spec : doc_get_string(asked, "path", NULL);
    c->has_args = args && args->type == DOC_ARRAY;
    c->arg_count = c->has_args ? args->count : 0;
    const char **words = arena_array(c->arena, c->arg_count + 1, sizeof *words);
    for (size_t i = 0; i < c->arg_count; i++)
        words[i] = args->items[i]->text;
    c->args = c->has_args ? words : NULL;
}

/* ---- changes ---- */

struct moved {
    struct buf lines;
    size_t count;
};

static void put_line(struct moved *m, const char *fmt, ...) FORMAT(2, 3);
static void put_line(struct moved *m, const char *fmt, ...)
{
    va_list ap;
    if (m->count++ >= MOVED_MAX)
        return;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    str_printable(text);
    buf_printf(&m->lines, "  %s\n", text);
}

static void put_moved(struct moved *m, const char *name, const char *key, const char *was, const char *is)
{
    if (str_eq(name, "spec")) {
        put_line(m, str_eq(key, "job") ? "the spec now belongs to another job" : "the spec changed");
    } else if (str_eq(name, "steps")) {
        put_line(m, !was ? "step %s is new" : !is ? "step %s is gone" : "step %s has other inputs now", key);
    } else if (str_eq(name, "trees")) {
        put_line(m, "the files of %s changed: tree %.12s, was %.12s", key, is ? is : "none", was ? was : "none");
    } else if (str_eq(name, "verdicts")) {
        size_t n = 0;
        while (was && is && was[n] && was[n] == is[n])
            n++;
        if (was && is)
            put_line(m, "step %s on node %zu: %s, was: %s", key, n, word_of(is[n]), word_of(was[n]));
    } else {
        const char *what = str_eq(name, "hosts")    ? "node"
                           : str_eq(name, "offers") ? "offer"
                           : str_eq(name, "args")   ? "argument"
                                                    : "param";
        put_line(m, "%s %s: %.100s, was: %.100s", what, key, is ? is : "none", was ? was : "none");
    }
}

static void compare(struct moved *m, const char *name, const struct doc_node *was, const struct doc_node *is)
{
    for (size_t i = 0; was && i < was->count; i++) {
        const char *key = was->members[i].key, *old = was->members[i].value->text;
        const char *now = doc_get_string(is, key, NULL);
        if (!str_eq(old, now))
            put_moved(m, name, key, old, now);
    }
    for (size_t i = 0; is && i < is->count; i++)
        if (!doc_get(was, is->members[i].key))
            put_moved(m, name, is->members[i].key, NULL, is->members[i].value->text);
}

int saved_plan_compare(const struct doc_node *saved, const struct buf *now, struct arena *arena, const char **ret_lines,
                       struct error *err)
{
    const struct doc_node *other;
    struct moved m = {0};
    if (read_text("the current plan", now->data, now->len, arena, &other, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(sections); i++)
        compare(&m, sections[i], doc_get(doc_get(saved, "is"), sections[i]),
                doc_get(doc_get(other, "is"), sections[i]));
    if (m.count == 0 && !str_eq(doc_get_string(saved, "plan_hash", NULL), doc_get_string(other, "plan_hash", NULL)))
        put_line(&m, "the order of steps, or where they run, changed");
    if (m.count > MOVED_MAX)
        buf_printf(&m.lines, "  and %zu more\n", m.count - MOVED_MAX);
    *ret_lines = arena_strdup(arena, m.lines.data);
    buf_free(&m.lines);
    return m.count ? 1 : 0;
}
