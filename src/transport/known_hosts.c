/*
 * known_hosts as OpenSSH reads it (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"; hostfile.c and match.c where the manual is
 * silent). A line that cannot be understood is skipped, never the whole file. libssh2's own reader is not used: it
 * accepts revoked keys and gives up at the first odd line.
 */
#include "ssh.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 64 << 20, LINE_MAX_BYTES = 64 << 10 };

unsigned key_type_of(const char *name, size_t len)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {
        {"ssh-ed25519", KEY_ED25519},
        {"ecdsa-sha2-nistp256", KEY_ECDSA_256},
        {"ecdsa-sha2-nistp384", KEY_ECDSA_384},
        {"ecdsa-sha2-nistp521", KEY_ECDSA_521},
        {"ssh-rsa", KEY_RSA},
    };
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strlen(types[i].name) == len && memcmp(types[i].name, name, len) == 0)
            return types[i].type;
    return KEY_OTHER;
}

bool blob_type(const uint8_t *blob, size_t len, const char **ret_type, size_t *ret_type_len)
{
    if (len < 4)
        return false;
    size_t n = (size_t)blob[0] << 24 | (size_t)blob[1] << 16 | (size_t)blob[2] << 8 | blob[3];
    if (n == 0 || n > 64 || n > len - 4)
        return false;
    *ret_type = (const char *)blob + 4;
    *ret_type_len = n;
    return true;
}

/* ---- reading ---- */

static bool base64_decode(const char *text, size_t len, uint8_t *out, size_t size, size_t *ret_len)
{
    if (len == 0 || len % 4 != 0 || len / 4 * 3 > size || len > LINE_MAX_BYTES)
        return false;
    int n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);
    if (n < 0)
        return false;
    size_t padding = (text[len - 1] == '=' ? 1u : 0u) + (text[len - 2] == '=' ? 1u : 0u);
    *ret_len = (size_t)n - padding;
    return true;
}

struct word {
    const char *p;
    size_t len;
};

static struct word next_word(const char **at, const char *end)
{
    const char *p = *at;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    const char *start = p;
    while (p < end && *p != ' ' && *p != '\t')
        p++;
    *at = p;
    return (struct word){start, (size_t)(p - start)};
}

static bool word_is(struct word w, const char *s)
{
    return w.len == strlen(s) && memcmp(w.p, s, w.len) == 0;
}

static bool parse_hashed(struct known_hosts_line *line)
{
    const char *names = line->names, *end = names + line->names_len;
    if (line->names_len < 4 || memcmp(names, "|1|", 3) != 0)
        return false;
    const char *bar = memchr(names + 3, '|', line->names_len - 3);
    if (!bar)
        return false;
    uint8_t hash[64];
    size_t hash_len;
    if (!base64_decode(names + 3, (size_t)(bar - names) - 3, line->salt, sizeof(line->salt), &line->salt_len) ||
        !base64_decode(bar + 1, (size_t)(end - bar) - 1, hash, sizeof(hash), &hash_len) ||
        hash_len != sizeof(line->hash))
        return false;
    memcpy(line->hash, hash, sizeof(line->hash));
    line->hashed = true;
    return true;
}

static bool parse_line(const char *p, const char *end, struct known_hosts_line *ret)
{
    while (end > p && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
        end--;
    struct known_hosts_line line = {0};
    struct word names = next_word(&p, end);
    if (!names.len || names.p[0] == '#')
        return false;
    if (names.p[0] == '@') {
        if (word_is(names, "@revoked"))
            line.marker = LINE_REVOKED;
        else if (word_is(names, "@cert-authority"))
            line.marker = LINE_CA;
        else
            return false;
        names = next_word(&p, end);
    }
    struct word type = next_word(&p, end), key = next_word(&p, end);
    if (!names.len || !type.len || !key.len)
        return false;
    line.names = names.p;
    line.names_len = names.len;
    if (names.p[0] == '|' && !parse_hashed(&line))
        return false;
    line.type = key_type_of(type.p, type.len);
    size_t size = key.len / 4 * 3 + 3;
    line.blob = xmalloc(size);
    const char *inner;
    size_t inner_len;
    if (!base64_decode(key.p, key.len, line.blob, size, &line.blob_len) ||
        !blob_type(line.blob, line.blob_len, &inner, &inner_len) || inner_len != type.len ||
        memcmp(inner, type.p, type.len) != 0) {
        free(line.blob);
        return false;
    }
    *ret = line;
    return true;
}

static void file_parse(struct known_hosts_file *file)
{
    uint32_t number = 0;
    size_t cap = 0;
    const char *p = file->text.data, *end = p + file->text.len;
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        struct known_hosts_line line;
        number++;
        if (stop - p <= LINE_MAX_BYTES && parse_line(p, stop, &line)) {
            line.number = number;
            line.file = file;
            if (file->count == cap) {
                cap = cap ? 2 * cap : 16;
                file->lines = xreallocarray(file->lines, cap, sizeof(*file->lines));
            }
            file->lines[file->count++] = line;
        }
        p = stop + 1;
    }
}

