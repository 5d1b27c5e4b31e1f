/* The views of a run for other modules: counts per step, nodes, facts as JSON. */
#include "internal.h"

#include <inttypes.h>
#include <string.h>

void run_step_counts(const struct run *r, const struct plan_step *step, struct run_counts *ret)
{
    *ret = (struct run_counts){0};
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct run_task *t = &r->tasks[(size_t)step->id * r->plan->node_count + n];
        if (!step->on[n])
            continue;
        ret->total++;
        switch (t->state) {
        case TASK_PENDING:
        case TASK_WAITING:
            ret->pending++;
            break;
        case TASK_KEPT:
            ret->kept++;
            break;
        case TASK_STARTING:
        case TASK_HELD:
        case TASK_RUNNING:
        case TASK_STOPPING:
            ret->running++;
            break;
        case TASK_DONE:
            ret->done++;
            break;
        case TASK_FAILED:
        case TASK_LEFT:
            ret->failed++;
            break;
        }
        if (t->started_ms && (!ret->started_ms || t->started_ms < ret->started_ms))
            ret->started_ms = t->started_ms;
        if (t->ended_ms > ret->ended_ms)
            ret->ended_ms = t->ended_ms;
    }
}

void run_step_transfer(const struct run *r, const struct plan_step *step, struct run_transfer *ret)
{
    *ret = (struct run_transfer){0};
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct run_task *t = &r->tasks[(size_t)step->id * r->plan->node_count + n];
        ret->nodes += step->on[n] && task_in_flight(t) && t->bytes_total > 0;
        ret->files_done += t->files_done;
        ret->files_total += t->files_total;
        ret->bytes_done += t->bytes_done;
        ret->bytes_total += t->bytes_total;
    }
}

bool run_attempt_view(const struct run *r, const struct plan_step *step, uint32_t node, struct run_attempt_view *ret)
{
    const struct run_task *t = &r->tasks[(size_t)step->id * r->plan->node_count + node];
    if (!task_in_flight(t))
        return false;
    *ret = (struct run_attempt_view){t->started_ms, t->bytes_done, t->bytes_total};
    return true;
}

void run_node(const struct run *r, uint32_t node, struct run_node_view *ret)
{
    const struct lane *lane = &r->lanes[node];
    ret->name = roster_name(r->plan->roster, node);
    bool greeting = lane_hands(lane)->node && node_state(lane_hands(lane)->node) == NODE_GREETING;
    ret->presence = lane->presence;
    ret->phase = greeting                 ? TRANSPORT_AGENT
                 : lane_hands(lane)->node ? node_phase(lane_hands(lane)->node)
                                          : TRANSPORT_CONFIG;
    ret->facts = lane->facts;
    ret->error = lane->error.code != ERROR_NONE ? lane->error.text : NULL;
    ret->hint = lane->error.hint;
}

const struct plan_record *run_records(const struct run *r)
{
    return r->records;
}

const char *run_id(const struct run *r)
{
    return r->id;
}

uint32_t run_restarts(const struct run *r)
{
    const struct state_run *run = run_recorded(r);
    return run ? run->restarts : 0;
}

uint32_t run_counted_restarts(const struct run *r)
{
    const struct state_run *run = run_recorded(r);
    return run ? run->restarts - run->own_restarts : 0;
}

uint64_t run_pause_ms(const struct run *r)
{
    return alarm_left_ms(run_launch(r)->pause);
}

const struct run_result *run_result(const struct run *r)
{
    return &r->result;
}

static void put_string(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, ",\"%s\":", key);
    buf_json_string(b, value ? value : "", value ? strlen(value) : 0);
}

void run_facts_json(const struct wire_facts *f, struct buf *b)
{
    buf_printf(b, "{\"cpus\":%u,\"gpu_count\":%u,\"memory_bytes\":%llu,\"disk_free_bytes\":%llu", f->cpus, f->gpu_count,
               (unsigned long long)f->memory_bytes, (unsigned long long)f->disk_free_bytes);
    put_string(b, "hostname", f->hostname);
    put_string(b, "user", f->user);
    put_string(b, "arch", f->arch);
    put_string(b, "kernel", f->kernel);
    put_string(b, "os", f->os);
    put_string(b, "cpu", f->cpu);
    put_string(b, "python", f->python);
    put_string(b, "python_version", f->python_version);
    put_string(b, "gpus", f->gpus);
    put_string(b, "gpu_driver", f->gpu_driver);
    put_string(b, "container", f->container);
    put_string(b, "image", f->image);
    put_string(b, "image_digest", f->image_digest);
    put_string(b, "home", f->home);
    put_string(b, "base_dir", f->base_dir);
    put_string(b, "work_dir", f->work_dir);
    put_string(b, "address", f->address);
    buf_putc(b, '}');
}
