/*
 * tree: files of this machine (or of a git repository) as an immutable, named set, and the snapshots of them.
 *
 * A tree is a sorted list of files with the id of a git tree: the same files have the same id on every machine.
 * It holds exactly what git would track or see as untracked and not ignored, or every file where there is no
 * repository; contents are the bytes on disk (no line-end or other filter of git's). Never in it: `.git`, sockets,
 * devices, FIFOs, and the paths in `leave_out` (a job never makes itself stale). Submodules and repositories inside
 * are part of it by the same rules, each with its own ignore files and its own tracked files (git itself names only the
 * folder). In a folder inside a repository the ignore files above it count; where they ignore that folder itself, no
 * ignore file of that repository counts, and a note says so. git's configuration is read as git does, except for
 * variables GIT_DIR, GIT_INDEX_FILE and GIT_CONFIG_COUNT of the caller: they do not count.
 *
 * The store is a bare git repository (the folder tree.git in the job's state directory, which git itself can read):
 * what was sent to a node can be read again, byte for byte, whatever became of the source. Many new files become one
 * pack (not compressed: speed counts), few become loose objects, files over TREE_BIG_SIZE lie beside it as
 * big/OID. Beside it too: `scan-*`, for each scanned folder a table of stat data and ids, so that an unchanged file
 * is not read again (git's rule for racily clean files holds: one that changed as late as the table is read again).
 *
 * A file that changes while it is read is read again (TREE_READS times), then it is an error that names it.
 * Thread rule: a store belongs to one thread at a time; scanning may use threads of its own inside.
 */
#ifndef RHRUN_TREE_H
#define RHRUN_TREE_H

#include "rhrun/base.h"

#define TREE_BIG_SIZE (UINT64_C(8) << 20)
#define TREE_WARN_SIZE (UINT64_C(100) << 20) /* the caller warns above it */
enum {
    TREE_OID_SIZE = 20,
    TREE_ID_LEN = 40,
    TREE_READS = 5,
    TREE_FILES_MAX = 1000000,
    TREE_PATH_MAX = 4000, /* bytes of a path below the root */
    TREE_DEPTH_MAX = 200,
    TREE_MODE_FILE = 0100644,
    TREE_MODE_EXEC = 0100755,
    TREE_MODE_LINK = 0120000,
};

struct tree_file {
    const char *path; /* relative, no "." or "..", no empty part; any bytes but NUL */
    uint32_t mode;    /* TREE_MODE_* */
    uint8_t oid[TREE_OID_SIZE]; /* of git's blob: SHA-1 of "blob SIZE\0" and the content (a link's: its target) */
    uint64_t size;    /* bytes of the content */
};
struct tree {
    char id[TREE_ID_LEN + 1]; /* of the git tree; the empty tree has git's well-known id */
    const struct tree_file *files; /* sorted by strcmp of path */
    size_t count;
    uint64_t bytes;
};
const struct tree_file *tree_find(const struct tree *t, const char *path); /* or NULL */

struct tree_store;
/* dir is made (0700) with its parents if need be. One store may be open in several processes. */
int tree_store_open(const char *dir, struct tree_store **ret, struct error *err);
void tree_store_close(struct tree_store *s); /* takes NULL */
/* Removes what is in none of the wanted trees, nor in what was fetched; packs only as a whole. Without `really` it says
 * what it would remove. The first `whole` of the trees have all their folders there, or nothing is removed (ERROR_IO);
 * of the others what is there is kept. ERROR_HELD: somebody has the store open. After a kill the store is sound, and
 * has every wanted tree. */
struct tree_swept {
    uint64_t files, bytes; /* bytes: what they take of the disk */
};
int tree_store_sweep(const char *dir, const char *const *wanted, size_t count, size_t whole, bool really,
                     struct tree_swept *ret, struct error *err);
/* Removes the whole store. After a kill it is a store that lacks something, and the same call goes on. */
int tree_store_remove(const char *dir, struct error *err);

/* How far a scan is, for another thread to look at: files that were found, and of those that had to be read how many
 * were, and their bytes. */
