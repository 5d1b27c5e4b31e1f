/*
 * tree: files of this machine (or of a git repository) as an immutable set with an id, and the store of such snapshots.
 *
 * A tree is a sorted list of files with the id of a git tree: the same files have the same id on every machine. It
 * holds exactly the files that git tracks or lists as untracked, without ignored ones; without a repository it holds
 * every file. Contents are the bytes on disk, without git's line-end or other filters. Never in a tree: `.git`,
 * sockets, devices, FIFOs, and the paths in `leave_out` (so that a job never makes itself stale). Submodules and nested
 * repositories are included by the same rules, each with its own ignore files and tracked files (git itself would
 * record only the folder). For a folder inside a repository, the ignore files above the folder apply; if they ignore
 * the folder itself, no ignore file of that repository applies, and a note says so. git's configuration is read as git
 * does, except that the caller's variables GIT_DIR, GIT_INDEX_FILE and GIT_CONFIG_COUNT are ignored.
 *
 * The store is a bare git repository (the folder tree.git in the job's state directory, which git itself can read):
 * files that were sent to a node can be read again, byte for byte, whatever became of the source. Many new files become
 * one pack (uncompressed, for speed), few become loose objects, and files over TREE_BIG_SIZE are stored beside them as
 * big/OID. For each scanned folder a file `scan-*` holds a table of stat data and ids, so that an unchanged file is not
 * read again. (git's rule for racily clean files holds: a file that changed as late as the table was written is read
 * again.)
 *
 * A file that changes while it is read is read again, up to TREE_READS times; then it is an error that names the file.
 * Only one thread at a time may use a store; a scan may use threads of its own.
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
    const char *path; /* relative, without "." and "..", no empty part; any bytes but NUL */
    uint32_t mode;    /* TREE_MODE_* */
    uint8_t oid[TREE_OID_SIZE]; /* git's blob id: SHA-1 of "blob SIZE\0" and the content (of a link: its target) */
    uint64_t size;    /* bytes of the content */
};
struct tree {
    char id[TREE_ID_LEN + 1]; /* git's tree id; the empty tree has git's well-known id */
    const struct tree_file *files; /* sorted by strcmp of path */
    size_t count;
    uint64_t bytes;
};
const struct tree_file *tree_find(const struct tree *t, const char *path); /* or NULL */

struct tree_store;
/* dir is made (0700), with its parents, if it does not exist. Several processes may have one store open. */
int tree_store_open(const char *dir, struct tree_store **ret, struct error *err);
void tree_store_close(struct tree_store *s); /* takes NULL */
/* Removes objects that belong neither to a wanted tree nor to a fetched commit; a pack only as a whole. Without
 * `really` it only reports what it would remove. The folders of the first `whole` wanted trees must all be present, or
 * nothing is removed (ERROR_IO); of the others, the objects that are present are kept. ERROR_HELD: somebody has the
 * store open. After a kill the store is intact and has every wanted tree. */
struct tree_swept {
    uint64_t files, bytes; /* bytes: space on the disk */
};
int tree_store_sweep(const char *dir, const char *const *wanted, size_t count, size_t whole, bool really,
                     struct tree_swept *ret, struct error *err);
/* Removes the whole store. After a kill an incomplete store remains, and calling this again goes on. */
int tree_store_remove(const char *dir, struct error *err);

