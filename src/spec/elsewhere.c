/*
 * Hints for faults that the schema finds: keys in the wrong place, keys under the names that other tools have for them,
 * and values for which the hint can show the corrected line (entrypoint: train.py).
 */
#include "internal.h"

#include <string.h>

enum { VALUE_SHOWN_MAX = 120 };

/* An asterisk is one part of a path. If several rows match a path, the first applies. */
static const struct {
    const char *path, *hint;
} rows[] = {
    {"/slurm", "slurm is not in this version of rhrun"},
    {"/cluster/slurm", "slurm is not in this version of rhrun"},
    {"/function", "it belongs to entrypoint: entrypoint: {function: module:function}"},
    {"/script", "it belongs to entrypoint: entrypoint: {script: FILE}"},
    {"/run", "it belongs to entrypoint: entrypoint: {run: TEXT}; steps before it are setup"},
    {"/args", "it belongs to entrypoint: entrypoint: {script: FILE, args: [...]}"},
    {"/prolog", "it belongs to entrypoint: entrypoint: {prolog: TEXT}"},
    {"/epilog", "it belongs to entrypoint: entrypoint: {epilog: TEXT}"},
    {"/entrypoint/outputs", "outputs stands at the top level"},
    {"/roles/*/max_restarts", "it belongs to distributed of the top level: a restart starts all roles again"},
    {"/roles/*/distributed/max_restarts",
     "it belongs to distributed of the top level: a restart starts all roles again"},
    {"/roles/*/distributed/launcher", "launcher: native starts roles, and it belongs to distributed of the top level"},
    {"/roles/*/distributed/devices", "it belongs to distributed of the top level, or to a host"},
    {"/roles/*/distributed/cpu_affinity", "it belongs to distributed of the top level"},
    {"/roles/*/distributed/preflight", "it belongs to distributed of the top level"},
    {"/roles/*/workdir",
     "it belongs to the top level: all roles work in the same files; files and copy put others beside them"},
    {"/roles/*/activate", "it belongs to the top level: it is sourced once per node"},
    {"/roles/*/secrets", "it belongs to the top level"},
    {"/roles/*/log_limit", "it belongs to the top level"},
    {"/roles/*/entrypoint/prolog", "it belongs to the top level's entrypoint: it runs once on every node"},
    {"/roles/*/entrypoint/epilog", "it belongs to the top level's entrypoint: it runs once on every node"},
    {"/roles/*/entrypoint/always", "it belongs to the top level's entrypoint"},
    {"/roles/*/script", "it belongs to the role's entrypoint: entrypoint: {script: FILE}"},
    {"/roles/*/run", "it belongs to the role's entrypoint: entrypoint: {run: TEXT}"},
    {"/roles/*/args", "it belongs to the role's entrypoint: entrypoint: {args: [...]}"},
    {"/packages/*/reqs", "requirements: FILE, or \"reqs:PATH\" without a blank"},
    {"/setup/*/reqs", "requirements: FILE"},
    {"/packages/*/local", "workdir: . sends the folder to every node; pip: ./ installs it as a package"},
    {"/setup/*/local", "workdir: . sends the folder to every node; pip: ./ installs it as a package"},
    {"/workdir/url", "did you mean git?"},
    {"/cluster/cpus", "instance has it: cpu:8+"},
    {"/cluster/memory", "instance has it, in GiB: \"cpu:8+ memory:32+\""},
    /* of SkyPilot, dstack, sbatch and compose; several of them share most of these */
    {"/num_nodes", "for the number of nodes write distributed: {nnodes: N}"},
    {"/nodes", "for the number of nodes write distributed: {nnodes: N}; for the hosts write cluster: {hosts: "
               "[A, B]}"},
    {"/nnodes", "it belongs to distributed: distributed: {nnodes: N}"},
    {"/nproc_per_node", "it belongs to distributed: distributed: {nproc_per_node: N}"},
    {"/ntasks", "the number of workers is per node: distributed: {nnodes: N, nproc_per_node: M}"},
    {"/ntasks_per_node", "for the number of workers write distributed: {nproc_per_node: N}"},
    {"/tasks_per_node", "for the number of workers write distributed: {nproc_per_node: N}"},
    {"/resources", "to rent machines write cluster: {instance: \"A100:8\", provider: cheapest}; for hosts that you "
                   "have write cluster: {hosts: [A, B]}"},
    {"/accelerators", "to rent a machine by its accelerators write cluster: {instance: \"A100:8\"}"},
    {"/gpus", "to rent a machine by its GPUs write cluster: {instance: \"A100:8\"}; a worker for each GPU of a host: "
              "distributed: {nproc_per_node: gpu}"},
    {"/gpus_per_node", "a worker for each GPU of a host: distributed: {nproc_per_node: gpu}"},
    {"/gres", "a worker for each GPU of a host: distributed: {nproc_per_node: gpu}"},
    {"/cpus_per_task",
     "to share out the CPUs write distributed: {cpu_affinity: block}; to rent a machine by its CPUs write "
     "cluster: {instance: \"cpu:8+\"}"},
    {"/mem", "to rent a machine by its memory write cluster: {instance: \"cpu:8+ memory:32+\"}"},
    {"/file_mounts", "to send files write files: [{from: PATH, to: PATH_ON_NODE}]"},
    {"/storage_mounts", "rhrun mounts no bucket: a setup item copies the data: setup: [{run: aws s3 sync ...}]"},
    {"/volumes",
     "to send files write files: [{from: PATH, to: PATH_ON_NODE}]; for folders of the host in a container write "
     "cluster: {container: {image: IMAGE, mounts: [\"/data:/data\"]}}"},
    {"/envs", "the key is env: env: {NAME: VALUE}"},
    {"/environment", "the key is env: env: {NAME: VALUE}"},
    {"/env_file", "variables stand in the spec: env: {NAME: VALUE}; secrets: [{name: NAME, file: PATH}] reads one from "
                  "a file"},
    {"/steps", "what is done before the launch are items of setup: setup: [{name: NAME, run: TEXT}]; the launch itself "
               "is entrypoint: {run: TEXT}"},
    {"/commands", "commands before the launch are items of setup: setup: [{run: TEXT}]; the launch itself is "
                  "entrypoint: {run: TEXT}"},
    {"/command", "it belongs to entrypoint: entrypoint: {command: [PROGRAM, ARG]}"},
    {"/module", "it belongs to entrypoint: entrypoint: {module: PACKAGE.MODULE}"},
    {"/image", "an image belongs to the container: cluster: {container: {image: IMAGE}}; provider: docker starts "
               "containers for the job: cluster: {provider: docker, image: IMAGE}"},
    {"/container", "it belongs to cluster: cluster: {container: {image: IMAGE}}"},
    {"/type", "leave it out: entrypoint says what the job runs, and a job has no type"},
    {"/services", "services of one job are roles: roles: {NAME: {count: 1, entrypoint: {run: TEXT}}}"},
    {"/service", "a server is a role with ready: roles: {server: {count: 1, ready: {port: 8000}, entrypoint: {run: "
                 "TEXT}}}"},
    {"/depends_on", "to make a role wait for another write roles: {NAME: {after: {OTHER: ready}}}"},
    {"/working_dir", "workdir: PATH sends a folder to the nodes; entrypoint: {cwd: PATH} is where the launch starts"},
    {"/cwd", "it belongs to entrypoint: entrypoint: {cwd: PATH}"},
    {"/chdir", "it belongs to entrypoint: entrypoint: {cwd: PATH}"},
    {"/partition", "slurm is not in this version of rhrun; to list hosts write cluster: {hosts: [A, B]}"},
    {"/account", "slurm is not in this version of rhrun"},
    {"/qos", "slurm is not in this version of rhrun"},
    {"/job_name", "the key is name: name: NAME"},
    {"/time", "a time limit belongs to entrypoint: entrypoint: {timeout: 12h}"},
    {"/timeout", "it belongs to entrypoint: entrypoint: {timeout: 12h}"},
    {"/max_duration", "a time limit belongs to entrypoint: entrypoint: {timeout: 12h}; rented machines end with "
                      "cluster: {max_hours: 12}"},
    {"/array", "points of a sweep do that: sweep: {matrix: {PARAM: [1, 2, 3]}}"},
    {"/output", "the key is outputs: outputs: [{from: out/, to: results/}]; rhrun logs prints what the job wrote"},
    {"/spot_policy", "it belongs to cluster: cluster: {instance: \"A100:8\", use_spot: true}"},
    {"/use_spot", "it belongs to cluster: cluster: {instance: \"A100:8\", use_spot: true}"},
    {"/max_price", "it belongs to cluster: cluster: {instance: \"A100:8\", max_price: 4.00}"},
    {"/hosts", "it belongs to cluster: cluster: {hosts: [A, B]}"},
    {"/instance", "it belongs to cluster: cluster: {instance: \"A100:8\"}"},
    {"/provider", "it belongs to cluster: cluster: {instance: \"A100:8\", provider: cheapest}"},
    {"/cloud", "the key is provider, of cluster: cluster: {instance: \"A100:8\", provider: aws}"},
    {"/backends", "the key is provider, of cluster: cluster: {instance: \"A100:8\", provider: aws}"},
    {"/launcher", "it belongs to distributed: distributed: {launcher: torchrun}"},
    {"/max_restarts", "it belongs to distributed: distributed: {max_restarts: 3}"},
    {"/distributed/num_nodes", "the key is nnodes"},
    {"/distributed/nodes", "the key is nnodes"},
    {"/distributed/gpus", "the key is nproc_per_node: gpu"},
    {"/cluster/accelerators", "the key is instance: instance: \"A100:8\""},
    {"/cluster/gpus", "the key is instance: instance: \"A100:8\""},
    {"/cluster/num_nodes", "for the number of nodes write distributed: {nnodes: N}"},
    {"/cluster/nnodes", "it belongs to distributed: distributed: {nnodes: N}"},
    {"/cluster/nodes", "to list hosts write hosts: [A, B]; for the number of nodes write distributed: {nnodes: N}"},
    {"/cluster/cloud", "the key is provider"},
    {"/cluster/region", "the key is regions: regions: [NAME]"},
    {"/cluster/spot", "the key is use_spot: use_spot: true"},
    {"/entrypoint/environment", "the key is env: env: {NAME: VALUE}"},
    {"/entrypoint/envs", "the key is env: env: {NAME: VALUE}"},
    {"/entrypoint/working_dir", "the key is cwd"},
    {"/entrypoint/commands", "the key is run: run: TEXT, with a line for each command"},
};

