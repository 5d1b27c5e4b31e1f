/*
 * Any bytes as what lies in a job's ledger on a node: the status of an attempt, the epoch, the owner, the ids. Reading ends,
 * and a record that the agent would send is one that the other side takes.
 */
#include "../../src/agent/internal.h"
#include "scene.h"

#include <sys/stat.h>

static const char attempt[] = "0123456789abcdef0123456789abcdef";
static struct ledger ledger;
static struct arena *kept; /* of the ledger */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    scene_begin();
    kept = arena_create();
    static char empty[] = "", job[] = "0123456789abcdef", owner[] = "owner";
    struct wire_hello hello = {.owner = owner,
                               .owner_name = owner,
                               .job = job,
                               .variant = job,
                               .base_dir = scene_dir,
                               .work_dir = empty,
                               .host_digest = empty,
                               .test_boot_id = empty};
    struct error err = ERROR_INIT;
    if (ledger_open(&ledger, &hello, kept, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return mkdirat(ledger.a_fd, attempt, 0700);
}

static void put(int dir_fd, const char *name, const void *data, size_t len)
{
    CLEANUP(cleanup_close) int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, data, len) < 0)
        abort();
}

/* What would be refused at the first look is right, but for what the input wants wrong. */
static void put_status(int dir_fd, struct scene_input *in)
{
    struct status st = {.version = STATUS_VERSION};
    size_t len;
    uint8_t flags = scene_byte(in);
    const uint8_t *p = scene_piece(in, &len);
    CLEANUP(cleanup_free) uint8_t *raw = xcalloc(1, sizeof st + len);
    memcpy(raw, &st, sizeof st);
    size_t from = flags & 1 ? 0 : offsetof(struct status, attempt);
    memcpy(raw + from, p, len);
    if (!(flags & 2)) {
        struct status *s = (struct status *)(void *)raw;
        s->version = STATUS_VERSION;
        atomic_store(&s->state, flags % 5u);
        memcpy(s->attempt, attempt, sizeof attempt);
        s->key[sizeof s->key - 1] = s->variant[sizeof s->variant - 1] = s->boot_id[sizeof s->boot_id - 1] = 0;
        s->slot[sizeof s->slot - 1] = s->tail[sizeof s->tail - 1] = s->leftover[sizeof s->leftover - 1] = 0;
        s->worker_count %= (uint32_t)(len / sizeof(struct status_worker) + 2);
    }
    put(dir_fd, "status", raw, sizeof st + len - (flags & 4 ? len % 100 : 0));
}

static void check_record(int dir_fd, struct arena *arena)
{
    struct wire_record record, back;
    struct error err = ERROR_INIT;
    if (status_read(dir_fd, "boot", arena, &record, &err) < 0) {
        if (!err.code)
            abort(); /* without a reason */
        return;
    }
    struct buf out = {0}, again = {0};
    enum wire_type type;
    const uint8_t *payload;
    uint32_t len;
    wire_put_record(&out, WIRE_RECORD, &record);
    if (wire_peek(&out, &type, &payload, &len) != 1)
        abort();
    struct wire_in reader = {payload, payload + len, arena, false};
    if (!wire_get_record(&reader, &back))
        abort(); /* the other side would end the connection */
    wire_put_record(&again, WIRE_RECORD, &back);
    if (again.len != out.len || memcmp(again.data, out.data, out.len) != 0)
        abort();
    (void)wire_record_success(&back);
    buf_free(&out);
    buf_free(&again);
}

static bool each(void *context, const char *name, int dir_fd)
{
    static struct status status;
    if (strcmp(name, attempt) != 0)
        abort();
    if (ledger_status(dir_fd, &status) && status.version != STATUS_VERSION)
        abort();
    check_record(dir_fd, context);
    return true;
}

static void check_small(struct arena *arena)
{
    struct error err = ERROR_INIT;
    uint64_t epoch;
    char *owner, *name;
    if (ledger_epoch(&ledger, &epoch, &err) < 0 && !err.code)
        abort();
    if (ledger_epoch_set(&ledger, 7, &err) < 0 || ledger_epoch(&ledger, &epoch, &err) < 0 || epoch != 7)
        abort(); /* whatever was there before */
    ledger_owner(&ledger, arena, &owner, &name);
    if (strchr(owner, '\n') || strchr(name, '\n'))
        abort();
    (void)ledger_connected(&ledger, owner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene_input in = {data, size};
    struct arena *arena = arena_create();
    CLEANUP(cleanup_close) int dir_fd = ledger_attempt(&ledger, attempt);
    size_t len;
    if (dir_fd < 0)
        abort();
    put_status(dir_fd, &in);
    const uint8_t *p = scene_piece(&in, &len);
    put(ledger.job_fd, "owner", p, len);
    put(ledger.job_fd, "epoch", in.p, in.left);
    ledger_each(&ledger, each, arena);
    check_small(arena);
    arena_destroy(arena);
    return 0;
}
