# NaN and infinity: run and diff count them in outputs, name the operation that first produces them, and exit with 4.
@ prog() { printf 'program(1.3)\n{\n    func main<ios18>(%s) {\n%s\n    } -> (%s);\n}\n' "$1" "$2" "$3"; }; prog 'tensor<fp16, [2, 3]> x' '        tensor<fp16, [2, 3]> z = sub(x = x, y = x); tensor<fp16, [2, 3]> q = real_div(x = x, y = z); tensor<fp16, [2, 3]> r = sub(x = q, y = q); tensor<fp16, [2, 3]> ok = add(x = x, y = fp16(1));' 'ok, r, q' > div.mil; prog 'tensor<fp16, [2, 4]> x' '        fp16 m = cast(x = fp32(-3.4e38), dtype = string("fp16")); tensor<fp16, [2, 4]> s = add(x = x, y = m); tensor<fp16, [2, 4]> p = softmax(x = s, axis = int32(-1));' p > masked.mil; prog 'tensor<fp16, [2, 4]> x' '        tensor<fp32, [2, 4]> low = const()[val = tensor<fp32, [2, 4]>([[0, 0, -3.4e38, -3.4e38], [0, -3.4e38, -3.4e38, -3.4e38]])]; tensor<fp16, [2, 4]> m = cast(x = low, dtype = string("fp16")); tensor<fp16, [2, 4]> s = add(x = x, y = m); tensor<fp16, [2, 4]> p = softmax(x = s, axis = int32(-1));' p > absorbed.mil; prog 'tensor<fp32, [2]> x' '        tensor<fp32, [2]> y = mul(x = x, y = fp32(2));' y > double.mil; prog 'tensor<fp32, [2]> x' '        tensor<fp32, [2]> e = exp(x = x); fp32 s = reduce_sum(x = e, axes = [0]); tensor<fp32, [2]> y = real_div(x = e, y = s);' y > naive.mil; prog 'tensor<fp16, [2]> x, state<tensor<fp16, [2]>> acc' '        tensor<fp16, [2]> old = read_state(input = acc); tensor<fp16, [2]> kept = mul(x = old, y = fp16(200)); tensor<fp16, [2]> new = add(x = kept, y = x); write_state(data = new, input = acc); tensor<fp16, [2]> y = mul(x = new, y = fp16(0));' y > grows.mil
@ npy() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': $2, }" > $1; printf "$3" >> $1; }; npy nan.npy '(2,)' '\000\000\200\077\000\000\300\177'; npy inf.npy '(2,)' '\000\000\200\077\000\000\200\177'; npy low.npy '(2,)' '\000\000\200\377\000\000\200\377'; npy large.npy '(2,)' '\000\000\200\077\000\000\310\102'; npy steps.npy '(3,2)' '\000\000\200\077\000\000\200\077\000\000\200\077\000\000\310\102\000\000\200\077\000\000\000\000'; npy one.npy '(2,)' '\000\000\200\077\000\000\000\100'

$ propane run div.mil --seed 1 | grep output
> output ok [2, 3]: min -0.904297, max 3.23828, mean 0.742106
> output r [2, 3]: no finite number; 6 NaN
> output q [2, 3]: no finite number; 6 infinities
2> propane run: output 'r' has 6 NaN of 6 (and 1 other output): real_div 'q' produces the first of them from finite numbers (6 infinities of 6); sub 'r' makes NaN of infinities (6 NaN of 6)
= 0
$ propane run div.mil --seed 1 > /dev/null
2~ propane run: output 'r' has 6 NaN of 6 *
= 4
$ propane run div.mil --seed 1 --keep --output kept > /dev/null; echo $?; ls kept
> 4
> ok.npy
> q.npy
> r.npy
> z.npy
2~ propane run: output 'r' has 6 NaN of 6 (and 1 other output): real_div 'q' *
= 0
$ propane run div.mil --seed 1 --json 2> /dev/null | sed 's/.*"simulated"/"simulated"/'
> "simulated":false,"outputs":[{"name":"ok","numbers":6,"nan":0,"infinite":0},{"name":"r","numbers":6,"nan":6,"infinite":0},{"name":"q","numbers":6,"nan":0,"infinite":6}],"nonfinite":{"text":"real_div 'q' produces the first of them from finite numbers (6 infinities of 6); sub 'r' makes NaN of infinities (6 NaN of 6)","from":"operation","name":"q","op":"real_div","made":true,"nan":6,"infinite":6}}
= 0
$ propane diff div.mil --seed 1
>~ A: output 'r' has 6 NaN of 6
>~ B: real_div 'q' produces the first of them *
>~ where both sides are finite, no value differs by more than 0.01
= 4
$ propane diff div.mil --seed 1 --json | grep -o '"nonfinite":{"a":{"text":"real_div'
> "nonfinite":{"a":{"text":"real_div
= 0

# A row that a mask of finfo(fp32).min hides completely: NaN in fp16, but not in fp32. If any number is left, softmax removes the infinity.
$ propane run masked.mil --seed 1 > /dev/null
2> propane run: output 'p' has 8 NaN of 8: cast 'm' produces the first of them from finite numbers (1 infinity of 1); softmax 'p' makes NaN of infinities (8 NaN of 8)
= 4
$ propane run masked.mil --seed 1 --precision fp32 > /dev/null
= 0
$ propane diff masked.mil --seed 1 | tail -3
> B: output 'p' has 8 NaN of 8
> B: cast 'm' produces the first of them from finite numbers (1 infinity of 1); softmax 'p' makes NaN of infinities (8 NaN of 8)
> they differ at cast 'm': infinite on one side
= 0
$ propane diff masked.mil --seed 1 > /dev/null
= 4
$ propane run absorbed.mil --seed 1 | tail -1
> output p [2, 4]: min 0, max 1, mean 0.25
= 0
$ propane diff absorbed.mil --seed 1 | tail -1
> nothing differs by more than 0.01
= 0
$ propane run absorbed.mil --seed 1 --keep --json | grep -o '"outputs":.*'
> "outputs":[{"name":"p","numbers":8,"nan":0,"infinite":0}],"nonfinite":null}
= 0

# On the simulator, too.
@ prog() { printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 4, 1, 8]> x) {\n%s\n    } -> (y);\n}\n' "$1"; }; prog '        tensor<fp16, [1, 4, 1, 8]> s = mul(x = x, y = x); tensor<fp16, [1, 4, 1, 8]> n = mul(x = s, y = fp16(-1)); tensor<fp16, [1, 4, 1, 8]> r = sqrt(x = n); tensor<fp16, [1, 4, 1, 8]> y = add(x = r, y = x);' > root.mil
$ propane run root.mil --seed 1 --device sim:m4 > /dev/null
2~ propane run: output 'y' has 32 NaN of 32: sqrt 'r' produces the first of them from finite numbers (32 NaN of 32)
= 4
$ propane diff root.mil --seed 1 --device-b sim:m4 | tail -1
> where both sides are finite, no value differs by more than 0.01
= 0

