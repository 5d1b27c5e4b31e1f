/*
 * Credentials from the places where people already keep them: variables, files, the output of a program. Values stay in
 * separate memory, which is overwritten at the end; no message has one.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUE_MAX = 16 << 10, REDACT_MIN = 6 };

const char *credential_value(const struct provider_credentials *c, const char *name)
{
    return c ? doc_get_string(c->values, name, NULL) : NULL;
}

static struct provider_credentials *create(const struct provider *p)
{
    struct provider_credentials *c = xcalloc(1, sizeof *c);
    c->arena = arena_create();
    c->values = doc_new_object(c->arena);
    c->auth = doc_get(p->root, "auth");
    c->public_names = doc_get(p->root, "public");
    c->source = "";
    return c;
}

static void wipe(struct doc_node *values)
{
    for (size_t i = 0; values && i < values->count; i++) {
        struct doc_node *v = values->members[i].value;
        explicit_bzero((char *)(uintptr_t)v->text, v->text_len);
    }
}

void provider_credentials_destroy(struct provider_credentials *c)
{
    if (!c)
        return;
    wipe(c->values);
    arena_destroy(c->arena);
    free(c);
}

const char *provider_credentials_source(const struct provider_credentials *c)
{
    return c->source;
}

void redact_text(char *text, const char *secret)
{
    size_t len = secret ? strlen(secret) : 0;
    if (len < REDACT_MIN)
        return;
    for (char *at = text; (at = strstr(at, secret)); at += 3) {
        memcpy(at, "***", 3);
        memmove(at + 3, at + len, strlen(at + len) + 1);
    }
}

void provider_redact(const struct provider_credentials *c, char *text)
{
    for (size_t i = 0; i < c->values->count; i++) {
        const struct doc_member *m = &c->values->members[i];
        if (!doc_get(c->public_names, m->key))
            redact_text(text, m->value->text);
    }
}

static const char *variable(const struct doc_node *source, const char *key)
{
    const char *name = doc_get_string(source, key, NULL), *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

void provider_account_digest(const struct provider *p, const struct provider_credentials *c, const char *salt,
                             char ret[65])
{
    struct buf b = {0};
    buf_reserve(&b, 4 * VALUE_MAX); /* reserved in one step, because it holds secrets */
    const struct doc_node *list = doc_get(p->root, "credentials");
    const bool passing = c->passing || doc_get(c->values, "session_token");
    buf_printf(&b, "%s\n%s\n%s\n%s\n", salt, p->facts.name, p->base ? p->base : "", p->socket ? p->socket : "");
    for (size_t i = 0; i < c->values->count; i++) {
        const struct doc_member *m = &c->values->members[i];
        if (!passing || doc_get(c->public_names, m->key))
            buf_printf(&b, "%s=%s\n", m->key, m->value->text);
    }
    for (size_t i = 0; passing && list && i < list->count; i++) { /* AWS_PROFILE selects the sign-on */
        const char *section = variable(list->items[i], "section_env");
        buf_printf(&b, "section=%s\n", section ? section : "");
    }
    digest_sha256_hex(b.data, b.len, ret);
    explicit_bzero(b.data, b.len);
    buf_free(&b);
}

static bool put(struct provider_credentials *c, const char *name, const char *value)
{
    size_t len = value ? strlen(value) : 0;
    if (!len || len > VALUE_MAX)
        return false;
    doc_set(c->arena, c->values, name, doc_new_stringn(c->arena, value, len));
    return true;
}

static bool is_optional(const struct doc_node *source, const char *name)
{
    const struct doc_node *list = doc_get(source, "optional");
    for (size_t i = 0; list && i < list->count; i++)
        if (str_eq(list->items[i]->text, name))
            return true;
    return false;
}

static const char *home_path(const char *path, struct arena *arena)
{
    const char *home = getenv("HOME");
    return path[0] == '~' ? arena_printf(arena, "%s%s", home ? home : "", path + 1) : path;
}

/* ---- one source: 1: found, 0: not present, -1: incomplete or not readable ---- */

static int settle(const struct provider *p, const struct doc_node *source, const struct doc_node *keys,
                  const char *from, struct provider_credentials *c, struct error *err)
{
    const char *missing = NULL;
    size_t found = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const char *name = keys->members[i].key;
        if (doc_get(c->values, name))
            found += !is_optional(source, name);
        else if (!is_optional(source, name))
            missing = missing ? missing : doc_get(source, "env") ? keys->members[i].value->text : name;
    }
    if (!found)
        return 0;
    if (missing)
        return error_set(err, ERROR_SPEC, "%s: the credentials in %s are not complete: %s is not there", p->facts.name,
                         from, missing);
    return 1;
}

