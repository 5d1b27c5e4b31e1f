/* transport over real sshd on loopback (tests/fleet): logins, host keys, the agent's start, streams, failures. */
#include "rhrun/transport.h"
#include "rhrun/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { MAIN = 1, ODD = 2, NOISY = 3, FULL = 4 };

static char dir[] = "/tmp/rhrun-ssh-XXXXXX";
static unsigned base_port;
static bool have_sshd;

struct peer {
    struct loop *loop;
    struct transport_pool *pool;
    struct transport *t;
    struct buf in;
    bool opened, closed;
    bool is_command, ready; /* ready: the agent speaks, or the command was started */
    int *left;              /* stops the loop at 0 */
    struct error err;
    enum transport_phase phase;
    enum transport_kind kind;
    char digest[400];
    uint64_t sent, received, total; /* of the echo */
    const char *kill_command;       /* run when the first data comes */
    const char *greeting;           /* written in `opened` */
    const char *until;              /* this text ends it */
    const char *agent;              /* a script in its place */
};

static int shell(const char *fmt, ...) FORMAT(1, 2);
static int shell(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *command = xvasprintf(fmt, ap);
    va_end(ap);
    int rc = system(command);
    free(command);
    return rc;
}

static char *path(const char *fmt, ...) FORMAT(1, 2);
static char *path(const char *fmt, ...) /* below dir; not freed before the end */
{
    static struct arena *paths;
    if (!paths)
        paths = arena_create();
    if (!fmt) {
        arena_destroy(paths);
        paths = NULL;
        return NULL;
    }
    va_list ap;
    va_start(ap, fmt);
    char *name = xvasprintf(fmt, ap);
    va_end(ap);
    char *whole = arena_printf(paths, "%s/%s", dir, name);
    free(name);
    return whole;
}

static void one_less(struct peer *p)
{
    if (--*p->left == 0)
        loop_stop(p->loop);
}

static void is_ready(struct peer *p)
{
    p->ready = true;
    one_less(p);
}

static uint8_t pattern(uint64_t at)
{
    return (uint8_t)((at * 2654435761u) >> 13);
}

static void feed(struct peer *p)
{
    uint8_t block[32768];
    while (p->sent < p->total && transport_queued(p->t) < TRANSPORT_QUEUE_HIGH) {
        size_t n = sizeof(block) < p->total - p->sent ? sizeof(block) : (size_t)(p->total - p->sent);
        for (size_t i = 0; i < n; i++)
            block[i] = pattern(p->sent + i);
        transport_write(p->t, block, n);
        p->sent += n;
    }
}

static void opened(void *arg)
{
    struct peer *p = arg;
    assert_false(p->opened);
    p->opened = true;
    p->kind = transport_kind(p->t);
    snprintf(p->digest, sizeof(p->digest), "%s", transport_host_digest(p->t));
    if (p->greeting)
        transport_write(p->t, p->greeting, strlen(p->greeting));
    if (p->total)
        feed(p);
    else if (p->is_command)
        is_ready(p);
}

static void data(void *arg, const uint8_t *bytes, size_t len)
{
    struct peer *p = arg;
    if (!p->total) {
        buf_append(&p->in, bytes, len);
        if (p->greeting && strstr(p->in.data, "got hello\n")) {
            p->greeting = NULL;
            transport_write(p->t, "bye\n", 4);
        }
        if (!p->ready && strstr(p->in.data, p->until ? p->until : WIRE_MAGIC))
            is_ready(p);
        return;
    }
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern(p->received + i))
            fail_msg("byte %llu is wrong", (unsigned long long)(p->received + i));
    p->received += len;
    if (p->kill_command) {
        assert_int_equal(system(p->kill_command), 0);
        p->kill_command = NULL;
    }
    if (p->received == p->total)
        one_less(p);
}

static void drained(void *arg)
{
    feed(arg);
}

static void closed(void *arg, const struct error *err, enum transport_phase phase)
{
    struct peer *p = arg;
    assert_false(p->closed);
    p->closed = true;
    p->err = *err;
    p->phase = phase;
    if (!p->ready)
        one_less(p);
}

