/* Locks on the command line: their part in the journal, and showing them. */
#include "renting.h"

#include <string.h>

/* As `rented` in the lock's schema. */
static struct doc_node *rented_node(struct arena *a, const struct fleet_ledger *l)
{
    struct doc_node *one = doc_new_object(a);
    doc_set(a, one, "cluster", doc_new_string(a, l->wanted.id));
    if (l->offer >= l->wanted.offer_count)
        return one;
    const struct fleet_offer *o = &l->wanted.offers[l->offer];
    doc_set(a, one, "provider", doc_new_string(a, o->provider));
    doc_set(a, one, "type", doc_new_string(a, o->type));
    doc_set(a, one, "region", doc_new_string(a, o->region));
    if (o->zone && *o->zone)
        doc_set(a, one, "zone", doc_new_string(a, o->zone));
    doc_set(a, one, "spot", doc_new_bool(a, o->spot));
    doc_set(a, one, "nodes", doc_new_int(a, o->nodes));
    if (!o->unpriced)
        doc_set(a, one, "usd_per_hour", doc_new_float(a, (double)o->price * o->nodes / 1e6));
    return one;
}

const char *cli_made_of(struct cli *c, const struct plan *plan, struct tree_store *store,
                        const struct fleet_ledger *rented)
{
    const struct spec *spec = plan->spec;
    struct tree_head head;
    struct buf b = {0};
    const char *folder = spec->has_workdir ? spec->workdir.path : spec->dir;
    struct lock_start start = {.plan = plan, .rented = rented ? rented_node(c->arena, rented) : NULL};
    if (spec->lock && spec->lock->repeats) {
        const struct doc_node *git = doc_get(spec->lock->root, "git");
        head = (struct tree_head){.commit = doc_get_string(git, "commit", NULL),
                                  .branch = doc_get_string(git, "branch", NULL),
                                  .knows_dirty = doc_get(git, "dirty") != NULL,
                                  .dirty = doc_get_bool(git, "dirty", false),
                                  .diff = doc_get_string(git, "diff", NULL),
                                  .diff_cut = doc_get_bool(git, "diff_truncated", false)};
        start.head = head.commit ? &head : NULL;
        start.rerun_of = spec->lock->run;
    } else if (folder && tree_head(folder, spec->has_workdir ? plan->sources->workdir : NULL, store, c->arena, &head)) {
        start.head = &head;
    }
    lock_begin(&start, &b);
    const char *text = arena_strdup(c->arena, b.data);
    buf_free(&b);
    return text;
}

int cli_show_lock(struct cli *c, const char *word)
{
    struct journal *j;
    const struct state_run *run;
    struct doc_node *lock;
    struct error err = ERROR_INIT;
    struct buf b = {0};
    if (cli_find_run(c, word, &j, &run, &err) < 0)
        return cli_fail(c, &err);
    int rc = lock_of_run(j, arena_strdup(c->arena, run->id), c->arena, &lock, &err);
    if (rc == 0) {
        lock_write(lock, c->given[OPT_JSON], &b);
        fwrite(b.data, 1, b.len, stdout);
    }
    buf_free(&b);
    journal_close(j);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

int cli_write_lock(struct cli *c, const struct spec *spec)
{
    struct journal *j;
    struct doc_node *lock;
    struct error err = ERROR_INIT;
    struct buf b = {0};
    const char *path = arena_printf(c->arena, "%s/%s.lock.yaml", spec->dir, spec->name);
    if (journal_open_read(spec->job_id, &j, &err) < 0)
        return cli_fail(c, &err);
    const struct state_run *run = state_run_latest(journal_state(j), spec->variant);
    int rc = run ? lock_of_run(j, arena_strdup(c->arena, run->id), c->arena, &lock, &err) : -1;
    if (rc == 0) {
        lock_write(lock, false, &b);
        rc = file_write_atomic(path, b.data, b.len, 0644, &err);
    }
    buf_free(&b);
    journal_close(j);
    if (rc == 0 && !c->given[OPT_QUIET] && !c->given[OPT_JSON])
        fprintf(stderr, "rhrun: %s: what run %s ran from\n", path, doc_get_string(doc_get(lock, "run"), "id", "?"));
    return rc < 0 ? cli_fail(c, &err) : 0;
}
