// What the views draw, from the tables: a pure function. Everything that is not a fact is made here.
import { better, layOut } from "./layout.js";
import { shareOf } from "./ranks.js";
import { stoppedTrials } from "./stops.js";

/**
 * @typedef {import("./tables.js").Tables} Tables
 * @typedef {{lease: number, study: string, workers: number[], path: [number, number, number][], at: number, end: number, began: number, width: number, proof: boolean}} Running
 * @typedef {{
 *   now: number, virtual?: boolean, workers: {idle: number[], expected: number}, leases: Running[],
 *   next: {study: string, node: number, start: number, goal: number, end: number, reach: number}[],
 *   limits: Record<string, {deadline: number|null, budget: number|null}>, usual: number|null, slots: number, chain: number,
 * }} Pulse
 * @typedef {"done"|"running"|"unfinished"|"failed"|"suspended"|"stopped"} State
 * @typedef {{
 *   id: number, study: number, number: number, config: number, node: number, asked: number, steps: number[],
 *   trained: number, state: State, at: number, row: number, value: number|null, error: string, rank: number, below: number,
 * }} Trial
 * @typedef {{node: number, from: number, to: number, y: number, trials: number, best: number|null, share: number|null, trained: number}} Stage
 * @typedef {ReturnType<typeof derive>} Model
 * @typedef {{study: number, metric: string, mode: "max"|"min"}} Aim
 */

