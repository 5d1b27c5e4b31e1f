/*
 * Rules across keys that belong to no single one: files named below the working directory must exist when the job runs.
 * Files that earlier items of set-up may make are not checked.
 */
#include "internal.h"

#include <string.h>
#include <unistd.h>

struct rules {
    struct load *l;
    const char *base;             /* the folder of this machine that becomes the working directory, or NULL */
    bool nothing_sent;            /* hosts without workdir: the working directory is empty at first */
    size_t before;                /* this many items of set-up are done before the checked one */
    const struct spec_role *role; /* the role of the checked item; NULL: items of all roles count */
};

static struct rules rules_of(struct load *l)
{
    const struct spec *spec = l->spec;
    struct rules r = {.l = l, .before = spec->setup_count};
    r.base = spec->lock ? NULL : spec->has_workdir ? spec->workdir.path : spec_in_place(spec) ? spec->dir : NULL;
    r.nothing_sent = !spec->has_workdir && spec->placement != PLACEMENT_HERE;
    return r;
}

/* ---- files that set-up makes ---- */

static const char *plain(const char *path, size_t *ret_len)
{
    while (str_starts(path, "./"))
        path += 2 + strspn(path + 2, "/");
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    *ret_len = len == 1 && *path == '.' ? 0 : len;
    return path;
}

bool spec_path_covers(const char *folder, const char *path)
{
    size_t len, path_len;
    folder = plain(folder, &len);
    path = plain(path, &path_len);
    return len == 0 || (path_len >= len && strncmp(folder, path, len) == 0 && (path_len == len || path[len] == '/'));
}

bool spec_texts_equal(const struct spec_texts *a, const struct spec_texts *b)
{
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (!str_eq(a->items[i].text, b->items[i].text))
            return false;
    return a->count == b->count;
}

static bool may_bring(const char *to, const char *path)
{
    return !to || strstr(to, "${{") || spec_path_covers(to, path) || spec_path_covers(path, to);
}

/* Whether an earlier item may make it. In place, files made by `run` items are known only by `creates`, because in the
 * next run they would look like sources. */
static bool is_brought(const struct rules *r, const char *path)
{
    const struct spec *spec = r->l->spec;
    for (size_t i = 0; i < spec->file_count; i++)
        if (may_bring(spec->files[i].to.text, path))
            return true;
    for (size_t i = 0; i < r->before; i++) {
        const struct spec_step *s = &spec->setup[i];
        if (r->role && s->role && s->role != r->role)
            continue;
        if (s->item == ITEM_GIT) {
            bool named = s->to.text && *s->to.text;
            if (may_bring(named ? s->to.text : s->url.text ? repository_name(r->l, s->url.text) : NULL, path))
                return true;
        } else if (s->item == ITEM_COPY && may_bring(s->to.text, path)) {
            return true;
        } else if (s->item == ITEM_RUN &&
                   (!spec_in_place(spec) || (s->creates.text && spec_path_covers(s->creates.text, path)))) {
            return true;
        }
    }
    return false;
}

/* The later item that makes it, or NULL. */
static const char *brought_later(const struct rules *r, const char *path)
{
    struct rules later = *r;
    later.before++; /* not by itself */
    while (later.before < r->l->spec->setup_count) {
        later.before++;
        if (is_brought(&later, path))
            return r->l->spec->setup[later.before - 1].name;
    }
    return NULL;
}

static void hint_order(const struct rules *r, struct diagnostic *d, const char *path)
{
    const char *later = brought_later(r, path);
    if (later)
        diagnostic_hint(d,
                        "items run in the file's order, and \"%s\", which may bring the file, comes later: move this "
                        "item after that one",
                        later);
    else if (spec_in_place(r->l->spec) && r->before > 0)
        diagnostic_hint(d, "a run item that makes the file must come first, with creates: %s", path);
}

static bool is_elsewhere(const char *path)
{
    return *path == '/' || *path == '~' || *path == '@' || strstr(path, "${{");
}

/* A fault if the working directory cannot have such a file. */
static void check_there(const struct rules *r, struct place place, const char *what, const char *path)
{
    struct load *l = r->l;
    if (!r->base || is_elsewhere(path) || is_brought(r, path))
        return;
    const char *full = arena_printf(l->arena, "%s/%s", r->base, path);
    if (access(full, F_OK) == 0)
        return;
    struct diagnostic *d = fault(l, place, "there is no %s\"%s\" in %s", what, path,
                                 l->spec->has_workdir ? "workdir" : "the spec's folder");
    const char *near = near_path(l, full, false), *slash = strrchr(path, '/');
    if (near)
        diagnostic_hint(d, "did you mean %.*s%s?", slash ? (int)(slash + 1 - path) : 0, path, near);
    else
        hint_order(r, d, path);
}

