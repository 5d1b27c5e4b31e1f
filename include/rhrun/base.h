/*
 * base: what every module uses: allocation, arenas, growing buffers, strict number parsing, errors by value,
 * diagnostics for user input, patterns, time, random ids.
 *
 * Two channels carry failure. `struct error` says that an operation failed: a code, a cause and fixed text,
 * passed by value, no heap; each layer that knows more puts one prefix before it. `struct
 * diagnostics` collects *every* fault of a user's document with its place.
 *
 * The agent links base too, except diagnostics.c, digest.c and regex.c; the other files need nothing but libc.
 * Allocation never returns NULL: out of memory ends the process with a message.
 */
#ifndef RHRUN_BASE_H
#define RHRUN_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define STEAL_FD(fd) base_steal_fd(&(fd))
#define FORMAT(fmt, args) __attribute__((format(printf, fmt, args)))
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* ---- allocation: never NULL ---- */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *ptr, size_t size);
void *xreallocarray(void *ptr, size_t count, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t len);
char *xasprintf(const char *fmt, ...) FORMAT(1, 2);
char *xvasprintf(const char *fmt, va_list ap) FORMAT(1, 0);
void cleanup_free(void *ptr);  /* for CLEANUP(cleanup_free) char *p = NULL; */
void cleanup_close(int *fd);   /* for CLEANUP(cleanup_close) int fd = -1; */
int base_steal_fd(int *fd);    /* returns *fd and leaves -1 there */

/* ---- arena: memory of one lifetime, freed at once; zero-filled, aligned to 16 ---- */
struct arena;
struct arena *arena_create(void);
void arena_destroy(struct arena *a); /* takes NULL */
void arena_reset(struct arena *a);   /* frees all but the first block */
void *arena_alloc(struct arena *a, size_t size);
void *arena_array(struct arena *a, size_t count, size_t size); /* overflow-checked */
char *arena_strdup(struct arena *a, const char *s);            /* NULL gives NULL */
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_printf(struct arena *a, const char *fmt, ...) FORMAT(2, 3);
size_t arena_used(const struct arena *a); /* bytes handed out */

/* ---- buf: growing bytes; once anything was written, a NUL follows the len bytes ---- */
struct buf {
    char *data;
    size_t len;
    size_t cap;
};
void buf_reserve(struct buf *b, size_t more);
void buf_append(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) FORMAT(2, 3);
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) FORMAT(2, 0);
void buf_consume(struct buf *b, size_t n); /* drops the first n bytes */
void buf_clear(struct buf *b);             /* len = 0, keeps memory */
void buf_free(struct buf *b);
char *buf_steal(struct buf *b); /* the text, owned by the caller (free); b is empty again */
void buf_shell_quote(struct buf *b, const char *s); /* appends s as one POSIX shell word */
void buf_json_string(struct buf *b, const char *s, size_t len); /* appends "..." with JSON escapes;
                                                                   invalid UTF-8 becomes U+FFFD */

/* Length of the valid UTF-8 sequence at s (left > 0 bytes are there), or 0. */
size_t utf8_length(const unsigned char *s, size_t left);

/* ---- strict parsing: the whole string, no blanks, no sign for unsigned, false on overflow ---- */
bool parse_u64(const char *s, uint64_t *ret);
bool parse_i64(const char *s, int64_t *ret);
bool parse_u32(const char *s, uint32_t *ret);
bool parse_duration_ms(const char *s, uint64_t *ret_ms); /* "250ms" "30s" "5m" "12h" "2d"; a bare number is seconds */
bool parse_size(const char *s, uint64_t *ret_bytes);     /* "64k" "10M" "2G" (powers of 1024), a bare number is bytes */

/* ---- strings ---- */
bool str_eq(const char *a, const char *b); /* NULL equals NULL only */
bool str_starts(const char *s, const char *prefix);
char *path_clean(char *path); /* removes "//", "." and ".." from an absolute path, in place */
bool str_ends(const char *s, const char *suffix);
bool str_is_printable(const char *s); /* no control characters */
bool str_is_hex(const char *s, size_t len); /* exactly len digits, lower-case */
void str_printable(char *s); /* replaces each byte of a control character by '?': for text from outside that goes to a
                                terminal */
/* The candidate nearest to `word` by Damerau-Levenshtein distance, whatever the case. NULL when none is near: the
 * distance may be a third of the longer length, and 1 in any case. candidates ends with NULL. */
const char *str_nearest(const char *word, const char *const *candidates);

