/*
 * wire: the one protocol between controller and agent, and the records both keep.
 *
 * Byte stream: the agent first writes WIRE_MAGIC (output of login files before it is noise, and is skipped up to
 * WIRE_NOISE_MAX bytes). After the magic, both sides send frames: u32 payload length, u16 type, u16 zero, payload; all
 * integers little-endian. A payload is a fixed sequence of fields: integers, and strings/bytes as u32 length + data; a
 * list is a u32 count + that many items. Unknown types, trailing bytes, lengths over a limit or a NUL inside a string
 * are protocol errors: the connection ends. Both ends ship in one binary, so there is one version, and HELLO refuses
 * any other; files that stay on a node's disk (status files) have their own version.
 *
 * Conversation: HELLO -> HELLO_OK | HELD. Then in any order LIST -> RECORD* LISTED; RUN -> STARTED | BUSY | RECORD (the
 * attempt is known already: its present record) | FAULT; ATTACH -> OUTPUT* and EXIT when there is one; JUDGE -> EXIT;
 * ACK, SIGNAL, FORGET have no answer; PING -> PONG; SETTLE -> SETTLED; CHECK -> CHECKED. A RUN also attaches its
 * attempt, from offset 0 (a known attempt: from the first kept byte), unless this connection has attached it already;
 * the controller ignores output that it has, by the offset. PROBE -> PROBED. FENCED: a newer controller took the job;
 * the agent then exits. After HELD another HELLO may follow.
 *
 * Output is one spool per attempt: the workers' streams as spool records, in the order in which the supervisor read
 * them. Offsets count spool bytes; OUTPUT frames carry consecutive ranges and may cut a record anywhere. The
 * controller's log file is a byte-for-byte copy of the spool, so the file's size is the next offset. */
#ifndef RHRUN_WIRE_H
#define RHRUN_WIRE_H

#include "rhrun/base.h"

#define WIRE_VERSION 8u
#define WIRE_MAGIC "\nRHRUN-AGENT-1\n"
enum {
    WIRE_HEADER_SIZE = 8,
    WIRE_NOISE_MAX = 1 << 20,   /* bytes before the magic */
    WIRE_PAYLOAD_MAX = 8 << 20, /* a RUN with many workers is the largest */
    WIRE_STRING_MAX = 1 << 20,  /* one string */
    WIRE_LIST_MAX = 65536,      /* items of one list */
    WIRE_WORKERS_MAX = 4096,    /* workers of one RUN */
    WIRE_OUTPUT_MAX = 64 << 10, /* data of one OUTPUT frame */
    WIRE_TAIL_MAX = 4096,       /* last output kept in a record; every string of a record is at most this long */
    WIRE_FACT_MAX = 64 << 10,   /* one string of HELLO_OK */
    WIRE_ID_LEN = 32,           /* hex digits of an attempt or install id */
    WIRE_LAUNCH_MAX = 48,       /* size of a launch generation's name, with the NUL */
};

