/* Shared by pip and requirements: their arguments as inputs, and the RUN of install.py with the Python that they
 * install into. */
#include "internal.h"

#include <string.h>

enum { ITEM_JSON_MAX = 120 << 10 }; /* Linux limits a variable to 128 KiB */

/* ---- planning ---- */

static int input_list(struct plan_builder *b, struct plan_step *s, const char *name, const struct spec_texts *texts,
                      struct error *err)
{
    return texts->count ? step_input_texts(b, s, name, texts, err) : 0;
}

int step_install_inputs(struct plan_builder *b, struct plan_step *s, const struct spec *spec,
                        const struct spec_step *item, struct error *err)
{
    if (item->index_url.text && plan_input_text(b, s, "index_url", &item->index_url, EXPR_PLAIN, err) < 0)
        return -1;
    if (input_list(b, s, "extra_index_url", &item->extra_index_url, err) < 0 ||
        input_list(b, s, "find_links", &item->find_links, err) < 0 ||
        input_list(b, s, "options", &item->options, err) < 0)
        return -1;
    if (item->upgrade)
        plan_input(b, s, "upgrade", "true");
    if (item->editable)
        plan_input(b, s, "editable", "true");
    if (step_python_kind(spec, item->role) == PYTHON_PLAIN &&
        plan_input_text(b, s, "interpreter", step_interpreter(spec, item->role), EXPR_PLAIN, err) < 0)
        return -1;
    step_input_after_env(b, s);
    return 0;
}

static bool is_file_name(const char *name)
{
    return *name && *name != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(name);
}

/* The marker of an item: in the venv, so that both disappear together; without a venv in the base folder. */
static const char *marker_of(const struct spec *spec, const char *venv, const char *step, struct arena *arena)
{
    char hex[65];
    digest_sha256_hex(step, strlen(step), hex);
    const char *name = is_file_name(step) ? step : arena_strndup(arena, hex, 16);
    if (venv)
        return arena_printf(arena, "%s/.rhrun/%s.json", venv, name);
    return arena_printf(arena, "@base/pip/%s/%s.json", spec->job_id ? spec->job_id : spec->name, name);
}

static bool installs_on(const struct plan *plan, const struct spec_role *role, uint32_t node)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *s = &plan->steps[i];
        if (s->kind->uses_python && s->role == role && s->on[node])
            return true;
    }
    return false;
}

const char *step_installed_path(const struct plan *plan, const struct step_bind *bind, struct arena *arena)
{
    const char *dir, *marker;
    struct error ignored = ERROR_INIT;
    if (!bind->nodes || !bind->nodes[bind->node].facts || !installs_on(plan, bind->role, bind->node) ||
        step_python_dir(plan, bind, arena, &dir, &ignored) < 0 ||
        step_absolute(bind, marker_of(plan->spec, dir, "x", arena), arena, &marker, &ignored) < 0)
        return NULL;
    return arena_printf(arena, "%.*s/installed", (int)(strrchr(marker, '/') - marker), marker);
}

struct plan_step *step_install_add(struct plan_builder *b, const struct spec *spec, const struct step_kind *kind,
                                   const struct spec_step *item, const char *title, const char *command)
{
    const struct plan_step *before = step_python_planned(b, item->role);
    const struct step_python *python = before ? before->item : NULL;
    struct plan_step *s = plan_add(b, kind, item->name, title);
    s->item = item;
    s->command = command;
    step_item_common(b, s, item);
    s->scope = python && python->dir ? before->scope : "";
    s->shared = python && python->dir && before->shared;
    s->one_place = s->shared && before->one_place;
    const char *marker = marker_of(spec, python ? python->dir : NULL, s->name, plan_arena(b));
    s->creates = strstr(marker, "${{") ? NULL : marker;
    return s;
}

/* ---- building ---- */

struct json { /* the item, as install.py reads it */
    const struct plan *plan;
    const struct step_bind *bind;
    struct arena *arena;
    struct buf text;
};

static void put_value(struct json *j, const char *value)
{
    buf_json_string(&j->text, value, strlen(value));
}

static void put_name(struct json *j, const char *name)
{
    buf_puts(&j->text, j->text.len > 1 ? "," : "");
    put_value(j, name);
    buf_putc(&j->text, ':');
}

static int put_text(struct json *j, const char *name, const struct spec_text *text, struct error *err)
{
    const char *value;
    if (!text->text || !*text->text)
        return 0;
    if (step_expand_node(j->plan, j->bind, text, EXPR_PLAIN, j->arena, &value, err) < 0)
        return -1;
    put_name(j, name);
    put_value(j, value);
    return 0;
}

static int put_texts(struct json *j, const char *name, const struct spec_texts *texts, struct error *err)
{
    if (!texts->count)
        return 0;
    put_name(j, name);
    for (size_t i = 0; i < texts->count; i++) {
        const char *value;
        if (step_expand_node(j->plan, j->bind, &texts->items[i], EXPR_PLAIN, j->arena, &value, err) < 0)
            return -1;
        buf_putc(&j->text, i ? ',' : '[');
        put_value(j, value);
    }
    buf_putc(&j->text, ']');
    return 0;
}

