# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# Static checks, tests, and pinned packages.

static_checks() {
    say "static checks"
    PATH=$venv/bin:$PATH sh tests/static
}

run_tests() {
    case ${1:-} in
        quick)
            shift
            setup_python test
            exec "$venv/bin/python" -m pytest --numprocesses auto --dist loadgroup --quick \
                tests/core tests/builder tests/docs tests/operate "$@"
            ;;
        --changed | --changed=*)
            [ "$1" != --changed ] || set -- --changed=HEAD "${@:2}"
            if [ "$(id -u)" = 0 ]; then setup test; else setup_python test; fi
            exec "$venv/bin/python" -m pytest --numprocesses auto --dist loadgroup "$@"
            ;;
        --on)
            need_root
            apt_install mmdebstrap
            exec tests/on-release "${@:2}"
            ;;
    esac
    # Whole kinds of tests that run seldom leave a record.
    case $* in
        "-m long") set -- --record=long "$@" ;;
        "-m kvm" | "-m kvm --emulated") set -- --record=kvm "$@" ;;
    esac
    setup test
    if ! asks_for_help "$@"; then
        apt_install "${machine_packages[@]}" "${container_packages[@]}"
        # A long test of the page needs a browser. Ubuntu has it as a snap; the test is skipped there.
        if [[ " $* " == *long* ]] && apt-cache show chromium-driver >/dev/null 2>&1; then
            apt_install chromium chromium-driver
        fi
        # This leaves the bytecode of the tests, which each worker would have to compile.
        "$venv/bin/python" -m pytest --collect-only "$@" >/dev/null 2>&1 &
        collector=$!
        static_checks
        wait "$collector" || true
        say "tests"
    fi
    # Four modules at a time: much of a test is waiting. Tests of one may follow each other.
    exec "$venv/bin/python" -m pytest --numprocesses 4 --dist loadgroup --no-loadscope-reorder "$@"
}

lock_packages() {
    setup_python test
    "$venv/bin/python" tests/locks.py make "$venv/bin/uv"
}

audit() {
    local explained file said=$cache/pip-audit.err bad=0 silent=
    setup_python
    "$venv/bin/pip" install --quiet --disable-pip-version-check --upgrade --target "$cache/pip-audit" pip-audit \
        || fail "pip-audit, which asks the database of advisories, cannot be installed (above)"
    explained=$(grep -oE '(CVE-[0-9]{4}-[0-9]+|GHSA(-[0-9a-z]{4}){3})' docs/explanation/security.md | sort -u)
    for file in charms/common/requirements.txt charms/common/jammy/requirements.txt charms/common/helm/requirements.txt programs.lock tests.lock; do
        say "$file"
        # shellcheck disable=SC2086 # one option for each
        PYTHONPATH=$cache/pip-audit "$venv/bin/python" -m pip_audit --strict --progress-spinner off --disable-pip \
            --require-hashes ${explained:+$(printf -- '--ignore-vuln %s ' $explained)} -r "$file" 2>"$said" && continue
        # It ends with 1 for an advisory as well as for a database that gives no answer.
        if grep -q '^Found ' "$said"; then bad=1; else silent+=" $file ($(tail -n 1 "$said" | sed 's/^ERROR:[^:]*://'))"; fi
    done
    [ $bad = 0 ] || fail "an advisory that no page explains (above)"
    [ -z "$silent" ] && return
    printf 'ERROR: the database of advisories gives no answer, so nothing is known of:%s\n' "$silent" >&2
    exit 2
}
