#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packages of what the build folder would install: what is in which, their dependencies, and a life in a scratch root: installed,
# upgraded, removed, purged, with nothing left. Maintainer scripts run with DPKG_ROOT, so nothing is done to this machine.
. "$(dirname "$0")/tap.sh"

build=${MUSTER_BUILD:-build}
export DEB_COMPRESSION=none # saves half of the time
for program in dpkg-deb dpkg-shlibdeps fakeroot systemd-sysusers; do
    command -v $program >/dev/null || { echo "1..0 # SKIP $program is missing" && exit 0; }
done
DESTDIR=$scratch/stage meson install -C "$build" --no-rebuild --quiet >"$scratch/output" 2>&1 || { cat "$scratch/output" && exit 1; }
cd "$root" || exit 1

accepts "packages are made, and every file belongs to one" tools/deb --stage "$scratch/stage" "$scratch/first"
accepts "again, as another version" env DEB_VERSION=9.9 tools/deb --stage "$scratch/stage" "$scratch/second"
accepts "the same sources give the same bytes" sh -c "tools/deb --stage '$scratch/stage' '$scratch/again' && diff -r '$scratch/first' '$scratch/again'"
debs=$(ls "$scratch"/first/*.deb)

names() { for deb in $debs; do dpkg-deb -f "$deb" Package; done | tr '\n' ' '; }
accepts "all of them" [ "$(names)" = "muster-agent muster-client muster-controller muster-doc muster-gpu muster-k8s muster-slurm python3-muster " ]

no_file_twice() { ! for deb in $debs; do dpkg-deb --contents "$deb" | awk '!/\/$/ { print $6 }'; done | sort | uniq -d | grep .; }
accepts "no file is in two" no_file_twice
depends_few() {
    for deb in $debs; do
        dpkg-deb -f "$deb" Depends | tr ',' '\n' >"$scratch/depends"
        ! grep -e -dev -e gcc -e meson "$scratch/depends" || return 1
        [ "$(wc -l <"$scratch/depends")" -lt 15 ] || return 1
    done
}
accepts "they depend on what is needed to run, and on little" depends_few
accepts "the agent needs the library of topologies" sh -c "dpkg-deb -f '$scratch'/first/muster-agent_*.deb Depends | grep libhwloc15"
accepts "names of Slurm's commands do not hide a real Slurm" sh -c "dpkg-deb -f '$scratch'/first/muster-slurm_*.deb Conflicts | grep slurm-client"
accepts "maintainer scripts are scripts" sh -c 'for script in packages/*.postinst packages/*.prerm packages/*.postrm; do sh -n "$script" || exit 1; done'
complete() { # what Debian asks of every package
    for deb in $debs; do
        name=$(dpkg-deb -f "$deb" Package)
        dpkg-deb --contents "$deb" >"$scratch/contents"
        for file in copyright changelog.gz; do grep -q "/usr/share/doc/$name/$file\$" "$scratch/contents" || return 1; done
        ! grep -v -e ' root/root ' "$scratch/contents" || return 1
        ! grep -e 'usr/local' -e '\.scd$' "$scratch/contents" || return 1
        ! grep '/man[0-9]/' "$scratch/contents" | grep -v '\.gz$' | grep -v '/$' || return 1
    done
}
accepts "each has its licence, its changes and compressed pages, and root owns it" complete
accepts "units start what is installed" sh -c "dpkg-deb --fsys-tarfile '$scratch'/first/muster-controller_*.deb | tar -xO ./lib/systemd/system/musterd.service |
    grep -q '^ExecStart=/usr/sbin/musterd '"
accepts "the file for PAM is the administrator's" sh -c "dpkg-deb -I '$scratch'/first/muster-controller_*.deb conffiles | grep -x /etc/pam.d/muster"

cp /etc/passwd "$scratch/passwd"
# A root of its own: dpkg's database, users, and nothing else.
fresh=$scratch/root
mkdir -p "$fresh/var/lib/dpkg/info" "$fresh/var/lib/dpkg/updates" "$fresh/etc" "$fresh/usr" "$fresh/lib"
: >"$fresh/var/lib/dpkg/status"
: >"$fresh/var/lib/dpkg/available"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$fresh/etc/passwd"
printf 'root:x:0:\n' >"$fresh/etc/group"
packaged() { fakeroot dpkg --root="$fresh" --log=/dev/null --force-not-root --force-script-chrootless --force-depends --force-bad-path --force-confold "$@"; }
accepts "all are installed" packaged --install $debs
accepts "the controller's user is there at once" grep -q '^muster:' "$fresh/etc/passwd"
accepts "programs are there" sh -c "[ -x '$fresh/usr/sbin/musterd' ] && [ -x '$fresh/usr/libexec/muster/muster-shepherd' ] && [ -L '$fresh/usr/bin/sbatch' ]"
mkdir -p "$fresh/var/lib/muster" "$fresh/var/lib/muster-agent"
echo kept >"$fresh/var/lib/muster/state"
echo kept >"$fresh/var/lib/muster-agent/journal"
echo "cluster: lab" >"$fresh/etc/muster/muster.yaml"
echo "# mine" >>"$fresh/etc/pam.d/muster"
accepts "upgraded" packaged --install "$scratch"/second/*.deb
accepts "state, configuration and what was changed by hand are kept" sh -c "grep -q kept '$fresh/var/lib/muster/state' && grep -q kept '$fresh/var/lib/muster-agent/journal' &&
    grep -q lab '$fresh/etc/muster/muster.yaml' && grep -q mine '$fresh/etc/pam.d/muster'"
all=$(names)
accepts "removed" packaged --remove $all
accepts "with the state, the configuration and nothing else left" sh -c "grep -q kept '$fresh/var/lib/muster/state' && grep -q lab '$fresh/etc/muster/muster.yaml' &&
    [ ! -e '$fresh/usr/sbin/musterd' ] && [ ! -e '$fresh/lib/systemd/system/musterd.service' ]"
accepts "purged" packaged --purge $all
nothing_left() { ! find "$fresh" -path "$fresh/var/lib/dpkg" -prune -o \( -name '*muster*' -o -name sbatch -o -name grafana \) -print | grep .; }
accepts "nothing is left" nothing_left
accepts "this machine's own users were left alone" cmp /etc/passwd "$scratch/passwd"
finish
