/* base: parsing, strings, buffers, arenas, errors, files, diagnostics. */
#include "rhrun/base.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- parsing ---- */

static void test_parse_integers(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", " 1", "1 ", "+1", "-1", "0x1", "1.0", "18446744073709551616", "99999999999999999999999", "1e3", NULL};
    uint64_t u = 7;
    int64_t i = 7;
    uint32_t w = 7;
    for (size_t n = 0; bad[n]; n++) {
        assert_false(parse_u64(bad[n], &u));
        assert_int_equal(u, 7);
    }
    assert_false(parse_u64(NULL, &u));
    assert_true(parse_u64("18446744073709551615", &u));
    assert_true(u == UINT64_MAX);
    assert_true(parse_u64("007", &u));
    assert_int_equal(u, 7);
    assert_true(parse_i64("-9223372036854775808", &i));
    assert_true(i == INT64_MIN);
    assert_true(parse_i64("9223372036854775807", &i));
    assert_true(i == INT64_MAX);
    assert_false(parse_i64("9223372036854775808", &i));
    assert_false(parse_i64("-9223372036854775809", &i));
    assert_false(parse_i64("-", &i));
    assert_false(parse_i64("--1", &i));
    assert_true(parse_u32("4294967295", &w));
    assert_false(parse_u32("4294967296", &w));
}

static void test_parse_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"250ms", 250},    {"30s", 30000},    {"30", 30000}, {"5m", 300000}, {"12h", 43200000},
                {"2d", 172800000}, {"1.5h", 5400000}, {"0", 0},      {"0.25s", 250}};
    static const char *const bad[] = {
        "", "s", "5 m", "5M", "-5s", "5mm", "1.s", ".5s", "5w", "99999999999999999999d", "18446744073709551615d", NULL};
    uint64_t ms = 7;
    for (size_t n = 0; n < ARRAY_LEN(good); n++) {
        assert_true(parse_duration_ms(good[n].text, &ms));
        assert_true(ms == good[n].ms);
    }
    for (size_t n = 0; bad[n]; n++)
        assert_false(parse_duration_ms(bad[n], &ms));
    assert_false(parse_duration_ms(NULL, &ms));
}

static void test_parse_sizes(void **state)
{
    (void)state;
    uint64_t size = 7;
    assert_true(parse_size("10M", &size));
    assert_true(size == 10u << 20);
    assert_true(parse_size("64k", &size));
    assert_true(size == 65536);
    assert_true(parse_size("1.5GiB", &size));
    assert_true(size == 3ull << 29);
    assert_true(parse_size("123", &size));
    assert_true(size == 123);
    assert_false(parse_size("10MB", &size));
    assert_false(parse_size("99999999T", &size) && size < 99999999);
    assert_false(parse_size("99999999999999T", &size));
    assert_false(parse_size("M", &size));
}

/* ---- strings ---- */

static void test_strings(void **state)
{
    (void)state;
    assert_true(str_eq(NULL, NULL));
    assert_false(str_eq("", NULL));
    assert_true(str_eq("a", "a"));
    assert_true(str_starts("abc", "ab") && str_starts("abc", "") && !str_starts("a", "ab"));
    assert_true(str_ends("abc", "bc") && str_ends("abc", "") && !str_ends("c", "bc"));
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const keys[] = {"nnodes", "nproc_per_node", "launcher", "max_restarts", "env", NULL};
    static const char *const none[] = {NULL};
    assert_string_equal(str_nearest("nproc_per_nod", keys), "nproc_per_node");
    assert_string_equal(str_nearest("NNodes", keys), "nnodes");
    assert_string_equal(str_nearest("lanucher", keys), "launcher");
    assert_string_equal(str_nearest("nproc", keys), "nproc_per_node");
    assert_string_equal(str_nearest("evn", keys), "env");
    assert_null(str_nearest("timeout", keys));
    assert_null(str_nearest("xyz", keys));
    assert_null(str_nearest("", keys));
    assert_null(str_nearest("env", none));
    char *large = xcalloc(1, 5000);
    memset(large, 'n', 4999);
    assert_null(str_nearest(large, keys));
    free(large);
}

/* ---- memory ---- */

static void test_buf(void **state)
{
    (void)state;
    struct buf b = {0};
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i);
    assert_int_equal(b.len, 3890);
    assert_int_equal(strlen(b.data), b.len);
    buf_consume(&b, 2);
    assert_int_equal(strncmp(b.data, "1,2,", 4), 0);
    buf_consume(&b, b.len);
    assert_int_equal(b.len, 0);
    buf_append(&b, "a\0b", 3);
    buf_putc(&b, 'c');
    assert_memory_equal(b.data, "a\0bc", 5);
    char *text = buf_steal(&b);
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    free(text);
    buf_free(&b);
}

