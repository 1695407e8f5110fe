# Files that are invalid or endless: one sentence, at once.
! part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0 --no-report --run r --steps 2 > /dev/null
# An endless device is refused where a pipe is read. /dev/null is an empty file.
? /dev/zero /dev/full
$ propane eval r --data /dev/zero; propane eval r --ids /dev/full; propane generate r --prompts /dev/zero; propane tokenize /dev/zero --tokenizer r/tokenizer.json --print-ids lines; propane serve r --port 0 --api-key-file /dev/zero; propane estimate --points /dev/zero
2> propane eval: cannot read /dev/zero: it is a device, not a file or pipe
2> propane eval: cannot read /dev/full: it is a device, not a file or pipe
2> propane generate: cannot read /dev/zero: it is a device, not a file or pipe
2> propane tokenize: cannot read /dev/zero: it is a device, not a file or pipe
2> propane serve: cannot read /dev/zero: it is a device, not a file or pipe
2> propane estimate: cannot read /dev/zero: it is a device, not a file or pipe
= 1
$ cat text | propane eval r --data /dev/stdin | cut -c1-5; propane tokenize /dev/null --tokenizer r/tokenizer.json --print-ids lines
> loss 
= 0
# A wait for a pipe's first byte is reported, here until the writer has seen that.
? /proc
$ mkfifo late; (for i in $(seq 300); do grep -qs waiting told && break; sleep 0.1; done; echo 1 2 3 > late) & propane eval r --ids late 2> told | cut -c1-5; cat told
> loss 
> propane: waiting for late, a pipe from which nothing has come yet
= 0
# A signal ends such a wait, also in commands that catch it.
? /proc
$ mkfifo never; propane generate r --prompts never 2> words & pid=$!; for i in $(seq 300); do grep -qs waiting words && break; sleep 0.1; done; kill -TERM $pid; wait $pid; echo $?; cat words
> 143
> propane: waiting for never, a pipe from which nothing has come yet
> propane generate: cancelled while waiting for never, a pipe
= 0
# A library that is a pipe would block.
$ mkfifo pipe; propane generate r -n 1 -p a --blas ./pipe
2> propane generate: --blas (PROPANE_BLAS): ./pipe is not a file; give a library, or off
= 1
# A log line without an end is skipped like any damaged one.
$ cp -r r long; awk 'BEGIN { for (i = 0; i < 300000; i++) printf "0123456789"; print "" }' >> long/log.jsonl; tail -1 r/log.jsonl >> long/log.jsonl; propane show long/log.jsonl
>~ long/log.jsonl: the log of a training run: done, step 2 of *
= 0
# A sparse file of 8 GB: neither program nor weights.
$ truncate -s 8G hole.mil 2> /dev/null || dd if=/dev/zero of=hole.mil bs=1 count=1 seek=8589934591 2> /dev/null; propane check hole.mil --target m1 | grep -o '[LB][0-9]' | head -1; mv hole.mil hole.bin; propane check hole.bin --target m1 | grep -o '[LB][0-9]' | head -1; rm hole.bin
> L1
> B1
= 0
# Numbers are decimal, values fit on a line, and tensors that only adapters contain are not dropped silently.
$ for n in ' 5' 0x10 1e-400 nan 5_0 1e400 '5 ' ''; do propane train --data text --run n --lr "$n" 2>&1 | head -1; done; propane run x.mil --iterations ' 5' 2>&1 | grep -o "' 5' is not an integer"
> propane train: --lr: ' 5' is not a number from 0 to 100
> propane train: --lr: '0x10' is not a number from 0 to 100
> propane train: --lr: '1e-400' is not a number from 0 to 100
> propane train: --lr: 'nan' is not a number from 0 to 100
> propane train: --lr: '5_0' is not a number from 0 to 100
> propane train: --lr: '1e400' is not a number from 0 to 100
> propane train: --lr: '5 ' is not a number from 0 to 100
> propane train: --lr: the value is empty
> ' 5' is not an integer
= 0
$ propane show "$(printf 'a\nb')"; propane train --data text --run n --lora-alpha 4 2>&1 | head -1
2> propane show: cannot open a\x0ab: No such file or directory
> propane train: --lora-alpha, --lora-dropout and --lora-targets are for adapters: give --lora-rank, too
= 0
# A newly opened file does not replace a closed standard stream: messages reach neither data nor the pipe for signals.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 16]> x) {\n        tensor<fp16, [1, 16]> y = sin(x = x);\n    } -> (y);\n}\n' > p.mil; propane run p.mil --seed 1 --output good > /dev/null
$ for i in 1 2 3 4 5 6 7 8 9 10; do (exec 0<&- 1>&- 2>&-; propane run p.mil --seed 1 --output o) || echo $?; cmp o/y.npy good/y.npy; rm -r o; done | sort -u
> 1
= 0
# With any number of descriptors, no temporary files remain.
$ for n in 3 4 5 6 7 8 9 10 11 12; do (ulimit -n $n; propane convert p.mil p.mlpackage; propane convert r hf) > log 2>&1; ls -d p.mlpackage.tmp* hf.tmp* 2> /dev/null; rm -rf p.mlpackage hf; done
= 0
# Flags without an effect are refused by name.
@ printf 'program(1.3)\n{\n func main<ios18>(tensor<fp16, [1, 64, 1, 64]> x) {\n  tensor<fp16, [1, 64, 1, 64]> y = relu(x = x)[name = string("y")];\n } -> (y);\n}\n' > s.mil; propane compile s.mil -o s.hwx > log; echo 1 2 3 > ids
$ propane run s.hwx --seed 1 --keep; propane run s.hwx --seed 1 --iterations 3; propane diff s.hwx s.hwx --json; propane check s.mil --rules; propane check --rules --target m1; propane check s.mil --markdown; propane diff s.mil --expect n.npz --device-b cpu
2> propane run: --keep does not apply to a compiled program
2> Try 'propane run --help'.
2> propane run: --iterations does not apply to a compiled program
2> Try 'propane run --help'.
2> propane diff: --json does not apply to compiled programs, whose fields are compared
2> Try 'propane diff --help'.
2> propane check: --rules lists the rules; 's.mil' would not be checked
2> Try 'propane check --help'.
2> propane check: --target does not apply to --rules
2> Try 'propane check --help'.
2> propane check: --markdown does not apply to a file; it is for --rules
2> Try 'propane check --help'.
2> propane diff: --device-b does not apply to recorded outputs (--expect)
2> Try 'propane diff --help'.
= 2
$ for f in '--plan six' '--chat chatml'; do propane eval r --data text $f; done; propane eval r --ids ids --tokenizer r/tokenizer.json; propane eval r --ids ids --plan six
2> propane eval: --plan does not apply to a loss; it is the plan of --gradients
2> Try 'propane eval --help'.
2> propane eval: --chat does not apply to a text, only to instruction data
2> Try 'propane eval --help'.
2> propane eval: --tokenizer does not apply to ids
2> Try 'propane eval --help'.
2> propane eval: --plan does not apply to a loss; it is the plan of --gradients
2> Try 'propane eval --help'.
= 2
$ propane estimate s.mil --batch 2; propane estimate stories110m --path direct; propane estimate stories110m --latency 3; propane estimate stories110m --workers 2 --compare; propane estimate stories110m --compare --plan six; propane estimate --points p.csv --target m1
2> propane estimate: --batch does not apply to a program, only to the training of a model, as for 'propane plan'
2> Try 'propane estimate --help'.
2> propane estimate: --path does not apply to a training step, only to a program
2> Try 'propane estimate --help'.
2> propane estimate: --latency does not apply to one worker; give --workers, too
2> Try 'propane estimate --help'.
2> propane estimate: --compare does not apply to --workers
2> Try 'propane estimate --help'.
2> propane estimate: --plan does not apply to --compare
2> Try 'propane estimate --help'.
2> propane estimate: --target does not apply to --points
2> Try 'propane estimate --help'.
= 2
$ for f in '--beta 0.2' '--outer-lr 0.5' --pack '--chat-date 2026-01-01'; do propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --steps 1 --run n $f 2>&1 | head -1; done
> propane train: --beta applies only to pairs; give --method dpo, too
> propane train: --outer-lr applies only to training with few messages; give --outer H, too
> propane train: --pack applies to instruction data (.jsonl), but text is a text
> propane train: --chat-date applies to instruction data (.jsonl), but text is a text
= 0
# A folder with endless files, such as /proc/kmsg.
? timeout
$ timeout 60 propane train --data /proc --run endless 2> err; echo $?; grep -c '^propane train: ' err
> 1
> 1
= 0
# An argument cannot control the terminal.
$ propane plan --batch "$(printf '\033]0;x\a')"
2> propane plan: --batch: '\x1b]0;x\x07' is not an integer from 1 to 4096
2> Try 'propane plan --help'.
= 2
# A loss over bytes that are not text has no meaning.
@ awk 'BEGIN{for(i=0;i<300;i++) print "line", i*i%977}' > lines; propane train --data lines --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 1 --run bytes > /dev/null
$ propane eval bytes --data bytes/model.safetensors; printf '\211PNG\r\n\032\n' > icon; propane eval bytes --data icon
2> propane eval: bytes/model.safetensors: not a text, because byte 2 is zero; give UTF-8 text, instruction data (.jsonl) or a token file (from 'propane tokenize' or llm.c, or nanoGPT's *.bin with --tokenizer)
2> propane eval: icon: not a text: it is a PNG image
= 1
