# propane estimate: programs, models, published measurements.
$ propane estimate
2> propane estimate: name a program or a model, or give --points FILE.csv
2> Try 'propane estimate --help'.
= 2
$ propane estimate $REPO/examples/add.mil --target m9
2~ propane estimate: there is no chip 'm9'; the chips are m1 *
= 1
$ propane estimate nothing.mil
2~ propane estimate: *nothing.mil*
= 1
$ propane estimate $REPO/examples/add.mil --target m1,m4
>~ */examples/add.mil: estimates for the path direct, not measurements
>~ M4 *ms (*
= 0
# An operation without results has no value to name, but it is listed.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [2]> x, state<tensor<fp16, [2]>> acc) {\n        tensor<fp16, [2]> old = read_state(input = acc);\n        tensor<fp16, [2]> new = add(x = old, y = x);\n        write_state(data = new, input = acc);\n        tensor<fp16, [2]> y = mul(x = new, y = fp16(2));\n    } -> (y);\n}\n' > state.mil
$ propane estimate state.mil --target m4 --json
>~     "value": null,
>~     "op": "write_state",
>~     "value": "y",
= 0
$ propane estimate state.mil --target m4 --json --path linux
>~     "op": "write_state",
= 0
$ propane estimate state.mil --target all --ops
>~ *old *read_state *
>~ M4 *ms (*
= 0
@ propane convert state.mil state.mlpackage > /dev/null
$ propane estimate state.mlpackage --target m4 --json
>~     "op": "write_state",
= 0
? part:lm
$ propane estimate stories110m --target m4
>~ M4, estimated: plan six, weights inputs, batch 1 x 256, head on the host, moments fp32, update after 1
>~   assumed for the host of M4: *
= 0
# rows of a comparison fit a screen; the reason why some are refused is printed once, under the table
? part:lm
$ propane estimate stories110m --target m4 --compare > table; grep -E '^(six|ten|layer) ' table | awk 'length($0) > 116'; grep -c ' \[1\]$' table; grep -c '^\[1\] refused: ' table
> 3
> 1
= 0
? part:lm
$ propane estimate stories110m --target m4 --plan seven
2> propane estimate: plan is 'seven'; it must be layer, six or ten
= 1
@ printf 'id,chip,os,path,workload,shape,dtype,flops,bytes_in,bytes_weights,bytes_out,latency_ms,source,note\na,M4,,direct,conv1x1,"Cin=512,Cout=512,H=1,W=64",fp16,33554432,131072,524288,131072,0.1,,\nb,M4,,direct,model,x,fp16,,,,,1,,\n' > points.csv
$ propane estimate --points points.csv
>~ points.csv: 2 rows, 1 covered, 1 not; *
= 0
$ propane estimate --points points.csv --json
>~  "covered": 1,
>~  "not_covered": 1,
= 0
@ printf 'a,b\n1,2\n' > wrong.csv
$ propane estimate --points wrong.csv
2~ propane estimate: wrong.csv: column 'chip' is missing*
= 1
# A host's measured rates replace the assumed ones: twice the update rate halves its time. The file is checked.
@ printf '{"system": "Darwin 25 arm64", "answers": {"host-products": {"own_tflops": 0.2, "library_tflops": 2.75}, "host-memory": {"gb_per_s": 95}, "host-conversions": {"fp16_gb_per_s": 45}, "host-update": {"fp32_ns": 0.4, "bf16_ns": 0.3, "int8_ns": 0.2, "fp32_early_ns": 0.45, "bf16_early_ns": 0.35, "int8_early_ns": 0.25}}}' > rates.json; sed 's/"fp32_ns": 0.4/"fp32_ns": 0.2/' rates.json > quick.json; sed 's/"int8_ns": 0.2/"int8_ns": -1/' rates.json > wrong.json; echo '{"answers": 3}' > none.json; echo '[' > broken.json
? part:lm
$ propane estimate stories110m --target m4 --rates rates.json | tail -1
>   measured on a host (Darwin 25 arm64): matrix products 2.75 TFLOPS fp32, elementwise 45 GB/s, memory 95 GB/s, AdamW 0.4, 0.3 and 0.2 ns per parameter with fp32, bf16 and int8 moments; assumed for all at once: 108 GB/s
= 0
? part:lm
$ for f in rates quick; do propane estimate stories110m --rates $f.json --json | sed -n 's/.*"sweep_ms": \(....\).*/\1/p'; done
> 43.8
> 21.9
= 0
# Updates under a guessed norm use their own measured rate if there is one. Packed weights wait for the norm.
? part:lm
$ for w in inputs packed; do propane estimate stories110m --rates rates.json --overlap early --weights $w | sed -nE 's/.*(updates guessed).*/\1/p; s/.*AdamW ([0-9., and]*) ns.*/\1/p'; done
> updates guessed
> 0.45, 0.35 and 0.25
> 0.4, 0.3 and 0.2
= 0
? part:lm
$ propane estimate stories110m --overlap early --workers 4
2~ propane estimate: *overlap early works in one process only*
= 1
? part:lm
$ propane plan stories110m --search --moments fp32 --rates rates.json | grep -c 'measured on a host'
> 1
= 0
? part:lm
$ for f in wrong none broken missing; do propane estimate stories110m --rates $f.json; done
2~ propane estimate: wrong.json: answer "host-update" has no positive number "int8_ns"; *
2~ propane estimate: none.json: answer "host-products" has no positive number "own_tflops"; *
2~ propane estimate: *broken.json*
2~ propane estimate: *missing.json*
= 1
? part:lm
$ propane estimate stories110m --target m4,m1 --rates rates.json
2~ propane estimate: rates describe a single host: *
= 1
$ propane plan stories110m --rates rates.json
2> propane plan: --rates is for --search
2> Try 'propane plan --help'.
= 2
# A simulated engine that works during the loss.
@ yes 'the quick brown fox jumps over the lazy dog.' | head -400 > text.txt
? part:lm
$ propane train --data text.txt --kind bytes --run run --device sim:m4 --plan six --precision fp16 --steps 2 --layers 1 --width 32 --heads 1 --batch 1 --context 32 --json 2> /dev/null
>~ *"device_ms":*"simulated":"M4","energy_j":*"utilisation":*
= 0
? part:lm
$ propane train --data text.txt --kind bytes --run plain --device sim:m4 --plan six --precision fp16 --steps 2 --layers 1 --width 32 --heads 1 --batch 1 --context 32
>~ *step 2/2 *(M4 simulated: * ms on the engine, * % of its peak, * mJ)
= 0
? part:lm
$ propane train --data text.txt --kind bytes --run never --device sim:m9 --plan six --precision fp16 --steps 2
2~ propane train: there is no chip 'm9'; *
= 1
# Adapters alone: less than half of a step that trains all weights, and no program is compiled again.
? part:lm
$ propane estimate stories110m --target m4 --plan layer --lora-rank 8 --weights baked
>~ M4, estimated: *, update after 1, only adapters of rank 8
>~ *programs compiled once: 50; recompiled after each update: 0, reloaded: 0
>~   joules per batch: engine * + processor * + memory * + idle * = * J, within a factor of two
= 0
? part:lm
$ for n in 0 8; do propane estimate stories110m --target m4 --plan layer --lora-rank $n --json | sed -n 's/.*"step_ms": \([0-9]*\).*/\1/p'; done | { read all; read few; test $((2 * few)) -lt $all && echo less than half; }
> less than half
= 0
$ propane estimate stories110m --target m4 --plan layer --lora-rank 8 --json | grep -c '"weights": "baked"'
> 1
= 0
# If a model has more programs than a process may compile, its base becomes inputs, unless constants are requested.
@ printf '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 40, "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}' > deep.json
$ for weights in '' '--weights baked'; do propane estimate deep.json --target m4 --plan layer --lora-rank 8 $weights | grep -oE 'weights (inputs|baked),|refuses this plan: .*'; done
> weights inputs,
> weights baked,
> refuses this plan: weights baked: 162 programs, but a process may compile about 119 (rule C1a); use weights inputs
= 0
$ propane estimate $REPO/examples/add.mil --lora-rank 8
2> propane estimate: --lora-rank does not apply to a program, only to the training of a model, as for 'propane plan'
2> Try 'propane estimate --help'.
= 2
# Published steps: the same model at twice the positions, and a row with an unknown chip.
@ printf 'id,chip,os,path,workload,shape,latency_ms,source,note\na,M4,,direct,train_step,"Qwen-like L=4,D=512,F=1536,V=8000,S=256",30,x,dynamic\nb,M4,,direct,train_step,"Qwen-like L=4,D=512,F=1536,V=8000,S=512",3,x,dynamic\nc,M9,,direct,train_step,"Qwen-like L=4,D=512,F=1536,V=8000,S=512",3,x,dynamic\nd-matmul,M2 Pro,,direct,train_step,"Qwen-like L=4,D=512,F=1536,V=8000,S=128",30,x,dynamic\n' > steps.csv
$ propane estimate --points steps.csv
>~ a * M4 * packed * 30.0 ms *
>~ d-matmul * packed, a call a product * 30.0 ms *
>~ c  * M9 * not covered: chip not known
>~ 3 of 4 published steps are covered; relative error: median * %, * of them above 25 %, 1 above 40 %
= 0
$ propane estimate --points steps.csv --json
>~   "above_40_percent": 1
= 0
# Tables with nothing to compare: one error each, with the row and the value.
@ for odd in 'M9|L=4,D=512,F=1536' 'M4|L=-4,D=512,F=1536' 'M4|L=4,D=1e300,F=1536' 'M4|L=4,D=512,F=nan' 'M4|L=4'; do n=$((n + 1)); printf 'id,chip,path,workload,shape,latency_ms\na,%s,direct,train_step,"Qwen-like %s,S=256",30\n' "${odd%|*}" "${odd#*|}" > odd$n.csv; done; head -1 steps.csv > bare.csv
$ for n in 1 2 3 4 5; do propane estimate --points odd$n.csv; done
2> propane estimate: odd1.csv: no row can be compared with an estimate; the first, 'a' (chip 'M9', path 'direct', workload 'train_step'): chip not known
2> propane estimate: odd2.csv: no row can be compared with an estimate; the first, 'a' (chip 'M4', path 'direct', workload 'train_step'): a size in the shape is not a number from 1 to 10 million
2> propane estimate: odd3.csv: no row can be compared with an estimate; the first, 'a' (chip 'M4', path 'direct', workload 'train_step'): a size in the shape is not a number from 1 to 10 million
2> propane estimate: odd4.csv: no row can be compared with an estimate; the first, 'a' (chip 'M4', path 'direct', workload 'train_step'): a size in the shape is not a number from 1 to 10 million
2> propane estimate: odd5.csv: no row can be compared with an estimate; the first, 'a' (chip 'M4', path 'direct', workload 'train_step'): sizes not stated
= 1
$ propane estimate --points bare.csv
2> propane estimate: bare.csv: the table has a header and no rows
= 1
# A package goes through Core ML: operations that a rule keeps off the engine run on the CPU, and switches count. MIL text has no CPU.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 4, 8, 8]> x) {\n        tensor<fp16, [1, 4, 8, 8]> a = add(x = x, y = fp16(1));\n        tensor<fp16, [1, 4, 8, 8]> s = cumsum(x = a, axis = int32(3), exclusive = bool(false), reverse = bool(false));\n        tensor<fp16, [1, 4, 8, 8]> y = mul(x = s, y = fp16(2));\n    } -> (y);\n}\n' > away.mil; propane convert away.mil away.mlpackage > /dev/null
$ propane estimate away.mlpackage --target m4
>~ away.mlpackage: estimates for the path coreml, not measurements
>~ M4 *; 1 operation on the CPU about 0.005 ms, 2 switches about 0.176 ms
= 0
$ propane estimate away.mlpackage --target m4 --json
>~   "cpu_ops": 1,
>~   "switches": 2,
= 0
$ propane estimate away.mlpackage --target m4 --path direct --json
>~   "cpu_ops": 0,
>~   "switches": 0,
= 0
$ propane diff away.mlpackage --seed 1 --precision-a typed --device-b sim:m4
>~ nothing differs by more than 0.01
= 0
$ propane run away.mil --seed 1 --device sim:m4
2~ propane run: *cumsum 's': rule O1 refuses it on M4: *
= 1
$ propane run away.mil --seed 1 --device 'sim:m4?path=1'
>~ output y *
= 0
$ propane run away.mlpackage --seed 1 --device 'sim:m4?path=0'
2~ propane run: *cumsum 's': rule O1 refuses it on M4: *
= 1
