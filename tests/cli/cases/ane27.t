# What the ane device does since macOS 27, and what is remembered of it, against the stand-in.
! ldd
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so; mkdir tmp cache
$ XDG_CACHE_HOME=$PWD/cache propane devices --forget
> nothing is remembered of the ane device
= 0
# Only propane devices tries what may crash, and only its answers are believed.
@ for i in 1 2 3 4 5 6 7 8; do cat $REPO/docs/architecture.md; done | head -c 30000 > text.txt
@ echo 'train --data text.txt --kind bytes --layers 1 --width 32 --heads 2 --steps 2 --batch 1 --context 32 --precision fp16 --plan six --device ane' > args
$ export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=realtime=crash,direct=fail; propane $(cat args) --run a; ls cache
>~ kernels: 6 procedures of 1 compiled program; standard evaluation is used, 'propane devices' tries the other ways*
= 0
$ export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; PROPANE_STANDIN=standard_ns=20000000,realtime_ns=20000000 propane devices > list; PROPANE_STANDIN=realtime=crash propane $(cat args) --run b; grep -c ' remembered: ' list
>~ kernels: 6 procedures of 1 compiled program; direct evaluation is used, standard * ms, direct * ms, real-time *
= 0
# A file that is not understood is no answer; the next trial replaces it.
$ echo '{' > cache/propane/engine.json; export XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --run c; propane devices | grep -c ' remembered: '
>~ kernels: *; standard evaluation is used, what is remembered of the engine is not used: */cache/propane/engine.json: line 2, *
= 0
$ XDG_CACHE_HOME=$PWD/cache propane devices --forget; ls cache/propane
> what was remembered of the ane device is forgotten
= 0
# macOS 27 refuses a program with two weight files: every weight mode trains, with the bits of macOS 26.
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; for w in inputs packed baked reload; do PROPANE_STANDIN=system=27,files=one,idle=0 propane $(cat args) --weights $w --run w27-$w > log || cat log; PROPANE_STANDIN=system=26 propane $(cat args) --weights $w --run w26-$w > log; cmp w26-$w/model.safetensors w27-$w/model.safetensors && echo $w; done
> inputs
> packed
> baked
> reload
= 0
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=system=27,idle=0; propane $(cat args) --weights baked --device 'ane:memory?procedures=off' --run apart > log; cmp apart/model.safetensors w27-baked/model.safetensors && echo same; ls tmp
> same
= 0
