/* Temporary until openssh.c is in. */
#include "ssh.h"

static void not_yet(struct transport *t)
{
    transport_failf(t, ERROR_INFRA, "", "this kind of transport is not implemented yet");
}
static void nothing(struct transport *t)
{
    (void)t;
}
static bool never(struct transport *t)
{
    (void)t;
    return false;
}
const struct transport_ops transport_openssh_ops = {TRANSPORT_OPENSSH, "openssh", not_yet, nothing, nothing, never, never};
