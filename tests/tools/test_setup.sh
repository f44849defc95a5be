#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With stand-ins for dpkg-query, apt-get, id and sudo, so that nothing is really installed.
. "$(dirname "$0")/tap.sh"

bin=$scratch/bin
mkdir "$bin"
for tool in sh sort env cat dirname printf awk; do ln -s "$(command -v $tool)" "$bin/$tool"; done
stand_in() { cat >"$bin/$1" && chmod +x "$bin/$1"; }
setup() { env -i PATH="$bin" LOG="$scratch/log" HAVE="$have" WHO="$who" sh "$root/tools/setup" "$@"; }
silent() { [ -z "$(setup "$@" 2>&1)" ] && [ ! -s "$scratch/log" ]; }
logged() {
    : >"$scratch/log"
    setup build && grep -q -e "$1" "$scratch/log"
}

stand_in dpkg-query <<'END'
#!/bin/sh
for last; do :; done
case " $HAVE " in *" all "* | *" $last "*) echo installed ;; *) exit 1 ;; esac
END
stand_in apt-get <<'END'
#!/bin/sh
echo "apt-get $*" >>"$LOG"
END
stand_in id <<'END'
#!/bin/sh
echo "$WHO"
END

: >"$scratch/log"
have=all who=1000
accepts 'says and does nothing when all is there' silent
have=$("$MUSTER_SOURCE/tools/setup" --list build | grep -vx libjansson-dev | tr '\n' ' ') who=0
accepts 'root: installs only what is missing, and waits for others who install' logged 'apt-get -o DPkg::Lock::Timeout=600 install .*--no-install-recommends libjansson-dev$'
who=1000
refuses 'neither root nor sudo: says what to run' 'apt-get install --no-install-recommends libjansson-dev' setup build
stand_in sudo <<'END'
#!/bin/sh
echo "sudo" >>"$LOG"
exec "$@"
END
accepts 'uses sudo when not root' logged '^sudo$'
refuses 'a group that does not exist' "no group 'tset'" setup tset
rm "$bin/apt-get"
refuses 'not a Debian: names what is missing' "'meson' is missing and this is no Debian-like system" setup build
finish
