# Runs on a rented machine at its first boot, or at each boot. bootstrap_text (src/rent/machine.h) puts the values before it:
# user, login_key, host_key, host_key_private, token, expires, idle (seconds), deadline_by, idle_by (shutdown, kill_pid1 or
# nothing). For any POSIX shell; a second run does no harm.
umask 077
PATH=${PATH-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# ---- 1. the machine's own deadline, before anybody can log in ----
# A machine made from an image of this one has another folder under this name, so it does not end by our deadline.
folder=/var/lib/cloud/instance
[ -d "$folder/." ] || folder=/run/rhrun
mkdir -p "$folder" || exit 1
machine=$folder/rhrun-machine
{
    printf 'token=%s expires=%s idle=%s deadline_by=%s idle_by=%s\n' "$token" "$expires" "$idle" "$deadline_by" "$idle_by"
    cat <<'RHRUN'
umask 022
PATH=${PATH-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

put_token() {
    [ -n "$token" ] || return 0
    printf '%s\n' "$token" >/run/rhrun-token.new && mv /run/rhrun-token.new /run/rhrun-token
}

# It repeats until the machine is off.
end_by() {
    while :; do
        if [ "$1" = kill_pid1 ]; then
            kill -TERM 1
            sleep 20
            kill -KILL -1
            sleep 20
        else
            shutdown -P now || shutdown -h now || poweroff
            sleep 240
            poweroff -f
            sleep 60
        fi
    done
}

agent_lives() {
    for file in /proc/[0-9]*/comm; do
        name=
        { read -r name <"$file"; } 2>/dev/null
        case $name in rhrun-agent | rhrun-supervise) return 0 ;; esac
    done
    return 1
}

# The clock may be wrong at boot, so the deadline counts only if two looks in a row find it past. Idle time is counted in
# steps, because a clock may be set. The first agent may come only when the slowest machine of the cluster is ready.
watch() {
    trap '' HUP INT
    { echo -1000 >/proc/self/oom_score_adj; } 2>/dev/null
    late=0 alone=0 limit=$idle
    [ "$limit" -ge 3600 ] || limit=3600
    while :; do
        if [ -n "$deadline_by" ] && [ "$(date +%s)" -ge "$expires" ]; then
            late=$((late + 1))
        else
            late=0
        fi
        [ $late -lt 2 ] || end_by "$deadline_by"
        if [ -n "$idle_by" ]; then
            alone=$((alone + 15))
            if agent_lives; then
                alone=0 limit=$idle
            fi
            [ $alone -lt "$limit" ] || end_by "$idle_by"
        fi
        sleep 15
    done
}

# A second timer, the system's own. It fires later, because shutdown lets only root log in during its last 5 minutes.
arm_shutdown() {
    left=$(((expires - $(date +%s)) / 60))
    [ "$left" -ge 0 ] || left=0
    shutdown -P +$((left + 15)) </dev/null >/dev/null 2>&1 &
}

arm() {
    [ -n "$deadline_by$idle_by" ] || return 0
    [ "$deadline_by" != shutdown ] || arm_shutdown
    if [ -d /run/systemd/system ] &&
        systemd-run --unit=rhrun-machine --property=Restart=always --property=RestartSec=10 \
            /bin/sh "$0" watch >/dev/null 2>&1; then
        return 0
    fi
    if command -v setsid >/dev/null 2>&1; then
        setsid /bin/sh "$0" watch </dev/null >/dev/null 2>&1 &
    else
        /bin/sh "$0" watch </dev/null >/dev/null 2>&1 &
    fi
    kill -0 $! 2>/dev/null
}

case $1 in
arm) arm ;;
token) put_token ;;
boot) arm && put_token ;;
watch) watch ;;
esac
RHRUN
} >"$machine" || exit 1
if [ "$folder" = /var/lib/cloud/instance ]; then
    mkdir -p /var/lib/cloud/scripts/per-boot &&
        cat >/var/lib/cloud/scripts/per-boot/rhrun <<'RHRUN' && chmod 700 /var/lib/cloud/scripts/per-boot/rhrun
#!/bin/sh
[ -f /var/lib/cloud/instance/rhrun-machine ] && exec /bin/sh /var/lib/cloud/instance/rhrun-machine boot
rm -f "$0"
RHRUN
fi
/bin/sh "$machine" arm || exit 1

# ---- 2. the login key ----
home=
while IFS=: read -r name x uid gid x home x; do
    [ "$name" != "$user" ] || break
    home=
done </etc/passwd
keys=$home/.ssh/authorized_keys
if [ -n "$home" ] && mkdir -p "$home/.ssh"; then
    grep -qxF -- "$login_key" "$keys" 2>/dev/null || printf '\n%s\n' "$login_key" >>"$keys"
    chmod 700 "$home/.ssh"
    chmod 600 "$keys"
    chown "$uid:$gid" "$home/.ssh" "$keys"
    restorecon -R "$home/.ssh" 2>/dev/null
fi

# ---- 3. the host key ----
if [ -n "$host_key_private" ]; then
    mkdir -p /etc/ssh
    new=/etc/ssh/.rhrun-host-key
    printf '%s' "$host_key_private" >$new && mv $new /etc/ssh/ssh_host_ed25519_key || exit 1
    printf '%s\n' "$host_key" >$new && chmod 644 $new && mv $new /etc/ssh/ssh_host_ed25519_key.pub || exit 1
    for file in /etc/ssh/ssh_host_*; do
        case $file in
        /etc/ssh/ssh_host_ed25519_key | /etc/ssh/ssh_host_ed25519_key.pub) ;;
        *) rm -f "$file" ;;
        esac
    done
    # If the configuration names keys, and not this one.
    config=/etc/ssh/sshd_config
    if grep -qi '^[[:space:]]*HostKey[[:space:]]' $config /etc/ssh/sshd_config.d/*.conf 2>/dev/null &&
        ! grep -qi '^[[:space:]]*HostKey[[:space:]].*/ssh_host_ed25519_key' $config /etc/ssh/sshd_config.d/*.conf 2>/dev/null; then
        { echo HostKey /etc/ssh/ssh_host_ed25519_key && cat $config; } >$new && cat $new >$config
        rm -f $new
    fi
    restorecon -R /etc/ssh 2>/dev/null
    pid=
    { read -r pid </run/sshd.pid || read -r pid </var/run/sshd.pid; } 2>/dev/null
    if [ -n "$pid" ] && kill -HUP "$pid" 2>/dev/null; then
        :
    elif [ -d /run/systemd/system ]; then
        systemctl try-reload-or-restart ssh 2>/dev/null
        systemctl try-reload-or-restart sshd 2>/dev/null
    else
        pkill -HUP -o -x sshd || service ssh reload || service sshd reload
    fi >/dev/null 2>&1
fi

# ---- 4. the token ----
/bin/sh "$machine" token
