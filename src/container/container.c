/* The scripts for the host's shell. See container.h. */
#include "rhrun/container.h"

#include "rhrun/spec.h"

#include <string.h>

/* Sets r, the runtime, and n, the container's name. The function `fail TEXT`, which reports to rhrun or to stderr why
 * the script ends, must be defined before. */
static void put_head(const struct container_place *p, struct buf *b)
{
    const struct spec_container *c = p->host->container;
    const char *runtime = c->runtime;
    if (runtime)
        buf_printf(b, "r=%s;command -v $r >/dev/null 2>&1||fail \"$r is not installed there\";", runtime);
    else
        buf_puts(b, "r=;for k in docker podman apptainer;do command -v $k >/dev/null 2>&1&&r=$k&&break;done;"
                    "[ -n \"$r\" ]||fail \"none of docker, podman and apptainer is installed there\";");
    buf_printf(b, "n=rhrun-%s-%u-$(id -u);", p->job, p->node);
}

/* Script parts that differ between the runtimes: the part for the given runtime, or both, between which the host
 * chooses. */
static void put_by_runtime(const struct container_place *p, struct buf *b,
                           void (*engine)(const struct container_place *p, struct buf *b),
                           void (*apptainer)(const struct container_place *p, struct buf *b))
{
    const char *runtime = p->host->container->runtime;
    if (!runtime)
        buf_puts(b, "if [ $r = apptainer ];then ");
    if (!runtime || str_eq(runtime, "apptainer"))
        apptainer(p, b);
    if (!runtime)
        buf_puts(b, "else ");
    if (!runtime || !str_eq(runtime, "apptainer"))
        engine(p, b);
    if (!runtime)
        buf_puts(b, "fi;");
}

/* ---- words for both kinds ---- */

/* "SOURCE:TARGET[:OPTIONS]" */
static void put_mount(const char *mount, const char *word, struct buf *b)
{
    buf_puts(b, "m=");
    buf_shell_quote(b, mount);
    buf_printf(b,
               ";case $m in \"~/\"*)m=$HOME/${m#??};;esac;"
               "[ -e \"${m%%%%:*}\" ]||{ echo \"${m%%%%:*}, a mount, is not there\";exit 1; };set -- \"$@\" %s \"$m\";",
               word);
}

static void put_mounts(const struct container_place *p, const char *word, struct buf *b)
{
    const struct spec_container *c = p->host->container;
    /* So that the ledger sees the same machine inside and outside. */
    buf_printf(b, "[ ! -s /etc/machine-id ]||set -- \"$@\" %s /etc/machine-id:/etc/machine-id:ro;", word);
    if (p->host->work_dir) {
        buf_puts(b, "m=");
        buf_shell_quote(b, p->host->work_dir);
        buf_printf(b, ";set -- \"$@\" %s \"$m:$m\";", word);
    }
    for (size_t i = 0; i < c->mount_count; i++)
        put_mount(c->mounts[i], word, b);
}

static void put_options(const struct container_place *p, struct buf *b)
{
    const struct spec_container *c = p->host->container;
    for (size_t i = 0; i < c->option_count; i++) {
        buf_putc(b, ' ');
        buf_shell_quote(b, c->options[i]);
    }
}

/* long WHAT COMMAND...: runs a command that may take long; a line now and then reports that the host is busy, for two
 * hours at most. The command's output is in e. */
static void put_long(struct buf *b)
{
    buf_puts(b, "long(){ (trap \"kill \\$s;exit\" 15;t=0;while [ $t -lt 1800 ]&&say BUSY \"$1\";do "
                "sleep 4 >/dev/null 2>&1& s=$!;wait $s;t=$((t+1));done)& k=$!;shift;"
                "e=$(\"$@\" </dev/null 2>&1);c=$?;kill $k;wait $k;return $c; };");
}

/* ---- docker and podman ---- */

/* The arguments of `run` after the runtime's name, as a shell function, because the script's own arguments are the
 * agent's. The spec's options come last and win. */
