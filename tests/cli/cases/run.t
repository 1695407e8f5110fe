# propane run and propane diff: programs with arrays, states and open shapes.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [2]> x, state<tensor<fp16, [2]>> acc) {\n        tensor<fp16, [2]> old = read_state(input = acc);\n        tensor<fp16, [2]> new = add(x = old, y = x);\n        write_state(data = new, input = acc);\n        tensor<fp16, [2]> y = mul(x = new, y = fp16(2));\n    } -> (y);\n}\n' > sum.mil
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, ?]> x) [FlexibleShapeInformation = tuple<string>((("DefaultShapes", {{"x", [1, 3]}}), ("RangeDims", {{"x", [[1, 1], [1, 9]]}})))] {\n        tensor<int32, [2]> s = shape(x = x);\n        tensor<int32, [1]> n = slice_by_size(x = s, begin = [1], size = [1]);\n        tensor<fp32, [?]> y = reshape(x = x, shape = n);\n        tensor<fp32, [?]> e = exp(x = y);\n        fp32 z = reduce_sum(x = e, axes = [0]);\n    } -> (z);\n}\n' > open.mil
@ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" > x.npy
@ printf '\000\000\200\077\000\000\000\100' >> x.npy

$ propane run sum.mil --input x=x.npy --output out | sed 's/[0-9.]* ms/T/g'
> 1 run: min T, median T, p90 T, p99 T
> output y [2]: min 2, max 4, mean 3
> output acc_out [2]: min 1, max 2, mean 1.5
> 2 arrays in out
= 0
# States persist: from run to run, and from file to file.
$ propane run sum.mil --input x=x.npy --iterations 3 | tail -2
> output y [2]: min 6, max 12, mean 9
> output acc_out [2]: min 3, max 6, mean 4.5
= 0
$ propane run sum.mil --input x=x.npy --input acc=out/acc.npy | tail -1
> output acc_out [2]: min 2, max 4, mean 3
= 0
$ propane run open.mil --seed 1 --precision fp32 --keep --output kept | tail -1
> 3 arrays in kept
= 0
$ propane run open.mil --seed 1 --shape x=1,5 --json --trace t.json > times && grep -c '"runs":1' times && grep -c traceEvents t.json
> 1
> 1
= 0
# An open input takes the shape of its array, for one run or for each of several.
@ npy() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': $2, }" > $1; head -c $3 /dev/zero >> $1; }; npy one.npy '(1,5)' 20; npy two.npy '(2,1,5)' 40
$ propane run open.mil --input x=one.npy | tail -1
> output z []: min 5, max 5, mean 5
= 0
$ propane run open.mil --input x=two.npy --json | grep -c '"runs":2'
> 1
= 0
$ propane diff open.mil --input x=one.npy | tail -1
> nothing differs by more than 0.01
= 0
$ propane run open.mil --input x=one.npy --shape x=1,4
2> propane run: input 'x' is [1, 4], but the array is [1, 5]
= 1
$ propane diff open.mil --seed 1 | tail -1
> nothing differs by more than 0.01
= 0
$ propane diff sum.mil open.mil --seed 1
2> propane diff: sum.mil and open.mil have no value of the same name and size
= 1
# Results keep their names, even if the driver computes them with other operations.
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [2, 4]> x) {\n        tensor<fp32, [2, 4]> y = layer_norm(x = x, axes = [1]);\n    } -> (y);\n}\n' > norm.mil
$ propane run norm.mil --seed 1 --output named | grep -c "output y" && ls named
> 1
> y.npy
= 0

# Where the time goes, by step and by operation.
$ propane run norm.mil --seed 1 --iterations 3 --profile | sed -n 's/^ *\([a-z_]*\) .* 100.0%.*/\1/p'
>~ all
= 0
$ propane run norm.mil --seed 1 --profile | grep -c '^step  operation *value *kernel *us  share   GFLOP/s      GB/s$'
> 1
= 0
$ propane run norm.mil --seed 1 --trace n.json | sed 1q | grep -c 'min' && grep -c '"name": "norm.mil"' n.json
> 1
> 1
= 0

