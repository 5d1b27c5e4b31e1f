/*
 * apply --prune: jobs whose specs are not in the tree any more. Their rented machines are given back; runs that are, or
 * may be, active are reported and left alone; runs, logs and files on hosts stay.
 */
#include "apply.h"
#include "renting.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAID_MAX = 1 << 20, DOWN_MS = 3600 * 1000 };

struct prune {
    struct apply *a;
    struct loop *loop;
    size_t cap;
    bool gone; /* result of the current `down` */
};

/* Whether the tree still has the spec, perhaps ignored or with another job name. Then the job is not removed. */
static bool is_there(const struct apply *a, const struct journal_job *job)
{
    for (size_t i = 0; i < a->count; i++)
        if (str_eq(a->jobs[i].job_id, job->id) || str_eq(a->jobs[i].origin, job->origin))
            return true;
    for (size_t i = 0; i < a->folder_count; i++) {
        const struct apply_folder *f = &a->folders[i];
        CLEANUP(cleanup_free) char *file = xasprintf("%s/%s", f->path, job->origin + strlen(f->origin));
        if (str_starts(job->origin, f->origin) && access(file, F_OK) == 0)
            return true;
    }
    return false;
}

static bool is_of_tree(const struct apply *a, const struct journal_job *job)
{
    for (size_t i = 0; i < a->folder_count; i++)
        if (str_starts(job->origin, a->folders[i].origin))
            return true;
    return false;
}

static struct apply_removed *put(struct prune *p, const struct journal_job *job)
{
    struct apply *a = p->a;
    if (a->removed_count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        a->removed = xreallocarray(a->removed, p->cap, sizeof *a->removed);
    }
    struct arena *arena = a->c->arena;
    a->removed[a->removed_count] = (struct apply_removed){.name = arena_strdup(arena, job->name),
                                                          .job_id = arena_strdup(arena, job->id),
                                                          .origin = arena_strdup(arena, job->origin)};
    return &a->removed[a->removed_count++];
}

static void on_down(void *arg, const struct loop_capture_result *result)
{
    struct prune *p = arg;
    p->gone = result->status == 0 && result->signal == 0;
    if (!p->gone && result->error_text && *result->error_text)
        fprintf(stderr, "%s\n", result->error_text);
}

static void give_back(struct prune *p, struct apply_removed *r, const char *cluster)
{
    const char *const argv[] = {"/proc/self/exe", "--quiet", "down", cluster, NULL};
    struct arena *arena = p->a->c->arena;
    struct error err = ERROR_INIT;
    if (p->a->c->given[OPT_DRY_RUN]) {
        r->what = arena_printf(arena, "cluster %s would be given back", cluster);
        return;
    }
    p->gone = false;
    if (loop_capture(p->loop, argv, NULL, NULL, SAID_MAX, DOWN_MS, on_down, p, &err))
        loop_run(p->loop);
    else
        cli_print_error(p->a->c, &err);
    r->what = p->gone ? arena_printf(arena, "cluster %s was given back", cluster)
                      : arena_printf(arena, "cluster %s could not be given back: rhrun down %s", cluster, cluster);
    r->exit_status = p->gone ? 0 : 3;
}

static void prune_one(struct prune *p, const struct journal_job *job)
{
    struct arena *arena = p->a->c->arena;
    struct journal *j;
    struct error err = ERROR_INIT;
    const char *cluster = NULL;
    if (journal_open_read(job->id, &j, &err) < 0) {
        put(p, job)->what = arena_strdup(arena, err.text);
        return;
    }
    const struct state_run *open = state_run_open(journal_state(j));
    if (open)
        put(p, job)->what =
            arena_printf(arena,
                         journal_holder(j, NULL, NULL) ? "run %s goes on: rhrun cancel %s ends it"
                                                       : "run %s is unfinished: rhrun cancel %s ends what is left",
                         open->id, open->id);
    else if (renting_find(job->id, arena, &cluster, &err) < 0)
        put(p, job)->what = arena_strdup(arena, err.text);
    else if (cluster)
        give_back(p, put(p, job), cluster);
    journal_close(j);
}

int apply_prune(struct apply *a)
{
    struct journal_job *jobs;
    size_t count;
    struct error err = ERROR_INIT;
    struct prune p = {.a = a};
    if (journal_jobs(&jobs, &count, &err) < 0)
        return cli_fail(a->c, &err);
    p.loop = loop_create();
    for (size_t i = 0; i < count; i++)
        if (is_of_tree(a, &jobs[i]) && !is_there(a, &jobs[i]))
            prune_one(&p, &jobs[i]);
    loop_destroy(p.loop);
    journal_jobs_free(jobs, count);
    return 0;
}
