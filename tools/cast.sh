#!/usr/bin/env bash
# Record what the commands of a file do on a terminal, as a cast (asciicast v2) and as a picture that plays:
#     tools/cast.sh docs/casts/first-tunnel.sh
# asciinema and termtosvg, which nothing else needs, come into a folder of .cache.
set -euo pipefail

# Show each command as if it were typed, and run it.
play() {
    local line command='' prompt='$ '
    while IFS= read -r line <&3; do
        printf '%s%s\n' "$prompt" "$line"
        command+=$line$'\n' prompt='> '
        [ "${line%\\}" = "$line" ] || continue
        sleep 1
        eval "$command" 3<&-
        command='' prompt='$ '
    done 3< <(grep -v '^#' "$1")
    sleep 2
}

if [ "$1" = --play ]; then
    play "$2"
    exit
fi
target=${1%.sh} tools=.cache/cast
[ -x "$tools/bin/termtosvg" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet 'asciinema<3' termtosvg 'setuptools<80'
}
PATH=$PWD/.venv/bin:$PATH "$tools/bin/asciinema" rec --overwrite --idle-time-limit 1.5 --cols 100 --rows 28 \
    --command "$0 --play $1" "$target.cast"
"$tools/bin/termtosvg" render "$target.cast" "$target.svg" --max-frame-duration 1500 --loop-delay 3000
