/*
 * deepspeed: one deepspeed.launcher.launch on each node, as the command `deepspeed` would start over pdsh or ssh. The
 * layout is passed as its world_info: no host file, no ssh between the nodes, no .deepspeed_env.
 */
#include "launcher.h"

#include <string.h>

enum {
    WORD_MAX = 128 << 10, /* Linux: one word of a command line */
    SHOWN_MAX = 1000,     /* of world_info, in a plan */
};

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

/* {"node-0": [0, 1], ...}: the names are for messages, and the lists become CUDA_VISIBLE_DEVICES. */
static const char *world_info(struct arena *arena, uint32_t nnodes, uint32_t each)
{
    struct buf json = {0};
    for (uint32_t node = 0; node < nnodes; node++) {
        buf_printf(&json, "%s\"node-%u\": [", node ? ", " : "{", node);
        for (uint32_t i = 0; i < each; i++)
            buf_printf(&json, "%s%u", i ? ", " : "", i);
        buf_putc(&json, ']');
    }
    buf_putc(&json, '}');
    const char *ret = base64url(arena, json.data, json.len);
    buf_free(&json);
    return ret;
}

static int build(const struct launcher_job *job, struct words *argv, struct error *err)
{
    uint32_t each, total;
    if (launcher_equal(job, &each, &total, err) < 0)
        return -1;
    const char *world = world_info(job->arena, job->distributed->nnodes, each);
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
    if (launcher_is_program(job)) /* it would come before the program's own words */
        words_add(argv, "--no_local_rank");
    return 0;
}

/* ---- planning ---- */

/* For many nodes the layout is a long word that nobody reads, so it is cut. */
static void describe_layout(struct plan_builder *b, const struct spec *spec, struct buf *ret)
{
    uint32_t nnodes = spec->distributed.nnodes, total = launcher_planned_total(spec);
    const char *word = total ? world_info(plan_arena(b), nnodes, total / nnodes) : NULL;
    if (!word)
        buf_puts(ret, " --world_info=<the workers of each node>");
    else if (strlen(word) > SHOWN_MAX)
        buf_printf(ret, " --world_info=<%u worker%s on each of %u nodes>", total / nnodes,
                   total / nnodes == 1 ? "" : "s", nnodes);
    else
        buf_printf(ret, " --world_info=%s", word);
}

static int describe(struct plan_builder *b, const struct spec *spec, const struct words *args, struct buf *ret,
                    struct error *err)
{
    (void)err;
    buf_printf(ret, "%s -m deepspeed.launcher.launch", step_python_text(b, NULL));
    describe_layout(b, spec, ret);
    buf_puts(ret, " --node_rank=" LAUNCHER_NODE_RANK " --master_addr=" LAUNCHER_FIRST_ADDRESS);
    buf_printf(ret, " --master_port=%s", launcher_planned_port(b, spec));
    launcher_put_words(ret, args);
    launcher_put_kind(spec, ret);
    if (spec->entrypoint.kind != ENTRY_SCRIPT && spec->entrypoint.kind != ENTRY_MODULE)
        buf_puts(ret, " --no_local_rank");
    return 0;
}

const struct launcher launcher_deepspeed = {
    .id = LAUNCHER_DEEPSPEED, .argparse = true, .build = build, .describe = describe};
