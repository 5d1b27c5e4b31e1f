/*
 * Binding `distributed`: the counts first, since hosts and expressions depend on them; the launcher's flags once params
 * and hosts are known. Rules across these keys are in distributed_rules.c.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

const char *const spec_launchers[] = {
    [LAUNCHER_NATIVE] = "native",       [LAUNCHER_TORCHRUN] = "torchrun", [LAUNCHER_ACCELERATE] = "accelerate",
    [LAUNCHER_DEEPSPEED] = "deepspeed", [LAUNCHER_MPIRUN] = "mpirun",     NULL,
};

bool spec_has_ranks(const struct spec_distributed *d)
{
    return d->present && d->launcher == LAUNCHER_NATIVE;
}

const struct spec_text *spec_flag_value(const struct spec_distributed *d, const char *name)
{
    for (size_t i = 0; i < d->flag_count; i++)
        if (strcmp(d->flags[i].flag->name, name) == 0)
            return &d->flags[i].value;
    return NULL;
}

/* After a restart, torch's workers meet at the store of the rendezvous. A static rendezvous keeps the same store, with
 * the addresses of workers that are gone: the new workers hang, or fail until no restart is left. So rhrun itself
 * restarts the launch instead. */
uint32_t spec_restarts(const struct spec_distributed *d)
{
    const struct spec_text *backend = spec_flag_value(d, "rdzv_backend");
    bool torch = (backend && strcmp(backend->text, "static") != 0) || spec_flag_value(d, "standalone");
    return d->present && !torch ? d->max_restarts : 0;
}

const struct spec_nproc *spec_nproc(const struct spec *spec, uint32_t node)
{
    const struct spec_node *own = &spec->nodes[node];
    return own->has_nproc ? &own->nproc : &spec->distributed.nproc;
}

const struct spec_devices *spec_devices(const struct spec *spec, uint32_t node)
{
    const struct spec_devices *own = &spec->nodes[node].devices;
    return own->list ? own : &spec->distributed.devices;
}

bool spec_rank0_anywhere(const struct spec_distributed *d)
{
    const struct spec_text *backend = spec_flag_value(d, "rdzv_backend");
    bool torch = d->launcher == LAUNCHER_TORCHRUN || d->launcher == LAUNCHER_ACCELERATE;
    return d->present && torch && d->nnodes > 1 && backend && strcmp(backend->text, "static") != 0;
}

struct spec_devices devices_of(struct load *l, const struct doc_node *node)
{
    struct spec_devices ret = {0};
    struct buf list = {0};
    for (size_t i = 0; is_array(node) && i < node->count; i++) {
        const struct doc_node *item = node->items[i];
        int64_t n;
        if (doc_is_integer(item, &n) && n >= 0 && n < SPEC_DEVICES_MAX) {
            buf_printf(&list, "%s%d", list.len ? "," : "", (int)n);
            ret.highest = (uint32_t)n >= ret.highest ? (uint32_t)n + 1 : ret.highest;
            ret.count++;
        } else if (item->type == DOC_STRING) {
            buf_printf(&list, "%s%s", list.len ? "," : "", item->text);
            ret.count++;
        }
    }
    ret.list = ret.count ? arena_strdup(l->arena, list.data) : NULL;
    buf_free(&list);
    return ret;
}

static uint32_t bounded(const struct doc_node *object, const char *key, int64_t otherwise, int64_t max)
{
    int64_t n = doc_get_int(object, key, otherwise);
    return n < 0 || n > max ? (uint32_t)otherwise : (uint32_t)n;
}

/* N or "MIN:MAX". The schema has reported any other form. */
static void bind_nnodes(struct load *l, const struct doc_node *node, struct spec_distributed *d)
{
    int64_t n;
    unsigned long min = 0, max = 0;
    char *end = NULL;
    if (!is_scalar(node))
        return;
    if (doc_is_integer(node, &n)) {
        min = max = n >= 1 && n <= SPEC_HOSTS_MAX ? (unsigned long)n : 0;
    } else if (node->type == DOC_STRING) {
        min = strtoul(node->text, &end, 10);
        if (*end != ':')
            return;
        max = strtoul(end + 1, &end, 10);
        if (*end || min < 1 || max < 1 || min > SPEC_HOSTS_MAX || max > SPEC_HOSTS_MAX)
            return;
        if (min > max) {
            diagnostic_expected(
                fault(l, place_of(node), "nnodes is %s: the first number is the larger one", node->text), "MIN:MAX");
            return;
        }
    }
    if (max == 0)
        return;
    d->min_nodes = (uint32_t)min;
    d->nnodes = (uint32_t)max;
    l->nnodes = node;
}

