/*
 * What gc finds, shows and removes. Each file that finds something adds items. The file that found an item also removes
 * it, and looks again first: a run may have begun in between. Nothing but items is touched.
 *
 *   gc_here.c   the state directory: logs of old runs, snapshots that only old runs name, bundles that rerun unpacked
 *   gc_nodes.c  nodes: working directories that no recent run names, logs there, broken-off uploads
 *   gc_show.c   the table, JSON, the question
 *   gc_rented.c rented machines: these cost money, not space
 *
 * Old means: unused for --older-than. A time in the future (a clock was wrong) is never old. The newest run of each
 * job, its newest run that is done, and each run that is open or held keep all they have.
 */
#ifndef RHRUN_CLI_GCING_H
#define RHRUN_CLI_GCING_H

#include "internal.h"

enum { GC_DAYS = 30 }; /* the default of --older-than */

enum gc_kind { GC_LOGS, GC_SNAPSHOTS, GC_BUNDLE, GC_WORK, GC_NODE_LOGS, GC_UPLOAD };
enum gc_state { GC_FOUND, GC_REMOVED, GC_LEFT /* why says why */ };
struct gc_item {
    enum gc_kind kind;
    const char *node;       /* NULL: here */
    const char *job, *of;   /* id and name; NULL: of no job */
    const char *path;       /* absolute */
    uint64_t count;         /* number of runs or files */
    uint64_t used_ms;       /* last use, wall clock; 0: not known */
    uint64_t bytes;         /* on the disk */
    enum gc_state state;
    const char *why;
    size_t place;           /* index of the node in gc.places */
    const char *name, *run; /* name of a working directory; run of logs */
};
struct gc_places;
struct gc {
    struct cli *c;
    uint64_t now_ms, older_ms;
    const char *only; /* id of the job that the SPEC names; NULL: all */
    struct gc_item *items;
    size_t count, cap;
    struct gc_places *places;
    bool failed; /* something could not be looked at or removed; an error was printed */
};
struct gc_item *gc_add(struct gc *g, const struct gc_item *item);
bool gc_is_old(const struct gc *g, uint64_t used_ms);
/* When the run was last used; and whether it keeps all it has, however old. */
uint64_t gc_run_used(const struct state_run *run);
bool gc_run_kept(const struct gc *g, const struct state *s, const struct state_run *run);
void gc_tell(struct gc *g, const struct error *err); /* prints a fault; gc continues */
void gc_leave(struct gc *g, struct gc_item *item, const struct error *why);

void gc_find_here(struct gc *g);
void gc_remove_here(struct gc *g, struct gc_item *item);

void gc_show(const struct gc *g, bool removed);
void gc_json(const struct gc *g, bool removed, uint32_t clusters);
bool gc_ask(const struct gc *g, uint32_t clusters);
const char *gc_sum(const struct gc *g, enum gc_state state); /* "1.2 GB"; in the arena */

/* Without --yes it prints what it would give back. *ret_todo: the number of clusters and machines. 0, or -1 and err. */
int gc_rented(struct cli *c, uint32_t *ret_todo, struct error *err);

#endif
