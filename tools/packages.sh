# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# Packages of the distribution.

# What the lab's VDUs take from the machine, and what sets the lab up.
packages=(
    ca-certificates charon-systemd cloud-init dbus ethtool iperf3 iproute2 iputils-ping keepalived kmod
    libcharon-extra-plugins libfaketime libstrongswan-extra-plugins libstrongswan-standard-plugins
    libusrsctp2 nftables openssh-client openssh-server openssl patch procps prometheus python3 python3-pip
    python3-prometheus-client python3-venv strongswan-swanctl sudo systemd systemd-sysv tcpdump
    tshark util-linux wireguard-tools wrk
)
# What virtual machines take besides: the tests of them, and the image for a cloud.
machine_packages=(e2fsprogs fdisk mmdebstrap qemu-system-x86 qemu-utils)
# What makes images of containers, and the registry from which virtual machines pull them.
container_packages=(docker-registry mmdebstrap skopeo umoci)

apt_missing() {
    local name
    for name in "$@"; do
        dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed ||
            printf '%s\n' "$name"
    done
}

policy=/usr/sbin/policy-rc.d
policy_text=$'#!/bin/sh\n# Made by ./run of osm-vpnaas while it installs packages.\nexit 101'

drop_policy() {
    if [ "$(cat "$policy" 2>/dev/null)" = "$policy_text" ]; then rm -f "$policy"; fi
}

apt_get_install() {
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        -o DPkg::Lock::Timeout=300 --no-install-recommends "$@"; } >"$cache/apt.log" 2>&1 8>&-
}

# Record which of the `wanted` packages apt-get has installed, also if it failed or was interrupted.
# None of their services may start.
apt_settle() {
    local made new
    trap - EXIT
    drop_policy
    exec 8>&-
    mapfile -t new < <(printf '%s\n' "${wanted[@]}" | grep -vxF "$(apt_missing "${wanted[@]}")")
    if [ ${#new[@]} != 0 ]; then printf '%s\n' "${new[@]}" >>"$installed"; fi
    # Nor at the next boot of this machine.
    if printf '%s\n' "${new[@]}" | grep -qx openssh-server && [ -d /run/systemd/system ]; then
        systemctl disable --quiet ssh.service ssh.socket 2>/dev/null || true
    fi
    if [ -d /run/systemd/system ]; then
        for made in docker-registry:docker-registry keepalived:keepalived prometheus:prometheus \
            strongswan:charon-systemd; do
            printf '%s\n' "${new[@]}" | grep -qx "${made#*:}" || continue
            systemctl disable --quiet "${made%:*}.service" 2>/dev/null || true
        done
    fi
    if printf '%s\n' "${new[@]}" | grep -qx cloud-init; then
        touch /etc/cloud/cloud-init.disabled
    fi
}

# Install packages without starting their services: a lab is no reason for an SSH server here.
apt_install() {
    local result=0
    mapfile -t wanted < <(apt_missing "$@")
    [ ${#wanted[@]} = 0 ] && return
    mkdir -p "$cache"
    # The policy is the machine's: one set-up at a time. What a killed one left is ours as well.
    exec 8>/run/osm-vpnaas-setup  # /run/lock is not everywhere
    flock 8
    mapfile -t wanted < <(apt_missing "$@")
    if [ ${#wanted[@]} = 0 ]; then exec 8>&-; return; fi
    say "installing ${wanted[*]}"
    trap apt_settle EXIT
    drop_policy
    if [ ! -e "$policy" ]; then
        printf '%s\n' "$policy_text" >"$policy.new"
        chmod 755 "$policy.new"
        mv "$policy.new" "$policy"
    fi
    patiently "installing packages" apt_get_install "${wanted[@]}" || result=$?
    apt_settle
    [ "$result" = 0 ] || { tail -n 5 "$cache/apt.log" >&2; fail "apt-get failed, see $cache/apt.log"; }
}
