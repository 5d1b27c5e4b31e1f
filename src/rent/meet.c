/*
 * Who answers at an address. One connection, one command: it prints the token between two marks, because login files of
 * the node may print too. The command is constant.
 */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_MAX = 64 << 10, /* including all output of login files */
    ANSWER_MS = 30000,     /* from the login on, unless the host has a limit for each phase, which is used instead */
};
#define MARK "RHRUN-TOKEN "
#define MARK_END " RHRUN-END"
#define COMMAND "t=; read -r t 2>/dev/null <" RENT_TOKEN_FILE "; printf '\\n%s%s%s\\n' '" MARK "' \"$t\" '" MARK_END "'"

struct meet {
    struct transport *t;
    struct loop_timer *limit;
    char *token, *address;
    struct buf seen;
    uint32_t limit_ms;
    bool told;
    void (*done)(void *arg, bool ours, const char *host_key, const struct error *err);
    void *arg;
};

/* Nothing of m may be touched after this. */
static void tell(struct meet *m, bool ours, const struct error *err)
{
    if (m->told)
        return;
    m->told = true;
    loop_timer_stop(m->limit);
    m->done(m->arg, ours, err ? NULL : transport_host_key(m->t), err);
}

static void tell_fault(struct meet *m, enum error_code code, const char *text)
{
    struct error err = ERROR_INIT;
    error_set(&err, code, "host \"%s\": %s", m->address, text);
    tell(m, false, &err);
}

static void opened(void *arg)
{
    struct meet *m = arg;
    loop_timer_start(m->limit, m->limit_ms);
}

static void data(void *arg, const uint8_t *bytes, size_t len)
{
    struct meet *m = arg;
    if (m->told)
        return;
    if (m->seen.len + len > ANSWER_MAX) {
        tell_fault(m, ERROR_PROTOCOL, "it prints much at each login, and does not say whose machine it is");
        return;
    }
    buf_append(&m->seen, bytes, len);
    const char *end = memmem(m->seen.data, m->seen.len, MARK_END "\n", strlen(MARK_END "\n"));
    const char *start = NULL, *at = m->seen.data;
    while (end && (at = memmem(at, (size_t)(end - at), "\n" MARK, strlen("\n" MARK)))) /* the last one before it */
        start = at += strlen("\n" MARK);
    if (!start)
        return;
    size_t size = (size_t)(end - start);
    tell(m, !m->token || (size == strlen(m->token) && memcmp(start, m->token, size) == 0), NULL);
}

static void closed(void *arg, const struct error *err, enum transport_phase phase)
{
    struct meet *m = arg;
    (void)phase;
    if (err->why == ERROR_WHY_HOST_KEY) {
        struct error other = ERROR_INIT;
        error_set(&other, ERROR_INFRA,
                  "host \"%s\": the host key is not that of this machine: it is not set up yet, or another machine "
                  "answers there",
                  m->address);
        error_why(&other, ERROR_WHY_HOST_KEY);
        tell(m, false, &other);
    } else {
        tell(m, false, err);
    }
}

static void limit_passed(void *arg)
{
    tell_fault(arg, ERROR_TIMEOUT, "its login takes too long, or no command works there: no answer to who it is");
}

struct meet *meet_begin(struct loop *loop, struct transport_pool *pool, const struct transport_host *host,
                        const char *token,
                        void (*done)(void *arg, bool ours, const char *host_key, const struct error *err), void *arg)
{
    static const struct transport_callbacks callbacks = {.opened = opened, .data = data, .closed = closed};
    struct transport_host there = *host;
    struct meet *m = xcalloc(1, sizeof(*m));
    m->token = token ? xstrdup(token) : NULL;
    m->address = xstrdup(host->name);
    m->limit_ms = host->timeout_ms ? host->timeout_ms : ANSWER_MS;
    m->done = done;
    m->arg = arg;
    m->limit = loop_timer_create(loop, limit_passed, m);
    there.command = COMMAND;
    there.wrap = NULL;
    m->t = transport_open(pool, &there, &callbacks, m);
    return m;
}

void meet_end(struct meet *m)
{
    if (!m)
        return;
    transport_close(m->t);
    loop_timer_destroy(m->limit);
    buf_free(&m->seen);
    free(m->token);
    free(m->address);
    free(m);
}
