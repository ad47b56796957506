#!/bin/sh
# machine.sh FOLDER SITE: boot systemd on this machine's files, with SITE as /srv/site. Changes stay in memory: in a tmpfs
# on FOLDER, which is gone with the mount namespace that `unshare --mount` makes. The network is that of this machine, but
# systemd starts no service of it: it stops at sysinit.target. The files of other mounts are not there.
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
exec systemd-nspawn --quiet --directory="$1/root" --boot --register=no --keep-unit --bind="$2:/srv/site" \
    --machine="location-monitor-$$" systemd.unit=sysinit.target
