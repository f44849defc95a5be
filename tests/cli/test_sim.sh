#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# muster sim, as scripts of others use it: fields, columns, settings, the same bytes twice, words and exit codes.
. "$(dirname "$0")/../tools/tap.sh"

muster=${MUSTER_BUILD:-$root/build}/muster
cd "$scratch"

# exits TEXT CODE PATTERN COMMAND...: the command ends with this exit code and says something that matches.
exits() {
    text=$1
    code=$2
    pattern=$3
    shift 3
    "$@" >"$scratch/output" 2>&1 </dev/null
    [ $? -eq "$code" ] && grep -q -e "$pattern" "$scratch/output"
    result $? "$text"
}

# simulate TRACE POLICY FLAG...
simulate() {
    trace=$1
    shift
    "$muster" sim run --cluster 2x4 --trace "$trace" --policy "$@"
}
run() { simulate t.csv "$@"; }

cat >t.csv <<'END'
id,submit,duration,gpus
0,0,60,4
1,5,10,8
2,6,20,2
END

# field NAME VALUE: as `run --json` gave it.
field() { grep -q -e "\"$1\": \"\{0,1\}$2\"\{0,1\},\{0,1\}\$" json; }
has_fields() {
    for name in jobs finished avg_jct_seconds p50_jct_seconds p95_jct_seconds p99_jct_seconds max_jct_seconds \
        sum_jct_seconds makespan_seconds avg_queue_seconds gpu_utilization_ratio fragmentation_ratio preemptions \
        migrations deadline_miss_ratio decisions decisions_per_second wall_seconds peak_rss_bytes digest; do
        field "$name" '[^ ]*' || { echo "no $name" && return 1; }
    done
}
# Example T3: x is promoted at 300 s and at 600 s; a policy without queues has nothing to tell.
printf 'id,submit,duration,gpus\n0,0,300,1\n1,100,90,1\n2,190,90,1\n3,280,90,1\n4,370,90,1\n5,460,90,1\n6,550,90,1\n' >t3.csv
promoted() {
    "$muster" sim run --cluster 1x1 --trace t3.csv --policy "$@" --json | tr -d ' \n' >json
}
promoted las --set queues=100s --set knob=2
accepts '--json tells promotions' grep -q '"promotions":2,"levels":\[{"mean_jobs"' json
promoted las --set queues=100s
accepts '--json: promotions are null without a knob' grep -q '"promotions":null,"levels":\[{"mean_jobs"' json
promoted fifo
accepts '--json: no queues where the policy has none' grep -q '"promotions":null,"levels":\[\],"predictions":0' json
run fifo --json >json
accepts 'the promised fields are in --json' has_fields
accepts 'finished' field finished 3
accepts 'sum_jct_seconds: 60 + 65 + 84' field sum_jct_seconds 209
accepts 'makespan_seconds' field makespan_seconds 90
accepts 'gpu_utilization_ratio: 360 of 720 GPU-seconds' field gpu_utilization_ratio 0.5

columns() { run "$@" --jobs-csv jobs.csv >/dev/null && cut -d, -f1-6 jobs.csv >six.csv; }
accepts '--jobs-csv' columns fifo
cat >want.csv <<'END'
job_id,gpus,submit_seconds,start_seconds,end_seconds,preemptions
0,4,0,0,60,0
1,8,5,60,70,0
2,2,6,70,90,0
END
accepts 'fifo, job by job' diff want.csv six.csv
accepts 'fifo-skip' columns fifo-skip
sed -i 's/^1,.*/1,8,5,60,70,0/; s/^2,.*/2,2,6,6,26,0/' want.csv
accepts 'fifo-skip lets the small one pass' diff want.csv six.csv
accepts 'srtf with restart=60s' columns srtf --set restart=60s
cat >want.csv <<'END'
job_id,gpus,submit_seconds,start_seconds,end_seconds,preemptions
0,4,0,0,130,1
1,8,5,5,15,0
2,2,6,15,35,0
END
accepts 'srtf preempts, and the resume costs 60 s' diff want.csv six.csv

early() {
    "$muster" sim compare --cluster 2x4 --trace t.csv --policy fifo,srtf --set until=20s --report early.html >early 2>/dev/null &&
        grep -q '^fifo  *0  *-  *-  ' early && grep -q '^srtf  *1 .*10.0s\*.* -$' early && grep -q 'fifo finished no job' early.html
}
accepts 'a run that finished nothing is not the best, nor a measure' early

every() {
    for policy in fifo fifo-skip sjf srtf srsf backfill-easy backfill-conservative yarn-cs; do
        "$muster" sim policies | grep -q -x -e "$policy" || { echo "$policy is not listed" && return 1; }
        for place in count consolidate spread random topology yarn; do
            run $policy --set place=$place --set round=10s --seed 3 --json >one || return 1
            grep -q '"finished": 3,' one || { echo "$policy, $place: not all finished" && return 1; }
        done
    done
}
accepts 'every policy with every placement, in rounds' every

