/*
 * Facts about this node, read from /proc, /sys and a few files; nothing is executed. HELLO waits for them, so each fact
 * may cost only a few system calls.
 */
#include "internal.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { TEXT_MAX = 8192, CPUS_MAX = 8192, PASSWD_MAX = 4 << 20 };

/* Up to TEXT_MAX bytes of a file, NUL-terminated; false when it cannot be read. */
static bool read_text(const char *path, char text[TEXT_MAX + 1])
{
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t len = 0;
    while (len < TEXT_MAX) {
        ssize_t n = read(fd, text + len, TEXT_MAX - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    text[len] = 0;
    return true;
}

char *facts_line(const char *path, struct arena *arena)
{
    char text[TEXT_MAX + 1];
    if (!read_text(path, text))
        return arena_strdup(arena, "");
    return arena_strndup(arena, text, strcspn(text, "\n"));
}

char *facts_boot_id(struct arena *arena)
{
    return facts_line("/proc/sys/kernel/random/boot_id", arena);
}

char *facts_container(struct arena *arena)
{
    const char *id = getenv("RHRUN_CONTAINER");
    return arena_strndup(arena, id ? id : "", id && strspn(id, "0123456789abcdef") >= 12 ? 12 : 0);
}

/* RHRUN_IMAGE: the image's id and, after a blank, its digest, as the runtime reports them. */
static void read_image(struct arena *arena, struct wire_facts *f)
{
    const char *text = getenv("RHRUN_IMAGE");
    const char *blank = text ? strchr(text, ' ') : NULL;
    bool fits = text && strlen(text) < WIRE_FACT_MAX && str_is_printable(text);
    f->image = arena_strndup(arena, fits ? text : "", fits ? strcspn(text, " ") : 0);
    f->image_digest = arena_strdup(arena, fits && blank ? blank + 1 : "");
}

/* ---- control groups ---- */

static bool first_number(const char **text, uint64_t *ret)
{
    size_t n = strspn(*text, "0123456789");
    char digits[24];
    if (n == 0 || n >= sizeof digits)
        return false;
    memcpy(digits, *text, n);
    digits[n] = 0;
    *text += n;
    while (**text == ' ')
        (*text)++;
    return parse_u64(digits, ret);
}

static void lower(uint64_t *value, uint64_t limit)
{
    if (limit && limit < *value)
        *value = limit;
}

/* One folder of the unified hierarchy ("QUOTA PERIOD" or "max PERIOD"), or of the old ones. */
static void cgroup_folder(const char *folder, uint64_t *cpus, uint64_t *memory)
{
    char path[PATH_MAX + 64], text[TEXT_MAX + 1];
    uint64_t quota, period, bytes;
    const char *p = text;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_text(path, text) && first_number(&p, &quota) && first_number(&p, &period) && period)
        lower(cpus, (quota + period - 1) / period);
    snprintf(path, sizeof path, "%s/memory.max", folder);
    p = text;
    if (read_text(path, text) && first_number(&p, &bytes))
        lower(memory, bytes);
}

static void cgroup_limits(uint64_t *cpus, uint64_t *memory)
{
    char text[TEXT_MAX + 1], folder[PATH_MAX];
    if (read_text("/proc/self/cgroup", text)) {
        char *line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
        if (line) {
            line += *line == '\n';
            line[strcspn(line, "\n")] = 0;
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", line + 3);
            while (strlen(folder) > strlen("/sys/fs/cgroup")) {
                cgroup_folder(folder, cpus, memory);
                *strrchr(folder, '/') = 0;
            }
        }
    }
    /* In a container this is the container's own group, whatever /proc/self/cgroup calls it. */
    cgroup_folder("/sys/fs/cgroup", cpus, memory);
    uint64_t quota, period;
    const char *p = text;
    if (read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text) && first_number(&p, &quota)) {
        p = text;
        if (read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", text) && first_number(&p, &period) && period)
            lower(cpus, (quota + period - 1) / period);
    }
    p = text;
    uint64_t bytes;
    if (read_text("/sys/fs/cgroup/memory/memory.limit_in_bytes", text) && first_number(&p, &bytes))
        lower(memory, bytes);
}

static void read_size(struct wire_facts *f)
{
    uint64_t cpus = 0, memory = 0;
    static unsigned long set[CPUS_MAX / (8 * sizeof(unsigned long))];
    if (sched_getaffinity(0, sizeof set, (cpu_set_t *)set) == 0)
        for (size_t i = 0; i < ARRAY_LEN(set); i++)
            for (unsigned long bits = set[i]; bits; bits &= bits - 1)
                cpus++;
    if (cpus == 0)
        cpus = 1;
    struct sysinfo info;
    if (sysinfo(&info) == 0)
        memory = (uint64_t)info.totalram * info.mem_unit;
    cgroup_limits(&cpus, &memory);
    f->cpus = (uint32_t)cpus;
    f->memory_bytes = memory;
}

/* ---- CPU ---- */

#if defined(__x86_64__)
/* Asks the CPU itself: /proc/cpuinfo makes some kernels measure frequencies first, for 10 ms. */
static char *cpu_model(struct arena *arena)
{
    unsigned r[12] = {0}, max = 0, rest;
    char text[sizeof r + 1], *at = text, *to = text;
    __cpuid(0x80000000u, max, rest, rest, rest);
    for (unsigned i = 0; i < 3 && max >= 0x80000004u; i++)
        __cpuid(0x80000002u + i, r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]);
    memcpy(text, r, sizeof r);
    text[sizeof r] = 0;
    for (; *at; at++) /* some CPUs pad the name with blanks */
        if (*at != ' ' || (to > text && to[-1] != ' '))
            *to++ = *at;
    while (to > text && to[-1] == ' ')
        to--;
    return arena_strndup(arena, text, (size_t)(to - text));
}
#else
/* The value of a line of /proc/cpuinfo, or "". */
static char *cpuinfo(const char *text, const char *key, struct arena *arena)
{
    const char *p = strstr(text, key);
    p = p ? strchr(p, ':') : NULL;
    p = p ? p + 1 + strspn(p + 1, " \t") : "";
    return arena_strndup(arena, p, strcspn(p, "\n"));
}

