#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures bytes and time between machines with a slow network: two network namespaces, one rank in each, 20 Mbit/s and
# 40 ms one way (bench/slow_link.py), on this machine, as root. Data-parallel and outer steps alternate. Prints CSV and
# writes it to OUT (build/away.csv): what, round, ranks, steps, seconds to the step before the last (after which
# everything is agreed on), the same per step, all bytes that the first namespace's interface sent, the part of the
# time that was not spent on agreeing ("compute"; not for data-parallel), and the rate relative to that of "alone", the
# same ranks without messages. Data-parallel makes a 25th of the steps.
# Usage: bench/run_away.sh [BUILD [ROUNDS [STEPS (250) [flags of propane train...]]]]   (skipped without root, mpirun,
# ip, /dev/net/tun)
# WHAT="outer outer-int4": only these rows and "alone". Without flags the model has 0.4 million parameters: a fragment
# of 0.4 MB takes 0.3 s of the network and has 20 steps for it.
set -u
cd "$(dirname "$0")/.." || exit 2
here=$PWD build=${1:-build/release} rounds=${2:-2} steps=${3:-250}
[ $# -gt 3 ] && shift 3 || set -- --layers 2 --width 128 --heads 4 --context 64
out=${OUT:-build/away.csv}
program=$(cd "$build" && pwd)/propane
for tool in mpirun ip python3 unshare; do
    command -v $tool > /dev/null || { echo "skipped: there is no $tool"; exit 0; }
done
[ "$(id -u)" = 0 ] && [ -c /dev/net/tun ] || { echo "skipped: needs root and /dev/net/tun"; exit 0; }
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-away.XXXXXX") || exit 2
link=
clean() {
    [ -n "$link" ] && kill "$link" 2> /dev/null
    ip netns del propane1 2> /dev/null
    ip netns del propane2 2> /dev/null
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
ip netns add propane1 && ip netns add propane2 || { echo "skipped: no network namespaces here"; exit 0; }
nice -n -10 python3 -I "$here/bench/slow_link.py" 20e6 0.04 propane1 propane2 > "$work/link" & link=$! # a network does not wait for a processor
until grep -q ready "$work/link"; do
    kill -0 $link 2> /dev/null || { echo "skipped: the link cannot be made"; exit 0; }
    sleep 0.1
done

# The command with which mpirun starts another machine's rank: HOST WORDS...
cat > "$work/agent" << 'EOF'
#!/bin/sh
host=$1
shift
exec ip netns exec "propane${host##*.}" unshare -u sh -c 'hostname "away$0"; shift 0; exec sh -c "$*"' "${host##*.}" "$@"
EOF
chmod +x "$work/agent"
awk 'BEGIN{srand(1); for(i=0;i<6000;i++) print "line", i*i%977, int(rand()*100)}' > "$work/text"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

sent() { ip netns exec propane1 cat /sys/class/net/away0/statistics/tx_bytes; }
run() { # NAME FLAGS...
    name=$1 n=$2
    shift 2
    rm -rf "$work/run"
    before=$(sent)
    ip netns exec propane1 unshare -u sh -c 'hostname away1; exec "$@"' sh \
        mpirun --prefix "$(dirname "$(dirname "$(readlink -f "$(command -v mpirun)")")")" \
        --mca plm_rsh_agent "$work/agent" --mca btl self,tcp --mca btl_tcp_if_include away0 --mca oob_tcp_if_include away0 \
        --mca mpi_yield_when_idle 1 --bind-to none --host 10.77.0.1,10.77.0.2 -n 2 --wdir "$work" \
        "$program" train --data "$work/text" --kind chars --batch 8 --threads 1 --steps "$n" --eval-every 0 \
        --checkpoint-every 0 --no-report --json --run "$work/run" "$@" > "$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
    # without the last step, after which everything is agreed on
    awk -v alone="$work/alone" -v head="$name,$round,2,$n" -v last="$n" -v bytes="$(($(sent) - before))" '
        function value(key) {return match($0, "\"" key "\":[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0}
        /"loss"/ && value("step") < last {waited += value("outer_ms"); seconds = value("seconds")}
        END {a = seconds / (last - 1); if (head ~ /^alone/) print a > alone; else getline of < alone; if (!of) of = a
            printf "%s,%.2f,%.4f,%d,%.3f,%.3f\n", head, seconds, a, bytes, 1 - waited / 1000 / seconds, of / a}' \
        "$work/run/log.jsonl" | tee -a "$out"
}
echo "what,round,ranks,steps,seconds,seconds_a_step,bytes,compute,of_alone" | tee "$out"
wanted() { case " ${WHAT:-$1} " in *" $1 "*) return 0 ;; esac; return 1; }
row() { wanted "$1" && run "$@"; }
for round in $(seq "$rounds"); do
    run alone "$steps" --outer 1000000 "$@"
    row data-parallel $((steps / 25)) "$@"
    row data-parallel-bf16 $((steps / 25)) --wire bf16 "$@"
    row outer "$steps" --outer 100 "$@"
    row outer-int4 "$steps" --outer 100 --wire int4 "$@"
done
