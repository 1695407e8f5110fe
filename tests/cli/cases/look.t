# Looking at models: the interface, and the contents of a file as JSON.
! python3 part:lm
@ yes 'a line of text to learn from' | head -400 > text; propane train --data text --kind bytes --layers 4 --width 16 --heads 2 --context 32 --batch 2 --steps 1 --eval-every 0 --run r --no-report > log 2>&1
@ propane convert r lm.mlpackage > log; propane convert r lm.gguf > log; propane convert r folder > log; propane convert r lm.mil --tokens 1 > log
@ printf 'import json, sys\nd = json.load(open(sys.argv[1]))\nassert d["schema"] == 1\nprint(eval(sys.argv[2]))\n' > of.py
$ propane show lm.mlpackage
>~ lm.mlpackage: Core ML model, MIL program(1.[0-9]), 1 function
>~   specification version 9 (iOS 18, macOS 15 and later)
>~   description: A llama language model of 4 layers
>~   input   tensor<int32, [[]1, 1[]]> inputIds; one of 2 shapes; "token ids"
>~   state   state<tensor<fp16, [[]4, 2, 32, 8[]]>> keyCache
= 0
$ propane show lm.mlpackage --json > a.json; python3 of.py a.json '[d[k] for k in ("kind", "file", "specification_version", "systems", "description")], [f["name"] for f in d["functions"]]'
> (['program', 'lm.mlpackage', 9, 'iOS 18, macOS 15', 'A llama language model of 4 layers'], ['main'])
= 0
$ python3 of.py a.json '[(i["name"], i["kind"], i["type"], i["shape"], i.get("shapes")) for i in d["functions"][0]["inputs"][:2]], [s["name"] for s in d["functions"][0]["states"]], sum(d["functions"][0]["operation_counts"].values()) == d["functions"][0]["operations"]'
> ([('inputIds', 'array', 'int32', [1, 1], [[1, 1], [1, 32]]), ('position', 'array', 'int32', [1], None)], ['keyCache', 'valueCache'], True)
= 0
# Each of the other kinds of file.
$ for f in lm.mil weights/lm.bin folder lm.gguf folder/model.safetensors folder/config.json folder/tokenizer.json r/tokenizer.propane.json; do propane show $f --json > b.json; python3 of.py b.json 'd["kind"], sorted(set(d) - {"schema", "kind", "file"})'; done
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
# A file that cannot be read is an error, without a partial object.
$ head -c 3000 lm.gguf > cut.gguf; propane show cut.gguf --json
2~ propane show: cut.gguf: *
= 1
$ propane show text --json
2~ propane show: *
= 1
# Names from a file cannot control the program that reads the output.
@ printf 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "\\x1b]0;t\\x07\\xff"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 4]> x) {\n        tensor<fp16, [1, 4]> y = relu(x = x)[name = string("y")];\n    } -> (y);\n}\n' > evil.mil
$ propane show evil.mil --json > e.json; python3 of.py e.json 'd["build_info"]'
>~ {'coremlc-version': *}
= 0

