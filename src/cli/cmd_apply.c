/* rhrun apply: runs every spec of a tree until it is done, or a saved plan. */
#include "apply.h"
#include "saved_plan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int apply_parallel(struct cli *c, uint32_t *ret)
{
    struct error err = ERROR_INIT;
    const char *text = c->value[OPT_PARALLEL];
    *ret = APPLY_PARALLEL;
    if (!text || (parse_u32(text, ret) && *ret >= 1 && *ret <= APPLY_PARALLEL_MAX))
        return 0;
    error_set(&err, ERROR_USAGE, "--parallel: \"%s\" is not a number from 1 to %d", text, APPLY_PARALLEL_MAX);
    return cli_fail(c, &err);
}

/* Uncommitted changes are in no other clone: nobody else could apply the same. */
static int require_clean(struct apply *a, const char *path)
{
    enum { NAMED = 5 };
    struct error err = ERROR_INIT;
    const char *const *paths = NULL;
    struct tree_repo *repo = tree_repo_open(path, &err);
    const long count = repo ? tree_repo_changes(repo, NAMED, a->c->arena, &paths, &err) : -1;
    if (count > 0) {
        struct buf b = {0};
        for (long i = 0; i < count && i < NAMED; i++) {
            CLEANUP(cleanup_free) char *name = xstrdup(paths[i]);
            str_printable(name);
            buf_printf(&b, "  %s\n", name);
        }
        if (count > NAMED)
            buf_printf(&b, "  and %ld more\n", count - NAMED);
        a->c->error_lines = arena_strdup(a->c->arena, b.data);
        buf_free(&b);
        error_set(&err, ERROR_USAGE, "\"%s\" has changes that are not committed:", tree_repo_root(repo));
        error_hint(&err, "commit them, or apply a commit: --at HEAD");
    }
    tree_repo_close(repo);
    return count == 0 ? 0 : cli_fail(a->c, &err);
}

static char *absolute(const char *cwd, const char *word)
{
    return path_clean(*word == '/' ? xstrdup(word) : xasprintf("%s/%s", cwd, word));
}

static int in_folder(struct apply *a, const char *cwd)
{
    struct cli *c = a->c;
    int rc = 0;
    for (size_t i = 0; i < c->word_count && rc == 0 && c->given[OPT_REQUIRE_CLEAN]; i++) {
        CLEANUP(cleanup_free) char *path = absolute(cwd, c->words[i]);
        rc = require_clean(a, path);
    }
    return rc ? rc : apply_gather(a, cwd, c->words, c->word_count);
}

/* Words are paths in a repository, whether they exist now or not: REPO.git/jobs is folder "jobs" of a bare one. */
static int at_commit(struct apply *a, const char *cwd)
{
    struct cli *c = a->c;
    struct error err = ERROR_INIT;
    const char **below = arena_array(c->arena, c->word_count + 1, sizeof *below), *root = NULL, *origin = NULL, *base;
    for (size_t i = 0; i < c->word_count; i++) {
        CLEANUP(cleanup_free) char *path = absolute(cwd, c->words[i]);
        struct tree_repo *repo = tree_repo_open(path, &err);
        if (!repo)
            return cli_fail(c, &err);
        below[i] = arena_strdup(c->arena, *tree_repo_below(repo) ? tree_repo_below(repo) : ".");
        const char *top = arena_strdup(c->arena, tree_repo_root(repo));
        origin = spec_repository_origin(top, tree_repo_bare(repo), c->arena);
        tree_repo_close(repo);
        if (root && !str_eq(root, top)) {
            error_set(&err, ERROR_USAGE, "\"%s\" and \"%s\" are two repositories", root, top);
            error_hint(&err, "--at takes paths of one repository");
            return cli_fail(c, &err);
        }
        root = top;
    }
    if (apply_checkout(a, root, origin, c->value[OPT_AT], &base, &err) < 0)
        return cli_fail(c, &err);
    return apply_gather(a, base, below, c->word_count);
}

void apply_free(struct apply *a)
{
    free(a->jobs);
    free(a->folders);
    free(a->removed);
}

int apply_set(struct apply *a)
{
    struct cli *c = a->c;
    struct error err = ERROR_INIT;
    int rc = apply_plan_all(a);
    if (a->count == 0)
        apply_say(a, "warning: the named folders and patterns hold no spec");
    if (rc == 0 && c->given[OPT_PRUNE] && a->folder_count < a->word_count) {
        error_set(&err, ERROR_USAGE, "--prune needs folders: a file or a pattern does not say what was removed");
        rc = cli_fail(c, &err);
    }
    if (rc == 0 && a->asked_to_stop && (a->interrupted = a->asked_to_stop(a->asked_arg)))
        return 128 + a->interrupted;
    if (rc == 0 && !c->given[OPT_DRY_RUN])
        rc = apply_run_all(a);
    if (rc == 0 && c->given[OPT_PRUNE] && !a->interrupted)
        rc = apply_prune(a);
    rc = rc ? rc : apply_exit_status(a);
    return rc;
}

