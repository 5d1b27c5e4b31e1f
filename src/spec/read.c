/* The small readers that all stages share: faults, tolerant access to the tree, paths of this machine. */
#include "internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct diagnostic *fault(struct load *l, struct place place, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct diagnostic *item = diagnostics_addv(l->diagnostics, SEVERITY_ERROR, place, fmt, ap);
    va_end(ap);
    return item;
}

void note(struct load *l, struct place place, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diagnostics_addv(l->diagnostics, SEVERITY_NOTE, place, fmt, ap);
    va_end(ap);
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

/* The same pattern as in the schema; a text that passes and still fails exceeds 64 bits. */
static bool looks_like_duration(const char *text)
{
    static const char *const units[] = {"", "ms", "s", "m", "h", "d"};
    size_t n = strspn(text, "0123456789");
    if (n > 0 && text[n] == '.' && isdigit((unsigned char)text[n + 1]))
        n += 1 + strspn(text + n + 1, "0123456789");
    for (size_t i = 0; n > 0 && i < ARRAY_LEN(units); i++)
        if (strcmp(text + n, units[i]) == 0)
            return true;
    return false;
}

void duration_of(struct load *l, const struct doc_node *object, const char *key, uint64_t *ret_ms)
{
    const struct doc_node *node = doc_get(object, key);
    if (!is_scalar(node) || parse_duration_ms(node->text, ret_ms))
        return;
    bool number = (node->type == DOC_INT || node->type == DOC_FLOAT) && node->number >= 0;
    if (looks_like_duration(node->text))
        fault(l, place_of(node), "%s is too long", key);
    else if (number) /* 1e3, which is a number to the schema */
        diagnostic_expected(fault(l, place_of(node), "\"%s\" cannot be %s", key, node->text),
                            "a duration such as 30s, 5m or 12h; a bare number is seconds");
}

const char *source_byte(const struct source *source, uint32_t line, uint32_t column)
{
    const char *p = source->text, *end = p + source->len;
    for (uint32_t n = 1; n < line && p; n++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    for (uint32_t n = 1; n < column && p && p < end; n++)
        do
            p++;
        while (p < end && ((unsigned char)*p & 0xc0) == 0x80);
    return p && p < end ? p : NULL;
}

void place_advance(struct place *place, const char *from, const char *to)
{
    for (const char *p = from; p < to; p++) {
        if (*p == '\n') {
            place->line++;
            place->column = 1;
        } else if (((unsigned char)*p & 0xc0) != 0x80) {
            place->column++;
        }
    }
}

struct place option_place(struct load *l, const char *name, const char *text, size_t at, size_t end)
{
    struct source *source = arena_alloc(l->arena, sizeof *source);
    *source = (struct source){.name = name, .text = text, .len = strlen(text)};
    uint32_t from = 1, to = 1;
    for (size_t i = 0; i < end && text[i]; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80) {
            from += i < at;
            to++;
        }
    return (struct place){.source = source, .line = 1, .column = from, .end_line = 1, .end_column = to};
}

struct spec_text text_of(const struct doc_node *node)
{
    if (!is_scalar(node))
        return (struct spec_text){0};
    /* at the place where the text is written, so that faults point to an expression inside */
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
    static const char *const words[] = {"cpu", "gpu", "xpu", "auto"};
    static const enum spec_nproc_kind kinds[] = {NPROC_CPU, NPROC_GPU, NPROC_XPU, NPROC_AUTO};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(node->text, words[i]) == 0) {
            *ret = (struct spec_nproc){.kind = kinds[i]};
            return true;
        }
    return false;
}

void file_check(struct load *l, struct place place, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode) || str_eq(path, "/dev/null"))
        return;
    const char *kind = S_ISDIR(st.st_mode)    ? "a folder"
                       : S_ISFIFO(st.st_mode) ? "a FIFO"
                       : S_ISSOCK(st.st_mode) ? "a socket"
                                              : "a device";
    fault(l, place, "\"%s\" is %s, not a file", path, kind);
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
