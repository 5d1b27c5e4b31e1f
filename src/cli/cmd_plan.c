/* rhrun plan SPEC: shows what a run would do, and why. */
#include "renting.h"
#include "saved_plan.h"

#include <stdlib.h>

static const char *cell_when(struct cli *c, const struct state_cell *cell)
{
    char when[32];
    cli_time(cell->finished_ms ? cell->finished_ms : cell->started_ms, when);
    return arena_strdup(c->arena, when);
}

/* From the journal alone. */
static void offline_records(struct cli *c, const struct plan *plan, const struct state *state,
                            struct plan_record *records)
{
    for (size_t i = 0; i < plan->step_count; i++)
        for (uint32_t n = 0; n < plan->node_count; n++) {
            const struct plan_step *step = &plan->steps[i];
            const struct state_cell *cell = step->on[n] ? state_cell_find(state, step->scope, step->name, n) : NULL;
            struct plan_record *r = &records[i * plan->node_count + n];
            if (!cell)
                continue;
            r->present = true;
            r->ok = cell->outcome == OUTCOME_OK;
            r->unknown = cell->outcome == OUTCOME_UNKNOWN;
            r->live = cell->outcome == OUTCOME_NONE;
            r->key = cell->key;
            r->inputs = cell->inputs;
            r->when = cell_when(c, cell);
        }
}

/* The machines are not rented, or no longer: nothing that they held is left. */
static void rented_anew(const struct plan *plan, struct plan_record *records)
{
    for (size_t i = 0; i < plan->step_count * plan->node_count; i++) {
        records[i].contradicted = true;
        records[i].why_not = "a new machine is rented for it";
    }
}

static void flags_void(struct cli *c, const struct plan *plan, struct plan_record *records)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        if (!c->given[OPT_FRESH] && !(c->given[OPT_FROM] && plan_is_from(plan, c->value[OPT_FROM], &plan->steps[i])))
            continue;
        for (uint32_t n = 0; n < plan->node_count; n++) {
            records[i * plan->node_count + n].voided = true;
            records[i * plan->node_count + n].why_not = c->given[OPT_FRESH] ? "voided by --fresh" : "voided by --from";
        }
    }
}

/* Why a step that ended well, or still runs, is not kept although it is unchanged: the job as a whole is not done. */
static const char *why_again(struct cli *c, const struct plan *plan, const struct state *state)
{
    const struct state_run *run = state_run_latest(state, plan->spec->variant);
    if (c->given[OPT_AGAIN] || c->given[OPT_FRESH] || c->given[OPT_FROM])
        return arena_printf(c->arena, "requested by --%s",
                            c->given[OPT_AGAIN]   ? "again"
                            : c->given[OPT_FRESH] ? "fresh"
                                                  : "from");
    if (run && run->status == RUN_OPEN)
        return arena_printf(c->arena, "run %s has not ended: it goes on", run->id);
    if (run && run->status != RUN_DONE)
        return arena_printf(c->arena, "run %s was not done: %s", run->id, run_status_name(run->status));
    return plan->spec->entrypoint.always ? "`always` is set" : "the set-up or the nodes of the job changed";
}

static void put_cell(struct cli *c, const struct state_cell *cell, struct plan_record *ret)
{
    *ret = (struct plan_record){.present = true,
                                .ok = cell->outcome == OUTCOME_OK,
                                .unknown = cell->outcome == OUTCOME_UNKNOWN,
                                .live = cell->outcome == OUTCOME_NONE,
                                .verified = true,
                                .key = cell->key,
                                .inputs = cell->inputs,
                                .when = cell_when(c, cell)};
}

/* For the latest launch of the point; NULL: it has none, or this run repeats it in any case. */
static const char *point_reason(struct cli *c, const struct plan *plan, const struct state *state, uint32_t point)
{
    const struct plan_step *launch = &plan->steps[plan->points[point].launch];
    const struct state_cell *latest = NULL;
    struct plan_record record;
    char cause[128];
    for (uint32_t n = 0; n < plan->node_count; n++) {
        const struct state_cell *cell = state_cell_find(state, launch->scope, launch->name, n);
        if (cell && (!latest || cell->seq > latest->seq))
            latest = cell;
    }
    if (!latest)
        return NULL;
    put_cell(c, latest, &record);
    run_cause_text(latest->outcome, latest->cause, latest->cause_value, cause, sizeof cause);
    record.ended = latest->outcome == OUTCOME_STOPPED ? "was stopped" : arena_printf(c->arena, "failed: %s", cause);
    return plan_point_reason(plan, point, &record, c->arena);
}

