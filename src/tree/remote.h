/* What the files of a fetch share. It runs on a thread of its own (remote_work.c), because libgit2 may wait for a dead
 * remote for ever: the caller (remote.c) waits as long as something moves, then lets go of it. A job therefore has two
 * owners, and the last one frees it. */
#ifndef RHRUN_TREE_REMOTE_H
#define RHRUN_TREE_REMOTE_H

#include "internal.h"

#include <git2.h>
#include <pthread.h>

struct remote_job {
    /* in: constant */
    char *dir, *url, *ref; /* ref: NULL for HEAD */
    /* out: the worker's until done */
    struct error err;
    char commit[TREE_ID_LEN + 1];
    struct buf notes;
    /* the worker's own */
    unsigned asked; /* how often the server wanted credentials */
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int owners;
    bool done, abandoned;
    pid_t child;        /* of ssh or git: killed when the caller lets go; 0: none */
    uint64_t moved_ns;  /* when something last came */
};

void *remote_work(void *job); /* the thread */
void remote_drop(struct remote_job *job);
bool remote_moved(struct remote_job *job); /* false: the caller let go, stop */

/* Where the store keeps what url's ref was: a ref of its own. */
char *remote_memory(const char *url, const char *ref);

/* "[USER@]HOST:PATH" or "ssh://": its parts, to be freed; false: it is another kind of URL. */
struct remote_ssh {
    char *host, *path; /* host with "user@" */
    char *port;        /* NULL: ssh's own */
};
bool remote_ssh_parse(const char *url, struct remote_ssh *ret);
void remote_ssh_free(struct remote_ssh *ssh);
/* For git_remote_callbacks.transport: an ssh URL goes through the program `ssh`, others through libgit2. */
int remote_transport(git_transport **ret, git_remote *remote, void *job);

/* For git_remote_callbacks: what `git credential fill` knows; a certificate that libgit2 finds sound. */
int remote_credential(git_credential **ret, const char *url, const char *user, unsigned allowed, void *job);
int remote_certificate(git_cert *cert, int valid, const char *host, void *job);

/* A child in a session of its own (no terminal to ask on). fd is its stdin and stdout, errors its stderr. */
struct remote_child {
    pid_t pid;
    int fd, errors;
};
int remote_child_start(struct remote_job *job, char *const argv[], struct remote_child *ret);
/* Ends it if it has not ended; its status, and the last of what it said on stderr (one line; may be NULL). */
int remote_child_end(struct remote_job *job, struct remote_child *c, bool stop, char *ret_said, size_t size);

#endif
