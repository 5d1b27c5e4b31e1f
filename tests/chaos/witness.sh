# witness.sh STEP VERSION FILE...: what every step and worker of the chaos test does.
#
# It tells the witness file (append only, outside of rhrun's control) when it begins and how it ends, what it is and what it
# sees: the first line of each FILE. What it prints is kept beside in said/ATTEMPT.RANK, what it leaves in outs/. How it behaves
# is in ctl/STEP (nap, lines, burst: shell variables) and, once, in ctl/fail.STEP.N (an exit status; N: the rank of a launch, else the node).
step=$1 version=$2
shift 2
node=${RHRUN_NODE_RANK:-0} rank=${RANK:-0} nap=0 lines=2 burst=0
[ ! -r "$W/ctl/$step" ] || . "$W/ctl/$step"

seen='' brief=''
for file; do
    line=-
    [ ! -r "$file" ] || IFS= read -r line <"$file" || :
    seen="$seen$file=$line;" brief="$brief$file=$line,"
done
me="step=$step version=$version node=$node rank=$rank attempt=$RHRUN_ATTEMPT run=$RHRUN_RUN_ID restart=${TORCHELASTIC_RESTART_COUNT:-0} world=${WORLD_SIZE:-1} pid=$$"

tell() { printf '%s\n' "$1" >>"$W/witness"; }
leave() { # STATUS
    tell "end $me status=$1"
    exit "$1"
}
# First into said/: who is killed in between has printed less than stands there, never more.
say() {
    printf '%s\n' "$1" >>"$W/said/$RHRUN_ATTEMPT.$rank"
    printf '%s\n' "$1"
}

exec 9>>"$W/locks/$step.$node.$rank"
flock -n -E 99 9
[ $? != 99 ] || tell "overlap $me" # any other status: flock itself was killed
tell "begin $me seen=$seen"

say "$step $version begins, rank $rank"
printf 'token ***\n' >>"$W/said/$RHRUN_ATTEMPT.$rank"
printf 'token %s\n' "$TOKEN"
printf '%s warns\n' "$step" >&2
i=0
while [ $i -lt "$lines" ]; do
    say "$step line $i of $RHRUN_ATTEMPT"
    i=$((i + 1))
done
[ "$nap" = 0 ] || sleep "$nap"
[ "$burst" = 0 ] || seq -f "$step %g of $burst" 1 "$burst" | tee -a "$W/said/$RHRUN_ATTEMPT.$rank" /dev/fd/3 3>&1 >/dev/null

key=$node
[ "$step" != launch ] || key=$rank
if mv "$W/ctl/fail.$step.$key" "$W/ctl/failed.$$" 2>/dev/null; then
    read -r status <"$W/ctl/failed.$$"
    leave "$status"
fi
case $step in
launch)
    { mkdir -p out && printf '%s\n' "$me seen=$seen" >"out/$rank.txt" && seq -f "$RHRUN_ATTEMPT %g" 1 "${bulk:-50}" >>"out/$rank.txt"; } || leave 70
    cat "out/$rank.txt" >"$W/outs/$RHRUN_ATTEMPT.$rank"
    ;;
prolog | epilog) ;;
*)
    printf '%s\n' "$version:$brief" >"made.$step" || leave 70
    [ "$step" != shared ] || printf '%s\n' "$version" >"$W/shared"
    ;;
esac
[ "$nap" = 0 ] || sleep "$nap"
say "$step $version ends, rank $rank"
leave 0
