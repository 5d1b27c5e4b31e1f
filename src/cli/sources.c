/* The trees and files that planning reads, gathered first: the working directory, `files`, copies, and outputs with
 * `restore`. `run` keeps the contents in the job's store; `plan` needs only ids. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MAX = 16 << 20, LINKS_MAX = 8 };

struct gather {
    struct cli *c;
    const struct spec *spec;
    const struct roster *roster;
    struct sources *s;
    const char **leave_out;
    size_t leave_out_count, cap;
    const struct place *place; /* of the source in progress, for errors */
};

/* ---- never part of a tree: files that the job itself writes, or it would always be stale ---- */

static void put_left_out(struct gather *g, const char *path)
{
    if (g->leave_out_count == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 16;
        g->leave_out = xreallocarray(g->leave_out, g->cap, sizeof *g->leave_out);
    }
    g->leave_out[g->leave_out_count++] = path;
}

/* Resolves links, as in the paths of sources, in the part that exists; the rest of the path is taken by its text. */
static char *real_path_of(struct arena *arena, const char *path)
{
    CLEANUP(cleanup_free) char *whole = realpath(path, NULL);
    if (whole) /* the usual case; part by part it takes a number of lookups that is quadratic in the parts */
        return arena_strdup(arena, whole);
    char *now = arena_strdup(arena, "/");
    while (*path) {
        size_t len = strcspn(path, "/");
        char *next = arena_printf(arena, "%s%s%.*s", now, now[1] ? "/" : "", (int)len, path);
        CLEANUP(cleanup_free) char *real = len > 0 ? realpath(next, NULL) : NULL;
        if (real)
            now = arena_strdup(arena, real);
        else if (len == 2 && memcmp(path, "..", 2) == 0)
            *(strrchr(now, '/') == now ? now + 1 : strrchr(now, '/')) = 0;
        else if (len > 0 && !(len == 1 && *path == '.'))
            now = next;
        path += len + (path[len] == '/');
    }
    return now;
}

/* The real path, and a link with that name. */
static void leave_out(struct gather *g, const char *path)
{
    struct arena *arena = g->c->arena;
    char *copy = arena_strdup(arena, path);
    for (size_t len = strlen(copy); len > 1 && copy[len - 1] == '/'; len--)
        copy[len - 1] = 0;
    const char *slash = strrchr(copy, '/'), *real = real_path_of(arena, copy);
    put_left_out(g, real);
    if (!slash[1] || str_eq(slash, "/.") || str_eq(slash, "/.."))
        return;
    const char *parent = real_path_of(arena, arena_strndup(arena, copy, (size_t)(slash - copy)));
    const char *itself = arena_printf(arena, "%s%s", parent[1] ? parent : "", slash);
    if (!str_eq(itself, real))
        put_left_out(g, itself);
}

/* Whether `inner` is the folder `outer`, or below it. */
static bool is_within(const char *inner, const char *outer)
{
    size_t len = strlen(outer);
    return strncmp(inner, outer, len) == 0 && (inner[len] == 0 || inner[len] == '/' || str_eq(outer, "/"));
}

/* If only the run can expand a part of the text, the text is cut before that part. */
static int output_folder(struct gather *g, const struct spec_output *o, const struct expr_context *ctx,
                         const char **ret, struct error *err)
{
    const char *to = o->to.text;
    if (o->to.has_expr && expr_expand(&o->to, EXPR_PLAIN, ctx, true, g->c->arena, &to, err) != EXPR_OK)
        return -1;
    if (*to != '/')
        to = arena_printf(g->c->arena, "%s/%s", g->spec->dir, to);
    const char *late = strstr(to, "${{");
    while (late && late > to + 1 && late[-1] != '/')
        late--;
    *ret = late ? arena_strndup(g->c->arena, to, (size_t)(late - to)) : to;
    return 0;
}

