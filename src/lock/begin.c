/* Facts about a run that are known only at its beginning: event_opened.made_of. */
#include "rhrun/lock.h"
#include "rhrun/roster.h"
#include "rhrun/wire.h"

#include <string.h>

static void put_text(struct arena *a, struct doc_node *to, const char *key, const char *text)
{
    if (text && *text)
        doc_set(a, to, key, doc_new_string(a, text));
}

static void put_tree(struct arena *a, struct doc_node *trees, const char *name, const struct tree *tree,
                     const struct spec_source *source, const char *commit)
{
    if (!tree)
        return;
    struct doc_node *one = doc_new_object(a);
    put_text(a, one, "name", name);
    put_text(a, one, "id", tree->id);
    put_text(a, one, "from", !source ? NULL : source->path ? source->path : source->url.text);
    put_text(a, one, "commit", commit);
    doc_set(a, one, "files", doc_new_int(a, (int64_t)tree->count));
    doc_set(a, one, "bytes", doc_new_int(a, (int64_t)tree->bytes));
    doc_append(a, trees, one);
}

static struct doc_node *trees_of(struct arena *a, const struct plan *plan)
{
    const struct spec *spec = plan->spec;
    const struct plan_sources *s = plan->sources;
    struct doc_node *trees = doc_new_array(a);
    put_tree(a, trees, "workdir", s->workdir, &spec->workdir, s->commit);
    for (size_t i = 0; s->files && i < spec->file_count; i++)
        put_tree(a, trees, spec->files[i].name, s->files[i], &spec->files[i].source, NULL);
    for (size_t i = 0; s->copies && i < spec->setup_count; i++)
        put_tree(a, trees, spec->setup[i].name, s->copies[i], &spec->setup[i].source, NULL);
    for (size_t i = 0; s->restores && i < spec->output_count; i++)
        for (uint32_t n = 0; n < spec->nnodes; n++)
            put_tree(a, trees, arena_printf(a, "restore:%s:%u", spec->outputs[i].name, n),
                     s->restores[i * spec->nnodes + n], NULL, NULL);
    return trees;
}

static struct doc_node *git_of(struct arena *a, const struct tree_head *head)
{
    struct doc_node *git = doc_new_object(a);
    put_text(a, git, "commit", head->commit);
    put_text(a, git, "branch", head->branch);
    if (head->knows_dirty)
        doc_set(a, git, "dirty", doc_new_bool(a, head->dirty));
    put_text(a, git, "diff", head->diff);
    if (head->diff_cut)
        doc_set(a, git, "diff_truncated", doc_new_bool(a, true));
    return git;
}

/* For a sweep: all params of each point, as written. */
static struct doc_node *points_of(struct arena *a, const struct spec_sweep *sweep)
{
    struct doc_node *points = doc_new_array(a);
    for (size_t i = 0; i < sweep->point_count; i++) {
        const struct spec_point *p = &sweep->points[i];
        struct doc_node *one = doc_new_object(a), *params = doc_new_object(a);
        put_text(a, one, "name", p->name);
        for (size_t k = 0; k < p->param_count; k++)
            doc_set(a, params, p->params[k].name, doc_new_string(a, p->params[k].value));
        doc_set(a, one, "params", params);
        doc_append(a, points, one);
    }
    return points;
}

static struct doc_node *env_of(struct arena *a, const struct spec *spec)
{
    struct doc_node *env = doc_new_object(a);
    const struct spec_env *lists[] = {spec->env, spec->entrypoint.env};
    const size_t counts[] = {spec->env_count, spec->entrypoint.env_count};
    char hex[65];
    for (size_t k = 0; k < ARRAY_LEN(lists); k++)
        for (size_t i = 0; i < counts[k]; i++)
            if (lists[k][i].from_caller && lists[k][i].value.text) {
                digest_sha256_hex(lists[k][i].value.text, strlen(lists[k][i].value.text), hex);
                put_text(a, env, lists[k][i].name, hex);
            }
    return env;
}

static struct doc_node *images_of(struct arena *a, const struct plan *plan)
{
    struct doc_node *images = doc_new_array(a);
    bool any = false;
    for (uint32_t n = 0; n < plan->node_count; n++) {
        const struct spec_container *c = roster_host(plan->roster, n)->container;
        any = any || c;
        doc_append(a, images, doc_new_string(a, c ? c->image : ""));
    }
    return any ? images : NULL;
}

void lock_begin(const struct lock_start *start, struct buf *ret)
{
    struct arena *a = arena_create();
    struct doc_node *made = doc_new_object(a), *env = env_of(a, start->plan->spec);
    struct doc_node *images = images_of(a, start->plan);
    doc_set(a, made, "format", doc_new_int(a, LOCK_FORMAT));
    doc_set(a, made, "agent", doc_new_int(a, WIRE_VERSION));
    put_text(a, made, "rerun_of", start->rerun_of);
    doc_set(a, made, "trees", trees_of(a, start->plan));
    if (start->plan->spec->sweep)
        doc_set(a, made, "points", points_of(a, start->plan->spec->sweep));
    if (start->head)
        doc_set(a, made, "git", git_of(a, start->head));
    if (env->count > 0)
        doc_set(a, made, "env", env);
    if (images)
        doc_set(a, made, "images", images);
    if (start->rented)
        doc_set(a, made, "rented", doc_clone(a, start->rented));
    if (start->plan->spec->resolved)
        doc_set(a, made, "resolved", doc_clone(a, start->plan->spec->resolved));
    doc_to_json(made, DOC_JSON_PLAIN, ret);
    arena_destroy(a);
}
