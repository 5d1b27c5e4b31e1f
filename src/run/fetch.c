/* Fetches the files of one step from one node: GLOB asks which files exist, the answer is compared with the files that
 * are here already, and GETs ask for the rest, a few files at a time. Each file is synced on the pool and then renamed.
 * Data are written in the loop, like logs: into the page cache, one frame at a time. If the connection ends, only the
 * parts of files are left of a fetch. */
#include "guard.h"
#include "landing.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FETCHES_MAX = 32,    /* at a time: each has files open */
    GETS_MAX = 16,       /* in flight at a time */
    GET_BYTES = 4 << 20, /* of all GETs in flight, unless there is only one */
    LOOKS_MAX = 256,     /* files checked in one turn */
    ENTRIES_MAX = 1000000,
    ROUNDS_MAX = 3, /* a file that changes while it is fetched is requested again, in up to this many rounds */
    SYNC_BATCH = 64,
    NOTES_MAX = 10,
};

enum fetch_phase { QUEUED, GLOBBING, LOOKING, GETTING };

struct get {
    uint64_t token; /* 0 = free */
    const struct wire_entry *entry;
    struct landing_file *file;
};
struct batch {               /* complete files that are being synced on the pool */
    struct fetch *fetch;     /* NULL: the fetch was dropped meanwhile */
    struct landing *landing; /* the landing of a fetch that was dropped: the batch closes it */
    struct landing_file *files[SYNC_BATCH];
    size_t count;
    int errnum;
    size_t at; /* index of the file whose sync failed */
};

struct fetch {
    struct fetch *next;   /* in the lane's list */
    struct fetch *queued; /* in the run's queue, while it waits for its turn */
    struct lane *lane;
    const struct plan_step *step;
    const struct plan *plan; /* the plan of the run, or a point's own plan */
    bool periodic;
    enum fetch_phase phase;
    struct arena *arena;
    struct step_fetch what;
    struct wire_pattern pattern; /* what.from: the node must name nothing else */
    struct landing *landing;
    uint64_t token; /* of the GLOB */
    char *prefix;
    struct wire_entry *entries;
    size_t count, cap;
    size_t looked, next_entry; /* LOOKING: entries looked at so far; GETTING: entries[0..count) are to be fetched */
    size_t matched;
    uint64_t said_bytes;           /* the bytes of the entries in the lane's said_bytes */
    uint64_t all_bytes, new_bytes; /* of all files on the node; of those that are not here yet */
    struct get gets[GETS_MAX];
    size_t get_count;
    uint64_t get_bytes;
    struct landing_file *whole[SYNC_BATCH];
    size_t whole_count;
    struct batch *batch;
    struct loop_work *work;
    struct loop_timer *turn;
    unsigned rounds, changed, notes, forbidden;
    struct error trouble; /* why the node could not read some file */
    struct error wrong;   /* why the source or the target of the fetch is not known */
};

static void work_on(struct fetch *f);

static struct run *run_of(const struct fetch *f)
{
    return f->lane->run;
}

static struct run_task *task_of(const struct fetch *f)
{
    return run_task(run_of(f), f->step, f->lane->index);
}

FORMAT(2, 3) static void note(struct fetch *f, const char *fmt, ...)
{
    va_list ap;
    if (f->notes++ >= NOTES_MAX)
        return;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    tell_note(run_of(f), f->lane->index, "%s: %s", f->step->name, text);
}

/* ---- ending ---- */

static void batch_free(struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        landing_drop(b->files[i], false);
    free(b);
}

static void batch_dropped(void *arg)
{
    struct batch *b = arg;
    struct landing *landing = b->landing;
    batch_free(b);
    landing_close(landing, false);
}

static void unlink_fetch(struct fetch *f)
{
    struct run *r = run_of(f);
    for (struct fetch **at = &lane_hands(f->lane)->fetches; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            break;
        }
    for (struct fetch **at = &r->hands->fetch_queue; *at; at = &(*at)->queued)
        if (*at == f) {
            *at = f->queued;
            break;
        }
}

