# propane gradient: the gradient of a program, written as a program that the other commands accept.
@ printf '%s\n' 'program(1.3)' '{' 'func main<ios18>(tensor<fp32, [2, 3]> x, tensor<fp32, [3]> w) {' 'tensor<fp32, [2, 3]> p = mul(x = x, y = w)[name = string("p")];' 'tensor<fp32, []> loss = reduce_sum(x = p, axes = tensor<int32, [2]>([0, 1]), keep_dims = bool(false))[name = string("loss")];' '} -> (loss);' '}' > f.mil
$ propane gradient f.mil g.mil --wrt w
> inputs: x, w, d_loss
> outputs: loss, d_w
= 0
# by hand: d_w is the sum of x over its rows, times d_loss
? python3
$ printf '%s\n' 'import struct' 'def write(name, shape, values):' '    head = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode().ljust(117) + bytes([10])' '    open(name, "wb").write(bytes([147]) + b"NUMPY" + bytes([1, 0, 118, 0]) + head + struct.pack("<%df" % len(values), *values))' 'write("x.npy", (2, 3), [1, 2, 3, 10, 20, 30])' 'write("w.npy", (3,), [1, 1, 1])' 'write("one.npy", (), [2])' > arrays.py && python3 arrays.py && propane run g.mil -i x=x.npy -i w=w.npy -i d_loss=one.npy -o out > log && python3 -c "import struct; print(struct.unpack('<3f', open('out/d_w.npy', 'rb').read()[-12:]))"
> (22.0, 44.0, 66.0)
= 0
$ propane gradient f.mil g.mlpackage && propane check g.mlpackage --target m4 > log
> inputs: x, w, d_loss
> outputs: loss, d_x, d_w
= 0
$ propane gradient f.mil h.mil --wrt w,y
2> propane gradient: function 'main' has no parameter 'y' to differentiate with respect to
= 1
$ propane gradient f.mil h.mil --wrt w,
2> propane gradient: --wrt 'w,': give names, separated by commas
= 1
$ propane gradient f.mil h
2> propane gradient: OUT must be called NAME.mil or NAME.mlpackage, not 'h'
2> Try 'propane gradient --help'.
= 2

# A slice of known size has a gradient even if an input gives its beginning. An operation whose shape only a run determines is named.
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [4, 6, 2]> x, tensor<int32, [3]> b) {\n        tensor<fp32, [2, 3, 2]> s = slice_by_size(x = x, begin = b, size = tensor<int32, [3]>([2, 3, 2]));\n        tensor<fp32, [6, 2]> t = slice_by_index(x = x, begin = b, end = b, begin_mask = tensor<bool, [3]>([false, true, true]), end_mask = tensor<bool, [3]>([false, true, true]), squeeze_mask = tensor<bool, [3]>([true, false, false]));\n        tensor<fp32, [2, 3, 2]> y = mul(x = s, y = s);\n        tensor<fp32, [6, 2]> z = sin(x = t);\n    } -> (y, z);\n}\n' > begin.mil
@ sed 's/begin = b, /begin = tensor<int32, [3]>([1, 2, 0]), /; s/end = b, /end = tensor<int32, [3]>([1, 2, 0]), /' begin.mil > fixed.mil
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1]> u) {\n        tensor<fp32, [1]> v = relu(x = u);\n        tensor<int32, [3]> b = const()[val = tensor<int32, [3]>([1, 2, 0])];\n    } -> (b, v);\n}\n' > b.mil
$ propane run b.mil --seed 1 --output b > /dev/null; for n in begin fixed; do propane gradient $n.mil g_$n.mil --wrt x && propane run g_$n.mil --seed 5 --input b=b/b.npy --output g_$n > /dev/null; done; diff -r g_begin g_fixed && ls g_begin
> inputs: x, b, d_y, d_z
> outputs: y, z, d_x
> inputs: x, b, d_y, d_z
> outputs: y, z, d_x
> d_x.npy
> y.npy
> z.npy
= 0
$ sed 's/tensor<int32, .3.>(.2, 3, 2.)/b/; s/fp32, .2, 3, 2.> \([sy]\)/fp32, [?, ?, ?]> \1/' begin.mil > sizes.mil; propane gradient sizes.mil g.mil
2~ propane gradient: sizes.mil:4:9: slice_by_size 's': its shape depends on a run-time value, * or slice with a constant size
= 1