/* Shell text that runs before the launch may make any file. */
static bool may_be_made(const struct rules *r)
{
    const struct spec *spec = r->l->spec;
    bool made = spec->entrypoint.prolog.text != NULL;
    for (size_t i = 0; i < spec->setup_count; i++)
        made |= spec->setup[i].item == ITEM_RUN;
    return made;
}

static void check_script_at(const struct rules *r, const struct spec_entrypoint *e, const struct spec *spec)
{
    struct load *l = r->l;
    struct expr_context ctx = {.spec = spec};
    struct error err = ERROR_INIT;
    const char *path = NULL;
    if (e->kind != ENTRY_SCRIPT || !e->target.text)
        return;
    if (expr_expand(&e->target, EXPR_PLAIN, &ctx, true, l->arena, &path, &err) != EXPR_OK || is_elsewhere(path))
        return;
    if (l->spec->has_workdir && path_leaves(path)) {
        diagnostic_hint(fault(l, e->target.place, "the script \"%s\" is outside workdir", path),
                        "workdir: .. sends the folder above, and the script is named from there");
    } else if (r->nothing_sent && !is_brought(r, path)) {
        struct diagnostic *d = fault(l, e->target.place, "the script \"%s\" is not on the hosts", path);
        diagnostic_hint(d, "workdir: . sends the spec's folder to them; a path that begins with / is one of theirs");
    } else if (l->spec->has_workdir || !may_be_made(r)) {
        check_there(r, e->target.place, "script ", path);
    }
}

/* The folder to start in must exist; an output with `restore` may make it. */
static void check_cwd(const struct rules *r, const struct spec_entrypoint *e)
{
    struct load *l = r->l;
    const struct expr_context ctx = {.spec = l->spec};
    struct error err = ERROR_INIT;
    const char *path = NULL;
    if (!e->cwd.text || may_be_made(r) ||
        expr_expand(&e->cwd, EXPR_PLAIN, &ctx, true, l->arena, &path, &err) != EXPR_OK || is_elsewhere(path))
        return;
    for (size_t i = 0; i < l->spec->output_count; i++)
        if (l->spec->outputs[i].restore)
            return;
    const size_t errors = l->diagnostics->errors;
    if (r->nothing_sent && !is_brought(r, path)) {
        struct diagnostic *d = fault(l, e->cwd.place, "the folder \"%s\" of cwd is not on the hosts", path);
        diagnostic_hint(d, "workdir: . sends the spec's folder to them; a path that begins with / is one of theirs");
    } else if (r->nothing_sent || path_leaves(path)) {
        return;
    } else {
        check_there(r, e->cwd.place, "folder ", path);
    }
    if (l->diagnostics->errors == errors && r->base && !is_brought(r, path) &&
        access(arena_printf(l->arena, "%s/%s/.", r->base, path), F_OK) != 0)
        diagnostic_expected(fault(l, e->cwd.place, "\"%s\" is not a folder", path), "the folder to start in");
}

/* Checks every point, up to the first whose script does not exist. */
static void check_script(const struct rules *r, const struct spec_entrypoint *e)
{
    const struct spec_sweep *s = e->target.has_expr ? r->l->spec->sweep : NULL;
    const size_t errors = r->l->diagnostics->errors;
    if (!s)
        check_script_at(r, e, r->l->spec);
    for (size_t i = 0; s && i < s->point_count && r->l->diagnostics->errors == errors; i++) {
        const struct spec at = spec_at_point(r->l->spec, &s->points[i]);
        check_script_at(r, e, &at);
    }
}

/* requirements: FILE and pip: ./PATH. */
static void check_needed(const struct rules *r, struct place place, const char *path)
{
    if (is_elsewhere(path) || path_leaves(path))
        return;
    if (r->nothing_sent && !is_brought(r, path)) {
        struct diagnostic *d = fault(r->l, place, "\"%s\" is not on the hosts", path);
        diagnostic_hint(d, "workdir: . sends the spec's folder to them");
        if (brought_later(r, path))
            hint_order(r, d, path);
    }
    check_there(r, place, "", path);
}

