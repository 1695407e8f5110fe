# SPDX-License-Identifier: MIT
# Uses the library from Python: the lines of docs/python.md.
cat > "$work/user.py" << 'EOF'
import numpy as np, propane_ml as propane
words = open("book.txt").read()
trainer = propane.Trainer(text=words, steps=40, layers=2, width=64, run="my-run")
history = trainer.run()
assert trainer.model().complete("Once").text is not None
before = propane.Model.from_pretrained("my-run").score("It is 3.")
examples = [{"prompt": f"What is {i}?", "completion": f" It is {i}."} for i in range(20)]
propane.Trainer("my-run", examples=examples, lora=8, run="tuned").run()
llm = propane.Model.from_pretrained("my-run", adapter="tuned")
assert len(list(llm.generate("What is", count=5, temperature=0.8))) > 0
assert isinstance(llm.chat([{"role": "user", "content": "What is 3?"}], count=5).text, str)
assert abs(llm.embed("a") @ llm.embed("a") - 1) < 1e-3
llm.export().save("Model.mlpackage")
program = propane.parse("""program(1.3)
{
    func main<ios18>(tensor<fp32, [1, 8]> x) {
        tensor<fp32, [1, 8]> y = tanh(x = x)[name = string("y")];
    } -> (y);
}
""")
x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
y = program.predict({"x": x})["y"]
assert np.abs(y - np.tanh(x)).max() < 1e-6
d = program.gradient(["x"]).predict({"x": x, "d_y": np.ones_like(x)})
assert np.abs(d["d_x"] - (1 - np.tanh(x) ** 2)).max() < 1e-5
assert program.estimate("m4").rows[0].ms > 0 and "m4" in str(program.check("m1,m4"))
program.to_html("graph.html")
try:
    propane.load("nothing.mlpackage")
except propane.PropaneError as error:
    print(error.status, error)
else:
    raise SystemExit("a file that is not there was loaded")
EOF
step 'python: pip install ./python' "[ -x '$root/venv/bin/python' ] || python3 -m venv '$root/venv' > venv.log 2>&1 || { echo 'no venv'; exit 77; }
    '$root/venv/bin/python' -c 'import propane_ml' 2> /dev/null || { cd \"\$CLONE\" && '$root/venv/bin/pip' install -q ./python; }" &&
    step 'python: train, tune, generate, differentiate' "'$root/venv/bin/python' user.py" &&
    step 'python: help is there' "'$root/venv/bin/python' -c 'import propane_ml as p; assert p.Trainer.__doc__ and p.load.__doc__ and p.Model.chat.__doc__; print(p.options())'"
