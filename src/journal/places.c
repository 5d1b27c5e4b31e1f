/* The state directory: its folders, and the lock of a job. */
#include "internal.h"

#include "rhrun/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_TRIES = 50, LOCK_TEXT_MAX = 512 };

char *journal_home_path(struct error *err)
{
    const char *dir = getenv("RHRUN_HOME");
    if (dir && *dir == '/')
        return xstrdup(dir);
    if (dir && *dir) {
        CLEANUP(cleanup_free) char *cwd = getcwd(NULL, 0);
        if (!cwd) {
            error_errno(err, ERROR_IO, errno, "cannot find out the current folder");
            return NULL;
        }
        return xasprintf("%s/%s", cwd, dir);
    }
    dir = getenv("XDG_STATE_HOME"); /* XDG base directories: a relative path is ignored */
    if (dir && *dir == '/')
        return xasprintf("%s/rhrun", dir);
    dir = getenv("HOME");
    if (!dir || *dir != '/') {
        const struct passwd *pw = getpwuid(getuid());
        dir = pw ? pw->pw_dir : NULL;
    }
    if (!dir || *dir != '/') {
        error_set(err, ERROR_IO, "cannot tell where to keep the state: HOME is not set");
        error_hint(err, "set RHRUN_HOME to a folder");
        return NULL;
    }
    return xasprintf("%s/.local/state/rhrun", dir);
}

static void sync_dir(const char *path)
{
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        fsync(fd);
}

int journal_make_dir(const char *path, struct error *err)
{
    struct stat st;
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return 0;
        return error_errno(err, ERROR_IO, ENOTDIR, "could not create folder \"%s\"", path);
    }
    CLEANUP(cleanup_free) char *parent = xstrdup(path);
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = 0;
        if (journal_make_dir(parent, err) < 0)
            return -1;
    }
    if (mkdir(path, 0700) < 0) {
        if (errno == EEXIST) /* another rhrun was faster */
            return 0;
        return error_errno(err, ERROR_IO, errno, "could not create folder \"%s\"", path);
    }
    if (chmod(path, 0700) < 0) /* the umask may have removed our own bits */
        return error_errno(err, ERROR_IO, errno, "could not set the mode of folder \"%s\"", path);
    sync_dir(slash && slash != parent ? parent : "/");
    return 0;
}

char *journal_home(struct error *err)
{
    char *home = journal_home_path(err);
    if (home && journal_make_dir(home, err) < 0) {
        error_hint(err, "the state directory is $RHRUN_HOME, else $XDG_STATE_HOME/rhrun, else ~/.local/state/rhrun");
        free(home);
        return NULL;
    }
    return home;
}

void journal_job_id(const char *name, const char *origin, char ret_id[17])
{
    spec_job_id(name, origin, ret_id);
}

char *journal_make_job_dir(const char *job_id, struct error *err)
{
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home)
        return NULL;
    char *path = xasprintf("%s/jobs/%s", home, job_id);
    if (journal_make_dir(path, err) < 0) {
        free(path);
        return NULL;
    }
    return path;
}

/* ---- the lock ---- */

/* "pid owner_name\n"; false if the file does not have it (yet). */
static bool lock_text(int fd, pid_t *ret_pid, char **ret_name)
{
    char text[LOCK_TEXT_MAX + 1];
    ssize_t n = pread(fd, text, LOCK_TEXT_MAX, 0);
    if (n <= 0)
        return false;
    text[n] = 0;
    char *space = strchr(text, ' '), *end = strchr(text, '\n');
    uint32_t pid;
    if (!space || !end || end < space)
        return false;
    *space = 0;
    *end = 0;
    if (!parse_u32(text, &pid) || pid == 0 || pid > INT32_MAX)
        return false;
    if (ret_pid)
        *ret_pid = (pid_t)pid;
    if (ret_name)
        *ret_name = xstrdup(space + 1);
    return true;
}

static int lock_held(const char *what, const char *name, int fd, struct error *err)
{
    pid_t pid = 0;
    CLEANUP(cleanup_free) char *holder = NULL;
    if (!lock_text(fd, &pid, &holder))
        return error_set(err, ERROR_HELD, "%s \"%s\" is held by another rhrun", what, name);
    error_set(err, ERROR_HELD, "%s \"%s\" is held by pid %ld (%s)", what, name, (long)pid, holder);
    if (str_eq(what, "job"))
        error_hint(err, "watch it with `rhrun attach`, stop it with `rhrun cancel`, or wait until it ends");
    return -1;
}

int journal_lock_as(const char *path, const char *what, const char *name, const char *owner_name, struct error *err)
{
    CLEANUP(cleanup_free) char *file = xasprintf("%s/lock", path);
    CLEANUP(cleanup_close) int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_errno(err, ERROR_IO, errno, "could not open \"%s\"", file);
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        pid_t pid;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_errno(err, ERROR_IO, errno, "could not lock \"%s\"", file);
        /* The file names no live holder: the holder is about to write its name, or somebody only checks who holds the
         * lock. */
        bool alive = lock_text(fd, &pid, NULL) && (kill(pid, 0) == 0 || errno == EPERM);
        if (alive || i >= LOCK_TRIES)
            return lock_held(what, name, fd, err);
        poll(NULL, 0, 2);
    }
    CLEANUP(cleanup_free) char *text = xasprintf("%ld %.400s\n", (long)getpid(), owner_name);
    size_t len = strlen(text);
    if (fchmod(fd, 0600) < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, text, len, 0) != (ssize_t)len)
        return error_errno(err, ERROR_IO, errno, "could not write \"%s\"", file);
    return STEAL_FD(fd);
}

int journal_lock(const char *path, const char *name, const char *owner_name, struct error *err)
{
    return journal_lock_as(path, "job", name, owner_name, err);
}

void journal_unlock(int fd)
{
    if (fd < 0)
        return;
    if (ftruncate(fd, 0) < 0) {
        /* A name that stays is recognised by its dead pid. */
    }
    close(fd);
}

bool journal_lock_holder(const char *path, pid_t *ret_pid, char **ret_name)
{
    CLEANUP(cleanup_free) char *file = xasprintf("%s/lock", path);
    CLEANUP(cleanup_close) int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return false;
    return lock_text(fd, ret_pid, ret_name);
}
