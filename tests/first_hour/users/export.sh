# SPDX-License-Identifier: MIT
# Chats with the trained model and exports it: a merged folder, GGUF files of several types, an adapter for llama.cpp.
small_model &&
    step 'export: adapters' 'propane train --init my-model --data chat.jsonl --lora-rank 8 --steps 30 --run tuned' &&
    step 'export: a chat' 'printf "What is 3?\nAnd 4?\n" | propane chat my-model --adapter tuned --count 8 --temperature 0' &&
    step 'export: merged, as a folder and GGUF: the same words' 'propane convert my-model merged --merge tuned && propane convert my-model merged.gguf --merge tuned && ls merged/config.json merged/model.safetensors merged/tokenizer.json &&
        for m in "my-model --adapter tuned" merged merged.gguf; do propane generate $m --prompt "What is" --count 20 --temperature 0 > "text $m" || exit 1; done &&
        cmp "text merged" "text merged.gguf" && cmp "text merged" "text my-model --adapter tuned"' &&
    step 'export: q8_0 and q4_k' 'for t in q8_0 q4_0; do propane convert merged $t.gguf --dtype $t && propane generate $t.gguf --prompt "What is" --count 5 || exit 1; done; [ $(wc -c < q8_0.gguf) -lt $(wc -c < merged.gguf) ] && propane show q8_0.gguf' &&
    step 'export: an adapter for llama.cpp' 'propane convert tuned adapter.gguf && propane show adapter.gguf' &&
    step 'export: a Core ML package' 'propane convert merged Model.mlpackage --stateless 16 && propane show Model.mlpackage' &&
    step 'export: a damaged file is one clear line' 'head -c 5000 merged.gguf > cut.gguf; ! propane generate cut.gguf 2> err && [ $(wc -l < err) = 1 ]'
