/*
 * libcurl, loaded when the first client is made: it brings TLS, HTTP/2, LDAP and Kerberos, which would slow the start
 * of every command. Calls go through a table, so the compiler does not check the types of curl_easy_setopt: a numeric
 * option must be a long.
 */
#include "internal.h"

#include <dlfcn.h>
#include <string.h>

struct http_curl http_curl;

#if RHRUN_STATIC /* it is linked */
int http_library_load(struct error *err)
{
    (void)err;
#define TAKE(name) http_curl.name = curl_##name;
    HTTP_CURL_SYMBOLS(TAKE)
    http_curl.handle = &http_curl;
    return 0;
}
#else
/* libcurl under its usual name (on Debian with OpenSSL), or else Debian's build with GnuTLS. */
static void *open_library(struct buf *ret_why)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *handle = NULL;
    for (size_t i = 0; !handle && i < ARRAY_LEN(names); i++) {
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            buf_printf(ret_why, "%s%s", i ? "; " : "", dlerror());
    }
    return handle;
}

int http_library_load(struct error *err)
{
#define ROW(name) {"curl_" #name, &http_curl.name},
    static const struct {
        const char *name;
        void *at;
    } rows[] = {HTTP_CURL_SYMBOLS(ROW)};
    if (http_curl.handle)
        return 0;
    struct buf why = {0};
    void *handle = open_library(&why);
    bool good = handle != NULL;
    for (size_t i = 0; good && i < ARRAY_LEN(rows); i++) {
        void *symbol = dlsym(handle, rows[i].name);
        memcpy(rows[i].at, &symbol, sizeof(symbol));
        good = symbol != NULL;
        if (!good)
            buf_puts(&why, dlerror());
    }
    if (good) {
        http_curl.handle = handle;
        buf_free(&why);
        return 0;
    }
    error_set(err, ERROR_IO, "HTTP requests are sent by libcurl, which cannot be loaded: %s", why.data);
    buf_free(&why);
    error_hint(err, "install it; on Debian and Ubuntu: apt-get install libcurl4");
    if (handle)
        dlclose(handle);
    return -1;
}
#endif

const char *http_library_version(struct error *err)
{
    return http_library_load(err) == 0 ? http_curl.version_info(CURLVERSION_NOW)->version : NULL;
}
