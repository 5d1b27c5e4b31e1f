/*
 * Which of the CPUs of this process a worker is bound to. Equal blocks are rhrun's own; the other kinds follow torch's
 * numa_binding (torch/numa/binding.py of 2.9 and later) if there is a GPU for every worker, with GPUs in the order of
 * their PCI addresses. If there are fewer GPUs, the workers are spread over the NUMA nodes in blocks, as if each had a
 * GPU.
 */
#include "super.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { WORD = 64, SLOTS_MAX = WIRE_WORKERS_MAX, TEXT_MAX = 64 << 10 };

static bool has(const struct cpus *c, unsigned cpu)
{
    return c->bits[cpu / WORD] >> cpu % WORD & 1;
}

static void put(struct cpus *c, unsigned cpu)
{
    c->bits[cpu / WORD] |= (uint64_t)1 << cpu % WORD;
}

/* The first CPU at or after `from`; CPUS_MAX: there is none. */
static unsigned next(const struct cpus *c, unsigned from)
{
    while (from < CPUS_MAX && !has(c, from))
        from++;
    return from;
}

static void keep_only(struct cpus *c, const struct cpus *those)
{
    for (unsigned i = 0; i < ARRAY_LEN(c->bits); i++)
        c->bits[i] &= those->bits[i];
}

/* ---- reading ---- */

