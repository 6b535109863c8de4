// Learning curves along the tree: what trials share is drawn once.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { perModel } from "../model/memo.js";
import { pathOf, resultsOf } from "../model/paths.js";
import { shareOf } from "../model/ranks.js";
import { colour } from "../parts/colour.js";
import { metric, number, plural, tick } from "../parts/format.js";
import { html } from "../parts/html.js";
import { goByRank } from "../parts/keys.js";
import { Empty, Panel } from "../parts/panel.js";
import { Table } from "../parts/table.js";
import { beside, hovered, lit, model, picked, select, selected, theme, trialsById } from "../state.js";
import { drawCurves } from "./draw_curves.js";

/**
 * @typedef {import("../model/derive.js").Model} Model
 * @typedef {import("./draw_curves.js").Curve} Curve
 */

export function Curves() {
  const known = model.value;
  const [log, setLog] = useState(false);
  const curves = curvesOf(known);
  const points = curves.reduce((sum, curve) => sum + curve.steps.length, 0);
  return html`<${Panel} id="curves" title="Learning curves" remark=${points ? `${known.aim.metric} along the tree: what trials share is drawn once. Drag to zoom, double-click for all.` : ""} empty=${!points}
    table=${() => html`<${PointTable} />`}
    controls=${html`<button type="button" class="quiet" aria-pressed=${log} onClick=${() => setLog(!log)}>Log</button>`}>
    ${points
      ? html`<${CurvePlot} log=${log} /><${CurveCaption} />`
      : html`<${Empty}>Nothing has been measured yet${known.aim.metric ? ` by ${known.aim.metric}` : ""}. Curves begin with the first evaluation.</${Empty}>`}
  </${Panel}>`;
}

/** A curve for each node: its own points, from the last one on the way to it. */
const curvesOf = perModel((/** @type {Model} */ known) => {
  /** @type {Curve[]} */
  const curves = [];
  /** @type {[number, number][][]} */
  const all = new Array(known.count);
  for (let node = 0; node < known.count; node++) {
    if (known.reach[node] < 0) continue;
    /** @type {[number, number][]} */
    const points = [];
    for (const [step, row] of known.rowsOf[node] ?? []) {
      const value = known.measured[row];
      if (step <= known.reach[node] && value !== null && value !== undefined) points.push([step, value]);
    }
    points.sort((a, b) => a[0] - b[0]);
    all[node] = points;
    if (!points.length) continue;
    const before = lastBefore(known, all, node);
    const joined = before !== null;
    const drawn = before ? [before, ...points] : points;
    let best = points[0][1];
    for (const [, value] of points) if (known.sign * value > known.sign * best) best = value;
    curves.push({ node, steps: drawn.map(([step]) => step), values: drawn.map(([, value]) => value), best, share: shareOf(known.values, known.sign, best), joined });
  }
  return curves;
});

/** @param {Model} known @param {[number, number][][]} all @param {number} node @returns {[number, number]|null} */
function lastBefore(known, all, node) {
  let limit = known.start[node];
  for (let above = known.parent[node]; above >= 0; above = known.parent[above]) {
    const points = all[above] ?? [];
    for (let place = points.length - 1; place >= 0; place--) if (points[place][0] <= limit) return points[place];
    limit = Math.min(limit, known.start[above]);
  }
  return null;
}

