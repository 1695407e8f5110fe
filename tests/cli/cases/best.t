# The best weights are kept, not the last ones: a run that gets worse ends with the model of its lowest validation loss.
! part:lm
@ awk 'BEGIN{for(i=0;i<400;i++) print "line", i*i%97, i*31%11}' > text
@ printf 'propane train --data text --kind bytes --layers 1 --width 32 --heads 2 --context 16 --batch 4 --lr 0.3 --clip 0 --warmup 0 --schedule constant --eval-every 4 --eval-batches 4 --json "$@"\n' > ../bin/wild; printf 'sed -nE "s/.*\\"$1\\":([-0-9.e]*).*/\\1/p" | tail -1\n' > ../bin/key; chmod +x ../bin/wild ../bin/key
$ wild --steps 40 --run a > log; lowest=$(sed -nE 's/.*"val_loss":([0-9.]*),"val_nats.*/\1/p' log | sort -g | head -1); test "$(key best_val_loss < log)" = "$lowest" && test "$(key best_step < log)" -lt 40 && echo the best
> the best
= 0
# its model is the one of that step
$ wild --steps $(key best_step < log) --run b > blog; cmp a/model.safetensors b/model.safetensors && wild --steps 40 --keep last --run c > clog; cmp -s a/model.safetensors c/model.safetensors
= 1
# patience
$ wild --steps 4000 --patience 3 --run e > elog; best=$(key best_step < elog); last=$(sed -nE 's/.*"event":"done","step":([0-9]*).*/\1/p' elog); echo $((last - best))
> 12
= 0
$ propane train --data text --patience 3 --eval-every 0
2> propane train: --patience counts validations; give --eval-every, too
2> Try 'propane train --help'.
= 2
# epochs, schedules, a proportional warm-up, and learning rates by kind of run
@ printf 'propane train --data text --kind bytes --layers 1 --width 32 --heads 2 --context 16 --batch 4 --eval-every 0 "$@"\n' > ../bin/calm; chmod +x ../bin/calm
$ calm --epochs 0.5 --run f | grep -oE 'done: [0-9]+ steps'
>~ done: ?? steps
= 0
$ calm --epochs 1 --steps 3
2> propane train: --steps and --epochs both set the length of the run; give only one
2> Try 'propane train --help'.
= 2
$ for s in cosine linear constant wsd; do calm --steps 10 --schedule $s --json --run s-$s | sed -nE 's/.*"lr":([^,]*),.*/\1/p' | sed -n '1p;6p;10p' | tr '\n' ' '; echo; done
> 0.003 0.00180178986 0.0001874457 
> 0.003 0.00171111111 0.000422222222 
> 0.003 0.003 0.003 
> 0.003 0.003 0.00155 
= 0
$ calm --steps 5 --schedule up
2> propane train: --schedule: 'up' is not one of cosine|linear|constant|wsd
2> Try 'propane train --help'.
= 2
$ propane train --data text --init f --batch 4 --context 16 --steps 2 --eval-every 0 --run g | grep -o 'learning rate.*'; propane train --data text --init f --lora-rank 2 --batch 4 --context 16 --steps 20 --eval-every 0 --run h | grep -o 'learning rate.*'
> learning rate 5e-05 after 0 steps of warm-up, schedule cosine, --keep best
> learning rate 0.0002 after 2 steps of warm-up, schedule cosine, --keep best
= 0
# The warm-up is a fraction of the actual steps, however their number is derived.
$ for e in 0.02 0.1 1 7; do calm --epochs $e --run w-$e | sed -nE 's/^training: ([0-9]+) steps .* after ([0-9]+) steps of warm-up.*/\1 \2/p'; done | awk '{print (($2 == ($1 < 500 ? int($1 / 10) : 50) && $2 < $1) ? "part" : $0)}'
> part
> part
> part
> part
= 0
$ calm --config w-1/train.json --run w-again > log; cmp w-1/model.safetensors w-again/model.safetensors; (propane train --resume w-0.1 --steps 90; cat w-0.1/train.json) | sed -nE 's/.*after ([0-9]+) steps of warm-up.*|.*"warmup": ([0-9]+).*/\1\2/p' | uniq -c | awk '{print $1}'
> 2
= 0
# Fine-tuning passes three times over its data. A run from random weights takes 1000 steps. Explicit options win.
$ propane train --data text --init f --batch 4 --context 16 --eval-every 0 --run e1 | grep ' = '; propane train --data text --init f --lora-rank 2 --batch 8 --context 16 --eval-every 0 --run e2 | grep ' = '; for i in 1 2 3 4 5 6 7 8; do echo "{\"prompt\":\"q$i\",\"completion\":\"a\"}"; done > few.jsonl; propane train --data few.jsonl --tokenizer f --layers 1 --width 32 --heads 2 --batch 3 --context 16 --no-pack --held-out 0 --eval-every 0 --run e3 | grep ' = '; propane train --data few.jsonl --tokenizer f --layers 1 --width 32 --heads 2 --batch 3 --context 16 --no-pack --held-out 0 --eval-every 0 --steps 2 --run e4 | grep ' = '; calm --run e5 | grep ' = '
>~ * steps = 3 epochs of * windows
>~ * steps = 3 epochs of * windows
>~ 8 steps = 3 epochs of 8 windows
>~ 2 steps = 0.75 epochs of 8 windows
>~ 1000 steps = * epochs of * windows
= 0
# A validation reads the held-out data once: a larger number of batches changes neither its work nor its loss.
$ for n in 1 20 400; do propane train --data text --kind bytes --layers 1 --width 32 --heads 2 --context 16 --batch 48 --held-out 0.06 --steps 2 --eval-every 2 --eval-batches $n --profile --json --run v-$n > v-$n.log; key val_loss < v-$n.log; grep -o '"kernel":"[^"]*","place":"[a-z]*","calls":[0-9]*' v-$n.log | cksum; done | sort | uniq -c | awk '{print $1}'
> 3
> 3
= 0
# Instruction data is evaluated as it is learned: the answers alone, not the JSON.
$ for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo "{\"prompt\":\"q$i\",\"completion\":\"a\"}"; done > d.jsonl; propane train --init f --data d.jsonl --context 16 --batch 2 --steps 60 --lr 0.01 --eval-every 60 --no-pack --run i --json | key val_loss > trained; propane eval i --data d.jsonl --json > told.json; key loss < told.json > told; grep -o '"examples":20' told.json; paste trained told | awk '{print ($1 < 1 && $2 < 1) ? "near" : $0}'
> "examples":20
> near
= 0
$ propane eval i --data d.jsonl --logits x
2> propane eval: d.jsonl is instruction data; --logits and --gradients need a text or --ids
= 1
