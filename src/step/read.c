/*
 * Files of the working directory that installations read, found while planning: requirements files with all that they
 * include, and folders that are packages. They come from the tree, or from the spec's folder if the job runs in place;
 * otherwise only the node knows.
 */
#include "internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INCLUDE_DEPTH = 16, FILES_MAX = 256 };

static int fault_at(const struct spec_text *text, struct error *err)
{
    if (text->place.source)
        error_prefix(err, "%s:%u:%u", text->place.source->name, text->place.line, text->place.column);
    return -1;
}

static bool is_known(struct plan_builder *b, const struct spec *spec)
{
    return plan_sources_of(b)->workdir || plan_sources_of(b)->read || spec_in_place(spec);
}

static int read_file(struct plan_builder *b, const struct spec *spec, const char *path, struct buf *ret,
                     struct error *err)
{
    const struct plan_sources *sources = plan_sources_of(b);
    if (sources->read)
        return sources->read(sources->arg, path, ret, err);
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", spec->dir, path);
    return file_read(full, 16 << 20, ret, err);
}

/* Resolves `path`, as written in a file in the folder of `from`: "a/../b" becomes "b". NULL: it leaves the folder. */
static const char *below(struct arena *arena, const char *from, const char *path)
{
    const char *slash = strrchr(from, '/');
    char *joined = *path == '/' ? arena_strdup(arena, path)
                                : arena_printf(arena, "%.*s%s", slash ? (int)(slash - from + 1) : 0, from, path);
    const char **parts = arena_array(arena, strlen(joined) + 1, sizeof *parts);
    size_t count = 0;
    for (char *p = joined, *next; p; p = next) {
        next = strchr(p, '/');
        if (next)
            *next++ = 0;
        if (!*p || str_eq(p, "."))
            continue;
        if (str_eq(p, "..") && count-- == 0)
            return NULL;
        if (!str_eq(p, ".."))
            parts[count++] = p;
    }
    struct buf b = {0};
    for (size_t i = 0; i < count; i++)
        buf_printf(&b, "%s%s", i ? "/" : "", parts[i]);
    const char *ret = arena_strdup(arena, b.data ? b.data : "");
    buf_free(&b);
    return ret;
}

/* ---- requirements files ---- */

struct reading {
    struct plan_builder *b;
    const struct spec *spec;
    const struct spec_role *role;
    struct step_requirements *out;
    const char *including; /* the file of the current line; NULL: the spec's item */
    unsigned line;
};

static void add_line(struct reading *r, const char *name, bool editable)
{
    struct step_requirements *out = r->out;
    const char **folders = arena_array(plan_arena(r->b), out->folder_count + 1, sizeof *folders);
    if (out->folder_count)
        memcpy(folders, out->folders, out->folder_count * sizeof *folders);
    folders[out->folder_count++] = name;
    out->folders = folders;
    out->editable = out->editable || editable;
}

/* The value of an option: "-r x", "-rx", "--requirement x", "--requirement=x". NULL: a different option. */
static const char *option(const char *line, const char *letter, const char *word)
{
    size_t len = strlen(word);
    if (str_starts(line, letter) && line[1] != '-')
        line += 2;
    else if (strncmp(line, word, len) == 0 && (line[len] == '=' || isspace((unsigned char)line[len])))
        line += len + 1;
    else
        return NULL;
    return line + strspn(line, " \t=");
}

static int read_requirements(struct reading *r, const char *path, int depth, struct error *err);

static int read_line(struct reading *r, const char *path, char *line, int depth, struct error *err)
{
    for (char *hash = line; (hash = strchr(hash, '#')); hash++)
        if (hash == line || isspace((unsigned char)hash[-1])) {
            *hash = 0;
            break;
        }
    line += strspn(line, " \t\r");
    for (size_t len = strlen(line); len && isspace((unsigned char)line[len - 1]); len--)
        line[len - 1] = 0;
    const char *inner = option(line, "-r", "--requirement"), *folder = option(line, "-e", "--editable");
    if (!inner)
        inner = option(line, "-c", "--constraint");
    if (inner && !strstr(inner, "://")) {
        const char *file = below(plan_arena(r->b), path, inner);
        if (!file) /* its text is never quoted: the file may be a link to any other */
            return error_set(err, ERROR_SPEC,
                             "%s, line %u: a file that it includes is outside of the working directory", path, r->line);
        const char *outer = r->including;
        unsigned at = r->line;
        r->including = path;
        int rc = read_requirements(r, file, depth + 1, err);
        r->including = outer;
        r->line = at;
        return rc;
    }
    const char *what = folder ? folder : line;
    if (*what == '.' && (what[1] == 0 || what[1] == '/' || what[1] == '['))
        add_line(r, arena_strndup(plan_arena(r->b), what, strcspn(what, " ;")), folder != NULL);
    return 0;
}

