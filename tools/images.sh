# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# Images of containers and of virtual machines.

containers() {
    setup
    apt_install "${container_packages[@]}"
    say "making the images"
    patiently "making the images" "$venv/bin/python" -m simulators.engine.oci "$cache/simulators"
    exec "$venv/bin/osm-lab" lab image-load "$cache/simulators"
}

image() {
    setup
    if ! asks_for_help "$@"; then apt_install "${machine_packages[@]}"; fi
    exec "$venv/bin/osm-lab" lab image "${@:-dist/osm-vpnaas.qcow2}"
}
