# tests/cli/run.sh itself: each kind of expectation can fail, and a missing file is an error.
@ printf 'TEST_SKIPS=/dev/stdout sh "$REPO/tests/cli/run.sh" "$(command -v propane)" "$PWD/x.t" 2>&1 | sed "s,$PWD/,,"\n' > ../bin/tried; chmod +x ../bin/tried
$ printf '$ echo a\n> a\n= 0\n$ true\n= 0\n$ echo a; echo b\n>~ b\n= 0\n$ echo c\n>~ *\n= 0\n$ echo d >&2; false\n2~ ?\n= 1\n' > x.t; tried
> 100%: Checks: 5, Failures: 0, Errors: 0
= 0
# without a line of ">" or ">~", nothing may be printed
$ printf '$ echo a\n= 0\n' > x.t; tried
> x.t:1: echo a
>     standard output: got 'a'
> 0%: Checks: 1, Failures: 1, Errors: 0
= 0
$ printf '$ echo a\n> b\n= 0\n$ echo a\n> a\n> b\n= 0\n$ echo a; echo b\n> a\n= 0\n$ true\n> a\n= 0\n' > x.t; tried | grep -e got -e Checks
>     standard output: got 'a'
>     standard output: got 'a'
>     standard output: got 'a
>     standard output: got ''
> 0%: Checks: 4, Failures: 4, Errors: 0
= 0
$ printf '$ true\n>~ *\n= 0\n$ echo a\n>~ b\n= 0\n$ echo a\n>~ a\n> b\n= 0\n' > x.t; tried | grep -e standard -e Checks
>     standard output has no line like '*'
>     standard output has no line like 'b'
>     standard output: got 'a'
> 0%: Checks: 3, Failures: 3, Errors: 0
= 0
$ printf '$ echo a >&2\n= 0\n$ echo a >&2\n2> b\n= 0\n$ true\n2~ *\n= 0\n$ echo a >&2; echo b >&2\n2> a\n= 0\n' > x.t; tried | grep -e error: -e Checks
>     standard error: unexpected 'a'
>     standard error: got 'a', want 'b'
>     standard error: it has no line for '*'
>     standard error: unexpected 'b'
> 0%: Checks: 4, Failures: 4, Errors: 0
= 0
$ printf '$ false\n= 0\n$ true\n= 1\n$ true\n' > x.t; tried | grep -v '|'
> x.t:1: false
>     exit code 1, want 0
> x.t:3: true
>     exit code 0, want 1
> x.t:5: no '= code' ends this case
> 0%: Checks: 3, Failures: 3, Errors: 0
= 0
$ printf '! no-such-tool\n$ false\n= 0\n' > x.t; tried
> skipped: x.t: there is no no-such-tool here
> 100%: Checks: 1, Failures: 0, Errors: 0
= 0
$ printf 'what\n' > x.t; tried
> x.t:1: not understood: what
> 0%: Checks: 1, Failures: 1, Errors: 0
= 0
$ sh "$REPO/tests/cli/run.sh" "$(command -v propane)" misspelt.t
2~ tests/cli/run.sh: there is no misspelt.t below *
= 2
