/* A step that sends files to a node. SYNC asks which files the node has; the answer is compared with the wanted tree;
 * the missing files are sent in as many turns of the loop as necessary; EXIT ends the transfer as it ends any attempt.
 * Several nodes take turns: each gets at most TURN_BYTES in a turn of the loop. If the connection ends, nothing is left
 * of a transfer: the attempt is lost, and the node tells the next transfer which files have arrived. Contents are read
 * inside the loop: small files come from the store's pack, pieces of big ones (WIRE_FILE_MAX at a time) from files that
 * were written shortly before, so as a rule both are in memory. */
#include "transfer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TURN_BYTES = 256 << 10, REMOVE_BATCH = 1000 };

enum transfer_phase { ASKED, SENDING, SENT };

struct part { /* the node has the beginning of a file with this content */
    uint8_t oid[WIRE_OID_SIZE];
    uint64_t size;
};

struct transfer {
    struct lane *lane;
    const struct plan_step *step;
    char attempt[WIRE_ID_LEN + 1];
    const char *name; /* of the tree on the node */
    enum transfer_phase phase;
    const struct tree *tree;
    bool missing, asked_all;
    struct arena *arena;
    char base[TREE_ID_LEN + 1];
    struct wire_sync_file *files; /* the lists of SYNC_STATE so far */
    size_t file_count, file_cap;
    struct part *parts;
    size_t part_count, part_cap;
    uint64_t said_bytes; /* the bytes of files and parts in the lane's said_bytes */
    struct transfer_diff diff;
    size_t next;             /* index in diff.send */
    struct content *content; /* of the file that is being sent */
    uint64_t at;             /* how much of it was sent */
    uint8_t *piece;          /* buffer for a piece of a big file */
    struct loop_timer *turn;
};

static struct run_task *task_of(const struct transfer *t)
{
    return run_task(t->lane->run, t->step, t->lane->index);
}

/* ---- sending ---- */

/* How much of the file the node has already. A part can serve only one file. */
static uint64_t take_part(struct transfer *t, const struct tree_file *f)
{
    for (size_t i = 0; i < t->part_count; i++)
        if (t->parts[i].size < f->size && memcmp(t->parts[i].oid, f->oid, WIRE_OID_SIZE) == 0) {
            uint64_t size = t->parts[i].size;
            t->parts[i] = t->parts[--t->part_count];
            return size;
        }
    return 0;
}

static int read_piece(struct transfer *t, const struct tree_file *f, const uint8_t **ret, size_t *ret_len,
                      struct error *err)
{
    struct tree_reader *reader = &t->content->reader;
    uint64_t left = f->size - t->at;
    size_t len = left < WIRE_FILE_MAX ? (size_t)left : WIRE_FILE_MAX;
    *ret_len = len;
    *ret = NULL;
    if (reader->size != f->size)
        return error_set(err, ERROR_IO, "\"%s\": the store has %" PRIu64 " bytes of it, not %" PRIu64, f->path,
                         reader->size, f->size);
    if (len == 0)
        return 0;
    if (reader->data) {
        *ret = reader->data + t->at;
        return 0;
    }
    if (!t->piece)
        t->piece = xmalloc(WIRE_FILE_MAX);
    ssize_t n = tree_read(reader, t->at, t->piece, len, err);
    if (n <= 0)
        return n < 0 ? -1 : error_set(err, ERROR_IO, "\"%s\": the store's copy ends early", f->path);
    *ret = t->piece;
    *ret_len = (size_t)n;
    return 0;
}

