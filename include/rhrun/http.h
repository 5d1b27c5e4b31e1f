/*
 * http: requests over HTTPS, or over a unix socket, on the loop: one thread, nothing blocks. A thin layer over
 * libcurl's multi interface, so that no other module sees libcurl. The library is loaded by the first http_create.
 *
 * A request is data; it is copied, and a callback gets its answer. This module does not judge a status: every complete
 * answer is a reply, and "failure" means that no complete answer came. A failure says in plain words which phase
 * failed, with the method and the URL's scheme, host and path. No text that this module makes has the URL's query,
 * headers, a body or credentials.
 *
 * A request is sent at most once, unless it may be repeated. libcurl by itself sends a request again when a reused
 * connection ends before the first byte of the answer, even a POST that the server has carried out. So a request that
 * may not be repeated gets a fresh connection (which later requests may reuse).
 *
 * TLS: 1.2 or later, always verified. CA certificates come from exactly one of these, the first that is set: ca_file of
 * the request, ca_file of the options, the file that RHRUN_CA_FILE names, SSL_CERT_FILE, the system's. Proxies: libcurl
 * takes them from the environment: http_proxy (lower case only), https_proxy, HTTPS_PROXY, all_proxy, ALL_PROXY,
 * no_proxy, NO_PROXY. A unix socket, and plain HTTP to this machine, use no proxy. Redirects: a GET or HEAD is
 * redirected at most HTTP_REDIRECTS_MAX times, and only to the same scheme, host and port. Any other redirect is a
 * failure (HTTP_PHASE_REDIRECT), so credentials never reach another server. HTTP/2 is used if a server offers it over
 * TLS. No cookies, no .netrc, no compressed answers.
 */
#ifndef RHRUN_HTTP_H
#define RHRUN_HTTP_H

#include "rhrun/base.h"
#include "rhrun/loop.h"

enum {
    HTTP_URL_MAX = 8192,
    HTTP_BODY_MAX = 1024 * 1024,    /* of a request */
    HTTP_HEADERS_MAX = 100,         /* lines, of a request and of a reply */
    HTTP_HEADER_BYTES_MAX = 65536,  /* all lines together, likewise */
    HTTP_REPLY_DEFAULT = 8 << 20,   /* bytes of an answer's body, unless the request says otherwise */
    HTTP_AT_ONCE_DEFAULT = 64,
    HTTP_WAITING_MAX = 8192,        /* requests that wait to be sent */
    HTTP_GROUP_MAX = 64,            /* bytes of a group's name */
    HTTP_REDIRECTS_MAX = 5,
    HTTP_CONNECT_MS = 15000,        /* limits, unless the request says otherwise */
    HTTP_WHOLE_MS = 60000,
    HTTP_RETRY_AFTER_MAX_MS = 24 * 60 * 60 * 1000,
};
#define HTTP_NEVER UINT64_MAX /* as a time limit: none */

struct http;
struct http_call;

/* libcurl's own version ("8.14.1"). Loads libcurl; NULL and err as for http_create. */
const char *http_library_version(struct error *err);

struct http_options {
    const char *ca_file;  /* PEM; NULL: see above */
    unsigned at_once;     /* requests at the same time, each with at most one connection; 0 = HTTP_AT_ONCE_DEFAULT */
};
/* options may be NULL. NULL and err: libcurl is not installed (ERROR_IO; the hint names its package), a CA file that
 * was named cannot be read (ERROR_IO; err says who named it), or libcurl has no TLS. */
struct http *http_create(struct loop *loop, const struct http_options *options, struct error *err);
/* Cancels calls that are not done. May be called at any time, also within any callback. Takes NULL. */
void http_destroy(struct http *http);

