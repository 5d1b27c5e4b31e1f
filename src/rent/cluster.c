/* A cluster: fleet's inputs and effects. Each input has its own turn of the loop; an effect that takes time is a job
 * (job.c), whose answer is again an input. */
#include "internal.h"

#include "rhrun/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pending { /* a requested input, which gets its own turn */
    struct pending *next;
    struct arena *arena;
    struct fleet_input input;
};

struct rent *rent_create(struct loop *loop, struct transport_pool *pool, struct error *err)
{
    struct rent *r = xcalloc(1, sizeof *r);
    r->loop = loop;
    r->pool = pool;
    r->arena = arena_create();
    r->http = http_create(loop, NULL, err);
    if (r->http)
        return r;
    rent_destroy(r);
    return NULL;
}

void rent_destroy(struct rent *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->account_count; i++)
        account_free(r->accounts[i]);
    free(r->accounts);
    http_destroy(r->http);
    arena_destroy(r->arena);
    free(r);
}

/* ---- inputs ---- */

static struct fleet_clock now_of(const struct rent_cluster *c)
{
    return (struct fleet_clock){.wall_ms = wall_ms(), .mono_ms = loop_now_ms(c->rent->loop)};
}

static void durable(void *arg)
{
    struct rent_cluster *c = arg;
    c->durable_seq++;
    if (c->kill_at && ++c->durable_count == c->kill_at)
        kill(getpid(), SIGKILL);
    cluster_give(c, &(struct fleet_input){.kind = FLEET_INPUT_DURABLE, .seq = c->durable_seq});
}

static void tell(struct rent_cluster *c, const struct fleet_effect *e)
{
    if (c->observer.told)
        c->observer.told(c->arg, e);
}

/* The file only saves others reading the ledger, so it may be missing. */
static void mark_over(const struct rent_cluster *c)
{
    CLEANUP(cleanup_free) char *file = xasprintf("%s/over", c->folder);
    CLEANUP(cleanup_close) int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    (void)fd;
}

static void cleaned(struct rent_cluster *c)
{
    if (fleet_ledger_of(c->fleet)->stage == FLEET_STAGE_OVER && !cleanup_is_due(c))
        mark_over(c);
    tell(c, c->finished);
}

/* FLEET_TELL_FINISHED waits until everything besides machines is removed too. */
static void finished(struct rent_cluster *c, const struct fleet_effect *e)
{
    c->finished = arena_alloc(c->arena, sizeof *c->finished);
    *c->finished = *e;
    if (fleet_ledger_of(c->fleet)->stage == FLEET_STAGE_OVER && cleanup_is_due(c))
        cleanup_begin(c, cleaned);
    else
        cleaned(c);
}

static void do_effect(struct rent_cluster *c, const struct fleet_effect *e)
{
    switch (e->kind) {
    case FLEET_EFFECT_APPEND:
        journal_cluster_append(c->journal, e->event, durable, c);
        break;
    case FLEET_EFFECT_CREATE:
    case FLEET_EFFECT_LIST:
    case FLEET_EFFECT_DELETE:
    case FLEET_EFFECT_MEET:
        job_begin(c, e);
        break;
    case FLEET_EFFECT_TELL:
        if (e->tell == FLEET_TELL_FINISHED)
            finished(c, e);
        else
            tell(c, e);
        break;
    }
}

void cluster_give(struct rent_cluster *c, const struct fleet_input *input)
{
    size_t count;
    if (c->failed)
        return;
    const struct fleet_clock now = now_of(c);
    fleet_take(c->fleet, input, now);
    const struct fleet_effect *effects = fleet_effects(c->fleet, &count);
    for (size_t i = 0; i < count; i++)
        do_effect(c, &effects[i]);
    const uint64_t at = fleet_wake_ms(c->fleet);
    if (at == UINT64_MAX)
        loop_timer_stop(c->wake);
    else
        loop_timer_start(c->wake, at > now.mono_ms ? at - now.mono_ms : 0);
}

