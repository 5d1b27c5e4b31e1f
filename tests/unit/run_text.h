/* A RUN message as text, for golden files. */
#ifndef RHRUN_TEST_RUN_TEXT_H
#define RHRUN_TEST_RUN_TEXT_H

#include "rhrun/step.h"

#include <string.h>

extern const char rhrun_step_install[], rhrun_step_call[], rhrun_step_venv[], rhrun_step_conda_env[],
    rhrun_step_conda[], rhrun_step_apt[], rhrun_step_git[];

/* rhrun's own programs appear by their files' names. */
static inline const char *word_text(const char *word)
{
    static const struct {
        const char *program, *name;
    } own[] = {{rhrun_step_install, "<install.py>"}, {rhrun_step_call, "<call.py>"},
               {rhrun_step_venv, "<venv.sh>"},       {rhrun_step_conda_env, "<conda_env.sh>"},
               {rhrun_step_conda, "<conda.sh>"},     {rhrun_step_apt, "<apt.sh>"},
               {rhrun_step_git, "<git.sh>"}};
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (str_eq(word, own[i].program))
            return own[i].name;
    return word;
}

static inline void put_words(struct buf *b, const char *name, const struct wire_strings *list, const char *indent)
{
    for (uint32_t i = 0; i < list->count; i++)
        buf_printf(b, "%s%s %s\n", indent, name, word_text(list->items[i]));
}

static inline const char *run_text(struct arena *arena, const struct wire_run *r)
{
    struct buf b = {0};
    buf_printf(&b, "slot %s\nkind %s\ncwd %s\nenv_in %s\nenv_out %s\ncreates %s\n", r->slot,
               r->kind == WIRE_KIND_LAUNCH ? "launch" : "step", r->cwd, r->env_in, r->env_out, r->creates);
    if (*r->path_first)
        buf_printf(&b, "path_first %s\n", r->path_first);
    for (const char *p = r->hosts; p && *p; p += strcspn(p, "\n") + 1)
        buf_printf(&b, "host %.*s\n", (int)strcspn(p, "\n"), p);
    put_words(&b, "unset", &r->unset, "");
    put_words(&b, "env", &r->env, "");
    put_words(&b, "env_default", &r->env_default, "");
    put_words(&b, "secret", &r->secrets, "");
    buf_printf(&b, "timeout_ms %llu\ngrace_ms %u\nlog_limit_bytes %llu\n", (unsigned long long)r->timeout_ms,
               r->grace_ms, (unsigned long long)r->log_limit_bytes);
    for (uint32_t i = 0; i < r->worker_count; i++) {
        const struct wire_worker *w = &r->workers[i];
        buf_printf(&b, "worker %u local %u%s\n", w->rank, w->local_rank, w->shell ? " shell" : "");
        put_words(&b, "arg", &w->argv, "  ");
        put_words(&b, "env", &w->env, "  ");
    }
    const char *ret = arena_strdup(arena, b.data);
    buf_free(&b);
    return ret;
}

#endif
