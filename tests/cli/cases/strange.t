# Files that are none, or have no end: one sentence, at once.
! part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0 --no-report --run r --steps 2 > /dev/null
# A device without an end is refused where a pipe is read; /dev/null is an empty file.
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
# A library that is a pipe would be waited for.
$ mkfifo pipe; propane generate r -n 1 -p a --blas ./pipe
2> propane generate: --blas (PROPANE_BLAS): ./pipe is not a file; give a library, or off
= 1
# A line of a log that has no end is left out like any damaged one.
$ cp -r r long; awk 'BEGIN { for (i = 0; i < 300000; i++) printf "0123456789"; print "" }' >> long/log.jsonl; tail -1 r/log.jsonl >> long/log.jsonl; propane show long/log.jsonl
>~ long/log.jsonl: the log of a training run: done, step 2 of *
= 0
# A file with holes, of 8 GB: neither program nor weights.
$ truncate -s 8G hole.mil 2> /dev/null || dd if=/dev/zero of=hole.mil bs=1 count=1 seek=8589934591 2> /dev/null; propane check hole.mil --target m1 | grep -o '[LB][0-9]' | head -1; mv hole.mil hole.bin; propane check hole.bin --target m1 | grep -o '[LB][0-9]' | head -1; rm hole.bin
> L1
> B1
= 0
# Numbers are decimal, whole values fit on a line, and what adapters alone have is not dropped in silence.
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
# A closed standard stream is not replaced by a file that is opened: neither data nor what waits for signals gets the messages.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 16]> x) {\n        tensor<fp16, [1, 16]> y = sin(x = x);\n    } -> (y);\n}\n' > p.mil; propane run p.mil --seed 1 --output good > /dev/null
$ for i in 1 2 3 4 5 6 7 8 9 10; do (exec 0<&- 1>&- 2>&-; propane run p.mil --seed 1 --output o) || echo $?; cmp o/y.npy good/y.npy; rm -r o; done | sort -u
> 1
= 0
# With any number of descriptors nothing stays behind.
$ for n in 3 4 5 6 7 8 9 10 11 12; do (ulimit -n $n; propane convert p.mil p.mlpackage; propane convert r hf) > log 2>&1; ls -d p.mlpackage.tmp* hf.tmp* 2> /dev/null; rm -rf p.mlpackage hf; done
= 0
