/* catalog: files, refused rows, layers, names of accelerators. */
#include "catalog_scene.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- values ---- */

static void test_money(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t micro;
        const char *back;
    } good[] = {{"4", 4000000, "4.00"},      {"21.957642", 21957642, "21.957642"},
                {"0.0832", 83200, "0.0832"}, {"0", 0, "0.00"},
                {"3.10", 3100000, "3.10"},   {"0.0000005", 1, "0.000001"},
                {"0.0000004", 0, "0.00"},    {"1.9999999", 2000000, "2.00"},
                {"007", 7000000, "7.00"},    {"999999999", 999999999000000, "999999999.00"}};
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      ".5",
                                      "5.",
                                      "1e3",
                                      "NaN",
                                      "inf",
                                      "0x10",
                                      " 1",
                                      "1 ",
                                      "1,5",
                                      "1.2.3",
                                      "$4",
                                      "1000000000",
                                      "٣",
                                      "1.000000000000000000000"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        uint64_t micro = 77;
        char back[32];
        assert_true(catalog_parse_usd(good[i].text, &micro));
        assert_int_equal(micro, good[i].micro);
        catalog_format_usd(micro, 2, back);
        assert_string_equal(back, good[i].back);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        uint64_t micro = 77;
        if (catalog_parse_usd(bad[i], &micro) || micro != 77)
            fail_msg("\"%s\" is %llu", bad[i], (unsigned long long)micro);
    }
    char whole[32];
    catalog_format_usd(60000000, 0, whole);
    assert_string_equal(whole, "60");
}

static void test_dates(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "2026-7-20",  "2026-13-01", "2026-00-10",
                                      "2026-02-29", "2026-04-31", "1999-12-31", "2200-01-01",
                                      "20260720",   "2026-07-2x", "2026/07/20", "2026-07-200"};
    uint32_t day = 0, before = 0;
    char text[32];
    assert_true(catalog_parse_date("2000-01-01", &day));
    assert_int_equal(day, 10957);
    assert_true(catalog_parse_date("2026-11-23", &day));
    assert_int_equal(day, 20780);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(catalog_parse_date(bad[i], &day));
    for (day = 10957; day < 84000; day++) { /* each day of two hundred years, and none twice */
        uint32_t back;
        catalog_format_date(day, text);
        assert_true(catalog_parse_date(text, &back));
        assert_int_equal(back, day);
        assert_true(back > before);
        before = back;
    }
}

/* ---- files ---- */

#define ROW(...) "aws,us-east-1,t," __VA_ARGS__