/* Sends the next frame: the beginning of a file, or more of it. 0 or -1. */
static int send_piece(struct transfer *t, uint64_t *quota, struct error *err)
{
    struct run *r = t->lane->run;
    struct run_task *task = task_of(t);
    const struct tree_file *f = t->diff.send[t->next];
    const uint8_t *data;
    size_t len;
    bool begins = !t->content;
    if (begins) {
        t->content = cache_open(r, f, err);
        if (!t->content)
            return -1;
        t->at = take_part(t, f);
        task->bytes_done += t->at;
    }
    if (read_piece(t, f, &data, &len, err) < 0)
        return -1;
    if (begins) {
        struct wire_file frame = {.attempt = t->attempt,
                                  .path = (char *)(uintptr_t)f->path,
                                  .mode = f->mode,
                                  .size = f->size,
                                  .oid = f->oid,
                                  .offset = t->at,
                                  .data = data,
                                  .len = (uint32_t)len};
        node_file(lane_hands(t->lane)->node, &frame);
    } else {
        node_file_data(lane_hands(t->lane)->node, t->attempt, data, len);
    }
    t->at += len;
    task->bytes_done += len;
    uint64_t cost = len + strlen(f->path) + 100;
    *quota = *quota > cost ? *quota - cost : 0;
    if (t->at == f->size) {
        cache_close(t->content);
        t->content = NULL;
        t->next++;
        task->files_done++;
    }
    return 0;
}

/* The transfer cannot go on, for example because a file cannot be read here: the run fails, and the attempt is stopped
 * on the node. */
static void give_up(struct transfer *t, const struct error *err)
{
    struct run *r = t->lane->run;
    const struct plan_step *step = t->step;
    uint32_t node = t->lane->index;
    struct error copy = *err;
    transfer_stop(t->lane);
    error_prefix(&copy, "step \"%s\"", step->name);
    run_fail(r, RUN_INFRA, &copy);
    task_stop(r, step, node, WIRE_KILL, 0);
}

static void pump(void *arg)
{
    struct transfer *t = arg;
    struct node *node = lane_hands(t->lane)->node;
    uint64_t quota = TURN_BYTES;
    struct error err = ERROR_INIT;
    if (t->phase != SENDING || task_of(t)->state != TASK_RUNNING)
        return;
    while (t->next < t->diff.send_count && quota > 0 && node_room(node))
        if (send_piece(t, &quota, &err) < 0) {
            give_up(t, &err);
            return;
        }
    if (t->next == t->diff.send_count) {
        t->phase = SENT;
        node_sync_end(node, t->attempt);
    } else {
        node_flush(node);
        if (quota == 0 || node_room(node))
            loop_timer_start(t->turn, 0);
    }
    run_changed(t->lane->run);
}

void transfer_drained(struct lane *lane)
{
    if (lane_hands(lane)->transfer && lane_hands(lane)->transfer->phase == SENDING)
        loop_timer_start(lane_hands(lane)->transfer->turn, 0);
}

static struct wire_sync_file *keep_file(struct transfer *t, const char *path, uint32_t mode);

/* A file that a step changed and that must be restored counts as missing. For each file that is sent or removed, the
 * step that had changed it must be done again (patches_sent). */
static void compare(struct transfer *t, const struct tree *base)
{
    const struct wire_strings back = patches_to_put_back(t->lane, t->name, t->arena);
    for (uint32_t i = 0; i < back.count; i++)
        keep_file(t, back.items[i], 0);
    transfer_compare(base, t->files, t->file_count, t->tree, t->missing, t->arena, &t->diff);
    for (size_t i = 0; i < t->diff.send_count; i++)
        patches_sent(t->lane, t->name, t->diff.send[i]->path);
    for (uint32_t i = 0; i < t->diff.removes.count; i++)
        patches_sent(t->lane, t->name, t->diff.removes.items[i]);
}

static void begin_sending(struct transfer *t)
{
    struct run *r = t->lane->run;
    struct run_task *task = task_of(t);
    compare(t, t->base[0] ? cache_tree(r, t->base) : NULL);
    task->files_total = t->diff.send_count;
    task->bytes_total = t->diff.send_bytes;
    task->removed = t->diff.removes.count;
    task->files_done = task->bytes_done = 0;
    for (uint32_t at = 0; at < t->diff.removes.count;) {
        struct wire_strings batch = {t->diff.removes.items + at, t->diff.removes.count - at};
        if (batch.count > REMOVE_BATCH)
            batch.count = REMOVE_BATCH;
        node_remove(lane_hands(t->lane)->node, t->attempt, &batch);
        at += batch.count;
    }
    t->phase = SENDING;
    pump(t);
}

