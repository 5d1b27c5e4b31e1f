/* SHA-256 by libcrypto. Not part of the agent. */
#include "rhrun/base.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <unistd.h>

enum { DIGEST_CHUNK = 64 << 10 };

static void to_hex(const uint8_t raw[32], char out[65])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 32; i++) {
        out[2 * i] = digits[raw[i] >> 4];
        out[2 * i + 1] = digits[raw[i] & 15];
    }
    out[64] = 0;
}

void digest_sha256(const void *data, size_t len, uint8_t out[32])
{
    unsigned n = 0;
    if (EVP_Digest(data, len, out, &n, EVP_sha256(), NULL) != 1 || n != 32)
        abort();
}

void digest_sha256_hex(const void *data, size_t len, char out[65])
{
    uint8_t raw[32];
    digest_sha256(data, len, raw);
    to_hex(raw, out);
}

int digest_sha256_file(const char *path, char out[65], struct error *err)
{
    uint8_t raw[32];
    unsigned n = 0;
    CLEANUP(cleanup_close) int fd = file_open(path, NULL, err);
    if (fd < 0)
        return -1;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CLEANUP(cleanup_free) char *chunk = xmalloc(DIGEST_CHUNK);
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
        abort();
    ssize_t got;
    while ((got = read(fd, chunk, DIGEST_CHUNK)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0 && EVP_DigestUpdate(ctx, chunk, (size_t)got) != 1)
            abort();
    int errnum = errno;
    if (EVP_DigestFinal_ex(ctx, raw, &n) != 1 || n != 32)
        abort();
    EVP_MD_CTX_free(ctx);
    if (got < 0)
        return error_errno(err, ERROR_IO, errnum, "could not read \"%s\"", path);
    to_hex(raw, out);
    return 0;
}
