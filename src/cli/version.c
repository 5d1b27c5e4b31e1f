/* --version: the first line is the program, the others are its libraries, so that a bug report needs no questions. */
#include "internal.h"
#include "rhrun/http.h"
#include "rhrun/provider.h"

#include <git2.h>
#include <jansson.h>
#include <libssh2.h>
#include <openssl/crypto.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sqlite3.h>
#include <uv.h>
#include <yaml.h>
#include <zlib.h>

extern const uint64_t rhrun_agent_x86_64_size, rhrun_agent_aarch64_size;

static void print_agents(void)
{
    bool intel = rhrun_agent_x86_64_size > 0, arm = rhrun_agent_aarch64_size > 0;
    printf("agents: %s%s%s\n", intel ? "x86_64" : "", intel && arm ? ", " : "", arm ? "aarch64" : "");
}

int cli_version(const struct cli *c)
{
    int major = 0, minor = 0, patch = 0;
    char pcre2[64] = "";
    git_libgit2_version(&major, &minor, &patch);
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) < (int)sizeof pcre2)
        pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    pcre2[strcspn(pcre2, " ")] = '\0'; /* the date follows */
    const char *curl = http_library_version(NULL), *xml = provider_xml_version(NULL);
    printf("rhrun %s (%s%s%s)\n", RHRUN_VERSION, c->build->commit, *c->build->commit ? ", " : "", c->build->type);
    printf("libuv %s, libssh2 %s, OpenSSL %s, SQLite %s, libgit2 %d.%d.%d\n", uv_version_string(), libssh2_version(0),
           OpenSSL_version(OPENSSL_VERSION_STRING), sqlite3_libversion(), major, minor, patch);
    printf("libyaml %s, PCRE2 %s, Jansson %s, zlib %s\n", yaml_get_version_string(), pcre2, jansson_version_str(),
           zlibVersion());
    printf("%slibcurl %s, libxml2 %s\n", RHRUN_STATIC ? "" : "loaded when needed: ", curl ? curl : "(not there)",
           xml ? xml : "(not there)");
    print_agents();
    return 0;
}
