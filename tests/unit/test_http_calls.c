/* http: failures, how often a request is sent, turns and throttles, and a cancel at every point. */
#include "http_scene.h"

#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>

/* libcurl looks names up with this function: "hang.example" is not found until the test allows it, other names in
 * .example never are. */
static sem_t lookup_begun, lookup_go, lookup_over;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
    if (name && str_eq(name, "hang.example")) {
        sem_post(&lookup_begun);
        sem_wait(&lookup_go);
        sem_post(&lookup_over);
        return EAI_NONAME;
    }
    if (name && str_ends(name, ".example"))
        return EAI_NONAME;
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(name, service, hints, ret);
}

/* ---- failures ---- */

static void test_broken_off(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    /* How much of the earlier data a reset leaves is up to the kernel. */
    static const char *const halves[] = {"/half/close", "/half/reset"};
    for (size_t i = 0; i < 2 * ARRAY_LEN(halves); i++) {
        ask(s, &g, &(struct http_request){.url = i % 2 ? tls(halves[i / 2]) : plain(halves[i / 2])});
        expect_failure(&g, HTTP_PHASE_EXCHANGE, "the connection broke off ");
        if (i < 2)
            expect_text(g.failure.error.text, "within the answer, after 500 bytes of its body");
        assert_true(g.failure.sent);
        assert_int_equal(g.failure.error.code, ERROR_INFRA);
    }
    ask(s, &g, &(struct http_request){.method = "POST", .url = plain("/drop?s3cret")});
    expect_failure(&g, HTTP_PHASE_EXCHANGE, "/drop: the connection broke off before an answer came");
    expect_text(g.failure.error.text, "POST http://127.0.0.1:");
    assert_true(g.failure.sent);
    assert_null(strstr(g.failure.error.text, "s3cret"));
    ask(s, &g, &(struct http_request){.url = plain("/garbage")});
    expect_failure(&g, HTTP_PHASE_PROTOCOL, "the server did not answer with HTTP");
    forget(&g);
}

static void test_not_reached(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    ask(s, &g, &(struct http_request){.url = "https://nobody.example/x?s3cret"});
    expect_failure(&g, HTTP_PHASE_NAME,
                   "GET https://nobody.example/x: could not find the address of \"nobody.example\"");
    assert_false(g.failure.sent);
    ask(s, &g, &(struct http_request){.url = "https://127.0.0.1:1/x"});
    expect_failure(&g, HTTP_PHASE_CONNECT, "could not connect to \"127.0.0.1\" port 1: Connection refused");
    assert_false(g.failure.sent);
    ask(s, &g, &(struct http_request){.url = "https://localhost:1/x"});
    expect_failure(&g, HTTP_PHASE_CONNECT, "could not connect to \"localhost\" port 1: Connection refused");
    ask(s, &g, &(struct http_request){.url = "http://[::1]:1/x"});
    expect_failure(&g, HTTP_PHASE_CONNECT, "could not connect to \"[::1]\" port 1: ");
    forget(&g);
}

/* Each ends, by one of the limits. */
static void test_time_limits(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    ask(s, &g, &(struct http_request){.url = url_of("https", server.mute, "/x"), .connect_ms = 300});
    expect_failure(&g, HTTP_PHASE_TLS, "timed out after 300 ms: TLS was not agreed on yet");
    assert_int_equal(g.failure.error.code, ERROR_TIMEOUT);
    assert_false(g.failure.sent);
    ask(s, &g, &(struct http_request){.url = plain("/slow"), .whole_ms = 300});
    expect_failure(&g, HTTP_PHASE_EXCHANGE, "timed out after 300 ms: no answer came");
    assert_true(g.failure.sent);
    ask(s, &g, &(struct http_request){.url = tls("/half/wait"), .whole_ms = 1500});
    expect_failure(&g, HTTP_PHASE_EXCHANGE, "timed out after 1500 ms: ");
    ask(s, &g, &(struct http_request){.url = tls("/half/wait"), .whole_ms = HTTP_NEVER, .idle_ms = 1500});
    expect_failure(&g, HTTP_PHASE_EXCHANGE, "timed out: nothing came for 1500 ms, and the answer was not complete");
    ask(s, &g, &(struct http_request){.url = plain("/slow"), .idle_ms = 1000});
    expect_failure(&g, HTTP_PHASE_EXCHANGE, "timed out: nothing came for 1 s, and no answer came");
    count_of(s, plain("/release"));
    forget(&g);
}

