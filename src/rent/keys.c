/*
 * A cluster's keys, all ed25519. Only the login key is random and stored. The host key of an intent is derived from it
 * and the intent's name by HMAC, so nothing else can be lost, and a host key, which travels in user data, reveals
 * nothing about the login key.
 */
#include "machine.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SEED = 32,
    PUBLIC = 32,
    SEED_AT = 161, /* offset in put_private's result before base64; everything before it has a fixed length */
    FILE_MAX = 4096,
    PEM_LINE = 70,
};
static const char type[] = "ssh-ed25519";
static const char pem_begin[] = "-----BEGIN OPENSSH PRIVATE KEY-----\n",
                  pem_end[] = "-----END OPENSSH PRIVATE KEY-----\n";

struct rent_keys {
    uint8_t seed[SEED];
    char *folder, *file, *public;
};

/* ---- the formats of OpenSSH (PROTOCOL.key) ---- */

static void put_u32(struct buf *b, uint32_t n)
{
    const uint8_t bytes[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    buf_append(b, bytes, sizeof(bytes));
}

static void put_string(struct buf *b, const void *data, size_t len)
{
    put_u32(b, (uint32_t)len);
    buf_append(b, data, len);
}

static void wipe(struct buf *b)
{
    if (b->data)
        OPENSSL_cleanse(b->data, b->cap);
    buf_free(b);
}

/* Enough room from the start: a buffer that grew would leave copies of the secret behind. */
static struct buf roomy(void)
{
    struct buf b = {0};
    buf_reserve(&b, 1024);
    return b;
}

static void base64(struct buf *b, const uint8_t *data, size_t len)
{
    buf_reserve(b, len / 3 * 4 + 8);
    b->len += (size_t)EVP_EncodeBlock((unsigned char *)b->data + b->len, data, (int)len);
}

static void public_of(const uint8_t seed[SEED], uint8_t ret[PUBLIC])
{
    size_t len = PUBLIC;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, SEED);
    if (!key || EVP_PKEY_get_raw_public_key(key, ret, &len) != 1)
        abort(); /* no memory */
    EVP_PKEY_free(key);
}

static void blob_of(const uint8_t public[PUBLIC], struct buf *ret)
{
    put_string(ret, type, strlen(type));
    put_string(ret, public, PUBLIC);
}

static void put_public(const uint8_t seed[SEED], struct buf *ret)
{
    uint8_t public[PUBLIC];
    struct buf blob = {0};
    public_of(seed, public);
    blob_of(public, &blob);
    buf_printf(ret, "%s ", type);
    base64(ret, (const uint8_t *)blob.data, blob.len);
    buf_free(&blob);
}

static void put_private(const uint8_t seed[SEED], const char *comment, struct buf *ret)
{
    static const char magic[] = "openssh-key-v1"; /* with its NUL */
    struct buf blob = {0}, secret = roomy(), all = roomy(), text = roomy();
    uint8_t public[PUBLIC], both[SEED + PUBLIC];
    public_of(seed, public);
    memcpy(both, seed, SEED);
    memcpy(both + SEED, public, PUBLIC);
    blob_of(public, &blob);
    const uint32_t check =
        (uint32_t) public[0] << 24 | (uint32_t) public[1] << 16 | (uint32_t) public[2] << 8 | public[3];
    put_u32(&secret, check);
    put_u32(&secret, check);
    put_string(&secret, type, strlen(type));
    put_string(&secret, public, PUBLIC);
    put_string(&secret, both, sizeof(both));
    put_string(&secret, comment, strlen(comment));
    for (char n = 1; secret.len % 8; n++)
        buf_putc(&secret, n);
    buf_append(&all, magic, sizeof(magic));
    put_string(&all, "none", 4);
    put_string(&all, "none", 4);
    put_string(&all, "", 0);
    put_u32(&all, 1);
    put_string(&all, blob.data, blob.len);
    put_string(&all, secret.data, secret.len);
    base64(&text, (const uint8_t *)all.data, all.len);
    buf_reserve(ret, 1024);
    buf_puts(ret, pem_begin);
    for (size_t at = 0; at < text.len; at += PEM_LINE) {
        buf_append(ret, text.data + at, text.len - at < PEM_LINE ? text.len - at : PEM_LINE);
        buf_putc(ret, '\n');
    }
    buf_puts(ret, pem_end);
    OPENSSL_cleanse(both, sizeof(both));
    buf_free(&blob);
    wipe(&secret);
    wipe(&all);
    wipe(&text);
}

