#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sweep.sh gate | release | pages - the settings of one mechanism side by side: the guaranteed job beside a dense neighbour with each setting of the
# gate, releases of 40 GiB with more or less of the host memory left registered,
# or kinds of host memory by what they cost to pin, to let go and to the driver's checkpoint (pages.c). report.py --summary says which meet their
# targets and which is best of those. `all.sh sweep-gate sweep-release` runs both under a time limit.
set -eu
here=$(dirname "$0")
case ${1:-} in
gate) exec env MUSTER_GPU_WINDOWS=2 python3 "$here/pair.py" 8 default AIM=12 BEFORE=0 ;;
release) exec python3 "$here/suspend.py" hold 40 0 0.1 0.25 1 0 0.1 0.25 ;;
pages) exec "$MUSTER_GPU_BUILD/pages" "${PAGES_GIB:-8}" ;;
*) echo "sweep.sh gate | release | pages" >&2 && exit 2 ;;
esac
