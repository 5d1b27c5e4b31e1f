/*
 * How the agent gets to a node: sshd runs a short script there, which reads the agent from its stdin into a private
 * folder and execs it, so the channel becomes the agent's. The script needs a POSIX shell, dd, mkdir, ls, chmod, rm,
 * rmdir and uname. dd never reads too much, so the controller's messages to the agent can follow the upload at once.
 * The script answers with lines that carry a random tag, which no login file can print: WANTED ARCH, or FAILED WHY
 * INDEX FOLDER: TEXT. Then it ends, and another script is run.
 *
 * Everybody on the node can read the script while it runs, and create anything in /tmp under a name that it uses. So
 * the script makes only a folder there, by mkdir, which fails if the name exists; further names are drawn at random on
 * the node (od, tr). The script changes into the folder and checks where it is: from there on no name can lead
 * elsewhere.
 */
#include "internal.h"

#include "rhrun/wire.h"

#include <stdlib.h>
#include <string.h>

/* In the order of trial; the script expands them. Only those that exist and are writable count. */
static const char *const folders[] = {"$XDG_RUNTIME_DIR", "/tmp", "$HOME", "/var/tmp", "/dev/shm", "."};

#define MARK "RHRUN-AGENT-"

/* One line, no `!` and no single quote: csh and fish pass it on unchanged. */
static void append_script(struct transport *t, struct buf *s)
{
    const struct start *start = &t->start;
    const struct agent_binary *first = pool_agent(t->pool, start->arch);
    size_t size = first ? first->size : 0;
    /* On most machines, existing files tell their type without starting a process. */
    buf_printf(s,
               "umask 077;m=;[ -e /lib64/ld-linux-x86-64.so.2 ]&&m=x86_64;[ -e /lib/ld-linux-aarch64.so.1 ]&&m=;"
               "[ -n \"$m\" ]||m=$(uname -m);case $m in amd64)m=x86_64;;arm64)m=aarch64;;esac;case $m in %s);;",
               start->arch);
    for (size_t i = 0; i < t->pool->agent_count; i++) {
        const struct agent_binary *other = &t->pool->agents[i];
        if (other->size && strcmp(other->arch, start->arch) != 0)
            buf_printf(s, "%s)echo;echo " MARK "WANTED %s $m;exit 1;;", other->arch, start->tag);
    }
    buf_printf(s, "*)echo;echo " MARK "FAILED %s arch 0 $m;exit 1;;esac;f=;for p in", start->tag);
    for (size_t i = start->skip; i < ARRAY_LEN(folders); i++)
        buf_printf(s, " \"%zu:%s\"", i, folders[i]);
    char name[33];
    random_hex(name, 16);
    buf_printf(
        s,
        ";do i=${p%%%%:*};d=${p#*:};[ -n \"$d\" ]&&[ -d \"$d\" ]&&[ -w \"$d\" ]||continue;f=$d/.rhrun-agent-;break;"
        "done;[ -n \"$f\" ]||{ echo;echo " MARK "FAILED %s none 0;exit 1;};",
        start->tag);
    /* Any end except a successful exec removes the files and says why. s: 1 = the folder is made, 2 = we are in it. */
    buf_printf(
        s,
        "e=;s=0;end(){ case $s in 2)rm -f rhrun-agent;cd -P ..;rmdir \"${f##*/}\";;1)rmdir \"$f\";;esac;echo;echo "
        "\"" MARK "FAILED %s folder $i $d: ${e:-it cannot hold the agent}\";};trap end 0;trap \"exit 1\" 1 2 13 15;",
        start->tag);
    buf_printf(s,
               "n=%s;for k in 1 2 3 4;do e=$(mkdir -m 700 \"$f$n\" 2>&1)&&f=$f$n&&s=1&&break;"
               "[ -e \"$f$n\" ]||[ -L \"$f$n\" ]||exit 1;n=$(od -An -N16 -tx1 /dev/urandom|tr -dc 0-9a-f);done;"
               "[ $s = 1 ]||exit 1;e=\"the folder made there is not private\";[ -L \"$f\" ]&&exit 1;"
               "cd -P \"$f\" 2>/dev/null||{ e=$(cd -P \"$f\" 2>&1);exit 1;};[ -O . ]||exit 1;case $(ls -ld .) in "
               "drwx------*)s=2;;*)exit 1;;esac;",
               name);
    /* With noclobber the file is new: nothing existing is followed or reused. As POSIX says, dd prints "1+0 records in"
     * for a whole block and "0+1" for a part, so no further process is needed to count the bytes. */
    buf_printf(s,
               "set -C;e=$(dd bs=%zu count=1 iflag=fullblock 2>&1 >rhrun-agent)||exit 1;"
               "case $e in 1+0*);;*)e=\"the upload broke off\";exit 1;;esac;"
               "e=$(chmod 700 rhrun-agent 2>&1)||exit 1;e=\"programs cannot be run there\";[ -x rhrun-agent ]||exit 1;"
               "unset OLDPWD;exec ./rhrun-agent --unlink",
               size);
}

