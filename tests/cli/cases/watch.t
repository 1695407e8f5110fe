# What a run leaves for its user: the log, the screen over it, the report, TensorBoard's event files.
! part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977, "<of>", i%7}' > text
@ printf 'propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 32 --batch 2 --steps 30 --eval-every 10 --eval-batches 1 "$@"\n' > ../bin/tiny; chmod +x ../bin/tiny
$ tiny --run r --logdir tb > log; ls r
>~ log.jsonl
>~ report.html
= 0
$ grep -c '"loss"' r/log.jsonl; grep -c '"val_loss"' r/log.jsonl; grep '"event"' r/log.jsonl | tail -1
> 30
> 3
> {"event":"done","step":30}
= 0
# the screen without a terminal: once, without control characters
$ LC_ALL=C.UTF-8 propane watch r | tee screen
>~ r: done
>~ * parameters, 1 layer, width 16, context 32; cpu, fp32, plan layer
>~ * 100.0 %
>~ step 30/30   loss *   lr *   gradient *
>~ * tokens/s   0m*s   memory * MB
>~ validation * at step 30   best *
= 0
$ grep -c "$(printf '\033')" screen
> 0
= 1
# a run that was interrupted and resumed: its log also continues, and repeated steps count once
$ propane train --data text --run r --resume --steps 40 > log; grep -c '"start"' r/log.jsonl; propane watch r --once | sed -n 4p
>~ 2
>~ step 40/40 *
= 0
$ mkdir cut; head -12 r/log.jsonl > cut/log.jsonl; printf 'not json\n{"step":12,"lo' >> cut/log.jsonl; propane watch cut | sed -n '1p;4p'
>~ cut: interrupted
>~ step 1?/30 *
= 0
$ mkdir empty; : > empty/log.jsonl; propane watch empty | tail -1
> no step has finished yet
= 0
# the report: one page without external parts, foreign text escaped, samples
$ grep -cE '(src|href)=|https?://|@import|<script [^i]' r/report.html; grep -c '<script' r/report.html
> 0
> 2
= 0
$ grep -c '<svg' r/report.html; grep -c '<h2>Samples' r/report.html; grep -q '&lt;of&gt;' r/report.html && tail -1 r/report.html
> 4
> 1
> </script></body></html>
= 0
# without scripts: the losses as characters
$ sed -n '/<noscript>/,/<.noscript>/p' r/report.html | LC_ALL=C grep -c '[^ -~]'; grep -c '</noscript>' r/report.html
> 12
> 1
= 0
$ grep -A1 '<h2>Again' r/report.html
>~ <pre>propane train --data text --run r --resume --steps 40</pre>
= 0
$ tiny --run s --no-report > log; test -e s/report.html
= 1
# event files in a folder with the run's name
$ grep -c 'brain.Event:2' tb/r/events.out.tfevents.*; grep -ac 'train/loss' tb/r/events.out.tfevents.*
>~ 1
>~ [1-9]*
= 0
$ : > file; tiny --run t --logdir file
2~ propane train: *file*
= 1
$ propane watch missing
2> propane watch: cannot open missing/log.jsonl: this folder contains no run with a log
= 1
$ propane watch
2> propane watch: RUN... is missing
2> Try 'propane watch --help'.
= 2
# several runs: their curves in one plot, each with its letter
$ printf '%s\n' 'propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 32 --batch 4 --steps 20 --lr 1e-2 --eval-every 10 --eval-batches 1 "$@"' > ../bin/other; chmod +x ../bin/other; other --run a/x > log; mkdir b; cp -r a/x b/x; propane watch r a/x --once > screen; sed -n 1,4p screen; grep -cE '  a$| a  *$' screen; tail -1 screen
>~ a  r: done
>~    step 40/40   loss *   validation *, best *   */s
>~ b  x: done
>~    step 20/20   loss *
>~ [01]
>~ *1 * 40
= 0
$ propane watch a/x b/x --validation | sed -n '1p;3p;5p'
> a  a/x: done
> b  b/x: done
> validation loss:
= 0
# in a comparison, the best figure is marked, and equal settings are left out
$ propane compare r a/x | tee table | sed -n '1,3p'; grep -A9 '^settings' table | awk '{print $1, $NF}'; grep -c '\*' table
>~ * r * x
>~ state * done * done
>~ steps * 40 * 20
>~ settings differ
>~ steps 20
>~ batch 4
>~ lr 0.01
>~ warmup 2
>~ [1-9]
= 0
# a long setting is printed below its name, and does not widen the columns
$ mkdir long; sed 's/"device":"cpu"/"device":"this name is much longer than a column should be"/' r/log.jsonl > long/log.jsonl; propane compare long a/x > table; sed -n '/^device/,/ x:/p' table; awk 'length($0) > 60' table
> device
>   long: this name is much longer than a column should be
>   x: cpu
= 0
# runs of different lengths have a row for the last step after which both were validated
$ propane compare r a/x | grep -c '^validation at 20 '; propane compare a/x b/x | grep -c '^validation at'
> 1
> 0
= 1
$ propane compare r a/x --json | grep -o '"differ":\[[^]]*'
>~ "differ":["steps","batch","lr",*
= 0
$ propane compare r a/x cut --html all.html > table && head -1 table; grep -c '<figure' all.html; grep -o '<th>.*</th>' all.html | grep -o 'k[012]' | sort -u | grep -c ''
>~ * r * x * cut
>~ 5
>~ 3
= 0
# the page of an interrupted run, and of one that is written again: its samples come from the log
$ propane report cut; grep -o 'State: interrupted, 1. of 30 steps' cut/report.html | cut -c1-18; cp r/report.html before; propane report r --out again.html; cmp before again.html
> wrote cut/report.html
> State: interrupted
> wrote again.html
= 0
# steps and losses with no number between them for a tick
$ cp -r r far; echo '{"step":4611686018427387904,"loss":3}' > far/log.jsonl; propane report far; { echo '{"step":1,"loss":1e16}'; echo '{"step":2,"loss":1.0000000000000002e16}'; } > far/log.jsonl; propane report far
> wrote far/report.html
> wrote far/report.html
= 0
$ propane report r missing
2> propane report: cannot open missing/log.jsonl: this folder contains no run with a log
= 1
$ propane compare empty cut | sed -n 2p
>~ state * interrupted * interrupted
= 0
$ propane report empty; grep -c '<figure' empty/report.html
> wrote empty/report.html
> 0
= 1
# show of a run's folder, or of its log, prints its progress
$ propane show r | tail -1; propane show r/log.jsonl; cd r && propane show log.jsonl
>~   training: done, step 40 of *, training loss *, validation loss *, best * at step 40
>~ r/log.jsonl: the log of a training run: done, step 40 of *
>~ log.jsonl: the log of a training run: done, step 40 of *
= 0
# a log that cannot be read is reported, after the folder's contents
$ cp -r r piped; rm piped/log.jsonl; mkfifo piped/log.jsonl; propane show piped > shown; code=$?; head -1 shown; exit $code
> piped: a model's folder
2> propane show: cannot read piped/log.jsonl: it is not a file
= 1
# samples begin at the start of a line
$ grep -o '"samples".*' r/log.jsonl | grep -o '"prompt": *"[^"]*"' | grep -c '"prompt": *"line'
> 6
= 0
# A flag that cannot have an effect is refused.
$ propane watch r --validation; propane watch r --once --interval 2
2> propane watch: --validation does not apply to one run, whose plot has both curves
2> Try 'propane watch --help'.
2> propane watch: --interval does not apply to one screen (--once)
2> Try 'propane watch --help'.
= 2
