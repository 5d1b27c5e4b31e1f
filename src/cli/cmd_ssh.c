/* rhrun ssh: a shell, or one command, on a node of a job. */
#include "login.h"

#include "renting.h"

#include "rhrun/container.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text that /bin/sh runs there: the words after --, else a login shell. */
static const char *text_of(struct cli *c, const char *const *args, size_t count)
{
    struct buf b = {0};
    if (count == 0)
        return "command -v bash >/dev/null 2>&1 && exec bash; exec sh";
    if (count == 1) /* as for ssh: a shell command */
        return args[0];
    buf_puts(&b, "exec");
    for (size_t i = 0; i < count; i++) {
        buf_putc(&b, ' ');
        buf_shell_quote(&b, args[i]);
    }
    const char *text = arena_strdup(c->arena, b.data);
    buf_free(&b);
    return text;
}

/* A node of a cluster, whatever job it was rented for. */
static int go_to_cluster(struct cli *c, const char *id, bool terminal)
{
    struct error err = ERROR_INIT;
    struct fleet_ledger *l;
    struct spec_host *hosts;
    uint32_t node = 0;
    if (rent_read(id, &l, &err) < 0)
        return cli_fail(c, &err);
    const uint32_t count = l->slot_count;
    int rc = rent_hosts(l, c->arena, &hosts, &err);
    fleet_ledger_destroy(l);
    const char *word = c->word_count > 1 ? c->words[1] : "0";
    const char *digits = str_starts(word, "node-") ? word + 5 : word;
    if (rc == 0 && (!parse_u32(digits, &node) || node >= count)) {
        rc = error_set(&err, ERROR_USAGE, "the cluster has no node \"%s\"", word);
        error_hint(&err, "it has %u, by number from 0 on", count);
    }
    if (rc == 0 && !hosts[node].host)
        rc = login_no_machine(&err, node);
    if (rc < 0)
        return cli_fail(c, &err);
    hosts[node].name = arena_printf(c->arena, "node-%u", node);
    const struct container_place place = {&hosts[node], id, node};
    return login_become(c, login_argv(c, &place, NULL, text_of(c, c->args, c->arg_count), terminal));
}

/* The job's folder on the node, as the last run found it; NULL: no run has been there. */
static const char *folder_of(struct cli *c, const struct login *l)
{
    return l->host->work_dir ? l->host->work_dir : login_facts(c, l, l->node).work_dir;
}

static int cmd_ssh(struct cli *c)
{
    struct error err = ERROR_INIT;
    struct login l;
    const char *cluster;
    const bool terminal = isatty(0) && isatty(1) && c->arg_count == 0;
    if (renting_named(c, c->words[0], &cluster, &err) < 0)
        return cli_fail(c, &err);
    if (cluster)
        return go_to_cluster(c, cluster, terminal);
    int rc = login_find(c, false, &l);
    if (rc)
        return rc;
    const struct container_place place = {l.host, l.job, l.node};
    const char *text = text_of(c, l.args, l.arg_count);
    return login_become(c, login_argv(c, &place, folder_of(c, &l), text, terminal));
}

static const enum cli_option_id options[] = {OPT_SET, OPT_PARAM, OPT_ON, OPT_COUNT};
const struct cli_command cmd_ssh_command = {
    "ssh",
    "SPEC|RUN|CLUSTER [NODE] [-- COMMAND...]",
    "Open a shell on a node of the job, or run one command there",
    "NODE is a name or a number, by default the first node. The shell begins in the\n"
    "job's working directory, and inside the job's container if it has one. Over SSH\n"
    "this starts your ssh, with the settings of the host in the spec. The exit status\n"
    "is that of the command.",
    options,
    1,
    2,
    true,
    cmd_ssh};