enum wire_type {
    /* controller to agent */
    WIRE_HELLO = 1, /* struct wire_hello */
    WIRE_LIST,      /* u64 token */
    WIRE_RUN,       /* struct wire_run */
    WIRE_ATTACH,    /* string attempt, u64 offset */
    WIRE_ACK,       /* string attempt, u64 offset: bytes below it are durable at the controller */
    WIRE_SIGNAL,    /* string attempt, u8 wire_signal, u32 grace_ms */
    WIRE_PING,      /* u64 token */
    WIRE_SETTLE,    /* u64 token: syncfs of the file systems of the ledger and the working directory */
    WIRE_CHECK,     /* struct wire_check */
    WIRE_FORGET,    /* list of ended attempts whose record and output are no longer needed */
    WIRE_SYNC, /* struct wire_sync: begins a transfer to the node; claimed like a RUN. SYNC_STATE | BUSY | RECORD |
                  FAULT */
    WIRE_SYNC_ALL,  /* string attempt: the controller does not know the base of SYNC_STATE: asks for another SYNC_STATE,
                       with base "" and every file */
    WIRE_FILE,      /* struct wire_file: a file or link, from its beginning (offset 0) or, for a part, from where it
                       stopped; complete once all bytes have come */
    WIRE_FILE_DATA, /* string attempt, bytes: the next bytes of the current file */
    WIRE_REMOVE,    /* string attempt, list of paths: files of the old tree that the new tree lacks */
    WIRE_SYNC_END,  /* string attempt: all is sent. EXIT follows */
    WIRE_GLOB,      /* u64 token, string pattern: which files are there? ENTRIES follow */
    WIRE_GET,       /* u64 token, string path, u64 offset, u64 size, u64 mtime_ns (both from ENTRIES): DATA follows */
    WIRE_PROBE,     /* u64 token, u8 wire_probe, bytes address (4 or 16), u32 port, u32 timeout_ms */
    WIRE_JUDGE,     /* string attempt, u8 wire_verdict: for an attempt that has ended or is lost; kept in its record.
                       EXIT follows */
    /* agent to controller */
    WIRE_HELLO_OK = 64, /* struct wire_facts */
    WIRE_HELD,          /* string owner_name, string reason ("connection" or the live attempt's slot), u64 epoch */
    WIRE_RECORD,        /* struct wire_record: an answer to LIST, or to a RUN of a known attempt */
    WIRE_LISTED,        /* u64 token */
    WIRE_STARTED,       /* string attempt: the claim is written and the supervisor lives */
    WIRE_BUSY,          /* string attempt, string live_attempt, string slot */
    WIRE_OUTPUT,        /* string attempt, u64 offset, bytes */
    WIRE_EXIT,          /* struct wire_record: ended or lost; sent after all its output */
    WIRE_PONG,          /* u64 token, u64 mono_ns, u64 wall_ms of the node, u32 a TCP port that is free on it now */
    WIRE_SETTLED,       /* u64 token, string error ("" = done) */
    WIRE_CHECKED,       /* u64 token, bytes: one for each path, then one for each tree (1: yes) */
    WIRE_FAULT,         /* string attempt ("" = the connection), string text: the request was not done */
    WIRE_FENCED,        /* u64 epoch, string owner_name */
    WIRE_SYNC_STATE,    /* struct wire_sync_state; several frames, the last one says so */
    WIRE_ENTRIES,       /* struct wire_entries; several frames, the last one says so */
    WIRE_DATA,          /* u64 token, u64 offset, u8 last, string error, bytes: consecutive; last = 1 with error ""
                           completes the file ("changed": the file is no longer the one of ENTRIES) */
    WIRE_PATCHED, /* struct wire_sync_state: files of a tree that a set-up RUN changed. Comes among the answers to LIST,
                     and before the EXIT of such a RUN */
    WIRE_PROBED, /* u64 token, u32 errno (0 = success), string who: the process that has the port, "1234 (python3)"; ""
                    = not known */
};

enum wire_probe {
    WIRE_PROBE_END = 0,     /* stop listening */
    WIRE_PROBE_LISTEN = 1,  /* listen on the port, at any address, instead of the port before */
    WIRE_PROBE_CONNECT = 2, /* connect within timeout_ms; no other request is answered meanwhile */
};
enum { WIRE_PROBE_MAX_MS = 10000 };

enum wire_signal {
    WIRE_STOP = 1,  /* TERM, grace, KILL */
    WIRE_KILL = 2,  /* at once */
    WIRE_TAKEN = 3, /* never sent: the node itself signals a supervisor when its provider's notice has come */
};

enum wire_hello_mode {
    WIRE_OWN = 0,       /* own the job; answer HELD when another owner holds it */
    WIRE_TAKE_OVER = 1, /* own the job, whoever holds it */
    WIRE_READ = 2,      /* LIST, ATTACH and CHECK only; the epoch stays, and the answer is never HELD */
};

struct wire_hello {
    uint32_t version;
    uint8_t mode;       /* enum wire_hello_mode */
    char *job;          /* id of the job: 16 hex digits */
    char *job_name;     /* for people */
    char *origin;       /* for people */
    char *owner;        /* the journal's random id: identifies the owner */
    char *owner_name;   /* for people: user@host */
    char *variant;      /* name of the working directory: 16 hex digits */
    char *work_dir;     /* absolute: use this folder in place; "" = the job's own folder */
    char *base_dir;     /* absolute; "" = $HOME/.rhrun, or the first usable fallback */
    char *host_digest;  /* of the host key (or "local:I"): part of the machine's identity */
    char *test_boot_id; /* test hook: taken as the boot id; "" = the real one */
};

