// A stream, whose sentences the model ends: its source, and a pane that draws the last sentence and the open one.

import {Pane, stayAtEnd, transcript} from "./panes.js";

export class Source {  // the text read, in parts; a part ends where a sentence of some pane does
  constructor(host) {
    this.host = host;
    this.parts = [];
    this.gap = " ";
    stayAtEnd(host);
  }

  begin() {  // another sentence or stream
    const last = this.parts.at(-1);
    this.parts = [this.part(last && !last.words.length ? last.node : transcript(this.host), 0, [])];
  }

  part(node, start, words) {
    node.textContent = words.map(word => word + this.gap).join("");
    return {node, start, words};
  }

  append(word) {
    const {node, words} = this.parts.at(-1);
    words.push(word);
    node.append(word + this.gap);
  }

  end(place, label) {  // a sentence has ended after this word; if in only one of two panes, the label says which
    const i = this.parts.findLastIndex(({start}) => start <= place);
    if (i < 0) return;  // another pane has ended so many sentences since that the text has scrolled away
    const {node, start, words} = this.parts[i];
    if (start < place) {
      const after = transcript(this.host), rest = words.splice(place - start);
      this.parts[i] = this.part(node, start, words);
      node.after(after);
      this.parts.splice(i + 1, 0, this.part(after, place, rest));
      if (label) after.dataset.pane = label;
    } else delete node.dataset.pane;
    this.parts = this.parts.filter(({node}) => node.isConnected);
  }

  again(place) {  // the words after this one are read again
    this.end(place);
    for (const {node} of this.parts.filter(({start}) => start >= place)) node.remove();
    this.parts = [];
  }
}

export class StreamPane extends Pane {
  sentence() {  // begin another stream
    this.box.firstElementChild.dir = "auto";
    super.sentence();
    this.source = [];  // the words that are drawn, and the target words
    this.rows = [];
    this.dropped = this.late = 0;  // source words before those, and those read before the first row
    this.bound = null;  // where the last sentence has ended
  }

  step(message, own) {  // show the words of each sentence that has ended, and those of the open one
    const {words, ends, failed} = own;
    if (message.word) this.column(message.word);
    let from = 0;
    for (const {written, length} of ends) {
      this.add(words.slice(from, written));
      this.end(length, failed);
      from = written;
    }
    this.add(words.slice(from));
    this.show(message, own, [this.path.columns.length - Boolean(message.word), Math.max(0, this.path.rows.length - words.length)]);
  }

  column(word) {
    this.source.push(word);
    this.path.column(word);
  }

  reach(words) {  // the end, too, if a head stood there
    if (words.some(({heads}) => heads.some(at => at - this.dropped > this.path.columns.length))) this.path.column("</s>");
  }

  add(words) {
    this.reach(words);
    for (const one of words) this.write(one);
  }

  row(one) {  // in columns that are drawn
    this.rows.push(one);
    this.draw(one);
  }

  draw({text, delay, heads}) {
    super.row({text, delay: delay - this.dropped, heads: heads.map(at => Math.max(0, at - this.dropped))});
  }

  end(length, failed) {  // draw the boundary; forget what precedes this sentence
    this.begun += length;
    if (this.bound) {
      const [place, count] = this.bound;
      this.late = this.rows[count - 1]?.delay ?? this.late;
      this.source.splice(0, place - this.dropped);
      this.rows.splice(0, count);
      this.dropped = place;
      this.path.clear(Math.max(0, this.late - place));
      for (const word of this.source) this.path.column(word);
      this.reach(this.rows);
      for (const one of this.rows) this.draw(one);
    }
    this.bound = [this.begun, this.rows.length];
    this.path.bound(this.begun - this.dropped, this.rows.length);
    this.line.classList.toggle("failed", failed);
    this.line = transcript(this.box.firstElementChild);
    this.words = [];
  }
}
