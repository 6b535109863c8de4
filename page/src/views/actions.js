// What can be done with what is selected, for those who may. Nothing happens before it is confirmed.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { acts, ask } from "../live/acting.js";
import { written } from "../model/configs.js";
import { stopOf } from "../model/stops.js";
import { duration, number, plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { chosenStudy, link, model, picked } from "../state.js";

/** @typedef {import("../model/derive.js").Trial} Trial */

const isPossible = () => acts.value && link.value === "live";

/** What is to be confirmed now; it outlives a moment without a connection. */
const asking = signal("");

/** A button that asks once more before it acts. @param {{label: string, question: string, body: object}} props */
function Ask({ label, question, body }) {
  const own = JSON.stringify(body);
  const asked = asking.value === own;
  /** @param {boolean} is */
  const setAsked = (is) => (asking.value = is ? own : "");
  const [said, setSaid] = useState("");
  const act = async () => {
    try {
      await ask("actions", body);
      setSaid("done");
    } catch (error) {
      setSaid(String(/** @type {Error} */ (error).message));
    }
    setAsked(false);
  };
  return html`<span class="ask">
    ${asked
      ? html`<span>${question}</span> <button type="button" class="quiet danger" onClick=${act}>Yes</button> <button type="button" class="quiet" onClick=${() => setAsked(false)}>No</button>`
      : html`<button type="button" class="quiet" onClick=${() => setAsked(true)}>${label}</button>`}
    <span class="said" role="status">${said}</span>
  </span>`;
}

/** Ends the study that is shown; says so where it was ended. */
export function StopStudy() {
  const name = chosenStudy.value;
  if (name === null) return null;
  const { tables, pulse } = model.value;
  const stop = stopOf(tables, name);
  if (stop) {
    const trains = pulse?.leases.some((lease) => lease.study === name);
    return html`<span class="said" role="status">${trains ? "stopping at the end of the running steps" : "stopped"}${stop.by ? `, by ${stop.by}` : ""}</span>`;
  }
  if (!isPossible()) return null;
  return html`<${Ask} label="Stop study" question=${`Stop ${name} at the end of the running steps?`} body=${{ kind: "stop study", study: name }} />`;
}

/** @param {{trial: Trial}} props */
export function TrialActions({ trial }) {
  const [open, setOpen] = useState(/** @type {"train"|"branch"|null} */ (null));
  if (!isPossible()) return null;
  const isOpen = trial.state === "running" || trial.state === "unfinished";
  return html`<h3>Act</h3>
    <div class="actions">
      ${isOpen && html`<${Ask} key=${`stop ${trial.id}`} label="Stop this trial" question="Train it no further?" body=${{ kind: "stop trial", trial: trial.id }} />`}
      <button type="button" class="quiet" aria-expanded=${open === "train"} onClick=${() => setOpen(open === "train" ? null : "train")}>Train further…</button>
      <button type="button" class="quiet" aria-expanded=${open === "branch"} onClick=${() => setOpen(open === "branch" ? null : "branch")}>Branch from here…</button>
    </div>
    ${open && html`<${Form} key=${`${open} ${trial.id}`} kind=${open} trial=${trial} />`}`;
}

/** @param {{kind: "train"|"branch", trial: Trial}} props */
function Form({ kind, trial }) {
  const names = written(model.value.tables, trial.config);
  const [to, setTo] = useState(kind === "train" ? 2 * trial.asked : Math.max(trial.asked, trial.trained));
  const [at, setAt] = useState(picked.value !== null && picked.value < trial.asked ? picked.value : Math.max(trial.at, 1));
  const [name, setName] = useState(names[0]?.[0] ?? "");
  const [text, setText] = useState("");
  const [cost, setCost] = useState(/** @type {any} */ (null));
  const [said, setSaid] = useState("");
  const body = kind === "train" ? { kind, trial: trial.id, to } : { kind, trial: trial.id, at, to, changes: { [name]: text } };
  const isReady = kind === "train" || text.trim() !== "";
  useEffect(() => {
    if (picked.value !== null && picked.value < trial.asked) setAt(picked.value);
  }, [picked.value]);
  useEffect(() => {
    setCost(null);
    if (!isReady) return undefined;
    const timer = setTimeout(async () => {
      try {
        setCost(await ask("preview", body));
        setSaid("");
      } catch (error) {
        setSaid(String(/** @type {Error} */ (error).message));
      }
    }, 250);
    return () => clearTimeout(timer);
  }, [JSON.stringify(body)]);
  /** @param {Event} event */
  const confirm = async (event) => {
    event.preventDefault();
    try {
      const { trial: made } = await ask("actions", body);
      setSaid(`asked for, as trial ${made}`);
    } catch (error) {
      setSaid(String(/** @type {Error} */ (error).message));
    }
  };
  return html`<form class="act" onSubmit=${confirm}>
    ${kind === "branch" && html`
      <label>leave at step <input type="number" min="1" value=${at} onInput=${(/** @type {any} */ event) => setAt(Number(event.target.value))} /></label>
      <p class="sub">or click a point on a learning curve</p>
      <label>change <select value=${name} onChange=${(/** @type {any} */ event) => setName(event.target.value)}>${names.map(([each]) => html`<option key=${each}>${each}</option>`)}</select></label>
      <label>to <input type="text" value=${text} placeholder=${names.find(([each]) => each === name)?.[1] ?? ""} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
      <p class="sub">a value, or a sequence that counts its own steps: Exponential(0.01, 0.9)</p>`}
    <label>train to step <input type="number" min="1" value=${to} onInput=${(/** @type {any} */ event) => setTo(Number(event.target.value))} /></label>
    ${cost && html`<div class="cost" role="status">
      <dl class="config">${Object.entries(cost.config).map(([each, is]) => html`<dt key=${each}>${each}</dt><dd><code>${is}</code></dd>`)}</dl>
      <p><b>${plural(cost.unshared, "step")}</b> to be trained of ${number(cost.steps)}${cost.seconds === null ? "" : html`, about <b>${duration(cost.seconds)}</b> of one worker`}</p>
      <button type="submit" class="quiet strong">Train it</button>
    </div>`}
    <p class="said" role="status">${said}</p>
  </form>`;
}

/** @param {{node: number, from: number, to: number}} props */
export function StageActions({ node, from, to }) {
  const { keptOf, tables } = model.value;
  if (!isPossible()) return null;
  const kept = [...(keptOf[node]?.keys() ?? [])].filter((step) => step > from && step <= to);
  if (!kept.length) return null;
  const pinned = new Set();
  tables.pins.node.forEach((at, row) => {
    if (at === node) pinned[tables.pins.pinned[row] ? "add" : "delete"](tables.pins.step[row]);
  });
  return html`<h3>Checkpoints</h3><ul class="list">${kept.slice(0, 20).map((step) => html`<li key=${step}>step ${number(step)}${pinned.has(step) ? ", pinned" : ""}
    <${Ask} key=${`${step} ${pinned.has(step)}`} label=${pinned.has(step) ? "Unpin" : "Pin"} question=${pinned.has(step) ? "Let it go when room is needed?" : "Keep it, whatever the budget?"}
      body=${{ kind: "pin", node, step, pinned: !pinned.has(step) }} /></li>`)}</ul>`;
}
