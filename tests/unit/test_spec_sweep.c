/*
 * Points from the user's side: found again by name, id and values, the spec of their launch, and draws that only grow.
 * Valid specs are in the fixtures of test_spec.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rhrun/spec.h"

static struct arena *arena;
static char path[] = "/tmp/test_spec_sweep.XXXXXX";

/* The spec of that text; all have one path, and so one origin. NULL after a fault. */
static const struct spec *load_with(const char *text, const struct spec_overrides *over)
{
    struct diagnostics diagnostics = {0};
    struct error err = ERROR_INIT;
    struct spec *spec = NULL;
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, &err), 0);
    int rc = spec_load(path, over, arena, &spec, &diagnostics, &err);
    diagnostics_free(&diagnostics);
    return rc == 0 ? spec : NULL;
}

static const struct spec *load(const char *text)
{
    return load_with(text, NULL);
}

static const struct spec *load_chosen(const char *text, const char *param)
{
    return load_with(text, &(struct spec_overrides){.params = &param, .param_count = 1});
}

static const char *const matrix = "params: {lr: 1e-3, model: gpt2, n: {type: integer}}\n"
                                  "sweep: {matrix: {model: [gpt2, a/b], lr: [1e-3, 3e-4], n: [1]}}\n"
                                  "entrypoint: {run: 'x ${{ params.lr }}'}\n";
static const char *const plain = "params: {lr: 1e-3, model: gpt2, n: {type: integer}}\nentrypoint: {run: x}\n";

static void test_variant(void **state)
{
    (void)state;
    const struct spec *sweep = load(matrix);
    const char *const params[] = {"n=1", "lr=3e-4"};
    const struct spec *alone = load_with(plain, &(struct spec_overrides){.params = params, .param_count = 2});
    assert_int_equal(sweep->sweep->point_count, 4);
    const struct spec_point *p = spec_point_find(sweep->sweep->all, 4, "lr=3e-4,model=gpt2,n=1");
    assert_non_null(p);
    assert_string_equal(p->variant, alone->variant);
    assert_string_equal(spec_at_point(sweep, p).variant, alone->variant);
    assert_string_not_equal(sweep->variant, alone->variant);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(sweep->sweep->all[i].variant, sweep->sweep->all[k].variant);
    /* the chosen point is the same, and so is the job */
    const struct spec *chosen = load_chosen(matrix, "lr=0.0003");
    assert_int_equal(chosen->sweep->point_count, 2);
    assert_int_equal(chosen->sweep->all_count, 4);
    assert_false(chosen->sweep->own);
    assert_string_equal(chosen->variant, sweep->variant);
    assert_string_equal(chosen->sweep->points[0].variant, p->variant);
    assert_string_equal(chosen->sweep->points[0].id, p->id);
    assert_string_equal(chosen->sweep->points[0].name, p->name);
    assert_int_equal(chosen->sweep->points[0].index, p->index);
}

static void test_own_point(void **state)
{
    (void)state;
    static const char *const swept = "params: {lr: 1e-3, model: gpt2}\n"
                                     "sweep: {matrix: {lr: [1, 2]}}\nentrypoint: {run: x}\n";
    static const char *const without = "params: {lr: 1e-3, model: gpt2}\nentrypoint: {run: x}\n";
    const struct spec *own = load_chosen(swept, "lr=7");
    assert_true(own->sweep->own);
    assert_int_equal(own->sweep->point_count, 1);
    assert_int_equal(own->sweep->points[0].index, 2);
    assert_string_equal(own->sweep->points[0].name, "lr=7");
    assert_string_equal(own->sweep->points[0].variant, load_chosen(without, "lr=7")->variant);
    assert_true(own->sweep->points[0].params[0].given);
    /* another param is for all points */
    const struct spec *other = load_chosen(swept, "model=bert");
    assert_int_equal(other->sweep->point_count, 2);
    assert_string_equal(other->sweep->points[0].params[1].value, "bert");
    assert_string_equal(other->sweep->points[0].params_json, "{\"lr\":1}");
    assert_string_not_equal(other->sweep->points[0].id, load(swept)->sweep->points[0].id);
    /* likewise if only the identity is needed */
    const char *param = "lr=2";
    const struct spec *brief =
        load_with(swept, &(struct spec_overrides){.params = &param, .param_count = 1, .identity_only = true});
    assert_int_equal(brief->sweep->point_count, 1);
    assert_string_equal(brief->sweep->points[0].variant, load(swept)->sweep->points[1].variant);
    assert_string_equal(brief->variant, load(without)->variant);
}

