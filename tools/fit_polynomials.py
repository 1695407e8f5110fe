#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the coefficients in src/cpu/simd/vec_math.h and attention_body.h. Needs mpmath; never needed to build or test.

Each function is interpolated at Chebyshev nodes of its interval, then the largest weighted error is levelled by a few
exchange steps (Remez). Coefficients are rounded to float from the highest power down, the others fitted again each time.
"""
from mpmath import mp, mpf, matrix, lu_solve, cos, pi, exp, log, tanh, erf, erfc, sin, sqrt
import struct

mp.dps = 40


def to_float(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def remez(f, weight, lo, hi, powers, fixed, rounds=12):
    """Finds the minimax of weight(x) * (f(x) - fixed part - sum c_p x^p) over [lo, hi]."""
    n = len(powers)
    nodes = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * mpf(2 * i + 1) / (2 * (n + 1))) for i in range(n + 1)]
    target = lambda x: f(x) - sum(c * x**p for p, c in fixed)
    grid = [lo + (hi - lo) * (mpf(1) - cos(pi * i / 600)) / 2 for i in range(601)]
    grid = [x for x in grid if x != 0]
    tw = [(x, target(x), weight(x)) for x in grid]
    c, err = [mpf(0)] * n, [mpf(1)]
    for _ in range(rounds):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for i, x in enumerate(nodes):
            for j, p in enumerate(powers):
                a[i, j] = x**p
            a[i, n] = (-1) ** i / (weight(x) or mpf(10) ** -20)
            b[i] = target(x)
        try:
            s = lu_solve(a, b)
        except ZeroDivisionError:
            break
        c = [s[j] for j in range(n)]
        err = [(t - sum(cj * x**p for cj, p in zip(c, powers))) * w for x, t, w in tw]
        # one extremum per run of equal sign
        runs, best = [], None
        for (x, _, _), e in zip(tw, err):
            if best is None or (e > 0) != (best[1] > 0):
                if best: runs.append(best)
                best = (x, e)
            elif abs(e) > abs(best[1]):
                best = (x, e)
        runs.append(best)
        while len(runs) > n + 1:
            runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        if len(runs) < n + 1: break
        nodes = [x for x, _ in runs]
    return c, max(abs(e) for e in err)


def fit(name, f, weight, lo, hi, powers, fixed=()):
    fixed, todo = list(fixed), sorted(powers, reverse=True)
    lo, hi = mpf(lo), mpf(hi)
    _, ideal = remez(f, weight, lo, hi, todo, fixed)
    while todo:
        c, err = remez(f, weight, lo, hi, todo, fixed)
        fixed.append((todo.pop(0), to_float(c[0])))
    last = 0
    for i in range(400):
        x = lo + (hi - lo) * (i + mpf(1) / 3) / 400
        last = max(last, abs((f(x) - sum(c * x**p for p, c in fixed)) * weight(x)))
    print(f"{name}: error 2^{mp.nstr(log(ideal, 2), 4)}, rounded 2^{mp.nstr(log(last, 2), 4)}")
    for p, c in sorted(fixed):
        print(f"    x^{p}: {float(c).hex()}f")


def fit_from(name, f, weight, lo, hi, powers, fixed, rounds=150):
    """If all powers vanish inside the interval, the exchange does not converge. This uses weighted least squares instead, in
    which points gain weight by their error (Lawson)."""
    fixed, todo = list(fixed), sorted(powers, reverse=True)
    points = [mpf(lo) + (mpf(hi) - mpf(lo)) * i / 200 for i in range(201)]
    while todo:
        target = [f(x) - sum(c * x**p for p, c in fixed) for x in points]
        mass = [mpf(1)] * len(points)
        for _ in range(rounds):
            m = [w * weight(x) ** 2 for w, x in zip(mass, points)]
            a = matrix(len(todo), len(todo))
            b = matrix(len(todo), 1)
            for i, p in enumerate(todo):
                b[i] = sum(w * t * x**p for w, t, x in zip(m, target, points))
                for j, q in enumerate(todo):
                    a[i, j] = sum(w * x ** (p + q) for w, x in zip(m, points))
            c = lu_solve(a, b)
            e = [abs(t - sum(c[i] * x**p for i, p in enumerate(todo))) * weight(x) for x, t in zip(points, target)]
            mass = [w * v for w, v in zip(mass, e)]
            total = sum(mass)
            mass = [w / total for w in mass]
        fixed.append((todo.pop(0), to_float(c[0])))
    last = max(abs(f(x) - sum(c * x**p for p, c in fixed)) * weight(x) for x in points)
    print(f"{name}: rounded 2^{mp.nstr(log(last, 2), 4)}")
    for p, c in sorted(fixed):
        print(f"    x^{p}: {float(c).hex()}f")


ln2 = log(mpf(2))
# exp(x) = 1 + x + x^2 q(x), |x| <= ln2/2
fit("exp", lambda x: (exp(x) - 1 - x) / x**2, lambda x: x**2, -0.3468, 0.3469, range(5))
# 2^x = 1 + x q(x), |x| <= 1/2 (attention_body.h)
fit_from("power", lambda x: mpf(2) ** x, lambda x: mpf(2) ** -x, -0.5, 0.5, range(1, 6), [(0, mpf(1))])
# log(1 + x) = x - x^2/2 + x^3 q(x), sqrt(1/2) <= 1 + x <= sqrt(2)
fit("log", lambda x: (log(1 + x) - x + x**2 / 2) / x**3, lambda x: x**3 / log(1 + x), sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1, range(9))
# tanh(x) = x + x^3 q(x^2), |x| <= 0.625; in the code x is x^2
fit("tanh", lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z * sqrt(z) / tanh(sqrt(z)), 1e-9, 0.4, range(5))
# erf(x) = x (1 + q(x^2)), |x| <= 0.93
fit("erf", lambda z: erf(sqrt(z)) / sqrt(z) - 1, lambda z: sqrt(z) / erf(sqrt(z)), 1e-9, 0.865, range(7))
# erfc(t) = u exp(-t^2 + q(u)), u = 1 / (1 + t/2), 0 <= t <= 10; in the code x is u
fit("erfc", lambda u: log(erfc(2 / u - 2)) + (2 / u - 2) ** 2 - log(u), lambda u: mpf(1), mpf(1) / 6, 1, range(11))
# sin(x) = x + x^3 q(x^2), cos(x) = 1 - x^2/2 + x^4 q(x^2), |x| <= pi/4
fit("sin", lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z, 1e-9, (pi / 4) ** 2, range(4))
fit("cos", lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2, 1e-9, (pi / 4) ** 2, range(4))