/* Where the pattern has "_", the path may have "-", as in flags. */
static bool matches(const char *pattern, const char *path)
{
    while (*pattern && *path) {
        if (*pattern == '*') {
            pattern++;
            path += strcspn(path, "/");
        } else if (*pattern != *path && !(*pattern == '_' && *path == '-')) {
            return false;
        } else {
            pattern++;
            path++;
        }
    }
    return !*pattern && !*path;
}

/* A key that a role shares with the top level gets the same hint: the path after "/roles/NAME". */
static const char *in_role(const char *path)
{
    static const char *const parts[] = {"/cluster/", "/packages/", "/setup/", "/files/", "/outputs/", NULL};
    const char *rest = str_starts(path, "/roles/") ? strchr(path + 7, '/') : NULL;
    for (const char *const *part = parts; rest && *part; part++)
        if (str_starts(rest, *part))
            return rest;
    return path;
}

static void hint_key(struct diagnostic *d)
{
    const char *key = strrchr(d->path, '/') + 1, *path = in_role(d->path);
    if (matches("/roles/*/distributed/*", d->path) && torchrun_flag_find(key, strlen(key)) && !str_starts(key, "max_"))
        diagnostic_hint(d, "launcher: native starts roles, and %s is torchrun's", key);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (matches(rows[i].path, path)) {
            diagnostic_hint(d, "%s", rows[i].hint);
            return;
        }
}

