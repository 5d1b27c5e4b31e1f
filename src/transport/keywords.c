/*
 * How our own client treats each keyword of ssh_config, as `ssh -G` prints it. A host whose configuration sets
 * something that only OpenSSH can do goes to the openssh transport, so no keyword is ever overlooked. A keyword is set
 * if its value differs from OpenSSH's own answer for an empty configuration, which has the defaults of the installed
 * version.
 */
#include "ssh.h"

#include <stdlib.h>
#include <string.h>

static const struct ssh_keyword keywords[] = {
    /* used by config.c, or by `ssh -G` itself on its way to the host name */
    {"addressfamily", KEYWORD_USED},
    {"bindaddress", KEYWORD_USED},
    {"canonicaldomains", KEYWORD_USED},
    {"canonicalizefallbacklocal", KEYWORD_USED},
    {"canonicalizehostname", KEYWORD_USED},
    {"canonicalizemaxdots", KEYWORD_USED},
    {"canonicalizepermittedcnames", KEYWORD_USED},
    {"certificatefile", KEYWORD_USED},
    {"connecttimeout", KEYWORD_USED},
    {"globalknownhostsfile", KEYWORD_USED},
    {"hashknownhosts", KEYWORD_USED},
    {"host", KEYWORD_USED},
    {"hostkeyalias", KEYWORD_USED},
    {"hostname", KEYWORD_USED},
    {"identitiesonly", KEYWORD_USED},
    {"identityagent", KEYWORD_USED},
    {"identityfile", KEYWORD_USED},
    {"port", KEYWORD_USED},
    {"preferredauthentications", KEYWORD_USED}, /* below */
    {"proxycommand", KEYWORD_USED},
    {"proxyjump", KEYWORD_USED},
    {"stricthostkeychecking", KEYWORD_USED},
    {"user", KEYWORD_USED},
    {"userknownhostsfile", KEYWORD_USED},
    /* forwards, extra channels and commands: rhrun uses none of them, with openssh neither */
    {"clearallforwardings", KEYWORD_SAFE},
    {"dynamicforward", KEYWORD_SAFE},
    {"enableescapecommandline", KEYWORD_SAFE},
    {"escapechar", KEYWORD_SAFE},
    {"exitonforwardfailure", KEYWORD_SAFE},
    {"forkafterauthentication", KEYWORD_SAFE},
    {"forwardagent", KEYWORD_SAFE},
    {"forwardx11", KEYWORD_SAFE},
    {"forwardx11timeout", KEYWORD_SAFE},
    {"forwardx11trusted", KEYWORD_SAFE},
    {"gatewayports", KEYWORD_SAFE},
    {"localcommand", KEYWORD_SAFE},
    {"localforward", KEYWORD_SAFE},
    {"permitlocalcommand", KEYWORD_SAFE},
    {"permitremoteopen", KEYWORD_SAFE},
    {"remotecommand", KEYWORD_SAFE},
    {"remoteforward", KEYWORD_SAFE},
    {"requesttty", KEYWORD_SAFE},
    {"sendenv", KEYWORD_SAFE}, /* the caller's locale is not the job's */
    {"sessiontype", KEYWORD_SAFE},
    {"stdinnull", KEYWORD_SAFE},
    {"streamlocalbindmask", KEYWORD_SAFE},
    {"streamlocalbindunlink", KEYWORD_SAFE},
    {"tunnel", KEYWORD_SAFE},
    {"tunneldevice", KEYWORD_SAFE},
    {"xauthlocation", KEYWORD_SAFE},
    /* ways to log in that our own client lacks: if a key does not suffice, OpenSSH is tried anyway */
    {"addkeystoagent", KEYWORD_SAFE},
    {"batchmode", KEYWORD_SAFE},
    {"controlmaster", KEYWORD_SAFE},
    {"controlpath", KEYWORD_SAFE},
    {"controlpersist", KEYWORD_SAFE},
    {"enablesshkeysign", KEYWORD_SAFE},
    {"gssapiauthentication", KEYWORD_SAFE},
    {"gssapiclientidentity", KEYWORD_SAFE},
    {"gssapidelegatecredentials", KEYWORD_SAFE},
    {"gssapikexalgorithms", KEYWORD_SAFE},
    {"gssapirenewalforcesrekey", KEYWORD_SAFE},
    {"gssapiserveridentity", KEYWORD_SAFE},
    {"gssapitrustdns", KEYWORD_SAFE},
    {"kbdinteractiveauthentication", KEYWORD_SAFE},
    {"kbdinteractivedevices", KEYWORD_SAFE},
    {"numberofpasswordprompts", KEYWORD_SAFE},
    {"passwordauthentication", KEYWORD_SAFE},
    {"securitykeyprovider", KEYWORD_SAFE},
    /* messages, retries, keep-alive: rhrun has its own */
    {"casignaturealgorithms", KEYWORD_SAFE}, /* certificates are OpenSSH's */
    {"compression", KEYWORD_SAFE},
    {"connectionattempts", KEYWORD_SAFE},
    {"fingerprinthash", KEYWORD_SAFE},
    {"ipqos", KEYWORD_SAFE},
    {"loglevel", KEYWORD_SAFE},
    {"logverbose", KEYWORD_SAFE},
    {"serveralivecountmax", KEYWORD_SAFE},
    {"serveraliveinterval", KEYWORD_SAFE},
    {"syslogfacility", KEYWORD_SAFE},
    {"tcpkeepalive", KEYWORD_SAFE},
    {"updatehostkeys", KEYWORD_SAFE},
    {"visualhostkey", KEYWORD_SAFE},
    /* whom to trust, by which means, and the way to the host */
    {"bindinterface", KEYWORD_OPENSSH},
    {"checkhostip", KEYWORD_OPENSSH},
    {"ciphers", KEYWORD_OPENSSH},
    {"gssapikeyexchange", KEYWORD_OPENSSH},
    {"hostbasedacceptedalgorithms", KEYWORD_OPENSSH},
    {"hostbasedauthentication", KEYWORD_OPENSSH},
    {"hostkeyalgorithms", KEYWORD_OPENSSH},
    {"kexalgorithms", KEYWORD_OPENSSH},
    {"knownhostscommand", KEYWORD_OPENSSH},
    {"macs", KEYWORD_OPENSSH},
    {"nohostauthenticationforlocalhost", KEYWORD_OPENSSH},
    {"pkcs11provider", KEYWORD_OPENSSH},
    {"proxyusefdpass", KEYWORD_OPENSSH},
    {"pubkeyacceptedalgorithms", KEYWORD_OPENSSH},
    {"pubkeyauthentication", KEYWORD_OPENSSH},
    {"rekeylimit", KEYWORD_OPENSSH},
    {"requiredrsasize", KEYWORD_OPENSSH},
    {"revokedhostkeys", KEYWORD_OPENSSH},
    {"setenv", KEYWORD_OPENSSH},
    {"verifyhostkeydns", KEYWORD_OPENSSH},
};

const struct ssh_keyword *keyword_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (strlen(keywords[i].name) == len && strncasecmp(keywords[i].name, name, len) == 0)
            return &keywords[i];
    return NULL;
}

static bool has_line(const char *text, const char *line, size_t len)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strcspn(text, "\n") == len && memcmp(text, line, len) == 0)
            return true;
    return false;
}

/* The keyword of the first line in text that is not in other and that only OpenSSH can follow. */
static char *beyond(const char *text, const char *other)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        size_t len = strcspn(text, "\n"), name_len = strcspn(text, " \n");
        const struct ssh_keyword *k = keyword_find(text, name_len);
        bool ours = k && k->care != KEYWORD_OPENSSH;
        if (k && strcmp(k->name, "preferredauthentications") == 0) { /* our own client logs in by key */
            CLEANUP(cleanup_free) char *value = xstrndup(text + name_len, len - name_len);
            ours = strstr(value, "publickey") != NULL;
        }
        if (name_len && !ours && !has_line(other, text, len))
            return xstrndup(text, name_len);
    }
    return NULL;
}

char *config_beyond(const char *text, const char *defaults)
{
    char *found = beyond(text, defaults);
    return found ? found : beyond(defaults, text);
}
