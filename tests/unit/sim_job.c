/* Controllers over simulated nodes. A kill is simulated in this process: the net stops, then the journal is closed and
 * cut at a point between the acknowledged and the appended events. These are the states that a real kill can leave. */
#include "folder.h"
#include "sim_job.h"

#include "rhrun/step.h"
#include "sim_made_up.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEADLINE_S = 20 };

struct sim_job *sim_job_create(uint32_t nodes, const struct sim_script *script)
{
    struct sim_job *job = xcalloc(1, sizeof *job);
    job->arena = arena_create();
    job->loop = loop_create();
    job->net = sim_create(job->loop, nodes, script);
    /* The journal syncs each group: in memory if there is such a folder. */
    snprintf(job->home, sizeof job->home, "%s/rhrun-run-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(job->home) || setenv("RHRUN_HOME", job->home, 1) < 0)
        fail_msg("no temporary folder");
    job->hosts = arena_array(job->arena, nodes, sizeof *job->hosts);
    job->spec = made_up_spec(job->arena, job->hosts, nodes);
    job->spec.setup = job->setup;
    job->reconnect_ms = 20000;
    job->backoff_ms = 1;
    return job;
}

struct spec_step *sim_job_step(struct sim_job *job, const char *name)
{
    if (job->spec.setup_count == SIM_STEPS_MAX)
        fail_msg("too many steps");
    struct spec_step *s = &job->setup[job->spec.setup_count++];
    *s = (struct spec_step){
        .name = name, .run = {.text = arena_printf(job->arena, "make %s", name)}, .retry_backoff_ms = 1};
    return s;
}

void sim_job_destroy(struct sim_job *job)
{
    run_destroy(job->run);
    session_destroy(job->session);
    journal_close(job->journal);
    sim_destroy(job->net);
    sim_trees_forget();
    sim_tree_broken(NULL);
    loop_destroy(job->loop);
    arena_destroy(job->arena);
    buf_free(&job->said);
    buf_free(&job->lines);
    folder_remove(job->home);
    free(job);
}

/* ---- watching ---- */

void sim_event_text(const struct event *e, struct buf *b)
{
    uint32_t generation = 0;
    bool joins = false;
    const char *reason = NULL;
    buf_printf(b, "%s", event_type_name(e->type));
    switch (e->type) {
    case EVENT_STARTED:
        buf_printf(b, " %s@%u", e->started.attempts[0].step, e->started.attempts[0].node);
        generation = e->started.generation;
        joins = e->started.joins;
        break;
    case EVENT_FINISHED:
        buf_printf(b, " %s@%u %s%s", e->finished.step, e->finished.node, outcome_name(e->finished.outcome),
                   e->finished.adopted ? " adopted" : "");
        generation = e->finished.generation;
        break;
    case EVENT_RESTART:
        generation = e->restart.generation;
        reason = e->restart.reason;
        break;
    case EVENT_REISSUE:
        generation = e->reissue.generation;
        reason = e->reissue.reason;
        break;
    case EVENT_RULE:
        generation = e->rule.generation;
        reason = e->rule.reason;
        break;
    case EVENT_CANCELLING:
        reason = e->cancelling.reason;
        break;
    case EVENT_RUN_CLOSED:
        reason = e->closed.reason;
        break;
    case EVENT_NOTE:
        reason = e->note.reason;
        break;
    case EVENT_RUN_OPENED:
    case EVENT_RUN_REOPENED:
    case EVENT_NODE_BOUND:
    case EVENT_SETTLED:
    case EVENT_METRICS:
    case EVENT_INSTALLED:
        break;
    }
    if (generation)
        buf_printf(b, " generation %u%s", generation, joins ? " joins" : "");
    if (reason)
        buf_printf(b, ": %s", reason);
}

static void on_event(void *arg, const struct event *e)
{
    struct sim_job *job = arg;
    if (sim_is_cut(job->net))
        return;
    job->durable_seq = e->seq;
    sim_event_text(e, &job->said);
    buf_putc(&job->said, '\n');
    if (job->on_event)
        job->on_event(job, e);
}

static void on_line(void *arg, const struct run_line *line)
{
    struct sim_job *job = arg;
    buf_printf(&job->lines, "%s %.*s\n", line->node_name, (int)line->line->len, line->line->text);
}

static void on_finished(void *arg)
{
    struct sim_job *job = arg;
    const struct run_result *res = run_result(job->run);
    job->finished = true;
    job->result = *res;
    snprintf(job->cause_node, sizeof job->cause_node, "%s", res->has_cause && res->cause_node ? res->cause_node : "");
    snprintf(job->cause_step, sizeof job->cause_step, "%s", res->has_cause && res->cause_step ? res->cause_step : "");
    job->result.cause_node = job->cause_node;
    job->result.cause_step = job->cause_step;
    snprintf(job->unverified, sizeof job->unverified, "%s", res->unverified_reason ? res->unverified_reason : "");
    job->result.cause_tail = NULL;
    job->result.unverified_reason = job->unverified;
}

bool sim_job_said(const struct sim_job *job, const char *text)
{
    return job->said.data && strstr(job->said.data, text);
}

void assert_said(const struct sim_job *job, const char *text)
{
    if (!sim_job_said(job, text))
        fail_msg("not said: %s; but:\n%s", text, job->said.data ? job->said.data : "");
}

void assert_error(const struct sim_job *job, const char *text)
{
    if (!strstr(job->result.error.text, text))
        fail_msg("the error is \"%s\", not \"%s\"", job->result.error.text, text);
}

void sim_job_quiet(struct sim_job *job)
{
    buf_clear(&job->said);
    buf_clear(&job->lines);
}

/* ---- a controller's life ---- */

int sim_job_start(struct sim_job *job, enum run_mode mode, uint32_t flags)
{
    struct error err = ERROR_INIT;
    struct transport_sim_script sim = sim_transport(job->net);
    sim_revive(job->net);
    job->finished = false;
    job->result = (struct run_result){.exit_status = -1};
    if (plan_compile(&job->spec, roster_create(&job->spec, job->arena), sim_kinds(&job->kinds), NULL, NULL, job->arena,
                     &job->plan, &err) < 0 ||
        journal_open(job->loop, job->spec.name, job->spec.origin, "me@here", &job->journal, &err) < 0)
        fail_msg("%s", err.text);
    job->durable_seq = journal_state(job->journal)->last_seq;
    struct run_options o = {.mode = mode,
                            .preflight = job->preflight,
                            .plan = job->plan,
                            .owner_name = "me@here",
                            .flags = flags,
                            .from_step = job->from_step,
                            .take_over = job->take_over,
                            .replace = job->replace,
                            .liveness_ms = job->liveness_ms,
                            .hello_ms = job->hello_ms,
                            .backoff_ms = job->backoff_ms,
                            .reconnect_ms = job->reconnect_ms,
                            .late_ms = job->late_ms,
                            .join_ms = job->join_ms,
                            .store = sim_store(),
                            .observer = {.event = on_event, .line = on_line, .arg = job}};
    job->session = session_create(job->loop, job->journal, false, &sim);
    job->run = run_create(job->session, &o, on_finished, job);
    if (run_start(job->run, &err) == 0)
        return 0;
    job->result.error = err;
    return -1;
}

bool sim_job_turns(struct sim_job *job, bool (*until)(struct sim_job *job))
{
    uint64_t end = mono_ns() + (uint64_t)DEADLINE_S * 1000000000;
    while (!job->finished) {
        if (until && until(job))
            return true;
        if (!loop_turn(job->loop, true) && !job->finished && !(until && until(job)))
            fail_msg("the controller waits for nothing; it said:\n%s", job->said.data ? job->said.data : "");
        if (mono_ns() > end)
            fail_msg("no end after %d s; it said:\n%s", DEADLINE_S, job->said.data ? job->said.data : "");
    }
    return until && until(job);
}

void sim_job_wait(struct sim_job *job)
{
    sim_job_turns(job, NULL);
}

void sim_job_close(struct sim_job *job)
{
    run_destroy(job->run);
    session_destroy(job->session);
    journal_close(job->journal);
    job->session = NULL;
    job->run = NULL;
    job->journal = NULL;
}

int sim_job_mode(struct sim_job *job, enum run_mode mode, uint32_t flags)
{
    int rc = sim_job_start(job, mode, flags);
    if (rc == 0)
        sim_job_wait(job);
    sim_job_close(job);
    return rc < 0 ? -1 : job->result.exit_status;
}

int finish(struct sim_job *job)
{
    sim_job_wait(job);
    sim_job_close(job);
    return job->result.exit_status;
}

int sim_job_run(struct sim_job *job, uint32_t flags)
{
    return sim_job_mode(job, RUN_EXECUTE, flags);
}

static void job_file(const struct sim_job *job, const char *name, char *ret, size_t size)
{
    char id[17];
    journal_job_id(job->spec.name, job->spec.origin, id);
    snprintf(ret, size, "%s/jobs/%s/%s", job->home, id, name);
}

void sim_job_kill(struct sim_job *job, uint64_t random)
{
    char path[256], sql[96];
    uint64_t last = journal_state(job->journal)->last_seq, keep = job->durable_seq;
    sim_cut(job->net);
    keep += random % (last - keep + 1);
    sim_job_close(job);
    job_file(job, "journal.db", path, sizeof path);
    snprintf(sql, sizeof sql, "DELETE FROM events WHERE seq>%llu", (unsigned long long)keep);
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", path, sqlite3_errmsg(db));
    sqlite3_close(db);
}

void sim_job_forget(struct sim_job *job)
{
    char path[256];
    job_file(job, "", path, sizeof path);
    assert_int_equal(folder_remove(path), 0);
}

static struct journal *read_journal(const struct sim_job *job)
{
    struct journal *j = NULL;
    char id[17];
    journal_job_id(job->spec.name, job->spec.origin, id);
    journal_open_read(id, &j, NULL);
    return j;
}

bool sim_job_is_done(struct sim_job *job)
{
    struct journal *j = read_journal(job);
    const struct state_run *latest = j ? state_run_latest(journal_state(j), NULL) : NULL;
    bool done = latest && latest->status == RUN_DONE;
    journal_close(j);
    return done;
}

void sim_job_each(struct sim_job *job, bool (*fn)(void *arg, const struct event *e), void *arg)
{
    struct journal *j = read_journal(job);
    struct error err = ERROR_INIT;
    if (!j || journal_each(j, 0, fn, arg, &err) < 0)
        fail_msg("%s", err.text);
    journal_close(j);
}

struct counting {
    enum event_type type;
    size_t count;
};

static bool count_one(void *arg, const struct event *e)
{
    struct counting *c = arg;
    c->count += e->type == c->type;
    return true;
}

size_t sim_job_events(struct sim_job *job, enum event_type type)
{
    struct counting c = {type, 0};
    sim_job_each(job, count_one, &c);
    return c.count;
}
