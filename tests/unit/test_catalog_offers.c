/* catalog: requests, and which offers match them, in which order. */
#include "catalog_scene.h"

#include <stdio.h>

static const char machines[] = "aws,us-east-1,p4d.24xlarge,A100,8,96,1152,21.957642,8.1203,aws,2026-07-20\n"
                               "aws,us-east-1,t3.large,,0,2,8,0.0832,,aws,2026-07-20\n"
                               "aws,us-east-1,m7i.2xlarge,,0,8,32,0.4032,,aws,2026-07-20\n"
                               "gcp,us-central1,a2-highgpu-8g,A100,8,96,680,29.38708,15.42416,gcp,2026-08-03\n"
                               "gcp,us-central1,a2-highgpu-1g,A100,1,12,85,3.673385,1.92802,gcp,2026-08-03\n"
                               "gcp,us-east4,a3-megagpu-8g,H100-MEGA,8,208,1872,92.937588,,gcp,2026-08-03\n"
                               "gcp,us-central1,a3-highgpu-8g,H100,8,208,1872,88.49,,gcp,2026-08-03\n"
                               "azure,eastus,nc80,H100-NVL,2,80,640,13.96,,azure,2026-06-18\n"
                               "runpod,US-KS-2,NVIDIA L40S,L40S,8,96,496,7.92,,runpod,\n"
                               "vast,US,H200,H200,1,32,64,,,vast,\n";

static struct scene s;

static int open_machines(void **state)
{
    (void)state;
    scene_rows(&s, machines);
    return 0;
}

static int close_machines(void **state)
{
    (void)state;
    scene_close(&s);
    return 0;
}

/* ---- requests ---- */

/* The request in one form: type@provider, or accelerators:count cpu memory. */
static const char *text_of(const struct catalog_request *r)
{
    const char *text =
        r->instance_type ? arena_printf(s.arena, "%s@%s", r->instance_type, r->provider ? r->provider : "*") : "";
    for (size_t i = 0; i < r->accelerator_count; i++)
        text = arena_printf(s.arena, "%s%s%s", text, i ? "|" : "", r->accelerators[i]);
    if (r->accelerator_count)
        text = arena_printf(s.arena, "%s:%u", text, r->count);
    if (r->vcpus)
        text = arena_printf(s.arena, "%s cpu%s%u", text, r->vcpus_or_more ? ">=" : "=", r->vcpus);
    if (r->memory_mib)
        text = arena_printf(s.arena, "%s memory%s%llu", text, r->memory_or_more ? ">=" : "=",
                            (unsigned long long)r->memory_mib);
    return text;
}

static void test_requests(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"A100:8", "A100:8"},
        {"a100:8", "A100:8"},
        {"A100", "A100:1"},
        {"A100|A100-80GB:8", "A100|A100-80GB:8"},
        {"A100|a100", "A100:1"},
        {"V100:1", "V100:1"},
        {"H100:8", "H100|H100-MEGA:8"},
        {"H100-MEGA:8", "H100-MEGA:8"},
        {"NVIDIA A100 80GB PCIe", "A100-80GB:1"},
        {"nvidia_tesla_t4:2", "T4:2"},
        {"cpu:8+", " cpu>=8"},
        {"CPU:8", " cpu=8"},
        {"cpu:8+ memory:32+", " cpu>=8 memory>=32768"},
        {" memory:0.5 ", " memory=512"},
        {"A100:8  cpu:90+ memory:1000+", "A100:8 cpu>=90 memory>=1024000"},
        {"p4d.24xlarge", "p4d.24xlarge@*"},
        {"P4D.24XLARGE", "p4d.24xlarge@*"},
        {"aws:p4d.24xlarge", "p4d.24xlarge@aws"},
        {"AWS:p4d.24xlarge", "p4d.24xlarge@aws"},
        {"runpod:NVIDIA L40S", "NVIDIA L40S@runpod"},
        {"NVIDIA L40S", "L40S:1"}, /* first the name of an accelerator */
        {"H200", "H200:1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct catalog_request r;
        struct error err = ERROR_INIT;
        if (catalog_request_parse(s.c, good[i][0], s.arena, &r, &err) < 0)
            fail_msg("%s: %s", good[i][0], err.text);
        assert_string_equal(text_of(&r), good[i][1]);
    }
}