static void test_shell_quote(void **state)
{
    (void)state;
    static const char *const words[] = {"", "a", "a b", "it's", "$HOME", "a\nb", "`x`", "\\", "*", "~", "-n", "é"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        struct buf command = {0};
        char got[64];
        buf_puts(&command, "printf %s ");
        buf_shell_quote(&command, words[i]);
        FILE *p = popen(command.data, "r");
        assert_non_null(p);
        size_t n = fread(got, 1, sizeof got - 1, p);
        got[n] = 0;
        assert_int_equal(pclose(p), 0);
        assert_string_equal(got, words[i]);
        buf_free(&command);
    }
}

static void test_json_string(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_json_string(&b, "a\"\\\n\t\x01\0é\xff", 10);
    assert_string_equal(b.data, "\"a\\\"\\\\\\n\\t\\u0001\\u0000é\xef\xbf\xbd\"");
    buf_free(&b);
}

static void test_arena(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        unsigned char *p = arena_alloc(a, size);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, size);
    }
    char *text = arena_printf(a, "%s-%d", "x", 5);
    assert_string_equal(text, "x-5");
    assert_null(arena_strdup(a, NULL));
    assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
    assert_true(arena_used(a) > 100000);
    arena_reset(a);
    assert_int_equal(arena_used(a), 0);
    unsigned char *again = arena_alloc(a, 4000);
    for (size_t i = 0; i < 4000; i++)
        assert_int_equal(again[i], 0);
    arena_destroy(a);
    arena_destroy(NULL);
}

/* ---- errors and files ---- */

static void test_errors(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(error_set(&err, ERROR_JOB, "exit status %d", 2), -1);
    error_prefix(&err, "step \"%s\"", "setup");
    error_prefix(&err, "node \"gpu-3\"");
    error_hint(&err, "see %s", "logs");
    assert_string_equal(err.text, "node \"gpu-3\": step \"setup\": exit status 2");
    assert_string_equal(err.hint, "see logs");
    assert_int_equal(err.code, ERROR_JOB);
    error_errno(&err, ERROR_IO, 2, "cannot read \"x\"");
    assert_string_equal(err.text, "cannot read \"x\": No such file or directory");
    assert_string_equal(err.hint, "");
    assert_int_equal(error_set(NULL, ERROR_IO, "x"), -1);
    for (int i = 0; i < 200; i++)
        error_prefix(&err, "a long prefix number %d", i);
    assert_true(strlen(err.text) < sizeof err.text);
}

static void test_errors_have_a_cause(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    error_errno(&err, ERROR_INFRA, ENOSPC, "cannot write \"x\"");
    error_prefix(&err, "step \"setup\"");
    assert_int_equal(err.why, ERROR_WHY_DISK_FULL);
    error_errno(&err, ERROR_INFRA, EIO, "cannot write \"No space left on device\"");
    assert_int_equal(err.why, ERROR_WHY_NONE);
    error_errno(&err, ERROR_INFRA, EDQUOT, "cannot write \"x\"");
    assert_int_equal(err.why, ERROR_WHY_DISK_FULL);
    error_set(&err, ERROR_USAGE, "\"x\" was never run");
    assert_int_equal(err.why, ERROR_WHY_NONE);
    assert_int_equal(error_why(&err, ERROR_WHY_ABSENT), -1);
    assert_int_equal(err.why, ERROR_WHY_ABSENT);
    assert_int_equal(error_why(NULL, ERROR_WHY_ABSENT), -1);
}

static void test_errors_are_printable(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INFRA,
              "\033]0;x\a, \xc2\x9b"
              "2J and \x7f: Zo\xc3\xab \xc2\xb5\xc2");
    assert_string_equal(err.text, "?]0;x?, ??2J and ?: Zo\xc3\xab \xc2\xb5\xc2");
    error_prefix(&err, "a\nb");
    assert_true(str_starts(err.text, "a?b: ?]0"));
    error_hint(&err, "kill %s", "12 (\033[2J)");
    assert_string_equal(err.hint, "kill 12 (?[2J)");
    assert_true(str_is_printable("Zo\xc3\xab \xc2\xb5\xc2") && !str_is_printable("a\xc2\x9b") &&
                !str_is_printable("\n"));
}

