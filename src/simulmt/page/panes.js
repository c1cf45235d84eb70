// A pane: a model with a policy and dials, its translation, figures and path.

import {Path, make} from "./path.js";

const KEPT = 30, GONE = 1200;  // sentences; milliseconds

export function stayAtEnd(box) {  // as text comes, unless the user has scrolled back
  let end = true;
  box.onscroll = () => { end = box.scrollHeight - box.scrollTop - box.clientHeight < 20; };
  new MutationObserver(() => end && box.scrollTo(0, box.scrollHeight)).observe(box, {childList: true, subtree: true});
}

export function transcript(host) {  // the paragraph of a new sentence
  const paragraph = document.createElement("p");
  if (!host.dir) paragraph.dir = "auto";
  host.append(paragraph);
  if (host.children.length > 2 * KEPT)  // rarely: in a stream, the text before them is set again
    while (host.children.length > KEPT) host.firstElementChild.remove();
  return paragraph;
}

export function gap(characters) {  // what separates words
  return characters ? "" : " ";
}

export function showUnits(root, characters) {  // what a word of the source is called
  for (const node of root.querySelectorAll(".unit")) node.textContent = characters ? "characters" : "words";
}

const names = new Intl.DisplayNames("en", {type: "language"});

export function language(code) {  // its English name
  try {
    return names.of(code);
  } catch {  // not the code of a language
    return code;
  }
}

function called({name, mechanism}, models) {  // with what tells it from other models of the mechanism
  const parts = text => text.split(/[/+]/);
  const alike = models.filter(other => other.mechanism === mechanism).map(other => parts(other.name));
  const own = parts(name).filter(part => !alike.every(other => other.includes(part)));
  return own.length ? `${mechanism} (${own.join("+")})` : mechanism;
}

function choices(policies) {  // those that do not suit the model come last
  const option = ({name, unsuitable, possible}) => {
    const choice = new Option(name);
    choice.title = unsuitable;
    choice.disabled = !possible;
    return choice;
  };
  const others = policies.filter(({unsuitable}) => unsuitable).map(option), group = document.createElement("optgroup");
  group.label = "unsuitable here";
  group.append(...others);
  return [...policies.filter(({unsuitable}) => !unsuitable).map(option), ...(others.length ? [group] : [])];
}

function values(options) {  // by their names
  return Object.fromEntries(options.map(({name, value}) => [name, value]));
}

export function initial(models, model) {  // the choice for a model: the first policy that suits it, or is possible
  const {policies} = models[model], possible = policies.filter(policy => policy.possible);
  const {name, options} = possible.find(({unsuitable}) => !unsuitable) ?? possible[0] ?? policies[0];
  return {model, policy: name, options: values(options), dials: {}};
}

export class Pane {
  constructor(models, setting, {changed, rejected, closed}) {
    Object.assign(this, {models, changed, rejected});
    this.node = document.getElementById("pane").content.cloneNode(true).firstElementChild;
    showUnits(this.node, models[0].characters[0]);
    this.form = this.node.querySelector("form");
    this.box = this.node.querySelector(".translation");
    stayAtEnd(this.box);
    this.path = new Path(this.node.querySelector(".drawing"));
    this.words = [];
    const {model, policy} = this.form.elements;
    models.forEach((offer, i) => model.add(new Option(`${called(offer, models)}, ${offer.languages.join("–")}`, i)));
    this.form.querySelector(".of-model").hidden = models.length < 2;
    this.use(setting);
    model.onchange = () => this.choose(initial(models, +model.value));
    policy.onchange = () => {
      const {options, dials, overrules} = this.offer.policies.find(({name}) => name === policy.value);
      const kept = Object.entries(this.setting.dials).filter(([name]) => !overrules && !(name in dials));
      this.choose({...this.setting, policy: policy.value, options: values(options), dials: Object.fromEntries(kept)});
    };
    this.form.onsubmit = event => event.preventDefault();
    this.node.querySelector(".close").onclick = closed;
    this.sentence();
  }

