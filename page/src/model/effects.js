// Which hyper-parameters matter: how much of the differences between trials each of them explains by itself.
//
// Trials are compared where they were measured together: each by its rank among those that were measured at the same
// step. Of the variance of these ranks, the part between the groups of equal values counts (numbers in at most eight
// groups of equal size), adjusted for what that many groups explain by chance.
import { valueOn } from "./configs.js";

/** @typedef {import("./configs.js").Axis} Axis */

const GROUPS = 8;
const FEWEST = 4;

/** @param {Axis[]} axes @param {Map<number, {configs: number[], scores: number[]}>} measured what was measured, by step
 * @returns {{axis: Axis, share: number, configs: number}[]} */
export function effects(axes, measured) {
  const ranks = ranksOf(measured);
  return axes
    .map((axis) => {
      const known = [...ranks.keys()].filter((config) => valueOn(axis, config) !== undefined);
      return { axis, share: explained(grouped(axis, known), ranks), configs: known.length };
    })
    .sort((a, b) => b.share - a.share);
}

/** @param {Map<number, {configs: number[], scores: number[]}>} measured @returns {Map<number, number>} */
function ranksOf(measured) {
  /** @type {Map<number, {sum: number, count: number}>} */
  const totals = new Map();
  for (const { configs, scores } of measured.values()) {
    const all = configs.length;
    if (all < FEWEST) continue;
    const order = Uint32Array.from(configs.keys()).sort((a, b) => scores[a] - scores[b]);
    for (let first = 0; first < all; ) {
      let last = first;
      while (last + 1 < all && scores[order[last + 1]] === scores[order[first]]) last++;
      for (let place = first; place <= last; place++) {
        const config = configs[order[place]];
        let total = totals.get(config);
        if (!total) totals.set(config, (total = { sum: 0, count: 0 }));
        total.sum += (first + last) / 2 / (all - 1);
        total.count++;
      }
      first = last + 1;
    }
  }
  return new Map([...totals].map(([config, { sum, count }]) => [config, sum / count]));
}

/** @param {Axis} axis @param {number[]} configs @returns {number[][]} configs in groups */
function grouped(axis, configs) {
  /** @type {Map<number|string|undefined, number[]>} */
  const groups = new Map();
  for (const config of configs) {
    const value = valueOn(axis, config);
    const group = groups.get(value);
    if (group) group.push(config);
    else groups.set(value, [config]);
  }
  if (axis.kind === "choice" || groups.size <= GROUPS) return [...groups.values()];
  const sorted = [...groups].sort((a, b) => Number(a[0]) - Number(b[0])).flatMap(([, group]) => group);
  return Array.from({ length: GROUPS }, (_, place) =>
    sorted.slice(Math.floor((place * sorted.length) / GROUPS), Math.floor(((place + 1) * sorted.length) / GROUPS)),
  );
}

/** How much of the variance lies between the groups: the rest of it is within them.
 * @param {number[][]} groups @param {Map<number, number>} ranks */
function explained(groups, ranks) {
  const own = groups.map((group) => spread(group, ranks));
  const all = spread(groups.flat(), ranks);
  if (all.count <= groups.length || groups.length < 2 || !all.squares) return 0;
  const within = own.reduce((sum, { squares }) => sum + squares, 0);
  return Math.max(1 - within / (all.count - groups.length) / (all.squares / (all.count - 1)), 0);
}

/** @param {number[]} configs @param {Map<number, number>} ranks how many, and the sum of their squared distances from the mean */
function spread(configs, ranks) {
  let mean = 0;
  let squares = 0;
  let count = 0;
  for (const config of configs) {
    const rank = /** @type {number} */ (ranks.get(config));
    const apart = rank - mean;
    mean += apart / ++count;
    squares += apart * (rank - mean);
  }
  return { count, squares };
}
