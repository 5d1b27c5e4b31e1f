/* What takes long without a word gets one: a line on the terminal once it has lasted for a while. */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 700 };

struct patience {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ended;
    char *text;
};

static void *wait_and_say(void *arg)
{
    struct patience *p = arg;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&p->lock);
    while (!p->ended && pthread_cond_timedwait(&p->over, &p->lock, &until) == 0)
        ;
    if (!p->ended)
        dprintf(2, "rhrun: %s\n", p->text);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct patience *patience_begin(const struct cli *c, const char *text)
{
    if (c->given[OPT_QUIET] || c->given[OPT_JSON] || !isatty(2))
        return NULL;
    struct patience *p = xcalloc(1, sizeof *p);
    p->text = xstrdup(text);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->over, NULL);
    if (pthread_create(&p->thread, NULL, wait_and_say, p) == 0)
        return p;
    free(p->text);
    free(p);
    return NULL;
}

void patience_end(struct patience *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_cond_signal(&p->over);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->over);
    pthread_mutex_destroy(&p->lock);
    free(p->text);
    free(p);
}