static void test_order(void **state)
{
    (void)state;
    static const char *const turned = "params: {lr: 1e-3, model: gpt2, n: {type: integer}}\n"
                                      "sweep: {matrix: {n: [1], lr: [0.0003, 5, 0.001], model: [a/b, gpt2]}}\n"
                                      "entrypoint: {run: x}\n";
    const struct spec_sweep *a = load(matrix)->sweep, *b = load(turned)->sweep;
    for (size_t i = 0; i < a->point_count; i++) {
        const struct spec_point *p = spec_point_find(b->all, b->all_count, a->all[i].id);
        assert_non_null(p);
        assert_string_equal(p->params_json, a->all[i].params_json);
    }
    assert_int_equal(b->point_count, 6);
}

static void test_match(void **state)
{
    (void)state;
    const struct spec_sweep *s = load(matrix)->sweep;
    const struct spec_point *found[4];
    const char *const lr[] = {"lr=0.0010"}, *const both[] = {"model=a/b", "lr=3e-4"}, *const none[] = {"lr=3"},
                      *const unknown[] = {"rl=3"}, *const odd[] = {"lr"}, *const type[] = {"lr=x"},
                      *const fixed[] = {"n=0x1"};
    assert_int_equal(spec_points_match(s->all, 4, lr, 1, found), 2);
    assert_string_equal(found[0]->name, "lr=1e-3,model=gpt2,n=1");
    assert_string_equal(found[1]->name, "lr=1e-3,model=a%2Fb,n=1");
    assert_int_equal(spec_points_match(s->all, 4, both, 2, found), 1);
    assert_string_equal(found[0]->name, "lr=3e-4,model=a%2Fb,n=1");
    assert_int_equal(spec_points_match(s->all, 4, none, 1, found), 0);
    assert_int_equal(spec_points_match(s->all, 4, unknown, 1, found), 0);
    assert_int_equal(spec_points_match(s->all, 4, odd, 1, found), 0);
    assert_int_equal(spec_points_match(s->all, 4, type, 1, found), 0);
    assert_int_equal(spec_points_match(s->all, 4, fixed, 1, found), 4);
    assert_int_equal(spec_points_match(s->all, 4, NULL, 0, found), 4);
    assert_ptr_equal(spec_point_find(s->all, 4, s->all[2].id), &s->all[2]);
    assert_null(spec_point_find(s->all, 4, "lr=1e-3"));
    assert_null(spec_point_find(s->all, 4, ""));
    assert_string_equal(spec_points_words(s->all, 4, 1, arena), "lr=1e-3,model=gpt2,n=1 and 3 more");
    assert_string_equal(spec_points_words(s->all, 1, 1, arena), "lr=1e-3,model=gpt2,n=1");
}

static const char *expanded(const struct spec *spec, const char *text, bool keep_late, enum expr_status *ret)
{
    const struct spec_text t = {.text = text, .has_expr = true};
    const struct expr_context ctx = {.spec = spec};
    struct error err = ERROR_INIT;
    const char *value = NULL;
    *ret = expr_expand(&t, EXPR_PLAIN, &ctx, keep_late, arena, &value, &err);
    return value;
}

