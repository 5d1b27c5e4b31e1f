/*
 * The supervisor, started for real. No sleeping: the workload's progress is known from its output (the bell rings when
 * there is some) or from a FIFO that it waits on, and every wait has a deadline.
 */
#ifndef TESTS_SUPERVISE_SCENE_H
#define TESTS_SUPERVISE_SCENE_H

#include "../../src/agent/super.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEADLINE_MS = 30000, SCRIPTS_MAX = 4 };

struct fixture {
    char root[64];
    char *work_dir, *env_dir;
    int a_fd, dir_fd, bell_fd;
    uint64_t deadline_ns;
    struct arena *arena;
    struct wire_run run;
    struct wire_worker workers[SCRIPTS_MAX];
    char attempt[WIRE_ID_LEN + 1];
    struct buf spool;
    struct wire_record record;
};

static inline char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static inline void worker_add(struct fixture *f, const char *script)
{
    struct wire_worker *w = &f->workers[f->run.worker_count];
    char **argv = arena_array(f->arena, 1, sizeof *argv);
    argv[0] = arena_strdup(f->arena, script);
    *w = (struct wire_worker){
        .rank = f->run.worker_count, .local_rank = f->run.worker_count, .shell = 1, .argv = {argv, 1}};
    f->run.worker_count++;
}

static inline struct wire_strings list_of(struct fixture *f, const char *a, const char *b)
{
    char **items = arena_array(f->arena, 2, sizeof *items);
    items[0] = arena_strdup(f->arena, a);
    items[1] = b ? arena_strdup(f->arena, b) : NULL;
    return (struct wire_strings){items, b ? 2 : 1};
}

/* A fresh attempt with no workers yet. */
static inline void run_reset(struct fixture *f)
{
    if (f->dir_fd >= 0)
        close(f->dir_fd);
    if (f->bell_fd >= 0)
        close(f->bell_fd);
    f->dir_fd = f->bell_fd = -1;
    buf_clear(&f->spool);
    random_hex(f->attempt, WIRE_ID_LEN / 2);
    f->run = (struct wire_run){.attempt = f->attempt,
                               .slot = text("setup:x"),
                               .key = text("k"),
                               .kind = WIRE_KIND_STEP,
                               .cwd = text(""),
                               .env_in = text(""),
                               .env_out = text(""),
                               .creates = text(""),
                               .log_dir = text(""),
                               .workers = f->workers,
                               .grace_ms = 5000,
                               .log_limit_bytes = 64 << 20};
    f->deadline_ns = mono_ns() + DEADLINE_MS * 1000000ull;
}

static inline int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    strcpy(f->root, "/tmp/rhrun-test-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    f->work_dir = xasprintf("%s/work", f->root);
    f->env_dir = xasprintf("%s/env", f->root);
    CLEANUP(cleanup_free) char *a = xasprintf("%s/a", f->root);
    assert_int_equal(mkdir(f->work_dir, 0700) | mkdir(f->env_dir, 0700) | mkdir(a, 0700), 0);
    f->a_fd = open(a, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->a_fd >= 0);
    f->dir_fd = f->bell_fd = -1;
    f->arena = arena_create();
    run_reset(f);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    CLEANUP(cleanup_free) char *command = xasprintf("rm -rf '%s'", f->root);
    int rc = system(command);
    run_reset(f);
    close(f->a_fd);
    free(f->work_dir);
    free(f->env_dir);
    buf_free(&f->spool);
    arena_destroy(f->arena);
    free(f);
    return rc;
}

