# Fine-tuning of imported programs: arrays and images in, a package out, and errors.
@ printf 'printf "\\223NUMPY\\001\\000\\166\\000"; printf "%%-117s\\n" "$(printf "{\\047descr\\047: \\047%%s\\047, \\047fortran_order\\047: False, \\047shape\\047: (%%s), }" "$1" "$2")"; printf "$3"\n' > ../bin/npy; chmod +x ../bin/npy
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, 2]> x) {\n        tensor<fp32, [1, 2]> w = const()[name = string("w"), val = tensor<fp32, [1, 2]>([[1, 1]])];\n        tensor<fp32, [1]> b = const()[name = string("b"), val = tensor<fp32, [1]>([0])];\n        tensor<fp32, [1, 1]> y = linear(x = x, weight = w, bias = b);\n    } -> (y);\n}\n' > line.mil
@ sed 's/fp32, \[1, 2\]> w/fp32, [2, 2]> w/; s/\[1, 2\]>(\[\[1, 1\]\])/[2, 2]>([[1, 0], [0, 1]])/; s/fp32, \[1\]>(\[0\])/fp32, [2]>([0, 0])/; s/fp32, \[1\]> b/fp32, [2]> b/; s/fp32, \[1, 1\]> y/fp32, [1, 2]> y/' line.mil > two.mil
@ mkdir reg cls few odd long empty; npy '<f4' '4, 2' '\000\000\200\077\000\000\000\000\000\000\000\000\000\000\200\077\000\000\200\077\000\000\200\077\000\000\000\100\000\000\200\077' | tee cls/x.npy long/x.npy few/x.npy > reg/x.npy
@ npy '<f4' '4, 1' '\000\000\000\100\000\000\200\277\000\000\200\077\000\000\100\100' > reg/y.npy; npy '<i4' '4,' '\000\000\000\000\001\000\000\000\000\000\000\000\000\000\000\000' > cls/y.npy
@ npy '<i4' '3,' '\000\000\000\000\001\000\000\000\000\000\000\000' > few/y.npy; npy '<i4' '4,' '\000\000\000\000\001\000\000\000\000\000\000\000\002\000\000\000' > long/y.npy
@ npy '<f4' '1, 3' '\000\000\200\077\000\000\000\000\000\000\000\000' > odd/x.npy; npy '<i4' '1,' '\000\000\000\000' > odd/y.npy

