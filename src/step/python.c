/* The Python of a job, or of a role with its own set-up, and its effect on the environment of a step: the venv's bin
 * first in PATH, or the environment that conda left. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* The owner of the role's set-up: the role itself, or NULL for the job. */
static const struct spec_role *owner(const struct spec_role *role)
{
    return role && role->own_setup ? role : NULL;
}

const struct spec_python *step_python_of(const struct spec *spec, const struct spec_role *role)
{
    return owner(role) ? &role->python : &spec->python;
}

static bool installs(const struct spec *spec, const struct spec_role *role)
{
    for (size_t i = 0; i < spec->setup_count; i++) {
        const struct spec_step *item = &spec->setup[i];
        if (item->role == owner(role) && (item->item == ITEM_PIP || item->item == ITEM_REQUIREMENTS))
            return true;
    }
    return false;
}

enum step_python_kind step_python_kind(const struct spec *spec, const struct spec_role *role)
{
    const struct spec_python *python = step_python_of(spec, role);
    if (python->conda.text)
        return PYTHON_CONDA;
    switch (python->venv) {
    case VENV_TRUE:
        return PYTHON_VENV;
    case VENV_PATH:
        return PYTHON_VENV_PATH;
    case VENV_AUTO:
        return installs(spec, role) ? PYTHON_VENV : PYTHON_PLAIN;
    case VENV_FALSE:
        break;
    }
    return PYTHON_PLAIN;
}

const struct spec_text *step_interpreter(const struct spec *spec, const struct spec_role *role)
{
    static const struct spec_text usual = {.text = "python3"};
    const struct spec_text *given = &step_python_of(spec, role)->interpreter;
    return given->text && *given->text ? given : &usual;
}

const char *step_python_text(struct plan_builder *b, const struct spec_role *role)
{
    const struct spec *spec = plan_spec_of(b);
    const char *text;
    struct error ignored = ERROR_INIT;
    bool plain = step_python_kind(spec, role) == PYTHON_PLAIN;
    return plain && plan_expand(b, step_interpreter(spec, role), EXPR_PLAIN, &text, &ignored) == 0 ? text : "python";
}

/* Whether it is a step "python": one that makes a Python, or only names for an interpreter that is used as it is. */
static bool is_step(const struct plan_step *s, const struct spec_role *role, bool names)
{
    return s->kind->is_python && s->role == owner(role) && step_names_python(s) == names;
}

static const struct plan_step *find_step(const struct plan *plan, const struct spec_role *role, bool names)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (is_step(&plan->steps[i], role, names))
            return &plan->steps[i];
    return NULL;
}

/* NULL: the interpreter is used as it is. */
static const struct plan_step *python_step(const struct plan *plan, const struct spec_role *role)
{
    return find_step(plan, role, false);
}

const struct plan_step *step_python_planned(struct plan_builder *b, const struct spec_role *role)
{
    const struct plan_step *s;
    for (size_t i = 0; (s = plan_at(b, i)); i++)
        if (is_step(s, role, false))
            return s;
    return NULL;
}

void step_python_roles(const struct spec *spec, const struct spec_role **ret)
{
    CLEANUP(cleanup_free) bool *on = xcalloc(spec->nnodes, sizeof *on);
    spec_setup_nodes(spec, NULL, on);
    memset(ret, 0, spec->nnodes * sizeof(struct spec_role *));
    for (size_t i = 0; i < spec->place_count; i++) {
        const struct spec_place *p = &spec->places[i];
        if (!on[p->node] && !ret[p->node])
            ret[p->node] = &spec->roles[p->role];
    }
}

/* ---- on a node ---- */

const char *step_node_name(const struct plan *plan, const struct step_bind *bind)
{
    const struct step_node *n = bind->nodes ? &bind->nodes[bind->node] : NULL;
    return n && n->host ? n->host : roster_name(plan->roster, bind->node);
}

