/* Which node of which job, and how to get there. */
#include "login.h"

#include "renting.h"

#include "rhrun/container.h"
#include "rhrun/transport.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* By name or number; by default the first. */
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
    else
        cli_hint_nodes(err, names, count);
    return -1;
}

/* The spec of a run, with the run's options. */
static int take_run(struct cli *c, const char *word, const char **ret_path, struct login *l, struct error *err)
{
    struct journal *j;
    const struct state_run *run;
    if (cli_find_run(c, word, &j, &run, err) < 0)
        return -1;
    cli_take_overrides(c, run);
    l->run = arena_strdup(c->arena, run->id);
    l->work = arena_strdup(c->arena, run->work ? run->work : run->variant);
    *ret_path = arena_strdup(c->arena, run->spec_path);
    journal_close(j);
    return *ret_path ? 0 : error_set(err, ERROR_USAGE, "run %s does not say which spec it was of", l->run);
}

int login_no_machine(struct error *err, uint32_t node)
{
    error_set(err, ERROR_USAGE, "no machine is rented for node %u", node);
    error_hint(err, "rhrun clusters shows the clusters; rhrun up SPEC rents one");
    return -1;
}

int login_find(struct cli *c, bool needs_run, struct login *ret)
{
    struct error err = ERROR_INIT;
    struct login l = {.args = c->args, .arg_count = c->arg_count};
    const char *path = c->words[0], *cluster;
    c->args = NULL;
    c->arg_count = 0;
    c->has_args = false;
    if ((needs_run || !cli_is_spec_word(path)) && take_run(c, path, &path, &l, &err) < 0) {
        if (!err.hint[0] && cli_is_spec_word(c->words[0]) && access(c->words[0], F_OK) == 0)
            error_hint(&err, "rhrun %s first: it sets the job up on its nodes", cli_quoted(c, c->words[0]));
        return cli_fail(c, &err);
    }
    int rc = cli_load_spec(c, path, &l.spec);
    if (rc)
        return rc;
    l.roster = roster_create(l.spec, c->arena);
    journal_job_id(spec_id_name(l.spec), spec_id_origin(l.spec), l.job);
    if (find_node(c, l.roster, &l.node, &err) < 0 ||
        (l.spec->rent && renting_look_of(c, l.spec, l.job, l.roster, &cluster, &err) < 0))
        return cli_fail(c, &err);
    l.host = roster_host(l.roster, l.node);
    if (l.host->transport == SPEC_TRANSPORT_RENTED) {
        login_no_machine(&err, l.node);
        return cli_fail(c, &err);
    }
    *ret = l;
    return 0;
}

static const char *fact(struct cli *c, const struct doc *doc, const char *key)
{
    const char *text = arena_strdup(c->arena, doc_get_string(doc->root, key, NULL));
    return text && *text ? text : NULL;
}

struct login_facts login_facts(struct cli *c, const struct login *l, uint32_t node)
{
    struct login_facts f = {0};
    struct journal *j;
    struct error none = ERROR_INIT;
    struct diagnostics d = {0};
    struct doc *doc;
    if (journal_open_read(l->job, &j, &none) < 0)
        return f;
    const struct state *s = journal_state(j);
    const char *facts = node < s->node_count ? s->nodes[node].facts_json : NULL;
    if (facts && str_eq(s->nodes[node].host, roster_host(l->roster, node)->name) &&
        doc_load_text("facts", facts, strlen(facts), DOC_FORMAT_JSON, c->arena, &doc, &d, &none) == 0)
        f = (struct login_facts){.install = arena_strdup(c->arena, s->nodes[node].install),
                                 .work_dir = fact(c, doc, "work_dir"),
                                 .home = fact(c, doc, "home"),
                                 .base_dir = fact(c, doc, "base_dir"),
                                 .address = fact(c, doc, "address")};
    diagnostics_free(&d);
    journal_close(j);
    return f;
}

const char *const *login_argv(struct cli *c, const struct container_place *place, const char *folder, const char *text,
                              bool terminal)
{
    struct buf all = {0};
    struct transport_host host;
    run_reach(place->host, place->node, &host);
    if (place->host->container) {
        container_enter(place, terminal && !place->host->exec, folder, text, &all);
    } else {
        if (folder) {
            buf_puts(&all, "cd ");
            buf_shell_quote(&all, folder);
            buf_puts(&all, " || exit; ");
        }
        buf_puts(&all, text);
    }
    const char *const *argv = transport_login(&host, terminal, all.data, c->arena);
    buf_free(&all);
    return argv;
}

int login_become(struct cli *c, const char *const *argv)
{
    struct error err = ERROR_INIT;
    fflush(NULL);
    execvp(argv[0], (char *const *)argv);
    error_errno(&err, ERROR_INFRA, errno, "cannot run %s", argv[0]);
    return cli_fail(c, &err);
}
