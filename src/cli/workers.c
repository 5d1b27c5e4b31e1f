/* How lines name their worker: lines of a run, of its logs, and of both on a terminal. */
#include "internal.h"

#include <string.h>

bool cli_is_work(const struct plan_step *step)
{
    return step->kind->phase == PHASE_LAUNCH || (step->kind->phase == PHASE_POINT && !step->kind->fetch);
}

struct cli_worker cli_worker_of(const struct plan *plan, const struct plan_step *step, uint32_t rank)
{
    struct cli_worker worker = {0};
    if (step->kind->phase == PHASE_POINT && plan->spec->distributed.present)
        worker = (struct cli_worker){step->label, rank};
    else if (step->kind->ranked && step->kind->phase != PHASE_POINT)
        worker.role = plan_role_of(plan, rank, &worker.role_rank);
    return worker;
}

void cli_roles_take(struct cli_roles *ret, const char *bind_json)
{
    struct arena *arena = arena_create();
    struct diagnostics ignored = {0};
    struct doc *doc;
    ret->count = 0;
    if (doc_load_text("bind", bind_json, strlen(bind_json), DOC_FORMAT_JSON, arena, &doc, &ignored, NULL) == 0) {
        const struct doc_node *roles = doc_get(doc->root, "roles");
        for (size_t i = 0; roles && roles->type == DOC_ARRAY && i < roles->count && i < CLI_ROLES_MAX; i++) {
            struct cli_role *r = &ret->items[ret->count++];
            *r = (struct cli_role){.first = (uint32_t)doc_get_int(roles->items[i], "first", 0),
                                   .count = (uint32_t)doc_get_int(roles->items[i], "count", 0)};
            snprintf(r->name, sizeof r->name, "%s", doc_get_string(roles->items[i], "name", "?"));
        }
    }
    diagnostics_free(&ignored);
    arena_destroy(arena);
}

struct cli_worker cli_roles_worker(const struct cli_roles *roles, uint32_t worker)
{
    for (size_t i = 0; i < roles->count; i++)
        if (worker >= roles->items[i].first && worker - roles->items[i].first < roles->items[i].count)
            return (struct cli_worker){roles->items[i].name, worker - roles->items[i].first};
    return (struct cli_worker){"default", worker};
}

void cli_line_prefix(struct buf *b, bool color, const struct cli_worker *worker, const char *step,
                     const char *node_name, uint32_t rank)
{
    static const char *const colors[] = {"36", "33", "35", "32", "34"};
    if (color)
        buf_printf(b, "\033[%sm", colors[rank % ARRAY_LEN(colors)]);
    if (worker->role && rank == WIRE_NO_RANK)
        buf_printf(b, "%s@%s:", worker->role, node_name);
    else if (worker->role)
        buf_printf(b, "%s[%u]@%s:", worker->role, worker->role_rank, node_name);
    else
        buf_printf(b, "%s@%s:", step, node_name);
    buf_puts(b, color ? "\033[0m " : " ");
}
