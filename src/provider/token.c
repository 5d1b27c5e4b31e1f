/*
 * Access tokens of OAuth 2.0: the request (RFC 6749, 4.4 and 6; RFC 7523 with a JWT signed by RS256, RFC 7515 and
 * 7518), and its answer. The request's body is a secret.
 */
#include "internal.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

enum { LIFE_S = 3600, LIFE_UNKNOWN_S = 300 };

bool provider_wants_token(const struct provider *provider, const struct provider_credentials *c)
{
    (void)provider;
    return c && str_eq(doc_get_string(c->auth, "kind", ""), "oauth2");
}

/* A key with a passphrase is refused: rhrun does not ask for it at a terminal. */
static int no_passphrase(char *buf, int size, int write, void *data)
{
    (void)buf;
    (void)size;
    (void)write;
    (void)data;
    return 0;
}

static int sign_rs256(const char *pem, const struct buf *text, struct buf *out, struct error *err)
{
    int rc = -1;
    size_t len = 0;
    unsigned char *signature = NULL;
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    if (!key || EVP_PKEY_base_id(key) != EVP_PKEY_RSA) {
        error_set(err, ERROR_SPEC, "the private key of the credentials is not an RSA key in PEM without a passphrase");
        goto out;
    }
    if (!md || EVP_DigestSignInit(md, NULL, EVP_sha256(), NULL, key) != 1 ||
        EVP_DigestSign(md, NULL, &len, (const unsigned char *)text->data, text->len) != 1) {
        error_set(err, ERROR_INTERNAL, "could not sign with the private key of the credentials");
        goto out;
    }
    signature = xmalloc(len);
    if (EVP_DigestSign(md, signature, &len, (const unsigned char *)text->data, text->len) != 1) {
        error_set(err, ERROR_INTERNAL, "could not sign with the private key of the credentials");
        goto out;
    }
    base64_append(out, signature, len, true);
    rc = 0;
out:
    free(signature);
    EVP_MD_CTX_free(md);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return rc;
}

static void put_part(struct arena *arena, const struct doc_node *part, struct buf *out)
{
    struct buf json = {0};
    (void)arena;
    doc_to_json(part, DOC_JSON_PLAIN, &json);
    base64_append(out, json.data, json.len, true);
    buf_free(&json);
}

static void put_text(struct arena *arena, struct doc_node *object, const char *key, const char *value)
{
    if (value)
        doc_set(arena, object, key, doc_new_string(arena, value));
}

static int make_jwt(const struct provider_credentials *c, const char *url, uint64_t now_s, struct arena *arena,
                    struct buf *out, struct error *err)
{
    struct doc_node *head = doc_new_object(arena), *claims = doc_new_object(arena);
    const char *pem = credential_value(c, "private_key");
    put_text(arena, head, "alg", "RS256");
    put_text(arena, head, "typ", "JWT");
    put_text(arena, head, "kid", credential_value(c, "private_key_id"));
    put_text(arena, claims, "iss", credential_value(c, "client_email"));
    put_text(arena, claims, "scope", doc_get_string(c->auth, "scope", NULL));
    put_text(arena, claims, "aud", url);
    doc_set(arena, claims, "iat", doc_new_int(arena, (int64_t)now_s));
    doc_set(arena, claims, "exp", doc_new_int(arena, (int64_t)(now_s + LIFE_S)));
    put_part(arena, head, out);
    buf_putc(out, '.');
    put_part(arena, claims, out);
    struct buf signature = {0};
    int rc = sign_rs256(pem ? pem : "", out, &signature, err);
    if (rc == 0)
        buf_printf(out, ".%s", signature.data);
    buf_free(&signature);
    return rc;
}

/* Credentials must go over TLS, or stay on this machine. */
static bool address_good(const char *url)
{
    return str_is_printable(url) && !strchr(url, ' ') && strlen(url) <= URL_MAX &&
           (str_starts(url, "https://") || str_starts(url, "http://127.0.0.1:") || str_starts(url, "http://[::1]:"));
}

