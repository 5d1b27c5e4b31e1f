/* known_hosts: the lines that match a name are those that `ssh-keygen -F` finds, over generated files; and the
 * verdicts, which ssh-keygen does not give. */
#include "../../src/transport/ssh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

static char dir[] = "/tmp/rhrun-known-XXXXXX";
static struct transport_pool pool; /* only its cache is used */
static bool have_keygen;

/* A syntactically right key of a type; seed makes it different. */
static size_t make_blob(const char *type, uint32_t seed, uint8_t out[256])
{
    size_t n = strlen(type);
    memset(out, 0, 256);
    out[3] = (uint8_t)n;
    memcpy(out + 4, type, n);
    if (strcmp(type, "ssh-ed25519") == 0 || strncmp(type, "x-", 2) == 0) {
        out[4 + n + 3] = 32;
        memset(out + 8 + n, (int)seed, 32);
        return 40 + n;
    }
    /* ssh-rsa: e = 65537, n of 1024 bits: ssh-keygen takes no shorter one */
    out[4 + n + 3] = 3;
    memcpy(out + 8 + n, "\x01\x00\x01", 3);
    out[11 + n + 3] = 129;
    out[15 + n] = 0;
    memset(out + 16 + n, 0x81, 128);
    out[16 + n] = (uint8_t)(0x80 | seed);
    return 144 + n;
}

static char *key_text(const char *type, uint32_t seed)
{
    uint8_t blob[256];
    char text[400];
    size_t len = make_blob(type, seed, blob);
    EVP_EncodeBlock((unsigned char *)text, blob, (int)len);
    return xasprintf("%s %s", type, text);
}

static void put_hashed(struct buf *out, const char *name, uint32_t seed)
{
    uint8_t salt[20], hash[64];
    unsigned len = 0;
    char text[64];
    memset(salt, (int)seed, sizeof(salt));
    HMAC(EVP_sha1(), salt, sizeof(salt), (const uint8_t *)name, strlen(name), hash, &len);
    EVP_EncodeBlock((unsigned char *)text, salt, sizeof(salt));
    buf_printf(out, "|1|%s|", text);
    EVP_EncodeBlock((unsigned char *)text, hash, (int)len);
    buf_puts(out, text);
}

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static const char *const names[] = {"alpha",         "beta.lab", "bad.lab", "10.0.0.7", "[alpha]:2222",
                                    "[10.0.0.7]:22", "::1",      "x",       "gamma",    "[beta.lab]:2222"};
static const char *const patterns[] = {
    "alpha", "*.lab",    "!bad.lab", "10.0.0.*", "[alpha]:2222", "[*]:2222",      "ALPHA", "a?pha",  "*",
    "?",     "beta.lab", "!*",       "10.0.0.7", "::1",          "[10.0.0.7]:22", "gam*a", "!gamma", ""};

static void generate(struct buf *out, uint32_t seed)
{
    uint32_t s = seed;
    uint32_t lines = 1 + next(&s) % 12;
    for (uint32_t i = 0; i < lines; i++) {
        const char *eol = next(&s) % 6 == 0 ? "\r\n" : "\n";
        switch (next(&s) % 12) {
        case 0:
            buf_printf(out, "# a comment%s", eol);
            continue;
        case 1:
            buf_printf(out, "%s", eol);
            continue;
        case 2:
            buf_printf(out, "alpha 1024 35 1234567890%s", eol); /* SSH-1 */
            continue;
        case 3:
            buf_printf(out, "alpha garbage%s", eol);
            continue;
        case 4:
            buf_printf(out, "@unknown alpha %s%s", "ssh-ed25519 AAAA", eol);
            continue;
        default:
            break;
        }
        if (next(&s) % 5 == 0)
            buf_puts(out, next(&s) % 2 ? "  " : "\t");
        if (next(&s) % 4 == 0)
            buf_puts(out, next(&s) % 2 ? "@revoked " : "@cert-authority ");
        if (next(&s) % 3 == 0) {
            put_hashed(out, names[next(&s) % ARRAY_LEN(names)], next(&s));
        } else {
            uint32_t count = 1 + next(&s) % 3;
            for (uint32_t j = 0; j < count; j++)
                buf_printf(out, "%s%s", j ? "," : "", patterns[next(&s) % (ARRAY_LEN(patterns) - (count == 1))]);
        }
        char *key = key_text(next(&s) % 3 ? "ssh-ed25519" : "ssh-rsa", next(&s) % 5);
        buf_printf(out, " %s%s%s", key, next(&s) % 2 ? " me@here" : "", eol);
        free(key);
    }
    if (next(&s) % 4 == 0 && out->len && out->data[out->len - 1] == '\n')
        out->len--; /* no newline at the end */
}

