# Training through propane.h: the examples of examples/library, and files of options for the command.
! part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977, "of", i%7}' > text
@ for name in train_text finetune_package finetune_adapter; do ln -s "$(dirname "$(readlink -f "$(command -v propane)")")/examples/library/$name" ../bin/$name; done
# a text, a resumed run, and the model generates; the folder's contents are like those of the command
$ train_text text r > log; grep -c '^step' log; tail -n +4 log | wc -c | awk '{print ($1 > 20)}'
> 3
> 1
= 0
$ propane train --data text --resume --run r --steps 150 | grep -c 'already complete'
> 1
= 0
$ propane train --data text --run c --layers 2 --width 32 --heads 2 --context 32 --lr 3e-3 --steps 100 > c.log && propane train --data text --resume --run c --steps 150 > c.log && cmp r/model.safetensors c/model.safetensors && grep resumed c.log
> resumed after step 100
= 0
$ train_text text
2> usage: train_text TEXT FOLDER [STEPS LAST]
= 2
$ train_text none n
2> train_text: cannot open none: No such file or directory
= 1
# an adapter, stopped and resumed, then merged into the model
$ finetune_adapter r a merged
> step 5 is in checkpoint.safetensors
> stopped after step 5 of 12; continue with: propane train --resume a
> step 12 is in checkpoint.safetensors
= 0
$ propane show merged > shown; propane eval merged --data text --json | grep -c nats; ls a | grep -c adapter_
> 1
> 2
= 0
# an imported package, on arrays in memory, step by step
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 4]> x) {\n        tensor<fp32, [1, 4]> w = const()[name = string("w"), val = tensor<fp32, [1, 4]>([[0.5, -0.5, 0.25, 0.1]])];\n        tensor<fp32, [1, 1]> y = linear(weight = w, x = x)[name = string("y")];\n    } -> (y);\n}\n' > sum.mil; propane convert sum.mil sum.mlpackage > log
$ finetune_package sum.mlpackage out.mlpackage
>~ 4 numbers trained, loss *e-*
= 0
$ finetune_package sum.mlpackage out.mlpackage | wc -l | tr -d ' '; propane show out.mlpackage > log
> 1
= 0
# options from a file, which flags override; a model's configuration is recognized as such
@ printf '{"layers": 1, "width": 16, "heads": 2, "context": 16, "batch": 2, "steps": 9, "kind": "chars", "eval-batches": 1, "tie": false}' > o.json
$ propane train --data text --config o.json --steps 3 --run f | tail -2 | head -1
>~ done: 3 steps in * s; model in f
= 0
$ propane train --data text --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 3 --kind chars --eval-batches 1 --no-tie --run g > log; cmp f/model.safetensors g/model.safetensors
= 0
$ printf '{"layer": 1}' > p.json; propane train --data text --config p.json
2> propane train: p.json: layer: unknown option of a training run
= 1
$ printf '{"layers": 0}' > p.json; propane train --data text --config p.json
2> propane train: p.json: layers: '0' is not an integer from 1 to 1000
= 1
$ printf '{"steps": [1, 2]}' > p.json; propane train --data text --config p.json
2> propane train: p.json: steps: it must be a single value, not a list
= 1
$ printf '{"loss": "mse", "trainable": "*", "steps": 2, "lr": 0.01}' > q.json; mkdir d; propane train sum.mlpackage --data d --config q.json --run h
2> propane train: class folders need --loss cross_entropy; for mse give arrays: DIR/x.npy and DIR/y.npy
= 1
