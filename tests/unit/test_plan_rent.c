/* plan: the rent step as text: the verdict, unknown prices, many offers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rhrun/plan.h"

struct scene {
    struct arena *arena;
    struct spec spec;
    struct spec_rent wish;
    struct spec_host host;
    struct plan_step step;
    struct plan plan;
    struct plan_rent rent;
    struct plan_decision decision;
    bool on;
};

static const struct step_kind kind = {.name = "run", .phase = PHASE_SETUP, .cached = true};
static const struct plan_offer offers[] = {
    {.provider = "a", .region = "r", .zone = "r1", .type = "t", .spot = true, .price = 1500001, .source = "x"},
    {.provider = "a",
     .region = "r",
     .zone = "z",
     .type = "t",
     .at_most = true,
     .price = 2000000,
     .as_of_day = 9,
     .source = ""},
    {.provider = "b", .region = "r", .zone = "", .type = "t", .unpriced = true, .as_of_day = 4, .source = "x"},
};

static int set_up(void **state)
{
    struct scene *s = xcalloc(1, sizeof *s);
    *state = s;
    s->arena = arena_create();
    s->host = (struct spec_host){.name = "node-0", .transport = SPEC_TRANSPORT_RENTED};
    s->wish = (struct spec_rent){.max_ms = 5400000};
    s->spec = (struct spec){.name = "job", .rent = &s->wish, .hosts = &s->host, .host_count = 1, .nnodes = 1};
    s->rent = (struct plan_rent){.offers = offers, .offer_count = ARRAY_LEN(offers), .today = 14};
    s->on = true;
    s->step = (struct plan_step){.name = "make", .title = "x", .kind = &kind, .on = &s->on, .on_count = 1, .key = "k"};
    s->plan = (struct plan){.spec = &s->spec,
                            .rent = &s->rent,
                            .roster = roster_create(&s->spec, s->arena),
                            .arena = s->arena,
                            .node_count = 1,
                            .steps = &s->step,
                            .step_count = 1};
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    arena_destroy(s->arena);
    free(s);
    return 0;
}

static const char *shown(struct scene *s, enum verdict v)
{
    struct buf text = {0};
    s->decision = (struct plan_decision){v, NULL};
    plan_format(&s->plan, &s->decision, false, false, &text);
    const char *ret = arena_strdup(s->arena, text.data);
    buf_free(&text);
    return ret;
}

static void test_what_it_costs(void **state)
{
    struct scene *s = *state;
    assert_string_equal(shown(s, VERDICT_RUN), "job: 2 steps on 1 node, 2 to do\n\n"
                                               "  run         rent    1 node          a t, spot\n"
                                               "  run         make    node-0          x\n"
                                               "\n  rent tries in this order\n"
                                               "    PROVIDER  REGION  TYPE      USD/H  IN 1.5 H      AGE\n"
                                               "    a         r1      t, spot  1.5001      2.26        ? [1]\n"
                                               "    a         r/z     t        <=2.00    <=3.00      5 d [2]\n"
                                               "    b         r       t             ?         ?     10 d [1]\n"
                                               "    [1] x\n"
                                               "    [2] its source is not known\n"
                                               "    worst case: 3.00 USD, the most expensive offer for all 1.5 h\n"
                                               "    given back: with the end of the run, after 1.5 h at the latest\n");
}

/* The rent step depends on the steps of nodes: a finished job rents nothing. */
static void test_verdicts(void **state)
{
    struct scene *s = *state;
    static const enum verdict rents[] = {VERDICT_RUN, VERDICT_AGAIN, VERDICT_VERIFY, VERDICT_DEPENDS};
    for (size_t i = 0; i < ARRAY_LEN(rents); i++) {
        s->decision = (struct plan_decision){rents[i], NULL};
        assert_int_equal(plan_rent_verdict(&s->plan, &s->decision), VERDICT_RUN);
    }
    static const char head[] = "job: 2 steps on 1 node, nothing to do\n\n  not needed  rent    1 node\n";
    assert_memory_equal(shown(s, VERDICT_KEEP), head, strlen(head));
    assert_null(strstr(shown(s, VERDICT_NOT_NEEDED), "rent tries"));
    s->rent.there = true;
    assert_non_null(strstr(shown(s, VERDICT_RUN), "1 to do\n\n  keep        rent    1 node\n"));
    assert_null(strstr(shown(s, VERDICT_RUN), "rent tries"));
}

/* A name from another person's file cannot write escape sequences to the terminal. */
static void test_what_is_said_of_providers(void **state)
{
    struct scene *s = *state;
    static const struct plan_lessor providers[] = {
        {.name = "a", .title = "A", .risk = "gone\033[2J at once", .missing = "no KEY"},
        {.name = "b", .title = "B", .risk = "never gone", .left_out = "it is\nleft out", .missing = "no KEY2"}};
    s->rent.providers = providers;
    s->rent.provider_count = ARRAY_LEN(providers);
    s->rent.missing = "no KEY";
    s->wish.down = DOWN_IDLE;
    s->wish.idle_ms = 90500;
    assert_non_null(strstr(shown(s, VERDICT_RUN), "    given back: once no run has used them for 91 s, after 1.5 h at "
                                                  "the latest\n"
                                                  "    if this machine dies, a: gone [2J at once\n"
                                                  "    without b: it is left out\n"
                                                  "    nothing can be rented now:\n"
                                                  "      no KEY\n"));
    s->wish.max_ms = 0;
    const char *text = shown(s, VERDICT_RUN);
    assert_non_null(strstr(text, "no end: the machines cost money until they are given back (max_hours is none)"));
    assert_non_null(strstr(text, "if this machine dies, a: nothing ends the machines there"));
    assert_null(strstr(text, "IN "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_it_costs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_verdicts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_said_of_providers, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