static void drop(struct fetch *f, bool complete)
{
    struct run *r = run_of(f);
    unlink_fetch(f);
    if (f->phase != QUEUED)
        r->hands->fetching--;
    for (size_t i = 0; i < GETS_MAX; i++)
        landing_drop(f->gets[i].file, false);
    for (size_t i = 0; i < f->whole_count; i++)
        landing_drop(f->whole[i], false);
    if (f->work) { /* the pool still has the batch's files open */
        f->batch->landing = f->landing;
        f->landing = NULL;
        loop_work_detach(f->work, batch_dropped);
    }
    landing_close(f->landing, complete);
    f->lane->said_bytes -= f->said_bytes < f->lane->said_bytes ? f->said_bytes : f->lane->said_bytes;
    loop_timer_destroy(f->turn);
    arena_destroy(f->arena);
    free(f->entries);
    free(f);
    if (r->hands->fetch_queue)
        loop_timer_start(r->hands->fetch_turn, 0);
}

/* Ends the fetch, well or badly. The core is told once, after the fetch was freed. */
static void end(struct fetch *f, enum fetch_end how, const struct error *err)
{
    struct run *r = run_of(f);
    const struct error copy = err ? *err : (struct error)ERROR_INIT;
    const struct input in = {.kind = INPUT_FETCHED,
                             .node = f->lane->index,
                             .step = f->step,
                             .how = how,
                             .periodic = f->periodic,
                             .files = task_of(f)->files_done,
                             .bytes = task_of(f)->bytes_done,
                             .error = &copy};
    drop(f, how == FETCH_DONE);
    trace_input(r, &in);
    core_take(r, &in);
}

void fetch_stop(struct lane *lane, const struct plan_step *step)
{
    for (struct fetch *f = lane_hands(lane)->fetches, *next; f; f = next) {
        next = f->next;
        if (!step || f->step == step)
            drop(f, false);
    }
}

void fetches_free(struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        fetch_stop(&r->lanes[n], NULL);
    loop_timer_destroy(r->hands->fetch_turn);
    guard_free(r->hands->guard);
}

/* ---- beginning ---- */

static void ask(struct fetch *f)
{
    struct run *r = run_of(f);
    f->phase = GLOBBING;
    f->count = f->looked = f->next_entry = f->matched = 0;
    f->changed = f->forbidden = 0;
    f->all_bytes = f->new_bytes = 0;
    f->trouble = (struct error)ERROR_INIT;
    f->token = ++r->hands->fetch_token;
    node_glob(lane_hands(f->lane)->node, f->token, f->what.from);
}

static int open_landing(struct fetch *f, struct error *err)
{
    struct run *r = run_of(f);
    const struct wire_facts *facts = f->lane->facts;
    char tag[65];
    CLEANUP(cleanup_free) char *folder = xasprintf("%s/fetched", journal_path(r->hands->session->journal));
    CLEANUP(cleanup_free)
    char *text = xasprintf("%s\n%s\n%s\n%s\n%s", f->step->scope, f->step->name, f->lane->name,
                           facts ? facts->install : "", f->what.to);
    digest_sha256_hex(text, strlen(text), tag);
    CLEANUP(cleanup_free) char *memory = xasprintf("%s/%.32s", folder, tag);
    if (mkdir_p(folder, 0700, err) < 0)
        return -1;
    return landing_open(f->what.to, tag, memory, &f->landing, err);
}

static void begin(struct fetch *f)
{
    struct error err = ERROR_INIT;
    run_of(f)->hands->fetching++;
    f->phase = GLOBBING;
    if (f->wrong.code != ERROR_NONE) {
        err = f->wrong;
        end(f, FETCH_IMPOSSIBLE, &err);
    } else if (open_landing(f, &err) < 0)
        end(f, FETCH_BROKEN, &err);
    else
        ask(f);
}

