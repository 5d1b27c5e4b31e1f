/* run: the order of prolog, launch and epilog, whenever the controller dies and however late a node is back. */
#include "sim_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROGRAM(...) ((struct sim_program){__VA_ARGS__})
enum { NODES = 2, FAR = 1000 };

static struct sim_play play;
static uint32_t ended[3]; /* programs of prolog, launch, epilog */

static size_t phase_of(const char *slot)
{
    return strcmp(slot, "prolog") == 0 ? 0 : strcmp(slot, "launch") == 0 ? 1 : strcmp(slot, "epilog") == 0 ? 2 : 3;
}

/* Every program: none starts while one of an earlier phase runs, and no launch before each prolog has ended. */
static void on_program(void *arg, uint32_t node, const struct wire_run *run, uint32_t nth, struct sim_program *ret)
{
    struct sim_job *job = *(struct sim_job **)arg;
    size_t count, phase = phase_of(run->slot);
    const struct sim_start *starts = sim_starts(job->net, &count);
    uint32_t begun[4] = {0};
    for (size_t i = 0; i < count; i++)
        begun[phase_of(starts[i].slot)]++;
    begun[phase] -= phase < 3 && count > 0 && strcmp(starts[count - 1].slot, run->slot) == 0; /* maybe this one */
    for (size_t earlier = 0; earlier < phase && phase < 3; earlier++)
        if (begun[earlier] != ended[earlier])
            fail_msg("%s starts on node %u while %s runs", run->slot, node, earlier ? "launch" : "prolog");
    play_program(&play, node, run, nth, ret);
}

static void on_end(void *arg, uint32_t node, const struct wire_record *record)
{
    (void)arg, (void)node;
    if (phase_of(record->slot) < 3)
        ended[phase_of(record->slot)]++;
}

static enum sim_fault on_frame(void *arg, uint32_t node, enum wire_type type, const char *slot)
{
    (void)arg;
    return play_frame(&play, node, type, slot);
}

static struct sim_job *current;

static struct sim_job *begin(void)
{
    play_script(&play);
    const struct sim_script script = {.program = on_program, .frame = on_frame, .ended = on_end, .arg = &current};
    memset(ended, 0, sizeof ended);
    current = sim_job_create(NODES, &script);
    current->backoff_ms = 2;
    sim_job_step(current, "deps");
    current->spec.entrypoint.prolog.text = "before";
    current->spec.entrypoint.epilog.text = "after";
    return current;
}

/* ---- where the controller dies ---- */

static uint32_t events_left, turns_left;

static void at_event(struct sim_job *job, const struct event *e)
{
    (void)e;
    if (events_left > 0 && --events_left == 0)
        sim_cut(job->net);
}

static bool at_turn(struct sim_job *job)
{
    if (turns_left > 0 && --turns_left == 0)
        sim_cut(job->net);
    return sim_is_cut(job->net);
}

enum life { ENDED, KILLED, KILLED_AFTER_ITS_END };

static enum life live(struct sim_job *job, uint32_t event, uint32_t turn, uint64_t lost)
{
    events_left = event;
    turns_left = turn;
    job->on_event = at_event;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    bool died = sim_job_turns(job, at_turn);
    events_left = turns_left = 0;
    if (!died) {
        sim_job_close(job);
        return ENDED;
    }
    sim_job_kill(job, lost);
    return sim_job_events(job, EVENT_RUN_CLOSED) ? KILLED_AFTER_ITS_END : KILLED;
}

/* ---- events ---- */

struct scene {
    void (*programs)(void);
    uint32_t max_restarts, launches;
    int status;
    const char *error;
};

static void all_well(void)
{
    play_does(&play, 0, "prolog", 0, PROGRAM(.turns = 2));
    play_does(&play, 1, "prolog", 0, PROGRAM(.turns = 8));
    play_does(&play, ANY, "launch", 0, PROGRAM(.turns = 3));
    play_does(&play, 0, "epilog", 0, PROGRAM(.turns = 5));
}

static void a_prolog_fails(void)
{
    play_does(&play, 0, "prolog", 0, PROGRAM(.endless = true));
    play_does(&play, 1, "prolog", 0, PROGRAM(.status = 5, .turns = 4));
    play_does(&play, ANY, "epilog", 0, PROGRAM(.turns = 5));
}

static void a_worker_fails_once(void)
{
    all_well();
    play_does(&play, 1, "launch", 1, PROGRAM(.status = 5, .turns = 2));
}

static void a_worker_fails(void)
{
    all_well();
    play_does(&play, 1, "launch", 0, PROGRAM(.status = 5, .turns = 2));
}

static void an_epilog_fails(void)
{
    all_well();
    play_does(&play, 1, "epilog", 0, PROGRAM(.status = 5, .turns = 2));
}

static const struct scene scenes[] = {
    {all_well, 0, 1, 0, ""},
    {a_prolog_fails, 0, 0, 1, "prolog on node \"n1\": exit status 5"},
    {a_worker_fails_once, 1, 2, 0, ""},
    {a_worker_fails, 0, 1, 1, "on node \"n1\": exit status 5"},
    {an_epilog_fails, 0, 1, 1, "epilog on node \"n1\": exit status 5"},
};

