/* Finds out which Python and which torch the workers of each node have, by the names of files there, without starting a
 * program. */
#include "preflight.h"

#include <stdlib.h>
#include <string.h>

/* A question is the number of the Python << 8, and the number of the pattern: first those of torch, then those of
 * Python. */
enum { QUESTION_PYTHON = STEP_PATTERNS_MAX, QUESTION_INTERPRETER };

/* ---- asking ---- */

static bool runs_python(const struct spec_entrypoint *e)
{
    return e->kind == ENTRY_SCRIPT || e->kind == ENTRY_MODULE || e->kind == ENTRY_FUNCTION;
}

static bool uses_python(const struct spec *spec, const struct spec_role *own)
{
    for (size_t i = 0; i < spec->role_count; i++)
        if ((spec->roles[i].own_setup ? &spec->roles[i] : NULL) == own && runs_python(&spec->roles[i].entrypoint))
            return true;
    return spec->role_count == 0 && (spec->distributed.launcher != LAUNCHER_NATIVE || runs_python(&spec->entrypoint));
}

/* Whether the node's workers, or their launcher, are started with this Python. Then they cannot do without it, while a
 * different torch may work. */
static bool starts_python(const struct run *r, const struct spec_role *own, uint32_t node)
{
    const struct spec *spec = r->plan->spec;
    enum spec_launcher l = spec->distributed.launcher;
    for (size_t i = 0; spec->role_count == 0 && i < r->plan->step_count; i++)
        if (r->plan->steps[i].kind->phase == PHASE_LAUNCH && r->plan->steps[i].on[node])
            return runs_python(&spec->entrypoint) ||
                   (preflight_of_launch(r) && (l == LAUNCHER_MPIRUN ? preflight_several(r) : l != LAUNCHER_NATIVE));
    for (size_t i = 0; i < spec->place_count; i++) {
        const struct spec_role *role = &spec->roles[spec->places[i].role];
        if (spec->places[i].node == node && (role->own_setup ? role : NULL) == own && runs_python(&role->entrypoint))
            return true;
    }
    return false;
}

/* A single node has no other node to agree with: it is asked for torch only if flags may be missing. */
static bool needs_version(const struct run *r);

static void add_python(struct launch *l, const struct spec_role *role)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    const struct spec *spec = r->plan->spec;
    struct python *python = &p->pythons[p->python_count];
    *python = (struct python){.role = role, .on = preflight_nodes(l)};
    python->at = arena_array(p->arena, r->plan->node_count, sizeof *python->at);
    python->launches = uses_python(spec, role);
    bool installs = false;
    for (uint32_t n = 0; n < r->plan->node_count && r->options.mode == RUN_LOOK; n++)
        installs = installs || step_python_first(r->plan, role, n);
    if (!python->launches && !installs)
        return;
    if (spec->role_count == 0)
        memset(python->on, true, r->plan->node_count * sizeof *python->on);
    else if (spec_setup_nodes(spec, role, python->on) == 0)
        return;
    p->python_count++;
}

/* Whether this step of set-up is not done yet: doctor checks before set-up. At a launch all of set-up is done. */
static bool is_to_come(const struct run *r, const struct plan_step *step, uint32_t node)
{
    return r->options.mode == RUN_LOOK && step->kind->phase == PHASE_SETUP && step->on[node] &&
           !r->records[(size_t)step->id * r->plan->node_count + node].verified;
}

/* Whether the node is set up, except for steps that only name a Python. If not, its future packages are not known. */
static bool is_set_up(const struct run *r, uint32_t node)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (is_to_come(r, &r->plan->steps[i], node) && !step_names_python(&r->plan->steps[i]))
            return false;
    return true;
}

/* The first step before this one (NULL: before the launch) that may leave the interpreter there. A prolog may, too: it
 * runs after preflight. */
