/* The files that a step has fetched from a node, one line per file: size, mtime, inode, mtime here, length of the path,
 * the path. While files come, lines are only appended; when the memory is opened, it is rewritten without lines that
 * later lines have replaced. Files whose lines were lost are fetched again, so the memory need not be durable. */
#include "landing.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMORY_MAX = 512 << 20 };

struct memory {
    struct arena *arena;
    struct known *known; /* sorted by path */
    size_t count;
    int fd;
};

static int by_path(const void *a, const void *b)
{
    const struct known *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static bool number(char **at, uint64_t *ret)
{
    char *end = strchr(*at, ' ');
    if (!end)
        return false;
    *end = 0;
    bool good = parse_u64(*at, ret);
    *at = end + 1;
    return good;
}

static void read_lines(struct memory *m, struct buf *text) /* leaves out a last line that was cut off */
{
    size_t cap = 0;
    for (char *at = text->data, *end = text->data + text->len; at < end;) {
        struct known k = {.at = m->count};
        uint64_t len;
        if (!number(&at, &k.size) || !number(&at, &k.mtime_ns) || !number(&at, &k.inode) ||
            !number(&at, &k.local_mtime_ns) || !number(&at, &len) || at > end || len >= (uint64_t)(end - at) ||
            at[len] != '\n')
            return;
        k.path = arena_strndup(m->arena, at, (size_t)len);
        at += len + 1;
        if (m->count == cap) {
            cap = cap ? cap * 2 : 256;
            m->known = xreallocarray(m->known, cap, sizeof *m->known);
        }
        m->known[m->count++] = k;
    }
}

static void put_line(struct buf *b, const struct known *k)
{
    buf_printf(b, "%llu %llu %llu %llu %zu %s\n", (unsigned long long)k->size, (unsigned long long)k->mtime_ns,
               (unsigned long long)k->inode, (unsigned long long)k->local_mtime_ns, strlen(k->path), k->path);
}

struct memory *memory_open(const char *file)
{
    struct memory *m = xcalloc(1, sizeof *m);
    struct buf text = {0};
    size_t kept = 0;
    m->arena = arena_create();
    if (file_read(file, MEMORY_MAX, &text, NULL) == 0 && text.len)
        read_lines(m, &text);
    if (m->count)
        qsort(m->known, m->count, sizeof *m->known, by_path);
    size_t read = m->count;
    for (size_t i = 0; i < m->count; i++)
        if (i + 1 == m->count || strcmp(m->known[i].path, m->known[i + 1].path) != 0)
            m->known[kept++] = m->known[i];
    m->count = kept;
    if (kept < read) {
        buf_clear(&text);
        for (size_t i = 0; i < m->count; i++)
            put_line(&text, &m->known[i]);
        file_write_atomic(file, text.data, text.len, 0600, NULL);
    }
    buf_free(&text);
    m->fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    return m;
}

const struct known *memory_find(const struct memory *m, const char *path)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(m->known[mid].path, path);
        if (order == 0)
            return &m->known[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

void memory_add(struct memory *m, const struct known *k)
{
    struct buf line = {0};
    put_line(&line, k);
    /* after a failed write nothing more is appended, so that an incomplete line can only be the last one */
    if (m->fd >= 0 && write_all(m->fd, line.data, line.len) < 0) {
        close(m->fd);
        m->fd = -1;
    }
    buf_free(&line);
}

void memory_close(struct memory *m)
{
    if (!m)
        return;
    cleanup_close(&m->fd);
    arena_destroy(m->arena);
    free(m->known);
    free(m);
}
