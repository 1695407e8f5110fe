// Owns the page's content: the colours by kind, verdict, cost, time or error, the panel, the search, the table, the keyboard.

const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const KINDS = {linear: 'products', norm: 'norms, reductions', act: 'arithmetic, activations', move: 'shapes, moves', state: 'states, control', io: 'inputs, outputs', other: 'other'};
const VERDICTS = [['ok', 'no known rule refuses it', ''], ['note', 'note', 'note'], ['warn', 'warning', '! warn'], ['fall', 'falls back to the CPU', '\u21a9 cpu'], ['crash', 'crashes outside the engine', '\u2715 crash'], ['no', 'refused', '\u2715 no']], WORST = VERDICTS.length - 1;
const MODES = {kind: 'kind of operation', verdict: 'verdict', cost: 'estimated time', time: 'measured time', error: 'error'};

let graph, tree, users, view, mode = 'kind', chip = 0, hits = [], hitAt = -1, hitSet = new Set(), picked = null;

// ---- words -----------------------------------------------------------------------------------------------------------

function number(x, digits) {
  if (!isFinite(x)) return String(x);
  if (x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e7)) return x.toExponential(digits || 2);
  return String(+x.toPrecision(digits || 3));
}
const scaled = (x, units) => { let i = 0; while (x >= 1000 && i + 1 < units.length) { x /= 1000; i++; } return number(x) + ' ' + units[i]; };
const bytes = x => scaled(x, ['B', 'KB', 'MB', 'GB', 'TB']);
const flops = x => scaled(x, ['FLOP', 'KFLOP', 'MFLOP', 'GFLOP', 'TFLOP']);
const micro = x => x >= 1000 ? number(x / 1000) + ' ms' : number(x) + ' \u00b5s';
const short = t => (t || '').replace(/tensor<([a-z0-9]+), \[([^\]]*)\]>/g, (_, type, dims) => type + ' ' + (dims ? dims.split(', ').join('\u00d7') : 'scalar'));

function verdictOf(node, c) { // returns the worst severity on chip c: 0 for none, WORST for refused
  let worst = 0;
  for (const v of node.v || []) for (let s = WORST; s > worst; s--) if (v.on[WORST - s] >> c & 1) worst = s;
  return worst;
}

// ---- colours ---------------------------------------------------------------------------------------------------------

const figure = { // the number that colours a node in each mode; undefined if the node has none
  cost: n => n.ms && n.ms[chip] * 1000,
  time: n => n.us,
  error: n => n.d && n.d[3],
};

function heat(x, most) {
  if (x === undefined || x === null) return null;
  if (mode === 'error') return x === 'nan' || x > 1 ? 6 : x <= 0 ? 0 : Math.max(0, Math.min(6, Math.floor(6.999 + Math.log10(x))));
  return most > 0 ? Math.min(6, Math.floor(Math.sqrt(x / most) * 6.999)) : 0;
}

function sumOf(b) {
  let sum = 0, any = false;
  for (let i = b.first; i <= b.last; i++) { const x = figure[mode](graph.nodes[i]); if (typeof x === 'number') { sum = mode === 'error' ? Math.max(sum, x) : sum + x; any = true; } }
  return any ? sum : undefined;
}

