# Files as other programs write them.

# A compressed constant may consist of compressed constants: a palette in int8, in a sparse tensor.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [2, 4]> x) {\n        tensor<fp16, [1, 1, 2, 1]> lut = constexpr_blockwise_shift_scale()[data = tensor<int8, [1, 1, 2, 1]>([2, 4]), scale = tensor<fp16, [1, 1, 1, 1]>([0x1p-1])];\n        tensor<uint1, [2, 4]> mask, tensor<fp16, [3]> values = constexpr_lut_to_sparse()[indices_mask = tensor<uint1, [2, 4]>([1, 0, 0, 1, 0, 0, 1, 0]), indices_nonzero_data = tensor<uint1, [3]>([0, 1, 1]), lut = lut];\n        tensor<fp16, [2, 4]> w = constexpr_sparse_to_dense()[nonzero_data = values, mask = mask];\n        tensor<fp16, [2, 4]> zero = mul(x = x, y = fp16(0));\n        tensor<fp16, [2, 4]> y = add(x = zero, y = w);\n    } -> (y);\n}\n' > joint.mil
$ propane run joint.mil --seed 1 | grep output
> output y [2, 4]: min 0, max 2, mean 0.625
= 0

# Compiled models of other kinds: the error names their kind.
@ mkdir old.mlmodelc pipeline.mlmodelc && touch old.mlmodelc/coremldata.bin old.mlmodelc/model.espresso.net pipeline.mlmodelc/coremldata.bin
$ propane show old.mlmodelc
2> propane show: old.mlmodelc: a compiled neural network (model.espresso.net), whose format is documented nowhere; give the .mlmodel that it was compiled from
= 1
$ propane run pipeline.mlmodelc
2> propane run: pipeline.mlmodelc: a compiled model without model.mil: a pipeline, or not an ML Program; give the .mlpackage that it was compiled from
= 1

# Blocks that contain only literals, as scripted PyTorch writes them.
@ printf 'program(1.3)\n{\n    func main<ios15>(tensor<fp32, [3]> x) {\n        fp32 down = const()[val = fp32(-2)];\n        fp32 up = const()[val = fp32(2)];\n        fp32 mean = reduce_mean(x = x, keep_dims = false);\n        bool below = less(x = mean, y = fp32(1000));\n        fp32 scale = cond(pred = below) {\n        } -> (down), {\n        } -> (up);\n        tensor<fp32, [3]> zero = mul(x = x, y = fp32(0));\n        tensor<fp32, [3]> y = add(x = zero, y = scale);\n    } -> (y);\n}\n' > literals.mil
$ propane run literals.mil --seed 1 | grep output
> output y [3]: min -2, max -2, mean -2
= 0

# coremltools before 8.0 leaves 40 uninitialized bytes in a weight's record. They have no meaning where an element has 8 bits or more.
@ printf 'program(1.3)\n{\n    func main<ios15>(tensor<fp32, [1, 32]> x) {\n        tensor<fp32, [16, 32]> w = const()[val = tensor<fp32, [16, 32]>([%s])];\n        tensor<fp32, [1, 16]> y = linear(x = x, weight = w);\n    } -> (y);\n}\n' "$(awk 'BEGIN { for (i = 0; i < 512; i++) printf "%s%g", i ? ", " : "", i % 7 / 8 }')" > stray.mil
$ propane convert stray.mil stray.mlpackage > /dev/null && propane run stray.mlpackage --seed 1 | grep output > clean.txt && cat clean.txt
>~ output y \[1, 16\]: *
= 0
@ printf '%040d' 7 | dd of=stray.mlpackage/Data/com.apple.CoreML/weights/weight.bin bs=1 seek=88 conv=notrunc 2> dd.txt && mkdir compiled.mlmodelc && cp -r stray.mlpackage/Data/com.apple.CoreML/weights compiled.mlmodelc && propane convert stray.mlpackage compiled.mlmodelc/model.mil > /dev/null
$ propane run stray.mlpackage --seed 1 | grep output | cmp - clean.txt && propane check stray.mlpackage > /dev/null && propane show stray.mlpackage/Data/com.apple.CoreML/weights/weight.bin > /dev/null && propane show stray.mlpackage > /dev/null && propane estimate stray.mlpackage > /dev/null && propane diff stray.mlpackage --seed 1 > /dev/null && propane run compiled.mlmodelc --seed 1 | grep output | cmp - clean.txt
= 0
$ propane convert stray.mlpackage again.mlpackage > /dev/null && propane run again.mlpackage --seed 1 | grep output | cmp - clean.txt
= 0

