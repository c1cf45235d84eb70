// The socket. One socket is one session: if it is lost, a new one begins, and the open sentence is sent again.

const LONGEST = 8000, SILENT = 60000;  // milliseconds: longest wait between attempts, and for an answer

export class Connection {
  constructor({words, welcome, event, state}) {
    Object.assign(this, {split: words, welcome, event, state});
    this.queue = [];  // what is not sent
    this.sent = [];  // what is sent, of sentences that have not ended
    this.waiting = 0;  // the words that are not read
    this.waits = 250;
    setInterval(() => this.ready && this.outstanding > 0 && Date.now() - this.heard > SILENT && this.lose(), 5000);
    addEventListener("online", () => this.trying && this.open());
    this.open();
  }

  open() {
    this.socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/socket`);
    this.ready = this.trying = false;
    this.ended = this.reason;
    this.reason = "";
    this.socket.onmessage = ({data}) => this.take(JSON.parse(data));
    this.socket.onclose = () => this.closed();
  }

  closed() {
    this.ready = false;
    this.socket = null;
    this.trying = !this.reason || this.waiting > 0;  // or else once the user types
    this.state(false, this.reason, this.trying);
    if (!this.trying) return;
    setTimeout(() => this.socket ?? this.open(), this.waits);
    this.waits = Math.min(2 * this.waits, LONGEST);
  }

  lose() {  // a socket that is dead, as after a sleep, may never close by itself
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
    this.closed();
  }

  take(message) {
    this.heard = Date.now();
    if (message.type === "closed") this.reason = message.text;
    else if (message.type === "welcome") this.greeted(message);
    else {
      if (message.type === "step") this.read(message);
      this.event(message);
    }
    this.flow();
  }

  greeted(message) {
    const first = this.welcome(message, this.sent.some(isWord), this.ended);  // and what is a word may be new
    const rest = [...this.sent, ...this.queue].filter(({type}) => type !== "panes");
    this.queue = [...first, ...rest.flatMap(one => isWord(one) ? this.split(one.text).map(text => ({...one, text})) : [one])];
    this.waiting = this.queue.filter(isWord).length;
    this.sent = [];
    this.outstanding = this.words = 0;  // words that are sent and not read; words read of the sentence
    this.most = message.waiting;
    this.ready = true;
    this.state(true, "");
  }

  read({word, ended}) {
    if (word) {
      this.words++;
      this.outstanding--;
      this.waiting--;
    }
    if (!ended) return;
    this.settle(this.words);
    if (!word && ended === "end") while (this.sent.length && this.sent.shift().type !== "end");
  }

  settle(count) {  // forget the first `count` words read: their sentences have ended, but the stream continues
    if (count) this.waits = 250;
    this.words -= count;
    while (count > 0 && this.sent.length) count -= isWord(this.sent.shift());
  }

  say(message) {  // in order, and not more words at once than may wait
    if (message.type === "end" && this.last === "end") return;
    this.last = message.type;
    if (message.type === "panes") this.queue = [message, ...this.queue.filter(({type}) => type !== "panes")];  // at once
    else this.queue.push(message);
    this.waiting += isWord(message);
    if (!this.socket && !this.trying) this.open();
    this.flow();
  }

  drop() {  // the words that are not sent; without a connection, all that are not read
    let read = this.words;
    if (!this.ready) this.sent = this.sent.filter(message => isWord(message) && read-- > 0);
    this.waiting = this.ready ? this.outstanding : 0;
    this.queue = this.queue.filter(({type}) => type === "panes");
    this.last = "";
    this.say({type: "end"});
  }

  flow() {
    while (this.ready && this.queue.length && this.outstanding < this.most / 4) {  // room for their ends, and for choices
      const message = this.queue.shift();
      if (!this.outstanding) this.heard = Date.now();
      this.outstanding += isWord(message);
      this.sent.push(message);
      this.socket.send(JSON.stringify(message));
    }
  }
}

function isWord({type}) {
  return type === "words";
}
