# diff warns where values are too small for fp16, and only there.
@ for s in 0x1p-22 0x1p-12; do printf '%s\n' 'program(1.3)' '{' 'func main<ios18>(tensor<fp16, [64]> x) {' "fp16 s = const()[name = string(\"s\"), val = fp16($s)];" 'tensor<fp16, [64]> y = mul(x = x, y = s)[name = string("y")];' '} -> (y);' '}' > $s.mil; done
$ propane diff 0x1p-22.mil --seed 1 --tolerance 1e-6 | tail -1
> all values of 'y' are below 6.1e-5, the smallest normal fp16 number, where fp16 has few digits; untrained weights may be the reason
= 0
$ propane diff 0x1p-12.mil --seed 1 --tolerance 1e-6 | grep -c 'smallest normal'
> 0
= 1
