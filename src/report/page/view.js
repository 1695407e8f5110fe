// Owns the drawing. Only the visible part of the layout is in the SVG. Mouse, touch and keyboard pan and zoom.

const SVG = 'http://www.w3.org/2000/svg';
const FAR = 0.34; // below this scale text is unreadable and is not drawn

function el(name, attributes, ...kids) {
  const e = document.createElement(name);
  for (const k in attributes || {}) {
    if (k === 'on') e.addEventListener('click', attributes[k]);
    else if (attributes[k] !== null && attributes[k] !== undefined) e.setAttribute(k, attributes[k]);
  }
  for (const kid of kids) if (kid !== null && kid !== undefined) e.append(kid);
  return e;
}

function svg(name, attributes, text) {
  const e = document.createElementNS(SVG, name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}

// Returns as much of the beginning and the end of a text as fits into `room` pixels in the given font, or the whole text.
const pen = document.createElement('canvas').getContext('2d');
function wide(s, font) {
  pen.font = font + ' system-ui, sans-serif';
  return pen.measureText(s).width;
}
function cut(s, room, font) {
  for (let most = s.length, out = s; ; out = s.slice(0, most - (most >> 1)) + '\u2026' + s.slice(s.length - (most >> 1)))
    if (wide(out, font) <= room || --most < 2) return out;
}

class View {
  constructor(stage, hooks) {
    this.stage = stage;
    this.hooks = hooks; // title(item), lines(item), classes(item), pick(item), toggle(group)
    this.svg = stage.querySelector('#graph');
    this.world = svg('g', {});
    this.groupLayers = [0, 1, 2, 3].map(() => svg('g', {})); // open blocks, with the outer ones at the bottom
    this.edgeLayer = svg('g', {});
    this.itemLayer = svg('g', {});
    this.world.append(...this.groupLayers, this.edgeLayer, this.itemLayer);
    this.svg.append(this.world);
    this.shownItems = new Map();
    this.shownEdges = new Map();
    this.x = 0; this.y = 0; this.scale = 1;
    this.picked = null;
    this.pointers = new Map();
    this.listen();
  }

  set(plan) {
    this.plan = plan;
    this.clear();
  }

  clear() {
    for (const layer of [this.itemLayer, ...this.groupLayers]) layer.replaceChildren();
    this.edgeLayer.replaceChildren();
    this.shownItems.clear();
    this.shownEdges.clear();
    this.draw();
  }

  size() { const r = this.svg.getBoundingClientRect(); return {w: r.width || 1, h: r.height || 1}; }

  // Shows the whole drawing or, if it would be unreadable, its top.
  fit() {
    const s = this.size();
    const whole = Math.min(s.w / (this.plan.w + 20), s.h / (this.plan.h + 20), 1.2);
    const wide = Math.min(s.w / (this.plan.w + 20), 1);
    this.scale = whole >= 0.55 ? whole : Math.max(wide, 0.55);
    this.x = (s.w - this.plan.w * this.scale) / 2;
    this.y = whole >= 0.55 ? (s.h - this.plan.h * this.scale) / 2 : 10;
    if (this.plan.w * this.scale > s.w) { // centres the first item of a drawing that is too wide
      const first = this.plan.items[0];
      this.x = s.w / 2 - (first.x + first.w / 2) * this.scale;
    }
    this.draw();
  }

  whole() {
    const s = this.size();
    this.scale = Math.min(s.w / (this.plan.w + 20), s.h / (this.plan.h + 20), 1.2);
    this.x = (s.w - this.plan.w * this.scale) / 2;
    this.y = (s.h - this.plan.h * this.scale) / 2;
    this.draw();
  }

  zoom(factor, cx, cy) {
    const s = this.size();
    if (cx === undefined) { cx = s.w / 2; cy = s.h / 2; }
    const next = Math.min(3, Math.max(0.02, this.scale * factor));
    this.x = cx - (cx - this.x) * next / this.scale;
    this.y = cy - (cy - this.y) * next / this.scale;
    this.scale = next;
    this.draw();
  }

  pan(dx, dy) { this.x += dx; this.y += dy; this.draw(); }

  center(item) {
    const s = this.size();
    if (this.scale < 0.6) this.scale = 0.9;
    this.x = s.w / 2 - (item.x + item.w / 2) * this.scale;
    this.y = s.h / 2 - (item.y + Math.min(item.h, 120) / 2) * this.scale;
    this.draw();
  }

  // Scrolls as little as needed to make an item visible.
  reveal(item) {
    const s = this.size(), m = 30;
    const x0 = item.x * this.scale + this.x, y0 = item.y * this.scale + this.y;
    const x1 = x0 + item.w * this.scale, y1 = y0 + Math.min(item.h, 120) * this.scale;
    if (x0 < m || y0 < m || x1 > s.w - m || y1 > s.h - m) this.center(item);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    if (!this.plan) return;
    const s = this.size(), margin = 120 / this.scale;
    const left = -this.x / this.scale - margin, top = -this.y / this.scale - margin;
    const right = left + s.w / this.scale + 2 * margin, bottom = top + s.h / this.scale + 2 * margin;
    const sees = (x, y, r, b) => x < right && r > left && y < bottom && b > top;
    const sync = (all, shown, layer, box, make) => {
      for (const o of all) {
        const visible = box(o), at = shown.get(o);
        if (visible && !at) { const e = make(o); shown.set(o, e); layer(o).append(e); }
        else if (!visible && at) { at.remove(); shown.delete(o); }
      }
    };
    sync(this.plan.edges, this.shownEdges, () => this.edgeLayer, e => sees(e.x, e.y, e.r, e.b), e => this.makeEdge(e));
    const layerOf = i => i.group && i.group.open ? this.groupLayers[Math.min(3, i.group.depth - 1)] : this.itemLayer;
    sync(this.plan.items, this.shownItems, layerOf, i => sees(i.x, i.y, i.x + i.w, i.y + i.h), i => this.makeItem(i));
    this.world.setAttribute('transform', 'translate(' + this.x.toFixed(2) + ' ' + this.y.toFixed(2) + ') scale(' + this.scale.toFixed(4) + ')');
    this.world.classList.toggle('far', this.scale < FAR);
  }

  makeEdge(e) {
    const path = svg('path', {d: e.d, class: 'edge'});
    if (this.lit && this.lit(e)) path.classList.add('lit');
    return path;
  }

  makeItem(item) {
    const g = svg('g', {transform: 'translate(' + item.x.toFixed(1) + ' ' + item.y.toFixed(1) + ')', id: this.idOf(item), role: 'img', 'aria-label': this.hooks.title(item)});
    const look = this.hooks.classes(item), folded = item.group && !item.group.open;
    g.setAttribute('class', 'item ' + look.kind + (item.group ? (folded ? ' group folded' : ' group open') : '') +
      (item === this.picked ? ' picked' : '') + (this.hooks.hit(item) ? ' hit' : ''));
    if (folded) g.append(svg('rect', {class: 'back', x: 5, y: 5, width: item.w, height: item.h, rx: 9}));
    g.append(svg('rect', {class: 'box', width: item.w, height: item.h, rx: item.group ? 9 : 7}));
    const lines = this.hooks.lines(item), open = item.group && item.group.open;
    const right = look.badge ? wide(look.badge, '700 12px') + 8 : open ? wide('\u2212 fold', '700 12px') + 8 : 0;
    lines.forEach((l, i) => {
      const t = svg('text', {x: 10, y: open ? 20 : 18 + i * 15.5, class: i ? '' : 'op'}, cut(l, item.w - 20 - (i ? 0 : right), i ? '12px' : '650 13px'));
      g.append(t);
    });
    if (look.badge) g.append(svg('text', {x: item.w - 9, y: 18, class: 'badge', 'text-anchor': 'end'}, look.badge));
    if (item.group) g.append(svg('text', {x: item.w - 9, y: item.group.open ? 20 : item.h - 9, class: 'badge', 'text-anchor': 'end'}, item.group.open ? '\u2212 fold' : '+'));
    if (look.parts) {
      let x = 9;
      for (const [kind, share] of look.parts) {
        const w = share * (item.w - 34);
        g.append(svg('rect', {class: 'part ' + kind, x: x.toFixed(1), y: item.h - 13, width: w.toFixed(1), height: 6}));
        x += w;
      }
    }
    g.append(svg('title', {}, this.hooks.title(item)));
    g.itemOf = item;
    return g;
  }

  idOf(item) { return item.group ? 'b' + item.group.id : 'n' + item.node; }

  pick(item) {
    const old = this.picked && this.shownItems.get(this.picked);
    if (old) old.classList.remove('picked');
    this.picked = item;
    const now = item && this.shownItems.get(item);
    if (now) now.classList.add('picked');
    if (item) this.svg.setAttribute('aria-activedescendant', this.idOf(item));
    else this.svg.removeAttribute('aria-activedescendant');
  }

  light(test) {
    this.lit = test;
    for (const [e, path] of this.shownEdges) path.classList.toggle('lit', !!(test && test(e)));
  }

  place(event) {
    const r = this.svg.getBoundingClientRect();
    return {x: event.clientX - r.left, y: event.clientY - r.top};
  }

  listen() {
    const s = this.svg;
    s.addEventListener('wheel', event => {
      event.preventDefault();
      const p = this.place(event), unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      if (event.shiftKey) this.pan(-(event.deltaX || event.deltaY) * unit, 0);
      else this.zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * unit)) * (event.ctrlKey ? 0.008 : 0.0018)), p.x, p.y);
    }, {passive: false});
    s.addEventListener('pointerdown', event => {
      if (event.button) return;
      this.pointers.set(event.pointerId, this.place(event));
      this.moved = 0;
      const target = event.target.closest && event.target.closest('.item');
      this.pressed = target ? target.itemOf : null;
    });
    s.addEventListener('pointermove', event => {
      const before = this.pointers.get(event.pointerId);
      if (!before) return;
      const now = this.place(event);
      this.moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (this.moved > 6 && !s.hasPointerCapture(event.pointerId)) { s.setPointerCapture(event.pointerId); s.classList.add('held'); }
      if (this.pointers.size === 1) this.pan(now.x - before.x, now.y - before.y);
      if (this.pointers.size === 2) {
        const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
        const a = Math.hypot(before.x - other.x, before.y - other.y), b = Math.hypot(now.x - other.x, now.y - other.y);
        this.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
        if (a > 4) this.zoom(b / a, (now.x + other.x) / 2, (now.y + other.y) / 2);
      }
      this.pointers.set(event.pointerId, now);
    });
    const end = event => {
      if (!this.pointers.delete(event.pointerId)) return;
      s.classList.remove('held');
      if (event.type === 'pointerup' && this.moved <= 6 && !this.pointers.size) this.hooks.press(this.pressed, event);
    };
    s.addEventListener('pointerup', end);
    s.addEventListener('pointercancel', end);
    window.addEventListener('resize', () => this.draw());
  }
}
