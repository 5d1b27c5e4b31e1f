/* The messages of a node: each callback does the hands' own part and passes the rest to the core. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

static struct lane *lane_of(void *arg, struct node *n)
{
    struct run *r = arg;
    return &r->lanes[node_index(n)];
}

static void tell(struct run *r, struct node *n, struct input in)
{
    in.node = node_index(n);
    trace_input(r, &in);
    core_take(r, &in);
}

/* The node's connection has ended, and so have transfers over it. */
void run_stop_moving(struct lane *lane)
{
    transfer_stop(lane);
    fetch_stop(lane, NULL);
    rank0_drop(lane);
    installed_stop(lane);
}

static void on_ready(void *arg, struct node *n, bool again)
{
    struct lane *lane = lane_of(arg, n);
    run_stop_moving(lane);
    tell(arg, n, (struct input){.kind = INPUT_READY, .facts = node_facts(n), .again = again});
    run_learn_node(arg, lane->index);
    ports_ready(lane, again);
}

static void on_lost(void *arg, struct node *n, const struct error *err)
{
    struct lane *lane = lane_of(arg, n);
    const struct run_machines *m = &lane->run->options.machines;
    run_stop_moving(lane);
    tell(arg, n, (struct input){.kind = INPUT_LOST, .error = err});
    if (m->lost)
        m->lost(m->arg, lane->index);
}

static void on_failed(void *arg, struct node *n, const struct error *err)
{
    run_stop_moving(lane_of(arg, n));
    tell(arg, n, (struct input){.kind = INPUT_GONE, .error = err});
}

static void on_record(void *arg, struct node *n, const struct wire_record *rec)
{
    tell(arg, n, (struct input){.kind = INPUT_RECORD, .record = rec});
}

static void on_listed(void *arg, struct node *n, uint64_t token)
{
    (void)token;
    tell(arg, n, (struct input){.kind = INPUT_LISTED});
}

static void on_checked(void *arg, struct node *n, uint64_t token, const uint8_t *exists, uint32_t count)
{
    (void)token;
    tell(arg, n, (struct input){.kind = INPUT_CHECKED, .exists = exists, .count = count});
}

static void on_started(void *arg, struct node *n, const char *attempt)
{
    tell(arg, n, (struct input){.kind = INPUT_STARTED, .attempt = attempt});
}

static void on_busy(void *arg, struct node *n, const char *attempt, const char *live, const char *slot)
{
    tell(arg, n, (struct input){.kind = INPUT_BUSY, .attempt = attempt, .live = live, .slot = slot});
}

static void on_output(void *arg, struct node *n, const char *attempt, uint64_t offset, const uint8_t *data,
                      uint32_t len)
{
    struct lane *lane = lane_of(arg, n);
    const struct plan_step *step = lane_in_flight(lane, attempt);
    struct run_task *t = step ? run_task(lane->run, step, lane->index) : NULL;
    if (t && t->log)
        log_output(t->log, offset, data, len);
}

static void on_ended(void *arg, struct node *n, const struct wire_record *rec)
{
    const struct plan_step *step = lane_in_flight(lane_of(arg, n), rec->attempt);
    if (step && step->kind->uses_python)
        installed_ask(lane_of(arg, n), true);
    if (step && step->kind->phase != PHASE_SETUP && installed_holds(lane_of(arg, n), rec))
        return;
    tell(arg, n, (struct input){.kind = INPUT_ENDED, .record = rec});
}

static void on_ponged(void *arg, struct node *n, uint64_t token, uint32_t free_port, uint64_t wall)
{
    if (!preflight_ponged(run_launch(arg), lane_of(arg, n), token, wall))
        tell(arg, n, (struct input){.kind = INPUT_PORT, .token = token, .port = free_port});
}

static void on_settled(void *arg, struct node *n, uint64_t token, const char *error)
{
    (void)token;
    tell(arg, n, (struct input){.kind = INPUT_SETTLED, .text = error});
}

static void on_fault(void *arg, struct node *n, const char *attempt, const char *text)
{
    tell(arg, n, (struct input){.kind = INPUT_FAULT, .attempt = attempt, .text = text});
}

static void on_patched(void *arg, struct node *n, const struct wire_sync_state *s)
{
    tell(arg, n, (struct input){.kind = INPUT_PATCHED, .state = s});
}

static void on_sync_state(void *arg, struct node *n, const struct wire_sync_state *s)
{
    transfer_state(lane_of(arg, n), s);
}

static void on_entries(void *arg, struct node *n, const struct wire_entries *e)
{
    struct lane *lane = lane_of(arg, n);
    if (!preflight_entries(run_launch(lane->run), lane, e) && !rank0_entries(lane, e) && !installed_entries(lane, e))
        fetch_entries(lane, e);
}

static void on_file_data(void *arg, struct node *n, uint64_t token, uint64_t offset, bool last, const char *error,
                         const uint8_t *data, uint32_t len)
{
    if (!installed_data(lane_of(arg, n), token, last, error, data, len))
        fetch_data(lane_of(arg, n), token, offset, last, error, data, len);
}

static void on_probed(void *arg, struct node *n, uint64_t token, uint32_t errnum, const char *who)
{
    preflight_probed(run_launch(arg), lane_of(arg, n), token, errnum, who);
}

static void on_drained(void *arg, struct node *n)
{
    transfer_drained(lane_of(arg, n));
}

const struct node_callbacks lane_callbacks = {.ready = on_ready,
                                              .lost = on_lost,
                                              .failed = on_failed,
                                              .record = on_record,
                                              .listed = on_listed,
                                              .started = on_started,
                                              .busy = on_busy,
                                              .output = on_output,
                                              .ended = on_ended,
                                              .ponged = on_ponged,
                                              .settled = on_settled,
                                              .checked = on_checked,
                                              .fault = on_fault,
                                              .sync_state = on_sync_state,
                                              .patched = on_patched,
                                              .entries = on_entries,
                                              .file_data = on_file_data,
                                              .probed = on_probed,
                                              .drained = on_drained};