/* Each is a refused row, with the reason and the place in its line. */
static void test_a_dirty_row_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *row, *reason;
        unsigned column;
    } rows[] = {
        {ROW("T4,1,4,16,0,,s,2026-07-20"), "price_usd_hour is 0", 27},
        {ROW("T4,1,4,16,-1,,s,2026-07-20"), "price_usd_hour \"-1\" is not a decimal number", 27},
        {ROW("T4,1,4,16,NaN,,s,2026-07-20"), "price_usd_hour \"NaN\" is not a decimal number", 27},
        {ROW("T4,1,4,16,1e2,,s,2026-07-20"), "price_usd_hour \"1e2\" is not a decimal number", 27},
        {ROW("T4,1,4,16,inf,,s,2026-07-20"), "price_usd_hour \"inf\" is not a decimal number", 27},
        {ROW("TPU,1,4,16,700.0,,s,2026-07-20"), "a price of 700.0 is not a real price: it is 60 or more for each", 28},
        {ROW("H100,8,4,16,480,,s,2026-07-20"), "a price of 480 is not a real price", 29},
        {ROW(",0,4,16,1000,,s,2026-07-20"), "a price of 1000 is not a real price: it is 1000 or more for a machine",
         25},
        {ROW("T4,1,4,16,1,0.00,s,2026-07-20"), "spot_usd_hour is 0", 29},
        {ROW("T4,1,4,16,1,1,s,2026-07-20"), "a spot price of 1 is not below the price, which is 1", 29},
        {ROW("T4,1,4,16,1,1.5,s,2026-07-20"), "a spot price of 1.5 is not below the price, which is 1", 29},
        {ROW("T4,1,4,16,1,-1,s,2026-07-20"), "spot_usd_hour \"-1\" is not a decimal number", 29},
        {ROW("T4,1,4,16,,1,s,2026-07-20"), "a spot price without a price", 28},
        {ROW("T4,0,4,16,1,,s,2026-07-20"), "accelerator \"T4\" without a count", 20},
        {ROW("T4,,4,16,1,,s,2026-07-20"), "accelerator \"T4\" without a count", 20},
        {ROW(",2,4,16,1,,s,2026-07-20"), "2 accelerators without a name", 17},
        {ROW("T4,0.5,4,16,1,,s,2026-07-20"), "count \"0.5\" is not a whole number", 20},
        {ROW("T4,4000,4,16,1,,s,2026-07-20"), "count \"4000\" is not a whole number up to 1024", 20},
        {ROW("T4,1,0,16,1,,s,2026-07-20"), "vcpus is 0", 22},
        {ROW("T4,1,many,16,1,,s,2026-07-20"), "vcpus \"many\" is not a decimal number", 22},
        {ROW("T4,1,4,0,1,,s,2026-07-20"), "memory_gib is 0", 24},
        {ROW("T4,1,4,99999999,1,,s,2026-07-20"), "memory_gib \"99999999\" is more than", 24},
        {ROW("T4 $,1,4,16,1,,s,2026-07-20"), "accelerator \"T4 $\" is not a name", 17},
        {ROW("T4,1,4,16,1,,s,yesterday"), "as_of \"yesterday\" is not a date", 32},
        {ROW("T4,1,4,16,1,,s,2026-02-30"), "as_of \"2026-02-30\" is not a date", 32},
        {"AWS,us-east-1,t,T4,1,4,16,1,,s,2026-07-20", "provider \"AWS\" has characters other", 1},
        {"../x,us-east-1,t,T4,1,4,16,1,,s,2026-07-20", "provider \"../x\" has characters other", 1},
        {",us-east-1,t,T4,1,4,16,1,,s,2026-07-20", "provider is empty", 1},
        {"aws,,t,T4,1,4,16,1,,s,2026-07-20", "region is empty", 5},
        {"aws,us-east-1,,T4,1,4,16,1,,s,2026-07-20", "instance_type is empty", 15},
        {"aws, us-east-1,t,T4,1,4,16,1,,s,2026-07-20", "region \" us-east-1\" begins or ends with a blank", 5},
        {"aws,us-east-1,0123456789012345678901234567890123456789012345678901234567890123456789,T4,1,4,16,1,,s,",
         "instance_type of 70 bytes; it has at most 64", 15},
        {ROW("T4,1,4,16,1,,s"), "a row of 10 fields, and the first line has 11", 1},
        {ROW("T4,1,4,16,1,,s,2026-07-20,more"), "a row of 12 fields, and the first line has 11", 1},
        {ROW("T4,1,4,16,1,,\"s,2026-07-20"), "the quote that begins here is not closed", 30},
        {ROW("T4,1,4,16,1,,\"s\"x,2026-07-20"), "there is text after the closing quote", 30},
        {ROW("T4,1,4,16,1,,s\"x\",2026-07-20"), "there is a quote in a field that does not begin with one", 30},
        {ROW("T4,1,4,16,1,,s\033[2J,2026-07-20"), "a field with control characters, or text that is not UTF-8", 30},
        {ROW("T4,1,4,16,1,,\"two\nlines\",2026-07-20"), "a field with control characters, or text that is not UTF-8",
         30},
        {ROW("T4,1,4,16,1,,\xff,2026-07-20"), "a field with control characters, or text that is not UTF-8", 30},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct scene s;
        CLEANUP(cleanup_free)
        char *text = xasprintf("%s%s\nvultr,ewr,good,,0,1,1,1,,s,2026-01-01", HEADER, rows[i].row);
        scene_open(&s);
        bool swallowed = strstr(rows[i].reason, "not closed") != NULL; /* the quote ends with the file */
        assert_int_equal(scene_read(&s, text), swallowed ? 0 : 1);
        if (s.d.count != 1 || !str_starts(s.d.items[0].message, rows[i].reason) || s.d.items[0].place.line != 2 ||
            s.d.items[0].place.column != rows[i].column)
            fail_msg("%s: %zu faults, line %u, column %u: %s", rows[i].row, s.d.count,
                     s.d.count ? s.d.items[0].place.line : 0, s.d.count ? s.d.items[0].place.column : 0,
                     s.d.count ? s.d.items[0].message : "");
        assert_int_equal(s.c->count, swallowed ? 0 : 1);
        assert_null(scene_find(&s, "t"));
        scene_close(&s);
    }
}

