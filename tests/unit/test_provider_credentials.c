/* provider: where credentials are found, the messages when they are missing, and access tokens. */
#include "provider_scene.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

/* ---- credentials ---- */

static enum provider_found find(struct fixture *f, struct provider_credentials **ret)
{
    const char *const *exec = NULL;
    f->err = (struct error)ERROR_INIT;
    *ret = NULL;
    return provider_credentials_find(f->provider, f->arena, ret, &exec, &f->err);
}

static const char *token_of(struct fixture *f, const struct provider_credentials *c)
{
    struct doc_node *inputs = doc_new_object(f->arena);
    struct provider_request r;
    doc_set(f->arena, inputs, "region", doc_new_string(f->arena, "r"));
    doc_set(f->arena, inputs, "run", doc_new_string(f->arena, "r"));
    const struct provider_ask ask = {.operation = PROVIDER_STOCK, .inputs = inputs, .credentials = c};
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &r, &f->err), 0);
    assert_int_equal(r.auth.kind, PROVIDER_AUTH_BEARER);
    return r.auth.value;
}

static void test_missing_credentials_are_named(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c;
    unsetenv("HCLOUD_TOKEN");
    unsetenv("HCLOUD_CONFIG");
    assert_int_equal(provider_load("hetzner", f->arena, &f->provider, &f->diagnostics, &f->err), 0);
    assert_int_equal(find(f, &c), PROVIDER_MISSING);
    assert_string_equal(f->err.text, "there are no credentials for Hetzner Cloud (hetzner)");
    assert_string_equal(f->err.hint,
                        "looked for HCLOUD_TOKEN, or ~/.config/hcloud/cli.toml (or the file that HCLOUD_CONFIG names)");
    assert_int_equal(f->err.why, ERROR_WHY_CREDENTIALS);
    setenv("HCLOUD_CONFIG", "/nonexistent/cli.toml", 1);
    assert_int_equal(find(f, &c), PROVIDER_MISSING);
    assert_non_null(strstr(f->err.text, "/nonexistent/cli.toml"));
    unsetenv("HCLOUD_CONFIG");
}

static void test_a_file_with_several_sections(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c;
    char *folder = temp_folder(f), *path = arena_printf(f->arena, "%s/cli.toml", folder);
    write_file(path, "active_context = \"two\"\n\n[[contexts]]\nname = \"one\"\ntoken = \"first-secret\"\n"
                     "[[contexts]]\n  name = \"two\"\n  token = 'second-secret'\n");
    setenv("HCLOUD_CONFIG", path, 1);
    unsetenv("HCLOUD_TOKEN");
    assert_int_equal(provider_load("hetzner", f->arena, &f->provider, &f->diagnostics, &f->err), 0);
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    assert_string_equal(token_of(f, c), "second-secret");
    char text[] = "no: second-secret, second-secret!";
    provider_redact(c, text);
    assert_string_equal(text, "no: ***, ***!");
    provider_credentials_destroy(c);
    write_file(path, "active_context = \"three\"\n[[contexts]]\nname = \"one\"\ntoken = \"first-secret\"\n");
    assert_int_equal(find(f, &c), PROVIDER_MISSING);
    unlink(path);
    rmdir(folder);
    unsetenv("HCLOUD_CONFIG");
}

static void test_half_of_the_credentials_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c;
    char *file = replaced(f, small, "{kind: bearer, value: token}", "{kind: basic, user: name, password: token}");
    file = replaced(f, file, "{token: SMALL_TOKEN}", "{name: SMALL_NAME, token: SMALL_TOKEN}");
    assert_int_equal(load(f, file), 0);
    setenv("SMALL_NAME", "very-secret-name", 1);
    unsetenv("SMALL_TOKEN");
    assert_int_equal(find(f, &c), PROVIDER_MISSING);
    assert_non_null(strstr(f->err.text, "SMALL_TOKEN is not there"));
    assert_null(strstr(f->err.text, "very-secret"));
    unsetenv("SMALL_NAME");
    assert_int_equal(find(f, &c), PROVIDER_MISSING);
    assert_non_null(strstr(f->err.hint, "SMALL_NAME and SMALL_TOKEN"));
}