/* A lookup that hangs blocks nothing else: neither the other calls, nor the end of its own. */
static void test_name_that_hangs(void **state)
{
    struct scene *s = *state;
    struct got g = {0}, other = {0};
    ask(s, &g, &(struct http_request){.url = "https://hang.example/", .connect_ms = 50});
    expect_failure(&g, HTTP_PHASE_NAME, "timed out after 50 ms: its name was not found yet");
    assert_int_equal(sem_trywait(&lookup_begun), 0);
    forget(&g);
    begin(s, &g, &(struct http_request){.url = "https://hang.example/"});
    while (sem_trywait(&lookup_begun) != 0)
        loop_turn(s->loop, false);
    begin(s, &other, &(struct http_request){.url = tls("/echo")});
    wait_for(s, &other);
    assert_int_equal(other.status, 200);
    http_cancel(g.call);
    forget(&g);
    begin(s, &g, &(struct http_request){.url = "https://hang.example/"});
    while (sem_trywait(&lookup_begun) != 0)
        loop_turn(s->loop, false);
    http_destroy(s->http);
    s->http = NULL;
    for (int i = 0; i < 3; i++) {
        sem_post(&lookup_go);
        sem_wait(&lookup_over);
    }
    assert_int_equal(g.times, 0);
    forget(&other);
}

/* ---- how often ---- */

/* If a kept connection ends without an answer, libcurl sends again: only requests that may be repeated. */
static void test_sent_once(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    struct {
        const char *method;
        bool repeatable;
        int least, most;
    } cases[] = {{"POST", false, 1, 1},
                 {"PATCH", false, 1, 1},
                 {"POST", true, 2, 6},
                 {"GET", false, 2, 6},
                 {"DELETE", false, 2, 6}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[64], hits[64];
        snprintf(path, sizeof(path), "/drop-reused?%zu", i);
        snprintf(hits, sizeof(hits), "/hits?/drop-reused");
        int before = count_of(s, plain(hits));
        ask(s, &g,
            &(struct http_request){.method = cases[i].method, .repeatable = cases[i].repeatable, .url = plain(path)});
        assert_int_equal(g.status, 200);
        assert_in_range(count_of(s, plain(hits)) - before, cases[i].least, cases[i].most);
        before = count_of(s, plain("/hits?/drop"));
        ask(s, &g,
            &(struct http_request){
                .method = cases[i].method, .repeatable = cases[i].repeatable, .url = plain("/drop")});
        expect_failure(&g, HTTP_PHASE_EXCHANGE, "broke off before an answer");
        assert_in_range(count_of(s, plain("/hits?/drop")) - before, cases[i].least, cases[i].most);
    }
    forget(&g);
}

static void test_connections_are_kept(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    const char *urls[] = {plain("/connections"), tls("/connections")};
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        int before = count_of(s, urls[i]);
        for (int n = 0; n < 10; n++)
            assert_int_equal(count_of(s, urls[i]), before);
        ask(s, &g, &(struct http_request){.method = "POST", .url = urls[i]});
        assert_int_equal(atoi(g.body.data), before + 1);
        assert_int_equal(count_of(s, urls[i]), before + 1);
    }
    forget(&g);
}

static void test_many_at_once(void **state)
{
    enum { MANY = 200 };
    struct scene *s = *state;
    struct error err = ERROR_INIT;
    struct http_options options = {.ca_file = in_folder("ca.pem"), .at_once = MANY};
    struct got *many = xcalloc(MANY, sizeof(*many));
    http_destroy(s->http);
    s->http = http_create(s->loop, &options, &err);
    struct http *few = http_create(s->loop, &(struct http_options){.ca_file = options.ca_file, .at_once = 8}, &err);
    /* All are sent before one is answered. */
    for (int i = 0; i < MANY; i++)
        begin(s, &many[i], &(struct http_request){.url = plain("/slow/many")});
    while (true) {
        struct got g = {0};
        g.call = http_send(few, &(struct http_request){.method = "GET", .url = plain("/hits?/slow/many")}, NULL, done,
                           &g, &err);
        wait_for(s, &g);
        int hits = atoi(g.body.data);
        forget(&g);
        if (hits >= MANY)
            break;
    }
    struct got release = {0};
    release.call =
        http_send(few, &(struct http_request){.method = "GET", .url = plain("/release")}, NULL, done, &release, &err);
    drain(s);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(many[i].status, 200);
        forget(&many[i]);
    }
    int before = count_of(s, tls("/connections"));
    struct http *kept = s->http;
    s->http = few;
    for (int i = 0; i < MANY; i++)
        begin(s, &many[i], &(struct http_request){.url = tls("/echo")});
    drain(s);
    s->http = kept;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(many[i].status, 200);
        forget(&many[i]);
    }
    assert_in_range(count_of(s, tls("/connections")) - before, 1, 8);
    http_destroy(few);
    free(many);
    forget(&release);
}