static inline void start(struct fixture *f)
{
    struct error err = ERROR_INIT;
    int status = -1;
    if (status_create(f->a_fd, &f->run, "0011223344556677", "boot", 1, &f->dir_fd, &status, &err) < 0)
        fail_msg("%s", err.text);
    f->bell_fd = openat(f->dir_fd, "bell", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(f->bell_fd >= 0);
    struct supervise s = {.run = &f->run,
                          .dir_fd = f->dir_fd,
                          .status_fd = status,
                          .work_dir = f->work_dir,
                          .env_dir = f->env_dir,
                          .boot_id = "boot",
                          .shell = "/bin/bash",
                          .own_dir = true};
    if (supervise_start(&s, &err) < 0)
        fail_msg("%s", err.text);
    close(status);
}

static inline void look(struct fixture *f)
{
    struct error err = ERROR_INIT;
    if (status_read(f->dir_fd, "boot", f->arena, &f->record, &err) < 0)
        fail_msg("%s", err.text);
    for (;;) {
        char chunk[65536];
        ssize_t n = spool_read(f->dir_fd, f->spool.len, chunk, sizeof chunk, &err);
        if (n < 0)
            fail_msg("%s", err.text);
        if (n == 0)
            break;
        buf_append(&f->spool, chunk, (size_t)n);
    }
}

/* Waits for the bell, or for the end of its last writer. */
static inline void wait_bell(struct fixture *f)
{
    struct pollfd p = {.fd = f->bell_fd, .events = POLLIN};
    char drain[4096];
    uint64_t now = mono_ns();
    if (now > f->deadline_ns)
        fail_msg("nothing happened for %d ms", DEADLINE_MS);
    poll(&p, 1, (int)((f->deadline_ns - now) / 1000000 + 1));
    while (read(f->bell_fd, drain, sizeof drain) > 0)
        ;
}

/* The data of one stream of one rank; NULL-free text. */
static inline char *output(struct fixture *f, uint32_t rank, enum wire_stream stream, size_t *ret_len)
{
    struct buf b = {0};
    struct wire_spool h;
    for (size_t at = 0; at < f->spool.len; at += WIRE_SPOOL_HEADER + h.len) {
        assert_true(at + WIRE_SPOOL_HEADER <= f->spool.len);
        assert_true(wire_spool_get((uint8_t *)f->spool.data + at, &h));
        assert_true(at + WIRE_SPOOL_HEADER + h.len <= f->spool.len);
        if (h.rank == rank && h.stream == stream)
            buf_append(&b, f->spool.data + at + WIRE_SPOOL_HEADER, h.len);
    }
    char *copy = arena_strndup(f->arena, b.data ? b.data : "", b.len);
    if (ret_len)
        *ret_len = b.len;
    buf_free(&b);
    return copy;
}

static inline char *out0(struct fixture *f)
{
    return output(f, 0, WIRE_STREAM_OUT, NULL);
}

/* A supervisor that died halfway would never ring again. */
static inline void assert_alive(struct fixture *f)
{
    if (f->record.state == WIRE_STATE_CLAIMED && !status_alive(f->dir_fd)) {
        look(f);
        if (f->record.state == WIRE_STATE_CLAIMED)
            fail_msg("the supervisor died");
    }
}

static inline void wait_output(struct fixture *f, const char *wanted)
{
    for (look(f); !strstr(out0(f), wanted); look(f)) {
        assert_int_equal(f->record.state, WIRE_STATE_CLAIMED);
        wait_bell(f);
        assert_alive(f);
    }
}

static inline void wait_end(struct fixture *f)
{
    for (look(f); f->record.state == WIRE_STATE_CLAIMED; look(f)) {
        wait_bell(f);
        assert_alive(f);
    }
    look(f); /* output published just before the end */
}

static inline void run_one(struct fixture *f, const char *script)
{
    worker_add(f, script);
    start(f);
    wait_end(f);
}

static inline char *path_in(struct fixture *f, const char *name)
{
    return arena_printf(f->arena, "%s/%s", f->work_dir, name);
}

static inline pid_t pid_in(struct fixture *f, const char *name)
{
    struct buf b = {0};
    struct error err = ERROR_INIT;
    if (file_read(path_in(f, name), 100, &b, &err) < 0)
        fail_msg("%s", err.text);
    long pid = strtol(b.data, NULL, 10);
    buf_free(&b);
    assert_true(pid > 1);
    return (pid_t)pid;
}

static inline bool lives(pid_t pid)
{
    struct proc p;
    return proc_read(pid, &p) && p.state != 'Z' && p.state != 'X';
}

/* Tells a workload that waits on a FIFO to continue. */
static inline void fifo_make(struct fixture *f, const char *name)
{
    assert_int_equal(mkfifo(path_in(f, name), 0600), 0);
}

static inline void fifo_tell(struct fixture *f, const char *name)
{
    int fd = open(path_in(f, name), O_RDWR | O_CLOEXEC); /* stays open: the reader may come later */
    assert_int_equal(write(fd, "go\n", 3), 3);
}

static inline void fifo_hear(struct fixture *f, const char *name)
{
    char line[16];
    int fd = open(path_in(f, name), O_RDWR | O_CLOEXEC);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
    assert_true(read(fd, line, sizeof line) > 0);
    close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
