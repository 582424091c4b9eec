# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# What all commands say, and how they look at their arguments.

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
fail() { printf 'ERROR: %s\n' "$*" >&2; exit 1; }

need_root() {
    [ "$(id -u)" = 0 ] || fail "run this as root: the lab makes network namespaces and mounts"
    command -v apt-get >/dev/null || fail "apt-get is missing; Debian 12 or Ubuntu 22.04+ is needed"
}

# Run a command that may say nothing for minutes; tell every ten seconds that it goes on.
patiently() {
    local what=$1 started=$SECONDS teller result=0
    shift
    (
        exec {never}<> <(:)
        # Whoever kills the set-up leaves no teller behind.
        while ! read -r -t "${VPNAAS_TELL:-10}" -u "$never" && kill -0 $$ 2>/dev/null; do
            printf '  %4d s  %s\n' $((SECONDS - started)) "$what"
        done
    ) >&2 8>&- &
    teller=$!
    "$@" || result=$?
    kill "$teller" 2>/dev/null || true
    wait "$teller" 2>/dev/null || true
    return "$result"
}

# Whether one of the arguments asks for help: then only Python is set up.
asks_for_help() {
    local word
    for word in "$@"; do
        case $word in --) return 1 ;; -h | --help) return 0 ;; esac
    done
    return 1
}

# End with the usage unless the arguments are none, or the one that is allowed ("": none is).
takes_only() {
    local allowed=$1
    shift
    if [ $# = 0 ] || { [ $# = 1 ] && [ -n "$1" ] && [ "$1" = "$allowed" ]; }; then return; fi
    if asks_for_help "$@"; then usage; exit; fi
    usage >&2
    printf 'ERROR: %s takes %s\n' "./run $cmd" "${allowed:-no argument}${allowed:+ or no argument}" >&2
    exit 2
}
