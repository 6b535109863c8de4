// The first screen: how the study stands.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colour } from "../parts/colour.js";
import { duration, gist, metric, number, plural, shapes, size, tick } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Empty, Panel } from "../parts/panel.js";
import { Table } from "../parts/table.js";
import { model, select, theme } from "../state.js";

/** @typedef {import("../model/derive.js").Model} Model */

export function Overview() {
  const known = model.value;
  return html`<div class="overview">
    <h2 class="hidden">Overview</h2>
    <div class="tiles">
      <${BestTile} known=${known} /><${StepsTile} known=${known} /><${SharingTile} known=${known} />
      <${TrialsTile} known=${known} /><${WorkersTile} known=${known} /><${LimitsTile} known=${known} />
    </div>
    <${BestSoFar} />
    <${Failures} known=${known} />
  </div>`;
}

/** @param {{name: string, value: any, children?: any, class?: string}} props */
const Tile = ({ name, value, children, class: extra = "" }) =>
  html`<div class=${`tile ${extra}`}><h3>${name}</h3><p class="value">${value}</p><div class="more">${children}</div></div>`;

/** @param {{known: Model}} props */
function BestTile({ known }) {
  const { best, aim } = known;
  if (!best) return html`<${Tile} name=${`Best ${aim.metric}`} value="–">nothing measured yet</${Tile}>`;
  return html`<${Tile} name=${`Best ${aim.metric}`} class="best" value=${html`<span class="accent" aria-hidden="true">★</span> ${metric(best.value)}`}>
    <button type="button" class="link" onClick=${() => select({ kind: "trial", id: best.trial.id })}>trial ${best.trial.number}</button> at step ${number(best.step)}, ${aim.mode === "max" ? "more" : "less"} is better
  </${Tile}>`;
}

/** @param {{known: Model}} props */
function StepsTile({ known }) {
  const { done, unique } = known.totals;
  if (!unique) return html`<${Tile} name="Steps trained" value="–">no step is asked for yet</${Tile}>`;
  const share = unique ? done / unique : 0;
  const { usual, slots, chain } = known.pulse ?? { usual: null, slots: 0, chain: 0 };
  const left = usual && slots && done < unique ? usual * Math.max(chain, (unique - done) / slots) : 0;
  return html`<${Tile} name="Steps trained" value=${html`${number(done)} <small>of ${number(unique)}</small>`}>
    <div class="bar" role="progressbar" aria-label="Steps trained" aria-valuenow=${Math.round(100 * share)} aria-valuemin="0" aria-valuemax="100"><i style=${{ width: `${100 * share}%` }}></i></div>
    ${left ? `about ${duration(left)} left` : `${Math.floor(100 * share)} %${known.totals.proofSteps ? `, ${number(known.totals.proofSteps)} repeated as proofs` : ""}`}
  </${Tile}>`;
}

/** @param {{known: Model}} props */
function SharingTile({ known }) {
  const { asked, unique } = known.totals;
  const saved = asked ? 1 - unique / asked : 0;
  if (!asked) return html`<${Tile} name="Saved by sharing" value="–">no step is asked for yet</${Tile}>`;
  return html`<${Tile} name="Saved by sharing" value=${`${Math.round(100 * saved)} %`}>
    <div class="bar shared" aria-hidden="true"><i style=${{ width: `${100 * (1 - saved)}%` }}></i></div>
    ${number(asked)} asked, ${number(unique)} unique: ${(asked / Math.max(unique, 1)).toFixed(2)}×
  </${Tile}>`;
}

/** @param {{known: Model}} props */
function TrialsTile({ known }) {
  const counts = new Map();
  for (const trial of known.trials) counts.set(trial.state, (counts.get(trial.state) ?? 0) + 1);
  return html`<${Tile} name="Trials" value=${number(known.trials.length)}>
    ${!known.trials.length && "none is asked for yet"}
    <ul class="states">${["done", "running", "unfinished", "stopped", "failed", "suspended"].filter((state) => counts.get(state)).map((state) =>
      html`<li key=${state}><span class=${`state ${state}`} aria-hidden="true">${shapes[state]}</span> ${number(counts.get(state))} ${state}</li>`)}</ul>
  </${Tile}>`;
}

/** @param {{known: Model}} props */
function WorkersTile({ known }) {
  const { pulse, tables } = known;
  if (pulse) {
    const busy = new Set(pulse.leases.flatMap((lease) => lease.workers)).size;
    const all = busy + pulse.workers.idle.length;
    const starting = pulse.workers.expected - all;
    return html`<${Tile} name="Workers busy" value=${html`${busy} <small>of ${Math.max(all, pulse.workers.expected)}</small>`}>
      ${starting > 0 ? `${starting} starting` : `${duration(known.totals.seconds)} of worker time so far`}
    </${Tile}>`;
  }
  const workers = new Set(tables.spans.worker).size;
  return html`<${Tile} name="Worker time" value=${duration(known.totals.seconds)}>${workers ? `on ${plural(workers, "worker")}` : "nothing trained yet"}${known.totals.bytes ? `, ${size(known.totals.bytes)} of checkpoints` : ""}</${Tile}>`;
}

