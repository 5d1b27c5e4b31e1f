/*
 * The ssh configuration of a host: the output of `ssh -G`, run once per distinct question; without the program,
 * OpenSSH's defaults. `ssh -G` is also skipped if no applicable file has anything that matters here (such as Debian's
 * own file), because it costs a process per host.
 */
#include "ssh.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <netdb.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUTPUT_MAX = 1 << 20, LIST_MAX = 64, RUNNING_MAX = 8, CONFIG_FILE_MAX = 1 << 20 };

struct pool_config {
    struct pool_config *next;
    struct transport_pool *pool;
    char *key;
    char *alias, *ssh_config, *user, *port;
    uint32_t timeout_ms;
    struct loop_capture *running;
    bool done;
    bool of_defaults; /* asked without any file: the defaults of this OpenSSH */
    char *text;       /* ssh's answer; kept until the defaults are known */
    struct error err; /* code set: it failed */
    struct ssh_config config;
    struct config_waiter *waiting;
};

/* ---- lists, expansion ---- */

void string_list_add(struct string_list *list, const char *s)
{
    if (list->count == LIST_MAX)
        return;
    list->items = xreallocarray(list->items, list->count + 1, sizeof(*list->items));
    list->items[list->count++] = xstrdup(s);
}

void string_list_free(struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct string_list){0};
}

static const char *home_dir(void)
{
    /* As ssh does: from the password database, not $HOME. */
    const struct passwd *pw = getpwuid(getuid());
    const char *home = getenv("HOME");
    return pw && pw->pw_dir && pw->pw_dir[0] ? pw->pw_dir : home ? home : "/";
}

