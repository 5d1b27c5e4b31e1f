/* The parser, the help, the man page and the README agree with the tables of commands and options. */
#include "../../src/cli/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *load(const char *path)
{
    struct buf text = {0};
    struct error err = ERROR_INIT;
    if (file_read(path, 1 << 20, &text, &err) < 0)
        fail_msg("%s", err.text);
    return buf_steal(&text);
}

/* The man page's part on one command, or on the options: from `head` to the next line that begins with `end`. */
static char *section(const char *page, const char *head, const char *end)
{
    CLEANUP(cleanup_free) char *line = xasprintf("\n%s", head);
    const char *at = page;
    do {
        at = strstr(at, line);
        if (!at)
            fail_msg("the man page has no line \"%s\"", head);
        at += strlen(line);
    } while (*at != '\n' && *at != ' '); /* "run" is not "runs" */
    CLEANUP(cleanup_free) char *stop = xasprintf("\n%s", end);
    const char *next = strstr(at, stop);
    return next ? xstrndup(at, (size_t)(next - at)) : xstrdup(at);
}

/* Whether `text` has the macro ".Fl -NAME" as a whole word. */
static bool names_option(const char *text, const char *name)
{
    CLEANUP(cleanup_free) char *macro = xasprintf("Fl -%s", name);
    for (const char *p = text; (p = strstr(p, macro)); p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz-", p[strlen(macro)]) || p[strlen(macro)] == 0)
            return true;
    return false;
}

static bool is_common(enum cli_option_id id)
{
    return id == OPT_HELP || id == OPT_JSON || id == OPT_QUIET || id == OPT_VERBOSE || id == OPT_NO_COLOR;
}

static void test_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct cli_option *o = &cli_options[i];
        assert_ptr_equal(cli_option_find(o->id), o); /* each id is there once */
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(cli_options[k].name, o->name);
    }
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *cmd = cli_commands[i];
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(cli_commands[k]->name, cmd->name);
        bool letters[128] = {false};
        for (size_t k = 0; k < cli_option_count; k++) {
            unsigned char letter = (unsigned char)cli_options[k].letter;
            if (!letter || !cli_command_has(cmd, cli_options[k].id))
                continue;
            assert_false(letters[letter]);
            letters[letter] = true;
        }
        assert_true(cmd->words_min <= cmd->words_max);
    }
}

/* The options in the man page's text on a command are exactly those of the command. */
static void test_man_page_commands(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *page = load(SOURCE_ROOT "/docs/rhrun.1");
    CLEANUP(cleanup_free) char *commands = section(page, ".Sh COMMANDS", ".Sh ");
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *cmd = cli_commands[i];
        CLEANUP(cleanup_free) char *head = xasprintf(".It Cm %s", cmd->name);
        CLEANUP(cleanup_free) char *text = section(commands, head, ".It Cm ");
        for (size_t k = 0; k < cli_option_count; k++) {
            const struct cli_option *o = &cli_options[k];
            if (is_common(o->id))
                continue;
            bool has = cli_command_has(cmd, o->id) && !o->hidden;
            if (has != names_option(text, o->name))
                fail_msg("%s: --%s is %s", cmd->name, o->name,
                         has ? "not in the man page" : "in the man page, but not an option of it");
        }
    }
}

static void test_man_page_options(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *page = load(SOURCE_ROOT "/docs/rhrun.1");
    CLEANUP(cleanup_free) char *options = section(page, ".Sh OPTIONS", ".Sh ");
    size_t described = 0, used = 0;
    for (const char *p = options; (p = strstr(p, "\n.It Fl")); p++)
        described++;
    for (size_t k = 0; k < cli_option_count; k++) {
        const struct cli_option *o = &cli_options[k];
        bool any = o->id == OPT_VERSION;
        for (size_t i = 0; cli_commands[i]; i++)
            any = any || cli_command_has(cli_commands[i], o->id);
        if (!any || o->hidden)
            continue;
        used++;
        CLEANUP(cleanup_free)
        char *item = o->letter ? xasprintf(".It Fl %c , Fl -%s", o->letter, o->name) : xasprintf(".It Fl -%s", o->name);
        CLEANUP(cleanup_free) char *text = section(options, item, ".It ");
        CLEANUP(cleanup_free) char *value = xstrndup(text, strcspn(text, "\n"));
        if ((o->value != NULL) != (strstr(value, "Ar") != NULL))
            fail_msg("--%s: the man page and the table differ on whether it takes a value", o->name);
    }
    assert_int_equal(described, used);
}

