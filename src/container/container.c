/* The texts for the node's shell. See container.h. */
#include "rhrun/container.h"

#include "rhrun/spec.h"

#include <string.h>

/* r, the runtime, and n, the container's name. Before it stands fail TEXT, which says why the text ends: to rhrun, or to
 * stderr. */
static void put_head(const struct container_place *p, struct buf *b)
{
    const struct spec_container *c = p->host->container;
    const char *runtime = c->runtime;
    if (runtime)
        buf_printf(b, "r=%s;command -v $r >/dev/null 2>&1||fail \"$r is not installed there\";", runtime);
    else
        buf_puts(b, "r=;for k in docker podman;do command -v $k >/dev/null 2>&1&&r=$k&&break;done;"
                    "[ -n \"$r\" ]||fail \"neither docker nor podman is installed there\";");
    buf_printf(b, "n=rhrun-%s-%u-$(id -u);", p->job, p->node);
}

/* "SOURCE:TARGET[:OPTIONS]" */
static void put_mount(const char *mount, struct buf *b)
{
    buf_puts(b, "m=");
    buf_shell_quote(b, mount);
    buf_puts(b, ";case $m in \"~/\"*)m=$HOME/${m#??};;esac;"
                "[ -e \"${m%%:*}\" ]||{ echo \"${m%%:*}, a mount, is not there\";exit 1; };set -- \"$@\" -v \"$m\";");
}

/* The words of `run` behind the runtime's name, as a function of the shell: its arguments would be those of the text
 * else, which are the agent's. What the spec says comes last and wins. */
static void put_run(const struct container_place *p, struct buf *b)
{
    const struct spec_container *c = p->host->container;
    buf_puts(b, "u=$(id -un 2>/dev/null||id -u);");
    buf_printf(b,
               "make(){ set -- run -d --name \"$n\" --label rhrun.of=$h --label rhrun.job=%s --network host --ipc host "
               "-e \"HOME=$HOME\" -e \"USER=$u\" -e \"LOGNAME=$u\" -v \"$HOME:$HOME\";",
               p->job);
    /* As the same machine the ledger knows it inside and outside. */
    buf_puts(b, "[ ! -s /etc/machine-id ]||set -- \"$@\" -v /etc/machine-id:/etc/machine-id:ro;");
    /* podman without root makes the user's number its own with keep-id; groups are kept by it alone */
    buf_puts(b, "if [ $r = podman ];then [ $(id -u) = 0 ]||set -- \"$@\" --userns keep-id --group-add keep-groups;else "
                "set -- \"$@\" --user \"$(id -u):$(id -g)\";"
                "for g in $(id -G);do set -- \"$@\" --group-add $g;done;fi;");
    buf_puts(b, "if [ -e /dev/nvidiactl ];then if [ $r = podman ];then set -- \"$@\" --device nvidia.com/gpu=all;"
                "else set -- \"$@\" --gpus all;fi;fi;");
    if (p->host->work_dir) {
        buf_puts(b, "m=");
        buf_shell_quote(b, p->host->work_dir);
        buf_puts(b, ";set -- \"$@\" -v \"$m:$m\";");
    }
    for (size_t i = 0; i < c->mount_count; i++)
        put_mount(c->mounts[i], b);
    buf_puts(b, "set -- \"$@\" --pull never --entrypoint /bin/sh");
    for (size_t i = 0; i < c->option_count; i++) {
        buf_putc(b, ' ');
        buf_shell_quote(b, c->options[i]);
    }
    /* The first process reaps what others leave, as `wait` of a shell does. */
    buf_puts(b, " \"$i\" -c \"trap \\\"exit 0\\\" TERM;while :;do sleep 86400& wait \\$!;done\";"
                "$r \"$@\" </dev/null 2>&1; };");
}

/* Pulling takes as long as it takes: a line now and then says that the node is at it, for two hours at most. */
static void put_pull(struct buf *b)
{
    buf_puts(b, "pull(){ (trap \"kill \\$s;exit\" 15;t=0;while [ $t -lt 1800 ]&&say BUSY \"pulling $i\";do "
                "sleep 4 >/dev/null 2>&1& s=$!;wait $s;t=$((t+1));done)& k=$!;"
                "e=$($r pull -q \"$i\" </dev/null 2>&1);c=$?;kill $k;wait $k;[ $c = 0 ]||fail \"image $i: $e\"; };");
}

