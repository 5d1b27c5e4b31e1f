/* How lines name the worker that they are of: those of a run, of its logs, and of both on a terminal. */
#include "internal.h"

struct cli_worker cli_worker_of(const struct plan *plan, const struct plan_step *step, uint32_t rank)
{
    struct cli_worker worker = {0};
    if (step->kind->ranked)
        worker.role = plan_role_of(plan, rank, &worker.role_rank);
    return worker;
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