static const struct transport_callbacks callbacks = {opened, data, drained, closed};

static struct transport_host host_of(unsigned server)
{
    struct transport_host host = {
        .name = "127.0.0.1",
        .port = base_port + server,
        .identity_file = path("key"),
        .known_hosts = path("known_hosts"),
        .ssh_config = "none",
        .kind = TRANSPORT_AUTO,
        .timeout_ms = 60000, /* the machine may be busy; tests of deadlines set their own */
    };
    return host;
}

static void open_peer(struct peer *p, const struct transport_host *host, const struct transport_pool_options *options)
{
    int left = 1;
    p->left = &left;
    p->is_command = host->command != NULL;
    p->loop = loop_create();
    p->pool = transport_pool_create(p->loop, options);
    if (p->agent) {
        transport_pool_set_agent(p->pool, "x86_64", p->agent, strlen(p->agent));
        transport_pool_set_agent(p->pool, "aarch64", p->agent, strlen(p->agent));
    }
    p->t = transport_open(p->pool, host, &callbacks, p);
    loop_run(p->loop);
}

static void close_peer(struct peer *p)
{
    transport_close(p->t);
    transport_pool_destroy(p->pool);
    loop_destroy(p->loop);
    buf_free(&p->in);
    memset(p, 0, sizeof(*p));
}

static void expect_open(const struct transport_host *host, enum transport_kind kind)
{
    struct peer p = {0};
    open_peer(&p, host, NULL);
    if (!p.ready)
        fail_msg("not opened: %s", p.err.text);
    assert_int_equal(p.kind, kind);
    assert_true(p.digest[0]);
    close_peer(&p);
}

static void expect_fail(const struct transport_host *host, enum transport_phase phase, enum error_code code,
                        const char *text, const char *hint)
{
    struct peer p = {0};
    open_peer(&p, host, NULL);
    assert_true(p.closed);
    assert_true(!p.opened || phase == TRANSPORT_AGENT);
    if (!strstr(p.err.text, text) || !strstr(p.err.hint, hint))
        fail_msg("\"%s\" or \"%s\" is not in: %s\nhint: %s", text, hint, p.err.text, p.err.hint);
    assert_true(str_starts(p.err.text, "host \""));
    assert_int_equal(p.phase, phase);
    assert_int_equal(p.err.code, code);
    close_peer(&p);
}

/* ---- logins ---- */

static void test_agent(void **state)
{
    (void)state;
    struct transport_host host = host_of(MAIN);
    struct peer p = {0};
    open_peer(&p, &host, NULL);
    assert_string_equal(p.err.text, "");
    assert_true(p.opened);
    assert_int_equal(strlen(p.digest), 64);
    assert_memory_equal(p.in.data, WIRE_MAGIC, strlen(WIRE_MAGIC));
    close_peer(&p);
}

static void test_keys(void **state)
{
    (void)state;
    static const char *const keys[] = {"key", "rsa", "ecdsa", "rsa_pem", "ecdsa_pem"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct transport_host host = host_of(MAIN);
        host.kind = TRANSPORT_SSH;
        host.command = "cat";
        host.identity_file = path("%s", keys[i]);
        expect_open(&host, TRANSPORT_SSH);
    }
}

static void test_agents(void **state)
{
    (void)state;
    struct transport_host host = host_of(MAIN);
    host.kind = TRANSPORT_SSH;
    host.command = "cat";
    host.identity_file = path("locked");
    expect_fail(&host, TRANSPORT_AUTH, ERROR_INFRA, "locked: encrypted", "");

    /* The private agent; the passphrase comes from an askpass program. */
    setenv("SSH_ASKPASS", path("askpass"), 1);
    setenv("SSH_ASKPASS_REQUIRE", "force", 1);
    struct transport_pool_options options = {.allow_prompt = true};
    struct peer p = {0};
    open_peer(&p, &host, &options);
    if (!p.ready)
        fail_msg("%s", p.err.text);
    close_peer(&p);

    /* The user's agent: an encrypted key, and RSA whose private half is not here. */
    assert_int_equal(shell("ssh-agent -a %s/agent >%s/agent.env && SSH_AUTH_SOCK=%s/agent ssh-add -q %s/locked %s/gone "
                           "</dev/null && mv %s/gone %s/gone.away",
                           dir, dir, dir, dir, dir, dir, dir),
                     0);
    unsetenv("SSH_ASKPASS");
    unsetenv("SSH_ASKPASS_REQUIRE");
    setenv("SSH_AUTH_SOCK", path("agent"), 1);
    expect_open(&host, TRANSPORT_SSH);
    host.identity_file = path("gone");
    expect_open(&host, TRANSPORT_SSH);
    unsetenv("SSH_AUTH_SOCK");
    shell(". %s/agent.env >/dev/null; ssh-agent -k >/dev/null", dir);
}

