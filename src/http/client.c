/*
 * libcurl's multi interface on the loop. libcurl says which descriptors and which time it waits for (watch_socket,
 * watch_time), and is told when one is ready. No callback of our users runs inside libcurl, which forbids calls to
 * itself there: data is stored with its call, the call becomes due, and deliver reports it once libcurl has returned.
 * So any callback may cancel, send and destroy.
 *
 * A descriptor is never watched after it was closed, because libcurl closes its sockets through close_socket. Otherwise
 * libuv would abort the process, or watch another descriptor with the same number.
 */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct watch {
    struct http *http;
    curl_socket_t fd;
    struct loop_fd *watcher;
};

static void deliver(struct http *h);

/* ---- descriptors and time ---- */

static void unwatch(struct http *h, curl_socket_t fd)
{
    struct watch *w = (size_t)fd < h->watch_cap ? h->watches[fd] : NULL;
    if (!w)
        return;
    h->watches[fd] = NULL;
    loop_fd_destroy(w->watcher);
    free(w);
}

static void socket_ready(void *arg, unsigned events)
{
    struct watch *w = arg; /* may be gone when libcurl returns */
    struct http *h = w->http;
    int running = 0;
    int bits = (events & LOOP_READ ? CURL_CSELECT_IN : 0) | (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0);
    http_curl.multi_socket_action(h->multi, w->fd, bits, &running);
    deliver(h);
}

static struct watch *watch_of(struct http *h, curl_socket_t fd)
{
    size_t at = (size_t)fd;
    if (at >= h->watch_cap) {
        size_t cap = at + 64;
        h->watches = xreallocarray(h->watches, cap, sizeof(*h->watches));
        memset(h->watches + h->watch_cap, 0, (cap - h->watch_cap) * sizeof(*h->watches));
        h->watch_cap = cap;
    }
    if (h->watches[at])
        return h->watches[at];
    struct watch *w = xcalloc(1, sizeof(*w));
    *w = (struct watch){.http = h, .fd = fd};
    w->watcher = loop_fd_create(h->loop, fd, socket_ready, w, NULL);
    if (!w->watcher) { /* the descriptor cannot be polled: the request's time limit ends it */
        free(w);
        return NULL;
    }
    /* libcurl makes the sockets of name lookups itself, without our callback. */
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return h->watches[at] = w;
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *assigned)
{
    struct http *h = arg;
    (void)easy;
    (void)assigned;
    if (what == CURL_POLL_REMOVE) {
        unwatch(h, fd);
        return 0;
    }
    struct watch *w = watch_of(h, fd);
    if (w)
        loop_fd_set(w->watcher, (what & CURL_POLL_IN ? LOOP_READ : 0u) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0u));
    return 0;
}

static int watch_time(CURLM *multi, long after_ms, void *arg)
{
    struct http *h = arg;
    (void)multi;
    if (after_ms < 0)
        loop_timer_stop(h->timer);
    else
        loop_timer_start(h->timer, (uint64_t)after_ms);
    return 0;
}

static void time_came(void *arg)
{
    struct http *h = arg;
    int running = 0;
    http_curl.multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    deliver(h);
}

/* Children must not inherit a connection. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)arg;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int close_socket(void *arg, curl_socket_t fd)
{
    unwatch(arg, fd);
    return close(fd);
}

/* ---- calls ---- */

void http_call_due(struct http_call *c)
{
    struct http *h = c->http;
    if (c->due)
        return;
    c->due = true;
    c->due_next = NULL;
    if (h->due_last)
        h->due_last->due_next = c;
    else
        h->due_first = c;
    h->due_last = c;
}

static void not_due(struct http_call *c)
{
    struct http *h = c->http;
    if (!c->due)
        return;
    struct http_call **at = &h->due_first, *before = NULL;
    while (*at != c) {
        before = *at;
        at = &before->due_next;
    }
    *at = c->due_next;
    if (h->due_last == c)
        h->due_last = before;
    c->due = false;
}

static void unlink_call(struct http_call *c)
{
    struct http *h = c->http;
    *(c->prev ? &c->prev->next : &h->first) = c->next;
    *(c->next ? &c->next->prev : &h->last) = c->prev;
    c->prev = c->next = NULL;
}

static void free_call(struct http_call *c)
{
    loop_timer_destroy(c->idle);
    http_curl.easy_cleanup(c->easy);
    http_curl.slist_free_all(c->headers);
    http_curl.url_cleanup(c->url);
    http_answer_clear(&c->answer);
    free(c->method);
    free(c->group);
    free(c->label);
    free(c->host);
    free(c->port);
    free(c->unix_socket);
    free(c->ca_file);
    free(c->cert_file);
    free(c->body);
    free(c);
}

