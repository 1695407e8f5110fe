# Explanation of a probe's report, without an engine: it distinguishes the ways in which the first contact may fail.
! ldd
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so; mkdir tmp
@ printf 'export TMPDIR="$PWD/tmp" PROPANE_ANE_LIBRARY="$PWD/standin.so" ASAN_OPTIONS=handle_segv=0:handle_abort=0\n' > set
@ printf '. ./set; PROPANE_STANDIN=$1 propane devices --probe --only machine,folder,folder-below,folder-unset,attributes-inner,attributes-wrapper,weight-files,weight-files-client,ways,sizes,keeping,weights,procedures,dialect,fp32,kernels,operations,requests,read-output --output $2.json > log\n' > ask.sh
@ printf 'unset PROPANE_ANE_LIBRARY; propane devices --probe --explain $1.json > words; awk -f join words\n' > tell.sh
@ printf '/^  [0-9]+[.] / { if (s) print s; sub(/^  [0-9]+[.] /, ""); s = $0; next }\n/^     / && s { sub(/^ +/, ""); s = s " " $0; next }\n{ if (s) print s; s = "" }\nEND { if (s) print s }\n' > join
# several weight files, which every macOS 27 refuses; older systems do not
$ sh ask.sh system=27 whole; sh tell.sh whole; grep -c '^  routes      memory: works; client: works' words; grep '^Recommended' words
>~ A program with several weight files is refused (code 10)*
>~ 1
>~ Recommended: --device 'ane:memory?dispatch=standard&sizes=any&descriptor=drop&folder=drop&procedures=on'
= 0
$ sh ask.sh system=26 older; sh tell.sh older; grep -c '^No question failed' words
> 1
= 0
# a TMPDIR other than the user's own folder: only that is reported, by the driver as well
$ sh ask.sh tmpdir=own,files=off t; sh tell.sh t | sed "s|(.*/tmp)|(D)|" | cut -c1-60; grep "^Recommended" words
> TMPDIR (D) prevents programs from compiling: unset it, or se
> Recommended: --device 'ane:client'
= 0
$ . ./set; printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 16]> x) {\n        tensor<fp16, [1, 16]> y = sin(x = x)[name = string("y")];\n    } -> (y);\n}\n' > s.mil; PROPANE_STANDIN=tmpdir=own propane run s.mil --seed 1 --device ane 2>&1 | grep -o "TMPDIR is .*: unset it and try again (F5)" | wc -l
> 1
= 0
# attributes of the memory route's own class; a different folder, or none reported
$ sh ask.sh wrapper=attributes,files=off a; sh tell.sh a; sh ask.sh path=nil,files=off b; sh tell.sh b; sh ask.sh path=other,files=off c; sh tell.sh c | grep -c 'is a different one by localModelPath'
>~ Reading a program's attributes through the class of the memory route ends the process: *externConstants*The driver reads them from the inner model.
>~ The folder of a program's files is not reported by localModelPath; *
>~ 1
= 0
# evaluation calls that crash, places held by other programs, types, weights that cannot be replaced, an operation
$ for s in realtime=crash pool=1 float32=refused reload=baked refuse_op=silu refuse_op=softmax; do sh ask.sh $s,files=off x; sh tell.sh x | cut -c1-60; done
> Trying evaluation methods other than the standard one ends o
> All of the machine's slots for loaded programs were in use (
> fp32 inputs are refused, as reported for the M1 and M2 (C18a
> A compiled program cannot be reloaded with other weights (we
> Operations are refused: kernels (a layer is refused: silu 'g
> Operations are refused: kernels (a layer is refused: softmax
= 0
# outputs that the program also reads
$ sh ask.sh outputs=nan,files=off x; sh tell.sh x; grep -o 'outputs=identity.$' words
> An output that the program also reads is wrong (C59). Training kernels have such outputs; outputs=identity corrects it.
> outputs=identity'
= 0
# other error texts and codes are not a failure
$ for s in texts=new texts=old; do sh ask.sh $s,files=off x; sh tell.sh x; grep -o '^  errors  .* macOS ..' words; done
>   errors      have the codes and texts of macOS 27
>   errors      have the codes and texts of macOS 26
= 0
# a compiler that crashes, a system with other names
$ for s in compile=crash hide_class=_ANERequest; do sh ask.sh $s x; sh tell.sh x | cut -c1-60; done
> Questions ended without an answer: folder: crashed with sign
> This system's framework lacks methods that the driver calls,
= 0
# no program at all, or no engine: the text says so and recommends no options; a full pool is not a refusal of weight files
$ for s in compile=invalid engine=no; do sh ask.sh $s x; sh tell.sh x | cut -c1-100; grep -c '^No program ran, so no options' words; done; sh ask.sh pool=1,files=off x; sh tell.sh x | grep -c 'several weight files'
> No program runs on this engine, not even the smallest: it fails at compile with code 1, _ANECompiler
> 1
> The engine cannot be used: this machine has no Neural Engine (_ANEDeviceInfo says so): an Intel Mac 
> 1
> 0
= 1
# an unknown error, a truncated report, files that are not reports
$ echo '{"report": "propane devices --probe", "state": "being asked", "answers": {"x": {"load": {"error": {"domain": "d", "code": 77}}}}}' > x.json; sh tell.sh x; tr '\n' ' ' < words | grep -c 'did not finish'
> Errors that the driver has no advice for: d, code 77. The report contains their texts; please send it.
> 1
= 0
$ head -c 700 whole.json > cut.json; propane devices --probe --explain cut.json; echo '{"answers": {}}' > no.json; propane devices --probe --explain no.json; propane devices --explain nowhere.json
2~ propane devices: cut.json:*
2> propane devices: no.json: not a report of 'propane devices --probe'
2~ propane devices: cannot open nowhere.json: *
= 1
# profile= applies the resulting defaults; later options override them; a report from another system build is refused
@ printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 16]> x) {\n        tensor<fp16, [1, 16]> y = sin(x = x)[name = string("y")];\n    } -> (y);\n}\n' > one.mil
$ . ./set; propane run one.mil --seed 1 --device 'ane?profile=whole.json&qos=33' | grep -c y; sed 's/"build": "[^"]*"/"build": "25F1"/' whole.json > far.json; propane run one.mil --seed 1 --device 'ane?profile=far.json'; propane run one.mil --seed 1 --device 'ane?profile=no.json'
> 1
2~ propane run: far.json: it was written on system build '25F1', but this system is '26-stand-in': probe again, or leave out profile=
2~ propane run: no.json: it has no "profile"; *
= 1
