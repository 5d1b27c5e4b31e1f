/* rhrun rerun: repeats a run exactly. The run's lock is written to the state directory, and is the spec of a job of its
 * own. */
#include "rerun.h"

#include <stdlib.h>
#include <string.h>

enum { TOLD_MAX = 20 };

/* ---- differences before the run ---- */

void rerun_say(struct rerun_look *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    str_printable(text);
    if (l->count++ < TOLD_MAX)
        fprintf(stderr, "rhrun: warning: not as it was: %s\n", text);
}

void rerun_note(struct rerun_look *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    str_printable(text);
    if (!l->c->given[OPT_QUIET])
        fprintf(stderr, "rhrun: %s\n", text);
}

static void compare_text(struct rerun_look *l, const char *node, const char *what, const char *now, const char *then)
{
    if (then && *then && now && !str_eq(now, then))
        rerun_say(l, "node %s: %s is %s, it was %s", node, what, *now ? now : "not there", then);
}

/* An image that is not there yet is unknown until it is pulled. */
static void compare_image(struct rerun_look *l, const char *node, const struct wire_facts *f,
                          const struct doc_node *host)
{
    const char *then = doc_get_string(host, "image_id", NULL), *digest = doc_get_string(host, "image_digest", NULL);
    const char *name = doc_get_string(host, "image", "?");
    if (!then || str_eq(f->image, then) || (digest && str_eq(f->image_digest, digest)))
        return;
    if (*f->image)
        rerun_say(l, "node %s: image %s is %s now, it was %s%s%s", node, name, f->image, then, digest ? ", " : "",
                  digest ? digest : "");
    else
        rerun_say(l, "node %s: image %s is not there yet: whether it is still %s shows once it is pulled", node, name,
                  digest ? digest : then);
}

static void compare_node(struct rerun_look *l, const struct doc_node *host, const struct run_node_view *v)
{
    const struct wire_facts *f = v->facts;
    const char *name = v->name;
    struct buf gpus = {0};
    const struct doc_node *list = doc_get(host, "gpus");
    if (!f) {
        rerun_say(l, "node %s: it could not be asked: %s", name, v->error ? v->error : "no answer");
        return;
    }
    compare_text(l, name, "the machine", f->hostname, doc_get_string(host, "hostname", NULL));
    /* outside a container that does not exist yet, these differ in any case */
    const bool inside = !doc_get(host, "container") || *f->container;
    if (inside)
        compare_text(l, name, "its system", f->os, doc_get_string(host, "os", NULL));
    compare_text(l, name, "its kernel", f->kernel, doc_get_string(host, "kernel", NULL));
    compare_text(l, name, "its processor", f->arch, doc_get_string(host, "arch", NULL));
    compare_text(l, name, "its CPU", f->cpu, doc_get_string(host, "cpu", NULL));
    if (inside)
        compare_text(l, name, "its python3", f->python_version, doc_get_string(host, "python", NULL));
    compare_image(l, name, f, host);
    compare_text(l, name, "NVIDIA's driver", f->gpu_driver, doc_get_string(host, "gpu_driver", NULL));
    for (size_t i = 0; list && i < list->count; i++)
        buf_printf(&gpus, "%s%s", i ? "\n" : "", list->items[i]->text);
    if (!str_eq(gpus.data ? gpus.data : "", f->gpus ? f->gpus : ""))
        rerun_say(l, "node %s: it has other GPUs", name);
    int64_t cpus = doc_get_int(host, "cpus", f->cpus);
    if (cpus != f->cpus)
        rerun_say(l, "node %s: it has %u CPUs, it had %lld", name, f->cpus, (long long)cpus);
    buf_free(&gpus);
}

static void on_finished(void *arg)
{
    loop_stop(arg);
}

/* Asks all nodes for their facts; starts nothing there. */
static void compare_nodes(struct rerun_look *l, struct plan *plan)
{
    const struct doc_node *hosts = doc_get(l->spec->lock->root, "hosts");
    struct run_options o = {.mode = RUN_LOOK, .plan = plan};
    struct error err = ERROR_INIT;
    if (cli_check_limits(&err) < 0)
        return;
    struct loop *loop = loop_create();
    struct session *session = cli_session(l->c, loop, NULL);
    cli_run_options(l->c, &o);
    o.flags = 0;
    o.from_step = NULL;
    struct run *r = run_create(session, &o, on_finished, loop);
    if (run_start(r, &err) == 0)
        loop_run(loop);
    if (plan->node_count != hosts->count)
        rerun_say(l, "there are %u nodes, there were %zu", plan->node_count, hosts->count);
    for (size_t i = 0; i < hosts->count; i++) {
        struct run_node_view v;
        int64_t n = doc_get_int(hosts->items[i], "node", -1);
        if (n < 0 || n >= plan->node_count)
            continue;
        run_node(r, (uint32_t)n, &v);
        compare_node(l, hosts->items[i], &v);
    }
    run_destroy(r);
    session_destroy(session);
    loop_destroy(loop);
}

