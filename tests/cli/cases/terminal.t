# On a terminal (util-linux's script makes one): the drawings there, and their absence where they are unwanted.
! script setpriv part:lm
@ awk 'BEGIN{for(i=0;i<1500;i++) print "line", i*i%977}' > text; ESC=$(printf '\033'); printf "grep -c '$ESC\\\\[2J' seen; grep -c '$ESC\\\\[36m' seen | sed 's/[1-9].*/some/'\n" > ../bin/drawn; chmod +x ../bin/drawn
@ printf 'e=$1; shift; script -qec "env $e $*" /dev/null > seen < /dev/null\n' > ../bin/on; chmod +x ../bin/on
@ propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 9 --eval-batches 1 --run r > log
# the screen is cleared; curves have colours
$ on TERM=xterm propane watch r; drawn
> 1
> some
= 0
$ on 'TERM=xterm NO_COLOR=1' propane watch r; drawn
> 1
> 0
= 0
$ on TERM=xterm propane watch r --once; drawn; on TERM=dumb propane watch r; drawn; on TERM= propane watch r; drawn
> 0
> 0
> 0
> 0
> 0
> 0
= 0
$ on TERM=dumb propane train --data text --kind chars --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 9 --eval-every 0 --run s; grep -c "$(printf '\033')" seen
> 0
= 1
# Other people's files do not control the terminal, neither through errors nor through their displayed contents.
@ printf '{"a":\033]0;pwned\007}' > j.json; printf '{"event":"start","model":"x\033]0;pwned\007"}\n{"event":"do\033c"}\n' > log; mkdir evil; cp log evil/log.jsonl
@ printf 'program(1.3)\n[buildInfo = dict<string, string>({{"author", "x\033]0;pwned\007"}})]\n{\n    func main<ios18>(tensor<fp32, [1]> x) {\n        tensor<fp32, [1]> y = relu(x = x)[name = string("y")];\n    } -> (y);\n}\n' > b.mil
$ propane show j.json
2> propane show: j.json: line 1, column 6: not valid JSON: invalid token near '\x1b'
= 1
$ on TERM=xterm propane show b.mil; grep -c 'x1b.0;pwned.x07' seen; grep -c "$(printf '\033')" seen; on TERM=dumb propane watch evil --once; grep -c "$(printf '\033')" seen
> 1
> 0
> 0
= 1
