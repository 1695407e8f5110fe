# Large products by a library that is loaded at run time: the tests' stand-in for a CBLAS, and libraries that cannot be used.
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/cpu/cblas/cblas_double.so" blas.so; test -f blas.so
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [130, 150]> x, tensor<fp32, [150, 140]> y) {\n        bool no = const()[name = string("no"), val = bool(false)];\n        tensor<fp32, [130, 140]> z = matmul(x = x, y = y, transpose_x = no, transpose_y = no)[name = string("z")];\n    } -> (z);\n}\n' > product.mil
@ for i in 1 2 3 4; do cat $REPO/docs/architecture.md; done | head -c 20000 > text.txt; mkdir cache
@ echo 'train --data text.txt --kind bytes --layers 1 --width 128 --heads 2 --steps 4 --batch 2 --context 64 --eval-every 0 --eval-batches 1 --no-report' > args

# The default on systems other than Apple's: Propane's own kernels, whatever is installed.
$ propane run product.mil --seed 1 --output own > /dev/null; propane run product.mil --seed 1 --blas off --output off > /dev/null; cmp own/z.npy off/z.npy && echo same
> same
= 0
$ propane run product.mil --seed 1 --blas $PWD/blas.so --profile | grep -c ' z  *blas '
> 1
= 0
$ PROPANE_BLAS=$PWD/blas.so propane devices | tr -s ' \n' ' '; echo
>~ *cpu yes *large products: */blas.so *bf16: * a library computes both ane *
= 0
# auto measures: the stand-in is slow. The measurement is kept.
$ XDG_CACHE_HOME=$PWD/cache propane run product.mil --seed 1 --blas auto:$PWD/blas.so --profile | grep -c ' z  *gemm ' && sed 's/: .*//; s/.* 130 140/130 140/' cache/propane/products.txt
> 1
> 130 140 150 1 0 sr-sr-sr
= 0
$ XDG_CACHE_HOME=$PWD/cache sh -c 'sed -i.old "s/: .*/: 20 10/" cache/propane/products.txt; propane run product.mil --seed 1 --blas auto:$PWD/blas.so --profile | grep -c " z  *blas "'
> 1
= 0

# A run that trains with the library learns the same, and reports which products used it.
? part:lm
$ propane $(cat args) --run own-run --json | grep '"step":4,.*"loss"' | sed 's/.*"loss":\([0-9]*\.[0-9][0-9]\).*/\1/' > own-loss; propane $(cat args) --blas $PWD/blas.so --run other-run --json --profile > log; grep '"step":4,.*"loss"' log | sed 's/.*"loss":\([0-9]*\.[0-9][0-9]\).*/\1/' | cmp - own-loss && test -s own-loss && grep -c '"event":"products","library_calls":[1-9][0-9]*,"own_calls":0' log
> 1
= 0
? part:lm
$ propane $(cat args) --blas $PWD/blas.so --run third-run --profile | grep 'large matrix products'
>~ large matrix products: * by */blas.so (100% of the arithmetic), 0 by the built-in kernels
= 0

# A library that cannot be used is reported; auto continues without it.
$ propane run product.mil --seed 1 --blas ./none.so
2~ propane run: *--blas (PROPANE_BLAS): ./none.so cannot be loaded: *; give another library, or off
= 1
$ CBLAS_DOUBLE=wrong propane run product.mil --seed 1 --blas $PWD/blas.so
2~ propane run: *blas.so gives a wrong product *; give another library, or off*
= 1
$ CBLAS_DOUBLE=wrong propane run product.mil --seed 1 --blas auto:$PWD/blas.so --profile | grep -c ' z  *gemm '
> 1
2~ propane: *blas.so gives a wrong product *; give another library, or off*; using the built-in kernels for all matrix products
= 0
$ propane run product.mil --seed 1 --blas ''
2> propane run: --blas: the value is empty
2> Try 'propane run --help'.
= 2