char *expand_home(const char *path)
{
    if (path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
        return xasprintf("%s%s", home_dir(), path + 1);
    return xstrdup(path);
}

char *config_expand(const struct ssh_config *config, const char *alias, const char *text, bool home)
{
    struct buf out = {0};
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    const struct passwd *pw = getpwuid(getuid());
    for (const char *p = text; *p; p++) {
        if (*p != '%' || !p[1]) {
            buf_putc(&out, *p);
            continue;
        }
        switch (*++p) {
        case '%':
            buf_putc(&out, '%');
            break;
        case 'h':
            buf_puts(&out, config->hostname);
            break;
        case 'n':
            buf_puts(&out, alias);
            break;
        case 'k':
            buf_puts(&out, config->host_key_alias ? config->host_key_alias : alias);
            break;
        case 'p':
            buf_printf(&out, "%u", config->port);
            break;
        case 'r':
            buf_puts(&out, config->user);
            break;
        case 'u':
            buf_puts(&out, pw ? pw->pw_name : "");
            break;
        case 'i':
            buf_printf(&out, "%lu", (unsigned long)getuid());
            break;
        case 'd':
            buf_puts(&out, home_dir());
            break;
        case 'l':
            buf_puts(&out, host);
            break;
        case 'L':
            buf_append(&out, host, strcspn(host, "."));
            break;
        default:
            buf_putc(&out, '%');
            buf_putc(&out, *p);
        }
    }
    buf_puts(&out, "");
    char *expanded = buf_steal(&out);
    if (!expanded)
        expanded = xstrdup("");
    if (!home)
        return expanded;
    char *whole = expand_home(expanded);
    free(expanded);
    return whole;
}

/* ---- ssh -G ---- */

static void replace(char **field, const char *value)
{
    free(*field);
    *field = xstrdup(value);
}

/* Blank-separated words; a word may be quoted. */
static void add_words(struct string_list *list, const char *value)
{
    while (*value) {
        while (*value == ' ')
            value++;
        const char *end;
        if (*value == '"') {
            end = strchr(++value, '"');
            if (!end)
                return;
        } else {
            end = value + strcspn(value, " ");
        }
        if (end > value) {
            char *word = xstrndup(value, (size_t)(end - value));
            string_list_add(list, word);
            free(word);
        }
        value = *end ? end + 1 : end;
    }
}

static bool is_yes(const char *value)
{
    return strcmp(value, "yes") == 0 || strcmp(value, "true") == 0;
}

static void parse_pair(struct ssh_config *c, const char *key, const char *value)
{
    uint64_t ms;
    if (strcmp(key, "user") == 0)
        replace(&c->user, value);
    else if (strcmp(key, "hostname") == 0)
        replace(&c->hostname, value);
    else if (strcmp(key, "port") == 0)
        parse_u32(value, &c->port);
    else if (strcmp(key, "identityfile") == 0)
        string_list_add(&c->identity_files, value);
    else if (strcmp(key, "certificatefile") == 0)
        string_list_add(&c->certificate_files, value);
    else if (strcmp(key, "identityagent") == 0)
        replace(&c->identity_agent, value);
    else if (strcmp(key, "identitiesonly") == 0)
        c->identities_only = is_yes(value);
    else if (strcmp(key, "userknownhostsfile") == 0)
        add_words(&c->user_known_hosts, value);
    else if (strcmp(key, "globalknownhostsfile") == 0)
        add_words(&c->global_known_hosts, value);
    else if (strcmp(key, "hostkeyalias") == 0)
        replace(&c->host_key_alias, value);
    else if (strcmp(key, "stricthostkeychecking") == 0)
        c->strict = strcmp(value, "accept-new") == 0 || strcmp(value, "no") == 0 || strcmp(value, "off") == 0 ||
                            strcmp(value, "false") == 0
                        ? STRICT_ACCEPT_NEW
                        : STRICT_YES; /* nobody can answer "ask" in a fan-out */
    else if (strcmp(key, "hashknownhosts") == 0)
        c->hash_known_hosts = is_yes(value);
    else if (strcmp(key, "connecttimeout") == 0 && parse_duration_ms(value, &ms) && ms <= 3600000)
        c->connect_timeout_ms = (uint32_t)ms;
    else if (strcmp(key, "proxyjump") == 0 && strcmp(value, "none") != 0)
        replace(&c->proxy_jump, value);
    else if (strcmp(key, "proxycommand") == 0 && strcmp(value, "none") != 0)
        replace(&c->proxy_command, value);
    else if (strcmp(key, "addressfamily") == 0)
        c->family = strcmp(value, "inet") == 0 ? RESOLVE_V4 : strcmp(value, "inet6") == 0 ? RESOLVE_V6 : RESOLVE_ANY;
    else if (strcmp(key, "bindaddress") == 0)
        replace(&c->bind_address, value);
}

static void expand_list(struct ssh_config *c, const char *alias, struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        char *path = config_expand(c, alias, list->items[i], true);
        free(list->items[i]);
        list->items[i] = path;
    }
}

void config_parse(const char *text, const char *alias, struct ssh_config *ret)
{
    struct ssh_config c = {.port = 22, .from_ssh = true};
    while (*text) {
        const char *end = text + strcspn(text, "\n");
        char *line = xstrndup(text, (size_t)(end - text));
        char *blank = strchr(line, ' ');
        if (blank) {
            *blank = '\0';
            parse_pair(&c, line, blank + 1);
        }
        free(line);
        text = *end ? end + 1 : end;
    }
    if (!c.hostname)
        c.hostname = xstrdup(alias);
    if (!c.user)
        c.user = xstrdup("");
    expand_list(&c, alias, &c.identity_files);
    expand_list(&c, alias, &c.certificate_files);
    expand_list(&c, alias, &c.user_known_hosts);
    expand_list(&c, alias, &c.global_known_hosts);
    *ret = c;
}

