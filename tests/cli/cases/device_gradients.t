# Products of weight gradients on the device.
! part:lm
@ for i in 1 2; do cat "$REPO/docs/architecture.md"; done | head -c 20000 > text; echo "train --data text --kind bytes --layers 1 --width 32 --heads 2 --batch 2 --context 32 --precision fp16 --steps 8 --eval-batches 1" > args
$ propane plan --plan six --precision fp16 --gradients device --context 64 > plan; grep -cE ' (attnGradMul|ffnGradMul) *device ' plan; propane plan --plan six --precision fp16 --context 64 | grep -c GradMul
> 2
> 0
= 1
# An interrupted run continues with the same bits, on the processor and on a simulated engine, and keeps the choice.
$ for d in cpu sim:m4; do propane $(cat args) --device $d --gradients device --run w-$d > log 2>&1 || cat log; propane $(cat args) --device $d --gradients device --steps 4 --schedule constant --run p-$d > log 2>&1 || cat log; propane $(cat args) --device $d --gradients device --schedule constant --run q-$d > log 2>&1; propane train --resume p-$d --steps 8 > log 2>&1 || cat log; cmp p-$d/model.safetensors q-$d/model.safetensors; done
= 0
$ propane train --resume w-cpu --gradients host --steps 9
2> propane train: w-cpu/checkpoint.safetensors was written with --gradients device, not host; resume with the same, or start a new run in another folder
= 1
$ propane $(cat args) --gradients gpu --run x
2~ propane train: --gradients*'gpu'*
2> Try 'propane train --help'.
= 2
? ldd
$ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; mkdir tmp; for w in inputs baked; do TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so propane $(cat args) --device ane --weights $w --gradients device --run ane-$w > log 2>&1 || cat log; done; cmp ane-inputs/model.safetensors ane-baked/model.safetensors && echo same
> same
= 0
$ propane estimate stories110m --target m4 --gradients device --ops > device; propane estimate stories110m --target m4 > host; grep -c 'GradMul *engine' device; ms() { sed -n 's/.* = step \([0-9.]*\) ms.*/\1/p' $1; }; awk -v d=$(ms device) -v h=$(ms host) 'BEGIN { print (d < h ? "sooner" : d " of " h) }'
> 2
> sooner
= 0
$ propane estimate stories110m --gradients device --workers 4
2~ propane estimate: *gradients*
= 1
