# The search for the fastest plan, and training with its result.
! part:lm
$ propane plan stories110m --search --target m4 --batch 1 --accumulate 1
>~ M4, estimated: plan *, head on the *, moments *, update after 1
>~   engine * = forward and backward * ms
>~ plan  head   weights moments batch upd. *
>~ ... of 144
>~ fastest known: plan *
>~   the engine is busy for * of the step*
= 0
$ propane plan stories110m --search --target m4 --moments fp32 --weights inputs --plan six --head host --json
>~ *"head": "host",
>~ *"moments": "fp32",
>~ *"lagged": false,
>~ *"sweep_ms": *
= 0
$ propane plan stories110m --search --target m1 --clip-norm lagged
>~ M1, estimated: plan *norm of the last step, *
= 0
# Adapters: the base is in constants, and no kernel computes its gradients.
$ propane plan stories110m --search --target m4 --moments fp32 --lora-rank 8 --accumulate 1
>~ M4, estimated: plan layer, weights baked, *, only adapters of rank 8
>~ fastest known: plan layer, *, weights baked, *
= 0
$ for rank in 0 8; do propane plan --plan six --lora-rank $rank | grep -c '^ffn   ffnGrad'; done
> 1
> 0
= 1
$ propane plan stories110m --search --plan seven
2~ propane plan: plan is 'seven'; it must be layer, six or ten
= 1
$ propane plan --search
2> propane plan: --search needs a model
2> Try 'propane plan --help'.
= 2
$ propane plan stories110m --moments int8
2> propane plan: --moments is for --search
2> Try 'propane plan --help'.
= 2
# An update after every batch of Stories110M on an M4 (the same sequences, and the parts that the code uses).
$ propane estimate stories110m --target m4 --head device --moments int8 --clip-norm lagged --sources
>~   products: *
= 0
# With the head's input gradient in 16 parts of 2,000 ids: each uses 1 MiB of the logits' gradient.
$ propane plan stories110m --precision fp16 --plan layer --head device --context 256 --write kernels > plan.log; grep -c 'tensor<fp16, .1, 16, 768, 256.> d_reshape_parts = matmul' kernels/model.mil
> 1
= 0
$ propane plan stories110m --search --target m4 --clip-norm lagged --json | sed -n 's/.*"step_ms": \([0-9]*\).*/\1/p' | head -1 | awk '{ print ($1 < 60 ? "less" : "not less") " than 60 ms" }'
> less than 60 ms
= 0
@ yes 'the quick brown fox jumps over the lazy dog.' | head -400 > text.txt
@ echo 'train --data text.txt --kind bytes --layers 1 --width 32 --heads 1 --batch 1 --context 32 --device sim:m4 --precision fp16' > args
$ propane $(cat args) --plan auto --steps 2 --run auto 2>&1 | grep -o -e '--plan auto: plan [a-z]*, head on the [a-z]*, weights inputs, moments fp32: estimated' | sed 's/plan [st][a-z]*,/plan P,/; s/plan layer,/plan P,/'
>~ --plan auto: plan P, head on the *, weights inputs, moments fp32: estimated
= 0
$ propane $(cat args) --plan auto --steps 3 --resume --run auto 2>&1 | grep -c '^resumed'
> 1
= 0
$ propane train --data text.txt --kind bytes --layers 1 --width 32 --heads 1 --batch 1 --context 32 --device sim:m4 --precision fp32 --plan auto --run none
2~ propane train: --plan auto: device 'sim:m4' computes in fp16; give --precision fp16
= 1
# the meaning of the column
$ propane plan stories110m --plan six | grep '^taps'
> taps: results of a forward kernel that the backward pass needs
= 0
