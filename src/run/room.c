/* Limits how much of this machine one node may use: memory for its messages, and disk. A node that uses too much is
 * dropped; the others go on. 5 % of the disk, at most 2 GB, are reserved for everything else on this machine. If logs
 * fill the disk up to that reserve, the node that has sent most is dropped, not the one that happened to send the last
 * byte; if a fetch does, the fetch ends. The others may then use half of the reserve. */
#include "internal.h"

#include <sys/statvfs.h>

enum { LOOK_BYTES = 1 << 20 }; /* the disk is checked each time that a node has sent this many bytes */
#define KEEP_MAX UINT64_C(2000000000)

const char *room_text(uint64_t bytes, char ret[32])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double n = (double)bytes / 1000;
    size_t unit = 0;
    for (; n >= 1000 && unit + 1 < ARRAY_LEN(units); unit++)
        n /= 1000;
    snprintf(ret, 32, "%.1f %s", n, units[unit]);
    return ret;
}

int room_say(struct lane *lane, uint64_t bytes, struct error *err)
{
    lane->said_bytes += bytes;
    if (lane->said_bytes <= LANE_SAID_MAX)
        return 0;
    return error_set(err, ERROR_PROTOCOL, "it lists more than %d MiB of files at once", LANE_SAID_MAX >> 20);
}

int room_check(const struct run *r, const char *path, uint64_t bytes, struct error *err)
{
    struct statvfs fs;
    char free_text[32], all_text[32], keep_text[32];
    if (statvfs(path, &fs) < 0 || fs.f_blocks == 0)
        return 0; /* the caller gets the error when it writes there */
    uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize, left = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t keep = all / 20 < KEEP_MAX ? all / 20 : KEEP_MAX;
    keep >>= r->hands->crowded < 32 ? r->hands->crowded : 32;
    if (left >= keep && left - keep >= bytes)
        return 0;
    return error_set(err, ERROR_IO,
                     "this machine's disk is nearly full: %s of %s are free at \"%.300s\", and rhrun leaves %s",
                     room_text(left, free_text), room_text(all, all_text), path, room_text(keep, keep_text));
}

static struct lane *largest(struct run *r)
{
    struct lane *most = &r->lanes[0];
    for (uint32_t n = 1; n < r->plan->node_count; n++)
        if (lane_hands(&r->lanes[n])->received > lane_hands(most)->received)
            most = &r->lanes[n];
    return most;
}

int room_took(struct lane *lane, const char *path, uint64_t bytes, struct error *err)
{
    uint64_t before = lane_hands(lane)->received / LOOK_BYTES;
    lane_hands(lane)->received += bytes;
    return lane_hands(lane)->received / LOOK_BYTES == before ? 0 : room_check(lane->run, path, 0, err);
}

bool room_keeps(struct lane *lane, const char *path, uint64_t bytes)
{
    struct run *r = lane->run;
    struct error err = ERROR_INIT;
    char text[32];
    if (room_took(lane, path, bytes, &err) == 0)
        return true;
    struct lane *most = largest(r);
    r->hands->crowded++;
    error_prefix(&err, "node \"%s\" has sent %s", most->name, room_text(lane_hands(most)->received, text));
    error_hint(&err, "the rest stays on the node: make room and run the same command again");
    lane_hands(most)->received = 0; /* so that next time a different node has sent most */
    node_refuse(lane_hands(most)->node, &err);
    return most != lane;
}
