/* Shared by several commands: errors, specs, times. */
#include "points.h"
#include "renting.h"

#include "rhrun/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RENT_OWNER_MAX = 14 /* the shortest limit among the provider files */ };

int cli_exit_status(const struct error *err)
{
    switch (err->code) {
    case ERROR_NONE:
        return 0;
    case ERROR_JOB:
        return 1;
    case ERROR_USAGE:
    case ERROR_SPEC:
        return 2;
    case ERROR_HELD:
        return 4;
    case ERROR_INTERRUPTED:
        return 130;
    case ERROR_INFRA:
    case ERROR_IO:
    case ERROR_PROTOCOL:
    case ERROR_TIMEOUT:
    case ERROR_INTERNAL:
        return 3;
    }
    return 3;
}

void cli_print_error(const struct cli *c, const struct error *err)
{
    const char *red = c->color_err ? "\033[31m" : "", *off = c->color_err ? "\033[0m" : "";
    fprintf(stderr, "rhrun: %serror:%s %s\n", red, off, err->text);
    if (c->error_lines)
        fputs(c->error_lines, stderr);
    if (err->hint[0])
        fprintf(stderr, "  hint: %s\n", err->hint);
    if (c->told && err != c->told)
        *c->told = *err;
}

/* With --json the error is printed as JSON too, except by commands whose last line reports the result. */
static void put_json_error(const struct cli *c, const struct error *err)
{
    static const char *const others[] = {"run", "rerun", "apply", "watch"};
    static const char *const lines[] = {"attach", "logs"};
    const char *name = c->command ? c->command->name : "";
    struct buf b = {0};
    bool line = false;
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strcmp(others[i], name) == 0)
            return;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        line = line || strcmp(lines[i], name) == 0;
    if (line)
        cli_json_result(&b, NULL, NULL, cli_exit_status(err), err, NULL);
    else
        cli_json_error(&b, err);
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
}

int cli_fail(const struct cli *c, const struct error *err)
{
    cli_print_error(c, err);
    if (c->given[OPT_JSON])
        put_json_error(c, err);
    return cli_exit_status(err);
}

const char *cli_quoted(struct cli *c, const char *word)
{
    struct buf b = {0};
    buf_shell_quote(&b, word);
    const char *text = arena_strdup(c->arena, b.data);
    buf_free(&b);
    return text;
}

void cli_print_diagnostics(const struct cli *c, const struct diagnostics *d)
{
    struct buf text = {0};
    bool event = c->command && strcmp(c->command->name, "run") == 0; /* one line among others */
    if (c->given[OPT_JSON]) {
        buf_puts(&text, event ? "{\"type\":\"diagnostics\",\"items\":" : "");
        diagnostics_format_json(d, &text);
        buf_puts(&text, event ? "}\n" : "\n");
        fwrite(text.data, 1, text.len, stdout);
    } else {
        diagnostics_format(d, c->color_err, &text);
        if (text.len)
            fwrite(text.data, 1, text.len, stderr);
    }
    buf_free(&text);
}

static bool is_rented(void *arg, const char *name)
{
    struct cli *c = arg;
    const char *id;
    return renting_named(c, name, &id, NULL) == 0 && id;
}

static int identity(void *arg, struct arena *arena, const char **name, const char **origin, struct error *err)
{
    (void)arg;
    return journal_identity(*name, *origin, arena, name, origin, err);
}

struct spec_overrides cli_overrides(struct cli *c)
{
    return (struct spec_overrides){.sets = c->values[OPT_SET],
                                   .set_count = c->value_count[OPT_SET],
                                   .params = c->values[OPT_PARAM],
                                   .param_count = c->value_count[OPT_PARAM],
                                   .on = c->value[OPT_ON],
                                   .args = c->args,
                                   .arg_count = c->arg_count,
                                   .alternative = c->alternative,
                                   .locked = c->given[OPT_LOCKED],
                                   .knows_rented = true,
                                   .is_rented = is_rented,
                                   .identity = identity,
                                   .arg = c,
                                   .checker = c->checker};
}

static void put_before(struct cli *c, enum cli_option_id id, const char *const *values, size_t count)
{
    size_t own = c->value_count[id];
    c->values[id] = xreallocarray(c->values[id], own + count + 1, sizeof(char *));
    for (size_t i = own; i-- > 0;)
        c->values[id][i + count] = c->values[id][i];
    for (size_t i = 0; i < count; i++)
        c->values[id][i] = arena_strdup(c->arena, values[i]);
    c->value_count[id] += count;
}