static void test_faulty_requests(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"", "an instance is empty", "forms: A100:8"},
        {"   ", "an instance is empty", "forms: A100:8"},
        {"A10O:8", "there is no accelerator \"A10O\"", "did you mean A10"},
        {"H100|A1000:8", "there is no accelerator \"A1000\"", "did you mean A100?"},
        {"p4d.24xlarg", "\"p4d.24xlarg\" is neither an accelerator nor a provider's type",
         "did you mean p4d.24xlarge?"},
        {"something-else", "\"something-else\" is neither", "forms: A100:8"},
        {"aws:p4d.24xl", "the catalog has no \"p4d.24xl\" of aws", "did you mean p4d.24xlarge?"},
        {"aws:a2-highgpu-8g", "the catalog has no \"a2-highgpu-8g\" of aws", "forms"},
        {"A100:0", "A100: \"0\" is not a count", "a whole number above 0"},
        {"A100:", "A100: \"\" is not a count", "a whole number above 0"},
        {"A100:8+", "A100: \"8+\" is not a count", "a count of accelerators is exact"},
        {"A100:1.5", "A100: \"1.5\" is not a count", "a whole number above 0"},
        {"A100:-1", "A100: \"-1\" is not a count", "a whole number above 0"},
        {"A100:8|H100:4", "\"A100:8|H100:4\" has several counts", "one count is for all names"},
        {"A100|:8", "\"A100|:8\" has an empty name", ""},
        {"|A100", "\"|A100\" has an empty name", ""},
        {"A100:8 H100:8", "\"A100:8 H100:8\" names accelerators twice", ""},
        {"cpu:8+ cpu:9", "\"cpu:8+ cpu:9\" says cpu twice", ""},
        {"memory:8+ memory:9", "\"memory:8+ memory:9\" says memory twice", ""},
        {"cpu:many", "cpu: \"many\" is not a whole number", "cpu:8+ is 8 or more"},
        {"cpu:0", "cpu: \"0\" is not a whole number", "cpu:8+ is 8 or more"},
        {"cpu:1.5", "cpu: \"1.5\" is not a whole number", ""},
        {"cpu:99999999", "cpu: \"99999999\" is not a whole number", ""},
        {"memory:32GB", "memory: \"32GB\" is not a number of GiB", "memory:32+ is that or more"},
        {"memory:", "memory: \"\" is not a number of GiB", ""},
        {"A100\033[2J:8", "there is no accelerator \"A100?[2J\"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct catalog_request r = {.count = 77};
        struct error err = ERROR_INIT;
        assert_int_equal(catalog_request_parse(s.c, bad[i][0], s.arena, &r, &err), -1);
        assert_int_equal(r.count, 77);
        assert_int_equal(err.code, ERROR_USAGE);
        if (!str_starts(err.text, bad[i][1]) || !strstr(err.hint, bad[i][2]))
            fail_msg("%s: %s; %s", bad[i][0], err.text, err.hint);
    }
    char many[CATALOG_REQUEST_MAX + 2];
    memset(many, 'A', sizeof many - 1);
    many[sizeof many - 1] = 0;
    struct catalog_request r;
    struct error err = ERROR_INIT;
    assert_int_equal(catalog_request_parse(s.c, many, s.arena, &r, &err), -1);
    assert_string_equal(err.text, "an instance of 256 bytes; it has at most 255");
    assert_int_equal(catalog_request_parse(s.c,
                                           "A10|A16|A30|A40|K80|L4|L40|L40S|M60|P4|P100|T4|T4G|V100|H200|B200|B300",
                                           s.arena, &r, &err),
                     -1);
    assert_non_null(strstr(err.text, "names more than 16 accelerators"));
}

/* ---- offers ---- */