/* Begins as many fetches as may run at a time, in their order. */
static void on_queue(void *arg)
{
    struct run *r = arg;
    while (r->hands->fetch_queue && r->hands->fetching < FETCHES_MAX) {
        struct fetch *f = r->hands->fetch_queue;
        r->hands->fetch_queue = f->queued;
        f->queued = NULL;
        begin(f);
    }
}

static void on_turn(void *arg)
{
    work_on(arg);
}

/* Finds out which files the step fetches from the node. 0 or -1. */
static int what_of(struct fetch *f, struct error *err)
{
    struct run *r = run_of(f);
    struct step_bind bind = run_bind(r, launch_of(r, f->step), f->lane->index);
    struct plan *plan = r->plan;
    CLEANUP(cleanup_free) char *dir = run_dir(r, err);
    if (!dir)
        return -1;
    if (f->step->kind->phase == PHASE_POINT) {
        if (run_bind_point(r, f->step, f->lane->index, &bind, f->arena, &plan, err) < 0)
            return -1;
        bind.result_dir = arena_printf(f->arena, "%s/points/%s/result", dir, bind.point->id);
    } else {
        bind.launch = lane_launch(f->lane);
        bind.result_dir = arena_printf(f->arena, "%s/result", dir);
    }
    f->plan = plan;
    if (f->step->kind->fetch(plan, f->step, &bind, f->arena, &f->what, err) < 0)
        return -1;
    if (!wire_pattern_of(&f->pattern, f->what.from, f->arena))
        return error_set(err, ERROR_SPEC, "\"%s\" has more than %d parts", f->what.from, WIRE_PATTERN_PARTS);
    return 0;
}

void fetch_start(struct lane *lane, const struct plan_step *step, bool periodic)
{
    struct run *r = lane->run;
    struct hands *h = r->hands;
    fetch_stop(lane, step);
    if (!h->guard)
        h->guard = guard_create(r->plan);
    if (!h->fetch_turn)
        h->fetch_turn = loop_timer_create(h->session->loop, on_queue, r);
    struct fetch *f = xcalloc(1, sizeof *f), **last = &h->fetch_queue;
    f->lane = lane;
    f->step = step;
    f->periodic = periodic;
    f->phase = QUEUED;
    f->arena = arena_create();
    f->turn = loop_timer_create(h->session->loop, on_turn, f);
    f->next = lane_hands(lane)->fetches;
    lane_hands(lane)->fetches = f;
    what_of(f, &f->wrong);
    while (*last)
        last = &(*last)->queued;
    *last = f;
    loop_timer_start(h->fetch_turn, 0);
}

/* ---- the node's files ---- */

/* The rank of a function's result. These results are in rhrun's own folder, and `rhrun result` trusts them, so the file
 * of each rank must come from that rank's node. */
static bool rank_of(const struct fetch *f, const struct wire_entry *e, uint32_t *ret)
{
    const struct plan *plan = f->plan;
    CLEANUP(cleanup_free) char *number = xstrdup(e->path);
    if (!str_ends(number, ".json") || !S_ISREG(e->mode))
        return false;
    number[strlen(number) - strlen(".json")] = 0;
    return parse_u32(number, ret) && (plan->worker_count == 0 || *ret < plan->worker_count);
}

/* mpirun places ranks in its own way, and on one machine all of them belong to the first node. */
static bool is_of_node(const struct fetch *f, uint32_t rank)
{
    const struct plan *plan = f->plan;
    const struct spec_distributed *d = &plan->spec->distributed;
    bool placed = plan->ranks && !(d->present && d->launcher == LAUNCHER_MPIRUN);
    return !placed || plan->ranks[rank].node == (plan == run_of(f)->plan ? f->lane->index : 0);
}

/* The results of nodes that share rhrun's folder are in one place: each node names all of them, and only those of its
 * own ranks are fetched from it. */
static bool may_share(const struct fetch *f, uint32_t rank)
{
    struct run *r = run_of(f);
    const struct wire_facts *mine = f->lane->facts;
    const struct wire_facts *other = r->lanes[r->plan->ranks[rank].node].facts;
    return !mine || !other || (str_eq(mine->home_id, other->home_id) && str_eq(mine->base_dir, other->base_dir));
}

