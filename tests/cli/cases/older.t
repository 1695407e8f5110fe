# Models of Core ML's older kinds: read as programs, written as packages, or refused with advice.

$ propane convert "$REPO/tests/mil/older/tables.mlmodel" tables.mlpackage
> tables.mlpackage: a Core ML package with 1 function
> input 'room count' becomes 'room_count': MIL does not allow its name
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

# A network of the first versions may get a sequence and a batch dimension before the described ones.
$ propane run "$REPO/tests/mil/older/functions.mlmodel" --shape x=2,3,6 --seed 1 | grep -o -e 'output half .*]' -e 'output permute .*]'
> output permute [2, 3, 2, 3, 2]
> output half [2, 3, 3, 1, 1]
= 0
$ propane run "$REPO/tests/mil/older/functions.mlmodel" --shape x=2,3,5 --seed 1
2~ propane run: *input 'x' cannot have the shape \[2, 3, 5\]*
= 1

# A message with one empty field: 301, 302, 2002, and a pipeline (202) of 602 and 401.
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

# Text and dictionaries are passed as they are, with the names of the file. The written package takes arrays and keeps the keys.
@ printf 'program(1.3)\n{\n    func main<ios15>() {\n        tensor<fp32, [1]> area = const()[name = string("area"), val = tensor<fp32, [1]>([0.5])];\n    } -> (area);\n}\n' > half.mil && propane run half.mil --output . > half.txt; printf '{"pool": 2, "balcony": 6}' > words.json
$ propane run "$REPO/tests/mil/older/categories.mlmodel" --input 'place of it=harbour' --input words=words.json --input area=area.npy | grep output
> output price [1]: min 13.25, max 13.25, mean 13.25
= 0
$ propane convert "$REPO/tests/mil/older/categories.mlmodel" keyed.mlpackage
> keyed.mlpackage: a Core ML package with 1 function
> input 'place of it' becomes 'place_of_it': MIL does not allow its name
> input 'place_of_it', a text, becomes an array [3]: 1 at the text's place in the list that the metadata "propane.keys.place_of_it" contains, and 0 elsewhere
> input 'words', a dictionary, becomes an array [5]: its numbers in the order of the keys in the metadata "propane.keys.words", 0 for a missing key
= 0
$ propane run keyed.mlpackage --input place_of_it=harbour --input 'words={"pool": 2, "balcony": 6}' --input area=area.npy | grep output
> output price [1]: min 13.25, max 13.25, mean 13.25
= 0
$ propane show "$REPO/tests/mil/older/categories.mlmodel" | grep -A1 'input '
>   input   tensor<fp32, [3]> place_of_it (in the file: "place of it"): text, one of 3: old town, harbour, Zürich
>           tensor<fp32, [5]> words: a dictionary of numbers by 5 keys: pool, garden, two\x0alines, 7, 
= 0
$ propane run "$REPO/tests/mil/older/categories.mlmodel" --input 'place of it=Mond'
2> propane run: input 'place of it' does not know 'Mond'; it must be one of: 'old town', 'harbour', 'Zürich'
= 1
$ propane run "$REPO/tests/mil/older/categories.mlmodel" --input words=pool
2> propane run: input 'words': 'pool' must be a dictionary, {"key": 1, ...}, a .json file with one, or an array (.npy)
= 1
$ propane run "$REPO/tests/mil/older/categories.mlmodel" --input 'words={"pool": "two"}'
2> propane run: input 'words': the value of 'pool' must be a number
= 1
$ propane run "$REPO/tests/mil/older/mapping.mlmodel" --input colour=violet | grep output
> output code [1]: min 7, max 7, mean 7
= 0
$ propane run "$REPO/tests/mil/older/columns.mlmodel" --seed 1 | grep -e output -e class
> output odds of it [2]: min 0.165597, max 0.834403, mean 0.5
> the class: no
= 0
