// The stage tree over steps. A bar for each stage, as thick as trials share it; it fills as it is trained.
import { useRef, useState } from "preact/hooks";
import { changes } from "../model/configs.js";
import { overlaps, pathOf } from "../model/paths.js";
import { Canvas, place, useClicks } from "../parts/canvas.js";
import { metric, number, plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Empty, Panel } from "../parts/panel.js";
import { Table } from "../parts/table.js";
import { beside, hovered, lit, model, select, selected, trialsById } from "../state.js";
import { AXIS, SIDE, drawTree } from "./draw_tree.js";

/**
 * @typedef {import("../model/derive.js").Model} Model
 * @typedef {import("../model/derive.js").Stage} Stage
 * @typedef {import("./draw_tree.js").Window} Window
 */

export function Tree() {
  const known = model.value;
  const other = beside.value === null ? undefined : trialsById.value.get(beside.value);
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
  return html`<${Panel} id="tree" title="Stage tree" class="wide" empty=${!known.stages.length} remark=${remark} table=${() => html`<${StageTable} />`}
    controls=${html`
      <button type="button" class="quiet" aria-label="Show fewer trials, larger" onClick=${() => magnify(0.6)}>+</button>
      <button type="button" class="quiet" aria-label="Show more trials, smaller" onClick=${() => magnify(1.6)}>−</button>
      <button type="button" class="quiet" disabled=${!zoom} onClick=${() => setZoom(null)}>All</button>`}>
    ${known.stages.length
      ? html`<${Canvas} height=${high} label=${`Stage tree of ${plural(known.trials.length, "trial")} over ${number(known.totals.last)} steps. Arrow keys go from stage to stage, Enter selects one.`}
          cursor=${zoom ? "grab" : "default"} handlers=${handlers}
          draw=${(/** @type {import("../parts/canvas.js").Surface} */ surface) => {
            size.current = surface;
            drawTree(surface, known, window_, light, chosen, other && new Map(pathOf(known, other).map(([node, , to]) => [node, to])));
          }} />
          <${Legend} known=${known} />
          <${Caption} known=${known} stage=${chosen} />`
      : html`<${Empty}>No trial has been asked for yet. The tree grows with the first one.</${Empty}>`}
  </${Panel}>`;
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
