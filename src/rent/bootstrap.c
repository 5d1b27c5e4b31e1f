/*
 * The user data of a rented machine: values, each a quoted word, followed by a constant script (bootstrap.sh). A value
 * of the wrong form is refused, so no encoding on the way can damage the values.
 */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

extern const char rhrun_rent_bootstrap[];
extern const uint64_t rhrun_rent_bootstrap_size;

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
enum { USER_MAX = 64, TOKEN_MAX = 128, KEY_MAX = 4096 };

static bool is_of(const char *value, const char *characters, size_t max)
{
    size_t len = value ? strlen(value) : 0;
    return len > 0 && len <= max && strspn(value, characters) == len;
}

static bool is_line(const char *key)
{
    return key && *key && strlen(key) <= KEY_MAX && str_is_printable(key);
}

static void put(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s=", name);
    buf_shell_quote(out, value ? value : "");
    buf_putc(out, '\n');
}

static const char *by_deadline(const struct bootstrap *b)
{
    if (b->expires_s == 0)
        return "";
    switch (b->deadline) {
    case PROVIDER_DEADLINE_SHUTDOWN:
        return "shutdown";
    case PROVIDER_DEADLINE_KILL_PID1:
        return "kill_pid1";
    case PROVIDER_DEADLINE_NONE:
    case PROVIDER_DEADLINE_SERVER:
    case PROVIDER_DEADLINE_SELF_DELETE:
        break;
    }
    return "";
}

static const char *by_idle(const struct bootstrap *b)
{
    if (b->idle_s == 0)
        return "";
    if (b->deadline == PROVIDER_DEADLINE_KILL_PID1)
        return "kill_pid1";
    return b->deadline == PROVIDER_DEADLINE_SHUTDOWN || b->billing_when_stopped != PROVIDER_BILLS_FULLY ? "shutdown"
                                                                                                        : "";
}

static int check(const struct bootstrap *b, struct error *err)
{
    if (!is_of(b->user, ALNUM "._-", USER_MAX) || b->user[0] == '-')
        return error_set(err, ERROR_INTERNAL, "\"%.64s\" is not a login name", b->user ? b->user : "");
    if (!is_line(b->public_key) || (b->host_key_private && !is_line(b->host_key_public)))
        return error_set(err, ERROR_INTERNAL, "a public key for the machine is missing, or is not a line");
    if (b->host_key_private && !is_of(b->host_key_private, ALNUM "+/=- \n", KEY_MAX))
        return error_set(err, ERROR_INTERNAL, "the host key for the machine is not the text of a key");
    if (b->token && !is_of(b->token, ALNUM "-", TOKEN_MAX))
        return error_set(err, ERROR_INTERNAL, "the token for the machine has invalid characters");
    return 0;
}

int bootstrap_text(const struct bootstrap *b, size_t max, struct buf *ret, struct error *err)
{
    const size_t before = ret->len;
    if (check(b, err) != 0)
        return -1;
    /* Reserved in one step because it holds a secret: growing the buffer would leave copies behind. */
    buf_reserve(ret, rhrun_rent_bootstrap_size + 4 * KEY_MAX);
    buf_puts(ret, "#!/bin/sh\n# rhrun's, and it holds a private key: nobody else is to read it\n");
    put(ret, "user", b->user);
    put(ret, "login_key", b->public_key);
    put(ret, "host_key", b->host_key_private ? b->host_key_public : "");
    put(ret, "host_key_private", b->host_key_private);
    put(ret, "token", b->token);
    buf_printf(ret, "expires=%llu\nidle=%llu\n", (unsigned long long)b->expires_s, (unsigned long long)b->idle_s);
    put(ret, "deadline_by", by_deadline(b));
    put(ret, "idle_by", by_idle(b));
    buf_append(ret, rhrun_rent_bootstrap, rhrun_rent_bootstrap_size);
    const size_t size = ret->len - before;
    if (size <= max)
        return 0;
    explicit_bzero(ret->data + before, size);
    ret->len = before;
    ret->data[before] = '\0';
    if (max == 0)
        return error_set(err, ERROR_INFRA, "the provider takes no user data, so nothing can be put on its machines");
    return error_set(err, ERROR_INFRA, "the user data of a machine has %zu bytes, and the provider takes at most %zu",
                     size, max);
}
