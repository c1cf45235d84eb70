// The page that interprets: what is typed, pasted or played goes to the server, word by word.

import {Connection} from "./connection.js";
import {Pane, transcript} from "./panes.js";

const $ = id => document.getElementById(id);
const GAP = /[\s\u2581]+/, SETTLE = 150;  // what separates words, as the server does; milliseconds
let models = [], most = 1, panes = [], inForce = [], asked = [], line = null, current = 0, playing = null, settling;

const connection = new Connection({
  welcome(greeting) {
    if (greeting.resumed) return;
    ({models, most_panes: most} = greeting);
    current = 0;
    if (panes.length) return change();  // another session, with the panes as they were
    panes = greeting.panes.map(pane);
    $("panes").replaceChildren(...panes.map(({node}) => node));
    inForce = panes;
    hold(greeting.panes);
    buttons();
  },
  event(message) {
    if (message.type === "step") step(message);
    else if (message.type === "panes") hold(message.panes);
    else refuse(message.text);
    const {waiting} = connection;
    $("waiting").textContent = waiting > 1 ? `${waiting} words wait` : "";
  },
  state(on, refused, again) {
    const why = refused ? ` (${refused})` : "";
    $("connection").textContent = on ? "connected" : again ? `not connected, trying again${why}` : `ended${why}; type to begin anew`;
    $("connection").classList.toggle("on", on);
  },
});

function tell(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

// panes

function pane(setting) {
  const own = new Pane(models, setting, {changed: change, closed: () => remove(own)});
  return own;
}

function buttons() {
  $("add").hidden = panes.length >= most;
  for (const {node} of panes) node.querySelector(".close").hidden = panes.length < 2;
}

function add() {
  const [{setting}] = panes, other = (setting.model + 1) % models.length;
  const own = pane(other === setting.model ? setting : {model: other, policy: "own", options: {}, dials: {}});
  panes = [...panes, own];
  $("panes").append(own.node);
  buttons();
  change();
  own.form.elements.policy.focus();
}

function remove(own) {
  panes = panes.filter(other => other !== own);
  own.node.remove();
  buttons();
  change();
  $("add").focus();
}

function change() {  // the choice of all panes, once the user has settled
  tell("");
  for (const {node} of panes) node.classList.add("changing");
  clearTimeout(settling);
  settling = setTimeout(() => {
    const settings = panes.map(({setting}) => setting);
    asked.push([key(settings), panes]);
    connection.say({type: "panes", panes: settings});
  }, SETTLE);
}

function key(settings) {  // equal for equal choices
  const sorted = values => Object.entries(values).sort();
  return JSON.stringify(settings.map(({model, policy, options, dials}) => [model, policy, sorted(options), sorted(dials)]));
}

function hold(settings) {  // this choice is in force now
  const at = asked.findLastIndex(([own]) => own === key(settings));
  if (at >= 0) inForce = asked.splice(0, at + 1).at(-1)[1];
  settings.forEach((setting, i) => inForce[i].holds(setting, !asked.length));
}

function refuse(text) {  // a choice makes no sense: show again what is in force
  asked.shift();
  panes = inForce;
  $("panes").replaceChildren(...panes.map(({node}) => node));
  for (const own of panes) own.use(own.inForce);
  hold(panes.map(({inForce}) => inForce));
  buttons();
  tell(text);
}

// what comes

function step(message) {
  if (message.sentence !== current || !line) {
    current = message.sentence;
    line = line && !line.textContent.trim() ? line : transcript($("source"));
    for (const own of inForce) own.sentence();
  }
  if (message.word) line.append(`${message.word} `);
  $("source").scrollTo(0, $("source").scrollHeight);
  message.panes.forEach((own, i) => inForce[i].step(message, own));
  if (message.ended === "long") tell("The sentence reached the most words that are possible: ended here.");
  if (message.ended === "failed") tell("The model failed on this sentence.");
}

// what goes

function feed(text) {  // whole words; a line end ends a sentence
  text.split(/\r\n|[\r\n]/).forEach((part, i) => {
    if (i) connection.say({type: "end"});
    for (const text of part.split(GAP)) if (text) connection.say({type: "words", text});
  });
}

function typed() {  // all words but the one that is being typed
  const {value} = $("word"), last = value.search(/[^\s\u2581]*$/);
  if (!last) return;
  feed(value.slice(0, last));
  $("word").value = value.slice(last);
}

function end() {
  feed(`${$("word").value}\n`);
  $("word").value = "";
  $("word").focus();
}

$("word").oninput = event => event.isComposing || typed();
$("word").addEventListener("compositionend", typed);
$("word").onkeydown = event => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  end();
};
$("word").onpaste = event => {
  const text = event.clipboardData.getData("text");
  if (!/\s/.test(text)) return;
  event.preventDefault();
  const whole = $("word").value + text, last = whole.search(/[^\s\u2581]*$/);
  feed(whole.slice(0, last));
  $("word").value = whole.slice(last);
};
$("end").onclick = end;
$("add").onclick = add;

// playing

function play() {
  const words = $("text").value.split(/(\r\n|[\r\n])|[\s\u2581]+/).filter(Boolean);
  if (!words.length) return $("text").focus();
  let next = 0, due = performance.now();
  const tick = () => {
    while (next < words.length && /[\r\n]/.test(words[next])) {
      connection.say({type: "end"});
      next++;
    }
    if (next === words.length) return stop();
    connection.say({type: "words", text: words[next++]});
    due += 60000 / Math.max(1, Number($("rate").value) || 150);
    playing = setTimeout(tick, Math.max(0, due - performance.now()));
  };
  words.push("\n");
  playing = setTimeout(tick, 0);
  [$("play").disabled, $("stop").disabled] = [true, false];
  $("stop").focus();
}

function stop() {
  clearTimeout(playing);
  playing = null;
  connection.say({type: "end"});
  const back = document.activeElement === $("stop");
  [$("play").disabled, $("stop").disabled] = [false, true];
  if (back) $("play").focus();
}

$("play").onclick = play;
$("stop").onclick = stop;
