#!/usr/bin/env bash
# Installs the optional tools of the tests: Debian's Redis, Prometheus, Alertmanager, Chromium, a Japanese font (3.5 MB),
# buildah, runc and Coq with OCaml (1 GB). With the argument `coq` it installs only the last.
set -euo pipefail
if ! command -v apt-get >/dev/null; then
    echo "test-tools: not a Debian system. Tests that need redis-server, promtool, amtool, chromium, buildah, runc or coqc will be skipped." >&2
    exit 0
fi
missing=()
if [ "${1:-}" != coq ]; then
    command -v redis-server >/dev/null || missing+=(redis-server)  # with libjemalloc2, which `make bench` uses
    command -v promtool >/dev/null || missing+=(prometheus)
    command -v amtool >/dev/null || missing+=(prometheus-alertmanager)
    for tool in chromium buildah runc; do command -v "$tool" >/dev/null || missing+=("$tool"); done
    [ -n "$(fc-list :lang=ja 2>/dev/null)" ] || missing+=(fonts-ipafont-gothic)
fi
command -v coqc >/dev/null || missing+=(coq)  # with ocaml-nox and ocaml-findlib
if [ ${#missing[@]} -eq 0 ]; then
    echo "test-tools: all tools are installed."
    exit 0
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "test-tools: not root. As root: apt-get install ${missing[*]}" >&2; exit 1; }
    sudo="sudo"
fi
# The tests start the servers on free ports, so the packages must not start them.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
