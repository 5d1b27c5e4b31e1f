/* torchrun on three nodes of which two are enough, and its recorded events. */
#ifndef RHRUN_TEST_ELASTIC_SCENE_H
#define RHRUN_TEST_ELASTIC_SCENE_H

#include "sim_play.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROGRAM(...) ((struct sim_program){__VA_ARGS__})
#define ENDLESS PROGRAM(.endless = true)
enum { ALWAYS = 1000000 };

static struct sim_play play;
static uint32_t connects, deaf; /* deaf: this node reaches nobody */

static inline int probe(void *arg, uint32_t node, uint8_t what, uint32_t port)
{
    (void)arg;
    (void)port;
    connects += what == WIRE_PROBE_CONNECT;
    return what == WIRE_PROBE_CONNECT && node == deaf ? EHOSTUNREACH : 0;
}

static inline void facts_of(void *arg, uint32_t node, struct wire_facts *f)
{
    (void)arg;
    f->gpu_count = node == 2 ? 0 : 4;
    f->python = (char *)(uintptr_t) "/usr/bin/python3";
    f->python_version = (char *)(uintptr_t) "3.11";
}

/* Two of three are enough. */
static inline struct sim_job *begin(void)
{
    struct sim_script script = play_script(&play);
    script.probe = probe;
    script.facts = facts_of;
    connects = 0;
    deaf = UINT32_MAX;
    struct sim_job *job = sim_job_create(3, &script);
    job->spec.distributed.min_nodes = 2;
    job->join_ms = 1;
    for (uint32_t i = 0; i < 3; i++)
        job->hosts[i].address = "10.0.0.7";
    sim_job_step(job, "deps");
    return job;
}

static inline uint32_t launches(const struct sim_job *job, uint32_t node)
{
    return sim_started(job->net, node, "launch");
}

static inline bool two_live(struct sim_job *job)
{
    return sim_live(job->net) == 2 && launches(job, 0) == 1 && launches(job, 1) == 1;
}

static inline bool three_live(struct sim_job *job)
{
    return sim_live(job->net) == 3 && launches(job, 0) == 1 && launches(job, 2) >= 1;
}

static inline bool is_stable_at_first(struct sim_job *job) /* and sent messages have arrived */
{
    return sim_live(job->net) == 3 && launches(job, 2) == 1;
}

static inline bool is_stable(struct sim_job *job) /* sent messages have arrived */
{
    return sim_live(job->net) == 3 && sim_job_said(job, "started launch@2 generation 1");
}

static inline bool joined_again(struct sim_job *job)
{
    return launches(job, 2) == 2 && sim_live(job->net) == 3;
}

static inline bool is_left_out(struct sim_job *job)
{
    return sim_job_said(job, "it is left out: 2 of 2:3 nodes are left");
}

static inline void turn_until(struct sim_job *job, bool (*until)(struct sim_job *job))
{
    if (!sim_job_turns(job, until))
        fail_msg("it ended: %s\n%s", job->result.error.text, job->said.data ? job->said.data : "");
}

static inline void start_until(struct sim_job *job, bool (*until)(struct sim_job *job))
{
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    turn_until(job, until);
}

static inline void end_two(struct sim_job *job)
{
    sim_end(job->net, 0, "launch", 0);
    sim_end(job->net, 1, "launch", 0);
}

static inline void end_three(struct sim_job *job)
{
    end_two(job);
    sim_end(job->net, 2, "launch", 0);
}

static inline void install_torch(struct sim_job *job, uint32_t node, const char *version)
{
    CLEANUP(cleanup_free)
    char *path = xasprintf("/usr/local/lib/python3.11/dist-packages/torch-%s.dist-info/METADATA", version);
    sim_make(job->net, node, path, 1, 10, 0100644);
}

static inline struct sim_job *begin_torchrun(void)
{
    struct sim_job *job = begin();
    job->spec.distributed.launcher = LAUNCHER_TORCHRUN;
    job->spec.entrypoint.kind = ENTRY_MODULE;
    install_torch(job, 0, "2.13.0");
    install_torch(job, 1, "2.13.1");
    return job;
}

static inline struct sim_job *begin_and_lose(void)
{
    struct sim_job *job = begin();
    job->reconnect_ms = 40;
    play_does(&play, ANY, "launch", 0, ENDLESS);
    start_until(job, three_live);
    sim_away(job->net, 2, true);
    turn_until(job, is_left_out);
    return job;
}

static inline struct sim_job *begin_without_one(void)
{
    struct sim_job *job = begin();
    play_does(&play, ANY, "launch", 0, ENDLESS);
    play.refusals[2] = ALWAYS;
    return job;
}

#endif
