/* fleet: the tables, and the ledger with its JSON. Reactions: test_fleet_scenes.c; random worlds:
 * test_fleet_worlds.c. */
#include "../../src/fleet/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- tables ---- */

static void test_belief(void **unused)
{
    static const struct {
        enum entry entry;
        enum seen seen;
        uint32_t facts;
        enum belief then;
    } rows[] = {
        {ENTRY_NONE, SEEN_READY, 0, BELIEF_LEAVE},
        {ENTRY_READY, SEEN_ABSENT, 0, BELIEF_LEAVE},
        {ENTRY_NONE, SEEN_COMING, OF_OURS, BELIEF_ADOPT},
        {ENTRY_NONE, SEEN_FAILED, OF_OURS, BELIEF_ADOPT},
        {ENTRY_NONE, SEEN_ENDED, OF_OURS, BELIEF_LEAVE},
        {ENTRY_GONE, SEEN_READY, OF_OURS, BELIEF_RETURN},
        {ENTRY_GONE, SEEN_ABSENT, OF_OURS, BELIEF_LEAVE},
        {ENTRY_CREATED, SEEN_UNKNOWN, OF_OURS | OF_WANTED, BELIEF_WAIT},
        {ENTRY_CREATED, SEEN_COMING, OF_OURS | OF_WANTED, BELIEF_WAIT},
        {ENTRY_CREATED, SEEN_READY, OF_OURS | OF_WANTED, BELIEF_MEET},
        {ENTRY_CREATED, SEEN_READY, OF_OURS, BELIEF_RETURN},
        {ENTRY_CREATED, SEEN_UNKNOWN, OF_OURS, BELIEF_RETURN},
        {ENTRY_READY, SEEN_UNKNOWN, OF_OURS | OF_WANTED, BELIEF_KEEP},
        {ENTRY_READY, SEEN_READY, OF_OURS | OF_WANTED, BELIEF_KEEP},
        {ENTRY_READY, SEEN_FAILED, OF_OURS | OF_WANTED, BELIEF_RETURN},
        {ENTRY_READY, SEEN_ENDED, OF_OURS | OF_WANTED, BELIEF_GONE},
        {ENTRY_READY, SEEN_ABSENT, OF_OURS, BELIEF_GONE},
        {ENTRY_RETURNING, SEEN_UNKNOWN, OF_OURS, BELIEF_DELETE},
        {ENTRY_RETURNING, SEEN_FAILED, OF_OURS, BELIEF_DELETE},
        {ENTRY_RETURNING, SEEN_ENDED, OF_OURS, BELIEF_GONE},
        {ENTRY_RETURNING, SEEN_ABSENT, OF_OURS, BELIEF_GONE},
    };
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(machine_belief(rows[i].entry, rows[i].seen, rows[i].facts), rows[i].then);
}

static void test_states(void **unused)
{
    (void)unused;
    assert_false(stage_may(FLEET_STAGE_COMPLETE, FLEET_STAGE_RETREATING));
    assert_false(stage_may(FLEET_STAGE_ENDING, FLEET_STAGE_RENTING));
    assert_false(stage_may(FLEET_STAGE_OVER, FLEET_STAGE_ENDING));
    assert_true(machine_may(FLEET_MACHINE_GONE, FLEET_MACHINE_RETURNING));
    assert_false(machine_may(FLEET_MACHINE_GONE, FLEET_MACHINE_READY));
    assert_false(machine_may(FLEET_MACHINE_RETURNING, FLEET_MACHINE_READY));
    assert_false(slot_may(FLEET_SLOT_LOST, FLEET_SLOT_ORDERED));
    assert_true(slot_may(FLEET_SLOT_ANEW, FLEET_SLOT_ORDERED));
}

