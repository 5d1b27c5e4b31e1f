/* Shared by the tests of http: the server of tests/fixtures/http, started once, and requests that run to their end. */
#ifndef HTTP_SCENE_H
#define HTTP_SCENE_H

#include "rhrun/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

struct server {
    pid_t pid;
    int in;
    char folder[64];
    int plain, mute, proxy, tls, wrong, expired, stranger, mutual;
};
static struct server server;

struct scene {
    struct loop *loop;
    struct http *http;
    size_t fds;
};

static struct scene scene;

/* The result of a request. An awaited event stops the loop, because a turn may wait for a much later one. */
struct got {
    struct http_call *call;
    int times, status, version;
    struct buf body, sunk;
    int pieces;
    int64_t retry_after_ms;
    char header[256];    /* of want_header */
    size_t header_count;
    struct http_failure failure;
    const char *want_header;
    bool stream; /* with a sink */
};

static inline void read_ports(FILE *f)
{
    char name[32];
    int port = 0;
    while (fscanf(f, "%31s", name) == 1 && !str_eq(name, "ready")) {
        assert_int_equal(fscanf(f, "%d", &port), 1);
        int *at[] = {&server.plain, &server.mute,     &server.proxy,  &server.tls,   &server.wrong,
                     &server.expired, &server.stranger, &server.mutual};
        const char *names[] = {"plain", "mute", "proxy", "tls", "wrong", "expired", "stranger", "mutual"};
        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
            if (str_eq(names[i], name))
                *at[i] = port;
        }
    }
    assert_true(server.plain && server.mutual);
}

static inline int start_server(void **state)
{
    int in[2], out[2];
    (void)state;
    alarm(300);
    loop_destroy(loop_create()); /* libuv opens once what all loops share */
    static const char *const settings[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",    "ALL_PROXY",
                                           "no_proxy",   "NO_PROXY",    "RHRUN_CA_FILE", "SSL_CERT_FILE"};
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        unsetenv(settings[i]);
    snprintf(server.folder, sizeof(server.folder), "/tmp/rhrun-http-XXXXXX");
    assert_non_null(mkdtemp(server.folder));
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    server.pid = fork();
    if (server.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execlp("python3", "python3", FIXTURES "/http/server.py", server.folder, NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    server.in = in[1];
    FILE *f = fdopen(out[0], "r");
    read_ports(f);
    fclose(f);
    return 0;
}

static inline int stop_server(void **state)
{
    char command[128];
    (void)state;
    close(server.in);
    waitpid(server.pid, NULL, 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", server.folder);
    return system(command);
}

static inline const char *in_folder(const char *name)
{
    static char path[4][128];
    static unsigned next;
    char *at = path[next++ % 4];
    snprintf(at, sizeof(path[0]), "%s/%s", server.folder, name);
    return at;
}

static inline size_t open_fds(void)
{
    size_t count = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static inline int setup(void **state)
{
    struct error err = ERROR_INIT;
    struct http_options options = {.ca_file = in_folder("ca.pem")};
    scene.fds = open_fds();
    scene.loop = loop_create();
    scene.http = http_create(scene.loop, &options, &err);
    assert_non_null(scene.http);
    *state = &scene;
    return 0;
}

static inline int teardown(void **state)
{
    struct scene *s = *state;
    http_destroy(s->http);
    loop_destroy(s->loop);
    /* A thread that looked up a name may still be closing its own. */
    for (int i = 0; i < 5000 && open_fds() != s->fds; i++)
        usleep(1000);
    assert_int_equal(open_fds(), s->fds);
    return 0;
}

static inline void sink(void *arg, const void *data, size_t len)
{
    struct got *g = arg;
    assert_int_equal(g->times, 0);
    g->pieces++;
    loop_stop(scene.loop);
    buf_append(&g->sunk, data, len);
}

static inline void done(void *arg, const struct http_reply *reply, const struct http_failure *failure)
{
    struct got *g = arg;
    g->times++;
    g->call = NULL;
    loop_stop(scene.loop);
    assert_true(!reply != !failure);
    if (failure) {
        g->failure = *failure;
        assert_true(failure->error.code != ERROR_NONE && *failure->error.text);
        return;
    }
    g->status = reply->status;
    g->version = reply->version;
    g->retry_after_ms = reply->retry_after_ms;
    g->header_count = reply->header_count;
    assert_int_equal(strlen(reply->body) <= reply->body_len, true);
    buf_append(&g->body, reply->body, reply->body_len);
    buf_putc(&g->body, '\0');
    const char *value = g->want_header ? http_reply_header(reply, g->want_header) : NULL;
    snprintf(g->header, sizeof(g->header), "%s", value ? value : "");
}

/* Everything but the way it is sent. */
static inline void forget(struct got *g)
{
    buf_free(&g->body);
    buf_free(&g->sunk);
    *g = (struct got){.want_header = g->want_header, .stream = g->stream};
}

static inline void begin(struct scene *s, struct got *g, const struct http_request *r)
{
    struct error err = ERROR_INIT;
    struct http_request with = *r;
    if (!with.method)
        with.method = "GET";
    g->call = http_send(s->http, &with, g->stream ? sink : NULL, done, g, &err);
    if (!g->call)
        fail_msg("%s", err.text);
    assert_int_equal(g->times, 0);
}

/* Until no callback is left. */
static inline void drain(struct scene *s)
{
    while (loop_turn(s->loop, true))
        ;
}

static inline void wait_for(struct scene *s, const struct got *g)
{
    while (!g->times)
        loop_run(s->loop);
}


static inline void ask(struct scene *s, struct got *g, const struct http_request *r)
{
    forget(g);
    begin(s, g, r);
    wait_for(s, g);
    drain(s);
    assert_int_equal(g->times, 1);
}

static inline const char *url_of(const char *scheme, int port, const char *path)
{
    static char url[4][512];
    static unsigned next;
    char *at = url[next++ % 4];
    snprintf(at, sizeof(url[0]), "%s://127.0.0.1:%d%s", scheme, port, path);
    return at;
}

static inline const char *plain(const char *path)
{
    return url_of("http", server.plain, path);
}

static inline const char *tls(const char *path)
{
    return url_of("https", server.tls, path);
}

/* A count of the server: a path's requests, or the connections of a listener, this one included. */
static inline int count_of(struct scene *s, const char *url)
{
    struct got g = {0};
    ask(s, &g, &(struct http_request){.url = url});
    int count = atoi(g.body.data);
    forget(&g);
    return count;
}

static inline void expect_text(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text ? text : "(nothing)");
}

static inline void expect_failure(const struct got *g, enum http_phase phase, const char *part)
{
    if (g->status || g->failure.phase != phase)
        fail_msg("status %d, phase %d: \"%s\"", g->status, (int)g->failure.phase, g->failure.error.text);
    expect_text(g->failure.error.text, part);
}

#endif
