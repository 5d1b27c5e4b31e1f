/* rhrun ssh: a shell, or one command, where a job runs. */
#include "renting.h"

#include "rhrun/container.h"
#include "rhrun/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* By name or number; without either the first. */
static int find_node(const struct cli *c, const struct roster *roster, uint32_t *ret, struct error *err)
{
    const char *word = c->word_count > 1 ? c->words[1] : NULL;
    uint32_t count = roster_count(roster);
    *ret = 0;
    for (uint32_t i = 0; word && i < count; i++)
        if (strcmp(roster_name(roster, i), word) == 0) {
            *ret = i;
            return 0;
        }
    if (!word || (parse_u32(word, ret) && *ret < count))
        return 0;
    const char **names = arena_array(c->arena, (size_t)count + 1, sizeof *names);
    for (uint32_t i = 0; i < count; i++)
        names[i] = roster_name(roster, i);
    const char *near = str_nearest(word, names);
    error_set(err, ERROR_USAGE, "the job has no node \"%s\"", word);
    if (near)
        error_hint(err, "did you mean %s?", near);
    else if (count == 1)
        error_hint(err, "it has one: %s, or by number 0", names[0]);
    else
        error_hint(err, "it has %u: %s%s, or by number 0 to %u", count, names[0], count > 1 ? ", ..." : "", count - 1);
    return -1;
}

/* The node's folder of the job, as the last run found it; NULL: none has been there. */
static const char *work_dir(const struct cli *c, const char *job, const struct spec_host *host, uint32_t node)
{
    struct journal *j;
    struct error none = ERROR_INIT;
    struct diagnostics d = {0};
    struct doc *doc;
    const char *folder = host->work_dir;
    if (folder || journal_open_read(job, &j, &none) < 0)
        return folder;
    const struct state *s = journal_state(j);
    const char *facts = node < s->node_count ? s->nodes[node].facts_json : NULL;
    if (facts && str_eq(s->nodes[node].host, host->name) &&
        doc_load_text("facts", facts, strlen(facts), DOC_FORMAT_JSON, c->arena, &doc, &d, &none) == 0)
        folder = arena_strdup(c->arena, doc_get_string(doc->root, "work_dir", NULL));
    diagnostics_free(&d);
    journal_close(j);
    return folder && *folder ? folder : NULL;
}

/* What is to be run there, for /bin/sh: the words behind --, else a shell for a person. */
static const char *text_of(const struct cli *c)
{
    struct buf b = {0};
    if (c->arg_count == 0)
        return "command -v bash >/dev/null 2>&1 && exec bash; exec sh";
    if (c->arg_count == 1) /* as ssh takes it: a text */
        return c->args[0];
    buf_puts(&b, "exec");
    for (size_t i = 0; i < c->arg_count; i++) {
        buf_putc(&b, ' ');
        buf_shell_quote(&b, c->args[i]);
    }
    const char *text = arena_strdup(c->arena, b.data);
    buf_free(&b);
    return text;
}

/* Becomes the program that leads there. */
static int go(struct cli *c, const struct container_place *place, const char *folder, bool terminal)
{
    struct error err = ERROR_INIT;
    struct buf text = {0};
    struct transport_host host;
    run_reach(place->host, place->node, &host);
    if (place->host->container) {
        container_enter(place, terminal && !place->host->exec, folder, text_of(c), &text);
    } else {
        if (folder) {
            buf_puts(&text, "cd ");
            buf_shell_quote(&text, folder);
            buf_puts(&text, " || exit; ");
        }
        buf_puts(&text, text_of(c));
    }
    const char *const *argv = transport_login(&host, terminal, text.data, c->arena);
    buf_free(&text);
    fflush(NULL);
    execvp(argv[0], (char *const *)argv);
    error_errno(&err, ERROR_INFRA, errno, "cannot run %s", argv[0]);
    return cli_fail(c, &err);
}

static int no_machine(struct error *err, uint32_t node)
{
    error_set(err, ERROR_USAGE, "no machine is rented for node %u", node);
    error_hint(err, "rhrun clusters shows the clusters; rhrun up SPEC rents one");
    return -1;
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
        rc = no_machine(&err, node);
    if (rc < 0)
        return cli_fail(c, &err);
    hosts[node].name = arena_printf(c->arena, "node-%u", node);
    const struct container_place place = {&hosts[node], id, node};
    return go(c, &place, NULL, terminal);
}

static int cmd_ssh(struct cli *c)
{
    struct spec *spec;
    struct error err = ERROR_INIT;
    uint32_t node;
    char job[17];
    const char *cluster;
    size_t args = c->arg_count;
    const bool terminal = isatty(0) && isatty(1) && args == 0;
    if (renting_named(c, c->words[0], &cluster, &err) < 0)
        return cli_fail(c, &err);
    if (cluster)
        return go_to_cluster(c, cluster, terminal);
    c->arg_count = 0; /* they are no arguments of the job */
    int rc = cli_load_spec(c, c->words[0], &spec);
    c->arg_count = args;
    if (rc)
        return rc;
    struct roster *roster = roster_create(spec, c->arena);
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), job);
    if (find_node(c, roster, &node, &err) < 0 ||
        (spec->rent && renting_look_of(c, spec, job, roster, &cluster, &err) < 0))
        return cli_fail(c, &err);
    const struct container_place place = {roster_host(roster, node), job, node};
    if (place.host->transport == SPEC_TRANSPORT_RENTED) {
        no_machine(&err, node);
        return cli_fail(c, &err);
    }
    return go(c, &place, work_dir(c, job, place.host, node), terminal);
}

static const enum cli_option_id options[] = {OPT_SET, OPT_PARAM, OPT_ON, OPT_COUNT};
const struct cli_command cmd_ssh_command = {
    "ssh",
    "SPEC|CLUSTER [NODE] [-- COMMAND...]",
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
