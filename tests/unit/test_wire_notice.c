/*
 * The provider's notice that it takes the machine back, with the built agent and an endpoint on the loopback: it is
 * heard while the workers run, also with no controller connected; and the endpoint's faults never reach the workers.
 */
#include "agent_peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

enum { PATIENCE_MS = 10 * DEADLINE_MS }; /* of workers: longer than any test waits */

enum answer {
    NOTHING,
    NOTICE,
    PIECES, /* a notice that comes in parts, on a connection that stays open */
    /* these are none */
    CLOSES,
    HANGS,
    SLOW,
    GARBAGE,
    HEADER_ONLY,
    HEADER_ENDLESS,
    HUGE_BODY,
    OTHER_STATUS,
    OTHER_BODY,
    REDIRECT,
    ANSWERS
};
struct shared {
    atomic_int answer; /* enum answer */
    atomic_int asked, tokens, strange;
    atomic_bool wants_token, expired;
};
struct endpoint {
    struct shared *shared;
    uint32_t port;
    pid_t pid;
};
struct scene {
    struct peer peer;
    struct endpoint endpoint;
};

#define BODY "{\"action\": \"terminate\", \"time\": \"2026-01-02T03:04:05Z\"}"
#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
#define REQUEST "GET /notice HTTP/1.1\r\nHost: x\r\nConnection: close"
#define TOKEN_REQUEST "PUT /token HTTP/1.1\r\nHost: x\r\nttl: 60\r\nContent-Length: 0\r\nConnection: close"

static int setup(void **state)
{
    (void)state;
    return folder_make("notice");
}

/* ---- the endpoint, a process ---- */

