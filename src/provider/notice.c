/* `notice`: how a machine asks from inside whether its provider takes it back. */
#include "internal.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    REQUEST_MAX = 1000, /* the agent's room for a request, without the token */
    EVERY_MAX_MS = 60000,
    WITHIN_MIN_MS = 2 * WIRE_NOTICE_RESERVE_MS,
    WITHIN_MAX_MS = 3600000
};

struct target {
    uint32_t address, port;
    const char *host, *path; /* host: as a header has it */
};

static bool fault(struct diagnostics *d, const struct doc_node *node, const char *text)
{
    diagnostics_add(d, SEVERITY_ERROR, node->place, "%s", text);
    return false;
}

/* The schema has seen that it begins with http:// and is printable. */
static bool read_target(const struct doc_node *node, struct arena *arena, struct target *ret, struct diagnostics *d)
{
    const char *at = node->text + strlen("http://");
    const size_t len = strcspn(at, "/");
    char *name = arena_strndup(arena, at, len), *colon;
    struct in_addr in;
    *ret = (struct target){.port = 80, .host = arena_strdup(arena, name), .path = at[len] ? at + len : "/"};
    if ((colon = strchr(name, ':')))
        *colon++ = 0;
    if (colon && (!parse_u32(colon, &ret->port) || ret->port == 0 || ret->port > UINT16_MAX))
        return fault(d, node, "the port is not a number from 1 to 65535");
    if (inet_pton(AF_INET, name, &in) != 1 || !wire_notice_address(ntohl(in.s_addr)))
        return fault(d, node, "a machine asks itself only: an address of 169.254.0.0/16, or of 127.0.0.0/8");
    ret->address = ntohl(in.s_addr);
    return true;
}

static void put_headers(struct buf *b, const struct doc_node *headers)
{
    for (size_t i = 0; headers && i < headers->count; i++)
        buf_printf(b, "\r\n%s: %s", headers->members[i].key, headers->members[i].value->text);
}

/* The agent completes it: with a token if one is needed, and an empty line. */
static char *request_text(const char *method, const struct target *t, const struct doc_node *headers,
                          const char *token_header, struct arena *arena)
{
    struct buf b = {0};
    buf_printf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: rhrun\r\nConnection: close", method, t->path, t->host);
    if (str_eq(method, "PUT"))
        buf_puts(&b, "\r\nContent-Length: 0");
    put_headers(&b, headers);
    if (token_header)
        buf_printf(&b, "\r\n%s: ", token_header);
    char *text = arena_strdup(arena, b.data);
    buf_free(&b);
    return text;
}

bool notice_read(struct provider *p, struct arena *arena, struct diagnostics *d)
{
    const struct doc_node *node = doc_get(p->root, "notice"), *token = doc_get(node, "token");
    const uint64_t every = duration_ms(doc_get(node, "every"), 5000);
    const uint64_t within = duration_ms(doc_get(node, "within"), 0);
    struct target target, other;
    if (!node)
        return true;
    if (!read_target(doc_get(node, "get"), arena, &target, d))
        return false;
    if (every < WIRE_NOTICE_EVERY_MIN_MS || every > EVERY_MAX_MS)
        return fault(d, doc_get(node, "every"),
                     "rhrun asks for a notice every 100 ms at most, and once a minute at least");
    if (within < WITHIN_MIN_MS || within > WITHIN_MAX_MS)
        return fault(d, doc_get(node, "within"), "a machine stays for 10 s to 1 h after its notice");
    struct wire_notice n = {.who = (char *)(uintptr_t)p->facts.title,
                            .address = target.address,
                            .port = target.port,
                            .token = arena_strdup(arena, ""),
                            .match = (char *)(uintptr_t)doc_get_string(node, "is", ""),
                            .every_ms = (uint32_t)every,
                            .within_ms = (uint32_t)within};
    if (token) {
        if (!read_target(doc_get(token, "put"), arena, &other, d))
            return false;
        if (other.address != target.address || other.port != target.port)
            return fault(d, doc_get(token, "put"), "the token and the notice come from different servers");
        n.token = request_text("PUT", &other, doc_get(token, "headers"), NULL, arena);
    }
    n.request = request_text("GET", &target, doc_get(node, "headers"),
                             token ? doc_get_string(token, "header", "") : NULL, arena);
    if (strlen(n.request) > REQUEST_MAX || strlen(n.token) > REQUEST_MAX)
        return fault(d, node, "a request for a notice has at most 1000 bytes");
    p->facts.notice = n;
    return true;
}
