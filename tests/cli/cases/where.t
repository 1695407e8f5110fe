# propane where: engine, CPU or GPU, and why.
! part:lm
$ propane where
2> propane where: name a model
2> Try 'propane where --help'.
= 2
$ propane where stories110m --target m4
>~ M4, stories110m: training all weights, batch 1 x 256, update after 10; estimated per 1,000 tokens
>~ engine  layer, head and gradients device, weights inputs * (* to *) * (* to *) * s
>~ engine  as in published trainers *
>~ cpu     Accelerate, fp32 *
>~ gpu     MPS fp32 * (stated) *
>~   engine, layer: the CPU performs * % of the operations, among them the head's weight gradient, sums of the others, and AdamW; *; held-out error unknown, *
>~   gpu: stated by slavko: *
>~ for time: engine (*
>~     propane train --layers 12 --width 768 --heads 12 --data DATA * --device ane --precision fp16 --plan layer --head device --weights inputs --gradients device
= 0
# The M1's rules refuse the layer plan's fp32 stream, so it is fp16. No rate of its GPU is published.
$ propane where stories110m --target m1
>~ engine  layer, stream fp16, head and gradients device, weights inputs *
>~     propane train *--plan layer --stream fp16 --head device *
>~   gpu: unknown, *
= 0
# An explicit stream is used on any chip.
$ propane where stories110m --target m4 --stream fp16
>~ engine  layer, stream fp16, head and gradients device, *
>~     propane train *--plan layer --stream fp16 --head device *
= 0
$ propane estimate stories110m --plan layer --stream fp16 --target m1
>~ M1, estimated: plan layer, *, stream fp16
= 0
$ propane estimate stories110m --plan six --stream fp16
2> propane estimate: stream fp16 is for plan layer; plan six keeps the stream on the host
= 1
$ propane where stories110m --target m4,m3-pro --lora-rank 4 --goal joules --data text.txt --batch 2
>~ M3 Pro, stories110m: training adapters of rank 4, batch 2 x 256, *
>~ for joules: engine (*
>~     propane train --init MODEL --lora-rank 4 --data text.txt --run RUN --batch 2 *
= 0
$ propane where stories110m --target m4 --mode forward --goal background
>~ M4, stories110m: forward pass, batch 1 x 256; estimated per 1,000 tokens
>~ for background: engine (*
>~     propane eval MODEL --data DATA --device ane --precision fp16
= 0
# In JSON: unknown values have no figures.
$ propane where stories110m --target m4-max --json
>~   "chip": "m4-max",
>~     "unit": "gpu",
>~     "published_trainers": true*
>~   "best": *
= 0
$ propane where stories110m --target a18-pro --json | tr -d ' \n' | grep -o '"unit":"gpu","plan":"","known":false,"reason":"[^"]*","published_trainers":false.'
>~ *"reason":"unknown,*
= 0
$ propane where stories110m --target m4,m1 --markdown | awk -F'|' 'NF != 9 {exit 1} END {print NR}'
> 14
= 0
# Requests that are refused.
$ propane where stories110m --goal time --target m9
2~ propane where: there is no chip 'm9'; *
= 1
$ propane where stories110m --lora-rank 8 --mode full
2~ propane where: *lora-rank 8 needs mode lora, not full
= 1
$ propane where stories110m --json --markdown
2> propane where: --json or --markdown, not both
2> Try 'propane where --help'.
= 2
$ propane where nothing-here
2~ propane where: *nothing-here*
= 1
# The default of train: the processor, if there is no engine or the model is too small for one.
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so
@ for i in $(seq 1 600); do echo "line $i of $((i * i % 97))"; done > text
$ propane train --device auto --data text --steps 1 --layers 1 --width 32 --heads 2 --context 32 --run a --no-report 2>&1 | grep device
>~ propane: --device auto: cpu: *
>~ device cpu, fp32, plan layer, *
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so propane train --device auto --data text --steps 1 --layers 1 --width 32 --heads 2 --context 32 --run b --no-report 2>&1 | grep device
>~ propane: --device auto: cpu: estimated * ms per batch on the engine, * ms on the processor (M1)
>~ device cpu, fp32, plan layer, *
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so propane train --device auto --data text --steps 1 --layers 2 --width 512 --heads 8 --context 256 --batch 1 --run c --no-report 2>&1 | grep -E 'device|auto' | sed 's/ (M1)//'
>~ propane: --device auto: ane: estimated * ms per batch on the engine, * ms on the processor
>~ propane: --plan auto: plan *
>~ device ane, fp16, plan *
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so propane train --resume c --steps 2 --no-report 2>&1 | grep -c 'device ane, fp16'
> 1
= 0
# Measured here, in separate processes: an absent unit gets a row; the engine is the stand-in.
@ propane train --data text --steps 1 --layers 1 --width 32 --heads 2 --context 32 --run r --no-report > /dev/null
$ PROPANE_ANE_LIBRARY=$PWD/standin.so propane where r --trial --data text --seconds 0.2 --context 32 --accumulate 1 2>&1 | tr -s ' '
>~ propane where: training full on cpu
>~ propane where: training full on ane
>~ propane where: training lora on cpu
>~ propane where: training lora on ane
>~ measured on this machine per 1,000 tokens, batch 1 x 32, update after 1
>~ unit mode plan ms J steps first warm-up
>~ cpu full layer, fp32, weights inputs * s *
>~ ane full *, fp16, weights * s *
>~ cpu lora layer, fp32, weights * s *
>~ ane lora *, fp16, weights * s *
>~  J: *
>~  first: time until the end of the first step; warm-up: ms per 1,000 tokens in the steps of the next 0.02 s
>~  ms, J and steps: without the first step and the warm-up
>~  full: after * steps the loss is * on cpu and * on ane; they differ by 0.0* at most
>~  lora: after * steps the loss is * on cpu and * on ane; they differ by 0.0* at most
>~ for comparison, with MLX:
>~  mlx_lm.lora --model r --train --data FOLDER --fine-tune-type full --batch-size 1 --iters 100
>~  mlx_lm.lora --model r --train --data FOLDER --fine-tune-type lora --batch-size 1 --iters 100
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=compile=crash ASAN_OPTIONS=handle_segv=0 propane where r --trial --data text --seconds 0.2 --context 32 --accumulate 1 --mode full --json 2> /dev/null | tr -d ' \n' | sed 's/"loss":.[^]]*./L/'; echo
>~ {"kind":"measured",*"rows":?{"unit":"cpu","mode":"full","plan":"layer,fp32,weightsinputs",*L},{"unit":"ane","mode":"full","refused":"theprocesswaskilledbysignal*"}?}
= 0
# Every step is the first, part of the warm-up, or measured.
$ propane where r --trial --data text --mode full --seconds 0.1 --accumulate 1 --json 2> /dev/null | awk '/"loss": .$/ {within = 1; next} within && /]/ {print(losses == steps + warm + 1, steps >= 3, warm >= 1); exit} within {losses++} /"steps"/ {steps = $2 + 0} /"warm_up_steps"/ {warm = $2 + 0}'
> 1 1 1
= 0
# An engine that fails before the trial's end has no figures, even if it computed before: here in the fourth of at least five steps.
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=evaluate=0x1d,evaluate_at=30 propane where r --trial --data text --seconds 0.5 --context 32 --accumulate 1 --mode full --json 2> /dev/null | tr -d ' \n' | sed 's/"loss":.[^]]*./L/'; echo
>~ *{"unit":"ane","mode":"full","refused":"*0x1d*"}?}
= 0
$ propane where r --trial --data nothing --seconds 0.2 2>&1 | tail -1
> propane where: no unit could be measured: cannot open nothing: No such file or directory
= 0
$ propane where r --trial
2> propane where: --trial trains a model; give its --data
2> Try 'propane where --help'.
= 2
$ propane where r --trial --data text --mode forward
2> propane where: --trial trains a model; --mode must be full or lora
2> Try 'propane where --help'.
= 2
# Options of the other mode are refused. A trial uses the context of the estimate.
$ propane where r --trial --data text --target m4 --goal joules
2> propane where: --trial measures this machine: --target and --goal are for estimates
2> Try 'propane where --help'.
= 2
$ propane where stories110m --seconds 5
2> propane where: --seconds needs --trial
2> Try 'propane where --help'.
= 2
$ propane where r --trial --data text --mode full --seconds 0.1 --accumulate 1 --json 2> /dev/null | grep -c '"context": 32'
> 1
= 0
$ ls -d "${TMPDIR:-/tmp}"/propane-trial* 2> /dev/null
= 2
$ propane where r --mode forward --accumulate 2
2> propane where: --accumulate does not apply to --mode forward, which updates no weights
2> Try 'propane where --help'.
= 2
