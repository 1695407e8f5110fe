# Models of Core ML's older kinds: read as programs, written as packages, or refused with what to do.

$ propane convert "$REPO/tests/mil/older/tables.mlmodel" tables.mlpackage
> tables.mlpackage: a Core ML package with 1 function
= 0
$ propane show tables.mlpackage | grep -A4 input
>   input   tensor<fp32, [1]> room_count
>           tensor<fp32, [1]> area
>           tensor<fp32, [3]> place
>   output  tensor<fp32, [1]> price
>   ops     const 16, add 3, mul 2, real_div 1, equal 2, select 1, cast 2, reduce_l2_norm 1, linear 1, reshape 2, concat 1
= 0
$ propane run "$REPO/tests/mil/older/tables.mlmodel" --seed 3 | grep output > old.txt && propane run tables.mlpackage --seed 3 | grep output | cmp - old.txt
= 0
$ propane run "$REPO/tests/mil/older/image_classifier.mlmodel" --seed 1 | grep -c -e ant -e bee -e cat
> 4
= 0
$ propane check "$REPO/tests/mil/older/images.mlmodel" --target m4 > checked.txt; test $? -le 1 && propane estimate "$REPO/tests/mil/older/functions.mlmodel" > /dev/null && propane diff "$REPO/tests/mil/older/sequences.mlmodel" --seed 1 > /dev/null
= 0

$ propane show "$REPO/tests/mil/older/control.mlmodel" | grep contains && propane show "$REPO/tests/mil/older/tables.mlmodel" | grep -e contains -e specification
>   the file contains a neural network of the older format, version 4, which is read as a program
>   specification version 6 (iOS 15, macOS 12 and later)
>   the file contains a pipeline with models of older kinds, which is read as a program
= 0

# A network of the first versions may be given a sequence and a batch in front of what it describes.
$ propane run "$REPO/tests/mil/older/functions.mlmodel" --shape x=2,3,6 --seed 1 | grep -o -e 'output half .*]' -e 'output permute .*]'
> output permute [2, 3, 2, 3, 2]
> output half [2, 3, 3, 1, 1]
= 0
$ propane run "$REPO/tests/mil/older/functions.mlmodel" --shape x=2,3,5 --seed 1
2~ propane run: *input 'x' cannot have the shape \[2, 3, 5\]*
= 1

# A message of one empty field: 301, 302, 2002, and a pipeline (202) of 602 and 401.
@ printf '\010\001\352\022\000' > vectors.mlmodel && printf '\010\001\362\022\000' > tree.mlmodel && printf '\010\001\222\175\000' > print.mlmodel && printf '\010\001\322\014\014\012\004\010\001\222\031\012\004pick\022\004tree' > cut.mlmodel && printf '\010\001\322\014\005\012\003\212\031\000' > pipeline.mlmodel
$ propane show vectors.mlmodel
2> propane show: vectors.mlmodel: this is a support vector regressor, which Propane does not support; no tool converts it to an ML Program: predict with the library that trained it, or train a linear model or a small neural network in its place
= 1
$ propane show tree.mlmodel
2> propane show: tree.mlmodel: the model has no input
= 1
$ propane run print.mlmodel --seed 1
2> propane run: print.mlmodel: this is Apple's vision feature print, which Propane does not support; its first half is part of Apple's systems and not in the file: train your own network (in PyTorch, for example) and convert it with coremltools, ct.convert(..., convert_to="mlprogram")
= 1
$ propane show pipeline.mlmodel
2> propane show: pipeline.mlmodel: model '1' of the pipeline is a support vector classifier, which Propane does not support; no tool converts it to an ML Program: predict with the library that trained it, or train a linear model or a small neural network in its place
= 1
$ propane show cut.mlmodel
2~ propane show: cut.mlmodel: not a Core ML model file: *
= 1

# A pipeline of 603 and 602: the part that cannot be read is named, not what a later part misses without it.
@ printf '\010\001\322\014\012\012\003\332\045\000\012\003\322\045\000' > words.mlmodel
$ propane show words.mlmodel
2> propane show: words.mlmodel: model '1' of the pipeline is a vectorizer of dictionaries, which Propane does not support; ML Programs have no string or dictionary inputs: encode the column in the app and convert the rest
= 1
