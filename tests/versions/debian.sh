#!/usr/bin/env bash
# Unpack a server of another Debian release: debian.sh RELEASE PACKAGE FOLDER. Print the path of its program.
# The program runs with the C library of its own release, and nothing is installed.
set -euo pipefail
release=$1 package=$2 folder=$3
program=$folder/$package
if [ ! -x "$program" ]; then
    mkdir -p "$folder/lists/partial" "$folder/unpacked"
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' | head -n 1)
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$keys] $mirror $release main" >"$folder/sources.list"
    options=(-qq -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/lists"
        -o "Dir::State::status=/dev/null" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    apt-cache "${options[@]}" depends --recurse --important --no-breaks --no-conflicts --no-replaces "$package" \
        | grep -E '^(lib|zlib|redis|valkey)' | sort -u >"$folder/needed"
    (cd "$folder" && xargs apt-get "${options[@]}" download <needed)
    for archive in "$folder"/*.deb; do dpkg-deb --extract "$archive" "$folder/unpacked"; done
    loader=$(find "$folder/unpacked" -name 'ld-linux-*' -path '*-linux-gnu/*' | head -n 1)
    libraries=$(dirname "$loader"):$folder/unpacked/usr/lib/$(basename "$(dirname "$loader")")
    printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
        "$loader" "$libraries" "$folder/unpacked/usr/bin/$package" >"$program"
    chmod +x "$program"
fi
echo "$program"
