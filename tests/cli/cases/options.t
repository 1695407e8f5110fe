# The rows of src/train/options.def are the only options of a training run: flags, help, checkpoint and log contain
# exactly the rows, and no other file lists them.
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text
@ tr '\n' ' ' < "$REPO/src/train/options.def" | awk '{gsub(/OPTION[(][A-Z]*,/, "\n&"); print}' | grep '^OPTION(' > rows
@ printf 'sed -nE "/$1\\\\(/s/^OPTION\\\\([A-Z]*, [a-z0-9_]*, \\"([a-z0-9-]*)\\".*/\\\\1/p" rows | sort\n' > ../bin/names; printf 'grep -E "$2" rows | grep "$1(" | sed -nE "s/^OPTION\\\\([A-Z]*, ([a-z0-9_]*),.*/\\\\1/p" | sort\n' > ../bin/keys; chmod +x ../bin/names ../bin/keys
$ names LANGUAGE | wc -l | awk '{print ($1 > 50)}'; names IMPORTED | wc -l | awk '{print ($1 > 30)}'
> 1
> 1
= 0
# Flags: the options in the help, without the command's own.
$ propane train --help | sed -nE 's/^  --([a-z0-9-]*).*/\1/p' | grep -vxE 'power|json|logdir|report|progress|background' | sort > flags; names LANGUAGE | diff - flags
= 0
? part:lm
$ propane train line.mil --help | sed -nE 's/^  --([a-z0-9-]*).*/\1/p' | grep -vxE 'config|json|logdir|report|progress|background' | sort > flags; names IMPORTED | grep -vx model | diff - flags
= 0
# The contents of a checkpoint: rows that are not FORGOTTEN, the state, and a description of the run.
? part:lm
@ propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 2 --eval-batches 1 --run lm > log
? part:lm
$ head -c 20000 lm/checkpoint.safetensors | tr -d '\\' | sed 's/"propane.config":"{[^}]*}"//' | grep -aoE '"[a-z0-9_]+":"' | tr -d '":' | grep -vxE 'dtype|format|checksums|tokens|token_sum|tokenizer|step|updates|position|evaluated|best|stale|best_loss|norm|scaler_good|scaler_skipped|scaler_scale' | sort -u > held; keys LANGUAGE 'FIXED|RECALLED' | diff - held
= 0
# The start record contains the same.
? part:lm
$ head -1 lm/log.jsonl | sed 's/"[^"]*"\([,}]\)/0\1/g' | grep -oE '"[a-z0-9_]+":' | tr -d '":' | grep -vxE 'event|time|version|command|tokens_per_step|architecture|parameters|trained|layers|width|heads|kv_heads|vocabulary|tokens|machine_.*|programs|device_note' | sort > held; keys LANGUAGE 'LANGUAGE\("[^"]*", LOGGED' | diff - held
= 0
# No second list: outside the rows, no training file spells a flag or a key of two words, or selects members by offset.
$ sed -nE 's/^OPTION\([A-Z]*, ([a-z0-9_]*), (NULL|"([a-z0-9-]*)").*/\1 \3/p' rows | tr ' ' '\n' | grep '[-_]' | sort -u | sed 's/.*/"(--)?&"/' > words; cd "$REPO"; { grep -rnE --include="*.c" --include="*.h" -f "$OLDPWD/words" src/train src/report/run apps/propane/cmd/cmd_train.c apps/propane/cmd/train_*.[ch]; grep -rn --include='*.c' --include='*.h' 'offsetof(train_options' src | grep -v '^src/train/train_options.c:'; } | cat; echo end
> end
= 0
# The weight modes also have only one list of names.
$ cd "$REPO"; grep -rnE --include='*.c' --include='*.h' '"baked"' src/train apps/propane | grep -v 'weight_mode.h' | grep -v strcmp; echo end
> end
= 0
# A value that no row allows is refused with the row's wording.
$ propane train --data text --weight-decay 101
2> propane train: --weight-decay: '101' is not a number from 0 to 100
2> Try 'propane train --help'.
= 2
$ propane train --data text --accumulate 1048577
2> propane train: --accumulate: '1048577' is not an integer from 1 to 1048576
2> Try 'propane train --help'.
= 2
$ propane train line.mil --data x --loss hinge
2> propane train: --loss: 'hinge' is not one of mse|cross_entropy
2> Try 'propane train --help'.
= 2