# The graph as a page: one file without external parts, whose data cannot end the element that contains it.
@ printf 'import json, re, sys\np = open(sys.argv[1], encoding="utf-8").read()\nd = json.loads(re.search(r"id=.data.>(.*?)</script>", p, re.S).group(1))\ng = d["graphs"][d["start"]]\nprint(eval(sys.argv[2]))\n' > page.py
$ propane show lm.mlpackage --html lm.html
> lm.html: the graph of lm.mlpackage
= 0
$ python3 page.py lm.html 'p.count("<script"), p.count("<style"), re.findall(r"https?://(?!www.w3.org)", p), re.search(r"default-src .none.; img-src data:; style-src .sha256-[A-Za-z0-9+/]{43}=.; script-src .sha256-[A-Za-z0-9+/]{43}=.; base-uri", p) is not None'
> (2, 1, [], True)
= 0
$ python3 page.py lm.html '__import__("base64").b64encode(__import__("hashlib").sha256(re.search(r"<script>(.*?)</script>", p, re.S).group(1).encode()).digest()).decode() in p'
> True
= 0
# Four layers are four blocks of one kind, one after the other. Each node comes after its inputs.
$ python3 page.py lm.html 'len(g["blocks"]), len({b["k"] for b in g["blocks"]}), all(a["l"] + 1 == b["f"] for a, b in zip(g["blocks"], g["blocks"][1:])), all(u < i for i, n in enumerate(g["nodes"]) for u, _ in n["i"])'
>~ ([34], 1, True, True)
= 0
$ python3 page.py lm.html '[c["name"] for c in d["chips"]], sum(n["o"] == "softmax" for n in g["nodes"]), all(len(n["ms"]) == 2 for n in g["nodes"] if "ms" in n), [n["o"] for n in g["nodes"]].count("const")'
> (['m1', 'm4'], 4, True, 0)
= 0
$ propane show evil.mil --html evil.html > log; python3 page.py evil.html 'p.count("<script")'
> 2
= 0
# Verdicts and their evidence, differences, times.
@ { printf 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "</script><b>"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 4, 8, 32]> v0) {\n'; for i in 1 2 3 4; do printf '        tensor<fp16, [1, 4, 8, 32]> v%d = sin(x = v%d)[name = string("v%d")];\n' $i $((i - 1)) $i; done; printf '    } -> (v4);\n}\n'; } > chain.mil
$ propane check chain.mil --target m1,m4 --html check.html > log; python3 page.py check.html 'p.count("<script"), p.count("</script>"), d["colour"], [(n["v"][0]["r"], n["v"][0]["on"][0]) for n in g["nodes"] if "v" in n], d["rules"]["O2"]["evidence"], d["chips"][0]["worst"]'
> (2, 2, 'verdict', [('O2', 1), ('O2', 1), ('O2', 1), ('O2', 1)], 'measured', 5)
= 0
$ propane diff chain.mil --seed 1 --html diff.html > log; python3 page.py diff.html 'd["colour"], d["tolerance"], [len(n["d"]) for n in g["nodes"] if "d" in n]'
> ('error', 0.01, [4, 4, 4, 4])
= 0
# The page shows the program of the file: its own outputs and types, and the shapes of the run.
$ python3 page.py diff.html 'sum(n["o"] == "output" for n in g["nodes"]), {t for n in g["nodes"] for t in n["t"]}'
> (1, {'tensor<fp16, [1, 4, 8, 32]>'})
= 0
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, ?]> x) [FlexibleShapeInformation = tuple<string>((("DefaultShapes", {{"x", [1, 3]}}), ("RangeDims", {{"x", [[1, 1], [1, 9]]}})))] {\n        tensor<fp32, [1, ?]> y = exp(x = x);\n    } -> (y);\n}\n' > open.mil
@ { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 5), }"; head -c 20 /dev/zero; } > five.npy
$ for given in '--seed 1' '--seed 1 --shape x=1,4' '--input x=five.npy'; do propane diff open.mil $given --html open.html > log; python3 page.py open.html '[n["t"] for n in g["nodes"]][0], len(g["nodes"])'; done
> (['tensor<fp32, [1, 3]>'], 3)
> (['tensor<fp32, [1, 4]>'], 3)
> (['tensor<fp32, [1, 5]>'], 3)
= 0
$ propane run chain.mil --seed 1 --trace t.json > log && propane show chain.mil --html time.html --profile t.json > log; python3 page.py time.html 'd["colour"], sum("us" in n for n in g["nodes"]) > 0'
> ('time', True)
= 0
$ propane show chain.mil --html time.html --profile chain.mil
2~ propane show: chain.mil: *
= 1
$ propane show chain.mil --html chain.mil; head -1 chain.mil
> program(1.3)
2~ propane show: *chain.mil*
= 0
$ propane show folder --html x.html
2> propane show: --html is for programs; folder is not one
2> Try 'propane show --help'.
= 2
$ propane show chain.mil lm.mil --html x.html
2> propane show: --html takes one FILE
2> Try 'propane show --help'.
= 2
$ propane show chain.mil --target m1
2> propane show: --profile, --target, --path and --function need --html
2> Try 'propane show --help'.
= 2
$ propane show chain.mil --html x.html --target m9
2~ propane show: --target: there is no chip 'm9'; *
2> Try 'propane show --help'.
= 2
$ ls x.html
2~ *ls: *
= 2