static void nap(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* The same text again and again, until the other side has enough. */
static void send_many(int fd, const char *text, size_t len, int times, long pause_ms)
{
    for (int i = 0; i < times && send(fd, text, len, MSG_NOSIGNAL) > 0; i++)
        if (pause_ms)
            nap(pause_ms);
}

static void say(int fd, const char *text)
{
    send_many(fd, text, strlen(text), 1, 0);
}

static void wait_closed(int fd)
{
    char byte;
    while (read(fd, &byte, 1) > 0)
        ;
}

static void answer(int fd, enum answer how)
{
    static char much[65536];
    memset(much, 'a', sizeof much);
    switch (how) {
    case NOTHING:
        say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        break;
    case NOTICE:
        say(fd, OK_HEAD BODY);
        break;
    case PIECES:
        say(fd, "HTTP/1.1 200 OK\r\n");
        nap(20);
        say(fd, "Content-Type: text/plain\r\n\r\n{\"acti");
        nap(20);
        say(fd, "on\": \"terminate\"}");
        wait_closed(fd);
        break;
    case HANGS:
        wait_closed(fd);
        break;
    case SLOW:
        send_many(fd, "H", 1, INT32_MAX, 10);
        break;
    case GARBAGE:
        send_many(fd, "\0\1\377\r\n\r\n\"action\"", 15, 3, 0);
        break;
    case HEADER_ONLY:
        say(fd, "HTTP/1.1 200 OK\r\nX: \"action\"\r\n");
        break;
    case HEADER_ENDLESS:
        say(fd, "HTTP/1.1 200 OK\r\nX: ");
        send_many(fd, much, sizeof much, INT32_MAX, 0);
        break;
    case HUGE_BODY:
        say(fd, OK_HEAD BODY);
        send_many(fd, much, sizeof much, 160, 0);
        break;
    case OTHER_STATUS:
        say(fd, "HTTP/1.1 500 Internal Server Error\r\n\r\n" BODY);
        break;
    case OTHER_BODY:
        say(fd, OK_HEAD "<html>please log in</html>");
        break;
    case REDIRECT:
        say(fd, "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n" BODY);
        break;
    case CLOSES:
    case ANSWERS:
        break;
    }
}

static void serve_one(struct shared *s, int fd)
{
    char request[2048];
    size_t len = 0;
    ssize_t n;
    request[0] = 0;
    while (!strstr(request, "\r\n\r\n") && len < sizeof request - 1 &&
           (n = read(fd, request + len, sizeof request - 1 - len)) > 0)
        request[len += (size_t)n] = 0;
    if (strcmp(request, TOKEN_REQUEST "\r\n\r\n") == 0) {
        char text[128];
        snprintf(text, sizeof text, OK_HEAD "token-%d==", ++s->tokens);
        say(fd, text);
    } else if (!s->wants_token) {
        s->strange += strcmp(request, REQUEST "\r\n\r\n") != 0;
        answer(fd, (enum answer)s->answer);
        s->asked++;
    } else {
        char wanted[256];
        snprintf(wanted, sizeof wanted, REQUEST "\r\nwith: token-%d==\r\n\r\n", (int)s->tokens);
        s->strange += strcmp(request, wanted) != 0;
        if (s->expired && s->tokens == 1)
            say(fd, "HTTP/1.1 401 Unauthorized\r\n\r\n");
        else
            answer(fd, (enum answer)s->answer);
        s->asked++;
    }
}

static void endpoint_start(struct endpoint *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    e->shared = mmap(NULL, sizeof *e->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(e->shared != MAP_FAILED);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at) | listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    e->port = ntohs(at.sin_port);
    e->pid = fork();
    assert_true(e->pid >= 0);
    while (e->pid == 0) {
        int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (one < 0)
            _exit(1);
        serve_one(e->shared, one);
        close(one);
    }
    close(fd);
}

static void endpoint_stop(struct endpoint *e)
{
    if (e->pid)
        kill(e->pid, SIGKILL);
    if (e->pid)
        waitpid(e->pid, NULL, 0);
    e->pid = 0;
}

static void await_asked(struct endpoint *e, int times)
{
    const int from = e->shared->asked;
    const uint64_t deadline_ns = mono_ns() + DEADLINE_MS * 1000000ull;
    while (e->shared->asked < from + times) {
        assert_true(mono_ns() < deadline_ns);
        nap(2);
    }
}

/* ---- a node with workers ---- */

static void send_launch(struct scene *s, const char *script, uint32_t within_ms)
{
    struct buf b = {0};
    char *argv[] = {(char *)script};
    struct wire_worker worker = {.shell = 1, .argv = {argv, 1}};
    struct wire_run r = {
        .attempt = (char *)ID("1"),
        .slot = (char *)"launch",
        .key = (char *)"k",
        .kind = WIRE_KIND_LAUNCH,
        .flags = WIRE_RUN_ENDS,
        .workers = &worker,
        .worker_count = 1,
        .grace_ms = PATIENCE_MS,
        .notice = {.who = (char *)"Small Cloud",
                   .address = INADDR_LOOPBACK,
                   .port = s->endpoint.port,
                   .token = (char *)(s->endpoint.shared->wants_token ? TOKEN_REQUEST : ""),
                   .request = (char *)(s->endpoint.shared->wants_token ? REQUEST "\r\nwith: " : REQUEST),
                   .match = (char *)"*\"action\"*",
                   .every_ms = WIRE_NOTICE_EVERY_MIN_MS,
                   .within_ms = within_ms},
        .log_limit_bytes = 1 << 20};
    wire_put_run(&b, &r);
    send_buf(&s->peer, &b);
    expect_started(&s->peer, ID("1"));
    while (!strstr(output_text(&s->peer), "begun\n")) {
        assert_int_equal(peer_frame(&s->peer), WIRE_OUTPUT);
        take_output(&s->peer);
    }
}

#define WAITS "mkfifo go 2>/dev/null; echo begun; read x <>go; echo went on"
#define AT_TERM "trap 'echo told; exit 7' TERM; echo begun; while :; do sleep 1000 & wait $!; done"
#define DEAF "trap '' TERM; echo begun; while :; do sleep 1000; done"

static void scene_open(struct scene *s, enum answer first)
{
    *s = (struct scene){0};
    endpoint_start(&s->endpoint);
    s->endpoint.shared->answer = (int)first;
    peer_open(&s->peer, WIRE_OWN, OWNER_A);
}

/* The process that asks: the one with the attempt's folder open, and its name. */
static bool somebody_asks(struct scene *s)
{
    DIR *proc = opendir("/proc");
    bool found = false;
    for (struct dirent *e; proc && !found && (e = readdir(proc));) {
        char path[300], name[32] = "", dir[512] = "";
        snprintf(path, sizeof path, "/proc/%.20s/comm", e->d_name);
        FILE *f = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (f && !fgets(name, sizeof name, f))
            name[0] = 0;
        if (f)
            fclose(f);
        snprintf(path, sizeof path, "/proc/%.20s/fd/3", e->d_name);
        if (strcmp(name, "rhrun-notice\n") == 0 && readlink(path, dir, sizeof dir - 1) > 0)
            found = str_starts(dir, s->peer.facts.base_dir);
    }
    if (proc)
        closedir(proc);
    return found;
}

static void scene_close(struct scene *s)
{
    const uint64_t deadline_ns = mono_ns() + DEADLINE_MS * 1000000ull;
    while (somebody_asks(s)) {
        assert_true(mono_ns() < deadline_ns);
        nap(2);
    }
    assert_int_equal(s->endpoint.shared->strange, 0);
    peer_close(&s->peer);
    endpoint_stop(&s->endpoint);
    munmap(s->endpoint.shared, sizeof *s->endpoint.shared);
}

static void assert_taken_back(const struct wire_record *end, const char *said)
{
    assert_int_equal(end->state, WIRE_STATE_ENDED);
    assert_int_equal(end->cause, WIRE_CAUSE_PREEMPTED);
    assert_int_equal(end->value, 0);
    assert_true(end->cause_rank == WIRE_NO_RANK);
    assert_int_equal(end->stop_requested, 0);
    if (!strstr(end->tail, said))
        fail_msg("\"%s\" is not in \"%s\"", said, end->tail);
}

/* ---- a notice ---- */

static void test_a_notice_ends_the_workers_in_order(void **state)
{
    static const enum answer answers[] = {NOTICE, PIECES};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct scene s;
        scene_open(&s, NOTHING);
        send_launch(&s, AT_TERM, PATIENCE_MS);
        await_asked(&s.endpoint, 3);
        s.endpoint.shared->answer = (int)answers[i];
        struct wire_record end = expect_record(&s.peer, WIRE_EXIT);
        assert_taken_back(&end, "rhrun: Small Cloud takes this machine back: {\"action\": \"terminate\"");
        assert_int_equal(end.worker_count, 1);
        assert_int_equal(end.workers[0].value, 7);
        assert_non_null(strstr(output_text(&s.peer), "told\n"));
        scene_close(&s);
        folder_remove(NULL);
        assert_int_equal(setup(NULL), 0);
    }
}

