/* journal: power loss. A VFS between SQLite and the real one remembers, for each file, which writes were synced and
 * which were not. A cut makes everything fail from then on; then each file becomes its synced part plus an arbitrary
 * part of the rest: each write lost, whole or torn at 512 bytes, an unsynced new file or deletion undone. After each
 * cut every event whose callback ran must be there, in order and whole. */
#include "folder.h"
#include "../../src/journal/internal.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CUTS = 60, SECTOR = 512, TEXT_MAX = 60000 };

static char home[64];
static uint64_t seed;

static uint64_t chance(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

/* ---- the files as a disk has them ---- */

struct change {
    sqlite3_int64 at; /* of a write; the new size of a truncation */
    char *data;       /* NULL: truncation */
    size_t len;
};
struct disk_file {
    char *path;
    struct buf synced;
    struct change *changes;
    size_t count, cap;
    bool entry_synced; /* its creation */
    bool fresh;        /* the first sync of a new log also syncs the folder, as in SQLite's unix VFS */
    bool deleted;
};
static struct {
    pthread_mutex_t mutex;
    struct disk_file files[16];
    size_t count;
    uint64_t until_cut; /* writes and syncs; 0 = no power */
} disk = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct shim_file {
    sqlite3_file base;
    struct disk_file *tracked;
    sqlite3_file *real; /* after this struct */
};
static sqlite3_vfs *real_vfs;

static void set_length(struct buf *b, size_t len)
{
    if (len > b->len) {
        buf_reserve(b, len - b->len);
        memset(b->data + b->len, 0, len - b->len);
    }
    b->len = len;
}

static void put(struct buf *b, size_t at, const char *data, size_t len)
{
    if (b->len < at + len)
        set_length(b, at + len);
    memcpy(b->data + at, data, len);
}

static void apply_change(struct buf *b, const struct change *c)
{
    if (c->data)
        put(b, (size_t)c->at, c->data, c->len);
    else
        set_length(b, (size_t)c->at);
}

static void drop_changes(struct disk_file *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->changes[i].data);
    f->count = 0;
}

static void add_change(struct disk_file *f, sqlite3_int64 at, const void *data, size_t len)
{
    if (f->count == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 16;
        f->changes = xreallocarray(f->changes, f->cap, sizeof *f->changes);
    }
    struct change *c = &f->changes[f->count++];
    *c = (struct change){at, NULL, len};
    if (data) {
        c->data = xmalloc(len);
        memcpy(c->data, data, len);
    }
}

/* One operation; false if there is no power for it. */
static bool powered(void)
{
    if (disk.until_cut)
        disk.until_cut--;
    return disk.until_cut > 0;
}

static struct disk_file *track(const char *path, bool exists)
{
    for (size_t i = 0; i < disk.count; i++) {
        if (strcmp(disk.files[i].path, path) != 0)
            continue;
        if (disk.files[i].deleted && !exists) { /* created again */
            disk.files[i].deleted = false;
            disk.files[i].fresh = true;
            disk.files[i].entry_synced = false;
            drop_changes(&disk.files[i]);
            buf_clear(&disk.files[i].synced);
        }
        return &disk.files[i];
    }
    assert_true(disk.count < ARRAY_LEN(disk.files));
    struct disk_file *f = &disk.files[disk.count++];
    *f = (struct disk_file){.path = xstrdup(path), .entry_synced = exists, .fresh = !exists};
    if (exists && file_read(path, 1u << 30, &f->synced, NULL) < 0)
        fail_msg("cannot read %s", path);
    return f;
}

/* The state after a power cut; then the power is back. */
static void cut_and_restore(void)
{
    for (size_t i = 0; i < disk.count; i++) {
        struct disk_file *f = &disk.files[i];
        if ((f->deleted || !f->entry_synced) && chance(2)) {
            unlink(f->path);
        } else {
            for (size_t k = 0; k < f->count; k++) {
                struct change *c = &f->changes[k];
                uint64_t fate = chance(3);
                if (fate == 0)
                    continue;
                if (fate == 1 || !c->data) {
                    apply_change(&f->synced, c);
                    continue;
                }
                for (size_t at = 0; at < c->len; at += SECTOR)
                    if (chance(2))
                        put(&f->synced, (size_t)c->at + at, c->data + at, c->len - at < SECTOR ? c->len - at : SECTOR);
            }
            int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
            assert_true(fd >= 0);
            assert_int_equal(write_all(fd, f->synced.data, f->synced.len), 0);
            close(fd);
        }
        drop_changes(f);
        free(f->changes);
        free(f->path);
        buf_free(&f->synced);
    }
    disk.count = 0;
    disk.until_cut = UINT64_MAX;
}