# y = 2 x0 - x1 is learned and written as a package.
$ propane train line.mil --data reg --loss mse --trainable '*' --lr 0.05 --steps 300 --batch 4 --val-fraction 0 --run line > line.log; head -5 line.log && tail -1 line.log | sed 's/in [0-9.]* s/in T/'
> line.mil: 2 of 2 weights are trained, 3 numbers
> operations: 1, differentiated: 1, for gradients: 5
> reg: 4 samples to train on, 0 to validate with
> 300 steps = 300 epochs of 4 samples
> loss mse
> done: 300 steps in T; package line/model.mlpackage
= 0
$ propane run line/model.mlpackage --input x=one.npy --output out
2> propane run: cannot open one.npy: No such file or directory
= 1
$ npy '<f4' '1, 2' '\000\000\100\100\000\000\200\077' > one.npy; propane run line/model.mlpackage --input x=one.npy | sed 's/[0-9.]* ms/T/g' | tail -1
>~ output y * mean [45]*
= 0
$ ls line; grep -c '"unit":"samples"' line/log.jsonl; grep -c "Samples per second" line/report.html
> checkpoint.safetensors
> log.jsonl
> model.mlpackage
> report.html
> train.json
> 1
> 1
= 0
# A slice of known size may begin where a sample's value says. A range may not end there.
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, 2]> x, tensor<int32, [1]> at) {\n        tensor<fp32, [1, 2]> w = const()[name = string("w"), val = tensor<fp32, [1, 2]>([[1, 1]])];\n        tensor<int32, [1]> zero = const()[name = string("zero"), val = tensor<int32, [1]>([0])];\n        tensor<fp32, [1, 2]> all = mul(x = x, y = w);\n        tensor<int32, [2]> begin = concat(values = (zero, at), axis = int32(0), interleave = bool(false));\n        tensor<fp32, [1, 1]> y = slice_by_size(x = all, begin = begin, size = tensor<int32, [2]>([1, 1]));\n    } -> (y);\n}\n' > at.mil
@ sed '/int32, \[2\]> begin/d; /tensor<int32, \[1\]> zero/d; s/ y = slice_by_size.*/ y = reduce_sum(x = part, axes = tensor<int32, [1]>([1]), keep_dims = bool(true));/; s/^\(.*\)tensor<fp32, \[1, 2\]> all.*/&@\1int32 end = squeeze(x = at, axes = tensor<int32, [1]>([0]));@\1tensor<int32, [?]> places = range_1d(start = int32(0), end = end, step = int32(1));@\1tensor<fp32, [1, ?]> part = gather(x = all, indices = places, axis = int32(1));/' at.mil | tr @ '\n' > range.mil
@ mkdir window; cp reg/x.npy reg/y.npy window; npy '<i4' '4, 1' '\000\000\000\000\001\000\000\000\001\000\000\000\000\000\000\000' > window/at.npy
$ propane train at.mil --data window --loss mse --trainable w --lr 0.05 --steps 300 --batch 1 --val-fraction 0 --run at > at.log; sed -n 1,2p at.log; npy '<i4' '1,' '\001\000\000\000' > place.npy; propane run at/model.mlpackage --input x=one.npy --input at=place.npy | grep -c 'output y'
> at.mil: 1 of 1 weights are trained, 2 numbers
> operations: 6, differentiated: 3, for gradients: 10
> 1
= 0
$ propane train range.mil --data window --loss mse --trainable w --run range
2~ propane train: range.mil:*: range_1d 'places': its shape depends on a run-time value, end, but gradients need known shapes: make it a constant
= 1
# Only b is trained: w stays unchanged.
$ propane train line.mil --data reg --loss mse --trainable b --steps 3 --batch 4 --run b > b.log; head -1 b.log; propane convert b/model.mlpackage b.mil > log; grep -c '(\[\[*0x1p+*0, 0x1p+*0' b.mil
> line.mil: 1 of 2 weights are trained, 1 numbers
> 1
= 0
# Stopped and resumed: the same numbers, and the options of the run.
$ propane train two.mil --data cls --loss cross_entropy --trainable '*' --steps 6 --batch 2 --accumulate 2 --val-fraction 0.25 --run whole --json > whole.log; tail -1 whole.log
>~ {"event":"done","step":6,"seconds":*,"val_loss":*,"val_accuracy":*}
= 0
$ propane train two.mil --data cls --loss cross_entropy --trainable '*' --steps 4 --batch 2 --accumulate 2 --val-fraction 0.25 --run part > log; propane train two.mil --data cls --val-fraction 0.25 --steps 6 --resume --run part | grep resumed; cmp part/model.mlpackage/Data/com.apple.CoreML/model.mlmodel whole/model.mlpackage/Data/com.apple.CoreML/model.mlmodel
> resumed after step 4
= 0
# A checkpoint of version 0.1, in which the metadata was one JSON object, resumes to the same bits.
$ mkdir first; cp "$REPO/tests/data/checkpoints/finetune_0_1.safetensors" first/checkpoint.safetensors; propane train two.mil --data cls --val-fraction 0.25 --steps 6 --resume --run first | grep resumed; cmp first/model.mlpackage/Data/com.apple.CoreML/model.mlmodel whole/model.mlpackage/Data/com.apple.CoreML/model.mlmodel; cmp first/checkpoint.safetensors whole/checkpoint.safetensors
> resumed after step 4
= 0
$ propane train two.mil --data cls --val-fraction 0.25 --steps 7 --lr 1 --resume --run first
2> propane train: first/checkpoint.safetensors was written with --lr 0.0001, not 1; resume with the same, or start a new run in another folder
= 1
$ propane watch part --once > part.watch; sed -n 2p part.watch; grep -c samples/s part.watch
> two.mil: 6 numbers are trained, 3 samples, loss cross_entropy; cpu
> 1
= 0

