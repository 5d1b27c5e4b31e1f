/*
 * Processes as /proc shows them. Parents are read from every process's stat, not from the `children` files: those may
 * skip siblings while one exits, and a missed process would escape a stop.
 */
#include "super.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void list_add(struct proc_list *list, const struct proc *p)
{
    if (list->count == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 64;
        list->items = xreallocarray(list->items, list->cap, sizeof *list->items);
    }
    list->items[list->count++] = *p;
}

void proc_list_free(struct proc_list *list)
{
    free(list->items);
    *list = (struct proc_list){0};
}

/* "PID (NAME) STATE PPID ..." with start as field 22; NAME may have any character, so parsing starts at the last
 * ')'. */
static bool stat_parse(char *text, struct proc *p)
{
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || close[1] != ' ' || !close[2])
        return false;
    *close = 0;
    snprintf(p->name, sizeof p->name, "%s", open + 1);
    p->state = close[2];
    char *save = NULL, *field = strtok_r(close + 3, " ", &save);
    for (int n = 4; field; n++, field = strtok_r(NULL, " ", &save)) {
        uint32_t ppid;
        if (n == 4) {
            if (!parse_u32(field, &ppid))
                return false;
            p->ppid = (pid_t)ppid;
        } else if (n == 22) {
            return parse_u64(field, &p->start);
        }
    }
    return false;
}

bool proc_read(pid_t pid, struct proc *ret)
{
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    struct proc p = {.pid = pid};
    if (!stat_parse(text, &p))
        return false;
    *ret = p;
    return true;
}

void proc_all(struct proc_list *ret)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        uint32_t pid;
        struct proc p;
        if (parse_u32(entry->d_name, &pid) && proc_read((pid_t)pid, &p))
            list_add(ret, &p);
    }
    if (dir)
        closedir(dir);
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct proc *)a)->pid, y = ((const struct proc *)b)->pid;
    return (x > y) - (x < y);
}

void proc_descendants(pid_t root, struct proc_list *ret)
{
    struct proc_list all = {0};
    proc_all(&all);
    qsort(all.items, all.count, sizeof *all.items, by_pid);
    bool *inside = xcalloc(all.count + 1, sizeof *inside);
    /* until nothing changes: pids wrap, so a child may come before its parent */
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < all.count; i++) {
            if (inside[i] || all.items[i].pid == root)
                continue;
            struct proc key = {.pid = all.items[i].ppid};
            const struct proc *parent = bsearch(&key, all.items, all.count, sizeof key, by_pid);
            if (key.pid == root || (parent && inside[parent - all.items]))
                changed = inside[i] = true;
        }
    }
    for (size_t i = 0; i < all.count; i++)
        if (inside[i] && all.items[i].state != 'Z' && all.items[i].state != 'X')
            list_add(ret, &all.items[i]);
    free(inside);
    proc_list_free(&all);
}

/* Whether the process was started with `entry` in its environment. No, if it is another user's, which cannot be
 * read. */
static bool env_has(pid_t pid, const char *entry, struct buf *scratch)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    buf_clear(scratch);
    buf_putc(scratch, 0); /* so that a NUL precedes the first entry too */
    for (;;) {
        buf_reserve(scratch, 65536);
        ssize_t n = read(fd, scratch->data + scratch->len, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || scratch->len > (8u << 20))
            break;
        scratch->len += (size_t)n;
    }
    close(fd);
    buf_putc(scratch, 0);
    size_t len = strlen(entry) + 2;
    char *needle = xcalloc(1, len); /* NUL entry NUL */
    memcpy(needle + 1, entry, len - 2);
    bool found = memmem(scratch->data, scratch->len, needle, len);
    free(needle);
    return found;
}

void proc_with_env(const char *entry, struct proc_list *ret)
{
    struct proc_list all = {0};
    struct buf scratch = {0};
    proc_all(&all);
    for (size_t i = 0; i < all.count; i++) {
        const struct proc *p = &all.items[i];
        if (p->pid != getpid() && p->state != 'Z' && p->state != 'X' && env_has(p->pid, entry, &scratch))
            list_add(ret, p);
    }
    buf_free(&scratch);
    proc_list_free(&all);
}
