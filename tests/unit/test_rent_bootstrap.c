/* User data as a text: its values, and refused ones. tests/e2e/test_machine.py has machines run it. */
#include "../../src/rent/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct bootstrap usual(void)
{
    return (struct bootstrap){
        .user = "ubuntu",
        .public_key = "ssh-ed25519 AAAA it's me; $(reboot) `reboot`",
        .host_key_private = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA+/=\n-----END OPENSSH PRIVATE KEY-----\n",
        .host_key_public = "ssh-ed25519 BBBB",
        .token = "5f0c1f2a-0000-4000-8000-000000000000",
        .expires_s = 1700003600,
        .idle_s = 1800,
        .deadline = PROVIDER_DEADLINE_SHUTDOWN,
    };
}

static void expect(const struct bootstrap *b, const char *text)
{
    struct buf out = {0};
    struct error err = ERROR_INIT;
    if (bootstrap_text(b, 16384, &out, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(str_starts(out.data, "#!/bin/sh\n"));
    if (!strstr(out.data, text))
        fail_msg("\"%s\" is not in: %.600s", text, out.data);
    buf_free(&out);
}

static void test_values_are_words(void **state)
{
    (void)state;
    struct bootstrap b = usual();
    expect(&b, "\nlogin_key='ssh-ed25519 AAAA it'\\''s me; $(reboot) `reboot`'\n");
    expect(&b,
           "\nhost_key_private='-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA+/=\n-----END OPENSSH PRIVATE KEY-----\n'\n");
    expect(&b, "\nexpires=1700003600\nidle=1800\ndeadline_by=shutdown\nidle_by=shutdown\n");
    b.host_key_private = b.token = NULL;
    expect(&b, "\nhost_key=''\nhost_key_private=''\ntoken=''\n");
}

/* No deadline is armed if it would not end the bill. */
static void test_how_it_ends(void **state)
{
    (void)state;
    static const struct {
        enum provider_deadline deadline;
        enum provider_billing bills;
        const char *text;
    } rows[] = {
        {PROVIDER_DEADLINE_NONE, PROVIDER_BILLS_FULLY, "deadline_by=''\nidle_by=''\n"},
        {PROVIDER_DEADLINE_NONE, PROVIDER_BILLS_NOTHING, "deadline_by=''\nidle_by=shutdown\n"},
        {PROVIDER_DEADLINE_SERVER, PROVIDER_BILLS_DISK, "deadline_by=''\nidle_by=shutdown\n"},
        {PROVIDER_DEADLINE_SHUTDOWN, PROVIDER_BILLS_FULLY, "deadline_by=shutdown\nidle_by=shutdown\n"},
        {PROVIDER_DEADLINE_SELF_DELETE, PROVIDER_BILLS_FULLY, "deadline_by=''\nidle_by=''\n"},
        {PROVIDER_DEADLINE_KILL_PID1, PROVIDER_BILLS_FULLY, "deadline_by=kill_pid1\nidle_by=kill_pid1\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct bootstrap b = usual();
        b.deadline = rows[i].deadline;
        b.billing_when_stopped = rows[i].bills;
        expect(&b, rows[i].text);
        b.expires_s = b.idle_s = 0;
        expect(&b, "\ndeadline_by=''\nidle_by=''\n");
    }
}

static void refused(const struct bootstrap *b, size_t max, enum error_code code, const char *text)
{
    struct buf out = {0};
    struct error err = ERROR_INIT;
    buf_puts(&out, "before");
    assert_int_equal(bootstrap_text(b, max, &out, &err), -1);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" is not in: %s", text, err.text);
    assert_null(strstr(err.text, "AAAA"));
    assert_string_equal(out.data, "before");
    buf_free(&out);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const users[] = {"", "-x", "a b", "a:b", "a\nb", "../x", "$x", NULL};
    struct bootstrap b = usual();
    refused(&b, 0, ERROR_INFRA, "takes no user data");
    refused(&b, 2000, ERROR_INFRA, "bytes, and the provider takes at most 2000");
    for (size_t i = 0; i < ARRAY_LEN(users); i++) {
        b.user = users[i];
        refused(&b, 16384, ERROR_INTERNAL, "is not a login name");
    }
    b = usual();
    b.public_key = "ssh-ed25519 AAAA\nssh-ed25519 BBBB";
    refused(&b, 16384, ERROR_INTERNAL, "is not a line");
    b = usual();
    b.host_key_public = NULL;
    refused(&b, 16384, ERROR_INTERNAL, "is not a line");
    b = usual();
    b.host_key_private = "AAAA'; reboot";
    refused(&b, 16384, ERROR_INTERNAL, "is not the text of a key");
    b = usual();
    b.token = "x y";
    refused(&b, 16384, ERROR_INTERNAL, "invalid characters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_words),
        cmocka_unit_test(test_how_it_ends),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