# Errors.
$ propane train line.mil --data reg
2> propane train: --loss is missing; give mse or cross_entropy
2> Try 'propane train --help'.
= 2
$ propane train line.mil --data reg --loss mse
2> propane train: --trainable is missing; name the weights to train ('*' means all)
2> Try 'propane train --help'.
= 2
$ propane train line.mil --data reg --loss mse --trainable '*' --steps 2 --epochs 3
2> propane train: --steps and --epochs both set the length of the run; give only one
2> Try 'propane train --help'.
= 2
$ propane train line.mil --data reg --loss hinge --trainable '*'
2> propane train: --loss: 'hinge' is not one of mse|cross_entropy
2> Try 'propane train --help'.
= 2
$ propane train line.mil --data reg --loss mse --trainable 'conv*' --run no
2> propane train: line.mil: --trainable 'conv*' leaves nothing to train; the closest of its 2 weights are: w, b
= 1
$ propane train line.mil --data reg --loss cross_entropy --trainable '*' --run no
2> propane train: line.mil: output 'y' has one class, but cross_entropy needs at least two: give --loss mse
= 1
$ propane train line.mil --data cls --loss mse --trainable '*' --output z --run no
2> propane train: line.mil: there is no floating-point output 'z'; the outputs are: y
= 1
$ propane train two.mil --data empty --loss cross_entropy --trainable '*' --run no
2> propane train: two.mil: images need a program with one input [1, 1 or 3, height, width]; for other programs give arrays: DIR/NAME.npy for each input, and DIR/y.npy
= 1
$ propane train two.mil --data nowhere --loss cross_entropy --trainable '*' --run no
2> propane train: cannot open nowhere: there is no such folder
= 1
$ propane train two.mil --data few --loss cross_entropy --trainable '*' --run no
2> propane train: few: array x has 4 samples, but y has 3
= 1
$ propane train two.mil --data odd --loss cross_entropy --trainable '*' --run no
2> propane train: odd: array x is [1, 3]; each sample must be [1, 2], with the number of samples as first dimension
= 1
$ propane train two.mil --data reg --loss cross_entropy --trainable '*' --run no
2> propane train: reg: array y contains floats, but integers are needed
= 1
$ propane train two.mil --data long --loss cross_entropy --trainable '*' --batch 4 --val-fraction 0 --run no
2> propane train: sample 3 has class 2, but the output has 2 classes, 0 to 1 (-1 means none)
= 1
$ propane train line.mil --data reg --loss mse --trainable '*' --run line
2> propane train: line already contains a run: continue it with: propane train --resume line, or give another --run
= 1
$ propane train line.mil --data reg --loss mse --trainable '*' --resume --run no
2> propane train: no: there is no checkpoint to resume from; leave out --resume to start a new run
= 1
$ npy '<f4' '1, 2' '\000\000\200\177\000\000\000\000' > odd/x.npy; npy '<f4' '1, 1' '\000\000\200\077' > odd/y.npy; propane train line.mil --data odd --loss mse --trainable '*' --steps 3 --batch 1 --run no > no.log
2> propane train: step 1: the loss is NaN or infinite: the training has diverged; start again with a smaller --lr, or check the data for numbers that are too large
= 1
$ propane train line.mil --data reg --mean 0.5 --loss mse --trainable '*' --run other
2> propane train: reg contains arrays, but --mean and --std apply to images
= 1
# Images in class folders.
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, 3, 2, 2]> x) {\n        tensor<fp32, [2, 12]> w = const()[name = string("w"), val = tensor<fp32, [2, 12]>([[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]])];\n        tensor<fp32, [1, 12]> f = reshape(x = x, shape = [1, 12]);\n        tensor<fp32, [1, 2]> y = linear(x = f, weight = w);\n    } -> (y);\n}\n' > image.mil
@ mkdir -p pics/cat pics/dog three/a three/b three/c none/cat none/dog
$ propane train image.mil --data none --loss cross_entropy --trainable '*' --run no2
2> propane train: none: its 2 class folders hold no images (.png, .jpg)
= 1
$ propane train image.mil --data three --loss cross_entropy --trainable '*' --run no2
2> propane train: three has 3 class folders (a ... c), but the program's output has 2 classes
= 1
$ propane train image.mil --data empty --loss cross_entropy --trainable '*' --run no2
2> propane train: empty: it has nothing to train on: neither arrays (x.npy and y.npy, train.npz) nor folders of images, one per class
= 1
$ propane train image.mil --data none --loss cross_entropy --trainable '*' --mean 1,2 --run no2
2> propane train: --mean is '1,2'; give one number, or one for each of the 3 channels
= 1
$ echo no > pics/cat/a.png; propane train image.mil --data pics --loss cross_entropy --trainable '*' --val-fraction 0 --run no2
2~ propane train: pics/cat/a.png: n*
= 1
! part:images
@ rm pics/cat/a.png; cp "$REPO/fuzz/corpus/image/rgb.jpg" "$REPO/fuzz/corpus/image/rgba.png" pics/cat; cp "$REPO/fuzz/corpus/image/palette.png" "$REPO/fuzz/corpus/image/gray.jpg" pics/dog
$ propane train image.mil --data pics --loss cross_entropy --trainable '*' --val-fraction 0 --run no3
2> propane train: pics/cat/rgb.jpg has 7 x 6 pixels, but the program's input has 2 x 2: scale the images, or use --resize
= 1
$ propane train image.mil --data pics --loss cross_entropy --trainable '*' --val-fraction 0.25 --resize --steps 300 --lr 0.1 --batch 3 --no-shuffle --run pics-run > pics.log; sed -n 3,5p pics.log; grep -c 'step 300  validation' pics.log
> 2 classes of images
> pics: 3 samples to train on, 1 to validate with
> 300 steps = 300 epochs of 3 samples
> 1
= 0
# Two classes without a difference would stay at ln 2 = 0.69.
$ grep '"step":300,"loss"' pics-run/log.jsonl | sed 's/.*"loss":\([0-9.e-]*\).*/\1/' | awk '{print ($1 < 0.3) ? "learnt" : $1}'
> learnt
= 0
# In parts, with a class folder that only the second part contains.
@ mkdir -p parts/train parts/val/cat parts/val/fox; cp -r pics/cat pics/dog parts/train; cp pics/cat/rgb.jpg parts/val/cat; cp pics/cat/rgb.jpg parts/val/fox
$ propane train image.mil --data parts --loss cross_entropy --trainable '*' --resize --steps 2 --run no4
2> propane train: parts/val/fox: this class has no folder in the training data
= 1
$ rm -r parts/val/fox; propane train image.mil --data parts --loss cross_entropy --trainable '*' --resize --steps 2 --run parts-run | sed -n 4p
> parts: 4 samples to train on, 1 to validate with
= 0

