/* Which machine answers: a real sshd (tests/fleet) as a rented machine, met by both clients. */
#include "../../src/rent/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>

static const char token[] = "5f0c1f2a-0000-4000-8000-000000000000";
static char dir[] = "/tmp/rhrun-meet-XXXXXX";
static struct arena *arena;
static struct rent_keys *keys;
static struct buf host_key; /* of the existing machine */
static unsigned port;

struct met {
    struct loop *loop;
    struct meet *meet;
    int times;
    bool ours, ends;
    char host_key[200];
    struct error err;
};

static void done(void *arg, bool ours, const char *key, const struct error *err)
{
    struct met *m = arg;
    m->times++;
    m->ours = ours;
    snprintf(m->host_key, sizeof(m->host_key), "%s", key ? key : "");
    if (err)
        m->err = *err;
    if (m->ends) {
        meet_end(m->meet);
        m->meet = NULL;
    }
    loop_stop(m->loop);
}

static int shell(const char *fmt, ...) FORMAT(1, 2);
static int shell(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *command = xvasprintf(fmt, ap);
    va_end(ap);
    return system(command);
}

/* The machine's reaction to a command: `token` runs it, and has this token (NULL: none yet). */
static void machine_does(const char *what, const char *has)
{
    const char *file = arena_printf(arena, "%s/token", dir);
    assert_int_equal(shell("echo %s >%s/does", what, dir), 0);
    if (has)
        assert_int_equal(file_write_atomic(file, has, strlen(has), 0644, NULL), 0);
    else
        unlink(file);
}

static struct transport_host door_of(const char *machine, const char *key, enum transport_kind kind)
{
    struct transport_host host = {0};
    struct error err = ERROR_INIT;
    const char *user = getenv("USER") ? getenv("USER") : "root";
    struct rent_door door = {
        .machine = machine, .address = arena_printf(arena, "127.0.0.1:%u", port), .user = user, .host_key = key};
    if (rent_door(keys, &door, arena, &host, &err) != 0)
        fail_msg("%s", err.text);
    host.kind = kind;
    host.timeout_ms = 60000;
    return host;
}

static struct met met(const struct transport_host *host, const char *wants, bool ends)
{
    struct met m = {.loop = loop_create(), .ends = ends};
    struct transport_pool *pool = transport_pool_create(m.loop, NULL);
    m.meet = meet_begin(m.loop, pool, host, wants, done, &m);
    assert_int_equal(m.times, 0);
    loop_run(m.loop);
    assert_int_equal(m.times, 1);
    meet_end(m.meet);
    transport_pool_destroy(pool);
    loop_destroy(m.loop);
    return m;
}

static void test_ours(void **state)
{
    (void)state;
    for (enum transport_kind kind = TRANSPORT_AUTO; kind <= TRANSPORT_OPENSSH; kind++) {
        struct transport_host host = door_of("i-1", host_key.data, kind);
        machine_does("token", token);
        struct met m = met(&host, token, false);
        assert_string_equal(m.err.text, "");
        assert_true(m.ours);
        assert_string_equal(m.host_key, host_key.data);
        m = met(&host, NULL, true);
        assert_true(m.ours && m.host_key[0]);

        /* The right host key, but another machine, or one that is not ready yet. */
        static const char *const others[] = {"", "5f0c1f2a-0000-4000-8000-00000000000", "x 5f0c1f2a", NULL};
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
            machine_does("token", others[i]);
            m = met(&host, token, i % 2);
            assert_string_equal(m.err.text, "");
            assert_false(m.ours);
            assert_string_equal(m.host_key, host_key.data);
        }
    }
}

static void test_another_machine(void **state)
{
    (void)state;
    struct buf other = {0};
    rent_host_key(keys, "rhrun-x-1", &other, NULL);
    machine_does("token", token);
    for (enum transport_kind kind = TRANSPORT_AUTO; kind <= TRANSPORT_OPENSSH; kind++) {
        struct transport_host host = door_of("i-2", other.data, kind);
        struct met m = met(&host, token, false);
        assert_false(m.ours);
        assert_int_equal(m.err.code, ERROR_INFRA);
        if (m.err.why != ERROR_WHY_HOST_KEY)
            fail_msg("%d: %s", (int)kind, m.err.text);
        assert_non_null(strstr(m.err.text, "another machine answers there"));
        assert_string_equal(m.host_key, "");

        /* The same machine is reported with another key, as it got one: no old key is remembered. */
        host = door_of("i-2", host_key.data, kind);
        m = met(&host, token, false);
        assert_true(m.ours);
    }
    buf_free(&other);
}

static void test_first_contact(void **state)
{
    (void)state;
    machine_does("token", token);
    for (enum transport_kind kind = TRANSPORT_AUTO; kind <= TRANSPORT_OPENSSH; kind++) {
        const char *machine = arena_printf(arena, "pod%d", (int)kind);
        struct transport_host host = door_of(machine, NULL, kind);
        struct met m = met(&host, NULL, false);
        assert_true(m.ours);
        assert_string_equal(m.host_key, host_key.data);
        host = door_of(machine, NULL, kind); /* again, before the ledger has it */
        assert_true(met(&host, NULL, false).ours);
        host = door_of(machine, m.host_key, kind);
        assert_false(host.trust_first);
        assert_true(met(&host, NULL, false).ours);

        struct buf other = {0};
        rent_host_key(keys, "rhrun-x-1", &other, NULL);
        assert_int_equal(shell("printf '[127.0.0.1]:%u %s\\n' >%s", port, other.data, host.known_hosts), 0);
        host = door_of(machine, NULL, kind);
        assert_int_equal(met(&host, NULL, false).err.why, ERROR_WHY_HOST_KEY);
        buf_free(&other);
    }
}

