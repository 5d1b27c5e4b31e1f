/*
 * Any bytes as a provider's file: loading ends, and says why it does not load. What loads describes a request for each of its
 * steps, or refuses it; an address that it describes holds no blank and no control character.
 */
#include "rhrun/provider.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char values[] =
    "{\"run\":\"a/"
    "..\\n\\u0000b\",\"id\":\"x?y#z\",\"name\":\"n\\\"\",\"region\":\"r-1\",\"zone\":\"z\",\"owner\":\"o\","
    "\"key\":7,\"key_name\":\"k\",\"public_key\":\"p\",\"type\":\"t\",\"image\":\"i\",\"node\":0,\"expires\":1,"
    "\"names\":[\"a\",{\"b\":null}],\"spot\":true,\"user_data\":\"\\u00e9$x\",\"operation\":\".\"}";

static void describe(const struct provider *p, const struct doc_node *inputs, enum provider_operation operation)
{
    for (size_t step = 0; step < provider_steps(p, operation); step++) {
        struct arena *arena = arena_create();
        struct provider_request r = {0};
        struct error err = ERROR_INIT;
        const struct provider_ask ask = {.operation = operation, .step = step, .inputs = inputs};
        if (provider_step_due(p, &ask) && provider_request(p, &ask, arena, &r, &err) == 0)
            for (const char *c = r.url; *c; c++)
                if (*c == ' ' || (unsigned char)*c < 32)
                    abort();
        if (!r.url && provider_step_due(p, &ask) && err.code == ERROR_NONE)
            abort();
        arena_destroy(arena);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct provider *p = NULL;
    struct doc *inputs = NULL;
    struct buf text = {0};
    if (doc_load_text("v", values, strlen(values), DOC_FORMAT_JSON, arena, &inputs, &d, NULL) < 0)
        abort();
    if (provider_load_text("fuzz.yaml", (const char *)data, size, arena, &p, &d, &err) < 0) {
        if (d.errors == 0 && size <= DOC_MAX_BYTES)
            abort(); /* a failure without a reason */
    } else {
        for (int o = 0; o < PROVIDER_OPERATIONS; o++)
            describe(p, inputs->root, (enum provider_operation)o);
    }
    diagnostics_format(&d, false, &text);
    buf_free(&text);
    provider_destroy(p);
    diagnostics_free(&d);
    arena_destroy(arena);
    return 0;
}
