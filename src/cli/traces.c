/*
 * An error that many ranks share is shown once. The stderr lines of a worker from "Traceback" on are held until it is
 * quiet for a moment. Then the first traceback of its kind is printed; a worker with the same one is only named, in one
 * line for all of them. Lines after it (notes of the message) are left out as far as they equal those of the first one.
 *
 * Two tracebacks are alike if they have the same frames and the same message; the number of the worker itself, its
 * device and addresses do not count. If the messages differ in other numbers, the message is printed and the frames are
 * not; with any other difference all is printed. A worker's own earlier traceback, printed or merged, never stands for
 * a later one of the same worker.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    HELD_LINES = 600, /* of a worker, at once */
    HELD_BYTES = 128 << 10,
    TRACES_MAX = 64, /* one for each bit in source.seen */
    NAMES_MAX = 8,
    QUIET_MS = 300, /* without a line for that long: the traceback is complete */
    HOLD_MS = 1000,
    TELL_MS = 5000,  /* names are printed after that time, unless the run is over first */
    NEAR_LINES = 60, /* lines printed since: the traceback is still on the screen */
};

static const char head[] = "Traceback (most recent call last):";

struct lines {
    struct buf text; /* each ended by \0 */
    size_t count;
};
struct trace { /* of the first worker, in a form that is equal for all ranks */
    struct buf frames, messages, digitless;
    struct lines after;  /* its lines after it */
    uint64_t serial;     /* of its last line */
    uint64_t counted_ms; /* last counted */
    unsigned more;       /* further workers with the same one that are not named yet */
    struct buf names;
};
struct trace_source { /* a worker's stderr, or one worker's lines on a launcher's stderr */
    struct progress *of;
    struct trace_source *next; /* of the same stream */
    uint32_t bracket;          /* of "[rank3]: ", else UINT32_MAX */
    struct lines held;         /* unchanged */
    uint64_t wall_ms, first_ms, last_ms;
    uint64_t seen; /* bit i: items[i] was printed by it, or for it */
    struct trace *last;
};
struct traces {
    struct trace_source **sources;
    size_t source_count;
    struct trace *items[TRACES_MAX];
    size_t count, held; /* held: sources with held lines */
    struct traces_sink sink;
};

/* ---- lines ---- */

static void lines_add(struct lines *l, const char *text, size_t len)
{
    buf_append(&l->text, text, len);
    buf_putc(&l->text, 0);
    l->count++;
}

static void lines_clear(struct lines *l)
{
    buf_clear(&l->text);
    l->count = 0;
}