static void test_a_program_prints_credentials(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c = NULL;
    const char *const *exec = NULL;
    static const char output[] = "{\"a\": {\"token\": \"printed-secret\"}}\n";
    char *file = replaced(f, small, "[{env: {token: SMALL_TOKEN}}]",
                          "[{exec: [helper, \"--x y\"], format: json, keys: {token: /a/token}}]");
    assert_int_equal(load(f, file), 0);
    assert_int_equal(provider_credentials_find(f->provider, f->arena, &c, &exec, &f->err), PROVIDER_EXEC);
    assert_string_equal(exec[0], "helper");
    assert_string_equal(exec[1], "--x y");
    assert_null(exec[2]);
    assert_int_equal(provider_credentials_take(f->provider, output, strlen(output), &c, &f->err), 0);
    assert_string_equal(token_of(f, c), "printed-secret");
    assert_string_equal(provider_credentials_source(c), "helper");
    provider_credentials_destroy(c);
    assert_int_equal(provider_credentials_take(f->provider, "secret{", 7, &c, &f->err), -1);
    assert_null(strstr(f->err.text, "secret{"));
    assert_int_equal(provider_credentials_take(f->provider, "{}", 2, &c, &f->err), -1);
}

static const char *digest(struct fixture *f, const struct provider_credentials *c, const char *salt)
{
    char hex[65];
    provider_account_digest(f->provider, c, salt, hex);
    return arena_strdup(f->arena, hex);
}

static const char *digest_of_token(struct fixture *f, const char *token, const char *salt)
{
    struct provider_credentials *c;
    setenv("SMALL_TOKEN", token, 1);
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    const char *hex = digest(f, c, salt);
    provider_credentials_destroy(c);
    unsetenv("SMALL_TOKEN");
    return hex;
}

static void test_accounts_are_told_apart(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(load(f, small), 0);
    const char *one = digest_of_token(f, "secret-of-one", "a");
    assert_string_equal(one, digest_of_token(f, "secret-of-one", "a"));
    assert_string_not_equal(one, digest_of_token(f, "secret-of-two", "a"));
    assert_string_not_equal(one, digest_of_token(f, "secret-of-one", "b"));
}

/* The output of a program, or of a sign-on, is new each hour. */
static void test_passing_credentials_do_not_tell_accounts_apart(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c = NULL;
    const char *seen[2];
    char *file =
        replaced(f, small, "[{env: {token: SMALL_TOKEN}}]", "[{exec: [helper], format: text, keys: {token: \"\"}}]");
    assert_int_equal(load(f, file), 0);
    for (int i = 0; i < 2; i++) {
        const char *output = i ? "of-the-second-hour" : "of-the-first-hour";
        assert_int_equal(provider_credentials_take(f->provider, output, strlen(output), &c, &f->err), 0);
        seen[i] = digest(f, c, "a");
        provider_credentials_destroy(c);
    }
    assert_string_equal(seen[0], seen[1]);
    provider_destroy(f->provider);
    assert_int_equal(provider_load("aws", f->arena, &f->provider, &f->diagnostics, &f->err), 0);
    for (int i = 0; i < 2; i++) {
        setenv("AWS_ACCESS_KEY_ID", i ? "ASIA2222" : "ASIA1111", 1);
        setenv("AWS_SECRET_ACCESS_KEY", i ? "second-secret" : "first-secret", 1);
        setenv("AWS_SESSION_TOKEN", "session", 1);
        assert_int_equal(find(f, &c), PROVIDER_FOUND);
        seen[i] = digest(f, c, "a");
        provider_credentials_destroy(c);
    }
    assert_string_equal(seen[0], seen[1]);
    setenv("AWS_PROFILE", "another", 1); /* but the sign-on itself matters */
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    assert_string_not_equal(seen[1], digest(f, c, "a"));
    provider_credentials_destroy(c);
    unsetenv("AWS_PROFILE");
    unsetenv("AWS_SESSION_TOKEN");
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    assert_string_not_equal(seen[1], digest(f, c, "a"));
    provider_credentials_destroy(c);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

static void test_a_secret_with_a_line_feed_is_refused(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c;
    struct doc_node *inputs = doc_new_object(f->arena);
    struct provider_request r;
    assert_int_equal(load(f, small), 0);
    setenv("SMALL_TOKEN", "secret\r\nx-evil: 1", 1);
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    doc_set(f->arena, inputs, "region", doc_new_string(f->arena, "r"));
    const struct provider_ask ask = {.operation = PROVIDER_STOCK, .inputs = inputs, .credentials = c};
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &r, &f->err), -1);
    assert_null(strstr(f->err.text, "secret"));
    provider_credentials_destroy(c);
    unsetenv("SMALL_TOKEN");
}