/* The common folder of all nodes, if that is not the spec's own folder; else each node's folder. */
static int leave_out_output(struct gather *g, const struct spec_output *o, struct error *err)
{
    const char *to;
    struct expr_context ctx = {.spec = g->spec};
    if (output_folder(g, o, &ctx, &to, err) < 0)
        return -1;
    CLEANUP(cleanup_free) char *inside = xasprintf("%s/", g->spec->dir);
    if (!o->to.has_expr || !str_eq(to, inside)) {
        leave_out(g, to);
        if (g->spec->workdir.path && is_within(g->spec->workdir.path, real_path_of(g->c->arena, to)))
            g->s->inward = o->name;
        return 0;
    }
    for (uint32_t n = 0; n < g->spec->nnodes; n++) {
        ctx = (struct expr_context){
            .spec = g->spec, .has_node = true, .node_rank = n, .node_name = roster_name(g->roster, n)};
        if (output_folder(g, o, &ctx, &to, err) < 0)
            return -1;
        leave_out(g, to);
    }
    return 0;
}

static int find_leave_out(struct gather *g, struct error *err)
{
    const struct spec *spec = g->spec;
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home)
        return -1;
    leave_out(g, home);
    if (getenv("HOME"))
        leave_out(g, arena_printf(g->c->arena, "%s/.rhrun", getenv("HOME")));
    if (spec->real_path)
        leave_out(g, spec->real_path);
    if (spec->path) { /* it may be a symbolic link */
        const char *base = strrchr(spec->path, '/');
        leave_out(g, arena_printf(g->c->arena, "%s/%s", spec->dir, base ? base + 1 : spec->path));
    }
    leave_out(g, arena_printf(g->c->arena, "%s/%s.lock.yaml", spec->dir, spec->name));
    if (spec->lock && doc_get_path(spec->lock->root, "/spec/path")) { /* the spec that was locked */
        const char *path = doc_get_path(spec->lock->root, "/spec/path")->text, *base = strrchr(path, '/');
        leave_out(g, arena_printf(g->c->arena, "%s/%s", spec->dir, base ? base + 1 : path));
    }
    for (size_t i = 0; i < spec->output_count; i++) {
        g->place = &spec->outputs[i].place;
        if (leave_out_output(g, &spec->outputs[i], err) < 0)
            return -1;
    }
    return 0;
}

/* ---- one source ---- */

static const char *const *list_of(struct gather *g, const struct spec_texts *texts)
{
    const char **list = arena_array(g->c->arena, texts->count + 1, sizeof *list);
    for (size_t i = 0; i < texts->count; i++)
        list[i] = texts->items[i].text;
    return list;
}

static int open_store(struct gather *g, struct error *err)
{
    if (g->s->store)
        return 0;
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home)
        return -1;
    CLEANUP(cleanup_free) char *dir = xasprintf("%s/jobs/%s/tree.git", home, g->spec->job_id);
    return tree_store_open(dir, &g->s->store, err);
}

static int scan(struct gather *g, const struct spec_source *source, struct source_tree *item,
                struct tree_progress *progress, struct error *err)
{
    struct tree_scan scan = {.path = source->path,
                             .exclude = list_of(g, &source->exclude),
                             .exclude_count = source->exclude.count,
                             .include = list_of(g, &source->include),
                             .include_count = source->include.count,
                             .store = g->s->stored,
                             .progress = progress};
    struct tree *tree;
    const char **list = arena_array(g->c->arena, g->leave_out_count + 1, sizeof *list);
    for (size_t i = 0; i < g->leave_out_count; i++)
        if (!is_within(source->path, g->leave_out[i])) /* the user named it: not left out */
            list[scan.leave_out_count++] = g->leave_out[i];
    scan.leave_out = list;
    item->from = source->path;
    if (tree_scan(g->s->store, &scan, g->c->arena, &tree, &item->notes, err) < 0)
        return -1;
    item->tree = tree;
    return 0;
}

static int fetch(struct gather *g, const struct spec_source *source, struct source_tree *item, struct error *err)
{
    struct tree *tree;
    char commit[TREE_ID_LEN + 1];
    item->from = source->url.text;
    if (tree_fetch(g->s->store, source->url.text, source->ref.text, g->c->given[OPT_OFFLINE], g->c->arena, &tree,
                   commit, &item->notes, err) < 0)
        return -1;
    item->commit = arena_strdup(g->c->arena, commit);
    item->tree = tree;
    return 0;
}