/* Reads a file that put_private made: a file that does not begin and end in that way is not ours. */
static bool take_private(const struct buf *text, const char *comment, uint8_t ret[SEED])
{
    const char *start = text->len ? strstr(text->data, pem_begin) : NULL;
    const char *stop = start ? strstr(start, pem_end) : NULL;
    struct buf packed = roomy(), again = roomy();
    uint8_t data[FILE_MAX];
    bool good = false;
    for (const char *p = start ? start + strlen(pem_begin) : NULL; stop && p < stop; p++)
        if (*p != '\n')
            buf_putc(&packed, *p);
    int len = packed.len && packed.len % 4 == 0 && packed.len <= FILE_MAX
                  ? EVP_DecodeBlock(data, (const unsigned char *)packed.data, (int)packed.len)
                  : -1;
    if (len > SEED_AT + SEED + PUBLIC) {
        memcpy(ret, data + SEED_AT, SEED);
        put_private(ret, comment, &again);
        good = again.len == text->len && memcmp(again.data, text->data, text->len) == 0;
    }
    OPENSSL_cleanse(data, sizeof(data));
    wipe(&packed);
    wipe(&again);
    return good;
}

/* ---- the login key ---- */

static const char login_comment[] = "rhrun";

static int read_login(struct rent_keys *k, struct error *err)
{
    struct buf text = {0};
    int rc = file_read(k->file, FILE_MAX, &text, err);
    if (rc == 0 && !take_private(&text, login_comment, k->seed)) {
        rc = error_set(err, ERROR_IO, "the login key \"%s\" is damaged", k->file);
        error_hint(err,
                   "its machines let in nobody else: give them back with rhrun down, or in the provider's console");
    }
    wipe(&text);
    return rc;
}

static int make_login(struct rent_keys *k, struct error *err)
{
    struct buf text = roomy();
    random_bytes(k->seed, SEED);
    put_private(k->seed, login_comment, &text);
    int rc = file_write_atomic(k->file, text.data, text.len, 0600, err);
    wipe(&text);
    return rc;
}

struct rent_keys *rent_keys_open(const char *folder, struct error *err)
{
    struct stat st;
    struct rent_keys *k = xcalloc(1, sizeof(*k));
    struct buf public = {0};
    k->folder = xstrdup(folder);
    k->file = xasprintf("%s/id_ed25519", folder);
    int rc = mkdir_p(folder, 0700, err);
    if (rc == 0 && lstat(k->file, &st) == 0)
        rc = read_login(k, err);
    else if (rc == 0 && errno == ENOENT)
        rc = make_login(k, err);
    else if (rc == 0)
        rc = error_errno(err, ERROR_IO, errno, "cannot read the login key \"%s\"", k->file);
    if (rc != 0) {
        rent_keys_close(k);
        return NULL;
    }
    put_public(k->seed, &public);
    buf_printf(&public, " %s", login_comment);
    k->public = buf_steal(&public);
    return k;
}

void rent_keys_close(struct rent_keys *keys)
{
    if (!keys)
        return;
    free(keys->folder);
    free(keys->file);
    free(keys->public);
    OPENSSL_cleanse(keys, sizeof(*keys));
    free(keys);
}

const char *rent_login_file(const struct rent_keys *keys)
{
    return keys->file;
}

const char *rent_login_public(const struct rent_keys *keys)
{
    return keys->public;
}

