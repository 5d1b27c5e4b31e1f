/*
 * Private to spec: code shared by the stages of spec_load, and the parts of the expression language.
 *
 * Each stage reads the document tolerantly: the schema has reported values of the wrong type, so a stage skips them
 * silently and goes on. So one run reports the faults of all stages.
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
        96 << 10, /* a function's arguments as JSON: they travel in one variable, which Linux limits to 128 KiB */
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
    const struct doc_node *nnodes; /* distributed.nnodes if it is a number or MIN:MAX, or NULL */
    bool hosts_failed;             /* counts cannot be checked against hosts */
    const struct doc_node *any_of; /* of the job's cluster; NULL: there is none */
    const struct doc_node **alternatives; /* the job's cluster with each applied */
    uint32_t alternative;                 /* the chosen one, from 1 */
    uint32_t any_nodes;                   /* of alternatives without nnodes */
    const struct doc_node **chosen;       /* by param: the value of -p for a swept param, or NULL */
    bool chooses;                         /* chosen has a value */
};

/* ---- lock.c, lock_pin.c ---- */
/* For a document that is a lock: *doc becomes the spec in it, and the rest of the lock goes into l. -1 after faults. */
int lock_open(struct load *l, struct doc **doc, const char *real_path, struct error *err);
void lock_put_cluster(struct load *l); /* after --set and --on */
const char *lock_origin(struct load *l);
/* For a spec with a lock beside it: reports differences as faults, then takes packages and outputs from the lock. */
void lock_hold(struct load *l);
void lock_pin(struct load *l);

/* ---- stages, in the order of spec_load ---- */
void overrides_apply(struct load *l);                                   /* --set, then --on, into the tree */
void schema_check(struct load *l);                                      /* against the embedded schema */
void schema_check_cluster(struct load *l, const struct doc_node *node); /* a cluster file's root */
/* elsewhere.c: hints for the schema's faults, from diagnostics[first] on. */
void elsewhere_hint(const struct doc_node *root, struct diagnostics *diagnostics, size_t first);
void params_bind(struct load *l);
void sweep_bind(struct load *l);  /* the points; needs params alone */
void sweep_refuse(struct load *l); /* sweep_alone.c: keys that do not go with a sweep */
void sweep_check(struct load *l); /* rules across keys: best, per_node */
void roles_bind(struct load *l); /* names and counts of roles, and which parts each has of its own */
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
void roles_bind_programs(struct load *l); /* the rest of roles, then roles_check */
void roles_check(struct load *l);         /* roles_rules.c */
void require_bind(struct load *l);        /* require.c */
void outputs_bind(struct load *l);
void ports_bind(struct load *l);
struct doc_node *ports_node(struct arena *a, const struct spec *spec); /* normalised */
void distributed_bind_flags(struct load *l); /* the launcher's flags; then distributed_check */
void distributed_check(struct load *l);      /* distributed_rules.c */
void failure_rules_bind(struct load *l);     /* failure_rules and metrics; needs roles and distributed */
void rules_check(struct load *l);            /* what crosses keys */
/* here.c: the checks of `thorough`; does nothing without it. */
void here_check(struct load *l);
void here_check_ssh_file(struct load *l, const char *key, struct place place, const char *written, const char *path);
const struct doc_node *spec_normalise(const struct load *l);
/* The git remote and the path in the repository ("https://host/x.git#jobs/a.yaml"), else real_path itself. */
const char *origin_find(const char *real_path, struct arena *arena);

/* ---- params and sweep ---- */
/* The index of the param with this name; SIZE_MAX: there is none. */
size_t param_index(const struct load *l, const char *name);
/* Whether the param accepts the value as written; adds a fault if not. */
bool param_takes(struct load *l, size_t param, const struct doc_node *value);
/* A value as canonical JSON: equal values have equal texts. */
const char *param_canonical(enum spec_type type, const char *value, struct arena *arena);
void sweep_mark(struct load *l); /* sets `swept`, before -p is read */

