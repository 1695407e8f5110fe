# Compiled programs of the engine: made, shown, compared, and run in software.
@ printf '%s\n' 'program(1.3)' '[buildInfo = dict<string, string>({})]' '{' '  func main<ios18>(tensor<fp16, [1, 3, 1, 1]> x) {' '    tensor<fp16, [2, 3, 1, 1]> w = const()[name = string("w"), val = tensor<fp16, [2, 3, 1, 1]>([1, 2, 3, -4, -5, -6])];' '    tensor<fp16, [1, 2, 1, 1]> c = conv(x = x, weight = w)[name = string("c")];' '    tensor<fp16, [1, 2, 1, 1]> y = relu(x = c)[name = string("y")];' '  } -> (y);' '}' > e.mil
@ sed 's/relu(x = c)/cumsum(x = c)/' e.mil > bad.mil
$ propane compile e.mil -o e.hwx --report
>~ conv *c *1 task*through DMA*on chip*
>~ *'y' is a result*
>~ relu *y *merged into the task before it*
>~ e.hwx: 1 task, 128 bytes of constants*
= 0
# The reason why a value goes through memory.
@ printf '%s\n' 'program(1.3)' '{' '  func main<ios18>(tensor<fp16, [1, 3, 1, 8]> x) {' '    tensor<fp16, [1, 3, 1, 8]> a = mul(x = x, y = fp16(2))[name = string("a")];' '    tensor<fp16, [1, 3, 1, 8]> b = abs(x = a)[name = string("b")];' '    tensor<fp16, [1, 3, 1, 8]> y = add(x = b, y = a)[name = string("y")];' '  } -> (y);' '}' > why.mil
$ propane compile why.mil -o why.anec --report
>~  *'a' comes from memory: it is used 2 times
>~  *'b' comes from memory: its reader has two sources
= 0
$ propane compile e.mil -o e.anec
> e.anec: 1 task, 128 bytes of constants, 16384 of scratch memory
= 0
$ propane show e.hwx
>~ *surface  x *base register  4  \[1, 3, 1, 1\]*: read
>~ *surface  y *base register  5 *: written
>~ *task 0, neural engine: 1x1 convolution of x with kernel constants, ReLU; \[3, 1, 1\] to y
= 0
$ propane show --words e.anec
>~ *0x00000  00010001  Win=1 Hin=1
= 0
$ propane show --json e.hwx
>~ *"generation": "H13"*
= 0
$ propane diff e.hwx e.anec
>~ 0 words differ
= 0
$ propane run e.hwx --seed 5
>~ y \[1, 2, 1, 1\]:*
= 0
$ propane run e.hwx
2~ *input 'x' * is missing*
= 1
$ propane compile e.mil --target m2 -o second.hwx
>~ second.hwx: 1 task, 128 bytes of constants*
= 0
$ propane compile e.mil --target m2 -o second.anec
> second.anec: 1 task, 128 bytes of constants, 16384 of scratch memory
= 0
$ propane show second.hwx
>~ second.hwx: compiled program for H14 (A15, M2), .hwx of the newer compiler
>~ *surface  x *base register  4  \[1, 3, 1, 1\]*: read
>~ *surface  y *base register  5 *: written
>~ *they are executed as those of H13
>~ *task 0 at 0x10: * base registers 1, 4, 5
= 0
$ propane diff second.hwx second.anec
>~ 0 words differ
= 0
$ propane run e.hwx --seed 5 --output first > first.out; propane run second.hwx --seed 5 --output second > second.out; cmp first/y.npy second/y.npy && echo same
> same
= 0
$ propane compile e.mil --target m3 -o e.hwx
2~ *'m3' is not one of m1|m2*
2~ *--help*
= 2
$ propane compile bad.mil -o e.hwx
2~ *cumsum 'y': this compiler does not support this operation*
= 1
$ propane compile e.mil -o e.txt
2~ *compiled programs are written as .hwx or .anec*
= 1
@ head -c 3000 e.hwx > cut.hwx
$ propane show cut.hwx
2~ *cut.hwx: *
= 1
# The device's other name, and the sums of M4 and later: the simulator's bits.
@ printf '%s\n' 'program(1.3)' '[buildInfo = dict<string, string>({})]' '{' '  func main<ios18>(tensor<fp16, [1, 8, 64]> a, tensor<fp16, [1, 64, 24]> b) {' '    tensor<fp16, [1, 8, 24]> z = matmul(x = a, y = b)[name = string("z")];' '  } -> (z);' '}' > m.mil
$ propane diff m.mil --seed 3 --precision-a typed --device-a 'sim:m1?arithmetic=1' --device-b 'sim:m1?level=registers&arithmetic=1' --tolerance 0
>~ nothing differs by more than 0
= 0
$ propane diff m.mil --seed 3 --precision-a typed --device-a 'sim:m1?arithmetic=1' --device-b 'sim:m1?level=registers' --tolerance 0
>~ they differ at matmul*
= 1
$ propane run m.mil --seed 3 --device 'sim:m4?level=registers'
2~ *level=registers supports the A14, the A15, and the M1 and M2 families; too little is known about the registers of the M4*
= 1
$ propane diff m.mil --seed 3 --precision-a typed --device-a 'sim:m1?level=registers' --device-b 'sim:m2?level=registers' --tolerance 0
>~ nothing differs by more than 0
= 0
$ propane run m.mil --seed 3 --device 'registers:target=m3'
2~ *unknown option 'target=m3'; *target=m2*
= 1
$ propane run m.mil --seed 3 --device 'sim:m1?level=ops'
2~ *level must be registers, not 'ops'*
= 1
? part:lm
$ propane run m.mil --seed 3 --device 'sim:m1?level=registers&table=0'
2~ *unknown option 'table=0'*
= 1
# Training through compiled registers: the losses match the processor's, although its fp32 values are fp16 here.
? part:lm
@ seq 1 4000 > text; propane tokenize text --vocab 300 --out v.json --tokens ids > /dev/null
@ printf 'propane train --data ids --tokenizer v.json --layers 2 --width 64 --heads 4 --kv-heads 2 --context 32 --batch 2 --warmup 2 --lr 1e-3 --eval-batches 1 --precision fp16 --json "$@"\n' > ../bin/small; chmod +x ../bin/small
@ printf 'grep -o "\\"loss\\": *[0-9.]*" | tail -1 | sed "s/.*: *//"\n' > ../bin/loss; chmod +x ../bin/loss
? part:lm
$ small --steps 23 --run a | loss > a.loss; small --steps 23 --device registers --weights inputs --run b | loss > b.loss; paste a.loss b.loss | awk '{d = $1 - $2; print (d < 0.02 && d > -0.02 && $1 < 5) ? "near" : "far " $1 " " $2}'
> near
= 0
# Weights overwritten in place give the bits of weights as inputs. A device that supports this mode uses it by default.
? part:lm
@ for w in inputs patched auto; do small --steps 12 --device registers --weights $w --plan six --run w$w > w$w.log; done
? part:lm
$ cmp winputs/model.safetensors wpatched/model.safetensors && cmp wauto/model.safetensors wpatched/model.safetensors && grep -o '"weights": *"[a-z]*"' wauto/log.jsonl wauto/train.json | head -1
>~ *patched*
= 0
# Through the calls of an M2's driver: the bits of an M1's.
? part:lm
@ for d in registers registers:target=m2; do small --steps 12 --device $d --plan six --run r$d > r$d.log; done
? part:lm
$ cmp rregisters/model.safetensors rregisters:target=m2/model.safetensors && echo same
> same
= 0
? part:lm
$ small --steps 1 --weights patched --run d
2~ *device 'cpu' cannot *
= 1
? part:lm
$ propane train --data ids --tokenizer v.json --layers 2 --width 64 --heads 4 --context 32 --steps 1 --device accel --run c
2~ *no /dev/accel/accelN belongs to a Neural Engine*
= 1
