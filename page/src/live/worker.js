// One stream for all tabs of a browser that show one plan: this shared worker holds it and tells every tab what comes.
import { Stream } from "./stream.js";

/** @type {Set<MessagePort>} */
const ports = new Set();
const stream = new Stream((message) => {
  for (const port of ports) port.postMessage(message);
});

/** @type {any} */ (self).onconnect = (/** @type {MessageEvent} */ event) => {
  const port = event.ports[0];
  ports.add(port);
  port.onmessage = ({ data }) => {
    if (data.start) stream.start(data.start.url, data.start.place);
    else if (data.leave) ports.delete(port);
    if (!ports.size) stream.stop();
  };
  if (stream.state) port.postMessage({ kind: "state", data: stream.state });
  if (stream.pulse) port.postMessage({ kind: "pulse", data: stream.pulse });
};
