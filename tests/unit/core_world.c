/* The world's time, its journal, and controllers that come and go. */
#include "core_world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- chance ---- */

uint64_t world_random(uint64_t *rng)
{
    uint64_t z = *rng += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t world_mix(uint64_t a, uint64_t b)
{
    uint64_t rng = a * 0x2545F4914F6CDD1Du + b;
    return world_random(&rng);
}

/* Mostly short, sometimes long, so that all orders of pending events occur. */
uint64_t world_delay_us(struct world *w, uint64_t most_us)
{
    uint64_t dice = world_random(&w->rng);
    return 1 + (dice >> 8) % (dice % 8 == 0 ? most_us : most_us / 16 + 1);
}

/* ---- messages ---- */

void world_say(struct world *w, const char *fmt, ...)
{
    va_list ap;
    if (!w->log)
        return;
    buf_printf(w->log, "%10.3f #%llu ", (double)w->now_us / 1e6, (unsigned long long)w->steps);
    va_start(ap, fmt);
    buf_vprintf(w->log, fmt, ap);
    va_end(ap);
    buf_putc(w->log, '\n');
}

void world_violated(struct world *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    if (!w->watch->violated || !w->watch->violated(w->arg, text)) {
        fprintf(stderr, "%s\n", text);
        abort();
    }
}

/* ---- time ---- */

static bool sooner(const struct happening *a, const struct happening *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void heap_up(struct world *w, size_t i)
{
    struct happening *h = w->heap[i];
    for (; i > 0 && sooner(h, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = h;
}

static void heap_down(struct world *w, size_t i)
{
    struct happening *h = w->heap[i];
    for (;;) {
        size_t next = 2 * i + 1;
        if (next + 1 < w->heap_count && sooner(w->heap[next + 1], w->heap[next]))
            next++;
        if (next >= w->heap_count || !sooner(w->heap[next], h))
            break;
        w->heap[i] = w->heap[next];
        i = next;
    }
    w->heap[i] = h;
}

struct happening *world_happens(struct world *w, enum happening_kind kind, uint64_t after_us)
{
    struct happening *h = xcalloc(1, sizeof *h);
    h->at_us = w->now_us + after_us;
    h->order = w->order++;
    h->kind = kind;
    if (w->heap_count == w->heap_cap) {
        w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 64;
        w->heap = xreallocarray(w->heap, w->heap_cap, sizeof *w->heap);
    }
    w->heap[w->heap_count++] = h;
    heap_up(w, w->heap_count - 1);
    return h;
}

void world_drop(struct happening *h)
{
    free(h->ask.forget);
    free(h->says.records);
    free(h->says.exists);
    free(h);
}

static struct happening *next_happening(struct world *w)
{
    if (w->heap_count == 0)
        return NULL;
    struct happening *h = w->heap[0];
    w->heap[0] = w->heap[--w->heap_count];
    if (w->heap_count > 0)
        heap_down(w, 0);
    return h;
}

static int by_time(const void *a, const void *b)
{
    const struct happening *x = *(struct happening *const *)a, *y = *(struct happening *const *)b;
    return sooner(x, y) ? -1 : 1;
}

struct happening **world_take(struct world *w, bool (*wanted)(const struct happening *h, const void *arg),
                              const void *arg, size_t *ret_count)
{
    struct happening **taken = xcalloc(w->heap_count + 1, sizeof *taken);
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < w->heap_count; i++)
        if (wanted(w->heap[i], arg))
            taken[count++] = w->heap[i];
        else
            w->heap[kept++] = w->heap[i];
    w->heap_count = kept;
    for (size_t i = kept / 2; i-- > 0;)
        heap_down(w, i);
    if (count > 1)
        qsort(taken, count, sizeof *taken, by_time);
    *ret_count = count;
    return taken;
}

static void happen(struct world *w, struct happening *h)
{
    switch (h->kind) {
    case HAPPENS_ALARM:
        world_alarm(w, h);
        break;
    case HAPPENS_FINDINGS:
        world_findings(w, h);
        break;
    case HAPPENS_COMMIT:
        world_commit(w, h->start);
        break;
    case HAPPENS_OPEN:
    case HAPPENS_RETRY:
    case HAPPENS_LOST:
    case HAPPENS_ANSWER:
    case HAPPENS_MACHINE:
        world_link(w, h);
        break;
    case HAPPENS_REQUEST:
    case HAPPENS_END:
    case HAPPENS_BACK:
        world_handle(w, h);
        break;
    }
}

bool world_step(struct world *w)
{
    struct happening *h = next_happening(w);
    if (!h)
        return false;
    w->now_us = h->at_us;
    w->steps++;
    happen(w, h);
    world_drop(h);
    return true;
}

/* ---- the world ---- */

static struct world *create(struct plan *plan, uint64_t seed, const struct world_watch *watch, void *arg)
{
    struct world *w = xcalloc(1, sizeof *w);
    w->rng = world_mix(seed, 1);
    w->plan = plan;
    w->watch = watch;
    w->arg = arg;
    w->node_count = plan->node_count;
    w->nodes = xcalloc(w->node_count, sizeof *w->nodes);
    w->journal_arena = arena_create();
    w->options = (struct run_options){.plan = plan, .owner_name = "me@here"};
    return w;
}

struct world *world_create(struct plan *plan, uint64_t seed, const struct world_watch *watch, void *arg)
{
    struct world *w = create(plan, seed, watch, arg);
    for (uint32_t n = 0; n < w->node_count; n++)
        world_node_create(w, n);
    return w;
}

void world_destroy(struct world *w)
{
    if (!w)
        return;
    world_hands_free(w->hands);
    for (size_t i = 0; i < w->heap_count; i++)
        world_drop(w->heap[i]);
    for (uint32_t n = 0; n < w->node_count; n++) {
        free(w->nodes[n].records);
        free(w->nodes[n].starts);
        free(w->nodes[n].made);
    }
    arena_destroy(w->journal_arena);
    free(w->heap);
    free(w->nodes);
    free(w->journal);
    free(w->starts);
    free(w);
}

static void *copy_of(const void *data, size_t count, size_t size)
{
    void *copy = xcalloc(count ? count : 1, size);
    if (count)
        memcpy(copy, data, count * size);
    return copy;
}

static void clone_node(struct world *c, const struct world *w, uint32_t index)
{
    struct world_node *n = &c->nodes[index];
    const size_t steps = w->plan->step_count;
    *n = w->nodes[index];
    n->record_cap = n->record_count;
    n->records = copy_of(n->records, n->record_count, sizeof *n->records);
    n->starts = copy_of(n->starts, steps, sizeof *n->starts);
    n->made = copy_of(n->made, steps, sizeof *n->made);
}

struct world *world_clone(const struct world *w, uint64_t seed, const struct world_watch *watch, void *arg)
{
    struct world *c = create(w->plan, seed, watch, arg);
    c->now_us = w->now_us;
    c->order = w->order;
    c->steps = w->steps;
    c->connections = w->connections;
    c->options = w->options;
    for (uint32_t n = 0; n < w->node_count; n++)
        clone_node(c, w, n);
    c->journal_count = c->journal_cap = w->journal_count;
    c->journal = copy_of(w->journal, w->journal_count, sizeof *w->journal);
    c->start_count = c->start_cap = w->start_count;
    c->starts = copy_of(w->starts, w->start_count, sizeof *w->starts);
    c->heap = xcalloc(w->heap_count + 1, sizeof *c->heap);
    c->heap_cap = w->heap_count + 1;
    for (size_t i = 0; i < w->heap_count; i++) {
        const struct happening *h = w->heap[i];
        if (h->kind < HAPPENS_REQUEST)
            continue;
        struct happening *copy = copy_of(h, 1, sizeof *h);
        if (h->ask.forget)
            copy->ask.forget =
                copy_of(h->ask.forget, 1, sizeof *h->ask.forget + h->ask.forget->count * sizeof h->ask.forget->ids[0]);
        c->heap[c->heap_count++] = copy;
        heap_up(c, c->heap_count - 1);
    }
    for (uint32_t n = 0; n < c->node_count; n++)
        world_disconnect(c, n);
    return c;
}

/* ---- controllers ---- */

struct state *world_replay(const struct world *w)
{
    struct state *s = state_create();
    for (size_t i = 0; i < w->journal_count; i++)
        state_apply(s, &w->journal[i]);
    return s;
}

static void on_finished(void *arg)
{
    struct hands *h = arg;
    h->finished = true;
}

int world_start(struct world *w, enum run_mode mode, uint32_t flags, struct error *err)
{
    struct hands *h = w->hands = xcalloc(1, sizeof *h);
    struct run_options o = w->options;
    o.mode = mode;
    o.flags = flags;
    h->world = w;
    h->state = world_replay(w);
    h->durable = w->journal_count;
    h->fetches = xcalloc(w->plan->step_count * w->node_count + 1, sizeof *h->fetches);
    world_say(w, "a controller starts");
    o.recorded = true;
    h->run = core_create(h, &o, h->state, on_finished, h);
    if (run_open(h->run, err) < 0)
        return -1;
    core_begin(h->run);
    return 0;
}

bool world_finished(const struct world *w)
{
    return w->hands && w->hands->finished;
}

struct run *world_run(const struct world *w)
{
    return w->hands ? w->hands->run : NULL;
}

const struct state *world_state(const struct world *w)
{
    return w->hands->state;
}

static bool is_controllers(const struct happening *h, const void *unused)
{
    (void)unused;
    return h->kind < HAPPENS_REQUEST;
}

static void end_controller(struct world *w)
{
    size_t count;
    struct happening **all = world_take(w, is_controllers, NULL, &count);
    for (size_t i = 0; i < count; i++)
        world_drop(all[i]);
    free(all);
    world_hands_free(w->hands);
    w->hands = NULL;
    for (uint32_t n = 0; n < w->node_count; n++)
        world_disconnect(w, n);
}

struct run_result world_end(struct world *w)
{
    struct run_result result = w->hands->run->result;
    end_controller(w);
    return result;
}

void world_kill(struct world *w, uint64_t random)
{
    const size_t durable = w->hands->durable;
    end_controller(w);
    w->journal_count = durable + random % (w->journal_count - durable + 1);
    world_say(w, "killed; the journal ends with event %zu", w->journal_count);
}

void world_forget(struct world *w)
{
    w->journal_count = 0;
    arena_reset(w->journal_arena);
}