static void test_all_faults_of_a_row_are_told(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s);
    assert_int_equal(scene_read(&s, HEADER ROW("T4,x,y,z,0,0,s,never\n")), 0);
    assert_int_equal(s.d.errors, 6); /* count, vcpus, memory, price, spot, date */
    scene_close(&s);
}

static void test_a_faulty_header_leaves_out_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason, *hint;
    } files[] = {
        {"", "the file is empty", NULL},
        {"\n\n", "the file is empty", NULL},
        {"provider,region\n", "columns are missing: instance_type, accelerator, count,", NULL},
        {"provider,regions\n", "unknown column \"regions\"", "did you mean region?"},
        {"Provider,region\n", "unknown column \"Provider\"", "did you mean provider?"},
        {"provider,region,provider\n", "column \"provider\" appears twice", NULL},
        {"provider,\"region\n", "the quote that begins here is not closed", NULL},
        {"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\n", "a line of more than 32 fields", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct scene s;
        scene_open(&s);
        assert_true(scene_read(&s, files[i].text) <= 0);
        assert_true(s.d.count > 0);
        if (!str_starts(s.d.items[0].message, files[i].reason))
            fail_msg("%s", s.d.items[0].message);
        if (files[i].hint)
            assert_string_equal(s.d.items[0].hint, files[i].hint);
        assert_int_equal(s.c->count, 0);
        scene_close(&s);
    }
}

/* Columns in another order and the two optional ones; a byte order mark, CRLF, empty lines, quotes, no end of the last
 * line. */
static void test_a_file_of_another_shape(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s);
    long put = scene_read(
        &s, "\xef\xbb\xbf"
            "as_of,source,zone,spot_usd_hour,price_usd_hour,memory_gib,gpu_memory_gib,vcpus,count,"
            "accelerator,instance_type,region,provider\r\n\r\n"
            "2026-07-20,\"from \"\"us\"\", ours\",b,\"1.5\",3,2267.5,79.1,8.0,2,nvidia a100 80gb,\"x,y\",r,p\r\n"
            "\n,,,,,,,,,,free,r,p");
    if (s.d.count)
        fail_msg("%s", s.d.items[0].message);
    assert_int_equal(put, 2);
    const struct catalog_row *row = scene_find(&s, "x,y");
    assert_string_equal(row->source, "from \"us\", ours");
    assert_string_equal(row->accelerator, "A100-80GB");
    assert_string_equal(row->zone, "b");
    assert_int_equal(row->count, 2);
    assert_int_equal(row->vcpus, 8);
    assert_int_equal(row->memory_mib, 2321920);
    assert_int_equal(row->price_microusd, 3000000);
    assert_int_equal(row->spot_microusd, 1500000);
    assert_string_equal(row->file, "test.csv");
    row = scene_find(&s, "free"); /* without optional facts */
    assert_null(row->accelerator);
    assert_int_equal(row->price_microusd + row->spot_microusd + row->vcpus + row->memory_mib + row->as_of_day, 0);
    scene_close(&s);
}