static void check_end(struct sim_job *job, const struct scene *s, enum life life, const char *where)
{
    if (life == ENDED && (job->result.exit_status != s->status || !strstr(job->result.error.text, s->error)))
        fail_msg("%s: status %d, \"%s\"\n%s", where, job->result.exit_status, job->result.error.text, job->said.data);
    for (uint32_t n = 0; n < NODES; n++)
        if (sim_started(job->net, n, "prolog") != 1 || sim_started(job->net, n, "launch") != s->launches ||
            sim_started(job->net, n, "epilog") != 1)
            fail_msg("%s: node %u has started %u prologs, %u launches, %u epilogs\n%s", where, n,
                     sim_started(job->net, n, "prolog"), sim_started(job->net, n, "launch"),
                     sim_started(job->net, n, "epilog"), job->said.data);
    assert_int_equal(sim_live(job->net), 0);
}

/* The controller dies at `event` or `turn`, then perhaps again; node `late` is back later than the other. False: it did
 * not die. */
static bool play_scene(size_t scene, uint32_t event, uint32_t turn, uint32_t again, uint32_t late)
{
    char where[120];
    struct sim_job *job = begin();
    const struct scene *s = &scenes[scene];
    snprintf(where, sizeof where, "scene %zu, killed at event %u or turn %u, then at event %u, node %u late", scene,
             event, turn, again, late);
    s->programs();
    job->spec.distributed.max_restarts = s->max_restarts;
    enum life first = live(job, event, turn, event + turn), life = first;
    for (int i = 0; i < 3 && late < NODES; i++)
        play_trap(&play, late, WIRE_LIST, NULL, 0, SIM_DROP_BEFORE);
    if (life == KILLED && again)
        life = live(job, again, 0, again);
    if (life == KILLED)
        life = live(job, 0, 0, 0);
    check_end(job, s, life, where);
    sim_job_destroy(job);
    return first != ENDED;
}

static void test_killed_at_every_event(void **unused)
{
    (void)unused;
    for (size_t scene = 0; scene < ARRAY_LEN(scenes); scene++)
        for (uint32_t late = 1; late <= NODES; late++)
            for (uint32_t event = 1; event < FAR && play_scene(scene, event, 0, 0, late); event++)
                ;
}

static void test_killed_at_every_turn(void **unused)
{
    (void)unused;
    for (size_t scene = 0; scene < ARRAY_LEN(scenes); scene++)
        for (uint32_t turn = 1; turn < FAR && play_scene(scene, 0, turn, 0, NODES); turn++)
            ;
}

static void test_killed_twice(void **unused)
{
    (void)unused;
    for (size_t scene = 0; scene < ARRAY_LEN(scenes); scene++)
        for (uint32_t event = 1; event < FAR && play_scene(scene, event, 0, 1 + event % 4, event % (NODES + 1));
             event++)
            ;
}

/* A failure that ended well the second time is not why the job failed. */
static void test_a_retry_is_no_cause(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    job->setup[0].retry_times = 1;
    play_does(&play, 1, "setup:deps", 1, PROGRAM(.status = 7));
    play_does(&play, 1, "prolog", 0, PROGRAM(.status = 5));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_string_equal(job->result.error.text, "prolog on node \"n1\": exit status 5");
    assert_string_equal(job->result.cause_step, "prolog");
    sim_job_destroy(job);
}

/* ---- only the nodes' ledgers are left ---- */

/* A finished job loses its state directory; the next controller dies at `event`; and the one after it continues. */
static bool play_lost(void (*programs)(void), uint32_t launches, uint32_t epilogs, int status, uint32_t event)
{
    struct sim_job *job = begin();
    programs();
    assert_int_equal(sim_job_run(job, 0), status);
    sim_job_forget(job);
    sim_job_quiet(job);
    job->take_over = true;
    enum life life = live(job, event, 0, event);
    if (life == KILLED)
        assert_int_equal(live(job, 0, 0, 0), ENDED);
    if (life != KILLED_AFTER_ITS_END)
        assert_int_equal(job->result.exit_status, 0);
    for (uint32_t n = 0; n < NODES; n++)
        if (sim_started(job->net, n, "setup:deps") != 1 || sim_started(job->net, n, "prolog") != 1 ||
            sim_started(job->net, n, "launch") != launches || sim_started(job->net, n, "epilog") != epilogs)
            fail_msg("killed at event %u: node %u has started %u prologs, %u launches, %u epilogs\n%s", event, n,
                     sim_started(job->net, n, "prolog"), sim_started(job->net, n, "launch"),
                     sim_started(job->net, n, "epilog"), job->said.data);
    sim_job_destroy(job);
    return life != ENDED;
}

static void test_lost_when_it_was_done(void **unused)
{
    (void)unused;
    for (uint32_t event = 1; event < FAR && play_lost(all_well, 1, 1, 0, event); event++)
        ;
}

/* Half a launch is no launch, and the steps after it do not count for the launch that takes its place. */
static void test_lost_when_half_was_done(void **unused)
{
    (void)unused;
    for (uint32_t event = 1; event < FAR && play_lost(a_worker_fails_once, 2, 2, 1, event); event++)
        ;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_every_event), cmocka_unit_test(test_killed_at_every_turn),
        cmocka_unit_test(test_killed_twice),          cmocka_unit_test(test_a_retry_is_no_cause),
        cmocka_unit_test(test_lost_when_it_was_done), cmocka_unit_test(test_lost_when_half_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
