# Errors when people use generate, eval, tokenize, convert, show and plan.
! mkfifo part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; : > empty; mkdir dir; printf a > one; mkfifo pipe
@ propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 20 --eval-batches 1 --run m > log; sed 's/"max_position_embeddings": *16/"max_position_embeddings":256/' m/config.json > m/config.json.new && mv m/config.json.new m/config.json
@ propane tokenize text --vocab 270 --out bpe.json --tokens tokens > log
@ propane convert m m.bin > log; propane convert m m.safetensors > log; head -c 3000 m.bin > cut.bin; head -c 3000 m.safetensors > cut.safetensors; head -c 300 bpe.json > cut.json; head -c 300 tokens > cut.tokens; head -c 20 m.safetensors > tiny.safetensors
$ propane generate
2> propane generate: MODEL is missing
2> Try 'propane generate --help'.
= 2
$ propane generate missing
2> propane generate: cannot open missing: No such file or directory
= 1
$ propane generate empty
2> propane generate: empty: not a model; give a folder with config.json and model.safetensors, a .safetensors or .gguf file, or a llama2.c checkpoint: the file is empty
= 1
$ propane generate dir
2> propane generate: dir: it contains no model; a model folder has config.json, model.safetensors and tokenizer.json
= 1
$ propane generate cut.bin --prompt-ids 1 --print-ids
2~ propane generate: cut.bin: the file has 3000 bytes, but a llama2.c checkpoint of these sizes has *; it is truncated
= 1
$ propane generate cut.safetensors --prompt-ids 1 --print-ids
2~ propane generate: cut.safetensors: tensor '*': data_offsets * are outside the data, which has * bytes; the file is truncated or damaged
= 1
$ propane generate m.bin --prompt a
2> propane generate: m.bin: there is no tokenizer next to the model; give one with --tokenizer
= 1
$ propane generate m.bin --prompt a --tokenizer bpe.json
2> propane generate: m.bin has a vocabulary of 16, but the tokenizer one of 270: they do not match
= 1
$ tr '\n' ' ' < text > flat; propane train --data flat --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 1 --run flatm > log; propane generate flatm
2> propane generate: --prompt: this vocabulary has no token for the beginning of a text or line: give at least one character
= 1
$ propane generate m --prompt 'line[1'
2> propane generate: --prompt: the character '[' at offset 4 is not in the vocabulary of 16 characters
= 1
$ propane generate m --prompt a --prompt-ids 1
2> propane generate: give --prompt or --prompt-ids, not both
2> Try 'propane generate --help'.
= 2
$ propane generate m --prompt-ids '1 2 x' --print-ids
2> propane generate: --prompt-ids: 'x' (byte 4) is not a token id
= 1
$ propane generate m --prompt-ids '1 16' --print-ids
2> propane generate: --prompt-ids: id 16 is outside the model's vocabulary of 16
= 1
$ propane generate m --prompt-ids ' ' --print-ids
2> propane generate: --prompt-ids: it contains no ids
= 1
$ propane generate m --prompt line --context 3
2> propane generate: the prompt has 4 tokens, but the context has room for 3; shorten it, or give a larger --context
= 1
$ propane generate m --prompt line --context 1000
2> propane generate: a context of 1000 positions, but the model has max_position_embeddings = 256
= 1
$ propane generate m --prompt-ids '1 2' --print-ids --seed 1 --count 300 | awk '{n += NF} END {print n}'
> 257
2> propane generate: stopped after 255 tokens, because the context of 256 positions is full
= 0
$ propane generate m --prompt line --temperature -1
2> propane generate: --temperature: '-1' is not a number from 0 to 100
2> Try 'propane generate --help'.
= 2
$ propane generate m --prompt line --top-p 2
2> propane generate: --top-p: '2' is not a number from 0 to 1
2> Try 'propane generate --help'.
= 2
? /dev/full
$ propane generate m --prompt line --seed 1 --count 100 > /dev/full
2> propane generate: cannot write to standard output: No space left on device
= 1
$ propane generate m --prompt line --seed 1 --count 200 | head -c 4; echo
> line
= 0
# eval
$ propane eval m
2> propane eval: give a text with --data, or ids with --ids
2> Try 'propane eval --help'.
= 2
$ propane eval m --data text --ids text
2> propane eval: give --data or --ids, not both
2> Try 'propane eval --help'.
= 2
$ propane eval m --data empty
2> propane eval: empty: 0 tokens; a loss needs at least two
= 1
$ propane eval m --data dir
2> propane eval: cannot read dir: it is a folder, not a file
= 1
$ propane eval m --ids text
2> propane eval: text: 'line' (byte 0) is not a token id
= 1
$ echo 1 2 99999999999999 > ids; propane eval m --ids ids
2> propane eval: ids: '99999999999999' (byte 4) is not a token id
= 1
$ propane eval m --data tokens
2~ propane eval: tokens was written with the tokenizer ????????????..., but m is ????????????...; tokenize the text again with this tokenizer, or use the original one
= 1
$ propane eval m --data bpe.json
2~ propane eval: bpe.json: the character '{' at offset 0 is not in the vocabulary of 16 characters
= 1
$ propane eval m --data text --tokenizer bpe.json
2> propane eval: m has a vocabulary of 16, but the tokenizer one of 270: they do not match
= 1
@ cp -r m wide; sed -i.old 's/"hidden_size": 16/"hidden_size": 32/' wide/config.json
$ propane eval wide --data text
2> propane eval: wide/model.safetensors: tensor 'model.embed_tokens.weight' has the shape [16, 16]; it must be [16, 32]
= 1
$ propane eval m --data text --logits l
2~ propane eval: --logits accepts at most 256 ids (a context of 256), but there are *: give fewer
= 1
$ propane eval m --data text --context 9 --gradients l
2~ propane eval: --gradients accepts at most 10 ids (a context of 9), but there are *: give fewer
= 1
# tokenize
$ propane tokenize text
2> propane tokenize: nothing to write: give --out, --tokens or both
2> Try 'propane tokenize --help'.
= 2
$ propane tokenize text --tokens t
2> propane tokenize: --tokens without --out: the tokenizer would be lost, and nothing could read the tokens
2> Try 'propane tokenize --help'.
= 2
$ propane tokenize empty --out t
2> propane tokenize: empty: the file is empty; give a text to train on
= 1
$ propane tokenize text --out nowhere/t
2> propane tokenize: cannot write nowhere/t: No such file or directory
= 1
$ propane tokenize text --out dir
2> propane tokenize: cannot write dir: it is a folder, not a file
= 1
$ propane tokenize text --out pipe
2> propane tokenize: cannot write pipe: it is a device or pipe, not a file
= 1
$ propane tokenize text --out text
2> propane tokenize: text exists and is not a Propane tokenizer, so it is not overwritten: give another name, or remove it
= 1
$ propane tokenize text --out t --tokens ./t
2> propane tokenize: --tokens ./t would overwrite what --out writes
2> Try 'propane tokenize --help'.
= 2
$ propane tokenize text --tokenizer bpe.json --tokens bpe.json
2> propane tokenize: bpe.json exists and is not a token file, so it is not overwritten: give another name, or remove it
= 1
$ propane tokenize text --kind chars --vocab 300 --out t
2> propane tokenize: --vocab applies to --kind bpe; chars has as many ids as it needs
2> Try 'propane tokenize --help'.
= 2
$ cp bpe.json bpe.txt; propane tokenize bpe.txt --tokenizer m/tokenizer.propane.json --tokens t
2> propane tokenize: bpe.txt: the character '{' at offset 0 is not in the vocabulary of 16 characters
= 1
$ (ulimit -f 8; propane tokenize text --kind bytes --out t --tokens full); ls full*
2> propane tokenize: cannot write full: File too large
2~ *full*
= 2
# convert
$ propane convert m
2> propane convert: OUT is missing
2> Try 'propane convert --help'.
= 2
$ propane convert m ./m
2> propane convert: m would overwrite itself: give OUT another name
2> Try 'propane convert --help'.
= 2
$ propane convert m x.onnx
2> propane convert: x.onnx: Propane does not write .onnx; see OUT in the help
2> Try 'propane convert --help'.
= 2
$ propane convert m x.bin --dtype f16
2> propane convert: x.bin: llama2.c checkpoints can hold only F32
= 1
$ propane convert m x.mlmodelc
2> propane convert: x.mlmodelc: Propane does not write .mlmodelc; see OUT in the help
2> Try 'propane convert --help'.
= 2
$ propane convert missing x.mlpackage --context 8
2> propane convert: cannot open missing: No such file or directory
= 1
$ propane convert m x.safetensors --dtype f64
2> propane convert: --dtype: 'f64' is not one of f32|f16|bf16|q8_0|q5_1|q5_0|q4_1|q4_0|q6_k|q4_k
2> Try 'propane convert --help'.
= 2
$ propane convert m x --tokenizer bpe.json; ls x
2> propane convert: m has a vocabulary of 16, but the tokenizer one of 270: they do not match
2~ *x*
= 2
$ propane convert text x.mil
2> propane convert: text:1:1: expected 'program', found 'line'
= 1
$ propane convert m x.mil --dtype bf16
2> propane convert: --dtype bf16: a program's weights are f16 or f32
2> Try 'propane convert --help'.
= 2
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [2]> x) {\n        tensor<fp16, [2]> y = exp(x = x);\n    } -> (y);\n}\n' > y.mil
$ propane convert y.mil x.mlpackage --dtype f16
2> propane convert: --dtype is for weights; x.mlpackage will be a package
2> Try 'propane convert --help'.
= 2
$ propane convert y.mil x.mlpackage --context 8
2> propane convert: --context, --tokens and --stateless are for models that become a .mlpackage or .mil
2> Try 'propane convert --help'.
= 2
$ propane convert m x.mlpackage --tokens 1,
2> propane convert: --tokens: '1,' is not a list of up to 8 numbers, like 1,64
2> Try 'propane convert --help'.
= 2
$ propane convert m x.mlpackage --stateless 4 --context 8
2> propane convert: --stateless has no cache: --context and --tokens have no meaning with it
2> Try 'propane convert --help'.
= 2
$ propane convert m x.mlpackage --context 4096
2~ propane convert: a context of 4096 positions, but the model has *
= 1
$ (ulimit -f 4; propane convert m x.bin); ls x.*
2> propane convert: cannot write x.bin: File too large
2~ *x.*
= 2
# show
$ propane show
2> propane show: FILE... is missing
2> Try 'propane show --help'.
= 2
$ propane show missing empty dir text bpe.json
>~ bpe.json: tokenizer, kind bpe, 270 ids, bos -1, eos -1
2> propane show: cannot open missing: No such file or directory
2> propane show: empty: the file is empty
2> propane show: dir: it contains no model; a model folder has config.json, model.safetensors and tokenizer.json
2> propane show: text: an unknown kind of file; known are MIL text, MILBlob weights, safetensors, GGUF, a llama2.c checkpoint, a tokenizer, a token file or a compiled program; to train on a text: propane train --data FILE
= 1
$ propane show cut.bin cut.safetensors tiny.safetensors cut.tokens
2~ propane show: cut.bin: the file has 3000 bytes, but a llama2.c checkpoint of these sizes has *; it is truncated
2~ propane show: cut.safetensors: tensor '*': data_offsets * are outside the data, which has * bytes; the file is truncated or damaged
2~ propane show: tiny.safetensors: offset 0: a header of * bytes, but only 12 bytes follow; it is truncated or not a safetensors file
2~ propane show: cut.tokens: offset 24: * tokens of 2 bytes do not match a file of 300 bytes; it is truncated or damaged
= 1
$ propane show cut.json
2~ propane show: cut.json: line *: not valid JSON: *
= 1
$ propane show m m.bin m.safetensors m/config.json m/checkpoint.safetensors tokens
>~ m: a model's folder
>~ m.bin: llama2.c checkpoint, version 0
>~ m.safetensors: safetensors, 11 tensors, *
>~ m/config.json: a model's configuration
>~ m/checkpoint.safetensors: safetensors, 33 tensors, *
>~ tokens: token file, * tokens of * bytes of text, vocabulary 270, 2 bytes per token
= 0
$ propane tokenize text --tokenizer m --print-ids text | wc -w > n; propane eval m --data text --json | sed 's/[^0-9]*\([0-9]*\).*/\1/' > p; echo $(($(cat n) - $(cat p)))
> 1
= 0
$ propane show pipe
2> propane show: cannot read pipe: it is a device or pipe, not a file
= 1
# plan, devices
$ propane plan --plan twelve
2> propane plan: there is no plan 'twelve'; the plans are layer, six, ten
= 1
$ propane plan m --context 300
2> propane plan: attn_half: positions 0 to 299, but the model has max_position_embeddings = 256
= 1
$ propane plan --write text > log
2> propane plan: cannot make the folder text: Not a directory
= 1
$ propane plan --plan six --write kernels > log; propane show kernels/*.mil | head -1
>~ kernels/*: MIL program(*
= 0
? /dev/full
$ propane ops > /dev/full
2> propane ops: cannot write to standard output: No space left on device
= 1
$ propane ops --json | head -1 | cut -c1-6
> {"op":
= 0
# a text that contains the word program is not a program; a name that ends in .mil is
$ echo "a program(1.3) of words" | tee words > words.mil; propane show words words.mil
2~ propane show: words: an unknown kind of file; *
2> propane show: words.mil:1:1: expected 'program', found 'a'
= 1
# an empty word is neither a file nor a command; a command's own words may be empty
$ for c in "show" "watch" "compare" "power --"; do propane $c "" 2>&1; done
> propane show: FILE...: the value is empty
> Try 'propane show --help'.
> propane watch: RUN...: the value is empty
> Try 'propane watch --help'.
> propane compare: RUN...: the value is empty
> Try 'propane compare --help'.
> propane power: COMMAND...: the value is empty
> Try 'propane power --help'.
= 2
$ propane power -- printf "%s." "" 2>&1 | grep -c "value is empty"
> 0
= 1
