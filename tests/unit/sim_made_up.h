/*
 * Shared by simulated nodes (sim_job.h) and the worlds of a core alone (core_world.h): the spec of a job on hosts that
 * do not exist, the facts of such a host, and what the random tests remember of a set-up step.
 */
#ifndef RHRUN_TEST_SIM_MADE_UP_H
#define RHRUN_TEST_SIM_MADE_UP_H

#include "rhrun/spec.h"
#include "rhrun/wire.h"

/* A launch of `train`, one worker each, on nodes hosts named n0, n1, ... They go to `hosts`, which must live as
 * long. */
static inline struct spec made_up_spec(struct arena *arena, struct spec_host *hosts, uint32_t nodes)
{
    for (uint32_t n = 0; n < nodes; n++)
        hosts[n] = (struct spec_host){.name = arena_printf(arena, "n%u", n),
                                      .host = arena_printf(arena, "host%u", n),
                                      .transport = SPEC_TRANSPORT_SIM};
    return (struct spec){.path = "job.yaml",
                         .dir = "/home/me/job",
                         .name = "train",
                         .origin = "/home/me/job/job.yaml",
                         .hash = "h",
                         .variant = "0123456789abcdef",
                         .placement = PLACEMENT_HOSTS,
                         .hosts = hosts,
                         .host_count = nodes,
                         .nodes = arena_array(arena, nodes, sizeof(struct spec_node)),
                         .node_count = nodes,
                         .nnodes = nodes,
                         .distributed = {.present = true,
                                         .nnodes = nodes,
                                         .min_nodes = nodes,
                                         .nproc = {NPROC_COUNT, 1},
                                         .launcher = LAUNCHER_NATIVE},
                         .entrypoint = {.kind = ENTRY_RUN, .target = {.text = "train"}}};
}

/* The facts that all hosts share, without ids, names and clocks. */
static inline struct wire_facts made_up_facts(void)
{
    static char empty[] = "", user[] = "me", home[] = "/home/me", arch[] = "x86_64", shell[] = "/bin/bash";
    return (struct wire_facts){.version = WIRE_VERSION,
                               .machine_id = empty,
                               .user = user,
                               .home = home,
                               .base_dir = home,
                               .work_dir = home,
                               .arch = arch,
                               .kernel = empty,
                               .os = empty,
                               .cpu = empty,
                               .image = empty,
                               .image_digest = empty,
                               .shell = shell,
                               .python = empty,
                               .python_version = empty,
                               .gpus = empty,
                               .gpu_driver = empty,
                               .cpus = 4,
                               .memory_bytes = 1 << 30,
                               .disk_free_bytes = 1 << 30};
}

struct made_up_track { /* of a set-up step on a node */
    bool started, live, ok;
    bool unsettled; /* it may not be on the disk */
    bool rebooted, excused;
    bool ever;     /* it ended well once */
    bool launched; /* it had ended well when the whole launch had; later changes do not matter */
};

#endif
