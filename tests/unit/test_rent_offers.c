/* rent: the offers for a request, in order, and every reason for having none. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "rhrun/offers.h"

#define HEADER \
    "provider,region,instance_type,accelerator,count,vcpus,memory_gib,price_usd_hour,spot_usd_hour,source,as_of\n"

/* These kinds of machine are not in the built-in catalog, so its prices do not matter here. */
static const char rows[] = HEADER "aws,us-east-1,q1,Q9,8,96,1152,20,,mine,2026-07-20\n"
                                  "aws,eu-west-1,q1,Q9,8,96,1152,24,,mine,2026-07-20\n"
                                  "gcp,us-central1,q2,Q9,8,96,680,30,15.5,mine,2026-08-03\n"
                                  "lambda,us-south-1,q3,Q9,8,96,680,18,9,mine,2026-08-03\n"
                                  "azure,eastus,q4,Q9,8,96,680,1,0.5,mine,2026-08-03\n"
                                  "runpod,EU,q5,Q9,8,96,680,,,mine,2026-08-03\n"
                                  "azure,eastus,q6,Q7,1,8,64,1,0.5,mine,2026-08-03\n"
                                  "lambda,us-south-1,q8,Q8,1,8,64,1,,mine,2026-08-03\n";

static char top[PATH_MAX];
static struct arena *arena;
static struct rent_offers offers;

static const char *put(const char *name, const char *text)
{
    struct error err = ERROR_INIT;
    const char *path = arena_printf(arena, "%s/%s", top, name);
    assert_int_equal(mkdir_p(arena_printf(arena, "%s/rhrun/providers", top), 0700, &err), 0);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &err), 0);
    return path;
}

static int set_up(void **state)
{
    static const char *const unset[] = {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",       "AWS_PROFILE", "LAMBDA_API_KEY",
        "RUNPOD_API_KEY",    "AWS_SHARED_CREDENTIALS_FILE", "DOCKER_HOST", "GOOGLE_APPLICATION_CREDENTIALS"};
    (void)state;
    char made[] = "/tmp/test_rent.XXXXXX";
    if (!mkdtemp(made) || !realpath(made, top))
        return -1;
    arena = arena_create();
    setenv("HOME", top, 1);
    setenv("XDG_CONFIG_HOME", top, 1);
    setenv("XDG_CACHE_HOME", top, 1);
    for (size_t i = 0; i < ARRAY_LEN(unset); i++)
        unsetenv(unset[i]);
    put("rhrun/catalog.csv", rows);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(arena);
    return folder_remove(top);
}

/* The same machine in another zone of the region. */
static bool is_another_zone(size_t i)
{
    return i > 0 && offers.rows[i] == offers.rows[i - 1] && offers.items[i].spot == offers.items[i - 1].spot &&
           !str_eq(offers.items[i].zone, offers.items[i - 1].zone);
}

/* The offers of a cluster as text, a line for all zones of each, or the faults. */
static const char *outcome(const char *cluster, uint32_t nodes)
{
    struct spec *spec = NULL;
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct buf text = {0};
    const char *path = put("job.yaml", arena_printf(arena, "cluster: {%s}\nentrypoint: {run: x}\n", cluster));
    if (spec_load(path, NULL, arena, &spec, &d, &err) < 0)
        fail_msg("%s: %s", cluster, d.count ? d.items[0].message : err.text);
    int rc = rent_offers(spec->rent, nodes, arena, &offers, &d, &err);
    for (size_t i = 0; i < d.count; i++)
        buf_printf(&text, "%u: %s%s%s\n", d.items[i].place.column, d.items[i].message, d.items[i].hint ? "; " : "",
                   d.items[i].hint ? d.items[i].hint : "");
    assert_int_equal(err.code, rc == 0 ? ERROR_NONE : ERROR_SPEC);
    for (size_t i = 0; rc == 0 && i < offers.count; i++) {
        const struct fleet_offer *o = &offers.items[i];
        char price[32];
        catalog_format_usd(o->price, 2, price);
        assert_ptr_equal(o->provider, offers.of[i]->name);
        assert_int_equal(o->nodes, nodes);
        if (is_another_zone(i))
            continue;
        buf_printf(&text, "%s %s %s%s %s%s\n", o->provider, o->region, o->type, o->spot ? " spot" : "",
                   offers.at_most[i] ? "<=" : "", o->unpriced ? "?" : price);
    }
    for (size_t i = 0; rc == 0 && i < offers.provider_count; i++)
        if (offers.providers[i].left_out)
            buf_printf(&text, "not %s: %s\n", offers.providers[i].name, offers.providers[i].left_out);
    const char *ret = arena_strdup(arena, text.data ? text.data : "");
    buf_free(&text);
    diagnostics_free(&d);
    return ret;
}

