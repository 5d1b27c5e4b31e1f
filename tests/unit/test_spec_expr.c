/* Expressions: values, lateness, faults; and, with real shells as the reference, that a value in shell text stays
 * data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "expr_scope.h"

static enum expr_status expand(const char *text, enum expr_mode mode, const struct expr_context *ctx, bool keep_late,
                               char *ret, size_t size, struct error *err)
{
    struct arena *arena = arena_create();
    struct spec_text t = {.text = text, .has_expr = strstr(text, "${{") != NULL};
    const char *value = NULL;
    *err = (struct error)ERROR_INIT;
    enum expr_status status = expr_expand(&t, mode, ctx, keep_late, arena, &value, err);
    snprintf(ret, size, "%s", status == EXPR_OK ? value : "");
    arena_destroy(arena);
    return status;
}

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"no expression ${x}", "no expression ${x}"},
        {"${{ 1 + 2 * 3 }}", "7"},
        {"${{ (1 + 2) * 3 }}", "9"},
        {"${{ 7 - 2 - 1 }}", "4"},
        {"${{ -7 / 2 }} ${{ -7 % 2 }} ${{ 7 % 3 }}", "-3 -1 1"},
        {"${{ - -3 }}", "3"},
        {"${{ 9223372036854775807 }}", "9223372036854775807"},
        {"${{ -9223372036854775807 - 1 }}", "-9223372036854775808"},
        {"${{ 1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3 && 1 != 2 && 'a' < 'b' }}", "true"},
        {"${{ !true || false }}", "false"},
        {"${{ params.n > 2 ? 'big' : 'small' }}", "big"},
        {"${{ false ? 1 : true ? 2 : 3 }}", "2"},
        {"${{ true || 1 / 0 == 1 }} ${{ false && 1 / 0 == 1 }}", "true false"},
        {"${{ true ? 1 : 1 / 0 }}", "1"},
        {"${{ 'it''s' }}${{ \"a\"\"b\" }}", "it'sa\"b"},
        {"${{ '${{' }} x }}", "${{ x }}"},
        {"${{ '}}' }}", "}}"},
        {"${{params.rate}} ${{ params.rate < 1 }} ${{ params.n == 3 }}", "1e-3 true true"},
        {"${{ params.text }} ${{ params.flag }} ${{ !params.flag }}", "it's true false"},
        {"${{ env.A }} ${{ env.CALLER }} ${{ env.NODE }}", "4 ${{ rank }} on-1"},
        {"${{ job.name }} ${{ run.id }} ${{ node.rank }} ${{ node.name }} ${{ node.address }} ${{ nnodes }}",
         "job r1 1 gpu-2 10.0.0.2 2"},
        {"${{ rank }} ${{ local_rank }} ${{ world_size }} ${{ local_world_size }}", "5 1 8 4"},
        {"${{ rank / local_world_size == node.rank }}", "true"},
        {"${{ dirname(params.path) }} ${{ basename(params.path) }}", "/a b.c"},
        {"${{ dirname('a') }} ${{ dirname('/') }} ${{ dirname('/a') }} ${{ dirname('a/b/') }} ${{ dirname('a//b') }}",
         ". / / a a"},
        {"${{ basename('/') }} ${{ basename('a/b//') }} ${{ basename('') }}.", "/ b ."},
        /* precedence, by rising order: ?: || && == < + * ! */
        {"${{ false || true && false }}", "false"},
        {"${{ (false || true) && false }}", "false"},
        {"${{ true || false && false }}", "true"},
        {"${{ 1 + 2 == 3 && 2 * 3 != 7 }}", "true"},
        {"${{ 1 < 2 == true }}", "true"},
        {"${{ true == 1 < 2 }}", "true"},
        {"${{ 2 + 3 * 4 - 6 / 2 % 2 }}", "13"},
        {"${{ 10 - 4 - 3 }} ${{ 100 / 10 / 5 }} ${{ 7 % 4 * 2 }} ${{ 2 * 7 % 4 }}", "3 2 6 2"},
        {"${{ -2 * -3 }} ${{ - 2 + 5 }} ${{ 5 - -2 }} ${{ -(2 + 3) }}", "6 3 7 -5"},
        {"${{ !true == false }} ${{ !(1 == 2) }} ${{ !!true }}", "true true true"},
        {"${{ true ? 1 : 2 + 5 }} ${{ 1 + 1 == 2 ? 3 + 4 : 0 }}", "1 7"},
        {"${{ true ? false ? 1 : 2 : 3 }} ${{ false ? 1 : false ? 2 : 3 }}", "2 3"},
        {"${{ (true ? 1 : 2) + 5 }}", "6"},
        /* blanks, newlines and none at all */
        {"${{\n1\t+\n2\n}}${{1+2}}${{(1)+(2)}}", "333"},
        {"${{ ((((((((((1)))))))))) }}", "1"},
        /* quoting: the other quote, doubled ones, characters with a meaning outside */
        {"${{ '\"' }}${{ \"'\" }}${{ '''' }}${{ \"\"\"\" }}", "\"''\""},
        {"${{ 'a }} b' }}|${{ \"${{ 1 }}\" }}|${{ '' }}|", "a }} b|${{ 1 }}||"},
        {"${{ '\\n' }}${{ ' a ' }}", "\\n a "},
        {"${{ 'a' == \"a\" }} ${{ 'a' != 'A' }} ${{ '10' < '9' }} ${{ '' < 'a' }}", "true true true true"},
        {"a${{ 1 }}b${{ 2 }}${{ 3 }}c}}", "a1b23c}}"},
        /* the edges of 64 bits */
        {"${{ 9223372036854775806 + 1 }} ${{ -9223372036854775807 - 1 }}", "9223372036854775807 -9223372036854775808"},
        {"${{ (-9223372036854775807 - 1) / 1 }} ${{ (-9223372036854775807 - 1) % 2 }}", "-9223372036854775808 0"},
        {"${{ 3037000499 * 3037000499 < 9223372036854775807 }}", "true"},
        /* an operand that is not evaluated cannot fail */
        {"${{ params.n != 0 && 6 / params.n == 2 }} ${{ params.n == 0 ? 0 : 6 / params.n }}", "true 2"},
        {"${{ dirname(dirname('/a/b/c')) }} ${{ basename(dirname('/a/b/c')) }}", "/a b"},
        {"${{ params.rate == params.rate }} ${{ params.n > params.rate }}", "true true"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char got[256];
        struct error err;
        enum expr_status status = expand(cases[i].text, EXPR_PLAIN, &at_run, false, got, sizeof got, &err);
        if (status != EXPR_OK)
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_string_equal(got, cases[i].value);
    }
}

