#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fits the time model of src/ane/chip/cost_model.c to a table of published points (the columns of ane_perf.csv) and writes
its constants, src/ane/chip/cost_constants.def. Needs Python 3 and numpy; nothing of Propane's build or tests needs this tool.

    tools/fit_cost_model.py POINTS.csv --write src/ane/chip/cost_constants.def
    tools/fit_cost_model.py POINTS.csv --cross-validate [--seed N]

The model has two parts. The first is a formula with a dozen constants per chip: fixed cost of a call, arithmetic against
weight streaming, copies of inputs and outputs. Constants are fitted chip by chip, each held near the value of its
generation (a chip with two points gets the constants of related chips). The second models the formula's remaining
error: a smooth correction of
the logarithm, a sum over the published points of alpha x similarity (a ridge regression on a kernel; outliers weigh
less). Half of it is common to all points of one chip, path and source. Far from every published point the rest vanishes. Cross-validation fits both parts on four fifths and predicts the rest.

Features, formula and kernel are the same as in cost_model.c and cost_points.c; `propane estimate --points` must give the
same predictions, which --compare checks.
"""
import argparse, collections, csv, json, math, random, re, subprocess, sys
import numpy as np

CHIPS = ['m1', 'm1_pro', 'm1_max', 'm1_ultra', 'm2', 'm2_pro', 'm2_max', 'm2_ultra', 'm3', 'm3_pro', 'm3_max', 'm3_ultra',
         'm4', 'm4_pro', 'm4_max', 'm5', 'm5_pro', 'm5_max', 'm6', 'a13', 'a14', 'a15', 'a16', 'a17_pro', 'a18_pro',
         'a19_pro', 'a20_pro']
KINDS = ['matmul', 'conv1x1', 'conv3x3', 'chain', 'elementwise', 'softmax']
PATHS = ['direct', 'e5rt', 'coreml', 'linux']

# ---- features of a row's program; a string is the reason why the row is left out ------------------------------


def number(text):
    try:
        return float(text)
    except ValueError:
        return 0.0


def field(shape, name, default=0.0):
    m = re.search(r'(?:^|[^A-Za-z])' + name + r'=(\d+(?:\.\d+)?)', shape)
    return float(m.group(1)) if m else default


def fnv(text):
    h = 2166136261
    for b in text.encode():
        h = ((h ^ b) * 16777619) & 0xffffffff
    return h


def chip_of(name):
    if name.startswith('M1 Max'):
        name = 'M1 Max'
    name = name.lower().replace(' ', '_')
    return name if name in CHIPS else None


REASONS = [  # (column, word in lower case, reason); the first match counts
    ('note', 'upper bound', 'host-bound run'), ('note', 'abnormally slow', 'host-bound run'),
    ('note', 'while other', 'contention'), ('note', 'while the gpu', 'contention'),
    ('shape', 'two processes', 'contention'), ('note', 'contention', 'contention'), ('note', 'jitter', 'contention'),
    ('note', 'not reach the engine', 'doubtful: may not have run on the engine'),
    ('note', 'possibly not on the engine', 'doubtful: may not have run on the engine'),
    ('note', 'all-zero', 'zero data'), ('note', 'cancels to zero', 'zero data'),
    ('note', 'zero-filled', 'zero data'),
    ('note', 'do not agree', 'contradicts its own rate'), ('note', 'printed latency', 'contradicts its own rate'),
    ('dtype', 'cast-only', 'quantised mixture'), ('note', 'split into', 'quantised mixture'),
    ('shape', 'dynamic', 'weights passed at run time, packed with the activation'),
    ('shape', 'programs', 'several programs'), ('note', 'weight staging', 'several programs'),
    ('shape', '_norm', 'normalisation'), ('shape', 'kw=', 'kernel not square'),
]


def features(r):
    kind, shape = r['workload'], r['shape']
    low = {k: r[k].lower() for k in ('note', 'shape', 'dtype')}
    if kind == 'sdpa':
        return 'attention: the sources time different sets of operations'
    if kind not in KINDS:
        return 'not a single program: ' + kind
    chip, y, flops = chip_of(r['chip']), number(r['latency_ms']), number(r['flops'])
    rate = number(r['tflops'])
    if y <= 0 and rate > 0:  # a rate of a stated size is a time
        y = flops / (rate * 1e9)
    if chip is None or r['path'] not in PATHS:
        return 'chip or path unknown'
    if y <= 0:
        return 'no latency published'
    for column, word, reason in REASONS:
        if word in low[column]:
            return reason
    if 'lut' in low['dtype'] and r['path'] == 'coreml' and 'core ml;' in low['note']:
        return 'quantised mixture'
    m = re.search(r'k=(\d+)x(\d+)', shape)
    if m and m.group(1) != m.group(2):
        return 'kernel not square'
    if kind == 'softmax' and 'channels' in shape:
        return 'normalisation'
    if r['path'] == 'direct' and 'H=1,W=1,' in shape:
        return 'single pixel, published time below any possible minimum'
    weights = number(r['bytes_weights'])
    io = number(r['bytes_in']) + number(r['bytes_out'])
    stream = kind in ('elementwise', 'softmax')
    if (io if stream else flops) <= 0:
        return 'no size published'
    slope = 'per-layer slope' in shape or 'per-layer slope' in low['note']
    if slope and y < 1e-3:
        return 'below the resolution of the clock'
    if 'folded' in low['dtype'] or 'run-time weight dequant' in low['note']:
        weights *= 2  # the build turns int8 weights into fp16
    k = field(shape, 'k', 3 if kind == 'conv3x3' else 1)
    cin, cout = field(shape, 'Cin'), field(shape, 'Cout')
    pixels = field(shape, 'H', 1) * field(shape, 'W', 1) * field(shape, 'B', 1)
    if cin <= 0 and field(shape, 'M') > 0:
        cin, cout, pixels = field(shape, 'K'), field(shape, 'N'), field(shape, 'M')
    if cin <= 0:
        cin = cout = 0
    d = low['dtype']
    m = re.search(r'([\d.]+)-bit lut', d)
    lut = float(m.group(1)) if m else 4.0 if 'int4-lut' in d or '4-bit w' in d else 0.0
    both8 = 'w8a8' in d or 'fp8' in d or ('int8 act' in d and lut > 0)
    m = re.search(r'([\d.]+)% zero', d)
    zeros = min(1, float(m.group(1)) / 100) if m else 0.0
    note = low['note']
    shared = 'one weight' in note or 'shared by' in note or '50 evals after 10' in note or (
        r['path'] == 'direct' and kind == 'chain')
    return dict(id=r['id'], chip=chip, path=PATHS.index(r['path']), kind=KINDS.index(kind), y=y, flops=flops,
                weights=weights, io=io, cin=cin, cout=cout, kernel=k * k, pixels=pixels,
                layers=max(1.0, field(shape, 'depth', 1)), dilation=field(shape, 'dil', 1),
                engines=field(shape, 'engines'), lut=lut, both8=both8, fp8='fp8' in d, zeros=zeros, sparse=zeros > 0,
                cold='cold' in note, slow='host copies slower' in note,
                quant=3 if both8 else 2 if lut else 1 if 'int8' in d else 0, shared=shared, slope=slope,
                task='task time' in note or 'task end' in note,
                runtime=1 if 'core ai' in note else 2 if 'mpsgraph' in note else 0,
                os=fnv(r['os']), source=fnv(r['source']),
                sub=fnv(re.split('[ =]', shape)[0]) if stream else 0)


# ---- the formula ---------------------------------------------------------------------------------------------------------

CONSTANTS = ['tflops', 'stream', 'again', 'pow2', 'int8', 'winograd', 'decode', 'layer_us', 't0_direct', 't0_e5rt',
             't0_coreml', 't0_linux', 'io_direct', 'io_e5rt', 'io_coreml', 'io_slow', 'zeros', 't0_cold']
SPREAD = dict(tflops=.12, stream=.15, again=.3, pow2=.15, int8=.12, winograd=.12, decode=.4, layer_us=1.5, t0_direct=.4,
              t0_e5rt=.4, t0_coreml=.6, t0_linux=.2, io_direct=.5, io_e5rt=.5, io_coreml=.6, io_slow=.5, zeros=.3,
              t0_cold=.4)


def prior(chip):
    """Returns the generation's values: the peak rates and streaming rates on which its members' publications agree."""
    generation = {'m1': (11.1, 60, 50, .2, .15, .5), 'm2': (16.3, 62, 55, .2, .15, .3), 'm3': (18., 60, 40, .19, .15, .3),
                  'm4': (18.4, 60, 48, .085, .06, .2), 'm5': (19., 72, 60, .075, .075, .15),
                  'm6': (19.3, 141, 127, .15, .35, .15), 'a1': (16., 40, 30, .2, .2, .3), 'a2': (38., 60, 50, .2, .2, .3)}
    p, stream, again, direct, e5rt, coreml = generation[chip[:2]]
    p = {'a13': 5.5, 'a14': 11., 'a15': 15.8, 'a17_pro': 18., 'a18_pro': 18., 'a19_pro': 20.9}.get(chip, p)
    stream = {'m3_max': 120, 'm4_pro': 125, 'm4_max': 130, 'm5_pro': 145, 'm5_max': 145}.get(chip, stream)
    new = chip[:2] in ('m4', 'm5', 'a2') or chip in ('a17_pro', 'a18_pro', 'a19_pro')
    return dict(tflops=p, stream=stream, again=again, pow2=39. if chip[:2] == 'm4' else stream,
                int8=1.9 if new else 1.6 if chip == 'm6' else 1.03,
                winograd=1.5 if chip[:2] in ('m5', 'm6', 'a2') or chip == 'a19_pro' else 1., decode=.7 if chip == 'm6' else .145,
                layer_us=.2, t0_direct=direct, t0_e5rt=e5rt, t0_coreml=coreml, t0_linux=.19, io_direct=60., io_e5rt=12.,
                io_coreml=25., io_slow=3., t0_cold=3 * direct,
                zeros=.8 if new and chip[:2] != 'm4' or chip == 'm6' else 1e-3)  # skipped from the M5 on


def columns(points):
    c = {k: np.array([p[k] for p in points], float) for k in
         ('y', 'flops', 'weights', 'io', 'cin', 'cout', 'kernel', 'pixels', 'layers', 'dilation', 'engines', 'lut',
          'zeros')}
    for k in ('both8', 'fp8', 'shared', 'slope', 'task', 'slow', 'cold'):
        c[k] = np.array([p[k] for p in points], bool)
    for k in ('path', 'kind'):
        c[k] = np.array([p[k] for p in points], int)
    c['m6'] = np.array([p['chip'] == 'm6' for p in points])
    return c


def formula(c, q):
    mib = 1048576.
    layers = np.where(c['slope'], 1, c['layers'])
    pixels = np.maximum(c['pixels'], 1)
    conv = c['cin'] > 0
    engines = np.where(c['m6'], np.where(c['engines'] > 0, c['engines'], 2), 1)
    channels = np.where(conv, np.clip((c['cin'] * c['kernel'] / 128) ** 2, .05, 1), 1)
    lanes = 32 * engines
    fill = np.where(conv & (c['kind'] != 0), np.maximum(.05, pixels / (lanes * np.ceil(pixels / lanes))), 1)
    win = np.where((c['kernel'] == 9) & (c['dilation'] == 1) & (pixels >= 256) & ~c['fp8'], q['winograd'], 1)
    work = c['flops'] * np.maximum(.05, 1 - c['zeros'] * q['zeros'])
    compute = work / (q['tflops'] * 1e9 * np.where(c['both8'], q['int8'], 1) * engines * channels * fill * win)
    one = np.where(c['slope'], c['weights'], c['weights'] / c['layers'])
    loads = np.where(c['shared'] & (one <= 1.05 * mib), 1, layers)
    tiles = np.where(one > mib, np.maximum(1, np.ceil(c['cin'] * pixels * 2 / mib)), 1)
    power = (c['kernel'] == 1) & (c['cin'] > 0) & (c['cin'] % 4096 == 0) & (c['cout'] % 4096 == 0) & (
        c['cout'] <= 8192) & (c['kind'] != 0)
    stream = np.where(power, q['pow2'], q['stream'])
    weights = loads * one / 1e6 * (1 / stream + (tiles - 1) / q['again'])
    decode = c['cin'] * c['cout'] * c['kernel'] * layers / (q['decode'] * 1e9)
    weights = np.where(c['lut'] > 0, np.maximum(weights, decode), weights)
    rate = np.choose(c['path'], [q['io_direct'], q['io_e5rt'], q['io_coreml'], q['io_direct']])
    rate = np.where(c['slow'], q['io_slow'], rate)
    io = np.where(c['slope'] | c['task'], 0, c['io'] / 1e6 / rate)
    fixed = np.choose(c['path'], [q['t0_direct'], q['t0_e5rt'], q['t0_coreml'], q['t0_linux']])
    fixed = np.where(c['slope'], 0, np.where(c['task'], .02, np.where(c['cold'], q['t0_cold'], fixed)))
    return fixed + q['layer_us'] * 1e-3 * (layers - 1) + np.maximum(compute, weights) + io


def fit_chip(points, chip):
    start = prior(chip)
    q, c = dict(start), columns(points)
    target = np.log(c['y'])

    def loss(q):
        e = np.abs(np.log(np.maximum(formula(c, q), 1e-7)) - target)
        return np.where(e < .25, e, .25 + (e - .25) * .5).sum() + .05 * sum(
            (math.log(q[k] / start[k]) / SPREAD[k]) ** 2 for k in CONSTANTS)
    best = loss(q)
    for steps in [(1.6, 1.25, 1.1), (1.25, 1.1, 1.04), (1.1, 1.04), (1.04, 1.015), (1.015, 1.005)] * 2:
        for _ in range(3):
            better = False
            for k in CONSTANTS:
                for s in steps:
                    for m in (s, 1 / s):
                        trial = dict(q)
                        trial[k] *= m
                        value = loss(trial)
                        if value < best - 1e-9:
                            best, q, better = value, trial, True
            if not better:
                break
    return q


def fit_formula(points):
    by = collections.defaultdict(list)
    for p in points:
        by[p['chip']].append(p)
    return {c: fit_chip(by[c], c) if c in by else prior(c) for c in CHIPS}


def run_formula(points, constants):
    t = np.zeros(len(points))
    by = collections.defaultdict(list)
    for i, p in enumerate(points):
        by[p['chip']].append(i)
    for c, rows in by.items():
        t[rows] = formula(columns([points[i] for i in rows]), constants[c])
    return t


# ---- the correction --------------------------------------------------------------------------------------------------------

SCALE = [4, 3.2, 4, 2.6, 2.6, 2.6, 2.6, 2.6]  # of the axes below
DIFFERENT = dict(chip=.15, path=.3, kind=.35, os=.75, quant=.5, source=.3, runtime=.5, sub=.6, slope=.4, task=.5, cold=.3,
                 sparse=.5)
RIDGE, OUTLIER = .1, .12
SHARED = .5  # weight of a common chip, path and source, relative to the similarity of programs


def place(p):
    lg = lambda v: math.log2(max(v, 1e-3))
    return [lg(p['flops'] + 1), lg(p['weights'] + 1024), lg(p['io'] + 1024), lg(p['pixels'] + 1), lg(p['cin'] + 1),
            lg(p['cout'] + 1), lg(p['layers']), lg(p['kernel'])]


def rounded_places(points):
    return np.round(np.array([place(p) for p in points]), 2)


def similarity(a, b):
    d = (rounded_places(a)[:, None, :] - rounded_places(b)[None, :, :]) / np.array(SCALE)
    k = np.exp(-np.sqrt((d * d).sum(2)))
    for name, factor in DIFFERENT.items():
        x, y = np.array([hash(p[name]) for p in a]), np.array([hash(p[name]) for p in b])
        k = k * np.where(x[:, None] == y[None, :], 1, factor)
    return k


def related(a, b, k):
    """Returns the kernel of the correction. k: similarity(a, b)."""
    names = [[(p['chip'], p['path'], p['source']) for p in points] for points in (a, b)]
    same = np.array([[x == y for y in names[1]] for x in names[0]])
    return (k + SHARED * same) / (1 + SHARED)


def fit_correction(points, residual):
    k, weight = related(points, points, similarity(points, points)), np.full(len(points), RIDGE)
    for _ in range(5):
        alpha = np.linalg.solve(k + np.diag(weight), residual)
        weight = RIDGE * np.maximum(1, np.abs(residual - k @ alpha) / OUTLIER)
    return alpha


def cross_validate(points, seed, folds=5):
    order = list(range(len(points)))
    random.Random(seed).shuffle(order)
    plain, full, near = np.zeros(len(points)), np.zeros(len(points)), np.zeros(len(points))
    for f in range(folds):
        test = order[f::folds]
        chosen = set(test)
        train = [points[i] for i in order if i not in chosen]
        held = [points[i] for i in test]
        constants = fit_formula(train)
        left = np.log([p['y'] for p in train]) - np.log(run_formula(train, constants))
        plain[test] = np.log(run_formula(held, constants)) - np.log([p['y'] for p in held])
        k = similarity(held, train)
        full[test] = plain[test] + related(held, train, k) @ fit_correction(train, left)
        near[test] = k.max(1)
    return plain, full, near


def relative(log_error):
    return np.abs(np.exp(log_error) - 1)


def line(name, e):
    return '%-34s %4d  median %5.1f %%  90th percentile %6.1f %%' % (name, len(e), 100 * np.median(e), 100 * np.percentile(e, 90))


BANDS = [.6, .3, .1, 0.]


def bands(near, error):
    rows = []
    upper = 2.
    for low in BANDS:
        e = relative(error)[(near >= low) & (near < upper)]
        rows.append((low, np.median(e), np.percentile(e, 90), len(e)) if len(e) > 4 else (low, .35, .9, len(e)))
        upper = low
    return rows


def report(points, plain, full, near):
    print(line('formula alone', relative(plain)))
    print(line('with the correction', relative(full)))
    for title, name in (('workload', lambda p: KINDS[p['kind']]), ('path', lambda p: PATHS[p['path']]),
                        ('chip', lambda p: p['chip'])):
        groups = collections.defaultdict(list)
        for i, p in enumerate(points):
            groups[name(p)].append(i)
        for g in sorted(groups):
            print(line('  %s %s' % (title, g), relative(full)[groups[g]]))
    for low, median, p90, n in bands(near, full):
        print('  similarity to the nearest point >= %.1f: %d points, median %.1f %%, 90th percentile %.1f %%' % (
            low, n, 100 * median, 100 * p90))


def write(path, points, constants, alpha, rows):
    with open(path, 'w') as f:
        f.write('/* SPDX-License-Identifier: MIT\n * Constants of the time model (cost_model.c), written by tools/fit_cost_model.py from %d '
                'published points. Not to be edited.\n *\n * COST_CHIP   per chip: ' % len(points) + ', '.join(CONSTANTS).replace(
                    'pow2, int8', 'pow2,\n *             int8').replace('t0_coreml, t0_linux', 't0_coreml,\n *             t0_linux') +
                '\n * COST_SCALE  length of the axes of the correction; COST_DIFFERENT factors for properties that differ\n'
                ' * COST_SHARED weight of what points of one chip, path and source have in common\n'
                ' * COST_BAND   lowest similarity to the nearest point, median and 90th percentile of the relative error there\n'
                ' *             (five-fold cross-validation)\n'
                ' * COST_POINT  chip, path, kind, quant, runtime, slope, task, cold, sparse, os, source, sub, place on the axes\n *             (x 100), alpha\n */\n'
                '#ifndef COST_CHIP\n#define COST_CHIP(chip, ...)\n#endif\n#ifndef COST_SCALE\n#define COST_SCALE(...)\n#endif\n'
                '#ifndef COST_DIFFERENT\n#define COST_DIFFERENT(name, factor)\n#endif\n#ifndef COST_SHARED\n#define COST_SHARED(weight)\n#endif\n'
                '#ifndef COST_BAND\n#define COST_BAND(...)\n#endif\n#ifndef COST_POINT\n#define COST_POINT(...)\n#endif\n')
        for c in CHIPS:
            f.write('COST_CHIP(%s, %s)\n' % (c, ', '.join('%.4g' % constants[c][k] for k in CONSTANTS)))
        f.write('COST_SCALE(%s)\n' % ', '.join('%g' % s for s in SCALE))
        for k, v in DIFFERENT.items():
            f.write('COST_DIFFERENT(%s, %g)\n' % (k, v))
        f.write('COST_SHARED(%g)\n' % SHARED)
        for low, median, p90, _ in rows:
            f.write('COST_BAND(%g, %.3f, %.3f)\n' % (low, median, p90))
        for p, x, a in zip(points, rounded_places(points), alpha):
            f.write('COST_POINT(%s, %d, %d, %d, %d, %d, %d, %d, %d, 0x%08x, 0x%08x, 0x%08x, %s, %.4f)\n' % (
                p['chip'], p['path'], p['kind'], p['quant'], p['runtime'], p['slope'], p['task'], p['cold'], p['sparse'], p['os'], p['source'],
                p['sub'], ', '.join('%d' % round(v * 100) for v in x), a))
        f.write('#undef COST_CHIP\n#undef COST_SCALE\n#undef COST_DIFFERENT\n#undef COST_SHARED\n#undef COST_BAND\n#undef COST_POINT\n')


def main():
    parser = argparse.ArgumentParser(description='Fits the time model.')
    parser.add_argument('points')
    parser.add_argument('--write')
    parser.add_argument('--cross-validate', action='store_true')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--compare', help='a propane command: its --points predictions must be ours')
    args = parser.parse_args()
    rows = list(csv.DictReader(open(args.points)))
    got = [features(r) for r in rows]
    points = [g for g in got if not isinstance(g, str)]
    left_out = collections.Counter(g for g in got if isinstance(g, str))
    print('%d rows, %d covered' % (len(rows), len(points)))
    for reason, n in left_out.most_common():
        print('  %4d not covered: %s' % (n, reason))
    plain, full, near = cross_validate(points, args.seed)
    report(points, plain, full, near)
    if args.write or args.compare:
        constants = fit_formula(points)
        constants = {c: {k: float('%.4g' % v) for k, v in q.items()} for c, q in constants.items()}
        alpha = np.round(fit_correction(points, np.log([p['y'] for p in points]) - np.log(run_formula(points, constants))), 4)
    if args.write:
        write(args.write, points, constants, alpha, bands(near, full))
    if args.compare:
        ours = run_formula(points, constants) * np.exp(related(points, points, similarity(points, points)) @ alpha)
        out = json.loads(subprocess.run([args.compare, 'estimate', '--points', args.points, '--json'], check=True,
                                        capture_output=True).stdout)
        theirs = {p['id']: p['predicted_ms'] for p in out['points']}
        differ = [(p['id'], t, theirs.get(p['id'])) for p, t in zip(points, ours)
                  if p['id'] not in theirs or abs(theirs[p['id']] / t - 1) > 1e-3]
        print('%d predictions compared, %d differ' % (len(points), len(differ) + abs(len(theirs) - len(points))))
        for d in differ[:10]:
            print('  %s: %.6g here, %s there' % d)
        sys.exit(bool(differ) or len(theirs) != len(points))


if __name__ == '__main__':
    main()
