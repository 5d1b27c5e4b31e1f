/* The spec of an imported command line. Flags that rhrun passes itself, and flags that torchrun would ignore, are left
 * out. */
#include "import.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Text without expressions: where one would begin, an expression that yields that beginning. */
static const char *literal(struct arena *arena, const char *text)
{
    struct buf b = {0};
    buf_puts(&b, "");
    for (const char *open; (open = strstr(text, "${{")); text = open + 3) {
        buf_append(&b, text, (size_t)(open - text));
        buf_puts(&b, "${{ '${{' }}");
    }
    buf_puts(&b, text);
    const char *ret = arena_strdup(arena, b.data);
    buf_free(&b);
    return ret;
}

/* Numbers without quotes, as a person writes them. */
static struct doc_node *scalar(struct arena *arena, const char *text)
{
    struct doc_node *node = doc_new_plain(arena, text);
    bool number = (node->type == DOC_INT || node->type == DOC_FLOAT) && str_eq(node->text, text);
    return number ? node : doc_new_string(arena, literal(arena, text));
}

/* "a,b": items; a doubled comma may be one within an item. */
static struct doc_node *list(struct arena *arena, const char *text, bool doubled)
{
    struct doc_node *array = doc_new_array(arena);
    struct buf item = {0};
    for (const char *p = text;; p++) {
        if (*p == ',' && doubled && p[1] == ',') {
            buf_putc(&item, *p++);
        } else if (*p == ',' || !*p) {
            buf_puts(&item, "");
            doc_append(arena, array, scalar(arena, item.data));
            buf_clear(&item);
        } else {
            buf_putc(&item, *p);
        }
        if (!*p)
            break;
    }
    buf_free(&item);
    return array;
}

/* A line of its own, so that no word of the command line can begin another line. */
static void FORMAT(2, 3) comment(struct buf *comments, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *line = xvasprintf(fmt, ap);
    va_end(ap);
    for (char *p = line; *p; p++)
        if (iscntrl((unsigned char)*p))
            *p = ' ';
    buf_printf(comments, "# %s\n", line);
}

static const char *trimmed(struct arena *arena, const char *text, size_t len)
{
    while (len > 0 && isspace((unsigned char)*text))
        text++, len--;
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    return arena_strndup(arena, text, len);
}

/* The rendezvous backend; NULL if torch would not know it either. */
static const char *backend_of(const struct import *im)
{
    static const char *const backends[] = {"static", "c10d", "etcd", "etcd-v2"};
    const char *said = import_value(im, "rdzv_backend");
    if (import_value(im, "standalone"))
        return "c10d";
    for (size_t i = 0; said && i < ARRAY_LEN(backends); i++)
        if (str_eq(said, backends[i]))
            return said;
    return said ? NULL : "static";
}

/* rdzv_conf, without the keys that torchrun would ignore. */
static struct doc_node *conf_map(const struct import *im, const char *text, struct buf *comments)
{
    struct arena *arena = im->arena;
    struct doc_node *object = doc_new_object(arena);
    const char *backend = backend_of(im), *near;
    for (size_t len; *text; text += len + (text[len] == ',')) {
        len = strcspn(text, ",");
        size_t name_len = strcspn(text, ",=");
        const char *name = trimmed(arena, text, name_len);
        const char *value = text[name_len] == '=' ? trimmed(arena, text + name_len + 1, len - name_len - 1) : "";
        if (!*name && !*value)
            continue;
        if (backend && !spec_rdzv_takes(backend, name, &near))
            comment(comments, "--rdzv_conf %s=%s: left out: torchrun ignores it with rdzv_backend %s%s%s%s", name,
                    value, backend, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
        else if (str_eq(name, "is_host"))
            comment(comments, "--rdzv_conf %s=%s: left out: rhrun passes it to each node itself", name, value);
        else
            doc_set(arena, object, name, scalar(arena, value));
    }
    return object;
}

static struct doc_node *value_node(const struct import *im, const struct torchrun_flag *flag, const char *value,
                                   struct buf *comments)
{
    struct arena *arena = im->arena;
    switch (flag->type) {
    case TORCHRUN_BOOLEAN:
        return doc_new_bool(arena, true);
    case TORCHRUN_RANKS:
    case TORCHRUN_SIGNALS:
    case TORCHRUN_LIST:
        return list(arena, value, flag->type == TORCHRUN_LIST);
    case TORCHRUN_MAP:
        return conf_map(im, value, comments);
    case TORCHRUN_INTEGER:
    case TORCHRUN_NUMBER:
    case TORCHRUN_CHOICE:
    case TORCHRUN_STD:
        return scalar(arena, value);
    case TORCHRUN_STRING:
        break;
    }
    return str_eq(flag->name, "nnodes") || str_eq(flag->name, "nproc_per_node")
               ? scalar(arena, value)
               : doc_new_string(arena, literal(arena, value));
}

/* ---- left out ---- */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (str_eq(name, *names))
            return true;
    return false;
}

