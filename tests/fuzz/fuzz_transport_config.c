/*
 * Any text as the output of `ssh -G`, and as an ssh configuration file: reading ends with a host and a user, what is
 * expanded is text, and a file that says nothing that matters says so again.
 */
#include "../../src/transport/internal.h"
#include "../../src/transport/ssh.h"
#include "scene.h"

static char path[80];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    scene_begin();
    snprintf(path, sizeof path, "%s/config", scene_dir);
    return 0;
}

/* An Include would lead to files of this machine. */
static bool includes(const char *text)
{
    return strcasestr(text, "include") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_create();
    const char *text = arena_strndup(arena, (const char *)data, strnlen((const char *)data, size));
    struct ssh_config config, trivial = {0}, again = {0};
    config_parse(text, "alias", &config);
    if (!config.hostname || !config.user)
        abort();
    free(config_expand(&config, "alias", text, true));
    free(known_hosts_name(&config, config.hostname, config.port));
    config_free(&config);
    if (!includes(text)) {
        scene_write(path, data, size);
        bool says_nothing = config_file_trivial(path, 0, &trivial);
        if (says_nothing != config_file_trivial(path, 0, &again) || trivial.hash_known_hosts != again.hash_known_hosts)
            abort();
    }
    arena_destroy(arena);
    return 0;
}
