/* The GPUs of this node, as NVIDIA's driver lists them in /proc; nothing is executed. */
#include "internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ABOUT_MAX = 64 << 10 };

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct gpu *)a)->address, ((const struct gpu *)b)->address);
}

/* "Model: \t\t NVIDIA H200": the text after the label, or "". */
static char *behind(const char *text, const char *label, struct arena *arena)
{
    const char *p = strstr(text, label);
    p = p ? p + strlen(label) : "";
    p += strspn(p, " \t");
    return arena_strndup(arena, p, strcspn(p, "\n"));
}

uint32_t gpus_list(const char *root, struct arena *arena, struct gpu ret[GPUS_MAX])
{
    CLEANUP(cleanup_free) char *folder = xasprintf("%s/proc/driver/nvidia/gpus", root);
    uint32_t count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && count < GPUS_MAX && (e = readdir(dir));) {
        CLEANUP(cleanup_free) char *path = xasprintf("%s/%s/information", folder, e->d_name);
        struct buf about = {0};
        if (file_read(path, ABOUT_MAX, &about, NULL) < 0)
            continue;
        const char *minor = behind(about.data, "Device Minor:", arena);
        CLEANUP(cleanup_free) char *device = xasprintf("%s/dev/nvidia%s", root, minor);
        if (!*minor || access(device, F_OK) == 0) /* in a container, some may belong to other containers */
            ret[count++] = (struct gpu){arena_strdup(arena, e->d_name), behind(about.data, "Model:", arena),
                                        behind(about.data, "GPU UUID:", arena)};
        buf_free(&about);
    }
    if (dir)
        closedir(dir);
    qsort(ret, count, sizeof *ret, by_address);
    return count;
}