/** @param {{known: Model}} props */
function LimitsTile({ known }) {
  const limits = Object.values(known.pulse?.limits ?? {});
  const deadline = limits.map((each) => each.deadline).find((each) => each !== null && each !== undefined);
  const budget = limits.map((each) => each.budget).find((each) => each !== null && each !== undefined);
  const proved = saidOf(known) ?? "not rehearsed yet";
  if (deadline !== undefined || budget !== undefined) {
    return html`<${Tile} name=${deadline !== undefined ? "Deadline" : "Budget"} value=${html`<small>in</small> ${duration(Number(deadline ?? budget))}`}>
      ${deadline !== undefined && budget !== undefined ? `budget for ${duration(Number(budget))}` : `resumed trials: ${proved}`}</${Tile}>`;
  }
  const [word, ...rest] = proved.split(/[:,] ?/);
  return html`<${Tile} name="Resumed trials" class="words" value=${word}>${rest.join(", ") || "no deadline, no budget"}</${Tile}>`;
}

/** What the proofs say. @param {Model} known */
function saidOf(known) {
  const { kind, outcome, text } = known.tables.proofs;
  const differs = outcome.findIndex((each, row) => each === "differs" && kind[row] !== "width");
  if (differs >= 0) return `not exact: ${text[differs]}`;
  if (!kind.includes("rehearsal")) return null;
  const audits = kind.filter((each) => each === "audit").length;
  const noisy = outcome.includes("noisy");
  return `${noisy ? "equal up to noise" : "exact"}: rehearsed${audits ? `, ${plural(audits, "step")} repeated at branches` : ""}`;
}

function BestSoFar() {
  const known = model.value;
  const { x, y } = known.progress;
  return html`<${Panel} id="progress" title="Best so far" empty=${!known.best} remark=${known.best ? `${known.aim.metric} over unique steps trained` : ""}
    table=${() => html`<${Table} label="Best so far" height=${150} rows=${x.map((steps, place) => ({ steps, value: y[place] })).filter((row) => row.value !== null)} rowKey=${(/** @type {any} */ row) => row.steps}
      columns=${[
        { name: "steps", title: "unique steps", value: (/** @type {any} */ row) => row.steps, show: (/** @type {any} */ row) => number(row.steps) },
        { name: "value", title: known.aim.metric, value: (/** @type {any} */ row) => row.value, show: (/** @type {any} */ row) => metric(row.value) },
      ]} />`}>
    ${known.best ? html`<${ProgressPlot} />` : html`<${Empty}>No result yet.</${Empty}>`}
  </${Panel}>`;
}

function ProgressPlot() {
  const frame = useRef(/** @type {HTMLDivElement|null} */ (null));
  const plot = useRef(/** @type {uPlot|null} */ (null));
  useEffect(() => {
    const element = /** @type {HTMLDivElement} */ (frame.current);
    const axis = { stroke: () => colour("quiet"), font: `11px ${colour("font")}`, ticks: { show: false }, grid: { stroke: () => colour("grid"), width: 1 } };
    const made = new uPlot(
      {
        width: element.clientWidth, height: element.clientHeight, legend: { show: false }, padding: [8, 12, 0, 0], cursor: { show: false },
        scales: { x: { time: false } },
        axes: [
          { ...axis, size: 26, values: (_, found) => found.map((value) => number(value)) },
          { ...axis, size: 52, space: 24, values: (_, found) => found.map((value) => tick(value)) },
        ],
        series: [{}, { stroke: () => colour("accent"), width: 2, fill: () => colour("accent-wash"), paths: uPlot.paths.stepped?.({ align: 1 }), points: { show: false } }],
      },
      data(),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, []);
  useSignalEffect(() => {
    theme.value;
    model.value;
    plot.current?.setData(data());
  });
  const { best } = model.value;
  return html`<div class="plot low" ref=${frame} role="img" aria-label=${`The best ${model.value.aim.metric} over unique steps: ${metric(best?.value)} now; the same is in the table.`}></div>`;
}

/** @returns {uPlot.AlignedData} */
function data() {
  const { x, y } = model.value.progress;
  const first = y.findIndex((value) => value !== null);
  const end = Math.max(model.value.totals.done, x[x.length - 1]);
  return [[...x.slice(first), end], [...y.slice(first), y[y.length - 1]]];
}

/** @param {{known: Model}} props */
function Failures({ known }) {
  /** @type {Map<string, import("../model/derive.js").Trial[]>} */
  const found = new Map();
  for (const trial of known.trials) {
    if (!trial.error) continue;
    const said = `${trial.state} ${gist(trial.error, trial.state === "suspended")}`;
    const alike = found.get(said);
    if (alike) alike.push(trial);
    else found.set(said, [trial]);
  }
  if (!found.size) return null;
  return html`<div class="failures" role="region" aria-label="What failed">${[...found].slice(0, 4).map(([said, trials]) => html`<p key=${said}>
    <span class=${`state ${trials[0].state}`} aria-hidden="true">${shapes[trials[0].state]}</span>
    <button type="button" class="link" onClick=${() => select(trials.length === 1 ? { kind: "trial", id: trials[0].id } : { kind: "trials", ids: trials.map((trial) => trial.id), label: said })}>
      ${trials.length === 1 ? `trial ${trials[0].number}` : plural(trials.length, "trial")}</button> ${trials[0].state}: <code>${gist(trials[0].error, trials[0].state === "suspended")}</code>
  </p>`)}${found.size > 4 && html`<p>and ${plural(found.size - 4, "other error")}</p>`}</div>`;
}
