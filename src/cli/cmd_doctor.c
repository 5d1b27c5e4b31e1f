/*
 * rhrun doctor [SPEC]: checks this machine and, with a spec, its nodes: logs in to each, starts its agent, and makes
 * the checks that precede a launch. It sets up, starts and keeps nothing there.
 */
#include "renting.h"

#include <errno.h>
#include <libssh2.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    FILES_OF_NODE = 4, /* its connection (three pipes with openssh) and a log */
    FILES_HERE = 64,
    ROOM_BYTES = 1000000000,
    SSH_MS = 10000,
    BACK_MS = 10000, /* for a node with a lost connection to come back */
};

enum verdict_here { GOOD, WARNING, BAD };
struct finding {
    const char *what, *text, *cure; /* cure: NULL = none is needed */
    enum verdict_here verdict;
    const char *const *nodes; /* the nodes that it is about */
    size_t node_count;
};
struct doctor {
    struct cli *c;
    struct loop *loop;
    struct finding *items;
    size_t count, cap;
};

static struct finding *find(struct doctor *d, const char *what, enum verdict_here verdict, const char *cure,
                            const char *fmt, ...) FORMAT(5, 6);
static struct finding *find(struct doctor *d, const char *what, enum verdict_here verdict, const char *cure,
                            const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    char *kept = arena_strdup(d->c->arena, text), *kept_cure = cure && *cure ? arena_strdup(d->c->arena, cure) : NULL;
    str_printable(kept); /* it contains text from nodes */
    if (kept_cure)
        str_printable(kept_cure);
    if (d->count == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 64;
        d->items = xreallocarray(d->items, d->cap, sizeof *d->items);
    }
    d->items[d->count] = (struct finding){.what = what, .verdict = verdict, .text = kept, .cure = kept_cure};
    return &d->items[d->count++];
}

/* ---- this machine ---- */

static const char *program_path(struct arena *arena, const char *name)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        char *full = arena_printf(arena, "%.*s/%s", (int)len, path, name);
        if (access(full, X_OK) == 0)
            return full;
        path += len + (path[len] == ':');
    }
    return NULL;
}

static void check_state(struct doctor *d)
{
    static const char cure[] = "RHRUN_HOME=DIR keeps it elsewhere";
    struct error err = ERROR_INIT;
    struct statvfs fs;
    CLEANUP(cleanup_free) char *home = journal_home(&err);
    if (!home) {
        find(d, "state directory", BAD, cure, "%s", err.text);
        return;
    }
    bool known = statvfs(home, &fs) == 0;
    uint64_t room = known ? (uint64_t)fs.f_bavail * fs.f_frsize : 0;
    if (access(home, W_OK) < 0)
        find(d, "state directory", BAD, cure, "%s cannot be written: %s", home, strerror(errno));
    else if (known && room < ROOM_BYTES)
        find(d, "state directory", WARNING, "make room: logs and the journal go there", "only %.2f GB are free at %s",
             (double)room / 1e9, home);
    else
        find(d, "state directory", GOOD, NULL, "%s, %.1f GB free", home, (double)room / 1e9);
}

static void check_files(struct doctor *d, uint32_t nodes)
{
    struct rlimit limit;
    uint64_t needed = (uint64_t)nodes * FILES_OF_NODE + FILES_HERE;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (limit.rlim_cur < needed)
        find(d, "open files", WARNING, arena_printf(d->c->arena, "ulimit -n %llu", (unsigned long long)needed),
             "%llu are allowed, and %u node%s may take %llu", (unsigned long long)limit.rlim_cur, nodes,
             nodes == 1 ? "" : "s", (unsigned long long)needed);
    else
        find(d, "open files", GOOD, NULL, "%llu are allowed", (unsigned long long)limit.rlim_cur);
}

static void check_programs(struct doctor *d)
{
    static const struct {
        const char *name, *otherwise, *cure;
    } programs[] = {
        {"ssh", "~/.ssh/config is not read without it, and transport: openssh cannot be used",
         "Debian: openssh-client"},
        {"ssh-agent", "keys with a passphrase and RSA keys cannot be used without it", "Debian: openssh-client"},
        {"ssh-add", "keys with a passphrase and RSA keys cannot be used without it", "Debian: openssh-client"},
        {"python3", "jobs on this machine that run Python need one", "Debian: python3"}};
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        const char *path = program_path(d->c->arena, programs[i].name);
        if (path)
            find(d, programs[i].name, GOOD, NULL, "%s", path);
        else
            find(d, programs[i].name, WARNING, programs[i].cure, "not found: %s", programs[i].otherwise);
    }
}