function classes(item) {
  const b = item.group;
  if (mode === 'kind') {
    if (!b) return {kind: graph.nodes[item.node].k};
    const count = {};
    for (let i = b.first; i <= b.last; i++) count[graph.nodes[i].k] = (count[graph.nodes[i].k] || 0) + 1;
    return {kind: '', parts: b.open ? null : Object.keys(KINDS).filter(k => count[k]).map(k => [k, count[k] / (b.last - b.first + 1)])};
  }
  if (mode === 'verdict') {
    if (!b) {
      const s = verdictOf(graph.nodes[item.node], chip);
      return {kind: graph.nodes[item.node].k === 'io' && !s ? 'io' : VERDICTS[s][0], badge: VERDICTS[s][2]};
    }
    const count = [0, 0, 0, 0, 0];
    for (let i = b.first; i <= b.last; i++) count[verdictOf(graph.nodes[i], chip)]++;
    const worst = Math.max(...count.map((n, s) => n ? s : 0));
    return {kind: '', badge: VERDICTS[worst][2], parts: b.open ? null : VERDICTS.map((v, s) => [v[0], count[s] / (b.last - b.first + 1)]).filter(p => p[1])};
  }
  const x = b ? sumOf(b) : figure[mode](graph.nodes[item.node]), h = heat(x, b ? graph.total[mode] / 2 : graph.most[mode]);
  if (b && b.open) return {kind: ''};
  return {kind: h === null ? 'move' : 'h' + h, badge: mode === 'error' && (x === 'nan' || x > data.tolerance) ? '\u2260' : ''};
}

function figureText(x) {
  if (x === undefined || x === null) return '';
  return mode === 'error' ? (x === 'nan' ? 'not a number' : number(x)) : micro(x);
}

function lines(item) {
  const b = item.group;
  if (b) {
    const n = b.last - b.first + 1;
    return b.open ? [b.name + ' (' + n + ')'] : [b.name, n + ' operations' + (figure[mode] ? ', ' + figureText(sumOf(b)) : '')];
  }
  const n = graph.nodes[item.node], x = figure[mode] && figureText(figure[mode](n));
  return [n.o, n.n, x || short((n.t || [''])[0])];
}

function title(item) {
  const b = item.group;
  if (b) return 'block ' + b.name + ', ' + (b.last - b.first + 1) + ' operations, ' + (b.open ? 'unfolded' : 'folded');
  const n = graph.nodes[item.node], extra = [];
  if (mode === 'verdict') extra.push(data.chips[chip].name + ': ' + VERDICTS[verdictOf(n, chip)][1]);
  if (figure[mode] && figureText(figure[mode](n))) extra.push(MODES[mode] + ' ' + figureText(figure[mode](n)));
  return n.o + ' ' + n.n + ', ' + (n.t || []).map(short).join('; ') + (extra.length ? ', ' + extra.join(', ') : '');
}

function legend() {
  const box = $('legend'), row = (kind, text) => el('span', {}, el('i', {class: kind}), text);
  box.replaceChildren();
  if (mode === 'kind') for (const k in KINDS) if (graph.nodes.some(n => n.k === k)) box.append(row(k, KINDS[k]));
  if (mode === 'verdict') for (const [k, text] of VERDICTS) box.append(row(k, text));
  if (figure[mode]) {
    const most = graph.most[mode];
    for (let h = 0; h < 7; h++) {
      const from = mode === 'error' ? (h ? '1e' + (h - 7) : 'less') : micro(most * h * h / 49);
      box.append(row('h' + h, from));
    }
    box.append(el('span', {}, mode === 'cost' ? 'estimated, not measured' : mode === 'time' ? 'per run; fused steps stand at their last operation' : 'largest difference / largest value'));
  }
}

// ---- the drawing -----------------------------------------------------------------------------------------------------

function relayout(keep) {
  const anchor = keep && boxOf(keep), before = anchor && {x: anchor.x * view.scale + view.x, y: anchor.y * view.scale + view.y};
  view.picked = null;
  view.set(layout(tree, graph.nodes, users));
  if (picked) view.pick(boxOf(picked));
  if (before) { // the block that was folded or unfolded keeps its place on the screen
    const now = boxOf(keep);
    view.x = before.x - now.x * view.scale;
    view.y = before.y - now.y * view.scale;
  }
  light();
  view.draw();
}

// Returns the box in which a node or block is currently visible.
function boxOf(what) {
  let b = typeof what === 'number' ? tree.home[what] : what.parent, inside = what;
  for (; b && b.parent; b = b.parent) if (!b.open) inside = b;
  return view.plan.items.find(i => typeof inside === 'number' ? i.node === inside : i.group === inside);
}

