# --background: the lowest priority, and a pause whenever there is a reason for one.
! part:lm
@ mkdir -p sys/class/power_supply/BAT0 sys/class/thermal; echo Battery > sys/class/power_supply/BAT0/type; echo Discharging > sys/class/power_supply/BAT0/status; for i in $(seq 1 600); do echo "line $i"; done > text; grep -q 5 text
# It waits until mains power is back. The numbers are those of a run that never waited.
@ { while ! grep -qs paused out; do sleep 0.1; done; sleep 1.2; echo Charging > sys/class/power_supply/BAT0/status; } & PROPANE_SYSFS=$PWD/sys propane train --data text --steps 3 --layers 1 --width 32 --heads 2 --context 32 --run a --no-report --background --progress plain > out; wait
$ grep -E 'paused|going' out | sed 's/.*  //'
> paused after step 1: the machine runs on its battery
> going on
= 0
@ PROPANE_SYSFS=$PWD/sys propane train --data text --steps 3 --layers 1 --width 32 --heads 2 --context 32 --run b --no-report --background --json > plain; ! grep -q paused plain
$ cmp a/model.safetensors b/model.safetensors
= 0
# A signal also ends the pause.
@ echo Discharging > sys/class/power_supply/BAT0/status
$ PROPANE_SYSFS=$PWD/sys propane train --data text --steps 3 --layers 1 --width 32 --heads 2 --context 32 --run c --no-report --background --json > json & while ! grep -qs paused json; do sleep 0.1; done; kill -TERM $!; wait $!
2> propane train: stopped after step 1 of 3; continue with: propane train --resume c
= 143
$ grep paused json
> {"event":"paused","step":1,"reason":"the machine runs on its battery"}
= 0
