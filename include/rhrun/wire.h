/*
 * wire: the one protocol between controller and agent, and the records both keep.
 *
 * Byte stream: the agent first writes WIRE_MAGIC (what precedes it is noise of login files and is
 * skipped, up to WIRE_NOISE_MAX). After it, both sides send frames: u32 payload length, u16 type,
 * u16 zero, payload; all integers little-endian. A payload is a fixed sequence of fields: integers,
 * and strings/bytes as u32 length + data; a list is a u32 count + that many items. Unknown types,
 * trailing bytes, lengths over a limit or a NUL inside a string are protocol errors: the connection
 * ends. Both ends ship in one binary, so there is one version and HELLO refuses another; what stays
 * on a node's disk (status files) carries its own version.
 *
 * Conversation: HELLO -> HELLO_OK | HELD. Then in any order LIST -> RECORD* LISTED; RUN -> STARTED |
 * BUSY | RECORD (same attempt known: its record as it stands) | FAULT; ATTACH -> OUTPUT* and EXIT when
 * there is one; JUDGE -> EXIT; ACK, SIGNAL, FORGET have no answer; PING -> PONG; SETTLE -> SETTLED; CHECK -> CHECKED.
 * A RUN attaches its attempt by itself, from offset 0 (of a known one: from what is kept), unless this
 * connection did already; output that the controller has is to be ignored by its offset. PROBE -> PROBED. FENCED: a
 * newer controller took the job; the agent exits after it. After HELD another HELLO may follow.
 *
 * Output is one spool per attempt: the workers' streams as spool records in the order in which the
 * supervisor read them. Offsets count spool bytes; OUTPUT frames carry consecutive ranges and may cut
 * a record anywhere. The controller's log file is the spool, byte for byte, so its size is the
 * offset. */
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
    WIRE_TAIL_MAX = 4096,       /* last output kept in a record; no text of one is longer */
    WIRE_FACT_MAX = 64 << 10,   /* a text of HELLO_OK */
    WIRE_ID_LEN = 32,           /* hex digits of an attempt or install id */
    WIRE_LAUNCH_MAX = 48,       /* of the name of a launch generation, with its NUL */
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
    WIRE_SETTLE,    /* u64 token: one syncfs of the ledger's and the working directory's file system */
    WIRE_CHECK,     /* struct wire_check */
    WIRE_FORGET,    /* list of attempts whose record and output are no longer needed (ended ones only) */
    WIRE_SYNC, /* struct wire_sync: files are to be brought; claimed like a RUN. SYNC_STATE | BUSY | RECORD | FAULT */
    WIRE_SYNC_ALL,  /* string attempt: the base in SYNC_STATE is not known here: SYNC_STATE once more, with base "" and
                        every file */
    WIRE_FILE,      /* struct wire_file: a file or link from its beginning (offset 0) or, of a partial one, from where
                        it stopped; whole if so many bytes */
    WIRE_FILE_DATA, /* string attempt, bytes: the next part of the file under way */
    WIRE_REMOVE,    /* string attempt, list of paths: files of the old tree that the new one does not have */
    WIRE_SYNC_END,  /* string attempt: all is sent. EXIT follows */
    WIRE_GLOB,      /* u64 token, string pattern: which files are there? ENTRIES follow */
    WIRE_GET,       /* u64 token, string path, u64 offset, u64 size, u64 mtime_ns: DATA follows, as of ENTRIES */
    WIRE_PROBE,     /* u64 token, u8 wire_probe, bytes address (4 or 16), u32 port, u32 timeout_ms */
    WIRE_JUDGE,     /* string attempt, u8 wire_verdict: of one that has ended or is lost; kept in its record. EXIT
                       follows */
    /* agent to controller */
    WIRE_HELLO_OK = 64, /* struct wire_facts */
    WIRE_HELD,          /* string owner_name, string reason ("connection" or the live attempt's slot), u64 epoch */
    WIRE_RECORD,        /* struct wire_record: an answer to LIST, or to a RUN of a known attempt */
    WIRE_LISTED,        /* u64 token */
    WIRE_STARTED,       /* string attempt: the claim is written and the supervisor lives */
    WIRE_BUSY,          /* string attempt, string live_attempt, string slot */
    WIRE_OUTPUT,        /* string attempt, u64 offset, bytes */
    WIRE_EXIT,          /* struct wire_record: ended or lost; sent after all its output */
    WIRE_PONG,          /* u64 token, u64 mono_ns, u64 wall_ms of the node, u32 a TCP port that is free there now */
    WIRE_SETTLED,       /* u64 token, string error ("" = done) */
    WIRE_CHECKED,       /* u64 token, bytes: one for each path, then one for each tree (1: it is) */
    WIRE_FAULT,         /* string attempt ("" = the connection), string text: the request was not done */
    WIRE_FENCED,        /* u64 epoch, string owner_name */
    WIRE_SYNC_STATE,    /* struct wire_sync_state; several frames, the last one says so */
    WIRE_ENTRIES,       /* struct wire_entries; several frames, the last one says so */
    WIRE_DATA,          /* u64 token, u64 offset, u8 last, string error, bytes: consecutive; the file is complete with
                           last = 1 and error "" ("changed": it is not the one of ENTRIES any more) */
    WIRE_PATCHED, /* struct wire_sync_state: files of a tree that a set-up RUN changed. Among the answers to LIST, and
                     before the EXIT of such a RUN */
    WIRE_PROBED, /* u64 token, u32 errno, 0 = it went well; string who: has the port, "1234 (python3)", "" = not
                    known */
};