/* The grace of the job is longer than the machine's remaining life. */
static void test_workers_that_stay_are_killed_in_time(void **state)
{
    struct scene s;
    (void)state;
    scene_open(&s, NOTHING);
    send_launch(&s, DEAF, WIRE_NOTICE_RESERVE_MS + 300);
    s.endpoint.shared->answer = NOTICE;
    struct wire_record end = expect_record(&s.peer, WIRE_EXIT);
    assert_taken_back(&end, "takes this machine back");
    assert_int_equal(end.workers[0].value, SIGKILL);
    scene_close(&s);
}

static void test_a_token_goes_along(void **state)
{
    struct scene s;
    (void)state;
    scene_open(&s, NOTHING);
    s.endpoint.shared->wants_token = true;
    send_launch(&s, AT_TERM, PATIENCE_MS);
    await_asked(&s.endpoint, 3);
    assert_int_equal(s.endpoint.shared->tokens, 1); /* it serves again and again */
    s.endpoint.shared->expired = true;
    await_asked(&s.endpoint, 3);
    assert_int_equal(s.endpoint.shared->tokens, 2);
    s.endpoint.shared->answer = NOTICE;
    struct wire_record end = expect_record(&s.peer, WIRE_EXIT);
    assert_taken_back(&end, "takes this machine back");
    scene_close(&s);
}

