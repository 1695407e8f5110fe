# AdamW's moments in fewer bytes: a run learns as much, and a killed run continues bit for bit.
# The mean of the last 100 losses of each form: 0.2213, 0.2195 and 0.2197 were seen.
! part:lm
@ seq 1000 3000 | sed 's/$/ comes after the number before it./' | head -c 20000 > text.txt
@ echo 'train --data text.txt --kind bytes --layers 1 --width 64 --heads 2 --batch 4 --context 32 --lr 0.003 --warmup 5 --steps 300 --checkpoint-every 20 --eval-every 0 --eval-batches 2 --no-report' > args
@ printf 'grep -o "\\"step\\":.*\\"loss\\":[0-9.]*" | awk -F: "{l[NR] = \\$NF} END {for (i = NR - 99; i <= NR; i++) s += l[i]; print s / 100}"\n' > ../bin/last; chmod +x ../bin/last
$ for m in fp32 bf16 int8; do propane $(cat args) --moments $m --run $m --json | last; done | awk '{l[NR] = $1} END {for (i = 2; i <= 3; i++) print (l[i] != l[1] && l[i] - l[1] < 0.01 && l[1] - l[i] < 0.01)}'
> 1
> 1
= 0
$ for m in bf16 int8; do propane $(cat args) --moments $m --run half-$m > /dev/null 2>&1 & while [ ! -f half-$m/checkpoint.safetensors ]; do sleep 0.01; done; kill -KILL $!; wait $! 2> /dev/null; test ! -f half-$m/model.safetensors && propane train --data text.txt --run half-$m --resume > /dev/null; cmp $m/model.safetensors half-$m/model.safetensors && echo same; done
> same
> same
= 0
# A resumed run may use another format.
$ propane train --data text.txt --run int8 --resume --steps 302 --moments fp32 | grep -c 'step 30[12]/302'
> 2
= 0
$ propane $(cat args) --moments int4
2~ propane train: --moments*'int4'* fp32|bf16|int8*
2> Try 'propane train --help'.
= 2
