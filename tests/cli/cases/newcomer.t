# Incomplete folders, other formats and wrong files. For each, the error says what the file is and what to do.
! part:lm
@ awk 'BEGIN{for(i=0;i<900;i++) print "line", i*i%977, "of", i%7}' > text
@ propane train --data text --vocab 300 --layers 2 --width 32 --heads 4 --context 32 --batch 2 --steps 2 --eval-every 0 --run run > log; propane convert run good > log; rm good/tokenizer.propane.json
@ printf '#!/bin/sh\nd=$1; shift; rm -rf $d; cp -r good $d; (cd $d && "$@")\n' > ../bin/half; chmod +x ../bin/half
@ printf '#!/bin/sh\npropane generate $1 --prompt "line 1" --count 2 --temperature 0 > out && echo fine\n' > ../bin/try; chmod +x ../bin/try
$ try good; try good/model.safetensors; propane eval run --data text --tokenizer good --json > log && echo fine
> fine
> fine
> fine
= 0
# the tokenizer
@ printf 'aab ab\n' > short
$ half a rm tokenizer.json; try a
2> propane generate: a: there is no tokenizer next to the model; give one with --tokenizer
= 1
$ half b mv tokenizer.json tokenizer.model; try b
> fine
= 0
$ cp $REPO/fuzz/corpus/tokenizer/sentencepiece.model tokenizer.model; propane tokenize short --tokenizer tokenizer.model --print-ids lines; propane tokenize short --tokenizer $REPO/fuzz/corpus/tokenizer/tekken.json --print-ids lines
> 263 262 259 262
> 102 261 37 261
= 0
$ half b mv tokenizer.json merges.txt; propane train --init b --data text --run e
2> propane train: b: its tokenizer is vocab.json and merges.txt, which is not supported; write a tokenizer.json in Python: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)
= 1
$ printf '\n\016\n\005<unk>\025\000\000\000\000\030\002' > t.model; propane generate good --tokenizer t.model --prompt a 
2> propane generate: t.model: it ends after 1 pieces without specifying their model type; the file is truncated
= 1
# the weights
$ half c mv model.safetensors pytorch_model.bin; try c
2> propane generate: c: its weights are in pytorch_model.bin, a Python pickle, which is not supported; save them as safetensors in Python: AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(FOLDER)
= 1
$ half c mv model.safetensors model-00001-of-00002.safetensors; try c
2> propane generate: c: it contains model-00001-of-00002.safetensors, but not model.safetensors.index.json, which lists the contents of each file: download that file, too
= 1
$ half c mv model.safetensors weights.safetensors; try c; try c/weights.safetensors
> fine
2> propane generate: c: it contains no model.safetensors; give the file itself: c/weights.safetensors
= 0
$ half c rm model.safetensors; propane convert good c/m.gguf > log; try c; try c/m.gguf
> fine
2> propane generate: c: it contains no model.safetensors; give the file itself: c/m.gguf
= 0
$ half c rm config.json; try c; propane train --init c --data text --run e; propane show c
>~ c/model.safetensors: safetensors, 20 tensors, *
2> propane generate: c: it contains no config.json, which describes the model: download that file, too
2> propane train: c: it contains no config.json, which describes the model: download that file, too
2> propane show: c: it contains no config.json, which describes the model: download that file, too
= 1
$ mkdir -p hub/snapshots empty; cp -r good hub/snapshots/0abc; try hub; try hub/snapshots/0abc; try empty
> fine
2> propane generate: hub: it contains no model; give the folder hub/snapshots/0abc
2> propane generate: empty: it contains no model; a model folder has config.json, model.safetensors and tokenizer.json
= 1
# files with a wrong suffix
$ half d true; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n' > d/model.safetensors; try d
2~ propane generate: d/model.safetensors: not a safetensors file: * it is a Git LFS pointer, not the file itself: run 'git lfs pull' in its folder
= 1
$ printf '<!DOCTYPE html><html><title>404</title></html>' > d/model.safetensors; try d
2~ propane generate: d/model.safetensors: not a safetensors file: * it is a web page: was the download refused?
= 1
$ printf '<html>404</html>\n' > d/tokenizer.json; cp good/model.safetensors d; try d
2~ propane generate: d/tokenizer.json: *it is a web page: was the download refused?
= 1
$ printf 'PK\003\004.............................' > w.bin; try w.bin
2> propane generate: w.bin: not a model; give a folder with config.json and model.safetensors, a .safetensors or .gguf file, or a llama2.c checkpoint: it is a ZIP archive, perhaps a PyTorch pickle, which is not supported; save it as safetensors
= 1
$ half d true; sed 's/"llama"/"mamba"/' good/config.json > d/config.json; try d
2~ propane generate: d/config.json: model_type 'mamba' is not supported; the supported types are llama, qwen2, qwen3, gpt2*
= 1
# a tokenizer_config.json as transformers writes it, with "no limit" as a number of 31 digits
$ half f true; printf '{"model_max_length": 1000000000000000019884624838656, "bos_token": null}' > f/tokenizer_config.json; try f
> fine
= 0
# a model instead of a program, and a program instead of a model
@ propane convert good g.mlpackage > log; propane convert good g.gguf > log; : > empty.mil; cp -r g.mlpackage cut.mlpackage; for f in cut.mlpackage/Data/*/model.mlmodel; do : > $f; done; head -c 50000 g.gguf > cut.gguf; printf '{"a":' > cut.json
$ propane run g.gguf
2> propane run: g.gguf: neither MIL text nor a Core ML model; 'propane convert' turns a language model (GGUF, safetensors, llama2.c) into a .mlpackage or .mil
= 1
$ propane check g.gguf
2> propane check: g.gguf: it holds the weights of a language model; check the programs that 'propane convert g.gguf NAME.mlpackage' or 'propane plan g.gguf --write DIR' makes from it
= 1
$ propane generate g.mlpackage --prompt a
2> propane generate: g.mlpackage: it is a Core ML model, not the folder of a language model: 'propane run' runs it, and 'propane train g.mlpackage' trains its weights
= 1
$ for f in good good/model.safetensors g.gguf; do propane estimate $f > e.$$; head -1 e.$$ | cut -d, -f1-4; done
> M4, estimated: plan six, weights inputs, batch 1 x 32
> M4, estimated: plan six, weights inputs, batch 1 x 32
> M4, estimated: plan six, weights inputs, batch 1 x 32
= 0
$ propane estimate empty.mil; propane run cut.mlpackage; propane show cut.json; propane generate cut.gguf --prompt a
2> propane estimate: empty.mil: the file is empty
2> propane run: cut.mlpackage/Data/com.apple.CoreML/model.mlmodel: the file is empty
2> propane show: cut.json: line 1, column 5: not valid JSON: unexpected token near end of file
2~ propane generate: cut.gguf: tensor *: * bytes at offset * of the data, which has *; the file is truncated or damaged
= 1
# more rows in the embedding than ids: padded to a round number, as in Qwen's models
$ sed 's/"vocab_size": 300/"vocab_size": 320/' good/config.json > padded.json; propane train --config padded.json --tokenizer good/tokenizer.json --data text --context 32 --batch 2 --steps 3 --eval-every 3 --eval-batches 1 --run padded > log; try padded; propane eval padded --data text --json > log && for s in 1 2 3 4 5; do propane generate padded --prompt line --count 25 --temperature 50 --seed $s; done > out && propane convert padded p.gguf > log && try p.gguf
> fine
> fine
= 0
$ sed 's/"vocab_size": 300/"vocab_size": 290/' good/config.json > few.json; propane train --config few.json --tokenizer good/tokenizer.json --data text --run e
2> propane train: few.json has a vocabulary of 290, but the tokenizer one of 300: they do not match; if tokens were added, make room for them in Python: model.resize_token_embeddings
= 1
$ sed 's/"vocab_size": 300/"vocab_size": 3000/' good/config.json > many.json; propane train --config many.json --tokenizer good/tokenizer.json --data text --run e
2> propane train: many.json has a vocabulary of 3000, but the tokenizer one of 300: they do not match
= 1
# data
@ printf '#!/bin/sh\nf=$1; shift; propane train --init good --data $f --context 32 --batch 1 --held-out 0 --steps 1 --eval-every 0 --run t$$ "$@" > out && head -1 out\n' > ../bin/learn; chmod +x ../bin/learn
$ printf '\357\273\277{"prompt":"line","completion":" 1"}\r\n\r\n{"prompt":"line","completion":" 2"}\r\n' > bom.jsonl; learn bom.jsonl
>~ bom.jsonl: 2 examples, *
= 0
$ printf '{"prompt":"li\377ne","completion":" 1"}\n' > broken.jsonl; learn broken.jsonl
2~ propane train: broken.jsonl:1: column 13: unable to decode byte 0xff*
= 1
$ printf '\377\376{\000"\000' > wide.jsonl; learn wide.jsonl
2> propane train: wide.jsonl:1: not JSON: it is UTF-16: save it as UTF-8
= 1
$ printf '[{"prompt":"a","completion":"b"}]' > list.jsonl; learn list.jsonl
2> propane train: list.jsonl:1: the line is not a JSON object; give one object per line, without []
= 1
$ printf '{"prompt":"a","completion":"b"}' > one.json; learn one.json
2> propane train: one.json: instruction data must be in a .jsonl file, one JSON object per line; to train on the JSON itself as text, rename the file to .txt
= 1
$ printf '{"question":"a","answer":"b"}\n' > keys.jsonl; learn keys.jsonl
2> propane train: keys.jsonl:1: it has neither "messages" nor "prompt" and "completion" nor "text" (nor "conversations", nor "instruction" and "output"), but "question", "answer"; rename its keys
= 1
$ printf 'PAR1...............' > table.parquet; learn table.parquet
2> propane train: table.parquet: not a text: it is a Parquet table; convert it to JSON lines in Python: Dataset.from_parquet(FILE).to_json(FILE)
= 1
$ printf '{"prompt":"lin","completion":"e"}\n' > joined.jsonl; learn joined.jsonl
2> propane train: joined.jsonl:1: it has nothing to train on: it is a single token with nothing before it
= 1
# a small --lr alone: the final rate is a tenth of it
$ printf '{"prompt":"line","completion":" 1"}\n' > one.jsonl; learn one.jsonl --lr 1e-5 --steps 3 --warmup 0 > log; grep -o 'lr [^ ]*' out
> lr 1e-05
> lr 3.25e-06
= 0
$ awk 'BEGIN{s="line"; for(i=0;i<8;i++) s = s " " s; printf "{\"prompt\":\"line\",\"completion\":\"%s\"}\n{\"prompt\":\"%s\",\"completion\":\" 1\"}\n", s, s}' > long.jsonl; learn long.jsonl > log; grep longer out
> 2 examples are longer than a window, truncated; 1 example is skipped, with no answer left
= 0
