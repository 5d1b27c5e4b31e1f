/*
 * The agent's own parts: the ledger on the node's disk, the supervisor, the serving loop.
 *
 * Folders, all 0700, below the base folder (~/.rhrun unless HELLO names one):
 *   home-id                          random, equal for all machines that share the folder
 *   m/MACHINE/install                the install id; MACHINE = digest of machine id, hostname, host key
 *   m/MACHINE/jobs/JOB/lock          flock: HELLO and claims happen under it
 *   m/MACHINE/jobs/JOB/epoch         decimal text, durable before HELLO_OK
 *   m/MACHINE/jobs/JOB/owner         owner id, newline, owner_name
 *   m/MACHINE/jobs/JOB/conns/OWNER   read-locked (fcntl) by each serving agent of that owner
 *   m/MACHINE/jobs/JOB/env/NAME      captured environments, NUL-separated
 *   m/MACHINE/jobs/JOB/a/ATTEMPT/status      struct status, preallocated; flock = the supervisor lives
 *   m/MACHINE/jobs/JOB/a/ATTEMPT/spool.N     segment N: spool bytes [N, N+1) * SEGMENT_SIZE
 *   m/MACHINE/jobs/JOB/a/ATTEMPT/bell        FIFO: the supervisor writes a byte when there is news
 *   m/MACHINE/jobs/JOB/t/NAME/...    index of a tree whose root is not below the base folder (see tree.h)
 *   t/JOB/NAME/index lock new/       index of a tree below the base folder, its lock, what is being written
 *   work/JOB/VARIANT/                working directories (shared by machines that share the base)
 */
#ifndef RHRUN_AGENT_INTERNAL_H
#define RHRUN_AGENT_INTERNAL_H

#include "rhrun/wire.h"

#include <stdatomic.h>

enum { SEGMENT_SIZE = 1 << 20, STATUS_VERSION = 2, STATUS_TEXT = 4096 };

/* The status file: written in place through a shared mapping. Fixed-size, so a full disk cannot lose an
 * outcome. `state` is stored last (release), `spool_bytes` after the bytes it counts. */
struct status_worker {
    uint32_t rank;
    uint32_t pid;
    uint8_t ended, cause, pad[2];
    int32_t value;
    uint64_t end_mono_ns;
};
struct status {
    uint32_t version;
    _Atomic uint32_t state; /* enum wire_state; 0 = claim not complete */
    char attempt[40], key[72], variant[24], boot_id[40], slot[208];
    char launch[WIRE_LAUNCH_MAX]; /* zeros in older files, where these bytes were the end of `slot` */
    uint64_t sequence; /* one more than that of any claim of the job here; assigned under the job's lock */
    uint64_t claim_wall_ms, start_mono_ns, end_mono_ns, end_wall_ms;
    uint32_t supervisor_pid;
    uint8_t verdict; /* enum wire_verdict: written by the agent once it has ended; 0 in older files */
    uint64_t supervisor_start; /* start tick, /proc/PID/stat field 22 */
    _Atomic uint64_t spool_bytes;
    _Atomic uint64_t acked; /* written by the agent: offset durable at the controller */
    uint64_t dropped_bytes;
    uint8_t stop_requested, timed_out, cause, dropped; /* dropped: enum wire_dropped */
    int32_t value;
    uint32_t cause_rank;
    uint32_t patched;
    uint64_t cause_mono_ns;
    char tail[STATUS_TEXT];     /* NUL-terminated */
    char leftover[STATUS_TEXT]; /* NUL-terminated */
    uint32_t worker_count;
    struct status_worker workers[]; /* worker_count */
};
_Static_assert(offsetof(struct status, sequence) == 440, "where files of version 2 have it");

/* ---- status.c: the status file ---- */
/* Creates ATTEMPT's folder below a/ (a_fd), its status file preallocated for run's workers, takes the lock and fills in
 * the claim (state CLAIMED). On success *ret_dir and *ret_status are open (CLOEXEC), the latter holding the lock.
 * Failure with errno EEXIST: the attempt is known already; a half-made claim is replaced. */
int status_create(int a_fd, const struct wire_run *run, const char *variant, const char *boot_id, uint64_t sequence,
                  int *ret_dir, int *ret_status, struct error *err);
/* Records the end of an attempt without workers, whose status file the caller has open, and releases the lock. */
int status_finish(int status_fd, bool stopped, enum wire_cause cause, int errnum, const char *tail, struct error *err);
/* Whether it was begun in that boot of the node, in whichever container. In a container, a status has "CONTAINER+BOOT",
 * cut. */
