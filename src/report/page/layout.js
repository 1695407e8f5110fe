'use strict';
// Owns the layout: a layered drawing of a graph with folded and open blocks. Each open block is laid out separately and
// is then a single box in the enclosing block. Edges from one value share a trunk. The program's order of operations is a
// topological order, and each block is a range of that order, so there are no cycles on any level.

const NODE_W = 178, NODE_H = 54, FOLD_H = 54, GAP_X = 22, GAP_Y = 34, PAD = 14, HEAD = 30;

// Makes the tree of blocks over nodes 0..n-1. The `kids` of a block are its nodes (numbers) and blocks (objects), in order.
function makeTree(nodes, blocks) {
  const root = {id: -1, first: 0, last: nodes.length - 1, kids: [], parent: null, open: true, depth: 0};
  const made = blocks.map((b, i) => ({id: i, first: b.f, last: b.l, name: b.n, like: b.k, kids: [], parent: null, open: false, depth: 1}));
  const home = new Array(nodes.length).fill(root);
  made.forEach((b, i) => { b.parent = blocks[i].p < 0 ? root : made[blocks[i].p]; b.depth = b.parent.depth + 1; });
  made.slice().sort((a, b) => a.depth - b.depth).forEach(b => { for (let i = b.first; i <= b.last; i++) home[i] = b; });
  const seen = new Set();
  const put = b => { if (b.parent && !seen.has(b)) { seen.add(b); put(b.parent); b.parent.kids.push(b); } };
  for (let i = 0; i < nodes.length; i++) { put(home[i]); home[i].kids.push(i); }
  return {root, blocks: made, home};
}

// Returns the child of `group` that contains node i, which is i itself or a block.
function childOf(tree, group, i) {
  let b = tree.home[i];
  if (b === group) return i;
  while (b && b.parent !== group) b = b.parent;
  return b; // null if node i is outside of the group
}

// Sets the positions of the cells of one layer as close to the wanted ones as their order and distances allow (neighbours
// that would overlap are pooled).
function settle(cells) {
  const pools = [];
  let before = 0;
  cells.forEach((c, i) => {
    if (i) before += cells[i - 1].w / 2 + c.w / 2 + (c.slim && cells[i - 1].slim ? 10 : GAP_X);
    c.shift = before;
    pools.push({sum: (c.want - before) * c.pull, pull: c.pull, from: i, to: i});
    while (pools.length > 1 && pools[pools.length - 1].sum / pools[pools.length - 1].pull < pools[pools.length - 2].sum / pools[pools.length - 2].pull) {
      const a = pools.pop(), b = pools[pools.length - 1];
      b.sum += a.sum; b.pull += a.pull; b.to = a.to;
    }
  });
  for (const p of pools) for (let i = p.from; i <= p.to; i++) cells[i].x = p.sum / p.pull + cells[i].shift;
}

