// Draws the stage tree: bars that fill, ticks at checkpoints, marks where something failed, and what branches change.
import { changes } from "../model/configs.js";
import { overlaps } from "../model/paths.js";
import { firstAtPlace, fit, ticks } from "../parts/canvas.js";
import { colour, inkOn, shade } from "../parts/colour.js";
import { number } from "../parts/format.js";

/**
 * @typedef {import("../model/derive.js").Model} Model
 * @typedef {import("../model/derive.js").Stage} Stage
 * @typedef {{low: number, high: number}} Window which trials are in sight, counted from the top
 */

export const AXIS = 26;
export const SIDE = 12;
const font = () => `11px ${colour("font")}`;

/** @param {import("../parts/canvas.js").Surface} surface @param {Model} known @param {Window} window_
 * @param {import("../model/paths.js").Lit|null} light @param {any} chosen @param {Map<number, number>} [second] how far the trial that is put beside the selected one goes on its nodes */
export function drawTree({ context, width, height }, known, window_, light, chosen, second) {
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
  /** @type {Map<number, Stage>} where each node is named: on the first of its stages that has room */
  const named = new Map();
  for (const stage of known.stages) {
    if (stage.trials * unit - gap >= 13 && x(stage.to) - x(stage.from) > 34 && (named.get(stage.node)?.from ?? Infinity) > stage.from) named.set(stage.node, stage);
  }
  for (const stage of known.stages) {
    const top = y(stage.y);
    const tall = stage.trials * unit;
    if (top > plot.height || top + tall < 0) continue;
    const [left, right] = [x(stage.from), x(stage.to)];
    if (tall < 0.5 && !isFirst(left, right, top * 2)) continue;
    const { share } = stage;
    const isSecond = second !== undefined && stage.from < (second.get(stage.node) ?? -1);
    const isLit = !light || isSecond || overlaps(light.nodes.get(stage.node), stage.from, stage.to);
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
    if (named.get(stage.node) === stage) label(context, known, stage, left, t, right - left, h, share, filled);
    context.globalAlpha = 1;
    if (isSecond) {
      context.strokeStyle = colour("second");
      context.lineWidth = 1.5;
      context.setLineDash([6, 4]);
      context.strokeRect(left + 1, t + 1, Math.max(right - left - 2, 2), Math.max(h - 2, 1));
      context.setLineDash([]);
    }
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
