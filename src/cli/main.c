/* rhrun: where the process begins. */
#include "rhrun/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Closed by whoever started it (`>&-`, some daemons): else the next file opened, the journal say, would be stdout. */
static void open_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(3);
}

extern const char rhrun_commit[]; /* made by cmake/commit.cmake at each build */

int main(int argc, char **argv)
{
    open_standard_streams();
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes (ulimit -f): the write fails, and says so */
    return cli_main(argc, argv, &(struct cli_build){rhrun_commit, RHRUN_BUILD_TYPE});
}
