# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# A release: its version, and what belongs to it.

release() {
    local version
    setup_python
    version=$(own_version)
    case ${1:-} in [0-9]*) version=$1; shift ;; esac
    if asks_for_help "$@"; then build --release "$@"; exit; fi
    "$venv/bin/python" -m builder.versions "$version"
    build --release "$@" || { git checkout --quiet -- CHANGELOG.md pyproject.toml; exit 1; }
    if ! git diff --quiet; then
        say "to do: git commit --all --message 'release: version $version' && git tag v$version"
    fi
}
