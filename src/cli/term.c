/* The terminal of the live view: no cursor, single keys, no echo; every way out of the program restores it. Keys are
 * read through a descriptor of their own: the loop makes its descriptors non-blocking, and standard input shares that
 * setting with the shell and with our standard output. */
#include "internal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGQUIT};

struct term {
    struct loop *loop;
    struct loop_fd *keys;
    struct loop_signal *stop;
    int fd; /* for keys, -1 = none */
    void (*key)(void *arg, char c);
    void (*resumed)(void *arg);
    void *arg;
    bool acquired;
    void (*old_ttou)(int);
};

/* Global because the handler of a fatal signal has no argument. `active` is set while there is something to restore. */
static struct {
    volatile sig_atomic_t active, raw;
    int fd;
    struct termios saved;
    struct sigaction old[ARRAY_LEN(fatal_signals)];
} guard;

static const char show_cursor[] = "\033[?2026l\033[0m\033[?25h";

/* Calls only functions that are safe in a signal handler. */
static void restore(void)
{
    if (!guard.active)
        return;
    guard.active = 0;
    if (write(2, show_cursor, sizeof show_cursor - 1) < 0)
        guard.raw = guard.raw + 0; /* a failure cannot be handled */
    if (guard.raw)
        tcsetattr(guard.fd, TCSANOW, &guard.saved);
    guard.raw = 0;
}

static void on_fatal(int signum)
{
    restore();
    for (size_t i = 0; i < ARRAY_LEN(fatal_signals); i++)
        if (fatal_signals[i] == signum)
            sigaction(signum, &guard.old[i], NULL);
    raise(signum); /* delivered to the previous handler as soon as this one returns */
}

static void guard_signals(bool on)
{
    struct sigaction act = {.sa_handler = on_fatal};
    for (size_t i = 0; i < ARRAY_LEN(fatal_signals); i++)
        sigaction(fatal_signals[i], on ? &act : &guard.old[i], on ? &guard.old[i] : NULL);
}

bool term_foreground(void)
{
    pid_t group = tcgetpgrp(2);
    return group < 0 || group == getpgrp();
}

bool term_utf8(void)
{
    const char *locale = getenv("LC_ALL");
    if (!locale || !locale[0])
        locale = getenv("LC_CTYPE");
    if (!locale || !locale[0])
        locale = getenv("LANG");
    return locale &&
           (strstr(locale, "UTF-8") || strstr(locale, "utf8") || strstr(locale, "UTF8") || strstr(locale, "utf-8"));
}

void term_size(unsigned *ret_columns, unsigned *ret_rows)
{
    struct winsize w;
    bool known = ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0;
    *ret_columns = known ? w.ws_col : 80;
    *ret_rows = known ? w.ws_row : 24;
}

static void on_keys(void *arg, unsigned events)
{
    struct term *t = arg;
    char keys[64];
    ssize_t n = read(t->fd, keys, sizeof keys);
    (void)events;
    if (n <= 0) {
        if (n == 0)
            loop_fd_set(t->keys, 0); /* hung up */
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (keys[i] == '\033')
            break; /* an arrow or function key: the following bytes are not letters */
        t->key(t->arg, keys[i]);
    }
}

/* Ctrl-Z: restores the terminal and stops; the job's processes continue. */
static void on_stop(void *arg, int signum)
{
    struct term *t = arg;
    (void)signum;
    term_release(t);
    kill(getpid(), SIGSTOP);
    t->resumed(t->arg);
}

struct term *term_create(struct loop *loop, void (*key)(void *arg, char c), void (*resumed)(void *arg), void *arg)
{
    struct term *t = xcalloc(1, sizeof *t);
    char path[256];
    *t = (struct term){.loop = loop, .fd = -1, .key = key, .resumed = resumed, .arg = arg};
    t->old_ttou = signal(SIGTTOU, SIG_IGN); /* setting modes right after a move to the background must not stop us */
    if (isatty(0) && ttyname_r(0, path, sizeof path) == 0)
        t->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    t->keys = t->fd >= 0 ? loop_fd_create(loop, t->fd, on_keys, t, NULL) : NULL;
    t->stop = loop_signal_create(loop, SIGTSTP, on_stop, t, NULL);
    return t;
}

void term_acquire(struct term *t)
{
    struct termios raw;
    static bool at_exit;
    if (t->acquired)
        return;
    t->acquired = true;
    if (!at_exit) {
        atexit(restore);
        at_quick_exit(restore);
    }
    at_exit = true;
    guard.fd = t->fd;
    guard.raw = 0;
    if (t->keys && tcgetattr(t->fd, &guard.saved) == 0) {
        raw = guard.saved;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        guard.raw = tcsetattr(t->fd, TCSANOW, &raw) == 0;
        loop_fd_set(t->keys, LOOP_READ);
    }
    guard.active = 1;
    guard_signals(true);
    write_all(2, "\033[?25l", 6);
}

bool term_has_keys(const struct term *t)
{
    return t->acquired && guard.raw;
}

void term_release(struct term *t)
{
    if (!t->acquired)
        return;
    t->acquired = false;
    if (t->keys)
        loop_fd_set(t->keys, 0);
    guard_signals(false);
    restore();
}

void term_destroy(struct term *t)
{
    if (!t)
        return;
    term_release(t);
    loop_fd_destroy(t->keys);
    loop_signal_destroy(t->stop);
    if (t->fd >= 0)
        close(t->fd);
    signal(SIGTTOU, t->old_ttou);
    free(t);
}