void cli_add_value(struct cli *c, enum cli_option_id id, const char *value)
{
    const size_t count = c->value_count[id]++;
    c->values[id] = xreallocarray(c->values[id], count + 1, sizeof(char *));
    c->values[id][count] = c->value[id] = value;
    c->given[id] = true;
}

void cli_take_overrides(struct cli *c, const struct state_run *run)
{
    struct spec_overrides o = run_overrides(run, c->arena);
    put_before(c, OPT_SET, o.sets, o.set_count);
    put_before(c, OPT_PARAM, o.params, o.param_count);
    if (!c->given[OPT_ON])
        c->value[OPT_ON] = arena_strdup(c->arena, o.on);
    c->args = o.args;
    c->arg_count = o.arg_count;
}

/* A file that cannot be read is reported as a fault itself; with --json in the same form. */
static void print_as_diagnostic(const struct cli *c, const struct error *err)
{
    struct diagnostics d = {0};
    struct diagnostic *one = diagnostics_add(&d, SEVERITY_ERROR, (struct place){0}, "%s", err->text);
    if (err->hint[0])
        diagnostic_hint(one, "%s", err->hint);
    cli_print_diagnostics(c, &d);
    diagnostics_free(&d);
}

static int load_spec(struct cli *c, const char *path, struct spec **ret)
{
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    if (cli_narrow_to_point(c, path, &err) < 0)
        return cli_fail(c, &err);
    struct spec_overrides o = cli_overrides(c);
    int rc = spec_load(path, &o, c->arena, ret, &d, &err);
    if (rc < 0) {
        if (d.count > 0)
            cli_print_diagnostics(c, &d);
        else if (c->given[OPT_JSON] && strcmp(c->command->name, "run") != 0)
            print_as_diagnostic(c, &err);
        cli_print_error(c, &err);
    } else if (d.count > 0 && !c->given[OPT_QUIET] && !c->given[OPT_JSON]) {
        cli_print_diagnostics(c, &d); /* warnings */
    }
    diagnostics_free(&d);
    return rc < 0 ? 2 : 0;
}

int cli_load_spec(struct cli *c, const char *path, struct spec **ret)
{
    const int rc = load_spec(c, path, ret);
    if (rc || c->alternative)
        return rc;
    c->alternative = alternative_of_cluster(c, *ret);
    return c->alternative && c->alternative != (*ret)->rent->alternative ? load_spec(c, path, ret) : 0;
}

int cli_load_planned_spec(struct cli *c, const char *path, struct spec **ret)
{
    const int rc = cli_load_spec(c, path, ret);
    if (rc || c->alternative)
        return rc;
    const uint32_t planned = alternative_of_run(c, path, *ret);
    if (!planned || planned == (*ret)->rent->alternative)
        return 0;
    c->alternative = planned;
    return load_spec(c, path, ret);
}

int cli_plan(struct cli *c, struct spec *spec, const struct roster *roster, const struct sources *sources,
             struct plan **ret)
{
    struct error err = ERROR_INIT;
    int rc = plan_compile(spec, roster, step_kinds, sources ? &sources->plan : NULL, NULL, c->arena, ret, &err);
    if (rc == 0 && c->expected_plan && !str_eq(c->expected_plan, (*ret)->hash))
        rc = error_set(&err, ERROR_USAGE, "the plan is not the saved one any more: it changed a moment ago");
    return rc < 0 ? cli_fail(c, &err) : 0;
}

int cli_check_trust(const struct cli *c, const struct roster *roster, bool offline, struct error *err)
{
    for (uint32_t i = 0; i < roster_count(roster) && !c->given[OPT_TRUST]; i++) {
        const struct spec_host *host = roster_host(roster, i);
        const char *config = host->ssh_config;
        bool seen = i > 0 && str_eq(config, roster_host(roster, i - 1)->ssh_config);
        if (host->exec)
            error_set(err, ERROR_SPEC, "host \"%s\": its spec says to run %s on this machine", host->name,
                      host->exec_text);
        else if (seen || transport_config_check(config, err) == 0)
            continue;
        error_hint(err, "%s runs nothing that a spec names: %s, then add --trust, or use rhrun run%s", c->command->name,
                   host->exec ? "look at it" : "read that line",
                   offline ? "; or plan --offline, which asks no node" : "");
        return -1;
    }
    return 0;
}

char *cli_owner_name(struct arena *arena)
{
    char host[256] = "?";
    gethostname(host, sizeof host - 1);
    const char *user = getenv("USER");
    if (!user || !*user)
        user = getenv("LOGNAME");
    if (user && *user)
        return arena_printf(arena, "%s@%s", user, host);
    return arena_printf(arena, "uid%u@%s", (unsigned)getuid(), host);
}