static void engine_run(const struct container_place *p, struct buf *b)
{
    buf_puts(b, "u=$(id -un 2>/dev/null||id -u);");
    buf_printf(b,
               "make(){ set -- run -d --name \"$n\" --label rhrun.of=$h --label rhrun.job=%s --network host --ipc host "
               "-e \"HOME=$HOME\" -e \"USER=$u\" -e \"LOGNAME=$u\" -v \"$HOME:$HOME\";",
               p->job);
    /* rootless podman keeps the user's id only with keep-id, which also keeps the groups */
    buf_puts(b, "if [ $r = podman ];then [ $(id -u) = 0 ]||set -- \"$@\" --userns keep-id --group-add keep-groups;else "
                "set -- \"$@\" --user \"$(id -u):$(id -g)\";"
                "for g in $(id -G);do set -- \"$@\" --group-add $g;done;fi;");
    buf_puts(b, "if [ -e /dev/nvidiactl ];then if [ $r = podman ];then set -- \"$@\" --device nvidia.com/gpu=all;"
                "else set -- \"$@\" --gpus all;fi;fi;");
    put_mounts(p, "-v", b);
    buf_puts(b, "set -- \"$@\" --pull never --entrypoint /bin/sh");
    put_options(p, b);
    /* The first process reaps orphans, as a shell's `wait` does. */
    buf_puts(b, " \"$i\" -c \"trap \\\"exit 0\\\" TERM;while :;do sleep 86400& wait \\$!;done\";"
                "$r \"$@\" </dev/null 2>&1; };");
}

/* Of the container: s: whether it runs; o: its spec; g: its image; d: its id. Of the image with that name: w: its id;
 * v: its digest in a registry */
static void engine_look(const struct container_place *p, struct buf *b)
{
    (void)p;
    buf_puts(b, "w=;v=;have(){ w=$($r image inspect -f \"{{.Id}}{{range .RepoDigests}} {{.}}{{end}}\" \"$i\" "
                "</dev/null 2>/dev/null)||w=;set -- $w;w=$1;v=$2;[ -n \"$w\" ]; };"
                "look(){ x=$($r container inspect -f \"{{.State.Running}} {{index .Config.Labels \\\"rhrun.of\\\"}} "
                "{{.Image}} {{.Id}}\" \"$n\" </dev/null 2>/dev/null)||x=;"
                "set -- $x;s=$1;o=$2;g=$3;d=$4; };"
                "inside(){ $r exec \"$n\" /bin/sh -c \"$1\" </dev/null >/dev/null 2>&1; };");
}

static void engine_make(const struct container_place *p, struct buf *b)
{
    engine_run(p, b);
    buf_puts(b, "pull(){ long \"pulling $i\" $r pull -q \"$i\"||fail \"image $i: $e\"; };"
                "gone(){ $r rm -f -v \"$n\" </dev/null >/dev/null 2>&1;s=;};"
                "begin(){ e=$($r start \"$n\" </dev/null 2>&1); };"
                "new(){ e=$(make)&&look&&{ have||:; }; };");
}

static void engine_exec(const struct container_place *p, struct buf *b)
{
    (void)p;
    buf_puts(b, "[ \"$w\" != \"$g\" ]||g=\"$g $v\";"
                "exec $r exec -i -e \"RHRUN_CONTAINER=$d\" -e \"RHRUN_IMAGE=$g\" -e \"SSH_CONNECTION=$SSH_CONNECTION\" "
                "\"$n\" \"$@\";");
}

/* ---- apptainer: the container is an instance ---- */

/* An instance has no labels, so its name has the spec and the image after the container's name. Its id is the pid and
 * start time of its first process, in hexadecimal. l: its name. */
static void apptainer_look(const struct container_place *p, struct buf *b)
{
    (void)p;
    buf_puts(b,
             "have(){ false; };look(){ s=;o=;g=;d=;x=$($r instance list -j \"$n.*\" </dev/null 2>/dev/null);"
             "l=$(printf \"%s\\n\" \"$x\"|sed -n \"s/.*\\\"instance\\\": *\\\"\\([^\\\"]*\\)\\\".*/\\1/p\"|head -n 1);"
             "k=$(printf \"%s\\n\" \"$x\"|sed -n \"s/.*\\\"pid\\\": *\\([0-9]*\\).*/\\1/p\"|head -n 1);"
             "[ -n \"$l\" ]&&[ -r /proc/$k/stat ]||return 0;s=true;o=${l#\"$n.\"};g=${o#*.};o=${o%%.*};"
             "set -- $(cat /proc/$k/stat);shift 21;d=$(printf \"%06x%08x\" $k $1); };");
}