void config_defaults(const char *alias, struct ssh_config *ret)
{
    static const char *const keys[] = {"id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"};
    const struct passwd *pw = getpwuid(getuid());
    const char *user = pw ? pw->pw_name : getenv("USER");
    struct ssh_config c = {.port = 22};
    c.user = xstrdup(user ? user : "");
    c.hostname = xstrdup(alias);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        char *path = xasprintf("%s/.ssh/%s", home_dir(), keys[i]);
        string_list_add(&c.identity_files, path);
        free(path);
    }
    for (int i = 0; i < 2; i++) {
        char *path = xasprintf("%s/.ssh/known_hosts%s", home_dir(), i ? "2" : "");
        string_list_add(&c.user_known_hosts, path);
        free(path);
    }
    string_list_add(&c.global_known_hosts, "/etc/ssh/ssh_known_hosts");
    string_list_add(&c.global_known_hosts, "/etc/ssh/ssh_known_hosts2");
    *ret = c;
}

void config_free(struct ssh_config *c)
{
    free(c->user);
    free(c->hostname);
    string_list_free(&c->identity_files);
    string_list_free(&c->certificate_files);
    free(c->identity_agent);
    string_list_free(&c->user_known_hosts);
    string_list_free(&c->global_known_hosts);
    free(c->host_key_alias);
    free(c->proxy_jump);
    free(c->proxy_command);
    free(c->bind_address);
    free(c->beyond);
    *c = (struct ssh_config){0};
}

/* ---- files without settings that matter ---- */

static bool include_trivial(const char *pattern, const char *base, int depth, struct ssh_config *ret)
{
    char *home = expand_home(pattern);
    char *path = home[0] == '/' ? xstrdup(home) : xasprintf("%s/%s", base, home);
    glob_t found;
    bool trivial = true;
    if (strchr(path, '%') || strchr(path, '$'))
        trivial = false;
    else if (glob(path, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && trivial; i++)
            trivial = config_file_trivial(found.gl_pathv[i], depth + 1, ret);
        globfree(&found);
    }
    free(home);
    free(path);
    return trivial;
}

bool config_file_trivial(const char *path, int depth, struct ssh_config *ret)
{
    struct buf text = {0};
    if (depth > 8)
        return false;
    if (access(path, F_OK) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    if (file_read(path, CONFIG_FILE_MAX, &text, NULL) != 0)
        return false;
    bool trivial = true;
    char *save = NULL;
    for (char *line = text.data ? strtok_r(text.data, "\r\n", &save) : NULL; line && trivial;
         line = strtok_r(NULL, "\r\n", &save)) {
        char *word_save = NULL;
        char *key = strtok_r(line, " \t=", &word_save);
        if (!key || key[0] == '#')
            continue;
        char *value = strtok_r(NULL, " \t=\"", &word_save);
        char *more = strtok_r(NULL, " \t", &word_save);
        if (strcasecmp(key, "SendEnv") == 0)
            continue; /* the agent does not want the caller's locale */
        if (!value || more)
            trivial = false;
        else if (strcasecmp(key, "Host") == 0)
            trivial = strcmp(value, "*") == 0;
        else if (strcasecmp(key, "HashKnownHosts") == 0)
            ret->hash_known_hosts = is_yes(value);
        else if (strcasecmp(key, "Include") == 0)
            trivial = include_trivial(value, "/etc/ssh", depth, ret);
        else if (strcasecmp(key, "GSSAPIAuthentication") != 0)
            trivial = false;
    }
    buf_free(&text);
    return trivial;
}

static bool all_trivial(const char *ssh_config, struct ssh_config *ret)
{
    if (ssh_config && strcmp(ssh_config, "none") == 0)
        return true;
    if (ssh_config) /* a missing file must be reported by ssh: otherwise the host would be looked up by its alias */
        return access(ssh_config, F_OK) == 0 && config_file_trivial(ssh_config, 0, ret);
    char *own = xasprintf("%s/.ssh/config", home_dir());
    bool trivial = config_file_trivial(own, 0, ret) && config_file_trivial("/etc/ssh/ssh_config", 0, ret);
    free(own);
    return trivial;
}

/* ---- ssh's messages about a file ---- */

void config_hide_text(char *text)
{
    static const char mark[] = " line ", instead[] = "cannot be read";
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        size_t len = next ? (size_t)(next++ - line) : strlen(line);
        char *at = memmem(line, len, mark, strlen(mark));
        char *end = at ? at + strlen(mark) + strspn(at + strlen(mark), "0123456789") : NULL;
        if (!at || end == at + strlen(mark) || *end != ':') /* "FILE: line 3: Bad ...", "FILE line 3: ..." */
            continue;
        size_t room = len - (size_t)(end - line), keep = 2 + strlen(instead);
        if (room < keep)
            memset(end, ' ', room);
        else
            snprintf(end, keep + 1, ": %s", instead);
        if (room > keep)
            memset(end + keep, ' ', room - keep);
        if (next)
            next[-1] = '\n';
    }
}