/* ---- the VFS ---- */

static struct shim_file *shim(sqlite3_file *f)
{
    return (struct shim_file *)(void *)f;
}
static int shim_close(sqlite3_file *f)
{
    return shim(f)->real->pMethods->xClose(shim(f)->real);
}
static int shim_read(sqlite3_file *f, void *data, int len, sqlite3_int64 at)
{
    return shim(f)->real->pMethods->xRead(shim(f)->real, data, len, at);
}
static int shim_write(sqlite3_file *f, const void *data, int len, sqlite3_int64 at)
{
    pthread_mutex_lock(&disk.mutex);
    bool ok = powered();
    int rc = ok ? shim(f)->real->pMethods->xWrite(shim(f)->real, data, len, at) : SQLITE_IOERR_WRITE;
    if (ok && shim(f)->tracked)
        add_change(shim(f)->tracked, at, data, (size_t)len);
    pthread_mutex_unlock(&disk.mutex);
    return rc;
}
static int shim_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    pthread_mutex_lock(&disk.mutex);
    bool ok = powered();
    int rc = ok ? shim(f)->real->pMethods->xTruncate(shim(f)->real, size) : SQLITE_IOERR_TRUNCATE;
    if (ok && shim(f)->tracked)
        add_change(shim(f)->tracked, size, NULL, 0);
    pthread_mutex_unlock(&disk.mutex);
    return rc;
}
static int shim_sync(sqlite3_file *f, int flags)
{
    (void)flags;
    struct disk_file *t = shim(f)->tracked;
    pthread_mutex_lock(&disk.mutex);
    bool ok = powered();
    if (ok && t) {
        for (size_t i = 0; i < t->count; i++)
            apply_change(&t->synced, &t->changes[i]);
        drop_changes(t);
        for (size_t i = 0; t->fresh && i < disk.count; i++) {
            disk.files[i].entry_synced = true;
            if (disk.files[i].deleted)
                buf_clear(&disk.files[i].synced);
        }
        t->fresh = false;
    }
    pthread_mutex_unlock(&disk.mutex);
    return ok ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}
static int shim_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    return shim(f)->real->pMethods->xFileSize(shim(f)->real, ret);
}
static int shim_lock(sqlite3_file *f, int level)
{
    return shim(f)->real->pMethods->xLock(shim(f)->real, level);
}
static int shim_unlock(sqlite3_file *f, int level)
{
    return shim(f)->real->pMethods->xUnlock(shim(f)->real, level);
}
static int shim_reserved(sqlite3_file *f, int *ret)
{
    return shim(f)->real->pMethods->xCheckReservedLock(shim(f)->real, ret);
}
static int shim_control(sqlite3_file *f, int op, void *arg)
{
    if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE)
        return SQLITE_NOTFOUND; /* would change the size without our knowledge */
    return shim(f)->real->pMethods->xFileControl(shim(f)->real, op, arg);
}
static int shim_sector(sqlite3_file *f)
{
    return shim(f)->real->pMethods->xSectorSize(shim(f)->real);
}
static int shim_traits(sqlite3_file *f)
{
    return shim(f)->real->pMethods->xDeviceCharacteristics(shim(f)->real);
}
static int shim_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
    return shim(f)->real->pMethods->xShmMap(shim(f)->real, page, size, extend, ret);
}
static int shim_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return shim(f)->real->pMethods->xShmLock(shim(f)->real, offset, n, flags);
}
static void shim_shm_barrier(sqlite3_file *f)
{
    shim(f)->real->pMethods->xShmBarrier(shim(f)->real);
}
static int shim_shm_unmap(sqlite3_file *f, int remove_it)
{
    return shim(f)->real->pMethods->xShmUnmap(shim(f)->real, remove_it);
}