/* ---- asking ---- */

int transfer_start(struct run *r, const struct plan_step *step, uint32_t node, const struct step_bind *bind,
                   struct error *err)
{
    struct lane *lane = &r->lanes[node];
    struct run_task *task = run_task(r, step, node);
    struct arena *arena = arena_create();
    struct step_sync sync = {0};
    if (step->kind->sync(r->plan, step, bind, arena, &sync, err) < 0) {
        arena_destroy(arena);
        return -1;
    }
    transfer_stop(lane);
    struct transfer *t = lane_hands(lane)->transfer = xcalloc(1, sizeof *t);
    t->lane = lane;
    t->step = step;
    t->tree = sync.tree;
    t->name = sync.name;
    t->missing = sync.missing;
    t->arena = arena;
    t->turn = loop_timer_create(r->hands->session->loop, pump, t);
    memcpy(t->attempt, task->attempt, sizeof t->attempt);
    task->files_done = task->files_total = task->bytes_done = task->bytes_total = task->removed = 0;
    const struct wire_facts *facts = lane->facts;
    bool trusted = facts && task->trusted_boot && str_eq(task->trusted_boot, facts->boot_id);
    struct wire_sync m = {.attempt = task->attempt,
                          .slot = arena_strdup(arena, step->slot),
                          .key = arena_strdup(arena, step->key),
                          .name = arena_strdup(arena, sync.name),
                          .root = arena_strdup(arena, sync.root),
                          .tree = arena_strdup(arena, sync.tree->id),
                          .flags =
                              (uint8_t)((trusted ? 0 : WIRE_SYNC_DISTRUST) | (sync.missing ? WIRE_SYNC_MISSING : 0))};
    node_sync(lane_hands(lane)->node, &m);
    return 0;
}

void transfer_trust(struct lane *lane, const struct plan_step *step, bool trust)
{
    struct run *r = lane->run;
    struct run_task *task = run_task(r, step, lane->index);
    const struct wire_facts *facts = lane->facts;
    if (!step->kind->sync)
        return;
    if (!trust || !facts)
        task->trusted_boot = NULL;
    else if (!str_eq(task->trusted_boot, facts->boot_id))
        task->trusted_boot = arena_strdup(r->arena, facts->boot_id);
}

void transfer_stop(struct lane *lane)
{
    struct transfer *t = lane_hands(lane)->transfer;
    if (!t)
        return;
    lane_hands(lane)->transfer = NULL;
    cache_close(t->content);
    loop_timer_destroy(t->turn);
    arena_destroy(t->arena);
    t->lane->said_bytes -= t->said_bytes < t->lane->said_bytes ? t->said_bytes : t->lane->said_bytes;
    free(t->files);
    free(t->parts);
    free(t->piece);
    free(t);
}

static struct wire_sync_file *keep_file(struct transfer *t, const char *path, uint32_t mode)
{
    if (t->file_count == t->file_cap) {
        t->file_cap = t->file_cap ? t->file_cap * 2 : 64;
        t->files = xreallocarray(t->files, t->file_cap, sizeof *t->files);
    }
    struct wire_sync_file *f = &t->files[t->file_count++];
    *f = (struct wire_sync_file){arena_strdup(t->arena, path), NULL, mode};
    return f;
}

static void keep_state(struct transfer *t, const struct wire_sync_state *s)
{
    for (uint32_t i = 0; i < s->file_count; i++) {
        struct wire_sync_file *f = keep_file(t, s->files[i].path, s->files[i].mode);
        if (s->files[i].oid)
            f->oid = memcpy(arena_alloc(t->arena, WIRE_OID_SIZE), s->files[i].oid, WIRE_OID_SIZE);
    }
    for (uint32_t i = 0; i < s->part_count; i++) {
        if (t->part_count == t->part_cap) {
            t->part_cap = t->part_cap ? t->part_cap * 2 : 16;
            t->parts = xreallocarray(t->parts, t->part_cap, sizeof *t->parts);
        }
        memcpy(t->parts[t->part_count].oid, s->parts[i].oid, WIRE_OID_SIZE);
        t->parts[t->part_count++].size = s->parts[i].size;
    }
    snprintf(t->base, sizeof t->base, "%s", s->base);
}

