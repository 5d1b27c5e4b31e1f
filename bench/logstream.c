/*
 * Both ends of a stream of lines, for bench/cases/logstream.py.
 *
 *   logstream write RANK BYTES_PER_SECOND SECONDS FILE   lines with the time in them on stdout; 0 a second: as fast as it
 *                                                        goes. At the end "BYTES HASH" into FILE
 *   logstream read FOLDER                                the lines of all ranks, as rhrun prints them, on stdin. Compares
 *                                                        them with FOLDER/RANK, and prints what it found as JSON
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 256, LINE = 128, TICK_MS = 10, BUCKETS = 20000 };

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t hash(uint64_t h, const char *data, size_t len)
{
    for (; len >= 8; len -= 8, data += 8) {
        uint64_t w;
        memcpy(&w, data, 8);
        h = (h ^ w) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    for (; len > 0; len--, data++)
        h = (h ^ (unsigned char)*data) * 0x100000001B3u;
    return h;
}

static int write_lines(unsigned rank, uint64_t rate, double seconds, const char *file)
{
    uint64_t bytes = 0, h = 0, began = now_us(), all = rate ? (uint64_t)((double)rate * seconds) : (uint64_t)(seconds * 1e6);
    static char block[LINE * 512];
    for (uint64_t seq = 0; bytes < all;) {
        uint64_t passed = now_us() - began, due = rate ? rate * passed / 1000000 : all;
        if (bytes >= due) {
            struct timespec pause = {0, TICK_MS * 1000000};
            nanosleep(&pause, NULL);
            continue;
        }
        size_t len = 0;
        for (; len + LINE <= sizeof block && bytes + len < due; seq++) {
            /* every 100th line is one that metrics find */
            int n = snprintf(block + len, LINE, "%016" PRIu64 " rank %03u seq %012" PRIu64 " %s", now_us(), rank, seq,
                             seq % 100 ? "all is well, forward, backward, optimizer, all-reduce" : "loss=0.125 speed=81.5 step=17");
            memset(block + len + n, '.', (size_t)(LINE - n));
            memcpy(block + len + LINE - 2, "#\n", 2);
            h = hash(h, block + len, LINE);
            len += LINE;
        }
        for (size_t at = 0; at < len;) {
            ssize_t n = write(1, block + at, len - at);
            if (n <= 0)
                return 1;
            at += (size_t)n;
        }
        bytes += len;
    }
    FILE *f = fopen(file, "w");
    if (!f || fprintf(f, "%" PRIu64 " %016" PRIx64 "\n", bytes, h) < 0 || fclose(f) != 0)
        return 1;
    return 0;
}

static uint64_t lag_of(const unsigned *buckets, uint64_t count, double part)
{
    uint64_t seen = 0;
    for (unsigned ms = 0; ms < BUCKETS; ms++)
        if ((seen += buckets[ms]) >= (uint64_t)((double)count * part) && seen > 0)
            return ms;
    return BUCKETS;
}

static int read_lines(const char *folder)
{
    static uint64_t bytes[RANKS], hashes[RANKS], next[RANKS];
    static unsigned lags[BUCKETS + 1];
    uint64_t lines = 0, torn = 0, most = 0, now = now_us();
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    static char buffer[1 << 20];
    setvbuf(stdin, buffer, _IOFBF, sizeof buffer);
    while ((len = getline(&line, &cap, stdin)) > 0) {
        unsigned rank;
        char *text = strchr(line, ' ');
        if (sscanf(line, "default[%u]@", &rank) != 1 || !text || rank >= RANKS || line + len - (text + 1) != LINE ||
            text[LINE - 1] != '#') {
            torn++;
            continue;
        }
        text++;
        if (lines % 64 == 0)
            now = now_us();
        if (strtoull(text + 30, NULL, 10) != next[rank]++)
            torn++;
        uint64_t wrote = strtoull(text, NULL, 10), ms = now > wrote ? (now - wrote) / 1000 : 0;
        lags[ms < BUCKETS ? ms : BUCKETS]++;
        most = ms > most ? ms : most;
        hashes[rank] = hash(hashes[rank], text, LINE);
        bytes[rank] += LINE;
        lines++;
    }
    uint64_t total = 0;
    unsigned ranks = 0, wrong = 0;
    for (unsigned r = 0; r < RANKS; r++) {
        char path[4096], wanted[64], got[64];
        snprintf(path, sizeof path, "%s/%u", folder, r);
        FILE *f = fopen(path, "r");
        snprintf(got, sizeof got, "%" PRIu64 " %016" PRIx64 "\n", bytes[r], hashes[r]);
        if (f) {
            ranks++;
            wrong += !fgets(wanted, sizeof wanted, f) || strcmp(wanted, got) != 0;
            fclose(f);
        } else {
            wrong += bytes[r] > 0;
        }
        total += bytes[r];
    }
    printf("{\"ranks\": %u, \"wrong\": %u, \"bytes\": %" PRIu64 ", \"torn\": %" PRIu64 ", \"lag_ms\": %" PRIu64
           ", \"lag_99_ms\": %" PRIu64 ", \"lag_50_ms\": %" PRIu64 "}\n",
           ranks, wrong, total, torn, most, lag_of(lags, lines, 0.99), lag_of(lags, lines, 0.5));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "write") == 0)
        return write_lines((unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 10), atof(argv[4]), argv[5]);
    if (argc == 3 && strcmp(argv[1], "read") == 0)
        return read_lines(argv[2]);
    fprintf(stderr, "usage: logstream write RANK BYTES_PER_SECOND SECONDS FILE | read FOLDER\n");
    return 2;
}