static int shim_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags, int *ret_flags)
{
    static const sqlite3_io_methods methods = {
        2,           shim_close,   shim_read,     shim_write,       shim_truncate,  shim_sync,
        shim_size,   shim_lock,    shim_unlock,   shim_reserved,    shim_control,   shim_sector,
        shim_traits, shim_shm_map, shim_shm_lock, shim_shm_barrier, shim_shm_unmap, NULL,
        NULL,
    };
    (void)vfs;
    struct shim_file *s = shim(f);
    s->base.pMethods = NULL;
    s->real = (sqlite3_file *)(void *)(s + 1);
    pthread_mutex_lock(&disk.mutex);
    bool exists = name && access(name, F_OK) == 0;
    int rc = SQLITE_CANTOPEN;
    if (exists || !name || powered())
        rc = real_vfs->xOpen(real_vfs, name, s->real, flags, ret_flags);
    if (rc == SQLITE_OK) {
        s->base.pMethods = &methods;
        s->tracked = name ? track(name, exists) : NULL;
    }
    pthread_mutex_unlock(&disk.mutex);
    return rc;
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    (void)vfs;
    pthread_mutex_lock(&disk.mutex);
    int rc = powered() ? real_vfs->xDelete(real_vfs, name, sync_dir) : SQLITE_IOERR_DELETE;
    for (size_t i = 0; rc == SQLITE_OK && i < disk.count; i++) {
        if (strcmp(disk.files[i].path, name) == 0) {
            disk.files[i].deleted = true;
            drop_changes(&disk.files[i]);
        }
    }
    pthread_mutex_unlock(&disk.mutex);
    return rc;
}

static void register_vfs(void)
{
    static sqlite3_vfs vfs;
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.zName = "powerloss";
    vfs.pNext = NULL;
    vfs.szOsFile = (int)sizeof(struct shim_file) + real_vfs->szOsFile;
    vfs.xOpen = shim_open;
    vfs.xDelete = shim_delete;
    assert_int_equal(sqlite3_vfs_register(&vfs, 0), SQLITE_OK);
}

/* ---- tests ---- */

static int setup(void **unused)
{
    (void)unused;
    const char *given = getenv("RHRUN_TEST_SEED");
    if (!given || !parse_u64(given, &seed))
        random_bytes(&seed, sizeof seed);
    seed |= 1;
    print_message("RHRUN_TEST_SEED=%llu\n", (unsigned long long)seed);
    strcpy(home, "/tmp/rhrun-power-XXXXXX");
    disk.until_cut = UINT64_MAX;
    return mkdtemp(home) ? setenv("RHRUN_HOME", home, 1) : -1;
}

static int teardown(void **unused)
{
    (void)unused;
    journal_set_vfs(NULL);
    cut_and_restore(); /* forgets the files */
    return folder_remove(home);
}

struct session {
    struct loop *loop;
    struct journal *j;
    uint64_t acked, waiting;
    bool failed;
};

/* Its number, then a text whose length follows from the number. */
static char *text_of(uint64_t seq)
{
    size_t len = seq % 2 ? 100 + seq % 50 : seq * 7919 % TEXT_MAX;
    char *text = xasprintf("%llu:", (unsigned long long)seq), *all = xmalloc(len + 32);
    memset(all, 'a' + (int)(seq % 26), len + 31);
    all[len + 31] = 0;
    memcpy(all, text, strlen(text));
    free(text);
    return all;
}

static uint64_t append(struct session *s, void (*done)(void *arg))
{
    CLEANUP(cleanup_free) char *text = text_of(journal_state(s->j)->last_seq + 1);
    struct event e = {.type = EVENT_NOTE, .note = {.node = EVENT_NODE_NONE, .reason = text}};
    journal_append(s->j, &e, done, s);
    return e.seq;
}

static void next(void *arg)
{
    struct session *s = arg;
    s->acked = s->waiting;
    if (s->waiting % 4 == 0)
        append(s, NULL);
    s->waiting = append(s, next);
}

