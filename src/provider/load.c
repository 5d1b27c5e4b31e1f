/* Provider files: finds, reads, checks (schema and check.c) and compiles them. */
#include "internal.h"

#include "rhrun/schema.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char rhrun_provider_schema[];
extern const uint64_t rhrun_provider_schema_size;

/* The files of providers/, as cmake embeds them: a row without a name ends the table. */
extern const struct {
    const char *name, *text;
    uint64_t size;
} rhrun_provider_files[];

const char *provider_builtin(const char *name, size_t *ret_len)
{
    for (size_t i = 0; rhrun_provider_files[i].name; i++)
        if (str_eq(rhrun_provider_files[i].name, name)) {
            *ret_len = (size_t)rhrun_provider_files[i].size;
            return rhrun_provider_files[i].text;
        }
    return NULL;
}

const char *provider_schema_text(size_t *ret_len)
{
    *ret_len = (size_t)rhrun_provider_schema_size;
    return rhrun_provider_schema;
}

/* ---- compiling ---- */

static enum body_kind body_kind(const struct doc_node *root, const struct doc_node *step)
{
    const char *kind = doc_get_string(step, "reply", doc_get_string(root, "reply", "json"));
    return str_eq(kind, "xml") ? BODY_XML : str_eq(kind, "lines") ? BODY_LINES : BODY_JSON;
}

static int compile_pattern(const struct doc_node *pattern, struct regex **ret, struct diagnostics *d)
{
    struct regex_fault fault;
    *ret = pattern ? regex_create(pattern->text, pattern->text_len, &fault) : NULL;
    if (!pattern || *ret)
        return 0;
    diagnostics_add(d, SEVERITY_ERROR, pattern->place, "the pattern is faulty: %s", fault.text);
    return -1;
}

static int compile_step(struct provider *p, const struct doc_node *node, struct arena *arena, struct step *ret,
                        struct diagnostics *d)
{
    static const struct {
        const char *key, *method;
    } methods[] = {{"get", "GET"}, {"post", "POST"}, {"put", "PUT"}, {"delete", "DELETE"}};
    ret->node = node;
    ret->reply = body_kind(p->root, node);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (doc_get(node, methods[i].key)) {
            ret->method = methods[i].method;
            ret->path = doc_get(node, methods[i].key);
        }
    const int rc =
        compile_pattern(doc_get(doc_get(node, "offers"), "accelerator_pattern"), &ret->accelerator_pattern, d);
    return rules_compile(doc_get(node, "errors"), arena, &ret->errors, d) < 0 ? -1 : rc;
}

static int compile_operations(struct provider *p, struct arena *arena, struct diagnostics *d)
{
    const struct doc_node *operations = doc_get(p->root, "operations");
    int rc = 0;
    for (int o = 0; o < PROVIDER_OPERATIONS; o++) {
        const struct doc_node *steps = doc_get(operations, provider_operation_name((enum provider_operation)o));
        struct operation *to = &p->operations[o];
        for (; to->count < many_count(steps); to->count++)
            if (compile_step(p, one_of_many(steps, to->count), arena, &to->steps[to->count], d) < 0)
                rc = -1;
    }
    return rc;
}

static int compile_patterns(struct provider *p, struct arena *arena, struct diagnostics *d)
{
    const struct doc_node *pattern = doc_get(doc_get(p->root, "machine"), "name_pattern");
    const int rc = compile_pattern(pattern, &p->name_pattern, d);
    return rules_compile(doc_get(p->root, "errors"), arena, &p->errors, d) < 0 ? -1 : rc;
}

/* An address from the environment is for a proxy, or for an engine that listens elsewhere. An invalid one is an error:
 * the user asked for another place, so rhrun must not rent at the usual one. */
static int choose_base(struct provider *p, struct arena *arena, struct error *err)
{
    const struct doc_node *names = doc_get(p->root, "base_env");
    char *own = arena_printf(arena, "RHRUN_%s_ENDPOINT", p->facts.name);
    for (char *c = own; *c; c++)
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    const char *name = own, *value = getenv(own);
    for (size_t i = 0; !(value && *value) && names && i < names->count; i++)
        value = getenv(name = names->items[i]->text);
    p->base = doc_get_string(p->root, "base", NULL);
    p->socket = doc_get_string(p->root, "socket", NULL);
    if (!value || !*value)
        return 0;
    if (p->socket && str_starts(value, "tcp://")) /* as docker spells it */
        value = arena_printf(arena, "http://%s", value + strlen("tcp://"));
    if (str_is_printable(value) && str_starts(value, "unix:///")) {
        p->socket = arena_strdup(arena, value + strlen("unix://"));
        return 0;
    }
    if (str_is_printable(value) && (str_starts(value, "http://") || str_starts(value, "https://"))) {
        p->base = arena_strdup(arena, value);
        p->socket = NULL;
        p->override = true;
        return 0;
    }
    error_set(err, ERROR_SPEC, "%s: the environment variable %s has no usable address: \"%.200s\"", p->facts.name, name,
              value);
    error_hint(err, "an address begins with https://, with http:// (of this machine), or is unix:///PATH");
    return -1;
}

