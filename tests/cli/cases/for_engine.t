# propane convert --for-engine: a program rewritten by the fixes of the rules, compared with the original.
@ cp "$REPO"/tests/chip/cases/N1.bad.mil bad.mil; cp "$REPO"/tests/chip/cases/N1.good.mil good.mil; cp "$REPO"/tests/chip/cases/N6.bad.mil mask.mil
$ propane convert bad.mil out.mil --for-engine | grep -v bytes; propane check out.mil --path coreml | grep -c N1
> 1 times N1: softplus as max(x, 0) + log(1 + exp(-abs(x)))
> 256 numbers of random inputs (seed 1): none differs
> 0
= 1
# a package stays a package, and a program that needs no fix stays unchanged
$ propane convert bad.mil out.mlpackage --for-engine | sed -n 2p; propane convert good.mil same.mil --for-engine | grep -v bytes
> out.mlpackage: a Core ML package with 1 function
> nothing to rewrite: no rule's fix applies
> 256 numbers of random inputs (seed 1): none differs
= 0
# cut first, then rewritten
$ propane convert bad.mil cut.mil --for-engine --until k | grep -v bytes
> nothing to rewrite: no rule's fix applies
> 256 numbers of random inputs (seed 1): none differs
= 0
# a NaN may become a number
$ propane convert mask.mil out.mil --for-engine | head -1; propane run out.mil --seed 1 > log; grep -c -i nan log
> 1 times N6: a mask of minus infinity as -10000
> 0
= 1
$ propane convert bad.mil x.gguf --for-engine
2> propane convert: --for-engine is for programs that become a .mlpackage or .mil
2> Try 'propane convert --help'.
= 2