/* ---- which offers, in which order ---- */

static void test_cheapest(void **state)
{
    (void)state;
    /* not azure, which has no file here; not docker, which is free */
    assert_string_equal(outcome("instance: 'Q9:8'", 2), "lambda us-south-1 q3 18.00\naws us-east-1 q1 20.00\n"
                                                        "aws eu-west-1 q1 24.00\ngcp us-central1 q2 30.00\n"
                                                        "runpod EU q5 ?\n");
    const struct fleet_offer *o = &offers.items[1];
    assert_true(o->gang_max == 100 && o->idem == PROVIDER_IDEM_TOKEN && o->deadline == PROVIDER_DEADLINE_SHUTDOWN);
    assert_true(o->settle_ms == 30000 && o->price == 20000000 && !o->unpriced &&
                offers.items[offers.count - 1].unpriced);
    assert_string_equal(offers.rows[1]->source, "mine");
    assert_int_equal(offers.provider_count, 4);
    assert_string_equal(offers.providers[0].facts.risk,
                        "the machine bills until it is terminated; run rhrun gc from another machine");
    struct fleet_wanted w = {
        .id = "abcdefgh", .name = "n", .owner = "o", .offers = offers.items, .offer_count = (uint32_t)offers.count};
    struct error err = ERROR_INIT;
    assert_int_equal(fleet_wanted_check(&w, &err), 0);
}

static void test_zones(void **state)
{
    (void)state;
    static const char *const zones[] = {"us-central1-a", "us-central1-b", "us-central1-c", "us-central1-d",
                                        "us-central1-f"};
    outcome("instance: 'Q9:8', provider: gcp", 1);
    assert_int_equal(offers.count, ARRAY_LEN(zones)); /* a create must name one */
    for (size_t i = 0; i < offers.count; i++) {
        assert_string_equal(offers.items[i].zone, zones[i]);
        assert_string_equal(offers.items[i].region, "us-central1");
    }
    outcome("instance: 'Q9:8', provider: aws", 1);
    assert_string_equal(offers.items[0].zone, ""); /* the provider chooses */
    put("rhrun/catalog.csv", "zone," HEADER "us-central1-b,gcp,us-central1,q2,Q9,8,96,680,30,15.5,mine,2026-08-03\n");
    outcome("instance: 'Q9:8', provider: gcp", 1);
    assert_true(offers.count == 1 && str_eq(offers.items[0].zone, "us-central1-b"));
    put("rhrun/catalog.csv", rows);
}

static void test_named(void **state)
{
    (void)state;
    assert_string_equal(outcome("instance: 'Q9:8', provider: [gcp, aws], regions: [eu-west-1, US-CENTRAL1]", 1),
                        "aws eu-west-1 q1 24.00\ngcp us-central1 q2 30.00\n");
    assert_string_equal(outcome("instance: 'Q9:8', max_price: 40", 2),
                        "lambda us-south-1 q3 18.00\naws us-east-1 q1 20.00\n");
    assert_string_equal(outcome("instance: 'aws:q1', regions: eu-west-1", 1), "aws eu-west-1 q1 24.00\n");
}