static void test_limits_of_a_file(void **state)
{
    (void)state;
    struct scene s;
    struct buf b = {0};
    buf_puts(&b, HEADER);
    for (unsigned i = 0; i <= CATALOG_ROWS_MAX; i++)
        buf_printf(&b, "aws,r,t%u,,0,1,1,1,,,\n", i);
    scene_open(&s);
    assert_int_equal(scene_read(&s, b.data), CATALOG_ROWS_MAX);
    assert_int_equal(s.d.count, 1);
    assert_string_equal(s.d.items[0].message, "more than 100000 rows; the rest is left out");
    scene_close(&s);
    buf_clear(&b);
    buf_puts(&b, HEADER "aws,r,t,,0,1,1,1,,");
    for (unsigned i = 0; i < CATALOG_FIELD_MAX; i++)
        buf_putc(&b, 'x');
    buf_puts(&b, ",\n");
    scene_open(&s);
    assert_int_equal(scene_read(&s, b.data), 1);
    scene_close(&s);
    buf_clear(&b);
    buf_puts(&b, HEADER "aws,r,t,,0,1,1,1,,");
    for (unsigned i = 0; i <= CATALOG_FIELD_MAX; i++)
        buf_putc(&b, 'x');
    buf_puts(&b, ",\n");
    scene_open(&s);
    assert_int_equal(scene_read(&s, b.data), 0);
    assert_string_equal(s.d.items[0].message, "a field of 256 bytes; it has at most 255");
    scene_close(&s);
    buf_free(&b);
    scene_open(&s); /* a NUL does not end it */
    assert_int_equal(scene_read_bytes(&s, HEADER "aws,r\0,t,,0,1,1,1,,,\n", sizeof HEADER + 20), 0);
    assert_int_equal(s.d.count, 1);
    scene_close(&s);
}

static void test_a_later_row_replaces(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s);
    long put = scene_read(&s, "zone,provider,region,instance_type,accelerator,count,vcpus,memory_gib,price_usd_hour,"
                              "spot_usd_hour,source,as_of\n"
                              ",aws,r,t,T4,1,4,16,5,,,\n"
                              "a,aws,r,t,T4,1,4,16,6,,,\n"
                              ",gcp,r,t,T4,1,4,16,7,,,\n"
                              ",aws,r2,t,T4,1,4,16,8,,,\n"
                              ",aws,r,t,L4,2,4,16,4,2,,\n");
    assert_int_equal(put, 5);
    assert_int_equal(s.c->count, 4);
    assert_string_equal(s.c->rows[0].accelerator, "L4"); /* replaced as a whole: nothing of the earlier row stays */
    assert_int_equal(s.c->rows[0].count, 2);
    assert_int_equal(s.c->rows[0].price_microusd, 4000000);
    scene_close(&s);
}

/* Many rows that are alike except for one name, whatever the table of rows does with them. */
static void test_each_name_tells_machines_apart(void **state)
{
    (void)state;
    enum { EACH = 500 };
    struct scene s;
    struct buf b = {0};
    buf_puts(
        &b, "provider,region,zone,instance_type,accelerator,count,vcpus,memory_gib,price_usd_hour,spot_usd_hour,source,"
            "as_of\n");
    for (unsigned i = 0; i < 2 * EACH; i++)
        buf_printf(&b, "p%u,r,z,t,,0,1,1,1,,,\np,r%u,z,t,,0,1,1,1,,,\np,r,z%u,t,,0,1,1,1,,,\np,r,z,t%u,,0,1,1,1,,,\n",
                   i % EACH, i % EACH, i % EACH, i % EACH);
    scene_open(&s);
    assert_int_equal(scene_read(&s, b.data), 8 * EACH);
    assert_int_equal(s.c->count, 4 * EACH);
    scene_close(&s);
    buf_free(&b);
}

/* Written rows are read as they were. */
static void test_written_rows_are_read_again(void **state)
{
    (void)state;
    struct scene s, t;
    struct buf b = {0};
    scene_rows(&s,
               "aws,r,\"a,b\",A100,8,96,1152.5,21.957642,8.1203,\"says \"\"x\"\"\",2026-07-20\nvast,r,t,,0,,,,,,\n");
    catalog_write_header(&b);
    for (size_t i = 0; i < s.c->count; i++)
        catalog_write_row(&b, &s.c->rows[i]);
    scene_open(&t);
    assert_int_equal(scene_read(&t, b.data), 2);
    assert_int_equal(t.d.count, 0);
    for (size_t i = 0; i < 2; i++) {
        const struct catalog_row *x = &s.c->rows[i], *y = &t.c->rows[i];
        assert_string_equal(x->instance_type, y->instance_type);
        assert_true(str_eq(x->accelerator, y->accelerator));
        assert_string_equal(x->source, y->source);
        assert_int_equal(x->memory_mib, y->memory_mib);
        assert_int_equal(x->price_microusd, y->price_microusd);
        assert_int_equal(x->spot_microusd, y->spot_microusd);
        assert_int_equal(x->as_of_day, y->as_of_day);
        assert_int_equal(x->vcpus, y->vcpus);
    }
    buf_free(&b);
    scene_close(&s);
    scene_close(&t);
}

