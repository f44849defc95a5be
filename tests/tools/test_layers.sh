#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/tap.sh"

tree=$scratch/tree
mkdir -p "$tree/src/base" "$tree/src/core" "$tree/src/policy" "$tree/src/sim"
layers() { "$root/tools/layers" "$tree"; }

echo '#include "base/units.h"' >"$tree/src/core/core.h"
echo '#include <string.h>' >"$tree/src/base/units.h"
echo '#include "core/core.h"' >"$tree/src/policy/order_las.c"
printf '#include "policy/list.h"\n#include "core/core.h"\n' >"$tree/src/sim/run.c"
accepts 'edges that go down' layers

printf '\n#include "policy/list.h"\n' >"$tree/src/core/bad.c"
refuses 'core including policy' 'src/core/bad.c:2: core may not include policy' layers
echo '  #  include   "sim/run.h"' >"$tree/src/core/bad.c"
refuses 'core including sim, oddly spaced' 'core may not include sim' layers
echo '#include "model/trace.h"' >"$tree/src/core/bad.c"
echo '#include "core/core.h"' >"$tree/src/base/bad.h"
refuses 'base including anything' 'base may not include core' layers
rm "$tree/src/base/bad.h"
echo '#include "core.h"' >"$tree/src/core/bad.c"
refuses 'an include not written from src/' 'not written from src/' layers
echo '#include "../sim/run.h"' >"$tree/src/core/bad.c"
refuses 'a way around through ..' 'not written from src/' layers
rm "$tree/src/core/bad.c"
mkdir "$tree/src/shim"
echo '#include "base/units.h"' >"$tree/src/shim/shim.c"
accepts 'the shim using base/units.h' layers
echo '#include "base/alloc.h"' >"$tree/src/shim/shim.c"
refuses 'the shim using anything else of base' 'shim may not include base' layers
rm "$tree/src/shim/shim.c"
mkdir "$tree/src/extra"
echo 'int x;' >"$tree/src/extra/extra.c"
refuses 'a layer that is not in the table' 'not in the table' layers
rm "$tree/src/extra/extra.c"
mkdir -p "$tree/src/ctl/state" "$tree/src/ctl/log" "$tree/src/ctl/rest" "$tree/src/ctl/attic"
echo '#include "ctl/state/state.h"' >"$tree/src/ctl/log/batcher.c"
echo 'ctl_apply(ctl);' >>"$tree/src/ctl/log/batcher.c"
accepts 'the log changing the state' layers
echo 'ctl_apply(ctl);' >"$tree/src/ctl/rest/rest_job.c"
refuses 'a route changing the state' 'rest_job.c:1: only ctl/log calls ctl_apply' layers
echo '#include "ctl/state/state_internal.h"' >"$tree/src/ctl/rest/rest_job.c"
refuses 'a route looking inside the state' 'only ctl/state and ctl/log may include' layers
rm "$tree/src/ctl/rest/rest_job.c"
echo '#include "ctl/log/batcher.h"' >"$tree/src/ctl/state/state.c"
refuses 'the state including the log' 'state.c:1: ctl/state may not include ctl/log' layers
echo 'json_t *tree;' >"$tree/src/ctl/state/state.c"
refuses 'the state holding a tree of jansson' 'state.c:1: the state uses no jansson' layers
echo '#include <jansson.h>' >"$tree/src/ctl/state/state.c"
refuses 'the state including jansson' 'state.c:1: the state uses no jansson' layers
echo 'struct json_write json;' >"$tree/src/ctl/state/state.c"
accepts 'a writer of JSON that is not jansson' layers
rm "$tree/src/ctl/state/state.c"
echo 'int x;' >"$tree/src/ctl/attic/old.c"
refuses 'a room that is not in the table' 'room "attic" is not in the table' layers
rm -r "$tree/src/ctl"
rm -r "$tree/src/extra"

mkdir "$tree/docs"
page() { "$root/tools/layers" --table "$tree" >"$tree/docs/architecture.md" && sed -i "$1" "$tree/docs/architecture.md"; }
echo 'int x;' >"$tree/src/shim/shim.c"
page '1i # Layers\n' # and what follows is no part of it
printf '\nText.\n\n| other | table |\n|---|---|\n| a | b |\n' >>"$tree/docs/architecture.md"
accepts 'a page with the same table' layers
says 'a layer without a folder is not in it' '| shim | `base/units.h` |' grep -e 'learn' -e 'shim' "$tree/docs/architecture.md"
page 's/^| core | cell, model/| core | model/'
refuses 'a page that allows less' 'table of layers is not that' layers
page '/^| policy /d'
refuses 'a page that lacks a layer' 'table of layers is not that' layers
page '/^| layer/d'
refuses 'a page without the table' 'table of layers is not that' layers
finish
