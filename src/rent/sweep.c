/* All machines of an account, whatever the ledgers say. */
#include "internal.h"

#include <stdlib.h>

struct rent_sweep {
    struct arena *arena;
    struct exchange *exchange;
    const char *what, *provider;
    void (*done)(void *arg, const struct provider_machine *machines, size_t count, const struct error *err);
    void *arg;
};

void rent_sweep_end(struct rent_sweep *s)
{
    if (!s)
        return;
    exchange_end(s->exchange);
    arena_destroy(s->arena);
    free(s);
}

static void swept(void *arg, const struct exchange_answer *a)
{
    struct rent_sweep *s = arg;
    struct error err = ERROR_INIT;
    s->exchange = NULL;
    const bool well = a->class == PROVIDER_CLASS_NONE || a->class == PROVIDER_CLASS_NOTFOUND;
    if (!well)
        error_set(&err, a->class == PROVIDER_CLASS_AUTH ? ERROR_USAGE : ERROR_INFRA, "%s: %s: %s", s->provider, s->what,
                  a->text);
    s->done(s->arg, a->machines, a->machine_count, well ? NULL : &err);
    rent_sweep_end(s);
}

static struct rent_sweep *begin(struct rent *r, const char *provider, const char *region, const char *what,
                                enum provider_operation operation, const struct provider_machine *machine,
                                void (*done)(void *arg, const struct provider_machine *machines, size_t count,
                                             const struct error *err),
                                void *arg)
{
    struct rent_sweep *s = xcalloc(1, sizeof *s);
    s->arena = arena_create();
    s->what = what;
    s->provider = arena_strdup(s->arena, provider);
    s->done = done;
    s->arg = arg;
    struct doc_node *in = doc_new_object(s->arena);
    put_text(s->arena, in, "region", region);
    if (machine) {
        put_text(s->arena, in, "run", machine->run);
        put_text(s->arena, in, "owner", machine->owner);
        put_text(s->arena, in, "zone", machine->zone);
        put_text(s->arena, in, "id", machine->id);
        put_text(s->arena, in, "name", machine->name);
    }
    const struct exchange_ask ask = {.operation = operation, .inputs = in};
    s->exchange = exchange_begin(account_of(r, provider), &ask, swept, s);
    return s;
}

struct rent_sweep *rent_sweep(struct rent *r, const char *provider, const char *region,
                              void (*done)(void *arg, const struct provider_machine *machines, size_t count,
                                           const struct error *err),
                              void *arg)
{
    return begin(r, provider, region, "its resources could not be listed", PROVIDER_SWEEP, NULL, done, arg);
}

struct rent_sweep *
rent_delete(struct rent *r, const char *provider, const char *region, const struct provider_machine *machine,
            void (*done)(void *arg, const struct provider_machine *machines, size_t count, const struct error *err),
            void *arg)
{
    return begin(r, provider, region, "a machine could not be deleted", PROVIDER_DELETE, machine, done, arg);
}