/* The offers as "type" and "type*" (spot), in order; or the error's text and hint. */
static const char *offers_of(const char *request, struct catalog_query query)
{
    struct catalog_request r;
    struct catalog_offer *offers;
    size_t count;
    struct error err = ERROR_INIT;
    const char *text = "";
    if (request && catalog_request_parse(s.c, request, s.arena, &r, &err) < 0)
        return arena_strdup(s.arena, err.text);
    query.request = request ? &r : NULL;
    query.nodes = query.nodes ? query.nodes : 1;
    if (catalog_offers(s.c, &query, s.arena, &offers, &count, &err) < 0)
        return arena_printf(s.arena, "%s; %s", err.text, err.hint);
    for (size_t i = 0; i < count; i++) {
        text = arena_printf(s.arena, "%s%s%s%s", text, i ? " " : "", offers[i].row->instance_type,
                            offers[i].spot ? "*" : "");
        assert_int_equal(offers[i].total_microusd, offers[i].price_microusd * query.nodes);
    }
    return text;
}

#define LIST(...) (const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__}))

static void test_offers(void **state)
{
    (void)state;
    assert_string_equal(offers_of("A100:8", (struct catalog_query){0}), "p4d.24xlarge a2-highgpu-8g");
    assert_string_equal(offers_of("A100:8", (struct catalog_query){.spot = CATALOG_SPOT}),
                        "p4d.24xlarge* a2-highgpu-8g*");
    assert_string_equal(offers_of("A100:8", (struct catalog_query){.spot = CATALOG_SPOT_PREFER}),
                        "p4d.24xlarge* a2-highgpu-8g* p4d.24xlarge a2-highgpu-8g");
    assert_string_equal(offers_of("H100:8", (struct catalog_query){0}), "a3-highgpu-8g a3-megagpu-8g");
    assert_string_equal(offers_of("H100-MEGA:8", (struct catalog_query){0}), "a3-megagpu-8g");
    assert_string_equal(offers_of("cpu:2+", (struct catalog_query){0}), "t3.large m7i.2xlarge");
    assert_string_equal(offers_of("cpu:8", (struct catalog_query){0}), "m7i.2xlarge");
    assert_string_equal(offers_of("memory:9+", (struct catalog_query){0}), "m7i.2xlarge");
    assert_string_equal(offers_of("A100:8 memory:1000+", (struct catalog_query){0}), "p4d.24xlarge");
    assert_string_equal(offers_of("gcp:a2-highgpu-8g", (struct catalog_query){0}), "a2-highgpu-8g");
    struct catalog_query query = {.regions = LIST("US-Central1", "mars")};
    assert_string_equal(offers_of("A100:8", query), "a2-highgpu-8g");
    query = (struct catalog_query){.providers = LIST("gcp")};
    assert_string_equal(offers_of("A100:8", query), "a2-highgpu-8g");
    /* 2 nodes for 43.92 or 58.77 */
    query = (struct catalog_query){.nodes = 2, .max_microusd = 50000000};
    assert_string_equal(offers_of("A100:8", query), "p4d.24xlarge");
    query.max_microusd = 43915284; /* its cost is within it */
    assert_string_equal(offers_of("A100:8", query), "p4d.24xlarge");
}

static void test_no_offer_says_why(void **state)
{
    (void)state;
    struct catalog_query query = {0};
    assert_string_equal(offers_of("A100:3", query), "the catalog has no machine with A100:3; there are A100:1, A100:8");
    assert_string_equal(
        offers_of("A100:8 cpu:1000+", query),
        "the catalog has no machine with A100:8 cpu:1000+; there are A100:1, A100:8, with other vCPUs or "
        "memory: rhrun prices A100:1 shows them");
    assert_string_equal(offers_of("T4:1", query),
                        "the catalog has no machine with T4:1; a row in your own file can add "
                        "one with its price: docs/prices.md");
    assert_string_equal(offers_of("cpu:1000+", query),
                        "the catalog has no machine with cpu:1000+; the catalog's machines "
                        "without accelerators: rhrun prices cpu:1+");
    query = (struct catalog_query){.regions = LIST("us-east-2")};
    assert_string_equal(offers_of("A100:8", query),
                        "the catalog has no price of A100:8 in us-east-2; did you mean us-east-1?");
    query = (struct catalog_query){.regions = LIST("eastus")}; /* an existing region */
    assert_string_equal(offers_of("A100:8", query),
                        "the catalog has no price of A100:8 in eastus; there are some in us-central1, us-east-1");
    query = (struct catalog_query){.regions = LIST("us-east-1"), .providers = LIST("gcp")};
    assert_string_equal(offers_of("A100:8", query),
                        "the catalog has no price of A100:8 in us-east-1; there are some in us-central1");
    query = (struct catalog_query){.providers = LIST("asw")};
    assert_string_equal(offers_of("A100:8", query), "the catalog has no price of A100:8 at asw; did you mean aws?");
    query = (struct catalog_query){.providers = LIST("azure", "lambda")};
    assert_string_equal(offers_of("A100:8", query),
                        "the catalog has no price of A100:8 at azure, lambda; there are some at aws, gcp");
    query = (struct catalog_query){.spot = CATALOG_SPOT};
    assert_string_equal(offers_of("H100:8", query),
                        "no spot price of H100:8 is known; without spot there are 2 offers");
    query = (struct catalog_query){.nodes = 2, .max_microusd = 4000000};
    assert_string_equal(offers_of("A100:8", query),
                        "no offer of A100:8 for 2 nodes is within max_price 4.00 USD per hour; "
                        "the cheapest costs 43.915284 per hour");
    assert_string_equal(offers_of("H200:1", query),
                        "no offer of H200:1 for 2 nodes is within max_price 4.00 USD per hour; "
                        "its price is not known");
}

