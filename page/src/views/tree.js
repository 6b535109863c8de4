// The stage tree over steps. A bar for each stage, as thick as trials share it; it fills as it is trained.
import { useRef, useState } from "preact/hooks";
import { changes } from "../model/configs.js";
import { overlaps } from "../model/paths.js";
import { Canvas, firstAtPlace, fit, place, ticks, useClicks } from "../parts/canvas.js";
import { colour, inkOn, shade } from "../parts/colour.js";
import { metric, number, plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Empty, Panel } from "../parts/panel.js";
import { Table } from "../parts/table.js";
import { hovered, lit, model, select, selected } from "../state.js";

/**
 * @typedef {import("../model/derive.js").Model} Model
 * @typedef {import("../model/derive.js").Stage} Stage
 * @typedef {{low: number, high: number}} Window which trials are in sight, counted from the top
 */

const AXIS = 26;
const SIDE = 12;
const font = () => `11px ${colour("font")}`;

export function Tree() {
  const known = model.value;
  const [zoom, setZoom] = useState(/** @type {Window|null} */ (null));
  const window_ = zoom && zoom.high <= known.height + 0.5 ? zoom : { low: 0, high: Math.max(known.height, 1) };
  const size = useRef({ width: 1, height: 1 });
  const drag = useRef(/** @type {{y: number, low: number, high: number, moved: boolean}|null} */ (null));
  const clicks = useClicks();
  const light = lit.value;
  const chosen = hovered.value?.kind === "stage" ? hovered.value : selected.value?.kind === "stage" ? selected.value : null;

  /** @param {number} x @param {number} y */
  const stageAt = (x, y) => {
    const { width, height } = size.current;
    const step = ((x - SIDE) / (width - 2 * SIDE)) * known.totals.last;
    const row = window_.low + (y / (height - AXIS)) * (window_.high - window_.low);
    return known.stages.find((stage) => stage.from <= step && step <= stage.to && stage.y <= row && row < stage.y + stage.trials) ?? null;
  };
  /** @param {number} factor @param {number} [around] */
  const magnify = (factor, around = (window_.low + window_.high) / 2) => {
    const low = Math.max(around - (around - window_.low) * factor, 0);
    const high = Math.min(around + (window_.high - around) * factor, known.height);
    setZoom(high - low >= known.height ? null : high - low < 1 ? window_ : { low, high });
  };
  const handlers = {
    /** @param {PointerEvent} event */
    onPointerMove: (event) => {
      const [x, y] = place(event);
      if (drag.current && event.buttons) {
        const shift = ((drag.current.y - y) / (size.current.height - AXIS)) * (drag.current.high - drag.current.low);
        if (Math.abs(drag.current.y - y) > 3) drag.current.moved = true;
        if (zoom && drag.current.moved) {
          const low = Math.min(Math.max(drag.current.low + shift, 0), known.height - (drag.current.high - drag.current.low));
          setZoom({ low, high: low + drag.current.high - drag.current.low });
        }
        return;
      }
      const stage = stageAt(x, y);
      hovered.value = stage && { kind: "stage", node: stage.node, from: stage.from, to: stage.to };
    },
    onPointerLeave: () => (hovered.value = null),
    /** @param {PointerEvent} event */
    onPointerDown: (event) => (drag.current = { y: place(event)[1], ...window_, moved: false }),
    /** @param {MouseEvent} event */
    onClick: (event) => {
      if (drag.current?.moved) return;
      const stage = stageAt(...place(event));
      clicks.once(() => select(stage && { kind: "stage", node: stage.node, from: stage.from, to: stage.to }));
    },
    /** @param {MouseEvent} event */
    onDblClick: (event) => {
      const stage = stageAt(...place(event));
      clicks.twice(() => setZoom(stage && stage.trials < known.height ? { low: stage.y, high: stage.y + stage.trials } : null));
    },
    /** @param {WheelEvent} event */
    onWheel: (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      const [, y] = place(event);
      magnify(event.deltaY > 0 ? 1.25 : 0.8, window_.low + (y / (size.current.height - AXIS)) * (window_.high - window_.low));
    },
    /** @param {KeyboardEvent} event */
    onKeyDown: (event) => {
      if (event.key === "+" || event.key === "=") magnify(0.7);
      else if (event.key === "-") magnify(1.4);
      else if (event.key === "0") setZoom(null);
      else if (event.key === "Enter" && chosen) select(chosen);
      else if (event.key.startsWith("Arrow")) {
        const next = neighbour(known, chosen, event.key);
        if (next) hovered.value = { kind: "stage", node: next.node, from: next.from, to: next.to };
      } else return;
      event.preventDefault();
    },
  };
  const high = Math.round(Math.min(Math.max(known.height * 16, 220), 460));
  const { asked, unique } = known.totals;
  const remark = known.trials.length
    ? `${plural(known.trials.length, "trial")} ask for ${number(asked)} steps, ${number(unique)} of them unique. A bar is as thick as trials share it.`
    : "";
  return html`<${Panel} id="tree" title="Stage tree" class="wide" remark=${remark} table=${() => html`<${StageTable} />`}
    controls=${html`
      <button type="button" class="quiet" aria-label="Show fewer trials, larger" onClick=${() => magnify(0.6)}>+</button>
      <button type="button" class="quiet" aria-label="Show more trials, smaller" onClick=${() => magnify(1.6)}>−</button>
      <button type="button" class="quiet" disabled=${!zoom} onClick=${() => setZoom(null)}>All</button>`}>
    ${known.stages.length
      ? html`<${Canvas} height=${high} label=${`Stage tree of ${plural(known.trials.length, "trial")} over ${number(known.totals.last)} steps. Arrow keys go from stage to stage, Enter selects one.`}
          cursor=${zoom ? "grab" : "default"} handlers=${handlers}
          draw=${(/** @type {import("../parts/canvas.js").Surface} */ surface) => {
            size.current = surface;
            drawTree(surface, known, window_, light, chosen);
          }} />
          <${Legend} known=${known} />
          <${Caption} known=${known} stage=${chosen} />`
      : html`<${Empty}>No trial has been asked for yet. The tree grows with the first one.</${Empty}>`}
  </${Panel}>`;
}

