/*
 * Private to spec: what the stages of spec_load share, and the parts of the expression language.
 *
 * Each stage reads the document tolerantly: what has the wrong type was reported by the schema, so a
 * stage skips it in silence and goes on. That is how one run reports the faults of all stages.
 */
#ifndef RHRUN_SPEC_INTERNAL_H
#define RHRUN_SPEC_INTERNAL_H

#include "rhrun/spec.h"

enum {
    SPEC_HOSTS_MAX = 65536, /* slots of a plan: EVENT_NODE_MAX */
    SPEC_NPROC_MAX = 4096,
    SPEC_STEPS_MAX = 10000,
    SPEC_SWEPT_MAX = 100, /* params of a sweep */
    SPEC_ARGS_MAX_BYTES = 1 << 20,
    SPEC_CALL_MAX_BYTES =
        96 << 10, /* of a function, as JSON: they travel in one variable, which Linux ends at 128 KiB */
    SPEC_FILE_MAX_BYTES = 16 << 20, /* hostfile: hosts of up to 256 bytes */
    SPEC_SECRET_MAX_BYTES = 1 << 20,
    SPEC_PREFLIGHT_TIMEOUT_MAX_MS = 10000, /* WIRE_PROBE_MAX_MS */
};

struct load {
    struct arena *arena;
    struct spec *spec;
    const struct spec_overrides *over;
    struct doc_node *root; /* of the document, overrides applied; may be of any type */
    struct diagnostics *diagnostics;
    struct error *err;
    const struct doc_node *nnodes; /* distributed.nnodes where it is a number or MIN:MAX, or NULL */
    bool hosts_failed;             /* no use in checking counts against hosts */
    const struct doc_node *any_of; /* of the job's cluster; NULL: there is none */
    const struct doc_node **alternatives; /* the job's cluster by each of them */
    uint32_t alternative;                 /* the one that counts, from 1 */
    uint32_t any_nodes;                   /* of those that say nothing of it */
    const struct doc_node **chosen;       /* by param: the value that -p gives a swept one, or NULL */
    bool chooses;                         /* there is one */
};

/* ---- lock.c, lock_pin.c ---- */
/* The document is a lock: *doc becomes the spec in it, and what the lock says besides is in l. -1 after faults. */
int lock_open(struct load *l, struct doc **doc, const char *real_path, struct error *err);
void lock_put_cluster(struct load *l); /* after --set and --on */
const char *lock_origin(struct load *l);
/* Of a spec that is held to the lock beside it: faults for what differs. Then packages and outputs as the lock has
 * them. */
void lock_hold(struct load *l);
void lock_pin(struct load *l);

/* ---- stages, in the order of spec_load ---- */
void overrides_apply(struct load *l);                                   /* --set, then --on, into the tree */
void schema_check(struct load *l);                                      /* against the embedded schema */
void schema_check_cluster(struct load *l, const struct doc_node *node); /* a cluster file's root */
/* elsewhere.c: hints for what the schema found in the document, from diagnostics[first] on. */
void elsewhere_hint(const struct doc_node *root, struct diagnostics *diagnostics, size_t first);
void params_bind(struct load *l);
void sweep_bind(struct load *l);  /* the points; needs params alone */
void sweep_refuse(struct load *l); /* sweep_alone.c: keys that do not go with a sweep */
void sweep_check(struct load *l); /* what crosses keys: best, per_node */
void roles_bind(struct load *l); /* names and counts of roles, and what each has of its own */
void env_bind(struct load *l);   /* spec.env, entrypoint.env */
void secrets_bind(struct load *l);
void preflight_bind(struct load *l, const struct doc_node *distributed, struct spec_preflight *ret);
uint64_t size_bytes(const char *text);
struct doc_node *size_node(struct arena *a, uint64_t n, uint64_t larger, const char *unit, const char *otherwise);
struct doc_node *preflight_node(struct arena *a, const struct spec_preflight *p); /* for spec_normalise */
void distributed_bind(struct load *l);                                            /* counts and launcher */
void clusters_bind(struct load *l);                                               /* hosts and nnodes */
void roles_bind_nodes(struct load *l); /* where roles may be, then roles_place */
void roles_place(struct load *l);      /* placement.c */
void sources_bind(struct load *l);     /* workdir and files */
void python_bind(struct load *l);
void setup_bind(struct load *l); /* packages, requirements and setup, activate */
void entrypoint_bind(struct load *l);
void roles_bind_programs(struct load *l); /* all else of roles, then roles_check */
void roles_check(struct load *l);         /* roles_rules.c */
void require_bind(struct load *l);        /* require.c */
void outputs_bind(struct load *l);
void ports_bind(struct load *l);
struct doc_node *ports_node(struct arena *a, const struct spec *spec); /* normalised */
void distributed_bind_flags(struct load *l); /* what goes to the launcher; then distributed_check */
void distributed_check(struct load *l);      /* distributed_rules.c */
void failure_rules_bind(struct load *l);     /* failure_rules and metrics; needs roles and distributed */
void rules_check(struct load *l);            /* what crosses keys */
/* here.c: what `thorough` asks for; nothing without it. */
void here_check(struct load *l);
void here_check_ssh_file(struct load *l, const char *key, struct place place, const char *written, const char *path);
const struct doc_node *spec_normalise(const struct load *l);
/* The git remote and the path in the repository ("https://host/x.git#jobs/a.yaml"), else real_path itself. */
const char *origin_find(const char *real_path, struct arena *arena);

