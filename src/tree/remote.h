/* Shared by the files of a fetch. A fetch runs on its own thread (remote_work.c), because libgit2 may wait for a dead
 * remote for ever: the caller (remote.c) waits as long as there is progress, then abandons the thread. So a job has two
 * owners, and the last one frees it. */
#ifndef RHRUN_TREE_REMOTE_H
#define RHRUN_TREE_REMOTE_H

#include "internal.h"

#include <git2.h>
#if defined(__has_include) && __has_include(<git2/sys/errors.h>)
#include <git2/sys/errors.h> /* git_error_set_str, from libgit2 1.8 on */
#endif
#include <pthread.h>

struct remote_job {
    /* in: constant */
    char *dir, *url, *ref; /* ref: NULL for HEAD */
    char *real_url;        /* after url.BASE.insteadOf */
    /* out: owned by the worker until done */
    struct error err;
    char commit[TREE_ID_LEN + 1];
    struct buf notes;
    /* the worker's own */
    unsigned asked; /* how often the server wanted credentials */
    enum error_why why; /* what our callbacks know about the latest failure, for which libgit2 has only a text */
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int owners;
    bool done, abandoned;
    pid_t child;        /* ssh or git: killed when the caller abandons the job; 0: none */
    uint64_t moved_ns;  /* time of the last progress */
};

void *remote_work(void *job); /* the thread */
void remote_drop(struct remote_job *job);
bool remote_moved(struct remote_job *job); /* false: the job was abandoned, stop */

/* The name under which the store remembers url's ref. */
char *remote_memory(const char *url, const char *ref);

/* ---- remote_ref.c: the meaning of a ref ---- */

struct remote_ref {
    const char *name; /* in full */
    git_oid id;
};
struct remote_pick {
    const char *name; /* of the matching ref; NULL: an id was given */
    git_oid id;       /* of the ref (maybe of a tag), or the id itself */
    bool prefix;      /* the given ref is the beginning of an id */
};
/* Which of these refs the job's ref means. -1: none, and it is no id either; job->err says so. */
int remote_pick(struct remote_job *job, const struct remote_ref *refs, size_t count, struct remote_pick *ret);
/* Sets job->commit to the commit that it leads to, following tags. */
int remote_peel(struct remote_job *job, git_repository *repository, const struct remote_pick *p);
/* The URL that url stands for in the user's configuration (url.BASE.insteadOf); to be freed. */
char *remote_instead(git_repository *repository, const char *url);

/* ---- remote_local.c: a repository on this machine ---- */

/* Its folder, to be freed; NULL: url is no path and no file://. */
char *remote_local_path(const char *url);
/* Sets job->commit, and lists its tree with *ret_from, a store that represents the other repository, for reading
 * contents. Close it with remote_local_close in any case. */
int remote_local_open(struct remote_job *job, const char *path, struct tree_store *ret_from);
void remote_local_close(struct tree_store *from);

/* ---- remote_copy.c ---- */

/* Puts the tree's files into the store as a scan would: from another store, or (from == to) from a fetched pack with
 * deflated contents to one of our packs. Sets t->id to the id of these files alone. */
int remote_copy(struct tree_store *from, struct tree_store *to, struct tree *t, struct error *err);

/* The parts of "[USER@]HOST:PATH" or "ssh://...", to be freed; false: another kind of URL. */
struct remote_ssh {
    char *host, *path; /* host with "user@" */
    char *port;        /* NULL: ssh's own */
};
bool remote_ssh_parse(const char *url, struct remote_ssh *ret);
void remote_ssh_free(struct remote_ssh *ssh);
/* For git_remote_callbacks.transport: an ssh URL goes through the program `ssh`, others through libgit2. */
int remote_transport(git_transport **ret, git_remote *remote, void *job);

/* For git_remote_callbacks: credentials from `git credential fill`; accepts certificates that libgit2 has verified. */
int remote_credential(git_credential **ret, const char *url, const char *user, unsigned allowed, void *job);
int remote_certificate(git_cert *cert, int valid, const char *host, void *job);

/* A child in a session of its own (no terminal to ask on). fd is its stdin and stdout, errors its stderr. */
struct remote_child {
    pid_t pid;
    int fd, errors;
};
int remote_child_start(struct remote_job *job, char *const argv[], struct remote_child *ret);
/* Ends it if it still runs; returns its status, and its last line on stderr (may be NULL). */
int remote_child_end(struct remote_job *job, struct remote_child *c, bool stop, char *ret_said, size_t size);

#endif
