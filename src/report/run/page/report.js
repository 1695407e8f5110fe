'use strict';
// Draws the charts at the reader's width, with values under the pointer, smoothing and a choice of the x axis. Without
// scripts the page shows the losses as characters. The data is in #data; report_data.h describes it.
(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const state = { smooth: 0, axis: 'step', hidden: new Set() };
  const figures = [...document.querySelectorAll('figure')];
  const NS = figures.length ? figures[0].querySelector('svg').namespaceURI : '';
  const make = (tag, of, text) => {
    const e = document.createElementNS(NS, tag);
    for (const k in of) e.setAttribute(k, of[k]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const show = v => v === null || !isFinite(v) ? '-' : Math.abs(v) >= 1e10 ? v.toExponential(3) : Math.abs(v) >= 1e6 ? +(v / 1e6).toPrecision(4) + ' M' : Math.abs(v) >= 1e4 ? +(v / 1e3).toPrecision(4) + ' k' : String(+v.toPrecision(Math.abs(v) < 1e-3 ? 4 : 5));
  const time = s => s < 100 ? s.toPrecision(3) + ' s' : s < 6000 ? (s / 60).toFixed(1) + ' min' : (s / 3600).toFixed(2) + ' h';
  const axes = {
    step: { name: 'step', of: (c, i) => c.x[i], show: v => Math.round(v).toLocaleString('en') },
    tokens: { name: data.unit, of: (c, i) => c.x[i] * c.each, show: v => v >= 1e6 ? (v / 1e6).toPrecision(4) + ' M' : Math.round(v).toLocaleString('en') },
    time: { name: 'seconds of training', of: (c, i) => c.t[i], show: time },
  };

  // Returns an exponential moving average, divided by the sum of its weights so that it is not too small at the start.
  function smoothed(y) {
    const keep = state.smooth, out = [];
    let sum = 0, weight = 0;
    for (const v of y) {
      if (v === null) { out.push(null); continue; }
      sum = keep * sum + (1 - keep) * v;
      weight = keep * weight + (1 - keep);
      out.push(sum / weight);
    }
    return out;
  }

  function round(range, parts) {
    const power = 10 ** Math.floor(Math.log10(range / parts)), first = range / parts / power;
    return power * (first < 1.5 ? 1 : first < 3.5 ? 2 : first < 7.5 ? 5 : 10);
  }

  // Returns the marks of an axis. Each is a multiple of the step, because adding the step repeatedly may have no effect far
  // from 0.
  function marks(from, to, step) {
    const out = [], first = Math.ceil(from / step);
    for (let i = 0; i < 20 && isFinite(first); i++) {
      const v = (first + i) * step;
      if (!(v <= to) || (out.length && v <= out[out.length - 1])) break;
      out.push(v);
    }
    return out;
  }

  function visible(chart) {
    return chart.curves.filter(c => !state.hidden.has(c.name)).map(c => {
      const axis = axes[state.axis], points = [];
      const y = c.exact || !state.smooth ? c.y : smoothed(c.y);
      for (let i = 0; i < y.length; i++) {
        const x = axis.of(c, i);
        if (y[i] !== null && x !== null && isFinite(x)) points.push({ x, y: y[i], raw: c.y[i], step: c.x[i] });
      }
      return { c, points };
    }).filter(v => v.points.length);
  }

  // Returns the visible range, which includes the first losses, because the loss of a new model is that of guessing.
  function range(curves) {
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (const { points } of curves)
      for (const p of points) {
        x0 = Math.min(x0, p.x), x1 = Math.max(x1, p.x);
        y0 = Math.min(y0, p.y), y1 = Math.max(y1, p.y);
      }
    if (x1 <= x0) x0 -= .5, x1 += .5;
    const room = y1 > y0 ? .05 * (y1 - y0) : Math.max(Math.abs(y1) * .1, 1e-9);
    return { x0, x1, y1: y1 + room, y0: y0 >= 0 && y0 < room ? 0 : y0 - room };
  }

  function draw(figure) {
    const chart = data.charts[+figure.dataset.chart], W = Math.max(figure.clientWidth, 240), H = W < 520 ? 220 : 260;
    const L = 58, R = 14, T = 32, B = 40, curves = visible(chart), axis = axes[state.axis];
    const svg = make('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': chart.title });
    svg.append(make('text', { class: 'title', x: 12, y: 20 }, chart.title));
    if (curves.length) {
      const r = range(curves), px = x => L + (x - r.x0) / (r.x1 - r.x0) * (W - L - R);
      const py = y => Math.min(H - B, Math.max(T, H - B - (y - r.y0) / (r.y1 - r.y0) * (H - T - B)));
      let d = round(r.y1 - r.y0, 5);
      for (const v of marks(r.y0, r.y1, d)) {
        svg.append(make('line', { class: 'grid', x1: L, x2: W - R, y1: py(v), y2: py(v) }));
        svg.append(make('text', { class: 'axis', 'text-anchor': 'end', x: L - 6, y: py(v) + 4 }, show(Math.abs(v) < d * 1e-6 ? 0 : v)));
      }
      d = round(r.x1 - r.x0, W < 520 ? 3 : 6);
      if (state.axis === 'step') d = Math.max(d, 1);
      for (const v of marks(r.x0, r.x1, d))
        svg.append(make('text', { class: 'axis', 'text-anchor': px(v) > W - R - 20 ? 'end' : 'middle', x: px(v), y: H - B + 16 }, state.axis === 'time' ? show(v) : axis.show(v)));
      svg.append(make('text', { class: 'axis', 'text-anchor': 'end', x: W - R, y: H - 6 }, axis.name));
      for (const { c, points } of curves) {
        const line = of => points.map(p => px(p.x).toFixed(1) + ',' + py(p[of]).toFixed(1)).join(' ');
        if (state.smooth && !c.exact) svg.append(make('polyline', { class: 'raw k' + c.colour, points: line('raw') }));
        svg.append(make('polyline', { class: 'k' + c.colour, points: line('y') }));
        if (c.dots || points.length === 1) for (const p of points) svg.append(make('circle', { class: 'k' + c.colour, r: points.length > 60 ? 2 : 3, cx: px(p.x), cy: py(p.y) }));
      }
      figure.shown = { svg, curves, px, py, T, bottom: H - B, W, r };
    } else {
      svg.append(make('text', { class: 'axis', x: 12, y: 48 }, state.hidden.size ? 'all curves are hidden' : 'nothing yet'));
      figure.shown = null;
    }
    figure.querySelectorAll('svg,.tip').forEach(e => e.remove());
    figure.append(svg);
  }

  function nearest(points, x) {
    let a = 0, b = points.length - 1;
    while (b - a > 1) {
      const m = a + b >> 1;
      points[m].x < x ? a = m : b = m;
    }
    return Math.abs(points[a].x - x) <= Math.abs(points[b].x - x) ? points[a] : points[b];
  }

  function point(figure, at) {
    figure.querySelectorAll('.tip,.mark').forEach(e => e.remove());
    const s = figure.shown;
    if (!s || at === null) { figure.at = null; return; }
    const x = s.r.x0 + (at - s.px(s.r.x0)) / (s.px(s.r.x1) - s.px(s.r.x0)) * (s.r.x1 - s.r.x0);
    const found = s.curves.map(v => ({ c: v.c, p: nearest(v.points, x) }));
    const first = found.reduce((a, b) => Math.abs(b.p.x - x) < Math.abs(a.p.x - x) ? b : a).p, cx = s.px(first.x);
    figure.at = cx;
    s.svg.append(make('line', { class: 'cursor mark', x1: cx, x2: cx, y1: s.T, y2: s.bottom }));
    const tip = document.createElement('div'), head = document.createElement('div');
    tip.className = 'tip';
    head.textContent = (state.axis === 'step' ? '' : axes[state.axis].show(first.x) + (state.axis === 'tokens' ? ' ' + data.unit : '') + ', ') + 'step ' + Math.round(first.step).toLocaleString('en');
    tip.append(head);
    for (const { c, p } of found) {
      const row = document.createElement('div'), dot = document.createElement('i');
      dot.className = 'k' + c.colour;
      const far = Math.abs(p.step - first.step) > .5 && state.axis === 'step' ? ' (step ' + Math.round(p.step) + ')' : '';
      row.append(dot, c.name + '  ' + show(p.y) + (state.smooth && !c.exact ? ' (unsmoothed ' + show(p.raw) + ')' : '') + far);
      tip.append(row);
      s.svg.append(make('circle', { class: 'mark k' + c.colour, r: 4, cx: s.px(p.x), cy: s.py(p.y) }));
    }
    figure.append(tip);
    const w = tip.offsetWidth;
    tip.style.left = Math.max(4, Math.min(cx + 14 + w < s.W ? cx + 14 : cx - 14 - w, s.W - w - 4)) + 'px';
    tip.style.top = s.T + 'px';
  }

  function drawAll() { figures.forEach(draw); }

  figures.forEach(figure => {
    figure.tabIndex = 0;
    const move = e => point(figure, e.clientX - figure.getBoundingClientRect().left);
    figure.addEventListener('pointermove', move);
    figure.addEventListener('pointerdown', move);
    figure.addEventListener('pointerleave', e => { if (e.pointerType === 'mouse') point(figure, null); });
    figure.addEventListener('blur', () => point(figure, null));
    figure.addEventListener('keydown', e => {
      const s = figure.shown, by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (e.key === 'Escape') point(figure, null);
      if (!s || !by) return;
      e.preventDefault();
      const all = [...new Set(s.curves.flatMap(v => v.points.map(p => p.x)))].sort((a, b) => a - b);
      const now = figure.at == null ? (by > 0 ? -1 : all.length) : all.findIndex(x => Math.abs(s.px(x) - figure.at) < 1e-6);
      point(figure, s.px(all[Math.max(0, Math.min(all.length - 1, now + by))]));
    });
  });

  const controls = document.querySelector('.controls');
  const label = (text, of) => {
    const l = document.createElement('label');
    l.append(text, of);
    controls.append(l);
  };
  const slider = document.createElement('input');
  Object.assign(slider, { type: 'range', min: 0, max: 0.99, step: 0.01, value: 0, id: 'smooth' });
  slider.addEventListener('input', () => { state.smooth = +slider.value; drawAll(); });
  label('Smoothing', slider);
  const choice = document.createElement('select');
  choice.id = 'axis';
  for (const a of ['step', 'tokens', 'time']) {
    if (a === 'tokens' && !data.charts.every(c => c.curves.every(k => k.each))) continue;
    const o = document.createElement('option');
    o.value = a, o.textContent = axes[a].name;
    choice.append(o);
  }
  choice.addEventListener('change', () => { state.axis = choice.value; drawAll(); });
  label('x axis', choice);
  const legend = document.querySelector('.legend'), names = new Map();
  legend.replaceChildren();
  for (const c of data.charts.flatMap(k => k.legend ? k.curves : [])) names.set(c.name, c.colour);
  for (const [name, colour] of names) {
    const b = document.createElement('button'), dot = document.createElement('i');
    dot.className = 'k' + colour;
    b.append(dot, name);
    b.setAttribute('aria-pressed', 'true');
    b.addEventListener('click', () => {
      state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
      b.setAttribute('aria-pressed', String(!state.hidden.has(name)));
      drawAll();
    });
    legend.append(b);
  }
  let last = 0;
  new ResizeObserver(() => {
    if (document.body.clientWidth !== last) last = document.body.clientWidth, drawAll();
  }).observe(document.body);
  drawAll();
})();
