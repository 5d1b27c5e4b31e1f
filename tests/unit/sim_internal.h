/* Shared by sim_node.c and sim_ledger.c (the agent) and sim_net.c (the net and events by themselves). */
#ifndef RHRUN_TEST_SIM_INTERNAL_H
#define RHRUN_TEST_SIM_INTERNAL_H

#include "sim_node.h"

struct attempt {
    struct node_sim *node;
    struct wire_record record; /* strings are this attempt's own */
    bool settled;
    struct sim_program program;
    uint32_t turns_left;
    bool stopping;
    bool preempted; /* the machine told it to end: that is its cause, even if it is stopped later */
    bool ends;     /* failed workers are reported at once */
    bool spared;   /* its last worker has failed, and the others continued */
    uint32_t rank; /* of its first worker */
    struct wire_worker_end workers[2];
    struct buf spool;
};
struct sim_file { /* of a tree that was sent, or made by the job */
    char *path; /* in a tree: below its root; else absolute */
    char *target; /* of a link that the job made */
    uint8_t oid[WIRE_OID_SIZE];
    uint32_t mode;
    uint64_t size, mtime_ns, inode;
    const struct node_sim *writer; /* the node that has it in memory until it is settled */
    bool settled, changed, torn; /* changed: its stat data differ; torn: the power failed before it was on the disk */
};
struct sim_part {
    uint8_t oid[WIRE_OID_SIZE];
    uint64_t size;
};
struct sim_node_tree { /* the agent's index of a tree */
    struct sim_node_tree *next;
    char *name;
    char id[41];
    struct sim_file *files;
    size_t file_count;
    struct sim_part *parts;
    size_t part_count;
};
struct sim_sync { /* of a connection */
    struct attempt *attempt;
    struct sim_node_tree *tree;
    char id[41];
    bool missing, busy; /* busy: in the middle of a file */
    struct sim_file file;
    uint64_t at;
};
struct sub { /* an attached attempt */
    struct attempt *attempt;
    uint64_t offset;
};
struct peer {
    struct peer *next;
    struct node_sim *node;
    struct transport *transport;
    struct buf in;
    bool greeted, held, reads, dead, frozen;
    uint64_t epoch;
    char variant[17];
    struct sub *subs;
    size_t sub_count;
    struct sim_sync sync;
};
struct node_sim {
    struct sim_net *net;
    uint32_t index;
    char install[WIRE_ID_LEN + 1], boot_id[WIRE_ID_LEN + 1], address[32];
    char *owner, *owner_name, *gone;
    uint64_t epoch;
    bool away;
    struct attempt **attempts;
    size_t attempt_count;
    struct peer *peers;
    struct node_sim *home; /* the node whose home directory it uses */
    struct sim_node_tree *trees;
    struct sim_file *made; /* by the job */
    size_t made_count;
    uint64_t room; /* bytes that still fit on the disk */
};
struct sim_net {
    struct loop *loop;
    struct sim_script script;
    struct node_sim *nodes;
    uint32_t node_count;
    struct sim_start *starts;
    size_t start_count, start_cap;
    struct attempt **live;
    size_t live_count, live_cap;
    struct loop_timer *turn;
    uint64_t got_bytes;  /* sent in DATA */
    uint64_t file_bytes; /* received in FILE and FILE_DATA */
    uint64_t last_inode;
    struct arena *scratch;
    uint64_t clock; /* strictly increasing, so that claims have an order */
    uint32_t frames[WIRE_PROBED + 1];
    bool cut;
};

void *sim_peer_open(void *script, uint32_t index, const char *name, struct transport *t, struct error *err,
                    enum transport_phase *ret_phase);
void sim_peer_received(void *peer, const uint8_t *data, size_t len);
void sim_peer_close(void *peer);
void sim_peer_end(struct peer *p, const char *text); /* closes the node's end of the connection */
/* sim_ledger.c */
void sim_on_turn(void *net);
void sim_program_ends(struct attempt *a); /* by itself, as scripted */
void sim_arm(struct sim_net *net); /* turns continue while a program runs that ends by itself */
struct attempt *sim_find_live(const struct node_sim *node, const char *slot); /* NULL: any slot */
void sim_remove_at(struct node_sim *node, size_t i);
void sim_end_attempt(struct attempt *a, enum wire_state state, enum wire_cause cause, int32_t value);
struct attempt *sim_find(const struct node_sim *node, const char *attempt);
struct attempt *sim_start_attempt(struct peer *p, const struct wire_run *run);
/* sim_node.c */
void sim_publish(struct attempt *a); /* to all who are attached */
void sim_send_frame(struct peer *p, struct buf *frame);
void sim_send_record(struct peer *p, enum wire_type type, const struct attempt *a);
void sim_send_text(struct peer *p, enum wire_type type, const char *a, const char *b, const char *c);
void sim_attach(struct peer *p, struct attempt *a, uint64_t offset);
/* sim_files.c */
void sim_on_transfer(struct peer *p, enum wire_type type, struct wire_in *in);
bool sim_tree_holds(const struct node_sim *node, const char *name, const char *id);
void sim_sync_lost(struct peer *p);
void sim_files_reboot(struct node_sim *node, uint64_t vanish);
void sim_files_settle(struct node_sim *node);
void sim_files_free(struct node_sim *node);
void sim_replace(char **text, const char *by);

#endif
