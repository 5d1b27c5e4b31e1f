/* A request as options of libcurl. */
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- who is trusted ---- */

int http_ca_file(const char *named, char **ret, struct error *err)
{
    const char *by = NULL;
    if (!named) {
        static const char *const names[] = {"RHRUN_CA_FILE", "SSL_CERT_FILE"};
        for (size_t i = 0; i < ARRAY_LEN(names) && !named; i++) {
            const char *value = getenv(names[i]);
            if (value && *value) {
                named = value;
                by = names[i];
            }
        }
    }
    if (!named) {
        const char *built_in = http_curl.version_info(CURLVERSION_NOW)->cainfo;
        /* a libcurl that was built elsewhere (in a static program) does not know this machine's file */
        char *found = built_in && access(built_in, R_OK) == 0 ? NULL : system_ca_file("");
        *ret = found ? found : built_in ? xstrdup(built_in) : NULL;
        return 0;
    }
    if (access(named, R_OK) == 0) {
        *ret = xstrdup(named);
        return 0;
    }
    error_errno(err, ERROR_IO, errno, "cannot read the CA file \"%s\"", named);
    if (by)
        error_hint(err, "the environment variable %s names it", by);
    return -1;
}

/* No CA folder beside the file: only the named file is trusted, and libcurl caches the parsed file for all connections
 * only without a folder. */
static void set_tls(struct http_call *c, const struct http_request *r)
{
    CURL *e = c->easy;
    c->ca_file = r->ca_file ? xstrdup(r->ca_file) : c->http->ca_file ? xstrdup(c->http->ca_file) : NULL;
    c->cert_file = r->cert_file ? xstrdup(r->cert_file) : NULL;
    if (c->ca_file) {
        http_curl.easy_setopt(e, CURLOPT_CAINFO, c->ca_file);
        http_curl.easy_setopt(e, CURLOPT_CAPATH, NULL);
    }
    http_curl.easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (r->cert_file) {
        http_curl.easy_setopt(e, CURLOPT_SSLCERT, r->cert_file);
        http_curl.easy_setopt(e, CURLOPT_SSLKEY, r->key_file ? r->key_file : r->cert_file);
    }
}

/* ---- what is sent ---- */

static void add_header(struct http_call *c, const char *name, const char *value)
{
    CLEANUP(cleanup_free) char *line = xasprintf("%s: %s", name, value);
    struct curl_slist *more = http_curl.slist_append(c->headers, line);
    if (!more)
        abort(); /* no memory */
    c->headers = more;
    explicit_bzero(line, strlen(line));
}

static void set_auth(struct http_call *c, const struct http_auth *a)
{
    CURL *e = c->easy;
    switch (a->kind) {
    case HTTP_AUTH_NONE:
        return;
    case HTTP_AUTH_BEARER: {
        CLEANUP(cleanup_free) char *value = xasprintf("Bearer %s", a->secret);
        add_header(c, "Authorization", value);
        explicit_bzero(value, strlen(value));
        return;
    }
    case HTTP_AUTH_HEADER:
        add_header(c, a->name, a->secret);
        return;
    case HTTP_AUTH_BASIC:
        http_curl.easy_setopt(e, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        break;
    case HTTP_AUTH_SIGV4: {
        CLEANUP(cleanup_free) char *how = xasprintf("aws:amz:%s:%s", a->region, a->service);
        http_curl.easy_setopt(e, CURLOPT_AWS_SIGV4, how);
        if (a->session)
            add_header(c, "X-Amz-Security-Token", a->session);
        break;
    }
    }
    http_curl.easy_setopt(e, CURLOPT_USERNAME, a->name);
    http_curl.easy_setopt(e, CURLOPT_PASSWORD, a->secret);
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words; words++) {
        if (str_eq(*words, word))
            return true;
    }
    return false;
}

/* For a body of more than 1 MiB libcurl would ask first (Expect: 100-continue); HTTP_BODY_MAX is not above that. */
static void set_method(struct http_call *c, const struct http_request *r)
{
    static const char *const bare[] = {"GET", "DELETE", "OPTIONS", NULL};
    static const char *const again[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", NULL};
    CURL *e = c->easy;
    c->method = xstrdup(r->method);
    if (str_eq(r->method, "HEAD")) {
        http_curl.easy_setopt(e, CURLOPT_NOBODY, 1L);
    } else if (r->body_len || !is_one_of(r->method, bare)) {
        c->body = xmalloc(r->body_len + 1);
        if (r->body_len)
            memcpy(c->body, r->body, r->body_len);
        c->body[r->body_len] = '\0';
        http_curl.easy_setopt(e, CURLOPT_POSTFIELDSIZE, (long)r->body_len);
        http_curl.easy_setopt(e, CURLOPT_POSTFIELDS, c->body);
        http_curl.easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method);
    } else {
        http_curl.easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method);
    }
    /* See the header: libcurl by itself repeats a request that failed on a reused connection. */
    if (!r->repeatable && !is_one_of(r->method, again))
        http_curl.easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
}