/** @param {Tables} tables @param {Aim} aim @param {Pulse|null} pulse */
export function derive(tables, aim, pulse) {
  const { nodes, results, checkpoints, spans, failures } = tables;
  const count = nodes.parent.length;
  const { parent, start } = nodes;
  const sign = aim.mode === "min" ? -1 : 1;
  const measured = results.metrics[aim.metric] ?? [];

  // What is known along each node.
  /** @type {(Map<number, number>|undefined)[]} */
  const rowsOf = new Array(count);
  const trained = Int32Array.from(start);
  for (let row = 0; row < results.node.length; row++) {
    const node = results.node[row];
    (rowsOf[node] ??= new Map()).set(results.step[row], row);
    if (results.step[row] > trained[node]) trained[node] = results.step[row];
  }
  /** @type {(Map<number, number>|undefined)[]} */
  const keptOf = new Array(count);
  let bytes = 0;
  for (let row = 0; row < checkpoints.node.length; row++) {
    const node = checkpoints.node[row];
    const kept = (keptOf[node] ??= new Map());
    const before = kept.get(checkpoints.step[row]);
    if (before !== undefined) bytes -= checkpoints.bytes[before];
    kept.delete(checkpoints.step[row]);
    if (checkpoints.kept[row]) {
      kept.set(checkpoints.step[row], row);
      bytes += checkpoints.bytes[row];
      if (checkpoints.step[row] > trained[node]) trained[node] = checkpoints.step[row];
    }
  }
  let seconds = 0;
  let proofSteps = 0;
  for (let row = 0; row < spans.node.length; row++) {
    if (spans.kind[row] === "proof") {
      proofSteps += spans.last[row] - spans.first[row];
    } else {
      if (spans.last[row] > trained[spans.node[row]]) trained[spans.node[row]] = spans.last[row];
      seconds += (spans.ended[row] - spans.began[row]) * spans.width[row];
    }
  }
  /** @type {Map<number, Running>} */
  const runningOn = new Map();
  for (const lease of pulse?.leases ?? []) {
    for (const [node, from, to] of lease.path) {
      if (node >= count || lease.proof) continue;
      if (lease.at >= from && (lease.at < to || lease.at === lease.end)) runningOn.set(node, lease);
      const there = Math.min(to, lease.at);
      if (there > trained[node]) trained[node] = there;
    }
  }
  /** @type {Map<number, number>} the row of the failure that keeps a node from going on */
  const failedAt = new Map();
  /** @type {Map<string, number>} the row of the failure that keeps a position from being measured */
  const unmeasured = new Map();
  for (let row = 0; row < failures.node.length; row++) {
    const node = failures.node[row];
    const step = failures.step[row];
    const known = failedAt.get(node);
    if (failures.kind[row] === "cleared") {
      if (known !== undefined && failures.step[known] === step) failedAt.delete(node);
      unmeasured.delete(`${node} ${step}`);
    } else if (failures.kind[row] === "evaluation") unmeasured.set(`${node} ${step}`, row);
    else if (known === undefined || step < failures.step[known]) failedAt.set(node, row);
  }

  /** @param {number} node @param {number} step */
  const holder = (node, step) => {
    while (step <= start[node] && parent[node] >= 0) node = parent[node];
    return node;
  };

  // Trials.
  const trials = trialsOf(tables, aim.study);
  const stopped = stoppedTrials(tables);
  for (const trial of trials) {
    trial.node = holder(trial.node, trial.asked);
    let node = trial.node;
    let step = trial.asked;
    let looking = true;
    while (node >= 0) {
      if (trial.row < 0) {
        const rows = rowsOf[node];
        if (rows) {
          for (const [at, row] of rows) if (at <= step && at > trial.at) [trial.at, trial.row] = [at, row];
        }
      }
      if (trial.trained < 0 && trained[node] > start[node]) trial.trained = Math.min(trained[node], step);
      if (looking) {
        let kept = -1;
        for (const at of keptOf[node]?.keys() ?? []) if (at <= step && at > kept) kept = at;
        const row = failedAt.get(node);
        if (row !== undefined && kept < failures.step[row] && failures.step[row] <= step) {
          trial.state = failures.kind[row] === "suspended" ? "suspended" : "failed";
          trial.error = failures.error[row];
          looking = false;
        }
        if (kept >= 0) looking = false;
      }
      const lease = runningOn.get(node);
      if (trial.state === "unfinished" && lease && lease.at < step) trial.state = "running";
      step = Math.min(step, start[node]);
      node = parent[node];
    }
    if (trial.trained < 0) trial.trained = 0;
    const lacking = unmeasured.get(`${trial.node} ${trial.asked}`);
    if (lacking !== undefined) [trial.state, trial.error] = ["failed", failures.error[lacking]];
    else if (rowsOf[trial.node]?.has(trial.asked) && trial.state !== "failed") trial.state = "done";
    if ((trial.state === "running" || trial.state === "unfinished") && stopped.has(`${trial.study} ${trial.number}`)) trial.state = "stopped";
    trial.value = trial.row < 0 ? null : (measured[trial.row] ?? null);
  }
  const ranked = trials.filter((trial) => trial.value !== null);
  ranked.sort((a, b) => sign * (/** @type {number} */ (b.value) - /** @type {number} */ (a.value)) || b.at - a.at || a.number - b.number);
  ranked.forEach((trial, place) => (trial.rank = place + 1));

  // The tree: how many trials pass where, and which value is the best that came of it.
  const weight = new Int32Array(count);
  const reach = new Int32Array(count).fill(-1);
  /** @type {(Trial[]|undefined)[]} */
  const own = new Array(count);
  for (const trial of trials) {
    weight[trial.node]++;
    (own[trial.node] ??= []).push(trial);
    reach[trial.node] = Math.max(reach[trial.node], trial.asked);
  }
  /** @type {(number[]|undefined)[]} */
  const children = new Array(count);
  const best = new Float64Array(count).fill(NaN);
  for (let node = count - 1; node >= 0; node--) {
    if (!weight[node]) continue;
    const above = parent[node];
    const rows = rowsOf[node];
    if (rows) {
      for (const [step, row] of rows) {
        if (step <= reach[node]) best[node] = better(best[node], measured[row] ?? NaN, sign);
      }
    }
    if (above >= 0) {
      weight[above] += weight[node];
      reach[above] = Math.max(reach[above], start[node]);
      (children[above] ??= []).push(node); // the later ones first
      best[above] = better(best[above], best[node], sign);
    }
  }
  const { stages, height, roots } = layOut({ count, parent, start, weight, reach, own, children, best, rowsOf, measured, trained, sign });

  let asked = 0;
  for (const trial of trials) asked += trial.asked;
  let unique = 0;
  let done = 0;
  let last = 0;
  for (let node = 0; node < count; node++) {
    if (reach[node] < 0) continue;
    unique += reach[node] - start[node];
    done += Math.max(Math.min(trained[node], reach[node]) - start[node], 0);
    last = Math.max(last, reach[node]);
  }
  const progress = bestSoFar({ results, measured, parent, start, reach, trials, holder, sign, count });
  const values = stages.map((stage) => stage.best).filter((value) => value !== null);
  values.sort((a, b) => sign * (a - b));
  for (const stage of stages) stage.share = shareOf(values, sign, stage.best);
  return {
    tables, aim, sign, pulse, count, parent, start, reach, trained, weight, children, own, rowsOf, keptOf, failedAt,
    unmeasured, runningOn, measured, stages, height, roots, trials, ranked, best: progress.best, progress,
    totals: { asked, unique, done, seconds, proofSteps, bytes, last }, values, holder,
    metrics: Object.keys(results.metrics),
  };
}

