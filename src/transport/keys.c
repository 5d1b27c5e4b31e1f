/*
 * Identity files: OpenSSH's own format (PROTOCOL.key) and PEM, when they are not encrypted, are read and used for
 * signing in this process: no agent has to be started for the usual case. Everything else goes through an ssh-agent, so
 * this process never sees a passphrase.
 */
#include "ssh.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_FILE_MAX = 64 << 10 };

struct cursor {
    const uint8_t *p, *end;
    bool bad;
};
struct bytes {
    const uint8_t *p;
    size_t len;
};

static uint32_t get_u32(struct cursor *c)
{
    if (c->bad || c->end - c->p < 4) {
        c->bad = true;
        return 0;
    }
    uint32_t v = (uint32_t)c->p[0] << 24 | (uint32_t)c->p[1] << 16 | (uint32_t)c->p[2] << 8 | c->p[3];
    c->p += 4;
    return v;
}

static struct bytes get_string(struct cursor *c)
{
    uint32_t n = get_u32(c);
    if (c->bad || n > (size_t)(c->end - c->p)) {
        c->bad = true;
        return (struct bytes){(const uint8_t *)"", 0};
    }
    struct bytes b = {c->p, n};
    c->p += n;
    return b;
}

static bool bytes_are(struct bytes b, const char *s)
{
    return b.len == strlen(s) && memcmp(b.p, s, b.len) == 0;
}

static void put_string(struct buf *out, const void *data, size_t len)
{
    uint8_t n[4] = {(uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    buf_append(out, n, 4);
    buf_append(out, data, len);
}

/* Unsigned big-endian number as an SSH mpint. */
static void put_mpint(struct buf *out, const uint8_t *data, size_t len)
{
    while (len && *data == 0) {
        data++;
        len--;
    }
    uint8_t n[5] = {0};
    bool pad = len && (data[0] & 0x80);
    size_t total = len + pad;
    n[0] = (uint8_t)(total >> 24), n[1] = (uint8_t)(total >> 16), n[2] = (uint8_t)(total >> 8), n[3] = (uint8_t)total;
    buf_append(out, n, pad ? 5 : 4);
    buf_append(out, data, len);
}

static void put_bn(struct buf *out, const BIGNUM *bn)
{
    uint8_t data[1024];
    if (BN_num_bytes(bn) > (int)sizeof(data))
        return;
    int n = BN_bn2bin(bn, data);
    put_mpint(out, data, (size_t)n);
}

/* ---- building EVP_PKEY from OpenSSH's private section ---- */

static EVP_PKEY *from_params(const char *algorithm, OSSL_PARAM_BLD *bld)
{
    EVP_PKEY *pkey = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(bld);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, algorithm, NULL);
    if (!params || !ctx || EVP_PKEY_fromdata_init(ctx) <= 0 ||
        EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_KEYPAIR, params) <= 0)
        pkey = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return pkey;
}

static EVP_PKEY *rsa_from(struct cursor *c)
{
    enum { N, E, D, IQMP, P, Q, COUNT };
    static const char *const names[COUNT] = {
        OSSL_PKEY_PARAM_RSA_N,       OSSL_PKEY_PARAM_RSA_E,
        OSSL_PKEY_PARAM_RSA_D,       OSSL_PKEY_PARAM_RSA_COEFFICIENT1,
        OSSL_PKEY_PARAM_RSA_FACTOR1, OSSL_PKEY_PARAM_RSA_FACTOR2,
    };
    BIGNUM *bn[COUNT], *dp = BN_new(), *dq = BN_new(), *tmp = BN_new();
    BN_CTX *ctx = BN_CTX_new();
    OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
    for (int i = 0; i < COUNT; i++) {
        struct bytes b = get_string(c);
        bn[i] = BN_bin2bn(b.p, (int)(b.len > 4096 ? 0 : b.len), NULL);
        if (i == D || i >= IQMP)
            BN_set_flags(bn[i], BN_FLG_CONSTTIME);
        OSSL_PARAM_BLD_push_BN(bld, names[i], bn[i]);
    }
    EVP_PKEY *pkey = NULL;
    if (!c->bad && !BN_is_zero(bn[P]) && !BN_is_zero(bn[Q])) {
        BN_sub(tmp, bn[P], BN_value_one());
        BN_mod(dp, bn[D], tmp, ctx);
        BN_sub(tmp, bn[Q], BN_value_one());
        BN_mod(dq, bn[D], tmp, ctx);
        OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_EXPONENT1, dp);
        OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_EXPONENT2, dq);
        pkey = from_params("RSA", bld);
    }
    OSSL_PARAM_BLD_free(bld);
    for (int i = 0; i < COUNT; i++)
        BN_clear_free(bn[i]);
    BN_clear_free(dp);
    BN_clear_free(dq);
    BN_clear_free(tmp);
    BN_CTX_free(ctx);
    return pkey;
}

