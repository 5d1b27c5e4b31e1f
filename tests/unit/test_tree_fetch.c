/* Commits of other repositories, made by git itself: the meaning of a ref, the fetched files, and refusals. */
#include "../../src/tree/remote.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "script.h"

static char dir[] = "/tmp/rhrun-fetch-XXXXXX";
static char *url; /* of the repository "remote" in dir; NULL: git is not here */
static bool over_ssh;

/* The output of a command in dir: one word. */
static void word(char *ret, size_t size, const char *command)
{
    CLEANUP(cleanup_free) char *all = xasprintf("cd %s; %s", dir, command);
    FILE *f = popen(all, "r");
    assert_non_null(f);
    assert_non_null(fgets(ret, (int)size, f));
    pclose(f);
    ret[strcspn(ret, "\n")] = 0;
}

static int setup(void **state)
{
    *state = NULL;
    if (!mkdtemp(dir))
        return -1;
    if (system("git --version >/dev/null 2>&1") != 0) {
        print_message("git is not here: nothing is fetched\n");
        return 0;
    }
    url = xasprintf("%s/remote", dir);
    static const char *const settings[][2] = {
        {"HOME", dir},
        {"XDG_CONFIG_HOME", dir},
        {"GIT_AUTHOR_NAME", "a"},
        {"GIT_AUTHOR_EMAIL", "a@b"},
        {"GIT_COMMITTER_NAME", "a"},
        {"GIT_COMMITTER_EMAIL", "a@b"},
        {"GIT_CONFIG_NOSYSTEM", "1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        (void)setenv(settings[i][0], settings[i][1], 1);
    (void)unsetenv("GIT_DIR");
    (void)unsetenv("GIT_SSH_COMMAND");
    script("%s",
           "git init -q remote; cd remote; git symbolic-ref HEAD refs/heads/main; git config gc.auto 0\n"
           "echo one >a; mkdir -p d/e; echo two >d/e/b; printf '' >empty; ln -s a link; echo x >run; chmod +x run\n"
           "git add .; git commit -qm 1; git tag -a -m t v1.0; git tag light; git branch old\n"
           "echo three >a; git commit -qam 2; git branch feature/long-name; git branch both; git tag both HEAD~\n"
           "git tag blob HEAD:a; git update-ref refs/pull/7/head HEAD~");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(url);
    CLEANUP(cleanup_free) char *command = xasprintf("chmod -R u+w %s && rm -rf %s", dir, dir);
    return system(command);
}

/* ---- how it is fetched: as a folder, or through a stand-in for the program `ssh` ---- */

static void stand_in(const char *body)
{
    script("cat >ssh <<'END'\n#!/bin/sh\nprintf '%%s\\n' \"$@\" >%s/args\nfor last; do :; done\n%s\nEND\nchmod +x ssh",
           dir, body);
    CLEANUP(cleanup_free) char *command = xasprintf("%s/ssh", dir);
    (void)setenv("GIT_SSH_COMMAND", command, 1);
}

static char *url_of(const char *name)
{
    return xasprintf("%s%s/%s", over_ssh ? "host.lab:" : "", dir, name);
}

static int use(bool ssh)
{
    if (url) {
        over_ssh = ssh;
        free(url);
        url = url_of("remote");
        if (ssh)
            stand_in("exec sh -c \"$last\"");
        else
            (void)unsetenv("GIT_SSH_COMMAND");
    }
    return 0;
}

static int use_folder(void **state)
{
    (void)state;
    return use(false);
}

static int use_ssh(void **state)
{
    (void)state;
    return use(true);
}

struct fetched {
    struct arena *arena;
    struct tree_store *s;
    struct tree *tree;
    char commit[TREE_ID_LEN + 1];
    const char *notes;
    struct error err;
    int rc;
};

static struct fetched fetch(const char *store, const char *from, const char *ref, bool offline)
{
    struct fetched f = {.arena = arena_create(), .err = ERROR_INIT};
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s%s", dir, over_ssh ? "ssh-" : "", store);
    assert_int_equal(tree_store_open(path, &f.s, &f.err), 0);
    f.rc = tree_fetch(f.s, from, ref, offline, f.arena, &f.tree, f.commit, &f.notes, &f.err);
    return f;
}

static void done(struct fetched *f)
{
    tree_store_close(f->s);
    arena_destroy(f->arena);
}

/* ref resolves as git resolves `what`. */
static void expect(const char *store, const char *ref, const char *what, bool offline)
{
    struct fetched f = fetch(store, url, ref, offline);
    char commit[64], tree[64];
    CLEANUP(cleanup_free) char *one = xasprintf("git -C remote rev-parse '%s^{commit}'", what);
    CLEANUP(cleanup_free) char *two = xasprintf("git -C remote rev-parse '%s^{tree}'", what);
    word(commit, sizeof commit, one);
    word(tree, sizeof tree, two);
    if (f.rc < 0)
        fail_msg("%s: %s", ref ? ref : "HEAD", f.err.text);
    assert_string_equal(f.commit, commit);
    assert_string_equal(f.tree->id, tree);
    done(&f);
}

static void refused(const char *from, const char *ref, bool offline, enum error_code code, const char *text,
                    const char *hint)
{
    struct fetched f = fetch("refused", from, ref, offline);
    assert_int_equal(f.rc, -1);
    if (f.err.code != code || !strstr(f.err.text, text) || !strstr(f.err.hint, hint))
        fail_msg("%s: error %d: %s\n%s", ref ? ref : from, f.err.code, f.err.text, f.err.hint);
    done(&f);
}

static void test_refs(void **state)
{
    (void)state;
    if (!url)
        skip();
    char full[64], abbreviated[64];
    word(full, sizeof full, "git -C remote rev-parse HEAD~");
    word(abbreviated, sizeof abbreviated, "git -C remote rev-parse --short=9 HEAD~");
    const char *const cases[][2] = {
        {NULL, "HEAD"},
        {"main", "main"},
        {"feature/long-name", "feature/long-name"},
        {"v1.0", "v1.0"},
        {"light", "light"},
        {"refs/heads/old", "old"},
        {"refs/tags/v1.0", "v1.0"},
        {"tags/light", "light"},
        {"refs/pull/7/head", "refs/pull/7/head"},
        {"both", "refs/heads/both"},
        {"refs/tags/both", "refs/tags/both"},
        {full, full},
        {abbreviated, full},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(cleanup_free) char *own = xasprintf("refs-%zu", i);
        expect(own, cases[i][0], cases[i][1], false); /* each into a store that has nothing */
        expect("refs", cases[i][0], cases[i][1], false);
        expect("refs", cases[i][0], cases[i][1], !str_eq(cases[i][0], abbreviated));
    }
    struct fetched f = fetch("refs", url, "both", false);
    assert_non_null(strstr(f.notes, "is a branch and a tag"));
    done(&f);
}

static void test_files(void **state)
{
    (void)state;
    if (!url)
        skip();
    static const struct {
        const char *path, *content;
        uint32_t mode;
    } want[] = {{"a", "one\n", TREE_MODE_FILE},
                {"d/e/b", "two\n", TREE_MODE_FILE},
                {"empty", "", TREE_MODE_FILE},
                {"link", "a", TREE_MODE_LINK},
                {"run", "x\n", TREE_MODE_EXEC}};
    CLEANUP(cleanup_free) char *file_url = over_ssh ? xstrdup(url) : xasprintf("file://%s", url);
    struct fetched f = fetch("files", file_url, "v1.0", false);
    assert_int_equal(f.rc, 0);
    assert_string_equal(f.notes, "");
    assert_int_equal(f.tree->count, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        const struct tree_file *file = &f.tree->files[i];
        struct tree_reader r;
        assert_string_equal(file->path, want[i].path);
        assert_int_equal(file->mode, want[i].mode);
        assert_int_equal(tree_open(f.s, file, &r, &f.err), 0);
        assert_int_equal(r.size, strlen(want[i].content));
        assert_memory_equal(r.data, want[i].content, r.size);
        tree_done(&r);
    }
    done(&f);
}

static void test_no_such_ref(void **state)
{
    (void)state;
    if (!url)
        skip();
    script("%s", "rm -rf nothing; git init -q nothing");
    CLEANUP(cleanup_free) char *nothing = url_of("nothing"), *absent = url_of("absent");
    refused(url, "feature/long-nme", false, ERROR_SPEC, "has no branch, tag or commit \"feature/long-nme\"",
            "did you mean feature/long-name?");
    refused(url, "v1.1", false, ERROR_SPEC, "\"v1.1\"", "did you mean v1.0?");
    refused(url, "refs/heads/mainn", false, ERROR_SPEC, "refs/heads/mainn", "did you mean refs/heads/main?");
    refused(url, "qqqqqqqq", false, ERROR_SPEC, "has no branch, tag or commit \"qqqqqqqq\"", "");
    refused(url, "0123456", false, ERROR_SPEC, "\"0123456\"", "");
    refused(url, "0123456789012345678901234567890123456789", false, ERROR_SPEC, "\"0123456789", "");
    refused(url, "blob", false, ERROR_SPEC, "\"blob\" of ", "");
    refused(nothing, NULL, false, ERROR_SPEC, "has no HEAD", "");
    refused(absent, NULL, false, ERROR_INFRA, over_ssh ? "not appear to be a git repository" : "no git repository", "");
    refused(url, "main", true, ERROR_INFRA, "was never fetched", "--offline");
}

static void test_urls_that_are_refused(void **state)
{
    (void)state;
    if (!url)
        skip();
    refused("https://me:secret@localhost:1/x", NULL, false, ERROR_SPEC, "credentials", "git credential");
    refused("https://token@localhost:1/x", NULL, false, ERROR_SPEC, "credentials", "git credential");
    refused("ssh://me:secret@localhost:1/x", NULL, false, ERROR_SPEC, "credentials", "ssh-agent");
    struct fetched f = fetch("refused", "https://me:secret@localhost:1/x", NULL, false);
    assert_null(strstr(f.err.text, "secret"));
    done(&f);
    refused("", NULL, false, ERROR_SPEC, "not a git URL", "");
    refused("--upload-pack=x", NULL, false, ERROR_SPEC, "not a git URL", "");
    refused("ssh://-oProxyCommand=touch/x", NULL, false, ERROR_INFRA, "begin with", "");
    refused("h:-x", NULL, false, ERROR_INFRA, "begin with", "");
    refused("https://localhost:1/x", NULL, false, ERROR_INFRA, "could not reach", "");
}

/* A moved ref is fetched; a known commit stays known without the remote. */
static void test_again_and_offline(void **state)
{
    (void)state;
    if (!url)
        skip();
    script("%s", "rm -rf moving; git clone -q remote moving; cd moving; git checkout -q -B work");
    CLEANUP(cleanup_free) char *moving = url_of("moving");
    struct fetched first = fetch("again", moving, "work", false);
    assert_int_equal(first.rc, 0);
    script("%s", "cd moving; echo new >new; git add new; git commit -qm new");
    struct fetched still = fetch("again", moving, "work", true), then = fetch("again", moving, "work", false);
    assert_int_equal(still.rc, 0);
    assert_int_equal(then.rc, 0);
    assert_string_equal(still.commit, first.commit);
    assert_string_not_equal(then.commit, first.commit);
    assert_non_null(tree_find(then.tree, "new"));
    script("%s", "rm -rf moving");
    struct fetched id = fetch("again", moving, first.commit, false), after = fetch("again", moving, "work", true),
                   gone = fetch("again", moving, "work", false);
    assert_int_equal(id.rc, 0); /* a full id that is here needs no remote */
    assert_string_equal(id.tree->id, first.tree->id);
    assert_int_equal(after.rc, 0);
    assert_string_equal(after.commit, then.commit);
    assert_int_equal(gone.rc, -1);
    assert_int_equal(gone.err.code, ERROR_INFRA);
    struct fetched *all[] = {&first, &still, &then, &id, &after, &gone};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        done(all[i]);
}

static void test_submodules_and_lfs_are_noted(void **state)
{
    (void)state;
    if (!url)
        skip();
    script("%s", "rm -rf super; git init -q super; cd super; git symbolic-ref HEAD refs/heads/main; echo f >f\n"
                 "echo '*.bin filter=lfs diff=lfs' >.gitattributes; git add .\n"
                 "git update-index --add --cacheinfo 160000,$(git -C ../remote rev-parse HEAD),lib/sub\n"
                 "git commit -qm s; git rm -q --cached lib/sub; git write-tree >../without");
    CLEANUP(cleanup_free) char *from = url_of("super");
    struct fetched f = fetch("super", from, NULL, false);
    struct tree *t;
    char id[64];
    word(id, sizeof id, "cat without");
    assert_int_equal(f.rc, 0);
    assert_non_null(strstr(f.notes, "lib/sub: a submodule, not fetched"));
    assert_non_null(strstr(f.notes, "LFS"));
    assert_int_equal(f.tree->count, 2);
    assert_string_equal(f.tree->id, id); /* of what is there */
    assert_true(tree_load(f.s, id, f.arena, &t));
    done(&f);
}

/* Over TREE_BIG_SIZE, in a pack: once whole, once as a delta of the other. */
static void test_big_files(void **state)
{
    (void)state;
    if (!url)
        skip();
    script("%s",
           "rm -rf large; git init -q large; cd large; git symbolic-ref HEAD refs/heads/main\n"
           "seq 2000000 >big; git add big; git commit -qm 1; echo more >>big; git commit -qam 2; git repack -qadf");
    CLEANUP(cleanup_free) char *from = url_of("large");
    for (size_t i = 0; i < 2; i++) {
        char id[64], sum[80], got[65];
        word(id, sizeof id, i ? "git -C large rev-parse HEAD~" : "git -C large rev-parse HEAD");
        word(sum, sizeof sum, i ? "git -C large show HEAD~:big | sha256sum" : "git -C large show HEAD:big | sha256sum");
        struct fetched f = fetch("large-store", from, i ? id : NULL, false);
        struct tree_reader r;
        struct buf all = {0};
        assert_int_equal(f.rc, 0);
        assert_true(f.tree->files[0].size > TREE_BIG_SIZE);
        if (tree_open(f.s, &f.tree->files[0], &r, &f.err) < 0)
            fail_msg("%s", f.err.text);
        assert_true(!r.data && r.fd >= 0);
        for (;;) {
            buf_reserve(&all, 1 << 20);
            ssize_t n = tree_read(&r, all.len, all.data + all.len, 1 << 20, &f.err);
            assert_true(n >= 0);
            if (n == 0)
                break;
            all.len += (size_t)n;
        }
        digest_sha256_hex(all.data, all.len, got);
        assert_memory_equal(got, sum, 64);
        tree_done(&r);
        buf_free(&all);
        done(&f);
    }
}

/* A malicious remote: objects that git's own tools do not write. */
static void test_paths_that_lead_out(void **state)
{
    (void)state;
    if (!url)
        skip();
    static const char *const names[] = {"..", ".git", ".GIT", "a/b", "."};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        script(
            "rm -rf evil; git init -q evil; cd evil; b=$(echo x | git hash-object -w --stdin)\n"
            "{ printf '100644 %s\\0'; echo $b | sed 's/../\\\\x&/g' | xargs -0 printf '%%b' | head -c 20; } >../raw\n"
            "t=$(git hash-object -w -t tree --literally --stdin <../raw)\n"
            "git update-ref refs/heads/main $(echo m | git commit-tree $t); git symbolic-ref HEAD refs/heads/main",
            names[i]);
        CLEANUP(cleanup_free) char *from = url_of("evil");
        refused(from, "main", false, ERROR_PROTOCOL, "not allowed", "");
    }
}

/* ---- over ssh ---- */

static void test_over_ssh(void **state)
{
    (void)state;
    if (!url)
        skip();
    CLEANUP(cleanup_free) char *long_form = xasprintf("ssh://me@host.lab:2222%s", url);
    CLEANUP(cleanup_free) char *short_form = xasprintf("me@host.lab:%s", url);
    CLEANUP(cleanup_free) char *args = xasprintf("%s/args", dir), *quoted = xasprintf("git-upload-pack '%s'", url);
    const char *const urls[] = {long_form, short_form};
    stand_in("exec sh -c \"$last\"");
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        CLEANUP(cleanup_free) char *store = xasprintf("ssh-%zu", i);
        struct fetched f = fetch(store, urls[i], "v1.0", false);
        struct buf said = {0};
        if (f.rc < 0)
            fail_msg("%s", f.err.text);
        assert_int_equal(f.tree->count, 5);
        assert_int_equal(file_read(args, 4096, &said, NULL), 0);
        assert_non_null(strstr(said.data, "-oStrictHostKeyChecking=yes\n"));
        assert_non_null(strstr(said.data, "-oBatchMode=yes\n"));
        assert_non_null(strstr(said.data, "--\nme@host.lab\n"));
        assert_int_equal(!!strstr(said.data, "-p\n2222\n"), i == 0);
        assert_true(strstr(said.data, url) || strstr(said.data, quoted));
        buf_free(&said);
        done(&f);
    }
    (void)unsetenv("GIT_SSH_COMMAND");
}