/* ---- corrected lines ---- */

/* Appends a scalar as it must be written inside [...] or {...}. */
static void put_scalar(struct buf *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+= -";
    const size_t len = strlen(text);
    if (len > 0 && strspn(text, plain) == len && (*text != '-' || (text[1] && text[1] != ' ')) && *text != ' ' &&
        text[len - 1] != ' ')
        buf_puts(out, text);
    else
        buf_json_string(out, text, len);
}

/* [a, b] or {key: a}; false where a value is no scalar. */
static bool put_flow(struct buf *out, const struct doc_node *node)
{
    const bool object = is_object(node);
    if (!object && !is_array(node)) {
        if (is_scalar(node))
            put_scalar(out, node->text);
        return is_scalar(node);
    }
    buf_putc(out, object ? '{' : '[');
    for (size_t i = 0; i < node->count; i++) {
        const struct doc_node *value = object ? node->members[i].value : node->items[i];
        if (!is_scalar(value))
            return false;
        buf_puts(out, i ? ", " : "");
        if (object)
            buf_printf(out, "%s: ", node->members[i].key);
        put_scalar(out, value->text);
    }
    buf_putc(out, object ? '}' : ']');
    return true;
}

/* The form of entrypoint that the text probably means. */
static const char *form_of(const char *text)
{
    return strpbrk(text, " \t\n|&;<>$") ? "run" : str_ends(text, ".py") ? "script" : "command";
}

