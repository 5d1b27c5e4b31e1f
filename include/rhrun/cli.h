/*
 * cli: the command `rhrun`: subcommands, options, what is printed, the exit status.
 *
 * One table (cli_commands) lists the subcommands; each is one file that exports a const struct cli_command
 * with its options. Help, completion and the parser read nothing else. rhrun's own text goes to stderr;
 * results and the workers' stdout to stdout.
 */
#ifndef RHRUN_CLI_H
#define RHRUN_CLI_H

#include "rhrun/base.h"

/* What the program was built from, for --version. */
struct cli_build {
    const char *commit; /* such as "1a2b3c4d5e6f", with "-dirty" if tracked files differed; "" = not known */
    const char *type;   /* CMake's build type in lower case: "release" */
};
/* Runs the command line and returns the exit status of the contract (0, 1, 2, 3, 4, 10, 130, 143). */
int cli_main(int argc, char **argv, const struct cli_build *build);
/* The one map from errors to exit status. */
int cli_exit_status(const struct error *err);

#endif