static void test_an_address_of_the_environment(void **state)
{
    struct fixture *f = *state;
    struct provider_request r;
    const struct provider_ask ask = {.operation = PROVIDER_STOCK};
    setenv("RHRUN_SMALL_ENDPOINT", "http://127.0.0.1:8080/x/", 1);
    assert_int_equal(load(f, small), 0);
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &r, &f->err), 0);
    assert_string_equal(r.url, "http://127.0.0.1:8080/x/m");
    setenv("RHRUN_SMALL_ENDPOINT", "unix:///run/x.sock", 1);
    assert_int_equal(load(f, replaced(f, small, "https://${region}.", "https://")), 0);
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &r, &f->err), 0);
    assert_string_equal(r.socket, "/run/x.sock");
    static const char *const none[] = {
        "localhost:4566", "tcp://127.0.0.1:2375", "ssh://host", "unix://x", "http:", "\n"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++) { /* then not at the usual place */
        setenv("RHRUN_SMALL_ENDPOINT", none[i], 1);
        assert_int_equal(load(f, small), -1);
        assert_non_null(strstr(f->err.text, "RHRUN_SMALL_ENDPOINT has no usable address"));
    }
    unsetenv("RHRUN_SMALL_ENDPOINT");
    setenv("DOCKER_HOST", "tcp://127.0.0.1:2375", 1);
    assert_int_equal(provider_load("docker", f->arena, &f->provider, &f->diagnostics, &f->err), 0);
    const struct provider_ask sweep = {.operation = PROVIDER_SWEEP};
    assert_int_equal(provider_request(f->provider, &sweep, f->arena, &r, &f->err), 0);
    assert_true(str_starts(r.url, "http://127.0.0.1:2375/v1.41/containers/json"));
    assert_null(r.socket);
    unsetenv("DOCKER_HOST");
}

/* ---- access tokens ---- */

static char *new_key(struct fixture *f, EVP_PKEY **ret)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *data;
    *ret = EVP_RSA_gen(2048);
    assert_int_equal(PEM_write_bio_PrivateKey(bio, *ret, NULL, NULL, 0, NULL, NULL), 1);
    long len = BIO_get_mem_data(bio, &data);
    char *pem = arena_strndup(f->arena, data, (size_t)len);
    BIO_free(bio);
    return pem;
}

static size_t unbase64(const char *text, size_t len, unsigned char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    size_t have = 0, count = 0;
    for (size_t i = 0; i < len; i++) {
        const char *at = strchr(digits, text[i]);
        assert_true(at && *at);
        bits = bits << 6 | (uint32_t)(at - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[count++] = (unsigned char)(bits >> have);
        }
    }
    return count;
}

static const char oauth[] = "{kind: oauth2, grant: jwt_rs256, token_url: $url, scope: \"a b\"}";

