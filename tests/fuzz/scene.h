/* What several targets share: a folder of their own that is gone at the end, and bytes of the input taken piece by piece. */
#ifndef RHRUN_FUZZ_SCENE_H
#define RHRUN_FUZZ_SCENE_H

#include "rhrun/base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char scene_dir[64];

static inline void scene_end(void)
{
    CLEANUP(cleanup_free) char *command = xasprintf("rm -rf '%s'", scene_dir);
    if (system(command) != 0)
        perror(scene_dir);
}

/* In memory where that can be: a target makes files thousands of times a second. */
static inline void scene_begin(void)
{
    snprintf(scene_dir, sizeof scene_dir, "%s/rhrun-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(scene_dir))
        abort();
    atexit(scene_end);
}

static inline void scene_write(const char *path, const void *data, size_t len)
{
    CLEANUP(cleanup_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, data, len) < 0)
        abort();
}

struct scene_input {
    const uint8_t *p;
    size_t left;
};

static inline uint8_t scene_byte(struct scene_input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->p++;
}

/* A piece: two bytes say how long it is, as far as there is something. */
static inline const uint8_t *scene_piece(struct scene_input *in, size_t *ret_len)
{
    size_t len = (size_t)scene_byte(in) << 8;
    len |= scene_byte(in);
    *ret_len = len < in->left ? len : in->left;
    const uint8_t *p = in->p;
    in->p += *ret_len;
    in->left -= *ret_len;
    return p;
}

static inline char *scene_text(struct scene_input *in, struct arena *arena)
{
    size_t len;
    const uint8_t *p = scene_piece(in, &len);
    return arena_strndup(arena, (const char *)p, strnlen((const char *)p, len));
}

#endif