/* The file's text, valid until the next call; "" = no such file. */
static const char *text_at(const char *root, const char *fmt, ...) FORMAT(2, 3);
static const char *text_at(const char *root, const char *fmt, ...)
{
    static char text[TEXT_MAX + 1];
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *path = xvasprintf(fmt, ap);
    va_end(ap);
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", root, path);
    CLEANUP(cleanup_close) int fd = open(full, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, TEXT_MAX);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads a decimal number; *p is moved past it. */
static unsigned number(const char **p)
{
    unsigned n = 0;
    for (; is_digit(**p); (*p)++)
        n = n < CPUS_MAX ? 10 * n + (unsigned)(**p - '0') : n;
    return n;
}

/* "0-3,8" */
static bool list_read(const char *text, struct cpus *ret)
{
    memset(ret, 0, sizeof *ret);
    for (const char *p = text; is_digit(*p); p += *p == ',') {
        unsigned from = number(&p), to = from;
        if (*p == '-') {
            p++;
            to = number(&p);
        }
        for (; from <= to && from < CPUS_MAX; from++)
            put(ret, from);
    }
    return next(ret, 0) < CPUS_MAX;
}

static bool node_cpus(const struct cpus_wish *w, unsigned node, const struct cpus *may, struct cpus *ret)
{
    if (!list_read(text_at(w->root, "sys/devices/system/node/node%u/cpulist", node), ret))
        return false;
    keep_only(ret, may);
    return next(ret, 0) < CPUS_MAX;
}

/* ---- the NUMA node ---- */

/* The NUMA node of each GPU that the workers see by CUDA_VISIBLE_DEVICES, up to the first invalid entry. */
static unsigned visible(const struct cpus_wish *w, struct arena *arena, uint16_t slots[SLOTS_MAX])
{
    struct gpu gpus[GPUS_MAX];
    uint16_t nodes[GPUS_MAX];
    unsigned all = gpus_list(w->root, arena, gpus), count = 0;
    for (unsigned i = 0; i < all; i++) {
        const char *node = text_at(w->root, "sys/bus/pci/devices/%s/numa_node", gpus[i].address);
        nodes[i] = (uint16_t)number(&node); /* "-1": there is only one node */
    }
    for (unsigned i = 0; !w->devices && i < all; i++)
        slots[count++] = nodes[i];
    for (const char *p = w->devices; p && *p && count < GPUS_MAX; p += strspn(p, ", ")) {
        size_t len = strcspn(p, ", ");
        const char *digits = p;
        unsigned found = is_digit(*p) ? number(&digits) : 0;
        while (!is_digit(*p) && found < all && (len < 5 || strncmp(gpus[found].uuid, p, len) != 0))
            found++;
        if (found >= all)
            break;
        slots[count++] = nodes[found];
        p += len;
    }
    return count;
}

/* The NUMA node of a worker as if each had a GPU, spread evenly over the NUMA nodes whose CPUs we may use. */
static unsigned spread(const struct cpus_wish *w, const struct cpus *may, uint16_t slots[SLOTS_MAX])
{
    struct cpus nodes, some;
    unsigned count = 0, first;
    list_read(text_at(w->root, "sys/devices/system/node/online"), &nodes);
    for (unsigned n = 0; (n = next(&nodes, n)) < CPUS_MAX; n++) {
        if (!node_cpus(w, n, may, &some))
            nodes.bits[n / WORD] &= ~((uint64_t)1 << n % WORD);
        else
            count++;
    }
    for (unsigned i = 0; count && i < w->count; i++) {
        unsigned left = i * count / w->count;
        for (first = next(&nodes, 0); left; left--)
            first = next(&nodes, first + 1);
        slots[i] = (uint16_t)first;
    }
    return count ? w->count : 0;
}

/* ---- parts of a NUMA node ---- */

/* The first of the CPUs that share the largest cache, or the core, with cpu; CPUS_MAX: not known. */
static unsigned key_of(const struct cpus_wish *w, unsigned cpu)
{
    struct cpus sharing = {{0}};
    unsigned highest = 0;
    if (w->mode == WIRE_CPUS_EXCLUSIVE)
        list_read(text_at(w->root, "sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu), &sharing);
    for (unsigned i = 0; w->mode == WIRE_CPUS_CORE_COMPLEX; i++) {
        const char *p = text_at(w->root, "sys/devices/system/cpu/cpu%u/cache/index%u/level", cpu, i);
        unsigned level = number(&p);
        if (level == 0)
            break;
        p = text_at(w->root, "sys/devices/system/cpu/cpu%u/cache/index%u/type", cpu, i);
        if (*p == 'I' || level <= highest) /* Instruction */
            continue;
        highest = level;
        list_read(text_at(w->root, "sys/devices/system/cpu/cpu%u/cache/index%u/shared_cpu_list", cpu, i), &sharing);
    }
    return next(&sharing, 0);
}

/* The share of GPU `at` of `count` in the node's cores, or one of the node's core complexes. False: not possible. */
static bool take_part(const struct cpus_wish *w, unsigned at, unsigned count, struct cpus *cpus)
{
    static uint16_t key[CPUS_MAX], size[CPUS_MAX + 1]; /* key of each CPU; number of CPUs with each key */
    struct cpus part = {{0}};
    unsigned keys = 0;
    memset(size, 0, sizeof size);
    for (unsigned i = 0; (i = next(cpus, i)) < CPUS_MAX; i++) {
        key[i] = (uint16_t)key_of(w, i);
        keys += size[key[i]]++ == 0;
    }
    unsigned from = at * (keys / count) + (at < keys % count ? at : keys % count);
    unsigned to = from + keys / count + (at < keys % count);
    if (w->mode == WIRE_CPUS_CORE_COMPLEX) {
        from = at % keys;
        to = from + 1;
    } else if (keys < count) {
        return false;
    }
    for (unsigned i = 0; (i = next(cpus, i)) < CPUS_MAX; i++) {
        unsigned place = 0; /* rank of its key: larger groups first, if that matters */
        for (unsigned k = 0; k < CPUS_MAX; k++)
            if (size[k])
                place +=
                    w->mode == WIRE_CPUS_CORE_COMPLEX && size[k] != size[key[i]] ? size[k] > size[key[i]] : k < key[i];
        if (place >= from && place < to)
            put(&part, i);
    }
    if (size[CPUS_MAX])
        return false;
    *cpus = part;
    return true;
}

/* ---- choosing ---- */

static bool take_block(const struct cpus_wish *w, struct cpus *cpus)
{
    uint64_t total = 0, at = 0;
    for (unsigned i = 0; (i = next(cpus, i)) < CPUS_MAX; i++)
        total++;
    for (unsigned i = 0; total >= w->count && (i = next(cpus, i)) < CPUS_MAX; i++, at++)
        if (at < total * w->index / w->count || at >= total * (w->index + 1) / w->count)
            cpus->bits[i / WORD] &= ~((uint64_t)1 << i % WORD);
    return total >= w->count;
}

bool cpus_choose(const struct cpus_wish *w, struct cpus *cpus)
{
    uint16_t slots[SLOTS_MAX];
    struct cpus socket, node;
    if (w->mode == WIRE_CPUS_BLOCK)
        return take_block(w, cpus);
    struct arena *arena = arena_create();
    unsigned count = visible(w, arena, slots), at = 0, peers = 0;
    arena_destroy(arena);
    if (count < w->count)
        count = spread(w, cpus, slots);
    if (w->index >= count || !node_cpus(w, slots[w->index], cpus, &node))
        return false;
    for (unsigned i = 0; i < count; i++) {
        at += i < w->index && slots[i] == slots[w->index];
        peers += slots[i] == slots[w->index];
    }
    if (w->mode == WIRE_CPUS_SOCKET &&
        list_read(text_at(w->root, "sys/devices/system/cpu/cpu%u/topology/core_siblings_list", next(&node, 0)),
                  &socket)) {
        keep_only(cpus, &socket);
        return true;
    }
    *cpus = node;
    if (w->mode == WIRE_CPUS_EXCLUSIVE || w->mode == WIRE_CPUS_CORE_COMPLEX)
        take_part(w, at, peers, cpus);
    return true;
}
