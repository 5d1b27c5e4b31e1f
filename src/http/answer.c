/* Incoming data: libcurl's callbacks store it with the call, within its limits. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void http_answer_clear(struct answer *a)
{
    buf_free(&a->lines);
    buf_free(&a->body);
    memset(a, 0, sizeof(*a));
}

int http_answer_status(const struct http_call *c)
{
    long status = 0;
    http_curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static void heard(struct http_call *c)
{
    if (c->idle)
        loop_timer_start(c->idle, c->idle_ms);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A line without its end. An answer may have several heads (100 Continue comes before the final one). */
static size_t take_line(char *data, size_t size, size_t count, void *arg)
{
    struct http_call *c = arg;
    struct answer *a = &c->answer;
    size_t len = size * count, all = len;
    heard(c);
    while (len && is_blank(data[len - 1]))
        len--;
    if (len >= 5 && memcmp(data, "HTTP/", 5) == 0) {
        a->count = a->bytes = 0;
        a->complete = false;
        buf_clear(&a->lines);
        return all;
    }
    if (len == 0)
        a->complete = true;
    const char *colon = len ? memchr(data, ':', len) : NULL;
    if (a->complete || !colon || colon == data)
        return all;
    a->bytes += len;
    if (a->count == HTTP_HEADERS_MAX || a->bytes > HTTP_HEADER_BYTES_MAX) {
        c->too_many_headers = true;
        return 0;
    }
    size_t name_len = (size_t)(colon - data), at = name_len + 1;
    while (at < len && is_blank(data[at]))
        at++;
    a->at[a->count++] = a->lines.len;
    buf_append(&a->lines, data, name_len);
    buf_putc(&a->lines, '\0');
    buf_append(&a->lines, data + at, len - at);
    buf_putc(&a->lines, '\0');
    return all;
}

static size_t take_body(char *data, size_t size, size_t count, void *arg)
{
    struct http_call *c = arg;
    struct answer *a = &c->answer;
    size_t len = size * count;
    heard(c);
    if (len > c->reply_max - a->body_bytes) {
        c->too_large = true;
        return 0;
    }
    a->body_bytes += len;
    buf_append(&a->body, data, len);
    if (c->sink)
        http_call_due(c);
    return len;
}

void http_answer_set(struct http_call *c)
{
    http_curl.easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, take_line);
    http_curl.easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
    http_curl.easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, take_body);
    http_curl.easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
}

const char *http_reply_header(const struct http_reply *reply, const char *name)
{
    for (size_t i = 0; i < reply->header_count; i++) {
        if (strcasecmp(reply->headers[i].name, name) == 0)
            return reply->headers[i].value;
    }
    return NULL;
}

static int64_t retry_after(const struct http_reply *reply)
{
    const char *value = http_reply_header(reply, "Retry-After");
    uint64_t seconds = 0;
    if (!value)
        return -1;
    if (parse_u64(value, &seconds))
        return seconds < HTTP_RETRY_AFTER_MAX_MS / 1000 ? (int64_t)seconds * 1000 : HTTP_RETRY_AFTER_MAX_MS;
    const char *date = http_reply_header(reply, "Date");
    time_t until = http_curl.getdate(value, NULL), now = date ? http_curl.getdate(date, NULL) : -1;
    if (until == -1 || strspn(value, "0123456789") == strlen(value))
        return -1;
    if (now == -1)
        now = (time_t)(wall_ms() / 1000);
    if (until <= now)
        return 0;
    return until - now < HTTP_RETRY_AFTER_MAX_MS / 1000 ? (int64_t)(until - now) * 1000 : HTTP_RETRY_AFTER_MAX_MS;
}

void http_answer_reply(struct http_call *c, struct http_header headers[HTTP_HEADERS_MAX], struct http_reply *ret)
{
    struct answer *a = &c->answer;
    long version = 0;
    http_curl.easy_getinfo(c->easy, CURLINFO_HTTP_VERSION, &version);
    *ret = (struct http_reply){.status = http_answer_status(c), .headers = headers, .header_count = a->count};
    ret->version = version == CURL_HTTP_VERSION_2_0 ? 20 : version == CURL_HTTP_VERSION_1_0 ? 10 : 11;
    for (size_t i = 0; i < a->count; i++) {
        const char *name = a->lines.data + a->at[i];
        headers[i] = (struct http_header){.name = name, .value = name + strlen(name) + 1};
    }
    ret->body = a->body.len ? a->body.data : "";
    ret->body_len = a->body.len;
    ret->retry_after_ms = retry_after(ret);
}
