// The facts as columns, as they come from Python. Tables only grow: what comes is put behind what is there.

/**
 * @typedef {{
 *   names: {name: string[]},
 *   forms: {name: number[], label: string[], leaves: string[][]},
 *   sequences: {form: number[], text: string[], value: (number|string|boolean|null)[], arguments: (number|string|boolean|null)[][]},
 *   configs: {sequences: number[][]},
 *   studies: {name: string[]},
 *   nodes: {parent: number[], start: number[], config: number[], changes: string[][]},
 *   trials: {study: number[], number: number[], config: number[]},
 *   asks: {trial: number[], step: number[], node: number[]},
 *   results: {order: number[], node: number[], step: number[], metrics: Record<string, (number|null)[]>},
 *   failures: {order: number[], node: number[], step: number[], kind: string[], error: string[]},
 *   checkpoints: {node: number[], step: number[], bytes: number[], kept: number[]},
 *   spans: {worker: number[], lease: number[], node: number[], kind: string[], first: number[], last: number[], began: number[], ended: number[], width: number[]},
 *   tunings: {study: number[], number: number[], time: number[], metric: string[], mode: ("max"|"min")[], tuner: string[]},
 *   ends: {study: number[], number: number[], time: number[], outcome: string[], text: string[]},
 *   stops: {study: number[], trial: number[], time: number[], by: string[]},
 *   pins: {node: number[], step: number[], pinned: boolean[]},
 *   proofs: {kind: string[], node: number[], step: number[], outcome: string[], text: string[]},
 * }} Tables
 * @typedef {Record<string, Record<string, any>>} Delta
 */

/** @returns {Tables} */
export function emptyTables() {
  return {
    names: { name: [] },
    forms: { name: [], label: [], leaves: [] },
    sequences: { form: [], text: [], value: [], arguments: [] },
    configs: { sequences: [] },
    studies: { name: [] },
    nodes: { parent: [], start: [], config: [], changes: [] },
    trials: { study: [], number: [], config: [] },
    asks: { trial: [], step: [], node: [] },
    results: { order: [], node: [], step: [], metrics: {} },
    failures: { order: [], node: [], step: [], kind: [], error: [] },
    checkpoints: { node: [], step: [], bytes: [], kept: [] },
    spans: { worker: [], lease: [], node: [], kind: [], first: [], last: [], began: [], ended: [], width: [] },
    tunings: { study: [], number: [], time: [], metric: [], mode: [], tuner: [] },
    ends: { study: [], number: [], time: [], outcome: [], text: [] },
    stops: { study: [], trial: [], time: [], by: [] },
    pins: { node: [], step: [], pinned: [] },
    proofs: { kind: [], node: [], step: [], outcome: [], text: [] },
  };
}

/** Puts what came behind what is there.
 * @param {Tables} tables @param {Delta} delta */
export function append(tables, delta) {
  for (const [table, columns] of Object.entries(delta)) {
    const known = /** @type {Record<string, any>} */ (tables)[table];
    if (!known) continue; // a newer server's
    for (const [name, column] of Object.entries(columns)) {
      if (name !== "metrics" && known[name]) extend(known[name], column);
    }
  }
  const { metrics, node } = tables.results;
  for (const [name, column] of Object.entries(delta.results?.metrics ?? {})) {
    metrics[name] ??= [];
    pad(metrics[name], node.length - column.length);
    extend(metrics[name], column);
  }
  for (const column of Object.values(metrics)) pad(column, node.length);
}

/** @param {any[]} column @param {any[]} more */
function extend(column, more) {
  for (let i = 0; i < more.length; i++) column.push(more[i]);
}

/** @param {(number|null)[]} column @param {number} length */
function pad(column, length) {
  while (column.length < length) column.push(null);
}
