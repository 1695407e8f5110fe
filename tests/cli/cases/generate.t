# Generation: the end of a text, the output formats, several prompts.
! part:lm
@ awk 'BEGIN{for(i=0;i<3000;i++) print "line", i*i%977, "of", i%7}' > text
@ propane tokenize text --vocab 300 --out v.json --tokens ids > log
@ propane train --data ids --tokenizer v.json --layers 1 --width 32 --heads 2 --kv-heads 1 --context 64 --batch 4 --steps 150 --warmup 5 --lr 1e-2 --eval-batches 2 --run m > log; sed 's/"max_position_embeddings": *64/"max_position_embeddings":256/' m/config.json > m/config.json.new && mv m/config.json.new m/config.json
@ printf 'line 1\n\nline 22 of\r\nof' > prompts
$ propane generate m --prompt 'line 1' --count 30 --temperature 0 > a; propane generate m --prompt 'line 1' --count 30 --temperature 0 --stop zzz > b; cmp a b
= 0
# without a prompt, and without a start id: generation begins after a newline, which is not printed
$ propane generate m --count 9 --temperature 0 2> log > a; head -c 1 a | tr '\n' '-'; propane generate m --count 9 --temperature 0 --json | grep -c '"prompt":"","text":"[^"]*","finish":"length","prompt_tokens":1,'
> l1
= 0
# the text ends before the stop string
$ propane generate m --prompt 'line 1' --count 60 --temperature 0 > a; propane generate m --prompt 'line 1' --count 60 --temperature 0 --stop 'never' --stop ' of ' > b; printf '%s of ' "$(cat b)" > c; head -c $(wc -c < c) a | cmp - c; grep -c ' of ' b
> 0
= 1
# one object for each prompt, with consistent numbers
$ propane generate m --prompts prompts --count 5 --temperature 0 --json --logprobs 2 > j; grep -c '' j; grep -c '"finish":"length","prompt_tokens":[0-9]*,"completion_tokens":5,"tokens":\[{"id":' j
> 3
> 3
= 0
$ grep -o '"prompt":"[^"]*"' j
> "prompt":"line 1"
> "prompt":"line 22 of"
> "prompt":"of"
= 0
$ grep -o '"top":' j | grep -c ''; grep -o '"logprob":-[0-9.]*' j | grep -c ''
> 15
> 45
= 0
$ propane generate m --prompt 'line 22 of' --count 5 --temperature 0 --json | grep -o '"text":"[^"]*","finish' > one; sed -n 2p j | grep -o '"text":"[^"]*","finish' | cmp - one
= 0
$ propane generate m --prompts prompts --count 5 --temperature 0 > p; propane generate m --prompt 'line 1' --count 5 --temperature 0 > q; head -c $(wc -c < q) p | cmp - q
= 0
# the number of texts generated at once changes nothing, not even the order
$ awk 'BEGIN { for (i = 0; i < 23; i++) printf "line %d%s\n", i * 37, substr(" of 5 and so on and on", 1, i) }' > many; propane generate m --prompts many --count 20 --seed 3 --parallel 1 > p1; propane generate m --prompts many --count 20 --seed 3 --parallel 5 > p5; propane generate m --prompts many --count 20 --seed 3 > p8; cmp p1 p5; cmp p1 p8; propane generate m --prompts many --count 20 --temperature 0 --json > j1; propane generate m --prompts many --count 20 --temperature 0 --json --parallel 1 | cmp - j1; grep -c '' j1
> 23
= 0
# JSON lines
$ printf '{"prompt": "line 1", "more": 1}\n"of"\n' > p.jsonl; printf 'line 1\nof\n' > p.txt; propane generate m --prompts p.jsonl --count 5 --temperature 0 --json > a; propane generate m --prompts p.txt --count 5 --temperature 0 --json | cmp - a
= 0
$ printf '"of"\n{"text": "line 1"}\n' > q.jsonl; propane generate m --prompts q.jsonl --count 2 --temperature 0 --print-ids | grep -c ''
2> propane generate: q.jsonl:2: neither an object with a "prompt" nor a string
> 1
= 0
$ propane generate m --prompt 'line 1' --count 3 --temperature 0 --logprobs 1
>~ * -*.*  '*'   of '*' -*
= 0
# penalties change the text, which is sampled the same way each time
$ propane generate m --prompt line --count 40 --temperature 0 > g; propane generate m --prompt line --count 40 --temperature 0 --repetition-penalty 1.8 > h; propane generate m --prompt line --count 40 --temperature 0 --repetition-penalty 1.8 | cmp - h && cmp -s g h
= 1
$ propane generate m --prompt line --count 20 --min-p 1 --temperature 2 --seed 1 > g; propane generate m --prompt line --count 20 --temperature 0 | cmp - g
= 0
# invalid use
$ propane generate m --prompt a --prompts prompts
2> propane generate: give --prompts or --prompt, not both
2> Try 'propane generate --help'.
= 2
$ propane generate m --prompts missing
2> propane generate: cannot open missing: No such file or directory
= 1
$ : > none; propane generate m --prompts none
2> propane generate: none: it contains no prompts
= 1
$ propane generate m --prompt line --json --print-ids
2> propane generate: --print-ids is for plain output; --json and --logprobs print the ids in any case
2> Try 'propane generate --help'.
= 2
$ propane generate m --prompt line --stop ''
2> propane generate: --stop: the value is empty
2> Try 'propane generate --help'.
= 2
$ propane generate m --prompt line --logprobs 21
2> propane generate: --logprobs: '21' is not an integer from -1 to 20
2> Try 'propane generate --help'.
= 2
$ awk 'BEGIN { for (i = 0; i < 40; i++) printf "line %d of ", i * 7919; print "" }' > long; propane generate m --prompts long
2~ propane generate: long:1: the prompt has * tokens, but the context has room for 256; shorten it
= 1
# weights in fewer bits: nearly the same loss, with its perplexity
$ propane eval m --data ids --json | sed -n 's/.*"loss":\([0-9.]*\),"perplexity":\([0-9.]*\).*/\1 \2/p' | awk '{ d = exp($1) - $2; print (d < 1e-3 && d > -1e-3) ? "good" : "bad" }'
> good
= 0
$ full=$(propane eval m --data ids --json | sed 's/.*"loss":\([0-9.]*\).*/\1/'); for w in fp16 bf16 int8 int4; do propane eval m --data ids --json --weights $w | sed 's/.*"loss":\([0-9.]*\).*/\1/' | awk -v w=$w -v a=$full '{ d = $1 - a; t = w == "fp16" ? 1e-3 : w == "int8" || w == "bf16" ? 1e-2 : 2e-1; print w, (d < t && d > -t) ? "close" : d }'; done
> fp16 close
> bf16 close
> int8 close
> int4 close
= 0
$ propane generate m --prompt 'line 1' --count 5 --weights int2
2> propane generate: --weights: 'int2' is not one of auto|fp32|bf16|fp16|int8|int4
2> Try 'propane generate --help'.
= 2
# a prompt after the model, or from standard input, without the newline at its end
$ propane generate m --prompt 'line 22 of' -n 9 --temperature 0 > a; propane generate m 'line 22 of' -n 9 --temperature 0 | cmp - a; echo 'line 22 of' | propane generate m -n 9 --temperature 0 | cmp - a; echo 'line 22 of' | propane generate m - -n 9 --temperature 0 | cmp - a; printf 'line 22 of' | propane generate m -p - -n 9 --temperature 0 | cmp - a
= 0
$ propane generate m 'line 22 of' --prompt x
2> propane generate: one prompt too many: 'line 22 of'
2> Try 'propane generate --help'.
= 2
$ printf 'a\0b' | propane generate m
2> propane generate: the prompt from standard input contains NUL bytes; give plain text
= 1
# a new seed each time; it is printed and repeats the text
$ propane generate m line -n 40 --temperature 2 > a 2> said; propane generate m line -n 40 --temperature 2 > b 2> other; cmp -s said other || echo differ; propane generate m line -n 40 --temperature 2 --seed "$(sed -n 's/^seed //p' said)" > c; cmp a c; propane generate m line -n 4 --json | grep -c '"seed":[0-9]*}$'
> differ
> 1
= 0
# the progress of an evaluation
$ propane eval m --data text --progress bar 2>&1 > a | tr '\r' '\n' | grep -c ' %  loss [0-9.]*  [0-9]*m[0-9]*s left'; propane eval m --data text --progress none > b; cmp a b
>~ [1-9]*
= 0
