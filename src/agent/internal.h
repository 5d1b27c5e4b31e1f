/*
 * The agent's own parts: the ledger on the node's disk, the supervisor, the serving loop.
 *
 * Folders, all 0700, below the base folder (~/.rhrun unless HELLO names one):
 *   home-id                          random, equal for all machines that share the folder
 *   m/MACHINE/install                the install id; MACHINE = digest of machine id, hostname, host key
 *   m/MACHINE/jobs/JOB/lock          flock: HELLO and claims happen under it
 *   m/MACHINE/jobs/JOB/epoch         decimal text, durable before HELLO_OK
 *   m/MACHINE/jobs/JOB/owner         owner id, newline, owner_name
 *   m/MACHINE/jobs/JOB/conns/OWNER   flock LOCK_SH by each serving agent of that owner
 *   m/MACHINE/jobs/JOB/env/NAME      captured environments, NUL-separated
 *   m/MACHINE/jobs/JOB/a/ATTEMPT/status      struct status, preallocated; flock = the supervisor lives
 *   m/MACHINE/jobs/JOB/a/ATTEMPT/spool.N     segment N: spool bytes [N, N+1) * SEGMENT_SIZE
 *   m/MACHINE/jobs/JOB/a/ATTEMPT/bell        FIFO: the supervisor writes a byte when there is news
 *   work/JOB/VARIANT/                working directories (shared by machines that share the base)
 */
#ifndef RHRUN_AGENT_INTERNAL_H
#define RHRUN_AGENT_INTERNAL_H

#include "rhrun/wire.h"

#include <stdatomic.h>

enum { SEGMENT_SIZE = 1 << 20, STATUS_VERSION = 1, STATUS_TEXT = 4096 };

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
    char attempt[40], key[72], variant[24], boot_id[40], slot[256];
    uint64_t claim_wall_ms, start_mono_ns, end_mono_ns, end_wall_ms;
    uint32_t supervisor_pid;
    uint64_t supervisor_start; /* start tick, /proc/PID/stat field 22 */
    _Atomic uint64_t spool_bytes;
    _Atomic uint64_t acked; /* written by the agent: offset durable at the controller */
    uint64_t dropped_bytes;
    uint8_t stop_requested, timed_out, cause, pad;
    int32_t value;
    uint32_t cause_rank;
    uint64_t cause_mono_ns;
    char tail[STATUS_TEXT];     /* NUL-terminated */
    char leftover[STATUS_TEXT]; /* NUL-terminated */
    uint32_t worker_count;
    struct status_worker workers[]; /* worker_count */
};

/* ---- status.c: the status file ---- */
/* Creates ATTEMPT's folder below a/ (a_fd), its status file preallocated for run's workers, takes the lock and
 * fills in the claim (state CLAIMED). On success *ret_dir and *ret_status are open (CLOEXEC), the latter holding
 * the lock. EEXIST-like failure means that the attempt is known. */
int status_create(int a_fd, const struct wire_run *run, const char *variant, const char *boot_id, int *ret_dir,
                  int *ret_status, struct error *err);
/* Reads a record (strings into the arena). boot_id: the node's current one, for same_boot. */
int status_read(int dir_fd, const char *boot_id, struct arena *arena, struct wire_record *ret, struct error *err);
bool status_alive(int dir_fd); /* somebody holds the lock */
/* Lock free and no outcome: kills what carries RHRUN_ATTEMPT=attempt in its environment, then records LOST.
 * An attempt of another boot is recorded LOST without killing. */
int status_mark_lost(int dir_fd, const char *attempt, struct error *err);
int status_signal(int dir_fd, enum wire_signal signal, uint32_t grace_ms, struct error *err); /* to the live supervisor */

/* ---- spool.c ---- */
/* Up to max bytes from offset (0 = nothing there yet); never beyond the published size. */
ssize_t spool_read(int dir_fd, uint64_t offset, void *out, size_t max, struct error *err);
void spool_ack(int dir_fd, uint64_t offset); /* frees whole segments below offset */
uint64_t spool_kept_from(int dir_fd);        /* first offset that can still be read */

/* ---- supervise.c (and super_*.c) ---- */
struct supervise {
    const struct wire_run *run;
    int dir_fd, status_fd;   /* of the attempt; the supervisor takes them over */
    const char *work_dir;    /* absolute */
    const char *env_dir;     /* absolute folder of the captured environments */
    const char *boot_id;
    const char *shell;       /* absolute path of bash or sh */
    bool own_dir;            /* work_dir is the job's own folder: it and a missing relative cwd are created (0700) */
};
/* Starts the supervisor (double fork, own session, subreaper) and returns in the agent as soon as it is on its
 * way. Both fds stay open in the supervisor only: the caller closes its own copies. */
int supervise_start(const struct supervise *s, struct error *err);

/* ---- serve.c / hello.c: see there ---- */

#endif
