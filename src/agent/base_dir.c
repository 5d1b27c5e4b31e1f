/*
 * Where the ledger is: the folder that HELLO names, else ~/.rhrun, else (if the home is missing, read-only or not ours)
 * a private folder in a place that all users share. In a shared place anybody could have made the folder, so it must be
 * ours, closed to others, and no link.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum trust { TRUST_NAMED, TRUST_HOME, TRUST_SHARED };

/* Opens (making it when needed) one candidate; -1 and a reason. */
static int open_candidate(const char *path, enum trust trust, struct error *err)
{
    if (trust == TRUST_NAMED) {
        if (mkdir_p(path, 0700, err) < 0)
            return -1;
    } else if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        /* a home on a read-only file system may already have the folder: the checks below decide */
        if (errno != EROFS || access(path, F_OK) < 0)
            return error_errno(err, ERROR_INFRA, errno, "could not create folder \"%s\"", path);
    }
    int nofollow = trust == TRUST_SHARED ? O_NOFOLLOW : 0;
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | nofollow);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERROR_INFRA, errno, "cannot open folder \"%s\"", path);
    if (trust != TRUST_NAMED && st.st_uid != geteuid())
        return error_set(err, ERROR_INFRA, "cannot use folder \"%s\": it belongs to uid %ld", path, (long)st.st_uid);
    if (trust == TRUST_SHARED && (st.st_mode & 077))
        return error_set(err, ERROR_INFRA, "cannot use folder \"%s\": others have access to it", path);
    if (trust == TRUST_HOME && (st.st_mode & 077) && fchmod(fd, 0700) < 0)
        return error_errno(err, ERROR_INFRA, errno, "cannot close folder \"%s\" to others", path);
    if (access(path, R_OK | W_OK | X_OK) < 0)
        return error_errno(err, ERROR_INFRA, errno, "cannot write to folder \"%s\"", path);
    return STEAL_FD(fd);
}

int base_dir_open(const char *named, struct arena *arena, char **ret_path, struct error *err)
{
    static const char *const shared[] = {"/var/tmp", "/dev/shm", "/tmp"};
    struct error why = ERROR_INIT;
    if (*named) {
        if (*named != '/')
            return error_set(err, ERROR_INFRA, "cannot use folder \"%s\": not an absolute path", named);
        *ret_path = arena_strdup(arena, named);
        return open_candidate(named, TRUST_NAMED, err);
    }
    const char *home = facts_home(arena);
    if (*home == '/') {
        char *path = arena_printf(arena, "%s/.rhrun", strcmp(home, "/") == 0 ? "" : home);
        int fd = open_candidate(path, TRUST_HOME, &why);
        if (fd >= 0) {
            *ret_path = path;
            return fd;
        }
    } else {
        error_set(&why, ERROR_INFRA, "no home folder");
    }
    for (size_t i = 0; i < ARRAY_LEN(shared); i++) {
        char *path = arena_printf(arena, "%s/rhrun-%ld", shared[i], (long)geteuid());
        struct error reason = ERROR_INIT;
        int fd = open_candidate(path, TRUST_SHARED, &reason);
        if (fd >= 0) {
            *ret_path = path;
            return fd;
        }
        size_t n = strlen(why.text);
        snprintf(why.text + n, sizeof why.text - n, "; %s", reason.text);
        if (reason.why)
            why.why = reason.why;
    }
    error_set(err, ERROR_INFRA, "no folder for rhrun's state on the node: %s", why.text);
    return error_why(err, why.why);
}