/*
 * libcurl 7.88: all data of an HTTP/2 connection goes through one buffer, and a stream that cannot take its part holds
 * up the rest. When such a stream ends (even successfully: its last byte has come, but the frame that says so is still
 * in the buffer), libcurl does not resume the others (http2_data_done in its lib/http2.c): they wait for network data
 * that came long ago. So we wake the other streams soon.
 */
static void take_out(struct http_call *c)
{
    struct http *h = c->http;
    long version = CURL_HTTP_VERSION_NONE; /* until an answer has begun */
    http_curl.easy_getinfo(c->easy, CURLINFO_HTTP_VERSION, &version);
    http_curl.multi_remove_handle(h->multi, c->easy);
    h->running--;
    if (version == CURL_HTTP_VERSION_NONE || version >= CURL_HTTP_VERSION_2_0)
        h->stir = true;
    h->stir = h->stir && h->running;
}

/* Treats each connection as readable. Watches may be removed and added meanwhile. */
static void stir(struct http *h)
{
    int running = 0;
    h->stir = false;
    for (size_t i = 0; i < h->watch_cap; i++) {
        if (h->watches[i])
            http_curl.multi_socket_action(h->multi, (curl_socket_t)i, CURL_CSELECT_IN, &running);
    }
}

void http_call_end(struct http_call *c, CURLcode code)
{
    take_out(c);
    if (c->idle)
        loop_timer_stop(c->idle);
    c->state = CALL_ENDED;
    c->code = code;
    http_call_due(c);
    if (c->http->waiting || c->http->stir)
        http_queue_look(c->http);
}

static void drop(struct http_call *c)
{
    struct http *h = c->http;
    if (c->state == CALL_WAITS)
        h->waiting--;
    if (c->state == CALL_RUNS)
        take_out(c);
    if (h->waiting || h->stir)
        http_queue_look(h);
    else
        loop_timer_stop(h->turn);
    not_due(c);
    unlink_call(c);
    c->state = CALL_DONE;
    http_curl.easy_cleanup(c->easy);
    c->easy = NULL;
    if (!c->busy)
        free_call(c);
}

void http_cancel(struct http_call *call)
{
    if (call->state != CALL_DONE)
        drop(call);
}

/* Follows a GET's redirect within the same origin; true if it does. */
static bool redirected(struct http_call *c, const char **ret_why)
{
    *ret_why = NULL;
    int status = http_answer_status(c);
    char *to = NULL;
    http_curl.easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to || status == 304 || status == 300)
        return false;
    if (!str_eq(c->method, "GET") && !str_eq(c->method, "HEAD")) {
        *ret_why = "only a GET is";
        return false;
    }
    CURLU *next = http_curl.url();
    if (!next || http_curl.url_set(next, CURLUPART_URL, to, 0) != CURLUE_OK || !http_same_origin(c->url, next))
        *ret_why = "that is elsewhere";
    else if (c->redirects++ == HTTP_REDIRECTS_MAX)
        *ret_why = "there were too many before it";
    if (*ret_why) {
        http_curl.url_cleanup(next);
        return false;
    }
    http_curl.easy_setopt(c->easy, CURLOPT_CURLU, next);
    http_curl.url_cleanup(c->url);
    c->url = next;
    c->sent = true;
    http_answer_clear(&c->answer);
    c->state = CALL_RUNS;
    c->http->running++;
    http_request_limits(c);
    if (c->idle)
        loop_timer_start(c->idle, c->idle_ms);
    if (http_curl.multi_add_handle(c->http->multi, c->easy) != CURLM_OK)
        http_call_end(c, CURLE_OUT_OF_MEMORY);
    return true;
}

static void tell_end(struct http_call *c)
{
    const char *why = NULL;
    if (c->code == CURLE_OK && redirected(c, &why)) {
        c->busy = false;
        return;
    }
    struct http_header headers[HTTP_HEADERS_MAX];
    struct http_reply reply;
    struct http_failure failure;
    bool whole = c->code == CURLE_OK && !why;
    if (whole)
        http_answer_reply(c, headers, &reply);
    else
        http_failure_set(c, why, &failure);
    http_curl.easy_cleanup(c->easy);
    c->easy = NULL;
    c->state = CALL_DONE;
    unlink_call(c);
    c->done(c->arg, whole ? &reply : NULL, whole ? NULL : &failure);
    free_call(c);
}

/* First the data for the sink, then the end. */
static void tell(struct http_call *c)
{
    c->busy = true;
    struct buf *body = &c->answer.body;
    if (c->sink && body->len && http_answer_status(c) / 100 == 2) {
        c->sink(c->arg, body->data, body->len);
        if (c->state == CALL_DONE) {
            free_call(c);
            return;
        }
        buf_clear(body);
    }
    if (c->state == CALL_ENDED)
        tell_end(c);
    else
        c->busy = false;
}

