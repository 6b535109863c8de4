// All trials: filtered, sorted, and linked to everything else.
import { columnsOf, differingIn, written } from "../model/configs.js";
import { metric, number, plural, shapes } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Empty, Panel } from "../parts/panel.js";
import { Table } from "../parts/table.js";
import { beside, compare, hovered, lit, model, select, selected } from "../state.js";

/** @typedef {import("../model/derive.js").Trial} Trial */

const MOST_METRICS = 5;

export function Trials() {
  const known = model.value;
  const { tables, aim } = known;
  const names = differingIn(known);
  const others = known.metrics.filter((name) => name !== aim.metric).slice(0, MOST_METRICS);
  const light = lit.value;
  const several = new Set(known.trials.map((trial) => trial.study)).size > 1;
  const same = known.trials.length ? written(tables, known.trials[0].config).filter(([name]) => !names.includes(name)) : [];
  /** @param {string} name */
  const sequence = (name) => (/** @type {Trial} */ trial) => {
    return columnsOf(tables).get(name)?.[trial.config] ?? null;
  };
  const columns = [
    { name: "trial", title: "trial", value: (/** @type {Trial} */ trial) => trial.number },
    ...(several ? [{ name: "study", title: "study", left: true, value: (/** @type {Trial} */ trial) => tables.studies.name[trial.study] }] : []),
    { name: "state", title: "state", left: true, value: (/** @type {Trial} */ trial) => trial.state, show: (/** @type {Trial} */ trial) => html`<span class=${`state ${trial.state}`} aria-hidden="true">${shapes[trial.state]}</span> ${trial.state}` },
    { name: "rank", title: "rank", value: (/** @type {Trial} */ trial) => trial.rank || null, show: (/** @type {Trial} */ trial) => (trial.rank === 1 ? html`<span class="accent" aria-hidden="true">★ </span>1` : trial.rank || "–") },
    { name: aim.metric || "metric", title: aim.metric || "metric", value: (/** @type {Trial} */ trial) => trial.value, show: (/** @type {Trial} */ trial) => html`<b>${metric(trial.value)}</b>` },
    { name: "at", title: "at step", value: (/** @type {Trial} */ trial) => (trial.at < 0 ? null : trial.at), show: (/** @type {Trial} */ trial) => (trial.at < 0 ? "–" : number(trial.at)) },
    { name: "asked", title: "asked", value: (/** @type {Trial} */ trial) => trial.asked, show: (/** @type {Trial} */ trial) => number(trial.asked) },
    { name: "trained", title: "trained", value: (/** @type {Trial} */ trial) => trial.trained, show: (/** @type {Trial} */ trial) => html`<span class="meter"><i style=${{ width: `${(100 * trial.trained) / Math.max(trial.asked, 1)}%` }}></i></span>${number(trial.trained)}` },
    ...others.map((name) => ({ name, title: name, value: (/** @type {Trial} */ trial) => (trial.row < 0 ? null : (tables.results.metrics[name][trial.row] ?? null)), show: (/** @type {Trial} */ trial) => metric(trial.row < 0 ? null : tables.results.metrics[name][trial.row]) })),
    ...names.map((name) => ({
      name, title: name, left: true,
      value: (/** @type {Trial} */ trial) => {
        const found = sequence(name)(trial);
        return found === null ? null : typeof tables.sequences.value[found] === "number" ? tables.sequences.value[found] : tables.sequences.text[found];
      },
      show: (/** @type {Trial} */ trial) => {
        const found = sequence(name)(trial);
        return found === null ? "" : html`<code>${tables.sequences.text[found]}</code>`;
      },
    })),
  ];
  return html`<${Panel} id="trials" title="Trials" class="whole" remark=${known.trials.length ? `${plural(known.trials.length, "trial")}${same.length ? `; in all of them ${same.map(([name, text]) => `${name} ${text}`).join(" · ")}` : ""}. Select one; with Shift, put a second beside it.` : ""}>
    ${known.trials.length
      ? html`<${Table} label="Trials" rows=${known.trials} rowKey=${(/** @type {Trial} */ trial) => trial.id} columns=${columns} height=${416} sort=${["rank", true]} filter
          rowClass=${(/** @type {Trial} */ trial) => `${light?.trials.has(trial.id) ? "lit" : ""} ${selected.value?.kind === "trial" && selected.value.id === trial.id ? "selected" : ""} ${beside.value === trial.id ? "beside" : ""}`}
          onHover=${(/** @type {Trial|null} */ trial) => (hovered.value = trial && { kind: "trial", id: trial.id })}
          onPick=${(/** @type {Trial} */ trial, /** @type {MouseEvent} */ event) => (event.shiftKey ? compare(trial.id) : select({ kind: "trial", id: trial.id }))} />`
      : html`<${Empty}>No trial yet.</${Empty}>`}
  </${Panel}>`;
}
