/* What the files of plan share: the builder, and the file patterns. */
#ifndef RHRUN_PLAN_INTERNAL_H
#define RHRUN_PLAN_INTERNAL_H

#include "rhrun/plan.h"

enum {
    PLAN_STEPS_MAX = 16384,       /* SPEC_STEPS_MAX of set-up; 1,000 each of `files`, `outputs` and restores; the
                                     rest */
    PLAN_NAME_MAX = 100,          /* bytes of a step's name; it is part of the slot on the node */
    PLAN_VALUE_MAX = 64,          /* longer values are digested */
    PLAN_FILES_MAX = 100000,      /* files that the patterns of one step match */
    PLAN_FILES_NAMED = 256,       /* with more files, one input per pattern, so that recorded inputs stay small */
    PLAN_VISITS_MAX = 1000000,    /* directory entries looked at for one step */
    PLAN_DEPTH_MAX = 64,          /* of folders */
    PLAN_NPROC_MAX = 4096,        /* workers of a node (WIRE_WORKERS_MAX) */
    PLAN_RANKS_MAX = 4 << 20,     /* workers of a launch */
};

enum plan_part { PART_ALL, PART_SETUP, PART_POINT /* everything after set-up, for one point of a sweep */ };

struct plan_builder {
    struct plan *plan;
    enum plan_part part;
    struct arena *arena;
    struct plan_step **steps; /* so that kinds may hold pointers while more are added */
    size_t *input_caps;
    uint64_t **reach;         /* per step: bits of the earlier steps that it chains to, directly or not; NULL = none */
    size_t count, cap;
    bool *all;                /* shared by all steps that run everywhere */
    const char *containers;   /* of the nodes' hosts, each once; an input of every step that runs in one. NULL = none */
    struct error failed;      /* the first fault in a call that cannot return it; plan_compile reports it */
};

/* roles.c: where the roles' workers are; then, once counts are known, their ranks. */
void ranks_of_roles_place(struct plan *plan, struct arena *arena);
int ranks_of_roles_bind(struct plan *plan, const struct plan_facts *facts, struct arena *arena, struct error *err);
int ranks_of_roles_check(const struct plan *plan, uint32_t node, const struct plan_facts *facts, struct error *err);
/* The number of workers that `np` gives on a node; 0 = not known. */
int nproc_count(const struct plan *plan, uint32_t node, const struct spec_nproc *np, const struct plan_facts *facts,
                uint32_t *ret, struct error *err);

/* compile.c: lets the kinds add their steps to a builder; makes keys. */
int builder_ask(struct plan_builder *b, const struct step_kind *const *kinds, struct error *err);
void builder_seal(struct plan_builder *b, struct plan_step *s);
void builder_free(struct plan_builder *b);
/* format_points.c */
uint32_t points_to_do(const struct plan *plan);
void format_points(const struct plan *plan, bool colour, bool verbose, struct buf *b);
void format_points_json(const struct plan *plan, struct buf *b); /* as a member */
/* points.c: the steps of the sweep's points, after the set-up steps in `setup`. */
int points_compile(struct plan_builder *setup, const struct step_kind *const *kinds, struct error *err);

/* Whether a pattern matches a path. Components are matched by fnmatch; `**` stands for any number of them. Both are
 * relative, without "." and "..". */
bool glob_match(const char *pattern, const char *path);
/* Whether something below the folder path may match, so that it must be entered; ret_by_star: only because of a
 * `**`. */
bool glob_may_enter(const char *pattern, const char *path, bool *ret_by_star);
bool glob_has_wildcards(const char *pattern);

/* Why the recorded inputs give a different key: "`run` and env X changed". *ret_after is the name of an earlier step
 * when nothing but edges changed, else NULL. Never NULL. */
const char *plan_change_reason(const struct plan_step *step, const char *recorded_json, const char **ret_after,
                               struct arena *arena);

/* format.c: s in at most `width` columns, cut with "...", without control characters; the columns it took. */
size_t format_clean(struct buf *b, const char *s, size_t width);
void format_verdict(struct buf *b, enum verdict v, bool colour);
/* format_rent.c: the step before all others, and the text below the steps; in JSON a member. plan->rent must not be
 * NULL. */
void format_rent_step(const struct plan *plan, const struct plan_decision *decisions, bool colour, size_t name_width,
                      struct buf *b);
void format_rent_offers(const struct plan *plan, bool verbose, struct buf *b);
void format_rent_json(const struct plan *plan, const struct plan_decision *decisions, struct buf *b);

#endif
