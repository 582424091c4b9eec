# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# Python packages in .venv.

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

install_locked() {
    local pip=("$venv/bin/pip" install --disable-pip-version-check --no-compile)
    { "${pip[@]}" --require-hashes "${@/#/--requirement=}" &&
        "${pip[@]}" --no-deps --no-build-isolation --editable .; } >"$cache/pip.log" 2>&1
}

# Python packages, as locked: of the programs, or with "test" also what tests, checks and
# documentation need.
setup_python() {
    local stamp=$venv/.installed-for locks=(programs.lock tests.lock) python
    if cmp -s <(cat pyproject.toml "${locks[@]}") "$stamp"; then return; fi
    if [ "${1:-}" != test ]; then stamp+=-programs locks=(programs.lock); fi
    if cmp -s <(cat pyproject.toml "${locks[@]}") "$stamp"; then return; fi
    say "setting up Python packages in .venv"
    python=/usr/bin/python3
    if ! new_enough "$python"; then
        # Ubuntu 22.04 has a newer one beside its default.
        python=/usr/bin/python3.11
        if ! new_enough "$python"; then
            if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
                fail "Python 3.11 or newer is needed: install python3.11 and python3.11-venv"
            fi
            apt_install python3.11 python3.11-venv
        fi
    fi
    if ! new_enough "$venv/bin/python"; then
        "$python" -m venv --clear "$venv" ||
            fail "$python cannot make .venv here: is $PWD writable, is python3-venv installed?"
    fi
    mkdir -p "$cache"
    patiently "setting up Python packages" install_locked "${locks[@]}" ||
        { tail -n 5 "$cache/pip.log" >&2; fail "pip failed, see $cache/pip.log"; }
    cat pyproject.toml "${locks[@]}" >"$stamp"
}
