// The socket. Whatever happens to connections, each message is heard once, and each event seen once.

const VERSION = 1, CONFIRM = 16, PATIENCE = 300, LONGEST = 8000;  // events, and milliseconds

export class Connection {
  constructor({welcome, event, state}) {
    Object.assign(this, {welcome, event, state});
    this.waits = 250;
    this.begin();
    this.open();
  }

  begin() {  // nothing of an earlier session counts
    this.token = null;
    this.seen = this.confirmed = this.said = this.outstanding = this.queued = 0;
    this.unheard = [];
    this.queue = [];
  }

  open() {
    this.socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/socket`);
    this.ready = false;
    this.refused = "";
    this.again = true;
    this.socket.onopen = () => this.write({type: "hello", version: VERSION, token: this.token, seen: this.seen});
    this.socket.onmessage = ({data}) => this.take(JSON.parse(data));
    this.socket.onclose = () => this.closed();
  }

  closed() {
    this.ready = false;
    clearTimeout(this.later);
    this.later = undefined;
    this.socket = null;
    this.state(false, this.refused, this.again);
    if (!this.again) return;  // until the user says something
    setTimeout(() => this.open(), this.waits);
    this.waits = Math.min(2 * this.waits, LONGEST);
  }

  write(message) {
    this.socket.send(JSON.stringify(message));
  }

  take(message) {
    if (message.type === "welcome") return this.greeted(message);
    if (message.type === "refused") {
      this.refused = message.text;
      this.again = message.again;
      return;
    }
    if (message.n !== undefined) {
      if (message.n !== this.seen + 1) return;
      this.seen = message.n;
      this.hears(message.heard);
      if (this.seen - this.confirmed >= CONFIRM) this.confirm();
      else this.later ??= setTimeout(() => this.confirm(), PATIENCE);
      if (message.type === "step" && message.word) this.outstanding = Math.max(0, this.outstanding - 1);
    }
    this.event(message);
    this.flow();
  }

  greeted(message) {
    if (!message.resumed) {  // what was lost with a session is said again in the next
      const lost = [...this.unheard.map(([, kept]) => kept), ...this.queue];
      this.begin();
      for (const kept of lost) if (kept.type !== "panes") this.enter(kept);
    }
    this.token = message.token;
    this.most = message.waiting;
    this.ready = true;
    this.waits = 250;
    this.hears(message.heard);
    for (const [, kept] of this.unheard) this.write(kept);
    this.state(true, "");
    this.queue.unshift(...this.welcome(message));
    this.flow();
  }

  hears(number) {  // messages up to this number need not be said again
    while (this.unheard.length && this.unheard[0][0] <= number) this.unheard.shift();
  }

  confirm() {
    clearTimeout(this.later);
    this.later = undefined;
    if (!this.ready || this.confirmed === this.seen) return;
    this.confirmed = this.seen;
    this.write({type: "seen", number: this.seen});
  }

  enter(message) {
    this.queue.push(message);
    this.queued += message.type === "words";
  }

  say(message) {  // in order, and not more words at once than may wait
    this.enter(message);
    if (!this.socket && !this.again) this.open();
    this.flow();
  }

  drop() {  // the words that are not said yet
    this.queue = this.queue.filter(({type}) => type === "panes");
    this.queued = 0;
    this.say({type: "end"});
  }

  get waiting() {  // the words that are not read
    return this.outstanding + this.queued;
  }

  flow() {
    while (this.ready && this.queue.length && this.outstanding < this.most / 2) {
      const message = this.queue.shift(), words = message.type === "words";
      this.queued -= words;
      this.outstanding += words;
      this.unheard.push([++this.said, message]);
      this.write(message);
    }
  }
}
