# SPDX-License-Identifier: MIT
# Runs every line of the README.

# Turns a line of the README into one that a test can run: a command that waits for input gets some, and one that does
# not end is ended.
as_test() {
    case $1 in
    'propane chat'*) echo "echo 'What is 3?' | $1" ;;
    'propane serve'*) echo "$1 > serve.log & pid=\$!; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; curl -sf http://127.0.0.1:8080/health && break; done; kill \$pid; wait \$pid" ;;
    mpirun*) echo "command -v mpirun > /dev/null || { echo 'no mpirun'; exit 77; }; $1" | sed 's/mpirun -n/mpirun --oversubscribe -n/' ;;
    'pip install'*) echo "python3 -m venv ../venv > ../venv.log 2>&1 || { echo 'no venv'; exit 77; }; cd \"\$CLONE\" && '$root/venv/bin/'$1" ;;
    *) echo "$1" ;;
    esac
}

for section in 'Train, fine-tune, generate' 'Core ML packages on a Linux runner' 'Python'; do
    lines_of "$section" > "$root/lines"
    while IFS= read -r line; do step "$line" "$(as_test "$line")"; done < "$root/lines"
done