static const char *lines_at(const struct lines *l, size_t i)
{
    const char *p = l->text.data;
    while (i-- > 0)
        p += strlen(p) + 1;
    return p;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether the number at `at` identifies the worker, so that another worker has another one there. */
static bool is_own(const char *text, size_t at, uint32_t number, uint32_t rank)
{
    static const char *const devices[] = {"cuda:", "GPU ", "gpu:", "xpu:", "hpu:", "npu:"};
    static const char *const ranks[] = {"rank ", "rank=", "rank: ", "Rank ", "[rank", "RANK=", "rank:"};
    for (size_t i = 0; i < ARRAY_LEN(devices); i++)
        if (at >= strlen(devices[i]) && memcmp(text + at - strlen(devices[i]), devices[i], strlen(devices[i])) == 0)
            return true;
    for (size_t i = 0; i < ARRAY_LEN(ranks) && number == rank; i++)
        if (at >= strlen(ranks[i]) && memcmp(text + at - strlen(ranks[i]), ranks[i], strlen(ranks[i])) == 0)
            return true;
    return false;
}

/* The length of the quoted prefix of a path that differs by node: "HOME/.rhrun/, or "HOME/.rhrun/local/3/. */
static size_t own_folder(const char *text)
{
    static const char folder[] = "/.rhrun/", local[] = "local/";
    size_t len = text[0] == '"' && text[1] == '/' ? strcspn(text + 1, "\"") : 0;
    const char *at = len ? memmem(text + 1, len, folder, strlen(folder)) : NULL;
    if (!at)
        return 0;
    at += strlen(folder);
    if (str_starts(at, local)) {
        size_t digits = strspn(at + strlen(local), "0123456789");
        at += digits && at[strlen(local) + digits] == '/' ? strlen(local) + digits + 1 : 0;
    }
    return (size_t)(at - text);
}

static void put_normal(struct buf *b, const char *text, uint32_t rank)
{
    for (size_t i = 0; text[i];) {
        size_t folder = own_folder(text + i);
        if (folder) {
            i += folder;
            buf_puts(b, "\"~/.rhrun/");
            continue;
        }
        size_t n = strspn(text + i, "0123456789");
        if (text[i] == '0' && text[i + 1] == 'x' && strspn(text + i + 2, "0123456789abcdefABCDEF") >= 4) {
            i += 2 + strspn(text + i + 2, "0123456789abcdefABCDEF");
            buf_puts(b, "0x#");
        } else if (n > 0 && n < 10 && (i == 0 || !is_digit(text[i - 1])) &&
                   is_own(text, i, (uint32_t)strtoul(text + i, NULL, 10), rank)) {
            i += n;
            buf_putc(b, '#');
        } else {
            buf_append(b, text + i, n ? n : 1);
            i += n ? n : 1;
        }
    }
    buf_putc(b, '\n');
}

static void put_digitless(struct buf *b, const char *text)
{
    for (; *text; text++)
        if (!is_digit(*text))
            buf_putc(b, *text);
        else if (!is_digit(text[1]))
            buf_putc(b, '#');
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* "[rank3]: " as torch puts it before its lines; UINT32_MAX: there is none. */
static uint32_t bracket_of(const char *text, size_t len, size_t *ret_len)
{
    size_t i = 5, digits;
    *ret_len = 0;
    if (len < 9 || memcmp(text, "[rank", 5) != 0)
        return UINT32_MAX;
    for (digits = 0; i < len && is_digit(text[i]) && digits < 9; digits++)
        i++;
    if (digits == 0 || i + 2 > len || text[i] != ']' || text[i + 1] != ':')
        return UINT32_MAX;
    *ret_len = i + 2 + (i + 2 < len && text[i + 2] == ' ');
    return (uint32_t)strtoul(text + 5, NULL, 10);
}

/* ---- sources ---- */

static struct trace_source *source_of(struct traces *t, struct progress *of, uint32_t bracket, bool make)
{
    struct trace_source *s = of->traced;
    while (s && s->bracket != bracket)
        s = s->next;
    if (s || !make)
        return s;
    s = xcalloc(1, sizeof *s);
    s->of = of;
    s->bracket = bracket;
    s->next = of->traced;
    of->traced = s;
    t->sources = xreallocarray(t->sources, t->source_count + 1, sizeof(struct trace_source *));
    return t->sources[t->source_count++] = s;
}

static uint32_t rank_of(const struct trace_source *s)
{
    return s->bracket != UINT32_MAX ? s->bracket : s->of->rank;
}

static uint64_t put_one(struct traces *t, const struct trace_source *s, const char *text)
{
    const struct watch_line line = {
        .rank = s->of->rank, .stream = s->of->stream, .text = text, .len = strlen(text), .wall_ms = s->wall_ms};
    return t->sink.put(t->sink.arg, s->of, &line);
}

static void drop_held(struct traces *t, struct trace_source *s)
{
    t->held -= s->held.count ? 1 : 0;
    lines_clear(&s->held);
}

/* Prints the held lines, from `from` on. */
static uint64_t put_held(struct traces *t, struct trace_source *s, size_t from)
{
    uint64_t serial = 0;
    for (size_t i = from; i < s->held.count; i++)
        serial = put_one(t, s, lines_at(&s->held, i));
    drop_held(t, s);
    return serial;
}

static void hold(struct traces *t, struct trace_source *s, const struct watch_line *line)
{
    uint64_t now = mono_ns() / 1000000;
    if (s->held.count == 0) {
        t->held++;
        s->first_ms = now;
    }
    s->wall_ms = line->wall_ms;
    s->last_ms = now;
    lines_add(&s->held, line->text, line->len);
}

/* ---- a complete traceback ---- */

static bool is_head(const char *text)
{
    return strcmp(text, head) == 0;
}

static const char *bare(const struct trace_source *s, size_t i)
{
    size_t skip;
    const char *text = lines_at(&s->held, i);
    bracket_of(text, strlen(text), &skip);
    return text + skip;
}

/* How many of the held lines are the traceback, with those of the exceptions that led to it; 0: its end is missing. */
static size_t parse(const struct trace_source *s, struct trace *ret)
{
    size_t end = 0, i = 0;
    while (i < s->held.count && is_head(bare(s, i))) {
        for (put_normal(&ret->frames, bare(s, i++), UINT32_MAX); i < s->held.count && *bare(s, i) == ' '; i++)
            put_normal(&ret->frames, bare(s, i), UINT32_MAX);
        if (i == s->held.count)
            break;
        put_normal(&ret->messages, bare(s, i++), rank_of(s));
        end = i;
        if (i + 3 < s->held.count && !*bare(s, i) && str_ends(bare(s, i + 1), "exception:") && !*bare(s, i + 2))
            i += 3;
    }
    buf_putc(&ret->messages, 0);
    put_digitless(&ret->digitless, ret->messages.data);
    return end;
}

static void trace_free(struct trace *x)
{
    buf_free(&x->frames);
    buf_free(&x->messages);
    buf_free(&x->digitless);
    buf_free(&x->after.text);
    buf_free(&x->names);
    free(x);
}

/* The index of a trace that is alike and that the worker has not printed itself; t->count: none. */
static size_t find_like(const struct traces *t, const struct trace_source *s, const struct trace *one, bool *ret_same)
{
    size_t found = t->count;
    for (size_t i = 0; i < t->count && !*ret_same; i++) {
        const struct trace *x = t->items[i];
        if ((s->seen >> i & 1) || !same(&x->frames, &one->frames) || !same(&x->digitless, &one->digitless))
            continue;
        *ret_same = same(&x->messages, &one->messages);
        found = i;
    }
    return found;
}

static void put_after(const struct trace_source *s, size_t from, struct lines *ret)
{
    struct buf line = {0};
    for (size_t i = from; i < s->held.count; i++) {
        buf_clear(&line);
        put_normal(&line, bare(s, i), rank_of(s));
        lines_add(ret, line.data, line.len);
    }
    buf_free(&line);
}

static void count_alike(struct traces *t, struct trace_source *s, struct trace *x)
{
    x->counted_ms = mono_ns() / 1000000;
    if (x->more++ >= NAMES_MAX)
        return;
    buf_puts(&x->names, x->names.len ? ", " : "");
    t->sink.name(t->sink.arg, s->of, &x->names);
    if (s->bracket != UINT32_MAX)
        buf_printf(&x->names, " rank %u", s->bracket);
}

static void put_alike(struct traces *t, struct trace_source *s, size_t end, bool equal, struct trace *x)
{
    struct lines after = {0};
    size_t common = 0;
    put_after(s, end, &after);
    while (common < after.count && common < x->after.count &&
           strcmp(lines_at(&after, common), lines_at(&x->after, common)) == 0)
        common++;
    buf_free(&after.text);
    if (!equal)
        put_one(t, s, lines_at(&s->held, end - 1));
    put_held(t, s, end + common);
    count_alike(t, s, x);
}

/* The held lines are printed, or dropped. */
static void settle(struct traces *t, struct trace_source *s)
{
    struct trace *one = xcalloc(1, sizeof *one);
    size_t end = parse(s, one), like = t->count;
    bool equal = false;
    if (end > 0)
        like = find_like(t, s, one, &equal);
    if (like < t->count) {
        put_alike(t, s, end, equal, t->items[like]);
    } else if (end > 0 && t->count < TRACES_MAX) {
        put_after(s, end, &one->after);
        one->serial = put_held(t, s, 0);
        t->items[t->count++] = one;
        one = NULL;
    } else {
        put_held(t, s, 0);
        like = TRACES_MAX;
    }
    if (like < TRACES_MAX) {
        s->seen |= UINT64_C(1) << like;
        s->last = t->items[like];
    }
    if (one)
        trace_free(one);
}

bool traces_take(struct traces *t, struct progress *of, const struct watch_line *w)
{
    size_t skip;
    if (w->stream != WIRE_STREAM_ERR)
        return false;
    uint32_t bracket = bracket_of(w->text, w->len, &skip);
    bool begins = w->len - skip == sizeof head - 1 && memcmp(w->text + skip, head, sizeof head - 1) == 0;
    struct trace_source *s = source_of(t, of, bracket, begins);
    if (!s || (s->held.count == 0 && !begins))
        return false;
    if (w->open || w->returned || memchr(w->text, 0, w->len) || s->held.count >= HELD_LINES ||
        s->held.text.len + w->len > HELD_BYTES) {
        settle(t, s);
        return false;
    }
    hold(t, s, w);
    return true;
}

/* ---- time and end ---- */

static void tell(struct traces *t, const char *what, uint64_t before_ms)
{
    for (size_t i = 0; i < t->count; i++) {
        struct trace *x = t->items[i];
        struct buf b = {0};
        if (x->more == 0 || x->counted_ms > before_ms)
            continue;
        buf_printf(&b, "%u more rank%s %s: %s", x->more, x->more == 1 ? "" : "s", what, x->names.data);
        if (x->more > NAMES_MAX)
            buf_printf(&b, " and %u more", x->more - NAMES_MAX);
        x->more = 0;
        buf_clear(&x->names);
        t->sink.say(t->sink.arg, &b);
        buf_free(&b);
    }
}

bool traces_look(struct traces *t)
{
    uint64_t now = mono_ns() / 1000000;
    bool waits = false;
    for (size_t i = 0; i < t->source_count && t->held > 0; i++) {
        struct trace_source *s = t->sources[i];
        if (s->held.count && (now - s->last_ms >= QUIET_MS || now - s->first_ms >= HOLD_MS))
            settle(t, s);
    }
    if (now > TELL_MS)
        tell(t, "printed the same error", now - TELL_MS);
    for (size_t i = 0; i < t->count; i++)
        waits = waits || t->items[i]->more;
    return waits || t->held > 0;
}

bool traces_hold(const struct traces *t)
{
    return t->held > 0;
}

void traces_end(struct traces *t)
{
    for (size_t i = 0; i < t->source_count && t->held > 0; i++)
        if (t->sources[i]->held.count)
            settle(t, t->sources[i]);
    tell(t, "ended alike", UINT64_MAX);
}

void traces_forget(struct traces *t)
{
    for (size_t i = 0; i < t->source_count; i++) {
        t->sources[i]->of->traced = NULL;
        buf_free(&t->sources[i]->held.text);
        free(t->sources[i]);
    }
    for (size_t i = 0; i < t->count; i++)
        trace_free(t->items[i]);
    free(t->sources);
    t->sources = NULL;
    t->source_count = t->count = t->held = 0;
}

bool traces_has_shown(const struct traces *t, const char *step, const char *node_name, uint32_t rank, uint64_t serial)
{
    for (size_t i = 0; i < t->source_count; i++) {
        const struct trace_source *s = t->sources[i];
        if (s->last && s->of->rank == rank && str_eq(s->of->step->name, step) && str_eq(s->of->node_name, node_name))
            return s->last->serial + NEAR_LINES > serial;
    }
    return false;
}

struct traces *traces_create(const struct traces_sink *sink)
{
    struct traces *t = xcalloc(1, sizeof *t);
    t->sink = *sink;
    return t;
}

void traces_destroy(struct traces *t)
{
    if (!t)
        return;
    traces_forget(t);
    free(t);
}
