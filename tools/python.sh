# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# Python packages in .venv.

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# uv takes a quarter of the time of pip, and gets what pip is set to. Where it cannot, pip does all.
install_locked() (
    exec >"$cache/pip.log" 2>&1
    pip=("$venv/bin/pip" install --disable-pip-version-check --no-compile)
    locks=(--require-hashes "${@/#/--requirement=}")
    while IFS='=' read -r name value; do
        value=${value:1:-1}
        case ${name##*.} in
            index-url) export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$value}" ;;
            extra-index-url) export UV_INDEX="${UV_INDEX:-$value}" ;;
            find-links) export UV_FIND_LINKS="${UV_FIND_LINKS:-$value}" ;;
            cert) export SSL_CERT_FILE="${SSL_CERT_FILE:-$value}" ;;
        esac
    done < <("$venv/bin/pip" config list)
    export UV_CACHE_DIR=$cache/uv-wheels  # Its files are hard links to those of .venv.
    if ! "${pip[@]}" --require-hashes --requirement=<(sed -n '/^uv==/,/[^\\]$/p' programs.lock) ||
        ! "$venv/bin/uv" pip install --python="$venv/bin/python" "${locks[@]}"; then
        "${pip[@]}" "${locks[@]}" || return
    fi
    rm -rf "$UV_CACHE_DIR"
    "${pip[@]}" --no-deps --no-build-isolation --editable .
)

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
