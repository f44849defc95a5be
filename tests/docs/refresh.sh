#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# refresh.sh MUSTER - writes into every console block of the documents what its commands print now. Read the difference.
set -eu

muster=$(realpath "$1")
cd "$(dirname "$0")/../.."
for file in $(grep -l -r --include='*.md' '^```console' README.md docs | sort); do
    tests/docs/console.sh "$muster" "$file" >"$file.new"
    mv "$file.new" "$file"
done
git diff --stat -- README.md docs