enum wire_probe {
    WIRE_PROBE_END = 0,     /* listens no more */
    WIRE_PROBE_LISTEN = 1,  /* on the port, at any address, instead of what it listened on */
    WIRE_PROBE_CONNECT = 2, /* within timeout_ms; no other request is answered meanwhile */
};
enum { WIRE_PROBE_MAX_MS = 10000 };

enum wire_signal {
    WIRE_STOP = 1,  /* TERM, grace, KILL */
    WIRE_KILL = 2,  /* at once */
    WIRE_TAKEN = 3, /* never sent: what the node itself tells a supervisor when it has got its provider's notice */
};

enum wire_hello_mode {
    WIRE_OWN = 0,       /* own the job; HELD when another owner holds it */
    WIRE_TAKE_OVER = 1, /* own it, whoever holds it */
    WIRE_READ = 2,      /* LIST, ATTACH and CHECK only; bumps no epoch, is never HELD */
};

struct wire_hello {
    uint32_t version;
    uint8_t mode;       /* enum wire_hello_mode */
    char *job;          /* id of the job: 16 hex digits */
    char *job_name;     /* for people */
    char *origin;       /* for people */
    char *owner;        /* the journal's random id: whose job it is */
    char *owner_name;   /* for people: user@host */
    char *variant;      /* names the working directory: 16 hex digits */
    char *work_dir;     /* absolute: use this folder in place; "" = the job's own folder */
    char *base_dir;     /* absolute; "" = $HOME/.rhrun, or the first usable of the fall-backs */
    char *host_digest;  /* of the host key (or "local:I"): part of the machine's identity */
    char *test_boot_id; /* test hook: taken as the boot id; "" = the real one */
};