struct sweep_row { /* a future point */
    const struct doc_node **values; /* by swept param; NULL: its default */
    const char *name;               /* given, or NULL */
    bool out;                       /* exclude removes it */
    struct place place;
};
struct sweep_rows {
    struct load *l;
    const struct doc_node *node; /* sweep */
    size_t *params;              /* indices of the swept params, ascending */
    size_t count;                /* of params */
    struct sweep_row *rows;
    size_t row_count, cap;
    bool own; /* its only row is made by -p alone */
};
struct sweep_row *sweep_row_add(struct sweep_rows *s, struct place place);
size_t sweep_slot(const struct sweep_rows *s, const char *param); /* index in values; SIZE_MAX: it is no param */
/* Each adds its rows, or faults. */
void sweep_matrix(struct sweep_rows *s);
void sweep_list(struct sweep_rows *s);
void sweep_random(struct sweep_rows *s);
/* The rows as points, each distinct one once, without variants. false after a fault. */
bool sweep_points(struct sweep_rows *s, struct spec_point **ret, size_t *ret_count);
/* The id of a job's params, as for a point. */
const char *params_id(const struct spec_param *params, size_t count, struct arena *arena);
/* For spec_normalise. */
struct doc_node *sweep_normalise(const struct load *l);

/* ---- small readers ---- */
struct diagnostic *fault(struct load *l, struct place place, const char *fmt, ...) FORMAT(3, 4);
void note(struct load *l, struct place place, const char *fmt, ...) FORMAT(3, 4);
struct place place_of(const struct doc_node *node); /* where it is written; for an alias the alias's place */
bool is_scalar(const struct doc_node *node);        /* string, number or boolean */
bool is_object(const struct doc_node *node);
bool is_array(const struct doc_node *node);
void duration_of(struct load *l, const struct doc_node *object, const char *key,
                 uint64_t *ret_ms); /* unchanged when not given */
/* The byte at line:column of a source, or NULL; and a place advanced over text. */
const char *source_byte(const struct source *source, uint32_t line, uint32_t column);
void place_advance(struct place *place, const char *from, const char *to);
/* The place of bytes [at, end) in an option's text, which becomes a source with that name. */
struct place option_place(struct load *l, const char *name, const char *text, size_t at, size_t end);
struct spec_text text_of(const struct doc_node *node); /* {NULL} unless a scalar */
bool nproc_of(const struct doc_node *node, struct spec_nproc *ret);
enum { SPEC_DEVICES_MAX = 1024 };
struct spec_devices devices_of(struct load *l, const struct doc_node *node); /* list NULL when there are none */
/* A path on this machine: "~/" is HOME, else relative to dir. */
const char *path_here(const struct load *l, const char *dir, const char *path);
/* A fault if path is neither a file nor /dev/null: reading a FIFO would block. */
void file_check(struct load *l, struct place place, const char *path);
bool name_is_valid(const char *name); /* as $defs/name in the schema */
/* Texts with their expressions checked (texts_of) or expanded now (text_now, texts_now; an item that cannot be expanded
 * is left out, after a fault). A single text is a list of one; with split it is a list of its words, as shlex splits
 * them. */
struct expr_rules;
extern const struct expr_rules on_node; /* names known per node may be used */
extern const struct expr_rules on_node_at_point; /* and names that differ between points */
struct spec_text checked(struct load *l, const struct doc_node *node, const struct expr_rules *rules, bool shell);
struct spec_text text_now(struct load *l, const struct doc_node *node);
struct spec_texts texts_now(struct load *l, const struct doc_node *node, bool split);
void texts_add(struct load *l, struct spec_texts *list, size_t *cap, struct spec_text text);
/* The hosts of a cluster: a name or a mapping. failed: after faults. */
struct host_entry { /* host and wish are in one entry */
    struct spec_host host;
    struct spec_node wish;
};
struct host_list {
    struct host_entry *items;
    size_t count, cap;
    bool failed;
    const struct spec_rent *rent; /* the hosts are placeholders for this; NULL: real hosts */
};
void hosts_of(struct load *l, const struct doc_node *node, struct host_list *ret);
bool container_bind(struct load *l, const struct doc_node *cluster, const struct spec_container **ret); /* false after a
                                                                                        fault; NULL: there is none */