/* 1: the entry is fetched. 0: it is skipped. -1 and err: the node must not name it. */
static int is_asked_for(const struct fetch *f, const struct wire_entry *e, struct error *err)
{
    uint32_t rank = 0;
    if (wire_pattern_match(&f->pattern, e->path) && (!f->what.own || rank_of(f, e, &rank))) {
        bool mine = !f->what.own || is_of_node(f, rank);
        if (mine || may_share(f, rank))
            return mine;
    }
    error_set(err, ERROR_PROTOCOL, "the node names a file \"%.200s\", which \"%.200s\" does not ask for", e->path,
              f->what.from);
    error_hint(err, "the program there is not the agent of this rhrun, or it lies: nothing of this answer was used");
    return -1;
}

void fetch_entries(struct lane *lane, const struct wire_entries *e)
{
    struct fetch *f = lane_hands(lane)->fetches;
    struct error err = ERROR_INIT;
    while (f && (f->phase != GLOBBING || f->token != e->token))
        f = f->next;
    if (!f)
        return;
    if (e->error[0]) {
        error_set(&err, ERROR_INFRA, "%s", e->error);
        end(f, FETCH_BROKEN, &err);
        return;
    }
    if (f->count + e->entry_count > ENTRIES_MAX) {
        error_set(&err, ERROR_INFRA, "\"%s\" has over %d files", f->what.from, ENTRIES_MAX);
        end(f, FETCH_BROKEN, &err);
        return;
    }
    for (uint32_t i = 0; i < e->entry_count; i++) {
        int asked = is_asked_for(f, &e->entries[i], &err);
        if (asked < 0) {
            end(f, FETCH_BROKEN, &err);
            return;
        }
        if (asked == 0)
            continue;
        if (f->count == f->cap) {
            f->cap = f->cap ? f->cap * 2 : 64;
            f->entries = xreallocarray(f->entries, f->cap, sizeof *f->entries);
        }
        uint64_t bytes = sizeof e->entries[i] + strlen(e->entries[i].path) + strlen(e->entries[i].target) + 2;
        f->said_bytes += bytes;
        if (room_say(f->lane, bytes, &err) < 0) {
            end(f, FETCH_BROKEN, &err);
            return;
        }
        struct wire_entry *c = &f->entries[f->count++];
        *c = e->entries[i];
        c->path = arena_strdup(f->arena, c->path);
        c->target = arena_strdup(f->arena, c->target);
    }
    f->prefix = arena_strdup(f->arena, e->prefix);
    if (!e->last)
        return;
    f->phase = LOOKING;
    f->matched = f->count;
    f->count = 0; /* the entries to get move to the front */
    work_on(f);
}

/* Makes a folder or link at once, and skips a file that is here already. 0, -1, or 1: the file must be fetched. */
static int look_at(struct fetch *f, const struct wire_entry *e, struct error *err)
{
    enum guard_what what = S_ISDIR(e->mode) ? GUARD_FOLDER : S_ISLNK(e->mode) ? GUARD_LINK : GUARD_FILE;
    const char *why = guard_forbids(run_of(f)->hands->guard, f->what.to, e->path, what, f->what.own);
    if (why) {
        if (f->forbidden++ == 0 && f->rounds == 0 && !f->periodic)
            note(f, "\"%s\" is left out, like everything else of that kind: %s", e->path, why);
        return 0;
    }
    if (S_ISDIR(e->mode))
        return landing_folder(f->landing, e->path, err);
    if (!S_ISLNK(e->mode))
        return landing_has(f->landing, e) ? 0 : 1;
    int rc = landing_link(f->landing, e->path, e->target, err);
    if (rc > 0 && f->rounds == 0 && !f->periodic)
        note(f, "the link \"%s\" is left out: \"%s\" may lie outside of \"%s\"", e->path, e->target, f->what.to);
    return rc < 0 ? -1 : 0;
}

