# The command itself: help, unknown words, flags.
$ propane 2> err; code=$?; head -4 err >&2; exit $code
2> Propane trains, runs and checks neural networks as MIL programs, the form that an
2> Apple Neural Engine compiles. It runs them on any machine.
2> 
2> usage: propane COMMAND [flags]
= 2
$ propane help
>~ usage: propane COMMAND *
>~   train *
= 0
$ propane help version
>~ usage: propane version
= 0
$ propane help nothing
2> propane: there is no command 'nothing'
2> Try 'propane --help'.
= 2
$ propane vresion
2> propane: there is no command 'vresion'; did you mean 'version'?
2> Try 'propane --help'.
= 2
$ propane xyzzy
2> propane: there is no command 'xyzzy'
2> Try 'propane --help'.
= 2
$ propane version
>~ propane [0-9]*
= 0
$ propane version now
2> propane version: one argument too many: 'now'
2> Try 'propane version --help'.
= 2
$ propane ops --jsn
2> propane ops: there is no flag '--jsn'; did you mean '--json'?
2> Try 'propane ops --help'.
= 2
$ propane ops --json --coverage
2> propane ops: give --json or --coverage, not both
2> Try 'propane ops --help'.
= 2
$ propane ops --coverage | head -1
> opset    operations     kernel     folded  reference    missing
= 0
$ propane ops --json=yes
2> propane ops: --json takes no value
2> Try 'propane ops --help'.
= 2
? /dev/full
$ propane ops > /dev/full
2> propane ops: cannot write to standard output: No space left on device
= 1
