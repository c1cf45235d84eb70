// The page that interprets: what is typed, pasted or played goes to the server, word by word.

import {Connection} from "./connection.js";
import {Pane, gap, initial, language, showUnits} from "./panes.js";
import {Record, save} from "./record.js";
import {Source, StreamPane} from "./stream.js";

const $ = id => document.getElementById(id);
const GAP = /[\s\u2581\x1c-\x1f\x85]+/;  // what separates words
const SETTLE = 150, MANY = 8, EXAMPLES = 3;  // milliseconds; words that wait; sentences
let models = [], most = 1, panes = [], inForce = [], former = [], asked = [], current = 0, settled = 0, stream = false, playing = null, settling = null, starter = null;
let longest = Infinity;  // letters of a word
let passing = false;  // whether the notice goes once its sentence has ended and the user goes on
let characters = false;  // whether each is a source word
const record = new Record(), source = new Source($("source"));

const connection = new Connection({
  words: text => split(text).flatMap(pieces),
  welcome(greeting, again, reason) {  // returns what to send first
    const turns = stream !== (greeting.sentences === "model");
    const same = !turns && JSON.stringify(models) === JSON.stringify(greeting.models);
    ({models, most_panes: most, longest_word: longest} = greeting);
    asked = [];
    clearTimeout(settling);
    settling = null;
    if (current) {  // an open sentence, which begins again
      source.again(settled);
      for (const own of inForce) own.again();
      record.again();
      current = settled = 0;
    }
    if (turns) turn();
    const why = reason ? `The session ended (${reason}); another one has begun` : "The connection was lost or the server restarted";
    const others = !same && panes.length ? "The server's models or policies have changed." : "";
    tell(`${again ? `${why}. The open sentence was typed again. ` : ""}${others}`);
    if (!same) introduce();
    if (panes.length && same) return [ask()];  // the panes as they were
    if (inForce.length) former = inForce;  // or else another connection was lost before
    inForce = [];
    panes = [];
    return [];
  },
  event(message) {
    if (message.type === "step") step(message);
    else if (message.type === "panes") hold(message.panes);
    else if (message.type === "notice") refuse(message.text);
    else tell(message.text);
    count();
  },
  state(on, reason, trying) {
    count();
    const then = trying ? "trying again" : "type to begin again";
    const text = on ? "connected" : reason ? `ended (${reason}); ${then}` : `not connected, ${then}`;
    if ($("connection").textContent !== text) $("connection").textContent = text;
    $("connection").classList.toggle("on", on);
    const why = models.length ? "What you type is kept, and translated once it is back." : "Or it refuses this page: its log says why.";
    if (!on && !reason) tell(`The server does not answer. ${why}`);
  },
});

function turn() {  // from sentences to a stream, or back
  stream = !stream;
  document.body.classList.toggle("stream", stream);
  $("source").dir = stream ? "auto" : "";
  $("text").placeholder = stream ? "any text; line ends count as spaces" : "one sentence per line";
  for (const node of document.querySelectorAll("[data-other]")) [node.textContent, node.dataset.other] = [node.dataset.other, node.textContent];
}

function introduce() {  // the languages, and sentences to try
  const pairs = new Set(models.map(({languages}) => languages.map(language).join(" to ")));
  [[characters]] = models.map(({characters}) => characters);
  source.gap = gap(characters);
  showUnits(document, characters);
  $("when").textContent = characters ? "Each character is read once it is typed." : "A word is read once a space follows it.";
  const [pair] = pairs, examples = [...new Set(models.flatMap(({examples}) => examples))];
  document.querySelector("h1").textContent = pairs.size === 1 ? `Live translation from ${pair}` : "Live translation";
  $("source-title").textContent = `Source: ${[...new Set(models.map(({languages}) => language(languages[0])))].join(", ")}`;
  for (const id of ["source", "word", "text"]) $(id).lang = models[0].languages[0];
  $("examples").hidden = $("or-try").hidden = !examples.length;
  $("examples").querySelectorAll("button").forEach(button => button.remove());
  $("examples").append(...examples.slice(0, EXAMPLES).map(example));
  typed();
}

function example(text) {
  const button = document.createElement("button");
  button.type = "button";
  button.dir = "auto";
  button.textContent = button.title = text;
  button.onclick = () => {
    stop();
    $("word").focus();
    play(text);
  };
  return button;
}