/* ---- error: an operation failed ---- */
enum error_code {
    ERROR_NONE = 0,
    ERROR_USAGE,       /* command line: exit 2 */
    ERROR_SPEC,        /* invalid spec or document: exit 2 */
    ERROR_JOB,         /* the job itself failed: exit 1 */
    ERROR_INFRA,       /* node unreachable or lost, its disk full, provider refused: exit 3 */
    ERROR_HELD,        /* held by another live run: exit 4 */
    ERROR_IO,          /* this machine: file, database, descriptor: exit 3 */
    ERROR_PROTOCOL,    /* input from outside breaks the protocol: exit 3 */
    ERROR_TIMEOUT,     /* exit 3 */
    ERROR_INTERRUPTED, /* exit 130 */
    ERROR_INTERNAL,    /* a bug: exit 3 */
};
/* The causes that callers handle in their own way. The code that finds the cause sets it; no caller parses an error's
 * text. */
enum error_why {
    ERROR_WHY_NONE = 0,
    ERROR_WHY_DISK_FULL,   /* no space or no quota left: ENOSPC, EDQUOT */
    ERROR_WHY_ABSENT,      /* the thing does not exist: a job that was never run, a controller that has ended */
    ERROR_WHY_OWNER,       /* a git repository is another user's */
    ERROR_WHY_HOST_KEY,    /* ssh does not know the host's key, or knows a different one */
    ERROR_WHY_LOGIN,       /* ssh was refused */
    ERROR_WHY_CERTIFICATE, /* a server's certificate is not trusted */
    ERROR_WHY_CREDENTIALS, /* a server wants credentials that nobody has */
};
#ifdef RHRUN_AGENT
enum { ERROR_HINT_SIZE = 320 }; /* its errors go into frames, with short hints, and the agent must stay small */
#else
enum { ERROR_HINT_SIZE = 640 }; /* room for a whole ssh command */
#endif

struct error {
    enum error_code code;
    enum error_why why;
    /* text and hint may quote a node or a file; each control character in a quote is replaced by '?'. */
    char text[640]; /* lower-case, no full stop: what failed, quoted value, reason */
    char hint[ERROR_HINT_SIZE]; /* what to do, "" if nothing; printed on a line of its own */
};
#define ERROR_INIT {ERROR_NONE, ERROR_WHY_NONE, "", ""}
/* All return -1 so that `return error_set(...)` reads well. err may be NULL. */
int error_set(struct error *err, enum error_code code, const char *fmt, ...) FORMAT(3, 4);
/* Appends the meaning of errnum and sets the cause. If errnum is a limit of this process, the hint says so. */
int error_errno(struct error *err, enum error_code code, int errnum, const char *fmt, ...) FORMAT(4, 5);
const char *error_code_name(enum error_code code); /* for programs: "usage", "infra", ... */
int error_why(struct error *err, enum error_why why); /* call it after error_set, which sets ERROR_WHY_NONE */
void error_prefix(struct error *err, const char *fmt, ...) FORMAT(2, 3); /* "prefix: text" */
void error_hint(struct error *err, const char *fmt, ...) FORMAT(2, 3);

/* ---- diagnostics: every fault of a user's document, with its place ---- */
struct source {      /* a document's text; owned by whoever loaded it, outlives the diagnostics */
    const char *name; /* as the user wrote it */
    const char *text;
    size_t len;
    /* Not NULL: no diagnostic quotes the text. A diagnostic still names file and line. Its message stays if it has no
     * arguments ("the list is not closed"); a message with arguments ("\"x\" is not a host") is replaced by this one. A
     * hint or `expected` with arguments is left out. */
    const char *hidden;
};
struct place {                  /* half-open range in a source; lines and columns from 1 */
    const struct source *source; /* NULL: no place (a command-line override, say) */
    uint32_t line, column;       /* column counts code points, not bytes */
    uint32_t end_line, end_column;
};
enum severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE };
struct diagnostic {
    enum severity severity;
    struct place place;
    char *message;  /* lower-case, no full stop */
    char *expected; /* "an integer of at least 1", or NULL */
    char *hint;     /* "did you mean nproc_per_node?", or NULL */
    char *path;     /* JSON pointer of the faulty value, or NULL */
    bool unknown_key; /* path names a key that the schema does not have */
};
struct diagnostics {
    struct diagnostic *items;
    size_t count, cap;
    size_t errors;  /* how many are SEVERITY_ERROR */
    size_t dropped; /* past DIAGNOSTICS_MAX */
    bool repeated;  /* private: the last item was a duplicate, so its notes are left out too */
};
#define DIAGNOSTICS_MAX 200
/* A NOTE belongs to the item before it ("the other form is here"). Returns the item, or NULL when dropped. */
struct diagnostic *diagnostics_add(struct diagnostics *d, enum severity severity, struct place place, const char *fmt,
                                   ...) FORMAT(4, 5);
