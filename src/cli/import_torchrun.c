/* A torchrun command line, as torch's own parser (argparse with PET_ variables) reads it. */
#include "import.h"

#include <string.h>

const char *import_value(const struct import *im, const char *name)
{
    for (size_t i = 0; i < im->flag_count; i++)
        if (str_eq(im->flags[i]->name, name))
            return im->values[i];
    return NULL;
}

int import_put(struct import *im, const struct torchrun_flag *flag, const char *value, struct error *err)
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

/* ---- flags ---- */

/* By its whole name, or by a prefix that no other flag has. */
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

/* One flag; the number of words that it took, or -1. */
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
        return value                               ? error_set(err, ERROR_USAGE, "--%s takes no value", flag->name)
               : import_put(im, flag, "", err) < 0 ? -1
                                                   : 1;
    if (!value && count < 2)
        return error_set(err, ERROR_USAGE, "--%s needs a value", flag->name);
    return import_put(im, flag, value ? value : words[1], err) < 0 ? -1 : value ? 1 : 2;
}

int import_torchrun(const char *const *words, size_t count, struct arena *arena, struct import *ret, struct error *err)
{
    size_t i;
    const char **env = arena_array(arena, count + 1, sizeof *env);
    *ret = (struct import){.arena = arena, .env = env};
    if (import_before(ret, words, count, env, &i, err) < 0)
        return -1;
    while (i < count && words[i][0] == '-' && words[i][1]) {
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
