# Sources of training data: several files, folders, patterns, foreign keys, tables; a validation file; models by hub names.
! part:lm
@ awk 'BEGIN{for(i=0;i<900;i++) print "line", i*i%97, "of", i%7}' > a.txt; tr 17 71 < a.txt > b.txt; mkdir -p dir/below; cp a.txt dir/x.md; cp b.txt dir/below/y.txt; printf 'a\0b' > dir/image; printf 'hidden' > dir/.hidden; head -60 a.txt > v.txt; cat a.txt b.txt > ab.txt
@ printf 'propane train --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 4 --eval-batches 2 --json --run "$@" > $1.log 2> $1.err; code=$?; cat $1.err >&2; grep -o "\\"event\\":\\"done.*val_nats[^,]*" $1.log | sed "s/.seconds.:[^,]*,//"; exit $code\n' > ../bin/learn; chmod +x ../bin/learn
# two files are joined into one text; a folder with both, or a pattern, gives the same
$ learn one --data ab.txt > one.out; learn two --data a.txt --data b.txt | cmp one.out - && learn pattern --data '[ab].txt' | cmp one.out - && cmp one/model.safetensors two/model.safetensors && cmp one/model.safetensors pattern/model.safetensors; cat b.txt a.txt > ba.txt; learn ba --data ba.txt > ba.out; learn folder --data dir | cmp ba.out -
= 0
$ propane train --data dir --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 1 --eval-every 0 --run told | head -3
>~ 2 files
>~ skipped 1 file in folders that are neither text nor tokens
>~ dir: * tokens, bytes vocabulary of 256
= 0
$ learn n --data 'q*.txt'
2> propane train: q*.txt: no file matches
= 1
$ mkdir none; learn n --data none
2> propane train: none: it contains no text
= 1
$ learn n --data a.txt --data missing.txt
2> propane train: cannot open missing.txt: No such file or directory
= 1
# token files are joined, too
@ propane tokenize a.txt --kind bytes --out v.json --tokens a.tok > log; propane tokenize b.txt --kind bytes --out w.json --tokens b.tok > log; printf 'propane train --tokenizer v.json --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 4 --eval-batches 2 --json --run "$@" | grep -o "\\"event\\":\\"done.*val_nats[^,]*" | sed "s/.seconds.:[^,]*,//"\n' > ../bin/ids; chmod +x ../bin/ids
$ ids tok --data a.tok --data b.tok | cmp one.out -
= 0
# validation data: its loss equals that of eval, and nothing is held out of the text
$ learn val --data a.txt --val-data v.txt > log; grep -c . log; propane train --data a.txt --val-data v.txt --held-out 0.2
> 1
2> propane train: --val-data and --held-out both set the validation data; give only one
2> Try 'propane train --help'.
= 2
$ learn all --data a.txt --held-out 0 --eval-every 0 > log; cmp val/model.safetensors all/model.safetensors
= 0
# A folder that names its parts: the names decide what is trained on and validated with; a test part is never used. mlx-lm's names,
# Hugging Face's shards and folders, texts and token files of others.
@ examples() { for i in $(seq $1 $2); do echo "{\"prompt\":\"of $i\",\"completion\":\"line $((i * 7 % 10))\"}"; done; }; examples 1 20 > tr.jsonl; examples 21 26 > va.jsonl; for i in 1 2 3 4; do echo '{"prompt":"secret","completion":"never"}'; done > te.jsonl
@ mkdir -p mlx hub/data tree/train/deep tree/validation tree/test; cp tr.jsonl mlx/train.jsonl; cp va.jsonl mlx/valid.jsonl; cp te.jsonl mlx/test.jsonl; echo notes > mlx/notes.txt; echo '# set' > mlx/README.md; echo '# card' > hub/README.md
@ head -10 tr.jsonl > hub/data/train-00000-of-00002.jsonl; tail -n +11 tr.jsonl > hub/data/train-00001-of-00002.jsonl; cp va.jsonl hub/data/validation-00000-of-00001.jsonl; cp te.jsonl hub/data/test-00000-of-00001.jsonl; cp tr.jsonl tree/train/deep/a.jsonl; cp va.jsonl tree/validation/b.jsonl; cp te.jsonl tree/test/c.jsonl
@ printf 'propane train one --chat plain --context 16 --batch 2 --steps 4 --eval-batches 2 --run "$@" > $1.out && grep -E "^[a-z]+: .* for training|^skipped|^[0-9]* files|validation" $1.out | grep -v "^20"\n' > ../bin/parts; chmod +x ../bin/parts
$ parts by-hand --data tr.jsonl --val-data va.jsonl > hand; cut -d: -f1 hand; parts by-mlx --data mlx | head -3; for p in mlx hub tree; do parts p-$p --data $p > $p.said; grep validation p-$p.out | tail -1 | cmp - hand > $p.cmp; cmp p-$p/model.safetensors by-hand/model.safetensors; done
> 2 files
> validation at step 4
> 2 files
> mlx: train.jsonl for training, valid.jsonl for validation; not read: test.jsonl
> skipped 2 files in folders that are of other kinds
= 0
$ head -2 hub.said tree.said | grep for
> hub: data/train-00000-of-00002.jsonl and data/train-00001-of-00002.jsonl for training, data/validation-00000-of-00001.jsonl for validation; not read: data/test-00000-of-00001.jsonl
> tree: train/deep/a.jsonl for training, validation/b.jsonl for validation; not read: test/c.jsonl
= 0
# without a validation part, some of the training part is held out; --val-data names another; --held-out is a contradiction
@ mkdir notest; cp tr.jsonl notest/train.jsonl; cp te.jsonl notest/eval.jsonl
$ parts p-n --data notest | head -1; parts p-o --data tr.jsonl > log; cmp p-n/model.safetensors p-o/model.safetensors; parts p-v --data mlx --val-data va.jsonl | sed -n 1,2p
> notest: train.jsonl for training; not read: eval.jsonl
> 2 files
> mlx: train.jsonl for training; not read: test.jsonl and valid.jsonl
= 0
$ propane train one --chat plain --data mlx --held-out 0.2 --run n
2> propane train: mlx: train.jsonl for training, valid.jsonl for validation; not read: test.jsonl: this is the validation data; leave out --held-out
= 1
$ mkdir only; cp te.jsonl only/test.jsonl; cp va.jsonl only/val.jsonl; propane train one --chat plain --data only --run n
2> propane train: only: val.jsonl for validation; not read: test.jsonl; there is no file for training: name the file itself
= 1
# texts and token files; a source tree that contains a test.c is one text
@ mkdir wiki ids code code/train code/test; cp a.txt wiki/wiki.train.tokens; cp v.txt wiki/wiki.valid.tokens; cp b.txt wiki/wiki.test.tokens; cp a.tok ids/corpus_train.bin; cp b.tok ids/corpus_val.bin; for f in train.c test.c train/a.c test/b.c; do cp a.txt code/$f; done; cp b.txt code/the-test-of-time.txt
$ for d in wiki code; do learn t-$d --data $d > log; grep -c '' log; done; learn t-a --data a.txt --val-data v.txt > log; cmp t-a/model.safetensors t-wiki/model.safetensors; propane train --data code --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 1 --eval-every 0 --run t-told | head -1; ids t-ids --data ids > log; ids t-by --data a.tok --val-data b.tok > log2; cmp log log2
> 1
> 1
> 5 files
= 0
$ propane tokenize wiki --kind bytes --out w.json --tokens w.tok > log; cmp w.tok a.tok
2> propane: wiki: wiki.train.tokens for training; not read: wiki.test.tokens and wiki.valid.tokens
= 0
# kinds cannot be mixed
@ for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "{\"prompt\":\"of $i\",\"completion\":\"line\"}"; done > p.jsonl
$ propane train one --data p.jsonl --data a.txt --run n
2> propane train: p.jsonl and a.txt are of different kinds (text, token file, instruction data); give only one kind
= 1
# ShareGPT's and Alpaca's keys become messages; a .json file is an array; a table has columns
@ printf '{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}\n{"messages":[{"role":"user","content":"add\\n1 2"},{"role":"assistant","content":"3"}]}\n{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"r"},{"role":"user","content":"add"},{"role":"assistant","content":"3"}]}\n' > m.jsonl
@ printf '{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}],"system":"s"}\n{"instruction":"add","input":"1 2","output":"3"}\n{"instruction":"add","input":"","output":"3","history":[["q","r"]]}\n' > k.jsonl; { printf '['; sed '$!s/$/,/' k.jsonl; printf ']'; } > k.json
$ propane show m.jsonl --model one --json > want; propane show k.jsonl --model one --json | cmp want - && propane show k.json --model one --json | cmp want -
= 0
@ printf 'prompt,completion,note\r\n"a ""b"", c","d\ne",x\r\nf,g,\r\n' > t.csv; printf '{"prompt":"a \\"b\\", c","completion":"d\\ne"}\n{"prompt":"f","completion":"g"}\n' > t.jsonl; printf 'completion\tprompt\ng\tf\n' > t.tsv
$ propane show t.jsonl --model one --json > want; propane show t.csv --model one --json | cmp want - && propane show t.tsv --model one --json > got; tail -1 want | cmp - got
= 0
$ propane eval one --data t.csv > e; propane eval one --data t.jsonl | cmp e -
= 0
$ printf 'x,y\n1,2\n' > n.csv; propane train one --data n.csv --run n
2> propane train: n.csv: line 2: it has neither "messages" nor "prompt" and "completion" nor "text" (nor "conversations", nor "instruction" and "output"), but "x", "y"; rename its keys
= 1
$ printf 'prompt,completion\na,b,c\n' > n.csv; propane train one --data n.csv --run n
2> propane train: n.csv: line 2: 3 columns, but the first line names 2
= 1
$ printf 'prompt,completion\na,"b\n' > n.csv; propane train one --data n.csv --run n
2> propane train: n.csv: line 2: a quote is not closed
= 1
$ echo '{"conversations":[{"from":"tool","value":"a"}]}' > n.jsonl; propane train one --data n.jsonl --run n
2> propane train: n.jsonl:1: turn 1 of "conversations" is from 'tool', not from human, user, gpt, assistant or system; remove such examples
= 1
# models by their hub names, from this machine's cache; the adapter records the name
@ H=hub/models--own--tiny; mkdir -p $H/refs $H/snapshots; printf 0abc > $H/refs/main; propane convert one $H/snapshots/0abc > log
$ HF_HUB_CACHE=hub propane train own/tiny --data p.jsonl --context 16 --batch 2 --steps 2 --lora-rank 2 --eval-every 0 --run lora > log; grep -o '"base_model_name_or_path": *"[^"]*"' lora/adapter_config.json | tr -d ' '; HF_HOME=. HF_HUB_CACHE=$PWD/hub propane generate own/tiny --adapter lora --prompt a --count 2 --temperature 0 > g; propane generate one --adapter lora --prompt a --count 2 --temperature 0 | cmp g -
> "base_model_name_or_path":"own/tiny"
= 0
$ mkdir -p home/hub; HF_HUB_CACHE= HF_HOME=home propane train --init own/other --data a.txt
2> propane train: own/other: no such file or folder, and no model with this name in the Hugging Face cache (home/hub); to download it: hf download own/other
= 1
$ rm $H hub/models--own--tiny/snapshots/0abc/model.safetensors 2> /dev/null; HF_HUB_CACHE=hub propane generate own/tiny --prompt a
2~ propane generate: *; to download it: hf download own/tiny
= 1