function unfoldTo(node) {
  let changed = false;
  for (let b = tree.home[node]; b && b.parent; b = b.parent) if (!b.open) { b.open = true; changed = true; }
  return changed;
}

function light() {
  if (picked === null) return view.light(null);
  const range = typeof picked === 'number' ? [picked, picked] : [picked.first, picked.last];
  const mine = i => i >= range[0] && i <= range[1];
  const sources = new Set();
  for (let i = range[0]; i <= range[1]; i++) for (const [u] of graph.nodes[i].i) if (!mine(u)) sources.add(u);
  view.light(e => mine(e.u) || (sources.has(e.u) && (e.to === null || e.into(mine))));
}

function pick(what, quiet) {
  picked = what;
  view.pick(what === null ? null : boxOf(what));
  light();
  details();
  if (what !== null && !quiet) $('say').textContent = title(typeof what === 'number' ? {node: what} : {group: what});
}

function toggle(b) {
  b.open = !b.open;
  relayout(b);
  $('say').textContent = title({group: b});
}

function press(item) {
  if (!item) return pick(null);
  const what = item.group || item.node;
  if (item.group) { pick(what, true); toggle(item.group); details(); }
  else pick(what);
}

function go(node) {
  if (unfoldTo(node)) relayout();
  pick(node);
  view.center(boxOf(node));
}

// ---- the panel -------------------------------------------------------------------------------------------------------

const rows = (table, list) => { for (const [k, v] of list) if (v !== undefined && v !== null && v !== '') table.append(el('tr', {}, el('th', {scope: 'row'}, k), el('td', {}, v))); return table; };
const jump = i => el('button', {class: 'link', type: 'button', on: () => go(i)}, graph.nodes[i].o + ' ' + graph.nodes[i].n);

function chipsOf(mask) {
  const names = data.chips.filter((c, i) => mask >> i & 1).map(c => c.name);
  return names.length === data.chips.length && names.length > 1 ? 'all' : names.join(', ');
}

function finding(v) {
  const worst = v.on.findIndex(m => m), kind = VERDICTS[WORST - Math.max(0, worst)], rule = data.rules[v.r];
  const where = v.on.map((m, i) => m ? VERDICTS[WORST - i][1] + ' on ' + chipsOf(m) : '').filter(Boolean).join('; ');
  return el('div', {class: 'finding ' + kind[0]}, el('p', {}, el('span', {class: 'tag ' + kind[0]}, v.r), ' ' + v.m), el('p', {}, rule.sentence),
    el('p', {}, where), el('p', {class: 'soft'}, rule.evidence + ': ' + rule.source), el('p', {}, 'Fix: ' + rule.fix));
}

function about(i) {
  const n = graph.nodes[i], box = el('div', {}), table = el('table', {});
  box.append(el('h2', {tabindex: '-1'}, n.o + ' ', el('span', {class: 'soft'}, n.n)));
  rows(table, [['result', (n.t || []).map(short).join('; ')], ['block', tree.home[i].parent ? tree.home[i].name : ''], ['operations', n.f ? flops(n.f) : ''], ['reads and writes', n.b ? bytes(n.b) : '']]);
  if (n.ms) data.chips.forEach((c, k) => { if (c.ms !== undefined) rows(table, [['estimated, ' + c.name, micro(n.ms[k] * 1000) + (n.by ? ', bound by ' + n.by[k] : '')]]); });
  if (n.us !== undefined) rows(table, [['measured', micro(n.us)]]);
  if (n.d) rows(table, [['largest difference', told2(n.d[0])], ['mean difference', told2(n.d[1])], ['largest value', told2(n.d[2])], ['relative', told2(n.d[3]) + (n.d[3] === 'nan' || n.d[3] > data.tolerance ? ', more than ' + number(data.tolerance) : '')]]);
  box.append(table);
  for (const g of n.g || []) box.append(el('p', {}, el('button', {type: 'button', on: () => open(g)}, 'open ' + data.graphs[g].name)));
  if (n.v && n.v.length) { box.append(el('h3', {}, 'Rules')); n.v.forEach(v => box.append(finding(v))); }
  if (n.i.length) { box.append(el('h3', {}, 'Inputs')); n.i.forEach(([u, p]) => box.append(el('p', {}, p ? el('span', {class: 'soft'}, p + ': ') : null, jump(u)))); }
  if (n.w || n.a) {
    box.append(el('h3', {}, 'Constants'));
    const t = el('table', {});
    for (const [p, name, type, size] of n.w || []) rows(t, [[p, short(type) + ', ' + bytes(size) + (name ? ', ' + name : '')]]);
    box.append(rows(t, n.a || []));
  }
  if (users[i].length) { box.append(el('h3', {}, 'Read by')); users[i].slice(0, 40).forEach(u => box.append(el('p', {}, jump(u)))); if (users[i].length > 40) box.append(el('p', {class: 'soft'}, 'and ' + (users[i].length - 40) + ' more')); }
  return box;
}
const told2 = x => x === 'nan' ? 'not a number' : number(x);