static EVP_PKEY *ecdsa_from(struct cursor *c)
{
    struct bytes curve = get_string(c), q = get_string(c), d = get_string(c);
    const char *group = bytes_are(curve, "nistp256")   ? "prime256v1"
                        : bytes_are(curve, "nistp384") ? "secp384r1"
                        : bytes_are(curve, "nistp521") ? "secp521r1"
                                                       : NULL;
    if (c->bad || !group || d.len > 128)
        return NULL;
    OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
    BIGNUM *secret = BN_bin2bn(d.p, (int)d.len, NULL);
    OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, group, 0);
    OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, q.p, q.len);
    OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_PRIV_KEY, secret);
    EVP_PKEY *pkey = from_params("EC", bld);
    OSSL_PARAM_BLD_free(bld);
    BN_clear_free(secret);
    return pkey;
}

static void key_problem(struct key *k, enum key_state state, const char *reason)
{
    k->state = state;
    snprintf(k->reason, sizeof(k->reason), "%.*s", (int)sizeof(k->reason) - 1, reason);
}

static bool set_blob(struct key *k, const uint8_t *blob, size_t len)
{
    const char *type;
    size_t type_len;
    if (!blob_type(blob, len, &type, &type_len) || type_len >= sizeof(k->type))
        return false;
    free(k->blob);
    k->blob = xmalloc(len);
    memcpy(k->blob, blob, len);
    k->blob_len = len;
    memcpy(k->type, type, type_len);
    k->type[type_len] = '\0';
    return true;
}

static void parse_openssh(struct key *k, const uint8_t *data, size_t len)
{
    static const char magic[] = "openssh-key-v1"; /* with its NUL */
    struct cursor c = {data, data + len, false};
    if (len < sizeof(magic) || memcmp(data, magic, sizeof(magic)) != 0) {
        key_problem(k, KEY_UNUSABLE, "not a private key in OpenSSH's format");
        return;
    }
    c.p += sizeof(magic);
    struct bytes cipher = get_string(&c);
    get_string(&c);
    get_string(&c);
    uint32_t count = get_u32(&c);
    struct bytes public = get_string(&c), private = get_string(&c);
    if (c.bad || count != 1 || !set_blob(k, public.p, public.len)) {
        key_problem(k, KEY_UNUSABLE, "the key file is damaged");
        return;
    }
    if (strncmp(k->type, "sk-", 3) == 0) {
        key_problem(k, KEY_HARDWARE, "a hardware key");
        return;
    }
    if (!bytes_are(cipher, "none")) {
        key_problem(k, KEY_ENCRYPTED, "encrypted");
        return;
    }
    struct cursor p = {private.p, private.p + private.len, false};
    uint32_t check = get_u32(&p);
    if (get_u32(&p) != check)
        p.bad = true;
    struct bytes type = get_string(&p);
    EVP_PKEY *pkey = NULL;
    if (!p.bad && bytes_are(type, "ssh-ed25519")) {
        get_string(&p);
        struct bytes secret = get_string(&p);
        if (!p.bad && secret.len == 64)
            pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret.p, 32);
    } else if (!p.bad && bytes_are(type, "ssh-rsa")) {
        pkey = rsa_from(&p);
    } else if (!p.bad && type.len > 11 && memcmp(type.p, "ecdsa-sha2-", 11) == 0) {
        pkey = ecdsa_from(&p);
    }
    k->evp = pkey;
    if (pkey)
        k->state = KEY_READY;
    else
        key_problem(k, KEY_UNUSABLE, "the key file is damaged or of an unknown type");
}

/* ---- PEM ---- */

static int no_passphrase(char *out, int size, int rwflag, void *arg)
{
    (void)out, (void)size, (void)rwflag;
    *(bool *)arg = true;
    return -1;
}