static void take_ended(struct http *h)
{
    CURLMsg *message = NULL;
    int left = 0;
    while ((message = http_curl.multi_info_read(h->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        struct http_call *c = NULL;
        CURLcode code = message->data.result; /* the message is freed when its handle is removed */
        http_curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &c);
        http_call_end(c, code);
    }
}

static void free_client(struct http *h)
{
    free(h->watches);
    free(h->ca_file);
    free(h);
}

static void deliver(struct http *h)
{
    h->depth++;
    take_ended(h);
    while (!h->gone && h->due_first) {
        struct http_call *c = h->due_first;
        not_due(c);
        tell(c);
    }
    h->depth--;
    if (h->gone && !h->depth)
        free_client(h);
}

static void turn_came(void *arg)
{
    struct http *h = arg;
    if (h->stir)
        stir(h);
    http_queue_begin(h);
    deliver(h);
}

/* ---- the client ---- */

/* Children must not inherit the sockets that wake libcurl from other threads either, but libcurl gives no access to
 * them. */
static CURLM *multi_create(void)
{
    enum { NEAR = 8 };
    int low = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    bool open[NEAR] = {false};
    if (low >= 0)
        close(low);
    for (int i = 1; low >= 0 && i < NEAR; i++)
        open[i] = fcntl(low + i, F_GETFD) >= 0;
    CURLM *multi = http_curl.multi_init();
    for (int i = 0; low >= 0 && i < NEAR; i++) {
        if (!open[i] && fcntl(low + i, F_GETFD) == 0)
            fcntl(low + i, F_SETFD, FD_CLOEXEC);
    }
    return multi;
}

struct http *http_create(struct loop *loop, const struct http_options *options, struct error *err)
{
    char *ca_file = NULL;
    if (http_library_load(err) != 0 || http_ca_file(options ? options->ca_file : NULL, &ca_file, err) != 0)
        return NULL;
    CURLM *multi = NULL;
    if (http_curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(multi = multi_create()) ||
        !(http_curl.version_info(CURLVERSION_NOW)->features & CURL_VERSION_SSL)) {
        http_curl.multi_cleanup(multi);
        free(ca_file);
        error_set(err, ERROR_INTERNAL, "libcurl cannot be used here: no TLS, or no memory");
        return NULL;
    }
    struct http *h = xcalloc(1, sizeof(*h));
    h->loop = loop;
    h->ca_file = ca_file;
    h->at_once = options && options->at_once ? options->at_once : HTTP_AT_ONCE_DEFAULT;
    h->multi = multi;
    h->timer = loop_timer_create(loop, time_came, h);
    h->turn = loop_timer_create(loop, turn_came, h);
    http_curl.multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    http_curl.multi_setopt(multi, CURLMOPT_SOCKETDATA, h);
    http_curl.multi_setopt(multi, CURLMOPT_TIMERFUNCTION, watch_time);
    http_curl.multi_setopt(multi, CURLMOPT_TIMERDATA, h);
    http_curl.multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)h->at_once);
    return h;
}

void http_destroy(struct http *http)
{
    if (!http || http->gone)
        return;
    while (http->first)
        drop(http->first);
    http->gone = true;
    http_queue_free(http);
    http_curl.multi_cleanup(http->multi); /* closes kept connections, by close_socket */
    for (size_t i = 0; i < http->watch_cap; i++)
        unwatch(http, (curl_socket_t)i);
    loop_timer_destroy(http->timer);
    loop_timer_destroy(http->turn);
    /* No curl_global_cleanup: a thread may still be looking up a name for a cancelled call. */
    if (!http->depth)
        free_client(http);
}

static void idled(void *arg)
{
    struct http_call *c = arg;
    struct http *h = c->http;
    c->idle_out = true;
    http_call_end(c, CURLE_OPERATION_TIMEDOUT);
    deliver(h);
}

struct http_call *http_send(struct http *http, const struct http_request *request,
                            void (*sink)(void *arg, const void *data, size_t len),
                            void (*done)(void *arg, const struct http_reply *reply, const struct http_failure *failure),
                            void *arg, struct error *err)
{
    if (http->waiting >= HTTP_WAITING_MAX) {
        error_set(err, ERROR_USAGE, "%d HTTP requests wait already", HTTP_WAITING_MAX);
        return NULL;
    }
    struct http_call *c = xcalloc(1, sizeof(*c));
    c->http = http;
    c->sink = sink;
    c->done = done;
    c->arg = arg;
    if (http_check(request, c, err) != 0 || http_request_set(c, request, err) != 0) {
        free_call(c);
        return NULL;
    }
    http_curl.easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    http_curl.easy_setopt(c->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    http_curl.easy_setopt(c->easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    http_curl.easy_setopt(c->easy, CURLOPT_CLOSESOCKETDATA, http);
    http_answer_set(c);
    if (c->idle_ms)
        c->idle = loop_timer_create(http->loop, idled, c);
    http_queue_add(c);
    return c;
}
