/*
 * The short forms of `packages`: "torch>=2", "pip:./ --no-deps", "reqs:./", "apt:git". Words after the packages, from
 * the first that begins with "-" on, are options; one text may have several packages.
 */
#include "internal.h"

#include <ctype.h>
#include <string.h>

static bool fail(struct load *l, struct place place, const char *hint, const char *fmt, ...) FORMAT(4, 5);
static bool fail(struct load *l, struct place place, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *message = xvasprintf(fmt, ap);
    va_end(ap);
    diagnostic_hint(fault(l, place, "%s", message), "%s", hint);
    return false;
}

/* ---- one requirement ---- */

static bool is_archive(const char *s)
{
    return str_ends(s, ".whl") || str_ends(s, ".tar.gz") || str_ends(s, ".zip");
}

/* A path on the node, not a name or an address: "./x", "src/x", "x.whl", ".[dev]". */
static bool is_path(const char *s)
{
    size_t name = strcspn(s, "[;<>=!~@ ");
    return !strstr(s, "://") && (*s == '.' || memchr(s, '/', name) || is_archive(s));
}

bool check_requirement(struct load *l, struct spec_text *text)
{
    const char *s = text->text;
    if (!*s || *s == '-')
        return fail(l, text->place, "options have keys of their own: options: [...], editable: true, index_url: ...",
                    "\"%s\" is not a package", s);
    if (str_ends(s, ".txt") && !strstr(s, "://"))
        return fail(l, text->place, "a requirements file is requirements: FILE, or \"reqs:FILE\" in packages",
                    "\"%s\" is not a package", s);
    if (!is_path(s) || *s == '/' || *s == '~')
        return true;
    if (path_leaves(s))
        return fail(l, text->place, "workdir: .. sends the folder above, and the path begins there",
                    "\"%s\" leads out of the working directory", s);
    if (strcmp(s, ".") == 0)
        text->text = "./";
    else if (str_starts(s, ".["))
        text->text = arena_printf(l->arena, "./%s", s + 1);
    else if (!str_starts(s, "./"))
        text->text = arena_printf(l->arena, "./%s", s);
    return true;
}

/* "torch >= 2" and "a; python_version < '3'" are one requirement, "numpy torch" two: where the next one begins. */
static const char *requirement_end(const char *p)
{
    char before = 0, quote = 0;
    for (bool marker = false; *p; p++) {
        if (quote || *p == '"' || *p == '\'')
            quote = !quote ? *p : *p == quote ? 0 : quote;
        marker |= *p == ';';
        if (!isspace((unsigned char)*p) || quote || marker) {
            before = *p;
            continue;
        }
        const char *next = p + strspn(p, " \t\n");
        if (!*next || (!strchr("<>=!~@,([;", *next) && !strchr("<>=!~@,(;", before)))
            return p;
    }
    return p;
}

static void put_requirements(struct load *l, struct spec_step *s, struct spec_text whole)
{
    size_t cap = 0;
    for (const char *p = whole.text; *(p += strspn(p, " \t\n"));) {
        const char *end = requirement_end(p);
        struct spec_text one = whole;
        one.text = arena_strndup(l->arena, p, (size_t)(end - p));
        if (check_requirement(l, &one))
            texts_add(l, &s->packages, &cap, one);
        p = end;
    }
}

/* ---- packages and options of one text ---- */

/* Where the options begin: at a "-" at the beginning or after a blank. */
static size_t options_at(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p == '-' && (p == text || isspace((unsigned char)p[-1])))
            return (size_t)(p - text);
    return strlen(text);
}

static bool put_options(struct load *l, struct spec_step *s, struct spec_text text)
{
    const char **words = NULL;
    size_t count = 0, options = 0, channels = 0;
    struct error err = ERROR_INIT;
    if (shlex_split(text.text, l->arena, &words, &count, &err) != 0)
        return fail(l, text.place, "options are words as in a shell, quotes and backslashes too", "%s", err.text);
    for (size_t i = 0; i < count; i++) {
        bool channel = s->item == ITEM_CONDA && (str_eq(words[i], "-c") || str_eq(words[i], "--channel"));
        struct spec_text word = {.text = words[channel && i + 1 < count ? ++i : i], .place = text.place};
        texts_add(l, channel ? &s->channels : &s->options, channel ? &channels : &options, word);
    }
    return true;
}

