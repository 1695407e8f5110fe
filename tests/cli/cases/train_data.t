# What a run learns from: several files, folders, patterns, other people's keys, tables; a validation file; models by hub names.
@ awk 'BEGIN{for(i=0;i<900;i++) print "line", i*i%97, "of", i%7}' > a.txt; tr 17 71 < a.txt > b.txt; mkdir -p dir/below; cp a.txt dir/x.md; cp b.txt dir/below/y.txt; printf 'a\0b' > dir/image; printf 'hidden' > dir/.hidden; head -60 a.txt > v.txt; cat a.txt b.txt > ab.txt
@ printf 'propane train --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 4 --eval-batches 2 --json --run "$@" > $1.log 2> $1.err; code=$?; cat $1.err >&2; grep -o "\\"event\\":\\"done.*val_nats[^,]*" $1.log | sed "s/.seconds.:[^,]*,//"; exit $code\n' > ../bin/learn; chmod +x ../bin/learn
# two files are their text one after the other; so is the folder with both; a pattern
$ learn one --data ab.txt > one.out; learn two --data a.txt --data b.txt | cmp one.out - && learn pattern --data '[ab].txt' | cmp one.out - && cmp one/model.safetensors two/model.safetensors && cmp one/model.safetensors pattern/model.safetensors; cat b.txt a.txt > ba.txt; learn ba --data ba.txt > ba.out; learn folder --data dir | cmp ba.out -
= 0
$ propane train --data dir --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 1 --eval-every 0 --run told | head -3
>~ 2 files
>~ 1 files in folders are neither text nor tokens and are left out
>~ dir: * tokens, bytes vocabulary of 256
= 0
$ learn n --data 'q*.txt'
2> propane train: q*.txt: no file is called like that
= 1
$ mkdir none; learn n --data none
2> propane train: none: there is no text in it
= 1
$ learn n --data a.txt --data missing.txt
2> propane train: cannot open missing.txt: No such file or directory
= 1
# token files are joined, too
@ propane tokenize a.txt --kind bytes --out v.json --tokens a.tok > log; propane tokenize b.txt --kind bytes --out w.json --tokens b.tok > log; printf 'propane train --tokenizer v.json --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 4 --eval-batches 2 --json --run "$@" | grep -o "\\"event\\":\\"done.*val_nats[^,]*" | sed "s/.seconds.:[^,]*,//"\n' > ../bin/ids; chmod +x ../bin/ids
$ ids tok --data a.tok --data b.tok | cmp one.out -
= 0
# what is validated with: its loss is that of eval; nothing is held out of the text
$ learn val --data a.txt --val-data v.txt > log; grep -c . log; propane train --data a.txt --val-data v.txt --held-out 0.2
> 1
2> propane train: --val-data and --held-out say the same; give one
2> Try 'propane train --help'.
= 2
$ learn all --data a.txt --held-out 0 --eval-every 0 > log; cmp val/model.safetensors all/model.safetensors
= 0
# kinds are not mixed
@ for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "{\"prompt\":\"of $i\",\"completion\":\"line\"}"; done > p.jsonl
$ propane train one --data p.jsonl --data a.txt --run n
2> propane train: p.jsonl and a.txt are of two kinds (text, token file, instruction data); give one kind
= 1
# ShareGPT's and Alpaca's keys are messages; a .json file is an array; a table has columns
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
2> propane train: n.csv: line 2: it has neither "messages" nor "prompt" and "completion" nor "text" (nor "conversations", nor "instruction" and "output"), but "x", "y": give them those names
= 1
$ printf 'prompt,completion\na,b,c\n' > n.csv; propane train one --data n.csv --run n
2> propane train: n.csv: line 2: 3 columns, but the first line names 2
= 1
$ printf 'prompt,completion\na,"b\n' > n.csv; propane train one --data n.csv --run n
2> propane train: n.csv: line 2: a quote has no end
= 1
$ echo '{"conversations":[{"from":"tool","value":"a"}]}' > n.jsonl; propane train one --data n.jsonl --run n
2> propane train: n.jsonl:1: turn 1 of "conversations" is from 'tool'; known are human, user, gpt, assistant, system: leave such examples out
= 1
# models by their names on the hub, from this machine's cache; the adapter tells the name
@ H=hub/models--own--tiny; mkdir -p $H/refs $H/snapshots; printf 0abc > $H/refs/main; propane convert one $H/snapshots/0abc > log
$ HF_HUB_CACHE=hub propane train own/tiny --data p.jsonl --context 16 --batch 2 --steps 2 --lora-rank 2 --eval-every 0 --run lora > log; grep -o '"base_model_name_or_path": *"[^"]*"' lora/adapter_config.json | tr -d ' '; HF_HOME=. HF_HUB_CACHE=$PWD/hub propane generate own/tiny --adapter lora --prompt a --count 2 --temperature 0 > g; propane generate one --adapter lora --prompt a --count 2 --temperature 0 | cmp g -
> "base_model_name_or_path":"own/tiny"
= 0
$ mkdir -p home/hub; HF_HUB_CACHE= HF_HOME=home propane train --init own/other --data a.txt
2> propane train: own/other: there is no such file or folder, nor a model of that name in Hugging Face's cache (home/hub); this fetches it: hf download own/other
= 1
$ rm $H hub/models--own--tiny/snapshots/0abc/model.safetensors 2> /dev/null; HF_HUB_CACHE=hub propane generate own/tiny --prompt a
2~ propane generate: *; this fetches it: hf download own/tiny
= 1
