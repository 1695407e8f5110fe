# SPDX-License-Identifier: MIT
# Starts with a Hugging Face folder and instruction data: trains adapters and all weights, with the defaults.
small_model &&
    step 'tuner: what is learnt' 'propane show chat.jsonl --model my-model | tee shown && grep -q "It is 3" shown' &&
    step 'tuner: adapters, three epochs' 'propane train --init my-model --data chat.jsonl --lora-rank 8 --run tuned | tee log && grep -q "steps = 3.* epochs" log &&
        set -- $(sed -nE "s/^training: ([0-9]+) steps.* after ([0-9]+) steps of warm-up.*/\1 \2/p" log) && [ $2 -lt $1 ] && ls tuned/adapter_model.safetensors' &&
    step 'tuner: better than before' 'before=$(propane eval my-model --data chat.jsonl --json | sed -nE "s/.*\"loss\": *([0-9.]+).*/\1/p"); after=$(propane eval my-model --adapter tuned --data chat.jsonl --json | sed -nE "s/.*\"loss\": *([0-9.]+).*/\1/p")
        echo "$before $after"; awk "BEGIN { exit !($after > 0 && $after < $before) }"' &&
    step 'tuner: stopped, tried, goes on' 'rm -f log; propane train --init my-model --data chat.jsonl --lora-rank 8 --epochs 5000 --run stopped > log 2>&1 & pid=$!
        until_there "step 1/" log; sleep 1; kill -INT $pid; wait $pid; echo "What is 3?" | propane chat my-model --adapter stopped --count 5 && grep -q "continue with: propane train --resume stopped" log'
step 'tuner: all weights' 'propane train --init my-model --data chat.jsonl --epochs 2 --run full && propane eval full --data chat.jsonl | grep -i perplexity && propane show full && ls full/report.html full/log.jsonl'
step 'tuner: train, valid and test of a folder' 'mkdir -p mlx && head -300 chat.jsonl > mlx/train.jsonl && tail -50 chat.jsonl | tee mlx/valid.jsonl > mlx/test.jsonl && propane train --init my-model --data mlx --steps 2 --run split | grep "not read: test.jsonl"'
step 'tuner: a flag of another tool is answered' '! propane train --init my-model --data chat.jsonl --mask-prompt 2> err && grep -q "the loss covers only answers" err'
