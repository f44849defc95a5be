#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Listings, explanations and errors of the live verbs, to the letter, from answers that are always the same; and what each
# exit code stands for. tests/cli/tables.golden holds what is expected; BLESS=1 writes it anew.
. "$(dirname "$0")/../tools/tap.sh"

command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is not there" && exit 0; }
muster=${MUSTER_BUILD:-$root/build}/muster
here=$root/tests/cli
mkfifo "$scratch/in" "$scratch/url"
python3 "$here/answers.py" "$here/answers.json" <"$scratch/in" >"$scratch/url" &
exec 9>"$scratch/in"
read -r MUSTER_URL <"$scratch/url"
export MUSTER_URL TZ=UTC LC_ALL=C.UTF-8 HOME="$scratch"
unset MUSTER_TOKEN MUSTER_CONTEXT MUSTER_VC MUSTER_CONFIG XDG_CONFIG_HOME NO_COLOR 2>/dev/null
cd "$scratch"

# Each command with what it prints and its exit code.
while read -r line; do
    [ -n "$line" ] || continue
    echo "\$ muster $line"
    eval "$muster $line" >"$scratch/out" 2>&1 </dev/null
    code=$?
    sed "s|$MUSTER_URL|URL|g" "$scratch/out"
    [ $code -eq 0 ] || echo "[exit $code]"
    echo
done >"$scratch/now" <<'END'
queue -A
queue -A -o wide
queue -A --no-header --columns jobid,state,gpus --sort -jobid
queue -A -o csv --columns jobid,name
queue -A -o name
queue -A --color=always --columns state
queue --columns jobid,stat
queue -o xml
why 4127
why 4098
why 4127 --json
why 99
gpus
vc
vc nlp
vc lab
nodes
node ls
plan -G 2 -t 1h
submit -N1 -G H100:16 --wrap true
submit -N1 -G H100:16 --wrap true --json
submit -G many --wrap true
submit --no-such-flag x
submit --licenses a:0 --wrap x
licenses
submit
submit -f missing.yaml
submit --time bananas missing.sh
submit missing.sh
run
cancel 4127
cancel 4098
cancel 4127 4098
cancel
hold 4127
hold 4127x
set 4127 size=some
set 4127 colour=8
report moons
report vcs --group users
report wait --group moons
set 4127 time=soon
node drain gpu11
context
context lab
logout
login $MUSTER_URL --name lab --token mus_x
login $MUSTER_URL --name other --token mus_y
context --columns current,name,token
context -o name
context lab
logout
logout
logout other --revoke --json
logout --url $MUSTER_URL
context --json
context rm lab nowhere
context rm lab
context rm other --json
context rm
whoami
cluster status
config show
queue --url=http://127.0.0.1:1
queue --url=ftp://x
completion tcsh
nodess
sim run --no-such-flag --json
trace stat missing.csv --json
cell ls
cell show 4x8:H100
cell replay
trace stat
END
exec 9>&-
wait
if [ -n "${BLESS-}" ]; then
    cp "$scratch/now" "$here/tables.golden"
fi
accepts 'what the verbs print is what it was' diff "$here/tables.golden" "$scratch/now"
for shell in bash zsh fish; do
    "$muster" completion $shell >"$scratch/completion.$shell"
    for verb in submit queue why node drain; do
        grep -q -w -e "$verb" "$scratch/completion.$shell" || echo "no $verb in $shell"
    done
done >"$scratch/missing"
accepts 'completions know the verbs' test ! -s "$scratch/missing"
accepts 'bash reads its completion' bash -n "$scratch/completion.bash"
! command -v zsh >/dev/null || accepts 'zsh reads its completion' zsh -n "$scratch/completion.zsh"
! command -v fish >/dev/null || accepts 'fish reads its completion' fish -n "$scratch/completion.fish"
bash -c 'source "$1"; COMP_WORDS=(muster que); COMP_CWORD=1; _muster; echo "${COMPREPLY[*]}"' x "$scratch/completion.bash" \
    >"$scratch/completed"
accepts 'bash completes a verb' grep -q -x queue "$scratch/completed"
finish
