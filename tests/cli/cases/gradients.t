# Weight gradients as products on the device (--gradients device).
! part:lm
@ awk 'BEGIN{for(i=0;i<900;i++) print "line", i*i%977}' > text
@ printf '#!/bin/sh\nexec propane train --data text --kind bytes --layers 2 --width 32 --heads 2 --context 32 --batch 4 --lr 1e-3 --schedule constant --eval-every 0 --eval-batches 2 "$@"\n' > ../bin/tiny; chmod +x ../bin/tiny
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so
$ for d in cpu sim:m4; do for g in auto host device; do tiny --device $d --gradients $g --steps 8 --run $g-${d#*:} > log || cat log; done; done; for d in cpu m4; do cmp auto-$d/model.safetensors host-$d/model.safetensors && echo same; done; cmp -s host-m4/model.safetensors device-m4/model.safetensors || echo rounded
> same
> same
> rounded
= 0
# A resumed run ends with the same bits, with several batches per update, in plan six.
$ for d in cpu sim:m4; do o="--device $d --plan six --precision fp16 --accumulate 2 --gradients device"; tiny $o --steps 12 --run whole > log; tiny $o --steps 5 --run half > log; propane train --resume half --steps 12 > log; cmp whole/model.safetensors half/model.safetensors && echo same; rm -r whole half; done
> same
> same
= 0
$ propane train --resume host-m4 --steps 9 --gradients device
2~ propane train: *--gradients*host*device*
= 1
# On the stand-in for the engine: kernels of the device.
$ export PROPANE_ANE_LIBRARY=$PWD/standin.so; for p in six layer; do tiny --device ane --plan $p --precision fp16 --weights inputs --gradients device --steps 4 --profile --run ane-$p | grep -o '^[a-z]*GradMul  *device' | tr -s ' '; done
> attnGradMul device
> ffnGradMul device
> attnGradMul device
> ffnGradMul device
= 0
