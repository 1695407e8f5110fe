# Files that people bring in their first hour. Token files of nanoGPT and llm.c are read. Binary data is not learned as text.
! python3 part:lm
@ awk 'BEGIN{for(i=0;i<900;i++) print "line", i*i%97, "of", i%7}' > text; propane tokenize text --kind chars --out v.json > log
@ python3 -c "import struct; ids=[i*7%11 for i in range(600)]; raw=struct.pack('<600H',*ids); open('train.bin','wb').write(raw); h=lambda m: struct.pack('<256i',m,1,600,*[0]*253); open('gpt2.tokens','wb').write(h(20240520)+raw); open('wide','wb').write(h(20240801)+struct.pack('<600I',*ids)); open('cut','wb').write((h(20240520)+raw)[:-2]); open('odd.bin','wb').write(raw+b'a'); open('far.bin','wb').write(raw+struct.pack('<H',60000))"
@ printf 'propane train --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 3 --eval-batches 1 "$@"\n' > ../bin/tiny; printf 'propane train --tokenizer v.json --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 2 --eval-batches 1 --json "$@" | grep done | cut -d, -f4\n' > ../bin/bin; chmod +x ../bin/tiny ../bin/bin
$ a=$(bin --data train.bin --run a) && b=$(bin --data gpt2.tokens --run b) && c=$(bin --data wide --run c) && test -n "$a" -a "$a" = "$b" -a "$b" = "$c" && echo the same
> the same
= 0
$ tiny --data train.bin
2> propane train: train.bin is a token file; give its tokenizer with --tokenizer
= 1
$ propane train --data cut --tokenizer v.json
2> propane train: cut: its header declares 600 tokens, but there are 599; the file is truncated or damaged
= 1
$ propane train --data odd.bin --tokenizer v.json
2> propane train: odd.bin: 1201 bytes are not a multiple of the id size, 2 bytes; the file is truncated or not a token file
= 1
$ propane train --data far.bin --tokenizer v.json
2~ propane train: far.bin: token 600 is 60000, but the tokenizer has * ids; give the tokenizer that the file was made with *
= 1
$ printf 'ab\0cd and more of it' > program; tiny --data program
2> propane train: program: not a text, because byte 2 is zero; give UTF-8 text, instruction data (.jsonl) or a token file (from 'propane tokenize' or llm.c, or nanoGPT's *.bin with --tokenizer)
= 1
# the README's first screen: it names the untested parts, and its figures match the other documents
$ head -10 "$REPO/README.md" | grep -c 'has run on Apple silicon'; awk 'END {exit NR >= 120}' "$REPO/README.md"
> 1
= 0
$ awk '/^\| what it does/ {on = 1} on && !/^\|/ {exit} on' "$REPO/README.md" | sed 's/([^)]*)//g' | grep -oE '[0-9][0-9,.]*[0-9]( %)?' > figures; test $(grep -c '' figures) -gt 6 && while read -r f; do grep -rqF -- "$f" "$REPO"/docs/*.md || echo "no document has $f"; done < figures > missing; diff /dev/null missing
= 0
