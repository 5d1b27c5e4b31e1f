/* A line on the terminal for silent work that takes a while. For files that are read it counts them; it is removed when
 * the work is over. */
#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 700, AGAIN_MS = 200 };

struct patience {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ended, redraws;
    char *text;
    struct tree_progress progress;
};

/* "reading src: 12345 files, 4000 of them read (1.2 GB)" on one line, whatever the width. */
static void draw(struct patience *p, bool last)
{
    const uint64_t found = atomic_load(&p->progress.found), read = atomic_load(&p->progress.read);
    struct canvas v = {0};
    unsigned columns, rows;
    char size[32], counts[96] = " ...";
    term_size(&columns, &rows);
    canvas_clear(&v, columns);
    v.utf8 = term_utf8();
    cli_size(atomic_load(&p->progress.read_bytes), size);
    if (read)
        snprintf(counts, sizeof counts, ": %llu files, %llu of them read (%s)", (unsigned long long)found,
                 (unsigned long long)read, size);
    else if (found)
        snprintf(counts, sizeof counts, ": %llu files", (unsigned long long)found);
    const unsigned whole = text_width(p->text, strlen(p->text)), room = columns - 1 - 7 - (unsigned)strlen(counts);
    canvas_put(&v, "", "rhrun: ", 7);
    if (columns > 7 + 10 + strlen(counts))
        canvas_field(&v, "", p->text, whole < room ? whole : room);
    canvas_put(&v, "", counts, strlen(counts));
    struct buf b = {0};
    buf_puts(&b, "\r\033[K");
    if (!last)
        buf_append(&b, v.text.data ? v.text.data : "", v.text.len);
    write_all(2, b.data, b.len);
    buf_free(&b);
    canvas_free(&v);
}

static void *wait_and_say(void *arg)
{
    struct patience *p = arg;
    bool said = false;
    pthread_mutex_lock(&p->lock);
    while (!p->ended && !(said && !p->redraws)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (said ? AGAIN_MS : PATIENCE_MS) * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (!p->ended && pthread_cond_timedwait(&p->over, &p->lock, &until) == 0)
            ;
        if (p->ended)
            break;
        said = true;
        if (p->redraws)
            draw(p, false);
        else
            dprintf(2, "rhrun: %s ...\n", p->text);
    }
    if (said && p->redraws)
        draw(p, true);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct patience *patience_begin(const struct cli *c, const char *text)
{
    const char *term = getenv("TERM");
    if (c->given[OPT_QUIET] || c->given[OPT_JSON] || !isatty(2))
        return NULL;
    struct patience *p = xcalloc(1, sizeof *p);
    p->text = xstrdup(text);
    p->redraws = term && *term && strcmp(term, "dumb") != 0 && term_foreground();
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->over, NULL);
    if (pthread_create(&p->thread, NULL, wait_and_say, p) == 0)
        return p;
    free(p->text);
    free(p);
    return NULL;
}

struct tree_progress *patience_progress(struct patience *p)
{
    return p ? &p->progress : NULL;
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
