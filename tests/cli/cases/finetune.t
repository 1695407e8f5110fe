# Fine-tuning on instruction data: which tokens are learned, errors in the data, and interrupted runs.
! part:lm
@ awk 'BEGIN{for(i=0;i<3000;i++) print "line", i*i%977, "of", i%7}' > text
@ awk 'BEGIN{for(i=0;i<200;i++) printf "{\"prompt\": \"line %d of\", \"completion\": \" %d\"}\n", i*i%977, i%7}' > plain.jsonl
@ awk 'BEGIN{for(i=0;i<60;i++) printf "{\"messages\": [{\"role\": \"user\", \"content\": \"line %d\"}, {\"role\": \"assistant\", \"content\": \"of %d\"}]}\n", i*i%977, i%7}' > chat.jsonl
@ propane train --data text --vocab 300 --layers 2 --width 32 --heads 4 --kv-heads 2 --context 64 --batch 4 --steps 20 --warmup 5 --lr 3e-3 --eval-batches 2 --run base > log
@ printf 'propane train --init base --context 48 --batch 2 --accumulate 2 --steps 8 --warmup 0 --eval-batches 2 --eval-every 4 "$@"\n' > ../bin/tune; chmod +x ../bin/tune
@ printf 'sed -n "s/.*\\"$1\\":\\([0-9.e-]*\\).*/\\1/p" | tail -1\n' > ../bin/field; chmod +x ../bin/field
# the data as the model would see it
$ head -1 plain.jsonl > one.jsonl; propane show one.jsonl --model base
> one.jsonl: 1 example, 1 of 4 tokens count toward the loss, chat format plain
> --- 1, 4 tokens
> line 0 of[ 0]
= 0
$ head -1 chat.jsonl > two.jsonl; propane show two.jsonl --model base --chat chatml | tail -n +3 | head -4
> <|im_start|>user
> line 0<|im_end|>
> <|im_start|>assistant
> [of 0<|im_end|>]
= 0
$ propane show one.jsonl
2> propane show: one.jsonl is instruction data; name the model that reads it with --model
= 1
# training on it: the model's own tokenizer, fewer windows than examples, and a falling loss of the answers
$ tune --data plain.jsonl --run a > a.log; head -4 a.log
>~ plain.jsonl: 200 examples, * of * tokens count toward the loss, chat format plain
>~ plain.jsonl: * tokens, bpe vocabulary of 300
>~ model: * parameters, 2 layers, width 32, context 48
= 0
$ tune --data plain.jsonl --run b --weights baked --compile-budget 40 --json > b.log; test $(grep -c "\"restart\"" b.log) -ge 1 && cmp a/model.safetensors b/model.safetensors
= 0
$ tune --data plain.jsonl --run long --steps 60 --lr 3e-3 --json > long.log; awk -v a="$(head -1 long.log | field loss)" -v b="$(field val_loss < long.log)" 'BEGIN{exit !(b < a / 2)}'
= 0
$ tune --data chat.jsonl --no-pack --run c | grep windows
>~ * steps = * epoch* of 54 windows
= 0
# an interrupted run resumes with the same settings
$ tune --data chat.jsonl --no-pack --run d --steps 4 > log; propane train --data chat.jsonl --run d --resume --steps 8 | grep -c windows
> 1
= 0
$ propane train --data chat.jsonl --run d --resume --pack --steps 9
2> propane train: d/checkpoint.safetensors was written with --pack 0, not 1; resume with the same, or start a new run in another folder
= 1
$ propane train --data plain.jsonl --run d --resume --steps 9
2~ propane train: d/checkpoint.safetensors was written with data with this number of tokens: *, not *; resume with the same, or start a new run in another folder
= 1
# frozen weights: the others are trained, the frozen ones stay unchanged to the bit
$ tune --data plain.jsonl --run f --freeze embed_tokens,layers.0. | grep frozen
>~ frozen: * parameters are trained; the others have no gradient or optimizer state
= 0
$ tune --data plain.jsonl --run g --trainable '*layers.1.*' --freeze norm --plan six --precision fp16 | grep -c frozen
> 1
= 0
$ tune --data plain.jsonl --run e --trainable nowhere
2~ propane train: --trainable 'nowhere' and --freeze '' leave nothing to train; tensors have names such as 'model.*'
= 1
# adapters: only they are written, and a resumed run applies the same dropout
@ printf 'tune --data plain.jsonl --lora-rank 4 --lora-targets all --lora-dropout 0.1 --lr 1e-2 "$@"\n' > ../bin/lora; chmod +x ../bin/lora
$ lora --run la > la.log; grep -E 'adapters|done' la.log; ls la; test -e la/model.safetensors
>~ adapters: rank 4, alpha 16, dropout 0.1, of q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj; * parameters are trained
>~ done: 8 steps in * s; adapter in la
>~ adapter_config.json
>~ adapter_model.safetensors
= 1
$ lora --run lb > log; cmp la/adapter_model.safetensors lb/adapter_model.safetensors
= 0
$ lora --run lc --steps 4 --min-lr 1e-2 > log; propane train --resume --run lc --data plain.jsonl --steps 8 --json > lc.log; lora --run ld --steps 8 --min-lr 1e-2 > log; cmp lc/adapter_model.safetensors ld/adapter_model.safetensors
= 0
$ lora --run le --weights baked --compile-budget 40 --json > le.log; grep -c restart le.log; cmp la/adapter_model.safetensors le/adapter_model.safetensors
> 0
= 0
# On an engine the base becomes constants by default, unless it needs too many programs. On the CPU it does not. Resumed runs keep the bits.
@ propane train --data text --vocab 300 --layers 2 --width 64 --heads 2 --context 32 --batch 2 --steps 2 --eval-every 0 --no-report --run wide > log; printf 'propane train --init wide --data text --context 32 --batch 2 --device sim:m4 --lora-rank 2 --lora-targets all --warmup 0 --lr 1e-2 --min-lr 1e-2 --eval-every 0 --no-report "$@"\n' > ../bin/engine; chmod +x ../bin/engine
$ for way in "engine" "few --compile-budget 6" "cpu --device cpu --precision fp16"; do engine --steps 4 --run lf-$way 2>&1 | grep -oE 'auto: .* inputs$|weights (inputs|baked)'; done
> auto: baked: the base model is constants in 10 programs, compiled once; adapters are inputs
> weights baked
> weights inputs
> weights inputs
= 0
$ engine --steps 2 --run lf-half > log 2>&1; propane train --resume lf-half --steps 4 --no-report 2>&1 | grep -o 'weights baked'; for f in lf-few lf-half; do cmp lf-engine/adapter_model.safetensors $f/adapter_model.safetensors; done
> weights baked
= 0
$ propane train --resume --run lc --init lc --data plain.jsonl --steps 9
2~ propane train: lc contains an adapter but no model; *
= 1
# not finished yet; its model was moved
$ cp -r la li; rm li/adapter_*; propane generate li --prompt line; mv base moved; propane train --resume --run la --data plain.jsonl --steps 9; propane train --resume --run la --init moved --data plain.jsonl | grep complete; mv moved base
> the run is already complete; continue it with a larger --steps
2> propane generate: li contains an unfinished adapter run and no model; finish it first: propane train --resume li (--steps N ends it at step N)
2> propane train: cannot open base: No such file or directory; the run started from this model: give its path with --init
= 0
# adapters can be used before the run ends: the folder holds those of the best validation, not those of the checkpoint
@ printf '%s\n' 'import json' 'def tensors(path):' '    raw = open(path, "rb").read(); n = 8 + int.from_bytes(raw[:8], "little")' '    return [raw[n + t["data_offsets"][0]:n + t["data_offsets"][1]] for k, t in json.loads(raw[8:n]).items() if k[:2] != "__"]' 'mine, best, last = [tensors("lk/%s.safetensors" % f) for f in ("adapter_model", "best", "checkpoint")]' 'print(len(mine), all(t in best for t in mine), all(t in last for t in mine))' > same.py
@ printf '%s\n' ': > lk.log' 'propane train --init base --data plain.jsonl --context 48 --batch 2 --warmup 0 --eval-batches 2 --eval-every 2 --checkpoint-every 1 --lora-rank 4 --lora-targets all --lr 30 --min-lr 30 --steps 1000000 --run lk > lk.log & i=0' 'until grep -q "step 20 " lk.log || [ $i = 400 ]; do sleep 0.1; i=$((i + 1)); done' 'kill -TERM $!; wait $!' > ../bin/ended; chmod +x ../bin/ended
? python3
$ ended; propane generate base --adapter lk --prompt "line 4" --seed 1 -n 2 > log && python3 same.py
> 28 True False
2~ propane train: stopped after step *
= 0
$ grep -c "\"base_model_name_or_path\": \"$PWD/base\"" lk/adapter_config.json
> 1
= 0
$ propane generate base --adapter base --prompt x
2> propane generate: base contains no adapter: there is no adapter_config.json in it; a training run writes it with its first checkpoint or validation
= 1
# as a GGUF file for llama.cpp, which needs only the model's sizes
$ propane convert lb la.gguf && propane convert lb lo.gguf --base base && cmp la.gguf lo.gguf; grep -aoE 'adapter.type|blk.1.ffn_down.weight.lora_b' la.gguf
> la.gguf: a LoRA adapter as F32, GGUF version 3
> lo.gguf: a LoRA adapter as F32, GGUF version 3
> adapter.type
> blk.1.ffn_down.weight.lora_b
= 0
$ mv base moved; propane convert lb no.gguf; mv moved base; propane convert base no.gguf --base base
2~ propane convert: *base: *; it is the adapter's base model: give its path
2> propane convert: --base is for an adapter's folder that becomes NAME.gguf
2> Try 'propane convert --help'.
= 2
# an adapter in use: eval prints the same for model and adapter as for the merged model
$ propane convert base merged --adapter la > log; propane eval merged --data text > m.txt; propane eval base --adapter la --data text | cmp m.txt - && ! propane eval base --data text | cmp -s m.txt -
= 0
$ propane generate base --adapter la --prompt "line 4" --count 12 --temperature 0 > one; propane generate merged --prompt "line 4" --count 12 --temperature 0 | cmp one -
= 0
$ propane eval la --data text
2> propane eval: la contains an adapter but no model; give the base model, and --adapter la
= 1
$ tune --data plain.jsonl --adapter la --steps 2 --run lg | grep -c 'adapters: rank 4'
> 1
= 0
$ tune --data plain.jsonl --adapter la --lora-rank 2 --run e
2> propane train: --adapter sets the rank, alpha and targets of the adapter; leave out the flags for them
2> Try 'propane train --help'.
= 2
$ propane train --data text --lora-rank 2 --run e
2> propane train: --lora-rank adapts an existing model; give it with --init
= 1
$ tune --data plain.jsonl --lora-rank 2 --freeze norm --run e
2> propane train: --lora-rank trains only adapters; leave out --trainable and --freeze
= 1
$ tune --data plain.jsonl --lora-rank 2 --lora-targets c_attn --run e
2> propane train: the model's layers have no matrix 'c_attn' to adapt; the matrices are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj
= 1
# invalid data and options
@ printf '{"prompt": "a", "completion": "b"}\n{"prompt": "a"}\n' > bad1.jsonl; printf '\n{"text": "a" "b"}\n' > bad2.jsonl; printf '{"messages": [{"role": "user", "content": "a"}]}' > bad3.jsonl; : > empty.jsonl
$ tune --data bad1.jsonl --run e
2> propane train: bad1.jsonl:2: it has neither "messages" nor "prompt" and "completion" nor "text" (nor "conversations", nor "instruction" and "output"), but "prompt"; rename its keys
= 1
$ tune --data bad2.jsonl --run e
2> propane train: bad2.jsonl:2: column 16: '}' expected near '"b"'
= 1
$ tune --data bad3.jsonl --run e
2> propane train: bad3.jsonl:1: it has nothing to train on: no message is from the assistant
= 1
$ tune --data empty.jsonl --run e
2> propane train: empty.jsonl: it contains no examples; give one JSON object per line
= 1
$ tune --data plain.jsonl --chat alpaca --run e
2> propane train: there is no chat format 'alpaca'; the formats are qwen3, qwen2.5, smollm2, qwen2, chatml, llama3.1, llama3, llama2, zephyr, plain, jinja
= 1
$ propane train --data plain.jsonl --run e
2> propane train: plain.jsonl is instruction data; give the model to train with --init, or a --tokenizer
= 1
$ tune --data plain.jsonl --vocab 400 --run e
2> propane train: --init uses the model's vocabulary, but --vocab would learn another; give only one of them
2> Try 'propane train --help'.
= 2
$ test -e e
= 1
# a run remembers the format that --chat named
$ propane train --init base --data chat.jsonl --chat chatml --context 64 --batch 2 --steps 4 --warmup 0 --eval-batches 2 --run named > log; propane eval named --data chat.jsonl > own; propane eval named --data chat.jsonl --chat chatml | cmp - own && echo same; propane eval named --data chat.jsonl --chat plain | cmp -s - own || echo other; head -1 chat.jsonl > two.jsonl; propane show two.jsonl --model named | grep -o 'chat format .*'
> same
> other
> chat format chatml
= 0
# a converted folder keeps it, and a train.json that is not a run's record is ignored
$ propane convert named copy > log; propane eval copy --data chat.jsonl | sed s/copy/named/ | cmp - own && echo same; echo '[' > copy/train.json; propane eval copy --data chat.jsonl | sed s/copy/named/ | cmp - own && echo same
> same
> same
= 0
# a GGUF file keeps it in both directions
$ propane convert named named.gguf > log; propane eval named.gguf --data chat.jsonl > ga; propane eval named.gguf --data chat.jsonl --chat chatml | cmp - ga && echo same; propane convert named.gguf again > log; head -1 chat.jsonl > two.jsonl; propane show two.jsonl --model again | grep -o 'chat format .*'
> same
> chat format chatml
= 0

