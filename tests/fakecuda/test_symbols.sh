#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_symbols.sh LIBRARY HOOKS_DEF - the library as the linker sees it: it exports what the table says and a few names more,
# needs nothing of CUDA, no C library newer than 2.17, and its dlsym leaves by a jump. TAP on standard output.
set -u
library=$1 hooks=$2
n=0 failed=0
check() {
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else failed=1; echo "not ok $n - $1"; echo "$2" | sed 's/^/# /'; fi
}
command -v nm >/dev/null && command -v objdump >/dev/null || { echo "1..0 # SKIP no binutils"; exit 0; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
{ sed -n 's/^HOOK_[A-Z]*(\([A-Za-z0-9_]*\),.*/\1/p' "$hooks"
  echo dlsym; echo dlvsym; echo ioctl; echo muster_step; echo muster_gpu_stat; echo muster_gpu_switch; echo muster_gpu_real
  echo muster_gpu_site; echo muster_gpu_site_step; echo muster_gpu_site_done; echo muster_gpu_site_stats
  sed -n 's/^EXPORT int \(nvml[A-Za-z0-9_]*\)(.*/\1/p' "$(dirname "$hooks")/memory/nvml.c"; } | LC_ALL=C sort >"$dir/want"
nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | LC_ALL=C sort >"$dir/have"
check "it exports the table and no more" "$(diff "$dir/want" "$dir/have")"
nm -D --undefined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' >"$dir/needs"
check "it needs nothing of CUDA" "$(grep -E '^(cu|nv)' "$dir/needs")"
check "it never looks a name up by the public function" "$(grep -xE 'dlsym|dlvsym|dlopen|ioctl' "$dir/needs")"
check "it neither aborts nor exits nor asserts" "$(grep -xE 'abort|exit|_exit|__assert_fail' "$dir/needs")"
check "what a thread keeps needs no call to be found" "$(grep -x __tls_get_addr "$dir/needs")"
# Of the program's stack: what each function that it can call takes at once, in bytes.
objdump -d --no-show-raw-insn "$library" | sed -n 's/^[0-9a-f]* <\([A-Za-z0-9_]*\).*>:$/\1/p; s/.*sub  *\$0x\([0-9a-f]*\),%rsp.*/= \1/p' |
    while read -r word rest; do if [ "$word" = = ]; then echo "$name $((0x$rest))"; else name=$word; fi; done >"$dir/frames"
check "none of its functions takes a KiB of the program's stack" "$([ -s "$dir/frames" ] || echo "no frames were seen"
    while read -r name bytes; do [ "$bytes" -le 1024 ] || ! grep -qx "$name" "$dir/have" || echo "$name $bytes"; done <"$dir/frames")"
check "it allocates nothing itself" "$(grep -xE 'malloc|calloc|realloc|free' "$dir/needs")"
newest=$(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -1)
check "it loads beside a C library 2.17" "$([ "$(printf '2.17\n%s\n' "$newest" | sort -V | tail -1)" = 2.17 ] || echo "needs $newest")"
code=$(objdump -d --no-show-raw-insn "$library" | awk '/^[0-9a-f]+ <dlv?sym(@@[^>]*)?>:/ { on = 1 } /^$/ { on = 0 } on')
check "dlsym and dlvsym leave by a jump" "$([ "$(echo "$code" | grep -cE 'jmp +\*%rax')" = 2 ] || echo "$code")"
check "and call nothing through a pointer" "$(echo "$code" | grep -E 'call +\*')"
echo "1..$n"
exit $failed