int step_absolute(const struct step_bind *bind, const char *path, struct arena *arena, const char **ret,
                  struct error *err)
{
    const struct wire_facts *facts = bind->nodes ? bind->nodes[bind->node].facts : NULL;
    if (*path == '/') {
        *ret = path;
        return 0;
    }
    const char *folder = facts ? facts->work_dir : NULL;
    if (str_starts(path, "@base/") || str_starts(path, "~/")) {
        folder = !facts ? NULL : *path == '@' ? facts->base_dir : facts->home;
        path = strchr(path, '/') + 1;
    }
    if (!folder || *folder != '/')
        return error_set(err, ERROR_INTERNAL, "where \"%s\" is on the node is not known", path);
    *ret = *path ? arena_printf(arena, "%s%s%s", folder, str_ends(folder, "/") ? "" : "/", path) : folder;
    return 0;
}

int step_home(const struct step_bind *bind, const char *path, struct arena *arena, const char **ret, struct error *err)
{
    *ret = path;
    path = str_eq(path, "~") ? "~/" : path;
    return str_starts(path, "~/") ? step_absolute(bind, path, arena, ret, err) : 0;
}

int step_python_dir(const struct plan *plan, const struct step_bind *bind, struct arena *arena, const char **ret,
                    struct error *err)
{
    const struct plan_step *s = python_step(plan, bind->role);
    const struct step_python *python = s ? s->item : NULL;
    const char *path = python ? python->dir : NULL;
    *ret = NULL;
    if (!python || python->kind == PYTHON_PLAIN || python->kind == PYTHON_CONDA)
        return 0;
    if (python->kind == PYTHON_VENV_PATH &&
        step_expand_node(plan, bind, &step_python_of(plan->spec, bind->role)->venv_path, EXPR_PLAIN, arena, &path,
                         err) < 0)
        return -1;
    return step_absolute(bind, path, arena, ret, err);
}

int step_interpreter_on(const struct plan *plan, const struct step_bind *bind, struct arena *arena, const char **ret,
                        struct error *err)
{
    if (step_expand_node(plan, bind, step_interpreter(plan->spec, bind->role), EXPR_PLAIN, arena, ret, err) < 0)
        return -1;
    return step_home(bind, *ret, arena, ret, err);
}

/* Whether the folder is usually in PATH, where the node decides the order. */
static bool is_usual(const char *folder)
{
    return str_eq(folder, "/usr/bin") || str_eq(folder, "/bin") || str_eq(folder, "/usr/local/bin");
}

/* Without a venv: if the interpreter is a path, `python` and `python3` mean it. Its folder follows in PATH, with the
 * other programs that were installed there. */
static int interpreter_env(const struct plan *plan, const struct step_bind *bind, struct arena *arena,
                           struct wire_run *run, struct error *err)
{
    const char *word, *names = NULL;
    const struct plan_step *s = find_step(plan, bind->role, true);
    if (step_interpreter_on(plan, bind, arena, &word, err) < 0)
        return -1;
    const char *slash = strrchr(word, '/');
    if (!slash)
        return 0;
    const char *folder = slash == word ? "/" : arena_strndup(arena, word, (size_t)(slash - word));
    if (step_absolute(bind, folder, arena, &folder, err) < 0)
        return -1;
    if (s && s->on[bind->node] &&
        step_absolute(bind, ((const struct step_python *)s->item)->names, arena, &names, err) < 0)
        return -1;
    bool usual = is_usual(folder);
    run->path_first =
        arena_printf(arena, "%s%s%s", names ? names : "", names && !usual ? ":" : "", usual ? "" : folder);
    return 0;
}

int step_python_env(const struct plan *plan, const struct step_bind *bind, struct arena *arena, struct wire_run *run,
                    struct step_env *env, struct error *err)
{
    const char *dir;
    const struct plan_step *s = python_step(plan, bind->role);
    if (!s)
        return interpreter_env(plan, bind, arena, run, err);
    const struct step_python *python = s->item;
    if (step_python_dir(plan, bind, arena, &dir, err) < 0)
        return -1;
    if (!dir) {
        run->env_in = arena_strdup(arena, python->environment);
        return 0;
    }
    run->path_first = arena_printf(arena, "%s/bin", dir);
    step_env_set(env, "VIRTUAL_ENV", dir);
    step_run_unset(run, arena, "PYTHONHOME");
    return 0;
}