struct answer {
    struct doctor *doctor;
    char *error;
    int status;
};

static void on_ssh(void *arg, const struct loop_capture_result *result)
{
    struct answer *a = arg;
    const char *last = strrchr(result->error_text, '\n');
    a->status = result->timed_out ? -1 : result->status;
    a->error = xstrdup(result->timed_out ? "no answer" : last ? last + 1 : result->error_text);
    loop_stop(a->doctor->loop);
}

/* A fault in it prevents every ssh connection. */
static void check_ssh_config(struct doctor *d)
{
    const char *const argv[] = {"ssh", "-G", "localhost", NULL};
    struct answer a = {.doctor = d};
    struct error err = ERROR_INIT;
    if (!program_path(d->c->arena, "ssh"))
        return;
    if (!loop_capture(d->loop, argv, NULL, NULL, 1 << 20, SSH_MS, on_ssh, &a, &err)) {
        find(d, "ssh configuration", WARNING, NULL, "%s", err.text);
        return;
    }
    loop_run(d->loop);
    if (a.status == 0)
        find(d, "ssh configuration", GOOD, NULL, "ssh reads it");
    else
        find(d, "ssh configuration", BAD, "ssh -G localhost shows it in full; correct it", "%s", a.error);
    free(a.error);
}

static void check_agent(struct doctor *d)
{
    const char *path = getenv("SSH_AUTH_SOCK");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!path || !*path)
        return;
    CLEANUP(cleanup_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    if (fd >= 0 && strlen(path) < sizeof to.sun_path && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        find(d, "your ssh-agent", GOOD, NULL, "%s", path);
    else
        find(d, "your ssh-agent", WARNING, "start one (eval \"$(ssh-agent)\"), or unset SSH_AUTH_SOCK",
             "SSH_AUTH_SOCK is %s, and nobody answers there", path);
}

static void check_here(struct doctor *d, uint32_t nodes)
{
    find(d, "rhrun", GOOD, NULL, "%s; libssh2 %s, SQLite %s", RHRUN_VERSION, libssh2_version(0), sqlite3_libversion());
    check_state(d);
    check_files(d, nodes);
    check_programs(d);
    check_ssh_config(d);
    check_agent(d);
}

/* ---- the nodes ---- */

static void on_finished(void *arg)
{
    loop_stop(arg);
}

/* Nodes that fail alike are one finding. */
static void check_faults(struct doctor *d, const struct run *r, const struct plan *plan)
{
    struct cli_fault *faults;
    const size_t count = cli_faults(r, plan, d->c->arena, &faults);
    for (size_t i = 0; i < count; i++) {
        const struct cli_fault *f = &faults[i];
        struct run_node_view v;
        struct buf b = {0};
        run_node(r, f->first, &v);
        if (f->count > 1)
            cli_put_names(&b, f->names, f->count, 16);
        const char *what = f->count > 1 ? arena_printf(d->c->arena, "%zu of %u nodes", f->count, plan->node_count)
                                        : arena_printf(d->c->arena, "node %u (%s)", f->first, v.name);
        struct finding *found = f->count > 1 ? find(d, what, BAD, f->hint, "%s: %s", f->cause, b.data)
                                             : find(d, what, BAD, f->hint, "%s", v.error);
        found->nodes = f->names;
        found->node_count = f->count;
        buf_free(&b);
    }
}

static void check_node(struct doctor *d, const struct run *r, uint32_t node)
{
    struct run_node_view v;
    run_node(r, node, &v);
    if (v.presence == PRESENCE_GONE && v.error)
        return; /* check_faults */
    const char *what = arena_printf(d->c->arena, "node %u (%s)", node, v.name);
    struct finding *f;
    if (!v.facts || v.presence == PRESENCE_GONE)
        f = find(d, what, BAD, v.hint, "%s", v.error ? v.error : "no answer");
    else
        f = find(d, what, GOOD, NULL, "%s, %s %s, %u cpu%s, %.1f GiB memory, %.1f GB free disk, %u gpu%s, python %s",
                 v.facts->os, v.facts->arch, v.facts->kernel, v.facts->cpus, v.facts->cpus == 1 ? "" : "s",
                 (double)v.facts->memory_bytes / (1u << 30), (double)v.facts->disk_free_bytes / 1e9, v.facts->gpu_count,
                 v.facts->gpu_count == 1 ? "" : "s",
                 !v.facts->python[0]          ? "none"
                 : v.facts->python_version[0] ? v.facts->python_version
                                              : v.facts->python);
    const char **names = arena_array(d->c->arena, 1, sizeof *names);
    names[0] = v.name;
    f->nodes = names;
    f->node_count = 1;
}

static void take_finding(struct doctor *d, const struct plan *plan, const struct run_finding *f)
{
    const char **names = arena_array(d->c->arena, f->node_count, sizeof *names);
    for (uint32_t i = 0; i < f->node_count; i++)
        names[i] = roster_name(plan->roster, f->nodes[i]);
    struct finding *mine = find(d, f->what, f->code == ERROR_NONE ? WARNING : BAD, f->cure, "%s", f->text);
    mine->nodes = names;
    mine->node_count = f->node_count;
}

/* Adds a finding for each check that found no fault. */
static void check_rest(struct doctor *d, const struct plan *plan, const struct run_finding *found, size_t count)
{
    const struct spec_distributed *dist = &plan->spec->distributed;
    const struct spec_preflight *p = &dist->preflight;
    const struct {
        const char *what, *text;
        bool off;
    } checks[] = {{"ports", "the workers can meet", p->no_ports},
                  {"clocks", "the nodes' clocks agree", p->no_clocks || plan->node_count < 2},
                  {"disk", "the nodes have free disk space", p->no_disk},
                  {"gpus", "every node has the GPUs that its workers need", p->no_gpus},
                  {"versions", "the nodes have the same Python and torch", p->no_versions || plan->node_count < 2}};
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        bool told = checks[i].off || !dist->present;
        for (size_t k = 0; k < count; k++)
            told = told || str_eq(found[k].what, checks[i].what);
        if (!told)
            find(d, checks[i].what, GOOD, NULL, "%s", checks[i].text);
    }
}