/* ---- host keys ---- */

void rent_host_key(const struct rent_keys *keys, const char *intent, struct buf *ret_public, struct buf *ret_private)
{
    CLEANUP(cleanup_free) char *what = xasprintf("rhrun host key %s", intent);
    uint8_t seed[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (!HMAC(EVP_sha256(), keys->seed, SEED, (const uint8_t *)what, strlen(what), seed, &len) || len != SEED)
        abort(); /* no memory */
    if (ret_public)
        put_public(seed, ret_public);
    if (ret_private)
        put_private(seed, intent, ret_private);
    OPENSSL_cleanse(seed, sizeof(seed));
}

/* ---- doors ---- */

/* The provider chooses ids: one that could be a path, or is long, is hashed. */
static const char *known_hosts_of(const struct rent_keys *keys, const char *machine, struct arena *arena)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    char hex[65];
    size_t len = strlen(machine);
    if (len <= 64 && strspn(machine, plain) == len)
        return arena_printf(arena, "%s/known_hosts-%s", keys->folder, machine);
    digest_sha256_hex(machine, len, hex);
    return arena_printf(arena, "%s/known_hosts-.%s", keys->folder, hex);
}

/* The pattern "*": the file is for this machine alone, so the host's name does not matter. */
static int pin(const char *path, const char *host_key, struct error *err)
{
    CLEANUP(cleanup_free) char *line = xasprintf("* %s\n", host_key);
    struct buf text = {0};
    if (!str_is_printable(host_key) || strspn(host_key, " ") || !strchr(host_key, ' '))
        return error_set(err, ERROR_INTERNAL, "\"%.40s\" is not a host key", host_key);
    bool same = file_read(path, FILE_MAX, &text, NULL) == 0 && text.len && str_eq(text.data, line);
    buf_free(&text);
    return same ? 0 : file_write_atomic(path, line, strlen(line), 0600, err);
}

/* "HOST", "HOST:PORT", "[V6]:PORT" or an IPv6 address without a port. */
static int split(const char *address, struct arena *arena, struct transport_host *ret, struct error *err)
{
    const char *colon = strrchr(address, ':'), *end = address + strlen(address);
    bool bracket = address[0] == '[';
    uint32_t port = 22;
    if (colon && (bracket ? colon > address && colon[-1] == ']' : strchr(address, ':') == colon)) {
        if (!parse_u32(colon + 1, &port) || port == 0 || port > 65535)
            return error_set(err, ERROR_PROTOCOL, "\"%.100s\" is not an address: it has no such port", address);
        end = colon;
    }
    if (bracket && (end - address < 3 || end[-1] != ']'))
        return error_set(err, ERROR_PROTOCOL, "\"%.100s\" is not an address", address);
    const char *name = arena_strndup(arena, address + bracket, (size_t)(end - address) - 2u * bracket);
    static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-";
    if (!*name || *name == '-' || strlen(name) > 253 || strspn(name, may) != strlen(name))
        return error_set(err, ERROR_PROTOCOL, "\"%.100s\" is not an address", address);
    ret->name = name;
    ret->port = port;
    return 0;
}

int rent_door(const struct rent_keys *keys, const struct rent_door *door, struct arena *arena,
              struct transport_host *ret, struct error *err)
{
    struct transport_host host = {.user = arena_strdup(arena, door->user), .ssh_config = "none", .proxy_jump = "none"};
    if (!door->machine || !*door->machine)
        return error_set(err, ERROR_INTERNAL, "a machine without an id cannot be reached");
    if (split(door->address, arena, &host, err) != 0)
        return -1;
    host.identity_file = arena_strdup(arena, keys->file);
    host.known_hosts = known_hosts_of(keys, door->machine, arena);
    host.trust_first = !door->host_key;
    if (door->host_key && pin(host.known_hosts, door->host_key, err) != 0)
        return -1;
    *ret = host;
    return 0;
}