static void test_refused_key(void **state)
{
    (void)state;
    struct transport_host host = host_of(MAIN);
    host.identity_file = path("stranger");
    expect_fail(&host, TRANSPORT_AUTH, ERROR_INFRA, "auth: the server accepted none of: ", "of user");
    expect_fail(&host, TRANSPORT_AUTH, ERROR_INFRA, "/stranger (publickey)", "identity_file");
    host = host_of(MAIN);
    host.user = "no-such-user";
    expect_fail(&host, TRANSPORT_AUTH, ERROR_INFRA, "accepted none of", "user \"no-such-user\"");
    host = host_of(MAIN);
    host.identity_file = path("missing");
    expect_fail(&host, TRANSPORT_AUTH, ERROR_INFRA, "missing: No such file", "");
    shell("cp %s/key %s/open && chmod 644 %s/open", dir, dir, dir);
    host.identity_file = path("open");
    expect_fail(&host, TRANSPORT_AUTH, ERROR_INFRA, "0644 are too open", "");
}

/* ---- host keys ---- */

static void test_host_keys(void **state)
{
    (void)state;
    struct transport_host host = host_of(MAIN);
    host.known_hosts = path("empty");
    expect_fail(&host, TRANSPORT_HOST_KEY, ERROR_INFRA, "the host is not in ", "compare the fingerprint");

    assert_int_equal(
        shell("printf '# first\\n[127.0.0.1]:%u %%s\\n' \"$(cut -d ' ' -f 1-2 %s/stranger.pub)\" >%s/changed",
              base_port + MAIN, dir, dir),
        0);
    host.known_hosts = path("changed");
    char *line = xasprintf("host key has changed: %s/changed:2", dir);
    expect_fail(&host, TRANSPORT_HOST_KEY, ERROR_INFRA, line, "ssh-keygen -R");
    /* accept-new rejects a changed key too */
    shell("printf 'StrictHostKeyChecking accept-new\\nHashKnownHosts yes\\n' >%s/accept_new", dir);
    host.ssh_config = path("accept_new");
    expect_fail(&host, TRANSPORT_HOST_KEY, ERROR_INFRA, line, "ssh-keygen -R");
    free(line);

    host.known_hosts = path("accepted");
    expect_open(&host, TRANSPORT_SSH);
    assert_int_equal(shell("test $(wc -l <%s/accepted) = 1 && ssh-keygen -F '[127.0.0.1]:%u' -f %s/accepted >/dev/null",
                           dir, base_port + MAIN, dir),
                     0);
    host.ssh_config = "none";
    expect_open(&host, TRANSPORT_SSH);

    shell("sed 's/^/@revoked /' %s/known_hosts >%s/revoked", dir, dir);
    host.known_hosts = path("revoked");
    expect_fail(&host, TRANSPORT_HOST_KEY, ERROR_INFRA, "is revoked by ", "");
}