/* ---- params and sweep ---- */
/* The param of that name, by its key; SIZE_MAX: there is none. */
size_t param_index(const struct load *l, const char *name);
/* Whether the value, written as it is, is one of the param's; a fault where not. */
bool param_takes(struct load *l, size_t param, const struct doc_node *value);
/* A value as JSON in its one spelling: what makes two values the same. */
const char *param_canonical(enum spec_type type, const char *value, struct arena *arena);
void sweep_mark(struct load *l); /* sets `swept`, before -p is taken in */

struct sweep_row { /* a point to be */
    const struct doc_node **values; /* by swept param; NULL: its default */
    const char *name;               /* given, or NULL */
    bool out;                       /* exclude takes it away */
    struct place place;
};
struct sweep_rows {
    struct load *l;
    const struct doc_node *node; /* sweep */
    size_t *params;              /* of the swept ones, ascending */
    size_t count;                /* of params */
    struct sweep_row *rows;
    size_t row_count, cap;
    bool own; /* it is the one that -p alone makes */
};
struct sweep_row *sweep_row_add(struct sweep_rows *s, struct place place);
size_t sweep_slot(const struct sweep_rows *s, const char *param); /* in values; SIZE_MAX: it is no param */
/* Each adds its rows; faults where it cannot. */
void sweep_matrix(struct sweep_rows *s);
void sweep_list(struct sweep_rows *s);
void sweep_random(struct sweep_rows *s);
/* The rows as points, equal ones once; without variants. false after a fault. */
bool sweep_points(struct sweep_rows *s, struct spec_point **ret, size_t *ret_count);
/* The id of a job's params, as a point has it. */
const char *params_id(const struct spec_param *params, size_t count, struct arena *arena);
/* For spec_normalise. */
struct doc_node *sweep_normalise(const struct load *l);

/* ---- small readers ---- */
struct diagnostic *fault(struct load *l, struct place place, const char *fmt, ...) FORMAT(3, 4);
void note(struct load *l, struct place place, const char *fmt, ...) FORMAT(3, 4);
struct place place_of(const struct doc_node *node); /* where written; an alias counts as where it stands */
bool is_scalar(const struct doc_node *node);        /* string, number or boolean */
bool is_object(const struct doc_node *node);
bool is_array(const struct doc_node *node);
void duration_of(struct load *l, const struct doc_node *object, const char *key,
                 uint64_t *ret_ms); /* unchanged when not given */
/* Where line:column of a source begins, or NULL; a place moved on over text. */
const char *source_byte(const struct source *source, uint32_t line, uint32_t column);
void place_advance(struct place *place, const char *from, const char *to);
/* Bytes [at, end) of an option's text, which becomes a source of that name. */
struct place option_place(struct load *l, const char *name, const char *text, size_t at, size_t end);
struct spec_text text_of(const struct doc_node *node); /* {NULL} unless a scalar */
bool nproc_of(const struct doc_node *node, struct spec_nproc *ret);
enum { SPEC_DEVICES_MAX = 1024 };
struct spec_devices devices_of(struct load *l, const struct doc_node *node); /* list NULL when there are none */
/* A path on this machine: "~/" is HOME, else relative to dir. */
const char *path_here(const struct load *l, const char *dir, const char *path);
/* A fault where something is at path that is neither a file nor /dev/null: a FIFO would be waited for. */
void file_check(struct load *l, struct place place, const char *path);
bool name_is_valid(const char *name); /* as $defs/name of the schema */
/* Texts with their expressions checked (texts_of) or expanded now (text_now, texts_now; an item that cannot be is left
 * out, after a fault). A single text is a list of one; with split its words are, as shlex splits them. */
