// What has been read and written, as files to save.

export class Record {
  constructor() {
    this.sentences = [];
  }

  begin(panes, gaps) {  // gaps: what separates the words of the source, and of each pane
    this.sentences.push({source: [], translations: [], panes, gaps, events: []});
  }

  again() {  // the sentence begins again
    const now = this.sentences.pop();
    if (now.events[0].panes[0].ends) this.sentences.push({...now, lost: true});  // a stream; its ended sentences stay
  }

  step(message, translations) {
    const now = this.sentences.at(-1);
    if (message.word) now.source.push(message.word);
    now.translations = translations;
    now.failed = message.panes.map(({failed}) => failed);
    now.events.push({...message, sentence: this.sentences.length, seconds: Math.round(Date.now() - performance.timeOrigin) / 1000});
  }

  transcript() {  // a paragraph for each sentence: its source, then each translation
    return this.sentences.flatMap(one => one.events[0].panes[0].ends ? streamed(one) : paragraph(one)).join("\n\n") + "\n";
  }

  events() {  // a line for each: the panes of each sentence, and the steps as the server sent them
    return this.sentences.flatMap(({panes, events}, i) => [{type: "panes", sentence: i + 1, panes}, ...events])
      .map(event => `${JSON.stringify(event)}\n`).join("");
  }
}

function paragraph({source, translations, panes, failed, gaps}) {
  return [source.join(gaps[0]), ...translations.map((text, i) => `${label(panes[i])}${failed[i] ? ", failed" : ""}: ${text}`)].join("\n");
}

function streamed({panes, gaps, events, lost}) {  // pane by pane, since each ends its own sentences
  return panes.flatMap((pane, i) => {
    const found = [], source = [];
    let target = [];
    const end = (length, failed) => {
      found.push(paragraph({source: source.splice(0, length), translations: [target.join(gaps[i + 1])], panes: [pane], failed: [failed], gaps}));
      target = [];
    };
    for (const {word, panes: steps} of events) {
      const {words, ends, failed} = steps[i], texts = words.map(({text}) => text);
      if (word) source.push(word);
      ends.forEach(({written, length}, n) => {
        target.push(...texts.slice(ends[n - 1]?.written ?? 0, written));
        end(length, failed);
      });
      target.push(...texts.slice(ends.at(-1)?.written ?? 0));
    }
    if (source.length && !lost) end(source.length, false);
    return found;
  });
}

function label({name, policy, options, dials}) {
  const values = [options, dials].flatMap(Object.entries).filter(([, value]) => value !== null);
  return [name, policy, ...values.map(([key, value]) => `${key}=${value}`)].join(", ");
}

export function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type: "text/plain;charset=utf-8"}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
