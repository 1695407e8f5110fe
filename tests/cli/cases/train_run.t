# A run's life as people expect it: resumption by its folder's name, the file that repeats it, refused differences, signals,
# plain progress, several best weights.
! part:lm
@ awk 'BEGIN{for(i=0;i<900;i++) print "line", i*i%97, "of", i%7}' > text
@ printf '#!/bin/sh\nexec propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-batches 2 "$@"\n' > ../bin/tiny; chmod +x ../bin/tiny
@ tiny --steps 12 --run a > log
$ tiny --steps 12 --lr 0.003 --run b > log; propane train --resume b --steps 15 --json > log; propane train --resume --run a --data text --steps 15 --json > other; cmp a/model.safetensors b/model.safetensors
= 0
# the record: the file alone repeats the run
$ propane train --config a/train.json --steps 12 --run c > log; tiny --steps 12 --run d > log; cmp c/model.safetensors d/model.safetensors; cmp a/train.json d/train.json; grep -cE '"run"|"resume"' a/train.json
> 0
= 1
$ propane train --config a/train.json --data text --data text --run e --json --steps 1 > log; tr -d ' \n' < e/train.json | grep -o '"data":[^]]*]'
> "data":["text","text"]
= 0
# changes that a resumed run refuses
$ propane train --resume a --layers 3
2> propane train: a: the run's model has --layers 1, not 3; leave it out, or start another run
= 1
$ propane train --resume a --arch gpt2
2> propane train: a: the run's model has --arch llama, not gpt2; leave it out, or start another run
= 1
$ propane train --resume a --init b
2> propane train: a: the run was started without --init, not with --init b; leave it out
= 1
$ propane train --resume a --kind chars
2> propane train: a: the run's vocabulary is --kind bytes, not chars; leave it out
= 1
$ tiny --steps 15 --resume --run a | tail -1
> the run is already complete; continue it with a larger --steps
= 0
$ propane train b --init a --data text
2> propane train: two models were given, b and a; give only one
2> Try 'propane train --help'.
= 2
# a model without a flag means --init; its context is the run's maximum
$ propane train a --data text --batch 2 --steps 2 --lora-rank 2 --eval-every 0 --run f | grep '^model'
>~ model: * parameters, 1 layer, width 16, context 16
= 0
$ echo $(ls f)
>~ adapter_config.json * tokenizer.json tokenizer.propane.json tokenizer_config.json train.json
= 0
# signals: SIGTERM exits with 143; after SIGUSR1 the run writes a checkpoint and continues
$ : > log; tiny --steps 100000000 --run term --json >> log & p=$!; until grep -q '"step":3,' log; do sleep 0.05; done; kill -TERM $p; wait $p; echo $?
> 143
2~ propane train: stopped after step * of 100000000; continue with: propane train --resume term
= 0
# (two at the same time count as one, as timeout(1) sends them)
$ : > two.log; tiny --steps 100000000 --run two --json >> two.log & p=$!; until grep -q '"step":3,' two.log; do sleep 0.05; done; kill -TERM $p; kill -TERM $p 2> /dev/null; wait $p; echo $?; propane show two/checkpoint.safetensors > shown && echo whole
> 143
> whole
2~ propane train: stopped after step * of 100000000; continue with: propane train --resume two
= 0
$ : > usr.log; tiny --steps 100000000 --checkpoint-every 100000000 --run usr --json >> usr.log 2> usr.err & p=$!; until grep -q '"step":3,' usr.log; do sleep 0.05; done; kill -USR1 $p; until [ -f usr/checkpoint.safetensors ]; do sleep 0.05; done; sleep 0.3; kill -INT $p; wait $p; echo $?; grep -c '"event":"checkpoint"' usr.log; grep -A1 -m1 checkpoint usr.log | tail -1 | cut -c1-7
> 130
> 2
> {"step"
= 0
# progress: lines with the time, a bar on request, or nothing
$ tiny --steps 3 --run p --progress plain | grep -cE '^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}  step [13]/3  loss'
> 2
= 0
$ tiny --steps 3 --run q --progress none | grep -c 'step [0-9]*/3'; tiny --steps 3 --run r --progress bar | grep -c "$(printf '\r')"
> 0
> 1
= 0
# several best weights; each is a model
$ tiny --steps 40 --eval-every 4 --keep 3 --run s --json > log; ls s | grep -c 'best\.[0-9]*\.safetensors'; sed -nE 's/.*"step":([0-9]*),"val_loss":([0-9.]*).*/\2 \1/p' log | sort -g | head -3 | awk '{print "best." $2 ".safetensors"}' | sort > want; ls s | grep 'best\.[0-9]' | sort | cmp - want; propane eval s/best.$(sed -nE 's/.*"best_step":([0-9]*).*/\1/p' log).safetensors --tokenizer s/tokenizer.propane.json --data text > e.out; propane eval s --data text | cmp e.out -
> 3
= 0
$ tiny --steps 4 --keep 0
2> propane train: --keep is '0'; it must be best, last or a number from 1 to 1000
= 1
# Slurm: ranks that cannot find each other are refused, because each would train the whole run
$ SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=2 tiny --steps 2 --run slurm
2> propane train: srun started 2 tasks that cannot find each other: use srun --mpi=pmix, or --ntasks=1 for one process
= 1
$ SLURM_NTASKS=2 SLURM_PROCID=0 tiny --steps 2 --run batch | tail -1 | cut -c1-20
> validation at step 2
= 0
$ TMPDIR=$PWD PMIX_RANK=0 SLURM_NTASKS=2 tiny --steps 2 --run pmix > log 2>&1; code=$?; grep -c '^done' log; test $code -ne 0
> 0
= 0
# numbers in JSON have no needless digits
$ grep -c '0000000[0-9]' a/config.json a/train.json a/log.jsonl | cut -d: -f2 | tr '\n' ' '; echo; grep -o '"beta1": [0-9.]*' a/train.json
> 0 0 0 
> "beta1": 0.9
= 0
# worse than guessing: a warning
$ tr 0-9a-z A-J0-9 < text > letters; tiny --val-data letters --steps 60 --lr 0.05 --keep last --run wild > log
2~ propane train: the validation loss, **, is far above that of a uniform guess among 256 ids, 5.5452: the training has diverged (start again with a smaller --lr), or the validation data is of a different kind
= 0
# no better than guessing after many steps: also a warning
$ tiny --steps 100 --lr 1e-9 --warmup 0 --run nothing > log
2~ propane train: the validation loss, 5.5**, is no better than that of a uniform guess among 256 ids, 5.5452: the model has learned almost nothing (start again with another --lr), or the validation data is of a different kind
= 0
