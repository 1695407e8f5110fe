# Errors when people train: files, tokens, sizes, configurations. A run that could not begin must
# leave nothing behind.
! part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; : > empty; mkdir dir; head -c 20 text > short
@ printf 'propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 5 --eval-batches 1 "$@"\n' > ../bin/tiny; chmod +x ../bin/tiny
@ propane tokenize text --vocab 270 --out bpe.json --tokens tokens > log; propane tokenize text --kind chars --out chars.json > log; propane tokenize text --kind bytes --out bytes.json > log
@ head -c 400 tokens > cut; head -c 5000 tokens | cat - text > damaged; sed 's/"/~/' bpe.json > bad.json
$ propane train
2> propane train: --data is missing
2> Try 'propane train --help'.
= 2
$ propane train --data
2> propane train: --data needs a value
2> Try 'propane train --help'.
= 2
$ propane train --data=
2> propane train: --data: the value is empty
2> Try 'propane train --help'.
= 2
$ propane train --data missing
2> propane train: cannot open missing: No such file or directory
= 1
$ propane train --data empty
2> propane train: empty: the file is empty; give a text to train on
= 1
$ propane train --data dir
2> propane train: dir: it contains no text
= 1
$ propane train --data /dev/null
2> propane train: cannot read /dev/null: it is a device or pipe, not a file
= 1
$ propane train --data short --kind chars --context 16
2> propane train: short: a window needs 17 tokens, but 2 are held out; hold out more, or give more text
= 1
$ propane train --data short --kind chars --context 32
2> propane train: short: only 18 tokens to train on, but a window needs 33; give more text or a smaller context
= 1
$ tiny --held-out 0.0001
2> propane train: text: a window needs 17 tokens, but 1 is held out; hold out more, or give more text
= 1
$ tiny --held-out 0
2> propane train: --held-out is 0, so there is nothing to evaluate on; give --eval-every 0
= 1
$ propane train --data tokens
2> propane train: tokens is a token file; give its tokenizer with --tokenizer
= 1
$ propane train --data tokens --tokenizer chars.json
2~ propane train: tokens was written with the tokenizer ????????????..., but chars.json is ????????????...; tokenize the text again with this tokenizer, or use the original one
= 1
$ propane train --data cut --tokenizer bpe.json
2~ propane train: cut: offset 24: * tokens of 2 bytes do not match a file of 400 bytes; it is truncated or damaged
= 1
$ propane train --data damaged --tokenizer bpe.json
2~ propane train: damaged: offset 24: * do not match a file of * bytes; it is truncated or damaged
= 1
$ propane train --data text --tokenizer missing.json
2> propane train: cannot open missing.json: No such file or directory
= 1
$ propane train --data text --tokenizer text
2> propane train: text: neither a Propane tokenizer (JSON) nor a llama2.c tokenizer (which begins with the length of its longest piece)
= 1
$ propane train --data text --tokenizer bad.json
2> propane train: bad.json: line 1, column 2: not valid JSON: string or '}' expected near '~'
= 1
$ propane train --data text --tokenizer chars.json --vocab 300
2> propane train: --tokenizer uses an existing vocabulary, but --vocab would learn one; give only one of them
2> Try 'propane train --help'.
= 2
$ tiny --vocab 300
2> propane train: --vocab applies to --kind bpe; chars has as many ids as it needs
2> Try 'propane train --help'.
= 2
$ tiny --vocab 100
2> propane train: --vocab: '100' is not an integer from 257 to 65536
2> Try 'propane train --help'.
= 2
$ tiny --chat chatml
2> propane train: --chat applies to instruction data (.jsonl), but text is a text
2> Try 'propane train --help'.
= 2
$ tiny --kind words
2> propane train: --kind: 'words' is not one of bpe|chars|bytes
2> Try 'propane train --help'.
= 2
# sizes and flags
$ tiny --width -4
2> propane train: --width: '-4' is not an integer from 2 to 65536
2> Try 'propane train --help'.
= 2
$ tiny --steps 1e3
2> propane train: --steps: '1e3' is not an integer from 1 to 1000000000000
2> Try 'propane train --help'.
= 2
$ tiny --steps 99999999999999999999
2> propane train: --steps: '99999999999999999999' is not an integer from 1 to 1000000000000
2> Try 'propane train --help'.
= 2
$ tiny --lr nan
2> propane train: --lr: 'nan' is not a number from 0 to 100
2> Try 'propane train --help'.
= 2
$ tiny --min-lr 1
2> propane train: --min-lr is 1; it must be 0 to 0.003
= 1
$ tiny --heads 3
2> propane train: --width 16 is not a multiple of --heads 3
= 1
# the default adapts: a width alone is enough
$ propane train --data text --kind bytes --layers 1 --width 64 --context 16 --batch 2 --steps 1 --eval-batches 1 --run wide > log; propane show wide | grep -o '[0-9]* heads of [0-9]*'
> 4 heads of 16
= 0
$ tiny --heads 16
2> propane train: the model's sizes: key 'head_dim' is 1; it must be from 2 to 4096
= 1
$ tiny --width 18 --heads 6
2> propane train: the model's sizes: head_dim is 3; it must be even, because RoPE rotates pairs of elements
= 1
$ tiny --kv-heads 3
2> propane train: the model's sizes: num_attention_heads (2) must be a multiple of num_key_value_heads (3)
= 1
$ tiny --precision fp8
2> propane train: --precision: 'fp8' is not one of standard|auto|fp32|fp16|bf16
2> Try 'propane train --help'.
= 2
$ tiny --plan twelve
2> propane train: there is no plan 'twelve'; the plans are layer, six, ten
= 1
$ tiny --device gpu
2~ propane train: unknown device 'gpu'; the devices are cpu, *
= 1
$ tiny --weights baked --compile-budget 1
2~ propane train: the plan needs * programs, but one process may compile 1; give a larger --compile-budget, --weights inputs or a smaller model
= 1
$ propane train extra --data text
2> propane train: cannot open extra: No such file or directory
= 1
$ tiny --no-steps
2> propane train: there is no flag '--no-steps'; did you mean '--steps'?
2> Try 'propane train --help'.
= 2
# sizes that no machine can hold: refused before any memory is allocated
$ propane train --data text --width 65536 --layers 1000 --heads 512
2~ propane train: this run needs at least 825 TB of memory (weights and moments 619 TB, activations and gradients of a batch 206 TB), but the machine has * GB; use a smaller model
= 1
$ tiny --batch 65536 --context 1000
2~ propane train: this run needs at least 88.1 GB of memory (weights and moments * KB, activations and gradients of a batch 88.1 GB), but the machine has * GB; use a smaller --batch or --context
= 1
$ tiny --plan six --context 1048576
2~ propane train: this run needs at least * TB of memory (weights and moments * KB, activations and gradients of a batch * TB), but the machine has * GB; use a smaller --batch or --context
= 1
$ tiny --width 65536 --heads 2
2> propane train: the model's sizes: key 'head_dim' is 32768; it must be from 2 to 4096
= 1
# configurations
@ printf '{"model_type":"llama","hidden_size":16,"intermediate_size":32,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":16}' > good.json
@ printf 'sed "$1" good.json > config.json; propane train --data text --kind chars --context 16 --batch 2 --steps 1 --eval-batches 1 --config config.json\n' > ../bin/config; chmod +x ../bin/config
$ propane train --data text --config missing.json
2> propane train: cannot open missing.json: No such file or directory
= 1
$ propane train --data text --config empty
2~ propane train: empty: line 1, column 0: not valid JSON: *
= 1
$ propane train --data text --config good.json --layers 2
2> propane train: --config sets the model's sizes; leave out --arch, --layers, --width, --hidden, --heads, --kv-heads and --tie
2> Try 'propane train --help'.
= 2
$ config 's/}//'
2~ propane train: config.json: line 1, column *: not valid JSON: '}' expected near end of file
= 1
$ config 's/.*/[1]/'
2> propane train: config.json: options must be a JSON object, such as {"lr": 0.001}
= 1
$ config 's/:16,"int/:"16","int/'
2> propane train: config.json: key 'hidden_size' must be an integer, but is a string
= 1
$ config 's/:16,"int/:16.5,"int/'
2> propane train: config.json: key 'hidden_size' must be an integer, but is a number with a fraction
= 1
$ config 's/:16,"int/:-16,"int/'
2> propane train: config.json: key 'hidden_size' is -16; it must be from 1 to 131072
= 1
$ config 's/"hidden_size":16,//'
2> propane train: config.json: key 'hidden_size' is missing; it must be an integer
= 1
$ config 's/"num_attention_heads":2/"num_attention_heads":3/'
2> propane train: config.json: hidden_size (16) must be a multiple of num_attention_heads (3), or head_dim must be set
= 1
$ config 's/"num_attention_heads":2/"num_attention_heads":2,"num_key_value_heads":4/'
2> propane train: config.json: num_attention_heads (2) must be a multiple of num_key_value_heads (4)
= 1
$ config 's/"num_attention_heads":2/"num_attention_heads":2,"head_dim":7/'
2> propane train: config.json: head_dim is 7; it must be even, because RoPE rotates pairs of elements
= 1
$ config 's/"num_attention_heads":2/"num_attention_heads":99999999999999999999/'
2> propane train: config.json: key 'num_attention_heads' must be an integer, but is a number beyond 64 bits
= 1
$ config 's/llama/mamba/'
2> propane train: config.json: model_type 'mamba' is not supported; the supported types are llama, qwen2, qwen3, gpt2, mistral, granite, olmo2, phi3, smollm3, gemma2, gemma3_text, qwen3_moe
= 1
$ config 's/}/,"hidden_act":"gelu"}/'
2> propane train: config.json: hidden_act is 'gelu'; with model_type llama only 'silu' is supported
= 1
$ config 's/}/,"rms_norm_eps":"small"}/'
2> propane train: config.json: key 'rms_norm_eps' must be a number, but is a string
= 1
$ config 's/}/,"rope_scaling":{"type":"yarn"}}/'
2> propane train: config.json: rope_scaling has type 'yarn'; only 'default', 'linear', 'llama3' and 'longrope' are supported
= 1
$ config 's/"vocab_size":16/"vocab_size":15/'
2> propane train: config.json has a vocabulary of 15, but the tokenizer one of 16: they do not match; if tokens were added, make room for them in Python: model.resize_token_embeddings
= 1
$ ls -d propane-run
2~ *propane-run*
= 2
$ config ''
>~ done: 1 step in *; model in propane-run
= 0
