# Run folders: taken, locked, read-only, full, damaged, resumed in another way; readers that disappear.
! perl truncate part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; tr 12 21 < text > other; : > empty
@ printf 'exec propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 20 --eval-batches 1 "$@"\n' > ../bin/tiny; chmod +x ../bin/tiny
@ tiny --run done > log
@ printf 'cp -r done $1; shift; "$@"\n' > ../bin/copy; chmod +x ../bin/copy
$ tiny --run done
2> propane train: done already contains a run: continue it with: propane train --resume done, or give another --run
= 1
$ tiny --run text
2> propane train: cannot make the folder text: Not a directory
= 1
$ tiny --run text/x
2> propane train: cannot make the folder text: Not a directory
= 1
? /proc
$ tiny --run /proc/propane
2> propane train: cannot make the folder /proc/propane: No such file or directory
= 1
@ propane convert done model > log
$ tiny --run model
2> propane train: model already contains a model, which this run would overwrite; give another --run
= 1
@ mkdir locked
# read-only: by its mode, or, for root, because the system owns it
$ if [ "$(id -u)" = 0 ]; then tiny --run /proc/self; else chmod 555 locked; tiny --run locked; fi
2~ propane train: cannot *: *
= 1
@ mkdir two; (perl -e "open F, q(<&=9) or die; flock F, 2 or die"; : > held; sleep 5) 9< two > log 2>&1 & while [ ! -f held ]; do sleep 0.05; done
$ tiny --run two
2> propane train: two: another process is training in this folder; wait for it, or give another --run
= 1
# a short lock, such as that of a watch, is waited for
@ mkdir three; (perl -e "open F, q(<&=9) or die; flock F, 1 or die"; : > held3; sleep 0.1) 9< three > log 2>&1 & while [ ! -f held3 ]; do sleep 0.02; done
$ tiny --run three | tail -1 | cut -c1-15
> validation at s
= 0
# resuming
$ propane train --data text --resume --run nowhere
2> propane train: nowhere: there is no checkpoint to resume from; leave out --resume to start a new run
= 1
$ propane train --data text --resume --run done | tail -1
> the run is already complete; continue it with a larger --steps
= 0
$ propane train --data text --resume --run done --steps 10
2> propane train: done/checkpoint.safetensors: the run has already done 20 steps, more than --steps 10
= 1
$ propane train --data text --resume --run done --batch 4
2> propane train: done/checkpoint.safetensors was written with --batch 2, not 4; resume with the same, or start a new run in another folder
= 1
$ propane train --data text --resume --run done --lr 0.5
2> propane train: done/checkpoint.safetensors was written with --lr 0.003, not 0.5; resume with the same, or start a new run in another folder
= 1
$ propane train --data text --resume --run done --precision fp16
2> propane train: done/checkpoint.safetensors was written with --precision fp32, not fp16; resume with the same, or start a new run in another folder
= 1
$ propane train --data other --resume --run done --steps 25
2~ propane train: done/checkpoint.safetensors was written with data with the checksum *, not *; resume with the same, or start a new run in another folder
= 1
$ head -c 5000 text > part; propane train --data part --resume --run done --steps 25
2~ propane train: done/checkpoint.safetensors was written with data with this number of tokens: *, not 5000; resume with the same, or start a new run in another folder
= 1
$ propane train --data empty --resume --run done
2> propane train: empty: the file is empty; give a text to train on
= 1
$ copy a truncate -s 30000 a/checkpoint.safetensors; propane train --data text --resume --run a --steps 25
2~ propane train: a/checkpoint.safetensors: tensor '*': data_offsets * to * are outside the data, which has * bytes; the file is truncated or damaged
= 1
$ copy b truncate -s 0 b/checkpoint.safetensors; propane train --data text --resume --run b --steps 25
2> propane train: b/checkpoint.safetensors: 0 bytes are too few for a safetensors file, which begins with an 8-byte header length
= 1
$ copy c cp text c/checkpoint.safetensors; propane train --data text --resume --run c --steps 25
2~ propane train: c/checkpoint.safetensors: not a safetensors file: its header would have * bytes, but at most 104857600 are allowed
= 1
$ copy d cp done/model.safetensors d/checkpoint.safetensors; propane train --data text --resume --run d --steps 25
2> propane train: d/checkpoint.safetensors: its format is 'pt', not 'propane-checkpoint-1'; this is not a checkpoint of a training run
= 1
$ copy e rm e/config.json; propane train --data text --resume --run e --steps 25
2> propane train: cannot open e/config.json: No such file or directory
= 1
$ copy f rm f/tokenizer.propane.json; propane train --data text --resume --run f --steps 25
2> propane train: cannot open f/tokenizer.propane.json: No such file or directory
= 1
$ copy g sed -i.old 's/"step":"20"/"step":"2x"/' g/checkpoint.safetensors; propane train --data text --resume --run g --steps 25
2~ propane train: g/checkpoint.safetensors: its checksum is *: the file is damaged
= 1
$ copy h sed -i.old 's/"hidden_size": 16/"hidden_size": 32/;s/"head_dim": 8/"head_dim": 16/' h/config.json; propane train --data text --resume --run h --steps 25
2> propane train: h/checkpoint.safetensors holds a different model from the one to train; resume with the configuration of its run folder
= 1
# starting from a model
$ propane train --data text --init missing
2> propane train: cannot open missing: No such file or directory
= 1
$ propane train --data text --init text
2> propane train: text: not a model; give a folder with config.json and model.safetensors, a .safetensors or .gguf file, or a llama2.c checkpoint
= 1
$ propane train --data text --init done --vocab 270
2> propane train: --init uses the model's vocabulary, but --vocab would learn another; give only one of them
2> Try 'propane train --help'.
= 2
$ propane tokenize text --vocab 270 --out v.json > log; propane train --data text --init done --tokenizer v.json
2> propane train: done has a vocabulary of 16, but the tokenizer one of 270: they do not match
= 1
$ propane train --data text --init done --layers 2
2> propane train: --init sets the model's sizes; leave out --arch, --layers, --width, --hidden, --heads, --kv-heads and --tie
2> Try 'propane train --help'.
= 2
$ propane train --data text --init done --config done/config.json
2> propane train: --init includes the model's configuration; leave out --config
2> Try 'propane train --help'.
= 2
$ propane train --data text --init done --tokenizer done/tokenizer.propane.json --context 512
2> propane train: --context is 512, but the model's max_position_embeddings is 16
= 1
# a file-size limit and a full disk: an error, the old checkpoint, and no partial files
$ (ulimit -f 16; tiny --run limit > log)
2> propane train: cannot write limit/best.safetensors: File too large
= 1
$ ls limit
> config.json
> log.jsonl
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
> train.json
= 0
$ cp -r done keep; (ulimit -f 32; propane train --data text --resume --run keep --steps 30 > log); cmp done/checkpoint.safetensors keep/checkpoint.safetensors && cmp done/best.safetensors keep/best.safetensors && ls keep
> best.safetensors
> checkpoint.safetensors
> config.json
> log.jsonl
> model.safetensors
> report.html
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
> train.json
2> propane train: cannot write keep/best.safetensors: File too large
= 0
$ tiny --run limit > log; tail -1 log | cut -c1-16
> validation at st
= 0
# a diverging run ends with a message
$ tiny --run hot --precision fp16 --lr 100 --min-lr 100 --warmup 0 --steps 500 --json > log; grep -c '"loss":null' log; tail -1 log | cut -c1-17; ls hot
> 20
> {"event":"failed"
> config.json
> log.jsonl
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
> train.json
2~ propane train: the loss has been NaN or infinite since step [0-9]*: the training has diverged; start again with a smaller --lr or with --precision fp32
= 0
# a reader that disappears, a full disk: the run ends with a checkpoint
? /dev/full
$ tiny --run gone --steps 1000000 --json > /dev/full
2> propane train: stopped after step 1 of 1000000; continue with: propane train --resume gone
2> propane train: cannot write to standard output: No space left on device
= 1
? /dev/full
$ propane train --data text --resume --run gone --steps 5 --json | tail -1 | cut -c1-25
> {"event":"done","step":5,
= 0
$ tiny --run pipe --steps 1000000 --json | head -1 | cut -c1-16; ls pipe
> {"step":1,"loss"
> checkpoint.safetensors
> config.json
> log.jsonl
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
> train.json
2~ propane train: stopped after step * of 1000000; continue with: propane train --resume pipe
= 0
$ : > log; tiny --run int --steps 100000000 --json >> log & p=$!; until grep -q '"step":3,' log; do sleep 0.05; done; kill -INT $p; wait $p; echo $?; tail -1 log | cut -c1-18
> 130
> {"event":"stopped"
2~ propane train: stopped after step * of 100000000; continue with: propane train --resume int
= 0
# A run without a checkpoint cannot be resumed, however it is named. The error does not blame missing data.
$ mkdir begun; : > begun/.propane-run; propane train --resume begun; propane train begun --resume; propane train --resume no-such-run; propane train --resume --run begun
2> propane train: begun: there is no checkpoint to resume from; leave out --resume to start a new run
2> Try 'propane train --help'.
2> propane train: begun: there is no checkpoint to resume from; leave out --resume to start a new run
2> Try 'propane train --help'.
2> propane train: no-such-run: there is no checkpoint to resume from; leave out --resume to start a new run
2> Try 'propane train --help'.
2> propane train: begun: there is no checkpoint to resume from; leave out --resume to start a new run
2> Try 'propane train --help'.
= 2
