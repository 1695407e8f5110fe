# Energy from a simulated /sys/class/powercap.
@ z=cap/intel-rapl:0; mkdir -p $z cap/intel-rapl:0:0; echo package-0 > $z/name; echo 1000000 > $z/energy_uj; echo 262143328850 > $z/max_energy_range_uj; echo dram > cap/intel-rapl:0:0/name; echo 5 > cap/intel-rapl:0:0/energy_uj; echo 10 > cap/intel-rapl:0:0/max_energy_range_uj
@ awk 'BEGIN{for(i=0;i<300;i++) print "line", i*i%97}' > text
$ PROPANE_POWERCAP=cap propane power --json -- sh -c 'echo 3500000 > cap/intel-rapl:0/energy_uj' | sed 's/:[0-9.]*,/:T,/'
> {"seconds":T,"cpu_j":2.5,"gpu_j":null,"ane_j":null,"dram_j":0}
= 0
$ PROPANE_POWERCAP=cap propane power --seconds 0.1
>~ over * s
>~   cpu        0.000 J      0.000 W
>~   ane   unknown: this system does not measure it
= 0
$ PROPANE_POWERCAP=cap propane power --seconds 0.5 --every 0.2 --json | wc -l | tr -d ' '
> 3
= 0
$ PROPANE_POWERCAP=cap propane power -- sh -c 'exit 7' | head -1 | cut -c1-5
> over 
= 0
$ PROPANE_POWERCAP=cap propane power -- sh -c 'exit 7' > log
= 7
$ PROPANE_POWERCAP=cap propane power -- none-such > log
2> propane power: cannot run none-such: No such file or directory
= 127
$ PROPANE_POWERCAP=none propane power
2> propane power: no energy counter can be read here: none: no such folder
= 1
? part:lm
$ PROPANE_POWERCAP=cap propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 1 --steps 2 --eval-batches 1 --power --json > log; head -1 log | grep -o '"cpu_j":0,"gpu_j":null,"ane_j":null,"dram_j":0'
> "cpu_j":0,"gpu_j":null,"ane_j":null,"dram_j":0
= 0
# The same in the run's log, on the watch screen and in the report. Parts without a counter are unknown.
? part:lm
$ PROPANE_POWERCAP=cap propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 1 --steps 2 --eval-batches 1 --power --report --run powered | grep -o 'cpu .*' | tail -1; grep -c '"cpu_j":0,"gpu_j":null,"ane_j":null,"dram_j":0' powered/log.jsonl; propane watch powered --once | grep machine; grep -o '<b>cpu[^<]*' powered/report.html
> cpu 0.000 J, gpu unknown, ane unknown, dram 0.000 J
> 2
> the machine in this step: cpu 0 J, gpu unknown, ane unknown, dram 0 J
> <b>cpu 0 J, gpu unknown, ane unknown, dram 0 J
= 0
# A comparison also has no row for a part that no run measured.
? part:lm
$ PROPANE_POWERCAP=cap propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 1 --steps 2 --eval-batches 1 --run plain > log; propane compare powered plain > table; grep -A1 '^joules' table | tr -s ' '; grep -cE '^  (gpu|engine)' table; propane compare powered plain --json | grep -oE '"(cpu|gpu)_j":[^,]*'; propane compare powered plain --json | grep -cE '"step_ms":[0-9]' 
> joules per step, cpu 0 -
>  memory 0 -
> 0
> "cpu_j":0.0
> "gpu_j":null
> "cpu_j":null
> "gpu_j":null
> 1
= 0
? part:lm
$ PROPANE_POWERCAP=none propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 1 --steps 2 --power
2> propane train: train without --power: no energy counter can be read here: none: no such folder
= 1
$ propane power --seconds 0
2> propane power: --seconds: '0' is not a number from 0.01 to 1e+06
2> Try 'propane power --help'.
= 2
