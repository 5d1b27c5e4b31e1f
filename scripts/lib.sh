# shellcheck shell=bash
# Shared by the scripts in this folder: messages, packages, builds. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc 2>/dev/null || echo 2)

say() { printf '==> %s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    shift
    for hint in "$@"; do printf '  %s\n' "$hint" >&2; done
    exit 1
}

# Packages for the build, and further ones for the tests (Debian 12+, Ubuntu 22.04+).
build_packages=(build-essential cmake ninja-build pkg-config musl-tools libyaml-dev libpcre2-dev libssh2-1-dev
    libuv1-dev libsqlite3-dev libjansson-dev libssl-dev libcurl4-openssl-dev libgit2-dev zlib1g-dev
    libxml2-dev openssh-client)
# shellcheck disable=SC2034
test_packages=(libcmocka-dev openssh-server openssh-client openssl nghttp2-server python3 python3-venv procps git)

# True if everything for the build is there, from any source.
can_build() {
    local program
    for program in cmake ninja pkg-config cc musl-gcc; do
        command -v "$program" >/dev/null || return 1
    done
    pkg-config --exists yaml-0.1 libpcre2-8 'libuv >= 1.40' 'libssh2 >= 1.10' sqlite3 jansson libcrypto 'libcurl >= 7.80' \
        'libgit2 >= 1.1' zlib libxml-2.0
}

# The packages of the list that are not installed, one a line.
missing_packages() {
    local p
    for p in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || echo "$p"
    done
}

# need_packages PACKAGE...: installs what is missing, as root or with sudo; says what it does first.
need_packages() {
    command -v apt-get >/dev/null && command -v dpkg-query >/dev/null ||
        die "this script installs its packages with apt-get, which is not here" \
            "install a C compiler, cmake, ninja, pkg-config, musl-gcc, and the headers of libyaml, pcre2, libssh2," \
            "libuv, sqlite3, jansson, libcurl, libgit2, zlib, libxml2 and openssl in your distribution's way; then run:" \
            "cmake --preset release && cmake --build --preset release"
    local missing how="apt-get install"
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "these packages are missing, and there is no sudo to install them: ${missing[*]}" \
            "as root: apt-get install ${missing[*]}"
        how="sudo apt-get install"
    fi
    say "$how ${missing[*]}"
    apt_install "${missing[@]}" || die "could not install: ${missing[*]}" "the messages of apt-get are above"
}

apt_install() {
    local run=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
    [ "$(id -u)" = 0 ] || run=(sudo "${run[@]}")
    # An old package list names packages that are gone: so a failed install refreshes it once.
    if ! "${run[@]}" install -y --no-install-recommends "$@" </dev/null >"$root/build/apt.log" 2>&1; then
        "${run[@]}" update </dev/null >"$root/build/apt.log" 2>&1 || { tail -5 "$root/build/apt.log" >&2; return 1; }
        "${run[@]}" install -y --no-install-recommends "$@" </dev/null >"$root/build/apt.log" 2>&1 ||
            { tail -15 "$root/build/apt.log" >&2; return 1; }
    fi
}

# Progress of a build from ninja's output: one line on a terminal, else a line per quarter; nothing without $show.
show_progress() {
    local line done all quarter=0 now
    [ -n "${show:-}" ] || exec cat >/dev/null
    while IFS= read -r line; do
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
        done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
        if [ -t 1 ]; then
            printf '\r    %d of %d' "$done" "$all"
            [ "$done" != "$all" ] || printf '\r\033[K'
        else
            now=$((done * 4 / all))
            [ "$now" = "$quarter" ] || printf '    %d of %d\n' "$done" "$all"
            quarter=$now
        fi
    done
}

# build_preset PRESET [TARGET...]: configures and builds all, or only these targets, in build/PRESET; prints the log only on
# failure; with show=1 also the progress.
build_preset() {
    local preset=$1 log=$root/build/$1.log targets=()
    shift
    [ $# = 0 ] || targets=(--target "$@")
    set --
    # CI builds once for all its stages, so the flags are the same in each.
    [ "${RHRUN_TEST_REQUIRE:-}" != all ] || set -- -DRHRUN_WERROR=ON
    mkdir -p "$root/build"
    if ! (set -o pipefail && cd "$root" &&
        { cmake --preset "$preset" "$@" && cmake --build --preset "$preset" -j "$jobs" "${targets[@]}"; } 2>&1 |
        tee "$log" | show_progress); then
        grep -E -A6 'error|Error|FAILED' "$log" | head -60 >&2 || true
        tail -5 "$log" >&2
        echo "the whole log: $log" >&2
        return 1
    fi
}

# results_counts FILE: "PASSED FAILED SKIPPED CUT" from the file of tests/e2e/limit.py, then a line "failed NAME" or "cut NAME"
# for each such test. A test that has not ended was cut, however the session ended.
results_counts() {
    [ -s "$1" ] && awk -F'\t' '
        $1 == "collected" || $1 == "started" { if (!($2 in seen)) { seen[$2]; order[n++] = $2 } next }
        { if (!($2 in seen)) { seen[$2]; order[n++] = $2 } outcome[$2] = $1 }
        END {
            for (i = 0; i < n; i++) {
                word = order[i] in outcome ? outcome[order[i]] : "cut"
                count[word]++
                if (word == "failed" || word == "cut") named[m++] = word " " order[i]
            }
            print count["passed"] + 0, count["failed"] + 0, count["skipped"] + 0, count["cut"] + 0
            for (i = 0; i < m; i++) print named[i]
        }' "$1"
}

mkdir -p "$root/build"