/* ---- a saved plan ---- */

extern const struct cli_command cmd_run_command;

static int refuse_set_options(const struct cli *c)
{
    static const enum cli_option_id of_sets[] = {OPT_AT,    OPT_PARALLEL,      OPT_EXIT_CODE,
                                                 OPT_PRUNE, OPT_REQUIRE_CLEAN, OPT_COUNT};
    struct error err = ERROR_INIT;
    for (size_t i = 0; of_sets[i] != OPT_COUNT; i++)
        if (c->given[of_sets[i]]) {
            error_set(&err, ERROR_USAGE, "--%s is for folders and specs: \"%s\" is a saved plan",
                      cli_option_find(of_sets[i])->name, c->words[0]);
            return cli_fail(c, &err);
        }
    return 0;
}

/* Exactly that plan, or nothing. Between this check and the run's own, the plan's hash makes sure of it. */
static int apply_saved(struct cli *c)
{
    const char *file = c->words[0], *moved = NULL;
    const struct doc_node *saved;
    struct error err = ERROR_INIT;
    struct buf now = {0};
    const bool json = c->given[OPT_JSON], dry = c->given[OPT_DRY_RUN];
    if (refuse_set_options(c))
        return 2;
    if (saved_plan_read(file, c->arena, &saved, &err) < 0)
        return cli_fail(c, &err);
    saved_plan_take(c, saved);
    c->given[OPT_JSON] = false;
    c->given[OPT_TRUST] = true; /* the run trusts it too */
    int rc = cli_plan_saved(c, &now);
    c->given[OPT_JSON] = json;
    c->given[OPT_OFFLINE] = false;
    if (rc == 0 && saved_plan_compare(saved, &now, c->arena, &moved, &err) != 0) {
        if (moved)
            error_set(&err, ERROR_USAGE, "\"%s\" does not match what would be done now: nothing was started", file);
        c->error_lines = moved;
        if (moved)
            error_hint(&err, "review the new plan, and save it: rhrun plan -o %s %s", file, c->words[0]);
        rc = cli_fail(c, &err);
    }
    buf_free(&now);
    if (rc || dry) {
        if (rc == 0 && !c->given[OPT_QUIET])
            fprintf(stderr, "rhrun: the plan still holds: nothing has changed since it was saved\n");
        return rc;
    }
    c->expected_plan = doc_get_string(saved, "plan_hash", NULL);
    c->command = &cmd_run_command;
    return cmd_run_command.run(c);
}

static int cmd_apply(struct cli *c)
{
    if (c->word_count == 1 && saved_plan_is(c->words[0]))
        return apply_saved(c);
    struct apply a = {.c = c, .since_ms = wall_ms(), .quiet = c->given[OPT_QUIET], .null_fd = -1};
    CLEANUP(cleanup_free) char *cwd = getcwd(NULL, 0);
    int rc = apply_parallel(c, &a.parallel);
    if (rc == 0 && !cwd) {
        struct error err = ERROR_INIT;
        error_set(&err, ERROR_IO, "cannot find out the current folder");
        rc = cli_fail(c, &err);
    }
    if (rc == 0)
        rc = c->given[OPT_AT] ? at_commit(&a, cwd) : in_folder(&a, cwd);
    if (rc == 0) {
        rc = apply_set(&a);
        apply_show(&a, rc);
    }
    apply_free(&a);
    return rc;
}

static const enum cli_option_id options[] = {OPT_AT,    OPT_PARALLEL,      OPT_DRY_RUN, OPT_EXIT_CODE,
                                             OPT_PRUNE, OPT_REQUIRE_CLEAN, OPT_YES,     OPT_COUNT};
const struct cli_command cmd_apply_command = {
    "apply",
    "DIR|GLOB|SPEC...|PLAN",
    "Run every spec of a folder until it is done, or do a saved plan",
    "Plans all specs first; if one is invalid, or two have the same name, nothing is\n"
    "started. Jobs that are done with the same content are left alone, and their\n"
    "nodes are not asked. If another rhrun works on a job, waits for its end; no job\n"
    "runs twice. In a folder, files count that are specs (*.yaml, *.yml with\n"
    "entrypoint or roles); hidden and ignored files do not. --at: specs and code are\n"
    "those of a commit; words are paths in a repository, which may be a bare one\n"
    "(REPO.git/jobs). --prune gives back machines of jobs whose specs were removed.\n"
    "Prints one table at the end; with --json, schema apply. Exit status: 0 all is\n"
    "done; 1 a job failed; 2 nothing was started; 3 infrastructure; 10 --dry-run\n"
    "--exit-code: there is work to do. --yes lets the jobs rent machines. With PLAN,\n"
    "a file of rhrun plan --output, does exactly that plan; if spec, files, params,\n"
    "nodes, verdicts or offers have changed, does nothing and names the changes (exit\n"
    "status 2). --dry-run only looks.",
    options,
    1,
    APPLY_SPECS_MAX,
    false,
    cmd_apply};