static const char *brings(const struct run *r, const struct plan_step *step, uint32_t node, const char *word)
{
    for (size_t i = 0; i < (step ? step->id : r->plan->step_count); i++) {
        const struct plan_step *s = &r->plan->steps[i];
        if ((is_to_come(r, s, node) && step_may_bring_python(s, word)) ||
            (s->kind->phase == PHASE_PROLOG && s->on[node]))
            return s->name;
    }
    return NULL;
}

/* Doctor checks before set-up is done: then the first question is for the Python that set-up will start. */
static void ask_interpreter(struct launch *l, uint32_t index, uint32_t node, const struct step_bind *bind,
                            struct arena *arena)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    struct python_at *at = &p->pythons[index].at[node];
    const struct plan_step *first = step_python_first(r->plan, bind->role, node);
    const char *word;
    first = first && is_to_come(r, first, node) ? first : NULL;
    if (!first && !starts_python(r, bind->role, node))
        return;
    const char *places[] = {step_python_place(r->plan, bind, first, arena, &word),
                            first ? step_python_instead(r->plan, bind, arena) : NULL};
    if (!places[0])
        return;
    at->interpreter = arena_strdup(p->arena, word);
    at->brings = brings(r, first, node, word);
    for (size_t i = 0; i < ARRAY_LEN(places) && places[i]; i++, p->left++)
        node_glob(lane_hands(&r->lanes[node])->node, preflight_token(l, index << 8 | QUESTION_INTERPRETER), places[i]);
}

static void ask_python(struct launch *l, uint32_t index, uint32_t node, struct arena *arena)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    struct python *python = &p->pythons[index];
    struct node *there = lane_hands(&r->lanes[node])->node;
    struct step_bind bind = run_bind(r, l, node);
    const char *patterns[STEP_PATTERNS_MAX], *version, *pattern;
    bind.role = python->role;
    ask_interpreter(l, index, node, &bind, arena);
    if (!preflight_of_launch(r) || !python->launches || !is_set_up(r, node) ||
        (!preflight_several(r) && !needs_version(r)))
        return;
    size_t count = step_package_patterns(r->plan, &bind, "torch", arena, patterns);
    for (uint32_t i = 0; i < count; i++, p->left++)
        node_glob(there, preflight_token(l, index << 8 | i), patterns[i]);
    if (!preflight_several(r))
        return;
    version = step_python_version(r->plan, &bind, arena, &pattern);
    if (version) {
        snprintf(python->at[node].version, sizeof python->at[node].version, "%s", version);
    } else if (pattern) {
        node_glob(there, preflight_token(l, index << 8 | QUESTION_PYTHON), pattern);
        p->left++;
    }
}

void preflight_ask_pythons(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    const struct spec *spec = r->plan->spec;
    p->python_count = 0;
    if (preflight_spec(r)->no_versions)
        return;
    p->pythons = arena_array(p->arena, spec->role_count + 1, sizeof *p->pythons);
    add_python(l, NULL);
    for (size_t i = 0; i < spec->role_count; i++)
        if (spec->roles[i].own_setup)
            add_python(l, &spec->roles[i]);
    struct arena *arena = arena_create();
    for (uint32_t i = 0; i < p->python_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            if (p->pythons[i].on[n] && preflight_asks(l, n))
                ask_python(l, i, n, arena);
            arena_reset(arena);
        }
    arena_destroy(arena);
}

/* ---- answers ---- */

/* ".../torch-2.12.0+cpu.dist-info/METADATA"; a package torch-x is a different one, but pip writes its name torch_x. */
static void take_torch(struct python_at *at, uint8_t pattern, const char *path)
{
    const char *name = strstr(path, "torch-"), *end = name ? strstr(name, ".dist-info/") : NULL;
    if (!end || (name > path && name[-1] != '/') || (*at->torch && at->pattern <= pattern))
        return;
    name += strlen("torch-");
    snprintf(at->torch, sizeof at->torch, "%.*s", (int)(end - name), name);
    at->pattern = pattern;
}