static void test_late(void **state)
{
    (void)state;
    static const struct {
        const char *text, *kept; /* kept NULL: known although it has a late name */
    } cases[] = {
        {"a ${{ rank }} b ${{ params.n }}", "a ${{ rank }} b 3"},
        {"${{ params.n + rank }}", "${{ 3 + rank }}"},
        {"${{ params.text == node.name ? env.A : run.id }}", "${{ 'it''s' == node.name ? '4' : run.id }}"},
        {"${{ env.NODE }}", "${{ env.NODE }}"},
        {"${{ rank == 0 && params.flag }}", "${{ rank == 0 && true }}"},
    };
    char got[256];
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(expand(cases[i].text, EXPR_PLAIN, &at_plan, false, got, sizeof got, &err), EXPR_LATE);
        assert_int_equal(expand(cases[i].text, EXPR_PLAIN, &at_plan, true, got, sizeof got, &err), EXPR_OK);
        assert_string_equal(got, cases[i].kept);
    }
    assert_int_equal(expand("${{ false && rank == 0 }}", EXPR_PLAIN, &at_plan, false, got, sizeof got, &err), EXPR_OK);
    assert_int_equal(expand("${{ params.n + rank }}", EXPR_SHELL, &at_plan, true, got, sizeof got, &err), EXPR_OK);
    assert_string_equal(got, "${{ 3 + rank }}");
    /* a part for the node stays as written even if it is known */
    struct expr_context node = at_run;
    node.has_rank = false;
    assert_int_equal(expand("${{ rank + node.rank }}", EXPR_PLAIN, &node, true, got, sizeof got, &err), EXPR_OK);
    assert_string_equal(got, "${{ rank + node.rank }}");
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"${{ 1 / 0 }}", "division by zero"},
        {"${{ 1 % 0 }}", "division by zero"},
        {"${{ 9223372036854775807 + 1 }}", "beyond 64 bits"},
        {"${{ -9223372036854775807 - 2 }}", "beyond 64 bits"},
        {"${{ (-9223372036854775807 - 1) / -1 }}", "beyond 64 bits"},
        {"${{ -(-9223372036854775807 - 1) }}", "beyond 64 bits"},
        {"${{ 9223372036854775807 * 2 }}", "beyond 64 bits"},
        {"${{ 9223372036854775808 }}", "too large"},
        {"${{ 1.5 }}", "not an integer"},
        {"${{ 'a' + 1 }}", "an integer expected"},
        {"${{ params.rate + 1 }}", "an integer expected"},
        {"${{ 1 && true }}", "true or false expected"},
        {"${{ 1 == 'a' }}", "cannot compare"},
        {"${{ true < false }}", "no order"},
        {"${{ dirname(1) }}", "text expected"},
        {"${{ params.x }}", "no param \"x\""},
        {"${{ nothing }}", "unknown name"},
        {"${{ args }}", "args is a list"},
        {"x ${{ args }}", "args is a list"},
        {"${{ 1 + }}", "a value expected"},
        {"${{ (1 }}", "\")\" expected"},
        {"${{ 1 2 }}", "an operator or }} expected"},
        {"${{ true ? 1 }}", "\":\" expected"},
        {"${{ 1", "not closed"},
        {"${{", "not closed"},
        {"${{ }}", "empty"},
        {"${{ 'a }}", "not closed"},
        {"${{ a & b }}", "cannot have this character"},
        {"${{ 1 < 2 < 3 }}", "cannot compare"},
        {"${{ !1 }}", "true or false expected"},
        {"${{ -'a' }}", "an integer expected"},
        {"${{ 'a' + 'b' }}", "an integer expected"},
        {"${{ 1 ? 2 : 3 }}", "true or false expected"},
        {"${{ params.n / (params.n - 3) }}", "division by zero"},
        {"${{ params.n % (params.n - 3) }}", "division by zero"},
        {"${{ -9223372036854775807 - 1 - 1 }}", "beyond 64 bits"},
        {"${{ 3037000500 * 3037000500 }}", "beyond 64 bits"},
        {"${{ (-9223372036854775807 - 1) % -1 }}", "beyond 64 bits"},
        {"${{ 0x10 }}", "not an integer"},
        {"${{ 99999999999999999999 }}", "too large"},
        {"${{ params }}", "unknown name"},
        {"${{ env. }}", "cannot have this character"},
        {"${{ node.x }}", "unknown name"},
        {"${{ dirname }}", "\"(\" expected"},
        {"${{ dirname() }}", "a value expected"},
        {"${{ dirname('a', 'b') }}", "cannot have this character"},
        {"${{ 1 + 2", "not closed"},
        {"${{ 'a' }", "not closed"},
        {"${{ \"it's }}", "not closed"},
        {"${{ true ? 1 : }}", "a value expected"},
        {"${{ () }}", "a value expected"},
        {"${{ 1 == }}", "a value expected"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char got[256];
        struct error err;
        assert_int_equal(expand(cases[i].text, EXPR_PLAIN, &at_run, false, got, sizeof got, &err), EXPR_FAILED);
        if (!strstr(err.text, cases[i].message))
            fail_msg("%s: \"%s\", not \"%s\"", cases[i].text, err.text, cases[i].message);
        assert_int_equal(err.code, ERROR_SPEC);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    static const char *const openers[] = {"(", "!", "- ", "true ? 1 : "};
    struct error err;
    char got[64];
    for (size_t i = 0; i < ARRAY_LEN(openers); i++) {
        struct buf b = {0};
        buf_puts(&b, "${{ ");
        for (int n = 0; n < 300; n++)
            buf_puts(&b, openers[i]);
        buf_puts(&b, "1 }}");
        assert_int_equal(expand(b.data, EXPR_PLAIN, &at_run, false, got, sizeof got, &err), EXPR_FAILED);
        assert_non_null(strstr(err.text, "too deeply"));
        buf_free(&b);
    }
    struct buf b = {0};
    buf_puts(&b, "${{ 1");
    for (int n = 0; n < 5000; n++)
        buf_puts(&b, "+1");
    buf_puts(&b, " }}");
    assert_int_equal(expand(b.data, EXPR_PLAIN, &at_run, false, got, sizeof got, &err), EXPR_FAILED);
    assert_non_null(strstr(err.text, "too long"));
    buf_free(&b);
}

