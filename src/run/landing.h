/* Files that are fetched: they land below one folder on this machine, whatever the node says. */
#ifndef RHRUN_RUN_LANDING_H
#define RHRUN_RUN_LANDING_H

#include "rhrun/base.h"
#include "rhrun/wire.h"

/*
 * A landing is a folder (`to`) and the files that a node's step has put there. A file grows in TO/.rhrun-TAG, is
 * synced, and is then renamed into place, so that it is never seen half-written. If a file was cut off, a later fetch
 * finds its part by the file's path, size, mtime and inode on the node, and by this machine's boot, because after a
 * power cut the part may not have the bytes that were written. Each name of a path is opened without following links. A
 * file in the state directory (the memory) has a line for each file that was put there, so that a file is not fetched
 * again while the node's copy and ours are unchanged.
 */
struct landing;
struct landing_file {
    struct landing *landing;
    char *path;
    char part[65];
    int fd;
    uint32_t mode;
    uint64_t size, mtime_ns, inode, at; /* at: bytes of the part so far */
};

/* tag: names the part folder; memory: absolute path of the memory's file. */
int landing_open(const char *to, const char *tag, const char *memory, struct landing **ret, struct error *err);
/* complete: the fetch has ended well, so no part is kept for a later one. Takes NULL. */
void landing_close(struct landing *p, bool complete);

/* Whether the file was fetched before and is unchanged on both sides. */
bool landing_has(struct landing *p, const struct wire_entry *e);
int landing_folder(struct landing *p, const char *path, struct error *err);
/* 0, -1, or 1: the link would lead out of the folder, and was not made. */
int landing_link(struct landing *p, const char *path, const char *target, struct error *err);
/* Opens the part of this file: empty, or with the bytes that an earlier fetch got. */
int landing_begin(struct landing *p, const struct wire_entry *e, struct landing_file **ret, struct error *err);
int landing_write(struct landing_file *f, const void *data, size_t len, struct error *err);
/* From any thread: syncs the part to the disk. 0 or errno. */
int landing_sync(struct landing_file *f);
int landing_commit(struct landing_file *f, struct error *err); /* renames the part to its path */
void landing_drop(struct landing_file *f, bool forget);        /* forget: removes the part, too. Takes NULL. */

/* Whether a link at `path` (below the folder) with this target stays inside the folder. In the target ".." is allowed
 * only before all names. */
bool landing_link_inside(const char *path, const char *target);
bool landing_path_valid(const char *path);

/* ---- landing_memory.c ---- */
struct known { /* a file that was put there */
    const char *path;
    uint64_t size, mtime_ns, inode, local_mtime_ns;
    size_t at; /* its place among the lines that were read: of several for one path, the last counts */
};
struct memory;
struct memory *memory_open(const char *file);
/* as of memory_open; NULL: it is not known */
const struct known *memory_find(const struct memory *m, const char *path);
void memory_add(struct memory *m, const struct known *k);
void memory_close(struct memory *m); /* takes NULL */

#endif
