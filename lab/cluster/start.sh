#!/bin/sh
# Starts a pod: PROGRAM... in a new root, a copy-on-write view of the machine's. The root goes with
# the mount namespace.
set -e
cd "$POD"
mount -t tmpfs -o mode=755 tmpfs fs
mkdir fs/upper fs/work fs/root
mount -t overlay overlay -o lowerdir=/,upperdir=fs/upper,workdir=fs/work fs/root
while IFS=' ' read -r source target; do
    mkdir -p "fs/root$target"
    mount --bind "$source" "fs/root$target"
done < mounts
mount -t proc proc fs/root/proc
mount --rbind /dev fs/root/dev
mount -o remount,ro fs/root
# Not exec: setpriv changes the user, and that cancels the signal that ends us with unshare.
chroot fs/root "$@"
exit $?
