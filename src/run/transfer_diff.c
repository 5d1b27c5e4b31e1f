/* The difference between two trees. Three lists, sorted by path, are walked together: the tree that the node had, the
 * files that the node reports as different from that tree, and the wanted tree. */
#include "transfer.h"

#include <stdlib.h>
#include <string.h>

struct numbered {
    struct wire_sync_file file;
    size_t at;
};

static int by_path(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    int order = strcmp(x->file.path, y->file.path);
    return order ? order : x->at < y->at ? -1 : 1;
}

static size_t sort(struct wire_sync_file *files, size_t count)
{
    struct numbered *list = xcalloc(count + 1, sizeof *list);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        list[i] = (struct numbered){files[i], i};
    qsort(list, count, sizeof *list, by_path);
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || strcmp(list[i].file.path, list[i + 1].file.path) != 0)
            files[kept++] = list[i].file;
    free(list);
    return kept;
}

static const char *smaller(const char *a, const char *b)
{
    return !a || (b && strcmp(b, a) < 0) ? b : a;
}

void transfer_compare(const struct tree *base, struct wire_sync_file *files, size_t file_count, const struct tree *want,
                      bool missing, struct arena *arena, struct transfer_diff *ret)
{
    size_t base_count = base ? base->count : 0, b = 0, f = 0, w = 0, remove_cap = 0;
    *ret = (struct transfer_diff){0};
    file_count = sort(files, file_count);
    ret->send = arena_array(arena, want->count + 1, sizeof *ret->send);
    remove_cap = base_count + file_count;
    ret->removes.items = arena_array(arena, remove_cap + 1, sizeof *ret->removes.items);
    while (b < base_count || f < file_count || w < want->count) {
        const char *path = w < want->count ? want->files[w].path : NULL;
        path = smaller(path, b < base_count ? base->files[b].path : NULL);
        path = smaller(path, f < file_count ? files[f].path : NULL);
        const struct tree_file *wanted = NULL;
        const uint8_t *oid = NULL;
        uint32_t mode = 0;
        bool known = false;
        if (b < base_count && strcmp(base->files[b].path, path) == 0) {
            oid = base->files[b].oid;
            mode = base->files[b++].mode;
            known = true;
        }
        if (f < file_count && strcmp(files[f].path, path) == 0) {
            oid = files[f].oid;
            mode = files[f++].mode;
            known = true;
        }
        if (w < want->count && strcmp(want->files[w].path, path) == 0)
            wanted = &want->files[w++];
        if (wanted && (!oid || (!missing && (mode != wanted->mode || memcmp(oid, wanted->oid, TREE_OID_SIZE) != 0)))) {
            ret->send[ret->send_count++] = wanted;
            ret->send_bytes += wanted->size;
        } else if (!wanted && known && !missing) {
            ret->removes.items[ret->removes.count++] = arena_strdup(arena, path);
        }
    }
}
