# diff says so where values are too small for fp16, and only there.
@ for s in 0x1p-22 0x1p-12; do printf '%s\n' 'program(1.3)' '{' 'func main<ios18>(tensor<fp16, [64]> x) {' "fp16 s = const()[name = string(\"s\"), val = fp16($s)];" 'tensor<fp16, [64]> y = mul(x = x, y = s)[name = string("y")];' '} -> (y);' '}' > $s.mil; done
$ propane diff 0x1p-22.mil --seed 1 --tolerance 1e-6 | tail -1
> all of 'y' is below 6.1e-5, fp16's smallest normal number, where fp16 has few digits: weights that are not trained may be the reason
= 0
$ propane diff 0x1p-12.mil --seed 1 --tolerance 1e-6 | grep -c 'smallest normal'
> 0
= 1