/* Adds the tree of a source to the list, in *ret. */
static int add(struct gather *g, const char *name, const struct spec_source *source, const char *to,
               const struct tree **ret, struct error *err)
{
    struct source_tree *item = &g->s->items[g->s->count];
    *item = (struct source_tree){.name = name, .to = to};
    g->place = &source->place;
    if (open_store(g, err) < 0)
        return -1;
    const char *where = source->path ? source->path : source->url.text;
    struct patience *p = patience_begin(g->c, arena_printf(g->c->arena, "reading %s", where));
    int rc = source->path ? scan(g, source, item, patience_progress(p), err) : fetch(g, source, item, err);
    patience_end(p);
    if (rc < 0)
        return -1;
    g->s->count++;
    *ret = item->tree;
    return 0;
}

/* ---- all of them ---- */

static int add_workdir(struct gather *g, struct error *err)
{
    const struct spec_source *source = &g->spec->workdir;
    struct stat st;
    if (!g->spec->has_workdir)
        return 0;
    g->place = &source->place;
    if (source->path && stat(source->path, &st) == 0 && !S_ISDIR(st.st_mode))
        return error_set(err, ERROR_SPEC, "the workdir \"%s\" is not a folder", source->path);
    if (add(g, "workdir", source, NULL, &g->s->plan.workdir, err) < 0)
        return -1;
    g->s->plan.commit = g->s->items[g->s->count - 1].commit;
    return 0;
}

static bool same_source(const struct spec_source *a, const struct spec_source *b)
{
    return str_eq(a->path, b->path) && str_eq(a->url.text, b->url.text) && str_eq(a->ref.text, b->ref.text) &&
           spec_texts_equal(&a->exclude, &b->exclude) && spec_texts_equal(&a->include, &b->include);
}

/* A role that has the top level's list has its items a second time: they are not read again. */
static int add_copy(struct gather *g, size_t i, const struct tree **copies, struct error *err)
{
    const struct spec_step *items = g->spec->setup, *item = &items[i];
    for (size_t k = 0; k < i; k++)
        if (copies[k] && same_source(&items[k].source, &item->source) && str_eq(items[k].to.text, item->to.text)) {
            copies[i] = copies[k];
            return 0;
        }
    return add(g, item->name, &item->source, item->to.text, &copies[i], err);
}

static int add_files(struct gather *g, struct error *err)
{
    const struct spec *spec = g->spec;
    const struct tree **trees = arena_array(g->c->arena, spec->file_count + 1, sizeof(struct tree *));
    const struct tree **copies = arena_array(g->c->arena, spec->setup_count + 1, sizeof(struct tree *));
    for (size_t i = 0; i < spec->file_count; i++)
        if (add(g, spec->files[i].name, &spec->files[i].source, spec->files[i].to.text, &trees[i], err) < 0)
            return -1;
    for (size_t i = 0; i < spec->setup_count; i++)
        if (spec->setup[i].item == ITEM_COPY && add_copy(g, i, copies, err) < 0)
            return -1;
    g->s->plan.files = trees;
    g->s->plan.copies = copies;
    return 0;
}

static const struct tree *same_place(const struct sources *s, size_t first, const char *path)
{
    for (size_t i = first; i < s->count; i++)
        if (str_eq(s->items[i].from, path))
            return s->items[i].tree;
    return NULL;
}