static int check_nodes(struct doctor *d, struct plan *plan, struct journal *journal)
{
    struct run_options o = {.mode = RUN_LOOK, .preflight = true, .plan = plan};
    struct error err = ERROR_INIT;
    cli_run_options(d->c, &o);
    o.reconnect_ms = o.reconnect_ms ? o.reconnect_ms : BACK_MS;
    struct session *session = cli_session(d->c, d->loop, journal);
    struct run *r = run_create(session, &o, on_finished, d->loop);
    if (run_start(r, &err) < 0) {
        run_destroy(r);
        session_destroy(session);
        return cli_fail(d->c, &err);
    }
    loop_run(d->loop);
    bool all = true;
    for (uint32_t n = 0; n < plan->node_count; n++) {
        struct run_node_view v;
        run_node(r, n, &v);
        all = all && v.facts && v.presence != PRESENCE_GONE;
        check_node(d, r, n);
    }
    check_faults(d, r, plan);
    size_t count;
    const struct run_finding *found = run_findings(r, &count);
    for (size_t i = 0; i < count; i++)
        take_finding(d, plan, &found[i]);
    if (all)
        check_rest(d, plan, found, count);
    else if (plan->spec->distributed.present)
        find(d, "preflight", WARNING, NULL,
             "ports, clocks and versions are checked as soon as every node can be reached");
    run_destroy(r);
    session_destroy(session);
    return 0;
}

/* ---- output ---- */

static const char *const words[] = {[GOOD] = "ok", [WARNING] = "warning", [BAD] = "error"};

static void put_text(const struct doctor *d, const struct finding *f, struct buf *b)
{
    static const char *const colors[] = {[GOOD] = "\033[32m", [WARNING] = "\033[33m", [BAD] = "\033[31m"};
    bool color = d->c->color_out;
    buf_printf(b, "%s%-7s%s  %s: %s\n", color ? colors[f->verdict] : "", words[f->verdict], color ? "\033[0m" : "",
               f->what, f->text);
    if (f->cure)
        buf_printf(b, "         hint: %s\n", f->cure);
}

static void put_json(const struct finding *f, struct buf *b)
{
    buf_putc(b, '{');
    cli_json_string(b, "what", f->what);
    buf_printf(b, ",\"state\":\"%s\"", words[f->verdict]);
    cli_json_string(b, "text", f->text);
    if (f->cure)
        cli_json_string(b, "cure", f->cure);
    buf_puts(b, f->node_count ? ",\"nodes\":[" : "");
    for (size_t i = 0; i < f->node_count; i++) {
        buf_puts(b, i ? "," : "");
        buf_json_string(b, f->nodes[i], strlen(f->nodes[i]));
    }
    buf_puts(b, f->node_count ? "]}" : "}");
}