/* ---- asking ---- */

static void start_next(struct transport_pool *pool);

static void deliver(struct pool_config *c)
{
    while (c->waiting) {
        struct config_waiter *w = c->waiting;
        c->waiting = w->next;
        w->of = NULL;
        w->done(w->arg, c->err.code ? NULL : &c->config, &c->err);
    }
}

/* Parses the answers that have come, once the defaults are known. If the defaults are not available, any setting may be
 * non-default. */
static void parse_answers(struct transport_pool *pool)
{
    struct pool_config *defaults = pool->configs;
    while (defaults && !defaults->of_defaults)
        defaults = defaults->next;
    if (!defaults || !defaults->done)
        return;
    for (struct pool_config *c = pool->configs; c; c = c->next) {
        if (c->done || !c->text)
            continue;
        config_parse(c->text, c->alias, &c->config);
        c->config.beyond = config_beyond(c->text, defaults->text ? defaults->text : "");
        c->done = true;
        deliver(c);
    }
}

static void answered(void *arg, const struct loop_capture_result *r)
{
    struct pool_config *c = arg;
    c->running = NULL;
    if (r->timed_out)
        error_set(&c->err, ERROR_TIMEOUT, "ssh -G gave no answer within %.3g s", c->timeout_ms / 1000.0);
    else if (r->status != 0 || r->signal) {
        CLEANUP(cleanup_free) char *said = xstrdup(r->error_text);
        config_hide_text(said);
        char *line = strstr(said, " line "); /* else the last line, which only counts the faults */
        while (line && line > said && line[-1] != '\n')
            line--;
        if (line)
            line[strcspn(line, "\n")] = 0;
        else
            line = strrchr(said, '\n') ? strrchr(said, '\n') + 1 : said;
        for (size_t len = strlen(line); len && line[len - 1] == ' '; len--)
            line[len - 1] = 0;
        error_set(&c->err, ERROR_INFRA, "ssh -G failed: %s", line);
        error_hint(&c->err, "correct the ssh configuration, or set ssh_config: none");
    } else
        c->text = xstrdup(r->out);
    c->done = c->of_defaults || !c->text; /* set before the next are started, so that this one does not count */
    start_next(c->pool);
    if (c->done)
        deliver(c);
    parse_answers(c->pool);
}

static void start(struct pool_config *c)
{
    const char *argv[12];
    int n = 0;
    argv[n++] = "ssh";
    argv[n++] = "-T";
    argv[n++] = "-G";
    if (c->ssh_config) {
        argv[n++] = "-F";
        argv[n++] = c->ssh_config;
    }
    if (c->port) {
        argv[n++] = "-p";
        argv[n++] = c->port;
    }
    if (c->user) {
        argv[n++] = "-l";
        argv[n++] = c->user;
    }
    argv[n++] = "--";
    argv[n++] = c->alias;
    argv[n] = NULL;
    c->running = loop_capture(c->pool->loop, argv, NULL, NULL, OUTPUT_MAX, c->timeout_ms, answered, c, NULL);
    if (!c->running) {
        c->pool->no_ssh = true;
        c->done = true;
        config_defaults(c->alias, &c->config);
        deliver(c);
    }
}

