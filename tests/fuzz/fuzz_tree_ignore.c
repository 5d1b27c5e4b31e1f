/*
 * Any bytes as an ignore file, and a path: parsing and matching end, the verdict of a list is that of its last pattern
 * that matches, and a pattern that may match nothing below a folder matches nothing there.
 */
#include "../../src/tree/scan.h"
#include "scene.h"

/* Each pattern may take its four million steps, which is right, and too much for many of them under a fuzzer. */
enum { LIST_MAX = 64, PATH_MAX_HERE = 24 };

static enum ignore_verdict match(const struct ignore_list *l, const char *path, bool folder)
{
    const char *slash = strrchr(path, '/');
    return ignore_match(l, path, strlen(path), slash ? (size_t)(slash + 1 - path) : 0, folder);
}

/* Pattern by pattern, the last first. */
static enum ignore_verdict one_by_one(const struct ignore_list *l, const char *path, bool folder)
{
    for (size_t i = l->count; i-- > 0;) {
        struct ignore_list single = {.base = l->base, .fold = l->fold, .patterns = &l->patterns[i], .count = 1};
        enum ignore_verdict v = match(&single, path, folder);
        if (v != IGNORE_UNDECIDED)
            return v;
    }
    return IGNORE_UNDECIDED;
}

/* Of each folder above the path. */
static void above(const struct ignore_list *l, const char *path, enum ignore_verdict verdict)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        if (verdict == IGNORE_OUT && !ignore_may_match_below(l, path, (size_t)(slash - path)))
            abort();
}

/* As the walk gives it: no empty part, no "." or "..". */
static bool path_sound(const char *path)
{
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (!n || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
        if (!*p)
            return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene_input in = {data, size};
    struct arena *arena = arena_create();
    struct error err = ERROR_INIT;
    const struct ignore_list *list = NULL;
    uint8_t flags = scene_byte(&in);
    const char *path = scene_text(&in, arena);
    in.left = in.left < LIST_MAX ? in.left : LIST_MAX;
    if (path_sound(path) && strlen(path) <= PATH_MAX_HERE &&
        ignore_parse(arena, (const char *)in.p, in.left, "fuzz", 0, flags & 1, NULL, &list, &err) == 0 && list) {
        enum ignore_verdict verdict = match(list, path, flags & 2);
        if (verdict != one_by_one(list, path, flags & 2) ||
            verdict != ignore_match_chain(list, path, strlen(path),
                                          strrchr(path, '/') ? (size_t)(strrchr(path, '/') + 1 - path) : 0, flags & 2))
            abort();
        above(list, path, verdict);
    }
    arena_destroy(arena);
    return 0;
}