static void point_records(struct cli *c, struct plan *plan, const struct state *state, bool anew)
{
    for (uint32_t i = 0; i < plan->point_count; i++) {
        struct plan_point *p = &plan->points[i];
        p->launched = state && !anew && run_point_launched(state, plan, i);
        p->recorded = state && !anew && run_point_recorded(state, plan, i);
        p->reason = state && !anew && !p->launched ? point_reason(c, plan, state, i) : NULL;
    }
}

/* A step that is not cached is kept only if the whole job is done, or all of it except its outputs. */
static void launch_records(struct cli *c, struct plan *plan, const struct state *state, struct plan_record *records)
{
    bool anew = c->given[OPT_AGAIN] || c->given[OPT_FRESH] || c->given[OPT_FROM];
    const struct state_run *done = state && !anew ? cli_done_run(state, plan) : NULL;
    const struct state_run *kept = state && !anew && !done ? run_fetchable(state, plan) : NULL;
    for (size_t i = 0; i < plan->step_count; i++)
        for (uint32_t n = 0; n < plan->node_count; n++) {
            struct plan_record *r = &records[i * plan->node_count + n];
            if (plan->steps[i].kind->cached)
                continue;
            *r = (struct plan_record){0};
            const struct plan_step *step = &plan->steps[i];
            bool outputs = step->kind->phase == PHASE_OUTPUTS;
            const struct state_cell *cell =
                state && step->on[n] ? state_cell_find(state, step->scope, step->name, n) : NULL;
            if (step->on[n] && (done || (kept && !outputs))) {
                *r = (struct plan_record){.present = true, .ok = true, .verified = true, .key = step->key};
            } else if (step->on[n] && kept) {
                if (cell && str_eq(cell->run, kept->id))
                    put_cell(c, cell, r);
                r->fetch = !r->ok || !str_eq(r->key, step->key);
            } else if (cell) {
                put_cell(c, cell, r);
                r->voided = anew || ((r->ok || r->live) && str_eq(r->key, step->key));
                r->why_not = r->voided ? why_again(c, plan, state) : NULL;
            }
        }
    point_records(c, plan, state, anew);
}

static void on_finished(void *arg)
{
    loop_stop(arg);
}

static void warn_faults(struct cli *c, const struct run *r, const struct plan *plan)
{
    struct cli_fault *faults;
    const size_t count = cli_faults(r, plan, c->arena, &faults);
    for (size_t i = 0; i < count; i++) {
        struct buf b = {0};
        struct run_node_view v;
        run_node(r, faults[i].first, &v);
        if (faults[i].count > 1)
            cli_put_fault(&b, &faults[i], plan->node_count);
        else
            buf_puts(&b, v.error);
        fprintf(stderr, "rhrun: warning: %s\n", b.data);
        buf_free(&b);
    }
}

/* Strings of the records are the run's. */
static int online(struct cli *c, struct plan *plan, struct plan_record *records, struct loop *loop,
                  struct session *session, struct run **ret_run)
{
    struct run_options o = {.mode = RUN_LOOK, .plan = plan};
    struct error err = ERROR_INIT;
    int rc = 0;
    cli_run_options(c, &o);
    o.flags = 0;
    o.from_step = NULL;
    struct run *r = *ret_run = run_create(session, &o, on_finished, loop);
    if (run_start(r, &err) < 0) {
        rc = cli_fail(c, &err);
    } else {
        loop_run(loop);
        struct plan_facts *facts = arena_array(c->arena, plan->node_count, sizeof *facts);
        for (uint32_t n = 0; n < plan->node_count; n++) {
            struct run_node_view v;
            run_node(r, n, &v);
            if (v.facts)
                facts[n] = (struct plan_facts){true, v.facts->cpus, v.facts->gpu_count};
            else if (v.error && v.presence != PRESENCE_GONE)
                fprintf(stderr, "rhrun: warning: %s\n", v.error);
        }
        warn_faults(c, r, plan);
        if (plan_bind_ranks(plan, facts, c->arena, &err) < 0)
            fprintf(stderr, "rhrun: warning: %s\n", err.text);
        for (size_t i = 0; i < plan->step_count * plan->node_count; i++) {
            const char *when = records[i].when;
            records[i] = run_records(r)[i];
            records[i].when = when;
            records[i].unasked = plan->steps[i / plan->node_count].kind->cached && !facts[i % plan->node_count].known;
        }
    }
    return rc;
}