/** @param {{log: boolean}} props */
function CurvePlot({ log }) {
  const frame = useRef(/** @type {HTMLDivElement|null} */ (null));
  const plot = useRef(/** @type {uPlot|null} */ (null));
  const drawn = useRef({ known: model.value, curves: curvesOf(model.value) });

  useEffect(() => {
    const element = /** @type {HTMLDivElement} */ (frame.current);
    const axis = {
      stroke: () => colour("quiet"), font: `11px ${colour("font")}`, ticks: { show: false }, grid: { stroke: () => colour("grid"), width: 1 },
    };
    const made = new uPlot(
      {
        width: element.clientWidth, height: element.clientHeight, legend: { show: false }, padding: [10, 12, 0, 0],
        cursor: { drag: { x: true, y: true, uni: 30 }, points: { show: false }, x: false, y: false },
        scales: {
          x: { time: false, range: (_, low, high) => [low, high] },
          y: { distr: log ? 3 : 1, range: log ? (_, low, high) => [low, high] : (_, low, high) => widened(low, high) },
        },
        axes: [
          { ...axis, size: 30, values: (_, found) => found.map((value) => number(value)) },
          { ...axis, size: 52, values: (_, found) => found.map((value) => (value === null ? "" : tick(value))) },
        ],
        series: [{}, { stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } }],
        hooks: { draw: [(self) => drawCurves(self, drawn.current.known, drawn.current.curves)] },
      },
      bounds(drawn.current.known, drawn.current.curves, log),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    /** @param {PointerEvent} event @returns {import("../model/paths.js").Item|null} */
    const item = (event) => {
      const box = made.over.getBoundingClientRect();
      const curve = nearest(made, drawn.current.curves, event.clientX - box.left, event.clientY - box.top);
      const { start, reach } = drawn.current.known;
      return curve && { kind: "stage", node: curve.node, from: start[curve.node], to: reach[curve.node] };
    };
    let down = [0, 0];
    made.over.addEventListener("pointermove", (event) => (hovered.value = item(event)));
    made.over.addEventListener("pointerleave", () => (hovered.value = null));
    made.over.addEventListener("pointerdown", (event) => (down = [event.clientX, event.clientY]));
    made.over.addEventListener("pointerup", (event) => {
      if (Math.abs(event.clientX - down[0]) + Math.abs(event.clientY - down[1]) >= 4) return;
      const found = item(event);
      const step = Math.round(made.posToVal(event.clientX - made.over.getBoundingClientRect().left, "x"));
      // Beside all curves, a step of the selected trial is picked: Escape lets go of it.
      if (!found && selected.value?.kind !== "trial") return select(null);
      picked.value = Math.max(step, 1);
      if (found) selectCurve(found);
    });
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [log]);
  useSignalEffect(() => {
    theme.value;
    const known = model.value;
    const curves = curvesOf(known);
    const fresh = known !== drawn.current.known;
    drawn.current = { known, curves };
    if (fresh) plot.current?.setData(bounds(known, curves, log));
  });
  useSignalEffect(() => {
    lit.value;
    beside.value;
    picked.value;
    theme.value;
    plot.current?.redraw(false);
  });
  const known = model.value;
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (goByRank(event) || !step) return;
    const trial = selected.value?.kind === "trial" ? trialsById.value.get(selected.value.id) : undefined;
    const steps = trial ? resultsOf(known, trial).map(([at]) => at) : [];
    const here = steps.findIndex((at) => at >= (picked.value ?? Infinity));
    if (steps.length) picked.value = steps[here < 0 ? steps.length - 1 : Math.min(Math.max(here + step, 0), steps.length - 1)];
    event.preventDefault();
  };
  return html`<div class="plot" ref=${frame} tabindex="0" role="img" onKeyDown=${onKey}
    aria-label=${`${known.aim.metric} over steps for ${plural(known.trials.length, "trial")}; the same is in the table. Up and down go from trial to trial, Enter selects one, left and right pick a step of it.`}></div>`;
}

/** Selects what a curve stands for: its trial, where it is that of one only. @param {import("../model/paths.js").Item} item */
function selectCurve(item) {
  if (item.kind !== "stage") return undefined;
  // A trial that is selected stays so while points are picked along its way.
  const chosen = selected.value?.kind === "trial" ? trialsById.value.get(selected.value.id) : undefined;
  if (chosen && pathOf(model.value, chosen).some(([node]) => node === item.node)) return undefined;
  const own = model.value.own[item.node] ?? [];
  select(own.length === 1 && !model.value.children[item.node] ? { kind: "trial", id: own[0].id } : item);
}

