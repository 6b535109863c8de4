// A stream of server-sent events that goes on after the last event whenever the server is back.

const PAUSE = 1500;

/** @typedef {{kind: "delta"|"about"|"pulse"|"reset"|"end"|"state", data: any}} Message */

export class Stream {
  /** @param {(message: Message) => void} tell */
  constructor(tell) {
    this.tell = tell;
    /** @type {EventSource|null} */
    this.source = null;
    /** @type {string|null} what tabs were told last of the connection */
    this.state = null;
    /** @type {any} */
    this.pulse = null;
    this.url = "";
    this.place = "";
    this.timer = 0;
  }

  /** Begins after a place, unless it has begun already. @param {string} url @param {string} place */
  start(url, place) {
    if (this.source || this.timer) return;
    [this.url, this.place] = [url, place];
    this.open();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.source?.close();
    this.source = this.state = this.pulse = null;
  }

  open() {
    this.timer = 0;
    const source = new EventSource(`${this.url}?after=${encodeURIComponent(this.place)}`);
    this.source = source;
    source.onopen = () => this.say("live");
    source.onerror = () => {
      // Opened anew by ourselves: a browser gives up for good where the server answers with an error.
      source.close();
      this.say("lost");
      this.timer = setTimeout(() => this.open(), PAUSE);
    };
    for (const kind of /** @type {const} */ (["delta", "about", "pulse", "reset", "end"])) {
      source.addEventListener(kind, (event) => {
        if (event.lastEventId) this.place = event.lastEventId;
        const data = JSON.parse(event.data);
        if (kind === "pulse") this.pulse = data;
        if (kind === "reset") this.stop(); // until a tab has a new snapshot
        if (kind === "end") {
          source.close();
          this.timer = setTimeout(() => this.open(), PAUSE); // it may be started again
          this.state = "ended";
        }
        this.tell({ kind, data });
      });
    }
  }

  /** @param {string} state */
  say(state) {
    if (state === "lost" && this.state === "ended") return;
    this.state = state;
    this.tell({ kind: "state", data: state });
  }
}
