// Plays sentences back, step by step, with the attention of all heads.

import {Path, make, short, width} from "./path.js";

const $ = id => document.getElementById(id);
const {heads: wanted, sentences} = JSON.parse($("data").textContent);
const PAUSE = 700;  // milliseconds of a step
const path = new Path($("grid"));
let sentence, step = 0, timer = null;

function words(list, pieces) {  // a span for each unit; ▁ at the beginning of a subword is a space
  list.replaceChildren(...pieces.map((piece, i) => {
    const span = document.createElement("span");
    span.textContent = (i ? sentence.gap : "") + piece.replaceAll("▁", i ? " " : "");
    return span;
  }));
}

function choose(number) {
  pause();
  sentence = sentences[number];
  sentence.bytes ??= Uint8Array.from(atob(sentence.weights), c => c.charCodeAt(0));
  const before = $("heads").selectedIndex, {names} = sentence, union = names.length > 1;
  $("heads").replaceChildren(...[...(union ? [sentence.union] : []), ...names].map(name => new Option(name)));
  const start = wanted === "each" && union ? 1 : 0;
  $("heads").selectedIndex = Math.min(before < 0 ? start : before, $("heads").length - 1);
  const eos = sentence.gap ? sentence.source.at(-1) : " " + sentence.source.at(-1);
  words($("source"), [...sentence.source.slice(0, -1), eos]);
  words($("written"), sentence.target);
  if (!sentence.target.length) $("written").textContent = "(nothing was written)";
  $("time").max = sentence.steps.length - 1;
  $("stops").hidden = !sentence.stops.length;
  step = sentence.steps.length - 1;
  draw();
}

function shownHeads() {
  const {names} = sentence, chosen = $("heads").selectedIndex - (names.length > 1 ? 1 : 0);
  return chosen < 0 ? names.map((_, head) => head) : [chosen];
}

function draw() {
  const {source, target, delays} = sentence, heads = shownHeads();
  const room = $("grid").clientWidth - Math.max(0, ...target.map(width)) - .71 * width(source.at(-1)) - 30;
  path.size = Math.max(20, Math.min(36, room / source.length));
  path.clear();
  for (const name of source) path.column(name);
  let last = null;
  target.forEach((name, i) => { last = mark(path.row(name, delays[i]), i, heads, last); });
  path.fit();
  show();
}

function mark({lines, marks}, i, heads, last) {  // a row; returns where its furthest head stopped
  const {source, target, bytes, stops} = sentence, {size} = path, r = .42 * size, cy = size / 2;
  const stood = stops.length ? [...new Set(heads.map(head => stops[i][head]))].filter(place => place > 0) : [];
  const here = stood.length ? path.middle(Math.max(...stood) - 1) : null;
  if (last !== null && here !== null) make("line", {x1: last, y1: cy - size, x2: here, y2: cy, class: "stop"}, lines);
  for (const place of stood) make("circle", {cx: path.middle(place - 1), cy, r, class: "hole"}, marks);
  source.forEach((unit, j) => {
    const weight = Math.max(...heads.map(head => bytes[(head * target.length + i) * source.length + j])) / 255;
    if (!weight) return;
    const dot = make("circle", {cx: path.middle(j), cy, r: r * Math.sqrt(weight), class: "look"}, marks);
    make("title", {}, dot, `${target[i]} ← ${unit}: ${weight.toFixed(2)}`);
  });
  for (const place of stood) make("circle", {cx: path.middle(place - 1), cy, r, class: "stop"}, marks);
  return here;
}

function show() {
  const {steps, source, target} = sentence, [read, written] = steps[step];
  const [readBefore, writtenBefore] = steps[Math.max(step - 1, 0)];
  const tell = (nodes, before, now) => [...nodes].forEach((node, i) => {
    node.classList.toggle("done", i < now);
    node.classList.toggle("now", i >= before && i < now);
  });
  tell($("source").children, readBefore, read);
  tell($("written").children, writtenBefore, written);
  path.show(read, written, readBefore, writtenBefore);
  path.open(written < target.length);
  $("time").value = step;
  $("back").disabled = step === 0;
  $("next").disabled = step === steps.length - 1;
  $("status").textContent =
    `step ${step}/${steps.length - 1}, read ${read}/${source.length}, written ${written}/${target.length}`;
}

function go(to) {
  step = Math.max(0, Math.min(to, sentence.steps.length - 1));
  show();
  path.follow();
}

function pause() {
  clearTimeout(timer);
  timer = null;
  $("play").textContent = "Play";
}

function play() {
  if (step === sentence.steps.length - 1) go(0);
  $("play").textContent = "Pause";
  const tick = () => {
    go(step + 1);
    if (step < sentence.steps.length - 1) wait(); else pause();
  };
  const wait = () => { timer = setTimeout(tick, PAUSE / $("speed").value); };
  wait();
}

const toggle = () => timer === null ? play() : pause();
const walk = to => { pause(); go(to); };
$("play").onclick = toggle;
$("back").onclick = () => walk(step - 1);
$("next").onclick = () => walk(step + 1);
$("time").oninput = event => walk(+event.target.value);
$("heads").onchange = draw;
$("sentence").onchange = event => choose(event.target.selectedIndex);
window.onresize = draw;
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input")) return;
  if (event.key === " " && event.target.matches("button")) return;
  const keys = {" ": toggle, ArrowRight: () => walk(step + 1), ArrowLeft: () => walk(step - 1),
    Home: () => walk(0), End: () => walk(Infinity)};
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
sentences.forEach(({line, source, gap}) => {
  const text = source.slice(0, -1).join(gap).replaceAll("▁", " ").trim();
  $("sentence").add(new Option(`${line}  ${short(text, 80)}`));
});
$("choice").hidden = sentences.length < 2;
choose(0);