struct wire_facts {
    uint32_t version;
    uint64_t epoch; /* of the job on this node, after this HELLO */
    char *install;  /* install id */
    char *boot_id;
    char *container;  /* 12 hex of the container around the agent (container.h), or "" */
    char *image;      /* id of its image, or, outside, of the one that it would be made of; "" = not known */
    char *image_digest; /* NAME@ALGORITHM:HEX, by which a registry has that image, or "" */
    char *machine_id; /* /etc/machine-id or "" */
    char *home_id;    /* equal on nodes that share this base folder */
    char *hostname, *user, *home, *base_dir, *work_dir;
    char *arch, *kernel, *os; /* uname -m, uname -r, PRETTY_NAME */
    char *cpu;                /* its model, or "" */
    char *shell;              /* the absolute path of bash, else of sh */
    char *python;             /* absolute path of python3 or "" */
    char *python_version;     /* "3.11" as far as it is known without running it, or "" */
    char *gpus;               /* models, one a line; "" = none */
    char *gpu_driver;         /* the line that NVIDIA's driver says of itself, or "" */
    char *address;            /* the address that the caller reached (SSH_CONNECTION), or "" */
    uint32_t cpus, gpu_count;
    uint64_t memory_bytes, disk_free_bytes;
    uint64_t mono_ns, wall_ms;
};

struct wire_strings {
    char **items;
    uint32_t count;
};

#define WIRE_NO_RANK UINT32_MAX /* of a worker that is a launcher, whose own workers have the ranks */
struct wire_worker {
    uint32_t rank, local_rank; /* local_rank: below WIRE_WORKERS_MAX */
    uint8_t shell;            /* argv[0] is a script for `bash -e -o pipefail -c` (or `sh -e -c`), argv[1..] its
                                 positional parameters, $0 is "rhrun" */
    struct wire_strings argv; /* else: program and arguments, looked up in PATH of its environment */
    struct wire_strings env;  /* "NAME=value", over the run's */
    uint8_t files;            /* enum wire_files; needs the run's log_dir */
};
/* Streams of a worker that go to LOG_DIR/RANK/stdout.log and stderr.log, masked like the spool. */
enum wire_files {
    WIRE_KEEP_OUT = 1,
    WIRE_KEEP_ERR = 2,
    WIRE_HIDE_OUT = 4, /* and not to the spool; the record's tail has them all the same */
    WIRE_HIDE_ERR = 8,
};

enum wire_kind { WIRE_KIND_STEP = 1, WIRE_KIND_LAUNCH = 2 };
enum wire_run_flag {
    WIRE_RUN_ERROR_FILES = 1, /* each worker gets TORCHELASTIC_ERROR_FILE: LOG_DIR/RANK/error.json, or a file beside its
                                 status. What the first failed one wrote there is noted, and the end of its tail */
    WIRE_RUN_ENDS = 2, /* a worker that fails by itself is told at once, by an END in the spool; so is a preemption */
    WIRE_RUN_PATCHES = 4, /* what it changes of trees' files is its result: noted once it has ended well */
};
/* Each worker is bound to some of the CPUs that this node gives us, where that can be. */
enum wire_cpus {
    WIRE_CPUS_ALL = 0,
    WIRE_CPUS_BLOCK = 1, /* an equal part, in order */
    WIRE_CPUS_NODE = 2,  /* these as torch's numa_binding: super_cpus.c */
    WIRE_CPUS_SOCKET = 3,
    WIRE_CPUS_EXCLUSIVE = 4,
    WIRE_CPUS_CORE_COMPLEX = 5,
};
#define WIRE_ERROR_NOTE "error file: " /* what begins that note, behind "rhrun: " */

