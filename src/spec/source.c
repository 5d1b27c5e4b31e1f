/*
 * Sources of files: `workdir`, items of `files`, and `copy` items of set-up. A path on this machine must exist; a
 * repository is only named here, and its commit is found later.
 */
#include "internal.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NEAR_ENTRIES_MAX = 4096 };

/* ---- paths ---- */

bool path_leaves(const char *path)
{
    long depth = 0;
    if (*path == '/' || *path == '~')
        return false;
    for (size_t n; *path; path += n, path += strspn(path, "/")) {
        n = strcspn(path, "/");
        if (n == 2 && path[0] == '.' && path[1] == '.')
            depth--;
        else if (n > 1 || *path != '.')
            depth++;
        if (depth < 0)
            return true;
    }
    return false;
}

bool check_node_path(struct load *l, const struct spec_text *text, const char *key)
{
    if (!text->text)
        return false;
    if (*text->text == '~' && text->text[1] != '/') {
        diagnostic_expected(fault(l, text->place, "\"%s\" cannot be \"%s\"", key, text->text),
                            "a path relative to the working directory, an absolute one, or ~/ and a path");
        return false;
    }
    if (!path_leaves(text->text))
        return true;
    diagnostic_hint(fault(l, text->place, "\"%s\" leads out of the working directory", text->text),
                    "a place elsewhere on the node is an absolute path, or begins with ~/");
    return false;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *near_path(struct load *l, const char *path, bool folder)
{
    const char *names[NEAR_ENTRIES_MAX + 1] = {NULL};
    char *copy = arena_strdup(l->arena, path);
    size_t len = strlen(copy), n = 0;
    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = 0;
    char *slash = strrchr(copy, '/');
    if (!slash)
        return NULL;
    *slash = 0;
    const char *dir = *copy ? copy : "/";
    DIR *d = opendir(dir);
    for (struct dirent *e; d && n < NEAR_ENTRIES_MAX && (e = readdir(d));) {
        if (e->d_name[0] == '.' && (!e->d_name[1] || (e->d_name[1] == '.' && !e->d_name[2])))
            continue;
        if (!folder || is_folder(arena_printf(l->arena, "%s/%s", dir, e->d_name)))
            names[n++] = arena_strdup(l->arena, e->d_name);
    }
    if (d)
        closedir(d);
    return str_nearest(slash + 1, names);
}

/* Hints at the written path with its last part replaced by a name that is near. */
static void hint_near(struct load *l, struct diagnostic *d, const char *written, const char *full, bool folder)
{
    const char *near = near_path(l, full, folder);
    size_t end = strlen(written);
    while (end > 0 && written[end - 1] == '/')
        end--;
    while (end > 0 && written[end - 1] != '/')
        end--;
    if (near)
        diagnostic_hint(d, "did you mean %.*s%s?", (int)end, written, near);
}

/* The path with the links of its folders resolved, but the last name unchanged, because it may become the name on the
 * node. */
static const char *resolved(struct load *l, const char *path)
{
    char real[PATH_MAX];
    if (is_folder(path))
        return realpath(path, real) ? arena_strdup(l->arena, real) : path;
    const char *slash = strrchr(path, '/');
    const char *dir = slash > path ? arena_strndup(l->arena, path, (size_t)(slash - path)) : "/";
    if (!realpath(dir, real))
        return path;
    return arena_printf(l->arena, "%s/%s", strcmp(real, "/") == 0 ? "" : real, slash + 1);
}

static bool find_path(struct load *l, const struct spec_text *text, bool folder, struct spec_source *ret)
{
    struct stat st;
    const char *full = path_here(l, l->spec->dir, text->text);
    if (l->spec->lock) { /* the files are in the snapshot store */
        ret->path = path_clean(arena_strdup(l->arena, full));
        return true;
    }
    if (stat(full, &st) != 0) {
        struct diagnostic *d =
            fault(l, text->place, "there is no %s \"%s\" here", folder ? "folder" : "file or folder", text->text);
        hint_near(l, d, text->text, full, folder);
        return false;
    }
    if (folder && !S_ISDIR(st.st_mode)) {
        diagnostic_expected(fault(l, text->place, "\"%s\" is not a folder", text->text), "a folder");
        return false;
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
        diagnostic_expected(fault(l, text->place, "\"%s\" is neither a file nor a folder", text->text),
                            "a file or a folder");
        return false;
    }
    ret->path = resolved(l, full);
    return true;
}

/* ---- repositories ---- */

const char *repository_name(struct load *l, const char *url)
{
    size_t end = strcspn(url, "?#");
    while (end > 0 && url[end - 1] == '/')
        end--;
    size_t at = end;
    while (at > 0 && url[at - 1] != '/' && url[at - 1] != ':')
        at--;
    char *name = arena_strndup(l->arena, url + at, end - at);
    if (str_ends(name, ".git"))
        name[strlen(name) - 4] = 0;
    return *name ? name : "repository";
}

/* Whether there is more between "://" and the host than the login name that ssh needs. */
static bool has_credentials(const char *url, const char *scheme_end)
{
    const char *host = scheme_end + 3, *scheme = scheme_end, *at = NULL, *colon = NULL;
    while (scheme > url && (isalnum((unsigned char)scheme[-1]) || strchr("+.-", scheme[-1])))
        scheme--;
    for (const char *p = host; *p && !strchr("/?# \t\n", *p); p++) {
        if (*p == ':' && !colon)
            colon = p;
        if (*p == '@')
            at = p;
    }
    if (!at)
        return false;
    bool ssh = scheme_end - scheme >= 3 && strncmp(scheme_end - 3, "ssh", 3) == 0;
    bool git = at - host == 3 && strncmp(host, "git", 3) == 0;
    return (colon && colon < at) || !(ssh || git);
}

void refuse_credentials(struct load *l, const struct spec_text *text, const char *hint)
{
    for (const char *p = text->text; p && (p = strstr(p, "://")); p += 3)
        if (has_credentials(text->text, p)) {
            diagnostic_hint(fault(l, text->place, "this address has a user name or password"),
                            "a spec is committed, kept and shown: %s", hint);
            return;
        }
}

void check_repository(struct load *l, const struct spec_text *url, const struct spec_text *ref)
{
    const struct spec_text *both[] = {url, ref};
    for (size_t i = 0; i < ARRAY_LEN(both); i++)
        if (both[i]->text && (*both[i]->text == '-' || !*both[i]->text))
            diagnostic_expected(fault(l, both[i]->place, "\"%s\" is not a %s", both[i]->text, i ? "ref" : "repository"),
                                i ? "a branch, a tag or a commit" : "the URL or path of a repository");
    if (url->text)
        refuse_credentials(l, url, "use an ssh address, or a git credential helper");
}

static bool bind_repository(struct load *l, const struct doc_node *node, struct spec_source *ret)
{
    const struct doc_member *ref = doc_get_member(node, "ref", 3), *git = doc_get_member(node, "git", 3);
    const struct doc_member *path = doc_get_member(node, "path", 4);
    if (ref && !git)
        diagnostic_hint(fault(l, ref->key_place, "ref belongs to git, which is not here"),
                        "a path is taken as it is; git: URL takes the files of a commit");
    if (!git)
        return false;
    if (path) {
        diagnostic_expected(fault(l, path->key_place, "both path and git are given"), "one of them");
        note(l, git->key_place, "git is here");
    }
    ret->url = text_now(l, git->value);
    ret->ref = text_now(l, ref ? ref->value : NULL);
    check_repository(l, &ret->url, &ret->ref);
    if (ret->url.text && (*ret->url.text == '.' || *ret->url.text == '~')) /* a repository of this machine */
        ret->url.text = path_here(l, l->spec->dir, ret->url.text);
    return true;
}

bool source_of(struct load *l, const struct doc_node *node, bool folder, struct spec_source *ret)
{
    *ret = (struct spec_source){0};
    if (!node)
        return false;
    ret->place = place_of(node);
    if (is_object(node)) {
        ret->exclude = texts_now(l, doc_get(node, "exclude"), false);
        ret->include = texts_now(l, doc_get(node, "include"), false);
        if (bind_repository(l, node, ret))
            return ret->url.text != NULL;
    } else if (!is_scalar(node)) {
        return false;
    }
    const struct doc_node *path = is_object(node) ? doc_get(node, "path") : node;
    struct spec_text text = text_now(l, path);
    if (!path)
        text = (struct spec_text){.text = ".", .place = ret->place};
    return text.text && *text.text && find_path(l, &text, folder, ret);
}

/* ---- workdir and files ---- */

static void bind_file(struct load *l, const struct spec_role *role, const struct doc_node *item, size_t number)
{
    struct spec_file *f = &l->spec->files[l->spec->file_count];
    const char *name = arena_printf(l->arena, "files-%zu", number);
    *f = (struct spec_file){.role = role, .name = role_step_name(l, role, name), .place = place_of(item)};
    bool found = source_of(l, doc_get(item, "from"), false, &f->source);
    f->to = checked(l, doc_get(item, "to"), &on_node, false);
    if (check_node_path(l, &f->to, "to") && found)
        l->spec->file_count++;
}

static void bind_files(struct load *l, const struct spec_role *role)
{
    const struct doc_node *files = role_value(l, role, "files");
    for (size_t i = 0; is_array(files) && i < files->count; i++)
        if (is_object(files->items[i]))
            bind_file(l, role, files->items[i], i + 1);
}

void sources_bind(struct load *l)
{
    const struct doc_node *workdir = doc_get(l->root, "workdir"), *files = doc_get(l->root, "files");
    struct spec *spec = l->spec;
    size_t total = is_array(files) ? files->count : 0;
    spec->has_workdir = workdir != NULL;
    source_of(l, workdir, true, &spec->workdir);
    for (size_t i = 0; i < spec->role_count; i++) {
        const struct doc_node *own = doc_get(role_doc(l, &spec->roles[i]), "files");
        total += is_array(own) ? own->count : 0;
    }
    spec->files = arena_array(l->arena, total + 1, sizeof *spec->files);
    bind_files(l, NULL);
    for (size_t i = 0; i < spec->role_count; i++)
        if (spec->roles[i].own_files)
            bind_files(l, &spec->roles[i]);
}