/* ---- values in shell text ---- */

static const char *const nasty[] = {
    "",
    "plain",
    "a b",
    "it's",
    "\"q\"",
    "$(echo X)",
    "`echo X`",
    "$HOME",
    "\\",
    "a\\",
    "\\n",
    "line\nbreak",
    "* ? [a]",
    "~",
    "-n",
    "#x",
    "a;echo X",
    "a&&b",
    "'; echo X; '",
    "\"; echo X; \"",
    "$x",
    "${x}",
    "!!",
    "a=b",
    "2",
    "EOF",
    "\n",
    "\t",
    "a'b\"c$d`e\\f",
    "\xc3\xa9",
    "}",
    ")",
    "case",
};

/* Each prints the value between < and >, for all values. */
static const char *const contexts[] = {
    "printf '<%s>' ${{ params.v }}",
    "printf '<%s>' \"${{ params.v }}\"",
    "printf '<%s>' '${{ params.v }}'",
    "x=${{ params.v }}; printf '<%s>' \"$x\"",
    "x=\"${{ params.v }}\"; printf '<%s>' \"$x\"",
    "printf '<%s>' \"$(printf '%sE' ${{ params.v }})\" | sed '$ s/E>$/>/'",
    "printf '<%s>' \"$(printf '%sE' \"${{ params.v }}\")\" | sed '$ s/E>$/>/'",
    "printf '<%s>' \"$(printf '%sE' '${{ params.v }}')\" | sed '$ s/E>$/>/'",
    "( printf '<%s>' ${{ params.v }} )",
    "{ printf '<%s>' ${{ params.v }}; }",
    "# it's a comment with ${{ params.v }}\nprintf '<%s>' ${{ params.v }}",
    "cat >/dev/null <<'EOF'\nit's \"text\nEOF\nprintf '<%s>' ${{ params.v }}",
    "cat >/dev/null <<-EOF\n\tit's\n\tEOF\nprintf '<%s>' \"${{ params.v }}\"",
    "echo it\\'s >/dev/null; printf '<%s>' ${{ params.v }}",
    "y=$((1 + (2 * 3))); printf '<%s>' ${{ params.v }}",
    "z=\"${y:-none}\"; printf '<%s>' \"${{ params.v }}\"",
    "case a in a) printf '<%s>' ${{ params.v }} ;; esac",
    "printf '<%s>' pre${{ params.v }}post | sed 's/<pre/</; $ s/post>$/>/'",
    "f() { printf '<%s>' \"$1\"; }; f ${{ params.v }}",
    "s_1=; printf '<%s>' $s_1${{ params.v }}",
    "s_1=; printf '<%s>' \"$s_1${{ params.v }}\"",
    "if [ ${{ params.v }} = x ]; then :; fi; printf '<%s>' ${{ params.v }}",
};