static void file_clear(struct known_hosts_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        free(file->lines[i].blob);
    free(file->lines);
    file->lines = NULL;
    file->count = 0;
    buf_free(&file->text);
    file->size = -1;
}

const struct known_hosts_file *known_hosts_load(struct transport_pool *pool, const char *path)
{
    struct known_hosts_file *file = pool->known_hosts;
    while (file && strcmp(file->path, path) != 0)
        file = file->next;
    if (!file) {
        file = xcalloc(1, sizeof(*file));
        file->path = xstrdup(path);
        file->size = -1;
        file->next = pool->known_hosts;
        pool->known_hosts = file;
    }
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
        file_clear(file);
        return file;
    }
    int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (file->size == st.st_size && file->mtime_ns == mtime_ns && file->inode == st.st_ino)
        return file;
    file_clear(file);
    if (file_read(path, FILE_MAX_BYTES, &file->text, NULL) != 0) {
        buf_free(&file->text);
        return file;
    }
    file->size = st.st_size;
    file->mtime_ns = mtime_ns;
    file->inode = st.st_ino;
    if (file->text.len)
        file_parse(file);
    return file;
}

void known_hosts_destroy(struct transport_pool *pool)
{
    while (pool->known_hosts) {
        struct known_hosts_file *file = pool->known_hosts;
        pool->known_hosts = file->next;
        file_clear(file);
        free(file->path);
        free(file);
    }
}

/* ---- matching ---- */

