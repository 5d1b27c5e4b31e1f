/* How far people have seen the workers' output of a run: jobs/JOB/runs/RUN/shown, a small text file that is replaced as
 * a whole. It is a convenience, so it is not synced; a missing or damaged file means that nothing was shown. If two
 * commands show a run at once, the last writer wins. */
#include "internal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_MAX = 16 << 20,
    SAVE_MS = 1000, /* between two saves while output comes; after a kill that much is repeated */
};
static const char first_line[] = "rhrun-shown 1\n";

/* ---- the file ---- */

static bool parse_number(const char *line, const char *name, uint64_t *ret)
{
    size_t len = strlen(name);
    return strncmp(line, name, len) == 0 && line[len] == ' ' && parse_u64(line + len + 1, ret);
}

static bool parse_place(char *line, struct shown_place *ret)
{
    char *from = strchr(line, ' '), *to = from ? strchr(from + 1, ' ') : NULL;
    if (!to)
        return false;
    *from++ = *to++ = 0;
    if (!wire_id_valid(line) || !parse_u64(from, &ret->from) || !parse_u64(to, &ret->to) || ret->from > ret->to)
        return false;
    memcpy(ret->attempt, line, sizeof ret->attempt);
    return true;
}

/* False: it is damaged, or has an unknown version. */
static bool parse(struct shown *s, char *text, size_t len)
{
    char digest[65];
    size_t head = sizeof first_line - 1, tail = 64 + 1; /* the last line is the digest of everything before it */
    if (len < head + tail || strncmp(text, first_line, head) != 0 || text[len - 1] != '\n' ||
        text[len - tail - 1] != '\n')
        return false;
    digest_sha256_hex(text, len - tail, digest);
    if (strncmp(text + len - tail, digest, 64) != 0)
        return false;
    text[len - tail] = 0;
    for (char *line = text + head, *end; *line; line = end + 1) {
        struct shown_place place;
        end = strchr(line, '\n');
        if (!end)
            return false;
        *end = 0;
        if (parse_number(line, "events", &s->events) || parse_number(line, "lines", &s->lines) ||
            parse_number(line, "at", &s->at_ms))
            continue;
        if (!parse_place(line, &place))
            return false;
        shown_set(s, place.attempt, place.from, place.to);
    }
    return true;
}

static void forget(struct shown *s)
{
    free(s->places);
    free(s->slots);
    s->places = NULL;
    s->slots = NULL;
    s->count = s->slot_count = 0;
    s->events = s->lines = s->at_ms = 0;
}

struct shown *shown_open(const struct journal *j, const char *run, bool from_start)
{
    struct shown *s = xcalloc(1, sizeof *s);
    struct buf text = {0};
    s->path = xasprintf("%s/runs/%s/shown", journal_path(j), run);
    if (!from_start && file_read(s->path, FILE_MAX, &text, NULL) == 0) {
        buf_append(&s->saved, text.data ? text.data : "", text.len);
        if (!text.data || !parse(s, text.data, text.len))
            forget(s);
    }
    buf_free(&text);
    s->lines_saved = s->lines;
    return s;
}

void shown_close(struct shown *s)
{
    if (!s)
        return;
    buf_free(&s->next);
    buf_free(&s->saved);
    buf_free(&s->before);
    forget(s);
    free(s->path);
    free(s);
}

/* ---- places ---- */

/* Where its index + 1 is, or would be. */
static uint32_t *slot_of(const struct shown *s, const char *attempt)
{
    size_t i = 0;
    for (const char *p = attempt; *p; p++)
        i = i * 31 + (unsigned char)*p;
    for (;; i++) {
        uint32_t *slot = &s->slots[i & (s->slot_count - 1)];
        if (!*slot || strcmp(s->places[*slot - 1].attempt, attempt) == 0)
            return slot;
    }
}

const struct shown_place *shown_find(const struct shown *s, const char *attempt)
{
    uint32_t *slot = s->slot_count ? slot_of(s, attempt) : NULL;
    return slot && *slot ? &s->places[*slot - 1] : NULL;
}

/* Makes room for one more; half of the slots stay free. */
static void grow(struct shown *s)
{
    if (2 * (s->count + 1) <= s->slot_count)
        return;
    s->slot_count = s->slot_count ? 2 * s->slot_count : 64;
    free(s->slots);
    s->slots = xcalloc(s->slot_count, sizeof *s->slots);
    s->places = xreallocarray(s->places, s->slot_count / 2, sizeof *s->places);
    for (size_t i = 0; i < s->count; i++)
        *slot_of(s, s->places[i].attempt) = (uint32_t)i + 1;
}

void shown_set(struct shown *s, const char *attempt, uint64_t from, uint64_t to)
{
    grow(s);
    uint32_t *slot = slot_of(s, attempt);
    if (!*slot) {
        *slot = (uint32_t)++s->count;
        snprintf(s->places[*slot - 1].attempt, sizeof s->places->attempt, "%s", attempt);
    }
    s->places[*slot - 1].from = from;
    s->places[*slot - 1].to = to;
}

/* ---- saving ---- */

static void write_file(const struct shown *s, const struct buf *text)
{
    CLEANUP(cleanup_free) char *tmp = xasprintf("%s.%ld.tmp", s->path, (long)getpid());
    unlink(tmp);
    CLEANUP(cleanup_close) int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write_all(fd, text->data, text->len) < 0 || rename(tmp, s->path) < 0)
        unlink(tmp);
}

void shown_freeze(struct shown *s)
{
    char digest[65];
    struct buf *b = &s->next;
    if (s->lines != s->lines_saved)
        s->at_ms = wall_ms();
    s->lines_saved = s->lines;
    buf_clear(b);
    buf_puts(b, first_line);
    buf_printf(b, "events %llu\nlines %llu\nat %llu\n", (unsigned long long)s->events, (unsigned long long)s->lines,
               (unsigned long long)s->at_ms);
    for (size_t i = 0; i < s->count; i++)
        buf_printf(b, "%s %llu %llu\n", s->places[i].attempt, (unsigned long long)s->places[i].from,
                   (unsigned long long)s->places[i].to);
    digest_sha256_hex(b->data, b->len, digest);
    buf_printf(b, "%s\n", digest);
}

void shown_save(struct shown *s)
{
    write_file(s, &s->next);
    struct buf oldest = s->before;
    s->before = s->saved;
    s->saved = s->next;
    s->next = oldest;
    buf_clear(&s->next);
    s->saved_ms = mono_ns() / 1000000;
}

uint64_t shown_wait_ms(const struct shown *s)
{
    uint64_t now = mono_ns() / 1000000;
    return !s->saved_ms || now - s->saved_ms >= SAVE_MS ? 0 : SAVE_MS - (now - s->saved_ms);
}

/* ---- who sees the output ---- */

bool shown_to_nobody(void)
{
    struct stat st;
    return fstat(1, &st) < 0 || (S_ISCHR(st.st_mode) && !isatty(1));
}

bool shown_hung_up(void)
{
    struct pollfd p[] = {{1, POLLOUT, 0}, {2, POLLOUT, 0}};
    return poll(p, 2, 0) > 0 && ((p[0].revents | p[1].revents) & (POLLHUP | POLLERR)) != 0;
}

/* Text that the terminal had not shown when it went is lost, and its length is unknown. */
void shown_step_back(struct shown *s)
{
    uint64_t now = mono_ns() / 1000000;
    if (s->saved_ms && now - s->saved_ms < SAVE_MS)
        write_file(s, &s->before);
}
