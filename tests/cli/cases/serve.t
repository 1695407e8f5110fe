# The server's command: its start, its end and its errors. tests/serve covers the protocol.
! part:server
@ awk 'BEGIN{for(i=0;i<500;i++) print "line", i*i%97, "of", i%7}' > text
@ propane tokenize text --vocab 280 --out v.json --tokens ids > log
@ propane train --data ids --tokenizer v.json --layers 1 --width 32 --heads 2 --kv-heads 1 --context 32 --batch 2 --steps 2 --warmup 1 --eval-batches 1 --run m > log
$ for signal in TERM INT; do : > out; propane serve m --port 0 > out 2> errors & pid=$!; while ! grep -qs serving out; do kill -0 $pid || break; sleep 0.05; done; kill -$signal $pid; wait $pid; echo "$signal $? $(sed 's/:[0-9]*\/v1/:PORT\/v1/' out | tr '\n' ' ')"; cat errors; done
> TERM 0 serving 'm' at http://127.0.0.1:PORT/v1 (chat format plain, weights in fp32); Ctrl-C ends it stopped 
> INT 0 serving 'm' at http://127.0.0.1:PORT/v1 (chat format plain, weights in fp32); Ctrl-C ends it stopped 
= 0
$ propane serve m --max-body 8 --max-memory 4
2> propane serve: a request of --max-body 8 MB would not fit into --max-memory 4 MB
2> Try 'propane serve --help'.
= 2
$ propane serve m --host nowhere.example
2> propane serve: 'nowhere.example' is not an address; give one of this machine, such as 127.0.0.1 or 0.0.0.0
= 1
$ propane serve m --port 70000
2> propane serve: --port: '70000' is not an integer from 0 to 65535
2> Try 'propane serve --help'.
= 2
$ propane serve m --chat nobody
2~ propane serve: *nobody*chatml*
= 1
$ propane serve missing
2> propane serve: cannot open missing: No such file or directory
= 1
# Keys and origins: invalid files and lists.
$ : > none; propane serve m --api-key-file none
2> propane serve: none: it contains no keys; give one key per line
= 1
$ propane serve m --cors-origins app.example.org
2~ propane serve: --cors-origins: 'app.example.org' is not an origin; give origins such as https://app.example.org, *
= 1
