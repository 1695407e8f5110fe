# Every architecture: a fresh model trains and resumes, all its file forms give the same loss, and it generates.
! part:lm
@ awk 'BEGIN{for(i=0;i<400;i++) print "line", i*i%97, "of", i%7}' > text
@ head -c 40 text > short
@ printf 'sed -n "s/.*\\"$1\\":\\([0-9.e-]*\\).*/\\1/p" | tail -1\n' > ../bin/field; chmod +x ../bin/field
@ printf 'a=$1; shift; propane train --data text --kind bytes --arch $a --layers 2 --width 32 --heads 4 --context 32 --batch 2 --warmup 2 --eval-every 0 --json --run $a "$@"\n' > ../bin/fresh; chmod +x ../bin/fresh
@ for a in llama qwen2 qwen3 gpt2 mistral granite olmo2 phi3 smollm3 gemma2 gemma3_text qwen3_moe; do fresh $a --steps 3 > $a.log; fresh $a --steps 6 --resume > $a.log; done
$ for a in llama qwen2 qwen3 gpt2 mistral granite olmo2 phi3 smollm3 gemma2 gemma3_text qwen3_moe; do propane show $a/config.json | sed -n '2s/:.*//p'; done
>   llama
>   qwen2
>   qwen3
>   gpt2
>   mistral
>   granite
>   olmo2
>   phi3
>   smollm3
>   gemma2
>   gemma3_text
>   qwen3_moe
= 0
$ propane show gpt2/config.json | tail -1; propane show $REPO/tests/data/arch_llama3/config.json | tail -1; propane show qwen3_moe/config.json | tail -1
>   vocabulary 256, context 32, learned positions, norm epsilon 1e-05, tied head
>   vocabulary 40, context 64, rope theta 10000, llama3 by 8, norm epsilon 1e-06, separate head
>   vocabulary 256, context 32, 8 experts, 2 per token, rope theta 10000, norm epsilon 1e-05, tied head
= 0
@ for a in llama qwen2 qwen3 gpt2 mistral granite olmo2 phi3 smollm3 gemma2 gemma3_text qwen3_moe; do propane convert $a $a.gguf > log; propane convert $a.gguf $a.safetensors > log; propane convert $a.safetensors $a.folder --tokenizer $a/tokenizer.propane.json > log; done
$ for a in llama qwen2 qwen3 gpt2 mistral granite olmo2 phi3 smollm3 gemma2 gemma3_text qwen3_moe; do want=$(propane eval $a --data text --context 32 --json); for f in $a.gguf $a.safetensors; do test "$want" = "$(propane eval $f --tokenizer $a/tokenizer.propane.json --data text --context 32 --json)" || echo $f; done; done
= 0
$ for a in llama qwen2 qwen3 gpt2 mistral granite olmo2 phi3 smollm3 gemma2 gemma3_text qwen3_moe; do propane generate $a --prompt line --count 5 --temperature 0 | head -c 4; done; echo
> linelinelinelinelinelinelinelinelinelinelineline
= 0
$ for a in llama qwen2 qwen3 gpt2 mistral granite olmo2 phi3 smollm3 qwen3_moe gemma3_text gemma2; do propane plan $a --plan six | grep -c ' device '; done | uniq  # Gemma 2 has two kinds of layers
> 6
> 10
= 0
# a model's own numbers
@ sed 's/"max_position_embeddings": *32/"max_position_embeddings":256/' qwen3/config.json > qwen3/config.json.new && mv qwen3/config.json.new qwen3/config.json
$ propane eval qwen3 --data short --logits l.safetensors --gradients g.safetensors --json > e; propane show l.safetensors | sed -n 2p; propane show g.safetensors | grep -c q_norm
>   F32   logits                                                       [40, 256]
> 2
= 0
$ propane eval qwen3 --data text --gradients g.safetensors
2~ propane eval: --gradients accepts at most 257 ids (a context of 256), but there are *: give fewer
= 1
$ propane eval qwen3 --data short --gradients g.safetensors --plan seven
2> propane eval: there is no plan 'seven'; the plans are layer, six, ten
= 1
$ propane convert qwen3 q.bin
2> propane convert: q.bin: a llama2.c checkpoint can hold only a Llama without biases and rope scaling, not this model (qwen3): write a folder, .safetensors or .gguf
= 1
# only the ids that occur: the same model, and the full vocabulary at the end
$ fresh qwen3 --steps 3 --compact-vocab --run c > c.log; fresh qwen3 --steps 6 --resume --run c > c.log; propane show c/config.json | grep -o 'vocabulary 256'; propane show c/vocabulary.safetensors | sed -n '2,3s/  */ /gp'; propane generate c --prompt line --count 5 --temperature 0 | head -c 4; echo
> vocabulary 256
>  I32 ids [64]
>  F32 embed_tokens [256, 32]
> line
= 0
$ fresh qwen3 --steps 9 --no-compact-vocab --resume --run c
2> propane train: c/checkpoint.safetensors holds a different model from the one to train; resume with the configuration of its run folder
= 1
# refused options
$ fresh mamba --steps 1
2> propane train: unknown architecture 'mamba'; the known ones are llama, qwen2, qwen3, gpt2, mistral, granite, olmo2, phi3, smollm3, gemma2, gemma3_text, qwen3_moe
= 1
$ fresh gpt2 --steps 1 --kv-heads 2 --run other
2> propane train: the model's sizes: a model of type gpt2 must have as many key/value heads (2) as heads (4), and their sizes (8 each) must add up to the width (32)
= 1