# Constants without elements: values computed from them are empty too. Tensors that they are joined with or written to stay unchanged.
@ printf 'program(1.3)\n{\n    func main<ios16>(tensor<fp32, [2, 3]> x) {\n        tensor<fp32, [0, 3]> none = const()[val = tensor<fp32, [0, 3]>([])];\n        tensor<fp32, [0]> flat = const()[val = tensor<fp32, [0]>([])];\n        tensor<fp32, [4, 3]> a = concat(values = (x, none, x), axis = int32(0), interleave = bool(false));\n        tensor<fp32, [0, 3]> twice = mul(x = none, y = fp32(2));\n        tensor<fp32, [2, 3]> b = concat(values = (twice, x, tensor<fp32, [0, 3]>([])), axis = int32(-2), interleave = bool(false));\n        tensor<int32, [2]> c = shape(x = twice);\n        tensor<fp32, [3, 0]> rows = transpose(x = none, perm = tensor<int32, [2]>([1, 0]));\n        tensor<int32, [0]> at = const()[val = tensor<int32, [0]>([])];\n        tensor<fp32, [2, 3]> d = scatter(data = x, indices = at, updates = twice, axis = int32(0), mode = string("update"));\n        tensor<fp32, [6]> line = reshape(x = x, shape = tensor<int32, [1]>([-1]));\n        tensor<fp32, [6]> e = concat(values = (flat, line), axis = int32(0), interleave = bool(false));\n    } -> (a, b, c, d, e);\n}\n' > none.mil
@ printf 'program(1.3)\n{\n    func main<ios16>(tensor<fp32, [2, 3]> x) {\n        tensor<fp32, [4, 3]> a = concat(values = (x, x), axis = int32(0), interleave = bool(false));\n        tensor<fp32, [2, 3]> b = identity(x = x);\n        tensor<int32, [2]> c = const()[val = tensor<int32, [2]>([0, 3])];\n        tensor<fp32, [2, 3]> d = identity(x = x);\n        tensor<fp32, [6]> e = reshape(x = x, shape = tensor<int32, [1]>([6]));\n    } -> (a, b, c, d, e);\n}\n' > plain.mil
$ propane run none.mil --seed 3 --output out > /dev/null && propane convert none.mil none.mlpackage > /dev/null && propane run none.mlpackage --seed 3 --output kept > /dev/null && propane run plain.mil --seed 3 --output want > /dev/null && diff -r out want && diff -r kept want && ls out
> a.npy
> b.npy
> c.npy
> d.npy
> e.npy
= 0
$ sed 's/fp32, .2, 3.> d = scatter.*/fp32, [3]> d = reduce_mean(x = twice, axes = tensor<int32, [1]>([0]), keep_dims = false);/' none.mil > mean.mil; propane run mean.mil --seed 3
2> propane run: mean.mil:12:9: reduce_mean 'd': x 'twice' is empty, and the result of this operation is then undefined
= 1
$ sed 's/-> (a, /-> (twice, a, /' none.mil > result.mil; propane run result.mil --seed 3
2> propane run: result.mil: result 'twice' would be empty for these inputs
= 1
$ printf 'program(1.3)\n{\n    func main<ios16>(tensor<fp32, [0, 3]> x) {\n        tensor<fp32, [0, 3]> y = relu(x = x);\n    } -> (y);\n}\n' > input.mil; propane show input.mil
2~ propane show: input.mil*parameter 'x'*dimension 0 is 0*
= 1