# A constant that is infinite: of the package, or a literal.
@ sed 's/fp32(-3.4e38)/fp32(-inf)/' masked.mil > literal.mil; sed 's/-3.4e38/-inf/g; s/\[\[0, 0, /[[-inf, -inf, /' absorbed.mil > constant.mil; grep -c inf literal.mil constant.mil > found
$ propane run literal.mil --seed 1 > /dev/null
2> propane run: output 'p' has 8 NaN of 8: a constant of cast 'm' holds 1 infinity; softmax 'p' makes NaN of infinities (8 NaN of 8)
= 4
$ propane run constant.mil --seed 1 --json 2>&1 > told | cut -c 1-110; grep -o '"from".*' told
> propane run: output 'p' has 4 NaN of 8: constant 'low' (of cast 'm') holds 7 infinities; softmax 'p' makes NaN
> "from":"operation","name":"p","op":"softmax","made":true,"nan":4,"infinite":0}}
= 0

# Non-finite inputs are not a fault. NaN that an operation makes from their infinities is one.
$ propane run double.mil --input x=nan.npy | tail -1
> output y [2]: min 2, max 2, mean 2 of the finite numbers; 1 NaN
2> propane run: output 'y' has 1 NaN of 2: input 'x' holds 1 NaN, and no operation produces any
= 0
$ propane run double.mil --input x=inf.npy > /dev/null
2> propane run: output 'y' has 1 infinity of 2: input 'x' holds 1 infinity, and no operation produces any
= 0
$ propane diff double.mil --input x=nan.npy | tail -2
> B: input 'x' holds 1 NaN, and no operation produces any
> where both sides are finite, no value differs by more than 0.01
= 0
$ propane diff double.mil --input x=nan.npy > /dev/null
= 0
$ propane run naive.mil --input x=inf.npy > /dev/null
2> propane run: output 'y' has 1 NaN of 2: input 'x' holds 1 infinity; real_div 'y' makes NaN of infinities (1 NaN of 2)
= 4
$ propane run naive.mil --input x=large.npy > /dev/null
2> propane run: output 'y' has 1 NaN of 2: exp 'e' produces the first of them from finite numbers (1 infinity of 2); real_div 'y' makes NaN of infinities (1 NaN of 2)
= 4
# One of several runs, and a state that grows.
$ propane run naive.mil --input x=steps.npy > told
2> propane run: output 'y' has 1 NaN of 6: exp 'e' produces the first of them from finite numbers (1 infinity of 2); real_div 'y' makes NaN of infinities (1 NaN of 2)
= 4
$ propane run grows.mil --input x=one.npy --iterations 2 > /dev/null
= 0
$ propane run grows.mil --input x=one.npy --warmup 1 --iterations 4 > /dev/null
2~ propane run: output 'y' has 2 NaN of 2 (and 1 other output): mul 'kept' produces the first of them from finite numbers (1 infinity of 2)
= 4

# diff in parts of a megabyte: the same values in the same order, the same outputs, and the same first non-finite places.
@ awk 'BEGIN { print "program(1.3)\n{\n    func main<ios16>(tensor<fp16, [32, 64, 64]> x) {"; p = "x"; for (i = 0; i < 24; i++) { op = i % 3 == 0 ? "sigmoid(x = " p ")" : i % 3 == 1 ? "add(x = " p ", y = fp16(0.25))" : "mul(x = " p ", y = " p ")"; printf "        tensor<fp16, [32, 64, 64]> v%d = %s;\n", i, op; p = "v" i } print "    } -> (v11, v23);\n}" }' > parts.mil
@ sed 's/add(x = v12, y = fp16(0.25))/log(x = fp16(-1))/; s/fp16, .32, 64, 64.> v13/fp16, []> v13/; s/mul(x = v13, y = v13)/mul(x = v12, y = v13)/' parts.mil > broken.mil
$ propane diff parts.mil --seed 1 --ops > whole; propane diff parts.mil --seed 1 --ops --memory 1 | cmp - whole && grep -c '^v[0-9]' whole && propane diff parts.mil --seed 1 --json --memory 1 | grep -o '"output":true' | wc -l | tr -d ' '
> 24
> 2
= 0
$ propane diff broken.mil --seed 1 --memory 1 > part; echo $?; propane diff broken.mil --seed 1 | cmp - part; grep -c "^A: output 'v23'" part; grep -o 'log .v13.' part | sort -u
> 4
> 1
> log 'v13'
= 0
