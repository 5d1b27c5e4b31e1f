/* The small readers that all stages share: faults, tolerant access to the tree, paths of this machine. */
#include "internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct diagnostic *fault(struct load *l, struct place place, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *message = xvasprintf(fmt, ap);
    va_end(ap);
    return diagnostics_add(l->diagnostics, SEVERITY_ERROR, place, "%s", message);
}

void note(struct load *l, struct place place, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *message = xvasprintf(fmt, ap);
    va_end(ap);
    diagnostics_add(l->diagnostics, SEVERITY_NOTE, place, "%s", message);
}

struct place place_of(const struct doc_node *node)
{
    return node->alias.source ? node->alias : node->place;
}

bool is_scalar(const struct doc_node *node)
{
    return node &&
           (node->type == DOC_STRING || node->type == DOC_INT || node->type == DOC_FLOAT || node->type == DOC_BOOL);
}

bool is_object(const struct doc_node *node)
{
    return node && node->type == DOC_OBJECT;
}

bool is_array(const struct doc_node *node)
{
    return node && node->type == DOC_ARRAY;
}

bool duration_of(const struct doc_node *object, const char *key, uint64_t *ret_ms)
{
    return parse_duration_ms(doc_get_text(object, key, NULL), ret_ms);
}

struct spec_text text_of(const struct doc_node *node)
{
    if (!is_scalar(node))
        return (struct spec_text){0};
    /* the text where it is written: an expression inside is pointed to there */
    return (struct spec_text){.text = node->text, .place = node->place, .has_expr = strstr(node->text, "${{") != NULL};
}

bool nproc_of(const struct doc_node *node, struct spec_nproc *ret)
{
    int64_t n;
    if (!is_scalar(node))
        return false;
    if (doc_is_integer(node, &n)) {
        if (n < 1 || n > SPEC_NPROC_MAX)
            return false;
        *ret = (struct spec_nproc){.kind = NPROC_COUNT, .count = (uint32_t)n};
        return true;
    }
    static const char *const words[] = {"cpu", "gpu", "auto"};
    static const enum spec_nproc_kind kinds[] = {NPROC_CPU, NPROC_GPU, NPROC_AUTO};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(node->text, words[i]) == 0) {
            *ret = (struct spec_nproc){.kind = kinds[i]};
            return true;
        }
    return false;
}

const char *path_here(const struct load *l, const char *dir, const char *path)
{
    const char *home = getenv("HOME");
    if (!path || *path == '/')
        return path;
    if (str_starts(path, "~/") && home && *home)
        return arena_printf(l->arena, "%s/%s", home, path + 2);
    return arena_printf(l->arena, "%s/%s", dir, path);
}

bool name_is_valid(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > 100 || *name == '.' || *name == '-')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("_.-", *name))
            return false;
    return true;
}
