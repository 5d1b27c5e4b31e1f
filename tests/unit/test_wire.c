/* wire: every message there and back, and refused if any of its bytes is wrong. */
#include "rhrun/wire.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef"

static char *strings_a[] = {(char *)"A=1", (char *)"B=two\nlines", (char *)"C="};
static char *strings_b[] = {(char *)"echo hi"};
static struct wire_worker workers[] = {
    {.rank = 3, .local_rank = 1, .shell = 1, .argv = {strings_b, 1}, .env = {strings_a, 3}},
    {.rank = 4, .local_rank = 2, .shell = 0, .argv = {strings_b, 1}, .env = {NULL, 0}},
};
static struct wire_worker_end ends[] = {{3, WIRE_CAUSE_EXIT, 7, 123}, {4, WIRE_CAUSE_SIGNAL, 9, 456}};
static const struct wire_hello hello = {.version = WIRE_VERSION,
                                        .mode = WIRE_TAKE_OVER,
                                        .job = (char *)"00112233aabbccdd",
                                        .job_name = (char *)"n",
                                        .origin = (char *)"/x/job.yaml",
                                        .owner = (char *)"owner1",
                                        .owner_name = (char *)"me@here",
                                        .variant = (char *)"ffeeddccbbaa9988",
                                        .work_dir = (char *)"/w",
                                        .base_dir = (char *)"",
                                        .host_digest = (char *)"local:0",
                                        .test_boot_id = (char *)"b"};
static const struct wire_facts facts = {.version = 1,
                                        .epoch = 1ull << 40,
                                        .install = (char *)"i",
                                        .boot_id = (char *)"b",
                                        .machine_id = (char *)"m",
                                        .home_id = (char *)"h",
                                        .hostname = (char *)"host",
                                        .user = (char *)"u",
                                        .home = (char *)"/home/u",
                                        .base_dir = (char *)"/home/u/.rhrun",
                                        .work_dir = (char *)"/w",
                                        .arch = (char *)"x86_64",
                                        .kernel = (char *)"6",
                                        .os = (char *)"Debian",
                                        .cpu = (char *)"EPYC 9654",
                                        .image = (char *)"sha256:0123",
                                        .image_digest = (char *)"library/debian@sha256:4567",
                                        .shell = (char *)"/bin/bash",
                                        .python = (char *)"/usr/bin/python3",
                                        .python_version = (char *)"3.11",
                                        .gpus = (char *)"H\nH",
                                        .address = (char *)"10.0.0.1",
                                        .cpus = 8,
                                        .gpu_count = 2,
                                        .memory_bytes = 1ull << 35,
                                        .disk_free_bytes = 77,
                                        .mono_ns = 5,
                                        .wall_ms = 6};
static const struct wire_run run = {.attempt = (char *)ID,
                                    .slot = (char *)"setup:k",
                                    .key = (char *)"k",
                                    .launch = (char *)"r-3",
                                    .kind = WIRE_KIND_STEP,
                                    .cpus = WIRE_CPUS_NODE,
                                    .hosts = (char *)"10.0.0.1 slots=2\n",
                                    .cwd = (char *)"sub",
                                    .env_in = (char *)"in",
                                    .env_out = (char *)"out",
                                    .creates = (char *)"f",
                                    .path_first = (char *)"/v/bin:/b",
                                    .unset = {strings_b, 1},
                                    .env = {strings_a, 3},
                                    .env_default = {strings_a, 2},
                                    .secrets = {strings_a, 1},
                                    .workers = workers,
                                    .worker_count = 2,
                                    .timeout_ms = 9,
                                    .grace_ms = 8,
                                    .spared = {strings_b, 1},
                                    .notice = {.who = (char *)"w",
                                               .address = 0xA9FEA9FE,
                                               .port = 80,
                                               .token = (char *)"t",
                                               .request = (char *)"r",
                                               .match = (char *)"*",
                                               .every_ms = WIRE_NOTICE_EVERY_MIN_MS,
                                               .within_ms = 6},
                                    .log_limit_bytes = 7};
