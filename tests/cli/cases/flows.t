# The workflows that the documents describe: the numbers of every form, device, plan and precision agree.
! part:lm
@ awk 'BEGIN{for(i=0;i<3000;i++) print "line", i*i%977, "of", i%7}' > text
@ printf 'sed -n "s/.*\\"$1\\":\\([0-9.e-]*\\).*/\\1/p" | tail -1\n' > ../bin/field; chmod +x ../bin/field
@ printf 'awk -v a="$1" -v b="$2" -v t="$3" "BEGIN { d = a - b; if (d < 0) d = -d; if (a == \\"\\" || b == \\"\\" || d > t) { print a, b; exit 1 } }"\n' > ../bin/near; chmod +x ../bin/near
$ propane tokenize text --vocab 300 --out v.json --tokens ids
>~ text: * bytes, * tokens (* bytes each), bpe vocabulary of 300, * s
= 0
@ printf 'propane train --data ids --tokenizer v.json --layers 2 --width 32 --heads 4 --kv-heads 2 --context 32 --batch 4 --steps 40 --warmup 5 --lr 3e-3 --eval-batches 4 --json "$@"\n' > ../bin/small; chmod +x ../bin/small
$ small --run m > m.log; tail -1 m.log
>~ {"event":"done","step":40,"seconds":*,"val_loss":*,"val_nats_per_byte":*}
= 0
# a line of JSON contains only names with numbers, null or words
$ V='"[a-z_]+":(-?[0-9][0-9.e+-]*|null|"[a-z]+")'; grep -vE "^\\{$V(,$V)*\\}\$" m.log
= 1
$ grep -cE '^\{"step":[0-9]+,"loss":[0-9.]+,"lr":[0-9.e-]+,"loss_scale":[0-9.]+,"tokens_per_s":[0-9.e+]+,"device_ms":[0-9.e-]+,"host_ms":[0-9.e-]+\}$' m.log
> 40
= 0
# the same from the plain text, with every plan, weights as constants, and another number of threads
$ propane train --data text --tokenizer v.json --layers 2 --width 32 --heads 4 --kv-heads 2 --context 32 --batch 4 --steps 40 --warmup 5 --lr 3e-3 --eval-batches 4 --run t > t.log; cmp m/model.safetensors t/model.safetensors
= 0
$ small --run six --plan six > six.log; near "$(field loss < m.log)" "$(field loss < six.log)" 1e-4
= 0
$ small --run ten --plan ten > ten.log; near "$(field loss < m.log)" "$(field loss < ten.log)" 1e-4
= 0
$ small --run half --precision fp16 > half.log; near "$(field val_loss < m.log)" "$(field val_loss < half.log)" 3e-2
= 0
$ small --run brain --precision bf16 > brain.log; near "$(field val_loss < m.log)" "$(field val_loss < brain.log)" 3e-2; cmp -s m/model.safetensors brain/model.safetensors
= 1
# where the time went: a row for each kernel of the plan and one for the rest
$ small --run prof --profile | grep -cE '^\{"event":"kernel","kernel":"[a-zA-Z]+","place":"(host|device)","calls":[0-9]+,"ms":[0-9.]+,"gflops":[0-9.]+,"gbytes_per_s":[0-9.]+\}$'
> 9
= 0
$ small --run prof2 --no-json --profile | grep -cE '^(kernel +place|[a-zA-Z]+ +(host|device) +[0-9]+ |the rest )'
> 11
= 0
$ small --run tenhalf --precision fp16 --plan ten > tenhalf.log; near "$(field val_loss < m.log)" "$(field val_loss < tenhalf.log)" 3e-2
= 0
$ small --run one --threads 1 > one.log; cmp m/model.safetensors one/model.safetensors
= 0
# a simulated Neural Engine: close to the cpu driver in fp16 (seen: 1.2e-2 for plan layer, 4e-4 for others); weight modes agree to the bit
@ printf 'small --width 64 --heads 2 --kv-heads 1 --precision fp16 --steps 20 "$@"\n' > ../bin/wide; chmod +x ../bin/wide
@ wide --run wide > wide.log
$ for p in layer six ten; do wide --run sim$p --device sim:m4 --plan $p > sim$p.log; near "$(field val_loss < wide.log)" "$(field val_loss < sim$p.log)" 2e-2 || exit 1; done
= 0
$ wide --run simbaked --device 'sim:m4?budget=40' --plan six --weights baked > simbaked.log; test $(grep -c restart simbaked.log) -ge 3 && cmp simsix/model.safetensors simbaked/model.safetensors
= 0
$ wide --run simpacked --device sim:m4 --plan six --weights packed > simpacked.log; cmp simsix/model.safetensors simpacked/model.safetensors
= 0
$ small --run narrow --device sim:m4 --precision fp16
2> propane train: kernel 'attnGrad' and the kernel that produces 'mix' use different layouts, with rows of 16 and 64 bytes; an engine's rows are multiples of 64 bytes: use a --context and heads that are multiples of 32, or another --plan
= 1
# forms of the model
@ propane convert m m.bin > log; propane convert m m.safetensors > log; propane convert m.bin back.safetensors > log; propane convert m folder > log; propane convert m half.safetensors --dtype f16 > log
$ propane eval m --data text --json > e; near "$(field loss < e)" "$(propane eval m --data ids --json | field loss)" 1e-9
= 0
$ for f in m.bin m.safetensors back.safetensors folder; do propane eval $f --data text --tokenizer v.json --json | cmp e - || echo $f; done
= 0
$ near "$(field loss < e)" "$(propane eval half.safetensors --data text --tokenizer v.json --json | field loss)" 1e-3
= 0
$ near "$(field loss < e)" "$(propane eval m --precision fp16 --data text --json | field loss)" 1e-2
= 0
$ propane generate m --prompt 'line 1' --count 20 --temperature 0 > g; for f in m.bin back.safetensors folder; do propane generate $f --tokenizer v.json --prompt 'line 1' --count 20 --temperature 0 | cmp g - || echo $f; done; head -c 6 g; echo
> line 1
= 0
$ propane eval m --device sim:m4 --precision fp16 --data text --json > a; near "$(field loss < a)" "$(propane eval m --precision fp16 --data text --json | field loss)" 1e-2
= 0
$ propane generate m --prompt 'line 1' --count 20 --seed 3 > a; propane generate m --prompt 'line 1' --count 20 --seed 3 | cmp a - && propane generate m --prompt 'line 1' --count 20 --seed 4 | cmp -s a -
= 1
# fine-tuning
$ propane train --data text --init m.bin --tokenizer v.json --context 32 --batch 4 --steps 5 --lr 1e-4 --min-lr 1e-4 --eval-batches 4 --run fine --json > f; near "$(head -1 f | field loss)" "$(field loss < m.log)" 0.5
= 0
# a driver that computes nothing says so
$ propane devices
>~ null   yes  accepts every program and computes nothing*
>~ cpu    yes  *
= 0
