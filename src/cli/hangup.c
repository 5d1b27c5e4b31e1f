/* Commands that rent, or give back, continue when their terminal ends. */
#include "renting.h"

#include <signal.h>

static void hung_up(void *arg, int signum)
{
    (void)arg, (void)signum;
}

struct loop_signal *renting_hold_on(struct loop *loop)
{
    signal(SIGPIPE, SIG_IGN);
    return loop_signal_create(loop, SIGHUP, hung_up, NULL, NULL);
}
