// Where the facts come from: the page itself, or the server that it came from. From there comes a snapshot, and then
// what came after it, by a stream that all tabs of a browser share.
import { batch } from "@preact/signals";
import { askWhatMayBeDone } from "./acting.js";
import { link, locked, pulse, takeAbout, takeDelta, takeSnapshot } from "../state.js";
import { Stream } from "./stream.js";

const PAUSE = 1500;
/** @type {{incarnation: string, number: number}|null} up to where facts are here; null while a snapshot is on its way */
let place = null;
/** @type {import("./stream.js").Message[]} what came meanwhile */
let waiting = [];
/** @type {(start: {url: string, place: string}) => void} */
let start = () => {};

export function begin() {
  const data = document.getElementById("data");
  if (data) {
    takeSnapshot(JSON.parse(data.textContent ?? "{}"));
    link.value = "file";
    return;
  }
  if (typeof SharedWorker === "function") {
    const worker = new SharedWorker("static/worker.js", { name: new URL("events", location.href).href });
    worker.port.onmessage = ({ data: message }) => hear(message);
    start = (given) => worker.port.postMessage({ start: given });
    addEventListener("pagehide", () => worker.port.postMessage({ leave: true }));
    addEventListener("pageshow", (event) => event.persisted && location.reload());
  } else {
    const stream = new Stream(hear);
    start = (given) => stream.start(given.url, given.place);
  }
  read();
}

async function read() {
  place = null;
  for (;;) {
    try {
      const response = await fetch("snapshot");
      locked.value = response.status === 401;
      if (response.ok) {
        const snapshot = await response.json();
        takeSnapshot(snapshot);
        place = { incarnation: snapshot.incarnation, number: snapshot.number };
        break;
      }
    } catch {
      // The server is gone: it is asked again.
    }
    link.value = "lost";
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  askWhatMayBeDone().catch(() => {}); // it is asked again when the connection is back
  start({ url: new URL("events", location.href).href, place: `${place.incarnation}:${place.number}` });
  const missed = waiting;
  waiting = [];
  missed.forEach(hear);
}

/** @param {import("./stream.js").Message} message */
function hear(message) {
  const { kind, data } = message;
  if (kind === "state") {
    link.value = data;
    if (data === "lost") look();
  } else if (kind === "pulse") pulse.value = data;
  else if (place === null) waiting.push(message);
  else if (kind === "about") takeAbout(data);
  else if (kind === "reset") read();
  else if (kind === "end") batch(() => ([link.value, pulse.value] = ["ended", null]));
  else if (kind === "delta" && data.number > place.number) {
    if (data.after !== place.number) read(); // something is missing in between
    else {
      place.number = data.number;
      takeDelta(data.columns);
    }
  }
}

/** Finds out whether the server is gone, or does not know this browser. */
async function look() {
  try {
    locked.value = (await askWhatMayBeDone()) === 401;
  } catch {
    locked.value = false;
  }
}