/* ---- accelerators ---- */

static void test_names_of_accelerators(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"a100", "A100"},
        {"A100", "A100"},
        {"NVIDIA A100 80GB PCIe", "A100-80GB"},
        {"a100_80gb", "A100-80GB"},
        {"nvidia-tesla-a100", "A100"},
        {"nvidia_h100", "H100"},
        {"NVIDIA H100 NVL", "H100-NVL"},
        {"h100-pcie", "H100-PCIE"},
        {"H100-SXM5", "H100"},
        {"rtx 4090", "RTX4090"},
        {"A6000", "RTXA6000"},
        {"Tesla V100-SXM2-32GB", "V100-32GB"},
        {"AMD Instinct MI300X OAM", "MI300X"},
    };
    static const char *const unknown[] = {"", " ", "A10O", "A100-81GB", "A1000", "A10", "gpu"};
    struct scene s;
    scene_open(&s);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!str_eq(catalog_accelerator(s.c, names[i][0]), names[i][1]))
            fail_msg("%s is %s", names[i][0], catalog_accelerator(s.c, names[i][0]));
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
        if (catalog_accelerator(s.c, unknown[i]) && !str_eq(unknown[i], "A10"))
            fail_msg("\"%s\" is %s", unknown[i], catalog_accelerator(s.c, unknown[i]));
    assert_string_equal(catalog_accelerator_note(s.c, "A100", s.arena),
                        "A100 means the one with 40 GB; the others have names of their own: A100-80GB");
    assert_string_equal(catalog_accelerator_note(s.c, "H100", s.arena),
                        "H100 means the one with 80 GB; the others have names of their own: H100-NVL, H100-PCIE");
    assert_null(catalog_accelerator_note(s.c, "H200", s.arena));
    scene_close(&s);
}

/* No name means two accelerators, and each alias names an existing one. */
static void test_the_table_of_accelerators_is_sound(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s);
    const struct accelerators *a = &s.c->accelerators;
    assert_in_range(a->count, 30, 200);
    for (size_t i = 0; i < a->count; i++) {
        const struct accelerator *one = &a->items[i];
        assert_true(one->memory_mib > 0);
        assert_ptr_equal(accelerators_find(a, one->name), one);
        for (size_t j = 0; j < one->alias_count; j++)
            if (accelerators_find(a, one->aliases[j]) != one)
                fail_msg("\"%s\" is a name of %s, too", one->aliases[j], accelerators_find(a, one->aliases[j])->name);
        for (size_t j = 0; j < one->also_count; j++)
            assert_string_equal(accelerators_find(a, one->also[j])->name, one->also[j]);
    }
    scene_close(&s);
}

#define MEMORY_HEADER                                                                                               \
    "provider,region,instance_type,accelerator,gpu_memory_gib,count,vcpus,memory_gib,price_usd_hour,spot_usd_hour," \
    "source,as_of\n"

static void test_one_name_for_two_cards_is_refused(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s);
    assert_int_equal(scene_read(&s, MEMORY_HEADER "vast,us,a,A100,80,1,1,1,1,,,\n"), 0);
    assert_string_equal(s.d.items[0].message, "an accelerator with 80 GiB, and A100 has 40");
    assert_string_equal(s.d.items[0].hint, "variants have names of their own: A100-80GB, say");
    assert_int_equal(scene_read(&s, MEMORY_HEADER "vast,us,a,H100,95,1,1,1,1,,,\n"), 0);
    assert_int_equal(scene_read(&s, MEMORY_HEADER "vast,us,a,A10,22.3,1,1,1,1,,,\nvast,us,b,New X,95,1,1,1,1,,,\n"), 2);
    assert_string_equal(scene_find(&s, "b")->accelerator, "NEW-X");
    assert_string_equal(catalog_accelerator(s.c, "new x"), "NEW-X");
    scene_close(&s);
}

/* ---- layers ---- */

static char folder[64];