/* The files that outputs with `restore` have brought home, for each node with a folder there. */
static int add_restores(struct gather *g, struct error *err)
{
    const struct spec *spec = g->spec;
    static struct spec_text everything[] = {{.text = "*"}};
    const struct tree **trees = arena_array(g->c->arena, spec->output_count * spec->nnodes + 1, sizeof(struct tree *));
    for (size_t i = 0; i < spec->output_count; i++) {
        const struct spec_output *o = &spec->outputs[i];
        size_t first = g->s->count;
        for (uint32_t n = 0; o->restore && n < spec->nnodes; n++) {
            struct expr_context ctx = {
                .spec = spec, .has_node = true, .node_rank = n, .node_name = roster_name(g->roster, n)};
            struct spec_source source = {.include = {everything, 1}, .place = o->place};
            const struct tree **tree = &trees[i * spec->nnodes + n];
            struct stat st;
            g->place = &o->place;
            enum expr_status status = step_output_to(o, g->roster, &ctx, false, g->c->arena, &source.path, err);
            if (status == EXPR_FAILED)
                return -1;
            if (status == EXPR_LATE || stat(source.path, &st) < 0 || !S_ISDIR(st.st_mode))
                continue;
            *tree = same_place(g->s, first, source.path);
            const char *name = arena_printf(g->c->arena, "restore of %s", o->name);
            if (!*tree && add(g, name, &source, o->from.text, tree, err) < 0)
                return -1;
        }
    }
    g->s->plan.restores = trees;
    return 0;
}

/* ---- the content of a file ---- */

/* A path below the working directory without ".", ".." and empty parts; NULL if it leads out of it. */
static char *clean_path(struct arena *arena, const char *path)
{
    char *out = arena_alloc(arena, strlen(path) + 1);
    size_t len = 0;
    if (*path == '/')
        return NULL;
    while (*path) {
        size_t part = strcspn(path, "/");
        if (part == 2 && memcmp(path, "..", 2) == 0) {
            if (len == 0)
                return NULL;
            while (len > 0 && out[--len] != '/')
                ;
        } else if (part > 0 && !(part == 1 && *path == '.')) {
            if (len)
                out[len++] = '/';
            memcpy(out + len, path, part);
            len += part;
        }
        path += part + (path[part] == '/');
    }
    out[len] = 0;
    return len ? out : NULL;
}

static int read_stored(struct sources *s, const struct tree_file *f, struct buf *ret, struct error *err)
{
    struct tree_reader r = {0};
    if (f->size > READ_MAX)
        return error_set(err, ERROR_SPEC, "\"%s\" has more than %d bytes", f->path, READ_MAX);
    if (tree_open(s->store, f, &r, err) < 0)
        return -1;
    buf_reserve(ret, (size_t)f->size + 1);
    while (ret->len < f->size) {
        ssize_t n = tree_read(&r, ret->len, ret->data + ret->len, (size_t)f->size - ret->len, err);
        if (n <= 0) {
            tree_done(&r);
            return n < 0 ? -1 : error_set(err, ERROR_IO, "\"%s\" is cut off in the store", f->path);
        }
        ret->len += (size_t)n;
    }
    ret->data[ret->len] = 0;
    tree_done(&r);
    return 0;
}

static int read_link(const struct sources *s, const char *path, struct buf *ret, struct error *err)
{
    char target[TREE_PATH_MAX + 1];
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", s->spec->workdir.path, path);
    ssize_t n = readlink(full, target, sizeof target - 1);
    if (n < 0)
        return error_errno(err, ERROR_IO, errno, "cannot read the link \"%s\"", full);
    buf_append(ret, target, (size_t)n);
    return 0;
}

static int read_one(struct sources *s, const struct tree_file *f, struct buf *ret, struct error *err)
{
    if (s->stored || !s->spec->workdir.path)
        return read_stored(s, f, ret, err);
    if (f->mode == TREE_MODE_LINK)
        return read_link(s, f->path, ret, err);
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", s->spec->workdir.path, f->path);
    return file_read(full, READ_MAX, ret, err);
}