static const struct wire_record record = {.attempt = (char *)ID,
                                          .slot = (char *)"launch",
                                          .key = (char *)"k",
                                          .variant = (char *)"v",
                                          .boot_id = (char *)"b",
                                          .launch = (char *)"r-3",
                                          .verdict = WIRE_VERDICT_GOOD,
                                          .state = WIRE_STATE_ENDED,
                                          .same_boot = 1,
                                          .stop_requested = 0,
                                          .timed_out = 1,
                                          .sequence = 11,
                                          .claim_wall_ms = 1,
                                          .start_mono_ns = 2,
                                          .end_mono_ns = 3,
                                          .end_wall_ms = 4,
                                          .spool_bytes = 5,
                                          .kept_from = 6,
                                          .dropped_bytes = 7,
                                          .dropped = WIRE_DROPPED_DISK,
                                          .cause = WIRE_CAUSE_EXIT,
                                          .value = -8,
                                          .cause_rank = 9,
                                          .cause_mono_ns = 10,
                                          .patched = 12,
                                          .tail = (char *)"tail\n",
                                          .leftover = (char *)"1 x\n",
                                          .workers = ends,
                                          .worker_count = 2};

static const uint8_t oid[WIRE_OID_SIZE] = "0123456789abcdefghi";
static const struct wire_sync sync_message = {.attempt = (char *)ID,
                                              .slot = (char *)"sync:workdir",
                                              .key = (char *)"k",
                                              .name = (char *)"workdir-1",
                                              .root = (char *)"@base/work",
                                              .tree = (char *)"0123456789012345678901234567890123456789",
                                              .flags = WIRE_SYNC_DISTRUST | WIRE_SYNC_MISSING};
static const struct wire_file file = {.attempt = (char *)ID,
                                      .path = (char *)"a/b",
                                      .mode = 0100755,
                                      .size = 1000,
                                      .oid = oid,
                                      .offset = 990,
                                      .data = (const uint8_t *)"0123456789",
                                      .len = 10};
static char *check_paths[] = {(char *)"a", (char *)"~/b"}, *check_trees[] = {(char *)"n", (char *)"", (char *)"id"};
static const struct wire_check check = {5, {check_paths, 2}, {check_trees, 3}};
static struct wire_sync_file sync_files[] = {{(char *)"a", oid, 0100755}, {(char *)"b/c", NULL, 0}};
static struct wire_sync_part parts[] = {{oid, 1ull << 40}};
static const struct wire_sync_state sync_state = {.attempt = (char *)ID,
                                                  .base = (char *)"0123456789012345678901234567890123456789",
                                                  .last = 1,
                                                  .files = sync_files,
                                                  .file_count = 2,
                                                  .parts = parts,
                                                  .part_count = 1};
static struct wire_sync_file patched_files[] = {{(char *)"a", oid, 0100755}, {(char *)"b/c", oid, 0}};
static const struct wire_sync_state patched = {
    .attempt = (char *)ID, .base = (char *)"work-1", .files = patched_files, .file_count = 2};
static struct wire_entry entry_list[] = {{(char *)"a", 0100644, 1, 2, 3, (char *)""},
                                         {(char *)"d/l", 0120777, 4, 5, 6, (char *)"../x"},
                                         {(char *)"d", 0040755, 4, 5, 7, (char *)""}};
static const struct wire_entries entries = {
    .token = 9, .error = (char *)"", .prefix = (char *)"/w/out", .last = 1, .entries = entry_list, .entry_count = 3};

