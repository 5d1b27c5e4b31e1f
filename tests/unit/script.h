/* Shell scripts of a test, run in its folder; the test fails if a script fails, and prints its output. */
#ifndef RHRUN_TEST_SCRIPT_H
#define RHRUN_TEST_SCRIPT_H

#include "rhrun/base.h"

#include <stdlib.h>

static inline FORMAT(2, 3) void script_in(const char *dir, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    CLEANUP(cleanup_free) char *command = xasprintf("set -e; cd %s; { %s\n} >log 2>&1", dir, text);
    if (system(command) != 0) {
        CLEANUP(cleanup_free) char *path = xasprintf("%s/log", dir);
        struct buf log = {0};
        (void)file_read(path, 1 << 20, &log, NULL);
        fail_msg("%s\n%s", text, log.data ? log.data : "");
    }
}
#define script(...) script_in(dir, __VA_ARGS__) /* dir: the test's */

#endif
