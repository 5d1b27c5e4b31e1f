/* rhrun init: writes a first spec, with a comment for each value that people change next. Asks nothing, and overwrites
 * nothing. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS_MAX = 1000 };

struct init {
    const char *path, *word; /* word: the path, quoted for the shell */
    const char *name;        /* of the job; NULL: the file's name is not a valid one */
    const char *const *hosts;
    size_t host_count;
    const char *program, *program_text; /* a file next to the spec; NULL: none */
    bool function, writes_program;
};

static const char torchrun_program[] = "import os\n"
                                       "\n"
                                       "# torch.distributed.init_process_group() reads the same variables.\n"
                                       "rank, world_size = os.environ[\"RANK\"], os.environ[\"WORLD_SIZE\"]\n"
                                       "master = os.environ[\"MASTER_ADDR\"] + \":\" + os.environ[\"MASTER_PORT\"]\n"
                                       "print(f\"rank {rank} of {world_size}, which meet at {master}\")\n";
static const char function_program[] = "def main(numbers):\n"
                                       "    return {\"sum\": sum(numbers), \"mean\": sum(numbers) / len(numbers)}\n";

static bool is_plain(const char *word)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-@";
    return word[0] && word[0] != '-' && word[0] != '@' && word[0] != '.' && strspn(word, good) == strlen(word);
}

/* The $id of the schema: an editor finds it from any folder. */
static const char *schema_id(struct arena *arena)
{
    struct diagnostics d = {0};
    struct error none = ERROR_INIT;
    struct doc *doc;
    const char *text = spec_schema_text(), *id = NULL;
    if (doc_load_text("schema", text, strlen(text), DOC_FORMAT_JSON, arena, &doc, &d, &none) == 0)
        id = doc_get_string(doc->root, "$id", NULL);
    diagnostics_free(&d);
    return id;
}

enum { COMMENT_COLUMN = 33 };

static void put_cluster(const struct init *n, struct buf *b)
{
    if (n->host_count == 0) {
        buf_puts(b, "# cluster:                       # without it: this machine\n"
                    "#   hosts: [user@host1, user@host2]\n");
        return;
    }
    buf_puts(b, "cluster:\n");
    size_t begin = b->len;
    buf_puts(b, "  hosts: [");
    for (size_t i = 0; i < n->host_count; i++) {
        buf_puts(b, i ? ", " : "");
        if (is_plain(n->hosts[i]))
            buf_puts(b, n->hosts[i]);
        else
            buf_json_string(b, n->hosts[i], strlen(n->hosts[i]));
    }
    buf_putc(b, ']');
    do
        buf_putc(b, ' ');
    while (b->len - begin < COMMENT_COLUMN);
    buf_puts(b, "# names of ~/.ssh/config work, too\n"
                "  # identity_file: ~/.ssh/id_ed25519\n");
}

static void put_entrypoint(const struct init *n, struct buf *b)
{
    if (n->function) {
        buf_printf(b,
                   "entrypoint:\n"
                   "  function: \"%.*s:main\"          # its return value: rhrun result %s\n"
                   "  kwargs:\n"
                   "    numbers: [1, 2, 3]\n",
                   (int)strcspn(n->program, "."), n->program, n->word);
        return;
    }
    buf_puts(b, "distributed:\n"
                "  nproc_per_node: 2              # workers on each node; gpu: one for each GPU\n");
    if (n->program)
        buf_puts(b, "  # launcher: torchrun           # torch's own; without it rhrun starts the workers, as torchrun "
                    "does\n");
    buf_puts(b, "\nentrypoint:\n");
    if (n->program)
        buf_printf(b,
                   "  script: %s\n"
                   "  # args: [--lr, \"${{ params.lr }}\"]\n",
                   n->program);
    else
        buf_puts(b, "  run: echo \"${{ params.greeting }} from rank $RANK of $WORLD_SIZE\"\n");
}

static void put_spec(const struct init *n, const char *schema, struct buf *b)
{
    if (schema)
        buf_printf(b, "# yaml-language-server: $schema=%s\n", schema);
    buf_printf(b,
               "# rhrun %s           runs the job; run again, it does only what is missing or changed\n"
               "# rhrun plan %s      what would be done, and why\n",
               n->word, n->word);
    if (n->name)
        buf_printf(b, "name: %s\n", n->name);
    if (!n->program)
        buf_printf(b,
                   "\nparams:\n"
                   "  greeting: hello                # rhrun %s -p greeting=hi\n",
                   n->word);
    buf_putc(b, '\n');
    put_cluster(n, b);
    buf_printf(b,
               "\n%sworkdir: .                     %s# this folder is sent to every node; later only changed files\n",
               n->program ? "" : "# ", n->program ? "  " : "");
    buf_puts(b, "# packages: [\"torch>=2\"]         # installed once, into an environment of the job\n"
                "\nsetup:\n"
                "  - name: look                   # once on each node; again when its text changes\n"
                "    run: uname -srm              # any shell: fetch data, build, install\n\n");
    put_entrypoint(n, b);
    buf_puts(b, "\n# outputs:\n"
                "#   - {from: results/, to: results/}   # comes back to this machine\n");
}