struct wire_facts {
    uint32_t version;
    uint64_t epoch; /* of the job on this node, after this HELLO */
    char *install;  /* install id */
    char *boot_id;
    char *container;  /* 12 hex digits: id of the container around the agent (container.h), or "" */
    char *image;      /* id of its image; outside a container, of the image that the container would be made from; "" =
                         not known */
    char *image_digest; /* NAME@ALGORITHM:HEX of that image in a registry, or "" */
    char *machine_id; /* /etc/machine-id or "" */
    char *home_id;    /* equal on nodes that share this base folder */
    char *hostname, *user, *home, *base_dir, *work_dir;
    char *arch, *kernel, *os; /* uname -m, uname -r, PRETTY_NAME */
    char *cpu;                /* its model, or "" */
    char *shell;              /* the absolute path of bash, else of sh */
    char *python;             /* absolute path of python3 or "" */
    char *python_version;     /* such as "3.11", if it is known without running python3; else "" */
    char *gpus;               /* models, one per line; "" = none */
    char *gpu_driver;         /* NVIDIA's driver's own version line, or "" */
    char *address;            /* the address that the caller reached (SSH_CONNECTION), or "" */
    uint32_t cpus, gpu_count;
    uint64_t memory_bytes, disk_free_bytes;
    uint64_t mono_ns, wall_ms;
};

struct wire_strings {
    char **items;
    uint32_t count;
};

#define WIRE_NO_RANK UINT32_MAX /* for a worker that is a launcher, whose own workers have the ranks */
struct wire_worker {
    uint32_t rank, local_rank; /* local_rank: below WIRE_WORKERS_MAX */
    uint8_t shell;            /* argv[0] is a script for `bash -e -o pipefail -c` (or `sh -e -c`), argv[1..] its
                                 positional parameters, $0 is "rhrun" */
    struct wire_strings argv; /* else: program and arguments; the program is looked up in the PATH of its environment */
    struct wire_strings env;  /* "NAME=value", overrides the run's */
    uint8_t files;            /* enum wire_files; needs the run's log_dir */
};
/* Streams of a worker that go to LOG_DIR/RANK/stdout.log and stderr.log, masked like the spool. */
enum wire_files {
    WIRE_KEEP_OUT = 1,
    WIRE_KEEP_ERR = 2,
    WIRE_HIDE_OUT = 4, /* not to the spool as well; the record's tail still has them */
    WIRE_HIDE_ERR = 8,
};

enum wire_kind { WIRE_KIND_STEP = 1, WIRE_KIND_LAUNCH = 2 };
enum wire_run_flag {
    WIRE_RUN_ERROR_FILES = 1, /* each worker gets TORCHELASTIC_ERROR_FILE: LOG_DIR/RANK/error.json, or a file beside its
                                 status. The text that the first failed worker wrote there becomes a note, and the end
                                 of its tail */
    WIRE_RUN_ENDS = 2, /* when a worker fails by itself, an END goes into the spool at once; likewise for a
                          preemption */
    WIRE_RUN_PATCHES = 4, /* its changes to files of trees are its result: noted once it has ended well */
};
/* Binds each worker to some of the CPUs that this node gives us, if possible. */
enum wire_cpus {
    WIRE_CPUS_ALL = 0,
    WIRE_CPUS_BLOCK = 1, /* an equal share for each, in order */
    WIRE_CPUS_NODE = 2,  /* this and the following as torch's numa_binding: super_cpus.c */
    WIRE_CPUS_SOCKET = 3,
    WIRE_CPUS_EXCLUSIVE = 4,
    WIRE_CPUS_CORE_COMPLEX = 5,
};
#define WIRE_ERROR_NOTE "error file: " /* beginning of the error file's note, after "rhrun: " */