void distributed_bind(struct load *l)
{
    const struct doc_node *node = doc_get(l->root, "distributed");
    struct spec_distributed *d = &l->spec->distributed;
    d->nproc = (struct spec_nproc){.kind = NPROC_COUNT, .count = 1};
    if (!is_object(node))
        return;
    d->present = true;
    d->place = place_of(node);
    bind_nnodes(l, doc_get(node, "nnodes"), d);
    d->has_nproc = nproc_of(doc_get(node, "nproc_per_node"), &d->nproc);
    const char *launcher = doc_get_string(node, "launcher", "native");
    for (size_t i = 0; spec_launchers[i]; i++)
        if (strcmp(launcher, spec_launchers[i]) == 0)
            d->launcher = (enum spec_launcher)i;
    d->max_restarts = bounded(node, "max_restarts", 0, 1000);
    d->master_port = bounded(node, "master_port", 0, UINT16_MAX);
    d->devices = devices_of(l, doc_get(node, "devices"));
    d->cpu_blocks = str_eq(doc_get_string(node, "cpu_affinity", "none"), "block");
    preflight_bind(l, node, &d->preflight);
}

/* ---- flags ---- */

static bool is_bound_above(const char *name)
{
    return str_eq(name, "nnodes") || str_eq(name, "nproc_per_node") || str_eq(name, "max_restarts") ||
           str_eq(name, "master_port");
}

static struct spec_text made(struct load *l, const struct doc_node *node, struct buf *text)
{
    struct spec_text ret = {.text = arena_strdup(l->arena, text->data ? text->data : ""), .place = place_of(node)};
    buf_free(text);
    return ret;
}

/* "a,b"; doubled: a comma within an item is written twice. */
static struct spec_text joined(struct load *l, const struct doc_node *node, bool doubled)
{
    struct spec_texts items = texts_now(l, node, false);
    struct buf text = {0};
    for (size_t i = 0; i < items.count; i++) {
        if (i > 0)
            buf_putc(&text, ',');
        for (const char *p = items.items[i].text; *p; p++)
            buf_puts(&text, *p == ',' && doubled ? ",," : (char[]){*p, 0});
    }
    return made(l, node, &text);
}

/* "key=value,...": torch splits it at commas and has no way to write one. */
static struct spec_text mapped(struct load *l, const struct doc_node *node)
{
    struct buf text = {0};
    for (size_t i = 0; i < node->count; i++) {
        const struct doc_member *m = &node->members[i];
        struct spec_text value = text_now(l, m->value);
        if (!value.text)
            continue;
        if (strchr(value.text, ',') || !*value.text || !*m->key || strpbrk(m->key, ",= "))
            fault(l, place_of(m->value),
                  *value.text ? "a value of %s cannot have a comma: torchrun ends the value there" : "%s needs a value",
                  m->key);
        buf_printf(&text, "%s%s=%s", i ? "," : "", m->key, value.text);
    }
    return made(l, node, &text);
}

/* False: nothing to say. */
static bool flag_value(struct load *l, const struct torchrun_flag *flag, const struct doc_node *node,
                       struct spec_text *ret)
{
    switch (flag->type) {
    case TORCHRUN_BOOLEAN:
        *ret = (struct spec_text){.text = "", .place = place_of(node)};
        return node->type == DOC_BOOL && node->boolean;
    case TORCHRUN_RANKS:
    case TORCHRUN_SIGNALS:
    case TORCHRUN_LIST:
        if (is_array(node))
            *ret = joined(l, node, flag->type == TORCHRUN_LIST);
        return is_array(node);
    case TORCHRUN_MAP:
        if (is_object(node))
            *ret = mapped(l, node);
        return is_object(node) && node->count > 0;
    case TORCHRUN_INTEGER:
    case TORCHRUN_NUMBER:
    case TORCHRUN_CHOICE:
    case TORCHRUN_STD:
    case TORCHRUN_STRING:
        break;
    }
    *ret = checked(l, node, &on_node_at_point, false);
    return ret->text != NULL;
}

void distributed_bind_flags(struct load *l)
{
    const struct doc_node *node = doc_get(l->root, "distributed");
    struct spec_distributed *d = &l->spec->distributed;
    size_t count = 0;
    if (d->min_nodes == 0)
        d->min_nodes = d->nnodes;
    if (!is_object(node))
        return;
    while (torchrun_flags[count].name)
        count++;
    d->flags = arena_array(l->arena, count, sizeof *d->flags);
    for (size_t i = 0; i < count; i++) {
        const struct torchrun_flag *flag = &torchrun_flags[i];
        const struct doc_node *given = is_bound_above(flag->name) ? NULL : doc_get(node, flag->name);
        struct spec_text value;
        if (given && flag_value(l, flag, given, &value))
            d->flags[d->flag_count++] = (struct spec_flag){flag, value};
    }
    const struct doc_node *words = doc_get(node, "launcher_args");
    size_t cap = 0;
    for (size_t i = 0; is_array(words) && i < words->count; i++)
        if (is_scalar(words->items[i]))
            texts_add(l, &d->launcher_args, &cap, checked(l, words->items[i], &on_node_at_point, false));
    distributed_check(l);
}