function layoutGroup(tree, nodes, users, group) {
  const cells = [], cellOf = new Map(), nets = new Map();
  const add = (key, what) => {
    const c = Object.assign({key, ins: [], outs: [], layer: 0, x: 0, want: 0, pull: 1, slim: false}, what);
    cells.push(c); cellOf.set(key, c);
    return c;
  };
  for (const k of group.kids) {
    if (typeof k === 'number') add(k, {w: NODE_W, h: NODE_H, node: k});
    else if (k.open) { const inner = layoutGroup(tree, nodes, users, k); add(k, {w: inner.w, h: inner.h, group: k, inner}); }
    else add(k, {w: NODE_W + 12, h: FOLD_H, group: k});
  }
  // Maps each source value to the cells that read it (nets). Values enter and leave the block through ports.
  const read = (u, cell) => { const n = nets.get(u) || nets.set(u, new Set()).get(u); n.add(cell); };
  for (let v = group.first; v <= group.last; v++)
    for (const [u] of nodes[v].i) {
      const to = cellOf.get(childOf(tree, group, v));
      const inside = u >= group.first && u <= group.last;
      const from = inside ? cellOf.get(childOf(tree, group, u)) : cellOf.get('in' + u) || add('in' + u, {w: 2, h: 0, slim: true, port: u, entry: true});
      if (from !== to) read(u, to);
    }
  if (group.parent)
    for (let u = group.first; u <= group.last; u++)
      if (users[u].some(v => v < group.first || v > group.last)) read(u, add('out' + u, {w: 2, h: 0, slim: true, port: u, exit: true}));
  const sourceOf = u => u >= group.first && u <= group.last ? cellOf.get(childOf(tree, group, u)) : cellOf.get('in' + u);
  for (const [u, targets] of nets) for (const t of targets) { const s = sourceOf(u); s.outs.push(t); t.ins.push(s); }

  // Layers: each cell is in the earliest possible layer, or in the latest possible one if it has no predecessors.
  const order = cells.filter(c => c.entry).concat(cells.filter(c => !c.entry && !c.exit), cells.filter(c => c.exit));
  for (const c of order) for (const t of c.outs) t.layer = Math.max(t.layer, c.layer + 1);
  const deepest = Math.max(0, ...cells.filter(c => !c.exit).map(c => c.layer));
  for (const c of cells) if (c.exit) c.layer = deepest + 1;
  for (let i = order.length - 1; i >= 0; i--) {
    const c = order[i];
    if (!c.entry && !c.exit && !c.ins.length && c.outs.length) c.layer = Math.max(0, Math.min(...c.outs.map(t => t.layer)) - 1);
  }
  const layers = [];
  const place = c => { (layers[c.layer] = layers[c.layer] || []).push(c); };
  for (const c of order) place(c);

  // Trunks: a value that is read further below has a narrow cell in each layer between.
  const links = [];
  for (const [u, targets] of nets) {
    const trunk = [sourceOf(u)];
    const far = Math.max(...[...targets].map(t => t.layer));
    for (let l = trunk[0].layer + 1; l < far; l++) {
      const d = {key: 'd', w: 2, h: 0, slim: true, layer: l, x: 0, want: 0, pull: 3, ins: [], outs: [], dummy: true};
      place(d); trunk.push(d);
      links.push({u, a: trunk[trunk.length - 2], b: d, trunk: true});
    }
    for (const t of targets) links.push({u, a: trunk[Math.max(0, t.layer - 1 - trunk[0].layer)], b: t});
  }
  for (const l of layers) if (!l) throw new Error('a layer is empty');
  const up = new Map(), down = new Map();
  const push = (m, k, v) => { const l = m.get(k); if (l) l.push(v); else m.set(k, [v]); };
  for (const l of links) { push(up, l.b, l.a); push(down, l.a, l.b); }

  // Order: cells of a layer are sorted by the mean of their neighbours' positions, alternately downwards and upwards.
  const rank = l => l.forEach((c, i) => { c.at = i; });
  layers.forEach(rank);
  const mean = (c, m) => { const l = m.get(c); return l ? l.reduce((s, x) => s + x.at, 0) / l.length : c.at; };
  for (let round = 0; round < 6; round++) {
    const m = round % 2 ? down : up;
    for (const l of round % 2 ? layers.slice().reverse() : layers) {
      if (l.length < 2) continue;
      l.forEach(c => { c.mid = mean(c, m); });
      l.sort((a, b) => a.mid - b.mid || a.at - b.at);
      rank(l);
    }
  }
  // Positions.
  for (const l of layers) { l.forEach(c => { c.want = 0; }); settle(l); }
  for (let round = 0; round < 10; round++) {
    for (const l of round % 2 ? layers.slice().reverse() : layers) {
      for (const c of l) {
        const near = (round < 8 ? (round % 2 ? down : up).get(c) : (up.get(c) || []).concat(down.get(c) || [])) || [c];
        c.want = near.reduce((s, x) => s + x.x, 0) / near.length;
      }
      settle(l);
    }
  }
  let left = Infinity, right = -Infinity;
  for (const l of layers) for (const c of l) { left = Math.min(left, c.x - c.w / 2); right = Math.max(right, c.x + c.w / 2); }
  const inner = !!group.parent;
  const w = Math.max(right - left + 2 * PAD, inner ? NODE_W + 2 * PAD : 0);
  const shift = PAD - left + Math.max(0, (w - (right - left + 2 * PAD)) / 2);
  let y = inner ? HEAD : PAD;
  layers.forEach((l, i) => {
    const h = Math.max(...l.map(c => c.h));
    for (const c of l) {
      c.x += shift;
      if (c.dummy) c.h = h; // a trunk passes its neighbours in a straight line
      c.y = inner && c.entry ? 0 : y + (h - c.h) / 2;
    }
    y += h + (i + 1 < layers.length ? (h ? GAP_Y + Math.min(26, l.length * 1.5) : i ? GAP_Y : 12) : 0);
  });
  const h = y + (inner ? 4 : PAD);
  for (const c of cells) if (inner && c.exit) c.y = h;
  return {w, h, cells, links, ports: cellOf};
}

