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
>~ */examples/add.mil: estimated, not measured
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
