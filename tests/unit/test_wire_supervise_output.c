/* The supervisor: the output of workers, and where it is kept. */
#include "supervise_scene.h"

/* ---- output ---- */

static void test_output_bytes(void **state)
{
    struct fixture *f = *state;
    struct buf b = {0};
    size_t len;
    run_one(f, "head -c 5000000 /dev/urandom | tee copy");
    assert_int_equal(file_read(path_in(f, "copy"), 6 << 20, &b, NULL), 0);
    char *got = output(f, 0, WIRE_STREAM_OUT, &len);
    assert_int_equal(len, 5000000);
    assert_int_equal(memcmp(got, b.data, len), 0);
    assert_int_equal(f->record.dropped_bytes, 0);
    /* the same bytes from every offset class, and freed segments are gone */
    struct error err = ERROR_INIT;
    char part[3000];
    for (uint64_t at = 0; at < f->spool.len; at += 1040001) {
        ssize_t n = spool_read(f->dir_fd, at, part, sizeof part, &err);
        assert_true(n > 0 && memcmp(part, f->spool.data + at, (size_t)n) == 0);
    }
    assert_int_equal(spool_read(f->dir_fd, f->spool.len, part, sizeof part, &err), 0);
    assert_int_equal(spool_read(f->dir_fd, f->spool.len + 1, part, sizeof part, &err), -1);
    spool_ack(f->dir_fd, 2 * SEGMENT_SIZE + 5);
    assert_int_equal(spool_kept_from(f->dir_fd), 2 * SEGMENT_SIZE);
    assert_int_equal(faccessat(f->dir_fd, "spool.1", F_OK, 0), -1);
    assert_int_equal(faccessat(f->dir_fd, "spool.2", F_OK, 0), 0);
    spool_ack(f->dir_fd, SEGMENT_SIZE); /* never backwards */
    spool_ack(f->dir_fd, UINT64_MAX);   /* never past the end */
    assert_int_equal(spool_kept_from(f->dir_fd), 2 * SEGMENT_SIZE);
    buf_free(&b);
}

static void test_log_limit(void **state)
{
    struct fixture *f = *state;
    size_t len;
    fifo_make(f, "go");
    fifo_make(f, "told");
    f->run.log_limit_bytes = 10000;
    worker_add(f, "head -c 100000 /dev/zero | tr '\\0' x; echo done >told; echo; read line <go; echo second");
    start(f);
    fifo_hear(f, "told");
    look(f);
    /* an ack before all of it was read would make room in the middle */
    while (output(f, 0, WIRE_STREAM_OUT, &len), len + f->record.dropped_bytes < 100001) {
        if (mono_ns() > f->deadline_ns) /* dropped output rings no bell: look again and again */
            fail_msg("the output was not read");
        look(f);
    }
    spool_ack(f->dir_fd, f->spool.len);
    fifo_tell(f, "go");
    wait_end(f);
    assert_true(wire_record_success(&f->record));
    char *got = output(f, 0, WIRE_STREAM_OUT, &len);
    assert_non_null(strstr(got, "second\n"));
    char *note = output(f, 0, WIRE_STREAM_NOTE, NULL);
    assert_string_equal(note, arena_printf(f->arena, "rhrun: %llu bytes of output dropped here (log limit)\n",
                                           (unsigned long long)f->record.dropped_bytes));
    assert_int_equal(len + f->record.dropped_bytes, 100001 + strlen("second\n"));
    assert_true(f->record.spool_bytes < 10200);
}

static void test_log_limit_end(void **state)
{
    struct fixture *f = *state;
    f->run.log_limit_bytes = 1000;
    run_one(f, "head -c 300000 /dev/zero");
    assert_true(wire_record_success(&f->record));
    assert_true(f->record.dropped_bytes >= 299000 && f->record.spool_bytes < 1200);
    assert_int_equal(f->record.dropped, WIRE_DROPPED_LIMIT);
    assert_non_null(strstr(output(f, 0, WIRE_STREAM_NOTE, NULL), "bytes of output dropped here (log limit)\n"));
}

