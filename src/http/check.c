/* The rules of a request: its values may come from a file that a user wrote. */
#include "internal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

static bool is_token(const char *s, size_t max)
{
    size_t len = strlen(s);
    if (len == 0 || len > max)
        return false;
    for (; *s; s++) {
        if (*s <= ' ' || *s > '~' || strchr("\"(),/:;<=>?@[\\]{}", *s))
            return false;
    }
    return true;
}

/* What libcurl writes itself. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding", "Connection", "Expect"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcasecmp(names[i], name) == 0)
            return true;
    }
    return false;
}

/* Errors never show the value: it may be a secret. */
static int check_value(const char *what, const char *name, const char *value, struct error *err)
{
    if (!value || !*value)
        return error_set(err, ERROR_USAGE, "the %s \"%s\" of an HTTP request is empty", what, name);
    for (const char *p = value; *p; p++) {
        if ((*p >= 0 && *p < ' ' && *p != '\t') || *p == 0x7f)
            return error_set(err, ERROR_USAGE, "the %s \"%s\" of an HTTP request has control characters", what, name);
    }
    return 0;
}

static int check_header(const char *name, const char *value, struct error *err)
{
    if (!name || !is_token(name, 128))
        return error_set(err, ERROR_USAGE, "\"%s\" is not a name of an HTTP header", name ? name : "");
    if (is_ours(name))
        return error_set(err, ERROR_USAGE, "the header \"%s\" cannot be set by an HTTP request", name);
    return check_value("header", name, value, err);
}

static int check_headers(const struct http_request *r, struct error *err)
{
    if (r->header_count > HTTP_HEADERS_MAX)
        return error_set(err, ERROR_USAGE, "an HTTP request has %zu headers, more than %d", r->header_count,
                         HTTP_HEADERS_MAX);
    size_t bytes = 0;
    bool typed = false;
    for (size_t i = 0; i < r->header_count; i++) {
        const struct http_header *h = &r->headers[i];
        if (check_header(h->name, h->value, err) != 0)
            return -1;
        bytes += strlen(h->name) + strlen(h->value) + 4;
        typed = typed || strcasecmp(h->name, "Content-Type") == 0;
    }
    if (bytes > HTTP_HEADER_BYTES_MAX)
        return error_set(err, ERROR_USAGE, "the headers of an HTTP request have %zu bytes, more than %d", bytes,
                         HTTP_HEADER_BYTES_MAX);
    if (r->body_len > HTTP_BODY_MAX)
        return error_set(err, ERROR_USAGE, "the body of an HTTP request has %zu bytes, more than %d", r->body_len,
                         HTTP_BODY_MAX);
    if (r->body_len && !typed)
        return error_set(err, ERROR_USAGE, "an HTTP request has a body and no Content-Type");
    return 0;
}

/* One of the parts of CURLOPT_AWS_SIGV4, which are separated by colons: at most 64 bytes. */
static bool is_word(const char *s)
{
    return s && is_token(s, 64);
}

static int check_auth(const struct http_auth *a, struct error *err)
{
    switch (a->kind) {
    case HTTP_AUTH_NONE:
        return 0;
    case HTTP_AUTH_BEARER:
        return check_value("token", "Authorization", a->secret, err);
    case HTTP_AUTH_BASIC:
        if (!a->name || strchr(a->name, ':'))
            return error_set(err, ERROR_USAGE, "the user's name of an HTTP request is missing, or has a colon");
        return a->secret ? 0 : error_set(err, ERROR_USAGE, "the password of an HTTP request is missing");
    case HTTP_AUTH_HEADER:
        return check_header(a->name, a->secret, err);
    case HTTP_AUTH_SIGV4:
        if (!is_word(a->region) || !is_word(a->service))
            return error_set(err, ERROR_USAGE, "region \"%s\" or service \"%s\" cannot be signed for",
                             a->region ? a->region : "", a->service ? a->service : "");
        if (check_value("key's id", "access key", a->name, err) != 0 ||
            check_value("secret key", "access key", a->secret, err) != 0)
            return -1;
        return a->session ? check_value("header", "X-Amz-Security-Token", a->session, err) : 0;
    }
    return error_set(err, ERROR_INTERNAL, "no such kind of authentication: %d", (int)a->kind);
}

bool http_is_loopback(const char *host)
{
    struct in_addr four;
    if (strcasecmp(host, "localhost") == 0 || str_eq(host, "[::1]"))
        return true;
    return inet_pton(AF_INET, host, &four) == 1 && (ntohl(four.s_addr) >> 24) == 127;
}

