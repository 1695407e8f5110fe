# The completion for bash, in bash.
! bash
@ propane completion bash > c; printf '. ./c\nCOMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _propane 2> /dev/null; echo "${COMPREPLY[@]}"\n' > ../bin/try.sh; printf '#!/bin/sh\nexec bash --norc --noprofile "$(dirname "$0")/try.sh" "$@"\n' > ../bin/try; chmod +x ../bin/try
$ try propane tr
> train trace
= 0
$ try propane train --kind ''; try propane train --kind = c; try propane generate m --cou; try propane train --no-res; try propane completion z; try propane help comp
> bpe chars bytes
> chars
> --count
> --no-resume --no-resize
> zsh
> compare compile completion
= 0
# the shell completes file names
$ try propane train --data ''; try propane run mo
> 
> 
= 0
