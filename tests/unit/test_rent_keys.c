/* A cluster's keys: made once, found again after every failure, as ssh-keygen reads them; doors to its machines. */
#include "../../src/rent/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/tmp/rhrun-keys-XXXXXX";
static struct arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = arena_create();
    return mkdtemp(strcpy(dir, "/tmp/rhrun-keys-XXXXXX")) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char *command = arena_printf(arena, "rm -rf %s", dir);
    int rc = system(command);
    arena_destroy(arena);
    return rc;
}

static const char *below(const char *name)
{
    return arena_printf(arena, "%s/%s", dir, name);
}

static struct rent_keys *opened(const char *folder)
{
    struct error err = ERROR_INIT;
    struct rent_keys *k = rent_keys_open(folder, &err);
    if (!k)
        fail_msg("%s", err.text);
    return k;
}

/* The public half of the private key in the file, by ssh-keygen. */
static const char *public_of(const char *file)
{
    struct buf text = {0};
    const char *out = below("said");
    char *command = arena_printf(arena, "ssh-keygen -y -P '' -f %s >%s", file, out);
    if (system(command) != 0 || file_read(out, 4096, &text, NULL) != 0)
        fail_msg("ssh-keygen does not read %s", file);
    const char *ret = arena_strndup(arena, text.data, strcspn(text.data, "\n"));
    buf_free(&text);
    return ret;
}

static void test_login_key(void **state)
{
    (void)state;
    struct stat st;
    const char *folder = below("clusters/c1");
    struct rent_keys *k = opened(folder);
    const char *public = arena_strdup(arena, rent_login_public(k));
    assert_string_equal(rent_login_file(k), below("clusters/c1/id_ed25519"));
    assert_int_equal(stat(rent_login_file(k), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_string_equal(public_of(rent_login_file(k)), public);
    assert_true(str_starts(public, "ssh-ed25519 AAAA"));
    rent_keys_close(k);

    k = opened(folder);
    assert_string_equal(rent_login_public(k), public);
    rent_keys_close(k);
    k = opened(below("clusters/c2"));
    assert_string_not_equal(rent_login_public(k), public);
    rent_keys_close(k);
    rent_keys_close(NULL);
}

/* A file that is no key of ours is reported, and stays: a machine may know its key. */
static void test_damaged_key(void **state)
{
    (void)state;
    struct rent_keys *k = opened(below("c"));
    struct buf good = {0};
    assert_int_equal(file_read(rent_login_file(k), 4096, &good, NULL), 0);
    const char *file = arena_strdup(arena, rent_login_file(k));
    rent_keys_close(k);
    for (size_t len = 0; len <= good.len; len += 7) {
        for (int how = 0; how < 2; how++) {
            struct error err = ERROR_INIT;
            struct buf bad = {0}, after = {0};
            buf_append(&bad, good.data, how == 0 ? len : good.len); /* cut off, or a byte changed */
            if (how == 1 && len < good.len)
                bad.data[len] = bad.data[len] == 'B' ? 'C' : 'B';
            if (how == 1 && len >= good.len)
                buf_puts(&bad, "x");
            assert_int_equal(file_write_atomic(file, bad.data ? bad.data : "", bad.len, 0600, NULL), 0);
            assert_null(rent_keys_open(below("c"), &err));
            assert_int_equal(err.code, ERROR_IO);
            assert_non_null(strstr(err.text, "/c/id_ed25519\" is damaged"));
            assert_int_equal(file_read(file, 4096, &after, NULL), 0);
            assert_int_equal(after.len, bad.len);
            buf_free(&bad);
            buf_free(&after);
        }
    }
    buf_free(&good);
    struct error err = ERROR_INIT;
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_null(rent_keys_open(below("c"), &err));
    assert_int_equal(err.code, ERROR_IO);
    assert_null(rent_keys_open("/proc/none", &err));
    assert_int_equal(err.code, ERROR_IO);
}

/* Killed at any time: there is no key, or one that is found from then on. */
static void test_killed(void **state)
{
    (void)state;
    const char *first = NULL;
    for (int i = 0; i < 150; i++) {
        uint16_t us = 0;
        if (i % 10 == 0) { /* from the beginning again */
            char *command = arena_printf(arena, "rm -rf %s/k", dir);
            assert_int_equal(system(command), 0);
            first = NULL;
        }
        random_bytes(&us, sizeof(us));
        pid_t pid = fork();
        if (pid == 0) {
            rent_keys_close(rent_keys_open(below("k"), NULL));
            _exit(0);
        }
        usleep(us % 1500);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        if (access(below("k/id_ed25519"), F_OK) != 0)
            continue;
        struct rent_keys *k = opened(below("k"));
        if (first)
            assert_string_equal(rent_login_public(k), first);
        first = arena_strdup(arena, rent_login_public(k));
        rent_keys_close(k);
    }
}

static void test_host_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"rhrun-a-0", "rhrun-a-1", "rhrun-a-0"};
    struct buf public[4] = {{0}}, private[4] = {{0}};
    for (size_t i = 0; i < 4; i++) { /* the last is another cluster's */
        struct rent_keys *k = opened(below(i == 3 ? "b" : "a"));
        rent_host_key(k, names[i % 3], &public[i], &private[i]);
        rent_keys_close(k);
        const char *file = below("host");
        assert_int_equal(file_write_atomic(file, private[i].data, private[i].len, 0600, NULL), 0);
        assert_string_equal(public_of(file), arena_printf(arena, "%s %s", public[i].data, names[i % 3]));
    }
    assert_string_equal(public[0].data, public[2].data);
    assert_string_equal(private[0].data, private[2].data);
    assert_string_not_equal(public[0].data, public[1].data);
    assert_string_not_equal(public[0].data, public[3].data);
    for (size_t i = 0; i < 4; i++) {
        buf_free(&public[i]);
        buf_free(&private[i]);
    }
}

