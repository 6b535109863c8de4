// What is selected, in full: a trial, two side by side, a stage, or a worker.
import { changes, differing, sequencesOf, written } from "../model/configs.js";
import { pathOf, resultsOf, sharedSteps, trialsThrough } from "../model/paths.js";
import { duration, metric, number, plural, shapes } from "../parts/format.js";
import { html } from "../parts/html.js";
import { beside, compare, model, select, selected, trialsById } from "../state.js";
import { StageActions, TrialActions } from "./actions.js";
import { TrialLog } from "./log.js";

/**
 * @typedef {import("../model/derive.js").Model} Model
 * @typedef {import("../model/derive.js").Trial} Trial
 */

export function Detail() {
  const item = selected.value;
  const known = model.value;
  if (!item) return null;
  const one = item.kind === "trial" ? trialsById.value.get(item.id) : undefined;
  const other = beside.value === null ? undefined : trialsById.value.get(beside.value);
  const body =
    one && other ? html`<${Pair} known=${known} one=${one} other=${other} />` :
    one ? html`<${One} known=${known} trial=${one} />` :
    item.kind === "stage" ? html`<${StageDetail} known=${known} node=${item.node} from=${item.from} to=${item.to} />` :
    item.kind === "worker" ? html`<${WorkerDetail} known=${known} worker=${item.id} />` :
    item.kind === "trials" ? html`<${Several} known=${known} ids=${item.ids} label=${item.label} />` : html`<p>It is not in this study.</p>`;
  return html`<aside class="detail" aria-label="What is selected">
    <button type="button" class="quiet close" aria-label="Let go of the selection" onClick=${() => select(null)}>✕</button>
    ${body}
  </aside>`;
}

/** @param {{known: Model, trial: Trial}} props */
function One({ known, trial }) {
  const path = pathOf(known, trial).reverse();
  const results = resultsOf(known, trial);
  return html`<h2><span class=${`state ${trial.state}`} aria-hidden="true">${shapes[trial.state]}</span> Trial ${trial.number}</h2>
    <p class="sub">${trial.state}, ${number(trial.trained)} of ${number(trial.asked)} steps${trial.rank ? `, rank ${trial.rank} of ${known.ranked.length}` : ""}</p>
    <${Config} known=${known} config=${trial.config} />
    ${trial.error && html`<h3>Error</h3><pre class="error" tabindex="0">${trial.error}</pre>`}
    <h3>Metrics</h3>
    <${Metrics} known=${known} rows=${results} />
    <h3>Its way through the tree</h3>
    <ol class="path">${path.map(([node, from, to]) => html`<li key=${node}>
      <button type="button" class="link" onClick=${() => select({ kind: "stage", node, from, to })}>steps ${number(from)}–${number(to)}</button>
      ${known.weight[node] > 1 ? ` shared by up to ${number(known.weight[node])}` : " its own"}</li>`)}</ol>
    <${TrialActions} trial=${trial} />
    <${TrialLog} trial=${trial} />`;
}

/** @param {{known: Model, config: number}} props */
const Config = ({ known, config }) => html`<dl class="config">${written(known.tables, config).map(([name, text]) => html`<dt key=${name}>${name}</dt><dd><code>${text}</code></dd>`)}</dl>`;

