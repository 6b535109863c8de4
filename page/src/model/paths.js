// Which stages, trials and workers belong together: what lights up with a selection.

/**
 * @typedef {import("./derive.js").Model} Model
 * @typedef {import("./derive.js").Trial} Trial
 * @typedef {{kind: "trial", id: number} | {kind: "stage", node: number, from: number, to: number} | {kind: "worker", id: number} | {kind: "trials", ids: number[], label: string}} Item
 * @typedef {{nodes: Map<number, [number, number]>, trials: Set<number>, workers: Set<number>}} Lit
 */

/** The stretches on a trial's way, last first: a node, and the steps on it.
 * @param {Model} model @param {Trial} trial @returns {[number, number, number][]} */
export function pathOf(model, trial) {
  /** @type {[number, number, number][]} */
  const path = [];
  let node = trial.node;
  let step = trial.asked;
  while (node >= 0) {
    if (step > model.start[node]) path.push([node, model.start[node], step]);
    step = Math.min(step, model.start[node]);
    node = model.parent[node];
  }
  return path;
}

/** A trial's metrics by step: the rows of its results, in order.
 * @param {Model} model @param {Trial} trial @returns {[number, number][]} */
export function resultsOf(model, trial) {
  /** @type {[number, number][]} */
  const rows = [];
  for (const [node, , to] of pathOf(model, trial)) {
    for (const [step, row] of model.rowsOf[node] ?? []) if (step <= to) rows.push([step, row]);
  }
  return rows.sort((a, b) => a[0] - b[0]);
}

/** The trials that pass a step of a node, or end on the node after it.
 * @param {Model} model @param {number} node @param {number} after @returns {Trial[]} */
export function trialsThrough(model, node, after) {
  /** @type {Trial[]} */
  const found = [];
  /** @type {[number, number][]} */
  const left = [[node, after]];
  for (let next = left.pop(); next; next = left.pop()) {
    const [at, from] = next;
    for (const trial of model.own[at] ?? []) if (trial.asked > from) found.push(trial);
    for (const child of model.children[at] ?? []) if (model.start[child] > from) left.push([child, model.start[child]]);
  }
  return found;
}

/** How many steps two trials share.
 * @param {Model} model @param {Trial} one @param {Trial} other */
export function sharedSteps(model, one, other) {
  const reach = new Map(pathOf(model, one).map(([node, , to]) => [node, to]));
  let shared = 0;
  for (const [node, , to] of pathOf(model, other)) {
    const known = reach.get(node);
    if (known !== undefined) shared = Math.max(shared, Math.min(known, to));
  }
  return shared;
}

/** @param {Model} model @param {Item|null} item @param {Map<number, Trial>} byId @returns {Lit|null} */
export function litBy(model, item, byId) {
  if (!item) return null;
  /** @type {Lit} */
  const lit = { nodes: new Map(), trials: new Set(), workers: new Set() };
  /** @param {number} node @param {number} from @param {number} to */
  const light = (node, from, to) => {
    const known = lit.nodes.get(node);
    lit.nodes.set(node, known ? [Math.min(known[0], from), Math.max(known[1], to)] : [from, to]);
  };
  const { spans } = model.tables;
  if (item.kind === "worker") {
    lit.workers.add(item.id);
    for (let row = 0; row < spans.node.length; row++) {
      if (spans.worker[row] === item.id) light(spans.node[row], spans.first[row], spans.last[row]);
    }
    for (const lease of model.pulse?.leases ?? []) {
      if (lease.workers.includes(item.id)) for (const [node, from, to] of lease.path) light(node, from, to);
    }
    for (const trial of model.trials) {
      if (pathOf(model, trial).some(([node, , to]) => (lit.nodes.get(node)?.[0] ?? Infinity) < to)) lit.trials.add(trial.id);
    }
    return lit;
  }
  const trials =
    item.kind === "trial" ? [byId.get(item.id)] :
    item.kind === "trials" ? item.ids.map((id) => byId.get(id)) :
    trialsThrough(model, item.node, item.from);
  for (const trial of trials) if (trial) lit.trials.add(trial.id);
  if (item.kind === "stage" && !trials.length) light(item.node, item.from, item.to);
  for (const trial of trials) if (trial) for (const [node, from, to] of pathOf(model, trial)) light(node, from, to);
  for (let row = 0; row < spans.node.length; row++) {
    const known = lit.nodes.get(spans.node[row]);
    if (known && spans.first[row] < known[1] && spans.last[row] > known[0]) lit.workers.add(spans.worker[row]);
  }
  for (const lease of model.pulse?.leases ?? []) {
    if (lease.path.some(([node, from, to]) => overlaps(lit.nodes.get(node), from, to))) {
      for (const worker of lease.workers) lit.workers.add(worker);
    }
  }
  return lit;
}

/** @param {[number, number]|undefined} known @param {number} from @param {number} to */
export function overlaps(known, from, to) {
  return known !== undefined && from < known[1] && to > known[0];
}