/* The README's table of commands has a line "| `NAME ..." for each, and no other. */
static void test_readme(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *readme = load(SOURCE_ROOT "/README.md");
    size_t lines = 0, count = 0;
    for (const char *p = readme; (p = strstr(p, "\n| `rhrun ")); p++)
        lines++;
    for (; cli_commands[count]; count++) {
        CLEANUP(cleanup_free) char *line = xasprintf("\n| `rhrun %s", cli_commands[count]->name);
        const char *at = strstr(readme, line);
        while (at && at[strlen(line)] != ' ' && at[strlen(line)] != '`')
            at = strstr(at + 1, line);
        if (!at)
            fail_msg("README.md has no line on rhrun %s", cli_commands[count]->name);
    }
    assert_int_equal(lines, count);
}

static void count_literal(void *arg, const char *word)
{
    (void)word;
    ++*(unsigned *)arg;
}

/* Completion depends on the usage: the kind of every word that a command takes must be known. */
static void test_usages(void **state)
{
    (void)state;
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *cmd = cli_commands[i];
        for (size_t at = 0; at < cmd->words_max && at < 3; at++) {
            unsigned literals = 0;
            if (!cli_usage_kinds(cmd->usage, at, count_literal, &literals) && !literals)
                fail_msg("%s: nobody knows what word %zu of \"%s\" may be (src/cli/complete.c)", cmd->name, at + 1,
                         cmd->usage);
        }
    }
    assert_int_equal(cli_usage_kinds("", 0, NULL, NULL), 0);
    assert_int_equal(cli_usage_kinds("SPEC [-- ARG...]", 1, NULL, NULL), 0);
    assert_int_equal(cli_usage_kinds("SPEC... | --schema FILE", 0, NULL, NULL),
                     cli_usage_kinds("SPEC...", 5, NULL, NULL));
}

static void parse(struct cli *c, const char *line, int ret_expected, struct error *err)
{
    static char words[512];
    static char *argv[32];
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *p = strtok(words, " "); p; p = strtok(NULL, " "))
        argv[argc++] = p;
    argv[argc] = NULL;
    *c = (struct cli){.program = "rhrun"};
    *err = (struct error)ERROR_INIT;
    if (cli_parse(c, argc, argv, err) != ret_expected)
        fail_msg("%s: %s", line, err->text);
}

static void release(struct cli *c)
{
    for (size_t i = 0; i < OPT_COUNT; i++)
        free(c->values[i]);
    free(c->words);
}

static void test_parse(void **state)
{
    (void)state;
    struct cli c;
    struct error err;
    parse(&c, "rhrun x.yaml -qv -p a=1 --param=b=2 -pc=3 --on local -- -p --no-such", 0, &err);
    assert_string_equal(c.command->name, "run");
    assert_true(c.given[OPT_QUIET] && c.given[OPT_VERBOSE]);
    assert_int_equal(c.value_count[OPT_PARAM], 3);
    assert_string_equal(c.values[OPT_PARAM][1], "b=2");
    assert_string_equal(c.values[OPT_PARAM][2], "c=3");
    assert_string_equal(c.value[OPT_ON], "local");
    assert_int_equal(c.word_count, 1);
    assert_int_equal(c.arg_count, 2);
    assert_string_equal(c.args[0], "-p");
    release(&c);

    parse(&c, "rhrun --json plan x.yaml --exit-code", 0, &err);
    assert_string_equal(c.command->name, "plan");
    assert_true(c.given[OPT_JSON] && c.given[OPT_EXIT_CODE]);
    release(&c);

    static const char *const wrong[][2] = {
        {"rhrun plan x.yaml --exitcode", "exit-code"},
        {"rhrun logs --rank", "needs a value"},
        {"rhrun run x.yaml --again=1", "takes no value"},
        {"rhrun runs --detach", "unknown option"},
        {"rhrun valdate x", "validate"},
        {"rhrun runs a.yaml b.yaml", "too many words"},
        {"rhrun plan", "too few words"},
        {"rhrun schema -- x", "takes no arguments"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        parse(&c, wrong[i][0], -1, &err);
        assert_int_equal(err.code, ERROR_USAGE);
        if (!strstr(err.text, wrong[i][1]) && !strstr(err.hint, wrong[i][1]))
            fail_msg("%s: \"%s\" (%s)", wrong[i][0], err.text, err.hint);
        release(&c);
    }
}

/* Names that people try; none of them shadows a command. */
static void test_aliases(void **state)
{
    (void)state;
    struct cli c;
    struct error err;
    static const char *const names[][2] = {{"ps", "runs"}, {"ls", "runs"}, {"list", "runs"}, {"stop", "cancel"}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        for (size_t k = 0; cli_commands[k]; k++)
            assert_string_not_equal(cli_commands[k]->name, names[i][0]);
        CLEANUP(cleanup_free) char *line = xasprintf("rhrun --json %s", names[i][0]);
        parse(&c, line, 0, &err);
        assert_string_equal(c.command->name, names[i][1]);
        release(&c);
    }
    static const char *const versions[] = {"rhrun version", "rhrun -V", "rhrun --version", "rhrun run -V"};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        parse(&c, versions[i], 0, &err);
        assert_true(c.given[OPT_VERSION]);
        release(&c);
    }
}