struct expr_rules;
extern const struct expr_rules on_node; /* what is known per node may be used */
extern const struct expr_rules on_node_at_point; /* and what differs between points */
struct spec_text checked(struct load *l, const struct doc_node *node, const struct expr_rules *rules, bool shell);
struct spec_text text_now(struct load *l, const struct doc_node *node);
struct spec_texts texts_now(struct load *l, const struct doc_node *node, bool split);
void texts_add(struct load *l, struct spec_texts *list, size_t *cap, struct spec_text text);
/* The hosts of a cluster: a name or a mapping. failed: after faults. */
struct host_entry { /* host and wish stand together there */
    struct spec_host host;
    struct spec_node wish;
};
struct host_list {
    struct host_entry *items;
    size_t count, cap;
    bool failed;
    const struct spec_rent *rent; /* they are placeholders for what this rents; NULL: they are hosts */
};
void hosts_of(struct load *l, const struct doc_node *node, struct host_list *ret);
bool container_bind(struct load *l, const struct doc_node *cluster, const struct spec_container **ret); /* false after a
                                                                                        fault; NULL: there is none */
/* Whether a cluster's mapping says what is to be rented. */
bool rent_is_wished(const struct doc_node *cluster);
/* The machines that it wishes, as placeholders; failed after faults. h: what all of them have. */
void rent_bind(struct load *l, const struct doc_node *cluster, const struct spec_host *h, struct host_list *ret);
/* Machines of another job's cluster, as placeholders. */
void rent_bind_cluster(struct load *l, const struct doc_node *name, struct host_list *ret);
/* any_of.c: the job's cluster and nnodes become those of the alternative that counts. */
void any_of_choose(struct load *l);
uint32_t any_of_nodes(const struct load *l, size_t i); /* machines of the i-th */
void any_of_normalise(struct arena *a, const struct spec_rent *r, struct doc_node *cluster);
void rent_put_wish(struct arena *a, const struct spec_rent *r, struct doc_node *to); /* instance to regions */
/* A cluster that rents nothing: faults where it says how. */
bool rent_check_none(struct load *l, const struct doc_node *cluster);
void rent_normalise(struct arena *a, const struct spec *spec, struct doc_node *cluster);
/* Takes what a cluster does not say out of its mapping: texts whose expressions come to nothing. */
void cluster_drop_empty(struct load *l, struct doc_node *cluster);
void rent_remove(struct doc_node *cluster); /* all keys of renting */
void hosts_check_twice(struct load *l, struct host_list *list, bool names); /* machines, or names */
/* `on` of set-up and `nodes` of outputs. */
void nodes_of(struct load *l, const struct doc_node *node, enum spec_on_kind *kind, uint32_t **nodes, size_t *count);
/* A node path that a user wrote: not out of the working directory by "..", no "~user". false after a fault. */
bool check_node_path(struct load *l, const struct spec_text *text, const char *key);
bool path_leaves(const char *path); /* relative, and a ".." leads out of where it starts */
/* A path, or a mapping with path or git. folder: it must be one. false after a fault. */
bool source_of(struct load *l, const struct doc_node *node, bool folder, struct spec_source *ret);
void check_repository(struct load *l, const struct spec_text *url, const struct spec_text *ref);
/* The name of a repository, by its URL: "apex". */
const char *repository_name(struct load *l, const char *url);
/* A fault where a URL has a user or a password in it, which a spec must not keep; hint says what to do instead. */
void refuse_credentials(struct load *l, const struct spec_text *text, const char *hint);
/* A name in the folder of path that is near to path's last part (folder: a folder's), or NULL. */
const char *near_path(struct load *l, const char *path, bool folder);
/* A short form of `packages`, or the text behind "pip:" and the like in an item of its own. false after a fault. */
bool package_of(struct load *l, const struct doc_node *node, struct spec_step *ret);
bool package_words(struct load *l, struct spec_step *s, const struct spec_text *text);
/* Neighbours of `packages` that pip installs in the same way are one command, so that it resolves them together. true:
 * the packages of s are those of `before` now, too. */
