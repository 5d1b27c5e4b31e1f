/* Rules across roles: cycles of waiting, sidecars without other roles, and launchers. */
#include "internal.h"

#include <string.h>

/* ---- after ---- */

static size_t waits_for(const struct spec_role *r, const bool *settled)
{
    size_t k = 0;
    while (settled[r->after[k].role])
        k++;
    return r->after[k].role;
}

/* Reports roles that wait for each other in a ring, each ring once. */
static void check_rings(struct load *l)
{
    const struct spec *spec = l->spec;
    bool settled[64] = {false}, moved = true;
    while (moved) { /* a role is settled once all that it waits for are */
        moved = false;
        for (size_t i = 0; i < spec->role_count; i++) {
            const struct spec_role *r = &spec->roles[i];
            bool free = !settled[i];
            for (size_t k = 0; k < r->after_count; k++)
                free = free && settled[r->after[k].role];
            settled[i] = settled[i] || free;
            moved = moved || free;
        }
    }
    size_t at = 0;
    while (at < spec->role_count && settled[at])
        at++;
    if (at == spec->role_count)
        return;
    for (size_t steps = 0; steps < spec->role_count;
         steps++) /* the first role may only lead to the ring; after this many steps we are in it */
        at = waits_for(&spec->roles[at], settled);
    const struct spec_role *r = &spec->roles[at];
    fault(l, r->place, "role \"%s\" waits for \"%s\", which in the end waits for \"%s\": they would never start",
          r->name, spec->roles[waits_for(r, settled)].name, r->name);
}

/* A launch with only sidecars would end at once. */
static void check_sidecars(struct load *l)
{
    const struct spec *spec = l->spec;
    for (size_t i = 0; i < spec->role_count; i++)
        if (!spec->roles[i].sidecar && (spec->roles[i].count > 0 || !spec->roles[i].counted))
            return;
    bool any = false;
    for (size_t i = 0; i < spec->role_count; i++)
        any = any || spec->roles[i].count > 0;
    diagnostic_hint(fault(l, place_of(doc_get(l->root, "roles")),
                          any ? "all roles with workers are sidecars" : "no role has workers"),
                    "the job ends when all roles but the sidecars have ended");
}

static void check_launcher(struct load *l)
{
    const struct spec_distributed *d = &l->spec->distributed;
    const struct doc_node *node = doc_get(doc_get(l->root, "distributed"), "launcher");
    if (d->launcher != LAUNCHER_NATIVE)
        diagnostic_hint(fault(l, place_of(node), "launcher %s starts one kind of worker, and there are roles",
                              spec_launchers[d->launcher]),
                        "launcher: native starts them");
}

static void check_pattern(struct load *l, const struct spec_role *r)
{
    struct regex_fault f;
    const struct spec_text *what = &r->ready.what;
    if (r->ready.kind != READY_LOG || !what->text)
        return;
    struct regex *re = regex_create(what->text, strlen(what->text), &f);
    if (!re)
        fault(l, what->place, "the pattern cannot be read at byte %zu: %s", f.at, f.text);
    regex_destroy(re);
}

void roles_check(struct load *l)
{
    struct spec *spec = l->spec;
    check_rings(l);
    check_sidecars(l);
    check_launcher(l);
    role_check_parts(l);
    for (size_t i = 0; i < spec->role_count; i++)
        check_pattern(l, &spec->roles[i]);
}
