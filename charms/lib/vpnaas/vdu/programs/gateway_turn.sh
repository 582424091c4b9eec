#!/bin/sh
# Told by keepalived of a change: claim the peers where we are active, keep a record.
# Usage: gateway-turn active|standby|fault|stopped|claim [CHILD...]
#        gateway-turn left ADDRESS    wait until ADDRESS is not ours any more, 5 s at most
record=/var/lib/osm-vpnaas/standby
state=$1
shift
if [ "$state" = left ]; then
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
        [ -n "$(ip -o address show to "$1")" ] || exit 0
        sleep 0.2
    done
    exit 1
fi
for child in "$@"; do
    /usr/sbin/swanctl --rekey --child "$child" >/dev/null 2>&1 &
done
if [ "$state" != claim ]; then
    mkdir -p "${record%/*}"
    exec 9>>"$record.lock"
    flock 9
    before='' since='' taken=''
    [ -r "$record" ] && read -r before since taken <"$record"
    case $taken in "" | *[!0-9]*) taken=0 ;; esac
    if [ "$before" != "$state" ]; then
        since=$(date +%s)
        [ "$state" = active ] && taken=$((taken + 1))
        printf '%s %s %s\n' "$state" "$since" "$taken" >"$record.new"
        mv "$record.new" "$record"
    fi
fi
wait