/* `*` and `?`, without regard to case of the pattern; name is lower case. */
static bool pattern_matches(const char *pattern, size_t len, const char *name)
{
    const char *p = pattern, *end = pattern + len, *star = NULL, *resume = NULL;
    while (*name) {
        if (p < end && *p == '*') {
            star = p++;
            resume = name;
        } else if (p < end && (*p == '?' || tolower((unsigned char)*p) == (unsigned char)*name)) {
            p++;
            name++;
        } else if (star) {
            p = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (p < end && *p == '*')
        p++;
    return p == end;
}

bool known_hosts_line_matches(const struct known_hosts_line *line, const char *name)
{
    if (line->hashed) {
        uint8_t hash[EVP_MAX_MD_SIZE];
        unsigned len = 0;
        return HMAC(EVP_sha1(), line->salt, (int)line->salt_len, (const uint8_t *)name, strlen(name), hash, &len) &&
               len == sizeof(line->hash) && memcmp(hash, line->hash, len) == 0;
    }
    bool found = false;
    const char *p = line->names, *end = p + line->names_len;
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma ? comma : end;
        bool negated = *p == '!' && p < stop;
        if (negated)
            p++;
        if (pattern_matches(p, (size_t)(stop - p), name)) {
            if (negated)
                return false;
            found = true;
        }
        p = stop + 1;
    }
    return found;
}

char *known_hosts_name(const struct ssh_config *config, const char *host, uint32_t port)
{
    char *name;
    if (config->host_key_alias)
        name = xstrdup(config->host_key_alias);
    else if (port == 22)
        name = xstrdup(host);
    else
        name = xasprintf("[%s]:%u", host, port);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return name;
}

struct found {
    unsigned types;
    const struct known_hosts_line *same, *revoked, *equal, *other, *ca;
};

static void look(struct transport_pool *pool, const struct string_list *paths, const char *name, unsigned type,
                 const uint8_t *blob, size_t blob_len, struct found *f)
{
    for (size_t i = 0; i < paths->count; i++) {
        const struct known_hosts_file *file = known_hosts_load(pool, paths->items[i]);
        for (size_t j = 0; j < file->count; j++) {
            const struct known_hosts_line *line = &file->lines[j];
            if (!known_hosts_line_matches(line, name))
                continue;
            bool equal = blob && line->blob_len == blob_len && memcmp(line->blob, blob, blob_len) == 0;
            if (line->marker == LINE_CA) {
                f->types |= KEY_CA;
                f->ca = f->ca ? f->ca : line;
            } else if (line->marker == LINE_REVOKED) {
                if (equal)
                    f->revoked = line;
            } else {
                f->types |= line->type;
                if (equal)
                    f->equal = f->equal ? f->equal : line;
                else if (line->type == type)
                    f->same = f->same ? f->same : line;
                else
                    f->other = f->other ? f->other : line;
            }
        }
    }
}

/* "[host]:port" without the port, or NULL */
static char *plain_name(const struct ssh_config *config, const char *name)
{
    const char *end = name[0] == '[' && !config->host_key_alias ? strstr(name, "]:") : NULL;
    return end ? xstrndup(name + 1, (size_t)(end - name) - 1) : NULL;
}

static struct found look_all(struct transport_pool *pool, const struct ssh_config *config, const char *name,
                             unsigned type, const uint8_t *blob, size_t blob_len)
{
    struct found f = {0};
    look(pool, &config->user_known_hosts, name, type, blob, blob_len, &f);
    look(pool, &config->global_known_hosts, name, type, blob, blob_len, &f);
    return f;
}

unsigned known_hosts_types(struct transport_pool *pool, const struct ssh_config *config, const char *name)
{
    unsigned types = look_all(pool, config, name, 0, NULL, 0).types;
    char *plain = types ? NULL : plain_name(config, name);
    if (plain)
        types = look_all(pool, config, plain, 0, NULL, 0).types;
    free(plain);
    return types;
}

enum known_result known_hosts_check(struct transport_pool *pool, const struct ssh_config *config, const char *name,
                                    unsigned type, const uint8_t *blob, size_t blob_len,
                                    const struct known_hosts_line **ret_line)
{
    struct found f = look_all(pool, config, name, type, blob, blob_len);
    *ret_line = NULL;
    /* As in OpenSSH: a line for the plain host can verify or revoke an unknown [host]:port, but a different key on that
     * line says nothing about this port. */
    char *plain = plain_name(config, name);
    if (plain) {
        struct found p = look_all(pool, config, plain, type, blob, blob_len);
        free(plain);
        if (p.revoked)
            f.revoked = p.revoked;
        if (!f.equal && !f.same && !f.other && p.equal)
            f.equal = p.equal;
    }
    if (f.revoked) {
        *ret_line = f.revoked;
        return KNOWN_REVOKED;
    }
    if (f.equal) {
        *ret_line = f.equal;
        return KNOWN_OK;
    }
    if (f.same) {
        *ret_line = f.same;
        return KNOWN_CHANGED;
    }
    if (f.other) {
        *ret_line = f.other;
        return KNOWN_OTHER_TYPES;
    }
    *ret_line = f.ca;
    return f.ca ? KNOWN_BY_CA : KNOWN_UNKNOWN;
}

/* ---- accept-new ---- */

static void base64_append(struct buf *out, const uint8_t *data, size_t len)
{
    buf_reserve(out, len / 3 * 4 + 8);
    out->len += (size_t)EVP_EncodeBlock((unsigned char *)out->data + out->len, data, (int)len);
}

void known_hosts_key(const uint8_t *blob, size_t len, struct buf *ret)
{
    const char *type;
    size_t type_len;
    if (!blob_type(blob, len, &type, &type_len))
        return;
    buf_append(ret, type, type_len);
    buf_putc(ret, ' ');
    base64_append(ret, blob, len);
}

/* With openssh: the first key in the one file that ssh verified against. */
const char *transport_host_key(struct transport *t)
{
    if (t->host_key || !t->told || !t->host.known_hosts || transport_kind(t) != TRANSPORT_OPENSSH)
        return t->host_key ? t->host_key : "";
    const char *to = t->host.address ? t->host.address : t->host.name;
    const struct ssh_config none = {0};
    CLEANUP(cleanup_free) char *path = expand_home(t->host.known_hosts);
    CLEANUP(cleanup_free) char *name = known_hosts_name(&none, to, t->host.port ? t->host.port : 22);
    const struct known_hosts_file *file = known_hosts_load(t->pool, path);
    for (size_t i = 0; i < file->count && !t->host_key; i++) {
        const struct known_hosts_line *line = &file->lines[i];
        struct buf key = {0};
        if (line->marker != LINE_PLAIN || !known_hosts_line_matches(line, name))
            continue;
        known_hosts_key(line->blob, line->blob_len, &key);
        t->host_key = arena_strdup(t->arena, key.data);
        buf_free(&key);
    }
    return t->host_key ? t->host_key : "";
}

int known_hosts_append(const char *path, const char *name, bool hash, const uint8_t *blob, size_t blob_len,
                       struct error *err)
{
    const char *type;
    size_t type_len;
    if (!blob_type(blob, blob_len, &type, &type_len))
        return error_set(err, ERROR_PROTOCOL, "the host key is malformed");
    struct buf line = {0};
    if (hash) {
        uint8_t salt[20], digest[EVP_MAX_MD_SIZE];
        unsigned len = 0;
        random_bytes(salt, sizeof(salt));
        HMAC(EVP_sha1(), salt, sizeof(salt), (const uint8_t *)name, strlen(name), digest, &len);
        buf_puts(&line, "|1|");
        base64_append(&line, salt, sizeof(salt));
        buf_putc(&line, '|');
        base64_append(&line, digest, len);
    } else {
        buf_puts(&line, name);
    }
    buf_putc(&line, ' ');
    known_hosts_key(blob, blob_len, &line);
    buf_putc(&line, '\n');

    char *folder = xstrdup(path);
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = '\0';
        mkdir_p(folder, 0700, NULL);
    }
    free(folder);
    int rc = -1;
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
        error_errno(err, ERROR_IO, errno, "cannot add the host key to \"%s\"", path);
    } else {
        struct buf out = {0};
        char last = '\n';
        off_t size = lseek(fd, 0, SEEK_END);
        if (size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n')
            buf_putc(&out, '\n'); /* an unfinished line must not swallow ours */
        buf_append(&out, line.data, line.len);
        rc = write_all(fd, out.data, out.len);
        if (rc != 0)
            error_errno(err, ERROR_IO, errno, "cannot add the host key to \"%s\"", path);
        buf_free(&out);
    }
    if (fd >= 0)
        close(fd);
    buf_free(&line);
    return rc;
}
