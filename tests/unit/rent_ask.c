/* rent_ask: prints a machine's user data, or checks which machine answers at an address; for tests with machines.
 *   rent_ask data FOLDER INTENT USER TOKEN EXPIRES IDLE DEADLINE BILLS       prints the script
 *   rent_ask meet FOLDER INTENT USER TOKEN MACHINE ADDRESS                   prints "ours KEY" or "other KEY"
 * FOLDER has the cluster's keys. TOKEN and INTENT may be "-": none; meet then takes the first contact's key. DEADLINE:
 * none, server, shutdown, self_delete, kill_pid1; BILLS, when it is stopped: fully, disk, nothing. Exit status 1: the
 * reason is on standard error, behind "host key: " or "login: " where it is that. */
#include "../../src/rent/machine.h"

#include <stdlib.h>
#include <string.h>

struct asked {
    struct loop *loop;
    struct meet *meet;
    int rc;
};

static int fail(const struct error *err)
{
    const char *what = err->why == ERROR_WHY_HOST_KEY ? "host key: " : err->why == ERROR_WHY_LOGIN ? "login: " : "";
    fprintf(stderr, "%s%s\n", what, err->text);
    return 1;
}

static const char *given(const char *arg)
{
    return str_eq(arg, "-") ? NULL : arg;
}

static int index_of(const char *word, const char *const *words)
{
    int i = 0;
    while (words[i] && !str_eq(words[i], word))
        i++;
    return i;
}

static int data(const struct rent_keys *keys, char **argv)
{
    static const char *const deadlines[] = {"none", "server", "shutdown", "self_delete", "kill_pid1", NULL};
    static const char *const bills[] = {"fully", "disk", "nothing", NULL};
    struct error err = ERROR_INIT;
    struct buf public = {0}, private = {0}, text = {0};
    if (given(argv[3]))
        rent_host_key(keys, argv[3], &public, &private);
    struct bootstrap b = {
        .user = argv[4],
        .public_key = rent_login_public(keys),
        .host_key_public = public.data,
        .host_key_private = private.data,
        .token = given(argv[5]),
        .expires_s = strtoull(argv[6], NULL, 10),
        .idle_s = strtoull(argv[7], NULL, 10),
        .deadline = (enum provider_deadline)index_of(argv[8], deadlines),
        .billing_when_stopped = (enum provider_billing)index_of(argv[9], bills),
    };
    int rc = bootstrap_text(&b, 16384, &text, &err) == 0 ? 0 : fail(&err);
    if (rc == 0)
        fwrite(text.data, 1, text.len, stdout);
    buf_free(&public);
    buf_free(&private);
    buf_free(&text);
    return rc;
}

static void done(void *arg, bool ours, const char *host_key, const struct error *err)
{
    struct asked *a = arg;
    if (err)
        a->rc = fail(err);
    else
        printf("%s %s\n", ours ? "ours" : "other", host_key);
    loop_stop(a->loop);
}

static int meet(const struct rent_keys *keys, char **argv, struct arena *arena)
{
    struct error err = ERROR_INIT;
    struct transport_host host;
    struct buf key = {0};
    if (given(argv[3]))
        rent_host_key(keys, argv[3], &key, NULL);
    struct rent_door door = {.machine = argv[6], .address = argv[7], .user = argv[4], .host_key = key.data};
    int rc = rent_door(keys, &door, arena, &host, &err);
    buf_free(&key);
    if (rc != 0)
        return fail(&err);
    struct asked a = {.loop = loop_create()};
    struct transport_pool *pool = transport_pool_create(a.loop, NULL);
    a.meet = meet_begin(a.loop, pool, &host, given(argv[5]), done, &a);
    loop_run(a.loop);
    meet_end(a.meet);
    transport_pool_destroy(pool);
    loop_destroy(a.loop);
    return a.rc;
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    const bool is_data = argc == 10 && str_eq(argv[1], "data"), is_meet = argc == 8 && str_eq(argv[1], "meet");
    if (!is_data && !is_meet) {
        fputs("see the top of rent_ask.c\n", stderr);
        return 2;
    }
    struct rent_keys *keys = rent_keys_open(argv[2], &err);
    if (!keys)
        return fail(&err);
    struct arena *arena = arena_create();
    int rc = is_data ? data(keys, argv) : meet(keys, argv, arena);
    arena_destroy(arena);
    rent_keys_close(keys);
    return rc;
}