int step_python_program(const struct plan *plan, const struct step_bind *bind, struct arena *arena, const char **ret,
                        struct error *err)
{
    const struct plan_step *s = python_step(plan, bind->role);
    const char *dir;
    if (!s)
        return step_interpreter_on(plan, bind, arena, ret, err);
    if (step_python_dir(plan, bind, arena, &dir, err) < 0)
        return -1;
    *ret = dir ? arena_printf(arena, "%s/bin/python", dir) : "python";
    return 0;
}

/* "/usr" of "/usr/bin/python3". */
static const char *prefix_of(const char *program, struct arena *arena)
{
    const char *slash = strrchr(program, '/');
    size_t len = slash ? (size_t)(slash - program) : 0;
    return *program == '/' && len > 4 && strncmp(program + len - 4, "/bin", 4) == 0
               ? arena_strndup(arena, program, len - 4)
               : NULL;
}

/* An installation of Python on a node, as far as rhrun knows it without asking the node. */
struct installation {
    const char *prefix;  /* "/usr" of "/usr/bin/python3"; NULL = not known */
    const char *version; /* "3.11"; NULL = not known */
    const char *program; /* absolute */
};

const char *step_python_in(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t len = strlen("python3.");
    return str_starts(name, "python3.") && name[len] && strspn(name + len, "0123456789") == strlen(name + len)
               ? name + strlen("python")
               : NULL;
}

static bool sets_path(const struct spec *spec, const struct spec_role *role)
{
    return spec->activate.text || step_sets(spec->env, spec->env_count, "PATH") ||
           (role && step_sets(role->env, role->env_count, "PATH"));
}

/* The interpreter: the one used as it is, or the one that the venv was made from. */
static struct installation interpreter_on(const struct plan *plan, const struct step_bind *bind, struct arena *arena)
{
    const struct wire_facts *facts = bind->nodes[bind->node].facts;
    struct installation ret = {0};
    struct error ignored = ERROR_INIT;
    const char *word;
    if (step_expand_node(plan, bind, step_interpreter(plan->spec, bind->role), EXPR_PLAIN, arena, &word, &ignored) < 0)
        return ret;
    if (str_eq(word, "python3") && !sets_path(plan->spec, bind->role))
        word = facts->python;
    if (*word != '/')
        return ret;
    ret.program = word;
    ret.prefix = prefix_of(word, arena);
    ret.version = str_eq(word, facts->python) && *facts->python_version ? facts->python_version : step_python_in(word);
    return ret;
}

/* Whether any worker with this Python sets PATH. */
static bool workers_set_path(const struct spec *spec, const struct spec_role *own)
{
    bool ret = step_sets(spec->entrypoint.env, spec->entrypoint.env_count, "PATH");
    for (size_t i = 0; i < spec->role_count; i++) {
        const struct spec_role *role = &spec->roles[i];
        ret = ret || (owner(role) == own &&
                      (sets_path(spec, role) || step_sets(role->entrypoint.env, role->entrypoint.env_count, "PATH")));
    }
    return ret;
}

const struct plan_step *step_python_first(const struct plan *plan, const struct spec_role *role, uint32_t node)
{
    const struct plan_step *made = python_step(plan, role);
    if (made)
        return made->on[node] && ((const struct step_python *)made->item)->kind != PYTHON_CONDA ? made : NULL;
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *s = &plan->steps[i];
        if (s->role == owner(role) && s->on[node] && s->kind->uses_python)
            return s;
    }
    return NULL;
}

bool step_names_python(const struct plan_step *step)
{
    return step->kind->is_python && ((const struct step_python *)step->item)->kind == PYTHON_PLAIN;
}

bool step_may_bring_python(const struct plan_step *step, const char *word)
{
    const struct step_kind *k = step->kind;
    return k->phase == PHASE_SETUP && !k->is_python && !k->uses_python && (!k->is_workdir || *word == '/');
}

