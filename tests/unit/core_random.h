/*
 * A random job in a world (core_world.h), the faults that a seed has for it, and the invariants:
 *   - an attempt is started at most once, and no program while another one of its slot runs there;
 *   - a program that ended well is never started again, unless its node lost power before its work was settled, is
 *     another machine, or lost the created files;
 *   - a launch is started again only after one of its parts did not end well, or its run was given up; a part that ended
 *     well in it is not;
 *   - an item of set-up starts nowhere before the earlier ones with `on: first` have ended well on the first node;
 *   - files are fetched for good from a node only when nothing of the launch runs there, and not again once they are
 *     here; a launch is not done again because files were not there;
 *   - a rule that replaces machines counts at most its `times`;
 *   - no outcome is called unknown if no fault happened;
 *   - a controller comes to an end, and in the end the job is done; on the nodes, too, where nothing is left running;
 *     all outputs are here, each fetched after the end of the final launch.
 *
 * How a program ends is a function of the seed, the node, the step and its number (of a launch: of the generation among
 * all of the job): whoever starts it, and when, it ends so. Whether files are there is a function of the seed, the node,
 * the step and the number of runs that were closed; that a fetch breaks off is a fault.
 */
#ifndef RHRUN_TEST_CORE_RANDOM_H
#define RHRUN_TEST_CORE_RANDOM_H

#include "core_world.h"
#include "seeds.h"
#include "sim_made_up.h"

enum { RANDOM_NODES_MAX = 4, RANDOM_STEPS_MAX = 8, RANDOM_OUTPUTS_MAX = 2, RANDOM_CONTROLLERS_MAX = 150 };

struct random_file { /* an output of a node */
    char generation[WORLD_LAUNCH]; /* the latest launch when all of it was fetched */
};

struct random_job {
    uint64_t seed, rng; /* rng: of faults */
    uint32_t faults, struck; /* faults left, and faults used */
    uint32_t controllers;
    struct arena *arena;
    struct spec spec;
    struct spec_host hosts[RANDOM_NODES_MAX];
    struct spec_step setup[RANDOM_STEPS_MAX];
    struct spec_output outputs[RANDOM_OUTPUTS_MAX];
    struct plan *plan;
    size_t launch; /* the step */
    struct world *world;
    uint64_t began_us, began_steps; /* of the present controller */
    uint64_t still_us, still;       /* since when time has stood still, in steps */
    struct spec_rule rules[2]; /* of rented machines: each replaces a node */
    bool vanished[RANDOM_NODES_MAX]; /* its machine is gone; it is replaced before the next controller starts */
    bool elastic, forgot, seen, rented;
    const char *from; /* for --from */
    size_t redoing;   /* that step and the later ones, in the present run: number, from 1 */
    bool unmade;      /* something that a step creates was removed since the launch began */
    bool kills; /* the controller is killed next */
    struct buf log;
    char violation[300]; /* the first; "": none */
    /* facts so far */
    struct made_up_track track[RANDOM_STEPS_MAX][RANDOM_NODES_MAX];
    struct random_file files[RANDOM_OUTPUTS_MAX][RANDOM_NODES_MAX];
    char generation[WORLD_LAUNCH]; /* of the latest launch */
    char last[RANDOM_NODES_MAX][WORLD_LAUNCH]; /* the generation of the node's part */
    bool disturbed[RANDOM_NODES_MAX];
    bool closed_badly; /* MIN:MAX, and the latest run failed: the next one launches again (reopen.c) */
    bool launch_excused, epilog_failed, launch_ok[RANDOM_NODES_MAX], launch_live[RANDOM_NODES_MAX];
    bool part[RANDOM_NODES_MAX]; /* in the end, by the journal: it ended well */
    bool launch_lost[RANDOM_NODES_MAX]; /* its node lost power, or was replaced, since it started there */
};

enum random_flag {
    RANDOM_VERBOSE = 1,
    RANDOM_NO_FILES = 4, /* no outputs, no preflight: for seeds that found a fault before worlds had these */
    RANDOM_RENTED = 8, /* machines vanish, and rules replace them */
    RANDOM_SEEN = 2 /* a removal on a node is seen soon: its connection is lost too */
};
/* core_random_job.c: the spec and plan of the seed. */
void random_job_make(struct random_job *job, uint64_t *rng, unsigned flags);
/* The job of that seed, not yet begun, with at most that many of its faults. */
struct random_job *random_job_create(uint64_t seed, uint32_t faults_max, unsigned flags);
void random_job_destroy(struct random_job *job);
/* One event happens, perhaps after a fault; controllers come and go. False: the job is done, or an invariant is
 * violated. */
bool random_job_step(struct random_job *job);
void random_job_check(struct random_job *job); /* checks that a finished job is really done */
/* A copy of the job's world, without faults, for its arg. Nothing is checked in it. */
extern const struct world_watch random_quiet;
/* For a started program: the number that decides how it ends. */
uint32_t random_start_number(const struct random_job *job, const struct world *w, const struct plan_step *step,
                             const char *launch, uint32_t number);

#endif