static int from_env(const struct provider *p, const struct doc_node *source, struct provider_credentials *c,
                    struct error *err)
{
    const struct doc_node *keys = doc_get(source, "env");
    for (size_t i = 0; i < keys->count; i++)
        put(c, keys->members[i].key, getenv(keys->members[i].value->text));
    c->source = arena_strdup(c->arena, keys->members[0].value->text);
    return settle(p, source, keys, "the environment", c, err);
}

static void take_ini(const struct doc_node *source, const struct buf *text, struct provider_credentials *c)
{
    const struct doc_node *keys = doc_get(source, "keys");
    const char *section = variable(source, "section_env");
    const struct ini_want want = {section ? section : doc_get_string(source, "section", ""),
                                  doc_get_string(source, "select", NULL), doc_get_string(source, "by", NULL)};
    for (size_t i = 0; i < keys->count; i++)
        put(c, keys->members[i].key, ini_find(text->data, text->len, &want, keys->members[i].value->text, c->arena));
    if (want.section[0])
        c->source = arena_printf(c->arena, "%s [%s]", c->source, want.section);
}

static bool file_fits(const struct doc_node *source, const struct doc_node *root)
{
    const struct doc_node *where = doc_get(source, "where");
    for (size_t i = 0; where && i < where->count; i++) {
        const struct doc_node *there = doc_get_path(root, where->members[i].key);
        if (!there || !str_eq(there->text, where->members[i].value->text))
            return false;
    }
    return true;
}

/* 0, or -1 if it cannot be read; a file that does not match gives no values. */
static int take_doc(const struct doc_node *source, const struct buf *text, enum doc_format format,
                    struct provider_credentials *c)
{
    const struct doc_node *keys = doc_get(source, "keys");
    struct diagnostics d = {0};
    struct doc *doc = NULL;
    int rc = doc_load_text("credentials", text->data, text->len, format, c->arena, &doc, &d, NULL);
    diagnostics_free(&d);
    for (size_t i = 0; rc == 0 && file_fits(source, doc->root) && i < keys->count; i++) {
        const struct doc_node *value = doc_get_path(doc->root, keys->members[i].value->text);
        if (value && value->type == DOC_STRING)
            put(c, keys->members[i].key, value->text);
    }
    return rc;
}

static int take_text(const struct provider *p, const struct doc_node *source, struct buf *text, const char *from,
                     struct provider_credentials *c, struct error *err)
{
    const struct doc_node *keys = doc_get(source, "keys");
    const char *format = doc_get_string(source, "format", "");
    buf_puts(text, "");
    if (str_eq(format, "ini")) {
        take_ini(source, text, c);
    } else if (str_eq(format, "text")) {
        while (text->len && strchr(" \t\r\n", text->data[text->len - 1]))
            text->data[--text->len] = 0;
        put(c, keys->members[0].key, text->data);
    } else if (take_doc(source, text, str_eq(format, "json") ? DOC_FORMAT_JSON : DOC_FORMAT_YAML, c) < 0) {
        return error_set(err, ERROR_SPEC, "%s: %s cannot be read as %s", p->facts.name, from,
                         str_eq(format, "json") ? "JSON" : "YAML");
    }
    return settle(p, source, keys, from, c, err);
}