/* The first contact creates the named file, which then identifies the host; with both clients. */
static void test_first_contact(void **state)
{
    (void)state;
    struct buf server = {0};
    assert_int_equal(file_read(path("f%d/1/host_key.pub", MAIN), 4096, &server, NULL), 0);
    server.data[strlen("ssh-ed25519 ") + strcspn(server.data + strlen("ssh-ed25519 "), " \n")] = '\0';
    for (enum transport_kind kind = TRANSPORT_SSH; kind <= TRANSPORT_OPENSSH; kind++) {
        struct transport_host host = host_of(MAIN);
        struct buf file = {0};
        host.kind = kind;
        host.known_hosts = path("first%d", (int)kind);
        for (int again = 0; again < 2; again++) {
            struct peer p = {0};
            host.trust_first = again == 0;
            open_peer(&p, &host, NULL);
            if (!p.ready)
                fail_msg("not opened: %s", p.err.text);
            assert_string_equal(transport_host_key(p.t), server.data);
            close_peer(&p);
        }
        char *line = xasprintf("[127.0.0.1]:%u %s\n", base_port + MAIN, server.data);
        assert_int_equal(file_read(host.known_hosts, 4096, &file, NULL), 0);
        assert_string_equal(file.data, line);

        /* Once it is known, another key is refused; and without being told so, no other host is trusted. */
        assert_int_equal(shell("printf '[127.0.0.1]:%u %%s\\n' \"$(cut -d ' ' -f 1-2 %s/stranger.pub)\" >%s",
                               base_port + MAIN, dir, host.known_hosts),
                         0);
        host.trust_first = true;
        for (int known = 1; known >= 0; known--) {
            struct peer p = {0};
            open_peer(&p, &host, NULL);
            assert_true(p.closed && !p.opened);
            assert_int_equal(p.phase, TRANSPORT_HOST_KEY);
            assert_int_equal(p.err.why, ERROR_WHY_HOST_KEY);
            assert_string_equal(transport_host_key(p.t), "");
            close_peer(&p);
            host.trust_first = false;
            host.known_hosts = path("empty");
        }
        host = host_of(MAIN);
        host.kind = kind;
        host.identity_file = path("stranger");
        struct peer p = {0};
        open_peer(&p, &host, NULL);
        assert_int_equal(p.err.why, ERROR_WHY_LOGIN);
        close_peer(&p);
        free(line);
        buf_free(&file);
    }
    buf_free(&server);
}

/* ---- unreachable servers ---- */

static void test_unreachable(void **state)
{
    (void)state;
    struct transport_host host = host_of(MAIN);
    host.port = base_port; /* nobody listens */
    expect_fail(&host, TRANSPORT_CONNECT, ERROR_INFRA, "Connection refused", "is sshd running");
    host = host_of(MAIN);
    host.name = "no-such-host.invalid";
    expect_fail(&host, TRANSPORT_RESOLVE, ERROR_INFRA, "\"no-such-host.invalid\": ", "check the name");

    /* Something that accepts and says nothing. */
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    host = host_of(MAIN);
    host.port = ntohs(addr.sin_port);
    host.timeout_ms = 100;
    expect_fail(&host, TRANSPORT_HOST_KEY, ERROR_TIMEOUT, "host key: no answer within 0.1 s", "SSH server");
    close(fd);

    shell("printf 'NoSuchOption yes\\n' >%s/bad_config", dir);
    host = host_of(MAIN);
    host.ssh_config = path("bad_config");
    expect_fail(&host, TRANSPORT_CONFIG, ERROR_INFRA, "config: ssh -G failed: ", "ssh configuration");
}

static void test_config(void **state)
{
    (void)state;
    struct transport_host host = {.name = "node1", .ssh_config = path("ssh_config"), .timeout_ms = 60000};
    expect_open(&host, TRANSPORT_SSH);
    host.proxy_jump = "node2"; /* its host key is RSA only: ssh handles that */
    expect_open(&host, TRANSPORT_SSH);
    host.proxy_jump = "node9";
    expect_fail(&host, TRANSPORT_CONNECT, ERROR_INFRA, "through the proxy \"node9\": ", "");
}

/* ---- beyond libssh2 ---- */

static void test_openssh(void **state)
{
    (void)state;
    struct transport_host host = host_of(MAIN);
    host.kind = TRANSPORT_OPENSSH;
    expect_open(&host, TRANSPORT_OPENSSH);
    host.identity_file = path("stranger");
    expect_fail(&host, TRANSPORT_AUTH, ERROR_INFRA, "Permission denied", "identity_file");
    host.identity_file = path("certified"); /* a certificate beside it: AUTO takes openssh */
    host.kind = TRANSPORT_AUTO;
    expect_open(&host, TRANSPORT_OPENSSH);
    host = host_of(ODD); /* RSA host key, -etm MACs */
    expect_open(&host, TRANSPORT_OPENSSH);
    host.known_hosts = path("empty"); /* found out only during the key exchange */
    expect_fail(&host, TRANSPORT_HOST_KEY, ERROR_INFRA, "Host key verification failed", "");
}

