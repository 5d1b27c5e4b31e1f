/*
 * A random job in a world (core_world.h), the faults that a seed has for it, and what must hold of it whatever happens:
 *   - an attempt is started at most once, and no program while another one of its slot runs there;
 *   - a program that ended well is never started again, unless its node lost power before what it did was settled, is
 *     another machine, or what it created is gone;
 *   - a launch is started again only after one of its parts did not end well, or its run was given up; a part that ended
 *     well in it is not;
 *   - an item of set-up starts nowhere before the earlier ones with `on: first` have ended well on the first node;
 *   - files are fetched for good from a node only when nothing of the launch runs there, and not again once they are
 *     here; a launch is not done again because files were not there;
 *   - a rule that replaces machines counts no more often than it may;
 *   - the outcome of nothing is called unknown where nothing happened;
 *   - a controller comes to an end, and in the end the job is done: on the nodes, too, where nothing is left running,
 *     and with all outputs, each fetched after the end of the launch that the job is done with.
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

struct random_file { /* what an output brings from a node */
    char generation[WORLD_LAUNCH]; /* the launch at hand when all of it was fetched */
};

struct random_job {
    uint64_t seed, rng; /* rng: of faults */
    uint32_t faults, struck; /* that are left, that there were */
    uint32_t controllers;
    struct arena *arena;
    struct spec spec;
    struct spec_host hosts[RANDOM_NODES_MAX];
    struct spec_step setup[RANDOM_STEPS_MAX];
    struct spec_output outputs[RANDOM_OUTPUTS_MAX];
    struct plan *plan;
    size_t launch; /* the step */
    struct world *world;
    uint64_t began_us, began_steps; /* the controller at hand */
    uint64_t still_us, still;       /* since when time stands still, in steps */
    struct spec_rule rules[2]; /* of rented machines: both replace a node */
    bool vanished[RANDOM_NODES_MAX]; /* its machine is gone; who starts the next controller replaces it before */
    bool elastic, forgot, seen, rented;
    const char *from; /* for --from */
    size_t redoing;   /* that step and those behind it, in the run at hand: number, from 1 */
    bool unmade;      /* what a step had created was removed, since the launch began */
    bool kills; /* the next thing that happens is the controller's end */
    struct buf log;
    char violation[300]; /* the first; "": none */
    /* what has happened */
    struct made_up_track track[RANDOM_STEPS_MAX][RANDOM_NODES_MAX];
    struct random_file files[RANDOM_OUTPUTS_MAX][RANDOM_NODES_MAX];
    char generation[WORLD_LAUNCH]; /* of the launch that began last */
    char last[RANDOM_NODES_MAX][WORLD_LAUNCH]; /* the generation that the node's part belongs to */
    bool disturbed[RANDOM_NODES_MAX];
    bool closed_badly; /* MIN:MAX, and the latest run failed: the next launches again (reopen.c) */
    bool launch_excused, epilog_failed, launch_ok[RANDOM_NODES_MAX], launch_live[RANDOM_NODES_MAX];
    bool part[RANDOM_NODES_MAX]; /* in the end, as the journal has it: it ended well */
    bool launch_lost[RANDOM_NODES_MAX]; /* its node lost power, or was replaced, since it started there */
};

enum random_flag {
    RANDOM_VERBOSE = 1,
    RANDOM_NO_FILES = 4, /* no outputs, no preflight: seeds that found a fault before worlds had any play it so */
    RANDOM_RENTED = 8, /* machines vanish, and rules replace them */
    RANDOM_SEEN = 2 /* what is removed on a node is seen soon: its connection is lost, too */
};
/* core_random_job.c: its spec and its plan, as its seed has them. */
void random_job_make(struct random_job *job, uint64_t *rng, unsigned flags);
/* The job of that seed, not yet begun, with at most so many of its faults. */
struct random_job *random_job_create(uint64_t seed, uint32_t faults_max, unsigned flags);
void random_job_destroy(struct random_job *job);
/* One thing happens, perhaps a fault before it; controllers come and go. False: the job is done, or something is
 * violated. */
bool random_job_step(struct random_job *job);
void random_job_check(struct random_job *job); /* it is done: is it? */
/* Another world of the job, as it is, without faults: what its arg is. Nothing is checked in it. */
extern const struct world_watch random_quiet;
/* Of a program that was started: the number that decides how it ends. */
uint32_t random_start_number(const struct random_job *job, const struct world *w, const struct plan_step *step,
                             const char *launch, uint32_t number);

#endif
