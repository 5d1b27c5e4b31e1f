/*
 * http: requests over HTTPS, or over a unix socket, on the loop: one thread, nothing blocks. A thin layer over
 * libcurl's multi interface, so that no other module sees libcurl. The library is loaded by the first http_create.
 *
 * A request is data; it is copied, and its answer comes to a callback. What a status means is not decided here: any
 * answer that came whole is a reply, and a failure is that none came. A failure says in plain words which phase
 * failed, with method, scheme, host and path of the URL. Its query, headers, body and credentials are in no text that
 * this module makes.
 *
 * A request is sent at most once, unless it may be repeated: libcurl sends a request again by itself where a connection
 * that it kept ends without a byte of an answer, also a POST that the server has carried out. So a request that may
 * not be repeated gets a connection of its own (which then serves others).
 *
 * TLS: always verified, 1.2 or later. The authorities: ca_file of the request, else of the options, else the file that
 * RHRUN_CA_FILE names, else SSL_CERT_FILE, else the system's. Whichever it is, no other is trusted beside it.
 * Proxies: as libcurl takes them from the environment: http_proxy (lower case only), https_proxy, HTTPS_PROXY,
 * all_proxy, ALL_PROXY, no_proxy, NO_PROXY. None is used for a unix socket, nor for plain HTTP to this machine.
 * Redirects: a GET or HEAD is redirected at most HTTP_REDIRECTS_MAX times, and only to the same scheme, host and port.
 * Any other redirect is a failure (HTTP_PHASE_REDIRECT), so credentials go nowhere else.
 * HTTP/2 is used where a server on TLS offers it. No cookies, no .netrc, no compressed answers.
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
    HTTP_REPLY_DEFAULT = 8 << 20,   /* bytes of an answer's body, where a request says nothing */
    HTTP_AT_ONCE_DEFAULT = 64,
    HTTP_WAITING_MAX = 8192,        /* requests that wait for their turn */
    HTTP_GROUP_MAX = 64,            /* bytes of a group's name */
    HTTP_REDIRECTS_MAX = 5,
    HTTP_CONNECT_MS = 15000,        /* limits, where a request says nothing */
    HTTP_WHOLE_MS = 60000,
    HTTP_RETRY_AFTER_MAX_MS = 24 * 60 * 60 * 1000,
};
#define HTTP_NEVER UINT64_MAX /* as a time limit: none */

struct http;
struct http_call;

/* Of libcurl, as it says it ("8.14.1"), which is loaded for it; NULL and err: as for http_create. */
const char *http_library_version(struct error *err);

struct http_options {
    const char *ca_file;  /* PEM; NULL: see above */
    unsigned at_once;     /* requests under way, each with at most one connection; 0 = HTTP_AT_ONCE_DEFAULT */
};
/* options may be NULL. NULL and err: libcurl is not installed (ERROR_IO; the hint names its package), a CA file that
 * was named cannot be read (ERROR_IO; it says who named it), or libcurl cannot do TLS. */
struct http *http_create(struct loop *loop, const struct http_options *options, struct error *err);
/* Calls that are not done are cancelled. At any time, also within any callback. Takes NULL. */
void http_destroy(struct http *http);