/* The version is in the name of the file, or in the name of a link's target. */
static void take_python(struct python_at *at, const struct wire_entry *e)
{
    const char *version = step_python_in(e->path);
    version = version ? version : step_python_in(e->target);
    if (version && !*at->version)
        snprintf(at->version, sizeof at->version, "%s", version);
}

void preflight_take_entries(struct launch *l, uint32_t node, uint64_t question, const struct wire_entries *e)
{
    struct preflight *p = preflight_of(l);
    if (question >> 8 >= p->python_count)
        return;
    struct python_at *at = &p->pythons[question >> 8].at[node];
    if ((question & 0xff) == QUESTION_INTERPRETER) {
        at->looked = true;
        at->there = at->there || e->entry_count > 0;
        return;
    }
    for (uint32_t i = 0; i < e->entry_count; i++)
        if ((question & 0xff) == QUESTION_PYTHON)
            take_python(at, &e->entries[i]);
        else
            take_torch(at, (uint8_t)question, e->entries[i].path);
}

/* ---- whether there is a Python ---- */

static const char *interpreter_cure(struct launch *l, const struct python *python, const char *brings)
{
    struct arena *arena = preflight_of(l)->arena;
    const char *whose = python->role ? arena_printf(arena, " of role \"%s\"", python->role->name) : "";
    const char *cure =
        arena_printf(arena, "install it there, or python: {interpreter: PATH}%s names one that exists", whose);
    return brings ? arena_printf(arena, "step \"%s\" may bring it; else %s", brings, cure) : cure;
}

static void check_interpreter(struct launch *l, const struct python *python)
{
    struct run *r = l->run;
    bool *told = preflight_nodes(l);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const char *word = python->at[n].interpreter, *brings = python->at[n].brings;
        bool *lack = preflight_nodes(l);
        for (uint32_t k = n; word && k < r->plan->node_count; k++) {
            const struct python_at *at = &python->at[k];
            if (told[k] || !at->looked || at->there || !str_eq(at->interpreter, word) || !str_eq(at->brings, brings))
                continue;
            lack[k] = told[k] = true;
        }
        if (lack[n])
            preflight_find(l, "versions", brings ? ERROR_NONE : ERROR_JOB, lack, interpreter_cure(l, python, brings),
                           "the Python \"%s\" is not %s %s", word, *word == '/' ? "on" : "in PATH on",
                           preflight_names(l, lack));
    }
}

/* ---- whether versions are the same everywhere ---- */

/* "2.12" */
static size_t release_len(const char *version)
{
    size_t len = strcspn(version, ".");
    return version[len] ? len + 1 + strspn(version + len + 1, "0123456789") : len;
}

static void check_torch(struct launch *l, const struct python *python)
{
    struct run *r = l->run;
    struct arena *arena = preflight_of(l)->arena;
    uint32_t nodes = r->plan->node_count, first = UINT32_MAX;
    const char **releases = arena_array(arena, nodes, sizeof *releases);
    const char **versions = arena_array(arena, nodes, sizeof *versions);
    bool *missing = preflight_nodes(l), any_missing = false;
    for (uint32_t n = 0; n < nodes; n++) {
        const char *torch = python->at[n].torch;
        if (*torch) {
            versions[n] = torch;
            releases[n] = arena_strndup(arena, torch, release_len(torch));
            first = first == UINT32_MAX ? n : first;
        } else if (python->on[n] && preflight_asks(l, n) && is_set_up(r, n)) {
            missing[n] = any_missing = true;
        }
    }
    if (first == UINT32_MAX)
        return;
    const char *cure = arena_printf(arena, "packages: [\"torch==%s.*\"] installs one version on all nodes%s",
                                    releases[first], "; preflight: off launches all the same");
    const char *of_role = python->role ? arena_printf(arena, "torch of role %s", python->role->name) : "torch";
    struct preflight_thing thing = {.what = "versions",
                                    .thing = arena_printf(arena, "%s is", of_role),
                                    .cure = cure,
                                    .code = ERROR_JOB,
                                    .values = releases,
                                    .shown = versions};
    if (preflight_compare(l, &thing)) {
        thing.code = ERROR_NONE;
        thing.values = versions;
        preflight_compare(l, &thing);
    }
    if (any_missing)
        preflight_find(l, "versions", ERROR_NONE, missing, cure, "%s was not found on %s, and on %s it is %s", of_role,
                       preflight_names(l, missing), preflight_name(l, first), versions[first]);
}

