// Workers over time: what each of them trained, when. Any window of time can be looked at.
import { useRef, useState } from "preact/hooks";
import { changes } from "../model/configs.js";
import { perModel } from "../model/memo.js";
import { overlaps } from "../model/paths.js";
import { Canvas, firstAtPlace, place, ticks, useClicks } from "../parts/canvas.js";
import { colour, shade } from "../parts/colour.js";
import { duration, number, plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Empty, Panel } from "../parts/panel.js";
import { useModelInSight } from "../parts/sight.js";
import { Table } from "../parts/table.js";
import { EMPTY, hovered, lit, model, select, selected } from "../state.js";

/**
 * @typedef {import("../model/derive.js").Model} Model
 * @typedef {{row: number, worker: number, lease: number, node: number, kind: string, first: number, last: number, began: number, ended: number, running: boolean}} Bar
 */

const AXIS = 24;
const NAMES = 74;
const STRIP = 22;
const MANY = 2000;

export function Timeline() {
  const seen = useModelInSight("timeline");
  const known = seen ?? EMPTY;
  const clicks = useClicks();
  const light = lit.value;
  const bars = barsOf(known);
  const [zoom, setZoom] = useState(/** @type {[number, number]|null} */ (null));
  const [brush, setBrush] = useState(/** @type {[number, number]|null} */ (null));
  const size = useRef({ width: 1, height: 1 });
  const drag = useRef(/** @type {{x: number, from: number, to: number, moved: boolean}|null} */ (null));
  const whole = extent(bars, known);
  const range = zoom ?? whole;
  const workers = [...new Set([...bars.map((bar) => bar.worker), ...(known.pulse?.workers.idle ?? [])])].sort((a, b) => a - b);
  const rowHigh = workers.length > 24 ? Math.max(Math.floor(420 / workers.length), 3) : workers.length > 10 ? 18 : 26;
  const high = workers.length * rowHigh + AXIS + STRIP + 8;

  /** @param {number} x @param {[number, number]} over */
  const timeAt = (x, over) => over[0] + ((x - NAMES) / Math.max(size.current.width - NAMES - 8, 1)) * (over[1] - over[0]);
  /** @param {number} x @param {number} y */
  const barAt = (x, y) => {
    const worker = workers[Math.floor(y / rowHigh)];
    const time = timeAt(x, range);
    const slack = ((range[1] - range[0]) / size.current.width) * 2;
    return bars.find((bar) => bar.worker === worker && bar.began - slack <= time && time <= bar.ended + slack) ?? null;
  };
  /** @param {number} factor @param {number} [around] */
  const magnify = (factor, around = (range[0] + range[1]) / 2) => {
    const low = Math.max(around - (around - range[0]) * factor, whole[0]);
    const up = Math.min(around + (range[1] - around) * factor, whole[1]);
    setZoom(up - low >= (whole[1] - whole[0]) * 0.999 ? null : [low, up]);
  };
  const isStrip = (/** @type {number} */ y) => y > size.current.height - STRIP - 4;
  const handlers = {
    /** @param {PointerEvent} event */
    onPointerDown: (event) => {
      const [x, y] = place(event);
      if (x < NAMES) return;
      drag.current = { x, from: timeAt(x, isStrip(y) ? whole : range), to: 0, moved: false };
      /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    },
    /** @param {PointerEvent} event */
    onPointerMove: (event) => {
      const [x, y] = place(event);
      if (drag.current && event.buttons) {
        if (Math.abs(x - drag.current.x) > 4) drag.current.moved = true;
        const to = (drag.current.to = timeAt(x, isStrip(y) ? whole : range));
        if (drag.current.moved) setBrush([Math.min(drag.current.from, to), Math.max(drag.current.from, to)]);
        return;
      }
      if (x < NAMES) hovered.value = workers[Math.floor(y / rowHigh)] === undefined ? null : { kind: "worker", id: workers[Math.floor(y / rowHigh)] };
      else {
        const bar = barAt(x, y);
        hovered.value = bar && { kind: "stage", node: bar.node, from: bar.first, to: Math.max(bar.last, bar.first + 1) };
      }
    },
    onPointerUp: () => {
      if (drag.current?.moved) {
        const { from, to } = drag.current;
        setZoom([Math.max(Math.min(from, to), whole[0]), Math.min(Math.max(from, to), whole[1])]);
      }
      setBrush(null);
    },
    onPointerLeave: () => (hovered.value = null),
    /** @param {MouseEvent} event */
    onClick: (event) => {
      if (drag.current?.moved) return;
      const [x, y] = place(event);
      const worker = workers[Math.floor(y / rowHigh)];
      const bar = x < NAMES ? null : barAt(x, y);
      clicks.once(() => select(x < NAMES && worker !== undefined ? { kind: "worker", id: worker } : bar && { kind: "stage", node: bar.node, from: bar.first, to: Math.max(bar.last, bar.first + 1) }));
    },
    onDblClick: () => clicks.twice(() => setZoom(null)),
    /** @param {KeyboardEvent} event */
    onKeyDown: (event) => {
      const by = (range[1] - range[0]) / 4;
      const id = hovered.value?.kind === "worker" ? hovered.value.id : selected.value?.kind === "worker" ? selected.value.id : null;
      if (event.key === "+" || event.key === "=") magnify(0.6);
      else if (event.key === "-") magnify(1.6);
      else if (event.key === "0") setZoom(null);
      else if (event.key === "ArrowLeft" && zoom) setZoom([Math.max(range[0] - by, whole[0]), Math.max(range[0] - by, whole[0]) + 4 * by]);
      else if (event.key === "ArrowRight" && zoom) setZoom([Math.min(range[1] + by, whole[1]) - 4 * by, Math.min(range[1] + by, whole[1])]);
      else if (event.key === "ArrowDown") hovered.value = { kind: "worker", id: workers[Math.min(id === null ? 0 : workers.indexOf(id) + 1, workers.length - 1)] };
      else if (event.key === "ArrowUp") hovered.value = { kind: "worker", id: workers[Math.max(id === null ? 0 : workers.indexOf(id) - 1, 0)] };
      else if (event.key === "Enter" && hovered.value) select(hovered.value);
      else return;
      event.preventDefault();
    },
  };
  const busy = bars.reduce((sum, bar) => sum + (bar.kind === "proof" ? 0 : bar.ended - bar.began), 0);
  const remark = bars.length ? `${plural(workers.length, "worker")}, ${duration(whole[1] - whole[0])}, ${Math.round((100 * busy) / Math.max((whole[1] - whole[0]) * workers.length, 1e-9))} % of it training. Drag over a stretch of time to see it larger.` : "";
  return html`<${Panel} id="timeline" title="Workers over time" class="wide" ready=${seen !== null} empty=${!bars.length && !workers.length} remark=${remark} table=${() => html`<${BarTable} bars=${bars} begin=${whole[0]} />`}
    controls=${html`
      <button type="button" class="quiet" aria-label="Shorter window of time" onClick=${() => magnify(0.5)}>+</button>
      <button type="button" class="quiet" aria-label="Longer window of time" onClick=${() => magnify(2)}>−</button>
      <button type="button" class="quiet" disabled=${!zoom} onClick=${() => setZoom(null)}>All</button>`}>
    ${bars.length || workers.length
      ? html`<${Canvas} height=${high} cursor="crosshair" handlers=${handlers}
          label=${`What ${plural(workers.length, "worker")} did over ${duration(whole[1] - whole[0])}. Up and down choose a worker, left and right move the window of time, plus and minus zoom.`}
          draw=${(/** @type {import("../parts/canvas.js").Surface} */ surface) => {
            size.current = surface;
            drawTimeline(surface, known, bars, workers, rowHigh, range, whole, brush, light);
          }} />
          <div class="legend"><span>coloured as in the tree</span><span><i class="swatch proof"></i> proof</span><span><i class="swatch help"></i> helps another worker</span></div>`
      : html`<${Empty}>Nothing has been trained yet. Each worker gets a row here when it joins.</${Empty}>`}
  </${Panel}>`;
}

