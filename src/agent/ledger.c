/*
 * The folders, identities, lock, epoch and owner of one job on this machine.
 *
 * Only the epoch is synced here, not ids and folders. If power is lost before a SETTLE has synced them, they are gone
 * or empty; the node then comes back with a new install id, and no record for the old id counts any more.
 */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { SMALL_MAX = 4096, LOCK_WAIT_MS = 10000, LOCK_POLL_MS = 2, EPOCH_DIGITS = 20 };

bool name_valid(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(name);
    return n >= 1 && n <= 64 && name[0] != '.' && strspn(name, allowed) == n;
}

/* ---- small files ---- */

static char *read_small(int dir_fd, const char *name, struct arena *arena)
{
    char text[SMALL_MAX];
    CLEANUP(cleanup_close) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text, 0);
    return n < 0 ? arena_strdup(arena, "") : arena_strndup(arena, text, (size_t)n);
}

static int write_small(int dir_fd, const char *name, const char *text, bool fresh, struct error *err)
{
    return file_put(dir_fd, name, text, strlen(text), fresh, err);
}

/* mkdir -p below the base; first the usual case, in which all folders exist. */
static int make_dirs(int base_fd, const char *path, struct error *err)
{
    if (mkdirat(base_fd, path, 0700) == 0 || errno == EEXIST)
        return 0;
    char part[512];
    if (errno != ENOENT || strlen(path) >= sizeof part)
        return error_errno(err, ERROR_INFRA, errno, "could not create folder \"%s\" of the node's ledger", path);
    for (const char *p = path;; p++) {
        if (*p != '/' && *p)
            continue;
        memcpy(part, path, (size_t)(p - path));
        part[p - path] = 0;
        if (mkdirat(base_fd, part, 0700) < 0 && errno != EEXIST)
            return error_errno(err, ERROR_INFRA, errno, "could not create folder \"%s\" of the node's ledger", part);
        if (!*p)
            return 0;
    }
}

static int open_dir(int at_fd, const char *path, struct error *err)
{
    int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_errno(err, ERROR_INFRA, errno, "cannot open folder \"%s\" of the node's ledger", path) : fd;
}

static int open_file(int dir_fd, const char *name, struct error *err)
{
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? error_errno(err, ERROR_INFRA, errno, "cannot open \"%s\" of the node's ledger", name) : fd;
}

/* ---- identities ---- */

static int read_home_id(struct ledger *l, struct arena *arena, struct error *err)
{
    for (int round = 0;; round++) {
        char *text = read_small(l->base_fd, "home-id", arena);
        text[strcspn(text, "\n")] = 0;
        if (wire_id_valid(text)) {
            l->home_id = text;
            return 0;
        }
        if (round == 2)
            return error_set(err, ERROR_INFRA, "could not keep an id in \"%s\"", l->base);
        char id[WIRE_ID_LEN + 1];
        random_hex(id, WIRE_ID_LEN / 2);
        if (write_small(l->base_fd, "home-id", id, round == 0, err) < 0)
            return -1;
    }
}

/* FNV-1a: only names a folder, protects nothing (the install file repeats the hashed input). */
static uint64_t fnv1a(uint64_t h, const char *s)
{
    for (;; s++) {
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
        if (!*s)
            return h;
    }
}