void transfer_state(struct lane *lane, const struct wire_sync_state *s)
{
    struct transfer *t = lane_hands(lane)->transfer;
    struct error err = ERROR_INIT;
    if (!t || t->phase != ASKED || strcmp(s->attempt, t->attempt) != 0)
        return;
    if (t->file_count + s->file_count > 2 * (size_t)TREE_FILES_MAX || t->part_count + s->part_count > TREE_FILES_MAX) {
        error_set(&err, ERROR_PROTOCOL, "node \"%s\" reports more files than a tree can have", lane->name);
        give_up(t, &err);
        return;
    }
    uint64_t bytes =
        (uint64_t)s->file_count * (sizeof *s->files + WIRE_OID_SIZE) + (uint64_t)s->part_count * sizeof *t->parts;
    for (uint32_t i = 0; i < s->file_count; i++)
        bytes += strlen(s->files[i].path);
    t->said_bytes += bytes;
    if (room_say(lane, bytes, &err) < 0) {
        error_prefix(&err, "node \"%s\"", lane->name);
        give_up(t, &err);
        return;
    }
    keep_state(t, s);
    if (!s->last)
        return;
    if (!t->base[0] || cache_tree(lane->run, t->base)) {
        begin_sending(t);
    } else if (!t->asked_all) { /* the tree belongs to another controller, or to a store that was removed */
        t->asked_all = true;
        t->file_count = t->part_count = 0;
        node_sync_all(lane_hands(lane)->node, t->attempt);
    } else {
        error_set(&err, ERROR_PROTOCOL, "node \"%s\" answers with the tree %s again, which is not known here",
                  lane->name, t->base);
        give_up(t, &err);
    }
}

/* ---- what the user is told about it ---- */

struct step_tally {
    uint32_t nodes, sent_nodes;     /* nodes that have the tree; of these, nodes that were sent something */
    uint64_t files, bytes, removed; /* the most that went to one node */
    uint32_t node;
};

static void say_tally(struct run *r, const struct plan_step *step, const struct step_tally *tally)
{
    struct buf text = {0};
    uint64_t all = step->tree ? step->tree->count : tally->files;
    buf_printf(&text, "%s: ", step->name);
    run_put_files(&text, tally->files, all, tally->bytes);
    buf_puts(&text, " sent");
    if (tally->sent_nodes == 1 && r->plan->node_count > 1)
        buf_printf(&text, " to %s", r->lanes[tally->node].name);
    else if (tally->sent_nodes > 1)
        buf_printf(&text, " to %u nodes", tally->sent_nodes);
    if (tally->removed)
        buf_printf(&text, ", %" PRIu64 " removed", tally->removed);
    run_note(r, EVENT_NODE_NONE, "%s", text.data);
    buf_free(&text);
}

void transfer_tally(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct run_task *task = run_task(r, step, node);
    if (!step->kind->sync || task->tallied)
        return;
    if (!r->hands->tallies)
        r->hands->tallies = arena_array(r->arena, r->plan->step_count + 1, sizeof *r->hands->tallies);
    struct step_tally *tally = &r->hands->tallies[step->id];
    task->tallied = true;
    tally->nodes++;
    if (task->files_done || task->removed) {
        tally->sent_nodes++;
        tally->node = node;
        tally->files = task->files_done > tally->files ? task->files_done : tally->files;
        tally->bytes = task->bytes_done > tally->bytes ? task->bytes_done : tally->bytes;
        tally->removed = task->removed > tally->removed ? task->removed : tally->removed;
    }
    if (tally->nodes == step->on_count && tally->sent_nodes)
        say_tally(r, step, tally);
}