static void compare_env(struct rerun_look *l)
{
    const struct doc_node *env = doc_get(l->spec->lock->root, "env");
    char hex[65];
    for (size_t i = 0; env && i < env->count; i++) {
        const char *now = getenv(env->members[i].key);
        digest_sha256_hex(now ? now : "", now ? strlen(now) : 0, hex);
        if (!now || !str_eq(hex, env->members[i].value->text))
            rerun_say(l, "env %s, which is taken from your environment, has another value", env->members[i].key);
    }
}

static void compare_rest(struct rerun_look *l)
{
    const struct doc_node *root = l->spec->lock->root, *installs = doc_get(root, "installs");
    const char *version = doc_get_text(doc_get(root, "made_by"), "rhrun", NULL);
    bool asks = false;
    for (size_t i = 0; i < l->spec->setup_count; i++) {
        const struct spec_step *s = &l->spec->setup[i];
        asks = asks || s->item == ITEM_REQUIREMENTS || (s->item == ITEM_PIP && !strstr(s->name, "locked:"));
    }
    if (asks)
        rerun_say(l, "the lock does not have %s packages: the packages that the spec names are installed",
                  installs->count ? "all" : "any");
    if (spec_in_place(l->spec))
        rerun_say(l, "the job works in place, in %s: its files were not kept", l->spec->dir);
    if (version && *version && strcmp(version, RHRUN_VERSION) != 0)
        rerun_say(l, "this is rhrun %s, it was %s", RHRUN_VERSION, version);
}

int cli_rerun_check(struct cli *c, const struct spec *spec, const struct roster *roster, struct plan *plan)
{
    struct rerun_look l = {c, spec, 0};
    struct error err = ERROR_INIT;
    if (c->given[OPT_DETACHED_FD])
        return 0;
    compare_rest(&l);
    compare_env(&l);
    if (run_check_machines(roster, &err) == 0) {
        compare_nodes(&l, plan);
        rerun_ask_index(&l, roster);
    } else {
        rerun_say(&l, "its machines will be rented again, and are not known yet");
    }
    if (l.count > TOLD_MAX)
        fprintf(stderr, "rhrun: warning: not as it was: %u more\n", l.count - TOLD_MAX);
    if (!c->given[OPT_STRICT] || l.count == 0)
        return 0;
    error_set(&err, ERROR_USAGE, "%u thing%s not as in run %s, and --strict is given: nothing was started", l.count,
              l.count == 1 ? " is" : "s are", spec->lock->run);
    return cli_fail(c, &err);
}

/* ---- differences after the run ---- */

/* By node and name: "0 role name" -> version, and a hash where two files of one version may differ. */
static struct doc_node *packages_of(struct arena *a, const struct doc_node *lock)
{
    struct doc_node *all = doc_new_object(a);
    const struct doc_node *installs = doc_get(lock, "installs");
    for (size_t i = 0; i < installs->count; i++) {
        const struct doc_node *nodes = doc_get(installs->items[i], "nodes");
        const struct doc_node *packages = doc_get(installs->items[i], "packages");
        const char *role = doc_get_string(installs->items[i], "role", "");
        for (size_t n = 0; n < nodes->count; n++)
            for (size_t k = 0; k < packages->count; k++)
                doc_set(a, all,
                        arena_printf(a, "%s on node %s%s%s", doc_get_text(packages->items[k], "name", ""),
                                     nodes->items[n]->text, *role ? " of role " : "", role),
                        doc_new_string(a, doc_get_text(packages->items[k], "version", "")));
    }
    return all;
}

static unsigned tell_packages(struct arena *a, const struct doc_node *now_lock, const struct doc_node *then_lock)
{
    const struct doc_node *now = packages_of(a, now_lock), *then = packages_of(a, then_lock);
    unsigned count = 0;
    for (size_t i = 0; i < then->count; i++) {
        const char *is = doc_get_string(now, then->members[i].key, NULL);
        if (!str_eq(is, then->members[i].value->text) && count++ < TOLD_MAX)
            fprintf(stderr, "rhrun: warning: not as it was: %s is %s, it was %s\n", then->members[i].key,
                    is ? is : "not there", then->members[i].value->text);
    }
    for (size_t i = 0; i < now->count; i++)
        if (!doc_get(then, now->members[i].key) && count++ < TOLD_MAX)
            fprintf(stderr, "rhrun: warning: not as it was: %s is %s, it was not there\n", now->members[i].key,
                    now->members[i].value->text);
    return count;
}

void cli_rerun_compare(struct cli *c, const struct spec *spec)
{
    struct journal *j;
    struct doc_node *lock;
    struct error err = ERROR_INIT;
    if (c->given[OPT_QUIET] || c->given[OPT_JSON] || journal_open_read(spec->job_id, &j, &err) < 0)
        return;
    const struct state_run *run = state_run_latest(journal_state(j), spec->variant);
    if (run && lock_of_run(j, run->id, c->arena, &lock, &err) == 0 && doc_get(lock, "installs")->count > 0 &&
        tell_packages(c->arena, lock, spec->lock->root) == 0)
        fprintf(stderr, "rhrun: the same packages as in run %s\n", spec->lock->run);
    journal_close(j);
}

