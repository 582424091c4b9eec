#!/bin/sh
# Run by keepalived: when we become active, claim the peers; record every change of state.
# Usage: gateway-turn claim CHILD...   make our CHILD_SAs the newest, those with traffic first
#        gateway-turn again CHILD...   the same once more, as the other gateway was active too
#        gateway-turn record FIFO      record the changes that keepalived writes to FIFO
#        gateway-turn left ADDRESS     wait until ADDRESS is no longer ours, 5 s at most
record=/var/lib/osm-vpnaas/standby
lock=/run/osm-vpnaas-again
first=/run/osm-vpnaas-first

ipsec=/usr/local/lib/osm-vpnaas/ipsec

write_record() {
    before='' taken=''
    [ -r "$record" ] && read -r before _ taken <"$record"
    case $taken in "" | *[!0-9]*) taken=0 ;; esac
    [ "$before" != "$1" ] || return 0
    [ "$1" = active ] && taken=$((taken + 1))
    printf '%s %s %s\n' "$1" "$(date +%s)" "$taken" >"$record.new"
    mv "$record.new" "$record"
}

# The shared address has left this gateway, so its tunnels end.
end_shared() {
    [ ! -e "$ipsec" ] || timeout 30 /usr/bin/python3 -I "$ipsec" terminate-shared >/dev/null 2>&1
}

case $1 in
    claim | again)
        verb=$1 shared=''
        shift
        for file in /etc/osm-vpnaas/*/ipsec.shared; do
            [ ! -e "$file" ] || shared=yes
        done
        if [ "$verb" = again ]; then
            # keepalived calls this for each advertisement of a lower priority, maybe many a second.
            # One call waits; what happens until then is covered by its claim.
            exec 9>"$lock"
            flock -n 9 || exit 0
            # Peers of a shared address have no tunnel until we call them: that does not wait.
            [ "$shared" ] || {
                sleep 0.5
                exec 9>&-
            }
        fi
        # The watch program holds the lock, and knows which peers have traffic.
        if flock -n "$first-lock" true; then
            for child in "$@"; do
                timeout 10 /usr/sbin/swanctl --rekey --child "$child" >/dev/null 2>&1 &
            done
        else
            echo "$verb" 1<>"$first"
        fi
        [ ! "$shared" ] || timeout 30 /usr/bin/python3 -I "$ipsec" initiate-shared >/dev/null 2>&1
        wait
        ;;
    record)
        # keepalived writes its last change when it stops; then the FIFO ends.
        trap '' TERM
        mkdir -p "${record%/*}"
        # Lines are: INSTANCE "NAME" STATE PRIORITY
        while read -r _ _ state _; do
            case $state in
                MASTER) write_record active ;;
                BACKUP) write_record standby && end_shared ;;
                FAULT) write_record fault && end_shared ;;
                STOP) write_record stopped && end_shared ;;
            esac
        done <"$2"
        ;;
    left)
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
            [ -n "$(ip -o address show to "$2")" ] || exit 0
            sleep 0.2
        done
        exit 1
        ;;
esac