static int fill_form(const struct provider_credentials *c, const char *url, uint64_t now_s, struct arena *arena,
                     struct doc_node *form, struct error *err)
{
    const char *grant = doc_get_string(c->auth, "grant", "");
    struct buf jwt = {0};
    if (str_eq(grant, "jwt_rs256")) {
        if (make_jwt(c, url, now_s, arena, &jwt, err) < 0) {
            buf_free(&jwt);
            return -1;
        }
        put_text(arena, form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
        put_text(arena, form, "assertion", jwt.data);
        buf_free(&jwt);
        return 0;
    }
    put_text(arena, form, "grant_type", grant);
    put_text(arena, form, "client_id", credential_value(c, "client_id"));
    put_text(arena, form, "client_secret", credential_value(c, "client_secret"));
    if (str_eq(grant, "refresh_token"))
        put_text(arena, form, "refresh_token", credential_value(c, "refresh_token"));
    else
        put_text(arena, form, "scope", doc_get_string(c->auth, "scope", NULL));
    return 0;
}

int provider_token_request(const struct provider *provider, const struct provider_credentials *c, uint64_t now_s,
                           struct arena *arena, struct provider_request *ret_request, struct error *err)
{
    const char *url = doc_get_string(c->auth, "token_url", "");
    struct doc_node *form = doc_new_object(arena);
    struct buf body = {0};
    if (url[0] == '$')
        url = credential_value(c, url + 1);
    if (!url || !address_good(url))
        return error_set(err, ERROR_SPEC, "%s: the address for access tokens is missing, or not https",
                         provider->facts.name);
    if (fill_form(c, url, now_s, arena, form, err) < 0 || encode_form(form, &body, err) < 0) {
        error_prefix(err, "%s", provider->facts.name);
        buf_free(&body);
        return -1;
    }
    struct provider_header *headers = arena_array(arena, 2, sizeof *headers);
    headers[0] = (struct provider_header){"accept", "application/json"};
    headers[1] = (struct provider_header){"content-type", "application/x-www-form-urlencoded"};
    *ret_request = (struct provider_request){.method = "POST",
                                             .url = arena_strdup(arena, url),
                                             .headers = headers,
                                             .header_count = 2,
                                             .body = arena_strndup(arena, body.data, body.len),
                                             .body_len = body.len,
                                             .group = "token",
                                             .secret = true};
    explicit_bzero(body.data, body.len);
    buf_free(&body);
    return 0;
}

int provider_token_reply(const struct provider *provider, const struct provider_credentials *c,
                         const struct provider_reply *reply, struct arena *arena, const char **ret_token,
                         uint64_t *ret_life_s, struct error *err)
{
    const struct provider_ask ask = {.operation = PROVIDER_SWEEP};
    struct filling fill = {provider, &ask, arena, NULL};
    struct answer a = {.fill = &fill, .reply = reply, .arena = arena, .kind = BODY_JSON};
    bool read = answer_read(&a);
    const char *token = read ? doc_get_string(a.json, "access_token", NULL) : NULL;
    int64_t life = read ? doc_get_int(a.json, "expires_in", 0) : 0;
    if (reply->status == 200 && token && token[0] && strlen(token) <= URL_MAX && str_is_printable(token)) {
        *ret_token = arena_strdup(arena, token);
        *ret_life_s = life > 0 && life <= 86400 ? (uint64_t)life : LIFE_UNKNOWN_S;
        return 0;
    }
    char *why =
        arena_strdup(arena, read ? doc_get_string(a.json, "error", "no reason given") : "the reply is not JSON");
    provider_redact(c, why);
    str_printable(why);
    error_set(err, ERROR_INFRA, "%s: no access token was given: %.200s (status %d)", provider->facts.name, why,
              reply->status);
    return reply->status == 400 || reply->status == 401 ? error_why(err, ERROR_WHY_CREDENTIALS) : -1;
}