/* ---- the command ---- */

/* In the state directory, where any process that continues the run finds it. */
static int keep_lock(struct cli *c, const char *word, struct error *err)
{
    struct journal *j;
    const struct state_run *run;
    struct doc_node *lock;
    struct buf text = {0};
    struct cli plain = {.command = c->command, .arena = c->arena, .color_err = c->color_err};
    if (cli_find_run(&plain, word, &j, &run, err) < 0) /* -p and words after -- are for the rerun, and choose no run */
        return -1;
    const char *id = arena_strdup(c->arena, run->id);
    CLEANUP(cleanup_free) char *home = journal_home(err);
    int rc = home ? lock_of_run(j, id, c->arena, &lock, err) : -1;
    journal_close(j);
    if (rc < 0)
        return -1;
    const char *folder = arena_printf(c->arena, "%s/reruns", home);
    const char *path = arena_printf(c->arena, "%s/%s.lock.yaml", folder, id);
    lock_write(lock, false, &text);
    rc = mkdir_p(folder, 0700, err);
    if (rc == 0)
        rc = file_write_atomic(path, text.data, text.len, 0600, err);
    buf_free(&text);
    c->words[0] = path;
    return rc;
}

static bool is_lock_file(struct cli *c, const char *word)
{
    struct diagnostics d = {0};
    struct doc *doc;
    bool is = (strchr(word, '/') || strchr(word, '.')) &&
              doc_load_file(word, DOC_FORMAT_AUTO, c->arena, &doc, &d, NULL) == 0 && spec_is_lock(doc->root);
    diagnostics_free(&d);
    return is;
}

/* Whether the param differs between the points. */
static bool differs(const struct doc_node *points, const char *param)
{
    for (size_t i = 1; i < points->count; i++)
        if (!doc_equal(doc_get(doc_get(points->items[0], "params"), param),
                       doc_get(doc_get(points->items[i], "params"), param)))
            return true;
    return false;
}

/* --point becomes -p of the params that differ between the lock's points. */
static int choose_point(struct cli *c, struct error *err)
{
    struct diagnostics d = {0};
    struct doc *doc;
    if (!c->given[OPT_POINT])
        return 0;
    const int rc = lock_load(c->words[0], c->arena, &doc, &d, err);
    diagnostics_free(&d);
    const struct doc_node *points = rc == 0 ? doc_get(doc->root, "points") : NULL;
    const char **names = arena_array(c->arena, (points ? points->count : 0) + 1, sizeof *names);
    const struct doc_node *chosen = NULL;
    for (size_t i = 0; points && i < points->count; i++) {
        names[i] = doc_get_string(points->items[i], "name", "");
        if (str_eq(names[i], c->value[OPT_POINT]))
            chosen = doc_get(points->items[i], "params");
    }
    if (rc < 0)
        return -1;
    if (!chosen) {
        error_set(err, ERROR_USAGE, "--point: the lock has no point \"%.200s\"", c->value[OPT_POINT]);
        const char *near = str_nearest(c->value[OPT_POINT], names);
        if (near)
            error_hint(err, "did you mean %s?", near);
        return -1;
    }
    for (size_t i = 0; i < chosen->count; i++)
        if (differs(points, chosen->members[i].key))
            cli_add_value(c, OPT_PARAM,
                          arena_printf(c->arena, "%s=%s", chosen->members[i].key, chosen->members[i].value->text));
    c->given[OPT_POINT] = false;
    return 0;
}

static int cmd_rerun(struct cli *c)
{
    struct error err = ERROR_INIT;
    if (tree_is_bundle(c->words[0])) {
        if (cli_read_bundle(c, c->words[0], &c->words[0], &err) < 0)
            return cli_fail(c, &err);
    } else if (!is_lock_file(c, c->words[0]) && keep_lock(c, c->words[0], &err) < 0)
        return cli_fail(c, &err);
    if (choose_point(c, &err) < 0)
        return cli_fail(c, &err);
    return cmd_run_command.run(c);
}

static const enum cli_option_id options[] = {OPT_PARAM,   OPT_POINT,     OPT_ON,     OPT_STRICT,      OPT_AGAIN,
                                             OPT_FRESH,   OPT_FROM,      OPT_DETACH, OPT_DETACHED_FD, OPT_TAKE_OVER,
                                             OPT_REPLACE, OPT_NO_PREFIX, OPT_YES,    OPT_COUNT};
const struct cli_command cmd_rerun_command = {
    "rerun",
    "RUN|LOCK|BUNDLE [-- ARG...]",
    "Repeat a run exactly: the same files, packages, params",
    "RUN is an id, a unique prefix, last, or a spec (its latest run); LOCK is a file\n"
    "that show --lock or run --lock wrote, BUNDLE one that show --bundle wrote. Files\n"
    "come from the snapshot store; the packages of the lock are installed in a folder\n"
    "and venv of their own. Before anything starts, names everything that cannot be\n"
    "as it was; --strict then starts nothing. -p and ARGs replace what they name.\n"
    "Relative outputs go to rerun-RUN/.",
    options,
    1,
    1,
    true,
    cmd_rerun};