struct tree_progress {
    _Atomic uint64_t found, read, read_bytes;
};
struct tree_scan {
    const char *path;               /* absolute: a folder; or one file, which is a tree with that one name */
    const char *const *exclude;     /* patterns as in .gitignore, relative to path; they count after all ignore files,
                                       and leave out what git tracks too */
    size_t exclude_count;
    const char *const *include;     /* likewise; what they match is in the tree though ignored or excluded; a folder
                                       that they match is so with all that it has */
    size_t include_count;
    const char *const *leave_out;   /* absolute paths (files or folders) that are never part of it */
    size_t leave_out_count;
    bool store;                     /* contents go to the store; false: ids only (`plan`) */
    struct tree_progress *progress; /* NULL: nobody looks */
};
/* What is left out without having been asked for (a socket; an unreadable file is an error) is named in ret_notes ("" =
 * nothing; one per line, at most 20 and one that says how many more). A path that is not there, or has more than the
 * limits above allow, is ERROR_SPEC. An unchanged scan reads the table and looks at each file once; libgit2 is not
 * started, unless git's configuration includes other files. */
int tree_scan(struct tree_store *s, const struct tree_scan *scan, struct arena *arena, struct tree **ret,
              const char **ret_notes, struct error *err);

/* The tree of a commit. ref: branch (which counts before a tag of the same name), tag, full or short commit id,
 * refs/...; NULL = the remote's HEAD. A full commit id that the store has needs no network; with offline a ref is what
 * it was when last fetched. Of a repository on this machine (a path, file://) the commit's files are copied; from
 * others all that leads to the commit is fetched. ssh is the program `ssh` (or $GIT_SSH_COMMAND): its configuration,
 * agent and keys, without questions, unknown host keys refused. For https, credentials in the URL are refused (they
 * would be kept in the spec), `git credential fill` is asked once; certificates are verified. Submodules and contents
 * kept with LFS are not fetched: ret_notes says so ("" = nothing, else lines); t->id is that of the files that are
 * there. Errors: ERROR_INFRA when the remote cannot be reached, or nothing came from it for a minute; ERROR_SPEC when
 * it has no such ref (with the nearest name); ERROR_PROTOCOL when a path in it leads elsewhere. It blocks: for a
 * worker thread. */
int tree_fetch(struct tree_store *s, const char *url, const char *ref, bool offline, struct arena *arena,
               struct tree **ret, char ret_commit[TREE_ID_LEN + 1], const char **ret_notes, struct error *err);

/* A tree that the store has. false: it does not. */
bool tree_load(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret);
/* The same, all of it: -1 and err say what is missing or damaged, of its folders and of its files' contents. */
int tree_load_whole(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret, struct error *err);

/* One file that another machine reads trees from, and what stands beside them: a git bundle of one commit, which git
 * clones. In it are trees/0, trees/1, ..., files at the top, and files in logs/ and result/. */
struct tree_bundle_file {
    const char *path; /* "lock.yaml", "logs/x.log": no other folders */
    const void *data;
    size_t len;
};
struct tree_bundle {
    const struct tree *const *trees; /* of the store */
    size_t tree_count;
    const struct tree_bundle_file *files;
    size_t file_count;
    const char *message; /* of the commit */
};
/* Takes the place of a file that is there. */
int tree_bundle_write(struct tree_store *s, const struct tree_bundle *what, const char *path, struct error *err);
bool tree_is_bundle(const char *path); /* by its first line */
/* Takes all objects of the bundle into the store, each hashed, and gives the content of its file `name`, of at most max
 * bytes. ERROR_SPEC: it is damaged, or of somebody else's making. */
int tree_bundle_read(struct tree_store *s, const char *path, const char *name, size_t max, struct buf *ret,
                     struct error *err);

/* The commit that is checked out in the repository around a folder. `dirty`: the tree, which was read from that folder,
 * has other files than the commit there; what the commit has and the tree leaves out on purpose does not count, nor do
 * files of submodules. git's configuration runs nothing. */