static void machine_name(const char *const parts[3], char out[33])
{
    uint64_t a = 0xcbf29ce484222325u, b = 0x9ae16a3b2f90404fu;
    for (int i = 0; i < 3; i++) {
        a = fnv1a(a, parts[i]);
        b = fnv1a(b ^ a, parts[i]);
    }
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

/* The install file has the id and the identity that it was made for; a different identity means a cloned machine, which
 * gets a new id. */
static int read_install(struct ledger *l, int machine_fd, const char *const parts[3], struct arena *arena,
                        struct error *err)
{
    char *identity = arena_printf(arena, "%s\n%s\n%s\n", parts[0], parts[1], parts[2]);
    for (int round = 0;; round++) {
        char *text = read_small(machine_fd, "install", arena);
        char *rest = strchr(text, '\n');
        bool good = rest && strcmp(rest + 1, identity) == 0;
        if (rest)
            *rest = 0;
        if (good && wire_id_valid(text)) {
            l->install = text;
            return 0;
        }
        if (round == 2)
            return error_set(err, ERROR_INFRA, "could not keep the install id of the node in \"%s\"", l->base);
        char id[WIRE_ID_LEN + 1];
        random_hex(id, WIRE_ID_LEN / 2);
        if (write_small(machine_fd, "install", arena_printf(arena, "%s\n%s", id, identity), round == 0, err) < 0)
            return -1;
    }
}

/* ---- opening ---- */

static int open_job(struct ledger *l, const struct wire_hello *h, struct arena *arena, struct error *err)
{
    struct utsname u;
    uname(&u);
    const char *const parts[3] = {facts_line("/etc/machine-id", arena), u.nodename, h->host_digest};
    char machine[33];
    machine_name(parts, machine);
    char *path = arena_printf(arena, "m/%s", machine);
    if (make_dirs(l->base_fd, path, err) < 0)
        return -1;
    CLEANUP(cleanup_close) int machine_fd = open_dir(l->base_fd, path, err);
    if (machine_fd < 0 || read_home_id(l, arena, err) < 0 || read_install(l, machine_fd, parts, arena, err) < 0)
        return -1;

    path = arena_printf(arena, "m/%s/jobs/%s", machine, h->job);
    char *home = arena_printf(arena, "%s/.rhrun", facts_home(arena));
    if (!*h->base_dir && !str_eq(home, l->base) && access(arena_printf(arena, "%s/%s", home, path), F_OK) == 0)
        return error_set(err, ERROR_INFRA, "cannot write to folder \"%s\", where this job's ledger is: %s", home,
                         access(home, W_OK) < 0 ? strerror(errno)
                                                : "not usable"); /* another folder would not have its records */
    static const char *const folders[] = {"conns", "env", "a"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (make_dirs(l->base_fd, arena_printf(arena, "%s/%s", path, folders[i]), err) < 0)
            return -1;
    l->job_dir = arena_printf(arena, "%s/%s", l->base, path);
    l->env_dir = arena_printf(arena, "%s/env", l->job_dir);
    return (l->job_fd = open_dir(l->base_fd, path, err)) < 0 || (l->a_fd = open_dir(l->job_fd, "a", err)) < 0 ||
                   (l->lock_fd = open_file(l->job_fd, "lock", err)) < 0 ||
                   (l->epoch_fd = open_file(l->job_fd, "epoch", err)) < 0
               ? -1
               : 0;
}

int ledger_open(struct ledger *l, const struct wire_hello *h, struct arena *arena, struct error *err)
{
    *l = (struct ledger){.base_fd = -1, .job_fd = -1, .a_fd = -1, .lock_fd = -1, .epoch_fd = -1, .conn_fd = -1};
    if (!name_valid(h->owner)) /* the other names were checked as the frame was read */
        return error_set(err, ERROR_PROTOCOL, "HELLO: invalid owner \"%.80s\"", h->owner);
    l->read_only = h->mode == WIRE_READ;
    l->in_place = *h->work_dir;
    l->job = arena_strdup(arena, h->job);
    l->variant = arena_strdup(arena, h->variant);
    l->owner = arena_strdup(arena, h->owner);
    l->home = facts_home(arena);
    l->boot_id = *h->test_boot_id ? arena_strdup(arena, h->test_boot_id) : facts_boot_id(arena);
    l->container = facts_container(arena);
    l->place = *l->container ? arena_printf(arena, "%s+%.26s", l->container, l->boot_id) : l->boot_id;
    l->base_fd = base_dir_open(h->base_dir, arena, &l->base, err);
    if (l->base_fd < 0 || open_job(l, h, arena, err) < 0) {
        ledger_close(l);
        return -1;
    }
    l->work_dir = l->in_place
                      ? arena_strdup(arena, h->work_dir)
                      : arena_printf(arena, "%s/work/%s%s%s", l->base, l->job, *l->variant ? "/" : "", l->variant);
    return 0;
}

void ledger_close(struct ledger *l)
{
    int *fds[] = {&l->base_fd, &l->job_fd, &l->a_fd, &l->lock_fd, &l->epoch_fd, &l->conn_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] > 2) /* a zeroed ledger holds none */
            close(*fds[i]);
        *fds[i] = -1;
    }
}