const notTaken = () => 'Not taken by ' + data.chips[chip].name + ', or taken with a warning';

function aboutBlock(b) {
  const box = el('div', {}), table = el('table', {});
  box.append(el('h2', {tabindex: '-1'}, 'block ', el('span', {class: 'soft'}, b.name)));
  const all = graph.nodes.slice(b.first, b.last + 1), sum = f => all.reduce((s, n) => s + (f(n) || 0), 0);
  const alike = tree.blocks.filter(x => x.like === b.like).length;
  rows(table, [['operations', String(all.length)], ['blocks like it', alike > 1 ? String(alike) : ''], ['work', flops(sum(n => n.f))]]);
  data.chips.forEach((c, k) => { if (c.ms !== undefined && all.some(n => n.ms)) rows(table, [['estimated, ' + c.name, micro(sum(n => n.ms && n.ms[k]) * 1000)]]); });
  if (all.some(n => n.us !== undefined)) rows(table, [['measured', micro(sum(n => n.us))]]);
  box.append(table, el('p', {}, el('button', {type: 'button', on: () => { toggle(b); details(); }}, b.open ? 'fold' : 'unfold')));
  const found = [];
  for (let i = b.first; i <= b.last; i++) if (verdictOf(graph.nodes[i], chip) > 1) found.push(i);
  if (found.length) box.append(el('h3', {}, notTaken()));
  found.slice(0, 30).forEach(i => box.append(el('p', {}, jump(i))));
  return box;
}

function feature(f) {
  const words = [f.kind === 'image' ? 'image ' + f.width + '\u00d7' + f.height + ' ' + f.colour : f.kind === 'array' ? f.type + ' ' + (f.shape || []).join('\u00d7') : f.kind];
  if (f.least) words.push('from ' + f.least.join('\u00d7') + ' to ' + f.most.map(x => x === null ? 'any' : x).join('\u00d7'));
  if (f.shapes) words.push(f.shapes.length + ' shapes');
  if (f.optional) words.push('optional');
  return words.join(', ') + (f.description ? ': ' + f.description : '');
}

// Returns an element that shows the verdict on a chip as a tag, with the reasons below it.
function verdict(c) {
  const [first, ...more] = c.verdict.split('; ');
  return el('div', {}, el('span', {class: 'tag ' + VERDICTS[c.worst][0]}, first), more.length ? el('p', {}, more.join('; ')) : null);
}

