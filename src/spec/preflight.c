/* distributed.preflight: what is looked at before a launch, and by which bounds. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* "10GB", "0.5TB": powers of 1000, as disks are sold. */
static bool parse_bytes(const char *text, uint64_t *ret)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
    char *end;
    double n = strtod(text, &end);
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (end > text && n > 0 && n * units[i].bytes < 1e18 && str_eq(end, units[i].unit)) {
            *ret = (uint64_t)(n * units[i].bytes);
            return true;
        }
    return false;
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
    if (disk && disk->type == DOC_STRING && !parse_bytes(disk->text, &ret->disk_bytes))
        diagnostic_expected(fault(l, place_of(disk), "disk cannot be %s", disk->text), "a size such as 10GB, or false");
    duration_of(l, node, "timeout", &timeout_ms);
    if (timeout_ms > SPEC_PREFLIGHT_TIMEOUT_MAX_MS)
        fault(l, place_of(doc_get(node, "timeout")), "timeout can be 10s at most");
    else
        ret->timeout_ms = (uint32_t)timeout_ms;
}

static struct doc_node *bound(struct arena *a, bool off, const char *given)
{
    return off || !given ? doc_new_bool(a, !off) : doc_new_string(a, given);
}

struct doc_node *preflight_node(struct arena *a, const struct spec_preflight *p)
{
    bool bounds = p->clocks_ms || p->disk_bytes || p->timeout_ms;
    bool all_off = p->no_ports && p->no_clocks && p->no_disk && p->no_gpus && p->no_versions;
    if (!bounds && !(p->no_ports || p->no_clocks || p->no_disk || p->no_gpus || p->no_versions))
        return doc_new_string(a, "auto");
    if (all_off)
        return doc_new_string(a, "off");
    struct doc_node *object = doc_new_object(a);
    const char *clocks = arena_printf(a, "%llums", (unsigned long long)p->clocks_ms);
    const char *disk = arena_printf(a, "%lluMB", (unsigned long long)(p->disk_bytes / 1000000));
    doc_set(a, object, "ports", doc_new_bool(a, !p->no_ports));
    doc_set(a, object, "clocks", bound(a, p->no_clocks, p->clocks_ms ? clocks : NULL));
    doc_set(a, object, "disk", bound(a, p->no_disk, p->disk_bytes ? disk : NULL));
    doc_set(a, object, "gpus", doc_new_bool(a, !p->no_gpus));
    doc_set(a, object, "versions", doc_new_bool(a, !p->no_versions));
    doc_set(a, object, "timeout", doc_new_string(a, p->timeout_ms ? arena_printf(a, "%ums", p->timeout_ms) : "3s"));
    return object;
}