/* True: there is something that prevents a job from running. */
static bool say(const struct doctor *d)
{
    struct buf b = {0};
    bool bad = false, json = d->c->given[OPT_JSON];
    buf_puts(&b, json ? "[" : "");
    for (size_t i = 0; i < d->count; i++) {
        bad = bad || d->items[i].verdict == BAD;
        buf_puts(&b, json && i ? ",\n" : "");
        if (json)
            put_json(&d->items[i], &b);
        else if (!d->c->given[OPT_QUIET] || d->items[i].verdict != GOOD)
            put_text(d, &d->items[i], &b);
    }
    buf_puts(&b, json ? "]\n" : "");
    fwrite(b.data ? b.data : "", 1, b.len, stdout);
    buf_free(&b);
    return bad;
}

/* Whether the nodes have machines. If not, only the providers that would be asked can be listed. */
static bool has_machines(struct doctor *d, const struct spec *spec, const char *job, struct roster *roster)
{
    struct cli *c = d->c;
    struct error err = ERROR_INIT;
    struct rent_offers offers;
    const char *id = NULL;
    if (!spec->rent)
        return true;
    if (renting_look_of(c, spec, job, roster, &id, &err) < 0)
        find(d, "machines", BAD, err.hint, "%s", err.text);
    else if (!id && cli_offers(c, spec, &offers) == 0 && rent_credentials_check(&offers, c->arena, &err) < 0)
        find(d, "machines", BAD, arena_strdup(c->arena, err.hint), "%s", err.text);
    else if (!id)
        find(d, "machines", GOOD, NULL, "no machine is rented for the job; rhrun plan shows what a run would rent");
    return id && err.code == ERROR_NONE;
}

static int with_spec(struct doctor *d)
{
    struct cli *c = d->c;
    struct spec *spec;
    struct plan *plan;
    struct roster *roster = NULL;
    struct sources *sources = NULL;
    struct journal *journal = NULL;
    struct error err = ERROR_INIT;
    char id[17];
    int rc = cli_load_spec(c, c->words[0], &spec);
    if (rc == 0) {
        roster = roster_create(spec, c->arena);
        rc = cli_sources(c, spec, roster, false, &sources);
    }
    if (rc == 0)
        rc = cli_plan(c, spec, roster, sources, &plan);
    if (rc == 0) {
        journal_job_id(spec_id_name(spec), spec_id_origin(spec), id);
        if (journal_open_read(id, &journal, &err) < 0 && err.why != ERROR_WHY_ABSENT)
            find(d, "journal", BAD, err.hint, "%s", err.text);
        check_here(d, plan->node_count);
        if (cli_check_trust(c, roster, false, &err) < 0)
            find(d, "ssh_config", BAD, arena_strdup(c->arena, err.hint), "%s", err.text);
        else if (has_machines(d, spec, id, roster))
            rc = check_nodes(d, plan, journal);
    }
    journal_close(journal);
    cli_sources_close(sources);
    return rc;
}

static int cmd_doctor(struct cli *c)
{
    struct error err = ERROR_INIT;
    int rc = 0;
    if (cli_check_limits(&err) < 0)
        return cli_fail(c, &err);
    struct doctor d = {.c = c, .loop = loop_create()};
    if (c->word_count)
        rc = with_spec(&d);
    else
        check_here(&d, 0);
    if (rc == 0 && say(&d))
        rc = 3;
    loop_destroy(d.loop);
    free(d.items);
    return rc;
}

static const enum cli_option_id options[] = {OPT_TRUST, OPT_SET, OPT_PARAM, OPT_ON, OPT_COUNT};
const struct cli_command cmd_doctor_command = {
    "doctor",
    "[SPEC]",
    "Check this machine, and with a SPEC its nodes",
    "With a SPEC: logs in to each node and checks everything that is checked before a\n"
    "launch: ports, clocks, disk, GPUs, Python and torch; and whether the node has\n"
    "the Python that set-up or workers start. Sets up and starts nothing. Runs no\n"
    "command of an ssh_config that the SPEC names, unless --trust is given.\n"
    "Exit status 0, or 3 if something would keep a job from running.",
    options,
    0,
    1,
    false,
    cmd_doctor};
