/* The words before torchrun on a command line: variables are imported; other programs are left out, each with the key
 * that replaces it. */
#include "import.h"

#include <ctype.h>
#include <string.h>

static const struct known {
    const char *name, *why;
} known[] = {
    {"srun", "cluster.hosts says on which nodes torchrun starts"},
    {"mpirun", "cluster.hosts says on which nodes torchrun starts"},
    {"mpiexec", "cluster.hosts says on which nodes torchrun starts"},
    {"ssh", "cluster.hosts says on which nodes torchrun starts"},
    {"pdsh", "cluster.hosts says on which nodes torchrun starts"},
    {"nohup", "a job goes on when the terminal is closed; rhrun --detach gives the terminal back"},
    {"setsid", "a job goes on when the terminal is closed; rhrun --detach gives the terminal back"},
    {"time", "rhrun status shows how long it took"},
    {"timeout", "entrypoint.timeout ends a job that takes longer"},
    {"sudo", "cluster.user says which user runs the job"},
    {"conda", "python.conda names an environment"},
    {"mamba", "python.conda names an environment"},
    {"micromamba", "python.conda names an environment"},
    {"uv", "python.venv, packages and requirements make the environment"},
    {"poetry", "python.venv, packages and requirements make the environment"},
    {"pipenv", "python.venv, packages and requirements make the environment"},
    {"numactl", "distributed.numa_binding binds the workers"},
    {"taskset", "distributed.numa_binding binds the workers"},
    {"tee", "rhrun logs keeps what is printed"},
    {"script", "rhrun logs keeps what is printed"},
    {"stdbuf", "workers have PYTHONUNBUFFERED=1"},
    {"env", NULL},
    {"exec", NULL},
    {"command", NULL},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const struct known *find(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_eq(base_name(word), known[i].name))
            return &known[i];
    return NULL;
}

static bool is_assignment(const char *word)
{
    size_t n = 0;
    while (isalnum((unsigned char)word[n]) || word[n] == '_')
        n++;
    return n > 0 && word[n] == '=' && !isdigit((unsigned char)*word);
}

/* PET_NNODES=2 is --nnodes=2, but a flag overrides it: so these come first. */
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
        return import_put(im, flag, word + len + 1, err);
    return str_eq(word + len + 1, "0") ? 0 : import_put(im, flag, "", err);
}

static bool is_torch_module(const char *word)
{
    return str_eq(word, "torch.distributed.run") || str_eq(word, "torch.distributed.launch");
}

static bool is_python(const char *word)
{
    return str_starts(base_name(word), "python");
}

/* python -u -m torch.distributed.run, python /path/torchrun; the number of its words, or 0. */
static size_t take_python(struct import *im, const char *const *words, size_t count)
{
    size_t i = 1;
    for (; i < count && words[i][0] == '-' && !str_eq(words[i], "-m"); i++)
        if (str_eq(words[i], "-X") || str_eq(words[i], "-W"))
            i++;
    size_t flags = i;
    if (i < count && str_eq(base_name(words[i]), "torchrun"))
        i++;
    else if (i + 1 < count && is_torch_module(words[i + 1]))
        i += 2;
    else
        return 0;
    im->legacy = str_eq(words[i - 1], "torch.distributed.launch");
    if (!str_eq(words[0], "python") && !str_eq(words[0], "python3"))
        im->python = words[0];
    if (flags > 1 && !(flags == 2 && str_eq(words[1], "-u")))
        import_leave(im, words, flags,
                     "env: {PYTHONWARNINGS: ..., PYTHONFAULTHANDLER: ...} passes these settings to every Python");
    return i;
}

/* torchrun in any of its forms; the number of its words, or 0. */
static size_t take_program(struct import *im, const char *const *words, size_t count)
{
    const char *name = base_name(words[0]);
    if (str_eq(name, "torchrun")) {
        if (name != words[0]) /* its python is in the same folder */
            im->python = arena_printf(im->arena, "%.*spython", (int)(name - words[0]), words[0]);
        return 1;
    }
    if (str_eq(name, "tune") && count > 1 && str_eq(words[1], "run")) {
        im->tune = true;
        return 2;
    }
    return is_python(name) ? take_python(im, words, count) : 0;
}

void import_leave(struct import *im, const char *const *words, size_t count, const char *why)
{
    struct buf b = {0};
    buf_puts(&b, "");
    for (size_t i = 0; i < count; i++) {
        buf_puts(&b, i ? " " : "");
        buf_shell_quote(&b, words[i]);
    }
    if (im->left_count < IMPORT_LEFT_MAX)
        im->left[im->left_count++] = (struct import_left){arena_strdup(im->arena, b.data), why};
    buf_free(&b);
}

/* One program before torchrun, with its flags; assignments among them are imported. */
static int leave_program(struct import *im, const char *const *words, size_t count, const char **env, struct error *err)
{
    const struct known *k = find(words[0]);
    const char **rest = arena_array(im->arena, count, sizeof *rest);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_assignment(words[i]) || (i > 0 && str_eq(words[i - 1], "--export")))
            rest[kept++] = words[i];
        else if (take_variable(im, words[i], env, err) < 0)
            return -1;
    }
    if (kept > 1 || (kept == 1 && !(k && !k->why)))
        import_leave(im, rest, kept,
                     k && k->why ? k->why : "rhrun does not know it; activate, setup or prolog may do it");
    return 0;
}

int import_before(struct import *im, const char *const *words, size_t count, const char **env, size_t *ret,
                  struct error *err)
{
    size_t first = 0, at, program = 0;
    while (first < count && is_assignment(words[first]))
        first++;
    for (at = first; at < count && program == 0 && !str_ends(words[at], ".py"); at += program == 0)
        program = at == first && *words[at] == '-' ? 0 : take_program(im, words + at, count - at);
    if (program == 0)
        at = first; /* bare flags or a script: the word torchrun is missing */
    for (size_t i = 0; i < first; i++)
        if (take_variable(im, words[i], env, err) < 0)
            return -1;
    for (size_t i = first, end; i < at; i = end) {
        end = i + 1;
        while (end < at && !find(words[end]))
            end++;
        if (leave_program(im, words + i, end - i, env, err) < 0)
            return -1;
    }
    *ret = at + program;
    if (program > 0 || at == count || *words[at] == '-' || str_ends(words[at], ".py"))
        return 0;
    error_set(err, ERROR_USAGE, "\"%s\" is not torchrun", words[at]);
    error_hint(err, "torchrun FLAG... PROGRAM ARG..., or python -m torch.distributed.run FLAG... PROGRAM ARG...");
    return -1;
}
