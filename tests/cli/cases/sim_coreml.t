# sim:CHIP handles a program according to its file. A bare program runs whole, as with the engine's compiler. One from a Core ML file
# goes through Core ML, which moves operations that the engine refuses to the CPU.
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp16, [1, 64]> x, tensor<fp32, [1, 64]> z, tensor<int32, [3]> n) {\n        int32 axis = const()[name = string("axis"), val = int32(1)];\n        bool no = const()[name = string("no"), val = bool(false)];\n        tensor<fp16, [1, 64]> s = sigmoid(x = x)[name = string("s")];\n        tensor<fp16, [1, 64]> c = cumsum(x = s, axis = axis, exclusive = no, reverse = no)[name = string("c")];\n        tensor<fp16, [1, 64]> y = relu(x = c)[name = string("y")];\n        tensor<fp32, [1, 64]> w = exp(x = z)[name = string("w")];\n        tensor<int32, [3]> k = add(x = n, y = n)[name = string("k")];\n    } -> (y, w, k);\n}\n' > c.mil
@ propane convert c.mil C.mlpackage > log; mkdir C.mlmodelc; cp c.mil C.mlmodelc/model.mil
$ propane run c.mil --seed 1 --device sim:m4
2~ propane run: function 'main', cumsum 'c': rule O1 refuses it on M4: *
= 1
$ propane run C.mlpackage --seed 1 --device sim:m4 | grep -c output; propane run C.mlmodelc --seed 1 --device sim:m4 | grep -c output
> 3
> 3
= 0
# the switch overrides this, both ways
$ propane run C.mlpackage --seed 1 --device 'sim:m4?path=0'
2~ propane run: function 'main', cumsum 'c': rule O1 refuses it on M4: *
= 1
$ propane run c.mil --seed 1 --device 'sim:m4?path=1' | grep -c output
> 3
= 0
# moved operations compute as on the CPU: fp32 (rule R9) keeps its bits, but the engine's sigmoid uses the table
$ propane diff C.mlpackage --device-a cpu --device-b sim:m4 --seed 1 --ops --tolerance 0.01 | awk '$1 == "w" || $1 == "k" {print $1, $NF} $1 == "s" {print $1, ($NF > 0 ? "differs" : "equal")}'
> s differs
> w 0.00e+00
> k 0.00e+00
= 0
# a change of sides takes time, on every chip
$ for c in m1 m2-pro m3 m4 m5 a17-pro; do propane run C.mlpackage --seed 1 --device sim:$c | grep -c output; done | sort -u
> 3
= 0
# joint compression: an operation on compressed weights gives a constant for the next operation and for the program
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [2, 3]> x) {\n        tensor<uint1, [2, 3]> mask = const()[val = tensor<uint1, [2, 3]>([[1, 0, 1], [0, 1, 1]])];\n        tensor<int8, [4]> data = const()[val = tensor<int8, [4]>([3, -4, 5, 6])];\n        tensor<fp16, [2, 1]> scale = const()[val = tensor<fp16, [2, 1]>([[0.5], [0.25]])];\n        tensor<uint1, [2, 3]> m, tensor<fp16, [4]> d = constexpr_sparse_blockwise_shift_scale(data_mask = mask, nonzero_data = data, scale = scale)[name = string("d")];\n        tensor<fp16, [2, 3]> w = constexpr_sparse_to_dense(nonzero_data = d, mask = m)[name = string("w")];\n        tensor<fp16, [2, 3]> y = mul(x = x, y = w)[name = string("y")];\n        tensor<fp16, [4]> e = add(x = d, y = d)[name = string("e")];\n    } -> (y, e);\n}\n' > joint.mil
$ for d in cpu 'sim:m4?path=1' 'sim:m1?path=1'; do propane run joint.mil --seed 1 --device "$d" | sed -n 's/^output e \[4\]: //p'; done
> min -4, max 3, mean 1.125
> min -4, max 3, mean 1.125
> min -4, max 3, mean 1.125
= 0
# a product of floats and integers runs on the CPU
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp16, [2, 3]> x) {\n        tensor<int32, [3, 2]> n = const()[val = tensor<int32, [3, 2]>([[1, 2], [3, 4], [-5, 6]])];\n        tensor<fp16, [2, 2]> y = matmul(x = x, y = n)[name = string("y")];\n    } -> (y);\n}\n' > mixed.mil
$ propane diff mixed.mil --device-a cpu --device-b 'sim:m4?path=1' --seed 1 --tolerance 0.01 | tail -1
> nothing differs by more than 0.01
= 0
# a list that a loop fills stays on the CPU, with all operations between its own; operations on values read from it return to the engine
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [3, 2]> x, tensor<fp16, [2]> h) {\n        tensor<fp16, [3, 2]> y = relu(x = x)[name = string("y")];\n        list<tensor<fp16, [2]>, 3> ls = make_list(init_length = int32(3), dynamic_length = false, elem_shape = (int32(2)), dtype = "fp16");\n        int32 zero = const()[val = int32(0)];\n        int32 n = const()[val = int32(3)];\n        tensor<fp16, [3, 2]> between = abs(x = x)[name = string("between")];\n        int32 last, list<tensor<fp16, [2]>, 3> filled, tensor<fp16, [2]> state = while_loop(loop_vars = (zero, ls, h)) (int32 i, list<tensor<fp16, [2]>, 3> l, tensor<fp16, [2]> s) {\n            bool more = less(x = i, y = n);\n        } -> (more), (int32 j, list<tensor<fp16, [2]>, 3> m, tensor<fp16, [2]> t) {\n            tensor<fp16, [2]> row = gather(x = y, indices = j, axis = int32(0), batch_dims = int32(0), validate_indices = bool(false));\n            tensor<fp16, [2]> u = add(x = row, y = t);\n            list<tensor<fp16, [2]>, 3> w = list_write(ls = m, index = j, value = u);\n            int32 k = add(x = j, y = int32(1));\n        } -> (k, w, u);\n        tensor<int32, [3]> all = const()[val = tensor<int32, [3]>([0, 1, 2])];\n        tensor<fp16, [3, 2]> g = list_gather(ls = filled, indices = all)[name = string("g")];\n        tensor<fp16, [3, 2]> z = add(x = g, y = between)[name = string("z")];\n    } -> (z, between, state);\n}\n' > list.mil
$ for c in m1 m4; do propane diff list.mil --device-a cpu --device-b "sim:$c?path=1" --seed 1 --tolerance 0.01 | tail -1; done
> nothing differs by more than 0.01
> nothing differs by more than 0.01
= 0
