# Training with few messages: outer steps, warm-ups, workers of several ranks, lost ranks.
! mpirun pgrep part:lm
# (Open MPI's library leaks memory, which is not ours to report)
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text
@ printf '#!/bin/sh\nexec propane train --data text --kind chars --layers 2 --width 32 --heads 2 --context 16 --batch 8 --eval-every 25 --eval-batches 2 --threads 1 --lr 1e-3 --min-lr 1e-3 --warmup 0 --outer-warmup 0 --checkpoint-every 7 --json "$@"\n' > ../bin/away; chmod +x ../bin/away
@ cp "$REPO/tests/cli/ranks" ../bin
@ printf '#!/bin/sh\nn=$1; shift; ranks $n env -u OMPI_COMM_WORLD_LOCAL_SIZE "$@"\n' > ../bin/apart; chmod +x ../bin/apart
@ printf '#!/bin/sh\nsed -nE "s/.*\\"val_loss\\":([0-9.]+).*/\\1/p" $1 | tail -1\n' > ../bin/last; chmod +x ../bin/last
# one worker trains like a single process; bad options are refused (each rank writes a file, because mpirun may mix their lines)
$ away --steps 20 --run one > one.log; ranks 1 away --steps 20 --run one.outer --outer 8 2> told > one.outer.log; cmp one/model.safetensors one.outer/model.safetensors; cat told
> propane: --outer 8 has no effect in a single process; start several with mpirun
= 0
$ for o in "--outer 10 --node-ranks 2" "--outer-warmup 5"; do rm -f said.?; ranks 3 sh -c "exec away --batch 9 --run bad $o 2> said.\$OMPI_COMM_WORLD_RANK" > mpi 2>&1; sed -n 's/.*rank [012] of 3: //p' said.? | head -1; done
> --node-ranks 2 does not divide the 3 ranks; give a divisor
> --outer-warmup applies only to training with few messages; give --outer H, too
= 0
# from random weights without --outer-warmup: a warning states what that costs
$ ranks 2 propane train --data text --kind chars --layers 1 --width 16 --heads 1 --context 16 --batch 8 --steps 20 --eval-every 0 --outer 10 --run told1 2> told > told1.log; cat told; ranks 2 propane train --data text --init one --batch 8 --context 16 --steps 20 --eval-every 0 --outer 10 --run told2 > told2.log
> propane: --outer 10 from random weights ends at a higher loss than data-parallel training; --outer-warmup N makes the first N steps data-parallel, and --init starts from a trained model
= 0
# the result of an agreement does not depend on the transport: messages give the bits of shared memory
$ ranks 2 away --steps 45 --run s.near --outer 20 > s.near.log; apart 2 away --steps 45 --run s.apart --outer 20 > s.apart.log; cmp s.near/model.safetensors s.apart/model.safetensors && echo same
> same
= 0
# killed at any step and resumed, a run continues bit for bit, with 4-bit remainders and each rank's own weights
# (the run to be killed has no end of its own; the step at which it was killed sets the number of steps of both runs)
@ printf '#!/bin/sh\nname=$1; shift; ranks 2 away --steps 100000 --run b.$name "$@" ${WARM:+--outer-warmup 90000} > b.$name.log 2>&1 & until [ -f b.$name/checkpoint.safetensors ]; do sleep 0.1; done; sleep 0.3; kill -9 $(pgrep -x -a propane | grep -e "--run b.$name" | tail -1 | cut -d" " -f1); wait; last=$(sed -nE "s/.*\\"step\\": ?([0-9]+).*/\\1/p" b.$name/log.jsonl | tail -1); n=$((last / 20 * 20 + 100)); warm=${WARM:+--outer-warmup $((n - 53))}; ranks 2 away --steps $n --run a.$name "$@" $warm > a.$name.log; ranks 2 propane train --data text --run b.$name --resume --steps $n --threads 1 --json $WIRE $warm > c.$name.log; cmp a.$name/model.safetensors b.$name/model.safetensors && cmp a.$name/checkpoint.safetensors b.$name/checkpoint.safetensors && echo same\n' > ../bin/killed; chmod +x ../bin/killed
$ killed half --outer 20
> same
= 0
$ WIRE="--wire int4" killed int4 --outer 20 --wire int4
> same
= 0
# the same holds for sharded 8-bit moments
$ WIRE=--shard killed small --shard --moments int8
> same
= 0
# the same holds for a run that is killed in a warm-up and continues to outer steps, and for one killed after an outer step
$ WARM=1 killed warm --outer 20
> same
= 0
$ killed after --outer 20 --outer-warmup 33; WIRE="--wire int4" killed after.int4 --outer 20 --outer-warmup 33 --wire int4
> same
> same
= 0
# the steps of a warm-up are data-parallel training, bit for bit; a run with only a warm-up says so, and its ranks keep no files.
# Workers of two ranks with sharded moments sum gradients in another order: seen 3e-8
$ ranks 2 away --steps 45 --run dp > dp.log; ranks 2 away --steps 45 --run all.warm --outer 10 --outer-warmup 60 > all.warm.log 2> told; cmp dp/model.safetensors all.warm/model.safetensors && echo same; cat told; ls all.warm | grep -c worker; ranks 4 away --steps 45 --run warm4 --outer 10 --outer-warmup 45 --node-ranks 2 --shard > warm4.log 2>&1; echo $(last dp.log) $(last warm4.log) | awk '{d = $1 - $2; print (d < 1e-6 && d > -1e-6)}'
> same
> propane: --outer 10 has no effect: --outer-warmup 60 covers the whole run of 45 steps
> 0
> 1
= 0
# rounds count from the end of the warm-up; all ranks may validate and save after each of its steps
$ ranks 2 away --steps 60 --run w23 --outer 10 --outer-warmup 23 > w23.log; grep outer_bytes w23/log.jsonl | sed -nE 's/.*"step": ?([0-9]+).*/\1/p' | tail -6 | tr '\n' ' '; sed -nE 's/.*"step": ?([0-9]+).*val_loss.*/\1/p' w23/log.jsonl | tr '\n' ' '; echo; propane watch all.warm | grep -o "warm-up to step 60"; propane watch w23 | grep -o "agreed 0 steps ago"; grep -o "<b>23</b><span>steps of warm-up" w23/report.html
> 22 23 33 43 53 60 33 53 60 
> warm-up to step 60
> agreed 0 steps ago
> <b>23</b><span>steps of warm-up
= 0
# another number of ranks can continue in a warm-up
$ ranks 2 away --steps 14 --run grows --outer 10 --outer-warmup 30 > g2.log 2>&1; ranks 4 propane train --data text --run grows --resume --steps 60 --threads 1 --json > g4.log; echo $(last g2.log) $(last g4.log) | awk '{print ($2 < $1)}'
> 1
= 0
# another number of ranks can continue after it, a single rank included
$ ranks 4 propane train --data text --run s.near --resume --steps 90 --threads 1 --json > s4.log; propane train --data text --run s.near --resume --steps 120 --threads 1 --json > s1.log 2> told; echo $(last s.near.log) $(last s4.log) $(last s1.log) | awk '{print ($2 < $1), ($3 < $2)}'
> 1 1
= 0
# two workers of two ranks: data-parallel inside a worker, outer steps between workers, moments sharded or not. Gradients are
# summed in another order: seen 3e-7
$ for o in "" "--shard"; do ranks 4 away --steps 45 --run n4 --outer 20 --node-ranks 2 $o > n4.log; ranks 2 away --steps 45 --run n2 --outer 20 $(echo $o | sed s/--shard//) > n2.log; echo $(last n4.log) $(last n2.log) | awk '{d = $1 - $2; print (d < 1e-5 && d > -1e-5)}'; rm -rf n4 n2; done
> 1
> 1
= 0
# the ranks of one machine, joined by --shard, are one worker: a message says so, and they train as without --outer
$ ranks 2 away --steps 20 --run joined --outer 10 --shard 2> told > joined.log; ranks 2 away --steps 20 --run shard --shard > shard.log; cmp joined/model.safetensors shard/model.safetensors; cat told
> propane: --outer 10 has no effect: all 2 ranks form one worker, because --shard combines the ranks of a machine (--node-ranks N: N ranks each) and add up their gradients in every step
= 0
# workers of two ranks, killed and resumed bit for bit
@ sed -i.old s/ranks.2/ranks\ 4/g ../bin/killed
$ killed nodes --outer 20 --node-ranks 2
> same
= 0
# after a signal, all ranks stop after the same step, and the run continues from there bit for bit (mpirun stops reading output when
# it ends a job, so these ranks write to a file; the test signals the ranks itself, because mpirun would kill them a second later)
@ printf '#!/bin/sh\nexec away "$@" > out.$OMPI_COMM_WORLD_RANK\n' > ../bin/quiet; chmod +x ../bin/quiet
$ ranks 2 away --steps 1500 --run t1 --outer 20 > t1.log; ranks 2 quiet --steps 1500 --run t2 --outer 20 2> t2.log & until [ -f t2/checkpoint.safetensors ]; do sleep 0.1; done; kill -TERM $(pgrep -x -a propane | grep -e "--run t2 " | cut -d" " -f1); wait; grep -c '"event": *"stopped"' t2/log.jsonl; ranks 2 propane train --data text --run t2 --resume --threads 1 --json > t3.log; cmp t1/model.safetensors t2/model.safetensors && echo same
> 1
> same
= 0
# a lost rank ends the job, and the first remaining rank prints how to continue
$ for which in tail head; do OMPI_MCA_odls_base_sigkill_timeout=4 ranks 2 away --steps 100000 --run lost.$which --eval-every 0 --outer 20 > lost.log 2>&1 & until [ -f lost.$which/checkpoint.safetensors ]; do sleep 0.1; done; kill -9 $(pgrep -x -a propane | grep -e "--run lost.$which" | $which -1 | cut -d" " -f1); wait; grep -o "if one was lost, the last checkpoint is complete; continue from it with mpirun -n 2 propane train --resume --run lost.[a-z]*" lost.log; propane show lost.$which/checkpoint.safetensors > shown && echo whole; done
> if one was lost, the last checkpoint is complete; continue from it with mpirun -n 2 propane train --resume --run lost.tail
> whole
> if one was lost, the last checkpoint is complete; continue from it with mpirun -n 2 propane train --resume --run lost.head
> whole
= 0
# the log, the view and the report show the workers, the bytes and the last synchronization
$ ranks 2 away --steps 40 --run seen --outer 20 > seen.log; grep -c outer_bytes seen/log.jsonl; grep -o '"workers": *2' seen/log.jsonl | tr -d ' '; sed -nE 's/.*"staleness":([0-9]*).*/\1/p' seen/log.jsonl | sort -n | tail -1
> 2
> "workers":2
> 19
= 0
$ propane watch seen | grep -o "2 workers .* ago"; grep -o "<b>2</b><span>workers" seen/report.html
> 2 workers   each rank sent 218 KB, last 109 KB   agreed 0 steps ago
> <b>2</b><span>workers
= 0
