// Draws the path of reads and writes. Both pages use it: one lets it grow, one plays it back.

const LABEL = 18, MARGIN = 6;  // letters of a label; pixels beside it
const pen = document.createElement("canvas").getContext("2d");
let paths = 0;

export function make(name, attributes, parent, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(node, attributes);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
}

export function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
}

export function short(text, most) {  // the heavy ▁ that begins a word is an underscore
  const letters = [...text.replaceAll("▁", "_")];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text.replaceAll("▁", "_");
}

export function width(name) {
  pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(short(name, LABEL)).width;
}

export class Path {
  constructor(host, size = 26) {
    this.host = host;
    this.size = size;
    host.classList.add("path");
    const corner = document.createElement("div");
    corner.className = "corner";
    host.replaceChildren(corner);
    const svgs = ["columns", "rows", "cells"].map(name => make("svg", {class: name, "aria-hidden": true}, host));
    [this.top, this.left, this.cells] = svgs;
    this.rules = `rules-${++paths}`;  // a name in the page, for the pattern of the grid
    this.clear();
  }

  clear(begun = 0) {  // `begun` columns have been read before the first row
    for (const svg of [this.top, this.left, this.cells]) svg.replaceChildren();
    const {size} = this;
    const pattern = make("pattern", {id: this.rules, width: size, height: size, patternUnits: "userSpaceOnUse"}, make("defs", {}, this.cells));
    make("path", {d: `M${size} 0H0V${size}`, class: "rule"}, pattern);
    this.names = make("g", {}, this.top);
    this.labels = make("g", {}, this.left);
    [this.shades, this.grid, this.lines, this.marks] = ["g", "rect", "g", "g"].map(name => make(name, {}, this.cells));
    set(this.grid, {fill: `url(#${this.rules})`});
    this.front = [make("rect", {class: "read"}, this.shades), make("rect", {class: "new"}, this.shades), make("path", {class: "stair"}, this.lines)];
    this.edge = make("path", {class: "edge"}, this.lines);
    this.begun = begun;
    this.ends = null;
    this.columns = [];
    this.rows = [];
    this.above = this.beyond = 0;
    this.fit();
  }

  middle(i) {
    return (i + .5) * this.size;
  }

  column(name) {  // one more source word
    const x = this.middle(this.columns.length), slanted = .71 * width(name) + 8;  // at 45 degrees
    const label = make("text", {transform: `translate(${x} 0) rotate(-45)`}, this.names, short(name, LABEL));
    make("title", {}, label, name);
    this.columns.push(label);
    this.above = Math.max(this.above, slanted + 8);
    this.beyond = Math.max(this.beyond, x + slanted);
  }

  row(name, delay) {  // one more target word, after `delay` columns; returns groups to draw in
    const {size} = this, i = this.rows.length, before = i ? this.rows[i - 1].delay : this.begun;
    const place = {transform: `translate(0 ${i * size})`};
    const label = make("text", {x: -MARGIN, y: this.middle(i) + 4.5, "text-anchor": "end"}, this.labels, short(name, LABEL));
    make("title", {}, label, name);
    const groups = [this.shades, this.lines, this.marks].map(layer => make("g", place, layer));
    make("rect", {width: before * size, height: size, class: "read"}, groups[0]);
    make("rect", {x: before * size, width: (delay - before) * size, height: size, class: "new"}, groups[0]);
    make("path", {d: `M${before * size} 0H${delay * size}V${size}`, class: "stair"}, groups[1]);
    this.rows.push({label, groups, delay, wide: width(name) + 2 * MARGIN});
    return {lines: groups[1], marks: groups[2]};
  }

  bound(column, row) {  // a sentence ends after this many columns and rows
    this.ends = [column * this.size, row * this.size];
  }

  keep(count) {  // remove the rows after the first `count`
    for (const {label, groups} of this.rows.splice(count)) for (const node of [label, ...groups]) node.remove();
  }

  fit() {  // after columns and rows
    const {size} = this, wide = this.columns.length * size, high = (this.rows.length + 1) * size;
    const lines = wide && this.rows.length ? 1 : 0;
    const right = Math.max(wide, this.beyond) + 2;
    this.beside = Math.max(0, ...this.rows.map(({wide}) => wide));
    set(this.top, {width: right, height: this.above});
    set(this.names, {transform: `translate(0 ${this.above - 5})`});
    set(this.left, {width: this.beside, height: high});
    set(this.labels, {transform: `translate(${this.beside} 0)`});
    set(this.cells, {width: right, height: high});
    const [x, y] = this.ends ?? [];
    set(this.edge, {d: this.ends ? `M${x} 0V${high}M0 ${y}H${Math.max(wide, x + size)}` : ""});
    set(this.grid, {width: lines && wide + 1, height: lines && this.rows.length * size + 1});
  }

  show(read, written, readBefore = read, writtenBefore = written) {  // hide what comes later
    const tell = (nodes, before, now) => nodes.forEach((node, i) => {
      node.classList.toggle("ahead", i >= now);
      node.classList.toggle("now", i >= before && i < now);
    });
    tell(this.columns, readBefore, read);
    tell(this.rows.map(row => row.label), writtenBefore, written);
    this.rows.forEach(({groups}, i) => groups.forEach(group => group.classList.toggle("unseen", i >= written)));
    const {size} = this, y = written * size, start = (written ? this.rows[written - 1].delay : this.begun) * size;
    const end = Math.max(read * size, start), [before, fresh, line] = this.front;  // for the next row
    set(before, {y, width: start, height: size});
    set(fresh, {x: start, y, width: end - start, height: size});
    set(line, {d: `M${start} ${y}H${end}`});
    this.read = read;
    this.written = written;
  }

  open(is) {  // whether another row may follow
    for (const node of this.front) node.classList.toggle("unseen", !is);
  }

  follow() {  // scroll just enough to keep the newest cells in sight
    const {host, size} = this, x = (this.read + 1) * size, y = (this.written + 1) * size;
    const least = (to, now, room) => Math.min(Math.max(now, to - room), Math.max(0, to - 2 * size));
    const wide = host.clientWidth - this.beside, high = host.clientHeight - this.above;
    host.scrollTo(least(x, host.scrollLeft, wide), least(y, host.scrollTop, high));
  }
}
