/* The part of git's configuration about ignored files: core.ignorecase and core.excludesFile. */
#include "scan.h"

#include <git2.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 5 };

/* The files in the order of precedence, with libgit2's names for their levels. */
struct config_file {
    char *path;
    git_config_level_t level;
};

static bool is_true(const char *s)
{
    return s && (!*s || !strcasecmp(s, "true") || !strcasecmp(s, "yes") || !strcasecmp(s, "on") || strcmp(s, "1") == 0);
}

/* $XDG_CONFIG_HOME/git/NAME or its default; NULL without a home. */
static char *xdg_path(const char *name)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (xdg && *xdg)
        return xasprintf("%s/git/%s", xdg, name);
    return home ? xasprintf("%s/.config/git/%s", home, name) : NULL;
}

static size_t config_files(const char *git_dir, const char *common_dir, struct config_file out[FILES_MAX])
{
    const char *system = getenv("GIT_CONFIG_SYSTEM"), *global = getenv("GIT_CONFIG_GLOBAL"), *home = getenv("HOME");
    const char *no_system = getenv("GIT_CONFIG_NOSYSTEM");
    size_t n = 0;
    if (!is_true(no_system))
        out[n++] = (struct config_file){xstrdup(system ? system : "/etc/gitconfig"), GIT_CONFIG_LEVEL_SYSTEM};
    if (global) {
        out[n++] = (struct config_file){xstrdup(global), GIT_CONFIG_LEVEL_GLOBAL};
    } else {
        char *xdg = xdg_path("config");
        if (xdg)
            out[n++] = (struct config_file){xdg, GIT_CONFIG_LEVEL_XDG};
        if (home)
            out[n++] = (struct config_file){xasprintf("%s/.gitconfig", home), GIT_CONFIG_LEVEL_GLOBAL};
    }
    out[n++] = (struct config_file){xasprintf("%s/config", common_dir), GIT_CONFIG_LEVEL_LOCAL};
    out[n++] = (struct config_file){xasprintf("%s/config.worktree", git_dir), GIT_CONFIG_LEVEL_APP};
    return n;
}

static void free_files(struct config_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(files[i].path);
}

bool scan_config_seen(const char *git_dir, const char *common_dir, uint8_t ret[TREE_OID_SIZE])
{
    struct config_file files[FILES_MAX + 1];
    size_t count = config_files(git_dir, common_dir, files);
    char *ignore = xdg_path("ignore"); /* the default of core.excludesFile comes from the environment too */
    struct timespec now;
    struct buf text = {0};
    bool settled = true;
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < count; i++) {
        struct stat st;
        struct stat_data d = {0};
        if (stat(files[i].path, &st) == 0)
            d = stat_data_of(&st);
        settled &= d.mtime_sec + 1 < now.tv_sec && d.ctime_sec + 1 < now.tv_sec;
        buf_append(&text, files[i].path, strlen(files[i].path) + 1);
        buf_append(&text, &d, sizeof d);
    }
    buf_puts(&text, ignore ? ignore : "");
    const char *home = getenv("HOME"); /* for "~/" */
    buf_putc(&text, 0);
    buf_puts(&text, home ? home : "");
    tree_hash(TREE_OBJECT_BLOB, text.data, text.len, ret);
    buf_free(&text);
    free(ignore);
    free_files(files, count);
    return settled;
}

/* Expands "~/x", "~user/x" and paths relative to the work tree, as git does in its configuration. */
static char *expand(const char *value, const char *work_tree)
{
    if (!*value || *value == '/')
        return xstrdup(value);
    if (*value != '~')
        return xasprintf("%s/%s", work_tree, value);
    size_t n = strcspn(value + 1, "/");
    const char *home = getenv("HOME");
    if (n) {
        CLEANUP(cleanup_free) char *user = xstrndup(value + 1, n);
        const struct passwd *pw = getpwnam(user);
        home = pw ? pw->pw_dir : NULL;
    }
    return home ? xasprintf("%s%s", home, value + 1 + n) : xstrdup("");
}

/* Whether there are includes. The stat data of included files is not kept, so the configuration is then read every
 * time. */
static bool has_includes(const git_config *config)
{
    git_config_iterator *it = NULL;
    git_config_entry *entry;
    bool found = git_config_iterator_new(&it, config) != 0;
    while (!found && git_config_next(&entry, it) == 0)
        found = str_starts(entry->name, "include.") || str_starts(entry->name, "includeif.");
    git_config_iterator_free(it);
    return found;
}

static void take_values(git_config *config, const char *work_tree, struct scan_config *ret)
{
    int fold = 0;
    git_buf value = GIT_BUF_INIT;
    if (git_config_get_bool(&fold, config, "core.ignorecase") == 0)
        ret->fold = fold != 0;
    if (git_config_get_string_buf(&value, config, "core.excludesfile") == 0)
        ret->excludes = expand(value.ptr, work_tree);
    else if (!(ret->excludes = xdg_path("ignore")))
        ret->excludes = xstrdup("");
    git_buf_dispose(&value);
    ret->keep = !has_includes(config);
}

static int config_error(struct error *err, const char *path)
{
    const git_error *e = git_error_last();
    return error_set(err, ERROR_SPEC, "could not read git's configuration \"%s\": %s", path,
                     e && e->message ? e->message : "unknown error");
}

int scan_config_read(const char *work_tree, const char *git_dir, const char *common_dir, struct scan_config *ret,
                     struct error *err)
{
    struct config_file files[FILES_MAX + 1];
    size_t count = config_files(git_dir, common_dir, files);
    git_config *config = NULL;
    git_repository *repo =
        NULL; /* conditional includes need it; without it (another user's, or a new format) they do not count */
    int rc = git_files_check(git_dir, common_dir, err);
    if (rc < 0) {
        free_files(files, count);
        return -1;
    }
    git_libgit2_init();
    if (git_repository_open(&repo, work_tree))
        repo = NULL;
    if (git_config_new(&config))
        rc = config_error(err, work_tree);
    for (size_t i = 0; i < count && rc == 0; i++) {
        int flag = 0;
        if (files[i].level == GIT_CONFIG_LEVEL_APP &&
            (git_config_get_bool(&flag, config, "extensions.worktreeconfig") || !flag))
            continue;
        if (access(files[i].path, R_OK) == 0 &&
            git_config_add_file_ondisk(config, files[i].path, files[i].level, repo, 0))
            rc = config_error(err, files[i].path);
    }
    if (rc == 0)
        take_values(config, work_tree, ret);
    git_config_free(config);
    git_repository_free(repo);
    git_libgit2_shutdown();
    free_files(files, count);
    return rc;
}