static void test_pauses(void **unused)
{
    (void)unused;
    assert_int_equal(pause_ms(1, 0), FLEET_AGAIN_MS);
    assert_int_equal(pause_ms(3, 0), 4 * FLEET_AGAIN_MS);
    assert_int_equal(pause_ms(4000000000u, 0), FLEET_AGAIN_MAX_MS);
    assert_int_equal(pause_ms(1, 9000), 9000);
    assert_int_equal(pause_ms(1, UINT64_MAX), FLEET_RETRY_AFTER_MAX_MS);
}

/* ---- the ledger ---- */

static const char *const lines[] = {
    "{\"type\":\"wanted\",\"seq\":1,\"time_ms\":5,\"id\":\"c0ffee00\",\"name\":\"train\",\"owner\":\"me\",\"down\":"
    "\"idle\",\"idle_ms\":7,"
    "\"offers\":[{\"provider\":\"p\",\"region\":\"here\",\"zone\":\"\",\"type\":\"big\",\"spot\":true,\"nodes\":1,"
    "\"gang_max\":1,"
    "\"price\":3600000,\"idem\":\"token\",\"deadline\":\"server\",\"settle_ms\":9}]}",
    "{\"type\":\"intent\",\"seq\":2,\"time_ms\":5,\"name\":\"n\",\"token\":\"t\",\"offer\":0,\"slot\":0,\"count\":1,"
    "\"price\":3600000,"
    "\"deadline_ms\":99}",
    "{\"type\":\"created\",\"seq\":3,\"time_ms\":6,\"provider\":\"p\",\"region\":\"here\",\"id\":\"i\",\"intent\":"
    "\"n\",\"found\":true,\"price\":3600000}",
    "{\"type\":\"ready\",\"seq\":4,\"time_ms\":7,\"provider\":\"p\",\"id\":\"i\",\"address\":\"a\",\"host_key\":\"\"}",
    "{\"type\":\"complete\",\"seq\":5,\"time_ms\":7}",
    "{\"type\":\"held\",\"seq\":6,\"time_ms\":7,\"by\":\"r\"}",
    "{\"type\":\"noticed\",\"seq\":7,\"time_ms\":8,\"provider\":\"p\",\"id\":\"i\",\"at_ms\":12}",
    "{\"type\":\"replace\",\"seq\":8,\"time_ms\":8,\"slot\":0,\"text\":\"bad\"}",
    "{\"type\":\"returning\",\"seq\":9,\"time_ms\":8,\"provider\":\"p\",\"id\":\"i\"}",
    "{\"type\":\"gone\",\"seq\":10,\"time_ms\":3606,\"provider\":\"p\",\"id\":\"i\",\"fault\":\"capacity\",\"scope\":"
    "\"zone\"}",
    "{\"type\":\"intent\",\"seq\":11,\"time_ms\":3606,\"name\":\"m\",\"token\":\"t\",\"offer\":0,\"slot\":0,\"count\":"
    "1,\"price\":3600000}",
    "{\"type\":\"void\",\"seq\":12,\"time_ms\":3607,\"intent\":\"m\",\"fault\":\"capacity\",\"scope\":\"type\","
    "\"text\":\"none \\u00e9\"}",
    "{\"type\":\"unreplaced\",\"seq\":13,\"time_ms\":3607,\"slot\":0,\"fault\":\"capacity\"}",
    "{\"type\":\"freed\",\"seq\":14,\"time_ms\":3607}",
    "{\"type\":\"ending\",\"seq\":15,\"time_ms\":3608,\"how\":\"idle\"}",
    "{\"type\":\"over\",\"seq\":16,\"time_ms\":3608}",
};

