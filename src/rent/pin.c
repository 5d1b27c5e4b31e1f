/*
 * Which account a cluster's machines are in. Other credentials than those that rented it may belong to another account,
 * which has no machines: that a list there misses a machine does not prove that the machine is gone. So a digest of the
 * lasting parts of the credentials is stored beside the ledger before the first create; different credentials are
 * accepted once a list with them shows something of the cluster.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIGEST = 64 };

static char *file_of(const struct rent_cluster *c, const struct account *s)
{
    return xasprintf("%s/account-%s", c->folder, s->name);
}

static void digest_of(const struct rent_cluster *c, const struct account *s, char ret[DIGEST + 1])
{
    const struct fleet_ledger *l = rent_ledger(c);
    provider_account_digest(s->provider, account_secrets(s), l->wanted.id, ret);
}

int pin_renew(struct rent_cluster *c, const struct account *s, struct error *err)
{
    char digest[DIGEST + 1];
    CLEANUP(cleanup_free) char *file = file_of(c, s);
    if (!account_secrets(s))
        return 0;
    digest_of(c, s, digest);
    return file_write_atomic(file, digest, DIGEST, 0600, err);
}

int pin_keep(struct rent_cluster *c, const struct account *s, struct error *err)
{
    CLEANUP(cleanup_free) char *file = file_of(c, s);
    if (access(file, F_OK) == 0)
        return 0;
    return errno == ENOENT ? pin_renew(c, s, err)
                           : error_errno(err, ERROR_IO, errno, "cannot read the file \"%s\"", file);
}

bool pin_fits(const struct rent_cluster *c, const struct account *s)
{
    char digest[DIGEST + 1];
    struct buf kept = {0};
    CLEANUP(cleanup_free) char *file = file_of(c, s);
    if (!account_secrets(s) || (access(file, F_OK) < 0 && errno == ENOENT))
        return true;
    digest_of(c, s, digest);
    const bool same =
        file_read(file, DIGEST, &kept, NULL) == 0 && kept.len == DIGEST && !memcmp(kept.data, digest, DIGEST);
    buf_free(&kept);
    return same;
}

const char *pin_text(const struct rent_cluster *c, struct arena *arena)
{
    return arena_printf(
        arena,
        "the credentials, or the address, are not those with which the cluster was rented, and show nothing of it: "
        "that does not prove that it is gone (if the account is the same: rhrun down %s --yes)",
        rent_ledger(c)->wanted.id);
}