# Operations that make empty tensors: no repetition, a slice that ends where it begins, sizes of 0. Products without rows are empty.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [2, 3]> x) {\n        tensor<fp32, [0, 6]> times = tile(x = x, reps = tensor<int32, [2]>([0, 2]));\n        tensor<fp32, [0, 3]> cut = slice_by_index(x = times, begin = tensor<int32, [2]>([0, 1]), end = tensor<int32, [2]>([0, 4]));\n        tensor<fp32, [2, 3]> a = concat(values = (cut, x), axis = int32(0), interleave = bool(false));\n        tensor<fp32, [2, 0]> part = slice_by_size(x = x, begin = tensor<int32, [2]>([0, 1]), size = tensor<int32, [2]>([-1, 0]));\n        tensor<fp32, [2, 3]> b = slice_update(x = x, update = part, begin = tensor<int32, [2]>([0, 2]), end = tensor<int32, [2]>([2, 2]));\n        tensor<fp32, [0, 4]> sums = linear(x = cut, weight = tensor<fp32, [4, 3]>([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));\n        tensor<int32, [2]> c = shape(x = sums);\n        tensor<fp32, [3, 0]> made = fill(shape = tensor<int32, [2]>([3, 0]), value = fp32(7));\n        tensor<fp32, [2, 0]> prod = matmul(x = x, y = made);\n        tensor<fp32, [2, 3]> d = concat(values = (prod, x, part), axis = int32(1), interleave = bool(false));\n        tensor<fp32, [2, 0]> p0, tensor<fp32, [2, 1]> p1, tensor<fp32, [2, 0]> p2, tensor<fp32, [2, 2]> p3 = split(x = x, split_sizes = tensor<int32, [4]>([0, 1, 0, 2]), axis = int32(-1));\n        tensor<fp32, [2, 3]> f = concat(values = (p0, p1, p2, p3), axis = int32(1), interleave = bool(false));\n        tensor<fp32, [0, 3]> q0, tensor<fp32, [2, 3]> g = split(x = x, split_sizes = tensor<int32, [2]>([0, 2]), axis = int32(0));\n        tensor<int32, [0]> steps = range_1d(start = int32(4), end = int32(4), step = int32(1));\n        tensor<int32, [2]> at = const()[val = tensor<int32, [2]>([5, 6])];\n        tensor<int32, [2]> e = concat(values = (steps, at), axis = int32(0), interleave = bool(false));\n    } -> (a, b, c, d, e, f, g, p3);\n}\n' > made.mil; printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [2, 3]> x) {\n        tensor<fp32, [2, 3]> a = identity(x = x);\n        tensor<fp32, [2, 3]> b = identity(x = x);\n        tensor<int32, [2]> c = const()[val = tensor<int32, [2]>([0, 4])];\n        tensor<fp32, [2, 3]> d = identity(x = x);\n        tensor<int32, [2]> e = const()[val = tensor<int32, [2]>([5, 6])];\n        tensor<fp32, [2, 3]> f = identity(x = x);\n        tensor<fp32, [2, 3]> g = identity(x = x);\n        tensor<fp32, [2, 2]> p3 = slice_by_size(x = x, begin = tensor<int32, [2]>([0, 1]), size = tensor<int32, [2]>([2, 2]));\n    } -> (a, b, c, d, e, f, g, p3);\n}\n' > simple.mil
$ propane run made.mil --seed 3 --output got > /dev/null && propane convert made.mil made.mlpackage > /dev/null && propane run made.mlpackage --seed 3 --output packed > /dev/null && propane run simple.mil --seed 3 --output asked > /dev/null && diff -r got asked && diff -r packed asked && ls got | wc -l | tr -d ' '
> 8
= 0
$ sed 's/-> (a, /-> (sums, a, /' made.mil > result.mil; propane run result.mil --seed 3
2> propane run: result.mil: result 'sums' would be empty for these inputs
= 1
$ sed 's/.0, 2.));$/[-1, 2]));/' made.mil > less.mil; propane run less.mil --seed 3
2> propane run: less.mil:4:9: tile 'times': reps[0] is -1; it must not be negative
= 1

