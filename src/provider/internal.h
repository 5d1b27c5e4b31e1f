/* Private to provider: the compiled file, templates, and the reading of replies. */
#ifndef PROVIDER_INTERNAL_H
#define PROVIDER_INTERNAL_H

#include "rhrun/provider.h"

#define BODY_MAX (1u << 20)
#define URL_MAX 8192u
#define TEXT_MAX 4096u /* of one extracted text */
#define FILE_MAX (1u << 20)

enum body_kind { BODY_JSON, BODY_XML, BODY_LINES };

struct error_rule {
    const struct doc_node *node;
    struct regex *code, *text; /* NULL: not asked */
};
struct rules {
    struct error_rule *items;
    size_t count;
};
struct step {
    const struct doc_node *node;
    const char *method;            /* "POST" */
    const struct doc_node *path;   /* the template */
    enum body_kind reply;
    struct rules errors;
    struct regex *accelerator_pattern; /* of offers; NULL: there is none */
};
struct operation {
    struct step steps[PROVIDER_STEPS_MAX];
    size_t count;
};
struct provider {
    const struct doc_node *root;
    struct provider_facts facts;
    struct operation operations[PROVIDER_OPERATIONS];
    struct rules errors;
    struct regex *name_pattern; /* NULL: there is none */
    const char *base, *socket;  /* from the file, or from the environment instead; base NULL with a socket */
    bool override;              /* base is from the environment */
};

struct provider_credentials {
    struct arena *arena;
    const char *source;
    const struct doc_node *auth; /* of the file or the source; belongs to the provider */
    struct doc_node *values;     /* an object of strings */
    const struct doc_node *public_names;
    bool passing; /* they expire, and new ones of the same account follow */
};

/* ---- facts.c: tables of words, and the file's plain values ---- */
extern const char *const class_names[], *const scope_names[];
int word_index(const char *const *words, const char *word); /* -1: none */
void facts_read(struct provider *p);
bool notice_read(struct provider *p, struct arena *arena, struct diagnostics *d); /* notice.c; false: a fault */
uint64_t duration_ms(const struct doc_node *node, uint64_t otherwise);

/* ---- check.c: rules that no schema can express ---- */
bool provider_check(const struct provider *p, struct diagnostics *d);
/* A list of steps: an operation that is not a list is its only step. */
const struct doc_node *one_of_many(const struct doc_node *node, size_t at);
size_t many_count(const struct doc_node *node);

/* ---- template.c ---- */
enum filter { FILTER_B64, FILTER_GZIP, FILTER_SHA256, FILTER_TRUNC, FILTER_LABEL_SAFE, FILTER_JSON };
struct piece { /* of a template's text: literal, or an input */
    const char *text;
    size_t len;
    char name[32]; /* "": a literal */
    bool optional; /* ${name?} */
    size_t filter_count;
    struct {
        enum filter filter;
        uint32_t max; /* trunc */
    } filters[4];
};
/* The next piece from *at: 1, 0 at the end, -1 with what is wrong. */
int piece_next(const char **at, const char *end, struct piece *ret, char fault[160]);

struct filling { /* the values for templates */
    const struct provider *provider;
    const struct provider_ask *ask;
    struct arena *arena;
    struct error *err;
};
const struct doc_node *input_find(const struct filling *f, const char *name); /* NULL: absent, null or "" */
bool input_given(const struct filling *f, const char *name);                  /* and not false */
/* 0 and the value, or NULL if it is left out; -1 and err. */
int template_fill(const struct filling *f, const struct doc_node *node, struct doc_node **ret);
void filter_label_safe(struct buf *value);
/* The text of one piece, with filters applied: 0; 1: it is left out; -1. */
int piece_text(const struct filling *f, const struct piece *piece, struct buf *ret);

/* ---- encode.c ---- */
void encode_percent(struct buf *out, const char *text, size_t len);
bool text_is_utf8(const char *text, size_t len);
/* NAME.1.KEY=value&... ; containers flattened. */
int encode_form(const struct doc_node *object, struct buf *out, struct error *err);
int encode_query(const struct doc_node *object, struct buf *out, struct error *err);
bool node_is_utf8(const struct doc_node *node);
void base64_append(struct buf *out, const void *data, size_t len, bool url);

/* ---- url.c ---- */
int url_build(const struct filling *f, const struct step *step, const struct doc_node *query, struct buf *url);
/* Whether url has the same scheme, host and port as base. */
bool url_same_origin(const char *base, const char *url);
const char *url_base(const struct filling *f); /* base with its inputs; NULL and err */

/* ---- xml.c: the only user of libxml2 ---- */
struct xml;
int xml_open(struct error *err); /* loads libxml2, once; the other functions do so themselves, and fail if it is not
                                    installed */
struct xml *xml_parse(const char *text, size_t len); /* NULL: not XML, or refused */
void xml_free(struct xml *x);
void *xml_root(struct xml *x);
bool xml_path_good(const char *path);
/* The text of the first node that matches the path from `at`; NULL: none, or empty. */
const char *xml_text(struct xml *x, void *at, const char *path, struct arena *arena);
size_t xml_nodes(struct xml *x, void *at, const char *path, void **ret, size_t max); /* SIZE_MAX: more than max */

/* ---- extract.c ---- */
struct answer { /* a reply's body, read */
    const struct filling *fill;
    const struct provider_reply *reply;
    struct arena *arena;
    enum body_kind kind;
    const struct doc_node *json; /* JSON and lines; NULL: none */
    struct xml *xml;             /* XML; NULL: none */
};
struct spot { /* the start of paths */
    const struct doc_node *json;
    void *xml;
};
bool answer_read(struct answer *a); /* false: the body is not in its format */
void answer_free(struct answer *a);
struct spot answer_top(const struct answer *a);
const struct doc_node *extract_node(const struct answer *a, const struct doc_node *how, struct spot spot);
const char *extract_text(const struct answer *a, const struct doc_node *how, struct spot spot); /* never "" */
bool predicate_holds(const struct answer *a, const struct doc_node *predicate);
/* Whether the item meets `where` and `has` of a search (or of offers). */
bool item_fits(const struct answer *a, const struct doc_node *how, const struct doc_node *item);
const char *reply_header(const struct provider_reply *reply, const char *name);

/* ---- machines.c ---- */
/* NULL, or what is wrong with them. */
const char *machines_read(const struct answer *a, const struct step *step, struct provider_result *result);
/* False: the next page is on another host. */
bool page_read(const struct answer *a, const struct doc_node *page, struct provider_result *result);

/* ---- offers.c ---- */
const char *offers_read(const struct answer *a, const struct step *step, struct provider_result *result); /* likewise */

/* ---- errors.c ---- */
void error_judge(const struct answer *a, const struct step *step, struct provider_result *result);
uint64_t retry_after_ms(const struct answer *a);
int rules_compile(const struct doc_node *list, struct arena *arena, struct rules *ret, struct diagnostics *d);
void rules_free(struct rules *rules);

/* ---- credentials.c, ini.c ---- */
const char *credential_value(const struct provider_credentials *c, const char *name); /* NULL: none */
void redact_text(char *text, const char *secret); /* secret may be NULL; a short one stays */
struct ini_want {
    const char *section;      /* "": before all sections */
    const char *select, *by;  /* NULL: the first section of that name */
};
/* The value in the arena, or NULL. */
const char *ini_find(const char *text, size_t len, const struct ini_want *want, const char *key, struct arena *arena);

#endif
