/* The job of a seed: its spec, the plan of it, and the rules and outputs that it has. */
#include "core_random.h"

#include <stdio.h>
#include <stdlib.h>

static void make_spec(struct random_job *job, uint64_t *rng)
{
    static const char *const names[] = {"one", "two", "three", "four"};
    const uint32_t nodes = 1 + (uint32_t)(world_random(rng) % RANDOM_NODES_MAX);
    const size_t steps = 1 + world_random(rng) % ARRAY_LEN(names);
    job->spec = made_up_spec(job->arena, job->hosts, nodes);
    job->spec.setup = job->setup;
    job->spec.setup_count = steps;
    for (size_t i = 0; i < steps; i++) {
        struct spec_step *s = &job->setup[i];
        *s = (struct spec_step){
            .name = names[i], .run = {.text = arena_printf(job->arena, "make %s", names[i])}, .retry_backoff_ms = 100};
        s->on = world_random(rng) % 4 == 0 ? ON_FIRST : ON_ALL;
        s->retry_times = (uint32_t)(world_random(rng) % 3);
        s->on_unknown_fail = world_random(rng) % 8 == 0;
        s->creates.text = world_random(rng) % 3 == 0 ? arena_printf(job->arena, "made/%s", names[i]) : NULL;
    }
    struct spec_distributed *d = &job->spec.distributed;
    d->present = world_random(rng) % 5 > 0;
    d->max_restarts = (uint32_t)(world_random(rng) % 3);
    job->elastic = world_random(rng) % 3 == 0 && d->present && nodes > 1;
    if (job->elastic)
        d->min_nodes = 1 + (uint32_t)(world_random(rng) % (nodes - 1));
    job->spec.entrypoint.prolog.text = world_random(rng) % 3 == 0 ? "before" : NULL;
    job->spec.entrypoint.epilog.text = world_random(rng) % 3 == 0 ? "after" : NULL;
}

static void make_rented(struct random_job *job, uint64_t rng)
{
    static const struct spec_rent rent = {.instance = "cpu:8"};
    job->rented = true;
    job->spec.rent = &rent;
    job->spec.rules = job->rules;
    job->spec.rule_count = ARRAY_LEN(job->rules);
    for (size_t i = 0; i < ARRAY_LEN(job->rules); i++)
        job->rules[i] = (struct spec_rule){.id = i ? "2" : "1",
                                           .text = i ? "rule 2" : "rule 1",
                                           .role = SPEC_NO_ROLE,
                                           .subject = i ? RULE_PREEMPTED : RULE_NODE_LOST,
                                           .action = RULE_REPLACE,
                                           .has_times = true,
                                           .times = 1 + (uint32_t)(world_random(&rng) % 3)};
}

static void make_outputs(struct random_job *job, uint64_t rng)
{
    static const char *const names[RANDOM_OUTPUTS_MAX] = {"outputs-1", "outputs-2"};
    job->spec.outputs = job->outputs;
    job->spec.output_count = world_random(&rng) % (RANDOM_OUTPUTS_MAX + 1);
    for (size_t i = 0; i < job->spec.output_count; i++) {
        struct spec_output *o = &job->outputs[i];
        *o = (struct spec_output){.name = names[i], .from.text = "out/", .to.text = names[i]};
        o->when = world_random(&rng) % 2 ? WHEN_SUCCESS : WHEN_ALWAYS;
        o->on = world_random(&rng) % 3 ? ON_ALL : ON_FIRST;
        o->required = world_random(&rng) % 3;
        o->every_ms = world_random(&rng) % 2 ? 100 + world_random(&rng) % 1000 : 0;
    }
}

void random_job_make(struct random_job *job, uint64_t *rng, unsigned flags)
{
    struct error err = ERROR_INIT;
    make_spec(job, rng);
    if (flags & RANDOM_NO_FILES)
        job->spec.distributed.preflight = (struct spec_preflight){
            .no_ports = true, .no_clocks = true, .no_disk = true, .no_gpus = true, .no_versions = true};
    else
        make_outputs(job, world_mix(job->seed, 5));
    if (flags & RANDOM_RENTED)
        make_rented(job, world_mix(job->seed, 6));
    if (plan_compile(&job->spec, roster_create(&job->spec, job->arena), step_kinds, NULL, NULL, job->arena, &job->plan,
                     &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    for (size_t i = 0; i < job->plan->step_count; i++)
        if (job->plan->steps[i].kind->phase == PHASE_LAUNCH)
            job->launch = i;
}
