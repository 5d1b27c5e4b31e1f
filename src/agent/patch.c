/*
 * Changes that set-up RUNs made to transferred files. The RUN's supervisor compares the files with the index, and adds
 * the differences to the index before it records the good end; without that record, the RUN's changes count as
 * unwanted. The serving agent reports them with the RUN's record.
 */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct walk {
    const struct ledger *l;
    const char *who; /* of the RUN that ended; NULL: reporting */
    uint32_t count;
    int errnum;
    const char *attempt; /* reporting: only for this attempt, or NULL */
    struct buf *out;
};

/* One tree, open and read. */
struct look {
    struct tree tree;
    struct dirs dirs;
    struct stat st;
};

/* The file's present stat, or NULL if it does not exist. */
static const struct stat *stat_of(struct look *k, const struct tree_entry *e)
{
    const char *name;
    int fd = dirs_enter(&k->dirs, e->path, &name, NULL, NULL);
    return fd >= 0 && fstatat(fd, name, &k->st, AT_SYMLINK_NOFOLLOW) == 0 ? &k->st : NULL;
}

static int note(struct walk *w, struct look *k, struct error *err)
{
    struct tree *t = &k->tree;
    const char *who = NULL;
    for (uint32_t i = 0; i < t->count; i++) {
        struct tree_entry *e = &t->entries[i], now = {.flags = ENTRY_GONE};
        if (e->flags & (ENTRY_GONE | ENTRY_ANY))
            continue;
        const struct stat *st = stat_of(k, e);
        /* for a file that an earlier attempt of this step changed and this one did not, this attempt takes over the
         * patch */
        if (tree_entry_there(t, e, st) &&
            !(e->patch && strcmp(t->patches[e->patch - 1].who + WIRE_ID_LEN, w->who + WIRE_ID_LEN) == 0))
            continue;
        if (st) {
            now.flags = 0;
            tree_entry_stat(&now, st);
        }
        tree_patch(t, e, w->who, &now);
        tree_put_patch(&t->added, &t->patches[t->patch_count - 1], &who);
        w->count++;
    }
    return t->added.len ? tree_append(t, err) : 0;
}

static void tell(const struct walk *w, struct look *k, const char *name)
{
    const struct tree *t = &k->tree;
    for (uint32_t i = 0; i < t->patch_count; i++) {
        const struct tree_patch *p = &t->patches[i];
        if (!p->entry || (w->attempt && strncmp(p->who, w->attempt, WIRE_ID_LEN) != 0))
            continue;
        const struct tree_entry *e = &t->entries[p->entry - 1];
        bool there = !(e->flags & ENTRY_GONE) && tree_entry_there(t, e, stat_of(k, e));
        char attempt[WIRE_ID_LEN + 1];
        snprintf(attempt, sizeof attempt, "%s", p->who);
        struct wire_sync_file file = {(char *)(uintptr_t)e->path, e->oid, there ? e->mode : 0};
        wire_put_patched(w->out,
                         &(struct wire_sync_state){
                             .attempt = attempt, .base = (char *)(uintptr_t)name, .files = &file, .file_count = 1});
    }
}

static void each(void *context, const char *name, const char *root)
{
    struct walk *w = context;
    struct error err = ERROR_INIT;
    struct arena *arena = arena_create();
    CLEANUP(cleanup_free) struct look *k = xcalloc(1, sizeof *k);
    struct tree *t = &k->tree;
    tree_open(t, w->l, name, root, arena);
    if (!str_starts(t->root, "@base/work/") || str_starts(t->path, w->l->work_dir)) {
        CLEANUP(cleanup_close) int lock = open(arena_printf(arena, "%s/lock", t->dir), O_RDWR | O_CLOEXEC);
        CLEANUP(cleanup_close) int dir = open(t->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        k->dirs.root_fd = dir;
        errno = EIO;
        if ((w->who && lock_wait(lock) < 0) || tree_read(t, false, &err) < 0 || (w->who && note(w, k, &err) < 0))
            w->errnum = errno;
        else if (!w->who)
            tell(w, k, name);
        dirs_leave(&k->dirs, 0);
    }
    tree_close(t);
    arena_destroy(arena);
}

int patch_note(const struct ledger *l, const struct wire_run *run, uint32_t *ret_count)
{
    CLEANUP(cleanup_free) char *who = xasprintf("%s %s/%s", run->attempt, l->install, run->slot);
    struct walk w = {.l = l, .who = who};
    tree_each(l, true, each, &w);
    tree_each(l, false, each, &w);
    *ret_count = w.count;
    errno = w.errnum;
    return w.errnum ? -1 : 0;
}

void patch_put(const struct ledger *l, const char *attempt, struct buf *out)
{
    struct walk w = {.l = l, .attempt = attempt, .out = out};
    tree_each(l, true, each, &w);
    tree_each(l, false, each, &w);
}
