/*
 * Where a spec comes from: the git remote and the path in the repository, or else the file's path. So two files
 * `job.yaml` in different repositories never share state, and those in two clones of one repository do. .git/config is
 * read without git (git-config(1), gitrepository-layout(5)); credentials in the URL are dropped.
 */
#include "internal.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_MAX_BYTES = 1 << 20, LINK_MAX_BYTES = 8192 };

/* A small text file's first line without the blanks at its end, or NULL. */
static char *first_line(const char *path, struct arena *arena)
{
    struct buf text = {0};
    char *line = NULL;
    if (file_read(path, LINK_MAX_BYTES, &text, NULL) == 0 && text.len > 0) {
        line = arena_strndup(arena, text.data, strcspn(text.data, "\r\n"));
        for (size_t n = strlen(line); n > 0 && isspace((unsigned char)line[n - 1]); n--)
            line[n - 1] = 0;
    }
    buf_free(&text);
    return line;
}

static const char *below(struct arena *arena, const char *dir, const char *path)
{
    return *path == '/' ? path : arena_printf(arena, "%s/%s", dir, path);
}

/* The folder that holds `config` for the worktree at top, or NULL when there is no repository. */
static const char *git_dir(const char *top, struct arena *arena)
{
    const char *git = arena_printf(arena, "%s/.git", top);
    struct stat st;
    if (stat(git, &st) != 0)
        return NULL;
    if (S_ISREG(st.st_mode)) { /* a worktree or a submodule: "gitdir: PATH" */
        const char *line = first_line(git, arena);
        if (!line || !str_starts(line, "gitdir:"))
            return NULL;
        line += 7;
        git = below(arena, top, line + strspn(line, " \t"));
        const char *common = first_line(arena_printf(arena, "%s/commondir", git), arena);
        if (common)
            git = below(arena, git, common);
    }
    return stat(arena_printf(arena, "%s/config", git), &st) == 0 ? git : NULL;
}

/* ---- config ---- */

/* A value in the syntax of git-config(1): quotes, backslashes, comments at the end. */
static char *config_value(const char *p, struct arena *arena)
{
    struct buf b = {0};
    bool quoted = false;
    size_t keep = 0;
    for (; *p && *p != '\n'; p++) {
        if (*p == '"') {
            quoted = !quoted;
            continue;
        }
        if (!quoted && (*p == '#' || *p == ';'))
            break;
        if (*p == '\\' && p[1] && p[1] != '\n')
            p++;
        buf_putc(&b, *p);
        if (quoted || !isspace((unsigned char)*p))
            keep = b.len;
    }
    char *value = arena_strndup(arena, b.len > 0 ? b.data : "", keep);
    buf_free(&b);
    return value;
}

/* The URL of remote "origin", else of the first remote, else NULL. */
static char *remote_url(const char *config, struct arena *arena)
{
    char *first = NULL;
    bool in_remote = false, in_origin = false;
    for (const char *p = config; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        p += strspn(p, " \t\r");
        if (*p == '[') {
            in_remote = strncasecmp(p, "[remote \"", 9) == 0;
            in_origin = in_remote && strncmp(p + 9, "origin\"]", 8) == 0;
            continue;
        }
        size_t n = strcspn(p, " \t=\n");
        if (!in_remote || n != 3 || strncasecmp(p, "url", 3) != 0)
            continue;
        const char *value = p + n + strspn(p + n, " \t");
        if (*value != '=')
            continue;
        value++;
        char *url = config_value(value + strspn(value, " \t"), arena);
        if (in_origin)
            return url;
        if (!first)
            first = url;
    }
    return first;
}

/* "https://user:token@host/x" without "user:token@"; with ssh:// the user stays, because it is part of the address. */
static const char *without_credentials(const char *url, struct arena *arena)
{
    const char *scheme = strstr(url, "://");
    if (!scheme)
        return url;
    const char *host = scheme + 3, *end = host + strcspn(host, "/"), *at = NULL;
    for (const char *p = host; p < end; p++)
        if (*p == '@')
            at = p;
    if (!at)
        return url;
    size_t keep = 0;
    if (strncmp(url, "ssh://", 6) == 0 || strncmp(url, "git+ssh://", 10) == 0)
        keep = strcspn(host, ":@");
    return arena_printf(arena, "%.*s%.*s%s", (int)(host - url), url, (int)keep, host, keep > 0 ? at : at + 1);
}

const char *spec_repository_origin(const char *root, bool bare, struct arena *arena)
{
    const char *git = bare ? root : git_dir(root, arena);
    struct buf config = {0};
    char *url = NULL;
    if (git && file_read(arena_printf(arena, "%s/config", git), CONFIG_MAX_BYTES, &config, NULL) == 0 && config.len > 0)
        url = remote_url(config.data, arena);
    buf_free(&config);
    if (url && *url)
        return spec_url_origin(url, arena);
    return arena_printf(arena, bare ? "%s#" : "%s/", root);
}

const char *spec_url_origin(const char *url, struct arena *arena)
{
    return arena_printf(arena, "%s#", without_credentials(url, arena));
}

const char *spec_folder_origin(const char *real_dir, struct arena *arena)
{
    const char *inside = origin_find(arena_printf(arena, "%s/x", real_dir), arena);
    return arena_strndup(arena, inside, strlen(inside) - 1);
}

/* For the files of a commit in TOP/tree: the marker beside the folder names their repository. */
static const char *in_checkout(const char *top, const char *below, struct arena *arena)
{
    const char *origin =
        str_starts(below, "tree/") ? first_line(arena_printf(arena, "%s/" SPEC_CHECKOUT_MARKER, top), arena) : NULL;
    return origin && *origin ? arena_printf(arena, "%s%s", origin, below + strlen("tree/")) : NULL;
}

const char *origin_find(const char *real_path, struct arena *arena)
{
    char *top = arena_strdup(arena, real_path);
    for (char *slash; (slash = strrchr(top, '/'));) {
        *slash = 0;
        const char *git = git_dir(*top ? top : "/", arena), *below = real_path + strlen(top) + 1;
        const char *of_commit = git ? NULL : in_checkout(top, below, arena);
        if (of_commit)
            return of_commit;
        if (!git)
            continue;
        struct buf config = {0};
        char *url = NULL;
        if (file_read(arena_printf(arena, "%s/config", git), CONFIG_MAX_BYTES, &config, NULL) == 0 && config.len > 0)
            url = remote_url(config.data, arena);
        buf_free(&config);
        if (!url || !*url)
            return arena_strdup(arena, real_path);
        return arena_printf(arena, "%s#%s", without_credentials(url, arena), below);
    }
    return arena_strdup(arena, real_path);
}
