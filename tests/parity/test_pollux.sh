#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_pollux.sh - the completion times that Pollux' simulator gives Tiresias and Optimus, for every job: at the load of the
# baselines, and at three others as its authors published them. docs/parity.md says what each setting stands for.
. "$(dirname "$0")/common.sh"
tables=$traces/pollux/traces

printf 'id,submit,gpus,model,batch\n1,0,1,ncf,32768\n' >"$work/one.csv"
"$muster" sim run --cluster 1x1 --trace "$work/one.csv" --set speed="$tables:pollux-sim" >"$work/run.log" 2>&1
if grep -q 'built without Qhull' "$work/run.log"; then
    echo "1..0 # SKIP built without Qhull"
    exit 0
fi

# Optimus may give a job as many GPUs as its batch has of the smallest batch measured on one; of ncf, one.
elastic() {
    for model in "$tables"/*/; do
        awk -F, -v model="$(basename "$model")" '
            NR == 1 { for (i = 1; i <= NF; i++) if ($i == "local_bsz") at = i; next }
            !least || $at < least { least = $at }
            END { print model, least }' "${model}placements.csv"
    done >"$work/least"
    awk -F, -v OFS=, '
        NR == FNR { split($0, word, " "); least[word[1]] = word[2]; next }
        FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print "id,submit,gpus,gpus_min,gpus_max,model,batch"; next }
        {
            model = $at["model"]
            most = model == "ncf" ? 1 : int($at["batch"] / least[model])
            print $at["id"], $at["submit"], 1, 1, most < 64 ? most : 64, model, $at["batch"]
        }' "$work/least" "$1"
}

# published FILE WORKLOAD: `name,jct` of one workload.
published() {
    zcat "$1" | awk -v want="\"$2\"" '
        /"workload-[0-9]*": \{/ { on = index($0, want) > 0; next }
        /\}/ { on = 0 }
        on && /:/ { gsub(/[ ",]/, ""); sub(":", ","); print }'
}

# differing LIST JOBS: `jobs differing`.
differing() {
    awk -F, '
        NR == FNR { jct[$1] = $2; theirs++; next }
        FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        {
            id = $at["job_id"]; n++
            off = $at["end_seconds"] - $at["submit_seconds"] - jct[id]
            bad += !(id in jct) || $at["end_seconds"] == "" || off > 0.001 || off < -0.001
        }
        END { print n + 0, bad + (theirs > n ? theirs - n : n - theirs) }' "$1" "$2"
}

# sweep FOLDER LOAD POLICY THEIRS: all workloads of a folder.
sweep() {
    jobs=0 bad=0
    for file in "$traces/pollux/$1"/workload-*.csv; do
        name=$(basename "$file" .csv)
        "$muster" trace import --format pollux "$file" -o "$work/rigid.csv" 2>"$work/run.log" || cat "$work/run.log" >&2
        cp "$work/rigid.csv" "$work/input.csv"
        [ "$3" = las ] || elastic "$work/rigid.csv" >"$work/input.csv"
        "$muster" sim run --cluster 16x4 --trace "$work/input.csv" --policy "$3" --set compat=pollux-sim --set costs=pollux \
            --set speed="$tables:pollux-sim" --set round=60s --jobs-csv "$work/jobs.csv" >"$work/run.log" 2>&1 ||
            sed 's/^/# /' "$work/run.log"
        if [ "$2" = 1.0 ]; then
            zcat "$traces/baselines/pollux-sim/$name--n16g4--$4.csv.gz" | tail -n +2 >"$work/list"
        else
            published "$traces/pollux/results-jobload/$4-$2/summary.json.gz" "$name" >"$work/list"
        fi
        set -- "$1" "$2" "$3" "$4" $(differing "$work/list" "$work/jobs.csv")
        jobs=$((jobs + $5)) bad=$((bad + $6))
        set -- "$1" "$2" "$3" "$4"
    done
    tests=$((tests + 1))
    verdict=ok
    [ "$jobs" -gt 0 ] && [ "$bad" = 0 ] || verdict="not ok"
    echo "$verdict $tests - $4 at load $2: $jobs jobs, $bad differing"
}

for pair in las:tiresias optimus:optimus; do
    sweep workloads 1.0 "${pair%:*}" "${pair#*:}"
    for load in 0.5 1.5 2.0; do
        sweep "workloads-$load" $load "${pair%:*}" "${pair#*:}"
    done
done
echo "1..$tests"