/** @param {import("../parts/canvas.js").Surface} surface @param {Model} known @param {Window} window_
 * @param {import("../model/paths.js").Lit|null} light @param {any} chosen */
function drawTree({ context, width, height }, known, window_, light, chosen) {
  const plot = { width: width - 2 * SIDE, height: height - AXIS };
  const last = Math.max(known.totals.last, 1);
  /** @param {number} step */
  const x = (step) => SIDE + (step / last) * plot.width;
  const unit = plot.height / (window_.high - window_.low);
  /** @param {number} row */
  const y = (row) => (row - window_.low) * unit;

  context.font = font();
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const step of ticks(0, last, Math.max(plot.width / 90, 2))) {
    context.fillStyle = colour("grid");
    context.fillRect(Math.round(x(step)), 0, 1, plot.height);
    context.fillStyle = colour("quiet");
    context.textAlign = step === 0 ? "left" : x(step) > width - 40 ? "right" : "center";
    context.fillText(step === 0 ? "step 0" : number(step), x(step), height - AXIS / 2);
  }
  context.save();
  context.beginPath();
  context.rect(0, 0, width, plot.height);
  context.clip();
  const gap = unit >= 12 ? 2.5 : unit >= 5 ? 1.5 : unit >= 2.5 ? 0.75 : 0;
  const isFirst = firstAtPlace();
  for (const stage of known.stages) {
    const top = y(stage.y);
    const tall = stage.trials * unit;
    if (top > plot.height || top + tall < 0) continue;
    const [left, right] = [x(stage.from), x(stage.to)];
    if (tall < 0.5 && !isFirst(left, right, top * 2)) continue;
    const { share } = stage;
    const isLit = !light || overlaps(light.nodes.get(stage.node), stage.from, stage.to);
    const [t, h] = [top + gap / 2, Math.max(tall - gap, 0.6)];
    context.globalAlpha = isLit ? 1 : 0.28;
    const seam = right - left > 3 ? 1 : 0;
    const filled = x(stage.trained);
    const failure = known.failedAt.get(stage.node);
    if (filled < right) {
      context.fillStyle = colour("track");
      bar(context, filled, t, right - filled - seam, h);
    }
    if (filled > left) {
      context.fillStyle = shade(share);
      bar(context, left, t, filled - left - (filled >= right ? seam : 0), h);
    }
    const lease = known.runningOn.get(stage.node);
    if (lease && lease.at >= stage.from && lease.at < stage.to) arrow(context, filled, t + h / 2, Math.min(h / 2, 7));
    if (h >= 4) {
      context.fillStyle = colour("ink");
      for (const step of known.keptOf[stage.node]?.keys() ?? []) {
        if (step > stage.from && step <= stage.to) context.fillRect(x(step) - 2, t + h - Math.min(h * 0.4, 6), 1.5, Math.min(h * 0.4, 6));
      }
    }
    if (failure !== undefined) {
      const step = known.tables.failures.step[failure];
      if (step > stage.from && step <= stage.to) {
        mark(context, Math.min(filled + 8, right - 4), t + h / 2, Math.min(h / 2 - 1, 5), known.tables.failures.kind[failure] === "suspended");
      }
    }
    if (known.unmeasured.size) for (const step of lacking(known, stage)) mark(context, x(step) - 8, t + h / 2, Math.min(h / 2 - 1, 5), false);
    if (stage.first && h >= 13 && right - left > 34) label(context, known, stage, left, t, right - left, h, share, filled);
    context.globalAlpha = 1;
    if (chosen && chosen.node === stage.node && chosen.from === stage.from) {
      context.strokeStyle = colour("accent");
      context.lineWidth = 2;
      context.strokeRect(left + 1, t + 1, Math.max(right - left - 2, 2), Math.max(h - 2, 2));
    }
  }
  drawBest(context, known, x, y, unit);
  context.restore();
}