static void test_a_jwt_is_signed(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c;
    struct provider_request r;
    EVP_PKEY *key;
    unsigned char signature[512], text[2048];
    char *file = replaced(f, small, "{kind: bearer, value: token}", oauth);
    file =
        replaced(f, file, "{token: SMALL_TOKEN}", "{client_email: SMALL_MAIL, private_key: SMALL_KEY, url: SMALL_URL}");
    assert_int_equal(load(f, file), 0);
    setenv("SMALL_MAIL", "me@example.com", 1);
    setenv("SMALL_KEY", new_key(f, &key), 1);
    setenv("SMALL_URL", "https://token.example.com/t", 1);
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    assert_true(provider_wants_token(f->provider, c));
    assert_int_equal(provider_token_request(f->provider, c, 1700000000, f->arena, &r, &f->err), 0);
    static const char before[] = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    assert_int_equal(strncmp(r.body, before, strlen(before)), 0);
    assert_true(r.secret);
    assert_string_equal(r.url, "https://token.example.com/t");
    const char *jwt = r.body + strlen(before), *claims = strchr(jwt, '.') + 1, *dot = strchr(claims, '.');
    size_t len = unbase64(claims, (size_t)(dot - claims), text);
    text[len] = 0;
    assert_string_equal((char *)text,
                        "{\"iss\":\"me@example.com\",\"scope\":\"a b\",\"aud\":\"https://token.example.com/t\","
                        "\"iat\":1700000000,\"exp\":1700003600}");
    len = unbase64(dot + 1, strlen(dot + 1), signature);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestVerifyInit(md, NULL, EVP_sha256(), NULL, key), 1);
    assert_int_equal(EVP_DigestVerify(md, signature, len, (const unsigned char *)jwt, (size_t)(dot - jwt)), 1);
    EVP_MD_CTX_free(md);
    EVP_PKEY_free(key);
    const struct provider_ask ask = {.operation = PROVIDER_STOCK, .credentials = c};
    setenv("RHRUN_SMALL_ENDPOINT", "http://127.0.0.1:1", 1);
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &r, &f->err), -1);
    unsetenv("RHRUN_SMALL_ENDPOINT");
    provider_credentials_destroy(c);
}

static void test_a_key_that_signs_nothing(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c;
    struct provider_request r;
    char *file = replaced(f, small, "{kind: bearer, value: token}", oauth);
    file = replaced(f, file, "{token: SMALL_TOKEN}", "{private_key: SMALL_KEY, url: SMALL_URL}");
    assert_int_equal(load(f, file), 0);
    setenv("SMALL_KEY", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", 1);
    setenv("SMALL_URL", "https://x/t", 1);
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    assert_int_equal(provider_token_request(f->provider, c, 1, f->arena, &r, &f->err), -1);
    assert_null(strstr(f->err.text, "c2Vjc"));
    provider_credentials_destroy(c);
    setenv("SMALL_URL", "http://token.example.com/t", 1);
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    assert_int_equal(provider_token_request(f->provider, c, 1, f->arena, &r, &f->err), -1);
    assert_non_null(strstr(f->err.text, "not https"));
    provider_credentials_destroy(c);
}

static void test_the_reply_of_a_token_request(void **state)
{
    struct fixture *f = *state;
    struct provider_credentials *c;
    const char *token = NULL;
    uint64_t life = 0;
    setenv("SMALL_TOKEN", "small-secret", 1);
    assert_int_equal(load(f, small), 0);
    assert_int_equal(find(f, &c), PROVIDER_FOUND);
    assert_false(provider_wants_token(f->provider, c));
    static const char good[] = "{\"access_token\":\"ya29.x\",\"expires_in\":3599}",
                      bad[] = "{\"error\":\"small-secret\"}";
    struct provider_reply reply = {.status = 200, .body = good, .body_len = strlen(good)};
    assert_int_equal(provider_token_reply(f->provider, c, &reply, f->arena, &token, &life, &f->err), 0);
    assert_string_equal(token, "ya29.x");
    assert_int_equal(life, 3599);
    reply = (struct provider_reply){.status = 400, .body = bad, .body_len = strlen(bad)};
    assert_int_equal(provider_token_reply(f->provider, c, &reply, f->arena, &token, &life, &f->err), -1);
    assert_non_null(strstr(f->err.text, "***"));
    assert_int_equal(f->err.why, ERROR_WHY_CREDENTIALS);
    provider_credentials_destroy(c);
    unsetenv("SMALL_TOKEN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_missing_credentials_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_file_with_several_sections, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_of_the_credentials_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_program_prints_credentials, setup, teardown),
        cmocka_unit_test_setup_teardown(test_accounts_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_passing_credentials_do_not_tell_accounts_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_secret_with_a_line_feed_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_address_of_the_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_jwt_is_signed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_key_that_signs_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_reply_of_a_token_request, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
