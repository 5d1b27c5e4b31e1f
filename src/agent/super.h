/*
 * The supervisor's parts: processes, environment, masking, the spool's writing end, starting a worker.
 * supervise.c puts them together.
 */
#ifndef RHRUN_AGENT_SUPER_H
#define RHRUN_AGENT_SUPER_H

#include "internal.h"

/* ---- super_proc.c: processes, from /proc ---- */
struct proc {
    pid_t pid, ppid;
    char state;     /* 'Z', 'X': dead */
    uint64_t start; /* start tick: with the pid and the boot id it names a process */
    char name[17];
};
struct proc_list {
    struct proc *items;
    size_t count, cap;
};
bool proc_read(pid_t pid, struct proc *ret);
void proc_all(struct proc_list *ret);
/* All living descendants of root, found by one pass over every process's parent. */
void proc_descendants(pid_t root, struct proc_list *ret);
/* Living processes with `entry` ("NAME=value") in their environment, other than this one. */
void proc_with_env(const char *entry, struct proc_list *ret);
void proc_list_free(struct proc_list *list);

/* ---- super_env.c: environments; the strings are borrowed or never freed (a supervisor lives for one run) ---- */
struct environment {
    char **items; /* NULL-terminated */
    size_t count, cap;
};
void environment_set(struct environment *e, char *assignment); /* replaces one of that name */
const char *environment_get(const struct environment *e, const char *name);
void environment_copy(struct environment *to, const struct environment *from);
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
void environment_path_first(struct environment *e, const char *folders); /* put before PATH; NULL or "": no change */
/* The environment that all workers of the run share; -1 and errno if env_in cannot be read. */
int environment_base(struct environment *e, const struct supervise *s);

/* ---- super_mask.c: secrets in output become *** ---- */
struct mask {
    struct mask_pattern {
        const char *text;
        size_t len;
    } * patterns; /* longest first */
    size_t count, longest;
    bool first[256]; /* a pattern begins with this byte */
};
struct mask_stream {
    uint8_t *held; /* last bytes that may begin a secret, kept for the next read */
    size_t held_len;
    size_t covered; /* how many of them were already shown as *** */
};
void mask_init(struct mask *m, const struct wire_strings *secrets);
bool mask_contains(const struct mask *m, const char *text); /* whether it has a secret (of 4 bytes or more) */
/* Takes the next bytes of one stream (flush: the held bytes too); replaces `out` by the text that may be shown. */
void mask_feed(const struct mask *m, struct mask_stream *s, const uint8_t *data, size_t len, bool flush,
               struct buf *out);

/* ---- super_tail.c: the last output of a worker ---- */
struct tail {
    uint8_t data[WIRE_TAIL_MAX];
    size_t len;
    bool cut; /* output before it was dropped */
};
void tail_add(struct tail *t, const uint8_t *data, size_t len);
/* Text for people: whole lines, no control characters, valid UTF-8; fits max with its NUL. */
void tail_format(const struct tail *t, char *out, size_t max);

/* ---- super_spool.c: the spool's writing end ---- */
struct sink {
    int dir_fd, segment_fd, bell_fd;
    uint64_t segment; /* of segment_fd */
    struct status *status;
    uint8_t *batch; /* records not written yet */
    size_t len;
    uint64_t base;      /* offset of batch[0]: what is published */
    uint64_t limit;     /* limit of unacknowledged bytes; 0 = none */
    uint64_t now_ms;    /* stamp of the records of this turn */
    uint64_t gap_bytes; /* dropped since the last note */
    uint32_t gap_rank;
    bool gap_disk; /* dropped because the disk was full */
    uint64_t disk_retry_ns;
};
void sink_init(struct sink *k, int dir_fd, struct status *status, int bell_fd, uint64_t limit);
uint8_t *sink_space(struct sink *k); /* room to read WIRE_SPOOL_DATA_MAX bytes into, for sink_commit */
void sink_commit(struct sink *k, uint32_t rank, enum wire_stream stream, size_t len);
void sink_put(struct sink *k, uint32_t rank, enum wire_stream stream, const void *data, size_t len);
void sink_flush(struct sink *k);  /* writes, publishes, rings */
void sink_finish(struct sink *k); /* the same, with the note of an open gap */
void sink_ring(const struct sink *k);
struct super;
struct worker;
/* Adds a line of rhrun's own after the worker's output: to the spool, and to the worker's tail. */
void sink_note(struct super *su, struct worker *w, const char *fmt, ...) FORMAT(3, 4);

