#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/tap.sh"

tree=$scratch/tree
mkdir -p "$tree/docs"
links() { "$root/tools/links" "$tree"; }

printf 'See [a](docs/a.md#top), [web](https://example.org/x), `[no](link)`.\n```\n[no](link)\n```\n' >"$tree/README.md"
printf '[back](../README.md) [here](#part)\n' >"$tree/docs/a.md"
accepts 'links that lead somewhere' links
printf 'text\n[gone](docs/b.md)\n' >>"$tree/README.md"
refuses 'a link to nothing' 'README.md:6: docs/b.md is not there' links
finish
