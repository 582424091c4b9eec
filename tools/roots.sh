# shellcheck shell=bash disable=SC2016,SC2034  # sourced by ./run and tests/on-release, which use the variables
# What a root of another Debian release takes over from this machine.

# Set `settings` to apt's settings that the administrator has added, as no package has these files,
# and `mirror` to the machine's mirror; none where the machine is no Debian.
taken_over() {
    local file
    settings=() mirror=()
    for file in /etc/apt/apt.conf.d/*; do
        dpkg-query -S "$file" >/dev/null 2>&1 || settings+=("$file")
    done
    if grep -qx ID=debian /etc/os-release; then
        mapfile -t mirror < <(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
            grep -v security | head -n 1)
    fi
}