# metadata.json in a compiled model: its description, images, and the order of inputs and outputs. A package keeps all of it.
@ mkdir told.mlmodelc twofold.mlmodelc; printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 1, ?, ?]> a, tensor<fp32, [1, 3, 4, 4]> b, tensor<fp32, [2]> c) [FlexibleShapeInformation = tuple<string>((("DefaultShapes", {{"a", [1, 1, 2, 3]}}), ("RangeDims", {{"a", [[1, 1], [1, 1], [2, 9], [3, -1]]}})))] {\n        tensor<fp32, [1, 1, ?, ?]> p = relu(x = a);\n        tensor<fp32, [1, 3, 4, 4]> q = relu(x = b);\n        tensor<fp32, [2]> r = relu(x = c);\n    } -> (p, q, r);\n}\n' > told.mlmodelc/model.mil; printf 'program(1.3)\n{\n    func one<ios16>(tensor<fp32, [2]> a, tensor<fp32, [3]> b) {\n        tensor<fp32, [2]> y = relu(x = a);\n        tensor<fp32, [3]> z = relu(x = b);\n    } -> (y, z);\n    func two<ios16>(tensor<fp32, [2]> a, tensor<fp32, [3]> b) {\n        tensor<fp32, [2]> y = relu(x = a);\n        tensor<fp32, [3]> z = relu(x = b);\n    } -> (y, z);\n}\n' > twofold.mlmodelc/model.mil
@ echo '[{"metadataOutputVersion": "3.0", "author": "Ann", "license": "MIT", "version": "2.1", "shortDescription": "Cats", "specificationVersion": 9, "userDefinedMetadata": {"k": "v", "n": 3}, "inputSchema": [{"name": "c", "type": "MultiArray", "isOptional": "1", "shortDescription": "two"}, {"name": "b", "type": "Image", "colorspace": "BGR", "isOptional": "0"}, {"name": "a", "type": "Image", "colorspace": "Grayscale"}], "outputSchema": [{"name": "r", "type": "MultiArray"}, {"name": "p", "type": "MultiArray"}, {"name": "q", "type": "MultiArray"}]}]' > told.mlmodelc/metadata.json; echo '[{"metadataOutputVersion": "3.0", "defaultFunctionName": "two", "functions": [{"name": "two", "inputSchema": [{"name": "b"}, {"name": "a"}], "outputSchema": [{"name": "z"}, {"name": "other"}]}]}]' > twofold.mlmodelc/metadata.json
$ propane show told.mlmodelc > told.txt; cat told.txt
> told.mlmodelc: Core ML model, MIL program(1.3), 1 function
>   specification version 9 (iOS 18, macOS 15 and later)
>   author: Ann
>   license: MIT
>   version: 2.1
>   description: Cats
>   k = "v"
> func main<ios18>: 3 operations, 5.6e-05 MFLOP, constants 0 B
>   input   tensor<fp32, [2]> c; optional; "two"
>           tensor<fp32, [1, 3, 4, 4]> b: an image, 4 x 4 (width x height), BGR
>           tensor<fp32, [1, 1, 2, 3]> a: an image, 3 x 2 (width x height), gray; allowed 1 x 1 x 2 to 9 x 3 or more
>   output  tensor<fp32, [2]> r
>           tensor<fp32, [1, 1, 2, 3]> p
>           tensor<fp32, [1, 3, 4, 4]> q
>   ops     relu 3
= 0
$ propane convert told.mlmodelc told.mlpackage > /dev/null; propane show told.mlpackage | sed 's/told.mlpackage/told.mlmodelc/' | diff - told.txt && propane run told.mlmodelc --seed 4 --output t1 > /dev/null && propane run told.mlpackage --seed 4 --output t2 > /dev/null && diff -r t1 t2 && propane run told.mlmodelc --seed 4 --shape a=1,1,9,3 | sed -n 's/:.*//; /output/p'
> output r [2]
> output p [1, 1, 9, 3]
> output q [1, 3, 4, 4]
= 0
$ propane show twofold.mlmodelc | grep -v MFLOP
> twofold.mlmodelc: Core ML model, MIL program(1.3), 2 functions
>   specification version 7 (iOS 16, macOS 13 and later)
>   input   tensor<fp32, [2]> a
>           tensor<fp32, [3]> b
>   output  tensor<fp32, [2]> y
>           tensor<fp32, [3]> z
>   ops     relu 2
>   input   tensor<fp32, [3]> b
>           tensor<fp32, [2]> a
>   output  tensor<fp32, [2]> y
>           tensor<fp32, [3]> z
>   ops     relu 2
= 0
$ echo '[{' > told.mlmodelc/metadata.json; propane run told.mlmodelc --seed 4
2~ propane run: told.mlmodelc/metadata.json: line 2, column *
= 1
$ echo '{"some": "text"}' > told.mlmodelc/metadata.json; propane run told.mlmodelc --seed 4 | sed -n 's/:.*//; /output/p'
> output p [1, 1, 2, 3]
> output q [1, 3, 4, 4]
> output r [2]
= 0

