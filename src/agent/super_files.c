/*
 * Files of workers beside the spool: their streams in the log folder, and torch's error files. The first failed
 * worker's error file says why it failed: {"message": TEXT} or {"message": {"message": TEXT, ...}}.
 */
#include "super.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ERROR_FILE_MAX = 256 << 10, ERROR_TEXT_MAX = 1024 };

static char *folder_of(const struct super *su, const struct worker *w)
{
    return xasprintf("%s/%u", su->s->run->log_dir, w->status->rank);
}

/* The folder of the attempt, which has its status; NULL: not known. */
static char *own_folder(const struct super *su)
{
    char dir[PATH_MAX], link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", su->sink.dir_fd);
    ssize_t n = readlink(link, dir, sizeof dir);
    return n > 0 ? xstrndup(dir, (size_t)n) : NULL;
}

/* NULL: it has none. */
static char *error_file(const struct super *su, const struct worker *w)
{
    const struct wire_run *run = su->s->run;
    if (!(run->flags & WIRE_RUN_ERROR_FILES))
        return NULL;
    if (*run->log_dir)
        return xasprintf("%s/%u/error.json", run->log_dir, w->status->rank);
    CLEANUP(cleanup_free) char *dir = own_folder(su);
    return dir ? xasprintf("%s/error.%u.json", dir, w->status->rank) : NULL;
}

int files_hosts(const struct super *su, struct environment *env)
{
    const char *text = su->s->run->hosts;
    CLEANUP(cleanup_free) char *dir = own_folder(su);
    if (!text || !*text)
        return 0;
    CLEANUP(cleanup_close) int fd = openat(su->sink.dir_fd, "hosts", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (!dir || fd < 0 || write_all(fd, text, strlen(text)) < 0)
        return -1;
    environment_set(env, xasprintf("RHRUN_HOSTFILE=%s/hosts", dir));
    return 0;
}

int files_open(struct super *su, uint32_t index)
{
    static const char *const names[] = {"stdout", "stderr"};
    struct worker *w = &su->workers[index];
    uint8_t files = su->s->run->workers[index].files;
    char *error = error_file(su, w);
    w->error_env = error ? xasprintf("TORCHELASTIC_ERROR_FILE=%s", error) : NULL;
    free(error);
    if (!*su->s->run->log_dir)
        return 0;
    CLEANUP(cleanup_free) char *folder = folder_of(su, w);
    if (mkdir_p(folder, 0700, NULL) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        if (!(files & (WIRE_KEEP_OUT << i)))
            continue;
        CLEANUP(cleanup_free) char *path = xasprintf("%s/%s.log", folder, names[i]);
        w->files[i] = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (w->files[i] < 0)
            return -1;
    }
    return 0;
}

void files_write(struct super *su, struct worker *w, const struct output *st, const uint8_t *data, size_t len)
{
    int *fd = &w->files[st->id == WIRE_STREAM_ERR];
    while (len && *fd >= 0) {
        ssize_t n = write(*fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) { /* a full disk: the worker goes on */
            int errnum = errno;
            close(*fd);
            *fd = -1;
            sink_note(su, w, "cannot write to its log file: %s", strerror(errnum));
            return;
        }
        data += n;
        len -= (size_t)n;
    }
}

/* The value after the next "message":, or NULL. */
static const char *message_value(const char *p)
{
    p = p ? strstr(p, "\"message\"") : NULL;
    if (!p)
        return NULL;
    p += strlen("\"message\"");
    return p + strspn(p, " \t\r\n:");
}

/* A JSON string as a single line of text. */
static void unescape(const char *p, struct buf *ret)
{
    for (p++; *p && *p != '"' && ret->len < ERROR_TEXT_MAX; p++) {
        unsigned c = (unsigned char)*p;
        if (c == '\\' && p[1]) {
            c = (unsigned char)*++p;
            if (c == 'u' && strspn(p + 1, "0123456789abcdefABCDEF") >= 4) {
                c = 0;
                for (int i = 0; i < 4; i++) {
                    p++;
                    c = 16 * c + ((unsigned)*p & 15) + (*p > '9' ? 9u : 0u);
                }
                c = c >> 11 == 0x1b ? '?' : c; /* half of a surrogate pair */
                if (c >= 0x800)
                    buf_putc(ret, (char)(0xe0 | c >> 12));
                if (c >= 0x80)
                    buf_putc(ret, (char)(c >= 0x800 ? 0x80 | (c >> 6 & 63) : 0xc0 | c >> 6));
                c = c >= 0x80 ? 0x80 | (c & 63) : c;
            } else if (strchr("nrtbf", (int)c)) {
                c = ' ';
            }
        }
        buf_putc(ret, c < ' ' ? ' ' : (char)c);
    }
}

void files_error(struct super *su, struct worker *w)
{
    CLEANUP(cleanup_free) char *path = error_file(su, w);
    if (!path)
        return;
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    CLEANUP(cleanup_free) char *text = xmalloc(ERROR_FILE_MAX + 1);
    ssize_t n = read(fd, text, ERROR_FILE_MAX);
    struct buf line = {0};
    struct mask_stream mask = {0};
    text[n > 0 ? n : 0] = 0;
    const char *value = message_value(text);
    if (value && *value == '{')
        value = message_value(value);
    if (value && *value == '"')
        unescape(value, &line);
    mask_feed(&su->mask, &mask, (const uint8_t *)line.data, line.len, true, &su->shown);
    const struct tail *tail = &w->tail;
    if (su->shown.len && tail->len && tail->data[tail->len - 1] != '\n')
        tail_add(&w->tail, (const uint8_t *)"\n", 1);
    if (su->shown.len)
        sink_note(su, w, WIRE_ERROR_NOTE "%.*s", (int)su->shown.len, su->shown.data);
    buf_free(&line);
}