static void tick(void *arg)
{
    cluster_give(arg, &(struct fleet_input){.kind = FLEET_INPUT_TICK});
}

static void take_pending(void *arg)
{
    struct rent_cluster *c = arg;
    if (!c->started) {
        c->started = true;
        cluster_give(c, &(struct fleet_input){.kind = FLEET_INPUT_START});
    }
    while (c->pending) {
        struct pending *p = c->pending;
        c->pending = p->next;
        if (!c->pending)
            c->pending_end = &c->pending;
        cluster_give(c, &p->input);
        arena_destroy(p->arena);
        free(p);
    }
}

static struct pending *ask(struct rent_cluster *c, enum fleet_input_kind kind)
{
    struct pending *p = xcalloc(1, sizeof *p);
    p->arena = arena_create();
    p->input.kind = kind;
    *c->pending_end = p;
    c->pending_end = &p->next;
    loop_timer_start(c->inputs, 0);
    return p;
}

void rent_want(struct rent_cluster *c, const struct fleet_wanted *wanted)
{
    struct pending *p = ask(c, FLEET_INPUT_WANT);
    struct arena *a = p->arena;
    struct fleet_wanted *w = arena_alloc(a, sizeof *w);
    struct fleet_offer *offers = arena_array(a, (size_t)wanted->offer_count + 1, sizeof *offers);
    *w = *wanted;
    for (uint32_t i = 0; i < w->offer_count; i++) {
        offers[i] = wanted->offers[i];
        offers[i].provider = arena_strdup(a, offers[i].provider);
        offers[i].region = arena_strdup(a, offers[i].region);
        offers[i].zone = arena_strdup(a, offers[i].zone);
        offers[i].type = arena_strdup(a, offers[i].type);
        offers[i].gpu = arena_strdup(a, offers[i].gpu);
    }
    w->offers = offers;
    w->id = arena_strdup(a, w->id);
    w->name = arena_strdup(a, w->name);
    w->owner = arena_strdup(a, w->owner);
    w->what = arena_strdup(a, w->what);
    w->image = arena_strdup(a, w->image);
    w->user = arena_strdup(a, w->user);
    p->input.wanted = w;
}

static void ask_with(struct rent_cluster *c, enum fleet_input_kind kind, uint32_t slot, const char *text)
{
    struct pending *p = ask(c, kind);
    p->input.slot = slot;
    p->input.text = arena_strdup(p->arena, text);
}

void rent_begin(struct rent_cluster *c)
{
    loop_timer_start(c->inputs, 0);
}

void rent_hold(struct rent_cluster *c, const char *by)
{
    ask_with(c, FLEET_INPUT_HOLD, 0, by);
}

void rent_free(struct rent_cluster *c)
{
    ask(c, FLEET_INPUT_FREE);
}

void rent_down(struct rent_cluster *c, const char *text)
{
    ask_with(c, FLEET_INPUT_DOWN, 0, text);
}

void rent_trust(struct rent_cluster *c)
{
    c->trusts = true;
}

void rent_replace(struct rent_cluster *c, uint32_t slot, const char *text)
{
    ask_with(c, FLEET_INPUT_REPLACE, slot, text);
}

void rent_look(struct rent_cluster *c, uint32_t slot)
{
    ask_with(c, FLEET_INPUT_LOOK, slot, NULL);
}

int rent_sync(struct rent_cluster *c, struct error *err)
{
    loop_timer_stop(c->inputs);
    take_pending(c);
    return journal_cluster_sync(c->journal, err);
}

const char *cluster_user(const struct fleet_ledger *l, const struct provider_facts *facts)
{
    return l->wanted.user ? l->wanted.user : facts->user;
}

