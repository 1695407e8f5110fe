# A command's calls to the engine's classes, on the stand-in.
! readlink
@ d=$(dirname "$(readlink -f ../bin/propane)"); printf 'export PROPANE_ANE_LIBRARY=%s/tests/standin/libstandin.so\nexport ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0\n' $d > standin
@ awk 'BEGIN{for(i=0;i<300;i++) print "line", i*i%97}' > text
? part:lm
$ . ./standin; propane trace --output log -- propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 32 --batch 1 --steps 2 --eval-batches 1 --device ane --json > train.log; head -1 train.log | cut -c1-8
> {"step":
= 0
? part:lm
$ head -1 log | cut -d, -f1 | tr -dc '0-9' | awk '{print ($1 > 20) ? "traced" : "too few: " $1}'
> traced
= 0
? part:lm
$ grep -c 'compileWithQoS' log | awk '{print ($1 > 2) ? "compiles" : "too few: " $1}'; grep -o '"call":"-\[_ANEInMemoryModel compileWithQoS:options:error:\]","self":"<[A-Za-z]*' log | sort -u
> compiles
> "call":"-[_ANEInMemoryModel compileWithQoS:options:error:]","self":"<object
= 0
? part:lm
$ grep 'compileWithQoS' log | head -1 | sed 's/.*"arguments"/"arguments"/; s/0x[0-9a-f]*/0x/g'
> "arguments":[21,{"dictionary":[]},"0x"]}
= 0
? part:lm
$ grep 'requestWithInputs' log | head -1 | sed 's/.*"arguments"/"arguments"/; s/0x[0-9a-f]*/0x/g' | grep -c '"arguments":\[\["<object 0x>".*\],\[0,.*\],null,null,0\]}'
> 1
= 0
? part:lm
$ grep 'modelWithMILText' log | grep -v '"dictionary":\[\]' | head -1 | grep -c '"arguments":\["<object 0x[0-9a-f]*>",{"dictionary":\["@model_path/'
> 1
= 0
? part:lm
$ grep -c hasANE log
> 1
= 0
$ propane trace -- true
2~ propane trace: tracing works only on macOS, *
= 1
$ . ./standin; propane trace --output log -- none-such
2> propane trace: cannot run none-such: No such file or directory
= 1
$ . ./standin; propane trace --output no/log -- true
2~ propane trace: *no/log*
= 1
$ propane trace
2> propane trace: COMMAND... is missing
2> Try 'propane trace --help'.
= 2
