#!/bin/sh
# nf-prepare NAME [PREFIX...]: before a container starts, record the digest of its configuration and
# the size of its log, and forget which lines it has logged. The reconcile and the readiness check use
# them. The HSS prints keys (OP, K, CK, IK, KASME): only root may read its logs, old ones included.
# Network devices with a PREFIX are removed: a container that was killed has left them.
set -eu
run=/run/osm-vpnaas-nf
chmod 0600 /var/log/"$1".log*
mkdir -p "$run"
rm -f "$run/$1.logged"
cp /etc/osm-vpnaas/nf/"$1".digest "$run/$1.digest"
stat -c %s /var/log/"$1".log > "$run/$1.offset"
shift
for prefix; do
    for device in /sys/class/net/"$prefix"*; do
        [ ! -e "$device" ] || ip link delete dev "${device##*/}" || true
    done
done
