/* logs --tail: the last lines so far, ready for printing. */
#include "internal.h"

#include <stdlib.h>

struct logs_tail {
    struct line {
        int fd;
        struct buf text;
    } * lines; /* a ring */
    size_t size, count, next;
    uint64_t seen;
};

struct logs_tail *logs_tail_create(size_t size)
{
    struct logs_tail *t = xcalloc(1, sizeof *t);
    t->lines = xcalloc(size, sizeof *t->lines);
    t->size = size;
    return t;
}

void logs_tail_add(struct logs_tail *t, int fd, const struct buf *text)
{
    struct line *l = &t->lines[t->next];
    l->fd = fd;
    buf_clear(&l->text);
    buf_append(&l->text, text->data, text->len);
    t->next = (t->next + 1) % t->size;
    t->count += t->count < t->size;
    t->seen++;
}

uint64_t logs_tail_seen(const struct logs_tail *t)
{
    return t->seen;
}

void logs_tail_put(const struct logs_tail *t, struct out *out)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct line *l = &t->lines[(t->next + t->size - t->count + i) % t->size];
        out_put(out, l->fd, l->text.data, l->text.len);
    }
}

void logs_tail_destroy(struct logs_tail *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->size; i++)
        buf_free(&t->lines[i].text);
    free(t->lines);
    free(t);
}