static int from_file(const struct provider *p, const struct doc_node *source, struct provider_credentials *c,
                     struct error *err)
{
    const char *named = variable(source, "file_env"), *shown = named ? named : doc_get_string(source, "file", "");
    const char *path = home_path(shown, c->arena);
    struct buf text = {0};
    if (!named && access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    c->source = arena_strdup(c->arena, shown);
    int rc = file_read(path, FILE_MAX, &text, err);
    if (rc == 0)
        rc = take_text(p, source, &text, shown, c, err);
    else
        error_prefix(err, "%s: credentials", p->facts.name);
    if (text.data)
        explicit_bzero(text.data, text.cap);
    buf_free(&text);
    return rc;
}

/* ---- all sources ---- */

static const char *const *exec_argv(const struct doc_node *exec, struct arena *arena)
{
    const char **argv = arena_array(arena, exec->count + 1, sizeof *argv);
    for (size_t i = 0; i < exec->count; i++)
        argv[i] = exec->items[i]->text;
    return argv;
}

static bool exec_due(const struct doc_node *source, struct arena *arena)
{
    const char *needs = doc_get_string(source, "needs", NULL);
    return doc_get(source, "exec") && (!needs || access(home_path(needs, arena), F_OK) == 0);
}

/* "HCLOUD_TOKEN, or ~/.config/hcloud/cli.toml" */
static void say_missing(const struct provider *p, struct error *err)
{
    const struct doc_node *list = doc_get(p->root, "credentials");
    struct buf text = {0};
    for (size_t i = 0; list && i < list->count; i++) {
        const struct doc_node *source = list->items[i], *env = doc_get(source, "env");
        const char *file = doc_get_string(source, "file", NULL), *other = doc_get_string(source, "file_env", NULL);
        const struct doc_node *exec = doc_get(source, "exec");
        size_t before = text.len;
        buf_puts(&text, text.len ? ", or " : "");
        size_t words = text.len;
        for (size_t k = 0; env && k < env->count; k++)
            if (!is_optional(source, env->members[k].key))
                buf_printf(&text, "%s%s", text.len > words ? " and " : "", env->members[k].value->text);
        if (file)
            buf_printf(&text, "%s%s%s%s", file, other ? " (or the file that " : "", other ? other : "",
                       other ? " names)" : "");
        if (exec)
            buf_printf(&text, "the program %s", exec->items[0]->text);
        /* For people, two formats of one file are one place. */
        if (file && before && memmem(text.data, before, text.data + words, text.len - words)) {
            text.len = before;
            text.data[before] = 0;
        }
    }
    error_set(err, ERROR_SPEC, "there are no credentials for %s (%s)", p->facts.title, p->facts.name);
    error_why(err, ERROR_WHY_CREDENTIALS);
    error_hint(err, "looked for %s", text.len ? text.data : "none");
    buf_free(&text);
}

/* Variables may replace values that are not secret, such as the project. */
static void take_public(struct provider_credentials *c)
{
    for (size_t i = 0; c->public_names && i < c->public_names->count; i++) {
        const struct doc_node *names = c->public_names->members[i].value;
        bool done = false;
        for (size_t k = 0; k < names->count && !done; k++)
            done = put(c, c->public_names->members[i].key, getenv(names->items[k]->text));
    }
}

static enum provider_found accept(struct provider_credentials *c, const struct doc_node *source,
                                  struct provider_credentials **ret)
{
    if (source && doc_get(source, "auth"))
        c->auth = doc_get(source, "auth");
    take_public(c);
    *ret = c;
    return PROVIDER_FOUND;
}

enum provider_found provider_credentials_find(const struct provider *p, struct arena *arena,
                                              struct provider_credentials **ret_credentials,
                                              const char *const **ret_exec, struct error *err)
{
    const struct doc_node *list = doc_get(p->root, "credentials");
    for (size_t i = 0; list && i < list->count; i++) {
        const struct doc_node *source = list->items[i];
        if (exec_due(source, arena)) {
            *ret_exec = exec_argv(doc_get(source, "exec"), arena);
            return PROVIDER_EXEC;
        }
        struct provider_credentials *c = create(p);
        int rc = doc_get(source, "env")    ? from_env(p, source, c, err)
                 : doc_get(source, "file") ? from_file(p, source, c, err)
                                           : 0;
        if (rc > 0)
            return accept(c, source, ret_credentials);
        provider_credentials_destroy(c);
        if (rc < 0) {
            error_why(err, ERROR_WHY_CREDENTIALS);
            return PROVIDER_MISSING;
        }
    }
    if (!list)
        return accept(create(p), NULL, ret_credentials);
    say_missing(p, err);
    return PROVIDER_MISSING;
}

int provider_credentials_take(const struct provider *p, const char *output, size_t len,
                              struct provider_credentials **ret_credentials, struct error *err)
{
    const struct doc_node *list = doc_get(p->root, "credentials"), *source = NULL;
    struct provider_credentials *c = create(p);
    struct buf text = {0};
    for (size_t i = 0; list && i < list->count && !source; i++)
        source = exec_due(list->items[i], c->arena) ? list->items[i] : NULL;
    if (len > FILE_MAX || !source) {
        provider_credentials_destroy(c);
        return error_set(err, ERROR_SPEC, "%s: there is no program for credentials, or it printed too much",
                         p->facts.name);
    }
    c->source = arena_strdup(c->arena, doc_get(source, "exec")->items[0]->text);
    buf_append(&text, output, len);
    int rc = take_text(p, source, &text, c->source, c, err);
    if (text.data)
        explicit_bzero(text.data, text.cap);
    buf_free(&text);
    if (rc > 0) {
        c->passing = true;
        accept(c, source, ret_credentials);
        return 0;
    }
    if (rc == 0)
        error_set(err, ERROR_SPEC, "%s: \"%s\" printed no credentials", p->facts.name, c->source);
    provider_credentials_destroy(c);
    return error_why(err, ERROR_WHY_CREDENTIALS);
}