static void run_shell(const char *shell, const char *text, struct buf *out)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        close(fds[0]);
        execlp(shell, shell, "-c", text, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    char chunk[512];
    buf_clear(out);
    buf_puts(out, "");
    for (ssize_t n; (n = read(fds[0], chunk, sizeof chunk)) > 0;)
        buf_append(out, chunk, (size_t)n);
    close(fds[0]);
    waitpid(pid, NULL, 0);
}

/* All values of one context in one shell, each between marks of its own. */
static void test_shell_oracle(void **state)
{
    (void)state;
    static const char *const shells[] = {"sh", "bash"};
    struct spec_param v = {.name = "v", .type = SPEC_STRING};
    struct spec one = {.name = "job", .params = &v, .param_count = 1};
    struct expr_context ctx = {.spec = &one};
    struct buf script = {0}, expected = {0}, got = {0};
    struct arena *arena = arena_create();
    size_t ran = 0;
    for (size_t c = 0; c < ARRAY_LEN(contexts); c++) {
        buf_clear(&script);
        buf_clear(&expected);
        for (size_t i = 0; i < ARRAY_LEN(nasty); i++) {
            struct spec_text text = {.text = contexts[c], .has_expr = true};
            struct error err = ERROR_INIT;
            const char *expanded = NULL;
            v.value = nasty[i];
            if (expr_expand(&text, EXPR_SHELL, &ctx, false, arena, &expanded, &err) != EXPR_OK)
                fail_msg("%s: %s", contexts[c], err.text);
            buf_printf(&script, "%s\necho; echo MARK\n", expanded);
            buf_printf(&expected, "<%s>\nMARK\n", nasty[i]);
        }
        for (size_t s = 0; s < ARRAY_LEN(shells); s++) {
            run_shell(shells[s], script.data, &got);
            bool piped = strstr(contexts[c], "| sed") != NULL; /* some sed add the newline at the end themselves */
            struct buf cleaned = {0};
            buf_puts(&cleaned, "");
            for (const char *p = got.data; *p; p++) {
                if (piped && str_starts(p, "\n\nMARK"))
                    continue;
                buf_putc(&cleaned, *p);
            }
            if (strcmp(cleaned.data, expected.data) != 0)
                fail_msg("%s: %s\nscript:\n%s\ngot:\n%s", shells[s], contexts[c], script.data, cleaned.data);
            buf_free(&cleaned);
            ran++;
        }
    }
    assert_int_equal(ran, 2 * ARRAY_LEN(contexts));
    arena_destroy(arena);
    buf_free(&script);
    buf_free(&expected);
    buf_free(&got);
}

