/*
 * The flags of torch.distributed.run, read from the files of torch 1.13 to 2.15. Names with dashes came in 2.0; all
 * versions take underscores. Changes of meaning: nproc_per_node takes xpu since 2.10, and the name of a custom backend
 * since 2.1; monitor_interval was 5 before 2.4; standalone took port 29400 before 2.1 and takes a free one since;
 * master_port has no default since 2.12, and one node without it gets a c10d rendezvous.
 */
#include "internal.h"

#include <string.h>

#define SINCE(major, minor) ((major)*100 + (minor))

static const char *const backends[] = {"static", "c10d", "etcd", "etcd-v2", NULL};
static const char *const start_methods[] = {"spawn", "fork", "forkserver", NULL};
static const char *const affinities[] = {"node", "socket", "exclusive", "core-complex", NULL};
static const char *const shells[] = {"bash", "zsh", "tcsh", NULL};

#define FLAG(n, t, o, ...)                                                                \
    {                                                                                     \
        .name = n, .env = true, .type = TORCHRUN_##t, .origin = TORCHRUN_##o, __VA_ARGS__ \
    }

const struct torchrun_flag torchrun_flags[] = {
    FLAG("nnodes", STRING, COMPUTED, .since = TORCHRUN_OLDEST, .otherwise = "1:1",
         .meaning = "How many nodes take part: a number, or MIN:MAX."),
    FLAG("nproc_per_node", STRING, COMPUTED, .since = TORCHRUN_OLDEST, .otherwise = "1",
         .meaning = "Workers on a node: a number, cpu, gpu, xpu (since 2.10) or auto."),
    FLAG("rdzv_backend", CHOICE, GIVEN, .keyed = true, .since = TORCHRUN_OLDEST, .choices = backends,
         .otherwise = "static", .meaning = "How the nodes find each other."),
    FLAG("rdzv_endpoint", STRING, COMPUTED, .since = TORCHRUN_OLDEST, .otherwise = "",
         .meaning = "HOST:PORT where the nodes meet with c10d or etcd."),
    FLAG("rdzv_id", STRING, COMPUTED, .since = TORCHRUN_OLDEST, .otherwise = "none",
         .meaning = "The name of the rendezvous."),
    FLAG("rdzv_conf", MAP, GIVEN, .since = TORCHRUN_OLDEST, .otherwise = "",
         .meaning = "Settings of the rendezvous: join_timeout, last_call_timeout, read_timeout, ..."),
    FLAG("standalone", BOOLEAN, GIVEN, .keyed = true, .since = TORCHRUN_OLDEST, .otherwise = "false",
         .meaning = "One node with a rendezvous of its own."),
    FLAG("max_restarts", INTEGER, COMPUTED, .since = TORCHRUN_OLDEST, .otherwise = "0",
         .meaning = "How often the workers are started again."),
    FLAG("monitor_interval", NUMBER, GIVEN, .since = TORCHRUN_OLDEST, .otherwise = "0.1",
         .meaning = "Seconds between two checks of the workers; 5 before torch 2.4."),
    FLAG("start_method", CHOICE, GIVEN, .keyed = true, .since = TORCHRUN_OLDEST, .choices = start_methods,
         .otherwise = "spawn", .meaning = "How Python makes the processes of run_path."),
    FLAG("event_log_handler", STRING, GIVEN, .since = SINCE(2, 8), .otherwise = "null",
         .meaning = "The registered handler that gets torch's own events."),
    FLAG("role", STRING, GIVEN, .keyed = true, .since = TORCHRUN_OLDEST, .otherwise = "default",
         .meaning = "ROLE_NAME of the workers."),
    FLAG("module", BOOLEAN, OWN, .letter = 'm', .since = TORCHRUN_OLDEST, .otherwise = "false",
         .meaning = "The program is a module: `entrypoint.module`."),
    FLAG("no_python", BOOLEAN, OWN, .since = TORCHRUN_OLDEST, .otherwise = "false",
         .meaning = "The program is not a Python script: `entrypoint.command`."),
    FLAG("run_path", BOOLEAN, GIVEN, .keyed = true, .since = TORCHRUN_OLDEST, .otherwise = "false",
         .meaning = "The script runs in torch's own interpreter, by runpy."),
    FLAG("log_dir", STRING, GIVEN, .since = TORCHRUN_OLDEST, .otherwise = "a folder in /tmp",
         .meaning = "Folder on the node for redirects and tee."),
    FLAG("redirects", STD, GIVEN, .letter = 'r', .since = TORCHRUN_OLDEST, .otherwise = "0",
         .meaning = "Streams that go to files in log_dir, and not to rhrun."),
    FLAG("tee", STD, GIVEN, .letter = 't', .since = TORCHRUN_OLDEST, .otherwise = "0",
         .meaning = "Streams that go both to files in log_dir and to rhrun, with the local rank before each line."),
    FLAG("log_line_prefix_template", STRING, GIVEN, .since = SINCE(2, 14), .otherwise = "",
         .meaning = "The text before each line of a stream with tee."),
    FLAG("local_ranks_filter", RANKS, GIVEN, .since = SINCE(2, 3), .otherwise = "",
         .meaning = "Only the output of these local ranks is shown."),
    FLAG("duplicate_stdout_filters", LIST, GIVEN, .since = SINCE(2, 10), .otherwise = "",
         .meaning = "Lines of stdout with one of these texts go to a file in log_dir too."),
    FLAG("duplicate_stderr_filters", LIST, GIVEN, .since = SINCE(2, 10), .otherwise = "",
         .meaning = "Lines of stderr with one of these texts go to a file in log_dir too."),
    FLAG("node_rank", INTEGER, OWN, .since = TORCHRUN_OLDEST, .otherwise = "0",
         .meaning = "The node's place in the list of hosts; static only."),
    FLAG("master_addr", STRING, COMPUTED, .since = TORCHRUN_OLDEST, .otherwise = "127.0.0.1",
         .meaning = "Address of the first node; static only."),
    FLAG("master_port", INTEGER, COMPUTED, .since = TORCHRUN_OLDEST, .otherwise = "29500",
         .meaning = "Port of the rendezvous on the first node."),
    FLAG("local_addr", STRING, COMPUTED, .since = SINCE(2, 0), .otherwise = "the host's name",
         .meaning = "The node's address for the others."),
    {.name = "logs_specs",
     .type = TORCHRUN_STRING,
     .origin = TORCHRUN_GIVEN,
     .since = SINCE(2, 3),
     .otherwise = "",
     .meaning = "A class of one's own that says where logs go: an entry point of the group torchrun.logs_specs."},
    {.name = "numa_binding",
     .type = TORCHRUN_CHOICE,
     .origin = TORCHRUN_GIVEN,
     .since = SINCE(2, 9),
     .keyed = true,
     .choices = affinities,
     .otherwise = "",
     .meaning = "Binds workers to CPUs near their GPUs."},
    FLAG("signals_to_handle", SIGNALS, GIVEN, .since = SINCE(2, 10), .otherwise = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
         .meaning = "Signals that torchrun passes on to the workers."),
    FLAG("shutdown_timeout", INTEGER, GIVEN, .since = SINCE(2, 12), .otherwise = "30",
         .meaning = "Seconds between SIGTERM and SIGKILL to the workers."),
    FLAG("virtual_local_rank", BOOLEAN, GIVEN, .keyed = true, .since = SINCE(2, 10), .otherwise = "false",
         .meaning = "LOCAL_RANK is 0 for every worker, and each worker sees only its own GPU."),
    {.name = "print_completion",
     .type = TORCHRUN_CHOICE,
     .origin = TORCHRUN_NEVER,
     .since = SINCE(2, 14),
     .choices = shells,
     .otherwise = "",
     .meaning = "Prints a shell's completion and ends."},
    {.name = NULL},
};

const struct torchrun_flag *torchrun_flag_find(const char *name, size_t len)
{
    for (const struct torchrun_flag *f = torchrun_flags; f->name; f++) {
        size_t i = 0;
        while (i < len && f->name[i] && (name[i] == '-' ? '_' : name[i]) == f->name[i])
            i++;
        if (i == len && !f->name[i])
            return f;
    }
    return NULL;
}