/* Whether a cluster's mapping wishes to rent machines. */
bool rent_is_wished(const struct doc_node *cluster);
/* The wished machines, as placeholders; failed after faults. h: values common to all. */
void rent_bind(struct load *l, const struct doc_node *cluster, const struct spec_host *h, struct host_list *ret);
/* Machines of another job's cluster, as placeholders. */
void rent_bind_cluster(struct load *l, const struct doc_node *name, struct host_list *ret);
/* any_of.c: the job's cluster and nnodes become those of the chosen alternative. */
void any_of_choose(struct load *l);
uint32_t any_of_nodes(const struct load *l, size_t i); /* machines of the i-th */
void any_of_normalise(struct arena *a, const struct spec_rent *r, struct doc_node *cluster);
void rent_put_wish(struct arena *a, const struct spec_rent *r, struct doc_node *to); /* instance to regions */
/* For a cluster that rents nothing: faults for keys of renting. */
bool rent_check_none(struct load *l, const struct doc_node *cluster);
void rent_normalise(struct arena *a, const struct spec *spec, struct doc_node *cluster);
/* Removes keys from a cluster's mapping whose expressions yield an empty text: they count as not given. */
void cluster_drop_empty(struct load *l, struct doc_node *cluster);
void rent_remove(struct doc_node *cluster); /* all keys of renting */
void hosts_check_twice(struct load *l, struct host_list *list, bool names); /* machines, or names */
/* `on` of set-up and `nodes` of outputs. */
void nodes_of(struct load *l, const struct doc_node *node, enum spec_on_kind *kind, uint32_t **nodes, size_t *count);
/* Checks a node path: it must not leave the working directory by "..", nor begin with "~user". false after a fault. */
bool check_node_path(struct load *l, const struct spec_text *text, const char *key);
bool path_leaves(const char *path); /* relative, and a ".." leads out of its base */
/* A path, or a mapping with path or git. folder: it must be a folder. false after a fault. */
bool source_of(struct load *l, const struct doc_node *node, bool folder, struct spec_source *ret);
void check_repository(struct load *l, const struct spec_text *url, const struct spec_text *ref);
/* The name of a repository, by its URL: "apex". */
const char *repository_name(struct load *l, const char *url);
/* A fault if a URL has a user or a password, which must not be in a spec; hint says what to do instead. */
void refuse_credentials(struct load *l, const struct spec_text *text, const char *hint);
/* A name in path's folder that is near to path's last part (folder: only names of folders), or NULL. */
const char *near_path(struct load *l, const char *path, bool folder);
/* A short form of `packages`, or the value of `pip` and the like in a mapping. false after a fault. */
bool package_of(struct load *l, const struct doc_node *node, struct spec_step *ret);
bool package_words(struct load *l, struct spec_step *s, const struct spec_text *text);
/* Neighbours in `packages` that pip installs in the same way become one command, so that pip resolves them together.
 * true: the packages of s were added to `before`. */
bool package_join(struct load *l, struct spec_step *before, const struct spec_step *s);
bool check_requirement(struct load *l, struct spec_text *text); /* "src/pkg" becomes "./src/pkg" */
/* Whether the text is exactly the expression `args`. */
bool is_args_item(const char *text);
/* positional and kwargs of a function; true if kwargs has ${{ args }}. Faults if there is no function. */
bool function_bind(struct load *l, struct spec_entrypoint *e, const struct doc_node *node,
                   const struct expr_rules *rules);
/* An entrypoint's program: its form, args, env, cwd and timeout; true if it has ${{ args }}. */
bool entrypoint_of(struct load *l, const struct doc_node *node, const struct expr_rules *rules,
                   struct spec_entrypoint *e);
uint32_t role_find(const struct spec *spec, const char *name); /* SPEC_NO_ROLE: there is none */
const struct doc_node *role_doc(const struct load *l, const struct spec_role *role);
/* A key's value: the role's, or else the top level's. role NULL: the top level's. */
const struct doc_node *role_value(const struct load *l, const struct spec_role *role, const char *key);
/* Mappings merge, everything else replaces. */
void merge_over(struct load *l, struct doc_node *into, const struct doc_node *over);
/* Faults for nodes in a list on which the role has no workers. */
void role_check_nodes(struct load *l, const struct spec_role *role, const struct doc_node *list);
/* Reduces an item's list of nodes, copied from the top level, to the role's nodes; false: none is left, so the item is
 * not for the role. */