static void expect_door(const struct rent_keys *k, const char *address, const char *name, uint32_t port)
{
    struct transport_host host = {0};
    struct error err = ERROR_INIT;
    struct rent_door door = {.machine = "i-1", .address = address, .user = "ubuntu", .host_key = "ssh-ed25519 AAAA"};
    const int rc = rent_door(k, &door, arena, &host, &err);
    if (!name) {
        assert_int_equal(rc, -1);
        assert_non_null(strstr(err.text, "is not an address"));
        return;
    }
    if (rc != 0)
        fail_msg("%s", err.text);
    assert_string_equal(host.name, name);
    assert_int_equal(host.port, port);
    assert_string_equal(host.user, "ubuntu");
    assert_string_equal(host.ssh_config, "none");
    assert_string_equal(host.proxy_jump, "none");
    assert_string_equal(host.identity_file, rent_login_file(k));
    assert_int_equal(host.kind, TRANSPORT_AUTO);
    assert_false(host.trust_first);
}

static void test_doors(void **state)
{
    (void)state;
    struct rent_keys *k = opened(below("d"));
    expect_door(k, "192.0.2.7", "192.0.2.7", 22);
    expect_door(k, "192.0.2.7:22022", "192.0.2.7", 22022);
    expect_door(k, "host.example:1", "host.example", 1);
    expect_door(k, "2001:db8::1", "2001:db8::1", 22);
    expect_door(k, "[2001:db8::1]", "2001:db8::1", 22);
    expect_door(k, "[2001:db8::1]:2222", "2001:db8::1", 2222);
    static const char *const bad[] = {"",          ":22",  "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536",
                                      "1.2.3.4:x", "[]",   "[::1]22",  "[::1",      "-oProxyCmd=x",
                                      "a b",       "a\nb", "a/b",      "[]:22"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect_door(k, bad[i], NULL, 0);

    /* Each machine has a file of its own, whatever its name. */
    struct transport_host host = {0};
    struct error err = ERROR_INIT;
    struct buf text = {0};
    struct rent_door door = {.machine = "../../x", .address = "192.0.2.7", .user = "root"};
    assert_int_equal(rent_door(k, &door, arena, &host, &err), 0);
    assert_true(str_starts(host.known_hosts, below("d/known_hosts-.")));
    assert_null(strchr(host.known_hosts + strlen(below("d/")), '/'));
    assert_true(host.trust_first);
    assert_int_not_equal(access(host.known_hosts, F_OK), 0);
    door.host_key = "ssh-ed25519 AAAAB";
    assert_int_equal(rent_door(k, &door, arena, &host, &err), 0);
    assert_int_equal(file_read(host.known_hosts, 4096, &text, NULL), 0);
    assert_string_equal(text.data, "* ssh-ed25519 AAAAB\n");
    assert_false(host.trust_first);
    const char *before = host.known_hosts;
    door.machine = "i-2";
    assert_int_equal(rent_door(k, &door, arena, &host, &err), 0);
    assert_string_equal(host.known_hosts, below("d/known_hosts-i-2"));
    assert_string_not_equal(host.known_hosts, before);
    door.host_key = "ssh-ed25519 A\n* ssh-rsa B";
    assert_int_equal(rent_door(k, &door, arena, &host, &err), -1);
    door.machine = "";
    assert_int_equal(rent_door(k, &door, arena, &host, &err), -1);
    buf_free(&text);
    rent_keys_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_login_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_host_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_doors, setup, teardown),
    };
    if (system("command -v ssh-keygen >/dev/null") != 0) {
        puts("skipped: no ssh-keygen here (Debian: openssh-client)");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