/*
 * A node path (creates, roots, patterns, paths of CHECK): absolute; "@base/..." below the base folder; "~/..." below
 * the home directory; else relative to the working directory.
 *
 * Trees on a node. A tree has a name (one per working directory and per target of `files`) and a root, the folder of
 * its files. The agent keeps an index per tree: BASE/t/JOB/NAME/index if the root is below the base folder, else
 * BASE/m/MACHINE/jobs/JOB/t/NAME/index (nodes may share the base folder, but other roots need not be shared). The index
 * has the id of the complete tree ("" while a transfer is under way) and, per file, its oid, and its mode, size, mtime
 * and inode when it was written. A file whose stat data differ has changed: it counts as missing, and is sent again.
 * Paths in frames are checked as tree.h says; no path may pass through a symbolic link below the root. A file is
 * written under a temporary name on the root's file system, then renamed; if a transfer stops after more than
 * TREE_PART_MIN bytes of a file, those bytes stay as a part, and a later transfer continues it. Files that are in no
 * index are never touched, except that a file in the place of a tree's file is replaced. A folder in that place is an
 * error that names it, unless only files of the index were in it. When the last file of a folder is removed, the folder
 * is removed too if it is empty. A FILE that fails ends the attempt with WIRE_CAUSE_SETUP, and its tail names the file
 * and the reason; the files before it stay in the index.
 *
 * When a RUN with WIRE_RUN_PATCHES ends well, its changes to files of trees (patches) are noted in the trees' indexes
 * before its end is recorded. From then on such a file counts as unchanged as long as it is as that RUN left it, and
 * SYNC_STATE still gives its state before the RUN. PATCHED lists the patches: `attempt` is that RUN's, `base` the
 * tree's name, and per file the oid and mode of the source that the RUN found; mode 0: the file is no longer as the RUN
 * left it. A FILE or REMOVE for the path ends a patch; `patched` in the RUN's record is then more than PATCHED lists.
 * Trees in other variants' working directories are left out. */
enum wire_sync_flag {
    WIRE_SYNC_DISTRUST = 1, /* power may have been lost since: the index does not count */
    WIRE_SYNC_MISSING = 2,  /* only files that do not exist are sent; existing ones stay, whatever they are */
};
enum {
    TREE_PART_MIN = 1 << 20,
    WIRE_FILE_MAX = 256 << 10, /* bytes of one FILE or FILE_DATA */
    WIRE_OID_SIZE = 20,
    WIRE_PATH_MAX = 4000, /* of a tree's path, or a node path */
};

struct wire_sync {
    char *attempt, *slot, *key; /* as in struct wire_run */
    char *name;                 /* of the tree: a safe file name */
    char *root;                 /* node path of a folder; made if needed (0755 under the umask; the working directory
                                   with its usual mode) */
    char *tree;                 /* id of the wanted tree, 40 hex digits */
    uint8_t flags;              /* enum wire_sync_flag */
};
struct wire_file {
    char *attempt, *path;
    uint32_t mode;      /* git's modes: 0100644, 0100755, 0120000 */
    uint64_t size;      /* of the whole file */
    const uint8_t *oid; /* WIRE_OID_SIZE bytes */
    uint64_t offset;
    const uint8_t *data; /* of a link: its target */
    uint32_t len;
};
struct wire_check {
    uint64_t token;
    struct wire_strings paths; /* do they exist? */
    struct wire_strings trees; /* three for each: name, root, id, as in struct wire_sync: is the tree there, complete
                                  and unchanged? */
};
struct wire_sync_file { /* a file that differs from the base: in content, in mode, or because it is missing */
    char *path;
    const uint8_t *oid; /* WIRE_OID_SIZE bytes, or NULL: missing or changed */
    uint32_t mode;      /* the file's mode on the node, as in struct wire_file; 0 if oid is NULL */
};
struct wire_sync_part { /* the kept beginning of a file whose transfer was cut off */
    const uint8_t *oid;
    uint64_t size;
};
struct wire_sync_state {
    char *attempt;
    char *base; /* the tree that the node has, except for `files`; "" = none */
    uint8_t last;
    struct wire_sync_file *files;
    uint32_t file_count;
    struct wire_sync_part *parts;
    uint32_t part_count;
};

/* GLOB: a node path with * ? [] within a part and ** for any number of parts; a folder stands for everything below it.
 * Dot files match. Symbolic links are entries themselves, and are not followed from the first wildcard on. "@path/NAME"
 * is the program of that name in the agent's PATH. */
#define WIRE_PATH_PROGRAM "@path/"
enum { WIRE_PATTERN_PARTS = 62 };
/* a pattern split into parts. While walking, a set (a bit for each part) says which parts a folder's names may match */
struct wire_pattern {
    const char *parts[WIRE_PATTERN_PARTS + 1]; /* after the leading folder without wildcards */
    size_t part_count;
};
bool wire_pattern_name(const char *pattern, const char *name); /* one part: * ? [a-z] [!a-z] \x */
/* text must be absolute and clean; it is cut into pieces that the pattern points to. Parts that begin before offset
 * `literal` are taken literally. *ret_prefix: length of the leading folder in bytes. false: too many parts. */