/* For plan: the file as it will be on the node, so links lead only to files of the tree. */
static int read_file(void *arg, const char *path, struct buf *ret, struct error *err)
{
    struct sources *s = arg;
    struct buf text = {0};
    const char *clean = clean_path(s->arena, path);
    if (!clean)
        return error_set(err, ERROR_SPEC, "\"%s\" is not a file below the working directory", path);
    if (!s->plan.workdir) {
        CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", s->spec->dir, clean);
        if (!spec_in_place(s->spec) || access(full, F_OK) < 0)
            return error_set(err, ERROR_SPEC, "there is no \"%s\" in the working directory", path);
        return file_read(full, READ_MAX, ret, err);
    }
    for (int links = 0; links < LINKS_MAX; links++) {
        const struct tree_file *f = clean ? tree_find(s->plan.workdir, clean) : NULL;
        if (!f)
            return error_set(err, ERROR_SPEC, "there is no \"%s\" in the workdir", path);
        if (f->mode != TREE_MODE_LINK)
            return read_one(s, f, ret, err);
        buf_clear(&text);
        if (read_one(s, f, &text, err) < 0)
            return -1;
        const char *slash = strrchr(clean, '/');
        int folder = slash ? (int)(slash - clean) + 1 : 0;
        clean = text.data && text.data[0] != '/'
                    ? clean_path(s->arena, arena_printf(s->arena, "%.*s%s", folder, clean, text.data))
                    : NULL;
        buf_free(&text);
    }
    return error_set(err, ERROR_SPEC, "\"%s\" leads through too many symbolic links", path);
}

/* ---- the whole ---- */

/* Without any source the state directory is not needed yet. */
static bool has_sources(const struct spec *spec)
{
    bool any = spec->has_workdir || spec->file_count > 0;
    for (size_t i = 0; i < spec->setup_count; i++)
        any = any || spec->setup[i].item == ITEM_COPY;
    for (size_t i = 0; i < spec->output_count; i++)
        any = any || spec->outputs[i].restore;
    return any;
}

struct sources *sources_new(struct cli *c, const struct spec *spec, bool stored)
{
    struct sources *s = xcalloc(1, sizeof *s);
    s->spec = spec;
    s->arena = c->arena;
    s->stored = stored;
    s->plan.read = read_file;
    s->plan.arg = s;
    size_t most = 1 + spec->file_count + spec->setup_count + spec->output_count * spec->nnodes;
    s->items = arena_array(c->arena, most, sizeof *s->items);
    return s;
}

/* *ret_place: the source in progress when it failed. */
static int gather_all(struct cli *c, const struct spec *spec, const struct roster *roster, bool stored,
                      struct sources **ret, const struct place **ret_place, struct error *err)
{
    struct sources *s = sources_new(c, spec, stored);
    struct gather g = {.c = c, .spec = spec, .roster = roster, .s = s};
    int rc = has_sources(spec) ? find_leave_out(&g, err) : 0;
    if (rc == 0)
        rc = add_workdir(&g, err);
    if (rc == 0)
        rc = add_files(&g, err);
    if (rc == 0)
        rc = add_restores(&g, err);
    free(g.leave_out);
    *ret_place = g.place;
    *ret = rc == 0 ? s : NULL;
    if (rc < 0)
        cli_sources_close(s);
    return rc;
}

int cli_scan_sources(struct cli *c, const struct spec *spec, const struct roster *roster, bool stored,
                     struct sources **ret, struct error *err)
{
    const struct place *place;
    return gather_all(c, spec, roster, stored, ret, &place, err);
}

int cli_sources(struct cli *c, const struct spec *spec, const struct roster *roster, bool stored, struct sources **ret)
{
    struct error err = ERROR_INIT;
    const struct place *place;
    if (spec->lock && spec->lock->repeats)
        return cli_lock_sources(c, spec, roster, ret);
    if (gather_all(c, spec, roster, stored, ret, &place, &err) == 0)
        return 0;
    if (err.code == ERROR_SPEC && place && place->source) { /* with the line of the spec */
        struct diagnostics d = {0};
        struct diagnostic *item = diagnostics_add(&d, SEVERITY_ERROR, *place, "%s", err.text);
        if (err.hint[0])
            diagnostic_hint(item, "%s", err.hint);
        cli_print_diagnostics(c, &d);
        diagnostics_free(&d);
    } else {
        cli_print_error(c, &err);
    }
    return cli_exit_status(&err);
}

void cli_sources_close(struct sources *s)
{
    if (!s)
        return;
    tree_store_close(s->store);
    free(s);
}