/* Before the first byte comes: whether the spec allows this many bytes and there is room for them. */
static bool has_room(const struct fetch *f, struct error *err)
{
    char all[32], max[32];
    if (f->what.max_bytes && f->all_bytes > f->what.max_bytes) {
        error_set(err, ERROR_JOB, "\"%s\" has %s there, and its max_size is %s", f->what.from,
                  room_text(f->all_bytes, all), room_text(f->what.max_bytes, max));
        error_hint(err, "write a narrower `from`, or a larger `max_size`: the job itself does not run again");
        return false;
    }
    if (room_check(run_of(f), f->what.to, f->new_bytes, err) == 0)
        return true;
    error_prefix(err, "\"%s\" has %s to fetch", f->what.from, room_text(f->new_bytes, all));
    return false;
}

static void add_bytes(uint64_t *sum, uint64_t bytes)
{
    *sum = bytes < UINT64_MAX - *sum ? *sum + bytes : UINT64_MAX;
}

/* False: the fetch has ended. */
static bool look(struct fetch *f)
{
    struct run_task *t = task_of(f);
    for (size_t n = 0; f->looked < f->matched && n < LOOKS_MAX; n++) {
        struct error err = ERROR_INIT;
        struct wire_entry e = f->entries[f->looked++];
        int rc = look_at(f, &e, &err);
        if (rc < 0) {
            end(f, FETCH_BROKEN, &err);
            return false;
        }
        if (S_ISREG(e.mode))
            add_bytes(&f->all_bytes, e.size);
        if (rc == 0)
            continue;
        add_bytes(&f->new_bytes, e.size);
        f->entries[f->count++] = e;
        t->files_total += f->rounds == 0;
        t->bytes_total += f->rounds == 0 ? e.size : 0;
    }
    if (f->looked == f->matched)
        f->phase = GETTING;
    struct error err = ERROR_INIT;
    if (f->phase != GETTING || has_room(f, &err))
        return true;
    end(f, FETCH_BROKEN, &err);
    return false;
}

/* ---- files ---- */

static struct get *get_of(struct fetch *f, uint64_t token)
{
    for (size_t i = 0; i < GETS_MAX; i++)
        if (f->gets[i].token == token)
            return &f->gets[i];
    return NULL;
}

static void release(struct fetch *f, struct get *g)
{
    f->get_count--;
    f->get_bytes -= g->entry->size;
    *g = (struct get){0};
}

static void ask_file(struct fetch *f, struct get *g, const struct wire_entry *e, struct landing_file *file)
{
    CLEANUP(cleanup_free)
    char *path = xasprintf("%s%s%s", f->prefix, f->prefix[0] && f->prefix[1] ? "/" : "", e->path);
    *g = (struct get){++run_of(f)->hands->fetch_token, e, file};
    f->get_count++;
    f->get_bytes += e->size;
    node_get(lane_hands(f->lane)->node, g->token, path, file->at, e->size, e->mtime_ns);
}

static int ask_more(struct fetch *f, struct error *err)
{
    while (f->next_entry < f->count && f->get_count < GETS_MAX) {
        const struct wire_entry *e = &f->entries[f->next_entry];
        struct landing_file *file;
        if (f->get_count > 0 && f->get_bytes + e->size > GET_BYTES)
            return 0;
        if (landing_begin(f->landing, e, &file, err) < 0)
            return -1;
        f->next_entry++;
        task_of(f)->bytes_done += file->at;
        ask_file(f, get_of(f, 0), e, file);
    }
    return 0;
}

static void sync_work(void *arg)
{
    struct batch *b = arg;
    for (b->at = 0; b->at < b->count; b->at++)
        if ((b->errnum = landing_sync(b->files[b->at])) != 0)
            return;
}

static void sync_done(void *arg)
{
    struct batch *b = arg;
    struct fetch *f = b->fetch;
    struct error err = ERROR_INIT;
    f->work = NULL;
    f->batch = NULL;
    if (b->errnum)
        error_errno(&err, ERROR_IO, b->errnum, "could not write \"%s/%s\"", f->what.to, b->files[b->at]->path);
    for (size_t i = 0; i < b->count && err.code == ERROR_NONE; i++)
        if (landing_commit(b->files[i], &err) == 0)
            task_of(f)->files_done++;
    batch_free(b);
    if (err.code != ERROR_NONE)
        end(f, FETCH_BROKEN, &err);
    else
        work_on(f);
}