static void test_what_ssh_says(void **state)
{
    (void)state;
    if (!url)
        skip();
    stand_in("echo 'No ED25519 host key is known for h and you have requested strict checking.' >&2\n"
             "echo 'Host key verification failed.' >&2; exit 255");
    refused("h:x", NULL, false, ERROR_INFRA, "No ED25519 host key is known", "ssh h");
    stand_in("echo '@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @' >&2\n"
             "echo 'Offending ED25519 key in /k:7' >&2; echo 'Host key verification failed.' >&2; exit 255");
    refused("ssh://u@h:99/x", NULL, false, ERROR_INFRA,
            "has changed (Host key verification failed): Offending ED25519 key in /k:7", "ssh -p 99 u@h");
    stand_in("echo 'u@h: Permission denied (publickey).' >&2; exit 255");
    refused("u@h:x", NULL, false, ERROR_INFRA, "Permission denied (publickey)", "ssh-add");
    stand_in("exit 0");
    refused("u@h:x", NULL, false, ERROR_INFRA, "ssh ended", "");
    (void)setenv("GIT_SSH_COMMAND", "/nonexistent/ssh", 1);
    refused("u@h:x", NULL, false, ERROR_INFRA, "/nonexistent/ssh", "");
    (void)unsetenv("GIT_SSH_COMMAND");
}

