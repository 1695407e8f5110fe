# propane estimate --workers: the bytes of its formulas compared with those that runs count, and the bottleneck.
# Tables of the estimate.
! part:lm
$ propane estimate stories110m --workers 8 --bandwidth 20M --latency 40 --outer 500 --wire fp16
>~ M4, estimated: 8 workers, 20 Mbit/s and 40 ms between them; 109.5 million parameters, outer steps every 500, adapters of * million
>~ way *wire *per message *per step *per worker-day *step *tokens/s *computing *bound by
>~ data-parallel *fp16 *383 MB *bandwidth
>~ outer *fp16 *383 MB *767 KB *bandwidth
>~ adapters *fp32 *compute
>~ * a step without exchanges: *
= 0
$ propane estimate stories110m --workers 2 --bandwidth 10G --outer 20 | awk 'NR > 2 && NR < 6 {print $1, $NF}'
> data-parallel bandwidth
> outer compute
> adapters compute
= 0
$ propane estimate stories110m --target m1,m4 --workers 8 --json > ways.json; grep -c '"way"' ways.json
> 6
= 0
# 2 (k - 1) / k of all numbers, 4 bytes each, at k = 8: 700 MB for 100 million
$ propane estimate stories110m --workers 8 --json | awk -F'[ :,]+' '/"way"/ {way = $3} /"parameters"/ {n = $3} /"message_bytes"/ {b = $3} /"bound_by"/ && way ~ /data/ {d = b / (2 * 7 / 8 * 4 * n) - 1; print (d < 1e-4 && d > -1e-4 ? "equal" : "differ " d)}'
> equal
= 0
# one worker sends nothing
$ propane estimate stories110m --workers 1 --outer 10 --json | grep -c '"message_bytes": 0.0'
> 2
= 0
# the limit: latency, bandwidth, neither
$ propane estimate stories110m --workers 8 --bandwidth 1T --latency 1000 | awk '/^data-parallel/ {print $NF}'; propane estimate stories110m --workers 8 --bandwidth 1M | awk '/^data-parallel/ {print $NF}'; propane estimate stories110m --workers 8 --bandwidth 1T | awk '/^data-parallel/ {print $NF}'
> latency
> bandwidth
> compute
= 0
# errors
$ propane estimate stories110m --workers 8 --bandwidth fast
2> propane estimate: --bandwidth is in bits per second: 20M, 1G
2> Try 'propane estimate --help'.
= 2
$ propane estimate stories110m --workers 8 --bandwidth 20X
2> propane estimate: --bandwidth is in bits per second: 20M, 1G
2> Try 'propane estimate --help'.
= 2
$ propane estimate stories110m --workers 8 --wire int5
2~ propane estimate: *int5*
2> Try 'propane estimate --help'.
= 2
