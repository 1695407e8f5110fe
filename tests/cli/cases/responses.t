# POST /v1/responses: the same answer as from a chat with the same messages, in the other object.
! curl python3 part:lm
@ awk 'BEGIN{for(i=0;i<400;i++) print "line", i*i%977}' > text; propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 256 --batch 1 --eval-every 0 --steps 5 --threads 1 --no-report --run m > log
@ printf '%s\n' 'import json, sys' 'a, b = [json.load(open(n)) for n in ("chat", "response")]' 'm = b["output"][0]' 'same = m["content"][0]["text"] == a["choices"][0]["message"]["content"] and m["role"] == "assistant" and m["content"][0]["type"] == "output_text"' 'u, v = a["usage"], b["usage"]' 'print(same, b["object"], b["status"], b["incomplete_details"], b["id"][:5], [u["prompt_tokens"] == v["input_tokens"], u["completion_tokens"] == v["output_tokens"], v["total_tokens"] == u["total_tokens"]])' > compare.py
@ printf '%s\n' 'rm -f told; propane serve m --port 0 --threads 1 --chat chatml > told 2> errors & pid=$!; trap "kill $pid" EXIT; i=0; until grep -qs http told || [ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done; url=$(sed -n "s/.*\(http:[^ ]*\)\/v1 .*/\1/p" told)' 'ask() { curl -s "$url/v1/$1" -H "Content-Type: application/json" -d "$2"; }' > ../bin/up
# a text, a text with instructions, messages with parts
$ . ../bin/up; ask chat/completions '{"messages":[{"role":"user","content":"a"}],"max_tokens":5,"temperature":0}' > chat; ask responses '{"model":"m","input":"a","max_output_tokens":5,"temperature":0}' > response; python3 compare.py; ask chat/completions '{"messages":[{"role":"system","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"ef"}],"max_tokens":3,"temperature":0}' > chat; ask responses '{"instructions":"b","input":[{"role":"user","content":"c"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"d"}]},{"role":"user","content":[{"type":"input_text","text":"e"},{"type":"input_text","text":"f"}]}],"max_output_tokens":3,"temperature":0,"text":{"format":{"type":"text"}},"store":true}' > response; python3 compare.py
> True response incomplete {'reason': 'max_output_tokens'} resp- [True, True, True]
> True response incomplete {'reason': 'max_output_tokens'} resp- [True, True, True]
= 0
# an unsupported key is refused by name
$ . ../bin/up; for body in '{"input":"a","stream":true}' '{"input":"a","previous_response_id":"x"}' '{"input":"a","text":{"format":{"type":"json_schema"}}}' '{}' '{"input":[]}' '{"input":[{"type":"function_call_output","call_id":"1","output":"x"}]}' '{"input":"a","max_output_tokens":"x"}' '{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}' '[]' '{"input":"a","model":"other"}'; do ask responses "$body" | python3 -c "import json, sys; e = json.load(sys.stdin)['error']; print(e['param'], e['code'], e['message'][:60])"; done
> stream unsupported_parameter the request: 'stream' is not supported by /v1/responses; lea
> previous_response_id unsupported_parameter the request: 'previous_response_id' is not supported by /v1/
> text unsupported_parameter the request: 'text.format' other than {"type": "text"} is no
> input None the request: key 'input' must be a string or a list of messa
> input None the request: key 'input' must be a string or a list of messa
> input None the request: each of the items of 'input' must be a message 
> max_output_tokens None the request: key 'max_output_tokens' must be an integer of a
> messages None message 1 has a part that is not text
> None None the request: it must be a JSON object
> model model_not_found the model 'other' does not exist here; this server has 'm'
= 0
