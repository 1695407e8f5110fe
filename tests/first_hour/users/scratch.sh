# SPDX-License-Identifier: MIT
# Trains from a text with the defaults, is stopped, is killed, and continues: the model is the same as that of an
# undisturbed run.
step 'scratch: a text is no model, which is one line' '! propane show book.txt 2> err && [ $(wc -l < err) = 1 ] && grep "propane train --data" err'
step 'scratch: a whole run' 'propane train --data book.txt --layers 2 --width 48 --heads 2 --context 32 --steps 300 --run whole | tee log && grep -q "^300 steps = .* epoch" log && grep -q "guessing by each byte" log'
step 'scratch: Ctrl-C, the line that it prints, the same model' '
    rm -f log
    propane train --data book.txt --layers 2 --width 48 --heads 2 --context 32 --steps 300 --run stopped > log 2>&1 & pid=$!
    until_there "step 1/300" log && kill -INT $pid; wait $pid
    grep -q "step 300/300" log && { echo "it was done before it could be stopped"; exit 77; }
    again=$(sed -n "s/.*continue with: //p" log) && test -n "$again" && eval "$again" && cmp whole/model.safetensors stopped/model.safetensors'
step 'scratch: killed, --resume, the same model' '
    rm -f log
    propane train --data book.txt --layers 2 --width 48 --heads 2 --context 32 --steps 300 --checkpoint-every 20 --run killed > log 2>&1 & pid=$!
    until_there checkpoint log; kill -9 $pid; wait $pid
    propane train --resume killed && cmp whole/model.safetensors killed/model.safetensors'
step 'scratch: better than guessing, and it writes' 'propane eval whole --data other.txt | grep -i perplexity && propane generate whole --prompt "The " --count 20 && propane watch whole --once && ls whole/report.html'
step 'scratch: more steps' 'propane train --resume whole --steps 320 | grep -q "step 320/320"'
step 'scratch: a wrong text is one clear line' '! propane train --data nothing.txt --run no 2> err && [ $(wc -l < err) = 1 ] && ! ls no 2> /dev/null'
