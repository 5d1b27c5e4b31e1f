/*
 * Who the server is: the host key algorithms that we ask for, the verdict of known_hosts on the server's key, and the
 * meaning of a failed key exchange.
 */
#include "ssh_session.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

bool ssh_rsa_host_keys(void) /* rsa-sha2: from 1.11 on */
{
    return libssh2_version(0x010b00) != NULL;
}

/* Known types first, so that a server that has one of them uses it to prove itself. */
void ssh_set_host_key_types(struct ssh *s, unsigned known)
{
    static const struct {
        unsigned type;
        const char *names;
    } types[] = {
        {KEY_ED25519, "ssh-ed25519"},           {KEY_ECDSA_256, "ecdsa-sha2-nistp256"},
        {KEY_ECDSA_384, "ecdsa-sha2-nistp384"}, {KEY_ECDSA_521, "ecdsa-sha2-nistp521"},
        {KEY_RSA, "rsa-sha2-512,rsa-sha2-256"},
    };
    struct buf list = {0};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < ARRAY_LEN(types); i++)
            if (((known & types[i].type) != 0) == (round == 0) && (types[i].type != KEY_RSA || ssh_rsa_host_keys()))
                buf_printf(&list, "%s%s", list.len ? "," : "", types[i].names);
    libssh2_session_method_pref(s->session, LIBSSH2_METHOD_HOSTKEY, list.data);
    buf_free(&list);
}

void ssh_last_line(const char *text, char *out, size_t size)
{
    size_t end = strlen(text);
    while (end && (unsigned char)text[end - 1] <= ' ')
        end--;
    size_t start = end;
    while (start && text[start - 1] != '\n')
        start--;
    snprintf(out, size, "%.*s", (int)(end - start), text + start);
    config_hide_text(out);
}

void ssh_handshake_failed(struct ssh *s, int rc)
{
    char *message = NULL, line[300];
    libssh2_session_last_error(s->session, &message, NULL, 0);
    ssh_last_line(ssh_proxy_text(s), line, sizeof(line));
    if (s->proxy && (s->eof || s->io_errno)) {
        s->t->phase = TRANSPORT_CONNECT;
        struct buf name = {0};
        ssh_proxy_name(s, &name);
        transport_failf(s->t, ERROR_INFRA, "try the same with: ssh HOST", "through the proxy \"%s\": %s", name.data,
                        line[0] ? line : "it closed the connection");
        buf_free(&name);
    } else if (s->eof || s->io_errno) {
        if (ssh_retry(s))
            return;
        transport_failf(s->t, ERROR_INFRA,
                        "is it an SSH server, and does it accept connections from here (MaxStartups, fail2ban)?",
                        "the server closed the connection%s%s", s->io_errno ? ": " : "",
                        s->io_errno ? strerror(s->io_errno) : " before the key exchange was done");
    } else if ((rc == LIBSSH2_ERROR_KEX_FAILURE || rc == LIBSSH2_ERROR_KEY_EXCHANGE_FAILURE) && ssh_can_switch(s)) {
        transport_switch(s->t, &transport_openssh_ops);
    } else {
        transport_failf(s->t, ERROR_INFRA,
                        "libssh2 may lack what the server insists on (RSA host key, -etm MACs): set transport: openssh",
                        "%s", message && *message ? message : "the key exchange failed");
    }
}

static void fingerprint(const uint8_t *blob, size_t len, char out[64])
{
    uint8_t digest[32];
    digest_sha256(blob, len, digest);
    memcpy(out, "SHA256:", 7);
    EVP_EncodeBlock((unsigned char *)out + 7, digest, 32);
    out[7 + 43] = '\0'; /* without the padding */
}

static void keep_key(struct ssh *s, const uint8_t *blob, size_t len)
{
    struct buf text = {0};
    known_hosts_key(blob, len, &text);
    s->t->host_key = arena_strdup(s->t->arena, text.data);
    buf_free(&text);
}

static const char *quoted(struct ssh *s, const char *word)
{
    struct buf b = {0};
    buf_shell_quote(&b, word);
    const char *text = arena_strdup(s->t->arena, b.data);
    buf_free(&b);
    return text;
}

/* True: go on. */
bool ssh_host_key_ok(struct ssh *s)
{
    size_t len = 0;
    int libssh2_type;
    const uint8_t *blob = (const uint8_t *)libssh2_session_hostkey(s->session, &len, &libssh2_type);
    const char *type;
    size_t type_len;
    if (!blob || !blob_type(blob, len, &type, &type_len)) {
        transport_failf(s->t, ERROR_PROTOCOL, "", "the server sent no host key");
        return false;
    }
    char print[64], hint[sizeof(s->t->error.hint)] = "";
    const char *name = s->known_name;
    fingerprint(blob, len, print);
    digest_sha256_hex(blob, len, s->t->digest);
    const struct known_hosts_line *line;
    enum known_result result =
        known_hosts_check(s->t->pool, &s->config, name, key_type_of(type, type_len), blob, len, &line);
    const char *file = line ? line->file->path : "";
    unsigned number = line ? line->number : 0;
    switch (result) {
    case KNOWN_OK:
        keep_key(s, blob, len);
        return true;
    case KNOWN_REVOKED:
        transport_failf(s->t, ERROR_INFRA, "its owner declared this key stolen: do not connect",
                        "the key %s is revoked by %s:%u", print, file, number);
        break;
    case KNOWN_CHANGED:
        snprintf(hint, sizeof(hint),
                 "somebody may be between you and the host; if the change is expected: ssh-keygen -R %s -f %s, then %s",
                 quoted(s, name), quoted(s, file), transport_by_hand(&s->t->host, s->t->arena));
        transport_failf(s->t, ERROR_INFRA, hint, "the host key has changed: %s:%u lists another %.*s key than %s", file,
                        number, (int)type_len, type, print);
        break;
    case KNOWN_OTHER_TYPES:
        snprintf(hint, sizeof(hint), "compare the fingerprint with the owner's, then add the key: ssh-keyscan -t %.*s",
                 (int)type_len, type);
        transport_failf(s->t, ERROR_INFRA, hint, "the %.*s key %s is not known; %s:%u lists a key of another type",
                        (int)type_len, type, print, file, number);
        break;
    case KNOWN_BY_CA:
        transport_failf(s->t, ERROR_INFRA, "set transport: openssh",
                        "only a host certificate is trusted (%s:%u), and libssh2 has none", file, number);
        break;
    case KNOWN_UNKNOWN: {
        struct error err = ERROR_INIT;
        if (s->config.strict == STRICT_ACCEPT_NEW && s->config.user_known_hosts.count) {
            if (known_hosts_append(s->config.user_known_hosts.items[0], name, s->config.hash_known_hosts, blob, len,
                                   &err) == 0) {
                keep_key(s, blob, len);
                return true;
            }
            transport_failf(s->t, ERROR_IO, err.hint, "%s", err.text);
            s->t->digest[0] = '\0';
            return false;
        }
        snprintf(hint, sizeof(hint),
                 "connect once, and compare the fingerprint: %s; or set StrictHostKeyChecking accept-new in ssh_config",
                 transport_by_hand(&s->t->host, s->t->arena));
        transport_failf(s->t, ERROR_INFRA, hint, "the host is not in %s (%.*s %s)",
                        s->config.user_known_hosts.count ? s->config.user_known_hosts.items[0] : "known_hosts",
                        (int)type_len, type, print);
        break;
    }
    }
    transport_fail_why(s->t, ERROR_WHY_HOST_KEY);
    s->t->digest[0] = '\0';
    return false;
}