bool wire_pattern_split(struct wire_pattern *ret, char *text, size_t literal, size_t *ret_prefix);
uint64_t wire_pattern_begin(const struct wire_pattern *p);
/* the set for the folder `name`; 0: nothing below it can match */
uint64_t wire_pattern_step(const struct wire_pattern *p, uint64_t set, const char *name);
/* the whole pattern has matched, so everything below matches too */
bool wire_pattern_whole(const struct wire_pattern *p, uint64_t set);
/* For the controller: checks that `path` of an entry is one that GLOB of the node path `from` may give. */
bool wire_pattern_of(struct wire_pattern *ret, const char *from, struct arena *arena);
bool wire_pattern_match(const struct wire_pattern *p, const char *path);
struct wire_entry {
    char *path;    /* below `prefix`; no "." or ".." */
    uint32_t mode; /* st_mode: regular file, link or folder */
    uint64_t size, mtime_ns, inode;
    char *target; /* of a link, else "" */
};
struct wire_entries {
    uint64_t token;
    char *error;  /* "" = none; else all other fields are void */
    char *prefix; /* absolute: the pattern's leading folder without wildcards (for a single file: its folder) */
    uint8_t last;
    struct wire_entry *entries;
    uint32_t entry_count;
};

/* How a machine asks, from inside, whether its provider takes it back. While an attempt runs, the node sends `request`
 * as it is, then the token that the `token` request returned, then an empty line. An answer with status 200 whose body
 * matches `match` (a pattern for one name, as in GLOB) is the notice: the supervisor stops the workers in an orderly
 * way, as preempted. Any other answer, or none, is no notice, and the node asks again. */
struct wire_notice {
    char *who;          /* for people: "aws" */
    uint32_t address;   /* IPv4 as a number: see wire_notice_address; 0 = the node does not ask */
    uint32_t port;
    char *token;        /* the request for a token; "" = none is needed */
    char *request;
    char *match;
    uint32_t every_ms;  /* between two requests */
    uint32_t within_ms; /* how long after the notice the machine still exists, at most */
};
enum {
    WIRE_NOTICE_EVERY_MIN_MS = 100,
    WIRE_NOTICE_RESERVE_MS = 5000, /* part of within_ms that the workers do not get, for the work after their end */
};
/* Link-local (169.254.0.0/16), or this machine's own (127.0.0.0/8): no other address is ever asked. */
static inline bool wire_notice_address(uint32_t address)
{
    return address >> 16 == 0xA9FE || address >> 24 == 127;
}

struct wire_run {
    char *attempt;             /* WIRE_ID_LEN hex digits */
    char *slot;                /* "setup:kernels", "launch": one live attempt per slot of a job on a node */
    char *key;                 /* digest of the step's inputs, 64 hex digits */
    char *launch;              /* name of the launch generation that it belongs to, less than WIRE_LAUNCH_MAX bytes; ""
                                  = none */
    uint8_t kind;              /* enum wire_kind; LAUNCH: daemons that it leaves behind are ended */
    uint8_t flags;             /* enum wire_run_flag */
    uint8_t cpus;              /* enum wire_cpus */
    char *hosts;               /* text of a file beside the status; its path is RHRUN_HOSTFILE; "" = none */
    char *log_dir;             /* absolute, made (0700): for the workers' files, with a folder RANK for each; "" =
                                  none */
    char *cwd;                 /* relative to the working directory ("" = itself) or absolute */
    char *env_in;              /* name of a captured environment, used instead of the agent's own; "" = none */
    char *env_out;             /* after success, the shell's environment is captured under this name; "" = no */
    char *creates;             /* must exist after success (a node path, see below); "" = no check */
    char *path_first;          /* folders put before PATH, wherever PATH comes from ("/a/bin:/b/bin"); "" = none */
    struct wire_strings unset; /* names to remove; a trailing * matches a prefix */
    struct wire_strings env;   /* "NAME=value"; the folder that RHRUN_POINT_DIR names is made before workers start */
    struct wire_strings env_default; /* "NAME=value", set only where nothing else set the name */
    struct wire_strings secrets;     /* "NAME=value": environment only, masked in output, never on disk */
    struct wire_worker *workers;
    uint32_t worker_count;
    uint64_t timeout_ms; /* 0 = none; afterwards the workers are stopped, outcome timed out */
    uint32_t grace_ms;   /* between TERM and KILL when this node stops its own ranks */
    struct wire_strings spared; /* with WIRE_RUN_ENDS: "exit 3", "signal 9", or "any" (any exit status or signal): a
                                   worker that ends in this way does not make the node stop the others; the reader of
                                   the END may */
    struct wire_notice notice;
    uint64_t log_limit_bytes; /* limit of output that is not acknowledged yet; 0 = none. Output beyond it is dropped,
                                 counted and marked (acknowledged output is freed by whole segments) */
};