function overview() {
  const box = el('div', {}), m = data.model, f = m.functions.find(x => x.name === graph.function) || m.functions[0];
  box.append(el('h2', {tabindex: '-1'}, graph.name));
  if (data.chips.length && data.verdicts) {
    const t = el('table', {});
    for (const c of data.chips) t.append(el('tr', {}, el('th', {scope: 'row', class: 'chip'}, c.name), el('td', {}, verdict(c), c.ms !== undefined && graph.function === f.name ? el('p', {class: 'soft'}, 'about ' + number(c.ms) + ' ms, ' + number(c.mj) + ' mJ (estimated)') : null)));
    box.append(el('h3', {}, 'By chip, ' + data.path), t);
  }
  if (data.whole.length) { box.append(el('h3', {}, 'Rules about the whole program')); data.whole.forEach(v => box.append(finding(v))); }
  if (f) for (const [name, list] of [['Inputs', f.inputs], ['Outputs', f.outputs], ['States', f.states]]) if (list.length) {
    box.append(el('h3', {}, name), rows(el('table', {}), list.map(x => [x.name, feature(x)])));
  }
  if (f && f.classes) box.append(el('h3', {}, f.classes.length + ' classes'), el('p', {}, f.classes.slice(0, 12).join(', ') + (f.classes.length > 12 ? ', \u2026' : '')));
  const top = worst();
  if (top.length) { box.append(el('h3', {}, top.title)); const t = el('table', {}); top.forEach(i => t.append(el('tr', {}, el('td', {}, jump(i)), el('td', {class: 'n'}, top.say(i))))); box.append(t); }
  const t = el('table', {});
  rows(t, [['operations', String(graph.nodes.filter(n => n.k !== 'io').length)], ['work', flops(graph.nodes.reduce((s, n) => s + (n.f || 0), 0))], ['author', m.author], ['licence', m.license], ['version', m.version], ['specification', m.specification_version && m.specification_version + (m.systems ? ' (' + m.systems + ' and later)' : '')], ['description', m.description]]);
  for (const k in m.user || {}) rows(t, [[k, m.user[k].length > 300 ? m.user[k].slice(0, 300) + '\u2026' : m.user[k]]]);
  box.append(el('h3', {}, 'Model'), t);
  return box;
}

// Returns the ten operations that matter most in the current mode.
function worst() {
  const all = graph.nodes.map((n, i) => i);
  let list = [], title = '', say = () => '';
  if (mode === 'verdict') {
    list = all.filter(i => verdictOf(graph.nodes[i], chip) > 1).sort((a, b) => verdictOf(graph.nodes[b], chip) - verdictOf(graph.nodes[a], chip));
    title = notTaken();
    say = i => ({no: 'refused', crash: 'crashes', fall: 'falls back'})[VERDICTS[verdictOf(graph.nodes[i], chip)][0]] || 'warning';
  } else {
    const m = figure[mode] ? mode : data.chips.some(c => c.ms !== undefined) ? 'cost' : null;
    if (m) {
      const value = i => { const x = figure[m](graph.nodes[i]); return x === 'nan' ? Infinity : x === undefined || x === null ? -1 : x; };
      list = all.filter(i => value(i) > 0).sort((a, b) => value(b) - value(a));
      title = m === 'cost' ? 'Longest on ' + data.chips[chip].name + ', estimated' : m === 'time' ? 'Longest, measured' : 'Farthest apart';
      say = i => m === 'error' ? told2(figure[m](graph.nodes[i])) : micro(value(i));
    }
  }
  const top = list.slice(0, mode === 'verdict' ? 25 : 10);
  top.title = title + (list.length > top.length ? ' (' + top.length + ' of ' + list.length + ')' : '');
  top.say = say;
  return top;
}

function details() {
  $('details').replaceChildren(picked === null ? overview() : typeof picked === 'number' ? about(picked) : aboutBlock(picked));
  $('back').hidden = picked === null;
}