bool package_join(struct load *l, struct spec_step *before, const struct spec_step *s);
bool check_requirement(struct load *l, struct spec_text *text); /* "src/pkg" becomes "./src/pkg" */
/* Whether the text is one expression, `args`, and nothing else. */
bool is_args_item(const char *text);
/* positional and kwargs of a function; true when ${{ args }} stands in kwargs. Faults where there is no function. */
bool function_bind(struct load *l, struct spec_entrypoint *e, const struct doc_node *node,
                   const struct expr_rules *rules);
/* An entrypoint's program: its form, args, env, cwd and timeout; true when ${{ args }} stands in it. */
bool entrypoint_of(struct load *l, const struct doc_node *node, const struct expr_rules *rules,
                   struct spec_entrypoint *e);
uint32_t role_find(const struct spec *spec, const char *name); /* SPEC_NO_ROLE: there is none */
const struct doc_node *role_doc(const struct load *l, const struct spec_role *role);
/* A key's value: the role's own, else the top level's. role NULL: the top level's. */
const struct doc_node *role_value(const struct load *l, const struct spec_role *role, const char *key);
/* Mappings merge, everything else replaces. */
void merge_over(struct load *l, struct doc_node *into, const struct doc_node *over);
/* Faults where a list of nodes has one that the role has no workers on. */
void role_check_nodes(struct load *l, const struct spec_role *role, const struct doc_node *list);
/* Of an item's list of nodes, taken from the top level, those that the role is on; false: none is, so the item is not
 * for it. */
bool role_keep_nodes(struct load *l, const struct spec_role *role, struct spec_step *s);
void role_check_parts(struct load *l); /* what roles that share a node must not share */
/* What a role's step is called: "ROLE:NAME"; role NULL: name itself. */
const char *role_step_name(struct load *l, const struct spec_role *role, const char *name);
struct spec_env *env_list(struct load *l, const struct doc_node *object, size_t *ret_count);

/* Which names an expression at some place may use. */
enum expr_scope { SCOPE_LOAD, SCOPE_NODE, SCOPE_RANK };
struct expr_rules {
    enum expr_scope scope;
    bool no_env;        /* values of `env` themselves */
    bool peer;          /* the workers have a peer */
    bool role;          /* `role` is known, though no worker is meant */
    bool no_world;      /* the workers have a role and no rank */
    bool args;          /* `args` may stand alone in an item */
    bool args_in_shell; /* `args` may stand in shell text */
    bool point;         /* it is per launch: swept params and `point` are known */
    size_t first;       /* how many "${{" of the same value stand before this text */
};
/* Checks all expressions of text at load time: syntax, unknown names, names that are not known there, with places.
 * shell: also that every value can be inserted safely. */
void expr_check_rules(const struct spec_text *text, const struct spec *spec, const struct expr_rules *rules, bool shell,
                      struct diagnostics *diagnostics);
/* Expands at load time; NULL after a fault was added. */
const char *expand_now(struct load *l, const struct spec_text *text);

/* ---- shlex ---- */
/* Splits as Python's shlex.split does; a ${{ }} is copied as it stands and never split. -1 and err. */
int shlex_split(const char *text, struct arena *arena, const char ***ret_words, size_t *ret_count, struct error *err);
/* The length of the expression that begins at text ("${{"), to behind its "}}"; 0 when nothing closes it. */
size_t expr_span(const char *text);

