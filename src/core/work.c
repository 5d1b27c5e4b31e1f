/* Finds the run's working directory on the nodes: the variant's, or the one that the last --fresh made. The journal
 * says which one it is. A journal without any work of the variant (it is new, or the state directory was lost) learns
 * it from the nodes. */
#include "internal.h"

#include <string.h>

enum {
    OF_VARIANT =
        8, /* the name that --fresh makes begins with this many digits of the variant, so that its owner is known */
    PLACES_MAX = 64, /* how many names are compared at most */
};

/* After --fresh the name is one that no other run ever had, in this state directory or in a lost one. Older runs, whose
 * events have no name, made the name from the number of --fresh runs so far. */
const char *work_name(struct run *r, uint32_t flags, bool opening)
{
    const char *variant = r->plan->spec->variant;
    char hex[65];
    unsigned counted = 0;
    const struct state_run *latest = NULL;
    if (opening && (flags & RUN_FLAG_FRESH)) {
        run_chance(r, hex, 4);
        return r->work ? r->work /* the nodes were greeted with this name already */
                       : arena_printf(r->arena, "%.*s%s", OF_VARIANT, variant, hex);
    }
    for (size_t i = 0; i < r->state->run_count; i++) {
        const struct state_run *run = &r->state->runs[i];
        if (str_eq(run->variant, variant) && (run->work || (run->flags & RUN_FLAG_FRESH))) {
            latest = run;
            counted += (run->flags & RUN_FLAG_FRESH) != 0;
        }
    }
    if (!latest)
        return variant;
    if (latest->work)
        return latest->work;
    CLEANUP(cleanup_free) char *text = xasprintf("%s fresh %u", variant, counted);
    digest_sha256_hex(text, strlen(text), hex);
    return arena_strndup(r->arena, hex, 16);
}

bool work_known(const struct run *r)
{
    for (size_t i = 0; i < r->state->run_count; i++)
        if (r->state->runs[i].work && str_eq(r->state->runs[i].variant, r->plan->spec->variant))
            return true;
    for (size_t i = 0; i < r->state->cell_count; i++) {
        const struct state_run *run = state_run_find(r->state, r->state->cells[i].run);
        if (run && str_eq(run->variant, r->plan->spec->variant))
            return true;
    }
    return false;
}

/* Whether the name can be that of a working directory of the variant. A node may send any name, and all other nodes
 * would be greeted with it. */
static bool is_name(const struct run *r, const char *name)
{
    return str_is_hex(name, 16) && strncmp(name, r->plan->spec->variant, OF_VARIANT) == 0;
}

/* The node's last claim in the directory `work`; NULL: in any directory of the variant. */
static const struct wire_record *last_claim(const struct lane *lane, const char *work)
{
    const struct wire_record *best = NULL;
    for (size_t i = 0; i < lane->record_count; i++) {
        const struct wire_record *r = &lane->records[i];
        bool of_it = work ? strcmp(r->variant, work) == 0 : is_name(lane->run, r->variant);
        if (of_it && (!best || r->sequence > best->sequence))
            best = r;
    }
    return best;
}

/* Whether a node has claims in this directory, and later ones in another. */
static bool was_left(const struct run *r, const char *work)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_record *last = last_claim(&r->lanes[n], NULL);
        if (last && strcmp(last->variant, work) != 0 && last_claim(&r->lanes[n], work))
            return true;
    }
    return false;
}

static bool is_among(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The current directory: of the directories with a node's last claim, one that no node has left for another. (The
 * controller that made a directory may have been killed before all nodes had a claim in it.) If nodes still differ, a
 * directory that --fresh made comes first, then the one claimed last. NULL: there are no claims. */
static const char *current(const struct run *r)
{
    const char *seen[PLACES_MAX], *variant = r->plan->spec->variant;
    const struct wire_record *best = NULL;
    size_t count = 0;
    for (uint32_t n = 0; n < r->plan->node_count && count < PLACES_MAX; n++) {
        const struct wire_record *last = last_claim(&r->lanes[n], NULL);
        if (!last || is_among(seen, count, last->variant))
            continue;
        seen[count++] = last->variant;
        if (was_left(r, last->variant))
            continue;
        bool made = strcmp(last->variant, variant) != 0, best_made = best && strcmp(best->variant, variant) != 0;
        if (!best || made > best_made || (made == best_made && last->claim_wall_ms > best->claim_wall_ms))
            best = last;
    }
    return best ? best->variant : NULL;
}

struct wire_strings work_trees(struct run *r, uint32_t node)
{
    struct wire_strings ret = {arena_array(r->arena, 3 * r->plan->step_count + 1, sizeof(char *)), 0};
    for (size_t s = 0; s < r->plan->step_count; s++) {
        const struct plan_step *step = &r->plan->steps[s];
        if (!step_checks_tree(step, node))
            continue;
        char **item = &ret.items[ret.count];
        item[0] = arena_strdup(r->arena, step_tree_name(step->tree_name, step->tree_root, r->work, r->arena));
        item[1] = arena_strdup(r->arena, step->tree_root);
        item[2] = arena_strdup(r->arena, step->tree->id);
        ret.count += 3;
    }
    return ret;
}

static void set_seeking(struct run *r, bool seeking)
{
    r->seeking = seeking;
}

void work_begin(struct run *r, uint32_t flags)
{
    set_seeking(r, !(flags & RUN_FLAG_FRESH) && !work_known(r));
}

bool work_seek(struct run *r)
{
    if (!r->seeking)
        return false;
    set_seeking(r, false);
    const char *name = current(r);
    if (!name || str_eq(name, r->work))
        return false;
    r->work = arena_strdup(r->arena, name);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_strings trees = work_trees(r, n);
        if (r->lanes[n].state != LANE_FAILED)
            lane_ask_anew(&r->lanes[n]);
        run_effect(r, &(struct effect){
                          .kind = EFFECT_GREET, .node = n, .work = arena_strdup(r->arena, name), .trees = &trees});
    }
    return true;
}

void work_heard(struct run *r)
{
    if (!r->seeking || r->opening == OPENING_PROBES || r->options.mode != RUN_EXECUTE || !run_all_answered(r) ||
        work_seek(r))
        return;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].state == LANE_LISTED)
            lane_reconcile(&r->lanes[n]);
}