# The class axis is the one that the labels lack: logits [1, 3, 2] with labels [3] per sample. Two of the same length are ambiguous.
@ mkdir seq sym; npy '<f4' '2, 3, 2' '\000\000\200\077\000\000\000\100\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\200\077\000\000\000\100\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000' > seq/x.npy; npy '<i4' '2, 3' '\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000' > seq/y.npy
@ npy '<f4' '2, 2, 2' '\000\000\200\077\000\000\000\100\000\000\000\000\000\000\000\000\000\000\200\077\000\000\000\100\000\000\000\000\000\000\000\000' > sym/x.npy; npy '<i4' '2, 2' '\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000' > sym/y.npy
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, 3, 2]> x) {\n        tensor<fp32, [2, 2]> w = const()[name = string("w"), val = tensor<fp32, [2, 2]>([[1, 0], [0, 1]])];\n        tensor<fp32, [1, 3, 2]> y = linear(x = x, weight = w);\n    } -> (y);\n}\n' > seq.mil; sed 's/1, 3, 2/1, 2, 2/g' seq.mil > sym.mil; awk '/^    } ->/ {print "        tensor<fp32, [1, 2, 2]> y = softmax(x = z, axis = int32(-1));"} {sub(/ y = linear/, " z = linear"); print}' sym.mil > soft.mil
@ printf 'n=$1; shift; propane train "$@" --loss cross_entropy --trainable w --steps 1 --lr 1e-9 --batch 2 --no-shuffle --val-fraction 0 --run $n --json > $n.log && sed -n "s/.*\\"step\\":1,\\"loss\\":\\([0-9.]*\\).*/\\1/p" $n.log | head -1 | cut -c1-6\n' > ../bin/first; chmod +x ../bin/first
$ first a1 seq.mil --data seq; first a2 seq.mil --data seq --class-axis 2; first a3 sym.mil --data sym --class-axis -1; first a4 sym.mil --data sym --class-axis 1; first a5 soft.mil --data sym
> 0.5665
> 0.5665
> 0.5032
> 1.7200
> 0.5032
= 0
$ first a6 sym.mil --data sym
2> propane train: sym: array y is [2, 2], and the classes of output 'y' [1, 2, 2] could be along several axes; the labels of a sample are [1, 2] (--class-axis 1) or [1, 2] (--class-axis 2): give --class-axis
= 1
$ first a7 soft.mil --data sym --class-axis 1
2> propane train: soft.mil: --class-axis 1: the program's softmax is along axis 2
= 1
$ first a8 sym.mil --data sym --class-axis 3
2> propane train: sym.mil: --class-axis '3': output 'y' has axes 0 to 2
= 1
$ mkdir off; cp seq/x.npy off; npy '<i4' '2, 4' '\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000' > off/y.npy; first a9 seq.mil --data off
2> propane train: off: array y is [2, 4]; each sample must have the shape of output 'y' [1, 3, 2] without the class axis, [1, 2] (--class-axis 1) or [1, 3] (--class-axis 2), with the number of samples as first dimension
= 1