/* ---- a request ---- */
enum http_auth_kind {
    HTTP_AUTH_NONE,
    HTTP_AUTH_BEARER, /* secret: the token */
    HTTP_AUTH_BASIC,  /* name: the user, without a colon; secret: the password */
    HTTP_AUTH_HEADER, /* name: a header's; secret: its value */
    /* AWS Signature Version 4 by libcurl (CURLOPT_AWS_SIGV4): name: the access key's id; secret: the secret key; region
     * and service; session (may be NULL) goes into X-Amz-Security-Token, and is signed. libcurl 7.88 signs the query as
     * it stands: it must be encoded, and sorted by name. */
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
    /* https://HOST[:PORT]/PATH[?QUERY], without user and password. http:// with a unix socket, to localhost,
     * 127.0.0.0/8 and [::1], and where `plain` says that it is meant. */
    const char *url;
    const char *unix_socket; /* NULL, or its path: HOST of the URL is then a word for the Host header alone */
    bool plain;
    /* True: it may be sent twice, for it changes nothing (a POST that only asks). GET, HEAD, OPTIONS, PUT and DELETE
     * may be repeated by themselves, all others may not. */
    bool repeatable;
    const struct http_header *headers; /* values not empty; not Content-Length, Connection, Expect, Transfer-Encoding */
    size_t header_count;
    const void *body; /* NULL where body_len is 0; with one, headers has a Content-Type */
    size_t body_len;
    struct http_auth auth;
    const char *ca_file;              /* PEM, for this request alone; NULL: see above */
    const char *cert_file, *key_file; /* PEM: who we are, for servers that ask; key_file NULL: it is in cert_file */
    /* Time limits, in ms; 0 = the default, HTTP_NEVER = none. All count from when the request has its turn. */
    uint64_t connect_ms; /* name, connection and TLS: HTTP_CONNECT_MS */
    uint64_t whole_ms;   /* to the last byte of the answer, redirects included: HTTP_WHOLE_MS */
    uint64_t idle_ms;    /* between two pieces of an answer, and before the first: none */
    size_t reply_max;    /* bytes of the answer's body, those of the sink included; 0 = HTTP_REPLY_DEFAULT */
    const char *group;    /* NULL, or which throttle: of those with one name, in one struct http, one begins, and the */
    uint64_t interval_ms; /* next one interval_ms later at the earliest, in the order in which they were asked for */
};

/* ---- its answer ---- */
struct http_reply {
    int status;                        /* 200 to 599 */
    int version;                       /* 10, 11 or 20 */
    const struct http_header *headers; /* of the last answer, no trailers; more than one of a name is possible */
    size_t header_count;
    const char *body; /* NUL-terminated behind body_len; empty where it went to the sink */
    size_t body_len;
    /* Of Retry-After, in seconds or as a date (against the answer's own Date where there is one), at most
     * HTTP_RETRY_AFTER_MAX_MS; -1: there is none, or none that can be read. */
    int64_t retry_after_ms;
};
/* The first header of that name, whatever its case; NULL: there is none. */
const char *http_reply_header(const struct http_reply *reply, const char *name);

enum http_phase {
    HTTP_PHASE_NAME,      /* the name was not found */
    HTTP_PHASE_CONNECT,   /* refused, unreachable, or no such socket */
    HTTP_PHASE_PROXY,     /* the proxy was not found, or refused to pass it on */
    HTTP_PHASE_TLS,       /* no agreement; our certificate was refused or cannot be read */
    HTTP_PHASE_TRUST,     /* the server's certificate is not trusted: why is ERROR_WHY_CERTIFICATE */
    HTTP_PHASE_EXCHANGE,  /* the connection broke off before or within the answer */
    HTTP_PHASE_PROTOCOL,  /* what came is not HTTP */
    HTTP_PHASE_TOO_LARGE, /* the answer is larger than its bound */
    HTTP_PHASE_REDIRECT,  /* the answer is a redirect that is not followed */
    HTTP_PHASE_OTHER,
};
struct http_failure {
    enum http_phase phase; /* where it stood when it failed, or timed out (then the error's code is ERROR_TIMEOUT) */
    /* False: nothing of the request has left, so the server has not seen it. True: what became of it is unknown, but
     * for HTTP_PHASE_REDIRECT. */
    bool sent;
    struct error error; /* "GET https://HOST/PATH: reason" */
};

/* Begins a request, in a later turn of the loop.
 * sink (may be NULL) gets the body of an answer with a status of 200 to 299 in pieces, as they come; of any other
 * status the body is in the reply. done is called once, never within this function; one of reply and failure is NULL,
 * and what they point to lasts until it returns. The call frees itself then.
 * NULL and err (ERROR_USAGE) when the request breaks a rule that stands above, or when too many wait. */
struct http_call *http_send(struct http *http, const struct http_request *request,
                            void (*sink)(void *arg, const void *data, size_t len),
                            void (*done)(void *arg, const struct http_reply *reply, const struct http_failure *failure),
                            void *arg, struct error *err);
/* Neither sink nor done is called any more; a connection on which something was under way is closed. At any time until
 * done has returned, also within callbacks of this or another call. Whether the server has seen the request is
 * unknown. */
void http_cancel(struct http_call *call);

/* The next request of that group begins in after_ms at the earliest: what a Retry-After says. */
void http_hold(struct http *http, const char *group, uint64_t after_ms);

#endif
