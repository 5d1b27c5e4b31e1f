/* Checks, before libgit2 or git reads a repository that anybody may have made, that everything they open is a file. A
 * FIFO would block, and opening a device may have an effect. */
#include "internal.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { CONFIG_MAX = 1 << 20, INCLUDES_DEPTH = 10, FOLDERS_DEPTH = 32 };

/* A missing file is fine. */
static int check_file(const char *path, struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || str_eq(path, "/dev/null"))
        return 0;
    return error_set(err, ERROR_SPEC, "cannot read the git repository: \"%s\" is not a file", path);
}

/* ---- files that a configuration includes ---- */

static int check_config(const char *path, int depth, struct error *err);

/* The value after "path =", unquoted, as a path. NULL: there is none. */
static char *included(const char *text, const char *config)
{
    struct buf value = {0};
    text += strspn(text, " \t");
    if (*text++ != '=')
        return NULL;
    text += strspn(text, " \t");
    for (bool quoted = false; *text && *text != '\n' && (quoted || !strchr("#;", *text)); text++) {
        if (*text == '"') {
            quoted = !quoted;
            continue;
        }
        if (*text == '\\' && text[1])
            text++;
        buf_putc(&value, *text);
    }
    while (value.len && isspace((unsigned char)value.data[value.len - 1]))
        value.data[--value.len] = 0;
    const char *home = getenv("HOME"), *slash = strrchr(config, '/');
    char *path = !value.len           ? NULL
                 : *value.data == '/' ? xstrdup(value.data)
                 : str_starts(value.data, "~/") && home
                     ? xasprintf("%s/%s", home, value.data + 2)
                     : xasprintf("%.*s/%s", (int)(slash - config), config, value.data);
    buf_free(&value);
    return path;
}

static int check_includes(const char *text, const char *config, int depth, struct error *err)
{
    bool in_include = false;
    int rc = 0;
    while (*text && rc == 0) {
        text += strspn(text, " \t\r\n");
        if (*text == '[') {
            in_include = strncasecmp(text + 1, "include", strlen("include")) == 0;
            text += strcspn(text, "]\n");
            text += *text == ']';
            continue;
        }
        if (in_include && strncasecmp(text, "path", strlen("path")) == 0) {
            CLEANUP(cleanup_free) char *path = included(text + strlen("path"), config);
            rc = path ? check_config(path, depth + 1, err) : 0;
        }
        text += strcspn(text, "\n");
    }
    return rc;
}

static int check_config(const char *path, int depth, struct error *err)
{
    struct buf text = {0};
    if (check_file(path, err) < 0)
        return -1;
    if (depth > INCLUDES_DEPTH || file_read(path, CONFIG_MAX, &text, NULL) < 0)
        return 0; /* libgit2 says what is wrong */
    int rc = check_includes(text.data ? text.data : "", path, depth, err);
    buf_free(&text);
    return rc;
}

int git_files_check(const char *git_dir, const char *common_dir, struct error *err)
{
    static const char *const names[] = {"HEAD", "commondir", "gitdir", "index", "packed-refs", "shallow"};
    const char *const dirs[] = {git_dir, common_dir};
    for (size_t d = 0; d < ARRAY_LEN(dirs); d++) {
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", dirs[d], names[i]);
            if (check_file(path, err) < 0)
                return -1;
        }
        CLEANUP(cleanup_free) char *config = xasprintf("%s/config", dirs[d]);
        CLEANUP(cleanup_free) char *own = xasprintf("%s/config.worktree", dirs[d]);
        if (check_config(config, 0, err) < 0 || check_config(own, 0, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- all files of a repository ---- */

static int check_folder(const char *path, int depth, struct error *err)
{
    DIR *dir = depth < FOLDERS_DEPTH ? opendir(path) : NULL;
    int rc = 0;
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        if (e->d_type == DT_REG || str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
            continue;
        CLEANUP(cleanup_free) char *inner = xasprintf("%s/%s", path, e->d_name);
        struct stat st;
        bool folder = e->d_type == DT_DIR || (e->d_type == DT_UNKNOWN && lstat(inner, &st) == 0 && S_ISDIR(st.st_mode));
        rc = folder ? check_folder(inner, depth + 1, err) : check_file(inner, err);
    }
    if (dir)
        closedir(dir);
    return rc;
}

int git_folder_check(const char *path, struct error *err)
{
    struct stat st;
    CLEANUP(cleanup_free) char *inner = xasprintf("%s/.git", path);
    const char *dir = stat(inner, &st) == 0 ? inner : path;
    if (stat(dir, &st) == 0 && S_ISREG(st.st_mode))
        return 0; /* "gitdir: PATH": a work tree of a repository elsewhere */
    return git_files_check(dir, dir, err) < 0 || check_folder(dir, 0, err) < 0 ? -1 : 0;
}
