# The class lister on files that a linker wrote.
! gunzip
@ for f in $REPO/tests/data/macho/*.gz; do gunzip -c "$f" > "$(basename "$f" .gz)"; done
$ for f in chained_absolute chained_relative classic_absolute x86_classic fat; do propane classes $f.dylib | tail -n +2 | cmp - $REPO/tests/data/macho/expected || exit 1; done
= 0
$ propane classes --images fat.dylib
> x86_64
> arm64
= 0
$ propane classes fat.dylib --image x86_64 --class Engine
> class Engine : Root <Working>
>   + make  i16@0:8
>   - compileWithQoS:options:error:  C36@0:8I16@20^@28
>   - work:  v24@0:8@16
>   - base  v16@0:8
= 0
$ propane classes chained_relative.dylib --class Root
> class Root
>   + new  @16@0:8
>   - add:to:  i24@0:8i16f20
> category Root (Extra)
>   + extraClass  v16@0:8
>   - extra  r*16@0:8
= 0
$ propane classes chained_relative.dylib --class Sub --json
> {"image":"chained_relative.dylib","arch":"arm64","kind":"class","name":"Sub","super":"External","protocols":[],"methods":[{"name":"sub","class_method":false,"types":"v16@0:8"}]}
= 0
# Compared with the classes that the ane driver calls: this file has none of them.
$ propane classes --driver fat.dylib | grep -c '^missing  [+-]\[_ANE' | awk '{print ($1 > 20)}'
> 1
2> propane classes: fat.dylib (arm64): the ane driver would not work with these classes
= 0
$ propane classes --driver --json chained_relative.dylib | grep '_ANEClient sharedConnection'
> {"method":"+[_ANEClient sharedConnection]","state":"missing","need":"for ane:client","driver":"@@:"}
2> propane classes: chained_relative.dylib (arm64): the ane driver would not work with these classes
= 0
@ gunzip -c $REPO/tests/data/macho/engine.dylib.gz > engine.dylib
$ propane classes --driver engine.dylib | grep -vE '^missing.*optional|methods that'
> missing  -[_ANEInMemoryModel unloadWithQoS:error:] B@:I^ (for ane:memory)
> differs  -[_ANEClient compileModel:options:qos:error:] has the type B48@0:8@16@24d32^@40, but the driver expects B@:@@I^ (for ane:client)
> required methods: all; for ane:memory: NOT all; for ane:client: NOT all
2> propane classes: engine.dylib (arm64): the ane driver would not work with these classes
= 0
$ propane classes chained_relative.dylib --class None
2> propane classes: chained_relative.dylib (arm64) has no class or protocol 'None'
= 1
$ propane classes fat.dylib --image arm64e
2> propane classes: fat.dylib has no image 'arm64e'; --images lists its images
= 1
$ propane classes $REPO/tests/data/macho/expected
2~ propane classes: */expected: neither a Mach-O file nor a dyld shared cache
= 1
$ propane classes none.dylib
2> propane classes: cannot open none.dylib: No such file or directory
= 1
@ head -c 3000 x86_classic.dylib > cut.dylib
$ propane classes cut.dylib
2> propane classes: cut.dylib: segment 0: 4096 bytes at offset 0 are outside the file of 3000 bytes
= 1
$ [ "$(uname)" = Darwin ] && echo 1 || propane classes 2>&1 | grep -c "this system's Objective-C runtime lacks 'objc_copyClassNamesForImage'; name a file instead"
> 1
= 0
$ propane classes --images
2> propane classes: --images needs a FILE
2> Try 'propane classes --help'.
= 2