/* At equal prices the newer one, then the user's order, then names; an unknown price comes last. */
static void test_order_of_equal_prices(void **state)
{
    (void)state;
    struct scene before = s;
    scene_rows(&s, "b,r,old,T4,1,4,16,1,,s,2026-01-01\nb,r,new,T4,1,4,16,1,,s,2026-01-02\nb,r,undated,T4,1,4,16,1,,s,\n"
                   "a,r,same,T4,1,4,16,1,,s,2026-01-02\na,q,same2,T4,1,4,16,1,,s,2026-01-02\n"
                   "c,r,unknown,T4,1,4,16,,,s,2026-01-03\nc,r,cheap,T4,1,4,16,0.5,,s,\n");
    assert_string_equal(offers_of("T4", (struct catalog_query){0}), "cheap same2 same new old undated unknown");
    struct catalog_query query = {.providers = LIST("c", "b", "a")};
    assert_string_equal(offers_of("T4", query), "cheap new same2 same old undated unknown");
    query = (struct catalog_query){.providers = LIST("a", "c")};
    assert_string_equal(offers_of("T4", query), "cheap same2 same unknown");
    query.max_microusd = 100000000; /* an unknown price is within no limit */
    assert_string_equal(offers_of("T4", query), "cheap same2 same");
    scene_close(&s);
    s = before;
}

static const char *const providers[] = {"aws", "azure", "gcp", "lambda", "runpod", "vast", "vultr"};

static uint64_t dice(uint64_t *seed) /* splitmix64 */
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* One of 500 similar machines of 7 providers. */
static void random_row(struct buf *b, uint64_t *seed, unsigned i)
{
    static const char *const names[] = {"A100", "H100", "T4", "a100-80gb", ""};
    uint64_t name = dice(seed) % ARRAY_LEN(names), price = 1 + dice(seed) % 40, spot = dice(seed) % 40;
    bool none = !*names[name];
    buf_printf(b, "%s,r%u,t%u,%s,%u,%u,%u,", providers[dice(seed) % 7], (unsigned)(dice(seed) % 4), i, names[name],
               none ? 0 : 1 + (unsigned)(dice(seed) % 2), 1 + (unsigned)(dice(seed) % 64),
               1 + (unsigned)(dice(seed) % 64));
    if (dice(seed) % 8)
        buf_printf(b, "%u,", (unsigned)price);
    else
        buf_puts(b, ",");
    if (b->data[b->len - 2] != ',' && spot && spot < price)
        buf_printf(b, "%u", (unsigned)spot);
    buf_printf(b, ",s,%s\n", dice(seed) % 3 ? "2026-01-01" : "");
}

/* For all rows in all orders: each offer matches, no matching row is missing, offers are in order, and another order of
 * the rows gives the same. */