/*
 * A node path (creates, roots, patterns, paths of CHECK): absolute; "@base/..." below the base folder; "~/..." below
 * the home directory; else relative to the working directory.
 *
 * Trees on a node. A tree has a name (one per working directory and per place that `files` names) and a root, the
 * folder its files go to. The agent keeps an index per tree, BASE/t/JOB/NAME/index where the root is below the base
 * folder, else BASE/m/MACHINE/jobs/JOB/t/NAME/index (base folders are shared, other roots need not be): the id of the
 * complete tree it describes ("" while a transfer is under way) and per file its oid, mode, size, mtime and inode as
 * they were when it was written. A file whose stat data differ is changed: it counts as not there, and is sent again.
 * Paths in frames are checked as tree.h says; none passes through a symbolic link below the root. A file is written
 * under a temporary name on the root's file system, then renamed; one over TREE_PART_MIN bytes that was cut off stays
 * as a part and goes on where it stopped. Files that are in no index are never touched, but one that stands where a
 * file of the tree belongs is replaced; a folder there is an error that names it, unless only files of the index were
 * in it. Removing the last file of a folder removes the folder if it is empty then. A FILE that fails ends the attempt
 * with WIRE_CAUSE_SETUP, its tail naming the file and the reason; all that came before it is kept in the index.
 *
 * A RUN with WIRE_RUN_PATCHES that ended well has its changes of trees' files noted in their indexes, before its end is
 * recorded: from then on the file is unchanged while it is as that RUN left it, and SYNC_STATE says of it what it said
 * before. PATCHED tells them: `attempt` is that RUN's, `base` the tree's name, per file the oid and mode of the source
 * that the RUN found; mode 0: it is not as the RUN left it any more. A FILE or REMOVE of the path ends that: the RUN's
 * record has more (`patched`) than PATCHED tells. Trees of other variants' working directories are left
 * out. */
enum wire_sync_flag {
    WIRE_SYNC_DISTRUST = 1, /* power may have been lost since: nothing of the index counts */
    WIRE_SYNC_MISSING = 2,  /* only what is not there at all is brought; what is there stays, whatever it is */
};
enum {
    TREE_PART_MIN = 1 << 20,
    WIRE_FILE_MAX = 256 << 10, /* bytes of one FILE or FILE_DATA */
    WIRE_OID_SIZE = 20,
    WIRE_PATH_MAX = 4000, /* of a tree's or a node path */
};

struct wire_sync {
    char *attempt, *slot, *key; /* as in struct wire_run */
    char *name;                 /* of the tree: a safe file name */
    char *root;                 /* node path of a folder; made (0755 under the umask; the working directory as ever) */
    char *tree;                 /* id of the tree that is to be, 40 hex digits */
    uint8_t flags;              /* enum wire_sync_flag */
};
struct wire_file {
    char *attempt, *path;
    uint32_t mode;      /* as git has it: 0100644, 0100755, 0120000 */
    uint64_t size;      /* of the whole file */
    const uint8_t *oid; /* WIRE_OID_SIZE bytes */
    uint64_t offset;
    const uint8_t *data; /* of a link: its target */
    uint32_t len;
};
struct wire_check {
    uint64_t token;
    struct wire_strings paths; /* do they exist? */
    struct wire_strings trees; /* three for each: name, root, id as in struct wire_sync: is it there, complete,
                                  unchanged? */
};
struct wire_sync_file { /* differs from the base: in content, in mode, or in being there */
    char *path;
    const uint8_t *oid; /* WIRE_OID_SIZE bytes, or NULL: not there, or changed */
    uint32_t mode;      /* as it is there, as in struct wire_file; 0 where oid is NULL */
};
struct wire_sync_part { /* the beginning of a file, cut off earlier */
    const uint8_t *oid;
    uint64_t size;
};
struct wire_sync_state {
    char *attempt;
    char *base; /* the tree that is there but for `files`; "" = none */
    uint8_t last;
    struct wire_sync_file *files;
    uint32_t file_count;
    struct wire_sync_part *parts;
    uint32_t part_count;
};

/* GLOB: a node path with * ? [] within a part and ** for any number of parts; a folder means all below it. Dot files
 * match. Symbolic links are entries of their own and never followed below the first wildcard. "@path/NAME" is the
 * program of that name in the agent's PATH. */