static void test_expressions(void **state)
{
    (void)state;
    const struct spec *spec = load(matrix);
    const char *text = "${{ params.lr }} ${{ point }} ${{ point.index + 1 }} ${{ params.lr == 1 || rank == 0 }}";
    const char *all = "${{ params.lr }}/${{ job.name }}/${{ point.id }}";
    enum expr_status status;
    expanded(spec, "${{ params.lr }}", false, &status);
    assert_int_equal(status, EXPR_LATE);
    expanded(spec, "${{ point.index }}", false, &status);
    assert_int_equal(status, EXPR_LATE);
    assert_non_null(strstr(expanded(spec, all, true, &status), "${{ params.lr }}/test_spec_sweep"));
    const struct spec at = spec_at_point(spec, &spec->sweep->all[3]);
    assert_string_equal(expanded(&at, text, true, &status),
                        "3e-4 lr=3e-4,model=a%2Fb,n=1 4 ${{ 3e-4 == 1 || rank == 0 }}");
    assert_int_equal(status, EXPR_OK);
    assert_non_null(strstr(expanded(&at, all, false, &status), at.point->id));
    /* a job without a sweep is one point without a name */
    const struct spec *alone = load("params: {lr: 3}\nentrypoint: {run: 'x ${{ point }}'}\n");
    assert_string_equal(expanded(alone, "[${{ point }}${{ point.index }}]", false, &status), "[0]");
    const struct spec *one = load("params: {lr: 1}\nsweep: {points: [{lr: 0x3}]}\nentrypoint: {run: x}\n");
    assert_string_equal(expanded(alone, "${{ point.id }}", false, &status), one->sweep->all[0].id);
}

static const struct spec_sweep *drawn(const char *random, int count, int seed)
{
    return load(arena_printf(arena,
                             "params: {a: 0.5, b: 1, c: x, point: 0}\n"
                             "sweep: {random: {%s}, count: %d, seed: %d}\nentrypoint: {run: x}\n",
                             random, count, seed))
        ->sweep;
}

static void test_random(void **state)
{
    (void)state;
    static const char *const a = "a: {uniform: [-1, 2]}", *const b = "b: {int: [-5, 5]}";
    const struct spec_sweep *few = drawn(a, 5, 3), *many = drawn(a, 500, 3);
    const struct spec_sweep *both = drawn(arena_printf(arena, "%s, %s", b, a), 500, 3), *other = drawn(a, 5, 4);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(few->all[i].id, many->all[i].id);
        assert_string_equal(few->all[i].params[0].value, both->all[i].params[0].value);
        assert_string_not_equal(few->all[i].id, other->all[i].id);
    }
    /* the rule of docs/spec.md, computed elsewhere: SHA-256 of "3/0/a" begins with these 8 bytes */
    unsigned char digest[32];
    uint64_t n = 0;
    digest_sha256("3/0/a", 5, digest);
    for (size_t i = 0; i < 8; i++)
        n = n << 8 | digest[i];
    const char *text = arena_printf(arena, "%.6g", -1 + (double)(n >> 11) / 9007199254740992.0 * 3);
    assert_string_equal(few->all[0].params[0].value, text);
    for (size_t i = 0; i < many->all_count; i++) {
        const double value = strtod(many->all[i].params[0].value, NULL);
        assert_true(value >= -1 && value <= 2);
    }
    const struct spec_sweep *ints = drawn(b, 1000, 0);
    assert_int_equal(ints->all_count, 11); /* equal draws count once, and both ends are among them */
    const struct spec_sweep *log = drawn("a: {log_uniform: [1e-6, 1e-2]}", 1000, 0);
    size_t below = 0;
    for (size_t i = 0; i < log->all_count; i++) {
        const double value = strtod(log->all[i].params[0].value, NULL);
        assert_true(value >= 1e-6 && value <= 1e-2);
        below += value < 1e-4;
    }
    assert_in_range(below, 400, 600);
    assert_int_equal(drawn("b: {int: [-9223372036854775808, 9223372036854775807]}", 50, 0)->all_count, 50);
    assert_int_equal(drawn("a: {uniform: [0.1234567, 0.1234568]}", 50, 0)->all_count,
                     1); /* the six digits are below the range */
    assert_int_equal(drawn("c: {choice: [x, y, x]}", 50, 0)->all_count, 2);
}

