# Help, other names of flags, man pages, completions: all made from the commands' own tables.
@ propane help --names > names; wc -l < names | awk '$1 < 20 {exit 1}'
# every command has an example and is listed once, by task
$ for c in $(cat names); do propane $c --help | sed -n '/^Examples$/,$p' | grep -q '^  .*propane ' || echo "$c has no example"; propane --help | grep -c "^  $c  *[a-zO]" | grep -qx 1 || echo "$c is not listed"; done
= 0
$ for c in $(grep -v serve names); do propane $c -h > a; propane help $c > b; cmp a b; done; propane -h > a; propane help > b; cmp a b; propane -V > a; propane -v > b; propane --version | cmp - a; propane version | cmp - b
= 0
# the most common options are listed first, and once
$ propane train --help | grep -nE '^(Common|Text|  --data|  --resume)' | sed 's/:  */:/' | cut -c1-14
>~ [0-9]*:Common
= 0
$ propane train --help | grep -cE '^  --steps'
> 1
= 0
$ propane train --help | awk '/^Common/ {c = NR} /^Text/ {t = NR} /^  --steps/ {s = NR} END {exit !(c < s && s < t)}'
= 0
# no help line is longer than 80 columns, except examples
$ for c in $(cat names); do propane $c --help | sed '/^Examples$/,$d' | awk -v c=$c 'length($0) > 80 {print c ": " $0}'; done
= 0
# similar words and other names
$ propane generate m --promt x
2> propane generate: there is no flag '--promt'; did you mean '--prompt'?
2> Try 'propane generate --help'.
= 2
$ propane train --lrr 1 --data x
2> propane train: there is no flag '--lrr'; did you mean '--lr'?
2> Try 'propane train --help'.
= 2
$ propane train --learning-rat 1 --data x
2> propane train: there is no flag '--learning-rat'; did you mean '--lr'?
2> Try 'propane train --help'.
= 2
$ propane train --xyzzy 1
2> propane train: there is no flag '--xyzzy'
2> Try 'propane train --help'.
= 2
$ propane train --learning-rate=no
2~ propane train: --lr: 'no' is not a number*
2> Try 'propane train --help'.
= 2
$ propane train --batch_size 0
2~ propane train: --batch: '0' is not an integer from 1 to *
2> Try 'propane train --help'.
= 2
# words of other tools that have no use here, or another meaning
$ propane train --mask_prompt --data x
2> propane train: there is no flag '--mask_prompt': no flag is needed: the loss covers only answers, never prompts
2> Try 'propane train --help'.
= 2
$ propane lora --model x
2> propane: there is no command 'lora': propane train --init MODEL --data chat.jsonl --lora-rank 8 --run tuned
2> Try 'propane --help'.
= 2
# each answer names existing flags and commands, and no word that has a meaning here
$ sed -nE 's/^ANSWER\("(.*)", "(.*)", "(.*)"\)$/\1|\2|\3/p' "$REPO/apps/propane/aliases.def" > answers; grep -c '^ANSWER(' "$REPO/apps/propane/aliases.def" | grep -qx "$(grep -c '' answers)" || echo "a row is not understood"; for c in $(cat names); do propane help --man $c | sed 's/\\-/-/g'; done > flags; while IFS='|' read -r c n t; do [ -z "$c" ] || { propane $c "$n" 2>&1 | grep -qF -- "$t" || echo "$c $n is not answered"; }; [ -n "$c" ] || ! grep -qx "$n" names || echo "$n is a command"; for f in $(echo "$t" | grep -oE -- '--[a-z-]+'); do grep -qF -- "$f" flags || echo "$f is no flag"; done; done < answers
= 0
# each row of aliases.def names something that exists
? part:lm
$ for c in $(cat names); do propane help --man $c; done > pages; sed -nE 's/^ALIAS\("(.*)", "(.*)"\)/\1/p' "$REPO/apps/propane/aliases.def" | sort -u | while read -r n; do grep -qF "fB$(printf '%s' "$n" | sed 's/-/\\-/g')\\fR" pages || echo "nothing has the other name $n"; done
= 0
? part:lm
@ awk 'BEGIN{for(i=0;i<900;i++) print "line", i*i%977, "of", i%7}' > text; propane train -d text --vocab-size 300 --num-layers 1 --hidden-size 32 --num_heads 2 --block-size 32 --batch-size 2 -n 4 --learning-rate 1e-2 --eval-steps 0 -o run > log
? part:lm
$ propane generate run -p 'line 1' -n 3 --temp 0 > a; propane generate run --prompt 'line 1' --count 3 --temperature 0 | cmp - a; propane generate run -p 'line 1' --max-tokens 3 --temp 0 | cmp - a; wc -c < a | awk '{exit $1 < 3}'
= 0
$ propane help --man train | sed -n 1p
>~ .TH PROPANE-TRAIN 1 "" "propane *" Propane
= 0
$ propane help --man nothing
2> propane help: there is no command 'nothing'
2> Try 'propane help --help'.
= 2
$ propane completion csh
2> propane completion: SHELL: 'csh' is not one of bash|zsh|fish
2> Try 'propane completion --help'.
= 2
$ propane completion fish | grep -c -- '-l schedule -x -a .cosine linear'; propane completion zsh | head -1
> 1
> #compdef propane
= 0
$ propane version | grep -cE '^(parts|without|at run time) .*(server|Open MPI)'
> 2
= 0