static void test_masking(void **state)
{
    struct fixture *f = *state;
    fifo_make(f, "go");
    f->run.secrets = list_of(f, "TOKEN=SECRETVALUE", "KEY=line-one\nline-two\nab");
    worker_add(
        f, "printf 'xSECRET'; read l <go; printf 'VALUEy\\n'; echo \"$KEY\"; echo a line-two b >&2; printf 'SECRET'");
    start(f);
    wait_output(f, "x");
    assert_string_equal(out0(f), "x");
    fifo_tell(f, "go");
    wait_end(f);
    assert_string_equal(out0(f), "x***y\n***\nSECRET");
    assert_string_equal(output(f, 0, WIRE_STREAM_ERR, NULL), "a *** b\n");
    assert_null(strstr(f->record.tail, "line-two"));
}

static void mask_all_cuts(const struct wire_strings *secrets, const char *in, const char *wanted)
{
    struct mask m;
    size_t len = strlen(in);
    mask_init(&m, secrets);
    for (size_t first = 0; first <= len; first++)
        for (size_t second = first; second <= len; second++) {
            struct mask_stream s = {0};
            struct buf out = {0}, all = {0};
            size_t cuts[4] = {0, first, second, len};
            for (int i = 0; i < 3; i++) {
                mask_feed(&m, &s, (const uint8_t *)in + cuts[i], cuts[i + 1] - cuts[i], i == 2, &out);
                buf_append(&all, out.data, out.len);
                assert_true(s.held_len < m.longest);
            }
            assert_string_equal(all.data, wanted);
            free(s.held);
            buf_free(&out);
            buf_free(&all);
        }
    free(m.patterns);
}

static void test_mask_cuts(void **state)
{
    struct fixture *f = *state;
    struct wire_strings s = list_of(f, "A=abcd", "B=cdef");
    mask_all_cuts(&s, "1abcd2", "1***2");
    mask_all_cuts(&s, "1abcdef2", "1***2"); /* overlapping: the union */
    mask_all_cuts(&s, "abcdabcd", "******");
    mask_all_cuts(&s, "ab", "ab");
    mask_all_cuts(&s, "aabcabcdx", "aabc***x");
    s = list_of(f, "A=ab", "B=abcde"); /* the longer wins, the shorter where it cannot */
    mask_all_cuts(&s, "abcdeabcdx", "******cdx");
    s = list_of(f, "A=aaa", NULL);
    mask_all_cuts(&s, "baaaaab", "b***b");
}

static void test_tail(void **state)
{
    (void)state;
    char shown[STATUS_TEXT];
    struct tail *t = xcalloc(1, sizeof *t);
    const char *raw = "\033[31mred\033[0m\r\n10%\r20%\r100%\nbad \xff\xc3;\x01 caf\xc3\xa9\n";
    tail_add(t, (const uint8_t *)raw, strlen(raw));
    tail_format(t, shown, sizeof shown);
    assert_string_equal(shown, "red\n100%\nbad ?"
                               "?; caf\xc3\xa9\n");
    for (int i = 0; i < 1000; i++) {
        char line[32];
        int n = snprintf(line, sizeof line, "line %d\n", i);
        tail_add(t, (uint8_t *)line, (size_t)n);
    }
    tail_format(t, shown, sizeof shown);
    assert_int_equal(strncmp(shown, "line ", 5), 0);
    assert_true(strlen(shown) > 4000);
    assert_non_null(strstr(shown, "line 999\n"));
    free(t);
}

/* ---- files ---- */

static const char *file_text(struct fixture *f, const char *name)
{
    struct buf b = {0};
    struct error err = ERROR_INIT;
    if (file_read(arena_printf(f->arena, "%s/%s", f->root, name), 1 << 20, &b, &err) < 0)
        fail_msg("%s", err.text);
    const char *ret = arena_strndup(f->arena, b.data ? b.data : "", b.len);
    buf_free(&b);
    return ret;
}