static void test_exit_status(void **state)
{
    (void)state;
    static const struct {
        enum error_code code;
        int status;
    } map[] = {{ERROR_NONE, 0},     {ERROR_JOB, 1},  {ERROR_USAGE, 2},        {ERROR_SPEC, 2},
               {ERROR_INFRA, 3},    {ERROR_IO, 3},   {ERROR_PROTOCOL, 3},     {ERROR_TIMEOUT, 3},
               {ERROR_INTERNAL, 3}, {ERROR_HELD, 4}, {ERROR_INTERRUPTED, 130}};
    for (size_t i = 0; i < ARRAY_LEN(map); i++) {
        struct error err = {.code = map[i].code};
        assert_int_equal(cli_exit_status(&err), map[i].status);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 bytes"},
                 {1, "1 byte"},
                 {999, "999 bytes"},
                 {1000, "1.0 kB"},
                 {999949, "999.9 kB"},
                 {999950, "1.0 MB"},
                 {UINT64_C(1234567890), "1.2 GB"},
                 {UINT64_MAX, "18.4 EB"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[32];
        cli_size(cases[i].bytes, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* No file name reaches the terminal as an escape sequence or as two lines. */
static void test_paths(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"src/a b.py", "src/a b.py"},
                                           {"gr\xc3\xbc\xc3\x9f"
                                            "e",
                                            "gr\xc3\xbc\xc3\x9f"
                                            "e"},
                                           {"-n", "-n"},
                                           {" a", "\" a\""},
                                           {"a\nb", "\"a\\012b\""},
                                           {"a\033[2J", "\"a\\033[2J\""},
                                           {"a\xff", "\"a\\377\""},
                                           {"a\xc2\x9b"
                                            "2J",
                                            "\"a\\302\\2332J\""},
                                           {"\"q\"\\", "\"\\\"q\\\"\\\\\""}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf b = {0};
        cli_put_path(&b, cases[i][0]);
        assert_string_equal(b.data, cases[i][1]);
        buf_free(&b);
    }
}

/* The largest part is named first, down to the folder that has it. */
static void test_files_of_a_plan(void **state)
{
    (void)state;
    static const struct tree_file files[] = {{.path = "a.py", .mode = TREE_MODE_FILE, .size = 10},
                                             {.path = "runs/ckpt/1.bin", .mode = TREE_MODE_FILE, .size = 900000},
                                             {.path = "runs/ckpt/2.bin", .mode = TREE_MODE_EXEC, .size = 600000},
                                             {.path = "runs/log", .mode = TREE_MODE_FILE, .size = 1000},
                                             {.path = "src/b", .mode = TREE_MODE_LINK, .size = 4},
                                             {.path = "src/c", .mode = TREE_MODE_FILE, .size = 1}};
    static const struct tree tree = {.id = "0123", .files = files, .count = ARRAY_LEN(files), .bytes = 1501015};
    static const struct tree none = {.id = "4b82", .count = 0};
    struct source_tree items[] = {
        {.name = "workdir", .from = "/src", .tree = &tree},
        {.name = "files-1", .from = "https://x/y", .commit = "0123456789abcdef", .to = "~/y", .tree = &none}};
    struct spec spec = {.name = "job", .path = "job.yaml"};
    struct sources s = {.items = items, .count = ARRAY_LEN(items), .spec = &spec};
    struct buf b = {0};
    cli_format_files(&s, false, &b);
    assert_string_equal(b.data, "job (job.yaml): 6 files, 1.5 MB; each node gets only what it does not have\n"
                                "\nworkdir: /src, 6 files, 1.5 MB\n"
                                "  largest: runs/ckpt/ (1.5 MB), runs/log (1.0 kB)\n"
                                "    10 bytes  a.py\n"
                                "    900.0 kB  runs/ckpt/1.bin\n"
                                "    600.0 kB  runs/ckpt/2.bin\n"
                                "      1.0 kB  runs/log\n"
                                "     4 bytes  src/b (link)\n"
                                "      1 byte  src/c\n"
                                "\nfiles-1: https://x/y at 0123456789ab to ~/y, 0 files, 0 bytes\n");
    buf_clear(&b);
    s.count = 0;
    cli_format_files(&s, false, &b);
    assert_non_null(strstr(b.data, "no files are sent"));
    buf_free(&b);
}

static void on_screen(const char *text, const char *want, bool returns)
{
    size_t len = strlen(text);
    for (size_t cut = 0; cut <= len; cut++) { /* in two pieces, cut at every place */
        struct screen s = {.color = true, .returns = returns};
        struct buf b = {0};
        screen_put(&s, &b, text, cut);
        screen_put(&s, &b, text + cut, len - cut);
        buf_putc(&b, '\0');
        assert_string_equal(b.data, want);
        buf_free(&b);
    }
}

/* The rest of a cut number would read as another number. */
static void test_a_cut_is_never_inside_of_a_number(void **state)
{
    static const struct {
        const char *text, *expected;
        unsigned columns;
    } cases[] = {{"epoch 12345", "epoch 12345", 12},
                 {"epoch 12345", "epoch ~", 11},
                 {"epoch 12345", "epoch ~", 9},
                 {"took 12.25 s", "took 12.25~", 12},
                 {"took 12.25 s", "took ~", 11},
                 {"took 12.25 s", "took ~", 9},
                 {"12345678", "~", 6},
                 {"node-17 of x", "node-~", 8},
                 {"a longer text", "a long~", 8}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct canvas v = {.columns = cases[i].columns};
        canvas_put(&v, "", cases[i].text, strlen(cases[i].text));
        assert_string_equal(v.text.data, cases[i].expected);
        canvas_free(&v);
    }
}

static void test_names_in_few_words(void **state)
{
    static const char *const names[] = {"n3",    "n5",    "n6", "n7",  "n8",  "gpu-1",
                                        "gpu-2", "gpu-3", "x",  "n09", "n10", "n11"};
    const uint32_t numbers[] = {0, 1, 2, 4, 6, 7};
    struct buf b = {0};
    (void)state;
    cli_put_names(&b, names, ARRAY_LEN(names), 99);
    assert_string_equal(b.data, "n3, n5-n8, gpu-1 to gpu-3, x, n09, n10, n11");
    buf_clear(&b);
    cli_put_names(&b, names, ARRAY_LEN(names), 2);
    assert_string_equal(b.data, "n3, n5-n8 and 7 more");
    buf_clear(&b);
    cli_put_numbers(&b, numbers, ARRAY_LEN(numbers));
    assert_string_equal(b.data, "0-2,4,6-7");
    buf_free(&b);
}

static void test_text_of_others_on_a_terminal(void **state)
{
    (void)state;
    on_screen("plain, \xc3\xa9, \xe2\x82\xac, \xf0\x9f\x98\x80\tx\n",
              "plain, \xc3\xa9, \xe2\x82\xac, \xf0\x9f\x98\x80\tx\n", false);
    on_screen("\033[1;31mred\033[0m\n", "\033[1;31mred\033[0m\n", false);
    on_screen("\033[8mhidden\nnext\n", "\033[8mhidden\033[0m\nnext\n", false); /* no colour extends past its line */
    on_screen("a\033[2Jb\033[5Ac\033[?1049hd\033[>4;2me\033[6nf", "abcdef", false);
    on_screen("a\033]0;title\ab\033]52;c;aGk=\033\\c\033P+q\033\\d\033_x\033\\e", "abcde", false);
    on_screen("a\033(0b\033cc\0337d\033[", "abcd", false);
    on_screen("a\xc2\x9b"
              "2Jb\xc2\x9d"
              "0;t\ac\xc2\x85"
              "d\xc2\x90q\033\\e",
              "abcde", false); /* C1 */
    on_screen("a\x9b"
              "2Jb\x90"
              "c\xff\xfe"
              "d\xe2\x82"
              "e\xc3",
              "a2Jbcde", false); /* bytes that are not UTF-8 */
    on_screen("a\xe0\x82\x9b"
              "b\xf0\x80\x82\x9b"
              "c\xc0\x9b"
              "d",
              "abcd", false); /* longer than their value needs */
    on_screen("a\b\b\x7f\x05\x0e"
              "b\rc",
              "abc", false);
    on_screen("10%\r20%\n", "10%\r20%\n", true);
    on_screen("\033]0;never ends\nrhrun: done\n", "\nrhrun: done\n", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_of_others_on_a_terminal),
        cmocka_unit_test(test_a_cut_is_never_inside_of_a_number),
        cmocka_unit_test(test_names_in_few_words),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_man_page_commands),
        cmocka_unit_test(test_man_page_options),
        cmocka_unit_test(test_readme),
        cmocka_unit_test(test_usages),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_exit_status),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_files_of_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
