# The ane device against the stand-in for Apple's libraries, and the commands that look at devices.
! ldd
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so
@ for i in 1 2 3 4 5 6 7 8; do cat $REPO/docs/architecture.md; done | head -c 30000 > text.txt; mkdir tmp
$ env -u PROPANE_ANE_LIBRARY propane devices
>~ ane    no   Apple's Neural Engine, without Core ML*
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=sizes=equal propane devices | tr -s ' \n' ' ' | sed 's/ \(ane\|evaluation:\|several\|engine.s\|shared\|chaining:\|sim\) /\n\1 /g'
>~ ane yes Apple's Neural Engine, without Core ML*
>~ *evaluation: * evaluation is used: standard 0.*
>~ *surfaces of different sizes: ane: the engine failed: *status 0x1d: *number, size or order of the surfaces*
>~ *several functions in one program: 3 procedures of 1 compiled program*
>~ *engine's own time: not reported by this engine*
>~ *shared events: the engine waits for a Metal event and signals it*
>~ *chaining: refused: com.apple.appleneuralengine, code 15:*
= 0
# A crash or a hang is recorded as an answer. The device stays usable in its standard way.
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=compile=crash,hide_class=_ANEChainingRequest ASAN_OPTIONS=handle_segv=0 propane devices
>~ *evaluation: crashed with signal 11*
>~ *several functions in one program: crashed with signal 11*
>~ *chaining: crashed with signal 11*
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=statistics=gives,events=ignored,procedures=refused,direct=fail,realtime=task propane devices | tr -s ' \n' ' ' | sed 's/ \(evaluation:\|several\|engine.s\|shared\|chaining:\|sim\) /\n\1 /g'
>~ *direct cannot be used (ane: the engine failed*), real-time cannot be used (ane: the engine failed (real-time evaluation)*
>~ *several functions in one program: a program each, because procedures do not work on this system: ane: Apple's compiler refuses*
>~ *engine's own time: yes: *
>~ *shared events did not finish within 2000 ms: its handler was not called*
= 0
# The engine's own time, on systems that report it.
$ printf 'program(1.3)\n[buildInfo = dict<string, string>({{"a", "b"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 32, 1, 32]> x) {\n        tensor<fp16, [1, 32, 1, 32]> y = add(x = x, y = x)[name = string("y")];\n    } -> (y);\n}\n' > add.mil
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so propane run add.mil --seed 1 --device ane --profile --iterations 3
>~ the host's clock: * ms per run; the engine's own time: not reported by this engine
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=statistics=gives propane run add.mil --seed 1 --device ane:client --profile --iterations 3
>~ the host's clock: * ms per run; the engine's own time: * ms per run (3 of 3 runs)
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=statistics=gives propane bench --device ane --sweep engine --json
>~ {"sweep":"engine","median_us":*,"best_us":*,"engine_us":?*.*,"simulated":false}
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=statistics=kept propane bench --device ane --sweep engine --json
>~ {"sweep":"engine",*,"engine_us":null,"simulated":false}
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=hide_class=_ANERequest propane devices
>~ *the class _ANERequest is missing*
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=hide_class=_ANERequest propane devices --symbols
>~ ane: the class _ANERequest is missing; this version of the system is not supported
>~ missing  class _ANERequest (required)
= 0
# Baked weights: up to macOS 26 a process may compile 119 programs. The run therefore restarts itself, and ends with the same bits.
@ echo 'train --data text.txt --kind bytes --layers 1 --width 32 --heads 2 --steps 130 --batch 1 --context 32 --precision fp16 --plan six' > args
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --device ane --weights inputs --run inputs
>~ done: 130 steps in *
= 0
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=system=26 propane $(cat args) --device 'ane:memory?procedures=off&dispatch=standard' --weights baked --run baked > log; grep -c '^resumed' log; grep -c '^done' log; cmp inputs/model.safetensors baked/model.safetensors && echo same; (ls tmp; ls ../engine) | wc -l | tr -d ' '
> 5
> 1
> same
> 0
= 0
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --device ane:client --weights inputs --run client && cmp inputs/model.safetensors client/model.safetensors && echo same
>~ same
= 0
# All kernels are procedures of one compiled program. Baked weights need one compile per step. Weights as inputs need one compile
# per run, after one compile for each trial (of the weight mode, and of procedures).
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=system=26 propane $(cat args) --device ane --weights baked --run together > log; grep -c '^resumed' log; cmp inputs/model.safetensors together/model.safetensors && echo same; (ls tmp; ls ../engine) | wc -l | tr -d ' '
> 1
> same
> 0
= 0
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --device 'ane:memory?budget=3&dispatch=standard' --weights inputs --run one && cmp inputs/model.safetensors one/model.safetensors && echo same
>~ kernels: 6 procedures of 1 compiled program; standard evaluation is used, as asked for
>~ same
= 0
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --device 'ane:memory?budget=3&dispatch=standard&procedures=off' --weights inputs --run each
2~ propane train: kernel '*': ane: '*' would be compile 4 of this process, and after about 3 the compiler fails without giving a reason (C1)*
= 1
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=procedures=first propane $(cat args) --device ane --weights inputs --run apart && cmp inputs/model.safetensors apart/model.safetensors && echo same
>~ kernels: a program each, because procedures do not work on this system: element * of the result of function 1 is *
>~ same
= 0
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=statistics=gives propane $(cat args) --steps 3 --device ane --profile --run told
>~ time inside the engine: * of the device's * ms
= 0
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --steps 3 --device ane --profile --run untold; grep -o '"programs":"6 procedures of 1 compiled program"' untold/log.jsonl
>~ time inside the engine: not reported by this engine
>~ "programs":"6 procedures of 1 compiled program"
= 0
# Compiled programs that are reloaded with new weights need neither restarts nor compiles.
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --device ane --weights reload --run reload > log; grep -c '^resumed' log; cmp inputs/model.safetensors reload/model.safetensors && echo same; (ls tmp; ls ../engine) | wc -l | tr -d ' '
> 0
> same
> 0
= 0
? part:lm
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=reload=baked TMPDIR=$PWD/tmp propane $(cat args) --device ane --weights reload --run stale
2~ propane train: weights 'reload' do not work here: *, as with the previous weights
= 1
? part:lm
$ propane $(cat args) --device cpu --weights reload --run none
2~ propane train: kernel '*': compile: device 'cpu' cannot use a compiled program again with other weights: compile it again
= 1
? part:lm
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=evaluate=0x1d,evaluate_at=40 TMPDIR=$PWD/tmp propane $(cat args) --device "ane:memory?dispatch=standard" --run failed
>~ device ane:memory?dispatch=standard, *
2~ propane train: kernel '*': ane: the engine failed: com.apple.appleneuralengine, code *, status 0x1d: *; the number, size or order of the surfaces may be wrong (C11 to C13): *
= 1
# The vocabulary product on the engine: the same bits in every weight mode, restarts included.
? part:lm
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; for w in inputs reload 'baked --compile-budget 40'; do propane $(cat args) --steps 12 --device 'ane:memory?procedures=off&dispatch=standard' --head device --weights $w --run head-${w% --*} > head-${w% --*}.log; done; grep -c '^resumed' head-baked.log; for w in baked reload; do cmp head-inputs/model.safetensors head-$w/model.safetensors && echo same; done
> 2
> same
> same
= 0
? part:lm
$ propane train --run head-inputs --resume --steps 13 --data text.txt --head host
2~ propane train: *--head*
= 1
# The first weight mode that works is chosen.
? part:lm
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=order=declared TMPDIR=$PWD/tmp propane $(cat args) --steps 2 --device ane --run auto
>~ device ane, fp16, plan six, weights inputs, threads *
= 0
? part:lm
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=inputs=stale TMPDIR=$PWD/tmp propane $(cat args) --steps 2 --device ane --run auto2
>~ weights 'inputs' do not work here: element (*, *) of a small matrix product is *, as with the previous weights
>~ weights 'packed' do not work here: *
>~ device ane, fp16, plan six, weights baked, threads *
= 0
? part:lm
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=inputs=stale TMPDIR=$PWD/tmp propane $(cat args) --steps 2 --device ane --weights inputs --run auto3
2~ propane train: weights 'inputs' do not work here: *
= 1
# The probe: each question runs in its own process.
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane devices --probe --output probe.json
>~ ane (a stand-in, not Apple's engine)
>~     inputs (q, k) are reported as (k, q); bound in that order, q - k is right
>~     inputs: works, packed: works, baked: works, reload: works
>~     the engine waits for a Metal event and signals it
>~     refused: com.apple.appleneuralengine, code 15: *
>~ The report is in probe.json. *
= 0
$ test "$(grep -c '"ended": "answered"' probe.json)" -gt 45 && grep '"stand_in"' probe.json
>   "stand_in": true,
= 0
# The host rates that it measured replace the assumptions of the estimates.
? part:lm
$ propane estimate stories110m --rates probe.json | grep -c 'measured on a host (.*): matrix products .* AdamW .* ns per parameter'
> 1
= 0
$ grep -cE 'rule C25 refuses it|gather by constant indices is accepted and right|silu taken, reduce_mean taken, layer_norm taken|second result is right' probe.json
> 5
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=order=declared propane devices --probe --only symbol-order
>~ {"told":"q, k",*q - k is right*
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=reload=baked propane devices --probe --only weights
>~ *"reload":"weights 'reload' do not work here: *, as with the previous weights"*
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=compile=crash,compile_at=5 ASAN_OPTIONS=handle_segv=0:handle_abort=0 propane devices --probe --only limit-memory
>~ {"progress":4,"signal":11,"answer":"crashed with signal 11 (after 4)",*"ended":"crashed"*
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=hide_class=_ANESharedEvents propane devices --probe --only events
>~ *shared events are not available: a class or method for shared events is missing*
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=events=ignored propane devices --probe --only events
>~ *did not finish within 2000 ms: its handler was not called; either the GPU did not signal*the engine ignores events*
= 0
$ propane devices --probe --device cpu --only saturation
>~ *300 ? 300 is inf; a matrix product that sums to 45,000 is 44992*
= 0
$ propane devices --probe --device sim:m5 --only saturation
>~ *a matrix product that sums to 45,000 is 32752*
= 0
$ env -u PROPANE_ANE_LIBRARY propane devices --probe
2> propane devices: ane: the Apple Neural Engine is available only on macOS; 'sim:m4' simulates one
= 1
$ propane devices --probe --only nothing
2~ propane devices: --only: there is no question 'nothing'; the questions are machine, symbol-order, *
2> Try 'propane devices --help'.
= 2
$ propane devices --device cpu
2> propane devices: --device is for --probe
2> Try 'propane devices --help'.
= 2
$ propane devices --probe --device abacus
2> propane devices: unknown device 'abacus'; the devices are cpu, ane, sim, accel, registers, null
= 1
$ propane bench --device null --sweep queue --json
>~ {"sweep":"queue","in_flight":64,"per_second":*,"simulated":false}
= 0
$ propane bench --device sim:m4 --sweep stream --seconds 0.01
>~ *simulated
= 0
$ propane bench --sweep all --device 'cpu?threads=1'
2> propane bench: device cpu: it has no options, but its name is followed by '?threads=1'
= 1
$ propane bench --sweep all --device nowhere
2> propane bench: unknown device 'nowhere'; the devices are cpu, ane, sim, accel, registers, null
= 1
# More values than a device can output: they are computed in parts.
@ awk 'BEGIN { t = "tensor<fp16, [1, 16, 1, 64]>"; printf "program(1.3)\n{\nfunc main<ios18>(%s v0) {\n", t; for (i = 1; i <= 300; i++) printf "%s v%d = relu(x = v%d)[name = string(\"v%d\")];\n", t, i, i - 1, i; print "} -> (v300);\n}" }' > many.mil
$ PROPANE_ANE_LIBRARY=$PWD/standin.so propane diff many.mil --seed 1 --device-b ane
>~ 300 values compared;*
>~ nothing differs*
= 0
$ propane diff many.mil --seed 1 --device-b 'sim:m4?refuse=0'
>~ 300 values compared;*
>~ nothing differs*
= 0