/* ---- super_exec.c: one worker's process ---- */
struct exec_fault { /* the report of a child that could not exec, sent through a pipe */
    uint32_t index;
    uint8_t cause; /* WIRE_CAUSE_EXEC or WIRE_CAUSE_SETUP */
    int32_t errnum;
};
struct exec_plan {
    const struct supervise *s;
    const struct environment *env;
    int cwd_fd, fault_fd, null_fd;
    char *error_env;                   /* of the current worker, or NULL */
    int capture_fd;                    /* memfd for env_out's environment, or -1 */
    uint64_t nofile_soft, nofile_hard; /* the limit that workers get */
};
/* Forks worker `index` with its streams at out_fd and err_fd. The pid, or -1 with errno. */
pid_t exec_worker(const struct exec_plan *plan, uint32_t index, int out_fd, int err_fd);
int exec_open_cwd(const struct supervise *s); /* creates it if it is the job's own; -1 with errno */
/* Stores the captured environment under env_out, without variables that must not outlive the step. */
int exec_store_env(const struct supervise *s, int capture_fd, const struct mask *mask);

/* ---- super_cpus.c: which CPUs a worker is bound to ---- */
enum { CPUS_MAX = 8192 };
struct cpus {
    uint64_t bits[CPUS_MAX / 64];
};
struct cpus_wish {
    enum wire_cpus mode;
    uint32_t index, count; /* the worker's local rank; for blocks its number in the RUN */
    const char *devices;   /* CUDA_VISIBLE_DEVICES, NULL = all */
    const char *root;      /* before the paths of /dev, /proc and /sys: "" */
};
/* *cpus: on entry the CPUs that this process may use, on return those of the worker; false: unchanged. */
bool cpus_choose(const struct cpus_wish *w, struct cpus *cpus);

/* ---- super_loop.c: the supervisor while its workers run ---- */
struct worker {
    pid_t pid;               /* 0: not started or ended */
    struct exec_fault fault; /* cause 0: it was started */
    struct output {
        int fd; /* -1: at its end */
        enum wire_stream id;
        bool hidden; /* not for the spool */
        struct mask_stream mask;
    } streams[2];
    int files[2];    /* the streams' log files, -1 = none */
    char *error_env; /* TORCHELASTIC_ERROR_FILE=..., or NULL */
    struct tail tail;
    struct status_worker *status;
};
enum phase {
    PHASE_RUNNING,  /* a worker runs and nothing stops them */
    PHASE_QUIET,    /* all workers ended; daemons may hold their streams */
    PHASE_STOPPING, /* TERM was sent to the tree */
    PHASE_KILLING,  /* KILL is sent again and again */
    PHASE_DONE,
};
struct super {
    const struct supervise *s;
    char *said; /* of notice_watch; NULL: no provider is asked */
    struct status *status;
    struct sink sink;
    struct mask mask;
    struct buf shown; /* masked output */
    uint8_t *scratch; /* a read before masking */
    struct worker *workers;
    uint32_t running, open_streams;
    int epoll_fd, signal_fd, fault_fd; /* fault_fd: reading end */
    enum phase phase;
    uint64_t start_ns, exit_ns, output_ns; /* of the first fork, the last worker's end, the last output */
    uint64_t deadline_ns;                  /* STOPPING: when KILL follows; KILLING: the next check */
    uint64_t kill_ns;                      /* KILLING: since */
    bool has_children;
    struct worker *failed; /* the first that failed; while running, another replaces a spared one */
    bool spared; /* `failed` was spared */
};
int loop_watch(struct super *su, struct worker *w, int which, int fd); /* takes fd over as a stream */
void loop_worker_end(struct super *su, struct worker *w, enum wire_cause cause, int32_t value);
void loop_run(struct super *su);     /* until PHASE_DONE */
void loop_discard(struct super *su); /* reads what daemons still write, until they end */

/* ---- super_notice.c: asks whether the provider takes the machine back ---- */
enum { NOTICE_SAID_MAX = 256 };
/* Asks until the supervisor of dir_fd has ended, or there is a notice: then `said` (shared with the supervisor) has the
 * provider's words, and the supervisor gets WIRE_TAKEN. */
void notice_watch(const struct supervise *s, int dir_fd, char *said);

/* ---- super_files.c: files of workers beside the spool ---- */
int files_open(struct super *su, uint32_t index);                 /* makes them; -1 with errno */
int files_hosts(const struct super *su, struct environment *env); /* the file of RHRUN_HOSTFILE; likewise */
void files_write(struct super *su, struct worker *w, const struct output *st, const uint8_t *data, size_t len);
void files_error(struct super *su, struct worker *w); /* adds the text of its error file, if any, as a note */

#endif
