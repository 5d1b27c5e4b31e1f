/*
 * Logging in with public keys. The configured identities are offered first, then (unless IdentitiesOnly) the other keys
 * of the user's agent, five in all. libssh2 does not sign itself: it calls our callback, which makes RSA work on 1.10
 * (rsa-sha2-256 by a renamed blob, see libssh2_userauth_publickey) and never blocks on a passphrase.
 */
#include "ssh_session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIGN_RSA_SHA2_256 = 2 /* PROTOCOL.agent, 4.5.1 */ };

bool ssh_wants_openssh(struct ssh *s)
{
    if (s->config.beyond)
        return true;
    if (s->config.certificate_files.count)
        for (size_t i = 0; i < s->config.certificate_files.count; i++)
            if (access(s->config.certificate_files.items[i], R_OK) == 0)
                return true;
    for (size_t i = 0; i < s->config.identity_files.count; i++) {
        char *path = xasprintf("%s-cert.pub", s->config.identity_files.items[i]);
        bool found = access(path, R_OK) == 0;
        free(path);
        if (found)
            return true;
    }
    return false;
}

static const char *agent_socket(const struct ssh *s)
{
    const char *path = s->config.identity_agent;
    if (!path || strcmp(path, "SSH_AUTH_SOCK") == 0)
        return getenv("SSH_AUTH_SOCK");
    if (strcmp(path, "none") == 0)
        return NULL;
    return path[0] == '$' ? getenv(path + 1) : path;
}

static void problem(struct ssh *s, const char *path, const char *reason)
{
    buf_printf(&s->problems, "%s%s: %s", s->problems.len ? "; " : "", path, reason);
}

/* NULL when there are enough candidates, or this one is among them. */
static struct candidate *add(struct ssh *s, const uint8_t *blob, size_t len, const char *name)
{
    for (size_t i = 0; i < s->candidate_count; i++)
        if (s->candidates[i].blob_len == len && memcmp(s->candidates[i].blob, blob, len) == 0)
            return NULL;
    if (s->candidate_count == CANDIDATES_MAX)
        return NULL;
    struct candidate *c = &s->candidates[s->candidate_count++];
    *c = (struct candidate){.blob = xmalloc(len ? len : 1), .blob_len = len};
    memcpy(c->blob, blob, len);
    c->login_blob = key_login_blob(blob, len, &c->login_len);
    snprintf(c->name, sizeof(c->name), "%s", name);
    return c;
}

static bool signs_here_or_by(const struct agent_identity *list, size_t count, const struct key *k)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].len == k->blob_len && memcmp(list[i].blob, k->blob, k->blob_len) == 0)
            return true;
    return false;
}

/* The identity files, in order. list: the agent's keys, if it was asked. */
static void add_files(struct ssh *s, const struct agent_identity *list, size_t count, struct agent_client *client)
{
    for (size_t i = 0; i < s->config.identity_files.count; i++) {
        const char *path = s->config.identity_files.items[i];
        const struct key *k = key_load(s->t->pool, path);
        if (k->state == KEY_READY) {
            struct candidate *c = add(s, k->blob, k->blob_len, path);
            if (c)
                c->key = k;
        } else if (k->blob && signs_here_or_by(list, count, k)) {
            struct candidate *c = add(s, k->blob, k->blob_len, path);
            if (c)
                c->client = client;
        } else if (k->state == KEY_ENCRYPTED) {
            struct candidate *c = add(s, k->blob, k->blob_len, path);
            if (c)
                c->load_path = k->path;
        } else if (k->state == KEY_HARDWARE) {
            s->hardware = true;
            problem(s, path, "a hardware key, which only transport openssh can use");
        } else if (access(path, F_OK) == 0 || s->t->host.identity_file) {
            problem(s, path, k->reason);
        }
    }
}

static bool agent_needed(struct ssh *s)
{
    size_t ready = 0;
    for (size_t i = 0; i < s->config.identity_files.count; i++) {
        const struct key *k = key_load(s->t->pool, s->config.identity_files.items[i]);
        ready += k->state == KEY_READY;
        if (k->state == KEY_ENCRYPTED || (k->state == KEY_UNUSABLE && k->blob))
            return true;
    }
    return ready == 0 && !s->config.identities_only;
}

static void agent_listed(void *arg, const uint8_t *answer, size_t len)
{
    struct ssh *s = arg;
    struct agent_identity *list;
    size_t count = agent_identities(answer, len, &list);
    struct agent_client *client = agent_client_get(s->t->pool, agent_socket(s));
    add_files(s, list, count, client);
    if (!s->config.identities_only)
        for (size_t i = 0; i < count; i++) {
            const char *type;
            size_t type_len;
            /* sk-* signatures and certificates are beyond libssh2 */
            if (!blob_type(list[i].blob, list[i].len, &type, &type_len) || key_type_of(type, type_len) == KEY_OTHER)
                continue;
            char name[64];
            snprintf(name, sizeof(name), "a key of the ssh-agent (%.*s)", (int)type_len, type);
            struct candidate *c = add(s, list[i].blob, list[i].len, name);
            if (c)
                c->client = client;
        }
    for (size_t i = 0; i < count; i++)
        free(list[i].blob);
    free(list);
    s->step = STEP_AUTH;
    loop_timer_start(s->timer, 0); /* not directly: the pump may be below us on the stack */
}

static void ask_agent(struct ssh *s)
{
    s->agent_listed = true;
    s->step = STEP_AGENTS;
    buf_clear(&s->problems);
    agent_list(agent_client_get(s->t->pool, agent_socket(s)), &s->list_request, agent_listed, s);
}