void container_wrap(const struct container_place *p, bool may_make, struct buf *b)
{
    const struct spec_container *c = p->host->container;
    char hash[65];
    digest_sha256_hex(c->text, strlen(c->text), hash);
    /* What the runtime says may have several lines: the first that says something, and is no container's id. */
    buf_puts(
        b,
        "fail(){ l=$(printf \"%s\\n\" \"$1\"|grep \"[^0-9a-f]\"|head -n 1);say FAILED \"container 0 $l\";exit 1; };");
    put_head(p, b);
    buf_printf(b, "h=%.16s;i=", hash);
    buf_shell_quote(b, c->image);
    /* s: does it run? o: of which spec it is; g: its image; d: its own id */
    buf_puts(b, ";look(){ x=$($r container inspect -f \"{{.State.Running}} {{index .Config.Labels \\\"rhrun.of\\\"}} "
                "{{.Image}} {{.Id}}\" \"$n\" </dev/null 2>/dev/null)||x=;"
                "set -- $x;s=$1;o=$2;g=$3;d=$4; };");
    if (!may_make) {
        buf_puts(b, "look;[ \"$s\" = true ]||exec \"$@\";");
    } else {
        buf_puts(
            b,
            "[ -d \"$HOME\" ]&&[ \"$HOME\" != / ]||fail \"the user has no home folder that a container could have\";");
        put_run(p, b);
        put_pull(b);
        buf_puts(b, "gone(){ $r rm -f -v \"$n\" </dev/null >/dev/null 2>&1;s=;};have(){ w=$($r image inspect -f "
                    "\"{{.Id}}\" \"$i\" </dev/null 2>/dev/null);[ -n \"$w\" ]; };");
        buf_puts(b, "busy(){ [ $s = true ]||return 1;$r exec \"$n\" /bin/sh -c \"for c in /proc/[0-9]*/comm;do "
                    "read -r c<\\$c;case \\$c in rhrun-supervis*)exit 0;;esac;done 2>/dev/null;exit 9\" </dev/null "
                    ">/dev/null 2>&1;[ $? != 9 ]; };look;");
        if (c->pull == PULL_ALWAYS)
            buf_puts(b, "pull;");
        /* Of another spec, or of an image that has moved: a new one, but not while something of rhrun runs in it. */
        buf_puts(b,
                 "if [ -n \"$s\" ]&&[ \"$o\" != $h ];then busy&&fail \"an earlier run, with another image, options or "
                 "mounts, still works in $n: rhrun cancel ends it\";gone;"
                 "elif [ -n \"$s\" ]&&have&&[ \"$w\" != \"$g\" ];then busy||gone;fi;");
        /* Where it cannot be made: another connection has made it meanwhile, or its image is not there. */
        buf_puts(b, "new(){ e=$(make)&&s=true&&d=$(printf \"%s\\n\" \"$e\"|grep -x \"[0-9a-f]*\"|tail -n 1); };"
                    "if [ -z \"$s\" ];then new||{ look;[ \"$s $o\" = \"true $h\" ]||{ have&&fail \"$e\";");
        buf_puts(b, c->pull == PULL_NEVER ? "fail \"image $i is not there, and pull is never\";" : "pull;");
        buf_puts(b, "new||fail \"$e\"; }; };"
                    "elif [ $s != true ];then e=$($r start \"$n\" </dev/null 2>&1)||fail \"$e\";fi;");
    }
    buf_puts(b, "exec $r exec -i -e \"RHRUN_CONTAINER=$d\" -e \"SSH_CONNECTION=$SSH_CONNECTION\" \"$n\" \"$@\"");
}

#define FAIL_TO_STDERR "fail(){ echo \"$1\" >&2;exit 1; };"

void container_enter(const struct container_place *p, bool terminal, const char *folder, const char *text,
                     struct buf *b)
{
    buf_puts(b, FAIL_TO_STDERR);
    put_head(p, b);
    buf_puts(b, "[ \"$($r container inspect -f \"{{.State.Running}}\" \"$n\" </dev/null 2>/dev/null)\" = true ]||"
                "fail \"container $n does not run there: the job makes it when it is run\";");
    buf_printf(b, "exec $r exec -i%s ", terminal ? "t -e \"TERM=$TERM\"" : "");
    if (folder) {
        buf_puts(b, "-w ");
        buf_shell_quote(b, folder);
    }
    buf_puts(b, " \"$n\" /bin/sh -c ");
    buf_shell_quote(b, text);
}

void container_down(const struct container_place *p, struct buf *b)
{
    buf_puts(b, FAIL_TO_STDERR);
    put_head(p, b);
    /* Where there is none, docker says so, and podman nothing. */
    buf_puts(b, "e=$($r rm -f -v \"$n\" </dev/null 2>&1);c=$?;case $c:$e in *o\\ such\\ container*|0:)"
                "echo " CONTAINER_WAS_GONE ";;0:*)echo " CONTAINER_GONE ";;*)fail \"$e\";;esac");
}