static char *write_file(const char *name, const char *text, size_t len)
{
    char *path = xasprintf("%s/%s", dir, name);
    assert_int_equal(file_write_atomic(path, text, len, 0600, NULL), 0);
    return path;
}

/* " 3 7" : the lines that ssh-keygen finds */
static char *oracle(const char *path, const char *name)
{
    struct buf found = {0};
    char *command = xasprintf("ssh-keygen -l -F '%s' -f %s 2>/dev/null", name, path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    char line[512];
    while (fgets(line, sizeof(line), f)) {
        const char *at = line[0] == '#' ? strstr(line, " found: line ") : NULL;
        if (at)
            buf_printf(&found, " %d", atoi(at + 13));
    }
    pclose(f);
    free(command);
    buf_puts(&found, "");
    buf_append(&found, "", 1);
    return buf_steal(&found);
}

static void test_oracle(void **state)
{
    (void)state;
    if (!have_keygen)
        skip();
    size_t matches = 0;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        struct buf text = {0};
        generate(&text, seed);
        char file_name[32];
        snprintf(file_name, sizeof(file_name), "k%u", seed);
        char *path = write_file(file_name, text.data, text.len);
        const struct known_hosts_file *file = known_hosts_load(&pool, path);
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            struct buf ours = {0};
            for (size_t j = 0; j < file->count; j++)
                if (known_hosts_line_matches(&file->lines[j], names[i])) {
                    buf_printf(&ours, " %u", file->lines[j].number);
                    matches++;
                }
            buf_append(&ours, "", 1);
            char *theirs = oracle(path, names[i]);
            if (strcmp(ours.data, theirs) != 0)
                fail_msg("%s in seed %u: ours%s, ssh-keygen%s\n%s", names[i], seed, ours.data, theirs, text.data);
            free(theirs);
            buf_free(&ours);
        }
        free(path);
        buf_free(&text);
    }
    assert_true(matches > 200); /* the files do hold something */
}

static enum known_result check(const char *path, const char *name, const char *type, uint32_t seed, uint32_t *ret_line)
{
    char *items[] = {(char *)(uintptr_t)path};
    struct ssh_config config = {.user_known_hosts = {items, 1}};
    uint8_t blob[256];
    size_t len = make_blob(type, seed, blob);
    const struct known_hosts_line *line;
    enum known_result result =
        known_hosts_check(&pool, &config, name, key_type_of(type, strlen(type)), blob, len, &line);
    if (ret_line)
        *ret_line = line ? line->number : 0;
    return result;
}

