# An update during the device's work gives the same bits as one after it, also if the run is killed and resumed. A trace shows it.
! ldd part:lm
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so
@ for i in 1 2 3 4; do cat $REPO/docs/architecture.md; done | head -c 20000 > text; mkdir tmp
@ echo 'train --data text --kind bytes --layers 3 --width 192 --heads 6 --batch 2 --context 32 --precision fp16 --plan six --steps 24 --checkpoint-every 5 --eval-every 10 --eval-batches 1 --no-report' > args
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; for how in exact lagged; do for o in on off; do propane $(cat args) --device ane --overlap $o --clip-norm $how --run $how-$o > /dev/null; done; cmp $how-on/model.safetensors $how-off/model.safetensors && echo same; done; cmp -s exact-on/model.safetensors lagged-on/model.safetensors; echo $?
> same
> same
> 1
= 0
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; for how in exact lagged; do propane $(cat args) --device ane --clip-norm $how --run half-$how > /dev/null 2>&1 & while [ ! -f half-$how/checkpoint.safetensors ]; do sleep 0.01; done; kill -KILL $!; wait $! 2> /dev/null; test ! -f half-$how/model.safetensors && propane train --data text --run half-$how --resume > /dev/null; cmp $how-off/model.safetensors half-$how/model.safetensors && echo same; done
> same
> same
= 0
# Updates with a guessed norm, where gradients are clipped now and then, and where none is; killed and resumed.
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; for clip in 0.8 0; do for o in off early; do propane $(cat args) --device ane --overlap $o --clip $clip --moments int8 --run clip$clip-$o > /dev/null; done; cmp clip$clip-off/model.safetensors clip$clip-early/model.safetensors && echo same; done
> same
> same
= 0
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --device ane --overlap early --clip 0 --moments int8 --run half-early > /dev/null 2>&1 & while [ ! -f half-early/checkpoint.safetensors ]; do sleep 0.01; done; kill -KILL $!; wait $! 2> /dev/null; test ! -f half-early/model.safetensors && propane train --data text --run half-early --resume --overlap early > /dev/null; cmp clip0-off/model.safetensors half-early/model.safetensors && echo same
> same
= 0
# 200 steps of a small model: updates during the device's work or after it, killed at random moments, and resumed each time.
@ echo 'train --data text --kind bytes --layers 2 --width 64 --heads 2 --batch 2 --context 32 --precision fp16 --plan six --steps 200 --checkpoint-every 10 --eval-every 100 --eval-batches 1 --no-report --device ane --threads 1' > long
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; for o in on off; do propane $(cat long) --overlap $o --run long-$o > /dev/null; done; cmp long-on/model.safetensors long-off/model.safetensors && echo same
> same
= 0
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; for k in 1 2 3 4 5 6; do if [ -f killed/checkpoint.safetensors ]; then propane train --data text --run killed --resume > /dev/null 2>&1 & else propane $(cat long) --run killed > /dev/null 2>&1 & fi; sleep "$(awk -v k=$k -v p=$$ 'BEGIN { srand(p * 10 + k); printf "%.3f", 0.05 + rand() * 0.6 }')"; kill -KILL $! 2> /dev/null; wait $! 2> /dev/null; done; if [ -f killed/checkpoint.safetensors ]; then propane train --data text --run killed --resume > /dev/null; else propane $(cat long) --run killed > /dev/null; fi; cmp long-off/model.safetensors killed/model.safetensors && echo same
> same
= 0
$ propane train --data text --run half-lagged --resume --clip-norm exact
2~ propane train: *half-lagged/checkpoint.safetensors was written with --clip-norm lagged, not exact; *
= 1
# A trace changes nothing; tests/drivers/test_update_overlap checks its contents. A stopped run has one, too.
$ export TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so; propane $(cat args) --device ane --trace t.json --run traced > /dev/null; cmp exact-on/model.safetensors traced/model.safetensors && echo same; for lane in "device queue" "host queue" host update; do grep -c "\"cat\":\"$lane\"" t.json; done
> same
> 1
> 1
> 1
> 1
= 0
$ propane $(cat args) --device cpu --steps 3 --trace cpu.json --run onecpu > /dev/null; tr '}' '\n' < cpu.json | grep -c '"cat":"update"'
> 3
= 0
$ propane $(cat args) --device cpu --steps 2 --trace missing/folder/t.json --run t
>~ training: 2 steps of 64 tokens, *
2~ propane train: --trace: cannot write missing/folder/t.json: No such file or directory*
= 1
$ propane $(cat args) --clip-norm sometimes
2~ propane train: --clip-norm*'sometimes'* exact|lagged*
2> Try 'propane train --help'.
= 2