static void test_shell_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "echo `echo ${{ params.text }}`",
        "cat <<EOF\n${{ params.text }}\nEOF\n",
        "cat <<'EOF'\n${{ params.text }}\nEOF\n",
        "cat <<${{ params.text }}\nEOF\n${{ params.text }}\n",
        "echo \\${{ params.text }}",
        "echo $${{ params.text }}",
        "echo \"$${{ params.text }}\"",
        "echo $((1 + ${{ params.text }}))",
        "((x = ${{ params.text }}))",
        "echo ${x:-${{ params.text }}}",
        "echo \"${x:-${{ params.text }}}\"",
        "echo \"${x:-'a'}\" ${{ params.text }}",
        "echo \"$(case x in x) echo ${{ params.text }};; esac)\"",
        "echo $'${{ params.text }}'",
        "echo \"${{ args }}\"",
        "echo $((1 + $x${{ params.n }}))",
        "echo ${x:-$y${{ params.n }}}",
        "echo `echo $y${{ params.n }}`",
        "echo '${{ args }}'",
    };
    struct error err;
    char got[256];
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (expand(texts[i], EXPR_SHELL, &at_run, false, got, sizeof got, &err) != EXPR_FAILED)
            fail_msg("not refused: %s -> %s", texts[i], got);
    static const struct {
        const char *text, *value;
    } digits[] = {
        {"echo $((1 + ${{ params.n }}))", "echo $((1 + 3))"},
        {"echo `echo ${{ params.n }}`", "echo `echo 3`"},
        {"echo ${x:-${{ params.n }}}", "echo ${x:-3}"},
        {"echo {1..${{ params.n }}}", "echo {1..3}"},
        {"echo ${{ params.n }}>f", "echo '3'>f"},
        {"echo $x${{ params.n }}$y-${{ params.n }}", "echo $x'3'$y-3"},
        {"echo \"$x${{ params.n }}${y}${{ params.n }}\"", "echo \"$x\"\"3${y}3\""},
        {"echo $'${{ params.path }}'", "echo $'/a/b.c'"},
        {"cmd ${{ args }} x", "cmd 'a b' 'it'\\''s' '$x' x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(digits); i++) {
        assert_int_equal(expand(digits[i].text, EXPR_SHELL, &at_run, false, got, sizeof got, &err), EXPR_OK);
        assert_string_equal(got, digits[i].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_late),         cmocka_unit_test(test_faults),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_shell_oracle), cmocka_unit_test(test_shell_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
