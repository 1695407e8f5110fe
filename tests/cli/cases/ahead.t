# A rank that is ahead of a slow one writes its file for the next checkpoint while the slow one still removes files of the last one.
# The new file must stay. Otherwise a run that is killed at that moment would continue with different bits.
! mpirun part:lm
@ so="$(dirname "$(readlink ../bin/propane)")/tests/cli/preload/slow_rank.so"; [ ! -f "$so" ] || ln -s "$so" ../bin/slow_rank.so; cp "$REPO/tests/cli/ranks" ../bin
! slow_rank.so
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text
@ printf '#!/bin/sh\nhead -c 200000 run/checkpoint.safetensors 2> /dev/null | tr -d "\\\\0" | grep -aoE "\\"step\\":\\"[0-9]+" | grep -oE "[0-9]+" | head -1\n' > ../bin/kept; chmod +x ../bin/kept
@ mkdir run; touch run/worker-0.1000.safetensors run/worker-1.1000.safetensors run/worker-6.1000.safetensors run/worker-7.3.safetensors
$ SLOW_RANK=run LD_PRELOAD=$(command -v slow_rank.so) ranks 2 propane train --data text --kind chars --layers 2 --width 32 --heads 2 --context 16 --batch 8 --eval-every 0 --threads 1 --outer 7 --outer-warmup 0 --checkpoint-every 7 --steps 70 --run run --no-report > log 2>&1 & while kill -0 $! 2> /dev/null; do a=$(kept); ls run > there; b=$(kept); [ -z "$a" ] || [ "$a" != "$b" ] || [ "$a" = 70 ] || for r in 0 1; do grep -qx "worker-$r.$a.safetensors" there || echo "worker-$r.$a is missing"; done; [ -z "$a" ] || echo "$a" >> seen; sleep 0.02; done | sort -u; sort -u seen | awk 'END { print (NR > 5 ? "checkpoints" : "too few checkpoints") }'; ls run | grep worker
> checkpoints
> worker-0.70.safetensors
> worker-1.70.safetensors
= 0
