# A lost rank is shed where Open MPI leaves the others alive (ULFM): they go on from the next outer step, one of them writes.
@ sh "$REPO/tests/cli/ulfm" ../bin
! ranks-that-shed
# (its library tells on standard error of the messages that a lost rank ended)
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text
# loses NAME RANKS "VICTIMS" FLAGS...: once there is a checkpoint, the victims are stopped, so that the others come to wait for
# them in the sum, and killed
@ printf '#!/bin/sh\nname=$1 n=$2 victims=$3; shift 3; ranks-that-shed $n $name propane train --data text --kind chars --layers 2 --width 32 --heads 2 --context 16 --batch 12 --eval-every 100 --eval-batches 2 --threads 1 --lr 1e-3 --min-lr 1e-3 --checkpoint-every 20 --steps 600 --json --run $name "$@" > $name.log 2> $name.err & job=$!; until [ -f $name/checkpoint.safetensors ]; do sleep 0.1; kill -0 $job || exit 1; done; for v in $victims; do kill -STOP $(cat $name.pid.$v); sleep 0.3; kill -9 $(cat $name.pid.$v); done; wait $job; echo "exit $?"\n' > ../bin/loses; chmod +x ../bin/loses
# told NAME: what the log says of losses, how the run ended, and that each step after the loss is there once
@ printf '#!/bin/sh\nsed -nE "s/.*\\"event\\":\\"(shed)\\",\\"step\\":[0-9]+,(.*)}/\\1 \\2/p" $1/log.jsonl; grep "\\"event\\":\\"done\\"" $1/log.jsonl | tail -1; sed -nE "s/^.\\"step\\":([0-9]+),\\"loss\\".*/\\1/p" $1/log.jsonl | tail -100 | awk "NR > 1 && \\$1 != before + 1 {gap = 1} {before = \\$1} END {print before, gap ? \\"gap\\" : \\"whole\\"}"; propane eval $1/model.safetensors --data text --json > /dev/null && echo model\n' > ../bin/told; chmod +x ../bin/told
$ loses last 3 2 --outer 10; told last
> exit 0
> shed "lost":1,"workers":2
> {"event":"done","step":600}
> 600 whole
> model
= 0
# the checkpoint and the ranks' files are those of two workers: they go on bit for bit, twice the same
$ cp -r last again; for d in last again; do ranks-that-shed 2 $d propane train --data text --run $d --resume --steps 640 --threads 1 --json > $d.log 2> /dev/null; done; cmp last/model.safetensors again/model.safetensors && ls last | grep worker
> worker-0.640.safetensors
> worker-1.640.safetensors
= 0
# the rank that wrote: the next one writes, and holds the folder
$ loses first 3 0 --outer 10; told first; grep -c '"event":"done"' first.log
> exit 0
> shed "lost":1,"workers":2
> {"event":"done","step":600}
> 600 whole
> model
> 1
= 0
$ propane watch first --once | grep -c '2 workers (1 lost)'
> 1
= 0
# two at once, with fragments under way and 4 bits; one after the other, until one is alone
$ loses two 4 "0 3" --outer 20 --outer-fragments 4 --wire int4; told two | tail -4
> exit 0
> shed "lost":2,"workers":2
> {"event":"done","step":600}
> 600 whole
> model
= 0
$ loses mean 3 "1 0" --outer 10 --outer-lr 1 --outer-momentum 0; told mean | tail -4
> exit 0
> shed "lost":2,"workers":1
> {"event":"done","step":600}
> 600 whole
> model
= 0
# in the middle of many small messages
$ loses often 3 1 --outer 1 --bucket 3000 --steps 200; told often
> exit 0
> shed "lost":1,"workers":2
> {"event":"done","step":200}
> 200 whole
> model
= 0
# data-parallel, whose gradients need all, and workers of two ranks, of which half a one would be left: the job ends, and who
# notices it says how to go on (such an mpirun ends with 0 all the same)
$ loses all 2 1 > code; tail -1 all/log.jsonl | cut -c1-18; grep -c "the last checkpoint is whole: go on from it with mpirun -n 2" all.err; propane show all/checkpoint.safetensors > shown && echo whole
> {"event":"failed",
> 1
> whole
= 0
$ loses pairs 4 3 --outer 10 --node-ranks 2 > code; grep -q "the last checkpoint is whole: go on from it with mpirun -n 4" pairs.err && echo told
> told
= 0
# so in a warm-up, whose steps are data-parallel; after one the others go on
$ loses warming 3 1 --outer 10 --outer-warmup 600 > code; tail -1 warming/log.jsonl | cut -c1-18; grep -q "the last checkpoint is whole: go on from it with mpirun -n 3" warming.err && echo told; propane show warming/checkpoint.safetensors > shown && echo whole
> {"event":"failed",
> told
> whole
= 0
$ ranks-that-shed 3 warming propane train --data text --run warming --resume --outer-warmup 600 --steps 620 --threads 1 --json > warming.log 2> /dev/null; grep -o '"event":"done","step":620' warming.log
> "event":"done","step":620
= 0
$ loses warmed 3 1 --outer 10 --outer-warmup 15; told warmed
> exit 0
> shed "lost":1,"workers":2
> {"event":"done","step":600}
> 600 whole
> model
= 0
