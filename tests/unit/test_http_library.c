/* http on a machine without libcurl, or with an incomplete one. */
#include "rhrun/http.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *instead; /* for any library; NULL: the requested one */
static int asked;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    asked++;
    return __real_dlopen(instead ? instead : name, flags);
}

static void refused(struct loop *loop, const char *why)
{
    struct error err = ERROR_INIT;
    assert_null(http_create(loop, NULL, &err));
    assert_int_equal(err.code, ERROR_IO);
    assert_non_null(strstr(err.text, "HTTP requests are sent by libcurl, which cannot be loaded: "));
    if (!strstr(err.text, why))
        fail_msg("%s is not in: %s", why, err.text);
    assert_non_null(strstr(err.hint, "apt-get install libcurl4"));
}

static void test_library_is_missing(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct loop *loop = loop_create();
    instead = "libcurl.so.none";
    refused(loop, "libcurl.so.none");
    instead = "libm.so.6"; /* a library without any of the functions */
    refused(loop, "curl_global_init");

    instead = NULL; /* meanwhile: the same process goes on */
    struct http *http = http_create(loop, NULL, &err);
    assert_non_null(http);
    int before = asked;
    http_destroy(http);
    http_destroy(http_create(loop, NULL, &err));
    assert_int_equal(asked, before); /* loaded once */
    loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_library_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
