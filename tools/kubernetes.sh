# shellcheck shell=bash disable=SC2034,SC2154  # sourced by ./run, which shares its variables
# helm and a Kubernetes API server, for the lab's Helm execution environments. These modules replace
# others, so each is built from a module of our own; `main` packages come from it by name.
kubernetes=v1.36.3
etcd=v3.6.5
helm=v3.22.0

build_kubernetes() (
    go=$1 name=$2 at=$3 path=$4
    exec >"$cache/kubernetes/$name.log" 2>&1
    mkdir -p "$cache/kubernetes/$name"
    cd "$cache/kubernetes/$name" || exit
    rm -f go.mod go.sum
    printf 'package tools\nimport _ "%s"\n' "$path" >tools.go
    sed -i '1i //go:build tools' tools.go
    "$go" mod init osm-vpnaas/"$name"
    case $name in
        kube-apiserver)
            "$go" mod edit -require "k8s.io/kubernetes@$at"
            "$go" mod download -json "k8s.io/kubernetes@$at" >module.json
            grep -o 'k8s.io/[a-z-]* => ./staging' \
                "$("$venv/bin/python" -c 'import json; print(json.load(open("module.json"))["GoMod"])')" |
                while read -r module _; do
                    "$go" mod edit -replace "$module=$module@v0.${at#v1.}"
                done
            ;;
        etcd) "$go" mod edit -require "go.etcd.io/etcd/server/v3@$at" ;;
        helm) "$go" mod edit -require "helm.sh/helm/v3@$at" ;;
    esac
    "$go" mod tidy
    CGO_ENABLED=0 "$go" build -ldflags "-s -w" -o "$cache/bin/$name" "$path"
)

setup_kubernetes() {
    local go name at path
    go=$(command -v go) || fail "Go 1.26 or newer is needed to build helm and a Kubernetes API server"
    mkdir -p "$cache/bin" "$cache/kubernetes"
    while read -r name at path; do
        [ -x "$cache/bin/$name" ] && continue
        say "building $name $at: minutes, and a gigabyte of Go modules"
        patiently "building $name" build_kubernetes "$go" "$name" "$at" "$path" ||
            fail "$name was not built, see $cache/kubernetes/$name.log"
    done <<MODULES
helm $helm helm.sh/helm/v3/cmd/helm
etcd $etcd go.etcd.io/etcd/server/v3
kube-apiserver $kubernetes k8s.io/kubernetes/cmd/kube-apiserver
MODULES
}
