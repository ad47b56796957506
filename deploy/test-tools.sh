#!/usr/bin/env bash
# Installs the further real servers that the tests use where they are found: Debian's Redis and Prometheus (promtool).
set -euo pipefail
if ! command -v apt-get >/dev/null; then
    echo "test-tools: this is not a Debian system; the tests that need redis-server or promtool will be skipped." >&2
    exit 0
fi
missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v promtool >/dev/null || missing+=(prometheus)
if [ ${#missing[@]} -eq 0 ]; then
    echo "test-tools: redis-server and promtool are here."
    exit 0
fi
sudo=""
[ "$(id -u)" -eq 0 ] || sudo="sudo"
# The servers are started by the tests on ports of their own: nothing may start with the package.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