const struct rent_keys *cluster_keys(struct rent_cluster *c, struct error *err)
{
    if (!c->keys)
        c->keys = rent_keys_open(c->folder, err);
    return c->keys;
}

/* ---- opening and closing ---- */

static int replay(void *arg, const struct fleet_event *e, struct error *err)
{
    struct rent_cluster *c = arg;
    if (fleet_replay(c->fleet, e, err) < 0)
        return -1;
    c->durable_seq = e->seq;
    return 0;
}

static void on_failure(void *arg, const struct error *err)
{
    struct rent_cluster *c = arg;
    c->failed = true;
    loop_timer_stop(c->wake);
    if (c->observer.failed)
        c->observer.failed(c->arg, err);
}

char *rent_folder(const char *id, struct error *err)
{
    CLEANUP(cleanup_free) char *home = journal_home(err);
    return home ? xasprintf("%s/clusters/%s", home, id) : NULL;
}

int rent_open(struct rent *r, const char *id, const char *name, const struct rent_observer *observer, void *arg,
              struct rent_cluster **ret, struct error *err)
{
    const char *kill_at = getenv("RHRUN_TEST_RENT_KILL");
    struct rent_cluster *c = xcalloc(1, sizeof *c);
    c->rent = r;
    c->observer = *observer;
    c->arg = arg;
    c->arena = arena_create();
    c->fleet = fleet_create();
    c->pending_end = &c->pending;
    c->wake = loop_timer_create(r->loop, tick, c);
    c->inputs = loop_timer_create(r->loop, take_pending, c);
    c->folder = rent_folder(id, err);
    c->opened_ms = loop_now_ms(r->loop);
    c->may_be_prepared = c->folder && cleanup_may_be_late(c);
    if (kill_at)
        parse_u32(kill_at, &c->kill_at);
    if (!c->folder || journal_cluster_open(r->loop, id, name, name, replay, c, &c->journal, err) < 0) {
        rent_close(c);
        return -1;
    }
    journal_cluster_on_failure(c->journal, on_failure, c);
    *ret = c;
    return 0;
}

void rent_close(struct rent_cluster *c)
{
    if (!c)
        return;
    while (c->jobs)
        job_end(c->jobs);
    sites_free(c);
    rent_keys_close(c->keys);
    loop_timer_destroy(c->wake);
    loop_timer_destroy(c->inputs);
    for (struct pending *p = c->pending, *after; p; p = after) {
        after = p->next;
        arena_destroy(p->arena);
        free(p);
    }
    journal_cluster_close(c->journal);
    fleet_destroy(c->fleet);
    arena_destroy(c->arena);
    free(c->folder);
    free(c);
}

const struct fleet_ledger *rent_ledger(const struct rent_cluster *c)
{
    return fleet_ledger_of(c->fleet);
}

/* ---- existing clusters ---- */

static int read_one(void *arg, const struct fleet_event *e, struct error *err)
{
    return fleet_apply(arg, e, err);
}

int rent_read(const char *id, struct fleet_ledger **ret, struct error *err)
{
    *ret = fleet_ledger_create();
    if (journal_cluster_read(id, read_one, *ret, err) == 0)
        return 0;
    fleet_ledger_destroy(*ret);
    *ret = NULL;
    return -1;
}

static bool has_file(const char *id, const char *name)
{
    CLEANUP(cleanup_free) char *folder = rent_folder(id, NULL);
    CLEANUP(cleanup_free) char *file = folder ? xasprintf("%s/%s", folder, name) : NULL;
    return file && access(file, F_OK) == 0;
}

bool rent_has_rest(const char *id)
{
    return has_file(id, "cleanup");
}

bool rent_is_over(const char *id)
{
    return has_file(id, "over");
}

void rent_new_id(const char *job_id, char ret[21])
{
    char drawn[9];
    random_hex(drawn, 4);
    snprintf(ret, 21, "%.*s%s", (int)RENT_JOB_PREFIX, job_id, drawn);
}
