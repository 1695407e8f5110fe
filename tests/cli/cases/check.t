# propane check: findings of the known rules of the Neural Engines about a file.
@ cp "$REPO"/tests/chip/cases/*.mil .
@ cp "$REPO"/fuzz/corpus/blob/stray_byte bad.bin
@ cp "$REPO"/fuzz/corpus/blob/four_records good.bin
@ mkdir model.mlpackage

# One rule refuses on one chip and says nothing on the other.
$ propane check C27a.bad.mil --target m1,m4
> path: direct, as MIL text passed to the engine's compiler (--path coreml: through Core ML)
> 
> refused C27a: The last axis may have at most 16,384 elements.
>   C27a.bad.mil:4:53: function 'main': the last axis of 'x' has 16385 elements; the maximum is 16384
>   C27a.bad.mil:5:9: relu 'y' in 'main': the last axis of 'y' has 16385 elements; the maximum is 16384
>     refused on m1
>     measured: ncdrone/rustane issue 13: 16384 passes, 17920 fails; sbryngelson/ANEForge for A13-A15, M1, M2
>     fix: put the long axis into the channels, or split it
> 
> warning C36: Older chips or systems need the canonical dialect: program(1.0), ios16, rank-0 tensors.
>   C27a.bad.mil: the program is program(1.3)
>     warning on m1
>     disputed: maderix/ANE issue 6 (M1 Pro, macOS 26.3) and dev-erik/ANE (M1, 15.3.1) reject the short form; ANEForge, libane and Espresso compile it on M1 to M5 under macOS 26
>     fix: propane convert --dialect canonical
> 
> warning C14: Rows that are not a multiple of 64 bytes (C13) are padded, or read packed.
>   C27a.bad.mil:4:10: function 'main': 'x' is tensor<fp16, [1, 1, 1, 16385]>, and 1 other in the same way
>     warning on all
>     disputed: libane, ANEForge and tinygrad see padded rows; mechramc/Orion constraint 14 saw a packed read
>     fix: make the last axis a multiple of 32 fp16 elements
> 
> operation    count  m1       m4
> relu             1  no C27a  -
> (program)           no C27a  warn C14
> 
> m1: refused by C27a; 2 warnings
> m4: no known rule refuses it; 1 warning
= 1
$ propane check C27a.bad.mil --target m4
>~ (program) * warn C14
>~ m4: no known rule refuses it; 1 warning
= 0
$ propane check C27a.bad.mil --target m4 --strict
>~ m4: no known rule refuses it; 1 warning
= 2
$ propane check C27a.good.mil --target m4 --strict
> path: direct, as MIL text passed to the engine's compiler (--path coreml: through Core ML)
> 
> operation    count  m4
> (1 other)        1  -
> (program)           -
> 
> m4: no known rule refuses it
= 0

# A column for several chips names them.
$ propane check C27a.bad.mil --target m1,m4,m4-max --strict > shared; grep -E '^operation|^m4 [+]1' shared
> operation    count  m1       m4 +1
> m4 +1: m4, m4-max
= 0

# The same program through Core ML: the operation moves to the CPU. Forms that only the compiler of MIL text rejects give no message.
$ propane check C27a.bad.mil --path coreml --target m1,m4
>~ path: through Core ML*
>~ falls back C27a: The last axis*
>~     falls back on m1
>~   C27a.bad.mil:5:9: relu 'y' in 'main': the last axis of 'y' has 16385 elements; the maximum is 16384
>~ m1: falls back by C27a; nothing is left on the engine
>~ m4: no known rule refuses it
= 0
$ propane check C27a.bad.mil --path coreml --target m1 --strict
>~ m1: falls back by C27a; nothing is left on the engine
= 3
$ propane check C27a.bad.mil --path coreml --target m1 --json
>~  "path": "coreml",
>~    "verdict": "falls back",
>~    "fallbacks": 2,
>~     "switches": 0,
>~     "operations_off_engine": 1,
= 0
$ propane check C21.bad.mil --target m4 --path direct | grep -c 'refused by C21'
> 1
= 0
$ propane check C21.bad.mil --target m4 --path coreml --strict
>~ m4: no known rule refuses it
= 0
$ propane check C21.bad.mil --path e5rt
2> propane check: --path must be direct or coreml, not 'e5rt'
2> Try 'propane check --help'.
= 2

# A crash outside the engine is more severe than a fallback, and less than a refusal.
$ propane check X9.bad.mil --path coreml --target m1,m4
>~ crashes elsewhere X9: Normalizing a tensor with five axes crashes the process*
>~     crashes elsewhere on all
>~ instance_norm *  crash X9
>~ m1, m4: crashes elsewhere by X9*
= 1
$ propane check N6.bad.mil --path coreml --target m4
>~ m4: no known rule refuses it; may fail by N6*
= 0
$ propane check X9.bad.mil --path coreml --target m4 --json
>~    "verdict": "crashes elsewhere",
>~    "crashes": 1,
= 1
$ propane check X9.bad.mil --path coreml --target m4 --format github
>~ ::error file=X9.bad.mil,*title=X9 crashes elsewhere::*
= 1
$ propane check X9.bad.mil --path direct --target m4 | grep -c X9
> 0
= 1

# Errors of the language itself have a place too.
$ propane check L1.bad.mil --target m4
>~ refused L1: *
>~   L1.bad.mil:5:*rellu*
>~ m4: refused by L1
= 1
$ propane check C27a.bad.mil --target m1 --json
>~  "chips": [[]
>~    "verdict": "refused",
>~    "rule": "C27a",
>~    "line": 5,
>~    "evidence": "measured",
= 1

# Some rules depend on the system's version.
$ propane check C35.bad.mil --target m4 --os 26.3.1
>~ warning C35: *
>~   *: constexpr_affine_dequantize 'W' in 'main': it uses constexpr_affine_dequantize
= 0
$ propane check C35.bad.mil --target m4 --os 15.7 | grep -c 'warning C35'
> 0
= 1
$ propane check C35.bad.mil --os twenty
2> propane check: --os must be a version such as 26, 15.7 or ios17, or a list of them, not 'twenty'
2> Try 'propane check --help'.
= 2

# Weight files: the record in which only 512 channels fit.
$ propane check bad.bin --target m4
>~ refused C38: *
>~   bad.bin: the record at offset 64: size and data offset were not written; the stray byte 0x08 at byte 10 reads as a size of 524288, *
>~ *only 512 channels*
= 1
$ propane check good.bin --target m4
> 
> operation    count  m4
> (file)              -
> 
> m4: no known rule refuses it
= 0

# Wrong use, and files that are not read.
$ propane check
2> propane check: a FILE is missing
2> Try 'propane check --help'.
= 2
$ propane check good.bin --target m9
2~ propane check: --target: there is no chip 'm9'; the chips are m1 *
2> Try 'propane check --help'.
= 2
$ propane check model.mlpackage
2~ propane check: model.mlpackage: a folder with neither Manifest.json*
= 1

# Programs that the plans write: the engine accepts the fp16 kernels, but not those that the host runs in fp32.
? part:lm
$ propane plan --plan six --precision fp16 --context 32 --write kernels --target m1,m4
>~ m1        no known rule refuses its device kernels
>~ m4        no known rule refuses its device kernels
= 0
? part:lm
$ propane check kernels --target m1
>~ refused C18a: *
>~   kernels/model.mil:*
>~ m1: refused by C18a, C18b*
= 1
? part:lm
$ propane plan --plan six --precision fp32 --context 32 --target m1,m4
>~ m1        plan six, kernel fwdAttn: *rule C18a refuses it on M1*
>~ m4        plan six computes in fp32, but by rule C18c*
= 0
$ propane check nothing.mil
2> propane check: cannot open nothing.mil: No such file or directory
= 1

# One message covers all places with the same text. Places beyond --most are only counted.
@ { printf 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "3505.4.1"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 4, 8, 32]> v0) {\n'; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf '        tensor<fp16, [1, 4, 8, 32]> v%d = sin(x = v%d)[name = string("v%d")];\n' $i $((i - 1)) $i; done; printf '    } -> (v12);\n}\n'; } > chain.mil
$ propane check chain.mil --target m1 | grep -c 'measured: sbryngelson'
> 1
= 0
$ propane check chain.mil --target m1
>~   chain.mil:5:9, 6:9, 7:9, *: sin 'v1', 'v2', 'v3', 'v4', 'v5', 'v6', 'v7', 'v8' and 4 more in 'main': *
= 1
$ propane check chain.mil --target m1 --most 2
>~   chain.mil:5:9, 6:9: sin 'v1', 'v2' in 'main': *
>~   and in 10 more places
= 1
# --color chooses colours. A pipe gets none by default. NO_COLOR affects only automatic choices.
$ propane check chain.mil --target m1 | grep -c "$(printf '\033')"
> 0
= 1
$ NO_COLOR=1 propane check chain.mil --target m1 --color always | grep -c "$(printf '\033')\[1;31mrefused O2$(printf '\033')\[0m"
> 1
= 0
$ propane check chain.mil --target m1 --color sometimes
2~ propane check: --color: *
2> Try 'propane check --help'.
= 2
# Formats for other tools. A name in a property cannot end it or start another command.
@ cp C27a.bad.mil 'a,b:c%.mil'
$ propane check a,b:c%.mil --target m1,m4 --format github
>~ ::error file=a%2Cb%3Ac%25.mil,line=5,col=9,title=C27a refused::relu 'y' in 'main': the last axis of 'y' has 16385 elements; *
>~ ::warning file=a%2Cb%3Ac%25.mil,title=C36 warning::the program is program(1.3). *
>~ m4: no known rule refuses it; 1 warning
= 1
$ propane check a,b:c%.mil --target m1,m4 --format sarif
>~  "version": "2.1.0",
>~      "ruleId": "C27a",
>~      "level": "error",
>~          "uri": "a,b%3Ac%25.mil"
>~          "startLine": 5,
>~          "fullyQualifiedName": "main/y",
= 1
$ propane check good.bin --target m4 --format sarif
>~    "results": [[][]]
= 0
$ propane check C27a.bad.mil --target m1 --format json > a.json; propane check C27a.bad.mil --target m1 --json | cmp - a.json
= 0
# A file that is not a program gets an error that says so.
@ printf '\211PNG\r\n\032\n\0\0\0\015IHDR' > cat.png; printf 'SQLite format 3\0' > a.db; printf '{"prompt": "a", "completion": "b"}\n' > chat.jsonl
$ propane check cat.png
2> propane check: cat.png: cannot be checked: it is a PNG image; give a program (.mil), a Core ML package, a folder with model.mil, or a weight file
= 1
$ propane check a.db
2~ propane check: a.db: cannot be checked: it is an SQLite database; *
= 1
? part:lm
$ propane check chat.jsonl
2> propane check: chat.jsonl: cannot be checked: it is instruction data (JSON lines)
= 1

# The page of all rules matches the rules in the program.
$ propane check --rules --markdown | diff - "$REPO/docs/constraints.md"
= 0
$ propane check --rules
>~ C1a   process  disputed    Up to macOS 26, a process can compile about 119 programs; after that, compiles fail silently or crash.
= 0
# The systems that can read a program: its opset and package version, by macOS or iOS, and the oldest of a list.
@ printf 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "3505.4.1"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 16]> x) {\n        tensor<fp16, [1, 16]> y = relu(x = x)[name = string("y")];\n    } -> (y);\n}\n' > new.mil
$ for s in ios18,macos15 ios17,macos26 macos14.7 15.2; do propane check new.mil --path coreml --target m4 --deploy $s > told; echo "$? $(tail -1 told)"; done; propane check new.mil --path coreml --target m4 | tail -1
> 0 m4: no known rule refuses it
> 1 m4: refused by S3
> 1 m4: refused by S3
> 0 m4: no known rule refuses it
> m4: no known rule refuses it
= 0
$ propane check new.mil --os 26 --deploy ios17
2> propane check: give either --os (the system) or --deploy (the oldest systems)
2> Try 'propane check --help'.
= 2