static char order[64];

static void note(void *arg, const struct http_reply *reply, const struct http_failure *failure)
{
    (void)failure;
    assert_non_null(reply);
    order[strlen(order)] = (char)(intptr_t)arg;
    loop_stop(scene.loop);
}

static struct http_call *of_group(struct scene *s, const char *group, uint64_t interval_ms, char name)
{
    return http_send(
        s->http,
        &(struct http_request){.method = "GET", .url = plain("/echo"), .group = group, .interval_ms = interval_ms},
        NULL, note, (void *)(intptr_t)name, NULL);
}

static void test_throttle(void **state)
{
    struct scene *s = *state;
    memset(order, 0, sizeof(order));
    for (int i = 0; i < 5; i++)
        assert_non_null(of_group(s, "a", 2, (char)('1' + i)));
    while (strlen(order) < 5)
        loop_run(s->loop);
    /* A request that waits for an hour delays none of another group, and none without a group. */
    memset(order, 0, sizeof(order));
    of_group(s, "b", 3600000, 'x');
    struct http_call *late = of_group(s, "b", 3600000, 'y');
    loop_turn(s->loop, false);
    of_group(s, "c", 3600000, 'z');
    of_group(s, NULL, 0, '0');
    while (strlen(order) < 3)
        loop_run(s->loop);
    assert_null(strchr(order, 'y'));
    http_cancel(late);
    drain(s);
    memset(order, 0, sizeof(order));
    http_hold(s->http, "d", 3600000);
    late = of_group(s, "d", 0, 'y');
    http_hold(s->http, "e", 5);
    http_hold(s->http, "e", 1);
    of_group(s, "e", 0, 'z');
    while (strlen(order) < 1)
        loop_run(s->loop);
    assert_string_equal(order, "z");
    http_cancel(late);
    drain(s);
}

/* ---- a cancel at every point ---- */

static void cancel_after_turns(struct scene *s, const struct http_request *r, bool stream, bool destroy)
{
    struct error err = ERROR_INIT;
    for (int turns = 0;; turns++) {
        struct got g = {.stream = stream};
        begin(s, &g, r);
        for (int i = 0; i < turns && !g.times; i++)
            loop_turn(s->loop, true);
        int times = g.times;
        if (destroy) {
            http_destroy(s->http);
            s->http = http_create(s->loop, &(struct http_options){.ca_file = in_folder("ca.pem")}, &err);
        } else if (g.call) {
            http_cancel(g.call);
        }
        drain(s);
        assert_int_equal(g.times, times);
        forget(&g);
        if (times)
            return;
        assert_in_range(turns, 0, 10000);
    }
}

static void test_cancel_at_every_turn(void **state)
{
    struct scene *s = *state;
    struct http_header typed = {"Content-Type", "x/y"};
    char *body = xcalloc(1, 500000);
    struct http_request requests[] = {
        {.url = plain("/echo")},
        {.url = tls("/echo")},
        {.url = plain("/chunked/20/30000")},
        {.url = tls("/chunked/20/30000"), .idle_ms = 60000},
        {.url = plain("/around/3")},
        {.url = "http://docker/echo", .unix_socket = in_folder("socket")},
        {.method = "POST", .url = tls("/echo"), .headers = &typed, .header_count = 1, .body = body, .body_len = 500000},
        {.url = plain("/half/close")},
        {.url = "https://nobody.example/"},
        {.url = url_of("https", server.expired, "/")},
    };
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        cancel_after_turns(s, &requests[i], i % 2 == 0, false);
        cancel_after_turns(s, &requests[i], i % 2 == 1, true);
    }
    free(body);
}