static void sync_whole(struct fetch *f)
{
    if (f->work || f->whole_count == 0)
        return;
    struct batch *b = xcalloc(1, sizeof *b);
    b->fetch = f;
    b->count = f->whole_count;
    memcpy(b->files, f->whole, b->count * sizeof b->files[0]);
    f->whole_count = 0;
    f->batch = b;
    f->work = loop_work(run_of(f)->hands->session->loop, sync_work, sync_done, b);
}

static void get_ended(struct fetch *f, struct get *g, const char *error)
{
    struct landing_file *file = g->file;
    const struct wire_entry *e = g->entry;
    bool whole = !error[0] && file->at == e->size;
    release(f, g);
    if (whole) {
        f->whole[f->whole_count++] = file;
        return;
    }
    f->changed++;
    if (!f->periodic && f->rounds + 1 >= ROUNDS_MAX && (!error[0] || strcmp(error, "changed") == 0))
        note(f, "\"%s\" changes while it is fetched; it was left as it is here", e->path);
    else if (error[0] && strcmp(error, "changed") != 0)
        error_set(&f->trouble, ERROR_INFRA, "\"%s\": %s", e->path, error);
    landing_drop(file, true);
}

void fetch_data(struct lane *lane, uint64_t token, uint64_t offset, bool last, const char *error, const uint8_t *data,
                uint32_t len)
{
    struct fetch *f = lane_hands(lane)->fetches;
    struct get *g = NULL;
    struct error err = ERROR_INIT;
    while (f && !(g = get_of(f, token)))
        f = f->next;
    if (!g || token == 0)
        return;
    if (offset != g->file->at || len > g->entry->size - g->file->at) {
        error_set(&err, ERROR_PROTOCOL, "the node sends other bytes of \"%s\" than it was asked for", g->entry->path);
        end(f, FETCH_BROKEN, &err);
        return;
    }
    if (landing_write(g->file, data, len, &err) < 0) {
        end(f, FETCH_BROKEN, &err);
        return;
    }
    task_of(f)->bytes_done += len;
    if (room_took(lane, f->what.to, len, &err) < 0) {
        run_of(f)->hands->crowded++; /* so that the other fetches may use half of the reserved space */
        end(f, FETCH_BROKEN, &err);
        return;
    }
    if (last) {
        get_ended(f, g, error);
        work_on(f);
    } else {
        run_changed(run_of(f));
    }
}

/* All files were requested, and all answers have come. */
static void round_ended(struct fetch *f)
{
    struct error err = ERROR_INIT;
    if (f->changed > 0 && ++f->rounds < ROUNDS_MAX) {
        ask(f);
    } else if (f->trouble.code != ERROR_NONE) {
        err = f->trouble;
        end(f, FETCH_BROKEN, &err);
    } else if (f->matched == 0) {
        error_set(&err, ERROR_JOB, "no file is there: \"%s\"", f->what.from);
        end(f, f->what.required ? FETCH_NOTHING : FETCH_EMPTY, &err);
    } else {
        end(f, FETCH_DONE, NULL);
    }
}

static void work_on(struct fetch *f)
{
    struct error err = ERROR_INIT;
    if (f->phase == LOOKING && !look(f))
        return;
    if (f->phase == LOOKING) {
        loop_timer_start(f->turn, 0);
        return;
    }
    if (f->phase != GETTING)
        return;
    if (f->whole_count + GETS_MAX <= SYNC_BATCH && ask_more(f, &err) < 0) {
        end(f, FETCH_BROKEN, &err);
        return;
    }
    sync_whole(f);
    run_changed(run_of(f));
    if (f->get_count == 0 && f->next_entry == f->count && f->whole_count == 0 && !f->work)
        round_ended(f);
}
