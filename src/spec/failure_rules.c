/* `failure_rules` and `metrics`. Patterns are compiled here only to check them; the code that matches lines compiles
 * them again. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { BACKOFF_BASE_MS = 1000, BACKOFF_MAX_MS = 300000, TEXT_MAX_BYTES = 120 };

const char *const spec_actions[] = {"fail", "restart", "ignore", "replace_node", NULL};

static const struct {
    const char *name;
    int number;
} signals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},      {"QUIT", SIGQUIT}, {"ILL", SIGILL},   {"TRAP", SIGTRAP},
               {"ABRT", SIGABRT}, {"BUS", SIGBUS},      {"FPE", SIGFPE},   {"KILL", SIGKILL}, {"USR1", SIGUSR1},
               {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},    {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM},
               {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},    {"SYS", SIGSYS},   {"PROF", SIGPROF}, {"IO", SIGIO},
               {"POLL", SIGPOLL}, {"VTALRM", SIGVTALRM}};

/* ---- patterns ---- */

/* The place of one character of a text, if the document has the text literally; else of the whole text. */
static struct place place_of_byte(const struct spec_text *text, size_t at)
{
    struct place place = text->place;
    const char *p = place.source && place.line ? source_byte(place.source, place.line, place.column) : NULL;
    size_t left = p ? place.source->len - (size_t)(p - place.source->text) : 0, len = strlen(text->text);
    if (p && (*p == '"' || *p == '\'')) {
        p++;
        left--;
        place.column++;
    }
    if (!p || left < len || memcmp(p, text->text, len) != 0)
        return text->place;
    place_advance(&place, p, p + (at < len || at == 0 ? at : at - 1)); /* a fault at the end: its last character */
    place.end_line = place.line;
    place.end_column = place.column + 1;
    return place;
}

/* False after a fault. */
static bool check_pattern(struct load *l, const struct spec_text *pattern, bool value)
{
    struct regex_fault f;
    struct regex *re = regex_create(pattern->text, strlen(pattern->text), &f);
    if (!re) {
        fault(l, place_of_byte(pattern, f.at), "this pattern cannot be read at byte %zu: %s", f.at, f.text);
        return false;
    }
    bool has_value = regex_group(re, "value") > 0;
    regex_destroy(re);
    if (value && !has_value)
        diagnostic_expected(fault(l, pattern->place, "the pattern has no group that is the value"),
                            "(?<value>...) around the number");
    return !value || has_value;
}

static uint32_t bind_role(struct load *l, const struct doc_node *node)
{
    const struct spec *spec = l->spec;
    if (!is_scalar(node) || (spec->role_count == 0 && str_eq(node->text, "default")))
        return SPEC_NO_ROLE;
    uint32_t role = role_find(spec, node->text);
    if (role != SPEC_NO_ROLE)
        return role;
    const char **names = arena_array(l->arena, spec->role_count + 2, sizeof *names);
    for (size_t i = 0; i < spec->role_count; i++)
        names[i] = spec->roles[i].name;
    if (spec->role_count == 0)
        names[0] = "default";
    const char *near = str_nearest(node->text, names);
    struct diagnostic *d = fault(l, place_of(node), "there is no role \"%s\"", node->text);
    if (near)
        diagnostic_hint(d, "did you mean %s?", near);
    else if (spec->role_count == 0)
        diagnostic_hint(d, "without roles all workers are of the role default");
    return SPEC_NO_ROLE;
}

/* ---- match ---- */

static uint32_t signal_of(struct load *l, const struct doc_node *node)
{
    int64_t n;
    if (doc_is_integer(node, &n))
        return n >= 1 && n <= 64 ? (uint32_t)n : 0;
    const char *name = str_starts(node->text, "SIG") ? node->text + 3 : node->text;
    const char *names[ARRAY_LEN(signals) + 1] = {NULL};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        if (strcmp(signals[i].name, name) == 0)
            return (uint32_t)signals[i].number;
        names[i] = signals[i].name;
    }
    const char *near = str_nearest(name, names);
    struct diagnostic *d = fault(l, place_of(node), "there is no signal \"%s\"", node->text);
    if (near)
        diagnostic_hint(d, "did you mean SIG%s?", near);
    return 0;
}

