/* Files on simulated nodes: the trees that were sent, in the agent's index, and the files that the job made. Contents
 * are not kept: they follow from the oid, so received bytes are compared and dropped. */
#include "sim_internal.h"
#include "sim_tree.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* ---- trees ---- */

static void file_free(struct sim_file *f)
{
    free(f->path);
    free(f->target);
}

static void tree_clear(struct sim_node_tree *t)
{
    for (size_t i = 0; i < t->file_count; i++)
        file_free(&t->files[i]);
    free(t->files);
    free(t->parts);
    t->files = NULL;
    t->parts = NULL;
    t->file_count = t->part_count = 0;
    t->id[0] = 0;
}

static struct sim_node_tree *tree_find_named(const struct node_sim *node, const char *name)
{
    for (struct sim_node_tree *t = node->home->trees; t; t = t->next)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

static struct sim_file *find_file(struct sim_file *files, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}

static void remove_file(struct sim_node_tree *t, const char *path)
{
    struct sim_file *f = find_file(t->files, t->file_count, path);
    if (!f)
        return;
    file_free(f);
    *f = t->files[--t->file_count];
}

static void add_file(struct sim_node_tree *t, const struct sim_file *f)
{
    remove_file(t, f->path);
    t->files = xreallocarray(t->files, t->file_count + 1, sizeof *t->files);
    t->files[t->file_count] = *f;
    t->files[t->file_count++].path = xstrdup(f->path);
}

bool sim_tree_holds(const struct node_sim *node, const char *name, const char *id)
{
    struct sim_node_tree *t = tree_find_named(node, name);
    if (!t || strcmp(t->id, id) != 0)
        return false;
    for (size_t i = 0; i < t->file_count; i++)
        if (t->files[i].changed)
            return false;
    return true;
}

void sim_files_settle(struct node_sim *node)
{
    for (struct sim_node_tree *t = node->home->trees; t; t = t->next)
        for (size_t i = 0; i < t->file_count; i++)
            t->files[i].settled = t->files[i].settled || t->files[i].writer == node;
}

void sim_files_reboot(struct node_sim *node, uint64_t vanish)
{
    for (struct sim_node_tree *t = node->home->trees; t; t = t->next)
        for (size_t i = 0; i < t->file_count; i++)
            if (t->files[i].writer == node && !t->files[i].settled && (vanish >> i % 64 & 1))
                t->files[i].torn = true; /* its stat data are unchanged: only DISTRUST can find it */
}

void sim_files_free(struct node_sim *node)
{
    while (node->trees) {
        struct sim_node_tree *t = node->trees;
        node->trees = t->next;
        tree_clear(t);
        free(t->name);
        free(t);
    }
    for (size_t i = 0; i < node->made_count; i++)
        file_free(&node->made[i]);
    free(node->made);
    node->made = NULL;
    node->made_count = 0;
}

/* ---- SYNC ---- */

static void drop_part(struct sim_node_tree *t, const uint8_t *oid)
{
    for (size_t i = 0; i < t->part_count; i++)
        if (memcmp(t->parts[i].oid, oid, WIRE_OID_SIZE) == 0)
            t->parts[i--] = t->parts[--t->part_count];
}

static void end_file(struct peer *p, bool whole)
{
    struct sim_sync *s = &p->sync;
    if (!s->busy)
        return;
    s->busy = false;
    drop_part(s->tree, s->file.oid);
    if (whole) {
        add_file(s->tree, &s->file);
    } else if (s->at >= TREE_PART_MIN) {
        s->tree->parts = xreallocarray(s->tree->parts, s->tree->part_count + 1, sizeof *s->tree->parts);
        struct sim_part *part = &s->tree->parts[s->tree->part_count++];
        memcpy(part->oid, s->file.oid, WIRE_OID_SIZE);
        part->size = s->at;
    }
    free(s->file.path);
}

static void end_sync(struct peer *p, enum wire_state state, enum wire_cause cause, int32_t value)
{
    struct attempt *a = p->sync.attempt;
    p->sync.attempt = NULL;
    if (a && a->record.state == WIRE_STATE_CLAIMED)
        sim_end_attempt(a, state, cause, value);
}

void sim_sync_lost(struct peer *p)
{
    if (!p->sync.attempt)
        return;
    end_file(p, false);
    end_sync(p, WIRE_STATE_LOST, WIRE_CAUSE_NONE, 0);
}

/* In frames of two files each, so that several are needed. */
static void send_state(struct peer *p, bool all)
{
    struct sim_node_tree *t = p->sync.tree;
    struct wire_sync_file files[2];
    struct wire_sync_state m = {.attempt = p->sync.attempt->record.attempt,
                                .base = all ? (char *)(uintptr_t) "" : t->id,
                                .files = files,
                                .parts = xcalloc(t->part_count + 1, sizeof(struct wire_sync_part))};
    bool every = !m.base[0];
    size_t i = 0;
    do {
        m.file_count = 0;
        for (; i < t->file_count && m.file_count < 2; i++)
            if (every || t->files[i].changed)
                files[m.file_count++] =
                    (struct wire_sync_file){t->files[i].path, t->files[i].changed ? NULL : t->files[i].oid,
                                            t->files[i].changed ? 0 : t->files[i].mode};
        m.last = i == t->file_count;
        for (; m.last && m.part_count < t->part_count; m.part_count++)
            m.parts[m.part_count] = (struct wire_sync_part){t->parts[m.part_count].oid, t->parts[m.part_count].size};
        struct buf out = {0};
        wire_put_sync_state(&out, &m);
        sim_send_frame(p, &out);
    } while (!m.last);
    free(m.parts);
}

static void on_sync(struct peer *p, struct wire_in *in)
{
    struct wire_sync m;
    struct node_sim *node = p->node;
    if (!wire_get_sync(in, &m)) {
        sim_peer_end(p, "malformed SYNC");
        return;
    }
    struct attempt *known = sim_find(node, m.attempt), *live = known ? NULL : sim_find_live(node, m.slot);
    if (known) {
        sim_send_record(p, WIRE_RECORD, known);
        return;
    }
    if (live) {
        sim_send_text(p, WIRE_BUSY, m.attempt, live->record.attempt, m.slot);
        return;
    }
    struct sim_node_tree *t = tree_find_named(node, m.name);
    if (!t) {
        t = xcalloc(1, sizeof *t);
        t->name = xstrdup(m.name);
        t->next = node->home->trees;
        node->home->trees = t;
    }
    if (m.flags & WIRE_SYNC_DISTRUST)
        tree_clear(t);
    struct wire_run run = {.attempt = m.attempt, .slot = m.slot, .key = m.key};
    struct attempt *a = sim_start_attempt(p, &run);
    p->sync = (struct sim_sync){.attempt = a, .tree = t, .missing = m.flags & WIRE_SYNC_MISSING};
    snprintf(p->sync.id, sizeof p->sync.id, "%s", m.tree);
    sim_attach(p, a, 0);
    send_state(p, false);
    t->id[0] = 0; /* a transfer is under way */
}

static void disk_full(struct peer *p, const char *path)
{
    struct attempt *a = p->sync.attempt;
    free(a->record.tail);
    a->record.tail = xasprintf("could not write \"%s\": %s", path, strerror(ENOSPC));
    end_file(p, false);
    end_sync(p, WIRE_STATE_ENDED, WIRE_CAUSE_SETUP, ENOSPC);
}

static void take_data(struct peer *p, const uint8_t *data, uint32_t len)
{
    struct sim_sync *s = &p->sync;
    CLEANUP(cleanup_free) uint8_t *want = xmalloc(len + 1);
    sim_content(s->file.oid, s->at, want, len);
    if (len > s->file.size - s->at || (len && memcmp(want, data, len) != 0)) {
        sim_peer_end(p, "the bytes of a file are wrong");
        return;
    }
    if (len > p->node->room) {
        disk_full(p, s->file.path);
        return;
    }
    p->node->room -= p->node->room == UINT64_MAX ? 0 : len;
    p->node->net->file_bytes += len;
    s->at += len;
    if (s->at == s->file.size)
        end_file(p, true);
}

static void on_file(struct peer *p, struct wire_in *in)
{
    struct wire_file m;
    struct sim_sync *s = &p->sync;
    if (!wire_get_file(in, &m)) {
        sim_peer_end(p, "malformed FILE");
        return;
    }
    if (!s->attempt || strcmp(s->attempt->record.attempt, m.attempt) != 0)
        return;
    uint64_t part = 0;
    for (size_t i = 0; i < s->tree->part_count; i++)
        if (memcmp(s->tree->parts[i].oid, m.oid, WIRE_OID_SIZE) == 0)
            part = s->tree->parts[i].size;
    if (s->busy || (m.offset && m.offset != part)) {
        sim_peer_end(p, "a FILE that does not go on where the last one stopped");
        return;
    }
    s->busy = true;
    s->at = m.offset;
    s->file = (struct sim_file){.path = xstrdup(m.path), .mode = m.mode, .size = m.size, .writer = p->node};
    memcpy(s->file.oid, m.oid, WIRE_OID_SIZE);
    take_data(p, m.data, m.len);
}

static void on_data(struct peer *p, struct wire_in *in)
{
    const char *attempt = wire_get_string(in);
    uint32_t len;
    const uint8_t *data = wire_get_bytes(in, &len);
    if (!p->sync.attempt || strcmp(p->sync.attempt->record.attempt, attempt) != 0)
        return;
    if (!wire_in_done(in) || !p->sync.busy || len == 0)
        sim_peer_end(p, "FILE_DATA without a FILE");
    else
        take_data(p, data, len);
}

static void on_remove(struct peer *p, struct wire_in *in)
{
    const char *attempt = wire_get_string(in);
    struct wire_strings paths = wire_get_strings(in);
    if (!p->sync.attempt || strcmp(p->sync.attempt->record.attempt, attempt) != 0)
        return;
    for (uint32_t i = 0; i < paths.count; i++)
        remove_file(p->sync.tree, paths.items[i]);
}

static void on_sync_end(struct peer *p, struct wire_in *in)
{
    const char *attempt = wire_get_string(in);
    struct sim_sync *s = &p->sync;
    if (!s->attempt || strcmp(s->attempt->record.attempt, attempt) != 0)
        return;
    if (s->busy) {
        sim_peer_end(p, "SYNC_END within a file");
        return;
    }
    memcpy(s->tree->id, s->id, sizeof s->id);
    end_sync(p, WIRE_STATE_ENDED, WIRE_CAUSE_NONE, 0);
}

/* ---- GLOB, GET: a path without wildcards is a file, or a folder and all below it; DIR ending in STAR STAR likewise ---- */

static void absolute(const char *pattern, char *ret, size_t size)
{
    pattern += str_starts(pattern, "~/") ? 2 : 0;
    snprintf(ret, size, "%s%s", *pattern == '/' ? "" : "/home/me/", pattern);
    size_t len = strlen(ret);
    if (len > 3 && strcmp(ret + len - 3, "/**") == 0)
        len -= 3;
    while (len > 1 && ret[len - 1] == '/')
        len--;
    ret[len] = 0;
}

/* Every node has every program. */
static void send_program(struct peer *p, uint64_t token, const char *name)
{
    struct wire_entry entry = {(char *)(uintptr_t)name, 0100755, 1, 0, 1, (char *)(uintptr_t) ""};
    const struct wire_entries m = {token,     (char *)(uintptr_t) "", (char *)(uintptr_t) "/usr/bin",
                                   .last = 1, .entries = &entry,      .entry_count = 1};
    struct buf out = {0};
    wire_put_entries(&out, &m);
    sim_send_frame(p, &out);
}

static void on_glob(struct peer *p, struct wire_in *in)
{
    struct node_sim *node = p->node;
    uint64_t token = wire_get_u64(in);
    const char *pattern = wire_get_string(in);
    char prefix[512], wild[512] = "";
    if (str_starts(pattern, WIRE_PATH_PROGRAM)) {
        send_program(p, token, pattern + strlen(WIRE_PATH_PROGRAM));
        return;
    }
    absolute(pattern, prefix, sizeof prefix);
    const char *only = NULL;
    if (find_file(node->made, node->made_count, prefix)) { /* one file */
        *strrchr(prefix, '/') = 0;
        only = prefix + strlen(prefix) + 1;
    }
    if (strchr(prefix, '*')) {
        snprintf(wild, sizeof wild, "%s", prefix);
        *strchr(prefix, '*') = 0;
        *strrchr(prefix, '/') = 0;
    }
    size_t len = strlen(prefix), i = 0;
    struct wire_entries m = {.token = token, .error = (char *)(uintptr_t) "", .prefix = prefix};
    struct wire_entry entries[2];
    m.entries = entries;
    do {
        m.entry_count = 0;
        for (; i < node->made_count && m.entry_count < 2; i++) {
            struct sim_file *f = &node->made[i];
            bool below = strncmp(f->path, prefix, len) == 0 && f->path[len] == '/' &&
                         (!only || strcmp(f->path + len + 1, only) == 0);
            if (below && (!*wild || fnmatch(wild, f->path, FNM_PATHNAME) == 0))
                entries[m.entry_count++] =
                    (struct wire_entry){f->path + len + 1, f->mode,  f->size,
                                        f->mtime_ns,       f->inode, f->target ? f->target : (char *)(uintptr_t) ""};
        }
        m.last = i == node->made_count;
        struct buf out = {0};
        wire_put_entries(&out, &m);
        sim_send_frame(p, &out);
    } while (!m.last);
}

static void send_data(struct peer *p, uint64_t token, uint64_t offset, bool last, const char *error, const void *data,
                      size_t len)
{
    struct buf out = {0};
    size_t at = wire_begin(&out, WIRE_DATA);
    wire_put_u64(&out, token);
    wire_put_u64(&out, offset);
    wire_put_u8(&out, last);
    wire_put_string(&out, error);
    wire_put_bytes(&out, data, len);
    wire_end(&out, at);
    sim_send_frame(p, &out);
}

static void on_get(struct peer *p, struct wire_in *in)
{
    uint64_t token = wire_get_u64(in);
    const char *path = wire_get_string(in);
    uint64_t offset = wire_get_u64(in), size = wire_get_u64(in), mtime_ns = wire_get_u64(in);
    struct sim_file *f = find_file(p->node->made, p->node->made_count, path);
    uint8_t data[50000];
    if (!f || f->size != size || f->mtime_ns != mtime_ns) {
        send_data(p, token, offset, true, "changed", NULL, 0);
        return;
    }
    for (;;) {
        size_t len = size - offset < sizeof data ? (size_t)(size - offset) : sizeof data;
        sim_content(f->oid, offset, data, len);
        p->node->net->got_bytes += len;
        send_data(p, token, offset, offset + len == size, "", data, len);
        offset += len;
        if (offset == size)
            return;
    }
}

void sim_on_transfer(struct peer *p, enum wire_type type, struct wire_in *in)
{
    if (p->sync.attempt && p->sync.attempt->record.state != WIRE_STATE_CLAIMED) { /* it was stopped meanwhile */
        end_file(p, false);
        p->sync.attempt = NULL;
    }
    if (type == WIRE_SYNC)
        on_sync(p, in);
    else if (type == WIRE_FILE)
        on_file(p, in);
    else if (type == WIRE_FILE_DATA)
        on_data(p, in);
    else if (type == WIRE_REMOVE)
        on_remove(p, in);
    else if (type == WIRE_SYNC_END)
        on_sync_end(p, in);
    else if (type == WIRE_GLOB)
        on_glob(p, in);
    else if (type == WIRE_GET)
        on_get(p, in);
    else if (p->sync.attempt)
        send_state(p, true);
}

/* ---- the test's side ---- */

void sim_share_home(struct sim_net *net, uint32_t node, uint32_t as)
{
    net->nodes[node].home = &net->nodes[as];
}

void sim_disk(struct sim_net *net, uint32_t node, uint64_t room_bytes)
{
    net->nodes[node].room = room_bytes;
}

void sim_touch(struct sim_net *net, uint32_t node, const char *name, const char *path)
{
    struct sim_node_tree *t = tree_find_named(&net->nodes[node], name);
    struct sim_file *f = t ? find_file(t->files, t->file_count, path) : NULL;
    if (f)
        f->changed = true;
}

const char *sim_tree_fault(const struct sim_net *net, uint32_t node, const char *name, const struct tree *tree)
{
    static char text[300];
    struct sim_node_tree *t = tree_find_named(&net->nodes[node], name);
    if (!t || strcmp(t->id, tree->id) != 0)
        return t ? "another tree" : "no tree";
    if (t->file_count != tree->count)
        return "not as many files";
    for (size_t i = 0; i < tree->count; i++) {
        const struct tree_file *want = &tree->files[i];
        const struct sim_file *f = find_file(t->files, t->file_count, want->path);
        if (f && !f->changed && !f->torn && f->mode == want->mode && memcmp(f->oid, want->oid, TREE_OID_SIZE) == 0)
            continue;
        snprintf(text, sizeof text, "%s is %s", want->path,
                 !f           ? "not there"
                 : f->changed ? "changed"
                 : f->torn    ? "torn"
                              : "another");
        return text;
    }
    return "";
}

uint64_t sim_got_bytes(const struct sim_net *net)
{
    return net->got_bytes;
}

uint64_t sim_file_bytes(const struct sim_net *net)
{
    return net->file_bytes;
}

static void make(struct sim_net *net, uint32_t node, struct sim_file f)
{
    struct node_sim *n = &net->nodes[node];
    struct sim_file *old = find_file(n->made, n->made_count, f.path);
    if (old) {
        file_free(old);
        *old = n->made[--n->made_count];
    }
    if (f.mode == 0) {
        file_free(&f);
        return;
    }
    f.inode = ++net->last_inode;
    f.mtime_ns = 1700000000000000000u + f.inode * 1000000;
    n->made = xreallocarray(n->made, n->made_count + 1, sizeof *n->made);
    n->made[n->made_count++] = f;
}

void sim_make(struct sim_net *net, uint32_t node, const char *path, unsigned version, uint64_t size, uint32_t mode)
{
    struct sim_file f = {.path = xstrdup(path), .size = size, .mode = mode};
    sim_oid(path, version, size, f.oid);
    make(net, node, f);
}

void sim_make_link(struct sim_net *net, uint32_t node, const char *path, const char *target)
{
    make(net, node, (struct sim_file){.path = xstrdup(path), .target = xstrdup(target), .mode = 0120777});
}

void sim_make_folder(struct sim_net *net, uint32_t node, const char *path)
{
    make(net, node, (struct sim_file){.path = xstrdup(path), .mode = 0040755});
}
