# SIGHUP reads a certificate and its key again. If the files cannot be used, the old ones stay.
! curl openssl part:lm
@ awk 'BEGIN{for(i=0;i<400;i++) print "line", i*i%977}' > text; propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0 --steps 1 --threads 1 --no-report --run m > log
@ for n in a b c; do openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $n.key -out $n.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2> log; done; cp a.pem cert.pem; cp a.key key.pem
@ printf '%s\n' 'rm -f told; propane serve m --port 0 --threads 1 --tls-cert cert.pem --tls-key key.pem $flags > told 2> errors & pid=$!; i=0; until grep -qs http told || [ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done; url=$(sed -n "s/.*\(https:[^ ]*\)\/v1 .*/\1/p" told); code() { curl -s -o /dev/null -w "%{http_code} " --cacert $1.pem "$url/health"; }; hup() { kill -HUP $pid; i=0; until [ $(grep -c "" errors) = $1 ] || [ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done; }' > ../bin/up
$ . ../bin/up; code a; code b; cp b.pem cert.pem; cp b.key key.pem; hup 1; code a; code b; cp a.key key.pem; hup 2; code b; echo none > cert.pem; hup 3; code b; cp c.pem cert.pem; cp c.key key.pem; hup 4; code b; code c; for n in 5 6 7 8 9; do hup $n; done; code c; ls /proc/$pid/task 2> /dev/null | awk 'END {print (NR < 9 ? "few threads" : NR)}'; kill $pid; wait $pid; echo "ended with $?"; sort errors | uniq -c | sed 's/^ *//'
> 200 000 000 200 200 200 000 200 200 few threads
> ended with 0
> 1 propane serve: the certificate was not replaced: TLS: the certificate and the key are not a usable pair in PEM format
> 1 propane serve: the certificate was not replaced: cert.pem: not in PEM format; to convert it: openssl x509 -in FILE
> 7 propane serve: the certificate was read again
= 0
# with keys, too
$ cp a.pem cert.pem; cp a.key key.pem; echo first > keys; flags="--api-key-file keys"; . ../bin/up; cp b.pem cert.pem; cp b.key key.pem; echo second > keys; hup 2; code b; curl -s -o /dev/null -w '%{http_code} ' --cacert b.pem -H 'Authorization: Bearer second' "$url/v1/models"; curl -s -o /dev/null -w '%{http_code}\n' --cacert b.pem -H 'Authorization: Bearer first' "$url/v1/models"; kill $pid; wait $pid; cat errors
> 200 200 401
> propane serve: read 1 key
> propane serve: the certificate was read again
= 0
