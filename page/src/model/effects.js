// Which hyper-parameters matter: how much of the differences between trials each of them explains by itself.
//
// Trials are compared where they were measured together: each by its rank among those that were measured at the same
// step. Of the variance of these ranks, the part between the groups of equal values counts (numbers in at most eight
// groups of equal size), adjusted for what that many groups explain by chance.

/** @typedef {import("./configs.js").Axis} Axis */

const GROUPS = 8;
const FEWEST = 4;

/** @param {Axis[]} axes @param {Map<number, {step: number, score: number}[]>} measured scores by config
 * @returns {{axis: Axis, share: number, trials: number}[]} */
export function effects(axes, measured) {
  const ranks = ranksOf(measured);
  return axes
    .map((axis) => {
      const known = [...axis.of].filter(([config]) => ranks.has(config));
      const groups = grouped(axis, known);
      return { axis, share: explained(groups, ranks), trials: known.length };
    })
    .sort((a, b) => b.share - a.share);
}

/** @param {Map<number, {step: number, score: number}[]>} measured @returns {Map<number, number>} */
function ranksOf(measured) {
  /** @type {Map<number, [number, number][]>} */
  const bySteps = new Map();
  for (const [config, scores] of measured) {
    for (const { step, score } of scores) {
      let at = bySteps.get(step);
      if (!at) bySteps.set(step, (at = []));
      at.push([config, score]);
    }
  }
  /** @type {Map<number, {sum: number, count: number}>} */
  const totals = new Map();
  for (const at of bySteps.values()) {
    if (at.length < FEWEST) continue;
    at.sort((a, b) => a[1] - b[1]);
    for (let first = 0; first < at.length; ) {
      let last = first;
      while (last + 1 < at.length && at[last + 1][1] === at[first][1]) last++;
      for (let place = first; place <= last; place++) {
        const total = totals.get(at[place][0]) ?? { sum: 0, count: 0 };
        total.sum += (first + last) / 2 / (at.length - 1);
        total.count++;
        totals.set(at[place][0], total);
      }
      first = last + 1;
    }
  }
  return new Map([...totals].map(([config, { sum, count }]) => [config, sum / count]));
}

/** @param {Axis} axis @param {[number, number|string][]} known @returns {number[][]} configs in groups */
function grouped(axis, known) {
  /** @type {Map<number|string, number[]>} */
  const groups = new Map();
  for (const [config, value] of known) {
    const group = groups.get(value);
    if (group) group.push(config);
    else groups.set(value, [config]);
  }
  if (axis.kind === "choice" || groups.size <= GROUPS) return [...groups.values()];
  const sorted = [...known].sort((a, b) => Number(a[1]) - Number(b[1])).map(([config]) => config);
  return Array.from({ length: GROUPS }, (_, place) =>
    sorted.slice(Math.floor((place * sorted.length) / GROUPS), Math.floor(((place + 1) * sorted.length) / GROUPS)),
  );
}

/** @param {number[][]} groups @param {Map<number, number>} ranks */
function explained(groups, ranks) {
  const all = groups.flat().map((config) => /** @type {number} */ (ranks.get(config)));
  if (all.length <= groups.length || groups.length < 2) return 0;
  const mean = all.reduce((sum, rank) => sum + rank, 0) / all.length;
  const total = all.reduce((sum, rank) => sum + (rank - mean) ** 2, 0);
  if (!total) return 0;
  let within = 0;
  for (const group of groups) {
    const own = group.map((config) => /** @type {number} */ (ranks.get(config)));
    const middle = own.reduce((sum, rank) => sum + rank, 0) / own.length;
    within += own.reduce((sum, rank) => sum + (rank - middle) ** 2, 0);
  }
  return Math.max(1 - (within / (all.length - groups.length)) / (total / (all.length - 1)), 0);
}