/* ---- expressions ---- */
enum expr_op {
    OP_LITERAL,
    OP_NAME,
    OP_NOT,
    OP_NEGATE,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_AND,
    OP_OR,
    OP_IF,
    OP_DIRNAME,
    OP_BASENAME,
};
enum value_type { VALUE_INTEGER, VALUE_BOOLEAN, VALUE_STRING, VALUE_NUMBER };
struct expr_value {
    enum value_type type;
    int64_t integer;  /* VALUE_INTEGER, VALUE_BOOLEAN */
    const char *text; /* VALUE_STRING, VALUE_NUMBER */
};
enum expr_name {
    NAME_PARAM,
    NAME_ENV,
    NAME_ARGS,
    NAME_JOB_NAME,
    NAME_RUN_ID,
    NAME_NODE_RANK,
    NAME_NODE_NAME,
    NAME_NODE_ADDRESS,
    NAME_NNODES,
    NAME_RANK,
    NAME_LOCAL_RANK,
    NAME_WORLD_SIZE,
    NAME_LOCAL_WORLD_SIZE,
    NAME_ROLE,
    NAME_ROLE_RANK,
    NAME_ROLE_SIZE,
    NAME_PEER_RANK,
    NAME_PEER_ADDRESS,
    NAME_POINT,
    NAME_POINT_ID,
    NAME_POINT_INDEX,
    NAME_POINT_DIR,
    NAME_ROLE_COUNT,
    NAME_ROLE_ADDRESS,
    NAME_UNKNOWN,
};
struct expr {
    enum expr_op op;
    const struct expr *a, *b, *c;
    struct expr_value literal;
    enum expr_name name;
    const char *whole;  /* OP_NAME: "params.x" */
    const char *member; /* OP_NAME: "x", or NULL */
    size_t at, end;     /* bytes from the beginning of the parsed text */
};
struct expr_fault {
    size_t at, end;  /* bytes from the beginning of the parsed text */
    bool arithmetic; /* depends on the values, not on the types */
    char text[256];
    char hint[256];
};
/* text begins behind "${{"; *ret_used is the length to behind "}}". NULL and fault. */
const struct expr *expr_parse(const char *text, struct arena *arena, size_t *ret_used, struct expr_fault *fault);
enum expr_name expr_name_find(const char *whole, const char *member);
/* The R and the i of "roles.R.count" and "roles.R.nodes[i].address". */
const char *expr_role_of(const char *whole, struct arena *arena, uint32_t *ret_index);
enum expr_scope expr_name_scope(enum expr_name name);
/* in_env: below an env value, where env itself is not known. */
enum expr_status expr_eval(const struct expr *e, const struct expr_context *ctx, bool in_env, struct arena *arena,
                           struct expr_value *ret, struct expr_fault *fault);
/* Whether a name in it differs between the points of the sweep. */
bool expr_differs(const struct spec *spec, const struct expr *e);
const char *expr_value_text(const struct expr_value *value, struct arena *arena);
/* The value of a name, with env values expanded. */
enum expr_status expr_lookup(const struct expr *e, const struct expr_context *ctx, bool in_env, struct arena *arena,
                             struct expr_value *ret, struct expr_fault *fault);

/* ---- the shell text around an expression ---- */
enum { SHELL_DEPTH_MAX = 64, SHELL_HEREDOCS_MAX = 8, SHELL_DELIMITER_MAX = 64 };
enum shell_state {
    SHELL_TOP,
    SHELL_PAREN,
    SHELL_ARITHMETIC,
    SHELL_BRACE,
    SHELL_BACKTICK,
    SHELL_SINGLE,
    SHELL_DOUBLE,
    SHELL_DOLLAR_SINGLE
};
struct shell_heredoc {
    char delimiter[SHELL_DELIMITER_MAX];
    bool strip_tabs;
};
struct shell_tracker {
    enum shell_state stack[SHELL_DEPTH_MAX];
    unsigned parens[SHELL_DEPTH_MAX]; /* SHELL_ARITHMETIC: open "(" inside */
    unsigned depth;
    bool comment;
    bool escaped; /* a backslash stands right before */
    bool dollar;  /* a $ stands right before */
    bool name;    /* a $NAME without braces stands right before: what follows must not become part of that name */
    bool word_start;
    bool unsure;  /* the quoting cannot be told for certain from here on */
    char word[8]; /* the unquoted word so far, to see `case` */
    unsigned word_len;
    struct shell_heredoc heredocs[SHELL_HEREDOCS_MAX];
    unsigned heredoc_count;
    bool in_heredoc;
    char line[SHELL_DELIMITER_MAX]; /* of the here-document, so far; cut */
    size_t line_len;
};
void shell_begin(struct shell_tracker *t);
void shell_feed(struct shell_tracker *t, const char *text, size_t len);
/* NULL when any value can stand here as data; else why not. A value of digits can stand more often. */
const char *shell_refuses(const struct shell_tracker *t, const char *value);
/* Appends value so that the shell reads it as data; next is the character behind the expression. */
void shell_insert(struct shell_tracker *t, const char *value, char next, struct buf *out);

#endif