static void test_random_rows(void **state)
{
    (void)state;
    struct scene before = s;
    static const char *const requests[] = {"A100:1", "A100|H100:2",        "cpu:8+", "cpu:8+ memory:20+",
                                           "T4",     "A100-80GB:2 cpu:32+"};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t dice_seed = seed;
        struct buf forward = {0}, one = {0}, backward = {0};
        for (unsigned i = 0; i < 500; i++) {
            buf_clear(&one);
            random_row(&one, &dice_seed, i);
            buf_append(&forward, one.data, one.len);
            CLEANUP(cleanup_free) char *rest = xstrdup(backward.data ? backward.data : "");
            buf_clear(&backward);
            buf_printf(&backward, "%s%s", one.data, rest);
        }
        struct catalog_query query = {.nodes = 1 + (uint32_t)(seed % 3),
                                      .spot = (enum catalog_spot)(seed % 3),
                                      .max_microusd = seed % 4 ? 0 : 30000000};
        if (seed % 5 == 0) {
            query.providers = providers;
            query.provider_count = 3;
        }
        const char *request = requests[seed % ARRAY_LEN(requests)];
        scene_rows(&s, forward.data);
        struct catalog_request r;
        struct catalog_offer *offers;
        size_t count, wanted = 0;
        struct error err = ERROR_INIT;
        assert_int_equal(catalog_request_parse(s.c, request, s.arena, &r, &err), 0);
        query.request = &r;
        assert_int_equal(catalog_offers(s.c, &query, s.arena, &offers, &count, &err), 0);
        for (size_t i = 0; i < s.c->count; i++) { /* by hand */
            const struct catalog_row *row = &s.c->rows[i];
            bool suits = r.accelerator_count == 0 ? row->count == 0 : false;
            for (size_t j = 0; j < r.accelerator_count; j++)
                suits |= str_eq(r.accelerators[j], row->accelerator) && r.count == row->count;
            suits &= row->vcpus >= r.vcpus && row->memory_mib >= r.memory_mib;
            bool taken = !query.provider_count;
            for (size_t j = 0; j < query.provider_count; j++)
                taken |= str_eq(providers[j], row->provider);
            uint64_t limit = query.max_microusd ? query.max_microusd : UINT64_MAX;
            if (suits && taken && query.spot != CATALOG_ON_DEMAND && row->spot_microusd)
                wanted += row->spot_microusd * query.nodes <= limit;
            if (suits && taken && query.spot != CATALOG_SPOT)
                wanted += (row->price_microusd || !query.max_microusd) && row->price_microusd * query.nodes <= limit;
        }
        assert_int_equal(count, wanted);
        for (size_t i = 1; i < count; i++) {
            const struct catalog_offer *a = &offers[i - 1], *b = &offers[i];
            assert_true(query.spot != CATALOG_SPOT_PREFER || a->spot >= b->spot);
            if (a->spot == b->spot)
                assert_true(b->price_microusd == 0 || (a->price_microusd && a->price_microusd <= b->price_microusd));
            if (a->spot == b->spot && a->price_microusd == b->price_microusd)
                assert_true(a->row->as_of_day >= b->row->as_of_day);
        }
        CLEANUP(cleanup_free) char *first = xstrdup(offers_of(request, query));
        scene_close(&s);
        scene_rows(&s, backward.data);
        assert_string_equal(offers_of(request, query), first);
        scene_close(&s);
        buf_free(&forward);
        buf_free(&backward);
        buf_free(&one);
    }
    s = before;
}

static void test_sums_do_not_overflow(void **state)
{
    (void)state;
    struct scene before = s;
    struct catalog_request r;
    struct catalog_offer *offers;
    size_t count;
    struct error err = ERROR_INIT;
    scene_rows(&s, "a,r,dear,T4,1024,4,16,61000,,s,\n");
    assert_int_equal(catalog_request_parse(s.c, "dear", s.arena, &r, &err), 0);
    struct catalog_query query = {.request = &r, .nodes = UINT32_MAX};
    assert_int_equal(catalog_offers(s.c, &query, s.arena, &offers, &count, &err), 0);
    assert_true(offers[0].total_microusd == UINT64_MAX);
    query.nodes = 0; /* one */
    assert_int_equal(catalog_offers(s.c, &query, s.arena, &offers, &count, &err), 0);
    assert_true(offers[0].total_microusd == 61000000000u);
    scene_close(&s);
    s = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_faulty_requests),
        cmocka_unit_test(test_offers),
        cmocka_unit_test(test_no_offer_says_why),
        cmocka_unit_test(test_order_of_equal_prices),
        cmocka_unit_test(test_random_rows),
        cmocka_unit_test(test_sums_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
