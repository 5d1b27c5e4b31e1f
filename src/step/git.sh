# A checkout of a commit: RHRUN_URL, RHRUN_REF ("" = the remote's HEAD), RHRUN_TO: the folder. The folder gets its final
# name once it is complete.
fail() {
    printf 'rhrun: %s\n' "$@" >&2
    exit 1
}
command -v git >/dev/null || fail "node $RHRUN_NODE has no git (apt: [git] as an item before this one installs it)"
export GIT_TERMINAL_PROMPT=0 GIT_SSH_COMMAND="${GIT_SSH_COMMAND-ssh -o BatchMode=yes}"
to=$RHRUN_TO
if [ -e "$to" ] && [ ! -e "$to/.git" ] && ! rmdir -- "$to" 2>/dev/null; then
    fail "$to is there and is no git checkout"
fi
mkdir -p -- "$(dirname -- "$to")"
if [ -e "$to/.git" ]; then
    cd -- "$to"
    [ "$(git config --get remote.origin.url || :)" = "$RHRUN_URL" ] ||
        fail "$to is a checkout of something else: $(git config --get remote.origin.url || :)"
    work=
else
    work=$to.rhrun-part
    rm -rf -- "$work"
    git init -q -- "$work"
    cd -- "$work"
    git remote add -- origin "$RHRUN_URL"
    : >.git/rhrun
fi
force=
if [ -e .git/rhrun ]; then # made here: remove locks of a killed git, and overwrite edits
    rm -f -- .git/index.lock .git/shallow.lock .git/HEAD.lock
    force=--force
fi
if git fetch -q --force --depth 1 -- origin "${RHRUN_REF:-HEAD}" 2>/dev/null; then
    commit=$(git rev-parse -q --verify 'FETCH_HEAD^{commit}')
else # an abbreviated commit, or a server that does not serve commits by id
    git fetch -q --force --tags -- origin '+refs/heads/*:refs/remotes/origin/*'
    commit=$(git rev-parse -q --verify "refs/remotes/origin/$RHRUN_REF^{commit}" ||
        git rev-parse -q --verify "refs/tags/$RHRUN_REF^{commit}" || git rev-parse -q --verify "$RHRUN_REF^{commit}") ||
        fail "$RHRUN_URL has no \"$RHRUN_REF\""
fi
git -c advice.detachedHead=false checkout -q $force --detach "$commit"
[ ! -e .gitmodules ] || git submodule update -q --init --recursive --depth 1
if [ -n "$work" ]; then
    cd /
    mv -- "$work" "$to"
fi
echo "$to: $commit"