twice() {
    for name in a5 b5 c6; do
        "$muster" sim gen --shape "$1" --jobs 300 --seed "${name#?}" -o "$name.csv" || return 1
    done
    cmp a5.csv b5.csv || return 1
    [ "$1" = r1 ] || ! cmp -s a5.csv c6.csv || return 1
    for n in 1 2; do
        "$muster" sim run --cluster 8x8 --trace a5.csv --policy srsf --set place=random --seed 9 --json \
            --jobs-csv jobs$n.csv --set infeasible=skip | grep -E '"(digest|sum_jct_seconds|decisions)"' >run$n || return 1
    done
    cmp run1 run2 && cmp jobs1.csv jobs2.csv
}
for shape in r1 philly helios sweep; do
    accepts "$shape: the same seed, the same bytes and digest" twice $shape
done
cluster_forms() {
    printf 'nodes:\n  - {count: 2, gpus: 4, sku: V100}\n' >c.yaml
    for cluster in 2x4 'racks:1 nodes:2 gpus:4 sku:V100' c.yaml; do
        "$muster" sim run --cluster "$cluster" --trace t.csv --policy fifo --json | grep -q '"sum_jct_seconds": 209,' ||
            { echo "$cluster" && return 1; }
    done
}
accepts 'a cluster as 2x4, as words, as YAML' cluster_forms
gzip -c t.csv >t.csv.gz
packed() { simulate t.csv.gz fifo --json >json && field sum_jct_seconds 209; }
accepts 'a trace in gzip' packed
accepts 'a report' run fifo --report r.html
whole() { grep -q -i '</html>' r.html && ! grep -q -E '(src|href)=.http' r.html; }
accepts 'it is one file of HTML that fetches nothing' whole
accepts 'compare, several of each' "$muster" sim compare --cluster 2x4 --trace t.csv --trace t.csv.gz \
    --policy fifo --policy srtf --seed 1-3 --report c.html

exits 'a policy misspelt' 3 "no policy 'fif'; did you mean 'fifo'" run fif
exits 'a setting nobody has' 2 "no setting 'rond'" run fifo --set rond=1
exits 'a placement nobody has' 2 "expected count, consolidate, spread" run fifo --set place=nowhere
exits 'a cluster that is none' 2 'expected a number of GPUs' "$muster" sim run --cluster 2x --trace t.csv --policy fifo
exits 'a trace that is not there' 3 'nope.csv: No such file' simulate nope.csv fifo
exits 'an impossible job, and its line' 6 '^muster: error: t.csv:[0-9]*: job 1 asks for 8 GPUs; the cluster has 4' \
    "$muster" sim run --cluster 1x4 --trace t.csv --policy fifo
exits 'a flag that is none' 2 "unrecognized option '--nonsense'" "$muster" sim run --nonsense
exits 'a flag too many' 2 '^muster: error: --trace is there more than once: .*are needed' run fifo --trace t.csv
exits 'a flag too few, by its name' 2 '^muster: error: --policy is missing: ' "$muster" sim run --cluster 2x4 --trace t.csv
exits 'of compare too' 2 '^muster: error: --trace is missing: ' "$muster" sim compare --cluster 2x4 --policy fifo
printf 'nodes: {count: 2, gpus: 4}\nvcs:\n  a: {quota: 4, policy: fif}\n' >vcs.yaml
exits 'a policy of a cluster file, and its place' 3 "vcs.yaml:3:25: vcs.a: no policy 'fif'; did you mean 'fifo'" \
    "$muster" sim run --cluster vcs.yaml --trace t.csv --policy fifo
printf 'nodes: {count: 2, gpus: 4}\nvcs:\n  a: {quota: 4, set: {rond: 1}}\n' >vcs.yaml
exits 'a setting there' 2 "vcs.yaml:3:22: vcs.a: no setting 'rond'" \
    "$muster" sim run --cluster vcs.yaml --trace t.csv --policy fifo
printf 'id,submit,duration,gpus\n0,0,sixty,4\n' >bad.csv
exits 'a broken trace: file, line, column, what was expected' 2 'bad.csv:2:5: .*expected' simulate bad.csv fifo
printf 'nodes:\n  - {count: 2, gpus: 0}\n' >bare.yaml
exits 'a node without GPUs and CPUs' 2 "bare.yaml:2:5: a node without GPUs .*'cpus' is missing" \
    "$muster" sim run --cluster bare.yaml --trace t.csv --policy fifo
printf 'nodes:\n  - {count: 2, gpus: -1}\n' >bad.yaml
exits 'a broken cluster: file, line, column, what was expected' 2 'bad.yaml:2:[0-9]*: .*expected' \
    "$muster" sim run --cluster bad.yaml --trace t.csv --policy fifo
head -c 40 t.csv.gz >cut.csv.gz
exits 'a gzip file cut short' 2 'cut.csv.gz' simulate cut.csv.gz fifo
finish
