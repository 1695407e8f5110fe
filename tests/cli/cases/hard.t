# Every call of the header is tested with failing memory requests (tests/hard/test_calls_*.c), or excused with a reason.
@ grep -ohE 'propane_[a-z0-9_]+\(' "$REPO"/include/propane/*.h | tr -d '(' | sort -u > declared; cat "$REPO"/tests/hard/test_calls_*.c "$REPO/tests/hard/calls.c" | grep -oE 'propane_[a-z0-9_]+\(' | tr -d '(' | sort -u > called; awk '/^propane_/ && NF > 1 {print $1}' "$REPO/tests/hard/excused.txt" | sort > excused; wc -l < declared | awk '$1 < 200 {exit 1}'
$ ! sort -u called excused | comm -23 declared - | grep .
= 0
$ ! { comm -12 called excused; comm -13 declared excused; } | grep .
= 0
