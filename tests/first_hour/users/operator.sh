# SPDX-License-Identifier: MIT
# Serves with keys and a certificate, changes both, reads the metrics, and stops the server.
cat >> "$root/words" << 'EOF'
serve_it() { # FLAGS...: sets $pid and $url
    rm -f serve.log serve.err # the previous log also contains "at" until the new process has emptied it
    propane serve my-model --port 0 "$@" > serve.log 2> serve.err & pid=$!
    until_there '/v1 ' serve.log && url=$(sed -nE 's/.* at (https?:[^ ]*)\/v1 .*/\1/p' serve.log)
}
EOF
small_model &&
    step 'operator: serve, complete, metrics, stop' 'serve_it && curl -sf $url/v1/completions -d "{\"prompt\":\"a\",\"max_tokens\":3}" | grep -q choices &&
        curl -sf $url/v1/chat/completions -d "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":3,\"stream\":true}" | grep -q "DONE" &&
        curl -sf $url/metrics | grep -q ^propane && curl -sf $url/ | grep -qi "<!doctype"; code=$?; kill -TERM $pid; wait $pid && exit $code' &&
    step 'operator: the log has a line for each request' '[ $(grep -c "POST /v1/.* 200 " serve.log) = 2 ] && tail -1 serve.log | grep -q stopped' &&
    step 'operator: keys, a new one without a pause' 'echo one > keys; chmod 600 keys; serve_it --api-key-file keys; code() { curl -s -o answer -w "%{http_code} " $url/v1/models -H "Authorization: Bearer $1"; }
        a=$(code one)$(code two); echo two > keys; kill -HUP $pid; until_there "key read" serve.err; b=$(code one)$(code two); kill $pid; wait $pid; echo "$a$b"; [ "$a$b" = "200 401 401 200 " ]' &&
    step 'operator: HTTPS, a new certificate without a pause' 'command -v openssl > /dev/null || { echo "no openssl"; exit 77; }
        new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2> openssl.log; }
        new; cp cert.pem first.pem; serve_it --tls-cert cert.pem --tls-key key.pem; curl -sf --cacert first.pem $url/health && new && kill -HUP $pid && until_there "was read again" serve.err &&
        curl -sf --cacert cert.pem $url/health && ! curl -sf --cacert first.pem $url/health; code=$?; kill $pid; wait $pid; exit $code' &&
    step 'operator: a request that is wrong, one that is unknown' 'serve_it; for r in "v1/completions {" "v1/nothing {}"; do curl -s $url/${r% *} -d "${r#* }" | grep -q "\"error\"" || echo bad; done > bad; kill $pid; wait $pid; [ ! -s bad ]' &&
    step 'operator: the systemd unit is installed' 'grep -q "ExecStart=.*" $PREFIX/lib/systemd/system/propane-serve.service && grep -q "$PREFIX/bin/propane serve" $PREFIX/lib/systemd/system/propane-serve.service'