static void wrapped(struct transport *t, bool tells, struct buf *ret)
{
    struct buf script = {0};
    t->start.data = NULL;
    t->start.left = 0;
    buf_clear(&t->start.seen);
    t->start.scanned = 0;
    if (t->host.command) {
        buf_puts(&script, t->host.command);
    } else {
        if (!t->start.arch[0] || !pool_agent(t->pool, t->start.arch))
            snprintf(t->start.arch, sizeof(t->start.arch), "%s", pool_agent(t->pool, "x86_64") ? "x86_64" : "aarch64");
        random_hex(t->start.tag, 8);
        if (tells)
            buf_printf(&script, "echo;echo " MARK "SHELL %s;", t->start.tag);
        append_script(t, &script);
        const struct agent_binary *agent = pool_agent(t->pool, t->start.arch);
        if (agent) {
            t->start.data = agent->data;
            t->start.left = agent->size;
        }
    }
    buf_puts(ret, "exec /bin/sh -c ");
    if (t->host.wrap && !t->host.command) { /* the command of the script's own shell becomes arguments of the wrap */
        char *wrap = xasprintf("say(){ echo;echo \"" MARK "$1 %s $2\";};%s", t->start.tag, t->host.wrap);
        buf_shell_quote(ret, wrap);
        free(wrap);
        buf_puts(ret, " rhrun /bin/sh -c ");
    }
    buf_shell_quote(ret, script.data);
    buf_free(&script);
}

void start_command(struct transport *t, struct buf *ret)
{
    wrapped(t, false, ret);
}

void start_on_stdin(struct transport *t)
{
    struct start *s = &t->start;
    buf_clear(&s->script);
    s->script_at = 0;
    s->waits = !t->host.command;
    wrapped(t, true, &s->script);
    buf_putc(&s->script, '\n');
}

static enum start_event wanted(struct transport *t, const char *arch, struct error *err)
{
    const struct agent_binary *agent = pool_agent(t->pool, arch);
    if (!agent || strcmp(arch, t->start.arch) == 0) {
        error_set(err, ERROR_PROTOCOL, "host \"%s\": agent: the node asks for an agent that was not offered",
                  transport_target(t));
        return START_FAILED;
    }
    snprintf(t->start.arch, sizeof(t->start.arch), "%s", arch);
    return START_AGAIN;
}

