#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which files the analyser looks at, in a small repository.
. "$(dirname "$0")/tap.sh"

command -v git >/dev/null || { echo '1..0 # SKIP no git' && exit 0; }
tree=$scratch/tree
mkdir -p "$tree/src/base" "$tree/src/core/room" "$tree/tools"
cp "$root/tools/analyse" "$root/tools/files" "$tree/tools"
cd "$tree"
unset LINT_BASE LINT_BACK
commit() { git add -A && git -c user.name=a -c user.email=a@b commit -q -m "$1"; }
list() { sh tools/analyse --list | tr '\n' ' '; }
git init -q
echo '/out/' >.gitignore
echo 'Checks: bugprone-*' >.clang-tidy
echo 'int a;' >src/base/a.h
printf '#include "base/a.h"\nint b;\n' >src/core/room/b.h
echo '#include "base/a.h"' >src/base/a.c
echo '  #  include "core/room/b.h" /* x */' >src/core/deep.c
echo '#include <a.h>' >src/core/alone.c
commit one
all='src/base/a.c src/core/alone.c src/core/deep.c '
says 'no base: all files' "$all" list

echo 'int b2;' >>src/core/alone.c
commit two
export LINT_BACK=1
says 'what the last commit changed' 'src/core/alone.c ' list
echo 'int c;' >src/core/new.c
says 'and what is not committed, or new' 'src/core/alone.c src/core/new.c ' list
rm src/core/new.c
echo 'int a2;' >>src/base/a.h
says 'what includes a changed header, also through another' 'src/base/a.c src/core/alone.c src/core/deep.c ' list
git checkout -q src/base/a.h
git update-ref refs/remotes/origin/main HEAD~1
echo 'int b3;' >>src/core/deep.c
commit three
says 'where the branch left origin/main' 'src/core/alone.c src/core/deep.c ' list
git update-ref refs/remotes/origin/main HEAD
says 'on origin/main itself the last commits' 'src/core/deep.c ' list
says 'a base by name' 'src/core/alone.c src/core/deep.c ' env LINT_BASE=HEAD~2 sh -c 'sh tools/analyse --list | tr "\n" " "'
refuses 'one that is not there' "no commit 'nothing'" env LINT_BASE=nothing sh tools/analyse --list
says '--all' "$(echo "$all" | wc -w)" sh -c 'sh tools/analyse --all --list | wc -l'
echo 'Checks: cert-*' >.clang-tidy
says 'other rules: all files' "$all" list
finish
