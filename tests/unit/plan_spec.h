/* Specs built by hand, and golden files, for the tests of plan and step. */
#ifndef RHRUN_TEST_PLAN_SPEC_H
#define RHRUN_TEST_PLAN_SPEC_H

#include "rhrun/plan.h"

#include <stdlib.h>
#include <string.h>

static inline struct spec_text text(const char *s)
{
    return (struct spec_text){.text = s, .has_expr = s && strstr(s, "${{")};
}

#define TEXTS(...) texts((const char *const[]){__VA_ARGS__, NULL})
static inline struct spec_texts texts(const char *const *list)
{
    static struct spec_text pool[256];
    static size_t used;
    struct spec_texts t = {&pool[used], 0};
    for (; *list && used < ARRAY_LEN(pool); list++, used++, t.count++)
        pool[used] = text(*list);
    return t;
}

/* Compares with a file under tests/fixtures/plan; with RHRUN_UPDATE_FIXTURES set it is written instead. */
static inline bool golden(const char *name, const char *actual)
{
    char path[512];
    struct buf want = {0};
    struct error err = ERROR_INIT;
    snprintf(path, sizeof path, "%s/plan/%s", FIXTURES, name);
    if (getenv("RHRUN_UPDATE_FIXTURES"))
        return file_write_atomic(path, actual, strlen(actual), 0644, &err) == 0;
    if (file_read(path, 1 << 20, &want, &err) < 0)
        fprintf(stderr, "%s\n", err.text);
    bool same = want.data && strcmp(want.data, actual) == 0;
    if (!same)
        fprintf(stderr, "%s differs; this came out:\n%s\n", path, actual);
    buf_free(&want);
    return same;
}

#endif
