/* The scope of expressions: a job with params, env and arguments, when planned, and on one of its nodes. */
#ifndef RHRUN_TESTS_EXPR_SCOPE_H
#define RHRUN_TESTS_EXPR_SCOPE_H

#include "../../src/spec/internal.h"

static struct spec_param params[] = {
    {.name = "n", .type = SPEC_INTEGER, .value = "3"},        {.name = "rate", .type = SPEC_NUMBER, .value = "1e-3"},
    {.name = "text", .type = SPEC_STRING, .value = "it's"},   {.name = "flag", .type = SPEC_BOOLEAN, .value = "true"},
    {.name = "path", .type = SPEC_STRING, .value = "/a/b.c"},
};
static struct spec_env env[] = {
    {.name = "A", .value = {.text = "${{ params.n + 1 }}", .has_expr = true}},
    {.name = "CALLER", .value = {.text = "${{ rank }}"}, .from_caller = true},
    {.name = "NODE", .value = {.text = "on-${{ node.rank }}", .has_expr = true}},
};
static const char *const pass_through[] = {"a b", "it's", "$x"};
static const struct spec spec = {.name = "job",
                                 .params = params,
                                 .param_count = ARRAY_LEN(params),
                                 .env = env,
                                 .env_count = ARRAY_LEN(env),
                                 .args = pass_through,
                                 .arg_count = ARRAY_LEN(pass_through),
                                 .nnodes = 2};
static const struct expr_context at_plan = {.spec = &spec};
static const struct expr_context at_run = {.spec = &spec,
                                           .has_node = true,
                                           .node_rank = 1,
                                           .node_name = "gpu-2",
                                           .node_address = "10.0.0.2",
                                           .has_rank = true,
                                           .rank = 5,
                                           .local_rank = 1,
                                           .world_size = 8,
                                           .local_world_size = 4,
                                           .run = "r1"};

#endif