static int write_out(struct cli *c, const struct buf *text)
{
    struct error err = ERROR_INIT;
    if (!c->given[OPT_OUTPUT]) {
        fwrite(text->data, 1, text->len, stdout);
        return 0;
    }
    if (file_write_atomic(c->value[OPT_OUTPUT], text->data, text->len, 0644, &err) == 0)
        return 0;
    cli_print_error(c, &err);
    return 3;
}

/* --files: asks no node and compares nothing. */
static int show_files(struct cli *c, const struct sources *sources)
{
    struct buf text = {0};
    cli_format_files(sources, c->given[OPT_JSON], &text);
    int rc = write_out(c, &text);
    buf_free(&text);
    return rc;
}

/* What follows once a plan is decided. 0, or an exit status. */
typedef int plan_use(struct cli *c, const struct plan *plan, const struct plan_decision *decisions,
                     const struct sources *sources, void *arg);

static int save(struct cli *c, const struct plan *plan, const struct plan_decision *decisions,
                const struct sources *sources, void *arg)
{
    saved_plan_put(c, plan, decisions, sources, arg);
    return 0;
}

/* -o: saves the plan, and shows it too. It contains the values of --set, like a journal: mode 0600. */
static int write_saved(struct cli *c, const struct plan *plan, const struct plan_decision *decisions,
                       const struct sources *sources)
{
    struct error err = ERROR_INIT;
    struct buf text = {0};
    saved_plan_put(c, plan, decisions, sources, &text);
    int rc = file_write_atomic(c->value[OPT_OUTPUT], text.data, text.len, 0600, &err) < 0 ? cli_fail(c, &err) : 0;
    buf_free(&text);
    return rc;
}

static int show(struct cli *c, const struct plan *plan, const struct plan_decision *decisions,
                const struct sources *sources, void *arg)
{
    struct buf text = {0};
    (void)arg;
    if (c->given[OPT_JSON]) {
        plan_format_json(plan, decisions, &text);
        if (!str_ends(text.data ? text.data : "", "\n"))
            buf_putc(&text, '\n');
    } else {
        plan_format(plan, decisions, c->color_out, c->given[OPT_VERBOSE], &text);
    }
    int rc = c->given[OPT_OUTPUT] ? write_saved(c, plan, decisions, sources) : 0;
    if (rc == 0)
        fwrite(text.data, 1, text.len, stdout);
    buf_free(&text);
    return rc;
}

static int make_plan(struct cli *c, struct spec *spec, const struct roster *roster, const struct sources *sources,
                     struct rent_offers *offers, plan_use *use, void *arg)
{
    struct plan *plan;
    struct journal *journal = NULL;
    struct loop *loop = NULL;
    struct session *session = NULL;
    struct run *run = NULL;
    struct error err = ERROR_INIT;
    char id[17];
    int rc = cli_plan(c, spec, roster, sources, &plan);
    if (rc)
        return rc;
    plan->rent = offers ? cli_plan_rent(c, offers) : NULL;
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), id);
    if (journal_open_read(id, &journal, &err) < 0 && err.why != ERROR_WHY_ABSENT)
        return cli_fail(c, &err);
    const struct state *state = journal ? journal_state(journal) : NULL;
    size_t cells = plan->step_count * plan->node_count;
    struct plan_record *records = xcalloc(cells + 1, sizeof *records);
    struct plan_decision *decisions = xcalloc(cells + 1, sizeof *decisions);
    if (state)
        offline_records(c, plan, state, records);
    bool there = run_check_machines(roster, &err) == 0;
    if (!there)
        rented_anew(plan, records);
    if (!c->given[OPT_OFFLINE] && there && cli_check_limits(&err) < 0) {
        rc = cli_fail(c, &err);
    } else if (!c->given[OPT_OFFLINE] && there) {
        loop = loop_create();
        session = cli_session(c, loop, journal);
        rc = online(c, plan, records, loop, session, &run);
    }
    flags_void(c, plan, records);
    launch_records(c, plan, state, records);
    plan_decide(plan, records, !c->given[OPT_OFFLINE], c->arena, decisions);
    if (rc == 0)
        rc = use(c, plan, decisions, sources, arg);
    for (size_t i = 0; i < cells && rc == 0 && c->given[OPT_EXIT_CODE]; i++)
        if (plan->steps[i / plan->node_count].on[i % plan->node_count] && decisions[i].verdict != VERDICT_KEEP &&
            decisions[i].verdict != VERDICT_NOT_NEEDED)
            rc = 10;
    run_destroy(run);
    session_destroy(session);
    loop_destroy(loop);
    journal_close(journal);
    free(records);
    free(decisions);
    return rc;
}

