#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times single operations on the cpu device, as separate programs. Prints the milliseconds of the fastest of several runs,
and those of a second build that runs in alternation.

    python3 bench/ops.py build/release/propane [OTHER] [--only WORD ...]
"""
import json
import os
import subprocess
import sys
import tempfile


def mil(inputs, body, results):
    return "program(1.3)\n{\n    func main<ios17>(%s) {\n%s\n    } -> (%s);\n}\n" % (inputs, body, results)


cases = {}
cases['gather 128 of 30522x768'] = mil('tensor<fp32, [30522, 768]> x, tensor<int32, [128]> i', '    tensor<int32, [128]> j = mod(x = i, y = int32(30522)); tensor<fp32, [128, 768]> y = gather(x = x, indices = j, axis = int32(0));', 'y')
cases['gather_along_axis 1000x1000'] = mil('tensor<fp32, [1000, 1000]> x, tensor<int32, [1000, 1000]> i', '    tensor<int32, [1000, 1000]> j = mod(x = i, y = int32(1000)); tensor<fp32, [1000, 1000]> y = gather_along_axis(x = x, indices = j, axis = int32(0));', 'y')
cases['mod int32 1000x1000'] = mil('tensor<int32, [1000, 1000]> i', '    tensor<int32, [1000, 1000]> j = mod(x = i, y = int32(1000));', 'j')
cases['gather_nd 20000 of 200x200x64'] = mil('tensor<fp32, [200, 200, 64]> x, tensor<int32, [20000, 2]> i', '    tensor<int32, [20000, 2]> j = mod(x = i, y = int32(200)); tensor<fp32, [20000, 64]> y = gather_nd(x = x, indices = j);', 'y')
cases['scatter 1000 rows into 4096x256'] = mil('tensor<fp32, [4096, 256]> x, tensor<int32, [1000]> i, tensor<fp32, [1000, 256]> u', '    tensor<int32, [1000]> j = mod(x = i, y = int32(4096)); tensor<fp32, [4096, 256]> y = scatter(data = x, indices = j, updates = u, axis = int32(0), mode = "add");', 'y')
cases['scatter_along_axis 1000x1000'] = mil('tensor<fp32, [1000, 1000]> x, tensor<int32, [1000, 1000]> i, tensor<fp32, [1000, 1000]> u', '    tensor<int32, [1000, 1000]> j = mod(x = i, y = int32(1000)); tensor<fp32, [1000, 1000]> y = scatter_along_axis(data = x, indices = j, updates = u, axis = int32(0), mode = "add");', 'y')
cases['scatter_nd 20000 into 200x200x64'] = mil('tensor<fp32, [200, 200, 64]> x, tensor<int32, [20000, 2]> i, tensor<fp32, [20000, 64]> u', '    tensor<int32, [20000, 2]> j = mod(x = i, y = int32(200)); tensor<fp32, [200, 200, 64]> y = scatter_nd(data = x, indices = j, updates = u, mode = "add");', 'y')
cases['topk 5 of 1000, 256 rows'] = mil('tensor<fp32, [256, 1000]> x', '    tensor<fp32, [256, 5]> v, tensor<int32, [256, 5]> k = topk(x = x, k = int32(5), axis = int32(-1));', 'v, k')
cases['topk 50 of 50257'] = mil('tensor<fp32, [1, 50257]> x', '    tensor<fp32, [1, 50]> v, tensor<int32, [1, 50]> k = topk(x = x, k = int32(50), axis = int32(-1));', 'v, k')
cases['argsort 64 x 8400'] = mil('tensor<fp32, [64, 8400]> x', '    tensor<int32, [64, 8400]> k = argsort(x = x, axis = int32(-1));', 'k')
cases['reduce_argmax 128 x 50257'] = mil('tensor<fp32, [128, 50257]> x', '    tensor<int32, [128]> k = reduce_argmax(x = x, axis = int32(-1));', 'k')
cases['reduce_argmax 21x512x512 axis 0'] = mil('tensor<fp32, [21, 512, 512]> x', '    tensor<int32, [512, 512]> k = reduce_argmax(x = x, axis = int32(0));', 'k')
cases['cumsum 512x4096 axis 1'] = mil('tensor<fp32, [512, 4096]> x', '    tensor<fp32, [512, 4096]> k = cumsum(x = x, axis = int32(1));', 'k')
cases['cumsum 512x4096 axis 0'] = mil('tensor<fp32, [512, 4096]> x', '    tensor<fp32, [512, 4096]> k = cumsum(x = x, axis = int32(0));', 'k')
cases['one_hot 4096 x 1000'] = mil('tensor<int32, [4096]> x', '    tensor<fp32, [4096, 1000]> k = one_hot(indices = x, one_hot_vector_size = int32(1000), on_value = fp32(1), off_value = fp32(0));', 'k')
cases['nms 8400 boxes, 80 classes, 300'] = mil('tensor<fp32, [1, 4, 8400]> b, tensor<fp32, [1, 80, 8400]> s', '    tensor<fp32, [1, 4, 8400]> p = abs(x = b); tensor<fp32, [1, 4, 300]> o, tensor<fp32, [1, 80, 300]> q, tensor<int32, [1, 300]> i = non_maximum_suppression(boxes = p, scores = s, iou_threshold = fp32(0.45), max_boxes = int32(300), per_class_suppression = bool(true));', 'o, q, i')
cases['crop_resize 100 boxes 7x7 of 256x50x50'] = mil('tensor<fp32, [1, 256, 50, 50]> x, tensor<fp32, [100, 4]> b', '    tensor<fp32, [100, 4]> a = sigmoid(x = b); tensor<int32, [100]> z = const()[val = tensor<int32, [100]>([%s])]; tensor<fp32, [100, 256, 7, 7]> y = crop_resize(x = x, boxes = a, box_indices = z, target_height = int32(7), target_width = int32(7), normalized_coordinates = bool(true), sampling_mode = "ALIGN_CORNERS");' % ', '.join(['0']*100), 'y')
cases['resample 64x128x128'] = mil('tensor<fp32, [1, 64, 128, 128]> x, tensor<fp32, [1, 128, 128, 2]> c', '    tensor<fp32, [1, 64, 128, 128]> y = resample(x = x, coordinates = c, sampling_mode = "bilinear", padding_mode = "constant", padding_value = fp32(0), coordinates_mode = "normalized_minus_one_to_one", align_corners = bool(true));', 'y')
cases['affine 3x512x512'] = mil('tensor<fp32, [1, 3, 512, 512]> x, tensor<fp32, [1, 6]> c', '    tensor<fp32, [1, 3, 512, 512]> y = affine(x = x, transform_matrix = c, output_height = int32(512), output_width = int32(512), sampling_mode = "bilinear", padding_mode = "constant", padding_value = fp32(0), coordinates_mode = "normalized_minus_one_to_one", align_corners = bool(true));', 'y')
cases['pad reflect 64x256x256'] = mil('tensor<fp32, [1, 64, 256, 256]> x', '    tensor<fp32, [1, 64, 262, 262]> y = pad(x = x, pad = tensor<int32, [4]>([3, 3, 3, 3]), mode = "reflect");', 'y')
cases['band_part 16x1024x1024'] = mil('tensor<fp32, [16, 1024, 1024]> x', '    tensor<fp32, [16, 1024, 1024]> y = band_part(x = x, lower = int32(-1), upper = int32(0));', 'y')
cases['reverse_sequence 64x200x512'] = mil('tensor<fp32, [64, 200, 512]> x', '    tensor<int32, [64]> l = const()[val = tensor<int32, [64]>([%s])]; tensor<fp32, [64, 200, 512]> y = reverse_sequence(x = x, lengths = l, seq_axis = int32(1), batch_axis = int32(0));' % ', '.join(str(3*i) for i in range(64)), 'y')
cases['sliding_windows 16000 of 400 by 160'] = mil('tensor<fp32, [1, 160000]> x', '    tensor<fp32, [1, 998, 400]> y = sliding_windows(x = x, axis = int32(1), size = int32(400), stride = int32(160));', 'y')
cases['fill_like 1024x1024'] = mil('tensor<fp32, [1024, 1024]> x', '    tensor<fp32, [1024, 1024]> y = fill_like(ref_tensor = x, value = fp32(1.5));', 'y')
cases['local_response_norm 96x55x55'] = mil('tensor<fp32, [1, 96, 55, 55]> x', '    tensor<fp32, [1, 96, 55, 55]> y = local_response_norm(x = x, size = int32(5));', 'y')
cases['quantize 1024x1024'] = mil('tensor<fp32, [1024, 1024]> x', '    tensor<int8, [1024, 1024]> q = quantize(input = x, scale = fp32(0.05), output_dtype = "int8"); ', 'q')
cases['quantize+dequantize 1024x1024'] = mil('tensor<fp32, [1024, 1024]> x', '    tensor<int8, [1024, 1024]> q = quantize(input = x, scale = fp32(0.05), output_dtype = "int8"); tensor<fp32, [1024, 1024]> y = dequantize(input = q, scale = fp32(0.05));', 'y')
cases['atan 1024x1024'] = mil('tensor<fp32, [1024, 1024]> x', '    tensor<fp32, [1024, 1024]> y = atan(x = x);', 'y')
cases['tan 1024x1024'] = mil('tensor<fp32, [1024, 1024]> x', '    tensor<fp32, [1024, 1024]> y = tan(x = x);', 'y')
cases['add int32 1024x1024'] = mil('tensor<int32, [1024, 1024]> x', '    tensor<int32, [1024, 1024]> y = add(x = x, y = int32(1));', 'y')
cases['einsum bhqd,bhkd->bhqk 8x256x64'] = mil('tensor<fp32, [1, 8, 256, 64]> x, tensor<fp32, [1, 8, 256, 64]> z', '    tensor<fp32, [1, 8, 256, 256]> y = einsum(values = (x, z), equation = "bhqd,bhkd->bhqk");', 'y')
cases['einsum nchw,nwhu->nchu 64x32x32x32'] = mil('tensor<fp32, [1, 64, 32, 32]> x, tensor<fp32, [1, 32, 32, 32]> z', '    tensor<fp32, [1, 64, 32, 32]> y = einsum(values = (x, z), equation = "nchw,nwhu->nchu");', 'y')
cases['conv_quantized 64x56x56 3x3'] = mil('tensor<fp32, [1, 64, 56, 56]> x, tensor<uint8, [64, 64, 3, 3]> w', '    tensor<fp32, [1, 64, 56, 56]> y = conv_quantized(x = x, weight = w, quantization_type = "linear", nbits = int32(8), quant_scale = fp32(0.02), quant_bias = fp32(-2.5), pad_type = "same");', 'y')
cases['random_categorical 64 x 50257'] = mil('tensor<fp32, [64, 50257]> x', '    tensor<fp32, [64, 1]> y = random_categorical(x = x, mode = "logits", size = int32(1));', 'y')
cases['while_loop: 200 x matmul 128x128'] = mil('tensor<fp32, [128, 128]> m', ''' int32 k, tensor<fp32, [128, 128]> v = while_loop(loop_vars = (int32(0), m)) (int32 i, tensor<fp32, [128, 128]> a) { bool more = less(x = i, y = int32(200)); } -> (more), (int32 i, tensor<fp32, [128, 128]> a) {
   tensor<fp32, [128, 128]> b = matmul(x = m, y = a); tensor<fp32, [128, 128]> c = tanh(x = b); int32 j = add(x = i, y = int32(1)); } -> (j, c);''', 'v')
cases['cond: conv 64x56x56 3x3'] = mil('tensor<fp32, [1, 64, 56, 56]> x, bool p, tensor<fp32, [64, 64, 3, 3]> w', ''' tensor<fp32, [1, 64, 56, 56]> y = cond(pred = p) { tensor<fp32, [1, 64, 56, 56]> a = conv(x = x, weight = w, pad_type = "same"); } -> (a), { tensor<fp32, [1, 64, 56, 56]> a = conv(x = x, weight = w, pad_type = "same"); tensor<fp32, [1, 64, 56, 56]> b = relu(x = a); } -> (b);''', 'y')
cases['lists in a loop: 200 x 512 floats'] = mil('tensor<fp32, [200, 512]> x', ''' list<tensor<fp32, [512]>, 200> l = make_list(init_length = int32(200), dynamic_length = true, elem_shape = (int32(512)), dtype = "fp32");
  int32 k, list<tensor<fp32, [512]>, 200> v = while_loop(loop_vars = (int32(0), l)) (int32 i, list<tensor<fp32, [512]>, 200> a) { bool more = less(x = i, y = int32(200)); } -> (more), (int32 i, list<tensor<fp32, [512]>, 200> a) {
   tensor<fp32, [512]> row = gather(x = x, indices = i, axis = int32(0)); tensor<fp32, [512]> c = tanh(x = row); list<tensor<fp32, [512]>, 200> b = list_write(ls = a, index = i, value = c); int32 j = add(x = i, y = int32(1)); } -> (j, b);
  tensor<int32, [200]> o = const()[val = tensor<int32, [200]>([%s])]; tensor<fp32, [200, 512]> y = list_gather(ls = v, indices = o);''' % ', '.join(map(str, range(200))), 'y')


def fastest(binary, path):
    done = subprocess.run([binary, "run", path, "--seed", "1", "--iterations", "5", "--warmup", "1", "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 4):  # 4: random numbers gave NaN or infinity
        sys.exit(done.stderr)
    return json.loads(done.stdout)["min_ms"]


if __name__ == "__main__":
    given = sys.argv[1:]
    words = given[given.index("--only") + 1:] if "--only" in given else []
    binaries = given[:given.index("--only")] if "--only" in given else given
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "op.mil")
        for name, text in cases.items():
            if words and not any(word in name for word in words):
                continue
            with open(path, "w") as f:
                f.write(text)
            times = [fastest(binary, path) for binary in binaries]
            print("%-44s" % name + " ".join("%10.3f" % t for t in times) + (" %6.1fx" % (times[1] / times[0]) if len(times) > 1 else ""), flush=True)