void cli_time(uint64_t wall, char ret[32])
{
    time_t t = (time_t)(wall / 1000);
    struct tm tm;
    if (!wall || !localtime_r(&t, &tm) || !strftime(ret, 32, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(ret, 32, "-");
}

void cli_duration(uint64_t ms, char ret[32])
{
    if (ms < 1000)
        snprintf(ret, 32, "%u ms", (unsigned)ms);
    else if (ms < 60000)
        snprintf(ret, 32, "%.1f s", (double)ms / 1000);
    else if (ms < 3600000)
        snprintf(ret, 32, "%u m %02u s", (unsigned)(ms / 60000), (unsigned)(ms / 1000 % 60));
    else
        snprintf(ret, 32, "%u h %02u m", (unsigned)(ms / 3600000), (unsigned)(ms / 60000 % 60));
}

/* If all points are done: the variant's latest run that is done; if there is none, its latest closed run. */
static const struct state_run *points_done(const struct state *state, const struct plan *plan)
{
    const struct state_run *run = NULL;
    bool all = !plan->spec->entrypoint.always && !state_run_open(state);
    for (size_t i = 0; i < state->run_count; i++)
        if (str_eq(state->runs[i].variant, plan->spec->variant) && state->runs[i].status != RUN_OPEN &&
            (!run || state->runs[i].status == RUN_DONE || run->status != RUN_DONE))
            run = &state->runs[i];
    for (uint32_t i = 0; i < plan->point_count && all; i++)
        all = run_point_recorded(state, plan, i);
    return all ? run : NULL;
}

const struct state_run *cli_done_run(const struct state *state, const struct plan *plan)
{
    const struct state_run *latest = state_run_latest(state, plan->spec->variant);
    if (plan->points)
        return points_done(state, plan);
    if (plan->spec->entrypoint.always || state_run_open(state) || !latest || latest->status != RUN_DONE ||
        !str_eq(latest->plan_hash, plan->hash))
        return NULL;
    return latest;
}

static uint64_t env_u64(const char *name)
{
    uint64_t v = 0;
    const char *text = getenv(name);
    return text && parse_u64(text, &v) ? v : 0;
}

struct session *cli_session(struct cli *c, struct loop *loop, struct journal *journal)
{
    return session_create(loop, journal, isatty(0) && !c->given[OPT_DETACHED_FD], NULL);
}

void cli_run_options(struct cli *c, struct run_options *o)
{
    o->owner_name = cli_owner_name(c->arena);
    o->flags = (c->given[OPT_AGAIN] ? RUN_FLAG_AGAIN : 0u) | (c->given[OPT_FRESH] ? RUN_FLAG_FRESH : 0u) |
               (c->given[OPT_FROM] ? RUN_FLAG_FROM : 0u) |
               (c->given[OPT_DETACH] || c->given[OPT_DETACHED_FD] ? RUN_FLAG_DETACH : 0u) |
               (c->given[OPT_REPLACE] ? RUN_FLAG_REPLACE : 0u);
    o->from_step = c->value[OPT_FROM];
    o->take_over = c->given[OPT_TAKE_OVER];
    o->replace = c->given[OPT_REPLACE];
    o->liveness_ms = (uint32_t)env_u64("RHRUN_LIVENESS_MS");
    o->reconnect_ms = env_u64("RHRUN_RECONNECT_MS");
    o->join_ms = env_u64("RHRUN_JOIN_MS");
    o->test_boot_id = getenv("RHRUN_TEST_BOOT_ID");
}

/* Short enough for providers without tags, where it is a part of the machine's name and must be found again unchanged.
 * An owner that is too long, or has other characters, is told apart by a digest. */
const char *cli_rent_owner(struct arena *arena)
{
    const char *name = cli_owner_name(arena);
    char plain[RENT_OWNER_MAX + 1], hex[65];
    size_t len = 0, at = 0;
    bool same = true;
    for (const char *p = name; *p; p++) {
        const bool upper = *p >= 'A' && *p <= 'Z', good = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9');
        at += *p == '@';
        same = same && (good || (*p == '@' && at == 1 && len > 0 && p[1])) && len < RENT_OWNER_MAX;
        if (len < RENT_OWNER_MAX && (good || upper || len > 0))
            plain[len++] = upper ? (char)(*p + 'a' - 'A') : good ? *p : '-';
    }
    plain[len] = 0;
    if (same && len > 0)
        return arena_strdup(arena, plain);
    digest_sha256_hex(name, strlen(name), hex);
    return arena_printf(arena, "%.7s-%.6s", len ? plain : "u", hex);
}
