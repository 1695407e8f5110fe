# A refused program: --bisect compiles parts of it until it can name the operation.
@ printf 'program(1.3)\n[buildInfo = dict<string, string>({{"a", "b"}})]\n{\n    func main<ios18>(%s x) {\n' 'tensor<fp16, [1, 4, 1, 32]>' > m.mil
@ echo '        tensor<fp16, [1, 4, 1, 32]> a = add(x = x, y = x)[name = string("a")];' >> m.mil
@ echo '        tensor<fp16, [4, 4, 1, 1]> w = const()[name = string("w"), val = tensor<fp16, [4, 4, 1, 1]>([[[[1]], [[2]], [[3]], [[4]]], [[[5]], [[6]], [[7]], [[8]]], [[[1]], [[2]], [[3]], [[4]]], [[[5]], [[6]], [[7]], [[8]]]])];' >> m.mil
@ echo '        tensor<fp16, [1, 1, 1, 32]> k = const()[name = string("k"), val = tensor<fp16, [1, 1, 1, 32]>([[[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32]]]])];' >> m.mil
@ echo '        string pt = const()[name = string("pt"), val = string("valid")];' >> m.mil
@ echo '        tensor<fp16, [1, 4, 1, 32]> b = conv(x = a, weight = w, pad_type = pt)[name = string("b")];' >> m.mil
@ echo '        tensor<fp16, [1, 4, 1, 32]> c = mul(x = b, y = k)[name = string("c")];' >> m.mil
@ echo '        tensor<fp16, [1, 4, 1, 32]> d = sin(x = c)[name = string("d")];' >> m.mil
@ echo '        tensor<fp16, [1, 4, 1, 32]> e = tanh(x = d)[name = string("e")];' >> m.mil
@ echo '        tensor<fp16, [1, 4, 1, 32]> y = sub(x = e, y = b)[name = string("y")];' >> m.mil
@ printf '    } -> (y);\n}\n' >> m.mil
# A rule of a simulated chip.
$ propane run m.mil --seed 1 --device sim:m1 --bisect 2> err; echo $?; tail -1 err; grep -c . err
>~ 1
>~ propane run: sin 'd' is refused even on its own (operation 4 of 6; those before it are accepted); rule O2 knows it on h12 h13: *; the smallest refused program (1 operation) is refused/model.mil ?9 programs compiled, 6 refused?: function 'main', sin 'd': rule O2 refuses it on M1: *
= 0
$ propane run refused/model.mil --seed 1 --device sim:m1
2~ propane run: function 'main', sin 'd': rule O2 refuses it on M1: *
= 1
$ propane check refused/model.mil --target m1
>~ *O2*
= 1
# No existing file is overwritten, and an accepted program simply runs.
$ propane run m.mil --seed 1 --device sim:m1 --bisect --output out 2> /dev/null; cat out/refused/model.mil | cmp - refused/model.mil; touch refused/mine; propane run m.mil --seed 1 --device sim:m1 --bisect 2> /dev/null; rm err; ls
> m.mil
> out
> refused
> refused-2
= 0
$ propane run m.mil --seed 1 --device sim:m4 --bisect
>~ output y *
= 0
# A device that can compile no more programs.
$ propane run m.mil --seed 1 --device 'sim:m1?budget=2' --bisect 2>&1 | tail -1
>~ propane run: no more programs can be compiled (*); the refused operation is one of mul 'c' to sub 'y'; the smallest refused program (6 operations) is refused-3/model.mil *
= 0
# An output that cannot be written.
$ mkdir shut; : > shut/refused-x; propane run m.mil --seed 1 --device sim:m1 --bisect --output m.mil 2>&1 | tail -1
>~ propane run: sin 'd' is refused*; the smallest refused program was not written: *
= 0
! ldd
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so; rm -rf refused*
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=refuse_op=tanh propane run m.mil --seed 1 --device ane
2~ propane run: ane: Apple's compiler refuses 'main' *; --bisect of 'propane run' and 'propane train' names the operation
= 1
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=refuse_op=tanh propane run m.mil --seed 1 --device ane --bisect 2>&1 | tail -1
>~ propane run: tanh 'e' is refused even on its own (operation 5 of 6; *; no rule covers this; *refused/model.mil * ane: Apple's compiler refuses 'main' *
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=refuse_op=mul+tanh propane run m.mil --seed 1 --device ane --bisect 2>&1 | tail -1; ls refused-2 refused-2/weights
>~ propane run: tanh 'e' is refused together with mul 'c', but accepted on its own (operation 5 of 6; *; no rule covers this; the smallest refused program (2 operations) is refused-2/model.mil *
>~ weight.bin
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=refuse_op=mul+tanh propane run refused-2/model.mil --seed 1 --device ane:client --bisect 2>&1 | tail -1
>~ propane run: tanh 'e' is refused together with mul 'c', but accepted on its own (operation 2 of 2; *
= 0
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=compile=invalid,compile_at=1 propane run m.mil --seed 1 --device ane --bisect 2>&1 | tail -1
>~ propane run: a second compilation succeeded: results vary, so try again *: ane: Apple's compiler refuses 'main' *
= 0
# Kernels of a training step, and the two programs of a package's training.
@ for i in 1 2 3 4 5 6 7 8; do cat $REPO/docs/architecture.md; done | head -c 30000 > text.txt; echo 'train --data text.txt --kind bytes --layers 1 --width 32 --heads 2 --steps 2 --batch 1 --context 32 --precision fp16 --plan six' > args
? part:lm
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=refuse_op=softmax propane $(cat args) --device ane --run plain
2~ propane train: kernel 'fwdAttn': ane: Apple's compiler refuses 'fwdAttn' *; --bisect of 'propane run' and 'propane train' names the operation
= 1
? part:lm
$ for p in auto on; do PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=refuse_op=softmax propane $(cat args) --device "ane?procedures=$p" --run run-$p --bisect 2>&1 | tail -1; ls run-$p; grep -c softmax run-$p/refused/model.mil; done
>~ propane train: kernel 'fwdAttn': softmax 'probs' is refused even on its own (operation * of *; *; no rule covers this; the smallest refused program (1 operation) is run-auto/refused/model.mil *
>~ propane train: kernel 'fwdAttn': softmax 'probs' *run-on/refused/model.mil *
= 0
? part:lm
$ PROPANE_ANE_LIBRARY=$PWD/standin.so PROPANE_STANDIN=refuse_op=silu propane $(cat args) --device 'ane?procedures=off&dispatch=standard' --weights baked --run baked --bisect 2>&1 | tail -1
>~ propane train: kernel 'fwdFFN': silu 'silu' is refused even on its own *
= 0
? part:lm
$ PROPANE_ANE_LIBRARY=$PWD/standin.so propane $(cat args) --device ane --run run-auto
>~ done: 2 steps in *
= 0
