#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual pages and `--help` speak of the same flags, and every verb is in its page.
. "$(dirname "$0")/../tools/tap.sh"

muster=${MUSTER_BUILD:-$root/build}/muster
flags() { grep -oE -e '(^|[^a-z-])--[a-z][a-z-]*' | grep -oE -e '--[a-z][a-z-]*' | LC_ALL=C sort -u; }

# same NOUN VERB...: the flags of all verbs are those of man/muster-NOUN.1.scd, none missing, none too many.
same() {
    noun=$1
    page=$root/man/muster-$noun.1.scd
    shift
    for verb in "$@"; do
        "$muster" "$noun" "$verb" --help </dev/null || return 1
    done >"$scratch/help"
    flags <"$scratch/help" >"$scratch/in_help"
    flags <"$page" >"$scratch/in_page"
    [ -s "$scratch/in_help" ] && diff "$scratch/in_help" "$scratch/in_page"
}

# named NOUN: every verb that `muster NOUN --help` lists has its place in the page.
named() {
    page=$root/man/muster-$1.1.scd
    verbs=$("$muster" "$1" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
    [ -n "$verbs" ] || return 1
    for verb in $verbs; do
        grep -q -e "$1 $verb" "$page" || { echo "muster $1 $verb is not in $page" && return 1; }
    done
}

# daemon PAGE COMMAND...: the flags of these --help texts are those of the page.
daemon() {
    page=$root/man/$1.8.scd
    shift
    for words in "$@"; do
        # shellcheck disable=SC2086
        ${MUSTER_BUILD:-$root/build}/$words --help </dev/null || return 1
    done | flags >"$scratch/in_help"
    flags <"$page" | grep -vxE -e '--(usage)' >"$scratch/in_page"
    grep -vxE -e '--(usage)' "$scratch/in_help" | diff - "$scratch/in_page"
}

accepts 'muster-agent(8) and --help have the same flags' daemon muster-agent muster-agent
accepts 'musterd(8) and --help have the same flags' daemon musterd musterd 'musterd init' 'musterd restore' 'musterd fsck'
accepts 'muster-sim(1) and --help have the same flags' same sim run compare anomaly gen policies
accepts 'muster-trace(1) and --help have the same flags' same trace import stat
accepts 'muster-sim(1) has every verb' named sim
accepts 'muster-trace(1) has every verb' named trace
# Verbs of `muster gpu` are asked for help as any other, of the cluster and of this machine.
helps() {
    "$muster" "$@" --help >"$scratch/help" && grep -q -e '^Usage: muster gpu' "$scratch/help" && grep -q -e 'resume' "$scratch/help"
}
accepts 'muster gpu resume --help' helps gpu resume
accepts 'muster gpu resume NODE:INDEX --help' helps gpu resume n1:0
accepts 'muster gpu pause --help' helps gpu pause
# help VERB: the same as VERB --help, of every kind of verb.
same_help() {
    "$muster" help "$@" >"$scratch/help" && "$muster" "$@" --help | diff - "$scratch/help"
}
accepts 'muster help submit' same_help submit
accepts 'muster help node drain' same_help node drain
accepts 'muster help sim run' same_help sim run
refuses 'the beginning of a verb is taken for it' "no verb 'que'; did you mean 'queue'?" "$muster" que
refuses 'another word for a near one' "no verb 'sumbit'; did you mean 'submit'?" "$muster" sumbit
finish