/* Reads and writes again with the message's own functions: equal bytes mean that nothing was lost. */
static bool again(enum wire_type type, struct wire_in *in, struct buf *out)
{
    struct wire_hello h;
    struct wire_facts f;
    struct wire_run r;
    struct wire_record rec;
    struct wire_sync sync;
    struct wire_file f1;
    struct wire_check c;
    struct wire_sync_state st;
    struct wire_entries e;
    switch ((int)type) {
    case WIRE_HELLO:
        return wire_get_hello(in, &h) && (wire_put_hello(out, &h), true);
    case WIRE_HELLO_OK:
        return wire_get_facts(in, &f) && (wire_put_facts(out, &f), true);
    case WIRE_RUN:
        return wire_get_run(in, &r) && (wire_put_run(out, &r), true);
    case WIRE_RECORD:
    case WIRE_EXIT:
        return wire_get_record(in, &rec) && (wire_put_record(out, type, &rec), true);
    case WIRE_SYNC:
        return wire_get_sync(in, &sync) && (wire_put_sync(out, &sync), true);
    case WIRE_FILE:
        return wire_get_file(in, &f1) && (wire_put_file(out, &f1), true);
    case WIRE_CHECK:
        return wire_get_check(in, &c) && (wire_put_check(out, &c), true);
    case WIRE_SYNC_STATE:
        return wire_get_sync_state(in, &st) && (wire_put_sync_state(out, &st), true);
    case WIRE_PATCHED:
        return wire_get_patched(in, &st) && (wire_put_patched(out, &st), true);
    case WIRE_ENTRIES:
        return wire_get_entries(in, &e) && (wire_put_entries(out, &e), true);
    default:
        return false;
    }
}

static bool parse(enum wire_type type, const void *payload, size_t len, struct buf *out)
{
    struct arena *arena = arena_create();
    uint8_t *copy = malloc(len ? len : 1); /* exact size, so that ASan sees any read past it */
    assert_non_null(copy);
    memcpy(copy, payload, len);
    struct wire_in in = {copy, copy + len, arena, false};
    bool ok = again(type, &in, out);
    free(copy);
    arena_destroy(arena);
    return ok;
}

static void check_message(const struct buf *frame)
{
    enum wire_type type;
    const uint8_t *payload;
    uint32_t len;
    assert_int_equal(wire_peek(frame, &type, &payload, &len), 1);
    assert_int_equal(len + WIRE_HEADER_SIZE, frame->len);
    struct buf out = {0};
    assert_true(parse(type, payload, len, &out));
    assert_int_equal(out.len, frame->len);
    assert_memory_equal(out.data, frame->data, out.len);
    for (uint32_t cut = 0; cut < len; cut++)
        assert_false(parse(type, payload, cut, &out));
    struct buf longer = {0};
    buf_append(&longer, payload, len);
    buf_putc(&longer, 0);
    assert_false(parse(type, longer.data, longer.len, &out));
    /* every byte changed in turn: accepted or refused, never read out of bounds */
    for (size_t i = 0; i < len; i++) {
        longer.data[i] ^= (char)0x80;
        buf_clear(&out);
        parse(type, longer.data, len, &out);
        longer.data[i] ^= (char)0x80;
    }
    buf_free(&longer);
    buf_free(&out);
}

static void test_messages(void **state)
{
    (void)state;
    struct buf b = {0};
    wire_put_hello(&b, &hello);
    check_message(&b);
    buf_clear(&b);
    wire_put_facts(&b, &facts);
    check_message(&b);
    buf_clear(&b);
    wire_put_run(&b, &run);
    check_message(&b);
    buf_clear(&b);
    wire_put_record(&b, WIRE_RECORD, &record);
    check_message(&b);
    buf_clear(&b);
    wire_put_record(&b, WIRE_EXIT, &record);
    check_message(&b);
    buf_clear(&b);
    wire_put_sync(&b, &sync_message);
    check_message(&b);
    buf_clear(&b);
    wire_put_file(&b, &file);
    check_message(&b);
    buf_clear(&b);
    wire_put_check(&b, &check);
    check_message(&b);
    buf_clear(&b);
    wire_put_sync_state(&b, &sync_state);
    check_message(&b);
    buf_clear(&b);
    wire_put_patched(&b, &patched);
    check_message(&b);
    buf_clear(&b);
    wire_put_entries(&b, &entries);
    check_message(&b);
    buf_free(&b);
}

