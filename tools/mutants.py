#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants small errors in code that makes decisions, and counts those that the tests of the same area find. Kernels are not part of
it: campaigns compare them with slow references.

    python3 tools/mutants.py [--seed N] [--count 60] [--area NAME ...] [--programs]

Each error changes one line in a copy of the repository: a comparison, a connective, a sign, a constant, a negated condition or a
removed call. The script then runs the tests of the area (tests/run.sh with the names in AREAS). It prints each survivor as a diff,
then a count per area, and exits with 1 below 90 %. A survivor means that a test is missing, unless both versions behave alike:
those are listed with reasons in tools/mutants_same.txt and are not drawn. Changes of message texts are not drawn
either. Errors that
do not compile are drawn again. --programs leaves out the command's cases, which take most of the time; more errors then survive. A
run that takes more than four times as long as a clean one counts as found.
"""
import argparse
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Per area: the files to plant errors in, and the names of its tests for tests/run.sh.
AREAS = {
    'training loop': (
        ['src/train/train_run.c', 'src/train/imported_run.c', 'src/lm/run/language_run.c', 'src/train/restart.c'],
        ['train/test_train_steps', 'train/test_train_loop', 'train/test_imported_run', 'train/test_language_run',
         'train/test_preference', 'train/test_outer', 'train/test_compact_vocab', 'train/test_lora', 'api/test_api_trainer',
         'cli/cases/dpo', 'cli/cases/workers', 'cli/cases/train_run', 'cli/cases/best', 'cli/cases/resume', 'cli/cases/tune',
         'cli/cases/wrong_train', 'cli/cases/train_data', 'cli/cases/overlap', 'cli/cases/estimate', 'cli/cases/mpirun']),
    'checkpoint': (
        ['src/train/checkpoint.c', 'src/train/checkpoint_metadata.c', 'src/train/top_checkpoints.c', 'src/lm/run/run_folder.c'],
        ['train/test_checkpoint.', 'train/test_checkpoint_metadata.', 'model/test_run_folder', 'train/test_imported_run',
         'train/test_language_run', 'cli/cases/best', 'cli/cases/resume', 'cli/cases/damage',
         'cli/cases/train_run', 'cli/cases/moments', 'cli/cases/tune']),
    'options': (
        ['src/train/train_options.c', 'apps/propane/flags.c', 'apps/propane/flag_names.c', 'src/train/weight_mode_check.c'],
        ['train/test_options', 'train/test_weight_mode_check', 'cli/cases/flags', 'cli/cases/options', 'cli/cases/basics',
         'cli/cases/help', 'cli/cases/wrong_use', 'cli/cases/wrong_train', 'cli/cases/completion']),
    'serve': (
        ['apps/serve/*.c'],
        ['serve/test_', 'cli/cases/serve', 'cli/cases/responses']),
    'queue': (
        ['src/core/device/*.c'],
        ['device/test_', 'drivers/test_cpu', 'drivers/test_null', 'drivers/test_runner', 'drivers/test_sim',
         'api/test_api_many', 'api/test_api_fork', 'api/test_api_session', 'api/test_api_threads', 'api/test_api_calls.',
         'api/test_api_contents']),
}

SWAPS = [(' < ', ' <= '), (' <= ', ' < '), (' > ', ' >= '), (' >= ', ' > '), (' == ', ' != '), (' != ', ' == '), (' && ', ' || '),
         (' || ', ' && '), (' + ', ' - '), (' - ', ' + '), ('true', 'false'), ('false', 'true')]


def code_of(line, inside):
    """Returns the line with strings and comments blanked, at the same positions, and whether a comment continues on the next line."""
    out, i = [], 0
    while i < len(line):
        if inside:
            end = line.find('*/', i)
            stop = len(line) if end < 0 else end + 2
            inside = end < 0
            out.append(' ' * (stop - i))
            i = stop
        elif line.startswith('/*', i):
            inside = True
        elif line.startswith('//', i):
            out.append(' ' * (len(line) - i))
            i = len(line)
        elif line[i] in '"\'':
            end = i + 1
            while end < len(line) and line[end] != line[i]:
                end += 2 if line[end] == '\\' else 1
            out.append(' ' * (min(end, len(line) - 1) + 1 - i))
            i = end + 1
        else:
            out.append(line[i])
            i += 1
    return ''.join(out), inside


def changes(line, code):
    """Yields (from, to, text) for each error that fits the line."""
    if code.startswith(('#', '}', '    case ')) or 'assert(' in code:
        return
    for old, new in SWAPS:
        for m in re.finditer(re.escape(old) if old[0] == ' ' else r'\b%s\b' % old, code):
            yield m.start(), m.end(), new
    for m in re.finditer(r'\bif \(', code):
        depth, end = 1, m.end()
        while end < len(code) and depth:
            depth += {'(': 1, ')': -1}.get(code[end], 0)
            end += 1
        if not depth:
            yield m.end(), end - 1, '!(%s)' % line[m.end():end - 1]
    if not re.match(r'\s*(static|const|enum|extern|struct|typedef)\b', code):
        for m in re.finditer(r'(?<![\w.\[])(\d+)(?![\w.\]])', code):
            if not re.search(r'snprintf\([^,]*, $', code[:m.start()]):  # the size of a text buffer
                yield m.start(), m.end(), str(int(m.group()) + 1)
    m = re.match(r'(    +)([a-z_]+\(.*\)|[\w.>\[\]-]+ [-+|&]?= .*);\s*$', code)
    if m and not re.match(r'\s*return\b', code) and not LETS_GO.match(m.group(2)):
        yield m.start(2), m.end(), ';'


# Their removal causes a leak, or an unlock without a lock, which the sanitizer builds find (make asan, make tsan).
LETS_GO = re.compile(r'(?:\(void\))?\w*(?:free|_deinit|_decref|_destroy|va_end|pthread_mutex_lock)\(')

# Their arguments only make the text of a message.
MESSAGE = re.compile(r'\b(?:propane_fail|propane_fail_prefix|propane_fail_memory|cli_misuse|flags_misuse)\(')


def without_messages(code):
    """Returns the code of a file with the arguments of calls that make messages blanked, at the same positions."""
    out, at = [], 0
    for m in MESSAGE.finditer(code):
        if m.start() < at or code.rfind('\n', 0, m.start()) == m.start() - 1:
            continue
        depth, end = 1, m.end()
        while depth and end < len(code):
            depth += {'(': 1, ')': -1}.get(code[end], 0)
            end += 1
        out += [code[at:m.end()], re.sub(r'[^\n]', ' ', code[m.end():end - 1])]
        at = end - 1
    return ''.join(out) + code[at:]


def places(files):
    """Returns (path, line number, from, to, text) for every error that could be planted in functions of these files."""
    found = []
    for path in files:
        lines, codes, inside = open(path).read().split('\n'), [], False
        for line in lines:
            code, inside = code_of(line, inside)
            codes.append(code)
        for number, code in enumerate(without_messages('\n'.join(codes)).split('\n')):
            if code.startswith(' '):
                found += [(path, number, *change) for change in changes(lines[number], code)]
    return found


def same_reasons(root):
    """Reads tools/mutants_same.txt: {(path, changed line): reason}."""
    reasons = {}
    for line in open(os.path.join(root, 'tools', 'mutants_same.txt')):
        if line.strip() and not line.startswith('#'):
            path, changed, reason = (part.strip() for part in line.split(' :: '))
            reasons[path, changed] = reason
    return reasons


class Copy:
    """A copy of the repository with its release build, so that unchanged files are not compiled again."""

    def __init__(self, root, folder):
        self.folder = os.path.join(folder, 'copy')
        build = os.path.join(root, 'build')
        shutil.copytree(root, self.folder, symlinks=True, ignore=lambda at, names: [
            n for n in names if n in ('.git', '__pycache__') or (at == build and n != 'release')])

    def run(self, command, limit):
        """Returns the exit code, or None if the command took longer than `limit` seconds."""
        child = subprocess.Popen(command, cwd=self.folder, env=dict(os.environ, TEST_STOP='1'), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()

    def dies(self, names, limit):
        """Returns whether a test fails, or None if the code does not compile. Tests are built when their turn comes: a program needs
        less time than the command with its cases, and the first failure is enough."""
        programs = [f[:-2] for n in names for f in sorted(glob.glob('tests/*/test_*.c')) if not n.startswith('cli/') and n in f]
        for at, program in enumerate(programs):
            if self.run(['make', '-s', '-j2', 'build/release/' + program], 900) != 0:
                return None if at == 0 else True
            if self.run(['sh', 'tests/run.sh', 'build/release', program], limit) != 0:
                return True
        cases = [n for n in names if n.startswith('cli/')]
        if not cases:
            return False
        if self.run(['make', '-s', '-j2', 'build/release/propane'], 900) != 0:
            return True if programs else None
        return self.run(['sh', 'tests/run.sh', 'build/release', *cases], limit) != 0


def planted(copy, place, then):
    """Plants one error, calls `then`, and restores the file in any case."""
    path, number, start, end, text = place
    file = os.path.join(copy.folder, path)
    with open(file) as f:
        before = f.read()
    lines = before.split('\n')
    lines[number] = lines[number][:start] + text + lines[number][end:]
    try:
        with open(file, 'w') as f:
            f.write('\n'.join(lines))
        return then()
    finally:
        with open(file, 'w') as f:
            f.write(before)


def both(place):
    """Returns the line before and after the change, without indentation."""
    path, number, start, end, text = place
    line = open(path).read().split('\n')[number]
    return line.strip(), (line[:start] + text + line[end:]).strip()


def shown(place):
    return '%s:%d\n    - %s\n    + %s' % (place[0], place[1] + 1, *both(place))


def area_run(copy, area, count, draw, programs):
    """Plants `count` errors in an area and returns how many its tests find, and how many were planted."""
    files, names = AREAS[area]
    names = [n for n in names if not programs or not n.startswith('cli/')]
    candidates, same = places(sorted(f for pattern in files for f in glob.glob(pattern))), same_reasons('.')
    began = time.monotonic()
    if copy.dies(names, 1800) is not False:
        sys.exit('mutants.py: the tests of "%s" fail without any error planted' % area)
    limit, found, tried = 60 + 4 * (time.monotonic() - began), 0, 0
    while tried < count and candidates:
        place = candidates.pop(draw.randrange(len(candidates)))
        if (place[0], both(place)[1]) in same:
            continue
        died = planted(copy, place, lambda: copy.dies(names, limit))
        if died is None:
            continue
        tried, found = tried + 1, found + died
        if not died:
            print('%s: not found, the %d. of %d\n  %s' % (area, tried, count, shown(place)), flush=True)
    return found, tried


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--count', type=int, default=60, help='errors to plant, the same number per area')
    parser.add_argument('--programs', action='store_true', help="only the test programs, not the command's cases")
    parser.add_argument('--area', action='append', choices=sorted(AREAS))
    options = parser.parse_args()
    areas = options.area or list(AREAS)
    found = tried = 0
    with tempfile.TemporaryDirectory(prefix='propane-mutants.') as folder:
        copy = Copy(os.getcwd(), folder)
        os.chdir(copy.folder)  # the original may change meanwhile
        for area in areas:
            f, t = area_run(copy, area, -(-options.count // len(areas)), random.Random('%d %s' % (options.seed, area)), options.programs)
            print('%-14s %d of %d found' % (area, f, t), flush=True)
            found, tried = found + f, tried + t
    print('%d of %d found, %.0f %%' % (found, tried, 100 * found / max(1, tried)))
    return 0 if found >= 0.9 * tried else 1


if __name__ == '__main__':
    sys.exit(main())