static void on_failure(void *arg, const struct error *err)
{
    struct session *s = arg;
    assert_int_equal(err->code, ERROR_IO);
    s->failed = true;
    loop_stop(s->loop);
}

static bool check_event(void *arg, const struct event *e)
{
    uint64_t *last = arg;
    CLEANUP(cleanup_free) char *text = text_of(e->seq);
    assert_int_equal(e->seq, *last + 1);
    assert_string_equal(e->note.reason, text);
    *last = e->seq;
    return true;
}

static uint64_t count_kept(const char *id, uint64_t acked)
{
    struct journal *reader = NULL;
    struct error err = ERROR_INIT;
    uint64_t last = 0;
    if (journal_open_read(id, &reader, &err) < 0) {
        if (acked)
            fail_msg("%llu events were acknowledged: %s", (unsigned long long)acked, err.text);
        return 0;
    }
    assert_int_equal(journal_each(reader, 0, check_event, &last, &err), 0);
    assert_int_equal(journal_state(reader)->last_seq, last);
    journal_close(reader); /* without a checkpoint: the next writer finds the state of the cut */
    if (last < acked)
        fail_msg("%llu events were acknowledged, %llu are there", (unsigned long long)acked, (unsigned long long)last);
    return last;
}

static void test_power_cuts(void **unused)
{
    (void)unused;
    char id[17];
    uint64_t kept = 0, failed_opens = 0;
    journal_job_id("job", "origin", id);
    journal_set_vfs("powerloss");
    for (int i = 0; i < CUTS; i++) {
        struct session s = {.loop = loop_create(), .acked = kept};
        struct error err = ERROR_INIT;
        disk.until_cut = 1 + (chance(3) ? chance(300) : chance(30)); /* some of them while it opens */
        if (journal_open(s.loop, "job", "origin", "me@here", &s.j, &err) == 0) {
            journal_on_failure(s.j, on_failure, &s);
            assert_int_equal(journal_state(s.j)->last_seq, kept);
            s.waiting = append(&s, next);
            loop_run(s.loop);
            assert_true(s.failed);
            journal_close(s.j);
        } else {
            assert_int_equal(err.code, ERROR_IO);
            failed_opens++;
        }
        loop_destroy(s.loop);
        cut_and_restore();
        CLEANUP(cleanup_free) char *shm = xasprintf("%s/jobs/%s/journal.db-shm", home, id);
        unlink(shm);
        kept = count_kept(id, s.acked);
    }
    assert_true(kept > CUTS);
    assert_true(failed_opens < CUTS / 2);
}

/* The shim works: with syncing off, cuts do lose committed events. */
static void test_the_shim_loses_what_was_not_synced(void **unused)
{
    (void)unused;
    int lost = 0;
    CLEANUP(cleanup_free) char *file = xasprintf("%s/x.db", home);
    CLEANUP(cleanup_free) char *wal = xasprintf("%s-wal", file);
    CLEANUP(cleanup_free) char *shm = xasprintf("%s-shm", file);
    for (int i = 0; i < 10; i++) {
        sqlite3 *db;
        sqlite3_stmt *q;
        disk.until_cut = UINT64_MAX;
        assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "powerloss"), 0);
        assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(x)", NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous=OFF", NULL, NULL, NULL),
                         0);
        for (int k = 0; k < 5; k++)
            assert_int_equal(sqlite3_exec(db, "INSERT INTO t VALUES(1)", NULL, NULL, NULL), SQLITE_OK);
        disk.until_cut = 0;
        sqlite3_close(db);
        cut_and_restore();
        unlink(shm);
        assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE, "powerloss"), SQLITE_OK);
        if (sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &q, NULL) != SQLITE_OK ||
            sqlite3_step(q) != SQLITE_ROW || sqlite3_column_int(q, 0) < 5)
            lost++;
        sqlite3_finalize(q);
        sqlite3_close(db);
        cut_and_restore();
        unlink(file);
        unlink(wal);
        unlink(shm);
    }
    assert_true(lost > 0);
}

int main(void)
{
    register_vfs();
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_power_cuts),
        TEST(test_the_shim_loses_what_was_not_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
