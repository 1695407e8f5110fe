# Python's Jinja2 runs a chat template that matches none of Propane's formats, if it is installed. Here it is not.
! part:lm
@ awk 'BEGIN{for(i=0;i<3000;i++) print "line", i*i%977, "of", i%7}' > text
@ propane tokenize text --vocab 300 --out v.json --tokens ids > log
@ propane train --data ids --tokenizer v.json --layers 1 --width 32 --heads 2 --context 64 --batch 4 --steps 2 --eval-batches 2 --run m > log
@ printf '%s\n' '{"chat_template": "{% for m in messages %}({{ m.role }}) {{ m.content }}\n{% endfor %}"}' > m/tokenizer_config.json
$ echo hi | PROPANE_PYTHON=/nowhere/python3 propane chat m --count 4
2~ propane chat: m: its chat template matches no known format; to run it, install Python's jinja2 (/nowhere/python3 cannot be started: *), or choose a format with --chat
= 1
$ echo hi | PROPANE_PYTHON=true propane chat m --count 4
2~ propane chat: m: *(true does not run Jinja2: it ended without a message), *
= 1
$ echo hi | propane chat m --chat plain --count 4 > log 2>&1
= 0
# a run that starts from a model keeps its template, from the model's folder or from that of its file
$ for m in m m/model.safetensors; do propane train --data ids --tokenizer v.json --init $m --context 64 --batch 4 --steps 1 --eval-batches 2 --run kept > log; cmp m/tokenizer_config.json kept/tokenizer_config.json && echo same; rm -rf kept; done
> same
> same
= 0
