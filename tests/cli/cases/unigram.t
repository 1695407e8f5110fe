# A Unigram vocabulary (tests/data/tokenizers, tools/unigram_reference.py) from a tokenizer.model to a model, folders and a GGUF file.
! part:lm
@ cp $REPO/tests/data/tokenizers/unigram.model $REPO/tests/data/tokenizers/unigram.json .; awk 'BEGIN{for(i=0;i<900;i++) print "the cat line", i*i%977, "of", i%7}' > text
$ propane show unigram.model; propane show unigram.json
>~ unigram.model: tokenizer, kind hf (Unigram), 300 ids, bos 1, eos 2
>~   sha256 *
>~ unigram.json: tokenizer, kind hf (Unigram), 300 ids, bos -1, eos 2
>~   sha256 *
= 0
# A user-defined piece, and full-width forms. The two libraries differ in the space in front of it.
$ printf 'the cat <sep> going \357\274\241\357\274\221\n  two   spaces\n' > lines; propane tokenize lines --tokenizer unigram.model --print-ids lines; propane tokenize lines --tokenizer unigram.json --print-ids lines
> 94 178 10 5 3 176 4 5 64 75
> 5 10 39 18 96
> 94 178 10 3 176 4 5 64 75
> 5 10 39 18 96
= 0
$ propane train --data text --tokenizer unigram.model --layers 1 --width 32 --heads 4 --context 32 --batch 2 --steps 2 --eval-every 0 --run run > log && propane convert run folder > log && propane show folder
>~ folder: a model's folder
>~   llama: 1 layer, width 32*
>~   vocabulary 300*
>~   tokenizer: kind hf (Unigram), 300 ids, bos 1, eos 2
= 0
$ propane tokenize text --tokenizer folder/tokenizer.json --print-ids text > a; propane tokenize text --tokenizer unigram.model --print-ids text > b; cmp a b && wc -l < a
>~ *1
= 0
$ propane convert folder m.gguf > log && propane tokenize text --tokenizer m.gguf --print-ids text > b; cmp a b && propane convert m.gguf back > log && cmp back/tokenizer.json folder/tokenizer.json && echo same
> same
= 0
# A vocabulary that was not a tokenizer.model has no form in GGUF files. A folder keeps it.
$ rm folder/tokenizer.propane.json; cp unigram.json folder/tokenizer.json; propane convert folder again > log; propane show again/tokenizer.json; propane convert folder x.gguf
>~ again/tokenizer.json: tokenizer, kind hf (Unigram), 300 ids, bos -1, eos 2
>~   sha256 *
>~ x.gguf: *
2~ propane convert: the vocabulary was omitted: a vocabulary of kind hf (Unigram, not from a tokenizer.model) cannot be written to a GGUF file; write a folder instead
= 0
# A truncated file.
$ for n in 100 3000 4500 4900; do head -c $n unigram.model > cut.model; propane tokenize lines --tokenizer cut.model --print-ids lines; done
2~ propane tokenize: cut.model: *
2~ propane tokenize: cut.model: *
2~ propane tokenize: cut.model: *
2~ propane tokenize: cut.model: *
= 1