function fillTable() {
  const t = $('table'), shown = Object.keys(MODES).filter(m => figure[m] && graph.nodes.some(n => { const x = figure[m](n); return x !== undefined && x !== null; }));
  const head = el('tr', {}, el('th', {scope: 'col'}, 'operation'), el('th', {scope: 'col'}, 'shape'), data.verdicts ? el('th', {scope: 'col'}, data.chips[chip].name) : null);
  shown.forEach(m => head.append(el('th', {scope: 'col'}, MODES[m])));
  const body = el('tbody', {});
  graph.nodes.forEach((n, i) => {
    const r = el('tr', {}, el('td', {}, jump(i)), el('td', {}, short((n.t || [''])[0])), data.verdicts ? el('td', {}, VERDICTS[verdictOf(n, chip)][1]) : null);
    shown.forEach(m => { const x = figure[m](n); r.append(el('td', {class: 'n'}, x === undefined || x === null ? '' : m === 'error' ? told2(x) : micro(x))); });
    body.append(r);
  });
  t.replaceChildren(el('thead', {}, head), body);
}

// ---- search ----------------------------------------------------------------------------------------------------------

function find(text) {
  const words = text.toLowerCase().replace(/\u00d7/g, 'x').split(/\s+/).filter(Boolean);
  hits = words.length ? graph.nodes.map((n, i) => i).filter(i => words.every(w => graph.nodes[i].s.includes(w))) : [];
  hitSet = new Set(hits);
  hitAt = -1;
  $('hits').textContent = words.length ? hits.length + ' of ' + graph.nodes.length : '';
  view.clear();
}

function nextHit(step) {
  if (!hits.length) return;
  hitAt = (hitAt + step + hits.length) % hits.length;
  $('hits').textContent = hitAt + 1 + ' / ' + hits.length;
  go(hits[hitAt]);
}

function isHit(item) {
  if (!hits.length) return false;
  if (!item.group) return hitSet.has(item.node);
  return !item.group.open && hits.some(i => i >= item.group.first && i <= item.group.last);
}

// ---- the keyboard ----------------------------------------------------------------------------------------------------

function step(key) {
  const items = view.plan.items, now = picked === null ? null : boxOf(picked);
  if (!now) return pick(whatOf(items[0]));
  const cx = now.x + now.w / 2, cy = now.y + now.h / 2;
  let best = null, least = Infinity;
  for (const i of items) {
    if (i === now) continue;
    const dx = i.x + i.w / 2 - cx, dy = i.y + Math.min(i.h, 60) / 2 - (now.y + Math.min(now.h, 60) / 2);
    const along = key === 'ArrowDown' ? dy : key === 'ArrowUp' ? -dy : key === 'ArrowRight' ? dx : -dx;
    const across = key === 'ArrowDown' || key === 'ArrowUp' ? Math.abs(dx) : Math.abs(dy);
    if (along < 4) continue;
    const cost = along + 2.5 * across;
    if (cost < least) { least = cost; best = i; }
  }
  if (best) { pick(whatOf(best)); view.reveal(best); }
}
const whatOf = item => item.group || item.node;

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const k = event.key;
  if (k.startsWith('Arrow')) event.shiftKey ? view.pan(k === 'ArrowLeft' ? 80 : k === 'ArrowRight' ? -80 : 0, k === 'ArrowUp' ? 80 : k === 'ArrowDown' ? -80 : 0) : step(k);
  else if (k === '+' || k === '=') view.zoom(1.25);
  else if (k === '-' || k === '_') view.zoom(0.8);
  else if (k === '0') view.fit();
  else if (k === '9') view.whole();
  else if (k === 'Enter' || k === ' ') {
    if (picked === null) return;
    if (typeof picked === 'number') $('details').querySelector('h2').focus();
    else { toggle(picked); details(); }
  } else if (k === 'Backspace') { // leaves a block and folds it
    const b = picked === null ? null : typeof picked === 'number' ? tree.home[picked] : picked.parent;
    if (!b || !b.parent) return;
    pick(b); toggle(b); details();
  } else if (k === 'Escape') pick(null);
  else return;
  event.preventDefault();
}

// ---- the page --------------------------------------------------------------------------------------------------------

function prepare(g) {
  if (g.ready) return;
  g.ready = true;
  g.nodes.forEach(n => { n.s = (n.o + ' ' + n.n + ' ' + (n.t || []).join(' ') + ' ' + (n.t || []).map(short).join(' ').replace(/\u00d7/g, 'x') + ' ' + (n.w || []).map(w => w[1]).join(' ')).toLowerCase(); });
}

