# Damage and numbers that are none are told, wherever they come from.
! python3
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; echo 1 2 3 > ids.txt
@ t="--data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0"; echo "propane train $t --threads 1 \"\$@\"" > train.sh
@ sh train.sh --run r --steps 2 > /dev/null
@ printf 'import sys\nb=bytearray(open(sys.argv[1],"rb").read())\nn=8+int.from_bytes(b[:8],"little")\nfor a in sys.argv[3:]:\n    i=n+int(a)\n    b[i%%len(b)]^=16\nopen(sys.argv[2],"wb").write(b)\n' > flip.py
# One bit of a checkpoint's data.
$ for at in 0 4001 10003 ; do cp -r r d$at; python3 flip.py r/checkpoint.safetensors d$at/checkpoint.safetensors $at; sh train.sh --run d$at --resume --steps 3; done
2~ propane train: d0/checkpoint.safetensors: its checksum is *: the file is damaged
2~ propane train: d4001/checkpoint.safetensors: its checksum is *: the file is damaged
2~ propane train: d10003/checkpoint.safetensors: its checksum is *: the file is damaged
= 1
# Its metadata: the step.
$ cp -r r m; sed 's/"step":"2"/"step":"1"/' r/checkpoint.safetensors > m/checkpoint.safetensors; sh train.sh --run m --resume --steps 3
2~ propane train: m/checkpoint.safetensors: its checksum is *: the file is damaged
= 1
# A weight that is no number: by evaluating, by writing, by training on.
@ printf 'import sys,json\nb=bytearray(open(sys.argv[1],"rb").read())\nn=int.from_bytes(b[:8],"little")\nh=json.loads(b[8:8+n])\no=h["model.layers.0.mlp.up_proj.weight"]["data_offsets"][0]\nb[8+n+o:12+n+o]=bytes([0,0,192,127])\nopen(sys.argv[1],"wb").write(b)\n' > nan.py
$ cp -r r w; python3 nan.py w/model.safetensors; propane eval w --ids ids.txt; propane generate w --prompt ab --count 4 > out
2> propane eval: w: the loss is not a number: the weights 'model.layers.0.mlp.up_proj.weight' hold some that are none
2> propane generate: after 0 tokens the model's scores are not numbers: the weights 'model.layers.0.mlp.up_proj.weight' hold some that are none
= 1
$ propane train --data text --init w --run x --batch 2 --eval-every 0 --steps 3 > log; ls x
> config.json
> log.jsonl
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
> train.json
2~ propane train: the loss has not been a number since step 1: the weights 'model.layers.0.mlp.up_proj.weight' hold some that are none; no model is written, the last checkpoint stays
= 0
# A file that becomes shorter while it is read.
$ propane tokenize text --kind bytes --out tk.json --tokens tk.bin > log; (sleep 0.7; : > tk.bin) & propane train --data tk.bin --tokenizer tk.json --layers 1 --width 32 --heads 2 --context 64 --batch 4 --steps 100000 --eval-every 0 --run s > log
2> propane train: tk.bin became shorter while it was read
= 1
# A program that needs more memory than any machine has.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1]> x) {\n        tensor<int32, [2]> s = const()[name = string("s"), val = tensor<int32, [2]>([1000, 1000000000])];\n        tensor<fp32, [1000, 1000000000]> f = fill(shape = s, value = fp32(1))[name = string("f")];\n        tensor<fp32, [1000, 1000000000]> y = add(x = f, y = x)[name = string("y")];\n        tensor<fp32, [1000, 1000000000]> z = mul(x = f, y = y)[name = string("z")];\n        tensor<fp32, [1000, 1000000000]> q = add(x = z, y = f)[name = string("q")];\n    } -> (y, z, q);\n}\n' > big.mil
$ propane run big.mil; propane diff big.mil big.mil
2~ propane run: *function 'main': its inputs and outputs alone need 12 TB of memory, and this machine has * to spare
2~ propane diff: *function 'main': its inputs and outputs alone need 16 TB of memory, and this machine has * to spare
= 1
# A vocabulary that is cut off: show says so.
@ cp -r r v; head -c 40 r/tokenizer.propane.json > v/tokenizer.propane.json
$ propane show v | grep tokenizer:; rm v/tokenizer.*; propane show v | grep -c tokenizer:
>~   tokenizer: cannot be read: v/tokenizer.propane.json: *
>~ 0
= 1