/* ---- starting the agent ---- */

static void test_noisy(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct transport_host host = host_of(NOISY);
        host.kind = i ? TRANSPORT_OPENSSH : TRANSPORT_SSH;
        struct peer p = {0};
        open_peer(&p, &host, NULL);
        if (!p.ready)
            fail_msg("%s", p.err.text);
        assert_true(str_starts(p.in.data, "welcome\n")); /* passed on: the reader skips it */
        close_peer(&p);
    }
}

/* Bytes written in `opened` follow the upload at once, and reach the agent that runs in the end, once. */
static void expect_greeting(const struct transport_host *host)
{
    struct peer p = {.greeting = "hello\n", .until = "then bye\n"};
    p.agent = "#!/bin/sh\nprintf '\\nRHRUN-AGENT-1\\n'\nread a\necho got $a\nread b\necho then $b\nread c\n";
    open_peer(&p, host, NULL);
    if (!p.ready)
        fail_msg("%s\n%s", p.err.text, p.in.data ? p.in.data : "");
    close_peer(&p);
}

static void test_greeting(void **state)
{
    (void)state;
    struct transport_host host = host_of(MAIN);
    char port[16], known[300];
    snprintf(port, sizeof port, "%u", host.port);
    snprintf(known, sizeof known, "UserKnownHostsFile=%s", host.known_hosts);
    const char *const by_hand[] = {"ssh", "-F",  host.ssh_config, "-p", port, "-i", host.identity_file,
                                   "-o",  known, host.name,       "sh", NULL};
    host.exec = by_hand;
    for (host.kind = TRANSPORT_SSH; host.kind <= TRANSPORT_LOCAL; host.kind++)
        expect_greeting(&host);
    host.kind = TRANSPORT_AUTO;
    struct peer p = {0}; /* a machine without an agent for it */
    int left = 1;
    p.left = &left;
    p.loop = loop_create();
    p.pool = transport_pool_create(p.loop, NULL);
    transport_pool_set_agent(p.pool, "x86_64", NULL, 0);
    transport_pool_set_agent(p.pool, "aarch64", NULL, 0);
    transport_pool_set_agent(p.pool, "m68k", "x", 1);
    p.t = transport_open(p.pool, &host, &callbacks, &p);
    loop_run(p.loop);
    assert_non_null(strstr(p.err.text, "there is no agent for its machine type \""));
    close_peer(&p);
}

static void test_no_room(void **state)
{
    (void)state;
    struct transport_host host = host_of(FULL);
    expect_fail(&host, TRANSPORT_AGENT, ERROR_INFRA, "no folder on the node can hold and run the agent: ", "it needs ");
    host.kind = TRANSPORT_OPENSSH;
    expect_fail(&host, TRANSPORT_AGENT, ERROR_INFRA, "/tmp: ", "it needs ");
    /* nothing is left behind */
    assert_int_equal(shell("! ls %s/f%d/home/1/.rhrun-* 2>/dev/null", dir, FULL), 0);
}

static void test_noexec(void **state)
{
    (void)state;
    char *folder = path("noexec");
    assert_int_equal(mkdir_p(folder, 0700, NULL), 0);
    if (shell("mount -t tmpfs -o noexec tmpfs %s 2>/dev/null", folder) != 0)
        skip();                                  /* only root may */
    struct transport_host host = host_of(NOISY); /* whose $XDG_RUNTIME_DIR is that folder */
    struct peer p = {0};
    open_peer(&p, &host, NULL);
    bool ok = p.ready;
    close_peer(&p);
    if (ok)
        expect_greeting(&host);
    int left = shell("! ls %s/.rhrun-* 2>/dev/null", folder);
    shell("umount %s", folder);
    assert_true(ok);
    assert_int_equal(left, 0);
}