bool package_words(struct load *l, struct spec_step *s, const struct spec_text *text)
{
    struct spec_text names = *text, rest = *text;
    const char *p = text->text + strspn(text->text, " \t\n");
    size_t errors = l->diagnostics->errors;
    if (s->item == ITEM_PIP && (str_starts(p, "-e ") || str_starts(p, "--editable "))) {
        s->editable = true;
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    size_t at = options_at(p);
    names.text = arena_strndup(l->arena, p, at);
    rest.text = p + at;
    if (s->item == ITEM_PIP)
        put_requirements(l, s, names);
    else
        s->packages = (struct spec_texts){0};
    size_t cap = 0;
    for (const char *w = names.text; s->item != ITEM_PIP && *(w += strspn(w, " \t\n"));) {
        size_t n = strcspn(w, " \t\n");
        names.text = arena_strndup(l->arena, w, n);
        texts_add(l, &s->packages, &cap, names);
        w += n;
    }
    if (l->diagnostics->errors == errors && s->packages.count == 0)
        return fail(l, text->place, "write the package first, then its options", "no package is named here");
    return l->diagnostics->errors == errors && put_options(l, s, rest);
}

/* ---- short forms ---- */

/* Runhouse's "reqs:./": requirements.txt in that folder; a name with an ending is a file. */
static bool put_reqs(struct load *l, struct spec_step *s, struct spec_text text)
{
    const char *p = text.text + strspn(text.text, " \t\n");
    size_t at = options_at(p), n = at;
    struct spec_text rest = text;
    rest.text = p + at;
    while (n > 0 && isspace((unsigned char)p[n - 1]))
        n--;
    const char *path = arena_strndup(l->arena, p, n), *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;
    bool folder = !*last || str_eq(last, ".") || str_eq(last, "..") || !strchr(last + 1, '.');
    s->item = ITEM_REQUIREMENTS;
    s->file = text;
    s->file.text = folder ? arena_printf(l->arena, "%s%srequirements.txt", path, *last ? "/" : "") : path;
    while (str_starts(s->file.text, "./"))
        s->file.text += 2;
    return put_options(l, s, rest);
}

static bool put_kind(struct load *l, struct spec_step *s, const char *kind, struct spec_text rest)
{
    static const char *const kinds[] = {"pip", "reqs", "requirements", "apt", "conda", NULL};
    if (str_eq(kind, "local"))
        return fail(l, rest.place, "workdir: . sends the folder to every node; \"pip:./\" installs it as a package",
                    "\"local:\" is not a kind of package");
    if (str_eq(kind, "git"))
        return fail(l, rest.place,
                    "setup: [{git: URL, to: PATH}] puts its files to a place; \"git+https://...\" installs it",
                    "\"git:\" is not a kind of package");
    if (str_eq(kind, "reqs") || str_eq(kind, "requirements"))
        return put_reqs(l, s, rest);
    if (str_eq(kind, "pip") || str_eq(kind, "apt") || str_eq(kind, "conda")) {
        s->item = *kind == 'p' ? ITEM_PIP : *kind == 'a' ? ITEM_APT : ITEM_CONDA;
        return package_words(l, s, &rest);
    }
    const char *near = str_nearest(kind, kinds);
    struct diagnostic *d = fault(l, rest.place, "\"%s:\" is not a kind of package", kind);
    diagnostic_expected(d, "a Python package, pip:..., reqs:PATH, apt:NAME or conda:NAME");
    if (near)
        diagnostic_hint(d, "did you mean %s:?", near);
    return false;
}

bool package_of(struct load *l, const struct doc_node *node, struct spec_step *s)
{
    struct spec_text text = text_now(l, node);
    if (!text.text || !*text.text)
        return false;
    text.text += strspn(text.text, " \t\n");
    size_t word = strspn(text.text, "abcdefghijklmnopqrstuvwxyz_");
    if (word > 0 && text.text[word] == ':' && !str_starts(text.text + word, "://")) {
        const char *kind = arena_strndup(l->arena, text.text, word);
        text.text += word + 1;
        return put_kind(l, s, kind, text);
    }
    s->item = ITEM_PIP;
    return package_words(l, s, &text);
}

/* ---- neighbours ---- */

enum { JOINED_BYTES_MAX = 32 << 10 }; /* limit of all packages of one item, which go to the node in one variable */

static size_t bytes_of(const struct spec_texts *texts)
{
    size_t bytes = 0;
    for (size_t i = 0; i < texts->count; i++)
        bytes += strlen(texts->items[i].text) + 1;
    return bytes;
}

static bool same_nodes(const struct spec_step *a, const struct spec_step *b)
{
    return a->on == b->on && a->on_count == b->on_count &&
           (!a->on_count || memcmp(a->on_nodes, b->on_nodes, a->on_count * sizeof(*a->on_nodes)) == 0);
}

bool package_join(struct load *l, struct spec_step *before, const struct spec_step *s)
{
    if (before->item != ITEM_PIP || s->item != ITEM_PIP || before->role != s->role || !same_nodes(before, s) ||
        before->upgrade != s->upgrade || before->editable != s->editable || before->timeout_ms != s->timeout_ms ||
        before->retry_times != s->retry_times || before->retry_backoff_ms != s->retry_backoff_ms ||
        !str_eq(before->index_url.text, s->index_url.text) ||
        !spec_texts_equal(&before->extra_index_url, &s->extra_index_url) ||
        !spec_texts_equal(&before->find_links, &s->find_links) || !spec_texts_equal(&before->options, &s->options) ||
        bytes_of(&before->packages) + bytes_of(&s->packages) > JOINED_BYTES_MAX)
        return false;
    struct spec_texts all = {0};
    size_t cap = 0;
    for (size_t i = 0; i < before->packages.count; i++)
        texts_add(l, &all, &cap, before->packages.items[i]);
    for (size_t i = 0; i < s->packages.count; i++)
        texts_add(l, &all, &cap, s->packages.items[i]);
    before->packages = all;
    return true;
}
