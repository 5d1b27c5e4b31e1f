/* Files that were sent to a node and that set-up steps changed there. The node reports these files (PATCHED). Such a
 * file counts as present while the step that changed it is kept, its source has not changed, and the file is as that
 * step left it. Otherwise the file is restored, and the step runs again, with the steps that are chained to it. All
 * files that the step changed are restored first, so that the step finds the same files as the first time. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY SIZE_MAX

struct lane_patch {
    const char *tree, *attempt, *path;
    uint8_t oid[WIRE_OID_SIZE]; /* of the source that the step found */
    uint32_t mode;              /* of that source; 0: the file is not as the step left it, or was restored */
    const char *why;            /* why mode is 0, if this controller set it to 0; else NULL */
    bool back;                  /* the file must be restored */
    size_t owner;               /* index of the struct owner that changed it; NOBODY: no kept step did */
    const struct plan_step *by; /* the step that brings the tree, or NULL */
};

/* A step that is kept on a lane of the home, with the content of its attempt's record. */
struct owner {
    struct lane *lane;
    const struct plan_step *step;
    const char *attempt;
    uint64_t sequence;
    uint32_t left; /* changed files that the node has not reported yet */
};
struct judge {
    struct run *run;
    uint32_t first; /* first lane of the home */
    struct owner *owners;
    size_t owner_count;
    struct lane_patch **patches; /* of all lanes of the home, sorted by tree and path */
    size_t patch_count;
    bool changed;
};

/* ---- what the node reports ---- */

void patches_add(struct lane *lane, const struct wire_sync_state *s)
{
    struct error err = ERROR_INIT;
    uint64_t bytes = s->file_count * sizeof *lane->patches;
    for (uint32_t i = 0; i < s->file_count; i++)
        bytes += strlen(s->files[i].path);
    if (room_say(lane, bytes, &err) < 0) {
        error_prefix(&err, "node \"%s\"", lane->name);
        run_refuse(lane, &err);
        return;
    }
    const struct lane_patch *last = lane->patch_count ? &lane->patches[lane->patch_count - 1] : NULL;
    const char *tree = last && strcmp(last->tree, s->base) == 0 ? last->tree : arena_strdup(lane->arena, s->base);
    const char *attempt =
        last && strcmp(last->attempt, s->attempt) == 0 ? last->attempt : arena_strdup(lane->arena, s->attempt);
    for (uint32_t i = 0; i < s->file_count; i++) {
        if (lane->patch_count == lane->patch_cap) {
            lane->patch_cap = lane->patch_cap ? 2 * lane->patch_cap : 16;
            lane->patches = xreallocarray(lane->patches, lane->patch_cap, sizeof *lane->patches);
        }
        struct lane_patch *p = &lane->patches[lane->patch_count++];
        *p = (struct lane_patch){.tree = tree,
                                 .attempt = attempt,
                                 .path = arena_strdup(lane->arena, s->files[i].path),
                                 .mode = s->files[i].mode};
        memcpy(p->oid, s->files[i].oid, sizeof p->oid);
    }
}

/* Forgets the changes by earlier attempts of the step: this attempt has changed the files again, or they were restored
 * before it ran. */
static void drop_older(struct lane *lane, const struct plan_step *step, const char *attempt)
{
    size_t kept = 0;
    for (size_t i = 0; i < lane->patch_count; i++) {
        const struct lane_patch *p = &lane->patches[i];
        const struct wire_record *rec = strcmp(p->attempt, attempt) == 0 ? NULL : lane_record(lane, p->attempt);
        if (!rec || strcmp(rec->slot, step->slot) != 0)
            lane->patches[kept++] = *p;
    }
    lane->patch_count = kept;
}

void patches_ended(struct lane *lane, const struct plan_step *step, const struct wire_record *rec)
{
    if (!step->kind->cached)
        return;
    for (size_t i = 0; i < lane->record_count; i++)
        if (strcmp(lane->records[i].attempt, rec->attempt) == 0)
            lane->records[i--] = lane->records[--lane->record_count];
    lane_keep_record(lane, rec);
    if (!wire_record_success(rec))
        return;
    drop_older(lane, step, rec->attempt);
    uint8_t *check = step->kind->sync ? &lane->trees[step->id] : &lane->creates[step->id];
    if (*check != CHECK_UNASKED)
        *check = CHECK_YES;
}

/* ---- judging ---- */

static struct lane *next_lane(const struct judge *j, struct lane *lane)
{
    struct lane *next = lane ? &j->run->lanes[lane->home_next] : &j->run->lanes[j->first];
    return next == lane ? NULL : next;
}

/* The step that brings the tree to the lane's node, or NULL. The name of a tree in the working directory contains the
 * directory's name. */
static const struct plan_step *bringer(const struct lane *lane, const char *tree)
{
    const struct run *r = lane->run;
    const struct plan_step *ret = NULL;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < r->plan->step_count && !ret; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (step_checks_tree(step, lane->index) &&
            str_eq(step_tree_name(step->tree_name, step->tree_root, r->work, arena), tree))
            ret = step;
    }
    arena_destroy(arena);
    return ret;
}