/** @param {Tables} tables @param {number} study @returns {Trial[]} */
function trialsOf({ trials, asks }, study) {
  /** @type {(Trial|undefined)[]} */
  const found = new Array(trials.number.length);
  for (let row = 0; row < asks.trial.length; row++) {
    const id = asks.trial[row];
    if (study >= 0 && trials.study[id] !== study) continue;
    const step = asks.step[row];
    let trial = found[id];
    if (!trial) {
      trial = found[id] = {
        id, study: trials.study[id], number: trials.number[id], config: trials.config[id], node: -1, asked: -1,
        steps: [], trained: -1, state: "unfinished", at: -1, row: -1, value: null, error: "", rank: 0, below: 0,
      };
    }
    trial.steps.push(step);
    if (step > trial.asked) [trial.asked, trial.node] = [step, asks.node[row]];
  }
  const listed = /** @type {Trial[]} */ (found.filter(Boolean));
  for (const trial of listed) trial.steps.sort((a, b) => a - b);
  return listed;
}

/** The best value over the unique steps that it took, in the order of the results.
 * @param {any} given */
function bestSoFar({ results, measured, parent, start, reach, trials, holder, sign, count }) {
  /** @type {Map<string, Trial>} the trial that asked for a position first */
  const asked = new Map();
  for (const trial of trials) {
    for (const step of trial.steps) {
      const key = `${holder(trial.node, step)} ${step}`;
      if (!asked.has(key)) asked.set(key, trial);
    }
  }
  const extent = Int32Array.from(start);
  let steps = 0;
  /** @type {number[]} */
  const x = [0];
  /** @type {(number|null)[]} */
  const y = [null];
  /** @type {{trial: Trial, step: number, value: number, row: number}|null} */
  let best = null;
  for (let row = 0; row < results.node.length; row++) {
    let node = results.node[row];
    let step = results.step[row];
    if (node >= count || reach[node] < 0 || step > reach[node]) continue;
    while (node >= 0 && step > extent[node]) {
      steps += step - extent[node];
      extent[node] = step;
      step = start[node];
      node = parent[node];
    }
    const trial = asked.get(`${results.node[row]} ${results.step[row]}`);
    const value = measured[row];
    if (!trial || value === null || value === undefined) continue;
    const gain = best === null ? 1 : sign * (value - best.value) || results.step[row] - best.step;
    if (gain > 0) best = { trial, step: results.step[row], value, row };
    if (x[x.length - 1] === steps) y[y.length - 1] = best?.value ?? null;
    else {
      x.push(steps);
      y.push(best?.value ?? null);
    }
  }
  return { x, y, best };
}