static char *cpu_model(struct arena *arena)
{
    char text[TEXT_MAX + 1];
    if (!read_text("/proc/cpuinfo", text))
        return arena_strdup(arena, "");
    char *model = cpuinfo(text, "model name", arena), *maker = cpuinfo(text, "CPU implementer", arena);
    if (*model || !*maker)
        return model;
    return arena_printf(arena, "ARM implementer %s, part %s", maker, cpuinfo(text, "CPU part", arena));
}
#endif

/* ---- GPUs ---- */

static bool is_gpu(const char *name)
{
    return strncmp(name, "nvidia", 6) == 0 && name[6] && strspn(name + 6, "0123456789") == strlen(name + 6);
}

static void read_gpus(struct arena *arena, struct wire_facts *f)
{
    struct buf models = {0};
    /* If the control device is missing, one call shows that there are no GPUs. */
    DIR *dev = access("/dev/nvidiactl", F_OK) == 0 ? opendir("/dev") : NULL;
    if (dev) {
        for (struct dirent *e; f->gpu_count < GPUS_MAX && (e = readdir(dev));)
            f->gpu_count += is_gpu(e->d_name);
        closedir(dev);
    }
    struct gpu gpus[GPUS_MAX];
    uint32_t count = f->gpu_count ? gpus_list("", arena, gpus) : 0;
    for (uint32_t i = 0; i < count; i++)
        if (*gpus[i].model)
            buf_printf(&models, "%s%s", models.len ? "\n" : "", gpus[i].model);
    f->gpus = arena_strdup(arena, models.data ? models.data : "");
    buf_free(&models);
}

/* ---- programs and names ---- */

char *facts_program(const char *name, struct arena *arena)
{
    const char *path = getenv("PATH");
    if (!path || !*path)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, ":");
        char full[PATH_MAX];
        int len = snprintf(full, sizeof full, "%.*s/%s", (int)n, p, name);
        if (*p == '/' && len > 0 && (size_t)len < sizeof full && access(full, X_OK) == 0)
            return arena_strdup(arena, full);
        p += n;
        if (!*p)
            return arena_strdup(arena, "");
    }
}