static void test_files(void **state)
{
    (void)state;
    char dir[] = "/tmp/rhrun-test-XXXXXX";
    struct error err = ERROR_INIT;
    struct buf text = {0};
    assert_non_null(mkdtemp(dir));
    char *deep = xasprintf("%s/a/b/c", dir), *file = xasprintf("%s/f", deep);
    assert_int_equal(mkdir_p(deep, 0700, &err), 0);
    assert_int_equal(mkdir_p(deep, 0700, &err), 0);
    assert_int_equal(file_write_atomic(file, "one", 3, 0600, &err), 0);
    assert_int_equal(file_write_atomic(file, "three", 5, 0600, &err), 0);
    assert_int_equal(file_read(file, 5, &text, &err), 0);
    assert_string_equal(text.data, "three");
    buf_free(&text);
    assert_int_equal(file_read(file, 4, &text, &err), -1);
    assert_non_null(strstr(err.text, "larger than 4 bytes"));
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(mkdir_p(file, 0700, &err), -1);
    unlink(file);
    for (int i = 0; i < 3; i++) {
        rmdir(deep);
        *strrchr(deep, '/') = 0;
    }
    assert_int_equal(rmdir(dir), 0); /* nothing else is left there */
    free(deep);
    free(file);
}

static void test_hex(void **state)
{
    (void)state;
    char hex[33], digest[65];
    uint8_t bytes[16];
    random_hex(hex, 16);
    assert_int_equal(strlen(hex), 32);
    assert_true(hex_decode(hex, bytes, 16));
    assert_false(hex_decode("0g", bytes, 1));
    assert_false(hex_decode("0", bytes, 1));
    assert_false(hex_decode("000", bytes, 1));
    assert_false(hex_decode("AB", bytes, 1));
    digest_sha256_hex("abc", 3, digest);
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* ---- diagnostics ---- */

static void check_text(struct diagnostics *d, bool colour, const char *expected)
{
    struct buf out = {0};
    diagnostics_format(d, colour, &out);
    assert_string_equal(out.data ? out.data : "", expected);
    buf_free(&out);
    diagnostics_free(d);
}

static struct source source_of(const char *text)
{
    return (struct source){.name = "job.yaml", .text = text, .len = strlen(text)};
}

static void test_diagnostics_of_a_hidden_source(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    struct buf text = {0}, json = {0};
    struct source source = source_of("hunter2 hunter2\n");
    source.hidden = "it cannot be used";
    struct diagnostic *item =
        diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 1, 3, 1, 8}, "\"%s\" is bad", "hunter2");
    diagnostic_hint(item, "did you mean %s?", "hunter3");
    diagnostic_expected(item, "one of %s", "hunter2, hunter3");
    diagnostic_path(item, "/hunter2");
    diagnostics_add(&d, SEVERITY_NOTE, (struct place){&source, 1, 3, 1, 8}, "it is here");
    item = diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 1, 9, 1, 9}, "the list is not closed");
    diagnostic_expected(item, "\"]\"");
    diagnostics_format(&d, false, &text);
    assert_string_equal(text.data, "job.yaml:1: error: it cannot be used\n"
                                   "        hint: look at the line yourself: no text of this file is shown\n"
                                   "job.yaml:1: note: it is here\n"
                                   "job.yaml:1: error: the list is not closed\n"
                                   "        expected \"]\"\n");
    diagnostics_format_json(&d, &json);
    assert_null(strstr(json.data, "hunter"));
    assert_non_null(strstr(json.data, "\"column\":null"));
    buf_free(&text);
    buf_free(&json);
    diagnostics_free(&d);
}

static void test_what_is_no_file_is_not_opened(void **state)
{
    (void)state;
    char folder[] = "/tmp/rhrun-base-XXXXXX";
    struct error err = ERROR_INIT;
    struct buf text = {0};
    struct stat st;
    assert_non_null(mkdtemp(folder));
    CLEANUP(cleanup_free) char *fifo = xasprintf("%s/fifo", folder);
    CLEANUP(cleanup_free) char *link = xasprintf("%s/link", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink(fifo, link), 0);
    assert_int_equal(file_open(fifo, &st, &err), -1);
    assert_non_null(strstr(err.text, "it is a FIFO, not a file"));
    assert_int_equal(file_read(link, 100, &text, &err), -1);
    assert_non_null(strstr(err.text, "it is a FIFO, not a file"));
    assert_int_equal(file_read("/dev/zero", 100, &text, &err), -1);
    assert_non_null(strstr(err.text, "it is a device, not a file"));
    assert_int_equal(file_read(folder, 100, &text, &err), -1);
    assert_non_null(strstr(err.text, "Is a directory"));
    char hex[65];
    assert_int_equal(digest_sha256_file(fifo, hex, &err), -1);
    assert_int_equal(file_read("/proc/self/stat", 4096, &text, &err), 0); /* a file, though its size is said to be 0 */
    assert_true(text.len > 0);
    buf_free(&text);
    unlink(link);
    unlink(fifo);
    rmdir(folder);
}