enum deed { CANCEL_SELF, CANCEL_OTHER, CANCEL_WAITING, SEND_ANOTHER, DESTROY, DEEDS };
struct actor {
    struct scene *scene;
    enum deed deed;
    bool in_sink;
    int sunk, ended, others;
    struct http_call *self, *other, *waiting;
};

static void another_ended(void *arg, const struct http_reply *reply, const struct http_failure *failure)
{
    struct actor *a = arg;
    (void)failure;
    a->others++;
    loop_stop(scene.loop);
    assert_non_null(reply);
}

static void act(struct actor *a)
{
    switch (a->deed) {
    case CANCEL_SELF:
        http_cancel(a->self);
        break;
    case CANCEL_OTHER:
        http_cancel(a->other);
        break;
    case CANCEL_WAITING:
        http_cancel(a->waiting);
        break;
    case SEND_ANOTHER:
        assert_non_null(http_send(a->scene->http, &(struct http_request){.method = "GET", .url = plain("/echo")}, NULL,
                                  another_ended, a, NULL));
        break;
    case DESTROY:
        http_destroy(a->scene->http);
        a->scene->http = NULL;
        break;
    case DEEDS:
        break;
    }
}

static void actor_sink(void *arg, const void *data, size_t len)
{
    struct actor *a = arg;
    (void)data;
    (void)len;
    loop_stop(scene.loop);
    if (a->sunk++ == 0 && a->in_sink)
        act(a);
}

static void actor_done(void *arg, const struct http_reply *reply, const struct http_failure *failure)
{
    struct actor *a = arg;
    loop_stop(scene.loop);
    if (a->ended++ == 0 && !a->in_sink)
        act(a);
    /* The earlier call is not affected. */
    assert_true(reply || failure);
    assert_in_range(strlen(reply ? reply->body : failure->error.text), 0, 2000000);
}

static void test_deeds_within_callbacks(void **state)
{
    struct scene *s = *state;
    struct error err = ERROR_INIT;
    for (int i = 0; i < 2 * DEEDS; i++) {
        struct actor a = {.scene = s, .deed = (enum deed)(i / 2), .in_sink = i % 2};
        http_destroy(s->http);
        s->http = http_create(s->loop, &(struct http_options){.ca_file = in_folder("ca.pem"), .at_once = 2}, &err);
        struct http_request r = {.method = "GET", .url = tls("/chunked/40/30000")};
        char slow[32], release[64];
        snprintf(slow, sizeof(slow), "/slow/%d", i);
        snprintf(release, sizeof(release), "/release?%s", slow);
        struct http_request other = {.method = "GET", .url = plain(slow)};
        a.other = http_send(s->http, &other, NULL, another_ended, &a, NULL);
        a.self = http_send(s->http, &r, actor_sink, actor_done, &a, NULL);
        a.waiting = http_send(s->http, &(struct http_request){.method = "GET", .url = tls("/echo")}, NULL,
                              another_ended, &a, NULL);
        while (!a.ended && !(a.deed == DESTROY && !s->http) && !(a.deed == CANCEL_SELF && a.in_sink && a.sunk))
            loop_run(s->loop);
        if (a.deed == DESTROY) {
            drain(s);
            assert_int_equal(a.others, 0);
            continue;
        }
        if (a.deed != CANCEL_OTHER)
            assert_non_null(http_send(s->http, &(struct http_request){.method = "GET", .url = plain(release)}, NULL,
                                      another_ended, &a, NULL));
        drain(s);
        assert_int_equal(a.ended, a.deed == CANCEL_SELF && a.in_sink ? 0 : 1);
        int want[] = {[CANCEL_SELF] = 3, [CANCEL_OTHER] = 1, [CANCEL_WAITING] = 2, [SEND_ANOTHER] = 4, [DEEDS] = 3};
        assert_int_equal(a.others, want[a.deed]);
    }
}

/* ---- HTTP/2 ---- */

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    close(fd);
    return ntohs(at.sin_port);
}

