/*
 * Any bytes as a spool: the lines are the same however the bytes are cut, and who begins where the earliest open line lies
 * gets the same lines from there on.
 */
#include "rhrun/watch.h"
#include "scene.h"

struct seen {
    struct buf text;
    uint64_t sum; /* of all lines, in whatever order: open lines of several streams end in that of their beginning */
};

static void summed(struct seen *s, size_t from)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = from; i < s->text.len; i++)
        h = (h ^ (uint8_t)s->text.data[i]) * 0x100000001b3u;
    s->sum += h;
}

static void add_line(void *arg, const struct watch_line *line)
{
    struct buf *b = &((struct seen *)arg)->text;
    size_t from = b->len;
    if (line->len > WATCH_LINE_MAX)
        abort();
    buf_printf(b, "%u %u %llu %d%d ", line->rank, line->stream, (unsigned long long)line->wall_ms, line->returned,
               line->open);
    buf_append(b, line->text, line->len);
    buf_putc(b, '\n');
    summed(arg, from);
}

static void add_end(void *arg, const struct wire_worker_end *end)
{
    struct buf *b = &((struct seen *)arg)->text;
    size_t from = b->len;
    buf_printf(b, "end %u %u %d %llu\n", end->rank, end->cause, end->value, (unsigned long long)end->end_mono_ns);
    summed(arg, from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene_input in = {data, size};
    uint8_t cut = scene_byte(&in);
    size_t half = in.left * scene_byte(&in) / 256;
    struct seen whole = {0}, cuts = {0}, rest = {0};
    struct watch *a = watch_create(add_line, &whole), *b = watch_create(add_line, &cuts), *c = NULL;
    watch_on_end(a, add_end);
    watch_on_end(b, add_end);
    uint64_t told = 0; /* the sum at half */
    bool good = watch_feed(a, in.p, in.left), good_cuts = true;
    for (size_t at = 0, n; at < in.left && good_cuts; at += n) {
        n = in.left - at < (size_t)cut + 1 ? in.left - at : (size_t)cut + 1;
        if (at < half && at + n > half)
            n = half - at;
        good_cuts = watch_feed(b, in.p + at, n);
        if (good_cuts && at + n == half) {
            uint64_t from = watch_open_from(b);
            if (from > half)
                abort();
            told = cuts.sum;
            c = watch_create(add_line, &rest);
            watch_on_end(c, add_end);
            if (!watch_feed(c, in.p + from, half - from))
                abort();
            rest.sum = 0; /* lines that were given out before */
        }
        if (c && good_cuts && at + n > half && !watch_feed(c, in.p + at, n))
            abort();
    }
    watch_end(a);
    watch_end(b);
    if (good != good_cuts || whole.text.len != cuts.text.len ||
        (whole.text.len && memcmp(whole.text.data, cuts.text.data, whole.text.len) != 0))
        abort();
    if (c && good) {
        watch_end(c);
        if (rest.sum != cuts.sum - told)
            abort();
    }
    watch_destroy(a);
    watch_destroy(b);
    watch_destroy(c);
    buf_free(&whole.text);
    buf_free(&cuts.text);
    buf_free(&rest.text);
    return 0;
}
