/*
 * rhrun-agent: serves one controller on stdin and stdout. Everything that it learns or does is on the node's disk, so
 * it may be killed at any instant; the programs that it started live on under their own supervisor.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The uploader passes --unlink: it made the file and the folder, our current one, for this start only. */
static void remove_self(const char *argv0)
{
    char folder[PATH_MAX];
    unlink(argv0);
    if (getcwd(folder, sizeof folder) && chdir("/") == 0)
        rmdir(folder);
}

/* The first opened file would get the number of a closed standard descriptor, and stream data would be written to
 * it. */
static void open_standard_fds(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        static const char version[] = "rhrun-agent " RHRUN_VERSION "\n";
        return write_all(1, version, sizeof version - 1) < 0;
    }
    bool remove = argc == 2 && strcmp(argv[1], "--unlink") == 0;
    if (argc > 1 && !remove) {
        static const char usage[] = "usage: rhrun-agent [--version | --unlink]\n";
        write_all(2, usage, sizeof usage - 1);
        return 2;
    }
    if (remove)
        remove_self(argv[0]);
    open_standard_fds();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is like a full disk; workers get the signal (super_exec.c) */
    return serve(0, 1);
}