  get offer() {
    return this.models[this.setting.model];
  }

  get policy() {
    return this.offer.policies.find(({name}) => name === this.setting.policy);
  }

  choose(setting) {
    this.use(setting);
    this.changed();
  }

  use(setting) {  // show a choice in the controls
    this.setting = setting;
    const {model, policy} = this.form.elements, options = this.form.querySelector(".options");
    model.value = setting.model;
    policy.replaceChildren(...choices(this.offer.policies));
    policy.value = setting.policy;
    const title = this.node.querySelector("h2");
    title.textContent = `${language(this.offer.languages[1])}, by ${called(this.offer, this.models)}`;
    title.title = this.offer.name;
    this.box.lang = this.offer.languages[1];
    const name = `${title.textContent}, ${setting.policy}`;
    this.node.ariaLabel = name;
    this.node.querySelector(".close").ariaLabel = `Close ${name}`;
    this.box.ariaLabel = `translation, ${name}`;
    this.path.host.ariaLabel = `path of reads and writes, ${name}`;
    const {why = "", unsuitable, overrules} = this.policy ?? {};
    this.node.querySelector(".why").textContent = unsuitable ? `${why} Unsuitable here: ${unsuitable}.` : why;
    options.replaceChildren(
      ...(this.policy?.options ?? []).map(option => this.control(option, "options")),
      ...(overrules ? [] : this.offer.dials).map(option => this.control(option, "dials")),
    );
  }

  control({name, value, why, schema}, kind) {
    const {type, minimum, exclusiveMinimum, maximum, exclusiveMaximum} = schema.anyOf?.[0] ?? schema;
    const whole = type === "integer", step = whole ? 1 : .01;
    const least = minimum ?? exclusiveMinimum + step, most = maximum ?? exclusiveMaximum - step;  // or not a number
    const label = document.createElement("label"), input = document.createElement("input");
    const now = () => this.setting[kind][name] ?? (kind === "dials" ? this.policy?.dials[name] : null) ?? value;
    const slides = !whole && most - least <= 1, even = (round, limit) => (round(limit / step) * step).toFixed(2);
    input.name = `${kind}.${name}`;
    input.type = slides ? "range" : "number";
    input.step = whole || slides ? step : "any";
    if (!isNaN(least)) input.min = slides ? even(Math.ceil, least) : least;
    if (!isNaN(most)) input.max = slides ? even(Math.floor, most) : most;
    input.value = now() ?? "";
    input.required = !schema.anyOf;
    input.placeholder = "–";
    label.title = input.title = why;
    label.append(name, " ", input);
    const shown = document.createElement("output");
    if (slides) label.append(shown);
    shown.ariaHidden = "true";  // the slider says it
    const show = text => { shown.value = text; if (slides) input.ariaValueText = text; };
    show(`${now() ?? ""}`);  // not what the slider's steps make of it
    input.oninput = () => show(Number(input.value).toFixed(2));
    input.onchange = () => {
      if (!input.checkValidity()) {
        this.rejected(`${name}=${input.value}: ${input.validationMessage} It stays at ${now() ?? "its default"}.`);
        input.value = now() ?? "";
        return;
      }
      this.setting = {...this.setting, [kind]: {...this.setting[kind], [name]: input.value === "" ? null : +input.value}};
      this.changed();
    };
    return label;
  }

  sentence() {  // begin another
    const unused = this.line && !this.line.textContent && !this.line.matches(".failed");
    if (!unused) this.line = transcript(this.box.firstElementChild);
    this.words = [];
    this.begun = this.erased = 0;  // source words of a stream's sentences that have ended; words taken back
    this.path.clear();
    this.figure("behind", 0);
    this.figure("lag", "–");
    this.figure("ms", "–");
    this.figure("erased", 0);
  }

