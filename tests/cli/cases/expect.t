# Recorded outputs: equal ones, different ones, NaN instead of a number, and unknown names.
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 4]> x) {\n        tensor<fp32, [1, 4]> y = exp(x = x)[name = string("y")];\n        tensor<fp32, [1, 4]> z = sqrt(x = x)[name = string("z")];\n    } -> (y, z);\n}\n' > both.mil
$ propane run both.mil --seed 1 --output recorded > /dev/null 2>&1; propane diff both.mil --seed 1 --expect recorded
> 2 values compared; the largest relative difference is 0 (y)
> nothing differs by more than 0.01
= 0
$ cp recorded/y.npy recorded/z.npy; propane diff both.mil --seed 1 --expect recorded > told; echo $?; tail -3 told
> 4
> B: output 'z' has 3 NaN of 4
> B: sqrt 'z' produces the first of them from finite numbers (3 NaN of 4)
> they differ at value 'z': by inf, more than 0.01
= 0
$ rm recorded/z.npy; propane diff both.mil --seed 2 --expect recorded | tail -1; mkdir nothing
>~ they differ at value 'y': *
= 0
$ propane diff both.mil --seed 1 --expect nothing
2> propane diff: nothing: it records no output of both.mil
= 1
$ propane diff both.mil --seed 1 --expect recorded/y.npy
2~ propane diff: recorded/y.npy: not an .npz archive*
= 1
$ propane diff both.mil both.mil --expect recorded
2> propane diff: --expect replaces B and cannot be combined with --html
2> Try 'propane diff --help'.
= 2
