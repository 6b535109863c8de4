// Where the stages of the tree lie.

/**
 * @typedef {import("./derive.js").Trial} Trial
 * @typedef {import("./derive.js").Stage} Stage
 */

/** The better of two values; what is not a number is no value. @param {number} a @param {number} b @param {number} sign */
export function better(a, b, sign) {
  return Number.isNaN(a) || sign * b > sign * a ? b : a;
}

/** Gives every stage its place: steps to the right, and as much height as trials share it. What leaves a node
 * lies below what stays on it, and the later it leaves, the closer.
 * @param {{count: number, parent: number[], start: number[], weight: Int32Array, reach: Int32Array, own: (Trial[]|undefined)[],
 *   children: (number[]|undefined)[], best: Float64Array, rowsOf: (Map<number, number>|undefined)[], measured: (number|null)[],
 *   trained: Int32Array, sign: number}} tree */
export function layOut({ count, parent, start, weight, own, reach, children, best, rowsOf, measured, trained, sign }) {
  /** @type {Stage[]} */
  const stages = [];
  const top = new Int32Array(count);
  /** @type {number[]} */
  const roots = [];
  let height = 0;
  for (let node = 0; node < count; node++) {
    if (!weight[node]) continue;
    if (parent[node] < 0) {
      roots.push(node);
      top[node] = height;
      height += weight[node];
    }
    /** @type {Map<number, {trials: number, children: number[], best: number}>} */
    const ends = new Map();
    /** @param {number} step */
    const at = (step) => {
      let end = ends.get(step);
      if (!end) ends.set(step, (end = { trials: 0, children: [], best: NaN }));
      return end;
    };
    for (const trial of own[node] ?? []) at(trial.asked).trials++;
    for (const child of children[node] ?? []) at(start[child]).children.push(child);
    for (const [step, row] of rowsOf[node] ?? []) {
      if (step > reach[node]) continue;
      // A result inside a stage belongs to it and to what comes before.
      let end = Infinity;
      for (const cut of ends.keys()) if (cut >= step && cut < end) end = cut;
      if (end < Infinity) at(end).best = better(at(end).best, measured[row] ?? NaN, sign);
    }
    const cuts = [...ends.keys()].sort((a, b) => b - a);
    let passing = 0;
    let under = NaN;
    cuts.forEach((to, place) => {
      const end = at(to);
      const before = place + 1 < cuts.length ? cuts[place + 1] : start[node];
      for (const child of end.children.reverse()) {
        top[child] = top[node] + passing;
        passing += weight[child];
        under = better(under, best[child], sign);
      }
      passing += end.trials;
      under = better(under, end.best, sign);
      stages.push({
        node, from: before, to, y: top[node], trials: passing, best: Number.isNaN(under) ? null : under, share: null,
        trained: Math.max(Math.min(trained[node], to), before),
      });
    });
  }
  return { stages, height, roots };
}