static const char *put_file(struct arena *arena, const char *name, const char *text)
{
    struct error err = ERROR_INIT;
    const char *path = arena_printf(arena, "%s/%s", folder, name);
    char *parent = arena_strdup(arena, path);
    *strrchr(parent, '/') = 0;
    assert_int_equal(mkdir_p(parent, 0700, &err), 0);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &err), 0);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/rhrun-catalog-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *command = xasprintf("rm -rf '%s'", folder);
    return system(command);
}

static void load(struct scene *s, const struct catalog_places *places, int expected)
{
    *s = (struct scene){.arena = arena_create()};
    int rc = catalog_load(places, s->arena, &s->c, &s->d, &s->err);
    if (rc != expected)
        fail_msg("%s; %s", s->err.text, s->d.count ? s->d.items[0].message : "");
}

static void test_what_is_built_in(void **state)
{
    (void)state;
    struct scene s;
    load(&s, &(struct catalog_places){NULL, NULL}, 0);
    if (s.d.count) /* no row is refused */
        fail_msg("line %u: %s", s.d.items[0].place.line, s.d.items[0].message);
    assert_in_range(s.c->count, 40, 2000);
    for (size_t i = 0; i < s.c->count; i++) {
        const struct catalog_row *row = &s.c->rows[i];
        assert_true(row->price_microusd > 0 && row->as_of_day > 0 && *row->source);
        if (row->accelerator && !accelerators_find(&s.c->accelerators, row->accelerator))
            fail_msg("%s is not in the table of accelerators", row->accelerator);
        assert_int_equal(row->layer, CATALOG_BUILT_IN);
    }
    const struct catalog_row *p4d = scene_find(&s, "p4d.24xlarge");
    assert_int_equal(p4d->price_microusd, 21957642);
    scene_close(&s);
}

static void test_layers(void **state)
{
    (void)state;
    struct scene s;
    struct arena *arena = arena_create();
    struct catalog_places places = {arena_printf(arena, "%s/cache", folder), NULL};
    put_file(arena, "cache/aws.csv",
             HEADER "aws,us-east-1,p4d.24xlarge,A100,8,96,1152,20,9,api,2026-11-20\n"
                    "aws,us-east-1,bad,A100,8,96,1152,0,,api,2026-11-20\n"
                    "gcp,us-central1,a2-highgpu-1g,A100,1,12,85,0.01,,wrong file,2026-11-20\n");
    put_file(arena, "cache/lambda.csv", HEADER "lambda,us-east-1,gpu_1x_a10,A10,1,30,200,1.29,,api,2026-11-20\n");
    put_file(arena, "cache/broken.csv", "what is this\n");
    put_file(arena, "cache/notes.txt", "no prices\n");
    places.user_file =
        put_file(arena, "config/catalog.csv", HEADER "aws,us-east-1,p5.48xlarge,H100,8,192,2048,40,,contract,\n");
    load(&s, &places, 0);
    assert_int_equal(s.d.errors, 0);
    assert_int_equal(s.d.count, 3); /* warnings: the price, the other provider's row, the broken file */
    assert_string_equal(scene_find(&s, "p4d.24xlarge")->source, "api");
    assert_int_equal(scene_find(&s, "p4d.24xlarge")->layer, CATALOG_REFRESHED);
    assert_string_equal(scene_find(&s, "p5.48xlarge")->source, "contract");
    assert_string_equal(scene_find(&s, "p5.48xlarge")->file, places.user_file);
    assert_int_equal(scene_find(&s, "a2-highgpu-1g")->layer, CATALOG_BUILT_IN);
    assert_non_null(scene_find(&s, "gpu_1x_a10"));
    scene_close(&s);
    /* The user's file comes last, even after refreshed prices. */
    put_file(arena, "config/catalog.csv", HEADER "aws,us-east-1,p4d.24xlarge,A100,8,96,1152,30,,mine,\n");
    load(&s, &places, 0);
    assert_int_equal(scene_find(&s, "p4d.24xlarge")->price_microusd, 30000000);
    scene_close(&s);
    /* A fault in it is an error: otherwise the built-in price would be used. */
    put_file(arena, "config/catalog.csv", HEADER "aws,us-east-1,p4d.24xlarge,A100,8,96,1152,0,,mine,\n");
    load(&s, &places, -1);
    assert_int_equal(s.err.code, ERROR_SPEC);
    assert_non_null(strstr(s.err.text, "config/catalog.csv: 1 fault in your prices"));
    assert_int_equal(s.d.errors, 1);
    scene_close(&s);
    /* So is a file that cannot be read; a missing file is fine. */
    places.user_file = folder;
    load(&s, &places, -1);
    assert_int_equal(s.err.code, ERROR_IO);
    scene_close(&s);
    places.user_file = arena_printf(arena, "%s/none/catalog.csv", folder);
    load(&s, &places, 0);
    scene_close(&s);
    arena_destroy(arena);
}

