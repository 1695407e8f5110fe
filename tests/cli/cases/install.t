# What make install writes for pkg-config: the library is a static one, so all that it needs is told at once.
! pkg-config make
@ make -s -C "$REPO" packages > packages; sed -e "s|@PREFIX@|/usr|; s|@VERSION@|0|; s|@PACKAGES@|$(cat packages)|" "$REPO/tools/propane.pc.in" > propane.pc
$ PKG_CONFIG_PATH=$PWD pkg-config --libs propane | grep -c -- '-lpropane .*-lm .*-ldl'; grep -c @ propane.pc
> 1
> 0
= 1
$ PKG_CONFIG_PATH=$PWD pkg-config --print-requires propane | tr '\n' ' ' | sed 's/ $//' > got; cat packages | tr -d '\n' | cmp - got
= 0