static void set_headers(struct http_call *c, const struct http_request *r)
{
    bool typed = false;
    for (size_t i = 0; i < r->header_count; i++) {
        add_header(c, r->headers[i].name, r->headers[i].value);
        typed = typed || strcasecmp(r->headers[i].name, "Content-Type") == 0;
    }
    set_auth(c, &r->auth);
    /* libcurl would label an empty body as a form. It would still sign a header removed in this way. */
    if (c->body && !typed && r->auth.kind != HTTP_AUTH_SIGV4) {
        struct curl_slist *more = http_curl.slist_append(c->headers, "Content-Type:");
        if (!more)
            abort(); /* no memory */
        c->headers = more;
    }
    http_curl.easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
    http_curl.easy_setopt(c->easy, CURLOPT_USERAGENT, "rhrun/" RHRUN_VERSION);
}

#if LIBCURL_VERSION_NUM >= 0x075000
/* The connection is ready, including proxy and TLS, and the request leaves now. */
static int leaves(void *arg, char *there, char *here, int port, int our_port)
{
    struct http_call *c = arg;
    (void)there;
    (void)here;
    (void)port;
    (void)our_port;
    c->sent = true;
    return CURL_PREREQFUNC_OK;
}
#endif

static void set_transport(struct http_call *c, const struct http_request *r)
{
    CURL *e = c->easy;
    CLEANUP(cleanup_free) char *scheme = NULL;
    http_curl.easy_setopt(e, CURLOPT_CURLU, c->url);
#if LIBCURL_VERSION_NUM >= 0x075500
    http_curl.easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    http_curl.easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    /* Without it, a call that is cancelled or times out would wait for the thread that looks up its name. */
    http_curl.easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
#if LIBCURL_VERSION_NUM >= 0x075000
    http_curl.easy_setopt(e, CURLOPT_PREREQFUNCTION, leaves);
    http_curl.easy_setopt(e, CURLOPT_PREREQDATA, c);
#endif
    http_curl.easy_setopt(e, CURLOPT_NOSIGNAL,
                          0L); /* libcurl ignores SIGPIPE while it writes, and uses no other signal */
    http_curl.easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    http_curl.easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    http_curl.easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    if (r->unix_socket) {
        c->unix_socket = xstrdup(r->unix_socket);
        http_curl.easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->unix_socket);
    }
    char *text = NULL;
    if (http_curl.url_get(c->url, CURLUPART_SCHEME, &text, 0) == CURLUE_OK) {
        scheme = xstrdup(text);
        http_curl.free(text);
    }
    if (r->unix_socket || (str_eq(scheme, "http") && http_is_loopback(c->host)))
        http_curl.easy_setopt(e, CURLOPT_PROXY, "");
}

/* libcurl before 7.87 signs only Host and the date. */
static int check_version(const struct http_call *c, const struct http_request *r, struct error *err)
{
    const curl_version_info_data *v = http_curl.version_info(CURLVERSION_NOW);
    if (r->auth.kind != HTTP_AUTH_SIGV4 || v->version_num >= 0x075700)
        return 0;
    return error_set(err, ERROR_USAGE, "%s: libcurl %s cannot sign it for AWS; 7.87 can", c->label, v->version);
}

int http_request_set(struct http_call *c, const struct http_request *r, struct error *err)
{
    if (check_version(c, r, err) != 0)
        return -1;
    c->easy = http_curl.easy_init();
    if (!c->easy)
        return error_set(err, ERROR_INTERNAL, "%s: libcurl cannot be used here", c->label);
    http_curl.easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->reason);
    set_transport(c, r);
    set_tls(c, r);
    set_method(c, r);
    set_headers(c, r);
    c->group = r->group ? xstrdup(r->group) : NULL;
    c->interval_ms = r->interval_ms;
    c->connect_ms = r->connect_ms ? r->connect_ms : HTTP_CONNECT_MS;
    c->whole_ms = r->whole_ms ? r->whole_ms : HTTP_WHOLE_MS;
    c->idle_ms = r->idle_ms == HTTP_NEVER ? 0 : r->idle_ms;
    c->reply_max = r->reply_max ? r->reply_max : HTTP_REPLY_DEFAULT;
    return 0;
}

/* For libcurl, 0 means its own default. */
static long limit(uint64_t ms)
{
    return ms == 0 ? 1 : ms > INT_MAX ? INT_MAX : (long)ms;
}

void http_request_limits(struct http_call *c)
{
    uint64_t now = loop_now_ms(c->http->loop);
    http_curl.easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, limit(c->connect_ms));
    if (c->deadline_ms != HTTP_NEVER)
        http_curl.easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, limit(c->deadline_ms > now ? c->deadline_ms - now : 0));
}
