/* SHA-256 by libcrypto. Not part of the agent. */
#include "rhrun/base.h"

#include <openssl/evp.h>
#include <stdlib.h>

void digest_sha256(const void *data, size_t len, uint8_t out[32])
{
    unsigned n = 0;
    if (EVP_Digest(data, len, out, &n, EVP_sha256(), NULL) != 1 || n != 32)
        abort();
}

void digest_sha256_hex(const void *data, size_t len, char out[65])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t raw[32];
    digest_sha256(data, len, raw);
    for (size_t i = 0; i < 32; i++) {
        out[2 * i] = digits[raw[i] >> 4];
        out[2 * i + 1] = digits[raw[i] & 15];
    }
    out[64] = 0;
}