static void test_limits(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_puts(&b, "params: {a: 1, p: {type: string}}\nsweep: {matrix: {a: [");
    for (int i = 0; i < 10000; i++)
        buf_printf(&b, "%d,", i);
    const size_t len = b.len;
    buf_puts(&b, "], p: [x]}}\nentrypoint: {run: x}\n");
    const struct spec *spec = load(b.data);
    assert_non_null(spec);
    assert_int_equal(spec->sweep->point_count, SPEC_POINTS_MAX);
    b.len = len;
    buf_puts(&b, "], p: [x]}, include: [{a: 10000, p: x}]}\nentrypoint: {run: x}\n");
    assert_null(load(b.data));
    b.len = len;
    buf_puts(&b, "], p: ['");
    for (int i = 0; i < 1700; i++)
        buf_putc(&b, 'x');
    buf_puts(&b, "']}}\nentrypoint: {run: x}\n"); /* over 16 MiB of values */
    assert_null(load(b.data));
    buf_clear(&b);
    buf_puts(&b, "params: {p0: 1");
    for (int i = 1; i < 101; i++)
        buf_printf(&b, ",p%d: 1", i);
    buf_puts(&b, "}\nsweep: {points: [{");
    for (int i = 0; i < 101; i++)
        buf_printf(&b, "p%d: 2,", i);
    buf_puts(&b, "}]}\nentrypoint: {run: x}\n");
    assert_null(load(b.data));
    buf_free(&b);
}

/* The journal's data of a run is enough to know its points. */
static void test_of_text(void **state)
{
    (void)state;
    static const char *const text = "params: {lr: 1e-3, model: gpt2}\n"
                                    "sweep: {matrix: {lr: [1, 2]}}\nentrypoint: {run: x}\n";
    static const char *const params[] = {"lr=2", "model=bert"}, *const sets[] = {"sweep.matrix.lr=[3, 4, 5]"};
    const struct spec_sweep *all = spec_sweep_of(text, &(struct spec_overrides){0}, arena);
    assert_int_equal(all->point_count, 2);
    assert_string_equal(all->points[1].id, load(text)->sweep->points[1].id);
    const struct spec_sweep *one =
        spec_sweep_of(text, &(struct spec_overrides){.params = params, .param_count = 2}, arena);
    assert_int_equal(one->point_count, 1);
    assert_int_equal(one->all_count, 2);
    assert_string_equal(one->points[0].params[1].value, "bert");
    assert_int_equal(spec_sweep_of(text, &(struct spec_overrides){.sets = sets, .set_count = 1}, arena)->point_count,
                     3);
    assert_null(spec_sweep_of("entrypoint: {run: x}\n", &(struct spec_overrides){0}, arena));
    assert_null(spec_sweep_of("[", &(struct spec_overrides){0}, arena));
    assert_null(spec_sweep_of("", &(struct spec_overrides){0}, arena));
    assert_null(spec_sweep_of("sweep: {matrix: {lr: 3}}\n", &(struct spec_overrides){0}, arena));
    /* the choice of -p is known, and a default is no choice */
    const struct spec *spec = load_chosen(text, "lr=2");
    assert_string_equal(spec->params[0].chosen, "2");
    assert_null(spec->params[1].chosen);
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    arena = arena_create();
    return fd < 0 || close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    arena_destroy(arena);
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variant), cmocka_unit_test(test_own_point),   cmocka_unit_test(test_order),
        cmocka_unit_test(test_match),   cmocka_unit_test(test_expressions), cmocka_unit_test(test_random),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_of_text),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
