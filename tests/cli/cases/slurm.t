# examples/slurm.sh without Slurm: a run, the signal before the time limit, and the next run. LAUNCH starts one process.
! bash part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text
@ printf '#!/bin/sh\nexport LAUNCH=env\n[ $# -gt 1 ] || exec bash "$REPO/examples/slurm.sh" "$@"\nexec bash "$REPO/examples/slurm.sh" "$@" --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 4 --eval-every 0 --json\n' > ../bin/slurm; chmod +x ../bin/slurm
$ slurm text
2> slurm.sh DATA RUN [flags of propane train]
= 2
$ slurm text run --steps 10 > log && grep -c '"lr"' log
> 10
= 0
$ slurm text run --steps 12 > log; grep -c '"lr"' log
> 2
= 0
$ slurm text long --steps 1000000 > long.log 2>&1 & job=$!; while ! grep -q '"lr"' long.log 2> /dev/null; do sleep 0.1; done; kill -USR1 $job; wait $job; echo $?; ls long | grep checkpoint
> 0
> checkpoint.safetensors
= 0
$ slurm nothing.txt none --steps 3 2>&1 | grep -c nothing.txt
> 1
= 0