#define WIRE_PATH_PROGRAM "@path/"
enum { WIRE_PATTERN_PARTS = 62 };
/* taken apart; what may follow in a folder is a set: a bit for each part that its names may match */
struct wire_pattern {
    const char *parts[WIRE_PATTERN_PARTS + 1]; /* behind the leading folder without wildcards */
    size_t part_count;
};
bool wire_pattern_name(const char *pattern, const char *name); /* one part: * ? [a-z] [!a-z] \x */
/* text: absolute and clean; cut into pieces, which the pattern points into. Parts that begin before `literal` are no
 * wildcards. *ret_prefix: bytes of the leading folder. false: too many parts. */
bool wire_pattern_split(struct wire_pattern *ret, char *text, size_t literal, size_t *ret_prefix);
uint64_t wire_pattern_begin(const struct wire_pattern *p);
/* below `name`; 0: nothing there */
uint64_t wire_pattern_step(const struct wire_pattern *p, uint64_t set, const char *name);
/* all of it is matched, and so is what lies below */
bool wire_pattern_whole(const struct wire_pattern *p, uint64_t set);
/* The controller's side: is `path` of an entry one that GLOB of the node path `from` may name? */
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
    char *error;  /* "" = none; else nothing else counts */
    char *prefix; /* absolute: the pattern's leading folder without wildcards (of a single file: its folder) */
    uint8_t last;
    struct wire_entry *entries;
    uint32_t entry_count;
};

/* How a machine learns from its provider, on itself, that it is taken back. While the attempt runs the node asks: the
 * text of a request is sent as it is, behind it the token that the first one gave, and an empty line. An answer of
 * status 200 whose body matches (a pattern as of one name in GLOB) is the notice: the supervisor ends the workers in
 * order, as preempted. Whatever else comes, or nothing, is no notice, and is asked again. */
struct wire_notice {
    char *who;          /* for people: "aws" */
    uint32_t address;   /* IPv4 as a number: see wire_notice_address; 0 = nobody is asked */
    uint32_t port;
    char *token;        /* "" = none is needed */
    char *request;
    char *match;
    uint32_t every_ms;  /* between two requests */
    uint32_t within_ms; /* so long after the notice the machine may be there, and not longer */
};
enum {
    WIRE_NOTICE_EVERY_MIN_MS = 100,
    WIRE_NOTICE_RESERVE_MS = 5000, /* of within_ms: kept back from the workers' grace, for what comes after */
};
/* Link-local (169.254.0.0/16), or this machine's own (127.0.0.0/8): nobody else is ever asked. */
static inline bool wire_notice_address(uint32_t address)
{
    return address >> 16 == 0xA9FE || address >> 24 == 127;
}

struct wire_run {
    char *attempt;             /* WIRE_ID_LEN hex digits */
    char *slot;                /* "setup:kernels", "launch": one live attempt per slot of a job on a node */
    char *key;                 /* digest of the step's inputs, 64 hex digits */
    char *launch;              /* names the launch generation that it is a part of, below WIRE_LAUNCH_MAX bytes; "" =
                                  none */
    uint8_t kind;              /* enum wire_kind; LAUNCH: daemons left behind are ended */
    uint8_t flags;             /* enum wire_run_flag */
    uint8_t cpus;              /* enum wire_cpus */
    char *hosts;               /* text of a file beside the status, whose path is RHRUN_HOSTFILE; "" = none */
    char *log_dir;             /* absolute, made (0700): files of workers, in a folder RANK each; "" = none */
    char *cwd;                 /* relative to the working directory ("" = itself) or absolute */
    char *env_in;              /* name of an environment captured before, used instead of the agent's own; "" = none */
    char *env_out;             /* after success, the shell's environment is captured under this name; "" = no */
    char *creates;             /* must exist after success (a node path, see below); "" = no check */
    char *path_first;          /* folders put before PATH, whatever set it ("/a/bin:/b/bin"); "" = none */
    struct wire_strings unset; /* names to remove; a trailing * matches a prefix */
    struct wire_strings env;   /* "NAME=value"; the folder that RHRUN_POINT_DIR names is made before workers start */
    struct wire_strings env_default; /* "NAME=value", set only where nothing else set the name */
    struct wire_strings secrets;     /* "NAME=value": environment only, masked in the output, never written */
    struct wire_worker *workers;
    uint32_t worker_count;
    uint64_t timeout_ms; /* 0 = none; when over: stop, outcome timed out */
    uint32_t grace_ms;   /* between TERM and KILL when this node stops its own ranks */
    struct wire_strings spared; /* with WIRE_RUN_ENDS: "exit 3", "signal 9", "any" (of these two): a worker that ends so
                                   does not make this node stop the others; whoever reads the END may */
    struct wire_notice notice;
    uint64_t log_limit_bytes; /* cap of the output that is not acknowledged yet; 0 = none. What does not fit is
                                 dropped, counted, marked (acknowledged output is freed by whole segments) */
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
    WIRE_CAUSE_CREATES = 4,   /* it succeeded but `creates` does not exist */
    WIRE_CAUSE_SETUP = 5,     /* value = errno: its directory, environment or spool could not be prepared */
    WIRE_CAUSE_PREEMPTED = 6, /* value = signal number: whoever owns the machine told the supervisor to end, not rhrun;
                                 or 0: the provider's notice said so. Of no worker: the rank is WIRE_NO_RANK */
    WIRE_CAUSE_LAST = WIRE_CAUSE_PREEMPTED,
};

