# Flags of every kind: both ends of their ranges, invalid texts, other names, and their position. Each line of
# the output is the exit code and the first line of the error.
@ printf 'program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, 4]> a, tensor<fp32, [1, 4]> b) {\n        tensor<fp32, [1, 4]> y = sub(x = a, y = b)[name = string("y")];\n    } -> (y);\n}\n' > a.mil
@ printf '#!/bin/sh\nset -f\npropane "$@" > /dev/null 2> err\necho $? $(head -1 err)\n' > ../bin/t; chmod +x ../bin/t

# Numbers: both ends of a range, texts that are not numbers, and the position of the value.
$ t run a.mil --seed 0; t run a.mil --seed=1000000000000000; t run a.mil --seed 1000000000000001; t run a.mil --seed -1; t run a.mil --seed 1x; t run a.mil --seed=
> 0
> 0
> 2 propane run: --seed: '1000000000000001' is not an integer from 0 to 1000000000000000
> 2 propane run: --seed: '-1' is not an integer from 0 to 1000000000000000
> 2 propane run: --seed: '1x' is not an integer from 0 to 1000000000000000
> 2 propane run: --seed: '' is not an integer from 0 to 1000000000000000
= 0
$ t run a.mil --seed x; t run a.mil --seed 99999999999999999999; t run a.mil --seed; t run a.mil --seed= 1; t diff a.mil --seed 1 --tolerance 0; t diff a.mil --seed 1 --tolerance=1e9
> 2 propane run: --seed: 'x' is not an integer from 0 to 1000000000000000
> 2 propane run: --seed: '99999999999999999999' is not an integer from 0 to 1000000000000000
> 2 propane run: --seed needs a value
> 2 propane run: --seed: '' is not an integer from 0 to 1000000000000000
> 0
> 0
= 0
$ t diff a.mil --seed 1 --tolerance 1.0000001e9; t diff a.mil --seed 1 --tolerance -1e-9; t diff a.mil --seed 1 --tolerance nan; t diff a.mil --seed 1 --tolerance inf; t diff a.mil --seed 1 --tolerance 1e9x; t diff a.mil --seed 1 --tolerance ''
> 2 propane diff: --tolerance: '1.0000001e9' is not a number from 0 to 1e+09
> 2 propane diff: --tolerance: '-1e-9' is not a number from 0 to 1e+09
> 2 propane diff: --tolerance: 'nan' is not a number from 0 to 1e+09
> 2 propane diff: --tolerance: 'inf' is not a number from 0 to 1e+09
> 2 propane diff: --tolerance: '1e9x' is not a number from 0 to 1e+09
> 2 propane diff: --tolerance: '' is not a number from 0 to 1e+09
= 0
# Words and texts.
$ t convert a.mil b.mil --dialect canonical; t convert a.mil b.mil --dialect short; t convert a.mil b.mil --dialect shor; t convert a.mil b.mil --dialect ''; t convert a.mil b.mil --dialect; t run a.mil --seed 1 --function main
> 0
> 0
> 2 propane convert: --dialect: 'shor' is not one of short|canonical
> 2 propane convert: --dialect: '' is not one of short|canonical
> 2 propane convert: --dialect needs a value
> 0
= 0
? part:lm
$ t run a.mil --seed 1 --function ''; t run a.mil --seed 1 --function other; t generate nothing --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x; t generate nothing --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x --stop x; t generate nothing --stop ''; t generate nothing --stop=
> 2 propane run: --function: the value is empty
> 1 propane run: a.mil: there is no function 'other'; the program has: main
> 1 propane generate: cannot open nothing: No such file or directory
> 2 propane generate: --stop: may be given at most 16 times
> 2 propane generate: --stop: the value is empty
> 2 propane generate: --stop: the value is empty
= 0
# Switches, underscores and other names.
$ t show a.mil --json=1; t show a.mil --no-json; t show a.mil --no_json; t run a.mil --seed 1 --no-seed; t run a.mil --no-json --seed 1; t run a.mil --no-keep --seed 1
> 2 propane show: --json takes no value
> 0
> 2 propane show: there is no flag '--no_json'
> 2 propane run: there is no flag '--no-seed'
> 0
> 0
= 0
$ t run a.mil --seed 1 -n 2; t run a.mil --seed 1 -t 1; t run a.mil --seed 1 --iteration 2; t run a.mil --seed 1 --unit nothing; t run a.mil --seed 1 --un_it cpu; t run a.mil --seed 1 -no-json
> 0
> 0
> 2 propane run: there is no flag '--iteration'; did you mean '--iterations'?
> 1 propane run: unknown device 'nothing'; the devices are cpu, ane, sim, accel, registers, null
> 2 propane run: there is no flag '--un_it'; did you mean '--device'?
> 2 propane run: there is no flag '-no-json'; did you mean '--json'?
= 0
$ t run a.mil --seed 1 _-json; t run a.mil --seed 1 --top-p 1; t run a.mil --seed 1 -q
> 2 propane run: one argument too many: '_-json'
> 2 propane run: there is no flag '--top-p'
> 2 propane run: there is no flag '-q'
= 0
# Positional arguments, before or after the flags. After -- nothing is a flag.
$ t run; t run --seed 1; t run --seed 1 a.mil; t run a.mil b.mil; t run ''; t run -
> 2 propane run: MODEL is missing
> 2 propane run: MODEL is missing
> 0
> 2 propane run: one argument too many: 'b.mil'
> 2 propane run: MODEL: the value is empty
> 1 propane run: cannot open -: No such file or directory
= 0
$ t run -- --seed; t run --seed 1 -- a.mil; t run --seed 1 -- a.mil --json; t show; t show --json; t show nothing other
> 1 propane run: cannot open --seed: No such file or directory
> 0
> 2 propane run: one argument too many: '--json'
> 2 propane show: FILE... is missing
> 2 propane show: FILE... is missing
> 1 propane show: cannot open nothing: No such file or directory
= 0
$ t show --json nothing other; t show nothing --json other; t show nothing other --json; t show nothing ''; t show '' nothing; t show -- '' nothing
> 1 propane show: cannot open nothing: No such file or directory
> 2 propane show: flags must not be placed between FILE...
> 1 propane show: cannot open nothing: No such file or directory
> 2 propane show: FILE...: the value is empty
> 2 propane show: FILE...: the value is empty
> 2 propane show: FILE...: the value is empty
= 0
$ t show -- nothing ''; t show -- nothing -- other; t convert a.mil; t convert a.mil b.mil c.mil; t completion; t completion fish2
> 1 propane show: cannot open nothing: No such file or directory
> 1 propane show: cannot open nothing: No such file or directory
> 2 propane convert: OUT is missing
> 2 propane convert: one argument too many: 'c.mil'
> 2 propane completion: SHELL is missing
> 2 propane completion: SHELL: 'fish2' is not one of bash|zsh|fish
= 0
$ t compile a.mil; t compile -o x.anec
> 2 propane compile: -o is missing
> 2 propane compile: FILE is missing
= 0
# Help works in any position, but not after --.
$ t run --help; t run nothing -h; t run --seed x --help; t run -- --help; t run -- -h
> 0
> 0
> 2 propane run: --seed: 'x' is not an integer from 0 to 1000000000000000
> 1 propane run: cannot open --help: No such file or directory
> 1 propane run: cannot open -h: No such file or directory
= 0

# The effects of the values.
$ for s in 1 1 2; do propane run a.mil --seed $s | tail -1; done | uniq -c | awk '{print $1}'
> 2
> 1
= 0
$ propane run a.mil --seed 1 -n 3 | grep -o '3 runs'; propane run a.mil --seed 1 --iterations=2 | grep -o '2 runs'; propane run a.mil --seed 1 --iterations 3 --iterations 4 | grep -o '4 runs'
> 3 runs
> 2 runs
> 4 runs
= 0
$ propane convert a.mil b.mil --dialect canonical > log; propane convert a.mil c.mil --dialect short >> log; cmp -s b.mil c.mil; echo $?; propane convert a.mil c.mil --dialect=canonical >> log; cmp b.mil c.mil; echo $?
> 1
> 0
= 0
$ propane show a.mil --json | head -c1; echo; propane show a.mil --json --no-json | cut -c1-5 | head -1; propane show a.mil a.mil | grep -c MIL
> {
> a.mil
> 2
= 0
# Other names appear in the help. A flag of exactly that name has priority.
? part:lm
$ propane train --help | grep -cE -e '--run, -o DIR' -e '--data, -d FILE' -e '--steps, -n N' -e '--threads, -t N'
> 4
= 0