enum wire_state {
    WIRE_STATE_CLAIMED = 1, /* claimed: its supervisor lives */
    WIRE_STATE_ENDED = 2,   /* outcome known */
    WIRE_STATE_LOST = 3,    /* the supervisor died without an outcome: unknown */
};
enum wire_cause {
    WIRE_CAUSE_NONE = 0,      /* every worker exited 0 */
    WIRE_CAUSE_EXIT = 1,      /* value = exit status */
    WIRE_CAUSE_SIGNAL = 2,    /* value = signal number */
    WIRE_CAUSE_EXEC = 3,      /* value = errno: the program could not be started */
    WIRE_CAUSE_CREATES = 4,   /* the workers succeeded, but `creates` does not exist */
    WIRE_CAUSE_SETUP = 5,     /* value = errno: the directory, environment or spool could not be prepared */
    WIRE_CAUSE_PREEMPTED = 6, /* value = signal number: the machine or its scheduler, not rhrun, told the supervisor to
                                 end; value = 0: the provider's notice came. Concerns no worker: the rank is
                                 WIRE_NO_RANK */
    WIRE_CAUSE_LAST = WIRE_CAUSE_PREEMPTED,
};

/* The controller's judgement of an attempt, which overrides its record. */
enum wire_verdict {
    WIRE_VERDICT_NONE = 0,
    WIRE_VERDICT_GOOD = 1, /* it counts as a success: a rule ignores the failed workers, or a sidecar ended */
};

struct wire_worker_end {
    uint32_t rank;
    uint8_t cause; /* enum wire_cause */
    int32_t value;
    uint64_t end_mono_ns;
};

enum wire_dropped {
    WIRE_DROPPED_LIMIT = 1, /* beyond log_limit_bytes */
    WIRE_DROPPED_DISK = 2   /* the node's disk was full */
};

struct wire_record {
    char *attempt, *slot, *key, *variant, *boot_id, *launch; /* launch: as in struct wire_run */
    uint8_t state;          /* enum wire_state */
    uint8_t same_boot;      /* boot_id is the node's current one */
    uint8_t stop_requested; /* ended by a stop: exit 0 is then not a success */
    uint8_t timed_out;
    uint8_t verdict;   /* enum wire_verdict */
    uint64_t sequence; /* number among the claims of this job on this node: an order that no clock can change */
    uint64_t claim_wall_ms, start_mono_ns, end_mono_ns, end_wall_ms;
    uint64_t spool_bytes;   /* size of the spool so far */
    uint64_t kept_from;     /* output below this offset was acknowledged and freed */
    uint64_t dropped_bytes; /* output for which there was no room */
    uint8_t dropped;        /* why: bits of enum wire_dropped; 0 = none was dropped */
    /* the first worker that failed (by end_mono_ns), or the node's preemption, or cause NONE */
    uint8_t cause;
    int32_t value;
    uint32_t cause_rank;
    uint64_t cause_mono_ns;
    uint32_t patched; /* with WIRE_RUN_PATCHES: how many files of trees it changed */
    char *tail;     /* last output of the worker that failed first (worker 0 if none failed), masked */
    char *leftover; /* daemons that it left, "PID NAME" per line */
    struct wire_worker_end *workers;
    uint32_t worker_count;
};
/* Whether the attempt succeeded, or was judged a success. */
bool wire_record_success(const struct wire_record *r);

/* ---- frames ---- */
/* Begins a frame in `out` and returns its start; wire_end patches the length. */
size_t wire_begin(struct buf *out, enum wire_type type);
void wire_end(struct buf *out, size_t start);
void wire_put_u8(struct buf *out, uint8_t v);
void wire_put_u32(struct buf *out, uint32_t v);
void wire_put_u64(struct buf *out, uint64_t v);
void wire_put_bytes(struct buf *out, const void *data, size_t len);
void wire_put_string(struct buf *out, const char *s); /* NULL is "" */
void wire_put_strings(struct buf *out, const struct wire_strings *list);