/** @param {{known: Model, rows: [number, number][]}} props */
function Metrics({ known, rows }) {
  const { metrics } = known.tables.results;
  const names = known.metrics.filter((name) => rows.some(([, row]) => metrics[name][row] !== null));
  if (!rows.length) return html`<p class="sub">not measured yet</p>`;
  return html`<div class="scroll short" tabindex="0" role="region" aria-label="Metrics by step"><table>
    <thead><tr><th scope="col">step</th>${names.map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
    <tbody>${[...rows].reverse().slice(0, 200).map(([step, row]) => html`<tr key=${step}><td>${number(step)}</td>${names.map((name) => html`<td key=${name}>${metric(metrics[name][row])}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {{known: Model, one: Trial, other: Trial}} props */
function Pair({ known, one, other }) {
  const shared = sharedSteps(known, one, other);
  const differs = new Set(differing(known.tables, [one.config, other.config]));
  const [mine, theirs] = [sequencesOf(known.tables, one.config), sequencesOf(known.tables, other.config)];
  const names = [...new Set([...mine.keys(), ...theirs.keys()])].sort((a, b) => Number(differs.has(b)) - Number(differs.has(a)));
  const [first, second] = [new Map(resultsOf(known, one)), new Map(resultsOf(known, other))];
  const steps = [...new Set([...first.keys(), ...second.keys()])].sort((a, b) => b - a);
  /** @param {number|undefined} row */
  const value = (row) => metric(row === undefined ? null : known.measured[row]);
  /** @param {number|undefined} sequence */
  const text = (sequence) => (sequence === undefined ? "" : known.tables.sequences.text[sequence]);
  return html`<h2>Trial ${one.number} and trial ${other.number}</h2>
    <p class="sub">${shared ? `They share ${number(shared)} of ${number(Math.min(one.asked, other.asked))} steps, trained once.` : "They share no step."}</p>
    <table class="pair"><thead><tr><th scope="col"><span class="hidden">hyper-parameter</span></th><th scope="col" class="accent">— ${one.number}</th><th scope="col" class="second">┄ ${other.number}</th></tr></thead>
      <tbody>${names.map((name) => html`<tr key=${name} class=${differs.has(name) ? "differs" : ""}><th scope="row">${name}${differs.has(name) ? html`<span class="hidden"> differs</span>` : ""}</th><td><code>${text(mine.get(name))}</code></td><td><code>${text(theirs.get(name))}</code></td></tr>`)}</tbody></table>
    <h3>${known.aim.metric} by step</h3>
    <div class="scroll short" tabindex="0" role="region" aria-label="Values by step"><table><thead><tr><th scope="col">step</th><th scope="col">${one.number}</th><th scope="col">${other.number}</th><th scope="col">difference</th></tr></thead>
      <tbody>${steps.map((step) => {
        const [a, b] = [first.get(step), second.get(step)];
        const [x, y] = [a === undefined ? null : known.measured[a], b === undefined ? null : known.measured[b]];
        return html`<tr key=${step} class=${step <= shared ? "shared" : ""}><td>${number(step)}</td><td>${value(a)}</td><td>${value(b)}</td><td>${step <= shared ? "shared" : x === null || y === null || x === undefined || y === undefined ? "" : metric(x - y)}</td></tr>`;
      })}</tbody></table></div>
    <p><button type="button" class="link" onClick=${() => compare(other.id)}>Show trial ${one.number} alone</button></p>`;
}

/** @param {{known: Model, node: number, from: number, to: number}} props */
function StageDetail({ known, node, from, to }) {
  const trials = trialsThrough(known, node, from);
  trials.sort((a, b) => (a.rank || Infinity) - (b.rank || Infinity));
  const kept = [...(known.keptOf[node]?.keys() ?? [])].filter((step) => step > from && step <= to);
  return html`<h2>Steps ${number(from)}–${number(to)}</h2>
    <p class="sub">of node ${node}, shared by ${plural(trials.length, "trial")}${kept.length ? `; checkpoints at ${kept.map(number).join(", ")}` : ""}</p>
    <p><code>${changes(known, node)}</code></p>
    <${Config} known=${known} config=${known.tables.nodes.config[node]} />
    <h3>Its trials, the best first</h3>
    <${TrialList} known=${known} trials=${trials} />
    <${StageActions} node=${node} from=${from} to=${to} />`;
}

/** @param {{known: Model, trials: Trial[]}} props */
const TrialList = ({ known, trials }) => html`<ul class="list">${trials.slice(0, 30).map((trial) => html`<li key=${trial.id}>
    <span class=${`state ${trial.state}`} aria-hidden="true">${shapes[trial.state]}</span>
    <button type="button" class="link" onClick=${() => select({ kind: "trial", id: trial.id })}>trial ${trial.number}</button> ${metric(trial.value)}${trial.at >= 0 ? ` at step ${number(trial.at)}` : ""}</li>`)}
  </ul>${trials.length > 30 && html`<p class="sub">and ${number(trials.length - 30)} more</p>`}`;

/** @param {{known: Model, worker: number}} props */
function WorkerDetail({ known, worker }) {
  const { spans } = known.tables;
  let seconds = 0;
  let steps = 0;
  let count = 0;
  for (let row = 0; row < spans.worker.length; row++) {
    if (spans.worker[row] !== worker) continue;
    seconds += spans.ended[row] - spans.began[row];
    steps += spans.last[row] - spans.first[row];
    count++;
  }
  const lease = known.pulse?.leases.find((each) => each.workers.includes(worker));
  return html`<h2>Worker ${worker}</h2>
    <p class="sub">${plural(count, "stretch").replace("stretchs", "stretches")}, ${number(steps)} steps in ${duration(seconds)}</p>
    ${lease ? html`<p>It trains now: step ${number(lease.at)} on the way to ${number(lease.end)}.</p>` : known.pulse ? html`<p>It is idle.</p>` : ""}`;
}

/** @param {{known: Model, ids: number[], label: string}} props */
function Several({ known, ids, label }) {
  const trials = ids.map((id) => trialsById.value.get(id)).filter((trial) => trial !== undefined);
  return html`<h2>${plural(trials.length, "trial")}</h2><p class="sub">${label}</p><${TrialList} known=${known} trials=${trials} />`;
}
