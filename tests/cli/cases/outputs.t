# Outputs of a command: written completely or not at all, and never over the user's files.
! mkfifo part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; echo 1 2 3 > ids.txt
@ t="--data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0"; echo "propane train $t --threads 1 \"\$@\"" > train.sh
@ sh train.sh --run r --steps 2 > /dev/null; sh train.sh --run other --seed 5 --steps 3 > /dev/null
# A log that cannot be written is reported, but does not end the run.
@ mkdir -p n/log.jsonl
$ sh train.sh --run n --steps 1 --no-report > log
2~ propane train: n already contains log.jsonl, which this run would overwrite; give another --run
= 1
$ rm -rf n; sh train.sh --run n --steps 1 > log; rm n/log.jsonl; mkdir n/log.jsonl; sh train.sh --run n --resume --steps 2 > log; echo $?
> 0
2> propane train: the log, log.jsonl, has gaps: Is a directory
= 0
# An output does not overwrite an input.
$ propane eval r --ids ids.txt --gradients g > log; propane eval g --ids ids.txt --gradients g
2> propane eval: g is also an input: give the output another name
= 1
# It does not overwrite a file of another kind either, whether or not the command reads it.
@ cp -r r e; echo precious > precious; cp precious precious.bin; printf '%s\n' 'program(1.3)' '{' '  func main<ios18>(tensor<fp16, [1, 4]> x) { tensor<fp16, [1, 4]> y = relu(x = x); } -> (y);' '}' > relu.mil
@ printf '%s\n' 'eval r --ids ids.txt --logits' 'eval r --ids ids.txt --gradients' 'compare r --html' 'report r -o' 'show relu.mil --html' 'check relu.mil --target m4 --html' 'diff relu.mil --seed 1 --html' 'run relu.mil --seed 1 --trace' 'devices --probe --device cpu -o' 'tokenize text --kind bytes --out' 'tokenize text --kind bytes --out new.tokenizer --tokens' > outputs.txt
$ while read -r line; do for file in precious ids.txt r/model.safetensors r/checkpoint.safetensors r/log.jsonl r/train.json relu.mil; do propane $line $file > out 2> err && echo "$line $file"; grep -q "^propane [a-z]*: $file exists and is not a.*, so it is not overwritten: give another name, or remove it$" err || cat err; done; done < outputs.txt; diff -r e r && ls new.tokenizer
2~ *new.tokenizer*
= 2
$ propane convert r precious.bin; sh train.sh --run never --steps 1 --trace precious; cmp precious precious.bin; ls never
2> propane convert: precious.bin exists and is not a llama2.c model, so it is not overwritten: give another name, or remove it
2> propane train: precious exists and is not a trace, so it is not overwritten: give another name, or remove it
2~ *never*
= 2
# An empty file and one of the same kind are overwritten.
$ while read -r line; do rm -f out; for n in 1 2 3; do propane $line out > log 2>&1 || cat log; [ $n != 1 ] || : > out; done; done < outputs.txt; rm out; for n in 1 2; do propane convert r out.bin > log; sh train.sh --run out.$n --steps 1 --trace out > log || cat log; done
= 0
@ propane train --data text --init r --lora-rank 2 --context 16 --batch 2 --eval-every 0 --steps 1 --run lora > /dev/null
$ cp -r lora l; propane convert r l/adapter_model.safetensors --merge l; cmp lora/adapter_model.safetensors l/adapter_model.safetensors
2> propane convert: l/adapter_model.safetensors is also an input: give the output another name
= 0
# Two outputs of one name would lose the first, whether or not it exists.
$ propane eval r --ids ids.txt --logits new --gradients ./new; ls new
2> propane eval: --logits and --gradients would both write ./new; give two names
2> Try 'propane eval --help'.
2~ *ls: *new*
= 2
# A folder that cannot be filled is named as the user named it.
$ (ulimit -f 2; propane convert r small)
2> propane convert: cannot write small/model.safetensors: File too large
= 1
# An existing folder is not removed; a new one is.
$ mkdir mine; propane train --data nofile --run mine; propane train --data nofile --run made; ls -d mine made
> mine
2~ propane train: cannot open nofile: *
2~ propane train: cannot open nofile: *
2~ *ls: *made*
= 2
# Other people's files are not removed either, neither by a run nor by a conversion.
$ mkdir y; echo mine > y/config.json; propane convert r y; propane train --data text --run y; cp y/config.json z; mkdir yy; cp y/config.json yy/tokenizer.propane.json; propane train --data text --run yy; cat y/* yy/*
> mine
> mine
2> propane convert: cannot write y: a folder with that name contains something other than a model; give another name
2> propane train: y already contains config.json, which this run would overwrite; give another --run
2> propane train: yy already contains tokenizer.propane.json, which this run would overwrite; give another --run
= 0
$ propane convert r c > log && touch c/notes && propane convert other c; rm c/notes; cp -r c before; propane convert other c > log && ls c && diff -r c before > /dev/null
> config.json
> generation_config.json
> model.safetensors
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
2> propane convert: cannot write c: a folder with that name contains notes, which does not belong to a model; give another name
= 1
# A failed conversion leaves the old files unchanged, and adds no others.
$ cp -r c before2; (ulimit -f 8; propane convert r c); diff -r c before2 && ls -d c*
> c
2> propane convert: cannot write c/model.safetensors: File too large
= 0
# A kill before the first checkpoint leaves a folder that accepts a new run.
$ mkdir k; : > k/.propane-run; cp r/config.json k; sh train.sh --run k --resume; sh train.sh --run k --steps 2 > log; ls -A k; cmp k/model.safetensors r/model.safetensors
> checkpoint.safetensors
> config.json
> log.jsonl
> model.safetensors
> report.html
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
> train.json
2> propane train: k: there is no checkpoint to resume from; leave out --resume to start a new run
= 0
# The next run removes the files that killed writers left.
$ touch k/model.safetensors.tmp-0123456789abcdef k/report.html.tmp-999; mkdir k/x.mlpackage.tmp-0123456789abcdef; sh train.sh --run k --resume --steps 3 > log; ls k | grep -c tmp
> 0
= 1
# A pipe instead of a file is refused at once, not waited for.
@ mkdir p.mlpackage; mkfifo p.mlpackage/Manifest.json; mkfifo fifo.json; cp -r c q; rm q/config.json; mkfifo q/config.json
$ propane run p.mlpackage; propane show fifo.json; propane eval q --ids ids.txt; propane generate r --tokenizer fifo.json
2~ propane run: cannot read p.mlpackage/Manifest.json: it is a device or pipe, not a file
2~ propane show: cannot read fifo.json: it is a device or pipe, not a file
2~ propane eval: cannot read q/config.json: it is a device or pipe, not a file
2~ propane generate: cannot read fifo.json: it is a device or pipe, not a file
= 1
# No free descriptors: whatever was begun is removed again.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 4]> x) {\n        tensor<fp32, [1, 4]> y = exp(x = x)[name = string("y")];\n    } -> (y);\n}\n' > few.mil; mkdir few
$ for n in 12 13 14 15; do (exec 3< few.mil 4< few.mil 5< few.mil 6< few.mil 7< few.mil 8< few.mil 9< few.mil; ulimit -n $n; propane convert few.mil few/out.mlpackage) > told 2>&1; done; ls -a few | grep -c tmp
> 0
= 1
# Each program in a folder keeps its own weights.
$ for m in r other; do propane convert $m alone.$m/$m.mil --tokens 1 > log; propane convert $m both/$m.mil --tokens 1 > log; done; propane convert other both/model.mil --tokens 1 > log; for m in r other; do propane run both/$m.mil --seed 1 | grep output > both.$m; propane run alone.$m/$m.mil --seed 1 | grep output | cmp - both.$m; done; cmp -s both.r both.other; ls both/weights
> other.bin
> r.bin
> weight.bin
= 0