void ssh_auth_begin(struct ssh *s)
{
    transport_set_phase(s->t, TRANSPORT_AUTH);
    if (agent_socket(s) && agent_needed(s)) {
        ask_agent(s);
        return;
    }
    add_files(s, NULL, 0, NULL);
    s->step = STEP_AUTH;
}

static void exhausted(struct ssh *s)
{
    struct buf text = {0};
    struct transport *t = s->t;
    if (s->hardware && t->host.kind == TRANSPORT_AUTO && !t->pool->no_ssh) {
        transport_switch(t, &transport_openssh_ops);
        return;
    }
    for (size_t i = 0; i < s->candidate_count; i++)
        if (s->candidates[i].offered)
            buf_printf(&text, "%s%s (publickey)",
                       text.len ? ", " : "the server accepted none of: ", s->candidates[i].name);
    const bool offered = text.len > 0;
    if (!offered)
        buf_puts(&text, "there is no key to offer");
    if (s->problems.len)
        buf_printf(&text, "; not offered: %s", s->problems.data);
    char hint[sizeof(t->error.hint)];
    if (offered)
        snprintf(hint, sizeof(hint),
                 "is the public key in authorized_keys of user \"%s\" there? set user or identity_file; by hand: %s",
                 s->config.user, transport_by_hand(&t->host, t->arena));
    else
        snprintf(hint, sizeof(hint), "set identity_file, or load a key: ssh-add FILE; by hand: %s",
                 transport_by_hand(&t->host, t->arena));
    transport_failf(t, ERROR_INFRA, hint, "%s", text.data);
    transport_fail_why(t, ERROR_WHY_LOGIN);
    buf_free(&text);
}

/* ---- signing ---- */

static void agent_signed(void *arg, const uint8_t *answer, size_t len)
{
    struct ssh *s = arg;
    s->sign = agent_signature(answer, len, &s->signature, &s->signature_len) == 0 ? SIGN_DONE : SIGN_FAILED;
    loop_timer_start(s->timer, 0); /* libssh2 may be below us on the stack: it asks again in the next turn */
}

static int sign(LIBSSH2_SESSION *session, unsigned char **sig, size_t *sig_len, const unsigned char *data,
                size_t data_len, void **abstract)
{
    struct ssh *s = *abstract;
    const struct candidate *c = &s->candidates[s->candidate];
    (void)session;
    if (c->key)
        return key_sign(c->key, data, data_len, sig, sig_len);
    if (s->sign == SIGN_NONE) {
        const char *type;
        size_t type_len;
        bool rsa = blob_type(c->blob, c->blob_len, &type, &type_len) && key_type_of(type, type_len) == KEY_RSA;
        s->sign = SIGN_WAITING;
        agent_sign(c->client, &s->sign_request, c->blob, c->blob_len, data, data_len, rsa ? SIGN_RSA_SHA2_256 : 0,
                   agent_signed, s);
    }
    if (s->sign == SIGN_WAITING)
        return LIBSSH2_ERROR_EAGAIN;
    if (s->sign == SIGN_FAILED)
        return -1;
    *sig = s->signature; /* libssh2 frees it */
    *sig_len = s->signature_len;
    s->signature = NULL;
    s->sign = SIGN_NONE;
    return 0;
}

static void loaded(void *arg, struct agent_client *client, const char *reason)
{
    struct ssh *s = arg;
    struct candidate *c = &s->candidates[s->candidate];
    c->client = client;
    if (!client) {
        problem(s, c->load_path, reason);
        s->candidate++;
    }
    c->load_path = NULL;
    s->step = STEP_AUTH;
    transport_set_phase(s->t, TRANSPORT_AUTH);
    loop_timer_start(s->timer, 0);
}

static void next_candidate(struct ssh *s)
{
    free(s->signature);
    s->signature = NULL;
    s->sign = SIGN_NONE;
    s->candidate++;
}

void ssh_auth_step(struct ssh *s, bool *ret_done, bool *ret_blocked)
{
    if (s->candidate == s->candidate_count) {
        if (!s->agent_listed && agent_socket(s) && !s->config.identities_only) {
            ask_agent(s);
            *ret_blocked = true;
            return;
        }
        exhausted(s);
        return;
    }
    struct candidate *c = &s->candidates[s->candidate];
    if (c->load_path) {
        s->step = STEP_LOAD;
        if (s->t->pool->allow_prompt)
            loop_timer_stop(s->t->deadline); /* a person may be typing */
        private_agent_add(s->t->pool, &s->load_waiter, c->load_path, loaded, s);
        *ret_blocked = true;
        return;
    }
    c->offered = true;
    int rc = libssh2_userauth_publickey(s->session, s->config.user, c->login_blob, c->login_len, sign, &s->t->impl);
    if (rc == LIBSSH2_ERROR_EAGAIN) {
        *ret_blocked = true;
    } else if (rc == 0) {
        *ret_done = true;
    } else if (s->eof || s->io_errno) {
        transport_failf(s->t, ERROR_INFRA, "the server's MaxAuthTries may be small: set identity_file",
                        "the server closed the connection%s%s", s->io_errno ? ": " : "",
                        s->io_errno ? strerror(s->io_errno) : "");
    } else {
        if (s->sign == SIGN_FAILED)
            problem(s, c->name, "its agent refused to sign");
        next_candidate(s);
    }
}

void ssh_auth_free(struct ssh *s)
{
    agent_cancel(&s->list_request);
    agent_cancel(&s->sign_request);
    private_agent_cancel(s->t->pool, &s->load_waiter);
    for (size_t i = 0; i < s->candidate_count; i++) {
        free(s->candidates[i].blob);
        free(s->candidates[i].login_blob);
    }
    s->candidate_count = s->candidate = 0;
    s->agent_listed = false;
    free(s->signature);
    s->signature = NULL;
    s->sign = SIGN_NONE;
    buf_free(&s->problems);
}
