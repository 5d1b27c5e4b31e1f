/*
 * What crosses keys and belongs to no single one: files that are named below the working directory must be there once
 * the job runs. What set-up may make first is not looked for.
 */
#include "internal.h"

#include <string.h>
#include <unistd.h>

struct rules {
    struct load *l;
    const char *base;  /* the folder of this machine that becomes the working directory, or NULL */
    bool nothing_sent; /* hosts without workdir: the working directory is empty at first */
    bool placed;       /* git, copy and files put files there */
    bool runs;         /* run items may make any file */
};

static struct rules rules_of(struct load *l)
{
    const struct spec *spec = l->spec;
    struct rules r = {.l = l, .placed = spec->file_count > 0};
    r.base = spec->has_workdir ? spec->workdir.path : spec->local ? spec->dir : NULL;
    r.nothing_sent = !spec->has_workdir && !spec->this_machine;
    for (size_t i = 0; i < spec->setup_count; i++) {
        r.placed |= spec->setup[i].item == ITEM_GIT || spec->setup[i].item == ITEM_COPY;
        r.runs |= spec->setup[i].item == ITEM_RUN;
    }
    return r;
}

static bool is_elsewhere(const char *path)
{
    return *path == '/' || *path == '~' || *path == '@' || strstr(path, "${{");
}

/* A fault when there can be no such file in the working directory. */
static void check_there(const struct rules *r, struct place place, const char *what, const char *path)
{
    struct load *l = r->l;
    if (!r->base || r->placed || r->runs || is_elsewhere(path))
        return;
    const char *full = arena_printf(l->arena, "%s/%s", r->base, path);
    if (access(full, F_OK) == 0)
        return;
    struct diagnostic *d = fault(l, place, "there is no %s\"%s\" in %s", what, path,
                                 l->spec->has_workdir ? "workdir" : "the spec's folder");
    const char *near = near_path(l, full, false), *slash = strrchr(path, '/');
    if (near)
        diagnostic_hint(d, "did you mean %.*s%s?", slash ? (int)(slash + 1 - path) : 0, path, near);
}

static void check_script(const struct rules *r, const struct spec_entrypoint *e)
{
    struct load *l = r->l;
    struct expr_context ctx = {.spec = l->spec};
    struct error err = ERROR_INIT;
    const char *path = NULL;
    if (e->kind != ENTRY_SCRIPT || !e->target.text)
        return;
    if (expr_expand(&e->target, EXPR_PLAIN, &ctx, true, l->arena, &path, &err) != EXPR_OK || is_elsewhere(path))
        return;
    if (l->spec->has_workdir && path_leaves(path)) {
        diagnostic_hint(fault(l, e->target.place, "the script \"%s\" is outside workdir", path),
                        "workdir: .. sends the folder above, and the script is named from there");
    } else if (r->nothing_sent && !r->placed) {
        struct diagnostic *d = fault(l, e->target.place, "the script \"%s\" is not on the hosts", path);
        diagnostic_hint(d, "workdir: . sends the spec's folder to them; a path that begins with / is one of theirs");
    } else if (l->spec->has_workdir) {
        check_there(r, e->target.place, "script ", path);
    }
}

/* requirements: FILE and pip: ./PATH. */
static void check_needed(const struct rules *r, struct place place, const char *path)
{
    if (is_elsewhere(path) || path_leaves(path))
        return;
    if (r->nothing_sent && !r->placed && !r->runs)
        diagnostic_hint(fault(r->l, place, "\"%s\" is not on the hosts", path),
                        "workdir: . sends the spec's folder to them");
    check_there(r, place, "", path);
}

/* pip takes a folder for a package only where it can be built. */
static void check_package(const struct rules *r, struct place place, const char *path)
{
    struct load *l = r->l;
    size_t errors = l->diagnostics->errors;
    check_needed(r, place, path);
    if (l->diagnostics->errors > errors || !r->base || r->placed || r->runs || path_leaves(path))
        return;
    const char *full = arena_printf(l->arena, "%s/%s", r->base, path);
    bool folder = access(arena_printf(l->arena, "%s/.", full), F_OK) == 0;
    if (!folder || access(arena_printf(l->arena, "%s/pyproject.toml", full), F_OK) == 0 ||
        access(arena_printf(l->arena, "%s/setup.py", full), F_OK) == 0)
        return;
    struct diagnostic *d =
        fault(l, place, "\"%s\" is no Python package: it has no pyproject.toml and no setup.py", path);
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
    if (s->inputs.count == 0 || !r->nothing_sent)
        return;
    struct diagnostic *d = fault(l, s->inputs.items[0].place, "inputs are files of workdir, and there is none");
    diagnostic_hint(d, "workdir: . sends the spec's folder to the hosts; without inputs the step runs again when its "
                       "text changes");
}

/* ---- outputs in place ---- */

/* Absolute, without "." and ".." and double slashes, by its text alone. */
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

/* In place, what is to come home may be at home: then nothing is done. Below itself it would grow with every run. */
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
    for (size_t i = 0; l->spec->local && i < l->spec->output_count; i++)
        check_output(l, &l->spec->outputs[i]);
    if (l->spec->host_count == 0 && !l->spec->this_machine)
        return;
    const struct rules r = rules_of(l);
    check_script(&r, &l->spec->entrypoint);
    for (size_t i = 0; i < l->spec->role_count; i++)
        check_script(&r, &l->spec->roles[i].entrypoint);
    for (size_t i = 0; i < l->spec->setup_count; i++)
        check_item(&r, &l->spec->setup[i]);
}