/* A few at a time: each is a process, and more processes than cores only wait for each other. */
static void start_next(struct transport_pool *pool)
{
    size_t running = 0;
    for (struct pool_config *c = pool->configs; c; c = c->next)
        running += c->running != NULL;
    for (struct pool_config *c = pool->configs; c && running < RUNNING_MAX; c = c->next)
        if (!c->done && !c->running && !c->text) {
            start(c);
            running++;
        }
}

/* There is only one, ahead of all others. */
static void defaults_add(struct transport_pool *pool, uint32_t timeout_ms)
{
    for (struct pool_config *c = pool->configs; c; c = c->next)
        if (c->of_defaults && !c->err.code)
            return;
        else if (c->of_defaults)
            c->of_defaults = false; /* it failed: try again */
    struct pool_config *c = xcalloc(1, sizeof(*c));
    *c = (struct pool_config){.pool = pool,
                              .key = xstrdup(""),
                              .alias = xstrdup("localhost"),
                              .ssh_config = xstrdup("none"),
                              .timeout_ms = timeout_ms,
                              .of_defaults = true,
                              .next = pool->configs};
    pool->configs = c;
}

static struct pool_config *config_add(struct transport *t, char *key)
{
    const struct transport_host *h = &t->host;
    struct pool_config *c = xcalloc(1, sizeof(*c));
    c->pool = t->pool;
    c->key = key;
    c->alias = xstrdup(h->name);
    c->ssh_config = h->ssh_config ? expand_home(h->ssh_config) : NULL;
    c->user = h->user ? xstrdup(h->user) : NULL;
    c->port = h->port ? xasprintf("%u", h->port) : NULL;
    c->timeout_ms = h->timeout_ms ? h->timeout_ms : DEFAULT_TIMEOUT_MS;
    struct pool_config **tail = &t->pool->configs;
    while (*tail)
        tail = &(*tail)->next;
    *tail = c;
    struct ssh_config trivial = {0};
    if (t->pool->no_ssh || all_trivial(c->ssh_config, &trivial)) {
        config_defaults(c->alias, &c->config);
        c->config.hash_known_hosts = trivial.hash_known_hosts;
        c->done = true;
    } else {
        defaults_add(t->pool, c->timeout_ms);
        start_next(t->pool);
    }
    return c;
}

void config_get(struct transport *t, struct config_waiter *waiter,
                void (*done)(void *arg, const struct ssh_config *config, const struct error *err), void *arg)
{
    const struct transport_host *h = &t->host;
    char *key =
        xasprintf("%s\n%s\n%u\n%s", h->ssh_config ? h->ssh_config : "", h->user ? h->user : "", h->port, h->name);
    struct pool_config *c = t->pool->configs;
    while (c && strcmp(c->key, key) != 0)
        c = c->next;
    if (c && c->done && c->err.code) { /* failures are not cached */
        c->err = (struct error)ERROR_INIT;
        c->done = false;
        start_next(t->pool);
    }
    if (c)
        free(key);
    else
        c = config_add(t, key);
    if (c->done) {
        done(arg, c->err.code ? NULL : &c->config, &c->err);
        return;
    }
    waiter->of = c;
    waiter->done = done;
    waiter->arg = arg;
    waiter->next = c->waiting;
    c->waiting = waiter;
}

void config_cancel(struct config_waiter *waiter)
{
    if (!waiter->of)
        return;
    struct config_waiter **at = &waiter->of->waiting;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    waiter->of = NULL;
}

void configs_destroy(struct transport_pool *pool)
{
    while (pool->configs) {
        struct pool_config *c = pool->configs;
        pool->configs = c->next;
        loop_capture_destroy(c->running);
        config_free(&c->config);
        free(c->key);
        free(c->alias);
        free(c->text);
        free(c->ssh_config);
        free(c->user);
        free(c->port);
        free(c);
    }
}