/* Progress of a scan, for another thread to read: files found, files read (unchanged ones are not), and bytes read. */
struct tree_progress {
    _Atomic uint64_t found, read, read_bytes;
};
struct tree_scan {
    const char *path;               /* absolute: a folder, or a file, which gives a tree with that one name */
    const char *const *exclude;     /* patterns as in .gitignore, relative to path; they apply after all ignore files,
                                       and exclude tracked files too */
    size_t exclude_count;
    const char *const *include;     /* likewise; files that match are in the tree even if ignored or excluded; a folder
                                       that matches is included with everything in it */
    size_t include_count;
    const char *const *leave_out;   /* absolute paths (files or folders) that are never in the tree */
    size_t leave_out_count;
    bool store;                     /* write the contents to the store; false: compute ids only (`plan`) */
    struct tree_progress *progress; /* NULL: no progress wanted */
};
/* ret_notes names files that were left out although nobody asked for that, such as a socket ("" = none; one per line,
 * at most 20 and a line with the number of the others). An unreadable file is an error. A path that does not exist, or
 * that exceeds the limits above, is ERROR_SPEC. A scan of unchanged files reads the table and stats each file once; it
 * does not start libgit2 unless git's configuration includes other files. */
int tree_scan(struct tree_store *s, const struct tree_scan *scan, struct arena *arena, struct tree **ret,
              const char **ret_notes, struct error *err);

/* The tree of a commit. ref: branch (tried before a tag of the same name), tag, full or short commit id, refs/...; NULL
 * = the remote's HEAD. A full commit id that the store has needs no network; with offline a ref means the commit that
 * it had when last fetched. From a repository on this machine (a path, file://) the commit's files are copied; from
 * others the commit is fetched with its history. ssh means the program `ssh` (or $GIT_SSH_COMMAND) with its
 * configuration, agent and keys; it asks no questions and refuses unknown host keys. For https, certificates are
 * verified, `git credential fill` is asked once, and credentials in the URL are refused, because the spec would store
 * them. Submodules and LFS contents are not fetched: ret_notes says so ("" = nothing, else lines), and (*ret)->id is
 * that of the fetched files. Errors: ERROR_INFRA when the remote cannot be reached, or sent nothing for a minute;
 * ERROR_SPEC when it has no such ref (with the nearest name); ERROR_PROTOCOL when a path in the commit leads outside
 * the tree. The call blocks: use a worker thread. */
int tree_fetch(struct tree_store *s, const char *url, const char *ref, bool offline, struct arena *arena,
               struct tree **ret, char ret_commit[TREE_ID_LEN + 1], const char **ret_notes, struct error *err);

/* Loads a tree from the store. false: the store does not have it. */
bool tree_load(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret);
/* The same, checking every folder and every file's content: -1 and err say what is missing or damaged. */
int tree_load_whole(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret, struct error *err);

/* One file that carries trees and other files to another machine: a git bundle of one commit, which git can clone. It
 * has trees/0, trees/1, ..., files at the top, and files in logs/ and result/. */
struct tree_bundle_file {
    const char *path; /* such as "lock.yaml" or "logs/x.log"; no other folders */
    const void *data;
    size_t len;
};
struct tree_bundle {
    const struct tree *const *trees; /* all in the store */
    size_t tree_count;
    const struct tree_bundle_file *files;
    size_t file_count;
    const char *message; /* of the commit */
};
/* Replaces an existing file. */
int tree_bundle_write(struct tree_store *s, const struct tree_bundle *what, const char *path, struct error *err);
bool tree_is_bundle(const char *path); /* judged by its first line */
/* Puts all objects of the bundle into the store, checking each hash, and returns the content of its file `name`, at
 * most max bytes. ERROR_SPEC: the bundle is damaged, or not made by rhrun. */
int tree_bundle_read(struct tree_store *s, const char *path, const char *name, size_t max, struct buf *ret,
                     struct error *err);

/* The commit that is checked out in the repository around a folder. `dirty`: the tree, which was read from the folder,
 * differs from the commit. Files that the tree leaves out on purpose do not count, nor do files of submodules. No
 * program that git's configuration names is run. */
