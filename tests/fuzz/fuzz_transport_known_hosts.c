/*
 * Any bytes as a known_hosts file: a verdict is given, a revoked key is never a good one, and a key that is added behind it
 * is known from then on, unless the file says otherwise of that very key.
 */
#include "../../src/transport/internal.h"
#include "../../src/transport/ssh.h"
#include "scene.h"

static char path[80];
static struct transport_pool pool; /* only its cache is used */
static const uint8_t blob[] = "\0\0\0\x0bssh-ed25519\0\0\0\x20"
                              "0123456789abcdef0123456789abcdef";

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    scene_begin();
    snprintf(path, sizeof path, "%s/known_hosts", scene_dir);
    return 0;
}

static enum known_result verdict(const struct ssh_config *config, const char *name, const struct known_hosts_line **ret)
{
    known_hosts_destroy(&pool); /* the cache goes by times, which are too coarse here */
    return known_hosts_check(&pool, config, name, KEY_ED25519, blob, sizeof blob - 1, ret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"alpha", "[alpha]:2222", "10.0.0.7", "::1"};
    char *files[] = {path};
    struct ssh_config config = {.user_known_hosts = {.items = files, .count = 1}};
    struct scene_input in = {data, size};
    uint8_t flags = scene_byte(&in);
    const char *name = names[flags % ARRAY_LEN(names)];
    const struct known_hosts_line *line;
    scene_write(path, in.p, in.left);
    enum known_result before = verdict(&config, name, &line);
    if ((line != NULL) != (before != KNOWN_UNKNOWN))
        abort();
    unsigned types = known_hosts_types(&pool, &config, name);
    if (before == KNOWN_CHANGED && !(types & KEY_ED25519))
        abort();
    struct error err = ERROR_INIT;
    if (known_hosts_append(path, name, flags & 4, blob, sizeof blob - 1, &err) < 0)
        abort();
    enum known_result after = verdict(&config, name, &line);
    if (before == KNOWN_REVOKED ? after != KNOWN_REVOKED : after != KNOWN_OK)
        abort();
    known_hosts_destroy(&pool);
    return 0;
}
