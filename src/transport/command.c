/*
 * command: a program of this machine whose stdin and stdout carry the upload and then the agent's stream: `docker exec
 * -i NAME sh`, `kubectl exec -i POD -- sh`, `ssh` (openssh.c, the one case that has more to say). Its command line does
 * not pass through a shell.
 *
 * If the program leads to a shell that reads its stdin, the start script goes to that stdin. Some shells read ahead
 * (dash before 0.5.13 reads 8 KiB at a time), and the agent would lose those bytes. So nothing is sent after the script
 * until the script has answered; from then on `dd` reads, which never reads too much.
 */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct command {
    struct transport *t;
    const struct command_case *is;
    struct child_stream *stream;
    struct gate_ticket ticket;
};

static void spawn(struct command *c)
{
    struct transport *t = c->t;
    transport_set_phase(t, TRANSPORT_CONNECT);
    if (c->is->may_ask && t->pool->allow_prompt)
        loop_timer_stop(t->deadline); /* a person may be typing */
    else
        loop_timer_start(t->deadline, (uint64_t)transport_timeout_ms(t) * c->is->phases);
    const char *const *argv = c->is->arguments(t);
    c->stream = child_stream_start(t, NULL, argv, NULL, c->is->ended);
    /* Otherwise `opened` comes with the first bytes of the agent or the script: only these prove that there is a
     * shell. */
    if (c->stream && t->host.command)
        transport_started(t);
}

static void granted(void *arg)
{
    struct command *c = arg;
    transport_enter(c->t);
    if (!transport_stopped(c->t))
        spawn(c);
    transport_leave(c->t);
}

void command_begin(struct transport *t, const struct command_case *is, const char *gate, uint32_t port)
{
    struct command *c = xcalloc(1, sizeof(*c));
    c->t = t;
    c->is = is;
    t->impl = c;
    transport_set_phase(t, TRANSPORT_QUEUED);
    if (gate_enter(t->pool, &c->ticket, gate, port, granted, c))
        spawn(c);
}

void command_flush(struct transport *t)
{
    struct command *c = t->impl;
    if (t->phase == TRANSPORT_OPEN)
        gate_leave(&c->ticket);
    if (c->stream)
        child_stream_flush(c->stream);
}

void command_close(struct transport *t)
{
    struct command *c = t->impl;
    if (!c)
        return;
    t->impl = NULL;
    if (c->stream && !t->spoke) /* nothing has come through it, and it may be waiting for anything */
        child_stream_kill(c->stream, SIGTERM);
    child_stream_destroy(c->stream);
    gate_leave(&c->ticket);
    free(c);
}

bool command_again(struct transport *t)
{
    transport_switch(t, t->ops); /* a new one, in the next turn */
    return true;
}

/* ---- any program ---- */

static const char *const *arguments(struct transport *t)
{
    start_on_stdin(t);
    return t->host.exec;
}

static void ended(struct transport *t, int status, int sig, const char *said)
{
    const char *program = t->host.exec[0];
    if (t->phase == TRANSPORT_OPEN || t->phase == TRANSPORT_AGENT) {
        transport_ended(t, said);
        return;
    }
    char words[400], hint[300];
    transport_last_line(said, words, sizeof(words));
    if (!words[0] && t->start.seen.len)
        transport_last_line(t->start.seen.data, words, sizeof(words));
    snprintf(hint, sizeof(hint), "try it by hand: %s", transport_by_hand(&t->host, t->arena));
    if (sig)
        transport_failf(t, ERROR_INFRA, hint, "%s was killed by signal %d%s%s", program, sig, words[0] ? ": " : "",
                        words);
    else if (status == 0 && !words[0])
        transport_failf(t, ERROR_INFRA, "its last word must be a shell that reads its stdin, such as sh",
                        "%s ended well, but no shell answered", program);
    else
        transport_failf(t, ERROR_INFRA, hint, "%s ended with status %d%s%s", program, status, words[0] ? ": " : "",
                        words);
}

static void command_open(struct transport *t)
{
    static const struct command_case any = {.arguments = arguments, .ended = ended, .phases = 1};
    struct buf words = {0};
    char hex[65];
    if (!t->host.exec || !*t->host.exec) {
        transport_failf(t, ERROR_INFRA, "", "there is no command that leads to it");
        return;
    }
    for (const char *const *word = t->host.exec; *word; word++)
        buf_append(&words, *word, strlen(*word) + 1);
    digest_sha256_hex(words.data, words.len, hex);
    buf_free(&words);
    snprintf(t->digest, sizeof(t->digest), "command:%s", hex);
    command_begin(t, &any, t->host.exec[0], 0);
}

static bool command_timed_out(struct transport *t)
{
    char hint[300];
    if (t->phase != TRANSPORT_CONNECT)
        return false;
    snprintf(hint, sizeof(hint), "try it by hand: %s", transport_by_hand(&t->host, t->arena));
    transport_failf(t, ERROR_TIMEOUT, hint, "%s: no shell answered within %.3g s", t->host.exec[0],
                    transport_timeout_ms(t) / 1000.0);
    return true;
}

const struct transport_ops transport_command_ops = {
    .kind = TRANSPORT_COMMAND,
    .name = "command",
    .open = command_open,
    .flush = command_flush,
    .close = command_close,
    .timed_out = command_timed_out,
    .again = command_again,
};