/* The controller was killed before, and the next one is told. */
static void test_nobody_is_connected(void **state)
{
    struct scene s;
    (void)state;
    scene_open(&s, NOTHING);
    send_launch(&s, AT_TERM, PATIENCE_MS);
    await_asked(&s.endpoint, 1);
    kill(s.peer.pid, SIGKILL);
    assert_int_equal(peer_wait(&s.peer), 128 + SIGKILL);
    peer_free(&s.peer);
    s.endpoint.shared->answer = NOTICE;
    peer_open(&s.peer, WIRE_OWN, OWNER_A);
    struct wire_record record = {0};
    const uint64_t deadline_ns = mono_ns() + DEADLINE_MS * 1000000ull;
    for (uint64_t token = 1; record.state != WIRE_STATE_ENDED; token++) {
        assert_true(mono_ns() < deadline_ns);
        send_token(&s.peer, WIRE_LIST, token);
        record = expect_record(&s.peer, WIRE_RECORD);
        expect(&s.peer, WIRE_LISTED);
        nap(10);
    }
    assert_taken_back(&record, "takes this machine back");
    scene_close(&s);
}

/* ---- no notice ---- */

static void go_on_and_end_well(struct scene *s)
{
    int fd = open(arena_printf(s->peer.arena, "%s/go", s->peer.facts.work_dir), O_RDWR | O_CLOEXEC);
    assert_int_equal(write(fd, "go\n", 3), 3);
    struct wire_record end = expect_record(&s->peer, WIRE_EXIT);
    assert_true(wire_record_success(&end));
    assert_string_equal(output_text(&s->peer), "begun\nwent on\n");
    close(fd);
}

static void test_whatever_the_endpoint_does(void **state)
{
    (void)state;
    for (enum answer a = CLOSES; a < ANSWERS; a++) {
        struct scene s;
        scene_open(&s, a);
        send_launch(&s, WAITS, PATIENCE_MS);
        await_asked(&s.endpoint, 2); /* so it has lived through one, and asks again */
        go_on_and_end_well(&s);
        scene_close(&s);
        folder_remove(NULL);
        assert_int_equal(setup(NULL), 0);
    }
}

static void test_a_token_that_cannot_be_used(void **state)
{
    struct scene s;
    (void)state;
    scene_open(&s, NOTICE);
    endpoint_stop(&s.endpoint); /* its port does not answer */
    s.endpoint.shared->wants_token = true;
    send_launch(&s, WAITS, PATIENCE_MS);
    assert_true(somebody_asks(&s));
    go_on_and_end_well(&s);
    scene_close(&s);
}

/* The asking process holds no lock: the supervisor's death is seen, and then nobody asks any more. */
static void test_the_supervisor_is_killed(void **state)
{
    struct scene s;
    int supervisor = 0;
    (void)state;
    scene_open(&s, NOTHING);
    send_launch(&s, "echo begun; echo $PPID >pid; exec sleep 1000", PATIENCE_MS);
    await_asked(&s.endpoint, 1);
    FILE *f = NULL;
    while (!f || fscanf(f, "%d", &supervisor) != 1) {
        if (f)
            fclose(f);
        f = fopen(arena_printf(s.peer.arena, "%s/pid", s.peer.facts.work_dir), "re");
    }
    fclose(f);
    assert_int_equal(kill(supervisor, SIGKILL), 0);
    struct wire_record end = expect_record(&s.peer, WIRE_EXIT);
    assert_int_equal(end.state, WIRE_STATE_LOST);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_notice_ends_the_workers_in_order, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_workers_that_stay_are_killed_in_time, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_a_token_goes_along, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_nobody_is_connected, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_whatever_the_endpoint_does, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_a_token_that_cannot_be_used, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_the_supervisor_is_killed, setup, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