static void test_values(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    struct buf b = {0};
    struct wire_run r;
    struct wire_record rec;
    wire_put_run(&b, &run);
    wire_put_record(&b, WIRE_EXIT, &record);
    enum wire_type type;
    const uint8_t *p;
    uint32_t len;
    assert_int_equal(wire_peek(&b, &type, &p, &len), 1);
    struct wire_in in = {p, p + len, arena, false};
    assert_true(wire_get_run(&in, &r));
    assert_string_equal(r.workers[0].env.items[1], "B=two\nlines");
    assert_int_equal(r.workers[1].rank, 4);
    assert_int_equal(r.log_limit_bytes, 7);
    assert_string_equal(r.spared.items[0], strings_b[0]);
    buf_consume(&b, WIRE_HEADER_SIZE + len);
    assert_int_equal(wire_peek(&b, &type, &p, &len), 1);
    assert_int_equal(type, WIRE_EXIT);
    in = (struct wire_in){p, p + len, arena, false};
    assert_true(wire_get_record(&in, &rec));
    assert_int_equal(rec.value, -8);
    assert_int_equal(rec.workers[1].value, 9);
    assert_string_equal(rec.tail, "tail\n");
    buf_free(&b);
    arena_destroy(arena);
}

static bool run_refused(struct wire_run changed)
{
    struct buf b = {0}, out = {0};
    wire_put_run(&b, &changed);
    bool ok = parse(WIRE_RUN, b.data + WIRE_HEADER_SIZE, b.len - WIRE_HEADER_SIZE, &out);
    buf_free(&b);
    buf_free(&out);
    return !ok;
}

static bool hello_refused(struct wire_hello changed)
{
    struct buf b = {0}, out = {0};
    wire_put_hello(&b, &changed);
    bool ok = parse(WIRE_HELLO, b.data + WIRE_HEADER_SIZE, b.len - WIRE_HEADER_SIZE, &out);
    buf_free(&b);
    buf_free(&out);
    return !ok;
}

static void test_rules(void **state)
{
    (void)state;
    static char *no_equals[] = {(char *)"NAME"}, *no_name[] = {(char *)"=x"};
    struct wire_run r = run;
    assert_false(run_refused(r));
#define REFUSED(field, v) \
    r = run;              \
    r.field = v;          \
    assert_true(run_refused(r))
    REFUSED(attempt, (char *)"0123456789ABCDEF0123456789abcdef");
    REFUSED(attempt, (char *)"../x");
    REFUSED(kind, 0);
    REFUSED(kind, 3);
    REFUSED(cpus, WIRE_CPUS_CORE_COMPLEX + 1);
    REFUSED(slot, (char *)"");
    REFUSED(env_in, (char *)"../x");
    REFUSED(env_out, (char *)".x");
    REFUSED(env, ((struct wire_strings){no_equals, 1}));
    REFUSED(env_default, ((struct wire_strings){no_name, 1}));
    REFUSED(secrets, ((struct wire_strings){no_name, 1}));
    REFUSED(worker_count, 0);
    REFUSED(notice.address, 0x08080808); /* a node asks itself only */
    REFUSED(notice.address, 0xA9FF0001);
    REFUSED(notice.address, 1);
    REFUSED(notice.every_ms, WIRE_NOTICE_EVERY_MIN_MS - 1);
#undef REFUSED
    struct wire_worker w = workers[0];
    r = run;
    r.workers = &w;
    r.worker_count = 1;
    assert_false(run_refused(r));
    w.argv.count = 0;
    assert_true(run_refused(r));
    w = workers[0];
    w.local_rank = WIRE_WORKERS_MAX;
    assert_true(run_refused(r));
    w = workers[0];
    w.shell = 2;
    assert_true(run_refused(r));
    struct wire_hello h = hello;
    assert_false(hello_refused(h));
    h.job = (char *)"../../../../x";
    assert_true(hello_refused(h));
    h = hello;
    h.owner = (char *)"a/b";
    assert_true(hello_refused(h));
    h = hello;
    h.work_dir = (char *)"relative";
    assert_true(hello_refused(h));
    h = hello;
    h.mode = 3;
    assert_true(hello_refused(h));
}

