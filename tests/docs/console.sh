#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# console.sh MUSTER FILE.md - runs the commands of a document and prints it with what they print now.
#
# Commands are the lines that begin with `$ ` in blocks marked ```console, and lines right after that begin with `> `
# and continue them; they run in one folder, which is thrown away,
# with `muster` and `build/muster` standing for MUSTER and `tests` and `docs` for the project's. Standard output and standard error are shown together. Where the
# document ends an output with a line `…`, as many lines as it has there are kept. So a document is true when this
# prints the document itself, and is brought up to date by writing this over it.
#
# A document may start `musterd ... &`, and `muster-agent ... &`: the controller gets a port of its own, for which 7717
# stands in commands, `muster` finds it there, and they are ended with the document. Between commands there is then half a
# second, as with people. A command may take two minutes. A line that differs from the old one only in times, dates, tokens, that
# port or the user stays as it was.
set -eu

muster=$(realpath "$1")
file=$(realpath "$2")
source=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
# Below the kernel's range for ports of its own choice (32768 and above), and free.
port=$((20000 + $$ % 12000))
while awk -v "at=$(printf ':%04X' $port)" '$2 ~ at "$" { found = 1 } END { exit !found }' /proc/net/tcp; do port=$((port + 1)); done
# What runs on an agent outlives it, until its lease is over: it ends first.
finish() {
    if [ -f "$work/.agents" ]; then
        timeout 20 "$muster" cancel --mine >/dev/null 2>&1 || true
        left=100
        while [ -n "$(ls -d "$work"/*/tasks/* 2>/dev/null)" ] && [ $left -gt 0 ]; do
            left=$((left - 1))
            sleep 0.1
        done
    fi
    kill $(cat "$work/.musterd" "$work/.agents" 2>/dev/null) 2>/dev/null || true
    sleep 0.2
    rm -rf "$work"
}
trap finish EXIT
mkdir "$work/bin" "$work/build"
ln -s "$source/tests" "$work/tests"
ln -s "$source/docs" "$work/docs"
ln -s "$muster" "$work/build/muster"
cat >"$work/bin/musterd" <<END
#!/bin/sh
case \$1 in --dev | --config)
    echo \$\$ >"$work/.musterd"
    set -- "\$@" --listen "127.0.0.1:$port"
esac
exec "$(dirname "$muster")/musterd" "\$@"
END
cat >"$work/bin/muster-agent" <<END
#!/bin/sh
[ "\$1" = join ] || echo \$\$ >>"$work/.agents"
exec "$(dirname "$muster")/muster-agent" "\$@"
END
cat >"$work/bin/muster" <<END
#!/bin/sh
# Before the login no command of the user is answered, so there is nothing to wait for.
[ "\$1" != login ] || exec "$muster" "\$@"
left=100
while [ -f "$work/.musterd" ] && [ ! -f "$work/.ready" ] && [ \$left -gt 0 ]; do
    if [ -f "$work/.agents" ] || [ -z "\$MUSTER_URL" ]; then
        "$muster" whoami >/dev/null 2>&1
    else
        [ -n "\$("$muster" node ls -o name 2>/dev/null)" ]
    fi && touch "$work/.ready"
    left=\$((left - 1))
    sleep 0.1
done
exec "$muster" "\$@"
END
chmod +x "$work/bin/muster" "$work/bin/musterd" "$work/bin/muster-agent"
[ -x "$(dirname "$muster")/musterd" ] || rm "$work/bin/musterd"
cd "$work"
PATH=$work/bin:$PATH
HOME=$work
export PATH HOME NO_COLOR=1 LC_ALL=C.UTF-8 TZ=UTC MUSTER_URL="http://127.0.0.1:$port"
! grep -q '^\$ muster login' "$file" || MUSTER_URL= # it says itself where the controller is
unset MUSTER_TOKEN MUSTER_CONTEXT MUSTER_VC MUSTER_CONFIG XDG_CONFIG_HOME 2>/dev/null || true
# Held back until it is known how much of the old output there is to match.
awk -v user="$(id -un)" -v port="$port" '
function masked(line) {
    gsub(/[0-9]+-[0-9][0-9]-[0-9][0-9] /, "D ", line)
    gsub(/[0-9][0-9]:[0-9][0-9](:[0-9][0-9])?/, "T", line)
    gsub(/(127\.0\.0\.1|localhost):[0-9]+/, "P", line)
    gsub(/mus_[A-Za-z0-9_.-]+/, "K", line)
    gsub("(^|[ (])(root|" user ")([ ,]|$)", " U ", line) # whoever runs the tests
    gsub(/  +/, " ", line)
    return line
}
function flush(    line, kept) {
    if (command == "") return
    gsub(/localhost:7717/, "localhost:" port, command)
    print command > ".command"
    close(".command")
    shell = "[ ! -f .musterd ] || sleep 0.5; timeout 120 sh .command 2>&1 </dev/null"
    if (command ~ /^musterd --(dev|config).*&/) # it is there before the next command looks for it
        shell = "rm -f .musterd .ready; " shell "; n=0; while [ ! -s .musterd ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done"
    kept = 0
    while ((shell | getline line) > 0)
        if (limit < 0 || kept < limit) {
            print kept < old && masked(line) == masked(before[kept]) ? before[kept] : line
            kept++
        }
    close(shell)
    if (limit >= 0) print "…"
    command = ""
}
/^```/ { flush(); inside = !inside && /^```console$/; print; next }
inside && /^\$ / {
    flush()
    print
    command = substr($0, 3)
    limit = -1
    old = 0
    next
}
inside && command != "" && old == 0 && /^> / { print; command = command "\n" substr($0, 3); next }
inside && command != "" { if ($0 == "…") limit = old; before[old++] = $0; next }
{ print }
END { flush() }
' "$file"