static void test_nobody(void **state)
{
    (void)state;
    const unsigned there = port;
    for (enum transport_kind kind = TRANSPORT_AUTO; kind <= TRANSPORT_OPENSSH; kind++) {
        port = there - 1;
        struct transport_host host = door_of("i-3", host_key.data, kind);
        port = there;
        struct met m = met(&host, token, false);
        assert_false(m.ours);
        assert_int_equal(m.err.code, ERROR_INFRA);
        assert_int_equal(m.err.why, ERROR_WHY_NONE);
        assert_non_null(strstr(m.err.text, "Connection refused"));

        host = door_of("i-3", host_key.data, kind);
        host.identity_file = arena_printf(arena, "%s/stranger/id_ed25519", dir);
        m = met(&host, token, true);
        if (m.err.why != ERROR_WHY_LOGIN)
            fail_msg("%d: %s", (int)kind, m.err.text);
    }
}

static void test_strange_answers(void **state)
{
    (void)state;
    struct transport_host host = door_of("i-4", host_key.data, TRANSPORT_AUTO);
    machine_does("much", NULL);
    struct met m = met(&host, token, false);
    assert_int_equal(m.err.code, ERROR_PROTOCOL);
    machine_does("nothing", NULL);
    m = met(&host, token, true);
    assert_int_equal(m.err.code, ERROR_INFRA);
    assert_non_null(strstr(m.err.text, "connection lost"));
    machine_does("hang", NULL);
    host.timeout_ms = 2000;
    m = met(&host, token, false);
    assert_int_equal(m.err.code, ERROR_TIMEOUT);
    machine_does("noise", token);
    host.timeout_ms = 60000;
    assert_true(met(&host, token, false).ours);

    struct loop *loop = loop_create(); /* given up at once */
    struct transport_pool *pool = transport_pool_create(loop, NULL);
    meet_end(meet_begin(loop, pool, &host, token, done, NULL));
    meet_end(NULL);
    transport_pool_destroy(pool);
    loop_destroy(loop);
}

/* ---- the machine ---- */

static unsigned free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (unsigned i = 0;; i++) {
        unsigned base = 12000 + ((unsigned)getpid() * 3 + i) % 4000 * 2, ok = 0;
        for (unsigned j = 0; j < 2; j++) {
            int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            addr.sin_port = htons((uint16_t)(base + j));
            ok += bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
            close(fd);
        }
        if (ok == 2 || i == 4000)
            return base + 1;
    }
}

static const char force[] =
    "#!/bin/sh\n"
    "case $(cat DIR/does) in\n"
    "much) exec yes ;;\n"
    "nothing) exit 3 ;;\n"
    "hang) exec sleep 600 ;;\n"
    "noise) echo welcome; printf 'RHRUN-TOKEN of'; sleep 0.1 ;;\n"
    "esac\n"
    "exec /bin/sh -c \"$(printf %s \"$SSH_ORIGINAL_COMMAND\" | sed s,/run/rhrun-token,DIR/token,)\"\n";

static int start_machine(void)
{
    struct error err = ERROR_INIT;
    struct buf private = {0};
    port = free_port();
    keys = rent_keys_open(arena_printf(arena, "%s/keys", dir), &err);
    rent_keys_close(rent_keys_open(arena_printf(arena, "%s/stranger", dir), &err));
    if (!keys)
        return -1;
    rent_host_key(keys, "rhrun-x-0", &host_key, &private);
    int rc = shell("mkdir -p %s/f/1 && cp %s/keys/id_ed25519 %s/f/key && echo '%s' >%s/f/key.pub && "
                   "echo '%s' >%s/f/1/host_key.pub",
                   dir, dir, dir, rent_login_public(keys), dir, host_key.data, dir);
    const char *file = arena_printf(arena, "%s/f/1/host_key", dir);
    if (rc == 0)
        rc = file_write_atomic(file, private.data, private.len, 0600, &err);
    buf_free(&private);
    const char *script = arena_printf(arena, "%s/force", dir);
    if (rc == 0)
        rc = file_write_atomic(script, force, strlen(force), 0700, &err);
    if (rc == 0)
        rc = shell("sed -i s,DIR,%s,g %s && FLEET_SSHD='ForceCommand %s' %s/tests/fleet up 1 %s/f %u >&2", dir, script,
                   script, SOURCE_ROOT, dir, port - 1);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ours),   cmocka_unit_test(test_another_machine), cmocka_unit_test(test_first_contact),
        cmocka_unit_test(test_nobody), cmocka_unit_test(test_strange_answers),
    };
    if (system("PATH=$PATH:/usr/sbin; command -v sshd >/dev/null && command -v ssh-keygen >/dev/null") != 0) {
        puts("skipped: no sshd here (Debian: openssh-server)");
        return 0;
    }
    unsetenv("SSH_AUTH_SOCK");
    unsetenv("XDG_RUNTIME_DIR");
    arena = arena_create();
    if (!mkdtemp(dir))
        return 1;
    int rc = start_machine();
    if (rc == 0)
        rc = cmocka_run_group_tests(tests, NULL, NULL);
    shell("%s/tests/fleet down %s/f; rm -rf %s", SOURCE_ROOT, dir, dir);
    rent_keys_close(keys);
    buf_free(&host_key);
    arena_destroy(arena);
    return rc != 0;
}