# Lists whose elements have named sizes take them from the written values, in a loop and from one list to the next.
@ printf 'program(1.3)\n{\n    func main<ios15>(tensor<fp32, [5, 2, 3]> x, tensor<fp32, [2, 3]> h) {\n        list<tensor<fp32, [?, 3]>, 5> in = make_list(init_length = int32(5), dynamic_length = false, elem_shape = (string("is1"), int32(3)), dtype = "fp32");\n        list<tensor<fp32, [?, ?]>, 5> out = make_list(init_length = int32(5), dynamic_length = true, elem_shape = (string("is2"), string("is3")), dtype = "fp32");\n        list<tensor<fp32, [?, 3]>, 5> given = list_scatter(ls = in, indices = tensor<int32, [5]>([0, 1, 2, 3, 4]), value = x);\n        int32 zero = const()[val = int32(0)];\n        int32 n = const()[val = int32(5)];\n        int32 last, list<tensor<fp32, [?, ?]>, 5> filled, tensor<fp32, [2, 3]> state = while_loop(loop_vars = (zero, out, h)) (int32 i, list<tensor<fp32, [?, ?]>, 5> l, tensor<fp32, [2, 3]> s) {\n            bool more = less(x = i, y = n);\n        } -> (more), (int32 j, list<tensor<fp32, [?, ?]>, 5> m, tensor<fp32, [2, 3]> t) {\n            tensor<fp32, [?, 3]> step = list_read(ls = given, index = j);\n            tensor<fp32, [?, 3]> sum = add(x = step, y = t);\n            list<tensor<fp32, [?, ?]>, 5> w = list_write(ls = m, index = j, value = sum);\n            int32 k = add(x = j, y = int32(1));\n            tensor<fp32, [2, 3]> u = mul(x = t, y = fp32(2));\n        } -> (k, w, u);\n        tensor<fp32, [5, ?, ?]> y = list_gather(ls = filled, indices = tensor<int32, [5]>([0, 1, 2, 3, 4]));\n    } -> (y, state);\n}\n' > named.mil
@ sed 's/string("is1")/int32(2)/; s/string("is2")/int32(2)/; s/string("is3")/int32(3)/' named.mil > sized.mil
$ propane run named.mil --seed 2 --output named > /dev/null && propane run sized.mil --seed 2 --output sized > /dev/null && diff -r named sized && propane show named.mil | grep output
>   output  tensor<fp32, [5, 2, 3]> y
= 0
$ propane convert named.mil named.mlpackage > /dev/null && propane run named.mlpackage --seed 2 --output again > /dev/null && diff -r again sized && propane check named.mlpackage > /dev/null
= 0
$ sed '/list_write/d; s/-> (k, w, u)/-> (k, m, u)/' named.mil > never.mil; propane show never.mil
2~ propane show: never.mil:5:9: make_list 'out': elem_shape names the size "is2", but no value of known shape that defines it is written to the list
= 1
$ sed 's/is1"), int32(3))/is1"))/' named.mil > wrong.mil; propane show wrong.mil
2~ propane show: wrong.mil:4:9: make_list 'in': elem_shape has 1 size, but the written value has rank 2
= 1

# Git LFS pointers instead of a model, its weights, or a compiled model's text.
@ printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 17000000\n' 0 > lfs.mlmodel; cp lfs.mlmodel lfs.mil; cp -r stray.mlpackage weights.mlpackage; cp lfs.mlmodel weights.mlpackage/Data/com.apple.CoreML/weights/weight.bin; cp -r stray.mlpackage inner.mlpackage; cp lfs.mlmodel inner.mlpackage/Data/com.apple.CoreML/model.mlmodel
? part:lm
$ for f in lfs.mlmodel lfs.mil; do propane show $f; done; for f in weights.mlpackage inner.mlpackage; do propane run $f --seed 1; done
2> propane show: lfs.mlmodel: it contains no program: it is a Git LFS pointer, not the file itself: run 'git lfs pull' in its folder
2> propane show: lfs.mil: it contains no program: it is a Git LFS pointer, not the file itself: run 'git lfs pull' in its folder
2> propane run: weights.mlpackage: weights.mlpackage/Data/com.apple.CoreML/weights/weight.bin: it contains no weights: it is a Git LFS pointer, not the file itself: run 'git lfs pull' in its folder
2> propane run: inner.mlpackage/Data/com.apple.CoreML/model.mlmodel: it contains no Core ML model: it is a Git LFS pointer, not the file itself: run 'git lfs pull' in its folder
= 1

