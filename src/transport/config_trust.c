/*
 * Whether ssh would run something, or send the caller's environment, because of a configuration that somebody else may
 * have written. Only settings known to be harmless pass: ssh's parser accepts surprising spellings (Pro"xyCommand" x),
 * and new keywords appear.
 */
#include "ssh.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20, DEPTH_MAX = 16 /* ssh's own */ };

/* These run a program, load a library or talk to a socket, unless they have the value beside them. */
static const struct {
    const char *keyword, *harmless;
} commands[] = {
    {"ProxyCommand", "none"},           {"LocalCommand", "none"},
    {"KnownHostsCommand", "none"},      {"PKCS11Provider", "none"},
    {"SmartcardDevice", NULL},          {"SecurityKeyProvider", "internal"},
    {"IdentityAgent", "none"},          {"XAuthLocation", NULL},
    {"IdentityAgent", "SSH_AUTH_SOCK"}, {"IdentityAgent", "$SSH_AUTH_SOCK"},
};

static const char *const harmless[] = {
    "AddKeysToAgent",
    "AddressFamily",
    "BatchMode",
    "BindAddress",
    "BindInterface",
    "CanonicalDomains",
    "CanonicalizeFallbackLocal",
    "CanonicalizeHostname",
    "CanonicalizeMaxDots",
    "CanonicalizePermittedCNAMEs",
    "CASignatureAlgorithms",
    "CertificateFile",
    "ChallengeResponseAuthentication",
    "CheckHostIP",
    "Ciphers",
    "ClearAllForwardings",
    "Compression",
    "ConnectionAttempts",
    "ConnectTimeout",
    "ControlMaster",
    "ControlPath",
    "ControlPersist",
    "DynamicForward",
    "EnableEscapeCommandline",
    "EscapeChar",
    "ExitOnForwardFailure",
    "FingerprintHash",
    "ForwardAgent",
    "ForwardX11",
    "ForwardX11Timeout",
    "ForwardX11Trusted",
    "GatewayPorts",
    "GlobalKnownHostsFile",
    "GSSAPIAuthentication",
    "GSSAPIDelegateCredentials",
    "HashKnownHosts",
    "Host",
    "HostbasedAcceptedAlgorithms",
    "HostbasedAuthentication",
    "HostbasedKeyTypes",
    "HostKeyAlgorithms",
    "HostKeyAlias",
    "Hostname",
    "IdentitiesOnly",
    "IdentityFile",
    "IgnoreUnknown",
    "IPQoS",
    "KbdInteractiveAuthentication",
    "KexAlgorithms",
    "LocalForward",
    "LogLevel",
    "LogVerbose",
    "MACs",
    "NoHostAuthenticationForLocalhost",
    "NumberOfPasswordPrompts",
    "ObscureKeystrokeTiming",
    "PasswordAuthentication",
    "PermitLocalCommand",
    "PermitRemoteOpen",
    "Port",
    "PreferredAuthentications",
    "ProxyJump",
    "PubkeyAcceptedAlgorithms",
    "PubkeyAcceptedKeyTypes",
    "PubkeyAuthentication",
    "RekeyLimit",
    "RemoteCommand",
    "RemoteForward",
    "RequestTTY",
    "RequiredRSASize",
    "RevokedHostKeys",
    "ServerAliveCountMax",
    "ServerAliveInterval",
    "SessionType",
    "SetEnv",
    "StreamLocalBindMask",
    "StreamLocalBindUnlink",
    "StrictHostKeyChecking",
    "SyslogFacility",
    "Tag",
    "TCPKeepAlive",
    "UpdateHostKeys",
    "User",
    "UserKnownHostsFile",
    "VerifyHostKeyDNS",
    "VisualHostKey",
};

/* Whether the file is the user's own, or the machine's. */
static bool is_own(const char *path)
{
    const char *home = getenv("HOME");
    CLEANUP(cleanup_free) char *by_ssh = expand_home("~/.ssh");
    CLEANUP(cleanup_free) char *by_home = xasprintf("%s/.ssh", home && *home == '/' ? home : "");
    const char *const folders[] = {by_ssh, home && *home == '/' ? by_home : by_ssh, "/etc/ssh"};
    char real[PATH_MAX], folder[PATH_MAX];
    if (!realpath(path, real))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        size_t len = realpath(folders[i], folder) ? strlen(folder) : 0;
        if (len > 0 && strncmp(real, folder, len) == 0 && real[len] == '/')
            return true;
    }
    return false;
}

static int check_file(const char *path, int depth, struct error *err);

