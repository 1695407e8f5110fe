# What the ane device does since macOS 27, and what is remembered of it, against the stand-in.
! ldd
@ ln -s "$(dirname "$(readlink ../bin/propane)")/tests/standin/libstandin.so" standin.so; test -f standin.so; mkdir tmp cache
$ XDG_CACHE_HOME=$PWD/cache propane devices --forget
> nothing is remembered of the ane device
= 0
$ mkdir cache/propane; echo '{' > cache/propane/engine.json; XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp PROPANE_ANE_LIBRARY=$PWD/standin.so sh -fc 'echo $(propane devices)'
>~ *remembered: what is remembered of the engine is not used: */cache/propane/engine.json: line 2, *
= 0
$ XDG_CACHE_HOME=$PWD/cache propane devices --forget; ls cache/propane
> what was remembered of the ane device is forgotten
= 0
