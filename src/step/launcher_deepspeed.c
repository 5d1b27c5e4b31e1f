/*
 * deepspeed: one deepspeed.launcher.launch on each node, which is what the command `deepspeed` starts over pdsh or ssh.
 * The layout goes along as its world_info: no host file, no ssh between the nodes, no .deepspeed_env.
 */
#include "launcher.h"

#include <string.h>

enum { WORD_MAX = 128 << 10 }; /* Linux: one word of a command line */

static char *base64url(struct arena *arena, const char *text, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char *ret = arena_alloc(arena, (len + 2) / 3 * 4 + 1), *p = ret;
    for (size_t i = 0; i < len; i += 3) {
        uint32_t n = (uint32_t)(unsigned char)text[i] << 16;
        if (i + 1 < len)
            n |= (uint32_t)(unsigned char)text[i + 1] << 8;
        if (i + 2 < len)
            n |= (unsigned char)text[i + 2];
        *p++ = digits[n >> 18];
        *p++ = digits[n >> 12 & 63];
        *p++ = i + 1 < len ? digits[n >> 6 & 63] : '=';
        *p++ = i + 2 < len ? digits[n & 63] : '=';
    }
    *p = 0;
    return ret;
}

/* {"node-0": [0, 1], ...}: its names are for messages, its lists become CUDA_VISIBLE_DEVICES. */
static const char *world_info(const struct launcher_job *job, uint32_t each)
{
    struct buf json = {0};
    for (uint32_t node = 0; node < job->distributed->nnodes; node++) {
        buf_printf(&json, "%s\"node-%u\": [", node ? ", " : "{", node);
        for (uint32_t i = 0; i < each; i++)
            buf_printf(&json, "%s%u", i ? ", " : "", i);
        buf_putc(&json, ']');
    }
    buf_putc(&json, '}');
    const char *ret = base64url(job->arena, json.data, json.len);
    buf_free(&json);
    return ret;
}

static int build(const struct launcher_job *job, struct words *argv, struct error *err)
{
    uint32_t each, total;
    if (launcher_equal(job, &each, &total, err) < 0)
        return -1;
    const char *world = world_info(job, each);
    if (strlen(world) > WORD_MAX - 64)
        return error_set(err, ERROR_SPEC, "%u nodes are too many for one word of deepspeed's command line",
                         job->distributed->nnodes);
    words_add(argv, job->python);
    words_add(argv, "-m");
    words_add(argv, "deepspeed.launcher.launch");
    words_printf(argv, "--world_info=%s", world);
    words_printf(argv, "--node_rank=%u", job->bind->node);
    words_printf(argv, "--master_addr=%s", job->bind->master_address);
    words_printf(argv, "--master_port=%u", job->bind->master_port);
    if (launcher_args(job, argv, err) < 0)
        return -1;
    launcher_kind(job, argv);
    if (launcher_is_program(job)) /* it would stand before the program's own words */
        words_add(argv, "--no_local_rank");
    return 0;
}

const struct launcher launcher_deepspeed = {
    .id = LAUNCHER_DEEPSPEED, .typed = "deepspeed", .argparse = true, .build = build};
