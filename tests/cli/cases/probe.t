# The probe of a device: the files that it leaves in every case, and the contents of its report.
! ldd ps
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so; mkdir tmp
@ printf 'export TMPDIR="$PWD/tmp" PROPANE_ANE_LIBRARY="$PWD/standin.so" ASAN_OPTIONS=handle_segv=0:handle_abort=0\n' > set
# The report is written to the user's cache or to the requested path, never to the current folder. It names no home folder.
$ . ./set; PROPANE_STANDIN=engine=no HOME=$PWD propane devices --probe | tail -1; ls
>~ The report is in */cache/propane/probe.json. docs/apple.md explains where to send it.
>~ set
>~ standin.so
>~ tmp
= 0
$ grep -c "$PWD" ../cache/propane/probe.json; grep -o '"TMPDIR": "[^"]*"' ../cache/propane/probe.json; ls | grep -c json
> 0
> "TMPDIR": "~/tmp"
> 0
= 1
# A missing name is an answer, and the list of names is complete. Questions that need no engine still run.
$ . ./set; PROPANE_STANDIN=hide_class=_ANERequest propane devices --probe --output missing.json > out; grep -c '"missing  class _ANERequest (required)' missing.json; grep -c '"missing  method .*_ANERequest request' missing.json; grep -q 'not asked: the device cannot be used' missing.json && grep -c '_gb_per_s' missing.json
> 1
> 2
> 2
= 0
# A crash at the first call, and a question that hangs: every answer is written as soon as it is known.
$ . ./set; PROPANE_STANDIN=compile=crash propane devices --probe --only machine,ways,gelu --output crash.json > out; grep -c '"ended": "crashed"' crash.json; grep -c '"signal": 11' crash.json; ls tmp
> 2
> 2
= 0
$ . ./set; PROPANE_STANDIN=slow_ns=100000000000 propane devices --probe --only machine,ways,gelu --limit 1 --output hang.json > out; grep -c '"ended": "time limit"' hang.json; grep '"state"' hang.json; ls tmp
> 2
>   "state": "complete",
= 0
$ . ./set; PROPANE_STANDIN=slow_ns=100000000000 propane devices --probe --only machine,ways,gelu --output stop.json > out & pid=$!; until [ -s stop.json ]; do sleep 0.05; done; kill -TERM $pid; wait $pid; code=$?; grep -cE '"ended": "(interrupted|not asked)"' stop.json; grep '"state"' stop.json; ls tmp; exit $code
> 2
>   "state": "interrupted",
= 143
# A killed probe also ends the processes of its questions.
$ . ./set; PROPANE_STANDIN=slow_ns=100000000000 propane devices --probe --device 'ane:memory?qos=37' --only machine,gelu --output killed.json > out & pid=$!; until [ -s killed.json ]; do sleep 0.05; done; kill -KILL $pid; wait $pid 2> /dev/null; n=0; while ps -eo comm,args | grep -q '^propane .*qos=37' && [ $n -lt 200 ]; do sleep 0.05; n=$((n + 1)); done; ps -eo comm,args | grep -c '^propane .*qos=37'; grep '"state"' killed.json
> 0
>   "state": "being asked",
= 0
@ rm -rf tmp/*
# A report that cannot be written is printed.
$ . ./set; propane devices --probe --only machine --output nowhere/probe.json | grep -c '^  "report": "propane devices --probe"'
> 1
2~ propane devices: the report was printed above because it cannot be written: *nowhere/probe.json*
= 0
# Questions that take other programs' places, or are dangerous, run only by name.
$ . ./set; propane devices --probe --only limit-memory,machine --limit 100 | grep -c '"answer"'
> 2
= 0
# Evaluation on an idle engine runs on macOS 27 only. The report contains all answers that are known by the time limit.
$ . ./set; PROPANE_STANDIN=system=26 propane devices --probe --only idle --output idle.json > out; grep '"error"' idle.json
>       "error": "skipped on systems before macOS 27 (this build is 25-stand-in): evaluating after pauses has caused kernel panics on 26.5.2",
= 0
$ . ./set; PROPANE_STANDIN=system=27,idle=1 propane devices --probe --only idle --limit 2 --output idle.json > out; grep -A8 '"the first call": {' idle.json | grep -c '"code": 34'; grep -c '"ended": "time limit"' idle.json; ls tmp
> 1
> 1
= 0
# Single questions: which file a load reads, the errors of requests, the last call before an exception.
$ . ./set; PROPANE_STANDIN=system=27 propane devices --probe --only reload,requests,request-statistics,types,after-refusal,kernels | sed 's/.*"answer":"\([^"]*\)".*/\1/; s/ [0-9.]* s later/ N s later/'; ls tmp
> every operation of a layer is accepted
> data written over: the new weights, weight file written over: the old weights, another model with the first one's net.plist: the new weights, another model that was given the digest: fails with code 6
> a request with surfaces of different sizes is taken, one with a surface that is too small is refused with code 42, one whose inputs are swapped is refused with code 42
> an empty list of statistics is taken, a list with statistics is taken
> int8 weights by blocks with a scale for each channel: taken, quantize with a scale for each channel: taken, int8 in a signature: refused with code 1
> a text that is not a program is refused; a valid program is taken N s later, at try 1
= 0
$ . ./set; PROPANE_STANDIN=reload=baked propane devices --probe --only reload | grep -o "data written over: the old weights"; PROPANE_STANDIN=wrapper=attributes propane devices --probe --only attributes-wrapper | grep -o '"exception":{"name":"[^"]*"\|"call":"[^"]*"'
> data written over: the old weights
> "exception":{"name":"NSInvalidArgumentException"
> "call":"-[_ANEInMemoryModel modelAttributes]"
= 0
# Two processes share the machine's places.
$ . ./set; PROPANE_STANDIN=system=27,pool=60,temporary=$PWD/tmp propane devices --probe --only limit-two | grep -o '"answer":"40[^"]*"\|"place_free_after_ms":[0-9]'; rm -f tmp/.standin*
>~ "answer":"40 in one process, and at the same time in another: 20"
>~ "place_free_after_ms":?
= 0