/* A plan does not check another job's cluster: a missing one is a fault only when the job is run. */
static void warn_borrowed(struct cli *c, const struct spec *spec)
{
    const char *id;
    struct error err = ERROR_INIT;
    if (!spec->rent || !spec->rent->cluster || c->given[OPT_QUIET] || renting_find_borrowed(c, spec, &id, &err) == 0)
        return;
    fprintf(stderr, "rhrun: warning: %s\n", err.text);
    if (err.hint[0])
        fprintf(stderr, "  hint: %s\n", err.hint);
}

static int plan_spec(struct cli *c, plan_use *use, void *arg)
{
    struct spec *spec;
    struct sources *sources = NULL;
    struct rent_offers offers;
    struct error err = ERROR_INIT;
    int rc = cli_load_planned_spec(c, c->words[0], &spec);
    bool rents = rc == 0 && spec->rent && !spec->rent->cluster && !c->given[OPT_FILES];
    const struct roster *roster = rc == 0 ? roster_create(spec, c->arena) : NULL;
    if (rc == 0 && !c->given[OPT_OFFLINE] && !c->given[OPT_FILES] && cli_check_trust(c, roster, true, &err) < 0)
        rc = cli_fail(c, &err);
    if (rents && rc == 0)
        rc = cli_offers(c, spec, &offers);
    if (rc == 0)
        rc = cli_sources(c, spec, roster, false, &sources);
    if (rc == 0) {
        cli_warn_sources(c, sources);
        warn_borrowed(c, spec);
        rc = c->given[OPT_FILES] ? show_files(c, sources)
                                 : make_plan(c, spec, roster, sources, rents ? &offers : NULL, use, arg);
    }
    cli_sources_close(sources);
    return rc;
}

int cli_plan_saved(struct cli *c, struct buf *ret)
{
    return plan_spec(c, save, ret);
}

static int cmd_plan(struct cli *c)
{
    return plan_spec(c, show, NULL);
}

static const enum cli_option_id options[] = {OPT_EXIT_CODE, OPT_OFFLINE, OPT_TRUST, OPT_OUTPUT, OPT_FILES,
                                             OPT_SET,       OPT_PARAM,   OPT_ON,    OPT_AGAIN,  OPT_FRESH,
                                             OPT_FROM,      OPT_POINT,   OPT_COUNT};
const struct cli_command cmd_plan_command = {
    "plan",
    "SPEC",
    "Show what would be done on which node, and why",
    "For each step: keep, run, or run again because of the input that it names. Asks\n"
    "the nodes what they have recorded; --offline uses only the journal. Runs no\n"
    "command of an ssh_config that the SPEC names, unless --trust is given. For\n"
    "machines to rent it shows the offers in order, what they cost and what risk\n"
    "remains, and asks no provider. --exit-code: 0 nothing to do, 10 there is work to\n"
    "do. --output also saves the plan: rhrun apply FILE does it, or says what has\n"
    "changed. --files lists instead the files that an empty node would be sent:\n"
    "count, bytes, every file; no node is asked.",
    options,
    1,
    1,
    true,
    cmd_plan};