/* "Include PATTERN...": plain words only. 1: its meaning cannot be told. */
static int check_include(char *value, int depth, struct error *err)
{
    char *save = NULL;
    if (strpbrk(value, "\"'\\%$") || depth >= DEPTH_MAX)
        return 1;
    for (char *word = strtok_r(value, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
        if (*word == '~' && word[1] != '/')
            return 1;
        CLEANUP(cleanup_free) char *path = *word == '/' || *word == '~' ? expand_home(word) : NULL;
        CLEANUP(cleanup_free) char *below = path ? NULL : xasprintf("~/.ssh/%s", word); /* for a file given by -F */
        if (!path)
            path = expand_home(below);
        glob_t found;
        int rc = 0;
        if (glob(path, 0, NULL, &found) != 0)
            continue;
        for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
            rc = check_file(found.gl_pathv[i], depth + 1, err);
        globfree(&found);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Whether only variables of locale and colours are sent: `SendEnv *` would send passwords. */
static bool sends_little(char *value)
{
    static const char *const names[] = {"LANG", "LC_*", "LANGUAGE", "COLORTERM", "NO_COLOR", "TERM"};
    char *save = NULL;
    for (char *word = strtok_r(value, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
        bool known = str_starts(word, "LC_") && !strpbrk(word, "?!");
        for (size_t i = 0; i < ARRAY_LEN(names) && !known; i++)
            known = str_eq(word, names[i]);
        if (!known)
            return false;
    }
    return true;
}

/* Why the line needs trust, or NULL; -1 in *ret_rc: a file that it includes needs trust, and err says so. */
static const char *look(const char *keyword, char *value, int depth, int *ret_rc, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcasecmp(keyword, commands[i].keyword) != 0)
            continue;
        for (size_t k = i; k < ARRAY_LEN(commands); k++)
            if (strcasecmp(keyword, commands[k].keyword) == 0 && str_eq(value, commands[k].harmless))
                return NULL;
        return commands[i].keyword;
    }
    if (strcasecmp(keyword, "Match") == 0)
        return strcasestr(value, "exec") ? "Match exec" : strpbrk(value, "\"'\\") ? "Match with quotes" : NULL;
    if (strcasecmp(keyword, "SendEnv") == 0)
        return sends_little(value) ? NULL : "SendEnv";
    if (strcasecmp(keyword, "Include") == 0) {
        int rc = check_include(value, depth, err);
        *ret_rc = rc < 0 ? -1 : 0;
        return rc > 0 ? "Include of files that cannot be determined" : NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
        if (strcasecmp(keyword, harmless[i]) == 0)
            return NULL;
    return "a keyword that is not known to be harmless";
}

/* One line, without its line end; the text is modified. */
static const char *look_at(char *line, int depth, int *ret_rc, struct error *err)
{
    char *keyword = line + strspn(line, " \t\r");
    size_t len = strspn(keyword, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    if (!*keyword || *keyword == '#')
        return NULL;
    if (len == 0 || (keyword[len] && !strchr(" \t\r=", keyword[len])))
        return "a keyword that is not known to be harmless";
    char *value = keyword + len + strspn(keyword + len, " \t\r");
    value += *value == '=';
    value += strspn(value, " \t\r");
    for (size_t end = strlen(value); end > 0 && strchr(" \t\r\f", value[end - 1]); end--)
        value[end - 1] = 0;
    keyword[len] = 0;
    return look(keyword, value, depth, ret_rc, err);
}

static int check_file(const char *path, int depth, struct error *err)
{
    struct buf text = {0};
    if (is_own(path) || (access(path, F_OK) < 0 && errno == ENOENT))
        return 0;
    if (file_read(path, FILE_MAX, &text, err) < 0)
        return -1;
    int rc = 0;
    char *next = text.data;
    for (uint32_t number = 1; next && rc == 0; number++) {
        char *line = next;
        next = memchr(line, '\n', (size_t)(text.data + text.len - line));
        if (next)
            *next++ = 0;
        const char *end = next ? next - 1 : text.data + text.len;
        const char *why = strlen(line) < (size_t)(end - line) ? "a NUL byte" : look_at(line, depth, &rc, err);
        if (why && rc == 0)
            rc = error_set(err, ERROR_SPEC,
                           "\"%s\", line %u: ssh may run a program for it, or send your environment (%s)", path, number,
                           why);
    }
    buf_free(&text);
    return rc;
}

int transport_config_check(const char *ssh_config, struct error *err)
{
    if (!ssh_config || str_eq(ssh_config, "none") || str_eq(ssh_config, "/dev/null"))
        return 0;
    CLEANUP(cleanup_free) char *path = expand_home(ssh_config);
    return check_file(path, 0, err);
}
