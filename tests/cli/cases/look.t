# Looking at models: the interface, and what is in a file as JSON.
! python3
@ yes 'a line of text to learn from' | head -400 > text; propane train --data text --kind bytes --layers 4 --width 16 --heads 2 --context 32 --batch 2 --steps 1 --eval-every 0 --run r --no-report > log 2>&1
@ propane convert r lm.mlpackage > log; propane convert r lm.gguf > log; propane convert r folder > log; propane convert r lm.mil --tokens 1 > log
@ printf 'import json, sys\nd = json.load(open(sys.argv[1]))\nassert d["schema"] == 1\nprint(eval(sys.argv[2]))\n' > of.py
$ propane show lm.mlpackage
>~ lm.mlpackage: Core ML model, MIL program(1.[0-9]), 1 function
>~   specification version 9 (iOS 18, macOS 15 and later)
>~   description: A llama language model of 4 layers
>~   input   tensor<int32, [[]1, 1[]]> inputIds; one of 2 shapes; "token ids"
>~   state   state<tensor<fp16, [[]4, 2, 256, 8[]]>> keyCache
= 0
$ propane show lm.mlpackage --json > a.json; python3 of.py a.json '[d[k] for k in ("kind", "file", "specification_version", "systems", "description")], [f["name"] for f in d["functions"]]'
> (['program', 'lm.mlpackage', 9, 'iOS 18, macOS 15', 'A llama language model of 4 layers'], ['main'])
= 0
$ python3 of.py a.json '[(i["name"], i["kind"], i["type"], i["shape"], i.get("shapes")) for i in d["functions"][0]["inputs"][:2]], [s["name"] for s in d["functions"][0]["states"]], sum(d["functions"][0]["operation_counts"].values()) == d["functions"][0]["operations"]'
> ([('inputIds', 'array', 'int32', [1, 1], [[1, 1], [1, 64]]), ('position', 'array', 'int32', [1], None)], ['keyCache', 'valueCache'], True)
= 0
# Each other kind of file.
$ for f in lm.mil weights/weight.bin folder lm.gguf folder/model.safetensors folder/config.json folder/tokenizer.json r/tokenizer.propane.json; do propane show $f --json > b.json; python3 of.py b.json 'd["kind"], sorted(set(d) - {"schema", "kind", "file"})'; done
> ('program', ['build_info', 'default_function', 'functions', 'mil_version'])
> ('weights', ['records'])
> ('folder', ['model', 'tensors', 'tokenizer'])
> ('gguf', ['keys', 'model', 'tensors'])
> ('safetensors', ['model', 'tensors'])
> ('configuration', ['model'])
> ('tokenizer', ['tokenizer'])
> ('tokenizer', ['tokenizer'])
= 0
$ propane show lm.gguf --json > b.json; propane show folder --json > c.json; python3 of.py b.json '[(t["shape"], t["bytes"]) for t in d["tensors"] if t["name"] == "blk.0.ffn_down.weight"], d["keys"]["general.architecture"]'; python3 of.py c.json '[(t["shape"], t["bytes"]) for t in d["tensors"] if t["name"] == "model.layers.0.mlp.down_proj.weight"], d["model"]["num_hidden_layers"]'
>~ ([[][(][[]16, *], *)], 'llama')
>~ ([[][(][[]16, *], *)], 4)
= 0
# What cannot be read is an error, and no half of an object.
$ head -c 3000 lm.gguf > cut.gguf; propane show cut.gguf --json
2~ propane show: cut.gguf: *
= 1
$ propane show text --json
2~ propane show: *
= 1
# Names out of a file cannot drive what reads the output.
@ printf 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "\\x1b]0;t\\x07\\xff"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 4]> x) {\n        tensor<fp16, [1, 4]> y = relu(x = x)[name = string("y")];\n    } -> (y);\n}\n' > evil.mil
$ propane show evil.mil --json > e.json; python3 of.py e.json 'd["build_info"]'
>~ {'coremlc-version': *}
= 0
