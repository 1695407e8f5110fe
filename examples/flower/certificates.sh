#!/bin/sh
# SPDX-License-Identifier: MIT
# certificates.sh DIR [NAME...]: makes a certificate authority, a certificate for a SuperLink with these names or addresses
# (default: localhost and 127.0.0.1), and a key for each of two SuperNodes, by which a returning SuperNode is recognised. Needs
# openssl and ssh-keygen. Only the owner can read the keys.
set -eu
[ $# -ge 1 ] || { echo "certificates.sh DIR [NAME...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- localhost 127.0.0.1
umask 077
mkdir -p "$dir"
names=
for name in "$@"; do
    case $name in *[!0-9.]*) kind=DNS ;; *) kind=IP ;; esac
    names="$names${names:+,}$kind:$name"
done
openssl ecparam -name prime256v1 -genkey -noout -out "$dir/ca.key"
openssl req -x509 -new -key "$dir/ca.key" -sha256 -days 365 -subj "/CN=propane-flower authority" -out "$dir/ca.crt" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
openssl ecparam -name prime256v1 -genkey -noout -out "$dir/server.ec.key"
openssl pkcs8 -topk8 -nocrypt -in "$dir/server.ec.key" -out "$dir/server.key"
rm "$dir/server.ec.key"
openssl req -new -key "$dir/server.key" -subj "/CN=$1" -out "$dir/server.csr"
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n' "$names" > "$dir/server.ext"
openssl x509 -req -in "$dir/server.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -days 365 -sha256 \
    -extfile "$dir/server.ext" -out "$dir/server.crt" 2> /dev/null
rm "$dir/server.csr" "$dir/server.ext"
for node in 0 1; do
    rm -f "$dir/node$node.key" "$dir/node$node.key.pub"
    ssh-keygen -q -t ecdsa -b 384 -N "" -C "node $node" -f "$dir/node$node.key"
done
echo "$dir: ca.crt (for everybody), server.crt and server.key (the SuperLink's), node0.key and node1.key (a SuperNode's each)"
