// Parallel coordinates: a line for each trial through its values. Brushing an axis chooses trials.
import { useRef, useState } from "preact/hooks";
import { axesOf, valueOn } from "../model/configs.js";
import { perModel } from "../model/memo.js";
import { Canvas, firstAtPlace, fit, place } from "../parts/canvas.js";
import { shareOf } from "../model/ranks.js";
import { colour, shade } from "../parts/colour.js";
import { metric, plural, tick } from "../parts/format.js";
import { html } from "../parts/html.js";
import { goByRank } from "../parts/keys.js";
import { Empty, Panel } from "../parts/panel.js";
import { useModelInSight } from "../parts/sight.js";
import { Table } from "../parts/table.js";
import { EMPTY, hovered, lit, select, selected } from "../state.js";

/**
 * @typedef {import("../model/derive.js").Model} Model
 * @typedef {import("../model/derive.js").Trial} Trial
 * @typedef {{trial: Trial, share: number|null, at: (number|null)[]}} Line where a trial is on each axis
 * @typedef {{name: string, place: (trial: Trial) => number|null, text: (trial: Trial) => string, ends: [string, string], marks: [number, string][]}} Scale
 */

const TOP = 34;
const BOTTOM = 24;
const LEFT = 24;
const RIGHT = 56;
const MOST_AXES = 6;

export function Parallel() {
  const seen = useModelInSight("parallel");
  const known = seen ?? EMPTY;
  const light = lit.value;
  const { trials, scales, lines } = scaled(known);
  const [brushes, setBrushes] = useState(/** @type {Record<string, [number, number]>} */ ({}));
  const size = useRef({ width: 1, height: 1 });
  const drag = useRef(/** @type {{name: string, from: number, to: number, moved: boolean}|null} */ (null));
  const within = (/** @type {Line} */ line, chosen = brushes) => scales.every((scale, index) => {
    const brush = chosen[scale.name];
    const at = line.at[index];
    return !brush || (at !== null && at >= brush[0] - 0.005 && at <= brush[1] + 0.005);
  });
  /** @param {Record<string, [number, number]>} next */
  const brush = (next) => {
    setBrushes(next);
    if (!Object.keys(next).length) return select(null);
    const ids = lines.filter((line) => within(line, next)).map((line) => line.trial.id);
    selected.value = { kind: "trials", ids, label: "within the ranges that were marked on the axes" };
  };
  /** @param {number} place_ */
  const x = (place_) => LEFT + (place_ / Math.max(scales.length - 1, 1)) * (size.current.width - LEFT - RIGHT);
  /** @param {number} at */
  const y = (at) => TOP + (1 - at) * (size.current.height - TOP - BOTTOM);
  /** @param {number} py */
  const share = (py) => Math.min(Math.max(1 - (py - TOP) / (size.current.height - TOP - BOTTOM), 0), 1);
  const handlers = {
    /** @param {PointerEvent} event */
    onPointerDown: (event) => {
      const [px, py] = place(event);
      const axis = scales.findIndex((_, index) => Math.abs(x(index) - px) < 14);
      drag.current = axis < 0 ? null : { name: scales[axis].name, from: share(py), to: share(py), moved: false };
      if (drag.current) /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    },
    /** @param {PointerEvent} event */
    onPointerMove: (event) => {
      const [px, py] = place(event);
      if (drag.current && event.buttons) {
        const to = (drag.current.to = share(py));
        if (Math.abs(to - drag.current.from) > 0.02) drag.current.moved = true;
        if (drag.current.moved) setBrushes({ ...brushes, [drag.current.name]: [Math.min(drag.current.from, to), Math.max(drag.current.from, to)] });
        return;
      }
      const trial = nearest(lines.filter((line) => within(line)), x, y, px, py);
      hovered.value = trial ? { kind: "trial", id: trial.id } : null;
    },
    onPointerUp: () => {
      if (!drag.current) return;
      const { name, from, to, moved } = drag.current;
      const { [name]: before, ...rest } = brushes;
      if (moved) brush({ ...rest, [name]: [Math.min(from, to), Math.max(from, to)] });
      else if (before) brush(rest);
    },
    onPointerLeave: () => (hovered.value = null),
    onKeyDown: goByRank,
    onClick: () => {
      if (drag.current) drag.current = null; // which was for an axis
      else if (hovered.value?.kind === "trial") select(hovered.value);
    },
  };
  const kept = Object.keys(brushes).length ? lines.filter((line) => within(line)) : lines;
  return html`<${Panel} id="parallel" title="Parallel coordinates" ready=${seen !== null} empty=${!trials.length || scales.length < 2} remark=${trials.length ? `A line for each of ${plural(trials.length, "trial")}. Drag along an axis to choose some${kept.length < lines.length ? `: ${kept.length} chosen` : ""}.` : ""}
    table=${() => html`<${ValueTable} known=${known} trials=${trials} scales=${scales} />`}
    controls=${html`<button type="button" class="quiet" disabled=${!Object.keys(brushes).length} onClick=${() => brush({})}>All</button>`}>
    ${trials.length && scales.length > 1
      ? html`<${Canvas} height=${300} handlers=${handlers} label=${`Parallel coordinates of ${plural(trials.length, "trial")} over ${scales.map((scale) => scale.name).join(", ")}; the same is in the table. Up and down go from trial to trial, Enter selects one.`}
          draw=${(/** @type {import("../parts/canvas.js").Surface} */ surface) => {
            size.current = surface;
            drawLines(surface, known, lines, scales, brushes, within, x, y, light);
          }} />`
      : html`<${Empty}>${trials.length ? "All trials have the same config." : "No trial has a result yet."}</${Empty}>`}
  </${Panel}>`;
}

