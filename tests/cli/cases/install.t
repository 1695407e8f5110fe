# The pkg-config file that make install writes: a program names the library alone; --static adds all that the archive needs.
! pkg-config make
@ make -s -C "$REPO" public-packages > packages; sed -e "s|@PREFIX@|/usr|; s|@VERSION@|0|; s|@PACKAGES@|$(cat packages)|; s|@SYSTEM_LIBS@|-lm -ldl|" "$REPO/tools/propane.pc.in" > propane.pc
$ PKG_CONFIG_PATH=$PWD pkg-config --libs propane | grep -c -- '-lm'; PKG_CONFIG_PATH=$PWD pkg-config --static --libs propane | grep -c -- '-lpropane .*-ljansson.*-lm'; grep -c @ propane.pc
> 0
> 1
> 0
= 1
$ make -s -C "$REPO" version
> 0.2.0
= 0
$ PKG_CONFIG_PATH=$PWD pkg-config --print-requires-private propane | tr '\n' ' ' | sed 's/ $//' > got; cat packages | tr -d '\n' | cmp - got
= 0
# the systemd unit contains the prefix, and passes the server the credentials that exist
@ make -s -C "$REPO" PREFIX=/opt/p unit > propane-serve.service; sed -n '/^ExecStart=/,/[^\\]$/p' propane-serve.service | sed -e "s/^ExecStart=.bin.sh -c '//; s/'\$//" -e 's/[$][$]/$/g' -e 's/^ *exec .opt.p.bin.propane/printf "%s|"/' -e 's/\\$//' | tr -d '\n' > start
$ grep -c '@[A-Z]*@' propane-serve.service; grep -c 'exec /opt/p/bin/propane serve' propane-serve.service
> 0
> 1
= 0
$ mkdir -p none c; : > c/propane.keys; : > c/propane.cert; : > c/propane.key; for d in none c; do PROPANE_MODEL='my model' PROPANE_FLAGS='--port 80' CREDENTIALS_DIRECTORY=$d sh ./start; echo; done
> serve|my model|--port|80|
> serve|my model|--port|80|--api-key-file|c/propane.keys|--tls-cert|c/propane.cert|--tls-key|c/propane.key|
= 0
# make prints one line for each folder; make -s prints nothing
@ cp -R "$REPO/Makefile" . && mkdir -p src/core src/lm apps/ane-lab/macho apps/ane-lab/probe apps/serve apps/propane && echo 'int first; extern int second;' | tee src/core/a.c src/core/b.c > src/lm/c.c
$ make BUILD=b b/src/core/a.o b/src/core/b.o b/src/lm/c.o ; rm -r b; make -s BUILD=b b/src/core/a.o; rm -r b; make BUILD=b V=1 b/src/core/a.o | grep -c -- '-c src/core/a.c'
> cc      src/core
> cc      src/lm
> 1
= 0