static bool refused(enum wire_type type, struct buf *b)
{
    struct buf out = {0};
    bool ok = parse(type, b->data + WIRE_HEADER_SIZE, b->len - WIRE_HEADER_SIZE, &out);
    buf_free(b);
    buf_free(&out);
    return !ok;
}

static bool file_refused(struct wire_file changed)
{
    struct buf b = {0};
    wire_put_file(&b, &changed);
    return refused(WIRE_FILE, &b);
}

static bool sync_refused(struct wire_sync changed)
{
    struct buf b = {0};
    wire_put_sync(&b, &changed);
    return refused(WIRE_SYNC, &b);
}

static bool entry_refused(struct wire_entry changed)
{
    struct buf b = {0};
    struct wire_entries m = entries;
    m.entries = &changed;
    m.entry_count = 1;
    wire_put_entries(&b, &m);
    return refused(WIRE_ENTRIES, &b);
}

static void test_transfer_rules(void **state)
{
    (void)state;
    struct wire_file f = file;
    struct wire_sync y = sync_message;
    struct wire_entry e = entry_list[0];
    assert_false(file_refused(f) || sync_refused(y) || entry_refused(e));
#define REFUSED(message, original, field, v) \
    message = original;                      \
    message.field = v;                       \
    assert_true(message##_refused(message))
#define f_refused file_refused
#define y_refused sync_refused
#define e_refused entry_refused
    REFUSED(f, file, path, (char *)"../x");
    REFUSED(f, file, path, (char *)".git/hooks/x");
    REFUSED(f, file, mode, 0100600);
    REFUSED(f, file, mode, 0120000); /* a link comes whole */
    REFUSED(f, file, oid, NULL);
    REFUSED(f, file, offset, 991);
    REFUSED(f, file, offset, UINT64_MAX);
    REFUSED(f, file, attempt, (char *)"");
    REFUSED(y, sync_message, attempt, (char *)"x");
    REFUSED(y, sync_message, slot, (char *)"");
    REFUSED(y, sync_message, name, (char *)"../x");
    REFUSED(y, sync_message, name, (char *)".x");
    REFUSED(y, sync_message, tree, (char *)"");
    REFUSED(y, sync_message, flags, 4);
    REFUSED(e, entry_list[0], path, (char *)"../x");
    REFUSED(e, entry_list[0], path, (char *)"/x");
    REFUSED(e, entry_list[0], mode, 0010644); /* a FIFO */
    REFUSED(e, entry_list[0], mode, 0120777); /* a link to nowhere */
#undef REFUSED
    f = file;
    f.mode = 0120000;
    f.size = f.len = 4;
    f.offset = 0;
    f.data = (const uint8_t *)"../x";
    assert_false(file_refused(f));
    f.data = (const uint8_t *)"a\0bc";
    assert_true(file_refused(f));
    f.size = f.len = 0;
    assert_true(file_refused(f));
    struct buf b = {0};
    struct wire_check c = check;
    c.trees.count = 2;
    wire_put_check(&b, &c);
    assert_true(refused(WIRE_CHECK, &b));
}

static void test_tree_paths(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", "...", "..a", ".git2", "a/.git", "x\n\x01\xff/ y", ".gitignore"};
    static const char *const bad[] = {"",    "/",   "/a",     "a/",   "a//b",  ".",           "..",   "./a",
                                      "a/.", "../", "a/../b", ".git", ".git/", ".git/config", "a/..", "a/./b"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(wire_tree_path_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(wire_tree_path_valid(bad[i]));
    struct buf deep = {0};
    for (int i = 0; i < 200; i++)
        buf_puts(&deep, i ? "/d" : "d");
    assert_true(wire_tree_path_valid(deep.data));
    buf_puts(&deep, "/d");
    assert_false(wire_tree_path_valid(deep.data));
    buf_clear(&deep);
    while (deep.len < WIRE_PATH_MAX)
        buf_putc(&deep, 'x');
    assert_true(wire_tree_path_valid(deep.data));
    buf_putc(&deep, 'x');
    assert_false(wire_tree_path_valid(deep.data));
    buf_free(&deep);
}

static void test_frames(void **state)
{
    (void)state;
    struct buf b = {0};
    enum wire_type type;
    const uint8_t *p;
    uint32_t len;
    size_t start = wire_begin(&b, WIRE_PING);
    wire_put_u64(&b, 0x1122334455667788u);
    wire_end(&b, start);
    for (size_t n = 0; n < b.len; n++) {
        struct buf part = {b.data, n, b.cap};
        assert_int_equal(wire_peek(&part, &type, &p, &len), 0);
    }
    assert_int_equal(wire_peek(&b, &type, &p, &len), 1);
    struct wire_in in = {p, p + len, NULL, false};
    assert_true(wire_get_u64(&in) == 0x1122334455667788u);
    assert_true(wire_in_done(&in));
    assert_int_equal(wire_get_u32(&in), 0);
    assert_true(in.bad);
    static const uint8_t bad[][8] = {
        {0, 0, 0, 0, 0, 0, 0, 0},               /* type 0 */
        {0, 0, 0, 0, 63, 0, 0, 0},              /* between the two ranges */
        {0, 0, 0, 0, WIRE_PROBED + 1, 0, 0, 0}, /* past the last */
        {0, 0, 0, 0, WIRE_JUDGE + 1, 0, 0, 0},
        {0, 0, 0, 0, 1, 1, 0, 0},    /* high byte of the type */
        {0, 0, 0, 0, 1, 0, 1, 0},    /* reserved */
        {1, 0, 0x80, 0, 1, 0, 0, 0}, /* larger than the limit */
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct buf frame = {(char *)(uintptr_t)bad[i], 8, 8};
        assert_int_equal(wire_peek(&frame, &type, &p, &len), -1);
    }
    buf_free(&b);
}

static void test_strings(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    static const uint8_t with_nul[] = {3, 0, 0, 0, 'a', 0, 'b'};
    struct wire_in in = {with_nul, with_nul + sizeof with_nul, arena, false};
    assert_string_equal(wire_get_string(&in), "");
    assert_true(in.bad);
    static const uint8_t lying[] = {0xFF, 0xFF, 0, 0, 0, 0, 0, 0}; /* 65535 items in 4 bytes */
    in = (struct wire_in){lying, lying + sizeof lying, arena, false};
    size_t before = arena_used(arena);
    assert_int_equal(wire_get_strings(&in).count, 0);
    assert_true(in.bad);
    assert_int_equal(arena_used(arena), before);
    struct buf b = {0}, text = {0};
    while (text.len <= WIRE_STRING_MAX)
        buf_append(&text, "0123456789abcdef0123456789abcdef", 32);
    wire_put_string(&b, text.data);
    in = (struct wire_in){(uint8_t *)b.data, (uint8_t *)b.data + b.len, arena, false};
    wire_get_string(&in);
    assert_true(in.bad);
    buf_free(&b);
    buf_free(&text);
    arena_destroy(arena);
}

static void test_spool_records(void **state)
{
    (void)state;
    uint8_t raw[WIRE_SPOOL_HEADER];
    struct wire_spool h = {65536, 0xAABBCCDD, WIRE_STREAM_ERR, 1ull << 41}, back;
    wire_spool_put(raw, &h);
    assert_true(wire_spool_get(raw, &back));
    assert_true(back.len == h.len && back.rank == h.rank && back.stream == h.stream && back.wall_ms == h.wall_ms);
    for (size_t i = 9; i < 12; i++) {
        raw[i] = 1;
        assert_false(wire_spool_get(raw, &back));
        raw[i] = 0;
    }
    raw[8] = 0;
    assert_false(wire_spool_get(raw, &back));
    raw[8] = 5;
    assert_false(wire_spool_get(raw, &back));
    raw[8] = 1;
    raw[0] = 1; /* 65537 bytes */
    assert_false(wire_spool_get(raw, &back));
}

static void test_spool_ends(void **state)
{
    (void)state;
    uint8_t raw[WIRE_END_SIZE];
    struct wire_worker_end end = {7, WIRE_CAUSE_SIGNAL, -11, 1ull << 50}, back;
    wire_spool_end_put(raw, &end);
    assert_true(wire_spool_end_get(raw, sizeof raw, &back));
    assert_true(back.cause == end.cause && back.value == end.value && back.end_mono_ns == end.end_mono_ns);
    assert_false(wire_spool_end_get(raw, sizeof raw - 1, &back)); /* cut by a log limit */
    raw[1] = 1;
    assert_false(wire_spool_end_get(raw, sizeof raw, &back));
    raw[0] = raw[1] = 0;
    assert_false(wire_spool_end_get(raw, sizeof raw, &back));
}

static void test_success(void **state)
{
    (void)state;
    struct wire_record r = {.state = WIRE_STATE_ENDED};
    assert_true(wire_record_success(&r));
    r.stop_requested = 1;
    assert_false(wire_record_success(&r));
    r = (struct wire_record){.state = WIRE_STATE_ENDED, .timed_out = 1};
    assert_false(wire_record_success(&r));
    r = (struct wire_record){.state = WIRE_STATE_ENDED, .cause = WIRE_CAUSE_CREATES};
    assert_false(wire_record_success(&r));
    r = (struct wire_record){.state = WIRE_STATE_LOST};
    assert_false(wire_record_success(&r));
    r = (struct wire_record){.state = WIRE_STATE_CLAIMED};
    assert_false(wire_record_success(&r));
    r = (struct wire_record){.state = WIRE_STATE_ENDED, .cause = WIRE_CAUSE_EXIT, .verdict = WIRE_VERDICT_GOOD};
    assert_true(wire_record_success(&r));
    r.state = WIRE_STATE_CLAIMED;
    assert_false(wire_record_success(&r));
}

/* The names that GLOB of a pattern may return, on the controller's side: by the agent's own rules. */
static void test_patterns(void **state)
{
    static const struct {
        const char *from, *yes, *no; /* separated by spaces */
    } cases[] = {
        {"*.log", "a.log .log a.log/below", "a.txt d/a.log .git/config a.log2 LOG A.LOG"},
        {"out/", "a a/b .git/x", ""},
        {"out/*.log", "a.log", "b d/a.log"},
        {"~/x/../y/*", "a a/b", ""},
        {"@base/r/[0-9]*.json", "0.json 12.json 0x.json", "x.json .json a/0.json"},
        {"**/*.json", "a.json d/e/a.json", "a.txt d/e"},
        {"a/**/b?/c", "b1/c x/y/b2/c/d", "b/c c x/b1"},
        {"**", "a a/b", ""},
        {"/abs/{a,b}/[!x]*", "y", "x"},
        {"../*.log", "a.log", "a"},
        {"d\\*/*", "d*/x", "dx/x"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int yes = 0; yes < 2; yes++) {
            struct arena *arena = arena_create();
            struct wire_pattern pattern;
            char *paths = arena_strdup(arena, yes ? cases[i].yes : cases[i].no), *save = NULL;
            assert_true(wire_pattern_of(&pattern, cases[i].from, arena));
            for (char *path = strtok_r(paths, " ", &save); path; path = strtok_r(NULL, " ", &save))
                if (wire_pattern_match(&pattern, path) != (yes == 1))
                    fail_msg("\"%s\" and \"%s\"", cases[i].from, path);
            arena_destroy(arena);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spool_ends), cmocka_unit_test(test_messages),       cmocka_unit_test(test_values),
        cmocka_unit_test(test_rules),      cmocka_unit_test(test_transfer_rules), cmocka_unit_test(test_tree_paths),
        cmocka_unit_test(test_frames),     cmocka_unit_test(test_strings),        cmocka_unit_test(test_spool_records),
        cmocka_unit_test(test_success),    cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
