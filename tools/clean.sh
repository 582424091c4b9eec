# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# Remove what the lab, the build and the set-up left.
clean() {
    need_root
    if [ -x "$venv/bin/osm-lab" ]; then "$venv/bin/osm-lab" lab clean; fi
    if [ "${1:-}" = --all ] && [ -s "$installed" ]; then
        say "removing the packages that setup installed"
        xargs -r env DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq --autoremove \
            <"$installed" >/dev/null
        if grep -qx cloud-init "$installed"; then rm -f /etc/cloud/cloud-init.disabled; fi
    fi
    rm -rf dist site
    if [ "${1:-}" = --all ]; then
        rm -rf "$venv" "$cache" results
    else
        local kept="" each
        for each in results .venv .cache; do
            if [ -e "$each" ]; then kept+="$each/ ($(du -sh "$each" | cut -f 1)), "; fi
        done
        say "kept: ${kept}and $(sort -u "$installed" 2>/dev/null | wc -l) packages that setup installed;" \
            "'./run clean --all' removes these too"
    fi
}
