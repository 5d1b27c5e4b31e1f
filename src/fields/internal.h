/* scan.c: JSON text, token by token. Functions that can fail return -1, and err says what was expected at which
 * byte. */
#ifndef RHRUN_FIELDS_INTERNAL_H
#define RHRUN_FIELDS_INTERNAL_H

#include "rhrun/fields.h"

struct scan {
    const char *at, *end, *start;
    const char *what;    /* for errors: "event" */
    struct arena *arena; /* where strings go */
    struct error *err;
};
int scan_fault(struct scan *s, const char *what); /* -1 */
int scan_expect(struct scan *s, char c);
bool scan_word(struct scan *s, const char *text); /* if text comes next: true, and s is moved past it */
int scan_string(struct scan *s, const char **ret);
int scan_integer(struct scan *s, int64_t min, int64_t max, int64_t *ret);
int scan_skip(struct scan *s); /* a value of any kind */
/* The raw text between the quotes of the next key, with its escapes; s does not move. */
int scan_peek_key(struct scan *s, const char **ret, size_t *ret_len);

static inline void scan_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

/* If c comes next: true, and s is moved past it. */
static inline bool scan_take(struct scan *s, char c)
{
    scan_blanks(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

#endif
