# pi as a sum over ranks: 4 * sum((-1)^k / (2k + 1)), each rank every WORLD_SIZE-th term.
#   sh pi.sh TERMS
# Needs a POSIX shell and torchrun's environment variables. The ranks are on one machine, so their shares meet in a folder
# of it; gather.py sends its shares over the network.
set -eu
terms=$1
unit=1000000000000000           # of 1: what a shell counts with has no fractions
shares=pi.$RHRUN_RUN_ID.$TORCHELASTIC_RESTART_COUNT

decimal() { # NUMBER: as a decimal fraction with its sign
    if [ "$1" -lt 0 ]; then set -- $((-$1)) -; else set -- "$1" +; fi
    printf '%s%d.%09d' "$2" $(($1 / unit)) $(($1 % unit / 1000000))
}

mine=0 k=$RANK
while [ "$k" -lt "$terms" ]; do
    mine=$((mine + (1 - k % 2 * 2) * 4 * unit / (2 * k + 1)))
    k=$((k + WORLD_SIZE))
done
echo "rank $RANK of $WORLD_SIZE: $(decimal $mine)"

mkdir -p "$shares"
echo "$mine" >"$shares/$RANK.part"
mv "$shares/$RANK.part" "$shares/$RANK"     # there as a whole, or not at all
[ "$RANK" = 0 ] || exit 0

sum=0 rank=0 tries=0
while [ "$rank" -lt "$WORLD_SIZE" ]; do
    until [ -e "$shares/$rank" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || { echo "no share of rank $rank in 30 s" >&2; exit 1; }
        sleep 0.05
    done
    read -r share <"$shares/$rank"
    sum=$((sum + share)) rank=$((rank + 1))
done
rm -r "$shares"

error=$((sum - 3141592653589793))
echo "pi = $(decimal "$sum"), off by $(decimal "$error")"
if [ "${error#-}" -gt $((2 * unit / terms)) ]; then
    echo "the sum is wrong" >&2
    exit 1
fi
