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
finish
