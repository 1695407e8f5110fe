# A conversation through pipes.
! part:lm
@ awk 'BEGIN{for(i=0;i<3000;i++) print "line", i*i%977, "of", i%7}' > text
@ propane tokenize text --vocab 300 --out v.json --tokens ids > log
@ propane train --data ids --tokenizer v.json --layers 1 --width 32 --heads 2 --kv-heads 1 --context 64 --batch 4 --steps 100 --warmup 5 --lr 1e-2 --eval-batches 2 --run m > log; sed 's/"max_position_embeddings": *64/"max_position_embeddings":256/' m/config.json > m/config.json.new && mv m/config.json.new m/config.json
$ printf 'line 1\n\nline 2\n' | propane chat m --temperature 0 --count 8 > a; wc -l < a | awk '{ print ($1 >= 2) ? "two answers" : $1 }'
2> (stopped after 8 tokens; --count allows more)
2> (stopped after 8 tokens; --count allows more)
> two answers
= 0
# a reset clears the conversation, a system message changes the answer, and commands are not messages
$ printf 'line 1\n/reset\nline 1\n' | propane chat m --temperature 0 --count 8 2> errors > b; grep -c 'a new conversation' errors; head -c $(($(wc -c < b) / 2)) b > c; tail -c +$(($(wc -c < b) / 2 + 1)) b | cmp c -
> 1
= 0
$ printf '/system of 1 of 2\n/what\n/system\n/quit\nline\n' | propane chat m
2> (the system message is set)
2~ (/reset starts a new conversation; /system TEXT sets *
2> (no system message)
= 0
# text that does not fit is dropped or refused
$ for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "line $i of these lines"; done | propane chat m --count 16 --temperature 0 2>&1 > log | grep -c 'the context is full: the oldest'  | awk '{ print ($1 > 3) ? "dropped" : $1 }'
> dropped
= 0
$ awk 'BEGIN { for (i = 0; i < 300; i++) printf "%d ", i * 7919; print "" }' | propane chat m
2~ (the message has * tokens including its markers, but there is room for 192; shorten it)
= 0
$ printf 'line 1 \\\nof\n' | propane chat m --count 1 2> errors | wc -l | awk '{ print ($1 >= 1) ? "one message" : "none" }'
> one message
= 0
$ propane chat m --chat nobody
2~ propane chat: *nobody*chatml*
= 1
$ propane chat
2> propane chat: MODEL is missing
2> Try 'propane chat --help'.
= 2