/* ---- lock, epoch, owner ---- */

int lock_wait(int fd)
{
    uint64_t end = mono_ns() + LOCK_WAIT_MS * UINT64_C(1000000);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || mono_ns() > end)
            return -1;
        struct timespec pause = {.tv_nsec = LOCK_POLL_MS * 1000000};
        nanosleep(&pause, NULL);
    }
    return 0;
}

int ledger_lock(struct ledger *l, struct error *err)
{
    if (lock_wait(l->lock_fd) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return error_errno(err, ERROR_INFRA, errno, "cannot lock the job on the node (\"%s\")", l->base);
    return error_set(err, ERROR_INFRA, "could not lock the job on the node: another agent holds the lock");
}

void ledger_unlock(struct ledger *l)
{
    flock(l->lock_fd, LOCK_UN);
}

int ledger_epoch(const struct ledger *l, uint64_t *ret, struct error *err)
{
    char text[EPOCH_DIGITS + 2];
    ssize_t n = pread(l->epoch_fd, text, sizeof text - 1, 0);
    if (n < 0)
        return error_errno(err, ERROR_INFRA, errno, "cannot read the epoch of the job on the node");
    text[n] = 0;
    text[strcspn(text, "\n")] = 0;
    if (!*text)
        *ret = 0; /* made but never written (a power cut may leave zeros): no HELLO was answered yet */
    else if (!parse_u64(text, ret))
        return error_set(err, ERROR_INFRA, "the epoch of the job on the node is damaged: \"%s\"", text);
    return 0;
}

/* In place: a fixed width within one sector needs one sync and no room on a full disk. */
int ledger_epoch_set(struct ledger *l, uint64_t epoch, struct error *err)
{
    char text[EPOCH_DIGITS + 2];
    struct stat st;
    int n = snprintf(text, sizeof text, "%020llu\n", (unsigned long long)epoch);
    bool fresh = fstat(l->epoch_fd, &st) == 0 && st.st_size == 0;
    if (pwrite(l->epoch_fd, text, (size_t)n, 0) != n)
        return error_errno(err, ERROR_INFRA, errno, "could not write the epoch of the job on the node");
    /* Some network file systems cannot sync (EINVAL); a real failure is a different one. */
    if ((fsync(l->epoch_fd) < 0 || (fresh && fsync(l->job_fd) < 0)) && errno != EINVAL && errno != ENOTSUP)
        return error_errno(err, ERROR_INFRA, errno, "could not sync the epoch of the job on the node");
    l->epoch = epoch;
    return 0;
}

void ledger_owner(const struct ledger *l, struct arena *arena, char **ret_owner, char **ret_name)
{
    char *text = read_small(l->job_fd, "owner", arena);
    size_t n = strcspn(text, "\n");
    *ret_name = text[n] ? text + n + 1 : text + n;
    text[n] = 0;
    (*ret_name)[strcspn(*ret_name, "\n")] = 0;
    *ret_owner = text;
}

int ledger_owner_set(struct ledger *l, const char *owner, const char *name, struct error *err)
{
    CLEANUP(cleanup_free) char *text = xasprintf("%s\n%.200s\n", owner, name);
    return write_small(l->job_fd, "owner", text, false, err);
}

/* A record lock, unlike the others: it belongs to this process alone, so a supervisor that was just forked does not
 * keep a dead agent's connection alive. */
bool ledger_connected(const struct ledger *l, const char *owner)
{
    char path[80];
    if (!name_valid(owner))
        return false;
    snprintf(path, sizeof path, "conns/%s", owner);
    CLEANUP(cleanup_close) int fd = openat(l->job_fd, path, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int ledger_connect(struct ledger *l, struct error *err)
{
    char path[80];
    snprintf(path, sizeof path, "conns/%s", l->owner);
    l->conn_fd = open_file(l->job_fd, path, err);
    if (l->conn_fd < 0)
        return -1;
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (fcntl(l->conn_fd, F_SETLK, &lock) < 0)
        return error_errno(err, ERROR_INFRA, errno, "cannot mark the connection on the node");
    return 0;
}

/* ---- working directory and attempts ---- */

int ledger_work_dir(struct ledger *l, struct error *err)
{
    struct stat st;
    if (l->in_place) {
        if (stat(l->work_dir, &st) < 0)
            return error_errno(err, ERROR_INFRA, errno, "working directory \"%s\"", l->work_dir);
        return S_ISDIR(st.st_mode) ? 0 : error_set(err, ERROR_INFRA, "\"%s\" is not a folder", l->work_dir);
    }
    return make_dirs(l->base_fd, l->work_dir + strlen(l->base) + 1, err);
}

char *ledger_node_path(const struct ledger *l, const char *path, struct arena *arena)
{
    bool base = str_starts(path, "@base"), home = *path == '~';
    const char *rest = path + (base ? strlen("@base") : home);
    if ((base || home) && (*rest == '/' || !*rest))
        return arena_printf(arena, "%s%s", base || !*l->home ? l->base : l->home, rest);
    return *path == '/' ? arena_strdup(arena, path)
                        : arena_printf(arena, "%s%s%s", l->work_dir, *path ? "/" : "", path);
}

int ledger_attempt(const struct ledger *l, const char *attempt)
{
    return wire_id_valid(attempt) ? openat(l->a_fd, attempt, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

static void remove_folder(int a_fd, const char *name)
{
    int fd = openat(a_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));)
        unlinkat(fd, e->d_name, 0);
    closedir(dir);
    unlinkat(a_fd, name, AT_REMOVEDIR);
}

int ledger_forget(struct ledger *l, const char *attempt, struct error *err)
{
    char gone[WIRE_ID_LEN + 8];
    snprintf(gone, sizeof gone, "%s.gone", attempt);
    if (renameat(l->a_fd, attempt, l->a_fd, gone) < 0)
        return errno == ENOENT ? 0 : error_errno(err, ERROR_INFRA, errno, "could not remove attempt %s", attempt);
    remove_folder(l->a_fd, gone);
    return 0;
}

void ledger_each(struct ledger *l, bool (*fn)(void *context, const char *attempt, int dir_fd), void *context)
{
    int fd = openat(l->a_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    bool more = true;
    for (struct dirent *e; more && (e = readdir(dir));) {
        if (str_ends(e->d_name, ".gone") && !l->read_only)
            remove_folder(l->a_fd, e->d_name);
        CLEANUP(cleanup_close) int attempt_fd = ledger_attempt(l, e->d_name);
        if (attempt_fd >= 0)
            more = fn(context, e->d_name, attempt_fd);
    }
    closedir(dir);
}

bool ledger_status(int dir_fd, struct status *ret)
{
    CLEANUP(cleanup_close) int fd = openat(dir_fd, "status", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && pread(fd, ret, sizeof *ret, 0) == (ssize_t)sizeof *ret && ret->version == STATUS_VERSION &&
           ret->state != 0;
}

const char *ledger_reason(const struct ledger *l, const struct error *err, struct arena *scratch)
{
    struct statvfs fs;
    const char *base = l->base;
    bool full = err->why == ERROR_WHY_DISK_FULL;
    if (!full && base && statvfs(base, &fs) == 0)
        full = fs.f_bavail == 0 && fs.f_blocks > 0;
    return full ? arena_printf(scratch, "no space left on the node (%s): %s", base ? base : "?", err->text) : err->text;
}
