/*
 * Any bytes as the index of a tree on a node: it is read or refused, what is read has sound paths and can be found, and the
 * tree that is committed from it is the one that is read back. The records' sums are made right, unless the first byte
 * asks for the contrary.
 */
#include "../../src/agent/tree.c"

#include "scene.h"

static struct ledger ledger;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    scene_begin();
    static char job[] = "job", home[] = "", work[] = "work", boot[] = "boot";
    ledger = (struct ledger){
        .base = scene_dir, .job = job, .home = home, .job_dir = scene_dir, .work_dir = work, .boot_id = boot};
    CLEANUP(cleanup_free) char *dir = xasprintf("%s/t/job/x", scene_dir);
    return mkdir_p(dir, 0700, NULL);
}

static void open_it(struct tree *t, struct arena *arena)
{
    tree_open(t, &ledger, "x", "@base/work", arena);
}

/* A head first, then records as the input has them: op, flags, path, and the rest of the bytes. */
static void put_records(struct scene_input *in, const char *root, struct arena *arena, struct buf *out)
{
    uint8_t op = OP_HEAD;
    const char *path = root;
    while (in->left) {
        struct record r = {.op = op, .flags = op == OP_HEAD ? INDEX_VERSION : scene_byte(in)};
        r.size = scene_byte(in);
        r.mode = scene_byte(in);
        r.oid[0] = scene_byte(in);
        put_record(out, &r, path);
        op = scene_byte(in) % 6;
        path = op == OP_BOOT && scene_byte(in) & 1 ? "boot" : scene_text(in, arena);
    }
}

static void check(const struct tree *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (tree_find(t, t->entries[i].path) != &t->entries[i] || !wire_tree_path_valid(t->entries[i].path))
            abort();
}

/* Written as a complete tree: the entries that were not gone, and no others. */
static void commit(struct tree *t, struct arena *arena)
{
    static const char id[] = "0123456789abcdef0123456789abcdef01234567";
    struct tree back;
    struct error err = ERROR_INIT;
    uint32_t kept = 0;
    if (tree_commit(t, id, &err) < 0)
        abort();
    open_it(&back, arena);
    if (tree_read(&back, false, &err) < 0 || back.fresh || strcmp(back.id, id) != 0)
        abort();
    for (uint32_t i = 0; i < t->count; i++) {
        const struct tree_entry *was = &t->entries[i], *is = tree_find(&back, was->path);
        if (was->flags & ENTRY_GONE ? is != NULL : !is || is->size != was->size || is->mode != was->mode)
            abort();
        kept += !(was->flags & ENTRY_GONE);
    }
    if (back.count != kept)
        abort();
    tree_close(&back);
}

/* What is added comes back, in this boot. */
static void add(struct tree *t, struct arena *arena)
{
    struct tree back;
    struct error err = ERROR_INIT;
    struct tree_entry *e = tree_entry(t, "added/file");
    *e = (struct tree_entry){.path = e->path, .mode = 0644, .size = 5, .flags = ENTRY_NEW};
    tree_add(t, e);
    if (tree_flush(t, &err) < 0)
        abort();
    open_it(&back, arena);
    if (tree_read(&back, false, &err) < 0 || !(e = tree_find(&back, "added/file")) || e->flags & ENTRY_GONE ||
        e->size != 5)
        abort();
    tree_close(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene_input in = {data, size};
    struct arena *arena = arena_create();
    struct error err = ERROR_INIT;
    struct tree t;
    struct buf text = {0};
    uint8_t flags = scene_byte(&in);
    open_it(&t, arena);
    if (flags & 1)
        buf_append(&text, in.p, in.left);
    else
        put_records(&in, t.root, arena, &text);
    CLEANUP(cleanup_free) char *path = xasprintf("%s/index", t.dir);
    scene_write(path, text.data, text.len);
    if (tree_read(&t, flags & 2, &err) < 0)
        abort();
    check(&t);
    if (flags & 4)
        add(&t, arena);
    else
        commit(&t, arena);
    tree_close(&t);
    buf_free(&text);
    arena_destroy(arena);
    return 0;
}
