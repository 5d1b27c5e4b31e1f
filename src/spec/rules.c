/* What crosses keys and belongs to no single one: files that a remote cluster does not have. */
#include "internal.h"

#include <string.h>

/* This version sends no files, so what the spec names must be on the hosts already. */
static void check_script(struct load *l)
{
    const struct spec_entrypoint *e = &l->spec->entrypoint;
    struct expr_context ctx = {.spec = l->spec};
    struct error err = ERROR_INIT;
    const char *path = NULL;
    if (e->kind != ENTRY_SCRIPT || !e->target.text)
        return;
    if (expr_expand(&e->target, EXPR_PLAIN, &ctx, true, l->arena, &path, &err) != EXPR_OK)
        return;
    if (*path == '/' || str_starts(path, "${{"))
        return;
    struct diagnostic *d = fault(l, e->target.place, "the script \"%s\" is not on the hosts", path);
    diagnostic_expected(d, "an absolute path, the same on every host");
    diagnostic_hint(d,
                    "this version sends no files: use an absolute path, or let a set-up step put the script there "
                    "and start it with command: [python3, %s]",
                    path);
}

static void check_inputs(struct load *l, const struct doc_node *item)
{
    const struct doc_member *m = doc_get_member(item, "inputs", 6);
    if (!m || !is_array(m->value) || m->value->count == 0)
        return;
    struct diagnostic *d = fault(l, m->key_place, "inputs are files on this machine, which the hosts do not have");
    diagnostic_hint(d, "this version sends no files: leave inputs out; the step runs again when its text changes");
}

void rules_check(struct load *l)
{
    const struct doc_node *setup = doc_get(l->root, "setup");
    if (l->spec->local || l->spec->host_count == 0)
        return;
    check_script(l);
    for (size_t i = 0; is_array(setup) && i < setup->count; i++)
        check_inputs(l, setup->items[i]);
}
