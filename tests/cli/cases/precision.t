# --precision auto on cpu compares times that are kept in a file. Here the tests write the times, so the machine decides nothing.
! part:lm
@ for i in 1 2 3 4; do cat "$REPO/docs/architecture.md"; done | head -c 20000 > text.txt
@ echo 'train --data text.txt --kind bytes --layers 1 --width 64 --heads 2 --hidden 256 --batch 4 --context 64 --steps 4 --eval-every 0 --eval-batches 1 --no-report' > args
@ i=0; until propane devices > first && [ -s ../cache/propane/products.txt ] || [ $i = 50 ]; do i=$((i + 1)); done; sed 's/ .*//; q' ../cache/propane/products.txt > word; test -s word
@ printf 'for p in "256 256 64 1 0 sr-sr-sr" "64 256 256 1 0 sc-sr-sr" "256 64 256 1 0 sr-sc-sr" "2048 256 768 1 0 sr-sr-sr" "768 256 2048 1 0 sc-sr-sr" "2048 768 256 1 0 sr-sc-sr"; do echo "$(cat word) $p-or-bf16: $1 $2"; done > ../cache/propane/products.txt\n' > ../bin/put; chmod +x ../bin/put
@ printf 'sed -n "s/.*\\"precision\\": *\\"\\([a-z0-9]*\\)\\".*/\\1/p" "$1/log.jsonl" | sort -u\n' > ../bin/taken; chmod +x ../bin/taken

$ put 20 10; propane devices | grep -A1 bf16:
>             bf16: 0.50 of fp32's time in a training step's products with weights
>               of 2048 x 768; 'train --precision auto' takes bf16 for them
= 0
$ put 10 20; propane devices | grep -A1 bf16:
>             bf16: 2.00 of fp32's time in a training step's products with weights
>               of 2048 x 768; 'train --precision auto' takes fp32 for them
= 0
# The default never looks at the times, so its bits are the same on every processor.
$ put 20 10; propane $(cat args) --run plain > /dev/null; propane $(cat args) --run wide --precision fp32 > /dev/null; cmp plain/model.safetensors wide/model.safetensors && taken plain
> fp32
= 0
$ propane $(cat args) --run auto --precision auto > log; grep -c '^device cpu, bf16,' log; propane $(cat args) --run narrow --precision bf16 > /dev/null; cmp auto/model.safetensors narrow/model.safetensors && taken auto
> 1
> bf16
2> propane: --precision auto takes bf16: with bf16, matrix products take 0.50 of fp32's time on this processor
= 0
$ cmp -s auto/model.safetensors plain/model.safetensors
= 1
# The saving must be at least a twentieth.
$ put 100 96; propane $(cat args) --run little --precision auto > /dev/null; taken little
> fp32
2> propane: --precision auto takes fp32: with bf16, matrix products take 0.96 of fp32's time on this processor
= 0
$ put 10 20; propane $(cat args) --run slow --precision auto > /dev/null; cmp slow/model.safetensors plain/model.safetensors && taken slow
> fp32
2> propane: --precision auto takes fp32: with bf16, matrix products take 2.00 of fp32's time on this processor
= 0
# A resumed run keeps its original type, whatever the times are now.
$ put 10 20; propane train --resume auto --steps 8 --precision auto > log; grep -c '^device cpu, bf16,' log; propane train --resume narrow --steps 8 > /dev/null; cmp auto/model.safetensors narrow/model.safetensors && taken auto
> 1
> bf16
= 0
$ propane train --resume auto --steps 9 --precision standard
2~ propane train: *precision*bf16*
= 1
# An explicit bf16 is used, with a note if it costs time.
$ put 10 20; propane $(cat args) --run asked --precision bf16 > /dev/null; taken asked
> bf16
2> propane: --precision bf16: matrix products take 2.00 times as long as with fp32 on this processor
= 0
$ put 10 20; propane $(cat args) --width 16 --hidden 32 --run small --precision auto > /dev/null; taken small
> fp32
2> propane: --precision auto takes fp32: this model's matrix products are not compared with bf16's, because they are small or a library computes them
= 0
# Ranks use the same type: bf16 only if it was measured to be faster for all of them.
? mpirun
@ cp "$REPO/tests/cli/ranks" ../bin; sed -i.old 's/256 256 64 1/256 128 64 1/; s/64 256 256 1/64 128 256 1/; s/256 64 256 1/256 64 128 1/' ../bin/put
$ put 10 20; mkdir -p other; cp -r ../cache/propane other; put 20 10; ranks 2 propane $(cat args) --run both --precision auto > log 2>&1; ranks 1 propane $(cat args) --run one --precision auto : -n 1 -x XDG_CACHE_HOME=$PWD/other propane $(cat args) --run one --precision auto >> log 2>&1; grep 'precision auto' log; taken both; taken one
> propane: --precision auto takes bf16: with bf16, matrix products take 0.50 of fp32's time on this processor
> propane: --precision auto takes fp32: with bf16, matrix products take 0.50 of fp32's time on this processor, but not for every rank
> bf16
> fp32
= 0
