# Debian packages. Arguments: RHRUN_OPTIONS options, then packages, each NAME, NAME=VERSION or NAME:ARCH.
fail() {
    printf 'rhrun: %s\n' "$@" >&2
    exit 1
}
command -v apt-get >/dev/null || fail "node $RHRUN_NODE has no apt-get"
installed() {
    i=0
    for package; do
        i=$((i + 1))
        [ "$i" -gt "$RHRUN_OPTIONS" ] || continue
        state=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' "${package%%=*}" 2>/dev/null) || return 1
        case $state in "installed "*) ;; *) return 1 ;; esac
        case $package in *=*) [ "${state#installed }" = "${package#*=}" ] || return 1 ;; esac
    done
}
if installed "$@"; then
    echo "as installed"
    exit 0
fi
sudo=
if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null ||
        fail "to install with apt on node $RHRUN_NODE takes root or sudo without a password, and user $(id -un) has neither"
    sudo='sudo -n'
fi
apt() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 -o APT::Get::Assume-Yes=true "$@"
}
fresh() { [ -n "$(find /var/lib/apt/lists -maxdepth 1 -name '*_*' -mtime -1 2>/dev/null | head -n 1)" ]; }
updated=
if ! fresh; then
    apt update || echo "rhrun: apt-get update failed; the lists are as they were" >&2
    updated=1
fi
if apt install "$@"; then
    exit 0
elif [ -n "$updated" ]; then
    exit 1
fi
apt update
apt install "$@"
