# Killed, interrupted and restarted runs end with the bits of an uninterrupted run.
! part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text
$ sh "$REPO/tests/cli/kill.sh" KILL 1 2> err
> KILL 20 times, the same bits: yes
= 0
$ sh "$REPO/tests/cli/kill.sh" INT 2 2> err
> INT 20 times, the same bits: yes
= 0
# exec() restarts for the compile budget, 30 steps
@ printf 'propane train --data text --kind chars --layers 2 --width 16 --heads 2 --kv-heads 1 --context 16 --batch 2 --steps 30 --eval-every 10 --eval-batches 2 --plan six --json "$@"\n' > ../bin/six; chmod +x ../bin/six
@ printf 'grep loss $1 | grep -v event | sed "s/,.tokens_per_s.*//"\n' > ../bin/losses; chmod +x ../bin/losses
@ six --run inputs > inputs.log; six --run baked --weights baked > baked.log; six --run restarted --weights baked --compile-budget 60 > restarted.log
$ grep -c restart baked.log
> 0
= 1
$ test $(grep -c '"event":"restart"' restarted.log) -ge 3
= 0
$ losses inputs.log > a; losses baked.log | cmp a - && losses restarted.log | cmp a - && wc -l < a | tr -d ' '
> 33
= 0
$ cmp inputs/model.safetensors baked/model.safetensors && cmp inputs/model.safetensors restarted/model.safetensors
= 0
$ tail -1 restarted.log
>~ {"event":"done","step":30,*
= 0
# --resume restores the original options of the run
$ head -30 restarted.log > log; six --run half --steps 15 > log; propane train --data text --run half --resume --json | tail -1 | cut -c1-26
> {"event":"done","step":15,
= 0
# in a checkpoint older than an option, the option has its first meaning
$ six --run aged --steps 5 > log; LC_ALL=C sed -i.bak 's/"stream":"fp32"/"strexm":"fp32"/; s/"checksums"/"checkzums"/' aged/checkpoint.safetensors; cmp -s aged/checkpoint.safetensors aged/checkpoint.safetensors.bak || propane train --data text --run aged --resume --steps 6 --json | tail -1 | cut -c1-25
> {"event":"done","step":6,
= 0
# a run that started without adapters cannot get any later
$ propane train --data text --run inputs --resume --lora-rank 4 --steps 40
2> propane train: inputs: the run was started without adapters and must continue without them; leave out --lora-rank
= 1