/* The image is a file or folder on the host, or else apptainer fetches it: a bare name from where docker would. A
 * file's identity is the image's; whether a fetched image has moved is not known here. */
static void apptainer_make(const struct container_place *p, struct buf *b)
{
    buf_puts(b,
             "case $i in \"~/\"*)i=$HOME/${i#??};;esac;case $i in /*|*://*);;*)i=docker://$i;;esac;"
             "make(){ set -- instance start --cleanenv --home \"$HOME\";[ ! -e /dev/nvidiactl ]||set -- \"$@\" --nv;");
    put_mounts(p, "--bind", b);
    buf_puts(b, "set -- \"$@\"");
    put_options(p, b);
    buf_puts(b, " \"$i\" \"$n.$h.$w\";$r \"$@\"; };"
                "pull(){ case $i in /*)fail \"image $i is not there\";;esac; };"
                "gone(){ $r instance stop \"$l\" </dev/null >/dev/null 2>&1;s=; };"
                "have(){ case $i in /*)w=$(stat -c %i-%Y-%s \"$i\" 2>/dev/null);;*)w=fetched;;esac;[ -n \"$w\" ]; };"
                "inside(){ $r exec \"instance://$l\" /bin/sh -c \"$1\" </dev/null >/dev/null 2>&1; };"
                "begin(){ :; };new(){ have&&long \"starting $i\" make&&look&&[ -n \"$s\" ]; };");
    if (p->host->container->pull == PULL_NEVER)
        buf_puts(b, "case $i in /*);;*)fail \"image $i is not a file there, and pull is never\";;esac;");
}

static void apptainer_exec(const struct container_place *p, struct buf *b)
{
    (void)p;
    buf_puts(b, "exec $r exec --cleanenv --env \"RHRUN_CONTAINER=$d\" --env \"SSH_CONNECTION=$SSH_CONNECTION\" "
                "\"instance://$l\" \"$@\";");
}

/* ---- the scripts ---- */

/* Whether anything of rhrun runs in the container, which is then left alone. */
static void put_busy(struct buf *b)
{
    buf_puts(b, "busy(){ [ $s = true ]||return 1;inside \"for c in /proc/[0-9]*/comm;do "
                "read -r c<\\$c;case \\$c in rhrun-supervis*)exit 0;;esac;done 2>/dev/null;exit 9\";"
                "[ $? != 9 ]; };");
}