function measure() {
  graph.most = {}; graph.total = {};
  const before = mode;
  for (mode of ['cost', 'time', 'error']) {
    const all = graph.nodes.map(n => figure[mode](n)).filter(x => typeof x === 'number');
    graph.most[mode] = Math.max(0, ...all);
    graph.total[mode] = all.reduce((s, x) => s + x, 0);
  }
  mode = before;
}

function open(index) {
  graph = data.graphs[index];
  prepare(graph);
  users = graph.nodes.map(() => []);
  graph.nodes.forEach((n, v) => { for (const u of new Set(n.i.map(x => x[0]))) users[u].push(v); });
  tree = makeTree(graph.nodes, graph.blocks);
  const few = graph.nodes.length <= 70;
  tree.blocks.forEach(b => { b.open = few; });
  picked = null; hits = []; hitSet = new Set();
  $('find').value = ''; $('hits').textContent = '';
  $('which').value = String(index);
  $('fold').hidden = $('unfold').hidden = !tree.blocks.length;
  measure();
  view.picked = null;
  view.lit = null;
  view.set(layout(tree, graph.nodes, users));
  view.fit();
  legend(); details();
  if ($('list').open) fillTable();
}

function recolour() {
  measure(); legend(); view.clear(); details();
  $('chip').parentElement.hidden = !(data.chips.length && (mode === 'verdict' || mode === 'cost'));
  if ($('list').open) fillTable();
}

function start() {
  document.title = data.title + ' - ' + data.mode;
  $('title').textContent = data.title;
  $('lead').textContent = data.lead;
  view = new View($('stage'), {title, lines, classes, hit: isHit, press});
  const any = f => data.graphs.some(g => g.nodes.some(f));
  const has = {kind: true, verdict: data.verdicts, cost: any(n => n.ms), time: any(n => n.us !== undefined), error: any(n => n.d)};
  for (const m in MODES) if (has[m]) $('mode').append(el('option', {value: m}, MODES[m]));
  data.chips.forEach((c, i) => $('chip').append(el('option', {value: i}, c.name)));
  data.graphs.forEach((g, i) => $('which').append(el('option', {value: i}, g.name)));
  $('which').parentElement.hidden = data.graphs.length < 2;
  mode = has[data.colour] ? data.colour : 'kind';
  chip = Math.max(0, data.chips.findIndex(c => c.worst === Math.max(...data.chips.map(x => x.worst))));
  $('mode').value = mode; $('chip').value = String(chip);
  $('chip').parentElement.hidden = !(data.chips.length && (mode === 'verdict' || mode === 'cost'));
  $('mode').onchange = () => { mode = $('mode').value; recolour(); };
  $('chip').onchange = () => { chip = +$('chip').value; recolour(); };
  $('which').onchange = () => open(+$('which').value);
  $('find').oninput = () => find($('find').value);
  $('find').onkeydown = e => { if (e.key === 'Enter') { nextHit(e.shiftKey ? -1 : 1); e.preventDefault(); } else if (e.key === 'Escape') { $('find').value = ''; find(''); } };
  $('fold').onclick = () => { tree.blocks.forEach(b => { b.open = false; }); relayout(); view.fit(); };
  $('unfold').onclick = () => { tree.blocks.forEach(b => { b.open = true; }); relayout(); view.fit(); };
  $('in').onclick = () => view.zoom(1.3);
  $('out').onclick = () => view.zoom(1 / 1.3);
  $('fit').onclick = () => view.fit();
  $('back').onclick = () => pick(null);
  $('list').ontoggle = () => { if ($('list').open) fillTable(); };
  view.svg.addEventListener('keydown', key);
  document.addEventListener('keydown', e => { if (e.key === '/' && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) { $('find').focus(); e.preventDefault(); } });
  open(data.start);
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark('graph-painted')));
}
start();
