# Direct preference optimization: pairs in trl's format, the margins after training, and the resumption of a stopped run.
! part:lm
@ awk 'BEGIN{for(i=0;i<3000;i++) print "line", i*i%977, "of", i%7}' > text
@ propane train --data text --vocab 300 --layers 2 --width 32 --heads 4 --kv-heads 2 --context 64 --batch 4 --steps 60 --warmup 5 --lr 3e-3 --eval-batches 2 --run base > log
@ awk 'BEGIN{for(i=0;i<120;i++) printf "{\"prompt\": \"line %d of\", \"chosen\": \" %d\", \"rejected\": \" %d\"}\n", i*i%977, i%3, 3+i%4}' > pairs.jsonl
@ printf 'propane train --init base --data pairs.jsonl --method dpo --context 32 --batch 8 --lr 1e-3 --warmup 0 --eval-every 10 "$@"\n' > ../bin/prefer; chmod +x ../bin/prefer
# each pair is two examples, the chosen one first
$ head -1 pairs.jsonl > one.jsonl; propane show one.jsonl --model base | tail -n +2
> --- 1, 4 tokens
> line 0 of[ 0]
> --- 2, 4 tokens
> line 0 of[ 3]
= 0
# before the first step the model is its own reference: the loss is ln 2 for any pairs; then it falls
$ prefer --steps 40 --run a > a.log; grep -oE 'pairs: .*|step 1/40  loss [0-9.]*' a.log; sed -n 's/^validation.*loss \([0-9.]*\), the chosen answer is preferred in \([0-9.]*\) .*/\1 \2/p' a.log | awk '{exit !($1 < 0.65 && $2 > 90)}'
> pairs: 120, beta 0.1, relative to the initial model
> step 1/40  loss 0.6931
= 0
$ propane generate a --prompt "line 44 of" -n 1 --temperature 0 | grep -cE '[012]$'
> 1
= 0
# a resumed run ends with the same bits and keeps its original reference; this also holds for programs that contain weights
$ prefer --steps 12 --min-lr 1e-3 --run b > log; prefer --steps 6 --min-lr 1e-3 --run c > log; propane train --resume c --steps 12 > log; cmp b/model.safetensors c/model.safetensors
= 0
$ prefer --steps 12 --min-lr 1e-3 --weights baked --compile-budget 40 --json --run d > d.log; test $(grep -c '"restart"' d.log) -ge 1 && cmp b/model.safetensors d/model.safetensors; grep -c '"val_loss":[0-9.]*,"val_accuracy":[0-9]' d.log
> 3
= 0
$ rm c/reference.safetensors; propane train --resume c --steps 14
>~ pairs: 120, beta 0.1, relative to the initial model
2> propane train: c/reference.safetensors is missing; it contains the reference log-probabilities of the initial model. Start another run
= 1
# adapters, accumulation, separate validation data
$ tail -20 pairs.jsonl > last.jsonl; prefer --val-data last.jsonl --lora-rank 4 --accumulate 2 --steps 20 --lr 1e-2 --run e | grep -oE 'pairs: [0-9]*|adapter in e'
> pairs: 140
> adapter in e
= 0
# a separate prompt, one as text, or one within the answers: the same conversation
@ printf '%s\n' '{"prompt": [{"role": "user", "content": "Hi"}], "chosen": [{"role": "assistant", "content": "Yes"}], "rejected": [{"role": "assistant", "content": "No"}]}' > m1.jsonl
@ printf '%s\n' '{"prompt": "Hi", "chosen": [{"role": "assistant", "content": "Yes"}], "rejected": [{"role": "assistant", "content": "No"}]}' > m2.jsonl
@ printf '%s\n' '{"prompt": "Hi", "chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}], "rejected": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No"}]}' > m3.jsonl
@ sed 's/"prompt": "Hi", //' m3.jsonl > m4.jsonl
$ for i in 1 2 3 4; do propane show m$i.jsonl --model base --chat chatml | tail -n +2 > m$i; cmp m1 m$i; done; sed -n 2,5p m1
> <|im_start|>user
> Hi<|im_end|>
> <|im_start|>assistant
> [Yes<|im_end|>]
= 0
# combinations that are refused
$ propane train --init base --data pairs.jsonl --context 32 --run f
2> propane train: pairs.jsonl contains pairs ("chosen" and "rejected"); give --method dpo
= 1
$ echo '{"text": "line 1"}' > t.jsonl; propane train --init base --data t.jsonl --method dpo --run f
2> propane train: --method dpo trains on pairs, but t.jsonl has none; give lines with "prompt", "chosen" and "rejected"
= 1
$ prefer --batch 7 --run f
2> propane train: --batch is 7; with --method dpo it must be even, because a pair takes two sequences
= 1
$ propane train --data pairs.jsonl --tokenizer base/tokenizer.json --method dpo --run f
2> propane train: --method dpo trains an existing model; give it with --init
= 1
$ cat pairs.jsonl t.jsonl > both.jsonl; prefer --data both.jsonl --run f
2> propane train: both.jsonl:121: pairs ("chosen" and "rejected") cannot be mixed with other examples
= 1
$ echo '{"prompt": "a", "chosen": 1, "rejected": "b"}' > n.jsonl; propane train --init base --data n.jsonl --method dpo --run f
2> propane train: n.jsonl:1: "prompt", "chosen" and "rejected" must all be strings, or the answers must be lists of messages
= 1
$ propane eval base --data pairs.jsonl
2> propane eval: pairs.jsonl contains pairs, for which there is no loss on answers; use it as --val-data of a run with --method dpo
= 1
