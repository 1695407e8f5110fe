# A log that nobody reads holds up no request and not the end; what was left out is told.
! curl
@ awk 'BEGIN{for(i=0;i<400;i++) print "line", i*i%977}' > text; propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0 --steps 1 --threads 1 --no-report --run m > log
@ mkfifo lines
$ propane serve m --port 0 --threads 1 > lines 2> errors & pid=$!; exec 3< lines; read -r said <&3; url=$(echo "$said" | sed -n "s/.*\(http:[^ ]*\)\/v1 .*/\1/p"); curl -s -o /dev/null -w '%{http_code}\n' "$url/health?n=[1-1500]" | sort | uniq -c | sed 's/^ *//'; head -c 50000 <&3 > drained; curl -s -o /dev/null "$url/health?last"; kill -TERM $pid; wait $pid; echo "ended with $?"; cat <&3 >> drained; sed -n 's/^[0-9]* lines were/N lines were/p' drained; tail -1 drained; grep -c GET drained | awk '{print ($1 > 500 && $1 < 1500)}'
> 1500 200
> ended with 0
> N lines were not written: nobody took them
> stopped
> 1
= 0
