# What make install writes for pkg-config: a program names the library alone; --static tells all that the archive needs.
! pkg-config make
@ make -s -C "$REPO" public-packages > packages; sed -e "s|@PREFIX@|/usr|; s|@VERSION@|0|; s|@PACKAGES@|$(cat packages)|; s|@SYSTEM_LIBS@|-lm -ldl|" "$REPO/tools/propane.pc.in" > propane.pc
$ PKG_CONFIG_PATH=$PWD pkg-config --libs propane | grep -c -- '-lm'; PKG_CONFIG_PATH=$PWD pkg-config --static --libs propane | grep -c -- '-lpropane .*-ljansson.*-lm'; grep -c @ propane.pc
> 0
> 1
> 0
= 1
$ make -s -C "$REPO" version
> 0.1.0
= 0
$ PKG_CONFIG_PATH=$PWD pkg-config --print-requires-private propane | tr '\n' ' ' | sed 's/ $//' > got; cat packages | tr -d '\n' | cmp - got
= 0