// Returns the boxes and edges of all visible nodes and blocks, in the drawing's coordinates.
function layout(tree, nodes, users) {
  const items = [], edges = [];
  // Returns whether a branch ends in a node for which `test` is true, or in a block or port that leads to one.
  const reads = (l, test) => users[l.u].some(v => test(v) && (l.b.node === undefined ? !l.b.group || (v >= l.b.group.first && v <= l.b.group.last) : v === l.b.node));
  const walk = (plan, dx, dy) => {
    for (const c of plan.cells) {
      if (c.port !== undefined) continue;
      const x = dx + c.x - c.w / 2, y = dy + c.y;
      if (c.node !== undefined) items.push({x, y, w: c.w, h: c.h, node: c.node});
      else {
        items.push({x, y, w: c.w, h: c.h, group: c.group});
        if (c.inner) walk(c.inner, x, y);
      }
    }
    const nets = new Map();
    for (const l of plan.links) {
      const from = l.a.inner && l.a.inner.ports.get('out' + l.u), to = l.b.inner && l.b.inner.ports.get('in' + l.u);
      const x0 = dx + (from ? l.a.x - l.a.w / 2 + from.x : l.a.x), y0 = dy + l.a.y + l.a.h;
      const x1 = dx + (to ? l.b.x - l.b.w / 2 + to.x : l.b.x), y1 = dy + l.b.y;
      const mid = (y0 + y1) / 2;
      const d = 'M' + x0.toFixed(1) + ' ' + y0.toFixed(1) + (Math.abs(x0 - x1) < 0.6 ? 'V' + y1.toFixed(1)
        : 'C' + x0.toFixed(1) + ' ' + mid.toFixed(1) + ' ' + x1.toFixed(1) + ' ' + mid.toFixed(1) + ' ' + x1.toFixed(1) + ' ' + y1.toFixed(1));
      const key = l.u;
      let e = l.trunk ? nets.get(key) : null;
      if (!e) {
        e = {u: l.u, to: l.trunk ? null : l.b, into: test => reads(l, test), d: '', x: Infinity, y: Infinity, r: -Infinity, b: -Infinity};
        if (l.trunk) nets.set(key, e);
        edges.push(e);
      }
      e.d += d;
      e.x = Math.min(e.x, x0, x1); e.r = Math.max(e.r, x0, x1); e.y = Math.min(e.y, y0); e.b = Math.max(e.b, y1);
      if (l.b.dummy && l.b.h) { e.d += 'V' + (y1 + l.b.h).toFixed(1); e.b = Math.max(e.b, y1 + l.b.h); }
    }
  };
  const plan = layoutGroup(tree, nodes, users, tree.root);
  walk(plan, 0, 0);
  return {w: plan.w, h: plan.h, items, edges};
}
