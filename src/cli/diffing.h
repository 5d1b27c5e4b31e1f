/*
 * The parts of `rhrun diff`: diff_doc.c compares two trees of values, diff_side.c reads a run or a lock, diff_show.c
 * prints, cmd_diff.c decides what is compared.
 */
#ifndef RHRUN_CLI_DIFFING_H
#define RHRUN_CLI_DIFFING_H

#include "internal.h"
#include "rhrun/doc.h"

struct diff_row {
    const char *path;               /* "entrypoint.args[1]" */
    const struct doc_node *a, *b;   /* NULL: absent on that side */
};
struct diff_rows {
    struct arena *arena;
    struct diff_row *items;
    size_t count, cap;
};
void diff_add(struct diff_rows *rows, const char *path, const struct doc_node *a, const struct doc_node *b);
/* Adds the differences at and below two values (NULL: absent), each row as deep as possible. Items of two lists are
 * paired by their `node` or `name` if all have one, else by equality. */
void diff_docs(struct diff_rows *rows, const char *path, const struct doc_node *a, const struct doc_node *b);

struct diff_side {
    const char *word;              /* as the user named it */
    const struct doc_node *lock;   /* schema/lock.schema.json */
    bool is_run;                   /* else the file of a lock, which has no outcome */
    struct journal *journal;       /* of its job; NULL: not on this machine */
    struct tree_store *store;      /* NULL: likewise */
    struct doc_node *metrics, *results, *durations; /* by name; of a run */
};
int diff_side_open(struct cli *c, const char *word, struct diff_side *ret, struct error *err);
void diff_side_close(struct diff_side *s); /* takes a zeroed one */

struct diff_file {
    const struct tree_change *change;
    const char *text;  /* as git diff writes it */
    const char *fault; /* why its content cannot be shown; NULL: it can */
};
struct diff_tree {
    const char *name;      /* "workdir" */
    const char *a, *b;     /* ids; NULL: none */
    bool has_a, has_b;     /* a store here has all of it; both true: files are known */
    struct diff_file *files;
    size_t count;
};
struct diff_section {
    const char *name;
    struct diff_rows rows;
};
enum { DIFF_SECTIONS_MAX = 12 };
struct diff {
    const struct diff_side *a, *b;
    struct diff_section sections[DIFF_SECTIONS_MAX];
    size_t section_count;
    struct diff_tree *trees;
    size_t tree_count;
    const struct doc_node *durations_a, *durations_b;
    bool differs; /* durations do not count */
};
void diff_put_text(const struct cli *c, const struct diff *d, struct buf *ret);
void diff_put_json(const struct diff *d, struct buf *ret);

#endif