struct tree_head {
    const char *commit; /* TREE_ID_LEN digits */
    const char *branch; /* NULL: no branch is checked out */
    bool knows_dirty, dirty;
    const char *diff; /* the differences, in the form of tree_change_text; UTF-8. NULL: not asked for, or clean */
    bool diff_cut;    /* diff lacks some files: beyond TREE_HEAD_DIFF_MAX, not UTF-8, or unreadable */
};
enum { TREE_HEAD_DIFF_MAX = 256 << 10 };
/* tree NULL: `dirty` is not determined. store (which must have the tree) NULL: `diff` is not made. false: there is no
 * repository, it has no commit, or it belongs to another user. */
bool tree_head(const char *folder, const struct tree *tree, struct tree_store *store, struct arena *arena,
               struct tree_head *ret);

/* The content of a file of a stored tree. */
struct tree_reader {
    const uint8_t *data; /* the whole content of a small file, or a link's target; NULL for a big file */
    uint64_t size;
    int fd;              /* of a big file, else -1 */
    void *object;        /* private */
};
int tree_open(struct tree_store *s, const struct tree_file *f, struct tree_reader *ret, struct error *err);
/* Reads at most len bytes from offset on; 0 at the end. */
ssize_t tree_read(struct tree_reader *r, uint64_t offset, void *out, size_t len, struct error *err);
void tree_done(struct tree_reader *r); /* r may be zeroed */

/* ---- differences ---- */
enum { TREE_DIFF_MAX = 1 << 20 }; /* bytes; larger files are not compared line by line */
struct tree_change {
    const char *path;
    const struct tree_file *before, *after; /* NULL: the file does not exist there */
};
/* The files that differ in content or mode, by path; in the arena. */
void tree_changes(const struct tree *before, const struct tree *after, struct arena *arena, struct tree_change **ret,
                  size_t *ret_count);
/* Appends the change in the form of `git diff`, for `git apply`. For a file with a NUL near its beginning, or larger
 * than TREE_DIFF_MAX, it only says that the file differs. Each side has its store; NULL: the content is not on this
 * machine. -1: a content cannot be read; the appended text names the file. Paths beyond ASCII are not quoted (as with
 * git's core.quotePath=false). */
int tree_change_text(struct tree_store *before, struct tree_store *after, const struct tree_change *c, struct buf *ret,
                     struct error *err);
/* Appends the differing lines in hunks, with three lines of context; nothing if no line differs. Ends with a
 * newline. */
int tree_diff_text(const void *before, size_t before_len, const void *after, size_t after_len, struct buf *ret,
                   struct error *err);

/* ---- repositories on this machine, as people and pipelines have them ---- */
struct tree_repo;
/* The repository, bare or with a work tree, that contains an absolute path (without "." and "..") or is at that path.
 * The last parts of the path need not exist. NULL: there is no repository (ERROR_USAGE), or an entry of its git
 * directory is not a file (ERROR_SPEC); err may be NULL. */
struct tree_repo *tree_repo_open(const char *path, struct error *err);
void tree_repo_close(struct tree_repo *r); /* takes NULL */
/* The work tree's top, or the bare repository, with links resolved. */
const char *tree_repo_root(const struct tree_repo *r);
const char *tree_repo_below(const struct tree_repo *r); /* the path below the root; "" = the path is the root */
bool tree_repo_bare(const struct tree_repo *r);
/* Whether the ignore files ignore this absolute path. A path that cannot be checked is not ignored. */
bool tree_repo_ignores(struct tree_repo *r, const char *path, bool folder);
/* The files that `git status` would list: changed and untracked, relative to the root, at most `max`. Returns their
 * total number, or -1 and err. A bare repository has none. */
long tree_repo_changes(struct tree_repo *r, size_t max, struct arena *arena, const char *const **ret,
                       struct error *err);
/* Writes a commit's note in refs/notes/rhrun, replacing an existing one. */
int tree_repo_note(struct tree_repo *r, const char *commit, const char *text, struct error *err);

/* Writes the files of a stored tree to a new folder, which must not exist. After a failure a part of it may exist. */
int tree_export(struct tree_store *s, const struct tree *t, const char *dir, struct error *err);

#endif