static uint32_t status_of(struct load *l, const struct doc_node *node)
{
    int64_t n;
    (void)l;
    return doc_is_integer(node, &n) && n >= 1 && n <= 255 ? (uint32_t)n : 0;
}

/* One number or a list of them; wrong types were reported already. */
static void bind_numbers(struct load *l, const struct doc_node *node,
                         uint32_t (*number_of)(struct load *l, const struct doc_node *node), uint32_t **ret,
                         size_t *ret_count)
{
    size_t count = is_array(node) ? node->count : is_scalar(node) ? 1 : 0;
    *ret = arena_array(l->arena, count + 1, sizeof **ret);
    for (size_t i = 0; i < count; i++) {
        const struct doc_node *item = is_array(node) ? node->items[i] : node;
        uint32_t n = is_scalar(item) ? number_of(l, item) : 0;
        if (n)
            (*ret)[(*ret_count)++] = n;
    }
}

static void bind_match(struct load *l, const struct doc_node *node, struct spec_rule *r)
{
    const char *event = doc_get_string(node, "event", NULL), *stream = doc_get_string(node, "stream", "any");
    const struct doc_member *of_event = is_object(node) ? doc_get_member(node, "event", 5) : NULL;
    const struct doc_member *of_stream = is_object(node) ? doc_get_member(node, "stream", 6) : NULL;
    r->role = bind_role(l, doc_get(node, "role"));
    bind_numbers(l, doc_get(node, "exit_status"), status_of, &r->statuses, &r->status_count);
    bind_numbers(l, doc_get(node, "signal"), signal_of, &r->signals, &r->signal_count);
    r->pattern = text_of(doc_get(node, "pattern"));
    r->streams = str_eq(stream, "stdout")   ? RULE_STDOUT
                 : str_eq(stream, "stderr") ? RULE_STDERR
                                            : RULE_STDOUT | RULE_STDERR;
    if (r->pattern.text)
        check_pattern(l, &r->pattern, false);
    else if (of_stream)
        diagnostic_hint(fault(l, of_stream->key_place, "stream needs a pattern, and this match has none"),
                        "give a pattern too");
    if (event)
        r->subject = str_eq(event, "preempted") ? RULE_PREEMPTED : RULE_NODE_LOST;
    if (of_event &&
        (r->pattern.text || doc_get(node, "exit_status") || doc_get(node, "signal") || doc_get(node, "role")))
        diagnostic_hint(
            fault(l, of_event->key_place, "event matches a node, and the other keys of this match a worker"),
            "write two rules");
}

/* ---- what it does ---- */

static void bind_backoff(struct load *l, const struct doc_node *item, struct spec_rule *r)
{
    const struct doc_node *node = doc_get(item, "backoff"), *factor = doc_get(node, "factor");
    r->backoff_factor = 1;
    if (is_object(node)) {
        r->backoff_ms = BACKOFF_BASE_MS;
        r->backoff_max_ms = BACKOFF_MAX_MS;
        r->backoff_factor = 2;
        duration_of(l, node, "base", &r->backoff_ms);
        duration_of(l, node, "max", &r->backoff_max_ms);
        if (factor && factor->number >= 1 && factor->number <= 100)
            r->backoff_factor = factor->number;
        if (r->backoff_max_ms < r->backoff_ms)
            fault(l, place_of(node), "the longest pause is shorter than the first");
    } else if (node) {
        duration_of(l, item, "backoff", &r->backoff_ms);
        r->backoff_max_ms = r->backoff_ms;
    }
}

static void check_replace(struct load *l, const struct doc_node *item, const struct spec_rule *r)
{
    const struct doc_node *action = doc_get(item, "action");
    if (r->subject == RULE_WORKER)
        diagnostic_hint(fault(l, place_of(action), "replace_node replaces a node, and this rule matches a worker"),
                        "match: {event: node_lost}, or {event: preempted}");
    if (l->spec->rent && !l->spec->rent->cluster)
        return;
    diagnostic_hint(fault(l, place_of(action), "replace_node needs rented machines"),
                    "restart waits until the node is back");
    const struct doc_member *cluster = doc_get_member(l->root, "cluster", 7);
    if (cluster)
        diagnostic_hint(fault(l, cluster->key_place, "no machine of this cluster can be replaced"),
                        "instance, or provider, says which machines to rent");
}