/* An unknown spot price is at most the on-demand price; a provider without spot machines has no spot price, whatever a
 * row says. */
static void test_spot(void **state)
{
    (void)state;
    assert_string_equal(outcome("instance: 'Q9:8', use_spot: true", 1),
                        "gcp us-central1 q2 spot 15.50\naws us-east-1 q1 spot <=20.00\naws eu-west-1 q1 spot <=24.00\n"
                        "not lambda: it has no spot machines\n");
    assert_string_equal(outcome("instance: 'Q9:8', use_spot: prefer, provider: [aws, gcp, lambda]", 1),
                        "gcp us-central1 q2 spot 15.50\naws us-east-1 q1 spot <=20.00\naws eu-west-1 q1 spot <=24.00\n"
                        "lambda us-south-1 q3 18.00\naws us-east-1 q1 20.00\naws eu-west-1 q1 24.00\n"
                        "gcp us-central1 q2 30.00\n");
    assert_string_equal(outcome("instance: 'Q9:8', use_spot: true, provider: [lambda, gcp]", 1),
                        "gcp us-central1 q2 spot 15.50\nnot lambda: it has no spot machines\n");
}

/* docker is free, and is used only when it is named. */
static void test_free_of_charge(void **state)
{
    (void)state;
    static const char *const same[] = {"provider: docker", "provider: docker, instance: container",
                                       "provider: docker, instance: 'cpu:2+', max_price: 0.01, use_spot: prefer"};
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        assert_string_equal(outcome(same[i], 4), "docker local container 0.00\n");
    assert_false(offers.items[0].unpriced);
    assert_null(offers.rows[0]);
    assert_string_equal(outcome("provider: [docker, aws], instance: 'cpu:2'", 1),
                        "docker local container 0.00\naws us-east-1 t3.large 0.0832\n");
}