bool status_is_of_boot(const struct status *st, const char *boot_id);
/* Reads a record (strings into the arena). boot_id: the node's current one, for same_boot. */
int status_read(int dir_fd, const char *boot_id, struct arena *arena, struct wire_record *ret, struct error *err);
int status_judge(int dir_fd, uint8_t verdict); /* for an attempt that has ended or is lost */
bool status_alive(int dir_fd); /* somebody holds the lock */
/* If the lock is free and there is no outcome: kills all processes with RHRUN_ATTEMPT=attempt in their environment,
 * then records LOST. It looks for them whatever boot the claim names: the id is random, so such processes are the
 * attempt's. Returns 1 if somebody holds the lock: the supervisor, or another agent that is just checking whether the
 * supervisor lives. */
int status_mark_lost(int dir_fd, const char *attempt, struct error *err);
int status_signal(int dir_fd, enum wire_signal signal, uint32_t grace_ms,
                  struct error *err); /* to the live supervisor */

/* ---- spool.c ---- */
/* Reads up to max bytes from offset (0 = nothing yet); never beyond the published size. */
ssize_t spool_read(int dir_fd, uint64_t offset, void *out, size_t max, struct error *err);
void spool_ack(int dir_fd, uint64_t offset); /* frees whole segments below offset */
uint64_t spool_kept_from(int dir_fd);        /* first offset that can still be read */

/* ---- supervise.c (and super_*.c) ---- */
struct ledger;
struct supervise {
    const struct wire_run *run;
    int dir_fd, status_fd; /* the attempt's; the supervisor takes them over */
    const char *work_dir;  /* absolute */
    const char *env_dir;   /* absolute folder of the captured environments */
    const char *boot_id;
    const char *shell; /* absolute path of bash or sh */
    /* with WIRE_RUN_PATCHES, once it has ended well: patch_note; -1 with errno */
    int (*note)(const struct ledger *l, const struct wire_run *run, uint32_t *ret_count);
    const struct ledger *ledger;
    bool own_dir;      /* work_dir is the job's own folder: it is created (0700), and so is a missing relative cwd */
};
/* Starts the supervisor (double fork, own session, subreaper) and returns in the agent as soon as the supervisor is
 * starting. The caller closes its own copies of both fds; the supervisor keeps them open. */
int supervise_start(const struct supervise *s, struct error *err);

/* ---- facts.c: facts about this node ---- */
/* Fills everything but version, epoch, install, home_id, base_dir and work_dir. Free space is that of base_dir. */
void facts_read(const char *base_dir, struct arena *arena, struct wire_facts *ret);
char *facts_program(const char *name, struct arena *arena); /* its absolute path by PATH, "" = none */
char *facts_line(const char *path, struct arena *arena); /* a file's first line, "" when there is none */
char *facts_boot_id(struct arena *arena);
char *facts_container(struct arena *arena); /* 12 hex of the container around it (container.h), or "" */
char *facts_home(struct arena *arena); /* HOME, else from /etc/passwd; "" = none */

/* ---- gpus.c ---- */
enum { GPUS_MAX = 256 };
struct gpu {
    char *address, *model, *uuid; /* "" = not known. The address is the PCI address: "0000:dc:00.0" */
};
/* The GPUs that can be used here, in the order of their addresses. root: prefix of the paths of /dev and /proc, usually
 * "". */
uint32_t gpus_list(const char *root, struct arena *arena, struct gpu ret[GPUS_MAX]);

/* ---- base_dir.c ---- */
/* Finds or makes the base folder (named = HELLO's, "" = look for one). An open folder, or -1 and err, which lists the
 * candidates and why each failed. */
int base_dir_open(const char *named, struct arena *arena, char **ret_path, struct error *err);

/* ---- ledger.c: the folders, identities, lock, epoch and owner of one job on this machine ---- */
struct ledger {
    char *base, *work_dir, *job_dir, *env_dir, *home; /* absolute; home: "" = none */
    char *install, *home_id;                          /* random ids */
    char *job, *variant, *owner, *boot_id, *shell, *container;
    const char *place; /* as in a status: boot and container */
    bool read_only; /* WIRE_READ: claims, signals and frees nothing */
    bool in_place;  /* work_dir was named by HELLO: it is not created */
    uint64_t epoch; /* ours; if the file has another one, we are fenced */
    int base_fd, job_fd, a_fd, lock_fd, epoch_fd, conn_fd;
};
/* Finds or makes the folders and identities that HELLO asks for. The strings live in the arena. On failure the
 * ledger is closed and the error says which folder and why. */