const barsOf = perModel((/** @type {Model} */ known) => {
  const { spans } = known.tables;
  /** @type {Bar[]} */
  const bars = [];
  for (let row = 0; row < spans.node.length; row++) {
    bars.push({
      row, worker: spans.worker[row], lease: spans.lease[row], node: spans.node[row], kind: spans.kind[row],
      first: spans.first[row], last: spans.last[row], began: spans.began[row], ended: spans.ended[row], running: false,
    });
  }
  for (const lease of known.pulse?.leases ?? []) {
    const at = lease.path.find(([, from, to]) => from <= lease.at && lease.at < to) ?? lease.path[lease.path.length - 1];
    if (!at) continue;
    lease.workers.forEach((worker, place) =>
      bars.push({
        row: -1, worker, lease: lease.lease, node: at[0], kind: lease.proof ? "proof" : place ? "help" : "train",
        first: lease.path[0][1], last: lease.at, began: lease.began, ended: Math.max(known.pulse?.now ?? 0, lease.began), running: true,
      }));
  }
  return bars;
});

/** @param {Bar[]} bars @param {Model} known @returns {[number, number]} */
function extent(bars, known) {
  let low = Infinity;
  let high = -Infinity;
  for (const bar of bars) {
    if (bar.began < low) low = bar.began;
    if (bar.ended > high) high = bar.ended;
  }
  if (!bars.length) [low, high] = [known.pulse?.now ?? 0, (known.pulse?.now ?? 0) + 1];
  return [low, Math.max(high, low + 0.001)];
}

