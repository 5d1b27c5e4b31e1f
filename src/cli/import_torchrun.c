/* A torchrun command line, as torch's own parser (argparse with PET_ variables) reads it. */
#include "import.h"

#include <ctype.h>
#include <string.h>

const char *import_value(const struct import *im, const char *name)
{
    for (size_t i = 0; i < im->flag_count; i++)
        if (str_eq(im->flags[i]->name, name))
            return im->values[i];
    return NULL;
}

static int put(struct import *im, const struct torchrun_flag *flag, const char *value, struct error *err)
{
    for (size_t i = 0; i < im->flag_count; i++)
        if (im->flags[i] == flag) {
            im->values[i] = value;
            return 0;
        }
    if (im->flag_count == IMPORT_FLAGS_MAX)
        return error_set(err, ERROR_USAGE, "too many flags");
    im->flags[im->flag_count] = flag;
    im->values[im->flag_count++] = value;
    return 0;
}

/* ---- before the flags ---- */

static bool is_assignment(const char *word)
{
    size_t n = 0;
    while (isalnum((unsigned char)word[n]) || word[n] == '_')
        n++;
    return n > 0 && word[n] == '=' && !isdigit((unsigned char)*word);
}

/* PET_NNODES=2 is --nnodes=2, but the flag wins: these come first. */
static int take_variable(struct import *im, const char *word, const char **env, struct error *err)
{
    char name[64];
    size_t len = strcspn(word, "=");
    if (!str_starts(word, "PET_") || len >= sizeof name) {
        env[im->env_count++] = word;
        return 0;
    }
    for (size_t i = 4; i <= len; i++)
        name[i - 4] = i < len ? (char)tolower((unsigned char)word[i]) : 0;
    const struct torchrun_flag *flag = torchrun_flag_find(name, len - 4);
    if (!flag || !flag->env)
        return error_set(err, ERROR_USAGE, "torchrun reads no variable %.*s", (int)len, word);
    if (flag->type != TORCHRUN_BOOLEAN)
        return put(im, flag, word + len + 1, err);
    return str_eq(word + len + 1, "0") ? 0 : put(im, flag, "", err);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* torchrun, or python -m torch.distributed.run; its words are counted. */
static size_t take_program(struct import *im, const char *const *words, size_t count)
{
    const char *name = count ? base_name(words[0]) : "";
    if (str_eq(name, "torchrun")) {
        if (name != words[0]) /* its python stands beside it */
            im->python = arena_printf(im->arena, "%.*spython", (int)(name - words[0]), words[0]);
        return 1;
    }
    if (!str_starts(name, "python"))
        return 0;
    size_t i = 1;
    while (i < count && str_eq(words[i], "-u"))
        i++;
    if (i + 1 >= count || !str_eq(words[i], "-m"))
        return 0;
    im->legacy = str_eq(words[i + 1], "torch.distributed.launch");
    if (!im->legacy && !str_eq(words[i + 1], "torch.distributed.run"))
        return 0;
    if (!str_eq(words[0], "python") && !str_eq(words[0], "python3"))
        im->python = words[0];
    return i + 2;
}

/* ---- flags ---- */

/* By its whole name, or by a beginning that no other has. */
static const struct torchrun_flag *by_name(const char *name, size_t len, const struct torchrun_flag **ret_other)
{
    const struct torchrun_flag *found = torchrun_flag_find(name, len);
    *ret_other = NULL;
    if (found)
        return found;
    for (const struct torchrun_flag *f = torchrun_flags; f->name; f++) {
        size_t i = 0;
        while (i < len && f->name[i] && (name[i] == '-' ? '_' : name[i]) == f->name[i])
            i++;
        if (i < len || len == 0)
            continue;
        if (found)
            *ret_other = f;
        else
            found = f;
    }
    return found;
}

static const struct torchrun_flag *by_letter(char letter)
{
    for (const struct torchrun_flag *f = torchrun_flags; f->name; f++)
        if (letter && f->letter == letter)
            return f;
    return NULL;
}

static int unknown(const char *word, size_t len, struct error *err)
{
    const char *names[IMPORT_FLAGS_MAX];
    size_t count = 0;
    for (const struct torchrun_flag *f = torchrun_flags; f->name && count + 1 < ARRAY_LEN(names); f++)
        names[count++] = f->name;
    names[count] = NULL;
    CLEANUP(cleanup_free) char *name = xstrndup(word, len);
    const char *near = str_nearest(name + strspn(name, "-"), names);
    error_set(err, ERROR_USAGE, "torchrun has no flag %s", name);
    if (near)
        error_hint(err, "did you mean --%s?", near);
    return -1;
}

/* One flag; how many words it took, or -1. */
static int take_flag(struct import *im, const char *const *words, size_t count, struct error *err)
{
    const char *word = words[0], *value = NULL;
    const struct torchrun_flag *flag, *other = NULL;
    size_t len = strlen(word);
    if (word[1] == '-') {
        len = strcspn(word, "=");
        flag = by_name(word + 2, len - 2, &other);
        value = word[len] ? word + len + 1 : NULL;
    } else {
        flag = by_letter(word[1]);
        len = 2;
        if (flag && word[2])
            value = word + 2 + (word[2] == '=');
    }
    if (im->legacy && (str_eq(word, "--use_env") || str_eq(word, "--use-env"))) {
        im->legacy = false;
        return 1;
    }
    if (other)
        return error_set(err, ERROR_USAGE, "%.*s may be --%s or --%s", (int)len, word, flag->name, other->name);
    if (!flag && (str_eq(word, "-h") || str_eq(word, "--help")))
        return error_set(err, ERROR_USAGE, "%s starts no job", word);
    if (!flag)
        return unknown(word, len, err);
    if (flag->origin == TORCHRUN_NEVER)
        return error_set(err, ERROR_USAGE, "--%s starts no job", flag->name);
    if (flag->type == TORCHRUN_BOOLEAN)
        return value                        ? error_set(err, ERROR_USAGE, "--%s takes no value", flag->name)
               : put(im, flag, "", err) < 0 ? -1
                                            : 1;
    if (!value && count < 2)
        return error_set(err, ERROR_USAGE, "--%s needs a value", flag->name);
    return put(im, flag, value ? value : words[1], err) < 0 ? -1 : value ? 1 : 2;
}

int import_torchrun(const char *const *words, size_t count, struct arena *arena, struct import *ret, struct error *err)
{
    size_t i = 0;
    const char **env = arena_array(arena, count + 1, sizeof *env);
    *ret = (struct import){.arena = arena, .env = env};
    if (i < count && str_eq(words[i], "env"))
        i++;
    for (; i < count && is_assignment(words[i]); i++)
        if (take_variable(ret, words[i], env, err) < 0)
            return -1;
    size_t program = take_program(ret, words + i, count - i);
    if (program == 0 && i < count && *words[i] != '-' && !str_ends(words[i], ".py")) {
        error_set(err, ERROR_USAGE, "\"%s\" is no torchrun", words[i]);
        error_hint(err, "torchrun FLAG... PROGRAM ARG..., or python -m torch.distributed.run FLAG... PROGRAM ARG...");
        return -1;
    }
    for (i += program; i < count && words[i][0] == '-' && words[i][1];) {
        if (str_eq(words[i], "--")) {
            i++;
            break;
        }
        int took = take_flag(ret, words + i, count - i, err);
        if (took < 0)
            return -1;
        i += (size_t)took;
    }
    if (i >= count)
        return error_set(err, ERROR_USAGE, "the command line names no program to start");
    ret->target = words[i];
    ret->args = words + i + 1;
    ret->arg_count = count - i - 1;
    return 0;
}
