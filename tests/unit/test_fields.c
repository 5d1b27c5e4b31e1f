/* fields: each kind of field there and back, omitted fields, and refused values. */
#include "rhrun/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct item {
    const char *name;
    uint32_t count;
};
struct thing {
    uint32_t type;
    const char *text, *plain;
    uint32_t number, place, bits, colour;
    int32_t change;
    uint64_t large;
    bool yes;
    const char *const *words;
    uint32_t word_count;
    const struct item *items;
    uint32_t item_count;
};

static const char *const type_names[] = {"", "first", "second", NULL};
static const char *const colours[] = {"none", "red", "green", NULL};
static const char *const bit_names[] = {"a", "b", "c", NULL};

#define TYPE FIELD_NAME_OF(struct thing, "type", type, type_names, .required = true, .min = 1)
static const struct field item_fields[] = {
    FIELD_OF(struct item, "name", name, .required = true),
    FIELD_OF(struct item, "count", count, .required = false),
};
static const struct fields items = {item_fields, ARRAY_LEN(item_fields), sizeof(struct item)};
static const struct field first_fields[] = {
    TYPE,
    FIELD_OF(struct thing, "text", text, .max = 8),
    FIELD_OF(struct thing, "plain", plain, .required = false),
    FIELD_OF(struct thing, "number", number, .min = 1, .max = 9),
    FIELD_OF(struct thing, "place", place, .none = true),
    FIELD_FLAGS_OF(struct thing, "bits", bits, bit_names, .required = false),
    FIELD_NAME_OF(struct thing, "colour", colour, colours, .none = true),
    FIELD_OF(struct thing, "change", change, .required = false),
    FIELD_OF(struct thing, "large", large, .none = true),
    FIELD_OF(struct thing, "yes", yes, .none = true),
    FIELD_STRINGS_OF(struct thing, "words", words, word_count, .max = 3),
    FIELD_OBJECTS_OF(struct thing, "items", items, item_count, &items, .required = true, .min = 1, .max = 2),
};
static const struct field second_fields[] = {TYPE};
static const struct fields tables[] = {
    [1] = {first_fields, ARRAY_LEN(first_fields), sizeof(struct thing)},
    [2] = {second_fields, ARRAY_LEN(second_fields), sizeof(struct thing)},
};
static const struct fields_types types = {"a thing", tables, 1, 400};

static int read_thing(const char *text, struct arena *arena, struct thing *ret, struct error *err)
{
    memset(ret, 0, sizeof(*ret));
    return fields_from_json(&types, text, strlen(text), arena, ret, err);
}

static void same_again(const char *text)
{
    struct arena *arena = arena_create();
    struct buf out = {0};
    struct thing t;
    struct error err = ERROR_INIT;
    if (read_thing(text, arena, &t, &err) < 0)
        fail_msg("%s: %s", err.text, text);
    fields_to_json(&tables[t.type], &t, &out);
    assert_string_equal(out.data, text);
    buf_free(&out);
    arena_destroy(arena);
}

static void test_there_and_back(void **state)
{
    (void)state;
    same_again("{\"type\":\"second\"}");
    same_again("{\"type\":\"first\",\"number\":1,\"bits\":[],\"change\":0,\"items\":[{\"name\":\"x\",\"count\":0}]}");
    same_again(
        "{\"type\":\"first\",\"text\":\"12345678\",\"plain\":\"\\\"\\u0001\\\\\",\"number\":9,\"place\":0,"
        "\"bits\":[\"a\",\"c\"],\"colour\":\"green\",\"change\":-2147483648,\"large\":9223372036854775807,"
        "\"yes\":true,\"words\":[\"\",\"b\"],\"items\":[{\"name\":\"\",\"count\":1},{\"name\":\"y\",\"count\":2}]}");
}

/* In another order, with blanks, and with keys of another version. */
static void test_as_others_write(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    struct thing t;
    struct error err = ERROR_INIT;
    assert_int_equal(
        read_thing(" { \"new\" : [ { } , null ] , \"items\" : [ { \"x\":1.5e3, \"name\" : \"\\u00e9\" } ] ,"
                   "\n\"type\":\"first\" } ",
                   arena, &t, &err),
        0);
    assert_int_equal(t.item_count, 1);
    assert_string_equal(t.items[0].name, "\xC3\xA9");
    assert_int_equal(t.place, UINT32_MAX); /* none */
    assert_null(t.words);
    arena_destroy(arena);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *more, *says;
    } cases[] = {
        {"\"text\":\"123456789\"", "\"text\" is longer than 8 bytes"},
        {"\"text\":\"\xff\"", "\"text\" is not UTF-8"},
        {"\"number\":0", "number out of range"},
        {"\"number\":10", "number out of range"},
        {"\"number\":1.5", "expected an integer"},
        {"\"large\":-1", "number out of range"},
        {"\"colour\":\"blue\"", "unknown name \"blue\""},
        {"\"bits\":[\"d\"]", "unknown name \"d\""},
        {"\"yes\":1", "expected true or false"},
        {"\"words\":[\"\",\"\",\"\",\"\"]", "too many items"},
        {"\"items\":[]", "too few items"},
        {"\"items\":[{\"name\":\"\"},{\"name\":\"\"},{\"name\":\"\"}]", "too many items"},
        {"\"items\":[{}]", "\"name\" is missing"},
        {"\"number\":1,\"number\":1", "a key appears twice"},
        {"\"number\":1", "\"items\" is missing"},
    };
    struct arena *arena = arena_create();
    struct thing t;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        const char *text = arena_printf(arena, "{\"type\":\"first\",%s}", cases[i].more);
        assert_int_equal(read_thing(text, arena, &t, &err), -1);
        assert_int_equal(err.code, ERROR_IO);
        assert_true(str_starts(err.text, "cannot read a thing: "));
        if (!strstr(err.text, cases[i].says))
            fail_msg("\"%s\" is not in: %s", cases[i].says, err.text);
    }
    static const char *const bad[] = {
        "", "[]", "{}", "{\"type\":\"\"}", "{\"type\":\"third\"}", "{\"type\":\"second\"} x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(read_thing(bad[i], arena, &t, NULL), -1);
    struct error err = ERROR_INIT;
    assert_int_equal(read_thing(arena_printf(arena, "{\"type\":\"second\",\"x\":\"%0400d\"}", 0), arena, &t, &err), -1);
    assert_non_null(strstr(err.text, "larger than 400 bytes"));
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_as_others_write),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