const char *step_python_place(const struct plan *plan, const struct step_bind *bind, bool setup, struct arena *arena,
                              const char **ret_word)
{
    const struct wire_facts *facts = bind->nodes ? bind->nodes[bind->node].facts : NULL;
    const struct spec *spec = plan->spec;
    struct error ignored = ERROR_INIT;
    if (!facts || (!setup && python_step(plan, bind->role)) ||
        step_interpreter_on(plan, bind, arena, ret_word, &ignored) < 0 || strpbrk(*ret_word, "*?["))
        return NULL;
    if (**ret_word == '/')
        return *ret_word;
    if (strchr(*ret_word, '/') || (str_eq(*ret_word, "python3") && *facts->python) || sets_path(spec, bind->role) ||
        (!setup && workers_set_path(spec, bind->role)))
        return NULL;
    return arena_printf(arena, "%s%s", WIRE_PATH_PROGRAM, *ret_word);
}

const char *step_python_instead(const struct plan *plan, const struct step_bind *bind, struct arena *arena)
{
    const struct plan_step *s = python_step(plan, bind->role);
    const char *dir;
    struct error ignored = ERROR_INIT;
    if (!s || ((const struct step_python *)s->item)->kind != PYTHON_VENV_PATH ||
        step_python_dir(plan, bind, arena, &dir, &ignored) < 0 || strpbrk(dir, "*?["))
        return NULL;
    return arena_printf(arena, "%s/bin/python", dir);
}

/* The folder with its own bin and lib: the venv, or the link that the conda environment's step leaves. NULL: the
 * interpreter is used as it is. False: not known. */
static bool own_folder(const struct plan *plan, const struct step_bind *bind, struct arena *arena, const char **ret)
{
    struct error ignored = ERROR_INIT;
    const struct plan_step *s = python_step(plan, bind->role);
    const struct step_python *python = s ? s->item : NULL;
    *ret = NULL;
    if (!bind->nodes || !bind->nodes[bind->node].facts)
        return false;
    if (python && python->kind == PYTHON_CONDA)
        return step_absolute(bind, python->link, arena, ret, &ignored) == 0;
    return step_python_dir(plan, bind, arena, ret, &ignored) == 0 && (!python || *ret);
}

size_t step_package_patterns(const struct plan *plan, const struct step_bind *bind, const char *package,
                             struct arena *arena, const char *ret[STEP_PATTERNS_MAX])
{
    const char *dir;
    size_t n = 0;
    if (!own_folder(plan, bind, arena, &dir))
        return 0;
    if (dir)
        ret[n++] = arena_printf(arena, "%s/lib/python3.*/site-packages/%s-*.dist-info/METADATA", dir, package);
    const struct spec_python *given = step_python_of(plan->spec, bind->role);
    if (dir && (given->conda.text || !given->system_site_packages))
        return n;
    struct installation at = interpreter_on(plan, bind, arena);
    if (at.prefix && at.version)
        ret[n++] =
            arena_printf(arena, "~/.local/lib/python%s/site-packages/%s-*.dist-info/METADATA", at.version, package);
    if (at.prefix && at.version && str_eq(at.prefix, "/usr"))
        ret[n++] =
            arena_printf(arena, "/usr/local/lib/python%s/dist-packages/%s-*.dist-info/METADATA", at.version, package);
    if (at.prefix) {
        ret[n++] = arena_printf(arena, "%s/lib/python%s/site-packages/%s-*.dist-info/METADATA", at.prefix,
                                at.version ? at.version : "3.*", package);
        ret[n++] = arena_printf(arena, "%s/lib/python3/dist-packages/%s-*.dist-info/METADATA", at.prefix, package);
    }
    return n;
}

const char *step_python_version(const struct plan *plan, const struct step_bind *bind, struct arena *arena,
                                const char **ret_pattern)
{
    const char *dir;
    *ret_pattern = NULL;
    if (!own_folder(plan, bind, arena, &dir))
        return NULL;
    if (dir) {
        *ret_pattern = arena_printf(arena, "%s/bin/python3.*", dir);
        return NULL;
    }
    struct installation at = interpreter_on(plan, bind, arena);
    if (!at.version)
        *ret_pattern = at.program;
    return at.version;
}