static int by_file(const void *a, const void *b)
{
    const struct lane_patch *x = *(struct lane_patch *const *)a, *y = *(struct lane_patch *const *)b;
    int order = strcmp(x->tree, y->tree);
    return order ? order : strcmp(x->path, y->path);
}

static void find_owners(struct judge *j)
{
    size_t cap = 0;
    for (struct lane *lane = NULL; (lane = next_lane(j, lane));)
        cap += j->run->plan->step_count;
    j->owners = xcalloc(cap + 1, sizeof *j->owners);
    for (struct lane *lane = NULL; (lane = next_lane(j, lane));)
        for (size_t i = 0; i < j->run->plan->step_count; i++) {
            const struct plan_step *step = &j->run->plan->steps[i];
            const char *attempt = step->kind->cached && step->kind->build ? lane_believes(lane, step) : NULL;
            const struct wire_record *rec = attempt ? lane_record(lane, attempt) : NULL;
            if (rec)
                j->owners[j->owner_count++] = (struct owner){lane, step, attempt, rec->sequence, rec->patched};
        }
}

static void gather(struct judge *j)
{
    for (struct lane *lane = NULL; (lane = next_lane(j, lane));)
        j->patch_count += lane->patch_count;
    j->patches = xcalloc(j->patch_count + 1, sizeof(struct lane_patch *));
    j->patch_count = 0;
    for (struct lane *lane = NULL; (lane = next_lane(j, lane));)
        for (size_t i = 0; i < lane->patch_count; i++) {
            struct lane_patch *p = &lane->patches[i], *before = i ? p - 1 : NULL;
            p->back = false;
            p->owner = before ? before->owner : NOBODY; /* patches come sorted by tree and attempt */
            p->by = before && strcmp(before->tree, p->tree) == 0 ? before->by : bringer(lane, p->tree);
            if (!before || strcmp(before->attempt, p->attempt) != 0) {
                p->owner = NOBODY;
                for (size_t k = 0; k < j->owner_count && p->owner == NOBODY; k++)
                    if (strcmp(j->owners[k].attempt, p->attempt) == 0)
                        p->owner = k;
            }
            if (p->mode && p->owner != NOBODY && j->owners[p->owner].lane == lane && j->owners[p->owner].left)
                j->owners[p->owner].left--;
            j->patches[j->patch_count++] = p;
        }
    qsort(j->patches, j->patch_count, sizeof(struct lane_patch *), by_file);
}

static const char **stale_of(const struct owner *o)
{
    return &o->lane->stale[o->step->id];
}

static void make_stale(struct judge *j, const struct owner *o, const char *what, const char *rest)
{
    if (*stale_of(o))
        return;
    *stale_of(o) = arena_printf(j->run->arena, "%s%s", what, rest);
    j->changed = true;
}

static bool source_changed(const struct lane_patch *p)
{
    const struct tree_file *f = p->by ? tree_find(p->by->tree, p->path) : NULL;
    return p->by && (!f || f->mode != p->mode || memcmp(f->oid, p->oid, sizeof p->oid) != 0);
}

static const char other_source[] = ", which it changes, is a different file now",
                  put_back[] = ", which it changed, is restored";

/* Judges all patches of one file. */
static void judge_file(struct judge *j, struct lane_patch **patches, size_t count)
{
    bool back = false;
    for (size_t i = 0; i < count; i++) {
        struct lane_patch *p = patches[i];
        const struct owner *o = p->owner == NOBODY ? NULL : &j->owners[p->owner];
        if (o && p->mode && source_changed(p))
            make_stale(j, o, p->path, other_source);
        else if (o && !p->mode)
            make_stale(j, o, p->path, p->why ? p->why : ", which it changed, is not as the step left it");
        back = back || (p->mode && (!o || *stale_of(o)));
    }
    for (size_t i = 0; back && i < count; i++) {
        struct lane_patch *p = patches[i];
        if (!p->mode)
            continue;
        j->changed = j->changed || !p->back;
        p->back = true;
        if (p->owner != NOBODY)
            make_stale(j, &j->owners[p->owner], p->path, put_back);
    }
}

static void judge_files(struct judge *j)
{
    for (size_t i = 0, n; i < j->patch_count; i += n) {
        for (n = 1; i + n < j->patch_count && by_file(&j->patches[i], &j->patches[i + n]) == 0;)
            n++;
        judge_file(j, j->patches + i, n);
    }
}