const scaled = perModel((/** @type {Model} */ known) => {
  const trials = known.trials.filter((trial) => trial.value !== null);
  const scales = scalesOf(known, trials);
  const lines = [...trials].sort((a, b) => b.rank - a.rank).map((trial) => ({ trial, share: shareOf(known.values, known.sign, trial.value), at: scales.map((scale) => scale.place(trial)) }));
  return { trials, scales, lines };
});

/** @param {Model} known @param {Trial[]} trials @returns {Scale[]} */
function scalesOf(known, trials) {
  // Those that all trials have come first, as there is no room for all of them.
  /** @param {import("../model/configs.js").Axis} axis */
  const having = (axis) => trials.reduce((count, trial) => count + Number(valueOn(axis, trial.config) !== undefined), 0);
  const axes = axesOf(known)
    .map((axis) => ({ axis, count: having(axis) }))
    .sort((a, b) => b.count - a.count)
    .slice(0, MOST_AXES)
    .map(({ axis }) => axis);
  const values = trials.map((trial) => Number(trial.value));
  const scales = axes.map((axis) => {
    if (axis.kind === "choice") {
      const choices = [...new Set(axis.of.values())].sort((a, b) => String(a).localeCompare(String(b), "en", { numeric: true }));
      const at = new Map(choices.map((each, index) => [each, choices.length > 1 ? index / (choices.length - 1) : 0.5]));
      return {
        name: axis.name, ends: /** @type {[string, string]} */ (["", ""]), marks: /** @type {[number, string][]} */ (choices.map((each) => [at.get(each), String(each)])),
        place: (/** @type {Trial} */ trial) => at.get(/** @type {any} */ (valueOn(axis, trial.config))) ?? null,
        text: (/** @type {Trial} */ trial) => String(valueOn(axis, trial.config) ?? ""),
      };
    }
    return numeric(axis.name, (trial) => /** @type {number|undefined} */ (valueOn(axis, trial.config)) ?? null, [...axis.of.values()].map(Number), axis.log);
  });
  if (values.length) scales.push(numeric(known.aim.metric, (trial) => trial.value, values, false));
  return scales;
}

/** @param {string} name @param {(trial: Trial) => number|null} of @param {number[]} values @param {boolean} log @returns {Scale} */
function numeric(name, of, values, log) {
  const scale = log ? Math.log : (/** @type {number} */ value) => value;
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const span = scale(high) - scale(low) || 1;
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  return {
    name, ends: [tick(low), tick(high)],
    marks: distinct.length <= 8 ? distinct.map((value) => [(scale(value) - scale(low)) / span, tick(value)]) : [],
    place: (trial) => {
      const value = of(trial);
      return value === null ? null : (scale(value) - scale(low)) / span;
    },
    text: (trial) => {
      const value = of(trial);
      return value === null ? "" : tick(value);
    },
  };
}

/** @param {import("../parts/canvas.js").Surface} surface @param {Model} known @param {Line[]} lines from the worst to the best @param {Scale[]} scales
 * @param {Record<string, [number, number]>} brushes @param {(line: Line) => boolean} within @param {(place: number) => number} x @param {(at: number) => number} y
 * @param {import("../model/paths.js").Lit|null} light */