bool role_keep_nodes(struct load *l, const struct spec_role *role, struct spec_step *s);
void role_check_parts(struct load *l); /* checks that roles on one node do not share what they must not */
/* The name of a role's step: "ROLE:NAME"; role NULL: name itself. */
const char *role_step_name(struct load *l, const struct spec_role *role, const char *name);
struct spec_env *env_list(struct load *l, const struct doc_node *object, size_t *ret_count);

/* The names that an expression may use in a place. */
enum expr_scope { SCOPE_LOAD, SCOPE_NODE, SCOPE_RANK };
struct expr_rules {
    enum expr_scope scope;
    bool no_env;        /* the place is a value of `env` */
    bool peer;          /* the workers have a peer */
    bool role;          /* `role` is known, although there is no worker */
    bool no_world;      /* the workers have a role and no rank */
    bool args;          /* `args` may stand alone in an item */
    bool args_in_shell; /* `args` may stand in shell text */
    bool point;         /* the place is per launch: swept params and `point` are known */
    size_t first;       /* how many "${{" of the same value come before this text */
};
/* Checks all expressions of text at load time: syntax, unknown names, names that the place does not allow; faults have
 * places. shell: also that every value can be inserted safely. */
void expr_check_rules(const struct spec_text *text, const struct spec *spec, const struct expr_rules *rules, bool shell,
                      struct diagnostics *diagnostics);
/* Expands at load time; NULL after a fault was added. */
const char *expand_now(struct load *l, const struct spec_text *text);

/* ---- shlex ---- */
/* Splits as Python's shlex.split does; a ${{ }} is copied unchanged and never split. -1 and err. */
int shlex_split(const char *text, struct arena *arena, const char ***ret_words, size_t *ret_count, struct error *err);
/* The length of the expression that begins at text ("${{"), up to after its "}}"; 0 if it is not closed. */
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
    bool arithmetic; /* the fault depends on the values, not on the types */
    char text[256];
    char hint[256];
};
/* text begins after "${{"; *ret_used is the length up to after "}}". NULL and fault. */
const struct expr *expr_parse(const char *text, struct arena *arena, size_t *ret_used, struct expr_fault *fault);
enum expr_name expr_name_find(const char *whole, const char *member);
/* The R and the i of "roles.R.count" and "roles.R.nodes[i].address". */
const char *expr_role_of(const char *whole, struct arena *arena, uint32_t *ret_index);
enum expr_scope expr_name_scope(enum expr_name name);
/* in_env: inside an env value, where env itself is not known. */
enum expr_status expr_eval(const struct expr *e, const struct expr_context *ctx, bool in_env, struct arena *arena,
                           struct expr_value *ret, struct expr_fault *fault);
/* Whether it has a name that differs between the points of the sweep. */
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
    bool escaped; /* preceded by a backslash */
    bool dollar;  /* preceded by a $ */
    bool name;    /* preceded by a $NAME without braces, whose name must not grow */
    bool word_start;
    bool unsure;  /* the quoting is uncertain from here on */
    char word[8]; /* the unquoted word so far, to detect `case` */
    unsigned word_len;
    struct shell_heredoc heredocs[SHELL_HEREDOCS_MAX];
    unsigned heredoc_count;
    bool in_heredoc;
    char line[SHELL_DELIMITER_MAX]; /* of the here-document, so far; cut */
    size_t line_len;
};
void shell_begin(struct shell_tracker *t);
void shell_feed(struct shell_tracker *t, const char *text, size_t len);
/* NULL if value can be inserted here as data; else why not. A value of only digits fits in more places. */
const char *shell_refuses(const struct shell_tracker *t, const char *value);
/* Appends value so that the shell reads it as data; next is the character after the expression. */
void shell_insert(struct shell_tracker *t, const char *value, char next, struct buf *out);

#endif
