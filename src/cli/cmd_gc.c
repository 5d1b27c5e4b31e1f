/* rhrun gc: frees disk space, here and on nodes, and gives back rented machines that nobody uses any more. */
#include "gcing.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DAY_MS = 24 * 3600 * 1000 };

struct gc_item *gc_add(struct gc *g, const struct gc_item *item)
{
    if (g->count == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->items = xreallocarray(g->items, g->cap, sizeof *g->items);
    }
    g->items[g->count] = *item;
    return &g->items[g->count++];
}

bool gc_is_old(const struct gc *g, uint64_t used_ms)
{
    return used_ms > 0 && used_ms <= g->now_ms && g->now_ms - used_ms >= g->older_ms;
}

void gc_tell(struct gc *g, const struct error *err)
{
    cli_print_error(g->c, err);
    g->failed = true;
}

void gc_leave(struct gc *g, struct gc_item *item, const struct error *why)
{
    char *text = arena_strdup(g->c->arena, why->text);
    str_printable(text);
    item->state = GC_LEFT;
    item->why = text;
    g->failed = g->failed || why->code != ERROR_HELD;
}

static int options_of(struct gc *g, struct error *err)
{
    const struct cli *c = g->c;
    const char *older = c->value[OPT_OLDER_THAN];
    g->now_ms = wall_ms();
    g->older_ms = (uint64_t)GC_DAYS * DAY_MS;
    if (older && !parse_duration_ms(older, &g->older_ms)) {
        error_set(err, ERROR_USAGE, "--older-than: \"%s\" is not a time", older);
        error_hint(err, "30d, 12h, 0s");
        return -1;
    }
    if (c->given[OPT_DRY_RUN] && c->given[OPT_YES])
        return error_set(err, ERROR_USAGE, "--dry-run changes nothing, and --yes is to change something");
    if (c->word_count && (c->given[OPT_PROVIDER] || c->given[OPT_REGION]))
        return error_set(err, ERROR_USAGE, "--provider and --region are about rented machines, not about a SPEC");
    return 0;
}

static int find_spec(struct gc *g)
{
    struct spec *spec;
    char id[17];
    int rc = cli_load_spec(g->c, g->c->words[0], &spec);
    if (rc)
        return rc;
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), id);
    g->only = arena_strdup(g->c->arena, id);
    return 0;
}

static void remove_all(struct gc *g)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, SIG_IGN); /* journal_request sends it to the holder of a job's lock */
    for (size_t i = 0; i < g->count; i++)
        if (!g->items[i].node)
            gc_remove_here(g, &g->items[i]);
}

/* Shows what can be removed from disks; with --yes, or after a yes to the question, removes it. */
static int disks(struct gc *g, uint32_t clusters)
{
    struct cli *c = g->c;
    const bool json = c->given[OPT_JSON], asks = isatty(0) && isatty(2) && !json && !c->given[OPT_DRY_RUN];
    bool yes = c->given[OPT_YES];
    if (!json && !yes)
        gc_show(g, false);
    if (!yes && asks && (g->count || clusters) && gc_ask(g, clusters))
        yes = c->given[OPT_YES] = true;
    if (yes)
        remove_all(g);
    if (json)
        gc_json(g, yes, clusters);
    else if (yes)
        gc_show(g, true);
    if (json || c->given[OPT_QUIET])
        return 0;
    if (yes)
        fprintf(stderr, g->count ? "rhrun: %s freed\n" : "rhrun: nothing to remove\n", gc_sum(g, GC_REMOVED));
    else if (g->count == 0)
        fputs("rhrun: nothing to remove\n", stderr);
    else if (!asks)
        fprintf(stderr, "rhrun: %s can be freed: rhrun gc --yes does it\n", gc_sum(g, GC_FOUND));
    return 0;
}

static int cmd_gc(struct cli *c)
{
    struct gc g = {.c = c};
    struct error err = ERROR_INIT;
    uint32_t todo = 0;
    int rc = options_of(&g, &err) < 0 ? cli_fail(c, &err) : c->word_count ? find_spec(&g) : 0;
    if (rc)
        return rc;
    const bool machines = !c->word_count, only_machines = c->given[OPT_PROVIDER] || c->given[OPT_REGION];
    if (!only_machines)
        gc_find_here(&g);
    if (machines && gc_rented(c, &todo, &err) < 0)
        rc = cli_fail(c, &err);
    if (!only_machines) {
        const bool before = c->given[OPT_YES];
        (void)disks(&g, todo);
        if (!before && c->given[OPT_YES] && machines && todo && gc_rented(c, &todo, &err) < 0)
            rc = cli_fail(c, &err);
    }
    free(g.items);
    return rc ? rc : g.failed ? 3 : 0;
}

static const enum cli_option_id gc_options[] = {OPT_YES,      OPT_DRY_RUN, OPT_OLDER_THAN, OPT_ALL,
                                                OPT_PROVIDER, OPT_REGION,  OPT_SET,        OPT_PARAM,
                                                OPT_ON,       OPT_TRUST,   OPT_COUNT};
const struct cli_command cmd_gc_command = {
    "gc",
    "[SPEC]",
    "Free disk, and give back rented machines that nobody uses",
    "Shows what nobody has used for 30 days (--older-than), how large it is, and\n"
    "asks; --yes answers, --dry-run only looks. On this machine: logs of old runs,\n"
    "snapshots of files that only old runs name, bundles that were rerun. Keeps each\n"
    "job's newest run, everything unfinished or in use, results and the history.\n"
    "With a SPEC: only that job, also on its nodes: working directories of old\n"
    "variants, and logs. A run that needs what was removed does it again.\n"
    "Rented machines count as unused if their rhrun ended while it rented, used, or\n"
    "gave them back, or if their time is over. With --provider, asks that provider\n"
    "for all machines that rhrun made, and also deletes those that are yours, that\n"
    "are in no ledger here, and whose time is over; with --all also those whose time\n"
    "is not over. Exit status 3: something could not be removed, or proven gone.",
    gc_options,
    0,
    1,
    false,
    cmd_gc};
