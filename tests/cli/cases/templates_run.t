# A model's own template runs if Jinja2 is installed. Its output is learned, and its date is that of the run's first day.
! python3 python:jinja2 part:lm
@ awk 'BEGIN{for(i=0;i<3000;i++) print "line", i*i%977, "of", i%7}' > text; propane train --data text --vocab 300 --layers 1 --width 32 --heads 2 --context 64 --batch 4 --steps 2 --eval-batches 2 --run m > log
@ for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "{\"messages\":[{\"role\":\"user\",\"content\":\"of $i\"},{\"role\":\"assistant\",\"content\":\"line\"},{\"role\":\"user\",\"content\":\"of\"},{\"role\":\"assistant\",\"content\":\"$i\"}]}"; done > talks.jsonl
@ printf '%s\n' "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>" "{% endfor %}{{ '<|assistant|>' if add_generation_prompt else 'eos' }}" > m/chat_template.jinja
@ printf 'propane train m --data talks.jsonl --context 64 --batch 2 --steps 4 --eval-every 0 --held-out 0 "$@"\n' > ../bin/tune; chmod +x ../bin/tune
# a format with the same marks is not used; both answers are learned up to their ends
$ propane show talks.jsonl --model m | head -1
>~ talks.jsonl: 12 examples, * tokens count toward the loss, chat format jinja
= 0
$ propane show talks.jsonl --model m | sed -n 3,6p
> <|user|>of 1<|end|>
> <|assistant|>[line<|end|>]
> <|user|>of<|end|>
> <|assistant|>[1<|end|>]
= 0
$ echo hi | propane chat m --count 4 > log
2> (stopped after 4 tokens; --count allows more)
= 0
# a template that matches one of the formats needs Jinja2 only once
@ printf '%s\n' "{% for m in messages %}{{ '<|im_start|>' ~ m['role'] ~ '\n' ~ m['content'] ~ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}" > m/chat_template.jinja
$ propane show talks.jsonl --model m | head -1; PROPANE_PYTHON=/nowhere/python3 propane show talks.jsonl --model m
>~ talks.jsonl: 12 examples, * tokens count toward the loss, chat format chatml
2~ propane show: m: its chat template matches no known format; to run it, install Python's jinja2*
= 1
# dates in a template
@ printf '%s\n' "{{ strftime_now('%d %b %Y') }}{% for m in messages %}({{ m.role }}) {{ m.content }};{% endfor %}{% if add_generation_prompt %}(assistant) {% endif %}" > m/chat_template.jinja
$ tune --run today > log; date=$(sed -nE 's/.*"chat-date": "([0-9]{4}-[0-9]{2}-[0-9]{2})".*/\1/p' today/train.json); test -n "$date" && tune --run same --chat-date $date > log; cmp today/model.safetensors same/model.safetensors; tune --config today/train.json --run again > log; cmp today/model.safetensors again/model.safetensors
= 0
$ tune --run then --chat-date 2001-02-03 > log; cmp -s then/model.safetensors today/model.safetensors || echo other; propane train --resume then --steps 8 | grep -c resumed; tune --run whole --chat-date 2001-02-03 --steps 8 > log; propane train --resume then --chat-date 2002-02-03 --steps 9
> other
> 1
2~ propane train: then/checkpoint.safetensors was written with data with the checksum *
= 1
$ tune --run n --chat-date today
2> propane train: --chat-date 'today' is not a date of the form YYYY-MM-DD
2> Try 'propane train --help'.
= 2
# another template for conversations with tools: in the configuration or in a file. Every form of a model includes it
@ propane convert m h > log; rm -f h/chat_template.jinja m/chat_template.jinja; python3 -c "import json,sys; p='h/tokenizer_config.json'; o=json.load(open(p)); t='{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}'; o['chat_template']=[{'name':'default','template':t},{'name':'tool_use','template':'[{{ tools[0].function.name }}]'+t}]; json.dump(o,open(p,'w'))"; cp -R h f; python3 -c "import json,os; p='f/tokenizer_config.json'; o=json.load(open(p)); t=o.pop('chat_template'); json.dump(o,open(p,'w')); os.mkdir('f/additional_chat_templates'); open('f/chat_template.jinja','w').write(t[0]['template']); open('f/additional_chat_templates/tool_use.jinja','w').write(t[1]['template'])"
@ echo '{"messages":[{"role":"user","content":"of 1"},{"role":"assistant","content":"line"}],"tools":[{"type":"function","function":{"name":"look"}}]}' > tools.jsonl; sed 's/,"tools".*/}/' tools.jsonl > plain.jsonl; for n in h f; do propane convert $n $n.gguf; propane convert $n.gguf $n-back; propane convert $n $n-copy; propane train --init $n --data tools.jsonl --context 32 --batch 1 --steps 1 --held-out 0 --eval-every 0 --no-report --run $n-run; done > log
$ for n in h f; do for m in $n $n.gguf $n-back $n-copy $n-run; do propane show tools.jsonl --model $m | sed -n 3p; propane show plain.jsonl --model $m | sed -n 3p; done; done | sort | uniq -c | sed 's/^ *//'
> 10 <user>of 1;<assistant>[line;]
> 10 [look]<user>of 1;<assistant>[line;]
= 0
