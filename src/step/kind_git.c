/* git: an item that checks a commit of a repository out on the node. */
#include "internal.h"

#include <string.h>

/* "https://host/x/name.git" goes to "name" by default. */
static const char *folder_of(struct arena *arena, const char *url)
{
    size_t len = strlen(url);
    while (len && url[len - 1] == '/')
        len--;
    if (len > 4 && strncmp(url + len - 4, ".git", 4) == 0)
        len -= 4;
    size_t from = len;
    while (from && url[from - 1] != '/' && url[from - 1] != ':')
        from--;
    const char *name = arena_strndup(arena, url + from, len - from);
    return *name && *name != '.' ? name : "repository";
}

int step_git_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err)
{
    struct arena *arena = plan_arena(b);
    const char *url, *ref, *to;
    (void)spec;
    if (plan_expand(b, &item->url, EXPR_PLAIN, &url, err) < 0 ||
        plan_expand(b, &item->ref, EXPR_PLAIN, &ref, err) < 0 || plan_expand(b, &item->to, EXPR_PLAIN, &to, err) < 0)
        return -1;
    if (*url == '-' || *ref == '-')
        return error_set(err, ERROR_SPEC, "item \"%s\": \"%s\" is not the %s", item->name, *url == '-' ? url : ref,
                         *url == '-' ? "address of a repository" : "name of a commit");
    if (!*to)
        to = folder_of(arena, url);
    struct plan_step *s =
        plan_add(b, &step_kind_git, item->name, arena_printf(arena, "%s%s%s to %s", url, *ref ? " at " : "", ref, to));
    s->item = item;
    step_shares(b, s, to);
    s->creates = strstr(to, "${{") ? NULL : arena_printf(arena, "%s%s.git", to, str_ends(to, "/") ? "" : "/");
    if (!*ref)
        s->hint = "names no `ref`: later commits of the repository are not noticed";
    step_item_common(b, s, item);
    plan_input(b, s, "git", url);
    plan_input(b, s, "ref", ref);
    plan_input(b, s, "to", to);
    return 0;
}

static int git_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                     struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_step *item = step->item;
    struct step_env env = {.arena = arena};
    const char *url, *ref, *to;
    if (step_run_item(plan, step, bind, &env, arena, ret_run, err) < 0 ||
        step_expand_node(plan, bind, &item->url, EXPR_PLAIN, arena, &url, err) < 0 ||
        step_expand_node(plan, bind, &item->ref, EXPR_PLAIN, arena, &ref, err) < 0 ||
        step_expand_node(plan, bind, &item->to, EXPR_PLAIN, arena, &to, err) < 0 ||
        step_absolute(bind, *to ? to : folder_of(arena, url), arena, &to, err) < 0)
        return -1;
    size_t len = strlen(to);
    while (len > 1 && to[len - 1] == '/')
        len--;
    step_env_set(&env, "RHRUN_URL", url);
    step_env_set(&env, "RHRUN_REF", ref);
    step_env_set(&env, "RHRUN_TO", arena_strndup(arena, to, len));
    ret_run->env = env.list;
    step_run_script(ret_run, arena, rhrun_step_git);
    return 0;
}

const struct step_kind step_kind_git = {
    .name = "git", .version = 1, .phase = PHASE_SETUP, .brings = BRINGS_CLONE, .cached = true, .build = git_build};