/* Of too many files the first ones by name are read, and a message says so. */
static void test_too_many_refreshed_files(void **state)
{
    (void)state;
    struct scene s;
    struct arena *arena = arena_create();
    struct catalog_places places = {arena_printf(arena, "%s/many", folder), NULL};
    for (unsigned i = 100 + CATALOG_FILES_MAX + 3; i-- > 100;)
        put_file(arena, arena_printf(arena, "many/p%u.csv", i),
                 arena_printf(arena, HEADER "p%u,r,t%u,,0,1,1,1,,,\n", i, i));
    load(&s, &places, 0);
    assert_int_equal(s.d.count, 1);
    assert_non_null(strstr(s.d.items[0].message, "has more than 64 files of prices"));
    assert_non_null(scene_find(&s, "t100"));
    assert_non_null(scene_find(&s, "t163"));
    assert_null(scene_find(&s, "t164"));
    scene_close(&s);
    arena_destroy(arena);
}

static void test_places(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    setenv("HOME", "/h", 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("XDG_CONFIG_HOME");
    struct catalog_places places = catalog_places(arena);
    assert_string_equal(places.cache_dir, "/h/.cache/rhrun/catalog");
    assert_string_equal(places.user_file, "/h/.config/rhrun/catalog.csv");
    setenv("XDG_CACHE_HOME", "/c", 1);
    setenv("XDG_CONFIG_HOME", "/d", 1);
    places = catalog_places(arena);
    assert_string_equal(places.cache_dir, "/c/rhrun/catalog");
    assert_string_equal(places.user_file, "/d/rhrun/catalog.csv");
    arena_destroy(arena);
}

static char *text_of(const char *path)
{
    struct buf b = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(file_read(path, 1 << 20, &b, &err), 0);
    return buf_steal(&b);
}

static int replace_in(struct catalog_regions regions, const char *provider, const char *text, size_t *ret_faults,
                      struct error *err)
{
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    const char *dir = arena_printf(arena, "%s/new/cache", folder);
    int rc = catalog_replace(dir, provider, text, strlen(text), regions, arena, NULL, &d, err);
    *ret_faults = d.count;
    assert_int_equal(d.errors, 0); /* a fault in a provider's answer is no fault of the user */
    diagnostics_free(&d);
    arena_destroy(arena);
    return rc;
}

static int replace(const char *provider, const char *text, size_t *ret_faults, struct error *err)
{
    return replace_in((struct catalog_regions){0}, provider, text, ret_faults, err);
}

static void test_refreshed_prices_of_some_regions(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    size_t faults;
    static const char *const names[] = {"EU"};
    const struct catalog_regions only = {names, 1};
    CLEANUP(cleanup_free) char *path = xasprintf("%s/new/cache/lab.csv", folder);
    assert_int_equal(
        replace("lab", HEADER "lab,us,t,A100,8,96,1152,20,,api,\nlab,eu,old,A100,8,96,1152,20,,api,\n", &faults, &err),
        0);
    assert_int_equal(replace_in(only, "lab",
                                HEADER "lab,us,u,A100,8,96,1152,1,,api,\nlab,eu,new,A100,8,96,1152,2,,api,\n", &faults,
                                &err),
                     0);
    CLEANUP(cleanup_free) char *both = text_of(path);
    assert_non_null(strstr(both, "lab,us,,t,A100,8,96,1152,,20,"));
    assert_non_null(strstr(both, "lab,eu,,new,A100,8,96,1152,,2,"));
    assert_null(strstr(both, ",u,"));
    assert_null(strstr(both, ",old,"));
    assert_int_equal(replace_in(only, "lab", HEADER "lab,us,u,A100,8,96,1152,1,,api,\n", &faults, &err), -1);
    assert_string_equal(err.text, "lab gave no price that can be used for these regions");
    CLEANUP(cleanup_free) char *after = text_of(path);
    assert_string_equal(after, both);
}

static void test_how_accelerators_are_called(void **state)
{
    (void)state;
    static const struct {
        const char *name, *form, *memory, *is;
    } cases[] = {{"A100", "SXM4", "80", "A100-80GB"},     {"A100", "SXM4", "40", "A100"},
                 {"H100", "PCIe", "80", "H100-PCIE"},     {"H100", "SXM5", "80", "H100"},
                 {"Tesla V100", NULL, "16", "V100"},      {"nvidia_h100", NULL, NULL, "H100"},
                 {"amd_mi300x", NULL, NULL, "MI300X"},    {"GH200", NULL, "96", "GH200"},
                 {"Tesla V100", NULL, "32", "V100-32GB"}, {"A100", NULL, "9999999999999999", "A100"},
                 {"H100", "SXM5", "79", "H100"},          {"Quux 9", "X", "7", "Quux 9"}};
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    struct catalog *c;
    assert_int_equal(catalog_load(&(struct catalog_places){0}, arena, &c, &d, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(catalog_accelerator_called(c, cases[i].name, cases[i].form, cases[i].memory, arena),
                            cases[i].is);
    diagnostics_free(&d);
    arena_destroy(arena);
}

static void test_refreshed_prices_are_replaced_or_stay(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    size_t faults;
    static const char good[] = HEADER "aws,r,t,A100,8,96,1152,20,9,api,2026-11-20\naws,r,u,A100,8,96,1152,0,,api,\n";
    CLEANUP(cleanup_free) char *path = xasprintf("%s/new/cache/aws.csv", folder);
    assert_int_equal(replace("aws", good, &faults, &err), 0); /* makes the folders */
    assert_int_equal(faults, 1);
    CLEANUP(cleanup_free) char *first = text_of(path);
    assert_non_null(strstr(first, "aws,r,,t,A100,8,96,1152,,20,9,api,2026-11-20\n"));
    assert_null(strstr(first, ",u,"));
    static const char *const bad[] = {"", "<html>busy</html>", HEADER, HEADER "aws,r,t,A100,8,96,1152,0,,api,\n",
                                      HEADER "gcp,r,t,A100,8,96,1152,1,,api,\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(replace("aws", bad[i], &faults, &err), -1);
        assert_string_equal(err.text, "aws gave no price that can be used");
        CLEANUP(cleanup_free) char *after = text_of(path);
        assert_string_equal(after, first);
    }
    assert_int_equal(replace("../aws", good, &faults, &err), -1);
    assert_int_equal(replace("", good, &faults, &err), -1);
    /* No space to write: the old file stays. */
    CLEANUP(cleanup_free) char *blocked = xasprintf("%s/new/cache/gcp.csv", folder);
    assert_int_equal(mkdir(blocked, 0700), 0);
    assert_int_equal(replace("gcp", HEADER "gcp,r,t,A100,8,96,1152,1,,api,\n", &faults, &err), -1);
    assert_int_equal(err.code, ERROR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_money),
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_a_dirty_row_is_refused),
        cmocka_unit_test(test_all_faults_of_a_row_are_told),
        cmocka_unit_test(test_a_faulty_header_leaves_out_the_file),
        cmocka_unit_test(test_a_file_of_another_shape),
        cmocka_unit_test(test_limits_of_a_file),
        cmocka_unit_test(test_a_later_row_replaces),
        cmocka_unit_test(test_each_name_tells_machines_apart),
        cmocka_unit_test(test_written_rows_are_read_again),
        cmocka_unit_test(test_names_of_accelerators),
        cmocka_unit_test(test_the_table_of_accelerators_is_sound),
        cmocka_unit_test(test_one_name_for_two_cards_is_refused),
        cmocka_unit_test(test_what_is_built_in),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_too_many_refreshed_files),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_refreshed_prices_are_replaced_or_stay),
        cmocka_unit_test(test_refreshed_prices_of_some_regions),
        cmocka_unit_test(test_how_accelerators_are_called),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