static bool blob_from_evp(struct key *k, EVP_PKEY *pkey)
{
    struct buf blob = {0};
    if (EVP_PKEY_is_a(pkey, "RSA")) {
        BIGNUM *n = NULL, *e = NULL;
        EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_N, &n);
        EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_E, &e);
        if (n && e) {
            put_string(&blob, "ssh-rsa", 7);
            put_bn(&blob, e);
            put_bn(&blob, n);
        }
        BN_free(n);
        BN_free(e);
    } else if (EVP_PKEY_is_a(pkey, "EC")) {
        static const struct {
            const char *group, *name;
        } curves[] = {{"prime256v1", "nistp256"}, {"secp384r1", "nistp384"}, {"secp521r1", "nistp521"}};
        char group[64] = "", type[64];
        uint8_t point[256];
        size_t len = 0;
        EVP_PKEY_get_utf8_string_param(pkey, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group), NULL);
        EVP_PKEY_get_octet_string_param(pkey, OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY, point, sizeof(point), &len);
        for (size_t i = 0; i < ARRAY_LEN(curves); i++)
            if (len && strcmp(curves[i].group, group) == 0) {
                int n = snprintf(type, sizeof(type), "ecdsa-sha2-%s", curves[i].name);
                put_string(&blob, type, (size_t)n);
                put_string(&blob, curves[i].name, strlen(curves[i].name));
                put_string(&blob, point, len);
            }
    } else if (EVP_PKEY_is_a(pkey, "ED25519")) {
        uint8_t public[32];
        size_t len = sizeof(public);
        if (EVP_PKEY_get_raw_public_key(pkey, public, &len) == 1) {
            put_string(&blob, "ssh-ed25519", 11);
            put_string(&blob, public, len);
        }
    }
    bool ok = blob.len && set_blob(k, (const uint8_t *)blob.data, blob.len);
    buf_free(&blob);
    return ok;
}

static void read_public(struct key *k)
{
    char *path = xasprintf("%s.pub", k->path);
    struct buf text = {0};
    if (file_read(path, KEY_FILE_MAX, &text, NULL) == 0 && text.len) {
        char *start = strchr(text.data, ' ');
        size_t len = start ? strcspn(start + 1, " \r\n") : 0;
        uint8_t *blob = xmalloc(len / 4 * 3 + 4);
        int n = len && len % 4 == 0 ? EVP_DecodeBlock(blob, (uint8_t *)start + 1, (int)len) : -1;
        while (len && n > 0 && start[len] == '=') {
            len--;
            n--;
        }
        if (n > 0)
            set_blob(k, blob, (size_t)n);
        free(blob);
    }
    buf_free(&text);
    free(path);
}

static void parse_pem(struct key *k, const struct buf *text)
{
    bool asked = false;
    BIO *bio = BIO_new_mem_buf(text->data, (int)text->len);
    EVP_PKEY *pkey = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &asked);
    BIO_free(bio);
    if (pkey && blob_from_evp(k, pkey)) {
        k->evp = pkey;
        k->state = KEY_READY;
        return;
    }
    EVP_PKEY_free(pkey);
    read_public(k);
    if (asked)
        key_problem(k, k->blob ? KEY_ENCRYPTED : KEY_UNUSABLE, "encrypted, and there is no .pub file beside it");
    else
        key_problem(k, KEY_UNUSABLE, "not a private key");
}

/* ---- files ---- */

static void parse_file(struct key *k, const struct buf *text)
{
    static const char begin[] = "-----BEGIN OPENSSH PRIVATE KEY-----", end[] = "-----END OPENSSH";
    const char *start = text->len ? strstr(text->data, begin) : NULL;
    const char *stop = start ? strstr(start, end) : NULL;
    if (!stop) {
        if (text->len)
            parse_pem(k, text);
        else
            key_problem(k, KEY_UNUSABLE, "the file is empty");
        return;
    }
    size_t len = 0;
    char *base64 = xmalloc(text->len + 4);
    for (const char *p = start + strlen(begin); p < stop; p++)
        if ((unsigned char)*p > ' ')
            base64[len++] = *p;
    uint8_t *data = xmalloc(len / 4 * 3 + 4);
    int n = len % 4 == 0 ? EVP_DecodeBlock(data, (uint8_t *)base64, (int)len) : -1;
    if (n > 0)
        parse_openssh(k, data, (size_t)n);
    else
        key_problem(k, KEY_UNUSABLE, "the key file is damaged");
    OPENSSL_cleanse(data, len / 4 * 3);
    OPENSSL_cleanse(base64, len);
    free(data);
    free(base64);
}