static void hint_entrypoint(struct diagnostic *d, const struct doc_node *node)
{
    struct buf value = {0};
    const char *form = is_array(node) ? "command" : node->type == DOC_STRING ? form_of(node->text) : NULL;
    const bool list = form && !is_array(node) && strcmp(form, "command") == 0;
    if (form && put_flow(&value, node) && value.len <= VALUE_SHOWN_MAX)
        diagnostic_hint(d, list ? "entrypoint: {%s: [%s]}" : "entrypoint: {%s: %s}", form, value.data);
    buf_free(&value);
}

/* For a list written without brackets. */
static void hint_list(struct diagnostic *d, const struct doc_node *node)
{
    const char *key = strrchr(d->path, '/') + 1;
    const bool run = strcmp(key, "setup") == 0 && is_scalar(node);
    struct buf value = {0};
    static const char *const of_mappings[] = {"setup", "files", "outputs", "metrics", "failure_rules", NULL};
    bool good = !is_object(node);
    for (const char *const *one = of_mappings; !good && *one; one++)
        good = strcmp(*one, key) == 0;
    if (!good)
        return;
    const bool words = strcmp(key, "command") == 0 || strcmp(key, "exec") == 0;
    if (words && is_scalar(node) && !strpbrk(node->text, "'\"\\{")) {
        for (const char *p = node->text + strspn(node->text, " "); *p; p += strspn(p, " ")) {
            CLEANUP(cleanup_free) char *word = xstrndup(p, strcspn(p, " "));
            buf_puts(&value, value.len ? ", " : "");
            put_scalar(&value, word);
            p += strlen(word);
        }
        diagnostic_hint(d, "%s: [%s]", key, value.data ? value.data : "");
    } else if (node->count <= 8 && put_flow(&value, node) && value.len > 0 && value.len <= VALUE_SHOWN_MAX)
        diagnostic_hint(d, run ? "%s: [{run: %s}]" : "%s: [%s]", key, value.data);
    buf_free(&value);
}

/* env: [A=b, C] */
static void hint_env(struct diagnostic *d, const struct doc_node *node)
{
    struct buf value = {0};
    bool good = is_array(node) && node->count > 0 && node->count <= 8;
    for (size_t i = 0; good && i < node->count; i++) {
        const struct doc_node *item = node->items[i];
        const char *equals = item->type == DOC_STRING ? strchr(item->text, '=') : NULL;
        good = equals && equals > item->text;
        if (!good)
            break;
        buf_printf(&value, "%s%.*s: ", i ? ", " : "", (int)(equals - item->text), item->text);
        put_scalar(&value, equals + 1);
    }
    if (good && value.len <= VALUE_SHOWN_MAX)
        diagnostic_hint(d, "env: {%s}", value.data);
    buf_free(&value);
}

static void hint_value(const struct doc_node *root, struct diagnostic *d)
{
    const struct doc_node *node = doc_get_path(root, d->path);
    if (!node || !*d->path || d->hint || !d->expected)
        return;
    if (matches("/entrypoint", d->path) || matches("/roles/*/entrypoint", d->path))
        hint_entrypoint(d, node);
    else if (str_ends(d->path, "/env"))
        hint_env(d, node);
    else if (str_starts(d->expected, "a list") && !is_array(node))
        hint_list(d, node);
}

void elsewhere_hint(const struct doc_node *root, struct diagnostics *diagnostics, size_t first)
{
    for (size_t i = first; i < diagnostics->count; i++) {
        struct diagnostic *d = &diagnostics->items[i];
        if (d->severity != SEVERITY_ERROR || !d->path)
            continue;
        if (d->unknown_key)
            hint_key(d);
        else
            hint_value(root, d);
    }
}
