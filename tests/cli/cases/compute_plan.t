# propane check --plan: a plan that Core ML made on a Mac, compared with the rules, in the formats that people use.
@ cp -R "$REPO"/tests/data/compute_plan/. .

# coremltools' MLComputePlan as scripts write it out. Constants have no device. tan is refused by R4.
$ propane check m.mil --path coreml --target m4 --plan long.json | sed -n '/^plan of/,$p'
> plan of 'main': 4 operations, 2 on the engine, 1 on the GPU, 1 on the CPU; check agrees on 1 and differs on 3
>   tan 'b': the plan says engine; check says CPU (R4)
>   gelu 'c': the plan says GPU, which prefers it to the engine (cost 0.5); check says engine
>   relu 'd': the plan says CPU, and that the engine does not support it; check says engine
= 0

# Swift's Codable form, without the names of results: paired by kind and order.
$ propane check m.mil --path coreml --target m4 --plan swift.json | sed -n '/^plan of/,$p'
> plan of 'main': 4 operations, 2 on the engine, 1 on the GPU, 1 on the CPU; check agrees on 3 and differs on 1
>   relu 'd': the plan says GPU; check says engine
= 0

# Xcode's performance report: a folder, in which devices are nested objects.
$ propane check m.mil --path coreml --target m4 --plan r.mlperf | sed -n '/^plan of/,$p'
> plan of 'main': 4 operations, 2 on the engine, 1 on the GPU, 1 on the CPU; check agrees on 3 and differs on 1
>   relu 'd': the plan says GPU, which prefers it to the engine (cost 0.25); check says engine
= 0

# Plans for three settings of the compute units in one file: the one for CPU and engine is used.
$ propane check m.mil --path coreml --target m4 --plan several.json | sed -n '/^plan of/,$p'
> plan of 'main': 4 operations, 3 on the engine, 0 on the GPU, 1 on the CPU; check agrees on 4 and differs on 0
= 0

# ExecuTorch's format, as JSON: one operation is missing and one is unknown.
$ propane check m.mil --path coreml --target m4 --plan executorch.json --json | sed -n '/"plan": {/,$p'
>  "plan": {
>   "function": "main",
>   "operations": 4,
>   "engine": 3,
>   "gpu": 0,
>   "cpu": 1,
>   "same": 2,
>   "unplanned": 1,
>   "not_in_program": 1,
>   "differs": [
>    {
>     "op": "relu",
>     "name": "a",
>     "plan": "CPU",
>     "engine_supported": true,
>     "check": "engine"
>    }
>   ]
>  }
> }
= 0

# Not a plan, an unknown device, another model's plan, a missing file, and several chips.
@ echo '{"operations": [{"op": "relu"}]}' > none.json
$ propane check m.mil --target m4 --plan none.json
2> propane check: none.json: not a compute plan: it has no object with an operation ('operator_name', 'op') and a device ('preferred_compute_device', 'device')
= 1
@ echo '[{"op": "relu", "device": "TPU"}]' > device.json
$ propane check m.mil --target m4 --plan device.json
2> propane check: device.json: operation 1, 'relu': unknown device 'TPU'; known devices are CPU, GPU and NeuralEngine
= 1
@ echo '[{"op": "lstm", "output": "h", "device": "CPU"}]' > other.json
$ propane check m.mil --target m4 --plan other.json
2> propane check: other.json: none of its 1 operations is in function 'main' (the first is lstm 'h'); is it the plan of another model?
= 1
$ propane check m.mil --target m4 --plan absent.json
2> propane check: cannot open absent.json: No such file or directory
= 1
$ propane check m.mil --target m4 --plan m.mil
2> propane check: m.mil: line 1, column 7: not valid JSON: '[' or '{' expected near 'program'
= 1
$ propane check m.mil --plan long.json
2> propane check: --plan is for one chip, but target names 19
2> Try 'propane check --help'.
= 2
$ propane check m.mil --path direct --target m4 --plan long.json
2> propane check: --plan is for Core ML, but path is direct
2> Try 'propane check --help'.
= 2
