/* scan.c: JSON text, token by token. All that can fail return -1 and say in err what was expected at which byte. */
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
bool scan_word(struct scan *s, const char *text); /* true, and past it, when it comes next */
int scan_string(struct scan *s, const char **ret);
int scan_integer(struct scan *s, int64_t min, int64_t max, int64_t *ret);
int scan_skip(struct scan *s); /* a value of any kind */
/* What stands between the quotes of the key that comes next, escapes as they are; s stays before it. */
int scan_peek_key(struct scan *s, const char **ret, size_t *ret_len);

static inline void scan_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

/* True, and past it, when c comes next. */
static inline bool scan_take(struct scan *s, char c)
{
    scan_blanks(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

#endif
