// Draws learning curves: the worst first, then what is lit up, then the trial beside it.
import { resultsOf } from "../model/paths.js";
import { firstAtPlace } from "../parts/canvas.js";
import { colour, shade } from "../parts/colour.js";
import { beside, lit, picked, trialsById } from "../state.js";
import { star } from "./draw_tree.js";

/**
 * @typedef {import("uplot")} uPlot
 * @typedef {import("../model/derive.js").Model} Model
 * @typedef {{node: number, steps: number[], values: number[], best: number, share: number|null, joined: boolean}} Curve the points of one node; where `joined`, after the last one on the way to it
 */

const MANY = 1000;

/** @param {uPlot} self @param {Model} known @param {Curve[]} curves */
export function drawCurves(self, known, curves) {
  const { ctx: context } = self;
  const ratio = devicePixelRatio || 1;
  const light = lit.value;
  const { left, top, width, height } = self.bbox;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.lineJoin = "round";
  const crowded = curves.length > 60;
  /** @param {number} step */
  const x = (step) => self.valToPos(step, "x", true);
  /** @param {number} value */
  const y = (value) => self.valToPos(value, "y", true);
  /** @param {Curve} curve */
  const trace = (curve) => {
    context.beginPath();
    curve.steps.forEach((step, place) => (place ? context.lineTo(x(step), y(curve.values[place])) : context.moveTo(x(step), y(curve.values[place]))));
    context.stroke();
  };
  /** @param {Curve} curve @param {number} radius */
  const dots = (curve, radius) => {
    context.beginPath();
    curve.steps.forEach((step, place) => {
      if (place || !curve.joined) {
        context.moveTo(x(step) + radius * ratio, y(curve.values[place]));
        context.arc(x(step), y(curve.values[place]), radius * ratio, 0, 7);
      }
    });
    context.fill();
  };
  const sorted = [...curves].sort((a, b) => known.sign * (a.best - b.best));
  const isLit = (/** @type {Curve} */ curve) => light?.nodes.has(curve.node) ?? false;
  for (const curve of curves.length > MANY ? distinct(sorted, x, y) : sorted) {
    const tone = shade(curve.share);
    context.globalAlpha = light ? 0.18 : crowded ? 0.6 : 0.9;
    [context.strokeStyle, context.fillStyle] = [tone, tone];
    context.lineWidth = (crowded ? 1 : 1.75) * ratio;
    trace(curve);
    if (curves.length <= MANY) dots(curve, crowded ? 1.2 : 2.5);
  }
  context.globalAlpha = 1;
  for (const whole of sorted) {
    if (!isLit(whole)) continue;
    const curve = upTo(whole, light?.nodes.get(whole.node)?.[1] ?? 0);
    const tone = colour("accent");
    [context.strokeStyle, context.fillStyle] = [tone, tone];
    context.lineWidth = (light && light.nodes.size > 40 ? 1.25 : 2.5) * ratio;
    trace(curve);
    dots(curve, light && light.nodes.size > 40 ? 1.5 : 3.5);
  }
  const other = beside.value === null ? undefined : trialsById.value.get(beside.value);
  if (other) {
    context.strokeStyle = context.fillStyle = colour("second");
    context.lineWidth = 2.5 * ratio;
    context.setLineDash([6 * ratio, 4 * ratio]);
    const points = resultsOf(known, other).map(([step, row]) => /** @type {[number, number|null]} */ ([step, known.measured[row]])).filter(([, value]) => value !== null);
    trace({ node: -1, steps: points.map(([step]) => step), values: points.map(([, value]) => Number(value)), best: 0, share: null, joined: false });
    context.setLineDash([]);
  }
  if (picked.value !== null && lit.value) {
    context.fillStyle = colour("accent");
    context.fillRect(Math.round(x(picked.value)), top, ratio, height);
  }
  if (known.best) star(context, x(known.best.step), y(known.best.value), 7 * ratio);
  context.restore();
}

/** A curve as far as a step. @param {Curve} curve @param {number} step @returns {Curve} */
function upTo(curve, step) {
  const length = curve.steps.filter((at) => at <= step).length;
  return length === curve.steps.length ? curve : { ...curve, steps: curve.steps.slice(0, length), values: curve.values.slice(0, length) };
}

/** Of curves from the worst to the best, those that are not hidden by better ones.
 * @param {Curve[]} sorted @param {(step: number) => number} x @param {(value: number) => number} y */
function distinct(sorted, x, y) {
  const isFirst = firstAtPlace();
  return [...sorted].reverse().filter((curve) => {
    const last = curve.steps.length - 1;
    return isFirst(x(curve.steps[0]), y(curve.values[0]) / 2, x(curve.steps[last]), y(curve.values[last]) / 2);
  }).reverse();
}