/* A step whose key chains to a step that changes files must run after that step. */
static void judge_chains(struct judge *j)
{
    const struct plan *plan = j->run->plan;
    for (size_t i = 0; i < j->owner_count; i++) {
        struct owner *o = &j->owners[i];
        for (size_t k = 0; k < o->step->id && !*stale_of(o); k++) {
            const struct plan_step *before = &plan->steps[k];
            const struct wire_record *latest =
                before->kind->build && before->on[o->lane->index] ? lane_latest(o->lane, before) : NULL;
            if (!latest || !latest->patched || before->kind->verify || !plan_chains(plan, o->step, before))
                continue;
            if (latest->sequence > o->sequence)
                make_stale(j, o, before->name, " ran after it");
            else if (o->lane->stale[before->id] || !lane_believes(o->lane, before))
                make_stale(j, o, before->name, ", which comes before it and changes files, runs again");
        }
    }
}

static bool has_changes(const struct judge *j)
{
    for (struct lane *lane = NULL; (lane = next_lane(j, lane));) {
        if (lane->patch_count)
            return true;
        for (size_t i = 0; i < lane->record_count; i++)
            if (lane->records[i].patched)
                return true;
    }
    return false;
}

void patches_judge(struct lane *lane)
{
    struct run *r = lane->run;
    size_t steps = r->plan->step_count;
    if (!r->patched)
        return;
    struct judge j = {.run = r, .first = homes_first(r, lane->index)};
    bool any = has_changes(&j);
    for (struct lane *l = NULL; (l = next_lane(&j, l));) {
        if (any && !l->stale)
            l->stale = arena_array(r->arena, steps + 1, sizeof *l->stale);
        if (l->stale)
            memset(l->stale, 0, steps * sizeof *l->stale);
    }
    if (!any)
        return;
    find_owners(&j);
    gather(&j);
    judge_files(&j);
    for (size_t i = 0; i < j.owner_count; i++)
        if (j.owners[i].left)
            make_stale(&j, &j.owners[i], "a file that it changed", " is not as the step left it");
    do {
        j.changed = false;
        judge_files(&j);
        judge_chains(&j);
    } while (j.changed);
    free(j.owners);
    free(j.patches);
}

/* ---- what follows ---- */

const char *patches_reason(const struct lane *lane, const struct plan_step *step)
{
    for (size_t i = 0; step->kind->sync && i < lane->patch_count; i++)
        if (lane->patches[i].by == step && lane->patches[i].back && lane->patches[i].mode)
            return "files that a later step changed are restored";
    return lane->stale ? lane->stale[step->id] : NULL;
}

struct wire_strings patches_to_put_back(const struct lane *lane, const char *tree, struct arena *arena)
{
    struct wire_strings ret = {arena_array(arena, lane->patch_count + 1, sizeof(char *)), 0};
    for (size_t i = 0; i < lane->patch_count; i++)
        if (lane->patches[i].back && lane->patches[i].mode && strcmp(lane->patches[i].tree, tree) == 0)
            ret.items[ret.count++] = (char *)(uintptr_t)lane->patches[i].path;
    return ret;
}

void patches_sent(struct lane *lane, const char *tree, const char *path)
{
    const struct judge j = {.run = lane->run, .first = homes_first(lane->run, lane->index)};
    for (struct lane *l = NULL; (l = next_lane(&j, l));)
        for (size_t i = 0; i < l->patch_count; i++)
            if (l->patches[i].mode && strcmp(l->patches[i].path, path) == 0 && strcmp(l->patches[i].tree, tree) == 0) {
                l->patches[i].why = source_changed(&l->patches[i]) ? other_source
                                    : l->patches[i].back           ? put_back
                                                                   : NULL;
                l->patches[i].mode = 0;
            }
}

void patches_doubt(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (!step_checks_tree(step, lane->index))
            continue;
        uint32_t leader = step->shared ? homes_leader(r, step, lane->index) : lane->index;
        r->lanes[leader].trees[i] = CHECK_DOUBT;
        run_has_patches(r);
    }
}

void patches_reset(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count && r->patched; i++)
        if (r->plan->steps[i].kind->phase == PHASE_SETUP &&
            task_in_flight(run_task(r, &r->plan->steps[i], lane->index)))
            return;
    patches_judge(lane);
    for (size_t i = 0; i < r->plan->step_count && r->patched; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        bool leads = !step->shared || homes_leader(r, step, lane->index) == lane->index;
        if (step->kind->phase != PHASE_SETUP || !step->on[lane->index] || !t->decided || !leads || !task_is_done(t) ||
            (lane->trees[i] != CHECK_DOUBT && !patches_reason(lane, step)))
            continue;
        if (lane_resumes(lane)) { /* a launch is being resumed: nothing is changed under running workers */
            lane_set_doubtful(lane, true);
            continue;
        }
        if (++t->undone > UNDONE_MAX) {
            struct error err = ERROR_INIT;
            error_set(&err, ERROR_JOB, "node \"%s\": step \"%s\" was undone %d times: %s", lane->name, step->name,
                      UNDONE_MAX, patches_reason(lane, step) ? patches_reason(lane, step) : "looked at");
            error_hint(&err, "does something else change the files there, or does a step leave something running?");
            run_fail(r, RUN_FAILED, &err);
            return;
        }
        task_set_state(r, t, TASK_PENDING);
        task_look(t, false);
    }
}