/* 0: the file was read; 1: only the node will have it. */
static int read_or_find(struct reading *r, const char *path, struct buf *text, struct error *err)
{
    struct step_requirements *out = r->out;
    struct error why = ERROR_INIT;
    if (step_find_bringers(r->b, NULL, r->role, path, false, &out->by)) {
        out->on_node = true;
        return 1;
    }
    if (read_file(r->b, r->spec, path, text, &why) == 0)
        return 0;
    buf_free(text);
    if (why.code == ERROR_SPEC && step_find_runs(r->b, r->spec, r->role, &out->by)) {
        out->on_node = true;
        return 1;
    }
    if (r->including)
        return error_set(err, why.code, "%s, line %u: a file that it includes cannot be read in the working directory",
                         r->including, r->line);
    if (why.code == ERROR_SPEC)
        error_hint(&why, spec_in_place(r->spec)
                             ? "a set-up item that makes it must come before it and name it in creates"
                             : "a set-up item that brings it must come before it");
    if (err)
        *err = why;
    return -1;
}

static int read_requirements(struct reading *r, const char *path, int depth, struct error *err)
{
    struct buf text = {0};
    struct step_requirements *out = r->out;
    for (size_t i = 0; i < out->count; i++)
        if (str_eq(out->paths[i], path)) /* once is enough */
            return 0;
    if (depth > INCLUDE_DEPTH || out->count == FILES_MAX)
        return error_set(err, ERROR_SPEC, "%s includes too many files", out->paths[0]);
    int found = read_or_find(r, path, &text, err);
    if (found != 0)
        return found < 0 ? -1 : 0;
    char hex[65];
    digest_sha256_hex(text.data ? text.data : "", text.len, hex);
    const char **paths = arena_array(plan_arena(r->b), out->count + 1, sizeof *paths), **digests;
    digests = arena_array(plan_arena(r->b), out->count + 1, sizeof *digests);
    for (size_t i = 0; i < out->count; i++) {
        paths[i] = out->paths[i];
        digests[i] = out->digests[i];
    }
    paths[out->count] = arena_strdup(plan_arena(r->b), path);
    digests[out->count++] = arena_printf(plan_arena(r->b), "sha256:%s", hex);
    out->paths = paths;
    out->digests = digests;
    int rc = 0;
    char *next;
    unsigned number = 1, lines;
    for (char *line = text.data; line && *line && rc == 0; line = next, number += lines) {
        char *end = line;
        lines = 1;
        while ((end = strchr(end, '\n')) && end > line && end[-1] == '\\') {
            end[-1] = ' ';
            *end = ' ';
            lines++;
        }
        next = end ? end + 1 : NULL;
        if (end)
            *end = 0;
        r->line = number;
        rc = read_line(r, path, line, depth, err);
    }
    buf_free(&text);
    return rc;
}

int step_read_requirements(struct plan_builder *b, const struct spec *spec, const struct spec_role *role,
                           const struct spec_text *file, struct step_requirements *ret, struct error *err)
{
    struct reading r = {.b = b, .spec = spec, .role = role, .out = ret};
    const char *path;
    *ret = (struct step_requirements){0};
    if (plan_expand(b, file, EXPR_PLAIN, &path, err) < 0)
        return -1;
    const char *clean = below(plan_arena(b), "", path);
    if (*path == '/' || *path == '~' || !is_known(b, spec)) {
        ret->on_node = true;
        if (*path != '/' && *path != '~' && clean && !step_find_bringers(b, NULL, role, clean, false, &ret->by))
            (void)step_find_runs(b, spec, role, &ret->by);
        return 0;
    }
    if (!clean) {
        error_set(err, ERROR_SPEC, "\"%s\" leads out of the working directory", path);
        return fault_at(file, err);
    }
    return read_requirements(&r, clean, 0, err) < 0 ? fault_at(file, err) : 0;
}

/* ---- folders that are packages ---- */

static bool is_build_file(const char *name)
{
    return str_eq(name, "setup.py") || str_eq(name, "setup.cfg") || str_eq(name, "pyproject.toml") ||
           (str_starts(name, "requirements") && str_ends(name, ".txt"));
}

/* For the files below `prefix` ("" or "x/") in the tree: build files one by one, or all files as one input. 1 if there
 * is a build file. */
static int input_of_tree(struct plan_builder *b, struct plan_step *s, const struct tree *tree, const char *prefix,
                         const char *name, bool editable)
{
    struct arena *arena = plan_arena(b);
    struct buf all = {0};
    int build = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const struct tree_file *f = &tree->files[i];
        if (!str_starts(f->path, prefix))
            continue;
        const char *path = f->path + strlen(prefix);
        bool is_build = is_build_file(path);
        build |= is_build && !str_starts(path, "requirements");
        if (editable && is_build)
            plan_input(b, s, arena_printf(arena, "content of %s", f->path), step_oid_hex(arena, f));
        else if (!editable)
            buf_printf(&all, "%06o %s %zu:%s\n", (unsigned)f->mode, step_oid_hex(arena, f), strlen(path), path);
    }
    if (!editable)
        plan_input(b, s, arena_printf(arena, "tree %s", name), all.data ? all.data : "");
    buf_free(&all);
    return build;
}