function count() {  // the words that wait
  $("waiting").hidden = connection.waiting < (connection.ready ? MANY : 1);
  $("count").textContent = connection.waiting;
  $("drop").hidden = connection.ready && connection.waiting <= connection.outstanding;  // all are sent
}

function tell(text, ofSentence = false) {
  passing = ofSentence;
  if ($("notice").textContent === text) return;  // or else it would be read out again
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

// panes

function pane(setting) {
  const own = new (stream ? StreamPane : Pane)(models, setting, {changed: change, rejected: tell, closed: () => remove(own)});
  return own;
}

function place(own) {  // show these panes
  panes = own;
  $("panes").replaceChildren(...panes.map(({node}) => node));
  for (const {box} of panes) box.scrollTo(0, box.scrollHeight);  // they were at the top again
  buttons();
}

function buttons() {
  $("add").hidden = panes.length >= most;
  for (const {node} of panes) node.querySelector(".close").hidden = panes.length < 2;
}

function add() {
  const [{setting}] = panes, other = (setting.model + 1) % models.length;
  const own = pane(other === setting.model ? setting : initial(models, other));
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
  for (const {node, setting, inForce} of panes)
    node.classList.toggle("changing", !inForce || key([setting]) !== key([inForce]));
  clearTimeout(settling);
  settling = setTimeout(settle, SETTLE);
}

function settle() {  // before any further word
  clearTimeout(settling);
  if (settling) connection.say(ask());
}

function ask() {
  const settings = panes.map(({setting}) => setting);
  settling = null;
  asked.push([key(settings), panes]);
  return {type: "panes", panes: settings};
}

function key(settings) {  // equal for equal choices
  const sorted = values => Object.entries(values).sort();
  return JSON.stringify(settings.map(({model, policy, options, dials}) => [model, policy, sorted(options), sorted(dials)]));
}

function hold(settings) {  // this choice is in force now
  const at = asked.findLastIndex(([own]) => own === key(settings));
  if (at >= 0) inForce = asked.splice(0, at + 1).at(-1)[1];
  else if (key(inForce.map(own => own.inForce)) !== key(settings)) inForce = settings.map(pane);
  const settled = !asked.length && !settling;
  inForce.forEach((own, i) => own.holds(settings[i], settled));
  if (settled && panes !== inForce) place(inForce);
  if (!former.length) return;
  const more = former.slice(inForce.length).map(() => pane(settings[0]));  // as many panes as before
  former.forEach((old, i) => [...inForce, ...more][i].inherit(old));
  former = [];
  if (!more.length) return;
  place([...inForce, ...more]);
  connection.say(ask());
}

function refuse(text) {  // the server rejected a choice: ask for the one in force, unless that was rejected
  const {form, name} = document.activeElement, at = panes.findIndex(own => own.form === form);
  clearTimeout(settling);
  settling = null;
  const again = asked.at(-1)?.[0] !== key(inForce.map(own => own.inForce));
  asked = [];
  for (const own of inForce) {
    own.use(own.inForce);
    own.node.classList.remove("changing");
  }
  place(inForce);
  inForce[at]?.form.elements[name]?.focus();
  if (again && !stream) connection.say(ask());  // in a stream it would end the sentence
  tell(text);
}

// messages from the server

function step(message) {
  if (message.sentence !== current) {
    current = message.sentence;
    source.begin();
    for (const own of inForce) own.sentence();
    record.begin(inForce.map(({used}) => used), [source.gap, ...inForce.map(({gap}) => gap)]);
    $("start").hidden = true;
    $("transcript").disabled = $("events").disabled = false;
  }
  if (message.word) source.append(message.word);
  message.panes.forEach((own, i) => {
    let place = inForce[i].begun;
    for (const {length} of own.ends ?? []) source.end(place += length, inForce.length > 1 ? `${i + 1}` : "");
    inForce[i].step(message, own);
  });
  record.step(message, inForce.map(({text}) => text));
  const before = settled;
  settled = message.ended ? 0 : Math.min(...inForce.map(({begun}) => begun));
  if (message.ended) current = 0;
  else connection.settle(settled - before);
  if (message.ended === "long") tell("The sentence has reached the maximum length and was ended here.", true);
  const failed = inForce.filter((own, i) => message.panes[i].failed).map(({decider}) => decider);
  if (failed.length) tell(`${failed.join(" and ")} failed: see the server's log. ${stream ? "Its sentence ends here; the next word begins a new one" : "The rest of the sentence is skipped"}.`, true);
}

// input to the server

function split(text) {  // into words
  const words = text.split(GAP);
  return characters ? words.flatMap(word => [...word.normalize("NFC")]) : words;
}

function feed(text) {  // whole words; a line end ends a sentence, but in a stream it is a space
  if (passing && (stream || !current)) tell("");
  stop();  // or else it would go into the middle of a played text
  if (stream) split(text).forEach(send);
  else text.split(/\r\n|[\r\n]/).forEach((part, i) => {
    if (i) connection.say({type: "end"});
    for (const word of split(part)) send(word);
  });
}

function pieces(word) {  // of a word that is too long for the server
  const letters = [...(word.toWellFormed?.() ?? word)], found = [];
  if (letters.length > longest) tell(`A word of ${letters.length} characters is read in pieces of ${longest}.`);
  for (let i = 0; i < letters.length; i += longest) found.push(letters.slice(i, i + longest).join(""));
  return found;
}

function send(word) {
  settle();
  for (const text of pieces(word)) connection.say({type: "words", text});
  count();
}

function complete(text) {  // the length of the words that are complete
  return characters ? text.length : text.length - text.split(/[\s\u2581]/).at(-1).length;
}

function typed() {  // all words but the one that is being typed
  const {value} = $("word"), last = complete(value);
  if (!last) return;
  feed(value.slice(0, last));
  $("word").value = value.slice(last);
}

function finish() {  // the open sentence
  feed(`${$("word").value}\n`);
  $("word").value = "";
}

function end() {
  finish();
  $("word").focus();
}

$("word").oninput = event => event.isComposing || typed();
$("word").addEventListener("compositionend", typed);
$("word").onkeydown = event => {
  if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;  // 229: Safari
  event.preventDefault();
  end();
};
$("word").onpaste = event => {
  const text = event.clipboardData.getData("text");
  if (!/\s/.test(text)) return;
  event.preventDefault();
  const {value, selectionStart, selectionEnd} = $("word");
  const whole = value.slice(0, selectionStart) + text + value.slice(selectionEnd);
  const last = complete(whole);
  feed(whole.slice(0, last));
  $("word").value = whole.slice(last);
};
$("end").onclick = () => {
  end();
  if (stream) connection.say({type: "end"});
};
$("add").onclick = add;
$("transcript").onclick = () => save("transcript.txt", record.transcript());
$("events").onclick = () => save("events.jsonl", record.events());
addEventListener("beforeunload", event => record.sentences.length && event.preventDefault());  // it would be lost
$("drop").onclick = () => {
  stop();
  connection.drop();
  count();
  $("word").focus();  // the button is hidden now
};

// playing

function play(text) {
  const parts = text.split(/(\r\n|[\r\n])|(?:[^\S\r\n]|[\u2581\x1c-\x1f\x85])+/).filter(Boolean);
  const words = parts.flatMap(part => /[\r\n]/.test(part) ? [part] : split(part));
  if (!words.length) return $("text").focus();
  finish();
  let next = 0, due = performance.now();
  const tick = () => {
    due = Math.max(due, performance.now() - 60000);  // the tick of a hidden page may come once a minute
    while (due <= performance.now()) {
      while (next < words.length && /[\r\n]/.test(words[next])) {
        if (!stream) connection.say({type: "end"});
        next++;
      }
      if (next === words.length) return stop();
      send(words[next++]);
      due += 60000 / Math.max(1, Number($("rate").value) || 150);
    }
    playing = setTimeout(tick, Math.max(0, due - performance.now()));
  };
  words.push("\n");
  playing = setTimeout(tick, 0);
  starter = document.activeElement;
  $("play").disabled = $("end").hidden = true;
  $("stop").hidden = false;
  $("stop").focus();
}

function stop() {
  if (playing === null) return;
  clearTimeout(playing);
  playing = null;
  connection.say({type: "end"});
  const back = document.activeElement === $("stop");
  $("play").disabled = $("end").hidden = false;
  $("stop").hidden = true;
  if (back) starter.focus();
}

$("play").onclick = () => play($("text").value);
$("stop").onclick = stop;
