/* Shared by the tests of provider: a small provider file, and functions that load it and similar files. */
#ifndef RHRUN_TEST_PROVIDER_SCENE_H
#define RHRUN_TEST_PROVIDER_SCENE_H

#include "rhrun/provider.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char small[] = "provider: small\n"
                            "title: Small\n"
                            "base: https://${region}.example.com/v1\n"
                            "auth: {kind: bearer, value: token}\n"
                            "credentials: [{env: {token: SMALL_TOKEN}}]\n"
                            "machine: {extract: {id: /id, status: /status, run: /run}, ready: [up]}\n"
                            "idem: list\n"
                            "deadline: none\n"
                            "billing_when_stopped: true\n"
                            "risk: it bills until it is deleted\n"
                            "operations:\n"
                            "  create:\n"
                            "    post: /m/${name}\n"
                            "    query: {q: $name, j: [$name]}\n"
                            "    headers: {x-name: \"a${name}b\"}\n"
                            "    extract: {id: /id}\n"
                            "    json: {name: $name, text: \"<${name}>\", list: [$name], data: \"${user_data|b64}\"}\n"
                            "  get: {post: \"/g\", form: {a: $id, b: [{c: $id}]}, machine: \"\"}\n"
                            "  list: {get: /l, machines: /m}\n"
                            "  delete: {delete: \"/m/$id\"}\n"
                            "  stock: {get: /m}\n";

struct fixture {
    struct arena *arena;
    struct provider *provider;
    struct diagnostics diagnostics;
    struct error err;
};

static inline int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    f->arena = arena_create();
    setenv("HOME", "/nonexistent", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    provider_destroy(f->provider);
    diagnostics_free(&f->diagnostics);
    arena_destroy(f->arena);
    free(f);
    return 0;
}

static inline int load(struct fixture *f, const char *text)
{
    provider_destroy(f->provider);
    f->provider = NULL;
    diagnostics_free(&f->diagnostics);
    return provider_load_text("small.yaml", text, strlen(text), f->arena, &f->provider, &f->diagnostics, &f->err);
}

static inline char *replaced(struct fixture *f, const char *text, const char *what, const char *by)
{
    const char *at = strstr(text, what);
    assert_non_null(at);
    return arena_printf(f->arena, "%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
}

static inline char *temp_folder(struct fixture *f)
{
    char *path = arena_strdup(f->arena, "/tmp/rhrun-test-provider.XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static inline void write_file(const char *path, const char *text)
{
    struct error err = ERROR_INIT;
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &err), 0);
}

#endif
