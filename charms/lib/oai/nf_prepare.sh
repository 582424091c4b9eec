#!/bin/sh
# nf-prepare NAME: note what a container starts with and where its log ends at that time.
# The check of readiness compares both later.
# The HSS prints keys (OP, K, CK, IK, KASME): only root may read its log, also one of before an update.
set -eu
run=/run/osm-vpnaas-nf
chmod 0600 /var/log/"$1".log*
mkdir -p "$run"
cp /etc/osm-vpnaas/nf/"$1".digest "$run/$1.digest"
stat -c %s /var/log/"$1".log > "$run/$1.offset"
