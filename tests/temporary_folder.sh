#!/bin/sh
# Print the folder for the temporary files of all tests: a file system in memory if it has enough room and may run
# programs, else nothing. The tests' servers write gigabytes, and their deadlines should not depend on a disk.
folder=/dev/shm
least_kilobytes=6000000
awk -v folder="$folder" '$2 == folder && $4 !~ /noexec/ {found = 1} END {exit !found}' /proc/mounts 2>/dev/null || exit 0
df -Pk "$folder" | awk -v least="$least_kilobytes" 'NR == 2 && $4 > least {print $6}'