# A file of several functions, none of them main.
@ printf 'program(1.3)\n{\n    func first<ios18>(tensor<fp32, [2]> x) {\n        tensor<fp32, [2]> y = relu(x = x);\n    } -> (y);\n    func second<ios18>(tensor<fp32, [2]> x) {\n        tensor<fp32, [2]> y = abs(x = x);\n    } -> (y);\n}\n' > several.mil
$ propane run several.mil --seed 1
2> propane run: several.mil: there is no function 'main'; the program has: first, second: choose one of them (--function)
= 1

# An operation between a list and the value written to it may itself be wrong.
@ printf 'program(1.3)\n{\n    func main<ios15>(tensor<fp32, [5, 2, 3]> x) {\n        list<tensor<fp32, [?, 3]>, 5> in = make_list(init_length = int32(5), dynamic_length = false, elem_shape = (string("is1"), int32(3)), dtype = "fp32");\n        int32 zero = const()[val = int32(0)];\n        int32 a, list<tensor<fp32, [?, 3]>, 5> b, list<tensor<fp32, [?, 3]>, 5> c = while_loop(loop_vars = (zero, in)) (int32 i, list<tensor<fp32, [?, 3]>, 5> l) {\n            bool more = less(x = i, y = int32(3));\n        } -> (more), (int32 j, list<tensor<fp32, [?, 3]>, 5> m) {\n            int32 k = add(x = j, y = int32(1));\n        } -> (k);\n        list<tensor<fp32, [?, 3]>, 5> w = list_write(ls = c, index = zero, value = x);\n        list<tensor<fp32, [?, 3]>, 5> w2 = list_write(ls = in, index = zero);\n        list<tensor<fp32, [?, 3]>, 5> w3 = list_write(index = zero, value = in);\n        tensor<fp32, [2, 3]> y = list_read(ls = w, index = zero);\n    } -> (y);\n}\n' > crooked.mil
$ propane show crooked.mil
2~ propane show: crooked.mil:4:9: make_list 'in': elem_shape names the size "is1", but no value of known shape that defines it is written *
= 1

# Compiled models contain the permitted shapes of their inputs: ranges, also without an upper bound, or a list.
@ for one in 'r ("RangeDims", {{"x", [[1, 4], [2, -1]]}})' 'l ("EnumeratedShapes", {{"a1", {{"x", [1, 2]}}}, {"b2", {{"x", [3, 2]}}}})' 'b ("RangeDims", {{"x", [[1, 4]'; do d=${one%% *}.mlmodelc; mkdir $d; printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [?, ?]> x) [FlexibleShapeInformation = tuple<string>((("DefaultShapes", {{"x", [1, 2]}}), %s))] {\n        tensor<fp32, [?, ?]> y = relu(x = x);\n    } -> (y);\n}\n' "${one#* }" > $d/model.mil; done
$ for s in 4,9 5,2 1,1; do propane run r.mlmodelc --seed 1 --shape x=$s | grep -c output; done
> 1
> 0
> 0
2> propane run: r.mlmodelc/model.mil: input 'x' cannot have the shape [5, 2]; the file allows [1..4, 2..]
2> propane run: r.mlmodelc/model.mil: input 'x' cannot have the shape [1, 1]; the file allows [1..4, 2..]
= 1
$ for s in 3,2 2,2; do propane run l.mlmodelc --seed 1 --shape x=$s | grep -c output; done
> 1
> 0
2> propane run: l.mlmodelc/model.mil: input 'x' cannot have the shape [2, 2]; the file allows [1, 2], [3, 2]
= 1
$ propane run l.mlmodelc --seed 1 | grep -c '\[1, 2\]'; propane run b.mlmodelc --seed 1
> 1
2~ propane run: b.mlmodelc/model.mil:3:* expected *
= 1
