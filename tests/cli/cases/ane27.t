# The ane device from macOS 27 on, and its cached trial results, against the stand-in.
! ldd part:lm
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so; mkdir tmp cache
$ XDG_CACHE_HOME=$PWD/cache propane devices --forget
> there are no cached trial results of the ane device
= 0
# Only propane devices tries calls that may crash, and only its answers are trusted.
@ for i in 1 2 3 4 5 6 7 8; do cat $REPO/docs/architecture.md; done | head -c 30000 > text.txt
@ echo 'train --data text.txt --kind bytes --layers 1 --width 32 --heads 2 --steps 2 --batch 1 --context 32 --precision fp16 --plan six --device ane' > args
$ export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=realtime=crash,direct=fail; propane $(cat args) --run a; ls cache
>~ kernels: 6 procedures of 1 compiled program; standard evaluation is used, 'propane devices' tries the other methods*
= 0
$ export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=standard_ns=20000000,realtime_ns=20000000 propane devices > list; PROPANE_STANDIN=realtime=crash propane $(cat args) --run b; grep -c ' remembered: ' list
>~ kernels: 6 procedures of 1 compiled program; direct evaluation is used, standard * ms, direct * ms, real-time *
= 0
# An evaluation that the engine of macOS 27 cancels is repeated and counted. On macOS 26 it is an error.
$ export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=system=27,idle=0,evaluate=0x12,evaluate_at=22 propane $(cat args) --profile --run woken; cmp b/model.safetensors woken/model.safetensors && echo same
>~ evaluations repeated because the engine cancelled them while it woke up: 1
>~ same
= 0
$ export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=system=26,evaluate=0x12,evaluate_at=22 propane $(sed 's,--device ane,--device ane:memory?dispatch=standard,' args) --run broken
>~ device ane:memory?dispatch=standard, *
2~ propane train: kernel '*': ane: the engine failed: *code 34, status 0x12*the engine was changing its power state*
= 1
# All properties of macOS 27 by itself: cancelled evaluations, 115 places, surfaces, attributes.
$ export XDG_CACHE_HOME=$PWD/cache27 TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=system=27,temporary=$PWD/system; propane devices > list27; propane $(cat args) --run all27; cmp b/model.safetensors all27/model.safetensors && echo same; sed -n 's/^ *remembered: //p' list27
>~ kernels: *; standard evaluation is used, *
>~ same
>~ memory: surfaces of one request may differ in size: yes
= 0
# Evaluations in order with a GPU, by shared events: the same bits.
$ export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(sed 's,--device ane,--device ane:client?events=on,' args) --run events; cmp b/model.safetensors events/model.safetensors && echo same
>~ kernels: *; standard evaluation is used, in order with the GPU by shared events*
>~ same
= 0
$ export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(sed 's,--device ane,--device ane?events=on,' args) --run refused
2~ propane train: device 'ane': events= needs the route ane:client and standard evaluation; *
= 1
# A file that cannot be parsed counts as no answer. The next trial replaces it.
$ echo '{' > cache/propane/engine.json; export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --run c; propane devices | grep -c ' remembered: '
>~ kernels: *; standard evaluation is used, the cached trial results of the engine are not used: */cache/propane/engine.json: line 2, *
= 0
$ XDG_CACHE_HOME=$PWD/cache propane devices --forget; ls cache/propane | grep -v products.txt; true
> the cached trial results of the ane device were deleted
= 0
# macOS 27 refuses a program with two weight files. Every weight mode still trains, with the bits of macOS 26.
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; for w in inputs packed baked reload; do PROPANE_STANDIN=system=27,files=one,idle=0 propane $(cat args) --weights $w --run w27-$w > log || cat log; PROPANE_STANDIN=system=26 propane $(cat args) --weights $w --run w26-$w > log; cmp w26-$w/model.safetensors w27-$w/model.safetensors && echo $w; done
> inputs
> packed
> baked
> reload
= 0
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=system=27,idle=0; propane $(cat args) --weights baked --device 'ane:memory?procedures=off' --run apart > log; cmp apart/model.safetensors w27-baked/model.safetensors && echo same; ls tmp
> same
= 0
# NaN in an output that the program also reads: training kernels have such outputs, and an added identity corrects them.
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=outputs=nan; propane $(cat args) --run nan > log 2>&1; cmp -s nan/model.safetensors w27-inputs/model.safetensors || echo differs; propane $(sed 's,--device ane,--device ane?outputs=identity,' args) --run parted > log; cmp parted/model.safetensors w27-inputs/model.safetensors && echo same
> differs
> same
= 0
# An exception cannot be caught. The error names it and the call that raised it. Attributes that may raise one are not read.
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so ASAN_OPTIONS=handle_abort=0; { PROPANE_STANDIN=evaluate=raises propane $(cat args) --run raised; } 2>&1 | grep '^propane: ane:'
> propane: ane: NSGenericException was raised: the engine's queue is gone; the device's last call in this thread was -[_ANEInMemoryModel evaluateWithQoS:options:request:error:]
= 0
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=wrapper=attributes propane $(cat args) --weights inputs --run inner > log; cmp inner/model.safetensors w27-inputs/model.safetensors && echo same
> same
= 0
# Whatever a loaded program does not need is removed once that was tried. The bits stay the same.
$ export XDG_CACHE_HOME=$PWD/cache3 TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane devices --probe --only keeping; propane $(cat args) --weights inputs --run dropped > log; cmp dropped/model.safetensors w27-inputs/model.safetensors && echo same; cat cache3/propane/engine.json | grep -c '"yes"'
>~ *descriptor not needed; folder not needed*
>~ same
>~ 3
= 0
