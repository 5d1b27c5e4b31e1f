/*
 * Any bytes as the folders of a git tree: listing ends, and what is accepted has sound and sorted paths, no file being a
 * folder of another; where nothing was changed on the way, the list gives the tree's own id again. A folder's object is a
 * piece of the input, named by the last byte of its id.
 */
#define tree_content_read fuzz_content_read
#define tree_content_free fuzz_content_free
#define tree_pack_find fuzz_pack_find
#define tree_pack_entry fuzz_pack_entry
#define tree_packs_read fuzz_packs_read

#include "../../src/tree/reader.c"

#include "scene.h"

enum { PIECES_MAX = 8 };
static struct piece {
    const uint8_t *data;
    size_t len;
} pieces[PIECES_MAX];
static size_t piece_count, reads;

enum tree_found fuzz_content_read(struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], int type,
                                  struct tree_content *ret, struct error *err)
{
    (void)s, (void)type;
    size_t i = oid[TREE_OID_SIZE - 1];
    if (i >= piece_count || ++reads > 20000) { /* the bound of a million folders is right, and too much for a fuzzer */
        (void)error_set(err, ERROR_IO, "no such folder");
        return TREE_MISSING;
    }
    *ret = (struct tree_content){.data = pieces[i].data, .size = pieces[i].len};
    return TREE_FOUND;
}

void fuzz_content_free(struct tree_content *c)
{
    *c = (struct tree_content){.size = 0};
}

void fuzz_packs_read(struct tree_store *s)
{
    (void)s;
}

/* Each blob is there. */
bool fuzz_pack_find(const struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], const struct tree_pack **ret,
                    uint64_t *ret_offset)
{
    (void)s, (void)oid;
    *ret = NULL;
    *ret_offset = 0;
    return true;
}

bool fuzz_pack_entry(const struct tree_pack *pack, uint64_t offset, struct tree_entry *ret)
{
    (void)pack, (void)offset;
    *ret = (struct tree_entry){.type = GIT_BLOB, .size = 7};
    return true;
}

static bool path_sound(const char *path)
{
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (!n || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.') ||
            (n == 4 && strncasecmp(p, ".git", 4) == 0))
            return false;
        p += n;
        if (!*p)
            return true;
    }
}

static void check(const struct tree *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const char *path = t->files[i].path, *next = i + 1 < t->count ? t->files[i + 1].path : NULL;
        if (!path_sound(path) || strlen(path) > TREE_PATH_MAX || tree_find(t, path) != &t->files[i])
            abort();
        if (next && (strcmp(path, next) >= 0 || (str_starts(next, path) && next[strlen(path)] == '/')))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char id[TREE_ID_LEN + 1];
    struct scene_input in = {data, size};
    struct tree_store store = {0};
    struct arena *arena = arena_create();
    struct buf notes = {0};
    struct tree *tree = NULL;
    struct error err = ERROR_INIT;
    bool same = false;
    memset(id, '0', TREE_ID_LEN);
    reads = 0;
    for (piece_count = 0; piece_count < PIECES_MAX && in.left; piece_count++)
        pieces[piece_count].data = scene_piece(&in, &pieces[piece_count].len);
    enum tree_found found = tree_list(&store, id, arena, &tree, &same, &notes, &err);
    if (found == TREE_FOUND)
        check(tree);
    else if (!err.code)
        abort(); /* without a reason */
    buf_free(&notes);
    arena_destroy(arena);
    return 0;
}
