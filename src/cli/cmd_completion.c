/* rhrun completion: prints the files that shells read (src/cli/completion), and the candidates for a line that is being
 * typed. */
#include "internal.h"

#include <string.h>

/* Called by the shell's file: `rhrun completion candidates -- WORD... CURRENT`. */
static const char asked[] = "candidates";

extern const char rhrun_completion_bash[], rhrun_completion_zsh[], rhrun_completion_fish[];

static int cmd_completion(struct cli *c)
{
    static const struct {
        const char *shell, *text;
    } files[] = {{"bash", rhrun_completion_bash}, {"zsh", rhrun_completion_zsh}, {"fish", rhrun_completion_fish}};
    struct error err = ERROR_INIT;
    const char *word = c->words[0];
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (strcmp(word, files[i].shell) == 0 && !c->has_args) {
            fputs(files[i].text, stdout);
            return 0;
        }
    if (strcmp(word, asked) == 0) {
        struct buf b = {0};
        cli_complete(c->arena, c->args, c->arg_count, &b);
        fwrite(b.data ? b.data : "", 1, b.len, stdout);
        buf_free(&b);
        return 0;
    }
    if (c->has_args)
        error_set(&err, ERROR_USAGE, "rhrun completion takes no arguments after --");
    else
        error_set(&err, ERROR_USAGE, "there is no completion for \"%s\"", word);
    error_hint(&err, "bash, zsh or fish");
    return cli_fail(c, &err);
}

static const enum cli_option_id options[] = {OPT_COUNT};
const struct cli_command cmd_completion_command = {
    "completion",
    "SHELL",
    "Print a completion script for bash, zsh or fish",
    "For bash: source <(rhrun completion bash); for zsh the same, after compinit;\n"
    "for fish: rhrun completion fish | source. Commands, options, runs, steps, nodes,\n"
    "params and points are completed as they are when the line is typed.",
    options,
    1,
    1,
    true,
    cmd_completion};
