/*
 * Why there is no reply, in plain words. libcurl's own words are quoted only where they say more than its code (TLS);
 * they never have a query, a header or a credential.
 */
#include "internal.h"

#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

static void time_text(uint64_t ms, char *out, size_t size)
{
    if (ms % 1000 == 0)
        snprintf(out, size, "%llu s", (unsigned long long)(ms / 1000));
    else
        snprintf(out, size, "%llu ms", (unsigned long long)ms);
}

static bool reached(const struct http_call *c, CURLINFO what)
{
    curl_off_t us = 0;
    http_curl.easy_getinfo(c->easy, what, &us);
    return us > 0;
}

/* Before 7.80: judged by the bytes that have left, including those to a proxy. */
static bool was_sent(const struct http_call *c)
{
    long bytes = 0;
    if (http_curl.version_info(CURLVERSION_NOW)->version_num < 0x075000)
        http_curl.easy_getinfo(c->easy, CURLINFO_REQUEST_SIZE, &bytes);
    return c->sent || bytes > 0;
}

static bool is_https(const struct http_call *c)
{
    char *scheme = NULL;
    bool yes = http_curl.url_get(c->url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK && str_eq(scheme, "https");
    http_curl.free(scheme);
    return yes;
}

/* The phase in which the request timed out. */
static void timed_out(const struct http_call *c, struct http_failure *f)
{
    char after[32];
    const char *what = NULL;
    long connects = 0; /* CURLINFO_CONNECT_TIME of 7.88 is not set until TLS is done */
    http_curl.easy_getinfo(c->easy, CURLINFO_NUM_CONNECTS, &connects);
    bool sent = was_sent(c), whole = sent;
    if (sent) {
        f->phase = HTTP_PHASE_EXCHANGE;
        what = c->answer.count ? "the answer was not complete" : "no answer came";
    } else if (!c->unix_socket && !reached(c, CURLINFO_NAMELOOKUP_TIME_T)) {
        f->phase = HTTP_PHASE_NAME;
        what = "its name was not found yet";
    } else if (connects == 0 || !is_https(c)) {
        f->phase = HTTP_PHASE_CONNECT;
        what = "there was no connection yet";
    } else {
        f->phase = HTTP_PHASE_TLS;
        what = "TLS was not agreed on yet";
    }
    if (c->whole_ms < c->connect_ms)
        whole = true;
    time_text(c->idle_out ? c->idle_ms : whole ? c->whole_ms : c->connect_ms, after, sizeof(after));
    if (c->idle_out)
        error_set(&f->error, ERROR_TIMEOUT, "timed out: nothing came for %s, and %s", after, what);
    else
        error_set(&f->error, ERROR_TIMEOUT, "timed out after %s: %s", after, what);
}

static void untrusted(const struct http_call *c, struct http_failure *f)
{
    long verified = 0;
    http_curl.easy_getinfo(c->easy, CURLINFO_SSL_VERIFYRESULT, &verified);
    f->phase = HTTP_PHASE_TRUST;
    if (verified == X509_V_OK || verified == X509_V_ERR_UNSPECIFIED) { /* libcurl does not ask for it before the name
                                                                          matches */
        error_set(&f->error, ERROR_INFRA, "the certificate of the server is for another name than \"%s\"", c->host);
    } else {
        error_set(&f->error, ERROR_INFRA, "the certificate of the server is not trusted: %s",
                  X509_verify_cert_error_string(verified));
        if (verified != X509_V_ERR_CERT_HAS_EXPIRED && verified != X509_V_ERR_CERT_NOT_YET_VALID)
            error_hint(&f->error, "the trusted certificates are those in \"%s\"; RHRUN_CA_FILE=FILE names another file",
                       c->ca_file ? c->ca_file : "the system");
    }
    error_why(&f->error, ERROR_WHY_CERTIFICATE);
}

/* libcurl has one code for both, but its text names the target: "Failed to connect to HOST port ...". */
static bool is_proxy(const struct http_call *c)
{
    static const char to[] = "Failed to connect to ";
    if (c->unix_socket || !str_starts(c->reason, to))
        return false;
    const char *said = c->reason + strlen(to), *host = c->host + (*c->host == '[');
    size_t len = strcspn(host, "]");
    CLEANUP(cleanup_free) char *port = xasprintf(" port %s ", c->port);
    return strncmp(said, host, len) != 0 || !str_starts(said + len, port);
}

static void not_connected(const struct http_call *c, struct http_failure *f)
{
    long number = 0;
    http_curl.easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &number);
    const char *why = number ? strerror((int)number) : "no address of it answers";
    f->phase = HTTP_PHASE_CONNECT;
    if (is_proxy(c)) {
        f->phase = HTTP_PHASE_PROXY;
        error_set(&f->error, ERROR_INFRA, "could not connect to the proxy: %s", why);
        error_hint(&f->error, "the environment names it: https_proxy, http_proxy or all_proxy");
    } else if (c->unix_socket)
        error_set(&f->error, ERROR_INFRA, "could not connect to the socket \"%s\": %s", c->unix_socket, why);
    else
        error_set(&f->error, ERROR_INFRA, "could not connect to \"%s\" port %s: %s", c->host, c->port, why);
}

