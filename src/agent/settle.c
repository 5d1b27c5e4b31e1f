/* SETTLE: syncfs of the file systems of the ledger, the working directory and other roots of trees, in a child, for it may take long. */
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FD_MAX = 1024, TEXT_MAX = 1024 };

/* If the agent dies, the child must not keep the peer's streams or the job's lock open: those were opened early and
 * have small numbers. */
static void close_all_but(int keep)
{
    for (int fd = 0; fd < FD_MAX; fd++)
        if (fd != keep)
            close(fd);
}

static int sync_path(const char *path, dev_t *last)
{
    struct stat st;
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (st.st_dev == *last)
        return 0;
    *last = st.st_dev;
    return syncfs(fd);
}

struct elsewhere {
    dev_t last;
    struct error err;
};

static void sync_root(void *context, const char *name, const char *root)
{
    struct elsewhere *e = context;
    (void)name;
    if (*root == '/' && sync_path(root, &e->last) < 0 && errno != ENOENT && e->err.code == ERROR_NONE)
        error_errno(&e->err, ERROR_INFRA, errno, "could not sync \"%s\"", root);
}

static _Noreturn void child(const struct ledger *l, int fd)
{
    close_all_but(fd);
    struct error err = ERROR_INIT;
    dev_t last = 0;
    if (sync_path(l->base, &last) < 0)
        error_errno(&err, ERROR_INFRA, errno, "could not sync \"%s\"", l->base);
    else if (sync_path(l->work_dir, &last) < 0 && errno != ENOENT)
        error_errno(&err, ERROR_INFRA, errno, "could not sync \"%s\"", l->work_dir);
    struct elsewhere roots = {last, err};
    tree_each(l, false, sync_root, &roots);
    err = roots.err;
    write_all(fd, err.text, strlen(err.text));
    write_all(fd, "", 1); /* the NUL says that the answer is complete */
    _exit(0);
}

static void answer(struct server *s, const char *text)
{
    for (uint32_t i = 0; i < s->settle.running_count; i++) {
        size_t frame = wire_begin(&s->out.control, WIRE_SETTLED);
        wire_put_u64(&s->out.control, s->settle.running[i]);
        wire_put_string(&s->out.control, text);
        wire_end(&s->out.control, frame);
    }
    s->settle.running_count = 0;
}

/* Starts a child for all waiting requests. */
static void start(struct server *s)
{
    struct settle *t = &s->settle;
    memcpy(t->running, t->waiting, sizeof t->running);
    t->running_count = t->waiting_count;
    t->waiting_count = 0;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        answer(s, "could not sync: no descriptors left on the node");
        return;
    }
    t->pid = fork();
    if (t->pid == 0)
        child(&s->ledger, ends[1]);
    close(ends[1]);
    if (t->pid < 0) {
        close(ends[0]);
        answer(s, "could not sync: no process left on the node");
        return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    t->fd = ends[0];
}

void server_settle(struct server *s, uint64_t token)
{
    struct settle *t = &s->settle;
    if (t->waiting_count == SETTLE_MAX) {
        out_fault(&s->out, "", "more than %d SETTLE requests wait", SETTLE_MAX);
        return;
    }
    t->waiting[t->waiting_count++] = token;
    if (t->fd < 0)
        start(s);
}

void server_settled(struct server *s)
{
    struct settle *t = &s->settle;
    char text[TEXT_MAX];
    ssize_t n = read(t->fd, text, sizeof text);
    if (n < 0)
        return;
    if (n > 0) {
        buf_append(&t->text, text, (size_t)n);
        return;
    }
    close(t->fd);
    t->fd = -1;
    waitpid(t->pid, NULL, 0);
    bool whole = t->text.len && t->text.data[t->text.len - 1] == 0;
    answer(s, whole ? t->text.data : "could not sync: the syncing process died");
    buf_free(&t->text);
    if (t->waiting_count)
        start(s);
}