static pid_t start_http2(int port, int *ret_in)
{
    char number[16];
    int in[2];
    snprintf(number, sizeof(number), "%d", port);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("PATH", "/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin", 1);
        dup2(in[0], 0);
        execlp("nghttpd", "nghttpd", "-a", "127.0.0.1", "-d", server.folder, number, in_folder("good.key"),
               in_folder("good.pem"), NULL);
        _exit(127);
    }
    close(in[0]);
    *ret_in = in[1];
    return pid;
}

static void test_http2(void **state)
{
    enum { MANY = 200, BYTES = 300000 };
    struct scene *s = *state;
    struct got g = {0}, *many = xcalloc(MANY, sizeof(*many));
    int in = -1, port = free_port(), status = 0;
    char *bytes = xcalloc(1, BYTES);
    FILE *f = fopen(in_folder("bytes"), "w");
    assert_int_equal(fwrite(bytes, 1, BYTES, f), BYTES);
    fclose(f);
    free(bytes);
    pid_t pid = start_http2(port, &in);
    struct http_request r = {.method = "GET", .url = url_of("https", port, "/bytes"), .reply_max = BYTES};
    do { /* until it listens */
        ask(s, &g, &r);
        usleep(10000);
    } while (!g.status && g.failure.phase == HTTP_PHASE_CONNECT && waitpid(pid, &status, WNOHANG) == 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        close(in);
        free(many);
        forget(&g);
        skip();
    }
    assert_int_equal(g.status, 200);
    assert_int_equal(g.version, 20);
    assert_int_equal(g.body.len, BYTES + 1);
    /* On streams of the existing connections: some are cancelled, some have too much data. */
    for (int i = 0; i < MANY; i++) {
        r.reply_max = i % 7 == 3 ? 1000 : BYTES;
        many[i].stream = i % 2;
        begin(s, &many[i], &r);
    }
    for (int n = 0; n < 20; n++)
        loop_turn(s->loop, true);
    for (int i = 0; i < MANY; i += 5) {
        if (many[i].call)
            http_cancel(many[i].call);
    }
    drain(s);
    for (int i = 0; i < MANY; i++) {
        size_t len = many[i].stream ? many[i].sunk.len : many[i].body.len - 1;
        if (i % 7 == 3 && many[i].times)
            expect_failure(&many[i], HTTP_PHASE_TOO_LARGE, "larger than 1000 bytes");
        else if (many[i].times)
            assert_int_equal(len, BYTES);
        else
            assert_int_equal(i % 5, 0);
        forget(&many[i]);
    }
    ask(s, &g, &(struct http_request){.url = url_of("https", port, "/none")});
    assert_int_equal(g.status, 404);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    ask(s, &g, &r);
    expect_failure(&g, HTTP_PHASE_CONNECT, "Connection refused");
    close(in);
    free(many);
    forget(&g);
}

/* ---- descriptors ---- */

/* A child that is started at any time inherits none of them. */
static void test_children_inherit_nothing(void **state)
{
    struct scene *s = *state;
    struct got g = {0};
    begin(s, &g, &(struct http_request){.url = tls("/slow/alone")});
    struct got seen = {0};
    begin(s, &seen, &(struct http_request){.url = plain("/seen?/slow/alone")});
    wait_for(s, &seen);
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        int fd = atoi(e->d_name), flags = fcntl(fd, F_GETFD);
        char target[256] = "", link[64];
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof(target) - 1) > 0 && str_starts(target, "socket:") && fd > 2 &&
            !(flags & FD_CLOEXEC))
            fail_msg("descriptor %d (%s) is for children, too", fd, target);
    }
    closedir(d);
    http_cancel(g.call);
    forget(&g);
    forget(&seen);
    drain(s);
}

int main(void)
{
    sem_init(&lookup_begun, 0, 0);
    sem_init(&lookup_go, 0, 0);
    sem_init(&lookup_over, 0, 0);
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_broken_off),
        TEST(test_not_reached),
        TEST(test_time_limits),
        TEST(test_name_that_hangs),
        TEST(test_sent_once),
        TEST(test_connections_are_kept),
        TEST(test_many_at_once),
        TEST(test_throttle),
        TEST(test_cancel_at_every_turn),
        TEST(test_deeds_within_callbacks),
        TEST(test_http2),
        TEST(test_children_inherit_nothing),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
