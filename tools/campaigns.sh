# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# Commands that measure or check on packages, and build them first.

# Whether an argument names a real OSM: such a campaign needs no root and nothing of the lab.
names_an_osm() {
    local word
    for word in "$@"; do
        case $word in --osm | --osm=*) return 0 ;; esac
    done
    return 1
}

# Check the arguments of a command, then build what it needs.
build_for() {
    local needed
    asks_for_help "$@" && return
    needed=$("$venv/bin/python" tools/needs.py "$@") || exit
    read -ra needed <<<"$needed"
    if [ "${needed[0]:-}" = qemu ]; then
        apt_install "${machine_packages[@]}"
        needed=("${needed[@]:1}")
    fi
    [ ${#needed[@]} != 0 ] || return 0
    say "building packages"
    build "${needed[@]}"
}

demo() {
    local profile=quick
    case "${1:-} ${2:-}" in
        "epc "* | "5g "*) profile=$1; shift ;;
        "--vdu qemu") profile=machines; shift 2 ;;
        [a-z0-9]*) fail "demo '$1' is unknown; allowed: demo, demo 5g, demo epc, demo --vdu qemu" ;;
    esac
    setup
    build_for experiments --profile "$profile" "$@"
    exec "$venv/bin/python" -m experiments run --profile "$profile" "$@"
}

experiments() {
    if names_an_osm "$@" || [ "${1:-}" = report ]; then setup_python; else setup; fi
    if [ "${1:-}" = run ]; then build_for experiments "${@:2}"; fi
    exec "$venv/bin/python" -m experiments "$@"
}

acceptance() {
    setup_python
    build_for acceptance "$@"
    exec "$venv/bin/vpnaas-operate" acceptance "$@"
}

bench() {
    setup test
    build_for bench "$@"
    exec "$venv/bin/python" -m benchmarks "$@"
}
