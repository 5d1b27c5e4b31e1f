/* Shared by the files of this module: client.c (libcurl on the loop), queue.c (turns and throttles), check.c (the rules
 * of a request), request.c (a request as options of libcurl), answer.c (incoming data), failure.c (messages), library.c
 * (libcurl itself, loaded when the first client is made). */
#ifndef RHRUN_HTTP_INTERNAL_H
#define RHRUN_HTTP_INTERNAL_H

#include "rhrun/http.h"

#include <curl/curl.h>

enum call_state {
    CALL_WAITS, /* waits for its turn; libcurl has not seen it */
    CALL_RUNS,  /* libcurl has it */
    CALL_ENDED, /* libcurl has returned it; done must still be called */
    CALL_DONE,  /* done is running, or the call was cancelled: nothing more is called */
};

/* Lines of an answer, as they come. */
struct answer {
    struct buf lines;                    /* "name\0value\0" ... */
    size_t at[HTTP_HEADERS_MAX];         /* where each begins in lines */
    size_t count, bytes;
    bool complete;                       /* the empty line has come: further lines are trailers */
    struct buf body;
    size_t body_bytes;                   /* those of the sink included */
};

struct http_call {
    struct http *http;
    struct http_call *prev, *next; /* all calls, in the order in which they began */
    struct http_call *due_next;    /* list of the calls that are due */
    bool due;
    bool busy; /* one of its callbacks is running: free it afterwards */
    enum call_state state;

    char *method, *group;
    char *label; /* "GET https://host/path" */
    char *host;  /* as in the URL */
    char *port;
    CURLU *url;
    char *unix_socket;
    char *ca_file, *cert_file;
    char *body;
    size_t reply_max;
    uint64_t interval_ms, connect_ms, whole_ms, idle_ms, deadline_ms;
    void (*sink)(void *arg, const void *data, size_t len);
    void (*done)(void *arg, const struct http_reply *reply, const struct http_failure *failure);
    void *arg;

    CURL *easy; /* from http_send on, so that the secrets are in libcurl's memory alone */
    struct curl_slist *headers;
    struct loop_timer *idle;
    char reason[CURL_ERROR_SIZE]; /* libcurl's words */
    struct answer answer;
    unsigned redirects;
    CURLcode code; /* CALL_ENDED */
    bool sent;     /* the request may have left */
    bool idle_out, too_large, too_many_headers;
};

struct group {
    struct group *next;
    uint64_t from_ms; /* the next one begins then */
    char name[];
};

struct watch;
struct http {
    struct loop *loop;
    CURLM *multi;
    struct loop_timer *timer; /* libcurl's */
    struct loop_timer *turn;  /* ours: a call may begin, or is due */
    bool stir;                /* in that turn: see take_out */
    struct watch **watches;   /* by descriptor */
    size_t watch_cap;
    struct http_call *first, *last;
    struct http_call *due_first, *due_last;
    unsigned waiting, running, at_once;
    struct group *groups;
    char *ca_file; /* NULL only if libcurl knows of none */
    unsigned depth; /* of functions that call callbacks */
    bool gone;
};

/* ---- library.c ---- */
/* All functions of libcurl that are used. */
#define HTTP_CURL_SYMBOLS(X) \
    X(global_init)           \
    X(version_info)          \
    X(getdate)               \
    X(free)                  \
    X(multi_init)            \
    X(multi_cleanup)         \
    X(multi_setopt)          \
    X(multi_add_handle)      \
    X(multi_remove_handle)   \
    X(multi_socket_action)   \
    X(multi_info_read)       \
    X(easy_init)             \
    X(easy_cleanup)          \
    X(easy_setopt)           \
    X(easy_getinfo)          \
    X(easy_strerror)         \
    X(slist_append)          \
    X(slist_free_all)        \
    X(url)                   \
    X(url_cleanup)           \
    X(url_get)               \
    X(url_set)               \
    X(url_strerror)

#define HTTP_CURL_MEMBER(name) __typeof__(&curl_##name) name;
struct http_curl {
    void *handle; /* NULL: not loaded yet. Never given back */
    HTTP_CURL_SYMBOLS(HTTP_CURL_MEMBER)
};
extern struct http_curl http_curl; /* each is called as http_curl.NAME */
/* -1 and err (ERROR_IO): libcurl is not installed, or lacks a function. Once a client exists, libcurl is loaded. */
int http_library_load(struct error *err);

/* ---- client.c ---- */
void http_call_due(struct http_call *c); /* deliver will report it soon */
void http_call_end(struct http_call *c, CURLcode code); /* takes it from libcurl */

/* ---- queue.c ---- */
void http_queue_add(struct http_call *c);
void http_queue_look(struct http *h); /* soon */
void http_queue_begin(struct http *h);  /* begins the calls whose turn it is */
void http_queue_free(struct http *h);

/* ---- check.c ---- */
/* Checks the request, and sets the URL and its short form for messages. -1 and err when the request breaks a rule. */
int http_check(const struct http_request *r, struct http_call *c, struct error *err);
bool http_is_loopback(const char *host);
bool http_same_origin(CURLU *a, CURLU *b);

/* ---- request.c ---- */
int http_request_set(struct http_call *c, const struct http_request *r, struct error *err);
void http_request_limits(struct http_call *c); /* before each round: sets the remaining time */
int http_ca_file(const char *named, char **ret, struct error *err); /* from options and environment */

/* ---- answer.c ---- */
void http_answer_set(struct http_call *c); /* libcurl's callbacks */
void http_answer_clear(struct answer *a);
/* The reply's headers point into a, and stay in `headers`. */
void http_answer_reply(struct http_call *c, struct http_header headers[HTTP_HEADERS_MAX], struct http_reply *ret);
int http_answer_status(const struct http_call *c);

/* ---- failure.c ---- */
/* Why a call got no reply: judged by its code; or, if why_not is given, a redirect was not followed. */
void http_failure_set(const struct http_call *c, const char *why_not, struct http_failure *ret);

#endif