/* Why the flag is left out, or NULL. */
static const char *left_out(const struct import *im, const struct torchrun_flag *flag)
{
    static const char *const replaced[] = {"rdzv_backend", "rdzv_endpoint", "rdzv_id", NULL};
    static const char *const masters[] = {"master_addr", "master_port", NULL};
    static const char *const of_tee[] = {"duplicate_stdout_filters", "duplicate_stderr_filters",
                                         "log_line_prefix_template", NULL};
    const char *backend = import_value(im, "rdzv_backend"), *name = flag->name;
    bool etcd = backend && str_starts(backend, "etcd");
    if (str_eq(name, "node_rank"))
        return "it is the host's place in the list";
    if (flag->origin == TORCHRUN_OWN)
        return NULL; /* it becomes the form of entrypoint */
    if (import_value(im, "standalone") && (is_one_of(name, replaced) || is_one_of(name, masters)))
        return "standalone replaces it";
    if (is_one_of(name, masters) && backend && !str_eq(backend, "static"))
        return "torchrun uses it with static only";
    if (str_eq(name, "rdzv_id"))
        return "rhrun gives each run one of its own";
    if (is_one_of(name, masters) || str_eq(name, "local_addr") || (str_eq(name, "rdzv_endpoint") && !etcd))
        return "rhrun passes the first node, each node's address and a free port";
    if (is_one_of(name, of_tee) && !import_value(im, "tee"))
        return "torchrun ignores it without --tee";
    if (str_eq(name, "start_method") && !import_value(im, "run_path"))
        return "torchrun ignores it without --run_path";
    return NULL;
}

/* With static, torchrun waits for MAX nodes. */
static const char *nodes_of(const struct import *im, const char *value)
{
    const char *backend = import_value(im, "rdzv_backend"), *colon = strchr(value, ':');
    bool is_static = (!backend || str_eq(backend, "static")) && !import_value(im, "standalone");
    return colon && is_static ? colon + 1 : value;
}

/* ---- the document ---- */

static struct doc_node *distributed(const struct import *im, struct buf *comments)
{
    struct arena *arena = im->arena;
    struct doc_node *object = doc_new_object(arena);
    doc_set(arena, object, "launcher", doc_new_string(arena, "torchrun"));
    for (const struct torchrun_flag *f = torchrun_flags; f->name; f++) {
        const char *value = import_value(im, f->name), *why = value ? left_out(im, f) : NULL;
        if (!value)
            continue;
        if (why) {
            comment(comments, "--%s%s%s: left out: %s", f->name, *value ? "=" : "", value, why);
            continue;
        }
        if (f->origin == TORCHRUN_OWN)
            continue;
        if (str_eq(f->name, "nnodes") && nodes_of(im, value) != value) {
            comment(comments, "--nnodes=%s: static waits for the larger number", value);
            value = nodes_of(im, value);
        }
        struct doc_node *node = value_node(im, f, value, comments);
        if (f->type != TORCHRUN_MAP || node->count > 0)
            doc_set(arena, object, f->name, node);
    }
    return object;
}

/* A program of torchtune: a name, not a path. */
static bool is_recipe(const struct import *im)
{
    return im->tune && !strchr(im->target, '/') && !str_ends(im->target, ".py");
}

