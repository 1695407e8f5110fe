# propane convert --until: a program cut after one operation, whose results become the outputs.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 4]> x, state<tensor<fp16, [1, 4]>> s) {\n        tensor<fp16, [1, 4]> a = add(x = x, y = fp16(1));\n        tensor<fp16, [1, 4]> unused = exp(x = x);\n        tensor<fp16, [1, 2]> p, tensor<fp16, [1, 2]> q = split(x = a, num_splits = int32(2), axis = int32(1));\n        tensor<bool, [1, 2]> g = greater(x = p, y = q);\n        tensor<fp16, [1, 4]> m = read_state(input = s);\n        tensor<fp16, [1, 4]> y = mul(x = a, y = m);\n        write_state(input = s, data = y);\n    } -> (y);\n}\n' > w.mil; propane convert w.mil w.mlpackage > log
$ propane convert w.mlpackage a.mlpackage --until a; propane convert a.mlpackage a.mil > log; grep -c ' = ' a.mil; grep -e '->' -e func a.mil
> a.mlpackage: a Core ML package with 1 function
> 1
>     func main<ios18>(tensor<fp16, [1, 4]> x, state<tensor<fp16, [1, 4]>> s) {
>     } -> (a);
= 0
# an operation with two results gives both; the values are those of the whole program
$ propane convert w.mlpackage q.mlpackage --until q > log; propane run q.mlpackage --seed 1 | grep output | cut -d: -f1
> output p [1, 2]
> output q [1, 2]
= 0
@ propane convert w.mil q.mil --until q > log; propane run q.mlpackage --seed 1 --output one > log; propane run q.mil --seed 1 --output two > log; cmp one/q.npy two/q.npy
# inputs and states stay, also a state that is no longer written
$ propane show q.mlpackage | grep -c -e 'input .* x$' -e 'state .* s$' -e 'output .* p$' -e ' q$'
> 4
= 0
$ propane convert w.mlpackage g.mlpackage --until g; ls g.mlpackage 2>&1 | head -1
2> propane convert: 'g' (greater) cannot be an output, because it is bool; name an operation that computes fp16, fp32 or int32, such as one that reads it
>~ *g.mlpackage*
= 0
$ propane convert w.mlpackage g.mlpackage --until nothing
2~ propane convert: w.mlpackage: function 'main' has no operation outside blocks that produces 'nothing'; *
= 1
$ propane convert w.mlpackage m.safetensors --until a
2> propane convert: --until is for programs that become a .mlpackage or .mil
2> Try 'propane convert --help'.
= 2
# bisection finds the operation; here a part is refused if it reads the state, and a Boolean cannot be an output
? python3
$ python3 "$REPO"/tools/find_refused.py w.mlpackage --try '! propane show {} | grep -q read_state' | tail -2
> refused from here on: greater 'g', read_state 'm' (5 of 6), or an operation that it alone reads; 3 parts were tried
> the last that is taken: split 'p'
= 0