/* What to install, the path of its marker, and the key. */
static int put_what(struct json *j, const struct plan_step *step, const char *marker, struct error *err)
{
    const struct spec_step *item = step->item;
    put_name(j, "key");
    put_value(j, step->key);
    put_name(j, "marker");
    put_value(j, marker);
    if (item->editable)
        buf_puts(&j->text, ",\"editable\":true");
    return put_texts(j, "packages", &item->packages, err) < 0 || put_text(j, "file", &item->file, err) < 0 ? -1 : 0;
}

/* ---- neighbours ---- */

/* Whether one command may install both items' packages. Neither may have a time limit, and their options must be equal. */
static bool goes_with(const struct plan *plan, const struct plan_step *s, const struct plan_step *other)
{
    const struct spec_step *a = s->item, *b = other->item;
    return other->kind->build == step_install_build && s->role == other->role &&
           memcmp(s->on, other->on, plan->node_count * sizeof *s->on) == 0 && a->unordered && b->unordered &&
           a->timeout_ms == 0 && b->timeout_ms == 0 && a->upgrade == b->upgrade && a->retry_times == b->retry_times &&
           a->retry_backoff_ms == b->retry_backoff_ms && str_eq(a->index_url.text, b->index_url.text) &&
           spec_texts_equal(&a->extra_index_url, &b->extra_index_url) &&
           spec_texts_equal(&a->find_links, &b->find_links) && spec_texts_equal(&a->options, &b->options);
}

static int put_neighbour(struct json *j, const struct plan_step *s, const char *dir, struct error *err)
{
    const char *marker;
    if (step_absolute(j->bind, marker_of(j->plan->spec, dir, s->name, j->arena), j->arena, &marker, err) < 0)
        return -1;
    buf_putc(&j->text, '{');
    if (put_what(j, s, marker, err) < 0)
        return -1;
    buf_putc(&j->text, '}');
    return 0;
}

/* The neighbours, in order, as far as there is room; `before`: how many come before the step. */
static int put_neighbours(struct json *j, const struct plan_step *step, const char *dir, struct error *err)
{
    const struct plan_step *steps = j->plan->steps;
    size_t first = step->id, end = step->id + 1, count = 0, before = 0;
    while (first > 0 && goes_with(j->plan, step, &steps[first - 1]))
        first--;
    while (end < j->plan->step_count && goes_with(j->plan, step, &steps[end]))
        end++;
    for (size_t i = first; i < end; i++) {
        struct json one = {j->plan, j->bind, j->arena, {0}};
        int rc = i == step->id ? 0 : put_neighbour(&one, &steps[i], dir, err);
        if (rc == 0 && one.text.len > 0 && j->text.len + one.text.len + 64 < ITEM_JSON_MAX) {
            buf_puts(&j->text, count++ ? "," : ",\"beside\":[");
            buf_puts(&j->text, one.text.data);
            before += i < step->id;
        }
        buf_free(&one.text);
        if (rc < 0)
            return -1;
    }
    if (count)
        buf_printf(&j->text, "],\"before\":%zu", before);
    return 0;
}

static int put_item(struct json *j, const struct plan_step *step, const char *dir, const char *marker,
                    struct error *err)
{
    const struct spec_step *item = step->item;
    buf_putc(&j->text, '{');
    if (put_what(j, step, marker, err) < 0)
        return -1;
    if (item->upgrade)
        buf_puts(&j->text, ",\"upgrade\":true");
    if (put_text(j, "index_url", &item->index_url, err) < 0 ||
        put_texts(j, "extra_index_url", &item->extra_index_url, err) < 0 ||
        put_texts(j, "find_links", &item->find_links, err) < 0 || put_texts(j, "options", &item->options, err) < 0 ||
        put_neighbours(j, step, dir, err) < 0)
        return -1;
    buf_putc(&j->text, '}');
    if (j->text.len > ITEM_JSON_MAX)
        return error_set(err, ERROR_SPEC,
                         "its packages and options have more than %d bytes; a requirements file has "
                         "no such limit",
                         ITEM_JSON_MAX);
    return 0;
}

int step_install_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                       struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_step *item = step->item;
    struct step_env env = {.arena = arena};
    struct json j = {plan, bind, arena, {0}};
    const char *dir, *marker, *python;
    if (step_run_item(plan, step, bind, &env, arena, ret_run, err) < 0 ||
        step_python_dir(plan, bind, arena, &dir, err) < 0 || step_python_program(plan, bind, arena, &python, err) < 0)
        return -1;
    if (step_absolute(bind, marker_of(plan->spec, dir, step->name, arena), arena, &marker, err) < 0)
        return -1;
    int rc = put_item(&j, step, dir, marker, err);
    if (rc == 0)
        step_env_set(&env, "RHRUN_ITEM", j.text.data);
    buf_free(&j.text);
    if (rc < 0)
        return -1;
    ret_run->creates = arena_strdup(arena, marker);
    ret_run->timeout_ms = item->timeout_ms;
    ret_run->env = env.list;
    step_run_argv(ret_run, arena, (const char *const[]){python, "-c", rhrun_step_install, NULL});
    return 0;
}