/** Marks where the best result is. @param {CanvasRenderingContext2D} context @param {Model} known
 * @param {(step: number) => number} x @param {(row: number) => number} y @param {number} unit */
function drawBest(context, known, x, y, unit) {
  const best = known.best;
  if (!best) return;
  const node = known.holder(best.trial.node, best.step);
  const stage = known.stages.find((each) => each.node === node && each.from < best.step && best.step <= each.to);
  if (!stage) return;
  const middle = y(stage.y) + (stage.trials * unit) / 2;
  star(context, x(best.step) - 9, middle, 6);
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} radius */
export function star(context, x, y, radius) {
  context.beginPath();
  for (let point = 0; point < 10; point++) {
    const far = point % 2 ? radius * 0.45 : radius;
    const angle = (Math.PI * point) / 5 - Math.PI / 2;
    context.lineTo(x + far * Math.cos(angle), y + far * Math.sin(angle));
  }
  context.closePath();
  context.fillStyle = colour("accent");
  context.strokeStyle = colour("panel");
  context.lineWidth = 1.5;
  context.stroke();
  context.fill();
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} wide @param {number} high */
function bar(context, x, y, wide, high) {
  if (wide <= 0) return;
  if (high < 5 || wide < 5) context.fillRect(x, y, Math.max(wide, 0.5), high);
  else {
    context.beginPath();
    context.roundRect(x, y, wide, high, Math.min(3, high / 3));
    context.fill();
  }
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} half */
function arrow(context, x, y, half) {
  context.fillStyle = colour("accent");
  context.fillRect(x - 1, y - half, 2, 2 * half);
  if (half < 2) return;
  context.beginPath();
  context.moveTo(x, y - half);
  context.lineTo(x + half, y);
  context.lineTo(x, y + half);
  context.fill();
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} half @param {boolean} suspended */
function mark(context, x, y, half, suspended) {
  if (half < 1.5) half = 1.5;
  context.strokeStyle = colour(suspended ? "warn" : "bad");
  context.lineWidth = 2;
  context.beginPath();
  const lines = suspended ? [[-0.6, -1, -0.6, 1], [0.6, -1, 0.6, 1]] : [[-1, -1, 1, 1], [-1, 1, 1, -1]];
  for (const [a, b, c, d] of lines) {
    context.moveTo(x + a * half, y + b * half);
    context.lineTo(x + c * half, y + d * half);
  }
  context.stroke();
}

/** The steps of a stage at which evaluation failed. @param {Model} known @param {Stage} stage */
function lacking(known, stage) {
  const steps = [];
  for (const key of known.unmeasured.keys()) {
    const [node, step] = key.split(" ").map(Number);
    if (node === stage.node && step > stage.from && step <= stage.to) steps.push(step);
  }
  return steps;
}

/** What a branch changes, where there is room to write it. @param {CanvasRenderingContext2D} context @param {Model} known @param {Stage} stage
 * @param {number} left @param {number} top @param {number} wide @param {number} high @param {number|null} share @param {number} filled */
function label(context, known, stage, left, top, wide, high, share, filled) {
  const text = fit(context, changes(known, stage.node), wide - 14);
  if (!text) return;
  context.save();
  context.beginPath();
  context.rect(left, top, wide - 8, high);
  context.clip();
  context.textAlign = "left";
  const y = high > 40 ? top + 14 : top + high / 2 + 0.5;
  const begins = left + 7;
  // Ink that is readable on what lies below it: on the filled part, and on the rest.
  for (const [from, to, ink] of /** @type {[number, number, string][]} */ ([[left, filled, inkOn(share)], [filled, left + wide, colour("ink-soft")]])) {
    if (to <= from) continue;
    context.save();
    context.beginPath();
    context.rect(from, top, to - from, high);
    context.clip();
    context.fillStyle = ink;
    context.fillText(text, begins, y);
    context.restore();
  }
  context.restore();
}

