/* Files that come home: below one folder here, whatever the node says. */
#ifndef RHRUN_RUN_LANDING_H
#define RHRUN_RUN_LANDING_H

#include "rhrun/base.h"
#include "rhrun/wire.h"

/*
 * A folder (`to`) and what a node's step has put there. A file grows in TO/.rhrun-TAG, is synced, then renamed into
 * place, so that none is ever seen half-written; a part that was cut off is found again by what it is the beginning of
 * (path, size, mtime, inode, and this machine's boot: after a power cut its bytes may not be those that were written).
 * Each part of a path is opened without following links. What was put there is remembered in a file of the state
 * directory, one line each as it is done: it is not fetched again while the node's file and ours are as they
 * were. */
struct landing;
struct landing_file {
    struct landing *landing;
    char *path;
    char part[65];
    int fd;
    uint32_t mode;
    uint64_t size, mtime_ns, inode, at; /* at: bytes that are there */
};

/* tag: names the part folder; memory: absolute path of the memory's file. */
int landing_open(const char *to, const char *tag, const char *memory, struct landing **ret, struct error *err);
void landing_close(struct landing *p, bool complete); /* complete: nothing is worth keeping for a later fetch. Takes
                                                         NULL */

bool landing_has(struct landing *p, const struct wire_entry *e); /* as it was fetched before, on both sides */
int landing_folder(struct landing *p, const char *path, struct error *err);
/* 0, -1, or 1 when the link would lead out of the folder: nothing was done. */
int landing_link(struct landing *p, const char *path, const char *target, struct error *err);
/* The part of this file, empty or as long as it came. */
int landing_begin(struct landing *p, const struct wire_entry *e, struct landing_file **ret, struct error *err);
int landing_write(struct landing_file *f, const void *data, size_t len, struct error *err);
/* Any thread: all of it is on the disk. 0 or errno. */
int landing_sync(struct landing_file *f);
int landing_commit(struct landing_file *f, struct error *err); /* under its name */
void landing_drop(struct landing_file *f, bool forget);        /* forget: its part too. Takes NULL */

/* Does a link at `path` (below the folder) with this target stay inside? ".." counts only where it leads: before any
 * name. */
bool landing_link_inside(const char *path, const char *target);
bool landing_path_valid(const char *path);

/* ---- landing_memory.c ---- */
struct known { /* a file that was put there */
    const char *path;
    uint64_t size, mtime_ns, inode, local_mtime_ns;
    size_t at; /* in the memory: later ones count */
};
struct memory;
struct memory *memory_open(const char *file);
const struct known *memory_find(const struct memory *m, const char *path); /* as of memory_open; NULL */
void memory_add(struct memory *m, const struct known *k);
void memory_close(struct memory *m); /* takes NULL */

#endif
