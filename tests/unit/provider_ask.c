/* provider_ask: describes a request and judges a reply, for tests that send the one and receive the other.
 *   provider_ask request PROVIDER OPERATION STEP [PAGE] < INPUTS             prints the request as JSON
 *   provider_ask reply PROVIDER OPERATION STEP STATUS INPUTS < BODY          prints what the reply means as JSON
 * INPUTS is a JSON object. Exit status 3: the step is not due; 1: refused, with the reason on standard error. */
#include "provider_words.h"

#include <string.h>

static int fail(const struct error *err)
{
    fprintf(stderr, "%s\n%s\n", err->text, err->hint);
    return 1;
}

static struct buf all_input(void)
{
    struct buf text = {0};
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, stdin)) > 0;)
        buf_append(&text, chunk, n);
    return text;
}

static void print(const struct doc_node *node)
{
    struct buf text = {0};
    doc_to_json(node, DOC_JSON_PLAIN, &text);
    puts(text.data);
    buf_free(&text);
}

static int request(const struct provider *p, const struct provider_ask *ask, struct arena *arena)
{
    struct provider_request r;
    struct error err = ERROR_INIT;
    if (!provider_step_due(p, ask))
        return 3;
    if (provider_request(p, ask, arena, &r, &err) < 0)
        return fail(&err);
    struct doc_node *ret = request_doc(arena, &r, false), *headers = doc_new_object(arena);
    for (size_t i = 0; i < r.header_count; i++)
        put(arena, headers, r.headers[i].name, r.headers[i].value);
    doc_set(arena, ret, "headers", headers);
    print(ret);
    return 0;
}

static int reply(const struct provider *p, const struct provider_ask *ask, const char *status, struct arena *arena)
{
    struct buf body = all_input();
    const struct provider_reply r = {.status = atoi(status), .body = body.data, .body_len = body.len};
    struct provider_result result;
    provider_reply(p, ask, &r, arena, &result);
    print(result_doc(arena, &result));
    buf_free(&body);
    return 0;
}

static struct doc_node *inputs_of(const char *text, size_t len, struct arena *arena)
{
    struct diagnostics d = {0};
    struct doc *doc;
    if (doc_load_text("inputs", text, len, DOC_FORMAT_JSON, arena, &doc, &d, NULL) < 0)
        exit(2);
    return doc->root;
}

int main(int argc, char **argv)
{
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct provider *p;
    bool judging = argc > 6 && strcmp(argv[1], "reply") == 0;
    if (argc < 5 || (!judging && strcmp(argv[1], "request") != 0))
        return 2;
    if (provider_load(argv[2], arena, &p, &d, &err) < 0)
        return fail(&err);
    struct provider_ask ask = {.step = (size_t)atoi(argv[4]), .page = !judging && argc > 5 ? argv[5] : NULL};
    while (ask.operation < PROVIDER_OPERATIONS && !str_eq(provider_operation_name(ask.operation), argv[3]))
        ask.operation++;
    if (ask.step >= provider_steps(p, ask.operation))
        return 2;
    struct buf text = judging ? (struct buf){0} : all_input();
    ask.inputs = judging ? inputs_of(argv[6], strlen(argv[6]), arena) : inputs_of(text.data, text.len, arena);
    int rc = judging ? reply(p, &ask, argv[5], arena) : request(p, &ask, arena);
    buf_free(&text);
    provider_destroy(p);
    arena_destroy(arena);
    return rc;
}