static void test_log_files(void **state)
{
    struct fixture *f = *state;
    f->run.log_dir = arena_printf(f->arena, "%s/logs/run", f->root);
    f->run.secrets = list_of(f, "TOKEN=s3cret", NULL);
    worker_add(f, "echo only here: $TOKEN; echo seen >&2; exit 3");
    worker_add(f, "trap '' TERM; echo both; read x < gone; echo never");
    f->workers[0].files = WIRE_KEEP_OUT | WIRE_HIDE_OUT;
    f->workers[1].files = WIRE_KEEP_OUT | WIRE_KEEP_ERR;
    f->run.grace_ms = 0;
    fifo_make(f, "gone");
    start(f);
    wait_end(f);
    assert_string_equal(file_text(f, "logs/run/0/stdout.log"), "only here: ***\n");
    assert_string_equal(output(f, 0, WIRE_STREAM_OUT, NULL), "");
    assert_string_equal(output(f, 0, WIRE_STREAM_ERR, NULL), "seen\n");
    assert_non_null(strstr(f->record.tail, "only here: ***"));
    assert_string_equal(file_text(f, "logs/run/1/stdout.log"), output(f, 1, WIRE_STREAM_OUT, NULL));
    assert_string_equal(file_text(f, "logs/run/1/stderr.log"), output(f, 1, WIRE_STREAM_ERR, NULL));
    assert_int_equal(access(arena_printf(f->arena, "%s/logs/run/0/stderr.log", f->root), F_OK), -1);
}

static void test_log_files_cannot_be_made(void **state)
{
    struct fixture *f = *state;
    f->run.log_dir = text("/dev/null/logs");
    worker_add(f, "echo it ran");
    start(f);
    wait_end(f);
    assert_int_equal(f->record.cause, WIRE_CAUSE_SETUP);
    assert_non_null(strstr(f->record.tail, "log files"));
}

#define WRITE_ERROR "printf '%%s' '%s' >\"$TORCHELASTIC_ERROR_FILE\"; echo last words; exit 1"

static void test_error_file(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *json, *tail;
    } cases[] = {
        {"{\"message\": {\"message\": \"ValueError: \\u00e9 \\\"quoted\\\"\\nof s3cret\", "
         "\"extraInfo\": {\"py_callstack\": \"Traceback\", \"timestamp\": \"1\"}}}",
         "last words\nrhrun: error file: ValueError: \xc3\xa9 \"quoted\" of ***\n"},
        {"{\"message\":\"plain\\ud83d\\ude00\\u20ac\"}", "last words\nrhrun: error file: plain??\xe2\x82\xac\n"},
        {"{\"message\": {\"message\": 3}}", "last words\n"},
        {"{\"message\": \"cut", "last words\nrhrun: error file: cut\n"},
        {"no json", "last words\n"},
        {"", "last words\n"},
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        run_reset(f);
        f->run.flags = WIRE_RUN_ERROR_FILES;
        f->run.secrets = list_of(f, "TOKEN=s3cret", NULL);
        if (i % 2)
            f->run.log_dir = arena_printf(f->arena, "%s/logs/%zu", f->root, i);
        worker_add(f, arena_printf(f->arena, WRITE_ERROR, cases[i / 2].json));
        start(f);
        wait_end(f);
        assert_string_equal(f->record.tail, cases[i / 2].tail);
    }
}

static void test_error_file_of_the_first(void **state)
{
    struct fixture *f = *state;
    f->run.flags = WIRE_RUN_ERROR_FILES;
    fifo_make(f, "go");
    worker_add(f, "read x < go; echo '{\"message\": \"mine\"}' >$TORCHELASTIC_ERROR_FILE; exit 5");
    worker_add(f, "trap 'exit 6' TERM; echo '{\"message\": \"not mine\"}' >$TORCHELASTIC_ERROR_FILE; echo x >go; "
                  "while :; do sleep 0.01; done");
    start(f);
    wait_end(f);
    assert_int_equal(f->record.cause_rank, 0);
    assert_string_equal(f->record.tail, "rhrun: error file: mine\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_output_bytes),  CASE(test_log_limit),
        CASE(test_log_limit_end), CASE(test_masking),
        CASE(test_mask_cuts),     CASE(test_tail),
        CASE(test_log_files),     CASE(test_log_files_cannot_be_made),
        CASE(test_error_file),    CASE(test_error_file_of_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
