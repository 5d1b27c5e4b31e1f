/* The entries of a repository's index. libgit2 reads ordinary ones; only git itself can read a split or sparse
 * index. */
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The caller's environment, without variables that point git to another repository, and with variables that keep git
 * from fetching, because a remote of the repository may be a command. */
static char **git_environment(void)
{
    static const char *const drop[] = {
        "GIT_DIR=", "GIT_WORK_TREE=", "GIT_INDEX_FILE=", "GIT_COMMON_DIR=", "GIT_ALLOW_PROTOCOL=", "GIT_TRACE"};
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    char **env = xcalloc(count + 3, sizeof(char *));
    env[kept++] = (char *)(uintptr_t) "GIT_ALLOW_PROTOCOL=none";
    env[kept++] = (char *)(uintptr_t) "GIT_NO_LAZY_FETCH=1";
    for (size_t i = 0; i < count; i++) {
        bool keep = true;
        for (size_t d = 0; d < ARRAY_LEN(drop); d++)
            keep &= !str_starts(environ[i], drop[d]);
        if (keep)
            env[kept++] = environ[i];
    }
    return env;
}

/* The complete output of `git ls-files --stage -z`. False: no git, or it failed. Whatever the repository's
 * configuration says, git starts no other program. */
static bool ask_git(const char *work_tree, struct buf *out)
{
    const char *argv[] = {
        "git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", work_tree, "ls-files", "--stage",
        "-z",  NULL};
    int fds[2], status = -1;
    pid_t pid;
    if (pipe2(fds, O_CLOEXEC))
        return false;
    CLEANUP(cleanup_free) char **env = git_environment();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawnp(&pid, "git", &actions, NULL, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    ssize_t n = 0;
    do {
        if (n > 0)
            out->len += (size_t)n;
        buf_reserve(out, 65536);
    } while (rc == 0 && out->len < SCAN_TABLE_MAX &&
             ((n = read(fds[0], out->data + out->len, 65535)) > 0 || (n < 0 && errno == EINTR)));
    close(fds[0]);
    if (rc == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    return rc == 0 && n == 0 && status == 0;
}

static int read_by_git(const struct repo *r, const char *path, const char *why, scan_index_fn *each, void *arg,
                       struct error *err)
{
    struct buf out = {0};
    bool ok = ask_git(r->work_tree, &out);
    /* "MODE OID STAGE\tPATH", each followed by a NUL */
    for (size_t at = 0; ok && at < out.len;) {
        const char *line = out.data + at, *tab = strchr(line, '\t');
        if (tab)
            each(arg, tab + 1, str_starts(line, "160000 "));
        at += strlen(line) + 1;
    }
    buf_free(&out);
    return ok ? 0
              : error_set(err, ERROR_SPEC, "could not read the index \"%s\": %s, and git could not either", path, why);
}

int scan_index_read(const struct repo *r, scan_index_fn *each, void *arg, struct error *err)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/index", r->git_dir);
    git_index *index = NULL;
    if (git_files_check(r->git_dir, r->common_dir, err) < 0)
        return -1;
    git_libgit2_init();
    int rc = git_index_open(&index, path);
    if (rc == 0) {
        for (size_t i = 0; i < git_index_entrycount(index); i++) {
            const git_index_entry *e = git_index_get_byindex(index, i);
            each(arg, e->path, e->mode == GIT_FILEMODE_COMMIT);
        }
    } else {
        const git_error *e = git_error_last();
        CLEANUP(cleanup_free) char *why = xstrdup(e && e->message ? e->message : "unknown error");
        rc = read_by_git(r, path, why, each, arg, err);
    }
    git_index_free(index);
    git_libgit2_shutdown();
    return rc;
}