/* A complete frame at the head of `in`? 1 and *ret_type, *ret_payload, *ret_len (pointing into in; consume
 * WIRE_HEADER_SIZE + *ret_len afterwards), 0 when more bytes are needed, -1 when it breaks the protocol. */
int wire_peek(const struct buf *in, enum wire_type *ret_type, const uint8_t **ret_payload, uint32_t *ret_len);

/* Reading a payload: an error sticks (bad = true, and all later values are zero); wire_in_done says whether the whole
 * payload was read without error. Strings are copied into the arena. */
struct wire_in {
    const uint8_t *p, *end;
    struct arena *arena;
    bool bad;
};
uint8_t wire_get_u8(struct wire_in *in);
uint32_t wire_get_u32(struct wire_in *in);
uint64_t wire_get_u64(struct wire_in *in);
char *wire_get_string(struct wire_in *in);
const uint8_t *wire_get_bytes(struct wire_in *in, uint32_t *ret_len); /* points into the payload */
struct wire_strings wire_get_strings(struct wire_in *in);
bool wire_in_done(const struct wire_in *in);

/* Whole messages. put appends one frame; get reads a payload, false when it is malformed. */
void wire_put_hello(struct buf *out, const struct wire_hello *m);
bool wire_get_hello(struct wire_in *in, struct wire_hello *ret);
void wire_put_facts(struct buf *out, const struct wire_facts *m);
bool wire_get_facts(struct wire_in *in, struct wire_facts *ret);
void wire_put_run(struct buf *out, const struct wire_run *m);
bool wire_get_run(struct wire_in *in, struct wire_run *ret);
void wire_put_sync(struct buf *out, const struct wire_sync *m);
bool wire_get_sync(struct wire_in *in, struct wire_sync *ret);
void wire_put_file(struct buf *out, const struct wire_file *m);
bool wire_get_file(struct wire_in *in, struct wire_file *ret); /* data points into the payload */
void wire_put_check(struct buf *out, const struct wire_check *m);
bool wire_get_check(struct wire_in *in, struct wire_check *ret);
void wire_put_sync_state(struct buf *out, const struct wire_sync_state *m);
bool wire_get_sync_state(struct wire_in *in, struct wire_sync_state *ret);
void wire_put_patched(struct buf *out, const struct wire_sync_state *m);
bool wire_get_patched(struct wire_in *in, struct wire_sync_state *ret);
void wire_put_entries(struct buf *out, const struct wire_entries *m);
bool wire_get_entries(struct wire_in *in, struct wire_entries *ret);
/* Whether path may be in a tree: relative, 1 to 4000 bytes, without an empty part, "." or "..", and not in a top-level
 * .git. */
bool wire_tree_path_valid(const char *path);
void wire_put_record(struct buf *out, enum wire_type type, const struct wire_record *m);
bool wire_get_record(struct wire_in *in, struct wire_record *ret);
bool wire_id_valid(const char *id); /* exactly WIRE_ID_LEN lower-case hex digits */

/* ---- spool records ---- */
enum wire_stream {
    WIRE_STREAM_OUT = 1,
    WIRE_STREAM_ERR = 2,
    WIRE_STREAM_NOTE = 3, /* rhrun's own marker */
    WIRE_STREAM_END = 4,  /* the worker of this rank has failed: WIRE_END_SIZE bytes. The worker's own output comes
                             before it. With WIRE_NO_RANK and WIRE_CAUSE_PREEMPTED: the node is preempted, and stops its
                             workers */
};
enum { WIRE_SPOOL_HEADER = 20, WIRE_SPOOL_DATA_MAX = 64 << 10 };
/* u32 length, u32 rank, u8 stream, u8[3] zero, u64 wall_ms; then length bytes. */
struct wire_spool {
    uint32_t len, rank;
    uint8_t stream;
    uint64_t wall_ms;
};
void wire_spool_put(uint8_t out[WIRE_SPOOL_HEADER], const struct wire_spool *h);
bool wire_spool_get(const uint8_t in[WIRE_SPOOL_HEADER], struct wire_spool *ret); /* false: malformed */
/* u8 cause, u8[3] zero, u32 value, u64 end_mono_ns; the rank is in the record's header. */
enum { WIRE_END_SIZE = 16 };
void wire_spool_end_put(uint8_t out[WIRE_END_SIZE], const struct wire_worker_end *end);
bool wire_spool_end_get(const uint8_t *in, size_t len, struct wire_worker_end *ret); /* all but rank */

#endif