  get used() {  // the values of all options and dials
    const {model, policy, options, dials} = this.inForce, {name, policies, dials: own} = this.models[model];
    const offer = policies.find(other => other.name === policy) ?? {options: []};
    return {name, model, policy, options: {...values(offer.options), ...options}, dials: offer.overrules ? {} : {...values(own), ...offer.dials, ...dials}};
  }

  get decider() {  // what fails, if the pane does
    const {model, policy} = this.inForce;
    return policy === "own" ? `model ${called(this.models[model], this.models)}` : `policy ${policy}`;
  }

  inherit(other) {  // its earlier translations
    this.line.before(...[...other.line.parentNode.children].filter(({textContent}) => textContent));
  }

  again() {  // the sentence begins again
    this.line.replaceChildren();
    this.line.classList.remove("failed");
    this.sentence();
  }

  get gap() {
    return gap(this.models[this.inForce.model].characters[1]);
  }

  get text() {
    return this.words.map(({textContent}) => textContent).join(this.gap);
  }

  figure(name, value) {
    this.node.querySelector(`.${name}`).textContent = value;
  }

  step(message, own) {
    const {word, ended} = message, {kept, words, failed} = own;
    this.line.classList.toggle("failed", failed);
    const before = [this.path.columns.length, Math.min(kept, this.words.length)];
    if (word) this.path.column(word);
    this.takeBack(kept);
    const furthest = Math.max(0, ...words.flatMap(({heads}) => heads));
    if (furthest > this.path.columns.length) this.path.column("</s>");
    for (const one of words) this.write(one, this.revises && !ended);
    if (ended) for (const span of this.words) span.classList.remove("open");
    this.show(message, own, before);
  }

  show({read, ended}, {lag, ms}, before) {  // mark what is new since `before`: columns and rows
    this.path.fit();
    this.path.open(!ended);
    this.path.show(this.path.columns.length, this.path.rows.length, ...before);
    this.path.follow();
    this.figure("behind", ended ? 0 : Math.max(0, read - this.begun - this.words.length));
    this.figure("lag", lag === null ? "–" : lag.toFixed(2));
    this.figure("ms", ms < 10 ? ms.toFixed(1) : ms.toFixed(0));
    this.figure("erased", this.erased);
  }

  get revises() {
    const name = this.inForce?.policy;
    return Boolean(this.offer.policies.find(policy => policy.name === name)?.revises);
  }

  holds(setting, settled) {  // this choice is in force now, and none is under way if settled
    this.inForce = setting;
    if (settled) this.node.classList.remove("changing");
    this.node.querySelector(".of-erasure").hidden = !this.revises;
    const [source, target] = this.models[setting.model].characters;
    this.node.querySelector(".of-lead").hidden = source !== target;  // words and characters
  }

  takeBack(kept) {
    for (const span of this.words.splice(kept)) {
      this.erased++;
      const gone = document.createElement("del");
      gone.textContent = span.textContent;
      gone.ariaHidden = "true";
      span.replaceWith(gone);
      setTimeout(() => gone.remove(), GONE);
    }
    this.path.keep(kept);
  }

  write(one, open) {
    const span = document.createElement("span");
    span.textContent = one.text;
    span.classList.toggle("open", Boolean(open));
    this.line.append(span, this.gap);
    this.words.push(span);
    this.row(one);
  }

  row({text, delay, heads}) {
    const {marks} = this.path.row(text, delay), count = new Map();
    for (const place of heads) if (place) count.set(place, (count.get(place) ?? 0) + 1);
    for (const [place, n] of count) {
      const r = .42 * this.path.size * Math.sqrt(n / heads.length);
      const dot = make("circle", {cx: this.path.middle(place - 1), cy: this.path.size / 2, r, class: "head"}, marks);
      make("title", {}, dot, n === 1 ? "1 head" : `${n} heads`);
    }
  }
}