/** The stage that an arrow key leads to. @param {Model} known @param {any} from @param {string} key @returns {Stage|null} */
function neighbour(known, from, key) {
  const here = from && known.stages.find((stage) => stage.node === from.node && stage.from === from.from);
  if (!here) return known.stages.reduce((/** @type {Stage|null} */ first, stage) => (!first || stage.y < first.y || (stage.y === first.y && stage.from < first.from) ? stage : first), null);
  const middle = here.y + here.trials / 2;
  /** @param {Stage} stage */
  const apart = (stage) => Math.abs(stage.y + stage.trials / 2 - middle);
  const candidates = known.stages.filter((stage) =>
    key === "ArrowRight" ? stage.from === here.to && stage.y >= here.y && stage.y < here.y + here.trials :
    key === "ArrowLeft" ? stage.to === here.from && stage.y <= here.y && stage.y + stage.trials > here.y :
    stage.from < here.to && stage.to > here.from && (key === "ArrowUp" ? stage.y < here.y : stage.y > here.y));
  candidates.sort((a, b) => (key === "ArrowRight" ? a.y - b.y : apart(a) - apart(b)));
  return candidates[0] ?? null;
}

/** @param {{known: Model}} props */
function Legend({ known }) {
  const { values, aim } = known;
  const low = values[0];
  const high = values[values.length - 1];
  return html`<div class="legend">
    ${values.length > 0 && html`<span>best ${aim.metric} below: ${metric(low)}
      <span class="ramp" aria-hidden="true">${Array.from({ length: 9 }, (_, place) => html`<i style=${{ background: `var(--ramp-${place})` }}></i>`)}</span>
      ${metric(high)}</span>`}
    <span><i class="swatch track"></i> to be trained</span>
    ${known.stages.some((stage) => stage.best === null && stage.trained > stage.from) && html`<span><i class="swatch none"></i> no result yet</span>`}
    <span><i class="swatch tick"></i> checkpoint</span>
    <span><span class="accent">★</span> best</span>
    ${known.runningOn.size > 0 && html`<span><b class="accent">▶</b> training now</span>`}
    ${(known.failedAt.size > 0 || known.unmeasured.size > 0) && html`<span><b class="bad">✕</b> failed <b class="warn">‖</b> suspended</span>`}
  </div>`;
}

/** @param {{known: Model, stage: any}} props */
function Caption({ known, stage }) {
  const found = stage && known.stages.find((each) => each.node === stage.node && each.from === stage.from);
  if (!found) return html`<p class="caption">Point at a stage to see its trials everywhere; double-click to look at it alone.</p>`;
  return html`<p class="caption" role="status"><b>steps ${number(found.from)}–${number(found.to)}</b>, ${plural(found.trials, "trial")}${found.best === null ? "" : `, best ${known.aim.metric} below ${metric(found.best)}`}: ${changes(known, found.node)}</p>`;
}

function StageTable() {
  const known = model.value;
  return html`<${Table} label="Stages" rows=${known.stages} rowKey=${(/** @type {Stage} */ stage) => `${stage.node} ${stage.from}`} height=${420} sort=${["from", true]} filter
    rowClass=${(/** @type {Stage} */ stage) => (lit.value && overlaps(lit.value.nodes.get(stage.node), stage.from, stage.to) ? "lit" : "")}
    onHover=${(/** @type {Stage|null} */ stage) => (hovered.value = stage && { kind: "stage", node: stage.node, from: stage.from, to: stage.to })}
    onPick=${(/** @type {Stage} */ stage) => select({ kind: "stage", node: stage.node, from: stage.from, to: stage.to })}
    columns=${[
      { name: "node", title: "node", value: (/** @type {Stage} */ stage) => stage.node },
      { name: "from", title: "from step", value: (/** @type {Stage} */ stage) => stage.from, show: (/** @type {Stage} */ stage) => number(stage.from) },
      { name: "to", title: "to step", value: (/** @type {Stage} */ stage) => stage.to, show: (/** @type {Stage} */ stage) => number(stage.to) },
      { name: "trials", title: "trials", value: (/** @type {Stage} */ stage) => stage.trials, show: (/** @type {Stage} */ stage) => number(stage.trials) },
      { name: "trained", title: "trained to", value: (/** @type {Stage} */ stage) => stage.trained, show: (/** @type {Stage} */ stage) => number(stage.trained) },
      { name: "best", title: `best ${known.aim.metric} below`, value: (/** @type {Stage} */ stage) => stage.best, show: (/** @type {Stage} */ stage) => metric(stage.best) },
      { name: "changes", title: "what it changes", left: true, grow: true, value: (/** @type {Stage} */ stage) => changes(known, stage.node) },
    ]} />`;
}