/** @param {import("../parts/canvas.js").Surface} surface @param {Model} known @param {Bar[]} bars @param {number[]} workers
 * @param {number} rowHigh @param {[number, number]} range @param {[number, number]} whole @param {[number, number]|null} brush
 * @param {import("../model/paths.js").Lit|null} light */
function drawTimeline({ context, width, height }, known, bars, workers, rowHigh, range, whole, brush, light) {
  const rows = new Map(workers.map((worker, place) => [worker, place]));
  const plot = { left: NAMES, width: width - NAMES - 8, height: workers.length * rowHigh };
  /** @param {number} time @param {[number, number]} over */
  const x = (time, over) => plot.left + ((time - over[0]) / (over[1] - over[0])) * plot.width;
  context.font = `11px ${colour("font")}`;
  context.textBaseline = "middle";
  const seconds = range[1] - range[0];
  for (const at of ticks(range[0] - whole[0], range[1] - whole[0], Math.max(plot.width / 110, 2))) {
    const place = x(at + whole[0], range);
    context.fillStyle = colour("grid");
    context.fillRect(Math.round(place), 0, 1, plot.height);
    context.fillStyle = colour("quiet");
    context.textAlign = place > width - 40 ? "right" : place < plot.left + 10 ? "left" : "center";
    context.fillText(seconds < 10 ? `${at.toFixed(seconds < 1 ? 2 : 1)} s` : clock(at), place, plot.height + AXIS / 2);
  }
  context.textAlign = "left";
  if (rowHigh >= 10) {
    for (const [worker, row] of rows) {
      const isLit = light?.workers.has(worker);
      context.fillStyle = isLit ? colour("accent-ink") : colour("quiet");
      context.fillText(`${isLit ? "▸ " : ""}worker ${worker}`, 4, row * rowHigh + rowHigh / 2);
    }
  }
  context.save();
  context.beginPath();
  context.rect(plot.left, 0, plot.width, height);
  context.clip();
  const isFirst = firstAtPlace();
  for (const bar of bars) {
    const row = rows.get(bar.worker);
    if (row === undefined) continue;
    const isNarrow = x(bar.ended, range) - x(bar.began, range) < 1;
    if (isNarrow && bars.length > MANY && !isFirst(row, x(bar.began, range), Number(light !== null && overlaps(light.nodes.get(bar.node), bar.first, bar.last)))) continue;
    const share = shareBelow(known, bar);
    const isLit = !light || overlaps(light.nodes.get(bar.node), bar.first, Math.max(bar.last, bar.first + 1)) || (bar.running && light.workers.has(bar.worker));
    context.globalAlpha = isLit ? 1 : 0.2;
    context.fillStyle = bar.kind === "proof" ? colour("proof") : bar.kind === "help" ? colour("help") : shade(share);
    if (bar.ended >= range[0] && bar.began <= range[1]) {
      const [left, right] = [x(bar.began, range), x(bar.ended, range)];
      const gap = rowHigh > 6 ? 2 : rowHigh > 4 ? 1 : 0;
      context.fillRect(left, row * rowHigh + gap, Math.max(right - left - 0.75, 0.75), rowHigh - 2 * gap);
      if (bar.kind === "proof") hatch(context, left, row * rowHigh + gap, right - left - 0.75, rowHigh - 2 * gap);
      if (bar.running) {
        context.fillStyle = colour("accent");
        context.fillRect(right - 2, row * rowHigh + gap, 2, rowHigh - 2 * gap);
      }
    }
    // All of the time, below.
    if (bars.length > MANY && !isFirst(-1 - row, x(bar.began, whole))) continue;
    context.fillStyle = bar.kind === "proof" ? colour("proof") : shade(share);
    const thin = Math.max((STRIP - 6) / workers.length, 0.5);
    context.fillRect(x(bar.began, whole), height - STRIP + 2 + row * thin, Math.max(x(bar.ended, whole) - x(bar.began, whole), 0.5), Math.max(thin - 0.3, 0.4));
  }
  context.globalAlpha = 1;
  const [from, to] = [x(range[0], whole), x(range[1], whole)];
  context.fillStyle = colour("veil");
  context.fillRect(plot.left, height - STRIP, from - plot.left, STRIP);
  context.fillRect(to, height - STRIP, width - to, STRIP);
  context.strokeStyle = colour("quiet");
  context.lineWidth = 1;
  context.strokeRect(from + 0.5, height - STRIP + 0.5, Math.max(to - from - 1, 2), STRIP - 1);
  if (brush) {
    context.fillStyle = colour("brush");
    context.fillRect(x(brush[0], range), 0, x(brush[1], range) - x(brush[0], range), plot.height);
  }
  context.restore();
}