static void test_diagnostics_text(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    struct source source = source_of("name: x\n\tnproc_per_nod: 4\nlast: 1");
    struct diagnostic *item = diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 2, 2, 2, 15},
                                              "unknown key \"%s\"", "nproc_per_nod");
    diagnostic_expected(item, "one of %s", "a, b");
    diagnostic_hint(item, "did you mean nproc_per_node?");
    diagnostic_path(item, "/nproc_per_nod");
    diagnostics_add(&d, SEVERITY_NOTE, (struct place){&source, 1, 1, 1, 5}, "the mapping starts here");
    diagnostics_add(&d, SEVERITY_WARNING, (struct place){&source, 1, 7, 3, 1}, "to the end of the line");
    diagnostics_add(&d, SEVERITY_ERROR, (struct place){NULL, 0, 0, 0, 0}, "no place");
    diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 0, 0, 0, 0}, "the whole file");
    assert_int_equal(d.errors, 3);
    check_text(&d, false,
               "job.yaml: error: the whole file\n"
               "job.yaml:1:7: warning: to the end of the line\n"
               "    1 | name: x\n"
               "      |       ^\n"
               "job.yaml:2:2: error: unknown key \"nproc_per_nod\"\n"
               "    2 | \tnproc_per_nod: 4\n"
               "      | \t^^^^^^^^^^^^^\n"
               "        expected one of a, b\n"
               "        hint: did you mean nproc_per_node?\n"
               "job.yaml:1:1: note: the mapping starts here\n"
               "    1 | name: x\n"
               "      | ^^^^\n"
               "error: no place\n");
}

static void test_diagnostics_utf8_and_control(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    struct source source = source_of("ключ: \x1b[31m\xff\xc2\x9b!\r\n");
    diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 1, 7, 1, 8}, "escape \x1b[0m\nhere");
    check_text(&d, false,
               "job.yaml:1:7: error: escape ?[0m here\n"
               "    1 | ключ: ?[31m?"
               "?!\n"
               "      |       ^\n");
}

static void test_diagnostics_long_line(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    char text[401], expected[600];
    for (int i = 0; i < 400; i++)
        text[i] = (char)('a' + i % 26);
    text[400] = 0;
    struct source source = source_of(text);
    diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 1, 201, 1, 204}, "here");
    snprintf(expected, sizeof expected, "job.yaml:1:201: error: here\n    1 | ...%.100s...\n      | %43s^^^\n",
             text + 160, "");
    check_text(&d, false, expected);
    diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 1, 398, 1, 401}, "end");
    snprintf(expected, sizeof expected, "job.yaml:1:398: error: end\n    1 | ...%s\n      | %43s^^^\n", text + 357, "");
    check_text(&d, false, expected);
}

static void test_diagnostics_odd_places(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    struct source source = source_of("a\n"), empty = {.name = "empty", .text = ""};
    diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 9, 9, 9, 9}, "past the end");
    diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 1, 50, 1, 60}, "past the line");
    diagnostics_add(&d, SEVERITY_ERROR, (struct place){&empty, 1, 1, 1, 1}, "nothing there");
    check_text(&d, false,
               "job.yaml:1:50: error: past the line\n    1 | a\n      |  ^\n"
               "job.yaml:9:9: error: past the end\n"
               "empty:1:1: error: nothing there\n    1 | \n      | ^\n");
    check_text(&d, false, "");
}

static void test_diagnostics_repeats(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    struct source source = source_of("a\nb\n");
    struct place one = {&source, 1, 1, 1, 2}, two = {&source, 2, 1, 2, 2};
    assert_non_null(diagnostics_add(&d, SEVERITY_ERROR, one, "x"));
    assert_non_null(diagnostics_add(&d, SEVERITY_NOTE, two, "other"));
    assert_non_null(diagnostics_add(&d, SEVERITY_ERROR, two, "x"));
    assert_null(diagnostics_add(&d, SEVERITY_ERROR, one, "x"));
    assert_null(diagnostics_add(&d, SEVERITY_NOTE, two, "other")); /* belongs to the repeated item, not to the last */
    assert_non_null(diagnostics_add(&d, SEVERITY_ERROR, one, "y"));
    assert_non_null(diagnostics_add(&d, SEVERITY_NOTE, two, "other"));
    assert_int_equal(d.errors, 3);
    assert_int_equal(d.count, 5);
    diagnostic_expected(NULL, "x");
    diagnostic_hint(NULL, "x");
    diagnostic_path(NULL, "x");
    diagnostics_free(&d);
}

