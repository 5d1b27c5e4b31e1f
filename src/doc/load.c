/*
 * Loading: reads the text, checks what both formats forbid (size, encoding, control characters), then passes it to the
 * reader of its format.
 */
#include "internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct doc_node *doc_loader_node(struct loader *loader, enum doc_type type, struct place place)
{
    if (++loader->nodes > DOC_MAX_NODES) {
        diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place, "the document has more than %u values",
                        DOC_MAX_NODES);
        return NULL;
    }
    struct doc_node *node = arena_alloc(loader->arena, sizeof *node);
    node->type = type;
    node->place = place;
    node->text = "";
    node->height = 1;
    return node;
}

static bool forbidden(uint32_t c, bool yaml)
{
    if (c == 0 || c == 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\r'))
        return yaml || c == 0;
    /* libyaml ends lines at these, YAML 1.2 does not */
    return yaml && ((c >= 0x80 && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfffe || c == 0xffff);
}

/* Encoding and characters; one fault is enough, since a binary file has thousands. */
static bool check_text(struct loader *loader, bool yaml)
{
    const struct source *source = &loader->doc->source;
    struct place place = {source, 1, 1, 1, 2};
    for (size_t i = 0; i < source->len; place.column++) {
        uint32_t c = 0;
        size_t n = doc_utf8(source->text + i, source->len - i, &c);
        place.end_column = place.column + 1;
        if (n == 0) {
            struct diagnostic *item = diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place,
                                                      "byte 0x%02x is not valid UTF-8", (unsigned char)source->text[i]);
            diagnostic_hint(item, "save the file in the encoding UTF-8");
            return false;
        }
        bool lone_return = yaml && c == '\r' && (i + 1 >= source->len || source->text[i + 1] != '\n');
        if (forbidden(c, yaml) || lone_return) {
            struct diagnostic *item = diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place,
                                                      "character U+%04X cannot be used in a document", (unsigned)c);
            if (c != 0)
                diagnostic_hint(item, "write it as \"\\u%04x\" in double quotes, or remove it", (unsigned)c);
            return false;
        }
        i += n;
        if (c == '\n') {
            place.line = ++place.end_line;
            place.column = 0;
        }
    }
    return true;
}

static int load(const char *name, const char *text, size_t len, const char *hidden, enum doc_format format,
                struct arena *arena, struct doc **ret_doc, struct diagnostics *diagnostics, struct error *err)
{
    static const char bom[] = "\xef\xbb\xbf";
    if (len > DOC_MAX_BYTES)
        return error_set(err, ERROR_SPEC, "cannot read \"%s\": larger than %u bytes", name, DOC_MAX_BYTES);
    if (len >= 3 && memcmp(text, bom, 3) == 0) {
        text += 3;
        len -= 3;
    }
    if (format == DOC_FORMAT_AUTO)
        format = str_ends(name, ".json") ? DOC_FORMAT_JSON : DOC_FORMAT_YAML;
    struct doc *doc = arena_alloc(arena, sizeof *doc);
    doc->source =
        (struct source){arena_strdup(arena, name), len > 0 ? arena_strndup(arena, text, len) : "", len, hidden};
    doc->format = format;
    size_t before = diagnostics->errors;
    struct loader loader = {.arena = arena, .doc = doc, .diagnostics = diagnostics};
    if (check_text(&loader, format == DOC_FORMAT_YAML))
        doc->root = format == DOC_FORMAT_JSON ? doc_read_json(&loader) : doc_read_yaml(&loader);
    size_t faults = diagnostics->errors - before;
    if (!doc->root || faults > 0)
        return error_set(err, ERROR_SPEC, "%s: %zu fault%s", name, faults, faults == 1 ? "" : "s");
    *ret_doc = doc;
    return 0;
}

int doc_load_text(const char *name, const char *text, size_t len, enum doc_format format, struct arena *arena,
                  struct doc **ret_doc, struct diagnostics *diagnostics, struct error *err)
{
    return load(name, text, len, NULL, format, arena, ret_doc, diagnostics, err);
}

/* ---- may the text be quoted? ---- */

static bool is_below(const char *folder, const char *path)
{
    size_t len = strlen(folder);
    return strcmp(folder, "/") == 0 || (strncmp(folder, path, len) == 0 && path[len] == '/');
}

/* The top of the git repository around the folder; false: there is none, or its top is the user's home. */
static bool find_repository(const char *folder, char top[PATH_MAX])
{
    char home[PATH_MAX] = "";
    struct stat st;
    if (getenv("HOME") && !realpath(getenv("HOME"), home))
        *home = 0;
    strcpy(top, folder);
    for (char *slash; (slash = strrchr(top, '/')); *slash = 0) {
        CLEANUP(cleanup_free) char *git = xasprintf("%s/.git", top);
        if (*top && lstat(git, &st) == 0)
            return strcmp(top, home) != 0;
    }
    return false;
}

static bool may_quote(const char *path, const char *home)
{
    char real[PATH_MAX], folder[PATH_MAX], top[PATH_MAX];
    const char *slash = strrchr(path, '/');
    CLEANUP(cleanup_free)
    char *own = slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
    if (!realpath(path, real) || !realpath(home ? home : own, folder))
        return false;
    return is_below(folder, real) || (find_repository(folder, top) && is_below(top, real));
}

int doc_load_below(const char *path, const char *home, enum doc_format format, struct arena *arena,
                   struct doc **ret_doc, struct diagnostics *diagnostics, struct error *err)
{
    CLEANUP(buf_free) struct buf text = {0};
    if (file_read(path, DOC_MAX_BYTES, &text, err) < 0) {
        if (err)
            err->code = ERROR_SPEC; /* for the user the document is at fault: exit 2 */
        return -1;
    }
    const char *hidden = may_quote(path, home) ? NULL : "the text cannot be read as YAML or JSON";
    if (load(path, text.len > 0 ? text.data : "", text.len, hidden, format, arena, ret_doc, diagnostics, err) == 0)
        return 0;
    if (hidden)
        error_hint(err, "its text is not shown: its real path is outside of the spec's folder and repository");
    return -1;
}

int doc_load_file(const char *path, enum doc_format format, struct arena *arena, struct doc **ret_doc,
                  struct diagnostics *diagnostics, struct error *err)
{
    return doc_load_below(path, NULL, format, arena, ret_doc, diagnostics, err);
}

void doc_hidden_says(struct doc *doc, const char *message)
{
    if (doc->source.hidden)
        doc->source.hidden = message;
}

bool doc_refuse_nul(const struct doc_node *node, struct diagnostics *diagnostics)
{
    bool good = true;
    if (node->type == DOC_STRING && strlen(node->text) != node->text_len) {
        diagnostics_add(diagnostics, SEVERITY_ERROR, node->place, "the string holds a NUL character");
        return false;
    }
    for (size_t i = 0; i < node->count; i++) {
        const struct doc_member *m = node->type == DOC_OBJECT ? &node->members[i] : NULL;
        if (m && strlen(m->key) != m->key_len) {
            diagnostics_add(diagnostics, SEVERITY_ERROR, m->key_place, "the key holds a NUL character");
            good = false;
        }
        good = doc_refuse_nul(m ? m->value : node->items[i], diagnostics) && good;
    }
    return good;
}