static bool schema_good(const struct doc_node *root, struct arena *arena, struct diagnostics *d)
{
    struct doc *doc;
    struct schema *schema = NULL;
    struct error err = ERROR_INIT;
    if (doc_load_text("provider.schema.json", rhrun_provider_schema, (size_t)rhrun_provider_schema_size,
                      DOC_FORMAT_JSON, arena, &doc, d, &err) < 0 ||
        schema_compile(doc->root, arena, &schema, d, &err) < 0)
        return false;
    bool good = schema_validate(schema, root, d);
    schema_destroy(schema);
    return good;
}

/* Built-in files were checked by the tests, so loading seven of them takes only a few milliseconds. */
static int compile_doc(struct doc *doc, bool checked, struct arena *arena, struct provider **ret, struct diagnostics *d,
                       struct error *err)
{
    size_t before = d->errors;
    struct provider *p = xcalloc(1, sizeof *p);
    bool good = checked || (doc_refuse_nul(doc->root, d) && schema_good(doc->root, arena, d));
    if (good) {
        p->root = doc->root;
        facts_read(p);
        good = notice_read(p, arena, d);
        good = compile_operations(p, arena, d) == 0 && good;
        good = compile_patterns(p, arena, d) == 0 && good;
        good = (checked || provider_check(p, d)) && good;
        if (good && choose_base(p, arena, err) < 0) {
            provider_destroy(p);
            return -1;
        }
    }
    if (good) {
        *ret = p;
        return 0;
    }
    provider_destroy(p);
    size_t faults = d->errors - before;
    return error_set(err, ERROR_SPEC, "%s: %zu fault%s", doc->source.name, faults, faults == 1 ? "" : "s");
}

static int load_text(const char *source_name, const char *text, size_t len, bool checked, struct arena *arena,
                     struct provider **ret, struct diagnostics *d, struct error *err)
{
    struct doc *doc;
    if (doc_load_text(source_name, text, len, DOC_FORMAT_YAML, arena, &doc, d, err) < 0)
        return -1;
    return compile_doc(doc, checked, arena, ret, d, err);
}

int provider_load_text(const char *source_name, const char *text, size_t len, struct arena *arena,
                       struct provider **ret_provider, struct diagnostics *diagnostics, struct error *err)
{
    return load_text(source_name, text, len, false, arena, ret_provider, diagnostics, err);
}

int provider_load_file(const char *path, struct arena *arena, struct provider **ret_provider,
                       struct diagnostics *diagnostics, struct error *err)
{
    struct doc *doc;
    if (doc_load_file(path, DOC_FORMAT_AUTO, arena, &doc, diagnostics, err) < 0)
        return -1;
    doc_hidden_says(doc, "the value here does not fit a provider file");
    return compile_doc(doc, false, arena, ret_provider, diagnostics, err);
}

/* ---- by name ---- */

static char *user_folder(struct arena *arena)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && config[0] == '/')
        return arena_printf(arena, "%s/rhrun/providers", config);
    return home && home[0] == '/' ? arena_printf(arena, "%s/.config/rhrun/providers", home) : NULL;
}

static bool name_good(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t len = strlen(name);
    return len > 0 && len <= 32 && strspn(name, plain) == len && !(name[0] >= '0' && name[0] <= '9');
}

int provider_load(const char *name, struct arena *arena, struct provider **ret_provider,
                  struct diagnostics *diagnostics, struct error *err)
{
    char *folder = user_folder(arena);
    const char *path = folder && name_good(name) ? arena_printf(arena, "%s/%s.yaml", folder, name) : NULL;
    size_t len;
    if (path && access(path, F_OK) == 0)
        return provider_load_file(path, arena, ret_provider, diagnostics, err);
    const char *text = name_good(name) ? provider_builtin(name, &len) : NULL;
    if (text)
        return load_text(arena_printf(arena, "providers/%s.yaml", name), text, len, true, arena, ret_provider,
                         diagnostics, err);
    const char *near = str_nearest(name, provider_list(arena));
    error_set(err, ERROR_SPEC, "there is no provider \"%.64s\"", name);
    if (near)
        error_hint(err, "did you mean %s?", near);
    return -1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *provider_list(struct arena *arena)
{
    enum { MAX = 256 };
    const char **names = arena_array(arena, MAX + 1, sizeof *names);
    size_t count = 0, kept = 0;
    for (; rhrun_provider_files[count].name && count < MAX; count++)
        names[count] = rhrun_provider_files[count].name;
    char *folder = user_folder(arena);
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *e; dir && count < MAX && (e = readdir(dir));)
        if (str_ends(e->d_name, ".yaml")) {
            const char *name = arena_strndup(arena, e->d_name, strlen(e->d_name) - strlen(".yaml"));
            if (name_good(name))
                names[count++] = name;
        }
    if (dir)
        closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++)
        if (!kept || !str_eq(names[kept - 1], names[i]))
            names[kept++] = names[i];
    names[kept] = NULL;
    return names;
}

void provider_destroy(struct provider *p)
{
    if (!p)
        return;
    rules_free(&p->errors);
    regex_destroy(p->name_pattern);
    for (int o = 0; o < PROVIDER_OPERATIONS; o++)
        for (size_t i = 0; i < p->operations[o].count; i++) {
            rules_free(&p->operations[o].steps[i].errors);
            regex_destroy(p->operations[o].steps[i].accelerator_pattern);
        }
    free(p);
}
