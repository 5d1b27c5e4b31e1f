/* journal: the ledgers of rented clusters. Durable events survive every kill; one controller at a time. */
#include "folder.h"

#include "rhrun/journal.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ID "c0ffee00d00d"

static char home[64];

static int setup(void **unused)
{
    (void)unused;
    strcpy(home, "/tmp/rhrun-clusters-XXXXXX");
    return mkdtemp(home) ? setenv("RHRUN_HOME", home, 1) : -1;
}

static int teardown(void **unused)
{
    (void)unused;
    return folder_remove(home);
}

static int replay(void *arg, const struct fleet_event *e, struct error *err)
{
    return fleet_replay(arg, e, err);
}

static struct journal_cluster *open_cluster(struct fleet *f)
{
    struct journal_cluster *c = NULL;
    struct error err = ERROR_INIT;
    if (journal_cluster_open(NULL, ID, "train", "me@here", replay, f, &c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

static void take(struct fleet *f, struct journal_cluster *c, const struct fleet_input *in)
{
    size_t count;
    fleet_take(f, in, (struct fleet_clock){.wall_ms = 1790000000000, .mono_ms = 1000});
    const struct fleet_effect *e = fleet_effects(f, &count);
    for (size_t i = 0; i < count; i++)
        if (e[i].kind == FLEET_EFFECT_APPEND)
            journal_cluster_append(c, e[i].event, NULL, NULL);
}

static void want(struct fleet *f, struct journal_cluster *c)
{
    static const struct fleet_offer offer = {
        .provider = "p", .region = "here", .zone = "", .type = "big", .nodes = 2, .gang_max = 1, .price = 1};
    const struct fleet_wanted w = {
        .id = ID, .name = "train", .owner = "me", .down = FLEET_DOWN_NEVER, .offers = &offer, .offer_count = 1};
    take(f, c, &(struct fleet_input){.kind = FLEET_INPUT_START});
    take(f, c, &(struct fleet_input){.kind = FLEET_INPUT_WANT, .wanted = &w});
}

/* A child writes, reports it and is killed; the durable events are there. */
static void test_killed(void **unused)
{
    struct error err = ERROR_INIT;
    int status;
    (void)unused;
    const pid_t child = fork();
    if (child == 0) {
        struct fleet *f = fleet_create();
        struct journal_cluster *c = NULL;
        if (journal_cluster_open(NULL, ID, "train", "me@here", replay, f, &c, &err) < 0)
            _exit(1);
        want(f, c);
        if (journal_cluster_sync(c, &err) < 0)
            _exit(1);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    struct fleet *f = fleet_create();
    struct journal_cluster *c = open_cluster(f);
    assert_int_equal(fleet_ledger_of(f)->order_count, 2);
    take(f, c, &(struct fleet_input){.kind = FLEET_INPUT_START});
    take(f, c, &(struct fleet_input){.kind = FLEET_INPUT_DOWN, .text = "why"});
    journal_cluster_close(c); /* commits what is queued */
    fleet_destroy(f);
    f = fleet_create();
    assert_int_equal(journal_cluster_read(ID, replay, f, &err), 0);
    assert_int_equal(fleet_ledger_of(f)->stage, FLEET_STAGE_ENDING);
    fleet_destroy(f);
}

static void test_one_at_a_time(void **unused)
{
    struct fleet *f = fleet_create(), *other = fleet_create();
    struct journal_cluster *c = open_cluster(f), *second = NULL;
    struct error err = ERROR_INIT;
    (void)unused;
    assert_int_equal(journal_cluster_open(NULL, ID, "train", "you", replay, other, &second, &err), -1);
    assert_int_equal(err.code, ERROR_HELD);
    assert_non_null(strstr(err.text, "cluster \"train\" is held by pid"));
    journal_cluster_close(c);
    fleet_destroy(f);
    fleet_destroy(other);
}

static void test_listed(void **unused)
{
    struct arena *arena = arena_create();
    struct fleet *f = fleet_create();
    struct error err = ERROR_INIT;
    const char *const *ids = NULL;
    struct stat st;
    (void)unused;
    assert_int_equal(journal_clusters(arena, &ids, &err), 0);
    assert_null(ids[0]);
    assert_int_equal(journal_cluster_read(ID, replay, f, &err), -1);
    assert_int_equal(err.why, ERROR_WHY_ABSENT);
    assert_int_equal(journal_cluster_read("../jobs", replay, f, &err), -1);
    assert_int_equal(err.code, ERROR_USAGE);
    struct journal_cluster *c = open_cluster(f);
    CLEANUP(cleanup_free) char *file = xasprintf("%s/clusters/" ID "/ledger.db", home);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(journal_clusters(arena, &ids, &err), 0);
    assert_string_equal(ids[0], ID);
    assert_null(ids[1]);
    journal_cluster_close(c);
    fleet_destroy(f);
    arena_destroy(arena);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_killed), TEST(test_one_at_a_time), TEST(test_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