/** What decides the ranges of the axes. @param {Model} known @param {Curve[]} curves @param {boolean} log @returns {uPlot.AlignedData} */
function bounds(known, curves, log) {
  const all = curves.flatMap((curve) => curve.values).filter((value) => !log || value > 0).sort((a, b) => a - b);
  if (!all.length) return [[0, 1], [0, 1], [0, 1]];
  // A few that have gone astray must not flatten all others.
  const outer = (/** @type {number} */ share) => all[Math.round(share * (all.length - 1))];
  const [low, high] = known.sign > 0 ? [outer(0.02), all[all.length - 1]] : [all[0], outer(0.98)];
  const first = Math.min(...curves.map((curve) => curve.steps[0]).slice(0, 1e5));
  return [[Math.min(first, 0), Math.max(known.totals.last, 1)], [low, low], [high, high]];
}

/** @param {number} low @param {number} high @returns {[number, number]} */
function widened(low, high) {
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}

/** @param {uPlot} self @param {Curve[]} curves @param {number} px @param {number} py */
function nearest(self, curves, px, py) {
  let found = null;
  let closest = 20 ** 2;
  for (const curve of curves) {
    for (let place = curve.joined ? 1 : 0; place < curve.steps.length; place++) {
      const [bx, by] = [self.valToPos(curve.steps[place], "x"), self.valToPos(curve.values[place], "y")];
      let apart = (bx - px) ** 2 + (by - py) ** 2;
      if (place) {
        const [ax, ay] = [self.valToPos(curve.steps[place - 1], "x"), self.valToPos(curve.values[place - 1], "y")];
        const long = (bx - ax) ** 2 + (by - ay) ** 2 || 1;
        const along = Math.min(Math.max(((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / long, 0), 1);
        apart = Math.min(apart, (ax + along * (bx - ax) - px) ** 2 + (ay + along * (by - ay) - py) ** 2);
      }
      if (apart < closest) [closest, found] = [apart, curve];
    }
  }
  return found;
}

function CurveCaption() {
  const known = model.value;
  const item = hovered.value ?? selected.value;
  const trial = item?.kind === "trial" ? trialsById.value.get(item.id) : undefined;
  if (trial) {
    const at = picked.value === null ? "" : `; step ${number(picked.value)} is picked`;
    return html`<p class="caption" role="status"><b>trial ${trial.number}</b>: ${known.aim.metric} ${metric(trial.value)} at step ${number(Math.max(trial.at, 0))}${at}</p>`;
  }
  if (lit.value) return html`<p class="caption" role="status"><b>${plural(lit.value.trials.size, "trial")}</b> lit up</p>`;
  return html`<p class="caption">${known.best ? html`<span class="accent">★</span> trial ${known.best.trial.number}: ${metric(known.best.value)} at step ${number(known.best.step)}` : ""}</p>`;
}

function PointTable() {
  const known = model.value;
  /** @type {{step: number, value: number, trials: number, node: number}[]} */
  const rows = [];
  for (const curve of curvesOf(known)) {
    curve.steps.forEach((step, place) => {
      if (place || !curve.joined) rows.push({ step, value: curve.values[place], trials: known.weight[curve.node], node: curve.node });
    });
  }
  /** @typedef {typeof rows[0]} Point */
  return html`<${Table} label="Measured values" rows=${rows} rowKey=${(/** @type {Point} */ row) => `${row.node} ${row.step}`} height=${380} sort=${["step", false]} filter
    onHover=${(/** @type {Point|null} */ row) => (hovered.value = row && { kind: "stage", node: row.node, from: known.start[row.node], to: known.reach[row.node] })}
    onPick=${(/** @type {Point} */ row) => selectCurve({ kind: "stage", node: row.node, from: known.start[row.node], to: known.reach[row.node] })}
    columns=${[
      { name: "step", title: "step", value: (/** @type {Point} */ row) => row.step, show: (/** @type {Point} */ row) => number(row.step) },
      { name: "value", title: known.aim.metric, value: (/** @type {Point} */ row) => row.value, show: (/** @type {Point} */ row) => metric(row.value) },
      { name: "node", title: "node", value: (/** @type {Point} */ row) => row.node },
      { name: "trials", title: "trials on it", value: (/** @type {Point} */ row) => row.trials },
    ]} />`;
}