/* Whether the program is a file of the folder in which torchrun was typed. Then that folder must be the workdir. */
static bool needs_workdir(const struct import *im, struct buf *comments)
{
    const char *target = im->target;
    if (import_value(im, "module")) {
        comment(comments, "workdir: . sends this folder to the nodes, where the module is one of its files");
        return false;
    }
    if (*target == '/' || *target == '~' || (import_value(im, "no_python") && !strchr(target, '/')))
        return false;
    if (str_starts(target, "../")) {
        comment(comments, "%s is outside of this folder: workdir: FOLDER sends the one that has it", target);
        return false;
    }
    return true;
}

static struct doc_node *entrypoint(const struct import *im)
{
    struct arena *arena = im->arena;
    struct doc_node *object = doc_new_object(arena), *args = doc_new_array(arena);
    bool module = import_value(im, "module") != NULL, program = import_value(im, "no_python") != NULL;
    if (program) {
        struct doc_node *command = doc_new_array(arena);
        doc_append(arena, command, doc_new_string(arena, literal(arena, im->target)));
        doc_set(arena, object, "command", command);
    } else {
        const char *target = is_recipe(im) ? arena_printf(arena, "%s.py", im->target) : im->target;
        doc_set(arena, object, module ? "module" : "script", doc_new_string(arena, literal(arena, target)));
    }
    for (size_t i = 0; i < im->arg_count; i++)
        doc_append(arena, args, scalar(arena, im->args[i]));
    if (im->arg_count > 0)
        doc_set(arena, object, "args", args);
    return object;
}

/* "train" of "src/train.py" and of "package.train". */
static const char *job_name(const struct import *im)
{
    const char *slash = strrchr(im->target, '/'), *base = slash ? slash + 1 : im->target;
    size_t len = strlen(base);
    if (str_ends(base, ".py"))
        len -= 3;
    const char *dot = import_value(im, "module") ? strrchr(base, '.') : NULL;
    if (dot && dot[1]) {
        len -= (size_t)(dot + 1 - base);
        base = dot + 1;
    }
    struct buf b = {0};
    buf_puts(&b, "");
    for (size_t i = 0; i < len && b.len < 100; i++)
        if (isalnum((unsigned char)base[i]) || (b.len > 0 && strchr("_-.", base[i])))
            buf_putc(&b, base[i]);
    const char *ret = arena_strdup(im->arena, b.len ? b.data : "job");
    buf_free(&b);
    return ret;
}

/* The words before torchrun, and torchtune's own files. */
static void comment_before(const struct import *im, struct buf *comments)
{
    for (size_t i = 0; i < im->left_count; i++)
        comment(comments, "%s: left out: %s", im->left[i].text, im->left[i].why);
    if (is_recipe(im))
        comment(comments,
                "tune run: the recipe is a file of torchtune's: `tune cp %s ./%s.py` puts it here; so does `tune cp` "
                "with a "
                "--config that is one",
                im->target, im->target);
}

void import_write(const struct import *im, bool workdir, struct buf *ret)
{
    struct arena *arena = im->arena;
    struct doc_node *root = doc_new_object(arena);
    struct buf comments = {0};
    doc_set(arena, root, "name", doc_new_string(arena, job_name(im)));
    if (im->python) {
        struct doc_node *python = doc_new_object(arena);
        doc_set(arena, python, "interpreter", doc_new_string(arena, literal(arena, im->python)));
        doc_set(arena, root, "python", python);
    }
    if (im->env_count > 0) {
        struct doc_node *env = doc_new_object(arena);
        for (size_t i = 0; i < im->env_count; i++) {
            size_t len = strcspn(im->env[i], "=");
            doc_set(arena, env, arena_strndup(arena, im->env[i], len),
                    doc_new_string(arena, literal(arena, im->env[i] + len + 1)));
        }
        doc_set(arena, root, "env", env);
    }
    comment_before(im, &comments);
    if (needs_workdir(im, &comments) && workdir)
        doc_set(arena, root, "workdir", doc_new_string(arena, "."));
    doc_set(arena, root, "distributed", distributed(im, &comments));
    doc_set(arena, root, "entrypoint", entrypoint(im));
    if (im->legacy)
        comment(&comments,
                "torch.distributed.launch gave the program --local-rank=N; torchrun does not: it is in LOCAL_RANK");
    buf_puts(ret, "# cluster: {hosts: [...]} says where; without it all nodes are on this machine\n");
    if (comments.len > 0)
        buf_puts(ret, comments.data);
    doc_to_yaml(root, ret);
    buf_free(&comments);
}
