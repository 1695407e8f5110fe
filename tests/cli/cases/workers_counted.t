# The bytes that propane estimate --workers predicts, and those that ranks count in their log: at most 0.2 % apart, 1 % with int4, whose
# blocks end with each piece.
! mpirun pgrep part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text
@ cp "$REPO/tests/cli/ranks" ../bin
@ printf '#!/bin/sh\nn=$1 w=$2; ranks $n propane train --data text --kind chars --layers 2 --width 64 --heads 2 --context 16 --batch 12 --eval-every 0 --steps 4 --outer 2 --wire $w --run r$n$w > r.log 2>&1 || { cat r.log; exit 1; }\ncounted=$(sed -nE "s/.*\\"outer_bytes\\":([0-9]+).*/\\1/p" r$n$w/log.jsonl | tail -1)\ntold=$(propane estimate r$n$w/config.json --workers $n --outer 2 --wire $w --json | awk -F"[ :,]+" "/\\"message_bytes\\"/ {b = \\$3} /\\"way\\"/ {way = \\$3} /\\"bound_by\\"/ && way ~ /outer/ {print b}")\nawk -v c=$counted -v t=$told -v most=$3 "BEGIN {d = t / c - 1; if (d < 0) d = -d; print (c > 0 && d <= most ? \\"as counted\\" : c \\" were counted, \\" t \\" told\\")}"\n' > ../bin/both; chmod +x ../bin/both
$ both 2 fp32 0.001; both 3 fp32 0.002; both 4 fp16 0.002; both 2 bf16 0.001
> as counted
> as counted
> as counted
> as counted
= 0
# a step of a warm-up; with int4 its gradients have 16 bits
@ sed -e 's/--outer 2/--outer 2 --outer-warmup 3/g' -e 's/--steps 4/--steps 7/' -e 's/r$n$w/w$n$w/g' -e 's/tail -1/head -1/' -e 's/message_bytes/warmup_bytes/' -e 's/{b = ..3}/{b = \\$3 \/ 3}/' ../bin/both > ../bin/warm; chmod +x ../bin/warm
$ warm 3 fp32 0.002; warm 4 int4 0.002
> as counted
> as counted
= 0
$ both 2 int4 0.01; both 4 int4 0.01
> as counted
> as counted
= 0
