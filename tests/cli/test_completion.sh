#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the three shells offer: every verb, verbs below verbs, their flags, names of nodes and jobs, files where files belong.
. "$(dirname "$0")/../tools/tap.sh"

build=${MUSTER_BUILD:-$root/build}
verbs=$("$build/muster" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
mkdir "$scratch/bin"
# A cluster of two nodes with two jobs, as far as completion asks.
cat >"$scratch/bin/muster" <<'FAKE'
#!/bin/sh
case "$*" in
'queue -o name') printf '11\n12\n' ;;
'node ls -o name') printf 'gpu01\ngpu02\n' ;;
'vc -o name') printf 'nlp\nnlp\ncv\n' ;;
'context -o name') printf 'lab\nhome\n' ;;
*) exit 2 ;;
esac
FAKE
chmod +x "$scratch/bin/muster"
PATH=$scratch/bin:$PATH
export PATH scratch

for shell in bash zsh fish; do
    "$build/muster" completion $shell >"$scratch/$shell" || exit 1
done

# bash LINE: what is offered for the last word of it, sorted.
cat >"$scratch/bash.sh" <<'ASK'
source "$scratch/bash"
words=$1
read -r -a COMP_WORDS <<<"${words//=/ = }"
[ "${words% }" = "$words" ] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_muster
echo $(printf '%s\n' "${COMPREPLY[@]}" | sort)
ASK
ask_bash() { bash "$scratch/bash.sh" "$1"; }

# The function alone, with those it calls made to print; as zsh has it from a file of its fpath.
cat >"$scratch/zsh.sh" <<'ASK'
mkdir -p "$scratch/fpath" && cp "$scratch/zsh" "$scratch/fpath/_muster"
fpath=("$scratch/fpath" $fpath)
autoload -U _muster
found=()
compadd() { shift; found+=(${(M)@:#$PREFIX*}) }
_describe() { found+=(${(M)${(@)verbs%%:*}:#$PREFIX*}) }
_files() { found+=(FILES) }
compset() { PREFIX=${PREFIX#*=} }
words=("${(@s: :)1}") CURRENT=${#words} PREFIX=$words[-1]
_muster
print -r -- ${(o)found}
ASK
ask_zsh() { zsh -f "$scratch/zsh.sh" "$1"; }
ask_fish() { HOME=$scratch fish --no-config -c 'source $scratch/fish; complete -C $argv[1]' "$1" | cut -f1 | LC_ALL=C sort | paste -sd ' '; }

offers() { # offers SHELL LINE WORDS
    [ "$("ask_$1" "$2" 2>&1)" = "$3" ] && return
    echo "for '$2' $1 offers '$("ask_$1" "$2" 2>&1)', not '$3'"
    return 1
}
all_verbs() {
    [ -n "$verbs" ] || return 1
    offered=$("ask_$1" 'muster ')
    for verb in $verbs; do
        case " $offered " in *" $verb "*) ;; *) echo "$1 does not offer $verb" && return 1 ;; esac
    done
}

for shell in bash zsh fish; do
    if ! command -v $shell >/dev/null; then
        cases=$((cases + 1))
        echo "ok $cases - $shell # SKIP not installed"
        continue
    fi
    accepts "$shell: what it is given it can read" $shell -n "$scratch/$shell"
    accepts "$shell: every verb" all_verbs $shell
    accepts "$shell: a verb below a verb" offers $shell 'muster node dr' drain
    accepts "$shell: flags of a verb below a verb" offers $shell 'muster node drain --rea' --reason
    accepts "$shell: nodes" offers $shell 'muster node drain gpu' 'gpu01 gpu02'
    accepts "$shell: jobs, and no flag unless one begins it" offers $shell 'muster why 1' '11 12'
    accepts "$shell: a flag's virtual cluster" offers $shell 'muster submit --vc n' nlp
    accepts "$shell: contexts to log out of" offers $shell 'muster logout l' lab
    accepts "$shell: a context to choose, or the verb below" offers $shell 'muster context ' 'home lab rm'
    accepts "$shell: contexts to remove" offers $shell 'muster context rm h' home
    accepts "$shell: a flag's context" offers $shell 'muster queue --context h' home
    accepts "$shell: verbs that need no cluster" offers $shell 'muster gpu pau' pause
done
accepts 'bash: a value after =' offers bash 'muster submit --vc=n' nlp
accepts 'bash: files are left to the shell' offers bash 'muster config apply vc' ''
command -v zsh >/dev/null && accepts 'zsh: files' offers zsh 'muster config apply vc' FILES
command -v zsh >/dev/null && accepts 'zsh: a value after =' offers zsh 'muster submit --vc=n' nlp
touch "$scratch/vcs.yaml"
command -v fish >/dev/null && accepts 'fish: files' offers fish "muster config apply $scratch/vc" "$scratch/vcs.yaml"

# What is installed for each shell, and a manual page for each verb.
pages() {
    for verb in $verbs; do
        [ -s "$build/man/muster-$verb.1" ] || { echo "no manual page of muster $verb" && return 1; }
    done
}
accepts 'completion is there to be installed' cmp "$scratch/bash" "$build/muster.bash"
[ ! -e "$build/man/muster.1" ] || accepts 'every verb has a manual page' pages
finish
