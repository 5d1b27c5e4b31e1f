/* Compares recorded inputs with the plan's: the names of those that changed. */
#include "internal.h"

#include <jansson.h>
#include <string.h>

enum { NAMES_SHOWN = 3 }; /* a reason names this many inputs, then counts */

const char *plan_inputs_json(const struct plan_step *step, struct arena *arena)
{
    struct buf b = {0};
    buf_putc(&b, '{');
    for (size_t i = 0; i < step->input_count; i++) {
        const struct plan_input *in = &step->inputs[i];
        if (i)
            buf_putc(&b, ',');
        buf_json_string(&b, in->name, strlen(in->name));
        buf_putc(&b, ':');
        buf_json_string(&b, in->value, strlen(in->value));
    }
    buf_putc(&b, '}');
    const char *text = arena_strndup(arena, b.data, b.len);
    buf_free(&b);
    return text;
}

/* ---- the difference ---- */

struct change {
    const char *name;
    enum { CHANGED, ADDED, REMOVED } how;
};
struct changes {
    struct change *items;
    size_t count;
};

static bool is_edge(const char *name)
{
    return str_starts(name, "after ");
}

/* Whether the edge is recorded, under any name: renaming a step changes nothing. */
static bool edge_recorded(const json_t *old, const char *key)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)old, name, value)
    {
        if (is_edge(name) && str_eq(json_string_value(value), key))
            return true;
    }
    return false;
}

static bool edge_present(const struct plan_step *step, const char *key)
{
    for (size_t i = 0; i < step->input_count; i++)
        if (is_edge(step->inputs[i].name) && str_eq(step->inputs[i].value, key))
            return true;
    return false;
}

static const struct plan_input *find_input(const struct plan_step *step, const char *name, size_t guess)
{
    if (guess < step->input_count && str_eq(step->inputs[guess].name, name)) /* the order seldom differs */
        return &step->inputs[guess];
    for (size_t i = 0; i < step->input_count; i++)
        if (str_eq(step->inputs[i].name, name))
            return &step->inputs[i];
    return NULL;
}

static struct changes compare(const struct plan_step *step, const json_t *old, struct arena *arena)
{
    struct changes c = {arena_array(arena, step->input_count + json_object_size(old) + 1, sizeof *c.items), 0};
    for (size_t i = 0; i < step->input_count; i++) {
        const struct plan_input *in = &step->inputs[i];
        const json_t *was = json_object_get(old, in->name);
        if (is_edge(in->name) ? !edge_recorded(old, in->value) : !str_eq(json_string_value(was), in->value))
            c.items[c.count++] = (struct change){in->name, was ? CHANGED : ADDED};
    }
    const char *name;
    json_t *value;
    size_t at = 0;
    json_object_foreach((json_t *)old, name, value)
    {
        bool gone = !find_input(step, name, at++);
        if (gone && !(is_edge(name) && edge_present(step, json_string_value(value))))
            c.items[c.count++] = (struct change){arena_strdup(arena, name), REMOVED};
    }
    return c;
}

static struct changes changes_of(const struct plan_step *step, const char *recorded_json, struct arena *arena)
{
    struct changes none = {NULL, 0};
    json_error_t ignored;
    json_t *old = recorded_json ? json_loads(recorded_json, 0, &ignored) : NULL;
    struct changes c = json_is_object(old) ? compare(step, old, arena) : none;
    json_decref(old);
    return c;
}

const char *plan_changed_inputs(const struct plan_step *step, const char *recorded_json, struct arena *arena)
{
    struct changes c = changes_of(step, recorded_json, arena);
    if (!c.count)
        return NULL;
    struct buf text = {0};
    for (size_t i = 0; i < c.count; i++)
        buf_printf(&text, "%s%s", i ? ", " : "", c.items[i].name);
    const char *ret = arena_strdup(arena, text.data);
    buf_free(&text);
    return ret;
}

/* ---- as a reason ---- */

static const char *how_text(const struct changes *c)
{
    static const char *const texts[] = {"changed", "is new", "is gone"};
    return c->count == 1 ? texts[c->items[0].how] : "changed";
}

const char *plan_change_reason(const struct plan_step *step, const char *recorded_json, const char **ret_after,
                               struct arena *arena)
{
    struct changes c = changes_of(step, recorded_json, arena), own = {c.items, 0};
    *ret_after = NULL;
    for (size_t i = 0; i < c.count; i++) { /* own changes say more than edges */
        if (!is_edge(c.items[i].name))
            own.items[own.count++] = c.items[i];
        else if (!*ret_after && c.items[i].how != REMOVED)
            *ret_after = c.items[i].name + strlen("after ");
    }
    if (!own.count)
        return c.count ? "the steps before it changed" : "its inputs changed";
    *ret_after = NULL;
    struct buf text = {0};
    for (size_t i = 0; i < own.count && i < NAMES_SHOWN; i++) {
        const char *quote = strchr(own.items[i].name, ' ') ? "" : "`";
        const char *glue = i == 0 ? "" : i + 1 == own.count ? " and " : ", ";
        buf_printf(&text, "%s%s%s%s", glue, quote, own.items[i].name, quote);
    }
    if (own.count > NAMES_SHOWN)
        buf_printf(&text, " and %zu more", own.count - NAMES_SHOWN);
    buf_printf(&text, " %s", how_text(&own));
    const char *ret = arena_strdup(arena, text.data);
    buf_free(&text);
    return ret;
}