void container_wrap(const struct container_place *p, bool may_make, struct buf *b)
{
    const struct spec_container *c = p->host->container;
    char hash[65];
    digest_sha256_hex(c->text, strlen(c->text), hash);
    /* The runtime may print several lines: takes the first that has text and is no container's id. */
    buf_puts(
        b,
        "fail(){ l=$(printf \"%s\\n\" \"$1\"|grep \"[^0-9a-f]\"|head -n 1);say FAILED \"container 0 $l\";exit 1; };");
    put_head(p, b);
    buf_printf(b, "h=%.16s;i=", hash);
    buf_shell_quote(b, c->image);
    buf_putc(b, ';');
    put_by_runtime(p, b, engine_look, apptainer_look);
    if (!may_make) {
        /* The image is that of the job's next container: the one with that name, unless this container stays. */
        put_busy(b);
        buf_puts(b, "look;[ \"$s\" = true ]||{ have&&export RHRUN_IMAGE=\"$w $v\";exec \"$@\"; };"
                    "have&&{ [ \"$o $w\" = \"$h $g\" ]||busy||g=$w; };");
    } else {
        buf_puts(
            b,
            "[ -d \"$HOME\" ]&&[ \"$HOME\" != / ]||fail \"the user has no home folder that a container could have\";");
        put_long(b);
        put_by_runtime(p, b, engine_make, apptainer_make);
        put_busy(b);
        buf_puts(b, "look;");
        if (c->pull == PULL_ALWAYS)
            buf_puts(b, "pull;");
        /* A different spec, or an image that has moved: makes a new container, but not while something of rhrun runs in
         * it. */
        buf_puts(b,
                 "if [ -n \"$s\" ]&&[ \"$o\" != $h ];then busy&&fail \"an earlier run, with another image, options or "
                 "mounts, still works in $n: rhrun cancel ends it\";gone;"
                 "elif [ -n \"$s\" ]&&have&&[ \"$w\" != \"$g\" ];then busy||gone;fi;");
        /* If it cannot be made: another connection has made it meanwhile, or its image is missing. */
        buf_puts(b, "if [ -z \"$s\" ];then new||{ q=$e;look;[ \"$s $o\" = \"true $h\" ]||{ have&&fail \"$q\";");
        buf_puts(b, c->pull == PULL_NEVER ? "fail \"image $i is not there, and pull is never\";" : "pull;");
        buf_puts(b, "new||fail \"$e\"; }; };"
                    "elif [ $s != true ];then begin||fail \"$e\";fi;");
    }
    put_by_runtime(p, b, engine_exec, apptainer_exec);
}

#define FAIL_TO_STDERR "fail(){ echo \"$1\" >&2;exit 1; };"

static void engine_enter(const struct container_place *p, struct buf *b)
{
    (void)p;
    buf_puts(b, "look(){ s=$($r container inspect -f \"{{.State.Running}}\" \"$n\" </dev/null 2>/dev/null); };"
                "enter(){ if [ -n \"$2\" ];then set -- \"$1\" -w \"$2\";else set -- \"$1\";fi;k=$1;shift;[ -z \"$t\" "
                "]||set -- -t -e \"TERM=$TERM\" \"$@\";"
                "exec $r exec -i \"$@\" \"$n\" /bin/sh -c \"$k\"; };");
}

static void apptainer_enter(const struct container_place *p, struct buf *b)
{
    apptainer_look(p, b);
    buf_puts(b, "enter(){ if [ -n \"$2\" ];then set -- \"$1\" --pwd \"$2\";else set -- \"$1\";fi;k=$1;shift;"
                "exec $r exec --cleanenv \"$@\" \"instance://$l\" /bin/sh -c \"$k\"; };");
}

void container_enter(const struct container_place *p, bool terminal, const char *folder, const char *text,
                     struct buf *b)
{
    buf_puts(b, FAIL_TO_STDERR);
    put_head(p, b);
    put_by_runtime(p, b, engine_enter, apptainer_enter);
    buf_puts(b, "look;[ \"$s\" = true ]||fail \"container $n does not run there: the job makes it when it is run\";");
    buf_printf(b, "t=%s;enter ", terminal ? "1" : "");
    buf_shell_quote(b, text);
    buf_putc(b, ' ');
    buf_shell_quote(b, folder ? folder : "");
}

static void engine_down(const struct container_place *p, struct buf *b)
{
    (void)p;
    /* If there is none, docker says so, and podman says nothing. */
    buf_puts(b, "e=$($r rm -f -v \"$n\" </dev/null 2>&1);c=$?;case $c:$e in *o\\ such\\ container*|0:)"
                "echo " CONTAINER_WAS_GONE ";;0:*)echo " CONTAINER_GONE ";;*)fail \"$e\";;esac;");
}

static void apptainer_down(const struct container_place *p, struct buf *b)
{
    apptainer_look(p, b);
    buf_puts(b, "look;if [ -z \"$l\" ];then echo " CONTAINER_WAS_GONE
                ";elif e=$($r instance stop \"$l\" </dev/null 2>&1);then "
                "echo " CONTAINER_GONE ";else fail \"$e\";fi;");
}

void container_down(const struct container_place *p, struct buf *b)
{
    buf_puts(b, FAIL_TO_STDERR);
    put_head(p, b);
    put_by_runtime(p, b, engine_down, apptainer_down);
}