/* The version is in the last name of the chain of links: python3 -> python3.11. */
static char *python_version(const char *python, struct arena *arena)
{
    char link[64], resolved[PATH_MAX];
    CLEANUP(cleanup_close) int fd = *python ? open(python, O_PATH | O_CLOEXEC) : -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = fd < 0 ? -1 : readlink(link, resolved, sizeof resolved - 1);
    if (n > 0 && resolved[0] == '/') {
        resolved[n] = 0;
        const char *name = strrchr(resolved, '/') + 1;
        if (strncmp(name, "python3.", 8) == 0 && name[8] && strspn(name + 8, "0123456789") == strlen(name + 8))
            return arena_strdup(arena, name + 6);
    }
    return arena_strdup(arena, "");
}

static char *find_shell(struct arena *arena)
{
    if (access("/bin/bash", X_OK) == 0)
        return arena_strdup(arena, "/bin/bash");
    char *bash = facts_program("bash", arena);
    return *bash ? bash : arena_strdup(arena, "/bin/sh");
}

static char *os_name(struct arena *arena)
{
    char text[TEXT_MAX + 1];
    if (!read_text("/etc/os-release", text) && !read_text("/usr/lib/os-release", text))
        return arena_strdup(arena, "");
    static const char key[] = "PRETTY_NAME=";
    char *p = strncmp(text, key, sizeof key - 1) == 0 ? text : strstr(text, "\nPRETTY_NAME=");
    if (!p)
        return arena_strdup(arena, "");
    p = strchr(p, '=') + 1;
    p += *p == '"' || *p == '\'';
    return arena_strndup(arena, p, strcspn(p, "\"'\n"));
}

/* The third of "CLIENT PORT SERVER PORT". */
static char *reached_address(struct arena *arena)
{
    const char *p = getenv("SSH_CONNECTION");
    for (int i = 0; p && i < 2; i++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    return p ? arena_strndup(arena, p, strcspn(p, " ")) : arena_strdup(arena, "");
}

/* A field of our line in /etc/passwd, or "". (getpwuid would also ask nscd, and is as large as all of this file.) */
static char *passwd_field(int field, struct arena *arena)
{
    struct buf text = {0};
    char *found = arena_strdup(arena, ""), uid[24];
    snprintf(uid, sizeof uid, "%lu:", (unsigned long)getuid());
    if (file_read("/etc/passwd", PASSWD_MAX, &text, NULL) < 0)
        return found;
    for (char *line = text.data, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *at[6] = {line}; /* name, password, uid, gid, comment, home */
        size_t n = 1;
        for (char *p = line; n < ARRAY_LEN(at) && (p = strchr(p, ':')); n++)
            at[n] = ++p;
        if (n == ARRAY_LEN(at) && str_starts(at[2], uid)) {
            found = arena_strndup(arena, at[field], strcspn(at[field], ":"));
            break;
        }
    }
    buf_free(&text);
    return found;
}

char *facts_home(struct arena *arena)
{
    const char *home = getenv("HOME");
    return home && *home ? arena_strdup(arena, home) : passwd_field(5, arena);
}

static void read_user(struct arena *arena, struct wire_facts *f)
{
    const char *user = getenv("USER");
    f->user = user && *user ? arena_strdup(arena, user) : passwd_field(0, arena);
    f->home = facts_home(arena);
}

void facts_read(const char *base_dir, struct arena *arena, struct wire_facts *f)
{
    struct utsname u;
    memset(&u, 0, sizeof u);
    uname(&u);
    f->hostname = arena_strdup(arena, u.nodename);
    f->arch = arena_strdup(arena, u.machine);
    f->kernel = arena_strdup(arena, u.release);
    f->os = os_name(arena);
    f->boot_id = facts_boot_id(arena);
    f->machine_id = facts_line("/etc/machine-id", arena);
    f->shell = find_shell(arena);
    f->python = facts_program("python3", arena);
    f->python_version = python_version(f->python, arena);
    f->gpu_driver = facts_line("/proc/driver/nvidia/version", arena);
    f->address = reached_address(arena);
    f->cpu = cpu_model(arena);
    read_image(arena, f);
    read_user(arena, f);
    read_size(f);
    read_gpus(arena, f);
    struct statvfs fs;
    if (statvfs(base_dir, &fs) == 0)
        f->disk_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    f->mono_ns = mono_ns();
    f->wall_ms = wall_ms();
}