static void check_python(struct launch *l, const struct python *python)
{
    struct run *r = l->run;
    struct arena *arena = preflight_of(l)->arena;
    const char **versions = arena_array(arena, r->plan->node_count, sizeof *versions);
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        versions[n] = *python->at[n].version ? python->at[n].version : NULL;
    preflight_compare(
        l, &(struct preflight_thing){
               .what = "versions",
               .thing = python->role ? arena_printf(arena, "Python of role %s is", python->role->name) : "Python is",
               .cure = "python: {interpreter: PATH} says which one to take",
               .values = versions});
}

/* ---- flags of torchrun ---- */

/* The version in the form of the table of flags: "2.5.1" is 205. 0 = it cannot be read. */
static uint32_t version_of(const char *text)
{
    unsigned major, minor;
    return sscanf(text, "%3u.%2u", &major, &minor) == 2 ? major * 100 + minor : 0;
}

static bool is_xpu(const struct spec *spec, uint32_t node)
{
    return spec_nproc(spec, node)->kind == NPROC_XPU;
}

/* The version of torch that the newest of the flags needs. 0: every torch has them. */
static uint32_t needed(const struct run *r, uint32_t node, const char **ret_flag)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    uint32_t since = 0;
    *ret_flag = NULL;
    if (d->launcher != LAUNCHER_TORCHRUN)
        return 0;
    for (size_t i = 0; i < d->flag_count; i++)
        if (d->flags[i].flag->since > TORCHRUN_OLDEST && d->flags[i].flag->since > since) {
            since = d->flags[i].flag->since;
            *ret_flag = d->flags[i].flag->name;
        }
    if (is_xpu(r->plan->spec, node) && since < TORCHRUN_XPU) {
        since = TORCHRUN_XPU;
        *ret_flag = "nproc_per_node=xpu";
    }
    return since;
}

static bool needs_version(const struct run *r)
{
    const char *flag;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (needed(r, n, &flag) > 0)
            return true;
    return false;
}

/* If no version was found, the launcher itself reports the fault when it starts. */
static void check_flags(struct launch *l, const struct python *python)
{
    struct run *r = l->run;
    struct arena *arena = preflight_of(l)->arena;
    bool *lack = preflight_nodes(l);
    const char *flag = NULL, *torch = NULL;
    uint32_t since = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const char *its;
        uint32_t have = version_of(python->at[n].torch), need = needed(r, n, &its);
        lack[n] = have && have < need;
        if (!lack[n] || need < since)
            continue;
        since = need;
        flag = its;
        torch = torch ? torch : python->at[n].torch;
    }
    if (!flag)
        return;
    preflight_find(l, "versions", ERROR_JOB, lack,
                   arena_printf(arena, "packages: [\"torch>=%u.%u\"] installs one that has it; or leave the key out",
                                since / 100, since % 100),
                   "%s: torch %s does not have --%s; it came with %u.%u", preflight_names(l, lack), torch, flag,
                   since / 100, since % 100);
}

void preflight_check_versions(struct launch *l)
{
    for (size_t i = 0; i < preflight_of(l)->python_count; i++) {
        const struct python *python = &preflight_of(l)->pythons[i];
        check_interpreter(l, python);
        check_flags(l, python);
        check_torch(l, python);
        check_python(l, python);
    }
}
