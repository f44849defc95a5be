#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# muster trace, as a user meets it: outputs, words and exit codes.
. "$(dirname "$0")/../tools/tap.sh"

muster=${MUSTER_BUILD:-$root/build}/muster
cd "$scratch"

# exits TEXT CODE COMMAND...: the command ends with this exit code.
exits() {
    text=$1
    code=$2
    shift 2
    "$@" >"$scratch/output" 2>&1
    [ $? -eq "$code" ]
    result $? "$text"
}

cat >tiresias.csv <<'END'
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,133,vgg11,147,23
2,0,53,157,inception4,127,26
END
cat >native.csv <<'END'
id,submit,duration,gpus,model
0,0,164,1,vgg19
1,30,147,8,vgg11
END
gzip -k tiresias.csv native.csv

accepts 'import' "$muster" trace import --format tiresias tiresias.csv -o out.csv
accepts 'it became the native trace' diff out.csv native.csv
accepts 'import of a gzip file' "$muster" trace import --format tiresias tiresias.csv.gz -o out2.csv
accepts 'the same' cmp out.csv out2.csv
says 'what was left out is told' \
    'muster: note: tiresias.csv: 1 job (it is on line 4): left out: asks for no GPU' \
    sh -c "'$muster' trace import --format tiresias tiresias.csv -o - 2>&1 >/dev/null"
accepts 'standard input to standard output' \
    sh -c "'$muster' trace import --format tiresias - -o - <tiresias.csv 2>/dev/null | cmp - native.csv"

exits 'no format' 2 "$muster" trace import tiresias.csv -o x
exits 'no output' 2 "$muster" trace import --format tiresias tiresias.csv
exits 'no file' 2 "$muster" trace import --format tiresias -o x
exits 'unknown format' 2 "$muster" trace import --format slurm tiresias.csv -o x
exits 'unknown flag' 2 "$muster" trace stat --colour native.csv
exits 'unknown verb' 2 "$muster" trace count
exits 'missing file' 3 "$muster" trace stat nothing.csv
accepts 'help' "$muster" trace import --help
accepts 'nothing was written by a usage error' test ! -e x

accepts 'stat' sh -c "'$muster' trace stat native.csv --cluster 1x8 | grep -q '^offered load *5.583 on 1x8 (8 GPUs)'"
accepts 'stat of a gzip file' "$muster" trace stat native.csv.gz
accepts 'stat as JSON' sh -c "'$muster' trace stat native.csv --json | grep -q '\"duration_p50_seconds\": 147'"
refuses 'a foreign trace is recognised' 'hint: it looks like a tiresias trace' "$muster" trace stat tiresias.csv
refuses 'a wrong cluster' "cluster '1x': character 3: expected a number of GPUs" "$muster" trace stat native.csv --cluster 1x
printf 'id,submit,duration,gpus\n0,0,5,none\n' >bad.csv
says 'a wrong row' "muster: error: bad.csv:2:7: gpus: expected a whole number from 0 to 65536, got 'none'" \
    "$muster" trace stat bad.csv
head -c 60 native.csv.gz >cut.csv.gz
says 'a cut file' 'muster: error: cut.csv.gz: gzip data is cut short at byte 60' "$muster" trace stat cut.csv.gz
finish