static void key_read(struct key *k)
{
    struct stat st;
    struct buf text = {0};
    struct error err = ERROR_INIT;
    if (stat(k->path, &st) != 0) {
        key_problem(k, KEY_UNUSABLE, strerror(errno));
        read_public(k); /* the private half may be in an agent */
        return;
    }
    k->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (st.st_uid == getuid() && (st.st_mode & 077)) { /* as ssh does: others may read it */
        snprintf(k->reason, sizeof(k->reason), "its permissions %04o are too open (chmod 600)", st.st_mode & 0777);
        k->state = KEY_UNUSABLE;
        return;
    }
    if (file_read(k->path, KEY_FILE_MAX, &text, &err) != 0)
        key_problem(k, KEY_UNUSABLE, err.text);
    else
        parse_file(k, &text);
    if (text.data)
        OPENSSL_cleanse(text.data, text.cap);
    buf_free(&text);
}

static void key_clear(struct key *k)
{
    EVP_PKEY_free(k->evp);
    free(k->blob);
    k->evp = NULL;
    k->blob = NULL;
    k->blob_len = 0;
    k->type[0] = k->reason[0] = '\0';
    k->mtime_ns = 0;
}

struct key *key_load(struct transport_pool *pool, const char *path)
{
    struct key *k = pool->keys;
    while (k && strcmp(k->path, path) != 0)
        k = k->next;
    struct stat st;
    int64_t mtime_ns = stat(path, &st) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec : 0;
    if (k && k->state != KEY_UNUSABLE && k->mtime_ns == mtime_ns)
        return k;
    if (!k) {
        k = xcalloc(1, sizeof(*k));
        k->path = xstrdup(path);
        k->next = pool->keys;
        pool->keys = k;
    }
    key_clear(k);
    key_read(k);
    return k;
}

void keys_destroy(struct transport_pool *pool)
{
    while (pool->keys) {
        struct key *k = pool->keys;
        pool->keys = k->next;
        key_clear(k);
        free(k->path);
        free(k);
    }
}

/* ---- signing ---- */

uint8_t *key_login_blob(const uint8_t *blob, size_t len, size_t *ret_len)
{
    const char *type;
    size_t type_len;
    struct buf out = {0};
    if (blob_type(blob, len, &type, &type_len) && key_type_of(type, type_len) == KEY_RSA) {
        put_string(&out, "rsa-sha2-256", 12);
        buf_append(&out, blob + 4 + type_len, len - 4 - type_len);
    } else {
        buf_append(&out, blob, len);
    }
    *ret_len = out.len;
    return (uint8_t *)buf_steal(&out);
}

/* DER to mpint r, mpint s (RFC 5656, 3.1.2) */
static bool ecdsa_signature(const uint8_t *der, size_t len, struct buf *out)
{
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);
    if (!sig)
        return false;
    put_bn(out, ECDSA_SIG_get0_r(sig));
    put_bn(out, ECDSA_SIG_get0_s(sig));
    ECDSA_SIG_free(sig);
    return true;
}

int key_sign(const struct key *k, const uint8_t *data, size_t len, uint8_t **ret, size_t *ret_len)
{
    const EVP_MD *md = NULL;
    if (strcmp(k->type, "ssh-rsa") == 0 || strcmp(k->type, "ecdsa-sha2-nistp256") == 0)
        md = EVP_sha256();
    else if (strcmp(k->type, "ecdsa-sha2-nistp384") == 0)
        md = EVP_sha384();
    else if (strcmp(k->type, "ecdsa-sha2-nistp521") == 0)
        md = EVP_sha512();
    uint8_t raw[2048];
    size_t raw_len = sizeof(raw);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok =
        EVP_DigestSignInit(ctx, NULL, md, NULL, k->evp) == 1 && EVP_DigestSign(ctx, raw, &raw_len, data, len) == 1;
    EVP_MD_CTX_free(ctx);
    struct buf out = {0};
    if (ok && strncmp(k->type, "ecdsa-", 6) == 0)
        ok = ecdsa_signature(raw, raw_len, &out);
    else if (ok)
        buf_append(&out, raw, raw_len);
    if (!ok) {
        buf_free(&out);
        return -1;
    }
    *ret_len = out.len;
    *ret = (uint8_t *)buf_steal(&out);
    return 0;
}