/* ---- a request ---- */
enum http_auth_kind {
    HTTP_AUTH_NONE,
    HTTP_AUTH_BEARER, /* secret: the token */
    HTTP_AUTH_BASIC,  /* name: the user, without a colon; secret: the password */
    HTTP_AUTH_HEADER, /* name: a header's; secret: its value */
    /* AWS Signature Version 4 by libcurl (CURLOPT_AWS_SIGV4): name: the access key's id; secret: the secret key; region
     * and service; session (may be NULL) goes into X-Amz-Security-Token and is signed. libcurl 7.88 signs the query as
     * given, so the query must be encoded and sorted by name. */
    HTTP_AUTH_SIGV4,
};
struct http_auth {
    enum http_auth_kind kind;
    const char *name, *secret;
    const char *session, *region, *service;
};
struct http_header {
    const char *name, *value;
};
struct http_request {
    const char *method; /* upper case */
    /* https://HOST[:PORT]/PATH[?QUERY], without user and password. http:// only with a unix socket, to localhost,
     * 127.0.0.0/8 and [::1], or with `plain`. */
    const char *url;
    const char *unix_socket; /* NULL, or its path: the URL's HOST then only goes into the Host header */
    bool plain;
    /* True: the request may be sent twice, because it changes nothing (a POST that only queries). GET, HEAD, OPTIONS,
     * PUT and DELETE always may; other methods only with this flag. */
    bool repeatable;
    const struct http_header *headers; /* values not empty; not Content-Length, Connection, Expect, Transfer-Encoding */
    size_t header_count;
    const void *body; /* NULL if body_len is 0; with a body, headers must have a Content-Type */
    size_t body_len;
    struct http_auth auth;
    const char *ca_file;              /* PEM, for this request alone; NULL: see above */
    const char *cert_file, *key_file; /* PEM: client certificate, for servers that ask for one; key_file NULL: the key
                                         is in cert_file */
    /* Time limits, in ms; 0 = the default, HTTP_NEVER = none. All count from the moment when the request's turn
     * comes. */
    uint64_t connect_ms; /* name lookup, connection and TLS; default HTTP_CONNECT_MS */
    uint64_t whole_ms;   /* until the last byte of the answer, redirects included; default HTTP_WHOLE_MS */
    uint64_t idle_ms;    /* between two pieces of the answer, and before the first; default none */
    size_t reply_max;    /* bytes of the answer's body, including those that go to the sink; 0 = HTTP_REPLY_DEFAULT */
    const char *group;    /* NULL, or the name of a throttle: in one struct http, requests of a group begin at least */
    uint64_t interval_ms; /* interval_ms apart, in the order in which they were made */
};

/* ---- its answer ---- */
struct http_reply {
    int status;                        /* 200 to 599 */
    int version;                       /* 10, 11 or 20 */
    const struct http_header *headers; /* of the last answer, without trailers; a name may occur more than once */
    size_t header_count;
    const char *body; /* a NUL follows the body_len bytes; empty if the body went to the sink */
    size_t body_len;
    /* From Retry-After, in seconds or as a date (measured against the answer's own Date if there is one), at most
     * HTTP_RETRY_AFTER_MAX_MS; -1: there is none, or it cannot be read. */
    int64_t retry_after_ms;
};
/* The value of the first header with that name, whatever the case; NULL: there is none. */
const char *http_reply_header(const struct http_reply *reply, const char *name);

enum http_phase {
    HTTP_PHASE_NAME,      /* the name was not found */
    HTTP_PHASE_CONNECT,   /* refused, unreachable, or no such socket */
    HTTP_PHASE_PROXY,     /* the proxy was not found, or refused to forward the request */
    HTTP_PHASE_TLS,       /* the handshake failed, or our certificate was refused or cannot be read */
    HTTP_PHASE_TRUST,     /* the server's certificate is not trusted; error.why is ERROR_WHY_CERTIFICATE */
    HTTP_PHASE_EXCHANGE,  /* the connection broke off before or within the answer */
    HTTP_PHASE_PROTOCOL,  /* the answer is not HTTP */
    HTTP_PHASE_TOO_LARGE, /* the answer is larger than its bound */
    HTTP_PHASE_REDIRECT,  /* the answer is a redirect that is not followed */
    HTTP_PHASE_OTHER,
};
struct http_failure {
    enum http_phase phase; /* in which the request failed or timed out (then the error's code is ERROR_TIMEOUT) */
    /* False: no byte of the request has left, so the server has not seen it. True: whether the server carried it out is
     * unknown, except with HTTP_PHASE_REDIRECT. */
    bool sent;
    struct error error; /* "GET https://HOST/PATH: reason" */
};

/* Begins a request, in a later turn of the loop. sink (may be NULL) gets the body of an answer with a status from 200
 * to 299, piece by piece; with any other status the body is in the reply. done is called once, never within this
 * function. One of reply and failure is NULL; both are valid until done returns, and then the call frees itself. NULL
 * and err (ERROR_USAGE) when the request breaks a rule above, or when too many requests wait. */
struct http_call *http_send(struct http *http, const struct http_request *request,
                            void (*sink)(void *arg, const void *data, size_t len),
                            void (*done)(void *arg, const struct http_reply *reply, const struct http_failure *failure),
                            void *arg, struct error *err);
/* Neither sink nor done is called any more; if the request was under way, its connection is closed. May be called at
 * any time until done has returned, also within callbacks of this or another call. Whether the server has seen the
 * request is unknown. */
void http_cancel(struct http_call *call);

/* The next request of that group begins after_ms from now at the earliest: for a Retry-After. */
void http_hold(struct http *http, const char *group, uint64_t after_ms);

#endif