# Errors.
$ propane run sum.mil
2> propane run: sum.mil: no value was given for x [2]: --input NAME=FILE, or --seed N for random numbers
= 1
$ propane run sum.mil --input y=x.npy
2> propane run: sum.mil: there is no input 'y'; available: x, acc
= 1
$ propane run open.mil --input x=x.npy
2> propane run: input 'x' is [1, 3], but the array is [2]
= 1
$ propane run open.mil --seed 1 --shape x=2,3
2> propane run: open.mil: input 'x' cannot have the shape [2, 3]; it is [1, ?]
= 1
$ propane run open.mil --seed 1 --shape q=2,3
2> propane run: open.mil: there is no input 'q' to give a shape to; the inputs are: x
= 1
$ propane run open.mil --seed 1 --shape x=1,
2> propane run: 'x=1,' must be NAME=1,3,224,224
= 1
$ propane run open.mil --seed 1 --shape x=99999999999999999999
2> propane run: 'x=99999999999999999999' must be NAME=1,3,224,224
= 1
$ propane run sum.mil --input x.npy
2> propane run: 'x.npy' must be NAME=FILE (.npy, .png, .jpg) or an .npz file
= 1
$ propane run sum.mil --seed 1 --function other
2> propane run: sum.mil: there is no function 'other'; the program has: main
= 1
$ propane run sum.mil --seed 1 --profile --json 2> table | grep -vc '^{.*}$'; grep -c '^step ' table
> 0
> 1
= 0
$ propane run sum.mil --seed 1 --profile --device null
2> propane run: --profile and --trace need the cpu device; null keeps no such record
= 1
$ propane run
2> propane run: MODEL is missing
2> Try 'propane run --help'.
= 2

# An array with an additional first dimension contains the values for several runs. States persist across them.
@ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }" > x3.npy
@ for i in 1 2 3; do printf '\000\000\200\077\000\000\000\100' >> x3.npy; done
$ propane run sum.mil --input x=x3.npy --output steps | sed 's/[0-9.]* ms/T/g'
> 3 runs: min T, median T, p90 T, p99 T
> output y [2]: min 6, max 12, mean 9
> output acc_out [2]: min 3, max 6, mean 4.5
> 2 arrays in steps
= 0
$ head -c 100 steps/y.npy | grep -ac "'shape': (3, 2)"; head -c 100 steps/acc.npy | grep -ac "'shape': (2,)"
> 1
> 1
= 0
$ propane run sum.mil --input x=x3.npy --iterations 6 | tail -1
> output acc_out [2]: min 6, max 12, mean 9
= 0

# Several functions: the default one, and one by name.
@ printf 'program(1.3)\n{\n    func first<ios18>(tensor<fp32, [2]> x) {\n        tensor<fp32, [2]> y = exp(x = x);\n    } -> (y);\n    func second<ios18>(tensor<fp32, [2]> x) {\n        tensor<fp32, [2]> z = mul(x = x, y = x);\n    } -> (z);\n}\n' > two.mil
$ propane convert two.mil two.mlpackage && propane run two.mlpackage --input x=x.npy --function second | tail -1
>~ two.mlpackage: a Core ML package with 2 functions
>~ output z*
= 0
$ propane run two.mlpackage --input x=x.npy --function third
2> propane run: two.mlpackage: there is no function 'third'; the program has: first, second
= 1

! part:images
# A classifier of images, with channels in the order blue, green, red: its label and the classes with the largest values.
@ cp "$REPO"/fuzz/corpus/package/classifier.mlmodel "$REPO"/fuzz/corpus/image/rgb.jpg "$REPO"/fuzz/corpus/image/gray16.png "$REPO"/fuzz/corpus/image/cmyk.jpg .
$ propane run classifier.mlmodel --input image=rgb.jpg --resize | sed 1d
>~ classLabel: a
= 0
$ propane run classifier.mlmodel --input image=gray16.png --resize | sed 1,2d
> classLabel: a
>   0.333333     a
>   0.333333     b
>   0.333333     c
= 0
$ propane run classifier.mlmodel --input image=rgb.jpg
2> propane run: input 'image' is [1, 3, 8, 8], but the image has 7 x 6 pixels: scale it to 8 x 8, or use --resize
= 1
$ propane run classifier.mlmodel --input image=cmyk.jpg --resize
2~ propane run: cmyk.jpg: not a readable JPEG file: *
= 1
$ propane diff classifier.mlmodel --input image=rgb.jpg --resize | tail -1
> nothing differs by more than 0.01
= 0
# A flag for images has no effect without one.
$ propane run classifier.mlmodel --seed 1 --resize; propane diff classifier.mlmodel --seed 1 --resize
2> propane run: --resize does not apply to a run without an image as --input
2> Try 'propane run --help'.
2> propane diff: --resize does not apply to a run without an image as --input
2> Try 'propane diff --help'.
= 2
