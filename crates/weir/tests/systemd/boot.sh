#!/bin/sh
# A systemd that is the first process of namespaces of its own. Below the folder $1 it has /usr of this machine, nothing
# that is kept, the program $2 as /opt/weir, and of units no others than those of the folder $3.
set -e
root=$1
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
cd "$root"
mkdir -p usr etc/systemd etc/weir proc sys dev run tmp var/lib var/tmp opt old
mount --bind /usr usr
for folder in bin sbin lib lib64; do
    [ ! -L "/$folder" ] || cp -a "/$folder" .
    [ ! -d "/$folder" ] || [ -L "/$folder" ] || { mkdir "$folder" && mount --bind "/$folder" "$folder"; }
done
touch opt/weir
mount --bind "$2" opt/weir
cp -r "$3" etc/systemd/system
mv etc/systemd/system/*.node etc/weir
cp /etc/passwd /etc/group etc
mount -t proc proc proc
# Nobody tells this systemd of interfaces: where /sys cannot be written to it does not wait for them.
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
mkdir dev/shm
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
ln -s null dev/console
# What the kernel is set to is the machine's.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
pivot_root . old
umount -l old
exec env -i container=weir SYSTEMD_UNIT_PATH=/etc/systemd/system PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /usr/lib/systemd/systemd --system --unit=basic.target --log-target=null </dev/null >/dev/null 2>&1
