# propane estimate: programs, models, published points.
$ propane estimate
2> propane estimate: name a program or a model, or give --points FILE.csv
2> Try 'propane estimate --help'.
= 2
$ propane estimate $REPO/examples/add.mil --target m9
2~ propane estimate: there is no chip 'm9'; chips are m1 *
= 1
$ propane estimate nothing.mil
2~ propane estimate: *nothing.mil*
= 1
$ propane estimate $REPO/examples/add.mil --target m1,m4
>~ */examples/add.mil: estimated for the path direct, not measured
>~ M4 *ms (*
= 0
# An operation without results has no value to name; it is there all the same.
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
$ propane estimate stories110m --target m4
>~ M4, estimated: plan six, weights inputs, batch 1 x 256, head on the host, moments fp32, update after 1
>~   assumed of the host of M4: *
= 0
$ propane estimate stories110m --target m4 --plan seven
2> propane estimate: --plan 'seven': plans are layer, six, ten
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
2~ propane estimate: wrong.csv: there is no column 'chip'*
= 1
# A host's measured rates instead of the assumed ones: twice as fast an update is half of it, and the file is checked.
@ printf '{"system": "Darwin 25 arm64", "answers": {"host-products": {"own_tflops": 0.2, "library_tflops": 2.75}, "host-memory": {"gb_per_s": 95}, "host-conversions": {"fp16_gb_per_s": 45}, "host-update": {"fp32_ns": 0.4, "bf16_ns": 0.3, "int8_ns": 0.2, "fp32_early_ns": 0.45, "bf16_early_ns": 0.35, "int8_early_ns": 0.25}}}' > rates.json; sed 's/"fp32_ns": 0.4/"fp32_ns": 0.2/' rates.json > quick.json; sed 's/"int8_ns": 0.2/"int8_ns": -1/' rates.json > wrong.json; echo '{"answers": 3}' > none.json; echo '[' > broken.json
$ propane estimate stories110m --target m4 --rates rates.json | tail -1
>   measured on a host (Darwin 25 arm64): products 2.75 TFLOPS fp32, elementwise 45 GB/s, memory 95 GB/s, AdamW 0.4, 0.3 and 0.2 ns a parameter with fp32, bf16 and int8 moments; assumed: all at once 108 GB/s
= 0
$ for f in rates quick; do propane estimate stories110m --rates $f.json --json | sed -n 's/.*"sweep_ms": \(....\).*/\1/p'; done
> 43.8
> 21.9
= 0
# Updates that are guessed go at their own measured rate, where there are such: packed weights wait for the norm.
$ for w in inputs packed; do propane estimate stories110m --rates rates.json --overlap early --weights $w | sed -nE 's/.*(updates guessed).*/\1/p; s/.*AdamW ([0-9., and]*) ns.*/\1/p'; done
> updates guessed
> 0.45, 0.35 and 0.25
> 0.4, 0.3 and 0.2
= 0
$ propane estimate stories110m --overlap early --workers 4
2~ propane estimate: *overlap early is for one process*
= 1
$ propane plan stories110m --search --moments fp32 --rates rates.json | grep -c 'measured on a host'
> 1
= 0
$ for f in wrong none broken missing; do propane estimate stories110m --rates $f.json; done
2~ propane estimate: wrong.json: answer "host-update" has no positive number "int8_ns"; *
2~ propane estimate: none.json: answer "host-products" has no positive number "own_tflops"; *
2~ propane estimate: *broken.json*
2~ propane estimate: *missing.json*
= 1
$ propane estimate stories110m --target m4,m1 --rates rates.json
2~ propane estimate: rates are one host's: *
= 1
$ propane plan stories110m --rates rates.json
2> propane plan: --rates is for --search
2> Try 'propane plan --help'.
= 2
# A simulated engine beside the loss.
@ yes 'the quick brown fox jumps over the lazy dog.' | head -400 > text.txt
$ propane train --data text.txt --kind bytes --run run --device sim:m4 --plan six --precision fp16 --steps 2 --layers 1 --width 32 --heads 1 --batch 1 --context 32 --json 2> /dev/null
>~ *"device_ms":*"simulated":"M4","energy_j":*"utilisation":*
= 0
$ propane train --data text.txt --kind bytes --run plain --device sim:m4 --plan six --precision fp16 --steps 2 --layers 1 --width 32 --heads 1 --batch 1 --context 32
>~ *step 2/2 *(M4 simulated: * ms on the engine, * % of its roof, * mJ)
= 0
$ propane train --data text.txt --kind bytes --run never --device sim:m9 --plan six --precision fp16 --steps 2
2~ propane train: there is no chip 'm9'; *
= 1
# what is counted nowhere is refused by name
$ propane estimate stories110m --target m4 --lora-rank 8
2~ propane estimate: --lora-rank is of adapters that a server averages, with --workers; *
2> Try 'propane estimate --help'.
= 2
