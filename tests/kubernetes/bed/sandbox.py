"""Where the program of a container runs: a root file system of its own that is read-only, as the user of its security context."""

# Makes the root in a mount namespace of its own and becomes the program, which so keeps the process id. $1: the root; then SOURCE TARGET MODE
# of each volume, "--", the supplementary groups, and the variables and the command. $IMAGE: a folder with what the image has in /usr/bin;
# the rest is that of the machine. Reads the rest of its options from the environment, of which the program gets nothing.
ENTER = r"""
set -eu
root=$1; shift
mount -t tmpfs -o mode=755 pod "$root"
mkdir -p "$root"/usr "$root"/etc "$root"/dev "$root"/proc "$root"/tmp
mount --rbind /usr "$root/usr"
mount -t overlay -o "lowerdir=$IMAGE:/usr/bin" image "$root/usr/bin"
mount --bind /dev "$root/dev"
mount --bind /proc "$root/proc"
for name in bin lib lib32 lib64; do if [ -e "/$name" ]; then ln -s "usr/$name" "$root/$name"; fi; done
cp /etc/ld.so.cache "$root/etc/"
cp -r /etc/ssl "$root/etc/"
cp "$HOSTS" "$root/etc/hosts"
cp "$RESOLVER" "$root/etc/resolv.conf"
echo "hosts: files dns" >"$root/etc/nsswitch.conf"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    if [ "$3" = ro ]; then mount -o remount,bind,ro "$root$2"; fi
    shift 3
done
shift
if [ "$READ_ONLY" = yes ]; then mount -o remount,ro "$root"; fi
exec chroot "$root" /usr/bin/setpriv --reuid "$RUN_AS_USER" --regid "$RUN_AS_GROUP" --groups "$GROUPS_TOO" --no-new-privs --inh-caps=-all --bounding-set=-all \
    /usr/bin/env -i "$@"
"""


def command(root, mounts, variables, words):
    """Returns the words that start a program. mounts: (source, target, "ro" or "rw") of each volume."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "enter", root, *(word for mount in mounts for word in mount), "--",
            *("%s=%s" % item for item in variables.items()), *words]


def environment(image, hosts, resolver, user, group, groups, read_only):
    """Returns the variables that ENTER reads."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "IMAGE": image, "HOSTS": hosts, "RESOLVER": resolver, "RUN_AS_USER": str(user),
            "RUN_AS_GROUP": str(group), "GROUPS_TOO": ",".join(map(str, groups)), "READ_ONLY": "yes" if read_only else "no"}