static void test_diagnostics_cap(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    struct buf out = {0};
    for (int i = 0; i < DIAGNOSTICS_MAX + 5; i++)
        diagnostics_add(&d, SEVERITY_ERROR, (struct place){NULL, 0, 0, 0, 0}, "fault %d", i);
    assert_int_equal(d.count, DIAGNOSTICS_MAX);
    assert_int_equal(d.dropped, 5);
    assert_int_equal(d.errors, DIAGNOSTICS_MAX + 5);
    diagnostics_format(&d, false, &out);
    assert_true(str_ends(out.data, "5 more faults are not shown\n"));
    buf_free(&out);
    diagnostics_free(&d);
}

static void test_diagnostics_json(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    struct buf out = {0};
    struct source source = source_of("a: 1\n");
    struct diagnostic *item = diagnostics_add(&d, SEVERITY_ERROR, (struct place){&source, 1, 4, 1, 5}, "say \"x\"");
    diagnostic_expected(item, "a string");
    diagnostic_path(item, "/a");
    diagnostics_add(&d, SEVERITY_NOTE, (struct place){NULL, 0, 0, 0, 0}, "n");
    diagnostics_format_json(&d, &out);
    assert_string_equal(out.data, "[{\"severity\":\"error\",\"file\":\"job.yaml\",\"line\":1,\"column\":4,\"end_line\":"
                                  "1,\"end_column\":5,\"path\":\"/a\","
                                  "\"message\":\"say \\\"x\\\"\",\"expected\":\"a string\",\"hint\":null},"
                                  "{\"severity\":\"note\",\"file\":null,\"line\":null,\"column\":null,\"end_line\":"
                                  "null,\"end_column\":null,\"path\":null,"
                                  "\"message\":\"n\",\"expected\":null,\"hint\":null}]");
    buf_free(&out);
    diagnostics_free(&d);
}

static void test_diagnostics_colour(void **state)
{
    (void)state;
    struct diagnostics d = {0};
    struct source source = source_of("a\n");
    diagnostics_add(&d, SEVERITY_WARNING, (struct place){&source, 1, 1, 1, 2}, "x");
    check_text(&d, true,
               "\033[1mjob.yaml:1:1:\033[0m \033[1;35mwarning:\033[0m x\n\033[34m    1 |\033[0m a\n\033[34m      "
               "|\033[0m \033[1;31m^\033[0m\n");
}

static void test_system_ca_file(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    char root[] = "/tmp/rhrun-ca-XXXXXX", path[128];
    assert_non_null(mkdtemp(root));
    assert_null(system_ca_file(root));
    static const char *const places[] = {"/etc/ssl/cert.pem",
                                         "/etc/pki/tls/certs/ca-bundle.crt"}; /* the later one takes precedence */
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(path, sizeof path, "%s%s", root, places[i]);
        *strrchr(path, '/') = '\0';
        assert_int_equal(mkdir_p(path, 0755, &err), 0);
        snprintf(path, sizeof path, "%s%s", root, places[i]);
        assert_int_equal(file_write_atomic(path, "x", 1, 0644, &err), 0);
        char *found = system_ca_file(root);
        assert_string_equal(found, path);
        free(found);
    }
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(path, sizeof path, "%s%s", root, places[i]);
        assert_int_equal(unlink(path), 0);
    }
    for (const char *const *at =
             (const char *const[]){"/etc/pki/tls/certs", "/etc/pki/tls", "/etc/pki", "/etc/ssl", "/etc", "", NULL};
         *at; at++) {
        snprintf(path, sizeof path, "%s%s", root, *at);
        assert_int_equal(rmdir(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test(name)
        TEST(test_system_ca_file),
        TEST(test_parse_integers),
        TEST(test_parse_durations),
        TEST(test_parse_sizes),
        TEST(test_strings),
        TEST(test_nearest),
        TEST(test_buf),
        TEST(test_shell_quote),
        TEST(test_json_string),
        TEST(test_arena),
        TEST(test_errors),
        TEST(test_errors_have_a_cause),
        TEST(test_errors_are_printable),
        TEST(test_files),
        TEST(test_hex),
        TEST(test_diagnostics_text),
        TEST(test_diagnostics_of_a_hidden_source),
        TEST(test_what_is_no_file_is_not_opened),
        TEST(test_diagnostics_utf8_and_control),
        TEST(test_diagnostics_long_line),
        TEST(test_diagnostics_odd_places),
        TEST(test_diagnostics_repeats),
        TEST(test_diagnostics_cap),
        TEST(test_diagnostics_json),
        TEST(test_diagnostics_colour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