struct tree_head {
    const char *commit; /* TREE_ID_LEN digits */
    const char *branch; /* NULL: none is checked out */
    bool knows_dirty, dirty;
    const char *diff; /* what makes it dirty, as tree_change_text has it; UTF-8. NULL: nobody asked, or it is clean */
    bool diff_cut;    /* files are left out of that: what is beyond TREE_HEAD_DIFF_MAX, is not UTF-8, cannot be read */
};
enum { TREE_HEAD_DIFF_MAX = 256 << 10 };
/* tree NULL: nobody asks whether it is dirty; store, which has the tree: nor how. false: there is no repository, or no
 * commit in it, or it is another user's. */
bool tree_head(const char *folder, const struct tree *tree, struct tree_store *store, struct arena *arena,
               struct tree_head *ret);

/* The content of a file of a stored tree. */
struct tree_reader {
    const uint8_t *data; /* of a small file or a link's target: all of it; NULL for a big one */
    uint64_t size;
    int fd;              /* of a big file, else -1 */
    void *object;        /* private */
};
int tree_open(struct tree_store *s, const struct tree_file *f, struct tree_reader *ret, struct error *err);
/* Bytes from offset, at most len of them; 0 at the end. */
ssize_t tree_read(struct tree_reader *r, uint64_t offset, void *out, size_t len, struct error *err);
void tree_done(struct tree_reader *r); /* takes a zeroed one */

/* ---- what differs ---- */
enum { TREE_DIFF_MAX = 1 << 20 }; /* bytes of a file that is compared line by line */
struct tree_change {
    const char *path;
    const struct tree_file *before, *after; /* NULL: it is not there */
};
/* The files that differ in content or mode, by path; in the arena. */
void tree_changes(const struct tree *before, const struct tree *after, struct arena *arena, struct tree_change **ret,
                  size_t *ret_count);
/* Appends the change as `git diff` writes it; `git apply` takes it. Of a file that has a NUL near its beginning, or is
 * larger than TREE_DIFF_MAX, it says only that it differs. Each side has a store; NULL: it is not here. -1: a content
 * cannot be read; what was appended names the file. Paths beyond ASCII are not quoted (git: core.quotePath=false). */
int tree_change_text(struct tree_store *before, struct tree_store *after, const struct tree_change *c, struct buf *ret,
                     struct error *err);
/* Appends the lines that differ, with three around them, in hunks; nothing where none does. Ends with a line end. */
int tree_diff_text(const void *before, size_t before_len, const void *after, size_t after_len, struct buf *ret,
                   struct error *err);

/* ---- repositories of this machine, as people and pipelines have them ---- */
struct tree_repo;
/* The repository that an absolute path (without "." and "..") lies in, or is: a work tree, or a bare repository. Parts
 * at the path's end need not exist. NULL: there is no repository (ERROR_USAGE), or an entry of its git directory is not
 * a file (ERROR_SPEC); err may be NULL. */
struct tree_repo *tree_repo_open(const char *path, struct error *err);
void tree_repo_close(struct tree_repo *r); /* takes NULL */
/* The work tree's top, or the bare repository: links resolved. */
const char *tree_repo_root(const struct tree_repo *r);
const char *tree_repo_below(const struct tree_repo *r); /* the path below it; "" = the path is the root */
bool tree_repo_bare(const struct tree_repo *r);
/* Do the ignore files say so of this absolute path? What cannot be read is not ignored. */
bool tree_repo_ignores(struct tree_repo *r, const char *path, bool folder);
/* What `git status` would list: changed and untracked files, relative to the root, at most `max` of them. Returns how
 * many there are, or -1 and err. Of a bare repository none. */
long tree_repo_changes(struct tree_repo *r, size_t max, struct arena *arena, const char *const **ret,
                       struct error *err);
/* Writes the note of a commit below refs/notes/rhrun, instead of one that is there. */
int tree_repo_note(struct tree_repo *r, const char *commit, const char *text, struct error *err);

/* Writes the files of a stored tree to a folder, which is made, and must not be there. On failure a part of it may
 * be. */
int tree_export(struct tree_store *s, const struct tree *t, const char *dir, struct error *err);

#endif