/* All types but RETREAT, written as they were read, and their sum. */
static void test_ledger(void **unused)
{
    struct fleet_ledger *l = fleet_ledger_create();
    struct arena *arena = arena_create();
    struct error err = ERROR_INIT;
    struct buf b = {0};
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct fleet_event e, out_of_turn;
        assert_int_equal(fleet_event_from_json(lines[i], strlen(lines[i]), arena, &e, &err), 0);
        buf_clear(&b);
        fleet_event_to_json(&e, &b);
        if (!strstr(lines[i], "\\u"))
            assert_string_equal(b.data, lines[i]);
        out_of_turn = e;
        out_of_turn.seq++;
        assert_int_equal(fleet_apply(l, &out_of_turn, &err), -1);
        if (fleet_apply(l, &e, &err) < 0)
            fail_msg("%s", err.text);
        out_of_turn = e;
        out_of_turn.seq++;
        if (e.type != FLEET_HELD && e.type != FLEET_FREED && e.type != FLEET_READY && e.type != FLEET_NOTICED)
            assert_int_equal(fleet_apply(l, &out_of_turn, &err), -1); /* none occurs twice */
    }
    assert_int_equal(l->stage, FLEET_STAGE_OVER);
    assert_int_equal(l->how, FLEET_HOW_IDLE);
    assert_int_equal(l->slots[0].state, FLEET_SLOT_LOST);
    assert_int_equal(l->machines[0].state, FLEET_MACHINE_GONE);
    assert_int_equal(fleet_cost(l, 999999999), 3600); /* 3.6 seconds at $3.60 an hour */
    assert_int_equal(fleet_rate(l), 0);
    buf_free(&b);
    arena_destroy(arena);
    fleet_ledger_destroy(l);
}

static void test_not_events(void **unused)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"type\":\"\"}",
        "{\"type\":\"party\",\"seq\":1,\"time_ms\":1}",
        "{\"type\":\"over\",\"time_ms\":1}",
        "{\"type\":\"over\",\"seq\":-1,\"time_ms\":1}",
        "{\"type\":\"over\",\"seq\":1.5,\"time_ms\":1}",
        "{\"type\":\"over\",\"seq\":1,\"seq\":1,\"time_ms\":1}",
        "{\"type\":\"over\",\"seq\":1,\"time_ms\":1} x",
        "{\"type\":\"held\",\"seq\":1,\"time_ms\":1,\"by\":7}",
        "{\"type\":\"held\",\"seq\":1,\"time_ms\":1,\"by\":\"\xff\"}",
        "{\"type\":\"ending\",\"seq\":1,\"time_ms\":1,\"how\":\"somehow\"}",
        "{\"type\":\"replace\",\"seq\":1,\"time_ms\":1,\"slot\":1024}",
        ("{\"type\":\"wanted\",\"seq\":1,\"time_ms\":1,\"id\":\"c0ffee00\",\"name\":\"n\",\"owner\":\"o\",\"down\":"
         "\"never\",\"offers\":[]}"),
    };
    struct arena *arena = arena_create();
    struct fleet_event e;
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(fleet_event_from_json(bad[i], strlen(bad[i]), arena, &e, &err), -1);
        assert_true(err.text[0]);
    }
    arena_destroy(arena);
}

static void test_wishes(void **unused)
{
    struct fleet_offer o = {.provider = "p", .region = "", .zone = "", .type = "t", .nodes = 1, .gang_max = 1};
    const struct fleet_offer plain = o;
    struct fleet_wanted w = {.id = "c0ffee00", .name = "n", .owner = "o", .offers = &o, .offer_count = 1};
    const struct fleet_wanted good = w;
    struct error err = ERROR_INIT;
    (void)unused;
    assert_int_equal(fleet_wanted_check(&w, &err), 0);
    w.id = "short";
    assert_int_equal(fleet_wanted_check(&w, &err), -1);
    w.id = "NotLowerCase";
    assert_int_equal(fleet_wanted_check(&w, &err), -1);
    w = good;
    w.offer_count = 0;
    assert_int_equal(fleet_wanted_check(&w, &err), -1);
    w = good;
    o.nodes = FLEET_NODES_MAX + 1;
    assert_int_equal(fleet_wanted_check(&w, &err), -1);
    o = plain;
    o.provider = "";
    assert_int_equal(fleet_wanted_check(&w, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_belief), cmocka_unit_test(test_states),     cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_ledger), cmocka_unit_test(test_not_events), cmocka_unit_test(test_wishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
