# Training on each system that the stand-in for Apple's libraries can imitate: every weight mode, both routes, kills, a machine
# in use by other programs, and an engine that goes to sleep. A few steps; 200 with TEST_ALL=1.
! ldd part:lm
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so
@ for i in 1 2 3 4; do cat $REPO/docs/architecture.md; done | head -c 20000 > text; mkdir tmp
@ steps=3; [ "${TEST_ALL:-}" = 1 ] && steps=200; echo "train --data text --kind bytes --layers 1 --width 32 --heads 2 --batch 1 --context 32 --precision fp16 --plan six --steps $steps" > args; echo "export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so" > on
# The same bits on all of them. A process may compile 119 programs on 15 and 26, so baked weights need several processes.
$ . ./on; propane $(cat args) --device ane --weights inputs --run first > /dev/null; for s in 15 26 27; do for d in memory client; do for w in inputs packed baked reload; do PROPANE_STANDIN=system=$s propane $(cat args) --device ane:$d --weights $w --run $s-$d-$w > log 2>&1 || cat log; cmp first/model.safetensors $s-$d-$w/model.safetensors || echo "$s $d $w"; done; done; done; (ls tmp; ls ../engine) | wc -l | tr -d ' '
> 0
= 0
# A program for each kernel: 27 accepts any number of compiles, but holds only as many programs at once as it has places.
$ . ./on; for s in 15 26 27; do PROPANE_STANDIN=system=$s propane $(cat args) --device 'ane:memory?procedures=off' --weights baked --run $s-apart > log 2>&1 || cat log; cmp first/model.safetensors $s-apart/model.safetensors && echo $s; done
> 15
> 26
> 27
= 0
# The engine goes to sleep after a millisecond without work: refused requests are repeated.
$ . ./on; PROPANE_STANDIN=system=27,idle=1 propane $(cat args) --steps 3 --device ane --weights inputs --run idle > log 2>&1 || cat log; propane $(cat args) --steps 3 --device ane --weights inputs --run awake > log; cmp idle/model.safetensors awake/model.safetensors && echo same
> same
= 0
# Killed at any point and resumed: the places that it held are free again.
$ . ./on; echo "$(cat args) --steps 40 --checkpoint-every 1" > long; for s in 15 26 27; do PROPANE_STANDIN=system=$s,pool=8; export PROPANE_STANDIN; for d in 'ane:memory?procedures=off' ane; do propane $(cat long) --device "$d" --weights inputs --run whole-$s > /dev/null; for k in 1 2 3; do if [ -f killed-$s/checkpoint.safetensors ]; then propane train --data text --run killed-$s --resume > /dev/null 2>&1 & else propane $(cat long) --device "$d" --weights inputs --run killed-$s > /dev/null 2>&1 & fi; sleep "$(awk -v k=$k -v p=$$ 'BEGIN { srand(p * 10 + k); printf "%.3f", 0.02 + rand() * 0.3 }')"; kill -KILL $! 2> /dev/null; wait $! 2> /dev/null; done; if [ -f killed-$s/checkpoint.safetensors ]; then propane train --data text --run killed-$s --resume > log 2>&1 || cat log; else propane $(cat long) --device "$d" --weights inputs --run killed-$s > log 2>&1 || cat log; fi; cmp whole-$s/model.safetensors killed-$s/model.safetensors || echo "$s $d"; rm -rf whole-$s killed-$s; done; done; echo all
> all
= 0
# Two runs at once, and places for one of them: the other one reports that.
$ . ./on; PROPANE_STANDIN=system=27,pool=7; export PROPANE_STANDIN; propane $(cat args) --steps 100000 --device 'ane:memory?procedures=off' --weights inputs --run holder > /dev/null 2>&1 & holder=$!; while [ ! -s holder/log.jsonl ]; do sleep 0.05; done; sleep 0.2; propane $(cat args) --device 'ane:memory?procedures=off' --weights inputs --run second; code=$?; kill -KILL $holder; wait $holder 2> /dev/null; propane $(cat args) --device 'ane:memory?procedures=off' --weights inputs --run third > /dev/null && cmp first/model.safetensors third/model.safetensors && echo same; exit $code
>~ same
2~ propane train: *code 54*no ANE resources (transient; retry)*
= 1