int ledger_open(struct ledger *l, const struct wire_hello *hello, struct arena *arena, struct error *err);
void ledger_close(struct ledger *l);                  /* takes a zeroed or half-open one */
int lock_wait(int fd); /* waits for flock, a bounded time; -1 with errno; EWOULDBLOCK: it is taken */
int ledger_lock(struct ledger *l, struct error *err); /* likewise */
void ledger_unlock(struct ledger *l);
int ledger_epoch(const struct ledger *l, uint64_t *ret, struct error *err); /* as the file says now; 0 = none yet */
int ledger_epoch_set(struct ledger *l, uint64_t epoch, struct error *err);  /* durable on return */
/* The owner and the owner's name, "" if nobody has owned the job yet. */
void ledger_owner(const struct ledger *l, struct arena *arena, char **ret_owner, char **ret_name);
int ledger_owner_set(struct ledger *l, const char *owner, const char *name, struct error *err);
bool ledger_connected(const struct ledger *l, const char *owner); /* a serving agent of that owner lives */
int ledger_connect(struct ledger *l, struct error *err);          /* this agent serves l->owner from now on */
int ledger_work_dir(struct ledger *l, struct error *err);         /* the working directory exists afterwards */
/* A node path as an absolute one. */
char *ledger_node_path(const struct ledger *l, const char *path, struct arena *arena);
int ledger_attempt(const struct ledger *l, const char *attempt); /* its folder opened, or -1 */
/* Removes the folder of an attempt that is not live: renamed first, so that it vanishes at once. */
int ledger_forget(struct ledger *l, const char *attempt, struct error *err);
/* Calls fn with the id and open folder of each attempt; fn returns false to end the walk. Also removes what an
 * interrupted ledger_forget left, unless the ledger is read-only. */
void ledger_each(struct ledger *l, bool (*fn)(void *context, const char *attempt, int dir_fd), void *context);
/* The fixed part of the status file; false if there is no file or its claim is not complete. */
bool ledger_status(int dir_fd, struct status *ret);
/* The error as text for the user; a full disk below the base is named as such. */
const char *ledger_reason(const struct ledger *l, const struct error *err, struct arena *scratch);
bool name_valid(const char *name); /* one safe file name: 1-64 of A-Z a-z 0-9 . _ -, no leading dot */

/* ---- hello.c ---- */
/* Answers HELLO in `out`: 1 = HELLO_OK, the ledger is open; 0 = HELD; -1 = failed (no answer written). */
int hello_answer(struct ledger *l, const struct wire_hello *hello, struct arena *arena, struct buf *out,
                 struct error *err);

/* ---- out.c: outgoing frames; control frames overtake output at frame boundaries, so PONG never waits long ---- */
enum { OUT_QUEUE_MAX = 256 << 10, OUT_CONTROL_MAX = 1 << 20 };
struct out {
    struct buf control, output;
    size_t control_sent, output_sent;
    size_t frame_left; /* of the output frame that is partly written */
};
bool out_pending(const struct out *o);
bool out_full(const struct out *o);   /* OUT_QUEUE_MAX bytes of output wait */
int out_write(struct out *o, int fd); /* writes as much as fd takes now; -1: the peer is gone */
void out_fault(struct out *o, const char *attempt, const char *fmt, ...) FORMAT(3, 4);

/* ---- stream.c: attached attempts ---- */
struct stream {
    char attempt[WIRE_ID_LEN + 1];
    int dir_fd, status_fd, bell_fd;
    uint64_t offset;
    bool ready;  /* may have output or an end */
    bool check;  /* look whether its supervisor lives */
    bool hung;   /* the bell's last writer is gone */
    bool broken; /* its spool cannot be read: it only waits for the end */
};
struct streams {
    struct stream *items;
    size_t count, cap, next; /* next: whose turn it is */
};
int stream_attach(struct streams *all, struct ledger *l, const char *attempt, uint64_t offset, struct error *err);
struct stream *stream_find(struct streams *all, const char *attempt); /* or NULL */
void stream_detach(struct streams *all, struct stream *s);
void stream_bell(struct stream *s, short revents); /* poll's revents for bell_fd */
/* Queues a frame of output of the next attached attempt, or its EXIT when it is over; false: no attempt has any. */
bool stream_turn(struct streams *all, struct ledger *l, struct out *out);
/* How long poll may wait for attached attempts; -1 = for ever. */
int stream_wait_ms(const struct streams *all, const struct ledger *l, const struct out *out);
/* Reads an attempt's record. If its supervisor died, LOST is recorded first (read-only: only reported); it is still
 * CLAIMED if another agent holds the lock at this moment. */
int stream_record(struct ledger *l, const char *attempt, int dir_fd, struct arena *arena, struct wire_record *ret,
                  struct error *err);

/* ---- serve.c ---- */
int serve(int in_fd, int out_fd); /* until the peer goes or the job is fenced; the exit status */

#endif
