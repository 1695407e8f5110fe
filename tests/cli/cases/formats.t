# Models and vocabularies between their forms.
! part:lm
@ cp "$REPO"/README.md text.txt
@ propane tokenize text.txt --vocab 400 --out v.json > /dev/null
@ propane train --data text.txt --tokenizer v.json --run run --steps 2 --layers 1 --width 32 --heads 2 --batch 2 --context 32 --eval-every 0 > /dev/null 2>&1
$ propane convert run folder
>~ folder: * parameters as F32, config.json and model.safetensors
= 0
$ ls folder
> config.json
> generation_config.json
> model.safetensors
> tokenizer.json
> tokenizer.propane.json
> tokenizer_config.json
= 0
# The exported vocabulary gives the same ids as Propane's own.
$ propane tokenize text.txt --tokenizer v.json --print-ids lines > own && propane tokenize text.txt --tokenizer folder/tokenizer.json --print-ids lines > exported && cmp own exported && wc -l < own | tr -d ' '
>~ [1-9]*
= 0
$ propane tokenize text.txt --tokenizer v.json --print-ids text | wc -l | tr -d ' '
> 1
= 0
# GGUF and back: the same weights, the same vocabulary.
$ propane convert run m.gguf
>~ m.gguf: * parameters as F32, GGUF version 3
= 0
$ propane convert m.gguf back && cmp folder/model.safetensors back/model.safetensors && cmp folder/config.json back/config.json
>~ back: *
= 0
$ propane tokenize text.txt --tokenizer m.gguf --print-ids lines | cmp - own
= 0
$ propane convert run q.gguf --dtype q8_0
>~ q.gguf: * parameters as Q8_0, GGUF version 3
= 0
$ propane show q.gguf
>~ q.gguf: GGUF, * keys, * tensors
>~   general.architecture * llama
>~   tokenizer.ggml.tokens * list of 400
>~   Q8_0  blk.0.attn_q.weight *[[]32, 32[]]
>~   llama: 1 layer, width 32*
= 0
$ propane generate m.gguf --prompt "The " --count 8 --temperature 0 > a 2> /dev/null && propane generate folder --prompt "The " --count 8 --temperature 0 > b 2> /dev/null && cmp a b
= 0
$ propane show folder/tokenizer.json
>~ folder/tokenizer.json: tokenizer, kind hf (BPE), 400 ids, bos -1, eos -1
= 0
# If the format cannot express the vocabulary, the weights are still written.
@ awk 'BEGIN{for(i=0;i<99;i++) print "abc"}' > abc.txt; propane train --data abc.txt --kind chars --layers 1 --width 16 --heads 2 --context 8 --batch 1 --steps 1 --eval-every 0 --run abc > /dev/null
$ propane convert abc c.gguf
>~ c.gguf: * parameters as F32, GGUF version 3
2~ propane convert: the vocabulary was omitted: a vocabulary of kind chars*
= 0
$ propane convert run q4.gguf --dtype q4_0
>~ q4.gguf: * parameters as Q4_0, GGUF version 3
= 0
# Rows of 32 values do not fill a block of 256.
$ propane convert run q4k.gguf --dtype q4_k && propane show q4k.gguf
>~ q4k.gguf: * parameters as Q4_K, GGUF version 3
>~   Q5_0  blk.0.attn_q.weight *[[]32, 32[]]
= 0
# A folder with only parts of a model, and a program that includes its weights.
$ mkdir parts && cp folder/tokenizer.json parts && propane show parts
>~ parts/tokenizer.json: tokenizer, kind hf (BPE), 400 ids, *
>~   sha256 *
= 0
$ mkdir empty && propane show empty
2~ propane show: empty: it contains no model; *
= 1
@ propane convert run one.mlpackage --tokens 1 --context 16 > /dev/null; mkdir first second; propane convert one.mlpackage first/a.mil > /dev/null; propane run first/a.mil --seed 1 | sed 1d > a.txt
$ propane convert first/a.mil second/b.mil > /dev/null && rm -r first && propane run second/b.mil --seed 1 | sed 1d | cmp a.txt -
= 0
# Invalid use.
$ propane convert run x.safetensors --dtype q4_0
2> propane convert: --dtype q4_0 is for GGUF files; x.safetensors is not one
2> Try 'propane convert --help'.
= 2
$ propane convert run x.safetensors --dtype q8_0
2> propane convert: --dtype q8_0 is for GGUF files; x.safetensors is not one
2> Try 'propane convert --help'.
= 2
$ propane convert run x.bin --tokenizer v.json
2> propane convert: --tokenizer applies to folders and GGUF files; x.bin has no vocabulary
2> Try 'propane convert --help'.
= 2
$ propane tokenize text.txt --print-ids lines --out x
2> propane tokenize: --print-ids needs --tokenizer and excludes the flags that write files
2> Try 'propane tokenize --help'.
= 2
@ head -c 2000 m.gguf > cut.gguf
$ propane convert cut.gguf x
2~ propane convert: cut.gguf: offset *; the file is truncated or damaged
= 1
@ printf '{"model":{"type":"WordPiece","vocab":{}}}' > tokenizer.json
$ propane tokenize text.txt --tokenizer tokenizer.json --print-ids lines
2> propane tokenize: tokenizer.json: model 'WordPiece' is not supported
= 1
# A model as one program: with a cache in states, and without one. Packages and text give the same.
$ propane convert run lm.mlpackage --tokens 1,8 --context 32
>~ lm.mlpackage: * parameters in fp16 as a Core ML package; calls of 1 or 8 tokens, a cache of 32
= 0
$ propane convert run lm.mil --tokens 8,1 --context 16
>~ lm.mil: * parameters in fp16 as MIL text; calls of 8 tokens, a cache of 16
= 0
$ propane run lm.mlpackage --seed 1 --shape inputIds=1,8 --shape causalMask=1,1,8,32 | grep logits
>~ output logits ?1, 8, *
= 0
# The shape is taken from the array. An unknown input and an array that does not fit are errors.
@ npy() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<i4', 'fortran_order': False, 'shape': $2, }" > $1; head -c $3 /dev/zero >> $1; }; npy eight.npy '(1,8)' 32; npy seven.npy '(1,7)' 28; npy ids.npy '(8,)' 32
$ propane run lm.mlpackage --seed 1 --input inputIds=eight.npy --shape causalMask=1,1,8,32 | grep logits
>~ output logits ?1, 8, *
= 0
$ propane run lm.mlpackage --seed 1 --input inputIds=seven.npy --shape causalMask=1,1,8,32
2> propane run: lm.mlpackage: input 'inputIds' cannot have the shape [1, 7]; the file allows [1, 1], [1, 8]
= 1
$ propane run lm.mlpackage --seed 1 --input inputIds=ids.npy
2> propane run: input 'inputIds' is [1, 1], but the array is [8]
= 1
$ propane run lm.mlpackage --seed 1 --shape inputIds=1,7 2>&1 | grep -c 'the file allows'
> 1
= 0
$ propane convert run lm.mil --tokens 1 --context 32 && propane run lm.mil --seed 1 | sed 1d > a && propane run lm.mlpackage --seed 1 | sed 1d | cmp a -
>~ lm.mil: * bytes of MIL text
= 0
$ propane convert run plain.mlpackage --stateless 8 --dtype f32 && propane run plain.mlpackage --seed 1 | grep -c logits
>~ plain.mlpackage: * parameters in fp32 as a Core ML package; calls of 8 tokens, no cache
= 0
# A package replaces only a package, completely or not at all.
$ cp -r lm.mlpackage keep.mlpackage; (ulimit -f 16; propane convert run keep.mlpackage --stateless 8); echo $?; diff -r lm.mlpackage keep.mlpackage && ls -d keep*
> 1
> keep.mlpackage
2~ propane convert: cannot write keep.mlpackage/*: File too large
= 0
$ propane convert run keep.mlpackage/ --stateless 8 --dtype f32 > log && diff -r plain.mlpackage keep.mlpackage && ls -d keep*
> keep.mlpackage
= 0
$ mkdir other.mlpackage && echo mine > other.mlpackage/notes; propane convert run other.mlpackage; ls -d other* other.mlpackage/*
> other.mlpackage
> other.mlpackage/notes
2> propane convert: cannot write other.mlpackage: a folder with that name exists and is not a package; give another name
= 0