/* What the controller says of an attempt, beyond what its record says by itself. */
enum wire_verdict {
    WIRE_VERDICT_NONE = 0,
    WIRE_VERDICT_GOOD = 1, /* it counts as a success: a rule ignores the workers that failed, or it was a sidecar's
                              end */
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
    uint8_t stop_requested; /* ended by a stop: exit 0 is then no success */
    uint8_t timed_out;
    uint8_t verdict;   /* enum wire_verdict */
    uint64_t sequence; /* of the claims of this job on this node: the order that no clock can turn round */
    uint64_t claim_wall_ms, start_mono_ns, end_mono_ns, end_wall_ms;
    uint64_t spool_bytes;   /* size of the spool so far */
    uint64_t kept_from;     /* smaller offsets were acknowledged and freed */
    uint64_t dropped_bytes; /* output for which there was no room */
    uint8_t dropped;        /* why: enum wire_dropped; 0 = none was */
    /* the first worker that failed (by end_mono_ns), or that the node is preempted, or cause NONE */
    uint8_t cause;
    int32_t value;
    uint32_t cause_rank;
    uint64_t cause_mono_ns;
    uint32_t patched; /* files of trees that it changed, with WIRE_RUN_PATCHES */
    char *tail;     /* last output of that worker (of worker 0 when none failed), masked */
    char *leftover; /* "PID NAME" a line: daemons that it left */
    struct wire_worker_end *workers;
    uint32_t worker_count;
};
/* Did the attempt do what it was to do, or was it judged so? */
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

/* Reading a payload: errors stick (bad = true, zero values follow); wire_in_done tells whether all of it was
 * read without fault. Strings are copied into the arena. */
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
/* A path of a tree: relative, 1 to 4000 bytes, no empty part, "." or "..", not into .git at its top. */
bool wire_tree_path_valid(const char *path);
void wire_put_record(struct buf *out, enum wire_type type, const struct wire_record *m);
bool wire_get_record(struct wire_in *in, struct wire_record *ret);
bool wire_id_valid(const char *id); /* exactly WIRE_ID_LEN lower-case hex digits */

/* ---- spool records ---- */
enum wire_stream {
    WIRE_STREAM_OUT = 1,
    WIRE_STREAM_ERR = 2,
    WIRE_STREAM_NOTE = 3, /* rhrun's own marker */
    WIRE_STREAM_END = 4,  /* the worker of this rank has failed: WIRE_END_SIZE bytes. What it wrote itself stands before
                             it. Of WIRE_NO_RANK with WIRE_CAUSE_PREEMPTED: the node is, and stops its workers */
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