/* The last part of "error:0A00010B:SSL routines::wrong version number". */
static void not_agreed(const struct http_call *c, struct http_failure *f)
{
    const char *why = *c->reason ? c->reason : http_curl.easy_strerror(c->code), *last = strstr(why, "::");
    f->phase = HTTP_PHASE_TLS;
    error_set(&f->error, ERROR_INFRA, "TLS failed: %s", last ? last + 2 : why);
    if (strstr(why, "certificate required"))
        error_hint(&f->error, "the server asks for a client certificate");
}

static void broke_off(const struct http_call *c, struct http_failure *f)
{
    long number = 0, by_proxy = 0;
    http_curl.easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &number);
    http_curl.easy_getinfo(c->easy, CURLINFO_HTTP_CONNECTCODE, &by_proxy);
    if (by_proxy && by_proxy / 100 != 2) {
        f->phase = HTTP_PHASE_PROXY;
        error_set(&f->error, ERROR_INFRA, "the proxy refused to connect to \"%s\", with status %ld", c->host, by_proxy);
        return;
    }
    if (!c->answer.count && strstr(c->reason, " alert ")) { /* only here TLS 1.3 reports that it refuses our
                                                               certificate */
        not_agreed(c, f);
        return;
    }
    f->phase = HTTP_PHASE_EXCHANGE;
    if (!c->answer.count)
        error_set(&f->error, ERROR_INFRA, "the connection broke off before an answer came%s%s", number ? ": " : "",
                  number ? strerror((int)number) : "");
    else
        error_set(&f->error, ERROR_INFRA, "the connection broke off within the answer, after %zu bytes of its body",
                  c->answer.body_bytes);
}

static void too_large(const struct http_call *c, struct http_failure *f)
{
    f->phase = HTTP_PHASE_TOO_LARGE;
    if (c->too_many_headers)
        error_set(&f->error, ERROR_PROTOCOL, "the answer has more than %d headers, or %d bytes of them",
                  HTTP_HEADERS_MAX, HTTP_HEADER_BYTES_MAX);
    else
        error_set(&f->error, ERROR_PROTOCOL, "the answer is larger than %zu bytes", c->reply_max);
}

/* Shows only the origin of the redirect's target. */
static void not_followed(const struct http_call *c, const char *why, struct http_failure *f)
{
    char *to = NULL, *scheme = NULL, *host = NULL;
    http_curl.easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to);
    CURLU *url = http_curl.url();
    if (url && to && http_curl.url_set(url, CURLUPART_URL, to, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK) {
        http_curl.url_get(url, CURLUPART_SCHEME, &scheme, 0);
        http_curl.url_get(url, CURLUPART_HOST, &host, 0);
    }
    f->phase = HTTP_PHASE_REDIRECT;
    error_set(&f->error, ERROR_INFRA, "the server redirects to %s://%.128s, which is not followed: %s",
              scheme ? scheme : "?", host ? host : "?", why);
    http_curl.free(scheme);
    http_curl.free(host);
    http_curl.url_cleanup(url);
}

static void by_code(const struct http_call *c, struct http_failure *f)
{
    /* libcurl's codes are many; those of other protocols cannot come. */
    int code = (int)c->code;
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        f->phase = HTTP_PHASE_NAME;
        error_set(&f->error, ERROR_INFRA, "could not find the address of \"%s\"", c->host);
        return;
    case CURLE_COULDNT_RESOLVE_PROXY:
        f->phase = HTTP_PHASE_PROXY;
        error_set(&f->error, ERROR_INFRA, "could not find the address of the proxy");
        error_hint(&f->error, "the environment names it: https_proxy, http_proxy or all_proxy");
        return;
    case CURLE_COULDNT_CONNECT:
        not_connected(c, f);
        return;
    case CURLE_OPERATION_TIMEDOUT:
        timed_out(c, f);
        return;
    case CURLE_PEER_FAILED_VERIFICATION:
        untrusted(c, f);
        return;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
        not_agreed(c, f);
        return;
    case CURLE_SSL_CACERT_BADFILE:
        f->phase = HTTP_PHASE_TLS;
        error_set(&f->error, ERROR_IO, "the CA file \"%s\" cannot be used", c->ca_file ? c->ca_file : "");
        return;
    case CURLE_SSL_CERTPROBLEM:
        f->phase = HTTP_PHASE_TLS;
        error_set(&f->error, ERROR_IO, "the client certificate \"%s\", or its key, cannot be used",
                  c->cert_file ? c->cert_file : "");
        return;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        broke_off(c, f);
        return;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
        f->phase = HTTP_PHASE_PROTOCOL;
        error_set(&f->error, ERROR_PROTOCOL, "the server did not answer with HTTP");
        return;
    default:
        f->phase = HTTP_PHASE_OTHER;
        error_set(&f->error, ERROR_INFRA, "%s", http_curl.easy_strerror(c->code));
    }
}

void http_failure_set(const struct http_call *c, const char *why_not, struct http_failure *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (why_not)
        not_followed(c, why_not, ret);
    else if (c->too_large || c->too_many_headers)
        too_large(c, ret);
    else
        by_code(c, ret);
    ret->sent = was_sent(c);
    error_prefix(&ret->error, "%s", c->label);
}
