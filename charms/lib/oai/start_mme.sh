#!/bin/bash
# sctpd ends S1AP's transport for the MME, over a Unix socket.
set -u
cd /magma-mme || exit 1
/magma-mme/bin/sctpd > /var/log/sctpd.log 2>&1 &
for _ in $(seq 100); do
    [ -S /tmp/sctpd_downstream.sock ] && break
    kill -0 $! || exit 1
    sleep 0.1
done
exec /magma-mme/bin/oai_mme -c /magma-mme/etc/mme.conf
