# A log that nobody reads delays neither a request nor the end. Omitted lines are counted.
! curl part:lm
@ awk 'BEGIN{for(i=0;i<400;i++) print "line", i*i%977}' > text; propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0 --steps 1 --threads 1 --no-report --run m > log
@ mkfifo lines
$ propane serve m --port 0 --threads 1 > lines 2> errors & pid=$!; exec 3< lines; read -r said <&3; url=$(echo "$said" | sed -n "s/.*\(http:[^ ]*\)\/v1 .*/\1/p"); curl -s -o /dev/null -w '%{http_code}\n' "$url/health?n=[1-1500]" | sort | uniq -c | sed 's/^ *//'; head -c 50000 <&3 > drained; curl -s -o /dev/null "$url/health?last"; kill -TERM $pid; wait $pid; echo "ended with $?"; cat <&3 >> drained; sed -n 's/^[0-9]* lines were/N lines were/p' drained; tail -1 drained; grep -c GET drained | awk '{print ($1 > 500 && $1 < 1500)}'
> 1500 200
> ended with 0
> N lines were not written, because no process read them
> stopped
> 1
= 0
# a request has an id in the answer and in the log: the client's, if it is harmless, otherwise a new one
@ printf '%s\n' 'rm -f told; propane serve m --port 0 --threads 1 $flags > told 2> errors & pid=$!; i=0; until grep -qs http told || [ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done; url=$(sed -n "s/.*\(http:[^ ]*\)\/v1 .*/\1/p" told)' > ../bin/up
$ . ../bin/up; for id in mine-1.2 'a b' ''; do curl -s -D - -o /dev/null -H "X-Request-Id: $id" "$url/health" | tr -d '\r' | sed -n 's/^X-Request-Id: //p'; done > ids; kill $pid; wait $pid; head -1 ids; sed -n '2,3p' ids | grep -cE '^req_[0-9a-f]{16}$'; sort -u ids | grep -c ''; while read -r id; do grep -c "GET /health 200 .*, $id\$" told; done < ids
> mine-1.2
> 2
> 3
> 1
> 1
> 1
= 0
# SIGHUP reads the keys again; if the file cannot be used, the old keys stay
$ echo first > keys; flags="--api-key-file keys"; . ../bin/up; code() { curl -s -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $1" "$url/v1/models"; }; hup() { kill -HUP $pid; i=0; until [ $(grep -c '' errors) = $1 ] || [ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done; }; code first; code second; printf 'second\nthird\n' > keys; hup 1; code first; code second; : > keys; hup 2; code second; kill $pid; wait $pid; echo "ended with $?"; cat errors
> 200 401 401 200 200 ended with 0
> propane serve: read 2 keys
> propane serve: the keys were not replaced: keys: it contains no keys; give one key per line
= 0
