#!/usr/bin/env bash
# Installs the optional programs of the tests: Debian's Redis, Prometheus (promtool) and Chromium.
set -euo pipefail
if ! command -v apt-get >/dev/null; then
    echo "test-tools: not a Debian system. Tests that need redis-server, promtool or chromium will be skipped." >&2
    exit 0
fi
missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v promtool >/dev/null || missing+=(prometheus)
command -v chromium >/dev/null || missing+=(chromium)
if [ ${#missing[@]} -eq 0 ]; then
    echo "test-tools: redis-server, promtool and chromium are installed."
    exit 0
fi
sudo=""
[ "$(id -u)" -eq 0 ] || sudo="sudo"
# The tests start the servers on free ports, so the packages must not start them.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
