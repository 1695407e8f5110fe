# Damage and non-finite numbers are reported, wherever they come from.
! python3 part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; echo 1 2 3 > ids.txt
@ t="--data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0"; echo "propane train $t --threads 1 \"\$@\"" > train.sh
@ sh train.sh --run r --steps 2 > /dev/null
@ printf 'import sys\nb=bytearray(open(sys.argv[1],"rb").read())\nn=8+int.from_bytes(b[:8],"little")\nfor a in sys.argv[3:]:\n    i=n+int(a)\n    b[i%%len(b)]^=16\nopen(sys.argv[2],"wb").write(b)\n' > flip.py
# One bit of a checkpoint's data.
$ for at in 0 4001 17003 ; do cp -r r d$at; python3 flip.py r/checkpoint.safetensors d$at/checkpoint.safetensors $at; sh train.sh --run d$at --resume --steps 3; done
2~ propane train: d0/checkpoint.safetensors: tensor 'model.embed_tokens.weight': its checksum is *: the file is damaged
2~ propane train: d4001/checkpoint.safetensors: tensor 'model.embed_tokens.weight': its checksum is *: the file is damaged
2~ propane train: d17003/checkpoint.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight': its checksum is *: the file is damaged
= 1
# Its metadata: the step.
$ cp -r r m; sed 's/"step":"2"/"step":"1"/' r/checkpoint.safetensors > m/checkpoint.safetensors; sh train.sh --run m --resume --steps 3
2~ propane train: m/checkpoint.safetensors: its checksum is *: the file is damaged
= 1
# One bit of a model's own weights, an adapter's, or a checksum: each command that reads them names the file and the tensor.
@ cp -r r rot; python3 flip.py r/model.safetensors rot/model.safetensors 17003; propane convert rot --no-verify rot.gguf > log; sh train.sh --init r --run tuned --steps 2 --lora-rank 2 --layers 1 > /dev/null 2> /dev/null || propane train --data text --init r --run tuned --steps 2 --lora-rank 2 --batch 2 --eval-every 0 > /dev/null; sed 's/"checksums":"[0-9a-f]\{16\}/"checksums":"0000000000000000/' r/model.safetensors > sums.safetensors; cp -r tuned rotten; python3 flip.py tuned/adapter_model.safetensors rotten/adapter_model.safetensors 1
$ propane generate rot --prompt ab --count 4; propane eval rot --ids ids.txt; propane convert rot out.gguf; ls out.gguf 2>/dev/null; propane convert rot out.safetensors; propane chat rot < /dev/null; propane serve rot; propane train --data text --init rot --run y --steps 1; propane eval sums.safetensors --ids ids.txt; propane generate r --adapter rotten --prompt ab --count 4
2~ propane generate: rot/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight': its checksum is *: the file is damaged
2~ propane eval: rot/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight': its checksum is *: the file is damaged
2~ propane convert: rot/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight': its checksum is *: the file is damaged
2~ propane convert: rot/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight': its checksum is *: the file is damaged
2~ propane chat: rot/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight': its checksum is *: the file is damaged
2~ propane serve: rot/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight': its checksum is *: the file is damaged
2~ propane train: rot/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight': its checksum is *: the file is damaged
2~ propane eval: sums.safetensors: its checksum is * instead of the stored 0000000000000000: the file is damaged
2~ propane generate: rotten/adapter_model.safetensors: tensor '*': its checksum is *: the file is damaged
= 1
# Read anyway where an option requests it.
$ propane generate rot --prompt ab --count 4 --seed 1 --no-verify > out; propane generate r --adapter rotten --prompt ab --count 4 --seed 1 --no-verify > out; propane eval sums.safetensors --ids ids.txt --no-verify > out; ls rot.gguf
> rot.gguf
= 0
# A weight that is NaN: found in evaluation, in conversion and in continued training.
@ printf 'import sys,json\nb=bytearray(open(sys.argv[1],"rb").read())\nn=int.from_bytes(b[:8],"little")\nh=json.loads(b[8:8+n])\no=h["model.layers.0.mlp.up_proj.weight"]["data_offsets"][0]\nb[8+n+o:12+n+o]=bytes([0,0,192,127])\nopen(sys.argv[1],"wb").write(b)\n' > nan.py
$ cp -r r w; python3 nan.py w/model.safetensors; propane eval w --no-verify --ids ids.txt; propane generate w --no-verify --prompt ab --count 4 > out
2> propane eval: w: the loss is NaN or infinite: the weights 'model.layers.0.mlp.up_proj.weight' contain NaN or infinity
2> propane generate: after 0 tokens the model's logits are NaN or infinite: the weights 'model.layers.0.mlp.up_proj.weight' contain NaN or infinity
= 1
$ propane train --data text --init w --no-verify --run x --batch 2 --eval-every 0 --steps 3 > log; ls x
> config.json
> log.jsonl
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
> train.json
2~ propane train: the loss has been NaN or infinite since step 1: the weights 'model.layers.0.mlp.up_proj.weight' contain NaN or infinity; no model was written, the last checkpoint was kept
= 0
# A file that is truncated while it is read.
$ propane tokenize text --kind bytes --out tk.json --tokens tk.bin > log; (sleep 0.7; : > tk.bin) & propane train --data tk.bin --tokenizer tk.json --layers 1 --width 32 --heads 2 --context 64 --batch 4 --steps 100000 --eval-every 0 --run s > log
2> propane train: tk.bin was truncated while it was being read
= 1
# A program that needs more memory than any machine has.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1]> x) {\n        tensor<int32, [2]> s = const()[name = string("s"), val = tensor<int32, [2]>([1000, 1000000000])];\n        tensor<fp32, [1000, 1000000000]> f = fill(shape = s, value = fp32(1))[name = string("f")];\n        tensor<fp32, [1000, 1000000000]> y = add(x = f, y = x)[name = string("y")];\n        tensor<fp32, [1000, 1000000000]> z = mul(x = f, y = y)[name = string("z")];\n        tensor<fp32, [1000, 1000000000]> q = add(x = z, y = f)[name = string("q")];\n    } -> (y, z, q);\n}\n' > big.mil
$ propane run big.mil; propane diff big.mil big.mil
2~ propane run: *function 'main': its inputs and outputs alone need 12 TB of memory, but this machine has only * available
2~ propane diff: *function 'main': its inputs and outputs alone need 12 TB of memory, but this machine has only * available
= 1
# A list that grows without end: refused at 128 MB, also where the next doubling would exceed that.
@ printf 'program(1.3)\n{\n func main<ios18>(tensor<fp32, [100000]> x) {\n  list<tensor<fp32, [100000]>, ?> e = make_list(init_length = int32(1), dynamic_length = bool(true), elem_shape = (int32(100000)), dtype = string("fp32"));\n  int32 i = const()[val = int32(0)];\n  int32 n, list<tensor<fp32, [100000]>, ?> l = while_loop(loop_vars = (i, e)) (int32 a, list<tensor<fp32, [100000]>, ?> q) {\n   bool m = less(x = a, y = int32(1100));\n  } -> (m), (int32 a, list<tensor<fp32, [100000]>, ?> q) {\n   int32 b = add(x = a, y = int32(1));\n   list<tensor<fp32, [100000]>, ?> r = list_write(ls = q, index = a, value = x);\n  } -> (b, r);\n  int32 y = list_length(ls = l);\n } -> (y);\n}\n' > list.mil
$ propane run list.mil --seed 1
2~ propane run: list.mil:10:4: list_write 'r': a list of 336 elements of 400000 bytes exceeds the limit of 128 MB for a list
= 1
# A truncated vocabulary: show says so.
@ cp -r r v; head -c 40 r/tokenizer.propane.json > v/tokenizer.propane.json
$ propane show v | grep tokenizer:; rm v/tokenizer.*; propane show v | grep -c tokenizer:
>~   tokenizer: cannot be read: v/tokenizer.propane.json: *
>~ 0
= 1
# Tokenizer patterns that scan the text again at every position, or recurse deeply: an error within seconds.
@ printf 'import sys,json\nv={chr(c):c-33 for c in range(33,127)}\njson.dump({"model":{"type":"BPE","vocab":v,"merges":[]},"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":sys.argv[1]},"behavior":"Isolated","invert":False},{"type":"ByteLevel","add_prefix_space":False,"use_regex":False}]}},open(sys.argv[2],"w"))\n' > pattern.py; python3 pattern.py '(?=a*b)' ahead.json; python3 pattern.py '(a(?R)?b)|a' deep.json; python3 pattern.py '(a|aa)+$' ways.json; python3 pattern.py 'b(?=z)|[cb]+' plain.json; awk 'BEGIN{for(i=0;i<300000;i++) printf "a"; print "cbbbx=z"}' | tr -d '\n' > as
$ for p in ahead deep ways; do propane tokenize as --tokenizer $p.json --tokens ids; done
2~ propane tokenize: as: a pattern of the tokenizer takes too long at byte * of 300007; *
2~ propane tokenize: as: a pattern of the tokenizer takes too long at byte 0 of 300007; *
2~ propane tokenize: as: a pattern of the tokenizer takes too long at byte 0 of 300007; *
= 1
# A match far beyond the text that one call examines.
$ tail -c 40 as > end; propane tokenize end --tokenizer plain.json --print-ids lines
> 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 64 66 65 65 65 87 28 89
= 0
# Another folder takes the run's name during training: nothing is written into it.
$ propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0 --threads 1 --run taken --steps 1000000 --checkpoint-every 2000 > /dev/null & n=0; until [ -f taken/checkpoint.safetensors ] || [ $n = 600 ]; do sleep 0.1; n=$((n+1)); done; kill -STOP $!; mv taken away; mkdir taken; kill -CONT $!; wait $!; code=$?; ls -A taken; ls away/checkpoint.safetensors; exit $code
> away/checkpoint.safetensors
2~ propane train: *taken*
= 1