# Below adapters, the model keeps the number format of its file on the CPU. The bits are those of fp32 weights with the same values:
# with dropout, several batches per update, each plan, and a resumed run. Other devices, and fp16 programs or constants, use fp32 masters.
@ propane convert wide wide-q8.gguf --dtype q8_0 > log && propane convert wide-q8.gguf wide-q8-f32 > log && propane convert wide wide-bf16 --dtype bf16 > log && propane convert wide-bf16 wide-bf16-f32 > log
@ printf '%s\n' 'from=$1; shift; propane train --init $from --data text --context 32 --batch 2 --lora-rank 2 --lora-targets all --warmup 0 --lr 1e-2 --min-lr 1e-2 --eval-every 2 --eval-batches 2 --no-report --json "$@"' > frozen.sh
@ printf '%s\n' 'from=$1 to=$2; shift 2; sh frozen.sh $from --run $to-few "$@" > few.log && sh frozen.sh ${from%.gguf}-f32 --run $to-all "$@" > all.log && cmp $to-few/adapter_model.safetensors $to-all/adapter_model.safetensors && echo the same' > both.sh
$ sh both.sh wide-q8.gguf k1 --steps 3 --lora-dropout 0.1; sh both.sh wide-bf16 k2 --steps 3 --plan six; sh both.sh wide-q8.gguf k3 --steps 2 --accumulate 2 --plan ten --recompute; sh both.sh wide-q8.gguf k6 --steps 2 --device sim:m4 2> log; sh both.sh wide-q8.gguf k7 --steps 2 --precision fp16; sh both.sh wide-q8.gguf k8 --steps 2 --weights baked
> the same
> the same
> the same
> the same
> the same
> the same
= 0
$ sh frozen.sh wide-q8.gguf --run k9 --steps 2 > log; propane train --resume k9 --data text --steps 4 --no-report > log; sh frozen.sh wide-q8-f32 --run k10 --steps 4 > log; cmp k9/adapter_model.safetensors k10/adapter_model.safetensors
= 0