/** How good the best is that came of what a bar has trained. @param {Model} known @param {Bar} bar */
function shareBelow(known, bar) {
  const found = stagesOf(known).get(bar.node)?.find((stage) => stage.from <= bar.first && bar.first < stage.to);
  return found?.share ?? null;
}

const stagesOf = perModel((/** @type {Model} */ known) => {
  /** @type {Map<number, import("../model/derive.js").Stage[]>} */
  const found = new Map();
  for (const stage of known.stages) {
    const there = found.get(stage.node);
    if (there) there.push(stage);
    else found.set(stage.node, [stage]);
  }
  return found;
});

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} wide @param {number} high */
function hatch(context, x, y, wide, high) {
  if (wide < 4 || high < 6) return;
  context.save();
  context.beginPath();
  context.rect(x, y, wide, high);
  context.clip();
  context.strokeStyle = colour("panel");
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - high; at < x + wide; at += 5) {
    context.moveTo(at, y + high);
    context.lineTo(at + high, y);
  }
  context.stroke();
  context.restore();
}

/** @param {number} seconds */
function clock(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** @param {{bars: Bar[], begin: number}} props */
function BarTable({ bars, begin }) {
  const known = model.value;
  return html`<${Table} label="What workers did" rows=${bars} rowKey=${(/** @type {Bar} */ bar) => `${bar.row} ${bar.worker} ${bar.lease} ${bar.node}`} height=${420} sort=${["began", true]} filter
    onHover=${(/** @type {Bar|null} */ bar) => (hovered.value = bar && { kind: "stage", node: bar.node, from: bar.first, to: Math.max(bar.last, bar.first + 1) })}
    onPick=${(/** @type {Bar} */ bar) => select({ kind: "worker", id: bar.worker })}
    columns=${[
      { name: "worker", title: "worker", value: (/** @type {Bar} */ bar) => bar.worker },
      { name: "kind", title: "did", left: true, value: (/** @type {Bar} */ bar) => (bar.running ? `${bar.kind}, running` : bar.kind) },
      { name: "began", title: "from", value: (/** @type {Bar} */ bar) => bar.began - begin, show: (/** @type {Bar} */ bar) => duration(bar.began - begin) },
      { name: "took", title: "took", value: (/** @type {Bar} */ bar) => bar.ended - bar.began, show: (/** @type {Bar} */ bar) => duration(bar.ended - bar.began) },
      { name: "first", title: "from step", value: (/** @type {Bar} */ bar) => bar.first, show: (/** @type {Bar} */ bar) => number(bar.first) },
      { name: "last", title: "to step", value: (/** @type {Bar} */ bar) => bar.last, show: (/** @type {Bar} */ bar) => number(bar.last) },
      { name: "node", title: "of the node that changes", left: true, grow: true, value: (/** @type {Bar} */ bar) => changes(known, bar.node) },
    ]} />`;
}