static void check_rule(struct load *l, const struct doc_node *item, const struct spec_rule *r)
{
    const struct doc_node *action = doc_get(item, "action");
    const struct doc_member *times = doc_get_member(item, "times", 5), *backoff = doc_get_member(item, "backoff", 7);
    const struct spec_distributed *d = &l->spec->distributed;
    if (!is_scalar(action) || strcmp(action->text, spec_actions[r->action]) != 0)
        return;
    if (r->action == RULE_IGNORE && r->subject != RULE_WORKER)
        diagnostic_hint(fault(l, place_of(action),
                              "a node that is gone cannot be ignored: nobody knows what became of its workers"),
                        "restart waits until it is back, and starts all workers again");
    bool of_end = !r->pattern.text || r->status_count > 0 || r->signal_count > 0;
    if (r->action == RULE_IGNORE && r->subject == RULE_WORKER && of_end && d->present && d->min_nodes != d->nnodes)
        diagnostic_hint(fault(l, place_of(action),
                              "with nnodes MIN:MAX there is no end to ignore: a launcher that ends is a "
                              "node that leaves"),
                        "leave the rule out: the others go on as long as there are %u", d->min_nodes);
    if (r->action == RULE_FAIL && times)
        diagnostic_hint(fault(l, times->key_place, "times has no meaning here: the rule ends the job"),
                        "leave times out");
    if (r->action == RULE_REPLACE)
        check_replace(l, item, r);
    if (!spec_starts_again(r->action) && backoff)
        diagnostic_hint(
            fault(l, backoff->key_place, "backoff is the pause before a restart, and this rule does not restart"),
            "leave backoff out");
    if (spec_starts_again(r->action) && !times && spec_restarts(d) == 0)
        diagnostic_hint(fault(l, place_of(action), "this rule can never restart: %s",
                              d->present && d->max_restarts > 0
                                  ? "max_restarts are the launcher's own"
                                  : "without times it takes from max_restarts, which is 0"),
                        "times: N gives the rule restarts of its own");
}

static void put_numbers(struct buf *b, const char *key, const uint32_t *items, size_t count)
{
    if (count > 0)
        buf_printf(b, "%s%s ", b->len ? ", " : "", key);
    for (size_t i = 0; i < count && b->len < TEXT_MAX_BYTES; i++)
        buf_printf(b, "%s%u", i ? " or " : "", items[i]);
}

/* "rule 2 (exit_status 3, pattern \"NCCL\")" */
static const char *text_of_rule(struct load *l, size_t number, const struct spec_rule *r)
{
    static const char *const events[] = {NULL, "node_lost", "preempted"};
    struct buf b = {0};
    if (r->subject != RULE_WORKER)
        buf_puts(&b, events[r->subject]);
    if (r->role != SPEC_NO_ROLE)
        buf_printf(&b, "role %s", l->spec->roles[r->role].name);
    put_numbers(&b, "exit_status", r->statuses, r->status_count);
    put_numbers(&b, "signal", r->signals, r->signal_count);
    if (r->pattern.text) {
        size_t len = strlen(r->pattern.text), cut = len;
        if (len > TEXT_MAX_BYTES)
            for (cut = TEXT_MAX_BYTES; cut > 0 && ((unsigned char)r->pattern.text[cut] & 0xc0) == 0x80;)
                cut--;
        buf_printf(&b, "%spattern \"%.*s%s\"", b.len ? ", " : "", (int)cut, r->pattern.text, cut < len ? "..." : "");
    }
    const char *text =
        b.len ? arena_printf(l->arena, "rule %zu (%s)", number, b.data) : arena_printf(l->arena, "rule %zu", number);
    buf_free(&b);
    return text;
}

/* From what the rule matches and does; a second equal rule gets "...-2". */
static const char *id_of_rule(struct load *l, const struct doc_node *item)
{
    struct buf json = {0};
    char hex[65];
    struct doc_node *both = doc_new_array(l->arena);
    const struct doc_node *match = doc_get(item, "match"), *action = doc_get(item, "action");
    doc_append(l->arena, both, match ? doc_clone(l->arena, match) : doc_new_object(l->arena));
    doc_append(l->arena, both, action ? doc_clone(l->arena, action) : doc_new_null(l->arena));
    doc_to_json(both, DOC_JSON_CANONICAL, &json);
    digest_sha256_hex(json.data, json.len, hex);
    buf_free(&json);
    size_t alike = 1;
    for (size_t i = 0; i < l->spec->rule_count; i++)
        alike += strncmp(l->spec->rules[i].id, hex, 12) == 0;
    return alike > 1 ? arena_printf(l->arena, "%.12s-%zu", hex, alike) : arena_strndup(l->arena, hex, 12);
}