static void test_verdicts(void **state)
{
    (void)state;
    struct buf text = {0};
    char *one = key_text("ssh-ed25519", 1), *two = key_text("ssh-ed25519", 2), *rsa = key_text("ssh-rsa", 1),
         *odd = key_text("x-new-type", 1);
    buf_printf(&text, "nonsense\nhost %s\n@revoked * %s\nhost %s\r\n", one, two, two);
    buf_printf(&text, "rsa-only %s\n@cert-authority *.ca %s\n[host]:2222 %s\nodd %s\n", rsa, one, rsa, odd);
    char *path = write_file("verdicts", text.data, text.len);
    uint32_t line;
    assert_int_equal(check(path, "host", "ssh-ed25519", 1, &line), KNOWN_OK);
    assert_int_equal(line, 2);
    assert_int_equal(check(path, "host", "ssh-ed25519", 2, &line), KNOWN_REVOKED); /* though line 4 lists it */
    assert_int_equal(line, 3);
    assert_int_equal(check(path, "host", "ssh-ed25519", 3, &line), KNOWN_CHANGED);
    assert_int_equal(line, 2);
    assert_int_equal(check(path, "host", "ssh-rsa", 1, NULL), KNOWN_OTHER_TYPES);
    assert_int_equal(check(path, "rsa-only", "ssh-ed25519", 1, NULL), KNOWN_OTHER_TYPES);
    assert_int_equal(check(path, "odd", "ssh-ed25519", 1, NULL), KNOWN_OTHER_TYPES);
    assert_int_equal(check(path, "a.ca", "ssh-ed25519", 1, NULL), KNOWN_BY_CA);
    assert_int_equal(check(path, "other", "ssh-ed25519", 1, NULL), KNOWN_UNKNOWN);
    assert_int_equal(check(path, "[host]:2200", "ssh-ed25519", 1, NULL), KNOWN_OK);      /* by the plain host */
    assert_int_equal(check(path, "[host]:2200", "ssh-ed25519", 3, NULL), KNOWN_UNKNOWN); /* which proves no change */
    assert_int_equal(check(path, "[host]:2200", "ssh-ed25519", 2, NULL), KNOWN_REVOKED);
    assert_int_equal(check(path, "[host]:2222", "ssh-ed25519", 1, NULL), KNOWN_OTHER_TYPES);
    assert_int_equal(check("/nonexistent/file", "host", "ssh-ed25519", 1, NULL), KNOWN_UNKNOWN);
    char *items[] = {path};
    struct ssh_config config = {.user_known_hosts = {items, 1}};
    assert_int_equal(known_hosts_types(&pool, &config, "host"), KEY_ED25519);
    assert_int_equal(known_hosts_types(&pool, &config, "a.ca"), KEY_CA);
    assert_int_equal(known_hosts_types(&pool, &config, "[rsa-only]:99"), KEY_RSA);
    free(one), free(two), free(rsa), free(odd), free(path);
    buf_free(&text);
}

static void test_append(void **state)
{
    (void)state;
    for (int hash = 0; hash < 2; hash++) {
        char *path = xasprintf("%s/sub%d/known_hosts", dir, hash);
        uint8_t blob[256];
        struct error err = ERROR_INIT;
        size_t len = make_blob("ssh-ed25519", 1, blob);
        assert_int_equal(known_hosts_append(path, "[new]:2222", hash, blob, len, &err), 0);
        assert_int_equal(check(path, "[new]:2222", "ssh-ed25519", 1, NULL), KNOWN_OK);
        /* onto a file without a final newline */
        struct buf text = {0};
        assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
        assert_int_equal(truncate(path, (off_t)text.len - 1), 0);
        assert_int_equal(known_hosts_append(path, "second", hash, blob, len, &err), 0);
        assert_int_equal(check(path, "[new]:2222", "ssh-ed25519", 1, NULL), KNOWN_OK);
        assert_int_equal(check(path, "second", "ssh-ed25519", 2, NULL), KNOWN_CHANGED);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_true((strstr(text.data, "new") == NULL) == hash);
        buf_free(&text);
        free(path);
    }
}

static void test_name(void **state)
{
    (void)state;
    struct ssh_config config = {0};
    char *name = known_hosts_name(&config, "Host.Lab", 22);
    assert_string_equal(name, "host.lab");
    free(name);
    name = known_hosts_name(&config, "::1", 2222);
    assert_string_equal(name, "[::1]:2222");
    free(name);
    char alias[] = "Alias";
    config.host_key_alias = alias;
    name = known_hosts_name(&config, "h", 2222);
    assert_string_equal(name, "alias");
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_name),
    };
    have_keygen = system("command -v ssh-keygen >/dev/null") == 0;
    if (!mkdtemp(dir))
        return 1;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    known_hosts_destroy(&pool);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) == 0 ? rc : 1;
}
