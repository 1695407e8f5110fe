# The root of a mean of squares whose result is stored with its channels innermost (found by tests/campaign/test_programs).
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 4, 6, 6]> x) {\n        tensor<fp32, [1, 4, 3, 3]> p = l2_pool(x = x, kernel_sizes = [2, 2], strides = [2, 2], pad_type = "valid")[name = string("p")];\n        tensor<fp32, [1, 3, 3, 4]> y = transpose(x = p, perm = [0, 2, 3, 1])[name = string("y")];\n    } -> (y);\n}\n' > m.mil
$ propane run m.mil --seed 1 | grep -c 'output y .1, 3, 3, 4.: min 0.841105, max 4.35571, mean 1.92673'
> 1
= 0