static char *part(CURLU *url, CURLUPart what)
{
    char *text = NULL;
    if (http_curl.url_get(url, what, &text, what == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0) != CURLUE_OK)
        return NULL;
    char *copy = xstrdup(text);
    http_curl.free(text);
    return copy;
}

bool http_same_origin(CURLU *a, CURLU *b)
{
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        CLEANUP(cleanup_free) char *of_a = part(a, parts[i]);
        CLEANUP(cleanup_free) char *of_b = part(b, parts[i]);
        if (!of_a || !of_b || strcasecmp(of_a, of_b) != 0)
            return false;
    }
    CLEANUP(cleanup_free) char *user = part(b, CURLUPART_USER);
    return !user;
}

/* Errors show nothing of a URL until its query is known. */
static int check_url(const struct http_request *r, struct http_call *c, struct error *err)
{
    c->url = http_curl.url();
    if (!r->url || strlen(r->url) > HTTP_URL_MAX || !c->url || !str_is_printable(r->url))
        return error_set(err, ERROR_USAGE,
                         "the URL of an HTTP request is missing, not printable or longer than %d bytes", HTTP_URL_MAX);
    CURLUcode code = http_curl.url_set(c->url, CURLUPART_URL, r->url, 0);
    if (code != CURLUE_OK)
        return error_set(err, ERROR_USAGE, "the URL of an HTTP request is not valid: %s", http_curl.url_strerror(code));
    CLEANUP(cleanup_free) char *user = part(c->url, CURLUPART_USER);
    CLEANUP(cleanup_free) char *password = part(c->url, CURLUPART_PASSWORD);
    if (user || password)
        return error_set(err, ERROR_USAGE, "the URL of an HTTP request has a user or a password in it");
    CLEANUP(cleanup_free) char *scheme = part(c->url, CURLUPART_SCHEME);
    CLEANUP(cleanup_free) char *path = part(c->url, CURLUPART_PATH);
    CLEANUP(cleanup_free) char *own_port = NULL;
    char *text = NULL;
    if (http_curl.url_get(c->url, CURLUPART_PORT, &text, 0) == CURLUE_OK) {
        own_port = xstrdup(text);
        http_curl.free(text);
    }
    c->host = part(c->url, CURLUPART_HOST);
    c->port = part(c->url, CURLUPART_PORT);
    if (!scheme || !c->host || !c->port || !path)
        return error_set(err, ERROR_USAGE, "the URL of an HTTP request has no host");
    c->label =
        xasprintf("%s %s://%s%s%s%s", r->method, scheme, c->host, own_port ? ":" : "", own_port ? own_port : "", path);
    if (strlen(c->label) > 300)
        memcpy(c->label + 297, "...", 4);
    if (str_eq(scheme, "https"))
        return 0;
    if (!str_eq(scheme, "http"))
        return error_set(err, ERROR_USAGE, "%s: the scheme \"%s\" is neither https nor http", c->label, scheme);
    if (r->unix_socket || r->plain || http_is_loopback(c->host))
        return 0;
    error_set(err, ERROR_USAGE, "%s: \"%s\" is not this machine, and others can read and change http:// on its way",
              c->label, c->host);
    error_hint(err, "use https://");
    return -1;
}

int http_check(const struct http_request *r, struct http_call *c, struct error *err)
{
    if (!r->method || !is_token(r->method, 16))
        return error_set(err, ERROR_USAGE, "\"%s\" is not a method of HTTP", r->method ? r->method : "");
    if (check_url(r, c, err) != 0)
        return -1;
    struct error why = ERROR_INIT;
    int rc = 0;
    if (r->unix_socket && strlen(r->unix_socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        rc = error_set(&why, ERROR_USAGE, "the path of the socket \"%s\" is longer than %zu bytes", r->unix_socket,
                       sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    else if (r->group && (!*r->group || strlen(r->group) > HTTP_GROUP_MAX))
        rc = error_set(&why, ERROR_USAGE, "the name of a throttle is empty or longer than %d bytes", HTTP_GROUP_MAX);
    else if (check_headers(r, &why) != 0 || check_auth(&r->auth, &why) != 0)
        rc = -1;
    if (rc != 0) {
        error_prefix(&why, "%s", c->label);
        if (err)
            *err = why;
    }
    return rc;
}