struct diagnostic *diagnostics_addv(struct diagnostics *d, enum severity severity, struct place place,
                                    const char *fmt, va_list ap) FORMAT(4, 0);
void diagnostic_expected(struct diagnostic *item, const char *fmt, ...) FORMAT(2, 3); /* item may be NULL */
void diagnostic_hint(struct diagnostic *item, const char *fmt, ...) FORMAT(2, 3);
void diagnostic_path(struct diagnostic *item, const char *pointer);
/* All items as text: `file:line:column: error: message`, the source line, carets, expected, hint. Items are sorted by
 * place; notes follow their item. colour adds ANSI sequences. */
void diagnostics_format(const struct diagnostics *d, bool colour, struct buf *ret_text);
/* One JSON array: {severity, file, line, column, end_line, end_column, path, message, expected, hint}. */
void diagnostics_format_json(const struct diagnostics *d, struct buf *ret_json);
void diagnostics_free(struct diagnostics *d);

/* ---- time, randomness, files ---- */
uint64_t mono_ns(void);
uint64_t wall_ms(void); /* since the epoch; RHRUN_TEST_CLOCK_OFFSET_MS shifts it (test hook) */
void random_bytes(void *out, size_t len);
void random_hex(char *out, size_t bytes); /* writes 2*bytes digits and a NUL */
bool hex_decode(const char *hex, void *out, size_t bytes); /* exactly 2*bytes lower-case digits */
/* Opens a regular file for reading. Anything else (a FIFO, a device, a socket, a folder) is refused without being
 * opened, so the call never blocks. ret (may be NULL) gets the stat of the opened file. Returns the descriptor, or -1
 * with err and errno. Use this or file_read for every file that somebody else names. */
struct stat;
int file_open(const char *path, struct stat *ret, struct error *err);
/* Opens a file as file_open does and reads all of it, at most max bytes. -1 and err on failure, also for a larger file
 * ("larger than N bytes"). */
int file_read(const char *path, size_t max, struct buf *ret, struct error *err);
/* Writes a file (mode 0600) atomically, without a sync. fresh: an existing file stays as it is. -1 sets err and
 * errno. */
int file_put(int dir_fd, const char *name, const void *data, size_t len, bool fresh, struct error *err);
/* Writes a temporary file, then fsync, rename, and fsync of the folder. */
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct error *err);
int mkdir_p(const char *path, mode_t mode, struct error *err);
int write_all(int fd, const void *data, size_t len); /* 0, or -1 with errno */
/* The system's file of CA certificates: the first that exists of the paths that distributions use, below root ("" =
 * this machine). The caller frees it; NULL: none can be read. */
char *system_ca_file(const char *root);

/* ---- patterns (PCRE2; not in the agent) ---- */
/* A match takes a bounded number of steps, whatever the pattern and the text; a match that needs more gives
 * REGEX_LIMIT. The text may hold any bytes; no pattern matches bytes that are not UTF-8. */
enum { REGEX_PATTERN_MAX = 4096 };
enum regex_result { REGEX_NO, REGEX_YES, REGEX_LIMIT };
struct regex_fault {
    char text[160]; /* PCRE2's own words */
    size_t at;      /* bytes from the pattern's beginning */
};
struct regex;
struct regex *regex_create(const char *pattern, size_t len, struct regex_fault *ret); /* NULL: the pattern is faulty */
/* The same, to search a block of many lines in one call with the same result as line by line: a match within one line
 * is the match that regex_match finds in that line alone, and a line in which no match begins has none. NULL: the
 * pattern looks around its match (a lookbehind, say), so the results would differ. */
struct regex *regex_create_lines(const char *pattern, size_t len);
void regex_destroy(struct regex *re); /* takes NULL */
int regex_group(const struct regex *re, const char *name); /* of "(?<name>...)"; -1 when there is none */
/* Only one thread at a time may use re. The spans belong to the last match that gave REGEX_YES; group 0 is the whole
 * match. */
enum regex_result regex_match(struct regex *re, const char *text, size_t len);
/* The same, searching from byte `at` on; spans still count from the beginning of the text. */
enum regex_result regex_match_from(struct regex *re, const char *text, size_t len, size_t at);
bool regex_span(const struct regex *re, int group, size_t *ret_at, size_t *ret_len); /* false: the group took no part */

/* ---- digest (libcrypto; not in the agent) ---- */
void digest_sha256(const void *data, size_t len, uint8_t out[32]);
void digest_sha256_hex(const void *data, size_t len, char out[65]);
int digest_sha256_file(const char *path, char out[65], struct error *err); /* of a file, read in pieces */

#endif