/* Only as a new file: an existing one stays. */
static int write_new(const char *path, const char *text, size_t len, struct error *err)
{
    CLEANUP(cleanup_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) {
        error_set(err, ERROR_USAGE, "\"%s\" is there already, and rhrun init overwrites nothing", path);
        error_hint(err, "give another name: rhrun init FILE");
        return -1;
    }
    if (fd < 0)
        return error_errno(err, ERROR_IO, errno, "cannot write \"%s\"", path);
    if (write_all(fd, text, len) == 0)
        return 0;
    error_errno(err, ERROR_IO, errno, "cannot write \"%s\"", path);
    unlink(path);
    return -1;
}

static int read_hosts(struct cli *c, struct init *n, struct error *err)
{
    char *rest = arena_strdup(c->arena, c->given[OPT_HOSTS] ? c->value[OPT_HOSTS] : "");
    const char **hosts = arena_array(c->arena, HOSTS_MAX, sizeof *hosts);
    for (char *end, *word = strtok_r(rest, ", ", &end); word; word = strtok_r(NULL, ", ", &end)) {
        if (n->host_count == HOSTS_MAX)
            return error_set(err, ERROR_USAGE, "--hosts has more than %d hosts", HOSTS_MAX);
        hosts[n->host_count++] = word;
    }
    n->hosts = hosts;
    if (c->given[OPT_HOSTS] && n->host_count == 0)
        return error_set(err, ERROR_USAGE, "--hosts names no host");
    return 0;
}

static int read_options(struct cli *c, struct init *n, struct error *err)
{
    n->path = c->word_count ? c->words[0] : "job.yaml";
    n->word = cli_quoted(c, n->path);
    const char *slash = strrchr(n->path, '/'), *base = slash ? slash + 1 : n->path;
    const char *stem = arena_strndup(c->arena, base, strcspn(base, "."));
    n->name = is_plain(stem) && !strchr(stem, '@') && strlen(stem) <= 100 ? stem : NULL;
    n->function = c->given[OPT_FUNCTION];
    if (!str_ends(n->path, ".yaml") && !str_ends(n->path, ".yml")) {
        error_set(err, ERROR_USAGE, "\"%s\" is not the name of a spec, which ends in .yaml or .yml", n->path);
        return -1;
    }
    if (!str_is_printable(n->path))
        return error_set(err, ERROR_USAGE, "the file's name has control characters");
    if (n->function && c->given[OPT_TORCHRUN])
        return error_set(err, ERROR_USAGE, "--function and --torchrun are two kinds of job: give one of them");
    if (n->function)
        n->program = "hello.py", n->program_text = function_program;
    else if (c->given[OPT_TORCHRUN])
        n->program = "train.py", n->program_text = torchrun_program;
    return read_hosts(c, n, err);
}

/* The program is written first, so a spec never exists without it. An existing train.py is the user's, and is used. */
static int write_program(struct cli *c, struct init *n, struct error *err)
{
    const char *slash = strrchr(n->path, '/');
    if (!n->program)
        return 0;
    const char *path = arena_printf(c->arena, "%.*s%s", slash ? (int)(slash - n->path + 1) : 0, n->path, n->program);
    if (!n->function && access(path, F_OK) == 0)
        return 0;
    if (write_new(path, n->program_text, strlen(n->program_text), err) < 0)
        return -1;
    n->writes_program = true;
    n->program_text = path;
    return 0;
}

static int cmd_init(struct cli *c)
{
    struct init n = {0};
    struct error err = ERROR_INIT;
    struct spec *spec;
    struct buf text = {0};
    if (read_options(c, &n, &err) < 0)
        return cli_fail(c, &err);
    if (access(n.path, F_OK) == 0) { /* before anything is written */
        write_new(n.path, "", 0, &err);
        return cli_fail(c, &err);
    }
    if (write_program(c, &n, &err) < 0)
        return cli_fail(c, &err);
    put_spec(&n, schema_id(c->arena), &text);
    int rc = write_new(n.path, text.data, text.len, &err) < 0 ? cli_fail(c, &err) : 0;
    buf_free(&text);
    const bool written = rc == 0;
    if (rc == 0)
        rc = cli_load_spec(c, n.path, &spec); /* a host may be invalid, for example */
    if (rc) {
        if (written)
            unlink(n.path);
        if (n.writes_program)
            unlink(n.program_text);
        return rc;
    }
    if (!c->given[OPT_QUIET]) {
        fprintf(stderr, "rhrun: wrote %s%s%s\n", n.path, n.writes_program ? " and " : "",
                n.writes_program ? n.program_text : "");
        fprintf(stderr, "  rhrun %s runs it, rhrun plan %s says beforehand what that does\n", n.word, n.word);
    }
    return 0;
}

static const enum cli_option_id options[] = {OPT_HOSTS, OPT_TORCHRUN, OPT_FUNCTION, OPT_COUNT};
const struct cli_command cmd_init_command = {
    "init",
    "[FILE]",
    "Write a first spec, with comments, that runs at once",
    "The default FILE is job.yaml. Asks nothing, and overwrites no file. --hosts\n"
    "names the machines; without it the job runs on this one. --torchrun: for a\n"
    "script that runs under torchrun, train.py beside the spec, which is written,\n"
    "too, if it does not exist. --function: for a Python function, in hello.py.",
    options,
    0,
    1,
    false,
    cmd_init};