static int input_in_place(struct plan_builder *b, struct plan_step *s, const struct spec *spec, const char *prefix,
                          const char *name, bool editable, struct error *err)
{
    static const char *const build_files[] = {"setup.py", "setup.cfg", "pyproject.toml", "requirements.txt"};
    struct arena *arena = plan_arena(b);
    int build = 0;
    for (size_t i = 0; i < ARRAY_LEN(build_files); i++) {
        char hex[65];
        struct error ignored = ERROR_INIT;
        const char *path = arena_printf(arena, "%s%s", prefix, build_files[i]);
        CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", spec->dir, path);
        if (digest_sha256_file(full, hex, &ignored) < 0)
            continue;
        build |= i < 3;
        if (editable)
            plan_input(b, s, arena_printf(arena, "content of %s", path), arena_printf(arena, "sha256:%s", hex));
    }
    if (editable || !build)
        return build;
    CLEANUP(cleanup_free) char *dir = xasprintf("%s/%s", spec->dir, prefix);
    return plan_input_sources(b, s, dir, arena_printf(arena, "tree %s", name), err) < 0 ? -1 : build;
}

/* For a file, such as a wheel. 1: it is a file; 0: it is not; -1: error. */
static int input_of_file(struct plan_builder *b, struct plan_step *s, const struct spec *spec, const char *path,
                         struct error *err)
{
    struct arena *arena = plan_arena(b);
    const struct tree *tree = plan_sources_of(b)->workdir;
    const struct tree_file *f = tree ? tree_find(tree, path) : NULL;
    const char *name = arena_printf(arena, "content of %s", path);
    char hex[65];
    struct stat st;
    if (f)
        plan_input(b, s, name, step_oid_hex(arena, f));
    if (tree)
        return f != NULL;
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", spec->dir, path);
    if (stat(full, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (digest_sha256_file(full, hex, err) < 0)
        return -1;
    plan_input(b, s, name, arena_printf(arena, "sha256:%s", hex));
    return 1;
}

int step_input_package(struct plan_builder *b, struct plan_step *s, const struct spec *spec,
                       const struct spec_text *said, const char *package, bool editable, struct error *err)
{
    struct arena *arena = plan_arena(b);
    const struct tree *tree = plan_sources_of(b)->workdir;
    const char *path = below(arena, "", arena_strndup(arena, package, strcspn(package, "[")));
    struct step_bringers by = {0};
    bool here = str_starts(said->text, package); /* otherwise it is text of a requirements file, which is not quoted */
    if (path && *path && step_find_bringers(b, s, s->role, path, true, &by)) {
        step_input_bringers(b, s, &by);
        return 0;
    }
    if (!is_known(b, spec)) {
        if (path && step_find_runs(b, spec, s->role, &by))
            step_input_bringers(b, s, &by);
        plan_input(b, s, arena_printf(arena, "tree %s", package), "on the node");
        s->hint = "a change of the files that it installs is not noticed";
        return 0;
    }
    if (!path) {
        error_set(err, ERROR_SPEC,
                  here ? "\"%s\" leads out of the working directory"
                       : "\"%s\" names a folder out of the working directory",
                  said->text);
        return fault_at(said, err);
    }
    int found = *path ? input_of_file(b, s, spec, path, err) : 0;
    if (found < 0)
        return fault_at(said, err);
    if (found > 0)
        return 0;
    const char *prefix = *path ? arena_printf(arena, "%s/", path) : "";
    found = tree ? input_of_tree(b, s, tree, prefix, package, editable)
                 : input_in_place(b, s, spec, prefix, package, editable, err);
    if (found < 0)
        return fault_at(said, err);
    if (found > 0)
        return 0;
    if (step_find_runs(b, spec, s->role, &by)) {
        step_input_bringers(b, s, &by);
        return 0;
    }
    if (here)
        error_set(err, ERROR_SPEC, "\"%s\" is not a package: there is no %spyproject.toml, setup.py or setup.cfg",
                  package, prefix);
    else
        error_set(err, ERROR_SPEC,
                  "\"%s\" names a folder that is not a package: it has no pyproject.toml, setup.py or setup.cfg",
                  said->text);
    error_hint(err, "files that git ignores are not part of the working directory: workdir: {path: ., include: [...]}");
    return fault_at(said, err);
}

/* ---- does an item install the working directory itself? ---- */

bool step_installs_in_place(struct plan_builder *b, const struct spec *spec, const struct spec_role *role)
{
    for (size_t i = 0; i < spec->setup_count && !spec_in_place(spec); i++) {
        const struct spec_step *item = &spec->setup[i];
        struct step_requirements r;
        struct error ignored = ERROR_INIT; /* the item itself reports it */
        if (item->role != role)
            continue;
        if (item->item == ITEM_REQUIREMENTS &&
            step_read_requirements(b, spec, item->role, &item->file, &r, &ignored) == 0 && r.editable)
            return true;
        for (size_t k = 0; item->item == ITEM_PIP && item->editable && k < item->packages.count; k++)
            if (item->packages.items[k].text[0] == '.')
                return true;
    }
    return false;
}
