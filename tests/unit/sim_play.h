/* A script of rules: how which start of which slot runs, and which frame meets which fault. */
#ifndef RHRUN_TEST_SIM_PLAY_H
#define RHRUN_TEST_SIM_PLAY_H

#include "sim_job.h"

#include <string.h>

#define ANY UINT32_MAX
enum { PLAY_MAX = 8 };

struct sim_play {
    struct play_rule {
        const char *slot;
        uint32_t node, nth; /* nth: 0 = every start */
        struct sim_program program;
    } rules[PLAY_MAX];
    size_t rule_count;
    struct play_trap {
        enum wire_type type;
        const char *slot; /* of a RUN; NULL = any */
        uint32_t node, skip;
        enum sim_fault fault;
        bool sprung;
    } traps[PLAY_MAX];
    size_t trap_count;
    uint32_t refusals[4]; /* connections refused from now on, by node */
};

static inline void play_program(void *arg, uint32_t node, const struct wire_run *run, uint32_t nth,
                                struct sim_program *ret)
{
    struct sim_play *p = arg;
    for (size_t i = 0; i < p->rule_count; i++)
        if ((p->rules[i].node == ANY || p->rules[i].node == node) && (!p->rules[i].nth || p->rules[i].nth == nth) &&
            strcmp(p->rules[i].slot, run->slot) == 0)
            *ret = p->rules[i].program;
}

static inline enum sim_fault play_frame(void *arg, uint32_t node, enum wire_type type, const char *slot)
{
    struct sim_play *p = arg;
    for (size_t i = 0; i < p->trap_count; i++) {
        struct play_trap *t = &p->traps[i];
        if (t->sprung || t->type != type || (t->node != ANY && t->node != node) ||
            (t->slot && strcmp(t->slot, slot) != 0))
            continue;
        if (t->skip > 0) {
            t->skip--;
            continue;
        }
        t->sprung = true;
        return t->fault;
    }
    return SIM_PASS;
}

static inline bool play_refuse(void *arg, uint32_t node)
{
    struct sim_play *p = arg;
    if (node >= ARRAY_LEN(p->refusals) || p->refusals[node] == 0)
        return false;
    p->refusals[node]--;
    return true;
}

static inline struct sim_script play_script(struct sim_play *p)
{
    memset(p, 0, sizeof *p);
    return (struct sim_script){.program = play_program, .frame = play_frame, .refuse = play_refuse, .arg = p};
}

/* The nth start (0 = every) of slot on node does this. */
static inline void play_does(struct sim_play *p, uint32_t node, const char *slot, uint32_t nth,
                             struct sim_program program)
{
    p->rules[p->rule_count++] = (struct play_rule){slot, node, nth, program};
}

static inline void play_trap(struct sim_play *p, uint32_t node, enum wire_type type, const char *slot, uint32_t skip,
                             enum sim_fault fault)
{
    p->traps[p->trap_count++] = (struct play_trap){type, slot, node, skip, fault, false};
}

#endif