/* line: "WHY INDEX REST" */
static enum start_event failed(struct transport *t, char *line, struct error *err)
{
    char *index = strchr(line, ' ');
    if (index)
        *index++ = '\0';
    char *rest = index ? strchr(index, ' ') : NULL;
    if (rest)
        *rest++ = '\0';
    for (char *p = rest; p && *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    if (strcmp(line, "arch") == 0) {
        error_set(err, ERROR_INFRA, "host \"%s\": agent: there is no agent for its machine type \"%s\"",
                  transport_target(t), rest ? rest : "");
        error_hint(err, "this rhrun brings agents for Linux on x86_64, and on aarch64 when built with it");
        return START_FAILED;
    }
    if (strcmp(line, "container") == 0) {
        error_set(err, ERROR_INFRA, "host \"%s\": container: %s", transport_target(t),
                  rest ? rest : "it is not available");
        return START_FAILED;
    }
    uint32_t i;
    if (strcmp(line, "folder") == 0 && index && parse_u32(index, &i) && i >= t->start.skip && i < ARRAY_LEN(folders)) {
        buf_printf(&t->start.tried, "%s%s", t->start.tried.len ? "; " : "", rest ? rest : folders[i]);
        t->start.skip = i + 1;
        if (t->start.skip < ARRAY_LEN(folders))
            return START_AGAIN;
    }
    error_set(err, ERROR_INFRA, "host \"%s\": agent: no folder on the node can hold and run the agent: %s",
              transport_target(t),
              t->start.tried.len ? t->start.tried.data
                                 : "none of $XDG_RUNTIME_DIR, /tmp, $HOME, /var/tmp, /dev/shm is writable");
    error_hint(err, "it needs %zu KiB in one of $XDG_RUNTIME_DIR, /tmp, $HOME, /var/tmp, /dev/shm, not mounted noexec",
               (pool_agent(t->pool, t->start.arch) ? pool_agent(t->pool, t->start.arch)->size : 0) / 1024 + 1);
    return START_FAILED;
}

enum start_event start_feed(struct transport *t, const uint8_t *data, size_t len, struct error *err)
{
    static const char magic[] = WIRE_MAGIC; /* "\n...\n" */
    struct start *s = &t->start;
    if (s->seen.len + len > WIRE_NOISE_MAX) {
        error_set(err, ERROR_PROTOCOL, "host \"%s\": agent: the node printed over %d KiB before the agent did",
                  transport_target(t), WIRE_NOISE_MAX / 1024);
        error_hint(err, "login files there (.bashrc, /etc/profile) should print nothing when not interactive");
        return START_FAILED;
    }
    buf_append(&s->seen, data, len);
    for (;;) {
        char *line = s->seen.data + s->scanned;
        char *end = memchr(line, '\n', s->seen.len - s->scanned);
        if (!end)
            return START_NONE;
        size_t size = (size_t)(end - line);
        s->scanned += size + 1;
        if (size == sizeof(magic) - 3 && memcmp(line, magic + 1, size) == 0)
            return START_OPENED;
        char mark[64];
        int n = snprintf(mark, sizeof(mark), MARK "SHELL %s", s->tag);
        if (s->waits && size == (size_t)n + 1 && memcmp(line, mark, (size_t)n) == 0 && line[n] == '\r') {
            error_set(err, ERROR_INFRA, "host \"%s\": agent: its shell is at a terminal, which would change the bytes",
                      transport_target(t));
            error_hint(err, "leave out what asks for one, such as -t or --tty");
            return START_FAILED;
        }
        if (s->waits && size == (size_t)n && memcmp(line, mark, (size_t)n) == 0) {
            s->waits = false;
            return START_SHELL;
        }
        n = snprintf(mark, sizeof(mark), MARK "BUSY %s ", s->tag);
        if (size > (size_t)n && memcmp(line, mark, (size_t)n) == 0)
            return START_BUSY;
        n = snprintf(mark, sizeof(mark), MARK "WANTED %s ", s->tag);
        if (size > (size_t)n && memcmp(line, mark, (size_t)n) == 0) {
            char *arch = xstrndup(line + n, size - (size_t)n);
            enum start_event event = wanted(t, arch, err);
            free(arch);
            return event;
        }
        n = snprintf(mark, sizeof(mark), MARK "FAILED %s ", s->tag);
        if (size > (size_t)n && memcmp(line, mark, (size_t)n) == 0) {
            char *rest = xstrndup(line + n, size - (size_t)n);
            enum start_event event = failed(t, rest, err);
            free(rest);
            return event;
        }
    }
}