/* ---- why there is none ---- */

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *cluster, *expected;
    } cases[] = {
        {"provider: aw, instance: 'Q9:8'", "21: there is no provider \"aw\"; did you mean aws?\n"},
        {"provider: [aws, nobody], instance: 'Q9:8'", "27: there is no provider \"nobody\"; there are aws, "
                                                      "digitalocean, docker, gcp, hetzner, lambda, runpod; a file "
                                                      "of your own adds one: docs/adding-a-provider.md\n"},
        {"instance: 'Q99:8'", "21: there is no accelerator \"Q99\"; did you mean Q9?\n"},
        {"instance: q11", "21: \"q11\" is neither an accelerator nor a provider's type that the catalog has; "
                          "did you mean q1?\n"},
        {"instance: 'Q9:4'", "21: the catalog has no machine with Q9:4; there are Q9:8\n"},
        {"instance: 'Q9:8', provider: hetzner",
         "39: the catalog has no price of Q9:8 at hetzner; there are some at aws, azure, gcp, lambda, runpod\n"
         "21: instance is here\n"},
        {"instance: 'Q9:8', provider: aws, regions: [us-west-1]",
         "53: the catalog has no price of Q9:8 in us-west-1; did you mean eu-west-1?\n21: instance is here\n"},
        {"instance: 'Q9:8', max_price: 17",
         "40: no offer of Q9:8 for 1 node is within max_price 17.00 USD per hour; the cheapest costs 18.00 per hour\n"
         "21: instance is here\n"},
        {"instance: 'Q9:8', provider: lambda, use_spot: true",
         "57: Lambda Cloud has no spot machines; use_spot: prefer takes them where there are some; false takes none\n"
         "39: provider is here\n"},
        {"instance: 'Q8:1', use_spot: true",
         "39: none of the providers has spot machines; use_spot: prefer takes them where there are some\n"},
        {"provider: aws", "21: provider without instance: nothing says which machine to rent; instance: \"A100:8\" or "
                          "\"cpu:8+\"; rhrun prices lists the machines\n"},
        {"provider: docker, instance: 'Q9:8'", "39: Docker Engine has no Q9:8: its machines are of one kind, "
                                               "\"container\"; leave instance out, or name another "
                                               "provider\n21: provider is here\n"},
        {"provider: docker, regions: mars",
         "38: none of the providers is in these regions; leave regions out, or name another provider\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(outcome(cases[i].cluster, 1), cases[i].expected);
    assert_non_null(strstr(outcome("instance: 'Q9:8'", 1025), "at most 1024 machines are rented for one job"));
    assert_non_null(strstr(outcome("instance: 'Q7:1'", 1), "there are some at azure"));
}

static void test_faulty_files(void **state)
{
    (void)state;
    put("rhrun/providers/aws.yaml", "provider: aws\n");
    assert_non_null(strstr(outcome("instance: 'Q9:8', provider: aws", 1), "\"title\" is missing"));
    assert_non_null(strstr(outcome("instance: 'Q9:8'", 1), "\"title\" is missing"));
    assert_string_equal(outcome("instance: 'Q9:8', provider: gcp", 1), "gcp us-central1 q2 30.00\n");
    put("rhrun/catalog.csv", HEADER "aws,us-east-1,q1,Q9,8,96,1152,-20,,mine,2026-07-20\n");
    assert_non_null(strstr(outcome("instance: 'Q9:8', provider: gcp", 1), "-20"));
}

/* Not more than the limit of a request; the cheapest are kept. */
static void test_many(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_puts(&text, HEADER);
    for (int i = 0; i < 600; i++)
        buf_printf(&text, "aws,r-%d,q1,Q9,8,96,1152,%d.%d,,mine,2026-07-20\n", i, (1000 - i) / 10, (1000 - i) % 10);
    put("rhrun/catalog.csv", text.data);
    const char *said = outcome("instance: 'Q9:8'", 1);
    if (offers.count != FLEET_OFFERS_MAX)
        fail_msg("%.300s", said);
    assert_true(offers.count == FLEET_OFFERS_MAX && offers.cut == 100);
    assert_true(offers.items[0].price == UINT64_C(40100000) && offers.items[499].price == UINT64_C(90000000));
    buf_free(&text);
}

/* ---- credentials ---- */

static void test_credentials(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    outcome("instance: 'Q9:8', regions: [us-east-1, us-south-1]", 1);
    assert_int_equal(rent_credentials_check(&offers, arena, &err), -1);
    assert_int_equal(err.why, ERROR_WHY_CREDENTIALS);
    assert_non_null(strstr(err.text, "LAMBDA_API_KEY, or ~/.lambda_cloud/lambda_keys"));
    assert_non_null(strstr(err.text, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
    assert_int_equal(offers.count, 2); /* unchanged */
    setenv("AWS_ACCESS_KEY_ID", "AKIA", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "abcdefgh", 1);
    err = (struct error)ERROR_INIT;
    outcome("instance: 'Q9:8', regions: [us-east-1, us-south-1]", 1);
    assert_int_equal(rent_credentials_check(&offers, arena, &err), 0);
    assert_int_equal(offers.count, 1);
    assert_string_equal(offers.items[0].provider, "aws");
    assert_string_equal(offers.providers[0].name, "lambda");
    assert_non_null(strstr(offers.providers[0].left_out, "LAMBDA_API_KEY"));
    /* a user who names a provider means it */
    outcome("instance: 'Q9:8', provider: [aws, lambda]", 1);
    assert_int_equal(rent_credentials_check(&offers, arena, &err), -1);
    assert_non_null(strstr(err.text, "LAMBDA_API_KEY"));
    assert_null(strstr(err.text, "AWS"));
    outcome("provider: docker", 1);
    assert_int_equal(rent_credentials_check(&offers, arena, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cheapest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_zones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_spot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_free_of_charge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faulty_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_credentials, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