static void bind_rule(struct load *l, const struct doc_node *item)
{
    struct spec_rule r = {.place = place_of(item), .role = SPEC_NO_ROLE, .backoff_factor = 1};
    const char *action = doc_get_string(item, "action", "");
    int64_t times = doc_get_int(item, "times", 0);
    for (size_t i = 0; spec_actions[i]; i++)
        if (strcmp(action, spec_actions[i]) == 0)
            r.action = (enum spec_action)i;
    bind_match(l, doc_get(item, "match"), &r);
    bind_backoff(l, item, &r);
    if (times > 0 && times <= UINT32_MAX) {
        r.has_times = true;
        r.times = (uint32_t)times;
    }
    check_rule(l, item, &r);
    r.text = text_of_rule(l, l->spec->rule_count + 1, &r);
    r.id = id_of_rule(l, item);
    l->spec->rules[l->spec->rule_count++] = r;
}

/* ---- metrics ---- */

static void bind_metric(struct load *l, const struct doc_node *item)
{
    struct spec_metric *m = &l->spec->metrics[l->spec->metric_count];
    const struct doc_node *name = doc_get(item, "name"), *pattern = doc_get(item, "pattern"),
                          *role = doc_get(item, "role");
    int64_t rank = doc_get_int(item, "rank", -1);
    *m = (struct spec_metric){.name = is_scalar(name) ? name->text : "", .pattern = text_of(pattern)};
    m->role = bind_role(l, role);
    m->role_name = is_scalar(role) ? role->text : NULL;
    m->has_rank = rank >= 0 && rank < UINT32_MAX;
    m->rank = m->has_rank ? (uint32_t)rank : 0;
    for (size_t i = 0; i < l->spec->metric_count; i++)
        if (strcmp(l->spec->metrics[i].name, m->name) == 0 && *m->name)
            fault(l, place_of(name), "there are two metrics \"%s\"", m->name);
    if (*m->name && m->pattern.text && check_pattern(l, &m->pattern, true))
        l->spec->metric_count++;
}

static void bind_metrics(struct load *l)
{
    const struct doc_node *metrics = doc_get(l->root, "metrics");
    if (!is_array(metrics))
        return;
    l->spec->metrics = arena_array(l->arena, metrics->count + 1, sizeof *l->spec->metrics);
    for (size_t i = 0; i < metrics->count && i < SPEC_RULES_MAX; i++)
        if (is_object(metrics->items[i]))
            bind_metric(l, metrics->items[i]);
}

int spec_metrics_of(const char *text, const char *const *sets, size_t set_count, struct arena *arena,
                    const struct spec_metric **ret, size_t *ret_count, struct error *err)
{
    const struct spec_overrides over = {.sets = sets, .set_count = set_count};
    struct diagnostics d = {0};
    struct spec *spec = arena_alloc(arena, sizeof *spec);
    struct load l = {.arena = arena, .spec = spec, .over = &over, .diagnostics = &d};
    struct doc *doc;
    spec->dir = "";
    int rc = doc_load_text("spec", text, strlen(text), DOC_FORMAT_YAML, arena, &doc, &d, err);
    if (rc == 0) {
        l.root = doc_clone(arena, doc->root);
        overrides_apply(&l);
        bind_metrics(&l);
        *ret = spec->metrics;
        *ret_count = spec->metric_count;
    }
    diagnostics_free(&d);
    return rc;
}

void failure_rules_bind(struct load *l)
{
    const struct doc_node *rules = doc_get(l->root, "failure_rules");
    struct spec *spec = l->spec;
    if (is_array(rules))
        spec->rules = arena_array(l->arena, rules->count + 1, sizeof *spec->rules);
    for (size_t i = 0; is_array(rules) && i < rules->count && i < SPEC_RULES_MAX; i++)
        if (is_object(rules->items[i]))
            bind_rule(l, rules->items[i]);
    bind_metrics(l);
}
