/* cluster.container: the container for a job's processes on each host. */
#include "internal.h"

#include <string.h>

/* The strings of a list, expanded; false: one could not be expanded. */
static bool list_of(struct load *l, const struct doc_node *object, const char *key, const char *const **ret,
                    size_t *ret_count)
{
    const struct doc_node *node = doc_get(object, key);
    struct spec_texts texts = texts_now(l, node, false);
    const char **items = arena_array(l->arena, texts.count + 1, sizeof *items);
    for (size_t i = 0; i < texts.count; i++)
        items[i] = texts.items[i].text;
    *ret = items;
    *ret_count = texts.count;
    return !node || (is_array(node) && texts.count == node->count);
}

static bool is_mount(const char *m)
{
    const char *colon = strchr(m, ':');
    return (*m == '/' || str_starts(m, "~/")) && colon && colon[1] == '/' && str_is_printable(m);
}

static bool mounts_fit(struct load *l, const struct spec_container *c, const struct doc_node *node)
{
    for (size_t i = 0; i < c->mount_count; i++)
        if (!is_mount(c->mounts[i])) {
            diagnostic_expected(fault(l, place_of(node->items[i]), "\"%s\" is not a mount", c->mounts[i]),
                                "SOURCE:TARGET or SOURCE:TARGET:ro; both begin with /, SOURCE also with ~/");
            return false;
        }
    return true;
}

/* Refuses options that rhrun must set itself: with them the container would not be what rhrun assumes. */
static bool options_fit(struct load *l, const struct spec_container *c, const struct doc_node *node)
{
    static const char *const own[] = {"--name", "--rm", "--entrypoint", "-d", "--detach"};
    for (size_t i = 0; i < c->option_count; i++) {
        size_t len = strcspn(c->options[i], "=");
        for (size_t k = 0; k < ARRAY_LEN(own); k++)
            if (strlen(own[k]) == len && memcmp(own[k], c->options[i], len) == 0) {
                fault(l, place_of(node->items[i]),
                      "a spec cannot have the option %s: rhrun names, starts and removes the "
                      "container",
                      own[k]);
                return false;
            }
    }
    return true;
}

static const char *text_of_container(struct arena *a, const struct spec_container *c)
{
    struct buf b = {0};
    buf_printf(&b, "%s\n%s\n", c->image, c->runtime ? c->runtime : "auto");
    for (size_t i = 0; i < c->option_count; i++)
        buf_printf(&b, "option %zu:%s\n", strlen(c->options[i]), c->options[i]);
    for (size_t i = 0; i < c->mount_count; i++)
        buf_printf(&b, "mount %zu:%s\n", strlen(c->mounts[i]), c->mounts[i]);
    const char *text = arena_strdup(a, b.data);
    buf_free(&b);
    return text;
}

bool container_bind(struct load *l, const struct doc_node *cluster, const struct spec_container **ret)
{
    const struct doc_node *node = doc_get(cluster, "container");
    *ret = NULL;
    if (!node)
        return true;
    struct spec_container *c = arena_alloc(l->arena, sizeof *c);
    *c = (struct spec_container){0};
    struct spec_text image = text_of(is_object(node) ? doc_get(node, "image") : node);
    const char *pull = doc_get_string(node, "pull", "missing"), *runtime = doc_get_string(node, "runtime", "auto");
    c->image = image.text ? expand_now(l, &image) : NULL;
    if (!c->image)
        return false; /* the schema, or the expression, has reported it */
    if (!*c->image || *c->image == '-' || !str_is_printable(c->image) || strchr(c->image, ' ')) {
        diagnostic_expected(fault(l, image.place, "\"%s\" is not an image", c->image),
                            "NAME, NAME:TAG or NAME@sha256:...");
        return false;
    }
    c->pull = str_eq(pull, "always") ? PULL_ALWAYS : str_eq(pull, "never") ? PULL_NEVER : PULL_MISSING;
    static const char *const runtimes[] = {"docker", "podman", "apptainer"};
    for (size_t i = 0; i < ARRAY_LEN(runtimes); i++)
        if (str_eq(runtime, runtimes[i]))
            c->runtime = runtimes[i];
    c->down = str_eq(doc_get_string(node, "down", "never"), "always");
    if (!list_of(l, node, "options", &c->options, &c->option_count) ||
        !list_of(l, node, "mounts", &c->mounts, &c->mount_count) || !mounts_fit(l, c, doc_get(node, "mounts")) ||
        !options_fit(l, c, doc_get(node, "options")))
        return false;
    c->text = text_of_container(l->arena, c);
    *ret = c;
    return true;
}
