/* gc: the table, JSON, the question. */
#include "gcing.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DAY_MS = 24 * 3600 * 1000, WHAT_WIDTH = 34, OF_WIDTH = 20, AGE_WIDTH = 9 };

static const struct {
    const char *name, *one, *many;
} kinds[] = {
    [GC_LOGS] = {"logs", "logs of 1 run", "logs of %llu runs"},
    [GC_SNAPSHOTS] = {"snapshots", "snapshot of 1 file", "snapshots, %llu files"},
    [GC_BUNDLE] = {"bundle", "bundle that was rerun", "bundles that were rerun"},
    [GC_WORK] = {"work", "working directory", "working directories"},
    [GC_NODE_LOGS] = {"node_logs", "log_dir of 1 run", "log_dir of %llu runs"},
    [GC_UPLOAD] = {"upload", "upload that broke off", "%llu uploads that broke off"},
};
static const char *const states[] = {[GC_FOUND] = "found", [GC_REMOVED] = "removed", [GC_LEFT] = "left"};

static const char *what_of(const struct gc *g, const struct gc_item *item)
{
    if (item->count == 1)
        return kinds[item->kind].one;
    const char *format = kinds[item->kind].many, *at = strstr(format, "%llu");
    return at ? arena_printf(g->c->arena, "%.*s%llu%s", (int)(at - format), format, (unsigned long long)item->count,
                             at + strlen("%llu"))
              : format;
}

static const char *age_of(const struct gc *g, const struct gc_item *item)
{
    const uint64_t age = item->used_ms < g->now_ms ? g->now_ms - item->used_ms : 0;
    char text[32];
    if (!item->used_ms)
        return "-";
    if (age >= DAY_MS)
        return arena_printf(g->c->arena, "%llu d", (unsigned long long)(age / DAY_MS));
    cli_duration(age, text);
    return arena_strdup(g->c->arena, text);
}

const char *gc_sum(const struct gc *g, enum gc_state state)
{
    uint64_t sum = 0;
    char size[32];
    for (size_t i = 0; i < g->count; i++)
        sum += g->items[i].state == state ? g->items[i].bytes : 0;
    cli_size(sum, size);
    return arena_strdup(g->c->arena, size);
}

static void put_row(struct buf *b, const char *what, const char *of, const char *where, const char *age,
                    const char *size)
{
    buf_printf(b, "%-*s %-*s %-*s %*s %10s\n", WHAT_WIDTH - 6, what, OF_WIDTH - 2, of, 12, where, AGE_WIDTH, age, size);
}

void gc_show(const struct gc *g, bool removed)
{
    struct buf b = {0};
    if (g->count)
        put_row(&b, "WHAT", "OF", "WHERE", "UNUSED", "SIZE");
    for (size_t i = 0; i < g->count; i++) {
        const struct gc_item *item = &g->items[i];
        char size[32];
        cli_size(item->bytes, size);
        char *of = arena_strdup(g->c->arena, item->of ? item->of : "-");
        char *node = arena_strdup(g->c->arena, item->node ? item->node : "here");
        str_printable(of);
        str_printable(node);
        put_row(&b, what_of(g, item), of, node, age_of(g, item), size);
        if (item->state == GC_LEFT)
            buf_printf(&b, "  left alone: %s\n", item->why);
    }
    if (!g->c->given[OPT_QUIET] || !removed)
        fwrite(b.data ? b.data : "", 1, b.len, stdout);
    buf_free(&b);
}

void gc_json(const struct gc *g, bool removed, uint32_t clusters)
{
    struct buf b = {0};
    uint64_t found = 0, freed = 0;
    for (size_t i = 0; i < g->count; i++) {
        found += g->items[i].bytes;
        freed += g->items[i].state == GC_REMOVED ? g->items[i].bytes : 0;
    }
    buf_printf(&b, "{\"removed\":%s,\"older_than_s\":%llu,\"found_bytes\":%llu,\"freed_bytes\":%llu,\"clusters\":%u",
               removed ? "true" : "false", (unsigned long long)(g->older_ms / 1000), (unsigned long long)found,
               (unsigned long long)freed, clusters);
    buf_puts(&b, ",\"items\":[");
    for (size_t i = 0; i < g->count; i++) {
        const struct gc_item *item = &g->items[i];
        buf_printf(&b, "%s\n{\"kind\":\"%s\",\"state\":\"%s\",\"count\":%llu,\"bytes\":%llu", i ? "," : "",
                   kinds[item->kind].name, states[item->state], (unsigned long long)item->count,
                   (unsigned long long)item->bytes);
        if (item->used_ms)
            buf_printf(&b, ",\"used_ms\":%llu", (unsigned long long)item->used_ms);
        cli_json_string(&b, "job", item->of);
        cli_json_string(&b, "job_id", item->job);
        cli_json_string(&b, "node", item->node);
        cli_json_string(&b, "path", item->path);
        cli_json_string(&b, "why", item->why);
        buf_putc(&b, '}');
    }
    buf_puts(&b, "]}\n");
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

bool gc_ask(const struct gc *g, uint32_t clusters)
{
    char answer[16] = "";
    fflush(stdout);
    fprintf(stderr, "rhrun: remove all of this (%s)", gc_sum(g, GC_FOUND));
    if (clusters)
        fprintf(stderr, " and give back %u rented cluster%s", clusters, clusters == 1 ? "" : "s");
    fputs("? [y/N] ", stderr);
    fflush(stderr);
    if (!fgets(answer, sizeof answer, stdin))
        fputc('\n', stderr);
    return answer[0] == 'y' || answer[0] == 'Y';
}