/* The URL's text says nothing about why it fails. */
static void test_names_are_no_causes(void **state)
{
    (void)state;
    if (!url)
        skip();
    static const char *const urls[] = {"h:certificate", "h:authentication", "h:Permission denied",
                                       "http://127.0.0.1:1/credentials"};
    CLEANUP(cleanup_free) char *broken = xasprintf("%s/owned", dir);
    stand_in("echo 'ssh: connect to host h port 22: Connection timed out' >&2; exit 255");
    script("git init -q owned && echo '[broken' >>owned/.git/config");
    for (size_t i = 0; i <= ARRAY_LEN(urls); i++) {
        struct fetched f = fetch("names", i < ARRAY_LEN(urls) ? urls[i] : broken, NULL, false);
        assert_int_equal(f.rc, -1);
        assert_int_equal(f.err.why, ERROR_WHY_NONE);
        assert_string_equal(f.err.hint, "");
        done(&f);
    }
    (void)unsetenv("GIT_SSH_COMMAND");
}

/* Nothing comes, and the connection stays open: it is abandoned. */
static void test_a_silent_remote(void **state)
{
    (void)state;
    if (!url)
        skip();
    (void)setenv("RHRUN_TEST_FETCH_STILL_MS", "200", 1);
    stand_in("sleep 600 & wait");
    refused("u@h:x", NULL, false, ERROR_INFRA, "nothing came from it", "");
    (void)unsetenv("GIT_SSH_COMMAND");
    CLEANUP(cleanup_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    CLEANUP(cleanup_free) char *silent = xasprintf("git://127.0.0.1:%u/x", ntohs(address.sin_port));
    /* Here the waiting thread is left behind, for the life of the process. */
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct fetched f = fetch("silent", silent, NULL, false);
        _exit(f.rc == -1 && f.err.code == ERROR_INFRA && strstr(f.err.text, "nothing came from it") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    (void)unsetenv("RHRUN_TEST_FETCH_STILL_MS");
}

static void test_instead_of(void **state)
{
    (void)state;
    if (!url)
        skip();
    script("git config --global url.%s/.insteadOf work:; git config --global url.%s/wrong.insteadOf w", dir, dir);
    struct fetched f = fetch("instead", "work:remote", "v1.0", false);
    if (f.rc < 0)
        fail_msg("%s", f.err.text);
    assert_int_equal(f.tree->count, 5);
    done(&f);
    script("%s", "rm -f .gitconfig");
}

static void test_ssh_urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host, *port, *path;
    } cases[] = {
        {"git@github.com:o/r.git", "git@github.com", NULL, "o/r.git"},
        {"h:/abs", "h", NULL, "/abs"},
        {"[::1]:x", "::1", NULL, "x"},
        {"ssh://h/a/b", "h", NULL, "/a/b"},
        {"ssh://u@h:22/a", "u@h", "22", "/a"},
        {"ssh://u@[fe80::1]:22/a", "u@fe80::1", "22", "/a"},
        {"ssh://h/~me/x", "h", NULL, "~me/x"},
        {"git+ssh://h/x", "h", NULL, "/x"},
        {"https://h/x", NULL, NULL, NULL},
        {"git://h/x", NULL, NULL, NULL},
        {"file:///x", NULL, NULL, NULL},
        {"/a:b", NULL, NULL, NULL},
        {"./a:b", NULL, NULL, NULL},
        {"path", NULL, NULL, NULL},
        {"ext::sh", NULL, NULL, NULL},
        {"ssh://h", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct remote_ssh ssh;
        if (remote_ssh_parse(cases[i].url, &ssh) != (cases[i].host != NULL))
            fail_msg("%s", cases[i].url);
        if (!cases[i].host)
            continue;
        assert_string_equal(ssh.host, cases[i].host);
        assert_string_equal(ssh.path, cases[i].path);
        assert_true(str_eq(ssh.port, cases[i].port));
        remote_ssh_free(&ssh);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ssh_urls),
        cmocka_unit_test_setup(test_refs, use_folder),
        cmocka_unit_test_setup(test_files, use_folder),
        cmocka_unit_test_setup(test_no_such_ref, use_folder),
        cmocka_unit_test_setup(test_again_and_offline, use_folder),
        cmocka_unit_test_setup(test_submodules_and_lfs_are_noted, use_folder),
        cmocka_unit_test_setup(test_big_files, use_folder),
        cmocka_unit_test_setup(test_paths_that_lead_out, use_folder),
        cmocka_unit_test_setup(test_refs, use_ssh),
        cmocka_unit_test_setup(test_files, use_ssh),
        cmocka_unit_test_setup(test_no_such_ref, use_ssh),
        cmocka_unit_test_setup(test_again_and_offline, use_ssh),
        cmocka_unit_test_setup(test_submodules_and_lfs_are_noted, use_ssh),
        cmocka_unit_test_setup(test_big_files, use_ssh),
        cmocka_unit_test_setup(test_paths_that_lead_out, use_ssh),
        cmocka_unit_test_setup(test_urls_that_are_refused, use_folder),
        cmocka_unit_test_setup(test_over_ssh, use_folder),
        cmocka_unit_test_setup(test_what_ssh_says, use_folder),
        cmocka_unit_test_setup(test_names_are_no_causes, use_folder),
        cmocka_unit_test_setup(test_a_silent_remote, use_folder),
        cmocka_unit_test_setup(test_instead_of, use_folder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
