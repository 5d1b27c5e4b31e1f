/* rhrun import torchrun -- COMMAND LINE: prints the equivalent spec. */
#include "import.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The printed text, except workdir, must be a valid spec. It is checked in a file of its own; no message shows the name
 * of that file. */
static int check(struct cli *c, const struct buf *text)
{
    static const char *const sets[] = {"entrypoint.prolog=exit"}; /* may make the program, which is not in /tmp */
    const struct spec_overrides over = {.sets = sets, .set_count = ARRAY_LEN(sets)};
    char path[] = "/tmp/rhrun-import-XXXXXX";
    struct error err = ERROR_INIT;
    struct diagnostics d = {0};
    struct spec *spec;
    int fd = mkstemp(path), rc = 0;
    if (fd < 0 || write(fd, text->data, text->len) != (ssize_t)text->len) {
        error_set(&err, ERROR_IO, "could not write to /tmp");
        cli_print_error(c, &err);
        rc = 3;
    } else if (spec_load(path, &over, c->arena, &spec, &d, &err) < 0) {
        for (size_t i = 0; i < d.count; i++) {
            error_set(&err, ERROR_USAGE, "%s", d.items[i].message);
            if (d.items[i].hint)
                error_hint(&err, "%s", d.items[i].hint);
            cli_print_error(c, &err);
        }
        rc = 2;
    }
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    diagnostics_free(&d);
    return rc;
}

static int cmd_import(struct cli *c)
{
    struct error err = ERROR_INIT;
    struct import im;
    struct buf text = {0};
    if (!str_eq(c->words[0], "torchrun"))
        error_set(&err, ERROR_USAGE, "cannot import from \"%s\"", c->words[0]);
    else if (c->arg_count == 0)
        error_set(&err, ERROR_USAGE, "there is no command line after --");
    if (err.code != ERROR_NONE) {
        error_hint(&err, "rhrun import torchrun -- torchrun --nnodes=2 train.py --x 1");
        cli_print_error(c, &err);
        return 2;
    }
    if (import_torchrun(c->args, c->arg_count, c->arena, &im, &err) < 0)
        return cli_fail(c, &err);
    import_write(&im, false, &text);
    int rc = check(c, &text);
    buf_clear(&text);
    import_write(&im, true, &text);
    if (rc == 0)
        fwrite(text.data, 1, text.len, stdout);
    buf_free(&text);
    return rc;
}

static const enum cli_option_id options[] = {OPT_COUNT};
const struct cli_command cmd_import_command = {
    "import",
    "torchrun -- COMMAND LINE",
    "Print the spec of a torchrun command line",
    "Takes torchrun, python -m torch.distributed.run or `tune run`, with all flags;\n"
    "variables, also PET_ ones, and srun, nohup, ... may stand before it. Leaves out,\n"
    "with a comment, what rhrun gives itself or replaces.\n"
    "Example: rhrun import torchrun -- torchrun --nnodes=2 train.py --x 1 > job.yaml",
    options,
    1,
    1,
    true,
    cmd_import};
