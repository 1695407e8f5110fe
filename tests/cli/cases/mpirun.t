# Data-parallel training: any number of ranks learns the same as one process.
! mpirun pgrep part:lm
# (Open MPI's library leaks memory, which is not ours to report)
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text
@ printf '#!/bin/sh\npropane train --data text --kind chars --layers 2 --width 32 --heads 2 --context 16 --batch 8 --eval-every 25 --eval-batches 2 --json "$@"\n' > ../bin/tiny; chmod +x ../bin/tiny
@ cp "$REPO/tests/cli/ranks" ../bin
@ printf '#!/bin/sh\nsed -nE "s/.*\\"(val_)?loss\\":([0-9.]+).*/\\2/p" $1\n' > ../bin/losses; chmod +x ../bin/losses
@ printf '#!/bin/sh\nlosses $1 > a.$$; losses $2 | paste a.$$ - | awk -v t=$3 "{d=\\$1-\\$2; if(d<0)d=-d; if(!(d<=t)||NF!=2) bad=1; n++} END{print n, bad?\\"differ\\":\\"agree\\"}"\n' > ../bin/agree; chmod +x ../bin/agree
@ tiny --steps 50 --run one > one.log; sed 's/"max_position_embeddings": *16/"max_position_embeddings":64/' one/config.json > one/config.json.new && mv one/config.json.new one/config.json
# fp32 between ranks: seen 2e-8 after 50 steps
$ ranks 2 tiny --steps 50 --run two > two.log; agree one.log two.log 1e-5
> 53 agree
= 0
$ echo $(ls two)
> best.safetensors checkpoint.safetensors config.json log.jsonl model.safetensors report.html tokenizer.json tokenizer.propane.json tokenizer_config.json train.json
= 0
# several small buckets, sharded moments, accumulation; seen 3e-8
$ tiny --steps 50 --accumulate 2 --batch 4 --run acc > acc.log; ranks 4 tiny --steps 50 --accumulate 2 --batch 4 --run shard --shard --bucket 3000 > shard.log; agree acc.log shard.log 1e-5
> 53 agree
= 0
# 16 bits between ranks: seen 1e-4 (bf16) and 1e-5 (fp16)
$ ranks 2 tiny --steps 50 --run bf --wire bf16 > bf.log; agree one.log bf.log 3e-3; ranks 2 tiny --steps 50 --run half --wire fp16 > half.log; agree one.log half.log 1e-3
> 53 agree
> 53 agree
= 0
# ranks that appear to be on different machines send messages: the same bits as through shared memory
@ printf '#!/bin/sh\nn=$1; shift; ranks $n env -u OMPI_COMM_WORLD_LOCAL_SIZE PROPANE_THREADS=1 "$@"\n' > ../bin/apart; chmod +x ../bin/apart
$ apart 2 tiny --steps 50 --run two.apart > two.apart.log; agree two.log two.apart.log 0; apart 4 tiny --steps 50 --accumulate 2 --batch 4 --run shard.apart --shard --bucket 3000 > shard.apart.log; agree shard.log shard.apart.log 0
> 53 agree
> 53 agree
= 0
$ apart 2 tiny --steps 50 --run bf.apart --wire bf16 > bf.apart.log; agree bf.log bf.apart.log 0; apart 2 tiny --steps 50 --run half.apart --wire fp16 > half.apart.log; agree half.log half.apart.log 0
> 53 agree
> 53 agree
= 0
# instruction data, whose batch parts contain different numbers of targets; adapters with dropout, frozen weights, recomputed
# activations: all within 1e-6 after 50 steps
@ awk 'BEGIN{for(i=0;i<200;i++) printf "{\"prompt\": \"line %d\", \"completion\": \" %d%s\"}\n", i*i%977, i%7, i%3 ? "" : " line line"}' > tune.jsonl
@ printf '#!/bin/sh\npropane train --init one --data tune.jsonl --context 24 --batch 4 --steps 50 --warmup 5 --lr 3e-3 --eval-every 25 --eval-batches 2 --json "$@"\n' > ../bin/tune; chmod +x ../bin/tune
@ printf '#!/bin/sh\nn=$1; shift; tune --run t1$n "$@" > t1.log && ranks 2 tune --run t2$n "$@" > t2.log && agree t1.log t2.log 1e-5\n' > ../bin/both; chmod +x ../bin/both
$ both a
> 53 agree
= 0
$ both b --lora-rank 4 --lora-targets all --lora-dropout 0.2 --lr 1e-2; ls t2b; cmp t1b/adapter_config.json t2b/adapter_config.json
> 53 agree
> adapter_config.json
> adapter_model.safetensors
> best.safetensors
> checkpoint.safetensors
> config.json
> log.jsonl
> report.html
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
> train.json
= 0
$ both c --lora-rank 2 --accumulate 2 --shard --bucket 2000
> 53 agree
= 0
$ both d --freeze embed_tokens,layers.0. --shard; both e --recompute; both f --trainable layers.1.mlp --recompute --plan six
> 53 agree
> 53 agree
> 53 agree
= 0
# adapters of two ranks continue as one process, with the same dropout
$ tune --run g1 --lora-rank 4 --lora-dropout 0.2 --min-lr 3e-3 > g1.log; ranks 2 tune --run g2 --lora-rank 4 --lora-dropout 0.2 --min-lr 3e-3 --steps 20 --shard > g2.log; propane train --resume --run g2 --data tune.jsonl --steps 50 --json >> g2.log; grep '"lr"' g1.log > want; grep '"lr"' g2.log > got; agree want got 1e-5
> 50 agree
= 0
# stopped and resumed with another number of ranks, with moments sharded or not
@ printf '#!/bin/sh\ntiny --lr 1e-3 --min-lr 1e-3 --warmup 0 "$@"\n' > ../bin/level; chmod +x ../bin/level
$ level --steps 40 --run long > long.log; ranks 2 level --steps 20 --run move --shard > m.log; ranks 4 propane train --data text --run move --resume --steps 30 --shard --json >> m.log; propane train --data text --run move --resume --steps 40 --json >> m.log; grep '"lr"' long.log > want; grep '"lr"' m.log > got; agree want got 1e-5
> 40 agree
= 0
# moments in fewer bytes: a rank that keeps its part of them (whole blocks) has the bits of one that keeps all. So has a run that is
# resumed with other numbers of ranks. This is without clipping, because the norm's squares are added in another order
$ for m in bf16 int8; do ranks 4 tiny --steps 50 --clip 0 --moments $m --run all.$m > all.$m.log; for b in 900 3000; do ranks 4 tiny --steps 50 --clip 0 --moments $m --run part.$m.$b --shard --bucket $b > part.log; cmp all.$m/model.safetensors part.$m.$b/model.safetensors && echo same; done; done
> same
> same
> same
> same
= 0
$ ranks 4 tiny --steps 50 --clip 0 --moments int8 --run moves --shard > moves.log; cp -r moves again; for d in "moves 2 --shard" "again 2"; do set -- $d; ranks $2 propane train --data text --run $1 --resume --steps 70 $3 --json > $1.log; ranks 4 propane train --data text --run $1 --resume --steps 90 $3 --json >> $1.log; done; agree moves.log again.log 0; cmp moves/model.safetensors again/model.safetensors && echo same
> 45 agree
> same
= 0
# refused combinations
$ ranks 3 tiny --steps 5 --run three 2>&1 | grep -c "batch 8 cannot be divided among 3 ranks; give a multiple"
>~ [123]
= 0
$ ranks 2 tiny --steps 5 --run baked --weights baked 2>&1 | grep -q "not possible under mpirun; use --weights inputs"
= 0
$ env OMPI_COMM_WORLD_SIZE= PMI_SIZE=2 propane train --data text --run other 2>&1 | head -1 | cut -c1-40
>~ *
= 0
# one rank dies: the job ends, and the last checkpoint is intact
$ d=dies$$; ranks 2 tiny --steps 100000 --run $d --eval-every 0 --checkpoint-every 5 > dies.log 2>&1 & until [ -f $d/checkpoint.safetensors ]; do sleep 0.2; done; sleep 0.5; kill -9 $(pgrep -x -a propane | grep -e "--run $d" | tail -1 | cut -d" " -f1); wait; propane show $d/checkpoint.safetensors > shown && echo whole
> whole
= 0
# outer steps: interrupted and resumed with as many ranks, a run continues bit for bit, including the remainders of int4; it also
# continues with another number of ranks
@ printf '#!/bin/sh\nlevel --checkpoint-every 10 --outer 10 --outer-warmup 0 "$@"\n' > ../bin/away; chmod +x ../bin/away
$ ranks 2 away --steps 40 --run o1 > o1.log; ranks 2 away --steps 20 --run o2 > o2.log; ranks 2 propane train --data text --run o2 --resume --steps 40 --json >> o2.log; cmp o1/model.safetensors o2/model.safetensors && ls o2 | grep worker
> worker-0.40.safetensors
> worker-1.40.safetensors
= 0
$ ranks 2 away --steps 40 --run p1 --wire int4 > p1.log; ranks 2 away --steps 20 --run p2 --wire int4 > p2.log; ranks 2 propane train --data text --run p2 --resume --steps 40 --wire int4 > p2b.log; cmp p1/model.safetensors p2/model.safetensors
= 0
$ ranks 4 propane train --data text --run o2 --resume --steps 60 --json > o4.log; propane train --data text --run o2 --resume --steps 80 --json > o1b.log; tail -n 1 o1.log o1b.log | sed -nE 's/.*"val_loss":([0-9.]*).*/\1/p' | awk '{v[NR] = $1} END {print (v[2] < v[1])}'
> 1
2> propane: --outer 10 has no effect in a single process; start several with mpirun
= 0
# messages only at synchronization, 4.3 bits per number: one eighth of fp32's bytes, one tenth of the steps
$ grep -c outer_bytes o1/log.jsonl; for r in o1 p1; do sed -nE 's/.*"outer_bytes":([0-9]*).*/\1/p' $r/log.jsonl | sort -u; done | awk '{v[NR] = $1} END {print NR, (v[2] > v[1] / 8 && v[2] < v[1] / 7.4)}'
> 4
> 2 1
= 0
