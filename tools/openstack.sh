# shellcheck shell=bash disable=SC2016,SC2034,SC2154  # sourced by ./run, which shares its variables
# An OpenStack of Debian 12's packages for the lab's tests, in a root and in namespaces of its own.
# It starts nothing on the machine and listens on loopback of its own network namespace only.
openstack_root=$cache/openstack/root
openstack_rules=/usr/lib/python3/dist-packages/neutron/plugins/ml2/drivers/linuxbridge/agent/arp_protect.py
openstack_packages=(
    ca-certificates iproute2 mariadb-server rabbitmq-server sudo uwsgi-plugin-python3 python3-pymysql
    keystone placement-api glance-api nova-api nova-conductor nova-scheduler nova-compute
    libvirt-daemon-system nova-compute-kvm qemu-system-x86
    neutron-server neutron-linuxbridge-agent neutron-dhcp-agent neutron-l3-agent neutron-metadata-agent
    python3-openstackclient
)

openstack() {
    local verb=${1:-}
    shift || true
    case $verb in
        up) [ "${*:-machines}" = machines ] || fail "./run openstack up takes nothing or: machines" ;;
        down | status) [ $# = 0 ] || fail "./run openstack $verb takes no argument" ;;
        exec) [ $# != 0 ] || fail "./run openstack exec takes a command" ;;
        *) usage >&2; fail "./run openstack takes up, down, status or exec COMMAND" ;;
    esac
    need_root
    "openstack_$verb" "$@"
}

# Process id of its first process, or nothing.
openstack_init() {
    local outer
    outer=$(cat "$cache/openstack/pid" 2>/dev/null) || return 0
    grep -qz "$openstack_root" "/proc/$outer/cmdline" 2>/dev/null || return 0
    cat "/proc/$outer/task/$outer/children" 2>/dev/null | tr -d ' '
}

openstack_make() {
    local settings mirror
    taken_over
    rm -rf "$openstack_root"
    # Bytecode of modules that are never imported takes longer than all the rest.
    mmdebstrap --quiet --variant=apt "${settings[@]/#/--aptopt=}" --dpkgopt=force-unsafe-io \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --essential-hook='chroot "$1" dpkg-divert --quiet --local --rename --add /usr/bin/py3compile' \
        --essential-hook='ln -s /bin/true "$1/usr/bin/py3compile"' \
        --include="$(IFS=,; echo "${openstack_packages[*]}")" \
        bookworm "$openstack_root" "${mirror[@]}" >"$cache/openstack/packages.log" 2>&1 &&
        printf '%s\n' >"$openstack_root/etc/libvirt/qemu.conf" 'user = "root"' 'group = "root"' \
            'security_driver = "none"' 'cgroup_controllers = []' 'namespaces = []' 'remember_owner = 0' &&
        # ebtables of nftables deletes no rule with --among-src, which Neutron's agent writes.
        sed -i "s/'--among-src'/'-s'/" "$openstack_root$openstack_rules" &&
        touch "$openstack_root/srv/machines"
}

openstack_up() {
    local shown=0 started=$SECONDS said=$SECONDS lines
    mkdir -p "$cache/openstack"
    if [ ! -e "$openstack_root/srv/machines" ]; then
        apt_install mmdebstrap
        say "making a root with Debian 12's OpenStack: minutes, and 2 GB"
        patiently "installing packages" openstack_make ||
            fail "the root was not made, see $cache/openstack/packages.log"
    fi
    if [ -n "$(openstack_init)" ]; then
        [ -z "$*" ] || grep -qz '^machines$' "/proc/$(cat "$cache/openstack/pid")/cmdline" ||
            fail "this OpenStack boots no machines: first ./run openstack down"
    else
        : >"$openstack_root/srv/progress"
        cp tools/openstack.py "$openstack_root/srv/first.py" # another name than the library's
        setsid unshare --net --mount --uts --ipc --pid --fork --kill-child bash -euc '
            root=$1
            mount --make-rprivate /
            mount --bind "$root" "$root"
            mount -t proc proc "$root/proc"
            mount -t sysfs sysfs "$root/sys"
            mount --rbind /dev "$root/dev"
            mount -t tmpfs tmpfs "$root/run"
            mount -t tmpfs tmpfs "$root/tmp"
            mkdir -p "$root/run/lock" "$root/old"
            chmod 1777 "$root/tmp"
            cd "$root"
            pivot_root . old
            umount -l /old
            python3 -u /srv/first.py "${@:2}" & # while it works, the shell reaps orphans
            trap "kill $!" TERM
            wait $! || wait $!' openstack "$openstack_root" "$@" \
            </dev/null >"$cache/openstack/first.log" 2>&1 8>&- &
        echo $! >"$cache/openstack/pid"
        sleep 1
    fi
    while :; do
        mapfile -t lines <"$openstack_root/srv/progress"
        while [ $shown -lt ${#lines[@]} ]; do
            case ${lines[shown]} in
                ready) say "OpenStack is ready after $((SECONDS - started)) s"; openstack_hint; return ;;
                FAILED:*) fail "${lines[shown]#FAILED: } (in $openstack_root/var/log/openstack)" ;;
            esac
            printf '  %4d s  %s\n' $((SECONDS - started)) "${lines[shown]}"
            shown=$((shown + 1)) said=$SECONDS
        done
        [ -n "$(openstack_init)" ] || fail "OpenStack has ended, see $cache/openstack/first.log"
        if [ $((SECONDS - said)) -ge 10 ]; then
            printf '  %4d s  still: %s\n' $((SECONDS - started)) "${lines[shown - 1]:-starting}"
            said=$SECONDS
        fi
        sleep 1
    done
}

openstack_hint() {
    cat <<'HINT'
An account of it, with all commands in its network:
  ./run openstack exec .venv/bin/osm-lab --home /tmp/lab vim-create --name north --account_type openstack \
      --auth_url http://127.0.0.1:5000/v3 --user osm --password openstack --tenant north \
      --config '{management_network_name: mgmtnet}'
HINT
}

openstack_down() {
    local init
    init=$(openstack_init)
    if [ -n "$init" ]; then
        kill -TERM "$init"
        patiently "ending OpenStack" tail --pid="$init" -f /dev/null
    fi
    rm -f "$cache/openstack/pid"
    say "OpenStack is down"
}

openstack_status() {
    local init
    init=$(openstack_init)
    [ -n "$init" ] || { echo "down"; return 1; }
    tail -n 1 "$openstack_root/srv/progress"
}

# Run a command in its network namespace, with the machine's files.
openstack_exec() {
    local init
    init=$(openstack_init)
    [ -n "$init" ] || fail "OpenStack is down: ./run openstack up"
    exec nsenter --net="/proc/$init/ns/net" "$@"
}
