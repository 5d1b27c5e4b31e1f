/* How the built-in SSH client treats each keyword of the installed OpenSSH. */
#include "../../src/transport/ssh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *ssh_g(const char *options)
{
    CLEANUP(cleanup_free) char *command = xasprintf("ssh -T -G -F none %s example.org 2>&1", options);
    struct buf text = {0};
    char part[4096];
    FILE *p = popen(command, "r");
    assert_non_null(p);
    for (size_t n; (n = fread(part, 1, sizeof part, p)) > 0;)
        buf_append(&text, part, n);
    if (pclose(p) != 0) {
        buf_free(&text);
        return NULL;
    }
    buf_putc(&text, '\0');
    return buf_steal(&text);
}

static void test_every_keyword_is_listed(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *text = ssh_g("");
    if (!text)
        skip(); /* no ssh here */
    int count = 0;
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n', count++)
        if (!keyword_find(p, strcspn(p, " \n")))
            print_message("not listed, so OpenSSH's where it is set: %.*s\n", (int)strcspn(p, " \n"), p);
    assert_in_range(count, 60, 200);
    CLEANUP(cleanup_free) char *none = config_beyond(text, text);
    assert_null(none);
}

/* Each value that is not OpenSSH's default; values that this version lacks are left out. */
static void test_what_only_openssh_can_do(void **state)
{
    (void)state;
    static const char *const settings[][2] = {
        {"RevokedHostKeys=/etc/hostname", "revokedhostkeys"},
        {"HostKeyAlgorithms=rsa-sha2-512", "hostkeyalgorithms"},
        {"Ciphers=aes256-gcm@openssh.com", "ciphers"},
        {"Ciphers=-aes128-ctr", "ciphers"},
        {"MACs=hmac-sha2-512", "macs"},
        {"KexAlgorithms=ecdh-sha2-nistp256", "kexalgorithms"},
        {"PubkeyAcceptedAlgorithms=ssh-ed25519", "pubkeyacceptedalgorithms"},
        {"PubkeyAuthentication=no", "pubkeyauthentication"},
        {"HostbasedAuthentication=yes", "hostbasedauthentication"},
        {"PreferredAuthentications=password", "preferredauthentications"},
        {"KnownHostsCommand=/bin/true", "knownhostscommand"},
        {"VerifyHostKeyDNS=yes", "verifyhostkeydns"},
        {"CheckHostIP=yes", "checkhostip"},
        {"NoHostAuthenticationForLocalhost=yes", "nohostauthenticationforlocalhost"},
        {"RequiredRSASize=4096", "requiredrsasize"},
        {"RekeyLimit=1G", "rekeylimit"},
        {"BindInterface=lo", "bindinterface"},
        {"PKCS11Provider=/usr/lib/none.so", "pkcs11provider"},
        {"ProxyUseFdpass=yes", "proxyusefdpass"},
        {"SetEnv=A=b", "setenv"},
    };
    static const char *const fine[] = {"User=x",
                                       "Port=2222",
                                       "ProxyJump=bastion",
                                       "PreferredAuthentications=publickey",
                                       "ForwardAgent=yes",
                                       "ControlMaster=auto",
                                       "ControlPath=/tmp/%C",
                                       "SendEnv=LANG",
                                       "ServerAliveInterval=30",
                                       "Compression=yes",
                                       "StrictHostKeyChecking=no",
                                       "LogLevel=ERROR"};
    CLEANUP(cleanup_free) char *defaults = ssh_g("");
    if (!defaults)
        skip();
    int tried = 0;
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        CLEANUP(cleanup_free) char *option = xasprintf("-o %s", settings[i][0]);
        CLEANUP(cleanup_free) char *text = ssh_g(option);
        CLEANUP(cleanup_free) char *found = text ? config_beyond(text, defaults) : NULL;
        if (!text)
            continue;
        if (!found || strcmp(found, settings[i][1]) != 0)
            fail_msg("%s: %s", settings[i][0], found ? found : "nothing");
        tried++;
    }
    assert_in_range(tried, 15, (int)ARRAY_LEN(settings));
    for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
        CLEANUP(cleanup_free) char *option = xasprintf("-o %s", fine[i]);
        CLEANUP(cleanup_free) char *text = ssh_g(option);
        CLEANUP(cleanup_free) char *found = text ? config_beyond(text, defaults) : NULL;
        if (found)
            fail_msg("%s: %s", fine[i], found);
    }
}

/* Possible output of a later ssh. */
static void test_unknown_keywords(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *same = config_beyond("user me\nquantum yes\n", "user you\nquantum yes\n");
    CLEANUP(cleanup_free) char *set = config_beyond("user me\nquantum no\n", "user you\nquantum yes\n");
    CLEANUP(cleanup_free) char *new = config_beyond("quantum no\n", "");
    CLEANUP(cleanup_free) char *gone = config_beyond("user me\n", "user you\nmacs a,b\n");
    CLEANUP(cleanup_free) char *longer = config_beyond("macs a,b,c\n", "macs a,b\n");
    assert_null(same);
    assert_string_equal(set, "quantum");
    assert_string_equal(new, "quantum");
    assert_string_equal(gone, "macs");
    assert_string_equal(longer, "macs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_keyword_is_listed),
        cmocka_unit_test(test_what_only_openssh_can_do),
        cmocka_unit_test(test_unknown_keywords),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