function drawLines({ context, width, height }, known, lines, scales, brushes, within, x, y, light) {
  const brushed = Object.keys(brushes).length > 0;
  /** @param {Line} line */
  const trace = (line) => {
    context.beginPath();
    let open = false;
    line.at.forEach((at, index) => {
      if (at === null) open = false;
      else if (open) context.lineTo(x(index), y(at));
      else {
        context.moveTo(x(index), y(at));
        open = true;
      }
    });
    context.stroke();
  };
  const crowded = lines.length > 300;
  for (const line of crowded ? distinct(lines, y, within) : lines) {
    const { trial } = line;
    const isLit = light?.trials.has(trial.id);
    if (isLit && !brushed) continue;
    context.strokeStyle = shade(line.share);
    context.globalAlpha = brushed ? (within(line) ? 0.9 : 0.06) : light ? 0.12 : crowded ? 0.35 : 0.75;
    context.lineWidth = crowded ? 1 : 1.5;
    trace(line);
  }
  if (light && (!brushed || light.trials.size < 3)) {
    context.globalAlpha = light.trials.size > 200 ? 0.4 : 1;
    context.strokeStyle = colour("accent");
    context.lineWidth = light.trials.size > 40 ? 1 : 2.5;
    const shown = lines.filter(({ trial }) => light.trials.has(trial.id));
    for (const line of shown.length > 300 ? distinct(shown, y, within) : shown) trace(line);
  }
  context.globalAlpha = 1;
  context.font = `11px ${colour("font")}`;
  const apart = (width - LEFT - RIGHT) / Math.max(scales.length - 1, 1);
  scales.forEach((scale, index) => {
    const isLast = index === scales.length - 1;
    const at = Math.round(x(index));
    context.fillStyle = colour("edge");
    context.fillRect(at - 0.5, TOP, 1, height - TOP - BOTTOM);
    context.textAlign = index === 0 ? "left" : isLast ? "right" : "center";
    context.textBaseline = "middle";
    context.fillStyle = colour("ink");
    context.fillText(fit(context, scale.name, Math.max(apart - 8, 40)), index === 0 ? 4 : isLast ? width - 4 : at, 12);
    const brush = brushes[scale.name];
    if (brush) {
      context.fillStyle = colour("brush");
      context.fillRect(at - 7, y(brush[1]), 14, y(brush[0]) - y(brush[1]));
    }
    context.textAlign = "left";
    const marks = scale.marks.length ? scale.marks : /** @type {[number, string][]} */ ([[0, scale.ends[0]], [1, scale.ends[1]]]);
    const room = isLast ? RIGHT - 8 : apart - 14;
    for (const [place_, text] of marks) {
      const shown = fit(context, text, Math.max(room, 30));
      const wide = context.measureText(shown).width;
      const left = at + 6;
      context.fillStyle = colour("panel-veil");
      context.fillRect(left - 2, y(place_) - 7, wide + 4, 14);
      context.fillStyle = colour("ink-soft");
      context.fillText(shown, left, y(place_));
      context.fillStyle = colour("edge");
      context.fillRect(at - 3, y(place_) - 0.5, 6, 1);
    }
  });
}

/** Of lines from the worst to the best, those that are not hidden by better ones.
 * @param {Line[]} lines @param {(at: number) => number} y @param {(line: Line) => boolean} within */
function distinct(lines, y, within) {
  const isFirst = firstAtPlace();
  return [...lines].reverse().filter((line) => {
    const kept = Number(within(line));
    let isNew = false;
    for (let index = 0; index + 1 < line.at.length; index++) {
      const [a, b] = [line.at[index], line.at[index + 1]];
      if (a !== null && b !== null && isFirst(index, y(a) / 2, y(b) / 2, kept)) isNew = true;
    }
    return isNew;
  }).reverse();
}

/** @param {Line[]} lines @param {(place: number) => number} x @param {(at: number) => number} y @param {number} px @param {number} py */
function nearest(lines, x, y, px, py) {
  const axes = lines[0]?.at.length ?? 0;
  let index = 0;
  while (index + 1 < axes && x(index + 1) < px) index++;
  if (index + 1 >= axes || px < x(0)) return null;
  const along = (px - x(index)) / (x(index + 1) - x(index));
  let found = null;
  let closest = 8;
  for (const { trial, at } of lines) {
    const [a, b] = [at[index], at[index + 1]];
    if (a === null || b === null) continue;
    const apart = Math.abs(y(a) + along * (y(b) - y(a)) - py);
    if (apart < closest) [closest, found] = [apart, trial];
  }
  return found;
}

/** @param {{known: Model, trials: Trial[], scales: Scale[]}} props */
const ValueTable = ({ known, trials, scales }) => html`<${Table} label="Values of the trials" rows=${trials} rowKey=${(/** @type {Trial} */ trial) => trial.id} height=${300} sort=${["rank", true]} filter
  onHover=${(/** @type {Trial|null} */ trial) => (hovered.value = trial && { kind: "trial", id: trial.id })} onPick=${(/** @type {Trial} */ trial) => select({ kind: "trial", id: trial.id })}
  columns=${[
    { name: "trial", title: "trial", value: (/** @type {Trial} */ trial) => trial.number },
    { name: "rank", title: "rank", value: (/** @type {Trial} */ trial) => trial.rank },
    ...scales.slice(0, -1).map((scale) => ({ name: scale.name, title: scale.name, left: true, value: scale.text })),
    { name: known.aim.metric, title: known.aim.metric, value: (/** @type {Trial} */ trial) => trial.value, show: (/** @type {Trial} */ trial) => metric(trial.value) },
  ]} />`;