/* pip accepts a folder as a package only if it can be built. */
static void check_package(const struct rules *r, struct place place, const char *path)
{
    struct load *l = r->l;
    size_t errors = l->diagnostics->errors;
    check_needed(r, place, path);
    if (l->diagnostics->errors > errors || !r->base || path_leaves(path) || is_brought(r, path))
        return;
    const char *full = arena_printf(l->arena, "%s/%s", r->base, path);
    bool folder = access(arena_printf(l->arena, "%s/.", full), F_OK) == 0;
    if (!folder || access(arena_printf(l->arena, "%s/pyproject.toml", full), F_OK) == 0 ||
        access(arena_printf(l->arena, "%s/setup.py", full), F_OK) == 0)
        return;
    struct diagnostic *d =
        fault(l, place, "\"%s\" is not a Python package: it has no pyproject.toml and no setup.py", path);
    if (access(arena_printf(l->arena, "%s/requirements.txt", full), F_OK) == 0)
        diagnostic_hint(d, "requirements: FILE installs what its requirements.txt lists");
    else
        diagnostic_hint(d, "files that are only imported need no installation: they are in the working directory");
}

static void check_item(const struct rules *r, const struct spec_step *s)
{
    struct load *l = r->l;
    if (s->item == ITEM_REQUIREMENTS && s->file.text)
        check_needed(r, s->file.place, s->file.text);
    for (size_t i = 0; s->item == ITEM_PIP && i < s->packages.count; i++) {
        const struct spec_text *one = &s->packages.items[i];
        if (str_starts(one->text, "./"))
            check_package(r, one->place, arena_strndup(l->arena, one->text, strcspn(one->text, "[;")));
    }
    for (size_t i = 0; r->nothing_sent && i < s->inputs.count; i++) {
        const struct spec_text *pattern = &s->inputs.items[i];
        size_t len = pattern->text ? strcspn(pattern->text, "*?[") : 0;
        while (len > 0 && pattern->text[len] && pattern->text[len - 1] != '/')
            len--;
        if (!pattern->text || is_brought(r, arena_strndup(l->arena, pattern->text, len)))
            continue;
        struct diagnostic *d = fault(l, pattern->place, "inputs name files of workdir, and the spec has no workdir");
        diagnostic_hint(d, "workdir: . sends the spec's folder to the hosts; without inputs the step runs again when "
                           "its text changes");
        if (brought_later(r, pattern->text))
            hint_order(r, d, pattern->text);
        return;
    }
}

/* ---- outputs in place ---- */

/* Makes a path absolute and removes ".", ".." and double slashes, by its text alone. */
static const char *cleaned(struct load *l, const char *dir, const char *path)
{
    char *out = arena_strdup(l->arena, *path == '/' ? path : arena_printf(l->arena, "%s/%s", dir, path));
    size_t len = 0;
    for (const char *p = out; *p;) {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            while (len > 0 && out[--len] != '/')
                ;
        } else if (n > 0 && !(n == 1 && *p == '.')) {
            out[len++] = '/';
            memmove(out + len, p, n);
            len += n;
        }
        p += n;
    }
    out[len] = 0;
    return out;
}

/* In place, an output's files may already be in `to`: then nothing is done. A `to` inside `from` would grow with every
 * run. */
static void check_output(struct load *l, struct spec_output *o)
{
    const char *from = o->from.text;
    if (!from || !o->to.text || *from == '~' || *from == '@')
        return;
    size_t plain = strcspn(from, "*?[");
    bool deep = !from[plain] || strstr(from, "**");
    while (from[plain] && plain > 0 && from[plain - 1] != '/')
        plain--;
    const char *folder = cleaned(l, l->spec->dir, arena_strndup(l->arena, from, plain));
    const char *to = cleaned(l, l->spec->dir, o->to.text);
    size_t len = strlen(folder);
    o->in_place = strcmp(folder, to) == 0;
    if (o->in_place || !deep || strncmp(to, folder, len) != 0 || to[len] != '/')
        return;
    struct diagnostic *d = fault(l, o->from.place, "\"%s\" would be copied into itself, to \"%s\"", from, o->to.text);
    diagnostic_hint(d, "the job works in the spec's folder, in place: workdir: . gives it a folder of its own");
}

void rules_check(struct load *l)
{
    for (size_t i = 0; spec_in_place(l->spec) && i < l->spec->output_count; i++)
        check_output(l, &l->spec->outputs[i]);
    if (l->spec->host_count == 0 && l->spec->placement != PLACEMENT_HERE)
        return;
    struct rules r = rules_of(l);
    check_script(&r, &l->spec->entrypoint);
    check_cwd(&r, &l->spec->entrypoint);
    for (size_t i = 0; i < l->spec->role_count; i++) {
        check_script(&r, &l->spec->roles[i].entrypoint);
        check_cwd(&r, &l->spec->roles[i].entrypoint);
    }
    for (size_t i = 0; i < l->spec->setup_count; i++) {
        r.before = i;
        r.role = l->spec->setup[i].role;
        check_item(&r, &l->spec->setup[i]);
    }
}