/* ---- many, much, and the end ---- */

static void test_many(void **state)
{
    (void)state;
    enum { N = 32 };
    struct peer peers[N];
    int left = N;
    struct loop *loop = loop_create();
    struct transport_pool *pool = transport_pool_create(loop, NULL);
    struct transport_host host = host_of(MAIN); /* MaxStartups 10:30:100 */
    memset(peers, 0, sizeof(peers));
    for (int i = 0; i < N; i++) {
        peers[i] = (struct peer){.loop = loop, .left = &left};
        peers[i].t = transport_open(pool, &host, &callbacks, &peers[i]);
    }
    loop_run(loop);
    for (int i = 0; i < N; i++) {
        if (!peers[i].ready)
            fail_msg("%d: %s", i, peers[i].err.text);
        transport_close(peers[i].t);
        buf_free(&peers[i].in);
    }
    transport_pool_destroy(pool);
    loop_destroy(loop);
}

static void test_echo(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct transport_host host = host_of(MAIN);
        host.kind = i ? TRANSPORT_OPENSSH : TRANSPORT_SSH;
        host.command = "exec cat";
        struct peer p = {.total = 50u << 20};
        open_peer(&p, &host, NULL);
        assert_string_equal(p.err.text, "");
        assert_int_equal(p.received, 50u << 20);
        close_peer(&p);
    }
}

static void test_killed(void **state)
{
    (void)state;
    char *command = xasprintf("%s/tests/fleet stop %s/f%d 1", SOURCE_ROOT, dir, FULL);
    struct transport_host host = host_of(FULL);
    host.command = "exec cat";
    struct peer p = {.total = 1u << 30, .kill_command = command};
    open_peer(&p, &host, NULL);
    assert_true(p.closed);
    assert_int_equal(p.phase, TRANSPORT_OPEN);
    assert_true(str_starts(p.err.text, "host \"127.0.0.1\": connection lost: "));
    assert_int_equal(p.err.code, ERROR_INFRA);
    close_peer(&p);
    free(command);
}

/* ---- the servers ---- */

/* A port with four free ones above it; other tests run fleets too. */
static unsigned free_ports(void)
{
    for (unsigned i = 0;; i++) {
        unsigned base = 20000 + ((unsigned)getpid() * 7 + i) % 1200 * 10, ok = 0;
        for (unsigned j = 0; j <= FULL; j++) {
            struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
            addr.sin_port = htons((uint16_t)(base + j));
            int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            ok += bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
            close(fd);
        }
        if (ok == FULL + 1 || i == 1200)
            return base;
    }
}

static int start_servers(void)
{
    base_port = free_ports();
    return shell("%s/transport/servers up %s %u >&2", FIXTURES, dir, base_port);
}

static int stop_servers(void)
{
    shell("%s/transport/servers down %s", FIXTURES, dir);
    path(NULL);
    return shell("rm -rf %s", dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent),         cmocka_unit_test(test_keys),      cmocka_unit_test(test_agents),
        cmocka_unit_test(test_refused_key),   cmocka_unit_test(test_host_keys), cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_config),        cmocka_unit_test(test_openssh),   cmocka_unit_test(test_noisy),
        cmocka_unit_test(test_greeting),      cmocka_unit_test(test_no_room),   cmocka_unit_test(test_noexec),
        cmocka_unit_test(test_many),          cmocka_unit_test(test_echo),      cmocka_unit_test(test_killed),
        cmocka_unit_test(test_first_contact),
    };
    have_sshd = system("PATH=$PATH:/usr/sbin; command -v sshd >/dev/null && command -v ssh-keygen >/dev/null") == 0;
    if (!have_sshd) {
        puts("skipped: no sshd here (Debian: openssh-server)");
        return 0;
    }
    unsetenv("SSH_AUTH_SOCK");
    unsetenv("XDG_RUNTIME_DIR");
    if (!mkdtemp(dir))
        return 1;
    int rc = start_servers();
    if (rc == 0)
        rc = cmocka_run_group_tests(tests, NULL, NULL);
    stop_servers();
    return rc != 0;
}
