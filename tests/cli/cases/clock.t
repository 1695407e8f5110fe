# A system clock that jumps ten years ahead or back at every read changes no result. (Not with the sanitizers: no library can be
# preloaded before theirs.)
! part:lm
@ awk 'BEGIN{for(i=0;i<400;i++) print "line", i*i%977}' > text; mkdir calm jumping
@ printf '#!/bin/sh\nlib=$(dirname "$(readlink -f "$(command -v propane)")")/tests/campaign/preload/jump_clock.so\n[ ! -f "$lib" ] || export LD_PRELOAD="$lib"\nexec propane "$@"\n' > ../bin/jumps; chmod +x ../bin/jumps
$ for p in propane jumps; do where=$([ $p = jumps ] && echo jumping || echo calm); (cd $where; for more in "--data ../text --steps 6" "--resume --data ../text --steps 12"; do $p train $more --run r $(case $more in --resume*) ;; *) echo --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 ;; esac) --eval-every 3 --checkpoint-every 2 --lr 1e-3 --threads 1 > log 2> err || cat err; done; $p convert r c > log; $p convert r c > log; $p generate c -n 8 --seed 1 "line" > said); done; cmp calm/r/model.safetensors jumping/r/model.safetensors && cmp calm/c/model.safetensors jumping/c/model.safetensors && cmp calm/said jumping/said && echo same; ls -A jumping
> same
> c
> err
> log
> r
> said
= 0
