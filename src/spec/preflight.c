/* distributed.preflight: the checks before a launch, and their bounds. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* "10GB", "0.5TB": powers of 1000, as disks are sold; "1GiB": of 1024. 0: the schema has reported it. */
uint64_t size_bytes(const char *text)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end;
    double n = strtod(text, &end);
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (end > text && n > 0 && str_eq(end, units[i].unit))
            return n * units[i].bytes < 1e18 ? (uint64_t)(n * units[i].bytes) : UINT64_C(1000000000000000000);
    return 0;
}

static bool is_off(const struct doc_node *object, const char *key)
{
    const struct doc_node *node = doc_get(object, key);
    return node && node->type == DOC_BOOL && !node->boolean;
}

void preflight_bind(struct load *l, const struct doc_node *distributed, struct spec_preflight *ret)
{
    const struct doc_node *node = doc_get(distributed, "preflight");
    bool off = node && node->type == DOC_STRING && str_eq(node->text, "off");
    *ret = (struct spec_preflight){.no_ports = off || is_off(node, "ports"),
                                   .no_clocks = off || is_off(node, "clocks"),
                                   .no_disk = off || is_off(node, "disk"),
                                   .no_gpus = off || is_off(node, "gpus"),
                                   .no_versions = off || is_off(node, "versions")};
    if (!is_object(node))
        return;
    const struct doc_node *clocks = doc_get(node, "clocks"), *disk = doc_get(node, "disk");
    uint64_t timeout_ms = 0;
    if (clocks && clocks->type != DOC_BOOL)
        duration_of(l, node, "clocks", &ret->clocks_ms);
    if (disk && disk->type == DOC_STRING)
        ret->disk_bytes = size_bytes(disk->text);
    duration_of(l, node, "timeout", &timeout_ms);
    if (timeout_ms > SPEC_PREFLIGHT_TIMEOUT_MAX_MS)
        fault(l, place_of(doc_get(node, "timeout")), "timeout can be 10s at most");
    else
        ret->timeout_ms = (uint32_t)timeout_ms;
}

/* In the larger unit if it is exact. */
struct doc_node *size_node(struct arena *a, uint64_t n, uint64_t larger, const char *unit, const char *otherwise)
{
    bool whole = n % larger == 0;
    return doc_new_string(
        a, arena_printf(a, "%llu%s", (unsigned long long)(whole ? n / larger : n), whole ? unit : otherwise));
}

struct doc_node *preflight_node(struct arena *a, const struct spec_preflight *p)
{
    bool bounds = p->clocks_ms || p->disk_bytes || p->timeout_ms;
    if (p->no_ports && p->no_clocks && p->no_disk && p->no_gpus && p->no_versions)
        return doc_new_string(a, "off");
    if (!bounds && !(p->no_ports || p->no_clocks || p->no_disk || p->no_gpus || p->no_versions))
        return doc_new_string(a, "auto");
    struct doc_node *object = doc_new_object(a);
    doc_set(a, object, "ports", doc_new_bool(a, !p->no_ports));
    doc_set(a, object, "clocks",
            p->clocks_ms ? size_node(a, p->clocks_ms, 1000, "s", "ms") : doc_new_bool(a, !p->no_clocks));
    doc_set(a, object, "disk",
            p->disk_bytes ? size_node(a, p->disk_bytes / 1000000, 1000, "GB", "MB") : doc_new_bool(a, !p->no_disk));
    doc_set(a, object, "gpus", doc_new_bool(a, !p->no_gpus));
    doc_set(a, object, "versions", doc_new_bool(a, !p->no_versions));
    doc_set(a, object, "timeout", size_node(a, p->timeout_ms ? p->timeout_ms : 3000, 1000, "s", "ms"));
    return object;
}
